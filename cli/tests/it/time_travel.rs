//! Going back to any turn, and on from it in a run of its own: what is restored, asked, recorded and left alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::mirror::MirroredEnv;
use crate::sessions::{Gate, Story, graph, tool};
use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

mod agents;
mod branches;
mod crash;
mod every_turn;
mod runs;

/// Five turns of two agents, of which three write and one reads, with a command between them.
const SCRIPT: &str = r#"
model: scripted-1
scripts:
  - name: code
    when: {node: code}
    steps:
      - {text: Add the program., tools: [{write_file: {file_path: a.txt, content: "one\n"}}], usage: {input: 10}}
      - {text: Look at it., tools: [{read_file: {file_path: a.txt}}], usage: {input: 10}}
      - {text: Change it., tools: [{edit_file: {file_path: a.txt, old_string: one, new_string: two}}], usage: {input: 10}}
      - {text: The program is there., usage: {input: 10}}
  - name: tests
    when: {node: tests}
    steps:
      - {text: Add a test., tools: [{write_file: {file_path: b.txt, content: "test\n"}}], usage: {input: 10}}
      - {text: A test is there., usage: {input: 10}}
"#;

/// The turns are main.1 to main.4 of `code`, main.5 of `check`, main.6 and main.7 of `tests`.
const BODY: &str = "code [prompt=\"Write it\"] check [shape=parallelogram, tool_command=\"cat a.txt >> log.txt\"] \
                    tests [prompt=\"Test it\"] start -> code -> check -> tests -> exit";

/// A repository whose session has run to its end.
fn done() -> MirroredEnv {
    let env = MirroredEnv::of(TestEnv::with_script(SCRIPT));
    env.run(&graph("p", BODY), &[]).expect(0);
    env
}

impl TestEnv {
    fn replay(&self, more: &[&str]) -> crate::support::Ran {
        let session = self.session();
        let mut args = vec!["-y", "replay", session.as_str()];
        args.extend(more);
        self.pleach(&args)
    }

    /// A file of a branch of the only session: `""` is its own, `--r1` that of a replay.
    fn on(&self, branch: &str, path: &str) -> String {
        self.git(&["show", &format!("{}{branch}:{path}", self.branch())])
    }

    /// The commits of a branch since the session began, oldest first.
    fn subjects(&self, branch: &str) -> Vec<String> {
        let range = format!("main..{}{branch}", self.branch());
        self.git(&["log", "--reverse", "--format=%s", &range]).lines().map(str::to_owned).collect()
    }

    /// The own turns of a context, as its record has them.
    fn turns_of(&self, context: &str) -> Vec<String> {
        let story = Story::in_context(self, &self.repo_path(), &self.session(), context);
        let turns = story.events().filter(|(kind, _)| matches!(*kind, "AgentTurn" | "ToolExecution"));
        let own = turns.map(|(_, data)| data["turn"].as_str().expect("a turn").to_owned());
        own.filter(|turn| turn.starts_with(&format!("{context}."))).collect()
    }

    /// Every ref of the session with its commit.
    fn own_refs(&self) -> BTreeMap<String, String> {
        let session = self.session();
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let own = refs.lines().filter(|line| line.contains(&session)).filter_map(|line| line.split_once(' '));
        own.map(|(name, at)| (name.to_owned(), at.to_owned())).collect()
    }
}

#[test]
fn replay_from_agent_turn() {
    let env = done();
    let before = env.own_refs();
    let ran = env.replay(&["--turn", "1"]).expect(0);
    let said = ran.to_string();
    assert!(said.contains("replay r1") && said.contains("will run again: check (1 time before)"), "{said}");
    assert!(said.contains("in the original `code`, `tests` took 5 turns, 50 tokens from there on\n"), "{said}");
    assert_eq!(env.turns_of("r1"), ["r1.2", "r1.3", "r1.4", "r1.5", "r1.6", "r1.7"]);
    let after = env.own_refs();
    let new: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert!(new.iter().all(|name| name.ends_with("--r1") || name.ends_with("/r1")), "{new:?}");
    assert!(before.iter().all(|(name, at)| after.get(name) == Some(at)), "nothing of the original has moved");
    let record = env.git(&[
        "log",
        "-1",
        "--format=%P",
        &format!("{}~7", after[&format!("refs/pleach/sessions/{}/r1", env.session())]),
    ]);
    assert!(!record.is_empty(), "the first record of a replay goes on from one of the original");
    let trailers =
        env.git(&["log", "-1", "--format=%(trailers:key=Orchestra-Turn,valueonly)", &format!("{}--r1", env.branch())]);
    assert_eq!(trailers, "r1.6");
    // At CXDB the context is forked at that turn, and the original's is as it was.
    env.assert_mirrored("main");
    env.assert_mirrored("r1");
    let [main, replay] = ["main", "r1"].map(|context| env.shown(context));
    let shared = main.iter().zip(&replay).take_while(|(one, other)| one == other);
    let (kind, last) = shared.last().map(|(last, _)| last).expect("turns of both");
    assert_eq!((kind.as_str(), &last["turn"]), ("TurnCommitted", &json!("main.1")));
    assert_eq!(replay.iter().filter(|(kind, _)| kind == "PipelineCompleted").count(), 1);
}

