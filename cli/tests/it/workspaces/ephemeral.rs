//! Machines that vanish: a session is pushed at every checkpoint and goes on elsewhere from what the remotes have.

use std::fs;
use std::path::{Path, PathBuf};

use crate::parallel::fan;
use crate::remotes::wait_until;
use crate::sessions::{Gate, Story, graph, tool};
use crate::support::{Ran, TestEnv};

/// Two repositories that are cloned from bare ones, with pushes at every checkpoint.
const REMOTES: &str = "
workspace:
  repos:
    app: {path: repo, remote: ../remotes/app.git, push: on_checkpoint}
    web: {path: web, remote: ../remotes/web.git, push: on_checkpoint}
record: {push_interval: 0}
";

/// A machine: a directory with settings, and a state of its own.
struct Machine<'a> {
    env: &'a TestEnv,
    dir: PathBuf,
}

impl<'a> Machine<'a> {
    fn new(env: &'a TestEnv, name: &str) -> Self {
        let dir = env.root().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self { env, dir }
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.env.command(args);
        command.current_dir(&self.dir).env("XDG_STATE_HOME", self.dir.with_extension("state"));
        command
    }

    #[track_caller]
    fn pleach(&self, args: &[&str]) -> Ran {
        self.env.finish(self.command(args).output().expect("pleach can be started"))
    }

    /// Everything of it is gone.
    fn vanish(self) {
        fs::remove_dir_all(&self.dir).unwrap();
        let _ = fs::remove_dir_all(self.dir.with_extension("state"));
    }
}

