//! Carries out one node and reports to the loop. A worker scans and builds objects; it never moves a ref.

mod agent;
mod cancel;
mod command;
mod human;
mod simulation;
mod step;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc;

use self::cancel::NodeCancel;
use self::command::CommandRun;
pub(super) use self::command::output_message;
use super::bounds::Bounds;
use super::budget::BudgetVerdict;
use super::context::moved_aside_warning;
use super::executor::{Work, own_refs};
use super::task::{StepReport, TaskJob};
use super::{Engine, NoChoice, status_file};
use crate::agent::WaitListener;
use crate::budget::Allowance;
use crate::confined_fs::{self, ConfinedDir};
use crate::engine;
use crate::event::{
    AgentTurn, HumanInteraction, Outcome, PauseReason, Snapshot, Status, ToolExecution, Warning, WarningCode,
};
use crate::git::InSubmodules;
use crate::ids::{ContextId, PipelineName, RepoName, RepoPath, SessionId, TurnId};
use crate::plan::pipeline::{Node, WritePolicy};
use crate::process::sandbox::Refused;
use crate::process::{Cancel, Exit, Sandbox, Timeout};
use crate::state::Visit;
use crate::step::text;
use crate::text::listed;
use crate::trailer::TurnFacts;
use crate::workspace::{Changes, Error, Guards, Scratch, Workspace};

/// A turn to be recorded.
#[derive(Debug)]
pub struct TurnReport {
    /// The turn; its message numbers are filled in when it is recorded.
    pub turn: AgentTurn,
    /// When it ended.
    pub at: jiff::Timestamp,
    /// Its new messages.
    pub messages: Vec<Value>,
    /// What it changed.
    pub changes: Changes,
}

/// What the loop answers once a turn is on disk.
#[derive(Debug)]
pub struct TurnAnswer {
    /// The changes, to be taken as the new state of the worktrees.
    pub changes: Changes,
    /// Whether to go on.
    pub order: BudgetVerdict,
    /// What may be spent from now on.
    pub allowance: Allowance,
    /// The repositories with a checkout that has followed the branch.
    pub followed: Vec<RepoName>,
}

/// What a worker tells the loop.
#[derive(Debug)]
pub enum Report {
    /// A turn ended. The worker waits for the answer.
    Turn(Box<TurnReport>),
    /// The node ended.
    Done(Box<Finished>),
    /// The worker broke, which is a mistake of this program.
    Lost(String),
}

/// How a node ended.
#[derive(Debug)]
pub struct Finished {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, Stopped>,
    /// What goes into the record with it.
    pub effect: Effect,
    /// How long it took.
    pub duration: Duration,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    /// The answer of an agent.
    pub response: Option<String>,
    /// What the agent's program said beside its answers.
    pub stderr: String,
    /// What is to be told of the step of a task it stands for.
    pub step: Option<StepReport>,
    /// Its agent was told to stop and had not come to its end.
    pub cut_short: bool,
}

impl Finished {
    /// An end of which there is nothing more to say.
    pub fn of(result: Result<Outcome, Stopped>) -> Self {
        Self {
            result,
            effect: Effect::None,
            duration: Duration::ZERO,
            warnings: Vec::new(),
            response: None,
            stderr: String::new(),
            step: None,
            cut_short: false,
        }
    }
}

/// Why a node has no outcome.
#[derive(Debug)]
pub enum Stopped {
    /// The run is to pause here.
    Paused(PauseReason),
    /// The agent could not work, for reasons outside of the job. What it left is this failure, where the run can go on
    /// with it; else the node has not been worked on, and somebody has to see to those reasons first.
    Environment(Box<Outcome>),
    /// The gate's answer is none of its choices.
    NoAnswer(String, NoChoice),
    /// The working copy cannot be used.
    Broken(Error),
    /// Nobody could begin: what is to be done cannot be made out, or the worktrees cannot be set up again.
    Unable(Box<engine::Error>),
}

/// What goes into the record of a node's end.
#[derive(Debug, Default)]
pub enum Effect {
    /// Nothing further.
    #[default]
    None,
    /// A command ran.
    Tool(Box<ToolEffect>),
    /// A gate was answered.
    Human(Box<HumanInteraction>),
    /// An agent left changes behind after its last turn.
    Leftover(Box<TurnReport>),
}

/// A command that ran, and what it changed.
#[derive(Debug)]
pub struct ToolEffect {
    /// The run; its message number is filled in when it is recorded.
    pub tool: ToolExecution,
    /// Its output, as a message.
    pub output: Value,
    /// What it changed.
    pub changes: Changes,
}

