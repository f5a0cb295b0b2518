//! Landing: the target moves over a task's steps, whatever its user does meanwhile.

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::{Gate, Held, Running};

/// A garden with one task whose agent waits, and a run over it that has reached that place.
struct Waiting<'g> {
    garden: &'g Garden,
    run: Running<'g>,
    gate: Gate,
    held: Held,
}

impl<'g> Waiting<'g> {
    fn new(garden: &'g Garden, implement: &str) -> Self {
        let gate = Gate::new(&garden.env, "agent");
        garden.agent(&format!("{implement}; {}", gate.command()), APPROVES);
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        Self { garden, run, gate, held }
    }

    fn go_on(self) -> crate::support::Ran {
        self.gate.open(self.held);
        let ran = self.run.end();
        self.garden.assert_in_order();
        ran
    }
}

#[test]
fn a_dirty_file_not_in_the_way_stays() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/README.md", "my own words\n");
    garden.env.write("repo/untracked", "mine\n");
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("dirty-files").naming("`README.md`");
    assert_eq!(garden.env.read("repo/README.md"), "my own words\n");
    assert_eq!(garden.env.read("repo/T001.txt"), "T001 1\n");
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn staged_and_submodule_changes_are_named() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let env = &garden.env;
    let library = env.root().join("library");
    env.git(&["clone", "--quiet", ".", library.to_str().unwrap()]);
    for name in ["clean", "dirty"] {
        let allow = ["-c", "protocol.file.allow=always"];
        env.git(&[&allow[..], &["submodule", "--quiet", "add", library.to_str().unwrap(), name]].concat());
    }
    env.git(&["commit", "--quiet", "-m", "submodules"]);
    env.write("repo/dirty/README.md", "my own words\n");
    let words = env.read("repo/README.md");
    env.write("repo/README.md", "staged\n");
    env.write("repo/gone", "staged\n");
    env.git(&["add", "README.md", "gone"]);
    env.write("repo/README.md", &words);
    std::fs::remove_file(env.root().join("repo/gone")).unwrap();
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("dirty-files").naming("`README.md`").naming("`dirty`").naming("`gone`").not_naming("clean");
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "MM README.md\n M dirty\nAD gone");
}

#[test]
fn a_blocked_landing_keeps_its_work_and_lands_later() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.write("repo/T001.txt", "mine\n");
    let ran = garden.gardener(&[]).expect(5);
    assert_eq!(ran.refused(), ("held", "T001"), "{ran}");
    assert!(ran.stdout.contains("`pleach/tasks/main/T001`") && ran.stdout.contains("T001.txt"), "{ran}");
    assert_eq!(garden.env.read("repo/T001.txt"), "mine\n");
    assert_eq!(garden.told("main"), [""; 0], "nothing landed");
    assert_eq!(garden.told("pleach/tasks/main/T001").last().unwrap(), "T001 complete");
    assert_eq!(garden.times_asked("T002", "implement"), 0);
    let ran = garden.gardener(&[]).expect(5);
    assert_eq!(ran.tasks_done(), (0, 2), "what waits to land is not done: {ran}");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.tasks_done() == (0, 2) && status.stdout.contains("1 waiting to land"), "{status}");
    assert_eq!(garden.times_asked("T002", "implement"), 0, "nothing starts before it has landed");
    let ran = garden.env.pleach(&["-y", "--json", "gardener"]).expect(5);
    let last = ran.json_lines().pop().expect("a line");
    let told = (&last["ended"], &last["finished"], &last["code"]);
    assert_eq!(told, (&"refused".into(), &true.into(), &"held".into()), "{last}");
    std::fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "what is done is not done again");
    assert_eq!(garden.env.read("repo/T001.txt"), "T001 1\n");
}

#[test]
fn an_interrupted_landing_names_its_work_and_continues() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/.git/info/attributes", "T001.txt filter=broken\n");
    let smudge = "case $PWD in */repo) exit 1;; *) cat;; esac";
    garden.env.git(&["config", "filter.broken.smudge", smudge]);
    garden.env.git(&["config", "filter.broken.required", "true"]);
    garden.agent(&format!("{WRITES}; echo more >> README.md"), APPROVES);
    let ran = garden.env.pleach(&["-y", "gardener"]).expect(7);
    let error = ran.fails_with("git-interrupted").naming("smudge filter").naming("`pleach/tasks/main/T001`");
    error.naming("may be incomplete: `README.md`").not_naming("--no-overwrite-ignore");
    garden.env.git(&["config", "--remove-section", "filter.broken"]);
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "what is done is not done again");
}

