//! What settings must fulfil beyond their types. Checked once, on what all layers come to.

use std::collections::{BTreeMap, BTreeSet};

use super::agent::{AgentChoice, AgentRef, InvalidAgent, agents_hint};
use super::derived::DerivedRules;
use super::model::Config;
use super::node::{ConfigNode, ConfigNodeKind, SourceSpan};
use super::provider::{ProviderKind, ProviderName, ServerSettings, Variable};
use super::read::ReadContext;
use super::secret_name::holds_secret;
use crate::ids::{BranchName, TaskId, wire_name};
use crate::redact::is_secret_name;
use crate::text::closest;

/// Adds an error for everything in `config` that cannot work; `tree` has the places.
pub(super) fn check(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    values(config, tree, reading);
    tools(config, tree, reading);
    repos(config, tree, reading);
}

/// Adds an error for every value that cannot work, whatever else is set: also where others could not be read.
pub(super) fn values(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    agents(config, tree, reading);
    branches(config, tree, reading);
    numbers(config, tree, reading);
    providers(config, tree, reading);
    check_excludes(config, tree, reading);
    derived_files(config, tree, reading);
}

/// What is left out of worktrees, or copied into them, is named from the root of the repository.
fn check_excludes(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    let is_path = |path: &str| {
        let path = path.strip_suffix('/').unwrap_or(path);
        !path.contains('\n') && path.split('/').all(|part| !["", ".", ".."].contains(&part))
    };
    for (key, paths) in [("exclude", &config.worktrees.exclude), ("include_ignored", &config.worktrees.include_ignored)]
    {
        for path in paths.iter().filter(|path| !is_path(path)) {
            reading.fail(
                place(tree, &["worktrees", key]),
                format!(
                    "`{path}` is not a path relative to the repository \
                     root"
                ),
            );
        }
    }
}

/// The place of a setting, or of the nearest one around it that was written.
fn place(tree: &ConfigNode, path: &[&str]) -> SourceSpan {
    (1..=path.len()).rev().find_map(|length| tree.at_path(&path[..length])).map_or(tree.at, |entry| entry.value.at)
}

fn agents(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    let mut check = |choice: Option<&AgentChoice>, path: &[&str]| {
        let empty = match choice {
            Some(AgentChoice::Command(argv)) => argv.is_empty(),
            Some(AgentChoice::Acp(command)) => command.is_empty(),
            _ => false,
        };
        if empty {
            let hint = "Write `agent: command:PROGRAM ARGS`, or name an agent such as claude.".to_owned();
            reading.report(place(tree, path), "this agent has no program", Some(hint));
        }
    };
    check(config.agent.as_ref().and_then(AgentRef::kind), &["agent"]);
    for (name, agent) in &config.agents {
        check(agent.runner.as_ref(), &["agents", name, "runner"]);
    }
    check(config.merge.agent.as_ref().and_then(AgentRef::kind), &["merge", "agent"]);
    for (name, step) in &config.tree.steps {
        check(step.runner.as_ref().and_then(AgentRef::kind), &["tree", "steps", name, "runner"]);
    }
    if let Err(error @ InvalidAgent::Nobody(_)) = config.agent_of(None) {
        let hint = "Give it one of them, or name another agent here.".to_owned();
        reading.report(place(tree, &["agent"]), error.to_string(), Some(hint));
    }
    programs(config, tree, reading);
}

/// Adds an error for every agent a layer names that is of no kind and that no layer gives this name to.
pub(super) fn named_agents(layer: &ConfigNode, named: &BTreeSet<String>, reading: &mut ReadContext<'_>) {
    let steps = match layer.at_path(&["tree", "steps"]).map(|steps| &steps.value.kind) {
        Some(ConfigNodeKind::Map(steps)) => steps.values().filter_map(|step| step.value.at_path(&["runner"])).collect(),
        _ => Vec::new(),
    };
    let merge = layer.at_path(&["merge", "agent"]);
    for agent in layer.at_path(&["agent"]).into_iter().chain(merge).chain(steps) {
        let ConfigNodeKind::Scalar { text, .. } = &agent.value.kind else { continue };
        let Ok(AgentRef::Named(name)) = text.parse() else { continue };
        if !named.contains(&name) {
            let named = || named.iter().map(String::as_str);
            let error = InvalidAgent::unknown(&name, named());
            reading.report(agent.value.at, error.to_string(), Some(agents_hint(named())));
        }
    }
}

