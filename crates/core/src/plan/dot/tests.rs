use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::plan::diagnostic::show;

fn ok(source: &str) -> Document {
    let (document, diagnostics) = parse(source);
    assert_eq!(show(source, &diagnostics), "", "{source}");
    document
}

fn findings(source: &str) -> String {
    let (_, diagnostics) = parse(source);
    show(source, &diagnostics)
}

/// The attributes of the only node.
fn attrs(source: &str) -> Vec<(String, AttrValue)> {
    let document = ok(&format!("digraph G {{ a [{source}] }}"));
    let [Statement::Node { attrs, .. }] = document.statements.as_slice() else { panic!("one node: {document:?}") };
    attrs.iter().map(|entry| (entry.key.text.clone(), entry.value.clone())).collect()
}

fn text(text: &str) -> AttrValue {
    AttrValue::Text(text.into())
}

#[test]
fn values_have_the_type_they_are_written_as() {
    let seconds = |n| AttrValue::Duration(Duration::from_secs(n));
    for (written, value) in [
        ("\"quoted\"", text("quoted")),
        ("bare", text("bare")),
        ("with-dash_and.dot:colon", text("with-dash_and.dot:colon")),
        ("gpt-5.2-codex", text("gpt-5.2-codex")),
        ("summary:high", text("summary:high")),
        ("3", AttrValue::Integer(3)),
        ("-17", AttrValue::Integer(-17)),
        ("0.5", AttrValue::Float(0.5)),
        ("-.25", AttrValue::Float(-0.25)),
        ("true", AttrValue::Boolean(true)),
        ("false", AttrValue::Boolean(false)),
        ("truthy", text("truthy")),
        ("250ms", AttrValue::Duration(Duration::from_millis(250))),
        ("900s", seconds(900)),
        ("15m", seconds(900)),
        ("2h", seconds(7200)),
        ("1d", seconds(86_400)),
        ("\"900s\"", text("900s")),
    ] {
        assert_eq!(attrs(&format!("k={written}")), [("k".into(), value)], "{written}");
    }
}

