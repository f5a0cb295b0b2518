//! What the nodes of a task's pipeline are asked to do: its tests, its prompt, the review of its changes.

use super::TaskJob;
use crate::engine::Error;
use crate::engine::session_plan::SessionPlan;
use crate::event::TaskOf;
use crate::git::{self, ChangeKind, Durability, MergeError, Repo, TreeChange, TreeEdit, TreeId};
use crate::ids::RepoPath;
use crate::plan::pipeline::Node;
use crate::state::State;
use crate::step::Feedback;
use crate::step::prompt::{self, FeedbackLimits};

/// What the agent of a step is asked: the task, with what went wrong before; or for its verdict on the changes.
/// A prompt of the pipeline's own stands in place of the first part.
pub(in crate::engine) fn step_prompt(plan: &SessionPlan, state: &State, node: &Node) -> Result<Option<String>, Error> {
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

/// What stands below the prompt of the agent that begins the work where none implements: what went wrong before.
pub(in crate::engine) fn lessons_for(plan: &SessionPlan, state: &State, node: &Node) -> Option<String> {
    let feedback = Some(feedback(state)).filter(|feedback| !feedback.is_empty())?;
    plan.pipeline.is_first_at_work(node).then(|| prompt::lessons(feedback, FeedbackLimits::default()))
}

/// What went wrong so far.
fn feedback(state: &State) -> &[Feedback] {
    state.task.as_ref().map(|task| &task.feedback[..]).unwrap_or_default()
}

/// Everything the task has changed since before its first attempt, but for what pleach wrote itself.
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
    // Too many names for one command line: then pleach's own files are shown with the rest.
    let paths = if paths.len() > 1_000 { &[] } else { &paths[..] };
    Ok(git::diff::patch_with_stat(repo, old, new, paths)?)
}

/// The files the task's branch began with, as they would be without the task.
///
/// Another program may have put steps of it onto the target, with the commits of others among them. So the tree before
/// the first of them is not it: each step is taken back by itself, the newest first, and what others did stays.
fn without_task(repo: &Repo, task: &TaskOf, job: &TaskJob) -> Result<TreeId, Error> {
    let base = task.base;
    let mut tree = repo.tree_of(base)?;
    for step in job.begun.iter().rev() {
        // One that came onto the target since is not in the files of the branch.
        if !repo.history().is_ancestor(*step, base)? {
            continue;
        }
        let commit = repo.commit(*step)?;
        let Some(parent) = commit.parents.first() else { continue };
        let before = repo.tree_of(*parent)?;
        tree = match git::merge::merge_trees(repo, commit.tree, tree, before) {
            Ok(tree) => tree,
            // Others have built on it. Then all that became of its files is shown: rather too much than too little.
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
    // Nothing will point at it, and after a power cut nobody asks for it.
    let mut writer = repo.clone().with_durability(Durability::None).writer();
    let tree = writer.tree(Some(tree), &edits)?;
    writer.flush()?;
    Ok(tree)
}
