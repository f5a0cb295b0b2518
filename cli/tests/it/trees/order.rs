//! In which order tasks are worked.

use serde_json::json;

use super::garden::{Garden, Tree};

#[track_caller]
fn check(tree: &Tree, expected: &[&str]) {
    let garden = Garden::new(tree);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), expected);
}

#[test]
fn a_diamond_is_worked_from_its_top_to_its_foot() {
    check(&Tree::of(&["D: B C", "C: A", "B: A", "A"]), &["A", "C", "B", "D"]);
}

#[test]
fn thirteen_milestones_come_in_the_order_of_their_numbers() {
    let ids: Vec<String> = (0..13).map(|n| format!("M{n}")).collect();
    let chain: Vec<String> = (0..13).map(|n| if n == 0 { "M0".into() } else { format!("M{n}: M{}", n - 1) }).collect();
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    check(&Tree::of(&chain), &ids);
    // Without dependencies the order of the file counts, not that of the letters.
    check(&Tree::default().phase("all", &ids), &ids);
}

#[test]
fn nested_groups_are_worked_in_the_order_of_the_tree() {
    let tree = Tree::default()
        .phase("phase1", &["group1", "T003"])
        .phase("group1", &["T001", "T002"])
        .with("group1", "parent", "phase1".into())
        .phase("phase2", &["group2"])
        .phase("group2", &["T005", "T004"])
        .with("group2", "parent", "phase2".into());
    check(&tree, &["T001", "T002", "T003", "T005", "T004"]);
}

#[test]
fn a_given_order_limits_and_orders_the_tasks() {
    let tree = Tree::of(&["T001", "T002", "T003"]).order(&["T003", "T001"]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (0, 2), "{ran}");
    assert_eq!(garden.completed(), ["T003", "T001"]);
}

#[test]
fn a_task_outside_the_order_blocks_its_dependents() {
    let tree = Tree::of(&["T001", "T002: T001"]).order(&["T002"]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.waits("T002"), ("T001", "left_out"), "{ran}");
}

#[test]
fn tasks_with_similar_ids_are_distinguished() {
    let garden = Garden::new(&Tree::of(&["T001", "T0010", "T00"]));
    garden.garden(&["--task", "T0010"]).expect(0);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 3), "{ran}");
    assert_eq!(garden.completed(), ["T0010", "T001", "T00"]);
}

#[test]
fn unknown_fields_of_a_tree_are_no_trouble() {
    let tree = Tree::of(&["T001"]).with("T001", "estimate", json!({"hours": 3}));
    check(&tree, &["T001"]);
}