#[test]
fn strings_have_four_escapes_and_keep_all_others() {
    for (written, value) in [
        (r#""a \"b\" c""#, "a \"b\" c"),
        (r#""one\ntwo\tthree""#, "one\ntwo\tthree"),
        (r#""back\\slash""#, "back\\slash"),
        (r#""grep '\.rs$' \d+""#, r"grep '\.rs$' \d+"),
        ("\"two\nlines\"", "two\nlines"),
        ("\"joined \\\n    line\"", "joined     line"),
        ("\"joined \\\r\nline\"", "joined line"),
        (r#""""#, ""),
        ("\"ünïcode → ✓\"", "ünïcode → ✓"),
    ] {
        assert_eq!(attrs(&format!("k={written}")), [("k".into(), text(value))], "{written}");
    }
}

#[test]
fn names_of_attributes_may_be_quoted() {
    assert_eq!(
        attrs(r#""human.default_choice"="a", "my-own" = 1"#),
        [("human.default_choice".into(), text("a")), ("my-own".into(), AttrValue::Integer(1)),]
    );
    let document = ok("digraph G { \"goal\" = \"g\"\n\"stack.child_dotfile\"=x; node [\"shape\"=box] }");
    let [Statement::Attribute(goal), Statement::Attribute(child), Statement::Defaults { attrs, .. }] =
        document.statements.as_slice()
    else {
        panic!("{document:?}")
    };
    assert_eq!([goal, child, &attrs[0]].map(|entry| entry.key.text.as_str()), ["goal", "stack.child_dotfile", "shape"]);
}

#[test]
fn comments_end_where_strings_begin() {
    let shell = r#"curl https://x/y; echo a#b { } /* */ // ] ;"#;
    assert_eq!(
        attrs(&format!("k=\"{shell}\" /* [ \" */, // ]\n j=1")),
        [("k".into(), text(shell)), ("j".into(), AttrValue::Integer(1))]
    );
    let document = ok("// first\n# preprocessor\n/* a\n b */ digraph G {\n  # a -> b\n a }");
    assert_eq!(document.statements.len(), 1, "{document:?}");
}

#[test]
fn statements_of_every_kind() {
    let document = ok(r#"
        digraph Pipe_1 {
            graph [goal="g", label="l"]; node [shape=box]
            edge [weight=1]
            rankdir=LR
            human.default_choice = x;
            subgraph cluster_a { label="Loop A"; a; b }
            subgraph { c -> d }
            a [
                label="A",
                tool_hooks.pre="true"
            ];
            a -> b -> c [label="x"]
            x->y
        }"#);
    assert_eq!(document.id.unwrap().text, "Pipe_1");
    let kinds: Vec<String> = document
        .statements
        .iter()
        .map(|statement| match statement {
            Statement::Defaults { target, attrs } => format!("{target:?} defaults {}", attrs.len()),
            Statement::Attribute(entry) => format!("{} = {}", entry.key.text, entry.value),
            Statement::Subgraph { id, statements } => {
                format!("subgraph {} {}", id.as_ref().map_or("-", |id| &id.text), statements.len())
            }
            Statement::Node { id, attrs } => format!("{} {}", id.text, attrs.len()),
            Statement::Edge { ids, attrs } => {
                let ids: Vec<_> = ids.iter().map(|id| id.text.as_str()).collect();
                format!("{} {}", ids.join("->"), attrs.len())
            }
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "Graph defaults 2",
            "Node defaults 1",
            "Edge defaults 1",
            "rankdir = LR",
            "human.default_choice = x",
            "subgraph cluster_a 3",
            "subgraph - 1",
            "a 2",
            "a->b->c 1",
            "x->y 0",
        ]
    );
}

#[test]
fn spans_point_at_what_was_written() {
    let source = "digraph G {\n  näh [prompt=\"x\", timeout=900s]\n}";
    let source = source.replace('ä', "a");
    let document = ok(&source);
    let Statement::Node { id, attrs } = &document.statements[0] else { panic!("a node") };
    let at = |span: Span| &source[span.start..span.end];
    assert_eq!(at(id.span), "nah");
    assert_eq!(at(attrs[0].span()), "prompt=\"x\"");
    assert_eq!(at(attrs[1].value_span), "900s");
}

#[test]
fn the_closing_brace_of_the_graph_is_found() {
    for (source, at) in [
        ("digraph G { a [label=\"}\"] }", 26),
        ("digraph G { subgraph s { a } }\n// the end of } G", 29),
        ("digraph G { a /* } */ } /* } */", 22),
    ] {
        assert_eq!(ok(source).close, Some(Span { start: at, end: at + 1 }), "{source}");
    }
    for source in ["", "digraph G", "digraph G { a", "digraph G { subgraph s { a }"] {
        assert_eq!(parse(source).0.close, None, "{source}");
    }
}

#[test]
fn what_the_dialect_leaves_out_is_named() {
    let heads = [
        "strict digraph G { a }",
        "graph G { a }",
        "digraph { a }",
        "digraph \"my graph\" { a }",
        "digraph G { a } digraph H { b }",
        "digraph G { a } trailing",
        "digraph G",
        "pipeline G {}",
        "",
    ];
    let bodies = [
        "a -- b",
        "a -> b -- c",
        "a [label=<b>x</b>]",
        "a [label=<<b>x</b>>]",
        "a:port -> b",
        "a -> b:n",
        "a -> {b c}",
        "\"a b\" -> c",
        "a -> \"b\"",
        "a []",
        "a [x=1; y=2]",
        "a [x=1][y=2]",
        "{ rank=same; a }",
        "subgraph \"x\" { a }",
        "a [\"\"=x]",
        "a [label]",
        "a [label=]",
        "a [x=3abc]",
        "a [x=#fff]",
        "my-node -> b",
        "größe -> b",
        "3d -> b",
        "a.b -> c",
        "a -> node",
        "node -> a",
        "a ->",
        "a @ b",
    ];
    let sources = heads.map(str::to_owned).into_iter().chain(bodies.map(|body| format!("digraph G {{ {body} }}")));
    let shown: Vec<_> = sources.map(|source| format!("{source}\n{}\n", findings(&source))).collect();
    assert_snapshot!(shown.join("\n"), @r##"
    strict digraph G { a }
    1:1 error syntax: `strict` graphs are not supported
        fix: remove `strict`

    graph G { a }
    1:1 error syntax: a pipeline is a directed graph
        fix: write `digraph`

    digraph { a }
    1:9 error syntax: expected a graph name, found `{`
        fix: write `digraph Name {`

    digraph "my graph" { a }
    1:9 error syntax: the graph's name is not quoted
        fix: write `digraph my_graph {`

    digraph G { a } digraph H { b }
    1:17 error syntax: a file holds only one graph

    digraph G { a } trailing
    1:17 error syntax: unexpected text after the graph's closing `}`

    digraph G
    1:10 error syntax: expected `{` after the graph's name, found the end of the file

    pipeline G {}
    1:1 error syntax: expected `digraph Name {`, found `pipeline`


    1:1 error syntax: expected `digraph Name {`, found the end of the file

    digraph G { a -- b }
    1:15 error syntax: `--` joins nodes of an undirected graph
        fix: write `->`

    digraph G { a -> b -- c }
    1:20 error syntax: `--` joins nodes of an undirected graph
        fix: write `->`

    digraph G { a [label=<b>x</b>] }
    1:22 error syntax: HTML values are not supported
        fix: write a quoted string

    digraph G { a [label=<<b>x</b>>] }
    1:22 error syntax: HTML values are not supported
        fix: write a quoted string

    digraph G { a:port -> b }
    1:14 error syntax: ports are not supported: an edge joins whole nodes
        fix: remove the `:` and what follows it

    digraph G { a -> b:n }
    1:19 error syntax: ports are not supported: an edge joins whole nodes
        fix: remove the `:` and what follows it

    digraph G { a -> {b c} }
    1:18 error syntax: an edge leads to one node, not to a group
        fix: write one edge for each node

    digraph G { "a b" -> c }
    1:13 error syntax: node names are not quoted
        fix: write `a_b`, and the text as its `label`

    digraph G { a -> "b" }
    1:18 error syntax: node names are not quoted
        fix: write `b`, and the text as its `label`

    digraph G { a [] }
    1:15 error syntax: an attribute block cannot be empty
        fix: remove `[]`

    digraph G { a [x=1; y=2] }
    1:19 error syntax: attributes are separated by commas
        fix: write `,`

    digraph G { a [x=1][y=2] }
    1:20 error syntax: a statement has one attribute block
        fix: join the two with `,`

    digraph G { { rank=same; a } }
    1:13 error syntax: a block on its own is not supported
        fix: write `subgraph {`

    digraph G { subgraph "x" { a } }
    1:22 error syntax: the name of a subgraph is not quoted
        fix: write `subgraph x {` and `label="…"` inside

    digraph G { a [""=x] }
    1:16 error syntax: the name of an attribute cannot be empty

    digraph G { a [label] }
    1:16 error syntax: expected `=` after the attribute `label`, found `]`

    digraph G { a [label=] }
    1:16 error syntax: the attribute `label` has no value
        fix: write `label=""` for an empty one

    digraph G { a [x=3abc] }
    1:18 error syntax: `3abc` is not a value
        fix: write `"3abc"`

    digraph G { a [x=#fff] }
    1:18 error syntax: `#fff` is not a value
        fix: write `"#fff"`

    digraph G { my-node -> b }
    1:13 error syntax: `my-node` is not a name: ASCII letters, digits and `_`, not starting with a digit
        fix: write `my_node`

    digraph G { größe -> b }
    1:13 error syntax: `größe` is not a name: ASCII letters, digits and `_`, not starting with a digit

    digraph G { 3d -> b }
    1:13 error syntax: `3d` is not a name: ASCII letters, digits and `_`, not starting with a digit
        fix: write `_3d`

    digraph G { a.b -> c }
    1:13 error syntax: `a.b` is not a node name: it has a dot
        fix: write `a_b`

    digraph G { a -> node }
    1:18 error syntax: `node` is a keyword, not a node

    digraph G { node -> a }
    1:13 error syntax: expected `[` after the keyword `node`, found `->`

    digraph G { a -> }
    1:18 error syntax: expected a node after `->`, found `}`

    digraph G { a @ b }
    1:15 error syntax: unexpected `@`
    "##);
}

#[test]
fn all_errors_are_reported_in_one_pass() {
    let source = r#"
strict digraph G {
    a [label=<b>x</b>, timeout=9x, prompt="ok"]
    a -- b
    "c d" [label="x"]
    e -> {f g} [weight=1]
    h [label="fine"]
    i [label="unfinished"
    j -> k
    l [prompt="never closed]
}
"#;
    assert_snapshot!(findings(source), @r#"
    2:1 error syntax: `strict` graphs are not supported
        fix: remove `strict`
    3:14 error syntax: HTML values are not supported
        fix: write a quoted string
    3:32 error syntax: `9x` is not a value
        fix: write `"9x"`
    4:7 error syntax: `--` joins nodes of an undirected graph
        fix: write `->`
    5:5 error syntax: node names are not quoted
        fix: write `c_d`, and the text as its `label`
    6:10 error syntax: an edge leads to one node, not to a group
        fix: write one edge for each node
    8:7 error syntax: unclosed `[`
        fix: add `]`
    10:15 error syntax: unclosed string
        fix: add the closing `"`; a quote inside the string is written `\"`
    "#);
    let (document, _) = parse(source);
    let nodes = document.statements.iter().filter(|s| matches!(s, Statement::Node { id, .. } if id.text == "h"));
    assert_eq!(nodes.count(), 1, "what stands between mistakes is still read");
}

#[test]
fn missing_and_trailing_commas_are_only_pointed_out() {
    let source = "digraph G { a [\n label=\"x\"\n prompt=\"y\",\n] }";
    assert_snapshot!(findings(source), @r"
    3:2 note syntax: missing comma before this attribute
        fix: add `,`
    3:12 note syntax: trailing comma after the last attribute
        fix: remove `,`
    ");
    let (document, _) = parse(source);
    assert!(matches!(&document.statements[0], Statement::Node { attrs, .. } if attrs.len() == 2));
}

#[test]
fn deep_nesting_and_endless_mistakes_end() {
    let deep = format!("digraph G {{ {} }}", "subgraph { ".repeat(100_000));
    assert!(findings(&deep).contains("nested more than 64 deep"));
    let (_, diagnostics) = parse(&format!("digraph G {{ {} }}", "@ ; ".repeat(10_000)));
    assert!(!diagnostics.is_empty());
    let (_, diagnostics) = parse(&format!("digraph G {{ {} }}", "-- ; ".repeat(10_000)));
    assert!(diagnostics.len() < 100, "{}", diagnostics.len());
}

#[test]
fn durations_read_back_what_they_show() {
    for (text, shown) in [("90s", "90s"), ("60s", "1m"), ("0s", "0s"), ("1500ms", "1500ms"), ("48h", "2d")] {
        assert_eq!(show_duration(read_duration(text).unwrap()), shown, "{text}");
    }
    for bad in ["", "s", "5", "5w", "-5s", "1.5s", "5 s", "99999999999999999999s", "999999999999999999d"] {
        assert_eq!(read_duration(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(source in "\\PC*") {
        parse(&source);
    }

    #[test]
    fn any_body_is_read_without_panic(body in "([a-z]{1,3}|[ \\n]|->|--|[\\[\\]{}=,;:\"<>#/*\\\\.-]|[0-9]|ä){0,60}") {
        let source = format!("digraph G {{ {body} }}");
        let (_, diagnostics) = parse(&source);
        for found in diagnostics {
            prop_assert!(found.span.start <= found.span.end && found.span.end <= source.len());
            prop_assert!(source.is_char_boundary(found.span.start) && source.is_char_boundary(found.span.end));
        }
    }

    #[test]
    fn durations_survive(millis in any::<u64>()) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(read_duration(&show_duration(duration)), Some(duration));
    }
}
