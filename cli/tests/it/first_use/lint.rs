//! What `validate` accepts, refuses and says, and what `graph` draws.

use serde_json::{Value, json};

use crate::server::{Play, Server};
use crate::sessions::{graph, tool};
use crate::support::TestEnv;

/// What `validate` finds in a pipeline with this body, as `severity rule message`.
#[track_caller]
fn findings(body: &str) -> Vec<String> {
    let env = TestEnv::new();
    env.write("p.dot", graph("p", body));
    let json = env.pleach(&["validate", "--json", "p.dot"]).json();
    let found = json["files"][0]["diagnostics"].as_array().expect("diagnostics").iter();
    let word = |found: &Value, key: &str| found[key].as_str().unwrap_or_default().to_owned();
    found.map(|found| ["severity", "rule", "message"].map(|key| word(found, key)).join(" ")).collect()
}

#[track_caller]
fn assert_found(body: &str, expected: &[&str]) {
    assert_eq!(findings(body), expected, "{body}");
}

#[test]
fn n09_quoted_attribute_names_work() {
    let env = TestEnv::with_repo();
    let gate = "ask [\"shape\"=hexagon, \"human.default_choice\"=\"no\"]\n\"goal\" = \"decide\"\n";
    let ways = tool("yes", "touch yes") + &tool("no", "touch no");
    let body = format!("{gate}{ways}start -> ask\nask -> yes\nask -> no\nyes -> exit\nno -> exit");
    env.run(&graph("gate", &body), &[]).expect(0);
    assert_eq!(env.changed(&env.branch()), ["no"]);
    let drawn = env.pleach(&["graph", "../pipeline.dot", "--format", "dot"]).expect(0);
    assert!(drawn.stdout.contains("human.default_choice=\"no\""), "{drawn}");
}

#[test]
fn n12_an_unknown_node_type_fails_before_anything_runs() {
    let body = tool("first", "touch first") + "odd [type=toool, label=Odd]\nstart -> first -> odd -> exit";
    assert_found(&body, &["error type_known unknown node type `toool` (did you mean `tool`?)"]);
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("odd", &body), &[]).expect(2);
    ran.fails_with("type_known").naming("`toool`");
    ran.fails_with("pipeline-invalid").naming("`pleach validate ../pipeline.dot`");
    assert_eq!(env.sessions(), [""; 0]);
}

#[test]
fn n12_a_missing_child_pipeline_is_an_error() {
    let env = TestEnv::new();
    let body = "watch [shape=house, \"stack.child_dotfile\"=\"child.dot\"]\nstart -> watch -> exit";
    env.write("p.dot", graph("p", body));
    let ran = env.pleach(&["validate", "p.dot"]).expect(2);
    assert!(ran.stdout.contains("error[child_dotfile]: ") && ran.stdout.contains("`child.dot`"), "{ran}");
    env.write("child.dot", graph("child", "start -> exit"));
    env.pleach(&["validate", "p.dot"]).expect(0);
}

#[test]
fn n14_interactive_agents_are_refused_with_the_reason() {
    let body = "talk [prompt=\"Talk\", \"agent.mode\"=\"interactive\"]\nstart -> talk -> exit";
    let refused = "error agent_mode interactive agents are not supported: agents work without a person";
    assert_found(body, &[refused]);
    let env = TestEnv::with_repo();
    env.run(&graph("talk", body), &[]).expect(2);
    assert_eq!(env.sessions(), [""; 0]);
}

