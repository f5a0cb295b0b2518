//! What the turns of a run have changed.

use std::collections::BTreeMap;

use engine::env::SessionRepos;
use engine::view::View;
use git::{Repo, TreeId};
use pleach_core::event::{Event, Snapshot};
use pleach_core::ids::{CommitId, RepoName};
use pleach_core::redact::Redactor;

/// The patches of turns, by repository and commit.
#[derive(Debug, Default)]
pub struct Diffs(BTreeMap<(RepoName, CommitId), String>);

impl Diffs {
    /// Reads the patches of all turns of a session, without secrets. A commit that is not in its repository has none.
    pub fn read(view: &View, repos: &SessionRepos, redactor: &Redactor) -> Result<Self, git::Error> {
        let mut commits: BTreeMap<&RepoName, Vec<CommitId>> = BTreeMap::new();
        for (_, recorded) in view.all_events() {
            let made = match &recorded.event {
                Event::AgentTurn(turn) => &turn.git_sha,
                Event::ToolExecution(tool) => &tool.git_sha,
                _ => continue,
            };
            for (name, commit) in made.iter().flatten() {
                commits.entry(name).or_default().push(*commit);
            }
        }
        let mut diffs = BTreeMap::new();
        for (name, commits) in commits {
            let Some(repo) = repos.get(name) else { continue };
            let found = commits.into_iter().map(|commit| Ok(trees(repo, commit)?.map(|trees| (commit, trees))));
            let found: Vec<_> = found.collect::<Result<Vec<_>, git::Error>>()?.into_iter().flatten().collect();
            let pairs: Vec<_> = found.iter().map(|(_, trees)| *trees).collect();
            let patches = git::diff::patches(repo, &pairs)?;
            let clean = found
                .iter()
                .zip(patches)
                .map(|((commit, _), patch)| ((name.clone(), *commit), without_secrets(redactor, &patch)));
            diffs.extend(clean);
        }
        Ok(Self(diffs))
    }

    /// The patches of a turn's commits, by repository. One that cannot be read is left out.
    pub fn of(&self, commits: &Snapshot) -> BTreeMap<RepoName, &str> {
        let patch = |(name, commit): (&RepoName, &CommitId)| {
            let patch = self.0.get(&(name.clone(), *commit)).filter(|patch| !patch.is_empty())?;
            Some((name.clone(), patch.as_str()))
        };
        commits.iter().filter_map(patch).collect()
    }
}

/// The trees before and after a commit; none where they are not here.
fn trees(repo: &Repo, commit: CommitId) -> Result<Option<(TreeId, TreeId)>, git::Error> {
    let read = || {
        let commit = repo.commit(commit)?;
        Ok(repo.tree_before(&commit)?.map(|before| (before, commit.tree)))
    };
    match read() {
        Err(error) if git::Error::is_damage(&error) => Ok(None),
        trees => trees,
    }
}

/// A patch without secrets. A secret of several lines is one also where each line has a mark before it.
fn without_secrets(redactor: &Redactor, patch: &str) -> String {
    let mut clean = String::with_capacity(patch.len());
    let lines: Vec<&str> = patch.lines().collect();
    let mark = |line: &str| line.chars().next().filter(|first| " +-".contains(*first));
    for lines in lines.chunk_by(|one, two| mark(one) == mark(two)) {
        let mark = lines.first().and_then(|line| mark(line));
        let marked = mark.map(String::from).unwrap_or_default();
        let text = lines.iter().map(|line| &line[marked.len()..]).collect::<Vec<_>>().join("\n");
        for line in redactor.text(&text).split('\n') {
            clean.push_str(&marked);
            clean.push_str(line);
            clean.push('\n');
        }
    }
    redactor.text(&clean).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_several_lines_is_found_in_a_patch() {
        let redactor = Redactor::new([("DEPLOY_SECRET", "first line\nsecond line"), ("API_TOKEN", "hunter42!x")]);
        let patch = "@@ -1 +1,4 @@\n-first line\n-second line\n+a\n+first line\n+second line\n hunter42!x\n";
        let expected =
            "@@ -1 +1,4 @@\n-[redacted:DEPLOY_SECRET]\n+a\n+[redacted:DEPLOY_SECRET]\n [redacted:API_TOKEN]\n";
        assert_eq!(without_secrets(&redactor, patch), expected);
        let plain = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        assert_eq!(without_secrets(&redactor, plain), plain);
    }
}
