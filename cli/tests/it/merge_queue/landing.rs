//! What lands, and how.

use engine::landing::{Submission, enqueue};
use pleach_core::config::Environment;
use pleach_core::queue::EntryTest;
use pleach_core::redact::Redactor;
use serde_json::json;

use super::{Queue, names};

#[test]
fn clean_merges_land_in_one_line_of_merges() {
    let queue = Queue::tested("test -e one.txt || test -e two.txt");
    let begun = queue.tip();
    let heads = ["one", "two"].map(|name| {
        queue.queued(name);
        queue.env.git(&["rev-parse", name]).trim().to_owned()
    });
    let (ran, done) = queue.processed(0);
    assert_eq!((names(&done["landed"]), &done["open"]), (vec!["one", "two"], &json!([])));
    assert_eq!(done["landed"][0]["tier"], "fast_forward");
    assert_eq!(done["landed"][1]["tier"], "clean");
    let told: Vec<_> =
        ran.json_lines().into_iter().filter(|event| event["type"] == "dev.orchestra.MergeComplete").collect();
    assert_eq!(told.len(), 2, "{ran}");
    assert_eq!((&told[1]["data"]["auto"], &told[1]["data"]["branch"]), (&json!(true), &json!("two")));
    assert_eq!(queue.env.git(&["rev-parse", "main^1"]).trim(), heads[0]);
    assert_eq!(queue.env.git(&["rev-parse", "main^2"]).trim(), heads[1]);
    assert_eq!(queue.env.git(&["merge-base", "main", &begun]).trim(), begun, "history is never rewritten");
    assert_eq!(queue.env.git(&["status", "--short"]), "", "the checkout has followed");
    assert_eq!(queue.env.git(&["branch", "--list", "one", "two", "--format=%(refname:short)"]), "one\ntwo");
}

#[test]
fn i1_the_target_is_exactly_what_was_tested() {
    let queue = Queue::tested("git rev-parse HEAD^{tree} >> \"$(git rev-parse --git-common-dir)/../../tested\"");
    queue.env.write("repo/pleach.yaml", "merge: {test_command: 'git rev-parse HEAD >> ../tested', slots: 1}\nsandbox: {mode: off}\nworktrees: {base: ../worktrees}\n");
    queue.env.git(&["commit", "-qam", "Settings"]);
    for name in ["one", "two", "three"] {
        queue.queued(name);
    }
    queue.process(0);
    let tested = queue.env.git(&["log", "--format=%H", "main"]);
    let ran: String = walk(&queue.env.root().join("worktrees"))
        .into_iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let last = ran.lines().last().expect("tests have run");
    assert_eq!(tested.lines().next(), Some(last), "{ran}");
}

/// The files named `tested` below a directory.
fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.ends_with("tested") {
            found.push(path);
        }
    }
    found
}

#[test]
fn i6_without_a_test_only_clean_merges_land_unverified() {
    let queue = Queue::with("merge: {slots: 1}\n");
    queue.queued("one");
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    let done = queue.process(5);
    assert_eq!(names(&done["landed"]), ["one", "upper"]);
    assert_eq!(done["landed"][0]["verdict"], json!({"is": "unverified"}));
    assert_eq!((queue.state("lower"), done["tests"].clone()), ("escalated".into(), json!(0)));
}

#[test]
fn landings_without_a_test_say_unverified() {
    let queue = Queue::with("tree: {test_command: 'false'}\nmerge: {slots: 1}\n");
    queue.queued("one");
    queue.queued("two");
    let listed = queue.env.pleach(&["merge", "queue"]).expect(0).stdout;
    assert_eq!(listed.matches("unverified: nothing tests it").count(), 2, "{listed}");
    let ran = queue.env.pleach(&["-y", "merge", "process"]).expect(0);
    let said = ran.to_string();
    for words in [
        "landed one on `main` (fast-forward, unverified)",
        "landed two on `main` (merged without a conflict, unverified)",
        "nothing tests one, two",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(
        queue.env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Tested,valueonly)", "main"]).trim(),
        "none"
    );
    let all = queue.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
    assert_eq!(all["queues"][0]["entries"][1]["unverified"], true, "{all}");
    queue.env.run(&crate::worktree_commands::one("echo 1 > made"), &[]).expect(0);
    let landed = queue.env.pleach(&["-y", "land"]).expect(0).to_string();
    assert!(landed.contains("unverified)"), "{landed}");
}

