//! Branches that change the same lines: a conflict is data, and the next node resolves it.

use serde_json::json;

use super::{fan, linked};
use crate::sessions::{graph, tool};
use crate::support::TestEnv;

/// Branches that write different things into `same.txt`, and a node after them.
fn clash(branches: &[&str], after: &str) -> String {
    let write = |id: &&str| tool(id, &format!("echo {id} > same.txt; echo {id} > {id}.txt"));
    let body = branches.iter().map(write).collect::<String>() + after;
    fan("clash", "", branches, &body)
}

#[test]
fn clean_merge() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt") + " join -> exit";
    let ran = env.run(&fan("clean", "", &["a", "b"], &body), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "a.txt", "b.txt"]);
    assert!(!ran.to_string().contains("conflict with branch"), "a clean merge is silent: {ran}");
    assert_eq!(env.value("parallel.merge_conflicts"), "");
    let parents = env.git(&["log", "-2", "--format=%p", &env.branch()]);
    assert!(parents.lines().all(|parents| parents.split(' ').count() == 2), "true merges: {parents}");
}

#[test]
fn merge_conflict_surfaced() {
    let env = TestEnv::with_repo();
    let resolve = tool("fix", "cat same.txt > seen.log; printf 'a and b\\n' > same.txt") + " join -> fix -> exit";
    let ran = env.run(&clash(&["a", "b"], &resolve), &[]).expect(0);
    let told = ran.stderr.lines().find(|line| line.contains("conflict")).expect("a line that tells of it");
    assert!(told.ends_with("conflict with branch b in `same.txt`"), "{ran}");
    assert_eq!(env.committed("same.txt"), "a and b");
    let seen = env.committed("seen.log");
    assert_eq!(seen, format!("<<<<<<< {}\na\n||||||| base\n=======\nb\n>>>>>>> b", env.branch()));
    let conflict = &env.all_in("main", "WorktreeMergeConflict")[0];
    assert_eq!((&conflict["context"], &conflict["paths"][0]["path"]), (&json!("b"), &json!("same.txt")));
    let path = &conflict["paths"][0];
    assert!(path.get("base").is_none() && path["ours"].is_string() && path["theirs"].is_string(), "{path}");
    // The fan-in says what is left to do, and the next node that nothing is.
    let ended = env.all_in("main", "NodeExecution").into_iter().find(|ended| ended["node_id"] == "join").unwrap();
    assert_eq!(ended["outcome"]["status"], "partial_success");
    assert_eq!(ended["outcome"]["context_updates"]["parallel.merge_conflicts"][0]["branch"], "b");
    assert_eq!(env.value("parallel.merge_conflicts"), "");
    // Both branches are in the history, each merged once.
    let merges = env.git(&["log", "--merges", "--format=%s", &env.branch()]);
    assert_eq!(merges, "Merge branch b\nMerge branch a");
    for context in ["a", "b"] {
        env.git(&["merge-base", "--is-ancestor", &env.branch_of(context), &env.branch()]);
    }
    assert_eq!(linked(&env).len(), 1, "resolved: their worktrees are gone");
}

#[test]
fn each_conflicting_branch_is_a_visit_of_the_next_node() {
    let env = TestEnv::with_repo();
    let resolve = tool("fix", "grep -v '^[<=>|]' same.txt > ok.txt; mv ok.txt same.txt") + " join -> fix -> exit";
    env.run(&clash(&["a", "b", "c"], &resolve), &[]).expect(0);
    assert_eq!(env.committed("same.txt"), "a\nb\nc");
    let visits = env.all_in("main", "NodeStarted").iter().filter(|node| node["node_id"] == "fix").count();
    assert_eq!(visits, 2);
}

#[test]
fn conflicting_branches_are_merged_last() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > same.txt") + &tool("b", "echo b > same.txt") + &tool("c", "echo c > c.txt");
    let after = tool("fix", "ls > seen.log; echo both > same.txt") + " join -> fix -> exit";
    env.run(&fan("last", "", &["a", "b", "c"], &(body + &after)), &[]).expect(0);
    assert!(env.committed("seen.log").contains("c.txt"), "what fits is there before the conflict is resolved");
}

