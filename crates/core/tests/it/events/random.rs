//! Random events of every type.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pleach_core::event::{Event, Extra, MessageRange, Outcome, Recorded, Route, Snapshot, Status, Usage, WarningCode};
use pleach_core::ids::{CommitId, NodeId, RepoName, RepoPath};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::Value;

use super::every::every_event;

/// Any JSON.
pub fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Fields no version of an event has.
pub fn extra() -> impl Strategy<Value = Extra> {
    btree_map("new_[a-z]{1,6}", json_value(), 0..3).prop_map(|map| map.into_iter().collect())
}

fn node() -> impl Strategy<Value = NodeId> {
    "[A-Za-z_][A-Za-z0-9_]{0,8}".prop_map(|text| NodeId::new(text).unwrap())
}

fn commit() -> impl Strategy<Value = CommitId> {
    any::<[u8; 20]>().prop_map(CommitId::from_bytes)
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    btree_map("[^/:\\pC]{1,6}".prop_map(|text| RepoName::new(text).unwrap()), commit(), 0..3)
}

fn status() -> impl Strategy<Value = Status> {
    any::<String>().prop_filter_map("not a word", |text| Status::try_from(text).ok())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let words = || of(any::<String>());
    let told = btree_map(any::<String>(), json_value(), 0..3);
    (status(), words(), vec(any::<String>(), 0..3), told, words(), words(), any::<bool>()).prop_map(
        |(status, preferred_label, suggested_next_ids, context_updates, notes, failure_reason, transient)| {
            let class = if transient { Outcome::transient("") } else { Outcome::fail("") }.failure_class;
            Outcome {
                status,
                preferred_label,
                suggested_next_ids,
                context_updates,
                notes,
                failure_reason,
                failure_class: class,
            }
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    prop_oneof![
        node().prop_map(|to| Route::Edge { to }),
        node().prop_map(|to| Route::FailureTarget { to }),
        (node(), node()).prop_map(|(gate, to)| Route::GateRetry { gate, to }),
        node().prop_map(|to| Route::Restart { to }),
        Just(Route::Retry),
        Just(Route::Complete),
        any::<String>().prop_map(|reason| Route::Fail { reason }),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    // The years 1 to 9999, to the nanosecond.
    (-62_135_596_800_i64..253_370_764_800, 0..1_000_000_000_i32)
        .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).unwrap())
}

/// What random fields are filled with.
#[derive(Debug, Clone)]
struct Filling {
    node: NodeId,
    other: Option<NodeId>,
    text: String,
    maybe: Option<String>,
    number: u64,
    small: u32,
    flag: bool,
    commit: CommitId,
    commits: Snapshot,
    maybe_commits: Option<Snapshot>,
    outcome: Outcome,
    route: Route,
    time: Timestamp,
    json: Value,
    money: Option<f64>,
    path: Vec<u8>,
    words: BTreeMap<String, String>,
    extra: Extra,
}

fn filling() -> impl Strategy<Value = Filling> {
    let words = btree_map(any::<String>(), any::<String>(), 0..3);
    let first = (node(), of(node()), any::<String>(), of(any::<String>()), any::<u64>(), any::<u32>());
    let second = (any::<bool>(), commit(), snapshot(), of(snapshot()), outcome(), route());
    let third = (time(), json_value(), of(any::<f64>()), vec(any::<u8>(), 0..12), words, extra());
    (first, second, third).prop_map(
        |(
            (node, other, text, maybe, number, small),
            (flag, commit, commits, maybe_commits, outcome, route),
            (time, json, money, path, words, extra),
        )| Filling {
            node,
            other,
            text,
            maybe,
            number,
            small,
            flag,
            commit,
            commits,
            maybe_commits,
            outcome,
            route,
            time,
            json,
            money,
            path,
            words,
            extra,
        },
    )
}

/// An event of any type with random fields.
pub fn recorded() -> impl Strategy<Value = Recorded> {
    (0..every_event().len(), filling(), time()).prop_map(|(index, filling, at)| {
        let event = fill(every_event().swap_remove(index).event, filling);
        Recorded { at, event }
    })
}

/// Puts random values in place of the event's own.
fn fill(mut event: Event, with: Filling) -> Event {
    let usage = Usage { input: with.number, output: u64::MAX, ..Usage::default() };
    let range = of_flag(with.flag, MessageRange { first: with.number, last: with.number });
    let files: BTreeMap<RepoName, Vec<RepoPath>> =
        with.commits.keys().map(|repo| (repo.clone(), vec![RepoPath::new(with.path.clone())])).collect();
    match &mut event {
        Event::PipelineStarted(data) => {
            (data.goal, data.dot, data.dot_path) = (with.text.clone(), with.text.clone(), with.text);
            (data.files, data.inputs, data.config) = (with.words.clone(), with.words, with.json);
            (data.base, data.simulated, data.extra) = (with.commits, with.flag, with.extra);
        }
        Event::Resumed(data) => data.extra = with.extra,
        Event::ContextForked(data) => (data.node_id, data.base, data.extra) = (with.node, with.commits, with.extra),
        Event::ParallelStarted(data) => {
            (data.node_id, data.visit, data.attempt) = (with.node, with.small, with.small);
            (data.join_policy, data.extra) = (with.text, with.extra);
        }
        Event::ParallelBranchStarted(data) => (data.node_id, data.extra) = (with.node, with.extra),
        Event::ParallelBranchCompleted(data) => {
            (data.node_id, data.outcome, data.stopped) = (with.node, with.outcome, with.flag);
            (data.work, data.score, data.extra) = (with.commits, with.money, with.extra);
        }
        Event::ParallelCompleted(data) => (data.node_id, data.failed, data.extra) = (with.node, with.small, with.extra),
        Event::ContextJoined(data) => (data.policy, data.result, data.extra) = (with.text, with.commits, with.extra),
        Event::WorktreeMerged(data) => (data.git_sha, data.extra) = (with.commit, with.extra),
        Event::WorktreeMergeConflict(data) => {
            data.paths.iter_mut().for_each(|path| path.path = RepoPath::new(with.path.clone()));
            (data.theirs, data.extra) = (with.commit, with.extra);
        }
        Event::SessionBranchCreated(data) => (data.base, data.extra) = (with.commit, with.extra),
        Event::WorktreeCreated(data) => (data.name, data.extra) = (with.text, with.extra),
        Event::NodeStarted(data) => {
            (data.node_id, data.visit, data.attempt) = (with.node, with.small, with.small);
            (data.handler, data.base, data.starts_over) = (with.text, with.commits, with.flag);
            (data.fidelity, data.thread, data.extra) = (with.maybe.clone(), with.maybe, with.extra);
        }
        Event::AgentTurn(data) => {
            (data.node_id, data.turn_number, data.model) = (with.node, with.number, with.text);
            (data.messages, data.files_written, data.token_usage) = (range, files, usage);
            (data.cost_usd, data.git_sha, data.agent_head) =
                (with.money, with.maybe_commits.clone(), with.maybe_commits);
            (data.commit_message, data.extra) = (with.maybe, with.extra);
            // A null here is no state at all.
            data.agent_state_ref = Some(with.json).filter(|json| !json.is_null());
            data.tool_calls.iter_mut().for_each(|call| call.arguments = Value::Object(data.extra.clone()));
        }
        Event::ToolExecution(data) => {
            (data.node_id, data.command, data.exit) = (with.node, with.text.clone(), with.text);
            (data.output, data.files_written) = (of_flag(with.flag, with.number), files);
            (data.git_sha, data.commit_message, data.extra) = (with.maybe_commits, with.maybe, with.extra);
        }
        Event::TurnCommitted(data) => (data.git_sha, data.extra) = (with.commit, with.extra),
        Event::HumanInteraction(data) => {
            (data.node_id, data.question, data.answer) = (with.node, with.text.clone(), with.text);
            (data.options, data.extra) = (with.words.into_keys().collect(), with.extra);
        }
        Event::NodeExecution(data) => {
            (data.node_id, data.outcome, data.route) = (with.node, with.outcome, with.route);
            (data.trees, data.duration_ms) = (with.commits, with.number);
            (data.prompt, data.response) = (of_flag(with.flag, with.number), of_flag(!with.flag, with.number));
            let warnings = with.words.into_iter().map(|(code, text)| WarningCode::Other(code).with(text));
            (data.warnings, data.extra) = (warnings.collect(), with.extra);
        }
        Event::RetryAt(data) => (data.node_id, data.at, data.extra) = (with.node, with.time, with.extra),
        Event::Checkpoint(data) => {
            data.node_outcomes = BTreeMap::from([(with.node.clone(), with.outcome.status)]).into();
            (data.context, data.node_retries) = (with.outcome.context_updates, [(with.node, with.small)].into());
            (data.next_node, data.workspace_snapshot, data.extra) = (with.other, with.maybe_commits, with.extra);
        }
        Event::SnapshotRecorded(data) => (data.workspace_snapshot, data.extra) = (with.commits, with.extra),
        Event::AttemptStarted(data) => {
            (data.retry, data.number, data.of) = (with.small, with.small, with.small);
            (data.start, data.code, data.extra) = (with.node, with.commit, with.extra);
        }
        Event::StepFinished(data) => {
            (data.step, data.status, data.body) = (with.text.clone(), with.text.clone(), with.text);
            (data.parent, data.tree, data.git_sha) = (with.commit, with.commit, with.commit);
            (data.trailers, data.date) = (with.words.clone().into_iter().collect(), with.time);
            (data.failing, data.extra) = (with.words.into_keys().collect(), with.extra);
        }
        Event::Landing(data) => (data.from, data.to, data.extra) = (with.commit, with.commit, with.extra),
        Event::Landed(data) => (data.commit, data.extra) = (with.commit, with.extra),
        Event::BudgetExceeded(data) => {
            (data.limit, data.text, data.node_id) = (with.text.clone(), with.text, with.other);
            (data.spent, data.extra) = (with.small.into(), with.extra);
        }
        Event::PriceUnknown(data) => (data.model, data.text, data.extra) = (with.text.clone(), with.text, with.extra),
        Event::PipelinePaused(data) => (data.node_id, data.why, data.extra) = (with.other, with.maybe, with.extra),
        Event::PipelineCompleted(data) => (data.workspace_snapshot, data.extra) = (with.commits, with.extra),
        Event::PipelineFailed(data) => (data.reason, data.node_id, data.extra) = (with.text, with.other, with.extra),
        Event::PipelineCancelled(data) => data.extra = with.extra,
        Event::RunStarted(data) => (data.tree, data.commit, data.extra) = (with.text, with.commit, with.extra),
        Event::TaskStarted(data) => {
            (data.title, data.resumed, data.extra) = (with.text, with.flag, with.extra);
            (data.number, data.of) = (of_flag(with.flag, with.small), of_flag(with.flag, with.small));
        }
        Event::TaskLanded(data) => (data.status, data.commit, data.extra) = (with.maybe, with.commit, with.extra),
        Event::PhaseMerged(data) => (data.commit, data.extra) = (with.commit, with.extra),
        Event::MergeComplete(data) => (data.auto, data.tier, data.extra) = (with.flag, with.maybe, with.extra),
        Event::MergeResolution(data) => {
            (data.text, data.resolved, data.extra) = (with.text, Some(with.flag), with.extra);
        }
        Event::MergeEscalated(data) => (data.conflicts, data.extra) = (with.small as usize, with.extra),
        Event::CleanupCompleted(data) => {
            (data.dry_run, data.bytes, data.extra) = (with.flag, with.number, with.extra);
            data.removed.iter_mut().for_each(|removed| removed.name.clone_from(&with.text));
        }
        Event::RepoCloned(data) => {
            (data.remote, data.commit, data.extra) = (with.text, with.commit, with.extra);
            data.depth = of_flag(with.flag, with.small);
        }
        Event::RepoFetched(data) => (data.remote, data.commit, data.extra) = (with.text, with.commit, with.extra),
        Event::BranchPushed(data) => {
            data.refs = with.words.into_keys().map(|name| (name, with.commit)).collect();
            (data.remote, data.extra) = (with.text, with.extra);
        }
        Event::PushFailed(data) => {
            (data.refs, data.retry_in) = (with.words.into_keys().collect(), of_flag(with.flag, with.number));
            (data.remote, data.why, data.extra) = (with.text.clone(), with.text, with.extra);
        }
        Event::Warning(data) => *data = WarningCode::Other(with.text.clone()).with(with.text),
        Event::AgentSpoke(data) => (data.node_id, data.message, data.extra) = (with.node, with.json, with.extra),
        Event::AgentWaits(data) => (data.node_id, data.why, data.extra) = (with.node, with.maybe, with.extra),
        Event::Unknown { data, .. } => *data = with.json,
    }
    event
}

fn of_flag<T>(flag: bool, value: T) -> Option<T> {
    flag.then_some(value)
}