/// The beginning of what lands may be the user's own, so nobody advises to undo it.
#[test]
fn a_file_resembling_what_lands_still_belongs_to_users() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(&format!("{WRITES}; echo more >> README.md"), APPROVES);
    garden.env.write("repo/README.md", "");
    let ran = garden.gardener(&[]).expect(5);
    assert!(!format!("{ran}").contains("incomplete"), "{ran}");
    assert_eq!(garden.env.read("repo/README.md"), "");
}

/// A garden where git waits at a gate while it writes a file of a landing, and says something after it.
fn slow_to_land(gate: &str) -> (Garden, Gate) {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, gate);
    garden.env.write("repo/.git/info/attributes", "T001.txt filter=slow\n");
    let smudge = format!("case $PWD in */repo) {}; echo words >&2;; esac; cat", gate.command());
    garden.env.git(&["config", "filter.slow.smudge", &smudge]);
    garden.env.git(&["config", "filter.slow.clean", "cat"]);
    garden.env.git(&["config", "filter.slow.required", "true"]);
    garden.agent(&format!("{WRITES}; echo more >> README.md; echo last > last"), APPROVES);
    (garden, gate)
}

#[test]
fn a_landing_finishes_even_when_pleach_is_killed() {
    let (garden, gate) = slow_to_land("alone");
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.signal("KILL");
    run.end().expect(137);
    gate.open(held);
    garden.env.assert_no_process_left();
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "", "nothing is half written");
    assert_eq!(garden.told("main").last().unwrap(), "T001 complete");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn the_next_run_waits_for_a_killed_runs_landing() {
    let (garden, gate) = slow_to_land("beside");
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.signal("KILL");
    run.end().expect(137);
    let mut next = garden.env.spawn(&["-y", "gardener"]);
    next.wait_for("T001 Grow T001 resumes");
    assert!(gate.held().is_some(), "the first one's git is still at it");
    gate.open(held);
    let ran = next.end().expect(0);
    assert!(ran.landed().contains(&("T001", "main")), "{ran}");
    garden.assert_in_order();
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn no_number_of_interrupts_breaks_a_landing() {
    let (garden, gate) = slow_to_land("interrupted");
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    run.wait_for("letting git finish writing");
    run.interrupt();
    gate.open(held);
    let ran = run.end().expect(3);
    assert_eq!((ran.landed(), ran.ended()), (vec![("T001", "main")], ("paused", "")), "{ran}");
    garden.assert_in_order();
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_landing_git_cannot_start_names_its_work() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    // As in a checkout nobody may write to, which root may.
    garden.env.write("repo/.git/info/attributes", "T001.txt filter=broken\n");
    garden.env.git(&["config", "filter.broken.smudge", "case $PWD in */repo) exit 1;; *) cat;; esac"]);
    garden.env.git(&["config", "filter.broken.required", "true"]);
    garden.configure("tree: {commit_logs: false}\n");
    let ran = garden.env.pleach(&["-y", "gardener"]).expect(7);
    ran.fails_with("git-interrupted").naming("`main`").naming("`pleach/tasks/main/T001`");
    assert!(!ran.stderr.contains("--no-overwrite-ignore"), "{ran}");
    garden.env.git(&["config", "--remove-section", "filter.broken"]);
    garden.gardener(&[]).expect(0);
    assert_eq!((garden.completed(), garden.times_asked("T001", "implement")), (vec!["T001".to_owned()], 1));
}

#[test]
fn work_that_the_user_takes_by_hand_has_landed() {
    for merge in [&["--ff-only"][..], &["--no-ff", "-m", "Take it"]] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.env.write("repo/T001.txt", "mine\n");
        garden.gardener(&[]).expect(5);
        let session = garden.env.session();
        std::fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
        garden.env.git(&[&["merge", "--quiet"], merge, &["pleach/tasks/main/T001"]].concat());
        let status = garden.env.pleach(&["status"]).expect(0);
        assert!(status.tasks_done() == (1, 2) && !status.stdout.contains("waits to land"), "{status}");
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.times_asked("T001", "implement"), 1, "what is done is not done again");
        let status = garden.env.pleach(&["status"]).expect(0);
        assert!(!status.stdout.contains("waits to land"), "{status}");
        garden.env.pleach(&["rm", &session]).expect(0);
    }
}

