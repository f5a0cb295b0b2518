//! What somebody does to the branch of a task that is finished and waits to land: it lands as it was tested and
//! approved, or is tested and reviewed again.

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;
use crate::support::Ran;

const BRANCH: &str = "pleach/tasks/main/T001";

/// The steps of a task that is approved at once.
const FIRST: [&str; 4] = ["T001 implement-pass", "T001 test-pass", "T001 review-approved", "T001 complete"];

/// The same once more, after what somebody has put there.
const AGAIN: [&str; 3] = ["T001 test-pass", "T001 review-approved", "T001 complete"];

/// A reviewer that does not like one file.
const WATCHES: &str =
    "if grep -q backdoor \"$prompt\"; then echo 'Take that out.'; echo REJECTED; else echo APPROVED; fi";

/// A garden whose task is finished and cannot land, because a file of the user's is in the way.
fn waiting() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo ran >> \"$HOME/ran\""]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    garden
}

/// Does something in a checkout of the task's branch, which is gone afterwards.
fn on_branch(garden: &Garden, path: &str, git: &[&[&str]]) {
    let copy = garden.env.root().join("by-hand");
    let copy = copy.to_str().expect("a UTF-8 path");
    garden.env.git(&["worktree", "add", "--quiet", copy, BRANCH]);
    garden.env.write(format!("by-hand/{path}"), "by hand\n");
    git.iter().for_each(|git| drop(garden.env.git(&[&["-C", copy], *git].concat())));
    garden.env.git(&["worktree", "remove", copy]);
}

fn commit_on_branch(garden: &Garden, path: &str) {
    on_branch(garden, path, &[&["add", path], &["commit", "--quiet", "-m", "By hand"]]);
}

fn clear(garden: &Garden) {
    std::fs::remove_file(garden.env.root().join("repo/T001.txt")).expect("the file is there");
}

#[track_caller]
fn assert_said(ran: &Ran) {
    ran.warns("code-newer-than-steps");
    ran.does_not_warn("rebuilt-green");
}

#[test]
fn commits_after_an_approved_step_land_only_if_approved() {
    let garden = waiting();
    commit_on_branch(&garden, "backdoor");
    clear(&garden);
    garden.agent(&format!("rm -f backdoor; {WRITES}"), WATCHES);
    let ran = garden.gardener(&[]).expect(0);
    assert_said(&ran);
    let told = garden.told("main");
    assert_eq!(told[..4], FIRST);
    assert_eq!(told[4..6], ["T001 test-pass", "T001 review-rejected"]);
    assert_eq!(told[6..], FIRST);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    let retries: Vec<String> =
        garden.steps("main").iter().filter_map(|step| step.trailer("Arborist-Retry").map(str::to_owned)).collect();
    assert_eq!(retries, ["0", "0", "0", "0", "0", "1", "1", "1"], "it is still the first attempt that failed");
    assert!(garden.newest("main", "T001 complete").body.starts_with("Completed after 2 attempt(s)."));
}

#[test]
fn commits_after_an_approved_step_land_once_approved() {
    let garden = waiting();
    commit_on_branch(&garden, "more");
    clear(&garden);
    assert_said(&garden.gardener(&[]).expect(0));
    assert_eq!(garden.told("main"), [&FIRST[..], &AGAIN].concat());
    assert!(garden.asked("T001", "review", 2).contains("more"), "the reviewer sees it");
    assert_eq!(garden.env.read("home/ran"), "ran\nran\n");
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("cancelled") && !status.stdout.contains("waits to land"), "{status}");
}

