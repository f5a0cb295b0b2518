//! An entry of the queue: a branch that is to be merged, and how far that has come.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::task_values::without_secret_values;
use crate::event::{ConflictedPath, Extra};
use crate::ids::{BranchName, CommitId, ContextId, EntryId, RepoName, RunId, SessionId, TaskId};
use crate::merge::{ResolvedHunk, Tier};
use crate::redact::Redactor;

/// A branch that is to be merged. Its states are commits on a ref of its own; this is what each of them holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Its id.
    pub id: EntryId,
    /// The branch; none where only a commit is to be merged, as in an undo.
    pub branch: Option<BranchName>,
    /// The commit that is merged. A branch that moves on is merged as it was, until it is queued again.
    pub head: CommitId,
    /// Where its own commits begin, to be rebased onto the target; without it, the branch lands as a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CommitId>,
    /// The branch it is merged into.
    pub target: BranchName,
    /// The task whose work it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The session of that work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The root of the run of that session, unless it is its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<ContextId>,
    /// What it is about, in a line.
    pub title: String,
    /// What its task is to do, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Its own tests, for a queue without a test of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<EntryTest>,
    /// Its head has passed them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tested: bool,
    /// Higher goes first.
    pub priority: i32,
    /// The tasks that must land before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskId>,
    /// When its work was complete.
    pub completed_at: Timestamp,
    /// How far it is.
    pub state: EntryState,
    /// What merged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// How often an agent has tried to resolve its conflict.
    #[serde(default)]
    pub attempts: u32,
    /// The repository.
    pub repo: RepoName,
    /// A person has approved its landing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    /// What a person has to decide about its merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<MergeQuestion>,
    /// What they have approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<MergeQuestion>,
    /// Its task was worked again, because it conflicted with the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reimplemented: bool,
    /// The joint landing of several repositories it is part of: all parts have the same, and none lands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<EntryId>,
    /// The move of the target that is under way, or was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<EntryLanding>,
    /// What would land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// What its tests said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TestVerdict>,
    /// The files in conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictedPath>,
    /// How an agent or a person has resolved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<EntryResolution>,
    /// The session of the agent that resolves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<SessionId>,
    /// Where each resolved part of a file came from: `path#hunk=source`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<String>,
    /// Why it has this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The entry it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<EntryId>,
    /// What a person has decided about its task, to be written by the run that works on it; nothing is merged then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<EntryMark>,
    /// Counts the processes that have worked the queue.
    #[serde(default)]
    pub epoch: u64,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How far an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// It waits for its turn.
    Submitted,
    /// It is merged and tested, and waits for approval.
    Candidate,
    /// Its merge is being tested.
    Testing,
    /// The target is being moved.
    Landing,
    /// The target has it.
    Landed,
    /// It conflicts with the target.
    Conflicted,
    /// An agent resolves its conflict.
    Resolving,
    /// Its tests fail on the target; its task is worked again.
    Repairing,
    /// Its tests fail on the target, and nobody works on that.
    Red,
    /// A person has to decide.
    Escalated,
    /// It was dropped.
    Cancelled,
}

/// What a person can agree to in a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeQuestion {
    /// A conflict was resolved, and no test checks the result.
    Uncovered,
    /// A file has markers of a conflict.
    Markers,
}

/// A decision about a task of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryMark {
    /// The decision.
    pub decision: MarkDecision,
    /// The tree, as its steps name it.
    pub tree: String,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkDecision {
    /// The task counts as complete.
    Skip,
    /// The task is done again.
    Reset,
}

/// A test of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryTest {
    /// The command.
    pub command: String,
    /// Seconds until it is stopped.
    pub timeout: u64,
}

/// A move of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryLanding {
    /// From here.
    pub from: CommitId,
    /// To here, where the entry's own commits end.
    pub to: CommitId,
}

/// A resolved conflict: files with both sides. On another commit of the target, their diff to the one they were made on
/// is merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryResolution {
    /// The commit of the target it was made on.
    pub onto: CommitId,
    /// A commit with the files.
    pub commit: CommitId,
    /// Who made it.
    pub tier: Tier,
    /// Nothing was in conflict: it makes failing tests pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repairs: bool,
    /// What it resolves: `path#hunk=source`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<String>,
}

impl EntryResolution {
    /// What it resolves.
    pub fn resolved(&self) -> Vec<ResolvedHunk> {
        self.hunks.iter().filter_map(|hunk| ResolvedHunk::from_value(hunk)).collect()
    }
}

/// What would land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The commit the target would move to.
    pub commit: CommitId,
    /// Its files.
    pub tree: CommitId,
    /// What it is built on.
    pub base: CommitId,
}

/// What the tests of a merge said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum TestVerdict {
    /// They passed.
    Pass {
        /// In so many seconds.
        seconds: u64,
    },
    /// They passed when they were run again.
    Flaky {
        /// In so many seconds.
        seconds: u64,
    },
    /// They failed.
    Fail {
        /// How: the exit of the command.
        exit: String,
        /// The branch and the target pass them, each without the other.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        semantic: bool,
    },
    /// They fail on the target alone as well, so they say nothing about it.
    TargetFails {
        /// How: the exit of the command.
        exit: String,
    },
    /// There are no tests.
    Unverified,
}

