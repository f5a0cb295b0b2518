//! Watching what an agent must leave alone: the user's checkout, the repository's configuration and hooks, and refs.
//! Agents share the git directory with the user, so changes are detected here rather than prevented.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::git::worktree::Uncommitted;
use crate::git::{self, Repo, Worktree};
use os::confined_fs::ConfinedDir;
use pleach_core::ids::{CommitId, RepoName, RepoPath};

/// Files below the git directory that change what git does.
const CONTROL_FILES: [&str; 4] = ["config", "config.worktree", "info/attributes", "info/exclude"];

/// The same, in the directory git keeps of a worktree alone.
const OWN_CONTROL_FILES: [&str; 2] = ["commondir", "gitdir"];

/// Where pleach's own refs are.
const OWN: &str = "refs/pleach/";

/// Notes that other runs of pleach write about their commits when they end, and that tools write of themselves.
const NOTES: &str = "refs/notes/ai";

/// What one of these has at most: settings of git's are the longest.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Keeps an eye on what an agent must leave alone. The user's checkout is opened once, before any agent runs, and
/// only ever read.
#[derive(Debug)]
pub struct GuardWatch {
    repo: Repo,
    checkout: Option<Worktree>,
    /// The checkout may have moved.
    moved: bool,
    /// What this process had landed at the last look.
    landed: BTreeMap<String, CommitId>,
}

/// The state of everything an agent must leave alone.
#[derive(Debug, PartialEq)]
pub struct Guard {
    control: BTreeMap<PathBuf, Vec<u8>>,
    refs: BTreeMap<String, CommitId>,
    /// Those of them that are where this process has landed.
    own: BTreeSet<String>,
    checkout: BTreeMap<RepoPath, String>,
    /// Unexpected entries of the copy's git directory that were removed or restored since the last look.
    odd: Vec<String>,
    /// HEADs of the copy that were restored since.
    heads: Vec<String>,
}

/// What was changed that should not have been.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Configuration or hooks, which fails the node.
    pub control: Vec<String>,
    /// HEADs that named no complete commit, which fails it too.
    pub heads: Vec<String>,
    /// The user's files and refs, which are named in a warning: the user may have changed them.
    pub foreign: Vec<String>,
}

impl GuardWatch {
    /// Opens what is to be watched.
    pub fn new(repo: &Repo) -> Result<Self, Error> {
        let checkout = repo.workdir().map(|dir| git::worktree::open(repo, dir)).transpose()?;
        Ok(Self { repo: repo.clone(), checkout, moved: false, landed: repo.own_landings().all().clone() })
    }

    /// Looks at everything now. The branches of sessions and tasks below `own` are left out, and so are pleach's own refs
    /// but for what is kept of this session, below `kept`: they move by compare-and-swap, which notices for itself, and
    /// there are more of them with every task.
    pub fn look(&mut self, copy: &Worktree, own: &str, kept: &str) -> Result<Guard, Error> {
        // What lands meanwhile is the doing of no agent.
        let repo = self.repo.clone();
        let landings = repo.own_landings();
        if *landings.all() != self.landed {
            self.landed.clone_from(landings.all());
            self.moved = true;
        }
        let common = repo.common_dir();
        let Guard { mut control, odd, heads, .. } = self.look_near(copy)?;
        for name in CONTROL_FILES {
            read_file(&common.join(name), &mut control)?;
        }
        read_dir(&common.join("hooks"), &mut control)?;
        let mut refs = self.repo.refs().list_except(&[OWN, NOTES, own])?;
        refs.extend(self.repo.refs().list(kept)?);
        let own = refs.iter().filter(|(name, at)| landings.has(name, **at)).map(|(name, _)| name.clone()).collect();
        Ok(Guard { control, refs, own, checkout: self.changes()?, odd, heads })
    }

    /// Looks only at what also a bound agent can write in its own copy.
    pub fn look_near(&self, copy: &Worktree) -> Result<Guard, Error> {
        let mut control = BTreeMap::new();
        for name in OWN_CONTROL_FILES {
            read_own(copy.git_dir(), name, &mut control);
        }
        // A directory there is a repository of the agent's, which is another matter.
        if !copy.root().join(".git").symlink_metadata().is_ok_and(|link| link.is_dir()) {
            read_own(copy.root(), ".git", &mut control);
        }
        let (odd, heads) = (copy.take_cleared(), copy.take_replaced_heads());
        Ok(Guard { control, refs: BTreeMap::new(), own: BTreeSet::new(), checkout: BTreeMap::new(), odd, heads })
    }

