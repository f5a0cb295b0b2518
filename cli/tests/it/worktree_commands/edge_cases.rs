//! The edge cases of the review, named after them.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{one, paths};
use crate::parallel::{fan, linked};
use crate::sessions::{Gate, tool};
use crate::support::TestEnv;

/// Has git end as it does when there is no room for the second file of a worktree, until the program is removed.
fn fill_disk(env: &TestEnv) -> PathBuf {
    let full = "case \" $* \" in *' read-tree --reset '*) printf hal > README.md; \
        echo 'error: unable to create file large: No space left on device' >&2; exit 128;; esac\n";
    let git = env.git(&["--exec-path"]);
    env.write_program("bin/git", &format!("#!/bin/sh\n{full}exec '{git}/git' \"$@\"\n"))
}

#[test]
fn disk_full_leaves_no_half_made_worktree() {
    let env = TestEnv::with_repo();
    let works = env.root().join("works");
    env.configure(&format!("sandbox: {{rw: ['{}']}}\n", env.root().display()));
    let dot = one(&format!("test -e '{}'", works.display()));
    let git = fill_disk(&env);
    let started = env.run(&dot, &[]).expect(7);
    started.fails_with("worktree-failed").naming("No space left on device").naming("free some space");
    assert_eq!((linked(&env).len(), env.listed().len()), (0, 0), "nothing half made is left");
    fs::remove_file(&git).unwrap();
    env.run(&dot, &[]).expect(1).does_not_warn("worktree-orphaned");
    env.prune(&[], 0);

    fill_disk(&env);
    env.resume(&[]).expect(7).fails_with("worktree-failed").naming("No space left on device");
    assert_eq!((linked(&env).len(), env.listed().len()), (0, 0), "nothing half made is left");
    fs::remove_file(&git).unwrap();
    fs::write(&works, "").unwrap();
    env.resume(&[]).expect(0).does_not_warn("worktree-orphaned");
    assert_eq!((env.states(), env.keeps().len()), (vec!["idle".to_owned()], 0));
    assert_eq!(env.git_in(&env.worktree(), &["status", "--porcelain"]), "");
}

#[test]
fn a_nested_repository_stays_and_is_named() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let (_, nested) = env.ended();
    env.ended();
    let inner = nested.join("inner");
    fs::create_dir(&inner).unwrap();
    env.git_in(&inner, &["init", "--quiet"]);
    fs::write(inner.join("precious"), "mine\n").unwrap();
    let (ran, pruned) = env.prune(&[], 1);
    ran.warns_once("not-removed").naming(inner.display().to_string());
    assert_eq!(pruned["stays"][0]["reason"]["code"], "unsaved");
    assert_eq!((paths(&pruned["removed"]).len(), linked(&env).len()), (1, 1), "the other one goes");
    assert_eq!(fs::read_to_string(inner.join("precious")).unwrap(), "mine\n");
}

#[test]
fn unpublished_submodule_work_stays_and_is_named() {
    let env = TestEnv::with_repo();
    let other = env.repo_at("other");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.to_str().unwrap(), "sub"];
    env.git(&add);
    env.git(&["commit", "--quiet", "-m", "With a submodule"]);
    let (_, worktree) = env.ended();
    let update = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"];
    env.git_in(&worktree, &update);
    let (_, dry) = env.prune(&["--dry-run"], 0);
    assert_eq!(paths(&dry["removed"]).len(), 1, "a submodule as it should be is no obstacle: {dry}");
    fs::write(worktree.join("sub/precious"), "mine\n").unwrap();
    let (ran, pruned) = env.prune(&[], 1);
    ran.warns_once("not-removed").naming("sub/precious");
    assert_eq!((&pruned["stays"][0]["reason"]["code"], worktree.is_dir()), (&json!("unsaved"), true));
}

#[test]
fn commits_on_no_branch_are_kept() {
    for is_missing in [false, true] {
        let env = TestEnv::with_repo();
        let (gone, worktree) = env.ended();
        fs::write(worktree.join("own"), "committed\n").unwrap();
        env.git_in(&worktree, &["add", "own"]);
        env.git_in(&worktree, &["commit", "--quiet", "-m", "By hand"]);
        env.forget(&gone);
        if is_missing {
            fs::remove_dir_all(&worktree).unwrap();
        }
        let (_, pruned) = env.prune(&[], 0);
        let kept = format!("refs/pleach/keep/{gone}-1");
        assert_eq!(pruned["removed"][0]["kept"], json!({"ref": kept, "uncommitted": []}), "{pruned}");
        assert_eq!(env.git(&["show", &format!("{kept}:own")]), "committed");
        let locks = fs::read_dir(env.repo_path().join(".git/pleach/lock")).unwrap().count();
        assert_eq!((locks, linked(&env).len()), (0, 0), "nothing is left of it");
    }
}

