//! The progress of a run over a tree.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use engine::tree::TreePlan;
use pleach_core::budget::Amount;
use pleach_core::config::OnExceeded;
use pleach_core::event::{Event, MergeResolution, Notification, StepFinished, TaskLanded, TaskStarted};
use pleach_core::ids::{SessionId, TaskId};
use pleach_core::progress::Progress;
use pleach_core::step::{TreeName, reason_of, shown_name};
use pleach_core::text::{counted, listed};

use crate::globals::Globals;
use crate::render::agent_output::AgentOutput;
use crate::render::live::{Doing, Live};
use crate::render::question;
use crate::render::session::plain;
use crate::render::stream::Stream;
use crate::render::style::{BAD, BEGINS, FAINT, GOOD, paint};
use crate::render::tree::{renamed, short_ids};
use crate::say;

/// Shows a run over a tree.
#[derive(Debug)]
pub struct TreeProgress {
    json: Option<Stream>,
    quiet: bool,
    verbose: bool,
    spoken: AgentOutput,
    live: Live,
    /// The tasks that are worked, by session, with the attempt in its budget.
    working: BTreeMap<SessionId, (TaskId, u32)>,
    all: usize,
    done: usize,
}

impl TreeProgress {
    /// Shows a run the way the global options ask for.
    pub fn new(globals: &Globals, plan: &TreePlan) -> Self {
        let quiet = globals.json || globals.verbosity < 0;
        let all = plan.tree.order().len();
        let live = Live::of_tasks(!quiet && std::io::stderr().is_terminal(), all);
        Self {
            json: globals.json.then(Stream::default),
            quiet,
            verbose: globals.verbosity > 0,
            spoken: AgentOutput::new(globals),
            live,
            working: BTreeMap::new(),
            all,
            done: 0,
        }
    }

    /// Says what is worked, and where; and what has changed in the tree since it was last worked.
    pub fn begin(&mut self, plan: &TreePlan, progress: &Progress, changes: &[String]) {
        self.count(progress.done(&plan.tree));
        let (all, on) = (counted(self.all as u64, "task"), &plan.target);
        self.line(match &plan.name {
            TreeName::File(path) if plan.repos.is_some() => {
                let on = plan.repos.iter().flat_map(|repos| repos.used(&plan.tree));
                let on = listed(on.map(|tree_repo| format!("`{}` of {}", tree_repo.target, tree_repo.name)), 10);
                format!("working `{path}` on branches {on}: {} of {all} done", self.done)
            }
            TreeName::File(path) => format!("working `{path}` on branch `{on}`: {} of {all} done", self.done),
            TreeName::Tasks => format!("working {all} on branch `{on}`"),
        });
        if let Some(warning) = short_ids(progress, plan.target.as_str()) {
            self.line(warning);
        }
        if !changes.is_empty() {
            warning!(TreeEdited, "{} was edited since the last run:", plan.name);
            changes.iter().for_each(|change| say!("  {change}"));
        }
        for (node, then) in progress.renamed(&plan.tree) {
            warning!(TaskRenamed, "{}", renamed(node, then));
        }
        let left_out = plan.tree.left_out();
        // What ad-hoc tasks depend on is not meant to be worked with them.
        if !left_out.is_empty() && plan.name != TreeName::Tasks {
            warning!(TaskLeftOut, "never worked, because not in execution_order: {}", listed(left_out, 10));
        }
        let idle = plan.tree.with_idle_tests();
        if !idle.is_empty() {
            let what = "only `integration` and `e2e` tests of a phase run; its `unit` tests never do";
            warning!(IdleTests, "{what}: {}", listed(idle, 10));
        }
        let idle = plan.tree.with_idle_pipelines();
        if !idle.is_empty() {
            let what = "only tasks have a `pipeline`; that of a phase or a group is ignored";
            warning!(IdlePipeline, "{what}: {}", listed(idle, 10));
        }
    }

    /// Takes in how many tasks are done.
    fn count(&mut self, done: usize) {
        self.done = done;
        self.live.count(self.done, self.all);
    }

