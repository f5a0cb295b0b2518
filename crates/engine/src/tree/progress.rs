//! Reads the progress of a tree from git: the target's history, the branches ahead of it, and a cache of earlier reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::step_cache;
use super::step_scan::{Cut, Names, Runs, ScanScope, StepScan, gather, is_candidate, is_turn, limit};
use crate::env::lock_name;
use git::record::History;
use git::workspace::{Lock, branch_ref, phase_branches, task_branches};
use git::{HistoryCommit, HistoryParent, Repo};
use pleach_core::event::Event;
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::progress::{
    BranchNaming, CandidateStep, Chain, OpenBranch, Progress, StepPlace, UnreadableBranch, fold, print, taken,
};
use pleach_core::step::{Step, StepKind, TreeName, short_id};

/// Number of uncached commits that are read again each time before the cache is rewritten.
const WORTH_CACHING: usize = 100;

/// The ref that names the remote's default branch in a clone.
const BASE_OF_REMOTE: &str = "refs/remotes/origin/HEAD";

/// The base branch if neither the user nor the remote names one: the first of these that exists.
const USUAL_BASES: [&str; 2] = ["main", "master"];

/// Why the progress of a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// The target does not exist.
    #[error("there is no branch `{0}`; `git branch` shows what there is")]
    NoTarget(BranchName),
    /// The base branch does not exist.
    #[error("there is no base branch `{0}`; name one with `--base-branch` or `tree.base_branch` in pleach.yaml")]
    NoBase(BranchName),
    /// The history is incomplete.
    #[error("this is a shallow clone, so steps on `{0}` may be missing; `git fetch --unshallow` fetches the rest")]
    CutOff(BranchName),
}

/// Reads the progress of trees on a target. A reader that is kept reads only new commits.
#[derive(Debug)]
pub struct ProgressReader {
    repo: Repo,
    target: BranchName,
    prefix: String,
    base: Option<BranchName>,
    scan: Option<StepScan>,
    /// Number of commits read that the cache on disk lacks.
    uncached: usize,
}

/// The progress of a tree on `target`, as from [`ProgressReader::read_whole`]. `prefix` is the prefix of
/// pleach's branches, `base` the branch the target was started on, which only matters for steps of the older form.
pub fn read(
    repo: &Repo,
    target: &BranchName,
    tree: &TreeName,
    prefix: &str,
    base: Option<&BranchName>,
) -> Result<Progress, Error> {
    ProgressReader::new(repo, target, prefix, base).read_whole(tree)
}

/// The tip of the base branch the user named.
pub fn named_base(repo: &Repo, name: &BranchName) -> Result<CommitId, Error> {
    find_base(repo, name)?.ok_or_else(|| Error::NoBase(name.clone()))
}

/// The base branch and its tip: the one the user named, `first` if it exists, the default branch of the remote, or one
/// with a usual name.
pub fn base_branch(
    repo: &Repo,
    named: Option<&BranchName>,
    first: Option<&BranchName>,
) -> Result<Option<(BranchName, CommitId)>, Error> {
    if let Some(name) = named {
        return Ok(Some((name.clone(), named_base(repo, name)?)));
    }
    let of_remote = repo.refs().symbolic_target(BASE_OF_REMOTE)?;
    let of_remote = of_remote.as_deref().and_then(|name| name.strip_prefix("refs/remotes/origin/"));
    let names = first.map(BranchName::as_str).into_iter().chain(of_remote).chain(USUAL_BASES);
    for name in names.filter_map(|name| BranchName::new(name).ok()) {
        if let Some(tip) = find_base(repo, &name)? {
            return Ok(Some((name, tip)));
        }
    }
    Ok(None)
}

/// The tip of a base branch; in a clone without the branch, that of its remote-tracking branch.
fn find_base(repo: &Repo, name: &BranchName) -> Result<Option<CommitId>, Error> {
    Ok(match repo.refs().find(&branch_ref(name))? {
        Some(tip) => Some(tip),
        None => repo.refs().find(&format!("refs/remotes/origin/{name}"))?,
    })
}

