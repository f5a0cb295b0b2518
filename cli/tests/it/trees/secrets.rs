//! Secrets that are ordinary words: what pleach itself writes stays readable, and what others say is without them.

use serde_json::json;

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Story;
use crate::support::Ran;

/// Runs pleach where a variable that is named like a secret has this value.
fn with_secret(garden: &Garden, secret: &str, args: &[&str]) -> Ran {
    let mut command = garden.env.command(args);
    garden.env.finish(command.env("D_PASSWORD", secret).output().expect("pleach can be started"))
}

fn agent(garden: &Garden) -> String {
    garden.env.root().join("agent.sh").display().to_string()
}

#[test]
fn a_secret_equal_to_our_words_stops_no_tree() {
    let tree = Tree::of(&["T001", "T002: T001"]).tests("T001", &["unit: test -e mended || test ! -e T001.txt"]);
    let done =
        ["T001 implement-pass", "T001 test-fail", "T001 implement-pass", "T001 test-pass", "T001 review-approved"];
    // Of the built-in pipeline, of records and their messages, and of the line of one that says where a task has landed.
    for word in ["implement", "attempt", "orchestra", "success", "assistant", "landed"] {
        let garden = Garden::new(&tree);
        garden.agent(&format!("test $n = 1 || echo 1 > mended; {WRITES}; echo 'It was {word}.'"), APPROVES);
        garden.configure(&format!("tree: {{steps: {{implement: {{runner: 'command:{}'}}}}}}\n", agent(&garden)));
        // One after the other: the second run reads what the first has left.
        with_secret(&garden, word, &["-y", "garden"]).expect(0);
        assert_eq!(garden.told("main")[..5], done, "{word}");
        let second = with_secret(&garden, word, &["-y", "gardener"]).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002"], "{word}: {second}");
        garden.assert_in_order();
        let status = with_secret(&garden, word, &["--json", "status"]).expect(0);
        assert!(status.stdout.contains("\"landed\""), "{word}: {status}");
        let reports = with_secret(&garden, word, &["--json", "reports"]).expect(0);
        assert!(reports.stdout.contains("\"pass\""), "{word}: {reports}");
        // What the agent has said is another matter.
        for session in garden.env.sessions() {
            let recorded = Story::of(&garden.env, &garden.env.repo_path(), &session).whole_text(&garden.env);
            assert!(!recorded.contains(&format!("It was {word}.")), "{word}: {recorded}");
            assert!(recorded.contains("It was [redacted:D_PASSWORD]."), "{word}: {recorded}");
        }
    }
}

#[test]
fn a_session_continues_when_its_word_becomes_secret() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("own.dot", &GATED.replace("deploy", "implement"));
    let asked = garden.env.pleach(&["-y", "gardener", "--pipeline", "own.dot"]).expect(4);
    let answered = ["-y", "gardener", "--answer", "look=Yes"];
    let ran = with_secret(&garden, "second", &answered).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 check-pass", "T001 complete"], "{asked}{ran}");
}

/// A pipeline of somebody's own that stops at a gate.
const GATED: &str = "digraph own { start [shape=Mdiamond]; done [shape=Msquare]; deploy [step=implement]\n\
                     look [shape=hexagon]; second [step=check, shape=parallelogram, tool_command=\"true\"]\n\
                     start -> deploy -> look; look -> second [label=\"Yes\"]; second -> done }";

#[test]
fn a_session_resumes_with_secret_words_in_settings() {
    let asks = "digraph own { start [shape=Mdiamond]; done [shape=Msquare]; work [prompt=\"Do it\"]\n\
                look [shape=hexagon]; start -> look; look -> work [label=\"Yes\"]; work -> done }";
    for word in ["linear", "gateway", "command", "assisted-by"] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.configure("attribution: assisted-by\n");
        garden.env.write("pipeline.dot", asks);
        with_secret(&garden, word, &["-y", "run", "../pipeline.dot"]).expect(4);
        let session = garden.env.session();
        let ran = with_secret(&garden, word, &["-y", "resume", &session, "--answer", "look=Yes"]);
        assert_eq!(ran.code, 0, "{word}: {ran}");
    }
    // A program that has the name of a secret is not in the record, and it is said why.
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("pipeline.dot", asks);
    with_secret(&garden, "agent.sh", &["-y", "run", "../pipeline.dot"]).expect(4);
    let session = garden.env.session();
    let ran = with_secret(&garden, "agent.sh", &["-y", "resume", &session, "--answer", "look=Yes"]).expect(2);
    ran.fails_with("secret-found").naming("leaves a secret out of its agent").naming("[redacted:D_PASSWORD]");
}

#[test]
fn an_agent_steps_log_is_found_despite_secrets() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {commit_logs: false}\n");
    garden.commit(
        "own.dot",
        "digraph own { start [shape=Mdiamond]; done [shape=Msquare]; work [step=implement, prompt=\"Do it\"]\n\
         draft [step=draft, prompt=\"Look\"]; start -> work -> draft -> done }",
    );
    with_secret(&garden, "output", &["-y", "gardener", "--pipeline", "own.dot"]).expect(0);
    let body = garden.newest("main", "T001 draft-pass");
    let logs = with_secret(&garden, "output", &["--json", "logs"]).expect(0);
    assert!(logs.stdout.contains("draft-pass"), "{body:?}: {logs}");
}

#[test]
fn an_agent_may_have_the_name_of_a_secret() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, APPROVES);
    let agents = format!("agents: {{reviewer: {{runner: 'command:{}'}}}}", agent(&garden));
    garden.configure(&format!("{agents}\ntree: {{steps: {{review: {{runner: reviewer}}}}}}\n"));
    let ran = with_secret(&garden, "reviewer", &["-y", "gardener"]).expect(0);
    assert_eq!(garden.completed(), ["T001"], "{ran}");
}

