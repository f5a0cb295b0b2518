//! From a flat graph to a [`Pipeline`]: every attribute the engine knows is read as what it must be.

use std::collections::BTreeSet;
use std::time::Duration;

use super::condition::{Condition, Expr, Op};
use super::diagnostic::Diagnostic;
use super::dot::{AttrValue, read_duration};
use super::graph::{Attr, Attrs, Graph, RawEdge, RawNode};
use super::parallel::{
    DEFAULT_MAX_PARALLEL, DEFAULT_QUORUM_PERCENT, ErrorPolicy, FanInPolicy, FanInRules, FanOutRules, JoinPolicy,
};
use super::pipeline::{Backoff, Edge, Fidelity, HandlerKind, Node, OwnBudget, Pipeline, QuestionKind, WritePolicy};
use crate::ids::NodeId;

/// Understands a graph. What cannot be understood is reported and left out.
pub fn build(graph: Graph) -> (Pipeline, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let handlers = handlers(&graph);
    let defaults = ["llm_model", "llm_provider", "reasoning_effort", "agent", "repo"]
        .map(|key| graph.attrs.get(key).map(|attr| attr.value.to_string()).filter(|text| !text.is_empty()));
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (raw, handler) in graph.nodes.into_iter().zip(handlers) {
        nodes.push(node(raw, handler, &defaults, &mut diagnostics));
    }
    let edges = graph.edges.into_iter().map(|raw| edge(raw, &mut diagnostics)).collect();
    let mut pipeline = pipeline(graph.id, graph.attrs, &mut diagnostics);
    pipeline.span = graph.span.into();
    (pipeline.with_parts(nodes, edges), diagnostics)
}

/// What runs each node: its `type`, else its shape, else (for start and exit, when no other node is one) its id.
fn handlers(graph: &Graph) -> Vec<HandlerKind> {
    let written = |node: &RawNode, key: &str| {
        node.attrs.get(key).map(|attr| attr.value.to_string()).filter(|text| !text.is_empty())
    };
    let by_attrs: Vec<Option<HandlerKind>> = graph
        .nodes
        .iter()
        .map(|node| {
            let by_type = written(node, "type").map(|word| HandlerKind::from_type(&word));
            by_type.or_else(|| written(node, "shape").and_then(|shape| HandlerKind::from_shape(&shape)))
        })
        .collect();
    let has = |kind: HandlerKind| by_attrs.contains(&Some(kind));
    let (has_start, has_exit) = (has(HandlerKind::Start), has(HandlerKind::Exit));
    let by_id = |node: &RawNode| match node.id.as_str() {
        "start" | "Start" if !has_start => HandlerKind::Start,
        "exit" | "Exit" | "end" if !has_exit => HandlerKind::Exit,
        _ => HandlerKind::Codergen,
    };
    graph.nodes.iter().zip(&by_attrs).map(|(node, kind)| kind.clone().unwrap_or_else(|| by_id(node))).collect()
}

fn pipeline(id: String, attrs: Attrs, diagnostics: &mut Vec<Diagnostic>) -> Pipeline {
    let mut read = AttrReader { attrs: &attrs, about: AttrOwner::Graph, diagnostics };
    let parts = Pipeline {
        id,
        goal: read.text("goal").unwrap_or_default(),
        label: read.text("label").unwrap_or_default(),
        default_max_retries: read.count("default_max_retries").unwrap_or(0),
        retry_policy: read.retry_policy(),
        retry_target: read.node_id("retry_target"),
        fallback_retry_target: read.node_id("fallback_retry_target"),
        default_fidelity: read.fidelity("default_fidelity"),
        default_thread: read.text("default_thread"),
        default_max_visits: read.count("default_max_visits"),
        budget: read.budget(),
        attrs: Attrs::new(),
        ..Pipeline::default()
    };
    Pipeline { attrs, ..parts }
}