impl ProgressReader {
    /// A reader that has not read anything yet.
    pub fn new(repo: &Repo, target: &BranchName, prefix: &str, base: Option<&BranchName>) -> Self {
        Self {
            repo: repo.clone(),
            target: target.clone(),
            prefix: prefix.to_owned(),
            base: base.cloned(),
            scan: None,
            uncached: 0,
        }
    }

    /// The files of the trees worked on this target, by name. A tree started by another program has no run start.
    pub fn trees(&mut self) -> Result<BTreeSet<String>, Error> {
        let scan = self.look()?;
        let named = scan.steps.iter().filter_map(|seen| seen.found.step.tree.as_deref());
        let trees = named.filter_map(|named| TreeName::of(named).file().map(str::to_owned)).collect();
        self.scan = Some(scan);
        Ok(trees)
    }

    /// The sessions with steps on this target, or on the branches of its phases and tasks; `None` if part of that is
    /// unreadable.
    pub fn sessions(&mut self) -> Result<Option<BTreeSet<SessionId>>, Error> {
        let scan = self.look()?;
        let (chains, unread) = self.chains(&scan)?;
        let steps = scan.steps.iter().chain(chains.iter().flat_map(|chain| &chain.steps));
        let sessions = steps.filter_map(|seen| seen.found.step.session.clone()).collect();
        let is_whole = unread.is_empty() && scan.cut.is_none();
        self.scan = Some(scan);
        Ok(is_whole.then_some(sessions))
    }

    /// The current progress of a tree. An incomplete history is an error, because missing work would be done again.
    pub fn read_whole(&mut self, tree: &TreeName) -> Result<Progress, Error> {
        let progress = self.read(tree)?;
        if progress.cut_off { Err(Error::CutOff(self.target.clone())) } else { Ok(progress) }
    }

    /// The current progress of a tree.
    pub fn read(&mut self, tree: &TreeName) -> Result<Progress, Error> {
        let scan = self.look()?;
        let (chains, unread) = self.chains(&scan)?;
        let mut progress = fold(&scan.steps, &chains, tree);
        progress.taken = taken(&scan.steps, &chains, tree);
        progress.unread = unread;
        let start = progress.run_start().map(|start| start.commit);
        progress.cut_off = scan.cut.as_ref().is_some_and(|cut| !start.is_some_and(|start| cut.whole.contains(&start)));
        self.scan = Some(scan);
        Ok(progress)
    }

    /// Whether a task's newest step on its branch belongs to a tree; `None` if the branch has no step of
    /// the task.
    pub fn is_of_tree(&mut self, branch: OpenBranch, task: &TaskId, tree: &TreeName) -> Result<Option<bool>, Error> {
        let scan = self.look()?;
        let tip = branch.tip;
        let ahead = self.chain(&scan, branch)?.map(|chain| chain.steps);
        // The branch of a landed task is at its last step.
        let is_its = |seen: &&CandidateStep| seen.found.step.task.as_ref() == Some(task);
        let newest = match &ahead {
            Some(steps) => steps.iter().rev().find(is_its),
            None => scan.steps.iter().rev().filter(|seen| seen.found.commit == tip).find(is_its),
        };
        let of_tree = newest.map(|seen| tree.has_step(&seen.found.step));
        self.scan = Some(scan);
        Ok(of_tree)
    }

    /// Whether the target has a commit, or a copy of the step it is that completed its task. The copies of a task that was
    /// given up are without its code.
    pub fn has_completed(&mut self, tip: CommitId) -> Result<bool, Error> {
        let scan = self.look()?;
        let newest = self.repo.history().message_of(tip)?;
        let print = print(&newest.message, newest.seconds, newest.offset);
        let is_complete = |step: &Step| step.kind == StepKind::Complete && step.passed;
        let is_same_step = |seen: &CandidateStep| seen.found.print == print && is_complete(&seen.found.step);
        let has_it = scan.steps.iter().any(is_same_step) || self.repo.history().is_ancestor(tip, scan.tip)?;
        self.scan = Some(scan);
        Ok(has_it)
    }

