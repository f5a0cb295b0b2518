//! What refs are called at a remote: only values.

use std::collections::BTreeMap;

use git::record::SESSIONS;
use git::remote::{PushRef, PushReport, RefPush};
use git::workspace::names_beside;
use pleach_core::ids::{CommitId, ContextId, RunId};

/// The prefix of branches that hold records where a remote refuses their refs.
const RECORD_BRANCHES: &str = "refs/heads/pleach/records/";

/// How a remote calls the refs of a session that it does not have under their names here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RemoteNames {
    /// Record refs are branches there.
    pub as_branches: bool,
    /// Branches whose names hold other commits there, with the names beside them that they got instead.
    pub beside: BTreeMap<String, String>,
}

impl RemoteNames {
    /// Refs as the remote names them.
    pub fn named(&self, run: &RunId, refs: &BTreeMap<String, CommitId>) -> Vec<PushRef> {
        refs.iter().map(|(here, commit)| PushRef { name: self.of(run, here), commit: *commit }).collect()
    }

    /// The name of a ref.
    pub fn of(&self, run: &RunId, here: &str) -> String {
        let as_branch = record_branch(run, here).filter(|_| self.as_branches);
        as_branch.or_else(|| self.beside.get(here).cloned()).unwrap_or_else(|| here.to_owned())
    }

    /// Gives a branch the next name. False if there is none left.
    pub fn move_on(&mut self, here: &str) -> bool {
        let mut names = names_beside(here);
        let next = match self.beside.get(here) {
            Some(now) => names.skip_while(|name| name != now).nth(1),
            None => names.next(),
        };
        next.map(|next| self.beside.insert(here.to_owned(), next)).is_some()
    }

    /// The refs here whose names hold other commits at the remote.
    pub fn taken<'r>(
        &self,
        run: &RunId,
        refs: &'r BTreeMap<String, CommitId>,
        report: &PushReport,
    ) -> Vec<(&'r String, CommitId)> {
        let is_taken = |name: &str| {
            report.refs.iter().any(|pushed| pushed.name == name && pushed.result == RefPush::NonFastForward)
        };
        let taken = refs.iter().filter(|(here, _)| is_taken(&self.of(run, here)));
        taken.map(|(here, commit)| (here, *commit)).collect()
    }
}

/// The branch that holds a chain of records where a remote refuses its ref. None for other refs.
fn record_branch(run: &RunId, name: &str) -> Option<String> {
    let session = &run.session;
    let context: ContextId =
        name.strip_prefix(SESSIONS)?.strip_prefix(session.as_str())?.strip_prefix('/')?.parse().ok()?;
    Some(format!("{RECORD_BRANCHES}{session}--{context}"))
}

/// Whether a ref of a remote holds records of a run.
pub(super) fn holds_records(run: &RunId, name: &str) -> bool {
    let session = &run.session;
    let own = name.strip_prefix(&format!("{SESSIONS}{session}/"));
    let context = own.or_else(|| name.strip_prefix(&format!("{RECORD_BRANCHES}{session}--")));
    context.and_then(|context| context.parse().ok()).is_some_and(|context| run.has(&context))
}

#[cfg(test)]
mod tests {
    use super::*;
    use git::remote::PushedRef;

    const BRANCH: &str = "refs/heads/pleach/p/abcdefgh";
    const RECORD: &str = "refs/pleach/sessions/abcdefgh/main";

    fn refs() -> (RunId, BTreeMap<String, CommitId>) {
        let refs = [BRANCH, RECORD].map(|name| (name.to_owned(), CommitId::from_bytes([1; 20])));
        ("abcdefgh".parse().expect("an id"), refs.into())
    }

    #[test]
    fn records_become_branches_where_their_refs_are_refused() {
        let (session, refs) = refs();
        let names = RemoteNames { as_branches: true, ..RemoteNames::default() };
        let named: Vec<String> = names.named(&session, &refs).into_iter().map(|pushed| pushed.name).collect();
        assert_eq!(named, [BRANCH, "refs/heads/pleach/records/abcdefgh--main"]);
        assert!(named.iter().map(|name| holds_records(&session, name)).eq([false, true]));
        assert!(holds_records(&session, RECORD));
    }

    #[test]
    fn taken_names_are_passed_over_up_to_a_limit() {
        let (session, refs) = refs();
        let mut names = RemoteNames::default();
        let mut tried = vec![names.of(&session, BRANCH)];
        loop {
            let taken = PushedRef { name: names.of(&session, BRANCH), result: RefPush::NonFastForward };
            let report = PushReport { refs: vec![taken], words: String::new() };
            assert_eq!(names.taken(&session, &refs, &report), [(&BRANCH.to_owned(), refs[BRANCH])]);
            if !names.move_on(BRANCH) {
                break;
            }
            tried.push(names.of(&session, BRANCH));
        }
        let ends = ["", "@2", "@3", "@4", "@5", "@6", "@7", "@8", "@9"];
        assert_eq!(tried, ends.map(|end| format!("{BRANCH}{end}")));
        assert_eq!(names.of(&session, RECORD), RECORD);
    }
}
