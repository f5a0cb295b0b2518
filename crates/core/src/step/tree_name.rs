//! The tree a step belongs to, as commits and records name it.

use std::fmt;

use super::Step;
use crate::ids::TaskId;

/// What the name of an ad-hoc task's tree begins with.
const OF_TASK: &str = "task:";

/// The tree that steps and sessions name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeName {
    /// A file, by its path from the root of the repository; by its name alone if it lies outside.
    File(String),
    /// Ad-hoc tasks: each is a tree of its own, named after it.
    Tasks,
}

impl TreeName {
    /// The tree that a commit or a record names.
    pub fn of(named: &str) -> Self {
        match named.strip_prefix(OF_TASK).map(TaskId::new) {
            Some(Ok(task)) if task.is_ad_hoc() => Self::Tasks,
            _ => Self::File(named.to_owned()),
        }
    }

    /// The name in the steps and records of a task.
    pub fn for_task(&self, task: &TaskId) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Tasks => format!("{OF_TASK}{task}"),
        }
    }

    /// Whether a task that names this tree belongs to it.
    pub fn is_named(&self, named: &str, task: &TaskId) -> bool {
        match self {
            Self::File(path) => path == named,
            Self::Tasks => task.is_ad_hoc() && named.strip_prefix(OF_TASK) == Some(task.as_str()),
        }
    }

    /// Whether a step belongs to it. A step that names no tree is one of another program, and belongs to every file.
    pub fn has_step(&self, step: &Step) -> bool {
        match (self, &step.tree, &step.task) {
            (Self::File(_), None, _) => true,
            (Self::File(path), Some(named), _) => path == named,
            (Self::Tasks, Some(named), Some(task)) => self.is_named(named, task),
            (Self::Tasks, _, _) => false,
        }
    }

    /// The path of its file; none for ad-hoc tasks.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::File(path) => Some(path),
            Self::Tasks => None,
        }
    }
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "`{path}`"),
            Self::Tasks => f.pad("the ad-hoc tasks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::StepKind;

    #[test]
    fn an_ad_hoc_task_is_a_tree_of_its_own() {
        let task: TaskId = "task-abc234".parse().unwrap();
        let other: TaskId = "task-zzzzzz".parse().unwrap();
        let named = TreeName::Tasks.for_task(&task);
        assert_eq!(named, "task:task-abc234");
        assert_eq!(TreeName::of(&named), TreeName::Tasks);
        assert!(TreeName::Tasks.is_named(&named, &task) && !TreeName::Tasks.is_named(&named, &other));
        let step = Step { tree: Some(named), ..Step::new(Some(task.clone()), StepKind::Implement, true) };
        assert!(TreeName::Tasks.has_step(&step));
        assert!(!TreeName::File("task-tree.json".into()).has_step(&step));
        assert!(!TreeName::Tasks.has_step(&Step { tree: None, ..step.clone() }), "no program names none of these");
        assert!(TreeName::File("a".into()).has_step(&Step { tree: None, ..step }));
    }

    #[test]
    fn files_are_not_mistaken_for_tasks() {
        for path in ["task-tree.json", "task:x", "task:task-ABC234", "task:task-abc2345", "task:T001"] {
            assert_eq!(TreeName::of(path), TreeName::File(path.to_owned()), "{path}");
        }
    }
}
