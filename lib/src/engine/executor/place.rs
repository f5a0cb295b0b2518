//! Where the work of a session is done, and with what: what follows from its plan alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::engine::session::SessionPlan;
use crate::engine::task::shared_copy;
use crate::engine::{Engine, Error, RUN_DIR};
use crate::git::{Repo, TreeId};
use crate::ids::{CommitId, ContextId, PipelineName, RepoName, SessionId};
use crate::record;
use crate::state::State;
use crate::workspace::{WorkingCopy, agent_home, branch_ref};

impl SessionPlan {
    /// The repository that holds the record.
    pub(in crate::engine) fn repo(&self) -> &Repo {
        self.repos.get(&self.record_repo).expect("the repositories of a session are open")
    }

    /// The place of a context's worktrees, below that of all.
    pub(in crate::engine) fn place(&self, context: &ContextId) -> PathBuf {
        match &self.started.task {
            // The tasks of a target are worked on one after another, and share what git ignores: caches, builds. What forks
            // from one is worked beside it.
            Some(task) if *context == record::root() => shared_copy(&task.target),
            _ => Path::new(self.id.as_str()).join(context.as_str()),
        }
    }

    /// The directory agents of a context work in.
    pub(in crate::engine) fn root(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        engine.worktree_base(self.repo(), &self.record_repo).join(self.place(context))
    }

    /// The directory of a context's agents.
    pub(in crate::engine) fn agent_home(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        agent_home(&engine.supervisor.state_dir, self.repo().common_dir(), &self.id).join(context.as_str())
    }

    /// The files of the newest recorded commits.
    pub(in crate::engine) fn trees(&self, state: &State) -> Result<BTreeMap<RepoName, TreeId>, Error> {
        let tree = |(name, commit): (&RepoName, &CommitId)| {
            let repo = self.repos.get(name).unwrap_or(self.repo());
            Ok((name.clone(), repo.tree_of(*commit)?))
        };
        state.work.iter().map(tree).collect()
    }

    /// The variables of the pipeline, for commands: their shell expands `$goal`, so that no text becomes a command.
    pub(in crate::engine) fn variables(&self) -> Vec<(String, String)> {
        let goal = std::iter::once(("goal".to_owned(), self.started.goal.clone()));
        let inputs = goal.chain(self.started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }
}

/// The directory beside the worktrees in which the nodes of a context find what earlier ones left.
pub(in crate::engine) fn run_dir(root: &Path, context: &ContextId) -> PathBuf {
    root.with_file_name(RUN_DIR).join(context.as_str())
}

/// How long a variable of the environment may be: systems refuse to start a program that has one of 128 KiB.
const LONGEST_VARIABLE: usize = 100_000;

/// A text as a variable of the environment can hold it: its beginning, and U+FFFD for NUL.
fn for_environment(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(LONGEST_VARIABLE));
    text
}

/// What the names of pleach's branches begin with, and of what was kept of a session. Other sessions move refs of theirs
/// meanwhile; its own are checked where they are moved.
pub(in crate::engine) fn own_refs(
    copy: &WorkingCopy,
    pipeline: &PipelineName,
    session: &SessionId,
) -> (String, String) {
    let branch = branch_ref(&copy.branch);
    let of_session = format!("{pipeline}/{session}");
    let own = match (branch.strip_suffix(&of_session), branch.rfind('/')) {
        (Some(sessions), _) => sessions,
        // The branches of tasks are the run's that works on them, one after another.
        (None, Some(end)) => &branch[..=end],
        (None, None) => &branch,
    };
    (own.to_owned(), format!("{}{session}-", crate::workspace::KEEP))
}
