//! pleach at a terminal: gates and trust are asked there. The terminal is made by `script`, which comes with every Linux;
//! where it is missing there is nothing to try.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sessions::{Gate, Held, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

const PATIENCE: Duration = Duration::from_secs(60);

/// Columns of the terminal.
const WIDTH: usize = 80;

/// A terminal somebody sits at.
pub struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: mpsc::Receiver<Vec<u8>>,
    seen: String,
    read: usize,
}

impl Terminal {
    /// Runs `pleach` at a terminal that can draw; none where there is no `script`.
    pub fn open(env: &TestEnv, args: &str) -> Option<Self> {
        // Nothing is drawn where the kind of terminal is not known.
        Self::open_as(env, "xterm", "true", args)
    }

    /// Runs `pleach` at a terminal once somebody has passed a gate there.
    pub fn open_behind(env: &TestEnv, gate: &Gate, args: &str) -> Option<Self> {
        Self::open_as(env, "xterm", &gate.command(), args)
    }

    /// What a terminal of so many columns shows of these commands, one after the other; none where there is no `script`.
    pub fn shows(env: &TestEnv, columns: usize, commands: &[&str]) -> Option<String> {
        let (last, before) = commands.split_last().expect("a command");
        let before = before.iter().map(|command| format!("'{}' {command}; ", env!("CARGO_BIN_EXE_pleach")));
        let first = format!("stty rows 24 cols {columns}; unset NO_COLOR; {}true", before.collect::<String>());
        Some(Self::open_as(env, "xterm", &first, last)?.end().1.replace('\r', ""))
    }

