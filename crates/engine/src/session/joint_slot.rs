//! Worktrees of several repositories side by side, in which they are tested together.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::env::{Engine, Error, SessionRepos, git_variables, worktree_lock};
use agents::agent::{RepoContext, repos_variable};
use git::workspace::Lock;
use git::{Repo, Worktree};
use os::process::sandbox::SandboxScope;
use os::process::{Cancel, CommandLimits, CommandSpec, Exit, Output, OutputStream};
use pleach_core::ids::{BranchName, CommitId, ContextId, RepoName, SessionId};

/// How much of the output of a setup command is kept, per stream.
const OUTPUT_KEPT: usize = 1024 * 1024;

/// The name of the place beside those of a session's contexts.
const PLACE: &str = "landing";

/// A repository beside that of a task, whose files the tests of a phase see as well.
#[derive(Debug, Clone)]
pub struct JointRepo {
    /// Its name in the workspace.
    pub name: RepoName,
    /// The repository.
    pub repo: Repo,
    /// The branch whose files they see.
    pub branch: BranchName,
}

/// The files of one repository that are tested.
#[derive(Debug)]
pub(crate) struct JointFiles {
    pub name: RepoName,
    pub repo: Repo,
    pub branch: BranchName,
    pub commit: CommitId,
}

/// How a command runs there.
#[derive(Debug)]
pub(crate) struct JointCommand {
    /// The directory it starts in.
    pub dir: PathBuf,
    /// Its variables, besides those that name the worktrees.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// How long it may take.
    pub wall: Option<Duration>,
    /// How much of its output is kept, per stream.
    pub output: usize,
}

/// Worktrees in which what several repositories come to is tested together.
#[derive(Debug)]
pub(crate) struct JointSlot {
    engine: Arc<Engine>,
    session: SessionId,
    root: PathBuf,
    lock: Lock,
    copies: Vec<(JointFiles, Worktree)>,
}

impl JointSlot {
    /// Checks out the files side by side. Blocks.
    pub(crate) fn open(
        engine: Arc<Engine>,
        repos: &SessionRepos,
        session: &SessionId,
        files: Vec<JointFiles>,
    ) -> Result<Self, Error> {
        let lock = worktree_lock(repos.record(), session, &place())?;
        engine.check_places(repos)?;
        let root = root_of(&engine, repos, session);
        let mut copies = Vec::new();
        for repo_files in files {
            engine.worktrees.hide_base(&repo_files.repo)?;
            let rules = engine.worktrees.left_out(&repo_files.repo, repo_files.commit)?;
            let path = root.join(repo_files.name.as_str());
            let mut worktree = git::worktree::open_or_repair(&repo_files.repo, &path, repo_files.commit, &rules, true)?;
            worktree.exclude(&engine.worktrees.never_commit());
            git::worktree::reset_to(&mut worktree, repo_files.commit, repo_files.repo.tree_of(repo_files.commit)?)?;
            copies.push((repo_files, worktree));
        }
        Ok(Self { engine, session: session.clone(), root, lock, copies })
    }

    /// Removes the worktrees. One that cannot be removed is found by `pleach worktree prune`.
    pub(crate) fn remove(self) {
        for (repo_files, worktree) in &self.copies {
            let _ = git::worktree::remove(&repo_files.repo, worktree.root());
        }
        remove_empty(&self.root);
        let _ = self.lock.remove();
    }

    /// Removes the worktrees that a killed process has left of a session. Where something still runs in them they stay,
    /// and `pleach worktree prune` finds them.
    pub(crate) fn clear_up(engine: &Engine, repos: &SessionRepos, session: &SessionId) {
        let root = root_of(engine, repos, session);
        if !root.is_dir() {
            return;
        }
        let Ok(lock) = worktree_lock(repos.record(), session, &place()) else { return };
        for (name, repo) in repos.iter() {
            let _ = git::worktree::remove(repo, &root.join(name.as_str()));
        }
        remove_empty(&root);
        let _ = lock.remove();
    }

