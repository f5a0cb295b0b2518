//! Kept work goes only when that is asked for.

use super::{clean, recorded, removed, stays};
use crate::support::TestEnv;

#[test]
fn keeps_go_only_with_purge() {
    let env = TestEnv::with_repo();
    let (first, _) = env.ended();
    assert_eq!(removed(&clean(&env, &[]), "keep"), [""; 0]);
    assert_eq!(env.keeps(), [format!("refs/pleach/keep/{first}-1")]);
    // What this cleanup keeps stays, what was kept before goes.
    let (second, _) = env.ended();
    let told = clean(&env, &["--purge"]);
    assert_eq!(removed(&told, "keep"), [format!("refs/pleach/keep/{first}-1")]);
    assert_eq!(env.keeps(), [format!("refs/pleach/keep/{second}-1")]);
    let recent = env.pleach(&["--json", "cleanup", "--purge", "--older-than", "1h"]).expect(0).json();
    assert_eq!(removed(&recent["data"], "keep"), [""; 0], "it is not old");
    assert_eq!(env.keeps().len(), 1);
}

#[test]
fn what_git_cannot_keep_stays_with_its_session() {
    let env = TestEnv::with_repo();
    let (session, worktree) = env.ended();
    let nested = worktree.join("nested");
    std::fs::create_dir(&nested).unwrap();
    env.git_in(&nested, &["init", "--quiet"]);
    std::fs::write(nested.join("file"), "x").unwrap();
    env.git_in(&nested, &["add", "."]);
    env.git_in(&nested, &["commit", "--quiet", "-m", "Mine"]);
    let told = clean(&env, &[]);
    assert_eq!(told["removed"], serde_json::json!([]));
    assert!(stays(&told)[0].1.contains("cannot be saved"), "{told}");
    assert_eq!(recorded(&env), [session]);
}
