//! Requests for tasks.

use super::GH;
use crate::tasks::{start, task, world};

#[test]
fn a_finished_task_has_a_request_until_it_has_landed() {
    let garden = world();
    let env = &garden.env;
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"]);
    env.git(&["remote", "add", "origin", "../remote.git"]);
    env.write_program("bin/gh", GH);
    let id = task(env, "Grow a leaf\n\nA green one.", &[]);
    env.pleach(&["pr", &id]).expect(2).fails_with("nothing-to-request").naming("nobody has worked on");
    // A lock of git's holds its landing up.
    env.be_impatient();
    env.write("repo/.git/index.lock", "");
    start(&garden, &[&id]).expect(5);
    // For remotes it has the usual patience.
    let mut command = env.command(&["pr", &id]);
    let ran = env.finish(command.env_remove("PLEACH_PATIENCE_MS").output().expect("pleach can be started")).expect(0);
    assert_eq!(ran.stdout, "opened https://github.example/o/r/pull/7\n");
    let branch = format!("refs/heads/pleach/tasks/main/{id}");
    let remote = env.root().join("remote.git");
    assert_eq!(env.git_in(&remote, &["rev-parse", &branch]), env.git(&["rev-parse", &branch]));
    let log = env.read("gh.log");
    assert!(log.contains("--title=Grow a leaf\n") && !log.contains("--draft"), "{log}");
    let body = env.read("body-repo.md");
    for part in ["A green one.", "## Tests, reviews and other steps", "- review-approved", "- complete"] {
        assert!(body.contains(part), "{part}: {body}");
    }
    std::fs::remove_file(env.repo_path().join(".git/index.lock")).unwrap();
    start(&garden, &[&id]).expect(0);
    env.pleach(&["pr", &id]).expect(2).fails_with("nothing-to-request").naming("has landed on");
}