/// One node's worker.
pub struct Worker {
    pub engine: Arc<Engine>,
    /// Ends the session.
    pub cancel: Cancel,
    pub session: SessionId,
    pub context: ContextId,
    pub pipeline: PipelineName,
    pub variables: Vec<(String, String)>,
    pub node: Node,
    pub visit: Visit,
    pub workspace: Workspace,
    pub next_turn: u64,
    pub job: Option<Arc<TaskJob>>,
    pub allowance: Allowance,
    pub order: BudgetVerdict,
    pub run_dir: PathBuf,
    pub home: PathBuf,
    pub scratch: Option<Scratch>,
    pub answers: mpsc::Receiver<TurnAnswer>,
    pub reports: mpsc::Sender<(ContextId, Report)>,
}

impl Worker {
    /// Carries the work out. Gives the worktrees back, and how it ended; its turns are reported before.
    pub async fn run(mut self, work: Work) -> (Workspace, Finished) {
        let begun = Instant::now();
        let mut node = Gathered::default();
        let result = match work {
            Work::Tool(_) | Work::Tests(_) | Work::Agent(_) | Work::Custom(..) => {
                let result = self.watched(work, &mut node).await;
                self.name_submodules(&mut node.warnings);
                result
            }
            waits => {
                self.workspace.lend();
                self.carry_out(waits, &mut node).await
            }
        };
        drop(self.scratch.take());
        let finished = Finished {
            stderr: node.said_beside(),
            result,
            effect: node.effect,
            duration: begun.elapsed(),
            warnings: node.warnings,
            response: node.response,
            step: node.step,
            cut_short: node.cut_short,
        };
        (self.workspace, finished)
    }

    /// Carries out work that can reach beyond the working copy.
    async fn watched(&mut self, work: Work, end: &mut Gathered) -> Result<Outcome, Stopped> {
        self.scratch = block(|| self.engine.scratch())?;
        if self.node.write == WritePolicy::Never {
            block(|| self.workspace.note_setup())?;
        }
        if self.is_kept_out(&work) {
            let before = block(|| self.workspace.look_near())?;
            self.workspace.lend();
            let result = self.carry_out(work, end).await;
            self.workspace.take_back();
            let after = block(|| self.workspace.look_near())?;
            let trespass = before.compare(&after, "");
            self.name_foreign(&trespass.foreign, &mut end.warnings);
            self.tie(&mut end.warnings)?;
            return changed_settings(trespass.control, result, end.step.as_mut());
        }
        let (own, kept) = self.own_refs();
        let before = block(|| self.workspace.look_before(&own, &kept))?;
        let result = self.carry_out(work, end).await;
        self.check_bounds(&before, result, end)
    }

    /// Whether the work is done by programs that cannot write to what would have to be watched. A handler of the
    /// embedding program is none, and runs unbound.
    fn is_kept_out(&self, work: &Work) -> bool {
        let policy = self.engine.sandbox.as_ref().filter(|_| !matches!(work, Work::Custom(..)));
        let mut watched =
            self.workspace.copies().flat_map(|copy| [Some(copy.repo.common_dir()), copy.repo.workdir()]).flatten();
        policy.is_some_and(|policy| watched.all(|dir| policy.keeps_out_of(dir)))
    }

    async fn carry_out(&mut self, work: Work, end: &mut Gathered) -> Result<Outcome, Stopped> {
        let timeout = match work {
            Work::Human(_) => None,
            // Agents mind the time themselves, and tell what they have said until then; this is for one that does not.
            Work::Agent(_) => self.node.timeout.map(|timeout| timeout.saturating_add(AGENT_ENDING)),
            _ => self.node.timeout,
        };
        let cancel = NodeCancel::new(&self.cancel, timeout);
        match work {
            Work::Wait(duration) => tokio::select! {
                () = tokio::time::sleep(duration) => Ok(Outcome::success()),
                () = cancel.cancel.stopped() => match cancel.timed_out() {
                    true => Ok(self.within_time(Outcome::success(), &cancel)),
                    false => Err(Stopped::Paused(PauseReason::Interrupted)),
                },
            },
            Work::Human(question) => self.ask(&question, end).await,
            Work::Tool(command) => self.tool(command, &cancel, end).await,
            Work::Tests(commands) => self.tests(commands, &cancel, end).await,
            Work::Agent(work) => self.agent(work, &cancel, end).await,
            Work::Custom(handler, mut context) => {
                context.cancel = cancel.cancel.clone();
                let begun = Instant::now();
                let kind = context.node.handler.as_str().to_owned();
                let task = tokio::spawn(async move { handler.run(*context).await });
                let outcome = match task.await {
                    Ok(outcome) => outcome,
                    Err(error) => Outcome::fail(format!("the handler of type `{kind}` crashed: {error}")),
                };
                let outcome = self.within_time(outcome, &cancel);
                if self.cancel.is_killed() {
                    return Err(Stopped::Paused(PauseReason::Interrupted));
                }
                let run = CommandRun { command: kind, exit: outcome.status.to_string(), output: String::new(), begun };
                self.finish_command(run, outcome, end)
            }
        }
    }