#[test]
fn a_pause_during_landing_tests_ends_the_run_after() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let (first, again) = (Gate::new(&garden.env, "first"), Gate::new(&garden.env, "again"));
    let test =
        format!("test -e \"$HOME/tested\" && {{ {}; }}; {}; touch \"$HOME/tested\"", again.command(), first.command());
    let mut run = garden.env.spawn(&["-y", "gardener", "--test-command", &test]);
    let held = first.reached(&mut run);
    garden.commit("mine", "by the user\n");
    first.open(held);
    let held = again.reached(&mut run);
    let mut pausing = garden.env.spawn(&["pause", &garden.env.session()]);
    pausing.wait_for("pausing after the turn in flight");
    run.wait_for("paused with `pleach pause`");
    again.open(held);
    pausing.end();
    let ran = run.end().expect(3);
    ran.warns("rebuilt-green");
    assert!(ran.landed() == [("T001", "main")] && ran.begun() == ["T001"] && ran.ended().0 == "paused", "{ran}");
    garden.gardener(&[]).expect(0);
}

#[test]
fn work_is_rebuilt_on_what_the_user_committed_meanwhile() {
    let test = "unit: ls; echo ran >> \"$HOME/ran\"";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let waiting = Waiting::new(&garden, WRITES);
    garden.commit("mine", "by the user\n");
    let mine = garden.env.git(&["rev-parse", "HEAD"]);
    let ran = waiting.go_on().expect(0);
    ran.warns("rebuilt-green");
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "mine", "task-tree.json"]);
    assert_eq!(garden.env.git(&["rev-list", "--merges", "main"]), "", "history stays linear");
    let parents = garden.env.git(&["rev-parse", "main~4"]);
    assert_eq!(parents, mine, "the four steps follow the user's commit");
    assert_eq!(garden.env.read("home/ran"), "ran\nran\n", "and were tested there");
    assert_eq!(garden.told("main").len(), 4);
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "copies of steps count once: {ran}");
}

#[test]
fn changes_by_a_landing_test_are_reported() {
    // Only with the user's commit there is something to write over.
    let test = "unit: test ! -e mine || echo more >> mine";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let waiting = Waiting::new(&garden, WRITES);
    garden.commit("mine", "by the user\n");
    let ran = waiting.go_on().expect(0);
    ran.warns("read-only-undone").naming("`mine`");
    assert_eq!(garden.file("main", "mine"), "by the user");
}

/// A garden in which an agent tests the one task, and its user commits something before it is tested for the first time.
fn tested_by_an_agent(dot: &str, tests: &str) -> (Garden, Gate) {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("agents.dot", dot);
    let gate = Gate::new(&garden.env, "agent");
    let implement = format!("test $n = 1 && echo 1 > one || echo 1 > mended; {}", gate.command());
    garden.agent(&format!("if test $PLEACH_NODE = test; then {tests}; else {implement}; fi"), APPROVES);
    (garden, gate)
}

/// A run over it, in which the target has moved.
fn run_over<'g>((garden, gate): &'g (Garden, Gate)) -> Running<'g> {
    let mut run = garden.env.spawn(&["-y", "gardener", "--pipeline", "agents.dot"]);
    let held = gate.reached(&mut run);
    garden.commit("mine", "by the user\n");
    gate.open(held);
    run
}

const TESTED_BY_AN_AGENT: &str = r#"digraph a {
    start [shape=Mdiamond]; done [shape=Msquare]
    implement [step=implement]
    test [step=test, write=false, prompt="Now test task $task_id: does it run?"]
    start -> implement -> test -> done
}"#;

#[test]
fn agent_tested_work_is_tested_again_on_the_tip() {
    let whole = ["T001 implement-pass", "T001 test-pass", "T001 complete"];
    let red = ["T001 implement-pass", "T001 test-fail"];
    for (tests, told, attempts) in [
        ("echo tested; ls", whole.to_vec(), 1),
        ("echo tested; test ! -e mine || test -e mended", [&red[..], &whole].concat(), 2),
    ] {
        let world = tested_by_an_agent(TESTED_BY_AN_AGENT, tests);
        let (ran, garden) = (run_over(&world).end().expect(0), &world.0);
        ran.warns("rebuilt-retested").naming("T001").naming("`main`");
        assert_eq!(garden.told("main"), told);
        garden.assert_in_order();
        let complete = garden.newest("main", "T001 complete");
        assert!(complete.body.contains(&format!("Completed after {attempts} attempt(s)")), "{}", complete.body);
        assert_eq!(complete.trailer("Pleach-Tested"), None);
        assert!(garden.asked("T001", "test", 2).contains("Now test task T001: does it run?"));
        assert!(garden.files("main").contains(&"mine".to_owned()));
        let kept = garden.refs("refs/pleach/keep/");
        assert_eq!(garden.told(&kept[0]), whole, "the branch was kept before it was built anew");
        let status = garden.env.pleach(&["status"]).expect(0);
        assert_eq!(status.tasks_done(), (1, 1), "{status}");
    }
}

