//! What was said in another worktree names its files by their whole paths. Who goes on from it works in a worktree of its
//! own, in a replay beside that of the original, on another machine elsewhere: what it repeats belongs there.

use std::path::Path;

use super::place::run_dir;
use agents::llm::{Message, Part};
use git::workspace::OF_TASKS;
use pleach_core::ids::{ContextId, SessionId};
use serde_json::Value;

/// Where a context works.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkPlace<'a> {
    pub session: &'a SessionId,
    pub context: &'a ContextId,
    /// Its worktree, or the directory of its worktrees.
    pub root: &'a Path,
}

/// Messages with the paths of a place instead of those of the contexts it goes on from.
pub(super) fn relocated(messages: &[Message], place: WorkPlace<'_>) -> Vec<Message> {
    let mut messages = messages.to_vec();
    for part in messages.iter_mut().flat_map(|message| &mut message.content) {
        match part {
            Part::Text { text, .. } | Part::ToolResult { content: text, .. } => place.relocate(text),
            Part::ToolCall { arguments, .. } => place.relocate_all(arguments),
            // What a provider has sealed is given back word for word.
            _ => {}
        }
    }
    messages
}

impl WorkPlace<'_> {
    fn relocate_all(self, value: &mut Value) {
        match value {
            Value::String(text) => self.relocate(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.relocate_all(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.relocate_all(field)),
            _ => {}
        }
    }

    fn relocate(self, text: &mut String) {
        self.relocate_own(text);
        // A task was worked on in a worktree that others get after it. Its replay has one of its own.
        if self.context.run_root().replay_number().is_some() {
            self.relocate_shared(text);
        }
    }

    /// Replaces `BASE/tasks/TARGET/SLOT` and `BASE/tasks/TARGET/run/CONTEXT`.
    fn relocate_shared(self, text: &mut String) {
        let Some(base) = self.root.parent().and_then(Path::parent) else { return };
        let shared = format!("{}/{OF_TASKS}/", base.display());
        let mut from = 0;
        while let Some(found) = text[from..].find(&shared) {
            let (at, target) = (from + found, from + found + shared.len());
            let Some(slot) = text[target..].find('/').map(|length| target + length + 1) else { return };
            let (is_run, name) = match text[slot..].strip_prefix("run/") {
                Some(_) => (true, slot + "run/".len()),
                None => (false, slot),
            };
            let own = if is_run { run_dir(self.root, self.context) } else { self.root.to_owned() };
            let Some(own) = own.to_str() else { return };
            text.replace_range(at..name + name_length(&text[name..]), own);
            from = at + own.len();
        }
    }

    /// Replaces `…/SESSION/CONTEXT` and `…/SESSION/run/CONTEXT`.
    fn relocate_own(self, text: &mut String) {
        let marker = format!("/{}/", self.session);
        let mut from = 0;
        while let Some(found) = text[from..].find(&marker) {
            let (at, after) = (from + found, from + found + marker.len());
            from = after;
            let (is_run, name) = match text[after..].strip_prefix("run/") {
                Some(rest) => (true, rest),
                None => (false, &text[after..]),
            };
            let end = name_length(name);
            let context: Option<ContextId> = name[..end].parse().ok();
            if context.is_none_or(|context| context.within_run() != self.context.within_run()) {
                continue;
            }
            let end = text.len() - name.len() + end;
            let own = if is_run { run_dir(self.root, self.context) } else { self.root.to_owned() };
            let (Some(own), Some(base)) = (own.to_str(), self.root.parent().and_then(Path::parent)) else { continue };
            // On the machine it was said on, the directory of all sessions stands before it, whatever characters it has.
            let begin = match text[..at].strip_suffix(&*base.to_string_lossy()) {
                Some(before) => before.len(),
                None => path_begin(&text[..at]),
            };
            text.replace_range(begin..end, own);
            from = begin + own.len();
        }
    }
}

