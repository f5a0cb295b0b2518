//! What belongs to the user stays the user's: checkout, index, HEAD, config, hooks. And what agents do with git on
//! their own account.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::sessions::{Gate, graph, tool};
use crate::support::{Checkout, TestEnv};

fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

/// A pipeline with one agent node, `code`, and a script of shell commands: one turn each.
fn agent(commands: &[&str]) -> (TestEnv, String) {
    let mut script = String::from("model: m\nscripts:\n  - name: code\n    steps:\n");
    for command in commands {
        let call = serde_json::json!([{"shell": {"command": command}}]);
        script.push_str(&format!("      - {{text: Do the next step., tools: {call}}}\n"));
    }
    script.push_str("      - text: Done.\n");
    (TestEnv::with_script(&script), graph("one", "code [prompt=\"Work\"] start -> code -> exit"))
}

/// Commits something as an agent would.
const COMMIT: &str = "echo mine > mine && git add mine && git commit --quiet -m 'Of my own'";

fn branch_of(pipeline: &str) -> String {
    format!("refs/heads/pleach/{pipeline}/$PLEACH_SESSION")
}

#[test]
fn the_checkout_stays_byte_for_byte_what_it_was() {
    let env = TestEnv::with_repo();
    let repo = env.repo_path();
    env.write("repo/.gitignore", "*.log\n");
    env.write_program("repo/run.sh", "#!/bin/sh\n");
    env.write("repo/gone", "1\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    // All a user can be in the middle of.
    env.write("repo/README.md", "# Changed\n");
    env.write("repo/staged", "staged\n");
    env.git(&["add", "staged"]);
    env.write("repo/staged", "staged and changed again\n");
    env.write("repo/untracked", "1\n");
    env.write("repo/build.log", "ignored\n");
    fs::remove_file(repo.join("gone")).unwrap();
    std::os::unix::fs::symlink("README.md", repo.join("link")).unwrap();
    env.git(&["stash", "list"]);
    let before = Checkout::of(&env, &repo);

    let gate = Gate::new(&env, "second");
    let dot = graph(
        "busy",
        &(tool(
            "first",
            "echo agent > README.md; rm gone run.sh; echo x > untracked; git add -A; git stash list; git status",
        ) + &tool("second", &format!("({}); echo 2 > two", gate.command()))
            + &tool("third", "git log --oneline; exit 1")
            + "start -> first -> second -> third -> exit"),
    );
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    before.assert_unchanged(&env, &repo);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    before.assert_unchanged(&env, &repo);
    env.resume(&[]).expect(1);
    before.assert_unchanged(&env, &repo);
    assert_eq!(env.committed("README.md"), "agent");
    env.assert_no_process_left();
}

#[test]
fn what_a_shell_writes_into_the_checkout_is_named() {
    let env = TestEnv::with_repo();
    env.unbound();
    let repo = env.repo_path();
    let command =
        format!("echo oops > '{0}/README.md'; echo new > '{0}/new'; git branch stray; git tag marked", repo.display());
    let ran = env.run(&one(&command), &[]).expect(0);
    let told = ran.warns_once("changed-outside").naming("`work`").naming("`README.md`").naming("`new`");
    told.naming("`refs/heads/stray`").naming("`refs/tags/marked`");
    assert_eq!(env.story().warnings().len(), 1, "and it is in the record");
    // It is reported and left.
    assert_eq!(env.read("repo/README.md"), "oops\n");
    env.git(&["rev-parse", "--verify", "refs/heads/stray"]);
}

#[test]
fn a_change_of_git_config_or_hooks_fails_the_node() {
    for (command, name) in [
        ("git config core.editor vim", ".git/config"),
        ("echo '#!/bin/sh' > \"$(git rev-parse --git-common-dir)/hooks/post-checkout\"", "hooks/post-checkout"),
        (
            "mkdir -p \"$(git rev-parse --git-common-dir)/info\"; echo '* text' > \"$(git rev-parse --git-common-dir)/info/attributes\"",
            "info/attributes",
        ),
    ] {
        let env = TestEnv::with_repo();
        env.unbound();
        let dot = graph(
            "one",
            &(tool("work", &format!("echo 1 > one; {command}"))
                + &tool("mended", "true")
                + "start -> work  work -> exit [condition=\"outcome=success\"]  work -> mended [condition=\"outcome=fail\"]  mended -> exit"),
        );
        env.run(&dot, &[]).expect(0);
        let story = env.story();
        assert_eq!(story.path()[1..3], ["work:fail", "mended:success"]);
        let reason = story.node("work")["outcome"]["failure_reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(name), "{command}: {reason}");
        assert_eq!(env.committed("one"), "1", "what it wrote is committed all the same");
    }
    // The same for an agent, and without an edge for it the run fails.
    let (env, dot) = agent(&["git config alias.x y"]);
    env.unbound();
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains(".git/config"), "{ran}");
}

#[test]
fn an_agent_that_moves_the_session_branch_fails() {
    let branch = branch_of("one");
    let elsewhere = format!("git update-ref {branch} $(git commit-tree -p HEAD -m elsewhere HEAD^{{tree}})");
    let removed = format!("git update-ref -d {branch}");
    for command in [&elsewhere, &removed] {
        let (env, dot) = agent(&[&format!("echo 1 > one; {command}"), "echo 2 > two"]);
        env.unbound();
        let ran = env.run(&dot, &[]).expect(1);
        assert!(ran.stdout.contains("pleach/one/"), "{ran}");
        let story = env.story();
        let failed = story.last("PipelineFailed");
        assert_eq!(failed["node_id"], "code");
        assert!(failed["reason"].as_str().unwrap().contains("branch `pleach/one/"), "{failed}");

        let (env, dot) = agent(&[command]);
        env.unbound();
        let dot = dot.replace("code [", "code [write=false, ");
        env.run(&dot, &[]).expect(1);
        assert_eq!(env.story().last("PipelineFailed")["node_id"], "code");

        let env = TestEnv::with_repo();
        env.unbound();
        env.run(&one(command), &[]).expect(1);
        assert_eq!(env.story().last("PipelineFailed")["node_id"], "work");

        // Also where nothing may be written.
        let env = TestEnv::with_repo();
        env.unbound();
        let dot = one(command).replace("shape=parallelogram", "shape=parallelogram, write=false");
        env.run(&dot, &[]).expect(1);
        assert_eq!(env.story().last("PipelineFailed")["node_id"], "work");
    }
}

#[test]
fn an_agent_moving_the_record_fails_and_loses_nothing() {
    let moved = "git update-ref refs/pleach/sessions/$PLEACH_SESSION/main HEAD";
    let removed = "git update-ref -d refs/pleach/sessions/$PLEACH_SESSION/main";
    for command in [moved, removed] {
        let env = TestEnv::with_repo();
        env.unbound();
        env.run(&one(&format!("echo 1 > one; {command}")), &[]).expect(1);
        let story = env.story();
        let failed = story.last("NodeExecution");
        assert_eq!(failed["outcome"]["status"], "fail");
        let reason = failed["outcome"]["failure_reason"].as_str().unwrap();
        assert!(reason.contains("the session's own record was moved or removed"), "{reason}");
        assert_eq!(env.files(), ["README.md", "one"], "the work is on the branch all the same");
    }
}

#[test]
fn an_agent_removing_kept_work_fails_and_it_returns() {
    let env = TestEnv::with_repo();
    env.unbound();
    let dot = r#"digraph one {
        start [shape=Mdiamond]
        exit [shape=Msquare]
        look [shape=parallelogram, write=false, tool_command="echo 1 > kept"]
        work [shape=parallelogram, tool_command="git update-ref -d refs/pleach/keep/$PLEACH_SESSION-1"]
        start -> look -> work -> exit
    }"#;
    env.run(dot, &[]).expect(1);
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
    let reason = env.story().last("PipelineFailed")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("which was restored"), "{reason}");
}

