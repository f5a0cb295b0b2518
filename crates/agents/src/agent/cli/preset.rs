//! What pleach knows of the agents that are programs. It is data: a table that comes with pleach, and what the
//! configuration says over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::mcp_preset::McpPreset;
use super::version::is_older;
use crate::llm::wire::Format;
use pleach_core::config::{AgentSettings, AgentStdin, Environment, ParserName, ProviderName, TurnMode, at_home, moved};

/// How a program is driven as an agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What people call it.
    pub title: String,
    /// The program.
    pub program: String,
    /// Files and directories of a repository that tell it what to run, or where to send keys: hooks, servers, plugins,
    /// variables.
    #[serde(default)]
    pub obeys: Vec<String>,
    /// The oldest version that does what is asked of it here.
    #[serde(default)]
    pub oldest: String,
    /// The command that installs it.
    pub install: String,
    /// How its user logs in.
    pub log_in: String,
    /// Who serves its models.
    pub provider: ProviderName,
    /// The API format it uses with them.
    pub speaks: Language,
    /// What its output is.
    pub parser: ParserName,
    /// What it reads.
    pub stdin: AgentStdin,
    /// Its turn modes; the first that is possible is taken.
    pub turns: Vec<TurnMode>,
    /// Its arguments. A word that is a placeholder without a value is left out, with the option before it.
    pub argv: Vec<String>,
    /// Its arguments where it resumes a conversation, if they are others.
    #[serde(default)]
    pub resume: Vec<String>,
    /// What stands for `{permissions}`.
    pub permissions: Permissions,
    /// How it is kept to some of its tools.
    #[serde(default)]
    pub tools: ToolOptions,
    /// Further arguments with `turns: hooks`.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// How it is given the server of its tools.
    #[serde(default)]
    pub mcp: McpPreset,
    /// Variables it always gets: no updates, no traffic beside the work, few retries.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables it gets only inside a sandbox.
    #[serde(default)]
    pub bounded_env: BTreeMap<String, String>,
    /// Variables that hold its key, first the ones it prefers.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Variables by which its user lets a cloud serve its models, and the cloud that is paid then.
    #[serde(default)]
    pub clouds: BTreeMap<String, String>,
    /// Files below the home directory that hold its login.
    #[serde(default)]
    pub logins: Vec<String>,
    /// Further files below the home directory that hold keys, and which it needs.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Files below the home directory by which its user may have given it another way to a model. Where they are listed
    /// and none of them is there, it can do nothing without a key or a login.
    #[serde(default)]
    pub other_ways: Vec<String>,
    /// What it must be able to write below the home directory: its conversations and state, and nothing that says what
    /// it runs another time, such as settings, hooks and plugins.
    #[serde(default)]
    pub keeps: Vec<String>,
    /// How it keeps that in a home of the session's own, where in the user's it lies among what it runs.
    #[serde(default)]
    pub separate_home: SeparateHome,
    /// What some exit codes mean.
    #[serde(default)]
    pub exits: BTreeMap<i32, String>,
    /// Over the Agent Client Protocol it talks to a server of its own on loopback. A sandbox that opens nothing but the
    /// gateway to it forbids that, so it goes there only when configured.
    #[serde(default)]
    pub serves_itself: bool,
    /// How it is configured to call its model through the gateway.
    #[serde(default)]
    pub gateway: GatewayPreset,
}

/// How a program keeps what it writes apart from the user's home.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeparateHome {
    /// Variables that lead it to another home, with `{home}`; none where it stays in the user's.
    pub env: BTreeMap<String, String>,
    /// What of the user's home it finds there by links: its settings and its login.
    pub links: Vec<String>,
    /// Which of these it writes beside its login: further logins it renews, and the lock by which it takes turns at
    /// that with others of its kind.
    #[serde(default)]
    pub written: Vec<String>,
}

/// The API format a program uses with its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions.
    Chat,
    /// Google's generateContent.
    Gemini,
}