    /// Runs `pleach` at a terminal of some kind, after another command.
    fn open_as(env: &TestEnv, kind: &str, first: &str, args: &str) -> Option<Self> {
        // Without a shell in between, which would take Ctrl-C for itself as well. As wide as `screen` takes it to be.
        let line = format!("stty cols {WIDTH}; {first}; exec '{}' {args}", env!("CARGO_BIN_EXE_pleach"));
        let mut script = env.program("script", &env.repo_path());
        script.env("TERM", kind).args(["-q", "-e", "-f", "-c", &line, "/dev/null"]);
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
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen[self.read..].contains(text) {
            match self.shown.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(more) => self.seen.push_str(&String::from_utf8_lossy(&more)),
                Err(why) => panic!("`{text}` was not shown ({why}): {}", self.seen),
            }
        }
        self.read += self.seen[self.read..].find(text).expect("just found") + text.len();
    }

    /// Waits until a command waits at a gate.
    #[track_caller]
    pub fn wait_at(&mut self, gate: &Gate) -> Held {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(held) = gate.held() {
                return held;
            }
            match self.shown.recv_timeout(Duration::from_millis(5)) {
                Ok(more) => self.seen.push_str(&String::from_utf8_lossy(&more)),
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(why) => panic!("nobody came to the gate ({why}): {}", self.seen),
            }
        }
    }

    #[track_caller]
    fn agree(&mut self) {
        self.wait_for("Approve all of this? [y/N");
        self.enter("y");
    }

    pub fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    pub fn press(&mut self, text: &str) {
        let keys = self.keys.as_mut().expect("an open terminal");
        keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("the terminal is there");
    }

    /// Everything shown and the exit code, once pleach has ended.
    #[track_caller]
    pub fn end(mut self) -> (i32, String) {
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

/// What somebody who sits at the terminal sees once all of `shown` was written there, line by line.
pub fn screen(shown: &str) -> Vec<String> {
    let (mut lines, mut row, mut column) = (vec![Vec::new()], 0_usize, 0);
    let mut rest = shown.chars();
    while let Some(next) = rest.next() {
        match next {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let code = rest.as_str().split_inclusive(char::is_alphabetic).next().expect("a whole sequence");
                rest = rest.as_str()[code.len()..].chars();
                match code {
                    "[2K" => lines[row].clear(),
                    up if up.ends_with('A') => row -= up[1..up.len() - 1].parse::<usize>().expect("a number of rows"),
                    "[1B" => row += 1,
                    other => assert!(other.ends_with('m'), "a screen knows no `{other}`"),
                }
            }
            control if control.is_control() => {}
            letter => {
                if column == WIDTH {
                    (row, column) = (row + 1, 0);
                }
                lines.resize(lines.len().max(row + 1), Vec::new());
                let line: &mut Vec<char> = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned()).collect()
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
fn a_gate_is_asked_until_the_answer_is_understood() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("? Ship it?\r\n  [Y] Yes\r\n  [N] No\r\n> ");
    terminal.enter("perhaps");
    terminal.wait_for("please answer with one of: Yes, No\r\n> ");
    terminal.enter("y");
    terminal.wait_for("comment for the next node (Enter for none)> ");
    terminal.enter("");
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

/// Commits a pipeline for tasks, as `asks.dot`, with a gate that can be answered with `Yes` or another word.
fn commit_asking(garden: &Garden, other: &str) {
    let dot = format!(
        "digraph asks {{ start [shape=Mdiamond] done [shape=Msquare] implement [step=implement]
        gate [shape=hexagon, label=\"Keep it?\"]
        start -> implement -> gate  gate -> done [label=\"Yes\"]  gate -> done [label=\"{other}\"] }}"
    );
    garden.commit("asks.dot", &dot);
}

#[test]
fn a_gate_of_a_task_is_asked_at_the_terminal() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    commit_asking(&garden, "Yes, all");
    let Some(mut terminal) = Terminal::open(&garden.env, "-y gardener --pipeline asks.dot") else { return };
    terminal.wait_for("? T001: Keep it?\r\n  [Y] Yes\r\n  [Y] Yes, all\r\n> ");
    terminal.enter("y");
    terminal.wait_for("this could be: Yes → done, Yes, all → done\r\n> ");
    terminal.enter("yes, all");
    terminal.wait_for("(Enter for none)> ");
    terminal.enter("");
    terminal.wait_for("done: every task");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let asked =
        shown.split("? T001: Keep it?").nth(1).and_then(|rest| rest.split("this could").next()).expect("a question");
    assert!(!asked.contains('\u{1b}'), "nothing is drawn over the question: {asked:?}");
    assert!(shown.contains("Keep it?: Yes, all (console)"), "{shown}");
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn the_bar_of_a_tree_counts_completed_tasks() {
    let tree = Tree::default().phase("p1", &["T001"]).tests("p1", &["integration: true"]);
    let garden = Garden::new(&tree.phase("p2", &["T002: T001", "T003: T002"]).tests("T002", &["unit: false"]));
    let Some(terminal) = Terminal::open(&garden.env, "-y gardener --max-retries 1") else { return };
    let (code, shown) = terminal.end();
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("the test result of p1 is on main"), "{shown}");
    assert!(shown.contains("the steps of T002, without its code, are on main"), "{shown}");
    let bars = |done: usize| shown.matches(&format!("] {done}/3 ")).count();
    assert!(bars(0) > 0 && bars(1) > 0, "{shown}");
    assert_eq!((bars(2), bars(3)), (0, 0), "neither the tests of a phase nor a failed task are done: {shown}");
}

#[test]
fn an_unanswered_gate_leaves_the_next_answer_alone() {
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
    terminal.wait_for("(Enter for none)> ");
    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(
        shown.matches("comment for the next node").count(),
        1,
        "whoever does not answer has nothing to add: {shown}"
    );
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
fn a_watched_status_takes_the_screen_only_on_terminals() {
    for (kind, takes) in [("xterm", true), ("dumb", false)] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        let Some(mut terminal) = Terminal::open_as(&garden.env, kind, "true", "status --watch") else { return };
        terminal.wait_for("0 of 2 tasks done");
        garden.env.pleach(&["skip", "T001"]).expect(0);
        terminal.wait_for("1 of 2 tasks done");
        terminal.press("\u{3}");
        let (code, shown) = terminal.end();
        assert_eq!((code, shown.contains('\u{1b}')), (0, takes), "{kind}: {shown:?}");
    }
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
    terminal.wait_for("[y/N/a]");
    terminal.enter("");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert!(env.sessions().is_empty());
    let mut terminal = Terminal::open(&env, "run ../pipeline.dot --auto-approve").expect("it was there before");
    terminal.wait_for("[y/N/a]");
    terminal.enter("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(env.committed("log"), "shipped");
    // Not asked again.
    let terminal = Terminal::open(&env, "run ../pipeline.dot --auto-approve").expect("it was there before");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("[y/N/a]"), "{shown}");
}

#[test]
fn a_record_changed_while_asking_is_not_resumed() {
    let env = TestEnv::with_repo();
    env.pipeline(&asks());
    env.pleach(&["-y", "run", "../pipeline.dot"]).expect(4);
    env.pleach(&["trust", "--revoke", "--all"]).expect(0);
    let session = env.session();
    let Some(mut terminal) = Terminal::open(&env, &format!("resume {session} --auto-approve")) else { return };
    terminal.wait_for("[y/N/a]");
    let record = format!("refs/pleach/sessions/{session}/main");
    let newest = env.git(&["rev-parse", &record]);
    env.git(&["update-ref", &record, &format!("{newest}^")]);
    terminal.enter("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 4, "{shown}");
    assert!(shown.contains(&format!("the record of session {session} was changed by another process")), "{shown}");
    env.git(&["update-ref", &record, &newest]);
    env.pleach(&["resume", &session, "--auto-approve"]).expect(0);
    assert_eq!(env.committed("log"), "shipped");
}

#[test]
fn init_asks_at_the_terminal() {
    let env = TestEnv::with_repo();
    env.write("repo/go.mod", "module x\n");
    env.write_program("bin/go", "#!/bin/sh\n");
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
    // What it found is run only if that is agreed to as well.
    terminal.wait_for("Run `go test ./...` once on `main`, in a worktree of its own, after `go mod download`? [y/N]");
    terminal.enter("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(env.read("repo/pleach.yaml").contains("test_command: go test ./..."));
    assert!(!shown.contains("passes on"), "{shown}");
    // What is asked about is what would be run, whatever the user has set elsewhere.
    std::fs::remove_file(env.repo_path().join("pleach.yaml")).unwrap();
    env.write("config/pleach/config.yaml", "merge: {test_command: go vet}\n");
    let mut terminal = Terminal::open(&env, "init").expect("it was there before");
    terminal.wait_for("[y/N]");
    terminal.enter("y");
    terminal.wait_for("Run `go vet` once on `main`, in a worktree of its own, after `go mod download`? [y/N]");
    terminal.enter("n");
    assert_eq!(terminal.end().0, 0);
}

/// A garden with something on its target, soon, that agents of one kind would obey.
fn to_be_obeyed() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.configure("tree: {steps: {other: {runner: 'command:claude'}}}\n");
    garden
}

/// Has somebody else commit it.
fn commit_obeyed(garden: &Garden) {
    garden.commit(".claude/settings.json", "{\"hooks\": 1}\n");
}

#[test]
fn new_commands_during_a_run_are_asked_at_the_terminal() {
    let garden = to_be_obeyed();
    let gate = Gate::new(&garden.env, "work");
    garden.agent(&format!("{}; {WRITES}", gate.command()), APPROVES);
    let Some(mut terminal) = Terminal::open(&garden.env, "gardener") else { return };
    terminal.agree();
    let held = terminal.wait_at(&gate);
    commit_obeyed(&garden);
    gate.open(held);
    terminal.wait_for("Approve all of this? [y/N] ");
    let seen = screen(&terminal.seen);
    assert_eq!(seen.last().map(String::as_str), Some("Approve all of this? [y/N]"), "{seen:#?}");
    assert!(!seen.iter().any(|line| line.contains("] 1/2 ")), "the bar is put away: {seen:#?}");
    // What is said meanwhile does not wait for the answer.
    terminal.press("\u{3}");
    terminal.wait_for("stopping after the turn in flight");
    terminal.enter("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
    let terminal = Terminal::open(&garden.env, "gardener").expect("it was there before");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "it is agreed to: {shown}");
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

/// A run over `T001` and another task at a terminal, with the gate it is held at and the one it will be held at; none
/// where there is no `script`.
fn at_the_first_of_two(garden: &Garden) -> Option<(Terminal, Gate, Held, Gate)> {
    let (first, second) = (Gate::new(&garden.env, "first"), Gate::new(&garden.env, "second"));
    let work = format!("case $task in T001) {};; *) {};; esac; {WRITES}", first.command(), second.command());
    garden.agent(&work, APPROVES);
    let mut terminal = Terminal::open(&garden.env, "gardener")?;
    terminal.agree();
    let held = terminal.wait_at(&first);
    Some((terminal, first, held, second))
}

#[test]
fn the_bar_returns_after_approval_during_a_run() {
    let garden = to_be_obeyed();
    let Some((mut terminal, first, held, second)) = at_the_first_of_two(&garden) else { return };
    commit_obeyed(&garden);
    first.open(held);
    terminal.agree();
    let held = terminal.wait_at(&second);
    terminal.wait_for("] 1/2 ");
    terminal.wait_for("implement");
    second.open(held);
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!screen(&shown).iter().any(|line| line.contains("/2 ")), "{:#?}", screen(&shown));
}

#[test]
fn messages_appear_above_the_bar_of_a_tree() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    let Some((mut terminal, first, held, second)) = at_the_first_of_two(&garden) else { return };
    garden.env.write("repo/task-tree.json", "{\"nodes\": ");
    first.open(held);
    let held = terminal.wait_at(&second);
    terminal.wait_for("applies from the next run");
    terminal.press("\u{3}");
    terminal.wait_for("press Ctrl-C again to stop now");
    second.open(held);
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
    let seen = screen(&shown);
    assert!(shown.contains("] 1/2 ") && !seen.iter().any(|line| line.contains("/2 ")), "no bar is left: {seen:#?}");
    for begins in ["working `task-tree.json`", "▸ T002", "stopping after the turn", "paused: "] {
        assert!(seen.iter().any(|line| line.starts_with(begins)), "`{begins}`: {seen:#?}");
    }
}

#[test]
fn tasks_at_once_have_a_live_line_each() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let (first, second) = (Gate::new(&garden.env, "first"), Gate::new(&garden.env, "second"));
    let work = format!("case $task in T001) {};; *) {};; esac; {WRITES}", first.command(), second.command());
    garden.agent(&work, APPROVES);
    let Some(mut terminal) = Terminal::open(&garden.env, "-y gardener --jobs 2") else { return };
    let held = (terminal.wait_at(&first), terminal.wait_at(&second));
    terminal.wait_for("2 at once");
    terminal.wait_for("\n  T001 · implement · ");
    terminal.wait_for("\n  T002 · implement · ");
    first.open(held.0);
    second.open(held.1);
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let seen = screen(&shown);
    assert!(
        !seen.iter().any(|line| line.contains(" · implement") || line.contains("at once")),
        "none is left: {seen:#?}"
    );
    for begins in ["working `task-tree.json`", "▸ T001", "▸ T002", "  T001 landed on main", "done: every task"] {
        assert_eq!(seen.iter().filter(|line| line.starts_with(begins)).count(), 1, "`{begins}`: {seen:#?}");
    }
}

#[test]
fn ctrl_c_is_answered_above_the_live_line() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "work");
    env.pipeline(&graph("waits", &(tool("work", &gate.command()) + "start -> work -> exit")));
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    let held = terminal.wait_at(&gate);
    terminal.wait_for("work · command");
    terminal.press("\u{3}");
    terminal.wait_for("press Ctrl-C again to stop now");
    gate.open(held);
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
    let seen = screen(&shown);
    assert!(!seen.iter().any(|line| line.contains("work · command")), "no live line is left: {seen:#?}");
    assert!(seen.iter().any(|line| line.starts_with("stopping after the turn")), "{seen:#?}");
}

#[test]
fn new_commands_are_asked_about_after_a_gate_too() {
    let garden = to_be_obeyed();
    commit_asking(&garden, "No");
    let Some(mut terminal) = Terminal::open(&garden.env, "gardener --pipeline asks.dot") else { return };
    terminal.agree();
    terminal.wait_for("? T001: Keep it?");
    commit_obeyed(&garden);
    terminal.enter("yes");
    terminal.wait_for("(Enter for none)> ");
    terminal.enter("");
    terminal.agree();
    terminal.wait_for("? T002: Keep it?");
    terminal.enter("yes: keep it");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(garden.completed(), ["T001", "T002"]);
}
