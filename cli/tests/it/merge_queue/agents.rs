//! Conflicts that an agent resolves.

use serde_json::json;

use super::{Queue, names};

/// A queue with an agent of its own that runs this script.
fn with_agent(script: &str, test: &str) -> Queue {
    let settings = format!("agent: 'command:sh agent.sh'\nmerge: {{test_command: {test:?}, slots: 1}}\n");
    let queue = Queue::with(&settings);
    queue.env.write("repo/agent.sh", script);
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Agent"]);
    queue
}

/// Two branches that change the same line.
fn conflicting(queue: &Queue) {
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
}

const BOTH: &str = "asked=$(cat)
case $asked in *conflict*lines.txt*) ;; *) echo 'no conflict was mentioned' >&2; exit 1 ;; esac
case $asked in *'Work of lower'*) ;; *) echo 'no goal was mentioned' >&2; exit 1 ;; esac
{ seq 4; echo 'FIVE and five'; seq 6 20; } > lines.txt
echo resolved
";

#[test]
fn an_agent_resolves_a_conflict() {
    let queue = with_agent(BOTH, "grep -q -i five lines.txt || grep -qx 5 lines.txt");
    conflicting(&queue);
    let done = queue.process(0);
    assert_eq!(names(&done["landed"]), ["upper", "lower"]);
    assert!(queue.landed("lines.txt").unwrap().contains("FIVE and five"));
    let why = queue.why("lower");
    assert_eq!(
        (&why["tier"], &why["attempts"], &why["resolved"]),
        (&json!("agent"), &json!(1), &json!(["lines.txt#1=agent"]))
    );
    let trailers = queue.env.git(&["log", "-1", "--format=%(trailers:only)", "main"]);
    assert!(
        trailers.contains("Pleach-Tier: agent") && trailers.contains("Pleach-Resolved: lines.txt#1=agent"),
        "{trailers}"
    );
    assert_eq!(
        queue.env.git(&["rev-list", "--parents", "-1", "main"]).split_whitespace().count(),
        3,
        "a merge of both"
    );
}

#[test]
fn ref_locks_of_killed_processes_stop_no_queue() {
    let left = "cd \"$(git rev-parse --git-common-dir)\" && for ref in refs/heads/mine refs/heads/pleach/resolve/* \
                refs/pleach/queue/main/order refs/pleach/queue/main/conflict/*; do touch -d 2020-01-01 $ref.lock; done";
    let queue = with_agent(&format!("{BOTH}\n{left}\n"), "grep -q -i five lines.txt || grep -qx 5 lines.txt");
    queue.env.unbound();
    conflicting(&queue);
    assert_eq!(names(&queue.process(0)["landed"]), ["upper", "lower"]);
    assert_eq!(queue.env.git(&["for-each-ref", "refs/heads/pleach/resolve"]), "", "nothing of the agent is left");
    let told = queue.env.pleach(&["doctor"]).stdout;
    assert_eq!(told.matches("left a lock on").count(), 1, "{told}");
    assert!(told.contains("left a lock on refs/heads/mine"), "{told}");
}

#[test]
fn markers_that_are_left_are_a_partial_resolution() {
    let queue = with_agent("cat > /dev/null; sed -i 's/^20$/twenty/' lines.txt", "true");
    conflicting(&queue);
    queue.process(5);
    let why = queue.why("lower");
    assert_eq!((&why["state"], &why["attempts"]), (&json!("escalated"), &json!(2)));
    assert_eq!(why["conflicts"][0]["path"], "lines.txt");
    let kept = format!("refs/pleach/queue/main/conflict/{}", why["id"].as_str().unwrap());
    assert!(queue.env.git(&["show", &format!("{kept}:lines.txt")]).contains("twenty"), "what was solved stays");
}

#[test]
fn an_agent_may_only_change_what_is_in_conflict() {
    let queue = with_agent(&format!("{BOTH}\necho more > other.txt\n"), "true");
    conflicting(&queue);
    queue.process(5);
    assert!(queue.why("lower")["why"].as_str().unwrap().contains("other.txt"), "{}", queue.why("lower"));
    assert_eq!(queue.landed("other.txt"), None);
}

#[test]
fn a_wrong_resolution_never_lands() {
    let queue =
        with_agent("cat > /dev/null; echo wrong > lines.txt", "grep -qi five lines.txt || grep -qx 5 lines.txt");
    conflicting(&queue);
    queue.process(5);
    assert_eq!((queue.state("lower"), queue.why("lower")["attempts"].clone()), ("escalated".into(), json!(2)));
    assert!(!queue.landed("lines.txt").unwrap().contains("wrong"));
}

#[test]
fn an_agent_that_fails_is_asked_twice_then_a_person() {
    let queue = with_agent("cat > /dev/null; exit 1", "true");
    conflicting(&queue);
    queue.process(5);
    assert_eq!(queue.why("lower")["attempts"], 2);
    assert_eq!(queue.state("lower"), "escalated");
}

