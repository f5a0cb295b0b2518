//! The place a context works in: its branch and its worktree, made where they are missing. Both follow from the record,
//! so this is also how a session comes back on another machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Context;
use super::branch::PATIENCE;
use crate::clock;
use crate::engine::Error;
use crate::engine::task::shared_copy;
use crate::engine::worker::own_refs;
use crate::event::{Commits, Event, SessionBranchCreated, Snapshot, Warning, WarningCode, WorktreeCreated};
use crate::git::{Scan, Worktree};
use crate::ids::{BranchName, CommitId, RepoName, RepoPath};
use crate::process::{Command, Exit, Limits};
use crate::record::Batch;
use crate::state;
use crate::text::listed;
use crate::workspace::{self, KEEP, Position, Scratch, WorkingCopy, branch_ref};

/// How many paths a message names.
const NAMED: usize = 10;

impl Context {
    /// Branch and working copy, where they are missing. Both follow from the record, so this is also how a session
    /// comes back on another machine. Returns where uncommitted work was saved.
    pub(in crate::engine) async fn make_copy(&mut self) -> Result<Option<String>, Error> {
        let (name, branch) = self.state.branches.iter().next().expect("every session has a branch");
        let (name, branch) = (name.clone(), branch.clone());
        let base_of = |snapshot: &Snapshot| *snapshot.get(&name).expect("every snapshot names the repository");
        let base = base_of(&self.state.base);
        let at = Position {
            base: base_of(&self.node_base()),
            tip: base_of(&self.state.work),
            branch: base_of(&self.state.on_branches()),
        };
        let mut events: Vec<Event> = Vec::new();
        if self.bring_branch(&branch, at.branch)? {
            let (repo, branch) = (name.clone(), branch.clone());
            events.push(SessionBranchCreated { repo, branch, base, extra: Default::default() }.into());
        }
        if let Some(mut copy) = self.copy.take() {
            // A session before this one worked here, in this process.
            let kept = tokio::task::block_in_place(|| copy.hand_over(self.plan.id.clone(), branch, at))?;
            copy.hear(self.branch_news());
            self.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
            self.copy = Some(copy);
            self.record_making(events)?;
            return Ok(kept);
        }
        // A run that was killed could not remove its temporary files.
        tokio::task::block_in_place(|| Scratch::clear_up(&self.engine.state_dir));
        self.engine.worktrees.hide_base(&self.repo)?;
        let path = self.copy_path(&name);
        let stays = Worktree::take_along(&self.repo, &path, &self.copy_name())?;
        // What lies there is none of a session that begins.
        if let Some((place, why)) = stays.filter(|_| self.has_begun()) {
            let place = place.display();
            self.warnings.push(WarningCode::WorktreeAbandoned.with(format!(
                "the working copy at `{place}` is not gone on with: {why}; what was not committed there stays there"
            )));
        }
        // The copy of a target's tasks outlives its sessions: a new one does not know whose files lie there.
        let belongs = self.state.task.is_none() || self.has_begun();
        let rules = self.engine.worktrees.left_out();
        let mut worktree =
            tokio::task::block_in_place(|| Worktree::bring(&self.repo, &path, at.base, &rules, belongs))?;
        let odd = worktree.take_cleared();
        if !odd.is_empty() {
            let odd = listed(odd, NAMED);
            let text = format!("changed where no agent should write before this run, and put back or removed: {odd}");
            self.warnings.push(WarningCode::WorktreeRepaired.with(text));
        }
        worktree.exclude(&self.engine.worktrees.never_commit());
        let is_set_up = worktree.is_set_up();
        let carries = self.state.task.as_ref().map_or(Commits::Turns, |task| task.of.commits);
        let limits = self.engine.worktrees.limits.clone();
        let (repo, id) = (self.repo.clone(), self.plan.id.clone());
        let mut copy = WorkingCopy::new(repo, name.clone(), branch, id, worktree, (carries, at), limits)?;
        copy.hear(self.branch_news());
        let (kept, absent) = tokio::task::block_in_place(|| {
            if self.state.task.is_some() && !self.has_begun() {
                copy.refuse_submodules()?;
            }
            let kept = copy.recover()?;
            let is_other = copy.leave_out(&self.engine.worktrees.left_out())?;
            let absent = if is_other || !is_set_up { copy.absent(&self.engine.worktrees)? } else { Vec::new() };
            Ok::<_, Error>((kept, absent))
        })?;
        self.warnings.extend(absent);
        self.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
        self.copy = Some(copy);
        // A working copy whose setup failed or was cut short is there, but not ready.
        if !is_set_up {
            self.engine.worktrees.copy_ignored(self.repo.workdir(), &path)?;
            self.run_setup().await?;
            self.begin_with_setup(None)?;
            let name = self.id.to_string();
            let repo = self.state.branches.keys().next().expect("every session has a branch").clone();
            events.push(WorktreeCreated { repo, name, extra: Default::default() }.into());
        }
        self.record_making(events)?;
        Ok(kept)
    }

    /// Whether anything of the session has run.
    fn has_begun(&self) -> bool {
        !self.state.nodes.is_empty() || !matches!(self.state.position, state::Position::Ready { .. })
    }

