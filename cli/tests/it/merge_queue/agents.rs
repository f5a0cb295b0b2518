//! Conflicts that an agent resolves.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

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
    // Its session is pleach's own: it is hidden, and nobody means it without naming it.
    let status = queue.env.pleach(&["status"]).expect(0);
    assert!(!status.stdout.contains("pleach/resolve/"), "{status}");
    assert!(status.stdout.contains("1 session that pleach started to resolve conflicts; -v lists them"), "{status}");
    let all = queue.env.pleach(&["-v", "status", "--json"]).expect(0).json();
    assert_eq!(all["sessions"][0]["pipeline"], "resolve");
    assert_eq!(queue.env.pleach(&["status", "--json"]).expect(0).json()["own_sessions"], 1);
    for command in ["turns", "diff", "land"] {
        queue.env.pleach(&[command]).expect(2).fails_with("no-such-session");
    }
}

/// A queue whose agent may leave word in `tmp`, which is `$T`; `met N PATTERN` waits for so many files there.
fn with_agent_outside(script: &str, test: &str, more: &str) -> Queue {
    let settings = format!(
        "agent: 'command:sh agent.sh'\nsandbox: {{mode: off}}\nmerge: {{test_command: {test:?}, slots: 1{more}}}\n"
    );
    let queue = Queue::with(&settings);
    let outside = queue.env.root().join("tmp");
    let begin = format!(
        "T='{}'\nuntil_true() {{ for i in $(seq 1500); do if eval \"$1\"; then return 0; fi; sleep 0.02; done; exit 1; }}\n",
        outside.display()
    );
    queue.env.write("repo/agent.sh", begin + script);
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Agent"]);
    queue
}

