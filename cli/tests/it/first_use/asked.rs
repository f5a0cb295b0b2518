//! What `status` asks of the reader: to land, to answer, or nothing; and that a landing is taken back.

use serde_json::json;

use crate::merge_queue::Queue;
use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::terminal::Terminal;
use crate::worktree_commands::one;

#[test]
fn landed_work_offers_no_merge() {
    let env = TestEnv::with_repo();
    let ran = env.run(&one("echo 1 > made"), &[]).expect(0);
    let sid = env.session();
    let record = format!("record:  refs/pleach/sessions/{sid}, in this repository alone: it has no remote\n");
    let push = format!("push:    git remote add origin URL && pleach push {sid}\n");
    assert!(ran.stdout.contains(&record) && ran.stdout.contains(&push), "{ran}");

    let before = env.pleach(&["status"]).expect(0);
    let next = format!("{sid} is ready to land\n  next:    pleach land {sid}\n");
    assert!(before.stdout.contains("ready to land") && before.stdout.ends_with(&next), "{before}");
    let document = env.pleach(&["status", "--json"]).expect(0).json();
    let session = &document["sessions"][0];
    assert_eq!((&session["state"], &session["landed"]), (&json!("ready to land"), &json!([])));
    assert_eq!(session["next"], format!("pleach land {sid}"));
    assert!(env.pleach(&["status", &sid]).expect(0).stdout.contains("git merge"));

    env.pleach(&["-y", "land"]).expect(0);
    let tip = env.git(&["rev-parse", "main"]);
    let after = env.pleach(&["status"]).expect(0);
    assert!(after.stdout.contains("landed") && !after.stdout.contains("next:"), "{after}");
    let one = env.pleach(&["status", &sid]).expect(0);
    assert!(one.stdout.contains(&format!("landed    on `main` as {}", &tip[..10])), "{one}");
    assert!(!one.stdout.contains("git merge"), "{one}");
    for document in [
        env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0].clone(),
        env.pleach(&["status", &sid, "--json"]).expect(0).json(),
    ] {
        assert_eq!((&document["state"], &document["next"]), (&json!("landed"), &json!(null)));
        let landed = &document["landed"][0];
        assert_eq!((&landed["target"], &landed["commit"]), (&json!("main"), &json!(tip)), "{landed}");
        assert!(landed["at"].is_string(), "{landed}");
    }

    // What is there already makes no entry.
    let entries = env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
    for args in [&["land"][..], &["land", &sid], &["land", &sid, "--dry-run"]] {
        let again = env.pleach(args).expect(0);
        assert_eq!(again.stdout, "`main` has it already\n", "{again}");
    }
    let again = env.pleach(&["land", &sid, "--json"]).expect(0).json();
    assert_eq!((&again["outcome"], &again["already"]), (&json!("landed"), &json!(true)));
    assert_eq!(env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json(), entries);
    assert_eq!(env.git(&["rev-parse", "main"]), tip);
}

#[test]
fn a_merge_by_hand_is_landed_as_well() {
    let env = TestEnv::with_repo();
    env.run(&one("echo 1 > made"), &[]).expect(0);
    env.git(&["commit", "-q", "--allow-empty", "-m", "Meanwhile"]);
    env.git(&["merge", "-q", "--no-edit", &env.branch()]);
    let merge = env.git(&["rev-parse", "HEAD"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "Afterwards"]);
    let document = env.pleach(&["status", &env.session(), "--json"]).expect(0).json();
    assert_eq!((&document["state"], &document["landed"][0]["commit"]), (&json!("landed"), &json!(merge)));
    assert_eq!(env.pleach(&["land"]).expect(0).stdout, "`main` has it already\n");
}

