//! The page about budgets is true: its commands are run, and say what it shows.

use std::path::Path;

use regex::Regex;

use super::settings;
use crate::sessions::graph;
use crate::support::TestEnv;
use crate::tree_commands::page::{commands, repository};

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
    let page = std::fs::read_to_string(repository().join("docs/budgets.md")).expect("the page");
    let commands = commands(&page);
    assert!(commands.len() > 3, "{commands:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_pleach")).parent().expect("the directory of the program");
    for (command, shown) in commands {
        let mut shell = env.program("sh", &env.repo_path());
        shell.args(["-c", &format!("PATH={}:$PATH; {{ {command}; }} 2>&1", program.display())]);
        let output = shell.output().expect("a shell");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{command}\n{said}");
        let mut rest = said.lines();
        for line in shown.iter().filter(|line| !line.trim().is_empty()) {
            let pattern = format!("^{}$", regex::escape(line).replace('…', ".*"));
            let pattern = Regex::new(&pattern).expect("a pattern of words and gaps");
            assert!(rest.any(|said| pattern.is_match(said)), "`{command}` does not say: {line}\n{said}");
        }
    }
}
