//! The outcome of a run over a tree, and how to continue.

use std::cmp::Reverse;
use std::path::Path;

use engine::env::Question;
use engine::session::Pause;
use engine::tree::{Refusal, RefusalCode, TreeEnded, TreePlan};
use git::Repo;
use git::workspace::{KEEP, branch_ref, phase_branch, task_branch};
use pleach_core::event::PauseReason;
use pleach_core::ids::{BranchName, TaskId};
use pleach_core::schedule::{Blocked, Why};
use pleach_core::step::TreeName;
use pleach_core::text::{counted, shell_word};
use serde_json::json;

use super::commands::PlanCommands;
use super::plan::PlannedRepo;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::next_commands::{about, git_in, whole_tree};
use crate::render::session::plain;
use crate::render::tree::stalled;
use crate::render::{Out, question as asked, style};
use crate::say;

/// Says how the run in a directory ended, and how to continue. Several tasks may have ended it: the exit code is that of
/// the end that weighs most, which comes first.
pub fn print_outcome(
    globals: &Globals,
    dir: &Path,
    mut ends: Vec<(&PlannedRepo, &TreeEnded)>,
    mut failures: Vec<Failure>,
) -> Result<Exit, Failure> {
    ends.sort_by_key(|(_, ended)| Reverse(exit(ended)));
    failures.sort_by_key(|failure| Reverse(failure.exit()));
    let of_ends = ends.first().map(|(_, ended)| exit(ended));
    // The failure is told by whoever is given it.
    let worst = (failures.first().map(Failure::exit) >= of_ends).then(|| failures.drain(..1).next()).flatten();
    let several = ends.len() + failures.len() + usize::from(worst.is_some()) > 1;
    if globals.json {
        let of_failure = |failure: &Failure| json!({"ended": "error", "error": failure.json()["error"]});
        let mut tasks: Vec<_> = worst.iter().map(of_failure).collect();
        tasks.extend(ends.iter().map(|(planned_repo, ended)| {
            let mut document = ended_json(globals, dir, &planned_repo.plan, ended);
            if planned_repo.plan.repos.is_some() && !matches!(ended, TreeEnded::Done) {
                document["repo"] = json!(planned_repo.place.name);
            }
            document
        }));
        tasks.extend(failures.iter().map(of_failure));
        if let Some(worst) = worst {
            return Err(Failure { tasks: if several { tasks.into() } else { Box::default() }, ..worst });
        }
        let mut document = tasks.first().cloned().unwrap_or_default();
        if several {
            document["tasks"] = tasks.into();
        }
        Out::new().json(&document)?;
    } else {
        ends.iter().try_for_each(|(planned_repo, ended)| {
            print_end(globals, dir, &planned_repo.place.repo, &planned_repo.plan, ended)
        })?;
        failures.iter().for_each(|failure| failure.report(false));
    }
    match worst {
        Some(worst) => Err(worst),
        None => Ok(of_ends.unwrap_or(Exit::Done)),
    }
}