#[test]
fn replay_restores_git_state() {
    let env = done();
    for (turn, files) in [("1", "README.md\na.txt"), ("main.3", "README.md\na.txt"), ("5", "README.md\na.txt\nlog.txt")]
    {
        env.replay(&["--turn", turn]).expect(0);
        let runs = env.pleach(&["status", "--json", &env.session()]).expect(0).json()["runs"].clone();
        let last = runs.as_array().and_then(|runs| runs.last()).expect("a run")["run"].as_str().unwrap().to_owned();
        let root = last.rsplit('/').next().unwrap();
        let story = Story::in_context(&env, &env.repo_path(), &env.session(), root);
        let fork = story.last("ContextForked");
        let base = fork["base"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        assert_eq!(env.git(&["ls-tree", "--name-only", &base]), files, "turn {turn}");
        assert_eq!(env.on(&format!("--{root}"), "log.txt"), "two", "what came after has not been there");
    }
    let commit = env.git(&["log", "--format=%H", "--grep=Add the program", &env.branch()]);
    env.replay(&["--turn", &commit]).expect(0);
    env.assert_mirrored("r4");
    env.replay(&["--turn", "99"]).expect(2).fails_with("no-such-turn");
}

#[test]
fn replay_diverges() {
    let env = done();
    let original = env.own_refs();
    env.script(&SCRIPT.replace("content: \"test\\n\"", "content: \"another\\n\""));
    env.replay(&["--checkpoint", "check"]).expect(0);
    assert_eq!((env.on("", "b.txt").as_str(), env.on("--r1", "b.txt").as_str()), ("test", "another"));
    assert_eq!(env.turns_of("r1"), ["r1.6", "r1.7"]);
    assert_eq!(env.turns_of("main").len(), 7);
    assert!(original.iter().all(|(name, at)| env.own_refs().get(name) == Some(at)));
    env.assert_mirrored("main");
    env.assert_mirrored("r1");
}

/// A session that has failed at `check`, which passes from now on.
fn failed() -> MirroredEnv {
    let env = MirroredEnv::of(TestEnv::with_script(SCRIPT));
    let flag = env.root().join("fixed");
    let body = BODY.replace("cat a.txt >> log.txt", &format!("test -e {} && cat a.txt >> log.txt", flag.display()));
    let body = body.replace("check -> tests", "check; check -> tests [condition=\"outcome=success\"]; tests");
    env.run(&graph("p", &body), &[]).expect(1);
    env.write("fixed", "");
    env
}

#[test]
fn resume_at_agent_turn() {
    let env = failed();
    env.resume(&["--turn", "1"]).expect(0);
    assert_eq!(
        env.subjects(""),
        ["Add the program", "Change it", "Return to main.1", "Change it", "Run check", "Add a test"]
            .map(str::to_owned)
            .map(|subject| if subject.starts_with("Run") { env.subjects("")[4].clone() } else { subject })
    );
    let back = env.git(&["log", "--format=%H", "--grep=Return to", &env.branch()]);
    let [tree, turn] =
        [format!("{back}^{{tree}}"), format!("{back}^2^{{tree}}")].map(|rev| env.git(&["rev-parse", &rev]));
    assert_eq!(tree, turn, "the code of the turn, whose commit is a parent");
    assert_eq!(env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Returns,valueonly)", &back]), "main.1");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep/"]), "", "what was recorded is not lost work");
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 9, "what was left stays recorded");
    let turns = env.pleach(&["turns", "--json", &env.session()]).expect(0).json();
    let left = turns["turns"].as_array().unwrap().iter().filter(|turn| turn["left"] == true);
    let left: Vec<&str> = left.map(|turn| turn["turn"].as_str().unwrap()).collect();
    assert_eq!(left, ["main.2", "main.3", "main.4", "main.5"]);
    let status = env.pleach(&["status", "--json", &env.session()]).expect(0).json();
    assert_eq!(status["tokens"]["input"], 90, "what was left was paid for");
    env.assert_mirrored("main");
    env.resume(&["--turn", "1"]).expect(2).fails_with("session-over");
}

