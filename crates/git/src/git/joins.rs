//! Commits that git finds by their place or by what their messages say, over histories too long to read in process.

use super::error::Error;
use super::repo::Repo;
use pleach_core::ids::CommitId;

/// The commits that some have in their history, themselves included, and others have not, oldest first.
pub fn commits_above(repo: &Repo, below: &[CommitId], tips: &[CommitId]) -> Result<Vec<CommitId>, Error> {
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
    let asked = asked + &below.iter().map(|tip| format!("^{tip}\n")).collect::<String>();
    let args = ["rev-list", "--topo-order", "--reverse", "--stdin"];
    let said = repo.shared.program.run_with_stdin(repo.git_dir(), args, asked.as_bytes())?.success()?;
    Ok(String::from_utf8_lossy(&said).lines().filter_map(|line| line.parse().ok()).collect())
}

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
