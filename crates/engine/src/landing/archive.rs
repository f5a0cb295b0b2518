//! Entries that were closed long ago: one tree in one ref has them all, so that a queue of years has not as many refs as it
//! ever had entries. The commits of their states are parents of its commits, so nothing is lost.

use jiff::{Timestamp, ToSpan};

use super::error::{QueueError, outrun};
use git::record::StoredEntry;
use git::record::entries::{
    ARCHIVED_AFTER_DAYS, COMMIT_FILE, ENTRY_FILE, LOG_FILE, archive_ref, archived_path, entry_ref, queue_ref,
    read_state, state_commit,
};
use git::workspace::new_entry_id;
use git::{EntryKind, RefUpdate, Repo, TreeEdit};
use pleach_core::ids::BranchName;

/// How many characters of an id are its time.
const TIME: usize = 10;

/// How many are archived at once.
const AT_ONCE: usize = 1000;

/// Archives entries made and closed more than a month ago. The caller holds the queue's lock.
pub(super) fn archive_old(repo: &Repo, target: &BranchName, now: Timestamp) -> Result<(), QueueError> {
    let limit = now.checked_sub((ARCHIVED_AFTER_DAYS * 24).hours()).unwrap_or(Timestamp::MIN);
    let newest = new_entry_id(limit);
    let is_old = |name: &str| name.rsplit('/').next().is_some_and(|id| id < &newest.as_str()[..TIME]);
    let mut old = Vec::new();
    for (name, at) in repo.refs().list(&queue_ref(target, "entry/"))? {
        if is_old(&name) && repo.commit(at)?.at < limit {
            old.push(read_state(repo, &name, at)?);
        }
    }
    old.retain(|stored| stored.entry.state.is_closed());
    old.truncate(AT_ONCE);
    if old.is_empty() {
        return Ok(());
    }
    let name = archive_ref(target);
    let before = repo.refs().find(&name)?;
    let mut writer = repo.writer();
    let (mut edits, mut moves) = (Vec::new(), Vec::new());
    for StoredEntry { entry, at, log, .. } in &old {
        let tree = repo.tree_of(*at)?;
        let file = repo.tree_entry(tree, &ENTRY_FILE.into())?.map(|file| file.id);
        let commit = writer.blob(format!("{at}\n").as_bytes())?;
        for (file, blob) in [(ENTRY_FILE, file), (LOG_FILE, *log), (COMMIT_FILE, Some(commit))] {
            edits.extend(blob.map(|blob| TreeEdit::Put(archived_path(entry.id.as_str(), file), EntryKind::File, blob)));
        }
        moves.push(RefUpdate { name: entry_ref(target, &entry.id), old: Some(*at), new: None });
    }
    let tree = writer.tree(before.map(|before| repo.tree_of(before)).transpose()?, &edits)?;
    let parents = before.into_iter().chain(old.iter().map(|stored| stored.at)).collect();
    let at = state_commit(&mut writer, tree, parents, "Closed entries of the merge queue".to_owned(), Vec::new())?;
    writer.flush()?;
    moves.push(RefUpdate { name, old: before, new: Some(at) });
    match repo.refs().swap_all(&moves, "pleach: archive") {
        Ok(()) => Ok(()),
        // The next run archives them.
        Err(error) => outrun(error),
    }
}
