use std::time::Duration;

use insta::assert_snapshot;

use super::diagnostic::show;
use super::graph::{Attr, Graph};
use super::pipeline::{Fidelity, HandlerKind, Node, WritePolicy};
use super::*;
use crate::ids::NodeId;

fn pipeline(source: &str) -> Pipeline {
    let (pipeline, diagnostics) = load(source, &Inputs::default(), &[]);
    assert_eq!(show(source, &diagnostics), "", "{source}");
    pipeline.expect("a graph")
}

fn findings(source: &str) -> String {
    let (_, diagnostics) = load(source, &Inputs::default(), &[]);
    show(source, &diagnostics)
}

fn id(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

/// The node `a` of a graph with this body; notes about other engines' words are allowed.
fn node(body: &str) -> Node {
    let source = format!("digraph G {{ {body} }}");
    let (pipeline, diagnostics) = load(&source, &Inputs::default(), &[]);
    assert!(!diagnostics.iter().any(Diagnostic::is_error), "{}", show(&source, &diagnostics));
    pipeline.unwrap().node(&id("a")).unwrap().clone()
}

#[test]
fn the_smoke_graph_is_understood() {
    let pipeline = pipeline(
        r#"
// a comment
digraph Smoke_Test {
    graph [goal="Write a greeting", default_max_retries=3]
    rankdir=LR
    start [shape=Mdiamond, label="Start"]
    plan [shape=box, prompt="Plan: $goal // not a comment", timeout=900s]
    implement [class="hard", prompt="Do it", goal_gate=true, max_retries=2]
    review [prompt="Review {{ goal }} and {{goal}}", timeout="15m"]
    done [shape=Msquare]
    start -> plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan [condition="outcome=fail", label="Retry", loop_restart=true]
    review -> done [weight=-1]
    review -> implement [fidelity=full, thread_id=t]
}
"#,
    );
    assert_eq!((pipeline.nodes().len(), pipeline.edges().len()), (5, 6));
    assert_eq!(pipeline.name().unwrap(), "smoke-test");
    assert_eq!((pipeline.goal.as_str(), pipeline.default_max_retries), ("Write a greeting", 3));
    let [start, plan, implement, review, done] = pipeline.nodes() else { panic!("five nodes") };
    assert_eq!(plan.prompt, "Plan: Write a greeting // not a comment");
    assert_eq!(review.prompt, "Review Write a greeting and Write a greeting");
    assert_eq!((plan.timeout, review.timeout), (Some(Duration::from_secs(900)), Some(Duration::from_secs(900))));
    assert_eq!((implement.goal_gate, implement.max_retries, plan.max_retries), (true, Some(2), None));
    assert_eq!((pipeline.start(), pipeline.exit()), (Some(start), Some(done)));
    let targets: Vec<_> = pipeline.outgoing(&implement.id).map(|edge| edge.to.as_str()).collect();
    assert_eq!(targets, ["review", "plan"]);
    let sources: Vec<_> = pipeline.incoming(&implement.id).map(|edge| edge.from.as_str()).collect();
    assert_eq!(sources, ["plan", "review"]);
    let [.., retry, last, back] = pipeline.edges() else { panic!("edges") };
    assert_eq!((retry.label.as_str(), retry.loop_restart, last.weight), ("Retry", true, -1));
    assert_eq!((back.fidelity, back.thread_id.as_deref()), (Some(Fidelity::Full), Some("t")));
    assert_eq!(pipeline.outgoing(&id("nowhere")).count(), 0);
}

#[test]
fn the_handler_follows_type_then_shape_then_id() {
    use HandlerKind::*;
    for (attrs, kind) in [
        ("shape=Mdiamond", Start),
        ("shape=Msquare", Exit),
        ("shape=box", Codergen),
        ("shape=hexagon", WaitHuman),
        ("shape=diamond", Conditional),
        ("shape=component", Parallel),
        ("shape=tripleoctagon", FanIn),
        ("shape=parallelogram", Tool),
        ("shape=house", ManagerLoop),
        ("shape=circle", Start),
        ("shape=doublecircle", Exit),
        ("shape=tab", Codergen),
        ("shape=insulator", Wait),
        ("shape=star", Codergen),
        ("shape=diamond, type=tool", Tool),
        ("type=\"wait.human\"", WaitHuman),
        ("type=\"parallel.fan_in\"", FanIn),
        ("type=\"stack.manager_loop\"", ManagerLoop),
        ("type=wait", Wait),
        ("type=agent", Codergen),
        ("type=prompt", Codergen),
        ("type=command", Tool),
        ("type=human", WaitHuman),
        ("node_type=exit", Exit),
        ("type=\"my.own\"", Custom("my.own".into())),
        ("label=x", Codergen),
    ] {
        assert_eq!(node(&format!("a [{attrs}]")).handler, kind, "{attrs}");
    }
    for (source, start, exit) in [
        ("start [label=x] exit [label=x]", "start", "exit"),
        ("Start [label=x] Exit [label=x]", "Start", "Exit"),
        ("node [shape=box] start [label=x] end [label=x]", "start", "end"),
        ("s [shape=Mdiamond] start [label=x] done [shape=Msquare] end [label=x]", "s", "done"),
    ] {
        let pipeline = pipeline(&format!("digraph G {{ {source} }}"));
        assert_eq!(pipeline.start().unwrap().id, start, "{source}");
        assert_eq!(pipeline.exit().unwrap().id, exit, "{source}");
        let ends = [HandlerKind::Start, HandlerKind::Exit];
        assert_eq!(pipeline.nodes().iter().filter(|node| ends.contains(&node.handler)).count(), 2, "{source}");
    }
}

#[test]
fn every_alias_of_other_engines_is_understood_and_noted() {
    let minute = Some(Duration::from_secs(60));
    type Check = (&'static str, &'static str, fn(&Node) -> bool);
    let checks: [Check; 11] = [
        ("a [script=\"ls; # {} //\"]", "tool_command", |node| node.tool_command.as_deref() == Some("ls; # {} //")),
        ("a [model=m]", "llm_model", |node| node.llm_model.as_deref() == Some("m")),
        ("a [provider=p]", "llm_provider", |node| node.llm_provider.as_deref() == Some("p")),
        ("a [llm_prompt=\"do\"]", "prompt", |node| node.prompt == "do"),
        ("a [node_type=tool]", "type", |node| node.handler == HandlerKind::Tool),
        ("a [max_node_visits=3]", "max_visits", |node| node.max_visits == Some(3)),
        ("a [shape=tab]", "without tools", |node| !node.tools),
        ("a [type=prompt]", "codergen", |node| !node.tools),
        ("a [timeout=60]", "seconds", |node| node.timeout == Some(Duration::from_secs(60))),
        ("a [timeout=\"60\"]", "seconds", |node| node.timeout == Some(Duration::from_secs(60))),
        ("node [model=m] a [label=x]", "llm_model", |node| node.llm_model.as_deref() == Some("m")),
    ];
    assert_eq!(node("a [duration=1m]").duration, minute);
    for (body, word, holds) in checks {
        assert!(holds(&node(body)), "{body}");
        let found = findings(&format!("digraph G {{ {body} }}"));
        assert!(found.contains("note alias"), "{body}: {found}");
        assert!(found.contains(word), "{body}: {found}");
        assert_eq!(found.matches("note alias").count(), 1, "{body}: {found}");
    }
    let source = "digraph G { graph [default_max_retry=4, context_fidelity_default=truncate, context_thread_default=t, max_node_visits=9] }";
    let (pipeline, diagnostics) = load(source, &Inputs::default(), &[]);
    let pipeline = pipeline.unwrap();
    assert_eq!((pipeline.default_max_retries, pipeline.default_max_visits), (4, Some(9)));
    assert_eq!((pipeline.default_fidelity, pipeline.default_thread.as_deref()), (Some(Fidelity::Truncate), Some("t")));
    assert_eq!(diagnostics.len(), 4);
    assert_eq!(node("a [runner=codex]").agent.as_deref(), Some("codex"));
    assert_eq!(findings("digraph G { a [runner=codex] }"), "");
}

#[test]
fn conditions_of_other_engines_are_noted() {
    let source = r#"digraph G { a [label=x]
        a -> a [condition="outcome = succeeded"]
        a -> a [condition="outcome==failed"]
        a -> a [condition="context.n >= 3 || !done"]
        a -> a [condition="outcome=success && context.x!=1"]
        a -> a [condition="  "]
        a -> a [condition="outcome=\"a"]
        a -> a [max_visits=2] }"#;
    assert_snapshot!(findings(source), @r#"
    2:17 note alias [a -> a]: the outcome `succeeded` is taken as `success`
        fix: write `outcome=success`
    3:17 note alias [a -> a]: the outcome `failed` is taken as `fail`
        fix: write `outcome=fail`
    4:17 note alias [a -> a]: the condition uses operators that not every engine knows
    7:27 error condition_syntax [a -> a]: cannot read the condition `outcome="a`: unclosed `"`
    "#);
    let (pipeline, _) = load(source, &Inputs::default(), &[]);
    let pipeline = pipeline.unwrap();
    let shown = |index: usize| pipeline.edges()[index].condition.as_ref().map(ToString::to_string);
    assert_eq!(shown(0).as_deref(), Some("outcome=success"));
    assert_eq!(shown(1).as_deref(), Some("outcome=fail"));
    assert_eq!(shown(4), None);
    assert_eq!(pipeline.edges()[6].max_visits, Some(2));
}

#[test]
fn attributes_must_be_what_they_are() {
    let source = r#"digraph G {
        graph [default_max_retries=-1, retry_policy=often, budget.usd=lots, default_fidelity=some]
        a [max_retries=many, goal_gate=1, timeout=soon, write=perhaps, retry_target="a b", fidelity=half, auto_status="true"]
        b [max_retries="2", allow_partial="yes", duration=0.5, max_visits=-2, max_parallel=x]
        a -> b [weight=heavy, loop_restart="false"]
    }"#;
    assert_snapshot!(findings(source), @r"
    2:16 error attribute_type: `default_max_retries` must be a whole number from 0, not `-1`
    2:40 error attribute_type: `retry_policy` must be one of none, standard, aggressive, linear, patient, not `often`
    2:60 error attribute_type: `budget.usd` must be a number from 0, not `lots`
    2:77 warning fidelity_valid: `some` is not a value of `default_fidelity`
        fix: use one of full, truncate, compact, summary:low, summary:medium, summary:high
    3:12 error attribute_type [a]: `max_retries` must be a whole number from 0, not `many`
    3:30 error attribute_type [a]: `goal_gate` must be `true` or `false`, not `1`
    3:43 error attribute_type [a]: `timeout` must be a duration such as `900s`, `15m` or `250ms`, not `soon`
    3:57 error attribute_type [a]: `write` must be `may`, `must` or `false`, not `perhaps`
    3:72 warning retry_target_exists [a]: `retry_target` names the unknown node `a b`
    3:92 warning fidelity_valid [a]: `half` is not a value of `fidelity`
        fix: use one of full, truncate, compact, summary:low, summary:medium, summary:high
    4:29 error attribute_type [b]: `allow_partial` must be `true` or `false`, not `yes`
    4:50 error attribute_type [b]: `duration` must be a duration such as `900s`, `15m` or `250ms`, not `0.5`
    4:64 error attribute_type [b]: `max_visits` must be a whole number from 0, not `-2`
    4:79 error attribute_type [b]: `max_parallel` must be a whole number from 0, not `x`
    5:17 error attribute_type [a -> b]: `weight` must be a whole number, not `heavy`
    ");
}

#[test]
fn fields_have_their_defaults_and_their_values() {
    let plain = node("a");
    assert_eq!((plain.label.as_str(), plain.prompt.as_str(), plain.shape.as_str()), ("a", "a", "box"));
    assert_eq!((plain.tools, plain.write, plain.max_visits), (true, WritePolicy::May, None));
    assert_eq!(node("a [label=L]").prompt, "L");
    assert_eq!(node("a [label=L, prompt=\"\"]").prompt, "L");
    for (attrs, write) in
        [("write=false", WritePolicy::Never), ("write=must", WritePolicy::Must), ("write=may", WritePolicy::May)]
    {
        assert_eq!(node(&format!("a [{attrs}]")).write, write);
    }
    let full = node(
        "a [max_retries=\"3\", retry_policy=patient, retry_target=a, fallback_retry_target=a, fidelity=\"summary:high\",
            thread_id=7, class=\"x, y\", reasoning_effort=low, auto_status=true, allow_partial=\"true\", agent=\"command:cat\",
            repo=backend, human.default_choice=b, tools=false, step=implement, verdict=true, custom.thing=1]",
    );
    assert_eq!((full.max_retries, full.retry_policy.unwrap().attempts), (Some(3), 3));
    assert_eq!((full.fidelity, full.thread_id.as_deref()), (Some(Fidelity::SummaryHigh), Some("7")));
    assert_eq!(full.classes, ["x", "y"]);
    assert!(full.auto_status && full.allow_partial && full.verdict && !full.tools);
    assert_eq!((full.step.as_deref(), full.repo.as_deref()), (Some("implement"), Some("backend")));
    assert!(full.attrs.contains_key("custom.thing"), "what only a handler knows is kept");
}

