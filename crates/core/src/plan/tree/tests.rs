use proptest::prelude::*;
use serde_json::json;

use super::*;

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn read(tree: Value) -> TaskTree {
    let text = tree.to_string();
    TaskTree::read(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// The errors as `path: message`.
fn errors(text: &str) -> Vec<String> {
    TaskTree::read(text).expect_err(text).iter().map(TreeError::to_string).collect()
}

fn shown<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> String {
    ids.into_iter().map(TaskId::as_str).collect::<Vec<_>>().join(" ")
}

/// A tree from lines `id parent depends,on`, with `-` for none; children follow from the parents.
fn tree(lines: &str) -> TaskTree {
    read(nodes(lines))
}

fn nodes(lines: &str) -> Value {
    let mut nodes = Map::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut node = json!({"id": words[0], "name": format!("Name of {}", words[0])});
        if words[1] != "-" {
            node["parent"] = words[1].into();
        }
        if words[2] != "-" {
            node["depends_on"] = words[2].split(',').collect();
        }
        nodes.insert(words[0].into(), node);
    }
    json!({ "nodes": nodes })
}

const FULL: &str = r#"{
  "nodes": {
    "phase1": {
      "id": "phase1",
      "name": "Database Layer",
      "description": "",
      "parent": null,
      "children": [
        "T001"
      ],
      "depends_on": [],
      "source_file": "spec/tasks.md",
      "source_line": 6,
      "is_leaf": false,
      "test_commands": []
    },
    "T001": {
      "id": "T001",
      "name": "Create schema",
      "description": "…",
      "parent": "phase1",
      "children": [],
      "depends_on": [],
      "is_leaf": true,
      "test_commands": [
        {
          "type": "unit",
          "command": "python -m pytest tests/ -x",
          "framework": "pytest",
          "timeout": 120
        }
      ]
    }
  },
  "root_ids": [
    "phase1"
  ],
  "execution_order": [
    "T001"
  ],
  "spec_files": [
    "spec/tasks.md"
  ]
}
"#;

#[test]
fn the_documented_tree_round_trips_byte_for_byte() {
    let tree = TaskTree::read(FULL).unwrap();
    assert_eq!(tree.write(), FULL);
    let task = tree.node(&id("T001")).unwrap();
    let test = TestCommand {
        kind: TestKind::Unit,
        command: "python -m pytest tests/ -x".into(),
        framework: Some("pytest".into()),
        timeout: Some(Duration::from_secs(120)),
    };
    assert_eq!(task.test_commands, [test]);
    assert_eq!((task.name.as_str(), task.description.as_str()), ("Create schema", "…"));
    let phase = tree.node(&id("phase1")).unwrap();
    assert_eq!((phase.source_file.as_deref(), phase.source_line), (Some("spec/tasks.md"), Some(6)));
    assert_eq!(tree.spec_files(), ["spec/tasks.md"]);
}

#[test]
fn an_id_and_a_name_are_enough() {
    let tree = TaskTree::read("\u{feff}{\"nodes\":{\"T1\":{\"id\":\"T1\",\"name\":\"One\"}}}").unwrap();
    assert_eq!((shown(tree.roots()), shown(tree.order())), ("T1".into(), "T1".into()));
    let task = tree.node(&id("T1")).unwrap();
    assert!(task.is_leaf() && task.parent.is_none() && task.description.is_empty() && task.pipeline.is_none());
    let tree = read(json!({"nodes": {"T1": {"id": "T1", "name": "One", "test_commands": [{"command": "make"}]}}}));
    let test = &tree.nodes().next().unwrap().test_commands[0];
    assert_eq!((test.kind, test.timeout, &test.framework), (TestKind::Unit, None, &None));
}

#[test]
fn null_is_the_same_as_leaving_a_field_out() {
    let with = json!({"nodes": {"T1": {"id": "T1", "name": "One", "parent": null, "children": null, "depends_on": null,
        "source_file": null, "source_line": null, "pipeline": null, "description": null, "test_commands":
        [{"command": "make", "type": null, "framework": null, "timeout": null}]}}, "execution_order": null});
    let without = json!({"nodes": {"T1": {"id": "T1", "name": "One", "test_commands": [{"command": "make"}]}}});
    assert_eq!(read(with), read(without));
}

