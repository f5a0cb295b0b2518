use proptest::prelude::*;

use super::*;
use crate::ids::TaskId;

fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn tree(text: &str) -> TaskTree {
    read(&files(&[("tasks.md", text)])).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn errors(given: &[(&str, &str)]) -> String {
    let errors = read(&files(given)).expect_err("a mistake");
    errors.iter().map(SpecError::to_string).collect::<Vec<_>>().join("\n")
}

fn warnings(text: &str) -> String {
    let found = super::warnings(&files(&[("tasks.md", text)]));
    found.iter().map(SpecError::to_string).collect::<Vec<_>>().join("\n")
}

fn ids(ids: &[TaskId]) -> String {
    ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(",")
}

/// Each node in a line: id, parent, what it depends on, name.
fn shown(tree: &TaskTree) -> String {
    let line = |node: &crate::plan::tree::TaskNode| {
        let parent = node.parent.as_ref().map_or("-", TaskId::as_str);
        format!("{} {parent} [{}] {}", node.id, ids(&node.depends_on), node.name)
    };
    tree.nodes().map(line).collect::<Vec<_>>().join("\n")
}

fn order(tree: &TaskTree) -> String {
    tree.order().iter().map(TaskId::as_str).collect::<Vec<_>>().join(" ")
}

const THREE: &str = "- [ ] A1 a\n- [ ] B1 b\n- [ ] C1 c\n\n## Dependencies\n\n";

#[test]
fn phases_groups_and_tasks_become_a_tree() {
    let tree = tree(
        "# Tasks: shop\n\nSome words.\n\n## Phase 1: Database Layer\nPersistence.\n\n- [ ] T001 Create schema\n\
         - [ ] T002 [P] Write `migrations.sql`\n\n### Seeds ###\n\n- [ ] T003 [P] [US1] Seed users\n#### Deeper\n\
         * [ ] T004: Seed orders\n### Beside\n- [ ] **T005** Index\n\n---\n\n## Phase 2 — API\n- [ ] T006 Endpoints\n\
         ## Notes\n- [ ] look at this later\n- [ ] T007 Release\n",
    );
    insta::assert_snapshot!(shown(&tree), @r"
    phase1 - [] Database Layer
    T001 phase1 [] Create schema
    T002 phase1 [] Write `migrations.sql`
    group1 phase1 [] Seeds
    T003 group1 [] [US1] Seed users
    group2 group1 [] Deeper
    T004 group2 [] Seed orders
    group3 phase1 [] Beside
    T005 group3 [] Index
    phase2 - [] API
    T006 phase2 [] Endpoints
    T007 - [] Release
    ");
    assert_eq!(order(&tree), "T001 T002 T003 T004 T005 T006 T007");
    let schema = tree.node(&TaskId::new("T001").unwrap()).unwrap();
    assert_eq!((schema.source_file.as_deref(), schema.source_line), (Some("tasks.md"), Some(8)));
    assert_eq!(tree.spec_files(), ["tasks.md"]);
    assert_eq!(TaskTree::read(&tree.write()).unwrap(), tree);
}

#[test]
fn the_arrow_means_before_and_the_ascii_arrow_depends() {
    let arrow = tree(&format!("{THREE}A1 → B1, C1"));
    assert_eq!(shown(&arrow), "A1 - [] a\nB1 - [A1] b\nC1 - [A1] c");
    let ascii = tree(&format!("{THREE}A1 -> B1, C1"));
    assert_eq!(shown(&ascii), "A1 - [B1,C1] a\nB1 - [] b\nC1 - [] c");
    assert_eq!((order(&arrow), order(&ascii)), ("A1 B1 C1".into(), "B1 C1 A1".into()));
}

#[test]
fn arrows_chain_and_take_lists_on_both_sides() {
    assert_eq!(shown(&tree(&format!("{THREE}A1 → B1 → C1"))), "A1 - [] a\nB1 - [A1] b\nC1 - [B1] c");
    assert_eq!(shown(&tree(&format!("{THREE}- `C1` -> **B1** -> A1\n"))), "A1 - [] a\nB1 - [A1] b\nC1 - [B1] c");
    let both = tree(&format!("{THREE}A1, B1 → C1  # both first\nA1 → C1 # said twice\n"));
    assert_eq!(shown(&both), "A1 - [] a\nB1 - [] b\nC1 - [A1,B1] c");
}

#[test]
fn every_task_of_a_phase_waits_for_another_phase() {
    let text = "## Phase 1: One\n- [ ] T1 a\n- [ ] T2 b\n## Phase 2: Two\n### G\n- [ ] T3 c\n- [ ] T4 d\n\
                ## Dependencies\n```\nPhase 2 → Phase 1\n\nWithin Phase 1:\nT2 → T1\n```\n---\nT4 → group1x, T1\n";
    assert_eq!(errors(&[("t.md", text)]), "t.md:16: the spec has no task, phase or group `group1x`");
    let tree = tree(&text.replace("group1x, ", ""));
    assert_eq!(order(&tree), "T3 T4 T2 T1");
    for leaf in ["T1", "T2"] {
        let leaf = TaskId::new(leaf).unwrap();
        let on = tree.dependencies(&leaf).into_iter().flat_map(|on| tree.leaves_below(on));
        let on: std::collections::BTreeSet<_> = on.map(TaskId::as_str).collect();
        assert!(on.is_superset(&["T3", "T4"].into()), "{leaf} {on:?}");
    }
}

#[test]
fn finished_tasks_are_left_out_with_all_that_names_them() {
    let tree = tree(
        "## Phase 1: Done\n- [x] T1 a\n- [X] T2 b\n### Also done\n- [x] T3 c\n## Phase 2: Open\n### Here\n- [ ] T4 d\n\
         ## Dependencies\nPhase 1 → Phase 2\nT3 → T4\nT4 → T1\ngroup1 → T4\n",
    );
    assert_eq!(shown(&tree), "phase2 - [] Open\ngroup2 phase2 [] Here\nT4 group2 [] d");
}

#[test]
fn code_fences_and_comments_are_ignored() {
    let tree = tree(
        "## Phase 1: One\n```markdown\n## Phase 9: Not this\n- [ ] T9 nor this\n~~~\n```\n<!-- - [ ] T8 no -->\n<!--\n\
         - [ ] T7 no\n-->\n~~~~\n```\n- [ ] T6 no\n~~~\n~~~~\n- [ ] T1 yes\n```inline``` words\n- [ ] T2 yes\n",
    );
    assert_eq!(shown(&tree), "phase1 - [] One\nT1 phase1 [] yes\nT2 phase1 [] yes");
    let open = "## Phase 1: One\n- [ ] T1 a\n```\n- [ ] T2 b\n";
    insta::assert_snapshot!(errors(&[("t.md", open)]),
        @"t.md:3: unclosed code fence; everything below it is ignored");
}

#[test]
fn indented_text_below_a_task_describes_it() {
    let tree = tree(
        "## Phase 1: One\r\n- [ ] T1 Parser\r\n  Reads the file:\r\n\r\n  - keep spans\r\n    - [ ] nested note\r\n  ```\r\n  \
         - [ ] T9 code\r\n  ```\r\n\r\nProse of the phase.\r\n  not T1's any more\r\n- [ ] T2 Printer\r\n\t- [ ] T3 Below\r\n",
    );
    assert_eq!(shown(&tree), "phase1 - [] One\nT1 phase1 [] Parser\nT2 phase1 [] Printer\nT3 phase1 [] Below");
    let parser = tree.nodes().nth(1).unwrap();
    let expected = "Reads the file:\n\n- keep spans\n  - [ ] nested note\n```\n- [ ] T9 code\n```";
    assert_eq!(parser.description, expected);
    assert!(tree.nodes().skip(2).all(|node| node.description.is_empty()));
}

#[test]
fn numbered_boxes_and_ids_right_behind_a_box_are_tasks() {
    let text = "## Phase 1: One\n1. [ ] T1 a\n   of T1\n2) [ ] T2 b\n10. [x] T3 c\n- [ ]T4 d\n* [ ]**T5**: e\n- [x]T6 f\n\
                - []byte8 is a type\n- [x](T7) a link\n- [ ](T8) another\n- [x][T9] and one more\n1. no box\n";
    let read = tree(text);
    assert_eq!(shown(&read), "phase1 - [] One\nT1 phase1 [] a\nT2 phase1 [] b\nT4 phase1 [] d\nT5 phase1 [] e");
    assert_eq!(read.nodes().nth(1).unwrap().description, "of T1");
    insta::assert_snapshot!(errors(&[("t.md", "## Phase 1: One\n3. [ ] Title\n- [ ]Title\n1. [ ] T1 a\n- [ ] T1 b\n")]), @"t.md:5: `T1` is already defined at t.md:4; give one of them another id");
}

#[test]
fn text_after_a_nested_task_belongs_to_its_parent() {
    let described = |text: &str| {
        let tree = tree(&format!("## Phase 1: One\n{text}"));
        let tasks = tree.nodes().filter(|node| node.is_leaf());
        tasks.map(|node| format!("{}={}", node.id, node.description)).collect::<Vec<_>>().join("|")
    };
    assert_eq!(described("- [ ] T1 a\n  - [ ] T2 b\n    of T2\n  more of T1\n"), "T1=more of T1|T2=of T2");
    assert_eq!(
        described("- [ ] T1 a\n  of T1\n  - [ ] T2 b\n    of T2\n\n  more of T1\n    - still\nprose\n  of nobody\n"),
        "T1=of T1\n\nmore of T1\n  - still|T2=of T2"
    );
    assert_eq!(described("- [ ] T1 a\n  - [x] T2 b\n    of T2\n  more of T1\n"), "T1=more of T1");
    // A fence is of one task as a whole, however its lines are indented.
    assert_eq!(
        described("- [ ] T1 a\n  - [ ] T2 b\n    ```\n    of T2\n    ```\n  ```\n      of T1\n\n  ```\n"),
        "T1=```\n    of T1\n\n```|T2=```\nof T2\n```"
    );
    assert_eq!(described("- [ ] T1 a\n  - [ ] T2 b\n    ```\n    of T2\n   ```\n"), "T1=|T2= ```\n of T2\n```");
    // One that is beside tasks is no note of the task above them.
    assert_eq!(
        described("- [ ] T1 a\n  - [ ] T2 b\n  - [ ] no id\n- [x] T3 c\n  - [ ] no id\n"),
        "T1=|T2=|T001=|T002="
    );
}

#[test]
fn tasks_without_an_id_are_given_one_in_order() {
    let plain = "# Shop\r\n- [ ] Add a login form\r\n  - [ ] with a box\r\n- [x] Add a page\r\n* [ ]Log out (depends on T001)\r\n\
                 ## Later\n1. [ ] [P] Pay";
    let read = tree(plain);
    assert_eq!(shown(&read), "T001 - [] Add a login form\nT003 - [T001] Log out (depends on T001)\nT004 - [] Pay");
    let given = given_ids(&files(&[("tasks.md", plain)]));
    let lines: Vec<String> = given.iter().map(|given| format!("{}:{}", given.line, given.id)).collect();
    assert_eq!(lines, ["2:T001", "4:T002", "5:T003", "7:T004"], "what is ticked off renames nothing");
    let written = with_ids("tasks.md", plain, &given);
    assert_eq!(
        written,
        "# Shop\r\n- [ ] T001 Add a login form\r\n  - [ ] with a box\r\n- [x] T002 Add a page\r\n\
         * [ ] T003 Log out (depends on T001)\r\n## Later\n1. [ ] T004 [P] Pay"
    );
    assert_eq!(tree(&written), read);
    assert_eq!(given_ids(&files(&[("tasks.md", &written)])), []);
    // Others have theirs already.
    let mixed = tree("## Phase 1: One\n- [ ] T002 b\n- [ ] a\n### G\n- [ ] T/3 c\n");
    assert_eq!(
        shown(&mixed),
        "phase1 - [] One\nT002 phase1 [] b\nT001 phase1 [] a\ngroup1 phase1 [] G\nT003 group1 [] T/3 c"
    );
}

#[test]
fn titles_may_say_what_their_tasks_depend_on() {
    let text = "## Phase 1: One\n- [ ] T1 a\n- [ ] T2 b (depends on T1)\n## Phase 2: Two\n\
                - [ ] T3 c [Depends on: phase 1, T1 and T2]\n- [ ] T4 d (depends on T9) for you\n- [ ] T5 e needs T1, after T2\n\
                - [ ] T6 look after the rest\n- [ ] T7 f (depends on the API)\n- [ ] T8 after T1\n## Dependencies\nT1 → T8\n";
    let on = |id: &str| ids(&tree(text).node(&TaskId::new(id).unwrap()).unwrap().depends_on);
    assert_eq!(["T2", "T3", "T4", "T5", "T8"].map(on), ["T1", "phase1,T1,T2", "", "", "T1"]);
    insta::assert_snapshot!(warnings(text), @r"
    tasks.md:6: `(depends on T9)` is not read as a dependency: the spec has no task, phase or group `T9`; write ids, as in `(depends on T001)`
    tasks.md:7: `needs T1` is not read as a dependency; write `T1 → T5` below `## Dependencies` to make it one
    tasks.md:9: `(depends on the API)` is not read as a dependency: the spec has no task, phase or group `the API`; write ids, as in `(depends on T001)`
    ");
    assert_eq!(errors(&[("t.md", "- [ ] T1 a (depends on T1)\n")]), "t.md:1: `T1`: it cannot depend on itself");
}

#[test]
fn arrows_that_may_be_misread_are_reported() {
    insta::assert_snapshot!(warnings(&format!("{THREE}A1 -> B1, C1 # both\nB1 -> C1\n")), @"tasks.md:7: `A1 -> B1, C1` lets its left side depend on its right side; `B1, C1 → A1` says the same");
    insta::assert_snapshot!(warnings(&format!("{THREE}A1 → B1\nC1 -> A1\n")), @"tasks.md:8: `C1 -> A1` lets its left side depend on its right side, and `→` in line 7 means the opposite; write `A1 → C1`");
    assert_eq!(warnings(&format!("{THREE}A1 → B1 # -> C1\n")), "");
}

#[test]
fn a_checklist_beside_tasks_with_ids_is_reported() {
    let text = "- [ ] a checklist, not ours\n- [x] done\n## Phase 1: One\n- [ ] T1 a\n";
    assert_eq!(shown(&tree(text)), "phase1 - [] One\nT1 phase1 [] a");
    insta::assert_snapshot!(warnings(text), @"tasks.md:1: `a checklist, not ours` is not read as a task: it has no id and is in no phase, and others have one (`T1` at tasks.md:4); write an id before it to make it one");
}

#[test]
fn several_files_are_read_by_name_as_one() {
    let one = ("b.md", "## Phase 2: Two\n### G\n- [ ] T2 b\n");
    let two = ("a.md", "## Phase 1: One\n### G\n- [ ] T1 a\n## Dependencies\nT2 → T1\n");
    let tree = read(&files(&[one, two])).unwrap();
    insta::assert_snapshot!(shown(&tree), @r"
    phase1 - [] One
    group1 phase1 [] G
    T1 group1 [T2] a
    phase2 - [] Two
    group2 phase2 [] G
    T2 group2 [] b
    ");
    assert_eq!(tree.spec_files(), ["a.md", "b.md"]);
}

#[test]
fn duplicate_ids_are_reported_with_both_places() {
    let one = "## Phase 1: One\n- [ ] T1 a\n- [x] T2 b\n- [ ] T1 again\n";
    let two = "## Phase 1: One more\n- [ ] T2 b\n- [ ] phase1 c\n";
    insta::assert_snapshot!(errors(&[("a.md", one), ("b.md", two)]), @r"
    a.md:4: `T1` is already defined at a.md:2; give one of them another id
    b.md:1: `phase1` is already defined at a.md:1; give one of them another id
    b.md:2: `T2` is already defined at a.md:3; give one of them another id
    b.md:3: `phase1` is already defined at a.md:1; give one of them another id
    ");
}

#[test]
fn an_invalid_dependency_line_is_an_error_with_location() {
    let lines = "A1 before B1\nA1 → \nA1 → B1 -> C1\nA1 → B1 and C1\nPhase 7 → A1\nA1 → A1\nB1 → C1\nC1 → B1\n\n### Notes\n- just a note";
    insta::assert_snapshot!(errors(&[("t.md", &format!("{THREE}{lines}"))]), @r"
    t.md:7: `A1 before B1` is not a dependency; write `A → B, C` to put A before B and C
    t.md:8: missing name next to an arrow or a comma
    t.md:9: `→` and `->` in one line: `A → B` puts A before B, `A -> B` lets A depend on B
    t.md:10: `B1 and C1` is neither a task nor a phase: write `T001`, `Phase 1` or the like, with commas between
    t.md:11: the spec has no task, phase or group `phase7`
    t.md:12: `A1`: it cannot depend on itself
    t.md:14: `B1`: dependency cycle: `B1` depends on `C1`, `C1` depends on `B1`
    t.md:17: `just a note` is not a dependency; write `A → B, C` to put A before B and C
    ");
}

#[test]
fn a_dependency_below_a_possible_comment_is_reported() {
    let lines = "A1 → B1\n# the rest\nB1 → C1\ngarbage\n```\nC1 → X9\n```\n#\n- C1 -> A1\n";
    insta::assert_snapshot!(errors(&[("t.md", &format!("{THREE}{lines}"))]), @r"
    t.md:9: the heading `# the rest` in line 8 ends the dependencies, so this is not read as one; write the heading as `### the rest`, or put this below its own `## Dependencies`
    t.md:12: the heading `# the rest` in line 8 ends the dependencies, so this is not read as one; write the heading as `### the rest`, or put this below its own `## Dependencies`
    t.md:15: the heading `# the rest` in line 8 ends the dependencies, so this is not read as one; write the heading as `### the rest`, or put this below its own `## Dependencies`
    ");
    // In a fence it is a comment, and without a blank no heading.
    for lines in ["```\nA1 → B1\n# the rest\nB1 → C1\n```\n", "A1 → B1\n#the rest\nB1 → C1\n"] {
        assert_eq!(order(&tree(&format!("{THREE}{lines}"))), "A1 B1 C1");
    }
    // What names nothing of the spec, describes a task or is below another heading is prose as everywhere.
    tree(&format!(
        "{THREE}A1 → B1\n# Part two\ninput -> output\n- [ ] D1 d\n  B1 → C1\n## Notes\nB1 → C1\n# More\nB1 → C1\n"
    ));
}

#[test]
fn tasks_without_title_are_reported() {
    let text = "- [ ] a checklist, not ours\n## Phase 1: One\n- [ ] Create the schema\n- [ ] T1\n- [ ] T2 [P]\n- [ ] T/3 c\n- [x] old\n### \n- [ ] T4 d\n";
    insta::assert_snapshot!(errors(&[("t.md", text)]), @r"
    t.md:4: `T1` has no title; describe it in a few words
    t.md:5: `T2` has no title; describe it in a few words
    t.md:8: `group1` has no title; describe it in a few words
    ");
}

#[test]
fn a_spec_without_an_open_task_is_an_error() {
    let none = "the spec has no open tasks; write them as `- [ ] T001 Title`";
    assert_eq!(errors(&[("t.md", "## Phase 1: One\n- [x] T1 done\n")]), format!("t.md:1: {none}"));
    assert_eq!(errors(&[]), format!("spec:1: {none}"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(lines in prop::collection::vec(prop_oneof![
        "\\PC{0,20}",
        "#{1,7} ?(Phase [0-9]{0,2}:?|Dependencies)? ?[a-z#]{0,5}",
        "[ \t\u{3000}]{0,6}(-|1[.)]) \\[[ x]?\\] ?(T[0-3])? ?(\\[P\\])?[a-z ]{0,4}",
        "(T[0-3]|Phase [0-2]|group1)( ?(→|->|,) ?(T[0-3]|phase1)){0,3}",
        "(```|~~~|<!--|-->|  )[a-z ]{0,4}",
    ], 0..20)) {
        let text = lines.join("\n");
        if let Ok(tree) = read(&files(&[("t.md", &text)])) {
            prop_assert_eq!(TaskTree::read(&tree.write()), Ok(tree));
        }
    }
}

#[test]
fn headings_resembling_phases_or_dependencies_are_reported() {
    let text = "# Phase 1: Too high\n## Phase One: In words\n## Phase 2: Right\n### Phase 2a: Too deep\n- [ ] T001 Do\n\
                ## Stage 3\n## Setup\n### Dependencies\n## Task dependencies\n```\n## Phase X\n```\n## Dependencies\n\
                ### Phase dependencies\n";
    let found = super::warnings(&[("spec.md".to_owned(), text.to_owned())]);
    let warnings: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "spec.md:1: `# Phase 1: Too high` is not read as a phase; write `## Phase N: Title` to make it one",
            "spec.md:2: `## Phase One: In words` is not read as a phase; write `## Phase N: Title` to make it one",
            "spec.md:4: `### Phase 2a: Too deep` is not read as a phase; write `## Phase N: Title` to make it one",
            "spec.md:6: `## Stage 3` is not read as a phase; write `## Phase N: Title` to make it one",
            "spec.md:8: `### Dependencies` is not read as the dependencies; write `## Dependencies` to make it one",
            "spec.md:9: `## Task dependencies` is not read as the dependencies; write `## Dependencies` to make it one",
        ]
    );
}
