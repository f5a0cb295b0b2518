//! What a merge result has lost or made up, file by file, in words.

use std::fmt;

use crate::ids::RepoPath;
use crate::text::counted;

/// A file of a merge result that is not what the two sides make of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {fault}")]
pub struct LossFinding {
    /// The file, by its name in the result.
    pub path: RepoPath,
    /// What is wrong with it.
    pub fault: MergeFault,
}

/// Whose change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MergeSides {
    /// The side that is merged into.
    Target,
    /// The side that is merged.
    Branch,
    /// Both made it.
    Both,
}

impl fmt::Display for MergeSides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "the target",
            Self::Branch => "the branch",
            Self::Both => "both sides",
        })
    }
}

/// What is wrong with a file of a merge result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum MergeFault {
    /// A side changed or added the file, and it is not there.
    #[error("the file of {0} is missing")]
    FileMissing(MergeSides),
    /// No side removed it, and it is not there.
    #[error("the file is missing, though neither side removed it")]
    FileDropped,
    /// A side removed or renamed it, and it is there.
    #[error("the file is back, though {0} removed or renamed it")]
    FileRestored(MergeSides),
    /// No side has it.
    #[error("the file is in neither side")]
    FileInvented,
    /// No side changed its content.
    #[error("the content changed, though neither side changed it")]
    ContentChanged,
    /// Only these changed it, and the content is another.
    #[error("the content is not that of {0}")]
    ContentLost(MergeSides),
    /// Both changed what has no lines, and the result is a third.
    #[error("the content is neither that of the target nor that of the branch, and it cannot be merged by lines")]
    NeitherSide,
    /// It has the content of one side, which lacks what the other moved or replaced.
    #[error("only the changes of {0} are there")]
    OnlyOneSide(MergeSides),
    /// A side changed the mode; none means that no side did.
    #[error("{}", mode_words(*.0))]
    ModeLost(Option<MergeSides>),
    /// Lines that a side added.
    #[error("{} missing", of_lines(*.count, format_args!(" of {sides}")))]
    LinesMissing {
        /// Who added them.
        sides: MergeSides,
        /// How many.
        count: u64,
    },
    /// Lines that no side removed.
    #[error("{} missing, though neither side removed as many", of_lines(*.0, format_args!("")))]
    LinesDropped(u64),
    /// Lines that a side removed.
    #[error("{} back", of_lines(*.count, format_args!(" removed by {sides}")))]
    LinesRestored {
        /// Who removed them.
        sides: MergeSides,
        /// How many.
        count: u64,
    },
    /// Lines that are there more often than both sides together added them.
    #[error("{} repeated", of_lines(*.0, format_args!("")))]
    LinesRepeated(u64),
    /// Lines that no side has.
    #[error("{} in neither side", of_lines(*.0, format_args!("")))]
    LinesInvented(u64),
    /// Conflict markers that no side has.
    #[error("{} left", markers(*.0))]
    MarkersLeft(u64),
}

impl MergeFault {
    /// Whether it is about how two contents were put together, which a merge driver of the user's does in its own way.
    pub fn depends_on_driver(&self) -> bool {
        let is_of_fewer_lines =
            matches!(self, Self::LinesMissing { .. } | Self::LinesDropped(_) | Self::OnlyOneSide(_));
        is_of_fewer_lines || self.is_of_more_lines() || matches!(self, Self::LinesInvented(_) | Self::NeitherSide)
    }

    /// Whether lines are there that should not be, as in a union of both sides.
    pub fn is_of_more_lines(&self) -> bool {
        matches!(self, Self::LinesRestored { .. } | Self::LinesRepeated(_))
    }
}

fn of_lines(count: u64, whose: fmt::Arguments<'_>) -> String {
    format!("{}{whose} {}", counted(count, "line"), if count == 1 { "is" } else { "are" })
}

fn markers(count: u64) -> String {
    format!("{} {}", counted(count, "conflict marker"), if count == 1 { "is" } else { "are" })
}

fn mode_words(sides: Option<MergeSides>) -> String {
    match sides {
        Some(sides) => format!("the mode is not that of {sides}"),
        None => "the mode changed, though neither side changed it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_what_is_wrong_in_a_line() {
        let words = |fault| LossFinding { path: "src/a.rs".into(), fault }.to_string();
        let branch = MergeSides::Branch;
        let cases = [
            (MergeFault::LinesMissing { sides: branch, count: 2 }, "2 lines of the branch are missing"),
            (MergeFault::LinesRestored { sides: branch, count: 1 }, "1 line removed by the branch is back"),
            (MergeFault::LinesDropped(1), "1 line is missing, though neither side removed as many"),
            (MergeFault::MarkersLeft(3), "3 conflict markers are left"),
            (MergeFault::ModeLost(Some(branch)), "the mode is not that of the branch"),
        ];
        for (fault, text) in cases {
            assert_eq!(words(fault), format!("`src/a.rs`: {text}"));
        }
    }
}
