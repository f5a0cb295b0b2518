//! Removes a session: its worktrees, its branch and its record, after keeping work that exists nowhere else.
//!
//! The record goes last, so that an interrupted removal can be repeated. Nothing is removed until everything that would
//! be lost with it is under `refs/pleach/keep/`.

mod known;

pub(super) use known::copied_in;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use known::{KnownWork, read_work};

use super::locks::Locks;
use super::session_plan::RUN_DIR;
use super::view::session_worktrees;
use super::{Error, SessionRepos};
use crate::confined_fs;
use crate::engine::remove::known::RecordRefs;
use crate::event::TaskOf;
use crate::git::{self, CheckDepth, CommitLimits, RefUpdate, Repo, TreeId, Writer};
use crate::ids::{BranchName, CommitId, RepoName, RepoPath, SessionId};
use crate::record::{SESSIONS, check_chain, root_ref};
use crate::text::{quoted_path, shorten};
use crate::workspace::{self, KEEP, KeepOwner, PushState, Scratch, agent_home, branch_ref};

/// The maximum length of a path in a message.
const LONGEST_PATH: usize = 280;

/// The reason given in the commit of the kept work.
const REASON: &str = "the session was removed";

/// The same, if only a worktree was removed.
pub(super) const WORKTREE_REASON: &str = "the worktree was removed";

/// Why a session was not removed, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The session could not be read or is in use.
    #[error(transparent)]
    Session(#[from] Error),
    /// Removing the branch would leave a checkout without one.
    #[error("branch `{branch}` is checked out at `{}`", path.display())]
    CheckedOut {
        /// The session branch.
        branch: BranchName,
        /// The checkout.
        path: PathBuf,
    },
    /// The worktree is locked with `git worktree lock`.
    #[error("the worktree `{}` is locked{}", path.display(), because(why))]
    WorktreeLocked {
        /// Where it is.
        path: PathBuf,
        /// The reason given for the lock.
        why: String,
    },
    /// Work would be lost.
    #[error(transparent)]
    Obstacle(Obstacle),
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

impl From<git::Error> for RemoveError {
    fn from(error: git::Error) -> Self {
        Self::Session(error.into())
    }
}

impl From<workspace::Error> for RemoveError {
    fn from(error: workspace::Error) -> Self {
        Self::Session(error.into())
    }
}

/// Why a session should not be removed unless the user insists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Its commits are on no other branch.
    #[error("branch `{branch}` is not merged: {tip} is on no other branch")]
    Unmerged {
        /// The session branch.
        branch: BranchName,
        /// Its newest recorded commit.
        tip: CommitId,
    },
    /// Its newest commit is only in its record.
    #[error("branch `{branch}` does not have the session's newest commit: {tip} is on no branch")]
    OnNoBranch {
        /// The session branch, which was deleted or is behind.
        branch: BranchName,
        /// The commit.
        tip: CommitId,
    },
    /// The branch is at a commit the session did not make. Such a branch is never removed.
    #[error("branch `{branch}` was moved to {to}, which no turn of the session recorded")]
    BranchMoved {
        /// The session branch.
        branch: BranchName,
        /// Its tip.
        to: CommitId,
    },
    /// Its record is unreadable, and is removed nevertheless.
    #[error("its record cannot be read, and what only it holds is lost: {why}")]
    Unreadable {
        /// The cause.
        why: String,
    },
    /// Its newest commit is unreadable. The removal uses an older one.
    #[error("its newest commit cannot be read, and what only it holds is lost: {why}")]
    Lost {
        /// The cause.
        why: String,
    },
    /// A repository it works in is not known, so that what it has there stays.
    #[error("its branch in the repository `{repo}` stays: `workspace.repos` does not have it")]
    RepoMissing {
        /// The name of the repository.
        repo: RepoName,
    },
    /// Files that git cannot keep: repositories inside the worktree, or unreadable files.
    #[error("`{}` cannot be saved and would be lost: {why}", shorten(&quoted_path(path.as_os_str().as_encoded_bytes()), LONGEST_PATH))]
    Unsaved {
        /// The file or directory.
        path: PathBuf,
        /// Why they cannot be saved.
        why: String,
    },
}

