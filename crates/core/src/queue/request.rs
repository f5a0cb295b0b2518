//! What an agent is asked that resolves a conflict.

use std::fmt::Write as _;

use crate::event::ConflictedPath;
use crate::text::counted;

/// How many characters of a diff or a log are shown: its beginning and its end.
pub const SHOWN: usize = 8_000;

/// A conflict, as an agent needs to know it.
#[derive(Debug, Clone, Default)]
pub struct ResolutionRequest {
    /// What is merged: a branch, a task.
    pub name: String,
    /// The branch it is merged into.
    pub target: String,
    /// The files in conflict; none where only the tests fail.
    pub conflicts: Vec<ConflictedPath>,
    /// What is merged.
    pub work: RequestSide,
    /// What the target has got since.
    pub landed: RequestSide,
    /// What the tests printed when they failed last.
    pub log: Option<String>,
    /// What went wrong with the last answer.
    pub objection: Option<String>,
}

/// One side of a conflict.
#[derive(Debug, Clone, Default)]
pub struct RequestSide {
    /// What it was to do.
    pub goals: Vec<String>,
    /// Subjects and bodies of its commits, newest first.
    pub commits: Vec<String>,
    /// What it has changed.
    pub diff: String,
}

impl ResolutionRequest {
    /// The request in words.
    pub fn text(&self) -> String {
        let mut text = if self.conflicts.is_empty() { self.broken() } else { self.conflicted() };
        if let Some(objection) = &self.objection {
            let _ = writeln!(text, "\nYour last answer could not be used: {objection}");
        }
        self.work.write(&mut text, &self.name);
        self.landed.write(&mut text, &self.target);
        if let Some(log) = &self.log {
            section(&mut text, "What the tests printed", log);
        }
        text
    }

    fn conflicted(&self) -> String {
        let (name, target) = (&self.name, &self.target);
        let mut text = format!(
            "Resolve a merge conflict. {name} is merged into {target}, and both changed the same places.\n\n\
             These files are in conflict:\n"
        );
        for conflict in &self.conflicts {
            let _ = writeln!(text, "- {} ({})", conflict.path, conflict.kind);
        }
        let _ = write!(
            text,
            "\nBetween the markers are three versions: after `<<<<<<<` that of {target}, after `|||||||` what both started \
             from, after `=======` that of {name}. Where a file cannot hold markers, a note beside it, `FILE.conflict`, \
             tells what happened.\n\n\
             Edit the files so that they do what both sides wanted, leave no marker, and delete the notes. Change no \
             other file. Do not commit.\n"
        );
        text
    }

    fn broken(&self) -> String {
        format!(
            "Repair a merge. {name} was merged into {target} without a textual conflict, but the tests fail on the result, \
             while each side passes them without the other: the two changes conflict in what they mean.\n\n\
             The files are those of the merge. Change what is needed so that the tests pass and both sides still do what \
             they wanted. Change only what the tests complain about. Do not commit.\n",
            name = self.name,
            target = self.target
        )
    }
}

impl RequestSide {
    /// Goals and messages are given in full: they say what to keep of a side.
    fn write(&self, text: &mut String, name: &str) {
        if !self.goals.is_empty() {
            let _ = writeln!(text, "\n## What {name} is about\n\n{}", self.goals.join("\n\n"));
        }
        if !self.commits.is_empty() {
            let _ = writeln!(text, "\n## The commits of {name}, newest first");
            self.commits.iter().for_each(|message| {
                let _ = writeln!(text, "\n- {}", message.replace('\n', "\n  "));
            });
        }
        section(text, &format!("What {name} changed"), &self.diff);
    }
}

fn section(text: &mut String, title: &str, body: &str) {
    if !body.trim().is_empty() {
        let _ = write!(text, "\n## {title}\n\n```\n{}\n```\n", cut(body.trim_end()));
    }
}

/// A text cut to size, with a mark where something is left out.
fn cut(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(SHOWN / 2), text.ceil_char_boundary(text.len() - SHOWN / 2));
    format!("{}\n[… {} left out …]\n{}", &text[..head], counted(tail - head, "character"), &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ConflictKind;

    #[test]
    fn diffs_are_cut_and_messages_are_not() {
        let work =
            RequestSide { goals: vec!["Rename f".into()], commits: vec!["x".repeat(9_000)], diff: "é".repeat(9_000) };
        let log = Some("error: no `f`".into());
        let request =
            ResolutionRequest { name: "task-abc".into(), target: "main".into(), work, log, ..Default::default() };
        let text = request.text();
        assert!(text.contains("characters left out") && text.len() < 21_000, "{}", text.len());
        assert!(text.contains(&"x".repeat(9_000)), "what a commit says is whole");
        assert!(text.starts_with("Repair a merge.") && text.contains("error: no `f`"));
    }

    #[test]
    fn a_conflict_is_called_one() {
        let path = ConflictedPath {
            path: "src/a.rs".into(),
            kind: ConflictKind::Content,
            base: None,
            ours: None,
            theirs: None,
        };
        let request = ResolutionRequest { conflicts: vec![path], ..ResolutionRequest::default() };
        let text = request.text();
        assert!(text.contains("conflict") && text.contains("- src/a.rs (content)"), "{text}");
    }
}
