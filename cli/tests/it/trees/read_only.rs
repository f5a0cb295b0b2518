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
fn files_of_a_failing_test_do_not_reach_later_attempts() {
    let test = "unit: echo x > left; test -e mended";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.agent("test -e left && echo saw > saw; test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "mended", "one", "task-tree.json"]);
}

#[test]
fn ignore_rules_left_by_a_test_hide_nothing() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.gardener(&["--test-command", "test -e .gitignore || echo '*' > .gitignore"]).expect(0);
    assert_eq!(garden.file("main", "T002.txt"), "T002 1");
    assert!(!garden.files("main").contains(&".gitignore".to_owned()));
}

#[test]
fn files_a_test_hides_are_undone_with_its_rules() {
    for rules in ["*", "left.*"] {
        let test = format!("echo '{rules}' > .gitignore; touch left.1 left.2; test $(cat tries) = 2");
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {test}")]));
        garden.agent("echo $n > tries", APPROVES);
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(garden.files("main"), ["README.md", "task-tree.json", "tries"], "{rules}: {ran}");
        ran.warns("read-only-undone").naming("`left.1`").naming("`.gitignore`");
    }
}

/// A garden with the link of a submodule `sm`, and that link as git shows it.
fn with_submodule(tree: &Tree) -> (Garden, String) {
    let garden = Garden::new(tree);
    std::fs::create_dir(garden.env.repo_path().join("sm")).unwrap();
    let link = format!("160000,{},sm", garden.env.git(&["rev-parse", "HEAD"]));
    garden.env.git(&["update-index", "--add", "--cacheinfo", &link]);
    garden.env.git(&["commit", "--quiet", "-m", "A submodule"]);
    let link = garden.env.git(&["ls-tree", "main", "sm"]);
    (garden, link)
}

#[test]
fn test_files_in_a_submodule_place_are_kept_and_undone() {
    let tree = Tree::of(&["T001", "T002: T001", "T003: T002", "T004: T003"])
        .tests("T001", &["unit: echo left > sm/left"])
        .tests("T002", &["unit: rmdir sm; echo left > sm"])
        .tests("T003", &["unit: rmdir sm"]);
    let (garden, link) = with_submodule(&tree);
    garden.agent("test -d sm && test -z \"$(ls sm)\" && echo $task > $task.txt", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003", "T004"], "{ran}");
    assert_eq!(garden.env.git(&["ls-tree", "main", "sm"]), link);
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept.len(), 2, "{ran}");
    for path in ["sm/left", "sm"] {
        let has_it = |kept: &&String| garden.files(kept).iter().any(|file| file == path);
        let kept = kept.iter().find(has_it).unwrap_or_else(|| panic!("{path} is not kept: {ran}"));
        assert_eq!(garden.file(kept, path), "left");
    }
    ran.warns("submodule-changed").naming("`sm`");
}

#[test]
fn files_in_a_submodule_place_block_landing() {
    let (garden, link) = with_submodule(&Tree::of(&["T001", "T002: T001", "T003: T002"]));
    let made = "case $task.$n in T001.1) echo code > sm/f;; T001.*) rm sm/f;; T002.1) rmdir sm;; *) test -d sm;; esac";
    garden.agent(&format!("{made} && echo $task > $task.txt"), APPROVES);
    let ran = garden.gardener(&["--test-command", "true"]).expect(0);
    let told = ["T001 implement-fail", "T001 implement-pass", "T001 test-pass"];
    assert_eq!(garden.told("main")[..3], told, "{ran}");
    let why = "`sm/f` is not committed: it is in the directory of a submodule, whose recorded commit does not change";
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains("held back") && asked.contains(why), "{asked}");
    assert_eq!(garden.completed(), ["T001", "T002", "T003"], "{ran}");
    assert_eq!(garden.env.git(&["ls-tree", "main", "sm"]), link);
    let gone = "submodule `sm` is gone; its recorded commit does not change";
    assert!(ran.stderr.contains(why) && ran.stderr.contains(gone), "{ran}");
    assert_eq!(garden.refs("refs/pleach/keep/").len(), 0, "{ran}");
}

#[test]
fn a_failed_tasks_files_in_a_submodule_place_are_kept() {
    let (garden, link) = with_submodule(&Tree::of(&["T001", "T002"]));
    garden.agent("test $task = T002 && test ! -e sm/f || echo code > sm/f; echo $task > $task.txt", APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let body = garden.newest("main", "T001 implement-fail").body;
    assert!(body.contains("1 file is held back") && body.contains("`sm/f` is not committed"), "{body}");
    let ran = garden.garden(&["--task", "T002"]).expect(0);
    assert_eq!(garden.completed(), ["T002"], "{ran}");
    assert_eq!(garden.env.git(&["ls-tree", "main", "sm"]), link);
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept.len(), 1, "{ran}");
    assert_eq!(garden.file(&kept[0], "sm/f"), "code");
}

/// What a task has its own rules ignore comes to light where those rules are gone.
#[test]
fn ignored_files_of_a_finished_task_are_no_later_work() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let first = "mkdir -p lib; echo rejected > lib/impl; echo lib/ > .gitignore";
    garden.agent(
        &format!("case $task in T001) {first} ;; *) {WRITES} ;; esac"),
        "case $task in T001) echo 'REJECTED: no' ;; *) echo APPROVED ;; esac",
    );
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(garden.files("main"), ["README.md", "T002.txt", "task-tree.json"], "{ran}");
}