#[test]
fn something_in_place_of_a_worktree_stays() {
    let env = TestEnv::with_repo();
    let (gone, worktree) = env.ended();
    env.forget(&gone);
    fs::remove_dir_all(&worktree).unwrap();
    fs::write(&worktree, "mine\n").unwrap();
    let (_, pruned) = env.prune(&["--force"], 1);
    assert_eq!(pruned["stays"][0]["reason"]["code"], "replaced", "{pruned}");
    assert_eq!(fs::read_to_string(&worktree).unwrap(), "mine\n");
}

#[test]
fn a_worktree_without_its_git_link_is_pruned_too() {
    for breaks in ["rm .git", "echo nonsense > .git", "rm \"$G/HEAD\""] {
        let env = TestEnv::with_repo();
        let (gone, worktree) = env.ended();
        let admin = env.git_in(&worktree, &["rev-parse", "--absolute-git-dir"]);
        fs::write(worktree.join("precious"), "uncommitted\n").unwrap();
        env.forget(&gone);
        let broken = env.program("sh", &worktree).args(["-c", &format!("G='{admin}'; {breaks}")]).status();
        assert!(broken.expect("sh can be started").success());
        let (ran, pruned) = env.prune(&[], 0);
        assert_eq!(
            pruned["removed"][0]["kept"]["uncommitted"].as_array().map(|all| all.contains(&json!("precious"))),
            Some(true),
            "{breaks}: {ran}"
        );
        assert_eq!(linked(&env).len(), 0, "{breaks}");
        assert_eq!(env.git(&["show", &format!("{}:precious", env.keeps()[0])]), "uncommitted");
    }
}

#[test]
fn a_damaged_record_leaves_its_worktree() {
    let env = TestEnv::with_repo();
    let (session, worktree) = env.ended();
    let head = env.git(&["rev-parse", "main"]);
    env.git(&["update-ref", &format!("refs/pleach/sessions/{session}/main"), &head]);
    assert_eq!(env.states(), ["idle"]);
    let (ran, pruned) = env.prune(&[], 7);
    ran.warns_once("not-removed").naming(&session);
    assert_eq!((&pruned["stays"][0]["reason"]["code"], worktree.is_dir()), (&json!("failed"), true));
}

#[test]
fn a_bare_repository_lists_and_prunes_too() {
    let env = TestEnv::new();
    env.repo_at("from");
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "from", "repo"]);
    env.configure("");
    env.run(&one("echo 1 > made"), &[]).expect(0);
    assert_eq!(env.states(), ["idle"]);
    env.prune(&[], 0);
    assert_eq!(env.listed().len(), 0);
}

#[test]
fn an_unborn_head_is_refused() {
    let env = TestEnv::new();
    env.git_in(env.root(), &["init", "--quiet", "repo"]);
    for command in ["list", "prune"] {
        env.pleach(&["worktree", command]).expect(2).fails_with("repository-unsupported");
    }
}

#[test]
fn outside_a_repository_there_is_nothing_to_list() {
    let env = TestEnv::new();
    for command in ["list", "prune"] {
        env.pleach(&["worktree", command]).expect(2).fails_with("not-a-repository");
    }
    env.pleach(&["worktree"]).expect(2);
}

#[test]
fn worktrees_share_the_objects_of_their_repository() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt; false") + &tool("b", "echo b > b.txt; false") + " join -> exit";
    env.run(&fan("both", "", &["a", "b"], &body), &[]).expect(1);
    let (all, objects) = (linked(&env), env.repo_path().join(".git/objects"));
    assert_eq!(all.len(), 3);
    for worktree in all {
        let used = env.git_in(worktree.as_ref(), &["rev-parse", "--path-format=absolute", "--git-path", "objects"]);
        assert_eq!(PathBuf::from(used), objects, "{worktree}");
    }
}

#[test]
fn concurrent_prunes_disturb_nobody() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let gate = Gate::new(&env, "tool");
    for _ in 0..3 {
        env.ended();
    }
    let mut run = env.start(&one(&format!("echo 1 > made; {}", gate.command())), &[]);
    let held = gate.reached(&mut run);
    let prunes = [(); 3].map(|()| env.spawn(&["worktree", "prune", "--force"]));
    for prune in prunes {
        prune.end().expect(0);
    }
    assert_eq!(env.states(), ["used"]);
    gate.open(held);
    run.end().expect(0);
}
