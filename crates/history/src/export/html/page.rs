//! A page that is being written. Its elements are known here, its text comes from anywhere and is only ever text.

use crate::export::markdown::harmless;

const STYLE: &str = include_str!("style.css");

/// What is written so far.
#[derive(Debug)]
pub(super) struct Page(String);

impl Page {
    /// A page with a title. Browsers are told to load and run nothing for it.
    pub fn new(title: &str) -> Self {
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            escaped(title)
        ))
    }

    /// The whole page.
    pub fn end(self) -> String {
        format!("{}</main>\n</body>\n</html>\n", self.0)
    }

    /// An element with others in it. Its name and class are words of this module.
    pub fn element(&mut self, name: &str, class: &str, content: impl FnOnce(&mut Self)) {
        self.open(name, class);
        self.0.push('\n');
        content(self);
        self.0.push_str(&format!("</{name}>\n"));
    }

    /// An element with nothing but text.
    pub fn text(&mut self, name: &str, class: &str, text: &str) {
        self.open(name, class);
        // A browser leaves out the first line break of what is shown as it is.
        self.0.push_str(if name == "pre" { "\n" } else { "" });
        self.0.push_str(&escaped(text));
        self.0.push_str(&format!("</{name}>\n"));
    }

    /// Lines as they are, each with its class.
    pub fn lines<'t>(&mut self, lines: impl Iterator<Item = (&'static str, &'t str)>) {
        self.0.push_str("<pre>");
        for (class, line) in lines {
            self.open("span", class);
            self.0.push_str(&escaped(line));
            self.0.push_str("\n</span>");
        }
        self.0.push_str("</pre>\n");
    }

    /// A word for how something is, in its colour.
    pub fn badge(&mut self, word: &str) {
        let class = match word {
            "done" | "success" | "partial_success" => "badge good",
            "failed" | "fail" | "dead" | "cancelled" => "badge bad",
            _ => "badge",
        };
        self.text("span", class, word);
    }

    /// Something that opens when it is asked for.
    pub fn details(&mut self, class: &str, is_open: bool, summary: &str, content: impl FnOnce(&mut Self)) {
        let open = if is_open { " open" } else { "" };
        self.0.push_str(&format!("<details class=\"{class}\"{open}>\n"));
        self.text("summary", "", summary);
        content(self);
        self.0.push_str("</details>\n");
    }

    /// A part of the page that links lead to.
    pub fn section(&mut self, number: usize, content: impl FnOnce(&mut Self)) {
        self.0.push_str(&format!("<section id=\"n{number}\">\n"));
        content(self);
        self.0.push_str("</section>\n");
    }

    /// A link to a part of the page.
    pub fn link(&mut self, number: usize, text: &str) {
        self.0.push_str(&format!("<a href=\"#n{number}\">{}</a> ", escaped(text)));
    }

    fn open(&mut self, name: &str, class: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.0.push_str(&format!("<{name}{class}>"));
    }
}

/// A text that means nothing to a browser, wherever it stands.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in harmless(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
