//! A history with conflicts of every kind, each resolved as people do: one side, both, something new.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use git::{BlobId, CommitSpec, Durability, EntryKind, Person, Repo, TreeEdit, TreeId};
use pleach_core::config::Environment;
use pleach_core::ids::CommitId;

use super::borrowed;
use super::random::Random;
use super::scenario::{self, SideFiles};

/// One in so many merges is clean, and one in so many of these was changed by whoever committed it.
const CLEAN: usize = 5;

const MAIN: &str = "refs/heads/main";

/// The second of the first commit.
const START: i64 = 1_700_000_000;

/// Makes a repository with so many conflicting merges on `main`.
pub fn generate(dir: &Path, count: usize, seed: u64) -> Result<(), Box<dyn Error>> {
    if dir.exists() {
        return Err(format!("{} is there already", dir.display()).into());
    }
    std::fs::create_dir_all(dir)?;
    borrowed::git(dir, &["init", "-q", "--bare", "-b", "main", "."])?;
    let first = first_commit(dir)?;
    let repo = git::discover(dir, &Environment::capture())?.with_durability(Durability::None);
    let mut history = GeneratedHistory { repo: &repo, tip: first, seconds: START };
    let mut random = Random::new(seed);
    for number in 0..count {
        if number % CLEAN == 0 {
            let is_changed = number % (CLEAN * 4) == 0;
            history.merge(&scenario::clean(&mut random, number, is_changed))?;
        }
        history.merge(&scenario::conflicting(&mut random, number))?;
    }
    repo.refs().swap(MAIN, Some(first), history.tip, "generated")?;
    Ok(())
}

/// A commit without files: a repository without one cannot be opened.
fn first_commit(dir: &Path) -> Result<CommitId, Box<dyn Error>> {
    let tree = borrowed::git(dir, &["hash-object", "-t", "tree", "-w", "/dev/null"])?;
    let file = dir.join("first");
    std::fs::write(
        &file,
        format!("tree {tree}\nauthor A <a@b> {START} +0000\ncommitter A <a@b> {START} +0000\n\nfirst\n"),
    )?;
    let commit = borrowed::git(dir, &["hash-object", "-t", "commit", "-w", "first"])?;
    std::fs::remove_file(file)?;
    borrowed::git(dir, &["update-ref", MAIN, &commit])?;
    Ok(commit.parse()?)
}

struct GeneratedHistory<'a> {
    repo: &'a Repo,
    tip: CommitId,
    seconds: i64,
}

impl GeneratedHistory<'_> {
    /// Adds a merge: what both start from, both sides, and what was made of them.
    fn merge(&mut self, [base, ours, theirs, committed]: &[SideFiles; 4]) -> Result<(), Box<dyn Error>> {
        let start = self.commit(base, vec![self.tip], "start")?;
        let sides = [self.commit(ours, vec![start], "ours")?, self.commit(theirs, vec![start], "theirs")?];
        self.tip = self.commit(committed, sides.to_vec(), "merge")?;
        Ok(())
    }

    fn commit(&mut self, files: &SideFiles, parents: Vec<CommitId>, subject: &str) -> Result<CommitId, Box<dyn Error>> {
        let tree = write(self.repo, files)?;
        self.seconds += 1;
        let author = Person::new("A U Thor", "author@example.org");
        let mut writer = self.repo.writer();
        let commit = writer.commit(&CommitSpec {
            tree,
            parents,
            committer: author.clone(),
            author,
            message: format!("{subject}\n").into_bytes(),
            at: jiff::Timestamp::from_second(self.seconds)?,
        })?;
        writer.flush()?;
        Ok(commit)
    }
}

fn write(repo: &Repo, files: &BTreeMap<String, (EntryKind, Vec<u8>)>) -> Result<TreeId, Box<dyn Error>> {
    let mut writer = repo.writer();
    let mut edits = Vec::new();
    for (path, (kind, content)) in files {
        let id = match kind {
            EntryKind::Submodule => BlobId::from_bytes(content.as_slice().try_into()?),
            _ => writer.blob(content)?,
        };
        edits.push(TreeEdit::Put(path.as_str().into(), *kind, id));
    }
    let tree = writer.tree(None, &edits)?;
    writer.flush()?;
    Ok(tree)
}