/// What a program may do without asking, as arguments.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    /// Where nothing else holds it.
    pub usual: Vec<String>,
    /// In a sandbox.
    pub bounded: Vec<String>,
    /// As the configuration says, with `{permission_mode}`.
    pub given: Vec<String>,
    /// Where the node has no tools.
    pub no_tools: Vec<String>,
    /// In a sandbox where it uses the Agent Client Protocol, and asks for the rest: no sandbox of its own, where it
    /// cannot be nested.
    #[serde(default)]
    pub bounded_over_acp: Vec<String>,
}

/// How a program is kept to some of its tools.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOptions {
    /// Arguments, with `{tools}` for their names; none where it cannot be done.
    pub args: Vec<String>,
    /// What the program calls the tools of the built-in agent. Others have the names it gives them.
    pub names: BTreeMap<String, String>,
}

/// How a program is configured to call its model at another address.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayPreset {
    /// Arguments, with `{base_url}`, which is without the gateway's secret here: everybody can read a command line. The
    /// program must send its key.
    pub args: Vec<String>,
    /// What stands for `{model}` in the arguments.
    pub model: Option<String>,
    /// Variables, with `{base_url}`, `{root_url}` (without a version), `{key}`, `{home}` and `{model}`.
    pub env: BTreeMap<String, String>,
    /// Variables that must not be set.
    pub unset: Vec<String>,
    /// Directories in the agent's own home that must be there.
    pub directories: Vec<String>,
    /// Files in the agent's own home.
    pub files: BTreeMap<String, String>,
    /// Files in the agent's own home that are rewritten for every run, with `{base_url}` as arguments have it.
    pub settings: BTreeMap<String, String>,
    /// The API formats it can be configured for, where there are several, and what stands for `{sdk}` and `{version}`
    /// then.
    pub dialects: BTreeMap<Language, Dialect>,
}

/// How a program is configured for one of several API formats.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dialect {
    /// The library it uses.
    pub sdk: String,
    /// What that library wants behind an address that has no version.
    pub version: String,
}

impl GatewayPreset {
    /// The variables most programs read, whatever format they use.
    fn of_any_language() -> Self {
        let env = [
            ("ANTHROPIC_BASE_URL", "{root_url}"),
            ("OPENAI_BASE_URL", "{base_url}"),
            ("OPENAI_API_BASE", "{base_url}"),
            ("GOOGLE_GEMINI_BASE_URL", "{root_url}"),
            ("ANTHROPIC_API_KEY", "{key}"),
            ("OPENAI_API_KEY", "{key}"),
            ("GEMINI_API_KEY", "{key}"),
        ];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { env, ..Self::default() }
    }
}

static TABLE: LazyLock<BTreeMap<String, Preset>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("presets.json")).expect("the table was read by this module's tests")
});

impl Preset {
    /// Where what it writes for itself is, when it runs in the user's home.
    pub fn kept_in(&self, environment: &Environment) -> Vec<PathBuf> {
        places(&self.keeps, environment)
    }

    /// Where its login is, when it runs in the user's home.
    pub fn logins_in(&self, environment: &Environment) -> Vec<PathBuf> {
        places(&self.logins, environment)
    }

    /// Its own of what may be hidden from agents, when it runs in the user's home: its logins, its settings and further
    /// files with keys. A program the settings bring along is known by its bare name, as PATH finds it.
    pub fn own_files_in(&self, environment: &Environment) -> Vec<PathBuf> {
        let known = TABLE.values().filter(|preset| preset.program == self.program);
        let own = known.chain([self]).map(|preset| [&preset.logins, &preset.reads, &preset.separate_home.links]);
        own.flatten().flat_map(|files| places(files, environment)).collect()
    }

    /// Whether it can do nothing without a key or a login, as far as files can tell. A keyring of the system cannot be
    /// looked into.
    pub fn needs_login(&self, environment: &Environment) -> bool {
        let other = places(&self.other_ways, environment);
        !cfg!(target_os = "macos") && !other.is_empty() && !other.iter().any(|file| file.exists())
    }

