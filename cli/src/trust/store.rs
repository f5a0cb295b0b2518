//! Where approvals are kept: `trust.json` of the state directory, readable by the user alone.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::failure::Failure;

/// An approval, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The hash of what was approved, as `pleach trust` shows it.
    pub key: String,
    /// The repository, by its common git directory.
    pub repo: String,
    /// Why it was asked.
    pub kind: String,
    /// Where it was.
    pub where_from: String,
    /// Its text without secrets, for reading only: the key counts.
    pub text: String,
    /// When.
    pub at: jiff::Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct Approvals {
    version: u32,
    trusted: Vec<Approval>,
}

/// The digits of a key that are shown.
const SHOWN_KEY: usize = 10;

/// A key as it is shown.
pub fn short(key: &str) -> String {
    key.chars().take(SHOWN_KEY).collect()
}

/// The file of approvals.
#[derive(Debug, Clone)]
pub struct Store {
    file: PathBuf,
}

impl Store {
    /// The store in a state directory. The file need not be there.
    pub fn new(state_dir: &Path) -> Self {
        Self { file: state_dir.join("trust.json") }
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// All approvals, oldest first.
    pub fn list(&self) -> Result<Vec<Approval>, Failure> {
        let text = match fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(self.unusable(&error)),
        };
        let agreements: Approvals = serde_json::from_slice(&text).map_err(|error| self.unusable(&error))?;
        if agreements.version != 1 {
            let message = format!("{} was written by a newer pleach", self.file.display());
            return Err(Failure::new(Code::TrustStore, message).hint("use that pleach, or move the file away"));
        }
        Ok(agreements.trusted)
    }

    /// Takes back the approvals `pick` chooses and gives them.
    pub fn revoke(&self, pick: impl Fn(&Approval) -> bool) -> Result<Vec<Approval>, Failure> {
        let mut revoked = Vec::new();
        self.change(|trusted| {
            let (gone, kept) = std::mem::take(trusted).into_iter().partition(|agreement| pick(agreement));
            *trusted = kept;
            revoked = gone;
        })?;
        Ok(revoked)
    }

    /// Adds approvals that are not there yet.
    pub(super) fn add(&self, new: Vec<Approval>) -> Result<(), Failure> {
        self.change(|trusted| {
            for agreement in new {
                if !trusted.iter().any(|known| known.key == agreement.key) {
                    trusted.push(agreement);
                }
            }
        })
    }

    /// Reads, changes and writes the list, one process at a time; a reader sees the old file or the new one.
    fn change(&self, change: impl FnOnce(&mut Vec<Approval>)) -> Result<(), Failure> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        let unwritable = |error: std::io::Error| {
            Failure::new(Code::TrustStore, format!("cannot save approvals in {}", dir.display()))
                .because(&error)
                .hint("make it writable, or set XDG_STATE_HOME to an absolute path that is")
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unwritable)?;
        let lock = private(&self.file.with_extension("lock")).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut trusted = self.list()?;
        change(&mut trusted);
        let mut text =
            serde_json::to_vec_pretty(&Approvals { version: 1, trusted }).map_err(|error| self.unusable(&error))?;
        text.push(b'\n');
        let new = self.file.with_extension("json.new");
        let mut file = private(&new).map_err(unwritable)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(unwritable)?;
        fs::rename(&new, &self.file).and_then(|()| File::open(dir)?.sync_all()).map_err(unwritable)
    }

    fn unusable(&self, error: &dyn std::error::Error) -> Failure {
        Failure::new(Code::TrustStore, format!("cannot use the approvals in {}", self.file.display()))
            .because(error)
            .hint("fix or remove the file; you will be asked again")
    }
}

/// An empty file for writing that only the user can read.
fn private(file: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)
}
