//! Conflicts of fan-ins that a command or a program resolves, where a gate tests the result.

use super::{fan, linked};
use crate::sessions::tool;
use crate::support::TestEnv;

/// Two branches that each bring a part, and write all parts they know of into a file that a command makes.
fn parts(env: &TestEnv, command: &str, gate: &str) -> String {
    env.configure(&format!("merge: {{derived: [{{paths: ['*.lock'], command: '{command}'}}]}}\n"));
    env.write(env.repo_path().join("part-0"), "0\n");
    env.write(env.repo_path().join("all.lock"), "0\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "parts"]);
    let part = |id: &str| tool(id, &format!("echo {id} > part-{id}; cat part-* > all.lock"));
    let body = part("a") + &part("b") + " join -> exit";
    fan("parts", "", &["a", "b"], &body).replace("shape=tripleoctagon", &format!("shape=tripleoctagon{gate}"))
}

const MAKES: &str = "cat part-* > all.lock";

#[test]
fn derived_files_are_made_again_at_a_join() {
    let env = TestEnv::with_repo();
    env.run(&parts(&env, MAKES, ", gate=\"grep -q a all.lock && grep -q b all.lock\""), &[]).expect(0);
    assert_eq!(env.committed("all.lock"), "0\na\nb");
    let trailers = env.git(&["log", "-1", "--format=%(trailers:only,unfold)", &env.branch()]);
    assert!(trailers.contains("Pleach-Tier: derived\nPleach-Resolved: all.lock#0=derived"), "{trailers}");
    let parents = env.git(&["log", "-1", "--format=%p", &env.branch()]);
    assert_eq!(parents.split(' ').count(), 2, "a true merge: {parents}");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep/"]), "", "nothing was left over");
    // Without a gate nobody would test them.
    let env = TestEnv::with_repo();
    let ran = env.run(&parts(&env, MAKES, ""), &[]).expect(1);
    assert!(ran.stdout.contains("unresolved merge conflict") && ran.stdout.contains("`all.lock`"), "{ran}");
}

#[test]
fn only_derived_files_are_taken_from_the_command() {
    let env = TestEnv::with_repo();
    let dot = parts(&env, "cat part-* > all.lock; echo litter > litter.txt", ", gate=\"! test -e litter.txt\"");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "all.lock", "part-0", "part-a", "part-b"]);
}

#[test]
fn a_failing_command_of_derived_files_fails_the_join() {
    let env = TestEnv::with_repo();
    let dot = parts(&env, "echo no such crate; exit 3", ", gate=true");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains("which makes derived files, failed: exit 3: no such crate"), "{ran}");
    assert_eq!((env.committed("all.lock").as_str(), linked(&env).len()), ("0", 3), "everything is where it was");
}

#[test]
fn a_program_merges_by_structure_at_a_join() {
    let env = TestEnv::with_repo();
    env.write(env.repo_path().join("n.rs"), "n(1)\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "a call"]);
    env.write_program("bin/mergiraf", "#!/bin/sh\nprintf 'n(1, 2, 3)\\n' > \"$4\"\n");
    let body = tool("a", "echo 'n(1, 2)' > n.rs") + &tool("b", "echo 'n(1, 3)' > n.rs") + " join -> exit";
    let gate = "shape=tripleoctagon, gate=\"grep -q 3 n.rs\"";
    env.run(&fan("numbers", "", &["a", "b"], &body).replace("shape=tripleoctagon", gate), &[]).expect(0);
    assert_eq!(env.committed("n.rs"), "n(1, 2, 3)");
    let trailers = env.git(&["log", "-1", "--format=%(trailers:only,unfold)", &env.branch()]);
    assert!(trailers.contains("Pleach-Tier: structural\nPleach-Resolved: n.rs#1=structural"), "{trailers}");
}
