//! Runs of a session beside each other: locks, removal, landing, remotes.

use serde_json::json;

use super::{BODY, SCRIPT, done};
use crate::sessions::{Gate, Story, graph};
use crate::support::TestEnv;
use crate::tree_commands::page::greeting;

#[test]
fn a_replay_of_a_running_session() {
    let env = TestEnv::with_script(SCRIPT);
    let gate = Gate::new(&env, "check");
    let body = BODY.replace("cat a.txt >> log.txt", &format!("cat a.txt >> log.txt; {}", gate.command()));
    let mut run = env.start(&graph("p", &body), &[]);
    let held = gate.reached(&mut run);
    let before = env.own_refs();
    let worktree = env.git(&["-C", env.worktree().to_str().unwrap(), "status", "--porcelain"]);
    gate.stay_open();
    env.replay(&["--turn", "2"]).expect(0);
    assert!(before.iter().all(|(name, at)| env.own_refs().get(name) == Some(at)), "byte for byte what it was");
    assert_eq!(env.git(&["-C", env.worktree().to_str().unwrap(), "status", "--porcelain"]), worktree);
    let runs = env.pleach(&["status", "--json", &env.session()]).expect(0).json()["runs"].clone();
    assert_eq!((&runs[0]["standing"]["is"], &runs[1]["standing"]["is"]), (&json!("running"), &json!("done")));
    drop(held);
    run.end().expect(0);
    assert_eq!((env.on("", "b.txt"), env.on("--r1", "b.txt")), ("test".to_owned(), "test".to_owned()));
}

#[test]
fn removing_a_session_names_its_replays() {
    let env = done();
    env.replay(&["--turn", "1"]).expect(0);
    env.replay(&["--turn", "3"]).expect(0);
    let session = env.session();
    let refused = env.pleach(&["rm", &session]).expect(1);
    refused.fails_with("removal-refused").naming(format!("`pleach rm --force {session}` removes all of them"));
    let run = format!("{session}/r1");
    for left in ["/r2 was not removed", "/r1 was not removed", " was not removed"] {
        assert!(refused.stderr.lines().any(|line| line.contains(&format!("session {session}{left}"))), "{refused}");
    }
    env.pleach(&["rm", "--force", &run]).expect(0);
    let left: Vec<String> = env.own_refs().into_keys().filter(|name| !name.contains("/keep/")).collect();
    assert!(left.iter().all(|name| !name.contains("r1")), "{left:?}");
    assert!(
        left.iter().any(|name| name.ends_with("/r2")) && left.iter().any(|name| name.ends_with("/main")),
        "{left:?}"
    );
    let removed = env.pleach(&["rm", "--force", "--json", &session]).expect(0).json();
    let runs: Vec<_> = removed["sessions"].as_array().unwrap().iter().map(|one| one["run"].clone()).collect();
    assert_eq!(runs, [json!(format!("{session}/r2")), json!(session)], "what a replay began with goes last");
    assert!(env.git(&["for-each-ref", "refs/pleach/sessions"]).is_empty());
    assert!(env.git(&["worktree", "list"]).lines().count() == 1);
}

#[test]
fn a_session_goes_on_without_its_first_run() {
    let env = done();
    env.replay(&["--turn", "5"]).expect(0);
    let session = env.session();
    env.pleach(&["rm", "--force", &format!("{session}/main")]).expect(0);
    let all = env.pleach(&["status", "--json"]).expect(0).json();
    assert_eq!(all["sessions"][0]["session"], json!(session), "{all}");
    let status = env.pleach(&["status", "--json", &session]).expect(0).json();
    assert_eq!(status["runs"].as_array().map(Vec::len), Some(1), "{status}");
    env.pleach(&["turns", &session]).expect(0);
    env.replay(&["--turn", "r1.6"]).expect(0);
    env.pleach(&["-y", "land", &format!("{session}/r2")]).expect(0);
    env.pleach(&["rm", "--force", &session]).expect(0);
    assert!(env.git(&["for-each-ref", "refs/pleach/sessions"]).is_empty());
}

#[test]
fn a_number_used_again_is_another_run() {
    let env = done();
    let session = env.session();
    let run = format!("{session}/r1");
    let instead =
        |words: &str| SCRIPT.replace("Add a test.", words).replace("content: \"test\\n\"", "content: \"new\\n\"");
    env.script(&instead("As Ada wants it."));
    env.replay(&["--turn", "5"]).expect(0);
    env.pleach(&["-y", "land", &run]).expect(0);
    let why = |expected: &str| {
        let why = env.pleach(&["why", "--json", "b.txt:1"]).expect(0).json();
        let turn = why["turns"].as_object().unwrap().values().next().unwrap().clone();
        assert!(turn["reason"].as_str().unwrap().starts_with(expected), "{why}");
        turn
    };
    why("As Ada wants it.");
    // It has landed, so that nothing of it is kept.
    env.pleach(&["rm", &run]).expect(0);
    // In the same second, its commit would be the same one if it did the same.
    env.script(&instead("As Bob wants it.").replace("b.txt", "c.txt"));
    env.replay(&["--turn", "5"]).expect(0);
    assert_eq!(env.turns_of("r1"), ["r1.6", "r1.7"], "the number is given again");
    let turn = why("As Ada wants it.");
    assert_eq!(turn["record"], json!(false), "what another run said is not its reason");
    let landed = env.git(&["log", "-1", "--format=%H", "main", "--", "b.txt"]);
    env.replay(&["--turn", &landed]).expect(2).fails_with("no-such-turn");
    // Kept work keeps its number.
    env.pleach(&["rm", "--force", &run]).expect(0);
    env.replay(&["--turn", "5"]).expect(0);
    assert_eq!(env.turns_of("r2"), ["r2.6", "r2.7"]);
}

