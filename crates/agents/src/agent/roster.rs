//! Which agent runs a node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::acp::known as acp_known;
use super::cli::{CliSettings, Introduction, Preset, Versions, find_program};
use super::no_agent::NoAgent;
use super::{AcpAgent, Agent, Builtin, CliAgent, CommandAgent, ConfiguredTools, Profile, Simulated};
use crate::gateway::Upstream;
use crate::llm::{ModelNames, NoProvider, Prices, Pricing, Provider, Providers, usual_model};
use os::process::{Cancel, Spawner};
use pleach_core::config::{AgentChoice, AgentSettings, Config, Environment, InvalidAgent, ProviderName, TurnMode};
use pleach_core::plan::pipeline::Node;

/// The agents of a run: the one the configuration names for all nodes, and those it gives names to.
#[derive(Debug, Clone)]
pub struct Roster {
    config: Arc<Config>,
    profiles: BTreeMap<String, Profile>,
    providers: Providers,
    spawner: Spawner,
    environment: Environment,
    versions: Versions,
    hook: Vec<OsString>,
    server: Vec<OsString>,
    /// Where programs that are named by a path are looked for; where they work if not given.
    root: Option<PathBuf>,
}

/// The turn modes that are possible for an agent.
#[derive(Debug, Clone, Copy)]
struct Ways<'a> {
    /// All ways, the best first.
    all: &'a [TurnMode],
    /// Whether its output is read.
    speaks: bool,
    /// Why there is no other.
    why_not: &'static str,
}

/// An agent in the format of its provider.
fn answered_by(preset: Preset, upstream: &Result<Upstream, NoProvider>) -> Preset {
    let Ok(Upstream::Remote(remote)) = upstream else { return preset };
    let mut preset = preset.speaking(remote.format());
    if !preset.gateway.dialects.is_empty() {
        preset.provider = remote.provider().clone();
    }
    preset
}

/// Refuses a provider without its API format.
fn understood(preset: &Preset, upstream: Upstream) -> Result<Upstream, NoAgent> {
    match &upstream {
        // An unknown program may use any format.
        Upstream::Remote(remote) if preset.is_known() && !remote.supports(preset.format()) => Err(NoAgent::Language {
            agent: preset.title.clone(),
            language: preset.format().api(),
            provider: remote.name().to_owned(),
        }),
        _ => Ok(upstream),
    }
}

impl Roster {
    /// The agents of `config`. The built-in one asks `providers`; programs are started by `spawner`.
    pub fn new(config: &Config, providers: impl Into<Providers>, spawner: Spawner) -> Self {
        let profiles = config.agents.iter().map(|(name, agent)| (name.clone(), Profile::of(agent))).collect();
        Self {
            config: Arc::new(config.clone()),
            profiles,
            providers: providers.into(),
            spawner,
            environment: Environment::default(),
            versions: Versions::default(),
            hook: Vec::new(),
            server: Vec::new(),
            root: None,
        }
    }

    /// The same with these profiles in place of those without their files.
    pub fn with_profiles(self, profiles: BTreeMap<String, Profile>) -> Self {
        Self { profiles, ..self }
    }

    /// The same for agents that are programs: they are looked for on the PATH of this environment, and use its keys and
    /// its home. `hook` is the program, with arguments, that calls [`hook_main`](super::hook_main).
    pub fn with_programs(self, environment: &Environment, hook: Vec<OsString>) -> Self {
        Self { environment: environment.clone(), hook, ..self }
    }

    /// The same for agents that are programs and use tool servers: `server` is the program, with arguments, that calls
    /// [`tools_main`](super::tools_main).
    pub fn with_tool_server(self, server: Vec<OsString>) -> Self {
        Self { server, ..self }
    }

