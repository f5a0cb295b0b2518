//! Nodes that bring the branches of a fan-out together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::simulation::is_simulated;
use super::worker::block;
use super::{JoinReport, Stopped, Worker, agent, command, derived};
use crate::merging::{self, MergeProgress, MergeResult, MergeSide, TierOptions};
use crate::session::executor::{JoinWork, judge};
use git::Repo;
use git::workspace::CopyPosition;
use pleach_core::clock;
use pleach_core::event::{ContextJoined, Event, Outcome, Snapshot, Status, WorktreeMergeConflict, WorktreeMerged};
use pleach_core::ids::{CommitId, ContextId, RepoName};
use pleach_core::plan::parallel::FanInPolicy;
use pleach_core::route::{self, BEST_ID, BEST_OUTCOME, MERGE_CONFLICTS};
use pleach_core::state::{Branch, FanOut};
use pleach_core::text::named;
use pleach_core::trailer::CommitMessage;

/// What came of merging branches.
#[derive(Default)]
struct Merged {
    /// The newest commit of each repository in which something was merged.
    commits: Snapshot,
    merged: Vec<WorktreeMerged>,
    conflicts: Vec<WorktreeMergeConflict>,
    /// Merges that would lose something, in words.
    lossy: Vec<String>,
}

pub(super) async fn join(
    worker: &mut Worker,
    work: JoinWork,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    let JoinWork { rules, fan_out, bases, judge, outcome } = work;
    let Some(fan_out) = fan_out else {
        return Ok(Outcome::final_failure("no fan-out led here: there are no branches to join"));
    };
    // Branches that must not write have worked in these files, too, whatever came of them.
    let outcome = worker.may_not_write(outcome, &mut end.warnings)?;
    let ranked = route::ranked(&fan_out);
    let Some(mut best) = ranked.first().copied().filter(|best| best.has_succeeded()) else {
        return Ok(Outcome {
            context_updates: best_updates(ranked.first().copied()),
            ..Outcome::fail(all_failed(&fan_out))
        });
    };
    if let Some(judge) = judge {
        let is_simulated = is_simulated(judge.agent.kind());
        let said = agent::agent(worker, judge, cancel, end).await?;
        if !said.status.is_success() {
            return Ok(said);
        }
        let candidates = judge::candidates(&fan_out);
        match judge::choice(end.response.as_deref().unwrap_or_default(), &candidates) {
            Some(chosen) => best = chosen,
            // A simulated agent chooses nothing.
            None if is_simulated => {}
            None => {
                let names = judge::names(&candidates);
                return Ok(Outcome::fail(format!("the answer names none of the branches: expected one of {names}")));
            }
        }
    }
    let joined: Vec<&Branch> = match rules.policy {
        FanInPolicy::Merge => fan_out.branches.iter().filter(|branch| branch.has_succeeded()).collect(),
        FanInPolicy::Pick | FanInPolicy::Judge => vec![best],
    };
    let before: BTreeMap<RepoName, CopyPosition> =
        worker.workspace.copies().map(|copy| (copy.name.clone(), copy.at())).collect();
    // What was not merged by git must be tested.
    let tiers = rules.gate.as_ref().map(|_| worker.engine.tiers.clone());
    let merged = match merge_all(worker, &joined, &bases, tiers.as_ref(), cancel, end).await? {
        Ok(merged) if merged.lossy.is_empty() => merged,
        unfit => {
            worker.place(before.iter().map(|(repo, at)| (repo, *at)))?;
            return Ok(unfit.map_or_else(|red| red, |merged| Outcome::final_failure(merged.lossy.join("; "))));
        }
    };
    worker.place(merged.commits.iter().map(|(repo, commit)| (repo, CopyPosition::all(*commit))))?;
    if let Some(gate) = rules.gate.filter(|_| merged.conflicts.is_empty())
        && let Some(red) = command::gate(worker, &gate, cancel, end).await.transpose()
    {
        worker.place(before.iter().map(|(repo, at)| (repo, *at)))?;
        return red;
    }
    let mut updates = best_updates(Some(best));
    updates.insert(MERGE_CONFLICTS.to_owned(), merging::conflicts_value(&merged.conflicts));
    let outcome = conflicted(outcome, &merged.conflicts);
    let trees = block(|| worker.workspace.commit_trees(&merged.commits))?;
    let result = worker
        .workspace
        .copies()
        .map(|copy| (copy.name.clone(), merged.commits.get(&copy.name).copied().unwrap_or(before[&copy.name].tip)));
    let contexts: Vec<ContextId> = joined.iter().map(|branch| branch.of.context.clone()).collect();
    let joined = ContextJoined {
        node_id: worker.node.id.clone(),
        contexts,
        policy: rules.policy.as_str().to_owned(),
        result: result.collect(),
        extra: Default::default(),
    };
    let mut events: Vec<Event> = merged.merged.into_iter().map(Event::from).collect();
    events.push(joined.into());
    events.extend(merged.conflicts.into_iter().map(Event::from));
    let mut context_updates = outcome.context_updates;
    context_updates.extend(updates);
    end.joined = Some(Box::new(JoinReport { events, changes: trees }));
    Ok(Outcome { context_updates, ..outcome })
}

