//! The walks in `examples/manual/`, as somebody would do them by hand.

use std::path::Path;

use crate::support::TestEnv;

#[track_caller]
fn walk(script: &str) {
    let env = TestEnv::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/manual");
    let program = Path::new(env!("CARGO_BIN_EXE_pleach")).parent().expect("a directory");
    let mut command = env.program("sh", env.root());
    let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path).expect("a path");
    let path = [program.as_os_str(), path].join(std::ffi::OsStr::new(":"));
    let output = command.arg(root.join(script)).env("PATH", path).output().expect("sh can be started");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).join("\n");
    assert!(output.status.success(), "{script}: {said}");
    assert!(said.contains("ok: ") && !said.contains("FAILED"), "{script}: {said}");
}

#[test]
fn manual_test_1_session_branches() {
    walk("1-session-branches.sh");
}

#[test]
fn manual_test_2_parallel_worktrees() {
    walk("2-parallel-worktrees.sh");
}

#[test]
fn manual_test_3_resume_at_node_boundary() {
    walk("3-resume-at-node-boundary.sh");
}

#[test]
fn manual_resume_at_agent_turn() {
    walk("3b-resume-at-agent-turn.sh");
}

#[test]
fn manual_test_4_cleanup() {
    walk("4-cleanup.sh");
}

#[test]
fn manual_test_5_remote_operations() {
    walk("5-remote-operations.sh");
}
