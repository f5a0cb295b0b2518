//! Records at a CXDB server: while a run goes on, caught up afterwards, compared, and brought back from there.

mod page;

use std::ops::Deref;

use serde_json::{Value, json};

use crate::cxdb_server::CxdbServer;
use crate::remotes::wait_until;
use crate::sessions::{Gate, Story, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{Garden, Tree};

/// A world, and the server its records are copied to.
pub struct MirroredEnv {
    env: TestEnv,
    pub server: CxdbServer,
}

impl Deref for MirroredEnv {
    type Target = TestEnv;
    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl MirroredEnv {
    /// Gives a world a mirror, as the user's own setting, which nobody has to approve.
    pub fn of(env: TestEnv) -> Self {
        let server = CxdbServer::start();
        let settings = format!("agent: simulation\nrecord: {{cxdb: '{}'}}\n", server.address());
        env.write("config/pleach/config.yaml", settings);
        Self { env, server }
    }

    fn new() -> Self {
        Self::of(TestEnv::with_repo())
    }

    /// What git says a context of the only session is called at the server.
    #[track_caller]
    pub fn mirrored(&self, context: &str) -> u64 {
        let name = format!("refs/pleach/cxdb/{}/{context}", self.session());
        let told: Value = serde_json::from_str(&self.git(&["cat-file", "blob", &name])).expect("JSON");
        told["context"].as_u64().expect("a number")
    }

    /// The events a typed view of the server shows of a context, without what is there to make records of them again.
    #[track_caller]
    pub fn shown(&self, context: &str) -> Vec<(String, Value)> {
        let all = self.server.shown(self.mirrored(context)).into_iter().map(|(kind, mut fields)| {
            let own = |field: &str| field == "record_repo" || !(field.starts_with("record") && field != "records");
            fields.as_object_mut().expect("a known type").retain(|field, _| own(field));
            (kind.trim_start_matches("dev.orchestra.").to_owned(), fields)
        });
        all.collect()
    }

    /// Fails unless the server shows of a context what git has, and each event once.
    #[track_caller]
    pub fn assert_mirrored(&self, context: &str) {
        let story = Story::in_context(self, &self.repo_path(), &self.session(), context);
        let events = story.records.iter().flat_map(|(_, events)| events);
        let recorded: Vec<(&str, &Value)> = events
            .map(|event| (event["type"].as_str().unwrap().trim_start_matches("dev.orchestra."), &event["data"]))
            .collect();
        let shown = self.shown(context);
        // What it was forked from is before its own.
        let own = shown.iter().skip(shown.len().saturating_sub(recorded.len()));
        assert_eq!(own.map(|(kind, fields)| (kind.as_str(), fields)).collect::<Vec<_>>(), recorded);
        let session = self.session();
        let run = if context == "main" { session } else { format!("{session}/{context}") };
        let compared = self.pleach(&["record", "verify", "--json", &run]).expect(0).json();
        assert_eq!((&compared["equal"], &compared["repeated"]), (&json!(true), &json!(0)), "{compared}");
    }
}

/// Two commands, one after the other.
fn two(first: &str, second: &str) -> String {
    graph("two", &(tool("first", first) + &tool("second", second) + "start -> first -> second -> exit"))
}

#[test]
fn a_run_is_mirrored_as_it_goes() {
    let env = MirroredEnv::new();
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&two("echo 1 > one", &gate.command()), &[]);
    let held = gate.reached(&mut run);
    // It is there before the run ends.
    assert!(env.server.appended(8, std::time::Duration::from_secs(60)));
    let sid = env.session();
    env.pleach(&["record", "mirror", &sid]).fails_with("session-locked").naming("copies its records itself");
    gate.open(held);
    let ran = run.end().expect(0);
    assert_eq!(ran.warnings().iter().filter(|(code, _)| code.starts_with("mirror")).count(), 0, "{ran}");
    env.assert_mirrored("main");
    let server = env.server.address().split(',').next().unwrap().to_owned();
    let status = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(status.contains(&format!("\nmirror    {server}, mirrored\n")), "{status}");
    let told = env.pleach(&["status", "--json", &sid]).expect(0).json()["mirror"].clone();
    assert_eq!((&told["server"], &told["behind"]), (&json!(server), &json!(0)), "{told}");
    let doctor = env.pleach(&["doctor"]).expect(0).stdout;
    assert!(doctor.contains(&format!("ok     mirror      CXDB at {server} has all records of 1 run\n")), "{doctor}");
    let copied = env.pleach(&["record", "mirror", "--json"]).expect(0).json();
    let nothing = json!({"server": server, "runs": [{"run": sid, "records": 0, "turns": 0}], "running": []});
    assert_eq!(copied, nothing);
    assert_eq!(env.server.contexts_of(&sid), [env.mirrored("main")], "it is found by its session");
    // It goes with its session, and the server keeps what it has.
    env.pleach(&["rm", "--force", &sid]).expect(0);
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/cxdb"]), "");
    assert_eq!(env.server.contexts().len(), 1);
}

#[test]
fn a_dead_mirror_never_delays() {
    let env = MirroredEnv::new();
    env.server.refuse(true);
    let ran = env.run(&two("echo 1 > one", "cat one"), &[]).expect(0);
    let sid = env.session();
    ran.warns_once("mirror-behind")
        .naming("lacks records: it cannot be reached")
        .naming("`pleach record mirror --all`");
    let status = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(status.contains(", not known: cannot reach CXDB at "), "{status}");
    let doctor = env.pleach(&["doctor"]).expect(0).stdout;
    assert!(doctor.contains("warn   mirror      cannot reach CXDB at "), "{doctor}");
    for command in ["mirror", "verify"] {
        let failed = env.pleach(&["record", command, &sid]).expect(7);
        failed.fails_with("mirror-unreachable").naming("nothing is lost");
    }
    env.server.refuse(false);
    let status = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(status.contains(" records behind\n"), "{status}");
    let doctor = env.pleach(&["doctor"]).expect(0).stdout;
    assert!(doctor.contains(" of 1 run behind\n") && doctor.contains("pleach record mirror --all"), "{doctor}");
    let differs = env.pleach(&["record", "verify", &sid]).expect(1);
    differs.fails_with("mirror-differs").naming("it lacks").naming(format!("`pleach record mirror {sid}`"));
    let copied = env.pleach(&["record", "mirror", "--all"]).expect(0).stdout;
    assert!(copied.starts_with(&format!("{sid}: ")) && copied.ends_with(" records copied\n"), "{copied}");
    env.assert_mirrored("main");
}

#[test]
fn a_mirror_of_the_repository_is_approved_first() {
    let env = TestEnv::with_repo();
    let server = CxdbServer::start();
    env.configure(&format!("record: {{cxdb: '{}'}}\n", server.address()));
    env.write("pipeline.dot", graph("asked", "start -> exit"));
    for command in [&["run", "../pipeline.dot"][..], &["record", "mirror"]] {
        let asked = env.pleach(command).expect(4);
        asked.fails_with("trust-missing").naming("1 item");
        assert!(asked.to_string().contains(&format!("record.cxdb: {}\n", server.address())), "{asked}");
    }
    let doctor = env.pleach(&["doctor"]).stdout;
    assert!(doctor.contains("was not asked: the address was not approved yet"), "{doctor}");
    assert_eq!(server.accepted(), 0, "nothing was sent anywhere");
    env.configure("record: {cxdb: 'http://cxdb:9009'}\n");
    let wrong = env.pleach(&["config"]).expect(2);
    wrong.fails_with("settings-invalid").naming("is not an address of a CXDB server").naming("Write HOST:PORT");
    env.configure("");
    env.pleach(&["record", "verify"]).expect(2).fails_with("no-mirror").naming("`record.cxdb: HOST:PORT`");
}

#[test]
fn secrets_are_at_no_mirror() {
    let env = MirroredEnv::new();
    let key = format!("sk-ant-api03-{}", "Ab1".repeat(20));
    env.write(
        "pipeline.dot",
        two("echo $MY_TOKEN", &format!("printf 'sk-ant-%s' {}", key.trim_start_matches("sk-ant-"))),
    );
    let ran = env.command(&["-y", "run", "../pipeline.dot"]).env("MY_TOKEN", "hunter2hunter2hunter2").output().unwrap();
    env.finish(ran).expect(0);
    env.assert_mirrored("main");
    for turn in env.server.chain(env.mirrored("main")) {
        let text = String::from_utf8_lossy(&turn.payload).into_owned();
        assert!(!text.contains("hunter2") && !text.contains(&key), "{text}");
    }
}

#[test]
fn a_killed_run_is_mirrored_when_it_goes_on() {
    let env = MirroredEnv::new();
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&two("echo 1 > one", &gate.command()), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    // The first acknowledgement of the next one is lost, and the server comes back without anything.
    env.server.close_after(1);
    let ran = env.resume(&[]).expect(0);
    assert_eq!(ran.warnings(), []);
    env.assert_mirrored("main");
    env.server.restart_without_data();
    env.pleach(&["record", "mirror"]).expect(0);
    env.assert_mirrored("main");
}

#[test]
fn a_tree_is_mirrored_with_gates_and_landings() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &["e2e: true"]));
    let server = CxdbServer::start();
    let settings =
        |address: &str| garden.env.write("config/pleach/config.yaml", format!("record: {{cxdb: '{address}'}}\n"));
    settings(&server.address());
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.warnings().iter().filter(|(code, _)| code.starts_with("mirror")).count(), 0, "{ran}");
    let sessions = garden.env.sessions();
    assert!(sessions.len() >= 3, "two tasks, and the tests of a phase: {sessions:?}");
    for session in &sessions {
        garden.env.pleach(&["record", "verify", session]).expect(0);
    }
    // With nobody there it is said once, for all of them.
    server.refuse(true);
    garden.gardener(&["--fresh"]).warns_once("mirror-behind");
}

