//! Killed anywhere and run again, a tree of tasks comes to the same end: the same files, the same steps and attempts of
//! every task, nothing landed that was not approved, nothing twice, the user's checkout untouched and no process left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use engine::tree::progress;
use pleach_core::config::Environment;
use pleach_core::ids::BranchName;
use pleach_core::step::TreeName;
use regex::Regex;
use serde_json::{Value, json};

use crate::sessions::Gate;
use crate::support::{Random, TestEnv};

/// Works on a task or reviews it. What it does depends on nothing but what it is asked.
const AGENT: &str = r#"#!/bin/sh
asked=$(cat)
case $asked in
*"Review the changes for task "*)
    case $asked in
    *"+draft"*) echo "REJECTED: there is a draft left" ;;
    *) echo APPROVED ;;
    esac ;;
*"Implement task "*)
    id=${asked#*Implement task }; id=${id%%:*}
    told=0; rest=$asked
    while [ "$rest" != "${rest#*--- Previous }" ]; do rest=${rest#*--- Previous }; told=$((told + 1)); done
    case $id:$told in
    T02:0|T08:0|T11:*|T12:[012]) word="broken $told" ;;
    T04:0) word=draft ;;
    *) word=good ;;
    esac
    mkdir -p src
    case $id:$told in T12:0) echo "from the first budget" > src/T12.note ;; esac
    echo "$word" > "src/$id.txt"
    echo "I wrote $word." ;;
*) echo "nobody asked for anything" >&2; exit 1 ;;
esac
"#;

/// Tests the tasks it is given.
const CHECK: &str = r#"
for id; do
    case $(cat "src/$id.txt") in
    good|draft) echo "ok $id" ;;
    *) echo "FAILED $id"; exit 1 ;;
    esac
done
"#;

/// What the user has changed and not committed.
const DIRT: &str = " M README.md\n?? notes.txt";

/// Works everything but what has failed.
const ALL: &[&str] = &["-y", "gardener"];

/// Gives the task another budget that is complete in its second one.
const AGAIN: &[&str] = &["-y", "garden", "--task", "T12", "--retry-failed"];

/// Twelve tasks. Two phases with tests of their own, the second behind the first; T02 and T08 fail their test once, T04
/// is rejected once, T11 fails for good, T12 in its first budget.
fn tree() -> Value {
    let mut nodes = serde_json::Map::new();
    let mut node = |id: &str, parent: Option<&str>, children: &[&str], depends_on: &[&str]| {
        let (kind, tested) = if children.is_empty() { ("unit", vec![id]) } else { ("integration", children.to_vec()) };
        let test = json!({"type": kind, "command": format!("sh check.sh {}", tested.join(" "))});
        let name = format!("Write {id}");
        let fields = json!({"id": id, "name": name, "parent": parent, "children": children, "depends_on": depends_on,
                            "test_commands": [test]});
        nodes.insert(id.to_owned(), fields);
    };
    node("one", None, &["T01", "T02", "T03", "T04", "T05"], &[]);
    node("two", None, &["T06", "T07", "T08", "T09", "T10"], &["one"]);
    let first = [("T01", &[][..]), ("T02", &["T01"]), ("T03", &[]), ("T04", &["T03"]), ("T05", &["T02", "T04"])];
    let second = [("T06", &[][..]), ("T07", &[]), ("T08", &["T06"]), ("T09", &["T07", "T08"]), ("T10", &["T02"])];
    first.iter().for_each(|(id, depends_on)| node(id, Some("one"), &[], depends_on));
    second.iter().for_each(|(id, depends_on)| node(id, Some("two"), &[], depends_on));
    node("T11", None, &[], &[]);
    node("T12", None, &[], &[]);
    json!({"nodes": nodes})
}

/// A world with the tree in it, worked by this agent.
fn world_with(agent: &str, isolation: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    let program = env.write_program("agent.sh", agent);
    let agent = program.display();
    env.configure(&format!("agent: \"command:{agent}\"\ntree: {{max_retries: 3, isolation: {isolation}}}\n"));
    env.write("repo/task-tree.json", tree().to_string());
    env.write("repo/check.sh", CHECK);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Plan"]);
    // Dirty and untracked files of the user must come through as well.
    env.write("repo/README.md", "changed by the user\n");
    env.write("repo/notes.txt", "the user's own\n");
    env
}

