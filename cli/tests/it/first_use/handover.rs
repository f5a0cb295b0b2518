//! What the next node is told, and what never becomes a command.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::escape::skip;
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// What an agent was asked in a visit of its node, with what it was told of the run so far.
#[track_caller]
fn prompt(env: &TestEnv, node: &str, visit: u64) -> String {
    let story = env.story();
    let ended = story.all("NodeExecution");
    let found = ended.iter().find(|ended| ended["node_id"] == node && ended["visit"] == visit);
    let number = found.and_then(|ended| ended["prompt"].as_u64());
    let number = number.unwrap_or_else(|| panic!("`{node}` was not asked in visit {visit}: {:?}", story.path()));
    let text = &story.message(env, number)["content"][0]["text"];
    // Long texts are files of their own in the record.
    let Some(apart) = text["$out"].as_str() else { return text.as_str().expect("a prompt of words").to_owned() };
    let has = |commit: &str| !env.git(&["ls-tree", "--name-only", commit, apart]).is_empty();
    let (commit, _) = story.records.iter().find(|(commit, _)| has(commit)).expect("a record with the text");
    env.git(&["show", &format!("{commit}:{apart}")])
}

/// A script in which these nodes, visit by visit, give these answers.
fn answers(given: &[(&str, u64, &str)]) -> String {
    let script = |(node, visit, text): &(&str, u64, &str)| json!({"name": format!("{node} {visit}"), "when": {"node": node, "visit": visit}, "steps": [{"text": text}]});
    json!({"model": "m", "scripts": given.iter().map(script).collect::<Vec<_>>()}).to_string()
}

/// The file a prompt offers after these words.
#[track_caller]
fn offered(prompt: &str, words: &str) -> PathBuf {
    let line = prompt.lines().find_map(|line| line.trim().strip_prefix(words));
    PathBuf::from(line.unwrap_or_else(|| panic!("no `{words}` in {prompt}")))
}

const WHOLE_OUTPUT: &str = "The whole output is in ";

#[test]
fn n04_a_failed_command_reaches_agents_in_every_fidelity() {
    let modes = ["full", "truncate", "compact", "summary:low", "summary:medium", "summary:high"];
    let mut body = tool("test", "seq -f 'line %g of the test output, made long' 400; echo why >&2; exit 3");
    body += " test -> fix0 [condition=\"outcome=fail\"]\n test -> exit\n start -> test\n";
    let mut scripts = Vec::new();
    for (index, mode) in modes.iter().enumerate() {
        let next = if index + 1 == modes.len() { "exit".to_owned() } else { format!("fix{}", index + 1) };
        body += &format!(" fix{index} [prompt=\"Fix it\", fidelity=\"{mode}\"]\n fix{index} -> {next}\n");
        let look = json!([
            {"shell": {"command": "wc -l < ../run/main/test.log"}},
            {"read_file": {"file_path": "{{status_file}}/../../test.log", "offset": 400, "limit": 1}},
            {"write_file": {"file_path": "{{status_file}}/../../test.log", "content": "x"}},
        ]);
        let steps = json!([{"text": "I look.", "tools": look}, {"text": "Fixed."}]);
        scripts.push(json!({"name": mode, "when": {"node": format!("fix{index}")}, "steps": steps}));
    }
    let env = TestEnv::with_script(&json!({"model": "m", "scripts": scripts}).to_string());
    env.run(&graph("fixes", &body), &[]).expect(0);
    for (index, mode) in modes.iter().enumerate() {
        let asked = prompt(&env, &format!("fix{index}"), 1);
        let line = |n: u32| asked.contains(&format!("line {n} of the test output, made long\n"));
        assert!(asked.contains("The command of `test` failed (exit 3):\n$ seq -f"), "{mode}: {asked}");
        assert!(line(1) && line(10) && !line(11) && line(300) && line(400), "{mode}: {asked}");
        let tail = asked.split(" left out …]").last().expect("the part behind the mark");
        assert!(tail.chars().count() > 4_000 && asked.contains("\n--- stderr\nwhy\n"), "{mode}: {asked}");
        let log = fs::read_to_string(offered(&asked, WHOLE_OUTPUT)).expect("a log");
        assert_eq!(log.lines().count(), 403, "{mode}");
    }
    let said = env.story().whole_text(&env);
    assert!(said.contains("[stdout]\\n403\\n") && said.contains("400 | line 400 of the test"), "the agent reads it");
    assert!(said.contains("test.log` is outside the working directory"), "and cannot write it");
}