/// A branch with a test of its own, in the queue.
fn with_own_test(queue: &Queue, name: &str, command: &str) {
    queue.branch(name, &[(&format!("{name}.txt"), name)]);
    let repo = git::discover(&queue.env.repo_path(), &Environment::default()).unwrap();
    let submission =
        Submission::branch(&repo, "repo".parse().unwrap(), name.parse().unwrap(), "main".parse().unwrap()).unwrap();
    let tests = vec![EntryTest { command: command.to_owned(), timeout: 60 }];
    enqueue(&repo, Submission { tests, ..submission }, &Redactor::new(Vec::<(String, String)>::new())).unwrap();
}

#[test]
fn what_is_unverified_is_so_in_its_commit() {
    let queue = Queue::with("merge: {slots: 1}\n");
    queue.queued("before");
    with_own_test(&queue, "tested", "test -e before.txt");
    queue.queued("behind");
    queue.env.git(&["commit", "-q", "--allow-empty", "-m", "Nothing is a fast-forward"]);
    let done = queue.process(0);
    assert_eq!(done["tests"], 1, "all of them at once");
    for landed in done["landed"].as_array().unwrap() {
        let (name, to) = (landed["name"].as_str().unwrap(), landed["landing"]["to"].as_str().unwrap());
        let of_commit = queue.env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Tested,valueonly)", to]);
        let says = (landed["unverified"].as_bool().unwrap(), of_commit.trim());
        assert_eq!(says, if name == "tested" { (false, "") } else { (true, "none") }, "{name}");
    }
    assert_eq!(names(&done["landed"]), ["before", "tested", "behind"]);
}

#[test]
fn a_branch_without_tests_is_tested_by_test_command() {
    let queue = Queue::with("test_command: 'test ! -e bad.txt'\ntree: {test_command: 'false'}\nmerge: {slots: 1}\n");
    queue.queued("good");
    queue.queued("bad");
    let (ran, done) = queue.processed(1);
    assert_eq!((names(&done["landed"]), done["landed"][0]["unverified"].clone()), (vec!["good"], json!(false)));
    assert_eq!((queue.state("bad"), queue.landed("bad.txt")), ("red".into(), None));
    let told = ran.json_lines().into_iter().find(|event| event["type"] == "dev.orchestra.MergeComplete");
    assert_eq!(told.expect("it is told")["data"]["unverified"], json!(null));
    assert_eq!(queue.env.git(&["log", "--format=%(trailers:key=Pleach-Tested,valueonly)", "main"]).trim(), "");
}

#[test]
fn a_red_target_is_said_and_ends_with_1() {
    let queue = Queue::with("test_command: 'test ! -e broken.txt'\nmerge: {slots: 1}\n");
    queue.env.write("repo/broken.txt", "broken");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Break"]);
    queue.queued("one");
    let first = queue.env.pleach(&["-y", "merge", "process"]).expect(1);
    first.does_not_warn("target-red");
    let why = queue.why("one");
    assert_eq!((&why["state"], &why["verdict"]), (&json!("red"), &json!({"is": "target_fails", "exit": "exit 1"})));
    queue.env.pleach(&["merge", "retry", "one"]).expect(0);
    let again = queue.env.pleach(&["-y", "merge", "process"]).expect(1);
    again.warns_once("target-red").naming("`test ! -e broken.txt` already fails on `main` (exit 1)");
}

