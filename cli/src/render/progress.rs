//! A run while it continues: JSON lines on stdout, a live line on a terminal, plain lines otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::time::Duration;

use engine::session::Session;
use history::compare::Comparison;
use pleach_core::budget::Amount;
use pleach_core::config::OnExceeded;
use pleach_core::event::{Event, NodeExecution, Notification, ParallelBranchCompleted, Route, Snapshot, Status};
use pleach_core::ids::{ContextId, RepoName, RepoPath};
use pleach_core::plan::pipeline::HandlerKind;
use pleach_core::text::{counted, named};

use super::agent_output::AgentOutput;
use super::live::{Doing, Live};
use super::node::{Workers, kind};
use super::session::{files, short};
use super::stream::Stream;
use super::style::{BAD, BEGINS, FAINT, GOOD, paint};
use super::{duration, question, spent};
use crate::globals::Globals;
use crate::say;

/// What is to be known of a run to show it.
#[derive(Debug)]
pub struct ShownRun {
    root: ContextId,
    workers: Workers,
    /// It works in several repositories.
    several: bool,
}

impl ShownRun {
    /// The run of a session.
    pub fn of(session: &Session) -> Self {
        let workers = Workers::of(session.pipeline(), session.agents());
        Self { root: session.run().root.clone(), workers, several: session.started().has_several_repos() }
    }
}

/// Shows the events of a run, or of several.
#[derive(Debug)]
pub struct Progress {
    json: Option<Stream>,
    quiet: bool,
    verbose: bool,
    spoken: AgentOutput,
    live: Live,
    /// The workers of each run, by its root.
    workers: BTreeMap<ContextId, Workers>,
    /// Lines are told with the names of their runs.
    several_runs: bool,
    /// The cost of each context's running node so far.
    nodes: BTreeMap<ContextId, Amount>,
    /// The reason of each context's last failure, as far as it was shown.
    reasons: BTreeMap<ContextId, String>,
    /// How many branches have failed.
    failed_branches: usize,
    /// The context of the event that is shown.
    context: ContextId,
    /// The runs that have ended or paused: what is pushed now is the result.
    ended: BTreeSet<ContextId>,
    /// The line of each repository's last push, once its run has ended.
    pushed: BTreeMap<(ContextId, RepoName), String>,
    /// Commits are told with the names of their repositories.
    several: bool,
}

impl Progress {
    /// Shows a session the way the global options ask for.
    pub fn new(globals: &Globals, session: &Session) -> Self {
        let mut progress = Self::with(globals, session.spent());
        progress.add(&ShownRun::of(session));
        progress
    }

    /// Shows several runs of a session.
    pub fn of_runs(globals: &Globals) -> Self {
        Self { several_runs: true, ..Self::with(globals, Amount::default()) }
    }

    fn with(globals: &Globals, spent: Amount) -> Self {
        let quiet = globals.json || globals.verbosity < 0;
        Self {
            json: globals.json.then(Stream::default),
            quiet,
            verbose: globals.verbosity > 0,
            spoken: AgentOutput::new(globals),
            live: Live::new(!quiet && std::io::stderr().is_terminal(), spent),
            workers: BTreeMap::new(),
            several_runs: false,
            nodes: BTreeMap::new(),
            reasons: BTreeMap::new(),
            failed_branches: 0,
            context: ContextId::main(),
            ended: BTreeSet::new(),
            pushed: BTreeMap::new(),
            several: false,
        }
    }

    /// Takes a run, before its events.
    pub fn add(&mut self, run: &ShownRun) {
        self.workers.insert(run.root.clone(), run.workers.clone());
        self.several = run.several;
    }

    /// Tells how runs compare, where events are told.
    pub fn compared(&mut self, comparison: &Comparison) {
        self.json.iter_mut().for_each(|stream| stream.tell("Comparison", comparison));
    }