#[test]
fn markers_that_are_left_fail_the_node() {
    let env = TestEnv::with_repo();
    let ran = env.run(&clash(&["a", "b"], &(tool("fix", "true") + " join -> fix -> exit")), &[]).expect(1);
    assert!(ran.stdout.contains("conflict markers are left in `same.txt`"), "{ran}");
    let kept = linked(&env);
    assert!(kept.iter().any(|path| path.ends_with("/b")), "worktree preserved on failure: {kept:?}");
    // Another node may do better with what was left.
    let env = TestEnv::with_repo();
    let more = tool("fix", "echo half >> same.txt")
        + &tool("mend", "grep -q half same.txt && echo done > same.txt")
        + " join -> fix\n fix -> mend [condition=\"outcome=fail\"]\n fix -> exit [condition=\"outcome=success\"]\n mend -> exit";
    env.run(&clash(&["a", "b"], &more), &[]).expect(0);
    assert_eq!(env.committed("same.txt"), "done");
}

#[test]
fn reaching_the_exit_with_a_conflict_fails_the_run() {
    let env = TestEnv::with_repo();
    let ran = env.run(&clash(&["a", "b"], " join -> exit"), &[]).expect(1);
    assert!(ran.stdout.contains("unresolved merge conflict") && ran.stdout.contains("`same.txt`"), "{ran}");
    assert_eq!(env.files(), ["README.md", "a.txt", "same.txt"]);
}

#[test]
fn a_person_resolves_a_conflict_at_a_gate() {
    let env = TestEnv::with_repo();
    let after = " look [shape=hexagon, label=\"Resolved?\"]\n join -> look\n look -> exit [label=Yes]";
    let dot = clash(&["a", "b"], after);
    env.run(&dot, &[]).expect(4);
    let file = env.worktree().join("same.txt");
    assert!(std::fs::read_to_string(&file).unwrap().contains("<<<<<<< "));
    std::fs::write(&file, "by hand\n").unwrap();
    env.resume(&["--answer", "look=Yes"]).expect(0);
    assert_eq!(env.committed("same.txt"), "by hand");
    let subjects = env.git(&["log", "-2", "--first-parent", "--format=%an: %s", &env.branch()]);
    assert_eq!(subjects, "pleach: Merge branch b\nlook (human): Resolve the conflict of b in same.txt");
}

#[test]
fn a_run_without_anything_that_resolves_is_warned_about() {
    let env = TestEnv::with_repo();
    let ran = env.run(&clash(&["a", "b"], " join -> exit"), &[]).expect(1);
    ran.warns("conflicts_resolved").naming("`exit`");
}

#[test]
fn an_agent_is_told_which_files_conflict() {
    let env = TestEnv::with_repo();
    env.script("model: m\nscripts:\n  - name: fix\n    when: {node: fix}\n    steps:\n      - tools: [{write_file: {file_path: same.txt, content: \"both\\n\"}}]\n      - text: done\n",
    );
    let dot = clash(&["a", "b"], " fix [prompt=\"Put it together\"]\n join -> fix -> exit");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("same.txt"), "both");
    let asked = env.pleach(&["show", "main.1", "--json"]).expect(0).stdout;
    assert!(asked.contains("Merging the work of branch `b` left conflicts") && asked.contains("same.txt"), "{asked}");
}

#[test]
fn commits_of_a_resolution_name_branch_and_files() {
    let env = TestEnv::with_repo();
    let steps = [
        "tools: [{read_file: {file_path: same.txt}}]",
        "tools: [{write_file: {file_path: same.txt, content: both}}]",
        "{text: I keep both greetings., tools: [{write_file: {file_path: same.txt, content: all}}]}",
        "text: done",
    ];
    let steps = steps.map(|step| format!("      - {step}\n")).concat();
    env.script(&format!("model: m\nscripts:\n  - name: fix\n    steps:\n{steps}"));
    env.run(&clash(&["a", "b"], " fix [prompt=\"Put it together\"]\n join -> fix -> exit"), &[]).expect(0);
    let subjects = env.git(&["log", "-4", "--first-parent", "--format=%s", &env.branch()]);
    let expected = [
        "Merge branch b",
        "Keep both greetings",
        "Resolve the conflict of b in same.txt",
        "Mark the conflict of b in same.txt",
    ];
    assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_conflict_without_a_fan_in_waits_at_the_join() {
    let env = TestEnv::with_repo();
    let body = " fork [shape=component]\n".to_owned()
        + &tool("a", "echo a > same.txt")
        + &tool("b", "echo b > same.txt")
        + &tool("review", "echo both > same.txt")
        + " start -> fork\n fork -> a -> review\n fork -> b -> review\n review -> exit";
    env.run(&graph("shared", &body), &[]).expect(0);
    assert_eq!(env.committed("same.txt"), "both");
}

#[test]
fn the_gate_runs_on_what_was_resolved() {
    let gated = |fixed: &str| {
        let after = tool("fix", &format!("echo {fixed} > same.txt; echo x > made.txt")) + " join -> fix -> exit";
        let gate = "test $(cat same.txt) = good && git diff --quiet HEAD && echo litter > litter.txt";
        clash(&["a", "b"], &after).replace("shape=tripleoctagon", &format!("shape=tripleoctagon, gate=\"{gate}\""))
    };
    let env = TestEnv::with_repo();
    env.run(&gated("good"), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "a.txt", "b.txt", "made.txt", "same.txt"], "what the gate writes is undone");
    let env = TestEnv::with_repo();
    let ran = env.run(&gated("bad"), &[]).expect(1);
    assert!(ran.stdout.contains("the gate failed"), "{ran}");
    assert!(env.all_in("main", "WorktreeMerged").iter().all(|merged| merged["context"] != "b"), "nothing was merged");
}

