//! Pipelines drawn as text, as DOT and as a picture.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regex::Regex;

use crate::support::TestEnv;

const REVIEW: &str = r#"digraph review_loop {
    goal = "Make <it> work & ship it"
    start [shape=Mdiamond]
    exit [shape=Msquare]
    plan [label="Plan the work"]
    implement [label="Implement"]
    test [shape=parallelogram, tool_command="cargo test"]
    ask [shape=hexagon, label="Ship it?"]
    start -> plan -> implement -> test
    test -> ask [condition="outcome=success"]
    test -> implement [condition="outcome=fail", label="fix"]
    test -> test [label="flaky", max_visits=3]
    ask -> exit [label="[Y] Yes"]
    ask -> plan [label="[N] No", loop_restart=true]
}
"#;

#[test]
fn text_lists_nodes_in_run_order_with_edges() {
    let env = TestEnv::new();
    env.write("review.dot", REVIEW);
    insta::assert_snapshot!(env.pleach(&["graph", "review.dot"]), @r#"
    exit: 0
    --- stdout
    review_loop  Make <it> work & ship it

    start (start)
      → plan
    plan  Plan the work (agent)
      → implement
    implement  Implement (agent)
      → test
    test  cargo test (command)
      → ask         when outcome=success
      → implement   "fix"   when outcome=fail   ↺
      → test        "flaky"   ↺
    ask  Ship it? (person)
      → exit   "[Y] Yes"
      → plan   "[N] No"   restarts   ↺
    exit (exit)
    "#);
}

const FAN_OUT: &str = r#"digraph both {
    start [shape=Mdiamond]
    fork [shape=component]
    api [label="Write the API"]
    docs [label="Write the page"]
    tests [shape=tripleoctagon]
    inner [shape=component]
    unit
    whole
    check [shape=parallelogram, tool_command="make docs"]
    join [shape=tripleoctagon]
    exit [shape=Msquare]
    start -> fork
    fork -> api -> join
    fork -> docs -> check -> join
    check -> docs [condition="outcome=fail"]
    fork -> inner [condition="context.tests=yes"]
    inner -> unit -> tests
    inner -> whole -> tests
    tests -> join
    join -> exit
}
"#;

