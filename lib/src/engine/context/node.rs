//! What is recorded of a node: its start, its turns, its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Context;
use super::recording::{MadeStep, PendingRecord, Writers};
use crate::agent::Agent;
use crate::budget::Allowance;
use crate::clock;
use crate::engine::budget::BudgetVerdict;
use crate::engine::executor::{Assignment, Conversation, Job, Known, Recording, Start, Wanted, is_answered};
use crate::engine::task::StepReport;
use crate::engine::worker::{Effect, Finished, Stopped, TurnReport, output_message};
use crate::engine::{Error, Question};
use crate::event::{
    AgentTurn, Event, MessageRange, NodeExecution, NodeStarted, Outcome, PauseReason, PipelineCompleted,
    PipelineFailed, RetryAt, Route, Snapshot, SnapshotRecorded, TurnCommitted, Warning,
};
use crate::ids::{CommitId, NodeId, RepoName, TurnId};
use crate::llm::Message;
use crate::plan::pipeline::{HandlerKind, Node};
use crate::record::Batch;
use crate::route::{self, AttemptOutput, Decision};
use crate::state::{Position, Visit, digest};
use crate::workspace::Changes;

/// So many events wait at most until they are written.
const DEFER_AT_MOST: usize = 100;

/// What follows for the session when a node's worker has ended.
#[derive(Debug)]
pub(in crate::engine) enum NodeEnd {
    /// The run goes on.
    GoesOn,
    /// The node has no outcome: the session pauses in it, and ends with the error where there is one.
    Pauses { reason: PauseReason, why: Option<String>, error: Option<Error> },
}

impl NodeEnd {
    fn pauses(reason: PauseReason) -> Self {
        Self::Pauses { reason, why: None, error: None }
    }
}

/// A turn that is on record.
#[derive(Debug)]
pub(in crate::engine) struct RecordedTurn {
    /// What it changed, to be taken as the new state of the worktrees.
    pub changes: Changes,
    /// Nothing can be built on its branch any more, which is somebody else's now.
    pub is_stopped: bool,
}

/// What a node's end adds to the record.
#[derive(Default)]
struct Ending {
    /// From where the branches can be moved.
    branches: Snapshot,
    events: Vec<Event>,
    messages: Vec<Value>,
    changes: Option<Changes>,
    step: Option<StepReport>,
}

impl Ending {
    /// Adds what an agent's program said beside its answers. Gives the message that has it, where `next` is the next one
    /// that is recorded.
    fn push_stderr(&mut self, stderr: &str, next: u64) -> Option<u64> {
        if stderr.is_empty() {
            return None;
        }
        let number = next + self.messages.len() as u64;
        self.messages.push(output_message(stderr));
        Some(number)
    }

    /// What a command printed, if it is the end of one.
    fn output(&self) -> Option<String> {
        let is_command = matches!(self.events.first(), Some(Event::ToolExecution(_)));
        let message = self.messages.first().filter(|_| is_command)?;
        serde_json::from_value::<Message>(message.clone()).ok().map(|message| message.text())
    }
}

/// What became of a node that was to be started.
#[derive(Debug)]
pub(in crate::engine) enum Begun {
    /// It only passes on, and has ended.
    Passed(NodeEnd),
    /// It is on record, and this is to be carried out, with what is known of the record.
    Started(Box<Assignment>, Option<Known>),
}

impl Context {
    /// How a node takes part in the conversations of the run. The first agent after a resume, and a program, which reads
    /// one prompt, are told a summary instead.
    pub(in crate::engine) fn conversation(&mut self, node: &Node, visit: &Visit, continues: bool) -> Conversation {
        let degrade = self.degrade && !continues;
        let mut told = Conversation::of(&self.plan.pipeline, &self.state, node, visit, degrade);
        if !self.can_go_on_with(node, &told) {
            told = Conversation::of(&self.plan.pipeline, &self.state, node, visit, true);
        }
        if node.handler == HandlerKind::Codergen {
            self.degrade = false;
        }
        told
    }