#[test]
fn without_retries_no_agent_is_asked() {
    let queue =
        Queue::with("agent: 'command:false'\nmerge: {test_command: 'true', max_conflict_retries: 0, slots: 1}\n");
    conflicting(&queue);
    queue.process(5);
    assert_eq!(queue.why("lower")["attempts"], 0);
}

/// Two branches that pass their tests, each without the other: together they have too many lines.
fn too_many_lines(script: &str) -> Queue {
    let queue = with_agent(script, "grep -q b b.txt && test $(cat a.txt b.txt | wc -l) -le 3");
    queue.env.write("repo/a.txt", "a\n");
    queue.env.write("repo/b.txt", "b\n");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Two files"]);
    queue.branch("one", &[("a.txt", "a\nmore\n")]);
    queue.branch("two", &[("b.txt", "b\nmore\n")]);
    queue.enqueue("one");
    queue.enqueue("two");
    queue
}

#[test]
fn a_repair_names_the_files_it_changes() {
    let queue = too_many_lines("cat > /dev/null; echo 'b and more' > b.txt");
    assert_eq!(names(&queue.process(0)["landed"]), ["one", "two"]);
    assert_eq!(queue.why("two")["resolved"], json!(["b.txt#0=agent"]));
    let left = queue.env.git(&["branch", "--list", "pleach/*"]);
    assert_eq!((left.as_str(), queue.env.git(&["worktree", "list"]).contains("resolve")), ("", false));
    let sessions = queue.env.pleach(&["worktree", "list", "--json"]).expect(0).json().to_string();
    assert!(!sessions.contains("\"session\":\""), "its worktree is gone as well: {sessions}");
}

#[test]
fn a_repair_that_takes_a_side_back_is_refused() {
    for (script, lost) in
        [("cat > /dev/null; echo b > b.txt", "two"), ("cat > /dev/null; echo a > a.txt; true", "`main`")]
    {
        let queue = too_many_lines(script);
        queue.process(5);
        let why = queue.why("two");
        assert_eq!(why["state"], "escalated");
        assert!(why["why"].as_str().unwrap().contains(&format!("took back what {lost} has changed")), "{why}");
        assert_eq!(queue.landed("b.txt").as_deref(), Some("b"));
    }
}

#[test]
fn a_repair_may_not_change_what_is_tested() {
    for (script, changed) in [("echo true > check.sh", "check.sh"), ("echo 'x: 1' > pleach.yaml", "pleach.yaml")] {
        let queue = with_agent(&format!("cat > /dev/null; {script}"), "sh check.sh");
        queue.env.write("repo/check.sh", "echo pleach.yaml check.sh; test ! -e a.txt || test ! -e b.txt\n");
        queue.env.git(&["add", "-A"]);
        queue.env.git(&["commit", "-qm", "Check"]);
        queue.branch("one", &[("a.txt", "a")]);
        queue.branch("two", &[("b.txt", "b")]);
        queue.enqueue("one");
        queue.enqueue("two");
        queue.process(5);
        let why = queue.why("two");
        assert!(why["why"].as_str().unwrap().contains(changed), "{why}");
        assert_eq!(queue.landed("b.txt"), None);
    }
}

#[test]
fn a_repair_keeps_lines_that_have_landed() {
    let queue = too_many_lines("cat > /dev/null; printf 'a\\n# repaired\\n' > a.txt; echo 'b and more' > b.txt");
    queue.process(5);
    let why = queue.why("two");
    assert!(why["why"].as_str().unwrap().contains("took back lines of `main` in `a.txt`"), "{why}");
}

#[test]
fn an_agent_may_not_remove_a_file_in_conflict() {
    let queue = with_agent("cat > /dev/null; rm lines.txt", "true");
    conflicting(&queue);
    queue.process(5);
    let why = queue.why("lower");
    assert!(why["why"].as_str().unwrap().contains("it removed `lines.txt`"), "{why}");
    assert!(queue.landed("lines.txt").is_some());
}

#[test]
fn what_an_agent_wrote_is_approved_anew() {
    let queue = with_agent(BOTH, "grep -q -i five lines.txt || grep -qx 5 lines.txt");
    let settings = "agent: 'command:sh agent.sh'\nmerge: {test_command: 'grep -q -i five lines.txt || grep -qx 5 lines.txt', \
                    slots: 1, auto_merge_clean: false}\n";
    queue.env.write("repo/pleach.yaml", settings);
    queue.env.git(&["commit", "-qam", "Approve"]);
    queue.line("lower", 5, "five");
    queue.process(4);
    queue.env.pleach(&["merge", "approve", "lower"]).expect(0);
    queue.branch("upper", &[("lines.txt", &queue.env.git(&["show", "main:lines.txt"]).replacen("5", "FIVE", 1))]);
    queue.env.pleach(&["merge", "enqueue", "upper", "--priority", "5"]).expect(0);
    queue.env.pleach(&["merge", "approve", "upper"]).expect(0);
    assert_eq!(names(&queue.process(4)["landed"]), ["upper"]);
    assert_eq!(queue.state("lower"), "candidate", "nobody has seen that");
}
