//! A run while it goes on: JSON lines on stdout, a live line on a terminal, plain lines otherwise.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use pleach::budget::Amount;
use pleach::config::OnExceeded;
use pleach::engine::Session;
use pleach::event::{Event, NodeExecution, Recorded, Route, Snapshot, to_the_millisecond};
use pleach::ids::{RepoPath, SessionId};
use pleach::text::counted;
use serde::Serialize;

use super::{duration, spent, tokens};
use crate::globals::Globals;
use crate::say;

/// Shows the events of a run.
#[derive(Debug)]
pub struct Progress {
    session: SessionId,
    json: bool,
    quiet: bool,
    verbose: bool,
    live: bool,
    begun: Instant,
    bar: Option<ProgressBar>,
    seq: u64,
    turns: u64,
    tokens: u64,
    /// What the node that runs has cost so far.
    node: Amount,
}

/// An event as `--json` prints it.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    #[serde(serialize_with = "to_the_millisecond")]
    at: Timestamp,
    session: &'a SessionId,
    context: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    data: &'a Event,
}

impl Progress {
    /// Shows a session the way the global options ask for.
    pub fn new(globals: &Globals, session: &Session) -> Self {
        let quiet = globals.json || globals.verbosity < 0;
        let live = !quiet && std::io::stderr().is_terminal();
        let mut progress = Self {
            session: session.id.clone(),
            json: globals.json,
            quiet,
            verbose: globals.verbosity > 0,
            live,
            begun: Instant::now(),
            bar: None,
            seq: 0,
            turns: session.state.turns,
            tokens: session.state.spent.total.tokens.total(),
            node: Amount::default(),
        };
        progress.draw();
        progress
    }

    /// Draws the live line, unless it is there already: a question puts it away.
    fn draw(&mut self) {
        if self.live && self.bar.as_ref().is_none_or(ProgressBar::is_finished) {
            self.bar = say::live(|target| live_line(target, self.begun));
        }
    }

    /// Takes one event.
    pub fn event(&mut self, recorded: &Recorded) {
        if self.json {
            self.seq += 1;
            let (at, event) = (recorded.at, &recorded.event);
            let session = &self.session;
            let line = Line { v: 1, seq: self.seq, at, session, context: "main", kind: event.kind(), data: event };
            let line = serde_json::to_string(&line).expect("events are structs with text keys, which always serialise");
            // A reader that stops reading does not stop the run: its record is what counts.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        if !self.quiet {
            self.show(&recorded.event);
        }
        match &recorded.event {
            Event::NodeExecution(node) => node.warnings.iter().for_each(|warning| self.warn(warning)),
            // What follows from a limit is told by the end of the run, unless nothing does.
            Event::BudgetExceeded(over) if over.action == OnExceeded::Warn.as_str() => self.warn(&over.text),
            Event::PriceUnknown(unknown) => self.warn(&unknown.text),
            _ => {}
        }
    }

    fn show(&mut self, event: &Event) {
        self.draw();
        match event {
            Event::SessionBranchCreated(branch) => {
                self.line(format!("session {} on branch {}", self.session, branch.branch));
            }
            Event::Resumed(resumed) => {
                let at = resumed.from.as_ref().map(|node| format!(" at `{node}`")).unwrap_or_default();
                self.line(format!("session {} resumed{at}", self.session));
            }
            Event::NodeStarted(node) => {
                self.node = Amount::default();
                let again = if node.attempt > 1 { format!(", attempt {}", node.attempt) } else { String::new() };
                let visit = if node.visit > 1 { format!(", visit {}", node.visit) } else { String::new() };
                let start = format!("▸ {} ({}{visit}{again})", node.node_id, node.handler);
                self.now(&start);
                if !self.live && !matches!(node.handler.as_str(), "start" | "exit" | "conditional") {
                    self.line(start);
                }
            }
            Event::AgentTurn(turn) => {
                self.turns += 1;
                let amount = Amount::of_turn(turn);
                self.tokens += amount.tokens.total();
                self.node += amount;
                let files = turn.files_written.values().flatten();
                let what = turn.commit_message.as_deref().and_then(|text| text.lines().next());
                self.turn(&turn.turn.to_string(), what, files.collect(), turn.git_sha.as_ref());
                self.now(&format!("▸ {}", turn.node_id));
            }
            Event::ToolExecution(tool) => {
                self.turns += 1;
                let files = tool.files_written.values().flatten();
                self.turn(&tool.turn.to_string(), Some(&tool.exit), files.collect(), tool.git_sha.as_ref());
            }
            Event::HumanInteraction(answer) => {
                self.line(format!("  {}: {} ({})", answer.question, answer.answer, answer.source));
            }
            Event::NodeExecution(node) => self.ended(node),
            _ => {}
        }
    }

    fn turn(&mut self, turn: &str, what: Option<&str>, files: Vec<&RepoPath>, commit: Option<&Snapshot>) {
        let commit = commit.and_then(|commits| commits.values().next()).map(|id| format!(" {}", id.short()));
        let wrote = match files.as_slice() {
            [] => String::new(),
            [one] => format!(" [{one}]"),
            [first, rest @ ..] => format!(" [{first} +{}]", rest.len()),
        };
        if commit.is_some() || self.verbose {
            self.line(format!("  {turn}{} {}{wrote}", commit.unwrap_or_default(), what.unwrap_or("read only")));
        }
    }

    fn ended(&mut self, node: &NodeExecution) {
        let took = duration(Duration::from_millis(node.duration_ms));
        let why = node.outcome.failure_reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let next = match &node.route {
            Route::Edge { to } => format!(" → {to}"),
            Route::FailureTarget { to } | Route::Restart { to } => format!(" ↺ {to}"),
            Route::GateRetry { gate, to } => format!(" ↺ {to} (gate {gate})"),
            Route::Retry => format!(" ↺ attempt {}", node.attempt + 1),
            Route::Complete | Route::Fail { .. } => String::new(),
        };
        let mark = if node.outcome.status.is_success() { "✓" } else { "✗" };
        let status = if node.outcome.status.is_success() { String::new() } else { format!(" {}", node.outcome.status) };
        let spent = match self.node.turns {
            0 => String::new(),
            turns => format!(", {}, {}", counted(turns, "turn"), spent(&self.node)),
        };
        self.line(format!("{mark} {}{status} {took}{spent}{why}{next}", node.node_id));
    }

    /// A line that stays.
    fn line(&self, text: String) {
        say!("{text}");
    }

    /// What goes on right now, on a terminal.
    fn now(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{text} · turn {} · {} tokens ·", self.turns, tokens(self.tokens)));
        }
    }

    /// Says something the user should not miss.
    pub fn warn(&self, text: &str) {
        let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
        say!("{yellow}warning:{yellow:#} {text}");
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// A line that shows what goes on, with the time since `begun`.
fn live_line(target: ProgressDrawTarget, begun: Instant) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = ProgressBar::with_draw_target(None, target).with_elapsed(begun.elapsed());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