/// One step of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalStep {
    /// Keep work that would be lost.
    Keep {
        /// The ref, or its prefix before it exists.
        reference: String,
        /// The session branch has commits that are on no other branch.
        unmerged: bool,
        /// The paths with uncommitted work.
        uncommitted: Vec<RepoPath>,
    },
    /// Remove a worktree with all its files.
    RemoveWorktree {
        /// Where it is.
        path: PathBuf,
    },
    /// Remove the session branch.
    RemoveBranch {
        /// Its name.
        branch: BranchName,
        /// Its tip.
        at: CommitId,
    },
    /// Keep the session branch, because it is no longer the session's alone.
    LeaveBranch {
        /// Its name.
        branch: BranchName,
        /// Its tip.
        at: CommitId,
    },
    /// Remove the home of the session's agents, including their conversations.
    RemoveHome {
        /// Where it is.
        path: PathBuf,
    },
    /// Remove the record.
    RemoveRecord {
        /// The newest record; `None` if the ref points to no commit.
        at: Option<CommitId>,
    },
}

/// Work to keep.
#[derive(Debug)]
pub(super) struct KeptWork {
    pub writer: Writer,
    pub tree: TreeId,
    pub parents: Vec<CommitId>,
    pub unmerged: bool,
    pub uncommitted: Vec<RepoPath>,
}

/// A prepared removal. While it exists, no process can work on the session.
#[derive(Debug)]
pub struct Removal {
    /// The session.
    pub session: SessionId,
    /// A tree run would resume it: it works on a task and was not cancelled.
    pub goes_on: Option<TaskOf>,
    /// Why it should not be removed.
    pub obstacles: Vec<Obstacle>,
    /// The repository that holds the record.
    repo: Repo,
    parts: Vec<RepoRemoval>,
    home: Option<PathBuf>,
    /// The refs of the records with their tips, `main` last.
    records: RecordRefs,
    locks: Locks,
    state_dir: PathBuf,
}

/// What goes in one repository.
#[derive(Debug)]
struct RepoRemoval {
    /// The name of the repository, if there are several.
    name: Option<RepoName>,
    repo: Repo,
    keeps: Vec<KeptWork>,
    worktrees: Vec<PathBuf>,
    branch: Option<BranchState>,
    /// The branches of parallel contexts.
    parallel: Vec<BranchState>,
}

/// A step and the name of its repository, if there are several.
pub type RepoStep = (Option<RepoName>, RemovalStep);

/// Determines what removing a session would do. Changes nothing. `copied_in` are the files copied into worktrees from
/// the user's checkout, used if the record does not say which were copied.
pub fn prepare_removal(
    repos: &SessionRepos,
    id: &SessionId,
    state_dir: &Path,
    copied_in: &[RepoPath],
) -> Result<Removal, RemoveError> {
    let repo = repos.record();
    let (locks, (records, known)) = Locks::take(repo, id)?.with(|| {
        let records = records(repo, id)?;
        let known = KnownWork::of(repo, id, &records, copied_in)?;
        Ok((records, known))
    })?;
    let mut obstacles = Vec::new();
    obstacles.extend(known.unreadable.clone().map(|why| Obstacle::Unreadable { why }));
    obstacles.extend(known.lost.clone().map(|why| Obstacle::Lost { why }));
    let others = KnownWork::elsewhere(repo, repos, id, copied_in)?;
    let name = (!others.is_empty()).then(|| repos.record_name().clone());
    let goes_on = known.goes_on.clone();
    let mut parts = vec![RepoRemoval::prepare((name, repo), id, &known, &records, &mut obstacles)?];
    for (name, known) in others {
        match repos.get(&name) {
            Some(repo) => {
                parts.push(RepoRemoval::prepare((Some(name), repo), id, &known, &Vec::new(), &mut obstacles)?)
            }
            None => obstacles.push(Obstacle::RepoMissing { repo: name }),
        }
    }
    Ok(Removal {
        session: id.clone(),
        goes_on,
        obstacles,
        repo: repo.clone(),
        parts,
        home: Some(agent_home(state_dir, repo.common_dir(), id)).filter(|home| home.exists()),
        records,
        locks,
        state_dir: state_dir.to_owned(),
    })
}

