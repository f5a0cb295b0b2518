//! The first minutes: a prompt instead of a file.

use serde_json::{Value, json};

use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};
use crate::survey::Bare;

const PROMPT: &str = "Fix the failing test";

/// Works as the second try of a test and the second look of a review are needed.
const SCRIPT: &str = r#"
model: m
scripts:
  - name: the first try
    when: {node: implement, visit: 1, contains: Fix the failing test}
    steps:
      - {text: I write it., tools: [{write_file: {file_path: answer, content: "41\n"}}]}
      - text: Written.
  - name: later tries
    when: {node: implement}
    steps:
      - {text: I correct it., tools: [{write_file: {file_path: answer, content: "42\n"}}]}
      - text: Corrected.
  - name: a review of what is wrong
    when: {node: review, visit: 1, contains: no test}
    steps:
      - text: "REJECTED: it is 42"
  - name: a review
    when: {node: review}
    steps:
      - text: "I would merge it.\nAPPROVED"
"#;

#[test]
fn n20_a_prompt_is_implemented_tested_and_reviewed() {
    let env = TestEnv::with_script(SCRIPT);
    let config = env.read("pleach.yaml");
    env.configure(&format!("{config}test_command: 'grep -q \"42\" answer'\n"));
    // What is red on the branch is said once it is known, and only then.
    env.git(&["switch", "-qc", "topic"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "Look"]);
    env.git(&["switch", "-q", "main"]);
    env.pleach(&["merge", "enqueue", "topic"]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(1).does_not_warn("target-red");
    let ran = env.pleach(&["-y", "run", PROMPT]).expect(0);
    ran.warns_once("target-red").naming("already fails on `main` (exit 2)");
    let story = env.story();
    let path = ["start", "implement", "test:fail", "implement", "test", "review", "done"];
    let path = path.map(|node| if node.contains(':') { node.to_owned() } else { format!("{node}:success") });
    assert_eq!(story.path(), path, "{ran}");
    assert_eq!(story.first("PipelineStarted")["goal"], PROMPT);
    assert_eq!(env.branch(), format!("pleach/fix-the-failing-test/{}", env.session()));
    assert_eq!(env.committed("answer"), "42");
    let base = env.git(&["rev-parse", "main"]);
    assert!(story.whole_text(&env).contains(&format!("git diff {base}")), "the reviewer is told how to see the work");
    env.pleach(&["status", &env.session()]).expect(0);
}

#[test]
fn n20_a_prompt_without_test_command_is_reviewed_until_accepted() {
    let env = TestEnv::with_script(&SCRIPT.replace(", contains: no test", ""));
    env.pleach(&["-y", "run", PROMPT]).expect(0);
    let path = ["start:success", "implement:success", "review:fail", "implement:success", "review:success"];
    let story = env.story();
    assert_eq!(story.path()[..5], path);
    assert_eq!(story.all("NodeExecution")[2]["outcome"]["failure_reason"], "rejected: it is 42");
    assert_eq!(env.committed("answer"), "42");
}

/// A `claude` whose `n`th review answers what the file `n` of `answers` says, and leaves that status where it says so.
fn reviewer(answers: &[(&str, &str)]) -> TestEnv {
    let env = TestEnv::with_repo();
    for (at, (answer, status)) in answers.iter().enumerate() {
        let result = json!({
            "type": "result", "subtype": "success", "is_error": false, "result": answer, "session_id": "s-1",
        });
        env.write(format!("answers/{}", at + 1), format!("{result}\n"));
        env.write(format!("answers/{}.status", at + 1), status);
    }
    let answers = env.root().join("answers");
    let answers = answers.display();
    let program = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 9.8.7\ncat > prompt.txt\n\
         case $PLEACH_NODE in\n\
         review) n=$(($(cat {answers}/n 2>/dev/null || echo 0) + 1)); echo $n > {answers}/n\n\
         cp prompt.txt {answers}/$n.asked; rm prompt.txt\n\
         test ! -s {answers}/$n.status || cp {answers}/$n.status \"$PLEACH_STATUS_FILE\"\n\
         cat {answers}/$n;;\n\
         *) cp prompt.txt {answers}/implement; echo $$ > work\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"session_id\":\"s-2\"}}';;\n\
         esac\n",
    );
    env.write_program("bin/claude", &program);
    env.log_in();
    env.configure("agent: claude\nagents: {claude: {turns: stream}}\n");
    env.unbound();
    env
}