#[test]
fn unknown_fields_survive_at_every_level() {
    let text = json!({"spec_id": "my-project", "nodes": {"T1": {"id": "T1", "name": "One", "priority": [1, {"a": null}],
        "test_commands": [{"command": "make", "retries": 3}]}}, "zeta": 1.5, "alpha": {"k": "v"}});
    let written: Value = serde_json::from_str(&read(text).write()).unwrap();
    assert_eq!(written["spec_id"], "my-project");
    assert_eq!(written["nodes"]["T1"]["priority"], json!([1, {"a": null}]));
    assert_eq!(written["nodes"]["T1"]["test_commands"][0]["retries"], 3);
    let keys: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["nodes", "root_ids", "execution_order", "spec_files", "spec_id", "zeta", "alpha"]);
}

#[test]
fn leaves_and_roots_are_computed_whatever_the_file_says() {
    let mut text = nodes("p - -\nT1 p -\nq - -\nT2 q -");
    text["nodes"]["p"]["is_leaf"] = true.into();
    text["nodes"]["T1"]["is_leaf"] = false.into();
    for roots in [json!([]), json!(["T1"]), json!(["q"]), json!(["q", "q"]), json!(["q", "p", "x"])] {
        text["root_ids"] = roots;
        let tree = read(text.clone());
        assert_eq!(shown(tree.roots()), "p q");
        assert!(tree.is_leaf(&id("T1")) && !tree.is_leaf(&id("p")) && !tree.is_leaf(&id("x")));
    }
    // A file whose keys were sorted still tells the order of its phases.
    text["root_ids"] = json!(["q", "p"]);
    assert_eq!(shown(read(text).order()), "T2 T1");
}

#[test]
fn a_diamond_is_ordered_top_to_bottom() {
    let tree = tree("D - B,C\nC - A\nB - A\nA - -");
    assert_eq!(shown(tree.order()), "A C B D");
}

#[test]
fn milestones_come_in_numeric_order_because_the_file_does() {
    let lines: String = (0..=12).map(|n| format!("M{n} - -\nT{n}a M{n} -\nT{n}b M{n} -\n")).collect();
    let tree = tree(&lines);
    assert_eq!(shown(tree.roots()), (0..=12).map(|n| format!("M{n}")).collect::<Vec<_>>().join(" "));
    assert_eq!(shown(tree.order()), (0..=12).map(|n| format!("T{n}a T{n}b")).collect::<Vec<_>>().join(" "));
    let chain: String =
        (0..=12).map(|n| format!("M{n} - {}\n", if n == 0 { "-".into() } else { format!("M{}", n - 1) })).collect();
    let chain = self::tree(&chain);
    assert_eq!(shown(chain.order()), (0..=12).map(|n| format!("M{n}")).collect::<Vec<_>>().join(" "));
}

#[test]
fn nested_groups_are_walked_in_depth() {
    let tree = tree("p - -\nT1 g2 -\nT2 g1 -\nT3 p -\ng1 p -\ng2 g1 -\nT4 q -\nq - -");
    // p lists nothing itself, so its parts come as the file has them: T3, then g1 with T2 and g2.
    assert_eq!(shown(tree.order()), "T3 T2 T1 T4");
    assert_eq!(shown(tree.leaves_below(&id("g1"))), "T2 T1");
    assert_eq!(shown(tree.leaves_below(&id("p"))), "T3 T2 T1");
    assert_eq!(shown(tree.leaves_below(&id("T1"))), "T1");
    assert_eq!(tree.phase_of(&id("T1")), &id("p"));
    assert_eq!(tree.phase_of(&id("q")), &id("q"));
    assert!(tree.leaves_below(&id("nowhere")).is_empty());
}

#[test]
fn unblocked_tasks_queue_after_ready_ones() {
    let tree = tree("Z - A\nC - B\nA - -\nB - -");
    assert_eq!(shown(tree.order()), "A B Z C");
}

#[test]
fn phases_wait_as_a_whole() {
    let tree = tree("p2 - p1\nT3 p2 -\ng p2 T2\nT4 g T3\np1 - -\nT1 p1 T2\nT2 p1 -\nlast - p2,T1");
    assert_eq!(shown(tree.order()), "T2 T1 T3 T4 last");
    assert_eq!(shown(tree.dependencies(&id("T4"))), "T3 T2 p1");
    assert_eq!(shown(tree.dependencies(&id("last"))), "p2 T1");
    assert!(tree.dependencies(&id("T2")).is_empty());
}

