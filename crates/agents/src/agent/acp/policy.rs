//! What an agent is allowed when it asks: everything in its worktree. Beyond that the sandbox is what holds it; this
//! answers only the honest.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::schema::Permission;

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermissionPolicy {
    /// Whether anything is allowed at all.
    pub allows: bool,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// The places that may be written.
    pub writable: Vec<PathBuf>,
}

impl PermissionPolicy {
    /// The answer to a question for permission.
    pub fn answer(&self, asked: &Permission) -> Value {
        let wanted =
            if self.permits(asked) { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        let option = wanted.iter().find_map(|kind| asked.options.iter().find(|option| option.kind == *kind));
        match option {
            Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option.option_id}}),
            None => cancelled(),
        }
    }

    fn permits(&self, asked: &Permission) -> bool {
        let tool = &asked.tool_call;
        // What only looks may look anywhere. A command names no places that say what it does.
        let looks = matches!(tool.kind.as_deref(), Some("read" | "search" | "fetch" | "think" | "execute"));
        let diffs = tool.content.iter().flatten().filter_map(|part| part.get("path")?.as_str()).map(Path::new);
        let mut places = tool.locations.iter().flatten().map(|location| location.path.as_path()).chain(diffs);
        self.allows && (looks || places.all(|place| self.may_write(place)))
    }

    fn may_write(&self, place: &Path) -> bool {
        let place = resolved(&self.cwd.join(place));
        self.writable.iter().any(|root| place.starts_with(root))
    }
}

/// The answer that cancels.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

/// The path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allows: bool) -> PermissionPolicy {
        PermissionPolicy {
            allows,
            cwd: "/w/copy/src".into(),
            writable: vec!["/w/copy".into(), "/run/status.json".into()],
        }
    }

    fn asked(kind: &str, path: &str) -> Permission {
        serde_json::from_value(json!({
            "toolCall": {"toolCallId": "1", "kind": kind, "locations": [{"path": path}]},
            "options": [
                {"optionId": "always", "kind": "allow_always"},
                {"optionId": "yes", "kind": "allow_once"},
                {"optionId": "no", "kind": "reject_once"},
            ],
        }))
        .unwrap()
    }

    fn answer(policy: &PermissionPolicy, asked: &Permission) -> String {
        let answer = policy.answer(asked);
        answer["outcome"]["optionId"].as_str().unwrap_or("cancelled").to_owned()
    }

    #[test]
    fn writes_are_allowed_in_the_worktree_only() {
        for (kind, path, expected) in [
            ("edit", "/w/copy/a", "yes"),
            ("edit", "a", "yes"),
            ("delete", "../a", "yes"),
            ("edit", "/run/status.json", "yes"),
            ("edit", "../../a", "no"),
            ("edit", "/w/copy/../other/a", "no"),
            ("edit", "/w/copy2", "no"),
            ("move", "/etc/passwd", "no"),
            ("whatever", "/etc/passwd", "no"),
            ("read", "/usr/include/stdio.h", "yes"),
            ("execute", "/tmp", "yes"),
        ] {
            assert_eq!(answer(&policy(true), &asked(kind, path)), expected, "{kind} {path}");
        }
        assert_eq!(answer(&policy(false), &asked("edit", "a")), "no");
    }

    #[test]
    fn a_place_named_by_a_diff_counts_too() {
        let mut outside = asked("edit", "a");
        outside.tool_call.content = Some(vec![json!({"type": "diff", "path": "/etc/hosts", "newText": ""})]);
        assert_eq!(answer(&policy(true), &outside), "no");
    }

    #[test]
    fn without_a_fitting_option_nothing_is_chosen() {
        let mut odd = asked("edit", "a");
        odd.options.retain(|option| option.kind == "allow_always");
        assert_eq!(answer(&policy(true), &odd), "always");
        assert_eq!(answer(&policy(false), &odd), "cancelled");
    }
}