#[test]
fn n20_a_prompt_goes_back_until_its_review_approves() {
    let no_verdict = "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED";
    let partial = r#"{"outcome": "partial_success"}"#;
    for (answers, reason) in [
        (&[("REJECTED: the test still fails", ""), ("APPROVED", "")][..], "rejected: the test still fails"),
        (&[("", ""), ("", ""), ("APPROVED", "")], no_verdict),
        (&[("It is fine.", partial), ("Not approved.", partial), ("APPROVED", "")], no_verdict),
    ] {
        let env = reviewer(answers);
        let ran = env.pleach(&["-y", "run", PROMPT]).expect(0);
        let story = env.story();
        let path = ["start:success", "implement:success", "review:fail", "implement:success", "review:success"];
        assert_eq!(story.path()[..5], path, "{ran}");
        assert_eq!(story.all("NodeExecution")[2]["outcome"]["failure_reason"], reason);
        assert_eq!(env.read("answers/n").trim(), answers.len().to_string(), "no verdict is asked for once more");
        let told = env.read("answers/implement");
        assert!(told.contains(reason), "{told}");
        assert!(
            env.read("answers/1.asked").contains("End with the verdict on a last line of its own"),
            "it is asked for"
        );
    }
    let env = reviewer(&[("APPROVED", partial), ("APPROVED", "")]);
    env.pleach(&["-y", "run", PROMPT]).expect(0);
    assert_eq!(env.story().path()[2..5], ["review:partial_success", "implement:success", "review:success"]);
}

#[test]
fn a_prompts_agent_is_told_check_and_goal_once() {
    let env = TestEnv::with_repo();
    let told = env.root().join("told");
    let program = format!("#!/bin/sh\ntest $PLEACH_NODE != implement || cat > {}\necho APPROVED\n", told.display());
    let agent = env.write_program("agent.sh", &program);
    env.configure(&format!("agent: 'command:{}'\ntree: {{test_command: 'test -e {{{{ goal }}}}'}}\n", agent.display()));
    env.unbound();
    let ran = env.pleach(&["-y", "run", PROMPT]).expect(1);
    assert!(ran.to_string().contains("`implement` changed nothing, and again `test` failed"), "{ran}");
    assert_eq!(env.story().path().iter().filter(|node| node.starts_with("implement")).count(), 2);
    let told = env.read("told");
    assert_eq!(told.matches(PROMPT).count(), 1, "{told}");
    assert!(told.contains("The work is checked with:\n- test -e {{ goal }}\n"), "{told}");
}

#[test]
fn n20_the_test_of_a_prompt_is_no_template() {
    let env = TestEnv::with_script(SCRIPT);
    let config = env.read("pleach.yaml");
    let test = r#"grep -q "{{ title }}" answer || grep -q {{ goal }} answer || grep -q 42 answer"#;
    env.configure(&format!("{config}tree: {{test_command: '{test}'}}\n"));
    env.pleach(&["-y", "run", PROMPT]).expect(0);
    assert!(env.story().whole_text(&env).contains(&json!(test).to_string()), "the command is run as it is written");
}

#[test]
fn n20_a_mistyped_file_is_not_a_prompt() {
    let env = TestEnv::with_script(SCRIPT);
    for file in ["absent.dot", "pipelines/absent", "absent", "an absent.dot"] {
        let ran = env.pleach(&["-y", "run", file]).expect(2);
        ran.fails_with("pipeline-unreadable").naming(format!("`{file}`"));
    }
    let ran = env.pleach(&["-y", "run", "Fix", "the", "failing", "test"]).expect(2);
    ran.fails_with("input-malformed").naming("`pleach run \"Fix the failing test\"`");
    let ran = env.pleach(&["-y", "run", "fix"]).expect(2);
    ran.fails_with("pipeline-unreadable").naming("`pleach run \"Fix the failing test\"`");
    assert_eq!(env.sessions(), [""; 0]);
    env.write("repo/docs/a.md", "a\n");
    for prompt in ["docs/a.md has a bug", "docs/ is out of date"] {
        let ran = env.pleach(&["-y", "run", prompt, "--dry-run"]).expect(0);
        assert!(ran.stdout.starts_with("would run `docs-"), "{ran}");
    }
}

#[test]
fn a_prompt_is_read_from_standard_input_or_a_file() {
    let env = TestEnv::with_script(SCRIPT);
    let planned = |ran: Ran| ran.expect(0).stdout.lines().next().map(str::to_owned);
    let run = |given| ["-y", "run", given, "--dry-run"];
    let expected = Some("would run `fix-the-failing-test` on `repo`".to_owned());
    let starts = |line: Option<String>| line.map(|line| line.split(" at ").next().unwrap_or_default().to_owned());
    assert_eq!(starts(planned(env.pleach_with_stdin(&run("-"), &format!("\n{PROMPT}\n")))), expected);
    env.write("repo/my prompt.md", format!("\n{PROMPT}\n"));
    assert_eq!(starts(planned(env.pleach(&run("@my prompt.md")))), expected);
    env.pleach_with_stdin(&run("-"), " \n").expect(2).fails_with("prompt-unreadable").naming("standard input");
    for file in ["@absent", "@please fix the tests"] {
        env.pleach(&run(file)).expect(2).fails_with("prompt-unreadable").naming("`pleach run @FILE`");
    }
}

