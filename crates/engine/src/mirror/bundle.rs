//! The types of turns at a mirror: one table, from which the bundle is made that tells a server what their fields are called.
//!
//! Servers keep a version of a type for ever, and a tag for what it was first used for. So the table only grows, at its end: a
//! type that gets a field gets a line more with the next version, the new field last, and the bundle the next number.

use std::fmt::Write as _;

/// What every type begins with. Types of Orchestra's own have the same names and low tags.
const TYPES: &str = "dev.orchestra.";

/// The number of the bundle.
pub(super) const BUNDLE: u32 = 1;

/// The tag of the first own field of a type; the others follow in order.
const OWN: u64 = 80;

/// The type of events that have none.
const OTHER: &str = "Other";

/// The fields of all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Common {
    /// Who the first turn of a context is about: the server finds contexts by it.
    About = 30,
    Record = 64,
    Number = 65,
    Of = 66,
    At = 67,
    Context = 68,
    Commit = 69,
    Files = 70,
    Messages = 71,
    Apart = 72,
    More = 73,
}

impl Common {
    const ALL: [(Self, &'static str); 11] = [
        (Self::About, "record_about:map"),
        (Self::Record, "record"),
        (Self::Number, "record_n:u64"),
        (Self::Of, "record_of:u64"),
        (Self::At, "recorded_at"),
        (Self::Context, "record_context"),
        (Self::Commit, "record_commit"),
        (Self::Files, "record_files:map"),
        (Self::Messages, "record_messages:array"),
        (Self::Apart, "record_apart:bool"),
        (Self::More, "record_more:map"),
    ];
}

/// The types by name, each with its version and its own fields in order: `name`, or `name:type` where it is no string.
const TABLE: &[(&str, u32, &str)] = &[
    (
        "PipelineStarted",
        10,
        "name goal dot dot_path files:map inputs:map config:map base:map branches:map targets:map record_repo \
         simulated:bool task:map resolves",
    ),
    ("Resumed", 10, "from number:u64 turn to:map cut:map via work:map"),
    (
        "ContextForked",
        10,
        "from context kind node_id base:map branches:map join turn to:map cut:map begins via changes:map",
    ),
    (
        "ParallelStarted",
        10,
        "node_id visit:u64 attempt:u64 join join_policy error_policy max_parallel:u64 branches:array",
    ),
    ("ParallelBranchStarted", 10, "fan_out context node_id"),
    ("ParallelBranchCompleted", 10, "node_id context outcome:map stopped:bool score:f64 work:map goal_gates:map"),
    ("ParallelCompleted", 10, "node_id visit:u64 attempt:u64 succeeded:u64 failed:u64 stopped:u64"),
    ("ContextJoined", 10, "node_id contexts:array policy result:map"),
    ("WorktreeMerged", 10, "repo context git_sha"),
    ("WorktreeMergeConflict", 10, "repo context theirs paths:array"),
    ("RepoCloned", 10, "repo remote commit depth:u64"),
    ("RepoFetched", 10, "repo remote commit start:map"),
    ("SessionBranchCreated", 10, "repo branch base"),
    ("WorktreeCreated", 10, "repo name"),
    ("NodeStarted", 10, "node_id visit:u64 attempt:u64 handler base:map starts_over:bool fidelity thread"),
    (
        "AgentTurn",
        10,
        "turn turn_number:u64 node_id visit:u64 attempt:u64 agent model provider messages:map tool_calls:array \
         files_written:map token_usage:map cost_usd:f64 estimated:bool unbilled:bool side_calls:array git_sha:map \
         agent_head:map commit_message boundary agent_state_ref:map is_last:bool",
    ),
    ("BudgetExceeded", 10, "limit scope node_id spent:f64 of:f64 action text"),
    ("PriceUnknown", 10, "model text"),
    (
        "ToolExecution",
        10,
        "turn turn_number:u64 node_id visit:u64 attempt:u64 command exit duration_ms:u64 output:u64 files_written:map \
         git_sha:map commit_message",
    ),
    ("TurnCommitted", 10, "turn repo branch git_sha"),
    ("HumanInteraction", 10, "node_id visit:u64 question options:array answer comment source by"),
    (
        "NodeExecution",
        10,
        "node_id visit:u64 attempt:u64 outcome:map route:map duration_ms:u64 prompt:u64 response:u64 stderr:u64 trees:map \
         output_digest warnings:array",
    ),
    ("RetryAt", 10, "node_id visit:u64 attempt:u64 at"),
    (
        "Checkpoint",
        10,
        "current_node completed_nodes:array node_outcomes:map context:map node_retries:map visits:map next_node \
         workspace_snapshot:map",
    ),
    ("SnapshotRecorded", 10, "workspace_snapshot:map"),
    ("AttemptStarted", 10, "retry:u64 number:u64 of:u64 start code laid feedback:array"),
    (
        "StepFinished",
        10,
        "repo task step status attempt:u64 parent tree subject body trailers:array date git_sha code failing:array \
         feedback:map log:u64 report:map",
    ),
    ("Landing", 10, "repo target from to"),
    ("Landed", 10, "repo target commit"),
    ("PipelinePaused", 10, "reason node_id why"),
    ("PipelineCompleted", 10, "workspace_snapshot:map"),
    ("PipelineFailed", 10, "reason node_id"),
    ("PipelineCancelled", 10, ""),
    (OTHER, 10, "type data:map"),
];

/// The type of an event at a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnType {
    name: &'static str,
    pub version: u32,
    fields: &'static str,
}