/// Bare repositories `app` and `web`.
fn remotes() -> TestEnv {
    let env = TestEnv::new();
    for name in ["app", "web"] {
        let source = env.repo_at(&format!("sources/{name}"));
        let bare = env.root().join(format!("remotes/{name}.git"));
        env.git_in(&source, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    }
    env
}

fn bare(env: &TestEnv, name: &str) -> PathBuf {
    env.root().join(format!("remotes/{name}.git"))
}

/// The only session a remote has records of.
#[track_caller]
fn session_at(env: &TestEnv, dir: &Path) -> String {
    let refs = env.git_in(dir, &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    refs.split('/').nth(3).unwrap_or_else(|| panic!("no session in {refs:?}")).to_owned()
}

/// Runs a pipeline on a machine until it is held at a gate and the remotes have what it did, and lets the machine vanish.
/// Returns the session.
fn cut_off(env: &TestEnv, settings: &str, dot: &str, gate: &Gate, is_there: &dyn Fn() -> bool) -> String {
    let first = Machine::new(env, "first");
    fs::write(first.dir.join("pleach.yaml"), settings).unwrap();
    fs::write(first.dir.join("pipeline.dot"), dot).unwrap();
    let mut command = first.command(&["-y", "-q", "run", "pipeline.dot"]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut held = None;
    wait_until("the run is held at its gate", || {
        held = gate.held();
        held.is_some()
    });
    wait_until("the remotes have what it did", is_there);
    child.kill().unwrap();
    child.wait().unwrap();
    gate.stay_open();
    drop(held);
    env.assert_no_process_left();
    first.vanish();
    session_at(env, &bare(env, "app"))
}

/// Whether a remote has a branch with this at the end of its name.
fn has_branch(env: &TestEnv, remote: &str, end: &str) -> bool {
    let branches = env.git_in(&bare(env, remote), &["for-each-ref", "--format=%(refname)", "refs/heads/pleach"]);
    branches.lines().any(|branch| branch.ends_with(end))
}

#[test]
fn ephemeral_container_simulation() {
    let env = remotes();
    let settings = "
workspace:
  repos:
    app: {path: work/app, remote: ../remotes/app.git, push: on_checkpoint}
record: {push_interval: 0}
";
    let gate = Gate::new(&env, "second");
    let body = tool("first", "echo 1 > one")
        + &tool("second", &format!("({}); cat one > two", gate.command()))
        + "start -> first -> second -> exit";
    let remote = bare(&env, "app");
    let has_work = || {
        let listed = env.git_in(&remote, &["for-each-ref", "--format=%(refname)", "refs/heads/pleach/late"]);
        !listed.is_empty() && env.git_in(&remote, &["ls-tree", "--name-only", listed.trim()]).contains("one")
    };
    let sid = cut_off(&env, settings, &graph("late", &body), &gate, &has_work);
    let second = Machine::new(&env, "second");
    let ran = second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(0);
    assert!(ran.stderr.contains("wrote pleach.yaml"), "{ran}");
    // It is where it was, and the remote has all of it.
    let clone = second.dir.join("work/app");
    let branch = format!("pleach/late/{sid}");
    assert_eq!(env.git_in(&clone, &["show", &format!("{branch}:two")]), "1");
    assert_eq!(env.git_in(&remote, &["rev-parse", &branch]), env.git_in(&clone, &["rev-parse", &branch]));
    let story = Story::of(&env, &remote, &sid);
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
    assert_eq!(story.all("ToolExecution").iter().filter(|ran| ran["node_id"] == "first").count(), 1, "not run again");
    // It is a workspace like any other.
    assert_eq!(second.pleach(&["status", "--json", &sid]).expect(0).json()["standing"]["is"], "done");
}

#[test]
fn a_fan_out_over_several_repos_goes_on_elsewhere() {
    let env = remotes();
    let gate = Gate::new(&env, "b");
    let body = tool("a", "echo 1 > app/a; echo 1 > web/a")
        + &tool("b", &format!("({}); echo 2 > app/b; echo 2 > web/b", gate.command()))
        + &tool("last", "cat app/a web/b > web/sum")
        + " join -> last -> exit";
    // One branch has ended, the other one is in the middle of its node.
    let is_there = || has_branch(&env, "app", "--a") && has_branch(&env, "web", "--a");
    let sid = cut_off(&env, REMOTES, &fan("wide", "", &["a", "b"], &body), &gate, &is_there);
    let second = Machine::new(&env, "second");
    let remote = bare(&env, "app");
    let ran = second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(0);
    for (name, files) in [("app", "README.md a b"), ("web", "README.md a b sum")] {
        let listed = env.git_in(&bare(&env, name), &["ls-tree", "-r", "--name-only", &format!("pleach/wide/{sid}")]);
        assert_eq!(listed.replace('\n', " "), files, "{ran}");
    }
    assert_eq!(Story::of(&env, &remote, &sid).kinds().last(), Some(&"PipelineCompleted"));
}

/// A machine whose session waits at a gate, and the session.
fn asking(env: &TestEnv) -> (Machine<'_>, String) {
    let body = tool("ask", "echo 1 > app/one")
        + "gate [shape=hexagon, label=\"Go on?\"]\n"
        + &tool("work", "echo 2 > app/two")
        + "start -> ask -> gate\n gate -> work [label=\"[Y] Yes\"]\n gate -> exit [label=\"[N] No\"]\n work -> exit";
    let first = Machine::new(env, "first");
    fs::write(first.dir.join("pleach.yaml"), REMOTES).unwrap();
    fs::write(first.dir.join("pipeline.dot"), graph("ask", &body)).unwrap();
    first.pleach(&["-y", "run", "pipeline.dot"]).expect(4);
    (first, session_at(env, &bare(env, "app")))
}

#[test]
fn a_session_arrives_in_an_empty_directory_alone() {
    let env = remotes();
    let (_, sid) = asking(&env);
    let remote = bare(&env, "app");
    let resume = ["-y", "resume", &sid, "--remote", remote.to_str().unwrap()];
    let taken = Machine::new(&env, "taken");
    fs::write(taken.dir.join("notes"), "mine\n").unwrap();
    taken.pleach(&resume).expect(2).fails_with("not-a-repository").naming("empty directory");
    assert_eq!(fs::read_dir(&taken.dir).unwrap().count(), 1, "nothing was written");
    // A repository around it is none of the session's.
    env.git_in(env.root(), &["init", "--quiet"]);
    let inside = Machine::new(&env, "inside");
    inside.pleach(&resume).expect(4);
    assert_eq!(env.git_in(env.root(), &["for-each-ref"]), "");
    assert_eq!(env.git_in(&inside.dir.join("repo"), &["show", &format!("pleach/ask/{sid}:one")]), "1");
}

#[test]
fn a_record_cannot_claim_a_branch_of_the_users() {
    let env = remotes();
    let (_, sid) = asking(&env);
    let remote = bare(&env, "app");
    env.rewrite_record(&remote, &sid, &format!("s|pleach/ask/{sid}|main|g"));
    let second = Machine::new(&env, "second");
    let ran = second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap(), "--answer", "gate=Y"]);
    ran.expect(7).fails_with("record-damaged").naming("names `main` as a branch of the session");
}

#[test]
fn a_second_machine_is_refused() {
    let env = remotes();
    let (first, sid) = asking(&env);
    let remote = bare(&env, "app");
    let address = remote.to_str().unwrap();
    let second = Machine::new(&env, "second");
    second.pleach(&["-y", "resume", &sid, "--remote", address]).expect(4);
    // The first one finds that out before it writes anything.
    let before = env.git_in(&first.dir.join("repo"), &["for-each-ref", "refs/pleach/sessions"]);
    let ran = first.pleach(&["-y", "resume", &sid, "--answer", "gate=Y"]).expect(6);
    ran.fails_with("continued-elsewhere").naming("another machine has continued").naming("--remote");
    assert_eq!(env.git_in(&first.dir.join("repo"), &["for-each-ref", "refs/pleach/sessions"]), before);
    // With what the other has done it goes on, and then the other is refused.
    first.pleach(&["-y", "resume", &sid, "--remote", address, "--answer", "gate=Y"]).expect(0);
    assert_eq!(env.git_in(&remote, &["show", &format!("pleach/ask/{sid}:two")]), "2");
    second.pleach(&["-y", "resume", &sid, "--answer", "gate=N"]).expect(6).fails_with("continued-elsewhere");
    // Wrong input is told, and nothing is left behind.
    let third = Machine::new(&env, "third");
    third.pleach(&["resume", "zzzzzzzz", "--remote", address]).expect(2).fails_with("no-such-session");
    third.pleach(&["resume", &sid, "--remote", "nowhere.git"]).expect(7).fails_with("clone-failed");
    assert_eq!(fs::read_dir(&third.dir).unwrap().count(), 0);
}
