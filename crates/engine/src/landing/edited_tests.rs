//! Work that edits the files its own tests are started from: it has passed what it has written itself.

use crate::env::Engine;
use git::{ChangeKind, Repo};
use pleach_core::event::WarningCode;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::queue::{MergeTests, QueueEntry, starts_from};
use pleach_core::text::named;

/// The files these commands start from that differ between two commits. New files do not count.
pub fn edited_tests<'c>(
    repo: &Repo,
    from: CommitId,
    to: CommitId,
    commands: impl IntoIterator<Item = &'c str>,
) -> Result<Vec<RepoPath>, git::Error> {
    let commands: Vec<&str> = commands.into_iter().collect();
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let changes = git::diff::changes(repo, repo.tree_of(from)?, repo.tree_of(to)?)?.into_iter();
    let old = changes.filter(|change| !matches!(change.kind, ChangeKind::Added(..))).map(|change| change.path);
    let is_started = |path: &RepoPath| commands.iter().any(|command| starts_from(command, &path.to_string()));
    Ok(old.filter(is_started).collect())
}

/// The warning for work that edits them.
pub(crate) fn edited_words(name: &str, paths: &[RepoPath]) -> String {
    format!("{name} has changed {}, which its tests are started from", named(paths))
}

/// Warns if a landed entry has edited its tests.
pub(super) fn warn_of_edited_tests(engine: &Engine, repo: &Repo, entry: &QueueEntry, tests: &MergeTests) {
    let Some(landing) = entry.landing else { return };
    let tests = tests.of([entry]);
    let commands = tests.iter().map(|test| test.command.as_str());
    // It has landed, even if it cannot be read now.
    let edited = edited_tests(repo, landing.from, landing.to, commands).unwrap_or_default();
    if !edited.is_empty() {
        engine.warn(WarningCode::TestsEdited.with(edited_words(&entry.name(), &edited)));
    }
}