    /// Reads the new steps of the target.
    fn look(&mut self) -> Result<StepScan, Error> {
        let tip = self.repo.refs().find(&branch_ref(&self.target))?;
        let tip = tip.ok_or_else(|| Error::NoTarget(self.target.clone()))?;
        let known = match self.scan.take() {
            Some(scan) => Some(scan),
            None => step_cache::load(self.repo.common_dir(), &self.target),
        };
        let scan = match known.map(|scan| self.go_on(scan, tip)).transpose()?.flatten() {
            Some(scan) => scan,
            None => self.begin(tip)?,
        };
        if self.uncached >= WORTH_CACHING && scan.cut.is_none() {
            step_cache::save(self.repo.common_dir(), &self.target, &scan);
            self.uncached = 0;
        }
        Ok(scan)
    }

    /// The names by which steps may refer to the target.
    fn names(&self) -> Names<'_> {
        let branch = self.target.as_str();
        Names { branch, short_id: short_id(branch) }
    }

    fn keep(&self) -> impl Fn(&[u8]) -> bool + use<'_> {
        |message| is_candidate(message, self.names())
    }

    /// Reads the whole history.
    fn begin(&mut self, tip: CommitId) -> Result<StepScan, Error> {
        let commits = self.repo.history().all(tip, (&self.keep(), &is_turn))?;
        let nothing = &mut |_| Ok::<_, Error>(Runs::default());
        let mut gathered = gather(&commits, &StepPlace::Target, self.names(), nothing)?;
        let scope = if gathered.needs_scope { self.scope(tip)? } else { ScanScope::Unneeded };
        if let ScanScope::After(base) = scope {
            limit(&commits, &mut gathered.steps, base);
        }
        self.uncached = commits.len();
        let steps = gathered.steps.into_iter().map(|(_, seen)| seen).collect();
        let cut = Cut::of(&commits, &gathered.runs);
        Ok(StepScan { tip, steps, runs: gathered.runs, scope, cut })
    }

    /// Reads the commits since `scan`; `None` if the target does not simply continue from there.
    fn go_on(&mut self, mut scan: StepScan, tip: CommitId) -> Result<Option<StepScan>, Error> {
        if scan.cut.is_some() {
            // More of the history may be available by now.
            return Ok(None);
        }
        let mut needs_scope = scan.scope != ScanScope::Unneeded;
        if tip != scan.tip {
            // The cache may name a commit that is gone.
            let Ok([new, gone]) = self.repo.history().symmetric_difference(tip, scan.tip, (&self.keep(), &is_turn))
            else {
                return Ok(None);
            };
            if !gone.is_empty() || !goes_on_from(&new, scan.tip) {
                return Ok(None);
            }
            let (repo, from, runs) = (self.repo.clone(), scan.tip, Arc::clone(&scan.runs));
            let outside = &mut |id| if id == from { Ok(Arc::clone(&runs)) } else { runs_below(&repo, &runs, id) };
            let is_named = scan.steps.iter().any(|seen| seen.form == BranchNaming::Branch);
            let names = if is_named { Names::branch(self.target.as_str()) } else { self.names() };
            let gathered = gather(&new, &StepPlace::Target, names, outside)?;
            if !gathered.steps.is_empty() && new.iter().any(|commit| commit.parents.len() > 1) {
                // The merged steps belong among the known ones.
                return Ok(None);
            }
            needs_scope |= gathered.needs_scope;
            // With wrong clocks, an old commit can look new.
            let mut fresh: BTreeSet<CommitId> = gathered.steps.iter().map(|(_, seen)| seen.found.commit).collect();
            scan.steps.iter().filter(|_| !gathered.steps.is_empty()).for_each(|seen| {
                fresh.remove(&seen.found.commit);
            });
            let steps = gathered.steps.into_iter().map(|(_, seen)| seen);
            scan.steps.extend(steps.filter(|seen| fresh.contains(&seen.found.commit)));
            scan.tip = tip;
            scan.runs = gathered.runs;
            self.uncached += new.len();
        }
        let same_scope = !needs_scope || self.scope(tip)? == scan.scope;
        Ok(same_scope.then_some(scan))
    }

    /// Where steps of the older form count.
    fn scope(&self, tip: CommitId) -> Result<ScanScope, Error> {
        let Some((name, base)) = self.base()? else { return Ok(ScanScope::All) };
        if name == self.target {
            return Ok(ScanScope::All);
        }
        Ok(self.repo.history().merge_base(tip, base)?.map_or(ScanScope::All, ScanScope::After))
    }

    /// The base branch and its tip.
    fn base(&self) -> Result<Option<(BranchName, CommitId)>, Error> {
        // A target with a usual name is its own base, whatever the remote's default branch.
        let itself = USUAL_BASES.contains(&self.target.as_str()).then_some(&self.target);
        base_branch(&self.repo, self.base.as_ref(), itself)
    }

    /// The task and phase branches that may be ahead of the target, and the unreadable ones.
    fn chains(&self, scan: &StepScan) -> Result<(Vec<Chain>, Vec<UnreadableBranch>), Error> {
        let (mut chains, mut unread) = (Vec::<Chain>::new(), Vec::new());
        let mut landed: Option<LandedCommits> = None;
        // Commits of tasks on open phase branches, which are read before the task branches.
        let mut gathered: BTreeSet<CommitId> = BTreeSet::new();
        for (id, branch) in self.branches()? {
            let is_task = matches!(branch.place, StepPlace::Task(_));
            if branch.tip == scan.tip || is_task && gathered.contains(&branch.tip) {
                continue;
            }
            let landed = landed.get_or_insert_with(|| LandedCommits::new(scan));
            let chain = match landed.has(&self.repo, branch.tip) {
                Ok(true) => Ok(None),
                Ok(false) => self.chain(scan, branch.clone()),
                Err(error) => Err(error),
            };
            match chain {
                Err(Error::Git(error)) if error.is_damage() => {
                    if unread.is_empty() {
                        // If the target itself is damaged, the problem is not this branch.
                        self.repo.history().all(scan.tip, (&self.keep(), &is_turn))?;
                    }
                    unread.push(UnreadableBranch {
                        branch,
                        id,
                        why: git::diagnose_corruption(&self.repo, error).to_string(),
                    });
                }
                chain => {
                    let chain = chain?;
                    if let Some(chain) = &chain
                        && is_task
                        && self.is_taken_back(chain)?
                    {
                        continue;
                    }
                    let is_open = |chain: &&Chain| chain.steps.last().is_some_and(|newest| !landed.has_copy_of(newest));
                    let steps = chain.iter().filter(|_| !is_task).filter(is_open).flat_map(|chain| &chain.steps);
                    gathered.extend(steps.map(|seen| seen.found.commit));
                    chains.extend(chain);
                }
            }
        }
        Ok((chains, unread))
    }

    /// Whether a branch is as it was when its task landed on the target in this clone: the target does not have that any
    /// more, so somebody has taken it back, and it does not land again. In another clone the landing may not have arrived.
    fn is_taken_back(&self, chain: &Chain) -> Result<bool, Error> {
        let newest = chain.steps.last().map(|newest| &newest.found).filter(|newest| newest.commit == chain.branch.tip);
        let Some(session) = newest.and_then(|newest| newest.step.session.as_ref()) else { return Ok(false) };
        if !Lock::exists(self.repo.common_dir(), &lock_name(session)) {
            return Ok(false);
        }
        // An unreadable record tells nothing.
        let Ok(history) = History::newest(&self.repo, session) else { return Ok(false) };
        Ok(history
            .events()
            .any(|recorded| matches!(&recorded.event, Event::Landed(landed) if landed.target == self.target)))
    }

    /// The existing branches of phases and tasks, readable or not.
    fn branches(&self) -> Result<Vec<(TaskId, OpenBranch)>, Error> {
        let phases = (phase_branches(&self.prefix, &self.target), StepPlace::Phase as fn(TaskId) -> StepPlace);
        let tasks = (task_branches(&self.prefix, &self.target), StepPlace::Task as fn(TaskId) -> StepPlace);
        let mut branches = Vec::new();
        for (prefix, place) in [phases, tasks] {
            for (reference, tip) in self.repo.refs().list_unpeeled(&format!("refs/heads/{prefix}"))? {
                let name = reference.strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok());
                let Some(name) = name else { continue };
                let Some(id) = name.as_str().strip_prefix(&prefix).and_then(|id| TaskId::new(id).ok()) else {
                    continue;
                };
                let tip = match tip {
                    Some(tip) => Some(tip),
                    None => self.repo.refs().find(&reference)?,
                };
                let Some(tip) = tip else { continue };
                branches.push((id.clone(), OpenBranch { name, place: place(id), tip }));
            }
        }
        Ok(branches)
    }

    /// The steps of a branch that the target lacks; `None` if there are none.
    fn chain(&self, scan: &StepScan, branch: OpenBranch) -> Result<Option<Chain>, Error> {
        let [beside, own] = self.repo.history().symmetric_difference(scan.tip, branch.tip, (&self.keep(), &is_turn))?;
        let beside: BTreeSet<CommitId> = beside.iter().map(|commit| commit.id).collect();
        let outside: BTreeSet<CommitId> = own.iter().flat_map(|commit| &commit.parents).filter_map(outside).collect();
        let shared: Runs = Arc::new(scan.runs.difference(&beside).copied().collect());
        let repo = self.repo.clone();
        // Everything that a branch with a single fork point shares with the target is below that point.
        let runs = &mut |id| if outside.len() == 1 { Ok(Arc::clone(&shared)) } else { runs_below(&repo, &shared, id) };
        let gathered = gather(&own, &branch.place, Names::branch(self.target.as_str()), runs)?;
        let steps: Vec<_> = gathered.steps.into_iter().map(|(_, seen)| seen).collect();
        let has_merges = own.iter().any(|commit| commit.parents.len() > 1);
        Ok((!steps.is_empty()).then_some(Chain { branch, steps, beside, has_merges }))
    }
}

