//! The states of entries: each is a commit on the ref of its entry, with the one before it and the work it speaks of as
//! parents. Nothing that was ever queued is lost to garbage collection.

use jiff::Timestamp;
use serde::Serialize;

use crate::git::{self, BlobId, Commit, CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId, Writer};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoPath, TaskId, branch_key};
use pleach_core::queue::{EntryState, QueueEntry, TestVerdict};
use pleach_core::trailer::CommitMessage;

/// The refs of all queues begin with this.
pub const QUEUES: &str = "refs/pleach/queue/";

pub const ENTRY_FILE: &str = "entry.json";
pub const LOG_FILE: &str = "log.txt";

/// Entries are archived when they were made and closed so many days ago.
pub const ARCHIVED_AFTER_DAYS: i64 = 30;

pub const COMMIT_FILE: &str = "commit";

pub const CONFLICT_TRAILER: &str = "Pleach-Conflict";

/// The trailer of a state's commit.
const ENTRY_TRAILER: &str = "Pleach-Entry";

/// The trailer of the commit of a landing: the files it comes to, and what their tests said.
pub const TESTED_TRAILER: &str = "Pleach-Tested";

/// An entry with the commit of its newest state.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// The entry.
    pub entry: QueueEntry,
    /// The commit of its state.
    pub at: CommitId,
    /// What its tests printed when they failed last.
    pub log: Option<BlobId>,
    /// It was closed long ago, and has no ref of its own any more.
    pub is_archived: bool,
}

/// The ref of an entry.
pub fn entry_ref(target: &BranchName, id: &EntryId) -> String {
    format!("{QUEUES}{}/entry/{id}", branch_key(target))
}

/// A ref of a queue.
pub fn queue_ref(target: &BranchName, name: &str) -> String {
    format!("{QUEUES}{}/{name}", branch_key(target))
}

/// Why an entry cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// An entry, or the list of them, cannot be read.
    #[error("`{name}` of the merge queue cannot be read: {why}")]
    Unreadable {
        /// The ref.
        name: String,
        /// Why.
        why: String,
    },
}

/// An entry, open or closed.
pub fn read_entry(repo: &Repo, target: &BranchName, id: &EntryId) -> Result<Option<StoredEntry>, EntryError> {
    let name = entry_ref(target, id);
    match repo.refs().find(&name)? {
        Some(at) => read_state(repo, &name, at).map(Some),
        None => archived_entry(repo, target, id),
    }
}

pub fn archive_ref(target: &BranchName) -> String {
    queue_ref(target, "done")
}

pub fn archived_path(id: &str, file: &str) -> RepoPath {
    RepoPath::from(format!("{id}/{file}").as_str())
}

/// An archived entry.
pub fn archived_entry(repo: &Repo, target: &BranchName, id: &EntryId) -> Result<Option<StoredEntry>, EntryError> {
    let name = archive_ref(target);
    let Some(at) = repo.refs().find(&name)? else { return Ok(None) };
    let tree = repo.tree_of(at)?;
    if repo.tree_entry(tree, &RepoPath::from(id.as_str()))?.is_none() {
        return Ok(None);
    }
    let unreadable = || EntryError::Unreadable { name: name.clone(), why: format!("{id} has no commit") };
    let commit = repo.tree_file(tree, &archived_path(id.as_str(), COMMIT_FILE))?.ok_or_else(unreadable)?;
    let commit = String::from_utf8_lossy(&commit).trim().parse::<CommitId>().map_err(|_| unreadable())?;
    let entry = read_json(repo, &name, tree, &archived_path(id.as_str(), ENTRY_FILE))?;
    let log = repo.tree_entry(tree, &archived_path(id.as_str(), LOG_FILE))?.map(|entry| entry.id);
    Ok(Some(StoredEntry { entry, at: commit, log, is_archived: true }))
}

/// Whether the message of a commit says that it is a conflict of an entry.
pub fn is_conflict_of(message: &[u8], id: &EntryId) -> bool {
    CommitMessage::read(&String::from_utf8_lossy(message)).trailer(CONFLICT_TRAILER) == Some(id.as_str())
}

/// All archived entries, oldest first.
pub fn archived_entries(repo: &Repo, target: &BranchName) -> Result<Vec<StoredEntry>, EntryError> {
    let Some(at) = repo.refs().find(&archive_ref(target))? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for found in repo.tree_entries(repo.tree_of(at)?)? {
        if let Ok(id) = EntryId::new(found.path.to_string()) {
            all.extend(archived_entry(repo, target, &id)?);
        }
    }
    Ok(all)
}

/// The commits of an entry's states, newest first, from that of one state on.
pub fn state_commits(
    repo: &Repo,
    id: EntryId,
    from: CommitId,
) -> impl Iterator<Item = Result<Commit, git::Error>> + use<> {
    let (repo, mut next) = (repo.clone(), Some(from));
    std::iter::from_fn(move || {
        let commit = match repo.commit(next.take()?) {
            Ok(commit) => commit,
            Err(error) => return Some(Err(error)),
        };
        // The first state has only its work below it.
        is_state_of(&commit, &id).then(|| {
            next = commit.parents.first().copied();
            Ok(commit)
        })
    })
}

