//! Crash points, in a process of their own: this test program again.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use git::crash;
use pleach_core::config::Environment;

use super::{Sandbox, record, spec};

/// One turn with everything that has a crash point. Runs in the process that is to die.
#[test]
#[ignore = "is started by the tests beside it"]
fn child() {
    let environment = Environment::capture();
    let Some(dir) = environment.get("PLEACH_TEST_REPO") else { return };
    crash::install(&environment).unwrap();
    let repo = git::discover(Path::new(dir), &environment).unwrap();
    let base = repo.head().unwrap().commit;
    let mut worktree = git::worktree::open(&repo, &Path::new(dir).join("../work")).unwrap();
    fs::write(worktree.root().join("a.txt"), "turn\n").unwrap();
    let written = record(&repo, &mut worktree);
    let mut writer = repo.writer();
    let commit = writer.commit(&spec(written.tree, &[base], "turn")).unwrap();
    writer.flush().unwrap();
    for name in ["refs/pleach/sessions/abcdefgh/main", "refs/heads/session"] {
        match repo.refs().find(name).unwrap() {
            None => repo.refs().swap(name, None, commit, "turn").unwrap(),
            Some(there) => assert_eq!(there, commit),
        }
    }
    git::worktree::follow(&mut worktree, commit).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a process that dies cannot be this one")]
fn run_child(sandbox: &Sandbox, crash: &str, trace: &Path) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "git::crash::child", "--ignored", "--quiet"])
        .env_clear()
        .envs(sandbox.variables())
        .env("PLEACH_TEST_REPO", sandbox.path("repo"))
        .env("PLEACH_CRASH", crash)
        .env("PLEACH_CRASH_TRACE", trace)
        .output()
        .unwrap()
        .status
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    git::worktree::add(&repo, &sandbox.path("work"), repo.head().unwrap().commit).unwrap();
    sandbox
}

#[test]
fn a_turn_can_be_repeated_after_every_crash_point() {
    let whole = sandbox();
    let trace = whole.path("trace");
    assert!(run_child(&whole, "", &trace).success());
    let points: Vec<String> = fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect();
    let tip = whole.git("repo", &["rev-parse", "session"]);
    let count = |kind: &str| points.iter().filter(|line| line.contains(kind)).count();
    assert_eq!(points[0], "1 object-write:before:1");
    // A blob, a tree, a commit; two refs; HEAD and index.
    assert_eq!(["object-write", "ref-swap", "head-update", "index-update"].map(count), [6, 4, 2, 2], "{points:?}");
    for (number, line) in points.iter().enumerate() {
        let sandbox = sandbox();
        let point = line.split_once(' ').unwrap().1;
        let by_number = format!("any:{}", number + 1);
        let target = if number % 2 == 0 { point } else { &by_number };
        let trace = sandbox.path("trace");
        assert!(!run_child(&sandbox, target, &trace).success(), "{target}");
        assert_eq!(fs::read_to_string(&trace).unwrap().lines().last().unwrap(), line);
        // A lock it died with is in nobody's way, once it is old enough.
        for name in ["refs/pleach/sessions/abcdefgh/main", "refs/heads/session"] {
            let lock = sandbox.path("repo/.git").join(format!("{name}.lock"));
            if lock.exists() {
                assert!(line.ends_with("ref-swap:before:1") || line.ends_with("ref-swap:before:2"), "{line}");
                fs::File::create(&lock).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        assert!(run_child(&sandbox, "", &sandbox.path("again")).success(), "{line}");
        assert_eq!(sandbox.git("repo", &["rev-parse", "session"]), tip, "{line}");
        assert_eq!(sandbox.git("work", &["status", "--porcelain"]), "", "{line}");
        assert_eq!(sandbox.git("repo", &["fsck", "--no-dangling"]), "", "{line}");
    }
}
