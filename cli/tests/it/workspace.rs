//! Where a session works: its worktree, the repository it finds, what is in its way, what survives.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::sessions::{Gate, Held, Running, Story, graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

/// A pipeline of one command.
fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

/// Three commands; the second waits at the gate.
fn three(gate: &Gate) -> String {
    let second = format!("({}); cat one > two", gate.command());
    graph(
        "three",
        &(tool("first", "echo 1 > one")
            + &tool("second", &second)
            + &tool("third", "cat one two > three")
            + "start -> first -> second -> third -> exit"),
    )
}

/// A session that was paused between its second and its third node.
#[track_caller]
fn paused() -> (TestEnv, Gate) {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&three(&gate), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    (env, gate)
}

#[track_caller]
fn assert_complete(env: &TestEnv) {
    assert_eq!(env.committed("three"), "1\n1");
    assert_eq!(env.files(), ["README.md", "one", "three", "two"]);
    assert_eq!(env.story().kinds().last(), Some(&"PipelineCompleted"));
}

/// Runs the pipeline from a directory.
#[track_caller]
fn run_in(env: &TestEnv, dir: &Path, dot: &str, more: &[&str]) -> Ran {
    let file = env.write("pipeline.dot", dot);
    let mut args = vec!["-y", "run", file.to_str().expect("a path of the test's own")];
    args.extend(more);
    env.finish(env.command(&args).current_dir(dir).output().expect("pleach can be started"))
}

// ---- the worktree of a session

#[test]
fn a_session_works_in_its_own_worktree() {
    let env = TestEnv::with_repo();
    let repo = env.repo_path();
    let gate = Gate::new(&env, "work");
    let before = Checkout::of(&env, &repo);
    let mut run = env.start(&one(&format!("pwd > where; ({})", gate.command())), &[]);
    let held = gate.reached(&mut run);
    let worktree = env.worktree();
    assert!(worktree.starts_with(env.root().join("state/pleach/worktrees")), "{}", worktree.display());
    assert!(worktree.ends_with(format!("{}/main", env.session())), "{}", worktree.display());
    // HEAD is detached where the node started; what it wrote is uncommitted there, and nowhere else.
    assert_eq!(env.git_in(&worktree, &["rev-parse", "HEAD"]), env.git(&["rev-parse", "main"]));
    assert_eq!(env.git_in(&worktree, &["branch", "--show-current"]), "");
    assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "?? where");
    before.assert_unchanged(&env, &repo);
    gate.open(held);
    run.end().expect(0);
    assert_eq!(env.committed("where"), worktree.to_str().unwrap());
    // At the end HEAD and index have followed.
    assert_eq!(env.git_in(&worktree, &["rev-parse", "HEAD"]), env.git(&["rev-parse", &env.branch()]));
    assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "");
    before.assert_unchanged(&env, &repo);
}

#[test]
fn started_below_the_root_it_finds_the_repository() {
    let env = TestEnv::with_repo();
    env.write("repo/src/deep/file", "1\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Deep"]);
    run_in(&env, &env.repo_path().join("src/deep"), &one("ls src/deep > found"), &[]).expect(0);
    assert_eq!(env.committed("found"), "file");
    // A pipeline of the repository itself, started from below it, by `-C`.
    env.write("repo/src/flow.dot", one("true"));
    env.pleach(&["-y", "-C", "src", "run", "flow.dot"]).expect(0);
    assert_eq!(env.sessions().len(), 2);
}