/// Works the queue meanwhile.
fn processing(queue: &Queue) -> Child {
    let mut command = queue.env.command(&["-y", "merge", "process", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// What an agent tells of conflicts in the output of a process.
fn resolutions(child: Child) -> Vec<Value> {
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{lines}");
    let told = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    told.filter(|told| told["type"] == "dev.orchestra.MergeResolution").map(|told| told["data"].clone()).collect()
}

#[test]
fn the_queue_goes_on_while_agents_resolve_conflicts() {
    let resolve = "cat > /dev/null; touch $T/asked-$$; until_true '[ $(ls $T | grep -c ^asked-) -ge 2 ]'
touch $T/both; until_true 'git cat-file -e main:late.txt'
if grep -q '<<<' pair.txt; then printf 'left\\nright\\n' > pair.txt; else { seq 4; echo 'FIVE and five'; seq 6 20; } > lines.txt; fi";
    let queue = with_agent_outside(resolve, "test -s lines.txt && { test ! -e pair.txt || test -s pair.txt; }", "");
    conflicting(&queue);
    conflicting_pair(&queue);
    let process = processing(&queue);
    queue.env.wait_for_file("tmp/both");
    queue.queued("late");
    let told = resolutions(process);
    assert_eq!(["upper", "lower", "left", "right", "late"].map(|name| queue.state(name)), ["landed"; 5]);
    let texts: Vec<&str> = told.iter().map(|told| told["text"].as_str().unwrap()).collect();
    let begun = ["resolving a conflict with upper in lines.txt", "resolving a conflict with left in pair.txt"];
    assert_eq!(texts, [begun[0], begun[1], "an agent has resolved its conflict", "an agent has resolved its conflict"]);
    let lower = queue.why("lower");
    let states = lower["history"].as_array().unwrap();
    let step = states.iter().find(|state| state["state"] == "resolving").expect("a state of its own");
    assert_eq!((&step["why"], &lower["tier"]), (&json!(begun[0]), &json!("agent")));
    let from = lower["landing"]["from"].as_str().unwrap();
    assert!(queue.env.git(&["ls-tree", "--name-only", from]).contains("late.txt"), "merged anew where the target is");
    assert_eq!(queue.landed("pair.txt").as_deref(), Some("left\nright"));
}

/// A second conflict, of two branches that add the same file.
fn conflicting_pair(queue: &Queue) {
    for name in ["left", "right"] {
        queue.branch(name, &[("pair.txt", &format!("{name}\n"))]);
        queue.enqueue(name);
    }
}

#[test]
fn an_error_of_an_agent_concerns_only_its_entry() {
    let resolve =
        "cat > /dev/null; if grep -q '<<<' pair.txt; then printf 'left\\nright\\n' > pair.txt; exit; fi; exit 3";
    // The session cannot begin; or not even what is to be resolved can be read.
    for (setup, is_broken, why) in
        [("! grep '<<<' lines.txt", false, "setup command"), ("true", true, "no agent could be")]
    {
        let queue = with_agent(resolve, "test -s lines.txt && { test ! -e pair.txt || test -s pair.txt; }");
        let settings = queue.env.read("repo/pleach.yaml") + &format!("worktrees: {{setup: {setup:?}}}\n");
        queue.env.write("repo/pleach.yaml", settings);
        queue.env.git(&["commit", "-qam", "Setup"]);
        conflicting(&queue);
        conflicting_pair(&queue);
        if is_broken {
            let blob = queue.env.git(&["rev-parse", "main:lines.txt"]);
            let conflict = format!("refs/pleach/queue/main/conflict/{}", queue.why("lower")["id"].as_str().unwrap());
            queue.env.git(&["update-ref", &conflict, blob.trim()]);
        }
        let (ran, done) = queue.processed(5);
        assert_eq!(names(&done["landed"]), ["upper", "left", "right"], "{ran}");
        let lower = queue.why("lower");
        assert_eq!(lower["state"], "escalated", "{lower}");
        assert!(lower["why"].as_str().unwrap().contains(why), "{lower}");
        let is_told = |told: &Value| told["type"] == "dev.orchestra.MergeEscalated";
        assert_eq!(ran.json_lines().into_iter().filter(is_told).count(), 1, "{ran}");
    }
}

#[test]
fn what_waits_for_a_person_is_told_while_agents_work() {
    let resolve =
        "cat > /dev/null; touch $T/asked; until_true 'test -e $T/told'\n{ seq 4; echo both; seq 6 20; } > lines.txt";
    let cases = [("", 5, "late.txt"), (", auto_merge_clean: false", 4, "late waits for approval")];
    for (more, exit, said) in cases {
        let queue = with_agent_outside(resolve, "test -s lines.txt", &format!("{more}, untested_files: allow"));
        queue.env.be_impatient();
        conflicting(&queue);
        for name in ["upper", "lower"] {
            queue.env.pleach(&["merge", "approve", name]).expect(0);
        }
        let mut process = processing(&queue);
        queue.env.wait_for_file("tmp/asked");
        queue.branch("late", &[("late.txt", "late")]);
        queue.env.write("repo/late.txt", "mine");
        queue.enqueue("late");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut told = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let waits = told.find(|told| told["data"]["code"] == "queue-waits").expect("it is told");
        assert!(waits["data"]["text"].as_str().unwrap().contains(said), "{waits}");
        queue.env.write("tmp/told", "");
        assert_eq!(told.filter(|told| told["data"]["code"] == "queue-waits").count(), 0, "once");
        assert_eq!(process.wait().unwrap().code(), Some(exit));
    }
}

#[test]
fn a_resolution_that_is_always_outdated_is_handed_on() {
    let resolve = "cat > /dev/null; touch $T/asked-$$; n=$(ls $T | grep -c ^asked-)
with_line() { seq 4; echo \"$1\"; seq 6 20; }
with_line \"both $n\" > lines.txt
if [ $n -le 4 ]; then
  export GIT_INDEX_FILE=$T/index; git read-tree main
  git update-index --cacheinfo 100644,$(with_line \"moved $n\" | git hash-object -w --stdin),lines.txt
  git update-ref refs/heads/main $(git -c user.name=M -c user.email=m@m commit-tree $(git write-tree) -p main -m Move)
fi";
    let queue = with_agent_outside(resolve, "test -s lines.txt", ", untested_files: allow");
    conflicting(&queue);
    queue.process(5);
    let why = queue.why("lower");
    assert_eq!((&why["state"], &why["attempts"]), (&json!("escalated"), &json!(2)), "{why}");
    assert!(why["why"].as_str().unwrap().contains("`main` has moved where agents resolved its conflict"), "{why}");
}

#[test]
fn an_agent_whose_entry_is_dropped_is_stopped() {
    let queue = with_agent_outside("cat > /dev/null; touch $T/asked; sleep 1000", "true", ", resolvers: 1");
    conflicting(&queue);
    let process = processing(&queue);
    queue.env.wait_for_file("tmp/asked");
    queue.env.pleach(&["merge", "drop", "lower"]).expect(0);
    assert_eq!(resolutions(process).len(), 1, "nothing came of it");
    assert_eq!(queue.state("lower"), "cancelled");
    assert_eq!(queue.env.git(&["branch", "--list", "pleach/*"]), "", "its session is cleared away");
    queue.env.assert_no_process_left();
}

#[test]
fn the_agent_is_told_what_both_sides_wanted() {
    let queue = with_agent_outside("cat > $T/asked; exit 1", "true", ", max_conflict_retries: 1");
    let body = |name: &str| format!("Change the line\n\n{}\nThe end of {name}", "why; ".repeat(2_000));
    for name in ["upper", "lower"] {
        let lines = queue.env.git(&["show", "main:lines.txt"]).replacen("5", name, 1);
        queue.branch(name, &[("lines.txt", &format!("{lines}\n"))]);
        queue.env.git(&["checkout", "-q", name]);
        queue.env.git(&["commit", "-q", "--amend", "-m", &body(name)]);
        queue.env.git(&["checkout", "-q", "main"]);
        queue.enqueue(name);
    }
    queue.process(5);
    let asked = queue.env.read("tmp/asked");
    for name in ["upper", "lower"] {
        assert!(asked.contains(&format!("The end of {name}")) && asked.contains(&format!("+{name}")), "{asked}");
    }
    assert_eq!(asked.matches("why;").count(), 4_000, "nothing is cut");
}

#[test]
fn what_passed_only_with_others_is_told_as_such() {
    let queue = Queue::with("merge: {test_command: 'test ! -e hard.txt || test -e soft.txt', slots: 1}\n");
    queue.queued("hard");
    queue.process(1);
    queue.queued("soft");
    queue.env.pleach(&["merge", "retry", "hard"]).expect(0);
    let (ran, _) = queue.processed(0);
    let why = "passed together with soft; without that its tests fail (exit 1)";
    assert_eq!((queue.why("hard")["why"].as_str(), queue.why("soft")["why"].as_str()), (Some(why), None), "{ran}");
    let told = ran.json_lines().into_iter().find(|event| event["data"]["why"] == why);
    assert_eq!(told.expect("it is told")["type"], "dev.orchestra.MergeComplete");
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

#[test]
fn the_queue_finds_its_agent_as_prompts_do() {
    let merge = "merge: {test_command: 'grep -q -i five lines.txt || grep -qx 5 lines.txt', slots: 1";
    let queue = Queue::with(&format!("{merge}, agent: careful}}\nagents: {{careful: {{runner: simulation}}}}\n"));
    conflicting(&queue);
    let env = &queue.env;
    env.log_in();
    let result =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done.", "session_id": "s"});
    let claude = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 9.8.7\ncat > /dev/null\n\
         {{ seq 4; echo 'FIVE and five'; seq 6 20; }} > lines.txt\necho '{result}'\n"
    );
    env.write_program("bin/claude", &claude);
    env.write_program("bin/codex", "#!/bin/sh\n");
    // Only what is installed here counts, not what this machine has.
    let path = format!("{}:/usr/bin:/bin", env.root().join("bin").display());
    let process = |exit: i32| {
        let ran = env.command(&["-y", "merge", "process"]).env("PATH", &path).output().expect("pleach can be started");
        env.finish(ran).expect(exit)
    };
    let asked = || (queue.state("lower"), queue.why("lower")["attempts"].clone());
    process(5);
    assert_eq!(asked(), ("escalated".into(), json!(0)), "nobody resolves a conflict by pretending");
    env.write("repo/pleach.yaml", format!("{merge}}}\nagents: {{claude: {{turns: stream}}}}\n"));
    env.pleach(&["merge", "retry", "lower"]).expect(0);
    process(5);
    assert_eq!(asked(), ("escalated".into(), json!(0)), "several are installed");
    std::fs::remove_file(env.root().join("bin/codex")).unwrap();
    env.pleach(&["merge", "retry", "lower"]).expect(0);
    process(0);
    assert!(queue.landed("lines.txt").unwrap().contains("FIVE and five"));
    assert_eq!(queue.why("lower")["tier"], "agent");
}
