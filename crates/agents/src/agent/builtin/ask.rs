//! Getting one usable answer out of a provider: a retry when it is busy, a reminder when its answer is malformed.

use std::time::Duration;

use super::BuiltinLimits;
use crate::agent::{AgentError, Turns};
use crate::llm::{
    Answered, Charge, ErrorClass, LlmError, Message, ModelNames, Part, Pricing, Provider, Request, Response, Role,
    Stop, meta,
};
use os::deadline::{Deadline, reached};
use os::process::Cancel;
use pleach_core::budget::Amount;
use pleach_core::event::SideCall;
use pleach_core::text::counted;

/// The shortest wait that is reported.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// What came of asking.
pub(super) enum AskOutcome {
    /// An answer that can be worked with.
    Answer(Box<Answered>),
    /// A stop was asked for while nothing was in flight.
    Stopped,
    /// The tries without a usable answer may have used the budget up.
    Unpaid,
    /// The conversation is longer than the model can take, in the provider's words.
    TooLong(String),
}

/// Tries without a usable answer that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct FailedTries {
    /// What was spent on them.
    pub calls: Vec<SideCall>,
    /// What arrived of their answers: for people, no part of the conversation.
    pub messages: Vec<Message>,
}

/// Asks for one turn.
pub(super) struct Asker<'a> {
    pub provider: &'a Provider,
    pub limits: &'a BuiltinLimits,
    pub deadline: Option<Deadline>,
    pub turns: &'a Turns,
}

impl Asker<'_> {
    /// Asks until there is an answer or retries make no sense. What tries without a usable answer cost and gave is put
    /// into `tries_so_far`, and no further one is made when that may be too much.
    pub(super) async fn ask(
        &self,
        request: &mut Request,
        tries_so_far: &mut FailedTries,
        cancel: &Cancel,
    ) -> Result<AskOutcome, AgentError> {
        let mut tries = 0;
        let mut failures = Failures::default();
        let mut nonsense = None;
        loop {
            if cancel.is_killed() {
                return Err(AgentError::Cancelled);
            }
            if cancel.is_stopped() {
                return Ok(AskOutcome::Stopped);
            }
            let owed = tries_so_far.calls.iter().map(Amount::of_side).fold(Amount::default(), |sum, call| sum + call);
            if !tries_so_far.calls.is_empty() && !self.turns.allow(owed) {
                return Ok(AskOutcome::Unpaid);
            }
            tries += 1;
            request.metadata.insert(meta::TRY.into(), tries.to_string());
            let error = match self.once(request, nonsense.as_deref(), cancel).await? {
                Ok(answered) => match fault_of(&answered.response) {
                    None => return Ok(AskOutcome::Answer(Box::new(answered))),
                    Some(fault) => {
                        let Answered { response, estimated } = answered;
                        let taken = (response.usage, estimated);
                        let error = LlmError::new(ErrorClass::Malformed, fault).charged(&response.model, taken);
                        error.with(Some(response.message))
                    }
                },
                Err(error) => error,
            };
            tries_so_far.calls.extend(error.charge.as_deref().map(|charge| self.side_call(&request.model, charge)));
            tries_so_far.messages.extend(error.arrived.as_deref().map(|arrived| {
                let mut arrived = arrived.clone();
                arrived.mark_failed(&error.message);
                arrived
            }));
            match error.class {
                ErrorClass::Cancelled => return Err(AgentError::Cancelled),
                ErrorClass::Malformed if nonsense.is_none() => nonsense = Some(error.message),
                ErrorClass::Malformed => {
                    let text = format!("the model's answer could not be used, twice: {}", error.message);
                    return Err(AgentError::Terminal(text));
                }
                ErrorClass::Transient | ErrorClass::Cut => {
                    failures.count(error.class);
                    let Some(pause) = self.pause(failures, error.retry_after) else {
                        return Err(AgentError::Unanswered(self.gave_up(&error, failures.all)));
                    };
                    if pause >= WORTH_TELLING {
                        self.turns.wait(&waits(&error.message, pause, failures.all, self.limits.retries));
                    }
                    let rested = self.rest(pause, cancel).await;
                    self.turns.stop_waiting();
                    rested?;
                }
                ErrorClass::Auth | ErrorClass::Unavailable => return Err(AgentError::Environment(error.message)),
                ErrorClass::ContextLength => return Ok(AskOutcome::TooLong(error.message)),
                ErrorClass::Terminal => return Err(AgentError::Terminal(error.message)),
            }
        }
    }

    /// A try without a usable answer, as it is recorded.
    fn side_call(&self, asked: &str, Charge { model, usage, estimated }: &Charge) -> SideCall {
        let named = ModelNames { asked, answered: model };
        SideCall {
            purpose: "failed_try".to_owned(),
            model: model.clone(),
            provider: self.provider.name().to_owned(),
            token_usage: *usage,
            cost_usd: self.provider.cost(named, usage),
            estimated: *estimated || self.provider.pricing(named) == Pricing::Estimated,
        }
    }

    /// One call, which ends early at a kill and at the job's deadline.
    async fn once(
        &self,
        request: &mut Request,
        nonsense: Option<&str>,
        cancel: &Cancel,
    ) -> Result<Result<Answered, LlmError>, AgentError> {
        // The remark is about an answer that is dropped, so it is no part of the conversation.
        if let Some(fault) = nonsense {
            let remark = format!("Your last answer could not be used ({fault}). Please answer again.");
            request.messages.push(Message::steering(remark));
        }
        let answer = tokio::select! {
            biased;
            () = cancel.killed() => Err(AgentError::Cancelled),
            answer = self.provider.complete(request, cancel) => Ok(answer),
            () = reached(self.deadline) => Err(AgentError::TimedOut("the model did not answer in the time of this task".into())),
        };
        if nonsense.is_some() {
            request.messages.pop();
        }
        answer
    }

    /// How long to wait after these failures; none when it is time to give up.
    fn pause(&self, failures: Failures, asked: Option<Duration>) -> Option<Duration> {
        let BuiltinLimits { retries, max_wait, .. } = self.limits;
        let too_often = failures.all > *retries || failures.cut > BuiltinLimits::MAX_CUT_RETRIES;
        if too_often || asked.is_some_and(|wait| wait > *max_wait) {
            return None;
        }
        Some(asked.unwrap_or_else(|| self.limits.pause(failures.all, 0.5 + fastrand::f64())))
    }

    /// Why there is no further retry.
    fn gave_up(&self, error: &LlmError, failures: u32) -> String {
        let wait = error.retry_after.filter(|wait| *wait > self.limits.max_wait);
        let wait =
            wait.map(|wait| format!(", it wants to be asked again after {} s", wait.as_secs())).unwrap_or_default();
        format!("{} (tried {}{wait})", error.message, counted(u64::from(failures), "time"))
    }

    /// Waits, but not past a stop or the job's deadline.
    async fn rest(&self, pause: Duration, cancel: &Cancel) -> Result<(), AgentError> {
        tokio::select! {
            biased;
            () = cancel.stopped() => Ok(()),
            () = tokio::time::sleep(pause) => Ok(()),
            () = reached(self.deadline) => Err(AgentError::TimedOut("the provider was busy for all the time of this task".into())),
        }
    }
}

