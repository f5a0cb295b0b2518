//! What `run`, `resume` and `demo` share: making an engine of the settings, and seeing a session through to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use agents::agent::{MessageWriter, Profile, Roster};
use agents::llm::{Providers, Script};
use engine::env::{AutoApprove, Broadcast, Budget, Engine, Error, Interviewer, Nobody, Supervisor, UnmeteredAgent};
use engine::session::{self, Pause, Session, SessionEnded, spawn_session};
use git::CommitLimits;
use git::record::SESSIONS;
use git::remote::default_push_url;
use git::workspace::{BranchFollower, PushState, Workspace, WorktreeSettings};
use os::process::sandbox::{self, SandboxChoice};
use os::process::{self, Cancel, Canceller, Spawner};
use pleach_core::config::{AgentSettings, Config, Environment};
use pleach_core::event::{Event, Notification, PauseReason};
use pleach_core::ids::{BranchName, CommitId, NodeId};
use pleach_core::plan::pipeline::Node;
use pleach_core::text::{counted, listed, shell_word};

use crate::answers::Answers;
use crate::attribution_notes::note_session;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_lost_repository};
use crate::next_commands::{about, git_in_repo};
use crate::remotes::push_settings;
use crate::render::progress::Progress;
use crate::render::{Out, duration, question, spent, style};
use crate::runtime::StoppedBy;
use crate::settings::Settings;
use crate::stdin_lines;

/// An engine and what stops it.
#[derive(Debug)]
pub struct EngineHandle {
    pub engine: Arc<Engine>,
    /// Stops it.
    pub canceller: Canceller,
    /// The sandbox of agents.
    pub protection: SandboxChoice,
}

impl EngineHandle {
    /// The handles that stop it from outside.
    pub fn stopped_by(&self) -> StoppedBy {
        StoppedBy { canceller: self.canceller.clone(), supervisor: Arc::clone(&self.engine.supervisor) }
    }
}

/// Makes the engine of a configuration.
pub fn build(
    globals: &Globals,
    settings: &Settings,
    config: &Config,
    answers: Answers,
) -> Result<EngineHandle, Failure> {
    build_beside(globals, settings, config, answers, None)
}

/// Makes an engine beside another one: they are stopped and heard together.
pub fn build_beside(
    globals: &Globals,
    settings: &Settings,
    config: &Config,
    answers: Answers,
    other: Option<&EngineHandle>,
) -> Result<EngineHandle, Failure> {
    let shim = shim_program()
        .map_err(|error| Failure::new(Code::ProgramFailed, "pleach cannot find its own program").because(&error))?;
    process::protect_memory().map_err(|error| {
        Failure::new(Code::RuntimeUnavailable, "pleach cannot hide its keys from other processes").because(&error)
    })?;
    let spawner = Spawner::passing(shim, &settings.environment, &config.env.pass);
    let protection = protection(settings, config)?;
    let providers = providers(settings, config, &spawner)?;
    let redactor = settings.redactor();
    providers.redact_with(&redactor);
    let (canceller, cancel, events, supervisor) = match other {
        Some(EngineHandle { engine, canceller, .. }) => {
            (canceller.clone(), engine.cancel.clone(), engine.events.clone(), Arc::clone(&engine.supervisor))
        }
        None => {
            let (canceller, cancel) = Cancel::new();
            let is_heard = globals.verbosity > 0 && !globals.json;
            let events = if is_heard { Broadcast::default().with_words() } else { Broadcast::default() };
            (canceller, cancel, events, Supervisor::new(spawner.clone(), settings.state_dir.clone()))
        }
    };
    let engine = Engine {
        agents: roster(config, providers.clone(), spawner, &settings.environment)?,
        tiers: settings.merge_tiers(&config.merge),
        budget: Budget::new(config.budget.clone(), &supervisor),
        push: push_settings(config)?,
        mirror: config.record.cxdb.clone(),
        attribution: config.attribution,
        scribe: providers.cheap(config).map(|(provider, model)| MessageWriter::new(provider, model)),
        supervisor,
        worktrees: WorktreeSettings {
            base: config.worktrees.base.clone(),
            setup: config.worktrees.setup.clone(),
            exclude: config.worktrees.exclude.clone(),
            include_ignored: config.worktrees.include_ignored.iter().map(PathBuf::from).collect(),
            limits: CommitLimits::new(config.commit.max_file_mb, config.commit.max_new_files),
            pool: usize::try_from(config.worktrees.pool).ok(),
        },
        interviewer: interviewer(answers, &events),
        handlers: Default::default(),
        sandbox: match &protection {
            SandboxChoice::On(policy) => Some(policy.clone()),
            SandboxChoice::Off | SandboxChoice::Nothing(_) => None,
        },
        output_chars: usize::try_from(config.context.output_chars).unwrap_or(usize::MAX),
        redactor,
        events,
        cancel,
    };
    Ok(EngineHandle { engine: Arc::new(engine), canceller, protection })
}