#[test]
fn a_file_merged_by_its_lines_alone_needs_a_test() {
    // git finds the lines of both sides beside each other, where others find some between them.
    let steps = |steps: &str| steps.replace(' ', "\n") + "\n";
    let queue = Queue::tested("true");
    queue.branch("base", &[("steps.txt", &steps("start step step"))]);
    queue.enqueue("base");
    queue.process(0);
    queue.branch("ours", &[("steps.txt", &steps("start step step pause"))]);
    queue.branch("theirs", &[("steps.txt", &steps("start pause step start step"))]);
    queue.enqueue("ours");
    queue.enqueue("theirs");
    assert_eq!(names(&queue.process(5)["landed"]), ["ours"]);
    let why = queue.why("theirs");
    assert_eq!((&why["tier"], &why["resolved"]), (&json!("tokens"), &json!(["steps.txt#0=tokens"])), "{why}");
    assert!(why["why"].as_str().unwrap().contains("no test covers `steps.txt`"), "{why}");
}

#[test]
fn conflicts_are_told_with_their_three_sides() {
    let queue = Queue::tested("true");
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    let (ran, _) = queue.processed(5);
    let why = queue.why("lower");
    let conflict = &why["conflicts"][0];
    assert_eq!((&conflict["path"], why["conflicts"].as_array().unwrap().len()), (&json!("lines.txt"), 1));
    for (side, has) in [("base", "\n5\n"), ("ours", "\nFIVE\n"), ("theirs", "\nfive\n")] {
        let blob = queue.env.git(&["cat-file", "blob", conflict[side].as_str().expect("a blob")]);
        assert!(format!("\n{blob}\n").contains(has), "{side}: {blob}");
    }
    let told =
        ran.json_lines().into_iter().find(|event| event["type"] == "dev.orchestra.MergeEscalated").expect("it is told");
    let expected = (json!("lower"), json!("main"), json!(1));
    assert_eq!(
        (told["data"]["branch"].clone(), told["data"]["target"].clone(), told["data"]["conflicts"].clone()),
        expected
    );
    assert_eq!(queue.env.git(&["rev-parse", "lower"]).trim(), why["head"], "the branch stays");
}

#[test]
fn red_stays_out_and_the_rest_lands() {
    let queue = Queue::tested("test ! -e bad.txt");
    for name in ["one", "bad", "two", "three"] {
        queue.queued(name);
    }
    let done = queue.process(1);
    assert_eq!(names(&done["landed"]), ["one", "two", "three"]);
    let why = queue.why("bad");
    assert_eq!((&why["state"], &why["verdict"]), (&json!("red"), &json!({"is": "fail", "exit": "exit 1"})));
    assert!(why["log"].as_str().expect("a log").contains("test ! -e bad.txt"));
    assert_eq!(queue.landed("bad.txt"), None);
}

#[test]
fn a_hanging_test_is_red_and_leaves_no_process() {
    let queue = Queue::with("merge: {test_command: 'test ! -e bad.txt || sleep 1000', test_timeout: 1, slots: 1}\n");
    queue.queued("bad");
    queue.process(1);
    assert!(queue.why("bad")["why"].as_str().expect("a reason").contains("timed out"), "{}", queue.why("bad"));
    queue.env.assert_no_process_left();
}

#[test]
fn a_flaky_test_blames_nobody() {
    let script = "test -e ../flaky || { touch ../flaky; exit 1; }";
    let queue = Queue::with(&format!("merge: {{test_command: '{script}', slots: 1}}\nsandbox: {{mode: off}}\n"));
    queue.queued("one");
    let done = queue.process(0);
    assert_eq!((names(&done["landed"]), &done["landed"][0]["verdict"]["is"]), (vec!["one"], &json!("flaky")));
    let states: Vec<_> =
        queue.why("one")["history"].as_array().unwrap().iter().map(|state| state["state"].clone()).collect();
    assert!(!states.contains(&json!("red")), "{states:?}");
}

