//! What a person should know beside the work: a code for programs and tests, and the words, which may change.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something a person should know. It stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Its cause.
    pub code: WarningCode,
    /// The words.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

macro_rules! codes {
    ($($name:ident $code:literal $meaning:literal)+) => {
        /// Codes of warnings. They are an interface (`docs/codes.md`): they never change their meaning.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum WarningCode {
            $(
                #[doc = $meaning]
                #[serde(rename = $code)]
                $name,
            )+
            /// One this pleach does not know, in a record of a newer one.
            #[serde(untagged)]
            Other(String),
        }

        impl WarningCode {
            /// Every code with its meaning, by what it is about.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $meaning),)+];

            /// The code as it is written.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $code,)+
                    Self::Other(code) => code,
                }
            }
        }
    };
}

codes! {
    // Before a run.
    SettingIgnored "setting-ignored" "a setting is unknown, misplaced or not supported yet, and is ignored"
    DirtyFiles "dirty-files" "agents will not see uncommitted files of the checkout"
    HooksSkipped "hooks-skipped" "hooks or signatures the repository asks for do not run on pleach's commits"
    Simulation "simulation" "the agent is `simulation`: agent nodes are simulated"
    NoSandbox "no-sandbox" "nothing keeps agents in their worktree on this machine"
    AgentOutdated "agent-outdated" "an installed agent has a version pleach was not tested with"
    AgentUnmetered "agent-unmetered" "an agent does not report what it spends, so no budget limits it"
    ToolHidesProgram "tool-hides-program" "a tool of the configuration is called like a program on PATH"
    UnusedInput "unused-input" "an input was given that the pipeline does not use"
    TestNotRun "test-not-run" "the test that `pleach init` found could not be run"
    TargetRed "target-red" "the test of what is about to be worked on fails already, before anything is changed"
    PipelineChanged "pipeline-changed" "the file has changed since its session started; the session keeps what it \
         started with"
    SettingsChanged "settings-changed" "the project's settings have changed since a session started; the session keeps those \
         it started with"

    // Remotes.
    FetchFailed "fetch-failed" "a repository could not be fetched; the session starts from what is here"
    PushFailed "push-failed" "a push failed; the work goes on and is pushed later"
    PushAwaited "push-awaited" "nothing else is left to do, and the last push, or the last copy at a mirror, is waited for"
    RecordsAsBranches "records-as-branches" "a remote refuses the refs of records, which are branches there"
    PushedBeside "pushed-beside" "a remote has other commits on a session's branch, which is pushed beside it"
    RecordsElsewhere "records-elsewhere" "the records of sessions are in another repository than the settings say"
    MirrorBehind "mirror-behind" "a CXDB server lacks records of a session; the work went on"
    MirrorTypes "mirror-types" "a CXDB server does not know the types of pleach's turns, and cannot show their fields"
    CommitsLost "commits-lost" "records at a mirror speak of commits that no remote has; the session goes on before them"
    RecordsNotPushed "records-not-pushed" "records are not pushed, so no other machine can continue the session"

    // Worktrees.
    SparseCheckout "sparse-checkout" "agents work in a sparse checkout and lack files"
    ExcludeIdle "exclude-idle" "an entry of `worktrees.exclude` matches no file"
    SetupChangedFiles "setup-changed-files" "`worktrees.setup` has changed files that git does not ignore"
    SetupRanAgain "setup-ran-again" "`worktrees.setup` had to run once more in the same worktree"
    WorktreeAbandoned "worktree-abandoned" "the worktree of an earlier run cannot be used, and its files are left in place"
    WorktreeStays "worktree-stays" "the worktree of a branch that was joined could not be removed"
    LandingUnfinished "landing-unfinished" "the landing of a session over several repositories was cut off and is not finished"
    WorktreeOrphaned "worktree-orphaned" "a killed run or a removed session left a worktree, which is removed or stays"
    WorktreeRepaired "worktree-repaired" "somebody changed the git metadata of a worktree; it was repaired"
    MovedAside "moved-aside" "something in the way of a worktree was moved aside"
    WorkKept "work-kept" "uncommitted work found in a worktree is kept under a ref"

    // What a node leaves.
    FileHeldBack "file-held-back" "a file is not committed: a limit, its name or a filter holds it back"
    FilterMissing "filter-missing" "a file is committed without the git filter it asks for, which is not installed"
    NestedRepository "nested-repository" "a directory is a nested repository and is not committed"
    SubmoduleChanged "submodule-changed" "a submodule was moved, removed or replaced; its recorded commit does not change"
    SubmoduleWork "submodule-work" "work is only in a submodule; no commit of the session has it"
    SubmodulesUnreadable "submodules-unreadable" "submodules could not be checked for work"
    FileUnreadable "file-unreadable" "something git cannot read was removed from the worktree"
    PermissionsRestored "permissions-restored" "the permissions of an unreadable directory were restored"
    AgentCommitKept "agent-commit-kept" "an agent's own commit is not merged while files are held back; it is kept \
         under a ref"
    ReadOnlyUndone "read-only-undone" "a node that must not write did, and its changes are kept and undone"
    ReadOnlyLost "read-only-lost" "a node that must not write changed uncommitted files, which cannot be restored"
    ChangedOutside "changed-outside" "something outside the worktree changed while a node ran"
    OwnLogsRestored "own-logs-restored" "somebody changed logs or reports of pleach; the change was undone"
    LogNotCommitted "log-not-committed" "a log or a report is only in the session's record"
    FileNotOffered "file-not-offered" "the result of an earlier node could not be written for the next agent"
    BranchBehind "branch-behind" "a checkout of the branch cannot follow; the branch catches up later"
    BranchLeftBehind "branch-left-behind" "a checkout of a task's branch could not follow until the task landed"

    // Agents and models.
    AgentCannotResume "agent-cannot-resume" "an agent cannot resume its conversation and starts a new one"
    AgentStopError "agent-stop-error" "an agent returned an error when it was stopped"
    AgentDenied "agent-denied" "an agent was not allowed to use one of its tools"
    SandboxRefused "sandbox-refused" "the sandbox denied something to a program that succeeded"
    ContextFull "context-full" "a conversation nearly fills the context of its model"
    OutputsElided "outputs-elided" "old tool outputs were left out of a conversation to make room"
    VerdictMissing "verdict-missing" "a review has no verdict, and the reviewer is asked once more"
    ReplayRetold "replay-retold" "an agent is told what it did before, instead of repeating it"
    ReplayDiverged "replay-diverged" "an agent that was to repeat recorded work took another course"
    ReplayDiffers "replay-differs" "replayed from the record, an agent produced other files than before"
    CallUnread "call-unread" "a request of an agent could not be read and made no turn"
    CallRefused "call-refused" "an agent asked the gateway for something it does not forward"
    AnswerUnrecorded "answer-unrecorded" "a model's answer is not recorded"
    MessageFallback "message-fallback" "a commit message is in the agent's own words, because no model wrote one"
    MessageUnpriced "message-unpriced" "commit messages are in the agent's own words, because the price of their model is unknown"

    // Spending.
    UsageEstimated "usage-estimated" "a provider does not report the tokens of a call; its length is counted"
    PriceEstimated "price-estimated" "the price of a model is unknown; the highest of its family is counted"
    PriceUnknown "price-unknown" "the price of a model is unknown; it counts against no limit in dollars"
    BudgetReached "budget-reached" "a budget limit is reached, and the settings say to continue"
    SpendingUnreadable "spending-unreadable" "spending cannot be read and is not counted"

    // Task trees.
    TreeEdited "tree-edited" "the tree was edited since the last run"
    TreeEditedMeanwhile "tree-edited-meanwhile" "the tree was edited during the run; the change applies from the next \
         run"
    TreeUnusable "tree-unusable" "a tree is not valid and is left out"
    TaskRenamed "task-renamed" "a task was completed under another name than the tree gives it"
    TaskLeftOut "task-left-out" "`execution_order` leaves tasks out, so they are never worked"
    IdleTests "idle-tests" "the tree has tests that never run"
    IdlePipeline "idle-pipeline" "the tree names a pipeline that is never used"
    TaskRestarted "task-restarted" "an unfinished task is done again, because a new run was requested"
    TaskLost "task-lost" "a task is done again, because what it had landed is gone from its branch"
    TestSetupFailed "test-setup-failed" "the setup of tests failed, so they did not run"
    TeardownFailed "teardown-failed" "cleaning up after tests failed"
    DecisionWritten "decision-written" "a decision about a task was written that had been queued for the run"
    DecisionNotNeeded "decision-not-needed" "a queued decision about a task was not written, because the task already was what it asks for"
    TestsEdited "tests-edited" "work that landed has changed the file its own tests are started from"
    QueueWaits "queue-waits" "entries of the merge queue wait for a person, while agents resolve conflicts of others"
    TestsAgain "tests-again" "the target moved while tests ran, and they run again"
    RebuiltGreen "rebuilt-green" "a task was rebuilt on a target that moved, and its tests pass there"
    ConflictRetried "conflict-retried" "a finished task conflicts with what landed before it and is done again there"
    RebuiltRed "rebuilt-red" "a task was rebuilt on a target that moved, and its tests fail there"
    RebuiltRetested "rebuilt-retested" "a task was rebuilt on a target that moved, and its pipeline tests it again there"
    RebuiltUntested "rebuilt-untested" "a task was rebuilt on a target that moved, and only another attempt can test it there"
    CodeNewerThanSteps "code-newer-than-steps" "a task's branch has code newer than its steps, which is tested and reviewed again"
    CodeContinued "code-continued" "a task continues with the code of its last budget of attempts"
    CodeConflicts "code-conflicts" "a task starts clean, because its old code conflicts with the target"
    CodeMissing "code-missing" "a task starts clean, because the branch with its old code is missing"
    TaskBranchRestarted "task-branch-restarted" "the branch of a task is restarted, and its old commits are kept"
    PhaseBranchRestarted "phase-branch-restarted" "the branch of a phase is restarted, and its old commits are kept"
    PhaseBranchContinued "phase-branch-continued" "a phase ends on its own branch, because it started with another \
         isolation"
    BranchNotDeleted "branch-not-deleted" "a branch has landed and could not be deleted"
    FailedAttemptsLanded "failed-attempts-landed" "failed attempts of a phase that no longer has its own branch are \
         on the target now"
    SessionUnreadable "session-unreadable" "the record of a session cannot be read, and the session is skipped"
    SessionReplaced "session-replaced" "the record of a session was replaced since the run started, and the session \
         is skipped"
    SessionAbandoned "session-abandoned" "a task does not resume its last session"

    // Ad-hoc tasks.
    TaskUnreadable "task-unreadable" "the ref of a task cannot be read, and the task is left out"
    RepositoryUnusable "repository-unusable" "a repository that had tasks cannot be used and is left out"

    // Making trees, looking, removing.
    SpecUnclear "spec-unclear" "something in a spec looks like a task or a phase and is not read as one"
    PlanIncomplete "plan-incomplete" "a planner reports more tasks than it returned"
    FileNotRead "file-not-read" "a file of the project cannot be read and is ignored"
    ShallowClone "shallow-clone" "the clone is shallow, and its older history is unknown"
    ReportUnreadable "report-unreadable" "a report cannot be read"
    RepoUnavailable "repo-unavailable" "a repository of a session is not there, and what it has is left out"
    NotesNotWritten "notes-not-written" "notes on commits could not be written (`attribution_notes`)"
    DraftOnly "draft-only" "a pull request is opened as a draft, because the work is not finished"
    NotRemoved "not-removed" "a session or a worktree is not removed, because something would be lost with it"
    WorkLost "work-lost" "removing a session loses something"
}

