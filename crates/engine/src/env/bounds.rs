//! What surrounds the commands of a worktree: their sandbox bounds, and the variables that keep git in its place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agents::agent::RepoContext;
use git::workspace::{WorkingCopy, Workspace};
use os::process::Sandbox;
use os::process::sandbox::{SandboxPolicy, SandboxScope};

/// The bounds of a worktree, common to agents and commands.
#[derive(Debug)]
pub(crate) struct SandboxBounds<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) workspace: &'a Workspace,
    pub(super) own: Vec<PathBuf>,
}

impl SandboxBounds<'_> {
    /// The bounds of an agent, which may also write to its own home.
    pub(crate) fn of_agent(&self, home: &Path) -> Sandbox {
        self.within(|place| self.policy.of_agent(place)).with_write([home.to_owned()])
    }

    pub(crate) fn of_command(&self) -> Sandbox {
        self.within(|place| self.policy.of_command(place))
    }

    fn within(&self, make: impl FnOnce(SandboxScope<'_>) -> Sandbox) -> Sandbox {
        let (mut worktrees, mut repositories) = (Vec::new(), Vec::new());
        // Several worktrees are found through the directory that holds them.
        let mut beside = vec![self.workspace.root().to_owned()];
        for copy in self.workspace.copies() {
            if !self.workspace.is_writable(&copy.name) {
                beside.extend([copy.path().to_owned(), copy.repo.common_dir().to_owned()]);
                continue;
            }
            let repository = copy.repo.common_dir();
            worktrees.push(copy.path());
            worktrees.extend(Some(copy.git_dir()).filter(|dir| dir != &repository));
            repositories.push(repository);
        }
        make(SandboxScope { worktrees: &worktrees, repositories: &repositories, own: &self.own }).with_read(beside)
    }
}

/// The bounds of an agent that works outside every repository, in its own directory.
pub(crate) fn apart(policy: &SandboxPolicy, dir: &Path) -> Sandbox {
    policy.of_agent(SandboxScope { worktrees: &[dir], repositories: &[], own: &[] })
}

/// The repositories of a workspace, as what runs there is told of them: what may write at all, and where.
pub(crate) fn repo_contexts(workspace: &Workspace, writes: bool) -> Vec<RepoContext> {
    let context = |copy: &WorkingCopy| RepoContext {
        name: copy.name.clone(),
        path: copy.path().to_owned(),
        branch: copy.branch.clone(),
        commit: copy.at().tip,
        dirty: copy.is_dirty(),
        writable: writes && workspace.is_writable(&copy.name),
    };
    workspace.copies().map(context).collect()
}

/// The variables of whatever runs in a worktree: who it is for git, and where git must not go.
pub(crate) fn git_variables(who: &str, root: &Path) -> Vec<(OsString, Option<OsString>)> {
    let above = root.parent().unwrap_or(root);
    let set = |key: &str, value: &str| (OsString::from(key), Some(OsString::from(value)));
    vec![
        set("GIT_AUTHOR_NAME", who),
        set("GIT_AUTHOR_EMAIL", "orchestra@local"),
        set("GIT_COMMITTER_NAME", who),
        set("GIT_COMMITTER_EMAIL", "orchestra@local"),
        set("GIT_CONFIG_COUNT", "3"),
        set("GIT_CONFIG_KEY_0", "commit.gpgsign"),
        set("GIT_CONFIG_VALUE_0", "false"),
        // Only the user tidies up the repository; in a sandbox, git would only leave its lock behind.
        set("GIT_CONFIG_KEY_1", "gc.auto"),
        set("GIT_CONFIG_VALUE_1", "0"),
        set("GIT_CONFIG_KEY_2", "maintenance.auto"),
        set("GIT_CONFIG_VALUE_2", "false"),
        // git must not walk up into another repository when an agent removes its `.git`.
        (OsString::from("GIT_CEILING_DIRECTORIES"), Some(above.as_os_str().to_owned())),
        // Some programs trust this more than their working directory.
        (OsString::from("PWD"), Some(root.as_os_str().to_owned())),
    ]
}
