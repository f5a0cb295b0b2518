//! Errors of the library as failures of a command: the code, and how to fix it.

use std::io::ErrorKind;
use std::path::Path;

use engine::landing::QueueError;
use engine::tree::ad_hoc::{NoAdHocTask, StoreError};
use engine::tree::{self, progress};
use engine::{env, trust};
use git::record::{self, NoCut};
use git::workspace::{self, LockError, LockHolder};
use history::why::WhyError;
use os::process::shortage;
use pleach_core::ids::{RunId, TaskId};
use pleach_core::plan::ad_hoc::AdHocError;
use pleach_core::plan::diagnostic::Severity;
use pleach_core::text::{closest, first_line, shell_word};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;

/// An error of a session.
pub fn of_engine(error: &env::Error) -> Failure {
    use env::Error;
    match error {
        Error::Git(error) => of_git(error),
        Error::Record(error) => of_record(error),
        Error::Workspace(error) => of_workspace(error),
        Error::Uncounted(lost) => plain(Code::SpendingUnreadable, lost).hint(lost.remedy()),
        Error::Lock(error) => of_lock(error),
        Error::Over { run, .. } => plain(Code::SessionOver, error)
            .hint(format!("`pleach status {run}` shows how it ended; `pleach run` starts a new one")),
        Error::NotVisited { .. } => advised(Code::NodeNotVisited, error),
        Error::NothingFollows { run } => plain(Code::TurnIsEnd, error).hint(format!(
            "take the turn before: `pleach turns {run}` lists them; or `--checkpoint` of the node before"
        )),
        Error::NoCut(NoCut::NoTurn { .. }) => plain(Code::NoSuchTurn, error).hint("`pleach turns` lists them"),
        Error::NoCut(NoCut::NotCompleted { .. }) => {
            plain(Code::NodeNotVisited, error).hint("`pleach status SESSION` shows the nodes that have completed")
        }
        Error::CommitMissing { repo, source, .. } => plain(Code::CommitMissing, error).because(source).hint(format!(
            "bring it with `git fetch` in `{repo}`: from a shallow clone `git fetch --unshallow`, or by its branch"
        )),
        Error::PipelineUnfit { .. } => plain(Code::PipelineUnfit, error)
            .hint("`--pipeline FILE` gives another one, which has the node it goes on at"),
        Error::NoSuchPoint { .. } | Error::NoCut(NoCut::NoRecord { .. }) => plain(Code::RecordDamaged, error),
        Error::RepoMissing { .. } => plain(Code::NoSuchRepo, error)
            .hint("add it to `workspace.repos` in pleach.yaml, with the path of its clone"),
        Error::ContinuedElsewhere { run, .. } => plain(Code::ContinuedElsewhere, error).hint(format!(
            "nothing is lost here: `pleach show {run}` has what this machine did; go on where the session runs now, or \
             start a new one"
        )),
        Error::Replaced { .. } => plain(Code::SessionReplaced, error)
            .hint("run the same command again: what it would run may be something else now"),
        Error::Invalid { diagnostics } => {
            let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
            let mut failure =
                plain(Code::PipelineInvalid, error).hint("`pleach validate FILE` shows every error with its place");
            failure.causes.extend(errors.take(1).map(|found| found.message.clone()));
            failure
        }
        Error::Secret { .. } | Error::Token { .. } => advised(Code::SecretFound, error),
        Error::Name(_) => advised(Code::NameInvalid, error),
        Error::ConflictsLeft { .. } => plain(Code::ConflictsLeft, error)
            .hint("edit these files in the session's worktree, as `pleach status SESSION` names it, then answer again"),
        Error::UnknownAnswer { .. } => plain(Code::AnswerUnknown, error).hint("answer with one of the choices"),
        Error::AmbiguousAnswer { tells_apart, .. } => {
            plain(Code::AnswerAmbiguous, error).hint(format!("answer with {tells_apart} of the one you mean"))
        }
        Error::Setup { run, .. } => plain(Code::SetupFailed, error).hint(format!(
            "fix the cause, then retry with `pleach resume {run}`; to change `worktrees.setup`, `pleach rm \
             {run}` and start a new run"
        )),
        Error::Interrupted { run } => {
            plain(Code::SessionInterrupted, error).hint(format!("`pleach resume {run}` continues"))
        }
        Error::Cancelled { run } => {
            plain(Code::SessionCancelled, error).hint(format!("`pleach rm {run}` removes what is left of it"))
        }
        Error::Agent { .. } => advised(Code::AgentMissing, error),
        Error::Environment { .. } => advised(Code::AgentUnusable, error),
        Error::State(_) | Error::Message { .. } => plain(Code::RecordDamaged, error)
            .hint("the record was damaged or changed by hand; `git fsck` may show more, nothing was written"),
        Error::Spawn(_) => plain(Code::ProgramFailed, error),
        Error::Worker { .. } => plain(Code::Internal, error),
    }
}

