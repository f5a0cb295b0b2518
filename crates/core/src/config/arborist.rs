//! `.arborist/config.json` and `ARBORIST_*` variables, read as pleach settings.
//!
//! It is another program's file: keys that mean nothing here are skipped, the ones that do are checked.

use super::node::{ConfigNode, ConfigNodeKind, ScalarForm};
use super::read::ReadContext;
use crate::text::named;

/// Where each of its settings goes. The steps and the general model are handled apart, because they inherit.
const MAPPED: [(&[&str], &[&str]); 7] = [
    (&["defaults", "runner"], &["agent"]),
    (&["defaults", "max_retries"], &["tree", "max_retries"]),
    (&["defaults", "base_branch"], &["tree", "base_branch"]),
    (&["timeouts", "runner_timeout"], &["tree", "runner_timeout"]),
    (&["timeouts", "test_command"], &["tree", "test_timeout"]),
    (&["test", "timeout"], &["tree", "test_timeout"]),
    (&["test", "command"], &["tree", "test_command"]),
];

/// The variables and the keys they stand for.
pub(super) const VARIABLES: [(&str, &[&str]); 13] = [
    ("ARBORIST_RUNNER", &["defaults", "runner"]),
    ("ARBORIST_MODEL", &["defaults", "model"]),
    ("ARBORIST_MAX_RETRIES", &["defaults", "max_retries"]),
    ("ARBORIST_BASE_BRANCH", &["defaults", "base_branch"]),
    ("ARBORIST_RUNNER_TIMEOUT", &["timeouts", "runner_timeout"]),
    ("ARBORIST_TEST_TIMEOUT", &["test", "timeout"]),
    ("ARBORIST_TEST_COMMAND", &["test", "command"]),
    ("ARBORIST_STEP_RUN_RUNNER", &["steps", "run", "runner"]),
    ("ARBORIST_STEP_RUN_MODEL", &["steps", "run", "model"]),
    ("ARBORIST_STEP_IMPLEMENT_RUNNER", &["steps", "implement", "runner"]),
    ("ARBORIST_STEP_IMPLEMENT_MODEL", &["steps", "implement", "model"]),
    ("ARBORIST_STEP_REVIEW_RUNNER", &["steps", "review", "runner"]),
    ("ARBORIST_STEP_REVIEW_MODEL", &["steps", "review", "model"]),
];

/// What holds settings that count.
const SECTIONS: [&[&str]; 7] = [
    &["defaults"],
    &["timeouts"],
    &["test"],
    &["steps"],
    &["steps", "run"],
    &["steps", "implement"],
    &["steps", "review"],
];

/// The settings that can be any text. Elsewhere a number is a text too; in JSON it is another thing.
const TEXTS: [&str; 3] = ["model", "base_branch", "command"];

/// The key a variable stands for, in the file's own terms.
pub(super) fn variable(name: &str) -> Option<&'static [&'static str]> {
    VARIABLES.iter().find(|(variable, _)| *variable == name).map(|(_, path)| *path)
}

/// Adds an error for every section and text that is something else. The other values are checked when they are read.
pub(super) fn check(file: &ConfigNode, reading: &mut ReadContext<'_>) {
    for path in SECTIONS {
        let Some(entry) = file.at_path(path) else { continue };
        let section = path.join(".");
        let fields = match &entry.value.kind {
            ConfigNodeKind::Null => continue,
            ConfigNodeKind::Map(fields) => fields,
            _ => {
                reading.expected_at(&section, &entry.value, "a section");
                continue;
            }
        };
        for (key, field) in fields.iter().filter(|(key, _)| TEXTS.contains(&key.as_str())) {
            if matches!(field.value.kind, ConfigNodeKind::Scalar { form: ScalarForm::Number | ScalarForm::Bool, .. }) {
                reading.expected_at(&format!("{section}.{key}"), &field.value, "text");
            }
        }
    }
}

/// What Arborist has and pleach has not: the key, those of its values that turn it on, and what that means here.
const MISSING: [(&[&str], &[&str], &str); 4] = [
    (&["defaults", "container_mode"], &["enabled", "true"], NO_CONTAINERS),
    (&["container_mode"], &["enabled", "true"], NO_CONTAINERS),
    (&["hooks", "enabled"], &["true"], NO_HOOKS),
    (&["hooks"], &["true"], NO_HOOKS),
];

const NO_CONTAINERS: &str = "pleach runs agents in its own sandbox, without containers";
const NO_HOOKS: &str = "pleach does not run Arborist hooks";

/// Adds a warning that names what the file turns on and pleach does not have.
pub(super) fn warn(file: &ConfigNode, reading: &mut ReadContext<'_>) {
    let is_on = |(path, on, _): &(&[&str], &[&str], &str)| {
        let value = file.at_path(path).map(|entry| &entry.value.kind);
        matches!(value, Some(ConfigNodeKind::Scalar { text, .. }) if on.contains(&text.as_str()))
    };
    let found: Vec<_> = MISSING.into_iter().filter(is_on).collect();
    let Some(at) = found.first().and_then(|(path, ..)| file.at_path(path)).map(|entry| entry.key_at) else { return };
    let keys = named(&found.iter().map(|(path, ..)| path.join(".")).collect::<Vec<_>>());
    let means: Vec<&str> = found.iter().map(|(.., means)| *means).collect();
    reading.fail(at, format!("{keys} ignored: {}", means.join("; ")));
}

/// The file's tree as a tree of pleach settings. Values keep their places.
pub(super) fn translate(file: &ConfigNode) -> ConfigNode {
    let mut settings = ConfigNode::empty_map(file.at);
    let mut put = |path: &[&str], value: ConfigNode| {
        settings.put(path, value).expect("no path of the tables here is the beginning of another");
    };
    let given = |path: &[&str]| {
        let entry = file.at_path(path)?;
        (!matches!(entry.value.kind, ConfigNodeKind::Null)).then(|| entry.value.clone())
    };
    for (from, to) in MAPPED {
        if let Some(value) = given(from) {
            put(to, value);
        }
    }
    for step in ["implement", "review"] {
        for field in ["runner", "model"] {
            // Its own value, then the one of `run`, then the general one; the general runner is `agent` already.
            let general = if field == "model" { given(&["defaults", "model"]) } else { None };
            let value = given(&["steps", step, field]).or_else(|| given(&["steps", "run", field])).or(general);
            if let Some(value) = value {
                put(&["tree", "steps", step, field], value);
            }
        }
    }
    settings
}
