//! Worktrees that agents have broken, or kills have left half made: work in them is saved, and the run continues.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sessions::{Gate, graph, tool};
use crate::support::{Checkout, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// What an agent can do to what ties its worktree to the repository.
const BREAKS: [&str; 9] = [
    "rm .git",
    "rm .git; git init --quiet .; git add -A; git commit --quiet -m own",
    "echo nonsense > .git",
    "rm -rf \"$G\"/*",
    "rm -rf \"$G\"",
    "rm -rf \"$G\" .git",
    "rm -rf \"$G\" .git; git init --quiet .",
    "echo nonsense > \"$G/HEAD\"; rm \"$G/index\"",
    "git checkout --quiet --orphan nothing; rm .git",
];

/// What has a tool break its worktree and wait, the first time it is run.
fn broken(env: &TestEnv, gate: &Gate, breaks: &str) -> String {
    let passed = env.root().join("broken.passed");
    let own = "G=$(git rev-parse --absolute-git-dir); echo precious > work.txt";
    format!("if ! test -e '{}'; then {own}; {breaks}; {}; fi", passed.display(), gate.command())
}

/// What is kept, by the names of the refs.
fn kept(env: &TestEnv) -> Vec<String> {
    let all = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    all.lines().map(str::to_owned).collect()
}

/// Where things are beside a worktree that was in its way.
fn aside(copy: &Path) -> Vec<PathBuf> {
    let above = fs::read_dir(copy.parent().expect("a directory of the session's")).expect("it is there");
    let all = above.map(|entry| entry.expect("it can be read").path());
    let mut all: Vec<PathBuf> = all.filter(|path| !path.ends_with("main") && !path.ends_with("run")).collect();
    all.sort();
    all
}

#[test]
fn a_kill_with_a_broken_worktree_costs_no_work() {
    for breaks in BREAKS {
        let env = TestEnv::with_repo();
        env.write("repo/left/out", "1\n");
        env.git(&["add", "."]);
        env.git(&["commit", "--quiet", "-m", "More"]);
        env.configure("worktrees: {exclude: [left/]}\n");
        env.unbound();
        let gate = Gate::new(&env, "broken");
        let then = tool("then", &format!("{}; git status --porcelain > state; ls > seen", broken(&env, &gate, breaks)));
        let first = tool("first", "echo 1 > one");
        let mut run = env.start(&graph("broken", &format!("{first}{then} start -> first -> then -> exit")), &[]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        let before = env.git(&["rev-parse", "HEAD", "refs/heads/main"]);
        let ran = env.resume(&[]).expect(0);
        let kept = kept(&env);
        assert_eq!(kept.len(), 1, "{breaks}: {ran}");
        ran.warns("work-kept").naming(&kept[0]);
        let changed = env.git(&["diff", "--name-status", &format!("{}^1", kept[0]), &kept[0]]);
        assert_eq!(changed, "A\twork.txt", "{breaks}: {ran}");
        assert_eq!(env.git(&["show", &format!("{}:work.txt", kept[0])]), "precious", "{breaks}");
        assert_eq!(env.committed("seen"), "README.md\none\nseen\nstate", "{breaks}: {ran}");
        assert_eq!(env.committed("state"), "?? state", "{breaks}: {ran}");
        assert_eq!(env.files(), ["README.md", "left/out", "one", "seen", "state"], "{breaks}");
        let worktree = env.worktree();
        assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "", "{breaks}");
        assert_eq!(env.git(&["rev-parse", "HEAD", "refs/heads/main"]), before);
        let known = env.git(&["worktree", "list"]).lines().count();
        assert_eq!(known, 2, "the checkout and the working copy after {breaks}");
        // A repository the agent has made is its work as well.
        let aside = aside(&worktree);
        assert_eq!(aside.len(), usize::from(breaks.contains("git init")), "{breaks}: {aside:?}");
        for place in &aside {
            ran.warns("moved-aside").naming(format!("`{}`", place.display()));
            assert!(place.join("HEAD").exists(), "{breaks}");
        }
    }
}

#[test]
fn files_in_place_of_a_worktree_are_kept_or_moved() {
    let lies: [(&str, usize, &[&str]); 3] = [
        ("mkdir \"$C\" && echo mine > \"$C/precious\"", 1, &[]),
        ("echo mine > \"$C\"", 0, &["main.old-1"]),
        ("ln -s \"$PWD\" \"$C\"", 0, &["main.old-1"]),
    ];
    for (lie, saved, names) in lies {
        let env = TestEnv::with_repo();
        let gate = Gate::new(&env, "first");
        let mut run = env.start(&graph("one", &(tool("work", &gate.command()) + "start -> work -> exit")), &[]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        env.assert_no_process_left();
        let worktree = env.worktree();
        fs::remove_dir_all(&worktree).unwrap();
        let lie = format!("C='{}'; {lie}", worktree.display());
        assert!(env.program("sh", &env.repo_path()).args(["-c", &lie]).status().expect("sh can be started").success());
        env.write("repo/notes.txt", "the user's own\n");
        let before = Checkout::of(&env, &env.repo_path());
        let ran = env.resume(&[]).expect(0);
        before.assert_unchanged(&env, &env.repo_path());
        let (kept, aside) = (kept(&env), aside(&worktree));
        assert_eq!(kept.len(), saved, "{lie}: {ran}");
        for name in kept {
            assert_eq!(env.git(&["show", &format!("{name}:precious")]), "mine", "{lie}");
        }
        assert_eq!(aside.iter().map(|path| path.file_name().unwrap()).collect::<Vec<_>>(), names, "{lie}: {ran}");
        for path in &aside {
            ran.warns("moved-aside").naming(format!("`{}`", path.display()));
        }
        assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "");
    }
}

#[test]
fn an_unfinished_worktree_is_created_again() {
    let env = TestEnv::with_repo();
    env.write("repo/.claude/settings.json", "{}\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    env.configure("worktrees: {exclude: [.claude/]}\n");
    env.pipeline(&graph("one", &format!("{} start -> work -> exit", tool("work", "ls -A > seen"))));
    let mut run = env.command(&["-y", "run", "../pipeline.dot"]);
    let died = run.env("PLEACH_CRASH", "head-update:after:1").output().expect("pleach can be started");
    assert!(!died.status.success());
    // As git leaves it when it is killed before the first file is there.
    let worktree = env.worktree();
    let admin = env.git_in(&worktree, &["rev-parse", "--absolute-git-dir"]);
    for file in ["index", "info/sparse-checkout"] {
        fs::remove_file(Path::new(&admin).join(file)).unwrap();
    }
    fs::write(worktree.join("README.md"), "hal").unwrap();
    env.resume(&[]).expect(0);
    assert_eq!(env.committed("seen"), ".git\nREADME.md\nseen");
    assert_eq!(env.files(), [".claude/settings.json", "README.md", "seen"]);
    assert_eq!(kept(&env), [""; 0], "nobody had worked there");
    assert!(aside(&worktree).is_empty());
}

#[test]
fn an_agent_reinitializing_its_worktree_has_failed() {
    for is_bound in [true, false] {
        let env = TestEnv::with_repo();
        if !is_bound {
            env.unbound();
        }
        let own = "echo 1 > one; rm -rf .git; git init --quiet .; git add -A; git commit --quiet -m own";
        let nodes = tool("own", own) + &tool("then", "true") + "start -> own -> then -> exit";
        let ran = env.run(&graph("own", &nodes), &[]).expect(1);
        assert!(ran.stdout.contains("settings were changed") && !ran.stderr.contains("pleach resume"), "{ran}");
        assert_eq!(env.committed("one"), "1");
        let [place] = &aside(&env.worktree())[..] else { panic!("it is put aside: {ran}") };
        ran.warns("moved-aside").naming(format!("`{}`", place.display()));
        assert_eq!(env.git_in(place, &["log", "--format=%s"]), "own", "with what was committed there");
        assert_eq!(env.git_in(&env.worktree(), &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_broken_worktree_is_repaired_for_the_next_node() {
    for breaks in ["rm .git", "rm -rf \"$G\"", "rm -rf \"$G\"/* .git"] {
        let env = TestEnv::with_repo();
        env.unbound();
        let own = format!("G=$(git rev-parse --absolute-git-dir); echo 1 > one; {breaks}");
        let nodes =
            tool("own", &own) + &tool("then", "git status --porcelain > state") + "start -> own -> then -> exit";
        let ran = env.run(&graph("own", &nodes), &[]).expect(0);
        assert_eq!((env.committed("one"), env.committed("state")), ("1".into(), "?? state".into()), "{breaks}: {ran}");
    }
}

// ---- trees, whose tasks share a worktree

#[test]
fn a_task_resumes_after_a_kill_with_broken_worktree() {
    for breaks in ["rm .git", "rm -rf \"$G\"/*", "rm -rf \"$G\" .git", "rm .git; git init --quiet ."] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.configure("sandbox: {mode: off}\n");
        let gate = Gate::new(&garden.env, "broken");
        garden.agent(&format!("{}; {WRITES}", broken(&garden.env, &gate, breaks)), APPROVES);
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002"], "{breaks}: {ran}");
        let kept = kept(&garden.env);
        assert_eq!(kept.len(), 1, "{breaks}: {ran}");
        assert_eq!(garden.file(&kept[0], "work.txt"), "precious", "{breaks}");
        ran.warns("work-kept").naming(&kept[0]);
    }
}

#[test]
fn a_reinitialized_worktree_costs_only_one_attempt() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let own = "test $n -gt 1 || { rm -f .git; git init --quiet .; }";
    garden.agent(&format!("{WRITES}; {own}"), APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.told("main")[..2], ["T001 implement-fail", "T001 implement-pass"]);
    ran.warns("moved-aside");
}

#[test]
fn the_worktree_of_a_removed_repository_is_moved_aside() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    let listed = garden.env.git(&["worktree", "list", "--porcelain"]);
    let copy = listed.lines().filter_map(|line| line.strip_prefix("worktree ")).nth(1).expect("that of the tasks");
    fs::write(Path::new(copy).join("precious"), "mine\n").unwrap();
    fs::remove_dir_all(garden.env.repo_path()).unwrap();
    garden.env.repo();
    garden.plant(&Tree::of(&["T001"]));
    garden.agent(WRITES, APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    let [place] = &aside(Path::new(copy))[..] else { panic!("it is put aside: {ran}") };
    ran.warns("moved-aside").naming(format!("`{}`", place.display()));
    assert_eq!(fs::read_to_string(place.join("precious")).unwrap(), "mine\n");
    assert_eq!(kept(&garden.env), [""; 0], "it is no work on this repository");
}

/// A session whose tool was killed with uncommitted work, and its worktree.
fn killed_at_work(env: &TestEnv, breaks: &str) -> (String, PathBuf) {
    env.unbound();
    let gate = Gate::new(env, "broken");
    let work = tool("work", &format!("{}; echo 1 > one", broken(env, &gate, breaks)));
    let mut run = env.start(&graph("moved", &format!("{work} start -> work -> exit")), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let session = env.session();
    let mut bases = fs::read_dir(env.root().join("state/pleach/worktrees")).unwrap();
    let copy = bases.next().unwrap().unwrap().path().join(&session).join("main");
    assert!(copy.join("work.txt").exists(), "{}", copy.display());
    (session, copy)
}

#[test]
fn worktrees_follow_a_moved_repository() {
    for breaks in ["true", "rm .git", "echo nonsense > .git", "echo /etc/.git > \"$G/gitdir\""] {
        let env = TestEnv::with_repo();
        let (session, before) = killed_at_work(&env, breaks);
        let (repo, moved) = (env.repo_path(), env.root().join("moved"));
        fs::rename(&repo, &moved).unwrap();
        let ran = env.pleach(&["-y", "-C", moved.to_str().unwrap(), "resume", &session]).expect(0);
        let kept = env.git_in(&moved, &["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
        ran.warns("work-kept").naming(&kept);
        assert_eq!(env.git_in(&moved, &["show", &format!("{kept}:work.txt")]), "precious", "{breaks}");
        assert!(!before.exists(), "{breaks}: {ran}");
        let all = env.git_in(&moved, &["worktree", "list"]);
        assert_eq!((all.lines().count(), all.contains("prunable")), (2, false), "{breaks}: {all}");
        let copy = all.lines().find_map(|line| line.split(' ').next().filter(|path| path.contains(&session)));
        assert_eq!(env.git_in(Path::new(copy.unwrap()), &["status", "--porcelain"]), "", "{breaks}");
        fs::rename(&moved, &repo).unwrap();
    }
}

#[test]
fn a_worktree_moves_to_another_base() {
    let env = TestEnv::with_repo();
    let (session, before) = killed_at_work(&env, "true");
    let base = env.root().join("elsewhere");
    let mut resumed = env.command(&["-y", "resume", &session]);
    let ran = env.finish(resumed.env("PLEACH_WORKTREES__BASE", &base).output().unwrap()).expect(0);
    assert_eq!(kept(&env).len(), 1, "{ran}");
    assert!(!before.exists() && env.worktree().starts_with(&base), "{ran}");
}

#[test]
fn a_worktree_of_another_repository_stays() {
    let env = TestEnv::with_repo();
    let (session, copy) = killed_at_work(&env, "true");
    let (repo, moved) = (env.repo_path(), env.root().join("moved"));
    let copied = |from: &Path, to: &Path| {
        let status = env.program("cp", env.root()).arg("-a").args([from, to]).status().expect("cp runs");
        assert!(status.success());
    };
    // A copy has nothing of the other's, and one that came back has what it had.
    let other = env.root().join("other");
    copied(&repo, &other);
    fs::rename(&repo, &moved).unwrap();
    copied(&moved, &repo);
    for place in [&other, &moved] {
        let ran = env.pleach(&["-y", "-C", place.to_str().unwrap(), "resume", &session]).expect(0);
        ran.warns_once("worktree-abandoned").naming(format!("`{}`", copy.display()));
        assert_eq!(env.git_in(place, &["for-each-ref", "refs/pleach/keep/"]), "");
        assert!(copy.join("work.txt").exists(), "{}", place.display());
    }
    let ran = env.resume(&[]).expect(0);
    assert_eq!(kept(&env).len(), 1, "{ran}");
}
