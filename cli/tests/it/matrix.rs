//! The matrix every engine of the pipeline dialect must pass, and its smoke graph, through the program.

use serde_json::{Value, json};

use crate::sessions::{Gate, graph, tool};
use crate::support::{Ran, TestEnv};

/// What `pleach validate --json` says of one pipeline.
#[track_caller]
fn validated(env: &TestEnv, dot: &str, code: i32) -> Value {
    env.pipeline(dot);
    let ran = env.pleach(&["validate", "--json", at(env)]).expect(code);
    ran.json()["files"][0].clone()
}

/// The pipeline as seen from where pleach runs.
fn at(env: &TestEnv) -> &'static str {
    if env.repo_path().is_dir() { "../pipeline.dot" } else { "pipeline.dot" }
}

/// The findings of a rule.
fn findings<'a>(document: &'a Value, rule: &str) -> Vec<&'a Value> {
    let all = document["diagnostics"].as_array().expect("diagnostics");
    all.iter().filter(|found| found["rule"] == rule).collect()
}

/// Runs a pipeline of tool nodes and gives the nodes it came through.
#[track_caller]
fn route(body: &str) -> Vec<String> {
    let env = TestEnv::with_repo();
    env.run(&graph("routes", body), &[]).expect(0);
    env.story().path()
}

/// A tool node that reports an outcome of its own.
fn reports(id: &str, status: &str) -> String {
    tool(id, &format!("echo '{status}' > \"$PLEACH_STATUS_FILE\""))
}

// ---- parsing and checking

#[test]
fn matrix_linear_parse() {
    let env = TestEnv::new();
    let document = validated(
        &env,
        "digraph G { start [shape=Mdiamond] work [prompt=\"Work\"] exit [shape=Msquare]\n start -> work -> exit }",
        0,
    );
    assert_eq!((&document["nodes"], &document["edges"]), (&json!(3), &json!(2)));
    assert_eq!(document["diagnostics"], json!([]));
    let drawn = env.pleach(&["graph", "--format", "text", "pipeline.dot"]).expect(0).stdout;
    assert!(drawn.contains("start (start)\n  → work\nwork (agent)\n  → exit\nexit (exit)\n"), "{drawn}");
}

#[test]
fn matrix_graph_attributes() {
    let env = TestEnv::with_repo();
    env.run(
        "digraph Attrs { graph [goal=\"Ship it\", label=\"The big one\"]\n rankdir=LR\n start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
        &[],
    )
    .expect(0);
    let story = env.story();
    assert_eq!(story.first("PipelineStarted")["goal"], "Ship it");
    let drawn = env.pleach(&["graph", "--format", "dot", "../pipeline.dot"]).expect(0).stdout;
    assert!(drawn.contains("goal=\"Ship it\"") && drawn.contains("label=\"The big one\""), "{drawn}");
    // The attributes are part of what nodes and conditions can read.
    assert_eq!(story.last("Checkpoint")["context"]["graph.goal"], "Ship it");
}

#[test]
fn matrix_multi_line_attributes() {
    let env = TestEnv::new();
    let dot = "digraph G {\n start [shape=Mdiamond]\n work [\n  label=\"Do the work\",\n  // a comment\n  prompt=\"first line\nsecond line\",\n  timeout=900s,\n  max_retries=2\n ]\n exit [shape=Msquare]\n start -> work\n   -> exit [\n  label=\"go\"\n ]\n}";
    assert_eq!(validated(&env, dot, 0)["diagnostics"], json!([]));
    let drawn = env.pleach(&["graph", "--format", "dot", "pipeline.dot"]).expect(0).stdout;
    for part in ["label=\"Do the work\"", "prompt=\"first line\\nsecond line\"", "timeout=15m", "max_retries=2"] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    assert_eq!(drawn.matches("label=\"go\"").count(), 2, "a chain's attributes are every edge's: {drawn}");
}

