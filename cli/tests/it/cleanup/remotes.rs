//! Branches and records at remotes go only when that is asked for, and what others have there stays.

use super::{clean, recorded, removed, stays};
use crate::remotes::{World, one};

/// A remote with the branch and the record of a session that has ended.
fn pushed() -> World {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    world.run(&one("echo 1 > one"), &[]).expect(0);
    world.assert_all_pushed();
    world
}

#[test]
fn remote_branches_go_only_with_remote() {
    let world = pushed();
    let (branch, record) = (format!("refs/heads/{}", world.env.branch()), world.record());
    let planned = clean(&world.env, &["--remote", "--dry-run"]);
    assert!(removed(&planned, "branch").contains(&branch.as_str()), "{planned}");
    assert!(world.at_remote(&branch).is_some(), "nothing is changed");
    let told = clean(&world.env, &["--remote"]);
    assert!(removed(&told, "branch").contains(&branch.as_str()), "{told}");
    assert!(removed(&told, "record").contains(&record.as_str()), "{told}");
    assert_eq!((world.at_remote(&branch), world.at_remote(&record)), (None, None));
    world.run(&one("echo 2 > two"), &[]).expect(0);
    let branch = format!("refs/heads/pleach/one/{}", recorded(&world.env)[0]);
    clean(&world.env, &[]);
    assert!(world.at_remote(&branch).is_some(), "it was not asked for");
}

#[test]
fn what_a_remote_keeps_is_a_warning() {
    let world = pushed();
    let (branch, record) = (format!("refs/heads/{}", world.env.branch()), world.record());
    // Somebody has worked on with the branch, and nothing is deleted on Fridays.
    let source = world.env.root().join("remote-source");
    world.env.git_in(&source, &["fetch", "--quiet", "origin", &branch]);
    world.env.git_in(&source, &["checkout", "--quiet", "FETCH_HEAD"]);
    world.env.git_in(&source, &["commit", "--quiet", "--allow-empty", "-m", "Theirs"]);
    world.env.git_in(&source, &["push", "--quiet", "origin", &format!("HEAD:{branch}")]);
    world.hook("update", "test \"$3\" != 0000000000000000000000000000000000000000");
    let ran = world.env.pleach(&["--json", "cleanup", "--older-than", "0", "--remote"]).expect(0);
    ran.warns("not-removed").naming(&record).naming("hook declined");
    let told = &ran.json()["data"];
    let why = |name: &str| stays(told).into_iter().find(|(found, _)| *found == name).expect("it stays").1.to_owned();
    assert!(why(&branch).contains("has commits there that are not here"), "{told}");
    assert!(why(&record).contains("hook declined"), "{told}");
    assert!(world.at_remote(&branch).is_some() && world.at_remote(&record).is_some());
    assert!(recorded(&world.env).is_empty(), "here it is gone");
    // A remote that is gone is a warning, too.
    world.run(&one("echo 2 > two"), &[]).expect(0);
    std::fs::rename(world.bare(), world.env.root().join("elsewhere.git")).unwrap();
    let ran = world.env.pleach(&["cleanup", "--older-than", "0", "--remote"]).expect(0);
    ran.warns("not-removed").naming("nothing is removed from");
    assert!(recorded(&world.env).is_empty());
}
