//! Trees and what happened to them, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::view::{SessionStatus, Summary};
use pleach_core::ids::{BranchName, NodeId, SessionId, TaskId};
use pleach_core::plan::tree::{TaskNode, TaskTree};
use pleach_core::progress::{
    OtherTreeWork, Progress, StepCommit, StepPlace, StrandedWork, TaskState, TaskStatus, UnreadableBranch,
};
use pleach_core::schedule::{self, Blocked, NextAction, ScheduleOptions};
use pleach_core::step::{TreeName, name_line, short_id, shown_name};
use pleach_core::text::{counted, listed};
use serde_json::{Value, json};

use super::session::{doing, plain};
use super::{columns, cut, width};
use crate::tree::overview::{BrokenTree, TreeWithProgress};

/// How long a bar is.
const BAR: usize = 20;

/// What is left of a name however much stands behind it.
const LEAST_NAME: usize = 16;

/// A name in the room that a terminal has beside so many columns of other text.
pub fn fitted(name: &str, beside: usize) -> String {
    let name = name_line(name);
    columns().map_or(name.clone(), |columns| cut(&name, columns.saturating_sub(beside).max(LEAST_NAME)))
}

/// The warning about a shallow clone.
pub const CUT_OFF: &str = "shallow clone: completed steps may be missing; `git fetch --unshallow` fetches the rest";

/// The warning about steps that name the branch by its short id.
pub fn short_ids(progress: &Progress, target: &str) -> Option<String> {
    let short = short_id(target).filter(|_| progress.by_short_id > 0)?;
    let steps = counted(progress.by_short_id, "step");
    Some(format!("{steps} of Arborist named by the short id `{short}` count for `{target}`"))
}

/// The message of a stalled run.
pub fn stalled(only: Option<&TaskId>) -> String {
    only.map_or_else(|| "nothing can start".to_owned(), |task| format!("{task} cannot start"))
}

/// What a run would do next. Where tests have failed on what a merge gives, they run again before it is made.
pub fn next(tree: &Arc<TaskTree>, progress: &Progress, limits: &ScheduleOptions) -> NextAction {
    match schedule::next(tree, progress, limits) {
        NextAction::MergePhase(phase) if gate(tree, progress, &phase) == Some("fail") => NextAction::Gate(phase),
        next => next,
    }
}

/// What a run would do next, in words; of one task where only that is asked for.
pub fn next_words(next: &NextAction, only: Option<&TaskId>) -> String {
    match next {
        NextAction::Land(task) => format!("land {task}, which is finished"),
        NextAction::Stranded(StrandedWork { id, lacks, branch, .. }) => {
            format!("nothing until you merge or drop the finished work on `{}`: {id} {lacks}", branch.name)
        }
        NextAction::OtherTree(OtherTreeWork { branch, tree, .. }) => {
            format!("nothing until the work of {tree} on `{}` is landed or dropped", branch.name)
        }
        NextAction::Unreadable(unread) => {
            format!("nothing until `{}`, which cannot be read, is dropped", unread.branch.name)
        }
        NextAction::Gate(gate) => format!("run the tests of {gate}"),
        NextAction::MergePhase(phase) => format!("merge {phase}"),
        NextAction::Work { task, attempt, .. } => format!("work {task}, attempt {} of {}", attempt.number, attempt.of),
        NextAction::GiveUp { task, .. } => format!("give up {task}"),
        NextAction::Done => "nothing, everything is done".to_owned(),
        NextAction::Failed(task) => format!("nothing, {task} failed; --retry-failed gives it another budget"),
        NextAction::GateRed(gate) => format!("nothing, the tests of {gate} fail"),
        NextAction::Stalled(blocked) => {
            let reasons = blocked.iter().map(ToString::to_string).chain(another_budget(blocked).map(str::to_owned));
            format!("{}: {}", stalled(only), reasons.collect::<Vec<_>>().join("; "))
        }
    }
}

/// The hint to retry failed tasks that block others.
fn another_budget(blocked: &[Blocked]) -> Option<&'static str> {
    let mut waits = blocked.iter().flat_map(|blocked| &blocked.waits_for);
    waits.any(|wait| !wait.failed.is_empty()).then_some("--retry-failed gives what failed another budget")
}

