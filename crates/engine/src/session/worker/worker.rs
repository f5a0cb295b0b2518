//! Runs one node and reports to the loop. A worker scans and builds objects; it never moves a ref.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::{Stopped, TurnAnswer, WorkerReport};
use crate::env::{BudgetVerdict, Engine, SandboxBounds, git_variables, repo_contexts};
use crate::session::executor::place::moved_aside_warning;
use crate::session::executor::{ConflictWork, Work, own_refs};
use crate::session::task::{StepReport, TaskJob};
use agents::agent::{RepoContext, WaitListener, commit_message, repos_variable, resolution_message};
use git::SubmoduleWork;
use git::workspace::{self, CopyPosition, Error, Guards, Scratch, Violations, Workspace};
use os::confined_fs::{self, ConfinedDir};
use os::process::{Cancel, Exit, Timeout};
use pleach_core::budget::Allowance;
use pleach_core::event::{Outcome, Snapshot, Status, Warning, WarningCode, status_file};
use pleach_core::ids::{ContextId, NodeId, PipelineName, RepoName, RepoPath, SessionId, TurnId};
use pleach_core::plan::pipeline::{Node, WritePolicy};
use pleach_core::state::Visit;
use pleach_core::step::text;
use pleach_core::text::listed;
use pleach_core::trailer::TurnFacts;

pub struct Worker {
    pub engine: Arc<Engine>,
    /// Stops the session.
    pub cancel: Cancel,
    pub session: SessionId,
    pub context: ContextId,
    pub pipeline: PipelineName,
    pub variables: Vec<(String, String)>,
    pub node: Node,
    pub visit: Visit,
    /// The merge conflicts it has to resolve.
    pub resolves: Option<ConflictWork>,
    /// The command that must succeed once it has.
    pub gate: Option<String>,
    pub workspace: Workspace,
    pub next_turn: u64,
    pub job: Option<Arc<TaskJob>>,
    pub allowance: Allowance,
    pub verdict: BudgetVerdict,
    pub run_dir: PathBuf,
    pub home: PathBuf,
    pub scratch: Option<Scratch>,
    pub answers: mpsc::Receiver<TurnAnswer>,
    pub reports: mpsc::Sender<(ContextId, WorkerReport)>,
}

/// The message of a commit, from what is said of it. Without the agent's own words, the work on a merge conflict is named
/// after it.
pub(super) fn work_message(
    resolves: Option<&ConflictWork>,
    intent: &str,
    is_spoken: bool,
    paths: &[RepoPath],
    are_new: bool,
) -> String {
    match resolves {
        Some(work) => resolution_message(intent, is_spoken, &work.branch, &work.paths, paths, are_new),
        None => commit_message(intent, paths, are_new),
    }
}

impl Worker {
    /// Whether the sandbox keeps the work from writing to everything that would have to be watched. A handler of the
    /// embedding program runs without a sandbox.
    pub(super) fn is_kept_out(&self, work: &Work) -> bool {
        let policy = self.engine.sandbox.as_ref().filter(|_| !matches!(work, Work::Custom(..)));
        let mut watched =
            self.workspace.copies().flat_map(|copy| [Some(copy.repo.common_dir()), copy.repo.workdir()]).flatten();
        policy.is_some_and(|policy| watched.all(|dir| policy.keeps_out_of(dir)))
    }

    pub(super) fn within_time(&self, outcome: Outcome, cancel: &NodeCancel) -> Outcome {
        if cancel.timed_out() { Outcome::fail(self.out_of_time()) } else { outcome }
    }

    /// The exit of work that exceeds its node's timeout.
    pub(super) fn out_of_time(&self) -> String {
        Exit::TimedOut(Timeout::Wall(self.node.timeout.unwrap_or_default())).to_string()
    }

    pub(super) fn may_not_write(&mut self, outcome: Outcome, warnings: &mut Vec<Warning>) -> Result<Outcome, Stopped> {
        self.undo_writes(self.node.write != WritePolicy::Never, warnings)?;
        Ok(outcome)
    }

    /// Keeps and undoes what is in no commit: in all worktrees, or with `writes` in those of other repositories than the
    /// node's own.
    pub(super) fn undo_writes(&mut self, writes: bool, warnings: &mut Vec<Warning>) -> Result<(), Stopped> {
        let node = self.node.id.clone();
        warnings.extend(block(|| undo_writes(&mut self.workspace, &node, writes))?);
        Ok(())
    }

    pub(super) fn must_write(&self, outcome: Outcome, wrote: bool) -> Outcome {
        let expected = self.node.write == WritePolicy::Must && outcome.status != Status::Fail;
        if expected && !wrote { Outcome::fail("the node must change files and changed none") } else { outcome }
    }