    /// The same for agents that work outside of worktrees: a program named by a path is looked for from `root`.
    pub fn with_programs_below(self, root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..self }
    }

    /// Whether a node is only simulated.
    pub fn simulates(&self, node: &Node) -> bool {
        self.choice(node).is_ok_and(|choice| choice == AgentChoice::Simulation)
    }

    /// What kind of agent a node has: the one it names, else the configured one.
    pub fn choice(&self, node: &Node) -> Result<AgentChoice, NoAgent> {
        self.config.agent_of(node.agent.as_deref()).map_err(|error| self.unknown(&error))
    }

    /// What the agent of a node is called: by the node, by the configuration, or after its kind.
    pub fn name(&self, node: &Node) -> Result<String, NoAgent> {
        let choice = self.choice(node)?;
        let of_run = || self.config.agent.as_ref().map_or_else(|| choice.to_string(), ToString::to_string);
        Ok(node.agent.clone().unwrap_or_else(of_run))
    }

    /// What kind of agent a name stands for.
    pub fn choice_of(&self, name: &str) -> Result<AgentChoice, NoAgent> {
        self.config.agent_of(Some(name)).map_err(|error| self.unknown(&error))
    }

    fn unknown(&self, error: &InvalidAgent) -> NoAgent {
        let is_own = |name: &&String| name.parse::<AgentChoice>().is_err();
        let named = self.config.agents.keys().filter(is_own).cloned().collect();
        NoAgent::Unknown { why: error.to_string(), named }
    }

    /// The profile of an agent. One that names no model has that of the entry below it, which it refines.
    fn profile(&self, name: Option<&str>) -> Profile {
        let all = self.config.agent_entries(name).filter_map(|name| self.profiles.get(name)).cloned();
        all.reduce(|below, above| Profile { model: above.model.or(below.model), ..above }).unwrap_or_default()
    }

    /// The same with the model of the run, which overrides that of the run's own agent.
    fn profile_with_model(&self, kind: &str, name: Option<&str>) -> Profile {
        let config = &self.config;
        let profile = self.profile(Some(name.unwrap_or(kind)));
        let of_run = config.model.clone();
        let is_of_run = name.is_none_or(|name| config.agent.as_ref().is_some_and(|agent| agent.to_string() == name));
        let model = if is_of_run {
            of_run.or(profile.model)
        } else if config.agent_of(name) == config.agent_of(None) {
            profile.model.or(of_run)
        } else {
            profile.model
        };
        Profile { model, ..profile }
    }

    fn profile_of_builtin(&self, name: Option<&str>, tools: &[String]) -> Result<Profile, NoAgent> {
        let own = Builtin::tool_names();
        let is_own = |name: &str| own.iter().any(|own| own == name);
        let is_repo = |name: &str| self.config.workspace.repos.keys().any(|repo| repo.as_str() == name);
        let of_repo = |name: &str| name.split_once(':').is_some_and(|(repo, tool)| is_repo(repo) && is_own(tool));
        let configured: Vec<String> = ConfiguredTools::of(&self.config).names().collect();
        match tools.iter().find(|tool| !is_own(tool) && !of_repo(tool) && !configured.contains(tool)) {
            Some(tool) => {
                Err(NoAgent::UnknownTool { agent: self.who_names_tools("builtin", name), tool: tool.clone() })
            }
            None => Ok(Profile { tools: tools.to_vec(), ..self.profile_with_model("builtin", name) }),
        }
    }

    /// The entry of the settings that the tools of an agent come from.
    fn who_names_tools(&self, kind: &str, name: Option<&str>) -> String {
        let has_some = |name: &&str| self.config.agents.get(*name).is_some_and(|agent| !agent.tools.is_empty());
        self.config.agent_entries(name).filter(has_some).last().unwrap_or(kind).to_owned()
    }

    /// The agent of a node.
    pub fn of(&self, node: &Node) -> Result<Arc<dyn Agent>, NoAgent> {
        let agent = self.make(self.choice(node)?, node.llm_provider.as_deref(), node.agent.as_deref())?;
        knowing(agent, node.llm_model.as_deref())
    }

    /// The default agent, if it knows this model; none when there is none but a simulated one.
    pub fn configured_with(&self, model: Option<&str>) -> Option<Result<Arc<dyn Agent>, NoAgent>> {
        Some(self.configured()?.and_then(|agent| knowing(agent, model)))
    }

    /// The default agent; none when there is none but a simulated one.
    pub fn configured(&self) -> Option<Result<Arc<dyn Agent>, NoAgent>> {
        match self.config.agent_of(None) {
            Ok(AgentChoice::Simulation) | Err(InvalidAgent::Unset) => None,
            Ok(choice) => Some(self.make(choice, None, None)),
            Err(error) => Some(Err(self.unknown(&error))),
        }
    }

    /// The agent of this kind, with what the settings say about the name `name`.
    pub fn agent(&self, choice: &AgentChoice, name: Option<&str>) -> Result<Arc<dyn Agent>, NoAgent> {
        self.make(choice.clone(), None, name)
    }

    /// The configured tools named like a program on PATH: agents of these nodes that are programs no longer find that
    /// program.
    pub fn hidden_programs<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> Vec<(String, PathBuf)> {
        let own = |choice: AgentChoice| matches!(choice, AgentChoice::Builtin | AgentChoice::Simulation);
        if nodes.into_iter().all(|node| self.choice(node).is_ok_and(own)) {
            return Vec::new();
        }
        let found = |name: &String| Some((name.clone(), find_program(name, &self.environment)?));
        self.config.tools.iter().filter_map(|tool| found(&tool.name)).collect()
    }

    /// Whether a script answers, which bills no account.
    pub fn is_scripted(&self) -> bool {
        matches!(self.providers.get(None), Ok(Provider::Script(_)))
    }

    /// Whether the price of a model is known. An agent's own name for a model may look like one of a family.
    pub fn knows_price(&self, model: &str) -> bool {
        let knows = |prices: Prices| prices.pricing(ModelNames::asked(model)) == Pricing::Listed;
        let mut given = self.config.providers.remote().map(|(_, given)| &given.prices);
        knows(Prices::default()) || given.any(|prices| knows(Prices::new(prices)))
    }

    /// The agent of a node, introduced without being started; none where there is nothing to say of it.
    pub fn at_a_glance(&self, node: &Node) -> Option<Introduction> {
        let agent = self.of(node).ok()?;
        agent.as_program().map(CliAgent::at_a_glance).or_else(|| agent.introduction())
    }

    /// The agents of these nodes that can be introduced, each once, before they work: programs, and who is billed.
    pub async fn introduce<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>, cancel: &Cancel) -> Vec<Introduction> {
        let mut all: Vec<Introduction> = Vec::new();
        for node in nodes {
            let Ok(agent) = self.of(node) else { continue };
            let introduction = match agent.as_program() {
                Some(program) => Some(program.introduce(cancel).await),
                None => agent.introduction(),
            };
            let Some(introduction) = introduction else { continue };
            if !all.contains(&introduction) {
                all.push(introduction);
            }
        }
        all
    }

    fn make(&self, choice: AgentChoice, provider: Option<&str>, name: Option<&str>) -> Result<Arc<dyn Agent>, NoAgent> {
        let settings = self.settings(choice.kind(), name);
        let name = self.config.agent_entries(name).last();
        match choice {
            AgentChoice::Simulation => Ok(Arc::new(Simulated)),
            AgentChoice::Builtin => {
                let provider = self.providers.get(provider)?;
                let profile = self.profile_of_builtin(name, &settings.tools)?;
                let own = Builtin::tool_names();
                if let Some(tool) = self.config.tools.iter().find(|tool| own.contains(&tool.name)) {
                    return Err(NoAgent::TakenTool(tool.name.clone()));
                }
                Ok(Arc::new(
                    Builtin::new(provider, self.spawner.clone())
                        .with_profile(profile)
                        .with_commands(ConfiguredTools::of(&self.config)),
                ))
            }
            AgentChoice::Command(argv) if is_plain(&settings) => {
                self.require_program(&argv)?;
                let agent = CommandAgent::new(self.located(argv), self.spawner.clone());
                let agent = agent.with_tools(ConfiguredTools::of(&self.config));
                Ok(Arc::new(agent.closed(self.config.sandbox.closes_commands())))
            }
            AgentChoice::Command(argv) => self.program("command", Preset::of_command(&argv), &settings, name, provider),
            AgentChoice::Claude | AgentChoice::Codex | AgentChoice::Gemini | AgentChoice::Opencode => {
                let kind = choice.kind();
                let preset = Preset::of(kind).expect("the table has every agent that is a program");
                self.program(kind, preset.clone(), &settings, name, provider)
            }
            AgentChoice::Acp(_) => {
                let argv = choice.argv().unwrap_or_default();
                self.require_program(&argv)?;
                if !settings.tools.is_empty() {
                    let agent = self.who_names_tools(choice.kind(), name);
                    let program = argv.first().cloned().unwrap_or_default();
                    return Err(NoAgent::Tools { agent, program, how: "remove it, or use `claude` or `builtin`" });
                }
                self.acp(argv, &settings, name, provider)
            }
        }
    }

    /// A program as it is started.
    fn place_of(&self, program: &str) -> PathBuf {
        match &self.root {
            Some(root) if program.contains('/') => root.join(program).components().collect(),
            _ => PathBuf::from(program),
        }
    }

    /// A command as it is started.
    fn located(&self, argv: Vec<String>) -> Vec<OsString> {
        let mut words = argv.into_iter();
        let program = words.next().map(|program| self.place_of(&program).into_os_string());
        program.into_iter().chain(words.map(OsString::from)).collect()
    }

    /// Whether it is known where to look for a program. Without a root, a relative path starts at the worktree, which
    /// is not there yet.
    fn is_placed(&self, program: &str) -> bool {
        !program.contains('/') || self.place_of(program).is_absolute()
    }

    /// Looks the program of a command up, where that can be done.
    fn require_program(&self, argv: &[String]) -> Result<(), NoAgent> {
        // Without an environment, there is no PATH to search.
        let has_path = |program: &&String| program.contains('/') || self.environment.get_os("PATH").is_some();
        let known = argv.first().filter(|program| self.is_placed(program)).filter(has_path);
        match known.filter(|program| find_program(self.place_of(program), &self.environment).is_none()) {
            Some(program) => Err(self.no_program("", program, "")),
            None => Ok(()),
        }
    }

    /// Why a program is not found, with the command that installs it where there is one.
    fn no_program(&self, title: &str, program: &str, install: &str) -> NoAgent {
        let title = if title.is_empty() { "The agent" } else { title }.to_owned();
        let program = program.to_owned();
        if program.contains('/') && self.place_of(&program).is_file() {
            return NoAgent::NotExecutable { title, program };
        }
        let how = if install.is_empty() {
            "install it, or correct the command".to_owned()
        } else {
            format!("install it with `{install}`")
        };
        NoAgent::Missing { title, program, how }
    }

    /// A program that speaks the Agent Client Protocol: behind the gateway where it can use one and has a provider,
    /// else by what it reports.
    fn acp(
        &self,
        argv: Vec<String>,
        settings: &AgentSettings,
        name: Option<&str>,
        provider: Option<&str>,
    ) -> Result<Arc<dyn Agent>, NoAgent> {
        let profile = self.profile_with_model("acp", name);
        let known = argv.first().and_then(|program| acp_known(program));
        let ways = match known {
            Some(preset) if !preset.serves_itself => [TurnMode::Gateway, TurnMode::Stream],
            _ => [TurnMode::Stream, TurnMode::Gateway],
        };
        let mut preset = known.cloned().unwrap_or_else(|| Preset::of_command(&argv));
        preset.provider = settings.provider.clone().unwrap_or(preset.provider);
        let upstream = self.upstream(&preset, settings, provider);
        let preset = answered_by(preset, &upstream);
        let can = Ways { all: &ways, speaks: true, why_not: "the protocol has no such turns" };
        let turns = self.turns(name.unwrap_or("acp"), can, settings, upstream.is_ok())?;
        let agent = AcpAgent::new(self.located(argv), self.spawner.clone())
            .with_tools(ConfiguredTools::of(&self.config), self.server.clone());
        let agent = match turns {
            TurnMode::Gateway => {
                let upstream = understood(&preset, upstream?)?;
                let models = self.models(&preset, Some(&upstream));
                agent.behind(preset, upstream, &self.environment, models)
            }
            _ => agent.with_known_program(&self.environment),
        };
        Ok(Arc::new(agent.with_profile(profile).with_settings(settings)))
    }

    /// The settings of an agent: those of its kind, overridden by those of its name.
    fn settings(&self, kind: &str, name: Option<&str>) -> AgentSettings {
        let of_kind = self.config.agents.get(kind).filter(|agent| agent.runner.is_none()).cloned().unwrap_or_default();
        let entries = self.config.agent_entries(name).filter(|name| *name != kind);
        entries.filter_map(|name| self.config.agents.get(name)).fold(of_kind, over)
    }

    fn program(
        &self,
        kind: &'static str,
        preset: Preset,
        settings: &AgentSettings,
        name: Option<&str>,
        provider: Option<&str>,
    ) -> Result<Arc<dyn Agent>, NoAgent> {
        let preset = preset.with(settings);
        if !settings.tools.is_empty() && !preset.can_be_given_tools(&settings.args) {
            let how = if settings.command.is_empty() && kind != "command" {
                "remove it, or use `claude` or `builtin`"
            } else {
                "remove it, or put `{tools}` into its command"
            };
            let agent = self.who_names_tools(kind, name);
            return Err(NoAgent::Tools { agent, program: preset.program, how });
        }
        let upstream = self.upstream(&preset, settings, provider);
        let preset = answered_by(preset, &upstream);
        let why_not = "its stream does not mark its model's calls";
        let can = Ways { all: &preset.turns, speaks: preset.parser != pleach_core::config::ParserName::None, why_not };
        let turns = self.turns(name.unwrap_or(kind), can, settings, upstream.is_ok())?;
        let upstream = match turns {
            TurnMode::Gateway => Some(understood(&preset, upstream?)?),
            _ => None,
        };
        let place = self.place_of(&preset.program);
        let program = if self.is_placed(&preset.program) {
            find_program(place, &self.environment)
                .ok_or_else(|| self.no_program(&preset.title, &preset.program, &preset.install))?
        } else {
            place
        };
        let given = self.config.providers.get(&preset.provider);
        let settings = CliSettings {
            args: settings.args.clone(),
            permission_mode: settings.permission_mode.clone(),
            tools: settings.tools.clone(),
            timeout: settings.timeout,
            idle_timeout: settings.idle_timeout,
            max_failed_calls: settings.max_failed_calls,
            models: self.models(&preset, upstream.as_ref()),
            prices: given.map(|provider| Prices::new(&provider.prices)).unwrap_or_default(),
            is_command: kind == "command",
            is_closed: kind == "command" && self.config.sandbox.closes_commands(),
        };
        let is_command = settings.is_command;
        let commands = ConfiguredTools::of(&self.config).limited_to(&settings.tools);
        let own = || name.map_or_else(|| preset.program.clone(), str::to_owned);
        Ok(Arc::new(CliAgent {
            kind,
            name: if is_command { own() } else { kind.to_owned() },
            preset,
            settings,
            program,
            turns,
            profile: self.profile_with_model(kind, name),
            environment: self.environment.clone(),
            spawner: self.spawner.clone(),
            versions: self.versions.clone(),
            hook: self.hook.clone(),
            commands,
            server: self.server.clone(),
            upstream,
        }))
    }

    /// Who answers the calls of an agent behind the gateway: the provider named for it or for the node, the script
    /// where that is the default, else the provider of its models.
    fn upstream(
        &self,
        preset: &Preset,
        settings: &AgentSettings,
        provider: Option<&str>,
    ) -> Result<Upstream, NoProvider> {
        let named = settings.provider.as_ref().map(ProviderName::as_str).or(provider);
        let by_default = || match self.providers.get(None) {
            Ok(script @ Provider::Script(_)) => Ok(script),
            // An agent that supports every format works with any provider.
            default if !preset.gateway.dialects.is_empty() => default,
            _ => self.providers.get(Some(preset.provider.as_str())),
        };
        Ok(match named.map_or_else(by_default, |name| self.providers.get(Some(name)))? {
            Provider::Remote(remote) => Upstream::Remote(remote),
            Provider::Script(script) => Upstream::Script(script),
        })
    }

    /// The models of a program behind short names.
    fn models(&self, preset: &Preset, upstream: Option<&Upstream>) -> BTreeMap<String, String> {
        let usual = |tier: &str| Some((tier.to_owned(), usual_model(preset.provider.as_str(), tier)?.to_owned()));
        let mut models: BTreeMap<String, String> = ["smart", "worker", "cheap"].into_iter().filter_map(usual).collect();
        models
            .extend(self.config.providers.get(&preset.provider).map(|given| given.models.clone()).unwrap_or_default());
        if let Some(Upstream::Script(_)) = upstream {
            // A script answers whatever model is asked for.
            models.entry("worker".to_owned()).or_insert_with(|| "script".to_owned());
        }
        models
    }

    /// The turn mode of an agent: as configured, else the best one possible.
    fn turns(
        &self,
        agent: &str,
        can: Ways<'_>,
        settings: &AgentSettings,
        has_upstream: bool,
    ) -> Result<TurnMode, NoAgent> {
        let Ways { all, speaks, why_not: otherwise } = can;
        let why_not = |turns: TurnMode| match turns {
            TurnMode::Hooks if self.hook.is_empty() => Some("there is no program that could be its hook"),
            TurnMode::Stream if !speaks => Some("its output is not read; set `parser`"),
            turns if !all.contains(&turns) => Some(otherwise),
            _ => None,
        };
        let possible = |turns: &TurnMode| all.contains(turns) && why_not(*turns).is_none();
        let Some(asked) = settings.turns else {
            let usable = |turns: &TurnMode| possible(turns) && (has_upstream || *turns != TurnMode::Gateway);
            return Ok(all.iter().copied().find(usable).unwrap_or(TurnMode::Node));
        };
        match why_not(asked) {
            None => Ok(asked),
            Some(why) => {
                let can = all.iter().copied().filter(possible).map(TurnMode::as_str).collect();
                Err(NoAgent::Turns { agent: agent.to_owned(), turns: asked, why, can })
            }
        }
    }
}