/// A task that was completed under another name.
pub fn renamed(node: &TaskNode, then: &str) -> String {
    format!(
        "{} was completed as \"{}\", and the tree calls it \"{}\"",
        node.id,
        shown_name(then),
        shown_name(&node.name)
    )
}

/// A task that is being worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTask {
    session: SessionId,
    /// The node its pipeline is at.
    node: Option<NodeId>,
    /// What is done there.
    doing: String,
}

impl RunningTask {
    /// `reviewing, attempt 1 of 5, session abcdefgh`
    pub fn words(&self) -> String {
        format!("{}, session {}", self.doing, self.session)
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({"session": self.session, "node": self.node, "doing": self.doing})
    }
}

/// The tasks of a tree that are being worked on a branch, by its sessions.
pub fn running<'s>(
    sessions: impl IntoIterator<Item = &'s Summary>,
    target: &BranchName,
    tree: &TreeName,
) -> BTreeMap<TaskId, RunningTask> {
    let is_running = |summary: &&Summary| summary.standing() == SessionStatus::Running;
    let sessions = sessions.into_iter().filter(is_running);
    let tasks = sessions.filter_map(|summary| {
        let task = summary.started.task.as_ref()?;
        let is_of_tree = task.target == *target && tree.is_named(&task.tree, &task.id);
        let (session, node) = (summary.session.clone(), summary.node().cloned());
        is_of_tree.then(|| (task.id.clone(), RunningTask { session, node, doing: doing(summary) }))
    });
    tasks.collect()
}

/// The view of a tree: all of it, or open tasks only.
#[derive(Debug)]
pub struct TreeView<'a> {
    pub tree: &'a TreeWithProgress,
    /// The branch.
    pub target: &'a str,
    /// Attempts, gates and branches.
    pub limits: &'a ScheduleOptions,
    /// Every task, not only those there is something to say about.
    pub whole: bool,
    /// The tasks that are being worked.
    pub running: BTreeMap<TaskId, RunningTask>,
}

/// The tasks by status.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    all: usize,
    complete: usize,
    failed: usize,
    begun: usize,
    waiting: usize,
    skipped: usize,
    untested: usize,
}

impl Counts {
    fn of<'a>(progress: &Progress, tasks: impl IntoIterator<Item = &'a TaskId>) -> Self {
        let mut counts = Self::default();
        for task in tasks {
            let state = progress.task(task);
            counts.all += 1;
            match state.status {
                TaskStatus::Complete | TaskStatus::Failed if !state.landed => counts.waiting += 1,
                TaskStatus::Complete => counts.complete += 1,
                TaskStatus::Failed => counts.failed += 1,
                TaskStatus::Pending => {}
                TaskStatus::Implementing | TaskStatus::Testing | TaskStatus::Reviewing => counts.begun += 1,
            }
            counts.skipped += usize::from(state.skipped);
            counts.untested += usize::from(state.untested && state.status == TaskStatus::Complete);
        }
        counts
    }

    /// `3 of 12 tasks done, 1 failed`
    fn words(self) -> String {
        let mut words = format!("{} of {} done", self.complete, counted(self.all, "task"));
        for (count, what) in [
            (self.skipped, "skipped"),
            (self.untested, "untested"),
            (self.begun, "begun"),
            (self.waiting, "waiting to land"),
            (self.failed, "failed"),
        ] {
            if count > 0 {
                words.push_str(&format!(", {count} {what}"));
            }
        }
        words
    }

    fn json(self) -> Value {
        json!({
            "all": self.all, "complete": self.complete, "failed": self.failed, "begun": self.begun,
            "waiting_to_land": self.waiting, "skipped": self.skipped, "untested": self.untested,
            "pending": self.all - self.complete - self.failed - self.begun - self.waiting,
        })
    }
}

/// `[█████░░░░░] 5/10`
fn bar(done: usize, all: usize) -> String {
    let full = (done * BAR).checked_div(all).unwrap_or(0);
    format!("[{}{}] {done}/{all}", "█".repeat(full), "░".repeat(BAR - full))
}