#[test]
fn text_indents_branches_below_their_fan_out() {
    let env = TestEnv::new();
    env.write("both.dot", FAN_OUT);
    insta::assert_snapshot!(env.pleach(&["graph", "both.dot"]), @"
    exit: 0
    --- stdout
    both

    start (start)
      → fork
    fork (fan-out)
      ├ api  Write the API (agent)
      │   ⇥ join
      ├ docs  Write the page (agent)
      │   → check
      │ check  make docs (command)
      │   ⇥ join
      │   → docs   when outcome=fail   ↺
      └ inner (fan-out)   when context.tests=yes
          ├ unit (agent)
          │   ⇥ tests
          └ whole (agent)
              ⇥ tests
        tests (fan-in)
          ⇥ join
    join (fan-in)
      → exit
    exit (exit)
    ");
}

#[test]
fn a_picture_has_the_branches_side_by_side() {
    let env = TestEnv::new();
    for (flow, beside) in [("TB", [1, 0]), ("LR", [0, 1])] {
        env.write("both.dot", FAN_OUT.replace("digraph both {", &format!("digraph both {{ rankdir={flow}")));
        let svg = env.pleach(&["graph", "both.dot", "--format", "svg"]).expect(0).stdout;
        let picture = Picture::read(&svg);
        for siblings in [["api", "docs"], ["unit", "whole"]] {
            let [one, other] = siblings.map(|id| picture.nodes[id].center());
            let [in_row, apart] = beside.map(|way| (one[way] - other[way]).abs());
            assert!(in_row < 1.0, "{flow}: {siblings:?} are not in one row: {svg}");
            assert!(apart > 20.0, "{flow}: {siblings:?} are not beside each other: {svg}");
        }
    }
}

#[test]
fn dot_lays_defaults_into_the_nodes() {
    let env = TestEnv::new();
    env.write(
        "small.dot",
        "digraph small { goal=ship; start [shape=Mdiamond]; exit [shape=Msquare]; node [timeout=5m]\n\
         work [prompt=\"$goal it\"]; start -> work -> exit [weight=2] }",
    );
    insta::assert_snapshot!(env.pleach(&["graph", "small.dot", "--format", "dot"]), @r#"
    exit: 0
    --- stdout
    digraph small {
        graph [goal="ship"]
        start [shape="Mdiamond"]
        exit [shape="Msquare"]
        work [prompt="ship it", timeout=5m]
        start -> work [weight=2]
        work -> exit [weight=2]
    }
    "#);
}

#[test]
fn json_gives_nodes_and_edges_as_data() {
    let env = TestEnv::new();
    env.write("review.dot", REVIEW);
    let graph = env.pleach(&["graph", "review.dot", "--json"]).expect(0).json();
    assert_eq!((&graph["name"], &graph["nodes"][3]["type"]), (&"review_loop".into(), &"tool".into()));
    assert_eq!(graph["nodes"].as_array().map(Vec::len), Some(6));
    let fix = &graph["edges"][4];
    assert_eq!((&fix["from"], &fix["to"]), (&"test".into(), &"implement".into()));
    assert_eq!((&fix["condition"], &fix["back"]), (&"outcome=fail".into(), &true.into()));
    env.pleach(&["graph", "review.dot", "--json", "--format", "svg"]).expect(2);
}

#[test]
fn a_picture_has_every_node_edge_and_label() {
    let env = TestEnv::new();
    env.write("review.dot", REVIEW);
    let svg = env.pleach(&["graph", "review.dot", "--format", "svg"]).expect(0).stdout;
    let picture = Picture::read(&svg);
    let shapes: Vec<_> = picture.nodes.iter().map(|(id, node)| (id.as_str(), node.shape.as_str())).collect();
    let expected = [
        ("ask", "hexagon"),
        ("exit", "Msquare"),
        ("implement", "box"),
        ("plan", "box"),
        ("start", "Mdiamond"),
        ("test", "parallelogram"),
    ];
    assert_eq!(shapes, expected);
    let edges = "ask->exit ask->plan implement->test plan->implement start->plan test->ask test->implement test->test";
    assert_eq!(picture.edges.join(" "), edges);
    for text in ["Plan the", "plan", "cargo test", "when", "outcome=fail", "fix", "[Y] Yes", "restarts"] {
        assert!(svg.contains(text), "{text} is missing: {svg}");
    }
    assert!(svg.contains("Make &lt;it&gt; work &amp; ship it") && !svg.contains("<it>"));
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn every_shape_is_drawn_as_what_it_is() {
    let env = TestEnv::new();
    // How many rectangles, polygons, circles, ellipses and paths of marks each shape consists of.
    let shapes = [
        ("box", [1, 0, 0, 0, 0]),
        ("Mdiamond", [0, 1, 0, 0, 1]),
        ("Msquare", [1, 0, 0, 0, 1]),
        ("diamond", [0, 1, 0, 0, 0]),
        ("hexagon", [0, 1, 0, 0, 0]),
        ("parallelogram", [0, 1, 0, 0, 0]),
        ("component", [3, 0, 0, 0, 0]),
        ("tripleoctagon", [0, 3, 0, 0, 0]),
        ("house", [0, 1, 0, 0, 0]),
        ("circle", [0, 0, 1, 0, 0]),
        ("doublecircle", [0, 0, 2, 0, 0]),
        ("ellipse", [0, 0, 0, 1, 0]),
        ("tab", [2, 0, 0, 0, 0]),
        ("insulator", [2, 0, 0, 0, 1]),
    ];
    let mut source = String::from("digraph shapes {\n");
    for (shape, _) in shapes {
        let _ = writeln!(source, "    n_{shape} [shape={shape}, label=\"The {shape}\", tool_command=x, duration=1s]");
    }
    env.write("shapes.dot", source + "}\n");
    let svg = env.pleach(&["graph", "shapes.dot", "--format", "svg"]).expect(0).stdout;
    let picture = Picture::read(&svg);
    for (shape, parts) in shapes {
        let node = &picture.nodes[&format!("n_{shape}")];
        let count = |what: &str| node.inside.matches(what).count();
        let found = ["<rect", "<polygon", "<circle", "<ellipse", "<path class=\"mark\""].map(count);
        assert_eq!(found, parts, "{shape}: {}", node.inside);
    }
    // Corners: a diamond has four, a hexagon six, a house five, an octagon eight.
    for (shape, corners) in [("diamond", 4), ("hexagon", 6), ("parallelogram", 4), ("house", 5), ("tripleoctagon", 8)] {
        let inside = &picture.nodes[&format!("n_{shape}")].inside;
        let points = inside.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("points");
        assert_eq!(points.split(' ').count(), corners, "{shape}: {inside}");
    }
}

#[test]
fn anything_that_parses_can_be_drawn() {
    let env = TestEnv::new();
    let long = "wörd <&> ".repeat(1_200);
    let sources = [
        "digraph empty { }".to_owned(),
        "digraph one { only [shape=Mdiamond] }".to_owned(),
        "digraph loops { a; b; a -> a; a -> a [label=twice]; b -> b }".to_owned(),
        "digraph apart { a; b; c; d; e }".to_owned(),
        "digraph cycle { a; b; c; a -> b -> c -> a; c -> a; b -> a }".to_owned(),
        format!("digraph long {{ rankdir=LR; goal=\"{long}\"; a [label=\"{long}\"]; b; a -> b [label=\"{long}\"] }}"),
        format!("digraph word {{ a [label=\"{}\"] }}", "x".repeat(10_000)),
        "digraph scripts { a [label=\"計画 🎉 مرحبا \u{202e}\u{7}\u{1b}[31m\"]; b [label=\"\"]; a -> b }".to_owned(),
    ];
    for (number, source) in sources.iter().enumerate() {
        let name = format!("{number}.dot");
        env.write(&name, source);
        for format in ["svg", "dot", "text"] {
            let ran = env.pleach(&["graph", &name, "--format", format]).expect(0);
            assert_eq!(ran.stderr, "", "{ran}");
            if format == "svg" {
                Picture::read(&ran.stdout);
            }
            if format != "dot" {
                assert!(!ran.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{ran}");
            }
        }
    }
}

#[test]
fn two_thousand_nodes_can_be_drawn() {
    let env = TestEnv::new();
    let mut source = String::from("digraph big {\nstart [shape=Mdiamond]\nexit [shape=Msquare]\nclean [label=Clean]\n");
    for n in 0..2_000 {
        let _ = writeln!(source, "n{n} [label=\"Step {n}\"]");
    }
    source.push_str("start -> n0\nn1999 -> exit\nclean -> exit\n");
    for n in 1..2_000 {
        let _ = writeln!(source, "n{} -> n{n} [condition=\"outcome=success\"]\nn{} -> clean", n - 1, n - 1);
        if n % 10 == 0 {
            let _ = writeln!(source, "n{n} -> n{} [label=retry]\nn{} -> n{n}", n - 7, n / 2);
        }
    }
    env.write("big.dot", source + "}\n");
    env.pleach(&["graph", "big.dot", "-o", "big.svg"]).expect(0);
    let picture = Picture::read(&env.read("big.svg"));
    assert_eq!((picture.nodes.len(), picture.edges.len()), (2_003, 3 + 2 * 1_999 + 2 * 199));
    env.pleach(&["graph", "big.dot"]).expect(0);
}

#[test]
fn the_ending_of_the_output_chooses_the_format() {
    let env = TestEnv::new();
    env.write("review.dot", REVIEW);
    for (name, begins) in [("a.svg", "<svg "), ("a.gv", "digraph "), ("a.txt", "review_loop  "), ("a", "review_loop  ")]
    {
        let ran = env.pleach(&["graph", "review.dot", "-o", name]).expect(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
        assert!(env.read(name).starts_with(begins), "{name}: {}", env.read(name));
    }
    env.pleach(&["graph", "review.dot", "-o", "b.txt", "--format", "svg"]).expect(0);
    assert!(env.read("b.txt").starts_with("<svg "));
}

#[test]
fn the_pipeline_itself_is_never_overwritten() {
    let env = TestEnv::new();
    env.write("review.dot", REVIEW);
    insta::assert_snapshot!(env.pleach(&["graph", "review.dot", "-o", "./review.dot"]), @"
    exit: 2
    --- stderr
    error[output-misnamed]: `./review.dot` is the pipeline itself
    hint: give another file with -o
    ");
    assert_eq!(env.read("review.dot"), REVIEW);
    insta::assert_snapshot!(env.pleach(&["graph", "review.dot", "-o", "nowhere/a.svg"]), @"
    exit: 2
    --- stderr
    error[output-misplaced]: cannot write `nowhere/a.svg`: No such file or directory (os error 2)
    hint: give a file in a directory that exists and may be written to
    ");
}

#[test]
fn unreadable_objects_are_reported_in_one_error() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.pleach(&["graph", "none.dot"]), @"
    exit: 2
    --- stderr
    error[pipeline-unreadable]: cannot read `none.dot`: No such file or directory (os error 2)
    hint: give the path of a pipeline, a text file in the DOT language
    ");
    env.write("bytes.dot", [0xff, 0xfe, b'd']);
    insta::assert_snapshot!(env.pleach(&["graph", "bytes.dot"]), @"
    exit: 2
    --- stderr
    error[pipeline-unreadable]: cannot read `bytes.dot`: stream did not contain valid UTF-8
    hint: give the path of a pipeline, a text file in the DOT language
    ");
    insta::assert_snapshot!(env.pleach(&["graph", "."]), @"
    exit: 2
    --- stderr
    error[pipeline-unreadable]: cannot read `.`: Is a directory (os error 21)
    hint: give the path of a pipeline; there is `./bytes.dot`
    ");
}

#[test]
fn a_file_with_errors_is_reported_and_not_drawn() {
    let env = TestEnv::new();
    env.write("broken.dot", "digraph broken {\n    a -> \n    b [label=]\n}\n");
    let drawn = env.pleach(&["graph", "broken.dot", "-o", "broken.svg"]).expect(2);
    assert_eq!(drawn.stdout, "");
    assert!(!env.root().join("broken.svg").exists());
    let validated = env.pleach(&["validate", "broken.dot"]).expect(2);
    let first = validated.stdout.split("\n\n").next().expect("a finding");
    assert!(first.contains("error[syntax]") && drawn.stderr.contains(first), "{drawn}\n{validated}");
}

#[test]
fn warnings_do_not_keep_a_file_from_being_drawn() {
    let env = TestEnv::new();
    env.write("odd.dot", "digraph odd { a [label=\"{{ nobody }}\", label=A]; b; a -> b }");
    let ran = env.pleach(&["graph", "odd.dot"]).expect(0);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.contains("→ b"));
}

/// What a test can see of a picture.
struct Picture {
    nodes: BTreeMap<String, DrawnNode>,
    edges: Vec<String>,
}

struct DrawnNode {
    shape: String,
    inside: String,
}

impl DrawnNode {
    /// The middle of a node that is drawn as a box.
    fn center(&self) -> [f64; 2] {
        let rect = Regex::new(r#"<rect class="shape" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)""#);
        let found = rect.expect("a pattern").captures(&self.inside).expect("a box").extract::<4>().1;
        let [x, y, width, height] = found.map(|number| number.parse::<f64>().expect("a number"));
        [x + width / 2.0, y + height / 2.0]
    }
}

impl Picture {
    /// Reads an SVG, and fails unless it is well-formed and everything is on the page.
    fn read(svg: &str) -> Self {
        assert_well_formed(svg);
        let node =
            Regex::new(r#"<g class="node [a-z]+" id="node-(\w+)" data-shape="(\w+)">(.*)</g>"#).expect("a pattern");
        let edge =
            Regex::new(r#"<g class="edge[^"]*" data-from="(\w+)" data-to="(\w+)"[^>]*>(.*)</g>"#).expect("a pattern");
        let nodes = node
            .captures_iter(svg)
            .map(|found| (found[1].to_owned(), DrawnNode { shape: found[2].to_owned(), inside: found[3].to_owned() }));
        let mut edges: Vec<String> = Vec::new();
        for found in edge.captures_iter(svg) {
            assert!(found[3].contains("<path class=\"line\" d=\"M"), "an edge without a line: {}", &found[0]);
            edges.push(format!("{}->{}", &found[1], &found[2]));
        }
        edges.sort();
        assert!(!svg.contains("NaN") && !svg.contains("inf\"") && !svg.contains("\"-"), "a place off the page: {svg}");
        Self { nodes: nodes.collect(), edges }
    }
}

/// Tags are closed in order, and characters that mean something are escaped.
#[track_caller]
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        assert_escaped(text);
        let end = tag.find('>').expect("a tag has an end");
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        let name = inside.trim_matches('/').split(' ').next().unwrap_or_default();
        if inside.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !inside.ends_with('/') {
            open.push(name);
        }
        assert_eq!(inside.matches('"').count() % 2, 0, "{inside}");
        assert_escaped(inside);
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

fn assert_escaped(text: &str) {
    let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    for part in text.split('&').skip(1) {
        assert!(entities.iter().any(|entity| part.starts_with(entity)), "& is not escaped: {part}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}