/// An error of a run over a tree.
pub fn of_tree(error: &tree::Error) -> Failure {
    use tree::Error;
    match error {
        Error::Session(env::Error::Lock(error)) | Error::Lock(error) => of_target_lock(error),
        Error::Session(error @ env::Error::Environment { .. }) => {
            let failure = of_engine(error);
            let first = failure.hint.as_ref().map(|how| format!("{how}; then ")).unwrap_or_default();
            failure.hint(format!(
                "{first}run the same command again: no attempt was counted; with other settings or another pipeline \
                 the task continues from its last step"
            ))
        }
        // Sessions of tasks are not resumed by themselves, and have the settings of the run that continues with them.
        Error::Session(error @ env::Error::Setup { .. }) => of_engine(error).hint(
            "fix the cause, then run the same command again, also with another `worktrees.setup`; no attempt was counted",
        ),
        Error::Session(env::Error::Workspace(moved)) if moved.is_of_own_branch() => of_task_branch(moved),
        Error::Session(error) => of_engine(error),
        Error::Git(error) | Error::Progress(progress::Error::Git(error)) => of_git(error),
        Error::Record(error) => of_record(error),
        Error::Queue(error) => of_queue(error),
        Error::NotMoved(_) | Error::Refused(_) => advised(Code::LandingRefused, error),
        Error::Overwritten { .. } => advised(Code::WorkOverwritten, error),
        Error::Progress(progress::Error::CutOff(_)) => advised(Code::ShallowClone, error),
        Error::Progress(progress::Error::NoTarget(_) | progress::Error::NoBase(_)) | Error::NoTarget(_) => {
            advised(Code::NoSuchBranch, error)
        }
        Error::NoTask { .. } => advised(Code::NoSuchTask, error),
        Error::StillOpen { task, is_task: true, .. } => plain(Code::TaskStillOpen, error)
            .hint(format!("`pleach inspect {task}` shows its steps, `pleach skip {task}` counts it as complete")),
        Error::StillOpen { task, because, .. } => {
            let newer = because.map(|commit| format!(", `git show {}` what counts as newer", commit.short()));
            let hint =
                format!("`pleach inspect {task}` shows its steps{}; look at their dates", newer.unwrap_or_default());
            plain(Code::TaskStillOpen, error).hint(hint)
        }
        Error::LongName(_) => {
            plain(Code::BranchNameTooLong, error).hint("work on one with a shorter name: `git switch -c NAME` makes it")
        }
        Error::Pipeline { path, .. } => plain(Code::TaskPipelineInvalid, error).hint(format!(
            "`pleach validate {}` shows more; fix it, then run the same command again: no attempt was counted",
            shell_word(path)
        )),
        Error::Name(_) => plain(Code::NameInvalid, error),
        Error::Unasked(_) => plain(Code::TrustMissing, error).hint("run the same command again to be asked"),
    }
}

/// An error of the refs of ad-hoc tasks.
pub fn of_store(error: &StoreError) -> Failure {
    match error {
        StoreError::Git(error) => of_git(error),
        StoreError::Secret(error) => of_engine(error),
        StoreError::Task(AdHocError::Empty) => {
            plain(Code::TaskEmpty, error).hint("say what is to be done: `pleach task new \"Fix the login\"`")
        }
        StoreError::Task(AdHocError::Pattern(..)) => {
            plain(Code::PatternInvalid, error).hint("write --touches as a path or a glob from the root: `src/**/*.rs`")
        }
        StoreError::Task(_) | StoreError::Unreadable { .. } => plain(Code::TaskUnreadable, error)
            .hint("`git log -p REF` shows its history; `git update-ref -d REF` drops it"),
    }
}

