//! `pleach inspect`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine::tree::{self, logs};
use engine::view::{Summary, View};
use git::Repo;
use git::workspace::{branch_ref, task_branch};
use pleach_core::ids::TaskId;
use pleach_core::progress::{OpenBranch, StepCommit, StepPlace, TaskState, TaskStatus};
use pleach_core::state::Phase;
use pleach_core::step::{Feedback, FeedbackKind, shown_name};
use pleach_core::text::{counted, first_line};
use pleach_core::trailer::CommitMessage;
use serde_json::{Value, json};

use crate::code::Code;
use crate::commands::logs::{gone, shown_by};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_tree};
use crate::render::session::{fields, plain};
use crate::render::tree::{CUT_OFF, RunningTask, fitted, gate, running, standing, task_json};
use crate::render::{Out, Table, duration, width};
use crate::tree::overview::{TreeContext, TreeWithProgress};

/// The most tasks of a phase that are named.
const MOST: usize = 20;

/// Show everything about a task: its steps, output and feedback.
///
/// For a phase or a group, its tasks that are not done, and the runs of its own tests.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The task, or a phase.
    #[arg(value_name = "TASK")]
    task: TaskId,
    /// The tree, if several have the task.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
}

pub fn run(globals: &Globals, args: InspectArgs) -> Result<Exit, Failure> {
    let context = TreeContext::for_task(globals, Some(&args.task))?;
    let tree = context.tree_of(args.tree.as_deref(), &args.task)?;
    show(globals, &context, &tree, &args.task)?;
    Ok(Exit::Done)
}

/// Shows a task of a tree.
pub fn show(globals: &Globals, context: &TreeContext, tree: &TreeWithProgress, task: &TaskId) -> Result<(), Failure> {
    let there = context.at_task(tree, task);
    let (context, tree) = there.as_ref().map_or((context, tree), |(context, tree)| (context, tree));
    let seen = TaskView::of(context, tree, task)?;
    let mut out = Out::new();
    if globals.json {
        return out.json(&seen.json(context)?);
    }
    out.line(fields(&seen.fields(context)))?;
    let text = seen.text(context)?;
    if text.is_empty() { Ok(()) } else { out.line(text.trim_end()) }
}

/// A task and all that is known of it.
struct TaskView<'a> {
    tree: &'a TreeWithProgress,
    task: &'a TaskId,
    state: &'a TaskState,
    /// Its branch, where there is one.
    branch: Option<OpenBranch>,
    feedback: Vec<Feedback>,
    /// Where it is being worked.
    running: Option<RunningTask>,
    logs: Vec<engine::tree::TaskLog>,
}

impl<'a> TaskView<'a> {
    fn of(context: &TreeContext, tree: &'a TreeWithProgress, task: &'a TaskId) -> Result<Self, Failure> {
        let repo = &context.place.repo;
        let state = tree.progress.task(task);
        let branch = own_branch(context, tree, task)?;
        let logs = logs(repo, state).map_err(|error| of_git(&error))?;
        let feedback =
            if tree.node(task).is_leaf() { feedback(context, tree, state) } else { gate_feedback(context, tree, task) };
        let (open, _) = View::open(repo).map_err(|error| of_engine(&error))?;
        let sessions = open.iter().filter_map(|(_, summary)| summary.as_ref().ok());
        let running = running(sessions, &context.target, &tree.file.name).remove(task);
        Ok(Self { tree, task, state, branch, feedback, running, logs })
    }

