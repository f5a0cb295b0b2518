//! The failure of a command: its code, its message, and how to fix it.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::say;

/// Why a command could not do what it was asked to, in words for the person who asked.
#[derive(Debug)]
pub struct Failure {
    /// Its cause, by which programs know it.
    pub code: Code,
    /// What went wrong, in one sentence without a full stop.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// Diagnostics with locations, for `--json`.
    pub diagnostics: Vec<Value>,
    /// What became of the tasks that ended with it, for `--json`.
    pub tasks: Box<[Value]>,
}

impl Failure {
    /// A failure of this cause, with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            causes: Vec::new(),
            diagnostics: Vec::new(),
            tasks: Box::default(),
        }
    }

    /// Standard output was closed by its reader, who has seen enough: the end of the command, but no failure.
    pub fn output_closed() -> Self {
        Self::new(Code::OutputClosed, "")
    }

    /// Its exit code.
    pub fn exit(&self) -> Exit {
        self.code.exit()
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds diagnostics, for `--json`.
    #[must_use]
    pub fn diagnosed(mut self, diagnostics: Vec<Value>) -> Self {
        self.diagnostics = diagnostics;
        self
    }

    /// Says what went wrong, and how to fix it, in other words.
    #[must_use]
    pub fn reworded(self, reword: impl Fn(&str) -> String) -> Self {
        Self { message: reword(&self.message), hint: self.hint.as_deref().map(reword), ..self }
    }

    /// Adds the error after it, with everything after that.
    #[must_use]
    pub fn because(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Some errors name their cause in their own sentence.
            if !self.causes.last().unwrap_or(&self.message).ends_with(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Prints it: text on stderr, and with `--json` an object on stdout as well.
    pub fn report(&self, json: bool) {
        if self.exit() == Exit::Done {
            return;
        }
        say!("{}", self.text());
        if json {
            self.report_json();
        }
    }

    /// The object `--json` gives on stdout.
    pub fn report_json(&self) {
        let _ = writeln!(std::io::stdout(), "{}", self.json());
    }

    /// The message and its causes, on one line.
    pub fn sentence(&self) -> String {
        let parts: Vec<&str> = std::iter::once(&self.message).chain(&self.causes).map(String::as_str).collect();
        parts.join(": ")
    }

    fn text(&self) -> String {
        let red = anstyle::AnsiColor::Red.on_default().bold();
        let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
        let mut text = format!("{red}error{}:{red:#} {}", say::code(self.code.as_str()), self.sentence());
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\n{cyan}hint:{cyan:#} {hint}");
        }
        text
    }

    /// The same as a value.
    pub fn json(&self) -> Value {
        let mut error = json!({"code": self.code.as_str(), "exit": self.exit().code(), "message": self.sentence(), "hint": self.hint});
        if !self.diagnostics.is_empty() {
            error["diagnostics"] = json!(self.diagnostics);
        }
        if self.tasks.is_empty() { json!({"error": error}) } else { json!({"error": error, "tasks": self.tasks}) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_causes_first_and_hint_second() {
        let missing = std::io::Error::other("disk on fire");
        let failure = Failure::new(Code::DiskFailed, "cannot write").because(&missing).hint("put it out");
        assert_eq!(
            anstream::adapter::strip_str(&failure.text()).to_string(),
            "error: cannot write: disk on fire\nhint: put it out"
        );
        assert_eq!(
            failure.json(),
            json!({"error": {
                "code": "disk-failed", "exit": 7, "message": "cannot write: disk on fire", "hint": "put it out"
            }})
        );
    }
}
