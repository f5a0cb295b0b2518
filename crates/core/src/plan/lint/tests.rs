use std::collections::BTreeSet;

use insta::assert_snapshot;

use super::*;
use crate::plan::diagnostic::show;
use crate::plan::{Inputs, validate};

fn findings(source: &str) -> String {
    findings_with(source, &KnownNames::default())
}

fn findings_with(source: &str, known: &KnownNames) -> String {
    let (_, diagnostics) = validate(source, &Inputs::default(), known);
    show(source, &diagnostics)
}

/// A sound pipeline with `body` added.
fn around(body: &str) -> String {
    format!("digraph G {{\nstart [shape=Mdiamond]\nexit [shape=Msquare]\n{body}\n}}")
}

#[test]
fn a_sound_pipeline_has_no_findings() {
    assert_eq!(findings(&around("a [prompt=\"x\"]\nstart -> a -> exit")), "");
}

#[test]
fn conflicts_need_a_node_that_resolves_them() {
    let branches = "fork [shape=component]\na [prompt=\"a\"]\nb [prompt=\"b\"]\nlook [prompt=\"x\", write=false]\n\
                    fix [prompt=\"Fix\"]\nask [shape=hexagon]\nstart -> fork\nfork -> a -> join\nfork -> b -> join\n";
    let warns = |rules: &str, rest: &str| {
        let source = around(&format!("{branches}join [shape=tripleoctagon{rules}]\n{rest}"));
        validate(&source, &Inputs::default(), &KnownNames::default())
            .1
            .iter()
            .any(|found| found.rule == "conflicts_resolved")
    };
    for rest in
        ["join -> exit", "join -> look -> exit", "join -> fix [condition=\"outcome=fail\"]\njoin -> exit\nfix -> exit"]
    {
        assert!(warns("", rest), "{rest}");
    }
    let resolved = [
        ("", "join -> fix -> exit"),
        ("", "join -> look -> fix -> exit"),
        ("", "join -> ask\nask -> exit [label=Done]"),
        ("", "join -> fix [condition=\"outcome=partial_success\"]\njoin -> exit\nfix -> exit"),
        (", gate=\"make test\"", "join -> exit"),
        (", \"fan_in.policy\"=pick", "join -> exit"),
    ];
    for (rules, rest) in resolved {
        assert!(!warns(rules, rest), "{rules} {rest}");
    }
}

