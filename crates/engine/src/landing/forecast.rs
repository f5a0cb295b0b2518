//! Which open branches will get in each other's way when they are merged: known before any of them is done. Each pair of
//! commits is looked at once; what was found is a cache that may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{MergeQueue, QueueError, queue_targets};
use git::Repo;
use git::merge::MergeError;
use git::workspace::{branch_ref, context_of_branch};
use pleach_core::ids::{BranchName, CommitId, RepoPath};

/// How many pairs the cache holds before it is cleared.
const KNOWN: usize = 20_000;

/// How long a quick look may compare new pairs.
const MOMENT: Duration = Duration::from_millis(100);

/// Expected conflicts between the open branches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The branch everything goes to.
    pub target: Option<BranchName>,
    /// The open branches, by name.
    pub branches: Vec<BranchName>,
    /// Pairs of them, or of one and the target, that changed the same files.
    pub pairs: Vec<ForecastPair>,
}

/// Two branches that changed the same files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForecastPair {
    /// One.
    pub one: BranchName,
    /// The other, or the target.
    pub other: BranchName,
    /// The files both changed.
    pub overlap: Vec<RepoPath>,
    /// Those in conflict.
    pub conflicts: Vec<RepoPath>,
}

/// What merging a branch will run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastMark {
    /// Another branch, or the target, has changed the same files.
    Overlap,
    /// It conflicts with another branch, or with the target.
    Conflict,
}

impl fmt::Display for ForecastMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "overlap",
            Self::Conflict => "conflict",
        })
    }
}

/// What is known of a pair of commits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownPair {
    /// Their merge base; one of the two if the other has it.
    base: Option<CommitId>,
    overlap: Vec<RepoPath>,
    conflicts: Vec<RepoPath>,
}

impl Forecast {
    /// What merging a branch will run into, if anything.
    pub fn mark(&self, branch: &BranchName) -> Option<ForecastMark> {
        let of_it = self.pairs.iter().filter(|pair| pair.one == *branch || pair.other == *branch);
        let mark = |pair: &ForecastPair| {
            if pair.conflicts.is_empty() { ForecastMark::Overlap } else { ForecastMark::Conflict }
        };
        of_it.map(mark).max()
    }
}

/// Compares all of pleach's branches and all queued ones that the target lacks. Blocks.
pub fn forecast(repo: &Repo, prefix: &str, target: &BranchName) -> Result<Forecast, QueueError> {
    let mut open: BTreeMap<BranchName, CommitId> = BTreeMap::new();
    for (name, head) in repo.refs().list(&format!("refs/heads/{prefix}"))? {
        let branch = name.strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok());
        // Parallel branches of a session are merged in it.
        let branch = branch.filter(|branch| context_of_branch(branch).is_none());
        open.extend(branch.map(|branch| (branch, head)));
    }
    look_ahead(repo, open, target, None)
}

/// A quick forecast for these branches and all queued ones: from known pairs, and as many new pairs as can be compared
/// in a moment. The cache keeps those. Blocks.
pub fn quick_forecast(
    repo: &Repo,
    branches: &BTreeSet<BranchName>,
    target: &BranchName,
) -> Result<Forecast, QueueError> {
    let mut open: BTreeMap<BranchName, CommitId> = BTreeMap::new();
    for branch in branches {
        open.extend(repo.refs().find(&branch_ref(branch))?.map(|head| (branch.clone(), head)));
    }
    look_ahead(repo, open, target, Some(branches))
}

/// Compares open branches: all pairs, or quickly those with an `asked` branch.
fn look_ahead(
    repo: &Repo,
    mut open: BTreeMap<BranchName, CommitId>,
    target: &BranchName,
    asked: Option<&BTreeSet<BranchName>>,
) -> Result<Forecast, QueueError> {
    let Some(tip) = repo.refs().find(&branch_ref(target))? else { return Err(QueueError::NoBranch(target.clone())) };
    for queue_target in queue_targets(repo)?.iter().filter(|queue_target| *queue_target == target) {
        let entries = MergeQueue::read(repo, queue_target)?.entries();
        open.extend(entries.into_iter().filter_map(|entry| Some((entry.branch?, entry.head))));
    }
    let is_asked = |branch: &BranchName| asked.is_none_or(|asked| asked.contains(branch));
    let mut cache = PairCache::read(repo.common_dir(), asked.map(|_| Instant::now() + MOMENT));
    let mut heads: Vec<(BranchName, CommitId)> = Vec::new();
    for (branch, head) in open.into_iter().filter(|(branch, _)| branch != target) {
        // The target contains this head.
        let is_landed = is_asked(&branch) && cache.pair(repo, head, tip)?.is_some_and(|known| known.base == Some(head));
        if !is_landed {
            heads.push((branch, head));
        }
    }
    let branches = heads.iter().map(|(branch, _)| branch.clone()).collect();
    let mut pairs = Vec::new();
    for (nth, (one, head)) in heads.iter().enumerate() {
        let others = heads[nth + 1..].iter().map(|(other, at)| (other, *at)).chain([(target, tip)]);
        for (other, at) in others.filter(|(other, _)| is_asked(one) || is_asked(other)) {
            let known = cache.pair(repo, *head, at)?.filter(|known| !known.overlap.is_empty());
            pairs.extend(known.map(|KnownPair { overlap, conflicts, .. }| ForecastPair {
                one: one.clone(),
                other: other.clone(),
                overlap,
                conflicts,
            }));
        }
    }
    pairs.sort_by_key(|pair| std::cmp::Reverse((!pair.conflicts.is_empty(), pair.overlap.len())));
    cache.write();
    Ok(Forecast { target: Some(target.clone()), branches, pairs })
}