impl RepoRemoval {
    fn prepare(
        (name, repo): (Option<RepoName>, &Repo),
        id: &SessionId,
        known: &KnownWork,
        records: &RecordRefs,
        obstacles: &mut Vec<Obstacle>,
    ) -> Result<Self, RemoveError> {
        let (branch, mut unmerged) = branch_state(repo, known, obstacles)?;
        let (parallel, mut keeps) = parallel_branches(repo, known, obstacles)?;
        let mut worktrees = Vec::new();
        for listed in session_worktrees(repo, id)? {
            if let Some(why) = listed.locked {
                return Err(RemoveError::WorktreeLocked { path: listed.path, why });
            }
            if listed.path.is_dir() {
                keeps.extend(uncommitted(repo, known.work, &known.copied_in, &listed.path, obstacles)?);
            }
            worktrees.push(listed.path);
        }
        // Removing landed work needs no confirmation, but a branch may have lost it since.
        unmerged |= has_lost_landed(repo, known, branch.as_ref())?;
        if unmerged && !keeps.iter().any(|keep: &KeptWork| Some(keep.parents[0]) == known.work) {
            keeps.extend(unmerged_commits(repo, known)?);
        }
        // Kept work must be complete: git refuses to pack a commit that leads to a missing object.
        let tips = records.iter().filter_map(|(_, tip)| *tip).filter(|_| !keeps.is_empty() && known.lost.is_none());
        let whole: Vec<CommitId> = tips.filter(|tip| check_chain(repo, *tip).is_ok()).collect();
        for keep in &mut keeps {
            keep.unmerged |= unmerged;
            keep.parents.extend(&whole);
        }
        Ok(Self { name, repo: repo.clone(), keeps, worktrees, branch, parallel })
    }

    fn keep_steps(&self, session: &SessionId) -> Vec<RepoStep> {
        let prefix = format!("{KEEP}{session}-");
        self.keeps.iter().map(|keep| (self.name.clone(), keep.step(prefix.clone()))).collect()
    }

    fn worktree_steps(&self) -> Vec<RepoStep> {
        let step = |path: &PathBuf| (self.name.clone(), RemovalStep::RemoveWorktree { path: path.clone() });
        self.worktrees.iter().map(step).collect()
    }

    fn branch_steps(&self) -> Vec<RepoStep> {
        let step = |(branch, at, own): &BranchState| (self.name.clone(), branch_step(branch, *at, *own));
        self.branch.iter().chain(&self.parallel).map(step).collect()
    }

    /// Saves what would be lost.
    fn keep(&mut self, session: &SessionId, done: StepWatch<'_>) -> Result<(), RemoveError> {
        for keep in std::mem::take(&mut self.keeps) {
            let step = keep.step(String::new());
            let reference = keep.save(&self.repo, session.into(), REASON)?;
            if let RemovalStep::Keep { unmerged, uncommitted, .. } = step {
                done(&(self.name.clone(), RemovalStep::Keep { reference, unmerged, uncommitted }));
            }
        }
        Ok(())
    }

    fn remove_worktrees(&mut self, done: StepWatch<'_>) -> Result<(), RemoveError> {
        for path in std::mem::take(&mut self.worktrees) {
            git::worktree::remove(&self.repo, &path)?;
            remove_run_directory(self.root_of(&path))?;
            done(&(self.name.clone(), RemovalStep::RemoveWorktree { path }));
        }
        Ok(())
    }

    /// The directory a context works in. With several repositories that of the last worktree is left, empty.
    fn root_of<'a>(&self, worktree: &'a Path) -> &'a Path {
        if self.name.is_some() { worktree.parent().unwrap_or(worktree) } else { worktree }
    }

    fn remove_branches(self, done: StepWatch<'_>) -> Result<(), RemoveError> {
        for (branch, at, own) in self.branch.into_iter().chain(self.parallel) {
            if own {
                delete(&self.repo, vec![(branch_ref(&branch), Some(at))])?;
            }
            done(&(self.name.clone(), branch_step(&branch, at, own)));
        }
        Ok(())
    }
}

/// Called after each step.
type StepWatch<'a> = &'a mut dyn FnMut(&RepoStep);

impl Removal {
    /// The steps [`Removal::execute`] would take.
    pub fn steps(&self) -> Vec<RepoStep> {
        let home = self.home.iter().map(|path| (None, RemovalStep::RemoveHome { path: path.clone() }));
        let keeps = self.parts.iter().flat_map(|part| part.keep_steps(&self.session));
        let worktrees = self.parts.iter().flat_map(RepoRemoval::worktree_steps);
        let branches = self.parts.iter().flat_map(RepoRemoval::branch_steps);
        keeps.chain(worktrees).chain(home).chain(branches).chain([(None, self.record_step())]).collect()
    }

