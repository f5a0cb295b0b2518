//! What a turn was for: the agent's own words, or else what it did.

use serde_json::Value;

use pleach_core::event::ToolCall;

/// The most characters of an intent.
pub(super) const LONGEST: usize = 400;

/// From how many characters on the words are enough.
const ENOUGH: usize = 30;

/// The first sentence or two of what was said; without words, what the tools did.
pub(super) fn intent_of(said: &str, calls: &[ToolCall]) -> String {
    let mut intent = String::new();
    let paragraph = said.split("\n\n").map(str::trim).find(|paragraph| !paragraph.is_empty()).unwrap_or_default();
    for sentence in sentences(paragraph) {
        if intent.chars().count() >= ENOUGH {
            break;
        }
        if !intent.is_empty() {
            intent.push(' ');
        }
        intent.push_str(sentence);
    }
    if intent.is_empty() {
        intent = done_by(calls);
    }
    match intent.char_indices().nth(LONGEST) {
        Some((at, _)) => intent[..at].to_owned(),
        None => intent,
    }
}

/// Whether an intent is in the agent's own words, rather than what its tools did.
pub fn is_in_words(intent: &str, calls: &[ToolCall]) -> bool {
    !done_by(calls).starts_with(intent)
}

/// Cuts a text after `.`, `!` and `?` that end a sentence, and at line ends. A dot inside `src/a.rs` ends nothing.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len();
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let after = at + c.len_utf8();
            let closes = matches!(c, '.' | '!' | '?') && chars.peek().is_none_or(|(_, next)| next.is_whitespace());
            if (closes && !abbreviates(&rest[..after])) || c == '\n' {
                end = after;
                break;
            }
        }
        let (sentence, tail) = rest.split_at(end);
        rest = tail;
        Some(sentence.trim_end())
    })
}

fn abbreviates(text: &str) -> bool {
    ["e.g.", "i.e.", "etc.", "vs.", "cf."].iter().any(|short| text.ends_with(short))
}

/// The repository a tool works in, if its name says so, and the tool itself.
fn tool_of(call: &ToolCall) -> (Option<&str>, &str) {
    call.name.split_once(':').map_or((None, call.name.as_str()), |(repo, tool)| (Some(repo), tool))
}

/// `Write src/a.rs, edit b.rs, run cargo test`. What was only looked at is left out when something was done.
fn done_by(calls: &[ToolCall]) -> String {
    let looks =
        |call: &ToolCall| matches!(tool_of(call).1, "read_file" | "grep" | "glob" | "Read" | "Grep" | "Glob" | "read");
    let acts = calls.iter().any(|call| !looks(call));
    let mut done: Vec<String> = Vec::new();
    for call in calls.iter().filter(|call| !acts || !looks(call)) {
        let given = |names: &[&str]| {
            names.iter().find_map(|name| call.arguments.get(*name).and_then(Value::as_str)).unwrap_or("?")
        };
        let (repo, tool) = tool_of(call);
        let path = || {
            let path = given(&["file_path", "filePath", "path"]);
            repo.map_or_else(|| path.to_owned(), |repo| format!("{repo}/{path}"))
        };
        let text = match tool {
            "write_file" | "Write" | "write" => format!("write {}", path()),
            "edit_file" | "Edit" | "edit" | "replace" => format!("edit {}", path()),
            "read_file" | "Read" | "read" => format!("read {}", path()),
            "grep" | "Grep" => format!("search for {}", given(&["pattern"])),
            "glob" | "Glob" => format!("list {}", given(&["pattern"])),
            "shell" | "Bash" | "bash" | "run_shell_command" | "exec_command" => {
                format!("run {}", given(&["command", "cmd"]).lines().next().unwrap_or_default())
            }
            _ => format!("use {}", call.name),
        };
        if !done.contains(&text) {
            done.push(text);
        }
    }
    let mut text = done.join(", ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments, is_error: false }
    }

    #[test]
    fn the_first_words_are_the_intent() {
        assert_eq!(
            intent_of("I'll add src/a.rs to the build. Then I test it.\n\nMore.", &[]),
            "I'll add src/a.rs to the build."
        );
        assert_eq!(
            intent_of("Sure! I'll fix the parser, e.g. its errors.", &[]),
            "Sure! I'll fix the parser, e.g. its errors."
        );
        assert_eq!(intent_of("\n\n  Hi", &[]), "Hi");
        assert_eq!(intent_of(&"x".repeat(1000), &[]).len(), LONGEST);
        assert_eq!(intent_of(&"\u{e4}".repeat(1000), &[]).chars().count(), LONGEST);
    }

    #[test]
    fn without_words_the_tool_calls_are_the_intent() {
        let calls = [
            call("read_file", json!({"file_path": "x"})),
            call("write_file", json!({"file_path": "src/a.rs", "content": ""})),
            call("edit_file", json!({"file_path": "b.rs"})),
            call("edit_file", json!({"file_path": "b.rs"})),
            call("shell", json!({"command": "cargo test\necho"})),
        ];
        assert_eq!(intent_of("", &calls), "Write src/a.rs, edit b.rs, run cargo test");
        assert_eq!(intent_of("", &calls[..1]), "Read x");
        assert_eq!(intent_of("", &[call("odd", json!(null))]), "Use odd");
        let others = [call("Write", json!({"file_path": "/w/a"})), call("exec_command", json!({"cmd": "ls"}))];
        assert_eq!(intent_of("", &others), "Write /w/a, run ls");
        let of_repos = [
            call("web:read_file", json!({"file_path": "x"})),
            call("api:write_file", json!({"file_path": "src/a.rs"})),
            call("api:run-tests", json!({})),
        ];
        assert_eq!(intent_of("", &of_repos), "Write api/src/a.rs, use api:run-tests");
        assert_eq!(intent_of("", &[]), "");
    }
}
