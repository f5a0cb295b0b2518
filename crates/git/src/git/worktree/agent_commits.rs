//! Changes an agent committed itself.

use gix::bstr::{BString, ByteSlice as _};
use gix::index::entry::Mode;

use super::{ScanResult, Worktree, scan};
use crate::git::diff::{self, ChangeKind};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::object::EntryKind;
use pleach_core::ids::CommitId;

/// As [`scan_all`](super::scan_all), where an agent has committed by itself. What its commit has otherwise than the recorded tree
/// is its change, though a setup has made it or git ignores it. A file that it tracks no more and ignores leaves the
/// tree and stays on disk, as with `git add -A`.
pub fn scan_after(worktree: &mut Worktree, own: CommitId) -> Result<ScanResult, Error> {
    let changes = diff::changes(&worktree.repo, worktree.tree, worktree.repo.tree_of(own)?)?;
    let mut scan = scan::scan_all(worktree)?;
    let mut rules = worktree.ignore_rules()?;
    for change in changes {
        let path = BString::from(change.path.as_bytes());
        let is_dropped = match change.kind {
            ChangeKind::Removed(EntryKind::Submodule, _) => false,
            ChangeKind::Removed(..) => {
                rules.at_entry(path.as_bstr(), Some(Mode::FILE)).doing("read ignore rules")?.is_excluded()
            }
            ChangeKind::Added(..) | ChangeKind::Modified(..) => false,
        };
        if is_dropped {
            scan.candidates.remove(&path);
            scan.dropped.insert(path);
        } else if !worktree.is_excluded(path.as_bstr()) {
            scan.candidates.insert(path);
        }
    }
    Ok(scan)
}
