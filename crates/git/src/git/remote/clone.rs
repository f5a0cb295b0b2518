//! Cloning. A clone that was cut short leaves nothing that could be taken for a repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::git::disk::remove_directory;
use crate::git::error::{Error, IoContext as _};
use crate::git::program::Program;
use os::process::Cancel;
use pleach_core::config::Environment;

/// What is cloned.
#[derive(Debug, Clone)]
pub struct CloneRequest<'a> {
    /// From where.
    pub remote: &'a RemoteUrl,
    /// To where. Nothing is there yet.
    pub path: &'a Path,
    /// How many commits of each history; all if `None`.
    pub depth: Option<u32>,
}

/// Clones a repository: into a directory beside its place, which then gets its name.
pub fn clone(request: &CloneRequest<'_>, environment: &Environment, cancel: &Cancel) -> Result<(), RemoteError> {
    let CloneRequest { remote, path, depth } = request;
    let program = Program::new(environment);
    let (parent, temporary) = beside(path)?;
    let missing: Vec<&Path> = parent.ancestors().take_while(|dir| dir.symlink_metadata().is_err()).collect();
    std::fs::create_dir_all(&parent).at("create", &parent)?;
    program.version(&parent)?;
    remove_stale(&parent, path)?;
    let mut args: Vec<OsString> = vec!["clone".into(), "--progress".into()];
    if let Some(depth) = depth {
        // git would copy a path whole.
        args.extend(["--depth".into(), depth.to_string().into(), "--no-local".into()]);
    }
    args.extend(["--".into(), remote.as_git().into(), temporary.clone().into_os_string()]);
    let cloned = call(&program, &parent, args, remote, Direction::Receive, cancel)
        .and_then(|finished| success(finished, remote))
        .and_then(|_| Ok(std::fs::rename(&temporary, path).at("name", path)?));
    if cloned.is_err() {
        // What is left over is removed by the next clone.
        let _ = remove_directory(&temporary);
        // Others may have put something there meanwhile.
        let _ = missing.into_iter().try_for_each(std::fs::remove_dir);
    }
    cloned
}

/// The directory a clone is made in, and its name there until it is complete.
fn beside(path: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let nowhere = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let name = path.file_name().ok_or_else(nowhere).at("clone to", path)?;
    let parent = path.parent().ok_or_else(nowhere).at("clone to", path)?.to_owned();
    let temporary = parent.join(format!("{}{}", prefix(name), std::process::id()));
    Ok((parent, temporary))
}

fn prefix(name: &std::ffi::OsStr) -> String {
    format!(".{}.clone-", name.to_string_lossy())
}

/// Removes what killed clones to the same place have left.
fn remove_stale(parent: &Path, path: &Path) -> Result<(), Error> {
    let Some(prefix) = path.file_name().map(prefix) else { return Ok(()) };
    for entry in std::fs::read_dir(parent).at("list", parent)? {
        let entry = entry.at("list", parent)?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse::<i32>().ok());
        let process = process.and_then(rustix::process::Pid::from_raw);
        if process.is_some_and(|process| rustix::process::test_kill_process(process).is_err()) {
            remove_directory(&entry.path())?;
        }
    }
    Ok(())
}
