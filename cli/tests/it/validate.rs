use insta::assert_snapshot;

use crate::support::TestEnv;

const GOOD: &str = "digraph Good {
    start [shape=Mdiamond]
    work [prompt=\"@prompts/work.md\"]
    exit [shape=Msquare]
    start -> work -> exit
}
";

const BAD: &str = "digraph Bad {
    start [shape=Mdiamond]
    work [promt=\"do it\", timeout=soon]
    orphan [prompt=\"a
long one\", script=\"ls\"]
    exit [shape=Msquare]
    start -> work -> exit
    work -> wrok
    orphan -> exit [condition=\"outcome=\"]
}
";

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.write("good.dot", GOOD);
    env.write("bad.dot", BAD);
    env.write("prompts/work.md", "Work on it.\n");
    env
}

#[test]
fn a_sound_pipeline_is_ok() {
    assert_snapshot!(env().pleach(&["validate", "good.dot"]), @r"
    exit: 0
    --- stdout
    good.dot: ok, 3 nodes, 2 edges
    ");
}

#[test]
fn every_finding_is_shown_with_line_and_fix() {
    assert_snapshot!(env().pleach(&["validate", "bad.dot"]), @r#"
    exit: 2
    --- stdout
    warning[attribute_spelling]: unknown attribute `promt` (did you mean `prompt`?)
     --> bad.dot:3:11
      |
    3 |     work [promt="do it", timeout=soon]
      |           ^^^^^^^^^^^^^

    error[attribute_type]: `timeout` must be a duration such as `[TIME]`, `15m` or `[TIME]`, not `soon`
     --> bad.dot:3:26
      |
    3 |     work [promt="do it", timeout=soon]
      |                          ^^^^^^^^^^^^

    error[reachability]: `orphan` cannot be reached from the start node
     --> bad.dot:4:5
      |
    4 |     orphan [prompt="a
      |     ^^^^^^
      |
      = help: add an edge to it, or remove it

    error[edge_target_exists]: node `wrok` is not declared
     --> bad.dot:8:13
      |
    8 |     work -> wrok
      |             ^^^^
      |
      = help: did you mean `work`? Otherwise declare it: `wrok [label="…"]`

    error[condition_syntax]: cannot read the condition `outcome=`: a value is missing; an empty one is written `outcome=""`
     --> bad.dot:9:40
      |
    9 |     orphan -> exit [condition="outcome="]
      |                                        ^

    bad.dot: 4 errors, 1 warning
    "#);
}

#[test]
fn all_files_are_checked_whatever_is_wrong_with_one() {
    let env = env();
    env.write("syntax.dot", "strict graph G {\n  a -- b\n}\n");
    env.write("binary.dot", b"\xff\xfe");
    assert_snapshot!(env.pleach(&["validate", "missing.dot", "syntax.dot", "binary.dot", "good.dot"]), @r"
    exit: 2
    --- stdout
    error[syntax]: `strict` graphs are not supported
     --> syntax.dot:1:1
      |
    1 | strict graph G {
      | ^^^^^^
      |
      = help: remove `strict`

    error[syntax]: a pipeline is a directed graph
     --> syntax.dot:1:8
      |
    1 | strict graph G {
      |        ^^^^^
      |
      = help: write `digraph`

    error[syntax]: `--` joins nodes of an undirected graph
     --> syntax.dot:2:5
      |
    2 |   a -- b
      |     ^^
      |
      = help: write `->`

    syntax.dot: 3 errors
    good.dot: ok, 3 nodes, 2 edges
    --- stderr
    error[pipeline-unreadable]: cannot read `missing.dot`: No such file or directory (os error 2)
    hint: give the path of a pipeline; there is `bad.dot`, `binary.dot`, `good.dot`, `syntax.dot`
    error[pipeline-unreadable]: cannot read `binary.dot`: stream did not contain valid UTF-8
    hint: give the path of a pipeline, a text file in the DOT language
    ");
}

#[test]
fn quiet_shows_errors_only() {
    let env = env();
    env.write("notes.dot", "digraph G { start [shape=circle] exit [shape=doublecircle] start -> exit }");
    assert_snapshot!(env.pleach(&["-q", "validate", "notes.dot"]), @r"
    exit: 0
    --- stdout
    notes.dot: ok, 2 nodes, 1 edge
    ");
}

#[test]
fn what_cannot_be_run_yet_is_a_note() {
    let env = env();
    env.write(
        "boss.dot",
        "digraph G {
    start [shape=Mdiamond]
    boss [shape=house, prompt=x]
    exit [shape=Msquare]
    start -> boss -> exit
}
",
    );
    assert_snapshot!(env.pleach(&["validate", "boss.dot"]), @r"
    exit: 0
    --- stdout
    note[unsupported]: a manager loop (`shape=house`) cannot be run by this version of pleach yet
     --> boss.dot:3:5
      |
    3 |     boss [shape=house, prompt=x]
      |     ^^^^

    boss.dot: ok, 3 nodes, 2 edges, 1 note
    ");
}

#[test]
fn json_is_one_document() {
    let ran = env().pleach(&["validate", "--json", "good.dot", "bad.dot", "missing.dot"]).expect(2);
    let json = ran.json();
    assert_eq!(json["valid"], false);
    assert_eq!(json["files"][0]["valid"], true);
    assert_eq!(json["files"][0]["nodes"], 3);
    let first = &json["files"][1]["diagnostics"][0];
    assert_snapshot!(serde_json::to_string_pretty(first).unwrap(), @r#"
    {
      "rule": "attribute_spelling",
      "severity": "warning",
      "message": "unknown attribute `promt` (did you mean `prompt`?)",
      "node_id": "work",
      "span": {
        "start": 51,
        "end": 64
      },
      "file": "bad.dot",
      "line": 3,
      "column": 11
    }
    "#);
    assert!(json["files"][2]["error"].as_str().unwrap().starts_with("cannot read `missing.dot`"));
    assert_eq!(ran.stdout.lines().count(), 1);
}

#[test]
fn a_prompt_file_that_is_missing_is_an_error() {
    let env = env();
    env.write("gone.dot", GOOD.replace("work.md", "gone.md"));
    let ran = env.pleach(&["validate", "gone.dot"]).expect(2);
    assert!(ran.stdout.contains("the prompt file `prompts/gone.md`"), "{ran}");
}

#[test]
fn agents_and_models_are_looked_up_in_the_configuration() {
    let env = env();
    env.write("pleach.yaml", "agents: {reviewer: {runner: builtin}}\nproviders: {anthropic: {models: {smart: big}}}\n");
    let work = "work [agent=reviewer, llm_model=smart, ";
    env.write("known.dot", GOOD.replace("work [", work));
    env.pleach(&["validate", "known.dot"]).expect(0);
    env.write("unknown.dot", GOOD.replace("work [", &work.replace("reviewer", "reviwer").replace("smart", "clever")));
    let ran = env.pleach(&["validate", "unknown.dot"]).expect(0);
    assert!(ran.stdout.contains("warning[agent_configured]: the agent `reviwer`"), "{ran}");
    assert!(ran.stdout.contains("warning[model_configured]: the model `clever`"), "{ran}");
    env.write("pleach.yaml", "agnet: x\n");
    let ran = env.pleach(&["validate", "known.dot", "good.dot"]).expect(2);
    assert!(ran.stdout.contains("good.dot: ok"), "{ran}");
    assert_eq!(ran.stderr.matches("unknown key `agnet`").count(), 1, "{ran}");
    let json = env.pleach(&["validate", "--json", "good.dot"]).expect(2).json();
    assert!(json["errors"][0].as_str().unwrap().contains("unknown key `agnet`"), "{json}");
    assert_eq!((&json["valid"], &json["files"][0]["valid"]), (&false.into(), &true.into()));
}

#[test]
fn a_misspelt_shape_is_a_warning_with_a_fix() {
    let env = env();
    env.write("shape.dot", GOOD.replace("work [", "work [shape=hexagn, "));
    assert_snapshot!(env.pleach(&["validate", "shape.dot"]), @r#"
    exit: 0
    --- stdout
    warning[shape_spelling]: unknown shape `hexagn`; treated as an agent node
     --> shape.dot:3:11
      |
    3 |     work [shape=hexagn, prompt="@prompts/work.md"]
      |           ^^^^^^^^^^^^
      |
      = help: did you mean `shape=hexagon`?

    shape.dot: ok, 3 nodes, 2 edges, 1 warning
    "#);
}

#[test]
fn an_unknown_provider_is_named() {
    let env = env();
    env.write("zork.dot", GOOD.replace("prompts/work.md\"", "prompts/work.md\", llm_provider=\"zork\""));
    let ran = env.pleach(&["validate", "zork.dot"]).expect(0);
    assert!(ran.stdout.contains("provider_configured"), "{ran}");
    assert!(
        ran.stdout.contains("use one of anthropic, compatible, gemini, google, openai, openrouter, script"),
        "{ran}"
    );
}

#[test]
fn a_stylesheet_may_only_set_what_there_is() {
    let env = env();
    let sheet = "    graph [model_stylesheet=\"* { llm_model: big; colour: red; }\"]\n    start [";
    env.write("style.dot", GOOD.replace("    start [", sheet));
    let ran = env.pleach(&["validate", "style.dot"]).expect(2);
    assert!(ran.stdout.contains("`colour` cannot be set here"), "{ran}");
}