fn print_end(globals: &Globals, dir: &Path, repo: &Repo, plan: &TreePlan, ended: &TreeEnded) -> Result<(), Failure> {
    let mut out = Out::new();
    let commands = PlanCommands { globals, dir, plan };
    let head = |text: String| style::head(&text);
    match ended {
        TreeEnded::Done => out.line(head(match (&plan.name, plan.tree.order()) {
            (TreeName::File(path), _) => format!("done: every task of `{path}` is complete"),
            (TreeName::Tasks, [task]) => format!("done: {task} landed on `{}`", plan.target),
            (TreeName::Tasks, tasks) => {
                format!("done: {} landed on `{}`", counted(tasks.len(), "task"), plan.target)
            }
        })),
        TreeEnded::TaskDone(task) => out.line(head(format!("done: {task}"))),
        TreeEnded::Failed { task, attempts, before, reason } => {
            let earlier = if *before { "in an earlier run, " } else { "" };
            let (after, why) = (counted(*attempts, "attempt"), because(reason.as_deref()));
            out.line(style::paint(style::BAD, &format!("{task} failed {earlier}after {after}{why}")))?;
            if let Some(place) = code_of(repo, plan, task) {
                out.line(format!("code:    {place}"))?;
            }
            out.line(format!("look:    {}", commands.look(task)))?;
            out.line(format!("retry:   {}", commands.retry_failed(task)))
        }
        TreeEnded::Cancelled(task) => {
            out.line(head(format!("cancelled: {task}: its session was cancelled")))?;
            // An ad-hoc task is cancelled for good.
            if plan.name == TreeName::Tasks {
                return Ok(());
            }
            out.line(format!("retry:   {}", commands.rerun()))
        }
        TreeEnded::GateRed { gate, on_merge, reason } => {
            let target = &plan.target;
            let phase = phase_branch(&plan.branch_prefix, target, plan.tree.phase_of(gate)).ok();
            let phase = phase.filter(|_| *on_merge);
            let (on, place) = match &phase {
                Some(phase) => (format!("the merge of `{phase}` into `{target}`"), phase),
                None => (format!("`{target}`"), target),
            };
            out.line(style::paint(
                style::BAD,
                &format!("the tests of {gate} fail on {on}{}", because(reason.as_deref())),
            ))?;
            out.line(format!("look:    {}", commands.look(gate)))?;
            let reset = commands.about("reset TASK");
            out.line(format!("next:    fix it on `{place}` and run again, or reopen a task with `{reset}`"))
        }
        TreeEnded::Stalled(blocked) => {
            out.line(head(format!("stalled: {}", stalled(plan.limits.only.as_ref()))))?;
            blocked.iter().try_for_each(|blocked| out.line(format!("  {blocked}")))?;
            stall_hints(globals, dir, repo, plan, blocked).into_iter().try_for_each(|way| out.line(way))
        }
        TreeEnded::OutOfBudget { why } => out.line(head(format!("stopped: {why}"))),
        TreeEnded::Paused(Pause { questions, .. }) if !questions.is_empty() => {
            for question in questions {
                let task = question.task.as_ref().map(|task| format!("{task} ")).unwrap_or_default();
                let gate = gate_of(plan, question);
                out.line(head(format!("paused: {task}waits for an answer at `{gate}`")))?;
                out.line(format!("`{gate}` asks: {} ({})", question.text, question.choices_in_words()))?;
                question.work.iter().try_for_each(|work| out.text(&asked::judged(work)))?;
                if let Some(work) = &question.work {
                    let diff = crate::next_commands::about(
                        globals,
                        dir,
                        &format!("diff {}", question.place(&work.session)),
                        None,
                    );
                    out.line(format!("look:    {diff}"))?;
                }
                out.line(format!("answer:  {}", commands.answer(&gate)))?;
            }
            Ok(())
        }
        TreeEnded::Paused(Pause { why: Some(why), .. }) => out.line(head(format!("paused: {why}"))),
        TreeEnded::Paused(_) => {
            out.line(head("paused: nothing recorded is lost".to_owned()))?;
            out.line(format!("resume:  {}", commands.rerun()))
        }
        TreeEnded::Refused(refusal) => {
            let (task, branch) = (&refusal.task, &refusal.branch);
            let waiting = format!("waiting{}", say::code(refusal.code.as_str()));
            out.line(head(if !refusal.finished {
                format!("{waiting}: {task} could not start on `{branch}`")
            } else if refusal.code == RefusalCode::Unapproved {
                format!("{waiting}: {task} is finished on `{branch}` and waits to be let in")
            } else {
                format!("{waiting}: {task} is finished on `{branch}` and could not land")
            }))?;
            out.line(commands.with_location(&refusal.why))?;
            match other_tree_command(globals, dir, refusal) {
                Some(command) => out.line(format!("first:   {command}")),
                None => Ok(()),
            }
        }
        TreeEnded::Unasked => Ok(()),
    }
}

