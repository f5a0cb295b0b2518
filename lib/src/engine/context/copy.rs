//! The place a context works in: its branch and its worktree, made where they are missing. Both follow from the record,
//! so this is also how a session comes back on another machine.

use std::path::{Path, PathBuf};

use super::Context;
use crate::clock;
use crate::engine::Error;
use crate::engine::executor::Setup;
use crate::event::{Commits, Event, SessionBranchCreated, Snapshot, Warning, WarningCode, WorktreeCreated};
use crate::git::Worktree;
use crate::ids::{BranchName, CommitId, RepoName};
use crate::record::Batch;
use crate::state;
use crate::text::listed;
use crate::workspace::{BranchFollower, KEEP, Position, Scratch, WorkingCopy, Workspace};

/// How many paths a message names.
const NAMED: usize = 10;

/// The worktrees of a context while they are made.
#[derive(Default)]
struct Making {
    /// What another session of this process has left.
    left: Option<Workspace>,
    copies: Vec<WorkingCopy>,
    /// Those that have to be set up.
    new: Vec<RepoName>,
    events: Vec<Event>,
    /// Where uncommitted work was saved.
    kept: Vec<String>,
}

impl Making {
    fn take_left(&mut self, repo: &RepoName) -> Option<WorkingCopy> {
        self.left.as_mut()?.take_copy(repo)
    }
}

impl Context {
    /// Branches and worktrees, where they are missing. Both follow from the record, so this is also how a session comes
    /// back on another machine. Returns where uncommitted work was saved.
    pub(in crate::engine) async fn make_copy(&mut self) -> Result<Option<String>, Error> {
        self.make_followers();
        let mut made = Making { left: self.workspace.take(), ..Making::default() };
        if made.left.is_none() {
            // A run that was killed could not remove its temporary files.
            tokio::task::block_in_place(|| Scratch::clear_up(&self.engine.supervisor.state_dir));
            self.engine.worktrees.hide_base(&self.repo)?;
        }
        for repo in self.state.branches.keys().cloned().collect::<Vec<_>>() {
            tokio::task::block_in_place(|| self.make_copy_of(&repo, &mut made))?;
        }
        let Making { copies, new, mut events, kept, .. } = made;
        self.workspace = Some(Workspace::new(copies));
        // A worktree whose setup failed or was cut short is there, but not ready.
        for repo in new {
            let copy = self.copy_of(&repo);
            self.engine.worktrees.copy_ignored(copy.repo.workdir(), copy.path())?;
            self.set_up(&repo).await?;
            events.push(WorktreeCreated { repo, name: self.id.to_string(), extra: Default::default() }.into());
        }
        self.record_making(events)?;
        Ok((!kept.is_empty()).then(|| kept.join(" and ")))
    }

    async fn set_up(&mut self, repo: &RepoName) -> Result<(), Error> {
        let workspace = self.workspace.as_mut().expect("the worktrees are back when no node runs");
        let mut setup = Setup { engine: &self.engine, plan: &self.plan, workspace, warnings: Vec::new() };
        let done = setup.first(repo).await;
        self.warnings.extend(setup.warnings);
        done
    }

    /// What follows each branch, from where the record has it.
    pub(in crate::engine) fn make_followers(&mut self) {
        let on_branches = self.state.on_branches();
        let follower = |(repo, branch): (&RepoName, &BranchName)| {
            let (handle, tip) = (self.plan.repos.get(repo)?.clone(), *on_branches.get(repo)?);
            Some((repo.clone(), BranchFollower::new(handle, branch.clone(), tip)))
        };
        self.followers = self.state.branches.iter().filter_map(follower).collect();
    }

    fn copy_of(&self, repo: &RepoName) -> &WorkingCopy {
        self.working().copy(repo).expect("every repository of a context has its worktree")
    }

