//! The inputs for the nodes of a task's pipeline: its prompt, and the review of its changes.

use super::TaskJob;
use crate::env::Error;
use crate::session::session_plan::SessionPlan;
use git::{ChangeKind, Durability, MergeError, Repo, TreeChange, TreeEdit, TreeId};
use pleach_core::event::TaskOf;
use pleach_core::ids::RepoPath;
use pleach_core::plan::pipeline::Node;
use pleach_core::state::State;
use pleach_core::step::Feedback;
use pleach_core::step::prompt::{self, FeedbackLimits};

/// The prompt for the agent of a step: the task with its feedback, or the request to review the changes. A prompt in
/// the pipeline replaces the first part.
pub(crate) fn step_prompt(plan: &SessionPlan, state: &State, node: &Node) -> Result<Option<String>, Error> {
    let (Some(job), Some(step)) = (&plan.job, node.step.as_deref()) else { return Ok(None) };
    let own = node.attrs.contains_key("prompt").then_some(node.prompt.as_str());
    Ok(match step {
        "review" => {
            let (stat, diff) = task_diff(plan, state, job)?;
            let asked = prompt::review(&job.task, &stat, &diff);
            Some(own.map_or_else(|| asked.clone(), |own| format!("{own}\n\n{asked}")))
        }
        "implement" => Some(match own {
            Some(own) => format!("{own}\n{}", prompt::lessons(feedback(state), FeedbackLimits::default())),
            None => prompt::implement(&job.task, feedback(state), &job.tests, FeedbackLimits::default()),
        }),
        _ => None,
    })
}

/// Feedback below the prompt of the first working agent, in a pipeline without an implementing step.
pub(crate) fn lessons_for(plan: &SessionPlan, state: &State, node: &Node) -> Option<String> {
    let feedback = Some(feedback(state)).filter(|feedback| !feedback.is_empty())?;
    plan.pipeline.is_first_at_work(node).then(|| prompt::lessons(feedback, FeedbackLimits::default()))
}

fn feedback(state: &State) -> &[Feedback] {
    state.task.as_ref().map(|task| &task.feedback[..]).unwrap_or_default()
}

/// All changes of the task since before its first attempt, except files pleach wrote itself.
fn task_diff(plan: &SessionPlan, state: &State, job: &TaskJob) -> Result<(String, String), Error> {
    let task = plan.started.task.as_ref().expect("only sessions on tasks do this");
    let work = *state.work.get(&task.repo).expect("every snapshot names the repository");
    let repo = plan.repo();
    let (old, new) = (without_task(repo, task, job)?, repo.tree_of(work)?);
    let changes = git::diff::changes(repo, old, new)?;
    let paths: Vec<RepoPath> = changes.into_iter().map(|change| change.path).filter(|path| !job.is_own(path)).collect();
    if paths.is_empty() {
        return Ok(Default::default());
    }
    // Too many names for one command line, so pleach's own files are shown with the rest.
    let paths = if paths.len() > 1_000 { &[] } else { &paths[..] };
    Ok(git::diff::patch_with_stat(repo, old, new, paths)?)
}

/// The files the task's branch started with, as they would be without the task.
///
/// Another program may have put steps of it onto the target, interleaved with the commits of others. The tree before
/// the first of them is therefore not the answer: each step is reverted by itself, newest first, and the changes of
/// others stay.
fn without_task(repo: &Repo, task: &TaskOf, job: &TaskJob) -> Result<TreeId, Error> {
    let base = task.base;
    let mut tree = repo.tree_of(base)?;
    for step in job.begun.iter().rev() {
        // A step that reached the target later is not in the branch's files.
        if !repo.history().is_ancestor(*step, base)? {
            continue;
        }
        let commit = repo.commit(*step)?;
        let Some(parent) = commit.parents.first() else { continue };
        let before = repo.tree_of(*parent)?;
        tree = match git::merge::merge_trees(repo, commit.tree, tree, before) {
            Ok(tree) => tree,
            // Others have built on it. Show all changes of its files: too much is better than too little.
            Err(MergeError::Conflict(_)) => put_back(repo, tree, commit.tree, before)?,
            Err(MergeError::Git(error)) => return Err(error.into()),
        };
    }
    Ok(tree)
}

/// A tree in which the files that differ from `before` to `after` are as they were before.
fn put_back(repo: &Repo, tree: TreeId, after: TreeId, before: TreeId) -> Result<TreeId, Error> {
    let edit = |change: TreeChange| match change.kind {
        ChangeKind::Added(kind, blob) | ChangeKind::Modified(_, (kind, blob)) => TreeEdit::Put(change.path, kind, blob),
        ChangeKind::Removed(..) => TreeEdit::Remove(change.path),
    };
    let edits: Vec<TreeEdit> = git::diff::changes(repo, after, before)?.into_iter().map(edit).collect();
    // No ref will point at it, and it is not needed after a power cut.
    let mut writer = repo.clone().with_durability(Durability::None).writer();
    let tree = writer.tree(Some(tree), &edits)?;
    writer.flush()?;
    Ok(tree)
}
