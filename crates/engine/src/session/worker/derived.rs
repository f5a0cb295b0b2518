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
    name: &RepoName,
    ours: CommitId,
    side: &MergeSide,
    tried: TierResult,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Result<MergeResult, Outcome>, Stopped> {
    let Some(copy) = worker.workspace.copy(name) else {
        return Ok(Err(Outcome::fail(format!("there is no worktree of `{name}`"))));
    };
    let (repo, dir) = (&copy.repo.clone(), copy.path().to_owned());
    let before = block(|| Ok(merging::merge_commit(repo, tried.tree, ours, side)?))?;
    worker.place([(name, CopyPosition::all(before))].into_iter())?;
    for run in &tried.derived {
        let called = format!("`{}`, which makes derived files,", run.command);
        if let Some(red) = command::check(worker, &run.command, &dir, &called, cancel, end).await? {
            return Ok(Err(red));
        }
    }
    let scanned = block(|| {
        let mut changes = worker.workspace.scan(None)?;
        changes.flush()?;
        Ok(changes.of(name).map_or(tried.tree, |change| change.tree))
    })?;
    let rules = worker.engine.tiers.derived.for_files(tried.derived.iter().flat_map(|run| &run.paths));
    let tree = block(|| Ok(take_derived(repo, tried.tree, scanned, |path| rules.command_of(path).is_some())?))?;
    let merged = block(|| merging::merge_resolved(repo, ours, side, tried, tree, rules))?;
    // Whatever else was written is kept when the worktree moves on.
    if let (MergeResult::Merged(commit), true) = (&merged, scanned == tree)
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
    from: TreeId,
    is_derived: impl Fn(&RepoPath) -> bool,
) -> Result<TreeId, git::Error> {
    let mut edits = Vec::new();
    for change in git::diff::changes(repo, tree, from)?.into_iter().filter(|change| is_derived(&change.path)) {
        edits.push(match repo.tree_entry(from, &change.path)? {
            Some(entry) => TreeEdit::Put(change.path, entry.kind, entry.id),
            None => TreeEdit::Remove(change.path),
        });
    }
    let mut writer = repo.writer();
    let tree = writer.tree(Some(tree), &edits)?;
    writer.flush()?;
    Ok(tree)
}