#[test]
fn files_tested_once_are_not_tested_again() {
    let queue = Queue::tested("true");
    queue.queued("one");
    assert_eq!(queue.process(0)["tests"], 1);
    queue.env.pleach(&["merge", "undo", "one"]).expect(0);
    assert_eq!(queue.process(0)["tests"], 1, "as before, but nobody has tested that");
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.env.git(&["update-ref", "refs/heads/other", "main"]);
    queue.process(0);
    queue.env.git(&["update-ref", "refs/heads/again", "one"]);
    queue.env.git(&["reset", "-q", "--hard", "other"]);
    queue.enqueue("again");
    assert_eq!(queue.process(0)["tests"], 0, "the same files");
}

#[test]
fn local_changes_hold_the_target_up() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.env.write("repo/one.txt", "mine");
    queue.env.be_impatient();
    let done = queue.process(5);
    assert!(done["held"].as_str().expect("a reason").contains("one.txt"), "{done}");
    assert_eq!((queue.state("one"), names(&done["open"])), ("submitted".into(), vec!["one"]));
    assert_eq!(
        (queue.env.read("repo/one.txt"), queue.env.git(&["status", "--short"])),
        ("mine".into(), "?? one.txt".into())
    );
    std::fs::remove_file(queue.env.repo_path().join("one.txt")).unwrap();
    queue.process(0);
    assert_eq!(queue.landed("one.txt").as_deref(), Some("one"));
}

#[test]
fn a_target_nobody_has_checked_out_moves_alone() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.env.git(&["checkout", "-q", "-b", "elsewhere"]);
    let done = queue.env.pleach(&["-y", "merge", "process", "--into", "main", "--json"]).expect(0);
    assert_eq!(done.json_lines().pop().unwrap()["landed"][0]["name"], "one");
    assert_eq!(queue.landed("one.txt").as_deref(), Some("one"));
    assert!(!queue.env.repo_path().join("one.txt").exists());
}

#[test]
fn what_was_merged_by_hand_counts_as_landed() {
    let queue = Queue::tested("false");
    queue.queued("one");
    queue.env.git(&["merge", "-q", "one"]);
    assert_eq!(names(&queue.process(0)["landed"]), ["one"]);
    assert_eq!(queue.state("one"), "landed");
}

#[test]
fn i5_markers_of_a_conflict_never_land() {
    let queue = Queue::tested("true");
    queue.branch("marked", &[("a.txt", "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n")]);
    queue.enqueue("marked");
    queue.process(5);
    assert!(queue.why("marked")["why"].as_str().expect("a reason").contains("a.txt"));
    assert_eq!(queue.landed("a.txt"), None);
}

#[test]
fn unrelated_histories_are_for_a_person() {
    let queue = Queue::tested("true");
    let tree = queue.env.git(&["rev-parse", "main^{tree}"]);
    let root = queue.env.git(&["commit-tree", "-m", "Another root", tree.trim()]);
    queue.env.git(&["branch", "other", root.trim()]);
    queue.enqueue("other");
    queue.process(5);
    assert!(queue.why("other")["why"].as_str().expect("a reason").contains("no commit in common"));
}

#[test]
fn a_red_target_is_no_fault_of_an_entry() {
    let queue = Queue::tested("test ! -e broken.txt");
    queue.env.write("repo/broken.txt", "");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Break it"]);
    queue.queued("one");
    queue.process(1);
    let why = queue.why("one");
    assert_eq!(why["state"], "red");
    assert!(why["why"].as_str().unwrap().contains("fail on `main` without it"), "{why}");
    queue.env.git(&["rm", "-q", "broken.txt"]);
    queue.env.git(&["commit", "-qm", "Repair it"]);
    queue.env.pleach(&["merge", "retry", "one"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["one"]);
}

#[test]
fn a_candidate_is_not_refused_for_a_flaky_test() {
    let script = "test -e ../flaky || { touch ../flaky; exit 1; }";
    let queue = Queue::with(&format!(
        "merge: {{test_command: '{script}', slots: 1, auto_merge_clean: false}}\nsandbox: {{mode: off}}\n"
    ));
    queue.queued("one");
    queue.process(4);
    let why = queue.why("one");
    assert_eq!((&why["state"], &why["verdict"]["is"]), (&json!("candidate"), &json!("flaky")));
}

#[test]
fn what_landed_says_what_was_tested() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.process(0);
    let why = queue.why("one");
    let state = format!("refs/pleach/queue/main/entry/{}", why["id"].as_str().unwrap());
    let trailers = queue.env.git(&["log", "-1", "--format=%(trailers:only)", &state]);
    let tree = queue.env.git(&["rev-parse", "main^{tree}"]);
    assert!(trailers.contains(&format!("Pleach-Tested: {tree},pass,")), "{trailers}");
}

