//! A person has the branch of a session or a task checked out while it grows: the checkout follows, or the branch waits.

use std::fs;

use crate::sessions::{Gate, Running, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// Three commands that each write a file; the second and the third wait for the test before that.
struct Three {
    env: TestEnv,
    gates: [Gate; 2],
}

impl Three {
    fn new() -> Self {
        let env = TestEnv::with_repo();
        let gates = [Gate::new(&env, "second"), Gate::new(&env, "third")];
        Self { env, gates }
    }

    fn start(&self) -> Running<'_> {
        let [second, third] = &self.gates;
        let dot = graph(
            "three",
            &(tool("first", "echo 1 > one")
                + &tool("second", &format!("({}); echo 2 > two", second.command()))
                + &tool("third", &format!("({}); echo 3 > three", third.command()))
                + "start -> first -> second -> third -> exit"),
        );
        self.env.start(&dot, &[])
    }

    /// Its branch is checked out, with a file of the user's where the second command's belongs; the third is killed.
    fn killed_with_its_branch_back() -> Self {
        let three = Self::new();
        let mut run = three.start();
        let held = three.gates[0].reached(&mut run);
        three.env.git(&["switch", "--quiet", &three.env.branch()]);
        three.env.write("repo/two", "mine\n");
        three.gates[0].open(held);
        let held = three.gates[1].reached(&mut run);
        run.kill(held);
        three
    }

    fn assert_checkout_is_the_branch(&self) {
        let env = &self.env;
        assert_eq!(env.git(&["symbolic-ref", "--short", "HEAD"]), env.branch());
        assert_eq!(env.git(&["status", "--porcelain"]), "", "nothing is staged, nothing is missing");
        let newest = env.story().last("PipelineCompleted")["workspace_snapshot"]["repo"].clone();
        assert_eq!(env.git(&["rev-parse", "HEAD"]), newest.as_str().unwrap());
        assert_eq!(env.read("repo/three"), "3\n");
    }
}

#[test]
fn a_checkout_of_the_session_branch_follows_it() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    three.gates[1].stay_open();
    three.gates[0].open(held);
    let ran = run.end().expect(0);
    three.assert_checkout_is_the_branch();
    assert!(!ran.stdout.contains("bring:"), "{ran}");
    assert_eq!(env.git(&["log", "--format=%an", "main.."]).lines().count(), 3);
}

#[test]
fn a_checkout_follows_the_turns_of_an_agent() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "agent");
    let steps = [format!("echo 1 > one; {}", gate.command()), "echo 2 > two".into(), "echo 3 > three".into()];
    let steps = steps.map(|command| {
        let call = serde_json::json!([{"shell": {"command": command}}]);
        format!("      - {{text: Go on., tools: {call}}}\n")
    });
    env.script(&format!("model: m\nscripts:\n  - name: code\n    steps:\n{}      - text: Done.\n", steps.concat()));
    let mut run = env.start(&graph("one", "code [prompt=\"Work\"] start -> code -> exit"), &[]);
    let held = gate.reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    // A change of the user's own that is in nobody's way.
    env.write("repo/README.md", "# Mine\n");
    gate.open(held);
    let ran = run.end().expect(0);
    assert_eq!(env.git(&["status", "--porcelain"]), " M README.md");
    assert_eq!(env.git(&["rev-list", "--count", "main..HEAD"]), "3");
    assert_eq!(env.read("repo/three"), "3\n");
    ran.does_not_warn("branch-behind");
}

#[test]
fn uncommitted_files_hold_the_branch_back_until_gone() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    let first = env.git(&["rev-parse", "HEAD"]);
    env.write("repo/two", "mine\n");
    three.gates[0].open(held);
    let held = three.gates[1].reached(&mut run);
    assert_eq!(env.git(&["rev-parse", "HEAD"]), first, "the branch stays under its checkout");
    assert_eq!(env.git(&["status", "--porcelain"]), "?? two");
    assert_eq!(env.read("repo/two"), "mine\n");
    fs::remove_file(env.root().join("repo/two")).unwrap();
    three.gates[1].open(held);
    let ran = run.end().expect(0);
    three.assert_checkout_is_the_branch();
    let warnings: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("and cannot move:")).collect();
    assert_eq!(warnings.len(), 1, "{ran}");
    for part in [&env.branch(), env.repo_path().to_str().unwrap(), "`two`", "switch to another branch"] {
        assert!(warnings[0].contains(part), "{part}: {}", warnings[0]);
    }
    assert_eq!(env.commits().len(), 3, "and nothing was left out");
}

#[test]
fn a_lagging_branch_says_how_to_update_it() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    env.write("repo/two", "mine\n");
    three.gates[1].stay_open();
    three.gates[0].open(held);
    let ran = run.end().expect(0);
    assert_eq!(env.git(&["status", "--porcelain"]), "?? two");
    let command = ran.stdout.lines().find_map(|line| line.strip_prefix("update:  ")).unwrap_or_else(|| panic!("{ran}"));
    let session = env.session();
    let status = env.pleach(&["status", &session]).expect(0);
    assert!(status.stdout.contains("without the session's newest commit: git merge "), "{status}");
    fs::remove_file(env.root().join("repo/two")).unwrap();
    let done = env.program("sh", env.root()).args(["-c", command]).status().unwrap();
    assert!(done.success(), "{command}");
    three.assert_checkout_is_the_branch();
}