/// Which way the pipeline takes after a step may depend on what nobody knows any more who starts there.
#[test]
fn work_with_answer_dependent_tests_is_redone_on_the_tip() {
    for ways in [
        "implement -> test [condition=\"context.task_id=T001\"]; implement -> done [condition=\"context.task_id!=T001\"]",
        "implement -> done [label=\"easy\"]; implement -> test [label=\"hard\"]",
    ] {
        let dot =
            TESTED_BY_AN_AGENT.replace("start -> implement -> test", &format!("start -> implement; {ways}; test"));
        let says = "printf '{\"outcome\": \"success\", \"preferred_label\": \"hard\"}' > \"$PLEACH_STATUS_FILE\"";
        let world = tested_by_an_agent(&dot, "test ! -e mine || test -e mended");
        let garden = &world.0;
        let agent = garden.env.read("agent.sh");
        garden.env.write(
            "agent.sh",
            agent.replace("test $n = 1 && echo 1 > one", &format!("{says}; test $n = 1 && echo 1 > one")),
        );
        let ran = run_over(&world).end().expect(0);
        assert_eq!(garden.told("main").last().map(String::as_str), Some("T001 complete"), "{ran}");
        assert!(garden.files("main").contains(&"mended".to_owned()), "{ways}: {ran}");
        assert_eq!(garden.times_asked("T001", "implement"), 2, "{ways}: {ran}");
        assert_eq!(garden.newest("main", "T001 complete").trailer("Pleach-Tested"), None, "{ways}: {ran}");
    }
}

#[test]
fn killed_during_agent_tests_a_task_is_still_tested() {
    for loses_record in [false, true] {
        let world = tested_by_an_agent(TESTED_BY_AN_AGENT, "if test $n = 2; then . $W/wait; fi; echo tested");
        let garden = &world.0;
        let gate = Gate::new(&garden.env, "tests");
        garden.env.write("wait", gate.command());
        let mut run = run_over(&world);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        for name in garden.refs("refs/pleach/sessions/").iter().filter(|_| loses_record) {
            garden.env.git(&["update-ref", "-d", name]);
        }
        garden.gardener(&["--pipeline", "agents.dot"]).expect(0);
        assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 test-pass", "T001 complete"]);
        assert_eq!(garden.times_asked("T001", "test"), 3, "{loses_record}");
        assert_eq!(garden.times_asked("T001", "implement"), 1, "{loses_record}");
    }
}

#[test]
fn writes_after_agent_tests_are_redone_on_the_tip() {
    let dot = TESTED_BY_AN_AGENT.replace(
        "start -> implement -> test -> done",
        "polish [shape=parallelogram, step=polish, tool_command=\"echo 1 >> polished\"]\n\
         start -> implement -> test -> polish -> done",
    );
    let world = tested_by_an_agent(&dot, "echo tested");
    let (ran, garden) = (run_over(&world).end().expect(0), &world.0);
    ran.warns("rebuilt-untested").naming("`main`");
    let once = ["T001 implement-pass", "T001 test-pass", "T001 polish-pass", "T001 complete"];
    assert_eq!(garden.told("main"), [&once[..], &["T001 test-fail"], &once].concat());
}

#[test]
fn work_that_breaks_on_the_new_tip_gets_another_attempt() {
    let test = "unit: test ! -e mine || test -e mended";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("test $n = 1 && echo 1 > one || echo 1 > mended; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.commit("mine", "by the user\n");
    gate.open(held);
    run.end().expect(0);
    garden.assert_in_order();
    let told = garden.told("main");
    assert_eq!(
        told,
        [
            "T001 implement-pass",
            "T001 test-pass",
            "T001 review-approved",
            "T001 complete",
            "T001 test-fail",
            "T001 implement-pass",
            "T001 test-pass",
            "T001 review-approved",
            "T001 complete"
        ]
    );
    let retries: Vec<String> =
        garden.steps("main").iter().filter_map(|step| step.trailer("Arborist-Retry").map(str::to_owned)).collect();
    assert_eq!(retries, ["0", "0", "0", "0", "1", "1", "1"]);
    assert_eq!(garden.files("main"), ["README.md", "mended", "mine", "one", "task-tree.json"]);
    assert!(garden.asked("T001", "implement", 2).contains("--- Previous test failure ---"));
    assert!(!garden.refs("refs/pleach/keep/").is_empty(), "the branch was kept before it was built anew");
}

#[test]
fn work_without_its_tests_does_not_land_untested() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/T001.txt", "mine\n");
    let given = ["--test-command", "test ! -e bad"];
    garden.gardener(&given).expect(5);
    std::fs::remove_file(garden.env.repo_path().join("T001.txt")).unwrap();
    garden.commit("bad", "\n");
    let ran = garden.gardener(&[]).expect(5);
    assert_eq!(ran.refused(), ("no-tests", "T001"), "{ran}");
    assert_eq!(garden.told("main"), [""; 0]);
    garden.env.git(&["rm", "--quiet", "bad"]);
    garden.env.git(&["commit", "--quiet", "--message", "good"]);
    garden.gardener(&given).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn work_that_conflicts_waits_on_its_branch() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let waiting = Waiting::new(&garden, "echo agent > README.md");
    garden.commit("README.md", "user\n");
    let ran = waiting.go_on().expect(5);
    assert!(ran.stdout.contains("README.md") && ran.stdout.contains("pleach/tasks/main/T001"), "{ran}");
    for way in ["`git switch pleach/tasks/main/T001`, `git merge main`", "`git switch main`", "`pleach reset T001 "] {
        assert!(ran.stdout.contains(way), "{way}: {ran}");
    }
    assert_eq!(garden.file("main", "README.md"), "user");
    assert_eq!(garden.file("pleach/tasks/main/T001", "README.md"), "agent");
    assert_eq!(garden.told("main"), [""; 0]);
    garden.gardener(&[]).expect(5);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    assert_eq!(garden.times_asked("T002", "implement"), 0);
}

