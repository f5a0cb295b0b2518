//! Removes a session: its worktrees, its branch and its record, after keeping work that exists nowhere else.
//!
//! The record goes last, so that an interrupted removal can be repeated. Nothing is removed until everything that would
//! be lost with it is under `refs/pleach/keep/`.

mod known;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use known::KnownWork;

use crate::env::{Error, Locks, SessionRepos};
use crate::keep::{
    KeptWork, Obstacle, RecordRefs, RemoveError, delete, records, remove_directory, remove_run_directory,
    run_directory, uncommitted,
};
use crate::mirror;
use crate::view::run_worktrees;
use git::Repo;
use git::record::check_chain;
use git::workspace::{KeepOwner, PushState, Scratch, agent_home, branch_ref, context_of_branch};
use pleach_core::event::TaskOf;
use pleach_core::ids::{BranchName, CommitId, ContextId, RepoName, RepoPath, RunId};

/// The reason given in the commit of the kept work.
const REASON: &str = "the session was removed";

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

/// A prepared removal. While it exists, no process can work on the session.
#[derive(Debug)]
pub struct Removal {
    /// The run.
    pub run: RunId,
    /// A tree run would resume it: it works on a task and was not cancelled.
    pub goes_on: Option<TaskOf>,
    /// Why it should not be removed.
    pub obstacles: Vec<Obstacle>,
    /// The repository that holds the record.
    repo: Repo,
    parts: Vec<RepoRemoval>,
    /// The homes of its agents.
    homes: Vec<PathBuf>,
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
    run: &RunId,
    state_dir: &Path,
    copied_in: &[RepoPath],
) -> Result<Removal, RemoveError> {
    let repo = repos.record();
    let (locks, (records, known)) = Locks::take(repo, run)?.with(|| {
        let records = records(repo, run)?;
        let known = KnownWork::of(repo, run, &records, copied_in)?;
        Ok((records, known))
    })?;
    let mut obstacles = Vec::new();
    obstacles.extend(known.unreadable.clone().map(|why| Obstacle::Unreadable { why }));
    obstacles.extend(known.lost.clone().map(|why| Obstacle::Lost { why }));
    let others = KnownWork::elsewhere(repo, repos, run, copied_in)?;
    let name = (!others.is_empty()).then(|| repos.record_name().clone());
    let goes_on = known.goes_on.clone();
    let mut parts = vec![RepoRemoval::prepare(name, repo, run, &known, &records, &mut obstacles)?];
    for (name, known) in others {
        match repos.get(&name) {
            Some(repo) => parts.push(RepoRemoval::prepare(Some(name), repo, run, &known, &Vec::new(), &mut obstacles)?),
            None => obstacles.push(Obstacle::RepoMissing { repo: name }),
        }
    }
    Ok(Removal {
        run: run.clone(),
        goes_on,
        obstacles,
        repo: repo.clone(),
        parts,
        homes: homes(&agent_home(state_dir, repo.common_dir(), &run.session), run),
        records,
        locks,
        state_dir: state_dir.to_owned(),
    })
}

impl RepoRemoval {
    fn prepare(
        name: Option<RepoName>,
        repo: &Repo,
        run: &RunId,
        known: &KnownWork,
        records: &RecordRefs,
        obstacles: &mut Vec<Obstacle>,
    ) -> Result<Self, RemoveError> {
        let (branch, mut unmerged) = branch_state(repo, known, obstacles)?;
        let (parallel, mut keeps) = parallel_branches(repo, run, known, obstacles)?;
        let mut worktrees = Vec::new();
        for listed in run_worktrees(repo, run)? {
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

    fn keep_steps(&self, run: &RunId) -> Vec<RepoStep> {
        let prefix = KeepOwner::Run(run).prefix();
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
    fn keep(&mut self, run: &RunId, done: StepWatch<'_>) -> Result<(), RemoveError> {
        for keep in std::mem::take(&mut self.keeps) {
            let step = keep.step(String::new());
            let reference = keep.save(&self.repo, KeepOwner::Run(run), REASON)?;
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
        let home = self.homes.iter().map(|path| (None, RemovalStep::RemoveHome { path: path.clone() }));
        let keeps = self.parts.iter().flat_map(|part| part.keep_steps(&self.run));
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
            part.keep(&self.run, done)?;
        }
        for part in &mut self.parts {
            part.remove_worktrees(done)?;
        }
        // A killed run could not remove its temporary files.
        Scratch::clear_up(&self.state_dir);
        for path in self.homes {
            remove_directory(&path)?;
            // That of the session goes with the last of its contexts.
            let _ = path.parent().map(std::fs::remove_dir);
            done(&(None, RemovalStep::RemoveHome { path }));
        }
        for part in self.parts {
            part.remove_branches(done)?;
        }
        PushState::forget(self.repo.common_dir(), &self.run)?;
        mirror::forget(&self.repo, &self.run)?;
        delete(&self.repo, self.records)?;
        done(&(None, record));
        self.locks.remove().map_err(Error::from)?;
        Ok(())
    }
}

fn branch_step(branch: &BranchName, at: CommitId, own: bool) -> RemovalStep {
    let branch = branch.clone();
    if own { RemovalStep::RemoveBranch { branch, at } } else { RemovalStep::LeaveBranch { branch, at } }
}

impl KeptWork {
    fn step(&self, reference: String) -> RemovalStep {
        RemovalStep::Keep { reference, unmerged: self.unmerged, uncommitted: self.uncommitted.clone() }
    }
}

/// The homes of the agents of a run, below that of its session: with the first run the whole, once it is the only one.
fn homes(of_session: &Path, run: &RunId) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of_session).into_iter().flatten().flatten().map(|entry| entry.path());
    let context = |path: &Path| path.file_name()?.to_str()?.parse::<ContextId>().ok();
    let (own, others): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.partition(|path| context(path).is_none_or(|context| run.has(&context)));
    if others.is_empty() && of_session.exists() { vec![of_session.to_owned()] } else { own }
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
        obstacles.push(if has_it { Obstacle::Unmerged { branch, tip } } else { Obstacle::OnNoBranch { branch, tip } });
    }
    Ok((state, unmerged))
}

/// The tip of a branch, readable or not.
fn stands_at(repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, git::Error> {
    let name = branch_ref(branch);
    let found = repo.refs().list_unpeeled(&name)?.into_iter().find(|(found, _)| *found == name);
    Ok(found.and_then(|(_, at)| at))
}

/// The branches of a run's parallel contexts. Commits that are on no other branch are kept.
fn parallel_branches(
    repo: &Repo,
    run: &RunId,
    known: &KnownWork,
    obstacles: &mut Vec<Obstacle>,
) -> Result<(Vec<BranchState>, Vec<KeptWork>), RemoveError> {
    let (mut branches, mut keeps) = (Vec::new(), Vec::new());
    let Some(beginning) = &known.parallel else { return Ok((branches, keeps)) };
    for (name, at) in repo.refs().list(&format!("refs/heads/{beginning}"))? {
        let Some(Ok(branch)) = name.strip_prefix("refs/heads/").map(BranchName::new) else { continue };
        if context_of_branch(&branch).is_none_or(|(_, context)| !run.has(&context) || context == run.root) {
            continue;
        }
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

fn unmerged_commits(repo: &Repo, known: &KnownWork) -> Result<Option<KeptWork>, RemoveError> {
    let Some(tip) = known.work else { return Ok(None) };
    let tree = repo.tree_of(tip)?;
    Ok(Some(KeptWork { writer: repo.writer(), tree, parents: vec![tip], unmerged: true, uncommitted: Vec::new() }))
}