    /// Whether the agent of a node can be given its conversation: it takes its messages, or it knows it by itself.
    fn can_go_on_with(&self, node: &Node, conversation: &Conversation) -> bool {
        let Some(thread) = &conversation.thread else { return true };
        let Ok(agent) = self.engine.agents.of(node) else { return true };
        let state = self.state.thread_states.get(thread);
        let is_new = !self.state.threads.contains_key(thread);
        agent.can_continue()
            || ((is_new || state.is_some()) && agent.can_resume(state, &self.plan.agent_home(&self.engine, &self.id)))
    }

    /// Starts a node or takes it up again, on record. `limits` are what it may spend, and whether it may spend anything.
    pub(in crate::engine) fn begin(
        &mut self,
        node: &Node,
        visit: &Visit,
        continues: bool,
        conversation: &Conversation,
        (allowance, order): (Allowance, BudgetVerdict),
    ) -> Result<Begun, Error> {
        let start = match continues {
            false => Start::First,
            true if self.must_start_over(node) => Start::Over,
            true => Start::Continued,
        };
        if start == Start::Over {
            self.memory.recorded = self.recording(node)?;
            // What the agent said before is not part of any conversation any more.
            self.memory.heard_mut().threads.clear();
        }
        if let Some(outcome) = self.engine.passes(&self.plan, &self.state, node) {
            return self.pass((node, visit), start, conversation, outcome).map(Begun::Passed);
        }
        let known = self.know(node, conversation)?;
        self.record_start(node, visit, start, conversation)?;
        let assignment = Assignment {
            session: self.plan.id.clone(),
            context: self.id.clone(),
            record: self.newest_record(),
            visit: visit.clone(),
            start,
            conversation: conversation.clone(),
            next_turn: self.state.turns + 1,
            allowance,
            order,
            job: Job::Node,
        };
        Ok(Begun::Started(Box::new(assignment), known))
    }

    /// What an executor is to know of the record, where the node needs that. What can be wrong with it is found out before
    /// the node counts as started.
    fn know(&mut self, node: &Node, conversation: &Conversation) -> Result<Option<Known>, Error> {
        if self.engine.needs_no_record(node) {
            return Ok(None);
        }
        if self.engine.is_of_agent(node) {
            self.engine.agent_of(node)?;
        }
        let thread = conversation.thread.as_deref();
        let wanted = Wanted::by(&self.engine, &self.plan, &self.state, node, thread);
        self.hear(&wanted)?;
        Ok(Some(Known {
            state: Arc::clone(&self.state),
            heard: Arc::clone(&self.memory.heard),
            interrupted: std::mem::take(&mut self.memory.interrupted),
            recorded: self.memory.recorded.take(),
        }))
    }

    /// The newest record of the context.
    pub(in crate::engine) fn newest_record(&self) -> CommitId {
        self.recorder.tip().expect("a context that was written to has a newest record")
    }

    /// Gives up the conversation of a node that starts over. Its agent may be answered from it once more.
    fn recording(&mut self, node: &Node) -> Result<Option<Recording>, Error> {
        let messages = std::mem::take(&mut self.memory.interrupted);
        let repeats = self.engine.agents.of(node).is_ok_and(|agent| agent.repeats_calls());
        repeats.then(|| Ok(Recording { messages, trees: self.plan.trees(&self.state)? })).transpose()
    }

    fn record_start(
        &mut self,
        node: &Node,
        visit: &Visit,
        start: Start,
        conversation: &Conversation,
    ) -> Result<(), Error> {
        let (summary, started) = self.started(node, visit, start, conversation);
        match start {
            Start::First | Start::Continued => self.write_with(&summary, started.into()),
            Start::Over => self.record_start_over(started, summary),
        }
    }

