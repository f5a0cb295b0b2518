//! What must be approved before a tree runs: the commands of its plan, and sessions and commits from elsewhere.

use std::collections::BTreeMap;

use super::pending_trust::{PendingTrust, TaskBase};
use super::plan::TreePlan;
use super::run::TreeRun;
use super::unfinished::OpenSession;
use crate::trust::{Error, TrustItem, TrustScope, commands};
use pleach_core::config::{Environment, Resolved};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::{self, TASK_PIPELINE};

/// What must be approved before this run uses its plan and the result of [`super::open`] and [`super::pending_trust`].
/// `environment` is the environment of agents and commands.
pub fn to_trust(
    run: &TreeRun,
    resolved: &Resolved,
    environment: &Environment,
    brought: &PendingTrust,
) -> Result<Vec<TrustItem>, Error> {
    let workplace = TrustScope { repo: &run.repo, resolved, environment, state_dir: &run.engine.supervisor.state_dir };
    let mut items = workplace.settings();
    items.extend(tests(&run.plan));
    items.extend(commands_of_pipelines(&run.plan));
    items.extend(workplace.worktree_base());
    items.extend(obeyed_at_starts(&workplace, &run.plan, brought)?);
    items.extend(supplied_by_sessions(&workplace, &brought.left)?);
    Ok(items)
}

/// The tests defined in a tree.
fn tests(plan: &TreePlan) -> impl Iterator<Item = TrustItem> {
    plan.tree.nodes().flat_map(|node| {
        node.test_commands.iter().map(|test| {
            let where_from = format!("{} test of {}, {}", test.kind, node.id, plan.name.for_task(&node.id));
            TrustItem::command(where_from, test.command.clone())
        })
    })
}

/// The commands of the pipelines of a tree's tasks. The built-in one is pleach's own.
fn commands_of_pipelines(plan: &TreePlan) -> Vec<TrustItem> {
    let mut items = Vec::new();
    for used in plan.used().filter(|used| used.dot != TASK_PIPELINE) {
        let Some(pipeline) = plan::load(&used.dot, &used.inputs(BTreeMap::new()), &[]).0 else { continue };
        items.extend(pipeline.commands().into_iter().map(|command| {
            let where_from = format!("{}, {}", command.attribute, used.path);
            TrustItem::command(where_from, command.text.to_owned())
        }));
    }
    items
}

/// The instruction files agents would find where they start. Files this run has landed were approved before.
fn obeyed_at_starts(
    workplace: &TrustScope<'_>,
    plan: &TreePlan,
    brought: &PendingTrust,
) -> Result<Vec<TrustItem>, Error> {
    let worked: Vec<Pipeline> = plan.used_pipelines().collect();
    let obeyed = |files| workplace.agent_files(files, worked.iter().flat_map(|pipeline| pipeline.nodes()));
    let landed = brought.landed.iter().map(|files| obeyed(*files)).collect::<Result<Vec<_>, _>>()?.concat();
    let mut items = Vec::new();
    for TaskBase { branch, files } in &brought.starts {
        let mut obeyed = obeyed(*files)?;
        obeyed.retain(|item| !landed.contains(item));
        for item in obeyed.iter_mut().filter(|_| *branch != plan.target) {
            item.where_from.push_str(&format!(", as `{branch}` has it"));
        }
        items.extend(obeyed);
    }
    Ok(items)
}

/// The commands in the pipelines of resumed sessions, and the instruction files their agents would find. Their records
/// may have been fetched; everything else they use belongs to this clone.
fn supplied_by_sessions(workplace: &TrustScope<'_>, left: &[OpenSession]) -> Result<Vec<TrustItem>, Error> {
    let mut items = Vec::new();
    for OpenSession { session, task, path, pipeline, at } in left {
        items.extend(commands(pipeline, &format!("{path} as session {session} on {task} recorded it")));
        // No agent works from an unreadable commit.
        for files in at.iter().filter_map(|at| workplace.repo.tree_of(*at).ok()) {
            items.extend(workplace.agent_files(files, pipeline.agent_nodes())?);
        }
    }
    Ok(items)
}
