//! How a run over a tree is shown while it goes on, and what is said of it at its end.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pleach::config::OnExceeded;
use pleach::engine::Pause;
use pleach::engine::tree::{Note, Refusal, TreeEnded, TreePlan};
use pleach::event::{Event, Recorded};
use pleach::git::Repo;
use pleach::ids::{BranchName, SessionId, TaskId};
use pleach::progress::{Progress, Status};
use pleach::schedule::{Blocked, Why};
use pleach::step::shown_name;
use pleach::text::{counted, listed};
use pleach::workspace::{branch_ref, phase_branch, task_branch};
use serde_json::json;

use crate::again::{about, addressed, again, answering, retrying, retrying_task};
use crate::commands::Globals;
use crate::exit::Failure;
use crate::render::Out;
use crate::render::tree::{done, renamed, stalled};
use crate::say;

/// Shows a run over a tree.
#[derive(Debug)]
pub struct Shown {
    json: bool,
    quiet: bool,
    verbose: bool,
    live: bool,
    begun: Instant,
    bar: Option<ProgressBar>,
    /// The task that was begun last.
    task: Option<TaskId>,
    seq: u64,
    all: usize,
    done: usize,
}

impl Shown {
    /// Shows a run the way the global options ask for.
    pub fn new(globals: &Globals, plan: &TreePlan) -> Self {
        let quiet = globals.json || globals.verbosity < 0;
        let live = !quiet && std::io::stderr().is_terminal();
        let mut shown = Self {
            json: globals.json,
            quiet,
            verbose: globals.verbosity > 0,
            live,
            begun: Instant::now(),
            bar: None,
            task: None,
            seq: 0,
            all: plan.tree.order().len(),
            done: 0,
        };
        shown.draw();
        shown
    }

    /// Draws the live line, unless it is there already: a question puts it away.
    fn draw(&mut self) {
        if self.live && self.bar.as_ref().is_none_or(ProgressBar::is_finished) {
            self.bar = say::live(|| bar(self.all, self.done, self.begun));
        }
    }

    /// Says what is worked, and where; and what has changed in the tree since it was last worked.
    pub fn begin(&mut self, plan: &TreePlan, progress: &Progress, changes: &[String]) {
        self.count(plan, progress);
        self.line(format!(
            "working `{}` on branch `{}`: {} of {} done",
            plan.path,
            plan.target,
            self.done,
            counted(self.all as u64, "task")
        ));
        self.say_edited(plan, changes, "since it was last worked");
        for (node, then) in progress.renamed(&plan.tree) {
            self.warn(&renamed(node, then));
        }
        let left_out = plan.tree.left_out();
        if !left_out.is_empty() {
            self.warn(&format!("execution_order leaves out, so never worked: {}", listed(left_out, 10)));
        }
        let idle = plan.tree.with_idle_tests();
        if !idle.is_empty() {
            let what = "only `integration` and `e2e` tests of a phase run; its `unit` tests never do";
            self.warn(&format!("{what}: {}", listed(idle, 10)));
        }
        let idle = plan.tree.with_idle_pipelines();
        if !idle.is_empty() {
            let what = "a `pipeline` works a task; that of a phase or a group is not read";
            self.warn(&format!("{what}: {}", listed(idle, 10)));
        }
    }

    /// Says what was changed in the tree while it is worked.
    pub fn edited(&mut self, plan: &TreePlan, newer: &TreePlan, progress: &Progress) {
        self.say_edited(newer, &plan.tree.difference(&newer.tree), "and is gone on with as it is now");
        self.count(newer, progress);
    }

    /// Counts what there is and what is done of it.
    fn count(&mut self, plan: &TreePlan, progress: &Progress) {
        (self.all, self.done) = (plan.tree.order().len(), done(progress, &plan.tree));
        if let Some(bar) = &self.bar {
            bar.set_length(self.all as u64);
            bar.set_position(self.done as u64);
        }
    }

    fn say_edited(&self, plan: &TreePlan, changes: &[String], when: &str) {
        if !changes.is_empty() {
            self.warn(&format!("`{}` was edited {when}:", plan.path));
            changes.iter().for_each(|change| say!("  {change}"));
        }
    }

    /// Takes one note of a run over a plan.
    pub fn note(&mut self, plan: &TreePlan, note: Note<'_>) {
        self.draw();
        match note {
            Note::RunStarted(commit) => self.detail(format!("run started ({})", commit.short())),
            Note::Began { task, name, attempt, session, resumed } => {
                let attempt = attempt.map(|at| format!(", attempt {} of {}", at.number, at.of)).unwrap_or_default();
                let how = if resumed { "goes on" } else { "begins" };
                let name = shown_name(name);
                self.task = Some(task.clone());
                self.now(&format!("{task} {name}"));
                self.line(format!("▸ {task} {name} {how} (session {session}{attempt})"));
            }
            Note::Event { session, event } => self.event(session, event),
            Note::Landed { task, commit, on, progress } => {
                if self.live {
                    self.count(plan, progress);
                }
                self.line(format!("  {} ({})", landed(plan, progress, task, on), commit.short()));
            }
            Note::Merged { phase, commit, on, progress } => {
                if self.live {
                    self.count(plan, progress);
                }
                self.line(format!("  {phase} was merged into {on} ({})", commit.short()));
            }
            Note::Edited(changes) => self.say_edited(plan, &changes, "and counts so from the next task on"),
            Note::Said(text) => self.warn(&text),
        }
    }

