//! The document as one flat graph: defaults laid under, subgraphs turned into classes, chains cut into edges, other
//! engines' attribute names replaced. Attributes are still as written; this is what transforms work on.

use std::collections::{BTreeMap, BTreeSet};

use super::alias;
use super::diagnostic::{Diagnostic, Span};
use super::dot::{AttrEntry, AttrValue, DefaultsFor, Document, Ident, Statement};
use super::suggestions::Suggestions;
use crate::ids::NodeId;

/// An attribute with the place it was written at. Two are equal when their values are.
#[derive(Debug, Clone)]
pub struct Attr {
    /// Its value.
    pub value: AttrValue,
    /// Where it is, from its name to the end of its value.
    pub span: Span,
    /// Where its value is, quotes included.
    pub value_span: Span,
}

impl PartialEq for Attr {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Attr {
    /// A text that is in no file.
    pub fn text(text: impl Into<String>) -> Self {
        Self { value: AttrValue::Text(text.into()), span: Span::default(), value_span: Span::default() }
    }

    /// The place of one byte of the text, as exactly as escapes in the source let it be known.
    pub(crate) fn span_at(&self, offset: usize) -> Span {
        let AttrValue::Text(text) = &self.value else { return self.value_span };
        let Span { start, end } = self.value_span;
        // Every escape is longer in the source than in the text, so equal lengths mean there is none.
        if end - start == text.len() + 2 {
            Span { start: start + 1 + offset.min(text.len()), end: end - 1 }
        } else {
            self.value_span
        }
    }
}

/// Attributes by name, custom ones included: handlers of the user's own read them.
pub type Attrs = BTreeMap<String, Attr>;

/// A node before its attributes are understood.
#[derive(Debug, Clone)]
pub struct RawNode {
    /// Its id.
    pub id: NodeId,
    /// Its attributes, with those of default blocks under them.
    pub attrs: Attrs,
    /// The classes of the subgraphs it is in, outermost first.
    pub subgraphs: Vec<String>,
    /// It has its own statement, not only a mention in an edge.
    pub declared: bool,
    /// Where it is declared.
    pub span: Span,
}

/// An edge before its attributes are understood.
#[derive(Debug, Clone)]
pub struct RawEdge {
    /// Where it leaves.
    pub from: NodeId,
    /// Where it arrives.
    pub to: NodeId,
    /// Its attributes, with those of default blocks under them.
    pub attrs: Attrs,
    /// Where it is written.
    pub span: Span,
}

/// A graph whose attributes are not yet understood.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The graph's identifier.
    pub id: String,
    /// Where its identifier is.
    pub span: Span,
    /// The graph's own attributes.
    pub attrs: Attrs,
    /// The nodes in the order they were first named.
    pub nodes: Vec<RawNode>,
    /// The edges in the order they were written.
    pub edges: Vec<RawEdge>,
}

/// Flattens a document. None when it has no graph.
pub fn flatten(document: &Document) -> (Option<Graph>, Vec<Diagnostic>) {
    let Some(id) = &document.id else { return (None, Vec::new()) };
    let mut flattener = Flattener::default();
    flattener.graph.id = id.text.clone();
    flattener.graph.span = id.span;
    flattener.statements(&document.statements, &mut AttrScope::default(), true);
    flattener.merge_defaults();
    flattener.undeclared();
    (Some(flattener.graph), flattener.diagnostics)
}

/// The class a subgraph's label gives its nodes: `Loop A` is `loop-a`.
pub(crate) fn class_of_label(label: &str) -> Option<String> {
    let keep = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let class: String = label.to_lowercase().replace(' ', "-").chars().filter(|c| keep(*c)).collect();
    (!class.is_empty()).then_some(class)
}

#[derive(Debug, Clone, Default)]
struct AttrScope {
    node: Attrs,
    edge: Attrs,
    subgraphs: Vec<String>,
}

#[derive(Default)]
struct Flattener {
    graph: Graph,
    by_id: BTreeMap<NodeId, usize>,
    /// What default blocks gave each node, by index.
    inherited: Vec<Attrs>,
    /// Undeclared ends of edges, where each is first.
    ends: BTreeMap<NodeId, (usize, Span)>,
    diagnostics: Vec<Diagnostic>,
}

