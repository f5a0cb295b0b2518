//! What the commands of a node may touch, and the place for their temporary files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Engine;
use crate::process::Sandbox;
use crate::process::sandbox::{SandboxPolicy, SandboxScope};
use crate::workspace::{self, Scratch, Workspace};

/// The bounds of what works in a working copy, before it is known who.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    policy: &'a SandboxPolicy,
    workspace: &'a Workspace,
    own: Vec<PathBuf>,
}

impl Engine {
    /// A place for temporary files, where commands are bound and could not write to that of the system.
    pub(super) fn scratch(&self) -> Result<Option<Scratch>, workspace::Error> {
        self.sandbox.as_ref().map(|_| Scratch::make(&self.supervisor.state_dir)).transpose()
    }

    /// The variables by which programs find a directory for temporary files, and those of caches that are not shared.
    pub(super) fn temporary(&self, scratch: Option<&Scratch>) -> Vec<(OsString, Option<OsString>)> {
        let Some(dir) = scratch.map(Scratch::path) else { return Vec::new() };
        let files = ["TMPDIR", "TMP", "TEMP"].map(|name| (name, dir.to_owned()));
        let caches = self.sandbox.iter().flat_map(|policy| policy.own_caches(dir));
        files.into_iter().chain(caches).map(|(name, path)| (name.into(), Some(path.into()))).collect()
    }

    /// The bounds of what works in a workspace, if anything is bound: it may write there, to `scratch` and to `own`.
    pub(super) fn bounds<'a>(
        &'a self,
        workspace: &'a Workspace,
        scratch: Option<&Scratch>,
        own: impl IntoIterator<Item = PathBuf>,
    ) -> Option<Bounds<'a>> {
        let policy = self.sandbox.as_ref()?;
        let own = scratch.map(|scratch| scratch.path().to_owned()).into_iter().chain(own).collect();
        Some(Bounds { policy, workspace, own })
    }
}

impl Bounds<'_> {
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
