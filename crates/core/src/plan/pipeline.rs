//! The typed graph of a pipeline: what the engine runs and the linter checks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::diagnostic::Span;
use super::parallel::{FanInRules, FanOutRules};
use crate::config::AgentChoice;
use crate::ids::{InvalidId, NodeId, PipelineName};

pub use super::dot::AttrValue;
pub use super::graph::{Attr, Attrs};

/// How often a run may come to a node that sets no `max_visits`.
pub const DEFAULT_MAX_VISITS: u32 = 25;

/// What runs a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandlerKind {
    /// The one node a run starts at.
    Start,
    /// The one node a run ends at.
    Exit,
    /// An agent with a prompt.
    Codergen,
    /// A branch point: passes the previous outcome on.
    Conditional,
    /// A shell command.
    Tool,
    /// A question to a person.
    WaitHuman,
    /// A pause of a set length.
    Wait,
    /// Fan-out.
    Parallel,
    /// Fan-in.
    FanIn,
    /// A pipeline that watches over another.
    ManagerLoop,
    /// A handler registered by the embedding program.
    Custom(String),
}

impl HandlerKind {
    /// The `type` attribute that selects it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Start => "start",
            Self::Exit => "exit",
            Self::Codergen => "codergen",
            Self::Conditional => "conditional",
            Self::Tool => "tool",
            Self::WaitHuman => "wait.human",
            Self::Wait => "wait",
            Self::Parallel => "parallel",
            Self::FanIn => "parallel.fan_in",
            Self::ManagerLoop => "stack.manager_loop",
            Self::Custom(name) => name,
        }
    }

    /// The handlers pleach has of its own.
    pub const BUILT_IN: [Self; 10] = [
        Self::Start,
        Self::Exit,
        Self::Codergen,
        Self::Conditional,
        Self::Tool,
        Self::WaitHuman,
        Self::Wait,
        Self::Parallel,
        Self::FanIn,
        Self::ManagerLoop,
    ];

    /// The handler a `type` attribute names, other engines' words included.
    pub fn from_type(word: &str) -> Self {
        let word = crate::plan::alias::handler_type(word).unwrap_or(word);
        let built_in = Self::BUILT_IN.into_iter().find(|kind| kind.as_str() == word);
        built_in.unwrap_or_else(|| Self::Custom(word.to_owned()))
    }

    /// The handler of a shape; none for `box` and for shapes without a meaning.
    pub fn from_shape(shape: &str) -> Option<Self> {
        Self::SHAPES.into_iter().find(|(name, _)| *name == shape).map(|(_, kind)| kind)
    }

    /// Every shape with a handler.
    pub const SHAPES: [(&str, Self); 12] = [
        ("Mdiamond", Self::Start),
        ("circle", Self::Start),
        ("Msquare", Self::Exit),
        ("doublecircle", Self::Exit),
        ("hexagon", Self::WaitHuman),
        ("diamond", Self::Conditional),
        ("component", Self::Parallel),
        ("tripleoctagon", Self::FanIn),
        ("parallelogram", Self::Tool),
        ("house", Self::ManagerLoop),
        ("insulator", Self::Wait),
        ("tab", Self::Codergen),
    ];
}

/// How much of the run so far an agent sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fidelity {
    /// The whole conversation of its thread.
    #[serde(rename = "full")]
    Full,
    /// The goal and the run's id.
    #[serde(rename = "truncate")]
    Truncate,
    /// A few bullets.
    #[default]
    #[serde(rename = "compact")]
    Compact,
    /// About 600 tokens.
    #[serde(rename = "summary:low")]
    SummaryLow,
    /// About 1,500 tokens.
    #[serde(rename = "summary:medium")]
    SummaryMedium,
    /// About 3,000 tokens.
    #[serde(rename = "summary:high")]
    SummaryHigh,
}

impl Fidelity {
    /// All modes.
    pub const ALL: [Self; 6] =
        [Self::Full, Self::Truncate, Self::Compact, Self::SummaryLow, Self::SummaryMedium, Self::SummaryHigh];

