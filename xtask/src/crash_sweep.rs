//! Every crash point of a run, one after another: the tests are the command line's own, too long for every commit.

use std::path::Path;

use crate::cargo;
use crate::usage::Done;

const TEST: [&str; 9] =
    ["test", "--package", "pleach-cli", "--test", "it", "--", "--ignored", "--nocapture", "--exact"];

/// What is killed.
#[derive(Debug, Clone, Copy)]
pub enum Sweep<'a> {
    /// A run of a pipeline.
    Pipeline,
    /// A run of a pipeline with parallel branches.
    Parallel,
    /// A run that goes back to a turn.
    Return,
    /// A replay from the middle of a fan-out.
    Replay,
    /// A run over a tree of tasks, several at once.
    Jobs {
        /// One in so many points is tried.
        every: &'a str,
    },
    /// A merge queue of fifty branches.
    Queue {
        /// One in so many points is tried.
        every: &'a str,
    },
    /// A session over several repositories, and its landing.
    Workspaces {
        /// One in so many points is tried.
        every: &'a str,
    },
    /// A run over a tree of tasks.
    Tree {
        /// One in so many points is tried.
        every: &'a str,
    },
}

/// Runs the sweep and passes its output and exit code on.
pub fn run(root: &Path, sweep: Sweep<'_>) -> Done {
    let (test, every) = match sweep {
        Sweep::Pipeline => ("crash::sweep", "1"),
        Sweep::Parallel => ("parallel::crash::sweep", "1"),
        Sweep::Return => ("time_travel::crash::sweep_of_a_return", "1"),
        Sweep::Replay => ("time_travel::crash::sweep_of_a_replay", "1"),
        Sweep::Jobs { every } => ("trees::jobs_crash::sweep", every),
        Sweep::Queue { every } => ("merge_queue::crash::sweep", every),
        Sweep::Workspaces { every } => ("workspaces::crash::sweep", every),
        Sweep::Tree { every } => ("tree_crash::sweep", every),
    };
    cargo::pass_through(root, &[&TEST[..], &[test]].concat(), &[("SWEEP_EVERY", every)])
}
