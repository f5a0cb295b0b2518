//! The commands around task trees: making one, looking at one, and what people decide about its tasks.

mod arborist;
mod building;
mod deciding;
mod editing;
mod looking;
pub mod page;
mod sessions;

use crate::support::{Ran, TestEnv};

/// A tree of two phases, the second with tests of its own.
pub const TREE: &str = r#"{"nodes": {
    "phase1": {"id": "phase1", "name": "Ground", "children": ["T001", "T002"]},
    "T001": {"id": "T001", "name": "Add one", "parent": "phase1", "description": "write one.txt",
             "test_commands": [{"command": "test -f one.txt"}]},
    "T002": {"id": "T002", "name": "Add two", "parent": "phase1", "depends_on": ["T001"]},
    "phase2": {"id": "phase2", "name": "Walls", "children": ["T003"], "depends_on": ["phase1"],
               "test_commands": [{"type": "integration", "command": "test -f three.txt"}]},
    "T003": {"id": "T003", "name": "Add three", "parent": "phase2"}
}}"#;

/// An agent that does what the tasks of [`TREE`] ask for, and approves of it.
pub const AGENT: &str = r#"#!/bin/sh
prompt=$(cat)
case $prompt in
    "Review"*) echo "APPROVED" ;;
    *"task T001"*) echo 1 > one.txt; echo "one is there" ;;
    *"task T002"*) echo 2 > two.txt; echo "two is there" ;;
    *"task T003"*) echo 3 > three.txt; echo "three is there" ;;
    *) echo "nothing to do" ;;
esac
"#;

/// A repository with a tree and an agent for it, both committed.
pub fn world(tree: &str, agent: &str) -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/task-tree.json", tree);
    let program = env.write_program("agent.sh", agent);
    env.write("repo/pleach.yaml", format!("agent: \"command:{}\"\n", program.display()));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Add a tree"]);
    env
}

/// Runs `pleach -y` and expects an exit code.
#[track_caller]
pub fn pleach(env: &TestEnv, code: i32, args: &[&str]) -> Ran {
    env.pleach(&[&["-y"], args].concat()).expect(code)
}