/// The agents of a configuration. Those that are programs are looked for, and started, with this environment.
pub fn roster(
    config: &Config,
    providers: Providers,
    spawner: Spawner,
    environment: &Environment,
) -> Result<Roster, Failure> {
    Ok(Roster::new(config, providers, spawner)
        .with_profiles(profiles(config)?)
        .with_programs(environment, program_of_agents("__hook"))
        .with_tool_server(program_of_agents("__tools")))
}

/// The sandbox of agents.
pub fn protection(settings: &Settings, config: &Config) -> Result<SandboxChoice, Failure> {
    let mut available = sandbox::available();
    // As if there were less, for tests. It can only take away, and a repository has no say in it.
    if let Some(least) = settings.own_environment.get("PLEACH_SANDBOX_BY") {
        available = available.at_most(least);
    }
    // A `.env` file must not call a directory of the user a cache.
    sandbox::choose(&config.sandbox, &settings.own_environment, available).map_err(|missing| {
        Failure::new(Code::SandboxMissing, missing.to_string()).hint(
            "install bubblewrap or use a newer kernel; with `sandbox.mode: auto` agents run without what is missing",
        )
    })
}

/// The sandbox of a run, reported once when something runs.
#[derive(Debug, Clone, Copy)]
pub struct Protection<'a> {
    /// The sandbox of agents.
    pub chosen: &'a SandboxChoice,
    /// Some agent reaches its model by itself.
    pub alone: bool,
    /// Agents only pretend.
    pub simulated: bool,
}

impl Protection<'_> {
    /// Says it at the first command or agent.
    pub fn hear(&self, globals: &Globals, event: &Event) {
        static SAID: Once = Once::new();
        let Event::NodeStarted(started) = event else { return };
        let runs = match started.handler.as_str() {
            "tool" => true,
            "codergen" => !self.simulated,
            _ => false,
        };
        if !runs || globals.json || globals.verbosity < 0 {
            return;
        }
        SAID.call_once(|| match self.chosen {
            SandboxChoice::Off => {}
            SandboxChoice::On(policy) => say!("sandbox: {}", policy.in_words(self.alone)),
            SandboxChoice::Nothing(missing) => {
                warning!(NoSandbox, "no sandbox: {missing}; writes outside the worktree are only reported")
            }
        });
    }
}

/// The program that supervises what is started: this one, also when its file is replaced meanwhile.
fn own_program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// The supervisor as it is started.
pub fn shim_program() -> std::io::Result<Vec<OsString>> {
    Ok(vec![own_program()?.into(), "__exec".into()])
}

/// A program agents run, as their hook or the server of their tools: this one, by a name that means the same to them.
fn program_of_agents(part: &str) -> Vec<OsString> {
    std::env::current_exe().map(|program| vec![program.into(), part.into()]).unwrap_or_default()
}

/// Prints the session before its checkout, which may take long.
pub fn print_session(globals: &Globals, session: &Session) {
    if globals.json || globals.verbosity < 0 {
        return;
    }
    let branches: BTreeSet<&str> = session.started().branches.values().map(BranchName::as_str).collect();
    let branches = listed(branches, usize::MAX);
    let at = if session.started().has_several_repos() {
        format!(" in {}", listed(session.started().branches.keys(), usize::MAX))
    } else {
        String::new()
    };
    say!("session {} on branch {branches}{at}", session.run());
}

/// Prints which programs will work as agents, and who is billed.
pub async fn print_agents(globals: &Globals, engine: &Engine, nodes: impl IntoIterator<Item = &Node>) {
    if globals.verbosity < 0 {
        return;
    }
    let nodes: Vec<&Node> = nodes.into_iter().collect();
    for (tool, program) in engine.agents.hidden_programs(nodes.iter().copied()) {
        let program = program.display();
        warning!(ToolHidesProgram, "agents find the tool `{tool}` of the configuration instead of `{program}`");
    }
    for agent in engine.agents.introduce(nodes, &engine.cancel).await {
        say!("{agent}");
        if let Some(outdated) = &agent.outdated {
            warning!(AgentOutdated, "{outdated}");
        }
    }
}