impl TreeView<'_> {
    fn task_tree(&self) -> &Arc<TaskTree> {
        &self.tree.file.tree
    }

    /// The branches its tasks land on.
    fn targets(&self) -> String {
        let targets = self.tree.targets();
        if targets.is_empty() {
            self.target.to_owned()
        } else {
            listed(targets.iter().map(|tree_repo| format!("{} of {}", tree_repo.target, tree_repo.name)), 10)
        }
    }

    fn path(&self) -> &str {
        self.tree.file.name.file().unwrap_or_default()
    }

    /// What a run would do next.
    pub fn next(&self) -> NextAction {
        self.tree.next(|tree, progress| next(tree, progress, self.limits))
    }

    /// The tree for people: a bar per phase, what there is to say about tasks, what is next.
    pub fn text(&self) -> String {
        let (tree, progress) = (self.task_tree(), &self.tree.progress);
        let next = self.next();
        let counts = Counts::of(progress, tree.order());
        let mut text = format!("{} on {}: {}\n", self.path(), self.targets(), counts.words());
        if progress.cut_off {
            text.push_str(&format!("  {CUT_OFF}\n"));
        }
        if let Some(warning) = short_ids(progress, self.target) {
            text.push_str(&format!("  {warning}\n"));
        }
        let groups = self.groups();
        let width = groups.iter().map(|(title, _, _)| width(title)).max().unwrap_or(0);
        for (title, phase, tasks) in &groups {
            let counts = Counts::of(progress, tasks.iter().copied());
            let gate = phase.and_then(|phase| Some(format!("  {}", self.gate_words(phase)?))).unwrap_or_default();
            let padding = " ".repeat(width - self::width(title));
            text.push_str(&format!("  {title}{padding}  {}{gate}\n", bar(counts.complete, counts.all)));
            if next != NextAction::Done || self.whole {
                text.push_str(&self.tasks(tasks));
                text.push_str(&self.inner_gates(*phase));
            }
        }
        for (node, then) in progress.renamed(tree) {
            text.push_str(&format!("  warning: {}\n", renamed(node, then)));
        }
        for unread in self.unread() {
            let (branch, why) = (&unread.branch.name, &unread.why);
            text.push_str(&format!(
                "  warning: `{branch}` cannot be read: {why}; then {}\n",
                progress.remedy(unread, tree)
            ));
        }
        let left_out = tree.left_out();
        if !left_out.is_empty() {
            text.push_str(&format!("  not in execution_order: {}\n", listed(left_out, 10)));
        }
        match &next {
            NextAction::Done => {}
            NextAction::Stalled(blocked) => {
                text.push_str("  nothing can start:\n");
                blocked.iter().for_each(|blocked| text.push_str(&format!("    {blocked}\n")));
                another_budget(blocked).into_iter().for_each(|how| text.push_str(&format!("  {how}\n")));
            }
            // Whoever works the tree decides, with more than the commits to go by.
            _ if !self.running.is_empty() => {}
            next => text.push_str(&format!("  next: {}\n", next_words(next, None))),
        }
        text
    }

    /// The branches of this tree that cannot be read.
    fn unread(&self) -> impl Iterator<Item = &UnreadableBranch> {
        self.tree.progress.unread.iter().filter(|unread| self.task_tree().node(&unread.id).is_some())
    }

    /// The phases with their tasks; tasks of no phase come together, last.
    fn groups(&self) -> Vec<(String, Option<&TaskId>, Vec<&TaskId>)> {
        let tree = self.task_tree();
        let left_out: BTreeSet<&TaskId> = tree.left_out().into_iter().collect();
        let mut groups = Vec::new();
        let mut loose = Vec::new();
        for root in tree.roots() {
            let tasks = tree.leaves_below(root);
            match tree.node(root) {
                Some(node) if !node.is_leaf() => {
                    let gate = self.gate_words(root).map_or(0, |words| width(&words) + 2);
                    let bar = bar(0, tasks.len() * 10).chars().count() + gate;
                    let title = format!("{} {}", node.id, fitted(&node.name, node.id.as_str().len() + bar + 5));
                    groups.push((title, Some(root), tasks));
                }
                _ => loose.extend(tasks.into_iter().filter(|task| !left_out.contains(task))),
            }
        }
        if !loose.is_empty() {
            let title = if groups.is_empty() { "tasks" } else { "tasks of no phase" };
            groups.push((title.to_owned(), None, loose));
        }
        groups
    }

    /// Whether the tests of an inner node pass; none when it has none.
    fn gate(&self, id: &TaskId) -> Option<&'static str> {
        gate(self.task_tree(), &self.tree.progress, id)
    }

    /// The same in words, with the reason where they fail.
    fn gate_words(&self, id: &TaskId) -> Option<String> {
        let word = self.gate(id)?;
        let newest = self.tree.progress.task(id).newest().filter(|_| word == "fail");
        let why = newest.and_then(StepCommit::reason).map(|why| format!(": {}", plain(&why))).unwrap_or_default();
        Some(format!("tests {word}{why}"))
    }

    /// The gates of groups inside a phase that have something to say.
    fn inner_gates(&self, phase: Option<&TaskId>) -> String {
        let tree = self.task_tree();
        let inside = |gate: &&TaskNode| Some(&gate.id) != phase && Some(tree.phase_of(&gate.id)) == phase;
        let lines = tree.gates().into_iter().filter(inside).filter_map(|gate| {
            self.gate(&gate.id).filter(|word| self.whole || *word == "fail")?;
            let words = self.gate_words(&gate.id)?;
            let name = fitted(&gate.name, gate.id.as_str().len() + width(&words) + 7);
            Some(format!("    {} {name}: {words}\n", gate.id))
        });
        lines.collect()
    }

    fn tasks(&self, tasks: &[&TaskId]) -> String {
        let mut text = String::new();
        let mut pending = 0;
        for task in tasks {
            let (Some(node), state) = (self.task_tree().node(task), self.tree.progress.task(task)) else { continue };
            let is_plain = state.status == TaskStatus::Complete && state.landed && !state.skipped && !state.untested;
            let running = self.running.get(*task);
            let is_new = state.status == TaskStatus::Pending && state.steps.is_empty();
            if !self.whole && running.is_none() && (is_plain || is_new) {
                pending += usize::from(!is_plain);
                continue;
            }
            let words = running.map_or_else(|| standing(state, self.limits), RunningTask::words);
            let repo = self.tree.repo_of(task).map(|repo| format!(" ({repo})")).unwrap_or_default();
            let behind = format!("{repo}: {words}");
            let name = fitted(&node.name, task.as_str().len() + width(&behind) + 5);
            text.push_str(&format!("    {task} {name}{behind}\n"));
        }
        if pending > 0 {
            text.push_str(&format!("    {pending} pending\n"));
        }
        text
    }

    /// The tree for programs.
    pub fn json(&self) -> Value {
        let (tree, progress) = (self.task_tree(), &self.tree.progress);
        let next = self.next();
        let phases = self.groups().into_iter().filter_map(|(_, phase, tasks)| {
            let node = tree.node(phase?)?;
            let counts = Counts::of(progress, tasks);
            Some(json!({"id": node.id, "name": node.name, "counts": counts.json(), "tests": self.gate(&node.id)}))
        });
        let tasks = tree.order().iter().filter_map(|task| {
            let mut json = task_json(tree.node(task)?, tree, progress);
            json["running"] = self.running.get(task).map_or(Value::Null, RunningTask::json);
            if let Some(repo) = self.tree.repo_of(task) {
                json["repo"] = json!(repo);
            }
            Some(json)
        });
        let gates: BTreeMap<&str, &str> = tree
            .nodes()
            .filter(|node| !node.is_leaf())
            .filter_map(|node| Some((node.id.as_str(), self.gate(&node.id)?)))
            .collect();
        let renamed: Vec<Value> = progress
            .renamed(tree)
            .into_iter()
            .map(|(node, then)| json!({"id": node.id, "name": node.name, "completed_as": then}))
            .collect();
        let unread: Vec<Value> = self
            .unread()
            .map(|unread| json!({"id": unread.id, "branch": unread.branch.name, "why": unread.why}))
            .collect();
        json!({
            "tree": self.path(), "target": self.target, "begun": self.tree.is_begun(),
            "cut_off": progress.cut_off, "unreadable": unread,
            "counts": Counts::of(progress, tree.order()).json(), "phases": phases.collect::<Vec<_>>(),
            "tasks": tasks.collect::<Vec<_>>(), "gates": gates, "renamed": renamed, "left_out": tree.left_out(),
            "next": next_json(&next),
        })
    }
}

