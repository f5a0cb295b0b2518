//! A task tree from a model: the prompt, and how the answer is read.
//!
//! An answer is checked as strictly as a file. One that does not hold together is sent back once, with everything that
//! is wrong with it.

use std::collections::BTreeSet;

use super::spec::fence;
use super::tree::{Draft, DraftNode, Json, ObjectFields, TaskTree, TreeError, check, node_fields, tree_errors};
use crate::text::{counted, listed};

/// How many files a message names.
const NAMED: usize = 10;

const TASK: &str = "\
Plan the work that the files below describe, as a tree of tasks.

- Take up every piece of work the files ask for, once. Leave out what they mark as finished (`- [x]`).
- Phases, sections and stories become inner tasks: they hold `children` and are not worked themselves. Tasks without \
children are worked one at a time, by an agent that sees only that task's description and the repository.
- Keep the ids the files use. Where there are none, make short ones: `phase1`, `T001`, `T002`. An id has letters, digits, \
`.`, `_` and `-`, and begins with a letter or a digit.
- `description`: first a line that names the task, then, on further lines, all that is needed to do it.
- `parent` and `children` must agree: each task has one parent at most, which lists it.
- `depends_on`: the ids of tasks or phases that must be done before. No cycles, and nothing a task is part of or holds.
- `source_file` and `source_line`: the file, named as below, and the line (from 1) a task comes from.
- `test_commands`: how to see that it is done. `type` is `unit`, `integration`, `e2e`, `setup` or `teardown`; `command` is \
a line for the shell; `framework` (`pytest`, `jest`, `vitest`, `go`, `cargo`, `nextest`) and `timeout` (seconds) may be \
left out. Tasks without children have unit tests; a phase has integration or e2e tests, which run when all of it is \
done. Give none where the files and the repository do not tell you which.
";

const FORM: &str = r#"Answer with one JSON object in a fenced block and nothing else:

```json
{
  "description": "what all of it is for",
  "total_tasks_found": 2,
  "tasks": [
    {"id": "phase1", "description": "Database layer", "parent": null, "children": ["T001"], "depends_on": [],
     "source_file": "tasks.md", "source_line": 3, "test_commands": []},
    {"id": "T001", "description": "Create the schema\nTables for users and posts, with foreign keys.",
     "parent": "phase1", "children": [], "depends_on": [], "source_file": "tasks.md", "source_line": 5,
     "test_commands": [{"type": "unit", "command": "pytest -x", "framework": "pytest", "timeout": 120}]}
  ]
}
```
"#;

/// What the planner is asked: the files, by name and text, and the form of the answer.
pub fn prompt(files: &[(String, String)]) -> String {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut prompt = format!("{TASK}\n{FORM}");
    for (name, text) in files {
        prompt.push_str(&format!("\n--- {name} (with line numbers) ---\n"));
        for (number, line) in (1..).zip(text.lines()) {
            prompt.push_str(&format!("{number}: {line}\n"));
        }
    }
    prompt
}

/// What the planner is asked when its answer was not a tree.
pub fn retry_prompt(errors: &[TreeError]) -> String {
    let errors: String = errors.iter().map(|error| format!("- {error}\n")).collect();
    format!(
        "That plan cannot be used. What is wrong with it:\n\n{errors}\nFix all of it and give the whole plan again. \
         {FORM}"
    )
}

/// Reads the planner's answer to what was asked of these files: its first fenced JSON block, or else the first object in
/// it.
pub fn read(reply: &str, files: &[(String, String)]) -> Result<TaskTree, Vec<TreeError>> {
    let whole = |message: String| vec![TreeError { path: String::new(), message }];
    let entries = match object(reply).map_err(whole)? {
        Json::Object(entries) => entries,
        other => return Err(whole(format!("the plan must be an object with `tasks`, not {}", other.kind()))),
    };
    let mut errors = Vec::new();
    let (draft, places) = draft(entries, &mut errors);
    errors.extend(unknown_files(&draft, &places, files));
    if draft.nodes.is_empty() {
        if errors.is_empty() {
            errors.push(TreeError { path: "tasks".to_owned(), message: "the plan has no tasks".to_owned() });
        }
        return Err(errors);
    }
    match check(draft) {
        Ok(tree) if errors.is_empty() => Ok(tree),
        checked => {
            errors.extend(checked.err().map(|faults| tree_errors(faults, &places)).unwrap_or_default());
            Err(errors)
        }
    }
}