    /// Takes one event.
    pub fn event(&mut self, notification: &Notification) {
        let event = &notification.recorded.event;
        self.json.iter_mut().for_each(|stream| stream.print(notification));
        self.context = notification.by.as_ref().map_or_else(ContextId::main, |(_, context)| context.clone());
        self.spoken.hear(event, &self.branch());
        if !self.quiet {
            self.show(event);
        }
        match event {
            Event::ParallelBranchCompleted(branch) if has_failed(branch) => self.failed_branches += 1,
            Event::NodeExecution(node) => node.warnings.iter().for_each(say::warn),
            Event::Warning(warning) => say::warn(warning),
            // What follows from a limit is told by the end of the run, unless nothing does.
            Event::BudgetExceeded(over) if over.action == OnExceeded::Warn.as_str() => {
                warning!(BudgetReached, "{}", over.text)
            }
            Event::PriceUnknown(unknown) => warning!(PriceUnknown, "{}", unknown.text),
            _ => {}
        }
    }

    fn show(&mut self, event: &Event) {
        self.live.draw();
        match event {
            Event::NodeStarted(node) => {
                self.nodes.insert(self.context.clone(), Amount::default());
                let again = if node.attempt > 1 { format!(", attempt {}", node.attempt) } else { String::new() };
                let visit = if node.visit > 1 { format!(", visit {}", node.visit) } else { String::new() };
                let handler = HandlerKind::from_type(&node.handler);
                let workers = self.workers.get(&self.context.run_root());
                let by = workers.map_or_else(|| kind(&handler), |workers| workers.of_node(&node.node_id, &handler));
                let by = by.to_owned();
                // What only passes on is told by its end, and the live line shows what works.
                let passes = matches!(handler, HandlerKind::Start | HandlerKind::Exit | HandlerKind::Conditional);
                if !passes && (self.verbose || !self.live.is_on()) {
                    self.line(format!("{} {} ({by}{visit}{again})", paint(BEGINS, "▸"), node.node_id));
                }
                let (context, id) = (self.context.to_string(), node.node_id.to_string());
                self.live.set(|now| now.start(&context, Doing { id, step: by, attempt: node.attempt }));
            }
            Event::AgentTurn(turn) => {
                let amount = Amount::of_turn(turn);
                *self.nodes.entry(self.context.clone()).or_default() += amount;
                self.live.set(|now| now.spent += amount);
                let what = turn.commit_message.as_deref().and_then(|text| text.lines().next());
                self.turn(&turn.turn.to_string(), what, &files(&turn.files_written), turn.git_sha.as_ref());
            }
            Event::ToolExecution(tool) => {
                self.turn(&tool.turn.to_string(), Some(&tool.exit), &files(&tool.files_written), tool.git_sha.as_ref());
            }
            Event::HumanInteraction(answer) => {
                self.line(question::answered(answer));
            }
            Event::NodeExecution(node) => self.ended(node),
            Event::ParallelStarted(parallel) => {
                let names: Vec<&str> = parallel.branches.iter().map(|branch| branch.context.as_str()).collect();
                self.line(format!("{} {} ({})", paint(BEGINS, "⑂"), parallel.node_id, names.join(", ")));
            }
            Event::ParallelBranchCompleted(branch) => {
                self.live.set(|now| now.end(branch.context.as_str()));
                if branch.stopped {
                    self.line(format!("{} branch {} stopped", paint(FAINT, "■"), branch.context));
                } else if has_failed(branch) {
                    self.branch_failed(branch);
                }
            }
            Event::WorktreeMergeConflict(conflict) => {
                let paths: Vec<&RepoPath> = conflict.paths.iter().map(|path| &path.path).collect();
                self.line(format!(
                    "{} conflict with branch {} in {}",
                    paint(BAD, "✗"),
                    conflict.context,
                    named(&paths)
                ));
            }
            Event::PipelineCompleted(_) | Event::PipelineFailed(_) | Event::PipelinePaused(_) => {
                let root = self.context.run_root();
                self.live.set(|now| now.end(root.as_str()));
                self.ended.insert(root);
            }
            Event::BranchPushed(pushed) => {
                let text = format!("{} pushed {} to {}", paint(GOOD, "↑"), pushed.repo, pushed.remote);
                let root = self.context.run_root();
                if self.ended.contains(&root) {
                    // The last one is told at the end.
                    self.pushed.insert((root, pushed.repo.clone()), text);
                } else if self.verbose {
                    self.line(text);
                }
            }
            Event::PushFailed(failed) => {
                self.pushed.remove(&(self.context.run_root(), failed.repo.clone()));
            }
            _ => {}
        }
    }