    /// From the next look on, the user's checkout is compared with where it stands then: what has landed there is no
    /// change any more.
    pub fn renew(&mut self) {
        self.moved = true;
    }

    /// What the user has not committed, which agents do not see.
    pub fn uncommitted(&mut self) -> Result<Uncommitted, Error> {
        let checkout = self.checkout.as_mut();
        Ok(checkout.map(git::worktree::uncommitted).transpose()?.unwrap_or_default())
    }

    /// The files of the user's checkout that differ from where it stood at the start, with a mark that changes when
    /// they do.
    fn changes(&mut self) -> Result<BTreeMap<RepoPath, String>, Error> {
        let Some(checkout) = &mut self.checkout else { return Ok(BTreeMap::new()) };
        if std::mem::take(&mut self.moved) {
            checkout.reload_head()?;
        }
        let scan = git::worktree::scan_all(checkout)?;
        Ok(scan.paths().map(|path| (path.clone(), mark(&checkout.root().join(to_path(&path))))).collect())
    }
}

fn to_path(path: &RepoPath) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.as_bytes()))
}

fn mark(file: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    match file.symlink_metadata() {
        Ok(data) => format!("{} {} {}.{}", data.mode(), data.size(), data.mtime(), data.mtime_nsec()),
        Err(_) => "gone".to_owned(),
    }
}

impl Guard {
    /// The commits refs pointed to, except pleach's own.
    pub fn ref_targets(&self) -> Vec<CommitId> {
        self.refs.iter().filter(|(name, _)| !name.starts_with(OWN)).map(|(_, id)| *id).collect()
    }

    /// Refs under `prefix` that are not in `after` as they were, with what they were.
    pub fn lost(&self, after: &Self, prefix: &str) -> Vec<(String, CommitId)> {
        let kept = self.refs.iter().filter(|(name, id)| name.starts_with(prefix) && after.refs.get(*name) != Some(id));
        kept.map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// What differs from `self` in `after`. Refs below `kept` are the session's own.
    pub fn compare(&self, after: &Self, kept: &str) -> Violations {
        let control = changed(&self.control, &after.control).map(|path| path.display().to_string());
        let control = control.chain(after.odd.iter().cloned()).collect();
        let is_own = |name: &String| name.starts_with(kept) || after.own.contains(name);
        let refs = changed(&self.refs, &after.refs).filter(|name| !is_own(name));
        let refs = refs.map(|name| format!("ref `{name}`"));
        let files = changed(&self.checkout, &after.checkout).map(|path| format!("`{path}` in your checkout"));
        Violations { control, heads: after.heads.clone(), foreign: files.chain(refs).collect() }
    }
}

/// The keys whose values differ, in order.
fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let gone_or_changed = before.iter().filter(|(key, value)| after.get(key) != Some(value));
    let added = after.iter().filter(|(key, _)| !before.contains_key(key));
    gone_or_changed.chain(added).map(|(key, _)| key)
}

/// Reads a file an agent can write to. Anything else in its place counts as different content.
fn read_own(dir: &Path, name: &str, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    match ConfinedDir::at(dir).and_then(|dir| dir.read(name, LONGEST)) {
        Ok(None) => None,
        Ok(Some(bytes)) => into.insert(dir.join(name), bytes),
        Err(error) => into.insert(dir.join(name), error.to_string().into_bytes()),
    };
}

fn read_file(path: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Error> {
    match std::fs::read(path) {
        Ok(bytes) => {
            into.insert(path.to_owned(), bytes);
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Io { doing: "read", path: path.to_owned(), source }),
    }
}

fn read_dir(dir: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Error> {
    let failed = |source| Error::Io { doing: "list", path: dir.to_owned(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        // git's samples never run.
        if path.is_file() && path.extension().is_none_or(|extension| extension != "sample") {
            read_file(&path, into)?;
        }
    }
    Ok(())
}

/// What agents must leave alone, by repository.
#[derive(Debug, PartialEq)]
pub struct Guards(pub(super) BTreeMap<RepoName, Guard>);

impl Guards {
    /// What differs from `self` in `after`. Refs below `kept` are the session's own.
    pub fn compare(&self, after: &Self, kept: &str) -> Violations {
        let mut all = Violations::default();
        for (repo, before) in &self.0 {
            let Some(after) = after.0.get(repo) else { continue };
            let Violations { control, heads, foreign } = before.compare(after, kept);
            let named = |what: String| if self.0.len() > 1 { format!("{repo}: {what}") } else { what };
            all.control.extend(control.into_iter().map(named));
            all.heads.extend(heads.into_iter().map(named));
            all.foreign.extend(foreign.into_iter().map(named));
        }
        all
    }
}