    fn record_making(&mut self, events: Vec<Event>) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let summary = "make the session's branch and working copy";
        if self.state.task.is_some() {
            // The working copy stays when the task ends, so nobody has to find it by this.
            return self.defer(summary, events);
        }
        let batch = Batch { summary: summary.into(), ..Batch::default() };
        let writer = self.repo.writer();
        self.record(writer, batch, events, clock::now())
    }

    pub(in crate::engine) fn copy_path(&self, name: &RepoName) -> PathBuf {
        self.engine.worktree_base(&self.repo, name).join(self.copy_name())
    }

    /// Where the working copy lies, below all of its repository.
    fn copy_name(&self) -> PathBuf {
        match &self.state.task {
            // The tasks of a target are worked on one after another, and share what git ignores: caches, builds.
            Some(task) => shared_copy(&task.of.target),
            None => Path::new(self.plan.id.as_str()).join(self.id.as_str()),
        }
    }

    /// Creates the session branch, or moves it forward to the newest record. A branch that stands anywhere else is
    /// left alone and is an error. Returns whether it was created.
    fn bring_branch(&mut self, branch: &BranchName, tip: CommitId) -> Result<bool, Error> {
        let name = branch_ref(branch);
        match self.repo.reference(&name)? {
            None => {
                self.repo.swap(&name, None, tip, "pleach: session").map_err(crate::git::Error::from)?;
                Ok(true)
            }
            Some(at) if at == tip => Ok(false),
            // Steps may have been built anew: what the branch stood at was kept before they were recorded.
            Some(at) if self.repo.is_ancestor(at, tip)? || self.is_kept(at)? => {
                self.bring_from(at, tip, "pleach: resume", PATIENCE)?;
                Ok(false)
            }
            Some(to) => Err(workspace::Error::BranchMoved { branch: branch.clone(), to, tip }.into()),
        }
    }

    fn is_kept(&self, commit: CommitId) -> Result<bool, Error> {
        let Some(task) = &self.state.task else { return Ok(false) };
        let kept = self.repo.references(&format!("{KEEP}{}-", task.of.id))?;
        Ok(kept.iter().any(|(_, kept)| *kept == commit))
    }

    /// Sets the working copy up again where something of that had to go: git ignored it, and does so no more.
    pub(in crate::engine) async fn bring_setup(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let copy = self.working_mut();
        if !copy.has_lost_setup() {
            return Ok(());
        }
        let (own, kept) = own_refs(copy, &plan.started.name, &plan.id);
        let (before, look) = tokio::task::block_in_place(|| {
            let before = copy.before_setup()?;
            // Code of agents may run with it: what it does beyond the working copy is seen when the next node ends.
            Ok::<_, workspace::Error>((before, copy.look_before(&own, &kept)?))
        })?;
        self.run_setup().await?;
        if self.engine.worktrees.setup.is_some() {
            let why = "git had come to see what it had made, which was removed";
            let text = format!("`worktrees.setup` has run again: {why}");
            self.warnings.push(WarningCode::SetupRanAgain.with(text));
        }
        self.begin_with_setup(Some(before))?;
        self.working_mut().keep_look(look);
        Ok(())
    }

    /// Takes what the setup has changed for what the working copy begins with, and says what that is. Where it has run
    /// once more, what was changed before it is given.
    fn begin_with_setup(&mut self, before: Option<Scan>) -> Result<(), Error> {
        let is_changed = self.engine.worktrees.setup.is_some();
        let copy = self.working_mut();
        let changed = tokio::task::block_in_place(|| match before.filter(|_| is_changed) {
            Some(before) => copy.begin_again(&before),
            None => copy.begin_here(is_changed),
        })?;
        if changed.is_empty() {
            return Ok(());
        }
        let named = |(path, is_tracked): &(RepoPath, bool)| match is_tracked {
            true => format!("`{path}` (tracked)"),
            false => format!("`{path}`"),
        };
        self.warnings.push(WarningCode::SetupChangedFiles.with(format!(
            "`worktrees.setup` has changed what git does not ignore: {}; no commit has that until somebody changes it further: have git ignore what is generated, and commit yourself what belongs to the repository",
            listed(changed.iter().map(named), NAMED)
        )));
        Ok(())
    }

    async fn run_setup(&self) -> Result<(), Error> {
        let (Some(script), Some(copy)) = (&self.engine.worktrees.setup, &self.copy) else { return Ok(()) };
        let scratch = self.engine.scratch()?;
        let mut command = Command::shell(script, copy.path());
        command.env = self.engine.temporary(scratch.as_ref());
        let bounds = self.engine.bounds(copy, scratch.as_ref(), None);
        command.sandbox = bounds.map(|bounds| Arc::new(bounds.of_command()));
        command.limits = Limits { output: 64 * 1024, ..Limits::default() };
        command.lock = Some(self.lock.file());
        let output = self.engine.spawner.run(command, &self.engine.cancel, &mut |_, _| {}).await?;
        if output.exit == Exit::Code(0) {
            return Ok(());
        }
        let text = format!("{}{}", output.stdout.to_text(), output.stderr.to_text());
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        let last = self.engine.redactor.text(&last).into_owned();
        let session = self.plan.id.clone();
        Err(match output.exit {
            Exit::Cancelled if self.engine.cancel.is_called_off() => Error::CalledOff { session },
            Exit::Cancelled => Error::Interrupted { session },
            exit => Error::Setup { session, command: script.clone(), exit: exit.to_string(), output: last },
        })
    }
}

/// What is said of something that stood in the way of a working copy.
pub(in crate::engine) fn moved_aside_warning(place: &Path) -> Warning {
    WarningCode::MovedAside.with(format!(
        "what stood in the way of the working copy is now at `{}`; delete it if nobody needs it",
        place.display()
    ))
}