    /// The word in the DOT file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Truncate => "truncate",
            Self::Compact => "compact",
            Self::SummaryLow => "summary:low",
            Self::SummaryMedium => "summary:medium",
            Self::SummaryHigh => "summary:high",
        }
    }

    /// The mode of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// Whether a node may change files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// It may.
    #[default]
    May,
    /// Its changes are kept aside and undone.
    Never,
    /// Changing nothing is a failure.
    Must,
}

/// How attempts are spaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The default number of attempts, the first included; 0 for none.
    pub attempts: u32,
    /// The wait before the second attempt.
    pub initial: Duration,
    /// What each further wait is multiplied by.
    pub factor: f64,
}

impl Backoff {
    /// No wait is longer than this.
    pub const CAP: Duration = Duration::from_secs(60);

    /// The presets a `retry_policy` attribute may name.
    pub const PRESETS: [(&'static str, Self); 5] = [
        ("none", Self { attempts: 1, initial: Duration::from_millis(200), factor: 2.0 }),
        ("standard", Self { attempts: 5, initial: Duration::from_millis(200), factor: 2.0 }),
        ("aggressive", Self { attempts: 5, initial: Duration::from_millis(500), factor: 2.0 }),
        ("linear", Self { attempts: 3, initial: Duration::from_millis(500), factor: 1.0 }),
        ("patient", Self { attempts: 3, initial: Duration::from_millis(2000), factor: 3.0 }),
    ];

    /// The preset of that name.
    pub fn preset(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, backoff)| *backoff)
    }

    /// The wait after the `n`th failed attempt, from 1, before jitter.
    pub fn delay(&self, n: u32) -> Duration {
        let factor = self.factor.powi(n.saturating_sub(1).min(64) as i32);
        Duration::from_secs_f64((self.initial.as_secs_f64() * factor).min(Self::CAP.as_secs_f64()))
    }
}

/// A node of the pipeline. `attrs` has everything that was written, other engines' names replaced by ours; the fields
/// are what the engine needs of it, with defaults of enclosing scopes applied and the stylesheet laid under.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// What people see; the id where none is given.
    pub label: String,
    /// The shape as written, `box` by default.
    pub shape: String,
    /// What runs it.
    pub handler: HandlerKind,
    /// What an agent is asked to do, with variables expanded; the label where none is given.
    pub prompt: String,
    /// The command of a tool node.
    pub tool_command: Option<String>,
    /// Further attempts after the first.
    pub max_retries: Option<u32>,
    /// How attempts are spaced.
    pub retry_policy: Option<Backoff>,
    /// The run may not end while this node's newest outcome is not a success.
    pub goal_gate: bool,
    /// Where to go when the node, or its gate, fails.
    pub retry_target: Option<NodeId>,
    /// Where to go when `retry_target` is not given.
    pub fallback_retry_target: Option<NodeId>,
    /// How much of the run so far its agent sees.
    pub fidelity: Option<Fidelity>,
    /// The conversation its agent continues with.
    pub thread_id: Option<String>,
    /// Its classes, own ones first, then those of the subgraphs around it.
    pub classes: Vec<String>,
    /// The classes of the subgraphs around it, outermost first: the last one is the thread of its neighbours.
    pub subgraphs: Vec<String>,
    /// Its wall-clock limit.
    pub timeout: Option<Duration>,
    /// How long a pause lasts.
    pub duration: Option<Duration>,
    /// The model.
    pub llm_model: Option<String>,
    /// The model's provider.
    pub llm_provider: Option<String>,
    /// How hard the model should think.
    pub reasoning_effort: Option<String>,
    /// Success is assumed when the agent writes no status file.
    pub auto_status: bool,
    /// Exhausted retries count as partial success.
    pub allow_partial: bool,
    /// The agent that runs it, by its name in the config or as `command:…`.
    pub agent: Option<String>,
    /// The repository it works in.
    pub repo: Option<String>,
    /// Whether it may change files.
    pub write: WritePolicy,
    /// How often the run may come to it.
    pub max_visits: Option<u32>,
    /// The node that checks its work. Its agent is told the command of it.
    pub check: Option<NodeId>,
    /// The target of a human gate without an answer in time.
    pub human_default_choice: Option<String>,
    /// How a human gate is answered; without it, as its edges suggest.
    pub question: Option<QuestionKind>,
    /// Whether its agent may use tools (`shape=tab` may not).
    pub tools: bool,
    /// Its agent ends with a verdict, which is its outcome.
    pub verdict: bool,
    /// The step of a task pipeline it stands for.
    pub step: Option<String>,
    /// What it may spend.
    pub budget: OwnBudget,
    /// How a fan-out runs its branches; none for other nodes.
    pub fan_out: Option<FanOutRules>,
    /// How a fan-in brings branches together; none for other nodes.
    pub fan_in: Option<FanInRules>,
    /// Everything that was written.
    pub attrs: Attrs,
    /// Where it is declared.
    pub span: NodeSpan,
}

