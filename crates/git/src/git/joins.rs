//! Merges by what their messages say, over histories too long to read in process.

use super::error::Error;
use super::repo::Repo;
use pleach_core::ids::CommitId;

/// The merges in the history of a commit that were made since a time and have a line that begins with some words: each with
/// its parents.
pub fn merges_since(
    repo: &Repo,
    tip: CommitId,
    since: i64,
    line: &str,
) -> Result<Vec<(CommitId, Vec<CommitId>)>, Error> {
    let args = ["rev-list", "--parents", "--min-parents=2", &format!("--since={since}"), &format!("--grep=^{line}")];
    let said = repo.shared.program.run(repo.git_dir(), args.into_iter().chain([&*tip.to_string(), "--"]))?.success()?;
    let commits = |line: &str| {
        let mut ids = line.split(' ').filter_map(|id| id.parse::<CommitId>().ok());
        Some((ids.next()?, ids.collect()))
    };
    Ok(String::from_utf8_lossy(&said).lines().filter_map(commits).collect())
}
