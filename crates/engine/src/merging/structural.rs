//! Merging a file by the structure of its language. mergiraf does that, where it is installed; it is asked as a program,
//! and whatever it does but give a merged file means that it could not.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agents::agent::cli::find_program;
use git::workspace::{self, Scratch};
use os::process::{Blocking, run_blocking};
use pleach_core::config::{Environment, Structural};
use pleach_core::ids::RepoPath;
use pleach_core::merge::has_conflict_markers;

const PROGRAM: &str = "mergiraf";

/// How long a file may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The program that merges by structure.
#[derive(Debug, Clone)]
pub struct StructuralMerge {
    program: PathBuf,
    environment: Environment,
    state_dir: PathBuf,
}

impl StructuralMerge {
    /// The program, if it is wanted and there. Its temporary files are noted in the state directory.
    pub fn find(wanted: Structural, environment: &Environment, state_dir: &Path) -> Option<Self> {
        let program = match wanted {
            Structural::Off => None,
            Structural::Auto => find_program(PROGRAM, environment),
        };
        program.map(|program| Self {
            program,
            environment: environment.without_secrets(),
            state_dir: state_dir.to_owned(),
        })
    }

    /// What the program makes of a file; none where it cannot merge it.
    pub(super) fn merge(
        &self,
        path: &RepoPath,
        [base, ours, theirs]: [&[u8]; 3],
    ) -> Result<Option<Vec<u8>>, workspace::Error> {
        let scratch = Scratch::make(&self.state_dir)?;
        let path = OsStr::from_bytes(path.as_bytes());
        let ending = Path::new(path).extension().unwrap_or_default();
        let sides = ["base", "ours", "theirs"].map(|name| scratch.path().join(name).with_extension(ending));
        for (file, text) in sides.iter().zip([base, ours, theirs]) {
            let failed = |source| workspace::Error::Io { doing: "write", path: file.clone(), source };
            std::fs::write(file, text).map_err(failed)?;
        }
        let given = ["merge", "--git"].map(OsString::from).into_iter().chain(sides.iter().map(OsString::from));
        let command = Blocking {
            program: self.program.clone().into(),
            args: given.chain(["-p".into(), path.to_owned()]).collect(),
            cwd: scratch.path().to_owned(),
            environment: Some(self.environment.clone()),
            limit: Some(LIMIT),
            ..Blocking::default()
        };
        if !run_blocking(&command).is_ok_and(|ended| ended.success()) {
            return Ok(None);
        }
        // It writes to the file of our side. One that is as it was has nothing of the other.
        let merged = std::fs::read(&sides[1]).ok().filter(|merged| merged != ours && !has_conflict_markers(merged));
        Ok(merged)
    }
}
