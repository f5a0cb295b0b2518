//! One job of a program: run, resumed where that is possible, judged at its end.

use super::agent::{CliAgent, session_of};
use super::follow::StreamFollower;
use super::gateway;
use super::hooks::HookListener;
use super::launch::{Launch, LaunchOptions};
use super::outcome::{EndedRun, ProgramRun};
use super::parser::StreamReader;
use super::transcript::Transcript;
use crate::agent::commit_message::says_what_was_done;
use crate::agent::gateway_run::explain_failure;
use crate::agent::intent::{LONGEST, intent_of};
use crate::agent::tool_commands::Launchers;
use crate::agent::{Agent as _, AgentError, AgentReply, End, Job, Turn, TurnVerdict, Turns};
use crate::llm::{Message, Role};
use os::process::Cancel;
use pleach_core::config::{ParserName, TurnMode};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::text::shorten;

pub(super) async fn work(agent: &CliAgent, job: Job, turns: &Turns, cancel: &Cancel) -> Result<AgentReply, AgentError> {
    if let Some(early_reply) = job.early_reply(cancel) {
        return early_reply;
    }
    let session = job.resume.as_ref().filter(|state| agent.can_resume(Some(state), &job.home)).and_then(session_of);
    if let Some(session) = session.as_deref() {
        let (ran, last) = run_once(agent, &job, Some(session), turns, cancel).await?;
        let lost = !ran.transcript.spoke && ran.output.exit.code().is_some_and(|code| code != 0);
        if !lost || ran.unanswered.is_some() {
            return finish(agent, &job, ran, last, Vec::new(), turns).await;
        }
    }
    let (ran, last) = run_once(agent, &job, None, turns, cancel).await?;
    let warning = session.map(|session| {
        WarningCode::AgentCannotResume.with(format!(
            "`{}` could not resume its conversation {session} and started a new one",
            agent.preset.program
        ))
    });
    finish(agent, &job, ran, last, warning.into_iter().collect(), turns).await
}

/// Runs the program to its end, and reports the turns that are found while it runs. The last one is given back where it
/// is known already.
async fn run_once(
    agent: &CliAgent,
    job: &Job,
    session: Option<&str>,
    turns: &Turns,
    cancel: &Cancel,
) -> Result<(ProgramRun, Option<Turn>), AgentError> {
    let (ran, last) = match (agent.turns, &agent.upstream) {
        (TurnMode::Gateway, Some(upstream)) => gateway::run(agent, job, session, upstream, turns, cancel).await?,
        _ => (follow(agent, job, session, turns, cancel).await?, None),
    };
    turns.push_stderr(&ran.output.stderr.to_text());
    Ok((ran, last))
}

/// Runs the program outside of the gateway, and reports the turns it tells of.
async fn follow(
    agent: &CliAgent,
    job: &Job,
    session: Option<&str>,
    turns: &Turns,
    cancel: &Cancel,
) -> Result<ProgramRun, AgentError> {
    let listener = match agent.turns {
        TurnMode::Hooks => Some(HookListener::open(&job.home).map_err(|error| {
            AgentError::Transient(format!("cannot listen to the hooks of `{}`: {error}", agent.preset.program))
        })?),
        _ => None,
    };
    let settings = listener.as_ref().map(|listener| listener.settings(&agent.hook));
    let launchers = Launchers::install(&agent.commands, job, &agent.server)?;
    let launch = Launch { agent, job, launchers: launchers.as_ref() };
    let bounds = launch.bounds(None);
    let prompt = launch.prompt(session.is_some(), bounds.as_ref());
    let start = LaunchOptions { session, hooks: settings.as_deref(), endpoint: None, bounds: bounds.as_ref() };
    let command = launch.command(&prompt, start)?;
    let earlier = job.resume.as_ref().filter(|_| session.is_some()).and_then(|state| state.get("used"));
    let earlier = earlier.and_then(|used| serde_json::from_value(used.clone()).ok()).unwrap_or_default();
    let asked = if job.continues { prompt } else { job.prompt.clone() };
    let run = StreamFollower { agent, job, listener, transcript: Transcript::new(&asked), turns, stopped: false };
    run.follow(command, StreamReader::new(agent.preset.parser, earlier), cancel).await
}

