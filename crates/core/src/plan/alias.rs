//! The words of the dialect: which attributes there are, and what other engines call them.

use super::dot::DefaultsFor;

/// What a word is written as elsewhere, and the word it stands for here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alias {
    pub other: &'static str,
    pub real: &'static str,
    /// Our own second spelling: accepted without a word.
    pub silent: bool,
}

const fn alias(other: &'static str, real: &'static str) -> Alias {
    Alias { other, real, silent: false }
}

const NODE_ALIASES: &[Alias] = &[
    alias("script", "tool_command"),
    alias("model", "llm_model"),
    alias("provider", "llm_provider"),
    alias("llm_prompt", "prompt"),
    alias("node_type", "type"),
    alias("max_node_visits", "max_visits"),
    Alias { other: "runner", real: "agent", silent: true },
];

const GRAPH_ALIASES: &[Alias] = &[
    alias("default_max_retry", "default_max_retries"),
    alias("context_fidelity_default", "default_fidelity"),
    alias("context_thread_default", "default_thread"),
    alias("default_thread_id", "default_thread"),
    alias("max_node_visits", "default_max_visits"),
    alias("max_visits", "default_max_visits"),
    alias("model", "llm_model"),
    alias("provider", "llm_provider"),
    Alias { other: "runner", real: "agent", silent: true },
];

/// The alias `key` is on this kind of thing.
pub(crate) fn attribute(target: DefaultsFor, key: &str) -> Option<Alias> {
    let table = match target {
        DefaultsFor::Graph => GRAPH_ALIASES,
        DefaultsFor::Node => NODE_ALIASES,
        DefaultsFor::Edge => &[],
    };
    table.iter().find(|alias| alias.other == key).copied()
}

/// What another engine's word in `type` stands for.
pub(crate) fn handler_type(word: &str) -> Option<&'static str> {
    Some(match word {
        "agent" | "prompt" => "codergen",
        "command" => "tool",
        "human" => "wait.human",
        _ => return None,
    })
}

/// What another engine's shape stands for, in words.
pub(crate) fn shape(word: &str) -> Option<&'static str> {
    Some(match word {
        "circle" => "a start node, `shape=Mdiamond`",
        "doublecircle" => "an exit node, `shape=Msquare`",
        "tab" => "a prompt without tools, `tools=false`",
        "insulator" => "a pause, `type=wait`",
        _ => return None,
    })
}

/// Attributes that mean something on this kind of thing.
pub(crate) fn known(target: DefaultsFor) -> &'static [&'static str] {
    match target {
        DefaultsFor::Graph => GRAPH,
        DefaultsFor::Node => NODE,
        DefaultsFor::Edge => EDGE,
    }
}

const GRAPH: &[&str] = &[
    "agent",
    "budget.tokens",
    "budget.usd",
    "default_fidelity",
    "default_max_retries",
    "default_max_visits",
    "default_thread",
    "fallback_retry_target",
    "goal",
    "label",
    "llm_model",
    "llm_provider",
    "model_stylesheet",
    "reasoning_effort",
    "repo",
    "retry_policy",
    "retry_target",
    "stack.child_dotfile",
    "stack.child_workdir",
    "tool_hooks.post",
    "tool_hooks.pre",
];

const NODE: &[&str] = &[
    "agent",
    "agent.mode",
    "allow_partial",
    "auto_status",
    "backoff_policy",
    "budget.tokens",
    "budget.usd",
    "check",
    "class",
    "duration",
    "error_policy",
    "fallback_retry_target",
    "fan_in.policy",
    "fidelity",
    "gate",
    "goal_gate",
    "human.default_choice",
    "join_policy",
    "k",
    "label",
    "llm_model",
    "llm_provider",
    "manager.actions",
    "manager.max_cycles",
    "manager.poll_interval",
    "manager.stop_condition",
    "max_parallel",
    "max_retries",
    "max_visits",
    "prompt",
    "prompt_file",
    "question_type",
    "quorum_percent",
    "reasoning_effort",
    "repo",
    "retry_policy",
    "retry_target",
    "shape",
    "sim_outcomes",
    "stack.child_autostart",
    "stack.child_dotfile",
    "stack.child_workdir",
    "step",
    "templates",
    "thread_id",
    "timeout",
    "tool_command",
    "tool_hooks.post",
    "tool_hooks.pre",
    "tools",
    "type",
    "verdict",
    "write",
];

const EDGE: &[&str] =
    &["condition", "fidelity", "freeform", "label", "loop_restart", "max_visits", "thread_id", "weight"];

/// Whether an attribute of Graphviz only changes how a graph is drawn.
pub(crate) fn is_cosmetic(key: &str) -> bool {
    COSMETIC.split_whitespace().any(|word| word == key)
}

/// Whether Graphviz can draw this shape. Such a shape is intended, also when it does not decide what a node does.
pub(crate) fn is_drawn(shape: &str) -> bool {
    DRAWN.split_whitespace().any(|word| word == shape)
}

const DRAWN: &str = "
    Mcircle Mdiamond Mrecord Msquare assembly box box3d cds circle component cylinder diamond doublecircle
    doubleoctagon egg ellipse fivepoverhang folder hexagon house insulator invhouse invtrapezium invtriangle larrow
    lpromoter none note noverhang octagon oval parallelogram pentagon plain plaintext point polygon primersite
    promoter proteasesite proteinstab rarrow record rect rectangle restrictionsite ribosite rnastab rpromoter
    septagon signature square star tab terminator threepoverhang trapezium triangle tripleoctagon underline utr
";

const COSMETIC: &str = "
    arrowhead arrowsize arrowtail bb bgcolor center charset clusterrank color colorscheme comment compound
    concentrate constraint decorate dir distortion dpi edgeURL edgehref edgetooltip fillcolor fixedsize fontcolor
    fontname fontnames fontpath fontsize forcelabels gradientangle group headURL headclip headlabel headport
    height href id image imagepos imagescale labelURL labelangle labeldistance labelfloat labelfontcolor
    labelfontname labelfontsize labelhref labeljust labelloc labeltooltip layout len lhead ltail margin minlen
    mode newrank nodesep nojustify nslimit ordering orientation outputorder overlap pad page pagedir penwidth
    peripheries pos quantum rank rankdir ranksep ratio regular remincross rotate samehead sametail samplepoints
    sep sides size skew sortv splines style stylesheet tailURL tailclip taillabel tailport target tooltip
    truecolor vertices viewport width xlabel
";
