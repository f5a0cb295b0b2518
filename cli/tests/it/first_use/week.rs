//! The page about the first week is true: its commands are run, with a script in the place of Claude Code.

use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

/// Works as its prompt asks, and approves of everything.
const CLAUDE: &str = r#"#!/bin/sh
[ "$1" != --version ] || exec echo '2.1.325 (Claude Code)'
prompt=$(cat)
said=Done.
case $PLEACH_NODE in
review) said='I would merge it.\nAPPROVED' ;;
draft) echo '- It prints its version.' > NOTES.md ;;
*) case $prompt in
    *--version*) echo 'echo 1.0' > version.sh; echo 'test "$(sh version.sh)" = 1.0' >> test.sh ;;
    *'manual page'*) echo 'tool - a small tool' > manual.txt ;;
    *'which line'*) echo 'echo "line $1 is wrong"' > parse.sh ;;
    *--quiet*) echo 'exec > /dev/null' > quiet.sh ;;
    *) exit 1 ;;
    esac ;;
esac
printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"s-1"}\n' "$said"
"#;

const NOTES: &str = r#"digraph notes {
    goal = "Write release notes for the last ten commits"
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    draft [prompt="$goal in NOTES.md"]
    ask   [shape=hexagon, label="Are the notes good?"]
    start -> draft -> ask
    ask -> exit  [label="[A] Approve"]
    ask -> draft [label="[R] Revise"]
}
"#;

#[test]
fn the_page_about_the_first_week_shows_what_happens() {
    let env = TestEnv::with_repo();
    env.write_program("bin/claude", CLAUDE);
    env.log_in();
    env.unbound();
    env.write("repo/test.sh", "set -e\n");
    env.write("repo/notes.dot", NOTES);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A tool"]);
    shows_what_happens(&env, "docs/first-week.md", 25);
    for (file, content) in [("version.sh", "echo 1.0\n"), ("manual.txt", "tool - a small tool\n")] {
        assert_eq!(env.read(format!("repo/{file}")), content);
    }
    for file in ["parse.sh", "quiet.sh", "NOTES.md", "README.md"] {
        assert!(env.repo_path().join(file).exists(), "{file}");
    }
    env.assert_no_process_left();
}