    fn event(&mut self, session: &SessionId, recorded: &Recorded) {
        if self.json {
            self.seq += 1;
            let mut event = recorded.to_json();
            let line = json!({
                "v": 1, "seq": self.seq, "at": event["at"], "session": session, "context": "main",
                "type": event["type"], "data": event["data"].take(),
            });
            // A reader that stops reading does not stop the run: its record is what counts.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        match &recorded.event {
            Event::HumanInteraction(answer) => {
                self.line(format!("  {}: {} ({})", answer.question, answer.answer, answer.source));
            }
            Event::StepFinished(step) => self.line(format!("  {} ({})", step.subject_alone(), step.git_sha.short())),
            Event::NodeStarted(node) if !matches!(node.handler.as_str(), "start" | "exit") => {
                self.now(node.node_id.as_str());
            }
            Event::AgentTurn(turn) => {
                let what = turn.commit_message.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
                self.detail(format!("    {} {what}", turn.turn));
            }
            Event::NodeExecution(node) => node.warnings.iter().for_each(|warning| self.warn(warning)),
            Event::BudgetExceeded(over) if over.action == OnExceeded::Warn.as_str() => self.warn(&over.text),
            Event::PriceUnknown(unknown) => self.warn(&unknown.text),
            _ => {}
        }
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Says how the run in a directory ended, and how to go on.
    pub fn ended(
        &self,
        globals: &Globals,
        (dir, repo): (&Path, &Repo),
        plan: &TreePlan,
        ended: &TreeEnded,
    ) -> Result<(), Failure> {
        if self.json {
            return Out::new().json(&ended_json(globals, dir, plan, ended));
        }
        let mut out = Out::new();
        let about = |command: &str| about(globals, dir, command, Some(&plan.file));
        match ended {
            TreeEnded::Done => out.line(format!("done: every task of `{}` is complete", plan.path)),
            TreeEnded::TaskDone(task) => out.line(format!("done: {task}")),
            TreeEnded::Failed { task, reason } => {
                out.line(format!("failed: {task}: {reason}"))?;
                let branch = task_branch(&plan.branch_prefix, &plan.target, task).ok();
                if let Some(branch) = branch.filter(|branch| matches!(repo.reference(&branch_ref(branch)), Ok(Some(_))))
                {
                    out.line(format!("code:    what it wrote is on `{branch}`"))?;
                }
                out.line(format!("look:    {}", about(&format!("inspect {task}"))))?;
                out.line(format!("again:   {}", retrying(globals)))
            }
            TreeEnded::CalledOff(task) => {
                out.line(format!("cancelled: {task}: its session was called off"))?;
                out.line(format!("again:   {}", again(globals)))
            }
            TreeEnded::GateRed { gate, on_merge } => {
                let target = &plan.target;
                let phase = phase_branch(&plan.branch_prefix, target, plan.tree.phase_of(gate)).ok();
                let phase = phase.filter(|_| *on_merge);
                let (on, place) = match &phase {
                    Some(phase) => (format!("what the merge of `{phase}` into `{target}` would be"), phase),
                    None => (format!("`{target}`"), target),
                };
                out.line(format!("failed: the tests of {gate} fail on {on}"))?;
                out.line(format!("look:    {}", about(&format!("inspect {gate}"))))?;
                let reset = about("reset TASK");
                out.line(format!("go on:   mend it on `{place}` and run again, or reopen a task with `{reset}`"))
            }
            TreeEnded::Stalled(blocked) => {
                out.line(format!("stalled: {}", stalled(plan.limits.only.as_ref())))?;
                blocked.iter().try_for_each(|blocked| out.line(format!("  {blocked}")))?;
                ways(globals, dir, plan, blocked).into_iter().try_for_each(|way| out.line(way))
            }
            TreeEnded::OutOfBudget { why } => out.line(format!("stopped: {why}")),
            TreeEnded::Paused(Pause { question: Some(question), .. }) => {
                let task = self.task.as_ref().map(|task| format!("{task} ")).unwrap_or_default();
                let gate = &question.node;
                out.line(format!("paused: {task}waits for an answer at `{gate}`"))?;
                out.line(format!("`{gate}` asks: {} ({})", question.text, question.choices_in_words()))?;
                out.line(format!("answer:  {}", answering(globals, gate)))
            }
            TreeEnded::Paused(Pause { why: Some(why), .. }) => out.line(format!("paused: {why}")),
            TreeEnded::Paused(_) => {
                out.line("paused: nothing recorded is lost")?;
                out.line(format!("go on:   {}", again(globals)))
            }
            TreeEnded::Refused(refusal) => {
                let (task, branch) = (&refusal.task, &refusal.branch);
                out.line(match refusal.finished {
                    true => format!("waiting: {task} is finished on `{branch}` and could not land"),
                    false => format!("waiting: {task} could not begin on `{branch}`"),
                })?;
                out.line(addressed(globals, dir, &plan.file, &refusal.why))?;
                match first(globals, dir, refusal) {
                    Some(command) => out.line(format!("first:   {command}")),
                    None => Ok(()),
                }
            }
            TreeEnded::Edited | TreeEnded::Unasked => Ok(()),
        }
    }

    fn now(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn detail(&self, text: String) {
        if self.verbose {
            self.line(text);
        }
    }

    fn warn(&self, text: &str) {
        say!("warning: {text}");
    }

    fn line(&self, text: String) {
        if !self.quiet {
            say!("{text}");
        }
    }
}

/// A line that shows how much is done and what goes on, with the time since `begun`.
fn bar(all: usize, done: usize, begun: Instant) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}");
    let bar = ProgressBar::new(all as u64).with_position(done as u64).with_elapsed(begun.elapsed());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The command that goes on with another tree, where that comes first.
fn first(globals: &Globals, dir: &Path, refusal: &Refusal) -> Option<String> {
    let first = refusal.first.as_ref()?;
    let command = if first.gathers { "gardener --isolation phase" } else { "gardener" };
    Some(about(globals, dir, command, Some(&first.file)))
}

/// Where what came of a task is now. Of one that was given up its steps alone are there, and of a phase what its tests say.
fn landed(plan: &TreePlan, progress: &Progress, task: &TaskId, on: &BranchName) -> String {
    match (plan.tree.is_leaf(task), progress.task(task).status) {
        (false, _) => format!("what the tests of {task} say is on {on}"),
        (true, Status::Failed) => format!("the steps of {task}, without its code, are on {on}"),
        (true, _) => format!("{task} landed on {on}"),
    }
}

/// How to go on where nothing can start.
fn ways(globals: &Globals, dir: &Path, plan: &TreePlan, blocked: &[Blocked]) -> Vec<String> {
    let about = |command: String| about(globals, dir, &command, Some(&plan.file));
    let first = |why: fn(&Why) -> bool| {
        let mut waits = blocked.iter().flat_map(|blocked| &blocked.waits_for);
        waits.find(|wait| why(&wait.why)).map(|wait| wait.on.clone())
    };
    if let Some(failed) = first(|why| *why == Why::Failed) {
        let is_task = plan.tree.is_leaf(&failed);
        let again = match plan.limits.only {
            Some(_) if is_task => retrying_task(globals, &failed),
            Some(_) => about("gardener --retry-failed".to_owned()),
            None => retrying(globals),
        };
        let look = format!("look:    {}", about(format!("inspect {failed}")));
        let without = is_task.then(|| format!("without: {}", about(format!("skip {failed}"))));
        return [look, format!("again:   {again}")].into_iter().chain(without).collect();
    }
    if let Some(red) = first(|why| *why == Why::GateRed) {
        return vec![format!("look:    {}", about(format!("inspect {red}")))];
    }
    if let Some(left_out) = first(|why| *why == Why::LeftOut) {
        return vec![format!("go on:   put {left_out} into `execution_order` of `{}` and run again", plan.path)];
    }
    // What else one task waits for can be worked.
    plan.limits.only.iter().map(|_| format!("first:   {}", about("gardener".to_owned()))).collect()
}

fn ended_json(globals: &Globals, dir: &Path, plan: &TreePlan, ended: &TreeEnded) -> serde_json::Value {
    match ended {
        TreeEnded::Done => json!({"ended": "done"}),
        TreeEnded::TaskDone(task) => json!({"ended": "done", "task": task}),
        TreeEnded::Failed { task, reason } => json!({"ended": "failed", "task": task, "reason": reason}),
        TreeEnded::CalledOff(task) => json!({"ended": "cancelled", "task": task}),
        TreeEnded::GateRed { gate, .. } => json!({"ended": "gate_red", "task": gate}),
        TreeEnded::Stalled(blocked) => {
            let blocked: Vec<String> = blocked.iter().map(ToString::to_string).collect();
            json!({"ended": "stalled", "blocked": blocked})
        }
        TreeEnded::OutOfBudget { why } => json!({"ended": "out_of_budget", "reason": why}),
        TreeEnded::Paused(Pause { question: Some(question), .. }) => {
            let choices: Vec<&str> = question.choices.iter().map(|choice| choice.label.as_str()).collect();
            json!({
                "ended": "paused", "gate": question.node, "question": question.text, "choices": choices,
                "answer": answering(globals, &question.node),
            })
        }
        TreeEnded::Paused(Pause { why: Some(why), .. }) => json!({"ended": "paused", "reason": why}),
        TreeEnded::Paused(_) | TreeEnded::Edited | TreeEnded::Unasked => json!({"ended": "paused"}),
        TreeEnded::Refused(refusal @ Refusal { task, branch, finished, why, .. }) => {
            let why = addressed(globals, dir, &plan.file, why);
            let mut json =
                json!({"ended": "refused", "task": task, "branch": branch, "finished": finished, "reason": why});
            if let Some(command) = first(globals, dir, refusal) {
                json["first"] = command.into();
            }
            json
        }
    }
}
