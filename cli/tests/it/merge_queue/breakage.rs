//! Merges that git makes without a conflict and that break the code: none of them lands.

use serde_json::json;

use super::{Queue, names};

/// Two branches that are fine each for itself. The second of them must not land.
#[track_caller]
fn never_lands(test: &str, base: &[(&str, &str)], one: &[(&str, &str)], other: &[(&str, &str)]) -> Queue {
    let queue = Queue::tested(test);
    for (path, content) in base {
        queue.env.write(format!("repo/{path}"), content);
    }
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-q", "--allow-empty", "-m", "Base"]);
    for (name, files) in [("one", one), ("other", other)] {
        queue.branch(name, files);
        queue.enqueue(name);
    }
    let done = queue.process(1);
    assert_eq!((names(&done["landed"]), names(&done["open"])), (vec!["one"], vec!["other"]));
    assert_eq!(queue.why("other")["verdict"], json!({"is": "fail", "exit": "exit 1", "semantic": true}));
    queue
}

/// Every function that is called is defined, once, in files of shell functions.
const CALLS: &str = r#"for f in $(grep -ho 'call [a-z]*' call*.sh | cut -d' ' -f2); do test "$(grep -c "^$f()" defs.sh)" = 1 || exit 1; done; test -z "$(sort defs.sh | grep '()' | uniq -d)" || exit 1"#;

#[test]
fn a_renamed_function_and_a_new_caller() {
    never_lands(CALLS, &[("defs.sh", "old()\n")], &[("defs.sh", "new()\n")], &[("caller.sh", "call old\n")]);
}

#[test]
fn a_type_changed_on_one_side() {
    let test = "grep -qx 'type=text' types.sh && want=quoted || want=number; ! ls use-*.sh 2>/dev/null | grep -q . || grep -q $want use-*.sh || exit 1";
    never_lands(test, &[("types.sh", "type=number\n")], &[("types.sh", "type=text\n")], &[("use-a.sh", "number\n")]);
}

#[test]
fn a_duplicate_symbol() {
    let test = "test -z \"$(cat part-*.sh | grep '()' | sort | uniq -d)\" || exit 1";
    never_lands(test, &[("part-a.sh", "a()\n")], &[("part-b.sh", "same()\n")], &[("part-c.sh", "same()\n")]);
}

#[test]
fn a_limit_exceeded_only_by_the_sum() {
    let test = "test $(cat size-* | wc -c) -le 30 || exit 1";
    let twelve = "0123456789a\n";
    never_lands(test, &[("size-0", twelve)], &[("size-1", twelve)], &[("size-2", twelve)]);
}

#[test]
fn a_lost_import() {
    let test = "for u in $(grep -ho 'use [a-z]*' code-*.sh | cut -d' ' -f2); do grep -qx \"import $u\" imports.sh || exit 1; done";
    let base = [("imports.sh", "import a\nimport b\n"), ("code-a.sh", "use a\n")];
    never_lands(test, &base, &[("imports.sh", "import a\n")], &[("code-b.sh", "use b\n")]);
}

/// The same two branches, with an agent that knows how to repair what they come to.
#[track_caller]
fn is_repaired(test: &str, base: &[(&str, &str)], one: &[(&str, &str)], other: &[(&str, &str)], repair: &str) {
    let queue = Queue::with(&format!("agent: 'command:sh agent.sh'\nmerge: {{test_command: {test:?}, slots: 2}}\n"));
    let script = format!("case $(cat) in *'conflict'*'tests'*) ;; *) exit 1 ;; esac\n{repair}\n");
    for (path, content) in base.iter().copied().chain([("agent.sh", &*script)]) {
        queue.env.write(format!("repo/{path}"), content);
    }
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Base"]);
    for (name, files) in [("one", one), ("other", other)] {
        queue.branch(name, files);
        queue.enqueue(name);
    }
    let done = queue.process(0);
    assert_eq!((names(&done["landed"]), &done["landed"][1]["tier"]), (vec!["one", "other"], &json!("agent")));
    let subjects = queue.env.git(&["log", "-2", "--format=%s", "main"]);
    assert_eq!(subjects, "repair: other\nmerge: other", "the repair is a commit of its own");
}

#[test]
fn a_renamed_functions_caller_is_repaired_in_both_orders() {
    let repair = "sed -i 's/call old/call new/' caller.sh";
    let (renamed, called) = ([("defs.sh", "new()\n")], [("caller.sh", "call old\n")]);
    is_repaired(CALLS, &[("defs.sh", "old()\n")], &renamed, &called, repair);
    is_repaired(CALLS, &[("defs.sh", "old()\n")], &called, &renamed, repair);
}

#[test]
fn an_agent_repairs_a_lost_import() {
    let test = "for u in $(grep -ho 'use [a-z]*' code-*.sh | cut -d' ' -f2); do grep -qx \"import $u\" imports.sh || exit 1; done";
    let base = [("imports.sh", "import a\nimport b\n"), ("code-a.sh", "use a\n")];
    is_repaired(
        test,
        &base,
        &[("imports.sh", "import a\n")],
        &[("code-b.sh", "use b\n")],
        "echo 'import b' >> imports.sh",
    );
}
