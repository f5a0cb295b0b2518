//! Unknown or misleading words: attributes, handler types, agents, models.

use std::collections::BTreeMap;

use super::KnownNames;
use super::tasks::no_step;
use crate::plan::alias;
use crate::plan::diagnostic::Diagnostic;
use crate::plan::dot::DefaultsFor;
use crate::plan::parallel::{ErrorPolicy, FanInPolicy, JoinPolicy};
use crate::plan::pipeline::{Attrs, HandlerKind, Node, Pipeline, QuestionKind};
use crate::text::{closest, listed};

/// The outcomes the engine itself gives. An agent may write others into its status file.
pub const CORE_OUTCOMES: [&str; 5] = ["success", "partial_success", "retry", "fail", "skipped"];

/// Attributes that take one of a few words.
const CHOICES: [(&str, &[&str]); 4] = [
    ("join_policy", &JoinPolicy::WORDS),
    ("error_policy", &ErrorPolicy::WORDS),
    ("fan_in.policy", &FanInPolicy::WORDS),
    ("question_type", &QuestionKind::WORDS),
];

/// The levels of reasoning effort. They are mapped to what a provider knows.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

pub(super) fn check(pipeline: &Pipeline, known: &KnownNames, found: &mut Vec<Diagnostic>) {
    let mut spelling = Spelling::default();
    spelling.check(DefaultsFor::Graph, &pipeline.attrs, |warning| found.push(warning));
    agent_mode(&pipeline.attrs, found);
    for node in pipeline.nodes() {
        spelling.check(DefaultsFor::Node, &node.attrs, |warning| found.push(warning.at_node(&node.id)));
        let mut warnings = Vec::new();
        spelling.shape(node, &mut warnings);
        handler_type(node, known, &mut warnings);
        needed(node, &mut warnings);
        step(node, &mut warnings);
        choices(node, &mut warnings);
        effort(pipeline, node, &mut warnings);
        agent_mode(&node.attrs, &mut warnings);
        configured(pipeline, node, known, &mut warnings);
        found.extend(warnings.into_iter().map(|warning| warning.at_node(&node.id)));
    }
    for edge in pipeline.edges() {
        spelling.check(DefaultsFor::Edge, &edge.attrs, |warning| found.push(warning.at_edge(&edge.from, &edge.to)));
    }
}

/// Wherever it is set: node, stylesheet or graph.
fn effort(pipeline: &Pipeline, node: &Node, found: &mut Vec<Diagnostic>) {
    let Some(word) = node.reasoning_effort.as_deref().filter(|word| !EFFORTS.contains(word)) else { return };
    let key = "reasoning_effort";
    let attr =
        node.attrs.get(key).or_else(|| pipeline.attrs.get(key)).or_else(|| pipeline.attrs.get("model_stylesheet"));
    let span = attr.map_or(node.span.0, |attr| attr.span);
    let message = format!("`{word}` is not a value of `{key}`");
    found.push(Diagnostic::error("effort_valid", message, span).with_fix(format!("use one of {}", EFFORTS.join(", "))));
}

/// Remembers what it found for a name, so that a name used a thousand times is compared once.
#[derive(Default)]
struct Spelling {
    seen: BTreeMap<(u8, String), Option<&'static str>>,
    shapes: BTreeMap<String, Option<&'static str>>,
}

impl Spelling {
    fn check(&mut self, target: DefaultsFor, attrs: &Attrs, mut report: impl FnMut(Diagnostic)) {
        for (key, attr) in attrs {
            let known = alias::known(target);
            if known.binary_search(&key.as_str()).is_ok() {
                continue;
            }
            let meant = *self
                .seen
                .entry((target as u8, key.clone()))
                .or_insert_with(|| if alias::is_cosmetic(key) { None } else { closest(key, known.iter().copied()) });
            if let Some(meant) = meant {
                let message = format!("unknown attribute `{key}` (did you mean `{meant}`?)");
                report(Diagnostic::warning("attribute_spelling", message, attr.span));
            }
        }
    }
}

impl Spelling {
    /// A misspelt shape does not fail: it silently makes an agent of what should be a tool or a gate.
    fn shape(&mut self, node: &Node, found: &mut Vec<Diagnostic>) {
        let Some(attr) = node.attrs.get("shape") else { return };
        let meant = *self.shapes.entry(node.shape.clone()).or_insert_with(|| {
            if alias::is_drawn(&node.shape) {
                None
            } else {
                closest(&node.shape, HandlerKind::SHAPES.into_iter().map(|(shape, _)| shape))
            }
        });
        if let Some(meant) = meant {
            let treated = if node.handler == HandlerKind::Codergen { "; treated as an agent node" } else { "" };
            let message = format!("unknown shape `{}`{treated}", node.shape);
            let warning = Diagnostic::warning("shape_spelling", message, attr.span);
            found.push(warning.with_fix(format!("did you mean `shape={meant}`?")));
        }
    }
}

