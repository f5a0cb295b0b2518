//! The names a session has in git.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use pleach_core::event::PipelineStarted;
use pleach_core::ids::{
    BASE32, BranchName, CROCKFORD, ContextId, ENTRY_ID_LEN, EntryId, InvalidId, PipelineName, RepoName, SESSION_ID_LEN,
    SessionId, TaskId, branch_key, branch_of_key,
};

/// A random session id; creating the session's ref decides whether it is unused.
pub fn new_session_id() -> SessionId {
    let text: String = (0..SESSION_ID_LEN).map(|_| char::from(BASE32[fastrand::usize(..BASE32.len())])).collect();
    SessionId::new(text).expect("eight characters of the base32 alphabet are a session id")
}

/// An id for a queue entry: the time in milliseconds, then random bits.
pub fn new_entry_id(at: jiff::Timestamp) -> EntryId {
    let time = u128::from(at.as_millisecond().cast_unsigned() & ((1 << 48) - 1));
    let bits = time << 80 | fastrand::u128(..1 << 80);
    let character = |nth: usize| char::from(CROCKFORD[(bits >> (5 * (ENTRY_ID_LEN - 1 - nth)) & 31) as usize]);
    EntryId::new((0..ENTRY_ID_LEN).map(character).collect::<String>()).expect("26 characters of its alphabet")
}

/// The branch a session's turns are committed on.
pub fn session_branch(prefix: &str, pipeline: &PipelineName, session: &SessionId) -> Result<BranchName, InvalidId> {
    BranchName::new(format!("{prefix}{pipeline}/{session}"))
}

/// What the names of the branches of a session's parallel contexts begin with, given its own branch. The branch of a
/// task is used by every session on it, so that there they are named as if the session had a branch of its own.
pub fn parallel_branches(started: &PipelineStarted, session: &SessionId, own: &BranchName) -> String {
    let of_task = started.task.as_ref().and_then(|task| {
        let prefix = own.as_str().strip_suffix(&format!("{}{}", task_branches("", &task.target), task.id))?;
        Some(format!("{prefix}{}/{session}--", started.name))
    });
    of_task.unwrap_or_else(|| {
        // The branch of a replay is one of those.
        let last = own.as_str().rfind('/').map_or(0, |slash| slash + 1);
        let end = own.as_str()[last..].find("--").map_or(own.as_str().len(), |at| last + at);
        format!("{}--", &own.as_str()[..end])
    })
}

/// The session and the context a parallel branch is named after; none for every other branch.
pub fn context_of_branch(branch: &BranchName) -> Option<(SessionId, ContextId)> {
    let (session, context) = branch.as_str().rsplit('/').next()?.split_once("--")?;
    Some((session.parse().ok()?, context.parse().ok()?))
}

/// A branch's full ref name.
pub fn branch_ref(branch: &BranchName) -> String {
    format!("refs/heads/{branch}")
}

/// How many names a branch may have at a remote.
const MOST_NAMES: u32 = 9;

/// The names beside that of a branch, for a remote that has other commits under its own. No session, context or task has an
/// `@` in its name.
pub fn names_beside(branch: &str) -> impl Iterator<Item = String> {
    (2..=MOST_NAMES).map(move |number| format!("{branch}@{number}"))
}

/// The name of the branch a name at a remote stands beside; any other name is its own.
pub fn own_name(name: &str) -> &str {
    let own = name.rsplit_once('@').map_or(name, |(own, _)| own);
    if names_beside(own).any(|beside| beside == name) { own } else { name }
}

/// The branch a task's steps are committed on until they land on `target`.
pub fn task_branch(prefix: &str, target: &BranchName, task: &TaskId) -> Result<BranchName, InvalidId> {
    BranchName::new(format!("{}{task}", task_branches(prefix, target)))
}

/// The branch the finished tasks of a phase are gathered on until it is merged into `target`.
pub fn phase_branch(prefix: &str, target: &BranchName, phase: &TaskId) -> Result<BranchName, InvalidId> {
    BranchName::new(format!("{}{phase}", phase_branches(prefix, target)))
}

/// What the names of all task branches of a target begin with.
pub fn task_branches(prefix: &str, target: &BranchName) -> String {
    format!("{prefix}tasks/{}/", branch_key(target))
}

/// What the names of all phase branches of a target begin with.
pub fn phase_branches(prefix: &str, target: &BranchName) -> String {
    format!("{prefix}phase/{}/", branch_key(target))
}

/// The target a task's or phase's branch is kept for; none for every other branch.
pub fn target_of(prefix: &str, branch: &BranchName) -> Option<BranchName> {
    let own = branch.as_str().strip_prefix(prefix)?;
    let (key, id) = own.strip_prefix("tasks/").or_else(|| own.strip_prefix("phase/"))?.split_once('/')?;
    TaskId::new(id).ok()?;
    branch_of_key(key)
}

/// A repository's name when the configuration gives none: its directory's.
pub fn repo_name(git_dir: &Path, workdir: Option<&Path>) -> RepoName {
    let named = workdir.and_then(Path::file_name).or_else(|| match git_dir.file_name() {
        Some(name) if name == ".git" => git_dir.parent().and_then(Path::file_name),
        other => other,
    });
    let text = named.map(OsStr::to_string_lossy).unwrap_or_default();
    let text: String = text.trim_end_matches(".git").chars().filter(|c| *c != ':' && !c.is_control()).collect();
    RepoName::new(text).unwrap_or_else(|_| RepoName::new("repo").expect("`repo` is a valid name"))
}