#[test]
fn an_agent_that_commits_by_itself_keeps_its_commits() {
    let (env, dot) = agent(&["echo 1 > one", COMMIT, "echo 3 > three"]);
    env.run(&dot, &[]).expect(0);
    let story = env.story();
    let turns = story.all("AgentTurn");
    let own = turns[1]["agent_head"]["repo"].as_str().expect("its own commit is recorded");
    assert_eq!(env.git(&["log", "-1", "--format=%an <%ae>|%s", own]), "code (builtin) <orchestra@local>|Of my own");
    let turn = turns[1]["git_sha"]["repo"].as_str().expect("a turn commit");
    let previous = turns[0]["git_sha"]["repo"].as_str().expect("the commit before");
    assert_eq!(env.git(&["log", "-1", "--format=%P", turn]), format!("{previous} {own}"));
    // The tree of the turn is the worktree: also what the agent did not add.
    assert_eq!(env.files(), ["README.md", "mine", "one", "three"]);
    env.git(&["merge-base", "--is-ancestor", own, &env.branch()]);
    // It is joined once.
    let last = turns[2]["git_sha"]["repo"].as_str().unwrap();
    assert_eq!(env.git(&["log", "-1", "--format=%P", last]), turn);
    assert_eq!(env.git(&["rev-list", "--merges", "--count", &format!("main..{}", env.branch())]), "1");
    assert_eq!(env.git(&["fsck", "--strict"]), "");

    // A tool node's commits as well.
    let env = TestEnv::with_repo();
    env.run(&one(&format!("{COMMIT}; echo 2 > two")), &[]).expect(0);
    let parents = env.git(&["log", "-1", "--format=%P", &env.branch()]);
    assert_eq!(parents.split(' ').count(), 2, "{parents}");
    assert_eq!(env.files(), ["README.md", "mine", "two"]);
    let worktree = env.worktree();
    assert_eq!(env.git_in(&worktree, &["rev-parse", "HEAD"]), env.git(&["rev-parse", &env.branch()]));
    assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "");
}