/// Warns of agents that do not report what they spend, so that no budget limits them.
pub fn warn_unmetered(unheld: impl IntoIterator<Item = UnmeteredAgent>) {
    for agent in unheld {
        warning!(AgentUnmetered, "{agent}");
    }
}

fn interviewer(answers: Answers, events: &Broadcast) -> Box<dyn Interviewer> {
    let last: Box<dyn Interviewer> = if answers.auto_approve {
        Box::new(AutoApprove)
    } else if let Some(console) = answers.console.filter(|_| stdin_lines::is_possible()) {
        Box::new(console.after(events.clone()))
    } else {
        Box::new(Nobody)
    };
    Box::new(engine::env::PreparedAnswers::new(answers.given, last))
}

/// The model providers of the built-in agent.
pub fn providers(settings: &Settings, config: &Config, spawner: &Spawner) -> Result<Providers, Failure> {
    let script = config.providers.script.file.as_ref().map(|file| {
        let unusable = |why: String| {
            Failure::new(Code::ScriptInvalid, format!("cannot use the script `{}`: {why}", file.display()))
                .hint("`pleach help scripted-provider` shows how a script is written")
        };
        let text = os::plain_file::read(file).map_err(|error| unusable(error.to_string()))?;
        Script::parse(&text).map_err(|error| unusable(error.to_string()))
    });
    Ok(Providers::new(config, &settings.environment, spawner, script.transpose()?))
}

/// The profiles of the named agents.
fn profiles(config: &Config) -> Result<BTreeMap<String, Profile>, Failure> {
    let load = |(name, agent): (&String, &AgentSettings)| match Profile::load(agent) {
        Ok(profile) => Ok((name.clone(), profile)),
        Err(error) => Err(Failure::new(Code::LayerInvalid, format!("agent `{name}`: {error}"))
            .hint("a layer file is YAML with a `content` key; `pleach help agents` shows one")),
    };
    config.agents.iter().map(load).collect()
}

/// Runs a session to its end, pause or failure, shows progress, and prints how to continue.
pub async fn run_to_end(globals: &Globals, session: Session, protection: Protection<'_>) -> Result<Exit, Failure> {
    let begun = std::time::Instant::now();
    let mut progress = Progress::new(globals, &session);
    let hear = |notification: &Notification| {
        protection.hear(globals, &notification.recorded.event);
        progress.event(notification);
    };
    let (session, ended) = spawn_session(session).follow(hear).await;
    progress.finish();
    note_session(&session);
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Err(failure_of(globals, &session, &error)),
    };
    if !globals.json {
        summary(globals, &session, &ended, begun.elapsed(), progress.failed_branches())?;
        if session.started().simulated {
            Out::new().line(style::paint(style::WAITS, SIMULATED_END))?;
        }
    }
    Ok(exit_of(&ended))
}

/// The exit code of a run.
pub fn exit_of(ended: &SessionEnded) -> Exit {
    match ended {
        SessionEnded::Completed => Exit::Done,
        SessionEnded::Failed { .. } | SessionEnded::Cancelled => Exit::WorkFailed,
        SessionEnded::Paused(Pause { reason: PauseReason::WaitsForPerson, .. }) => Exit::WaitsForPerson,
        SessionEnded::Paused(_) => Exit::Paused,
    }
}

/// Why a run could not be carried on, and how it continues.
pub fn failure_of(globals: &Globals, session: &Session, error: &Error) -> Failure {
    let failure = of_engine(error);
    if matches!(error, Error::ContinuedElsewhere { .. }) {
        return failure;
    }
    if session.repo().is_gone() {
        let copy = session.workspace().map(Workspace::root).filter(|root| root.is_dir());
        return of_lost_repository(failure, session.repo().common_dir(), copy);
    }
    let id = session.run();
    let resume = match error {
        Error::UnknownAnswer { node, .. } | Error::AmbiguousAnswer { node, .. } => {
            format!("resume {id} --answer {node}=CHOICE")
        }
        _ => format!("resume {id}"),
    };
    let resume = about(globals, &globals.dir, &resume, None);
    let first = failure.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    // Most settings of a session are those of its start: what is changed in them today would never be seen.
    let with = match error {
        Error::Environment { .. } | Error::Agent { .. } => {
            " with today's keys, addresses, limits and `providers.NAME.models`; after any other change, start a \
             new run"
        }
        _ => "",
    };
    let hint = match failure.code {
        Code::ObjectUnreadable | Code::ObjectOverwritten => {
            format!("{first}once that is repaired, `{resume}` continues")
        }
        _ => format!("{first}nothing recorded is lost; `{resume}` continues{with}"),
    };
    failure.hint(hint)
}

