//! The fold: what each event makes of a session, and which may not follow the ones before.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{NodeState, Phase, Position, RanCommand, State, TaskWork, TurnMark, Visit, limit_mark};
use crate::event::{
    Checkpoint, Event, HumanInteraction, MessageRange, NodeExecution, NodeStarted, Outcome, PipelineStarted, Recorded,
    Resumed, RetryAt, Route, Snapshot, Status,
};
use crate::ids::NodeId;
use crate::text::without_durations;

/// How often the run has reached the node it is at; after a dot, to the node of that id.
const VISIT_COUNT: &str = "internal.node_visit_count";

/// An event that cannot follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {kind} cannot follow: {why}")]
pub struct IllegalEvent {
    kind: String,
    why: String,
}

impl State {
    /// Folds `events` into the state of a new session.
    pub fn fold<'a>(start_node: NodeId, events: impl IntoIterator<Item = &'a Recorded>) -> Result<Self, IllegalEvent> {
        let mut state = Self::new(start_node);
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// Takes one more event in. On an error the state is as it was.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), IllegalEvent> {
        let result = match &recorded.event {
            Event::PipelineStarted(data) => self.started(data),
            Event::Resumed(data) => self.resumed(data),
            Event::NodeStarted(data) => self.node_started(data, recorded.at),
            Event::AgentTurn(data) => {
                let agent_state = data.agent_state_ref.clone().filter(|state| state.get("agent").is_some());
                let by = Some((data.agent.clone(), data.model.clone()));
                let turn = TurnMark {
                    turn: data.turn.clone(),
                    messages: data.messages,
                    agent_state,
                    by,
                    is_last: data.is_last,
                };
                let git_sha = data.git_sha.as_ref();
                let taken = self.turn(turn, data.turn_number, &data.node_id, data.visit, data.attempt, git_sha);
                taken.map(|()| self.spent.add(recorded.at, data))
            }
            Event::BudgetExceeded(data) => self.must_run().map(|()| self.exceeded.extend([limit_mark(data)])),
            Event::PriceUnknown(data) => self.must_run().map(|()| self.price_unknown.extend([data.model.clone()])),
            Event::ToolExecution(data) => {
                let messages = data.output.map(|number| MessageRange { first: number, last: number });
                let turn = TurnMark { turn: data.turn.clone(), messages, agent_state: None, by: None, is_last: false };
                let git_sha = data.git_sha.as_ref();
                let taken = self.turn(turn, data.turn_number, &data.node_id, data.visit, data.attempt, git_sha);
                taken.map(|()| {
                    let ran = RanCommand { command: data.command.clone(), exit: data.exit.clone() };
                    self.nodes.entry(data.node_id.clone()).or_default().ran = Some(ran);
                })
            }
            Event::HumanInteraction(data) => self.answered(data),
            Event::NodeExecution(data) => self.node_executed(data),
            Event::RetryAt(data) => self.retry_at(data),
            Event::Checkpoint(data) => self.checkpoint(data),
            Event::AttemptStarted(data) => self.attempt_started(data),
            Event::StepFinished(data) => self.step_finished(data),
            Event::Landing(data) if self.task.is_none() => self.landing(data),
            Event::Landing(data) => self.on_task(|task| {
                task.landing.retain(|before| before.repo != data.repo);
                task.landing.push(data.clone());
            }),
            Event::Landed(data) if self.task.is_none() => self.landed(data),
            Event::Landed(data) => self.on_task(|task| {
                task.landing.retain(|before| before.repo != data.repo);
                task.landed = Some(data.commit);
            }),
            Event::PipelinePaused(data) => self.end(Phase::Paused { reason: data.reason, why: data.why.clone() }),
            Event::PipelineCompleted(_) => self.end(Phase::Completed),
            Event::PipelineFailed(data) => self
                .end(Phase::Failed { reason: data.reason.clone() })
                .map(|()| self.failed_at = data.node_id.clone().or(self.completed.last().cloned())),
            Event::PipelineCancelled(_) => self.cancelled(),
            Event::ContextForked(data) => self.forked(data),
            Event::ParallelStarted(data) => self.parallel_started(data),
            Event::ParallelBranchCompleted(data) => self.branch_completed(data),
            Event::ParallelCompleted(data) => self.parallel_completed(data),
            Event::ContextJoined(data) => self.joined(data),
            Event::WorktreeMerged(data) => self.merged(data),
            Event::WorktreeMergeConflict(data) => self.merge_conflict(data),
            Event::ParallelBranchStarted(_) => self.branch_started(),
            Event::RepoCloned(_)
            | Event::RepoFetched(_)
            | Event::SessionBranchCreated(_)
            | Event::WorktreeCreated(_)
            | Event::TurnCommitted(_)
            | Event::SnapshotRecorded(_) => self.must_have_begun(),
            // What records do not hold, or this pleach does not know.
            Event::RunStarted(_)
            | Event::TaskStarted(_)
            | Event::TaskLanded(_)
            | Event::PhaseMerged(_)
            | Event::MergeComplete(_)
            | Event::MergeResolution(_)
            | Event::MergeEscalated(_)
            | Event::CleanupCompleted(_)
            | Event::BranchPushed(_)
            | Event::PushFailed(_)
            | Event::Warning(_)
            | Event::AgentSpoke(_)
            | Event::AgentWaits(_)
            | Event::Unknown { .. } => Ok(()),
        };
        result.map_err(|why| IllegalEvent { kind: recorded.event.kind().to_owned(), why })
    }

    fn started(&mut self, data: &PipelineStarted) -> Result<(), String> {
        if self.phase != Phase::New {
            return Err("the session has been started already".into());
        }
        self.phase = Phase::Running;
        self.branches = data.branches.clone();
        self.base = data.base.clone();
        self.work = data.base.clone();
        self.checkpointed = data.base.clone();
        self.context.insert("graph.goal".into(), data.goal.clone().into());
        for (key, value) in &data.inputs {
            self.context.insert(key.clone(), value.clone().into());
        }
        self.initial_context = self.context.clone();
        self.task = data.task.as_ref().map(|task| Box::new(TaskWork::new(task, data.built_on())));
        Ok(())
    }

    fn resumed(&mut self, data: &Resumed) -> Result<(), String> {
        if data.back.is_some() {
            return Err("it goes back to a state that only the whole history has".into());
        }
        let failed = match (&self.phase, &data.from) {
            (Phase::Running | Phase::Paused { .. }, _) => false,
            (Phase::Failed { .. }, Some(_)) if self.task.is_none() => true,
            _ => return Err(format!("the session is {}", self.phase.word())),
        };
        if let Some(from) = &data.from {
            if !self.can_start_at(from) {
                return Err(format!("the run has not reached `{from}`"));
            }
            self.go_back_to(from);
        } else if let Position::Running { interrupted, .. } = &mut self.position {
            *interrupted = true;
        }
        if failed {
            self.count_anew();
        }
        self.phase = Phase::Running;
        Ok(())
    }

    /// The next node is one the run has reached before.
    pub(super) fn go_back_to(&mut self, node: &NodeId) {
        if let Position::Running { turns, .. } = &self.position {
            let turns = turns.clone();
            self.forget_turns(&turns);
        }
        self.context.remove(&format!("internal.retry_count.{node}"));
        if !self.comes_after_join(node) {
            self.conflicts.clear();
        }
        if let Some(known) = self.nodes.get_mut(node) {
            known.retried = None;
        }
        let last = self.completed.iter().rposition(|completed| completed == node);
        let from = last.unwrap_or(self.completed.len()).checked_sub(1).map(|before| self.completed[before].clone());
        let visit = Visit { node: node.clone(), visit: self.visits(node) + 1, attempt: 1, from };
        self.position = Position::Ready { visit, not_before: None };
    }

    /// Whether the run reached a node after its newest join, so that what could not be merged there is still open.
    fn comes_after_join(&self, node: &NodeId) -> bool {
        let Some(fan_out) = &self.fan_out else { return false };
        let joined_by = fan_out.joined_by.as_ref();
        if *node == fan_out.node || joined_by == Some(node) {
            return false;
        }
        let last = |wanted: &NodeId| self.completed.iter().rposition(|completed| completed == wanted);
        self.failed_at.as_ref() == Some(node) || last(node) > joined_by.and_then(last)
    }

    /// A failed run is resumed: its limits count from here.
    pub(super) fn count_anew(&mut self) {
        self.failed_at = None;
        self.gate_retries.clear();
        self.edges_taken.clear();
        for node in self.nodes.values_mut() {
            (node.repeats, node.visits_before) = (0, node.visits);
        }
    }

    pub(super) fn must_have_begun(&self) -> Result<(), String> {
        if self.phase == Phase::New { Err("the session has not been started".into()) } else { Ok(()) }
    }

    pub(super) fn must_run(&self) -> Result<(), String> {
        if self.phase == Phase::Running { Ok(()) } else { Err(format!("the session is {}", self.phase.word())) }
    }

    fn node_started(&mut self, data: &NodeStarted, at: Timestamp) -> Result<(), String> {
        self.must_run()?;
        let (visit, continued) = match &self.position {
            Position::Ready { visit, .. } => (visit.clone(), None),
            Position::Running { visit, base, turns, interrupted: true, .. } => {
                (visit.clone(), Some((base.clone(), turns.clone())))
            }
            Position::Running { visit, .. } => return Err(format!("`{}` is running", visit.node)),
            Position::Ended => return Err("the run has ended".into()),
        };
        expect_visit(&visit, &data.node_id, data.visit, data.attempt)?;
        if let Some(attempt) = self.task.as_mut().and_then(|task| task.attempt.as_mut()) {
            attempt.is_told = false;
        }
        let node = self.nodes.entry(data.node_id.clone()).or_default();
        node.visits = data.visit;
        node.retries = data.attempt - 1;
        (node.ran, node.thread) = (None, data.thread.clone());
        for key in [VISIT_COUNT.to_owned(), format!("{VISIT_COUNT}.{}", data.node_id)] {
            self.context.insert(key, data.visit.into());
        }
        let (base, turns) = match continued {
            Some(kept) if !data.starts_over => kept,
            dropped => {
                self.forget_turns(&dropped.map(|(_, turns)| turns).unwrap_or_default());
                self.work = data.base.clone();
                (data.base.clone(), Vec::new())
            }
        };
        self.thread = data.thread.clone();
        self.position = Position::Running { visit, since: at, base, turns, interrupted: false };
        Ok(())
    }

    /// An agent that starts over does not continue with what it said before.
    fn forget_turns(&mut self, turns: &[TurnMark]) {
        if let Some(ranges) = self.thread.as_ref().and_then(|thread| self.threads.get_mut(thread)) {
            ranges.retain(|range| !turns.iter().any(|turn| turn.messages.as_ref() == Some(range)));
        }
        if let Some(thread) = self.thread.as_ref().filter(|_| turns.iter().any(|turn| turn.agent_state.is_some())) {
            self.thread_states.remove(thread);
        }
    }

    fn turn(
        &mut self,
        mark: TurnMark,
        number: u64,
        node: &NodeId,
        visit_number: u32,
        attempt: u32,
        git_sha: Option<&Snapshot>,
    ) -> Result<(), String> {
        self.must_run()?;
        let Position::Running { visit, turns, interrupted: false, .. } = &mut self.position else {
            return Err(format!("`{node}` is not running"));
        };
        expect_visit(visit, node, visit_number, attempt)?;
        if mark.turn.context != self.id {
            return Err(format!("turn {} is not of context `{}`", mark.turn, self.id));
        }
        if mark.turn.number != number {
            return Err(format!("turn {} has the number {number}", mark.turn));
        }
        if Some(number) != self.turns.checked_add(1) {
            return Err(format!("turn {number} comes after turn {}", self.turns));
        }
        self.turns = number;
        if let Some(range) = mark.messages {
            self.messages = self.messages.max(range.last);
            if let Some(thread) = &self.thread {
                self.threads.entry(thread.clone()).or_default().push(range);
            }
        }
        if mark.by.is_some() {
            self.prompt_append = None;
        }
        if let (Some(thread), Some(state)) = (&self.thread, &mark.agent_state) {
            self.thread_states.insert(thread.clone(), state.clone());
        }
        if let Some(commits) = git_sha {
            self.work.extend(commits.iter().map(|(repo, id)| (repo.clone(), *id)));
        }
        turns.push(mark);
        Ok(())
    }

    fn answered(&mut self, data: &HumanInteraction) -> Result<(), String> {
        self.must_run()?;
        match &self.position {
            Position::Running { visit, interrupted: false, .. }
                if visit.node == data.node_id && visit.visit == data.visit => {}
            _ => return Err(format!("`{}` is not running", data.node_id)),
        }
        // A person looked at it and wants another round: what repeats from here on is counted again. What was in for a
        // person has looked at nothing.
        if !matches!(data.source.as_str(), "auto-approve" | "default") {
            for node in self.nodes.values_mut() {
                node.repeats = 0;
            }
        }
        Ok(())
    }

    fn node_executed(&mut self, data: &NodeExecution) -> Result<(), String> {
        self.must_run()?;
        let Position::Running { visit, interrupted: false, .. } = &self.position else {
            return Err(format!("`{}` is not running", data.node_id));
        };
        expect_visit(visit, &data.node_id, data.visit, data.attempt)?;
        let visit = visit.clone();
        self.rewound = None;
        let messages = [data.prompt, data.response, data.stderr].into_iter().flatten();
        self.messages = messages.fold(self.messages, u64::max);
        if data.route == Route::Retry {
            self.context.insert(format!("internal.retry_count.{}", visit.node), data.attempt.into());
            let node = self.nodes.entry(visit.node.clone()).or_default();
            node.retried = Some(Outcome { context_updates: BTreeMap::new(), ..data.outcome.clone() });
            node.response = data.response;
            let again = Visit { attempt: visit.attempt + 1, ..visit };
            self.position = Position::Ready { visit: again, not_before: None };
            return Ok(());
        }
        self.take_outcome(&visit, data);
        self.advance(&visit, &data.route);
        Ok(())
    }

    fn take_outcome(&mut self, visit: &Visit, data: &NodeExecution) {
        let node = self.nodes.entry(visit.node.clone()).or_default();
        let result = result_digest(&data.outcome, &data.trees, data.output_digest.as_deref());
        node.repeats = if node.result == result { node.repeats + 1 } else { 1 };
        node.result = result;
        node.outcome = Some(Outcome { context_updates: BTreeMap::new(), ..data.outcome.clone() });
        node.retried = None;
        node.response = data.response;
        self.recheck.remove(&visit.node);
        // Each once: a run may go round a thousand times, and every checkpoint repeats the list.
        self.completed.retain(|node| *node != visit.node);
        self.completed.push(visit.node.clone());
        let updates = data.outcome.context_updates.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.context.extend(updates);
        self.context.remove(&format!("internal.retry_count.{}", visit.node));
        self.context.insert("current_node".into(), visit.node.as_str().into());
        if data.outcome.status != Status::Skipped {
            let label = data.outcome.preferred_label.clone().unwrap_or_default();
            self.context.insert("outcome".into(), data.outcome.status.as_str().into());
            self.context.insert("preferred_label".into(), label.into());
        }
    }

    fn advance(&mut self, from: &Visit, route: &Route) {
        let to = match route {
            Route::Edge { to } | Route::FailureTarget { to } => to,
            Route::GateRetry { gate, to } => {
                *self.gate_retries.entry(gate.clone()).or_default() += 1;
                self.recheck.insert(gate.clone());
                to
            }
            Route::Restart { to } => {
                self.restart();
                to
            }
            Route::Join { .. } | Route::Retry | Route::Complete | Route::Fail { .. } => {
                self.reached_exit = *route == Route::Complete;
                self.position = Position::Ended;
                if self.is_branch {
                    self.branch_end = Some(self.end_of_branch(&from.node, route));
                }
                return;
            }
        };
        // A jump to a target takes no edge, also where one happens to lead there.
        if matches!(route, Route::Edge { .. } | Route::Restart { .. }) {
            *self.edges_taken.entry(from.node.clone()).or_default().entry(to.clone()).or_default() += 1;
        }
        let visit = Visit { node: to.clone(), visit: self.visits(to) + 1, attempt: 1, from: Some(from.node.clone()) };
        self.position = Position::Ready { visit, not_before: None };
    }

    /// How a branch ends that comes to its end after a node.
    fn end_of_branch(&self, last: &NodeId, route: &Route) -> Outcome {
        match route {
            Route::Fail { reason } => Outcome::fail(reason.clone()),
            _ => self.outcome(last).cloned().unwrap_or_else(Outcome::success),
        }
    }

    /// A run that starts again forgets what its nodes said, but not how often it came to them: that bounds it.
    pub(super) fn restart(&mut self) {
        self.completed.clear();
        self.context = self.initial_context.clone();
        self.threads.clear();
        self.thread_states.clear();
        self.gate_retries.clear();
        self.recheck.clear();
        for node in self.nodes.values_mut() {
            *node = NodeState { visits: node.visits, visits_before: node.visits_before, ..NodeState::default() };
        }
    }

    fn retry_at(&mut self, data: &RetryAt) -> Result<(), String> {
        self.must_run()?;
        let Position::Ready { visit, not_before } = &mut self.position else {
            return Err("no retry is due".into());
        };
        expect_visit(visit, &data.node_id, data.visit, data.attempt)?;
        if visit.attempt == 1 || not_before.is_some() {
            return Err("no retry is due".into());
        }
        *not_before = Some(data.at);
        Ok(())
    }

    fn checkpoint(&mut self, data: &Checkpoint) -> Result<(), String> {
        self.must_run()?;
        if self.next_node() != data.next_node.as_ref() {
            return Err("its next node is not the one the events before it lead to".into());
        }
        // After a restart nothing counts as completed.
        let current = self.completed.last().is_none_or(|last| *last == data.current_node);
        let completed = &data.completed_nodes;
        // Earlier versions have listed a node as often as it had completed.
        let agrees = || completed.says(&self.completed) || newest(&completed.value()) == newest(&self.completed);
        if !current || !agrees() {
            return Err("its completed nodes are not those of the events before it".into());
        }
        match &data.workspace_snapshot {
            Some(snapshot) if *snapshot != self.work => {
                return Err("its commits are not those of the events before it".into());
            }
            Some(snapshot) => self.checkpointed = snapshot.clone(),
            None => {}
        }
        Ok(())
    }

    fn end(&mut self, phase: Phase) -> Result<(), String> {
        self.must_run()?;
        if self.is_branch {
            return Err("a branch of the run neither pauses nor ends the session".into());
        }
        let ended = self.position == Position::Ended;
        match phase {
            Phase::Completed if !(ended && self.reached_exit) => return Err("the run has not reached its exit".into()),
            Phase::Paused { .. } if ended => return Err("the run has ended".into()),
            Phase::Failed { .. } => self.position = Position::Ended,
            _ => {}
        }
        self.phase = phase;
        Ok(())
    }

    fn cancelled(&mut self) -> Result<(), String> {
        // A pass through a task's pipeline that has ended may still wait to land, or for another one.
        let is_open = self.task.as_ref().is_some_and(|task| task.landed.is_none());
        match self.phase {
            Phase::Running | Phase::Paused { .. } => {}
            Phase::Completed | Phase::Failed { .. } if is_open => {}
            _ => return Err(format!("the session is {}", self.phase.word())),
        }
        self.phase = Phase::Cancelled;
        self.position = Position::Ended;
        Ok(())
    }
}

/// The nodes of a list, each at its last place in it.
fn newest(nodes: &[NodeId]) -> Vec<&NodeId> {
    let is_last = |(at, node): &(usize, &NodeId)| !nodes[at + 1..].contains(node);
    nodes.iter().enumerate().filter(is_last).map(|(_, node)| node).collect()
}

/// Two results are the same when the outcome, the files and all that was printed or answered are.
pub fn result_digest(outcome: &Outcome, trees: &Snapshot, output: Option<&str>) -> u64 {
    let text = serde_json::to_string(&(outcome, trees)).unwrap_or_default();
    digest(&(text + output.unwrap_or_default()))
}

/// A digest of a text without its durations. FNV-1a, which stays the same from build to build: digests are part of kept
/// states and of records.
pub fn digest(text: &str) -> u64 {
    let text = without_durations(text);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn expect_visit(visit: &Visit, node: &NodeId, number: u32, attempt: u32) -> Result<(), String> {
    if visit.node == *node && visit.visit == number && visit.attempt == attempt {
        return Ok(());
    }
    Err(format!("`{}` visit {} attempt {} is due", visit.node, visit.visit, visit.attempt))
}
