//! What an agent is asked that resolves a conflict.

use std::fmt::Write as _;

use crate::event::ConflictedPath;

/// How many characters of a diff or a log are shown: its beginning and its end.
const SHOWN: usize = 8_000;

/// A conflict, as an agent needs to know it.
#[derive(Debug, Clone, Default)]
pub struct ResolutionRequest {
    /// What is merged: a branch, a task.
    pub name: String,
    /// The branch it is merged into.
    pub target: String,
    /// What the work is about.
    pub goal: String,
    /// The files in conflict; none where only the tests fail.
    pub conflicts: Vec<ConflictedPath>,
    /// What the work has changed.
    pub diff: String,
    /// What the target has done meanwhile: the subjects of its commits.
    pub meanwhile: Vec<String>,
    /// What the target has changed.
    pub target_diff: String,
    /// What the tests printed when they failed last.
    pub log: Option<String>,
    /// What went wrong with the last answer.
    pub objection: Option<String>,
}

impl ResolutionRequest {
    /// The request in words.
    pub fn text(&self) -> String {
        let mut text = match self.conflicts.is_empty() {
            true => self.broken(),
            false => self.conflicted(),
        };
        if let Some(objection) = &self.objection {
            let _ = writeln!(text, "\nYour last answer could not be used: {objection}");
        }
        let _ = writeln!(text, "\n## What {} is about\n\n{}", self.name, self.goal);
        section(&mut text, &format!("What {} changed", self.name), &self.diff);
        if !self.meanwhile.is_empty() {
            let _ = writeln!(text, "\n## What {} did meanwhile\n", self.target);
            self.meanwhile.iter().for_each(|subject| {
                let _ = writeln!(text, "- {subject}");
            });
        }
        section(&mut text, &format!("What {} changed", self.target), &self.target_diff);
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

fn section(text: &mut String, title: &str, body: &str) {
    if !body.trim().is_empty() {
        let _ = write!(text, "\n## {title}\n\n```\n{}\n```\n", cut(body.trim_end()));
    }
}

/// A text of bearable length, with a mark where something is left out.
fn cut(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(SHOWN / 2), text.ceil_char_boundary(text.len() - SHOWN / 2));
    format!("{}\n[… {} characters left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ConflictKind;

    #[test]
    fn a_long_diff_is_cut_in_the_middle() {
        let request = ResolutionRequest {
            name: "task-abc".into(),
            target: "main".into(),
            goal: "Rename f".into(),
            diff: "é".repeat(9_000),
            log: Some("error: no `f`".into()),
            ..ResolutionRequest::default()
        };
        let text = request.text();
        assert!(text.contains("characters left out") && text.len() < 12_000, "{}", text.len());
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