#[test]
fn defaults_reach_what_is_declared_after_them_in_their_scope() {
    let pipeline = pipeline(
        r#"digraph G {
            before [label=x]
            node [llm_model=outer, timeout=1m]
            edge [weight=5]
            subgraph cluster_a {
                label = "Loop A!"
                node [llm_model=inner]
                edge [label=in]
                first [label=x]
                own [llm_model=mine]
                first -> own
                subgraph { graph [label="Very Deep"] deep [class="own-class", label=x] }
            }
            after [label=x]
            after -> before
            before -> after [weight=1]
            early -> first
            subgraph { node [llm_model=late] early [label=x] }
        }"#,
    );
    let model = |name: &str| pipeline.node(&id(name)).unwrap().llm_model.clone();
    for (name, expected) in [
        ("before", None),
        ("first", Some("inner")),
        ("own", Some("mine")),
        ("deep", Some("inner")),
        ("after", Some("outer")),
        ("early", Some("late")),
    ] {
        assert_eq!(model(name).as_deref(), expected, "{name}");
    }
    assert_eq!(pipeline.node(&id("own")).unwrap().timeout, Some(Duration::from_secs(60)));
    assert_eq!(pipeline.node(&id("deep")).unwrap().classes, ["own-class", "loop-a", "very-deep"]);
    assert_eq!(pipeline.node(&id("deep")).unwrap().subgraphs, ["loop-a", "very-deep"]);
    assert_eq!(pipeline.node(&id("after")).unwrap().classes, Vec::<String>::new());
    let weights: Vec<_> = pipeline.edges().iter().map(|edge| (edge.weight, edge.label.as_str())).collect();
    assert_eq!(weights, [(5, "in"), (5, ""), (1, ""), (5, "")]);
}

