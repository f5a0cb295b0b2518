//! What every command shares: globals, exit codes, errors, pipes. And the test world itself.

use std::process::Stdio;

use crate::sessions::{graph, tool};
use crate::support::{Checkout, Ran, TestEnv};
use crate::trees::garden::{Garden, Tree};

#[test]
fn usage_errors_exit_with_two() {
    let env = TestEnv::new();
    env.pleach(&["no-such-command"]).expect(2);
    env.pleach(&[]).expect(2);
    env.pleach(&["-q", "-v", "completions", "bash"]).expect(2);
    env.pleach(&["--help"]).expect(0);
    env.pleach(&["--version"]).expect(0);
}

#[test]
fn errors_have_their_hint_on_the_second_line() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.pleach(&["-C", "nowhere", "completions", "bash"]), @"
    exit: 2
    --- stderr
    error[not-a-directory]: there is no directory `nowhere`
    hint: -C takes a directory that exists
    ");
}

#[test]
fn unusable_settings_and_paths_are_reported_with_alternatives() {
    let env = TestEnv::with_repo();
    insta::assert_snapshot!(env.pleach(&["gardener", "--max-retries", "0"]), @"
    exit: 2
    --- stderr
    error[settings-invalid]: --max-retries: a task needs at least one attempt
    hint: Give a number from 1 up.
    ");
    insta::assert_snapshot!(env.pleach(&["gardener", "--isolation", "some"]), @"
    exit: 2
    --- stderr
    error[settings-invalid]: --isolation: `tree.isolation` cannot be `some`
    hint: It is one of: none, phase, task.
    ");
    env.write("spec/plan.md", "## Phase 1: One\n- [ ] T001 Begin\n");
    insta::assert_snapshot!(env.pleach(&["build", "--no-ai", "--spec-dir", "../spec", "-o", "../nowhere/x.json"]), @"
    exit: 7
    --- stderr
    error[output-unwritable]: cannot write `[TEMP]/repo/../nowhere/x.json`: No such file or directory (os error 2)
    hint: pass -o with a file in a directory that exists and can be written to
    ");
}

#[test]
fn with_json_an_error_is_an_object_on_stdout_too() {
    let env = TestEnv::new();
    let failed = env.pleach(&["--json", "-C", "nowhere", "completions", "bash"]).expect(2);
    assert_eq!(
        (&failed.json()["error"]["code"], &failed.json()["error"]["exit"]),
        (&"not-a-directory".into(), &2.into())
    );
    assert_eq!(failed.json()["error"]["hint"], "-C takes a directory that exists");
    failed.fails_with("not-a-directory");

    let misused = env.pleach(&["no-such-command", "--json"]).expect(2);
    assert_eq!(misused.json()["error"]["message"], "unrecognized subcommand 'no-such-command'");
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let env = TestEnv::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = env.command(&["completions", "bash"]).stdout(writer).output().expect("pleach can be started");
    let ran = env.finish(output).expect(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_failed_run_stays_failed_when_its_reader_is_gone() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("fails", &(tool("fail", "exit 3") + "start -> fail -> exit")));
    for more in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let args = [&["-y", "run", "../pipeline.dot"], more].concat();
        let output = env.command(&args).stdout(writer).stderr(Stdio::piped()).output().expect("pleach can be started");
        env.finish(output).expect(1);
    }
}

/// Runs `pleach` with a stderr that takes nothing, as on a disk that is full.
#[track_caller]
fn without_stderr(env: &TestEnv, args: &[&str]) -> Ran {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device every Linux has");
    let output = env.command(args).stdout(Stdio::piped()).stderr(full).output().expect("pleach can be started");
    env.finish(output)
}

#[test]
fn unwritable_progress_is_dropped_and_work_continues() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("makes", &(tool("make", "echo made > log") + "start -> make -> exit")));
    let ran = without_stderr(&env, &["-y", "run", "../pipeline.dot"]).expect(0);
    assert!(ran.stdout.contains("done: session"), "{ran}");
    assert_eq!(env.committed("log"), "made");
    without_stderr(&env, &["-y", "run", "nowhere.dot"]).expect(2);
    without_stderr(&env, &["-y", "init"]).expect(0);

    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e T001.txt"]));
    garden.env.write("repo/untracked", "so that something is warned of");
    without_stderr(&garden.env, &["-y", "-v", "gardener"]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    garden.plant(&Tree::of(&["T001", "T002"]).tests("T002", &["unit: false"]));
    without_stderr(&garden.env, &["-y", "gardener", "--max-retries", "1"]).expect(1);
    assert!(garden.told("main").contains(&"T002 failed".to_owned()));
}

#[test]
fn a_slow_reader_does_not_hold_up_work() {
    let env = TestEnv::with_repo();
    env.unbound();
    // Its first event alone is more than a pipe holds.
    let comment = format!("/* {} */", "long ".repeat(40_000));
    let tools = tool("make", "echo made > log") + &tool("last", "touch \"$HOME/last\"");
    env.pipeline(&graph("makes", &format!("{comment} {tools} start -> make -> last -> exit")));
    let mut run = env.command(&["-y", "--json", "run", "../pipeline.dot"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
    env.wait_for_file("home/last");
    let ran = env.finish(run.wait_with_output().expect("it ends once it is read")).expect(0);
    let kinds: Vec<String> = ran.json_lines().iter().map(|line| line["type"].to_string()).collect();
    assert!(kinds[0].contains("PipelineStarted") && kinds[kinds.len() - 1].contains("PipelineCompleted"), "{kinds:?}");
}

#[test]
fn completions_know_the_commands() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = env.pleach(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("completions"), "{shell}: {script}");
    }
}

#[test]
fn help_leads_to_commands_and_guides() {
    let env = TestEnv::new();
    let help = env.pleach(&["--help"]).expect(0).stdout;
    let groups = ["Start here", "Run", "Look", "Tasks and trees", "Land", "Clean up", "Set up", "Global options"];
    let at = groups.map(|group| help.find(&format!("\n{group}:\n")).unwrap_or_else(|| panic!("{group}: {help}")));
    assert!(at.is_sorted(), "{help}");
    assert_eq!(env.pleach(&["help"]).expect(0).stdout, help);
    assert_eq!(
        env.pleach(&["help", "running"]).expect(0).stdout.trim_end(),
        include_str!("../../../docs/running.md").trim_end()
    );
    let codes = env.pleach(&["help", "exit-codes"]).expect(0).stdout;
    assert!((0..8).all(|code| codes.contains(&format!("\n| {code} | "))), "{codes}");
    assert!(env.pleach(&["help", "topics"]).expect(0).stdout.contains("\nrunning "));
    let run = env.pleach(&["help", "run"]).expect(0).stdout;
    assert_eq!(env.pleach(&["run", "--help"]).expect(0).stdout.trim_end(), run.trim_end());
    env.pleach(&["help", "nothing"]).expect(2).fails_with("command-line").naming("`pleach help topics`");
}

#[test]
fn a_changed_checkout_is_noticed() {
    let changes: [&dyn Fn(&TestEnv); 5] = [
        &|env| drop(env.write("repo/README.md", "other")),
        &|env| drop(env.write("repo/new", "")),
        &|env| drop(env.git(&["branch", "other"])),
        &|env| drop(env.git(&["config", "a.b", "c"])),
        &|env| {
            drop(env.git(&[
                "update-index",
                "--add",
                "--cacheinfo",
                "100644",
                &env.git(&["rev-parse", "HEAD:README.md"]),
                "x",
            ]))
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        let env = TestEnv::new();
        let repo = env.repo();
        let before = Checkout::of(&env, &repo);
        before.assert_unchanged(&env, &repo);
        change(&env);
        assert_ne!(Checkout::of(&env, &repo), before, "change {number}");
    }
}

#[test]
fn a_process_left_behind_is_noticed() {
    let env = TestEnv::new();
    assert!(env.processes().is_empty());
    let mut cat = env.program("cat", env.root()).stdin(Stdio::piped()).spawn().expect("cat can be started");
    assert!(env.processes().contains_key(&cat.id()));
    drop(cat.stdin.take());
    cat.wait().expect("a child to wait for");
    env.assert_no_process_left();
}

#[test]
fn what_differs_between_runs_is_normalised() {
    let env = TestEnv::new();
    let text = format!(
        "{}/x 0123456789abcdef0123456789abcdef01234567 012345678a 3m 07s 4.2s 850ms 2026-11-15T01:02:03.456Z",
        env.root().display()
    );
    assert_eq!(env.normalise(&text), "[TEMP]/x [SHA] [SHA] [TIME] [TIME] [TIME] [AT]");
}