#[test]
fn n04_noise_on_one_stream_leaves_the_others_failure() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: sh check.sh"]));
    let check = "seq -f '   Compiling dependency-%g v1.2.3' 900 >&2\nseq -f 'test case_%g ... ok' 60\n\
                 echo 'assertion failed: left == right at src/lib.rs:42'\ntest -e again\n";
    garden.env.write("repo/check.sh", check);
    garden.env.git(&["add", "."]);
    garden.env.git(&["commit", "--quiet", "-m", "Check"]);
    garden.agent(&format!("[ $n = 1 ] || echo 1 > again; {WRITES}"), APPROVES);
    garden.gardener(&[]).expect(0);
    let asked = garden.env.read("asked/T001.implement.2");
    assert!(asked.contains("assertion failed: left == right at src/lib.rs:42"), "{asked}");
    assert!(asked.contains("dependency-1 v") && asked.contains("dependency-900 v"), "{asked}");
    let log = asked.lines().find_map(|line| line.strip_prefix("The whole output is in ")).expect("a log");
    assert!(garden.env.git(&["show", &format!("main:{log}")]).contains("dependency-450 v"), "{log}");
}

#[test]
fn n04_only_the_newest_output_is_shown_redacted() {
    let env = TestEnv::with_script(&answers(&[("fix", 1, "One."), ("fix", 2, "Two."), ("fix", 3, "Three.")]));
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\ncontext: {output_chars: 200}\n");
    env.write("repo/leak", "hunter2-hunter2\n");
    env.git(&["add", "leak"]);
    env.git(&["commit", "--quiet", "-m", "Leak"]);
    let test = "echo run $PLEACH_VISIT; cat leak; seq 1000; test $PLEACH_VISIT = 3";
    let body = tool("test", test)
        + " fix [prompt=\"Fix it\", write=may]\n start -> test\n"
        + " test -> fix [condition=\"outcome=fail\"]\n test -> last [condition=\"outcome=success\"]\n fix -> test\n"
        + &tool("last", "true")
        + " last -> exit\n";
    env.pipeline(&graph("again", &body));
    let mut run = env.command(&["-y", "run", "../pipeline.dot"]);
    env.finish(run.env("MY_PASSWORD", "hunter2-hunter2").output().expect("pleach runs")).expect(0);
    let (first, second) = (prompt(&env, "fix", 1), prompt(&env, "fix", 2));
    assert!(first.contains("run 1\n[redacted:MY_PASSWORD]\n"), "{first}");
    assert!(second.contains("run 2\n") && !second.contains("run 1\n"), "{second}");
    assert!(second.contains("\n1000\n") && second.chars().count() < 900, "`context.output_chars` bounds it: {second}");
    let log = fs::read_to_string(offered(&second, WHOLE_OUTPUT)).expect("a log");
    assert!(log.starts_with("run 2\n[redacted:MY_PASSWORD]\n1\n2\n") && !log.contains("hunter2"), "{log}");
}