    /// Takes one event of a run over a plan.
    pub fn event(&mut self, plan: &TreePlan, notification: &Notification) {
        self.live.draw();
        let event = &notification.recorded.event;
        self.json.iter_mut().for_each(|stream| stream.print(notification));
        self.spoken.hear(event, &self.speaker(notification));
        let session = notification.by.as_ref().map(|(session, _)| session);
        let task = session.and_then(|session| self.working.get(session)).map(|(task, _)| task.to_string());
        let task = task.unwrap_or_default();
        match event {
            Event::RunStarted(run) => self.detail(format!("run started ({})", run.commit.short())),
            Event::TaskStarted(started) => self.began(plan, started),
            Event::TaskLanded(task) => {
                self.count(task.done);
                self.live.set(|now| now.end(task.task.as_str()));
                self.line(format!("  {} ({})", landed(plan, task), task.commit.short()));
            }
            Event::PhaseMerged(phase) => {
                self.count(phase.done);
                self.line(format!("  {} was merged into {} ({})", phase.task, phase.target, phase.commit.short()));
            }
            Event::Warning(warning) => say::warn(warning),
            Event::HumanInteraction(answer) => {
                let answer = question::answered(answer);
                self.line(format!("  {task} {}", answer.trim_start()));
            }
            Event::AttemptStarted(attempt) => {
                let working = session.and_then(|session| self.working.get_mut(session));
                working.into_iter().for_each(|(_, number)| *number = attempt.number);
                self.live.set(|now| now.update(&task, |doing| doing.attempt = attempt.number));
            }
            Event::MergeResolution(resolution) => self.resolution(resolution),
            Event::StepFinished(step) => self.line(self.step(step, session)),
            Event::NodeStarted(node) if !matches!(node.handler.as_str(), "start" | "exit") => {
                self.live.set(|now| now.update(&task, |doing| doing.step = node.node_id.to_string()));
            }
            Event::AgentTurn(turn) => {
                self.live.set(|now| now.spent += Amount::of_turn(turn));
                let what = turn.commit_message.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
                self.detail(format!("    {} {what}", turn.turn));
            }
            Event::NodeExecution(node) => node.warnings.iter().for_each(say::warn),
            Event::BudgetExceeded(over) if over.action == OnExceeded::Warn.as_str() => {
                warning!(BudgetReached, "{}", over.text)
            }
            Event::PriceUnknown(unknown) => warning!(PriceUnknown, "{}", unknown.text),
            _ => {}
        }
    }

    fn began(&mut self, plan: &TreePlan, started: &TaskStarted) {
        let TaskStarted { task, session, number, of, .. } = started;
        let (id, attempt) = (task.to_string(), number.unwrap_or(1));
        // The session of a task takes the place of the one before it.
        self.working.retain(|_, (other, _)| other != task);
        self.working.insert(session.clone(), (task.clone(), attempt));
        self.live.set(|now| now.start(&id, Doing { id: id.clone(), step: String::new(), attempt }));
        let attempt = number.zip(*of).map(|(number, most)| format!(", attempt {number} of {most}")).unwrap_or_default();
        let how = if started.resumed { "resumes" } else { "begins" };
        let (mark, name) = (paint(BEGINS, "▸"), shown_name(&started.title));
        let where_to = started.repo.as_ref().filter(|_| plan.repos.is_some());
        let how = where_to.map_or(how.to_owned(), |repo| format!("{how} in {repo}"));
        self.line(format!("{mark} {task} {name} {how} (session {session}{attempt})"));
    }

    /// An agent resolves the conflict of a task that is to land, or has come to an end with it.
    fn resolution(&mut self, resolution: &MergeResolution) {
        let name = resolution.task.as_ref().map(ToString::to_string);
        let name = name.or_else(|| Some(resolution.branch.as_ref()?.to_string()));
        let name = name.unwrap_or_else(|| resolution.entry.to_string());
        let step = resolution.resolved.map_or_else(|| resolution.text.clone(), |_| "merge".to_owned());
        self.live.set(|now| now.update(&name, |doing| doing.step = step));
        if !self.live.is_on() || resolution.resolved.is_some() {
            self.line(format!("  {name} · {}", resolution.text));
        }
    }

    /// A step in one line: of which task, what came of it, in which attempt, in which commit, and why where it failed.
    fn step(&self, step: &StepFinished, session: Option<&SessionId>) -> String {
        let attempt = session.and_then(|session| self.working.get(session)).map_or(1, |(_, attempt)| *attempt);
        let attempt = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let why = reason_of(step).map(|why| format!(": {}", plain(&why))).unwrap_or_default();
        let style = if step.failed_attempt() || step.status == "failed" { BAD } else { GOOD };
        let status = paint(style, &step.status);
        format!("  {} {status}{attempt} ({}){why}", step.task, step.git_sha.short())
    }

    /// What lines of an agent begin with, where several tasks are worked at once.
    fn speaker(&self, notification: &Notification) -> String {
        let task = notification.by.as_ref().and_then(|(session, _)| self.working.get(session)).map(|(task, _)| task);
        match task.filter(|_| self.working.len() > 1) {
            Some(task) => format!("{} ", paint(FAINT, &format!("{task} │"))),
            None => String::new(),
        }
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        self.live.finish();
    }

    fn detail(&self, text: String) {
        if self.verbose {
            self.line(text);
        }
    }

    fn line(&self, text: String) {
        if !self.quiet {
            say!("{text}");
        }
    }
}

/// Where what came of a task is now. Of one that was given up its steps alone are there, and of a phase the result of its tests.
fn landed(plan: &TreePlan, landed: &TaskLanded) -> String {
    let task = &landed.task;
    let target = match plan.repos {
        Some(_) => format!("{} of {}", landed.target, landed.repo),
        None => landed.target.to_string(),
    };
    match (plan.tree.is_leaf(task), landed.status.as_deref()) {
        (false, _) => format!("the test result of {task} is on {target}"),
        (true, Some("failed")) => format!("the steps of {task}, without its code, are on {target}"),
        (true, _) => format!("{task} landed on {target}"),
    }
}