    fn fields(&self, context: &TreeContext) -> Vec<(&'static str, String)> {
        let node = self.tree.node(self.task);
        let mut fields = vec![("task", format!("{} {}", node.id, shown_name(&node.name)))];
        fields.push(("tree", format!("{} on {}", self.tree.file.name.for_task(self.task), context.target)));
        fields.extend(self.tree.repo_of(self.task).map(|repo| ("repo", repo.to_string())));
        if let Some(parent) = &node.parent {
            fields.push(("part of", parent.to_string()));
        }
        let waits = self.tree.file.tree.dependencies(self.task);
        if !waits.is_empty() {
            fields.push(("depends on", pleach_core::text::listed(waits, 20)));
        }
        if node.is_leaf() {
            let now = self.running.as_ref().map(RunningTask::words);
            fields.push(("standing", now.unwrap_or_else(|| standing(self.state, &context.limits))));
            fields.push(("attempts", format!("{}, {} of this budget", self.state.attempts, self.state.in_budget)));
        } else {
            fields.push(("standing", self.gate()));
        }
        let touches = self.tree.file.tree.touches(self.task);
        if !touches.is_empty() {
            fields.push(("touches", pleach_core::text::listed(touches, 20)));
        }
        if self.tree.progress.cut_off {
            fields.push(("history", CUT_OFF.to_owned()));
        }
        if let Some(branch) = &self.branch {
            fields.push(("branch", format!("{} at {}", branch.name, branch.tip.short())));
        }
        fields.extend(self.state.session.iter().map(|session| ("session", session.to_string())));
        for test in &node.test_commands {
            fields.push(("test", format!("{}: {}", test.kind, test.command)));
        }
        if !node.description.trim().is_empty() {
            fields.push(("description", node.description.clone()));
        }
        fields
    }

    /// The tasks of an inner node that are not done, with where they are, and how many tasks it has.
    fn not_done(&self) -> (Vec<(&TaskId, &TaskState)>, usize) {
        let leaves = self.tree.file.tree.leaves_below(self.task);
        let all = leaves.len();
        let states = leaves.into_iter().map(|leaf| (leaf, self.tree.progress.task(leaf)));
        let is_done = |state: &TaskState| state.status == TaskStatus::Complete && state.landed;
        (states.filter(|(_, state)| !is_done(state)).collect(), all)
    }

