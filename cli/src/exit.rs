//! How a command ends: the documented exit codes, and the failure that carries one.
//!
//! `docs/exit-codes.md` is the user's page; a test keeps it in step with [`Exit::ALL`].

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::code::Code;
use crate::say;

/// How a command ended. The numbers are an interface: they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// The work itself failed.
    WorkFailed = 1,
    /// The command or its input is wrong.
    Usage = 2,
    /// The run was interrupted and can be resumed.
    Paused = 3,
    /// The run waits for a person's answer or trust.
    WaitsForPerson = 4,
    /// Finished work could not be brought into its target.
    LandingRefused = 5,
    /// Another process holds the session.
    Locked = 6,
    /// git, an agent, the sandbox or the disk is missing or broken.
    Environment = 7,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::WorkFailed,
        Self::Usage,
        Self::Paused,
        Self::WaitsForPerson,
        Self::LandingRefused,
        Self::Locked,
        Self::Environment,
    ];

    /// The number the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What the number means, in the words `--help` uses.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::WorkFailed => "the work failed",
            Self::Usage => "usage or invalid input",
            Self::Paused => "paused; `pleach resume` continues",
            Self::WaitsForPerson => "waits for a person",
            Self::LandingRefused => "landing refused",
            Self::Locked => "locked by another process",
            Self::Environment => "environment: git, agent, sandbox or disk",
        }
    }

    /// The table shown below `pleach --help`.
    pub fn help_table() -> String {
        Self::ALL.iter().fold(String::from("Exit codes:\n"), |mut text, exit| {
            let _ = writeln!(text, "  {}  {}", exit.code(), exit.meaning());
            text
        })
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do what it was asked to, in words for the person who asked.
#[derive(Debug)]
pub struct Failure {
    /// Its cause, by which programs know it.
    pub code: Code,
    /// What went wrong, in one sentence without a full stop.
    pub message: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// What lies behind it, outermost first.
    pub causes: Vec<String>,
    /// What is wrong in files, each with its place, for programs.
    pub diagnostics: Vec<Value>,
}

impl Failure {
    /// A failure of this cause, with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, causes: Vec::new(), diagnostics: Vec::new() }
    }

    /// Standard output was closed by its reader, who has seen enough: the end of the command, but no failure.
    pub fn output_closed() -> Self {
        Self::new(Code::OutputClosed, "")
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        self.code.exit()
    }

    /// Adds how to mend it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what is wrong in files, for programs.
    #[must_use]
    pub fn diagnosed(mut self, diagnostics: Vec<Value>) -> Self {
        self.diagnostics = diagnostics;
        self
    }

    /// Says what went wrong, and how to mend it, in other words.
    #[must_use]
    pub fn reworded(self, reword: impl Fn(&str) -> String) -> Self {
        Self { message: reword(&self.message), hint: self.hint.as_deref().map(reword), ..self }
    }

    /// Adds the error behind it, with everything behind that.
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

    /// Tells the user: text on stderr, and with `--json` an object on stdout as well.
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

    /// What went wrong and what lies behind it, on one line.
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

    fn json(&self) -> Value {
        let mut error = json!({"code": self.code.as_str(), "exit": self.exit().code(), "message": self.sentence(), "hint": self.hint});
        if !self.diagnostics.is_empty() {
            error["diagnostics"] = json!(self.diagnostics);
        }
        json!({"error": error})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_from_zero() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, (0..8).collect::<Vec<u8>>());
    }

    #[test]
    fn the_page_of_exit_codes_lists_every_code_with_its_meaning() {
        let page = include_str!("../../docs/exit-codes.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(page.contains(&row), "docs/exit-codes.md lacks `{row}`");
        }
    }

    #[test]
    fn a_failure_shows_its_causes_on_the_first_line_and_its_hint_on_the_second() {
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