#[test]
fn an_agent_can_untrack_a_file_by_its_commit() {
    let env = TestEnv::with_repo();
    for path in ["repo/secret.env", "repo/out/made", "repo/plain"] {
        env.write(path, "tracked\n");
    }
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Too much"]);
    let ignore = "printf 'secret.env\\nout/\\n' > .gitignore";
    let stop = "git rm -r --quiet --cached secret.env out plain; echo 1 > out/forced; git add --force out/forced; git commit --quiet -m 'Stop'";
    let dot = graph(
        "stop",
        // What is ignored is tracked as before, as long as nobody says otherwise.
        &(tool("ignore", &format!("{ignore}; echo changed > secret.env"))
            + &tool("stop", stop)
            + &tool(
                "look",
                "cat secret.env out/made plain > seen; echo more > secret.env; git status --porcelain > left",
            )
            + "start -> ignore -> stop -> look -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    // What is not ignored is part of the worktree, and so of the commit.
    assert_eq!(
        changed,
        [vec![".gitignore", "secret.env"], vec!["out/forced", "out/made", "secret.env"], vec!["left", "seen"]],
        "{ran}"
    );
    assert_eq!(env.committed("seen"), "changed\ntracked\ntracked");
    assert!(!env.committed("left").contains("secret"), "{}", env.committed("left"));
}

#[test]
fn commits_on_an_agents_branch_are_merged() {
    let (env, dot) = agent(&[&format!("git checkout --quiet -b feature && {COMMIT}")]);
    env.unbound();
    let ran = env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "mine"]);
    let feature = env.git(&["rev-parse", "refs/heads/feature"]);
    env.git(&["merge-base", "--is-ancestor", &feature, &env.branch()]);
    ran.warns("changed-outside").naming("`refs/heads/feature`");
    assert_eq!(env.git_in(&env.worktree(), &["branch", "--show-current"]), "");
}

#[test]
fn an_agent_that_checks_the_session_branch_out_is_adopted() {
    let checkout = format!("git checkout --quiet \"pleach/one/$PLEACH_SESSION\" && {COMMIT}");
    let (env, dot) = agent(&[&checkout, "git branch --show-current > where; echo 2 > two"]);
    env.unbound();
    env.run(&dot, &[]).expect(0);
    let story = env.story();
    let own = story.all("AgentTurn")[0]["agent_head"]["repo"].as_str().expect("its own commit is recorded").to_owned();
    env.git(&["merge-base", "--is-ancestor", &own, &env.branch()]);
    assert_eq!(env.files(), ["README.md", "mine", "two", "where"]);
    assert_eq!(env.committed("where"), "", "HEAD is detached again");
    assert_eq!(env.git_in(&env.worktree(), &["branch", "--show-current"]), "");
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
}

