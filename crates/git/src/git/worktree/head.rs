//! HEAD of a worktree: where the agent put it, and moving it to where it belongs.

use std::path::Path;

use gix::refs::Target;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};

use super::valid_head::read_valid_head;
use super::{Worktree, index_file, relink, sanitize};
use crate::git::crash::{self, CrashKind, CrashSide};
use crate::git::error::{Error, IoContext as _, held_lock};
use crate::git::head::Head;
use crate::git::id::to_gix;
use crate::git::ref_update::lock_path;
use crate::git::refs::{full_name, packed_lock};
use crate::git::stale_lock;
use os::confined_fs::ConfinedDir;
use pleach_core::ids::CommitId;

/// What git leaves in a worktree's git directory while a merge, rebase, cherry-pick, revert or bisect is under way.
const STATE: [&str; 18] = [
    "AUTO_MERGE",
    "BISECT_ANCESTORS_OK",
    "BISECT_EXPECTED_REV",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_START",
    "BISECT_TERMS",
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "ORIG_HEAD.lock",
    "MERGE_AUTOSTASH",
];

/// The same, as directories.
const STATE_DIRECTORIES: [&str; 5] = ["rebase-apply", "rebase-merge", "sequencer", "refs/bisect", "refs/rewritten"];

/// Where the agent's HEAD is, none if it names no commit (an orphan branch) or is gone. A branch means that the agent
/// checked one out.
pub fn agent_head(worktree: &Worktree) -> Result<Option<Head>, Error> {
    sanitize::sanitize_git_dir(worktree)?;
    if let Some(head) = &*worktree.last_head.borrow() {
        return Ok(Some(head.clone()));
    }
    if !worktree.git_dir.join("HEAD").exists() {
        return Ok(None);
    }
    match read_valid_head(&worktree.repo, &worktree.handle, worktree.is_agents) {
        // Somebody is at it right now. The next look removes it, and names it.
        Err(_) if worktree.is_agents => Ok(None),
        head => head,
    }
}

/// Moves HEAD and index to `commit`, at the end of a node. The files are not touched: they are the commit's.
/// State of an unfinished merge or rebase is removed.
pub fn follow(worktree: &mut Worktree, commit: CommitId) -> Result<(), Error> {
    let tree = worktree.repo.tree_of(commit)?;
    relink::restore_link(worktree)?;
    clear_locks(worktree)?;
    worktree.accept(tree)?;
    set_head(worktree, commit, "pleach: follow the session")?;
    index_file::write_index(worktree)?;
    clear_state(worktree)
}

/// Detaches HEAD from the branch an agent checked out, at the commit it is.
pub fn detach(worktree: &mut Worktree) -> Result<(), Error> {
    match agent_head(worktree)? {
        Some(Head { commit, branch: Some(_) }) => {
            clear_locks(worktree)?;
            set_head(worktree, commit, "pleach: detach")
        }
        _ => Ok(()),
    }
}

pub(super) fn set_head(worktree: &Worktree, commit: CommitId, why: &str) -> Result<(), Error> {
    sanitize::sanitize_git_dir(worktree)?;
    worktree.last_head.take();
    crash::point(CrashKind::HeadUpdate, CrashSide::Before);
    let edit = RefEdit {
        change: Change::Update {
            log: LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: why.into() },
            expected: PreviousValue::Any,
            new: Target::Object(to_gix(commit)),
        },
        name: full_name("HEAD")?,
        deref: false,
    };
    let mut time = gix::date::parse::TimeBuf::default();
    let signature = gix::actor::Signature {
        name: "pleach".into(),
        email: "pleach@local".into(),
        time: gix::date::Time::new(pleach_core::clock::now().as_second(), 0),
    };
    let moved = worktree.handle.edit_references_as([edit], Some(signature.to_ref(&mut time)));
    moved.map_err(|error| {
        let locks = [lock_path(&worktree.git_dir.join("HEAD")), packed_lock(&worktree.handle)];
        match held_lock(&error, locks) {
            Some(lock) => Error::Locked { lock },
            None => Error::library("move HEAD of a worktree", error),
        }
    })?;
    crash::point(CrashKind::HeadUpdate, CrashSide::After);
    worktree.repo.shared.whole.add(commit);
    if worktree.is_agents {
        worktree.last_head.replace(Some(Head { commit, branch: None }));
    }
    Ok(())
}

/// Removes what git left of an operation that was not finished.
pub(super) fn clear_state(worktree: &Worktree) -> Result<(), Error> {
    let dir = ConfinedDir::at(&worktree.git_dir).at("open", &worktree.git_dir)?;
    let there = dir.names().at("list", &worktree.git_dir)?;
    for name in STATE.iter().chain(&STATE_DIRECTORIES).map(Path::new) {
        if name.iter().next().is_some_and(|first| there.contains(first)) {
            dir.remove(name).at("remove", &worktree.git_dir.join(name))?;
        }
    }
    Ok(())
}

/// Removes lock files a killed git left behind. No agent runs now, so no git should be running there.
pub(super) fn clear_locks(worktree: &Worktree) -> Result<(), Error> {
    sanitize::sanitize_git_dir(worktree)?;
    for name in ["HEAD", "index"] {
        stale_lock::release_in_time(&lock_path(&worktree.git_dir.join(name)))?;
    }
    Ok(())
}
