//! The page about task trees is true: its commands are run, and say what it shows.

use std::path::Path;

use regex::Regex;

use crate::support::TestEnv;

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository around the crate")
}

/// The commands of a page's console blocks, with the lines shown below them.
pub fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), Vec::new())),
            None => commands.last_mut().expect("a block begins with a command").1.push(line.to_owned()),
        }
    }
    commands
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory of the test's own");
    for entry in std::fs::read_dir(from).expect("the example").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => assert!(std::fs::copy(entry.path(), to).expect("a copy") > 0),
        }
    }
}

#[test]
fn the_page_about_trees_shows_what_happens() {
    let env = TestEnv::new();
    let repo = env.repo();
    copy(&repository().join("examples/greeting"), &repo);
    env.git(&["rm", "--quiet", "README.md"]);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Begin"]);
    let page = std::fs::read_to_string(repository().join("docs/task-trees.md")).expect("the page");
    let commands = commands(&page);
    assert!(commands.len() > 8, "{commands:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_pleach")).parent().expect("the directory of the program");
    let me = [
        ("GIT_AUTHOR_NAME", "Ada"),
        ("GIT_AUTHOR_EMAIL", "ada@example.org"),
        ("GIT_COMMITTER_NAME", "Ada"),
        ("GIT_COMMITTER_EMAIL", "ada@example.org"),
    ];
    for (command, shown) in commands {
        let mut shell = env.program("sh", &repo);
        shell.args(["-c", &format!("PATH={}:$PATH; {{ {command}; }} 2>&1", program.display())]).envs(me);
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

/// What the planner of the test answers.
const PLAN: &str = r#"{"tasks": [{"id": "T001", "description": "Greet the world"},
    {"id": "T002", "description": "Greet by name", "depends_on": ["T001"]}]}"#;

#[test]
fn the_commands_of_the_readme_work_one_after_another() {
    let env = TestEnv::new();
    let repo = env.repo();
    copy(&repository().join("examples/greeting"), &repo);
    let plan = serde_json::json!({"name": "plan", "when": {"node": "plan"}, "steps": [{"text": PLAN}]});
    env.write("repo/script.yaml", format!("{}  - {plan}\n", env.read("repo/script.yaml")));
    // The test of the example would be asked about.
    env.write("repo/pleach.yaml", "agent: builtin\nproviders: {script: {file: script.yaml}}\n");
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("the page");
    let part = readme.split("## Task trees").nth(1).expect("a part about trees");
    let block = part.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).expect("commands");
    let commands: Vec<&str> = block.lines().map(|line| line.split('#').next().unwrap_or(line).trim()).collect();
    assert!(commands.len() > 4, "{commands:?}");
    for command in commands {
        let words = command.strip_prefix("pleach ").expect("a command of pleach").split(' ');
        // With nothing running, a status that is watched waits for something.
        let words: Vec<&str> = words.filter(|word| *word != "--watch").collect();
        let ran = env.pleach(&words).expect(0);
        if words == ["gardener"] {
            assert!(ran.stdout.contains("done: every task of `task-tree.json` is complete"), "{ran}");
        }
    }
    env.assert_no_process_left();
}

#[test]
fn the_demo_shows_a_pipeline_and_a_tree() {
    let env = TestEnv::new();
    let ran = env.pleach(&["demo", "shown"]).expect(0);
    for part in [
        "done: session",
        "done: every task of `task-tree.json` is complete",
        "tests pass",
        "T003 Say how to use it: complete, untested",
        "pleach inspect T002",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran}");
    }
    let subjects = env.git_in(&env.root().join("shown"), &["log", "--format=%s"]);
    assert!(subjects.contains("tests fail for \"Greet by name\" (attempt 1/5)"), "{subjects}");
    assert!(!env.root().join("state/pleach/trust.json").exists(), "what pleach brings along needs no agreement");
    for line in env.pleach(&["--json", "demo", "again"]).expect(0).json_lines() {
        assert!(line.is_object(), "{line}");
    }
    env.assert_no_process_left();
}
