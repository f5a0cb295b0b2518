//! Every crash point of a run, one after another: the tests are the command line's own, too long for every commit.

use std::path::Path;

use crate::{Done, cargo};

const TEST: [&str; 9] =
    ["test", "--package", "pleach-cli", "--test", "it", "--", "--ignored", "--nocapture", "--exact"];

/// What is killed.
#[derive(Debug, Clone, Copy)]
pub enum Sweep {
    /// A run of a pipeline.
    Pipeline,
    /// A run over a tree of tasks.
    Tree,
}

/// Runs the sweep and passes its output and exit code on.
pub fn run(root: &Path, sweep: Sweep) -> Done {
    let test = match sweep {
        Sweep::Pipeline => "crash::sweep",
        Sweep::Tree => "tree_crash::sweep",
    };
    cargo::pass_through(root, &[&TEST[..], &[test]].concat())
}