    /// Whether it can run without tools. A program of the user's own gets nothing but its task.
    pub fn can_go_without_tools(&self, is_command: bool) -> bool {
        is_command || !self.permissions.no_tools.is_empty()
    }

    /// Whether these further arguments can limit it to some of its tools.
    pub fn can_be_given_tools(&self, args: &[String]) -> bool {
        self.tools.args.iter().chain(&self.argv).chain(args).any(|word| word.contains("{tools}"))
    }

    /// These tools by the names it has for them, in a word.
    pub fn tools_in_a_word(&self, tools: &[String]) -> String {
        let own = |tool: &String| self.tools.names.get(tool).unwrap_or(tool).clone();
        tools.iter().map(own).collect::<Vec<_>>().join(",")
    }

    /// The preset of a kind of agent.
    pub fn of(kind: &str) -> Option<&'static Self> {
        TABLE.get(kind)
    }

    /// The kinds of agents that have one.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        TABLE.keys().map(String::as_str)
    }

    /// Any program, which reads the task and says what it did.
    pub fn of_command(argv: &[String]) -> Self {
        let (program, argv) =
            argv.split_first().map_or((String::new(), Vec::new()), |(program, argv)| (program.clone(), argv.to_vec()));
        Self {
            title: program.clone(),
            obeys: Vec::new(),
            oldest: String::new(),
            install: String::new(),
            log_in: String::new(),
            provider: ProviderName::COMPATIBLE,
            speaks: Language::Chat,
            parser: ParserName::None,
            stdin: AgentStdin::Prompt,
            turns: vec![TurnMode::Node, TurnMode::Stream, TurnMode::Gateway],
            argv,
            program,
            resume: Vec::new(),
            permissions: Permissions::default(),
            tools: ToolOptions::default(),
            hooks: Vec::new(),
            mcp: McpPreset::default(),
            env: BTreeMap::new(),
            bounded_env: BTreeMap::new(),
            keys: Vec::new(),
            clouds: BTreeMap::new(),
            logins: Vec::new(),
            reads: Vec::new(),
            other_ways: Vec::new(),
            keeps: Vec::new(),
            separate_home: SeparateHome::default(),
            exits: BTreeMap::new(),
            serves_itself: false,
            gateway: GatewayPreset::of_any_language(),
        }
    }

    /// The same with what the configuration says over it.
    pub fn with(mut self, settings: &AgentSettings) -> Self {
        if let Some((program, argv)) = settings.command.split_first() {
            self.program.clone_from(program);
            self.argv = argv.to_vec();
            self.resume.clear();
            // Who writes the whole command line says in it where the tools go.
            self.tools.args.clear();
            self.mcp.args.clear();
            // The task is in the arguments, so it is not read as well unless that is said.
            let in_arguments = argv.iter().any(|word| word.contains("{prompt}") || word.contains("{prompt_file}"));
            self.stdin = if in_arguments { AgentStdin::None } else { AgentStdin::Prompt };
        }
        self.stdin = settings.stdin.unwrap_or(self.stdin);
        self.parser = settings.parser.unwrap_or(self.parser);
        self.provider = settings.provider.clone().unwrap_or(self.provider);
        self.env.extend(settings.env.clone());
        self
    }

    /// The same in the format of its provider, where it can be configured for that.
    pub fn speaking(mut self, format: Format) -> Self {
        let language = match format {
            Format::Anthropic => Language::Anthropic,
            Format::Responses => Language::Responses,
            Format::Chat => Language::Chat,
            Format::Gemini => Language::Gemini,
        };
        if self.gateway.dialects.contains_key(&language) {
            self.speaks = language;
        }
        self
    }

    /// Whether it is one of the agents pleach knows, and not a program that may be anything.
    pub fn is_known(&self) -> bool {
        !self.install.is_empty()
    }

    /// The API format it uses with its provider.
    pub fn format(&self) -> Format {
        match self.speaks {
            Language::Anthropic => Format::Anthropic,
            Language::Responses => Format::Responses,
            Language::Chat => Format::Chat,
            Language::Gemini => Format::Gemini,
        }
    }

    /// What to say of a version that is too old, if it is.
    pub(super) fn outdated(&self, version: &str) -> Option<String> {
        let Self { title, oldest, install, .. } = self;
        let says =
            || format!("{title} {version} is older than {oldest} and may not be understood; `{install}` updates it");
        (!oldest.is_empty() && is_older(version, oldest)).then(says)
    }

    /// Whether it can resume a conversation.
    pub fn resumes(&self) -> bool {
        !self.resume.is_empty() || self.argv.iter().any(|word| word.contains("{session}"))
    }
}