fn node(raw: RawNode, handler: HandlerKind, defaults: &[Option<String>; 5], diagnostics: &mut Vec<Diagnostic>) -> Node {
    let mut read = AttrReader { attrs: &raw.attrs, about: AttrOwner::Node(&raw.id), diagnostics };
    let label = read.text("label").unwrap_or_else(|| raw.id.to_string());
    let shape = read.text("shape").unwrap_or_else(|| "box".into());
    let or_default = |own: Option<String>, index: usize| own.or_else(|| defaults[index].clone());
    let without_tools = shape == "tab" || read.text("type").as_deref() == Some("prompt");
    let parts = Node {
        prompt: read.text("prompt").unwrap_or_else(|| label.clone()),
        tool_command: read.text("tool_command"),
        max_retries: read.count("max_retries"),
        retry_policy: read.retry_policy().or_else(|| read.backoff_policy()),
        goal_gate: read.flag("goal_gate"),
        retry_target: read.node_id("retry_target"),
        fallback_retry_target: read.node_id("fallback_retry_target"),
        fidelity: read.fidelity("fidelity"),
        thread_id: read.text("thread_id"),
        classes: classes(read.text("class").as_deref(), &raw.subgraphs),
        timeout: read.duration("timeout"),
        duration: read.duration("duration"),
        llm_model: or_default(read.text("llm_model"), 0),
        llm_provider: or_default(read.text("llm_provider"), 1),
        reasoning_effort: or_default(read.text("reasoning_effort"), 2),
        auto_status: read.flag("auto_status"),
        allow_partial: read.flag("allow_partial"),
        agent: or_default(read.text("agent"), 3),
        repo: or_default(read.text("repo"), 4),
        write: read.write_policy(),
        max_visits: read.count("max_visits"),
        check: read.node_id("check"),
        human_default_choice: read.text("human.default_choice"),
        question: read.text("question_type").as_deref().and_then(QuestionKind::of_word),
        tools: read.tools().unwrap_or(!without_tools),
        verdict: read.flag("verdict"),
        step: read.text("step"),
        budget: read.budget(),
        fan_out: if handler == HandlerKind::Parallel { Some(read.fan_out()) } else { None },
        fan_in: if handler == HandlerKind::FanIn { Some(read.fan_in()) } else { None },
        id: raw.id.clone(),
        label,
        shape,
        handler,
        subgraphs: raw.subgraphs.clone(),
        attrs: Attrs::new(),
        span: raw.span.into(),
    };
    // Also what this node does not use must be what it claims to be.
    let counts: &[&str] = if parts.fan_out.is_some() { &[] } else { &["max_parallel", "k", "quorum_percent"] };
    for key in counts.iter().chain(&["manager.max_cycles"]) {
        read.count(key);
    }
    read.duration("manager.poll_interval");
    read.flag("templates");
    Node { attrs: raw.attrs, ..parts }
}

fn edge(raw: RawEdge, diagnostics: &mut Vec<Diagnostic>) -> Edge {
    let mut read = AttrReader { attrs: &raw.attrs, about: AttrOwner::Edge(&raw.from, &raw.to), diagnostics };
    let parts = Edge {
        label: read.text("label").unwrap_or_default(),
        condition: read.condition(),
        weight: read.integer("weight").unwrap_or(0),
        fidelity: read.fidelity("fidelity"),
        thread_id: read.text("thread_id"),
        loop_restart: read.flag("loop_restart"),
        freeform: read.flag("freeform"),
        max_visits: read.count("max_visits"),
        from: raw.from.clone(),
        to: raw.to.clone(),
        attrs: Attrs::new(),
        span: raw.span.into(),
    };
    Edge { attrs: raw.attrs, ..parts }
}

/// The rule that an attribute names a node which is there.
pub(super) fn rule_of_target(key: &str) -> &'static str {
    if key == "check" { "check_exists" } else { "retry_target_exists" }
}

/// Own classes first, then those of the subgraphs; each once.
pub(super) fn classes(own: Option<&str>, subgraphs: &[String]) -> Vec<String> {
    let own = own.unwrap_or_default().split([',', ' ']).map(str::trim).filter(|class| !class.is_empty());
    let mut seen = BTreeSet::new();
    own.map(str::to_owned).chain(subgraphs.iter().cloned()).filter(|class| seen.insert(class.clone())).collect()
}

enum AttrOwner<'a> {
    Graph,
    Node(&'a NodeId),
    Edge(&'a NodeId, &'a NodeId),
}

/// Reads attributes of one thing and reports the ones that are not what they must be.
struct AttrReader<'a, 'd> {
    attrs: &'a Attrs,
    about: AttrOwner<'a>,
    diagnostics: &'d mut Vec<Diagnostic>,
}

