//! Findings about a text, each with the line it is about.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use pleach_core::plan::diagnostic::{Diagnostic, Severity};
use serde_json::{Value, json};

/// A text with the place of each of its lines, so that a thousand findings do not read it a thousand times.
#[derive(Debug)]
pub struct Source<'t> {
    path: &'t str,
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Source<'t> {
    /// A text and the name people know it by.
    pub fn new(path: &'t str, text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { path, text, starts }
    }

    /// The line a byte is on, from 0, and the byte it starts at.
    fn line(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        (line, self.starts[line])
    }

    /// The finding in words, with the line it is about and how to fix it.
    pub fn show(&self, found: &Diagnostic) -> String {
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let (line, start) = self.line(found.span.start);
        // A prompt may be hundreds of lines long; the first one shows which it is.
        let text = self.text[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let from = (found.span.start - start).min(text.len());
        let to = found.span.end.saturating_sub(start).clamp(from, text.len());
        let excerpt = Snippet::source(text)
            .path(self.path)
            .line_start(line + 1)
            .annotation(AnnotationKind::Primary.span(from..to));
        let mut group = level.primary_title(&found.message).id(&found.rule).element(excerpt);
        if let Some(fix) = &found.fix {
            group = group.element(Level::HELP.message(fix));
        }
        Renderer::styled().render(&[group])
    }

    /// The finding as `--json` gives it: its own fields, the file, and line and column from 1.
    pub fn json(&self, found: &Diagnostic) -> Value {
        let mut value = json!(found);
        value["file"] = json!(self.path);
        let (line, start) = self.line(found.span.start);
        value["line"] = json!(line + 1);
        value["column"] = json!(self.text.get(start..found.span.start).map_or(0, |before| before.chars().count()) + 1);
        value
    }
}
