//! A directory with a home of its own, for tests that need repositories and the real git.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use git::{BuiltTree, CommitLimits, CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId, Worktree};
use pleach_core::config::Environment;
use pleach_core::event::Warning;
use pleach_core::ids::{CommitId, RepoPath};
use tempfile::TempDir;

/// A directory with a home of its own, and git in it untouched by the machine's settings.
pub struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    pub fn empty() -> Self {
        let dir = TempDir::with_prefix("pleach git ").unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// With a repository `repo` that has one commit: `a.txt`, `src/b.txt`, `run.sh`.
    pub fn new() -> Self {
        let sandbox = Self::empty();
        sandbox.git(".", &["init", "-q", "-b", "main", "repo"]);
        sandbox.write("repo/a.txt", "a\n");
        sandbox.write("repo/src/b.txt", "b\n");
        sandbox.write("repo/run.sh", "#!/bin/sh\n");
        fs::set_permissions(sandbox.path("repo/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        sandbox.commit("repo", "start");
        sandbox
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes a program. Another process does: one that was written by this one is busy as long as a child that another
    /// test has just started to start still has it open.
    #[expect(clippy::disallowed_methods, reason = "a program nobody in this process has had open")]
    pub fn write_program(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let (text, program) = (format!("{path}.text"), self.path(path));
        self.write(&text, content);
        let made = Command::new("install").args(["-m", "755"]).args([self.path(&text), program.clone()]).status();
        assert!(made.unwrap().success());
        fs::remove_file(self.path(&text)).unwrap();
        program
    }

    pub fn commit(&self, dir: &str, message: &str) {
        self.git(dir, &["add", "-A"]);
        self.git(dir, &["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Commits the link of a submodule that is not checked out.
    pub fn submodule(&self, dir: &str, path: &str) {
        fs::create_dir_all(self.path(dir).join(path)).unwrap();
        let link = format!("160000,{},{path}", self.git(dir, &["rev-parse", "HEAD"]));
        self.git(dir, &["update-index", "--add", "--cacheinfo", &link]);
        self.git(dir, &["commit", "-q", "-m", "a submodule"]);
    }

    #[expect(clippy::disallowed_methods, reason = "the one variable the tests take over: where git is")]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", self.path("home").to_str().unwrap().to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_AUTHOR_NAME", "A U Thor".into()),
            ("GIT_AUTHOR_EMAIL", "author@example.com".into()),
            ("GIT_AUTHOR_DATE", "1700000000 +0000".into()),
            ("GIT_COMMITTER_NAME", "C O Mitter".into()),
            ("GIT_COMMITTER_EMAIL", "committer@example.com".into()),
            ("GIT_COMMITTER_DATE", "1700000000 +0000".into()),
        ]
    }

    pub fn environment(&self) -> Environment {
        Environment::from_pairs(self.variables())
    }

    pub fn try_git<A: AsRef<OsStr>>(&self, dir: impl AsRef<Path>, args: &[A]) -> Result<Vec<u8>, String> {
        let output = crate::real_git::command()
            .args(args)
            .current_dir(self.dir.path().join(dir))
            .envs(self.variables())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(output.stdout) } else { Err(words) }
    }

    /// Runs git, which must succeed, and gives what it printed.
    pub fn git<A: AsRef<OsStr> + std::fmt::Debug>(&self, dir: impl AsRef<Path>, args: &[A]) -> String {
        let output = self.try_git(dir, args).unwrap_or_else(|error| panic!("git {args:?}: {error}"));
        String::from_utf8_lossy(&output).trim_end().to_owned()
    }

    pub fn open(&self, dir: &str) -> Repo {
        git::discover(&self.path(dir), &self.environment()).unwrap()
    }

    pub fn worktree(&self, repo: &Repo) -> Worktree {
        git::worktree::add(repo, &self.path("work trees/one"), repo.head().unwrap().commit).unwrap()
    }

    /// The tree git itself would commit, without touching the worktree's index.
    pub fn git_tree(&self, worktree: &Path) -> String {
        let index = self.git(worktree, &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        let backup = fs::read(&index).unwrap();
        self.git(worktree, &["add", "-A", "--sparse"]);
        let tree = self.git(worktree, &["write-tree"]);
        fs::write(&index, backup).unwrap();
        tree
    }
}

pub fn person() -> Person {
    Person::new("pleach", "pleach@local")
}

pub fn spec(tree: TreeId, parents: &[CommitId], message: &str) -> CommitSpec {
    CommitSpec {
        tree,
        parents: parents.to_vec(),
        author: person(),
        committer: person(),
        message: message.into(),
        at: jiff::Timestamp::from_second(1_700_000_000).unwrap(),
    }
}

/// Scans everything, writes the tree and takes it as recorded.
pub fn record(repo: &Repo, worktree: &mut Worktree) -> BuiltTree {
    let mut writer = repo.writer();
    let scan = git::worktree::scan_all(worktree).unwrap();
    let written = git::worktree::commit_tree(worktree, &scan, &mut writer, &CommitLimits::default()).unwrap();
    writer.flush().unwrap();
    worktree.accept(written.tree).unwrap();
    written
}

/// Warnings as `code: text`.
pub fn told(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(|warning| format!("{}: {warning}", warning.code.as_str())).collect()
}

pub fn names(paths: &[RepoPath]) -> Vec<String> {
    paths.iter().map(|path| path.to_string()).collect()
}

/// A commit on `parent` with other files; `None` removes one.
pub fn advance(repo: &Repo, parent: CommitId, files: &[(&str, Option<&str>)], message: &str) -> CommitId {
    let mut writer = repo.writer();
    let mut edits = Vec::new();
    for (path, content) in files {
        edits.push(match content {
            Some(text) => TreeEdit::Put((*path).into(), EntryKind::File, writer.blob(text.as_bytes()).unwrap()),
            None => TreeEdit::Remove((*path).into()),
        });
    }
    let tree = writer.tree(Some(repo.tree_of(parent).unwrap()), &edits).unwrap();
    let commit = writer.commit(&spec(tree, &[parent], message)).unwrap();
    writer.flush().unwrap();
    commit
}