/// The steps of a target, for a quick check that a branch has nothing new.
struct LandedCommits {
    commits: BTreeSet<CommitId>,
    prints: BTreeSet<u64>,
}

impl LandedCommits {
    fn new(scan: &StepScan) -> Self {
        let found = || scan.steps.iter().map(|seen| &seen.found);
        Self {
            commits: found().map(|found| found.commit).collect(),
            prints: found().map(|found| found.print).collect(),
        }
    }

    /// Whether the target has a step or a copy of it.
    fn has_copy_of(&self, step: &CandidateStep) -> bool {
        self.prints.contains(&step.found.print)
    }

    /// Whether the target has the tip of a branch or a copy of it. The tip nearly always is the branch's newest step.
    fn has(&self, repo: &Repo, tip: CommitId) -> Result<bool, Error> {
        if self.commits.contains(&tip) {
            return Ok(true);
        }
        let newest = repo.history().message_of(tip)?;
        Ok(self.prints.contains(&print(&newest.message, newest.seconds, newest.offset)))
    }
}

fn outside(parent: &HistoryParent) -> Option<CommitId> {
    match parent {
        HistoryParent::Outside(id) => Some(*id),
        HistoryParent::Passed(_) => None,
    }
}

/// Whether the first parents of the new commits lead to `from`.
fn goes_on_from(new: &[HistoryCommit], from: CommitId) -> bool {
    let mut at = new.len().checked_sub(1);
    while let Some(place) = at {
        match new[place].parents.first() {
            Some(HistoryParent::Passed(parent)) => at = Some(*parent),
            Some(HistoryParent::Outside(id)) => return *id == from,
            None => return false,
        }
    }
    false
}

/// Which run starts a commit has in its history.
fn runs_below(repo: &Repo, runs: &Runs, id: CommitId) -> Result<Runs, Error> {
    let mut below = BTreeSet::new();
    for run in runs.iter() {
        if repo.history().is_ancestor(*run, id)? {
            below.insert(*run);
        }
    }
    Ok(Arc::new(below))
}
