//! Creating worktrees.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::add_failure::{AddFailure, room_at};
use super::creation::{CreationMarker, is_free, named_path};
use super::git_dir::{find_git_dir, link_git_dir, linked_git_dir, same_file};
use super::list::stands_at;
use super::lock::lock_worktrees;
use super::metadata::Notes;
use super::registration::Registration;
use super::sparse_rules::SparseRules;
use super::{Worktree, index_file, lost_content, open, remove, sanitize, scan};
use crate::git::crash::{self, CrashKind, CrashSide};
use crate::git::error::{Error, IoContext as _};
use crate::git::program::{GitOutput, Program};
use crate::git::progress::{FileOperation, ProgressMeter, updated_files};
use crate::git::repo::Repo;
use os::process::sink;
use pleach_core::ids::CommitId;

/// Makes a new worktree at `path` with the files of `commit` and a detached HEAD.
pub fn add(repo: &Repo, path: &Path, commit: CommitId) -> Result<Worktree, Error> {
    add_sparse(repo, path, commit, &[])
}

/// The same, but files that these rules of a sparse checkout leave out are not there, and stay what they are in every
/// tree. Without rules, all are there.
pub fn add_sparse(repo: &Repo, path: &Path, commit: CommitId, rules: &[String]) -> Result<Worktree, Error> {
    if !is_free(path) {
        return Err(Error::PlaceTaken { path: path.to_owned() });
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).at("create", parent)?;
    }
    let marker = CreationMarker::create(path)?;
    let created = register(repo, path, commit).and_then(|git_dir| fill(repo, path, &git_dir, rules, marker));
    if created.is_err() {
        // As git does where it cannot make one. Why it cannot is what counts.
        let _ = remove::remove(repo, path);
    }
    created.map_err(|error| lost_content::name_unreadable(repo, commit, error))
}

/// Checks out the files of a worktree that is being created, except those that exist.
fn fill(repo: &Repo, path: &Path, git_dir: &Path, rules: &[String], marker: CreationMarker) -> Result<Worktree, Error> {
    check_out(repo, path, git_dir, rules, &marker)?;
    crash::point(CrashKind::HeadUpdate, CrashSide::After);
    let notes = Notes::of(repo.common_dir(), git_dir);
    SparseRules::note(repo, git_dir, &notes)?;
    let index = git_dir.join("index");
    notes.note_index(&index.metadata().at("read", &index)?)?;
    let mut worktree = open::open(repo, path)?;
    // The newest files are as new as git's index, so that a later write might not show, and git would read them at every
    // status. They are looked at once while nobody can write, and the index is written after that.
    let found = scan::scan_all(&mut worktree)?;
    worktree.cache.forget_stats(&found.candidates);
    worktree.is_pristine = found.is_empty();
    index_file::write_index(&mut worktree)?;
    marker.finish()?;
    Ok(worktree)
}

/// Finishes a worktree whose making was cut short; none where git had not come to its files, or made it for another
/// commit. What it has checked out is not written again.
pub(super) fn finish(repo: &Repo, path: &Path, commit: CommitId, rules: &[String]) -> Result<Option<Worktree>, Error> {
    // Waits for a git that is still running.
    let marker = CreationMarker::resume(path)?;
    let (Some(git_dir), Ok(root)) = (find_git_dir(repo, path)?, path.canonicalize()) else { return Ok(None) };
    let is_noted = Registration::of(repo.common_dir(), &git_dir)?.is_some_and(|registration| registration.root == root);
    let is_tied = linked_git_dir(path).is_ok_and(|named| named.is_some_and(|named| same_file(&named, &git_dir)));
    if !is_noted || !is_tied || !stands_at(&git_dir, commit) {
        return Ok(None);
    }
    fill(repo, path, &git_dir, rules, marker).map(Some)
}

