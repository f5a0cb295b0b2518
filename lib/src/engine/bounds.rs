//! What the commands of a node may touch, and the place for their temporary files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Engine;
use crate::process::Sandbox;
use crate::process::sandbox::{Place, Policy};
use crate::workspace::{self, Scratch, WorkingCopy};

/// The bounds of what works in a working copy, before it is known who.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    policy: &'a Policy,
    copy: &'a WorkingCopy,
    own: Vec<PathBuf>,
}

impl Engine {
    /// A place for temporary files, where commands are bound and could not write to that of the system.
    pub(super) fn scratch(&self) -> Result<Option<Scratch>, workspace::Error> {
        self.sandbox.as_ref().map(|_| Scratch::make(&self.state_dir)).transpose()
    }

    /// The variables by which programs find a directory for temporary files, and those of caches that are not shared.
    pub(super) fn temporary(&self, scratch: Option<&Scratch>) -> Vec<(OsString, Option<OsString>)> {
        let Some(dir) = scratch.map(Scratch::path) else { return Vec::new() };
        let files = ["TMPDIR", "TMP", "TEMP"].map(|name| (name, dir.to_owned()));
        let caches = self.sandbox.iter().flat_map(|policy| policy.own_caches(dir));
        files.into_iter().chain(caches).map(|(name, path)| (name.into(), Some(path.into()))).collect()
    }

    /// The bounds of what works in `copy`, if anything is bound: it may write there, to `scratch` and to `own`.
    pub(super) fn bounds<'a>(
        &'a self,
        copy: &'a WorkingCopy,
        scratch: Option<&Scratch>,
        own: impl IntoIterator<Item = PathBuf>,
    ) -> Option<Bounds<'a>> {
        let policy = self.sandbox.as_ref()?;
        let own = scratch.map(|scratch| scratch.path().to_owned()).into_iter().chain(own).collect();
        Some(Bounds { policy, copy, own })
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

    fn within(&self, make: impl FnOnce(Place<'_>) -> Sandbox) -> Sandbox {
        let repository = self.copy.repo.common_dir();
        let place = Place {
            worktree: self.copy.path(),
            admin: Some(self.copy.git_dir()).filter(|dir| dir != &repository),
            repository: Some(repository),
            own: &self.own,
        };
        make(place)
    }
}

/// The bounds of an agent that works outside every repository, in a directory of its own.
pub(super) fn apart(policy: &Policy, dir: &Path) -> Sandbox {
    policy.of_agent(Place { worktree: dir, admin: None, repository: None, own: &[] })
}