/// A warning where a plan has fewer tasks than the planner reports.
pub fn shortfall(reply: &str, tree: &TaskTree) -> Option<String> {
    let Ok(Json::Object(entries)) = object(reply) else { return None };
    let said = entries.into_iter().find_map(|(key, value)| match value {
        Json::Scalar(value) if key == "total_tasks_found" => value.as_u64(),
        _ => None,
    })?;
    let given = tree.nodes().count() as u64;
    (said > given).then(|| {
        format!("the planner reports {} but returned {given}; check that none is missing", counted(said, "task"))
    })
}

/// The draft and where its nodes are.
fn draft(entries: Vec<(String, Json)>, errors: &mut Vec<TreeError>) -> (Draft, Vec<String>) {
    let mut fields = ObjectFields::new(String::new(), entries, errors);
    // A wrong number there is no reason to refuse a good plan; `shortfall` reports it.
    fields.take("total_tasks_found");
    let tasks = fields.list("tasks");
    // What else a tree has would count when the tree is read again, so it is read as one of a tree, or made again.
    if fields.take("nodes").is_some() {
        fields.error("nodes", "a plan has no `nodes`: give every task once, in `tasks`");
    }
    let order = fields.texts("execution_order").unwrap_or_default();
    fields.take("root_ids");
    fields.take("spec_files");
    let mut draft = Draft { order, unknown: fields.rest(), ..Draft::default() };
    let mut places = Vec::new();
    for (at, task) in tasks.unwrap_or_default().into_iter().enumerate() {
        let place = format!("tasks[{at}]");
        if let Some(node) = node(place.clone(), task, errors) {
            draft.nodes.push(node);
            places.push(place);
        }
    }
    let files: BTreeSet<&String> = draft.nodes.iter().filter_map(|node| node.source_file.as_ref()).collect();
    draft.spec_files = files.into_iter().cloned().collect();
    (draft, places)
}

/// Tasks that name a source file the planner was not given. A tree written by hand may name any file.
fn unknown_files(draft: &Draft, places: &[String], files: &[(String, String)]) -> Vec<TreeError> {
    let is_shown = |file: &str| files.iter().any(|(name, _)| name == file);
    let shown = listed(files.iter().map(|(name, _)| format!("`{name}`")), NAMED);
    let named = draft.nodes.iter().zip(places).filter_map(|(node, place)| Some((node.source_file.as_ref()?, place)));
    let wrong = named.filter(|(file, _)| !is_shown(file)).map(|(file, place)| TreeError {
        path: format!("{place}.source_file"),
        message: format!("unknown file `{file}`; tasks come from {shown}"),
    });
    wrong.collect()
}

/// A task; none without an id, since its relations are unknown.
fn node(place: String, task: Json, errors: &mut Vec<TreeError>) -> Option<DraftNode> {
    let Json::Object(entries) = task else {
        let message = format!("must be an object, not {}", task.kind());
        errors.push(TreeError { path: place, message });
        return None;
    };
    let mut fields = ObjectFields::new(place.clone(), entries, errors);
    let id = fields.needed_text("id");
    let name = fields.text("name");
    let mut node = node_fields(fields);
    let first_line = || node.description.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    node.name = name.or_else(first_line);
    if node.name.is_none() {
        let message = "is missing: its first line names the task".to_owned();
        errors.push(TreeError { path: format!("{place}.description"), message });
    }
    node.id = id?;
    Some(node)
}

/// The JSON of a reply.
fn object(reply: &str) -> Result<Json, String> {
    let unreadable = |error: serde_json::Error| format!("the plan is not JSON: {error}");
    if let Some(block) = json_block(reply) {
        return serde_json::from_str(&block).map_err(unreadable);
    }
    // A brace in prose is not followed by a key.
    let mut braces = reply.match_indices('{').map(|(at, _)| &reply[at..]);
    let text = braces.find(|text| text[1..].trim_start().starts_with('"'));
    let text = text.ok_or_else(|| "there is no JSON object in the answer".to_owned())?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    values.next().unwrap_or_else(|| Ok(Json::Object(Vec::new()))).map_err(unreadable)
}