#[test]
fn on_a_phase_s_branch_nothing_lands_unreviewed_either() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]));
    let phase = garden.env.root().join("phase");
    let phase = phase.to_str().expect("a UTF-8 path");
    garden.env.git(&["branch", "pleach/phase/main/phase1"]);
    garden.env.git(&["worktree", "add", "--quiet", phase, "pleach/phase/main/phase1"]);
    garden.env.write("phase/T001.txt", "mine\n");
    let isolated = ["--isolation", "phase"];
    garden.gardener(&isolated).expect(5);
    commit_on_branch(&garden, "backdoor");
    garden.env.git(&["worktree", "remove", "--force", phase]);
    garden.agent(&format!("rm -f backdoor; {WRITES}"), WATCHES);
    assert_said(&garden.gardener(&isolated).expect(0));
    assert_eq!(garden.times_asked("T001", "review"), 3);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
}

#[test]
fn foreign_commits_are_reviewed_before_rebuilding_on_the_target() {
    let garden = waiting();
    commit_on_branch(&garden, "more");
    clear(&garden);
    garden.commit("mine", "by the user\n");
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("code-newer-than-steps");
    ran.warns("rebuilt-green");
    assert_eq!(garden.told("main"), [&FIRST[..], &AGAIN].concat());
    assert!(!garden.asked("T001", "review", 2).contains("by the user"), "only the task's own work is reviewed");
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "mine", "more", "task-tree.json"]);
    assert_eq!(garden.env.git(&["rev-list", "--merges", "main"]), "");
}

#[test]
fn a_changed_last_step_is_looked_at_again() {
    let garden = waiting();
    on_branch(&garden, "backdoor", &[&["add", "backdoor"], &["commit", "--quiet", "--amend", "--no-edit"]]);
    clear(&garden);
    garden.agent(&format!("rm -f backdoor; {WRITES}"), WATCHES);
    assert_said(&garden.gardener(&[]).expect(0));
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
}

#[test]
fn a_commit_that_changes_no_code_is_not_looked_at() {
    let garden = waiting();
    on_branch(&garden, "README.md", &[&["commit", "--quiet", "--allow-empty", "-m", "By hand"], &["checkout", "."]]);
    clear(&garden);
    let ran = garden.gardener(&[]).expect(0);
    ran.does_not_warn("code-newer-than-steps");
    ran.does_not_warn("rebuilt-green");
    assert_eq!(garden.told("main"), FIRST);
    assert_eq!(garden.times_asked("T001", "review"), 1);
}

#[test]
fn killed_in_the_second_review_it_resumes_there() {
    for with_record in [true, false] {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
        garden.configure("tree: {max_retries: 1}\n");
        garden.env.write("repo/T001.txt", "mine\n");
        garden.gardener(&[]).expect(5);
        commit_on_branch(&garden, "more");
        clear(&garden);
        let gate = Gate::new(&garden.env, "review");
        garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        if !with_record {
            garden.refs("refs/pleach/").iter().for_each(|name| drop(garden.env.git(&["update-ref", "-d", name])));
        }
        let status = garden.env.pleach(&["status"]).expect(0);
        assert_eq!(status.next(), ("work", "T001"), "{status}");
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.told("main"), [&FIRST[..], &AGAIN].concat(), "with its record: {with_record}");
        assert_eq!(garden.times_asked("T001", "implement"), 1);
    }
}

#[test]
fn of_a_task_that_is_skipped_nothing_lands() {
    let garden = waiting();
    commit_on_branch(&garden, "backdoor");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("waits to land"), "{status}");
    garden.env.pleach(&["skip", "T001"]).expect(0);
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("cancelled") && !status.stdout.contains("waits to land"), "{status}");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "task-tree.json"]);
    assert_eq!(garden.times_asked("T001", "review"), 1);
}

#[test]
fn rm_says_how_to_get_the_work_of_a_session() {
    let garden = waiting();
    let session = garden.env.session();
    let refused = garden.env.pleach(&["rm", &session]).expect(1);
    refused.fails_with("removal-refused").naming("`pleach gardener`");
    garden.env.pleach(&["skip", "T001"]).expect(0);
    let refused = garden.env.pleach(&["rm", &session]).expect(1);
    // Nobody continues.
    refused.fails_with("removal-refused").naming(format!("`git merge {BRANCH}`"));
}