#[test]
fn a_server_without_its_http_side_has_all_turns() {
    let env = MirroredEnv::new();
    let (server, _) =
        env.server.address().split_once(',').map(|(server, rest)| (server.to_owned(), rest.to_owned())).unwrap();
    // Nobody listens at port 1.
    env.write("config/pleach/config.yaml", format!("agent: simulation\nrecord: {{cxdb: '{server},http=1'}}\n"));
    for number in 1..3 {
        let ran = env.run(&two("echo 1 > one", "cat one"), &[]).expect(0);
        ran.warns_once("mirror-types").naming("cannot be shown by their fields");
        assert_eq!(env.sessions().len(), number);
    }
    for session in env.sessions() {
        env.pleach(&["record", "verify", &session]).expect(0);
    }
    env.server.restart_without_data();
    let copied = env.pleach(&["record", "mirror", "--all"]).expect(0);
    copied.warns_once("mirror-types");
    assert_eq!(copied.stdout.matches(" records copied\n").count(), 2, "{copied}");
    let doctor = env.pleach(&["doctor"]).expect(0).stdout;
    assert!(doctor.contains("warn   mirror      CXDB's HTTP side at "), "{doctor}");
}

#[test]
fn two_machines_write_no_context_together() {
    let env = MirroredEnv::new();
    env.run(&graph("asks", "a [prompt=\"Go\"] ok [shape=hexagon] start -> a -> ok; ok -> exit [label=Yes]"), &[])
        .expect(4);
    let sid = env.session();
    env.git_in(env.root(), &["clone", "--quiet", "repo", "clone"]);
    let clone = env.root().join("clone");
    let there = |args: &[&str]| env.finish(env.command(args).current_dir(&clone).output().unwrap());
    there(&["-y", "resume", &sid, "--answer", "ok=Yes"]).expect(0);
    env.resume(&["--answer", "ok=Yes"]).expect(0);
    for ran in [env.pleach(&["record", "verify", &sid]), there(&["record", "verify", &sid])] {
        ran.expect(0);
    }
}