/// Said first where the agent is `simulation`; the result says it again.
pub const SIMULATED: &str = "SIMULATION: agent nodes are simulated, commands run for real";

/// Said last.
pub const SIMULATED_END: &str = "SIMULATION: no agent worked, agent nodes were simulated";

/// The result of a run, and how to continue.
pub fn summary(
    globals: &Globals,
    session: &Session,
    ended: &SessionEnded,
    took: std::time::Duration,
    failed_branches: usize,
) -> Result<(), Failure> {
    let mut out = Out::new();
    let id = session.run();
    let took = duration(took);
    let turns = counted(session.turns(), "turn");
    let spent = spent(&session.spent());
    let counted = format!("{turns}, {spent}, {took}");
    let head = |word: &str| style::standing(word);
    match ended {
        SessionEnded::Completed => {
            out.line(format!("{} session {id} ({counted})", head("done:")))?;
            match failed_branches {
                0 => {}
                failed => out.line(format!("{} failed", pleach_core::text::counted(failed, "branch")))?,
            }
            match session::overspent(session) {
                Ok(over) => over.iter().try_for_each(|over| out.line(over.to_string()))?,
                // What is done is done, whatever others have spent.
                Err(error) => warning!(SpendingUnreadable, "{}", of_engine(&error).sentence()),
            }
        }
        SessionEnded::Cancelled => out.line(format!("{} session {id} ({counted})", head("cancelled:")))?,
        SessionEnded::Failed { reason } => {
            out.line(format!("{} session {id} ({counted})\n{reason}", head("failed:")))?
        }
        SessionEnded::Paused(pause) => {
            let node = pause.node.as_ref().map(|node| format!(" at `{node}`")).unwrap_or_default();
            out.line(format!("{} session {id}{node} ({counted})", head("paused:")))?;
            pause.why.iter().try_for_each(|why| out.line(why))?;
        }
    }
    if globals.verbosity < 0 {
        return Ok(());
    }
    let about = |command: String| about(globals, &globals.dir, &command, None);
    match ended {
        SessionEnded::Completed if session.state().work == session.state().base => match uncommitted(session) {
            Some(held) => out.line(format!("no file was committed: {held}")),
            None => out.line("no file was changed"),
        },
        SessionEnded::Completed => {
            uncommitted(session).iter().try_for_each(|held| out.line(held))?;
            show_branches(globals, session, &mut out)?;
            out.line(format!("look:    {}", about(format!("diff {id}"))))?;
            if session.started().has_several_repos() {
                out.line(format!("merge:   {}", about(format!("land {id}"))))
            } else {
                session.branches().try_for_each(|(_, branch)| {
                    out.line(format!("merge:   {}", merge_command(globals, session, branch)?))
                })
            }
        }
        SessionEnded::Failed { .. } | SessionEnded::Cancelled => {
            show_branches(globals, session, &mut out)?;
            out.line(format!("look:    {}", about(format!("status {id}"))))?;
            match session.state().failed_node() {
                Some(node) => {
                    let resume = about(format!("resume {id}"));
                    out.line(format!("resume:  {resume}\n         {}", starts_again(session, node)))
                }
                None => Ok(()),
            }
        }
        SessionEnded::Paused(Pause { questions, .. }) if !questions.is_empty() => {
            for question in questions {
                let gate = question.address();
                out.line(format!("`{gate}` asks: {} ({})", question.text, question.choices_in_words()))?;
                question.work.iter().try_for_each(|work| out.text(&question::judged(work)))?;
                out.line(format!("look:    {}", about(format!("diff {}", question.place(&id.session)))))?;
                out.line(format!("answer:  {}", about(format!("resume {id} --answer {gate}=CHOICE"))))?;
                out.line(format!("comment: {}", about(format!("resume {id} --answer '{gate}=CHOICE: COMMENT'"))))?;
            }
            Ok(())
        }
        SessionEnded::Paused(_) => out.line(format!("resume:  {}", about(format!("resume {id}")))),
    }?;
    if matches!(ended, SessionEnded::Completed | SessionEnded::Failed { .. }) && !has_remote(session) {
        let repo = session.repo();
        let add = git_in_repo(globals, repo.workdir().unwrap_or(repo.git_dir()), "remote add origin URL");
        let started = session.started();
        let at = if started.has_several_repos() {
            format!("`{}`", started.record_repo())
        } else {
            "this repository".to_owned()
        };
        out.line(format!("record:  {SESSIONS}{}, in {at} alone: it has no remote", id.session))?;
        out.line(format!("push:    {add} && {}", about(format!("push {id}"))))?;
    }
    let pushes = PushState::read(session.repo().common_dir(), id);
    if pushes.repos.values().any(|remote| remote.failed.is_some()) {
        out.line(format!("push:    {}", about(format!("push {id}"))))
    } else {
        Ok(())
    }
}