/// A reason after what it is the reason of.
fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {}", plain(reason))).unwrap_or_default()
}

/// The command that continues with another tree, where that comes first.
fn other_tree_command(globals: &Globals, dir: &Path, refusal: &Refusal) -> Option<String> {
    let first = refusal.first.as_ref()?;
    let command = if first.gathers { "gardener --isolation phase" } else { "gardener" };
    Some(about(globals, dir, command, Some(&first.file)))
}

/// The commands that help where nothing can start.
fn stall_hints(globals: &Globals, dir: &Path, repo: &Repo, plan: &TreePlan, blocked: &[Blocked]) -> Vec<String> {
    let commands = PlanCommands { globals, dir, plan };
    let waits = || blocked.iter().flat_map(|blocked| &blocked.waits_for);
    let first = |why: Why| waits().find(|wait| wait.why == why).map(|wait| &wait.on);
    if let Some(failed) = waits().find_map(|wait| wait.failed.first()) {
        let again = match plan.limits.only {
            Some(_) => commands.retry_task(failed),
            None => commands.retry_failed(failed),
        };
        let (look, without) = (commands.look(failed), commands.about(&format!("skip {failed}")));
        return vec![format!("look:    {look}"), format!("retry:   {again}"), format!("skip:    {without}")];
    }
    if let Some(red) = first(Why::GateRed) {
        return vec![format!("look:    {}", commands.look(red))];
    }
    if let Some(left_out) = first(Why::LeftOut) {
        return vec![match plan.name {
            TreeName::File(_) => {
                format!("next:    put {left_out} into `execution_order` of {} and run again", plan.name)
            }
            TreeName::Tasks => format!("first:   {}", commands.about(&format!("task start {left_out}"))),
        }];
    }
    // What else one task waits for can be worked.
    if plan.limits.only.is_some() {
        return vec![format!("first:   {}", whole_tree(globals))];
    }
    let Some((phase, branch, done)) = unmerged_phase(repo, plan, blocked) else { return Vec::new() };
    let merge = git_in(globals, dir, &format!("merge {}", shell_word(branch)));
    let reset =
        done.map(|done| format!(", or have {done} done again with `{}`", commands.about(&format!("reset {done}"))));
    vec![format!("next:    merge what is done of {phase} with `{merge}`{}", reset.unwrap_or_default())]
}

/// A phase that others wait for, its branch with something the target does not have, and a task that is done there and
/// waited for. Since the tree was edited the rest of the phase may wait for those others.
fn unmerged_phase<'a>(
    repo: &Repo,
    plan: &'a TreePlan,
    blocked: &'a [Blocked],
) -> Option<(&'a TaskId, BranchName, Option<&'a TaskId>)> {
    let waits = blocked.iter().flat_map(|blocked| &blocked.waits_for).filter_map(|wait| match &wait.why {
        Why::NotMerged => Some((plan.tree.phase_of(&wait.on), Some(&wait.on))),
        Why::Elsewhere(phase) => Some((phase, Some(&wait.on))),
        _ => None,
    });
    let others = blocked.iter().map(|blocked| (plan.tree.phase_of(&blocked.task), None));
    waits.chain(others).find_map(|(phase, done)| {
        let branch = phase_branch(&plan.branch_prefix, &plan.target, phase).ok()?;
        let tip = repo.refs().find(&branch_ref(&branch)).ok()??;
        let target = repo.refs().find(&branch_ref(&plan.target)).ok()??;
        let is_merged = repo.history().is_ancestor(tip, target).ok()?;
        (!is_merged).then(|| (phase, branch, done.filter(|done| plan.tree.is_leaf(done))))
    })
}

/// The gate as `--answer` names it. Tasks that are worked at once may have the same ones.
fn gate_of(plan: &TreePlan, question: &Question) -> String {
    if plan.jobs > 1 { question.address_with_task() } else { question.address() }
}