    /// The directories its nodes left beside its worktrees, each with the worktree it goes with.
    pub fn run_directories(&self) -> Vec<(PathBuf, PathBuf)> {
        let mut found = BTreeMap::new();
        for part in &self.parts {
            for path in &part.worktrees {
                let run = run_directory(part.root_of(path));
                if run.is_dir() {
                    found.entry(run).or_insert_with(|| path.clone());
                }
            }
        }
        found.into_iter().map(|(run, path)| (path, run)).collect()
    }

    fn record_step(&self) -> RemovalStep {
        RemovalStep::RemoveRecord { at: self.records.last().and_then(|(_, tip)| *tip) }
    }

    /// Removes the session. `done` is called after each step.
    pub fn execute(mut self, done: &mut dyn FnMut(&RepoStep)) -> Result<(), RemoveError> {
        let record = self.record_step();
        for part in &mut self.parts {
            part.keep(&self.session, done)?;
        }
        for part in &mut self.parts {
            part.remove_worktrees(done)?;
        }
        // A killed run could not remove its temporary files.
        Scratch::clear_up(&self.state_dir);
        if let Some(path) = self.home {
            remove_directory(&path)?;
            done(&(None, RemovalStep::RemoveHome { path }));
        }
        for part in self.parts {
            part.remove_branches(done)?;
        }
        PushState::forget(self.repo.common_dir(), &self.session)?;
        delete(&self.repo, self.records)?;
        done(&(None, record));
        self.locks.remove().map_err(Error::from)?;
        Ok(())
    }
}

/// Deletes refs that no other process writes while this one holds the session.
pub(super) fn delete(repo: &Repo, refs: RecordRefs) -> Result<(), git::Error> {
    let all = refs.into_iter().map(|(name, old)| RefUpdate { name, old, new: None });
    let all: Vec<RefUpdate> = all.collect();
    Ok(repo.refs().swap_all(&all, "pleach: rm")?)
}

pub(super) fn remove_directory(path: &Path) -> Result<(), workspace::Error> {
    confined_fs::remove_all(path).map_err(|source| workspace::Error::Io {
        doing: "remove",
        path: path.to_owned(),
        source,
    })
}

/// Removes the worktree of a parallel branch, after keeping its uncommitted files. One with files that cannot be kept stays.
pub(super) fn remove_branch_worktree(
    repo: &Repo,
    session: &SessionId,
    work: Option<CommitId>,
    copied_in: &[RepoPath],
    path: &Path,
) -> Result<(), RemoveError> {
    let mut obstacles = Vec::new();
    let keep = uncommitted(repo, work, copied_in, path, &mut obstacles)?;
    if !obstacles.is_empty() {
        return Ok(());
    }
    if let Some(keep) = keep {
        keep.save(repo, session.into(), WORKTREE_REASON)?;
    }
    Ok(git::worktree::remove(repo, path)?)
}

/// Removes the run directory beside the worktrees of a context, and the directories of the context and of the session if
/// they are empty.
pub(super) fn remove_run_directory(root: &Path) -> Result<(), workspace::Error> {
    remove_directory(&run_directory(root))?;
    let _ = std::fs::remove_dir(root);
    if let Some(parent) = root.parent() {
        let _ = std::fs::remove_dir(parent);
    }
    Ok(())
}

fn run_directory(root: &Path) -> PathBuf {
    root.with_file_name(RUN_DIR)
}

fn branch_step(branch: &BranchName, at: CommitId, own: bool) -> RemovalStep {
    let branch = branch.clone();
    if own { RemovalStep::RemoveBranch { branch, at } } else { RemovalStep::LeaveBranch { branch, at } }
}

impl KeptWork {
    fn step(&self, reference: String) -> RemovalStep {
        RemovalStep::Keep { reference, unmerged: self.unmerged, uncommitted: self.uncommitted.clone() }
    }

    /// Keeps the work, unless an interrupted removal has already done so.
    pub fn save(mut self, repo: &Repo, owner: KeepOwner<'_>, reason: &str) -> Result<String, RemoveError> {
        self.writer.flush()?;
        for (name, at) in repo.refs().list(&owner.prefix())? {
            let kept = repo.commit(at)?;
            let has_all = self.parents.iter().all(|parent| kept.parents.contains(parent));
            if has_all && (kept.tree == self.tree || self.uncommitted.is_empty()) {
                return Ok(name);
            }
        }
        Ok(workspace::keep(repo, self.writer, owner, self.tree, &self.parents, reason)?)
    }
}