#[test]
fn a_conflict_merged_by_hand_lands() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let waiting = Waiting::new(&garden, "echo agent > README.md");
    garden.commit("README.md", "user\n");
    waiting.go_on().expect(5);
    let side = garden.env.root().join("side");
    let place = side.to_str().unwrap();
    garden.env.git(&["worktree", "add", "--quiet", place, "pleach/tasks/main/T001"]);
    garden.env.git_in(&side, &["merge", "--quiet", "-s", "ours", "-m", "Merge by hand", "main"]);
    garden.env.git(&["worktree", "remove", place]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "README.md"), "agent");
    assert_eq!(garden.told("main").last().unwrap(), "T001 complete");
    assert!(garden.asked("T001", "review", 2).contains("-user"), "what the merge has undone is approved");
}

#[test]
fn what_was_merged_by_hand_is_tested_before_it_lands() {
    let test = "unit: grep -q agent README.md; echo ran >> \"$HOME/ran\"; ! grep -q broken README.md";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let waiting = Waiting::new(&garden, "echo \"agent $n\" > README.md");
    garden.commit("README.md", "user\n");
    waiting.go_on().expect(5);
    let side = garden.env.root().join("side");
    let place = side.to_str().unwrap();
    garden.env.git(&["worktree", "add", "--quiet", place, "pleach/tasks/main/T001"]);
    garden.env.git_in(&side, &["merge", "--quiet", "-s", "ours", "--no-commit", "main"]);
    garden.env.write("side/README.md", "broken\n");
    garden.env.git_in(&side, &["commit", "--quiet", "-am", "Merge by hand"]);
    garden.env.git(&["worktree", "remove", place]);
    garden.gardener(&[]).expect(0);
    let told = garden.told("main");
    assert_eq!(told[3..5], ["T001 complete", "T001 test-fail"], "{told:?}");
    assert_eq!(told.last().unwrap(), "T001 complete");
    assert_eq!(garden.file("main", "README.md"), "agent 2");
}

#[test]
fn a_task_in_conflict_can_be_reset_and_done_again() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let waiting = Waiting::new(&garden, "echo agent > README.md");
    garden.commit("README.md", "user\n");
    waiting.go_on().expect(5);
    let message = "task(main@T001@reset): reset \"Grow T001\"\n\nArborist-Step: reset\nPleach-Tree: task-tree.json\n";
    let message = garden.env.write("tmp/reset", message);
    let mut reset = garden.env.program("git", &garden.env.repo_path());
    reset.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    let done = reset.args(["commit", "-q", "--allow-empty", "-F"]).arg(message).status().unwrap();
    assert!(done.success());
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "README.md"), "agent");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert!(!garden.refs("refs/pleach/keep/").is_empty(), "the first work is kept");
}

#[test]
fn a_target_nobody_has_checked_out_still_gets_work() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.git(&["switch", "--quiet", "-c", "elsewhere"]);
    waiting.go_on().expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.env.git(&["branch", "--show-current"]), "elsewhere");
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    assert!(!garden.env.repo_path().join("T001.txt").exists(), "the checkout is somebody else's");
}