    fn within_time(&self, outcome: Outcome, cancel: &NodeCancel) -> Outcome {
        if cancel.timed_out() { Outcome::fail(self.out_of_time()) } else { outcome }
    }

    /// How work ends that takes longer than its node may.
    fn out_of_time(&self) -> String {
        Exit::TimedOut(Timeout::Wall(self.node.timeout.unwrap_or_default())).to_string()
    }

    fn may_not_write(&mut self, outcome: Outcome, warnings: &mut Vec<Warning>) -> Result<Outcome, Stopped> {
        if self.node.write != WritePolicy::Never {
            return Ok(outcome);
        }
        let node = self.node.id.clone();
        let listed =
            |paths: &[RepoPath]| paths.iter().take(5).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
        for undone in block(|| self.workspace.undo(&node))? {
            if !undone.lost.is_empty() {
                let lost = listed(&undone.lost);
                warnings.push(WarningCode::ReadOnlyLost.with(format!(
                    "`{node}` must not write, and changed uncommitted files: {lost} cannot be restored"
                )));
            }
            warnings.extend(undone.warnings);
            if undone.kept.is_some() || !undone.given_back.is_empty() {
                let (kept, paths) = undone.kept.unzip();
                let paths = [paths.unwrap_or_default(), undone.given_back].concat();
                let listed = listed(&paths);
                let listed =
                    if listed.is_empty() { "its commits".to_owned() } else { format!("its changes ({listed})") };
                let kept = kept.map(|name| format!(" and kept at {name}")).unwrap_or_default();
                warnings.push(
                    WarningCode::ReadOnlyUndone.with(format!("`{node}` must not write; {listed} were undone{kept}")),
                );
            }
        }
        Ok(outcome)
    }

    fn must_write(&self, outcome: Outcome, wrote: bool) -> Outcome {
        let expected = self.node.write == WritePolicy::Must && outcome.status != Status::Fail;
        if expected && !wrote { Outcome::fail("the node must change files and changed none") } else { outcome }
    }

    /// What a node has made is not all there while files are held back, so it is no success.
    fn must_be_committed(&mut self, outcome: Outcome) -> Result<Outcome, Stopped> {
        let has_failed = matches!(outcome.status, Status::Fail | Status::Retry);
        if has_failed || self.node.write == WritePolicy::Never {
            return Ok(outcome);
        }
        let files = block(|| self.workspace.left_out())?;
        if files.is_empty() {
            return Ok(outcome);
        }
        let why = text::held_back(self.workspace.held_back().max(1), &files);
        Ok(Outcome { context_updates: outcome.context_updates, ..Outcome::fail(why) })
    }

    /// What the names of pleach's branches begin with in each repository, and those of what was kept of the session.
    fn own_refs(&self) -> (BTreeMap<RepoName, String>, String) {
        let mut kept_below = String::new();
        let own = self.workspace.copies().map(|copy| {
            let (own, kept) = own_refs(copy, &self.pipeline, &self.session);
            kept_below = kept;
            (copy.name.clone(), own)
        });
        (own.collect(), kept_below)
    }

    /// Names what was changed outside the working copy; a change of configuration or hooks fails the node.
    fn check_bounds(
        &mut self,
        before: &Guards,
        result: Result<Outcome, Stopped>,
        end: &mut Gathered,
    ) -> Result<Outcome, Stopped> {
        let (own, kept) = self.own_refs();
        let after = block(|| self.workspace.look(&own, &kept))?;
        let mut trespass = before.compare(&after, &kept);
        let put_back = block(|| self.workspace.put_back(before, &after, &kept))?;
        trespass.control.extend(put_back.iter().map(|name| format!("`{name}`, which was restored")));
        self.name_foreign(&trespass.foreign, &mut end.warnings);
        self.tie(&mut end.warnings)?;
        // What was put back differs from what was seen.
        match trespass.control.is_empty() {
            true => self.workspace.keep_look(after),
            false => self.workspace.forget_look(),
        }
        changed_settings(trespass.control, result, end.step.as_mut())
    }