/// The first fenced block that is marked as JSON, or not marked and an object. One that is never closed goes to the end.
fn json_block(reply: &str) -> Option<String> {
    let mut lines = reply.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = fence(line.trim()) else { continue };
        let info = line.trim()[mark.len()..].trim();
        let closes = |line: &str| line.starts_with(mark) && line.trim_start_matches(&mark[..1]).is_empty();
        let inside: Vec<&str> = lines.by_ref().take_while(|line| !closes(line.trim())).collect();
        let text = inside.join("\n");
        if info.eq_ignore_ascii_case("json") || (info.is_empty() && text.trim_start().starts_with('{')) {
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::ids::TaskId;

    const PLAN: &str = r#"{"description": "A shop", "total_tasks_found": 7, "tasks": [
        {"id": "phase1", "description": "Database layer", "children": ["T2", "T1"],
         "test_commands": [{"type": "integration", "command": "make check"}]},
        {"id": "T1", "description": "\n  Create schema\nWith {braces} and ``` marks", "parent": "phase1", "depends_on": ["T2"],
         "source_file": "b.md", "source_line": 4, "estimate": "2h"},
        {"id": "T2", "name": "Named", "description": "Other", "parent": "phase1", "source_file": "a.md"}]}"#;

    fn read(reply: &str) -> Result<TaskTree, Vec<TreeError>> {
        super::read(reply, &["a.md", "b.md"].map(|name| (name.to_owned(), String::new())))
    }

    fn errors(reply: &str) -> Vec<String> {
        read(reply).expect_err(reply).iter().map(TreeError::to_string).collect()
    }

    #[test]
    fn a_plan_becomes_a_tree() {
        let tree = read(PLAN).unwrap();
        let names: Vec<&str> = tree.nodes().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["Database layer", "Create schema", "Named"]);
        assert_eq!(tree.order(), [TaskId::new("T2").unwrap(), TaskId::new("T1").unwrap()]);
        assert_eq!(tree.gates().len(), 1);
        assert_eq!(tree.spec_files(), ["a.md", "b.md"]);
        let written: Value = serde_json::from_str(&tree.write()).unwrap();
        assert_eq!((&written["description"], &written["nodes"]["T1"]["estimate"]), (&"A shop".into(), &"2h".into()));
        assert_eq!(TaskTree::read(&tree.write()), Ok(tree));
    }

    #[test]
    fn the_first_json_block_counts_else_the_first_object() {
        let tree = read(PLAN).unwrap();
        let wrong = r#"{"tasks": []}"#;
        for reply in [
            format!("Here {{it}} is: {PLAN} and that {{}} was it. {wrong}"),
            format!("```python\nx = {wrong}\n```\n  ```JSON\n{PLAN}\n  ```\n```json\n{wrong}\n```\n"),
            format!("{wrong}\n```\nplain text\n```\n~~~~\n{PLAN}\n~~~~"),
            format!("```json\n{PLAN}"),
        ] {
            assert_eq!(read(&reply), Ok(tree.clone()), "{reply}");
        }
    }

    #[test]
    fn an_answer_without_a_plan_is_an_error() {
        assert_eq!(errors("I cannot do that."), ["there is no JSON object in the answer"]);
        assert_eq!(errors("```json\n[]\n```"), ["the plan must be an object with `tasks`, not a list"]);
        assert_eq!(errors("{\"tasks\": [}"), ["the plan is not JSON: expected value at line 1 column 12"]);
        assert_eq!(errors("{\"plan\": {}}"), ["tasks: the plan has no tasks"]);
        assert_eq!(errors("{\"tasks\": {}}"), ["tasks: must be a list, not an object"]);
    }

    #[test]
    fn a_bad_plan_comes_back_with_all_its_mistakes() {
        let plan = r#"{"tasks": [{"id": "p", "description": "P", "children": ["A", "X"]},
            {"id": "A", "description": " ", "depends_on": ["B"]}, {"id": "B", "description": "b", "depends_on": ["A", "no"]},
            {"description": "no id", "source_line": "3"}, 7, {"id": "A", "description": "again"}, {"id": "a b", "description": "c"}]}"#;
        let found = read(plan).unwrap_err();
        insta::assert_snapshot!(retry_prompt(&found).split_once("Fix").unwrap().0, @r"
        That plan cannot be used. What is wrong with it:

        - tasks[1].description: is missing: its first line names the task
        - tasks[3].id: is missing
        - tasks[3].source_line: must be a whole number from 0, not a string
        - tasks[4]: must be an object, not a number
        - tasks[5].id: `A` is given twice; give one of them another id
        - tasks[6].id: `a b` is not a valid task id: at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`, a final dot or a `.lock` end
        - tasks[0].children[1]: there is no node `X`
        - tasks[2].depends_on[1]: there is no node `no`
        - tasks[1].depends_on[0]: dependency cycle: `A` depends on `B`, `B` depends on `A`
        ");
        assert!(retry_prompt(&found).contains("```json"));
    }

    #[test]
    fn a_task_comes_from_a_file_that_was_shown() {
        let plan = PLAN.replace("b.md", "spec/b.md").replace("a.md", "");
        assert_eq!(
            errors(&plan),
            [
                "tasks[1].source_file: unknown file `spec/b.md`; tasks come from `a.md`, `b.md`",
                "tasks[2].source_file: unknown file ``; tasks come from `a.md`, `b.md`",
            ]
        );
        // Whoever writes a tree by hand may have taken its tasks from anywhere.
        let by_hand =
            r#"{"nodes": {"A": {"id": "A", "name": "a", "source_file": "elsewhere"}}, "spec_files": ["b.md"]}"#;
        assert!(TaskTree::read(by_hand).is_ok());
    }

    /// A plan of `A`, and `B` after it, with more at its top.
    fn with(more: &str) -> String {
        format!(
            r#"{{{more}, "tasks": [{{"id": "A", "description": "a", "source_file": "a.md"}},
                {{"id": "B", "description": "b", "depends_on": ["A"]}}, {{"id": "C", "description": "c"}}]}}"#
        )
    }

    #[test]
    fn a_plans_other_fields_are_checked_or_rebuilt() {
        let order = r#""execution_order": ["C", "A", "B"]"#;
        let plan = with(&format!(r#"{order}, "root_ids": ["X"], "spec_files": 7, "is_leaf": true, "note": [1]"#));
        let tree = read(&plan).unwrap();
        assert_eq!(tree.order().iter().map(TaskId::as_str).collect::<Vec<_>>(), ["C", "A", "B"]);
        let written: Value = serde_json::from_str(&tree.write()).unwrap();
        assert_eq!(written["root_ids"], serde_json::json!(["A", "B", "C"]));
        assert_eq!((&written["spec_files"], &written["note"]), (&serde_json::json!(["a.md"]), &serde_json::json!([1])));
        assert_eq!(TaskTree::read(&tree.write()), Ok(tree));

        let order = r#""execution_order": ["B", "A", "X", "A", 7]"#;
        let nodes = r#""nodes": {"X": {"id": "X", "name": "x"}}"#;
        assert_eq!(
            errors(&with(&format!("{order}, {nodes}"))),
            [
                "nodes: a plan has no `nodes`: give every task once, in `tasks`",
                "execution_order[4]: must be a string, not a number",
                "execution_order[2]: there is no node `X`",
                "execution_order[3]: `A` is given twice; keep one",
                "execution_order[0]: `B` comes before `A`, which it depends on",
            ]
        );
        assert_eq!(errors(&format!("{{{nodes}}}")), ["nodes: a plan has no `nodes`: give every task once, in `tasks`"]);
    }

    #[test]
    fn the_prompt_shows_every_file_by_name_with_its_lines() {
        let files = [("b.md".to_owned(), "last\n".to_owned()), ("a.md".to_owned(), "one\ntwo".to_owned())];
        let prompt = prompt(&files);
        assert!(prompt.ends_with(
            "--- a.md (with line numbers) ---\n1: one\n2: two\n\n--- b.md (with line numbers) ---\n1: last\n"
        ));
    }

    #[test]
    fn the_example_in_the_prompt_is_a_plan() {
        let files = [("tasks.md".to_owned(), String::new())];
        assert_eq!(super::read(FORM, &files).unwrap().nodes().count(), 2);
    }
}