/// Agents that are programs.
fn programs(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    for (name, agent) in &config.agents {
        let at = |key: &str| place(tree, &["agents", name, key]);
        for variable in agent.env.keys().filter(|variable| is_secret_name(variable)) {
            let hint =
                "Set it in your environment and let the agent fetch it, or leave the key to the gateway.".to_owned();
            let message = format!("`{variable}` is named like a secret, which does not belong in a configuration file");
            reading.report(place(tree, &["agents", name, "env", variable]), message, Some(hint));
        }
        let filled = !matches!(agent.runner, Some(AgentChoice::Acp(_))) && name != "acp";
        for (key, words) in [("command", &agent.command), ("args", &agent.args)].into_iter().filter(|_| filled) {
            for (strange, meant) in words.iter().filter_map(|word| unknown_placeholder(word)) {
                let hint = match meant {
                    Some(meant) => format!("Write `{{{meant}}}`."),
                    None => format!(
                        "Known are {}. Write literal braces with a space inside.",
                        PLACEHOLDERS.map(|known| format!("`{{{known}}}`")).join(", ")
                    ),
                };
                reading.report(at(key), format!("unknown placeholder `{{{strange}}}`"), Some(hint));
            }
        }
        for (key, seconds) in [("timeout", agent.timeout), ("idle_timeout", agent.idle_timeout)] {
            if seconds == Some(0) {
                reading.fail(at(key), "an agent needs at least one second");
            }
        }
        if agent.max_failed_calls == Some(0) {
            reading.fail(at("max_failed_calls"), "an agent needs at least one call");
        }
    }
}

/// The placeholders in an agent's command that are filled in when it starts.
const PLACEHOLDERS: [&str; 7] = ["prompt", "prompt_file", "model", "tools", "cwd", "session", "base_url"];

/// The same, for agents that are known.
const OF_PRESETS: [&str; 4] = ["permissions", "permission_mode", "effort", "hooks"];

/// An unknown placeholder in a word of a command, and the closest known one. Other braces are literal: those of a
/// shell, of JSON, of a piece of a program.
fn unknown_placeholder(word: &str) -> Option<(&str, Option<&'static str>)> {
    word.match_indices('{').find_map(|(at, _)| {
        let (before, after) = (&word[..at], &word[at + 1..]);
        let (name, rest) = after.split_once('}')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-');
        let is_known = PLACEHOLDERS.iter().chain(&OF_PRESETS).any(|known| *known == name);
        if before.ends_with('$') || !is_name || is_known {
            return None;
        }
        let meant = closest(&name.to_ascii_lowercase().replace('-', "_"), PLACEHOLDERS);
        let stands_alone = rest.is_empty() && (before.is_empty() || before.ends_with('='));
        (meant.is_some() || stands_alone).then_some((name, meant))
    })
}