#[test]
fn n04_the_log_survives_a_resume_without_local_files() {
    let env = TestEnv::with_script(&answers(&[("fix", 1, "Fixed.")]));
    let body = tool("test", "seq 5000; exit 1")
        + " ask [shape=hexagon, label=\"Fix it?\"]\n fix [prompt=\"Fix it\"]\n"
        + " start -> test\n test -> ask [condition=\"outcome=fail\"]\n test -> exit\n ask -> fix [label=\"Yes\"]\n fix -> exit\n";
    env.run(&graph("later", &body), &[]).expect(4);
    fs::remove_dir_all(env.root().join("state")).expect("everything that is not in git");
    env.git(&["worktree", "prune"]);
    env.resume(&["--answer", "ask=Yes"]).expect(0);
    let asked = prompt(&env, "fix", 1);
    assert!(asked.contains("failed (exit 1)") && asked.contains("\n5000\n"), "{asked}");
    let log = fs::read_to_string(offered(&asked, WHOLE_OUTPUT)).expect("a log");
    assert!(log.starts_with("1\n2\n") && log.lines().count() == 5_000);
}

/// How an example is run, and what its second agent must have been told.
struct Example {
    file: &'static str,
    answers: &'static [(&'static str, u64, &'static str)],
    more: &'static [&'static str],
    /// The node and visit of each agent but the first, with what it was told.
    told: &'static [(&'static str, u64, &'static [&'static str])],
}

const EXAMPLES: [Example; 6] = [
    Example { file: "hello.dot", answers: &[("greet", 1, "Hello.")], more: &[], told: &[] },
    Example { file: "parallel-tools.dot", answers: &[("none", 1, "")], more: &[], told: &[] },
    Example {
        file: "parallel-review.dot",
        answers: &[
            ("code", 1, "Wrote it."),
            ("tests", 1, "Tested it."),
            ("docs", 1, "Described it."),
            ("finish", 1, "It fits."),
            ("finish", 2, "It fits better."),
        ],
        more: &[],
        told: &[("finish", 1, &["code: Wrote it.", "tests: Tested it.", "docs: Described it."])],
    },
    Example { file: "tools-only.dot", answers: &[("none", 1, "")], more: &[], told: &[] },
    Example {
        file: "human-gate.dot",
        answers: &[("draft", 1, "Ten commits, at length."), ("draft", 2, "Shorter.")],
        more: &["--answer", "approve=Revise", "--answer", "approve=Approve"],
        told: &[("draft", 2, &["- Draft (draft): success\n  Ten commits, at length.\n", "human.gate.label: Revise"])],
    },
    Example {
        file: "plan-implement-test-review.dot",
        answers: &[
            ("plan", 1, "1. Write reverse.sh.\n2. Test it."),
            ("implement", 1, "Wrote both."),
            ("implement", 2, "Covered the empty line."),
        ],
        more: &[],
        told: &[
            ("implement", 1, &["- Plan (plan): success\n  1. Write reverse.sh.\n  2. Test it.\n"]),
            ("review", 1, &["- Implement (implement): success\n  Wrote both.\n", "1. Write reverse.sh."]),
            (
                "implement",
                2,
                &[
                    "- Review (review): fail: rejected: no case for an empty line\n  I would not merge it yet.\n",
                    "1. Write",
                ],
            ),
        ],
    },
];

/// A reviewer that rejects once.
fn rejects_once() -> [Value; 2] {
    let review = |name: &str, visit: u32, text: &str| json!({"name": name, "when": {"node": "review", "visit": visit}, "steps": [{"text": text}]});
    [
        review("reject", 1, "I would not merge it yet.\n\nREJECTED: no case for an empty line"),
        review("accept", 2, "Good.\n\nAPPROVED"),
    ]
}

#[test]
fn n05_every_example_shares_answers_between_agents() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&examples).expect("examples").flatten().map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "dot"));
    assert_eq!(files.len(), EXAMPLES.len(), "every example is here: {files:?}");
    for Example { file, answers: given, more, told } in EXAMPLES {
        let mut script: Value = serde_json::from_str(&answers(given)).expect("JSON");
        script["scripts"].as_array_mut().expect("a list").extend(rejects_once());
        let env = TestEnv::with_script(&script.to_string());
        let dot = fs::read_to_string(examples.join(file)).expect("an example");
        env.run(&dot, more).expect(0);
        for (node, visit, parts) in told {
            let asked = prompt(&env, node, *visit);
            for part in *parts {
                assert!(asked.contains(part), "{file}: {node} was not told `{part}`: {asked}");
            }
        }
    }
}