#[test]
fn land_takes_the_newest_that_has_not_landed() {
    let env = TestEnv::with_repo();
    env.run(&one("echo 1 > first"), &[]).expect(0);
    env.run(&one("echo 1 > second"), &[]).expect(0);
    let newest = env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0]["session"].clone();
    env.pleach(&["-y", "land", newest.as_str().unwrap()]).expect(0);
    env.pleach(&["-y", "land"]).expect(0);
    assert_eq!(env.git(&["ls-tree", "--name-only", "main", "first", "second"]), "first\nsecond");
}

#[test]
fn what_landed_elsewhere_is_landed() {
    let env = TestEnv::with_repo();
    env.git(&["branch", "release"]);
    env.run(&one("echo 1 > made"), &[]).expect(0);
    env.pleach(&["-y", "land", "--into", "release"]).expect(0);
    let session = env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0].clone();
    assert_eq!((&session["state"], &session["landed"][0]["target"]), (&json!("landed"), &json!("release")));
}

#[test]
fn undo_shows_and_reverts_the_newest_landing() {
    let queue = Queue::tested("true");
    let env = &queue.env;
    env.pleach(&["undo", "-y"]).expect(2).fails_with("no-such-entry");
    queue.queued("one");
    queue.process(0);
    env.run(&one("echo 1 > made"), &[]).expect(0);
    env.pleach(&["-y", "land"]).expect(0);
    let tip = queue.tip();
    let shown = env.pleach(&["undo", "--dry-run"]).expect(0);
    let first = format!("{} on `main`, landed ", env.branch());
    assert!(shown.stdout.starts_with(&first) && shown.stdout.contains("made"), "{shown}");
    // Nobody is there to be asked.
    let refused = env.pleach(&["undo"]).expect(4);
    refused.fails_with("not-confirmed");
    assert_eq!((queue.tip(), queue.names()), (tip, vec![]));

    env.pleach(&["undo", "-y"]).expect(0);
    assert_eq!((queue.landed("made"), queue.landed("one.txt")), (None, Some("one".to_owned())));
    let session = env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0].clone();
    assert_eq!(session["state"], "landed, undone");
    env.pleach(&["land", session["session"].as_str().unwrap()])
        .expect(5)
        .fails_with("landing-refused")
        .naming("git revert ");
    env.pleach(&["undo", "-y"]).expect(0);
    assert_eq!(queue.landed("one.txt"), None, "what landed before");
    env.pleach(&["undo", "-y"]).expect(2).fails_with("no-such-entry");
}

/// A gate behind work.
fn gated() -> String {
    graph(
        "gated",
        &format!(
            "{} gate [shape=hexagon, label=\"Ship it?\"] start -> work -> gate
             gate -> exit [label=Yes]
             gate -> work [label=No]",
            tool("work", "echo 1 >> made")
        ),
    )
}

#[test]
fn a_gate_at_another_terminal_waits_for_you() {
    let env = TestEnv::with_repo();
    env.git(&["config", "user.name", "Ada Lovelace"]);
    env.pipeline(&gated());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Ship it?\r\n");
    let sid = env.session();
    let status = env.pleach(&["status"]).expect(0);
    let asked = format!("{sid} waits for you at `gate`: Ship it? (Yes, No)\n  answer where it runs: process ");
    assert!(status.stdout.contains("waiting for you") && status.stdout.contains(&asked), "{status}");
    let session = env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0].clone();
    assert_eq!((&session["state"], &session["standing"]["is"]), (&json!("waiting for you"), &json!("running")));
    assert_eq!(session["questions"][0]["text"], "Ship it?");
    let one = env.pleach(&["status", &sid]).expect(0);
    assert!(one.stdout.contains("waiting for you at `gate`") && one.stdout.contains("question  Ship it?"), "{one}");
    terminal.enter("n: once more");
    terminal.wait_for("? Ship it?\r\n");
    terminal.enter("y: thank you");
    assert_eq!(terminal.end().0, 0);

    let answers = env.pleach(&["turns", "--json"]).expect(0).json()["answers"].clone();
    let facts = |at: usize| ["node", "answer", "comment", "source", "by"].map(|key| answers[at][key].clone());
    assert_eq!(facts(0), ["gate", "No", "once more", "console", "Ada Lovelace"].map(|text| json!(text)));
    assert_eq!(facts(1), ["gate", "Yes", "thank you", "console", "Ada Lovelace"].map(|text| json!(text)));
    for args in [&["turns"][..], &["status", &sid]] {
        let shown = env.pleach(args).expect(0);
        assert!(shown.stdout.contains("No: once more (at the terminal)"), "{shown}");
        assert!(shown.stdout.contains("Ada Lovelace"), "{shown}");
    }
    let turn = env.pleach(&["show", "main.1"]).expect(0);
    let line = "after    `gate` was answered by Ada Lovelace: Ship it? No: once more (at the terminal)\n";
    assert!(turn.stdout.contains(line), "{turn}");
    let turn = env.pleach(&["show", "main.2", "--json"]).expect(0).json();
    let comments = [&turn["answered_before"][0]["comment"], &turn["answered_after"][0]["comment"]];
    assert_eq!(comments, [&json!("once more"), &json!("thank you")]);
}

