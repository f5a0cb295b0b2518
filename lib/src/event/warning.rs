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
        /// Why somebody is warned. Codes are an interface (`docs/codes.md`): they never change their meaning.
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
    SettingIgnored "setting-ignored" "a setting is unknown, misplaced or not built yet, and counts for nothing"
    DirtyFiles "dirty-files" "files of the checkout are not committed, so agents do not see them"
    HooksSkipped "hooks-skipped" "hooks or signatures the repository asks for do not run on pleach's commits"
    Simulation "simulation" "no agent is configured, so agent nodes only pretend"
    NoSandbox "no-sandbox" "nothing keeps agents in their worktree on this machine"
    AgentOutdated "agent-outdated" "an installed agent is of a version pleach was not tried with"
    AgentUnmetered "agent-unmetered" "an agent does not tell what it spends, so no limit holds for it"
    UnusedInput "unused-input" "an input was given that the pipeline does not use"
    PipelineChanged "pipeline-changed" "the file has changed since its session began; the session keeps what it began with"

    // Worktrees.
    SparseCheckout "sparse-checkout" "agents work in a sparse checkout and lack files"
    ExcludeIdle "exclude-idle" "an entry of `worktrees.exclude` matches no file"
    SetupChangedFiles "setup-changed-files" "`worktrees.setup` has changed files that git does not ignore"
    SetupRanAgain "setup-ran-again" "`worktrees.setup` had to run once more in the same worktree"
    WorktreeAbandoned "worktree-abandoned" "the worktree of an earlier run cannot be used, and its files are left in place"
    WorktreeRepaired "worktree-repaired" "what somebody changed in the administration of a worktree is put back"
    MovedAside "moved-aside" "what stood in the way of a worktree was moved to another place"
    WorkKept "work-kept" "uncommitted work found in a worktree is kept under a ref"

    // What a node leaves.
    FileHeldBack "file-held-back" "a file is not committed: a limit, its name or a filter holds it back"
    FilterMissing "filter-missing" "a file is committed without the git filter it asks for, which is not installed"
    NestedRepository "nested-repository" "a directory is a repository of its own and is not committed"
    SubmoduleChanged "submodule-changed" "a submodule was moved, removed or replaced; its link is left alone"
    SubmoduleWork "submodule-work" "work lies in a submodule alone, where no commit of the session has it"
    SubmodulesUnreadable "submodules-unreadable" "nobody could look for work in submodules"
    FileUnreadable "file-unreadable" "something git could not have read was removed from the worktree"
    PermissionsRestored "permissions-restored" "permissions that kept everybody out of a directory are put back"
    AgentCommitKept "agent-commit-kept" "an agent's own commit is not joined while files are held back; it is kept under a ref"
    ReadOnlyUndone "read-only-undone" "a node that must not write did, and its changes are kept and undone"
    ReadOnlyLost "read-only-lost" "a node that must not write changed what no commit has, which cannot be brought back"
    ChangedOutside "changed-outside" "something outside the worktree changed while a node ran"
    OwnLogsRestored "own-logs-restored" "somebody changed logs or reports of pleach's own, and that is undone"
    LogNotCommitted "log-not-committed" "a log or a report is in the session's record alone"
    FileNotOffered "file-not-offered" "the result of an earlier node could not be written for the next agent"
    BranchBehind "branch-behind" "a checkout of the branch cannot follow; the branch catches up later"
    BranchLeftBehind "branch-left-behind" "a checkout of a task's branch could not follow until the task landed"

    // Agents and models.
    AgentCannotResume "agent-cannot-resume" "an agent cannot take up its conversation again and begins a new one"
    AgentStopError "agent-stop-error" "an agent answered with an error to being stopped"
    AgentDenied "agent-denied" "an agent was not allowed to use one of its tools"
    SandboxRefused "sandbox-refused" "the sandbox refused something to a program that ended well"
    ContextFull "context-full" "a conversation nearly fills the context of its model"
    OutputsElided "outputs-elided" "old tool outputs were left out of a conversation to make room"
    VerdictMissing "verdict-missing" "a review has no verdict, and the reviewer is asked once more"
    ReplayDiffers "replay-differs" "answered from the record, an agent left other files than before"
    CallUnread "call-unread" "a request of an agent could not be read and made no turn"
    CallRefused "call-refused" "an agent asked the gateway for something that is not passed on"
    AnswerUnrecorded "answer-unrecorded" "an answer of a model is not recorded"
    MessageFallback "message-fallback" "a commit message is in the agent's own words, because no model wrote one"
    MessageUnpriced "message-unpriced" "commit messages are in the agent's own words, because the price of their model is unknown"

    // Spending.
    UsageEstimated "usage-estimated" "a provider does not say what a call took, so its length counts"
    PriceEstimated "price-estimated" "the price of a model is not known; the dearest of its family counts"
    PriceUnknown "price-unknown" "the price of a model is not known, and it counts against no limit in dollars"
    BudgetReached "budget-reached" "a limit of the budget is reached, and the settings say to go on"
    SpendingUnreadable "spending-unreadable" "what was spent cannot be read, so it counts for nothing"

    // Task trees.
    TreeEdited "tree-edited" "the tree was edited since it was last worked"
    TreeEditedMeanwhile "tree-edited-meanwhile" "the tree was edited while it is worked, which applies from the next run"
    TreeUnusable "tree-unusable" "a tree is not valid, and what is told leaves it out"
    TaskRenamed "task-renamed" "a task was completed under another name than the tree gives it"
    TaskLeftOut "task-left-out" "`execution_order` leaves tasks out, so they are never worked"
    IdleTests "idle-tests" "tests in the tree that never run"
    IdlePipeline "idle-pipeline" "a pipeline in the tree that is not read"
    TaskRestarted "task-restarted" "a task that is under way is done again, because a new run was asked for"
    TaskLost "task-lost" "a task is done again, because what it had landed is gone from its branch"
    TestSetupFailed "test-setup-failed" "the setup of tests failed, so they did not run"
    TeardownFailed "teardown-failed" "cleaning up after tests failed"
    TestsAgain "tests-again" "the target moved while tests ran, and they run again"
    RebuiltGreen "rebuilt-green" "a task was rebuilt on a target that moved, and its tests pass there"
    RebuiltRed "rebuilt-red" "a task was rebuilt on a target that moved, and its tests fail there"
    RebuiltRetested "rebuilt-retested" "a task was rebuilt on a target that moved, and its pipeline tests it again there"
    RebuiltUntested "rebuilt-untested" "a task was rebuilt on a target that moved, and only another attempt can test it there"
    CodeNewerThanSteps "code-newer-than-steps" "a task's branch has code newer than its steps, which is tested and reviewed again"
    CodeContinued "code-continued" "a task goes on with the code of its last budget of attempts"
    CodeConflicts "code-conflicts" "a task starts clean, because its old code does not fit the target any more"
    CodeMissing "code-missing" "a task starts clean, because the branch with its old code is not here"
    TaskBranchRestarted "task-branch-restarted" "the branch of a task begins again, and what it had is kept"
    PhaseBranchRestarted "phase-branch-restarted" "the branch of a phase begins again, and what it had is kept"
    PhaseBranchContinued "phase-branch-continued" "a phase ends on its branch, where it was begun with another isolation"
    BranchNotDeleted "branch-not-deleted" "a branch has landed and could not be deleted"
    FailedAttemptsLanded "failed-attempts-landed" "failed attempts of a phase that is not gathered any more are on the target now"
    SessionUnreadable "session-unreadable" "the record of a session cannot be read, and the session is passed over"
    SessionReplaced "session-replaced" "the record of a session was replaced since the run began, and the session is passed over"
    SessionAbandoned "session-abandoned" "a task does not go on with its last session"

    // Making trees, looking, removing.
    SpecUnclear "spec-unclear" "something in a spec looks like a task or a phase and is not read as one"
    PlanIncomplete "plan-incomplete" "a planner says that it found more tasks than it gave"
    FileNotRead "file-not-read" "a file of the project cannot be read and is not looked at"
    ShallowClone "shallow-clone" "the clone is shallow, and what lies further back is not known"
    ReportUnreadable "report-unreadable" "a report cannot be read"
    NotRemoved "not-removed" "a session is not removed, because something would be lost with it"
    WorkLost "work-lost" "something is lost with a session that is removed"
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
            assert_eq!((code.as_str(), serde_json::to_value(&code).expect("a text")), (text, text.into()));
        }
        assert_eq!(
            serde_json::to_value(WarningCode::WorkKept.with("it is kept")).expect("an object"),
            serde_json::json!({"code": "work-kept", "text": "it is kept"})
        );
    }

    #[test]
    fn the_page_of_codes_lists_every_warning() {
        let page = include_str!("../../../docs/codes.md");
        for (code, meaning) in WarningCode::ALL {
            let row = format!("| `{}` | {meaning} |", code.as_str());
            assert!(page.contains(&row), "docs/codes.md lacks `{row}`");
        }
    }
}