    /// A success with held-back files is not a success, because the node's work is incomplete.
    pub(super) fn must_be_committed(&mut self, outcome: Outcome) -> Result<Outcome, Stopped> {
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

    /// The prefix of pleach's branches in each repository, and the prefix of the session's keep refs.
    pub(super) fn own_refs(&self) -> (BTreeMap<RepoName, String>, String) {
        let mut kept_below = String::new();
        let own = self.workspace.copies().map(|copy| {
            let (own, kept) = own_refs(copy, &self.pipeline, &self.session);
            kept_below = kept;
            (copy.name.clone(), own)
        });
        (own.collect(), kept_below)
    }

    /// Reports changes outside the worktree; a changed configuration or hook fails the node.
    pub(super) fn check_bounds(
        &mut self,
        before: &Guards,
        result: Result<Outcome, Stopped>,
        end: &mut Collected,
    ) -> Result<Outcome, Stopped> {
        let (own, kept) = self.own_refs();
        let after = block(|| self.workspace.look(&own, &kept))?;
        let mut trespass = before.compare(&after, &kept);
        let put_back = block(|| self.workspace.put_back(before, &after, &kept))?;
        trespass.control.extend(put_back.iter().map(|name| format!("`{name}`, which was restored")));
        self.name_foreign(&trespass.foreign, &mut end.warnings);
        self.tie(&mut end.warnings)?;
        // The restored state differs from the one scanned.
        if trespass.control.is_empty() {
            self.workspace.keep_look(after)
        } else {
            self.workspace.forget_look()
        }
        fail_if_trespassed(&trespass, result, end.step.as_mut())
    }

    /// Brings the worktrees to commits. What is in no commit is kept.
    pub(super) fn place<'a>(&mut self, to: impl Iterator<Item = (&'a RepoName, CopyPosition)>) -> Result<(), Stopped> {
        for (repo, at) in to {
            let session = self.session.clone();
            if let Some(copy) = self.workspace.copy_mut(repo) {
                let branch = copy.branch.clone();
                block(|| workspace::hand_over(copy, session, branch, at))?;
            }
        }
        Ok(())
    }

    /// Links the worktree to its repository again for the next user.
    pub(super) fn tie(&mut self, warnings: &mut Vec<Warning>) -> Result<(), Stopped> {
        let moved_aside = block(|| self.workspace.tie())?;
        warnings.extend(moved_aside.iter().map(|place| moved_aside_warning(place)));
        Ok(())
    }

    /// Warns about work that exists only in submodules, which no commit of the session has. A moved submodule is
    /// reported with the turn.
    pub(super) fn name_submodules(&mut self, warnings: &mut Vec<Warning>) {
        match tokio::task::block_in_place(|| self.workspace.submodule_work()) {
            Ok(all) => {
                let missing = |work| SubmoduleWork { moved: BTreeSet::new(), ..work }.missing();
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

    /// Warns about changed files of the user; who changed them is unknown.
    pub(super) fn name_foreign(&self, foreign: &[String], warnings: &mut Vec<Warning>) {
        if !foreign.is_empty() {
            let what = listed(foreign, NAMED);
            warnings.push(
                WarningCode::ChangedOutside
                    .with(format!("changed while `{}` ran, by it or by somebody else: {what}", self.node.id)),
            );
        }
    }

    /// Publishes what the node's agent waits for, and once that it continues.
    pub(super) fn wait_listener(&self) -> WaitListener {
        let (engine, node) = (Arc::clone(&self.engine), self.node.id.clone());
        let (session, context) = (self.session.clone(), self.context.clone());
        let waits = AtomicBool::new(false);
        WaitListener::new(move |why| {
            if waits.swap(why.is_some(), Ordering::Relaxed) || why.is_some() {
                engine.tell_wait(&session, &context, &node, why);
            }
        })
    }

    pub(super) fn turn_id(&self) -> TurnId {
        TurnId { context: self.context.clone(), number: self.next_turn }
    }

    pub(super) fn facts(&self, model: &str, provider: &str) -> TurnFacts {
        TurnFacts {
            model: model.to_owned(),
            provider: provider.to_owned(),
            node: self.node.id.clone(),
            pipeline: self.pipeline.clone(),
            session: self.session.clone(),
            turn: self.turn_id(),
        }
    }

    /// The environment of agents and tools: their git identity, their repositories, and the path of their status file.
    pub(super) fn environment(&self, model: &str, status_file: &Path) -> Vec<(OsString, Option<OsString>)> {
        let who = format!("{} ({model})", self.node.id);
        let root = self.workspace.directory();
        let set = |key: &str, value: &str| (OsString::from(key), Some(OsString::from(value)));
        let mut env: Vec<(OsString, Option<OsString>)> = self
            .variables
            .iter()
            .filter(|(key, _)| !key.starts_with("GIT_"))
            .map(|(key, value)| set(key, value))
            .collect();
        env.extend(git_variables(&who, root));
        env.extend([
            (OsString::from("PLEACH_STATUS_FILE"), Some(status_file.as_os_str().to_owned())),
            set("PLEACH_SESSION", self.session.as_str()),
            set("PLEACH_NODE", self.node.id.as_str()),
            set("PLEACH_VISIT", &self.visit.visit.to_string()),
            set("PLEACH_ATTEMPT", &self.visit.attempt.to_string()),
        ]);
        env.push(repos_variable(&self.repos()));
        env.extend(self.engine.temporary(self.scratch.as_ref()));
        env
    }

    /// The repositories of the node's work.
    pub(super) fn repos(&self) -> Vec<RepoContext> {
        repo_contexts(&self.workspace, self.node.write != WritePolicy::Never)
    }

    /// The sandbox bounds of the node's commands; `None` without a sandbox.
    pub(super) fn bounds(&self, status_file: &Path) -> Option<SandboxBounds<'_>> {
        let outcome = status_file.parent().map(Path::to_owned);
        self.engine.bounds(&self.workspace, self.scratch.as_ref(), outcome)
    }

    /// An empty place for the node's status file, outside the worktree.
    pub(super) fn status_file(&self) -> Result<PathBuf, Stopped> {
        let dir = self.run_dir.join(self.node.id.as_str());
        let file = dir.join(STATUS_FILE);
        let prepared = std::fs::create_dir_all(&dir).and_then(|()| ConfinedDir::at(&dir)?.remove(STATUS_FILE));
        match prepared {
            Ok(()) => Ok(file),
            Err(source) => Err(Stopped::Broken(Error::Io { doing: "prepare", path: file, source })),
        }
    }

    /// Where the commands are that are tools of the node's agent: beside the directories that nodes can write to.
    pub(super) fn launchers(&self) -> PathBuf {
        self.run_dir.join(LAUNCHERS).join(self.node.id.as_str())
    }

    /// The content of the status file, if there is one. The work may have put anything there, even a link that leads
    /// elsewhere.
    pub(super) fn read_status(&self, file: &Path) -> Option<Outcome> {
        match confined_fs::read(file, LONGEST_STATUS) {
            Ok(text) => Some(status_file::read(&String::from_utf8_lossy(&text?)).unwrap_or_else(Outcome::fail)),
            Err(error) => Some(Outcome::fail(format!("the status file cannot be read: {error}"))),
        }
    }
}

const STATUS_FILE: &str = "status.json";

/// No node has a name with a dot.
const LAUNCHERS: &str = ".tools";

/// Its maximum size in bytes.
const LONGEST_STATUS: u64 = 1024 * 1024;

/// Commits by repository; `None` if there are none.
pub(super) fn some(commits: Snapshot) -> Option<Snapshot> {
    (!commits.is_empty()).then_some(commits)
}

/// Number of items a message names.
pub(super) const NAMED: usize = 10;

/// Fails a node that changed the repository's own settings, or left a HEAD nothing can be read from, whatever its outcome,
/// and says so in its step.
pub(super) fn fail_if_trespassed(
    found: &Violations,
    result: Result<Outcome, Stopped>,
    step: Option<&mut StepReport>,
) -> Result<Outcome, Stopped> {
    let changed = (!found.control.is_empty())
        .then(|| format!("the repository's own settings were changed: {}", listed(&found.control, NAMED)));
    let lost = (!found.heads.is_empty()).then(|| {
        format!(
            "{} was restored; where no agent wrote that, a `git gc --prune=now` beside the run has removed its commit",
            listed(&found.heads, NAMED)
        )
    });
    match result {
        Ok(_) | Err(Stopped::Environment(_)) if changed.is_some() || lost.is_some() => {
            let why = changed.into_iter().chain(lost).collect::<Vec<_>>().join("; ");
            step.into_iter().for_each(|step| step.fail(&why));
            Ok(Outcome::final_failure(why))
        }
        other => other,
    }
}

/// Runs blocking work on the repository.
pub(super) fn block<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Stopped> {
    tokio::task::block_in_place(work).map_err(Stopped::Broken)
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Keeps and undoes what is in worktrees and in no commit, where a node must not write: everywhere, or with `writes` in
/// other repositories than its own.
pub(crate) fn undo_writes(workspace: &mut Workspace, node: &NodeId, writes: bool) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    let listed =
        |paths: &[RepoPath]| paths.iter().take(5).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    for undone in workspace.undo(node, writes)? {
        if !undone.lost.is_empty() {
            let lost = listed(&undone.lost);
            warnings
                .push(WarningCode::ReadOnlyLost.with(format!(
                    "`{node}` must not write, and changed uncommitted files: {lost} cannot be restored"
                )));
        }
        warnings.extend(undone.warnings);
        if undone.kept.is_some() || !undone.given_back.is_empty() {
            let (kept, paths) = undone.kept.unzip();
            let paths = [paths.unwrap_or_default(), undone.given_back].concat();
            let listed = listed(&paths);
            let listed = if listed.is_empty() { "its commits".to_owned() } else { format!("its changes ({listed})") };
            let kept = kept.map(|name| format!(" and kept at {name}")).unwrap_or_default();
            warnings
                .push(WarningCode::ReadOnlyUndone.with(format!("`{node}` must not write; {listed} were undone{kept}")));
        }
    }
    Ok(warnings)
}
