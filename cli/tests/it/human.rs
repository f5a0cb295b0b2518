//! Gates a person decides: answered beforehand, by default, not at all, wrongly.

use serde_json::{Value, json};

use crate::sessions::{graph, tool};
use crate::support::TestEnv;

/// Asks whether to ship what was made. `attributes` go to the gate.
fn asks(attributes: &str) -> String {
    graph(
        "asks",
        &(tool("make", "echo made >> log")
            + &tool("ship", "echo shipped >> log")
            + &format!(
                " gate [shape=hexagon, label=\"Ship it?\"{attributes}]
                  start -> make -> gate
                  gate -> ship [label=\"[Y] Yes\"]
                  gate -> make [label=\"[N] No, once more\"]
                  ship -> exit"
            )),
    )
}

/// What was answered, and by whom.
fn answered(env: &TestEnv) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let story = env.story();
    let answers = story.all("HumanInteraction");
    answers.iter().map(|answer| format!("{} ({})", text(&answer["answer"]), text(&answer["source"]))).collect()
}

#[test]
fn auto_approve_takes_the_first_choice() {
    let env = TestEnv::with_repo();
    let ran = env.run(&asks(""), &["--auto-approve"]).expect(0);
    let answer = env.story().first("HumanInteraction");
    assert_eq!((&answer["answer"], &answer["source"]), (&json!("Yes"), &json!("auto-approve")));
    assert_eq!(answer["options"], json!(["Yes", "No, once more"]));
    assert_eq!(env.committed("log"), "made\nshipped");
    assert!(ran.stderr.contains("Ship it?: Yes (auto-approve)"), "{ran}");
}

#[test]
fn an_answer_on_the_command_line_is_taken() {
    let env = TestEnv::with_repo();
    env.run(&asks(""), &["--answer", "gate=yes"]).expect(0);
    let answer = env.story().first("HumanInteraction");
    assert_eq!((&answer["answer"], &answer["question"]), (&json!("Yes"), &json!("Ship it?")));
    // It is for its gate alone, and wins over --auto-approve.
    let env = TestEnv::with_repo();
    env.run(&asks(""), &["--answer", "gate=N", "--auto-approve"]).expect(0);
    assert_eq!(answered(&env), ["No, once more (file)", "Yes (auto-approve)"]);
}

#[test]
fn an_answer_is_for_the_next_visit_alone() {
    let env = TestEnv::with_repo();
    env.run(&asks(""), &["--answer", "gate=N"]).expect(4);
    assert_eq!(env.committed("log"), "made\nmade", "it asks again after what was asked for is done");
    // The gate was visited before, and the next visit is the one that is answered. Several go in order.
    env.resume(&["--answer", "gate=N", "--answer", "gate=N"]).expect(4);
    env.write("answers.json", r#"{"gate": "N"}"#);
    env.resume(&["--answers", "../answers.json"]).expect(4);
    env.resume(&["--answer", "gate=N", "--answer", "gate=Y"]).expect(0);
    assert_eq!(answered(&env), [&["No, once more (file)"; 5][..], &["Yes (file)"]].concat());
    assert_eq!(env.committed("log"), "made\nmade\nmade\nmade\nmade\nmade\nshipped");

    // A list reports the visits from the first one on, wherever the run starts again.
    let env = TestEnv::with_repo();
    env.write("answers.json", r#"{"gate": ["N", "N", "Y"]}"#);
    env.run(&asks(""), &["--answer", "gate=N"]).expect(4);
    env.resume(&["--answers", "../answers.json"]).expect(0);
    assert_eq!(answered(&env), ["No, once more (file)", "No, once more (file)", "Yes (file)"]);
}

#[test]
fn answers_from_a_file_are_taken_visit_by_visit() {
    let env = TestEnv::with_repo();
    env.write("answers.json", r#"{"gate": ["No, once more", "N", "Y"], "other": "x"}"#);
    env.run(&asks(""), &["--answers", "../answers.json"]).expect(0);
    let story = env.story();
    let answers: Vec<_> = story.all("HumanInteraction").iter().map(|answer| answer["answer"].clone()).collect();
    assert_eq!(answers, ["No, once more", "No, once more", "Yes"]);
    assert_eq!(story.first("HumanInteraction")["source"], "file");
    assert_eq!(env.committed("log"), "made\nmade\nmade\nshipped");

    // When the file has no answer left, nobody is there to ask.
    let env = TestEnv::with_repo();
    env.write("answers.json", r#"{"gate": ["N"]}"#);
    env.run(&asks(""), &["--answers", "../answers.json"]).expect(4);
    env.write("answers.json", r#"{"gate": 7}"#);
    let ran = env.run(&asks(""), &["--answers", "../answers.json"]).expect(2);
    ran.fails_with("answers-unreadable").naming("answers.json");
    assert!(ran.stderr.contains("`gate`"), "{ran}");
    let ran = env.run(&asks(""), &["--answers", "../absent.json"]).expect(2);
    ran.fails_with("answers-unreadable").naming("absent.json");
    let ran = env.run(&asks(""), &["--answer", "gate"]).expect(2);
    ran.fails_with("answer-malformed").naming("`gate`");
}

#[test]
fn without_anybody_the_default_choice_is_taken() {
    let env = TestEnv::with_repo();
    env.run(&asks(", human.default_choice=ship"), &[]).expect(0);
    let answer = env.story().first("HumanInteraction");
    assert_eq!((&answer["answer"], &answer["source"]), (&json!("Yes"), &json!("default")));
}

#[test]
fn without_a_terminal_and_a_default_the_run_waits() {
    let env = TestEnv::with_repo();
    let ran = env.run(&asks(""), &[]).expect(4);
    insta::assert_snapshot!(env.normalise(&ran.stdout), @"
    paused: session [SID] at `gate` (1 turn, 0 tokens, [TIME])
    `gate` asks: Ship it? (Yes, No, once more)
      changed so far: 1 file, +1 -0
        log +1 -0
    look:    pleach diff [SID]
    answer:  pleach resume [SID] --answer gate=CHOICE
    comment: pleach resume [SID] --answer 'gate=CHOICE: COMMENT'
    ");
    let story = env.story();
    assert_eq!(story.last("PipelinePaused"), json!({"reason": "waits_for_person", "node_id": "gate"}));
    // Without an answer it continues waiting; with one it continues.
    env.resume(&[]).expect(4);
    let ran = env.resume(&["--answer", "gate=Yes"]).expect(0);
    assert!(ran.stdout.contains("done: session"), "{ran}");
    assert_eq!(env.committed("log"), "made\nshipped", "nothing was done twice");
    let story = env.story();
    assert_eq!(story.all("HumanInteraction").len(), 1);
    // It is over now, and that is said.
    let ran = env.resume(&["--answer", "gate=Yes"]).expect(2);
    ran.fails_with("session-over");
}

#[test]
fn a_wrong_answer_names_the_choices_and_loses_nothing() {
    let env = TestEnv::with_repo();
    env.run(&asks(""), &[]).expect(4);
    let ran = env.resume(&["--answer", "gate=Maybe"]).expect(2);
    ran.fails_with("answer-unknown").naming("`Maybe`").naming("`gate`");
    env.resume(&["--answer", "gate=ship"]).expect(0);
    assert_eq!(env.committed("log"), "made\nshipped");
}

#[test]
fn only_what_distinguishes_choices_is_asked_for() {
    for (choices, hint) in [
        ("gate -> same [label=\"[S] Same\"]  gate -> same [label=\"[S] Some\"]", "answer with the whole label of"),
        ("gate -> same [label=\"[S] Same\"]  gate -> other [label=\"[S] Same\"]", "answer with the target of"),
    ] {
        let nodes = tool("same", "true") + &tool("other", "true");
        let ways = "same -> exit  other -> exit  gate -> other [label=Other]";
        let dot =
            graph("alike", &format!("{nodes} gate [shape=hexagon, label=\"Which?\"] start -> gate {choices} {ways}"));
        let ran = TestEnv::with_repo().run(&dot, &["--answer", "gate=S"]).expect(2);
        assert!(ran.stderr.contains(hint), "{hint}: {ran}");
    }
}

#[test]
fn an_answer_that_fits_two_choices_is_refused() {
    let dot = graph(
        "alike",
        &(tool("same", "echo same >> log")
            + &tool("other", "echo other >> log")
            + "gate [shape=hexagon, label=\"Which?\"]
               start -> gate  gate -> same [label=\"Same\"]  gate -> other [label=\"Some\"]
               same -> exit  other -> exit"),
    );
    let env = TestEnv::with_repo();
    let ran = env.run(&dot, &["--answer", "gate=S"]).expect(2);
    ran.fails_with("answer-ambiguous").naming("`S`").naming("`gate`");
    let ran = env.run(&dot, &["--answer", "gate=some"]).expect(0);
    assert!(ran.stderr.contains("Which?: Some (file)"), "{ran}");
    assert_eq!(env.committed("log"), "other");
}

#[test]
fn answers_are_seen_by_conditions_downstream() {
    let env = TestEnv::with_repo();
    let body = "gate [shape=hexagon, label=\"Which?\"]
        which [shape=diamond]
        start -> gate  gate -> which [label=\"Red\"]  gate -> which [label=\"Blue\"]
        which -> red [condition=\"human.gate.label=Red\"]  which -> blue [condition=\"human.gate.label=Blue\"]
        red -> exit  blue -> exit\n"
        .to_owned()
        + &tool("red", "true")
        + &tool("blue", "true");
    env.run(&graph("colours", &body), &["--answer", "gate=Blue"]).expect(0);
    assert_eq!(env.story().path()[3], "blue:success");
}

#[test]
fn with_json_a_waiting_run_says_so_in_its_events() {
    let env = TestEnv::with_repo();
    let ran = env.run(&asks(""), &["--json"]).expect(4);
    let events = ran.json_lines();
    let last = events.last().expect("events");
    assert_eq!(last["type"], "dev.orchestra.PipelinePaused");
    assert_eq!(last["data"], json!({"reason": "waits_for_person", "node_id": "gate"}));
    // What was shown is what was recorded, numbered, with session and context.
    let story = env.story();
    let recorded: Vec<_> = story.records.iter().flat_map(|(_, events)| events).collect();
    assert_eq!(events.len(), recorded.len());
    for (number, (line, event)) in events.iter().zip(recorded).enumerate() {
        assert_eq!((&line["type"], &line["data"], &line["at"]), (&event["type"], &event["data"], &event["at"]));
        assert_eq!((&line["v"], &line["seq"]), (&json!(1), &json!(number + 1)));
        assert_eq!((&line["session"], &line["context"]), (&json!(env.session()), &json!("main")));
    }
}
