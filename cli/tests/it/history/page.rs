//! The page about history is true: its commands are run, and say what is shown.

use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

const SCRIPT: &str = r#"scripts:
  - name: greet
    when: {node: greet}
    steps:
      - text: I will write the greeting into a file.
        tools: [{write_file: {file_path: hello.txt, content: "hello\n"}}]
      - text: The greeting is in hello.txt.
"#;

const HELLO: &str = r#"digraph hello {
    graph [goal="Greet the reader"]
    start [shape=Mdiamond]
    greet [prompt="Write a greeting for: $goal"]
    check [shape=parallelogram, tool_command="grep -c hello hello.txt"]
    exit [shape=Msquare]
    start -> greet -> check -> exit
}"#;

#[test]
fn the_page_about_history_shows_what_happens() {
    let env = TestEnv::with_repo();
    env.write("repo/pleach.yaml", "agent: builtin\nproviders: {script: {file: script.yaml}}\n");
    env.write("repo/script.yaml", SCRIPT);
    env.write("repo/hello.dot", HELLO);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A pipeline"]);
    shows_what_happens(&env, "docs/history.md", 8);
}