/// The states of an entry, newest first, each with when it began.
pub fn entry_history(repo: &Repo, stored: &StoredEntry) -> Result<Vec<(Timestamp, QueueEntry)>, EntryError> {
    let name = entry_ref(&stored.entry.target, &stored.entry.id);
    let states = state_commits(repo, stored.entry.id.clone(), stored.at).map(|commit| {
        let commit = commit?;
        Ok((commit.at, read_state(repo, &name, commit.id)?.entry))
    });
    states.collect()
}

/// What the tests of an entry printed when they failed last.
pub fn entry_log(repo: &Repo, stored: &StoredEntry) -> Result<Option<String>, EntryError> {
    let Some(log) = stored.log else { return Ok(None) };
    Ok(Some(String::from_utf8_lossy(&repo.blob(log)?).into_owned()))
}

/// The newest entry of a task, open or closed, unless that is long ago.
pub fn last_of_task(repo: &Repo, target: &BranchName, task: &TaskId) -> Result<Option<QueueEntry>, EntryError> {
    for (name, at) in repo.refs().list(&queue_ref(target, "entry/"))?.into_iter().rev() {
        let entry = read_state(repo, &name, at)?.entry;
        if entry.task.as_ref() == Some(task) && entry.is_repairable() {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn is_state_of(commit: &Commit, id: &EntryId) -> bool {
    let message = CommitMessage::read(&String::from_utf8_lossy(&commit.message));
    message.trailer(ENTRY_TRAILER) == Some(id.as_str())
}

pub fn read_state(repo: &Repo, name: &str, at: CommitId) -> Result<StoredEntry, EntryError> {
    let tree = repo.tree_of(at)?;
    let entry = read_json(repo, name, tree, &ENTRY_FILE.into())?;
    let log = repo.tree_entry(tree, &LOG_FILE.into())?.map(|entry| entry.id);
    Ok(StoredEntry { entry, at, log, is_archived: false })
}

pub fn read_json<T: serde::de::DeserializeOwned>(
    repo: &Repo,
    name: &str,
    tree: TreeId,
    file: &RepoPath,
) -> Result<T, EntryError> {
    let unreadable = |why: String| EntryError::Unreadable { name: name.to_owned(), why };
    let text = repo.tree_file(tree, file)?.ok_or_else(|| unreadable(format!("it has no {file}")))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))
}

pub fn write_state(
    writer: &mut Writer,
    entry: &QueueEntry,
    before: Option<CommitId>,
    log: Option<BlobId>,
    kept: impl Iterator<Item = CommitId>,
) -> Result<CommitId, EntryError> {
    let file = writer.blob(&json(entry))?;
    let put = |name: &str, blob| TreeEdit::Put(RepoPath::from(name), EntryKind::File, blob);
    let edits: Vec<TreeEdit> = [put(ENTRY_FILE, file)].into_iter().chain(log.map(|log| put(LOG_FILE, log))).collect();
    let tree = writer.tree(None, &edits)?;
    let candidate = entry.candidate.as_ref().map(|candidate| candidate.commit);
    let mut parents: Vec<CommitId> = before.into_iter().collect();
    let resolution = entry.resolution.as_ref().map(|resolution| resolution.commit);
    for parent in std::iter::once(entry.head).chain(candidate).chain(resolution).chain(kept) {
        if !parents.contains(&parent) {
            parents.push(parent);
        }
    }
    let subject = match entry.state {
        EntryState::Submitted if before.is_none() => format!("{} is queued", entry.name()),
        state => format!("{} is {state}", entry.name()),
    };
    let id = (ENTRY_TRAILER.to_owned(), entry.id.to_string());
    state_commit(writer, tree, parents, subject, std::iter::once(id).chain(tested(entry)).collect())
}

/// What was tested before an entry landed: the commit of a merge cannot say so itself, because that very commit is what is
/// tested.
fn tested(entry: &QueueEntry) -> Option<(String, String)> {
    let (candidate, landing) = (entry.candidate.as_ref()?, entry.landing?);
    let words = match entry.verdict.as_ref()? {
        TestVerdict::Pass { seconds } => format!("pass,{seconds}"),
        TestVerdict::Flaky { seconds } => format!("flaky,{seconds}"),
        TestVerdict::Unverified => "none".to_owned(),
        TestVerdict::Fail { .. } | TestVerdict::TargetFails { .. } => return None,
    };
    let is_landed = entry.state == EntryState::Landed && candidate.commit == landing.to;
    is_landed.then(|| (TESTED_TRAILER.to_owned(), format!("{},{words}", candidate.tree)))
}

pub fn state_commit(
    writer: &mut Writer,
    tree: TreeId,
    parents: Vec<CommitId>,
    subject: String,
    trailers: Vec<(String, String)>,
) -> Result<CommitId, EntryError> {
    let message = CommitMessage { subject, body: String::new(), trailers };
    Ok(writer.commit(&CommitSpec {
        tree,
        parents,
        author: Person::pleach(),
        committer: Person::pleach(),
        message: message.write().into_bytes(),
        at: clock::now(),
    })?)
}

pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("entries hold nothing JSON cannot");
    text.push(b'\n');
    text
}
