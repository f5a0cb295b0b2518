//! Sets up worktrees: runs the configured command and checks its results.

use std::sync::Arc;

use super::place::own_refs;
use crate::env::{Engine, Error, repo_contexts};
use crate::session::session_plan::SessionPlan;
use agents::agent::repos_variable;
use git::ScanResult;
use git::workspace::{self, WorkingCopy, Workspace};
use os::process::{CommandLimits, CommandSpec, Exit};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::{RepoName, RepoPath};
use pleach_core::text::listed;

/// Number of paths a message names.
const NAMED: usize = 10;

/// Worktrees during setup.
pub(crate) struct Setup<'a> {
    pub engine: &'a Engine,
    pub plan: &'a SessionPlan,
    pub workspace: &'a mut Workspace,
    pub warnings: Vec<Warning>,
}

impl Setup<'_> {
    /// Sets up a new worktree.
    pub(crate) async fn first(&mut self, repo: &RepoName) -> Result<(), Error> {
        self.run(repo).await?;
        self.begin(repo, None)
    }

    /// Sets up worktrees again if files from the setup had to be removed: git ignored them, and no longer does.
    pub(crate) async fn again(&mut self) -> Result<(), Error> {
        let lost = self.workspace.copies().filter(|copy| workspace::has_lost_setup(copy)).map(|copy| copy.name.clone());
        for repo in lost.collect::<Vec<_>>() {
            let (own, kept) = own_refs(self.copy(&repo), &self.plan.started.name, &self.plan.run.session);
            let copy = self.copy_mut(&repo);
            let (before, look) = tokio::task::block_in_place(|| {
                let before = workspace::scan_before_setup(copy)?;
                // Agents' code may run with it: effects outside the worktree are detected when the next node ends.
                Ok::<_, workspace::Error>((before, copy.look_before(&own, &kept)?))
            })?;
            self.run(&repo).await?;
            if self.engine.worktrees.setup.is_some() {
                let why = "git no longer ignored what it had made, which was removed";
                self.warnings.push(WarningCode::SetupRanAgain.with(format!("`worktrees.setup` has run again: {why}")));
            }
            self.begin(&repo, Some(before))?;
            self.copy_mut(&repo).keep_look(look);
        }
        Ok(())
    }

    fn copy(&self, repo: &RepoName) -> &WorkingCopy {
        self.workspace.copy(repo).expect("every repository of a context has its worktree")
    }

    fn copy_mut(&mut self, repo: &RepoName) -> &mut WorkingCopy {
        self.workspace.copy_mut(repo).expect("every repository of a context has its worktree")
    }

    /// Makes the changes of the setup the starting point of a worktree, and reports them. `before` holds the earlier
    /// changes if the setup ran again.
    fn begin(&mut self, repo: &RepoName, before: Option<ScanResult>) -> Result<(), Error> {
        let is_changed = self.engine.worktrees.setup.is_some();
        let copy = self.copy_mut(repo);
        let changed = tokio::task::block_in_place(|| match before.filter(|_| is_changed) {
            Some(before) => workspace::snapshot_setup_again(copy, &before),
            None => workspace::snapshot_setup(copy, is_changed),
        })?;
        if changed.is_empty() {
            return Ok(());
        }
        let named = |(path, is_tracked): &(RepoPath, bool)| {
            if *is_tracked { format!("`{path}` (tracked)") } else { format!("`{path}`") }
        };
        self.warnings.push(WarningCode::SetupChangedFiles.with(format!(
            "`worktrees.setup` changed files that git does not ignore: {}; they are not committed: ignore what is \
             generated, and commit what belongs to the repository",
            listed(changed.iter().map(named), NAMED)
        )));
        Ok(())
    }

    async fn run(&mut self, repo: &RepoName) -> Result<(), Error> {
        let engine = self.engine;
        let Some(script) = &engine.worktrees.setup else { return Ok(()) };
        let scratch = engine.scratch()?;
        let command = {
            let workspace = &*self.workspace;
            let mut command = CommandSpec::shell(script, self.copy(repo).path());
            command.env = engine.temporary(scratch.as_ref());
            command.env.push(repos_variable(&repo_contexts(workspace, true)));
            let bounds = engine.bounds(workspace, scratch.as_ref(), None);
            command.sandbox = bounds.map(|bounds| Arc::new(bounds.of_command()));
            command.limits = CommandLimits { output: 64 * 1024, ..CommandLimits::default() };
            command.locks = workspace.locks();
            command
        };
        let output = engine.supervisor.spawner.run(command, &self.plan.cancel, &mut |_, _| {}).await?;
        if output.exit == Exit::Code(0) {
            return Ok(());
        }
        let text = format!("{}{}", output.stdout.to_text(), output.stderr.to_text());
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        let last = self.engine.redactor.text(&last).into_owned();
        let run = self.plan.run.clone();
        Err(match output.exit {
            Exit::Cancelled if self.plan.cancel.is_cancelled() => Error::Cancelled { run },
            Exit::Cancelled => Error::Interrupted { run },
            exit => Error::Setup { run, command: script.clone(), exit: exit.to_string(), output: last },
        })
    }
}
