//! What stands in for an agent when none is configured: it says so and does nothing.

use super::{Agent, AgentError, AgentReply, BoxFuture, End, Job, Turn, TurnVerdict, Turns};
use crate::llm::Message;
use os::process::Cancel;

/// Pretends to do every job. One turn per job, so that records show the node was simulated.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl Agent for Simulated {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn can_continue(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        job: Job,
        turns: &'a Turns,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<AgentReply, AgentError>> {
        Box::pin(async move {
            if let Some(reply) = job.answer() {
                return Ok(reply);
            }
            if cancel.is_killed() {
                return Err(AgentError::Cancelled);
            }
            let text = format!("[Simulated] Response for stage: {}", job.node);
            let turn = Turn {
                messages: vec![Message::user(job.prompt), Message::assistant(&text)],
                model: "simulated".into(),
                provider: "local".into(),
                intent: text.clone(),
                writes: Some(Vec::new()),
                exact: true,
                ..Turn::default()
            };
            let end = match turns.report(turn).await {
                TurnVerdict::Go => End::Done,
                TurnVerdict::Stop => End::Stopped,
            };
            Ok(AgentReply::new(text, end))
        })
    }
}