#[test]
fn n05_a_retrying_agent_gets_the_failure() {
    let env = TestEnv::with_repo();
    let agent = env.write_program(
        "agent.sh",
        "#!/bin/sh\ncat > asked-$PLEACH_ATTEMPT\necho 'I could not find it.'\n\
         [ $PLEACH_ATTEMPT = 2 ] || echo '{\"outcome\": \"fail\", \"notes\": \"the door is locked\"}' > $PLEACH_STATUS_FILE\n",
    );
    env.configure(&format!("agent: \"command:{}\"\n", agent.display()));
    env.run(&graph("again", "work [prompt=\"Do it\", max_retries=1]\n start -> work -> exit"), &[]).expect(0);
    let (first, second) = (env.committed("asked-1"), env.committed("asked-2"));
    assert!(!first.contains("the door is locked"), "{first}");
    assert!(second.contains("- work (work): fail: the door is locked\n  I could not find it.\n"), "{second}");
}

#[test]
fn n05_answers_are_cut_newest_first_even_in_full() {
    let long = format!("The plan begins.\n{}\nThe plan ends.", "one more step\n".repeat(2_000));
    let mut body = " plan [prompt=\"Plan\"]\n build [prompt=\"Build\"]\n start -> plan -> build\n".to_owned();
    let modes = ["full", "compact", "summary:low", "summary:medium", "summary:high"];
    let mut given = vec![("plan", 1, long.as_str()), ("build", 1, "Built it.")];
    let names: Vec<String> = (0..modes.len()).map(|index| format!("look{index}")).collect();
    for (name, mode) in names.iter().zip(modes) {
        body += &format!(" {name} [prompt=\"Look\", fidelity=\"{mode}\"]\n");
        given.push((name, 1, "Looked."));
    }
    body += &format!(" build -> {} -> exit\n", names.join(" -> "));
    let env = TestEnv::with_script(&answers(&given));
    env.run(&graph("told", &body), &[]).expect(0);
    for (name, mode) in names.iter().zip(modes) {
        let asked = prompt(&env, name, 1);
        let at = |what: &str| asked.find(what).unwrap_or_else(|| panic!("{mode}: no `{what}` in {asked}"));
        assert!(at("- build (build): success\n  Built it.\n") < at("- plan (plan): success\n  The plan begins.\n"));
        assert!(at("The plan ends.") < at("All of it is in ") && asked.contains(" left out …]"), "{mode}: {asked}");
        assert_eq!(fs::read_to_string(offered(&asked, "All of it is in ")).expect("an answer"), long, "{mode}");
        assert!(asked.chars().count() < 13_000, "{mode}");
    }
}

#[test]
fn n05_a_resumed_conversation_gets_others_answers() {
    let given =
        [("work", 1, "Did it."), ("review", 1, "The name is wrong."), ("work", 2, "Renamed."), ("review", 2, "Ok.")];
    let env = TestEnv::with_script(&answers(&given));
    let body = " work [prompt=\"Work\", fidelity=full, thread_id=mine, max_visits=2]\n review [prompt=\"Review\"]\n"
        .to_owned()
        + &tool("once", "test $PLEACH_VISIT = 2")
        + " start -> work -> review -> once\n once -> exit\n once -> work [condition=\"outcome=fail\"]\n";
    env.run(&graph("talk", &body), &[]).expect(0);
    let second = prompt(&env, "work", 2);
    assert!(second.contains("- review (review): success\n  The name is wrong.\n"), "{second}");
    assert!(!second.contains("Did it."), "the conversation has that: {second}");
}

#[test]
fn n06_a_value_with_shell_characters_is_one_word() {
    let env = TestEnv::with_repo();
    let dot = graph(
        "words",
        &(tool("work", "printf '%s\\n' {{ goal }} pre-{{ inputs.x }}'!' > out") + "start -> work -> exit"),
    );
    let (goal, x) = ("goal=x; id > owned", "x=a  b $(id > owned) `id` \"q\" '* \\");
    env.run(&dot, &[goal, x]).expect(0);
    assert_eq!(env.committed("out"), "x; id > owned\npre-a  b $(id > owned) `id` \"q\" '* \\!");
    assert!(!env.files().contains(&"owned".to_owned()), "nothing of it is run");
}