#[test]
fn resume_brings_the_branch_of_a_session_that_has_ended() {
    let three = Three::killed_with_its_branch_back();
    let env = &three.env;
    three.gates[1].stay_open();
    env.resume(&[]).expect(0);
    fs::remove_file(env.root().join("repo/two")).unwrap();
    let over = env.resume(&[]).expect(2);
    over.fails_with("session-over");
    three.assert_checkout_is_the_branch();
}

#[test]
fn what_a_branch_lacks_is_merged_by_its_commit() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    let (branch, session) = (env.branch(), env.session());
    let there = env.root().join("there");
    let there = there.to_str().unwrap();
    env.git(&["worktree", "add", "--quiet", there, &branch]);
    env.write("there/two", "mine\n");
    three.gates[1].stay_open();
    three.gates[0].open(held);
    let ran = run.end().expect(0);
    env.git(&["worktree", "remove", "--force", there]);
    let newest = env.story().last("PipelineCompleted")["workspace_snapshot"]["repo"].clone();
    let merge = format!("git merge {}", env.git(&["rev-parse", "--short=10", newest.as_str().unwrap()]));
    let said = ran.stdout.lines().find_map(|line| line.strip_prefix("merge:   ")).unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(said, format!("git switch main && {merge}"));
    let status = env.pleach(&["status", &session]).expect(0);
    assert!(status.stdout.lines().any(|line| line.starts_with("merge ") && line.ends_with(said)), "{status}");
    env.git(&["merge", "--quiet", &branch]);
    let refused = env.pleach(&["rm", &session]).expect(1);
    assert!(refused.stderr.contains(&merge) && !refused.stderr.contains(&format!("git merge {branch}")), "{refused}");
    let done = env.program("sh", &env.repo_path()).args(["-c", &format!("{merge} --quiet")]).status().unwrap();
    assert!(done.success(), "{merge}");
    env.pleach(&["rm", &session]).expect(0);
    assert_eq!(env.read("repo/three"), "3\n");
}

#[test]
fn resume_overwrites_nothing_either() {
    let three = Three::killed_with_its_branch_back();
    let env = &three.env;
    three.gates[1].stay_open();
    let ran = env.resume(&[]).expect(0);
    ran.warns("branch-behind");
    assert_eq!(env.git(&["status", "--porcelain"]), "?? two");
    assert_eq!(env.read("repo/two"), "mine\n");
}

#[test]
fn resume_brings_a_branch_forward_that_stayed_back() {
    let three = Three::killed_with_its_branch_back();
    let env = &three.env;
    fs::remove_file(env.root().join("repo/two")).unwrap();
    three.gates[1].stay_open();
    env.resume(&[]).expect(0);
    three.assert_checkout_is_the_branch();
    assert_eq!(env.commits().len(), 3);
}

#[test]
fn a_checkout_of_a_tasks_branch_follows_it() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; {APPROVES}", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.env.git(&["switch", "--quiet", "pleach/tasks/main/T001"]);
    gate.open(held);
    run.end().expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
    assert_eq!(garden.env.git(&["rev-parse", "HEAD"]), garden.env.git(&["rev-parse", "main"]));
    assert_eq!(garden.env.git(&["symbolic-ref", "--short", "HEAD"]), "pleach/tasks/main/T001");
}

#[test]
fn a_task_branch_waits_for_uncommitted_files_in_its_checkout() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    let gate = Gate::new(&garden.env, "implement");
    garden.agent(&format!("{WRITES}; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.env.git(&["switch", "--quiet", "pleach/tasks/main/T001"]);
    garden.env.write("repo/T001.txt", "mine\n");
    gate.open(held);
    let ran = run.end().expect(0);
    assert_eq!(ran.stderr.matches("and cannot move:").count(), 1, "{ran}");
    assert_eq!(garden.completed(), ["T001", "T002"], "the work goes on and lands");
    assert_eq!(garden.env.read("repo/T001.txt"), "mine\n");
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "?? T001.txt");
    let stays = ran.stderr.lines().find(|line| line.contains("brings it")).unwrap_or_else(|| panic!("{ran}"));
    let command = stays.split('`').find(|part| part.starts_with("git -C")).unwrap_or_else(|| panic!("{stays}"));
    fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
    let done = garden.env.program("sh", garden.env.root()).args(["-c", command]).status().unwrap();
    assert!(done.success(), "{command}");
    assert_eq!(garden.told("pleach/tasks/main/T001").last().unwrap(), "T001 complete");
}