#[test]
fn a_reset_task_is_redone_without_foreign_commits() {
    let garden = waiting();
    commit_on_branch(&garden, "backdoor");
    let tip = garden.env.git(&["rev-parse", BRANCH]);
    clear(&garden);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    let kept = garden.refs("refs/pleach/keep/");
    assert!(kept.iter().any(|name| garden.env.git(&["rev-parse", name]) == tip), "{kept:?}");
}

#[test]
fn no_task_lands_on_a_branch_of_pleachs_own() {
    let garden = waiting();
    clear(&garden);
    garden.env.git(&["switch", "--quiet", BRANCH]);
    let tip = garden.env.git(&["rev-parse", "HEAD"]);
    let commands: [&[&str]; 6] = [
        &["-y", "gardener"],
        &["-y", "garden"],
        &["gardener", "--dry-run"],
        &["skip", "T001"],
        &["reset", "T001"],
        &["status", "--tree", "task-tree.json"],
    ];
    for command in commands {
        let ran = garden.env.pleach(command).expect(2);
        ran.fails_with("own-branch").naming("`git switch main`");
        assert!(ran.stderr.contains(&format!("`{BRANCH}`")), "{ran}");
    }
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(!status.stdout.contains(&format!("on {BRANCH}")), "it is the target of nothing: {status}");
    assert_eq!(garden.env.git(&["rev-parse", "HEAD"]), tip);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_task_branchs_target_is_named_whatever_its_name() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden
        .configure("tree: {delete_branches: false}\nworkspace: {repos: {repo: {path: repo, branch_prefix: bots/}}}\n");
    garden.switch_to_new("feature/100%");
    garden.garden(&[]).expect(0);
    garden.env.git(&["switch", "--quiet", "bots/tasks/feature%2F100%25/T001"]);
    let ran = garden.gardener(&[]).expect(2);
    ran.fails_with("own-branch").naming("`git switch feature/100%`");
    // Nothing but the names of such branches is special.
    garden.switch_to_new("bots/tasks/other");
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_task_taken_out_of_the_tree_is_not_forgotten() {
    for take in [true, false] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.env.write("repo/T001.txt", "mine\n");
        garden.gardener(&[]).expect(5);
        let session = garden.env.session();
        clear(&garden);
        garden.plant(&Tree::of(&["T002"]));
        let status = garden.env.pleach(&["status"]).expect(0);
        assert_eq!(status.next(), ("merge", BRANCH), "{status}");
        let ran = garden.gardener(&[]).expect(5);
        assert_eq!(ran.refused(), ("stray", "T001"), "{ran}");
        for way in [format!("`{BRANCH}`"), format!("`git merge {BRANCH}`"), format!("`pleach rm --force {session}`")] {
            assert!(ran.stdout.contains(&way), "{way}: {ran}");
        }
        assert_eq!(garden.times_asked("T002", "implement"), 0, "nothing starts before that is settled");
        if take {
            drop(garden.env.git(&["merge", "--quiet", "-m", "Take it", BRANCH]))
        } else {
            drop(garden.env.pleach(&["rm", "--force", &session]).expect(0))
        }
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.file("main", "T002.txt"), "T002 1");
        assert_eq!(garden.files("main").contains(&"T001.txt".to_owned()), take);
        let status = garden.env.pleach(&["status"]).expect(0);
        assert!(!status.stdout.contains("waits to land"), "{status}");
    }
}

#[test]
fn rm_keeps_landed_work_no_branch_has() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let before = garden.env.git(&["rev-parse", "main"]);
    garden.gardener(&[]).expect(0);
    let landed = garden.env.git(&["rev-parse", "main"]);
    let session = garden.env.session();
    garden.env.git(&["reset", "--quiet", "--hard", &before]);
    let removed = garden.env.pleach(&["rm", &session]).expect(0);
    assert!(removed.stdout.contains("refs/pleach/keep/"), "{removed}");
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept.len(), 1, "{kept:?}");
    garden.env.git(&["merge-base", "--is-ancestor", &landed, &kept[0]]);
}