#[test]
fn a_command_makes_only_its_own_files() {
    let lines = |first: &str, last: &str| format!("{first}\n{}{last}\n", "same\n".repeat(20));
    let queue = Queue::with(
        "merge:\n  test_command: 'true'\n  slots: 1\n  derived:\n    - {paths: [gen.txt], command: 'echo made > gen.txt; echo \
         all > other.lock'}\n    - {paths: [other.lock], command: 'false'}\n",
    );
    queue.branch("base", &[("gen.txt", "1"), ("other.lock", &lines("a", "z"))]);
    queue.enqueue("base");
    queue.process(0);
    queue.branch("up", &[("gen.txt", "2"), ("other.lock", &lines("A", "z"))]);
    queue.branch("low", &[("gen.txt", "3"), ("other.lock", &lines("a", "Z"))]);
    queue.enqueue("up");
    queue.enqueue("low");
    assert_eq!(names(&queue.process(0)["landed"]), ["up", "low"]);
    assert_eq!(queue.landed("gen.txt").as_deref(), Some("made"));
    assert_eq!(queue.landed("other.lock"), Some(lines("A", "Z").trim_end().to_owned()), "its command did not run");
}

/// A git that fails as this says the first time it is to move the checkout, with a file half written.
fn interrupted(how: &str) -> Queue {
    let queue = Queue::tested("true");
    let env = &queue.env;
    let real = env.program("sh", env.root()).args(["-c", "command -v git"]).output().expect("sh can be started");
    let (real, root) = (String::from_utf8(real.stdout).expect("a path"), env.root().display().to_string());
    queue.branch("topic", &[("topic.txt", "all of it\n"), ("lines.txt", "1\n2\n")]);
    queue.enqueue("topic");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'merge -q '*) if mkdir {root}/failed; then cd {root}/repo; rm lines.txt; \
         printf '1\\n' > lines.txt; printf all > topic.txt; {how}; fi;; esac\nexec {} \"$@\"\n",
        real.trim()
    );
    env.write_program("bin/git", &script);
    queue
}

#[test]
fn an_interrupted_landing_of_the_queue_continues_by_itself() {
    let queue = interrupted("echo 'fatal: write error: No space left on device' >&2; exit 128");
    let ran = queue.env.pleach(&["-y", "merge", "process"]).expect(7);
    let error = ran.fails_with("git-interrupted").naming("No space left on device");
    error.naming("may be incomplete: `lines.txt`, `topic.txt`");
    assert_eq!(queue.env.read("repo/topic.txt"), "all");
    assert_eq!(names(&queue.process(0)["landed"]), ["topic"]);
    assert_eq!(queue.env.read("repo/topic.txt"), "all of it\n");
    assert_eq!(queue.env.git(&["status", "--porcelain"]), "");

    // Killed together with git, whose lock stays.
    let queue = interrupted(": > .git/index.lock; kill -9 $PPID; kill -9 $$");
    let died = queue.env.command(&["-y", "merge", "process"]).output().expect("pleach starts");
    assert!(!died.status.success());
    assert_eq!(names(&queue.process(0)["landed"]), ["topic"]);
    assert_eq!(queue.env.read("repo/lines.txt"), "1\n2\n");
    assert_eq!(queue.env.git(&["status", "--porcelain"]), "");
}