/// The place of an item of a list.
fn item_place(tree: &ConfigNode, path: &[&str], index: usize) -> SourceSpan {
    let items = match tree.at_path(path).map(|entry| &entry.value.kind) {
        Some(ConfigNodeKind::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.get(index).map_or_else(|| place(tree, path), |item| item.at)
}

/// Files that are made by a command need both.
fn derived_files(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    for (index, derived) in config.merge.derived.iter().enumerate() {
        let at = item_place(tree, &["merge", "derived"], index);
        if derived.paths.is_empty() {
            reading.fail(at, "these derived files have no `paths`");
        }
        if derived.command.trim().is_empty() {
            reading.fail(at, "these derived files have no `command`");
        }
        if let Err(bad) = DerivedRules::new(std::slice::from_ref(derived)) {
            reading.fail(at, bad.to_string());
        }
    }
}

fn tools(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    let mut names = BTreeMap::new();
    // `own` is the name in its repository, where it is in one.
    let mut check =
        |at: SourceSpan, (name, own): (String, Option<&str>), command: &str, reading: &mut ReadContext<'_>| {
            if command.is_empty() {
                reading.fail(at, format!("the tool `{name}` has no `command`"));
            }
            let own = own.unwrap_or(&name);
            let wired = wire_name(&name);
            if own.is_empty() || wired.len() > LONGEST_TOOL || own != wire_name(own) {
                let rule =
                    format!("use letters, digits, `_` and `-`, at most {LONGEST_TOOL} with the name of its repository");
                reading.fail(at, format!("`{name}` is not a valid tool name: {rule}"));
            }
            match names.insert(wired, name.clone()) {
                Some(other) if other == name => reading.fail(at, format!("two tools are named `{name}`")),
                Some(other) => reading.fail(at, format!("the tools `{other}` and `{name}` would be the same command")),
                None => {}
            }
        };
    for (index, tool) in config.tools.iter().enumerate() {
        let at = item_place(tree, &["tools"], index);
        if tool.name.is_empty() {
            reading.fail(at, "this tool has no `name`");
            continue;
        }
        check(at, (tool.name.clone(), None), &tool.command, reading);
        if NEEDED.contains(&tool.name.as_str()) {
            let hint = format!("Give it a name of its own, such as `project-{}`.", tool.name);
            let message = format!("the tool `{}` would hide a program that agents need", tool.name);
            reading.report(at, message, Some(hint));
        }
    }
    for (repo, tools) in &config.workspace.tools {
        let at = |name: &str| place(tree, &["workspace", "tools", repo.as_str(), name]);
        if !config.workspace.repos.contains_key(repo) {
            reading.fail(at(""), format!("`workspace.repos` has no repository `{repo}`"));
        }
        for (name, tool) in tools {
            check(at(name), (format!("{repo}:{name}"), Some(name)), &tool.command, reading);
        }
    }
}

/// The longest name of a tool that every provider takes.
const LONGEST_TOOL: usize = 64;

/// The longest name of a repository, with which those of its tools begin.
const LONGEST_REPO: usize = LONGEST_TOOL - "__write_file".len();

/// Programs that agents, and what they run, find by their names: a tool goes first on PATH.
const NEEDED: [&str; 40] = [
    "awk", "bash", "cargo", "cat", "chmod", "claude", "codex", "cp", "curl", "diff", "env", "find", "gemini", "git",
    "grep", "head", "ls", "make", "mkdir", "mv", "node", "npm", "npx", "opencode", "perl", "pleach", "python",
    "python3", "rg", "rm", "sed", "sh", "sort", "tail", "tar", "test", "tr", "wc", "which", "xargs",
];

fn repos(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    for (name, _) in config.workspace.repos.iter().filter(|(_, repo)| repo.path.is_none()) {
        let at = place(tree, &["workspace", "repos", name.as_str(), "path"]);
        reading.fail(at, format!("the repository `{name}` has no `path`"));
    }
    // Directories and branches are named after it.
    for name in config.workspace.repos.keys().filter(|name| TaskId::new(name.as_str()).is_err()) {
        let at = place(tree, &["workspace", "repos", name.as_str()]);
        let hint = "Use letters, digits, `.`, `_` and `-`, beginning with a letter or digit.".to_owned();
        reading.report(at, format!("`{name}` is not a valid repository name"), Some(hint));
    }
    let mut wired = BTreeMap::new();
    for name in config.workspace.repos.keys().filter(|_| config.workspace.repos.len() > 1) {
        let at = place(tree, &["workspace", "repos", name.as_str()]);
        let own = wire_name(name.as_str());
        if own.len() > LONGEST_REPO {
            let why = format!("`{name}` is too long for the names of its tools: at most {LONGEST_REPO} characters");
            reading.fail(at, why);
        }
        if let Some(other) = wired.insert(own, name) {
            reading.fail(at, format!("the tools of `{other}` and `{name}` would have the same names"));
        }
    }
    if let Some(name) = &config.record.repo
        && !config.workspace.repos.contains_key(name)
    {
        reading.fail(place(tree, &["record", "repo"]), format!("`workspace.repos` has no repository `{name}`"));
    }
}

fn branches(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    for (name, repo) in &config.workspace.repos {
        let at = |key: &str| place(tree, &["workspace", "repos", name.as_str(), key]);
        if BranchName::new(format!("{}x", repo.branch_prefix)).is_err() {
            let message = format!("`{}` is not a valid branch prefix", repo.branch_prefix);
            reading.report(at("branch_prefix"), message, Some("Write something like `pleach/`.".to_owned()));
        }
        if repo.clone_depth == Some(0) {
            reading.fail(at("clone_depth"), "a clone takes at least one commit");
        }
    }
}

fn numbers(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    if config.tree.max_retries == 0 {
        let hint = Some("Give a number from 1 up.".to_owned());
        reading.report(place(tree, &["tree", "max_retries"]), "a task needs at least one attempt", hint);
    }
    if config.tree.jobs == 0 {
        reading.fail(place(tree, &["tree", "jobs"]), "at least one task is worked at once");
    }
    if config.tree.test_timeout == 0 {
        reading.fail(place(tree, &["tree", "test_timeout"]), "a test needs at least one second");
    }
    if config.merge.test_timeout == 0 {
        reading.fail(place(tree, &["merge", "test_timeout"]), "a test needs at least one second");
    }
    if config.merge.batch == 0 {
        reading.fail(place(tree, &["merge", "batch"]), "a batch has at least one branch");
    }
    if config.merge.resolvers == 0 {
        let how = "at least one conflict is resolved at once; `max_conflict_retries: 0` leaves conflicts to a person";
        reading.fail(place(tree, &["merge", "resolvers"]), how);
    }
    if config.merge.slots == Some(0) {
        reading.fail(place(tree, &["merge", "slots"]), "the queue needs at least one slot for tests");
    }
    if config.tree.runner_timeout == Some(0) {
        reading.fail(place(tree, &["tree", "runner_timeout"]), "an agent needs at least one second");
    }
}

/// Providers, and the settings that name one.
fn providers(config: &Config, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    for (name, provider) in config.providers.remote() {
        check_provider(name, provider, tree, reading);
    }
    let default = config.providers.default.iter().map(|name| (name, vec!["providers", "default"]));
    let of_agents = config.agents.iter().filter_map(|(agent, given)| Some((agent, given.provider.as_ref()?)));
    let of_agents = of_agents.map(|(agent, name)| (name, vec!["agents", agent, "provider"]));
    for (name, path) in default.chain(of_agents) {
        if config.providers.names().any(|known| known == name.as_str()) {
            continue;
        }
        let hint = match closest(name.as_str(), config.providers.names()) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("It is one of: {}.", config.providers.names().collect::<Vec<_>>().join(", ")),
        };
        reading.report(place(tree, &path), format!("`{}` cannot be `{name}`", path.join(".")), Some(hint));
    }
}

