//! Tokens to a [`Document`]: recursive descent that recovers at the next statement, so that all errors of a file are
//! reported at once.

use super::lexer::{Lexer, Token, TokenKind};
use super::{AttrEntry, DefaultsFor, Document, Ident, Statement, is_identifier};
use crate::plan::diagnostic::{Diagnostic, Span};

/// Subgraphs inside subgraphs; far above what anyone writes, far below what overflows the stack.
const MAX_DEPTH: usize = 64;

/// After this many errors the rest is not worth reading.
const MAX_ERRORS: usize = 50;

/// Reads a DOT file. The document holds whatever could be understood; it is only sound when no error is reported.
pub fn parse(source: &str) -> (Document, Vec<Diagnostic>) {
    let mut lexer = Lexer::new(source);
    let token = lexer.next();
    let mut parser = DotParser { source, lexer, token, depth: 0, left_over: None };
    let document = parser.document();
    let mut diagnostics = parser.lexer.diagnostics;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    (document, diagnostics)
}

struct DotParser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    token: Token,
    depth: usize,
    /// A name that was read as an attribute's and turned out to start the next statement.
    left_over: Option<Span>,
}

impl DotParser<'_> {
    fn advance(&mut self) -> Token {
        let next = self.lexer.next();
        std::mem::replace(&mut self.token, next)
    }

    fn text(&self, span: Span) -> &str {
        &self.source[span.start..span.end]
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Word && self.text(self.token.span) == word
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.lexer.report(Diagnostic::error("syntax", message, span));
    }

    fn error_with_fix(&mut self, span: Span, message: impl Into<String>, fix: impl Into<String>) {
        self.lexer.report(Diagnostic::error("syntax", message, span).with_fix(fix));
    }

    fn unclosed(&mut self, open: Span, message: &str, fix: &str) {
        if !self.lexer.cut_short {
            self.error_with_fix(open, message, fix);
        }
    }

    /// The current token, for a message.
    fn found(&self) -> String {
        match &self.token.kind {
            TokenKind::End => "the end of the file".into(),
            TokenKind::Text(_) => "a quoted string".into(),
            _ => format!("`{}`", self.text(self.token.span)),
        }
    }

    fn document(&mut self) -> Document {
        if self.is_word("strict") {
            let span = self.advance().span;
            self.error_with_fix(span, "`strict` graphs are not supported", "remove `strict`");
        }
        if self.is_word("graph") {
            let span = self.advance().span;
            self.error_with_fix(span, "a pipeline is a directed graph", "write `digraph`");
        } else if self.is_word("digraph") {
            self.advance();
        } else {
            let message = format!("expected `digraph Name {{`, found {}", self.found());
            self.error(self.token.span, message);
            return Document::default();
        }
        let id = self.graph_id();
        if self.token.kind != TokenKind::OpenBrace {
            let message = format!("expected `{{` after the graph's name, found {}", self.found());
            self.error(self.token.span, message);
            return Document { id, ..Document::default() };
        }
        let (statements, close) = self.block();
        if self.token.kind != TokenKind::End {
            let again = ["strict", "graph", "digraph"].into_iter().any(|word| self.is_word(word));
            let message =
                if again { "a file holds only one graph" } else { "unexpected text after the graph's closing `}`" };
            self.error(self.token.span, message);
        }
        Document { id, statements, close }
    }

    fn graph_id(&mut self) -> Option<Ident> {
        let span = self.token.span;
        match self.token.kind.clone() {
            TokenKind::Word if !self.text(span).contains('.') => {
                self.advance();
                Some(Ident { text: self.text(span).to_owned(), span })
            }
            TokenKind::Text(text) => {
                self.advance();
                let fix = suggest_name(&text, "Pipeline");
                self.error_with_fix(span, "the graph's name is not quoted", format!("write `digraph {fix} {{`"));
                Some(Ident { text: fix, span })
            }
            _ => {
                let message = format!("expected a graph name, found {}", self.found());
                self.error_with_fix(span, message, "write `digraph Name {`");
                if self.token.kind == TokenKind::Word {
                    self.advance();
                }
                // A are-in, so that the statements are read and their errors told as well.
                Some(Ident { text: "Pipeline".into(), span })
            }
        }
    }

    /// `{ statements }` and where it is closed; the current token is the brace.
    fn block(&mut self) -> (Vec<Statement>, Option<Span>) {
        let open = self.advance().span;
        let mut statements = Vec::new();
        loop {
            match self.token.kind {
                _ if self.left_over.is_some() => {
                    let statement = self.left_over.take().and_then(|span| self.named(span));
                    statements.extend(statement);
                }
                TokenKind::CloseBrace => {
                    let close = self.advance().span;
                    return (statements, Some(close));
                }
                TokenKind::End => {
                    self.unclosed(open, "unclosed `{`", "add `}`");
                    return (statements, None);
                }
                TokenKind::Semicolon => {
                    self.advance();
                }
                _ if self.lexer.errors >= MAX_ERRORS => {
                    // Drain, so that the callers see the end as well.
                    while self.token.kind != TokenKind::End {
                        self.advance();
                    }
                    return (statements, None);
                }
                _ => {
                    let before = self.token.span;
                    match self.statement() {
                        Some(statement) => statements.push(statement),
                        None => self.recover(),
                    }
                    if self.token.span == before && self.token.kind != TokenKind::End {
                        self.advance();
                    }
                }
            }
        }
    }

    /// Skips to where the next statement seems to start.
    fn recover(&mut self) {
        self.lexer.skipping = true;
        let mut depth = 0usize;
        let mut first = true;
        loop {
            match self.token.kind {
                TokenKind::End => break,
                TokenKind::Semicolon | TokenKind::CloseBrace if depth == 0 => break,
                TokenKind::Word | TokenKind::Text(_) if depth == 0 && self.token.first_on_line && !first => break,
                TokenKind::OpenBrace | TokenKind::OpenBracket => depth += 1,
                TokenKind::CloseBrace | TokenKind::CloseBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            first = false;
            self.skip();
        }
        self.lexer.skipping = false;
    }

    /// One token on, in the mode that fits.
    fn skip(&mut self) {
        self.token = match self.token.kind {
            TokenKind::Equals => self.lexer.value(),
            _ => self.lexer.next(),
        };
    }

    /// One statement, or none after reporting why not.
    fn statement(&mut self) -> Option<Statement> {
        let span = self.token.span;
        match self.token.kind.clone() {
            TokenKind::Word => match self.text(span) {
                "subgraph" => self.subgraph(),
                "graph" => self.defaults(DefaultsFor::Graph),
                "node" => self.defaults(DefaultsFor::Node),
                "edge" => self.defaults(DefaultsFor::Edge),
                "digraph" | "strict" => {
                    self.error(span, "a nested graph is a `subgraph`");
                    None
                }
                _ => {
                    self.advance();
                    self.named(span)
                }
            },
            TokenKind::Text(text) if self.source[span.end..].trim_start().starts_with('=') => {
                self.advance();
                self.quoted_key(span, text).and_then(|key| self.entry(key)).map(Statement::Attribute)
            }
            TokenKind::Text(text) => {
                self.quoted_name(span, &text);
                None
            }
            TokenKind::OpenBrace => {
                self.error_with_fix(span, "a block on its own is not supported", "write `subgraph {`");
                self.nested_block().map(|statements| Statement::Subgraph { id: None, statements })
            }
            TokenKind::Undirected => {
                self.undirected(span);
                None
            }
            _ => {
                let message = format!("expected a statement, found {}", self.found());
                self.error(span, message);
                None
            }
        }
    }

    fn undirected(&mut self, span: Span) {
        self.error_with_fix(span, "`--` joins nodes of an undirected graph", "write `->`");
    }

    fn quoted_name(&mut self, span: Span, text: &str) {
        let fix = format!("write `{}`, and the text as its `label`", suggest_name(text, "name"));
        self.error_with_fix(span, "node names are not quoted", fix);
    }

    /// The name of an attribute in quotes, which plain DOT allows for any name.
    fn quoted_key(&mut self, span: Span, text: String) -> Option<Ident> {
        if text.trim().is_empty() {
            self.error(span, "the name of an attribute cannot be empty");
            return None;
        }
        Some(Ident { text, span })
    }

    fn defaults(&mut self, target: DefaultsFor) -> Option<Statement> {
        let span = self.advance().span;
        if self.token.kind != TokenKind::OpenBracket {
            let word = self.text(span).to_owned();
            let message = format!("expected `[` after the keyword `{word}`, found {}", self.found());
            self.error(span, message);
            return None;
        }
        Some(Statement::Defaults { target, attrs: self.attributes() })
    }

    fn subgraph(&mut self) -> Option<Statement> {
        self.advance();
        let span = self.token.span;
        let id = match self.token.kind.clone() {
            TokenKind::OpenBrace => None,
            TokenKind::Word => {
                self.advance();
                Some(Ident { text: self.text(span).to_owned(), span })
            }
            TokenKind::Text(text) => {
                self.advance();
                let name = suggest_name(&text, "part");
                let fix = format!("write `subgraph {name} {{` and `label=\"…\"` inside");
                self.error_with_fix(span, "the name of a subgraph is not quoted", fix);
                Some(Ident { text: name, span })
            }
            _ => None,
        };
        if self.token.kind != TokenKind::OpenBrace {
            let message = format!("expected `{{` after `subgraph`, found {}", self.found());
            self.error(self.token.span, message);
            return None;
        }
        self.nested_block().map(|statements| Statement::Subgraph { id, statements })
    }

    fn nested_block(&mut self) -> Option<Vec<Statement>> {
        if self.depth == MAX_DEPTH {
            self.error(self.token.span, format!("subgraphs are nested more than {MAX_DEPTH} deep"));
            return None;
        }
        self.depth += 1;
        let (statements, _) = self.block();
        self.depth -= 1;
        Some(statements)
    }

    /// A statement that starts with the name at `span`: an attribute, an edge or a node.
    fn named(&mut self, span: Span) -> Option<Statement> {
        if self.token.kind == TokenKind::Equals {
            let key = Ident { text: self.text(span).to_owned(), span };
            return self.entry(key).map(Statement::Attribute);
        }
        let first = self.node_id(span);
        let mut ids = vec![first];
        loop {
            match self.token.kind {
                TokenKind::Arrow => {}
                TokenKind::Undirected => self.undirected(self.token.span),
                TokenKind::Colon => {
                    let message = "ports are not supported: an edge joins whole nodes";
                    self.error_with_fix(self.token.span, message, "remove the `:` and what follows it");
                    return None;
                }
                _ => break,
            }
            self.advance();
            ids.push(self.edge_end()?);
        }
        let mut attrs = Vec::new();
        if self.token.kind == TokenKind::OpenBracket {
            attrs = self.attributes();
            while self.token.kind == TokenKind::OpenBracket {
                self.error_with_fix(self.token.span, "a statement has one attribute block", "join the two with `,`");
                attrs.extend(self.attributes());
            }
        }
        Some(match ids.len() {
            1 => Statement::Node { id: ids.remove(0), attrs },
            _ => Statement::Edge { ids, attrs },
        })
    }

    fn node_id(&mut self, span: Span) -> Ident {
        let text = self.text(span).to_owned();
        if text.contains('.') && text.split('.').all(is_identifier) {
            let fix = format!("write `{}`", text.replace('.', "_"));
            self.error_with_fix(span, format!("`{text}` is not a node name: it has a dot"), fix);
        }
        Ident { text, span }
    }

    /// What an arrow points to.
    fn edge_end(&mut self) -> Option<Ident> {
        let span = self.token.span;
        match self.token.kind.clone() {
            TokenKind::Word => {
                self.advance();
                let text = self.text(span);
                if ["graph", "node", "edge", "subgraph", "digraph", "strict"].contains(&text) {
                    let message = format!("`{text}` is a keyword, not a node");
                    self.error(span, message);
                }
                Some(self.node_id(span))
            }
            TokenKind::Text(text) => {
                self.advance();
                self.quoted_name(span, &text);
                Some(Ident { text: suggest_name(&text, "name"), span })
            }
            TokenKind::OpenBrace => {
                self.error_with_fix(span, "an edge leads to one node, not to a group", "write one edge for each node");
                None
            }
            _ => {
                let message = format!("expected a node after `->`, found {}", self.found());
                self.error(span, message);
                None
            }
        }
    }

    /// `[k=v, …]`; the current token is the bracket.
    fn attributes(&mut self) -> Vec<AttrEntry> {
        let open = self.advance().span;
        let mut entries = Vec::new();
        if self.token.kind == TokenKind::CloseBracket {
            let close = self.advance().span;
            self.error_with_fix(open.to(close), "an attribute block cannot be empty", "remove `[]`");
            return entries;
        }
        let mut no_comma = None;
        loop {
            let (span, first_on_line) = (self.token.span, self.token.first_on_line);
            match self.token.kind.clone() {
                TokenKind::CloseBracket => {
                    self.advance();
                    return entries;
                }
                TokenKind::Word => {
                    self.advance();
                    if first_on_line && matches!(self.token.kind, TokenKind::Arrow | TokenKind::OpenBracket) {
                        self.left_over = Some(span);
                        self.unclosed(open, "unclosed `[`", "add `]`");
                        return entries;
                    }
                    self.missing_comma(no_comma.take());
                    let key = Ident { text: self.text(span).to_owned(), span };
                    match self.entry(key) {
                        Some(entry) => {
                            entries.push(entry);
                            no_comma = self.separator();
                        }
                        None => self.recover_attribute(),
                    }
                }
                TokenKind::Text(text) => {
                    self.advance();
                    self.missing_comma(no_comma.take());
                    match self.quoted_key(span, text).and_then(|key| self.entry(key)) {
                        Some(entry) => {
                            entries.push(entry);
                            no_comma = self.separator();
                        }
                        None => self.recover_attribute(),
                    }
                }
                TokenKind::End | TokenKind::CloseBrace | TokenKind::Arrow => {
                    self.unclosed(open, "unclosed `[`", "add `]`");
                    return entries;
                }
                _ => {
                    let message = format!("expected an attribute, found {}", self.found());
                    self.error(span, message);
                    self.advance();
                    self.recover_attribute();
                }
            }
        }
    }

    /// A missing comma is common in the wild and cannot be misread, so it is only pointed out.
    fn missing_comma(&mut self, span: Option<Span>) {
        if let Some(span) = span {
            let note = Diagnostic::note("syntax", "missing comma before this attribute", span);
            self.lexer.report(note.with_fix("add `,`"));
        }
    }

    /// What is between two attributes; the place of the next one when nothing does.
    fn separator(&mut self) -> Option<Span> {
        let span = self.token.span;
        match self.token.kind {
            TokenKind::Comma => {
                self.advance();
                if self.token.kind == TokenKind::CloseBracket {
                    let note = Diagnostic::note("syntax", "trailing comma after the last attribute", span);
                    self.lexer.report(note.with_fix("remove `,`"));
                }
                None
            }
            TokenKind::Semicolon => {
                self.advance();
                self.error_with_fix(span, "attributes are separated by commas", "write `,`");
                None
            }
            TokenKind::Word | TokenKind::Text(_) => Some(span),
            _ => None,
        }
    }

    fn recover_attribute(&mut self) {
        self.lexer.skipping = true;
        loop {
            match self.token.kind {
                TokenKind::Comma | TokenKind::Semicolon => {
                    self.lexer.skipping = false;
                    self.advance();
                    return;
                }
                TokenKind::CloseBracket | TokenKind::CloseBrace | TokenKind::Arrow | TokenKind::End => break,
                _ => self.skip(),
            }
        }
        self.lexer.skipping = false;
    }

    /// `= value` after `key`; the current token is what follows the key.
    fn entry(&mut self, key: Ident) -> Option<AttrEntry> {
        if self.token.kind != TokenKind::Equals {
            let message = format!("expected `=` after the attribute `{}`, found {}", key.text, self.found());
            self.error(key.span, message);
            return None;
        }
        self.token = self.lexer.value();
        let value_span = self.token.span;
        match self.token.kind.clone() {
            TokenKind::Text(text) => {
                self.advance();
                Some(AttrEntry { key, value: super::AttrValue::Text(text), value_span })
            }
            TokenKind::Value(value) => {
                self.advance();
                Some(AttrEntry { key, value, value_span })
            }
            TokenKind::Html => {
                self.advance();
                self.error_with_fix(value_span, "HTML values are not supported", "write a quoted string");
                Some(AttrEntry { key, value: super::AttrValue::Text(String::new()), value_span })
            }
            _ => {
                let message = format!("the attribute `{}` has no value", key.text);
                let fix = format!("write `{}=\"\"` for an empty one", key.text);
                self.error_with_fix(key.span, message, fix);
                None
            }
        }
    }
}

/// `text` made into a name, or `otherwise` when nothing of it can be used.
fn suggest_name(text: &str, otherwise: &str) -> String {
    let words = text.split(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("_");
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if name.is_empty() { otherwise.to_owned() } else { name }
}
