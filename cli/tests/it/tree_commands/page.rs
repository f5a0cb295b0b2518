//! The pages about task trees are true: their commands are run, and say what is shown.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pleach_core::ids::TaskId;
use pleach_core::step::{AttemptNumber, Counts, Step, StepKind, TestFacts, TestKind};
use regex::Regex;

use crate::support::TestEnv;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository around the crate")
}

/// The commands of a page's console blocks, with the lines shown below them.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
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
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            assert!(std::fs::copy(entry.path(), to).expect("a copy") > 0)
        }
    }
}

/// Runs the commands of a page in the repository, more than so many, one after another: each says the lines shown below it,
/// and no others but where `…` stands for them.
#[track_caller]
pub fn shows_what_happens(env: &TestEnv, page: &str, more_than: usize) {
    let page = std::fs::read_to_string(repository().join(page)).expect("the page");
    let commands = commands(&page);
    assert!(commands.len() > more_than, "{commands:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_pleach")).parent().expect("the directory of the program");
    let me = [
        ("GIT_AUTHOR_NAME", "Ada"),
        ("GIT_AUTHOR_EMAIL", "ada@example.org"),
        ("GIT_COMMITTER_NAME", "Ada"),
        ("GIT_COMMITTER_EMAIL", "ada@example.org"),
    ];
    let mut untrue = Vec::new();
    for (command, shown) in commands {
        let mut shell = env.program("sh", &env.repo_path());
        shell.args(["-c", &format!("PATH={}:$PATH; {{ {command}; }} 2>&1", program.display())]).envs(me);
        let output = shell.output().expect("a shell");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{command}\n{said}");
        let pattern = |line: &str| match line.trim() {
            "…" => r"(?s:.*\n)?".to_owned(),
            _ => format!("{}\n", regex::escape(line).replace('…', ".*")),
        };
        let lines = shown.iter().filter(|line| !line.trim().is_empty()).map(|line| pattern(line));
        let pattern = Regex::new(&format!("^{}$", lines.collect::<String>())).expect("a pattern of words and gaps");
        let told = said.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("{line}\n"));
        let told = told.collect::<String>();
        if !shown.is_empty() && !pattern.is_match(&told) {
            untrue.push(format!("`{command}` says\n{said}and not\n{}\n", shown.join("\n")));
        }
    }
    assert!(untrue.is_empty(), "{}", untrue.join("\n"));
}

/// A repository that is a copy of the example.
pub fn greeting() -> TestEnv {
    let env = TestEnv::new();
    let repo = env.repo();
    copy(&repository().join("examples/greeting"), &repo);
    env.git(&["rm", "--quiet", "README.md"]);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Begin"]);
    env
}

#[test]
fn the_page_about_trees_shows_what_happens() {
    shows_what_happens(&greeting(), "docs/task-trees.md", 8);
}

#[test]
fn the_pipeline_of_the_page_about_trees_can_be_used() {
    let page = std::fs::read_to_string(repository().join("docs/task-trees.md")).expect("the page");
    let dot = page.split("```dot\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a pipeline");
    let env = greeting();
    env.write("repo/careful.dot", dot);
    env.pleach(&["validate", "careful.dot"]).expect(0);
    env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "task-tree.json"]).expect(0);
    env.pleach(&["-y", "gardener", "--dry-run", "--pipeline", "careful.dot"]).expect(0);
    env.write("repo/careful.dot", dot.replace("step=lint", "step=test"));
    env.pleach(&["-y", "gardener", "--dry-run", "--pipeline", "careful.dot"]).expect(2);
}

#[test]
fn the_page_about_step_commits_shows_what_happens() {
    shows_what_happens(&greeting(), "docs/step-commits.md", 16);
}

/// The rows of the table below a heading, without the words above them: what is in backticks, cell by cell.
fn table(page: &str, heading: &str) -> Vec<Vec<Vec<String>>> {
    let part = page.split(&format!("\n## {heading}\n")).nth(1).expect("the part");
    let rows =
        part.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| row.trim_matches('|').split('|').map(quoted).collect()).collect()
}

/// A step of every kind, as well and as badly as it can end, with all it can have.
fn every_step() -> Vec<Step> {
    let task = || Some(TaskId::new("T001").expect("an id"));
    let lint = || StepKind::from_word("lint").expect("a name a step can have");
    let kinds = [StepKind::Implement, StepKind::Test, StepKind::Review, lint(), StepKind::merge(), StepKind::Complete];
    let mut all = vec![Step::run_start("task-tree.json")];
    all.extend(kinds.into_iter().flat_map(|kind| [true, false].map(|passed| Step::new(task(), kind.clone(), passed))));
    all.push(Step { skipped: true, ..Step::new(task(), StepKind::Complete, true) });
    all.push(Step::new(task(), StepKind::Reset, true));
    let log = || Some("a.log".to_owned());
    let runtime = Some(Duration::from_millis(1500));
    let test = TestFacts { kind: TestKind::Unit, counts: Some(Counts::default()), runtime, log: log() };
    for step in &mut all {
        (step.test, step.retry) = (Some(test.clone()), Some(0));
        (step.review_log, step.report, step.untested) = (log(), log(), step.kind == StepKind::Complete);
        (step.session, step.tree) = ("abcdefgh".parse().ok(), Some("task-tree.json".to_owned()));
    }
    all
}

#[test]
fn the_step_commit_page_has_every_subject_and_trailer() {
    let page = std::fs::read_to_string(repository().join("docs/step-commits.md")).expect("the page");
    let steps = every_step();
    let told: BTreeSet<String> =
        table(&page, "Subjects").into_iter().map(|row| format!("{}): {}", row[1][0], row[2][0])).collect();
    let written = steps.iter().map(|step| {
        let attempt = AttemptNumber { number: if step.kind == StepKind::Complete { 5 } else { 1 }, of: 5 };
        let subject = step.subject("main", "NAME", Some(attempt));
        subject.rsplit_once('@').expect("a status").1.to_owned()
    });
    assert_eq!(told, written.collect());
    let rows = table(&page, "Trailers");
    let told: Vec<&String> = rows.iter().flat_map(|row| &row[0]).collect();
    let (own, of_agents): (Vec<&String>, Vec<&String>) =
        told.into_iter().partition(|key| key.starts_with("Arborist-") || key.starts_with("Pleach-"));
    assert_eq!(of_agents, ["Assisted-by", "Co-authored-by"]);
    let mut all = BTreeSet::new();
    for step in &steps {
        let keys: Vec<String> = step.trailers().into_iter().map(|(key, _)| key).collect();
        let places: Vec<Option<usize>> = keys.iter().map(|key| own.iter().position(|told| *told == key)).collect();
        assert!(places.is_sorted() && !places.contains(&None), "the page has another order: {keys:?}");
        all.extend(keys);
    }
    assert_eq!(own.into_iter().cloned().collect::<BTreeSet<String>>(), all);
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
    let block = |language: &str| {
        let fence = format!("```{language}\n");
        part.split(&fence).nth(1).and_then(|rest| rest.split("```").next()).expect("a block")
    };
    assert_eq!(block("markdown"), env.read("repo/spec/tasks.md"), "the markdown that is built");
    let commands: Vec<&str> = block("sh").lines().map(|line| line.split('#').next().unwrap_or(line).trim()).collect();
    assert!(commands.len() > 4, "{commands:?}");
    for command in commands {
        let words = command.strip_prefix("pleach ").expect("a command of pleach").split(' ');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let ran = env.pleach(&words).expect(0);
        if words == ["gardener"] {
            assert_eq!(ran.ended().0, "done", "{ran}");
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