/// How long the name of a context or a slot is that a text begins with.
fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(text.len())
}

/// Where the absolute path begins that a text ends with.
fn path_begin(text: &str) -> usize {
    let word = text
        .rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '=' | '(' | ','))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    text[word..].find('/').map_or(text.len(), |at| word + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(said: &str, context: &str, root: &str) -> String {
        let (session, context) = ("abcdefgh".parse().unwrap(), context.parse().unwrap());
        let mut text = said.to_owned();
        WorkPlace { session: &session, context: &context, root: Path::new(root) }.relocate(&mut text);
        text
    }

    #[test]
    fn paths_of_the_original_become_those_of_the_replay() {
        let root = "/my home/trees/repo/abcdefgh/r1";
        for (said, expected) in [
            ("/my home/trees/repo/abcdefgh/main/a b.txt", "/my home/trees/repo/abcdefgh/r1/a b.txt"),
            ("cd \"/other/abcdefgh/main\" && ls", "cd \"/my home/trees/repo/abcdefgh/r1\" && ls"),
            ("X=/other/abcdefgh/main/x cat /tmp/y", "X=/my home/trees/repo/abcdefgh/r1/x cat /tmp/y"),
            ("/o/abcdefgh/run/main/code/status.json", "/my home/trees/repo/abcdefgh/run/r1/code/status.json"),
            ("/o/abcdefgh/main /o/abcdefgh/main/b", &format!("{root} {root}/b")),
            ("/o/abcdefgh/r1/a", &format!("{root}/a")),
            ("/o/abcdefgh/tests/a", "/o/abcdefgh/tests/a"),
            ("/o/abcdefgh/maintenance", "/o/abcdefgh/maintenance"),
            ("/o/zzzzzzzz/main/a", "/o/zzzzzzzz/main/a"),
        ] {
            assert_eq!(text(said, "r1", root), expected, "{said}");
        }
        assert_eq!(text("/o/abcdefgh/tests/a", "r2-tests", "/n/abcdefgh/r2-tests"), "/n/abcdefgh/r2-tests/a");
        assert_eq!(text(&format!("{root}/a"), "r1", root), format!("{root}/a"));
    }

    #[test]
    fn worktrees_of_tasks_become_those_of_the_replay() {
        let root = "/my home/trees/repo/abcdefgh/r1";
        for (said, expected) in [
            ("cat \"/my home/trees/repo/tasks/a%2Fb/main/x y\"", format!("cat \"{root}/x y\"")),
            ("/my home/trees/repo/tasks/main/2/a /my home/trees/repo/tasks/main/2", format!("{root}/a {root}")),
            ("/my home/trees/repo/tasks/main/run/main/s", "/my home/trees/repo/abcdefgh/run/r1/s".to_owned()),
            ("/my home/trees/repo/tasks/", "/my home/trees/repo/tasks/".to_owned()),
        ] {
            assert_eq!(text(said, "r1", root), expected, "{said}");
        }
        let shared = "/trees/repo/tasks/main/main/a";
        assert_eq!(text(shared, "main", "/trees/repo/tasks/main/main"), shared, "that of the task itself");
    }

    #[test]
    fn tools_are_asked_for_in_the_new_place() {
        let (session, context) = ("abcdefgh".parse().unwrap(), "r1".parse().unwrap());
        let place = WorkPlace { session: &session, context: &context, root: Path::new("/n/abcdefgh/r1") };
        let call = json!({"files": [{"path": "/o/abcdefgh/main/a"}], "count": 1});
        let message = Message::new(agents::llm::Role::Assistant, vec![Part::tool_call("c", "edit", call)]);
        let there = relocated(&[message], place);
        let Part::ToolCall { arguments, .. } = &there[0].content[0] else { panic!("a call") };
        assert_eq!(*arguments, json!({"files": [{"path": "/n/abcdefgh/r1/a"}], "count": 1}));
    }
}