#[test]
fn not_a_repository_is_refused() {
    let env = TestEnv::new();
    env.write("pipeline.dot", one("true"));
    let ran = env.pleach(&["-y", "run", "pipeline.dot"]).expect(2);
    insta::assert_snapshot!(ran, @"
    exit: 2
    --- stderr
    error[not-a-repository]: `[TEMP]` is not in a git repository
    hint: run `git init` there, or name a repository with `-C DIR`
    ");
    env.write("empty/file", "");
    let ran = env.pleach(&["-y", "run", "pipeline.dot", "--repo", "empty"]).expect(2);
    ran.fails_with("not-a-repository").naming("empty`");
    let ran = env.pleach(&["-y", "run", "pipeline.dot", "--repo", "nowhere"]).expect(2);
    ran.fails_with("not-a-directory").naming("nowhere`");
    assert!(!env.root().join("state/pleach/worktrees").exists());
}

/// A git that fails at one verb with words of its own and is the real one otherwise.
fn git_that_fails_at(env: &TestEnv, verb: &str, words: &str) -> PathBuf {
    let real = env.program("sh", env.root()).args(["-c", "command -v git"]).output().expect("sh can be started");
    let real = String::from_utf8(real.stdout).expect("a path");
    let script = format!(
        "#!/bin/sh\nfor arg; do if [ \"$arg\" = {verb} ]; then echo '{words}' >&2; exit 128; fi; done\nexec {} \"$@\"\n",
        real.trim()
    );
    let program = env.write_program("broken/git", &script);
    program.parent().expect("a directory").to_owned()
}

#[track_caller]
fn run_with_path(env: &TestEnv, path: &str, dot: &str) -> Ran {
    env.pipeline(dot);
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    env.finish(command.env("PATH", path).output().expect("pleach can be started"))
}

#[test]
fn git_errors_hold_gits_own_words() {
    let env = TestEnv::with_repo();
    let bin = git_that_fails_at(&env, "worktree", "fatal: the disk is on holiday");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let ran = run_with_path(&env, &path, &one("true")).expect(7);
    ran.fails_with("worktree-failed")
        .naming("fatal: the disk is on holiday")
        .naming("git cannot create the worktree")
        .naming("`git worktree add`");
    assert!(env.sessions().is_empty(), "nothing has begun");

    // A repository git itself refuses.
    let env = TestEnv::new();
    env.repo_at("broken");
    env.write("broken/.git/config", "[core\n");
    env.write("pipeline.dot", one("true"));
    let ran = env.pleach(&["-y", "run", "pipeline.dot", "--repo", "broken"]).expect(2);
    ran.fails_with("repository-refused").naming("bad config line 1");
}

#[test]
fn worktrees_base_is_honoured() {
    let env = TestEnv::with_repo();
    // Relative to the file that says it.
    env.configure("worktrees: {base: copies}\n");
    env.run(&one("pwd > where"), &[]).expect(0);
    let expected = env.root().join("copies").join(env.session()).join("main");
    assert_eq!(env.committed("where"), expected.to_str().unwrap());

    // A place in the repository, as `.orchestra/worktrees` is: the user's status stays empty.
    let env = TestEnv::with_repo();
    env.write("repo/pleach.yaml", "worktrees: {base: .orchestra/worktrees}\n");
    env.write("repo/flow.dot", one("pwd > where; echo 1 > one"));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Set up"]);
    let ran = env.pleach(&["-y", "run", "flow.dot"]).expect(0);
    let expected = env.repo_path().join(".orchestra/worktrees").join(env.session()).join("main");
    assert_eq!(env.committed("where"), expected.to_str().unwrap());
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(ran.warnings(), [], "{ran}");
    assert_eq!(env.files(), ["README.md", "flow.dot", "one", "pleach.yaml", "where"]);
    // Again, now that it is there.
    let ran = env.pleach(&["-y", "run", "flow.dot"]).expect(0);
    assert_eq!(ran.warnings(), [], "{ran}");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

// ---- git itself

#[test]
fn a_missing_git_is_an_environment_error() {
    let env = TestEnv::with_repo();
    fs::create_dir(env.root().join("nothing")).unwrap();
    let path = env.root().join("nothing");
    let ran = run_with_path(&env, path.to_str().unwrap(), &one("true")).expect(7);
    insta::assert_snapshot!(ran, @"
    exit: 7
    --- stderr
    error[git-missing]: the git program cannot be run (No such file or directory (os error 2))
    hint: install git 2.38 or newer
    ");
}

#[test]
fn an_old_git_is_an_environment_error() {
    let env = TestEnv::with_repo();
    env.write_program("bin/git", "#!/bin/sh\necho 'git version 2.30.2'\n");
    let path = format!("{}:/usr/bin:/bin", env.root().join("bin").display());
    let ran = run_with_path(&env, &path, &one("true")).expect(7);
    insta::assert_snapshot!(ran, @"
    exit: 7
    --- stderr
    error[git-too-old]: git version 2.30.2 is too old
    hint: install git 2.38 or newer
    ");
}

// ---- one writer at a time

#[test]
fn a_second_writer_is_refused() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&three(&gate), &[]);
    let held = gate.reached(&mut run);
    let records = env.story().records.len();
    let second = env.resume(&[]).expect(6);
    assert!(
        second.stderr.contains(&format!("session {} is in use by process {}", env.session(), run.id())),
        "{second}"
    );
    second.fails_with("session-locked");
    assert_eq!(env.story().records.len(), records, "nothing was written");
    // Another session in the same repository is nobody's business.
    fs::write(env.root().join("other.dot"), one("true")).unwrap();
    env.pleach(&["-y", "run", "../other.dot"]).expect(0);
    gate.open(held);
    run.end().expect(0);
}

#[test]
fn sessions_that_start_at_once_each_get_a_worktree() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 6}\n");
    env.pipeline(&one("echo \"$PLEACH_SESSION\" > who"));
    let runs: Vec<Running<'_>> = (0..6).map(|_| env.spawn(&["-y", "run", "../pipeline.dot"])).collect();
    for run in runs {
        run.end().expect(0);
    }
    let sessions = env.sessions();
    assert_eq!(sessions.len(), 6);
    let worktrees = env.git(&["worktree", "list", "--porcelain"]);
    for session in &sessions {
        assert_eq!(worktrees.matches(&format!("/{session}/main\n")).count(), 1, "{worktrees}");
        assert_eq!(env.git(&["show", &format!("pleach/one/{session}:who")]), *session);
        assert_eq!(env.git(&["rev-list", "--count", &format!("main..pleach/one/{session}")]), "1");
    }
    assert_eq!(env.git(&["worktree", "prune", "--verbose", "--dry-run"]), "", "none is half made");
}