fn world(isolation: &str) -> TestEnv {
    world_with(AGENT, isolation)
}

/// What a tree comes to, as far as it must be the same however often its run was killed.
#[derive(Debug, Clone, PartialEq)]
struct Ending {
    /// The files of the target; logs and reports without the time in their names, reports without what they say.
    files: Vec<String>,
    tasks: BTreeMap<String, Task>,
    /// The subjects of the target's commits, in their alphabetical order.
    commits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Task {
    status: &'static str,
    landed: bool,
    attempts: u32,
    in_budget: u32,
    /// The status of each step with its `Arborist-Retry`.
    steps: Vec<(String, Option<u32>)>,
}

impl Ending {
    fn of(env: &TestEnv) -> Self {
        let dated = Regex::new(r"_\d{8}T\d{6}(-\d+)?\.").expect("a valid pattern");
        let listed = env.git(&["ls-tree", "-r", "main"]);
        let mut files: Vec<String> = listed.lines().map(|line| dated.replace(line, "_[AT].").into_owned()).collect();
        for file in files.iter_mut().filter(|file| file.contains("\treports/")) {
            *file = file.split('\t').nth(1).expect("a name behind a tab").to_owned();
        }
        files.sort();
        let path = env.git(&["--exec-path"]);
        let home = env.root().join("home");
        let variables = [("PATH".to_owned(), path.into()), ("HOME".to_owned(), home.into_os_string())];
        let repo = git::discover(&env.repo_path(), &Environment::from_pairs(variables)).expect("the repository");
        let main = BranchName::new("main").expect("a name");
        let progress = progress::read(&repo, &main, &TreeName::File("task-tree.json".into()), "pleach/", None)
            .expect("the state of the tree");
        let task = |state: &pleach_core::progress::TaskState| Task {
            status: state.status.as_str(),
            landed: state.landed,
            attempts: state.attempts,
            in_budget: state.in_budget,
            steps: state.steps.iter().map(|found| (found.step.status(), found.step.retry)).collect(),
        };
        let tasks = progress.tasks().map(|(id, state)| (id.to_string(), task(state))).collect();
        let mut commits: Vec<String> = env.git(&["log", "--format=%s", "main"]).lines().map(str::to_owned).collect();
        commits.sort();
        Self { files, tasks, commits }
    }

    /// Nothing is complete that was not approved right before.
    #[track_caller]
    fn assert_approved(&self, after: &str) {
        for (id, task) in &self.tasks {
            let steps: Vec<&str> = task.steps.iter().map(|(status, _)| status.as_str()).collect();
            let approved = |at: usize| at > 0 && steps[at - 1] == "review-approved";
            let complete = steps.iter().enumerate().filter(|(_, status)| **status == "complete");
            assert!(complete.map(|(at, _)| at).all(approved), "{id} after {after}: {steps:?}");
        }
    }

