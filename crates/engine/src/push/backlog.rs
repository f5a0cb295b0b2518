//! The commits of refs that a remote may lack, each with the transition it came with: only values.

use std::collections::BTreeMap;

use pleach_core::ids::CommitId;

/// The number of a transition: a record, and the branches that move with it. A record speaks only of commits of its own
/// transition and of those before it.
pub(super) type Transition = u64;

/// Where refs have been since the remote last got them, oldest first. A ref that is known has at least one commit.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    refs: BTreeMap<String, Vec<NotedCommit>>,
}

#[derive(Debug)]
struct NotedCommit {
    transition: Transition,
    commit: CommitId,
    /// The remote has it, under whatever name.
    is_there: bool,
}

impl Backlog {
    /// Whether nothing was noted of a ref yet.
    pub fn is_new(&self, name: &str) -> bool {
        !self.refs.contains_key(name)
    }

    /// A ref is at this commit from this transition on.
    pub fn note(&mut self, name: String, commit: CommitId, transition: Transition, is_there: bool) {
        let noted = self.refs.entry(name).or_default();
        if noted.last().is_none_or(|last| last.commit != commit) {
            noted.push(NotedCommit { transition, commit, is_there });
        }
    }

    /// Where each ref was last, before this transition if one is given. One that is newer is left out.
    pub fn at(&self, before: Option<Transition>) -> impl Iterator<Item = (&String, CommitId)> {
        self.refs.iter().filter_map(move |(name, noted)| {
            let mut newest_first = noted.iter().rev();
            let newest = newest_first.find(|noted| before.is_none_or(|before| noted.transition < before))?;
            Some((name, newest.commit))
        })
    }

    /// The remote has this commit of a ref, and what came before it.
    pub fn pushed(&mut self, name: &str, commit: CommitId) {
        let Some(noted) = self.refs.get_mut(name) else { return };
        if let Some(at) = noted.iter().rposition(|noted| noted.commit == commit) {
            noted.drain(..at);
            noted.iter_mut().take(1).for_each(|pushed| pushed.is_there = true);
        }
    }

    /// The first transition with a commit that the remote lacks.
    pub fn lacks_since(&self) -> Option<Transition> {
        let first = |noted: &Vec<NotedCommit>| noted.iter().find(|noted| !noted.is_there).map(|noted| noted.transition);
        self.refs.values().filter_map(first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(number: u8) -> CommitId {
        CommitId::from_bytes([number; 20])
    }

    fn at(backlog: &Backlog, before: Option<Transition>) -> Vec<(&str, CommitId)> {
        backlog.at(before).map(|(name, commit)| (name.as_str(), commit)).collect()
    }

    #[test]
    fn refs_are_found_as_they_were_before_a_transition() {
        let mut backlog = Backlog::default();
        for (name, number, transition) in [("a", 1, 1), ("a", 2, 3), ("b", 7, 4), ("a", 2, 5), ("a", 3, 6)] {
            backlog.note(name.into(), commit(number), transition, false);
        }
        assert_eq!(at(&backlog, None), [("a", commit(3)), ("b", commit(7))]);
        assert_eq!(at(&backlog, Some(6)), [("a", commit(2)), ("b", commit(7))]);
        assert_eq!(at(&backlog, Some(4)), [("a", commit(2))]);
        assert_eq!(at(&backlog, Some(3)), [("a", commit(1))]);
        assert_eq!(at(&backlog, Some(1)), []);
    }

    #[test]
    fn what_came_during_a_push_is_still_lacking() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.lacks_since(), None);
        backlog.note("a".into(), commit(1), 1, true);
        assert_eq!(backlog.lacks_since(), None, "the remote had it before");
        backlog.note("a".into(), commit(2), 2, false);
        backlog.note("b".into(), commit(5), 3, false);
        assert_eq!(backlog.lacks_since(), Some(2));
        backlog.note("a".into(), commit(3), 4, false);
        backlog.pushed("a", commit(2));
        assert_eq!(backlog.lacks_since(), Some(3));
        backlog.pushed("b", commit(5));
        assert_eq!(backlog.lacks_since(), Some(4));
        backlog.pushed("a", commit(3));
        assert_eq!(backlog.lacks_since(), None);
        assert_eq!(at(&backlog, None), [("a", commit(3)), ("b", commit(5))]);
    }
}
