//! Merge conflicts a node has resolved: its files become the merge commit.

use super::Context;
use crate::env::Error;
use crate::merging::{self, ConflictSides, MergeSide};
use git::workspace::Changes;
use pleach_core::clock;
use pleach_core::event::{Event, Outcome, WorktreeMergeConflict, WorktreeMerged};
use pleach_core::ids::RepoPath;
use pleach_core::plan::pipeline::Node;
use pleach_core::route::{self, MERGE_CONFLICTS};
use pleach_core::state::State;
use pleach_core::trailer::CommitMessage;

/// Makes the merge commit of what a node has resolved, on top of its own commits. A conflict that is left fails the node.
pub(super) fn resolve(
    context: &mut Context,
    node: &Node,
    outcome: Outcome,
    changes: &mut Option<Changes>,
) -> Result<(Outcome, Vec<Event>), Error> {
    let conflicts: Vec<WorktreeMergeConflict> = context.state.next_conflict().into_iter().cloned().collect();
    let again = route::repeats_fan_out(&context.state, &outcome);
    if conflicts.is_empty() || again || !node.may_resolve() || !outcome.status.is_success() {
        return Ok((outcome, Vec::new()));
    }
    // Its turns may have looked only at what the agent wrote.
    let mut node_changes = match changes.take() {
        Some(node_changes) => node_changes,
        None => context.working_mut().scan(None)?,
    };
    node_changes.flush()?;
    let left = unresolved(context, &conflicts, &node_changes)?;
    let resolved = if left.is_empty() { merge(context, node, &conflicts, &mut node_changes)? } else { Vec::new() };
    *changes = Some(node_changes);
    if !left.is_empty() {
        let context_updates = outcome.context_updates;
        let why = merging::left_words(&left);
        return Ok((Outcome { context_updates, ..Outcome::fail(why) }, Vec::new()));
    }
    let open: Vec<WorktreeMergeConflict> =
        context.state.conflicts.iter().filter(|conflict| !conflicts.contains(conflict)).cloned().collect();
    let mut outcome = outcome;
    outcome.context_updates.insert(MERGE_CONFLICTS.to_owned(), merging::conflicts_value(&open));
    Ok((outcome, resolved))
}

/// The files that are still in conflict.
fn unresolved(
    context: &Context,
    conflicts: &[WorktreeMergeConflict],
    changes: &Changes,
) -> Result<Vec<RepoPath>, Error> {
    let mut left = Vec::new();
    for conflict in conflicts {
        let (copy, change) = (context.working().copy(&conflict.repo), changes.of(&conflict.repo));
        if let Some((copy, (change, sides))) = copy.zip(change.zip(sides(&context.state, conflict))) {
            left.extend(merging::unresolved(&copy.repo, &sides, change.tree)?);
        }
    }
    Ok(left)
}

/// Both sides of a conflict.
pub(crate) fn sides(state: &State, conflict: &WorktreeMergeConflict) -> Option<ConflictSides> {
    let paths = conflict.paths.iter().map(|path| path.path.clone()).collect();
    Some(ConflictSides { ours: *state.merged_work.get(&conflict.repo)?, theirs: conflict.theirs, paths })
}

fn merge(
    context: &Context,
    node: &Node,
    conflicts: &[WorktreeMergeConflict],
    changes: &mut Changes,
) -> Result<Vec<Event>, Error> {
    let mut events = Vec::new();
    for conflict in conflicts {
        let Some(copy) = context.working().copy(&conflict.repo) else { continue };
        let message = CommitMessage {
            subject: format!("Merge branch {}", conflict.context),
            body: format!("Conflicts resolved by {}.", node.id),
            trailers: vec![
                ("Orchestra-Node".into(), node.id.to_string()),
                ("Orchestra-Pipeline".into(), context.plan.started.name.to_string()),
                ("Orchestra-Session".into(), context.plan.run.session.to_string()),
            ],
        };
        let side = MergeSide { commit: conflict.theirs, base: None, message, at: clock::now() };
        let commit =
            changes.add_commit(&conflict.repo, copy.at().tip, |tree, ours| merging::merge_spec(tree, ours, &side))?;
        if let Some(git_sha) = commit {
            let (repo, context) = (conflict.repo.clone(), conflict.context.clone());
            events.push(WorktreeMerged { repo, context, git_sha, extra: Default::default() }.into());
        }
    }
    Ok(events)
}
