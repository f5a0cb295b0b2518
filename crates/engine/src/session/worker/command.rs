//! Nodes that run a command, and handlers of the embedding program, whose changes are committed the same way.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::step::{self, Said};
use super::worker::{block, millis, some};
use super::{Effect, Stopped, ToolEffect, Worker, output_message};
use crate::session::preamble::STDERR_MARK;
use agents::agent::command_message;
use git::workspace::Author;
use os::process::sandbox::Refusals;
use os::process::{self, CommandLimits, CommandSpec, Exit, Output, Sandbox, SpawnError};
use pleach_core::clock;
use pleach_core::event::{Outcome, PauseReason, ToolExecution, WarningCode};
use pleach_core::ids::RepoPath;
use pleach_core::plan::pipeline::WritePolicy;
use pleach_core::text::{last_words, shorten};
use pleach_core::trailer::TurnFacts;

/// How many characters of a command's output the rest of the run can see; the record keeps more.
const OUTPUT_IN_CONTEXT: usize = 8_000;

/// The limit on the recorded output of a command, per stream.
const OUTPUT_KEPT: usize = 1024 * 1024;

/// A command that has ended.
pub(super) struct CommandRun {
    pub command: String,
    pub exit: String,
    pub output: String,
    pub begun: Instant,
}

pub(super) async fn tool(
    worker: &mut Worker,
    script: String,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    if script.trim().is_empty() {
        return Ok(Outcome::final_failure("the tool node has no command"));
    }
    let begun = Instant::now();
    let status_file = worker.status_file()?;
    let dir = worker.workspace.directory().to_owned();
    let (ran, bounds) = shell(worker, &script, &dir, &status_file, cancel).await;
    let output = match ran {
        Ok(output) => output,
        // A step that could not start says nothing about the task. A command that leaves processes running, however,
        // has failed itself.
        Err(error) if worker.node.step.is_some() && !matches!(error, SpawnError::Unkillable { .. }) => {
            return Err(Stopped::Environment(Box::new(Outcome::fail(error.to_string()))));
        }
        Err(error) if error.is_of_machine() => return Err(Stopped::NotStarted(error)),
        Err(error) => {
            let outcome = Outcome::fail(error.to_string());
            let said = Said { how: Some(error.to_string()), broke_off: true, ..Said::default() };
            step::command_step(worker, &outcome, said, end);
            return Ok(outcome);
        }
    };
    if output.exit == Exit::Cancelled && !cancel.timed_out() {
        return Err(Stopped::Paused(PauseReason::Interrupted));
    }
    let (stdout, stderr) = (output.stdout.to_text(), output.stderr.to_text());
    let how = match output.exit {
        Exit::Code(0) => None,
        Exit::Cancelled => Some(worker.out_of_time()),
        exit => Some(exit.to_string()),
    };
    let broke_off = !matches!(output.exit, Exit::Code(_));
    let refused = bounds.map(|bounds| {
        process::sandbox::refusals(&bounds, &format!("{stdout}\n{stderr}"), worker.workspace.directory())
    });
    let refused = match output.exit {
        Exit::Code(0) => refused.map(Refusals::of_success),
        _ => refused,
    };
    let refused = refused.and_then(|refused| refused.in_words());
    let outcome = match output.exit {
        Exit::Code(0) => worker.read_status(&status_file).unwrap_or_else(Outcome::success),
        Exit::Cancelled => Outcome::fail(worker.out_of_time()),
        exit => {
            let last = last_line(&stdout, &stderr);
            let refused = refused.as_ref().map(|refused| format!(" ({refused})")).unwrap_or_default();
            Outcome::fail(format!("{exit}{last}{refused}"))
        }
    };
    let refused = refused.filter(|_| output.exit == Exit::Code(0));
    end.warnings.extend(refused.map(|refused| WarningCode::SandboxRefused.with(refused)));
    let mut outcome = step::judged(worker, outcome, &stdout);
    let seen = seen_by_others(stdout.trim_end());
    outcome.context_updates.entry("tool.output".into()).or_insert(seen.into());
    outcome.context_updates.insert("last_stage".into(), worker.node.id.as_str().into());
    let exit = if output.exit == Exit::Cancelled { "timed out".to_owned() } else { output.exit.to_string() };
    let output = format!("{stdout}{}{stderr}", if stderr.is_empty() { "" } else { STDERR_MARK });
    let outcome = finish_command(worker, CommandRun { command: script, exit, output, begun }, outcome, end)?;
    step::command_step(worker, &outcome, Said { stdout, stderr, how, broke_off }, end);
    Ok(outcome)
}