/// Where a repository's worktrees live when the configuration does not say: outside every checkout, because
/// tools that walk up from a worktree must not find the user's files.
pub fn default_worktree_base(state_dir: &Path, common_dir: &Path, name: &RepoName) -> PathBuf {
    state_dir.join("worktrees").join(format!("{name}-{:08x}", fnv(common_dir.as_os_str().as_encoded_bytes())))
}

/// Whether a directory is such a place of this repository, whatever the repository is called.
pub fn is_default_worktree_base(state_dir: &Path, common_dir: &Path, base: &Path) -> bool {
    let hash = format!("-{:08x}", fnv(common_dir.as_os_str().as_encoded_bytes()));
    let is_named = base.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(&hash));
    is_named && base.parent() == Some(&state_dir.join("worktrees"))
}

/// Where the agents of a session keep what is theirs: logins made up for them, native sessions. Copies of a repository
/// on one machine have sessions of the same name, so the repository is part of it.
pub fn agent_home(state_dir: &Path, common_dir: &Path, session: &SessionId) -> PathBuf {
    state_dir.join("agents").join(format!("{session}-{:08x}", fnv(common_dir.as_os_str().as_encoded_bytes())))
}

/// The directories agents of a repository's sessions have, in order.
pub fn agent_homes(state_dir: &Path, common_dir: &Path) -> Vec<(SessionId, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(state_dir.join("agents")) else { return Vec::new() };
    let session = |path: &Path| path.file_name()?.to_str()?.split('-').next()?.parse::<SessionId>().ok();
    let paths = entries.flatten().map(|entry| entry.path());
    let homes = paths.filter_map(|path| Some((session(&path)?, path)));
    let mut homes: Vec<_> = homes.filter(|(id, path)| agent_home(state_dir, common_dir, id) == *path).collect();
    homes.sort();
    homes
}

/// FNV-1a, which stays the same from build to build.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Where the file of a lock is.
pub(super) fn lock_path(common_dir: &Path, name: &str) -> PathBuf {
    common_dir.join("pleach/lock").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_what_branches_need() {
        let session = new_session_id();
        let pipeline = PipelineName::of_graph("test_git").unwrap();
        let branch = session_branch("orchestra/", &pipeline, &session).unwrap();
        assert_eq!(branch.as_str(), format!("orchestra/test-git/{session}"));
        assert!(session_branch("bad prefix ", &pipeline, &session).is_err());
    }

    #[test]
    fn ids_of_entries_sort_by_time() {
        let at = |second| new_entry_id(jiff::Timestamp::from_second(second).unwrap());
        assert!(at(1_700_000_000) < at(1_700_000_001));
        assert!(at(1_700_000_000).as_str().starts_with("01HF7Y"));
        assert_ne!(at(5), at(5));
    }

    #[test]
    fn a_target_is_one_component_of_its_branches() {
        let task = TaskId::new("T001").unwrap();
        for (target, key) in
            [("main", "main"), ("feature/x", "feature%2Fx"), ("100%/a%2Fb", "100%25%2Fa%252Fb"), ("a@b)c", "a@b)c")]
        {
            let target = BranchName::new(target).unwrap();
            assert_eq!(branch_key(&target), key);
            assert_eq!(branch_of_key(key), Some(target.clone()));
            assert_eq!(task_branch("pleach/", &target, &task).unwrap(), format!("pleach/tasks/{key}/T001").as_str());
            assert_eq!(phase_branch("pleach/", &target, &task).unwrap(), format!("pleach/phase/{key}/T001").as_str());
            for own in [task_branch("a/b-", &target, &task).unwrap(), phase_branch("a/b-", &target, &task).unwrap()] {
                assert_eq!(target_of("a/b-", &own), Some(target.clone()), "{own}");
                assert_eq!(target_of("pleach/", &own), None, "{own}");
            }
        }
        for other in
            ["main", "pleach/tasks/main", "pleach/tasks/abcd2345", "pleach/tasks/50%/T001", "pleach/phase/x/a/b"]
        {
            assert_eq!(target_of("pleach/", &BranchName::new(other).unwrap()), None, "{other}");
        }
        for nobody in ["a/b", "50%", "%2f", "%41"] {
            assert_eq!(branch_of_key(nobody), None, "{nobody}");
        }
        assert!(task_branch("bad prefix ", &BranchName::new("main").unwrap(), &task).is_err());
    }

    #[test]
    fn a_parallel_branch_tells_session_and_context() {
        let read = |branch: &str| context_of_branch(&BranchName::new(branch).unwrap());
        let (session, context) = read("pleach/wide/abcdefgh--api-2").expect("session and context");
        assert_eq!((session.as_str(), context.as_str()), ("abcdefgh", "api-2"));
        for other in ["pleach/wide/abcdefgh", "pleach/tasks/main/T001--api", "main", "pleach/x/abcdefgh--"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn names_beside_a_branch_are_told_from_its_own() {
        for branch in ["pleach/p/abcdefgh", "pleach/p/abcdefgh--a", "pleach/tasks/a@b/T001.2"] {
            let beside: Vec<String> = names_beside(branch).collect();
            assert_eq!(beside.len(), 8);
            for name in &beside {
                assert!(BranchName::new(name).is_ok(), "{name}");
                assert_eq!(own_name(name), branch);
            }
        }
        for own in ["main", "me@home", "release@1", "release@10", "release@02"] {
            assert_eq!(own_name(own), own);
        }
    }

    #[test]
    fn repositories_are_named_after_their_directory() {
        assert_eq!(repo_name(Path::new("/x/app/.git"), Some(Path::new("/x/app"))), "app");
        assert_eq!(repo_name(Path::new("/x/app/.git"), None), "app");
        assert_eq!(repo_name(Path::new("/x/app.git"), None), "app");
        assert_eq!(repo_name(Path::new("/"), None), "repo");
    }
}