/// Whether the tests of an inner node pass; none when it has none. A phase without any is merged by those of its tasks,
/// of which only failures there are reported.
pub fn gate(tree: &TaskTree, progress: &Progress, id: &TaskId) -> Option<&'static str> {
    let gate = progress.gate(id, tree.leaves_below(id));
    if !tree.gates().iter().any(|gate| gate.id == *id) {
        let is_red = |found: &Arc<StepCommit>| !found.step.passed && matches!(found.on, StepPlace::Phase(_));
        return gate.newest.filter(is_red).map(|_| "fail");
    }
    Some(match gate.newest {
        _ if gate.green => "pass",
        Some(found) if !found.step.passed => "fail",
        Some(_) => "must run again",
        None => "have not run",
    })
}

/// A tree that cannot be shown, for programs.
pub fn broken_tree_json(tree: &BrokenTree) -> Value {
    json!({"tree": tree.path, "error": tree.why})
}

fn next_json(next: &NextAction) -> Value {
    let (is, task) = match next {
        NextAction::Land(task) => ("land", Some(task)),
        NextAction::Stranded(stray) => ("settle", Some(&stray.id)),
        NextAction::OtherTree(taken) => ("yield", Some(&taken.id)),
        NextAction::Unreadable(unread) => ("mend", Some(&unread.id)),
        NextAction::Gate(task) => ("gate", Some(task)),
        NextAction::MergePhase(task) => ("merge_phase", Some(task)),
        NextAction::Work { task, .. } => ("work", Some(task)),
        NextAction::GiveUp { task, .. } => ("give_up", Some(task)),
        NextAction::Done => ("done", None),
        NextAction::Failed(task) => ("failed", Some(task)),
        NextAction::GateRed(task) => ("gate_red", Some(task)),
        NextAction::Stalled(_) => ("stalled", None),
    };
    let blocked: Vec<Value> = match next {
        NextAction::Stalled(blocked) => blocked
            .iter()
            .map(|blocked| {
                let waits = blocked.waits_for.iter().map(|wait| {
                    let failed: &[TaskId] = &wait.failed;
                    json!({"on": wait.on, "why": wait.why.to_string(), "failed": failed})
                });
                json!({"task": blocked.task, "waits_for": waits.collect::<Vec<_>>()})
            })
            .collect(),
        _ => Vec::new(),
    };
    json!({"is": is, "task": task, "blocked": blocked, "words": next_words(next, None)})
}

