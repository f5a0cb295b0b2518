//! What people decide.

use serde_json::json;

use super::{Queue, names};

#[test]
fn merge_approve() {
    let queue = Queue::with("merge: {test_command: 'true', auto_merge_clean: false, slots: 1}\n");
    queue.queued("one");
    queue.queued("two");
    let before = queue.tip();
    let done = queue.process(4);
    assert_eq!((names(&done["open"]), queue.tip()), (vec!["one", "two"], before));
    let why = queue.why("one");
    assert_eq!((&why["state"], &why["verdict"]["is"]), (&json!("candidate"), &json!("pass")));
    queue.env.pleach(&["merge", "approve", "two"]).expect(0);
    let (ran, done) = queue.processed(4);
    assert_eq!((names(&done["landed"]), names(&done["open"])), (vec!["two"], vec!["one"]));
    let told =
        ran.json_lines().into_iter().find(|event| event["type"] == "dev.orchestra.MergeComplete").expect("it is told");
    assert_eq!(told["data"]["auto"], false);
}

#[test]
fn who_approves_sees_tier_files_hunks_and_diff() {
    let queue =
        Queue::with("merge: {test_command: 'test -s lines.txt && sh check.sh', auto_merge_clean: false, slots: 1}\n");
    queue.env.write("repo/check.sh", "true\n");
    let text = |fifth: &str| twenty(fifth, "20");
    queue.env.write("repo/lines.txt", text("alpha beta gamma"));
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Words"]);
    queue.branch("words", &[("lines.txt", &text("alpha beta GAMMA")), ("check.sh", "exit 0\n")]);
    queue.env.write("repo/lines.txt", text("ALPHA beta gamma"));
    queue.env.git(&["commit", "-qam", "Meanwhile"]);
    queue.enqueue("words");
    let early = queue.env.pleach(&["merge", "diff", "words", "--json"]).expect(2).json();
    assert_eq!(early["error"]["code"], "entry-state");
    queue.process(4);
    let why = queue.why("words");
    assert_eq!((&why["state"], &why["tier"]), (&json!("candidate"), &json!("tokens")));
    assert_eq!(why["resolved"], json!(["lines.txt#1=tokens"]));
    let lines = |path: &str| json!({"path": path, "added": 1, "removed": 1});
    assert_eq!(
        (&why["files"], &why["edited_tests"]),
        (&json!([lines("check.sh"), lines("lines.txt")]), &json!(["check.sh"]))
    );
    let shown = queue.env.pleach(&["merge", "why", "words"]).expect(0).stdout;
    for words in
        ["tokens", "lines.txt (+1 -1)", "lines.txt#1=tokens", "changes check.sh, which its tests are started from"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let diff = queue.env.pleach(&["merge", "diff", "words"]).expect(0).stdout;
    assert!(diff.contains("-ALPHA beta gamma\n+ALPHA beta GAMMA\n"), "{diff}");
    queue.env.pleach(&["merge", "approve", "words"]).expect(0);
    let ran = queue.env.pleach(&["-y", "merge", "process"]).expect(0);
    ran.warns_once("tests-edited").naming("words has changed `check.sh`");
    assert_eq!(queue.env.pleach(&["merge", "diff", "words"]).expect(0).stdout, diff, "also once it has landed");
}

#[test]
fn merge_abort_ends_a_resolution_and_keeps_the_work() {
    let (queue, place) = resolving("true");
    std::fs::write(place.join("lines.txt"), twenty("FIVE and five", "20")).unwrap();
    let done = queue.env.pleach(&["merge", "abort", "lower", "--json"]).expect(0).json();
    assert!(!place.exists());
    let kept = done["kept"].as_str().expect("the work is kept");
    assert!(queue.env.git(&["show", &format!("{kept}:lines.txt")]).contains("FIVE and five"));
    assert_eq!(queue.state("lower"), "escalated");
    let again = queue.env.pleach(&["merge", "abort", "lower"]).expect(2);
    insta::assert_snapshot!(again, @"
    exit: 2
    --- stderr
    error[entry-state]: lower is escalated: nobody resolves it; begin with `pleach merge resolve lower`
    hint: `pleach merge why lower` tells more
    ");
    let place = queue.env.pleach(&["merge", "resolve", "lower", "--json"]).expect(0).json();
    assert_eq!(place["old"], false, "it can be begun again");
    // What was committed there is as much theirs.
    let place = std::path::PathBuf::from(place["path"].as_str().expect("a path"));
    std::fs::write(place.join("lines.txt"), twenty("FIVE, committed", "20")).unwrap();
    queue.env.git_in(&place, &["commit", "-qam", "By hand"]);
    let done = queue.env.pleach(&["merge", "abort", "lower", "--json"]).expect(0).json();
    let kept = done["kept"].as_str().expect("the commit is kept");
    assert!(queue.env.git(&["show", &format!("{kept}:lines.txt")]).contains("FIVE, committed"));
}

#[test]
fn merge_retry() {
    let queue = Queue::tested("test ! -e bad.txt");
    queue.queued("bad");
    queue.process(1);
    queue.process(1);
    queue.env.git(&["checkout", "-q", "bad"]);
    queue.env.git(&["rm", "-q", "bad.txt"]);
    queue.env.write("repo/good.txt", "good");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Repair"]);
    queue.env.git(&["checkout", "-q", "main"]);
    queue.env.pleach(&["merge", "retry", "bad"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["bad"]);
    assert_eq!(queue.landed("good.txt").as_deref(), Some("good"));
}

#[test]
fn merge_drop_keeps_the_branch() {
    let queue = Queue::tested("true");
    queue.queued("one");
    let head = queue.env.git(&["rev-parse", "one"]);
    queue.env.pleach(&["merge", "drop", "one"]).expect(0);
    assert_eq!((queue.state("one"), queue.names()), ("cancelled".into(), Vec::<String>::new()));
    assert!(queue.process(0)["landed"].as_array().unwrap().is_empty());
    assert_eq!(queue.env.git(&["rev-parse", "one"]), head);
    queue.enqueue("one");
    assert_eq!(names(&queue.process(0)["landed"]), ["one"], "it can be queued again");
    let late = queue.env.pleach(&["merge", "drop", "one", "--json"]).expect(2);
    assert_eq!(late.json()["error"]["code"], "entry-state");
}

#[test]
fn merge_undo_is_a_revert_through_the_queue() {
    let queue = Queue::tested("test ! -e two.txt || test -e one.txt");
    queue.queued("one");
    queue.process(0);
    queue.queued("three");
    queue.process(0);
    queue.env.pleach(&["merge", "undo", "one"]).expect(0);
    queue.process(0);
    assert_eq!((queue.landed("one.txt"), queue.landed("three.txt").as_deref()), (None, Some("three")));
    let subject = queue.env.git(&["log", "-1", "--format=%s", "main"]);
    assert_eq!(subject.trim(), "Revert \"Work of one\"");
    // What others need by now cannot be undone without them.
    queue.queued("four");
    queue.process(0);
    queue.env.write("repo/pleach.yaml", "merge: {test_command: 'test -e four.txt', slots: 1}\n");
    queue.env.git(&["commit", "-qam", "Settings"]);
    queue.env.pleach(&["merge", "undo", "four"]).expect(0);
    queue.process(1);
    assert!(queue.landed("four.txt").is_some());
    queue.env.pleach(&["merge", "undo", "none"]).expect(2);
}

#[test]
fn merge_resolve() {
    let queue = Queue::tested("grep -q 'FIVE and five' lines.txt || ! grep -q five lines.txt");
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.process(5);
    let begun = queue.env.pleach(&["merge", "resolve", "lower", "--json"]).expect(0).json();
    let file = std::path::Path::new(begun["path"].as_str().expect("a path")).join("lines.txt");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("<<<<<<< main\nFIVE\n") && text.contains("five\n>>>>>>> lower\n"), "{text}");
    let early = queue.env.pleach(&["merge", "resolve", "lower", "--done", "--json"]).expect(4);
    assert_eq!(early.json()["error"]["code"], "conflicts-left");
    let lines: String =
        (1..=20).map(|line| if line == 5 { "FIVE and five\n".to_owned() } else { format!("{line}\n") }).collect();
    std::fs::write(&file, lines).unwrap();
    assert_eq!(
        queue.env.pleach(&["merge", "resolve", "lower", "--json"]).expect(0).json()["old"],
        true,
        "nothing is lost"
    );
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    assert!(!file.exists());
    let done = queue.process(0);
    assert_eq!((names(&done["landed"]), &done["landed"][0]["tier"]), (vec!["lower"], &json!("person")));
    assert!(queue.landed("lines.txt").unwrap().contains("FIVE and five"));
    let trailers = queue.env.git(&["log", "-1", "--format=%(trailers:only)", "main"]);
    assert!(trailers.contains("Pleach-Tier: person"), "{trailers}");
}

#[test]
fn several_branches_are_queued_at_once() {
    let queue = Queue::tested("true");
    for name in ["one", "two", "three"] {
        queue.branch(name, &[(&format!("{name}.txt"), name)]);
    }
    let refused = queue.env.pleach(&["merge", "enqueue", "one", "none", "two"]).expect(2);
    refused.fails_with("no-such-branch").naming("`none`");
    let listed = || queue.env.pleach(&["merge", "queue", "--json"]).expect(0).json();
    assert!(!listed().to_string().contains("one.txt") && listed()["queues"].to_string().find("\"one\"").is_none());
    let ran = queue.env.pleach(&["-q", "merge", "enqueue", "one", "two"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{ran}");
    let queued = queue.env.pleach(&["--json", "merge", "enqueue", "two", "three"]).expect(0).json();
    assert_eq!(names(&queued["entries"]), ["two", "three"]);
    assert_eq!(names(&queue.process(0)["landed"]), ["one", "two", "three"]);
}

#[test]
fn a_dropped_entry_can_be_retried() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.env.pleach(&["merge", "drop", "one"]).expect(0);
    queue.env.pleach(&["merge", "retry", "one"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["one"]);
}

#[test]
fn approval_is_about_the_commit_that_was_seen() {
    let queue = Queue::with("merge: {test_command: 'true', auto_merge_clean: false, slots: 1}\n");
    queue.queued("one");
    queue.process(4);
    queue.env.pleach(&["merge", "approve", "one"]).expect(0);
    queue.env.git(&["checkout", "-q", "one"]);
    queue.env.git(&["commit", "-q", "--allow-empty", "-m", "Nobody has seen this"]);
    queue.env.git(&["checkout", "-q", "main"]);
    queue.env.pleach(&["merge", "retry", "one"]).expect(0);
    queue.process(4);
    assert_eq!(queue.state("one"), "candidate");
}

/// A queue with a conflict in line 5, and the directory in which a person resolves it.
fn resolving(test: &str) -> (Queue, std::path::PathBuf) {
    let queue = Queue::tested(test);
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.process(5);
    let begun = queue.env.pleach(&["merge", "resolve", "lower", "--json"]).expect(0).json();
    (queue, begun["path"].as_str().expect("a path").into())
}

fn twenty(fifth: &str, last: &str) -> String {
    let line = |line: usize| match line {
        5 => format!("{fifth}\n"),
        20 => format!("{last}\n"),
        line => format!("{line}\n"),
    };
    (1..=20).map(line).collect()
}

#[test]
fn a_person_may_edit_beside_the_conflict() {
    let (queue, place) = resolving("true");
    std::fs::write(place.join("lines.txt"), twenty("FIVE and five", "twenty")).unwrap();
    std::fs::write(place.join("notes.txt"), "why\n").unwrap();
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["lower"]);
    assert_eq!(queue.landed("notes.txt").as_deref(), Some("why"));
    let resolved = queue.why("lower")["resolved"].to_string();
    assert!(resolved.contains("notes.txt#0=person"), "what was edited is named: {resolved}");
}

#[test]
fn a_person_goes_on_where_their_resolution_failed() {
    let (queue, place) = resolving("! grep -q wrong lines.txt");
    std::fs::write(place.join("lines.txt"), twenty("wrong", "20")).unwrap();
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    let (told, _) = queue.processed(5);
    assert!(told.json_lines().iter().any(|event| event["type"] == "dev.orchestra.MergeEscalated"));
    assert_eq!(queue.state("lower"), "escalated");
    queue.env.pleach(&["merge", "resolve", "lower"]).expect(0);
    assert_eq!(std::fs::read_to_string(place.join("lines.txt")).unwrap(), twenty("wrong", "20"));
    std::fs::write(place.join("lines.txt"), twenty("right", "20")).unwrap();
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["lower"]);
}

#[test]
fn markers_that_belong_to_a_file_land_once_approved() {
    let queue = Queue::tested("true");
    queue.branch("docs", &[("conflicts.txt", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")]);
    queue.enqueue("docs");
    queue.process(5);
    let why = queue.why("docs");
    assert!(why["why"].as_str().unwrap().contains("pleach merge approve"), "{why}");
    let none = queue.env.pleach(&["merge", "resolve", "docs", "--json"]).expect(2).json();
    assert!(none["error"]["message"].as_str().unwrap().contains("no conflict"), "{none}");
    queue.env.pleach(&["merge", "approve", "docs"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["docs"]);
}

#[test]
fn what_is_undone_is_undone_once() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.process(0);
    let first = queue.env.pleach(&["merge", "undo", "one", "--json"]).expect(0).json();
    let second = queue.env.pleach(&["merge", "undo", "one", "--json"]).expect(0).json();
    assert_eq!(first["id"], second["id"]);
    queue.process(0);
    let late = queue.env.pleach(&["merge", "undo", "one", "--json"]).expect(2);
    assert!(late.json()["error"]["message"].as_str().unwrap().contains("undone already"), "{late}");
}

#[test]
fn a_branch_queued_again_keeps_its_priority() {
    let queue = Queue::tested("true");
    queue.branch("one", &[("one.txt", "1")]);
    queue.env.pleach(&["merge", "enqueue", "one", "--priority", "4"]).expect(0);
    assert_eq!(queue.enqueue("one")["priority"], 4);
    let typo = queue.env.pleach(&["merge", "enqueue", "one", "--into", "mian", "--json"]).expect(2);
    assert_eq!(typo.json()["error"]["code"], "no-such-branch");
}

#[test]
fn worktrees_of_the_queue_are_listed_and_pruned() {
    let (queue, place) = resolving("true");
    let listed = queue.env.pleach(&["worktree", "list"]).expect(0).stdout;
    assert!(listed.contains("merge queue of main") && listed.contains("with main"), "{listed}");
    queue.env.pleach(&["worktree", "prune"]).expect(0);
    let listed = queue.env.pleach(&["worktree", "list"]).expect(0).stdout;
    assert!(!listed.contains("merge queue of main") && place.exists(), "a person works there: {listed}");
    std::fs::write(place.join("notes.txt"), "mine\n").unwrap();
    queue.env.pleach(&["merge", "drop", "lower"]).expect(0);
    let pruned = queue.env.pleach(&["worktree", "prune"]).expect(0).stdout;
    assert!(!place.exists() && pruned.contains("refs/pleach/keep/"), "{pruned}");
}

#[test]
fn a_resolution_is_about_the_commit_that_was_seen() {
    let (queue, place) = resolving("true");
    std::fs::write(place.join("lines.txt"), twenty("FIVE and five", "20")).unwrap();
    queue.env.write("repo/mine.txt", "mine\n");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Meanwhile"]);
    queue.env.pleach(&["merge", "retry", "lower"]).expect(0);
    queue.process(5);
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["lower"]);
    assert_eq!(queue.landed("mine.txt").as_deref(), Some("mine"), "what has landed meanwhile stays");
    assert!(queue.landed("lines.txt").unwrap().contains("FIVE and five"));
}

#[test]
fn no_agent_is_asked_while_a_person_resolves() {
    let settings = "agent: 'command:sh agent.sh'\nmerge: {test_command: 'true', slots: 1, max_conflict_retries: 1}\n";
    let queue = Queue::with(settings);
    queue.env.write("repo/agent.sh", "cat > /dev/null; echo asked >> ../asked; exit 1\n");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Agent"]);
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.process(5);
    let begun = queue.env.pleach(&["merge", "resolve", "lower", "--json"]).expect(0).json();
    queue.env.pleach(&["merge", "retry", "lower"]).expect(0);
    queue.process(5);
    assert_eq!(queue.why("lower")["attempts"], 0);
    let file = std::path::Path::new(begun["path"].as_str().unwrap()).join("lines.txt");
    std::fs::write(file, twenty("both", "20")).unwrap();
    queue.env.pleach(&["merge", "resolve", "lower", "--done"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["lower"]);
}

#[test]
fn a_dropped_entry_is_not_resolved() {
    let (queue, place) = resolving("true");
    std::fs::write(place.join("lines.txt"), twenty("both", "20")).unwrap();
    queue.env.pleach(&["merge", "drop", "lower"]).expect(0);
    let late = queue.env.pleach(&["merge", "resolve", "lower", "--done", "--json"]).expect(2).json();
    assert_eq!(late["error"]["code"], "entry-state");
    assert_eq!(queue.state("lower"), "cancelled");
}

#[test]
fn what_was_approved_is_what_was_asked() {
    let queue = Queue::tested("true");
    queue.line("base", 5, "alpha beta gamma");
    queue.process(0);
    let text = |fifth: &str| twenty(fifth, "20");
    queue.branch("docs", &[("c.txt", "<<<<<<< a\n=======\n>>>>>>> b\n"), ("lines.txt", &text("alpha beta GAMMA"))]);
    queue.branch("words", &[("lines.txt", &text("ALPHA beta gamma"))]);
    queue.enqueue("docs");
    queue.process(5);
    queue.env.pleach(&["merge", "approve", "docs"]).expect(0);
    queue.env.pleach(&["merge", "enqueue", "words", "--priority", "5"]).expect(0);
    queue.process(5);
    let why = queue.why("docs");
    assert!(why["why"].as_str().unwrap().contains("no test covers"), "markers were approved, nothing else: {why}");
    queue.env.pleach(&["merge", "approve", "docs"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["docs"]);
}
