//! Looking at sessions: `status`, `turns`, `show`, `diff`, `export`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::sessions::graph;
use crate::support::{Checkout, TestEnv};

const CONFIG: &str = "agent: builtin\nproviders: {script: {file: script.yaml}}\n";

const SCRIPT: &str = r#"
scripts:
  - name: code
    when: {node: code}
    steps:
      - text: I will add a greeting.
        tools: [{write_file: {file_path: hello.txt, content: "hello\n"}}]
        usage: {input: 10, output: 5}
      - text: The greeting is there.
        usage: {input: 20, output: 6}
"#;

const GREET: &str = r#"digraph greet {
    graph [goal="Say hello"]
    start [shape=Mdiamond]
    code [prompt="Write a greeting for: $goal"]
    check [shape=parallelogram, tool_command="grep -c hello hello.txt | tee count.txt"]
    exit [shape=Msquare]
    start -> code -> check -> exit
}"#;

/// A repository in which a session has run to its end.
fn greeted() -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", CONFIG);
    env.write("repo/script.yaml", SCRIPT);
    env.write("repo/greet.dot", GREET);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "--message", "greet"]);
    env.pleach(&["run", "greet.dot", "-y", "-q"]).expect(0);
    env
}

/// A run that has reached a node that does not end by itself.
pub fn waiting(env: &TestEnv, args: &[&str]) -> Child {
    env.write("repo/wait.dot", WAIT);
    let mut child =
        env.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("pleach can be started");
    let lines = BufReader::new(child.stdout.take().expect("a piped stdout")).lines();
    let begun = lines.map_while(Result::ok).any(|line| line.contains(r#""node_id":"hang""#));
    assert!(begun, "the second node was not started");
    child
}

/// The first node leaves a commit, the second one does not end by itself.
pub const WAIT: &str = r#"digraph wait {
    start [shape=Mdiamond]
    make [shape=parallelogram, tool_command="echo one > one.txt"]
    hang [shape=parallelogram, tool_command="echo half > half.txt; echo hanging; sleep 600"]
    exit [shape=Msquare]
    start -> make -> hang -> exit
}"#;

#[test]
fn without_sessions_a_friendly_line() {
    let env = TestEnv::new();
    env.repo();
    insta::assert_snapshot!(env.pleach(&["status"]), @r#"
    exit: 0
    --- stdout
    There is no session in this repository yet; `pleach run "Fix the failing test"` starts one.
    "#);
    assert_eq!(env.pleach(&["status", "--json"]).expect(0).json()["sessions"], serde_json::json!([]));
}

#[test]
fn status_lists_sessions_and_shows_one() {
    let env = greeted();
    insta::assert_snapshot!(env.pleach(&["status"]), @"
    exit: 0
    --- stdout
    session   goal              standing       node  turns  tokens  branch                 age
    [SID]  greet: Say hello  ready to land            3      41  pleach/greet/[SID]  [TIME]

    [SID] is ready to land
      next:    pleach land [SID]
    ");
    let sid = env.session();
    insta::assert_snapshot!(env.pleach(&["status", &sid[..3]]), @"
    exit: 0
    --- stdout
    session   [SID]
    pipeline  greet (greet.dot)
    goal      Say hello
    standing  ready to land
    merge     git switch main && git merge pleach/greet/[SID]
    branch    pleach/greet/[SID] at [SHA]
    base      [SHA] (main)
    worktree  [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    spent     3 turns, 41 tokens
    started   [AT] ([TIME] ago)

    what        node   by      tokens  files  commit
    checkpoint  start                         [SHA]  success, next code
    main.1      code   script      15      1  [SHA]  Add a greeting
    main.2      code   script      26                     answer
    checkpoint  code                          [SHA]  success, next check
    main.3      check  tool                1  [SHA]  grep -c hello hello.txt | tee count.txt (exit 0)
    checkpoint  check                         [SHA]  success, next exit
    checkpoint  exit                          [SHA]  success, the end
    ");
}

#[test]
fn status_as_json_holds_turns_and_checkpoints_with_their_commits() {
    let env = greeted();
    let sid = env.session();
    let listed = env.pleach(&["status", "--json"]).expect(0).json();
    assert_eq!(listed["sessions"][0]["session"], sid.as_str());
    assert_eq!(listed["sessions"][0]["standing"]["is"], "done");
    let one = env.pleach(&["status", &sid, "--json"]).expect(0).json();
    let tip = env.git(&["rev-parse", &format!("pleach/greet/{sid}")]);
    assert_eq!(one["commit"], tip.as_str());
    assert_eq!(one["base"], env.git(&["rev-parse", "main"]).as_str());
    assert_eq!(one["turns"].as_array().map(Vec::len), Some(3));
    assert_eq!(one["turns"][0]["commit"]["repo"], env.git(&["rev-parse", &format!("{tip}~1")]).as_str());
    assert_eq!(one["turns"][1]["commit"], serde_json::Value::Null);
    assert_eq!(one["tokens"]["output"], 11);
    let checkpoints = one["checkpoints"].as_array().expect("a list");
    let nodes: Vec<_> = checkpoints.iter().map(|checkpoint| checkpoint["node"].as_str()).collect();
    assert_eq!(nodes, ["start", "code", "check", "exit"].map(Some));
    assert_eq!(checkpoints[0]["commit"]["repo"], one["base"]);
    assert_eq!(checkpoints[2]["commit"]["repo"], tip.as_str());
    for checkpoint in checkpoints {
        let commit = checkpoint["commit"]["repo"].as_str().expect("a commit");
        env.git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    }
}

#[test]
fn turns_are_listed() {
    let env = greeted();
    let sid = env.session();
    insta::assert_snapshot!(env.pleach(&["turns", &sid]), @"
    exit: 0
    --- stdout
    turn    node   by      tokens  files  commit
    main.1  code   script      15      1  [SHA]  Add a greeting
    main.2  code   script      26                     answer
    main.3  check  tool                1  [SHA]  grep -c hello hello.txt | tee count.txt (exit 0)
    ");
    let turns = env.pleach(&["turns", &sid, "--json"]).expect(0).json();
    assert_eq!(turns["turns"][0]["tool_calls"][0]["name"], "write_file");
    assert_eq!(turns["turns"][2]["kind"], "tool");
    assert_eq!(turns["turns"][2]["exit"], "exit 0");
}

#[test]
fn a_turn_is_shown_with_messages_tools_diff_and_tokens() {
    let env = greeted();
    insta::assert_snapshot!(env.pleach(&["show", "main.1"]), @r#"
    exit: 0
    --- stdout
    turn     [SID]/main.1
    node     code
    agent    builtin, script (script)
    tokens   15 (10 in, 5 out)
    at       [AT]
    files    hello.txt
    message  Add a greeting

             I will add a greeting.

             Changes hello.txt.
    commit   [SHA]

    ── user
    Write a greeting for: Say hello

    ── assistant
    I will add a greeting.
    → write_file {"file_path":"hello.txt","content":"hello\n"}

    ── tool
    ← Wrote 6 bytes to hello.txt

    ── diff
    diff --git a/hello.txt b/hello.txt
    new file mode 100644
    index [SHA]..[SHA]
    --- /dev/null
    +++ b/hello.txt
    @@ -0,0 +1 @@
    +hello
    "#);
    insta::assert_snapshot!(env.pleach(&["show", "3"]), @"
    exit: 0
    --- stdout
    turn     [SID]/main.3
    node     check
    command  grep -c hello hello.txt | tee count.txt
    ended    exit 0 after [TIME]
    at       [AT]
    files    count.txt
    message  Run check

                 grep -c hello hello.txt | tee count.txt

             Changes count.txt.
    commit   [SHA]

    ── tool
    1

    ── diff
    diff --git a/count.txt b/count.txt
    new file mode 100644
    index [SHA]..[SHA]
    --- /dev/null
    +++ b/count.txt
    @@ -0,0 +1 @@
    +1
    ");
    let json = env.pleach(&["show", "1", "--json"]).expect(0).json();
    assert_eq!(json["turn"], "main.1");
    assert_eq!(json["messages"][0]["role"], "user");
    assert_eq!(json["messages"][1]["content"][1]["type"], "tool_call");
    assert!(json["patch"].as_str().expect("a patch").contains("+hello\n"), "{json}");
}

#[test]
fn an_id_that_begins_with_digits_is_no_turn() {
    let env = greeted();
    let ids = (0..10_000).map(|number| env.git(&["commit-tree", "HEAD^{tree}", "-m", &number.to_string()]));
    let digits = |id: &String| id.bytes().take(7).all(|byte| byte.is_ascii_digit()) && !id.starts_with('0');
    let id = ids.into_iter().find(digits).expect("about one of thirty is like this");
    let ran = env.pleach(&["show", &id[..7]]).expect(2);
    ran.fails_with("no-such-turn");
}

#[test]
fn a_turn_has_many_names() {
    let env = greeted();
    let sid = env.session();
    let tip = env.git(&["rev-parse", &format!("pleach/greet/{sid}")]);
    let shown = env.pleach(&["show", "3"]).expect(0).stdout;
    for name in [
        format!("{sid}/main.3"),
        format!("{}:main.3", &sid[..4]),
        format!("{sid}/3"),
        "main.3".to_owned(),
        tip.clone(),
        tip[..12].to_owned(),
        format!("pleach/greet/{sid}"),
    ] {
        assert_eq!(env.pleach(&["show", &name]).expect(0).stdout, shown, "{name}");
    }
    insta::assert_snapshot!(env.pleach(&["show", "main.9"]), @"
    exit: 2
    --- stderr
    error[no-such-turn]: session [SID] has no turn main.9; it has 3
    hint: `pleach turns [SID]` lists them
    ");
    insta::assert_snapshot!(env.pleach(&["show", "main"]), @"
    exit: 2
    --- stderr
    error[no-such-turn]: commit [SHA] is not a turn of a session
    hint: `git show [SHA]` shows it
    ");
    insta::assert_snapshot!(env.pleach(&["show", "nothing"]), @"
    exit: 2
    --- stderr
    error[no-such-revision]: `nothing` is not a commit of this repository
    hint: `git log` and `git branch` show what there is
    ");
    insta::assert_snapshot!(env.pleach(&["show", &sid]), @"
    exit: 2
    --- stderr
    error[no-such-turn]: `[SID]` is a session, not a turn
    hint: `pleach turns [SID]` lists its turns
    ");
}

#[test]
fn a_commit_without_its_record_shows_its_turn() {
    let env = greeted();
    let sid = env.session();
    env.git(&["clone", "--quiet", "--branch", &format!("pleach/greet/{sid}"), ".", "../clone"]);
    let clone = env.root().join("clone");
    let shown = env.pleach(&["-C", clone.to_str().unwrap(), "show", "HEAD"]);
    insta::assert_snapshot!(shown, @"
    exit: 0
    --- stdout
    turn    [SID]/main.3 (its record is not in this repository)
    node    check
    model   tool (local)
    commit  [SHA]

    ── diff
    diff --git a/count.txt b/count.txt
    new file mode 100644
    index [SHA]..[SHA]
    --- /dev/null
    +++ b/count.txt
    @@ -0,0 +1 @@
    +1
    ");
}

#[test]
fn diff_goes_from_the_base_to_the_newest_commit() {
    let env = greeted();
    let sid = env.session();
    insta::assert_snapshot!(env.pleach(&["diff", &sid, "--stat"]), @"
    exit: 0
    --- stdout
    file       added  removed
    count.txt      1        0
    hello.txt      1        0
    2 files        2        0
    ");
    let patch = env.pleach(&["diff", &sid]).expect(0).stdout;
    let expected = env.git(&["diff-tree", "-p", "--full-index", "main", &format!("pleach/greet/{sid}")]);
    assert_eq!(patch.trim_end(), expected);
    let json = env.pleach(&["diff", &sid, "--json"]).expect(0).json();
    assert_eq!(json["files"][0], serde_json::json!({"path": "count.txt", "added": 1, "removed": 0}));
    assert_eq!(json["patch"], patch.as_str());
}

#[test]
fn unknown_sessions_come_with_a_list() {
    let env = greeted();
    insta::assert_snapshot!(env.pleach(&["turns", "zzz9"]), @"
    exit: 2
    --- stderr
    error[no-such-session]: there is no session `zzz9` in this repository
    hint: there are: [SID]; `pleach status` shows them
    ");
    let empty = TestEnv::new();
    empty.repo();
    insta::assert_snapshot!(empty.pleach(&["diff", "abc"]), @r#"
    exit: 2
    --- stderr
    error[no-such-session]: there is no session `abc` in this repository
    hint: there is none yet; `pleach run "Fix the failing test"` starts one
    "#);
    let nowhere = TestEnv::new();
    insta::assert_snapshot!(nowhere.pleach(&["status"]), @"
    exit: 2
    --- stderr
    error[not-a-repository]: `[TEMP]` is not in a git repository
    hint: run `git init` there, or name a repository with `-C DIR`
    ");
    // No id has a 9.
    for command in
        [&["status", ""][..], &["turns", "9"], &["show", "9"], &["export", "9", "y"], &["cancel", "9"], &["rm", "9"]]
    {
        env.pleach(command).expect(2);
    }
}

#[test]
fn a_prefix_of_two_sessions_names_both() {
    let env = greeted();
    // Session ids are random; one that shares its beginning is made by hand.
    let sid = env.session();
    let last = if sid.ends_with('a') { 'b' } else { 'a' };
    let twin = format!("{}{last}", &sid[..7]);
    let record = env.git(&["rev-parse", &format!("refs/pleach/sessions/{sid}/main")]);
    env.git(&["update-ref", &format!("refs/pleach/sessions/{twin}/main"), &record]);
    let failed = env.pleach(&["turns", &sid[..5]]).expect(2);
    assert!(failed.stderr.contains(&sid) && failed.stderr.contains(&twin), "{failed}");
    env.pleach(&["turns", &sid]).expect(0);
}

#[test]
fn a_damaged_session_does_not_hide_the_others() {
    let env = greeted();
    let sid = env.session();
    let refs = env.repo_path().join(".git/refs/pleach/sessions");
    for (id, content) in [
        ("aaaaaaaa", env.git(&["rev-parse", "main"])),
        ("bbbbbbbb", "0123456789012345678901234567890123456789".to_owned()),
        ("cccccccc", "garbage".to_owned()),
    ] {
        fs::create_dir_all(refs.join(id)).unwrap();
        fs::write(refs.join(id).join("main"), content + "\n").unwrap();
    }
    let listed = env.pleach(&["status", "--json"]).expect(0).json();
    let standings: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|session| session["standing"]["is"].clone()).collect();
    assert_eq!(standings, ["done", "unreadable", "unreadable", "unreadable"]);
    let text = env.pleach(&["status"]).expect(0).stdout;
    assert!(text.contains("aaaaaaaa") && text.contains("unreadable") && text.contains(&sid), "{text}");
    env.pleach(&["status", "aaaaaaaa"]).expect(7);
    env.pleach(&["show", "main.1"]).expect(0);
}

#[test]
fn views_work_from_subdirectories_linked_worktrees_and_bare_repositories() {
    let env = greeted();
    let sid = env.session();
    fs::create_dir(env.repo_path().join("below")).unwrap();
    env.git(&["worktree", "add", "--quiet", "--detach", "../linked"]);
    env.git(&["clone", "--quiet", "--mirror", ".", "../bare.git"]);
    let expected = env.pleach(&["turns", &sid]).expect(0).stdout;
    for dir in ["repo/below", "linked", "bare.git"] {
        let dir = env.root().join(dir);
        let dir = dir.to_str().unwrap();
        assert_eq!(env.pleach(&["-C", dir, "turns", &sid]).expect(0).stdout, expected, "{dir}");
        env.pleach(&["-C", dir, "status"]).expect(0);
        env.pleach(&["-C", dir, "show", "main.1"]).expect(0);
        assert!(env.pleach(&["-C", dir, "diff", &sid]).expect(0).stdout.contains("+hello"), "{dir}");
    }
}

#[test]
fn looking_changes_nothing() {
    let env = greeted();
    let sid = env.session();
    let repo = env.repo_path();
    let before = (Checkout::of(&env, &repo), env.git(&["for-each-ref"]));
    for command in [&["status"][..], &["status", &sid], &["turns", &sid], &["show", "1"], &["diff", &sid]] {
        env.pleach(command).expect(0);
    }
    before.0.assert_unchanged(&env, &repo);
    assert_eq!(env.git(&["for-each-ref"]), before.1);
}

#[test]
fn a_running_session_is_dead_once_killed() {
    let env = TestEnv::new();
    env.repo();
    let mut run = waiting(&env, &["run", "wait.dot", "-y", "--json"]);
    let sid = env.session();
    let standing = || env.pleach(&["status", &sid, "--json"]).expect(0).json()["standing"]["is"].clone();
    assert_eq!(standing(), "running");
    assert_eq!(env.pleach(&["status", "--json"]).expect(0).json()["sessions"][0]["node"], "hang");
    assert!(env.pleach(&["diff", &sid]).expect(0).stdout.contains("+one"), "looking works while it runs");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(standing(), "dead");
    env.assert_no_process_left();
    insta::assert_snapshot!(env.pleach(&["status"]), @"
    exit: 0
    --- stdout
    session   goal  standing  node  turns  tokens  branch                age
    [SID]  wait  dead      hang      1       0  pleach/wait/[SID]  [TIME]
    ");
}

#[test]
fn a_session_waiting_for_a_person_says_how_to_answer() {
    let env = TestEnv::new();
    env.repo();
    env.write(
        "repo/gate.dot",
        r#"digraph gate {
        start [shape=Mdiamond]
        ask [shape=hexagon, label="Ship it?"]
        exit [shape=Msquare]
        start -> ask
        fix [shape=parallelogram, tool_command="true"]
        ask -> exit [label="[Y] Yes"]
        ask -> fix [label="[N] No"]
        fix -> exit
    }"#,
    );
    env.pleach(&["run", "gate.dot", "-y", "-q"]).expect(4);
    let sid = env.session();
    let status = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(status.contains("paused (waits for a person) at `ask`"), "{status}");
    assert!(status.contains(&format!("pleach resume {sid} --answer ask=CHOICE")), "{status}");
}

#[test]
fn matrix_smoke_graph_is_exported_as_a_run_directory() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", CONFIG);
    env.write(
        "repo/script.yaml",
        r#"
scripts:
  - name: plan
    when: {node: plan}
    steps: [{text: First the plan.}]
  - name: implement
    when: {node: implement}
    steps:
      - {text: Now the work., tools: [{write_file: {file_path: fib.py, content: "pass\n"}}]}
      - {text: It is done.}
  - name: review
    when: {node: review}
    steps: [{text: Looks good.}]
"#,
    );
    env.write(
        "repo/smoke.dot",
        r#"digraph test_pipeline {
        graph [goal="Create a hello world script"]
        start [shape=Mdiamond]
        plan [shape=box, prompt="Plan how to create a script for: $goal"]
        implement [shape=box, prompt="Write the code based on the plan for: $goal", goal_gate=true, max_retries=1]
        review [shape=box, prompt="Review the code for correctness"]
        done [shape=Msquare]
        start -> plan
        plan -> implement
        implement -> review [condition="outcome=success"]
        implement -> plan [condition="outcome=fail", label="Retry"]
        review -> done [condition="outcome=success"]
        review -> implement [condition="outcome=fail", label="Fix"]
    }"#,
    );
    env.pleach(&["run", "smoke.dot", "-y", "-q"]).expect(0);
    let sid = env.session();
    insta::assert_snapshot!(env.pleach(&["export", &sid, "../out"]), @"
    exit: 0
    --- stdout
    exported 13 files of session [SID] to ../out
    ");
    for node in ["plan", "implement", "review"] {
        for file in ["prompt.md", "response.md", "status.json"] {
            assert!(!env.read(format!("out/{node}/{file}")).is_empty(), "{node}/{file}");
        }
        let status: serde_json::Value = serde_json::from_str(&env.read(format!("out/{node}/status.json"))).unwrap();
        assert_eq!((&status["outcome"], &status["status"]), (&"success".into(), &"success".into()), "{node}");
    }
    assert!(env.read("out/plan/prompt.md").contains("for: Create a hello world script"));
    assert_eq!(env.read("out/implement/response.md"), "It is done.");
    let checkpoint: serde_json::Value = serde_json::from_str(&env.read("out/checkpoint.json")).unwrap();
    assert_eq!(checkpoint["current_node"], "done");
    assert_eq!(checkpoint["completed_nodes"], serde_json::json!(["start", "plan", "implement", "review", "done"]));
    assert_eq!(checkpoint["node_outcomes"]["implement"], "success", "the gate is satisfied");
    for key in ["timestamp", "node_retries", "context", "logs"] {
        assert!(!checkpoint[key].is_null(), "{key}");
    }
    let manifest: serde_json::Value = serde_json::from_str(&env.read("out/manifest.json")).unwrap();
    assert_eq!(manifest["name"], "test-pipeline");
    assert_eq!(manifest["goal"], "Create a hello world script");
    assert_eq!(manifest["session"], sid.as_str());
    assert!(manifest["start_time"].is_string());
}

#[test]
fn an_export_never_mixes_with_other_files() {
    let env = greeted();
    let sid = env.session();
    env.write("full/notes.txt", "mine");
    insta::assert_snapshot!(env.pleach(&["export", &sid, "../full"]), @"
    exit: 2
    --- stderr
    error[export-taken]: `[TEMP]/repo/../full` is not empty and holds no export of session [SID]
    hint: name a directory that does not exist yet
    ");
    assert_eq!(fs::read_dir(env.root().join("full")).unwrap().count(), 1);
    // Again to the same place is fine, and brings it up to date.
    env.pleach(&["export", &sid, "../out"]).expect(0);
    env.write("out/code/response.md", "changed");
    let again = env.pleach(&["export", &sid, "../out", "--json"]).expect(0).json();
    assert_eq!(again["files"][0], "manifest.json");
    assert_eq!(env.read("out/code/response.md"), "The greeting is there.");
    // Another session's export is somebody else's.
    env.pleach(&["run", "greet.dot", "-y", "-q"]).expect(0);
    let other = env.sessions().into_iter().find(|other| *other != sid).expect("a second session");
    env.pleach(&["export", &other, "../out"]).expect(2);
}

#[test]
fn an_export_follows_no_link_out_of_its_directory() {
    let env = greeted();
    let sid = env.session();
    env.pleach(&["export", &sid, "../out"]).expect(0);
    let out = env.root().join("out");
    env.write("victim", "safe");
    fs::create_dir(env.root().join("elsewhere")).unwrap();
    fs::remove_file(out.join("code/status.json")).unwrap();
    std::os::unix::fs::symlink(env.root().join("victim"), out.join("code/status.json")).unwrap();
    env.pleach(&["export", &sid, "../out"]).expect(0);
    assert_eq!(env.read("victim"), "safe");
    fs::remove_dir_all(out.join("check")).unwrap();
    std::os::unix::fs::symlink(env.root().join("elsewhere"), out.join("check")).unwrap();
    env.pleach(&["export", &sid, "../out"]).expect(2);
    assert_eq!(fs::read_dir(env.root().join("elsewhere")).unwrap().count(), 0);
}

/// Runs every command of a page, with the session's id in place of `SESSION`.
#[test]
fn the_commands_of_the_page_on_sessions_work() {
    let page = include_str!("../../../docs/sessions.md");
    let env = greeted();
    let sid = env.session();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("$ pleach ")).collect();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands {
        let words = command.split('#').next().unwrap_or_default().replace("SESSION", &sid);
        let words: Vec<&str> = words.split_whitespace().collect();
        env.pleach(&words).expect(0);
    }
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/sessions"]), "");
}

#[test]
fn status_reads_no_more_of_a_record_than_it_shows() {
    let env = TestEnv::with_repo();
    let nodes: String = (0..200).map(|n| format!(" n{n} [shape=diamond]\n")).collect();
    let path: String = (1..200).map(|n| format!(" n{} -> n{n}\n", n - 1)).collect();
    env.run(&graph("long", &format!("{nodes} start -> n0\n{path} n199 -> exit")), &["-q"]).expect(0);
    let sid = env.session();
    // The first record of nodes can be read no more.
    let story = env.story();
    let has_nodes =
        |events: &[serde_json::Value]| events.iter().any(|event| event["type"] == "dev.orchestra.NodeStarted");
    let (early, _) = story.records.iter().find(|(_, events)| has_nodes(events)).expect("a record of nodes");
    let events = env.git(&["rev-parse", &format!("{early}:events.json")]);
    fs::remove_file(env.repo_path().join(".git/objects").join(&events[..2]).join(&events[2..])).unwrap();
    let shown = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(shown.contains("… earlier lines; -v shows all"), "{shown}");
    assert!(shown.contains(" n199 ") && shown.contains("success, the end") && !shown.contains(" n3 "), "{shown}");
    assert!(shown.lines().filter(|line| line.starts_with("checkpoint")).count() == 80, "{shown}");
    env.pleach(&["-v", "status", &sid]).expect(7);
}
