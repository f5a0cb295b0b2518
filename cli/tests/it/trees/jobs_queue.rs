//! Several tasks of a tree at once land through the merge queue.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::garden::{APPROVES, Garden, Tree};

/// Waits until so many tasks are at work.
fn meets(count: usize) -> String {
    format!("touch $W/tmp/at-$task; until [ $(ls $W/tmp | grep -c '^at-') -ge {count} ]; do sleep 0.02; done")
}

/// A garden whose tasks are tested by a script.
pub(super) fn tested(tasks: &[&str], script: &str, merge: &str) -> Garden {
    let garden = Garden::new(&Tree::of(tasks));
    garden.configure(&format!("tree: {{test_command: 'sh check.sh'}}\nmerge: {{{merge}}}\n"));
    garden.commit("check.sh", script);
    garden
}

/// What the queue has of each task.
#[track_caller]
pub(super) fn entries(garden: &Garden) -> BTreeMap<String, Value> {
    let all = garden.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
    let entries = all["queues"][0]["entries"].as_array().cloned().unwrap_or_default();
    entries.into_iter().map(|entry| (entry["task"].as_str().expect("a task").to_owned(), entry)).collect()
}

#[track_caller]
pub(super) fn states(garden: &Garden) -> Vec<(String, String)> {
    let state = |entry: &Value| entry["state"].as_str().expect("a state").to_owned();
    entries(garden).iter().map(|(task, entry)| (task.clone(), state(entry))).collect()
}

pub(super) fn all_landed(tasks: &[&str]) -> Vec<(String, String)> {
    tasks.iter().map(|task| ((*task).to_owned(), "landed".to_owned())).collect()
}

/// The states an entry has been in, each once.
#[track_caller]
fn history(garden: &Garden, task: &str) -> BTreeSet<String> {
    let why = garden.env.pleach(&["merge", "why", task, "--json"]).expect(0).json();
    let states = why["history"].as_array().expect("a history").iter();
    states.map(|state| state["state"].as_str().expect("a state").to_owned()).collect()
}

const TASKS: [&str; 3] = ["T001", "T002", "T003"];

#[test]
fn tasks_of_a_tree_land_through_the_queue() {
    let garden = tested(&TASKS, "test -s README.md\n", "enabled: false, slots: 1");
    garden.agent(&format!("{}; echo $task > $task.txt", meets(3)), APPROVES);
    let ran = garden.gardener(&["--jobs", "3", "--json"]).expect(0);
    assert_eq!(states(&garden), all_landed(&TASKS));
    let told = ran.json_lines().into_iter().filter(|event| event["type"] == "dev.orchestra.MergeComplete");
    let told: BTreeSet<String> = told.map(|event| event["data"]["task"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, TASKS.map(str::to_owned).into());
    assert_eq!(garden.env.git(&["rev-list", "--merges", "--count", "main"]), "0", "the history is linear");
}

#[test]
fn a_task_that_lands_as_tested_is_not_tested_again() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let runs = garden.env.root().join("tmp/runs");
    garden.configure(&format!("tree: {{test_command: 'echo $task_id >> {}', jobs: 1}}\n", runs.display()));
    garden.gardener(&["--isolation", "task"]).expect(0);
    assert_eq!(garden.env.read("tmp/runs"), "T001\nT002\n");
    assert_eq!(states(&garden), all_landed(&["T001", "T002"]));
    assert_eq!(entries(&garden)["T001"]["verdict"]["is"], "pass");
}

