//! Ad-hoc tasks: tasks anybody can give a repository without writing a tree. Each is a tree of one; those that are
//! worked together are the leaves of one tree, so that nothing else has to know of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::tree::{PathPattern, TaskTree, TreeError};
use crate::ids::{BranchName, RepoName, TaskId};

/// The version of what is written.
const VERSION: u32 = 1;

/// As many characters of the first line a name has.
const NAME: usize = 72;

/// An ad-hoc task as its ref has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdHocTask {
    version: u32,
    /// `task-` and 6 characters.
    pub id: TaskId,
    /// The first line of what is to be done, shortened.
    pub name: String,
    /// What is to be done.
    pub description: String,
    /// The repository's name in the workspace.
    pub repo: RepoName,
    /// The branch it lands on.
    pub target: BranchName,
    /// Higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// The tasks that must have landed before it may start.
    #[serde(default)]
    pub depends: Vec<TaskId>,
    /// The files it is expected to change.
    #[serde(default)]
    pub touches: Vec<String>,
    /// The agent, written as `agent` in the settings; theirs if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The file of its pipeline, from the root of the repository; read when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Timestamp>,
    /// Fields this version does not know, written back as they were.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Why the text of a task cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdHocError {
    /// It is not what is written there.
    #[error("not a task: {0}")]
    Malformed(String),
    /// It was written by a newer pleach.
    #[error("written by a newer pleach (version {0})")]
    Newer(u32),
    /// Nothing is to be done.
    #[error("the text of a task is empty")]
    Empty,
    /// A pattern cannot be used.
    #[error("the pattern `{0}` {1}")]
    Pattern(String, String),
}

impl AdHocTask {
    /// A task with nothing but what is to be done and where it lands.
    pub fn new(
        id: TaskId,
        text: &str,
        repo: RepoName,
        target: BranchName,
        created: Timestamp,
    ) -> Result<Self, AdHocError> {
        Ok(Self {
            version: VERSION,
            id,
            name: name_of(text).ok_or(AdHocError::Empty)?,
            description: text.trim().to_owned(),
            repo,
            target,
            priority: 0,
            depends: Vec::new(),
            touches: Vec::new(),
            agent: None,
            model: None,
            pipeline: None,
            created,
            cancelled: None,
            unknown: Map::new(),
        })
    }

    /// Reads a task. One of a newer pleach is refused: what it means is not known.
    pub fn read(text: &str) -> Result<Self, AdHocError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let malformed = |error: serde_json::Error| AdHocError::Malformed(error.to_string());
        match serde_json::from_str::<Versioned>(text).map_err(malformed)?.version {
            version if version > VERSION => Err(AdHocError::Newer(version)),
            _ => serde_json::from_str(text).map_err(malformed),
        }
    }

    /// The task as it is written.
    pub fn write(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a task is text, numbers and dates");
        format!("{text}\n")
    }

    /// Refuses patterns that cannot be used.
    pub fn check_touches(&self) -> Result<(), AdHocError> {
        self.touches.iter().try_for_each(|pattern| match PathPattern::read(pattern) {
            Ok(_) => Ok(()),
            Err(why) => Err(AdHocError::Pattern(pattern.clone(), why)),
        })
    }

    /// A node of a tree, worked by the pipeline of this name.
    fn node(&self, pipeline: Option<&String>, known: &BTreeSet<&TaskId>) -> Value {
        let depends: Vec<&TaskId> = self.depends.iter().filter(|needed| known.contains(needed)).collect();
        let mut node = json!({
            "id": self.id, "name": self.name, "description": self.description, "depends_on": depends,
            "touches": self.touches,
        });
        if let Some(pipeline) = pipeline {
            node["pipeline"] = json!(pipeline);
        }
        node
    }
}