/// Has git make a worktree without files, and takes note of it. Returns its git directory.
fn register(repo: &Repo, path: &Path, commit: CommitId) -> Result<PathBuf, Error> {
    let (common, id, named) = (repo.common_dir(), commit.to_string(), named_path(path));
    // Forced, so that a place git still knows, but whose files are gone, can be used again.
    let args = ["worktree", "add", "--quiet", "--force", "--detach", "--no-guess-remote", "--no-checkout"];
    let args = args.map(OsStr::new).into_iter().chain([named.as_os_str(), OsStr::new(&id)]);
    let _alone = lock_worktrees(common)?;
    sanitize::remove_blocking_files(common)?;
    crash::point(CrashKind::HeadUpdate, CrashSide::Before);
    check_added(path, repo.shared.program.run(common, args)?)?;
    repo.shared.whole.add(commit);
    std::fs::rename(&named, path).at("move the worktree to", path)?;
    // Nobody else has written to what git has just made.
    let git_dir = linked_git_dir(path)?.ok_or_else(|| Error::NoSuchWorktree { path: path.to_owned() })?;
    let root = path.canonicalize().at("open the worktree", path)?;
    link_git_dir(repo, &root, &git_dir)?;
    Notes::sweep(common)?;
    // A worktree before it may have had its name.
    Notes::of(common, &git_dir).forget()?;
    Registration::register(common, &git_dir, &root)?;
    Ok(git_dir)
}

/// Checks out what the rules of a sparse checkout leave, but for what is there already. The setting goes to these commands
/// alone: the repository's own settings are the user's, and what is left out is known by the index from here on.
fn check_out(repo: &Repo, path: &Path, git_dir: &Path, rules: &[String], marker: &CreationMarker) -> Result<(), Error> {
    let program = in_worktree(repo, path);
    // Nobody holds it who makes this worktree.
    let lock = git_dir.join("index.lock");
    match std::fs::remove_file(&lock) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("remove", &lock),
        _ => {}
    }
    SparseRules::begin(git_dir, rules)?;
    let mut files = std::fs::read_dir(path).at("list", path)?.filter_map(Result::ok);
    if files.any(|found| found.file_name() != ".git") {
        if !git_dir.join("index").exists() {
            program.run(path, ["read-tree", "HEAD"])?.success()?;
        }
        // By this git knows those that are as they should be.
        refresh(repo, path)?;
    }
    let sparse: &[&str] =
        if rules.is_empty() { &[] } else { &["-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false"] };
    let settings = ["-c", "checkout.workers=0", "-c", "submodule.recurse=false"];
    let args = settings.iter().chain(sparse).chain(&["read-tree", "--reset", "-u", "-v", "HEAD"]);
    let progress = Arc::new(sink().at("write", git_dir)?);
    let count = progress.clone();
    let _meter =
        ProgressMeter::start(repo.listening(), FileOperation::CheckOut, move || updated_files(&last_bytes(&count)));
    check_added(path, program.run_long(path, args, marker.lock(), progress)?)
}

/// Checks that git has created the worktree.
fn check_added(path: &Path, git: GitOutput) -> Result<(), Error> {
    match git.code {
        Some(0) => Ok(()),
        Some(_) if git.held_lock().is_none() => {
            // While what git could write is still there.
            let room = room_at(path);
            Err(Box::new(AddFailure::new(path.to_owned(), &git.stderr, room)).into())
        }
        _ => Err(git.failure()),
    }
}

/// Lets git see which files are as its index has them. It reports those that differ by its exit code; a scan shows them
/// anyway.
fn refresh(repo: &Repo, path: &Path) -> Result<(), Error> {
    in_worktree(repo, path).run(path, ["update-index", "-q", "--refresh"]).map(drop)
}

/// Calls in a worktree of pleach's own, also where its repository is somebody else's.
fn in_worktree(repo: &Repo, path: &Path) -> Program {
    repo.shared.program.clone().trusting([path.canonicalize().unwrap_or_else(|_| path.to_owned())])
}

/// The end of what was written to a file.
fn last_bytes(file: &File) -> Vec<u8> {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = [0; 200];
    let read = file.read_at(&mut bytes, length.saturating_sub(200)).unwrap_or_default();
    bytes[..read].to_vec()
}