#[test]
fn an_unfinished_rebase_does_not_reach_the_next_node() {
    let env = TestEnv::with_repo();
    let mess = "echo a > README.md; git commit --quiet -am a; git checkout --quiet --detach HEAD^; echo b > README.md; git commit --quiet -am b; git merge ORIG_HEAD HEAD@{1} 2>&1 || true; git cherry-pick HEAD@{2} 2>&1 || true; rm -f README.md; echo resolved > README.md";
    let dot = graph(
        "mess",
        &(tool("work", mess)
            + &tool(
                "look",
                "git status --porcelain=v2 --branch > status; test ! -e \"$(git rev-parse --git-dir)/MERGE_HEAD\" -a ! -e \"$(git rev-parse --git-dir)/CHERRY_PICK_HEAD\"",
            )
            + "start -> work -> look -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("README.md"), "resolved");
    let status = env.committed("status");
    assert!(!status.lines().any(|line| line.starts_with(['1', '2', 'u'])), "{status}");
}

// ---- who may write

#[test]
fn a_read_only_node_is_undone_and_its_work_kept() {
    let env = TestEnv::with_repo();
    let review = "echo bad > README.md; echo new > new; git add -A".to_owned();
    let dot = graph(
        "review",
        &(tool("work", "echo 1 > one")
            + &tool("review", &review).replace("shape=parallelogram", "shape=parallelogram, write=false")
            + &tool("after", "cat README.md; ls; git status --porcelain > status; test ! -s status; rm status")
            + "start -> work -> review -> after -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(0);
    assert_eq!(env.story().path()[2], "review:success");
    assert_eq!(env.files(), ["README.md", "one"]);
    assert_eq!(env.committed("README.md"), "# A repository");
    let kept = format!("refs/pleach/keep/{}-1", env.session());
    ran.warns("read-only-undone").naming("`review`");
    assert!(ran.stderr.contains(&kept), "{ran}");
    assert_eq!(env.git(&["show", &format!("{kept}:README.md")]), "bad");
    assert_eq!(env.git(&["show", &format!("{kept}:new")]), "new");
    assert_eq!(env.git(&["show", &format!("{kept}:one")]), "1");

    // An agent whose every turn writes.
    let (env, dot) = agent(&["echo 1 > one", "cat one > two"]);
    env.run(&dot.replace("code [", "code [write=false, "), &[]).expect(0);
    assert_eq!(env.files(), ["README.md"]);
    let kept = format!("refs/pleach/keep/{}-1", env.session());
    assert_eq!(env.git(&["show", &format!("{kept}:two")]), "1");
    assert!(env.story().all("AgentTurn").iter().all(|turn| turn["git_sha"].is_null()));
}

#[test]
fn commits_of_a_read_only_node_are_kept_too() {
    let env = TestEnv::with_repo();
    let command = format!("{COMMIT}; git rm --quiet mine; git commit --quiet -m 'And away'");
    let dot = one(&command).replace("shape=parallelogram", "shape=parallelogram, write=false");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md"]);
    let kept = env.git(&["log", "--format=%s", &format!("refs/pleach/keep/{}-1", env.session())]);
    assert!(kept.contains("Of my own") && kept.contains("And away"), "{kept}");
    assert_eq!(env.git_in(&env.worktree(), &["rev-parse", "HEAD"]), env.git(&["rev-parse", "main"]));
}

#[test]
fn a_node_that_must_write_fails_when_nothing_changed() {
    let must = |command: &str| one(command).replace("shape=parallelogram", "shape=parallelogram, write=must");
    let env = TestEnv::with_repo();
    let ran = env.run(&must("true"), &[]).expect(1);
    assert!(ran.stdout.contains("changed none"), "{ran}");
    let env = TestEnv::with_repo();
    env.run(&must("echo 1 > one"), &[]).expect(0);
    // An agent that only talks; one that writes and takes it back; one that writes in an earlier turn than its last.
    for (commands, code) in [(&["ls"][..], 1), (&["echo 1 > one", "rm one"][..], 1), (&["echo 1 > one", "ls"][..], 0)] {
        let (env, dot) = agent(commands);
        env.run(&dot.replace("code [", "code [write=must, "), &[]).expect(code);
    }
}

// ---- what is held back

#[test]
fn large_files_are_held_back_with_a_warning() {
    let env = TestEnv::with_repo();
    // Without content on disk: only its size counts.
    let ran = env.run(&one("truncate -s 51M big.bin; truncate -s 1M small.bin; echo 1 > one"), &[]).expect(1);
    assert_eq!(env.files(), ["README.md", "one", "small.bin"]);
    ran.warns("file-held-back").naming("`big.bin`").naming("MiB");
    assert!(env.worktree().join("big.bin").exists(), "it stays where it is");
    assert!(ran.stdout.contains("1 file is held back, and no deletion is committed with that"), "{ran}");
    // A run that continues all the same, and of which nothing else is left, does not say that nothing was changed.
    let env = TestEnv::with_repo();
    let on = tool("work", "truncate -s 51M a.bin; truncate -s 51M b.bin")
        + "start -> work; work -> exit [condition=\"outcome=fail\"]";
    let ran = env.run(&graph("one", &on), &[]).expect(0);
    assert!(ran.stdout.contains("\nno file was committed: 2 files were held back, as the warnings say\n"), "{ran}");
    let env = TestEnv::with_repo();
    let ran = env.run(&one("true"), &[]).expect(0);
    assert!(ran.stdout.contains("\nno file was changed\n"), "{ran}");
}

#[test]
fn held_back_files_survive_undoing_a_read_only_node() {
    let env = TestEnv::with_repo();
    let many = "mkdir gen; for i in $(seq 5001); do : > gen/$i; done; echo real > real; truncate -s 51M big";
    let look = |id: &str, command: &str| tool(id, command).replace("[", "[write=false, ");
    let dot = graph(
        "held",
        &(tool("work", many)
            + &look("look", "test -e real -a -e gen/17")
            + &look("write", "echo bad > junk; echo bad > gen/17; rm gen/18")
            + " ask [shape=hexagon, label=\"Go on?\"]\n"
            + &tool("after", "cat real gen/16; test ! -e junk; stat -c %s big; ls gen > ls; rm -r gen big")
            + "start -> work; work -> look [condition=\"outcome=fail\"]; look -> write -> ask; ask -> after [label=\"Yes\"]; ask -> exit [label=\"No\"]"
            + "\nafter -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(4);
    ran.warns_once("read-only-undone").naming("`write`").naming("(`gen/17`, `junk`)");
    let lost = "`write` must not write, and changed uncommitted files: `gen/17`, `gen/18` cannot be restored";
    assert!(ran.stderr.contains(lost), "{ran}");
    let kept = format!("refs/pleach/keep/{}-1", env.session());
    assert_eq!(env.git(&["ls-tree", "-r", "--name-only", &kept]), "README.md\ngen/17\njunk");
    assert_eq!(env.git(&["show", &format!("{kept}:gen/17")]), "bad");
    env.resume(&["--answer", "ask=Yes"]).expect(0);
    assert_eq!(env.files(), ["README.md", "ls", "real"], "what is not too much any more is committed");
    assert_eq!(env.committed("ls").lines().count(), 4999);
    let one_of_ours = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(one_of_ours, kept, "nothing else had to be kept");
}

#[test]
fn a_repository_inside_is_not_committed() {
    let env = TestEnv::with_repo();
    let ran = env.run(&one("git init --quiet inner && echo 1 > inner/file && echo 2 > two && mkdir plain && echo 3 > plain/.gitkeep"), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "plain/.gitkeep", "two"]);
    ran.warns("nested-repository").naming("`inner`");
}

#[test]
fn a_repository_inside_is_named_at_the_start() {
    let env = TestEnv::with_repo();
    env.git(&["init", "--quiet", "inner"]);
    env.write("repo/inner/file", "1\n");
    let ran = env.run(&one("echo 2 > two"), &[]).expect(0);
    ran.warns_once("nested-repository").naming("`inner`").naming("workspace.repos");
    ran.does_not_warn("dirty-files");
}

/// What pleach had in memory at most when a node ran, in KiB.
const PEAK: &str = "pleach=$(sed -n 's/^PPid:\t//p' /proc/$PPID/status); sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' \
                    /proc/$pleach/status > peak";

#[test]
fn a_huge_file_is_committed_in_constant_memory() {
    let env = TestEnv::with_repo();
    env.configure("commit: {max_file_mb: 0}\n");
    let nodes = tool("make", "truncate -s 160M huge") + &tool("look", PEAK) + "start -> make -> look -> exit";
    env.run(&graph("huge", &nodes), &[]).expect(0);
    assert_eq!(env.git(&["cat-file", "-s", &format!("{}:huge", env.branch())]), (160 << 20).to_string());
    let peak: u64 = env.committed("peak").parse().expect("a number");
    assert!(peak > 1024 && peak < 120 * 1024, "{peak} KiB");
}

#[test]
fn a_deleted_git_link_does_not_lead_into_another_repository() {
    // The base is in the user's checkout, where git would walk up into it.
    let env = TestEnv::with_repo();
    env.configure("worktrees: {base: repo/.orchestra/worktrees}\n");
    let (before_head, command) =
        (env.git(&["rev-parse", "HEAD"]), "rm .git; echo 1 > one; git add -A; git commit --quiet -m stray; true");
    let dot = graph(
        "link",
        &(tool("work", command)
            + &tool("after", "git rev-parse --show-toplevel > top")
            + "start -> work -> after -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.git(&["rev-parse", "HEAD"]), before_head);
    assert_eq!(env.git(&["diff", "--cached", "--name-only"]), "");
    assert_eq!(env.committed("one"), "1");
    assert_eq!(env.committed("top"), env.worktree().to_str().unwrap());
}

// ---- Ctrl-C

/// An agent whose second turn waits at a gate, between two tools.
fn waiting_agent(env: &TestEnv, gate: &Gate) -> String {
    let wait = Value::from(format!("echo two > two; {}", gate.command()));
    env.script(&format!(
        "model: m\nscripts:\n  - name: code\n    steps:\n      - {{text: Add one., tools: [{{write_file: {{file_path: one, content: '1'}}}}]}}\n      - {{text: Add two., tools: [{{shell: {{command: {wait}, timeout_ms: 600000}}}}]}}\n      - {{text: Add three., tools: [{{shell: {{command: cat one two > three}}}}]}}\n      - text: Done.\n"
    ));
    graph(
        "one",
        &("code [prompt=\"Work\"]".to_owned() + &tool("last", "cat three > four") + "start -> code -> last -> exit"),
    )
}

#[track_caller]
fn assert_same_end(env: &TestEnv) {
    assert_eq!(env.files(), ["README.md", "four", "one", "three", "two"]);
    assert_eq!(env.committed("four"), "1two");
    let story = env.story();
    let turns: Vec<_> = story.events().filter_map(|(_, data)| data["turn_number"].as_u64()).collect();
    assert_eq!(turns, [1, 2, 3, 4, 5], "no turn twice, none missing");
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
    env.assert_no_process_left();
}

#[test]
fn ctrl_c_finishes_the_turn_and_says_how_to_resume() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "two");
    let dot = waiting_agent(&env, &gate);
    let before = Checkout::of(&env, &env.repo_path());
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    let ran = run.end().expect(3);
    assert!(ran.stdout.contains(&format!("resume:  pleach resume {}", env.session())), "{ran}");
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 2, "the turn in flight was finished and recorded");
    assert_eq!(story.last("PipelinePaused")["node_id"], "code");
    before.assert_unchanged(&env, &env.repo_path());
    env.assert_no_process_left();
    env.resume(&[]).expect(0);
    assert_same_end(&env);
}

#[test]
fn a_new_worktree_has_nothing_to_keep() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "two");
    let mut run = env.start(&waiting_agent(&env, &gate), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    // As in an empty directory: the files of the node's turns are in no worktree.
    std::fs::remove_dir_all(env.worktree()).unwrap();
    env.resume(&[]).expect(0).does_not_warn("work-kept");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep/"]), "");
    assert_same_end(&env);
}

#[test]
fn a_cancelled_session_finishes_its_turn() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "two");
    let dot = waiting_agent(&env, &gate);
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    let mut cancel = env.command(&["cancel", &env.session(), "--grace", "600"]);
    let cancel = cancel.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
    run.wait_for("cancelled with");
    gate.open(held);
    run.end().expect(1);
    let cancel = cancel.wait_with_output().expect("a child to wait for");
    assert!(cancel.status.success(), "{cancel:?}");
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 2, "the turn in flight was finished and recorded");
    assert_eq!(story.kinds().last(), Some(&"PipelineCancelled"));
    assert!(story.all("PipelinePaused").is_empty());
    env.assert_no_process_left();
}

