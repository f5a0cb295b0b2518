//! The cause of every failure, as a code that programs and tests can rely on while the words change.
//!
//! `docs/codes.md` is the user's page; a test keeps it in step with [`Code::ALL`].

use crate::exit::Exit;

macro_rules! codes {
    ($($name:ident $code:literal $exit:ident $meaning:literal)+) => {
        /// Why a command could not do what it was asked to. It never changes its meaning, and decides the exit code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $meaning] $name,)+
        }

        impl Code {
            /// Every code with its meaning, by what it is about.
            #[cfg(test)]
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $meaning),)+];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)+
                }
            }

            /// The exit code of this failure.
            pub fn exit(self) -> Exit {
                match self {
                    $(Self::$name => Exit::$exit,)+
                }
            }
        }
    };
}

codes! {
    // The command line.
    CommandLine "command-line" Usage "an option, an argument or a command is unknown or missing"
    OptionConflict "option-conflict" Usage "two options do not go together"
    NotADirectory "not-a-directory" Usage "a directory does not exist"
    AnswerMalformed "answer-malformed" Usage "an answer is not written as NODE=CHOICE"
    AnswersUnreadable "answers-unreadable" Usage "the answers file cannot be used"
    AnswerUnknown "answer-unknown" Usage "an answer is not a choice at its gate"
    AnswerAmbiguous "answer-ambiguous" Usage "an answer matches several choices at its gate"
    ConflictsLeft "conflicts-left" WaitsForPerson "a gate was answered before its merge conflicts were resolved"
    NoSuchGate "no-such-gate" Usage "an answer is for a gate the pipeline does not have"
    PromptUnreadable "prompt-unreadable" Usage "a prompt cannot be read, or is empty"
    InputMalformed "input-malformed" Usage "an input is not written as KEY=VALUE"
    RegexInvalid "regex-invalid" Usage "a regular expression cannot be used"
    NameInvalid "name-invalid" Usage "a name cannot be used as one"
    PathInvalid "path-invalid" Environment "a path cannot be used in git"
    OutputExists "output-exists" Usage "a file that would be written exists"
    OutputMisnamed "output-misnamed" Usage "an output cannot be written under this name or in this format"
    OutputMisplaced "output-misplaced" Usage "the directory of an output does not exist"
    OutputUnwritable "output-unwritable" Environment "an output cannot be written"
    StdoutUnwritable "stdout-unwritable" Environment "standard output cannot be written"
    OutputClosed "output-closed" Done "the reader of standard output has closed it; not a failure"
    CrashPointInvalid "crash-point-invalid" Usage "`PLEACH_CRASH` names an unknown crash point"

    // Settings.
    SettingsInvalid "settings-invalid" Usage "settings are unknown or have invalid values"
    SettingsMissing "settings-missing" Usage "the configuration file that was named does not exist"
    SettingsNotText "settings-not-text" Usage "a configuration file is not UTF-8"
    SettingsUnreadable "settings-unreadable" Environment "a configuration file cannot be read"
    SettingsExist "settings-exist" Usage "`pleach init` does not overwrite the configuration that is there"
    NoSuchSetting "no-such-setting" Usage "there is no setting of this name"
    NoStateDirectory "no-state-directory" Environment "there is no directory for pleach's state"
    ScriptInvalid "script-invalid" Usage "the file of the scripted provider cannot be used"
    LayerInvalid "layer-invalid" Usage "a file of instructions for an agent cannot be used"
    LogDirectory "log-directory" Usage "logs or reports cannot be kept in the directory that is configured"

    // Repositories and git.
    NotARepository "not-a-repository" Usage "there is no git repository"
    NoSuchRepo "no-such-repo" Usage "the workspace has no repository of this name"
    RepoTwice "repo-twice" Usage "two names of the workspace are the same repository"
    BareRepository "bare-repository" Usage "a bare repository has no files, which the command needs"
    RepositoryUnsupported "repository-unsupported" Usage "the repository is of a kind pleach cannot work in"
    RepositoryRefused "repository-refused" Usage "git does not trust the owner of the repository"
    RepositoryDeleted "repository-deleted" Environment "the repository was deleted while the run worked"
    NoSuchRevision "no-such-revision" Usage "git has no commit of this name"
    NoSuchFile "no-such-file" Usage "there is no file of this name in the repository, or in the commit"
    NoSuchLine "no-such-line" Usage "a file does not have these lines"
    FileUnfit "file-unfit" Usage "a file has no lines to ask about: it is binary, larger than 16 MiB, a link or no file"
    NoSuchBranch "no-such-branch" Usage "a branch does not exist"
    DetachedHead "detached-head" Usage "no branch is checked out that work could land on"
    OwnBranch "own-branch" Usage "a branch of pleach's own is checked out, on which no task can land"
    BranchNameTooLong "branch-name-too-long" Usage "the name of the branch is too long to name tasks' branches after"
    GitMissing "git-missing" Environment "git is not installed"
    GitTooOld "git-too-old" Environment "git is too old"
    CloneFailed "clone-failed" Environment "a repository cannot be cloned"
    CloneStopped "clone-stopped" Paused "a clone was stopped by a signal, and nothing of it is left"
    UnrelatedRepository "unrelated-repository" Usage "the repository at a path of the workspace shares no commit with its remote"
    RemoteInvalid "remote-invalid" Usage "a remote has no usable address"
    CommitMissing "commit-missing" Environment "a commit a session stands at is not in its repository"
    NoMirror "no-mirror" Usage "no CXDB server is set that records are copied to"
    MirrorUnreachable "mirror-unreachable" Environment "a CXDB server cannot be reached, or does not do what it should"
    MirrorDiffers "mirror-differs" WorkFailed "a CXDB server lacks records, or has other ones"
    NoRemote "no-remote" Usage "a repository has no remote to push to"
    BranchNotPushed "branch-not-pushed" Environment "a branch or a session cannot be pushed"
    PushRefused "push-refused" LandingRefused "a remote refuses a branch, or has other commits there"
    NothingToRequest "nothing-to-request" Usage "there is no work a pull request could be opened for"
    NoForge "no-forge" Environment "neither `gh` nor `glab` is installed"
    ForgeFailed "forge-failed" Environment "`gh` or `glab` failed"
    IssueMalformed "issue-malformed" Usage "an issue is not given as a number or an address"
    ContinuedElsewhere "continued-elsewhere" Locked "another machine has continued the session"
    GitFailed "git-failed" Environment "git failed"
    GitInterrupted "git-interrupted" Environment "git was interrupted and left something unfinished"
    GitLocked "git-locked" Environment "a lock of git is held by another process, or was left by one"
    ObjectUnreadable "object-unreadable" Environment "an object of the repository is missing or damaged"
    ObjectOverwritten "object-overwritten" Environment "an object of the repository was overwritten"
    ShallowClone "shallow-clone" Usage "the clone is shallow, and what was done may lie beyond where its history is cut off"

    // Worktrees and the disk.
    WorktreeFailed "worktree-failed" Environment "git cannot make a worktree"
    WorktreeBase "worktree-base" Environment "the directory for worktrees cannot be made"
    WorktreeLinkReplaced "worktree-link-replaced" Environment "the link of a worktree to its repository was replaced"
    WorktreeMissing "worktree-missing" Environment "there is no worktree where one is expected"
    WorktreePlaceTaken "worktree-place-taken" Environment "something else is in the place of a worktree"
    SubmoduleWork "submodule-work" Environment "work is only in a submodule and would be lost"
    SetupFailed "setup-failed" Environment "`worktrees.setup` failed"
    DiskFull "disk-full" Environment "a disk is full"
    DiskDenied "disk-denied" Environment "a file may not be read or written"
    DiskFailed "disk-failed" Environment "a file cannot be read or written"

    // Pipelines.
    PipelineUnreadable "pipeline-unreadable" Usage "the file of a pipeline cannot be read"
    PipelineInvalid "pipeline-invalid" Usage "a pipeline has errors"
    TaskPipelineInvalid "task-pipeline-invalid" Usage "a pipeline cannot be used for tasks"
    NoSuchNode "no-such-node" Usage "the pipeline has no node of this name"
    SecretFound "secret-found" Usage "a secret would be recorded, or is given in place of its name"

    // Agents.
    NoAgent "no-agent" Usage "no agent is configured that could do the work"
    AgentAmbiguous "agent-ambiguous" Usage "no agent is configured, and several are installed"
    NoAgentInstalled "no-agent-installed" Environment "no agent is configured, and none is installed"
    AgentMissing "agent-missing" Environment "the agent of a node is not configured or not installed"
    AgentUnpaid "agent-unpaid" Environment "an agent has neither a login nor a key it may use"
    AgentUnusable "agent-unusable" Environment "an agent or its provider cannot work: a key, credit, the model or the server is missing"
    PriceUnknown "price-unknown" Usage "a limit in dollars cannot hold, because the price of a model is unknown"
    SandboxMissing "sandbox-missing" Environment "the sandbox the settings ask for is not available"
    ProgramFailed "program-failed" Environment "a program cannot be started"
    RuntimeUnavailable "runtime-unavailable" Environment "the machine gives pleach no threads or signals"
    LimitReached "limit-reached" Environment "a limit of the system on open files or on processes is reached"
    Internal "internal" Environment "a part of pleach ended without a result"

    // Trust.
    TrustMissing "trust-missing" WaitsForPerson "the repository supplies something you have not approved, and there \
         is no terminal to ask on"
    TrustDeclined "trust-declined" WaitsForPerson "you declined to approve what the repository supplies"
    TrustUnanswered "trust-unanswered" WaitsForPerson "the answer to a question cannot be read"
    NotConfirmed "not-confirmed" WaitsForPerson "nothing is done without confirmation"
    TrustStore "trust-store" Environment "the file of approvals cannot be used"
    HashDeceived "hash-deceived" Usage "something is crafted to fake the hash it would be approved by"
    NoSuchAgreement "no-such-agreement" Usage "no approval matches, or several do"

    // Sessions.
    NoSuchSession "no-such-session" Usage "there is no such session"
    SessionAmbiguous "session-ambiguous" Usage "several sessions begin with this id"
    SessionOver "session-over" Usage "the session has ended"
    SessionNotDone "session-not-done" Usage "a session that is not done cannot land"
    NoTarget "no-target" Usage "no branch is known that a session could land on"
    SessionNotRunning "session-not-running" Usage "the session is not running"
    SessionOfTask "session-of-task" Usage "the session works on a task; `pleach gardener` or `pleach task start` resumes it"
    SessionReplaced "session-replaced" WaitsForPerson "the session was replaced meanwhile"
    SessionCancelled "session-cancelled" WorkFailed "the session was cancelled"
    SessionLocked "session-locked" Locked "another process works on the session"
    SessionInterrupted "session-interrupted" Paused "the run was interrupted and can be resumed"
    NodeNotVisited "node-not-visited" Usage "the session never reached this node"
    NoSuchTurn "no-such-turn" Usage "there is no such turn"
    TurnIsEnd "turn-is-end" Usage "the run ended with this turn, so that nothing can follow"
    TurnOfOtherRun "turn-of-other-run" Usage "the turn belongs to the run that this one was forked from"
    PipelineUnfit "pipeline-unfit" Usage "a replay cannot go on in this pipeline where it begins"
    BranchMoved "branch-moved" WorkFailed "the session's branch was moved by somebody else"
    BranchGone "branch-gone" WorkFailed "the session's branch was removed by somebody else"
    RecordDamaged "record-damaged" Environment "the record of a session cannot be read"
    RecordMoved "record-moved" Environment "another process has changed the record"
    SpendingUnreadable "spending-unreadable" Environment "spending cannot be read, and a limit counts it"
    RemovalRefused "removal-refused" WorkFailed "something would be lost with the session"
    BranchCheckedOut "branch-checked-out" WorkFailed "the session's branch is checked out"
    WorktreeLocked "worktree-locked" WorkFailed "the worktree of the session is locked"
    ExportTaken "export-taken" Usage "the directory to export to is not empty or not a directory"
    ExportFailed "export-failed" Environment "a file of the export cannot be written"

    // Task trees.
    NoTree "no-tree" Usage "there is no task tree"
    TreeAmbiguous "tree-ambiguous" Usage "there are several task trees"
    TreeUnreadable "tree-unreadable" Usage "the file of a tree cannot be read"
    TreeInvalid "tree-invalid" Usage "a tree has errors"
    PhaseOverRepos "phase-over-repos" Usage "a phase with tasks in several repositories cannot have a branch of its own"
    PhaseCycle "phase-cycle" Usage "phases depend on each other, so they cannot be worked one by one"
    NoSuchTask "no-such-task" Usage "there is no such task"
    TaskAmbiguous "task-ambiguous" Usage "several trees have this task"
    TaskIsGroup "task-is-group" Usage "the id names a group of tasks"
    TaskStillOpen "task-still-open" Environment "a task has landed and still reads as open"
    TaskBranchMoved "task-branch-moved" LandingRefused "the branch of a task was moved or removed by somebody else"
    TreeLocked "tree-locked" Locked "another run works on the tasks of this branch"
    LandingRefused "landing-refused" LandingRefused "finished work cannot land on its target"
    LandingConflict "landing-conflict" LandingRefused "a session conflicts with the branch it is to land on"
    LandingUnfinished "landing-unfinished" LandingRefused "a landing in several repositories was cut off, and is to be finished first"
    CheckoutInTheWay "checkout-in-the-way" LandingRefused "a checkout holds up the branch a session is to land on"
    LandingRed "landing-red" WorkFailed "the tests of a session fail where it is to land"
    NoneGreen "none-green" WorkFailed "the tests fail for every run that is compared"
    WorkOverwritten "work-overwritten" LandingRefused "an object of finished work was overwritten"
    NoSuchLog "no-such-log" Usage "there is no such log"
    LogAmbiguous "log-ambiguous" Usage "there are several logs of this name"

    // The merge queue.
    NoSuchEntry "no-such-entry" Usage "there is no such entry in the merge queue"
    EntryAmbiguous "entry-ambiguous" Usage "several entries of the merge queue are meant"
    EntryState "entry-state" Usage "an entry of the merge queue is not in a state for this"
    MergeItself "merge-itself" Usage "a branch cannot be merged into itself"
    QueueLocked "queue-locked" Locked "another process works the merge queue"
    QueueDamaged "queue-damaged" Environment "the merge queue cannot be read"

    // Ad-hoc tasks.
    TaskIdAmbiguous "task-id-ambiguous" Usage "several tasks begin with this id"
    TaskEmpty "task-empty" Usage "the text of a task is empty or not UTF-8"
    TaskBlocked "task-blocked" WorkFailed "a task waits for others that have not landed"
    TaskCancelled "task-cancelled" Usage "the task was cancelled"
    TaskUnfinished "task-unfinished" Usage "a task is not finished, so that it cannot be merged"
    TaskLanded "task-landed" Usage "the task has landed"
    TaskUnreadable "task-unreadable" Environment "the ref of a task cannot be read"
    TargetDiffers "target-differs" Usage "a task depends on one that lands on another branch"
    PatternInvalid "pattern-invalid" Usage "a pattern of paths cannot be used"

    // Making trees.
    SpecUnreadable "spec-unreadable" Usage "a spec cannot be read"
    SpecInvalid "spec-invalid" Usage "a spec has no tasks, or errors"
    PlanRefused "plan-refused" WorkFailed "the answer of a planner is not a valid tree"
    PlanInterrupted "plan-interrupted" Paused "a planner was interrupted"
    PlannerFailed "planner-failed" WorkFailed "a planner failed"
    PlannerUnusable "planner-unusable" Environment "a planner or its provider cannot work"
    BudgetPaused "budget-paused" Paused "a budget limit is reached; raise it to continue"
    BudgetReached "budget-reached" WorkFailed "a budget limit is reached"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_different_and_in_kebab_case() {
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len(), "two causes share a code");
        for code in codes {
            assert!(code.split('-').all(|part| part.chars().all(|char| char.is_ascii_lowercase())), "{code}");
        }
    }

    #[test]
    fn the_page_of_codes_lists_every_failure() {
        let page = include_str!("../../docs/codes.md");
        for (code, meaning) in Code::ALL.iter().filter(|(code, _)| code.exit() != Exit::Done) {
            let row = format!("| `{}` | {} | {meaning} |", code.as_str(), code.exit().code());
            assert!(page.contains(&row), "docs/codes.md lacks `{row}`");
        }
    }
}
