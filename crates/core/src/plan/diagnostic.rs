//! What is wrong with a text, where, and how to fix it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::ids::NodeId;

/// A stretch of the source text, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From the start of this one to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end.max(self.end) }
    }
}

/// Its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot be run.
    Error,
    /// It can be run, but probably does not do what was meant.
    Warning,
    /// Good to know.
    Note,
}

/// One finding about a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The rule that found it: `syntax`, `reachability`, …
    pub rule: String,
    /// Its level.
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// The node it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The edge it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<(NodeId, NodeId)>,
    /// Where in the source it is.
    pub span: Span,
    /// How to fix it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Diagnostic {
    fn new(rule: &str, severity: Severity, message: String, span: Span) -> Self {
        Self { rule: rule.to_owned(), severity, message, node_id: None, edge: None, span, fix: None }
    }

    /// A finding that forbids running.
    pub fn error(rule: &str, message: impl Into<String>, span: Span) -> Self {
        Self::new(rule, Severity::Error, message.into(), span)
    }

    /// A finding that is probably an error.
    pub fn warning(rule: &str, message: impl Into<String>, span: Span) -> Self {
        Self::new(rule, Severity::Warning, message.into(), span)
    }

    /// A finding that is good to know.
    pub fn note(rule: &str, message: impl Into<String>, span: Span) -> Self {
        Self::new(rule, Severity::Note, message.into(), span)
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds the node it is about.
    #[must_use]
    pub fn at_node(mut self, node: &NodeId) -> Self {
        self.node_id = Some(node.clone());
        self
    }

    /// Adds the edge it is about.
    #[must_use]
    pub fn at_edge(mut self, from: &NodeId, to: &NodeId) -> Self {
        self.edge = Some((from.clone(), to.clone()));
        self
    }

    /// Whether it forbids running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Findings in the order of the file, each once: what a block of defaults says wrong is wrong at every node it reaches.
pub(crate) fn each_once(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.severity));
    let mut seen = BTreeSet::new();
    diagnostics.retain(|found| seen.insert((found.rule.clone(), found.span, found.message.clone())));
    diagnostics
}

/// Line and column of a byte offset, both from 1; the column counts characters.
pub fn line_column(source: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &source[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Findings in a form tests compare: `line:column severity rule: message (fix)`.
#[cfg(test)]
pub(crate) fn show(source: &str, diagnostics: &[Diagnostic]) -> String {
    let lines = diagnostics.iter().map(|found| {
        let (line, column) = line_column(source, found.span.start);
        let severity = format!("{:?}", found.severity).to_lowercase();
        let about = match (&found.node_id, &found.edge) {
            (Some(id), _) => format!(" [{id}]"),
            (_, Some((from, to))) => format!(" [{from} -> {to}]"),
            _ => String::new(),
        };
        let fix = found.fix.as_ref().map(|fix| format!("\n    fix: {fix}")).unwrap_or_default();
        format!("{line}:{column} {severity} {}{about}: {}{fix}", found.rule, found.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_stop_at_the_end() {
        let source = "a\näöx\n";
        assert_eq!(line_column(source, 0), (1, 1));
        assert_eq!(line_column(source, source.find('x').unwrap()), (2, 3));
        assert_eq!(line_column(source, 3), (2, 1), "inside a character");
        assert_eq!(line_column(source, 999), (3, 1));
    }
}