#[test]
fn matrix_missing_start_is_an_error() {
    let env = TestEnv::with_repo();
    let dot = "digraph G { work [prompt=\"Work\"] exit [shape=Msquare] work -> exit }";
    let document = validated(&env, dot, 2);
    assert_eq!(findings(&document, "start_node")[0]["severity"], "error");
    env.run(dot, &[]).expect(2);
    assert!(env.sessions().is_empty(), "nothing is begun that cannot be run");
}

#[test]
fn matrix_missing_exit_is_an_error() {
    let env = TestEnv::with_repo();
    let dot = "digraph G { start [shape=Mdiamond] work [prompt=\"Work\"] start -> work }";
    let document = validated(&env, dot, 2);
    assert_eq!(findings(&document, "terminal_node")[0]["severity"], "error");
    env.run(dot, &[]).expect(2);
    assert!(env.sessions().is_empty());
}

#[test]
fn matrix_orphan_is_reported() {
    let env = TestEnv::new();
    let document =
        validated(&env, &graph("G", "work [prompt=\"Work\"] orphan [prompt=\"Alone\"] start -> work -> exit"), 2);
    let found = findings(&document, "reachability");
    assert_eq!(found.len(), 1, "{document}");
    assert_eq!(found[0]["node_id"], "orphan");
    assert_eq!(found[0]["line"], 4);
}

// ---- running

#[test]
fn matrix_three_node_linear_run() {
    let env = TestEnv::with_repo();
    env.run(&graph("linear", &(tool("work", "echo done") + "start -> work -> exit")), &[]).expect(0);
    let story = env.story();
    assert_eq!(story.path(), ["start:success", "work:success", "exit:success"]);
    assert_eq!(story.last("Checkpoint")["completed_nodes"], json!(["start", "work", "exit"]));
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
}