// ---- what is not committed

#[test]
fn what_one_session_has_not_committed_another_does_not_see() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "work");
    let work = format!("echo half > half; echo changed > README.md; git add -A; ({}); rm half", gate.command());
    let mut run = env.start(&one(&work), &[]);
    let held = gate.reached(&mut run);
    let first = env.session();
    assert_eq!(fs::read_to_string(env.worktree().join("half")).unwrap(), "half\n", "it is there, and uncommitted");
    fs::write(env.root().join("other.dot"), one("ls > seen; cat README.md >> seen; git status --porcelain >> seen"))
        .unwrap();
    env.pleach(&["-y", "run", "../other.dot"]).expect(0);
    let second = env.sessions().into_iter().find(|id| *id != first).expect("a second session");
    let seen = env.git(&["show", &format!("pleach/one/{second}:seen")]);
    assert_eq!(seen, "README.md\nseen\n# A repository\n?? seen");
    gate.open(held);
    run.end().expect(0);
    assert_eq!(env.git(&["diff", "--name-only", "main", &format!("pleach/one/{first}")]), "README.md");
    assert_eq!(env.git(&["diff", "--name-only", "main", &format!("pleach/one/{second}")]), "seen");
}

#[test]
fn dirty_files_are_named_in_a_warning() {
    let env = TestEnv::with_repo();
    let clean = env.run(&one("true"), &[]).expect(0);
    assert_eq!(clean.warnings(), [], "{clean}");
    env.write("repo/README.md", "# Changed\n");
    env.write("repo/new.txt", "new\n");
    let before = Checkout::of(&env, &env.repo_path());
    let ran = env.run(&one("cat README.md; ls"), &[]).expect(0);
    ran.warns("dirty-files").naming("`README.md`").naming("`new.txt`");
    before.assert_unchanged(&env, &env.repo_path());
    // They are named, not listed without end.
    for number in 0..20 {
        env.write(format!("repo/many/{number}"), "");
    }
    let ran = env.run(&one("true"), &[]).expect(0);
    ran.warns("dirty-files").naming("17 more");
    assert!(!env.run(&one("true"), &["-q"]).expect(0).stderr.contains("warning"));
}