#[test]
fn a_second_ctrl_c_kills_the_agent_and_loses_nothing() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "two");
    let dot = waiting_agent(&env, &gate);
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    // Nobody opens the gate: the command is killed.
    let ran = run.end().expect(3);
    drop(held);
    assert!(ran.stdout.contains(&format!("pleach resume {}", env.session())), "{ran}");
    env.assert_no_process_left();
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 1, "the turn that was killed is not recorded");
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_same_end(&env);
}

#[test]
fn a_tool_that_is_killed_is_run_again() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "tool");
    let command = format!("echo half > half; ({}); rm -f half; echo whole > whole", gate.command());
    let mut run = env.start(&one(&command), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    run.end().expect(3);
    env.assert_no_process_left();
    drop(held);
    gate.stay_open();
    let ran = env.resume(&[]).expect(0);
    assert_eq!(env.files(), ["README.md", "whole"]);
    assert_eq!(env.commits().len(), 1);
    // What the killed run wrote is kept.
    ran.warns("work-kept").naming("refs/pleach/keep/");
}

// ---- secrets

#[test]
fn secrets_are_not_recorded() {
    let secret = "zx81-Quite-Secret-9f3";
    let script = format!(
        "model: m\nscripts:\n  - name: code\n    steps:\n      - {{text: Add the key {secret} to a file., tools: [{{shell: {{command: cat ../../../../../../key | tee copy}}}}]}}\n      - text: The key is {secret}.\n"
    );
    let env = TestEnv::with_script(&script);
    env.write("key", format!("{secret}\n"));
    let key = env.root().join("key");
    env.write("script.yaml", script.replace("../../../../../../key", key.to_str().unwrap()));
    let dot = graph(
        "secrets",
        &("code [prompt=\"Work\"]".to_owned()
            + &tool(
                "print",
                &format!("cat '{0}'; cat '{0}' >&2; echo ${{DEMO_API_KEY:-not passed on}}; exit 3", key.display()),
            )
            + "start -> code -> print  print -> exit [condition=\"outcome=fail\"]"),
    );
    env.pipeline(&dot);
    let run = |args: &[&str]| {
        let mut command = env.command(args);
        env.finish(command.env("DEMO_API_KEY", secret).output().expect("pleach can be started"))
    };
    let ran = run(&["-y", "run", "../pipeline.dot", "--json"]).expect(0);
    let story = env.story();
    let text = story.whole_text(&env);
    assert!(!text.contains(secret), "the record holds the secret");
    assert!(text.contains("[redacted:DEMO_API_KEY]"), "{text}");
    assert!(text.contains("not passed on"), "the variable itself is not handed to commands");
    for commit in env.commits() {
        let message = env.git(&["log", "-1", "--format=%B", &commit]);
        assert!(!message.contains(secret), "{message}");
    }
    assert!(!ran.stdout.contains(secret), "events on standard output are those of the record");
    assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    // Files are what they are.
    assert_eq!(env.committed("copy"), secret);
    // A pipeline that holds one is not started.
    env.pipeline(&one(&format!("echo {secret}")));
    let ran = run(&["-y", "run", "../pipeline.dot"]).expect(2);
    ran.fails_with("secret-found").naming("DEMO_API_KEY");
    assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    assert_eq!(env.sessions().len(), 1);
}

