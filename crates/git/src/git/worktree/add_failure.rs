//! Why git could not create a worktree: the lines of its output that matter, and a hint.

use std::path::{Path, PathBuf};

use pleach_core::text::shorten;

/// How many lines of git's are shown.
const SHOWN: usize = 3;

/// How much of one.
const LONGEST: usize = 240;

/// What git says of a file it could not write.
const UNWRITTEN: &str = "unable to write file";

/// Less free space than this counts as a full disk: git may have removed the partial file again.
const NO_ROOM: u64 = 64 << 20;

/// A worktree git could not make.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("git cannot create the worktree `{}`: {}", path.display(), lines.join("\n"))]
pub struct AddFailure {
    /// Where it was to be.
    pub path: PathBuf,
    /// What is in the way.
    pub cause: AddCause,
    /// git's own words.
    lines: Vec<String>,
}

/// What keeps git from making a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddCause {
    /// Objects of the commit are not there.
    MissingObjects,
    /// A filter such as that of LFS failed.
    Filter,
    /// There is no room.
    DiskFull,
    /// git does not trust the owner of something.
    Ownership,
    /// Somebody may not write there.
    Permission,
    /// Anything else.
    Other,
}

impl AddFailure {
    /// Why git failed, by what it said and by the room that is left there, in bytes, where that is known.
    pub(super) fn new(path: PathBuf, stderr: &str, room: Option<u64>) -> Self {
        Self { path, cause: AddCause::of(stderr, room), lines: relevant_lines(stderr) }
    }
}

/// The room left where a path lies or was to be.
pub(super) fn room_at(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|place| place.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

impl AddCause {
    fn of(stderr: &str, room: Option<u64>) -> Self {
        const WORDS: [(&[&str], AddCause); 5] = [
            (&["No space left on device", "Disk quota exceeded"], AddCause::DiskFull),
            (&["dubious ownership"], AddCause::Ownership),
            (&["smudge filter", "external filter", "git-lfs", "Smudge error"], AddCause::Filter),
            (
                &[
                    "cannot read object",
                    "unable to read sha1 file",
                    "unable to read tree",
                    "bad object",
                    "missing blob",
                    "missing tree",
                    "could not fetch",
                    "promisor remote",
                ],
                AddCause::MissingObjects,
            ),
            (&["Permission denied", "Read-only file system"], AddCause::Permission),
        ];
        let found = WORDS.into_iter().find(|(words, _)| words.iter().any(|word| stderr.contains(word)));
        match found {
            Some((_, cause)) => cause,
            // Where a write breaks off in the middle of a file, git does not say why.
            None if stderr.contains(UNWRITTEN) && room.is_some_and(|room| room < NO_ROOM) => Self::DiskFull,
            None => Self::Other,
        }
    }

    /// What helps.
    pub fn hint(self) -> &'static str {
        match self {
            Self::MissingObjects => {
                "`git fsck` shows which objects are missing; fetch them with `git fetch --refetch`, or clone the repository again"
            }
            Self::Filter => {
                "check that `git lfs pull`, or the filter named in .gitattributes, works in your checkout, then run again; `GIT_LFS_SKIP_SMUDGE=1` leaves large files out"
            }
            Self::DiskFull => "free some space there, or set `worktrees.base` to a place with room, then run again",
            Self::Ownership => "if you trust the owner, tell git with `git config --global --add safe.directory PATH`",
            Self::Permission => {
                "check that you may write there, or set `worktrees.base` to another place, then run again"
            }
            Self::Other => "check that `git worktree add` works in this repository, then run again",
        }
    }
}

/// The lines that say what went wrong, the last of them in any case: git ends with it.
fn relevant_lines(stderr: &str) -> Vec<String> {
    let all: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&str| ["fatal:", "error:"].iter().any(|word| line.starts_with(word));
    let errors: Vec<&str> = all.iter().copied().filter(is_error).collect();
    let lines = if errors.is_empty() { all } else { errors };
    let shown: Vec<&str> = match lines.as_slice() {
        [first @ .., last] if first.len() >= SHOWN => first[..SHOWN - 1].iter().copied().chain([*last]).collect(),
        few => few.to_vec(),
    };
    let left_out = lines.len() - shown.len();
    let mut shown: Vec<String> = shown.into_iter().map(|line| shorten(line, LONGEST)).collect();
    if left_out > 0
        && let Some(before_last) = shown.len().checked_sub(2).and_then(|at| shown.get_mut(at))
    {
        before_last.push_str(&format!(" (and {left_out} more)"));
    }
    if shown.is_empty() { vec!["git did not say why".to_owned()] } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stderr: &str) -> (AddCause, Vec<String>) {
        let failure = AddFailure::new("/w".into(), stderr, None);
        (failure.cause, failure.lines)
    }

    #[test]
    fn the_cause_is_told_in_three_lines() {
        let missing: String = (0..50).map(|n| format!("error: unable to read sha1 file of f{n}\n")).collect();
        let (cause, lines) = of(&format!("Preparing worktree\n{missing}fatal: Could not reset index file"));
        assert_eq!(cause, AddCause::MissingObjects);
        let first = "error: unable to read sha1 file of f0";
        let second = "error: unable to read sha1 file of f1 (and 48 more)";
        assert_eq!(lines, [first, second, "fatal: Could not reset index file"]);
        let (cause, lines) =
            of("hint\nfatal: detected dubious ownership in repository at '/r'\nTo add an exception:\n");
        assert_eq!((cause, lines.len()), (AddCause::Ownership, 1));
        assert_eq!(of("a\n\nb\n"), (AddCause::Other, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(of(""), (AddCause::Other, vec!["git did not say why".to_owned()]));
    }

    #[test]
    fn causes_are_told_apart() {
        for (stderr, cause) in [
            ("error: unable to create file a: No space left on device", AddCause::DiskFull),
            ("fatal: a.bin: smudge filter lfs failed", AddCause::Filter),
            ("fatal: could not create directory of '/w': Permission denied", AddCause::Permission),
            ("fatal: unable to read tree (1)", AddCause::MissingObjects),
        ] {
            assert_eq!(of(stderr).0, cause, "{stderr}");
        }
        let unwritten = "error: unable to write file 'big'\nfatal: Could not reset index file";
        let cause = |room| AddFailure::new("/w".into(), unwritten, room).cause;
        assert_eq!(cause(Some(4096)), AddCause::DiskFull);
        assert_eq!([None, Some(1 << 30)].map(cause), [AddCause::Other; 2]);
    }
}