/// Calls of one turn that failed for the moment.
#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    all: u32,
    /// Those that gave half an answer.
    cut: u32,
}

impl Failures {
    fn count(&mut self, class: ErrorClass) {
        self.all += 1;
        self.cut += u32::from(class == ErrorClass::Cut);
    }
}

/// What is waited for, in words.
fn waits(why: &str, pause: Duration, nth: u32, most: u32) -> String {
    format!("retrying in {} s ({nth} of {most}): {why}", pause.as_secs_f64().round())
}

/// What makes an answer unusable, if anything does.
fn fault_of(response: &Response) -> Option<String> {
    let message = &response.message;
    if message.role != Role::Assistant {
        return Some("it does not come from the model".into());
    }
    let mut ids: Vec<&str> = message.tool_calls().map(|(id, _, _)| id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != count || ids.contains(&"") {
        return Some("its tool calls cannot be told apart".into());
    }
    let says = |part: &Part| match part {
        Part::Text { text, .. } => !text.trim().is_empty(),
        Part::ToolCall { .. } => true,
        _ => false,
    };
    match &response.stop {
        // One that was cut off or withheld before its first word says why it is empty, and would be again.
        Stop::Length | Stop::ContentFilter => None,
        Stop::Other(reason) => Some(format!("it ended for an unknown reason: `{reason}`")),
        Stop::End | Stop::ToolCalls if !message.content.iter().any(says) => Some("it is empty".into()),
        Stop::End | Stop::ToolCalls => {
            let malformed = message.tool_calls().find(|(_, _, arguments)| !arguments.is_object());
            malformed.map(|(_, name, _)| format!("the arguments of its call of `{name}` are no JSON object"))
        }
    }
}
