//! Every start names and repairs what killed runs and removed sessions left.

use std::fs;

use super::one;
use crate::parallel::linked;
use crate::support::TestEnv;
use crate::trees::garden::{Garden, Tree};

/// Leaves an orphaned worktree with uncommitted work, and a missing one.
fn leave_two(env: &TestEnv) -> [String; 2] {
    env.configure("worktrees: {pool: 10}\n");
    let (gone, orphaned) = env.ended();
    let (_, missing) = env.ended();
    fs::write(orphaned.join("precious"), "uncommitted\n").unwrap();
    env.forget(&gone);
    fs::remove_dir_all(&missing).unwrap();
    [orphaned, missing].map(|path| path.display().to_string())
}

#[test]
fn orphaned_worktree() {
    let env = TestEnv::with_repo();
    let [orphaned, missing] = leave_two(&env);
    assert_eq!(env.states(), ["orphaned", "missing"]);
    let ran = env.run(&one("echo 2 > made"), &[]).expect(0);
    let kept = env.keeps();
    ran.warns("worktree-orphaned").naming(&orphaned).naming(&missing).naming(&kept[0]);
    assert_eq!(env.git(&["show", &format!("{}:precious", kept[0])]), "uncommitted");
    assert_eq!(env.states(), ["idle"]);
    env.run(&one("echo 3 > made"), &[]).expect(0).does_not_warn("worktree-orphaned");
}

#[test]
fn missing_worktree() {
    let env = TestEnv::with_repo();
    let (_, missing) = env.ended();
    fs::remove_dir_all(&missing).unwrap();
    assert_eq!(env.states(), ["missing"]);
    env.prune(&[], 0);
    assert_eq!((env.listed().len(), linked(&env).len()), (0, 0), "git knows it no more");
}

#[test]
fn a_worktree_is_half_made_after_a_kill() {
    for crash in ["head-update:before:1", "head-update:after:1"] {
        let env = TestEnv::with_repo();
        env.configure("worktrees: {pool: 10}\n");
        env.pipeline(&one("echo 1 > made"));
        let mut run = env.command(&["-y", "run", "../pipeline.dot"]);
        let died = run.env("PLEACH_CRASH", crash).output().expect("pleach can be started");
        assert!(!died.status.success());
        let killed = env.session();
        let was_listed = env.states();
        let ran = env.run(&one("echo 2 > made"), &[]).expect(0);
        match was_listed.as_slice() {
            [] => {}
            [state] => {
                assert_eq!(state, "orphaned");
                ran.warns_once("worktree-orphaned").naming(&killed);
            }
            more => panic!("{more:?}"),
        }
        assert_eq!(env.keeps(), [""; 0], "nobody had worked there");
        assert_eq!(env.states(), ["idle"], "{crash}");
        env.pleach(&["-y", "resume", &killed]).expect(0).does_not_warn("worktree-orphaned");
    }
}

#[test]
fn a_start_of_tasks_repairs_as_well() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let (gone, orphaned) = garden.env.ended();
    garden.env.forget(&gone);
    let ran = garden.gardener(&[]).expect(0);
    ran.warns_once("worktree-orphaned").naming(orphaned.display().to_string());
    assert_eq!(garden.env.states(), ["idle"]);
}