fn exit(ended: &TreeEnded) -> Exit {
    match ended {
        TreeEnded::Done | TreeEnded::TaskDone(_) => Exit::Done,
        TreeEnded::Failed { .. }
        | TreeEnded::Cancelled(_)
        | TreeEnded::GateRed { .. }
        | TreeEnded::Stalled(_)
        | TreeEnded::OutOfBudget { .. } => Exit::WorkFailed,
        TreeEnded::Paused(pause) if pause.reason == PauseReason::WaitsForPerson => Exit::WaitsForPerson,
        TreeEnded::Paused(_) | TreeEnded::Unasked => Exit::Paused,
        TreeEnded::Refused(refusal) if refusal.code == RefusalCode::Unapproved => Exit::WaitsForPerson,
        TreeEnded::Refused(refusal) if refusal.code == RefusalCode::TargetRed => Exit::WorkFailed,
        TreeEnded::Refused(_) => Exit::LandingRefused,
    }
}

fn ended_json(globals: &Globals, dir: &Path, plan: &TreePlan, ended: &TreeEnded) -> serde_json::Value {
    let commands = PlanCommands { globals, dir, plan };
    match ended {
        TreeEnded::Done => json!({"ended": "done"}),
        TreeEnded::TaskDone(task) => json!({"ended": "done", "task": task}),
        TreeEnded::Failed { task, attempts, reason, .. } => {
            json!({"ended": "failed", "task": task, "attempts": attempts, "reason": reason})
        }
        TreeEnded::Cancelled(task) => json!({"ended": "cancelled", "task": task}),
        TreeEnded::GateRed { gate, reason, .. } => json!({"ended": "gate_red", "task": gate, "reason": reason}),
        TreeEnded::Stalled(blocked) => {
            let blocked: Vec<String> = blocked.iter().map(ToString::to_string).collect();
            json!({"ended": "stalled", "blocked": blocked})
        }
        TreeEnded::OutOfBudget { why } => json!({"ended": "out_of_budget", "reason": why}),
        TreeEnded::Paused(Pause { questions, .. }) if !questions.is_empty() => {
            let question = &questions[0];
            let choices: Vec<&str> = question.choices.iter().map(|choice| choice.label.as_str()).collect();
            let gate = gate_of(plan, question);
            json!({
                "ended": "paused", "task": question.task, "gate": gate, "question": question.text, "choices": choices,
                "answer": commands.answer(&gate),
            })
        }
        TreeEnded::Paused(Pause { why: Some(why), .. }) => json!({"ended": "paused", "reason": why}),
        TreeEnded::Paused(_) | TreeEnded::Unasked => json!({"ended": "paused"}),
        TreeEnded::Refused(refusal @ Refusal { task, branch, finished, code, why, .. }) => {
            let why = commands.with_location(why);
            let mut json = json!({"ended": "refused", "task": task, "branch": branch, "finished": finished, "code": code.as_str(), "reason": why});
            if let Some(command) = other_tree_command(globals, dir, refusal) {
                json["first"] = command.into();
            }
            json
        }
    }
}

/// Where the code of a task is that was given up: on its branch, unless another budget was started there. None where
/// the branch was removed.
fn code_of(repo: &Repo, plan: &TreePlan, task: &TaskId) -> Option<String> {
    let tip = |branch: &BranchName| repo.refs().find(&branch_ref(branch)).ok().flatten();
    let branch = task_branch(&plan.branch_prefix, &plan.target, task).ok()?;
    let (own, target) = (tip(&branch)?, tip(&plan.target)?);
    if !repo.history().is_ancestor(own, target).unwrap_or(false) {
        return Some(format!("on `{branch}`"));
    }
    let kept = repo.refs().list(&format!("{KEEP}{task}-")).ok()?.into_iter();
    let number = |name: &str| name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    let (_, newest) = kept.filter_map(|(name, _)| Some((number(&name)?, name))).max()?;
    Some(format!("kept at {newest}"))
}