#[test]
fn tasks_land_as_merges_where_history_has_them() {
    let garden = tested(&["T001", "T002", "T003: T001 T002"], "true\n", "history: merge, slots: 1");
    garden.agent(&format!("[ $task = T003 ] || {{ {}; }}; echo $task > $task.txt", meets(2)), APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(states(&garden), all_landed(&TASKS));
    assert_ne!(garden.env.git(&["rev-list", "--merges", "--count", "main"]), "0");
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(TASKS.map(|task| garden.times_asked(task, "implement")), [1, 1, 1], "nothing is left to do");
}

#[test]
fn red_on_the_merged_files_is_the_next_attempt() {
    let script = "test $(cat n-*.txt | wc -l) -le 3 || { echo too much; exit 1; }\n";
    let garden = tested(&["T001", "T002"], script, "max_conflict_retries: 0, slots: 1");
    let first = format!("{}; printf '1\\n2\\n' > n-$task.txt", meets(2));
    garden.agent(&format!("if grep -q 'too much' \"$prompt\"; then echo 1 > n-$task.txt; else {first}; fi"), APPROVES);
    let ran = garden.gardener(&["--jobs", "2"]).expect(0);
    let line = "Other work landed first, and the tests fail on both together: too much (exit 1)";
    assert!(ran.to_string().contains(line), "the line of the step has its reason: {ran}");
    assert_eq!(states(&garden), all_landed(&["T001", "T002"]));
    let back: Vec<&str> =
        ["T001", "T002"].into_iter().filter(|task| history(&garden, task).contains("repairing")).collect();
    let [back] = back[..] else { panic!("one of them has gone back: {back:?}") };
    let asked = garden.asked(back, "implement", 2);
    assert!(asked.contains("the tests fail on both together"), "{asked}");
    assert!(garden.told("main").contains(&format!("{back} test-fail")));
}

#[test]
fn a_conflict_within_a_line_is_merged_by_words() {
    let garden = tested(&["T001", "T002"], "grep -q 'one .* three .* five' words.txt\n", "slots: 1");
    garden.commit("words.txt", "one two three four five\n");
    let work = "case $task in T001) sed -i s/two/TWO/ words.txt;; *) sed -i s/four/FOUR/ words.txt;; esac";
    garden.agent(&format!("{}; {work}", meets(2)), APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(garden.file("main", "words.txt"), "one TWO three FOUR five");
    assert_eq!(["T001", "T002"].map(|task| garden.times_asked(task, "implement")), [1, 1], "nobody does it again");
    let tiers: BTreeSet<String> = entries(&garden).values().map(|entry| entry["tier"].to_string()).collect();
    assert!(tiers.contains("\"tokens\""), "{tiers:?}");
    let named = garden.env.git(&["log", "--format=%(trailers:key=Pleach-Tier,valueonly)", "main"]);
    assert_eq!(named.split_whitespace().collect::<Vec<_>>(), ["tokens"]);
}

#[test]
fn an_agent_resolves_what_tasks_have_in_conflict() {
    let garden = tested(&["T001", "T002"], "test ! -e same.txt || grep -q T00 same.txt\n", "slots: 1");
    let resolve = "grep -v '^[<|=>]' same.txt | sort -u > s; cat s > same.txt; rm s";
    garden
        .agent(&format!("if [ -z \"$task\" ]; then {resolve}; else {}; echo $task > same.txt; fi", meets(2)), APPROVES);
    let ran = garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(garden.file("main", "same.txt"), "T001\nT002", "{ran}");
    let tiers: BTreeSet<String> = entries(&garden).values().map(|entry| entry["tier"].to_string()).collect();
    assert!(tiers.contains("\"agent\""), "{tiers:?}");
}

#[test]
fn a_conflict_holds_up_no_other_task() {
    let tree = Tree::of(&["T001", "T002", "T003"]).phase("P", &["P1"]).leaf("T004: P1 T003", None);
    let garden = Garden::new(&tree.tests("P", &["integration: test -e P1.txt"]));
    garden.configure("tree: {test_command: 'test ! -e same.txt || grep -q T00 same.txt'}\nmerge: {slots: 1}\n");
    let wait = |until: &str| format!("for i in $(seq 3000); do if {until}; then break; fi; sleep 0.02; done; {until}");
    let steps =
        "git log --format=%s main > $W/tmp/steps; grep -q '@P@test-pass' $W/tmp/steps && git cat-file -e main:T004.txt";
    let resolve = format!(
        "cp $prompt $W/asked/resolve; touch $W/tmp/resolving; {} || exit 1; \
         grep -v '^[<|=>]' same.txt | sort -u > s; cat s > same.txt; rm s",
        wait(steps)
    );
    let work = format!(
        "case $task in '') {resolve};; T001|T002) touch $W/tmp/at-$task; {}; echo $task > same.txt;; \
         T003|P1) {}; echo $task > $task.txt;; *) echo $task > $task.txt;; esac",
        wait("[ $(ls $W/tmp | grep -c '^at-') -ge 2 ]"),
        wait("[ -e $W/tmp/resolving ]"),
    );
    garden.agent(&work, APPROVES);
    let ran = garden.gardener(&["--jobs", "4", "--json"]).expect(0);
    assert_eq!(garden.file("main", "same.txt"), "T001\nT002", "{ran}");
    let told = garden.told("main");
    assert!(!told.iter().any(|status| status.ends_with("-fail")), "{told:?}");
    let again = garden.gardener(&["--jobs", "4"]).expect(0);
    assert_eq!(garden.told("main"), told, "nothing is done again: {again}");
    let (late, first) = if told.last().unwrap().starts_with("T001") { ("T001", "T002") } else { ("T002", "T001") };
    let resolution = ran.json_lines().into_iter().find(|event| event["type"] == "dev.orchestra.MergeResolution");
    let resolution = resolution.expect("it is told").get("data").cloned().unwrap_or_default();
    let text = format!("resolving a conflict with {first} in same.txt");
    assert_eq!((&resolution["task"], &resolution["text"]), (&json!(late), &json!(text)));
    let merged = garden.newest("main", &format!("{late} merge-pass"));
    assert_eq!(merged.trailer("Pleach-Tier"), Some("agent"));
    let asked = garden.env.read("asked/resolve");
    assert!(asked.contains("Make T001 grow.") && asked.contains("Make T002 grow."), "the goals of both: {asked}");
}

#[test]
fn a_conflict_is_no_failed_test_but_a_merge_step() {
    let garden = tested(&["T001", "T002"], "true\n", "max_conflict_retries: 1, slots: 1");
    let work = format!("{}; if [ \"$n\" = 1 ]; then echo $task > same.txt; else echo $task > $task.txt; fi", meets(2));
    garden.agent(&format!("if [ -z \"$task\" ]; then exit 1; else {work}; fi"), APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    let told = garden.told("main");
    let failed: Vec<&String> = told.iter().filter(|status| status.ends_with("-fail")).collect();
    let [step] = failed[..] else { panic!("one has come back: {told:?}") };
    let late = step.strip_suffix(" merge-fail").expect("a step of its own");
    assert!(garden.newest("main", step).body.contains("in conflict: `same.txt`"), "{told:?}");
    let asked = garden.asked(late, "implement", 2);
    assert!(asked.contains("merge failure") && asked.contains("in conflict: `same.txt`"), "{asked}");
}

#[test]
fn a_conflict_left_after_the_last_attempt_is_escalated() {
    let garden = tested(&["T001", "T002"], "true\n", "max_conflict_retries: 0, slots: 1");
    garden.agent(&format!("{}; echo $task > same.txt", meets(2)), APPROVES);
    let ran = garden.gardener(&["--jobs", "2", "--max-retries", "1"]).expect(5);
    let states: BTreeSet<String> = states(&garden).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["escalated", "landed"].map(str::to_owned).into(), "{ran}");
    assert!(ran.stdout.contains("pleach merge why"), "{ran}");
    // The next run tries again, and may have it done on what is there now.
    garden.agent("echo $task >> same.txt", APPROVES);
    garden.gardener(&["--jobs", "2", "--max-retries", "2"]).expect(0);
    assert_eq!(garden.file("main", "same.txt").lines().count(), 2);
}

#[test]
fn without_auto_merge_tasks_of_a_tree_wait_for_approval() {
    let garden = tested(&["T001", "T002: T001"], "true\n", "auto_merge_clean: false, slots: 1");
    garden.gardener(&["--jobs", "2"]).expect(4);
    assert_eq!(states(&garden), [("T001".to_owned(), "candidate".to_owned())]);
    assert_eq!(garden.completed(), Vec::<String>::new());
    garden.env.pleach(&["merge", "approve", "T001"]).expect(0);
    garden.gardener(&["--jobs", "2"]).expect(4);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_skipped_task_leaves_the_queue() {
    let garden = tested(&["T001", "T002"], "true\n", "auto_merge_clean: false, slots: 1");
    garden.gardener(&["--jobs", "2"]).expect(4);
    garden.env.pleach(&["skip", "T001"]).expect(0);
    garden.env.pleach(&["merge", "approve", "T002"]).expect(0);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(
        (entries(&garden)["T001"]["state"].clone(), garden.files("main").contains(&"T001.txt".into())),
        (json!("cancelled"), false)
    );
}

#[test]
fn a_fresh_run_lands_nothing_of_the_one_before() {
    let garden = tested(&["T001"], "true\n", "auto_merge_clean: false, slots: 1");
    garden.gardener(&["--jobs", "2"]).expect(4);
    garden.env.pleach(&["merge", "approve", "T001"]).expect(0);
    garden.configure("tree: {test_command: 'sh check.sh'}\n");
    garden.agent("echo anew > $task.txt", APPROVES);
    garden.gardener(&["--jobs", "2", "--fresh"]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "anew");
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_task_an_agent_tests_lands_by_its_run() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let dot = r#"digraph tested {
    start [shape=Mdiamond]; done [shape=Msquare]
    implement [step=implement]
    test [step=test, write=false, prompt="Now test task $task_id: does it run?"]
    start -> implement -> test -> done
}
"#;
    garden.commit("tested.dot", dot);
    garden.agent(
        &format!("[ $PLEACH_NODE = test ] || {{ {}; echo $task > $task.txt; }}; echo PASSED", meets(2)),
        APPROVES,
    );
    garden.gardener(&["--jobs", "2", "--pipeline", "tested.dot"]).expect(0);
    assert_eq!(garden.completed().into_iter().collect::<BTreeSet<_>>(), ["T001", "T002"].map(str::to_owned).into());
    assert_eq!(garden.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json()["queues"], json!([]));
}

#[test]
fn killed_while_the_queue_lands_each_task_lands_once() {
    for point in ["landing:before:2", "landing:after:2", "landing:after:3", "ref-swap:after:22", "ref-swap:before:30"] {
        // Two may land at once, and the third after them: there are at least three landings, that of the start included.
        let garden = tested(&["T001", "T002", "T003: T001 T002"], "test -s README.md\n", "slots: 1");
        garden.agent(&format!("[ $task = T003 ] || {{ {}; }}; echo $task > $task.txt", meets(2)), APPROVES);
        let crash = garden.env.command(&["-y", "gardener", "--jobs", "3"]).env("PLEACH_CRASH", point).output();
        assert!(!crash.expect("pleach starts").status.success(), "the run never came to {point}");
        garden.env.assert_no_process_left();
        garden.gardener(&["--jobs", "3"]).expect(0);
        assert_eq!(states(&garden), all_landed(&TASKS), "after dying at {point}");
        let mut completed = garden.completed();
        completed.sort();
        assert_eq!(completed, TASKS, "after dying at {point}");
        assert_eq!(garden.env.git(&["status", "--porcelain"]), "", "after dying at {point}");
    }
}

#[test]
fn a_target_that_is_red_ends_a_run_with_1() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {test_command: 'true'}\nmerge: {test_command: 'test ! -e broken.txt', slots: 1}\n");
    garden.commit("broken.txt", "broken");
    let ran = garden.gardener(&["--jobs", "2", "--json"]).expect(1);
    let end = ran.json_lines().pop().expect("an end");
    assert_eq!((&end["ended"], &end["code"]), (&json!("refused"), &json!("target-red")), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1, "no other attempt would help");
    garden.env.git(&["rm", "-q", "broken.txt"]);
    garden.env.git(&["commit", "-qm", "Repair"]);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!((garden.completed(), garden.times_asked("T001", "implement")), (vec!["T001".to_owned()], 1));
}

#[test]
fn a_red_target_is_said_before_a_tree_is_worked() {
    let garden = tested(&["T001"], "test ! -e broken.txt\n", "slots: 1, test_command: 'sh check.sh'");
    garden.commit("broken.txt", "broken");
    garden.env.git(&["branch", "topic"]);
    garden.env.git(&["switch", "-q", "topic"]);
    garden.commit("topic.txt", "1");
    garden.env.git(&["switch", "-q", "main"]);
    garden.env.pleach(&["merge", "enqueue", "topic"]).expect(0);
    garden.env.pleach(&["-y", "merge", "process"]).expect(1).does_not_warn("target-red");
    garden.agent("rm broken.txt; echo 'exit 0' > check.sh", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    ran.warns_once("target-red").naming("`sh check.sh` already fails on `main` (exit 1)");
    ran.warns_once("tests-edited").naming("T001 has changed `check.sh`, which its tests are started from");
    garden.gardener(&[]).expect(0).does_not_warn("target-red");
}

#[test]
fn work_begun_on_what_was_taken_back_lands_alone() {
    let garden = tested(&["T001", "T002"], "true\n", "history: merge, auto_merge_clean: false");
    let begun = garden.env.git(&["rev-parse", "main"]);
    garden.garden(&["--task", "T001"]).expect(0);
    garden.gardener(&["--jobs", "2"]).expect(4);
    garden.env.git(&["reset", "--quiet", "--hard", begun.trim()]);
    garden.env.pleach(&["merge", "approve", "T002"]).expect(0);
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(garden.completed(), ["T002"]);
    let files = garden.files("main");
    assert!(files.contains(&"T002.txt".to_owned()) && !files.contains(&"T001.txt".to_owned()), "{files:?}");
}