/// The status of a task, as text.
pub fn standing(state: &TaskState, limits: &ScheduleOptions) -> String {
    let mut words = state.status.as_str().to_owned();
    match state.status {
        TaskStatus::Implementing | TaskStatus::Testing | TaskStatus::Reviewing => {
            let attempt = state.in_budget + u32::from(!state.unfinished().is_empty());
            words.push_str(&format!(", attempt {} of {}", attempt.max(1), limits.max_retries));
        }
        TaskStatus::Failed => {
            words.push_str(&format!(" after {}", counted(state.attempts, "attempt")));
            if let Some(why) = state.why_failed() {
                words.push_str(&format!(" ({})", plain(&why)));
            }
        }
        TaskStatus::Pending | TaskStatus::Complete => {}
    }
    if state.status.is_over() && !state.landed {
        words.push_str(", waiting to land");
    }
    if state.skipped {
        words.push_str(", skipped");
    }
    if state.untested && state.status == TaskStatus::Complete {
        words.push_str(", untested");
    }
    words
}

/// A task as JSON.
pub fn task_json(node: &TaskNode, tree: &TaskTree, progress: &Progress) -> Value {
    let state = progress.task(&node.id);
    json!({
        "id": node.id, "name": node.name, "phase": tree.phase_of(&node.id), "status": state.status.as_str(),
        "landed": state.landed, "waiting_to_land": state.status.is_over() && !state.landed,
        "attempts": state.attempts, "skipped": state.skipped, "untested": state.untested, "session": state.session,
        "failed_because": state.why_failed(), "commit": state.newest().map(|found| found.commit), "depends_on": tree.dependencies(&node.id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_only_at_the_end() {
        assert_eq!(bar(0, 0), format!("[{}] 0/0", "░".repeat(BAR)));
        assert_eq!(bar(199, 200), format!("[{}░] 199/200", "█".repeat(BAR - 1)));
        assert_eq!(bar(3, 3), format!("[{}] 3/3", "█".repeat(BAR)));
    }
}
