//! The checks of `doctor`: what was checked, what is wrong, and how to fix it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agents::agent::cli::Billing;
use agents::agent::{Agent, NoAgent, Roster, find_program};
use agents::llm::Remote;
use engine::mirror::{check_http, newest_runs, report};
use engine::view::{SessionStatus, Summary, View};
use git::workspace::{Lock, check_writable, free_space};
use git::{Repo, stale_ref_locks};
use os::process::sandbox::SandboxChoice;
use os::process::{self, Cancel, ENOUGH_FILES, Spawner};
use pleach_core::budget::BudgetLimits;
use pleach_core::config::{AgentChoice, Config, Environment, ProviderName};
use pleach_core::ids::RunId;
use pleach_core::text::{counted, listed};
use serde::Serialize;

use super::known_agents::Installed;
use super::project;
use super::tools::{MissingTool, missing_tool};
use crate::failure::Failure;
use crate::lib_errors::{of_git, of_shortage, without_record};
use crate::mirror::{known_mirror, of_mirror};
use crate::render::bytes;
use crate::settings::Settings;

/// How long a provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Below this much room work may fail soon, and below that it will.
const LITTLE: u64 = 1 << 30;
const TOO_LITTLE: u64 = 100 << 20;

/// The most names in a message.
const NAMED: usize = 5;

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All is well.
    Ok,
    /// It works, with a warning.
    Warn,
    /// It does not work.
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its level.
    pub level: Level,
    /// Its subject, in a word.
    pub what: &'static str,
    /// The findings.
    pub message: String,
    /// How to fix it.
    pub fix: Option<String>,
    /// Whether it was fixed just now.
    pub fixed: bool,
}

impl Finding {
    fn new(level: Level, what: &'static str, message: impl Into<String>, fix: Option<String>) -> Self {
        Self { level, what, message: message.into(), fix, fixed: false }
    }

    /// All is well.
    pub fn ok(what: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Ok, what, message, None)
    }

    /// A warning and its fix.
    pub fn warn(what: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Level::Warn, what, message, Some(fix.into()))
    }

    /// It does not work, and what to do about it.
    pub fn error(what: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Level::Error, what, message, Some(fix.into()))
    }
}

/// Of how many runs the records at the mirror are looked at.
const MIRRORED: usize = 20;

/// The git program.
pub fn git(environment: &Environment) -> Finding {
    match git::version(environment) {
        Ok(version) => Finding::ok("git", version.trim_start_matches("git version ").to_owned()),
        Err(error) => {
            let failure = of_shortage(of_git(&error));
            let fix = failure.hint.clone().unwrap_or_else(|| "see that `git --version` works".to_owned());
            Finding::error("git", failure.sentence(), fix)
        }
    }
}

/// Whether pleach may open as many files as it needs.
pub fn open_files() -> Option<Finding> {
    let few = process::open_files().filter(|files| *files < ENOUGH_FILES)?;
    let message = format!("pleach may have {few} files open at once, so runs fail where they need more");
    Some(Finding::error("limits", message, format!("raise the hard limit (`ulimit -Hn`) to {ENOUGH_FILES} or more")))
}

/// The agents that are installed.
pub fn installed(found: &[Installed]) -> Finding {
    let describe = |agent: &Installed| {
        let version = agent.version.as_deref().unwrap_or("of an unknown version");
        let login = if agent.has_login { " (logged in)" } else { "" };
        format!("{} {version}{login}", agent.name)
    };
    if !found.is_empty() {
        Finding::ok("installed", found.iter().map(describe).collect::<Vec<_>>().join(", "))
    } else {
        Finding::ok("installed", "none of claude, codex, gemini and opencode is on PATH")
    }
}