    /// Ties the working copy to its repository again, for whoever works there next.
    fn tie(&mut self, warnings: &mut Vec<Warning>) -> Result<(), Stopped> {
        let moved_aside = block(|| self.workspace.tie())?;
        warnings.extend(moved_aside.iter().map(|place| moved_aside_warning(place)));
        Ok(())
    }

    /// Names what is in submodules alone: no commit of the session has it. That one has moved is said with the turn.
    fn name_submodules(&mut self, warnings: &mut Vec<Warning>) {
        match tokio::task::block_in_place(|| self.workspace.in_submodules_alone()) {
            Ok(all) => {
                let missing = |work| InSubmodules { moved: BTreeSet::new(), ..work }.missing();
                warnings.extend(all.into_iter().flat_map(missing).map(|missing| {
                    WarningCode::SubmoduleWork.with(format!(
                        "changed in submodules and {missing}; commit and push that in their own repository"
                    ))
                }));
            }
            Err(error) => {
                warnings.push(WarningCode::SubmodulesUnreadable.with(format!("cannot check submodules: {error}")))
            }
        }
    }

    /// Names what is the user's and has changed: nobody knows by whom.
    fn name_foreign(&self, foreign: &[String], warnings: &mut Vec<Warning>) {
        if !foreign.is_empty() {
            let what = listed(foreign, NAMED);
            warnings.push(
                WarningCode::ChangedOutside
                    .with(format!("changed while `{}` ran, by it or by somebody else: {what}", self.node.id)),
            );
        }
    }

    /// Tells what the node's agent waits for, and once that it goes on.
    fn wait_listener(&self) -> WaitListener {
        let (engine, node) = (Arc::clone(&self.engine), self.node.id.clone());
        let (session, context) = (self.session.clone(), self.context.clone());
        let waits = AtomicBool::new(false);
        WaitListener::new(move |why| {
            if waits.swap(why.is_some(), Ordering::Relaxed) || why.is_some() {
                engine.tell_wait((&session, &context), &node, why);
            }
        })
    }

    fn turn_id(&self) -> TurnId {
        TurnId { context: self.context.clone(), number: self.next_turn }
    }

    fn facts(&self, model: &str, provider: &str) -> TurnFacts {
        TurnFacts {
            model: model.to_owned(),
            provider: provider.to_owned(),
            node: self.node.id.clone(),
            pipeline: self.pipeline.clone(),
            session: self.session.clone(),
            turn: self.turn_id(),
        }
    }

    /// The variables agents and tools get: who they are to git, and where their status file is.
    fn environment(&self, model: &str, status_file: &Path) -> Vec<(OsString, Option<OsString>)> {
        let who = format!("{} ({model})", self.node.id);
        let root = self.workspace.root();
        let above = root.parent().unwrap_or(root);
        let set = |key: &str, value: &str| (OsString::from(key), Some(OsString::from(value)));
        let mut env: Vec<(OsString, Option<OsString>)> = self
            .variables
            .iter()
            .filter(|(key, _)| !key.starts_with("GIT_"))
            .map(|(key, value)| set(key, value))
            .collect();
        env.extend([
            set("GIT_AUTHOR_NAME", &who),
            set("GIT_AUTHOR_EMAIL", "orchestra@local"),
            set("GIT_COMMITTER_NAME", &who),
            set("GIT_COMMITTER_EMAIL", "orchestra@local"),
            set("GIT_CONFIG_COUNT", "3"),
            set("GIT_CONFIG_KEY_0", "commit.gpgsign"),
            set("GIT_CONFIG_VALUE_0", "false"),
            // Nobody but the user tidies the repository up; in bounds, it would only leave its lock behind.
            set("GIT_CONFIG_KEY_1", "gc.auto"),
            set("GIT_CONFIG_VALUE_1", "0"),
            set("GIT_CONFIG_KEY_2", "maintenance.auto"),
            set("GIT_CONFIG_VALUE_2", "false"),
            // git must not walk up into another repository when an agent removes its `.git`.
            (OsString::from("GIT_CEILING_DIRECTORIES"), Some(above.as_os_str().to_owned())),
            (OsString::from("PLEACH_STATUS_FILE"), Some(status_file.as_os_str().to_owned())),
            // Some programs believe this rather than where they stand.
            (OsString::from("PWD"), Some(root.as_os_str().to_owned())),
            set("PLEACH_SESSION", self.session.as_str()),
            set("PLEACH_NODE", self.node.id.as_str()),
            set("PLEACH_VISIT", &self.visit.visit.to_string()),
            set("PLEACH_ATTEMPT", &self.visit.attempt.to_string()),
        ]);
        env.extend(self.engine.temporary(self.scratch.as_ref()));
        env
    }