impl<'a> AttrReader<'a, '_> {
    /// The attribute, unless it is an empty text, which stands for none.
    fn attr(&self, key: &str) -> Option<&'a Attr> {
        self.attrs.get(key).filter(|attr| attr.value != AttrValue::Text(String::new()))
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(match self.about {
            AttrOwner::Graph => diagnostic,
            AttrOwner::Node(id) => diagnostic.at_node(id),
            AttrOwner::Edge(from, to) => diagnostic.at_edge(from, to),
        });
    }

    fn wrong<T>(&mut self, key: &str, attr: &Attr, expected: &str) -> Option<T> {
        let message = format!("`{key}` must be {expected}, not `{}`", attr.value);
        self.report(Diagnostic::error("attribute_type", message, attr.span));
        None
    }

    fn text(&self, key: &str) -> Option<String> {
        self.attr(key).map(|attr| attr.value.to_string())
    }

    fn boolean(&self, attr: &Attr) -> Option<bool> {
        match &attr.value {
            AttrValue::Boolean(value) => Some(*value),
            AttrValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn flag(&mut self, key: &str) -> bool {
        let Some(attr) = self.attr(key) else { return false };
        self.boolean(attr).or_else(|| self.wrong(key, attr, "`true` or `false`")).unwrap_or(false)
    }

    /// `tools=false`; a list of tools is another handler's business.
    fn tools(&self) -> Option<bool> {
        self.attr("tools").and_then(|attr| self.boolean(attr))
    }

    fn integer(&mut self, key: &str) -> Option<i64> {
        let attr = self.attr(key)?;
        let number = match &attr.value {
            AttrValue::Integer(number) => Some(*number),
            AttrValue::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.or_else(|| self.wrong(key, attr, "a whole number"))
    }

    fn count(&mut self, key: &str) -> Option<u32> {
        let attr = self.attr(key)?;
        let number = match &attr.value {
            AttrValue::Integer(number) => u32::try_from(*number).ok(),
            AttrValue::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.or_else(|| self.wrong(key, attr, "a whole number from 0"))
    }

    fn number(&mut self, key: &str) -> Option<f64> {
        let attr = self.attr(key)?;
        let number =
            attr.value.to_string().trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.or_else(|| self.wrong(key, attr, "a number from 0"))
    }

    /// What may be spent.
    fn budget(&mut self) -> OwnBudget {
        let tokens = self.number("budget.tokens").unwrap_or(0.0);
        OwnBudget { tokens: tokens as u64, usd: self.number("budget.usd").unwrap_or(0.0) }
    }

    /// A length of time; a bare number is seconds, which is pointed out.
    fn duration(&mut self, key: &str) -> Option<Duration> {
        let attr = self.attr(key)?;
        let bare_seconds = match &attr.value {
            AttrValue::Duration(duration) => return Some(*duration),
            AttrValue::Integer(number) => u64::try_from(*number).ok(),
            AttrValue::Text(text) => match read_duration(text.trim()) {
                Some(duration) => return Some(duration),
                None => text.trim().parse().ok(),
            },
            _ => None,
        };
        let Some(seconds) = bare_seconds else {
            return self.wrong(key, attr, "a duration such as `900s`, `15m` or `250ms`");
        };
        let note = format!("`{key}` has no unit and is taken as seconds");
        self.report(Diagnostic::note("alias", note, attr.span).with_fix(format!("write `{key}={seconds}s`")));
        Some(Duration::from_secs(seconds))
    }

    fn node_id(&mut self, key: &str) -> Option<NodeId> {
        let attr = self.attr(key)?;
        let text = attr.value.to_string();
        NodeId::new(text.trim()).ok().or_else(|| {
            let message = format!("`{key}` names the unknown node `{text}`");
            self.report(Diagnostic::warning(rule_of_target(key), message, attr.span));
            None
        })
    }

    fn fidelity(&mut self, key: &str) -> Option<Fidelity> {
        let attr = self.attr(key)?;
        let word = attr.value.to_string();
        Fidelity::from_word(&word).or_else(|| {
            let message = format!("`{word}` is not a value of `{key}`");
            let modes = Fidelity::ALL.map(Fidelity::as_str).join(", ");
            self.report(
                Diagnostic::warning("fidelity_valid", message, attr.span).with_fix(format!("use one of {modes}")),
            );
            None
        })
    }

    fn retry_policy(&mut self) -> Option<Backoff> {
        let attr = self.attr("retry_policy")?;
        let names = Backoff::PRESETS.map(|(name, _)| name).join(", ");
        Backoff::preset(&attr.value.to_string())
            .or_else(|| self.wrong("retry_policy", attr, &format!("one of {names}")))
    }

    /// Another engine's name for how attempts are spaced; how many there are it leaves to `max_retries`.
    fn backoff_policy(&mut self) -> Option<Backoff> {
        let attr = self.attr("backoff_policy")?;
        let name = attr.value.to_string();
        let Some(preset) = Backoff::preset(&name) else {
            let message = format!("`{name}` is not a value of `backoff_policy`");
            let names = Backoff::PRESETS.map(|(name, _)| name).join(", ");
            let warning = Diagnostic::warning("attribute_value", message, attr.span);
            self.report(warning.with_fix(format!("use one of {names}")));
            return None;
        };
        Some(Backoff { attempts: 0, ..preset })
    }

    fn fan_out(&mut self) -> FanOutRules {
        let (k, percent) = (self.count("k"), self.count("quorum_percent"));
        let join = match self.text("join_policy").as_deref() {
            Some("first_success") => JoinPolicy::FirstSuccess,
            Some("k_of_n") => JoinPolicy::KOfN(k.unwrap_or(0)),
            Some("quorum") => JoinPolicy::Quorum(percent.unwrap_or(DEFAULT_QUORUM_PERCENT)),
            _ => JoinPolicy::WaitAll,
        };
        let errors = self.text("error_policy").as_deref().and_then(ErrorPolicy::of_word).unwrap_or_default();
        let max_parallel = self.count("max_parallel").map_or(DEFAULT_MAX_PARALLEL, |count| count.max(1) as usize);
        FanOutRules { join, errors, max_parallel }
    }

    fn fan_in(&mut self) -> FanInRules {
        let written = self.text("fan_in.policy").as_deref().and_then(FanInPolicy::of_word);
        // Who writes a prompt wants an agent to choose.
        let default = if self.attr("prompt").is_some() { FanInPolicy::Judge } else { FanInPolicy::Merge };
        FanInRules { policy: written.unwrap_or(default), gate: self.text("gate") }
    }

    fn write_policy(&mut self) -> WritePolicy {
        let Some(attr) = self.attr("write") else { return WritePolicy::May };
        match attr.value.to_string().as_str() {
            "may" | "true" => WritePolicy::May,
            "false" => WritePolicy::Never,
            "must" => WritePolicy::Must,
            _ => self.wrong("write", attr, "`may`, `must` or `false`").unwrap_or_default(),
        }
    }

    fn condition(&mut self) -> Option<Condition> {
        let attr = self.attr("condition")?;
        let text = attr.value.to_string();
        if text.trim().is_empty() {
            return None;
        }
        match Condition::parse(&text) {
            Ok(condition) => {
                self.note_dialect(attr, &text, &condition);
                Some(condition)
            }
            Err(error) => {
                let message = format!("cannot read the condition `{text}`: {}", error.message);
                self.report(Diagnostic::error("condition_syntax", message, attr.span_at(error.offset)));
                None
            }
        }
    }

    /// Points out what other engines may not understand in a condition.
    fn note_dialect(&mut self, attr: &Attr, text: &str, condition: &Condition) {
        let mut beyond = false;
        condition.expr().walk(&mut |part| {
            beyond |= match part {
                Expr::Any(_) | Expr::Not(_) | Expr::Matches { .. } => true,
                Expr::Compare { op, .. } => !matches!(op, Op::Equal | Op::NotEqual),
                Expr::All(_) | Expr::Set(_) => false,
            };
        });
        if beyond {
            let note = "the condition uses operators that not every engine knows";
            self.report(Diagnostic::note("alias", note, attr.span));
        }
        for (other, real) in [("succeeded", "success"), ("failed", "fail")] {
            let rewritten = text.replace(' ', "").replace("==", "=");
            if rewritten.contains(&format!("outcome={other}")) || rewritten.contains(&format!("outcome!={other}")) {
                let note = format!("the outcome `{other}` is taken as `{real}`");
                self.report(Diagnostic::note("alias", note, attr.span).with_fix(format!("write `outcome={real}`")));
            }
        }
    }
}