    /// The branch and the worktree of one repository.
    fn make_copy_of(&mut self, name: &RepoName, made: &mut Making) -> Result<(), Error> {
        let branch = self.state.branches.get(name).expect("its branch is why it is made").clone();
        let base_of = |snapshot: &Snapshot| *snapshot.get(name).expect("every snapshot names the repository");
        let at = Position { base: base_of(&self.node_base()), tip: base_of(&self.state.work) };
        let base = base_of(&self.state.base);
        if self.bring_branch(name)? {
            let (repo, branch) = (name.clone(), branch.clone());
            made.events.push(SessionBranchCreated { repo, branch, base, extra: Default::default() }.into());
        }
        if let Some(mut copy) = made.take_left(name) {
            // A session before this one worked here, in this process.
            made.kept.extend(copy.hand_over(self.plan.id.clone(), branch, at)?);
            self.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
            made.copies.push(copy);
            return Ok(());
        }
        let repo = self.plan.repos.get(name).expect("the repositories of a session are open").clone();
        let path = self.copy_path(name);
        let stays = Worktree::take_along(&repo, &path, &self.copy_name(name))?;
        // What lies there is none of a session that begins.
        if let Some((place, why)) = stays.filter(|_| self.has_begun()) {
            let place = place.display();
            self.warnings.push(
                WarningCode::WorktreeAbandoned
                    .with(format!("not reusing worktree `{place}`: {why}; its uncommitted files are left in place")),
            );
        }
        // The copy of a target's tasks outlives its sessions: a new one does not know whose files lie there.
        let belongs = self.state.task.is_none() || self.has_begun();
        let rules = self.engine.worktrees.left_out();
        let mut worktree = Worktree::bring(&repo, &path, at.base, &rules, belongs)?;
        let odd = worktree.take_cleared();
        if !odd.is_empty() {
            let odd = listed(odd, NAMED);
            self.warnings.push(
                WarningCode::WorktreeRepaired
                    .with(format!("changed before this run where no agent may write, now restored or removed: {odd}")),
            );
        }
        worktree.exclude(&self.engine.worktrees.never_commit());
        let is_set_up = worktree.is_set_up();
        let carries = self.state.task.as_ref().map_or(Commits::Turns, |task| task.of.commits);
        let (limits, lock) = (self.engine.worktrees.limits.clone(), self.lock.clone());
        let id = self.plan.id.clone();
        let mut copy = WorkingCopy::new(repo, name.clone(), branch, id, worktree, (carries, at), (limits, lock))?;
        if self.followers.get_mut(name).is_some_and(BranchFollower::take_followed) {
            copy.checkout_followed();
        }
        if self.state.task.is_some() && !self.has_begun() {
            copy.refuse_submodules()?;
        }
        made.kept.extend(copy.recover()?);
        let is_other = copy.leave_out(&rules)?;
        if is_other || !is_set_up {
            self.warnings.extend(copy.absent(&self.engine.worktrees)?);
        }
        self.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
        made.copies.push(copy);
        made.new.extend((!is_set_up).then(|| name.clone()));
        Ok(())
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
        self.record(batch, events, clock::now())
    }

    /// Where a worktree lies: all of them below those of the repository that holds the record.
    pub(in crate::engine) fn copy_path(&self, name: &RepoName) -> PathBuf {
        self.engine.worktree_base(&self.repo, &self.plan.record_repo).join(self.copy_name(name))
    }

    /// Its place there.
    fn copy_name(&self, name: &RepoName) -> PathBuf {
        let place = self.plan.place(&self.id);
        if self.state.branches.len() > 1 { place.join(name.as_str()) } else { place }
    }

    /// Creates a branch, or moves it forward to the newest record. Returns whether it was created.
    fn bring_branch(&mut self, name: &RepoName) -> Result<bool, Error> {
        let (repo, task) = (self.plan.repos.get(name).unwrap_or(&self.repo), self.state.task.as_ref());
        let kept = |commit: CommitId| {
            let Some(task) = task else { return Ok(false) };
            let kept = repo.references(&format!("{KEEP}{}-", task.of.id))?;
            Ok(kept.iter().any(|(_, kept)| *kept == commit))
        };
        let follower = self.followers.get_mut(name).expect("every branch has its follower");
        Ok(follower.bring(kept)?)
    }
}

/// What is said of something that stood in the way of a working copy.
pub(in crate::engine) fn moved_aside_warning(place: &Path) -> Warning {
    WarningCode::MovedAside.with(format!(
        "what was in the way of the worktree is now at `{}`; delete it if you do not need it",
        place.display()
    ))
}
