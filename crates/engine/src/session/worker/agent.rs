//! Nodes run by an agent, turn by turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::simulation::{self, is_simulated};
use super::worker::{block, some, work_message};
use super::{Effect, Stopped, TurnReport, Worker, WorkerReport, step};
use crate::env::BudgetVerdict;
use crate::session::executor::AgentWork;
use agents::agent::{
    AgentError, AgentReply, End, Job, JobPast, MessageInput, Steering, Turn, TurnVerdict, Turns, is_in_words,
};
use agents::llm::{Message, Part, Role};
use git::workspace::{Author, Changes};
use os::deadline::Deadline;
use pleach_core::budget::Amount;
use pleach_core::clock;
use pleach_core::event::{
    AgentTurn, FailureClass, Outcome, PauseReason, SideCall, Status, Usage, Warning, WarningCode,
};
use pleach_core::ids::RepoPath;
use pleach_core::plan::pipeline::WritePolicy;
use pleach_core::trailer::attribution;

/// Asks for a readable verdict. A program has no memory, so it gets the whole prompt again.
fn review_again(work: &AgentWork, answer: &str) -> String {
    let again = pleach_core::step::prompt::review_again();
    if work.agent.can_continue() { again } else { format!("{}\n\nYour reply was:\n{answer}\n\n{again}", work.prompt) }
}

/// Whether an agent that changed nothing says that there was nothing to change.
fn says_nothing_to_do(answer: &str) -> bool {
    let words: String = answer.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let words = format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "));
    let nothing = ["to do", "to change", "to be done", "to fix", "to implement", "left to do", "needs to change"];
    let needed = ["needed", "required", "necessary", "were necessary", "were needed", "are needed", "are required"];
    let already =
        ["done", "implemented", "in place", "exists", "exist", "fixed", "correct", "satisfied", "complete", "there"];
    nothing.iter().any(|what| words.contains(&format!(" nothing {what} ")))
        || ["change", "changes"]
            .iter()
            .any(|change| needed.iter().any(|what| words.contains(&format!(" no {change} {what} "))))
        || already.iter().any(|what| words.contains(&format!(" already {what} ")))
}

/// The agent's spending beyond the turns reported so far.
type Unreported<'a> = &'a (dyn Fn() -> Amount + Sync);

/// A conversation: its messages, and the state the agent needs to resume it.
struct Spoken {
    messages: Vec<Message>,
    state: Option<Value>,
}

/// The prompt for one call of an agent.
struct AgentPrompt {
    prompt: String,
    /// The conversation already contains the prompt.
    continues: bool,
    timeout: Option<Duration>,
}

/// The results of an agent's tool calls in a message.
fn tool_results(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(|part| match part {
        Part::ToolResult { content, .. } => Some(content.as_str()),
        _ => None,
    })
}

/// The agent's last message in this visit.
fn last_words(spoken: &Spoken, work: &AgentWork) -> String {
    let new = spoken.messages.iter().skip(work.history.len());
    new.rev().find(|message| message.role == Role::Assistant).map(Message::text).unwrap_or_default()
}

/// Number of the project's recent commits shown to the writer of a commit message.
const RECENT: usize = 5;

/// A trailer that identifies the commits of turns.
const OWN_TRAILER: &[u8] = b"\nOrchestra-Model: ";

/// How many characters of an agent's answer the rest of the run can see.
const RESPONSE_IN_CONTEXT: usize = 200;