#[test]
fn what_a_replay_has_inherited_is_its_originals() {
    let env = done();
    env.replay(&["--checkpoint", "check"]).expect(0);
    let (session, run) = (env.session(), format!("{}/r1", env.session()));
    for (number, checkpoint) in (2..).zip(["start", "check", "tests"]) {
        env.pleach(&["-y", "replay", &run, "--checkpoint", checkpoint]).expect(0);
        let story = Story::in_context(&env, &env.repo_path(), &session, &format!("r{number}"));
        let from = if checkpoint == "tests" { "r1" } else { "main" };
        assert_eq!(story.last("ContextForked")["from"], from, "{checkpoint}");
        assert_eq!(env.on(&format!("--r{number}"), "b.txt"), "test");
    }
    env.pleach(&["-y", "replay", &run, "--checkpoint", "nothing"]).expect(2).fails_with("node-not-visited");
}

#[test]
fn a_clone_without_the_records_says_how_they_come() {
    let env = done();
    let session = env.session();
    let from = env.repo_path().to_str().unwrap().to_owned();
    env.git(&["clone", "--quiet", &from, "../clone"]);
    let replay = ["-y", "replay", &session, "--turn", "1"];
    let refused = env.pleach(&[&["-C", "../clone"], &replay[..]].concat()).expect(2);
    refused.fails_with("no-such-session").naming("git fetch origin 'refs/pleach/*:refs/pleach/*'");
    env.git(&["-C", "../clone", "fetch", "--quiet", "origin", "refs/pleach/*:refs/pleach/*"]);
    env.pleach(&[&["-C", "../clone"], &replay[..]].concat()).expect(0);
}

#[test]
fn the_session_of_a_task_is_replayed_as_a_prompt() {
    let env = greeting();
    env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "task-tree.json"]).expect(0);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Plan"]);
    let before = env.git(&["rev-parse", "HEAD"]);
    env.pleach(&["-y", "garden"]).expect(0);
    let (session, landed) = (env.session(), env.git(&["rev-parse", "main"]));
    // Its test would be replayed, which only its tree runs.
    env.replay(&["--turn", "3"]).expect(2).fails_with("pipeline-unfit");
    for point in [["--turn", "1"], ["--checkpoint", "start"]] {
        env.replay(&point).expect(0);
    }
    assert_eq!(env.git(&["rev-parse", "main"]), landed);
    let runs = env.pleach(&["status", "--json", &session]).expect(0).json()["runs"].clone();
    assert_eq!(runs[1]["changes"]["pipeline"]["dot_path"], "prompt-tested.dot");
    let dot = runs[1]["changes"]["pipeline"]["dot"].as_str().unwrap();
    assert!(dot.contains("sh test.sh"), "the test of the task: {dot}");
    let goal = runs[2]["changes"]["inputs"]["goal"].as_str().unwrap();
    assert!(goal.starts_with("Implement task T001") && !goal.contains("sh test.sh"), "{goal}");
    for run in ["r1", "r2"] {
        let story = Story::in_context(&env, &env.repo_path(), &session, run);
        let nodes: Vec<_> = story.all("NodeExecution").iter().map(|node| node["node_id"].clone()).collect();
        assert!(["implement", "test", "review"].iter().all(|node| nodes.contains(&json!(node))), "{nodes:?}");
        let branch = format!("pleach/task/{session}--{run}");
        let steps = env.git(&["log", "--grep=^task(main@T001@", "--format=%s", &format!("{before}..{branch}")]);
        assert_eq!(steps, "", "it is no work on a task");
        assert_eq!(env.git(&["show", &format!("{branch}:hello.sh")]), "echo 'Hello, world!'");
    }
    // A task lands by its tree, its replay as every session.
    env.pleach(&["-y", "land", &session]).expect(2).fails_with("session-of-task");
    env.git(&["reset", "--quiet", "--hard", &before]);
    env.pleach(&["-y", "land", &format!("{session}/r1")]).expect(0);
    assert_eq!(env.git(&["show", "main:hello.sh"]), "echo 'Hello, world!'");
}

#[test]
fn a_killed_replay_goes_on() {
    let env = done();
    let gate = Gate::new(&env, "tests");
    let script = SCRIPT.replace(
        "{write_file: {file_path: b.txt, content: \"test\\n\"}}",
        &format!("{{shell: {{command: \"{}; echo late > b.txt\"}}}}", gate.command()),
    );
    env.script(&script);
    let session = env.session();
    let mut run = env.spawn(&["-y", "replay", &session, "--checkpoint", "check", "--prompt-append", "Please."]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let dead = env.pleach(&["status", "--json", &session]).expect(0).json()["runs"][1].clone();
    assert_eq!((&dead["standing"]["is"], &dead["changes"]["prompt_append"]), (&json!("dead"), &json!("Please.")));
    env.pleach(&["-y", "resume", &format!("{session}/r1")]).expect(0);
    assert_eq!(env.on("--r1", "b.txt"), "late");
    env.assert_no_process_left();
}

#[test]
fn a_replay_lands_by_its_name() {
    let env = done();
    env.script(&SCRIPT.replace("content: \"test\\n\"", "content: \"better\\n\""));
    env.replay(&["--turn", "5"]).expect(0);
    env.pleach(&["-y", "land", &format!("{}/r1", env.session())]).expect(0);
    assert_eq!(env.git(&["show", "main:b.txt"]), "better");
}