/// The agent, if it knows which model this name stands for.
fn knowing(agent: Arc<dyn Agent>, model: Option<&str>) -> Result<Arc<dyn Agent>, NoAgent> {
    agent.check_model(model).map_err(NoProvider::from)?;
    Ok(agent)
}

/// Whether nothing is configured that a plain `command:` agent does not know.
fn is_plain(settings: &AgentSettings) -> bool {
    let AgentSettings { turns, command, stdin, parser, env, args, tools, timeout, idle_timeout, .. } = settings;
    let limits = (turns, stdin, parser, timeout, idle_timeout);
    let lists = command.is_empty() && args.is_empty() && tools.is_empty();
    limits == (&None, &None, &None, &None, &None) && lists && env.is_empty()
}

/// Settings, overridden by others.
fn over(below: AgentSettings, above: &AgentSettings) -> AgentSettings {
    let above = above.clone();
    let list = |above: Vec<String>, below: Vec<String>| if above.is_empty() { below } else { above };
    let mut env = below.env;
    env.extend(above.env);
    AgentSettings {
        turns: above.turns.or(below.turns),
        provider: above.provider.clone().or(below.provider),
        command: list(above.command, below.command),
        stdin: above.stdin.or(below.stdin),
        parser: above.parser.or(below.parser),
        args: list(above.args, below.args),
        tools: list(above.tools, below.tools),
        permission_mode: above.permission_mode.or(below.permission_mode),
        timeout: above.timeout.or(below.timeout),
        idle_timeout: above.idle_timeout.or(below.idle_timeout),
        max_failed_calls: above.max_failed_calls.or(below.max_failed_calls),
        model: above.model.or(below.model),
        env,
        ..AgentSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;
    use pleach_core::config::{Layer, Precedence, resolve};
    use pleach_core::ids::NodeId;

    /// The agents of a configuration, where some programs are installed, `gemini` not among them.
    fn roster(yaml: &str, keys: &[(&str, &str)]) -> (Roster, tempfile::TempDir) {
        let bin = tempfile::tempdir().unwrap();
        for name in ["claude", "codex", "opencode", "other", "echo"] {
            let file = bin.path().join(name);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let config = resolve(vec![Layer::file(Precedence::Project, Path::new("/p/pleach.yaml"), yaml)]).unwrap().config;
        let pairs = keys.iter().copied().chain([("PATH", bin.path().to_str().unwrap())]);
        let environment = Environment::from_pairs(pairs);
        let spawner = Spawner::new(Vec::new(), &environment);
        let providers = Providers::new(&config, &environment, &spawner, None);
        (Roster::new(&config, providers, spawner).with_programs(&environment, vec!["hook".into()]), bin)
    }

    fn node(agent: &str) -> Node {
        let agent = if agent.is_empty() { String::new() } else { format!(", agent=\"{agent}\"") };
        let dot = format!(
            "digraph g {{ start [shape=Mdiamond] exit [shape=Msquare] n [prompt=\"x\"{agent}] start -> n -> exit }}"
        );
        let inputs = pleach_core::plan::Inputs { files: BTreeMap::new(), values: BTreeMap::new() };
        let pipeline = pleach_core::plan::load(&dot, &inputs, &[]).0.unwrap();
        pipeline.node(&NodeId::new("n").unwrap()).unwrap().clone()
    }

    /// How an agent would work, in a line.
    fn shown(roster: &Roster, agent: &str) -> String {
        match roster.of(&node(agent)) {
            Err(error) => error.to_string(),
            Ok(agent) => match agent.as_program() {
                Some(program) => {
                    let CliAgent { kind, turns, settings, preset, .. } = program;
                    format!(
                        "{kind} {turns} {:?} {:?} {:?}",
                        settings.args,
                        settings.permission_mode,
                        preset.env.get("A")
                    )
                }
                None => agent.kind().to_owned(),
            },
        }
    }

    #[test]
    fn a_named_agent_overrides_its_kind() {
        let yaml = "agent: claude\nagents:\n  claude: {turns: node, args: [--x], env: {A: kind}}\n  \
                    reviewer: {runner: claude, permission_mode: plan, env: {A: name}}\n  \
                    other: {runner: codex}\n  plain: {model: m}\n";
        let (roster, _bin) = roster(yaml, &[]);
        assert_eq!(shown(&roster, ""), "claude node [\"--x\"] None Some(\"kind\")");
        assert_eq!(shown(&roster, "claude"), shown(&roster, ""));
        assert_eq!(shown(&roster, "plain"), shown(&roster, ""));
        assert_eq!(shown(&roster, "reviewer"), "claude node [\"--x\"] Some(\"plan\") Some(\"name\")");
        assert_eq!(shown(&roster, "other"), "codex node [] None None");
        assert_eq!(shown(&roster, "command:echo"), "command");
        assert!(shown(&roster, "gemini").contains("install it with `npm install -g @google/gemini-cli`"));
        assert!(shown(&roster, "cluade").contains("did you mean `claude`?"));
    }

    #[test]
    fn the_agent_of_the_run_may_be_a_named_one() {
        let yaml = "agents:\n  mine: {command: [other, -x], args: [--y], env: {A: mine}}\n  \
                    plain: {env: {A: plain}}\n  claude: {turns: node}\n  second: {runner: claude}\n";
        let (roster, _bin) = roster(&format!("agent: mine\n{yaml}"), &[]);
        let mine = "command node [\"--y\"] None Some(\"mine\")";
        assert_eq!(shown(&roster, ""), mine);
        assert_eq!(shown(&roster, "mine"), mine);
        assert_eq!(
            shown(&roster, "plain"),
            mine.replace("(\"mine\")", "(\"plain\")"),
            "it works as the run's, but for that"
        );
        assert_eq!(shown(&roster, "second"), "claude node [] None None");
        assert_eq!(roster.name(&node("")), Ok("mine".to_owned()));
        assert!(roster.configured().unwrap().unwrap().as_program().unwrap().name == "mine");
        let unknown = shown(&roster, "mien");
        assert!(unknown.starts_with("there is no agent `mien`, did you mean `mine`?"), "{unknown}");
        assert!(unknown.contains("or use mine, plain, second, builtin, claude,"), "{unknown}");
        let (roster, _bin) = self::roster(&format!("agent: second\n{yaml}"), &[]);
        assert_eq!(shown(&roster, ""), "claude node [] None None");
    }

    #[test]
    fn tool_limits_are_enforced_or_refused() {
        let yaml = "agents:\n  claude: {tools: [read_file]}\n  reviewer: {runner: claude}\n  \
                    writer: {runner: claude, tools: [write_file]}\n  other: {runner: codex, tools: [read_file]}\n  \
                    mine: {command: [codex, --only, '{tools}'], tools: [x]}\n  \
                    plain: {command: [codex], tools: [x]}\n  far: {runner: 'acp:codex', tools: [x]}\n  \
                    bare: {runner: 'command:codex', tools: [x]}\n";
        let (roster, _bin) = roster(yaml, &[]);
        let tools = |agent: &str| match roster.of(&node(agent)) {
            Ok(agent) => agent.as_program().unwrap().settings.tools.join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            ["claude", "reviewer", "writer", "mine"].map(tools),
            ["read_file", "read_file", "write_file", "x"],
            "what is said about a kind holds for the names it has"
        );
        assert_eq!(
            tools("other"),
            "`agents.other.tools` is set, but `codex` cannot be limited to some of its tools; remove it, or use \
             `claude` or `builtin`"
        );
        for agent in ["plain", "bare"] {
            assert!(tools(agent).ends_with("remove it, or put `{tools}` into its command"), "{}", tools(agent));
        }
        assert!(tools("far").starts_with("`agents.far.tools` is set, but `codex`"), "{}", tools("far"));
    }

    #[test]
    fn acp_agents_use_the_gateway_where_they_can() {
        let key = [("ANTHROPIC_API_KEY", "k")];
        let gateway = |yaml: &str, keys: &[(&str, &str)], agent: &str| {
            let (roster, _bin) = roster(yaml, keys);
            roster.of(&node(agent)).map(|agent| !agent.needs_network()).map_err(|error| error.to_string())
        };
        assert_eq!(gateway("", &key, "acp:claude --acp"), Ok(true));
        assert_eq!(gateway("", &[], "acp:claude --acp"), Ok(false), "nobody would answer");
        assert_eq!(gateway("", &key, "acp:codex"), Ok(false), "the key is another provider's");
        assert_eq!(gateway("agents: {acp: {turns: stream}}", &key, "acp:claude"), Ok(false));
        assert_eq!(gateway("", &key, "acp:other"), Ok(false), "whether it would find the way is not known");
        let settings = "agents: {acp: {turns: gateway, provider: anthropic}}";
        assert_eq!(gateway(settings, &key, "acp:other"), Ok(true));
        assert!(gateway(settings, &[], "acp:other").is_err_and(|why| why.starts_with("there is no key for anthropic")));
        let server = "providers: {compatible: {settings: {api_base: 'http://localhost:1'}}}";
        assert_eq!(gateway(server, &[], "acp:opencode acp"), Ok(false), "it must reach its own server");
        let gateway_run =
            format!("{}\nagents: {{acp: {{turns: gateway}}}}", server.replace("}}}", "}, models: {worker: m}}}"));
        assert_eq!(gateway(&gateway_run, &[], "acp:opencode acp"), Ok(true));
    }

    #[test]
    fn an_agent_of_every_format_asks_the_first_provider() {
        let (anthropic, openai) = (("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"));
        let server = "compatible: {settings: {api_base: 'http://localhost:1'}, models: {worker: m}}";
        let asked = |more: &str, keys: &[(&str, &str)], agent: &str| {
            let (roster, _bin) = roster(&format!("providers: {{{server}{more}}}"), keys);
            let agent = roster.of(&node(agent)).unwrap();
            match &agent.as_program().unwrap().upstream {
                Some(Upstream::Remote(remote)) => remote.name().to_owned(),
                _ => String::new(),
            }
        };
        assert_eq!(asked("", &[], "opencode"), "compatible");
        assert_eq!(asked("", &[openai], "opencode"), "openai");
        assert_eq!(asked("", &[openai, anthropic], "opencode"), "anthropic");
        assert_eq!(asked(", default: compatible", &[openai, anthropic], "opencode"), "compatible");
        assert_eq!(asked("", &[openai, anthropic], "codex"), "openai", "it speaks one language");
    }

    #[test]
    fn the_best_available_turn_mode_is_used() {
        let key = [("ANTHROPIC_API_KEY", "k")];
        let turns = |yaml: &str, keys: &[(&str, &str)], agent: &str| {
            let (roster, _bin) = roster(yaml, keys);
            let shown = shown(&roster, agent);
            shown.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(turns("", &[], "claude"), "hooks");
        assert_eq!(turns("", &key, "claude"), "gateway");
        assert_eq!(turns("agents: {claude: {turns: hooks}}", &key, "claude"), "hooks");
        assert_eq!(turns("", &key, "codex"), "node", "the key is another provider's");
        let (roster, _bin) = roster("agents: {codex: {turns: hooks}, claude: {turns: gateway}}", &[]);
        assert_eq!(
            shown(&roster, "codex"),
            "`agents.codex.turns` cannot be `hooks`: its stream does not mark its model's calls; it can be gateway, node"
        );
        assert!(shown(&roster, "claude").starts_with("there is no key for anthropic"), "{}", shown(&roster, "claude"));
    }
}
