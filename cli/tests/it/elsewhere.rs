//! What a bound agent plants among the objects of the repository, where it can add some: nothing that is committed
//! counts on it, and it is gone again.

use std::fs;
use std::path::PathBuf;

use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;

/// Keeps its objects in the working copy, has the repository take them from there, and leaves two files behind.
const PLANT: &str = "C=$(git rev-parse --path-format=absolute --git-common-dir); mkdir -p .o; echo .o > .gitignore; \
    echo precious > one; GIT_OBJECT_DIRECTORY=$PWD/.o git hash-object -w one .gitignore > /dev/null; \
    echo \"$PWD/.o\" >> \"$C/objects/info/alternates\"";

fn alternates(env: &TestEnv) -> PathBuf {
    env.repo_path().join(".git/objects/info/alternates")
}

/// Takes the session's work over and removes the session with its working copy.
#[track_caller]
fn assert_whole_without_the_copy(env: &TestEnv) {
    env.git(&["merge", "--quiet", &env.branch()]);
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
    assert_eq!(env.git(&["fsck", "--no-dangling", "--connectivity-only"]), "");
    assert_eq!(env.read("repo/one"), "precious\n");
}

#[test]
fn objects_from_elsewhere_fail_the_node_and_are_not_counted_on() {
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("alone", &(tool("work", PLANT) + "start -> work -> exit")), &[]).expect(1);
    assert!(ran.stdout.contains("objects/info/alternates (was put back; it said `"), "{ran}");
    assert!(!alternates(&env).exists(), "{ran}");
    assert_whole_without_the_copy(&env);
}

#[test]
fn objects_from_elsewhere_that_the_user_has_stay() {
    let env = TestEnv::with_repo();
    env.repo_at("other");
    let own = format!("{}\n", env.root().join("other/.git/objects").display());
    fs::write(alternates(&env), &own).unwrap();
    let then = tool("then", "echo 2 > two");
    let nodes = tool("work", PLANT) + &then + "start -> work; work -> then; then -> exit";
    let ran = env.run(&graph("alone", &nodes), &[]).expect(1);
    assert!(ran.stdout.contains("objects/info/alternates"), "{ran}");
    assert_eq!(fs::read_to_string(alternates(&env)).unwrap(), own, "{ran}");
    assert_whole_without_the_copy(&env);
}

#[test]
fn objects_from_elsewhere_are_found_after_a_kill() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "planted");
    let passed = env.root().join("planted.passed");
    let command = format!("test -e '{}' || {{ {PLANT}; }}; {}; echo precious > one", passed.display(), gate.command());
    let mut run = env.start(&graph("killed", &(tool("work", &command) + "start -> work -> exit")), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    assert!(alternates(&env).exists());
    let ran = env.resume(&[]).expect(1);
    assert!(ran.stderr.contains("cut short") && ran.stderr.contains("objects/info/alternates"), "{ran}");
    assert!(ran.stdout.contains("objects/info/alternates (was put back; it said `"), "the node fails: {ran}");
    assert!(!alternates(&env).exists(), "{ran}");
    assert_whole_without_the_copy(&env);
    // Once it is named, it is over.
    let noted = env.repo_path().join(".git/pleach/worktrees");
    assert_eq!(fs::read_dir(noted).unwrap().count(), 0);
}

#[test]
fn where_the_user_takes_objects_from_since_a_kill_is_left_alone() {
    for last in ["rm", "resume"] {
        let env = TestEnv::with_repo();
        let gate = Gate::new(&env, "working");
        let mut run = env.start(&graph("killed", &(tool("work", &gate.command()) + "start -> work -> exit")), &[]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        // All the user has lies in a pool now.
        let pool = env.root().join("pool.git");
        env.git(&["clone", "--quiet", "--bare", ".", pool.to_str().unwrap()]);
        fs::write(alternates(&env), format!("{}\n", pool.join("objects").display())).unwrap();
        env.git(&["repack", "-q", "-a", "-d", "-l"]);
        env.git(&["prune-packed", "-q"]);
        match last {
            "rm" => env.pleach(&["rm", "--force", &env.session()]).expect(0),
            _ => env.resume(&[]).expect(0),
        };
        assert_eq!(env.git(&["fsck", "--no-dangling", "--connectivity-only"]), "");
        env.git(&["log", "-1"]);
    }
}

#[test]
fn a_pack_that_gives_one_file_for_another_is_taken_away() {
    let env = TestEnv::with_repo();
    let plant = "P=$(git rev-parse --path-format=absolute --git-common-dir)/objects/pack; \
        git rev-list --objects HEAD | cut -c1-40 | git pack-objects -q --stdout > p.pack; git index-pack p.pack > p.txt; \
        at=$((1032 + 24 * $(git show-index < p.idx | wc -l))); chmod u+w p.idx; \
        for n in 0 1; do dd if=p.idx of=p.$n bs=1 skip=$((at + 4 * n)) count=4 status=none; done; \
        for n in 0 1; do dd if=p.$n of=p.idx bs=1 seek=$((at + 4 - 4 * n)) conv=notrunc status=none; done; \
        for end in pack idx; do cp p.$end $P/pack-3333333333333333333333333333333333333333.$end; done; rm -f p.*; echo 1 > one";
    let ran = env.run(&graph("lies", &(tool("work", plant) + "start -> work -> exit")), &[]).expect(0);
    assert!(ran.stderr.contains("(no sound pack; it was removed)"), "{ran}");
    env.git(&["fsck", "--no-dangling"]);
    assert_eq!(env.committed("one"), "1");
}

#[test]
fn what_is_no_pack_is_taken_away_and_a_pack_stays() {
    let env = TestEnv::with_repo();
    let [empty, junk, whole] = ["0", "1", "2"].map(|digit| digit.repeat(40));
    let plant = format!(
        "P=$(git rev-parse --path-format=absolute --git-common-dir)/objects/pack; cp README.md one; \
         git rev-parse HEAD | git pack-objects -q --stdout > p.pack; git index-pack p.pack > p.txt; \
         for end in pack idx; do cp p.$end $P/pack-{whole}.$end; done; rm -f p.*; : > $P/pack-{empty}.idx; \
         head -c 5000 /dev/zero > $P/pack-{junk}.idx; echo PACK > $P/pack-{junk}.pack"
    );
    let nodes = tool("work", &plant) + &tool("then", "echo 2 > two") + "start -> work -> then -> exit";
    let ran = env.run(&graph("packs", &nodes), &[]).expect(0);
    for name in [&empty, &junk] {
        assert_eq!(
            ran.stderr.matches(&format!("`objects/pack/pack-{name}.idx` of the repository")).count(),
            1,
            "{ran}"
        );
    }
    let packs = env.repo_path().join(".git/objects/pack");
    let has = |name: &str| packs.join(format!("pack-{name}.idx")).exists();
    assert!(has(&whole) && !has(&empty) && !has(&junk), "{ran}");
    let said = env.program("git", &env.repo_path()).args(["log", "--oneline", "--all"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stderr), "", "git has nothing to say about it");
}
