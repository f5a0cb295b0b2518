//! What an agent forges of what pleach keeps about its worktree, so that changes are not seen: pleach believes only
//! what no agent can write.

use std::fs;
use std::path::PathBuf;

use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree};

/// Says that the setup has made `test.sh` pass, wherever that could be said, and lists what it could not be.
const FORGE: &str = "A=$(git rev-parse --absolute-git-dir); C=$(git rev-parse --path-format=absolute --git-common-dir); \
    printf '100644:%s 100644:%s test.sh\\0-  - ../x\\0- - .git/x\\0' \
    $(git rev-parse HEAD:test.sh) $(echo 'exit 0' | git hash-object -w --stdin) > \"$A/pleach-set-up\"; \
    for f in set-up held-back index sparse-checkout; do cp \"$A/pleach-set-up\" \"$A/$f.forged\"; \
    cp \"$A/pleach-set-up\" \"$C/pleach/worktrees/$(basename \"$A\")/$f\" 2> /dev/null; done; \
    printf '/*\\n# pleach leaves out\\n!/test.sh\\n' > \"$A/info/sparse-checkout\" || { mkdir -p \"$A/info\"; \
    printf '/*\\n# pleach leaves out\\n!/test.sh\\n' > \"$A/info/sparse-checkout\"; }";

/// What tests: it passes with the right code alone.
const TEST: &str = "! grep -q wrong *.txt\n";

fn world() -> TestEnv {
    let env = TestEnv::with_repo();
    env.write("repo/test.sh", TEST);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A test"]);
    env
}

#[test]
fn a_forged_setup_hides_no_change_of_the_next_task() {
    let garden = Garden::new(
        &Tree::of(&["T001", "T002: T001"]).tests("T001", &["unit: sh test.sh"]).tests("T002", &["unit: sh test.sh"]),
    );
    garden.commit("test.sh", TEST);
    let cheat = "echo 'exit 0' > test.sh; echo wrong > T002.txt";
    garden.agent(
        &format!("case $task in T001) {FORGE}; echo right > T001.txt ;; *) {cheat} ;; esac; echo Done."),
        APPROVES,
    );
    garden.garden(&[]).expect(0);
    let ran = garden.garden(&[]).expect(0);
    assert_eq!(garden.env.git(&["show", "main:T002.txt"]), "wrong", "{ran}");
    assert_eq!(garden.env.git(&["show", "main:test.sh"]), "exit 0", "what made the tests pass is in the commit: {ran}");
}

#[test]
fn a_forged_setup_hides_no_change_after_a_gate() {
    let gate = " ask [shape=hexagon, label=\"Go on?\"]\n";
    let edges = "start -> forge -> ask; ask -> look [label=\"Yes\"]; ask -> exit [label=\"No\"]; look -> work -> exit";
    let look = tool("look", "echo 'exit 0' > test.sh").replace("[shape", "[write=false, shape");
    let env = world();
    let work = tool("work", "cat test.sh > seen; echo 'exit 0' > test.sh");
    let ran = env
        .run(&graph("gated", &(tool("forge", &format!("{FORGE}; echo 1 > one")) + gate + &look + &work + edges)), &[]);
    let ran = ran.expect(4);
    assert!(env.files().contains(&"one".to_owned()), "{ran}");
    let ran = env.resume(&["--answer", "ask=Yes"]).expect(0);
    assert_eq!(env.committed("seen"), TEST.trim_end(), "what must not be written was undone: {ran}");
    assert_eq!(env.committed("test.sh"), "exit 0", "{ran}");
}

/// The worktree's own git directory.
fn admin(env: &TestEnv) -> PathBuf {
    PathBuf::from(env.git_in(&env.worktree(), &["rev-parse", "--absolute-git-dir"]))
}

#[test]
fn a_forged_index_hides_no_change_over_a_kill() {
    let env = world();
    let gate = Gate::new(&env, "held");
    let mut run = env.start(&graph("index", &(tool("work", &gate.command()) + "start -> work -> exit")), &[]);
    let held = gate.reached(&mut run);
    // As an agent does it: what git knows of the changed file, under the id of the one that was.
    let (worktree, admin) = (env.worktree(), admin(&env));
    let old = env.git(&["rev-parse", "main:test.sh"]);
    fs::write(worktree.join("test.sh"), "exit 0\n").unwrap();
    let touched = env.program("touch", &worktree).args(["-d", "1 hour ago", "test.sh"]).status();
    assert!(touched.expect("touch can be started").success());
    env.git_in(&worktree, &["add", "test.sh"]);
    let new = env.git_in(&worktree, &["rev-parse", ":test.sh"]);
    let bytes = |id: &str| (0..20).map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).unwrap()).collect::<Vec<u8>>();
    let mut index = fs::read(admin.join("index")).unwrap();
    let place = index.windows(20).position(|part| part == bytes(&new)).expect("the entry");
    index[place..place + 20].copy_from_slice(&bytes(&old));
    let end = index.len() - 20;
    index[end..].fill(0);
    fs::write(admin.join("index"), index).unwrap();
    assert_eq!(env.git_in(&worktree, &["status", "--porcelain"]), "", "git believes it");
    run.kill(held);
    gate.stay_open();
    let ran = env.resume(&[]).expect(0);
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(env.git(&["show", &format!("{kept}:test.sh")]), "exit 0", "{ran}");
    assert_eq!(fs::read_to_string(worktree.join("test.sh")).unwrap(), TEST, "{ran}");
}

#[test]
fn worktree_metadata_is_removed_with_it() {
    let env = world();
    env.configure("worktrees: {setup: 'echo s > made'}\n");
    env.run(&graph("one", &(tool("work", "echo 1 > one") + "start -> work -> exit")), &[]).expect(0);
    let noted = env.repo_path().join(".git/pleach/worktrees");
    assert_eq!(fs::read_dir(&noted).unwrap().count(), 1);
    assert!(
        fs::read_dir(admin(&env)).unwrap().all(|file| !file.unwrap().file_name().to_string_lossy().contains("pleach"))
    );
    env.git(&["merge", "--quiet", &env.branch()]);
    env.pleach(&["rm", &env.session()]).expect(0);
    assert_eq!(fs::read_dir(&noted).unwrap().count(), 0);
}
