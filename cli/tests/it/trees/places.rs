//! Where logs and reports go is pleach's to write, and what somebody else has there stays.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::garden::{APPROVES, Garden, Tree};
use crate::support::Ran;

fn assert_refused(garden: &Garden, ran: &Ran, named: &str, flag: &str) {
    assert!(ran.stderr.contains(named), "{named}: {ran}");
    assert!(ran.stderr.contains(flag), "{flag}: {ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 0, "{ran}");
    assert!(garden.steps("main").is_empty(), "{ran}");
}

#[test]
fn a_log_or_report_path_must_be_a_directory() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("taken", "mine\n");
    garden.commit("real/file", "mine\n");
    let root = garden.env.repo_path();
    for (dir, named) in [
        ("taken", "`taken` is a file on `main`"),
        ("taken/below", "`taken` is a file on `main`"),
        (".git/x", "must be a directory inside the repository"),
        ("a/.GIT", "must be a directory inside the repository"),
        ("../out", "must be a directory inside the repository"),
        (".", "cannot be the root of the repository itself\nhint: name a directory below it"),
        (root.to_str().unwrap(), "cannot be the root of the repository itself\nhint: name a directory below it"),
    ] {
        for flag in ["--log-dir", "--report-dir"] {
            assert_refused(&garden, &garden.gardener(&[flag, dir]).expect(2), named, flag);
            assert_refused(&garden, &garden.gardener(&[flag, dir, "--dry-run"]).expect(2), named, flag);
        }
    }
    garden.gardener(&["--log-dir", "real/logs", "--report-dir", "./real/./reports"]).expect(0);
    let report = garden.newest("main", "T001 complete").trailer("Arborist-Report").unwrap().to_owned();
    assert!(report.starts_with("real/reports/T001_run_"), "{report}");
}

#[test]
fn a_log_or_report_path_must_fit_commits() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for dir in ["a  b", "a/b  c/d", " a", "a ", "a\tb", "a\nb"] {
        for (flag, key) in [("--log-dir", "log_dir"), ("--report-dir", "report_dir")] {
            let named = format!("a commit message cannot hold paths in {dir:?} (`tree.{key}`)");
            assert_refused(&garden, &garden.gardener(&[flag, dir]).expect(2), &named, flag);
            assert_refused(&garden, &garden.gardener(&[flag, dir, "--dry-run"]).expect(2), &named, flag);
        }
    }
    for (flag, key) in [("--log-dir", "log_dir"), ("--report-dir", "report_dir")] {
        let mut command = garden.env.command(&["-y", "gardener", flag]);
        let ran = garden.env.finish(command.arg(OsStr::from_bytes(b"a/\xff")).output().unwrap()).expect(2);
        let named = format!("a commit message cannot hold paths in \"a/\\xFF\" (`tree.{key}`): it is not UTF-8");
        assert_refused(&garden, &ran, &named, flag);
    }
    let reports = |dir: &str| format!("tree: {{report_dir: {:?}}}\n", garden.env.repo_path().join(dir));
    garden.configure(&reports("a  b"));
    assert_refused(
        &garden,
        &garden.gardener(&[]).expect(2),
        "a commit message cannot hold paths in \"a  b\"",
        "--report-dir",
    );
    garden.configure(&reports("a b"));
    garden.gardener(&["--log-dir", "my logs"]).expect(0);
    let report = garden.newest("main", "T001 complete").trailer("Arborist-Report").unwrap().to_owned();
    assert!(report.starts_with("a b/T001_run_"), "{report}");
}

#[test]
fn a_taken_default_path_is_refused_with_alternatives() {
    for (name, flag) in [("logs", "`--log-dir DIR`"), ("reports", "`--report-dir DIR`")] {
        for kind in ["a file", "a link"] {
            let garden = Garden::new(&Tree::of(&["T001"]));
            garden.commit("real/file", "mine\n");
            match kind {
                "a link" => symlink("real", garden.env.repo_path().join(name)).unwrap(),
                _ => garden.commit(name, "mine\n"),
            }
            garden.env.git(&["add", name]);
            garden.env.git(&["commit", "--quiet", "--allow-empty", "-m", "Taken"]);
            let before = garden.env.git(&["ls-tree", "main", name]);
            let ran = garden.gardener(&[]).expect(2);
            assert_refused(&garden, &ran, &format!("`{name}` is {kind} on `main`"), flag);
            ran.fails_with("log-directory").naming("`tree.commit_logs: false`");
            garden.configure("tree: {commit_logs: false}\n");
            garden.gardener(&[]).expect(0);
            assert_eq!(garden.env.git(&["ls-tree", "main", name]), before);
        }
    }
}

#[test]
fn agent_files_in_place_of_logs_stop_nothing() {
    for (plant, landed) in
        [("echo x > logs; echo y > reports", "x"), ("ln -s ../elsewhere logs; ln -s T001.txt reports", "../elsewhere")]
    {
        let tree = Tree::of(&["T001", "T002: T001"]).tests("T001", &["unit: echo tested; test -e mended"]);
        let garden = Garden::new(&tree);
        let implement = format!(
            "test $task.$n != T001.1 || {{ {plant}; }}; test $n = 1 || touch mended; echo 1 > $task.txt; echo Wrote it."
        );
        garden.agent(&implement, APPROVES);
        let ran = garden.gardener(&[]).expect(0);
        ran.warns("log-not-committed").naming("`logs`").naming("`reports`");
        // Nobody is blamed.
        ran.does_not_warn("read-only-undone");
        assert_eq!(garden.completed(), ["T001", "T002"]);
        assert_eq!(garden.file("main", "logs"), landed, "it was approved as it is");
        assert!(garden.refs("refs/pleach/keep/").is_empty(), "{ran}");
        // Logs and the report are shown from the record.
        let red = garden.newest("main", "T001 test-fail");
        let log = garden.env.pleach(&["logs", "--show", &red.id[..10]]).expect(0);
        assert!(log.stdout.contains("tested"), "{log}");
        let reports = garden.env.pleach(&["reports"]).expect(0);
        assert!(reports.stdout.contains("T001  pass           2"), "{reports}");
        // Another run is told before it starts.
        garden.gardener(&[]).expect(2);
    }
}

#[test]
fn unrepresentable_files_in_place_of_logs_stop_nothing() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent("test -e logs || mkfifo logs reports; echo 1 > \"$task.txt\"", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    ran.warns("log-not-committed").naming("/logs`");
    ran.does_not_warn("read-only-undone");
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "T002.txt", "task-tree.json"]);
}
