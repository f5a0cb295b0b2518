//! The commands that continue with a plan: those of trees, or those of ad-hoc tasks.

use std::path::Path;

use engine::tree::TreePlan;
use pleach_core::ids::TaskId;
use pleach_core::step::TreeName;

use crate::globals::Globals;
use crate::next_commands::{self as next, about};

/// The commands that continue with a plan, as they are printed.
#[derive(Debug, Clone, Copy)]
pub struct PlanCommands<'a> {
    pub globals: &'a Globals,
    /// Where it is worked.
    pub dir: &'a Path,
    pub plan: &'a TreePlan,
}

impl PlanCommands<'_> {
    /// Another command about the plan's tree.
    pub fn about(&self, command: &str) -> String {
        about(self.globals, self.dir, command, self.plan.file.as_deref())
    }

    /// Shows a task.
    pub fn look(&self, task: &TaskId) -> String {
        self.about(&match self.plan.name {
            TreeName::File(_) => format!("inspect {task}"),
            TreeName::Tasks => format!("task show {task}"),
        })
    }

    /// Continues. The command that created an ad-hoc task would create another one.
    pub fn rerun(&self) -> String {
        match self.plan.name {
            TreeName::File(_) => next::rerun(self.globals),
            TreeName::Tasks => self.start(self.plan.tree.order(), ""),
        }
    }

    /// Gives a task that failed another budget, and all others that did.
    pub fn retry_failed(&self, failed: &TaskId) -> String {
        match self.plan.name {
            TreeName::File(_) => next::retry_failed(self.globals),
            TreeName::Tasks => self.start(std::slice::from_ref(failed), " --retry-failed"),
        }
    }

    /// The same for one task alone.
    pub fn retry_task(&self, failed: &TaskId) -> String {
        match self.plan.name {
            TreeName::File(_) => next::retry_task(self.globals, failed),
            TreeName::Tasks => self.retry_failed(failed),
        }
    }

    /// Answers a gate.
    pub fn answer(&self, gate: &str) -> String {
        match self.plan.name {
            TreeName::File(_) => next::answering(self.globals, gate),
            TreeName::Tasks => self.start(self.plan.tree.order(), &format!(" --answer {gate}=CHOICE")),
        }
    }

    /// A text whose commands work where pleach was started.
    pub fn with_location(&self, text: &str) -> String {
        next::with_location(self.globals, self.dir, self.plan.file.as_deref(), text)
    }

    fn start(&self, tasks: &[TaskId], options: &str) -> String {
        let ids: String = tasks.iter().map(|task| format!(" {task}")).collect();
        self.about(&format!("task start{ids}{options}"))
    }
}