#[test]
fn a_conflict_stays_open_when_a_failed_run_resumes() {
    let env = TestEnv::with_repo();
    env.run(&clash(&["a", "b"], " join -> exit"), &[]).expect(1);
    let ran = env.resume(&[]).expect(1);
    assert!(ran.stdout.contains("unresolved merge conflict"), "{ran}");
    // A node that left markers starts again with them.
    let env = TestEnv::with_repo();
    let fix = tool("fix", "! test -e tried || echo both > same.txt; touch tried") + " join -> fix -> exit";
    env.run(&clash(&["a", "b"], &fix), &[]).expect(1);
    env.resume(&[]).expect(0);
    assert_eq!(env.committed("same.txt"), "both");
    env.git(&["merge-base", "--is-ancestor", &env.branch_of("b"), &env.branch()]);
}

#[test]
fn the_gate_runs_again_when_a_red_one_resumes() {
    let env = TestEnv::with_repo();
    let dot = clash(&["a", "b"], &(tool("fix", "echo both > same.txt") + " join -> fix -> exit"));
    let gate = "shape=tripleoctagon, gate=\"! grep -q both same.txt\"";
    env.run(&dot.replace("shape=tripleoctagon", gate), &[]).expect(1);
    let ran = env.resume(&[]).expect(1);
    assert!(ran.stdout.contains("the gate failed"), "{ran}");
}

#[test]
fn a_conflict_inside_a_branch_fails_it_unresolved() {
    let env = TestEnv::with_repo();
    let inner = "inner [shape=component]\n meet [shape=tripleoctagon]\n inner -> x -> meet\n inner -> y -> meet\n meet -> join\n";
    let tools = tool("x", "echo x > same.txt") + &tool("y", "echo y > same.txt") + &tool("b", "echo b > b.txt");
    let dot = format!(
        "fork [shape=component, error_policy=fail_fast]\n join [shape=tripleoctagon]\n {inner}{tools}
         start -> fork\n fork -> inner\n fork -> b -> join\n join -> exit"
    );
    let ran = env.run(&graph("nested", &dot), &[]).expect(1);
    assert!(ran.to_string().contains("unresolved merge conflict: branch `inner-y` in `same.txt`"), "{ran}");
}

#[test]
fn no_fan_out_starts_with_a_conflict_open() {
    let env = TestEnv::with_repo();
    let more = tool("x", "echo x > x.txt")
        + &tool("y", "echo y > y.txt")
        + &tool("fix", "echo both > same.txt")
        + " fork2 [shape=component]\n join2 [shape=tripleoctagon]\n join -> fork2\n fork2 -> x -> join2\n fork2 -> y -> join2\n join2 -> fix -> exit";
    let ran = env.run(&clash(&["a", "b"], &more), &[]).expect(1);
    assert!(ran.stdout.contains("unresolved merge conflict: branch `b`"), "{ran}");
}

/// A repository with a text of lines and a binary file, and branches that run these commands on it.
fn files(a: &str, b: &str, fix: &str) -> (TestEnv, String) {
    let env = TestEnv::with_repo();
    env.write("repo/big.txt", (0..30).map(|line| format!("{line}\n")).collect::<String>());
    std::fs::write(env.repo_path().join("bin"), b"\0base").unwrap();
    env.git(&["add", "."]);
    env.git(&["commit", "-qm", "files"]);
    let body = tool("a", a) + &tool("b", b) + &tool("fix", fix) + " join -> fix -> exit";
    (env, fan("files", "", &["a", "b"], &body))
}