#[test]
fn resume_keeps_a_dirty_worktree() {
    let (env, _) = paused();
    let worktree = env.worktree();
    fs::write(worktree.join("one"), "changed by hand\n").unwrap();
    fs::write(worktree.join("new file"), "new\n").unwrap();
    fs::remove_file(worktree.join("two")).unwrap();
    let ran = env.resume(&[]).expect(0);
    let kept = format!("refs/pleach/keep/{}-1", env.session());
    ran.warns("work-kept").naming(&kept);
    assert_eq!(env.git(&["show", &format!("{kept}:one")]), "changed by hand");
    assert_eq!(env.git(&["show", &format!("{kept}:new file")]), "new");
    assert_eq!(env.git(&["ls-tree", "--name-only", &kept]), "README.md\nnew file\none");
    let reason = env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Kept,valueonly)", &kept]);
    assert!(!reason.trim().is_empty());
    assert_complete(&env);
}

#[test]
fn submodules_are_left_alone() {
    let env = TestEnv::with_repo();
    let library = env.repo_at("library");
    let allow = ["-c", "protocol.file.allow=always"];
    env.git(&[&allow[..], &["submodule", "--quiet", "add", library.to_str().unwrap(), "lib"]].concat());
    env.git(&["commit", "--quiet", "-m", "Use the library"]);
    let link = env.git(&["rev-parse", "HEAD:lib"]);
    let before = Checkout::of(&env, &env.repo_path());
    let command = "git -c protocol.file.allow=always submodule --quiet update && git -C lib commit --quiet --allow-empty -m moved && echo 1 > one";
    let ran = env.run(&one(command), &[]).expect(0);
    assert_eq!(env.git(&["rev-parse", &format!("{}:lib", env.branch())]), link);
    assert_eq!(env.changed(&env.branch()), ["one"]);
    ran.warns("submodule-changed").naming("`lib`");
    before.assert_unchanged(&env, &env.repo_path());
}

// ---- what happens between two runs

#[test]
fn a_moved_session_branch_stops_resume() {
    let (env, _) = paused();
    let branch = env.branch();
    let tip = env.git(&["rev-parse", &branch]);
    let elsewhere = env.git(&["commit-tree", "-p", &tip, "-m", "By hand", &format!("{tip}^{{tree}}")]);
    env.git(&["update-ref", &format!("refs/heads/{branch}"), &elsewhere]);
    let ran = env.resume(&[]);
    assert_ne!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains(&branch) && ran.stderr.contains(&elsewhere), "{ran}");
    assert_eq!(env.git(&["rev-parse", &branch]), elsewhere, "nothing is moved over it");
    // The hint does what it says: both are there afterwards, and the session continues.
    let hint = ran.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).expect("a hint").to_owned();
    let (_, commands) = hint.split_once(": ").expect("commands");
    let done = env.program("sh", &env.repo_path()).args(["-c", commands]).status().expect("sh can be started");
    assert!(done.success(), "{commands}");
    assert_eq!(env.git(&["rev-parse", &format!("{branch}-moved")]), elsewhere);
    env.resume(&[]).expect(0);
    assert_complete(&env);
}