pub fn keys(found: &[(ProviderName, &'static str)]) -> Finding {
    let described = found.iter().map(|(provider, variable)| format!("{provider} ({variable})"));
    if !found.is_empty() {
        Finding::ok("keys", described.collect::<Vec<_>>().join(", "))
    } else {
        Finding::ok("keys", "none is set")
    }
}

/// Whether the programs that set up and test are there.
pub async fn tools(config: &Config, environment: &Environment, spawner: &Spawner) -> Vec<Finding> {
    let commands = [
        ("worktrees.setup", &config.worktrees.setup),
        ("test_command", &config.test_command),
        ("tree.test_command", &config.tree.test_command),
    ];
    let (mut names, mut missing) = (BTreeSet::new(), Vec::new());
    for (key, command) in commands.into_iter().filter_map(|(key, command)| Some((key, command.as_deref()?))) {
        names.extend(project::program(command));
        if let Some(MissingTool { name, how }) = missing_tool(command, environment, spawner).await {
            let message = format!("`{key}` needs `{name}`, which {how}");
            missing.push(Finding::error("tools", message, format!("install it, or correct `{key}` in pleach.yaml")));
        }
    }
    if missing.is_empty() && !names.is_empty() {
        vec![Finding::ok("tools", names.into_iter().collect::<Vec<_>>().join(", "))]
    } else {
        missing
    }
}

/// The finding that no agent is configured. `chosen` is the agent prompts and pipelines use then.
pub fn no_agent(chosen: Result<&str, Failure>) -> Finding {
    let name = "name one with `agent:` in pleach.yaml; `pleach init` writes one";
    let (means, fix) = match chosen {
        Ok(agent) => (format!("prompts and pipelines use `{agent}`, task trees need one"), name.to_owned()),
        Err(failure) => ("nothing that needs one can run".to_owned(), failure.hint.unwrap_or_else(|| name.to_owned())),
    };
    Finding::warn("agent", format!("no agent is configured: {means}"), fix)
}

/// Whether every agent the settings name can be started, and what it would start with.
pub async fn configured(config: &Config, roster: &Roster, environment: &Environment) -> Vec<Finding> {
    let mut choices: Vec<(String, AgentChoice, Option<String>)> = Vec::new();
    if let (Some(agent), Ok(choice)) = (&config.agent, config.agent_of(None)) {
        choices.push(("agent".to_owned(), choice, agent.name().map(str::to_owned)));
    }
    for (name, agent) in &config.agents {
        let key = if agent.runner.is_some() { format!("agents.{name}.runner") } else { format!("agents.{name}") };
        // An entry named like a kind of agent says nothing about who is to work.
        let is_kind = agent.runner.is_none() && name.parse::<AgentChoice>().is_ok();
        if let (false, Ok(choice)) = (is_kind, roster.choice_of(name)) {
            choices.push((key, choice, Some(name.clone())));
        }
    }
    choices.extend(config.tree.steps.iter().filter_map(|(step, settings)| {
        let name = settings.runner.as_ref()?.to_string();
        Some((format!("tree.steps.{step}.runner"), roster.choice_of(&name).ok()?, Some(name)))
    }));
    let is_limited = BudgetLimits { budget: config.budget.clone(), ..BudgetLimits::default() }.is_set();
    let mut findings = Vec::new();
    // A program the settings bring along is not even asked for its version: nobody may have agreed to it.
    let brought = |name: &str| config.agents.get(name).is_some_and(|agent| !agent.command.is_empty());
    for (key, choice, name) in choices {
        let name = name.as_deref();
        let is_known = choice.argv().is_none() && !brought(choice.kind()) && !name.is_some_and(brought);
        let resolved = roster.agent(&choice, name);
        let unheld = is_limited && resolved.as_ref().is_ok_and(|agent| !agent.tells_spending());
        findings.push(agent(&key, &choice, resolved, is_known, environment).await);
        if unheld {
            findings.push(Finding::warn(
                "budget",
                format!("`{key}` ({choice}) does not report what it spends, so the budget cannot limit it"),
                "limit it with `timeout` and `max_visits`, or set `turns: gateway` if it honours a base URL",
            ));
        }
    }
    findings
}

/// Whether one agent can be started.
async fn agent(
    key: &str,
    choice: &AgentChoice,
    resolved: Result<Arc<dyn Agent>, NoAgent>,
    is_known: bool,
    environment: &Environment,
) -> Finding {
    let agent = match resolved {
        Ok(agent) => agent,
        Err(error) => {
            let text = error.to_string();
            let (message, fix) = text.split_once("; ").unwrap_or((&text, "see `pleach help agents`"));
            return Finding::error("agent", format!("`{key}` ({choice}): {message}"), fix);
        }
    };
    if let Some(program) = agent.as_program().filter(|_| is_known) {
        let introduction = program.introduce(&Cancel::never()).await;
        let text = introduction.to_string();
        let introduced = format!("`{key}` is {}", text.strip_prefix("agent ").unwrap_or(&text));
        return match introduction.billed {
            _ if introduction.outdated.is_some() => {
                let outdated = introduction.outdated.unwrap_or_default();
                let (why, how) = outdated.split_once("; ").unwrap_or((&outdated, "update it"));
                Finding::warn("agent", format!("{introduced}: {why}"), how)
            }
            Billing::Unknown(how) => Finding::warn("agent", introduced.trim_end_matches(&format!(": {how}")), how),
            _ => Finding::ok("agent", introduced),
        };
    }
    let argv = choice.argv().unwrap_or_default();
    match argv.first().filter(|program| !program.contains('/') && find_program(program, environment).is_none()) {
        None => Finding::ok("agent", format!("`{key}` is {choice}")),
        Some(program) => Finding::error(
            "agent",
            format!("`{key}` ({choice}): there is no program `{program}` on PATH"),
            "install it, or correct the command",
        ),
    }
}

/// The sandbox of agents. `alone`: the agent of the settings reaches its model by itself.
pub fn sandbox(chosen: Result<SandboxChoice, String>, alone: bool) -> Finding {
    match chosen {
        Ok(SandboxChoice::On(policy)) => Finding::ok("sandbox", policy.in_words(alone)),
        Ok(SandboxChoice::Off) => Finding::warn(
            "sandbox",
            "it is off, so nothing keeps agents in their worktree",
            "remove `sandbox.mode: off` from the settings",
        ),
        Ok(SandboxChoice::Nothing(missing)) => Finding::warn(
            "sandbox",
            format!("nothing keeps agents in their worktree: {missing}"),
            "install bubblewrap, or use a kernel with Landlock",
        ),
        Err(missing) => Finding::error("sandbox", missing, "install bubblewrap, or use a kernel with Landlock"),
    }
}

/// Room on the disk where pleach writes, and whether it can.
pub fn disk(places: &[(&str, &Path)]) -> Vec<Finding> {
    let look = |(name, path): &(&str, &Path)| match check_writable(path).and_then(|()| free_space(path)) {
        Err(error) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
            let why = if error.kind() == ErrorKind::ReadOnlyFilesystem {
                "its file system is read-only"
            } else {
                "no permission"
            };
            let message = format!("{} cannot be written, which {name} needs: {why}", path.display());
            Finding::error("disk", message, "make it writable; `XDG_STATE_HOME` and `worktrees.base` name other places")
        }
        Err(error) => Finding::warn("disk", format!("cannot check {}: {error}", path.display()), "check it by hand"),
        Ok(free) => {
            let message = format!("{} free for {name}, {}", bytes(free), path.display());
            let level = match free {
                ..TOO_LITTLE => Level::Error,
                TOO_LITTLE..LITTLE => Level::Warn,
                LITTLE.. => Level::Ok,
            };
            let fix = (level != Level::Ok).then(|| "make room; `pleach rm` removes sessions".to_owned());
            Finding::new(level, "disk", message, fix)
        }
    };
    places.iter().map(look).collect()
}

/// Where programs put their temporary files. `bound`: pleach gives those it starts a directory of their own.
pub fn temporary(environment: &Environment, bound: bool) -> Option<Finding> {
    let dir = PathBuf::from(environment.get_os("TMPDIR").filter(|dir| !dir.is_empty())?);
    let why = match dir.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
        Ok(found) if !found.is_dir() => "is not a directory".to_owned(),
        Ok(_) => format!("cannot be written: {}", check_writable(&dir).err()?),
    };
    let message = format!("TMPDIR is `{}`, which {why}", dir.display());
    let level = if bound { Level::Warn } else { Level::Error };
    Some(Finding::new(level, "tmpdir", message, Some("create it, or unset TMPDIR".to_owned())))
}