/// What a diagnostic is about.
#[derive(Clone, Copy)]
enum DiagnosticSubject<'a> {
    Scope,
    Node(&'a NodeId),
    Edge(&'a NodeId, &'a NodeId),
}

impl Flattener {
    fn statements(&mut self, statements: &[Statement], scope: &mut AttrScope, top: bool) {
        for statement in statements {
            match statement {
                Statement::Defaults { target: DefaultsFor::Graph, attrs } if top => {
                    let attrs = self.attrs(DefaultsFor::Graph, attrs, DiagnosticSubject::Scope);
                    self.graph.attrs.extend(attrs);
                }
                Statement::Attribute(entry) if top => {
                    let attrs = self.attrs(DefaultsFor::Graph, std::slice::from_ref(entry), DiagnosticSubject::Scope);
                    self.graph.attrs.extend(attrs);
                }
                // A subgraph's own attributes: only its label counts, and that was read on entering it.
                Statement::Defaults { target: DefaultsFor::Graph, .. } | Statement::Attribute(_) => {}
                Statement::Defaults { target, attrs } => {
                    let attrs = self.attrs(*target, attrs, DiagnosticSubject::Scope);
                    if *target == DefaultsFor::Node { &mut scope.node } else { &mut scope.edge }.extend(attrs);
                }
                Statement::Subgraph { statements, .. } => {
                    let mut inner = scope.clone();
                    inner.subgraphs.extend(subgraph_label(statements).and_then(|label| class_of_label(&label)));
                    self.statements(statements, &mut inner, false);
                }
                Statement::Node { id, attrs } => self.node(id, attrs, scope),
                Statement::Edge { ids, attrs } => self.edges(ids, attrs, scope),
            }
        }
    }

    fn node(&mut self, id: &Ident, entries: &[AttrEntry], scope: &AttrScope) {
        let Some(index) = self.mention(id, scope) else { return };
        if !self.graph.nodes[index].declared {
            self.inherited[index] = scope.node.clone();
            self.graph.nodes[index].declared = true;
            self.graph.nodes[index].span = id.span;
        }
        let node_id = self.graph.nodes[index].id.clone();
        let attrs = self.attrs(DefaultsFor::Node, entries, DiagnosticSubject::Node(&node_id));
        self.graph.nodes[index].attrs.extend(attrs);
    }

    fn edges(&mut self, ids: &[Ident], entries: &[AttrEntry], scope: &AttrScope) {
        let ends: Vec<_> = ids.iter().map(|id| self.mention(id, scope)).collect();
        let mut own = None;
        for (pair, spans) in ends.windows(2).zip(ids.windows(2)) {
            let &[Some(from), Some(to)] = pair else { continue };
            let (from, to) = (self.graph.nodes[from].id.clone(), self.graph.nodes[to].id.clone());
            // Read once, so that a chain does not tell its errors once for every pair.
            let own =
                own.get_or_insert_with(|| self.attrs(DefaultsFor::Edge, entries, DiagnosticSubject::Edge(&from, &to)));
            let mut attrs = scope.edge.clone();
            attrs.extend(own.clone());
            for (id, span) in [(&from, spans[0].span), (&to, spans[1].span)] {
                self.ends.entry(id.clone()).or_insert((self.graph.edges.len(), span));
            }
            self.graph.edges.push(RawEdge { from, to, attrs, span: spans[0].span.to(spans[1].span) });
        }
    }

    /// The node's index, made on its first mention. None for a name that is not one, which the parser has reported.
    fn mention(&mut self, id: &Ident, scope: &AttrScope) -> Option<usize> {
        let node_id = NodeId::new(id.text.as_str()).ok()?;
        let index = *self.by_id.entry(node_id.clone()).or_insert_with(|| {
            self.graph.nodes.push(RawNode {
                id: node_id,
                attrs: Attrs::new(),
                subgraphs: Vec::new(),
                declared: false,
                span: id.span,
            });
            self.inherited.push(scope.node.clone());
            self.graph.nodes.len() - 1
        });
        let subgraphs = &mut self.graph.nodes[index].subgraphs;
        for class in &scope.subgraphs {
            if !subgraphs.contains(class) {
                subgraphs.push(class.clone());
            }
        }
        Some(index)
    }