#[test]
fn chains_give_their_attributes_to_every_pair() {
    let pipeline = pipeline("digraph G { a [label=x] b [label=x] c [label=x] a -> b -> c [label=\"next\", weight=2] }");
    let edges: Vec<_> =
        pipeline.edges().iter().map(|edge| format!("{}{}{}{}", edge.from, edge.to, edge.label, edge.weight)).collect();
    assert_eq!(edges, ["abnext2", "bcnext2"]);
}

#[test]
fn a_name_given_twice_is_pointed_out() {
    let source = "digraph G { a [label=x, label=y] b [model=one, llm_model=two] c [llm_model=two, model=one] }";
    let (pipeline, diagnostics) = load(source, &Inputs::default(), &[]);
    let pipeline = pipeline.unwrap();
    assert_eq!(pipeline.nodes()[0].label, "y");
    assert_eq!(pipeline.nodes()[1].llm_model.as_deref(), Some("two"));
    assert_eq!(pipeline.nodes()[2].llm_model.as_deref(), Some("two"));
    assert_eq!(diagnostics.iter().filter(|found| found.rule == "duplicate_attribute").count(), 3);
}

fn inputs(values: &[(&str, &str)], files: &[(&str, &str)]) -> Inputs {
    let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Inputs { files: map(files), values: map(values) }
}