#[test]
fn a_task_restarts_only_when_its_branch_is_free() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e ok"]));
    garden.configure("tree: {max_retries: 1}\n");
    garden.gardener(&[]).expect(1);
    let branch = "pleach/tasks/main/T001";
    let there = garden.env.root().join("there");
    garden.env.git(&["worktree", "add", "--quiet", there.to_str().unwrap(), branch]);
    garden.env.write("there/T001.txt", "mine\n");
    let tip = garden.env.git(&["rev-parse", branch]);
    garden.commit("ok", "");
    let ran = garden.gardener(&["--retry-failed"]).expect(5);
    assert!(ran.stdout.contains("could not start") && ran.stdout.contains("switch to another branch there"), "{ran}");
    assert!(ran.stdout.contains(there.to_str().unwrap()) && ran.stdout.contains(branch), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1, "nothing is spent on what nobody would find again");
    assert_eq!(garden.env.git(&["rev-parse", branch]), tip);
    assert_eq!(garden.env.git_in(&there, &["status", "--porcelain"]), " M T001.txt");
    garden.env.git_in(&there, &["switch", "--quiet", "--detach"]);
    garden.gardener(&["--retry-failed"]).expect(0);
    assert_eq!(garden.env.read("there/T001.txt"), "mine\n");
    assert_eq!(garden.completed(), ["T001"]);
}

/// Commits a file on the branch that is checked out.
fn commit(env: &TestEnv, file: &str) -> String {
    env.write(format!("repo/{file}"), "mine\n");
    env.git(&["add", file]);
    env.git(&["commit", "--quiet", "-m", "By hand"]);
    env.git(&["rev-parse", "HEAD"])
}

#[test]
fn a_foreign_commit_on_the_branch_ends_the_run_safely() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    let mine = commit(env, "mine");
    three.gates[0].open(held);
    let ran = run.end().expect(1);
    assert_eq!(env.git(&["rev-parse", &env.branch()]), mine, "it stays what it is");
    let short = |id: &str| env.git(&["rev-parse", "--short=10", id]);
    let (session, newest) = (env.session(), env.story().last("TurnCommitted")["git_sha"].clone());
    let newest = short(newest.as_str().unwrap());
    let status = env.pleach(&["status", &session]).expect(0);
    let line = status.stdout.lines().find(|line| line.starts_with("branch ")).unwrap_or_else(|| panic!("{status}"));
    assert!(line.contains(&format!("at {}", short(&mine))), "{line}");
    assert!(line.ends_with(&format!("git merge {newest}")), "{line}");
    let command = ran.stdout.lines().find_map(|line| line.strip_prefix("merge:   ")).unwrap_or_else(|| panic!("{ran}"));
    let mut shell = env.program("sh", &env.repo_path());
    for name in ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"] {
        shell.env(format!("GIT_{name}"), "somebody");
    }
    let done = shell.args(["-c", &format!("{command} --quiet -m Both")]).status().unwrap();
    assert!(done.success(), "{command}");
    assert_eq!(env.files(), ["README.md", "mine", "one", "two"]);
    let status = env.pleach(&["status", &session]).expect(0);
    assert!(!status.stdout.contains("git merge"), "{status}");
}

#[test]
fn a_task_continues_from_foreign_commits_on_its_branch() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; {APPROVES}", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.env.git(&["switch", "--quiet", "pleach/tasks/main/T001"]);
    let mine = commit(&garden.env, "mine");
    garden.env.git(&["switch", "--quiet", "main"]);
    gate.open(held);
    let ran = run.end().expect(5);
    assert!(!ran.stderr.contains("fail"), "no step was made of it: {ran}");
    assert!(ran.stderr.contains("pleach/tasks/main/T001") && ran.stderr.contains(&mine), "{ran}");
    let hint = ran.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap_or_else(|| panic!("{ran}"));
    assert!(hint.contains("run again"), "{hint}");
    assert_eq!(garden.env.git(&["rev-parse", "pleach/tasks/main/T001"]), mine, "it stays what it is");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "mine", "task-tree.json"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "what is done is not done again");
}

#[test]
fn a_checkout_of_a_phases_branch_follows_it() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]));
    garden.configure("tree: {delete_branches: false}\n");
    let phase = ["--isolation", "phase"];
    garden.gardener(&phase).expect(0);
    let there = garden.env.root().join("there");
    garden.env.git(&["worktree", "add", "--quiet", there.to_str().unwrap(), "pleach/phase/main/phase1"]);
    // The phase starts once more, at what the target is now.
    garden.commit("mine", "by the user\n");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&phase).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert_eq!(garden.env.git_in(&there, &["status", "--porcelain"]), "");
    assert_eq!(garden.env.read("there/mine"), "by the user\n");
    assert_eq!(garden.env.read("there/T001.txt"), garden.env.read("repo/T001.txt"));
}

#[test]
fn a_commit_in_a_lagging_checkout_is_reported() {
    let three = Three::new();
    let env = &three.env;
    let mut run = three.start();
    let held = three.gates[0].reached(&mut run);
    env.git(&["switch", "--quiet", &env.branch()]);
    env.write("repo/two", "mine\n");
    three.gates[0].open(held);
    let held = three.gates[1].reached(&mut run);
    let mine = commit(env, "two");
    three.gates[1].open(held);
    let ran = run.end().expect(1);
    assert!(ran.stdout.contains("it was moved to"), "{ran}");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), mine);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}