#[test]
fn resume_at_agent_turn_restores_agent_state() {
    let env = failed();
    let again = SCRIPT.replace("Change it.", "Change it again.");
    env.script(&again);
    env.resume(&["--turn", "2"]).expect(0);
    assert_eq!(env.committed("a.txt"), "two");
    let story = env.story();
    let words = |number: u64| story.message(&env, number)["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let turns = story.all("AgentTurn");
    let first = turns[4]["messages"]["first"].as_u64().unwrap();
    assert_eq!(words(first), "Change it again.", "the model was asked with both turns, and nothing that came later");
    env.assert_mirrored("main");
}

#[test]
fn resume_at_read_only_turn() {
    let env = failed();
    env.resume(&["--turn", "main.2"]).expect(0);
    let back = env.git(&["log", "--format=%H", "--grep=Return to main.2", &env.branch()]);
    assert_eq!(
        env.git(&["show", &format!("{back}:a.txt")]),
        "one",
        "the newest commit at or before a turn without one"
    );
    env.assert_mirrored("main");
}

#[test]
fn resume_at_agent_turn_end_to_end() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "third");
    let wait = format!(
        "      - {{text: Wait., tools: [{{shell: {{command: \"{}\"}}}}], usage: {{input: 10}}}}\n",
        gate.command()
    );
    let script = SCRIPT.replacen("      - {text: The program", &format!("{wait}      - {{text: The program"), 1);
    env.script(&script);
    let mut run = env.start(&graph("p", BODY), &[]);
    let held = gate.reached(&mut run);
    run.interrupt();
    run.wait_for("stopping");
    gate.open(held);
    run.end().expect(3);
    let turns = env.pleach(&["turns", "--json", &env.session()]).expect(0).json();
    assert_eq!(turns["turns"].as_array().map(Vec::len), Some(4));
    env.resume(&["--turn", "1"]).expect(0);
    assert_eq!((env.committed("a.txt").as_str(), env.committed("b.txt").as_str()), ("two", "test"));
    assert_eq!(env.turns_of("main").len(), 11);
    env.assert_no_process_left();
}

#[test]
fn a_point_that_cannot_be_gone_on_from_is_refused() {
    let env = done();
    env.replay(&["--checkpoint", "exit"]).expect(2).fails_with("turn-is-end");
    env.replay(&["--checkpoint", "nowhere"]).expect(2).fails_with("node-not-visited");
    env.replay(&["--checkpoint", "code@2"]).expect(2).fails_with("node-not-visited");
    env.replay(&["--checkpoint", "code@x"]).expect(2).fails_with("input-malformed");
    env.replay(&["--from", "nowhere"]).expect(2).fails_with("node-not-visited");
    env.replay(&["--turn", "1"]).expect(0);
    let run = format!("{}/r1", env.session());
    env.pleach(&["-y", "resume", &run, "--turn", "r1.3"]).expect(2).fails_with("session-over");
    env.pleach(&["-y", "resume", &format!("{}/r7", env.session())]).expect(2).fails_with("no-such-session");
    let absent = env.replay(&["--turn", "r99.2"]).expect(2);
    absent.fails_with("no-such-session").naming(format!("session {} has no run `r99`", env.session()));
    env.pleach(&["cancel", &run]).expect(2).fails_with("session-over").naming(&run);
    let pipeline = env.write("other.dot", graph("other", "x [prompt=\"X\"] start -> x -> exit"));
    env.replay(&["--turn", "1", "--pipeline", pipeline.to_str().unwrap()]).expect(2).fails_with("pipeline-unfit");
    assert_eq!(env.own_refs().keys().filter(|name| name.ends_with("/r2")).count(), 0, "nothing was begun");
}

