//! Every crash point of a run, one after another: the test is the command line's own, too long for every commit.

use std::path::Path;

use crate::{Done, cargo};

const TEST: [&str; 9] =
    ["test", "--package", "pleach-cli", "--test", "it", "crash::sweep", "--", "--ignored", "--nocapture"];

/// Runs the sweep and passes its output and exit code on.
pub fn run(root: &Path) -> Done {
    cargo::pass_through(root, &TEST)
}
