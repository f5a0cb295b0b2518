//! A commit of unlanded work that cannot be read any more: it holds up its own task, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::garden::{Garden, Tree};

const BRANCH: &str = "pleach/tasks/main/T001";

/// What becomes of the file of an object.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// Its checksum is another.
    Overwritten,
    /// There is nothing in it.
    Emptied,
    /// It is gone.
    Removed,
}

const ALL: [Damage; 3] = [Damage::Overwritten, Damage::Emptied, Damage::Removed];

/// Damages the object a revision names, and says which it is.
fn damage(garden: &Garden, revision: &str, how: Damage) -> String {
    let id = garden.env.git(&["rev-parse", revision]);
    let file: PathBuf = garden.env.repo_path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    let mut bytes = fs::read(&file).expect("an object by itself");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    match how {
        Damage::Overwritten => {
            let checksum = bytes.len() - 4;
            bytes[checksum..].iter_mut().for_each(|byte| *byte ^= 0xff);
            fs::write(&file, bytes).unwrap();
        }
        Damage::Emptied => fs::write(&file, "").unwrap(),
        Damage::Removed => fs::remove_file(&file).unwrap(),
    }
    id
}

/// A garden whose first task is finished and waits to land, and whose second waits for nothing.
fn waiting() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
    garden
}

#[test]
fn a_task_with_unreadable_branch_is_redone_after_reset() {
    for how in ALL {
        for revision in [BRANCH, &format!("{BRANCH}~1")] {
            let garden = waiting();
            let id = damage(&garden, revision, how);
            let ran = garden.env.pleach(&["-y", "gardener"]).expect(5);
            assert!(ran.stdout.contains(BRANCH) && ran.stdout.contains(&id), "{how:?} {revision}: {ran}");
            assert!(ran.stdout.contains("`pleach reset T001 --tree task-tree.json`"), "{how:?} {revision}: {ran}");
            let ran = garden.env.pleach(&["status"]).expect(0);
            assert!(ran.stdout.contains(&format!("`{BRANCH}` ")), "{ran}");
            assert!(ran.stdout.contains(&id) && ran.stdout.contains("`pleach reset T001`"), "{ran}");
            let json = garden.env.pleach(&["--json", "status"]).expect(0).json();
            assert_eq!(json["trees"][0]["unreadable"][0]["branch"], BRANCH, "{json}");
            assert_eq!(json["trees"][0]["next"]["is"], "mend", "{json}");
            // Another task is none the worse for it.
            garden.env.pleach(&["-y", "garden", "--task", "T002"]).expect(0);
            assert_eq!(garden.file("main", "T002.txt"), "T002 1");
            let told = garden.env.pleach(&["reset", "T001", "--dry-run"]).expect(0);
            assert!(told.stdout.contains(&format!("`{BRANCH}`")), "{told}");
            let json = garden.env.pleach(&["--json", "reset", "T001", "--dry-run"]).expect(0).json();
            assert_eq!(json["removed_branch"], BRANCH, "{json}");
            let ran = garden.env.pleach(&["reset", "T001"]).expect(0);
            assert!(ran.stdout.contains(&format!("`{BRANCH}`")), "{ran}");
            let off = ran.stdout.lines().find_map(|line| line.strip_prefix("cancelled: "));
            assert_eq!(off.is_some(), json["cancelled_session"].is_string(), "{json}\n{ran}");
            garden.gardener(&[]).expect(0);
            assert_eq!(garden.file("main", "T001.txt"), "T001 2");
            assert_eq!(garden.told("main").last().unwrap(), "T001 complete");
            // What it had is in nothing that is left of it but its session's record.
            garden.env.git(&["rev-list", "--objects", "--branches", "--glob=refs/pleach/keep"]);
            assert!(!garden.env.pleach(&["status"]).expect(0).stdout.contains("cannot be read"));
        }
    }
}

#[test]
fn a_skipped_task_needs_no_readable_branch() {
    let garden = waiting();
    damage(&garden, BRANCH, Damage::Overwritten);
    garden.env.pleach(&["skip", "T001"]).expect(0);
    assert_eq!(garden.refs("refs/heads/pleach"), Vec::<String>::new());
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    assert_eq!(garden.file("main", "T002.txt"), "T002 1");
}

#[test]
fn what_has_landed_needs_no_branch_that_can_be_read() {
    let garden = waiting();
    garden.configure("tree: {delete_branches: false}\n");
    garden.commit("mine", "by the user\n");
    garden.garden(&[]).expect(0);
    damage(&garden, BRANCH, Damage::Overwritten);
    let ran = garden.env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains(&format!("`git update-ref -d refs/heads/{BRANCH}`")), "{ran}");
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    assert_eq!(garden.file("main", "T002.txt"), "T002 1");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn an_unreadable_branch_may_be_removed_by_hand() {
    for how in ALL {
        let garden = waiting();
        damage(&garden, BRANCH, how);
        garden.env.git(&["update-ref", "-d", &format!("refs/heads/{BRANCH}")]);
        garden.env.pleach(&["status"]).expect(0);
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.file("main", "T001.txt"), "T001 2");
    }
}

#[test]
fn a_session_with_unreadable_task_work_is_removed() {
    for how in ALL {
        for revision in [BRANCH, &format!("{BRANCH}~1")] {
            let garden = waiting();
            let session = garden.env.session();
            let id = damage(&garden, revision, how);
            let ran = garden.env.pleach(&["rm", &session]).expect(1);
            assert!(ran.stderr.contains("its newest commit cannot be read") && ran.stderr.contains(&id), "{ran}");
            assert!(!ran.stderr.contains("pleach gardener"), "nothing goes on with it: {ran}");
            garden.env.pleach(&["rm", "--force", &session]).expect(0);
            assert_eq!(garden.refs("refs/pleach/sessions"), Vec::<String>::new());
            garden.env.git(&["rev-list", "--objects", "--glob=refs/pleach/keep"]);
            garden.env.pleach(&["reset", "T001"]).expect(0);
            garden.gardener(&[]).expect(0);
            assert_eq!(garden.file("main", "T001.txt"), "T001 2");
        }
    }
}

#[test]
fn an_unreadable_phase_branch_is_done_without() {
    let garden = Garden::new(&Tree::default().phase("P1", &["T001", "T002: T001"]));
    garden.garden(&["--task", "T001", "--isolation", "phase"]).expect(0);
    let branch = "pleach/phase/main/P1";
    let id = damage(&garden, branch, Damage::Overwritten);
    let ran = garden.env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains(&format!("`{branch}` ")) && ran.stdout.contains(&id), "{ran}");
    let ran = garden.env.pleach(&["-y", "gardener", "--isolation", "phase"]).expect(5);
    assert!(ran.stdout.contains(&format!("`git update-ref -d refs/heads/{branch}`")), "{ran}");
    garden.env.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
    // The task's own branch is there as well.
    let ran = garden.env.pleach(&["-y", "gardener", "--isolation", "phase"]).expect(5);
    assert!(ran.stdout.contains("`pleach reset T001 --tree task-tree.json`"), "{ran}");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&["--isolation", "phase"]).expect(0);
    assert_eq!(garden.files("main").iter().filter(|file| file.starts_with('T')).count(), 2);
}

#[test]
fn an_unreadable_target_is_no_single_tasks_problem() {
    for how in ALL {
        let garden = waiting();
        damage(&garden, BRANCH, how);
        damage(&garden, "main~1", how);
        for command in [&["status"][..], &["-y", "gardener"], &["reset", "T001"]] {
            garden.env.pleach(command).expect(7);
        }
    }
}