#[test]
fn n14_openrouter_is_a_provider() {
    let server = Server::start(|_, _| {
        let chunk = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            format!("data: {}\n\n", json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
        };
        let said = chunk(json!({"role": "assistant", "content": "Done."}), Value::Null);
        Play::Stream(vec![said, chunk(json!({}), "stop".into()), "data: [DONE]\n\n".into()])
    });
    let env = TestEnv::with_repo();
    env.configure("agent: builtin\n");
    let body = "work [prompt=Greet, llm_provider=openrouter, llm_model=\"some/model\"]\nstart -> work -> exit";
    env.pipeline(&graph("work", body));
    assert!(!env.pleach(&["validate", "../pipeline.dot"]).expect(0).stdout.contains("warning"));
    let ran = env.pleach(&["-y", "run", "../pipeline.dot"]).expect(7);
    assert!(ran.stderr.contains("OPENROUTER_API_KEY"), "{ran}");
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    command.env("OPENROUTER_API_KEY", "k-router").env("OPENROUTER_BASE_URL", format!("{}/api/v1", server.url()));
    env.finish(command.output().expect("pleach can be started")).expect(0);
    let seen = server.seen();
    assert!(seen[0].line.starts_with("POST /api/v1/chat/completions "), "{:?}", seen[0]);
    assert_eq!(
        (&seen[0].body["model"], seen[0].headers["authorization"].as_str()),
        (&json!("some/model"), "Bearer k-router")
    );
}

#[test]
fn n14_simulated_outcomes_are_played() {
    let env = TestEnv::with_repo();
    let body = "check [prompt=Check, sim_outcomes=\"fail,success\"]\nfix [prompt=Fix]\nstart -> check\n\
                check -> exit [condition=\"outcome=success\"]\ncheck -> fix [condition=\"outcome=fail\"]\nfix -> check";
    env.run(&graph("sim", body), &[]).expect(0);
    let completed = env.story();
    let nodes: Vec<&str> =
        completed.all("NodeExecution").iter().filter_map(|event| event["node_id"].as_str()).collect();
    assert_eq!(nodes, ["start", "check", "fix", "check", "exit"]);
}

#[test]
fn n14_an_unknown_backoff_policy_is_a_warning() {
    let body = "work [prompt=Work, backoff_policy=patient]\nother [prompt=Work, backoff_policy=lazy]\n\
                start -> work -> other -> exit";
    assert_found(body, &["warning attribute_value `lazy` is not a value of `backoff_policy`"]);
}

#[test]
fn n22_alias_notes_need_verbose() {
    let env = TestEnv::new();
    let body = "node [model=big, timeout=30]\na [script=\"make\", type=command]\nb [llm_prompt=Work]\n\
                start -> a -> b -> exit";
    env.write("p.dot", graph("p", body));
    assert_eq!(env.pleach(&["validate", "p.dot"]).expect(0).stdout, "p.dot: ok, 4 nodes, 3 edges\n");
    let verbose = env.pleach(&["-v", "validate", "p.dot"]).expect(0);
    assert!(
        verbose.stdout.contains("note[alias]: `script` ") && verbose.stdout.contains("`tool_command`"),
        "{verbose}"
    );
    assert_eq!(verbose.stdout.matches("`timeout` has no unit").count(), 1, "{verbose}");
}

#[test]
fn n22_each_diagnostic_is_reported_once() {
    let nodes = "a [prompt=\"{{ who }} and {{ who }}\"]\nb [prompt=Work]\nc [prompt=Work]\n";
    let body = format!(
        "node [shape=hexagn, max_retrys=1]\nedge [conditon=x]\n{nodes}start -> a -> b -> c\n\
         c -> exit [condition=\"outcome=passed\"]"
    );
    assert_found(
        &body,
        &[
            "warning shape_spelling unknown shape `hexagn`; treated as an agent node",
            "warning attribute_spelling unknown attribute `max_retrys` (did you mean `max_retries`?)",
            "warning attribute_spelling unknown attribute `conditon` (did you mean `condition`?)",
            "warning undefined_variable `{{ who }}` is undefined",
            "warning outcome_known `passed` is not a built-in outcome (did you mean `success`?)",
        ],
    );
    assert_found(
        "a [promt=Work]\nstart -> a -> exit",
        &["warning attribute_spelling unknown attribute `promt` (did you mean `prompt`?)"],
    );
}