#[test]
fn n06_templates_that_cannot_be_words_are_refused() {
    let env = TestEnv::with_repo();
    for (command, place) in [
        ("echo '{{ goal }}' > out", "inside single quotes"),
        ("echo \"{{ goal }}\" > out", "inside double quotes"),
        ("cat > out <<EOF\n{{ goal }}\nEOF", "inside a here-document"),
        ("echo `echo {{ goal }}` > out", "inside backticks"),
        ("echo $(( {{ goal }} )) > out", "inside an expression"),
    ] {
        let dot = graph("refused", &(tool("work", command) + "start -> work -> exit"));
        env.pipeline(&dot);
        let said = format!("error[command_template]: `{{{{ goal }}}}` in `tool_command` is {place}");
        for ran in [env.pleach(&["validate", "../pipeline.dot"]), env.run(&dot, &["goal=1"])] {
            let ran = ran.expect(2);
            assert!(format!("{}{}", ran.stdout, ran.stderr).contains(&said), "{command}: {ran}");
        }
    }
    assert_eq!(env.sessions(), [""; 0], "nothing is begun");
}

#[test]
fn n06_names_of_tasks_are_words_of_commands_and_tests() {
    let tree = Tree::of(&["T001"]).with("T001", "name", "One; touch ~/owned 'x".into());
    let garden = Garden::new(&tree);
    let dot = r#"digraph words { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement];
        lint [shape=parallelogram, step=lint, tool_command="echo [{{ task_name }}]"]
        test [shape=parallelogram, step=test, tool_command="echo [{{ task_name }}:{{ task_id }}]"]
        start -> implement -> lint -> test -> done }"#;
    garden.commit("words.dot", dot);
    garden.agent(WRITES, APPROVES);
    garden.gardener(&["--pipeline", "words.dot"]).expect(0);
    let body = |status| garden.newest("main", status).body;
    assert!(body("T001 lint-pass").contains("[One; touch ~/owned 'x]"), "{}", body("T001 lint-pass"));
    assert!(body("T001 test-pass").contains("[One; touch ~/owned 'x:T001]"), "{}", body("T001 test-pass"));
    assert!(!garden.env.root().join("home/owned").exists());
}

/// That a write outside was refused by the sandbox is said with the way out of it.
#[track_caller]
fn assert_refusal(env: &TestEnv, said: &str) {
    let home = env.root().join("home");
    let refused = format!(
        "the sandbox refused writing `{0}/new/x`: use the worktree or `$TMPDIR`, or add `{0}` to `sandbox.rw`",
        home.display()
    );
    assert!(said.contains(&refused), "{said}");
    assert!(!home.join("new").exists());
}