#[test]
fn resume_after_losing_every_file_outside_git() {
    // All machine-local state gone.
    let (env, _) = paused();
    fs::remove_dir_all(env.root().join("state")).unwrap();
    fs::remove_dir_all(env.repo_path().join(".git/pleach")).unwrap();
    env.resume(&[]).expect(0);
    assert_complete(&env);

    // Another machine: a clone with the records, under another name, without even the branch.
    let (env, _) = paused();
    let session = env.session();
    let clone = env.root().join("clone");
    env.git(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    env.git_in(&clone, &["fetch", "--quiet", "origin", "refs/pleach/*:refs/pleach/*"]);
    fs::rename(env.repo_path(), env.root().join("gone")).unwrap();
    fs::remove_dir_all(env.root().join("state")).unwrap();
    let ran = env.pleach(&["-y", "-C", "clone", "resume", &session]).expect(0);
    let story = Story::of(&env, &clone, &session);
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
    assert!(ran.stdout.contains(&format!("pleach/three/{session}")), "{ran}");
    assert_eq!(env.git_in(&clone, &["show", &format!("pleach/three/{session}:three")]), "1\n1");
    assert_eq!(env.git_in(&clone, &["status", "--porcelain"]), "");
}

#[test]
fn a_removed_worktree_is_made_again() {
    let (env, _) = paused();
    let worktree = env.worktree();
    fs::remove_dir_all(&worktree).unwrap();
    env.resume(&[]).expect(0);
    assert_eq!(env.worktree(), worktree);
    assert_complete(&env);
    assert_eq!(env.story().all("WorktreeCreated").len(), 2);
    // Removed by git itself, which then does not know it any more.
    let (env, _) = paused();
    let worktree = env.worktree();
    env.git(&["worktree", "remove", "--force", worktree.to_str().unwrap()]);
    env.resume(&[]).expect(0);
    assert_complete(&env);
}

#[test]
fn a_previous_clones_worktree_is_adopted_and_its_work_kept() {
    // The repository was cloned again at the same place, while the worktree of the old one is still there.
    let (env, _) = paused();
    let (session, worktree) = (env.session(), env.worktree());
    fs::write(worktree.join("precious"), "mine\n").unwrap();
    fs::rename(env.repo_path(), env.root().join("old")).unwrap();
    env.git_in(env.root(), &["clone", "--quiet", "old", "repo"]);
    env.git(&["fetch", "--quiet", "origin", "refs/pleach/*:refs/pleach/*"]);
    env.resume(&[]).expect(0);
    assert_complete(&env);
    assert_eq!(env.git(&["show", &format!("refs/pleach/keep/{session}-1:precious")]), "mine");
}

#[test]
fn a_worktree_of_another_repository_is_not_touched() {
    let env = TestEnv::with_repo();
    env.write("config/pleach/config.yaml", format!("worktrees: {{base: '{}/copies'}}\n", env.root().display()));
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&three(&gate), &[]);
    let held = gate.reached(&mut run);
    let (session, worktree) = (env.session(), env.worktree());
    env.git_in(env.root(), &["clone", "--quiet", "repo", "clone"]);
    env.git_in(&env.root().join("clone"), &["fetch", "--quiet", "origin", "refs/pleach/*:refs/pleach/*"]);
    let ran = env.pleach(&["-y", "-C", "../clone", "resume", &session]).expect(7);
    assert!(ran.stderr.contains(worktree.to_str().unwrap()), "{ran}");
    ran.fails_with("worktree-link-replaced");
    gate.open(held);
    run.end().expect(0);
    assert_complete(&env);
}

#[test]
fn a_killed_run_resumes_where_it_was() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "second");
    let mut run: Running<'_> = env.start(&three(&gate), &[]);
    let held: Held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_complete(&env);
    assert_eq!(env.commits().len(), 3);
}

// ---- how a worktree is made

#[test]
fn ignored_files_are_copied_in_and_never_committed() {
    let env = TestEnv::with_repo();
    env.write("repo/.gitignore", ".env\nnode_modules/\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Ignore"]);
    env.write("repo/.env", "A=1\n");
    env.write_program("repo/node_modules/tool/run", "#!/bin/sh\necho from the tool\n");
    env.write("repo/node_modules/other", "x\n");
    env.configure("worktrees: {include_ignored: [.env, node_modules, absent]}\n");
    // The rules that ignore them are gone, and still they are not committed.
    let ran = env.run(&one("rm .gitignore; cat .env > seen; node_modules/tool/run >> seen"), &[]).expect(0);
    assert_eq!(env.committed("seen"), "A=1\nfrom the tool");
    assert_eq!(env.files(), ["README.md", "seen"], "{ran}");
}