    /// The start of a node, and what the record says of it in one line.
    fn started(&self, node: &Node, visit: &Visit, start: Start, conversation: &Conversation) -> (String, NodeStarted) {
        let is_agent = node.handler == HandlerKind::Codergen;
        let mut started = NodeStarted {
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            handler: node.handler.as_str().to_owned(),
            base: self.state.work.clone(),
            starts_over: false,
            fidelity: is_agent.then(|| conversation.fidelity.as_str().to_owned()),
            thread: conversation.thread.clone().filter(|_| is_agent),
            extra: Default::default(),
        };
        if start != Start::First {
            started.base = self.node_base();
        }
        let what = match start {
            Start::First => "start",
            Start::Continued => "continue",
            Start::Over => "start over with",
        };
        (format!("{what} {} (visit {}, attempt {})", visit.node, visit.visit, visit.attempt), started)
    }

    /// Carries out a node that only passes on. It touches nothing, so both its start and its end may wait.
    fn pass(
        &mut self,
        (node, visit): (&Node, &Visit),
        start: Start,
        conversation: &Conversation,
        outcome: Outcome,
    ) -> Result<NodeEnd, Error> {
        // What says that a session is over comes after all it was about is in place: nobody brings a branch after then.
        if node.handler == HandlerKind::Exit && self.state.task.is_none() {
            self.flush_commits()?;
        }
        let (summary, started) = self.started(node, visit, start, conversation);
        self.defer(&summary, vec![started.into()])?;
        let finished = Finished::of(Ok(outcome));
        let end = self.node_ended(node, visit, finished, conversation)?;
        // Nodes that pass on to each other for long are not kept in memory alone.
        if self.pending.as_ref().is_some_and(|pending| pending.batch.events.len() > DEFER_AT_MOST) {
            self.flush()?;
        }
        Ok(end)
    }

    /// Records that a node begins anew, with the files it began with.
    fn record_start_over(&mut self, mut started: NodeStarted, summary: String) -> Result<(), Error> {
        started.starts_over = true;
        let (mut writers, mut restored) = (Writers::new(), Snapshot::new());
        for copy in self.working().copies() {
            if let Some((writer, commit)) = copy.restoring_commit(&started.node_id, clock::now())? {
                writers.insert(copy.name.clone(), writer);
                restored.insert(copy.name.clone(), commit);
            }
        }
        if restored.is_empty() {
            return self.write_with(&summary, started.into());
        }
        started.base.extend(restored.iter().map(|(repo, commit)| (repo.clone(), *commit)));
        let batch = Batch { summary, work: self.recorded_work(&restored), ..Batch::default() };
        self.record_with(writers, batch, vec![started.into()], clock::now())?;
        if self.carries_turns() {
            let from = self.branch_tips();
            self.move_branches(&from, &restored)?;
        }
        for (repo, commit) in restored {
            if let Some(copy) = self.working_mut().copy_mut(&repo) {
                copy.rebase_to(commit)?;
            }
        }
        Ok(())
    }

    pub(in crate::engine) fn node_base(&self) -> Snapshot {
        match &self.state.position {
            Position::Running { base, .. } => base.clone(),
            _ => self.state.work.clone(),
        }
    }

    /// Whether the interrupted node has its answer already, so that nothing more is done or spent on it.
    pub(in crate::engine) fn is_answered(&self, node: &Node) -> bool {
        let agent = self.engine.agents.of(node);
        agent.is_ok_and(|agent| is_answered(&self.state, &*agent, &self.memory.interrupted))
    }

    /// An agent that keeps no state in its messages cannot go on in the middle.
    fn must_start_over(&self, node: &Node) -> bool {
        let answered = self.is_answered(node);
        let has_turns = matches!(&self.state.position, Position::Running { turns, .. } if !turns.is_empty());
        let begun = node.handler == HandlerKind::Codergen && has_turns && !answered;
        let must = |agent: Arc<dyn Agent>| {
            let resumable = || {
                let state = self.state.agent_state(None);
                state.is_some() && agent.can_resume(state, &self.plan.agent_home(&self.engine, &self.id))
            };
            !(agent.can_continue() || resumable())
        };
        begun && self.engine.agents.of(node).is_ok_and(must)
    }

