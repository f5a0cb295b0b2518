//! The page about budgets is true: its commands are run, and say what it shows.

use super::settings;
use crate::sessions::graph;
use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

const SCRIPT: &str = r#"
scripts:
  - name: work
    steps:
      - {text: Write 1., tools: [{write_file: {file_path: 1.txt, content: "1\n"}}], usage: {input: 1}}
      - {text: Write 2., tools: [{write_file: {file_path: 2.txt, content: "2\n"}}], usage: {input: 1}}
      - {text: Write 3., tools: [{write_file: {file_path: 3.txt, content: "3\n"}}], usage: {input: 1}}
      - {text: Done., usage: {input: 1}}
"#;

#[test]
fn the_page_about_budgets_shows_what_happens() {
    let env = TestEnv::with_script(SCRIPT);
    env.configure(&settings(""));
    env.write("repo/write.dot", graph("write", " work\n start -> work -> exit"));
    shows_what_happens(&env, "docs/budgets.md", 3);
}