/// Reports what is left after the program's end, and judges how it went.
async fn finish(
    agent: &CliAgent,
    job: &Job,
    ran: ProgramRun,
    last: Option<Turn>,
    warnings: Vec<Warning>,
    turns: &Turns,
) -> Result<AgentReply, AgentError> {
    let ProgramRun { output, mut transcript, stopped, undone, given_up, unanswered } = ran;
    if agent.turns == TurnMode::Gateway && stopped && last.is_none() {
        // Its turns are all reported: the last of them is what it was stopped after.
        return Ok(AgentReply::new(transcript.words(), End::Stopped));
    }
    let stderr = output.stderr.to_text();
    let judged = EndedRun {
        program: &agent.preset.program,
        exit: output.exit,
        claim: transcript.claim.as_ref(),
        speaks: agent.preset.parser != ParserName::None,
        denied: &transcript.denied,
        complaint: transcript.complaint.as_deref(),
        stderr: &stderr,
        exits: &agent.preset.exits,
        stopped,
    }
    .judge();
    let judged = match (judged, undone) {
        (Ok(End::Done | End::Doubtful(_)), Some(undone)) => Err(undone),
        (judged, _) => judged,
    };
    let judged = judged.map_err(|error| agent.with_credentials_hint(error));
    let judged = judged.map_err(|error| explain_failure(&agent.preset.program, error, unanswered.as_ref()));
    // Whatever it made of that.
    let judged = given_up.map_or(judged, Err);
    let failed = match &judged {
        Ok(End::Done | End::Doubtful(_)) => None,
        Ok(End::Limit(why)) => Some(why.clone()),
        Ok(End::Stopped) => Some("it was stopped".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let mut text = transcript.words();
    let events = transcript.last_turn(failed.as_deref(), |model, usage| agent.price(job, model, usage));
    let behind_gateway = agent.turns == TurnMode::Gateway;
    let mut turn = match last {
        // What went through the gateway is the whole truth.
        Some(mut last) => {
            if let (Some(why), Some(words)) = (&failed, last.messages.last_mut().filter(|last| last.is_answer())) {
                words.mark_failed(why);
            }
            last
        }
        None if behind_gateway => Turn::default(),
        None => events,
    };
    if agent.preset.parser == ParserName::None && !behind_gateway {
        text = output.stdout.to_text().trim().to_owned();
        let mut answer = Message::assistant(&text);
        if let Some(why) = &failed {
            answer.mark_failed(why);
        }
        turn.messages.truncate(1);
        turn.messages.push(answer);
        turn.intent = intent_of(&text, &[]);
    } else if agent.turns == TurnMode::Node && !text.is_empty() {
        turn.intent = overall_intent(&text, &turn);
    }
    turn.warnings.extend(warnings);
    if !transcript.denied.is_empty() {
        turn.warnings.extend(match &judged {
            Ok(End::Doubtful(why)) => Some(WarningCode::AgentDenied.with(why.clone())),
            _ => None,
        });
    }
    turn.is_last = true;
    let turn = agent.with_common_fields(job, turn, &transcript);
    let verdict = turns.report(turn).await;
    match (judged?, verdict) {
        (End::Done | End::Doubtful(_), TurnVerdict::Stop) => Ok(AgentReply::new(text, End::Stopped)),
        (end, _) => Ok(AgentReply::new(text, end)),
    }
}

/// What all of an agent's work in one turn was for: what it says came of it, or where that says nothing, what it said
/// on the way.
fn overall_intent(last: &str, turn: &Turn) -> String {
    let at_last = intent_of(last, &turn.tool_calls);
    if says_what_was_done(&intent_of(last, &[])) {
        return at_last;
    }
    let words = turn.messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text);
    let steps = words.map(|said| intent_of(&said, &[])).filter(|step| says_what_was_done(step));
    let closed = |step: String| if step.ends_with(['.', '!', '?']) { step } else { format!("{step}.") };
    match steps.map(closed).collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => at_last,
        steps => shorten(&steps, LONGEST),
    }
}