    pub(in crate::engine) fn record_turn(
        &mut self,
        report: TurnReport,
        conversation: &Conversation,
    ) -> Result<RecordedTurn, Error> {
        let TurnReport { turn, at, messages, mut changes } = report;
        let writers = self.take_writers(&mut changes);
        self.remember(conversation, &messages);
        let summary = turn_summary(&turn.turn.to_string(), &turn.node_id, &changes);
        let mut events = vec![self.numbered(turn, messages.len()).into()];
        events.extend(self.committed(&changes));
        let commits = changes.commits();
        let batch = Batch { summary, messages, work: self.recorded_work(&commits), ..Batch::default() };
        self.record_with(writers, batch, events, at)?;
        let (from, broken) = self.movable(Some(&changes))?;
        if self.carries_turns() {
            self.move_branches(&from, &commits)?;
        }
        Ok(RecordedTurn { changes, is_stopped: broken.is_some() })
    }

    /// From where the branches can be moved after a change, and why one cannot be, if so.
    fn movable(&self, changes: Option<&Changes>) -> Result<(Snapshot, Option<String>), Error> {
        let (mut from, mut broken) = (Snapshot::new(), None);
        for (repo, follower) in &self.followers {
            let seen = changes.and_then(|changes| changes.of(repo)?.branch);
            match follower.moves_from(seen) {
                Ok(at) => drop(from.insert(repo.clone(), at)),
                Err(error) if error.is_of_own_branch() => broken = broken.or(Some(error.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((from, broken))
    }

    /// Where the record has the branches.
    fn branch_tips(&self) -> Snapshot {
        self.followers.iter().map(|(repo, follower)| (repo.clone(), follower.tip())).collect()
    }

    /// The commits a record can have as parents: those of its own repository.
    pub(in crate::engine) fn recorded_work(&self, commits: &Snapshot) -> Vec<CommitId> {
        commits.get(&self.plan.record_repo).copied().into_iter().collect()
    }

    /// Takes what holds the objects of a change.
    fn take_writers(&self, changes: &mut Changes) -> Writers {
        changes.take_writers(|repo| self.plan.repos.get(repo).unwrap_or(&self.repo).writer())
    }

    /// The turn with the numbers its messages get.
    fn numbered(&self, mut turn: AgentTurn, messages: usize) -> AgentTurn {
        let first = self.recorder.next_message();
        turn.messages = (messages > 0).then(|| MessageRange { first, last: first + messages as u64 - 1 });
        // The built-in agent goes on from its conversation: everything since the node's prompt.
        let begin = self.first_message().unwrap_or(first);
        let spoken = turn.messages.map(|range| json!({"messages": MessageRange { first: begin, ..range }}));
        turn.agent_state_ref = match (turn.agent_state_ref.take(), spoken) {
            // Agents with a state of their own go on from that; the messages are there for those that lost it.
            (Some(Value::Object(mut own)), Some(Value::Object(spoken))) => {
                own.extend(spoken);
                Some(Value::Object(own))
            }
            (own, spoken) => own.or(spoken),
        };
        turn
    }

    fn committed(&self, changes: &Changes) -> Vec<Event> {
        if !self.carries_turns() {
            return Vec::new();
        }
        let turn = TurnId { context: self.id.clone(), number: self.state.turns + 1 };
        let committed = |(repo, git_sha): (RepoName, CommitId)| {
            let branch = self.state.branches.get(&repo)?.clone();
            Some(TurnCommitted { turn: turn.clone(), repo, branch, git_sha, extra: Default::default() }.into())
        };
        changes.commits().into_iter().filter_map(committed).collect()
    }

    fn remember(&mut self, conversation: &Conversation, messages: &[Value]) {
        if let Some(thread) =
            conversation.thread.as_ref().and_then(|thread| self.memory.heard_mut().threads.get_mut(thread))
        {
            thread
                .extend(messages.iter().filter_map(|message| serde_json::from_value::<Message>(message.clone()).ok()));
        }
    }

    /// Keeps what a node answered or printed for those after it, as the record has it.
    fn remember_answer(&mut self, node: &Node, number: Option<u64>, text: Option<String>) {
        match text {
            Some(text) => {
                let text = self.engine.redactor.text(&text).into_owned();
                self.memory.heard_mut().answers.insert(node.id.clone(), (number, text));
            }
            None => drop(self.memory.heard_mut().answers.remove(&node.id)),
        }
    }

    pub(in crate::engine) fn node_ended(
        &mut self,
        node: &Node,
        visit: &Visit,
        finished: Finished,
        conversation: &Conversation,
    ) -> Result<NodeEnd, Error> {
        let Finished { result, effect, duration, mut warnings, response, stderr, step, cut_short } = finished;
        let mut broken = self.mend_record()?;
        let is_stuck = matches!(result, Err(Stopped::Environment(_)));
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(Stopped::Environment(outcome)) => *outcome,
            Err(Stopped::Paused(reason)) => return Ok(NodeEnd::pauses(reason)),
            Err(Stopped::NoAnswer(answer, why)) => {
                let error = Question::of(&self.plan.pipeline, node, visit.visit).error(answer, why);
                let reason = PauseReason::WaitsForPerson;
                return Ok(NodeEnd::Pauses { reason, why: None, error: Some(error) });
            }
            Err(Stopped::Broken(error)) if error.is_of_own_branch() => Outcome::final_failure(error.to_string()),
            Err(Stopped::Broken(error)) => return Err(error.into()),
            Err(Stopped::Unable(error)) => return Err(*error),
        };
        let mut ending = Ending { step, ..self.effect(effect, conversation) };
        if let Some(step) = &mut ending.step {
            step.by = self.worked_by(&ending.events);
        }
        let trees = self.trees(ending.changes.as_ref())?;
        let output_digest = self.output_digest(&ending, response.as_deref());
        let mut decision = match outcome.failure_reason.clone().filter(|_| cut_short) {
            // Nothing is left to spend, wherever the run would go from here.
            Some(reason) => Decision { outcome, route: Route::Fail { reason }, delay: None },
            None => {
                let left = AttemptOutput { trees: &trees, output: output_digest.as_deref() };
                route::decide(&self.plan.pipeline, &self.state, visit, outcome, left)
            }
        };
        if is_stuck && !self.leads_on(&decision.route) {
            let why = decision.outcome.failure_reason.unwrap_or_default();
            let error = Error::Environment { node: node.id.clone(), why };
            let (reason, why) = (PauseReason::Interrupted, Some(error.to_string()));
            return Ok(NodeEnd::Pauses { reason, why, error: Some(error) });
        }
        // Nothing can be built on a branch that is somebody else's now, so there is nowhere to go from here.
        let (branches, moved) = self.movable(ending.changes.as_ref())?;
        ending.branches = branches;
        // A task goes on from what its branch has now, so there is no step to be made of this, and no attempt lost.
        if moved.is_some() && self.state.task.is_some() {
            return Ok(NodeEnd::pauses(PauseReason::Interrupted));
        }
        broken = moved.or(broken);
        if let Some(reason) = broken {
            decision = Decision { outcome: Outcome::fail(&*reason), route: Route::Fail { reason }, delay: None };
        }
        let number = self.last_message(node, ending.events.first());
        self.remember_answer(node, number, response.or_else(|| ending.output()));
        warnings.extend(self.last_warnings(node, &decision.route, &mut ending)?);
        let stderr = ending.push_stderr(&stderr, self.recorder.next_message());
        let executed = NodeExecution {
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            outcome: decision.outcome.clone(),
            route: decision.route.clone(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            prompt: self.first_message(),
            response: number,
            stderr,
            trees,
            output_digest,
            warnings,
            extra: Default::default(),
        };
        ending.events.push(executed.into());
        if let Some(delay) = decision.delay {
            ending.events.push(self.retry_at(visit, delay).into());
        }
        self.fold_end(node, &decision.outcome, &decision.route, ending)?;
        Ok(NodeEnd::GoesOn)
    }

    /// Whether a run goes on this way from an agent that could not work: with another try, or to somebody who has not had
    /// his turn yet. Who has would only be paid again, and an attempt at a task that could not be made is none.
    fn leads_on(&self, route: &Route) -> bool {
        match route {
            Route::Retry => true,
            Route::Edge { to } | Route::FailureTarget { to } | Route::Restart { to } => {
                self.state.task.is_none() && self.state.visits(to) == 0
            }
            Route::GateRetry { .. } | Route::Complete | Route::Fail { .. } => false,
        }
    }

    /// What a person should know beside what the worker has said.
    fn last_warnings(&mut self, node: &Node, route: &Route, ending: &mut Ending) -> Result<Vec<Warning>, Error> {
        let mut warnings = self.take_warnings();
        // A node that is tried again makes no step.
        if *route != Route::Retry {
            warnings.extend(self.warn_of_log(node, ending.step.as_ref(), ending.changes.as_mut())?);
        }
        Ok(warnings)
    }

    /// Folds the end of a node. It is written with the start of the next one, or when there is none.
    fn fold_end(&mut self, node: &Node, outcome: &Outcome, route: &Route, ending: Ending) -> Result<(), Error> {
        let Ending { events, messages, changes, step, branches } = ending;
        let at = clock::now();
        let (mut writers, mut made) = (Writers::new(), BTreeMap::new());
        if let Some(mut changes) = changes {
            writers = self.take_writers(&mut changes);
            let commits =
                changes.iter().filter_map(|(repo, change)| Some((repo.clone(), (change.commit?, change.tree))));
            made = commits.collect();
        }
        // The checkpoint describes the state after the events before it.
        let mut events = self.fold(events, at)?;
        let mut stepped = None;
        if *route != Route::Retry {
            let passed = outcome.status.is_success();
            stepped = self.step_of_node(node, passed, step, &mut writers, &made)?;
            let step = stepped.iter().map(|(step, _)| Event::from(step.clone())).collect();
            events.extend(self.fold(step, at)?);
            let last = self.last_events(node, route);
            events.extend(self.fold(last, at)?);
        }
        let summary = format!("{} {}: {}", node.id, outcome.status, route_words(route));
        let step = stepped.map(|(step, tree)| MadeStep { repo: step.repo, commit: step.git_sha, tree });
        let mut work: Vec<CommitId> = made.get(&self.plan.record_repo).map(|(commit, _)| *commit).into_iter().collect();
        work.extend(step.iter().filter(|step| step.repo == self.plan.record_repo).map(|step| step.commit));
        let batch = Batch { summary, messages, work, events, ..Batch::default() };
        self.defer_end(PendingRecord { writers, batch, branches, made, step });
        Ok(())
    }

    /// The events that close a node: where the workspace stands, the checkpoint, and the run's end.
    fn last_events(&self, node: &Node, route: &Route) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let checkpoint = self.state.to_checkpoint(node.id.clone());
        if let Some(workspace_snapshot) = checkpoint.workspace_snapshot.clone() {
            events.push(SnapshotRecorded { workspace_snapshot, extra: Default::default() }.into());
        }
        events.push(checkpoint.into());
        match route {
            // The session goes on with its other branches.
            _ if self.state.is_branch => {}
            Route::Complete => {
                let workspace_snapshot = self.state.work.clone();
                events.push(PipelineCompleted { workspace_snapshot, extra: Default::default() }.into());
            }
            Route::Fail { reason } => {
                let node_id = Some(route::failed_node(&self.plan.pipeline, &self.state, node).id.clone());
                events.push(PipelineFailed { reason: reason.clone(), node_id, extra: Default::default() }.into());
            }
            _ => {}
        }
        events
    }

    /// The kinds and models of the agents that took the running node's turns, its last one included.
    fn worked_by(&self, last: &[Event]) -> Vec<(String, String)> {
        let turns = match &self.state.position {
            Position::Running { turns, .. } => &turns[..],
            _ => &[],
        };
        let of_events = last.iter().filter_map(|event| match event {
            Event::AgentTurn(turn) => Some((turn.agent.clone(), turn.model.clone())),
            _ => None,
        });
        let mut by: Vec<(String, String)> = Vec::new();
        for one in turns.iter().filter_map(|turn| turn.by.clone()).chain(of_events) {
            if !by.contains(&one) {
                by.push(one);
            }
        }
        by
    }

    /// The events, messages and changes of a node's end.
    fn effect(&mut self, effect: Effect, conversation: &Conversation) -> Ending {
        match effect {
            Effect::None => Ending::default(),
            Effect::Human(answer) => Ending { events: vec![(*answer).into()], ..Ending::default() },
            Effect::Tool(tool) => {
                let mut execution = tool.tool;
                execution.output = Some(self.recorder.next_message());
                let mut events = vec![execution.into()];
                events.extend(self.committed(&tool.changes));
                Ending { events, messages: vec![tool.output], changes: Some(tool.changes), ..Ending::default() }
            }
            Effect::Leftover(report) => {
                self.remember(conversation, &report.messages);
                let mut events = vec![self.numbered(report.turn, report.messages.len()).into()];
                events.extend(self.committed(&report.changes));
                Ending { events, messages: report.messages, changes: Some(report.changes), ..Ending::default() }
            }
        }
    }

    /// A digest of what a command printed or an agent answered, without secrets.
    fn output_digest(&self, ending: &Ending, response: Option<&str>) -> Option<String> {
        let of_command = matches!(ending.events.first(), Some(Event::ToolExecution(_)));
        let printed = ending.messages.first().filter(|_| of_command).map(Value::to_string);
        let output = printed.or_else(|| response.map(str::to_owned))?;
        Some(format!("{:016x}", digest(&self.engine.redactor.text(&output))))
    }

    fn trees(&self, changes: Option<&Changes>) -> Result<Snapshot, Error> {
        let mut trees = Snapshot::new();
        for copy in self.working().copies() {
            let changed = changes.and_then(|changes| changes.of(&copy.name)).map(|change| change.tree);
            let pending = || self.pending.as_ref().and_then(|pending| pending.tree(&copy.name));
            let tree = match changed.or_else(pending) {
                Some(tree) => tree,
                None => copy.tree()?,
            };
            trees.insert(copy.name.clone(), CommitId::from_bytes(*tree.as_bytes()));
        }
        Ok(trees)
    }

    /// The number of the running node's first message: its prompt.
    fn first_message(&self) -> Option<u64> {
        match &self.state.position {
            Position::Running { turns, .. } => turns.iter().find_map(|turn| turn.messages).map(|range| range.first),
            _ => None,
        }
    }

    /// The number of the running node's last message: its answer, or a tool's output.
    fn last_message(&self, node: &Node, pending: Option<&Event>) -> Option<u64> {
        if let Some(Event::ToolExecution(tool)) = pending {
            return tool.output;
        }
        match &self.state.position {
            Position::Running { turns, .. } if node.handler == HandlerKind::Codergen => {
                turns.iter().rev().find_map(|turn| turn.messages).map(|range| range.last)
            }
            _ => None,
        }
    }

    fn retry_at(&self, visit: &Visit, delay: Duration) -> RetryAt {
        let jittered = delay.mul_f64(0.5 + fastrand::f64());
        let wait = SignedDuration::try_from(jittered).unwrap_or(SignedDuration::MAX);
        let now = clock::now();
        RetryAt {
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt + 1,
            at: now.checked_add(wait).unwrap_or(now),
            extra: Default::default(),
        }
    }
}

fn turn_summary(turn: &str, node: &NodeId, changes: &Changes) -> String {
    let first = changes.paths().next().map(|path| format!(" — {path}")).unwrap_or_default();
    let more = match changes.paths().count() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    format!("turn {turn}: {node}{first}{more}")
}

fn route_words(route: &Route) -> String {
    match route {
        Route::Edge { to } => format!("to {to}"),
        Route::FailureTarget { to } => format!("back to {to}"),
        Route::GateRetry { gate, to } => format!("gate {gate} is not satisfied, back to {to}"),
        Route::Restart { to } => format!("begin again at {to}"),
        Route::Retry => "once more".to_owned(),
        Route::Complete => "the end".to_owned(),
        Route::Fail { reason } => format!("the run fails: {reason}"),
    }
}
