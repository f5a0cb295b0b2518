//! Killed anywhere, a session over several repositories comes to the same end, and a landing is whole.

use super::land::{done, tested};
use crate::parallel::fan;
use crate::sessions::tool;
use crate::support::{Checkout, TestEnv};

/// Three repositories that are pushed at every checkpoint.
const PUSHED: &str = "
workspace:
  repos:
    app: {path: repo, remote: remotes/repo.git, push: on_checkpoint}
    lib: {path: lib, remote: remotes/lib.git, push: on_checkpoint}
    web: {path: web, branch_prefix: orchestra/, remote: remotes/web.git, push: on_checkpoint}
record: {push_interval: 0}
";

/// Two branches that both write in two repositories, and a node after them that writes in one; the third has a file of the
/// first branch.
fn world() -> TestEnv {
    let env = TestEnv::with_two_repos();
    env.repo_at("lib");
    for name in ["repo", "lib", "web"] {
        let bare = env.root().join(format!("remotes/{name}.git"));
        env.git_in(&env.root().join(name), &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    }
    let body = tool("a", "echo 1 > app/a; echo 1 > lib/a; echo 1 > web/a")
        + &tool("b", "echo 2 > app/b; echo 2 > web/b")
        + &tool("last", "cat ../app/a b > sum").replace("tool_command", "repo=web, tool_command")
        + " join -> last -> exit";
    env.pipeline(&fan("wide", "", &["a", "b"], &body));
    env.configure(PUSHED);
    env
}

/// Whether the remotes have the branches of the only session as they are here, and its record.
fn is_pushed(env: &TestEnv) -> bool {
    let at = |dir: &std::path::Path, name: &str| env.git_in(dir, &["for-each-ref", "--format=%(objectname)", name]);
    let record = format!("refs/pleach/sessions/{}/main", env.session());
    let branch = |repo: &str| format!("refs/heads/{}", env.branch_in(repo));
    let refs = [("repo", record), ("repo", branch("app")), ("lib", branch("lib")), ("web", branch("web"))];
    let is_there = |(dir, name): &(&str, String)| {
        at(&env.root().join(dir), name) == at(&env.root().join(format!("remotes/{dir}.git")), name)
    };
    refs.iter().all(is_there)
}

const RUN: [&str; 3] = ["-y", "run", "../pipeline.dot"];

fn is_over(env: &TestEnv) -> bool {
    env.story().kinds().last() == Some(&"PipelineCompleted")
}

/// Runs the pipeline, dying at a crash point, and continues.
fn crash_at(point: &str) -> bool {
    let env = world();
    let repos = ["repo", "lib", "web"].map(|name| env.root().join(name));
    let before = repos.each_ref().map(|repo| Checkout::of(&env, repo));
    let ran = env.command(&RUN).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.success() {
        return false;
    }
    for _ in 0..3 {
        env.assert_no_process_left();
        match env.sessions().as_slice() {
            [] => env.pleach(&RUN),
            [_] if is_over(&env) && is_pushed(&env) => break,
            [sid] => env.pleach(&["-y", "resume", sid]),
            many => panic!("more than one session: {many:?}"),
        }
        .expect(0);
    }
    let files = |dir: &std::path::Path, repo: &str| {
        env.git_in(dir, &["ls-tree", "-r", "--name-only", &env.branch_in(repo)]).replace('\n', " ")
    };
    assert!(is_pushed(&env), "after dying at {point}");
    assert_eq!(files(&env.repo_path(), "app"), "README.md a b", "after dying at {point}");
    assert_eq!(files(&env.root().join("lib"), "lib"), "README.md a", "after dying at {point}");
    assert_eq!(files(&env.web(), "web"), "README.md a b sum", "after dying at {point}");
    assert_eq!(env.committed_in_web("sum"), "1\n2", "after dying at {point}");
    for (checkout, repo) in before.iter().zip(&repos) {
        checkout.assert_unchanged(&env, repo);
        assert_eq!(env.git_in(repo, &["fsck", "--strict", "--no-dangling"]), "", "after dying at {point}");
    }
    true
}

#[test]
fn every_kind_of_crash_point_over_several_repos() {
    let kinds = [
        ("object-write", [7, 40]),
        ("ref-swap", [3, 14]),
        ("head-update", [1, 3]),
        ("index-update", [1, 4]),
        ("push", [4, 2]),
    ];
    // Side by side: by its name this test is the last to begin, and all others are done before it is.
    std::thread::scope(|scope| {
        for (kind, numbers) in kinds {
            scope.spawn(move || {
                for (when, number) in ["before", "after"].into_iter().zip(numbers) {
                    let point = format!("{kind}:{when}:{number}");
                    assert!(crash_at(&point), "the run never came to {point}");
                }
            });
        }
    });
}

/// Lands, dying at a crash point, and lets the next command finish it.
fn crash_landing_at(point: &str) -> bool {
    let env = done(&tested());
    let sid = env.session();
    let ran = env.command(&["-y", "land", &sid]).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.success() {
        return false;
    }
    env.assert_no_process_left();
    // Any start finishes what was begun; what was not is landed by the same command.
    let cut_off = env.versions();
    let body = tool("look", "true") + "start -> look -> exit";
    env.run(&crate::sessions::graph("look", &body), &[]).expect(0);
    let [app, web] = env.versions();
    assert_eq!(app, web, "after dying at {point}, which left {cut_off:?}");
    env.pleach(&["-y", "land", &sid]).expect(0);
    assert_eq!(env.versions(), ["2", "2"], "after dying at {point}");
    for repo in [env.repo_path(), env.web()] {
        assert_eq!(env.git_in(&repo, &["status", "--porcelain"]), "", "after dying at {point}");
        assert_eq!(env.git_in(&repo, &["rev-list", "--count", "--merges", "main"]), "1", "after dying at {point}");
    }
    true
}

#[test]
fn every_kind_of_crash_point_of_a_landing() {
    for point in ["landing:before:1", "landing:after:1", "landing:before:2", "landing:after:2", "ref-swap:after:5"] {
        assert!(crash_landing_at(point), "the landing never came to {point}");
    }
}

/// Dies at every point, one after another, or at one in `SWEEP_EVERY`. Run by `cargo xtask crash-sweep workspaces`.
#[test]
#[ignore = "takes minutes: every crash point of a run and of a landing"]
#[expect(clippy::disallowed_methods, reason = "whoever sweeps says how thoroughly")]
fn sweep() {
    let every: usize = std::env::var("SWEEP_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(1);
    for crash in [crash_at as fn(&str) -> bool, crash_landing_at] {
        let survived = (1..).step_by(every).take_while(|number| crash(&format!("any:{number}"))).count();
        println!("survived {survived} points, one in {every}");
        assert!(survived > 5);
    }
}
