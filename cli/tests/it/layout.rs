//! Text for people: tables in the width of a terminal, the pager, colours, and what a terminal must not obey.

use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::terminal::Terminal;

const GOAL: &str =
    "Fix the failing test of the checkout page: it counts a day too many 日本語のあいさつ when clocks change";
const TASK: &str = "Let customers save their basket and come back to it later, anywhere";

/// A run that has written a file, one that failed, a task and an entry of the queue, all with much to say.
fn busy() -> TestEnv {
    let env = TestEnv::with_repo();
    env.write("home/.gitconfig", "[core]\n\tpager = cat\n");
    let write = tool("write_what_was_asked_for", "printf 'old\\r\\nnew\\n' > a_file_with_a_rather_long_name.txt");
    let start = format!("goal=\"{GOAL}\"\n {write} start -> write_what_was_asked_for");
    env.run(&graph("checkout", &format!("{start} -> exit")), &["-q"]).expect(0);
    let session = env.session();
    env.pleach(&["merge", "enqueue", &format!("pleach/checkout/{session}")]).expect(0);
    let red =
        tool("red", "echo a command that says very much about nothing at all, and then fails all the same; exit 3");
    env.run(&graph("red", &format!("{red} start -> red -> exit")), &["-q"]).expect(1);
    env.pleach(&["task", "new", TASK]).expect(0);
    env
}

#[test]
fn tables_fit_terminals_of_any_width() {
    let env = busy();
    let session = env.sessions().into_iter().find(|sid| env.pleach(&["diff", sid]).stdout.contains("old"));
    let diff = format!("diff --stat {}", session.expect("the session that is done"));
    let commands = ["status", "turns", "task list", "merge queue", "log", "worktree list", "cost", "config", &diff];
    for columns in [80, 100, 200] {
        let Some(shown) = Terminal::shows(&env, columns, &commands) else { return };
        let wide: Vec<&str> = shown.lines().filter(|line| console::measure_text_width(line) > columns).collect();
        assert!(wide.is_empty(), "{columns} columns: {wide:#?}");
        assert!(shown.contains('…') || columns == 200, "{shown}");
        assert!(shown.contains("checkout: Fix the failing"), "the goal of a session: {shown}");
    }
}

#[test]
fn what_goes_to_no_terminal_is_whole() {
    let env = busy();
    let status = env.pleach(&["status"]).expect(0).stdout;
    for whole in [GOAL, TASK, "pleach/checkout/"] {
        assert!(status.contains(whole), "{whole}: {status}");
    }
    let Some(narrow) = Terminal::shows(&env, 80, &["status"]) else { return };
    assert!(!narrow.contains(GOAL) && !narrow.contains("pleach/checkout/"), "{narrow}");
    let wide = Terminal::shows(&env, 80, &["status --wide"]).expect("a terminal");
    assert!([GOAL, TASK, "pleach/checkout/"].iter().all(|whole| wide.contains(whole)), "{wide}");
}

#[test]
fn long_results_go_through_the_pager() {
    let env = TestEnv::with_repo();
    env.run(&graph("made", &(tool("make", "echo made | tee made.txt") + "start -> make -> exit")), &["-q"]).expect(0);
    let session = env.session();
    env.git(&["merge", "--quiet", &format!("pleach/made/{session}")]);
    env.write("home/.gitconfig", "[core]\n\tpager = sed 's/^/paged: /'\n");
    let of_session = ["turns SID", "show SID/1", "diff SID", "status SID", "compare SID"];
    for command in of_session.into_iter().chain(["why made.txt", "log", "search made"]) {
        let command = command.replace("SID", &session);
        let Some(shown) = Terminal::shows(&env, 80, &[&command]) else { return };
        let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("paged: ")), "{command}: {shown}");
        let piped = env.pleach(&command.split(' ').collect::<Vec<_>>());
        assert!(!piped.stdout.contains("paged"), "{command}: {piped}");
    }
    let short = Terminal::shows(&env, 80, &["status"]).expect("a terminal");
    assert!(!short.contains("paged"), "{short}");
}

#[test]
fn a_missing_pager_hides_nothing() {
    let env = TestEnv::with_repo();
    env.run(&graph("made", &(tool("make", "echo made > made.txt") + "start -> make -> exit")), &["-q"]).expect(0);
    env.write("home/.gitconfig", "[core]\n\tpager = no-such-pager\n");
    let Some(shown) = Terminal::shows(&env, 80, &["turns"]) else { return };
    assert!(shown.contains("main.1"), "{shown}");
}

#[test]
fn patches_are_coloured_for_a_person_alone() {
    let env = busy();
    let session = env.sessions().into_iter().find(|sid| env.pleach(&["diff", sid]).stdout.contains("old"));
    let session = session.expect("the session that is done");
    let (diff, show) = (format!("diff {session}"), format!("show {session}/main.1"));
    let added = "\u{1b}[32m+new\u{1b}[0m";
    for command in [&diff, &show] {
        let Some(shown) = Terminal::shows(&env, 80, &[command]) else { return };
        assert!(shown.contains(added), "{command}: {shown}");
        let args: Vec<&str> = command.split(' ').collect();
        let piped = env.pleach(&args).expect(0).stdout;
        assert!(piped.contains("+new\n") && !piped.contains('\u{1b}'), "{command}: {piped}");
        let asked_for = env.pleach(&[&["--color", "always"], &args[..]].concat()).expect(0).stdout;
        assert!(asked_for.contains(added), "{command}: {asked_for}");
        let without = Terminal::shows(&env, 80, &[&format!("--color never {command}")]).expect("a terminal");
        assert!(without.contains("+new") && !without.contains('\u{1b}'), "{command}: {without}");
        // As the variable asks that every program asks about colours.
        let (_, without) = Terminal::open(&env, command).expect("a terminal").end();
        assert!(without.contains("+new") && !without.contains('\u{1b}'), "{command}: {without}");
    }
}

#[test]
fn text_that_is_read_backwards_is_neutralised() {
    let env = TestEnv::with_repo();
    // A right-to-left override, as it hides what a line of code does.
    let turned = "access \u{202e}resu\u{2066} admin";
    env.run(&graph("turns", &(tool("turn", &format!("echo '{turned}' | tee it.txt")) + "start -> turn -> exit")), &[])
        .expect(0);
    for args in [&["diff"][..], &["show", "1"], &["turns"], &["log", "--turns"], &["search", "access"]] {
        let shown = env.pleach(args).expect(0).stdout;
        assert!(shown.contains("access \u{fffd}resu\u{fffd} admin"), "{args:?}: {shown}");
        assert!(!shown.contains(['\u{202e}', '\u{2066}']), "{args:?}: {shown}");
    }
}
