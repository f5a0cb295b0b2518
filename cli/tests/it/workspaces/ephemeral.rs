//! Machines that vanish: a session is pushed at every checkpoint and goes on elsewhere from what the remotes have.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

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
fn a_session_arrives_with_its_recorded_depth() {
    let env = remotes();
    let (remote, source) = (bare(&env, "app"), env.root().join("sources/app"));
    let go_on = || {
        env.git_in(&source, &["commit", "--quiet", "--allow-empty", "-m", "More"]);
        env.git_in(&source, &["push", "--quiet", remote.to_str().unwrap(), "main"]);
    };
    (0..4).for_each(|_| go_on());
    let first = Machine::new(&env, "first");
    let settings =
        "workspace: {repos: {app: {path: app, remote: ../remotes/app.git, push: on_checkpoint, clone_depth: 2}}}\n";
    fs::write(first.dir.join("pleach.yaml"), settings).unwrap();
    let body = tool("work", "echo 1 > one")
        + "gate [shape=hexagon, label=\"Go on?\"]\n start -> work -> gate\n gate -> exit [label=\"[Y] Yes\"]";
    fs::write(first.dir.join("pipeline.dot"), graph("ask", &body)).unwrap();
    first.pleach(&["-y", "run", "pipeline.dot"]).expect(4);
    let sid = session_at(&env, &remote);
    // Also where the branch has gone on so far that the clone lacks what the session was started from.
    for (commits, machine) in [(0, "second"), (3, "third")] {
        (0..commits).for_each(|_| go_on());
        let machine = Machine::new(&env, machine);
        machine.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(4);
        let clone = machine.dir.join("app");
        assert_eq!(env.git_in(&clone, &["rev-parse", "--is-shallow-repository"]), "true");
        assert_eq!(env.git_in(&clone, &["rev-list", "--count", "main"]), "2");
        assert_eq!(env.git_in(&clone, &["show", &format!("pleach/ask/{sid}:one")]), "1");
        assert!(
            fs::read_dir(&machine.dir)
                .unwrap()
                .flatten()
                .all(|entry| { !entry.file_name().to_string_lossy().starts_with(".pleach-") })
        );
    }
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

/// What `status` on a machine says of the pushes of a repository.
#[track_caller]
fn pushes_of(machine: &Machine<'_>, sid: &str, repo: &str) -> Value {
    let status = machine.pleach(&["status", "--json", sid]).expect(0).json();
    let pushes = status["pushes"].as_array().expect("a list").iter().find(|pushes| pushes["repo"] == repo).cloned();
    pushes.unwrap_or_else(|| panic!("no pushes of {repo}: {status}"))
}

/// Whether a branch of a session at a remote has a file.
fn has_file(env: &TestEnv, remote: &str, file: &str) -> bool {
    let branches = env.git_in(&bare(env, remote), &["for-each-ref", "--format=%(refname)", "refs/heads/pleach"]);
    branches.lines().any(|branch| files_at(env, remote, branch).split(' ').any(|found| found == file))
}

/// The files of a branch at a remote.
fn files_at(env: &TestEnv, remote: &str, branch: &str) -> String {
    env.git_in(&bare(env, remote), &["ls-tree", "-r", "--name-only", branch]).replace('\n', " ")
}

#[test]
fn records_wait_for_the_commits_of_other_repos() {
    let env = remotes();
    let hook = env.write_program("remotes/web.git/hooks/pre-receive", "#!/bin/sh\necho 'not today' >&2; exit 1\n");
    let gate = Gate::new(&env, "third");
    let body = tool("first", "echo 1 > app/one")
        + &tool("second", "echo 2 > app/two; echo 2 > web/two")
        + &tool("third", &format!("({}); cat app/one web/two > app/sum", gate.command()))
        + "start -> first -> second -> third -> exit";
    let (remote, first) = (bare(&env, "app"), Machine::new(&env, "first"));
    // The first node is pushed. The second one is not: the commit it made in `web` is nowhere else.
    let waits = || {
        has_file(&env, "app", "one")
            && pushes_of(&first, &session_at(&env, &remote), "app")["waits_for"] == json!(["web"])
    };
    let sid = cut_off(&env, REMOTES, &graph("late", &body), &gate, &waits);
    let branch = format!("pleach/late/{sid}");
    assert_eq!(files_at(&env, "app", &branch), "README.md one");
    let base = env.git_in(&bare(&env, "web"), &["rev-parse", "main"]);
    let told = Story::of(&env, &remote, &sid);
    assert_eq!(told.last("SnapshotRecorded")["workspace_snapshot"]["web"], base.as_str());
    // Elsewhere it goes on from there.
    fs::remove_file(hook).unwrap();
    let second = Machine::new(&env, "second");
    second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(0);
    assert_eq!(files_at(&env, "app", &branch), "README.md one sum two");
    assert_eq!(files_at(&env, "web", &branch), "README.md two");
    let told = Story::of(&env, &remote, &sid);
    assert_eq!(told.kinds().last(), Some(&"PipelineCompleted"));
    let ran = |node: &str| told.all("ToolExecution").iter().filter(|ran| ran["node_id"] == node).count();
    assert_eq!(["first", "second", "third"].map(ran), [1, 1, 1]);
    let pushes = pushes_of(&second, &sid, "app");
    assert_eq!((&pushes["waits_for"], &pushes["not_pushed"]), (&json!([]), &json!(0)), "{pushes}");
}

#[test]
fn shallow_clones_go_on_elsewhere() {
    let env = remotes();
    let settings = REMOTES.replace("path: web,", "path: web, clone_depth: 1,");
    let gate = Gate::new(&env, "second");
    let body = tool("first", "echo 1 > web/one")
        + &tool("second", &format!("({}); cat web/one > web/two", gate.command()))
        + "start -> first -> second -> exit";
    let remote = bare(&env, "app");
    let is_there = || has_file(&env, "web", "one") && names_another_commit(&env, &remote, "web");
    let sid = cut_off(&env, &settings, &graph("late", &body), &gate, &is_there);
    let second = Machine::new(&env, "second");
    second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(0);
    assert_eq!(files_at(&env, "web", &format!("pleach/late/{sid}")), "README.md one two");
}

/// Whether a record at a remote names a commit of a repository that its `main` is not at.
fn names_another_commit(env: &TestEnv, records: &Path, repo: &str) -> bool {
    let refs = env.git_in(records, &["for-each-ref", "refs/pleach/sessions"]);
    let base = env.git_in(&bare(env, repo), &["rev-parse", "main"]);
    let is_other = |told: &&Value| told["workspace_snapshot"][repo] != base.as_str();
    !refs.is_empty() && Story::of(env, records, &session_at(env, records)).all("SnapshotRecorded").iter().any(is_other)
}

#[test]
fn a_paused_session_pushes_no_record_ahead_of_commits() {
    let env = remotes();
    env.write_program("remotes/web.git/hooks/pre-receive", "#!/bin/sh\necho 'not today' >&2; exit 1\n");
    let body = tool("first", "echo 1 > app/one")
        + &tool("second", "echo 2 > web/two")
        + "gate [shape=hexagon, label=\"Go on?\"]\n start -> first -> second -> gate\n gate -> exit [label=\"[Y] Yes\"]";
    let first = Machine::new(&env, "first");
    fs::write(first.dir.join("pleach.yaml"), REMOTES).unwrap();
    fs::write(first.dir.join("pipeline.dot"), graph("ask", &body)).unwrap();
    let ran = first.pleach(&["-y", "run", "pipeline.dot"]).expect(4);
    ran.warns("push-failed").naming("not today").naming("wait in `app`");
    let (remote, sid) = (bare(&env, "app"), session_at(&env, &bare(&env, "app")));
    let base = env.git_in(&bare(&env, "web"), &["rev-parse", "main"]);
    let told = Story::of(&env, &remote, &sid);
    assert_eq!(told.last("SnapshotRecorded")["workspace_snapshot"]["web"], base.as_str());
    assert!(told.all("PipelinePaused").is_empty());
    let shown = first.pleach(&["status", &sid]).expect(0);
    assert!(shown.stdout.contains("the newest records wait for `web`"), "{shown}");
    // Resumed it cannot tell others so, and goes on nevertheless.
    let record = format!("refs/pleach/sessions/{sid}/main");
    let there = env.git_in(&remote, &["rev-parse", &record]);
    first.pleach(&["-y", "resume", &sid]).expect(4);
    assert_eq!(env.git_in(&remote, &["rev-parse", &record]), there);
    // Once the remote takes its commits, everything follows.
    fs::remove_file(bare(&env, "web").join("hooks/pre-receive")).unwrap();
    first.pleach(&["-y", "resume", &sid, "--answer", "gate=Y"]).expect(0);
    assert_eq!(files_at(&env, "web", &format!("pleach/ask/{sid}")), "README.md two");
    assert_eq!(Story::of(&env, &remote, &sid).kinds().last(), Some(&"PipelineCompleted"));
}

#[test]
fn work_is_pushed_beside_a_branch_that_went_on() {
    let env = remotes();
    let gate = Gate::new(&env, "second");
    let body = tool("first", "echo 1 > app/one; echo 1 > web/one")
        + &tool("second", &format!("({}); echo 2 > web/two", gate.command()))
        + "start -> first -> second -> exit";
    let is_there = || has_file(&env, "app", "one");
    let sid = cut_off(&env, REMOTES, &graph("late", &body), &gate, &is_there);
    // The machine had pushed more to `web` before it vanished, and no record of it.
    let (web, branch) = (bare(&env, "web"), format!("refs/heads/pleach/late/{sid}"));
    let tip = env.git_in(&web, &["rev-parse", &branch]);
    let ahead = env.git_in(&web, &["commit-tree", "-p", &tip, "-m", "More", &format!("{tip}^{{tree}}")]);
    env.git_in(&web, &["update-ref", &branch, &ahead]);
    let second = Machine::new(&env, "second");
    let remote = bare(&env, "app");
    let ran = second.pleach(&["-y", "resume", &sid, "--remote", remote.to_str().unwrap()]).expect(0);
    let beside = format!("{branch}@2");
    ran.warns_once("pushed-beside").naming(&beside).naming("git fetch");
    ran.does_not_warn("push-failed");
    assert_eq!(env.git_in(&web, &["rev-parse", &branch]), ahead, "nothing is overwritten");
    let here = env.git_in(&second.dir.join("web"), &["rev-parse", &branch]);
    assert_eq!(env.git_in(&web, &["rev-parse", &beside]), here);
    assert_eq!(files_at(&env, "web", &beside), "README.md one two");
    assert_eq!(Story::of(&env, &remote, &sid).kinds().last(), Some(&"PipelineCompleted"));
    let pushes = pushes_of(&second, &sid, "web");
    assert_eq!((&pushes["beside"][&branch], &pushes["not_pushed"]), (&json!(beside), &json!(0)), "{pushes}");
    let shown = second.pleach(&["status", &sid]).expect(0);
    assert!(shown.stdout.contains(&format!("the branch is pleach/late/{sid}@2 there")), "{shown}");
}