#[test]
fn a_deleted_target_leaves_the_work_on_its_branch() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.git(&["switch", "--quiet", "-c", "elsewhere"]);
    let tip = garden.env.git(&["rev-parse", "main"]);
    garden.env.git(&["branch", "--quiet", "-D", "main"]);
    let ran = waiting.go_on().expect(5);
    for advice in [format!("`git branch main {tip}`"), "`git switch main`".to_owned()] {
        assert!(ran.stdout.contains(&advice), "{advice}: {ran}");
    }
    assert_eq!(garden.told("pleach/tasks/main/T001").last().unwrap(), "T001 complete");
    garden.env.git(&["branch", "main", &tip]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_locked_index_is_waited_for_then_reported() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.be_impatient();
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.write("repo/.git/index.lock", "");
    let ran = waiting.go_on().expect(5);
    assert!(ran.stdout.contains("index.lock"), "{ran}");
    std::fs::remove_file(garden.env.root().join("repo/.git/index.lock")).unwrap();
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_stale_lock_on_all_refs_is_named() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let lock = garden.env.write("repo/.git/packed-refs.lock", "");
    let ran = garden.gardener(&[]).expect(7);
    ran.fails_with("git-locked").naming(format!("`{}`", lock.display()));
    std::fs::remove_file(lock).unwrap();
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_merge_under_way_in_the_checkout_is_not_disturbed() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.be_impatient();
    garden.env.git(&["branch", "other"]);
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.write("repo/.git/MERGE_HEAD", garden.env.git(&["rev-parse", "other"]) + "\n");
    let ran = waiting.go_on().expect(5);
    assert!(ran.stdout.contains("merge"), "{ran}");
    assert!(garden.env.repo_path().join(".git/MERGE_HEAD").exists());
    std::fs::remove_file(garden.env.root().join("repo/.git/MERGE_HEAD")).unwrap();
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_blocked_start_is_reported_without_offering_work() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.be_impatient();
    for (file, named) in [("index.lock", "index.lock"), ("MERGE_HEAD", "a merge")] {
        let path = garden.env.write(format!("repo/.git/{file}"), garden.env.git(&["rev-parse", "main"]) + "\n");
        let ran = garden.env.pleach(&["-y", "gardener"]).expect(5);
        // There is no work anybody could take.
        ran.fails_with("landing-refused").naming(named).not_naming("--ff-only");
        std::fs::remove_file(path).unwrap();
    }
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_target_that_was_rebased_meanwhile_gets_each_step_once() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.git(&["branch", "upstream"]);
    garden.garden(&[]).expect(0);
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.git(&["switch", "--quiet", "upstream"]);
    garden.commit("theirs", "from upstream\n");
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.env.git(&["rebase", "--quiet", "upstream"]);
    waiting.go_on().expect(0);
    let told = garden.told("main");
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "T002.txt", "task-tree.json", "theirs"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (2, 2), "{ran}");
}

#[test]
fn a_rewound_target_still_gets_the_work() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let waiting = Waiting::new(&garden, WRITES);
    garden.env.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    garden.commit("mine", "instead\n");
    waiting.go_on().expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn commits_removed_from_the_target_do_not_return() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("bad", "a mistake\n");
    let waiting = Waiting::new(&garden, WRITES);
    // The start of the run and the error below it.
    garden.env.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    waiting.go_on().expect(0);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    assert_eq!(garden.env.git(&["log", "--format=%s", "main", "--", "bad"]), "", "nor does its history");
    assert_eq!(garden.completed(), ["T001"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn hooks_of_the_user_do_not_run() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for hook in ["post-merge", "pre-merge-commit", "post-checkout", "reference-transaction", "post-commit"] {
        garden.env.write_program(format!("repo/.git/hooks/{hook}"), "#!/bin/sh\necho ran >> \"$HOME/hooked\"\n");
    }
    garden.gardener(&[]).expect(0);
    assert!(!garden.env.root().join("home/hooked").exists());
}

/// A reviewer that likes a file and puts another content into its object.
const SWAPS: &str = r#"
place() { echo "$(git rev-parse --git-common-dir)/objects/$(echo $1 | sed 's:^..:&/:')"; }
good=$(place $(git hash-object "$task.txt"))
other=$(place $(seq -s ' backdoor ' 1 99 | git hash-object -w --stdin))
chmod u+w "$good" && dd if="$other" of="$good" conv=notrunc status=none && echo APPROVED"#;

#[test]
fn an_object_overwritten_after_the_tests_does_not_land() {
    let stopped = || {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: ! grep backdoor T001.txt"]));
        garden.agent(WRITES, SWAPS);
        let ran = garden.gardener(&[]).expect(5);
        assert_eq!(ran.refused(), ("overwritten", "T001"), "{ran}");
        assert!(ran.stdout.contains("`T001.txt`") && ran.stdout.contains("`pleach reset T001"), "{ran}");
        assert!(!garden.env.root().join("repo/T001.txt").exists());
        assert_eq!(garden.told("main"), Vec::<String>::new());
        assert_eq!(garden.refs("refs/heads/pleach"), ["refs/heads/pleach/tasks/main/T001"]);
        garden
    };
    // What was tested is written anew from the worktree, and lands also by way of a merge.
    let garden = stopped();
    garden.commit("mine", "by the user\n");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    // Where git has packed it there is nothing to write anew.
    let garden = stopped();
    garden.env.git(&["repack", "-q", "-a", "-d"]);
    garden.env.git(&["prune-packed"]);
    let ran = garden.gardener(&[]).expect(5);
    assert!(ran.refused() == ("overwritten", "T001") && ran.stdout.contains("`T001.txt`"), "{ran}");
    garden.agent(WRITES, APPROVES);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "T001 2");
}