    /// Whether the tests of an inner node pass; none when it has none.
    fn tests(&self) -> Option<&'static str> {
        gate(&self.tree.file.tree, &self.tree.progress, self.task)
    }

    /// The test results of an inner node.
    fn gate(&self) -> String {
        let (not_done, all) = self.not_done();
        let done = format!("{} of {} done", all - not_done.len(), counted(all, "task"));
        let Some(tests) = self.tests() else { return done };
        format!("{done}, its tests {tests}")
    }

    /// Adapts the fields of a task to a phase: its steps are runs of its tests, not attempts.
    fn phase_fields(&self, document: &mut Value) {
        let (not_done, _) = self.not_done();
        let status = match self.tests() {
            Some("fail") => TaskStatus::Failed,
            None | Some("pass") if not_done.is_empty() => TaskStatus::Complete,
            _ => TaskStatus::Pending,
        };
        let not_done = not_done.into_iter().map(|(task, state)| json!({"id": task, "status": state.status.as_str()}));
        document["not_done"] = not_done.collect();
        let runs = self.tree.progress.gate(self.task, self.tree.file.tree.leaves_below(self.task)).runs;
        document["status"] = json!(status.as_str());
        document["tests"] = json!(self.tests());
        (document["attempts"], document["in_budget"]) = (json!(runs), json!(runs));
    }

    /// The tasks of an inner node that are not done, those that failed first.
    fn unfinished_tasks(&self, context: &TreeContext) -> String {
        let (mut not_done, _) = self.not_done();
        not_done.sort_by_key(|(_, state)| state.status != TaskStatus::Failed);
        if self.tree.node(self.task).is_leaf() || not_done.is_empty() {
            return String::new();
        }
        let mut text = "\nNot done of it:\n".to_owned();
        for (task, state) in not_done.iter().take(MOST) {
            let standing = standing(state, &context.limits);
            let name = fitted(&self.tree.node(task).name, task.as_str().len() + width(&standing) + 5);
            text.push_str(&format!("  {task} {name}: {standing}\n"));
        }
        if not_done.len() > MOST {
            text.push_str(&format!("  and {} more; `pleach status -v` lists them\n", not_done.len() - MOST));
        }
        text
    }

    fn text(&self, context: &TreeContext) -> Result<String, Failure> {
        let mut text = self.unfinished_tasks(context);
        if !self.tree.node(self.task).is_leaf() && self.tests().is_none() && self.state.steps.is_empty() {
            return Ok(text);
        }
        if self.state.steps.is_empty() {
            text.push_str(if self.tree.progress.cut_off {
                "\nNo steps in the history of this shallow clone.\n"
            } else {
                "\nNo steps yet.\n"
            });
            return Ok(text);
        }
        let mut table = Table::new(["step", "attempt", "commit", "when", "tests", "on"]).text(4).text(5).less([2, 3]);
        for found in &self.state.steps {
            table.row([
                found.step.status(),
                found.step.retry.map(|retry| (retry + 1).to_string()).unwrap_or_default(),
                found.commit.short(),
                found.at.to_string(),
                tests(found),
                place(found, context),
            ]);
        }
        text.push_str(&format!("\n{}\n", table.shown()));
        if let Some(found) = self.state.newest().filter(|found| !found.step.passed) {
            let body = message(&context.place.repo, found)?.body;
            if !body.trim().is_empty() {
                text.push_str(&format!("\n{} says:\n{}\n", found.step.status(), indented(&body)));
            }
        }
        if !self.feedback.is_empty() {
            let who =
                if self.tree.node(self.task).is_leaf() { "the next attempt" } else { "a task of it that is reset" };
            text.push_str(&format!("\nFeedback for {who}:\n"));
            for feedback in &self.feedback {
                text.push_str(&format!("  {}\n{}\n", what_failed(feedback), indented(&indented(&feedback.text))));
            }
        }
        if !self.logs.is_empty() {
            text.push_str("\nLogs, as `pleach logs TASK --show FILE` prints them:\n");
            for log in &self.logs {
                let recorded = log.session().map(|session| format!("  {}, in the record of {session}", log.status));
                text.push_str(&format!("  {}{}{}\n", shown_by(log), recorded.unwrap_or_default(), gone(log)));
            }
        }
        Ok(text)
    }

    fn json(&self, context: &TreeContext) -> Result<Value, Failure> {
        let node = self.tree.node(self.task);
        let repo = &context.place.repo;
        let mut document = task_json(node, &self.tree.file.tree, &self.tree.progress);
        let steps = self.state.steps.iter().map(|found| step_json(repo, found)).collect::<Result<Vec<_>, _>>()?;
        let test_timeout = Duration::from_secs(context.settings.resolved.config.tree.test_timeout);
        let tests = node.test_commands.iter().map(|test| {
            json!({"type": test.kind.as_str(), "command": test.command, "framework": test.framework,
                "timeout": test.timeout.unwrap_or(test_timeout).as_secs_f64()})
        });
        document["tree"] = json!(self.tree.file.name.for_task(self.task));
        document["target"] = json!(context.target);
        document["repo"] = json!(context.place.name);
        document["cut_off"] = json!(self.tree.progress.cut_off);
        document["description"] = json!(node.description);
        document["parent"] = json!(node.parent);
        document["touches"] = self.tree.file.tree.touches(self.task).iter().map(|path| path.as_str()).collect();
        document["running"] = self.running.as_ref().map_or(Value::Null, RunningTask::json);
        document["children"] = json!(node.children);
        document["test_commands"] = tests.collect();
        document["in_budget"] = json!(self.state.in_budget);
        if !node.is_leaf() {
            self.phase_fields(&mut document);
        }
        document["branch"] = json!(self.branch.as_ref().map(|own| json!({"name": own.name, "commit": own.tip})));
        document["steps"] = json!(steps);
        document["feedback"] = json!(self.feedback);
        document["logs"] = self.logs.iter().map(super::logs::log_json).collect();
        Ok(document)
    }
}

/// The branch of a task, unless it is that of another tree's task of the same name.
fn own_branch(context: &TreeContext, tree: &TreeWithProgress, task: &TaskId) -> Result<Option<OpenBranch>, Failure> {
    let (repo, tree_name) = (&context.place.repo, &tree.file.name);
    let name = task_branch(&context.place.branch_prefix, &context.target, task);
    let name = name.map_err(|error| Failure::new(Code::NameInvalid, error.to_string()))?;
    let Some(tip) = repo.refs().find(&branch_ref(&name)).map_err(|error| of_git(&error))? else { return Ok(None) };
    let branch = OpenBranch { name, place: StepPlace::Task(task.clone()), tip };
    let is_own = match tree.progress.unread(task) {
        // It is unknown whose it is.
        Some(_) => true,
        None => {
            match context
                .reader()
                .is_of_tree(branch.clone(), task, tree_name)
                .map_err(|error| of_tree(&error.into()))?
            {
                Some(is_own) => is_own,
                // Before its first step only its session knows.
                None => View::open(repo).map_err(|error| of_engine(&error))?.0.into_iter().any(|(_, summary)| {
                    let task_of = summary.ok().and_then(|summary| summary.started.task);
                    task_of.is_some_and(|task_of| {
                        task_of.target == context.target
                            && task_of.id == *task
                            && tree_name.is_named(&task_of.tree, &task_of.id)
                    })
                }),
            }
        }
    };
    Ok(is_own.then_some(branch))
}