#[test]
fn what_would_run_again_is_said_without_running() {
    let env = done();
    let before = env.own_refs();
    let shown = env.replay(&["--turn", "2", "--dry-run"]).expect(0);
    assert_eq!(
        shown.stdout.replace(&env.session(), "SID"),
        "would replay session SID from main.2, at `code`\nwill run again: check (1 time before)\n\
         in the original `code`, `tests` took 4 turns, 40 tokens from there on\n"
    );
    // With a node to begin with it is what was done from there on.
    let from = env.replay(&["--from", "check", "--dry-run"]).expect(0);
    assert_eq!(
        from.stdout.replace(&env.session(), "SID"),
        "would replay session SID from the end, at `check`\nwill run again: check (1 time before)\n\
         in the original `tests` took 2 turns, 20 tokens from there on\n"
    );
    let several = env.replay(&["--turn", "5", "--model", "m", "--model", "n", "--dry-run"]).expect(0);
    assert_eq!(
        several.stdout.replace(&env.session(), "SID"),
        "would replay session SID 2 times from main.5, at `tests`\nrun 1 with model m\nrun 2 with model n\n\
         no command will run again\nin the original `tests` took 2 turns, 20 tokens from there on\n"
    );
    let several = env.replay(&["--turn", "5", "--model", "m", "--count", "2", "--dry-run", "--json"]).expect(0).json();
    assert_eq!((&several["runs"][1]["model"], &several["runs"][2]), (&json!("m"), &Value::Null));
    let shown = env.replay(&["--turn", "2", "--dry-run", "--json"]).expect(0).json();
    assert_eq!((&shown["from_turn"], &shown["node"], &shown["tokens"]), (&json!("main.2"), &json!("code"), &json!(40)));
    let later: Vec<Value> = shown["later"].as_array().unwrap().iter().map(|node| node["node"].clone()).collect();
    assert_eq!(later, ["code", "check", "tests", "exit"]);
    assert_eq!(env.own_refs(), before);
}

#[test]
fn a_replay_may_do_otherwise() {
    let env = TestEnv::with_script(
        "scripts:\n  - {name: any, steps: [{text: Written., tools: [{write_file: {file_path: n.txt, content: \"n\\n\"}}]}, {text: Done.}]}\n",
    );
    let body = format!(
        "write [prompt=\"Write $what\"] {} start -> write -> {} -> exit",
        tool("say", "echo $what >> said.txt"),
        "say"
    );
    env.run(&graph("p", &body), &["what=one"]).expect(0);
    env.replay(&[
        "--checkpoint",
        "start",
        "--set",
        "what=two",
        "--prompt-append",
        "And be kind.",
        "--model",
        "scripted-2",
    ])
    .expect(0);
    assert_eq!((env.on("", "said.txt").as_str(), env.on("--r1", "said.txt").as_str()), ("one", "two"));
    let story = Story::in_context(&env, &env.repo_path(), &env.session(), "r1");
    let own = story.events().filter(|(kind, data)| *kind == "AgentTurn" && data["turn"] == "r1.1");
    let turn = own.map(|(_, data)| data.clone()).next().expect("its first turn");
    assert_eq!(turn["model"], "scripted-2");
    let asked = story.message(&env, turn["messages"]["first"].as_u64().unwrap()).to_string();
    assert!(asked.contains("Write two") && asked.contains("And be kind."), "{asked}");
    let status = env.pleach(&["status", "--json", &env.session()]).expect(0).json();
    let run = &status["runs"][1];
    assert_eq!((&run["changes"]["inputs"]["what"], &run["changes"]["model"]), (&json!("two"), &json!("scripted-2")));
    assert_eq!((&run["from"], &run["turns"]), (&json!(env.session()), &json!(3)));
}