/// The name of a task: its first line that says something, cut.
fn name_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= NAME {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(NAME - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}

/// The tree of tasks that are worked together, and its text. `others` are tasks they may depend on: these are in the
/// tree and are not worked. `pipelines` has the name of the pipeline of each task.
pub fn tree_of(
    tasks: &[&AdHocTask],
    others: &[&AdHocTask],
    pipelines: &BTreeMap<TaskId, String>,
) -> Result<(TaskTree, String), Vec<TreeError>> {
    let own: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
    let needed = needed(tasks, others);
    let known: BTreeSet<&TaskId> = own.iter().copied().chain(needed.iter().map(|task| &task.id)).collect();
    let all = tasks.iter().chain(&needed);
    let nodes: Map<String, Value> =
        all.map(|task| (task.id.to_string(), task.node(pipelines.get(&task.id), &known))).collect();
    let text = json!({"nodes": nodes, "execution_order": order(tasks)}).to_string();
    TaskTree::read(&text).map(|tree| (tree, text))
}

/// What tasks depend on, directly or not, besides themselves.
fn needed<'t>(tasks: &[&'t AdHocTask], others: &[&'t AdHocTask]) -> Vec<&'t AdHocTask> {
    let by_id: BTreeMap<&TaskId, &AdHocTask> = others.iter().map(|task| (&task.id, *task)).collect();
    let own: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
    let mut found: BTreeMap<&TaskId, &AdHocTask> = BTreeMap::new();
    let mut open: Vec<&AdHocTask> = tasks.to_vec();
    while let Some(task) = open.pop() {
        for id in task.depends.iter().filter(|id| !own.contains(id)) {
            if let Some(other) = by_id.get(id).filter(|other| !found.contains_key(&other.id)) {
                found.insert(&other.id, other);
                open.push(other);
            }
        }
    }
    found.into_values().collect()
}

/// The tasks by priority, then as they were created, each behind what it depends on.
fn order<'t>(tasks: &[&'t AdHocTask]) -> Vec<&'t TaskId> {
    let mut left: Vec<&AdHocTask> = tasks.to_vec();
    left.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.created, task.id.clone()));
    let mut order: Vec<&TaskId> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |task: &AdHocTask| task.depends.iter().any(|needed| left.iter().any(|other| other.id == *needed));
        // A circle is an error of the tree, which says so.
        let next = left.iter().position(|task| !waits(task)).unwrap_or(0);
        order.push(&left.remove(next).id);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(id: &str, text: &str) -> AdHocTask {
        let (repo, target) = (RepoName::new("repo").unwrap(), BranchName::new("main").unwrap());
        AdHocTask::new(id.parse().unwrap(), text, repo, target, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_task_is_named_by_its_first_line() {
        let long = "x".repeat(100);
        let named = task("task-aaaaaa", "\n  Fix the login  \n\nIt says no.\n");
        assert_eq!(
            (named.name.as_str(), named.description.as_str()),
            ("Fix the login", "Fix the login  \n\nIt says no.")
        );
        assert_eq!(task("task-aaaaaa", &long).name.chars().count(), NAME);
        let (repo, target) = (RepoName::new("repo").unwrap(), BranchName::new("main").unwrap());
        let empty = AdHocTask::new("task-aaaaaa".parse().unwrap(), " \n", repo, target, Timestamp::UNIX_EPOCH);
        assert_eq!(empty, Err(AdHocError::Empty));
    }

    #[test]
    fn the_page_shows_a_task_as_it_is_written() {
        let page = include_str!("../../../../docs/tasks.md");
        let shown = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(AdHocTask::read(shown).unwrap().write(), shown);
    }

    #[test]
    fn a_task_of_a_newer_version_is_refused() {
        let newer = task("task-aaaaaa", "x").write().replace("\"version\": 1", "\"version\": 7");
        assert_eq!(AdHocTask::read(&newer), Err(AdHocError::Newer(7)));
        assert!(matches!(AdHocTask::read("{}"), Err(AdHocError::Malformed(_))));
    }

    #[test]
    fn fields_of_others_are_kept() {
        let text = task("task-aaaaaa", "x").write().replace("\"version\": 1", "\"version\": 1, \"mood\": \"good\"");
        assert!(AdHocTask::read(&text).unwrap().write().contains("\"mood\": \"good\""));
    }

    #[test]
    fn patterns_that_lead_out_are_refused() {
        let leads_out = AdHocTask { touches: vec!["src".into(), "../x".into()], ..task("task-aaaaaa", "x") };
        assert!(matches!(leads_out.check_touches(), Err(AdHocError::Pattern(text, _)) if text == "../x"));
        assert_eq!(AdHocTask { touches: vec!["src/**/*.rs".into()], ..leads_out }.check_touches(), Ok(()));
    }

    #[test]
    fn tasks_are_ordered_by_priority_behind_what_they_need() {
        let low = AdHocTask { priority: -1, ..task("task-aaaaaa", "low") };
        let high = AdHocTask { priority: 9, depends: vec![low.id.clone()], ..task("task-bbbbbb", "high") };
        let plain = task("task-cccccc", "plain");
        let (tree, _) = tree_of(&[&plain, &high, &low], &[], &BTreeMap::new()).unwrap();
        assert_eq!(tree.order(), [plain.id.clone(), low.id.clone(), high.id.clone()]);
    }

    #[test]
    fn what_is_needed_is_in_the_tree_and_not_worked() {
        let (first, other) = (task("task-aaaaaa", "first"), task("task-dddddd", "other"));
        let second = AdHocTask { depends: vec![first.id.clone()], ..task("task-bbbbbb", "second") };
        let third =
            AdHocTask { depends: vec![second.id.clone(), "task-zzzzzz".parse().unwrap()], ..task("task-cccccc", "x") };
        let pipelines = BTreeMap::from([(third.id.clone(), "own.dot".to_owned())]);
        let (tree, _) = tree_of(&[&third], &[&first, &second, &other], &pipelines).unwrap();
        assert_eq!(tree.order(), ["task-cccccc"]);
        assert_eq!(tree.left_out(), [&first.id, &second.id]);
        assert_eq!(tree.node(&third.id).unwrap().depends_on, ["task-bbbbbb"], "one that is gone is not waited for");
        assert_eq!(tree.node(&third.id).unwrap().pipeline.as_deref(), Some("own.dot"));
    }

    proptest! {
        #[test]
        fn tasks_read_back_as_they_are_written(
            text in "\\PC*[a-z]\\PC*", priority in any::<i32>(), touches in prop::collection::vec("[a-z*/]{1,8}", 0..3),
            agent in prop::option::of("\\PC{0,9}"), seconds in 0i64..4_000_000_000, is_cancelled in any::<bool>(),
        ) {
            let created = Timestamp::from_second(seconds).unwrap();
            let cancelled = is_cancelled.then_some(created);
            let depends = vec!["task-bbbbbb".parse().unwrap()];
            let given = AdHocTask { priority, touches, agent, created, cancelled, depends, ..task("task-aaaaaa", &text) };
            prop_assert_eq!(AdHocTask::read(&given.write()), Ok(given));
        }
    }
}