/// Sessions that cannot be read, those of killed processes, and locks of other machines.
pub fn sessions(repo: &Repo) -> Vec<Finding> {
    let looked = View::open(repo).and_then(|(all, _)| Ok((all, View::unreadable(repo)?)));
    let (all, unreadable) = match looked {
        Ok(looked) => looked,
        Err(error) => return vec![Finding::error("sessions", error.to_string(), "`git fsck` may show more")],
    };
    let unread = |(id, error): &(RunId, _)| {
        // What is not fetched is not damaged.
        let fix = if repo.is_partial() {
            "see that the remote of this partial clone can be reached".to_owned()
        } else {
            without_record(id)
        };
        Finding::warn("sessions", format!("{id} cannot be read: {error}"), fix)
    };
    let mut findings: Vec<Finding> = unreadable.iter().map(unread).collect();
    let mut running = 0;
    for (id, summary) in &all {
        match summary.as_ref().map(Summary::standing) {
            Ok(SessionStatus::Running) => running += 1,
            Ok(SessionStatus::Dead) => findings.push(Finding::warn(
                "sessions",
                format!("{id} was killed while it ran"),
                format!("`pleach resume {id}` continues it, `pleach rm {id}` removes it"),
            )),
            _ => {}
        }
    }
    findings.extend(held_elsewhere(repo));
    if findings.is_empty() {
        let running = if running == 0 { String::new() } else { format!(", {running} of them running now") };
        findings.push(Finding::ok("sessions", format!("{}{running}", counted(all.len(), "session"))));
    }
    findings
}