#[test]
fn variables_are_expanded_once_and_unknown_ones_reported() {
    let source = r#"digraph G { graph [goal="ship $what", label="$goal!"]
        a [prompt="$goal, {{ goal }}, {{what}}, {{ inputs.what }}, $what-ever, $whatever, $HOME, $ {{.Go}} {x} {{ missing }} $"]
        b [label="do $goal", shape=parallelogram, tool_command="echo $goal $what {{ what }} ${what} '{{.Names}}' {{ later }}"] }"#;
    let (pipeline, diagnostics) = load(source, &inputs(&[("what", "it: $goal {{ goal }}")], &[]), &[]);
    let pipeline = pipeline.unwrap();
    assert_eq!(pipeline.goal, "ship it: $goal {{ goal }}");
    assert_eq!(pipeline.label, "ship it: $goal {{ goal }}!");
    let what = "it: $goal {{ goal }}";
    assert_eq!(
        pipeline.nodes()[0].prompt,
        format!(
            "ship {what}, ship {what}, {what}, {what}, {what}-ever, $whatever, $HOME, $ {{{{.Go}}}} {{x}} {{{{ missing }}}} $"
        )
    );
    assert_eq!(pipeline.nodes()[1].label, format!("do ship {what}"));
    let command = pipeline.nodes()[1].tool_command.clone().unwrap();
    assert_eq!(
        command, r#"echo $goal $what "$what" ${what} '{{.Names}}' {{ later }}"#,
        "values come by the environment"
    );
    assert_snapshot!(show(source, &diagnostics), @r"
    2:12 warning undefined_variable [a]: `{{ missing }}` is undefined
        fix: give it as an input: `missing=…`
    3:51 warning undefined_variable [b]: `{{ later }}` is undefined
        fix: give it as an input: `later=…`
    ");

    let (_, diagnostics) = load("digraph G { a [prompt=\"{{ task_id }}\"] }", &Inputs::default(), &[]);
    let fix = diagnostics[0].fix.as_deref();
    assert_eq!(fix, Some("runs over a tree of tasks define it; elsewhere give it as an input: `task_id=…`"));

    let (pipeline, _) = load(source, &inputs(&[("goal", "mine")], &[]), &[]);
    assert_eq!(pipeline.unwrap().goal, "mine", "an input called goal replaces the graph's");
    let (_, diagnostics) = load("digraph G { a [prompt=\"{{ goal }}\"] }", &Inputs::default(), &[]);
    assert_eq!(diagnostics[0].rule, "undefined_variable");
}

