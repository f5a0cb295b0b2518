//! Hooks and signatures that the user's commits get and pleach's do not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

use super::error::Error;
use super::open::config_entries;
use super::program::NO_HOOKS;
use super::repo::Repo;
use pleach_core::config::Environment;
use pleach_core::text::listed;

/// The hooks that run when somebody commits, checks out or merges.
const HOOKS: [&str; 9] = [
    "applypatch-msg",
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-merge",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "reference-transaction",
];

/// What a repository asks for that pleach's commits do without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedHooks {
    /// The hooks that are installed.
    pub hooks: Vec<&'static str>,
    /// Whether commits are to be signed.
    pub signing: bool,
}

impl SkippedHooks {
    /// What there is to say of it, if anything.
    pub fn in_words(&self) -> Option<String> {
        let hooks = listed(self.hooks.iter().map(|hook| format!("`{hook}`")), 5);
        let (hooks, signing) = ((!self.hooks.is_empty()).then_some(hooks), self.signing);
        Some(match (hooks, signing) {
            (Some(hooks), true) => format!("pleach's commits skip your hooks ({hooks}) and are not signed"),
            (Some(hooks), false) => format!("pleach's commits skip your hooks ({hooks})"),
            (None, true) => "pleach's commits are not signed, though `commit.gpgsign` is on".to_owned(),
            (None, false) => return None,
        })
    }
}

/// What pleach's commits do without.
pub fn skipped(repo: &Repo, environment: &Environment) -> Result<SkippedHooks, Error> {
    let entries = config_entries(&repo.shared.program, repo.common_dir(), repo.git_dir())?;
    let last = |wanted: &str| entries.iter().rev().find(|(key, value)| key == wanted && value != NO_HOOKS);
    let is_on =
        |value: &[u8]| !["false", "no", "off", "0", ""].iter().any(|off| value.eq_ignore_ascii_case(off.as_bytes()));
    let signing = last("commit.gpgsign").is_some_and(|(_, value)| is_on(value));
    let own = last("core.hookspath").and_then(|(_, dir)| dir.to_path().ok()).map(|dir| expand(repo, dir, environment));
    let dir = own.unwrap_or_else(|| repo.common_dir().join("hooks"));
    Ok(SkippedHooks { hooks: HOOKS.into_iter().filter(|hook| is_program(&dir.join(hook))).collect(), signing })
}

/// A directory as the setting for hooks has it: from the root of the checkout.
fn expand(repo: &Repo, dir: &Path, environment: &Environment) -> PathBuf {
    match (dir.strip_prefix("~"), environment.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => repo.workdir().unwrap_or(repo.common_dir()).join(dir),
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