#[test]
fn what_is_paused_says_why_and_how_it_goes_on() {
    let env = TestEnv::with_repo();
    env.run(&gated(), &[]).expect(4);
    let sid = env.session();
    let status = env.pleach(&["status"]).expect(0);
    let next = format!("Ship it? (Yes, No)\n  next:    pleach resume {sid} --answer gate=CHOICE\n");
    assert!(status.stdout.contains("waiting for you") && status.stdout.ends_with(&next), "{status}");
    env.resume(&["--auto-approve"]).expect(0);
    let answered = env.pleach(&["turns"]).expect(0);
    assert!(answered.stdout.contains("Yes (--auto-approve)"), "{answered}");
}

#[test]
fn merge_commands_name_the_repository_of_a_workspace() {
    let env = TestEnv::with_repo();
    env.write("pleach.yaml", "workspace: {repos: {app: {path: repo}}}\nagent: simulation\n");
    env.pipeline(&one("echo 1 > made"));
    let mut above = env.program(env!("CARGO_BIN_EXE_pleach"), env.root());
    let ran = env.finish(above.args(["-y", "run", "pipeline.dot"]).output().expect("pleach starts")).expect(0);
    let merge = format!("git -C repo switch main && git -C repo merge {}", env.branch());
    assert!(ran.stdout.contains(&format!("merge:   {merge}\n")), "{ran}");
    let mut above = env.program(env!("CARGO_BIN_EXE_pleach"), env.root());
    let status = env.finish(above.args(["status", &env.session()]).output().expect("pleach starts")).expect(0);
    assert!(status.stdout.contains(&merge), "{status}");
    let hint = env.pleach(&["-C", "..", "status", "zzzzzzzz"]).expect(2);
    hint.fails_with("no-such-session").naming("`pleach -C ").naming(" status` shows them");
}

#[test]
fn changed_settings_are_said_where_sessions_keep_theirs() {
    let env = TestEnv::with_repo();
    env.write("repo/pleach.yaml", "agent: simulation\ntest_command: 'true'\n");
    let failed = env.run(&graph("no", &format!("{} start -> work -> exit", tool("work", "exit 3"))), &[]).expect(1);
    assert!(failed.stdout.contains("with the pipeline and settings of the start"), "{failed}");
    env.resume(&[]).expect(1).does_not_warn("settings-changed");
    env.write("repo/pleach.yaml", "agent: simulation\ntest_command: 'false'\n");
    let resumed = env.resume(&[]).expect(1);
    resumed.warns("settings-changed").naming("`test_command`").not_naming("agent");
    let land = env.pleach(&["land", &env.session()]).expect(2);
    land.fails_with("session-not-done").naming("failed; only a session that is done lands");
}