/// Headers an endpoint cannot set: they control the call itself.
const OWN_HEADERS: [&str; 9] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

fn check_provider(name: &ProviderName, provider: &ServerSettings, tree: &ConfigNode, reading: &mut ReadContext<'_>) {
    let at = |path: &[&str]| place(tree, &[&["providers", name.as_str()], path].concat());
    if !name.is_known() && provider.kind.is_none() {
        let kinds = ProviderKind::WORDS.join(", ");
        let hint = match closest(name.as_str(), ProviderName::REMOTE.iter().map(ProviderName::as_str)) {
            Some(near) => format!("Did you mean `{near}`? A provider of your own needs a `kind`: {kinds}."),
            None => format!("Set its `kind`, the API its server offers: {kinds}."),
        };
        let key_at = tree.at_path(&["providers", name.as_str()]).map_or(tree.at, |entry| entry.key_at);
        reading.report(key_at, format!("the provider `{name}` has no `kind`"), Some(hint));
    }
    for model in provider.prices.keys() {
        let given = |key: &str| tree.at_path(&["providers", name.as_str(), "prices", model, key]).is_some();
        if tree.at_path(&["providers", name.as_str(), "prices", model]).is_some()
            && !(given("input") && given("output"))
        {
            reading.fail(at(&["prices", model]), "a price needs `input` and `output`; 0 is free");
        }
    }
    let settings = &provider.settings;
    if provider.base_url.is_some() && settings.api_base.is_some() {
        reading
            .fail(at(&["settings", "api_base"]), "`base_url` and `settings.api_base` are the same; give one of them");
    }
    for (path, word) in [(&["base_url"][..], "a `base_url`"), (&["settings", "api_base"], "an `api_base`")] {
        let given = if path.len() == 1 { &provider.base_url } else { &settings.api_base };
        let Some(base) = given.as_deref() else { continue };
        if !base.starts_with("http://") && !base.starts_with("https://") {
            reading.fail(at(path), format!("{word} must begin with http:// or https://"));
        }
        let query = base.split_once('?').map_or("", |(_, query)| query).split('&');
        let names = query.filter_map(|pair| Some(pair.split_once('=')?.0));
        if let Some(secret) = names.into_iter().find(|name| holds_secret(name)) {
            let hint = "Send it as `api_key: $NAME`, or as a header `$NAME`.".to_owned();
            let message = format!(
                "`{secret}` in this address is named like a secret, which does not belong in a configuration file"
            );
            reading.report(at(path), message, Some(hint));
        }
    }
    if provider.api_key.is_some() && settings.api_key_command.is_some() {
        reading.fail(
            at(&["api_key"]),
            "the key comes from `api_key` or from `settings.api_key_command`; give one of them",
        );
    }
    for (header, value) in &provider.headers {
        let lower = header.to_ascii_lowercase();
        let is_name = !header.is_empty() && header.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let place = at(&["headers", header]);
        if !is_name || OWN_HEADERS.contains(&lower.as_str()) {
            reading.fail(place, format!("the header `{header}` cannot be set here"));
        } else if holds_secret(header) && Variable::of(value).is_none() {
            let hint = "Put it into a variable and write `$NAME` with the variable's name.".to_owned();
            let message = format!("`{header}` is named like a secret, which does not belong in a configuration file");
            reading.report(place, message, Some(hint));
        }
    }
    if settings.proxy.as_deref().is_some_and(|proxy| !proxy.starts_with("http://")) {
        reading.fail(
            at(&["settings", "proxy"]),
            "a `proxy` must begin with http://; requests to https:// addresses stay encrypted",
        );
    }
    if settings.timeout == 0 {
        reading.fail(at(&["settings", "timeout"]), "a call needs at least one second");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_placeholders_are_distinguished_from_other_braces() {
        for (word, strange) in [
            ("{promt_file}", Some(("promt_file", Some("prompt_file")))),
            ("--task={prompt-file}", Some(("prompt-file", Some("prompt_file")))),
            ("x{cdw}/y", Some(("cdw", Some("cwd")))),
            ("{PROMPT}", Some(("PROMPT", Some("prompt")))),
            ("{task}", Some(("task", None))),
            ("--task={task}", Some(("task", None))),
            ("{prompt}", None),
            ("x{cwd}/{session}", None),
            ("{permissions}", None),
            ("{\"model\": 1}", None),
            ("echo ${task}", None),
            ("echo ${promt}", None),
            ("awk '{print}' a", None),
            ("{ task }", None),
            ("{}", None),
        ] {
            assert_eq!(unknown_placeholder(word), strange, "{word}");
        }
    }
}
