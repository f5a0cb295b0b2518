//! Runs the work of a node, by its kind.

use std::time::{Duration, Instant};

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::command::{self, CommandRun};
use super::worker::{block, fail_if_trespassed};
use super::{NodeFinished, Stopped, Worker, agent, human, join, run_tests};
use crate::session::executor::Work;
use git::workspace::{CopyPosition, Workspace};
use pleach_core::event::{Outcome, PauseReason, Snapshot};
use pleach_core::ids::{CommitId, RepoName};
use pleach_core::plan::pipeline::WritePolicy;

/// Runs the work. Returns the worktrees and the result; turns are reported before.
pub async fn run(mut worker: Worker, work: Work) -> (Workspace, NodeFinished) {
    let begun = Instant::now();
    let mut node = Collected::default();
    let result = match work {
        Work::Tool(_) | Work::Tests(_) | Work::Agent(_) | Work::Join(_) | Work::Custom(..) => {
            let result = watched(&mut worker, work, &mut node).await;
            worker.name_submodules(&mut node.warnings);
            result
        }
        waits => {
            worker.workspace.release();
            let result = carry_out(&mut worker, waits, &mut node).await;
            gated(&mut worker, result, &mut node).await
        }
    };
    drop(worker.scratch.take());
    worker.workspace.focus(None);
    let finished = NodeFinished {
        stderr: node.all_stderr(),
        result,
        effect: node.effect,
        joined: node.joined,
        duration: begun.elapsed(),
        warnings: node.warnings,
        response: node.response,
        step: node.step,
        cut_short: node.cut_short,
    };
    (worker.workspace, finished)
}

/// Runs work that can reach beyond the worktree.
async fn watched(worker: &mut Worker, work: Work, end: &mut Collected) -> Result<Outcome, Stopped> {
    worker.scratch = block(|| worker.engine.scratch())?;
    let writes = worker.node.write != WritePolicy::Never;
    block(|| worker.workspace.note_setup(writes))?;
    if worker.is_kept_out(&work) {
        let before = block(|| worker.workspace.look_near())?;
        worker.workspace.release();
        let result = carry_out(worker, work, end).await;
        let result = gated(worker, result, end).await;
        worker.workspace.acquire();
        let after = block(|| worker.workspace.look_near())?;
        let trespass = before.compare(&after, "");
        worker.name_foreign(&trespass.foreign, &mut end.warnings);
        worker.tie(&mut end.warnings)?;
        return fail_if_trespassed(&trespass, result, end.step.as_mut());
    }
    let (own, kept) = worker.own_refs();
    let before = block(|| worker.workspace.look_before(&own, &kept))?;
    let result = carry_out(worker, work, end).await;
    let result = gated(worker, result, end).await;
    worker.check_bounds(&before, result, end)
}

/// Runs the gate of a fan-in on the files of a node that has resolved its last conflict.
async fn gated(worker: &mut Worker, result: Result<Outcome, Stopped>, end: &mut Collected) -> Result<Outcome, Stopped> {
    let Some(gate) = worker.gate.clone() else { return result };
    let outcome = result?;
    if !outcome.status.is_success() {
        return Ok(outcome);
    }
    let commits = match end.effect.changes_mut() {
        Some(changes) => {
            block(|| changes.flush())?;
            changes.commits()
        }
        None => Snapshot::new(),
    };
    let tips: Vec<(RepoName, CommitId)> = worker
        .workspace
        .copies()
        .map(|copy| (copy.name.clone(), commits.get(&copy.name).copied().unwrap_or(copy.at().tip)))
        .collect();
    worker.place(tips.iter().map(|(repo, commit)| (repo, CopyPosition::all(*commit))))?;
    let cancel = NodeCancel::new(&worker.cancel, worker.node.timeout);
    Ok(command::gate(worker, &gate, &cancel, end).await?.unwrap_or(outcome))
}

async fn carry_out(worker: &mut Worker, work: Work, end: &mut Collected) -> Result<Outcome, Stopped> {
    let timeout = match work {
        Work::Human(_) => None,
        // Agents enforce the timeout themselves and report their messages until then; this is for one that does not.
        Work::Agent(_) => worker.node.timeout.map(|timeout| timeout.saturating_add(AGENT_ENDING)),
        _ => worker.node.timeout,
    };
    let cancel = NodeCancel::new(&worker.cancel, timeout);
    match work {
        Work::Wait(duration) => tokio::select! {
            () = tokio::time::sleep(duration) => Ok(Outcome::success()),
            () = cancel.cancel.stopped() => if cancel.timed_out() { Ok(worker.within_time(Outcome::success(), &cancel)) } else { Err(Stopped::Paused(PauseReason::Interrupted)) },
        },
        Work::Human(question) => human::ask(worker, &question, end).await,
        Work::Tool(command) => command::tool(worker, command, &cancel, end).await,
        Work::Tests(commands) => run_tests::run_tests(worker, commands, &cancel, end).await,
        Work::Agent(work) => agent::agent(worker, work, &cancel, end).await,
        Work::Join(work) => join::join(worker, *work, &cancel, end).await,
        Work::Custom(handler, mut context) => {
            context.cancel = cancel.cancel.clone();
            let begun = Instant::now();
            let kind = context.node.handler.as_str().to_owned();
            let task = tokio::spawn(async move { handler.run(*context).await });
            let outcome = match task.await {
                Ok(outcome) => outcome,
                Err(error) => Outcome::fail(format!("the handler of type `{kind}` crashed: {error}")),
            };
            let outcome = worker.within_time(outcome, &cancel);
            if worker.cancel.is_killed() {
                return Err(Stopped::Paused(PauseReason::Interrupted));
            }
            let run = CommandRun { command: kind, exit: outcome.status.to_string(), output: String::new(), begun };
            command::finish_command(worker, run, outcome, end)
        }
    }
}

/// How long an agent may take to end after its timeout.
const AGENT_ENDING: Duration = Duration::from_secs(10);
