//! Large repositories, long runs, many sessions.

use std::process::Command;

use crate::sessions::{graph, tool};
use crate::support::TestEnv;

// ---- 31: long runs, odd names, a machine that does not fit

/// A command that is run as often as it takes until its file has so many lines.
fn rounds(count: usize) -> String {
    let work = format!("echo x >> lines; test $(wc -l < lines) -ge {count}");
    let work = tool("work", &work).replace("shape=parallelogram", "shape=parallelogram, max_visits=100");
    let edges = "start -> work; work -> exit [condition=\"outcome=success\"]; work -> work [condition=\"outcome=fail\"]";
    graph("rounds", &(work + edges))
}

#[test]
fn n31_long_runs_are_shown_by_their_end_and_checkpoints_stay_small() {
    let env = TestEnv::with_repo();
    env.run(&rounds(23), &[]).expect(0);
    let sid = env.session();
    let shown = env.pleach(&["status", &sid]).expect(0);
    let has = |turn: usize| shown.stdout.contains(&format!("main.{turn} "));
    assert!((4..=23).all(has) && !(1..=3).any(has), "{shown}");
    assert!(shown.stdout.contains(" earlier lines; -v shows all"), "{shown}");
    let whole = env.pleach(&["-v", "status", &sid]).expect(0);
    assert!(whole.stdout.contains("main.1 ") && !whole.stdout.contains("earlier"), "{whole}");
    assert_eq!(env.pleach(&["--json", "status", &sid]).expect(0).json()["turns"].as_array().unwrap().len(), 23);
    let story = env.story();
    let checkpoints = story.all("Checkpoint");
    let sizes: Vec<usize> = checkpoints.iter().map(|checkpoint| checkpoint.to_string().len()).collect();
    assert_eq!(checkpoints.last().unwrap()["completed_nodes"], serde_json::json!(["start", "work", "exit"]));
    assert!(sizes[22] <= sizes[2] + 8, "{sizes:?}");
}

#[test]
fn n31_names_with_newlines_are_quoted_as_git_does() {
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("names", &(tool("work", "echo 1 > \"$(printf 'a\\nb')\"") + "start -> work -> exit")), &[]);
    assert!(ran.stderr.contains(r#"["a\nb"]"#), "{ran}");
    let sid = env.session();
    let stat = env.pleach(&["diff", "--stat", &sid]).expect(0);
    assert!(stat.stdout.contains(r#""a\nb""#), "{stat}");
    let subject = env.git(&["log", "-1", "--format=%s%n%b", &env.branch()]);
    assert!(subject.contains(r#""a\nb""#), "{subject}");
    // Those who do not read but parse get the name as it is.
    let turns = env.pleach(&["--json", "turns", &sid]).expect(0).json();
    assert_eq!(turns["turns"][0]["files"]["repo"][0], "a\nb", "{turns}");
}

#[test]
fn n31_doctor_finds_a_missing_tmpdir() {
    let env = TestEnv::with_repo();
    let mut doctor = env.command(&["doctor"]);
    let ran = env.finish(doctor.env("TMPDIR", env.root().join("not there")).output().expect("pleach can be started"));
    assert!(ran.stdout.contains("not there`, which does not exist\n"), "{ran}");
    assert!(ran.stdout.contains("fix: create it, or unset TMPDIR"), "{ran}");
    assert!(!env.pleach(&["doctor"]).stdout.contains("TMPDIR"));
}

#[test]
fn n31_doctor_finds_a_read_only_mount() {
    let env = TestEnv::with_repo();
    let in_mount = |script: &str| -> Command {
        let mut command = env.program("unshare", &env.repo_path());
        command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script]).arg(env.root().join("state"));
        command
    };
    let mount = "mount --bind \"$0\" \"$0\"; mount -o remount,bind,ro \"$0\"";
    if !in_mount(mount).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system lets nobody mount anything");
        return;
    }
    let program = env!("CARGO_BIN_EXE_pleach");
    let ran = env.finish(in_mount(&format!("{mount}; exec {program} doctor")).output().expect("unshare is there"));
    let ran = ran.expect(7);
    assert!(ran.stdout.contains("cannot be written, which pleach's state needs: its file system is read-only"), "{ran}");
}
