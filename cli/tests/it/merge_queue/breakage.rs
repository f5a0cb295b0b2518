//! Merges that break the code, made without a conflict by git, by structure or word by word: none of them lands.

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

#[test]
fn a_structural_merge_keeps_what_the_target_has_added() {
    let queue = Queue::tested("grep -q 'fn a' code.rs || exit 1");
    let new: String = (1..=14).map(|line| format!("    new_{line}();\n")).collect();
    let code = |a: &str, moved: bool| {
        let (a, b) = (format!("fn a() {{\n    one();\n{a}}}\n"), "fn b() {\n    two();\n}\n");
        if moved { format!("{b}\n{a}") } else { format!("{a}\n{b}") }
    };
    queue.env.write("repo/code.rs", code("", false));
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Code"]);
    for (name, code) in [("longer", code(&new, false)), ("moved", code("", true))] {
        queue.branch(name, &[("code.rs", &code)]);
        queue.enqueue(name);
    }
    let program = |text: &str| {
        let merged = queue.env.write("merged.rs", text);
        queue.env.write_program("bin/mergiraf", &format!("#!/bin/sh\ncp '{}' \"$4\"\n", merged.display()));
    };
    // The function is gone from its place, and what was added to it is nowhere.
    program(&code("", true));
    assert_eq!(names(&queue.process(5)["landed"]), ["longer"]);
    assert_eq!(
        (queue.state("moved").as_str(), queue.landed("code.rs").unwrap()),
        ("escalated", code(&new, false).trim().to_owned())
    );
    program(&code(&new, true));
    queue.env.pleach(&["merge", "retry", "moved"]).expect(0);
    assert_eq!(names(&queue.process(0)["landed"]), ["moved"]);
    assert_eq!(queue.landed("code.rs").unwrap(), code(&new, true).trim());
    assert_eq!(
        queue.env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Resolved,valueonly)"]),
        "code.rs#0=structural"
    );
}

#[test]
fn merging_by_words_invents_nothing() {
    let queue = Queue::with("merge: {test_command: 'true', untested_files: allow, slots: 2}\n");
    let element = "<A b={<C />} />\n";
    let [base, one] = [("2.14.0", element, "call(a)\n"), ("2.14.1", "<A b={<C />} d={<E />} />\n", "call(a, b)\n")]
        .map(|(version, element, call)| {
            [("version.txt", format!("version {version}\n")), ("view.jsx", element.into())]
                .into_iter()
                .chain(["records.jsonl", "all.lock"].map(|path| (path, call.to_owned())))
                .collect::<Vec<_>>()
        });
    let branch = |name: &str, files: &[(&str, String)]| {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        queue.branch(name, &files);
        queue.enqueue(name);
    };
    branch("base", &base);
    queue.process(0);
    branch("one", &one);
    let others = [
        ("version.txt", "version 2.15.0\n"),
        ("view.jsx", "<A2 b={<C />} />\n<F g={<H />} />\n"),
        ("records.jsonl", "invoke(a)\n"),
        ("all.lock", "invoke(a)\n"),
    ];
    let name = |path: &str| path.replace('.', "-");
    for (path, text) in others {
        branch(&name(path), &[(path, text.into())]);
    }
    assert_eq!(names(&queue.process(5)["landed"]), ["one"]);
    for ((path, text), _) in one.iter().zip(others) {
        assert_eq!(
            (queue.state(&name(path)).as_str(), queue.landed(path).unwrap()),
            ("escalated", text.trim().to_owned())
        );
    }
}
