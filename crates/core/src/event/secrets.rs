//! Redacts events. Free text is redacted; field names and ids stay, since the event is unreadable without them: also
//! where a secret is the same word as the name of a field or of a step.

use serde_json::Value;

use super::{Event, Recorded, Status};
use crate::config::Config;
use crate::redact::{JsonPart, Redactor};

/// The objects, and lists of such, whose keys are names of fields or of what the run is built on. What is after them is
/// text unless it is listed below.
const FIELDS: [&str; 20] = [
    "",
    "agent_state_ref",
    "agent_state_ref.messages",
    "agent_state_ref.used",
    "changes",
    "changes.inputs",
    "feedback",
    "files_written",
    "inputs",
    "kept",
    "messages",
    "outcome",
    "removed",
    "report",
    "report.tests",
    "route",
    "side_calls",
    "side_calls.token_usage",
    "stays",
    "warnings",
];

/// What is no text: ids, times, names of branches, nodes and repositories, words out of lists of pleach's own, and what a
/// commit has as well.
const OWN: [&str; 90] = [
    "action",
    "agent",
    "agent_head",
    "agent_state_ref.agent",
    "agent_state_ref.home",
    "at",
    "base",
    "begins",
    "body",
    "boundary",
    "branch",
    "branches",
    "code",
    "commit",
    "contexts",
    "cut",
    "date",
    "entry",
    "error_policy",
    "fan_out",
    "feedback.kind",
    "feedback.step",
    "fidelity",
    "from",
    "git_sha",
    "goal_gates",
    "handler",
    "join",
    "join_policy",
    "kept.ref",
    "kept.repo",
    "laid",
    "limit",
    "name",
    "node_id",
    "outcome.failure_class",
    "output_digest",
    "parent",
    "paths",
    "policy",
    "record_repo",
    "refs",
    "removed.commit",
    "removed.kind",
    "removed.name",
    "removed.repo",
    "removed.session",
    "repo",
    "report.finished",
    "report.result",
    "report.session",
    "report.task_id",
    "result",
    "route.gate",
    "route.kind",
    "route.to",
    "scope",
    "session",
    "side_calls.purpose",
    "source",
    "start",
    "status",
    "stays.name",
    "stays.repo",
    "step",
    "subject",
    "target",
    "targets",
    "task.base",
    "task.commits",
    "task.id",
    "task.repo",
    "task.status",
    "task.target",
    "task.tree",
    "theirs",
    "thread",
    "to",
    "token_usage",
    "trailers",
    "tree",
    "trees",
    "turn",
    "via",
    "warnings.code",
    "work",
    "workspace_snapshot",
    // A session is run again as it was: one whose pipeline holds a secret is refused before it is recorded.
    "dot",
    "files",
    "changes.pipeline",
];

impl Recorded {
    /// The event without secrets, as its record has it; none when there are none in it.
    pub fn without_secrets(&self, redactor: &Redactor) -> Option<Value> {
        if self.event.is_derived() || redactor.is_clean(&self.to_text()) {
            return None;
        }
        let json = self.to_json();
        let mut clean = json.clone();
        redactor.json_text(&mut clean["data"], &|path, value| self.event.part(path, value));
        if let Some(config) = clean["data"].get_mut("config") {
            Config::each_recorded_text(config, &mut |text| *text = redactor.text(text).into_owned());
        }
        (clean != json).then_some(clean)
    }
}

impl Event {
    /// What is at a path of its data.
    fn part(&self, path: &str, value: &Value) -> JsonPart {
        let is_own = match (path, value) {
            // Words of an agent's own are said as well.
            ("outcome.status", Value::String(word)) => {
                !matches!(Status::try_from(word.clone()), Ok(Status::Custom(_)) | Err(_))
            }
            ("reason", _) => matches!(self, Self::PipelinePaused(_)),
            ("context", Value::String(_)) => true,
            ("kind", Value::String(_)) => matches!(self, Self::ContextForked(_)),
            // What of the settings is text they know themselves.
            ("config", _) => true,
            ("task", Value::Object(_)) | ("tool_calls", _) => return JsonPart::Fields,
            ("task", _) => true,
            _ => OWN.contains(&path),
        };
        if is_own {
            JsonPart::Own
        } else if FIELDS.contains(&path) {
            JsonPart::Fields
        } else {
            JsonPart::Text
        }
    }
}
