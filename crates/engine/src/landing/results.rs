//! What tests have said about files: one ref with a tree inside, by the tree that was tested and the commands. Files that
//! were tested once are not tested again, whoever merges to them.

use serde::{Deserialize, Serialize};

use super::error::{QueueError, outrun};
use super::settings::QueueSettings;
use git::record::entries::queue_ref;
use git::{CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, RepoPath};
use pleach_core::queue::{EntryTest, QueueEntry};
use pleach_core::step::report;

/// Attempts at a write that loses races.
const TRIES: usize = 100;

/// How many trees are kept. Beyond that all are dropped, or every result would cost more than the last.
const MOST: usize = 1_000;

/// What tests have said about files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TestResult {
    pub passed: bool,
    /// It passed when it was run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flaky: bool,
    /// How the deciding command ended.
    pub exit: String,
    pub seconds: u64,
    /// What they printed, if they failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}

/// A result's key: files, and the commands run on them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResultKey {
    tree: TreeId,
    commands: String,
}

impl ResultKey {
    /// The key for the files of a tree, without pleach's own logs and reports in these directories: they are not code,
    /// and differ with every run.
    pub(super) fn new(
        repo: &Repo,
        tree: TreeId,
        tests: &[EntryTest],
        settings: &QueueSettings,
    ) -> Result<Self, git::Error> {
        let QueueSettings { logs, reports, .. } = settings;
        let mut own = Vec::new();
        for dir in [logs.as_str(), reports] {
            let Some(entry) = repo.tree_entry(tree, &RepoPath::from(dir))? else { continue };
            if entry.kind != EntryKind::Directory {
                continue;
            }
            for file in repo.tree_entries(TreeId::from_bytes(*entry.id.as_bytes()))? {
                let path = RepoPath::new([dir.as_bytes(), b"/", file.path.as_bytes()].concat());
                if report::is_own(&path, logs, reports) {
                    own.push(TreeEdit::Remove(path));
                }
            }
        }
        let mut writer = repo.writer();
        let tree = if own.is_empty() { tree } else { writer.tree(Some(tree), &own)? };
        let commands = tests.iter().map(|test| format!("{}\0{}\0", test.command, test.timeout)).collect::<String>();
        Ok(Self { tree, commands: writer.blob(commands.as_bytes())?.to_string() })
    }

    /// The key for whether the tests notice that the only file of the tree is empty.
    pub(super) fn of_coverage(self) -> Self {
        Self { commands: format!("{}-empty", self.commands), ..self }
    }

    fn path(&self) -> RepoPath {
        RepoPath::new(format!("{}/{}", self.tree, self.commands))
    }
}

/// The result of earlier tests, if there is one.
pub(super) fn known(repo: &Repo, target: &BranchName, key: &ResultKey) -> Result<Option<TestResult>, QueueError> {
    let name = queue_ref(target, "results");
    let Some(at) = repo.refs().find(&name)? else { return Ok(None) };
    let Some(text) = repo.tree_file(repo.tree_of(at)?, &key.path())? else { return Ok(None) };
    // If unreadable, the tests run again.
    Ok(serde_json::from_slice(&text).ok())
}

/// Records that an entry's head passed its tests where it was made, so that they do not run again if it lands
/// unchanged.
pub(crate) fn note_tested(repo: &Repo, entry: &QueueEntry, settings: &QueueSettings) -> Result<(), QueueError> {
    let tests = settings.tests.of([entry]);
    if !entry.tested || settings.tests.always.is_some() || entry.tests.is_empty() {
        return Ok(());
    }
    let key = ResultKey::new(repo, repo.tree_of(entry.head)?, &tests, settings)?;
    if known(repo, &entry.target, &key)?.is_some() {
        return Ok(());
    }
    let passed = TestResult { passed: true, flaky: false, exit: "exit 0".to_owned(), seconds: 0, log: String::new() };
    note(repo, &entry.target, &key, &passed)
}

/// Records a result for later tests of these files.
pub(super) fn note(repo: &Repo, target: &BranchName, key: &ResultKey, result: &TestResult) -> Result<(), QueueError> {
    let name = queue_ref(target, "results");
    let text = serde_json::to_vec_pretty(result).expect("a result holds nothing JSON cannot");
    for _ in 0..TRIES {
        let old = repo.refs().find(&name)?;
        let mut writer = repo.writer();
        let blob = writer.blob(&text)?;
        let base = old.map(|old| repo.tree_of(old)).transpose()?;
        let is_full = |tree: &TreeId| Ok::<_, git::Error>(repo.tree_entries(*tree)?.len() >= MOST);
        let base = match base {
            Some(tree) if is_full(&tree)? => None,
            base => base,
        };
        let tree = writer.tree(base, &[TreeEdit::Put(key.path(), EntryKind::File, blob)])?;
        let commit = writer.commit(&CommitSpec {
            tree,
            // Results are a cache: the tree has them all, and a history would only grow.
            parents: Vec::<CommitId>::new(),
            author: Person::pleach(),
            committer: Person::pleach(),
            message: b"Results of tests in the merge queue\n".to_vec(),
            at: clock::now(),
        })?;
        writer.flush()?;
        if old == Some(commit) {
            return Ok(());
        }
        match repo.refs().swap(&name, old, commit, "pleach: tested") {
            Ok(()) => return Ok(()),
            Err(error) => outrun(error)?,
        }
    }
    Err(QueueError::Contended(target.clone()))
}
