//! Human gates: what a person sees, answers and adds.

use serde_json::json;

use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;
use crate::terminal::Terminal;

/// An agent that drafts, and does better when it is told what was wrong.
const SCRIPT: &str = r#"
model: m
scripts:
  - name: the first draft
    when: {node: draft, visit: 1}
    steps:
      - {text: I draft it., tools: [{write_file: {file_path: notes, content: "much too long\n"}}]}
      - text: The draft is in notes.
  - name: the second draft
    when: {node: draft, visit: 2, contains: "A person chose `Revise` and says: shorter please"}
    steps:
      - {text: I shorten it., tools: [{write_file: {file_path: notes, content: "short\n"}}]}
      - text: It is shorter.
"#;

/// A draft that is approved or sent back. `attributes` go to the gate.
fn drafts(attributes: &str) -> String {
    graph(
        "drafts",
        &format!(
            "draft [prompt=\"Draft the notes\"]
             gate [shape=hexagon, label=\"Are the notes good?\"{attributes}]
             start -> draft -> gate
             gate -> exit [label=\"[A] Approve\"]
             gate -> draft [label=\"[R] Revise\"]"
        ),
    )
}

#[test]
fn n11_a_person_sees_the_work_and_comments_on_it() {
    let env = TestEnv::with_script(SCRIPT);
    env.pipeline(&drafts(", timeout=1h, human.default_choice=exit"));
    let Some(mut terminal) = Terminal::open(&env, "run ../pipeline.dot") else { return };
    terminal.wait_for("draft answered:\r\n  | The draft is in notes.\r\n");
    terminal.wait_for("changed so far: 1 file, +1 -0\r\n    notes +1 -0\r\n");
    terminal.wait_for(&format!("see more: pleach diff {0}, pleach turns {0}", env.session()));
    terminal.wait_for("? Are the notes good?\r\n  [A] Approve\r\n  [R] Revise\r\n");
    terminal.wait_for("without an answer within 1h 00m, `Approve` is chosen");
    terminal.enter("r");
    terminal.wait_for("comment for the next node (Enter for none)> ");
    terminal.enter("shorter please");
    terminal.wait_for("| It is shorter.");
    terminal.enter("a: thank you");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Are the notes good?: Revise: shorter please (console)"), "{shown}");
    let story = env.story();
    let comments: Vec<_> = story.all("HumanInteraction").iter().map(|answer| answer["comment"].clone()).collect();
    assert_eq!(comments, ["shorter please", "thank you"]);
    assert_eq!(env.committed("notes"), "short");
}

#[test]
fn n11_a_comment_with_an_answer_reaches_the_next_node() {
    for fidelity in ["compact", "full", "truncate"] {
        let env = TestEnv::with_script(SCRIPT);
        let dot = drafts("").replace("Draft the notes\"", &format!("Draft the notes\", fidelity=\"{fidelity}\""));
        let answers = ["--answer", "gate=Revise: shorter please", "--answer", "gate=A"];
        env.run(&dot, &answers).expect(0);
        assert_eq!(env.committed("notes"), "short", "{fidelity}");
        let context = |number: usize| env.story().all("Checkpoint")[number]["context"].clone();
        let comments: Vec<_> = (0..env.story().all("Checkpoint").len())
            .map(|number| context(number)["human.gate.comment"].clone())
            .filter(|comment| !comment.is_null())
            .collect();
        assert_eq!(comments.first(), Some(&json!("shorter please")));
        assert_eq!(comments.last(), Some(&json!("")), "what was said at an earlier gate is not said again");
    }
}

#[test]
fn n11_status_carries_the_question_while_it_waits() {
    let env = TestEnv::with_script(SCRIPT);
    let ran = env.run(&drafts(", timeout=90s"), &[]).expect(4);
    for shown in
        ["draft answered:\n  | The draft is in notes.", "notes +1 -0", "look:    pleach diff", "CHOICE: COMMENT"]
    {
        assert!(ran.stdout.contains(shown), "{shown}: {ran}");
    }
    let session = env.session();
    let told = env.pleach(&["--json", "status", &session]).expect(0).json();
    let choice = |key: &str, label: &str, target: &str| json!({"key": key, "label": label, "target": target});
    assert_eq!(
        told["question"],
        json!({
            "context": "main", "node": "gate", "visit": 1, "type": "multiple_choice", "text": "Are the notes good?",
            "choices": [choice("A", "Approve", "exit"), choice("R", "Revise", "draft")],
            "default": null, "timeout_seconds": 90.0,
        })
    );
    let told = env.pleach(&["status", &session]).expect(0);
    assert!(told.stdout.contains("Are the notes good?") && told.stdout.contains("Approve, Revise"), "{told}");
    assert!(told.stdout.contains("without an answer within 1m 30s, the run pauses"), "{told}");
    env.resume(&["--answer", "gate=approve"]).expect(0);
    assert_eq!(env.pleach(&["--json", "status", &session]).expect(0).json()["question"], json!(null));
}

#[test]
fn n11_a_wrong_answer_is_refused_before_anything_runs() {
    let env = TestEnv::with_script(SCRIPT);
    let refs = env.git(&["for-each-ref"]);
    let ran = env.run(&drafts(""), &["--answer", "gate=Perhaps"]).expect(2);
    ran.fails_with("answer-unknown").naming("`Perhaps`").naming("`gate`");
    let ran = env.run(&drafts(""), &["--answer", "gat=Approve"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gat`");
    env.write("answers.json", r#"{"gate": ["Revise", "Nope"], "other": "x"}"#);
    let ran = env.run(&drafts(""), &["--answers", "../answers.json"]).expect(2);
    ran.fails_with("answer-unknown").naming("`Nope`");
    assert_eq!((env.sessions(), env.git(&["for-each-ref"])), (Vec::new(), refs));
    env.run(&drafts(""), &[]).expect(4);
    let recorded = env.story().records.len();
    env.resume(&["--answer", "gate=Perhaps"]).expect(2);
    assert_eq!(env.story().records.len(), recorded);
}

#[test]
fn n11_free_text_yes_or_no_and_confirmation_are_answers() {
    let env = TestEnv::with_script(
        "model: m\nscripts:\n  - {name: paint, when: {contains: 'A person answered: blue: light'}, steps: [{text: Painted.}]}\n",
    );
    let dot = graph(
        "asks",
        &(tool("ship", "true")
            + "colour [shape=hexagon, label=\"Which colour?\"] paint
               sure [shape=hexagon, label=\"Sure?\", question_type=yes_no]
               ready [shape=hexagon, label=\"Ready?\"]
               start -> colour  colour -> paint [freeform=true]  colour -> exit [label=Stop]
               paint -> sure  sure -> ready [label=Paint]  sure -> exit [label=Stop]
               ready -> ship [label=Continue]  ship -> exit"),
    );
    let more = ["--answer", "colour=blue: light", "--answer", "sure=yes", "--answer", "ready=y"];
    env.run(&dot, &more).expect(0);
    let story = env.story();
    let answers: Vec<_> = story.all("HumanInteraction").iter().map(|answer| answer["answer"].clone()).collect();
    assert_eq!(answers, ["blue: light", "Paint", "Continue"]);
    assert_eq!(story.node("colour")["outcome"]["context_updates"]["human.gate.text"], "blue: light");
    let refused = ["--answer", "colour=red", "--answer", "sure=yes", "--answer", "ready=no"];
    env.script("model: m\nscripts: [{name: paint, steps: [{text: Painted.}]}]\n");
    let ran = env.run(&dot, &refused).expect(1);
    assert!(ran.stdout.contains("gate `ready` was declined"), "{ran}");
}

#[test]
fn n11_a_timeout_without_a_default_pauses_at_a_terminal() {
    let env = TestEnv::with_script(SCRIPT);
    env.pipeline(&drafts(", timeout=50ms"));
    let Some(mut terminal) = Terminal::open(&env, "run ../pipeline.dot") else { return };
    terminal.wait_for("the run pauses");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert!(shown.contains("--answer gate=CHOICE"), "{shown}");
    assert_eq!(env.story().last("PipelinePaused")["reason"], "waits_for_person");
}

/// A command that waits at a gate, a question about what it did, and a command if the answer is yes.
fn deploys(gate: &Gate) -> String {
    let body = tool("build", &gate.command()) + &tool("deploy", "echo deployed > log");
    let ways =
        "start -> build -> ask  ask -> deploy [label=\"[Y] Yes\"]  ask -> exit [label=\"[N] No\"]  deploy -> exit";
    graph("deploys", &format!("{body} ask [shape=hexagon, label=\"Deploy it?\"] {ways}"))
}

#[test]
fn what_is_typed_before_a_question_answers_nothing() {
    let env = TestEnv::with_repo();
    let (start, build) = (Gate::new(&env, "start"), Gate::new(&env, "build"));
    env.pipeline(&deploys(&build));
    // While pleach starts: the commands of the repository are not approved by it.
    let Some(mut terminal) = Terminal::open_behind(&env, &start, "run ../pipeline.dot") else { return };
    let held = terminal.wait_at(&start);
    terminal.enter("y");
    terminal.wait_for("y\r\n");
    start.open(held);
    terminal.wait_for("Approve all of this? [y/N/a] ");
    terminal.enter("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert_eq!(env.sessions(), [""; 0], "{shown}");
    // While a node works: neither the gate is answered, nor the question for a comment.
    let mut terminal = Terminal::open(&env, "-y run ../pipeline.dot").expect("it was there before");
    let held = terminal.wait_at(&build);
    terminal.enter("y");
    terminal.wait_for("y\r\n");
    build.open(held);
    terminal.wait_for("? Deploy it?\r\n  [Y] Yes\r\n  [N] No\r\n> ");
    terminal.enter("n");
    terminal.wait_for("comment for the next node (Enter for none)> ");
    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(env.story().first("HumanInteraction")["answer"], "No", "{shown}");
}

#[test]
fn ctrl_c_at_the_comment_takes_the_answer_back() {
    let env = TestEnv::with_repo();
    let build = Gate::new(&env, "build");
    build.stay_open();
    env.pipeline(&deploys(&build));
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Deploy it?");
    terminal.enter("y");
    terminal.wait_for("comment for the next node (Enter for none)> ");
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
    assert!(env.story().all("HumanInteraction").is_empty(), "{shown}");
    env.resume(&["--answer", "ask=No"]).expect(0);
    let answers: Vec<_> = env.story().all("HumanInteraction").iter().map(|answer| answer["answer"].clone()).collect();
    assert_eq!(answers, ["No"]);
}