/// An id that names no task, or several.
pub fn of_no_task(error: NoAdHocTask) -> Failure {
    match &error {
        NoAdHocTask::Store(error) => of_store(error),
        NoAdHocTask::Ambiguous { .. } => plain(Code::TaskIdAmbiguous, &error).hint("give more of its id"),
        NoAdHocTask::Unknown { known, .. } if known.is_empty() => {
            plain(Code::NoSuchTask, &error).hint("there is none yet; `pleach task new \"…\"` makes one")
        }
        NoAdHocTask::Unknown { given, known } => {
            let hint = match closest(given, known.iter().map(TaskId::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`pleach task list --all` shows what there is".to_owned(),
            };
            plain(Code::NoSuchTask, &error).hint(hint)
        }
    }
}

/// The branch of a task was moved or removed.
fn of_task_branch(error: &workspace::Error) -> Failure {
    let hint = match error {
        workspace::Error::BranchGone { branch, tip } => {
            format!(
                "run again: a task without steps continues, one with steps restarts unless you restore its branch \
                 first: git branch {} {}",
                shell_word(branch),
                tip.short()
            )
        }
        _ => "run again to continue the task from there; work on its branch that is not yet a step is kept".to_owned(),
    };
    plain(Code::TaskBranchMoved, error).hint(hint)
}

/// An error of the merge queue.
pub fn of_queue(error: &QueueError) -> Failure {
    match error {
        QueueError::Git(error) => of_git(error),
        QueueError::Workspace(error) => of_workspace(error),
        QueueError::Session(error) => of_engine(error),
        QueueError::Lock(held @ LockError::Held { .. }) => {
            plain(Code::QueueLocked, held).hint("wait until it ends: what is in the queue is merged by it")
        }
        QueueError::Lock(error) => of_lock(error),
        QueueError::Contended(_) => advised(Code::QueueLocked, error),
        QueueError::Spawn(_) => plain(Code::ProgramFailed, error),
        QueueError::Land(git::LandError::Git(error)) => of_git(error),
        QueueError::Land(_) => advised(Code::LandingRefused, error),
        QueueError::Unreadable { .. } => {
            plain(Code::QueueDamaged, error).hint("it was written by a newer pleach or changed by hand")
        }
        QueueError::NoEntry(_) => plain(Code::NoSuchEntry, error).hint("`pleach merge queue --all` lists them"),
        QueueError::Ambiguous { .. } => plain(Code::EntryAmbiguous, error).hint("give more of its id"),
        QueueError::WrongState { reference, .. } => {
            plain(Code::EntryState, error).hint(format!("`pleach merge why {reference}` tells more"))
        }
        QueueError::Unresolved { path, .. } => {
            plain(Code::ConflictsLeft, error).hint(format!("edit them in {}, then run the same again", path.display()))
        }
        QueueError::NoBranch(_) => plain(Code::NoSuchBranch, error).hint("`git branch` lists them"),
        QueueError::Shallow { .. } => advised(Code::ShallowClone, error),
        QueueError::Itself(_) => plain(Code::MergeItself, error).hint("name another with `--into BRANCH`"),
        QueueError::Setup { .. } => {
            plain(Code::SetupFailed, error).hint("fix the cause, or change `worktrees.setup`, then run again")
        }
    }
}

pub fn of_git(error: &git::Error) -> Failure {
    use git::Error;
    match error {
        Error::NotARepository { .. } => advised(Code::NotARepository, error),
        Error::Unsupported { .. } => advised(Code::RepositoryUnsupported, error),
        Error::NoSuchRevision { .. } => advised(Code::NoSuchRevision, error),
        Error::Refused { detail, .. } => of_refusal(error, detail),
        Error::NoWorktree(failure) => plain(Code::WorktreeFailed, error).hint(failure.cause.hint()),
        Error::RefName { .. } => plain(Code::NameInvalid, error),
        Error::GitMissing { .. } => advised(Code::GitMissing, error),
        Error::GitTooOld { .. } => advised(Code::GitTooOld, error),
        Error::Object { .. } | Error::FilesUnreadable { .. } => advised(Code::ObjectUnreadable, error),
        Error::Overwritten { .. } => advised(Code::ObjectOverwritten, error),
        Error::LinkReplaced { .. } => advised(Code::WorktreeLinkReplaced, error),
        Error::NoSuchWorktree { .. } => advised(Code::WorktreeMissing, error),
        Error::PlaceTaken { .. } => advised(Code::WorktreePlaceTaken, error),
        Error::BrokenOff(_) => advised(Code::GitInterrupted, error),
        Error::Locked { .. } => advised(Code::GitLocked, error),
        Error::Path { .. } => advised(Code::PathInvalid, error),
        Error::Io { source, .. } => of_disk(error, source),
        Error::Program { .. } | Error::Library { .. } => plain(Code::GitFailed, error),
    }
}

/// A repository git does not want to work in: the command it names is the hint.
fn of_refusal(error: &git::Error, detail: &str) -> Failure {
    let setting = detail.lines().map(str::trim).find(|line| line.starts_with("git config "));
    let mut failure = plain(Code::RepositoryRefused, error);
    failure.message = first_line(&failure.message).to_owned();
    failure.hint(match setting {
        Some(command) => format!("if you trust who owns it: {command}"),
        None => "see that `git status` works there".to_owned(),
    })
}

/// What needs approval cannot be determined.
pub fn of_trust(error: &trust::Error) -> Failure {
    match error {
        trust::Error::Git(error) => of_git(error),
        trust::Error::HashCollision { .. } => plain(Code::HashDeceived, error).hint("do not run this repository"),
    }
}

/// An error of a session's record.
pub fn of_record(error: &record::Error) -> Failure {
    use record::Error;
    match error {
        Error::Git(error) => of_git(error),
        Error::Missing { .. } => {
            plain(Code::NoSuchSession, error).hint("`pleach status` lists the sessions of this repository")
        }
        Error::Moved { session } => {
            plain(Code::RecordMoved, error).hint(format!("`pleach status {session}` shows where it stands now"))
        }
        Error::Damaged { session, .. } | Error::Unreadable { session, .. } => {
            plain(Code::RecordDamaged, error).hint(without_record(&session.into()))
        }
        Error::Exists { .. } => plain(Code::RecordMoved, error),
        Error::Event { .. } => plain(Code::RecordDamaged, error),
    }
}

/// The hint for a session whose record cannot be read.
pub fn without_record(session: &RunId) -> String {
    format!("restore what is damaged, or `pleach rm --force {session}` removes the session and keeps its work")
}

/// An error of a worktree.
pub fn of_workspace(error: &workspace::Error) -> Failure {
    use workspace::Error;
    match error {
        Error::Git(error) => of_git(error),
        Error::Lock(error) => of_lock(error),
        Error::BranchMoved { branch, to, tip } => plain(Code::BranchMoved, error).hint(format!(
            "keep the new commits and restore the branch: git branch {} {} && git branch -f {} {}",
            shell_word(format_args!("{branch}-moved")),
            to.short(),
            shell_word(branch),
            tip.short()
        )),
        Error::BranchGone { branch, tip } => plain(Code::BranchGone, error).hint(format!(
            "restore it with: git branch {} {}",
            shell_word(branch),
            tip.short()
        )),
        Error::InSubmodules { .. } => advised(Code::SubmoduleWork, error),
        Error::NoBase { source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => of_disk(error, source),
            _ => plain(Code::WorktreeBase, error)
                .hint("set `worktrees.base` to a directory that exists or can be created, then run again"),
        },
        Error::Io { source, .. } => of_disk(error, source),
    }
}

/// A file that cannot be used. Where there is no room for it, most of what pleach has put there is worktrees.
fn of_disk(error: &(dyn std::error::Error + 'static), source: &std::io::Error) -> Failure {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => plain(Code::DiskFull, error).hint(
            "free some space there, then run again; `git worktree list` shows the worktrees, `pleach rm SESSION` \
             removes those of a session",
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => plain(Code::DiskDenied, error).hint(
            "make it readable and writable, then run again; pleach's own files are below XDG_STATE_HOME, which can be \
             another absolute path",
        ),
        _ => plain(Code::DiskFailed, error),
    }
}

/// A failure that is for want of something the system limits, as its words say: which limit that is.
pub fn of_shortage(failure: Failure) -> Failure {
    let how = shortage(&failure.sentence()).filter(|_| failure.exit() == Exit::Environment);
    let Some(how) = how else { return failure };
    let failure = failure.reworded(|text| text.replace(&format!("; {how}"), ""));
    let hint = failure.hint.iter().fold(how, |first, then| format!("{first}; {then}"));
    Failure { code: Code::LimitReached, ..failure.hint(hint) }
}

/// A lock another process holds.
pub fn of_lock(error: &LockError) -> Failure {
    match error {
        LockError::Held { .. } => {
            plain(Code::SessionLocked, error).hint("wait until it ends, or pause it with `pleach pause SESSION`")
        }
        LockError::Io { source, .. } => of_disk(error, source),
    }
}

/// The target's tasks, which another run has.
fn of_target_lock(error: &LockError) -> Failure {
    let LockError::Held { holder, .. } = error else { return of_lock(error) };
    let kill =
        LockHolder::read(holder).process.map(|process| format!(", or with `kill {process}`")).unwrap_or_default();
    let hint = format!("wait until it ends, or stop it with Ctrl-C where it runs{kill}: it can be resumed later");
    plain(Code::TreeLocked, error).hint(hint)
}

/// A failure of a run whose repository is gone, whatever it met first: nothing of it can be resumed.
pub fn of_lost_repository(failure: Failure, common_dir: &Path, copy: Option<&Path>) -> Failure {
    let files = copy.map(|copy| format!("; files as they were last are in {}", copy.display())).unwrap_or_default();
    let message =
        format!("the git directory of the repository, {}, was deleted while the run worked", common_dir.display());
    let mut lost = Failure::new(Code::RepositoryDeleted, message).hint(format!(
        "commits, branches and records that were not pushed elsewhere are lost with it, and the run cannot be resumed; \
         clone the repository again{files}"
    ));
    lost.causes = std::iter::once(failure.message).chain(failure.causes).collect();
    lost
}

/// The error's own sentence and what is after it.
fn plain(code: Code, error: &(dyn std::error::Error + 'static)) -> Failure {
    let failure = Failure::new(code, error.to_string());
    match error.source() {
        Some(source) => failure.because(source),
        None => failure,
    }
}

/// An error whose sentence ends in what to do, after its last semicolon.
pub fn advised(code: Code, error: &(dyn std::error::Error + 'static)) -> Failure {
    let mut failure = plain(code, error);
    if let Some((what, how)) = failure.message.clone().rsplit_once("; ") {
        failure.message = what.to_owned();
        failure.hint = Some(how.to_owned());
    }
    failure
}

/// Why it cannot be said why a line is there.
pub fn of_why(error: WhyError) -> Failure {
    match error {
        WhyError::Git(git::Error::Program { stderr, .. }) if stderr.contains("fatal: no such path") => {
            Failure::new(Code::NoSuchFile, "the file is in no commit yet, so all of it is yours")
                .hint("commit it, or name another; `--at REV` looks at a commit")
        }
        WhyError::Git(error) => of_git(&error),
        WhyError::Record(error) => of_record(&error),
        WhyError::Entry(error) => of_queue(&error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::env;

    fn shown(failure: &Failure) -> (u8, String, String) {
        (failure.exit().code(), failure.sentence(), failure.hint.clone().unwrap_or_default())
    }

    #[test]
    fn advice_goes_to_the_second_line() {
        let error = git::Error::NotARepository { path: "/a; b".into() };
        let (code, message, hint) = shown(&of_git(&error));
        assert_eq!((code, message.as_str()), (2, "`/a; b` is not in a git repository"));
        assert!(hint.starts_with("run `git init`"), "{hint}");
    }

    #[test]
    fn an_unusable_pipeline_is_named_in_the_hint() {
        let task = "T001".parse().expect("a task id");
        let error = tree::Error::Pipeline { path: "my.dot".into(), task, why: "it has no start".into() };
        let (code, message, hint) = shown(&of_tree(&error));
        assert_eq!((code, message.as_str()), (2, "the pipeline `my.dot` of task T001 cannot be used: it has no start"));
        assert!(hint.starts_with("`pleach validate my.dot` shows more"), "{hint}");
    }

    #[test]
    fn a_full_disk_comes_with_what_fills_it() {
        for (kind, is_full) in
            [(ErrorKind::StorageFull, true), (ErrorKind::QuotaExceeded, true), (ErrorKind::NotFound, false)]
        {
            let of_workspace =
                of_workspace(&workspace::Error::Io { doing: "write", path: "/x".into(), source: kind.into() });
            let of_git = of_git(&git::Error::Io { doing: "write", path: "/x".into(), source: kind.into() });
            for failure in [of_workspace, of_git] {
                let hint = failure.hint.clone().unwrap_or_default();
                assert_eq!(
                    (failure.exit(), hint.contains("pleach rm SESSION")),
                    (Exit::Environment, is_full),
                    "{hint}"
                );
            }
        }
    }

    #[test]
    fn a_failure_for_want_of_files_names_the_limit() {
        let source = std::io::Error::from_raw_os_error(24);
        let failure = of_shortage(of_git(&git::Error::Io { doing: "open", path: "/x".into(), source }).hint("resume"));
        let hint = failure.hint.clone().unwrap_or_default();
        assert_eq!((failure.code, failure.exit()), (Code::LimitReached, Exit::Environment));
        assert!(hint.contains("`ulimit -Hn`") && hint.ends_with("; resume"), "{hint}");
        let other = of_shortage(Failure::new(Code::LandingRed, "Too many open files"));
        assert_eq!(other.exit(), Exit::WorkFailed);
    }

    #[test]
    fn an_unwritable_directory_comes_with_an_alternative() {
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            let failure = of_git(&git::Error::Io { doing: "create", path: "/x".into(), source: kind.into() });
            assert!(failure.hint.is_some_and(|hint| hint.contains("XDG_STATE_HOME")), "{kind}");
        }
    }

    #[test]
    fn a_stale_lock_is_named_with_what_to_do() {
        let (code, message, hint) = shown(&of_git(&git::Error::Locked { lock: "/r/.git/packed-refs.lock".into() }));
        let named =
            "git's lock `/r/.git/packed-refs.lock` is held by another git process, or was left by one that was killed";
        assert_eq!((code, message.as_str()), (7, named));
        assert_eq!(hint, "wait for it, or delete that file if no git runs, and run again");
    }

    #[test]
    fn causes_are_named_once() {
        let source = std::io::Error::other("disk full");
        let named = git::Error::Io { doing: "write", path: "/x".into(), source };
        assert_eq!(of_git(&named).sentence(), "cannot write `/x`: disk full");
        let source = std::io::Error::other("disk full");
        let unnamed = workspace::Error::Io { doing: "write", path: "/x".into(), source };
        assert_eq!(of_workspace(&unnamed).sentence(), "cannot write /x: disk full");
    }

    #[test]
    fn each_kind_of_error_has_its_exit_code() {
        let session: pleach_core::ids::SessionId = "abcdefgh".parse().expect("a session id");
        let branch: pleach_core::ids::BranchName = "b".parse().expect("a branch name");
        let commit = pleach_core::ids::CommitId::from_bytes([1; 20]);
        let held = || LockError::Held { what: "it".into(), holder: "them".into() };
        let cases: [(env::Error, u8); 8] = [
            (held().into(), 6),
            (workspace::Error::Lock(held()).into(), 6),
            (workspace::Error::BranchGone { branch: branch.clone(), tip: commit }.into(), 1),
            (workspace::Error::BranchMoved { branch, to: commit, tip: commit }.into(), 1),
            (record::Error::Missing { session: session.clone() }.into(), 2),
            (record::Error::Unreadable { session: session.clone(), commit, why: "torn".into() }.into(), 7),
            (env::Error::Over { run: session.into(), phase: "done" }, 2),
            (git::Error::GitTooOld { found: "git 2.30".into() }.into(), 7),
        ];
        for (error, code) in cases {
            assert_eq!(of_engine(&error).exit().code(), code, "{error}");
        }
    }
}