#[test]
fn templates_that_cannot_be_words_of_a_command_are_errors() {
    let source = r#"digraph G { goal=g
        a [shape=parallelogram, tool_command="echo 'x {{ goal }}' $(( {{ n }} ))"]
        b [shape=parallelogram, tool_command="echo {{ PWD }}"] }"#;
    for values in [&[("n", "1"), ("PWD", "x")][..], &[]] {
        let (_, diagnostics) = load(source, &inputs(values, &[]), &[]);
        insta::allow_duplicates! { assert_snapshot!(show(source, &diagnostics), @"
        2:55 error command_template [a]: `{{ goal }}` in `tool_command` is inside single quotes; a value can only be a word of a command
            fix: end the quotes before `{{ goal }}` and begin them again after it
        2:71 error command_template [a]: `{{ n }}` in `tool_command` is inside an expression; a value can only be a word of a command
            fix: check its value first, then use the shell variable `$n` there
        3:52 error command_template [b]: `{{ PWD }}` cannot be passed to a command: `PWD` is a shell variable
            fix: give the input another name
        ") };
    }
}

#[test]
fn prompts_come_from_files() {
    let source = r#"digraph G { graph [goal="g"]
        a [prompt="@prompts/a.md"] b [prompt_file="b.md"] c [prompt="@alice please look"] d [prompt="@prompts/a.md"] e [prompt="@gone.md"] }"#;
    assert_eq!(files_named(source), ["b.md", "gone.md", "prompts/a.md"]);
    assert_eq!(files_named("not a graph"), Vec::<String>::new());
    let (pipeline, diagnostics) =
        load(source, &inputs(&[], &[("prompts/a.md", "A: $goal"), ("b.md", "@not-again.md")]), &[]);
    let pipeline = pipeline.unwrap();
    let prompts: Vec<_> = pipeline.nodes().iter().map(|node| node.prompt.as_str()).collect();
    assert_eq!(prompts, ["A: g", "@not-again.md", "@alice please look", "A: g", "@gone.md"]);
    assert_snapshot!(show(source, &diagnostics), @r"
    2:121 error prompt_file [e]: cannot read the prompt file `gone.md`
        fix: create it, or correct `prompt`; the path is relative to the pipeline
    ");
}

#[test]
fn node_attributes_override_the_stylesheet() {
    let source = r#"digraph G { graph [llm_provider=fallback, reasoning_effort=low, model_stylesheet="
            * { llm_model: base; }
            box { llm_model: boxed; }
            .hard { model: big; provider: \"other one\" }
            .hard { llm_model: bigger; }
            #special { llm_model: special; reasoning_effort: high; }
        "]
        plain [shape=diamond] boxed [label=x] hard [class=hard] special [class="hard", label=x] own [class=hard, llm_model=mine]
        subgraph { label="Hard" inside [label=x] } }"#;
    let pipeline = pipeline(source);
    let model_of = |name: &str| {
        let node = pipeline.node(&id(name)).unwrap();
        [&node.llm_model, &node.llm_provider, &node.reasoning_effort]
            .map(|value| value.clone().unwrap_or_default())
            .join(" ")
    };
    for (name, expected) in [
        ("plain", "base fallback low"),
        ("boxed", "boxed fallback low"),
        ("hard", "bigger other one low"),
        ("special", "special other one high"),
        ("own", "mine other one low"),
        ("inside", "bigger other one low"),
    ] {
        assert_eq!(model_of(name), expected, "{name}");
    }
    let broken = "digraph G { graph [model_stylesheet=\"* { llm_model: a; colour: red; } .x { llm_model } box { llm_model: b }\"] }";
    assert_snapshot!(findings(broken), @r"
    1:56 error stylesheet_syntax: `colour` cannot be set here: only llm_model, llm_provider and reasoning_effort
    1:86 error stylesheet_syntax: expected `:` after `llm_model`
    ");
}

#[test]
fn places_inside_a_string_without_an_end_are_its_beginning() {
    // As long as its text and two quotes, because an escape makes up for the quote that is missing.
    let source = "digraph G { graph [model_stylesheet=\"* { \\\"ä";
    let (_, diagnostics) = load(source, &Inputs::default(), &[]);
    let found = diagnostics.iter().find(|found| found.rule == "stylesheet_syntax").unwrap();
    assert_eq!(&source[found.span.start..found.span.end], "\"");
}

#[test]
fn transforms_of_ones_own_run_last_and_in_order() {
    struct Append(&'static str);
    impl Transform for Append {
        fn name(&self) -> &str {
            self.0
        }
        fn apply(&self, graph: &mut Graph) -> Vec<Diagnostic> {
            for node in &mut graph.nodes {
                let before = node.attrs.get("prompt").map_or(String::new(), |attr| attr.value.to_string());
                node.attrs.insert("prompt".into(), Attr::text(before + self.0));
            }
            vec![Diagnostic::note(self.0, "was here", graph.span)]
        }
    }
    let source = "digraph G { graph [goal=g] a [prompt=\"$goal\"] }";
    let (pipeline, diagnostics) = load(source, &Inputs::default(), &[&Append(" one $goal"), &Append(" two")]);
    assert_eq!(pipeline.unwrap().nodes()[0].prompt, "g one $goal two");
    assert_eq!(diagnostics.len(), 2);
}

#[test]
fn commands_a_file_brings_along_are_listed() {
    let pipeline = pipeline(
        r#"digraph G { graph [agent="command:all", tool_hooks.pre="hook"]
            a [shape=parallelogram, tool_command="make test"] b [agent="command:own --x", tool_hooks.post="after"] c [agent=claude]
            d [agent=" command:spaced"] e [agent="acp:speaks --it"] }"#,
    );
    let commands: Vec<_> = pipeline
        .commands()
        .iter()
        .map(|command| format!("{} {} {}", command.node.map_or("-", NodeId::as_str), command.attribute, command.text))
        .collect();
    assert_eq!(
        commands,
        [
            "- tool_hooks.pre hook",
            "- agent command:all",
            "a tool_command make test",
            "b agent command:own --x",
            "b tool_hooks.post after",
            "d agent  command:spaced",
            "e agent acp:speaks --it",
        ]
    );
}

#[test]
fn subgraph_labels_become_classes() {
    for (label, class) in [("Loop A", Some("loop-a")), ("Äb_c (2)!", Some("bc-2")), ("!!", None), ("", None)] {
        assert_eq!(graph::class_of_label(label).as_deref(), class, "{label}");
    }
}

#[test]
fn a_text_without_a_graph_gives_no_pipeline() {
    let (pipeline, diagnostics) = load("not a graph", &Inputs::default(), &[]);
    assert_eq!(pipeline, None);
    assert_eq!(show("not a graph", &diagnostics), "1:1 error syntax: expected `digraph Name {`, found `not`");
}