fn held_elsewhere(repo: &Repo) -> Vec<Finding> {
    let common = repo.common_dir();
    let names = Lock::names(common).unwrap_or_default();
    let foreign = |name: &String| {
        let holder = Lock::holder(common, name)?;
        if holder.is_here(common, name) {
            return None;
        }
        let message = format!("the lock `{name}` is held by {}, which is not a process of this machine", holder.text);
        Some(Finding::warn("locks", message, "wait until it is done, or end it there"))
    };
    names.iter().filter_map(foreign).collect()
}

/// Locks of git's own that are in the way: that of the checkout's index, and those a killed process left on refs.
pub fn git_locks(repo: &Repo) -> Vec<Finding> {
    let fix = |lock: &Path| format!("when no git command runs there, remove {}", lock.display());
    let lock: PathBuf = repo.git_dir().join("index.lock");
    let of_index = lock
        .exists()
        .then(|| Finding::warn("locks", "the checkout has an index.lock, so nothing can land in it", fix(&lock)));
    let of_refs = stale_ref_locks(repo).unwrap_or_default().into_iter().map(|lock| {
        let name = lock.strip_prefix(repo.common_dir()).unwrap_or(&lock).with_extension("");
        let message = format!("a killed process left a lock on {}, which git cannot write now", name.display());
        Finding::warn("locks", message, fix(&lock))
    });
    of_index.into_iter().chain(of_refs).collect()
}

/// Whether the mirror of records answers, shows them, and has those of the newest runs.
pub async fn mirror(settings: &Settings, record: &Repo) -> Option<Finding> {
    let configured = settings.resolved.config.record.cxdb.as_ref()?;
    let address = match known_mirror(settings, record) {
        Ok(Some(address)) => address,
        Ok(None) => {
            let message = format!("CXDB at {} was not asked: the address was not approved yet", configured.server());
            return Some(Finding::warn("mirror", message, "`pleach record mirror` asks for it"));
        }
        Err(failure) => return Some(Finding::error("mirror", failure.sentence(), failure.hint.unwrap_or_default())),
    };
    let server = address.server();
    let runs = newest_runs(record, MIRRORED).unwrap_or_default();
    let report = report(record, &runs, &address, PATIENCE).await;
    let Some(standing) = report.standing else {
        let why = report.error.unwrap_or_default();
        return Some(Finding::warn(
            "mirror",
            why,
            "check that CXDB runs there, and `record.cxdb`; runs go on without it",
        ));
    };
    if let Err(error) = check_http(&address).await {
        let failure = of_mirror(&error);
        return Some(Finding::warn("mirror", failure.message, failure.hint.unwrap_or_default()));
    }
    let of = if runs.len() == MIRRORED { format!("the newest {MIRRORED} runs") } else { counted(runs.len(), "run") };
    Some(match standing.behind {
        0 => Finding::ok("mirror", format!("CXDB at {server} has all records of {of}")),
        behind => Finding::warn(
            "mirror",
            format!("CXDB at {server} is {} of {of} behind", counted(behind, "record")),
            "`pleach record mirror --all`",
        ),
    })
}

/// Whether the providers that could be asked can be reached.
pub async fn online(config: &Config, settings: &Settings, spawner: &Spawner) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, given) in config.providers.remote() {
        let Ok(remote) = Remote::new(name, given, &settings.environment, spawner, &config.root) else { continue };
        let reached = match tokio::time::timeout(PATIENCE, remote.reach()).await {
            Ok(reached) => reached,
            Err(_) => Err(format!("{} did not answer in {} s", remote.address(), PATIENCE.as_secs())),
        };
        findings.push(match reached {
            Ok(status) => Finding::ok("online", format!("{name} answers at {} (status {status})", remote.address())),
            Err(why) => Finding::error(
                "online",
                format!("{name} cannot be reached: {why}"),
                format!("check the network, or `providers.{name}.base_url` and `.settings.proxy`"),
            ),
        });
    }
    if findings.is_empty() {
        let names = config.providers.remote().map(|(name, _)| name.as_str());
        let message = format!("no provider has a key, so none was asked ({})", listed(names, NAMED));
        findings.push(Finding::ok("online", message));
    }
    findings
}