#[test]
fn n22_outcomes_of_tools_and_keys_of_gates_are_right() {
    let status = r#"echo '{"outcome": "flaky"}' > $PLEACH_STATUS_FILE"#;
    let ways = "t -> exit [condition=\"outcome=success\"]\nt -> a [condition=\"outcome=flaky\"]\na -> exit\n";
    assert_found(&(tool("t", status) + "a [prompt=Work]\nstart -> t\n" + ways), &[]);
    for default in ["A", "a", "Approve", "exit"] {
        let gate = format!("g [shape=hexagon, human.default_choice={default}]\nr [prompt=Work]\nstart -> g\n");
        let edges = "g -> exit [label=\"[A] Approve\"]\ng -> r [label=\"[R] Revise\"]\nr -> g";
        assert_found(&(gate + edges), &[]);
    }
}

#[test]
fn n22_cycles_without_a_way_out_are_found() {
    let body = "a [prompt=Work]\nb [prompt=Work]\nc [prompt=Work]\nstart -> a\n\
                a -> exit [condition=\"outcome=success\"]\na -> b [condition=\"outcome=fail\"]\nb -> c -> b";
    assert_found(body, &["warning cycle_has_exit the cycle `b` → `c` → `b` has no way out"]);
    assert_found(&body.replace("b -> c -> b", "b -> c -> a"), &[]);
}

#[test]
fn n22_of_two_unconditional_edges_one_is_taken() {
    let body = "a [prompt=Work]\nb [prompt=Work]\nc [prompt=Work]\nstart -> a\na -> c\na -> b\nb -> exit\nc -> exit";
    let one = "warning one_edge_taken `a` has several edges without a condition; only the one to `b` is taken";
    assert_found(body, &[one]);
    let chosen = body.replace("a -> c", "a -> c [label=Again]").replace("a -> b", "a -> b [label=Good]");
    assert_found(&chosen, &[]);
    assert_found(&body.replace("a -> b\n", "a -> b [max_visits=2]\n"), &[]);
}

#[test]
fn n22_equal_gate_keys_and_zero_visit_limits_are_found() {
    let gate = "g [shape=hexagon]\na [prompt=Work, max_visits=0]\nstart -> g\n\
                g -> exit [label=\"Approve\"]\ng -> a [label=\"Abandon\"]\na -> g";
    assert_found(
        gate,
        &[
            "warning visits_allowed `max_visits=0` allows no visit at all",
            "warning gate_keys `Approve` and `Abandon` have the same key `A` at gate `g`",
        ],
    );
}

#[test]
fn n22_words_in_conditions_that_mean_nothing_are_found() {
    let body = "a [prompt=Work]\nb [prompt=Work]\nstart -> a\na -> exit [condition=\"outcome=success and context.n=1\"]\n\
                a -> b [condition=\"Outcome=fail\"]\nb -> exit";
    assert_found(
        body,
        &[
            "warning condition_words `and` is part of the value `success and context.n=1`; join conditions with `&&`",
            "warning condition_key unknown key `Outcome` (did you mean `outcome`?)",
        ],
    );
}

#[test]
fn n22_undefined_templates_are_found() {
    let body = "a [prompt=\"Do {{ plan.output }}\", llm_model=\"{{ model }}\"]\nstart -> a -> exit";
    assert_found(
        body,
        &[
            "warning undefined_variable `{{ plan.output }}` is undefined",
            "warning undefined_variable `{{ model }}` is undefined",
        ],
    );
}

#[test]
fn n22_impossible_outcomes_are_found() {
    let ways = "start -> review\nreview -> exit [condition=\"outcome=approved\"]\n\
                review -> a [condition=\"outcome=rejected\"]\na -> review";
    let nobody =
        "warning outcome_given no edge of `review` is taken on `success`; its edges ask for `approved`, `rejected`";
    assert_found(&format!("a [prompt=Work]\nreview [prompt=\"Look at it\"]\n{ways}"), &[nobody]);
    assert_found(&format!("a [prompt=Work]\nreview [prompt=\"Answer approved or rejected\"]\n{ways}"), &[]);
    assert_found(&format!("a [prompt=Work]\n{}{ways}", tool("review", "make test")), &[nobody]);
    assert_found(&format!("a [prompt=Work]\n{}{ways}", tool("review", "./review.sh")), &[]);
}