#[test]
fn a_pipeline_with_a_secret_is_refused_first() {
    let garden = Garden::new(&Tree::of(&["T001"]).with("T001", "pipeline", json!("own.dot")));
    garden.commit("own.dot", GATED);
    let ran = with_secret(&garden, "deploy", &["-y", "gardener"]).expect(2);
    ran.fails_with("secret-found").naming("`own.dot`").naming("`D_PASSWORD`");
    assert_eq!(garden.env.git(&["log", "-1", "--format=%s"]), "Change own.dot", "nothing was begun");
    assert_eq!(garden.refs("refs/pleach"), [""; 0]);
    // So it is with what settings put into the built-in one.
    garden.plant(&Tree::of(&["T001"]));
    let ran = with_secret(&garden, "orchid", &["-y", "gardener", "--model", "orchid"]).expect(2);
    ran.fails_with("secret-found").naming("--model").naming("`task.dot`").naming("`D_PASSWORD`");
    garden.env.write("pipeline.dot", GATED);
    let ran = with_secret(&garden, "deploy", &["-y", "run", "../pipeline.dot"]).expect(2);
    ran.fails_with("secret-found").naming("`pipeline.dot`").naming("`D_PASSWORD`");
    assert_eq!(garden.refs("refs/pleach"), [""; 0]);
}

#[test]
fn task_texts_are_recorded_without_secrets() {
    let tree = Tree::of(&["T001"]).with("T001", "description", json!("Log in with hunter42!")).with(
        "T001",
        "name",
        json!("Use hunter42! at last"),
    );
    let garden = Garden::new(&tree);
    let ran = with_secret(&garden, "hunter42!", &["-y", "gardener"]).expect(0);
    assert_eq!(garden.completed(), ["T001"], "{ran}");
    assert!(garden.asked("T001", "implement", 1).contains("Log in with hunter42!"), "the agent is told all of it");
    let recorded = garden.env.story().whole_text(&garden.env);
    assert!(!recorded.contains("hunter42") && recorded.contains("Use [redacted:D_PASSWORD] at last"), "{recorded}");
    for step in garden.steps("main") {
        assert!(!format!("{step:?}").contains("hunter42"), "{step:?}");
    }
    let grep = garden.env.git(&["grep", "-l", "hunter42", "main"]);
    assert_eq!(grep, "main:task-tree.json", "no log and no report has it");
}

#[test]
fn queued_tasks_are_kept_without_secrets() {
    let tree = Tree::of(&["T001"]).with("T001", "description", json!("Log in as 'me' with hunter42!")).with(
        "T001",
        "name",
        json!("Use hunter42! at last"),
    );
    let garden = Garden::new(&tree);
    garden.configure("test_command: 'test -n \"$task_name\"'\nmerge: {slots: 1}\n");
    with_secret(&garden, "hunter42!", &["-y", "gardener", "--isolation", "task"]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    let why = garden.env.pleach(&["merge", "why", "T001", "--json"]).expect(0).json();
    assert_eq!(why["title"], "Use [redacted:D_PASSWORD] at last");
    let test = why["tests"][0]["command"].as_str().expect("its test");
    assert!(test.contains("with [redacted:D_PASSWORD]") && test.ends_with("test -n \"$task_name\""), "{test}");
    let paths = ["entry.json", "order.json", "log.txt"];
    let kept = [&["log", "-p", "-m", "--full-history", "--glob=refs/pleach/queue", "--"][..], &paths].concat();
    let kept = garden.env.git(&kept) + &garden.env.git(&["show", "refs/pleach/queue/main/results"]);
    assert!(kept.contains("[redacted:D_PASSWORD]") && !kept.contains("hunter42"), "{kept}");
}

#[test]
fn entries_with_secrets_are_rewritten_when_they_are_written() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("test_command: 'true'\nmerge: {slots: 1}\n");
    let title = |ran: Ran| ran.expect(0).json()["title"].clone();
    for (branch, decision) in [("one", &["merge", "drop", "one"][..]), ("two", &["-y", "merge", "process"])] {
        garden.env.git(&["switch", "-qc", branch, "main"]);
        garden.commit(branch, "1");
        garden.env.git(&["commit", "-q", "--amend", "-m", "Use hunter42! at last"]);
        garden.env.git(&["switch", "-q", "main"]);
        // As one is that does not know the secret.
        assert_eq!(title(garden.env.pleach(&["merge", "enqueue", branch, "--json"])), "Use hunter42! at last");
        with_secret(&garden, "hunter42!", decision).expect(0);
        let why = garden.env.pleach(&["merge", "why", branch, "--json"]);
        assert_eq!(title(why), "Use [redacted:D_PASSWORD] at last", "{decision:?}");
    }
}

#[test]
fn what_people_decide_about_a_task_is_committed_without_secrets() {
    let tree = Tree::of(&["T001", "T002"]).with("T001", "name", json!("Rotate hunter42! at last"));
    let garden = Garden::new(&tree);
    for decision in ["skip", "reset"] {
        let shown = with_secret(&garden, "hunter42!", &[decision, "T001", "--dry-run"]).expect(0);
        let ran = with_secret(&garden, "hunter42!", &[decision, "T001"]).expect(0);
        let message = garden.env.git(&["log", "-1", "--format=%B"]);
        assert!(message.contains("\"Rotate [redacted:D_PASSWORD] at last\""), "{message}{ran}");
        assert!(shown.stdout.contains(message.trim()), "{shown}");
        let status = with_secret(&garden, "hunter42!", &["status"]).expect(0);
        assert!(!status.stdout.contains("was completed as"), "the name is no other one: {status}");
    }
}
