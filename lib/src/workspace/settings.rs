//! How working copies are made, beyond what git does.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Error;
use crate::ids::RepoPath;

/// The settings of `worktrees:` in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeSettings {
    /// Where they live; outside every checkout by default.
    pub base: Option<PathBuf>,
    /// A command run once in each new one.
    pub setup: Option<String>,
    /// Ignored files and directories of the user's checkout that are copied in.
    pub include_ignored: Vec<PathBuf>,
}

impl WorktreeSettings {
    /// The paths that are never committed, whatever `.gitignore` says.
    pub fn never_commit(&self) -> Vec<RepoPath> {
        self.include_ignored.iter().map(|path| RepoPath::new(path.as_os_str().as_encoded_bytes())).collect()
    }

    /// Keeps git in the user's checkout from seeing working copies that lie in it.
    pub fn hide_base(&self, checkout: Option<&Path>, common_dir: &Path) -> Result<(), Error> {
        let below = self.base.as_deref().zip(checkout).and_then(|(base, checkout)| base.strip_prefix(checkout).ok());
        let Some(below) = below else { return Ok(()) };
        let file = common_dir.join("info/exclude");
        let failed = |source| Error::Io { doing: "write", path: file.clone(), source };
        let line = format!("/{}/", below.display());
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        if known.lines().any(|known| known == line) {
            return Ok(());
        }
        std::fs::create_dir_all(common_dir.join("info")).map_err(failed)?;
        let new_line = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
        let mut open = std::fs::OpenOptions::new().create(true).append(true).open(&file).map_err(failed)?;
        open.write_all(format!("{new_line}{line}\n").as_bytes()).and_then(|()| open.sync_all()).map_err(failed)
    }

    /// Copies the `include_ignored` files of the user's checkout into a new working copy. What is not there is not
    /// missed; what git has put there already stays.
    pub fn copy_ignored(&self, checkout: Option<&Path>, copy: &Path) -> Result<(), Error> {
        let Some(checkout) = checkout else { return Ok(()) };
        for path in &self.include_ignored {
            let (from, to) = (checkout.join(path), copy.join(path));
            if from.symlink_metadata().is_ok() && to.symlink_metadata().is_err() {
                copy_tree(&from, &to).map_err(|source| Error::Io { doing: "copy", path: from, source })?;
            }
        }
        Ok(())
    }
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    let kind = from.symlink_metadata()?.file_type();
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(std::fs::read_link(from)?, to);
    }
    if !kind.is_dir() {
        return std::fs::copy(from, to).map(drop);
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_tree(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_in_the_checkout_is_hidden_from_git_once() {
        let dir = tempfile::tempdir().unwrap();
        let common = dir.path().join(".git");
        let settings = WorktreeSettings { base: Some(dir.path().join(".orchestra/worktrees")), ..Default::default() };
        for _ in 0..2 {
            settings.hide_base(Some(dir.path()), &common).unwrap();
        }
        assert_eq!(std::fs::read_to_string(common.join("info/exclude")).unwrap(), "/.orchestra/worktrees/\n");
        let elsewhere = WorktreeSettings { base: Some("/elsewhere".into()), ..Default::default() };
        elsewhere.hide_base(Some(dir.path()), &common).unwrap();
        assert_eq!(std::fs::read_to_string(common.join("info/exclude")).unwrap(), "/.orchestra/worktrees/\n");
    }

    #[test]
    fn ignored_files_are_copied_with_their_links() {
        let dir = tempfile::tempdir().unwrap();
        let (checkout, copy) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir_all(checkout.join("node_modules/x")).unwrap();
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(checkout.join("node_modules/x/f"), "1").unwrap();
        std::os::unix::fs::symlink("x/f", checkout.join("node_modules/link")).unwrap();
        std::fs::write(checkout.join(".env"), "A=1").unwrap();
        std::fs::write(copy.join(".env"), "tracked").unwrap();
        let settings = WorktreeSettings {
            include_ignored: vec![".env".into(), "node_modules".into(), "absent".into()],
            ..Default::default()
        };
        settings.copy_ignored(Some(&checkout), &copy).unwrap();
        assert_eq!(std::fs::read_to_string(copy.join("node_modules/link")).unwrap(), "1");
        assert_eq!(std::fs::read_to_string(copy.join(".env")).unwrap(), "tracked");
    }
}