/// Be it in what the merge would give, or in what an earlier attempt has left below that.
#[test]
fn an_overwritten_phase_object_is_not_merged_and_traced() {
    for attempts in [1, 2] {
        let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002: T001"]));
        let swaps = SWAPS.replace("git hash-object \"$task.txt\"", "echo 'T001 1' | git hash-object --stdin");
        let review = format!(
            "if [ $task = T002 ]; then {swaps}\nelif [ $n = {attempts} ]; then echo APPROVED; else echo REJECTED; fi"
        );
        garden.agent(WRITES, &review);
        // In a run of its own, so that the other does not pack what this one has written.
        garden.garden(&["--isolation", "phase"]).expect(0);
        for _ in 0..2 {
            let ran = garden.gardener(&["--isolation", "phase"]).expect(5);
            assert_eq!(ran.refused(), ("overwritten", "phase1"), "{ran}");
            assert!(ran.stdout.contains("`T001.txt`"), "{ran}");
            assert!(ran.stdout.contains("`git branch -D pleach/phase/main/phase1`"), "{ran}");
        }
        assert_eq!(garden.completed(), [""; 0]);
        garden.agent(WRITES, APPROVES);
        // What had landed there is taken back with it, and done once more.
        garden.env.git(&["branch", "-D", "pleach/phase/main/phase1"]);
        if attempts == 1 {
            garden.gardener(&["--isolation", "phase"]).expect(0);
            assert_eq!(garden.file("main", "T001.txt"), "T001 1");
            continue;
        }
        // An earlier attempt is still on its branch.
        let ran = garden.gardener(&["--isolation", "phase"]).expect(5);
        assert!(ran.stdout.contains("`pleach reset T001 --tree task-tree.json`"), "{ran}");
        garden.env.pleach(&["reset", "T001"]).expect(0);
        garden.gardener(&["--isolation", "phase"]).expect(0);
        assert_eq!(garden.file("main", "T001.txt"), "T001 3");
    }
}

#[test]
fn what_pleach_packs_is_what_it_has_written() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: ! grep backdoor T001.txt"]));
    // With so many files the run packs what it has written when it ends.
    garden.agent(&format!("{WRITES}; for n in $(seq 120); do echo $task $n > n$n; done"), SWAPS);
    let ran = garden.gardener(&[]).expect(5);
    assert!(ran.refused() == ("overwritten", "T001") && ran.stdout.contains("`T001.txt`"), "{ran}");
    // A pack goes before loose objects, and has what was tested and approved.
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    garden.env.git(&["fsck", "--strict", "--no-dangling"]);
}

/// Damages the object of a revision, as one can who is in no sandbox.
fn damages(revision: &str, how: &str) -> String {
    format!(
        r#"o=$(git rev-parse '{revision}'); o="$(git rev-parse --git-common-dir)/objects/$(echo $o | sed 's:^..:&/:')"
chmod u+w "$o"; s=$(stat -c %s "$o"); {how}"#
    )
}

/// The end of its checksum is gone; it is overwritten; there is something after it; there is nothing.
const DAMAGE: [&str; 4] = [
    "truncate -s $((s - 5)) \"$o\"",
    "printf '\\0\\0\\0\\0' | dd of=\"$o\" conv=notrunc status=none bs=1 seek=$((s - 4))",
    "echo more >> \"$o\"",
    ": > \"$o\"",
];

