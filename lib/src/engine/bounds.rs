//! Sandbox bounds of a node's commands, and their temporary directory.

use std::path::{Path, PathBuf};

use crate::process::Sandbox;
use crate::process::sandbox::{SandboxPolicy, SandboxScope};
use crate::workspace::Workspace;

/// The bounds of a worktree, common to agents and commands.
#[derive(Debug)]
pub(super) struct SandboxBounds<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) workspace: &'a Workspace,
    pub(super) own: Vec<PathBuf>,
}

impl SandboxBounds<'_> {
    /// The bounds of an agent, which may also write to its own home.
    pub(super) fn of_agent(&self, home: &Path) -> Sandbox {
        self.within(|place| self.policy.of_agent(place)).with_write([home.to_owned()])
    }

    pub(super) fn of_command(&self) -> Sandbox {
        self.within(|place| self.policy.of_command(place))
    }

    fn within(&self, make: impl FnOnce(SandboxScope<'_>) -> Sandbox) -> Sandbox {
        let (mut worktrees, mut repositories) = (Vec::new(), Vec::new());
        for copy in self.workspace.copies() {
            let repository = copy.repo.common_dir();
            worktrees.push(copy.path());
            worktrees.extend(Some(copy.git_dir()).filter(|dir| dir != &repository));
            repositories.push(repository);
        }
        make(SandboxScope { worktrees: &worktrees, repositories: &repositories, own: &self.own })
    }
}

/// The bounds of an agent that works outside every repository, in its own directory.
pub(super) fn apart(policy: &SandboxPolicy, dir: &Path) -> Sandbox {
    policy.of_agent(SandboxScope { worktrees: &[dir], repositories: &[], own: &[] })
}