impl TurnType {
    /// That of an event, by its kind.
    pub fn of(kind: &str) -> Self {
        let named = |name: &str| TABLE.iter().rev().find(|(known, ..)| *known == name);
        let own = kind.strip_prefix(TYPES).filter(|name| *name != OTHER).and_then(named);
        let (name, version, fields) = own.or_else(|| named(OTHER)).expect("the table has one for all others");
        Self { name, version: *version, fields }
    }

    /// That of a turn which was read; none for turns of others.
    pub fn read(type_id: &str, version: u32) -> Option<Self> {
        let name = type_id.strip_prefix(TYPES)?;
        let (name, version, fields) = TABLE.iter().find(|(known, of, _)| *known == name && *of == version)?;
        Some(Self { name, version: *version, fields })
    }

    /// Whether it is that of events without a type of their own.
    pub fn is_other(self) -> bool {
        self.name == OTHER
    }

    /// Its name at the server, which is the kind of the event.
    pub fn id(self) -> String {
        format!("{TYPES}{}", self.name)
    }

    fn fields(self) -> impl Iterator<Item = (u64, &'static str)> {
        (OWN..).zip(self.fields.split_whitespace())
    }

    /// The tag of a field of its own.
    pub fn tag(self, field: &str) -> Option<u64> {
        self.fields().find(|(_, known)| name_and_type(known).0 == field).map(|(tag, _)| tag)
    }

    /// The field of its own with a tag.
    pub fn field(self, tag: u64) -> Option<&'static str> {
        self.fields().find(|(known, _)| *known == tag).map(|(_, field)| name_and_type(field).0)
    }
}

fn name_and_type(field: &str) -> (&str, &str) {
    field.split_once(':').unwrap_or((field, "string"))
}

/// The name of the bundle. It has no character that a path would have to escape.
pub(super) fn bundle_id() -> String {
    format!("{TYPES}pleach.{BUNDLE}")
}

/// The bundle as it is put. It is the same byte for byte as long as it has the same number.
pub(super) fn bundle() -> String {
    let mut types: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, version, fields) in TABLE {
        let turn_type = TurnType { name, version: *version, fields };
        let common = Common::ALL.into_iter().map(|(tag, field)| (tag as u64, field));
        let fields = common.chain(turn_type.fields()).map(|(tag, field)| {
            let (name, kind) = name_and_type(field);
            format!("\"{tag}\":{{\"name\":\"{name}\",\"type\":\"{kind}\",\"optional\":true}}")
        });
        let version = format!("\"{version}\":{{\"fields\":{{{}}}}}", fields.collect::<Vec<_>>().join(","));
        match types.iter_mut().find(|(known, _)| known == name) {
            Some((_, versions)) => versions.push(version),
            None => types.push((name, vec![version])),
        }
    }
    let mut text = format!("{{\"registry_version\":{BUNDLE},\"bundle_id\":\"{}\",\"types\":{{", bundle_id());
    for (index, (name, versions)) in types.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\"{TYPES}{name}\":{{\"versions\":{{{}}}}}", versions.join(","));
    }
    text + "},\"enums\":{}}"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The bundles that are at servers already, by number: of how many lines each was made, and the hash of these. A change needs
    /// the next one.
    const PUT: &[(usize, &str)] = &[(34, "ac93be7f038fd99cc7018ae982dd6e0330a7c15ab23cc257c3b22eac9c1125d2")];

    #[test]
    fn a_bundle_is_never_changed_and_no_tag_used_again() {
        assert_eq!((PUT.len(), PUT.last().map(|(lines, _)| *lines)), (BUNDLE as usize, Some(TABLE.len())));
        for (lines, hash) in PUT {
            let text = format!("{:?}{:?}", Common::ALL, &TABLE[..*lines]);
            assert_eq!(blake3::hash(text.as_bytes()).to_hex().as_str(), *hash);
        }
        serde_json::from_str::<Value>(&bundle()).expect("it is JSON");
        for (index, (name, version, fields)) in TABLE.iter().enumerate() {
            let fields: Vec<&str> = fields.split_whitespace().collect();
            let names: BTreeSet<&str> = fields.iter().map(|field| name_and_type(field).0).collect();
            assert_eq!(fields.len(), names.len(), "{name} has a field twice");
            let is_common = |(_, common): &(Common, &str)| names.contains(name_and_type(common).0);
            assert!(!Common::ALL.iter().any(is_common), "{name} has a field of all types");
            match TABLE[..index].iter().rev().find(|(other, ..)| other == name) {
                Some((_, before, then)) => {
                    assert_eq!(*version, before + 1, "{name}");
                    let then: Vec<&str> = then.split_whitespace().collect();
                    assert!(fields.starts_with(&then) && fields.len() > then.len(), "{name}: its fields only grow");
                }
                // Orchestra's own have lower ones.
                None => assert_eq!(*version, 10, "{name}"),
            }
        }
    }
}