/// What is cached about pairs of commits.
#[derive(Debug)]
struct PairCache {
    path: PathBuf,
    known: BTreeMap<String, KnownPair>,
    changed: BTreeMap<(CommitId, CommitId), BTreeSet<RepoPath>>,
    is_new: bool,
    /// When to stop comparing, if time is limited.
    until: Option<Instant>,
}

impl PairCache {
    fn read(common_dir: &Path, until: Option<Instant>) -> Self {
        let path = common_dir.join("pleach/cache/forecast.json");
        let known = os::plain_file::read(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        Self { path, known: known.unwrap_or_default(), changed: BTreeMap::new(), is_new: false, until }
    }

    /// What two commits both changed, and whether it conflicts. None if that is not cached and time is up; one pair is
    /// always compared, so that every look adds to the cache.
    fn pair(&mut self, repo: &Repo, one: CommitId, other: CommitId) -> Result<Option<KnownPair>, git::Error> {
        let key = if one < other { format!("{one} {other}") } else { format!("{other} {one}") };
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known.clone()));
        }
        if self.is_new && self.until.is_some_and(|until| Instant::now() > until) {
            return Ok(None);
        }
        let base = repo.history().merge_base(one, other)?;
        let (overlap, conflicts) = match base {
            // One contains the other, or they share no commit.
            Some(base) if base != one && base != other => self.compare(repo, base, one, other)?,
            _ => Default::default(),
        };
        let found = KnownPair { base, overlap, conflicts };
        self.is_new = true;
        self.known.insert(key, found.clone());
        Ok(Some(found))
    }

    /// The files both changed, and those of them in conflict.
    fn compare(
        &mut self,
        repo: &Repo,
        base: CommitId,
        one: CommitId,
        other: CommitId,
    ) -> Result<(Vec<RepoPath>, Vec<RepoPath>), git::Error> {
        let mine = self.changes(repo, base, one)?;
        let theirs = self.changes(repo, base, other)?;
        let overlap: Vec<RepoPath> = mine.iter().filter(|path| is_touched(path, &theirs)).cloned().collect();
        if overlap.is_empty() {
            return Ok(Default::default());
        }
        let conflicts = match git::merge::merge_commits(repo, one, other) {
            Ok(_) => Vec::new(),
            Err(MergeError::Conflict(conflict)) => conflict.paths,
            Err(MergeError::Git(error)) => return Err(error),
        };
        Ok((overlap, conflicts))
    }

    fn changes(&mut self, repo: &Repo, base: CommitId, head: CommitId) -> Result<BTreeSet<RepoPath>, git::Error> {
        if let Some(known) = self.changed.get(&(base, head)) {
            return Ok(known.clone());
        }
        let changes = git::diff::changes(repo, repo.tree_of(base)?, repo.tree_of(head)?)?;
        let paths: BTreeSet<RepoPath> = changes.into_iter().map(|change| change.path).collect();
        self.changed.insert((base, head), paths.clone());
        Ok(paths)
    }

    /// Writes the cache. A failure to do so is ignored.
    fn write(&mut self) {
        if !self.is_new {
            return;
        }
        if self.known.len() > KNOWN {
            self.known.clear();
        }
        let Ok(text) = serde_json::to_vec(&self.known) else { return };
        let Some(dir) = self.path.parent() else { return };
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&temporary, text));
        if written.and_then(|()| std::fs::rename(&temporary, &self.path)).is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
    }
}

/// Whether a path is among others, or one is a file where the other has a directory.
fn is_touched(path: &RepoPath, among: &BTreeSet<RepoPath>) -> bool {
    let bytes = path.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([bytes.len()]);
    let is_below =
        |other: &RepoPath| other.as_bytes().starts_with(bytes) && other.as_bytes().get(bytes.len()) == Some(&b'/');
    ends.into_iter().any(|end| among.contains(&RepoPath::new(&bytes[..end])))
        || among.range(path.clone()..).take_while(|other| other.as_bytes().starts_with(bytes)).any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_touches_the_directory_it_replaces() {
        let among: BTreeSet<RepoPath> = ["a/b", "c-d", "e"].map(RepoPath::from).into();
        let touched = |path: &str| is_touched(&RepoPath::from(path), &among);
        assert!(touched("a/b") && touched("a") && touched("a/b/c") && touched("e/f"));
        assert!(!touched("c") && !touched("a/c") && !touched("a-b"));
    }
}
