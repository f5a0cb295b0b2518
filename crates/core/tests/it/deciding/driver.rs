//! Plays a pipeline as the engine does, batch by batch, with a script in place of the handlers.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pleach_core::event::{
    AgentTurn, Event, HumanInteraction, MessageRange, NodeExecution, NodeStarted, Outcome, PipelineCompleted,
    PipelineFailed, PipelineStarted, Recorded, Resumed, RetryAt, Route, Snapshot, Status, ToolExecution, Usage,
};
use pleach_core::ids::{CommitId, NodeId, RepoName, TurnId};
use pleach_core::plan::diagnostic::Severity;
use pleach_core::plan::pipeline::{HandlerKind, Pipeline};
use pleach_core::plan::{self, Inputs};
use pleach_core::route::{self, Action, AttemptOutput};
use pleach_core::state::{Phase, State, Visit};

/// What the script has a handler do.
#[derive(Debug, Clone)]
pub struct Done {
    pub outcome: Outcome,
    /// The files it leaves; none stands for files nobody has left before.
    pub tree: Option<u8>,
    /// Who answered, when somebody was asked.
    pub answered_by: Option<&'static str>,
    /// Turns an agent takes before it ends.
    pub turns: u8,
    /// How often the process dies before the node ends.
    pub crashes: u8,
    /// What it prints.
    pub output: Option<String>,
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, tree: None, answered_by: None, turns: 0, crashes: 0, output: None }
    }
}

/// The outcome with this status.
pub fn outcome(status: &str) -> Outcome {
    Outcome::of(Status::try_from(status.to_owned()).unwrap())
}

/// The same files each time.
pub fn on_tree(tree: u8, outcome: Outcome) -> Done {
    Done { tree: Some(tree), ..outcome.into() }
}

/// What each node answers, visit by visit; the last answer is repeated, and a node that is not named succeeds.
#[derive(Default)]
pub struct Script {
    answers: BTreeMap<String, Vec<Done>>,
    asked: BTreeMap<String, usize>,
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn node<T: Into<Done>>(mut self, node: &str, answers: impl IntoIterator<Item = T>) -> Self {
        self.answers.insert(node.to_owned(), answers.into_iter().map(Into::into).collect());
        self
    }

    pub fn answer(&mut self, visit: &Visit) -> Done {
        let asked = self.asked.entry(visit.node.to_string()).or_default();
        *asked += 1;
        let answers = self.answers.get(visit.node.as_str());
        answers.and_then(|list| list.get(*asked - 1).or(list.last())).cloned().unwrap_or(Outcome::success().into())
    }
}

pub fn pipeline(dot: &str) -> Pipeline {
    let (pipeline, diagnostics) = plan::load(dot, &Inputs::default(), &[]);
    let errors: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?} in {dot}");
    pipeline.unwrap()
}

/// A graph with start and exit around `inner`, in which the nodes that edges name are declared.
pub fn graph(inner: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut ids: Vec<&str> = Vec::new();
    let parts: Vec<&str> = inner.split("->").map(str::trim).collect();
    for pair in parts.windows(2) {
        ids.push(&pair[0][pair[0].trim_end_matches(word).len()..]);
        ids.push(&pair[1][..pair[1].len() - pair[1].trim_start_matches(word).len()]);
    }
    let mut text = String::from("digraph g { start [shape=Mdiamond] exit [shape=Msquare]\n");
    ids.iter().filter(|id| !["start", "exit"].contains(id)).for_each(|id| text.push_str(&format!("{id}\n")));
    text + inner + "\n}"
}