#[test]
fn an_ephemeral_container_goes_on_from_the_mirror() {
    let env = MirroredEnv::new();
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"]);
    let remote = env.root().join("remote.git");
    env.configure(
        "workspace: {repos: {repo: {path: repo, remote: ./remote.git, push: on_checkpoint}}}\n\
         record: {push: never, push_interval: 0}\n",
    );
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&two("echo 1 > one", &format!("({}); cat one > two", gate.command())), &[]);
    let held = gate.reached(&mut run);
    let sid = env.session();
    let branch = env.branch();
    wait_until("the remote has what it did", || {
        let listed = env.git_in(&remote, &["for-each-ref", "--format=%(refname)", "refs/heads/pleach"]);
        !listed.is_empty() && env.git_in(&remote, &["ls-tree", "--name-only", &branch]).contains("one")
    });
    wait_until("the mirror has it", || {
        let status = env.pleach(&["status", "--json", &sid]).expect(0).json();
        status["mirror"]["behind"] == 0
    });
    run.kill(held);
    gate.stay_open();
    assert!(!env.git_in(&remote, &["for-each-ref"]).contains("refs/pleach"), "the remote has no records");
    for gone in ["repo", "state"] {
        std::fs::remove_dir_all(env.root().join(gone)).unwrap();
    }
    env.git_in(env.root(), &["clone", "--quiet", "remote.git", "repo"]);
    let resumed = env.pleach(&["-y", "resume", &sid]).expect(0);
    assert!(resumed.to_string().contains("session [SID] was brought from CXDB at "), "{resumed}");
    assert_eq!(env.git(&["show", &format!("{branch}:two")]), "1");
    let first = env.story().all("ToolExecution").into_iter().filter(|ran| ran["node_id"] == "first").count();
    assert_eq!(first, 1, "it is not run again");
    env.assert_mirrored("main");
    assert_eq!(env.git(&["fsck", "--strict", "--no-dangling"]), "");
    env.pleach(&["-y", "resume", "zzzzzzzz"]).expect(2).fails_with("no-such-session").naming("none at CXDB");
}

