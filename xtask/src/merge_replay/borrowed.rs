//! A repository of its own that reads the objects of another, to which nothing is written.

use std::error::Error;
use std::path::{Path, PathBuf};

use git::{Durability, Repo};
use pleach_core::config::Environment;
use pleach_core::ids::CommitId;
use tempfile::TempDir;

use crate::cargo;

/// A merge commit: itself, what it was merged into, and what was merged.
pub struct MergeCommit {
    pub id: CommitId,
    pub ours: CommitId,
    pub theirs: CommitId,
}

/// A repository whose new objects go to a temporary directory.
pub struct BorrowedRepo {
    dir: TempDir,
    source: PathBuf,
    pub repo: Repo,
    pub is_shallow: bool,
    pub is_partial: bool,
}

impl BorrowedRepo {
    pub fn new(source: &Path) -> Result<Self, Box<dyn Error>> {
        let dir = TempDir::with_prefix("pleach-replay-")?;
        let place = |what| {
            Ok::<_, Box<dyn Error>>(PathBuf::from(git(
                source,
                &["rev-parse", "--path-format=absolute", "--git-path", what],
            )?))
        };
        let (objects, shallow) = (place("objects")?, place("shallow")?);
        git(dir.path(), &["init", "-q", "--bare", "repo"])?;
        let repo = dir.path().join("repo");
        std::fs::write(repo.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
        let is_shallow = shallow.is_file();
        if is_shallow {
            std::fs::copy(shallow, repo.join("shallow"))?;
        }
        // A repository without a commit cannot be opened.
        git(&repo, &["update-ref", "HEAD", &git(source, &["rev-list", "--all", "--max-count=1"])?])?;
        let is_partial = git(source, &["config", "--get-regexp", r"^remote\..*\.promisor$"]).is_ok();
        let repo = git::discover(&repo, &Environment::capture())?.with_durability(Durability::None);
        Ok(Self { dir, source: source.to_owned(), repo, is_shallow, is_partial })
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The merges of two commits that any ref has, the oldest first; of more than `limit` the newest.
    pub fn merges(&self, limit: Option<usize>) -> Result<Vec<MergeCommit>, Box<dyn Error>> {
        let count = limit.map(|limit| format!("--max-count={limit}"));
        let args = ["rev-list", "--topo-order", "--parents", "--min-parents=2", "--max-parents=2"];
        let args: Vec<&str> =
            args.into_iter().chain(count.as_deref()).chain(["--exclude=refs/pleach/*", "--all"]).collect();
        let listed = git(&self.source, &args)?;
        let mut merges = Vec::new();
        for line in listed.lines().rev() {
            let ids = line.split(' ').map(str::parse).collect::<Result<Vec<CommitId>, _>>()?;
            let [id, ours, theirs] = ids[..] else { return Err(format!("git lists `{line}`").into()) };
            merges.push(MergeCommit { id, ours, theirs });
        }
        Ok(merges)
    }
}

/// What git prints; its own words if it fails.
pub fn git(dir: &Path, args: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut command = cargo::program(dir, Path::new("git"));
    let output = command.args(args).env("LC_ALL", "C").env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").output()?;
    if !output.status.success() {
        return Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