#[test]
fn a_dependency_of_task_and_phase_counts_once() {
    let tree = tree("p - X\nT p X\nX - -");
    assert_eq!(shown(tree.dependencies(&id("T"))), "X");
}

#[test]
fn a_given_order_limits_and_orders_the_leaves() {
    let mut text = nodes("p - -\nA p -\nB p -\nC p -\nq - -\nD q -");
    text["execution_order"] = json!(["C", "A"]);
    let tree = read(text.clone());
    assert_eq!((shown(tree.order()), shown(tree.left_out())), ("C A".into(), "B D".into()));
    assert_eq!(shown(tree.leaves_below(&id("p"))), "C A");
    assert_eq!(shown(tree.leaves_below(&id("B"))), "B");
    assert!(tree.leaves_below(&id("q")).is_empty());
    assert_eq!(TaskTree::read(&tree.write()).unwrap(), tree);
    text["execution_order"] = json!([]);
    assert_eq!(shown(read(text).order()), "A B C D");
}

#[test]
fn an_order_names_leaves_once_after_their_dependencies() {
    let mut text = nodes("p - -\nA p -\nB p A\nq - p\nC q -\nD q -");
    text["execution_order"] = json!(["D", "x", "p", "B", "A", "A", "C"]);
    assert_eq!(
        errors(&text.to_string()),
        [
            "execution_order[1]: there is no node `x`",
            "execution_order[2]: `p` has children: only leaves are worked, so name those",
            "execution_order[5]: `A` is given twice; keep one",
            "execution_order[3]: `B` comes before `A`, which it depends on",
            "execution_order[0]: `D` comes before `A`, of `p`, which it depends on (through `q`)",
        ]
    );
    text["execution_order"] = json!(["D", "C"]);
    assert_eq!(shown(read(text).order()), "D C");
}