/// The session branch, its tip, and whether it is the session's own, which it is if the tip is in the session's
/// history.
type BranchState = (BranchName, CommitId, bool);

/// The branch of a session, and whether its newest commit is on no other branch.
fn branch_state(
    repo: &Repo,
    known: &KnownWork,
    obstacles: &mut Vec<Obstacle>,
) -> Result<(Option<BranchState>, bool), RemoveError> {
    let Some(tip) = known.work else { return Ok((None, false)) };
    let mut state = None;
    if let Some(branch) = &known.branch
        && let Some(at) = stands_at(repo, branch)?
    {
        refuse_checked_out(repo, branch)?;
        // An unreadable branch stays, so that it can be repaired.
        let is_own = repo.commit(at).is_ok() && repo.history().is_ancestor(at, tip)?;
        state = Some((branch.clone(), at, is_own));
    }
    // The branch of a task is used by its next session.
    if let (Some((branch, at, false)), false) = (&state, known.is_of_task) {
        obstacles.push(Obstacle::BranchMoved { branch: branch.clone(), to: *at });
    }
    // The session of a task may start with the steps of another one.
    let has_work = known.base != Some(tip) || known.is_of_task;
    let unmerged = has_work && known.landed.is_none() && !is_merged(repo, known, tip, state.as_ref())?;
    if let (Some(branch), true) = (known.branch.clone(), unmerged) {
        let has_it = match &state {
            // An unreadable branch contains nothing.
            Some((_, at, _)) => repo.history().is_ancestor(tip, *at).unwrap_or(false),
            None => false,
        };
        obstacles.push(match has_it {
            true => Obstacle::Unmerged { branch, tip },
            false => Obstacle::OnNoBranch { branch, tip },
        });
    }
    Ok((state, unmerged))
}

