//! A worktree in which merges are tested, one after another. It keeps what git ignores, so that builds are warm; whatever
//! else a test leaves is removed before the next.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::QueueError;
use super::results::TestResult;
use crate::env::{Engine, git_variables};
use agents::agent::{RepoContext, repos_variable};
use git::workspace::{Lock, LockError, Scratch, queue_slot_lock, queue_slot_path};
use git::{CommitLimits, Repo, TreeEdit, TreeId, Worktree};
use os::process::sandbox::SandboxScope;
use os::process::{Cancel, CommandLimits, CommandSpec, Exit, Output, SpawnError};
use pleach_core::config::DerivedRules;
use pleach_core::ids::{BranchName, CommitId, RepoName};
use pleach_core::queue::EntryTest;
use pleach_core::step::report;

/// How much of the output of a test is kept, per stream.
pub(super) const OUTPUT_KEPT: usize = 1024 * 1024;

/// A worktree in which merges are tested.
#[derive(Debug)]
pub(super) struct TestSlot {
    number: u32,
    lock: Lock,
    worktree: Option<Worktree>,
}

/// The result of making derived files.
#[derive(Debug)]
pub(super) enum Derivation {
    /// The new files.
    Made(TreeId),
    /// A command failed.
    Failed(String),
    /// The run is being stopped.
    Stopped,
}

/// Where the tests of a queue run.
#[derive(Debug, Clone)]
pub struct TestPlace {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The repository.
    pub repo: Repo,
    /// Its name in the workspace.
    pub repo_name: RepoName,
    /// The branch whose queue it is.
    pub target: BranchName,
}