#[test]
fn there_is_one_start_and_one_exit() {
    let table = [
        "digraph G { a [label=x] }",
        "digraph G { start -> end  start [label=s] end [label=e] }",
        "digraph G { s [shape=Mdiamond] t [shape=circle] e [shape=Msquare] s -> e t -> e }",
        "digraph G { s [shape=Mdiamond] e [shape=Msquare] f [shape=doublecircle] s -> e s -> f }",
        "digraph G { start [shape=Mdiamond] e [shape=Msquare] exit [prompt=\"not the exit\"] start -> exit -> e }",
        "digraph G { }",
    ];
    let shown: Vec<_> = table.map(|source| format!("{source}\n{}\n", findings(source))).into_iter().collect();
    assert_snapshot!(shown.join("\n"), @r#"
    digraph G { a [label=x] }
    1:9 error start_node: the pipeline has no start node
        fix: add `start [shape=Mdiamond]`
    1:9 error terminal_node: the pipeline has no exit node
        fix: add `exit [shape=Msquare]`
    1:13 warning dead_end [a]: `a` has no outgoing edge
        fix: add an edge; a run succeeds only at its exit

    digraph G { start -> end  start [label=s] end [label=e] }


    digraph G { s [shape=Mdiamond] t [shape=circle] e [shape=Msquare] s -> e t -> e }
    1:32 error start_node [t]: a second start node: `s` is one already
        fix: keep one start node
    1:35 note alias [t]: `shape=circle` is taken as a start node, `shape=Mdiamond`

    digraph G { s [shape=Mdiamond] e [shape=Msquare] f [shape=doublecircle] s -> e s -> f }
    1:50 error terminal_node [f]: a second exit node: `e` is one already
        fix: keep one exit node
    1:53 note alias [f]: `shape=doublecircle` is taken as an exit node, `shape=Msquare`
    1:80 warning one_edge_taken [s -> f]: `s` has several edges without a condition; only the one to `e` is taken
        fix: give them conditions or labels, or run them side by side with `shape=component`

    digraph G { start [shape=Mdiamond] e [shape=Msquare] exit [prompt="not the exit"] start -> exit -> e }


    digraph G { }
    1:9 error start_node: the pipeline has no start node
        fix: add `start [shape=Mdiamond]`
    1:9 error terminal_node: the pipeline has no exit node
        fix: add `exit [shape=Msquare]`
    "#);
}

#[test]
fn nothing_is_out_of_reach() {
    let source = around(
        "a [prompt=x, goal_gate=true, retry_target=fix, max_visits=3]
fix [prompt=x]
orphan [prompt=x]
island1 [prompt=x]
island2 [prompt=x]
start -> a -> exit
fix -> a
orphan -> exit
island1 -> island2 -> island1",
    );
    assert_snapshot!(findings(&source), @r"
    6:1 error reachability [orphan]: `orphan` cannot be reached from the start node
        fix: add an edge to it, or remove it
    7:1 error reachability [island1]: `island1` cannot be reached from the start node
        fix: add an edge to it, or remove it
    8:1 error reachability [island2]: `island2` cannot be reached from the start node
        fix: add an edge to it, or remove it
    ");
}

#[test]
fn edges_keep_their_places() {
    let source = around(
        "a [prompt=x]
b [prompt=x]
start -> a
a -> exit
a -> start
exit -> a
a -> b
a -> missing
a -> bb",
    );
    assert_snapshot!(findings(&source), @r#"
    5:1 warning dead_end [b]: `b` has no outgoing edge
        fix: add an edge; a run succeeds only at its exit
    7:1 warning one_edge_taken [a -> exit]: `a` has several edges without a condition; only the one to `b` is taken
        fix: give them conditions or labels, or run them side by side with `shape=component`
    8:1 error start_no_incoming [a -> start]: an edge leads back to the start node `start`
        fix: remove this edge
    9:1 error exit_no_outgoing [exit -> a]: an edge leaves the exit node `exit`
        fix: remove this edge
    11:6 error edge_target_exists [a -> missing]: node `missing` is not declared
        fix: declare it: `missing [label="…"]`
    12:6 error edge_target_exists [a -> bb]: node `bb` is not declared
        fix: declare it: `bb [label="…"]`
    "#);
}

#[test]
fn gates_and_retry_targets() {
    let source = around(
        "a [prompt=x, goal_gate=true]
b [prompt=x, goal_gate=true, retry_target=a]
c [prompt=x, retry_target=bx, fallback_retry_target=\"no such\"]
d [prompt=x, goal_gate=true, retry_target=c, max_visits=2]
start -> a -> b -> c -> d -> exit",
    );
    assert_snapshot!(findings(&source), @r"
    4:14 warning goal_gate_has_retry [a]: goal gate `a` has no retry target
        fix: give the node or the graph a `retry_target`
    5:14 warning goal_gate_bounded [b]: goal gate `b` uses the default limit of 25 visits; set `max_visits`
        fix: give `b` or `a` a `max_visits`
    6:14 warning retry_target_exists [c]: `retry_target` names the unknown node `bx`
    6:31 warning retry_target_exists [c]: `fallback_retry_target` names the unknown node `no such`
    ");
    let bounded = around("graph [max_node_visits=4, retry_target=a]\na [prompt=x, goal_gate=true]\nstart -> a -> exit");
    assert!(!findings(&bounded).contains("goal_gate"), "{}", findings(&bounded));
}

#[test]
fn branches_come_together() {
    let source = around(
        "fork [shape=component]
a1 [prompt=x]
a2 [prompt=x]
b [prompt=x]
c [prompt=x]
join [shape=tripleoctagon]
lonely [shape=tripleoctagon]
start -> fork
fork -> a1 -> a2 -> join
fork -> b -> join
fork -> c -> exit
join -> lonely -> exit",
    );
    assert_snapshot!(findings(&source), @r"
    10:1 warning fan_in_inputs [lonely]: the fan-in `lonely` has one input: there is nothing to merge
        fix: lead every branch of the fan-out to it
    14:1 warning fan_out_joins [fork -> c]: the branch from `fork` to `c` never reaches a fan-in
        fix: lead it to a node with `shape=tripleoctagon`
    ");
}

/// A fan-out with the branches `a -> t` and `b`, a further one inside `b`, and `more`.
fn forked(more: &str) -> String {
    let body = "node [prompt=x]
fork [shape=component]
join [shape=tripleoctagon]
inner [shape=component]
meet [shape=tripleoctagon]
start -> fork
fork -> a -> t
t -> join
fork -> b -> inner
inner -> x -> meet
inner -> y -> meet
meet -> join
join -> check
check -> exit";
    findings(&around(&format!("{body}\n{more}")))
}

#[test]
fn a_branch_must_not_lead_back_to_its_fan_out() {
    let errors = |more: &str| {
        let found = forked(more);
        let errors = found.lines().filter_map(|line| line.split_once("error branch_leads_back "));
        errors.map(|(_, error)| error.replace(" leads back to it while it is open", "")).collect::<Vec<_>>()
    };
    assert_eq!(
        errors("t -> fork [condition=\"outcome=fail\"]"),
        ["[t -> fork]: a branch of `fork`: fork → a → t → fork"]
    );
    // One around the own fan-out is open, too, and a way may lead over nodes that are fine outside.
    assert_eq!(
        errors("x -> setup [condition=\"outcome=fail\"]\nsetup -> fork"),
        ["[setup -> fork]: a branch of `fork`: fork → b → inner → x → setup → fork"]
    );
    assert_eq!(
        errors("x [retry_target=inner]\nb [fallback_retry_target=fork, goal_gate=true]"),
        ["[x]: a branch of `inner`: inner → x → inner", "[b]: a branch of `fork`: fork → b → fork"]
    );
}

#[test]
fn loops_around_and_inside_branches_are_fine() {
    for fine in [
        "check -> fork [condition=\"outcome=fail\"]",
        "check [retry_target=fork]",
        "graph [retry_target=fork]",
        "t -> a [condition=\"outcome=fail\"]",
        "meet -> inner [condition=\"outcome=fail\"]",
        "meet [retry_target=inner]",
        "fork [retry_target=start2]\nstart2 -> fork",
        "fork -> fix [condition=\"outcome=fail\"]\nfix -> fork",
        // The exit sends the run back, for the branch goes on to its join.
        "a [goal_gate=true, retry_target=fork]\na -> t [condition=\"outcome=fail\"]",
    ] {
        let found = forked(fine);
        assert!(!found.contains("branch_leads_back"), "{fine}: {found}");
    }
}

#[test]
fn outcomes_are_spelled_as_the_engine_spells_them() {
    let body = |condition: &str| {
        around(&format!("a [prompt=x]\nstart -> a\na -> exit [condition=\"{condition}\"]\na -> exit"))
    };
    for fine in ["outcome=success", "outcome!=partial_success", "outcome=needs_dod", "outcome=yes", "context.x=SUCCESS"]
    {
        assert_eq!(findings(&body(fine)), "", "{fine}");
    }
    for (wrong, meant) in [
        ("outcome=SUCCESS", "success"),
        ("outcome=Fail", "fail"),
        ("outcome=passed", "success"),
        ("outcome!=failure", "fail"),
        ("outcome=sucess", "success"),
        ("outcome=partial-success", "partial_success"),
        ("x=1 && outcome=retrying", "retry"),
    ] {
        let found = findings(&body(wrong));
        assert!(found.contains("warning outcome_known [a -> exit]"), "{wrong}: {found}");
        assert!(found.contains(&format!("(did you mean `{meant}`?)")), "{wrong}: {found}");
    }
}

#[test]
fn conditions_that_can_never_hold() {
    let source = around(
        "t [shape=insulator, duration=1s]
d [shape=diamond]
e [shape=diamond]
p [prompt=x]
q [shape=diamond]
start -> t [condition=\"outcome=fail\"]
start -> t
t -> d
d -> exit [condition=\"outcome=approved\"]
d -> e [condition=\"outcome=success\"]
d -> p [condition=\"outcome=fail\"]
e -> exit [condition=\"outcome=fail\"]
e -> p [condition=\"outcome=success\"]
p -> exit [condition=\"outcome=a && outcome=b\"]
p -> exit [condition=\"context.n=1 && context.n!=1\"]
p -> exit [condition=\"(x=1 && x=2) || (y=1 && y=2)\"]
p -> exit [condition=\"(x=1 && x=2) || y=1\"]
p -> q
q -> exit [condition=\"outcome=approved\"]
q -> p",
    );
    let found: Vec<_> =
        findings(&source).lines().filter(|line| !line.contains("note alias")).map(str::to_owned).collect();
    assert_snapshot!(found.join("\n"), @r"
    9:13 warning condition_can_hold [start -> t]: the condition `outcome=fail` can never hold: the outcome here is `success`
    12:12 warning condition_can_hold [d -> exit]: the condition `outcome=approved` can never hold: the outcome here is `fail`, `partial_success`, `retry`, `skipped`, `success`
    15:12 warning condition_can_hold [e -> exit]: the condition `outcome=fail` can never hold: the outcome here is `success`
    17:12 warning condition_can_hold [p -> exit]: the condition `outcome=a && outcome=b` can never hold: `outcome` cannot be both `a` and `b`
    18:12 warning condition_can_hold [p -> exit]: the condition `context.n=1 && context.n!=1` can never hold: `context.n` cannot both be and not be `1`
    19:12 warning condition_can_hold [p -> exit]: the condition `(x=1 && x=2) || (y=1 && y=2)` can never hold: `y` cannot be both `1` and `2`
    ");
}

#[test]
fn attributes_that_look_like_others() {
    let source = around(
        "graph [gaol=\"x\", fontname=Helvetica, escalation_models=x]
a [promt=\"x\", label=y, max_retrys=1, colour=red, color=red, height=1, my_custom=1]
start -> a [lable=x]
a -> exit [conditon=\"outcome=success\", penwidth=2]",
    );
    assert_snapshot!(findings(&source), @r"
    4:8 warning attribute_spelling: unknown attribute `gaol` (did you mean `goal`?)
    5:4 warning attribute_spelling [a]: unknown attribute `promt` (did you mean `prompt`?)
    5:24 warning attribute_spelling [a]: unknown attribute `max_retrys` (did you mean `max_retries`?)
    6:13 warning attribute_spelling [start -> a]: unknown attribute `lable` (did you mean `label`?)
    7:12 warning attribute_spelling [a -> exit]: unknown attribute `conditon` (did you mean `condition`?)
    ");
}

#[test]
fn misspelt_shapes_are_reported_and_graphviz_shapes_are_not() {
    let source = around(
        "a [shape=parallelogramm, label=a]
b [shape=hexagn, label=b]
c [shape=mdiamond, label=c]
d [shape=square, label=d]
e [shape=Mcircle, label=e]
f [shape=ellipse, label=f]
g [shape=blob, label=g]
start -> a -> b -> c -> d -> e -> f -> g -> exit",
    );
    assert_snapshot!(findings(&source), @"
    4:4 warning shape_spelling [a]: unknown shape `parallelogramm`; treated as an agent node
        fix: did you mean `shape=parallelogram`?
    5:4 warning shape_spelling [b]: unknown shape `hexagn`; treated as an agent node
        fix: did you mean `shape=hexagon`?
    6:4 warning shape_spelling [c]: unknown shape `mdiamond`; treated as an agent node
        fix: did you mean `shape=Mdiamond`?
    ");
}

#[test]
fn nodes_have_what_they_need() {
    let source = around(
        "a
b [shape=parallelogram]
c [shape=insulator]
d [shape=hexagon, human.default_choice=zz]
e [type=custom.thing]
f [type=conditionl]
g [shape=component, join_policy=all, error_policy=ignore, label=x]
h [shape=tripleoctagon, fan_in.policy=best]
i [prompt=x]
start -> a -> b -> c -> d -> e -> f -> g
g -> h -> exit
g -> i -> h",
    );
    assert_snapshot!(findings(&source), @r#"
    4:1 warning prompt_on_llm_nodes [a]: `a` has neither a prompt nor a label to work from
        fix: add `prompt="…"`
    5:1 warning command_on_tool_nodes [b]: `b` has no command to run and will always fail
        fix: add `tool_command="…"`
    6:1 warning duration_on_wait_nodes [c]: `c` does not say how long to wait
        fix: add `duration=30s`
    6:4 note alias [c]: `shape=insulator` is taken as a pause, `type=wait`
    7:19 warning default_choice_exists [d]: the default `zz` is not a choice at gate `d`
        fix: use one of e
    8:4 error type_known [e]: unknown node type `custom.thing`
        fix: use one of start, exit, codergen, conditional, tool, wait.human, wait, parallel, parallel.fan_in, stack.manager_loop
    9:4 error type_known [f]: unknown node type `conditionl` (did you mean `conditional`?)
        fix: use one of start, exit, codergen, conditional, tool, wait.human, wait, parallel, parallel.fan_in, stack.manager_loop
    10:21 warning attribute_value [g]: `all` is not a value of `join_policy`
        fix: use one of wait_all, first_success, k_of_n, quorum
    11:25 warning attribute_value [h]: `best` is not a value of `fan_in.policy`
        fix: use one of merge, pick, judge
    "#);
}

#[test]
fn agents_and_models_are_checked_when_they_are_known() {
    let set = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let source = around(
        "a [prompt=x, agent=claude, llm_model=smart, llm_provider=OpenAI]
b [prompt=x, agent=cluade, llm_model=gpt-9, llm_provider=zork]
c [prompt=x, agent=\"command:cat\"]
e [prompt=x, type=special]
start -> a -> b -> c -> e -> exit",
    );
    let known = KnownNames {
        agents: set(&["builtin", "claude"]),
        models: set(&["cheap", "smart"]),
        providers: set(&["gemini", "openai"]),
        handlers: set(&["special"]).unwrap(),
    };
    assert_snapshot!(findings_with(&source, &known), @r"
    5:14 warning agent_configured [b]: the agent `cluade` is not configured
        fix: add it under `agents:` in pleach.yaml, or use one of builtin, claude
    5:28 warning model_configured [b]: the model `gpt-9` is not configured
        fix: add it under `providers:` in pleach.yaml, or use one of cheap, smart
    5:45 warning provider_configured [b]: the provider `zork` is not configured
        fix: use one of gemini, openai
    ");
    assert!(!findings(&source).contains("configured"));
}

#[test]
fn rules_of_ones_own_run_too() {
    struct NoTools;
    impl LintRule for NoTools {
        fn name(&self) -> &str {
            "no_tools"
        }
        fn apply(&self, pipeline: &Pipeline) -> Vec<Diagnostic> {
            let tools = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Tool);
            tools.map(|node| Diagnostic::error(self.name(), "no tools here", node.span.0).at_node(&node.id)).collect()
        }
    }
    let source = around("t [shape=parallelogram, tool_command=ls]\nstart -> t -> exit");
    let (pipeline, _) = crate::plan::load(&source, &Inputs::default(), &[]);
    let found = check(&pipeline.unwrap(), &KnownNames::default(), &[&NoTools]);
    assert_eq!(show(&source, &found), "4:1 error no_tools [t]: no tools here");
}

#[test]
fn what_validates_but_does_not_run_yet() {
    let source = around(
        "graph [tool_hooks.pre=\"check\"]
fork [shape=component]
a [prompt=x, tool_hooks.post=\"log\"]
b [prompt=x]
join [shape=tripleoctagon]
m [shape=house]
start -> fork
fork -> a -> join
fork -> b -> join
join -> m -> exit",
    );
    let (pipeline, diagnostics) = validate(&source, &Inputs::default(), &KnownNames::default());
    assert!(!diagnostics.iter().any(Diagnostic::is_error), "{}", show(&source, &diagnostics));
    assert_snapshot!(show(&source, &unsupported(&pipeline.unwrap())), @r"
    4:8 error unsupported: `tool_hooks.pre` cannot be run by this version of pleach yet
    6:14 error unsupported [a]: `tool_hooks.post` cannot be run by this version of pleach yet
    9:1 error unsupported [m]: a manager loop (`shape=house`) cannot be run by this version of pleach yet
    ");
    let (plain, _) = validate(&around("a [prompt=x]\nstart -> a -> exit"), &Inputs::default(), &KnownNames::default());
    assert_eq!(unsupported(&plain.unwrap()), []);
}

#[test]
fn only_agents_and_commands_are_steps() {
    let source = around(
        "a [prompt=x, step=implement]
b [shape=parallelogram, step=test]
c [shape=hexagon, step=ask]
d [shape=diamond, step=branch]
e [type=wait, shape=box, duration=1s, step=pause]
start [step=begin]
exit [step=finish]
start -> a -> b -> c -> d -> e -> exit",
    );
    let said = [("c", "shape=hexagon", "ask"), ("d", "shape=diamond", "branch"), ("e", "type=wait", "pause")];
    let ends = [("start", "shape=Mdiamond", "begin"), ("exit", "shape=Msquare", "finish")];
    let expected: BTreeSet<String> = said
        .iter()
        .chain(&ends)
        .map(|(id, what, step)| format!("`{id}` (`{what}`) cannot be the step `{step}`"))
        .collect();
    let messages = |found: &[Diagnostic], rule: &str| -> BTreeSet<String> {
        let found = found.iter().filter(|found| found.rule == rule);
        found.map(|found| found.message.split(": only agents").next().unwrap_or_default().to_owned()).collect()
    };
    let (pipeline, warned) = validate(&source, &Inputs::default(), &KnownNames::default());
    assert_eq!(messages(&warned, "step_on_working_nodes"), expected);
    assert!(!warned.iter().any(Diagnostic::is_error), "{}", show(&source, &warned));
    let refused = task_pipeline(&pipeline.unwrap());
    assert_eq!(messages(&refused, "task_steps"), expected);
    assert!(refused.iter().all(Diagnostic::is_error), "{}", show(&source, &refused));
    // What is no step is none that would be committed.
    let asks = around("c [shape=hexagon, step=ask]\nstart -> c -> exit");
    let (pipeline, _) = validate(&asks, &Inputs::default(), &KnownNames::default());
    let refused = show(&asks, &task_pipeline(&pipeline.unwrap()));
    assert!(refused.contains("no node has a `step`"), "{refused}");
}

#[test]
fn linting_time_grows_linearly_with_the_graph() {
    // Every node has an error that is looked up among all names; quadratic work would not go unnoticed.
    let nodes = 5_000;
    let mut body = String::new();
    for n in 0..nodes {
        body.push_str(&format!("n{n} [shape=diamond, retry_target=x{n}, promt=x]\n"));
        body.push_str(&format!("n{n} -> n{} [condition=\"outcome=o{n}\"]\n", n + 1));
        body.push_str(&format!("n{n} -> m{n}\n"));
    }
    let (_, diagnostics) = validate(&around(&body), &Inputs::default(), &KnownNames::default());
    assert!(diagnostics.len() > nodes);
}
