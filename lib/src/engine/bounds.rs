//! What the commands of a node may touch, and the place for their temporary files.

use std::path::{Path, PathBuf};

use crate::process::Sandbox;
use crate::process::sandbox::{SandboxPolicy, SandboxScope};
use crate::workspace::Workspace;

/// The bounds of what works in a worktree, before it is known who.
#[derive(Debug)]
pub(super) struct SandboxBounds<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) workspace: &'a Workspace,
    pub(super) own: Vec<PathBuf>,
}

impl SandboxBounds<'_> {
    /// As the bounds of an agent with a home of its own.
    pub(super) fn of_agent(&self, home: &Path) -> Sandbox {
        self.within(|place| self.policy.of_agent(place)).with_write([home.to_owned()])
    }

    /// As the bounds of a command.
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

/// The bounds of an agent that works outside every repository, in a directory of its own.
pub(super) fn apart(policy: &SandboxPolicy, dir: &Path) -> Sandbox {
    policy.of_agent(SandboxScope { worktrees: &[dir], repositories: &[], own: &[] })
}