// ---- simulation and trust

#[test]
fn a_simulation_says_so_first_and_last() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("pretends", "code [prompt=\"Work\"] start -> code -> exit"));
    // Other warnings come after it.
    env.write("repo/README.md", "not committed\n");
    let pleach = env!("CARGO_BIN_EXE_pleach");
    // As on a terminal, where both streams come together.
    let script = format!("'{pleach}' run ../pipeline.dot 2>&1");
    let output = env.program("sh", &env.repo_path()).args(["-c", &script]).output().expect("sh can be started");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("SIMULATION") && lines[lines.len() - 1].contains("SIMULATION"), "{text}");
    assert_eq!(text.matches("warning[simulation]: ").count(), 1, "{text}");
    let story = env.story();
    assert_eq!(story.first("PipelineStarted")["simulated"], true);
    assert_eq!(story.first("AgentTurn")["agent"], "simulated");
    let answer = story.message(&env, story.node("code")["response"].as_u64().unwrap());
    assert!(answer.to_string().contains("[Simulated] Response for stage: code"), "{answer}");
    assert_eq!(env.git(&["rev-parse", &env.branch()]), env.git(&["rev-parse", "main"]));
    // Also when little is to be said, and never when there is nothing to simulate.
    let ran = env.pleach(&["-q", "run", "../pipeline.dot"]).expect(0);
    assert_eq!((ran.stdout.matches("SIMULATION").count(), ran.stderr.as_str()), (1, ""), "{ran}");
    let ran = env.run(&one("true"), &[]).expect(0);
    ran.does_not_warn("simulation");
    assert!(!ran.stdout.contains("SIMULATION"), "{ran}");
}