pub(super) async fn agent(
    worker: &mut Worker,
    work: AgentWork,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    let status_file = worker.status_file()?;
    let model = worker.node.llm_model.clone().unwrap_or_else(|| work.agent.kind().to_owned());
    let kind = work.agent.kind();
    let is_simulated = is_simulated(kind);
    let deadline = worker.node.timeout.map(Deadline::after);
    let mut spoken = Spoken { messages: work.history.clone(), state: work.resume.clone() };
    let told = work.retold.as_ref().filter(|_| matches!(work.past, JobPast::Told(_)));
    let work = AgentWork { prompt: told.unwrap_or(&work.prompt).clone(), ..work };
    let asked = AgentPrompt { prompt: work.prompt.clone(), continues: work.continues, timeout: worker.node.timeout };
    let mut work = work;
    let mut reply = converse(worker, &work, asked, &mut spoken, cancel, end).await?;
    if let (Err(AgentError::Diverged(why)), Some(retold)) = (&reply, &work.retold) {
        let text = format!("{why}; the agent of `{}` is told what it did before and goes on", worker.node.id);
        end.warnings.push(WarningCode::ReplayDiverged.with(text));
        end_redrive(worker, &mut end.warnings)?;
        if let JobPast::Taped(said) = std::mem::take(&mut work.past) {
            work.past = JobPast::Told(said);
        }
        work.prompt.clone_from(retold);
        spoken = Spoken { messages: Vec::new(), state: None };
        let left = deadline.map(|deadline| deadline.left());
        let asked = AgentPrompt { prompt: work.prompt.clone(), continues: false, timeout: left };
        reply = converse(worker, &work, asked, &mut spoken, cancel, end).await?;
    }
    if let Ok(AgentReply { text, end: how @ (End::Done | End::Doubtful(_)) }) = &mut reply
        && !is_simulated
        && step::verdict_is_missing(worker, text)
        && !worker.read_status(&status_file).is_some_and(|said| matches!(said.status, Status::Fail | Status::Retry))
    {
        if worker.verdict == BudgetVerdict::Go {
            // An unreadable verdict is requested once more.
            let left = deadline.map(|deadline| deadline.left());
            let again = AgentPrompt { prompt: review_again(&work, text), continues: false, timeout: left };
            end.warnings
                .push(WarningCode::VerdictMissing.with("no verdict in the review; the reviewer is asked once more"));
            end.asked_again = Some((text.clone(), std::mem::take(&mut end.stderr)));
            reply = converse(worker, &work, again, &mut spoken, cancel, end).await?;
        } else {
            *how = End::Stopped;
            end.is_told = true;
        }
    }
    let doubt = match &reply {
        Ok(AgentReply { end: End::Doubtful(why), .. }) => Some(why.clone()),
        _ => None,
    };
    let crashed = matches!(reply, Err(AgentError::Transient(_) | AgentError::Terminal(_) | AgentError::Unanswered(_)));
    let spoke_up = worker.read_status(&status_file).is_some();
    // When a program runs again, its calls are answered from the record.
    let keeps = work.agent.can_continue() || work.agent.repeats_calls();
    let has_begun = work.continues || !matches!(work.past, JobPast::None);
    let goes_on = keeps && (has_begun || end.is_answered);
    let outcome = agent_outcome(worker, reply, &status_file, goes_on, cancel, end)?;
    let outcome = simulation::simulated(worker, kind, outcome);
    let outcome = worker.may_not_write(outcome, &mut end.warnings)?;
    if !end.is_over
        && let Some(leftover) = leftover(worker, kind, &model).await?
    {
        end.warnings.extend(leftover.changes.warnings().cloned());
        end.effect = Effect::Leftover(Box::new(leftover));
    }
    let wrote = matches!(end.effect, Effect::Leftover(_)) || block(|| worker.workspace.has_changed())?;
    let outcome = match doubt.filter(|_| !wrote && !spoke_up && worker.node.write != WritePolicy::Never) {
        Some(why) if outcome.status.is_success() => {
            Outcome { failure_class: FailureClass::Terminal, ..Outcome::fail(why) }
        }
        _ => outcome,
    };
    // The effect of refusals during the work is unknown.
    let refused = std::mem::take(&mut end.refused).of_success().in_words();
    end.warnings.extend(refused.map(|refused| WarningCode::SandboxRefused.with(refused)));
    let said_why = spoke_up || end.response.as_deref().is_some_and(says_nothing_to_do);
    let outcome = worker.must_write(outcome, wrote || said_why);
    let outcome = worker.must_be_committed(outcome)?;
    let outcome = if is_simulated {
        outcome
    } else {
        step::agent_step(worker, outcome, crashed, last_words(&spoken, &work), end)
    };
    if end.is_stuck { Err(Stopped::Environment(Box::new(outcome))) } else { Ok(outcome) }
}