impl WarningCode {
    /// A warning of this cause.
    pub fn with(self, text: impl Into<String>) -> Warning {
        Warning { code: self, text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_different_and_in_kebab_case() {
        let codes: BTreeSet<&str> = WarningCode::ALL.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(codes.len(), WarningCode::ALL.len(), "two causes share a code");
        for code in codes {
            assert!(code.split('-').all(|part| part.chars().all(|char| char.is_ascii_lowercase())), "{code}");
        }
    }

    #[test]
    fn codes_read_back_as_they_are_written_also_unknown_ones() {
        for text in ["file-held-back", "of-a-newer-pleach"] {
            let code: WarningCode = serde_json::from_value(text.into()).expect("any text is a code");
            assert_eq!((code.as_str(), serde_json::to_value(&code).expect("a string")), (text, text.into()));
        }
        assert_eq!(
            serde_json::to_value(WarningCode::WorkKept.with("it is kept")).expect("an object"),
            serde_json::json!({"code": "work-kept", "text": "it is kept"})
        );
    }

    #[test]
    fn the_page_of_codes_lists_every_warning() {
        let page = include_str!("../../../../docs/codes.md");
        for (code, meaning) in WarningCode::ALL {
            let row = format!("| `{}` | {meaning} |", code.as_str());
            assert!(page.contains(&row), "docs/codes.md lacks `{row}`");
        }
    }
}
