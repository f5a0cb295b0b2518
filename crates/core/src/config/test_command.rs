//! Which test is meant: `test_command` is that of all work, unless a section has its own. An empty one is none.

use super::model::Config;

impl Config {
    /// The test of prompts, and of tasks without a test of their own.
    pub fn test_of_work(&self) -> Option<&str> {
        command(self.tree.test_command.as_ref().or(self.test_command.as_ref()))
    }

    /// The test every merge must pass, whatever it brings.
    pub fn test_of_all_merges(&self) -> Option<&str> {
        command(self.merge.test_command.as_ref())
    }

    /// The test of merges that bring none.
    pub fn test_of_other_merges(&self) -> Option<&str> {
        command(self.merge.test_command.as_ref().or(self.test_command.as_ref()))
    }

    /// The test of what lands in several repositories together.
    pub fn test_of_joint_landings(&self) -> Option<&str> {
        command(self.workspace.test_command.as_ref())
    }
}

fn command(given: Option<&String>) -> Option<&str> {
    given.map(String::as_str).filter(|command| !command.trim().is_empty())
}