/// Where files and directories of the user's home are.
pub(super) fn places(below_home: &[String], environment: &Environment) -> Vec<PathBuf> {
    below_home.iter().filter_map(|below| place(below, environment)).collect()
}

/// Where a file or directory of the user's home is.
pub(super) fn place(below: &str, environment: &Environment) -> Option<PathBuf> {
    let below = Path::new(below);
    moved(below, environment).next().or_else(|| at_home(below, environment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::cli::separate_home::kept_paths;
    use pleach_core::config::SandboxSettings;

    #[test]
    fn agent_files_follow_environment_variables() {
        let environment =
            Environment::from_pairs([("HOME", "/h"), ("XDG_DATA_HOME", "/data"), ("XDG_CACHE_HOME", "x")]);
        let kept = Preset::of("opencode").unwrap().kept_in(&environment);
        for place in ["/data/opencode", "/h/.local/state/opencode", "/h/.cache/opencode"] {
            assert!(kept.contains(&PathBuf::from(place)), "{place} is not in {kept:?}");
        }
        let environment = Environment::from_pairs([("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x")]);
        let has = |kept: Vec<PathBuf>, place: &str| assert!(kept.contains(&PathBuf::from(place)), "{kept:?}");
        has(Preset::of("claude").unwrap().kept_in(&environment), "/c/projects");
        has(Preset::of("claude").unwrap().logins_in(&environment), "/c/.credentials.json");
        has(Preset::of("codex").unwrap().kept_in(&environment), "/x/sessions");
        let environment = Environment::from_pairs([("HOME", "/h"), ("GEMINI_CLI_HOME", "/g")]);
        has(Preset::of("gemini").unwrap().logins_in(&environment), "/g/.gemini/oauth_creds.json");
    }

    #[test]
    fn agents_cannot_write_what_says_what_they_run() {
        let environment = Environment::from_pairs([("HOME", "/h")]);
        for (name, preset) in TABLE.iter() {
            let kept = kept_paths(preset, &environment, Path::new("/s"));
            let beside = places(&preset.separate_home.written, &environment);
            let kept = [kept, preset.logins_in(&environment), beside].concat();
            for steering in [
                ".claude.json",
                ".claude/settings.json",
                ".claude/plugins/x",
                ".claude/agents/x",
                ".claude/shell-snapshots/x.sh",
                ".claude/session-env/x",
                ".codex/config.toml",
                ".codex/hooks.json",
                ".gemini/settings.json",
                ".gemini/extensions/x",
                ".gemini/tmp/bin/rg",
                ".cache/opencode/bin/rg",
                ".cache/opencode/node_modules/x/index.js",
                ".local/share/opencode/snapshot/x/config",
                ".config/opencode/opencode.json",
                ".config/opencode/plugin/x.js",
            ] {
                let file = Path::new("/h").join(steering);
                assert!(!kept.iter().any(|kept| file.starts_with(kept)), "{name} could write {steering}");
            }
        }
    }

    #[test]
    fn presets_know_who_can_run_without_tools() {
        let can = |name: &str| Preset::of(name).unwrap().can_go_without_tools(false);
        assert_eq!(["claude", "codex", "gemini", "opencode"].map(can), [true, true, true, false]);
    }

    #[test]
    fn variables_that_bypass_the_gateway_are_unset() {
        let table: [(&str, &[&str]); 4] = [
            (
                "claude",
                &[
                    "CLAUDE_CONFIG_DIR",
                    "CLAUDE_CODE_USE_BEDROCK",
                    "CLAUDE_CODE_USE_VERTEX",
                    "CLAUDE_CODE_USE_FOUNDRY",
                    "ANTHROPIC_BEDROCK_BASE_URL",
                    "ANTHROPIC_CUSTOM_HEADERS",
                    "ANTHROPIC_UNIX_SOCKET",
                ],
            ),
            ("codex", &["CODEX_HOME", "CODEX_SQLITE_HOME", "OPENAI_BASE_URL"]),
            (
                "gemini",
                &[
                    "GEMINI_CLI_HOME",
                    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
                    "GOOGLE_GENAI_USE_VERTEXAI",
                    "GOOGLE_VERTEX_BASE_URL",
                ],
            ),
            ("opencode", &["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_CONTENT"]),
        ];
        for (name, leading) in table {
            let preset = Preset::of(name).unwrap();
            let GatewayPreset { env, unset, .. } = &preset.gateway;
            for variable in leading.iter().copied().chain(preset.clouds.keys().map(String::as_str)) {
                assert!(
                    env.contains_key(variable) || unset.iter().any(|unset| unset == variable),
                    "{name}: {variable}"
                );
            }
            for variable in unset {
                assert!(!env.contains_key(variable) && !preset.env.contains_key(variable), "{name}: {variable}");
            }
            for key in &preset.keys {
                assert!(env.contains_key(key) || unset.contains(key), "{name}: the user's own {key} is left");
            }
        }
    }

    #[test]
    fn what_agents_log_in_with_is_hidden_from_others() {
        let hidden: Vec<String> = SandboxSettings::default().hide.iter().map(ToString::to_string).collect();
        for (name, preset) in TABLE.iter() {
            for file in preset.logins.iter().chain(&preset.reads) {
                assert!(hidden.contains(&format!("~/{file}")), "{name}: {file}");
            }
        }
    }

    #[test]
    fn the_presets_cover_every_cli_agent() {
        assert_eq!(TABLE.keys().collect::<Vec<_>>(), ["claude", "codex", "gemini", "opencode"]);
        for (name, preset) in TABLE.iter() {
            assert!(preset.resumes(), "{name}");
            assert!(preset.turns.contains(&TurnMode::Node) && preset.turns[0] == TurnMode::Gateway, "{name}");
            assert!(preset.argv.iter().any(|word| word == "{permissions}"), "{name} says what is allowed");
            assert!(!preset.keys.is_empty() && !preset.logins.is_empty() && !preset.install.is_empty(), "{name}");
            assert_eq!(preset.stdin, AgentStdin::Prompt, "a long task is no argument: {name}");
            for file in preset.gateway.files.iter().filter(|(name, _)| name.ends_with(".json")) {
                serde_json::from_str::<serde_json::Value>(file.1).unwrap();
            }
        }
        assert!(Preset::of("aider").is_none());
    }

    #[test]
    fn the_configuration_overrides_the_presets() {
        let settings = AgentSettings {
            command: vec!["my-claude".into(), "--file".into(), "{prompt_file}".into()],
            parser: Some(ParserName::Jsonl),
            env: BTreeMap::from([("A".into(), "b".into())]),
            ..AgentSettings::default()
        };
        let preset = Preset::of("claude").unwrap().clone().with(&settings);
        assert_eq!((preset.program.as_str(), preset.argv.len()), ("my-claude", 2));
        assert_eq!((preset.parser, preset.stdin, preset.resumes()), (ParserName::Jsonl, AgentStdin::None, false));
        assert_eq!((preset.env["A"].as_str(), preset.env["DISABLE_AUTOUPDATER"].as_str()), ("b", "1"));
    }
}