pub fn node(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

fn repo() -> RepoName {
    RepoName::new("repo").unwrap()
}

pub fn snapshot(number: u64) -> Snapshot {
    let mut bytes = [0; 20];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    Snapshot::from([(repo(), CommitId::from_bytes(bytes))])
}

pub fn started(pipeline: &Pipeline) -> PipelineStarted {
    PipelineStarted {
        name: pipeline.name().unwrap(),
        goal: pipeline.goal.clone(),
        dot: String::new(),
        dot_path: "g.dot".into(),
        files: BTreeMap::new(),
        inputs: BTreeMap::new(),
        config: serde_json::json!({}),
        base: snapshot(0),
        branches: BTreeMap::new(),
        targets: BTreeMap::new(),
        record_repo: None,
        simulated: false,
        task: None,
        resolves: None,
        extra: Default::default(),
    }
}

pub const BEGIN: &str = "2026-11-15T01:02:03.456Z";

/// A run in play.
pub struct Play {
    pub pipeline: Pipeline,
    pub state: State,
    /// The records so far, as the engine would have written them.
    pub batches: Vec<Vec<Recorded>>,
    pub now: Timestamp,
    /// The waits before retries.
    pub delays: Vec<std::time::Duration>,
    trees: u64,
}

/// What a session of one context does next.
pub fn next(state: &State, now: Timestamp) -> Vec<Action> {
    route::next(&[state], now).into_iter().map(|(_, action)| action).collect()
}

impl Play {
    /// A run that has just started.
    pub fn begin(dot: &str) -> Self {
        let pipeline = pipeline(dot);
        let state = State::new(pipeline.start().unwrap().id.clone());
        let now = BEGIN.parse().unwrap();
        let mut play = Self { state, batches: Vec::new(), now, delays: Vec::new(), trees: 1000, pipeline };
        assert_eq!(next(&play.state, play.now), [], "nothing runs before the session is started");
        let started = started(&play.pipeline);
        play.record(vec![started.into()]);
        play
    }

    /// Plays a whole run.
    pub fn run(dot: &str, mut script: Script) -> Self {
        let mut play = Self::begin(dot);
        while play.step(&mut |visit| script.answer(visit)) {}
        play
    }

    pub fn events(&self) -> Vec<Recorded> {
        self.batches.concat()
    }

    /// Writes one record: folds it, and lets time pass.
    pub fn record(&mut self, events: Vec<Event>) {
        self.now += SignedDuration::from_millis(1);
        let batch: Vec<Recorded> = events.into_iter().map(|event| Recorded { at: self.now, event }).collect();
        for event in &batch {
            self.state.apply(event).unwrap_or_else(|error| panic!("{error}: {event:?} in {:?}", self.state.position));
        }
        self.batches.push(batch);
    }

    /// Does what is to be done next; false at the end.
    pub fn step(&mut self, answer: &mut dyn FnMut(&Visit) -> Done) -> bool {
        let mut actions = next(&self.state, self.now);
        assert_eq!(next(&self.state, self.now), actions, "asking changes nothing");
        assert!(actions.len() <= 1, "{actions:?}");
        match actions.pop() {
            None => {
                let over = matches!(self.state.phase, Phase::Completed | Phase::Failed { .. });
                assert!(over, "the run stands still: {:?}", self.state);
                return false;
            }
            Some(Action::WakeAt(time)) => {
                assert!(time > self.now);
                self.now = time;
            }
            Some(Action::Start(visit) | Action::Continue(visit)) => {
                let done = self.handler(&visit, answer);
                self.play_node(&visit, done);
            }
        }
        true
    }

    fn handler(&self, visit: &Visit, answer: &mut dyn FnMut(&Visit) -> Done) -> Done {
        match self.pipeline.node(&visit.node).unwrap().handler {
            HandlerKind::Start | HandlerKind::Exit => Outcome::success().into(),
            // What the engine does for a branch point: the outcome before it is passed on.
            HandlerKind::Conditional => {
                let word = |key: &str| self.state.context.get(key).and_then(|value| value.as_str()).unwrap_or_default();
                let label = Some(word("preferred_label").to_owned()).filter(|label| !label.is_empty());
                let status = Status::try_from(word("outcome").to_owned()).unwrap_or(Status::Success);
                Outcome { preferred_label: label, ..Outcome::of(status) }.into()
            }
            _ => answer(visit),
        }
    }

    fn play_node(&mut self, visit: &Visit, done: Done) {
        self.start_node(visit);
        for _ in 0..done.turns {
            let turn = self.turn(visit);
            self.record(vec![turn.into()]);
            assert_eq!(next(&self.state, self.now), [], "a running node is not started again");
        }
        for _ in 0..done.crashes {
            self.die_and_resume();
            assert_eq!(next(&self.state, self.now), [Action::Continue(visit.clone())]);
            self.start_node(visit);
        }
        self.end_node(visit, done);
    }

    pub fn start_node(&mut self, visit: &Visit) {
        let event = self.node_started(visit);
        self.record(vec![event.into()]);
        assert_eq!(next(&self.state, self.now), [], "what has been started is not started again");
    }

    pub fn node_started(&self, visit: &Visit) -> NodeStarted {
        let handler = self.pipeline.node(&visit.node).unwrap().handler.clone();
        let thread = (handler == HandlerKind::Codergen).then(|| visit.node.to_string());
        NodeStarted {
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            handler: handler.as_str().into(),
            base: self.state.work.clone(),
            starts_over: false,
            fidelity: None,
            thread,
            extra: Default::default(),
        }
    }

    /// The process dies; another one reads the kept state and takes the session up.
    pub fn die_and_resume(&mut self) {
        let kept = serde_json::to_string(&self.state).unwrap();
        self.state = serde_json::from_str(&kept).unwrap();
        self.record(vec![Resumed::default().into()]);
    }

    fn turn_id(&self) -> TurnId {
        TurnId::of_main(self.state.turns + 1)
    }

    pub fn turn(&mut self, visit: &Visit) -> AgentTurn {
        self.trees += 1;
        let first = self.state.messages + 1;
        AgentTurn {
            turn: self.turn_id(),
            turn_number: self.state.turns + 1,
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            agent: "builtin".into(),
            model: "scripted".into(),
            provider: "script".into(),
            messages: Some(MessageRange { first, last: first + 1 }),
            tool_calls: Vec::new(),
            files_written: BTreeMap::new(),
            token_usage: Usage { input: 10, output: 3, ..Usage::default() },
            cost_usd: Some(0.1 + self.trees as f64 / 3e5),
            estimated: false,
            unbilled: false,
            side_calls: Vec::new(),
            git_sha: Some(snapshot(self.trees)),
            agent_head: None,
            commit_message: None,
            boundary: "exact".into(),
            agent_state_ref: None,
            is_last: false,
            extra: Default::default(),
        }
    }

    fn tool_run(&self, visit: &Visit) -> ToolExecution {
        ToolExecution {
            turn: self.turn_id(),
            turn_number: self.state.turns + 1,
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            command: "true".into(),
            exit: "exit 0".into(),
            duration_ms: 1,
            output: Some(self.state.messages + 1),
            files_written: BTreeMap::new(),
            git_sha: None,
            commit_message: None,
            extra: Default::default(),
        }
    }

    fn end_node(&mut self, visit: &Visit, done: Done) {
        self.trees += 1;
        let trees = snapshot(done.tree.map_or(self.trees, u64::from));
        let left = AttemptOutput { trees: &trees, output: done.output.as_deref() };
        let decision = route::decide(&self.pipeline, &self.state, visit, done.outcome.clone(), left);
        let again = route::decide(&self.pipeline, &self.state, visit, done.outcome, left);
        assert_eq!(decision, again, "the same question has one answer");
        let mut events: Vec<Event> = Vec::new();
        if self.pipeline.node(&visit.node).unwrap().handler == HandlerKind::Tool {
            events.push(self.tool_run(visit).into());
        }
        events.extend(done.answered_by.map(|source| answer(visit, source).into()));
        let executed = executed(visit, decision.outcome, decision.route.clone(), trees);
        events.push(NodeExecution { output_digest: done.output, ..executed }.into());
        assert_eq!(decision.delay.is_some(), decision.route == Route::Retry);
        if let Some(delay) = decision.delay {
            self.delays.push(delay);
            events.push(self.retry_at(visit, delay).into());
        }
        // The checkpoint describes the state after the events before it.
        let mut after = self.state.clone();
        let at = self.now;
        events.iter().for_each(|event| after.apply(&Recorded { at, event: event.clone() }).unwrap());
        if decision.route != Route::Retry {
            events.push(after.to_checkpoint(visit.node.clone()).into());
        }
        match decision.route {
            Route::Complete => events.push(PipelineCompleted::default().into()),
            Route::Fail { reason } => {
                let node_id = Some(visit.node.clone());
                events.push(PipelineFailed { reason, node_id, extra: Default::default() }.into());
            }
            _ => {}
        }
        self.record(events);
    }

    fn retry_at(&self, visit: &Visit, delay: std::time::Duration) -> RetryAt {
        RetryAt {
            node_id: visit.node.clone(),
            visit: visit.visit,
            attempt: visit.attempt + 1,
            at: self.now + SignedDuration::try_from(delay).unwrap() + SignedDuration::from_millis(1),
            extra: Default::default(),
        }
    }

    fn executions(&self) -> Vec<NodeExecution> {
        let execution = |recorded: Recorded| match recorded.event {
            Event::NodeExecution(data) => Some(data),
            _ => None,
        };
        self.events().into_iter().filter_map(execution).collect()
    }

    /// The nodes in the order they ended, attempts that were repeated left out.
    pub fn path(&self) -> String {
        let ended = self.executions().into_iter().filter(|execution| execution.route != Route::Retry);
        ended.map(|execution| execution.node_id.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// How the last attempt of a node ended.
    pub fn last(&self, node: &str) -> NodeExecution {
        self.executions().into_iter().rfind(|execution| execution.node_id == node).expect("the node has run")
    }

    /// All attempts of a node.
    pub fn executions_of(&self, node: &str) -> Vec<NodeExecution> {
        self.executions().into_iter().filter(|execution| execution.node_id == node).collect()
    }

    /// How often a node's handler ran.
    pub fn runs(&self, node: &str) -> usize {
        self.executions().iter().filter(|execution| execution.node_id == node).count()
    }

    /// `done`, or why the run failed.
    pub fn ending(&self) -> &str {
        match &self.state.phase {
            Phase::Failed { reason } => reason,
            other => other.word(),
        }
    }
}

pub fn answer(visit: &Visit, source: &str) -> HumanInteraction {
    HumanInteraction {
        node_id: visit.node.clone(),
        visit: visit.visit,
        question: "Go on?".into(),
        options: vec!["Yes".into()],
        answer: "Yes".into(),
        comment: None,
        source: source.into(),
        by: None,
        extra: Default::default(),
    }
}

pub fn executed(visit: &Visit, outcome: Outcome, route: Route, trees: Snapshot) -> NodeExecution {
    NodeExecution {
        node_id: visit.node.clone(),
        visit: visit.visit,
        attempt: visit.attempt,
        outcome,
        route,
        duration_ms: 5,
        prompt: None,
        response: None,
        stderr: None,
        trees,
        output_digest: None,
        warnings: Vec::new(),
        extra: Default::default(),
    }
}