/// What a pipeline, or a node over all its visits, may spend. 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnBudget {
    /// Tokens.
    pub tokens: u64,
    /// US dollars.
    pub usd: f64,
}

/// How a question to a person is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// Yes or no: the first edge or the second.
    YesNo,
    /// One of several choices.
    MultipleChoice,
    /// In the person's own words.
    Freeform,
    /// Go on, or not: there is one edge.
    Confirmation,
}

impl Node {
    /// Whether it can resolve the conflicts of a merge: an agent, a command or a person, who may write.
    pub fn may_resolve(&self) -> bool {
        let acts = matches!(
            self.handler,
            HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::WaitHuman | HandlerKind::Custom(_)
        );
        acts && self.write != WritePolicy::Never
    }
}

impl QuestionKind {
    /// The words `question_type` takes.
    pub const WORDS: [&str; 4] = ["yes_no", "multiple_choice", "freeform", "confirmation"];

    /// The kind a word names.
    pub fn of_word(word: &str) -> Option<Self> {
        let kinds = [Self::YesNo, Self::MultipleChoice, Self::Freeform, Self::Confirmation];
        kinds.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// A place in the source that does not take part in comparing graphs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeSpan(pub Span);

impl From<Span> for NodeSpan {
    fn from(span: Span) -> Self {
        Self(span)
    }
}

impl PartialEq for NodeSpan {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An edge of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Where it leaves.
    pub from: NodeId,
    /// Where it arrives.
    pub to: NodeId,
    /// What people see, and what a preferred label is matched with.
    pub label: String,
    /// When it may be taken; none means always.
    pub condition: Option<Condition>,
    /// The heavier edge wins.
    pub weight: i64,
    /// Overrides the target's fidelity.
    pub fidelity: Option<Fidelity>,
    /// The conversation the target continues with.
    pub thread_id: Option<String>,
    /// Taking it starts the run again at its target.
    pub loop_restart: bool,
    /// It is taken with whatever a person says at a gate that is not one of its choices.
    pub freeform: bool,
    /// How often it may be taken.
    pub max_visits: Option<u32>,
    /// Everything that was written.
    pub attrs: Attrs,
    /// Where it is declared.
    pub span: NodeSpan,
}

/// A pipeline: nodes in the order they were first named, edges in the order they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pipeline {
    /// The graph's identifier.
    pub id: String,
    /// What the run is for, expanded.
    pub goal: String,
    /// What people see.
    pub label: String,
    /// The default of `max_retries`.
    pub default_max_retries: u32,
    /// The default retry policy.
    pub retry_policy: Option<Backoff>,
    /// Where to go when a gate without a target of its own fails.
    pub retry_target: Option<NodeId>,
    /// Where to go when `retry_target` is not given.
    pub fallback_retry_target: Option<NodeId>,
    /// The default fidelity.
    pub default_fidelity: Option<Fidelity>,
    /// The default conversation.
    pub default_thread: Option<String>,
    /// The default of `max_visits`.
    pub default_max_visits: Option<u32>,
    /// What a run of it may spend.
    pub budget: OwnBudget,
    /// Everything that was written on the graph.
    pub attrs: Attrs,
    /// Where its identifier is.
    pub span: NodeSpan,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    pub(super) by_id: BTreeMap<NodeId, usize>,
    pub(super) outgoing: Vec<Vec<usize>>,
    pub(super) incoming: Vec<Vec<usize>>,
}

/// A command the file's author wants to be run, for the question whether they are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineCommand<'a> {
    /// The node that runs it; none for one of the whole graph.
    pub node: Option<&'a NodeId>,
    /// The attribute it is in.
    pub attribute: &'static str,
    /// The exact text.
    pub text: &'a str,
}