#[test]
fn n20_a_prompt_is_given_to_the_only_agent_installed() {
    let bare = Bare::new();
    let ran = bare.pleach(&["run", PROMPT]).expect(7);
    ran.fails_with("no-agent-installed");
    bare.install("codex", "codex-cli 0.166.0");
    let planned = bare.with_key("OPENAI_API_KEY", &["--json", "run", PROMPT, "--dry-run"]).expect(0).json();
    let nodes = planned["nodes"].as_array().expect("nodes").iter();
    let agents: Vec<&Value> = nodes.map(|node| &node["agent"]).filter(|agent| !agent.is_null()).collect();
    assert_eq!(agents, ["codex", "codex"], "{planned}");
    bare.install("claude", "2.1.325 (Claude Code)");
    let ran = bare.pleach(&["run", PROMPT]).expect(2);
    ran.fails_with("agent-ambiguous");
    assert_eq!(bare.0.sessions(), [""; 0]);
}

#[test]
fn pipelines_find_their_agent_as_prompts_do() {
    let bare = Bare::new();
    bare.0.write("hello.dot", graph("hello", "code [prompt=\"Greet\"] start -> code -> exit"));
    bare.0.write("make.dot", graph("make", &(tool("make", "echo 1 > one") + "start -> make -> exit")));
    let run = ["-y", "run", "../hello.dot"];
    let ran = bare.pleach(&run).expect(7);
    ran.fails_with("no-agent-installed").naming("ANTHROPIC_API_KEY").naming("`--agent simulation`");
    assert_eq!(bare.0.sessions(), [""; 0], "nothing was begun");
    bare.pleach(&["-y", "run", "../make.dot"]).expect(0).does_not_warn("simulation");
    bare.install("claude", "2.1.325 (Claude Code)");
    let planned = bare.with_key("ANTHROPIC_API_KEY", &["--json", "run", "../hello.dot", "--dry-run"]).expect(0);
    planned.does_not_warn("simulation");
    assert!(
        planned.json()["nodes"].as_array().expect("nodes").iter().any(|node| node["agent"] == "claude"),
        "{planned}"
    );
    bare.install("codex", "codex-cli 0.166.0");
    bare.pleach(&run).expect(2).fails_with("agent-ambiguous");
    // It is simulated where that is asked for, by a flag or by the settings.
    let ran = bare.pleach(&[&run[..], &["--agent", "simulation"]].concat()).expect(0);
    ran.warns("simulation");
    bare.0.configure("agent: simulation\n");
    bare.pleach(&run).expect(0).warns("simulation");
}

#[test]
fn n20_init_marks_guesses_and_ends_with_a_prompt() {
    let bare = Bare::new();
    bare.0.write("repo/Cargo.toml", "[package]\n");
    let ran = bare.pleach(&["-y", "init"]).expect(0);
    assert!(ran.stdout.contains("Guessed from Cargo.toml, not tried; `cargo` is not on PATH."), "{ran}");
    let install = "install claude, codex, gemini or opencode, set a key such as ANTHROPIC_API_KEY for the built-in agent, or \
         name a program: `agent: command:PROGRAM` or `agent: acp:PROGRAM` in pleach.yaml";
    let next = [format!("agent:   {install}"), "try it:  pleach run \"Fix the failing test\"".to_owned()];
    assert!(ran.stderr.ends_with(&format!("{}\n", next.join("\n"))), "{ran}");
    let run = bare.pleach(&["run", PROMPT]).expect(7);
    run.fails_with("no-agent-installed").naming(install);
    let ran = bare.pleach(&["doctor"]).expect(7);
    let says = "no agent is configured: nothing that needs one can run\n";
    assert!(ran.stdout.contains(says) && ran.stdout.contains(&format!("fix: {install}; ")), "{ran}");
    assert!(ran.stdout.contains("error  tools       `test_command` needs `cargo`, which is not on PATH"), "{ran}");
    bare.install("codex", "codex-cli 0.166.0");
    let ran = bare.pleach(&["doctor"]).expect(7);
    assert!(
        ran.stdout.contains("no agent is configured: prompts and pipelines use `codex`, task trees need one\n"),
        "{ran}"
    );
    bare.install("cargo", "cargo 1.95.0");
    let ran = bare.pleach(&["doctor"]).expect(0);
    assert!(ran.stdout.contains("ok     tools       cargo"), "{ran}");
}

#[test]
fn n20_agents_get_one_instruction_about_commits() {
    let env = TestEnv::with_repo();
    let result =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.\\nAPPROVED","session_id":"s-1"}"#;
    env.log_in();
    env.write_program(
        "bin/claude",
        &format!("#!/bin/sh\n[ \"$1\" != --version ] || exec echo 9.8.7\ncat > prompt.txt\necho '{result}'\n"),
    );
    env.configure("agent: claude\nagents: {claude: {turns: stream}}\n");
    env.pleach(&["-y", "run", PROMPT]).expect(0);
    let told = env.committed("prompt.txt");
    let about: Vec<&str> = told.split(['.', ':']).filter(|sentence| sentence.contains("commit")).collect();
    let [only] = about.as_slice() else { panic!("{about:?}") };
    assert!(only.contains("so do not commit"), "{only}");
}