    /// The directory that holds the worktrees.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs the setup command in each worktree. False if it was stopped.
    pub(crate) async fn set_up(&mut self, cancel: &Cancel) -> Result<bool, Error> {
        let setup = self.engine.worktrees.setup.clone();
        for index in 0..self.copies.len() {
            let (repo_files, worktree) = &self.copies[index];
            self.engine.worktrees.copy_ignored(repo_files.repo.workdir(), worktree.root())?;
            let Some(command) = &setup else { continue };
            let dir = worktree.root().to_owned();
            let spec = JointCommand { env: git_variables("setup", &dir), dir, wall: None, output: OUTPUT_KEPT };
            let output = self.run(command, spec, cancel, &mut |_, _| {}).await?;
            match output.exit {
                Exit::Code(0) => {}
                Exit::Cancelled => return Ok(false),
                exit => {
                    let said = [&output.stdout, &output.stderr].map(|stream| stream.to_text()).concat();
                    return Err(Error::Setup {
                        run: self.session.clone().into(),
                        command: command.clone(),
                        exit: exit.to_string(),
                        output: self.engine.redactor.text(&said).into_owned(),
                    });
                }
            }
        }
        Ok(true)
    }

    /// Runs a command that sees all the worktrees.
    pub(crate) async fn run(
        &mut self,
        command: &str,
        JointCommand { dir, env, wall, output }: JointCommand,
        cancel: &Cancel,
        hear: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
    ) -> Result<Output, Error> {
        let engine = &self.engine;
        let scratch = engine.scratch()?;
        let mut spec = CommandSpec::shell(command, &dir);
        spec.env = env;
        spec.env.push(repos_variable(&self.contexts()));
        spec.env.extend(engine.temporary(scratch.as_ref()));
        spec.limits = CommandLimits { output, wall, ..CommandLimits::default() };
        spec.locks = vec![self.lock.file()];
        spec.sandbox = engine.sandbox.as_ref().map(|policy| {
            let own: Vec<PathBuf> = scratch.iter().map(|scratch| scratch.path().to_owned()).collect();
            let worktrees: Vec<_> =
                self.copies.iter().flat_map(|(_, worktree)| [worktree.root(), worktree.git_dir()]).collect();
            let repositories: Vec<_> = self.copies.iter().map(|(repo_files, _)| repo_files.repo.common_dir()).collect();
            let scope = SandboxScope { worktrees: &worktrees, repositories: &repositories, own: &own };
            Arc::new(policy.of_command(scope).with_read([self.root.clone()]))
        });
        self.copies.iter_mut().for_each(|(_, worktree)| worktree.release());
        let ran = self.engine.supervisor.spawner.run(spec, cancel, hear).await;
        self.copies.iter_mut().for_each(|(_, worktree)| worktree.acquire());
        Ok(ran?)
    }

    fn contexts(&self) -> Vec<RepoContext> {
        let context = |(repo_files, worktree): &(JointFiles, Worktree)| RepoContext {
            name: repo_files.name.clone(),
            path: worktree.root().to_owned(),
            branch: repo_files.branch.clone(),
            commit: repo_files.commit,
            dirty: false,
            writable: true,
        };
        self.copies.iter().map(context).collect()
    }
}

fn place() -> ContextId {
    ContextId::new(PLACE).expect("a word")
}

fn root_of(engine: &Engine, repos: &SessionRepos, session: &SessionId) -> PathBuf {
    engine.worktree_base(repos.record(), repos.record_name()).join(session.as_str()).join(PLACE)
}

/// Removes a directory, and that of its session where nothing else is in it.
fn remove_empty(root: &Path) {
    if std::fs::remove_dir(root).is_ok()
        && let Some(session) = root.parent()
    {
        let _ = std::fs::remove_dir(session);
    }
}
