//! A tree planned by an agent that reads the specs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Agent, AgentError, End, Job, Reply, Turns, Verdict};
use crate::engine::bounds::apart;
use crate::ids::NodeId;
use crate::llm::Message;
use crate::plan::planner;
use crate::plan::tree::{TaskTree, TreeError};
use crate::process::Cancel;
use crate::process::sandbox::Policy;

/// Who plans, and how. Nothing is recorded: there is no session.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// Where it works: an empty directory of its own.
    pub dir: &'a Path,
    /// The model, if one is named.
    pub model: Option<&'a str>,
    /// How long one answer may take.
    pub timeout: Option<Duration>,
    /// What it may touch beside its directory; everything if not given.
    pub sandbox: Option<&'a Policy>,
    /// Calls it off.
    pub cancel: &'a Cancel,
}

impl fmt::Debug for Planner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("agent", &self.agent.kind()).field("model", &self.model).finish_non_exhaustive()
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The agent did not answer.
    #[error("the planner did not answer: {0}")]
    Agent(#[from] AgentError),
    /// It came to a limit.
    #[error("the planner did not answer: {0}")]
    Limit(String),
    /// It was interrupted.
    #[error("interrupted before there was a plan")]
    Stopped,
    /// What it answered is no tree, also not when it was told what is wrong.
    #[error("the planner's answer is no valid tree, and it was no better when asked again")]
    Refused(Vec<TreeError>),
}

impl Planner<'_> {
    /// Has a tree planned from files, by name and text. An answer that does not hold together is sent back once.
    pub async fn plan(&self, files: &[(String, String)]) -> Result<TaskTree, PlanError> {
        let asked = planner::prompt(files);
        let mut spoken = Vec::new();
        let answer = self.ask(asked.clone(), &mut spoken).await?;
        let errors = match planner::read(&answer) {
            Ok(tree) => return Ok(tree),
            Err(errors) => errors,
        };
        let again = planner::again(&errors);
        // A program has no memory, so it is told everything once more.
        let again = match self.agent.can_continue() {
            true => again,
            false => format!("{asked}\n\nYour reply was:\n{answer}\n\n{again}"),
        };
        let answer = self.ask(again, &mut spoken).await?;
        planner::read(&answer).map_err(PlanError::Refused)
    }

    /// One question and its answer. `spoken` is the conversation, before and after.
    async fn ask(&self, prompt: String, spoken: &mut Vec<Message>) -> Result<String, PlanError> {
        let node = NodeId::new("plan").expect("`plan` is the name of a node");
        let job = Job {
            model: self.model.map(str::to_owned),
            history: spoken.clone(),
            timeout: self.timeout,
            sandbox: self.sandbox.map(|policy| Arc::new(apart(policy, self.dir))),
            ..Job::new(node, prompt, self.dir, self.dir.join("status.json"))
        };
        let (turns, mut incoming) = Turns::channel();
        let running = self.agent.run(job, &turns, self.cancel);
        tokio::pin!(running);
        let reply = loop {
            tokio::select! {
                biased;
                Some((turn, answer)) = incoming.recv() => {
                    spoken.extend(turn.messages);
                    let verdict = if self.cancel.is_stopped() { Verdict::Stop } else { Verdict::Go };
                    // An agent that does not wait for its verdict has ended.
                    let _ = answer.send(verdict);
                }
                reply = &mut running => break reply,
            }
        };
        match reply {
            Ok(Reply { text, end: End::Done | End::Doubtful(_) }) => Ok(text),
            Ok(Reply { end: End::Limit(why), .. }) => Err(PlanError::Limit(why)),
            Ok(Reply { end: End::Stopped, .. }) | Err(AgentError::Cancelled) => Err(PlanError::Stopped),
            Err(error) => Err(error.into()),
        }
    }
}