#[test]
fn n23_a_denied_write_is_named_for_tools_and_agents() {
    if skip("n23_a_denied_write_is_named_for_tools_and_agents", 3) {
        return;
    }
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("bound", &(tool("work", "mkdir ~/new/x -p") + "start -> work -> exit")), &[]).expect(1);
    // What is refused is the first directory that is missing.
    assert!(ran.stdout.contains("Permission denied (the sandbox refused writing `"), "{ran}");

    let env = TestEnv::with_repo();
    let run = "echo hi > run.sh; echo '/bin/bash: line 1: ./run.sh: Permission denied' >&2; ./run.sh";
    let ran = env.run(&graph("bound", &(tool("work", run) + "start -> work -> exit")), &[]).expect(1);
    assert!(ran.stdout.contains("Permission denied") && !ran.stdout.contains("the sandbox refused"), "{ran}");

    let env = TestEnv::with_repo();
    let write = "python3 -c 'open(\"x\")' 2> /dev/null; echo \"touch: cannot touch '$HOME/new/x': Permission denied\" >&2; exit 1";
    let ran = env.run(&graph("bound", &(tool("work", write) + "start -> work -> exit")), &[]).expect(1);
    assert_refusal(&env, &ran.stdout);

    let env = TestEnv::with_repo();
    let call = json!([{"shell": {"command": write}}]);
    env.script(
        &json!({"model": "m", "scripts": [{"name": "a", "steps": [
        {"text": "Try.", "tools": call}, {"text": "Done."}]}]})
        .to_string(),
    );
    let ran = env.run(&graph("bound", " work [prompt=\"Work\"]\n start -> work -> exit"), &[]).expect(0);
    assert_refusal(&env, &env.story().warns("sandbox-refused"));
    assert_refusal(&env, &ran.stderr);
    assert!(env.story().whole_text(&env).contains("[the sandbox refused writing "), "the agent is told as well");

    let env = TestEnv::with_repo();
    let program = env.write_program("agent.sh", &format!("#!/bin/sh\ncat > /dev/null\n({write})\necho Done.\n"));
    env.configure(&format!("agent: \"command:{}\"\n", program.display()));
    env.run(&graph("bound", " work [prompt=\"Work\"]\n start -> work -> exit"), &[]).expect(0);
    assert_refusal(&env, &env.story().warns("sandbox-refused"));
}

#[test]
fn n23_nobody_is_advised_to_open_the_git_directory() {
    if skip("n23_nobody_is_advised_to_open_the_git_directory", 3) {
        return;
    }
    let env = TestEnv::with_repo();
    let run = |command: &str| env.run(&graph("bound", &(tool("work", command) + "start -> work -> exit")), &[]);
    // git complains of what it can do without.
    let ran = run("echo x > x; git add x; git commit -m mine; echo \"error: Unable to create '$(git rev-parse --git-common-dir)/packed-refs.lock': Permission denied\" >&2").expect(0);
    ran.does_not_warn("sandbox-refused");
    assert_eq!(env.committed("x"), "x");
    let ran = run("git config user.name Somebody").expect(1);
    assert!(!ran.stdout.contains("sandbox.rw"), "{ran}");
    let ran =
        run("echo \"error: could not lock $(git rev-parse --git-common-dir)/config: Permission denied\" >&2; exit 1")
            .expect(1);
    assert!(ran.stdout.contains("cannot write to the repository's git directory"), "{ran}");
    assert!(!ran.stdout.contains("sandbox.rw"), "{ran}");
}

#[test]
fn n23_a_write_the_sandbox_stopped_is_named_for_tests() {
    if skip("n23_a_write_the_sandbox_stopped_is_named_for_tests", 3) {
        return;
    }
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: touch ~/x"]);
    let garden = Garden::new(&tree);
    let root = garden.env.root().display().to_string();
    garden.configure(&format!("sandbox: {{rw: ['{root}/asked', '{root}/tmp']}}\n"));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let body = garden.newest("main", "T001 test-fail").body;
    assert!(
        body.contains("Permission denied\n[the sandbox refused writing `") && body.contains("`sandbox.rw`"),
        "{body}"
    );
}

#[test]
fn n23_the_sandbox_line_is_short_and_only_when_needed() {
    if skip("n23_the_sandbox_line_is_short_and_only_when_needed", 4) {
        return;
    }
    let line = |ran: Ran| ran.stderr.lines().find(|line| line.starts_with("sandbox: ")).map(str::to_owned);
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("works", &(tool("work", "true") + "start -> work -> exit")), &[]).expect(0);
    let said = line(ran).expect("a line about the sandbox");
    assert!(said.chars().count() <= 60, "{said}");
    // Agents that pretend and people run nothing.
    let env = TestEnv::with_repo();
    let asks = " work [prompt=\"Work\"]\n ask [shape=hexagon]\n start -> work -> ask -> exit [label=\"Go\"]\n";
    assert_eq!(line(env.run(&graph("asks", asks), &["--auto-approve"]).expect(0)), None);
}
