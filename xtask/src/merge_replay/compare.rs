//! How much a merge is like the one that was committed.

use git::diff::{self, ChangeKind};
use git::{EntryKind, Error, Repo, TreeId};
use pleach_core::config::DerivedRules;

/// How two trees compare, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    Exact,
    /// But for white space.
    Spaces,
    /// But for white space and the order of lines.
    Lines,
    Differs,
}

/// Compares two trees, but for derived files: their commands are not run here.
pub fn compare(repo: &Repo, one: TreeId, other: TreeId, derived: &DerivedRules) -> Result<Likeness, Error> {
    let mut found = Likeness::Exact;
    for change in diff::changes(repo, one, other)? {
        if derived.command_of(&change.path).is_some() {
            continue;
        }
        let is_file = |kind: EntryKind| matches!(kind, EntryKind::File | EntryKind::Executable);
        found = found.max(match change.kind {
            ChangeKind::Modified((one, old), (other, new)) if one == other && is_file(one) => {
                texts(&repo.blob(old)?, &repo.blob(new)?)
            }
            _ => Likeness::Differs,
        });
    }
    Ok(found)
}

fn texts(one: &[u8], other: &[u8]) -> Likeness {
    let dense = |text: &[u8]| text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
    let lines = |text: &[u8]| {
        let mut lines: Vec<Vec<u8>> =
            text.split(|byte| *byte == b'\n').map(dense).filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        lines
    };
    match () {
        () if one == other => Likeness::Exact,
        () if dense(one) == dense(other) => Likeness::Spaces,
        () if lines(one) == lines(other) => Likeness::Lines,
        () => Likeness::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_ever_more_loosely() {
        assert_eq!(texts(b"a\nb\n", b"a\nb\n"), Likeness::Exact);
        assert_eq!(texts(b"a\nb\n", b" a\n\n\tb"), Likeness::Spaces);
        assert_eq!(texts(b"a\nb\nc\n", b"b\n a\nc"), Likeness::Lines);
        assert_eq!(texts(b"a\na\n", b"a\n"), Likeness::Differs);
    }
}