#[test]
fn matrix_success_and_fail_branching() {
    let body = |command: &str| {
        tool("check", command)
            + &tool("good", "true")
            + &tool("bad", "true")
            + "check -> good [condition=\"outcome=success\"] check -> bad [condition=\"outcome=fail\"]
               start -> check  good -> exit  bad -> exit"
    };
    assert_eq!(route(&body("true")), ["start:success", "check:success", "good:success", "exit:success"]);
    assert_eq!(route(&body("exit 3")), ["start:success", "check:fail", "bad:success", "exit:success"]);
    // The same, decided after the node that ran: a diamond passes the outcome on.
    let diamond = |command: &str| {
        tool("check", command)
            + &tool("good", "true")
            + &tool("bad", "true")
            + "which [shape=diamond]
               check -> which [condition=\"outcome=success\"] check -> which [condition=\"outcome=fail\"]
               which -> good [condition=\"outcome=success\"] which -> bad [condition=\"outcome=fail\"]
               start -> check  good -> exit  bad -> exit"
    };
    assert_eq!(route(&diamond("true"))[2..], ["which:success", "good:success", "exit:success"]);
    assert_eq!(route(&diamond("false"))[2..], ["which:fail", "bad:success", "exit:success"]);
}

#[test]
fn matrix_retry_with_max_retries_two() {
    let node = |succeeds_at: u32| {
        let command = format!(
            "echo $PLEACH_ATTEMPT >> tries; test $PLEACH_ATTEMPT -ge {succeeds_at} || echo '{{\\\"outcome\\\": \\\"retry\\\"}}' > \\\"$PLEACH_STATUS_FILE\\\""
        );
        graph(
            "retries",
            &format!(" flaky [shape=parallelogram, max_retries=2, tool_command=\"{command}\"]\nstart -> flaky -> exit"),
        )
    };
    let env = TestEnv::with_repo();
    env.run(&node(3), &[]).expect(0);
    let story = env.story();
    assert_eq!(story.path(), ["start:success", "flaky:retry", "flaky:retry", "flaky:success", "exit:success"]);
    assert_eq!(env.committed("tries"), "1\n2\n3");
    let delays = story.all("RetryAt");
    assert_eq!(delays.iter().map(|retry| retry["attempt"].clone()).collect::<Vec<_>>(), [2, 3]);

    // Three attempts, and no fourth one.
    let env = TestEnv::with_repo();
    env.run(&node(4), &[]).expect(1);
    assert_eq!(env.committed("tries"), "1\n2\n3");
    assert!(
        env.story().last("PipelineFailed")["reason"].as_str().unwrap().contains("retries"),
        "{}",
        env.story().last("PipelineFailed")
    );
}

/// A gate whose node fails on its first visit and goes to the exit all the same.
fn gated(attributes: &str) -> String {
    let review = format!(
        " review [shape=parallelogram, goal_gate=true, {attributes} tool_command=\"echo $PLEACH_VISIT >> visits; test $PLEACH_VISIT -ge 2\"]\n"
    );
    graph(
        "gates",
        &(tool("work", "echo $PLEACH_VISIT > work")
            + &review
            + "start -> work -> review  review -> exit [condition=\"outcome=success\"]  review -> exit [condition=\"outcome=fail\"]"),
    )
}

#[test]
fn matrix_gate_blocks_exit() {
    let env = TestEnv::with_repo();
    env.run(&gated("retry_target=work,"), &[]).expect(0);
    let story = env.story();
    let expected = [
        "start:success",
        "work:success",
        "review:fail",
        "exit:success",
        "work:success",
        "review:success",
        "exit:success",
    ];
    // Whether the exit itself is visited before the run is sent back is the engine's affair.
    let path: Vec<String> = story.path();
    let without_first_exit: Vec<&str> =
        expected.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, node)| *node).collect();
    assert!(path == expected || path == without_first_exit, "{path:?}");
    let gate_retry = story
        .all("NodeExecution")
        .into_iter()
        .find(|node| node["route"]["kind"] == "gate_retry")
        .expect("the gate sends it back");
    assert_eq!((&gate_retry["route"]["gate"], &gate_retry["route"]["to"]), (&json!("review"), &json!("work")));
    assert_eq!(env.committed("visits"), "1\n2");

    // With nowhere to go back to, the run fails rather than ends well.
    let env = TestEnv::with_repo();
    let ran = env.run(&gated(""), &[]).expect(1);
    assert!(ran.stdout.contains("oal gate"), "{ran}");
    assert_eq!(env.story().kinds().last(), Some(&"PipelineFailed"));
}

#[test]
fn matrix_gate_allows_exit() {
    let env = TestEnv::with_repo();
    let body = " review [shape=parallelogram, goal_gate=true, retry_target=review, tool_command=\"true\"]\nstart -> review -> exit";
    env.run(&graph("gates", body), &[]).expect(0);
    assert_eq!(env.story().path(), ["start:success", "review:success", "exit:success"]);
    // A gate nobody came to is no gate.
    let body = tool("work", "true")
        + " review [shape=parallelogram, goal_gate=true, retry_target=work, tool_command=\"false\"]
        start -> work  work -> exit [weight=5]  work -> review -> exit";
    assert_eq!(route(&body), ["start:success", "work:success", "exit:success"]);
}