/// Whether the repository of the record has a remote that is known.
fn has_remote(session: &Session) -> bool {
    let started = session.started();
    let configured = ["workspace", "repos", started.record_repo().as_str(), "remote"];
    let configured = configured.iter().try_fold(&started.config, |settings, key| settings.get(key));
    let is_configured = configured.is_some_and(|remote| !remote.is_null());
    is_configured || !matches!(default_push_url(session.repo()), Ok(None))
}

/// How a failed session is resumed: what is frozen, and what is not.
fn starts_again(session: &Session, node: &NodeId) -> String {
    let is_exit = session.pipeline().exit().is_some_and(|exit| exit.id == *node);
    let at = if is_exit {
        "checks the end again (`--from NODE` starts at a node)".to_owned()
    } else {
        format!("starts again at `{node}`")
    };
    format!(
        "{at}, with the pipeline and settings of the start and today's keys, addresses and limits;\n         \
         after a change of the pipeline or of other settings, start a new run"
    )
}

/// The uncommitted files of the worktree, in words.
fn uncommitted(session: &Session) -> Option<String> {
    let held = session.workspace().map(Workspace::held_back).filter(|held| *held > 0)?;
    let was = if held == 1 { "was" } else { "were" };
    Some(format!("{} {was} held back, as the warnings say", counted(held, "file")))
}

/// The branches, and how each gets what only the record has: because a checkout could not follow, or somebody has moved it.
fn show_branches(globals: &Globals, session: &Session, out: &mut Out) -> Result<(), Failure> {
    let several = session.started().has_several_repos();
    let repo = session.repo();
    let root = repo.workdir().unwrap_or(repo.git_dir());
    let git = |command: String| if several { format!("git {command}") } else { git_in_repo(globals, root, &command) };
    session.branches().try_for_each(|(repo, branch)| {
        let at = if several { format!(" in {repo}") } else { String::new() };
        out.line(format!("branch:  {}{at}", branch.branch()))?;
        print_catch_up(branch, &git, out)
    })
}

/// A branch's tip and the newest recorded commit, where the branch lacks it.
fn lagging(branch: &BranchFollower) -> Result<Option<(CommitId, CommitId)>, Failure> {
    branch.divergence().map_err(|error| of_engine(&error.into()))
}

fn print_catch_up(follower: &BranchFollower, git: &dyn Fn(String) -> String, out: &mut Out) -> Result<(), Failure> {
    let Some((at, tip)) = lagging(follower)? else { return Ok(()) };
    let branch = follower.branch();
    let (at, tip) = (at.short(), tip.short());
    match follower.behind() {
        Some(behind) => {
            let checkout = behind.checkout.display();
            out.line(format!("         it is still at {at}; `{checkout}`, where it is checked out, cannot follow:"))?;
            out.line(format!("         {}", behind.why))?;
            out.line(format!("update:  git -C {} merge --ff-only {tip}", shell_word(checkout)))
        }
        None => {
            out.line(format!("         it was moved to {at}; only the session's record has {tip}"))?;
            let switch = git(format!("switch {}", shell_word(branch)));
            out.line(format!("merge:   {switch} && {}", git(format!("merge {tip}"))))
        }
    }
}

/// The command that merges the result; by its newest commit where the branch lags. Without a checkout only a
/// fast-forward can be asked for.
fn merge_command(globals: &Globals, session: &Session, follower: &BranchFollower) -> Result<String, Failure> {
    let (branch, missing) = (follower.branch(), lagging(follower)?.map(|(_, tip)| tip));
    let repo = session.repo();
    let git = |command: String| git_in_repo(globals, repo.workdir().unwrap_or(repo.git_dir()), &command);
    let what = missing.map_or_else(|| shell_word(branch), |tip| tip.short());
    Ok(match (session.started().target(), session.has_checkout()) {
        (Some(target), true) => {
            format!("{} && {}", git(format!("switch {}", shell_word(target))), git(format!("merge {what}")))
        }
        (Some(target), false) if missing.is_some() => {
            git(format!("push . {}", shell_word(format_args!("{what}:refs/heads/{target}"))))
        }
        (Some(target), false) => git(format!("fetch . {}", shell_word(format_args!("{branch}:{target}")))),
        (None, _) => git(format!("merge {what}")),
    })
}