#[test]
fn every_error_is_reported_at_once_with_its_path() {
    let text = r#"{
      "nodes": {
        "p":   {"id": "p", "name": "P", "children": ["T1", "T1", "ghost", "p", "T2"]},
        "T1":  {"id": "T1", "name": "  ", "parent": "p", "depends_on": ["T1", "nope", "p", "T2", "T2", 7]},
        "T2":  {"id": "T2", "name": "Two", "parent": "q"},
        "q":   {"id": "q", "name": "Q", "children": ["T2", "T3"]},
        "T3":  {"id": "T3", "name": "Three", "parent": null},
        "T4":  {"id": "T5", "name": "Four", "parent": "away"},
        "T6":  {"name": 6, "parent": "p", "source_line": -1, "test_commands": [
                  {"type": "smoke", "command": "x"}, {"command": " ", "timeout": 1e-12}, "make", {"timeout": "5"}]},
        "T6":  {"id": "T6", "name": "again"},
        "a b": {"id": "a b", "name": "bad"},
        "":    {"id": "", "name": "none"},
        "x.lock": {"id": "x.lock", "name": "bad", "name": "worse", "own": {"k": 1, "k": 2}},
        "T7":  [],
        "T8":  {"id": "T8", "name": "Eight", "parent": "T8", "depends_on": ["a b"], "children": {}, "pipeline": ""}
      },
      "root_ids": "p", "nodes": {}, "spec_files": [1]
    }"#;
    insta::assert_snapshot!(errors(text).join("\n"), @r#"
    nodes: `nodes` is given twice; keep one
    root_ids: must be a list, not a string
    spec_files[0]: must be a string, not a number
    nodes.T6: `T6` is given twice; keep one
    nodes.T1.depends_on[5]: must be a string, not a number
    nodes.T4.id: is `T5`, but the key is `T4`; make them the same
    nodes.T6.id: is missing
    nodes.T6.name: must be a string, not a number
    nodes.T6.source_line: must be a whole number from 0, not -1
    nodes.T6.test_commands[0].type: `smoke` is not a type of test command: use unit, integration, e2e, setup or teardown
    nodes.T6.test_commands[1].command: is empty: give a line for the shell
    nodes.T6.test_commands[1].timeout: must be more than 0 and at most a year, in seconds
    nodes.T6.test_commands[2]: must be an object, not a string
    nodes.T6.test_commands[3].command: is missing
    nodes.T6.test_commands[3].timeout: must be a number, not a string
    nodes["x.lock"].name: `name` is given twice; keep one
    nodes["x.lock"].own.k: `k` is given twice; keep one
    nodes.T7: must be an object, not a list
    nodes.T8.children: must be a list, not an object
    nodes.T8.pipeline: is empty: name a file, or leave it out
    nodes["a b"].id: `a b` is not a valid task id: at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`, a final dot or a `.lock` end
    nodes[""].id: `` is not a valid task id: at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`, a final dot or a `.lock` end
    nodes["x.lock"].id: `x.lock` is not a valid task id: at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`, a final dot or a `.lock` end
    nodes.T1.name: is empty; describe it in a few words
    nodes.p.children[1]: `T1` is given twice; keep one
    nodes.p.children[2]: there is no node `ghost`
    nodes.p.children[3]: it cannot be its own child
    nodes.p.children[4]: `T2` is part of `q` already; a node has one parent
    nodes.q.children[1]: `T3` has no `parent`; make them agree
    nodes.T4.parent: there is no node `away`
    nodes.T6.parent: `p` does not list it in `children`; make them agree
    nodes.T8.parent: it cannot be its own parent
    nodes.T1.depends_on[0]: it cannot depend on itself
    nodes.T1.depends_on[1]: there is no node `nope`
    nodes.T1.depends_on[2]: it is part of `p`, which cannot be done before it
    nodes.T1.depends_on[4]: `T2` is given twice; keep one
    "#);
}

#[test]
fn cycles_are_reported_link_by_link() {
    let found = |lines: &str| errors(&nodes(lines).to_string()).join("\n");
    insta::assert_snapshot!(found("A - C\nB - A\nC - B\nX - Y\nY - X\nZ - X"), @r#"
    nodes.A.depends_on[0]: dependency cycle: `A` depends on `C`, `C` depends on `B`, `B` depends on `A`
    nodes.X.depends_on[0]: dependency cycle: `X` depends on `Y`, `Y` depends on `X`
    "#);
    insta::assert_snapshot!(found("p - -\nA p C\nq - p\nC q -"), @"nodes.A.depends_on[0]: dependency cycle: `A` \
         depends on `C`, `C` is part of `q`, `q` depends on `p`, `p` holds `A`");
    insta::assert_snapshot!(found("p - A\nA p -\nB - B"), @r#"
    nodes.p.depends_on[0]: `A` is part of it and cannot be done before it starts
    nodes.B.depends_on[0]: it cannot depend on itself
    "#);
    let ring: String = (0..40).map(|n| format!("R{n} - R{}\n", (n + 1) % 40)).collect();
    assert!(found(&ring).ends_with("`R11` depends on `R12`, and 28 more"), "{}", found(&ring));
}

#[test]
fn a_node_containing_itself_is_reported() {
    let found = errors(&nodes("a c -\nb a -\nc b -\nd a -").to_string());
    assert_eq!(found, ["nodes.a.parent: it contains itself: `a`, `c`, `b`, and again `a`"]);
}

#[test]
fn a_file_without_a_tree_is_reported() {
    assert_eq!(errors("[]"), ["a task tree must be an object with `nodes`, not a list"]);
    assert_eq!(errors("{}"), ["nodes: the tree has no tasks; add at least one"]);
    assert_eq!(errors(r#"{"nodes":{}}"#), ["nodes: the tree has no tasks; add at least one"]);
    assert_eq!(errors(r#"{"nodes":[]}"#), ["nodes: must be an object, not a list"]);
    assert_eq!(errors("{\n,"), ["this is not JSON: key must be a string at line 2 column 1"]);
}

#[test]
fn phases_that_wait_for_each_other_are_found() {
    let tree = tree("p - -\nA p -\nB p C\nq - -\nC q A\nL - B\nD q L");
    assert_eq!(shown(tree.order()), "A C B L D");
    assert_eq!(shown(&tree.phase_cycle().unwrap()), "p q");
    assert_eq!(self::tree("p - -\nA p -\nB p A\nq - p\nC q A").phase_cycle(), None);
}

#[test]
fn inner_nodes_with_tests_of_the_whole_are_gates() {
    let mut text = nodes("p - -\ng p -\nA g -\nB p -\nq - -\nC q -");
    let test = |kind: &str| json!([{"type": "setup", "command": "s"}, {"type": kind, "command": "make"}]);
    text["nodes"]["p"]["test_commands"] = test("e2e");
    text["nodes"]["g"]["test_commands"] = test("unit");
    text["nodes"]["A"]["test_commands"] = test("integration");
    text["nodes"]["q"]["test_commands"] = test("integration");
    let gates = |tree: &TaskTree| shown(tree.gates().into_iter().map(|node| &node.id));
    assert_eq!(gates(&read(text.clone())), "p q");
    text["execution_order"] = json!(["A", "B"]);
    assert_eq!(gates(&read(text)), "p");
}

#[test]
fn a_difference_is_a_line_per_change() {
    let old = tree("p - -\nA p -\nB p A\nC p -\nX p -");
    let mut text = nodes("p - -\nq - -\nA p -\nB q -\nC p A,N\nN p -");
    text["nodes"]["A"]["name"] = "Other".into();
    text["nodes"]["A"]["description"] = "more".into();
    text["nodes"]["C"]["pipeline"] = "c.dot".into();
    text["nodes"]["C"]["own"] = 1.into();
    text["nodes"]["C"]["test_commands"] = json!([{"command": "make"}]);
    text["execution_order"] = json!(["B", "A"]);
    insta::assert_snapshot!(old.difference(&read(text)).join("\n"), @r#"
    X removed: Name of X
    q added: Name of q
    A renamed: Name of A → Other
    A: the description changed
    B moved: p → q
    B no longer depends on A
    C depends on A now
    C depends on N now
    C: the test commands changed
    C: the pipeline changed: the built-in one → c.dot
    C: fields of its own changed
    N added: Name of N
    C is left out of the order
    the order changed: B comes before A
    "#);
    assert!(old.difference(&old).is_empty());
}

#[test]
fn fields_of_test_commands_are_no_fields_of_their_node() {
    let with = |tests: Value| {
        let mut text = nodes("A - -");
        text["nodes"]["A"]["test_commands"] = tests;
        read(text)
    };
    let (none, one) = (with(json!([])), with(json!([{"command": "make"}])));
    let own = with(json!([{"command": "make", "own": 1}]));
    for (old, new) in [(&one, &none), (&none, &one), (&one, &own), (&own, &none)] {
        assert_eq!(old.difference(new), ["A: the test commands changed"]);
    }
}

#[test]
fn deep_wide_and_circular_trees_are_read_in_a_blink() {
    let wide: String =
        (0..2).map(|p| format!("p{p} - {}\n", if p == 0 { "-".into() } else { format!("p{}", p - 1) })).collect();
    let leaves: String = (0..10_000).map(|n| format!("T{n} p{} -\n", n % 2)).collect();
    let wide = nodes(&(wide + &leaves)).to_string();
    let deep: String =
        (0..10_000).map(|n| format!("g{n} {} -\n", if n == 0 { "-".into() } else { format!("g{}", n - 1) })).collect();
    let deep = nodes(&deep).to_string();
    let chain: String = (0..10_000).map(|n| format!("T{n} - T{}\n", (n + 1) % 10_000)).collect();
    let ring = nodes(&chain).to_string();
    // Anything quadratic takes minutes here.
    assert_eq!(TaskTree::read(&wide).unwrap().order().len(), 10_000);
    assert_eq!(TaskTree::read(&deep).unwrap().order().len(), 1);
    assert_eq!(errors(&ring).len(), 1);
}

/// Any tree: parents and dependencies point backwards, so that there is no cycle; the nodes are then shuffled.
fn any_tree() -> impl Strategy<Value = Value> {
    let test = (0..5usize, ".{0,8}", proptest::option::of(".{0,5}"), 1..1_000_000u64, any_fields()).prop_map(
        |(kind, command, framework, millis, unknown)| {
            let mut test = unknown;
            test.insert("type".into(), TestKind::ALL[kind].as_str().into());
            test.insert("command".into(), format!("x{command}").into());
            test.insert("framework".into(), framework.into());
            test.insert("timeout".into(), (millis as f64 / 1000.0).into());
            Value::Object(test)
        },
    );
    let links =
        (proptest::option::of(any::<prop::sample::Index>()), prop::collection::vec(any::<prop::sample::Index>(), 0..3));
    let node = (links, "\\PC{0,8}", any_fields(), prop::collection::vec(test, 0..3), any::<bool>());
    (prop::collection::vec(node, 1..12), any_fields(), any::<bool>())
        .prop_flat_map(|(nodes, unknown, says_children)| {
            let count = nodes.len();
            let mut values: Vec<Value> = Vec::new();
            for (at, ((parent, depends), name, unknown, tests, dotted)) in nodes.into_iter().enumerate() {
                let id = if dotted { format!("T.{at}") } else { format!("T{at}") };
                let mut node = Value::Object(unknown);
                node["id"] = id.into();
                node["name"] = format!("n{name}").into();
                node["test_commands"] = tests.into();
                // Parents among the first third, dependencies among the rest: no node waits for what it is part of.
                let inner = count / 3;
                if let Some(parent) = parent.filter(|_| at > 0 && inner > 0) {
                    node["parent"] = values[parent.index(at.min(inner))]["id"].clone();
                }
                if at > inner {
                    let ids: BTreeSet<_> = depends.iter().map(|to| inner + to.index(at - inner)).collect();
                    node["depends_on"] = ids.into_iter().map(|to| values[to]["id"].clone()).collect();
                }
                values.push(node);
            }
            if says_children {
                for at in 0..count {
                    let id = values[at]["id"].clone();
                    let parts = values.iter().filter(|node| node["parent"] == id).map(|node| node["id"].clone());
                    values[at]["children"] = parts.collect();
                }
            }
            (Just(values).prop_shuffle(), Just(unknown))
        })
        .prop_map(|(nodes, unknown)| {
            let mut tree = Value::Object(unknown);
            let nodes = nodes.into_iter().map(|node| (node["id"].as_str().unwrap().to_owned(), node));
            tree["nodes"] = Value::Object(nodes.collect());
            tree
        })
}

fn any_fields() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(Value::from),
    ];
    prop::collection::btree_map("x\\PC{0,6}", value, 0..3).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reading_what_was_written_gives_the_same(text in any_tree()) {
        let tree = TaskTree::read(&text.to_string()).map_err(|errors| TestCaseError::fail(format!("{errors:?}")))?;
        let written = tree.write();
        prop_assert_eq!(TaskTree::read(&written), Ok(tree.clone()), "{}", written);
        prop_assert!(tree.difference(&TaskTree::read(&written).unwrap()).is_empty());
        let unknown = |value: &Value| value.as_object().unwrap().iter().filter(|(key, _)| key.starts_with('x'))
            .map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>();
        let again: Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(unknown(&again), unknown(&text));
        for (id, node) in text["nodes"].as_object().unwrap() {
            prop_assert_eq!(unknown(&again["nodes"][id]), unknown(node));
        }
    }

    #[test]
    fn every_leaf_comes_once_and_after_all_it_waits_for(text in any_tree()) {
        let tree = TaskTree::read(&text.to_string()).unwrap();
        let place: BTreeMap<&TaskId, usize> = tree.order().iter().zip(0..).collect();
        let leaves: BTreeSet<&TaskId> = tree.nodes().filter(|node| node.is_leaf()).map(|node| &node.id).collect();
        prop_assert_eq!(place.keys().copied().collect::<BTreeSet<_>>(), leaves);
        prop_assert_eq!(place.len(), tree.order().len());
        for leaf in tree.order() {
            for on in tree.dependencies(leaf).into_iter().flat_map(|on| tree.leaves_below(on)) {
                prop_assert!(place[on] < place[leaf], "{on} {leaf}\n{}", tree.write());
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any_tree(), key in "id|name|parent|children|depends_on", value in any_fields()) {
        let mut text = text;
        for (_, node) in text["nodes"].as_object_mut().unwrap().iter_mut().take(2) {
            node[&key] = value.values().next().cloned().unwrap_or(json!(["T0", "T.0", "T1", "T.1"]));
        }
        let _ = TaskTree::read(&text.to_string());
    }
}