#[test]
fn matrix_wait_human_routes() {
    let dot = graph(
        "asks",
        &(tool("ship", "echo shipped > ship")
            + &tool("fix", "echo fixed > fix")
            + "gate [shape=hexagon, label=\"Ship it?\"]
               start -> gate  gate -> ship [label=\"[Y] Yes\"]  gate -> fix [label=\"[N] No\"]  ship -> exit  fix -> exit"),
    );
    for (answer, next) in [("gate=Yes", "ship"), ("gate=n", "fix"), ("gate=fix", "fix"), ("gate=[Y] Yes", "ship")] {
        let env = TestEnv::with_repo();
        env.run(&dot, &["--answer", answer]).expect(0);
        let story = env.story();
        assert_eq!(story.path()[2], format!("{next}:success"), "{answer}");
        assert_eq!(story.first("HumanInteraction")["question"], "Ship it?");
        let context = &story.last("Checkpoint")["context"];
        assert_eq!(context["human.gate.selected"], next);
        assert_eq!(context["human.gate.label"], if next == "ship" { "Yes" } else { "No" });
    }
}

#[test]
fn matrix_condition_beats_weight() {
    let body = tool("work", "true")
        + &tool("heavy", "true")
        + &tool("right", "true")
        + "start -> work  work -> heavy [weight=100]  work -> right [condition=\"outcome=success\"]  heavy -> exit  right -> exit";
    assert_eq!(route(&body)[2], "right:success");
}

#[test]
fn matrix_weight_breaks_ties() {
    let body = tool("work", "true")
        + &tool("alpha", "true")
        + &tool("omega", "true")
        + "start -> work  work -> alpha [weight=1]  work -> omega [weight=2]  alpha -> exit  omega -> exit";
    assert_eq!(route(&body)[2], "omega:success");
}

#[test]
fn matrix_lexical_tiebreak() {
    let body = tool("work", "true")
        + &tool("beta", "true")
        + &tool("alpha", "true")
        + "start -> work  work -> beta  work -> alpha  alpha -> exit  beta -> exit";
    assert_eq!(route(&body)[2], "alpha:success");
}

#[test]
fn matrix_context_visible_downstream() {
    let env = TestEnv::with_script(
        r#"
scripts:
  - name: told
    when: {node: tell, contains: strawberry}
    steps: [{text: I know the flavour.}]
"#,
    );
    let body = reports("ask", r#"{"outcome": "success", "context_updates": {"flavour": "strawberry", "count": 3}}"#)
        + &tool("right", "echo right")
        + &tool("wrong", "echo wrong")
        + "tell [prompt=\"What do you know?\"]
           start -> ask
           ask -> right [condition=\"context.flavour=strawberry && count=3\"]
           ask -> wrong [weight=9]
           right -> tell  wrong -> tell  tell -> exit";
    env.run(&graph("context", &body), &[]).expect(0);
    let story = env.story();
    assert_eq!(story.path()[2..], ["right:success", "tell:success", "exit:success"]);
    let context = &story.last("Checkpoint")["context"];
    assert_eq!(context["flavour"], "strawberry");
    assert_eq!(context["tool.output"], "right");
    assert_eq!(context["last_stage"], "tell");
    assert_eq!(context["last_response"], "I know the flavour.");
}

#[test]
fn matrix_checkpoint_and_resume_give_the_same_result() {
    let dot = |two: &str, three: &str| {
        graph(
            "same",
            &(reports("one", r#"{"outcome": "success", "context_updates": {"colour": "red"}}"#)
                + &tool("two", &format!("{two}echo two > two"))
                + &tool("three", &format!("{three}cat two > three; echo half > half; exit 1"))
                + &tool("four", "echo four >> three")
                + "start -> one -> two -> three
                   three -> four [condition=\"outcome=fail && context.colour=red\"]  three -> exit [condition=\"outcome=success\"]
                   four -> exit"),
        )
    };
    let result = |env: &TestEnv| {
        let story = env.story();
        let checkpoint = story.last("Checkpoint");
        let tree = env.git(&["rev-parse", &format!("{}^{{tree}}", env.branch())]);
        let turns: Vec<Value> = story
            .all("ToolExecution")
            .iter()
            .map(|tool| json!([tool["turn"], tool["node_id"], tool["exit"]]))
            .collect();
        json!({"tree": tree, "path": story.path(), "turns": turns, "context": checkpoint["context"],
               "outcomes": checkpoint["node_outcomes"], "completed": checkpoint["completed_nodes"]})
    };
    let whole = TestEnv::with_repo();
    whole.run(&dot("", ""), &[]).expect(0);

    // Interrupted with Ctrl-C in the second node, killed in the third.
    let env = TestEnv::with_repo();
    let (second, third) = (Gate::new(&env, "second"), Gate::new(&env, "third"));
    let wait = |gate: &Gate| format!("({}); ", gate.command());
    let mut run = env.start(&dot(&wait(&second), &format!("echo begun > half; {}", wait(&third))), &[]);
    let held = second.reached(&mut run);
    run.stop();
    second.open(held);
    run.end().expect(3);
    let session = env.session();
    let mut run = env.spawn(&["-y", "resume", &session]);
    let held = third.reached(&mut run);
    run.kill(held);
    third.stay_open();
    let ran = env.resume(&[]).expect(0);
    // What the killed node wrote is kept.
    ran.warns("work-kept").naming("refs/pleach/keep/");
    let (mut whole, mut parts) = (result(&whole), result(&env));
    for result in [&mut whole, &mut parts] {
        // The commands differ by the gates in them, and by nothing else.
        result["context"]["tool.output"] = Value::Null;
    }
    assert_eq!(whole, parts);
}

#[test]
fn matrix_stylesheet_by_shape() {
    let env = TestEnv::with_script("scripts: [{name: all, steps: [{text: Done.}]}]\n");
    let dot = "digraph styled {
        graph [model_stylesheet=\"* { llm_model: any-model; } box { llm_model: box-model; reasoning_effort: low } .fast { llm_model: fast-model; } #last { llm_model: last-model; }\"]
        start [shape=Mdiamond] exit [shape=Msquare]
        plain [shape=box, prompt=\"1\"]
        other [shape=ellipse, prompt=\"2\"]
        quick [shape=box, class=\"fast\", prompt=\"3\"]
        last [shape=box, class=\"fast\", prompt=\"4\"]
        own [shape=box, llm_model=\"own-model\", prompt=\"5\"]
        start -> plain -> other -> quick -> last -> own -> exit
    }";
    env.run(dot, &[]).expect(0);
    let story = env.story();
    let models: Vec<String> = story
        .all("AgentTurn")
        .iter()
        .map(|turn| format!("{}={}", turn["node_id"].as_str().unwrap(), turn["model"].as_str().unwrap()))
        .collect();
    assert_eq!(models, ["plain=box-model", "other=any-model", "quick=fast-model", "last=last-model", "own=own-model"]);
}

#[test]
fn matrix_goal_expansion() {
    let env = TestEnv::with_script("scripts: [{name: all, steps: [{text: Done.}]}]\n");
    let dot = "digraph goals {
        graph [goal=\"Build {{ thing }}\"]
        start [shape=Mdiamond] exit [shape=Msquare]
        plan [prompt=\"Plan this: $goal. Then stop.\"]
        code [prompt=\"Do this: {{ goal }}!\"]
        start -> plan -> code -> exit
    }";
    env.run(dot, &["thing=a boat"]).expect(0);
    let story = env.story();
    let prompt = |node: &str| story.message(&env, story.node(node)["prompt"].as_u64().unwrap()).to_string();
    assert!(prompt("plan").contains("Plan this: Build a boat. Then stop."), "{}", prompt("plan"));
    assert!(prompt("code").contains("Do this: Build a boat!"), "{}", prompt("code"));
    assert_eq!(story.first("PipelineStarted")["goal"], "Build a boat");
    assert_eq!(story.first("PipelineStarted")["inputs"], json!({"thing": "a boat"}));
}

#[test]
fn matrix_ten_and_more_nodes() {
    let env = TestEnv::with_repo();
    let names: Vec<String> = (1..=12).map(|number| format!("n{number}")).collect();
    let nodes: String = names.iter().map(|name| tool(name, &format!("echo {name} >> log"))).collect();
    let dot = graph("many", &format!("{nodes}start -> {} -> exit", names.join(" -> ")));
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("log"), names.join("\n"));
    assert_eq!(env.story().last("Checkpoint")["completed_nodes"].as_array().unwrap().len(), 14);
    assert_eq!(env.commits().len(), 12);
}

#[test]
fn smoke_plan_implement_review_done() {
    let dot = r#"digraph smoke {
    graph [goal="A script that greets the world"]
    start     [shape=Mdiamond]
    plan      [shape=box, prompt="Plan what is needed for: $goal"]
    implement [shape=box, prompt="Write it as planned", goal_gate=true, retry_target=plan]
    review    [shape=box, prompt="Say whether it is right"]
    done      [shape=Msquare]
    start -> plan
    plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan   [condition="outcome=fail", label="Again"]
    review -> done      [condition="outcome=success"]
    review -> implement [condition="outcome=fail", label="Mend"]
}
"#;
    let env = TestEnv::with_script(
        r#"
model: scripted-1
scripts:
  - name: plan
    when: {node: plan}
    steps: [{text: "The plan: greet."}]
  - name: implement
    when: {node: implement}
    steps:
      - text: Add the greeting.
        tools: [{write_file: {file_path: hello.sh, content: "echo hello\n"}}]
      - text: It is written.
  - name: review
    when: {node: review}
    steps: [{text: It is right.}]
"#,
    );
    let document = validated(&env, dot, 0);
    assert_eq!((&document["nodes"], &document["edges"]), (&json!(5), &json!(6)));
    assert_eq!(document["valid"], true);
    env.run(dot, &[]).expect(0);
    let story = env.story();
    assert_eq!(story.path(), ["start:success", "plan:success", "implement:success", "review:success", "done:success"]);
    let checkpoint = story.last("Checkpoint");
    assert_eq!(checkpoint["current_node"], "done");
    assert_eq!(checkpoint["node_outcomes"]["implement"], "success", "the gate is satisfied");
    assert_eq!(story.kinds().last(), Some(&"PipelineCompleted"));
    for (node, asked, said) in [
        ("plan", "Plan what is needed for: A script that greets the world", "The plan: greet."),
        ("implement", "Write it as planned", "It is written."),
        ("review", "Say whether it is right", "It is right."),
    ] {
        let ended = story.node(node);
        let prompt = story.message(&env, ended["prompt"].as_u64().expect("a prompt"));
        let response = story.message(&env, ended["response"].as_u64().expect("a response"));
        assert!(prompt.to_string().contains(asked), "{prompt}");
        assert!(response.to_string().contains(said), "{response}");
    }
    assert_eq!(env.committed("hello.sh"), "echo hello");

    // The run as the directory other tools expect.
    let session = env.session();
    env.pleach(&["export", &session, "../run"]).expect(0);
    for node in ["plan", "implement", "review"] {
        for file in ["prompt.md", "response.md"] {
            assert!(!env.read(format!("run/{node}/{file}")).is_empty(), "{node}/{file}");
        }
        let status: Value = serde_json::from_str(&env.read(format!("run/{node}/status.json"))).expect("JSON");
        assert_eq!(status["outcome"], "success", "{node}");
    }
    let checkpoint: Value = serde_json::from_str(&env.read("run/checkpoint.json")).expect("JSON");
    assert_eq!(checkpoint["current_node"], "done");
}

// ---- what is still to come

#[test]
fn what_cannot_be_run_yet_validates_and_is_refused() {
    let manager = graph("manages", "boss [shape=house, prompt=\"x\"] start -> boss -> exit");
    let hooks = graph("hooks", "work [prompt=\"x\", \"tool_hooks.pre\"=\"true\"] start -> work -> exit")
        .replace("\"tool_hooks.pre\"", "tool_hooks.pre");
    for (dot, names) in [(manager, "manager"), (hooks, "tool_hooks")] {
        let env = TestEnv::with_repo();
        let document = validated(&env, &dot, 0);
        assert_eq!(findings(&document, "unsupported")[0]["severity"], "note", "{document}");
        let ran: Ran = env.run(&dot, &[]).expect(2);
        ran.fails_with("unsupported");
        assert!(ran.stderr.contains(names), "{ran}");
        assert!(env.sessions().is_empty());
    }
}
