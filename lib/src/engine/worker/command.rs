//! Nodes that run a command, and handlers of the embedding program, whose changes are committed the same way.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::cancel::NodeCancel;
use super::step::Said;
use super::{Effect, Gathered, Stopped, ToolEffect, Worker, block, millis, some};
use crate::agent::command_message;
use crate::clock;
use crate::engine::preamble::STDERR_MARK;
use crate::event::{Outcome, PauseReason, ToolExecution, WarningCode};
use crate::ids::RepoPath;
use crate::plan::pipeline::WritePolicy;
use crate::process::sandbox::Refusals;
use crate::process::{self, CommandLimits, CommandSpec, Exit, SpawnError};
use crate::text::{last_words, shorten};
use crate::workspace::Author;

/// How much of a command's output the rest of the run can see; the record has all that was kept.
const OUTPUT_IN_CONTEXT: usize = 8_000;

/// The limit on what is kept of a command's output, per stream.
const OUTPUT_KEPT: usize = 1024 * 1024;

/// A command that has ended.
pub(super) struct CommandRun {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub exit: String,
    /// What it printed.
    pub output: String,
    /// When it began.
    pub begun: Instant,
}

impl Worker {
    pub(super) async fn tool(
        &mut self,
        script: String,
        cancel: &NodeCancel,
        end: &mut Gathered,
    ) -> Result<Outcome, Stopped> {
        if script.trim().is_empty() {
            return Ok(Outcome::final_failure("the tool node has no command"));
        }
        let begun = Instant::now();
        let status_file = self.status_file()?;
        let mut command = CommandSpec::shell(&script, self.workspace.root());
        command.env = self.environment("tool", &status_file);
        command.limits = CommandLimits { output: OUTPUT_KEPT, ..CommandLimits::default() };
        command.locks = self.workspace.locks();
        let bounds = self.bounds(&status_file).map(|bounds| Arc::new(bounds.of_command()));
        command.sandbox = bounds.clone();
        let ran = self.engine.supervisor.spawner.run(command, &cancel.cancel, &mut |_, _| {}).await;
        let output = match ran {
            Ok(output) => output,
            // A step that could not be tried says nothing of the task; what it leaves running is its own fault.
            Err(error) if self.node.step.is_some() && !matches!(error, SpawnError::Unkillable { .. }) => {
                return Err(Stopped::Environment(Box::new(Outcome::fail(error.to_string()))));
            }
            Err(error) => {
                let outcome = Outcome::fail(error.to_string());
                let said = Said { how: Some(error.to_string()), broke_off: true, ..Said::default() };
                self.command_step(&outcome, said, end);
                return Ok(outcome);
            }
        };
        if output.exit == Exit::Cancelled && !cancel.timed_out() {
            return Err(Stopped::Paused(PauseReason::Interrupted));
        }
        let (stdout, stderr) = (output.stdout.to_text(), output.stderr.to_text());
        let how = match output.exit {
            Exit::Code(0) => None,
            _ if cancel.timed_out() => Some(self.out_of_time()),
            exit => Some(exit.to_string()),
        };
        let broke_off = !matches!(output.exit, Exit::Code(_));
        let refused = bounds
            .map(|bounds| process::sandbox::refusals(&bounds, &format!("{stdout}\n{stderr}"), self.workspace.root()));
        let refused = match output.exit {
            Exit::Code(0) => refused.map(Refusals::of_success),
            _ => refused,
        };
        let refused = refused.and_then(|refused| refused.in_words());
        let outcome = match output.exit {
            Exit::Code(0) => self.read_status(&status_file).unwrap_or_else(Outcome::success),
            exit => {
                let last = stderr.lines().chain(stdout.lines()).rfind(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {}", shorten(line.trim(), 200))).unwrap_or_default();
                let refused = refused.as_ref().map(|refused| format!(" ({refused})")).unwrap_or_default();
                self.within_time(Outcome::fail(format!("{exit}{last}{refused}")), cancel)
            }
        };
        let refused = refused.filter(|_| output.exit == Exit::Code(0));
        end.warnings.extend(refused.map(|refused| WarningCode::SandboxRefused.with(refused)));
        let mut outcome = self.judged(outcome, &stdout);
        let seen = seen_by_others(stdout.trim_end());
        outcome.context_updates.entry("tool.output".into()).or_insert(seen.into());
        outcome.context_updates.insert("last_stage".into(), self.node.id.as_str().into());
        let exit = if cancel.timed_out() { "timed out".to_owned() } else { output.exit.to_string() };
        let output = format!("{stdout}{}{stderr}", if stderr.is_empty() { "" } else { STDERR_MARK });
        let outcome = self.finish_command(CommandRun { command: script, exit, output, begun }, outcome, end)?;
        self.command_step(&outcome, Said { stdout, stderr, how, broke_off }, end);
        Ok(outcome)
    }

    /// Commits what a command changed and makes it the effect of its node.
    pub(super) fn finish_command(
        &mut self,
        run: CommandRun,
        outcome: Outcome,
        end: &mut Gathered,
    ) -> Result<Outcome, Stopped> {
        let turn = self.turn_id();
        let at = clock::now();
        let command = self.engine.redactor.text(&run.command).into_owned();
        let outcome = self.may_not_write(outcome, &mut end.warnings)?;
        let message = |paths: &[RepoPath], are_new: bool| command_message(&command, paths, are_new);
        let author = Author { facts: self.facts("tool", "local"), trailers: Vec::new(), at, message: &message };
        // What it wrote although it must not is undone by now, and what could not be is known.
        let changes = block(|| match self.node.write {
            WritePolicy::Never => self.workspace.unchanged(),
            _ => {
                let mut changes = self.workspace.scan(None)?;
                self.workspace.commit(&author, &mut changes)?;
                Ok(changes)
            }
        })?;
        end.warnings.extend(changes.warnings().cloned());
        let outcome = self.must_write(outcome, changes.is_committed());
        let outcome = self.must_be_committed(outcome)?;
        let tool = ToolExecution {
            turn_number: turn.number,
            turn,
            node_id: self.node.id.clone(),
            visit: self.visit.visit,
            attempt: self.visit.attempt,
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
}

/// What a command printed, as the record has it.
pub(in crate::engine) fn output_message(output: &str) -> Value {
    serde_json::json!({"role": "tool", "content": [{"type": "text", "text": output}]})
}

/// The end of what a command printed, with a mark where something is left out.
fn seen_by_others(text: &str) -> String {
    let end = last_words(text, OUTPUT_IN_CONTEXT);
    if end.len() < text.len() { format!("[...truncated]\n{end}") } else { end.to_owned() }
}