impl Pipeline {
    /// Puts the parts together. An edge to a node that is not among `nodes` is left out of the indexes.
    pub(super) fn with_parts(mut self, nodes: Vec<Node>, edges: Vec<Edge>) -> Self {
        self.by_id = nodes.iter().enumerate().map(|(index, node)| (node.id.clone(), index)).collect();
        self.outgoing = vec![Vec::new(); nodes.len()];
        self.incoming = vec![Vec::new(); nodes.len()];
        for (index, edge) in edges.iter().enumerate() {
            if let Some(from) = self.by_id.get(&edge.from) {
                self.outgoing[*from].push(index);
            }
            if let Some(to) = self.by_id.get(&edge.to) {
                self.incoming[*to].push(index);
            }
        }
        (self.nodes, self.edges) = (nodes, edges);
        self
    }

    /// The name branches and trailers have.
    pub fn name(&self) -> Result<PipelineName, InvalidId> {
        PipelineName::of_graph(&self.id)
    }

    /// The nodes in the order they were first named.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes agents work on.
    pub fn agent_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.handler == HandlerKind::Codergen)
    }

    /// The edges in the order they were written.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The node of that id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.by_id.get(id).map(|index| &self.nodes[*index])
    }

    /// The edges that leave a node, in the order they were written.
    pub fn outgoing(&self, id: &NodeId) -> impl Iterator<Item = &Edge> {
        self.indexed(&self.outgoing, id)
    }

    /// The edges that arrive at a node, in the order they were written.
    pub fn incoming(&self, id: &NodeId) -> impl Iterator<Item = &Edge> {
        self.indexed(&self.incoming, id)
    }

    fn indexed<'a>(&'a self, index: &'a [Vec<usize>], id: &NodeId) -> impl Iterator<Item = &'a Edge> {
        let edges = self.by_id.get(id).map_or(&[][..], |node| &index[*node]);
        edges.iter().map(|edge| &self.edges[*edge])
    }

    /// The node a run starts at. A pipeline without errors has exactly one.
    pub fn start(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.handler == HandlerKind::Start)
    }

    /// The node a run ends at. A pipeline without errors has exactly one.
    pub fn exit(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.handler == HandlerKind::Exit)
    }

    /// Every command of the file, in order.
    pub fn commands(&self) -> Vec<PipelineCommand<'_>> {
        fn hooks<'a>(attrs: &'a Attrs, node: Option<&'a NodeId>) -> impl Iterator<Item = PipelineCommand<'a>> {
            ["tool_hooks.pre", "tool_hooks.post"].into_iter().filter_map(move |attribute| {
                match &attrs.get(attribute)?.value {
                    AttrValue::Text(text) if !text.is_empty() => Some(PipelineCommand { node, attribute, text }),
                    _ => None,
                }
            })
        }
        let graph_agent = self.attrs.get("agent").and_then(|attr| match &attr.value {
            AttrValue::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let is_command = |agent: &&str| agent.parse::<AgentChoice>().is_ok_and(|agent| agent.command_line().is_some());
        let mut commands: Vec<_> = hooks(&self.attrs, None).collect();
        commands.extend(graph_agent.filter(is_command).map(|text| PipelineCommand {
            node: None,
            attribute: "agent",
            text,
        }));
        for node in &self.nodes {
            let id = Some(&node.id);
            let tool = node.tool_command.as_deref();
            commands.extend(tool.map(|text| PipelineCommand { node: id, attribute: "tool_command", text }));
            let gate = node.fan_in.as_ref().and_then(|rules| rules.gate.as_deref());
            commands.extend(gate.map(|text| PipelineCommand { node: id, attribute: "gate", text }));
            let own = node.agent.as_deref().filter(is_command).filter(|agent| Some(*agent) != graph_agent);
            commands.extend(own.map(|text| PipelineCommand { node: id, attribute: "agent", text }));
            commands.extend(hooks(&node.attrs, id));
        }
        commands
    }
}
