//! pleach at a terminal: gates and trust are asked there. The terminal is made by `script`, which comes with every Linux;
//! where it is missing there is nothing to try.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{Garden, Tree};

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal somebody sits at.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: mpsc::Receiver<Vec<u8>>,
    seen: String,
    read: usize,
}

impl Terminal {
    /// Runs `pleach` at a terminal; none where there is no `script`.
    fn open(env: &TestEnv, args: &str) -> Option<Self> {
        // Without a shell in between, which would take Ctrl-C for itself as well.
        let line = format!("exec '{}' {args}", env!("CARGO_BIN_EXE_pleach"));
        let mut script = env.program("script", &env.repo_path());
        // One that can draw; nothing is drawn where the kind of terminal is not known.
        script.env("TERM", "xterm").args(["-q", "-e", "-f", "-c", &line, "/dev/null"]);
        let mut child = match script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => panic!("script: {error}"),
        };
        let mut output = child.stdout.take().expect("a piped stdout");
        let (sender, shown) = mpsc::channel();
        // Ends by itself with the terminal.
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read) = output.read(&mut chunk) {
                if read == 0 || sender.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keys = child.stdin.take();
        Some(Self { child, keys, shown, seen: String::new(), read: 0 })
    }

    /// Waits until something is shown after what was waited for before.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen[self.read..].contains(text) {
            match self.shown.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(more) => self.seen.push_str(&String::from_utf8_lossy(&more)),
                Err(why) => panic!("`{text}` was not shown ({why}): {}", self.seen),
            }
        }
        self.read += self.seen[self.read..].find(text).expect("just found") + text.len();
    }

    fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    fn press(&mut self, text: &str) {
        let keys = self.keys.as_mut().expect("an open terminal");
        keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("the terminal is there");
    }

    /// Everything shown and the exit code, once pleach has ended.
    #[track_caller]
    fn end(mut self) -> (i32, String) {
        while let Ok(more) = self.shown.recv() {
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        let code = self.child.wait().expect("a child to wait for").code();
        (code.expect("an exit code"), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn asks() -> String {
    graph(
        "asks",
        &(tool("ship", "echo shipped > log")
            + "gate [shape=hexagon, label=\"Ship it?\"]
               start -> gate  gate -> ship [label=\"[Y] Yes\"]  gate -> exit [label=\"[N] No\"]  ship -> exit"),
    )
}

#[test]
fn a_gate_is_asked_at_the_terminal_until_the_answer_is_understood() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Ship it?\r\n  [Y] Yes\r\n  [N] No\r\n> ");
    terminal.enter("perhaps");
    terminal.wait_for("please answer with one of: Yes, No\r\n> ");
    terminal.enter("y");
    terminal.wait_for("done: session");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    // Nothing is drawn over the question while somebody types.
    let asked = shown.split("? Ship it?").nth(1).and_then(|rest| rest.split("perhaps").next()).expect("a question");
    assert!(!asked.contains('\u{1b}'), "{asked:?}");
    let answer = env.story().first("HumanInteraction");
    assert_eq!((&answer["answer"], &answer["source"]), (&json!("Yes"), &json!("console")));
    assert_eq!(env.committed("log"), "shipped");
}

#[test]
fn a_gate_of_a_task_is_asked_at_the_terminal() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let dot = "digraph asks { start [shape=Mdiamond] done [shape=Msquare] implement [step=implement]
        gate [shape=hexagon, label=\"Keep it?\"]
        start -> implement -> gate  gate -> done [label=\"Yes\"]  gate -> done [label=\"Yes, all\"] }";
    garden.commit("asks.dot", dot);
    let Some(mut terminal) = Terminal::open(&garden.env, "-y gardener --pipeline asks.dot") else { return };
    terminal.wait_for("? Keep it?\r\n  [Y] Yes\r\n  [Y] Yes, all\r\n> ");
    terminal.enter("y");
    terminal.wait_for("this could be: Yes → done, Yes, all → done\r\n> ");
    terminal.enter("yes, all");
    terminal.wait_for("done: every task");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let asked = shown.split("? Keep it?").nth(1).and_then(|rest| rest.split("this could").next()).expect("a question");
    assert!(!asked.contains('\u{1b}'), "nothing is drawn over the question: {asked:?}");
    assert!(shown.contains("Keep it?: Yes, all (console)"), "{shown}");
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn the_bar_of_a_tree_counts_the_tasks_that_are_done() {
    let tree = Tree::default().phase("p1", &["T001"]).tests("p1", &["integration: true"]);
    let garden = Garden::new(&tree.phase("p2", &["T002: T001", "T003: T002"]).tests("T002", &["unit: false"]));
    let Some(terminal) = Terminal::open(&garden.env, "-y gardener --max-retries 1") else { return };
    let (code, shown) = terminal.end();
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("p1 landed on main") && shown.contains("T002 landed on main"), "{shown}");
    let bars = |done: usize| shown.matches(&format!("] {done}/3 ")).count();
    assert!(bars(0) > 0 && bars(1) > 0, "{shown}");
    assert_eq!((bars(2), bars(3)), (0, 0), "neither the tests of a phase nor a failed task are done: {shown}");
}

#[test]
fn a_gate_nobody_answers_in_time_leaves_the_next_answer_alone() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph(
        "twice",
        "first [shape=hexagon, label=\"Is anybody there?\", timeout=100ms, human.default_choice=second]
         second [shape=hexagon, label=\"And now?\"]
         start -> first  first -> second [label=\"Go on\"]  first -> exit [label=\"Stop\"]
         second -> exit [label=\"Yes\"]  second -> first [label=\"No\"]",
    ));
    let Some(mut terminal) = Terminal::open(&env, "run ../pipeline.dot") else { return };
    terminal.wait_for("? Is anybody there?");
    terminal.wait_for("? And now?");
    terminal.enter("Yes");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let story = env.story();
    let answers = story.all("HumanInteraction");
    let answers: Vec<_> =
        answers.iter().map(|answer| json!([answer["node_id"], answer["answer"], answer["source"]])).collect();
    assert_eq!(answers, [json!(["first", "Go on", "default"]), json!(["second", "Yes", "console"])]);
}

#[test]
fn a_gate_that_is_left_at_the_terminal_waits() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Ship it?");
    // The end of the input, as Ctrl-D gives it.
    terminal.keys = None;
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    env.resume(&["--answer", "gate=Yes"]).expect(0);
    assert_eq!(env.committed("log"), "shipped");
}

#[test]
fn ctrl_c_at_a_gate_pauses_the_run() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Ship it?");
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains(&format!("pleach resume {}", env.session())), "{shown}");
    env.resume(&["--answer", "gate=No"]).expect(0);
    env.assert_no_process_left();
}

#[test]
fn trust_is_asked_for_at_the_terminal() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    let Some(mut terminal) = Terminal::open(&env, "run ../pipeline.dot --auto-approve") else { return };
    terminal.wait_for("echo shipped > log");
    terminal.wait_for("[y/N]");
    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert!(env.sessions().is_empty());
    let mut terminal = Terminal::open(&env, "run ../pipeline.dot --auto-approve").expect("it was there before");
    terminal.wait_for("[y/N]");
    terminal.enter("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(env.committed("log"), "shipped");
    // Not asked again.
    let terminal = Terminal::open(&env, "run ../pipeline.dot --auto-approve").expect("it was there before");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("[y/N]"), "{shown}");
}

#[test]
fn init_asks_at_the_terminal() {
    let env = TestEnv::with_repo();
    env.write("repo/go.mod", "module x\n");
    let Some(mut terminal) = Terminal::open(&env, "init") else { return };
    terminal.wait_for("test_command: go test ./...");
    terminal.wait_for("Write this to pleach.yaml? [y/N]");
    terminal.enter("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert!(!env.repo_path().join("pleach.yaml").exists());
    let mut terminal = Terminal::open(&env, "init").expect("it was there before");
    terminal.wait_for("[y/N]");
    terminal.enter("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(env.read("repo/pleach.yaml").contains("test_command: go test ./..."));
}
