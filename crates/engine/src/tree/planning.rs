//! Plans a tree with an agent that reads the specs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::env::{self, PlannerBudget, apart};
use agents::agent::{Agent, AgentError, AgentReply, End, Job, TurnVerdict, Turns};
use agents::llm::{Message, Pricing};
use os::process::Cancel;
use os::process::sandbox::SandboxPolicy;
use pleach_core::budget::Exceeded;
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::NodeId;
use pleach_core::plan::planner;
use pleach_core::plan::tree::{TaskTree, TreeError};

/// The planner and its settings. There is no session; nothing of the planner's output is recorded except its cost.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// The empty directory it works in.
    pub dir: &'a Path,
    /// The model, if one is named.
    pub model: Option<&'a str>,
    /// The timeout of one answer.
    pub timeout: Option<Duration>,
    /// What it may touch besides its directory; everything if `None`.
    pub sandbox: Option<&'a SandboxPolicy>,
    /// Cancels it.
    pub cancel: &'a Cancel,
}

impl fmt::Debug for Planner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("agent", &self.agent.kind()).field("model", &self.model).finish_non_exhaustive()
    }
}

/// The node id under which a planner's turns are recorded.
pub fn planner_node() -> NodeId {
    NodeId::new("plan").expect("`plan` is the name of a node")
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The agent did not answer.
    #[error("the planner did not answer: {0}")]
    Agent(#[from] AgentError),
    /// It reached a limit.
    #[error("the planner did not answer: {0}")]
    Limit(String),
    /// It was interrupted.
    #[error("interrupted before there was a plan")]
    Stopped,
    /// The budget is exhausted.
    #[error("{over}")]
    OverBudget {
        /// The limit.
        over: Exceeded,
        /// The configuration pauses runs there instead of failing them.
        pauses: bool,
    },
    /// The spending could not be recorded or read.
    #[error(transparent)]
    Engine(#[from] env::Error),
    /// The answer is not a valid tree, even after the errors were sent back.
    #[error("the planner's answer is not a valid tree, even when asked again")]
    Refused(Vec<TreeError>),
}

impl Planner<'_> {
    /// Plans a tree from files, given by name and text. An invalid answer is sent back once. `purse` pays for it, and
    /// `warn` receives its warnings.
    pub async fn plan(
        &self,
        files: &[(String, String)],
        purse: &mut PlannerBudget<'_>,
        warn: &mut (dyn FnMut(Warning) + Send),
    ) -> Result<TaskTree, PlanError> {
        let asked = planner::prompt(files);
        let mut spoken = Vec::new();
        let answer = self.ask(asked.clone(), &mut spoken, purse, warn).await?;
        let errors = match planner::read(&answer, files) {
            Ok(tree) => {
                let shortfall = planner::shortfall(&answer, &tree);
                shortfall.map(|text| WarningCode::PlanIncomplete.with(text)).into_iter().for_each(warn);
                return Ok(tree);
            }
            Err(errors) => errors,
        };
        let again = planner::retry_prompt(&errors);
        // A program has no memory, so it gets the whole prompt again.
        let again =
            if self.agent.can_continue() { again } else { format!("{asked}\n\nYour reply was:\n{answer}\n\n{again}") };
        let answer = self.ask(again, &mut spoken, purse, warn).await?;
        let tree = planner::read(&answer, files).map_err(PlanError::Refused)?;
        let shortfall = planner::shortfall(&answer, &tree);
        shortfall.map(|text| WarningCode::PlanIncomplete.with(text)).into_iter().for_each(warn);
        Ok(tree)
    }

    /// One prompt and its answer. `spoken` is the conversation, before and after.
    async fn ask(
        &self,
        prompt: String,
        spoken: &mut Vec<Message>,
        purse: &mut PlannerBudget<'_>,
        warn: &mut (dyn FnMut(Warning) + Send),
    ) -> Result<String, PlanError> {
        let node = planner_node();
        let pauses = purse.pauses();
        let balance = purse.balance(&node, None)?;
        balance.warnings.into_iter().for_each(&mut *warn);
        let limits = &balance.allowance.limits;
        let unpriced = self.agent.pricing(self.model).filter(|(_, price)| *price == Pricing::Unknown);
        let unpriced = unpriced.map(|(model, _)| model).or_else(|| purse.unpriced()).filter(|_| limits.needs_prices());
        let over = balance.over.or_else(|| limits.unpriced(&node, &unpriced?));
        if let Some(over) = over {
            return Err(PlanError::OverBudget { over, pauses });
        }
        let job = Job {
            model: self.model.map(str::to_owned),
            history: spoken.clone(),
            timeout: self.timeout,
            sandbox: self.sandbox.map(|policy| Arc::new(apart(policy, self.dir))),
            ..Job::new(node.clone(), prompt, self.dir, self.dir.join("status.json"))
        };
        let (turns, mut incoming) = Turns::channel();
        turns.limit(&node, balance.allowance);
        let mut over = None;
        let running = self.agent.run(job, &turns, self.cancel);
        tokio::pin!(running);
        let reply = loop {
            tokio::select! {
                biased;
                Some((turn, answer)) = incoming.recv() => {
                    purse.pay(&node, self.agent.kind(), &turn)?;
                    let balance = purse.balance(&node, Some(&turn))?;
                    balance.warnings.into_iter().for_each(&mut *warn);
                    turns.limit(&node, balance.allowance);
                    spoken.extend(turn.messages);
                    // An agent that has ended spends nothing more and need not be stopped.
                    over = balance.over.filter(|_| !turn.is_last);
                    let stops = self.cancel.is_stopped() || over.is_some();
                    let verdict = if stops { TurnVerdict::Stop } else { TurnVerdict::Go };
                    // An agent that does not wait for its verdict has ended.
                    let _ = answer.send(verdict);
                }
                reply = &mut running => break reply,
            }
        };
        match (reply, over) {
            (Ok(AgentReply { end: End::Stopped, .. }) | Err(_), Some(over)) if !self.cancel.is_stopped() => {
                Err(PlanError::OverBudget { over, pauses })
            }
            (reply, _) => answer_of(reply),
        }
    }
}

fn answer_of(reply: Result<AgentReply, AgentError>) -> Result<String, PlanError> {
    match reply {
        Ok(AgentReply { text, end: End::Done | End::Doubtful(_), .. }) => Ok(text),
        Ok(AgentReply { end: End::Limit(why), .. }) => Err(PlanError::Limit(why)),
        Ok(AgentReply { end: End::Stopped, .. }) | Err(AgentError::Cancelled) => Err(PlanError::Stopped),
        Err(error) => Err(error.into()),
    }
}
