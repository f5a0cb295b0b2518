//! When a task is worked again rather than merged.

/// Conflicts of fewer hunks are always merged: a small change is all in conflict as soon as one of its hunks is.
const FEW: usize = 3;

/// How much of the work of an entry is in conflict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConflictExtent {
    /// The hunks it changes.
    pub hunks: usize,
    /// Those of them that are in conflict.
    pub in_conflict: usize,
    /// The target has removed the file that most of the work is in.
    pub main_file_removed: bool,
}

impl ConflictExtent {
    /// Whether so much is in conflict that the work is done again: more than three of ten hunks, or its main file.
    pub fn is_worked_again(&self) -> bool {
        self.main_file_removed || (self.in_conflict > FEW && self.in_conflict * 10 > self.hunks * 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_good_part_of_the_work_is_done_again() {
        let worked_again =
            |hunks, in_conflict| ConflictExtent { hunks, in_conflict, main_file_removed: false }.is_worked_again();
        assert!(worked_again(10, 4) && worked_again(4, 4));
        assert!(!worked_again(1, 1) && !worked_again(3, 3), "a small change is merged");
        assert!(!worked_again(20, 6), "exactly three of ten");
        assert!(ConflictExtent { main_file_removed: true, ..ConflictExtent::default() }.is_worked_again());
    }
}