fn handler_type(node: &Node, known: &KnownNames, found: &mut Vec<Diagnostic>) {
    let HandlerKind::Custom(name) = &node.handler else { return };
    if known.handlers.contains(name) {
        return;
    }
    let span = node.attrs.get("type").map_or(node.span.0, |attr| attr.span);
    let types =
        || HandlerKind::BUILT_IN.iter().map(HandlerKind::as_str).chain(known.handlers.iter().map(String::as_str));
    let meant = closest(name, types()).map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
    let message = format!("unknown node type `{name}`{meant}");
    let fix = format!("use one of {}", listed(types(), usize::MAX));
    found.push(Diagnostic::error("type_known", message, span).with_fix(fix));
}

/// Attributes without which a node has nothing to do.
fn needed(node: &Node, found: &mut Vec<Diagnostic>) {
    let written = |key: &str| node.attrs.get(key).is_some_and(|attr| !attr.value.to_string().trim().is_empty());
    // A misspelt one is reported as such.
    let known = alias::known(DefaultsFor::Node);
    let unknown = || node.attrs.keys().map(String::as_str).filter(|key| known.binary_search(key).is_err());
    let has = |key: &str| written(key) || closest(key, unknown().filter(|other| !alias::is_cosmetic(other))).is_some();
    let (rule, what, fix) = match node.handler {
        // The steps of a task are asked for by the task.
        HandlerKind::Codergen
            if !has("prompt") && !has("label") && !matches!(node.step.as_deref(), Some("implement" | "review")) =>
        {
            ("prompt_on_llm_nodes", "has neither a prompt nor a label to work from", "add `prompt=\"…\"`")
        }
        // The test of a task runs what the task says.
        HandlerKind::Tool if !has("tool_command") && node.step.as_deref() != Some("test") => {
            ("command_on_tool_nodes", "has no command to run and will always fail", "add `tool_command=\"…\"`")
        }
        HandlerKind::Wait if !has("duration") => {
            ("duration_on_wait_nodes", "does not say how long to wait", "add `duration=30s`")
        }
        _ => return,
    };
    found.push(Diagnostic::warning(rule, format!("`{}` {what}", node.id), node.span.0).with_fix(fix));
}

/// A step on a node nothing is committed of.
pub(crate) fn step(node: &Node, found: &mut Vec<Diagnostic>) {
    let span = node.attrs.get("step").map_or(node.span.0, |attr| attr.span);
    found.extend(no_step(node).map(|why| Diagnostic::warning("step_on_working_nodes", why, span)));
}

fn choices(node: &Node, found: &mut Vec<Diagnostic>) {
    for (key, words) in CHOICES {
        let Some(attr) = node.attrs.get(key) else { continue };
        let word = attr.value.to_string();
        if !word.is_empty() && !words.contains(&word.as_str()) {
            let message = format!("`{word}` is not a value of `{key}`");
            let fix = format!("use one of {}", words.join(", "));
            found.push(Diagnostic::warning("attribute_value", message, attr.span).with_fix(fix));
        }
    }
}

/// Other engines let a person talk with the agent of a node while it works.
fn agent_mode(attrs: &Attrs, found: &mut Vec<Diagnostic>) {
    let Some(attr) = attrs.get("agent.mode") else { return };
    match attr.value.to_string().trim().to_lowercase().as_str() {
        "interactive" => {
            let message = "interactive agents are not supported: agents work without a person";
            let fix = "remove `agent.mode`, and ask a person at a gate (`shape=hexagon`) after the node";
            found.push(Diagnostic::error("agent_mode", message, attr.span).with_fix(fix));
        }
        "" | "autonomous" | "auto" => {}
        other => {
            let message = format!("`{other}` is not a value of `agent.mode`");
            found.push(Diagnostic::warning("attribute_value", message, attr.span).with_fix("remove it"));
        }
    }
}

fn configured(pipeline: &Pipeline, node: &Node, known: &KnownNames, found: &mut Vec<Diagnostic>) {
    if node.handler != HandlerKind::Codergen {
        return;
    }
    let place = |key: &str| {
        let attr = node.attrs.get(key).or_else(|| pipeline.attrs.get(key));
        attr.map_or(node.span.0, |attr| attr.span)
    };
    if let (Some(agent), Some(agents)) = (&node.agent, &known.agents) {
        let on_the_spot = agent.starts_with("command:") || agent.starts_with("acp:");
        if !on_the_spot && !agents.contains(agent) {
            let message = format!("the agent `{agent}` is not configured");
            let fix = format!("add it under `agents:` in pleach.yaml, or use one of {}", listed(agents, usize::MAX));
            found.push(Diagnostic::warning("agent_configured", message, place("agent")).with_fix(fix));
        }
    }
    if let (Some(model), Some(models)) = (&node.llm_model, &known.models)
        && !models.contains(model)
    {
        let message = format!("the model `{model}` is not configured");
        let fix = format!("add it under `providers:` in pleach.yaml, or use one of {}", listed(models, usize::MAX));
        found.push(Diagnostic::warning("model_configured", message, place("llm_model")).with_fix(fix));
    }
    if let (Some(provider), Some(providers)) = (&node.llm_provider, &known.providers)
        && !providers.contains(&provider.to_ascii_lowercase())
    {
        let message = format!("the provider `{provider}` is not configured");
        let fix = format!("use one of {}", listed(providers, usize::MAX));
        found.push(Diagnostic::warning("provider_configured", message, place("llm_provider")).with_fix(fix));
    }
}