#[test]
fn conflicts_without_markers_need_a_decision() {
    let write = |side: &str| format!("printf '\\\\0{side}' > bin");
    let (env, dot) = files(&write("a"), &write("b"), "ls");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains("are left in `bin.conflict`"), "{ran}");
    let (env, dot) = files(&write("a"), &write("b"), "cat bin.conflict > note.log; rm bin.conflict");
    env.run(&dot, &[]).expect(0);
    assert!(env.committed("note.log").contains("Both sides of a merge changed `bin`"));
    assert!(!env.files().contains(&"bin.conflict".to_owned()));
    // One removed the file the other changed.
    let (env, dot) = files("rm big.txt", "echo more >> big.txt", "true");
    env.run(&dot, &[]).expect(1);
    let (env, dot) = files("rm big.txt", "echo more >> big.txt", "rm big.txt.conflict");
    env.run(&dot, &[]).expect(0);
    assert!(env.committed("big.txt").ends_with("more"));
}

#[test]
fn markers_are_found_wherever_they_are_left() {
    let rename = |name: &str| format!("mv big.txt {name}.txt; sed -i s/^5$/{name}/ {name}.txt");
    let (env, dot) = files(&rename("g"), &rename("h"), "true");
    env.run(&dot, &[]).expect(1);
    let edit = |side: &str| format!("sed -i s/^5$/{side}/ big.txt");
    let (env, dot) = files(&edit("a"), &edit("b"), "mv big.txt other.txt");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains("are left in `other.txt`"), "{ran}");
    // What one side brought along is not left by anybody.
    let legit = "printf '<<<<<<< a\\\\n' > example.txt; ".to_owned() + &edit("b");
    let (env, dot) = files(&edit("a"), &legit, "echo resolved > big.txt");
    env.run(&dot, &[]).expect(0);
}

#[test]
fn an_early_answer_leaves_the_conflict_for_the_person() {
    let env = TestEnv::with_repo();
    let after = " look [shape=hexagon, label=\"Resolved?\"]\n join -> look\n look -> exit [label=Yes]\n look -> fork [label=Again]";
    let ran = env.run(&clash(&["a", "b"], after), &[]).expect(4);
    let place = env.worktree();
    assert!(ran.stdout.contains(&format!("in conflict: same.txt; resolve it in {}", place.display())), "{ran}");
    let before = env.git(&["rev-parse", &env.branch()]);
    env.resume(&["--answer", "look=Yes"]).expect(4).fails_with("conflicts-left").naming("`same.txt`");
    assert_eq!(env.git(&["rev-parse", &env.branch()]), before);
    std::fs::write(place.join("same.txt"), "by hand\n").unwrap();
    env.resume(&["--answer", "look=Yes"]).expect(0);
    assert_eq!(env.committed("same.txt"), "by hand");
    // To repeat the fan-out gives up what conflicts.
    let env = TestEnv::with_repo();
    env.run(&clash(&["a", "b"], after), &["--answer", "look=Again"]).expect(4);
    let forks = env.all_in("main", "ParallelStarted").len();
    assert_eq!((forks, env.pleach(&["status", &env.session(), "--json"]).json()["node"].clone()), (2, json!("look")));
}

/// Two branches that change one line, each another word of it.
fn two_words(env: &TestEnv, gate: &str) -> String {
    env.write(env.repo_path().join("call.txt"), "call(first)\n");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "-m", "a call"]);
    let edit = |id: &str, from: &str, to: &str| tool(id, &format!("sed -i s/{from}/{to}/ call.txt"));
    let body = edit("a", "call", "invoke") + &edit("b", "first", "second") + " join -> exit";
    fan("words", "", &["a", "b"], &body).replace("shape=tripleoctagon", &format!("shape=tripleoctagon{gate}"))
}

#[test]
fn words_are_merged_where_a_gate_tests_them() {
    let env = TestEnv::with_repo();
    let dot = two_words(&env, ", gate=\"grep -q 'invoke(second)' call.txt\"");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("call.txt"), "invoke(second)");
    let trailers = env.git(&["log", "-1", "--format=%(trailers:only,unfold)", &env.branch()]);
    assert!(trailers.contains("Pleach-Tier: tokens\nPleach-Resolved: call.txt#1=tokens"), "{trailers}");
    // Nobody would test them: a conflict as ever.
    let env = TestEnv::with_repo();
    let dot = two_words(&env, "");
    env.run(&dot, &[]).expect(1);
    let conflict = &env.all_in("main", "WorktreeMergeConflict")[0];
    assert_eq!((&conflict["paths"][0]["path"], &conflict["paths"][0]["kind"]), (&json!("call.txt"), &json!("content")));
    // A red gate leaves everything where it was.
    let env = TestEnv::with_repo();
    let dot = two_words(&env, ", gate=\"grep -q 'call(first)' call.txt\"");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains("the gate failed"), "{ran}");
    assert_eq!((env.committed("call.txt").as_str(), linked(&env).len()), ("call(first)", 3));
}