    /// The steps of a task in short.
    fn steps(&self, task: &str) -> String {
        let word = |(status, retry): &(String, Option<u32>)| match retry {
            Some(retry) => format!("{status} {retry}"),
            None => status.clone(),
        };
        self.tasks[task].steps.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

/// The end every run must come to.
fn undisturbed(isolation: &str) -> Ending {
    let env = world(isolation);
    finish(&env, ALL);
    env.pleach(AGAIN).expect(0);
    check(&env, "undisturbed");
    Ending::of(&env)
}

static ALONE: LazyLock<Ending> = LazyLock::new(|| undisturbed("none"));
static BY_PHASE: LazyLock<Ending> = LazyLock::new(|| undisturbed("phase"));

/// Runs a command again until there is nothing more to do for it.
#[track_caller]
fn finish(env: &TestEnv, args: &[&str]) {
    for _ in 0..8 {
        let before = env.git(&["rev-parse", "main"]);
        let ran = env.pleach(args);
        // Tasks that were given up make it a failure.
        assert!(matches!(ran.code, 0 | 1), "{ran}");
        if env.git(&["rev-parse", "main"]) == before {
            return;
        }
    }
    panic!("{args:?} never ends");
}

/// Runs a command until it dies at a crash point. Runs that end before are followed by another.
#[track_caller]
fn die(env: &TestEnv, args: &[&str], point: &str) {
    for _ in 0..4 {
        let output = env.command(args).env("PLEACH_CRASH", point).output().expect("pleach starts");
        let died = output.status.signal().is_some();
        let ran = env.finish(output);
        assert!(died || matches!(ran.code, 0 | 1), "on the way to {point}: {ran}");
        check(env, point);
        if died {
            return;
        }
    }
    panic!("{args:?} never came to {point}");
}

/// What must hold at any time: nothing runs, the user's checkout is what it was but for what has landed, and what has
/// landed is approved.
#[track_caller]
fn check(env: &TestEnv, after: &str) {
    at_rest(env, after);
    Ending::of(env).assert_approved(after);
}

#[track_caller]
fn at_rest(env: &TestEnv, after: &str) {
    env.assert_no_process_left();
    assert_eq!(env.git(&["status", "--porcelain", "--untracked-files=all"]), DIRT, "after {after}");
    assert_eq!(env.git(&["symbolic-ref", "HEAD"]), "refs/heads/main", "after {after}");
    assert_eq!(env.read("repo/README.md"), "changed by the user\n", "after {after}");
    let mut grep = env.program("git", &env.repo_path());
    let bad = grep.args(["grep", "-E", "broken|draft", "main", "--", "src"]).output().expect("git starts");
    assert_eq!(String::from_utf8_lossy(&bad.stdout), "", "landed without being approved, after {after}");
}

/// Ends both stages and compares.
#[track_caller]
fn comes_to(env: &TestEnv, expected: &Ending, after: &str) {
    finish(env, ALL);
    finish(env, AGAIN);
    ends_as(env, expected, after);
}

#[track_caller]
fn ends_as(env: &TestEnv, expected: &Ending, after: &str) {
    at_rest(env, after);
    let ending = Ending::of(env);
    ending.assert_approved(after);
    for (id, task) in &expected.tasks {
        assert_eq!(ending.tasks.get(id), Some(task), "{id} after {after}");
    }
    assert_eq!(ending.tasks.len(), expected.tasks.len(), "after {after}");
    same(&ending.commits, &expected.commits, after);
    same(&ending.files, &expected.files, after);
    assert_eq!(env.git(&["fsck", "--strict", "--no-dangling"]), "", "after {after}");
}

/// Two sorted lists are the same, or the test fails and says in what they differ.
#[track_caller]
fn same(found: &[String], expected: &[String], after: &str) {
    let count = |list: &[String], item: &String| list.iter().filter(|other| *other == item).count();
    let only = |one: &[String], other: &[String]| {
        let more = one.iter().filter(|item| count(one, item) > count(other, item));
        more.cloned().collect::<Vec<_>>()
    };
    let (too_much, missing) = (only(found, expected), only(expected, found));
    assert!(too_much.is_empty() && missing.is_empty(), "after {after}: too much {too_much:#?}, missing {missing:#?}");
}

#[test]
fn the_tree_does_what_it_is_for() {
    let ending = &*ALONE;
    let good = "implement-pass 0, test-pass 0, review-approved 0, complete";
    assert_eq!(ending.steps("T01"), good);
    let flaky = "implement-pass 0, test-fail 0, implement-pass 1, test-pass 1, review-approved 1, complete";
    assert_eq!([ending.steps("T02"), ending.steps("T08")], [flaky, flaky]);
    let rejected = "implement-pass 0, test-pass 0, review-rejected 0, implement-pass 1, test-pass 1, \
                    review-approved 1, complete";
    assert_eq!(ending.steps("T04"), rejected);
    let failed = "implement-pass 0, test-fail 0, implement-pass 1, test-fail 1, implement-pass 2, test-fail 2, failed";
    assert_eq!(ending.steps("T11"), failed);
    let again = format!("{failed}, implement-pass 3, test-pass 3, review-approved 3, complete");
    assert_eq!(ending.steps("T12"), again);
    assert_eq!(["one", "two"].map(|gate| ending.steps(gate)), ["test-pass 0", "test-pass 0"]);
    // The new budget continued with the code of the old one; what failed for good is not there.
    assert!(ending.files.iter().any(|file| file.ends_with("src/T12.note")), "{:?}", ending.files);
    assert!(!ending.files.iter().any(|file| file.ends_with("src/T11.txt")), "{:?}", ending.files);
    for (id, task) in &ending.tasks {
        assert_eq!((task.status == "failed", task.landed), (id == "T11", true), "{id}: {task:?}");
    }
    let by_phase = &*BY_PHASE;
    assert_eq!(by_phase.tasks, ending.tasks);
    let merges = by_phase.commits.iter().filter(|subject| subject.starts_with("merge: "));
    assert_eq!(merges.collect::<Vec<_>>(), ["merge: one complete", "merge: two complete"]);
}

#[test]
fn every_kind_of_crash_point_is_survived() {
    let env = world("none");
    let points = [
        // Each dies where the run after the one before has reached.
        ("object-write", [70, 95]),
        ("ref-swap", [14, 11]),
        ("head-update", [6, 4]),
        ("index-update", [5, 7]),
        ("landing", [2, 2]),
    ];
    for (kind, [before, after]) in points {
        die(&env, ALL, &format!("{kind}:before:{before}"));
        die(&env, ALL, &format!("{kind}:after:{after}"));
    }
    finish(&env, ALL);
    for point in
        ["ref-swap:after:1", "ref-swap:before:2", "ref-swap:after:2", "index-update:before:1", "landing:after:1"]
    {
        die(&env, AGAIN, point);
    }
    comes_to(&env, &ALONE, "all of them");
}

#[test]
fn every_crash_point_is_survived_with_phase_branches() {
    let env = world("phase");
    for point in
        ["landing:after:1", "ref-swap:before:9", "landing:before:2", "ref-swap:after:17", "object-write:before:90"]
    {
        die(&env, ALL, point);
    }
    // The tests of the first phase, their landing on its branch, and its merge.
    while !env.git(&["log", "--format=%s", "--all"]).contains("task(main@one@test-pass)") {
        die(&env, ALL, "landing:after:1");
    }
    die(&env, ALL, "landing:before:1");
    die(&env, ALL, "landing:after:1");
    comes_to(&env, &BY_PHASE, "all of them");
}

/// One of a run that starts and one of a run that continues; the sweep has more.
#[test]
fn random_kills_of_a_tree_are_survived() {
    survive_kills(2);
}

fn survive_kills(all: usize) {
    let env = world("none");
    let trace = env.root().join("trace");
    let mut random = Random(0x7ee5);
    let mut kills = 0;
    while kills < all {
        let _ = fs::remove_file(&trace);
        let mut command = env.command(ALL);
        command.env("PLEACH_CRASH_TRACE", &trace).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("pleach starts");
        let length = random.below(7_000);
        while child.try_wait().expect("a child").is_none() {
            // The trace has a line for everything that is written: so the kills fall all over the run on a fast machine
            // and on a slow one.
            if fs::metadata(&trace).map_or(0, |trace| trace.len()) >= length {
                child.kill().expect("a child that can be killed");
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        kills += usize::from(child.wait().expect("a child").signal().is_some());
        check(&env, &format!("kill {kills}"));
    }
    comes_to(&env, &ALONE, "all kills");
}

#[test]
fn tasks_resume_from_branches_without_records_and_worktrees() {
    let env = world("none");
    let points = [
        // After the first step of a task was recorded, before its branch moved, and after.
        "ref-swap:after:4",
        "ref-swap:after:5",
        "ref-swap:before:9",
        // At the landing of a task.
        "landing:before:1",
        "landing:after:1",
        "ref-swap:after:10",
        "ref-swap:after:13",
        "object-write:after:120",
        "ref-swap:after:15",
        "landing:before:2",
    ];
    for (index, point) in points.into_iter().enumerate() {
        die(&env, ALL, point);
        let records = env.repo_path().join(".git/refs/pleach/sessions");
        fs::remove_dir_all(&records).expect("records");
        if index.is_multiple_of(2) {
            fs::remove_dir_all(env.root().join("state/pleach/worktrees")).expect("the working copy");
        }
    }
    comes_to(&env, &ALONE, "all of them");
}

#[test]
fn what_an_agent_had_half_done_is_kept() {
    let env = world("none");
    let gate = Gate::new(&env, "agent");
    let half = format!("    echo half > half.txt; {}; rm half.txt\n    mkdir -p src\n", gate.command());
    env.write("agent.sh", AGENT.replace("    mkdir -p src\n", &half));
    let mut run = env.spawn(ALL);
    let held = gate.reached(&mut run);
    run.kill(held);
    check(&env, "the kill");
    gate.stay_open();
    comes_to(&env, &ALONE, "the kill");
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    let halves = kept.lines().filter(|name| env.git(&["ls-tree", "-r", "--name-only", name]).contains("half.txt"));
    assert_eq!(halves.count(), 1, "{kept}");
}

/// A task that is complete and about to land, while the user commits what its test rejects. The agent fixes that in
/// its next attempt.
fn overtaken() -> TestEnv {
    let mend = "    mkdir -p src\n    [ $told = 0 ] || rm -f veto\n";
    let env = world_with(&AGENT.replace("    mkdir -p src\n", mend), "none");
    env.write("repo/check.sh", format!("[ ! -e veto ] || {{ echo FAILED veto; exit 1; }}\n{CHECK}"));
    env.git(&["commit", "--quiet", "-m", "Mind the veto", "check.sh"]);
    // The first landing is that of the run's start.
    die(&env, ONE, "landing:before:2");
    env.write("repo/veto", "no\n");
    env.git(&["add", "veto"]);
    env.git(&["commit", "--quiet", "-m", "Forbid it", "veto"]);
    env
}

const ONE: &[&str] = &["-y", "garden", "--task", "T01"];

#[test]
fn what_fails_where_it_is_to_land_never_lands() {
    let env = overtaken();
    env.pleach(ONE).expect(0);
    let expected = Ending::of(&env);
    let steps = "implement-pass 0, test-pass 0, review-approved 0, complete, test-fail 0, \
                 implement-pass 1, test-pass 1, review-approved 1, complete";
    assert_eq!(expected.steps("T01"), steps);
    assert!(!expected.files.iter().any(|file| file.ends_with("veto")), "{:?}", expected.files);
    // Killed after each of the writes from the failing test on. The first of a run may be work it found and keeps.
    let env = overtaken();
    for number in [1, 2, 2, 2, 2, 2, 3, 3, 3] {
        die(&env, ONE, &format!("ref-swap:after:{number}"));
        assert!(!env.git(&["ls-tree", "-r", "--name-only", "main"]).contains("src/"), "landed beside the veto");
    }
    env.pleach(ONE).expect(0);
    ends_as(&env, &expected, "all of them");
}

/// The tasks in an order their dependencies allow, each with the code its run ends with. The last of a phase brings the
/// phase's tests with it.
const TASKS: [(&str, i32); 13] = [
    ("T01", 0),
    ("T03", 0),
    ("T11", 1),
    ("T12", 1),
    ("T02", 0),
    ("T04", 0),
    ("T05", 0),
    ("T06", 0),
    ("T07", 0),
    ("T08", 0),
    ("T10", 0),
    ("T09", 0),
    ("T12", 0),
];

/// A world whose state can be restored.
struct Rewound {
    env: TestEnv,
}

impl Rewound {
    fn copy(&self, from: &str, to: &str) {
        for part in ["repo", "state"] {
            let (from, to) = (self.env.root().join(from).join(part), self.env.root().join(to).join(part));
            let _ = fs::remove_dir_all(&to);
            fs::create_dir_all(to.parent().expect("a directory above")).expect("a directory of the test's own");
            let copied = self.env.program("cp", self.env.root()).arg("-a").args([from, to]).status();
            assert!(copied.expect("cp starts").success());
        }
    }

    fn keep(&self) {
        self.copy("", "kept");
    }

    fn bring_back(&self) {
        self.copy("kept", "");
    }
}

/// What came of a part of a sweep.
#[derive(Default)]
struct Swept {
    survived: BTreeMap<String, usize>,
    not_reached: Vec<String>,
    failed: Vec<String>,
}

/// Works the tree task by task. Before each the state is kept; then the task is worked once for every `stride`th of its
/// crash points, dying there, and once more to its end, which must be that of the undisturbed run.
fn sweep_part(isolation: &str, part: usize, stride: usize) -> Swept {
    let mut swept = Swept::default();
    let world = Rewound { env: world(isolation) };
    let env = &world.env;
    for (index, (task, code)) in TASKS.into_iter().enumerate() {
        let mut args = vec!["-y", "garden", "--task", task];
        args.extend((index == TASKS.len() - 1).then_some("--retry-failed"));
        world.keep();
        let _ = fs::remove_file(env.root().join("trace"));
        let run = env.command(&args).env("PLEACH_CRASH_TRACE", env.root().join("trace")).output();
        env.finish(run.expect("pleach starts")).expect(code);
        let expected = Ending::of(env);
        let points = env.read("trace");
        let mut before = "";
        for (number, line) in (1..).zip(points.lines()) {
            let name = line.split(' ').nth(1).expect("a traced point");
            // Between two objects of one batch nothing happens: before the second is after the first.
            let is_new = !(name.starts_with("object-write:before") && before.starts_with("object-write:after"));
            before = name;
            if number / 2 % stride != part || !is_new {
                continue;
            }
            let kind = name.rsplit_once(':').expect("a traced point").0.to_owned();
            let point = format!("{isolation} {task} any:{number} ({name})");
            world.bring_back();
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let died = env.command(&args).env("PLEACH_CRASH", format!("any:{number}")).output();
                if died.expect("pleach starts").status.signal().is_none() {
                    return false;
                }
                at_rest(env, &point);
                env.pleach(&args).expect(code);
                ends_as(env, &expected, &point);
                true
            }));
            match tried {
                Ok(true) => *swept.survived.entry(kind).or_default() += 1,
                Ok(false) => swept.not_reached.push(point),
                Err(_) => {
                    println!("FAILED {point}");
                    swept.failed.push(point);
                }
            }
        }
        println!("{isolation} {task}: {} points, of which this part has one in {stride}", points.lines().count());
        world.bring_back();
        env.pleach(&args).expect(code);
    }
    swept
}

/// Dies at every point of the run, one after another, or at one in `SWEEP_EVERY`, and ten times anywhere. Run by `cargo
/// xtask crash-sweep tree`.
#[test]
#[ignore = "takes an hour: every crash point of a run over a tree"]
#[expect(clippy::disallowed_methods, reason = "the chore that runs the sweep says how much of it")]
fn sweep() {
    const PARTS: usize = 2;
    let every =
        std::env::var_os("SWEEP_EVERY").map_or(1, |every| every.to_string_lossy().parse().expect("a number of points"));
    let stride = PARTS * every;
    for isolation in ["none", "phase"] {
        let parts: Vec<_> =
            (0..PARTS).map(|part| std::thread::spawn(move || sweep_part(isolation, part, stride))).collect();
        let mut all = Swept::default();
        for part in parts {
            let swept = part.join().expect("a part of the sweep");
            swept.survived.into_iter().for_each(|(kind, count)| *all.survived.entry(kind).or_default() += count);
            all.not_reached.extend(swept.not_reached);
            all.failed.extend(swept.failed);
        }
        let (survived, missed) = (all.survived.values().sum::<usize>(), all.not_reached.len());
        let total = survived + missed + all.failed.len();
        println!("isolation {isolation}: survived {survived} of {total} points: {:?}", all.survived);
        println!("not reached: {:#?}\nfailed: {:#?}", all.not_reached, all.failed);
        assert!(all.failed.is_empty(), "{:#?}", all.failed);
        assert!(missed * 20 < total, "too many points were not reached");
    }
    survive_kills(10);
}