#[test]
fn a_damaged_object_does_not_land_and_is_named() {
    let all = [("HEAD:T001.txt", "the file `T001.txt`"), ("HEAD^{tree}", "the list of files"), ("HEAD", "a commit")];
    for (revision, place) in all {
        for how in DAMAGE {
            // Without its HEAD a reviewer's git has no repository.
            if revision == "HEAD" && how.starts_with(':') {
                continue;
            }
            let garden = Garden::new(&Tree::of(&["T001"]));
            garden.configure("sandbox: {mode: off}\n");
            garden.agent(WRITES, &format!("{}; echo APPROVED", damages(revision, how)));
            // The worktree still has a file's content, from which its object is written anew when the task goes on.
            let is_healed = revision.ends_with(".txt");
            for _ in 0..if is_healed { 1 } else { 2 } {
                let ran = garden.env.pleach(&["-y", "gardener"]).expect(5);
                let said = format!("{}{}", ran.stdout, ran.stderr);
                assert!(said.contains(place) && said.contains("pleach reset T001"), "{revision} {how}: {ran}");
            }
            assert!(!garden.env.root().join("repo/T001.txt").exists());
            if is_healed {
                garden.env.pleach(&["-y", "gardener"]).expect(0);
                assert_eq!(
                    (garden.file("main", "T001.txt"), garden.completed()),
                    ("T001 1".into(), vec!["T001".into()])
                );
                continue;
            }
            garden.agent(WRITES, APPROVES);
            garden.env.pleach(&["reset", "T001"]).expect(0);
            garden.gardener(&[]).expect(0);
            assert_eq!(garden.file("main", "T001.txt"), "T001 2");
        }
    }
}

#[test]
fn an_object_below_the_work_that_was_damaged_is_named() {
    for how in DAMAGE {
        let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
        garden.configure("sandbox: {mode: off}\n");
        let damage = damages("HEAD^{tree}", how);
        garden.agent(&format!("{WRITES}; if [ $task = T002 ]; then {damage}; fi"), APPROVES);
        let ran = garden.env.pleach(&["-y", "gardener"]).expect(5);
        ran.fails_with("work-overwritten").naming("T002");
    }
}

#[test]
fn task_history_cannot_be_forged() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.garden(&[]).expect(0);
    let step = garden.env.git(&["rev-parse", "main~1"]);
    let original = garden.env.git(&["cat-file", "commit", &step]);
    let (header, _) = original.split_once("\n\n").unwrap();
    let forged = format!(
        "{header}\n\ntask(main@T002@complete): complete \"T002\"\n\nArborist-Step: complete\nArborist-Result: pass\n"
    );
    let file = garden.env.write("forged", &forged);
    let forged = garden.env.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
    let loose = |id: &str| garden.env.repo_path().join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
    std::fs::remove_file(loose(&step)).unwrap();
    std::fs::copy(loose(&forged), loose(&step)).unwrap();
    for args in [&["-y", "gardener"][..], &["status"]] {
        let ran = garden.env.pleach(args).expect(7);
        ran.fails_with("object-overwritten").naming(&step);
    }
}

#[test]
fn a_landing_has_a_trailer_in_its_record() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    let record = format!("refs/pleach/sessions/{}/main", garden.env.session());
    let landed = |record: &str| {
        garden.env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Landed,valueonly)", record]).trim().to_owned()
    };
    assert_eq!(landed(&record), garden.env.git(&["rev-parse", "main"]).trim());
    assert_eq!(landed(&format!("{record}~")), "", "no other record has it");
}

#[test]
fn work_taken_back_with_reset_stays_away() {
    for (how, settings) in [(&[][..], ""), (&["--jobs", "2"][..], "merge: {history: linear}\n")] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.configure(&format!("tree: {{test_command: 'true', delete_branches: false}}\n{settings}"));
        garden.garden(&["--task", "T001"]).expect(0);
        let begun = garden.env.git(&["rev-parse", "main"]);
        garden.gardener(how).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002"]);
        garden.env.git(&["reset", "--quiet", "--hard", begun.trim()]);
        let has_it = || garden.files("main").contains(&"T002.txt".to_owned());
        let status = garden.env.pleach(&["status"]).expect(0);
        assert_eq!(status.next(), ("work", "T002"), "{status}");
        garden.plant(&Tree::of(&["T001", "T002", "T003"]));
        garden.garden(&["--task", "T003"]).expect(0);
        garden.env.pleach(&["-y", "merge", "process"]).expect(0);
        assert!(!has_it() && garden.completed() == ["T001", "T003"], "{how:?}: {:?}", garden.completed());
        // It is not done, so a run over the tree does it again.
        let ran = garden.gardener(how).expect(0);
        ran.warns("task-lost").naming("T002 is done again");
        ran.warns("task-branch-restarted").naming("refs/pleach/keep/T002-1");
        assert_eq!((garden.file("main", "T002.txt").as_str(), garden.times_asked("T002", "implement")), ("T002 2", 2));
        assert_eq!(garden.file("refs/pleach/keep/T002-1", "T002.txt"), "T002 1");
    }
}