#[test]
fn a_follow_up_begins_on_the_code_of_the_end() {
    let env = done();
    env.script(&SCRIPT.replace("content: \"test\\n\"", "content: \"better\\n\""));
    env.write("repo/pipeline.dot", graph("p", "code [prompt=\"Other\"] start -> code -> exit"));
    let ran = env.replay(&["--from", "tests", "--prompt-append", "Make it better."]).expect(0);
    ran.warns("pipeline-changed").naming("--pipeline pipeline.dot");
    let first = format!("replay r1 of session {} from the end, at `tests`", env.session());
    assert!(ran.stderr.lines().any(|line| line == first), "{ran}");
    assert_eq!(env.on("--r1", "b.txt"), "better");
    assert_eq!(env.on("--r1", "log.txt"), "two", "on the code of the end");
    assert_eq!(env.turns_of("r1"), ["r1.8", "r1.9"]);
    let story = Story::in_context(&env, &env.repo_path(), &env.session(), "r1");
    assert_eq!(story.last("NodeStarted")["node_id"], "exit");
    // What it has inherited runs again as well.
    let run = format!("{}/r1", env.session());
    let again = env.pleach(&["replay", &run, "--from", "code", "--dry-run", "--json"]).expect(0).json();
    let spent: Vec<Value> = again["later"].as_array().unwrap().iter().map(|node| node["turns"].clone()).collect();
    assert_eq!((spent, &again["tokens"]), (vec![json!(4), json!(0), json!(4), json!(0)], &json!(80)));
    env.replay(&["--checkpoint", "start"]).expect(0);
    env.replay(&["--checkpoint", "check"]).expect(0);
    let shown = env.pleach(&["status", &env.session()]).expect(0).stdout;
    for (root, from) in [("r1", "at tests"), ("r2", "start"), ("r3", "check")] {
        let row = shown.lines().find(|line| line.starts_with(&format!("└ {}/{root} ", env.session())));
        assert!(row.is_some_and(|row| row.contains(&format!("/{root}  {from}  "))), "{shown}");
    }
    let runs = env.pleach(&["status", "--json", &env.session()]).expect(0).json()["runs"].clone();
    assert_eq!((&runs[1]["begins"], &runs[3]["from_node"]), (&json!("tests"), &json!("check")));
}

#[test]
fn what_a_replay_has_inherited_is_shown_as_such() {
    let env = done();
    env.replay(&["--turn", "3"]).expect(0);
    let run = format!("{}/r1", env.session());
    let turns = env.pleach(&["turns", "--json", &run]).expect(0).json();
    assert_eq!(turns["run"], json!(run));
    let all = turns["turns"].as_array().unwrap();
    let inherited: Vec<&str> =
        all.iter().filter(|turn| turn["inherited"] == true).map(|turn| turn["turn"].as_str().unwrap()).collect();
    assert_eq!(inherited, ["main.1", "main.2", "main.3"]);
    assert_eq!(all.len(), 7);
    let shown = env.pleach(&["show", "--json", &format!("{}/r1.2", env.session())]).expect(0).json();
    assert_eq!(shown["turn"], "main.2", "a number of the replay before it began is the original's");
    env.pleach(&["diff", "--stat", &run]).expect(0);
    env.pleach(&["export", &run, "exported"]).expect(0);
    let cost = |of: &str| env.pleach(&["cost", "--json", of]).expect(0).json()["total"]["tokens"]["input"].clone();
    assert_eq!((cost(&run), cost(&env.session())), (json!(30), json!(90)), "one run, and all of them");
    assert_eq!(env.pleach(&["status", "--json", &run]).expect(0).json()["turns"].as_array().map(Vec::len), Some(7));
}

/// What the page about it says its repository has.
const PAGE_SCRIPT: &str = r#"
model: scripted
scripts:
  - name: to Ada
    when: {node: write, contains: "Greet Ada"}
    steps:
      - text: Greet Ada instead.
        tools: [{write_file: {file_path: hello.txt, content: "Hello, Ada!\n"}}]
      - text: hello.txt greets Ada.
  - name: write
    when: {node: write}
    steps:
      - text: Begin with a greeting.
        tools: [{write_file: {file_path: hello.txt, content: "Hello!\n"}}]
      - text: Look at it.
        tools: [{read_file: {file_path: hello.txt}}]
      - text: Greet the world.
        tools: [{write_file: {file_path: hello.txt, content: "Hello, world!\n"}}]
      - text: hello.txt greets the world.
"#;

#[test]
fn the_page_about_time_travel_shows_what_happens() {
    const PAGE: &str = include_str!("../../../docs/time-travel.md");
    let dot = PAGE.split("```dot\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a pipeline");
    let env = TestEnv::with_script(PAGE_SCRIPT);
    env.write("repo/greet.dot", dot);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A pipeline"]);
    shows_what_happens(&env, "docs/time-travel.md", 8);
}