impl EntryState {
    /// Whether nothing more happens to it.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Landed | Self::Cancelled)
    }

    /// Whether the queue continues it by itself.
    pub fn is_workable(self) -> bool {
        matches!(self, Self::Submitted | Self::Candidate | Self::Testing | Self::Landing)
    }

    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "waiting",
            Self::Candidate => "candidate",
            Self::Testing => "testing",
            Self::Landing => "landing",
            Self::Landed => "landed",
            Self::Conflicted => "conflicted",
            Self::Resolving => "resolving",
            Self::Repairing => "repairing",
            Self::Red => "red",
            Self::Escalated => "escalated",
            Self::Cancelled => "dropped",
        }
    }
}

impl TestVerdict {
    /// Whether the tests passed.
    pub fn is_green(&self) -> bool {
        matches!(self, Self::Pass { .. } | Self::Flaky { .. })
    }
}

impl EntryTest {
    /// The same test, without secrets in the values of the task it is given.
    pub fn without_secrets(&self, redactor: &Redactor) -> Self {
        Self { command: without_secret_values(&self.command, redactor), timeout: self.timeout }
    }
}

impl QueueEntry {
    /// The run whose work it is.
    pub fn run_of_session(&self) -> Option<RunId> {
        let root = self.run.clone().unwrap_or_else(ContextId::main);
        self.session.clone().map(|session| RunId { session, root })
    }

    /// The same entry, without secrets in what somebody has written about its work.
    pub fn without_secrets(&self, redactor: &Redactor) -> Self {
        Self {
            title: redactor.text(&self.title).into_owned(),
            tests: self.tests.iter().map(|test| test.without_secrets(redactor)).collect(),
            ..self.clone()
        }
    }

    /// Whether it has landed without a test of its own.
    pub fn is_unverified(&self) -> bool {
        self.state == EntryState::Landed && self.verdict == Some(TestVerdict::Unverified)
    }

    /// Whether all that is known to be wrong is that its tests fail on the target.
    pub fn waits_for_target(&self) -> bool {
        matches!(self.verdict, Some(TestVerdict::TargetFails { .. }))
    }

    /// A commit to merge into a branch, with nothing more known about it.
    pub fn new(id: EntryId, head: CommitId, target: BranchName, repo: RepoName, completed_at: Timestamp) -> Self {
        Self {
            id,
            branch: None,
            head,
            base: None,
            target,
            task: None,
            session: None,
            run: None,
            title: String::new(),
            goal: None,
            tests: Vec::new(),
            tested: false,
            priority: 0,
            depends: Vec::new(),
            completed_at,
            state: EntryState::Submitted,
            tier: None,
            attempts: 0,
            repo,
            approved: false,
            question: None,
            accepted: Vec::new(),
            reimplemented: false,
            together: None,
            landing: None,
            candidate: None,
            verdict: None,
            conflicts: Vec::new(),
            resolution: None,
            resolver: None,
            resolved: Vec::new(),
            why: None,
            undoes: None,
            mark: None,
            epoch: 0,
            extra: Extra::default(),
        }
    }

    /// Whether there is a task that can be worked again.
    pub fn is_repairable(&self) -> bool {
        self.task.is_some() && self.undoes.is_none() && self.mark.is_none()
    }

    /// What people call it: its task, its branch, or its commit.
    pub fn name(&self) -> String {
        if let (Some(mark), Some(task)) = (&self.mark, &self.task) {
            let decision = if mark.decision == MarkDecision::Skip { "skip" } else { "reset" };
            return format!("{decision} of {task}");
        }
        match (&self.task, &self.branch, &self.undoes) {
            (Some(task), _, Some(_)) => format!("undo of {task}"),
            (None, _, Some(undone)) => format!("undo of {undone}"),
            (Some(task), ..) => task.to_string(),
            (None, Some(branch), _) => branch.to_string(),
            (None, None, None) => self.head.short(),
        }
    }

    /// What commands know it by: its task or its branch, and its id where those mean another entry.
    pub fn reference(&self) -> String {
        match (&self.task, &self.branch) {
            _ if self.undoes.is_some() || self.mark.is_some() => self.id.to_string(),
            (Some(task), _) => task.to_string(),
            (None, Some(branch)) => branch.to_string(),
            (None, None) => self.id.to_string(),
        }
    }
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
pub(super) fn entry(number: u8, state: EntryState) -> QueueEntry {
    let id = EntryId::new(format!("01J0000000000000000000{number:04}")).expect("26 characters");
    let (target, repo) = (BranchName::new("main").expect("a name"), RepoName::new("r").expect("a name"));
    let at = Timestamp::from_second(i64::from(number)).expect("a time");
    QueueEntry {
        branch: Some(BranchName::new(format!("b{number}")).expect("a name")),
        state,
        ..QueueEntry::new(id, CommitId::from_bytes([number; 20]), target, repo, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back_with_fields_of_newer_writers() {
        let mut written = entry(1, EntryState::Testing);
        written.candidate = Some(Candidate { commit: written.head, tree: written.head, base: written.head });
        written.verdict = Some(TestVerdict::Fail { exit: "exit 1".into(), semantic: true });
        written.extra.insert("colour".into(), "green".into());
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<QueueEntry>(&text).unwrap(), written);
        assert!(text.contains(r#""verdict":{"is":"fail","exit":"exit 1","semantic":true}"#), "{text}");
    }

    #[test]
    fn only_what_nobody_has_to_decide_is_worked() {
        use EntryState::*;
        let all = [
            Submitted, Candidate, Testing, Landing, Landed, Conflicted, Resolving, Repairing, Red, Escalated, Cancelled,
        ];
        let workable: Vec<_> = all.into_iter().filter(|state| state.is_workable()).collect();
        assert_eq!(workable, [Submitted, Candidate, Testing, Landing]);
        assert!(all.into_iter().all(|state| !(state.is_closed() && state.is_workable())));
    }
}