/// Merges branches in their order; those that conflict come last, when all others are there, and are resolved as far as
/// `tiers` allow. An outcome if a command of a tier fails.
async fn merge_all(
    worker: &mut Worker,
    branches: &[&Branch],
    bases: &BTreeMap<ContextId, Snapshot>,
    tiers: Option<&TierOptions>,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Result<Merged, Outcome>, Stopped> {
    let mut merged = Merged::default();
    let copies: Vec<(RepoName, Repo, CommitId)> =
        worker.workspace.copies().map(|copy| (copy.name.clone(), copy.repo.clone(), copy.at().tip)).collect();
    for (name, repo, begun) in copies {
        let mut tip = begun;
        let theirs = |branch: &&Branch| Some((branch.of.context.clone(), *branch.ended.as_ref()?.work.get(&name)?));
        let mut open: Vec<(ContextId, CommitId)> = branches.iter().filter_map(theirs).collect();
        for is_last in [false, true] {
            for (context, theirs) in std::mem::take(&mut open) {
                let base = bases.get(&context).and_then(|base| base.get(&name)).copied();
                let side = side(worker, &context, theirs, base);
                let tiers = tiers.filter(|_| is_last);
                let result = match block(|| merging::merge_side(&repo, tip, &side, tiers))? {
                    MergeProgress::Ended(result) => result,
                    MergeProgress::Derive(tried) => {
                        match derived::derive(worker, &name, tip, &side, *tried, cancel, end).await? {
                            Ok(result) => result,
                            Err(red) => return Ok(Err(red)),
                        }
                    }
                };
                match result {
                    MergeResult::UpToDate => {}
                    MergeResult::Merged(commit) => {
                        tip = commit;
                        merged.merged.push(WorktreeMerged {
                            repo: name.clone(),
                            context,
                            git_sha: commit,
                            extra: Default::default(),
                        });
                    }
                    MergeResult::Conflict(_) if !is_last => open.push((context, theirs)),
                    MergeResult::Lossy(lossy) => merged.lossy.push(format!("merging branch `{context}`: {lossy}")),
                    MergeResult::Conflict(conflict) => merged.conflicts.push(WorktreeMergeConflict {
                        repo: name.clone(),
                        context,
                        theirs,
                        paths: merging::conflicted_paths(&conflict),
                        extra: Default::default(),
                    }),
                }
            }
        }
        if tip != begun {
            merged.commits.insert(name, tip);
        }
    }
    Ok(Ok(merged))
}

fn side(worker: &Worker, context: &ContextId, commit: CommitId, base: Option<CommitId>) -> MergeSide {
    let message = CommitMessage {
        subject: format!("Merge branch {context}"),
        body: String::new(),
        trailers: vec![
            ("Orchestra-Node".into(), worker.node.id.to_string()),
            ("Orchestra-Pipeline".into(), worker.pipeline.to_string()),
            ("Orchestra-Session".into(), worker.session.to_string()),
        ],
    };
    MergeSide { commit, base, message, at: clock::now() }
}

fn all_failed(fan_out: &FanOut) -> String {
    let reason = |branch: &Branch| {
        let why = branch.ended.as_ref().and_then(|ended| ended.outcome.failure_reason.clone());
        format!("`{}`{}", branch.of.context, why.map(|why| format!(": {why}")).unwrap_or_default())
    };
    format!("no branch succeeded: {}", fan_out.branches.iter().map(reason).collect::<Vec<_>>().join("; "))
}

fn best_updates(best: Option<&Branch>) -> BTreeMap<String, Value> {
    let Some((branch, ended)) = best.and_then(|best| Some((best, best.ended.as_ref()?))) else {
        return BTreeMap::new();
    };
    let id = (BEST_ID.to_owned(), branch.of.context.as_str().into());
    [id, (BEST_OUTCOME.to_owned(), ended.outcome.status.as_str().into())].into()
}

/// The outcome of a join with conflicts: something is left to do.
fn conflicted(outcome: Outcome, conflicts: &[WorktreeMergeConflict]) -> Outcome {
    if conflicts.is_empty() {
        return outcome;
    }
    let describe = |conflict: &WorktreeMergeConflict| {
        let paths: Vec<_> = conflict.paths.iter().map(|path| &path.path).collect();
        format!("conflict with branch `{}` in {}", conflict.context, named(&paths))
    };
    let notes = conflicts.iter().map(describe).collect::<Vec<_>>().join("; ");
    Outcome { status: Status::PartialSuccess, notes: Some(notes), ..outcome }
}
