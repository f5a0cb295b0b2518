//! A repository whose commits are made in process, each a second after the last.

use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use engine::tree::progress::{self, Error};
use git::{CommitSpec, Durability, Person, Repo};
use pleach_core::config::Environment;
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::progress::{Progress, TaskState, TaskStatus};
use pleach_core::step::{Step, StepKind, TestFacts, TestKind, TreeName};
use tempfile::TempDir;

/// The tree file the steps of these tests name.
pub const TREE: &str = "task-tree.json";

pub struct World {
    dir: TempDir,
    pub repo: Repo,
    pub now: Cell<i64>,
}

impl World {
    pub fn new() -> Self {
        Self::on("main")
    }

    /// With a first commit on a branch of that name.
    pub fn on(branch: &str) -> Self {
        let dir = TempDir::with_prefix("pleach steps ").unwrap();
        git(dir.path(), &["init", "-q", "-b", branch], b"");
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "start"], b"");
        let repo = open(dir.path());
        Self { dir, repo, now: Cell::new(1_700_000_000) }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn cache_files(&self) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.repo.common_dir().join("pleach/cache"));
        dir.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(self.path(), args, b"")
    }

    pub fn tip(&self, branch: &str) -> CommitId {
        self.repo.refs().find(&format!("refs/heads/{branch}")).unwrap().unwrap()
    }

    /// Puts a branch somewhere, whether it is there or not.
    pub fn place(&self, branch: &str, at: CommitId) {
        let name = format!("refs/heads/{branch}");
        let old = self.repo.refs().find(&name).unwrap();
        if old != Some(at) {
            self.repo.refs().swap(&name, old, at, "test").unwrap();
        }
    }

    /// A commit on top of others, on no branch.
    pub fn commit(&self, parents: &[CommitId], message: impl AsRef<[u8]>, at: i64) -> CommitId {
        let mut writer = self.repo.writer();
        let spec = CommitSpec {
            tree: self.repo.tree_of(parents[0]).unwrap(),
            parents: parents.to_vec(),
            author: Person::pleach(),
            committer: Person::pleach(),
            message: message.as_ref().to_vec(),
            at: jiff::Timestamp::from_second(at).unwrap(),
        };
        let id = writer.commit(&spec).unwrap();
        writer.flush().unwrap();
        id
    }

    /// A commit on a branch.
    pub fn say(&self, branch: &str, message: impl AsRef<[u8]>) -> CommitId {
        self.now.set(self.now.get() + 1);
        let id = self.commit(&[self.tip(branch)], message, self.now.get());
        self.place(branch, id);
        id
    }

    /// Merges one branch into another.
    pub fn merge(&self, into: &str, from: &str) {
        self.now.set(self.now.get() + 1);
        let id = self.commit(&[self.tip(into), self.tip(from)], "merge", self.now.get());
        self.place(into, id);
    }

    pub fn read(&self, target: &str, tree: &str, base: Option<&str>) -> Result<Progress, Error> {
        let base = base.map(|base| BranchName::new(base).unwrap());
        progress::read(&self.repo, &BranchName::new(target).unwrap(), &named(tree), "pleach/", base.as_ref())
    }

    pub fn progress(&self, target: &str) -> Progress {
        self.read(target, TREE, None).unwrap()
    }

    pub fn task(&self, target: &str, id: &str) -> TaskState {
        self.progress(target).task(&task(id)).clone()
    }

    pub fn status(&self, target: &str, id: &str) -> TaskStatus {
        self.task(target, id).status
    }

    /// The trailers git finds in a message.
    pub fn trailers_by_git(text: &str) -> Vec<(String, String)> {
        let here = std::env::temp_dir();
        let lines = git(&here, &["interpret-trailers", "--parse"], text.as_bytes());
        let split = |line: &str| {
            let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{line}"));
            (key.to_owned(), value.trim_ascii().to_owned())
        };
        lines.lines().map(split).collect()
    }
}

pub fn task(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

/// The message of a step of our own making: `say("main", "T001", "test-fail", 0)`.
pub fn step(target: &str, id: &str, status: &str, retry: u32) -> String {
    step_of(TREE, target, id, status, retry)
}

pub fn step_of(tree: &str, target: &str, id: &str, status: &str, retry: u32) -> String {
    let kinds = [
        ("implement", StepKind::Implement),
        ("test", StepKind::Test),
        ("review", StepKind::Review),
        ("lint", StepKind::from_word("lint").unwrap()),
        ("complete", StepKind::Complete),
        ("failed", StepKind::Complete),
        ("skipped", StepKind::Complete),
        ("reset", StepKind::Reset),
    ];
    let (_, kind) = kinds.iter().find(|(word, _)| status.starts_with(word)).unwrap();
    let bad = ["-fail", "-rejected", "failed"].iter().any(|end| status.ends_with(end));
    let facts = TestFacts { kind: TestKind::Unit, counts: None, runtime: Default::default(), log: None };
    let step = Step {
        retry: Some(retry),
        test: (*kind == StepKind::Test).then_some(facts),
        skipped: status == "skipped",
        tree: Some(tree.to_owned()),
        ..Step::new(Some(task(id)), kind.clone(), !bad)
    };
    assert_eq!(step.status(), status);
    step.message(target, "Name", None, &format!("words about {status} {retry}")).write()
}

/// The tree with its file at this path.
pub fn named(path: &str) -> TreeName {
    TreeName::File(path.to_owned())
}

pub fn run_start(target: &str, tree: &str) -> String {
    Step::run_start(tree).message(target, "", None, "").write()
}

/// A message as the original wrote it before it named branches.
pub fn old(id: &str, word: &str, trailer: &str) -> String {
    format!("task({id}): {word} \"Name\"\n\nArborist-Step: {word}\n{trailer}\n")
}

pub fn open(dir: &Path) -> Repo {
    git::discover(dir, &Environment::from_pairs(variables())).unwrap().with_durability(Durability::None)
}

#[expect(clippy::disallowed_methods, reason = "the one variable the tests take over: where git is")]
fn variables() -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", "/nowhere".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
    ];
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        variables.push((name, "test".into()));
    }
    for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
        variables.push((name, "1600000000 +0000".into()));
    }
    variables
}

/// Runs git, which must succeed, and gives what it printed.
pub fn git(dir: &Path, args: &[&str], input: &[u8]) -> String {
    let mut command = crate::real_git::command();
    command.args(args).current_dir(dir).envs(variables());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
