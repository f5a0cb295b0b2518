//! Files that commands make again in the merge of a fan-in, in its own worktree.

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::worker::block;
use super::{Stopped, Worker, command};
use crate::merging::{self, MergeResult, MergeSide, TierResult};
use git::workspace::{self, CopyPosition};
use git::{Repo, TreeEdit, TreeId};
use pleach_core::event::Outcome;
use pleach_core::ids::{CommitId, RepoName, RepoPath};

/// Merges a side whose derived files were in conflict: runs their commands in the merged files, and takes what they make
/// of the files that are theirs. An outcome if a command fails.
pub(super) async fn derive(
    worker: &mut Worker,
    (name, repo): (&RepoName, &Repo),
    (ours, side): (CommitId, &MergeSide),
    tried: TierResult,
    (cancel, end): (&NodeCancel, &mut Collected),
) -> Result<Result<MergeResult, Outcome>, Stopped> {
    let before = block(|| Ok(merging::merge_commit(repo, tried.tree, ours, side)?))?;
    worker.place([(name, CopyPosition::all(before))].into_iter())?;
    let Some(dir) = worker.workspace.copy(name).map(|copy| copy.path().to_owned()) else {
        return Ok(Err(Outcome::fail(format!("there is no worktree of `{name}`"))));
    };
    for run in &tried.derived {
        let called = format!("`{}`, which makes derived files,", run.command);
        if let Some(red) = command::check(worker, (&run.command, &dir), &called, cancel, end).await? {
            return Ok(Err(red));
        }
    }
    let made = block(|| {
        let mut changes = worker.workspace.scan(None)?;
        changes.flush()?;
        Ok(changes.of(name).map_or(tried.tree, |change| change.tree))
    })?;
    let rules = worker.engine.tiers.derived.for_files(tried.derived.iter().flat_map(|run| &run.paths));
    let tree = block(|| Ok(take_derived(repo, tried.tree, made, |path| rules.command_of(path).is_some())?))?;
    let merged = block(|| merging::merge_resolved(repo, ours, side, (tried, tree), rules))?;
    // Whatever else was written is kept when the worktree moves on.
    if let (MergeResult::Merged(commit), true) = (&merged, made == tree)
        && let Some(copy) = worker.workspace.copy_mut(name)
    {
        block(|| workspace::rebase_to(copy, *commit))?;
    }
    Ok(Ok(merged))
}

/// A tree with those files of another that are derived.
fn take_derived(
    repo: &Repo,
    tree: TreeId,
    made: TreeId,
    is_derived: impl Fn(&RepoPath) -> bool,
) -> Result<TreeId, git::Error> {
    let mut edits = Vec::new();
    for change in git::diff::changes(repo, tree, made)?.into_iter().filter(|change| is_derived(&change.path)) {
        edits.push(match repo.tree_entry(made, &change.path)? {
            Some(entry) => TreeEdit::Put(change.path, entry.kind, entry.id),
            None => TreeEdit::Remove(change.path),
        });
    }
    let mut writer = repo.writer();
    let tree = writer.tree(Some(tree), &edits)?;
    writer.flush()?;
    Ok(tree)
}