    fn turn(&mut self, turn: &str, what: Option<&str>, files: &[String], commit: Option<&Snapshot>) {
        let commit = commit.map(|commits| format!(" {}", short(commits, self.several)));
        let wrote = match files {
            [] => String::new(),
            [one] => format!(" [{one}]"),
            [first, rest @ ..] => format!(" [{first} +{}]", rest.len()),
        };
        if commit.is_some() || self.verbose {
            let (turn, commit) = (paint(FAINT, turn), paint(FAINT, &commit.unwrap_or_default()));
            self.line(format!("  {turn}{commit} {}{wrote}", what.unwrap_or("read only")));
        }
    }

    fn ended(&mut self, node: &NodeExecution) {
        let took = duration(Duration::from_millis(node.duration_ms));
        // What the run fails with is told by its end. A branch may fail and the run go on.
        let is_in_branch = self.context != self.context.run_root();
        let is_told =
            |why: &&str| is_in_branch || !matches!(&node.route, Route::Fail { reason } if reason.contains(why));
        let why = node.outcome.failure_reason.as_deref().filter(is_told);
        why.map(|why| self.reasons.insert(self.context.clone(), why.to_owned()));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let next = match &node.route {
            Route::Edge { to } => format!(" → {to}"),
            Route::FailureTarget { to } | Route::Restart { to } => format!(" ↺ {to}"),
            Route::GateRetry { gate, to } => format!(" ↺ {to} (gate {gate})"),
            Route::Retry => format!(" ↺ attempt {}", node.attempt + 1),
            Route::Join { to } => format!(" ⇥ {to}"),
            Route::Complete | Route::Fail { .. } => String::new(),
        };
        let mark = if node.outcome.status.is_success() { paint(GOOD, "✓") } else { paint(BAD, "✗") };
        let status = if node.outcome.status.is_success() { String::new() } else { format!(" {}", node.outcome.status) };
        let used = self.nodes.remove(&self.context).unwrap_or_default();
        let spent = match used.turns {
            0 => String::new(),
            turns => format!(", {}, {}", counted(turns, "turn"), spent(&used)),
        };
        self.line(format!("{mark} {}{status} {took}{spent}{why}{next}", node.node_id));
    }

    /// A failed branch, where its last node has not said why.
    fn branch_failed(&self, branch: &ParallelBranchCompleted) {
        let why = branch.outcome.failure_reason.as_deref().unwrap_or("no reason was given");
        if self.reasons.get(&branch.context).is_none_or(|shown| !why.contains(shown.as_str())) {
            self.line(format!("{} branch {} failed: {why}", paint(BAD, "✗"), branch.context));
        }
    }

    /// How many branches have failed so far.
    pub fn failed_branches(&self) -> usize {
        self.failed_branches
    }

    /// A line that stays. What a branch does is named after it, and so is what one of several runs does.
    fn line(&self, text: String) {
        say!("{}{text}", self.branch());
    }

    /// What lines of a branch begin with.
    fn branch(&self) -> String {
        if !self.several_runs && self.context == self.context.run_root() {
            String::new()
        } else {
            format!("{} ", paint(FAINT, &format!("{} │", self.context)))
        }
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        self.live.finish();
        std::mem::take(&mut self.pushed).into_values().for_each(|text| say!("{text}"));
    }
}

fn has_failed(branch: &ParallelBranchCompleted) -> bool {
    !branch.stopped && branch.outcome.status == Status::Fail
}