#[test]
fn excluded_files_are_absent_in_worktrees_and_kept_in_commits() {
    let env = TestEnv::with_repo();
    env.write("repo/.claude/settings.json", "{}\n");
    env.write("repo/old/deep/file", "old\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    env.configure("worktrees: {exclude: [.claude/, old]}\n");
    let gate = Gate::new(&env, "second");
    let look = "ls -A > seen; git status --porcelain > state";
    let dot = graph(
        "some",
        &format!(
            "{} {} start -> a -> b -> exit",
            tool("a", look),
            tool("b", &format!("{}; echo 2 > two", gate.command()))
        ),
    );
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_eq!(env.committed("seen"), ".git\nREADME.md\nseen");
    assert_eq!(env.committed("state"), "?? seen\n?? state");
    assert_eq!(env.files(), [".claude/settings.json", "README.md", "old/deep/file", "seen", "state", "two"]);
    env.configure("worktrees: {exclude: [../other]}\n");
    let ran = env.pleach(&["config"]).expect(2);
    ran.fails_with("settings-invalid").naming("`../other`");
}

#[test]
fn setup_runs_once_in_each_new_worktree() {
    let env = TestEnv::with_repo();
    env.write("repo/.gitignore", "deps\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Ignore"]);
    env.configure("worktrees: {setup: 'echo installed >> deps'}\n");
    let gate = Gate::new(&env, "second");
    let dot = three(&gate).replace("cat one two > three", "cat one two > three; test -s deps");
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    let worktree = env.worktree();
    assert_eq!(fs::read_to_string(worktree.join("deps")).unwrap(), "installed\n");
    run.stop();
    gate.open(held);
    run.end().expect(3);
    env.resume(&[]).expect(0);
    assert_eq!(fs::read_to_string(worktree.join("deps")).unwrap(), "installed\n", "not again for the same worktree");
    assert_complete_with_ignore(&env);
    // The trust it needs is asked for like any other command's.
    let env = TestEnv::with_repo();
    env.configure("worktrees: {setup: 'echo hello'}\n");
    env.pipeline(&graph("empty", "start -> exit"));
    let ran = env.pleach(&["run", "../pipeline.dot"]).expect(4);
    ran.fails_with("trust-missing").naming("-y");
    assert!(ran.stderr.contains("echo hello"), "{ran}");
}

#[track_caller]
fn assert_complete_with_ignore(env: &TestEnv) {
    assert_eq!(env.committed("three"), "1\n1");
    assert_eq!(env.files(), [".gitignore", "README.md", "one", "three", "two"]);
}

#[test]
fn a_failing_setup_is_an_environment_error() {
    let env = TestEnv::with_repo();
    env.write("repo/.gitignore", "deps\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Ignore"]);
    let registry = env.root().join("registry");
    env.configure(&format!("worktrees: {{setup: 'echo looking for packages; cat {} > deps'}}\n", registry.display()));
    let ran = env.run(&one("cat deps > used"), &[]).expect(7);
    ran.fails_with("setup-failed").naming("exit 1").naming("looking for packages").naming("No such file");
    // Mended, the session continues, and its setup has run.
    fs::write(&registry, "a package\n").unwrap();
    env.resume(&[]).expect(0);
    assert_eq!(env.committed("used"), "a package");
}

#[test]
fn a_worktree_that_cannot_be_written_is_an_environment_error() {
    let env = TestEnv::with_repo();
    env.write("blocked", "a file where a directory is needed");
    env.configure("worktrees: {base: blocked/here}\n");
    let ran = env.run(&one("true"), &[]).expect(7);
    ran.fails_with("worktree-base").naming("blocked/here");
    fs::set_permissions(env.root().join("blocked"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

// ---- and how it goes

#[test]
fn worktrees_are_made_and_removed() {
    let env = TestEnv::with_repo();
    env.run(&one("echo 1 > one"), &[]).expect(0);
    let first = (env.session(), env.worktree());
    env.run(&one("echo 2 > two"), &[]).expect(0);
    let second = env.sessions().into_iter().find(|id| *id != first.0).expect("a second session");
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 3);
    env.git(&["merge", "--quiet", &format!("pleach/one/{}", first.0)]);
    env.pleach(&["rm", &first.0]).expect(0);
    assert!(!first.1.exists());
    // The other one and the user's own are still there, on disk and for git.
    let left = env.git(&["worktree", "list"]);
    assert_eq!(left.lines().count(), 2, "{left}");
    assert!(left.contains(&second), "{left}");
    assert_eq!(env.git(&["worktree", "prune", "--verbose", "--dry-run"]), "");
}

#[test]
fn rm_keeps_uncommitted_work() {
    let (env, _) = paused();
    let (session, worktree) = (env.session(), env.worktree());
    fs::write(worktree.join("one"), "changed by hand\n").unwrap();
    fs::write(worktree.join("new"), "new\n").unwrap();
    let ran = env.pleach(&["rm", &session, "--force"]).expect(0);
    assert!(!worktree.exists());
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep"]);
    assert!(kept.lines().all(|name| ran.stdout.contains(name)), "{ran}");
    let files = |path: &str| kept.lines().any(|name| env.git(&["show", &format!("{name}:{path}")]).contains("new"));
    assert!(files("new"));
    let changed = kept.lines().any(|name| env.git(&["show", &format!("{name}:one")]) == "changed by hand");
    assert!(changed, "{kept}");
}