impl TestSlot {
    /// Takes a slot; none if something still runs in it.
    pub(super) fn take(place: &TestPlace, number: u32) -> Result<Option<Self>, QueueError> {
        let what = format!("a worktree of the merge queue of `{}`", place.target);
        match Lock::take_now(place.repo.common_dir(), &queue_slot_lock(&place.target, number), &what) {
            Ok(lock) => Ok(Some(Self { number, lock, worktree: None })),
            Err(LockError::Held { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs tests on the files of a commit, until one fails. None if they were stopped.
    pub(super) async fn test(
        &mut self,
        place: &TestPlace,
        commit: CommitId,
        tests: &[EntryTest],
        cancel: &Cancel,
    ) -> Result<Option<TestResult>, QueueError> {
        let begun = Instant::now();
        if !self.check_out(place, commit, cancel).await? {
            return Ok(None);
        }
        for test in tests {
            let limit = Some(Duration::from_secs(test.timeout));
            let output = match self.run(place, &test.command, commit, limit, cancel).await {
                Ok(output) if output.exit == Exit::Cancelled => return Ok(None),
                Ok(output) if output.exit == Exit::Code(0) => continue,
                Ok(output) => output,
                // A command that leaves processes running has failed.
                Err(QueueError::Spawn(error @ SpawnError::Unkillable { .. })) => {
                    return Ok(Some(failed(begun, error.to_string(), String::new())));
                }
                Err(error) => return Err(error),
            };
            let log = log_of(&place.engine, &test.command, &output);
            return Ok(Some(failed(begun, output.exit.to_string(), log)));
        }
        Ok(Some(passed(begun)))
    }

    /// Runs commands in the files of a commit, and takes the derived files they write.
    pub(super) async fn derive(
        &mut self,
        place: &TestPlace,
        commit: CommitId,
        commands: &[String],
        rules: &DerivedRules,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<Derivation, QueueError> {
        if !self.check_out(place, commit, cancel).await? {
            return Ok(Derivation::Stopped);
        }
        for command in commands {
            let output = self.run(place, command, commit, Some(limit), cancel).await?;
            match output.exit {
                Exit::Code(0) => {}
                Exit::Cancelled => return Ok(Derivation::Stopped),
                exit => {
                    let log = log_of(&place.engine, command, &output);
                    return Ok(Derivation::Failed(format!("`{command}` failed ({exit}):\n{log}")));
                }
            }
        }
        let worktree = self.worktree.as_mut().expect("it was just checked out");
        tokio::task::block_in_place(|| {
            let scan = git::worktree::scan_all(worktree)?;
            let mut writer = place.repo.writer();
            let committed = git::worktree::commit_tree(worktree, &scan, &mut writer, &CommitLimits::NONE)?;
            writer.flush()?;
            let mut edits = Vec::new();
            for path in committed.paths.into_iter().filter(|path| rules.command_of(path).is_some()) {
                edits.push(match place.repo.tree_entry(committed.tree, &path)? {
                    Some(entry) => TreeEdit::Put(path, entry.kind, entry.id),
                    None => TreeEdit::Remove(path),
                });
            }
            let tree = writer.tree(Some(place.repo.tree_of(commit)?), &edits)?;
            writer.flush()?;
            Ok(Derivation::Made(tree))
        })
    }

    /// Checks out a commit in the worktree. False if the setup was stopped.
    async fn check_out(&mut self, place: &TestPlace, commit: CommitId, cancel: &Cancel) -> Result<bool, QueueError> {
        let repo = &place.repo;
        if self.worktree.is_none() {
            let opened = tokio::task::block_in_place(|| self.open(place, commit))?;
            self.worktree = Some(opened);
        }
        let worktree = self.worktree.as_mut().expect("it was just opened");
        tokio::task::block_in_place(|| {
            git::worktree::reset_to(worktree, commit, repo.tree_of(commit)?)?;
            Ok::<_, git::Error>(())
        })?;
        if git::worktree::is_set_up(worktree) {
            return Ok(true);
        }
        place.engine.worktrees.copy_ignored(repo.workdir(), worktree.root())?;
        let setup = place.engine.worktrees.setup.clone();
        if let Some(command) = &setup {
            let output = self.run(place, command, commit, None, cancel).await?;
            match output.exit {
                Exit::Code(0) => {}
                Exit::Cancelled => return Ok(false),
                exit => {
                    let output = log_of(&place.engine, command, &output);
                    return Err(QueueError::Setup { command: command.clone(), exit: exit.to_string(), output });
                }
            }
        }
        let worktree = self.worktree.as_mut().expect("it was opened above");
        tokio::task::block_in_place(|| git::worktree::snapshot_setup(worktree, setup.is_some()))?;
        Ok(true)
    }

    fn open(&self, place: &TestPlace, commit: CommitId) -> Result<Worktree, QueueError> {
        let TestPlace { engine, repo, repo_name, target } = place;
        Scratch::clear_up(&engine.supervisor.state_dir);
        engine.check_place(repo, repo_name)?;
        engine.worktrees.hide_base(repo)?;
        let path = engine.worktree_base(repo, repo_name).join(queue_slot_path(target, self.number));
        let rules = engine.worktrees.left_out(repo, commit)?;
        let mut worktree = git::worktree::open_or_repair(repo, &path, commit, &rules, true)?;
        worktree.exclude(&engine.worktrees.never_commit());
        Ok(worktree)
    }

    /// Runs a command in the worktree, which has the files of a commit. Exclusive: nothing may read it meanwhile.
    async fn run(
        &mut self,
        place: &TestPlace,
        command: &str,
        commit: CommitId,
        wall: Option<Duration>,
        cancel: &Cancel,
    ) -> Result<Output, QueueError> {
        let engine = &place.engine;
        let worktree = self.worktree.as_mut().expect("commands run in a worktree that is open");
        let scratch = engine.scratch()?;
        let mut spec = CommandSpec::shell(command, worktree.root());
        spec.env = git_variables("merge queue", worktree.root());
        spec.env.push(repos_variable(&[RepoContext {
            name: place.repo_name.clone(),
            path: worktree.root().to_owned(),
            branch: place.target.clone(),
            commit,
            dirty: false,
            writable: true,
        }]));
        spec.env.extend(engine.temporary(scratch.as_ref()));
        spec.limits = CommandLimits { output: OUTPUT_KEPT, wall, ..CommandLimits::default() };
        spec.locks = vec![self.lock.file()];
        spec.sandbox = engine.sandbox.as_ref().map(|policy| {
            let own: Vec<PathBuf> = scratch.iter().map(|scratch| scratch.path().to_owned()).collect();
            Arc::new(policy.of_command(SandboxScope {
                worktrees: &[worktree.root(), worktree.git_dir()],
                repositories: &[place.repo.common_dir()],
                own: &own,
            }))
        });
        worktree.release();
        let ran = engine.supervisor.spawner.run(spec, cancel, &mut |_, _| {}).await;
        worktree.acquire();
        Ok(ran?)
    }
}

pub(super) fn passed(begun: Instant) -> TestResult {
    let seconds = begun.elapsed().as_secs();
    TestResult { passed: true, flaky: false, exit: "exit 0".to_owned(), seconds, log: String::new() }
}

pub(super) fn failed(begun: Instant, exit: String, log: String) -> TestResult {
    TestResult { passed: false, flaky: false, exit, seconds: begun.elapsed().as_secs(), log }
}

/// What a command printed, without secrets.
pub(super) fn log_of(engine: &Engine, command: &str, output: &Output) -> String {
    let text = |capture: &os::process::Capture| engine.redactor.text(&capture.to_text()).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let log = report::log([("stdout", stdout.as_str()), ("stderr", stderr.as_str())]);
    format!("$ {}\n{log}{}\n", engine.redactor.text(command), output.exit)
}
