//! Conflict markers that a merge would bring to its target.

use git::diff::ChangeKind;
use git::{EntryKind, Repo, TreeId};
use pleach_core::ids::RepoPath;

/// A larger file is binary, as for git (`core.bigFileThreshold`).
const LARGEST_TEXT: u64 = 512 * 1024 * 1024;

/// The files of a result with a complete conflict, first marker to last, that the target's files lack.
pub(super) fn introduced_markers(repo: &Repo, target: TreeId, result: TreeId) -> Result<Vec<RepoPath>, git::Error> {
    let mut found = Vec::new();
    for change in git::diff::changes(repo, target, result)? {
        let (old, new) = match change.kind {
            ChangeKind::Added(kind, blob) => (None, (kind, blob)),
            ChangeKind::Modified((_, old), new) => (Some(old), new),
            ChangeKind::Removed(..) => continue,
        };
        let is_file = matches!(new.0, EntryKind::File | EntryKind::Executable);
        if !is_file || repo.blob_size(new.1)? > LARGEST_TEXT || !has_conflict(&repo.blob(new.1)?) {
            continue;
        }
        if !old.map(|old| repo.blob(old)).transpose()?.is_some_and(|old| has_conflict(&old)) {
            found.push(change.path);
        }
    }
    Ok(found)
}

/// Whether a text has a conflict as git writes it: start, divider and end in this order.
fn has_conflict(text: &[u8]) -> bool {
    let mut wanted = [b'<', b'=', b'>'].into_iter().peekable();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(mark) = wanted.peek() else { break };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let length = line.iter().take_while(|byte| *byte == mark).count();
        let is_alone = line.len() == length;
        let is_marker = length >= 7 && if *mark == b'=' { is_alone } else { line.get(length) == Some(&b' ') };
        if is_marker {
            wanted.next();
        }
    }
    wanted.peek().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_conflict_is_found() {
        assert!(has_conflict(b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"));
        assert!(has_conflict(b"<<<<<<< a\r\n||||||| b\r\n=======\r\n>>>>>>> c\r\n"));
        assert!(has_conflict(b"<<<<<<<< a\n========\n>>>>>>>> b"));
        assert!(!has_conflict(b"Title\n=======\ntext\n"));
        assert!(!has_conflict(b"    <<<<<<< ours\n=======\n>>>>>>> theirs\n"), "an example in a text is indented");
        assert!(!has_conflict(b">>>>>>> b\n=======\n<<<<<<< a\n"));
    }
}