/// Runs the agent on one prompt and reports its turns. `spoken` is the conversation, before and after.
async fn converse(
    worker: &mut Worker,
    work: &AgentWork,
    AgentPrompt { prompt, continues, timeout }: AgentPrompt,
    spoken: &mut Spoken,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Result<AgentReply, AgentError>, Stopped> {
    let status_file = worker.status_file()?;
    let model = worker.node.llm_model.clone().unwrap_or_else(|| work.agent.kind().to_owned());
    let prompt_is_first = prompt == work.prompt;
    let appended = Steering::default();
    work.append.iter().filter(|_| continues).for_each(|text| appended.say(text));
    let job = Job {
        node: worker.node.id.clone(),
        visit: worker.visit.visit,
        attempt: worker.visit.attempt,
        prompt,
        root: worker.workspace.directory().to_owned(),
        cwd: worker.workspace.directory().to_owned(),
        repos: worker.repos(),
        model: worker.node.llm_model.clone(),
        provider: worker.node.llm_provider.clone(),
        effort: worker.node.reasoning_effort.clone(),
        tools: worker.node.tools,
        history: spoken.messages.clone(),
        continues,
        answered: continues && work.answered,
        env: worker.environment(&model, &status_file),
        timeout,
        status_file: status_file.clone(),
        reads: Some(worker.run_dir.clone()),
        locks: worker.workspace.locks(),
        sandbox: worker
            .bounds(&status_file)
            .map(|bounds| Arc::new(bounds.of_agent(&worker.home).with_read([worker.run_dir.clone()]))),
        steering: appended,
        home: worker.home.clone(),
        launchers: Some(worker.launchers()),
        resume: spoken.state.clone(),
        // Only the first prompt is answered from the record.
        past: if prompt_is_first { work.past.clone() } else { JobPast::None },
    };
    let bounds = job.sandbox.clone();
    let (turns, mut incoming) = Turns::channel();
    let turns = turns.with_waits(Some(worker.wait_listener()));
    turns.limit(&worker.node.id, worker.allowance.clone());
    let agent = Arc::clone(&work.agent);
    let kind = agent.kind();
    let running = agent.run(job, &turns, &cancel.cancel);
    tokio::pin!(running);
    let reply = loop {
        tokio::select! {
            // A reported turn is recorded before the agent's end is handled.
            biased;
            Some((turn, answer)) = incoming.recv() => {
                if turn.repeats {
                    end.warnings.extend(turn.warnings);
                    end_redrive(worker, &mut end.warnings)?;
                    let _ = answer.send(TurnVerdict::Go);
                    continue;
                }
                end.note_refused(bounds.as_deref(), worker.workspace.directory(), turn.messages.iter().flat_map(tool_results));
                worker.engine.announce(&worker.session, &worker.context, &worker.node.id, &turn.messages);
                // A partial answer does not count, except from a program: how often a model answered it is unknown.
                let is_used = |message: &Message| {
                    let is_whole = message.failure().is_none() || !work.agent.can_continue();
                    is_whole && !message.is_broken_off()
                };
                let answers = |message: &Message| message.role == Role::Assistant && is_used(message);
                end.is_answered |= turn.messages.iter().any(answers);
                spoken.messages.extend(turn.messages.iter().cloned());
                spoken.state = turn.state_ref.clone().or(spoken.state.take());
                end.is_over = turn.is_last;
                let verdict = report_turn(worker, kind, turn, &turns, &mut end.warnings).await?;
                // An agent that has ended spends nothing more and need not be stopped.
                let goes_on = verdict == BudgetVerdict::Go || (end.is_over && verdict != BudgetVerdict::Halt);
                worker.verdict = verdict;
                turns.limit(&worker.node.id, worker.allowance.clone());
                end.is_told |= !goes_on;
                // An agent that is already gone does not wait for the answer.
                let _ = answer.send(if goes_on { TurnVerdict::Go } else { TurnVerdict::Stop });
            }
            reply = &mut running => break reply,
        }
    };
    // Redacted before truncation: a truncated secret is not recognised.
    end.stderr = worker.engine.redactor.text(&turns.take_stderr()).into_owned();
    let stderr = end.stderr.clone();
    end.note_refused(bounds.as_deref(), worker.workspace.directory(), [stderr.as_str()]);
    Ok(reply)
}

fn agent_outcome(
    worker: &Worker,
    reply: Result<AgentReply, AgentError>,
    status_file: &Path,
    goes_on: bool,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    let failed = |reason: String, class| Outcome { failure_class: class, ..Outcome::fail(reason) };
    let ended = matches!(reply, Ok(AgentReply { end: End::Done | End::Limit(_), .. }));
    if end.is_told && !ended && !cancel.cancel.is_stopped() {
        match &worker.verdict {
            BudgetVerdict::Pause => return Err(Stopped::Paused(PauseReason::OverBudget)),
            BudgetVerdict::Stop(reason) => {
                end.cut_short = true;
                end.response = reply.ok().map(|reply| reply.text);
                return Ok(add_context_updates(worker, Outcome::final_failure(reason), end.response.as_deref()));
            }
            BudgetVerdict::Go | BudgetVerdict::Halt => {}
        }
    }
    if let Err(error) = &reply {
        end.is_stuck = error.is_stuck(worker.job.is_some() && end.is_answered);
    }
    let outcome = match reply {
        Ok(AgentReply { text, end: how }) => {
            let outcome = match how {
                End::Done | End::Doubtful(_) => {
                    let auto = || Outcome {
                        notes: worker
                            .node
                            .auto_status
                            .then(|| "auto-status: handler completed without writing status".to_owned()),
                        ..Outcome::success()
                    };
                    worker.read_status(status_file).unwrap_or_else(auto)
                }
                // The loop also stops an agent that moved the session's own branch, and reports that itself.
                End::Stopped if !cancel.cancel.is_stopped() => Outcome::fail("stopped by the session"),
                End::Stopped => return Err(Stopped::Paused(PauseReason::Interrupted)),
                End::Limit(reason) => Outcome::fail(reason),
            };
            end.response = Some(text);
            outcome
        }
        Err(AgentError::Cancelled) if cancel.timed_out() => worker.within_time(Outcome::success(), cancel),
        Err(AgentError::Cancelled) => return Err(Stopped::Paused(PauseReason::Interrupted)),
        Err(AgentError::TimedOut(reason)) => Outcome::fail(reason),
        // A retry would throw away a conversation that can be resumed.
        Err(AgentError::Unanswered(reason)) if end.is_stuck && goes_on => failed(reason, FailureClass::Final),
        Err(AgentError::Transient(reason) | AgentError::Unanswered(reason)) => failed(reason, FailureClass::Transient),
        Err(error @ AgentError::Diverged(_)) => failed(error.to_string(), FailureClass::Transient),
        Err(AgentError::Terminal(reason)) => failed(reason, FailureClass::Terminal),
        Err(AgentError::Environment(reason)) => failed(reason, FailureClass::Final),
    };
    Ok(add_context_updates(worker, outcome, end.response.as_deref()))
}

/// Context values that every agent node sets for the rest of the run.
fn add_context_updates(worker: &Worker, mut outcome: Outcome, response: Option<&str>) -> Outcome {
    let updates = &mut outcome.context_updates;
    updates.insert("last_stage".into(), worker.node.id.as_str().into());
    if let Some(response) = response {
        let response: String = response.chars().take(RESPONSE_IN_CONTEXT).collect();
        updates.insert("last_response".into(), response.into());
    }
    outcome
}

/// Reports a turn to be recorded, unless nothing happened in it.
async fn report_turn(
    worker: &mut Worker,
    kind: &str,
    turn: Turn,
    turns: &Turns,
    warnings: &mut Vec<Warning>,
) -> Result<BudgetVerdict, Stopped> {
    warnings.extend(turn.warnings.iter().cloned());
    let is_empty = turn.is_empty();
    let report = report(worker, kind, turn, &|| turns.unreported()).await?;
    warnings.extend(report.changes.warnings().cloned());
    if report.changes.is_committed() {
        turns.wrote();
    }
    if is_empty && !report.changes.is_committed() {
        return Ok(worker.verdict.clone());
    }
    let gone = || Stopped::Paused(PauseReason::Interrupted);
    let report = (worker.context.clone(), WorkerReport::Turn(Box::new(report)));
    worker.reports.send(report).await.map_err(|_| gone())?;
    let recorded = worker.answers.recv().await.ok_or_else(gone)?;
    block(|| worker.workspace.accept(&recorded.changes))?;
    worker.workspace.checkouts_followed(&recorded.followed);
    worker.next_turn += 1;
    worker.allowance = recorded.allowance;
    Ok(recorded.verdict)
}

/// Brings the recorded files back after recorded work was repeated.
fn end_redrive(worker: &mut Worker, warnings: &mut Vec<Warning>) -> Result<(), Stopped> {
    for kept in block(|| worker.workspace.end_redrive())? {
        warnings.push(WarningCode::ReplayDiffers.with(format!(
            "replayed from the record, the agent produced other files than before: they are kept at {kept}"
        )));
    }
    Ok(())
}

pub(super) async fn report(
    worker: &mut Worker,
    kind: &str,
    mut turn: Turn,
    unreported: Unreported<'_>,
) -> Result<TurnReport, Stopped> {
    let at = clock::now();
    let boundary = if turn.exact { "exact" } else { "inferred" };
    let inferred = (!turn.exact).then(|| ("Orchestra-Boundary".to_owned(), boundary.to_owned()));
    let by = attribution(worker.engine.attribution, kind, &turn.model);
    let trailers = inferred.into_iter().chain(by).collect();
    let intent = worker.engine.redactor.text(&turn.intent).into_owned();
    let in_words = is_in_words(&turn.intent, &turn.tool_calls);
    let mut changes = block(|| match worker.node.write {
        WritePolicy::Never => worker.workspace.unchanged(),
        _ => worker.workspace.scan(turn.writes.as_deref()),
    })?;
    let text = message(worker, &intent, &mut changes, &mut turn, unreported).await?;
    // Redacted whoever wrote it, so that commit and record agree.
    let (redactor, resolves) = (&worker.engine.redactor, worker.resolves.as_ref());
    let message = |paths: &[RepoPath], are_new: bool| {
        let text = text.clone().unwrap_or_else(|| work_message(resolves, &intent, in_words, paths, are_new));
        redactor.text(&text).into_owned()
    };
    let author = Author { facts: worker.facts(&turn.model, &turn.provider), trailers, at, message: &message };
    block(|| worker.workspace.commit(&author, &mut changes))?;
    let id = worker.turn_id();
    let event = AgentTurn {
        turn_number: id.number,
        turn: id,
        node_id: worker.node.id.clone(),
        visit: worker.visit.visit,
        attempt: worker.visit.attempt,
        agent: kind.to_owned(),
        model: turn.model,
        provider: turn.provider,
        messages: None,
        tool_calls: turn.tool_calls,
        files_written: changes.files(),
        token_usage: turn.usage,
        cost_usd: turn.cost_usd,
        estimated: turn.estimated,
        unbilled: turn.unbilled,
        side_calls: turn.side_calls,
        git_sha: some(changes.commits()),
        agent_head: some(changes.agent_heads()),
        commit_message: changes.message().cloned(),
        boundary: boundary.to_owned(),
        agent_state_ref: turn.state_ref,
        is_last: turn.is_last,
        extra: Default::default(),
    };
    let messages = turn.messages.iter().map(|message| {
        serde_json::to_value(message).expect("messages are structs with text keys, which always serialise")
    });
    Ok(TurnReport { turn: event, at, messages: messages.collect(), changes })
}

/// The message of a turn's commit, if a message writer is configured; its cost is part of the turn. Secrets are removed
/// from the request before it is sent.
async fn message(
    worker: &mut Worker,
    intent: &str,
    changes: &mut Changes,
    turn: &mut Turn,
    unreported: Unreported<'_>,
) -> Result<Option<String>, Stopped> {
    let engine = Arc::clone(&worker.engine);
    let Some(scribe) = engine.scribe.as_ref().filter(|_| worker.workspace.carries_turns()) else { return Ok(None) };
    if worker.allowance.limits.needs_prices() && scribe.is_unpriced() {
        changes.warn(scribe.unpriced_warning());
        return Ok(None);
    }
    let Some(patch) = block(|| worker.workspace.patch(changes))? else { return Ok(None) };
    let (allowance, node, spent) = (&worker.allowance, &worker.node.id, turn.spent());
    let may = |more: Amount| allowance.allows(node, spent + unreported() + more);
    let clean = |text: &str| engine.redactor.text(text).into_owned();
    let paths: Vec<String> = changes.paths().map(|path| clean(&path.to_string())).collect();
    // Pleach's own commits do not show how the project writes messages.
    let is_own = |message: &[u8]| message.windows(OWN_TRAILER.len()).any(|window| window == OWN_TRAILER);
    let mut recent: Vec<String> = Vec::new();
    for copy in worker.workspace.copies().filter(|copy| changes.of(&copy.name).is_some_and(|own| !own.paths.is_empty()))
    {
        let subjects =
            block(|| Ok(copy.repo.history().subjects(copy.at().base, RECENT, &|message| !is_own(message))?))?;
        recent.extend(subjects.iter().map(|subject| clean(subject)));
    }
    let task = clean(&worker.node.prompt);
    let subject = MessageInput { task: &task, intent, recent: &recent, paths: &paths, diff: &clean(&patch) };
    let written = scribe.write(subject, &may, &worker.cancel).await;
    if written.usage != Usage::default() {
        turn.side_calls.push(SideCall {
            purpose: "commit_message".to_owned(),
            model: written.model,
            provider: scribe.provider().to_owned(),
            token_usage: written.usage,
            cost_usd: written.cost_usd,
            estimated: written.estimated,
        });
    }
    if let Some(why) = written.fallback {
        changes.warn([
            WarningCode::MessageFallback.with(format!("the commit message is in the agent's own words: {why}"))
        ]);
    }
    Ok(written.text)
}

/// Changes made after the agent's last turn, as a separate turn.
async fn leftover(worker: &mut Worker, kind: &str, model: &str) -> Result<Option<TurnReport>, Stopped> {
    let turn = Turn { model: model.to_owned(), provider: "local".to_owned(), ..Turn::default() };
    Ok(Some(report(worker, kind, turn, &Amount::default).await?).filter(|report| report.changes.is_committed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_may_say_why_it_changed_nothing() {
        let says = [
            "There is nothing to do: the file is as it should be.",
            "I looked; **no changes were needed**.",
            "The function is already implemented.",
            "No change required",
        ];
        assert!(says.iter().all(|said| says_nothing_to_do(said)));
        let silent = [
            "Done.",
            "I have nothing.",
            "I changed the already broken parser.",
            "No changes were made because it failed.",
            "",
        ];
        assert!(!silent.iter().any(|said| says_nothing_to_do(said)));
    }
}