#[test]
fn n25_a_picture_of_another_kind_is_refused() {
    let env = TestEnv::new();
    env.write("p.dot", graph("p", "start -> exit"));
    insta::assert_snapshot!(env.pleach(&["graph", "p.dot", "-o", "x.png"]), @r"
    exit: 2
    --- stderr
    error[output-misnamed]: cannot draw `x.png`: pleach does not write .png files
    hint: end it with .svg, .dot or .txt, or choose a --format
    ");
    env.pleach(&["--json", "graph", "p.dot", "-o", "x.png"]).expect(2);
    assert!(!env.root().join("x.png").exists());
}

/// The lines of text and the middle of each node of a picture.
fn drawn(body: &str) -> (String, impl Fn(&str) -> f64) {
    let env = TestEnv::new();
    env.write("p.dot", graph("p", body));
    let svg = env.pleach(&["graph", "p.dot", "--format", "svg"]).expect(0).stdout;
    let nodes = svg.clone();
    let top = move |id: &str| {
        let node = nodes.split(&format!("id=\"node-{id}\"")).nth(1).expect("a node");
        let y = node.split("<tspan ").nth(1).and_then(|text| text.split(" y=\"").nth(1)).expect("a text");
        y.split('"').next().and_then(|y| y.parse().ok()).expect("a place")
    };
    (svg, top)
}

#[test]
fn n25_unlabelled_tool_nodes_show_their_id() {
    let body = tool("unit_tests", "cargo test") + "start -> unit_tests -> exit";
    let (svg, _) = drawn(&body);
    let node = svg.split("id=\"node-unit_tests\"").nth(1).expect("a node").split("</g>").next().expect("its end");
    let texts: Vec<&str> = node.split("<text class=\"").skip(1).map(|text| text.split('"').next().unwrap()).collect();
    assert_eq!(texts, ["label", "id"]);
    assert!(node.contains(">unit_tests</tspan>") && node.contains(">cargo test</tspan>"), "{node}");
}

#[test]
fn n25_conditions_break_at_words() {
    let condition = "context.human.gate.label=Approve_everything && context.tests=passed";
    let (svg, _) = drawn(&format!("start -> exit [condition=\"{condition}\"]"));
    let note = svg.split("<text class=\"when\"").nth(1).expect("a condition").split("</text>").next().expect("its end");
    let lines: Vec<String> = note
        .split("<tspan ")
        .skip(1)
        .map(|line| line.split('>').nth(1).unwrap().trim_end_matches("</tspan").replace("&amp;", "&"))
        .collect();
    assert!(lines.len() > 1, "{lines:?}");
    let is_end = |line: &String| line.ends_with(|c: char| "=._&".contains(c)) || line.ends_with("when");
    assert!(
        lines[..lines.len() - 1].iter().all(|line| is_end(line) || condition.contains(&format!("{line} "))),
        "{lines:?}"
    );
    let parts = ["context", "human", "label=", "Approve", "everything", "tests=", "passed"];
    assert!(parts.iter().all(|part| lines.iter().any(|line| line.contains(part))), "{lines:?}");
}

#[test]
fn n25_siblings_stand_in_one_row() {
    let body = "a [prompt=Work]\nb [prompt=Work]\nc [prompt=Work]\nstart -> a\na -> b [condition=\"outcome=success\"]\n\
                a -> c\nb -> exit\nc -> exit";
    let (svg, top) = drawn(body);
    assert_eq!(top("b"), top("c"), "{svg}");
    assert!(top("a") < top("b") && top("b") < top("exit"), "{svg}");
}