#[test]
fn commands_of_a_repository_need_approval() {
    let env = TestEnv::with_repo();
    env.pipeline(&one("echo hello > hello"));
    let ran = env.pleach(&["run", "../pipeline.dot"]).expect(4);
    assert!(ran.stderr.contains("echo hello > hello"), "the command is shown whole: {ran}");
    ran.fails_with("trust-missing").naming("-y");
    assert!(env.sessions().is_empty(), "nothing is begun");
    env.pleach(&["-y", "run", "../pipeline.dot"]).expect(0);
    // Agreed to once, it is not asked again; another text is.
    env.pleach(&["run", "../pipeline.dot"]).expect(0);
    env.pipeline(&one("echo hello > hello "));
    env.pleach(&["run", "../pipeline.dot"]).expect(4);
    assert_eq!(env.sessions().len(), 2);
    // An approval that was taken back is asked for at resume as well.
    env.pipeline(&graph("gated", &(tool("later", "true") + "gate [shape=hexagon] start -> gate -> later -> exit")));
    env.pleach(&["-y", "run", "../pipeline.dot"]).expect(4);
    env.pleach(&["trust", "--revoke", "--all"]).expect(0);
    let sessions = env.sessions();
    let is_gated = |id: &&String| !env.git(&["branch", "--list", &format!("pleach/gated/{id}")]).is_empty();
    let gated = sessions.iter().find(is_gated).expect("the session that waits");
    let ran = env.pleach(&["resume", gated, "--answer", "gate=later"]).expect(4);
    ran.fails_with("trust-missing").naming("-y");
    env.pleach(&["-y", "resume", gated, "--answer", "gate=later"]).expect(0);
}

#[test]
fn a_pipeline_without_commands_needs_no_approval() {
    let env = TestEnv::with_script("scripts: [{name: all, steps: [{text: Done.}]}]\n");
    env.pipeline(&graph("talks", "code [prompt=\"Work\"] start -> code -> exit"));
    env.pleach(&["run", "../pipeline.dot"]).expect(0);
    env.configure("agent: 'command:true'\n");
    let ran = env.pleach(&["run", "../pipeline.dot"]).expect(4);
    assert!(ran.stderr.contains("true"), "a program as an agent is a command of the repository: {ran}");
}
