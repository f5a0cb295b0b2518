//! Tests and reviews look and do not touch: what they change is kept and undone.

use super::garden::{APPROVES, Garden, Tree, WRITES};

#[test]
fn what_a_test_writes_is_kept_and_undone() {
    let test = "unit: echo changed >> T001.txt; echo new > left; rm README.md; test -e T001.txt";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(garden.file(&kept[0], "left"), "new");
    assert_eq!(garden.file(&kept[0], "T001.txt"), "T001 1\nchanged");
    assert!(ran.stderr.contains(&kept[0]), "{ran}");
}

#[test]
fn what_a_reviewer_writes_is_kept_and_undone() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "echo mine > T001.txt; echo x > notes; git add -A; git commit -qm mine; echo APPROVED");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(garden.file(&kept[0], "notes"), "x");
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

#[test]
fn what_a_failing_test_writes_does_not_reach_the_next_attempt() {
    let test = "unit: echo x > left; test -e mended";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.agent("test -e left && echo saw > saw; test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "mended", "one", "task-tree.json"]);
}

#[test]
fn ignore_rules_a_test_leaves_hide_nothing_of_the_next_task() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.gardener(&["--test-command", "test -e .gitignore || echo '*' > .gitignore"]).expect(0);
    assert_eq!(garden.file("main", "T002.txt"), "T002 1");
    assert!(!garden.files("main").contains(&".gitignore".to_owned()));
}

#[test]
fn what_a_test_writes_and_hides_is_undone_with_the_rules_that_hide_it() {
    for rules in ["*", "left.*"] {
        let test = format!("echo '{rules}' > .gitignore; touch left.1 left.2; test $(cat tries) = 2");
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {test}")]));
        garden.agent("echo $n > tries", APPROVES);
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(garden.files("main"), ["README.md", "task-tree.json", "tries"], "{rules}: {ran}");
        assert!(ran.stderr.contains("`left.1`") && ran.stderr.contains("`.gitignore`"), "{rules}: {ran}");
    }
}