/// The feedback for the next attempt: of the session that resumes the task, else of a new one.
fn feedback(context: &TreeContext, tree: &TreeWithProgress, state: &TaskState) -> Vec<Feedback> {
    let repo = &context.place.repo;
    if state.status.is_over() && state.status != TaskStatus::Failed {
        return Vec::new();
    }
    let session = state.session.as_ref().and_then(|session| Summary::newest(repo, session).ok());
    let newest_is_its =
        |summary: &Summary| state.newest().is_some_and(|found| found.step.session.as_ref() == Some(&summary.session));
    let going_on = session.filter(|summary| summary.state.phase != Phase::Cancelled && newest_is_its(summary));
    match going_on.and_then(|summary| summary.state.task) {
        Some(task) if task.landed.is_none() => task.feedback.clone(),
        _ => tree::feedback(repo, &tree.progress, &context.settings.redactor(), state.feedback_steps()),
    }
}

/// The feedback for a task that is reset because the tests of its phase fail: their newest output.
fn gate_feedback(context: &TreeContext, tree: &TreeWithProgress, phase: &TaskId) -> Vec<Feedback> {
    let newest = tree.progress.gate(phase, tree.file.tree.leaves_below(phase)).newest;
    tree::feedback(&context.place.repo, &tree.progress, &context.settings.redactor(), newest.as_slice())
}

/// What an attempt failed with.
pub fn what_failed(feedback: &Feedback) -> String {
    match (feedback.kind, &feedback.step) {
        (FeedbackKind::Rejected, _) => "a review rejected it:".to_owned(),
        (FeedbackKind::TestFailure, Some(step)) => format!("{step} failed:"),
        (FeedbackKind::TestFailure, None) => "tests failed:".to_owned(),
        (FeedbackKind::RunnerError, _) => "it broke off:".to_owned(),
    }
}

/// `15 passed, 1 failed in 3.2s`
fn tests(found: &StepCommit) -> String {
    let Some(test) = &found.step.test else { return String::new() };
    let counts = test.counts.map(|counts| {
        let skipped = if counts.skipped > 0 { format!(", {} skipped", counts.skipped) } else { String::new() };
        format!("{} passed, {} failed{skipped}", counts.passed, counts.failed)
    });
    let took = test.runtime.map(|took| format!("in {}", duration(took)));
    counts.into_iter().chain(took).collect::<Vec<_>>().join(" ")
}

fn place(found: &StepCommit, context: &TreeContext) -> String {
    match &found.on {
        StepPlace::Target => context.target.to_string(),
        StepPlace::Phase(phase) => format!("the branch of {phase}"),
        StepPlace::Task(_) => "its branch".to_owned(),
    }
}

fn indented(text: &str) -> String {
    plain(text.trim_end()).lines().map(|line| format!("  {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// All a step's commit says.
fn message(repo: &Repo, found: &StepCommit) -> Result<CommitMessage, Failure> {
    let commit = repo.commit(found.commit).map_err(|error| of_git(&error))?;
    Ok(CommitMessage::read(&commit.text()))
}

fn step_json(repo: &Repo, found: &StepCommit) -> Result<Value, Failure> {
    let message = message(repo, found)?;
    let step = &found.step;
    let test = step.test.as_ref().map(|test| {
        let runtime = test.runtime.map(|runtime| (runtime.as_secs_f64() * 1000.0).round() / 1000.0);
        json!({"type": test.kind.as_str(), "counts": test.counts, "runtime": runtime, "log": test.log})
    });
    let on = match &found.on {
        StepPlace::Target => "target",
        StepPlace::Phase(_) => "phase",
        StepPlace::Task(_) => "task",
    };
    let extra: serde_json::Map<String, Value> =
        step.extra.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    Ok(json!({
        "step": step.kind.as_str(), "status": step.status(), "passed": step.passed, "retry": step.retry,
        "commit": found.commit, "at": found.at, "on": on, "subject": first_line(&message.subject), "body": message.body,
        "test": test, "review_log": step.review_log, "report": step.report, "session": step.session, "extra": extra,
    }))
}