    /// The attributes of one block under their real names.
    fn attrs(&mut self, target: DefaultsFor, entries: &[AttrEntry], about: DiagnosticSubject<'_>) -> Attrs {
        let mut attrs = Attrs::new();
        let mut by_alias = BTreeSet::new();
        for entry in entries {
            let written = entry.key.text.as_str();
            let alias = alias::attribute(target, written);
            let key = alias.map_or(written, |alias| alias.real);
            if let Some(alias) = alias.filter(|alias| !alias.silent) {
                let note = format!("`{written}` is another engine's name for `{}`", alias.real);
                self.report(
                    Diagnostic::note("alias", note, entry.key.span).with_fix(format!("write `{}`", alias.real)),
                    about,
                );
            }
            self.alias_value(target, key, entry, about);
            if attrs.contains_key(key) {
                let message = format!("`{key}` is given twice in one block");
                self.report(
                    Diagnostic::warning("duplicate_attribute", message, entry.span()).with_fix("keep one"),
                    about,
                );
                // The real name beats an alias, otherwise the last one counts.
                if alias.is_some() && !by_alias.contains(key) {
                    continue;
                }
            }
            if alias.is_some() {
                by_alias.insert(key);
            } else {
                by_alias.remove(key);
            }
            let attr = Attr { value: entry.value.clone(), span: entry.span(), value_span: entry.value_span };
            attrs.insert(key.to_owned(), attr);
        }
        attrs
    }

    /// Notes words of other engines in `shape` and `type`; the words themselves stay as written.
    fn alias_value(&mut self, target: DefaultsFor, key: &str, entry: &AttrEntry, about: DiagnosticSubject<'_>) {
        let AttrValue::Text(word) = &entry.value else { return };
        let note = match (target, key) {
            (DefaultsFor::Node, "shape") => alias::shape(word).map(|real| format!("`shape={word}` is taken as {real}")),
            (DefaultsFor::Node, "type") => {
                alias::handler_type(word).map(|real| format!("`type={word}` is taken as `type={real}`"))
            }
            _ => None,
        };
        if let Some(note) = note {
            self.report(Diagnostic::note("alias", note, entry.span()), about);
        }
    }

    fn report(&mut self, diagnostic: Diagnostic, about: DiagnosticSubject<'_>) {
        self.diagnostics.push(match about {
            DiagnosticSubject::Scope => diagnostic,
            DiagnosticSubject::Node(id) => diagnostic.at_node(id),
            DiagnosticSubject::Edge(from, to) => diagnostic.at_edge(from, to),
        });
    }

    fn merge_defaults(&mut self) {
        for (node, inherited) in self.graph.nodes.iter_mut().zip(&self.inherited) {
            for (key, attr) in inherited {
                node.attrs.entry(key.clone()).or_insert_with(|| attr.clone());
            }
        }
    }

    /// Nodes that only edges name: almost always a slip of the pen.
    fn undeclared(&mut self) {
        let nodes = &self.graph.nodes;
        let declared = nodes.iter().filter(|node| node.declared).map(|node| node.id.as_str());
        let mut suggestions = Suggestions::among(declared);
        let mut diagnostics = Vec::new();
        for id in nodes.iter().filter(|node| !node.declared).map(|node| &node.id) {
            let Some((edge, span)) = self.ends.get(id) else { continue };
            let edge = &self.graph.edges[*edge];
            let fix = match suggestions.closest(id.as_str()) {
                Some(other) => format!("did you mean `{other}`? Otherwise declare it: `{id} [label=\"…\"]`"),
                None => format!("declare it: `{id} [label=\"…\"]`"),
            };
            let error = Diagnostic::error("edge_target_exists", format!("node `{id}` is not declared"), *span);
            diagnostics.push(error.at_edge(&edge.from, &edge.to).with_fix(fix));
        }
        self.diagnostics.extend(diagnostics);
    }
}

fn subgraph_label(statements: &[Statement]) -> Option<String> {
    let entries = statements.iter().flat_map(|statement| match statement {
        Statement::Attribute(entry) => std::slice::from_ref(entry),
        Statement::Defaults { target: DefaultsFor::Graph, attrs } => attrs.as_slice(),
        _ => &[],
    });
    entries.rev().find(|entry| entry.key.text == "label").map(|entry| entry.value.to_string())
}