/// Runs a shell command in a directory of the worktrees, within the bounds of the node.
async fn shell(
    worker: &mut Worker,
    script: &str,
    dir: &Path,
    status_file: &Path,
    cancel: &NodeCancel,
) -> (Result<Output, SpawnError>, Option<Arc<Sandbox>>) {
    let mut command = CommandSpec::shell(script, dir);
    command.env = worker.environment("tool", status_file);
    command.limits = CommandLimits { output: OUTPUT_KEPT, ..CommandLimits::default() };
    command.locks = worker.workspace.locks();
    let bounds = worker.bounds(status_file).map(|bounds| Arc::new(bounds.of_command()));
    command.sandbox = bounds.clone();
    (worker.engine.supervisor.spawner.run(command, &cancel.cancel, &mut |_, _| {}).await, bounds)
}

/// Runs the gate of a fan-in on the merged files. Returns the outcome of one that fails.
pub(super) async fn gate(
    worker: &mut Worker,
    script: &str,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Option<Outcome>, Stopped> {
    let dir = worker.workspace.directory().to_owned();
    let failure = check(worker, script, &dir, "the gate", cancel, end).await?;
    // What it wrote is no part of the merge.
    worker.undo_writes(false, &mut end.warnings)?;
    Ok(failure)
}

/// Runs a command of a fan-in in a directory of the worktrees. Returns the outcome of one that fails; what it is called
/// there is `name`.
pub(super) async fn check(
    worker: &mut Worker,
    script: &str,
    dir: &Path,
    name: &str,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Option<Outcome>, Stopped> {
    let status_file = worker.status_file()?;
    let (ran, _) = shell(worker, script, dir, &status_file, cancel).await;
    Ok(match ran {
        Ok(output) if output.exit == Exit::Cancelled && !cancel.timed_out() => {
            return Err(Stopped::Paused(PauseReason::Interrupted));
        }
        Ok(output) if output.exit == Exit::Code(0) => None,
        Ok(output) => {
            let (stdout, stderr) = (output.stdout.to_text(), output.stderr.to_text());
            let last = last_line(&stdout, &stderr);
            let all = format!("{stdout}{}{stderr}", if stderr.is_empty() { "" } else { STDERR_MARK });
            let why = match output.exit {
                Exit::Cancelled => worker.out_of_time(),
                exit => format!("{name} failed: {exit}{last}"),
            };
            let seen = seen_by_others(all.trim_end());
            end.stderr = worker.engine.redactor.text(&all).into_owned();
            Some(Outcome { context_updates: [("tool.output".to_owned(), seen.into())].into(), ..Outcome::fail(why) })
        }
        Err(error) if error.is_of_machine() => return Err(Stopped::NotStarted(error)),
        Err(error) => Some(Outcome::fail(format!("{name} could not run: {error}"))),
    })
}

/// The last line a command printed, for a message.
fn last_line(stdout: &str, stderr: &str) -> String {
    let last = stderr.lines().chain(stdout.lines()).rfind(|line| !line.trim().is_empty());
    last.map(|line| format!(": {}", shorten(line.trim(), 200))).unwrap_or_default()
}

/// Commits a command's changes and makes them the effect of its node.
pub(super) fn finish_command(
    worker: &mut Worker,
    run: CommandRun,
    outcome: Outcome,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    let turn = worker.turn_id();
    let at = clock::now();
    let command = worker.engine.redactor.text(&run.command).into_owned();
    let outcome = worker.may_not_write(outcome, &mut end.warnings)?;
    let (node, label) = (worker.node.id.clone(), worker.engine.redactor.text(&worker.node.label).into_owned());
    let message = |paths: &[RepoPath], _: bool| command_message(&node, &label, &command, paths);
    let (model, provider) = TurnFacts::COMMAND;
    let author = Author { facts: worker.facts(model, provider), trailers: Vec::new(), at, message: &message };
    // Forbidden writes are undone by now, and those that could not be are known.
    let changes = block(|| match worker.node.write {
        WritePolicy::Never => worker.workspace.unchanged(),
        _ => {
            let mut changes = worker.workspace.scan(None)?;
            worker.workspace.commit(&author, &mut changes)?;
            Ok(changes)
        }
    })?;
    end.warnings.extend(changes.warnings().cloned());
    let outcome = worker.must_write(outcome, changes.is_committed());
    let outcome = worker.must_be_committed(outcome)?;
    let tool = ToolExecution {
        turn_number: turn.number,
        turn,
        node_id: worker.node.id.clone(),
        visit: worker.visit.visit,
        attempt: worker.visit.attempt,
        command: run.command,
        exit: run.exit,
        duration_ms: millis(run.begun.elapsed()),
        output: None,
        files_written: changes.files(),
        git_sha: some(changes.commits()),
        commit_message: changes.message().cloned(),
        extra: Default::default(),
    };
    end.effect = Effect::Tool(Box::new(ToolEffect { tool, output: output_message(&run.output), changes }));
    Ok(outcome)
}

/// The end of a command's output, with a mark if something is left out.
fn seen_by_others(text: &str) -> String {
    let end = last_words(text, OUTPUT_IN_CONTEXT);
    if end.len() < text.len() { format!("[...truncated]\n{end}") } else { end.to_owned() }
}
