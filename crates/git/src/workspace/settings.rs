//! Settings of worktrees, beyond what git has.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::git::{self, CommitLimits, EntryKind, Repo, Worktree};
use pleach_core::config::EXCLUDED_BY_DEFAULT;
use pleach_core::ids::{CommitId, RepoPath};

/// The settings of `worktrees:` in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeSettings {
    /// Where they live; outside every checkout by default.
    pub base: Option<PathBuf>,
    /// A command run once in each new one.
    pub setup: Option<String>,
    /// Tracked files and directories that are left out: paths from the root, or patterns as in `.gitignore`.
    pub exclude: Vec<String>,
    /// Ignored files and directories of the user's checkout that are copied in.
    pub include_ignored: Vec<PathBuf>,
    /// What is too much to commit of them, as `commit:` in the configuration has it.
    pub limits: CommitLimits,
    /// How many are kept of sessions that are done, and of each branch's tasks; all of them if it is not said.
    pub pool: Option<usize>,
}

impl WorktreeSettings {
    /// The paths that are never committed, whatever `.gitignore` says.
    pub fn never_commit(&self) -> Vec<RepoPath> {
        self.include_ignored.iter().map(|path| RepoPath::new(path.as_os_str().as_encoded_bytes())).collect()
    }

    /// The rules of a sparse checkout that leave out what is not wanted of a commit. The default gives none where the commit
    /// has nothing of it: most repositories need no sparse checkout then.
    pub fn left_out(&self, repo: &Repo, commit: CommitId) -> Result<Vec<String>, git::Error> {
        let is_needed = |entry: &&String| if is_default(entry) { has_directory(repo, commit, entry) } else { Ok(true) };
        let mut rules = Vec::new();
        for entry in &self.exclude {
            rules.extend(if is_needed(&entry)? { left_out(entry) } else { None });
        }
        Ok(rules)
    }

    /// The entries of `exclude` that leave nothing out of a worktree. Of the default that is no mistake.
    pub fn without_effect<'a>(&'a self, worktree: &mut Worktree) -> Result<Vec<&'a str>, git::Error> {
        let said = self.exclude.iter().filter(|entry| !is_default(entry));
        let rules = said.filter_map(|entry| Some((entry.as_str(), left_out(entry)?)));
        let (entries, rules): (Vec<&str>, Vec<String>) = rules.unzip();
        let has_effect = git::worktree::have_effect(worktree, &rules)?;
        Ok(entries.into_iter().zip(has_effect).filter(|(_, effect)| !effect).map(|(entry, _)| entry).collect())
    }

    /// Lets git ignore the place of worktrees when it lies in the user's checkout. That goes to the repository's
    /// own list of exclusions, which is no file of the checkout.
    pub fn hide_base(&self, repo: &Repo) -> Result<(), Error> {
        let (Some(base), Some(checkout)) = (&self.base, repo.workdir()) else { return Ok(()) };
        let io = |doing, path: &Path, source| Error::Io { doing, path: path.to_owned(), source };
        make_base(base)?;
        let (Ok(place), Ok(checkout)) = (base.canonicalize(), checkout.canonicalize()) else { return Ok(()) };
        let common = repo.common_dir();
        let in_git = common.canonicalize().is_ok_and(|git| place.starts_with(git));
        let Some(rule) = place.strip_prefix(&checkout).ok().and_then(exclusion).filter(|_| !in_git) else {
            return Ok(());
        };
        let file = common.join("info/exclude");
        let old = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(io("read", &file, source)),
        };
        if old.lines().any(|line| line == rule) {
            return Ok(());
        }
        let line = if old.is_empty() || old.ends_with('\n') { format!("{rule}\n") } else { format!("\n{rule}\n") };
        let write = || -> std::io::Result<()> {
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::OpenOptions::new().append(true).create(true).open(&file)?.write_all(line.as_bytes())
        };
        write().map_err(|source| io("write", &file, source))
    }

    /// Copies the `include_ignored` files of the user's checkout into a new worktree. What is not there is not
    /// missed; what git has put there already stays.
    pub fn copy_ignored(&self, checkout: Option<&Path>, copy: &Path) -> Result<(), Error> {
        let Some(checkout) = checkout else { return Ok(()) };
        for path in &self.include_ignored {
            let (from, to) = (checkout.join(path), copy.join(path));
            // Who has set the copy up may have put a link on the way.
            if from.symlink_metadata().is_ok() && to.symlink_metadata().is_err() && is_free(copy, path) {
                copy_tree(&from, &to).map_err(|source| Error::Io { doing: "copy", path: from, source })?;
            }
        }
        Ok(())
    }
}

fn is_default(entry: &str) -> bool {
    entry == EXCLUDED_BY_DEFAULT
}

/// Whether a commit has a directory at its root.
fn has_directory(repo: &Repo, commit: CommitId, name: &str) -> Result<bool, git::Error> {
    let entry = repo.tree_entry(repo.tree_of(commit)?, &RepoPath::new(name.trim_matches('/')))?;
    Ok(entry.is_some_and(|entry| entry.kind == EntryKind::Directory))
}

/// Creates the directory worktrees are created in.
pub fn make_base(base: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(base).map_err(|source| Error::NoBase { path: base.to_owned(), source })
}

/// Whether all parents of a path are directories or missing.
fn is_free(copy: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).map(|above| copy.join(above));
    above.into_iter().all(|above| above.symlink_metadata().map_or(true, |found| found.is_dir()))
}

/// The rule of a sparse checkout that leaves an entry of `exclude` out; none for names no rule can hold. What has
/// wildcards is git's to read: without a slash before its end it fits at any depth. Any other entry is a path from the root.
fn left_out(entry: &str) -> Option<String> {
    let (name, end) = (entry.trim_matches('/'), if entry.ends_with('/') { "/" } else { "" });
    let rule = if !name.contains(['*', '?', '[']) {
        exclusion(Path::new(name))?.trim_end_matches('/').to_owned()
    } else if name.contains('/') {
        format!("/{name}")
    } else {
        name.to_owned()
    };
    Some(format!("!{rule}{end}"))
}

/// The rule that ignores a directory of the checkout; none for the checkout itself and for names no rule can hold.
fn exclusion(dir: &Path) -> Option<String> {
    let name = dir.to_str().filter(|name| !name.is_empty() && !name.contains('\n'))?;
    let special = |c: char| matches!(c, '\\' | '*' | '?' | '[');
    let escaped: String = name.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect();
    Some(format!("/{escaped}/"))
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
    fn rules_hold_names_as_they_are() {
        assert_eq!(exclusion(Path::new(".orchestra/worktrees")).as_deref(), Some("/.orchestra/worktrees/"));
        assert_eq!(exclusion(Path::new("a[1]*\\ b")).as_deref(), Some("/a\\[1]\\*\\\\ b/"));
        assert_eq!(exclusion(Path::new("")), None);
    }

    #[test]
    fn what_is_left_out_is_said_in_rules() {
        let entries = ["CLAUDE.md", "a\\b", "docs/old/", "/", "*.bin", "docs/**/*.png", "gen*/"];
        let rules: Vec<String> = entries.iter().filter_map(|entry| left_out(entry)).collect();
        let expected = ["!/CLAUDE.md", "!/a\\\\b", "!/docs/old/", "!*.bin", "!/docs/**/*.png", "!gen*/"];
        assert_eq!(rules, expected);
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