#[test]
fn records_ahead_of_what_was_pushed_are_left() {
    let env = MirroredEnv::new();
    env.run(&two("echo 1 > one", "echo 2 > two"), &[]).expect(0);
    let (sid, branch) = (env.session(), env.branch());
    // What was pushed last is the first commit.
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"]);
    let name = format!("refs/heads/{branch}");
    env.git_in(&env.root().join("remote.git"), &["update-ref", &name, &format!("{name}~1")]);
    env.git_in(env.root(), &["clone", "--quiet", "--no-local", "remote.git", "clone"]);
    let clone = env.root().join("clone");
    let resume = || env.finish(env.command(&["-y", "resume", &sid]).current_dir(&clone).output().unwrap());
    let ran = resume().expect(0);
    ran.warns_once("commits-lost").naming("speak of commits that are not here");
    assert_eq!(env.git_in(&clone, &["show", &format!("{branch}:two")]), "2", "what was left is done again");
}

#[test]
fn branches_and_replays_share_what_was_before() {
    let env = MirroredEnv::new();
    let body = "fork [shape=component] join [shape=tripleoctagon]\n".to_owned()
        + &tool("a", "echo a > a")
        + &tool("b", "echo b > b")
        + &tool("last", "cat a b > c")
        + "start -> fork; fork -> a; fork -> b; a -> join; b -> join; join -> last -> exit";
    env.run(&graph("wide", &body), &[]).expect(0);
    let sid = env.session();
    env.pleach(&["-y", "replay", &sid, "--from", "last"]).expect(0);
    for context in ["main", "r1"] {
        env.assert_mirrored(context);
    }
    let shared = |one: &str, other: &str| {
        let turns = |name: &str| env.server.chain(env.mirrored(name)).into_iter().map(|turn| turn.turn);
        turns(one).zip(turns(other)).take_while(|(one, other)| one == other).count()
    };
    for context in ["a", "b", "r1"] {
        assert!(shared("main", context) > 3, "{context}");
    }
    let turns: usize = env.server.turns();
    env.pleach(&["record", "mirror", "--all"]).expect(0);
    assert_eq!(env.server.turns(), turns, "nothing is copied twice");

    // In a clone that has none of it, all runs come from there.
    env.git_in(env.root(), &["clone", "--quiet", "repo", "clone"]);
    let clone = env.root().join("clone");
    let found = env.finish(env.command(&["-y", "resume", &sid]).current_dir(&clone).output().unwrap());
    found.fails_with("session-over");
    for name in ["main", "a", "b", "r1"] {
        let name = format!("refs/pleach/sessions/{sid}/{name}");
        assert_eq!(env.git_in(&clone, &["rev-parse", &name]), env.git(&["rev-parse", &name]));
    }
}