/// The tip of a branch, readable or not.
fn stands_at(repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, git::Error> {
    let name = branch_ref(branch);
    let found = repo.refs().list_unpeeled(&name)?.into_iter().find(|(found, _)| *found == name);
    Ok(found.and_then(|(_, at)| at))
}

/// The branches of a session's parallel contexts. Commits that are on no other branch are kept.
fn parallel_branches(
    repo: &Repo,
    known: &KnownWork,
    obstacles: &mut Vec<Obstacle>,
) -> Result<(Vec<BranchState>, Vec<KeptWork>), RemoveError> {
    let (mut branches, mut keeps) = (Vec::new(), Vec::new());
    let Some(beginning) = &known.parallel else { return Ok((branches, keeps)) };
    for (name, at) in repo.refs().list(&format!("refs/heads/{beginning}"))? {
        let Some(Ok(branch)) = name.strip_prefix("refs/heads/").map(BranchName::new) else { continue };
        refuse_checked_out(repo, &branch)?;
        let mut is_joined = false;
        for into in known.work.iter().chain(&known.joins) {
            is_joined = is_joined || repo.history().is_ancestor(at, *into)?;
        }
        let state = (branch.clone(), at, true);
        let is_base = known.base == Some(at);
        if !is_joined && !is_base && !is_merged(repo, known, at, Some(&state))? {
            obstacles.push(Obstacle::Unmerged { branch, tip: at });
            let (writer, tree) = (repo.writer(), repo.tree_of(at)?);
            keeps.push(KeptWork { writer, tree, parents: vec![at], unmerged: true, uncommitted: Vec::new() });
        }
        branches.push(state);
    }
    Ok((branches, keeps))
}

fn has_lost_landed(repo: &Repo, known: &KnownWork, branch: Option<&BranchState>) -> Result<bool, RemoveError> {
    match known.landed {
        Some(landed) => Ok(!is_merged(repo, known, landed, branch)?),
        None => Ok(false),
    }
}

fn refuse_checked_out(repo: &Repo, branch: &BranchName) -> Result<(), RemoveError> {
    match git::checkouts_of(repo, branch)?.into_iter().next() {
        Some(path) => Err(RemoveError::CheckedOut { branch: branch.clone(), path }),
        None => Ok(()),
    }
}

/// Whether a commit is on the branch the session was started on, at HEAD, or on any branch except the session's own.
fn is_merged(repo: &Repo, known: &KnownWork, tip: CommitId, branch: Option<&BranchState>) -> Result<bool, RemoveError> {
    // A branch that stays keeps its commits.
    let goes = branch.filter(|(_, _, own)| *own).map(|(branch, ..)| branch_ref(branch));
    let target = match &known.target {
        Some(target) => repo.refs().find(&branch_ref(target))?,
        None => None,
    };
    let head = repo.head().ok().filter(|head| head.branch.is_none()).map(|head| head.commit);
    let branches = repo.refs().list_unpeeled("refs/heads/")?;
    let others = branches.into_iter().filter(|(name, _)| Some(name) != goes.as_ref()).filter_map(|(_, at)| at);
    // An unreadable branch contains nothing.
    let has_it = |at| repo.history().is_ancestor(tip, at).unwrap_or(false);
    Ok(target.into_iter().chain(head).chain(others).any(has_it))
}

/// The changes in a worktree since the session's newest commit, and what the repository has lost of that.
pub(super) fn uncommitted(
    repo: &Repo,
    tip: Option<CommitId>,
    copied_in: &[RepoPath],
    path: &Path,
    obstacles: &mut Vec<Obstacle>,
) -> Result<Option<KeptWork>, RemoveError> {
    let Some(tip) = tip else { return Ok(None) };
    let tree = repo.tree_of(tip)?;
    let mut worktree = git::worktree::open(repo, path)?;
    worktree.exclude(copied_in);
    worktree.accept(tree)?;
    let mut writer = repo.writer();
    let seen = git::worktree::scan_all(&mut worktree).and_then(|scan| {
        let written = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE)?;
        // The worktree may have the only copy of what is committed.
        let content = git::worktree::collect_lost_content(&mut worktree, &mut writer)?;
        Ok((scan, written, content, git::worktree::unpublished_work(&mut worktree, CheckDepth::Thorough)?))
    });
    let (scan, written, content, in_submodules) = match seen {
        Ok(seen) => seen,
        // A user who insists can still have it removed.
        Err(error) => {
            obstacles.push(Obstacle::Unsaved { path: path.to_owned(), why: error.to_string() });
            return Ok(None);
        }
    };
    let place = |inside: &RepoPath| {
        use std::os::unix::ffi::OsStrExt as _;
        path.join(std::ffi::OsStr::from_bytes(inside.as_bytes()))
    };
    let mut lost = |inside: &RepoPath, why: &str| {
        obstacles.push(Obstacle::Unsaved { path: place(inside), why: why.to_owned() });
    };
    scan.nested.iter().for_each(|inside| lost(inside, "it is a repository of its own"));
    scan.submodules.iter().for_each(|inside| lost(inside, "it is a submodule that was changed"));
    in_submodules.files.iter().for_each(|inside| lost(inside, "no commit of its submodule has it"));
    for (inside, work) in &in_submodules.commits {
        lost(inside, &format!("{work} of this submodule on no remote"));
    }
    written.held_back.iter().for_each(|held| lost(&held.path, &held.reason.to_string()));
    let head = git::worktree::agent_head(&worktree)?.map(|head| head.commit);
    let own_head = match head {
        Some(head) if !repo.history().is_ancestor(head, tip)? && read_work(repo, head, Some(tip)).is_ok() => Some(head),
        _ => None,
    };
    if written.tree == tree && own_head.is_none() && content.found.is_empty() {
        return Ok(None);
    }
    let parents = std::iter::once(tip).chain(own_head).collect();
    let uncommitted = [written.paths, content.found].concat();
    Ok(Some(KeptWork { writer, tree: written.tree, parents, unmerged: false, uncommitted }))
}

fn unmerged_commits(repo: &Repo, known: &KnownWork) -> Result<Option<KeptWork>, RemoveError> {
    let Some(tip) = known.work else { return Ok(None) };
    let tree = repo.tree_of(tip)?;
    Ok(Some(KeptWork { writer: repo.writer(), tree, parents: vec![tip], unmerged: true, uncommitted: Vec::new() }))
}

/// The refs of all records of a session with their tips, readable or not, `main` last.
pub(super) fn records(repo: &Repo, id: &SessionId) -> Result<RecordRefs, git::Error> {
    let mut records = repo.refs().list_unpeeled(&format!("{SESSIONS}{id}/"))?;
    let main = root_ref(id);
    records.sort_by_key(|(name, _)| *name == main);
    Ok(records)
}