    /// What the node's commands may touch; everything if nothing is bound.
    fn bounds(&self, status_file: &Path) -> Option<Bounds<'_>> {
        let outcome = status_file.parent().map(Path::to_owned);
        self.engine.bounds(&self.workspace, self.scratch.as_ref(), outcome)
    }

    /// An empty place for the node's status file, outside the working copy.
    fn status_file(&self) -> Result<PathBuf, Stopped> {
        let dir = self.run_dir.join(self.node.id.as_str());
        let file = dir.join(STATUS_FILE);
        let prepared = std::fs::create_dir_all(&dir).and_then(|()| ConfinedDir::at(&dir)?.remove(STATUS_FILE));
        match prepared {
            Ok(()) => Ok(file),
            Err(source) => Err(Stopped::Broken(Error::Io { doing: "prepare", path: file, source })),
        }
    }

    /// What the status file says, if there is one. The work may have put there what it wants, also what leads elsewhere.
    fn read_status(&self, file: &Path) -> Option<Outcome> {
        match confined_fs::read(file, LONGEST_STATUS) {
            Ok(text) => Some(status_file::read(&String::from_utf8_lossy(&text?)).unwrap_or_else(Outcome::fail)),
            Err(error) => Some(Outcome::fail(format!("the status file cannot be read: {error}"))),
        }
    }
}

/// The name of a node's status file.
const STATUS_FILE: &str = "status.json";

/// What it has at most.
const LONGEST_STATUS: u64 = 1024 * 1024;

/// How long an agent whose time is up may take to end.
const AGENT_ENDING: Duration = Duration::from_secs(10);

/// Commits by repository, where there are any.
fn some(commits: Snapshot) -> Option<Snapshot> {
    (!commits.is_empty()).then_some(commits)
}

/// How many things a message names.
const NAMED: usize = 10;

/// What is collected on the way to a node's end.
#[derive(Default)]
struct Gathered {
    effect: Effect,
    warnings: Vec<Warning>,
    response: Option<String>,
    /// What the agent's program said beside its response.
    stderr: String,
    /// What an agent that was asked once more had said before: its answer, and what its program said beside it.
    asked_again: Option<(String, String)>,
    step: Option<StepReport>,
    /// The agent's newest turn was its last, and nothing of it runs any more.
    is_over: bool,
    /// The agent was told to stop.
    is_told: bool,
    /// The agent was told to stop and had not come to its end.
    cut_short: bool,
    /// A model has answered the agent.
    is_answered: bool,
    /// The agent could not work, for reasons outside of the job.
    is_stuck: bool,
    /// What the sandbox kept the work from writing.
    refused: Refused,
}

impl Gathered {
    /// Notes what the bounds of an agent refused, as its programs tell it.
    fn note_refused<'t>(&mut self, bounds: Option<&Sandbox>, cwd: &Path, told: impl IntoIterator<Item = &'t str>) {
        let Some(bounds) = bounds else { return };
        told.into_iter().for_each(|text| self.refused.extend(bounds.refused(text, cwd)));
    }

    /// All an agent's program said beside its answers.
    fn said_beside(&self) -> String {
        let before = self.asked_again.iter().map(|(_, stderr)| stderr);
        let all = before.chain([&self.stderr]).map(|stderr| stderr.trim_end()).filter(|stderr| !stderr.is_empty());
        all.collect::<Vec<_>>().join("\n")
    }
}

/// Whatever else came of a node: it fails when the repository's own settings were changed, and its step tells why.
fn changed_settings(
    changed: Vec<String>,
    result: Result<Outcome, Stopped>,
    step: Option<&mut StepReport>,
) -> Result<Outcome, Stopped> {
    match result {
        Ok(_) | Err(Stopped::Environment(_)) if !changed.is_empty() => {
            let why = format!("the repository's own settings were changed: {}", listed(&changed, NAMED));
            step.into_iter().for_each(|step| step.fail(&why));
            Ok(Outcome::final_failure(why))
        }
        other => other,
    }
}

/// Work on the repository, which blocks.
fn block<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Stopped> {
    tokio::task::block_in_place(work).map_err(Stopped::Broken)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
