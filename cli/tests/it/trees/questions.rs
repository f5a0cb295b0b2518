//! Gates a person decides inside the pipeline of a task.

use serde_json::json;

use super::garden::{Garden, Tree};

const ASKS: &str = r#"digraph careful {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    gate [shape=hexagon, label="Keep it?"]
    lint [shape=parallelogram, step=lint, write=false, tool_command="true"]
    start -> implement -> gate
    gate -> lint [label="Yes"]
    gate -> done [label="Without lint"]
    lint -> done
}
"#;

fn asking(tasks: &[&str]) -> Garden {
    let garden = Garden::new(&Tree::of(tasks));
    garden.commit("asks.dot", ASKS);
    garden
}

#[test]
fn a_gate_without_a_terminal_says_how_to_answer() {
    let garden = asking(&["T001", "T002"]);
    let ran = garden.gardener(&["--fresh", "--pipeline", "asks.dot"]).expect(4);
    let sid = garden.env.sessions().remove(0);
    let at = regex::Regex::new(r"_\d{8}T\d{6}").expect("a valid pattern");
    insta::assert_snapshot!(at.replace(&ran.stdout, "_[AT]").replace(&sid, "[SID]"), @"
    paused: T001 waits for an answer at `gate`
    `gate` asks: Keep it? (Yes, Without lint)
      implement answered:
      | Wrote T001.txt.
      changed so far: 2 files, +4 -0
        T001.txt +1 -0
        logs/T001_implement_[AT].log +3 -0
    look:    pleach diff [SID]
    answer:  pleach -y gardener --pipeline asks.dot --answer gate=CHOICE
    ");
    let status = garden.env.pleach(&["status", &sid]).expect(0);
    assert!(status.stdout.contains("--tree task-tree.json --answer T001/gate=CHOICE"), "{status}");
    let ran = garden.gardener(&["--pipeline", "asks.dot", "--json"]).expect(4);
    let last = ran.json_lines().pop().expect("a line");
    assert_eq!((&last["ended"], &last["gate"]), (&json!("paused"), &json!("gate")));
    assert_eq!((&last["question"], &last["choices"]), (&json!("Keep it?"), &json!(["Yes", "Without lint"])));
    // One answer is for one question: the next task asks again.
    let ran = garden.gardener(&["--pipeline", "asks.dot", "--answer", "gate=yes"]).expect(4);
    assert!(ran.stderr.contains("Keep it?: Yes (file)"), "{ran}");
    assert!(ran.ended() == ("paused", "T002") && ran.stdout.contains("`gate`"), "{ran}");
    garden.gardener(&["--pipeline", "asks.dot", "--answer", "gate=Without lint"]).expect(0);
    assert_eq!(
        garden.told("main"),
        ["T001 implement-pass", "T001 lint-pass", "T001 complete", "T002 implement-pass", "T002 complete"]
    );
    assert_eq!(garden.times_asked("T001", "implement"), 1, "nothing was done twice");
}

#[test]
fn gates_of_tasks_are_answered_beforehand() {
    let garden = asking(&["T001", "T002"]);
    garden.env.write("answers.json", r#"{"gate": ["Without lint", "Yes"]}"#);
    garden.gardener(&["--pipeline", "asks.dot", "--answers", "../answers.json"]).expect(0);
    let linted = |garden: &Garden| garden.told("main").into_iter().filter(|step| step.contains("lint")).collect();
    let steps: Vec<String> = linted(&garden);
    assert_eq!(steps, ["T002 lint-pass"]);

    let garden = asking(&["T001", "T002"]);
    garden.garden(&["--pipeline", "asks.dot", "--auto-approve"]).expect(0);
    garden.garden(&["--pipeline", "asks.dot", "--answer", "gate=Y"]).expect(0);
    let steps: Vec<String> = linted(&garden);
    assert_eq!(steps, ["T001 lint-pass", "T002 lint-pass"]);
}

#[test]
fn an_answer_to_no_gate_of_tasks_is_refused() {
    let garden = asking(&["T001"]);
    let ran = garden.gardener(&["--pipeline", "asks.dot", "--answer", "gaet=Yes"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gaet`");
    let ran = garden.gardener(&["--answer", "gate=Yes"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gate`");
    assert_eq!(garden.env.sessions().len(), 0);
    let ran = garden.gardener(&["--pipeline", "asks.dot", "--answer", "gate=Perhaps"]).expect(2);
    ran.fails_with("answer-unknown");
    for unknown in ["T009", "gate", "T001/gate", "T009/gate", ""] {
        let answer = format!("{unknown}/gate=Yes");
        let ran = garden.gardener(&["--pipeline", "asks.dot", "--answer", &answer]).expect(2);
        ran.fails_with("no-such-gate").naming(format!("no task or branch `{unknown}`"));
    }
    assert_eq!(garden.env.sessions().len(), 0);
    garden.gardener(&["--pipeline", "asks.dot", "--answer", "T001/gate=Yes"]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_gate_of_the_original_pipeline_can_be_answered() {
    let garden = asking(&["T001", "T002"]);
    garden.gardener(&["--pipeline", "asks.dot"]).expect(4);
    let ran = garden.gardener(&[]).expect(4);
    assert!(ran.stdout.contains("answer:  pleach -y gardener --answer gate=CHOICE\n"), "{ran}");
    let ran = garden.gardener(&["--answer", "gaet=Yes"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gaet`");
    // Nothing is resumed there.
    let ran = garden.gardener(&["--answer", "gate=Yes", "--fresh", "--dry-run"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gate`");
    garden.gardener(&["--answer", "gate=Yes", "--dry-run"]).expect(0);
    garden.gardener(&["--answer", "gate=Yes"]).expect(0);
    assert_eq!(garden.told("main")[..3], ["T001 implement-pass", "T001 lint-pass", "T001 complete"]);
    // The next one has the pipeline of today, and so has nobody asked.
    assert_eq!(garden.told("main")[3..], ["T002 implement-pass", "T002 review-approved", "T002 complete"]);
    let ran = garden.gardener(&["--answer", "gate=Yes"]).expect(2);
    ran.fails_with("no-such-gate").naming("`gate`");
}

#[test]
fn commands_get_an_edited_tasks_text_like_agents() {
    let garden = asking(&["T001"]);
    let saves = ASKS.replace("\"true\"", "\"printf %s \\\"$task_name: $task_description\\\" > \\\"$HOME/saw\\\"\"");
    garden.commit("asks.dot", &saves);
    garden.gardener(&["--pipeline", "asks.dot"]).expect(4);
    let tree = Tree::of(&["T001"]).with("T001", "name", json!("Prune")).with("T001", "description", json!("Cut it."));
    garden.plant(&tree);
    garden.gardener(&["--pipeline", "asks.dot", "--answer", "gate=Yes"]).expect(0);
    assert_eq!(garden.env.read("home/saw"), "Prune: Cut it.");
    let lint = garden.newest("main", "T001 lint-pass");
    assert!(lint.subject.contains("\"Prune\""), "{}", lint.subject);
}

#[test]
fn an_answer_is_shown_with_its_task() {
    let garden = asking(&["T001", "T002"]);
    let answers = ["--answer", "T001/gate=Yes", "--answer", "T002/gate=Without lint"];
    let ran = garden.gardener(&[&["--pipeline", "asks.dot", "--jobs", "2"], &answers[..]].concat()).expect(0);
    for line in ["  T001 Keep it?: Yes (file)", "  T002 Keep it?: Without lint (file)"] {
        assert!(ran.stderr.lines().any(|shown| shown == line), "{line}: {ran}");
    }
}
