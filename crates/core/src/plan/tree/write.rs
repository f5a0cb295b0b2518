//! A tree as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{PathPattern, TaskNode, TaskTree, TestCommand};
use crate::ids::TaskId;

/// The fields that mean something here: of a tree, of a node, of a test command.
const OF_TREE: &[&str] = &["nodes", "root_ids", "execution_order", "spec_files"];
const OF_NODE: &[&str] = &[
    "id",
    "name",
    "description",
    "parent",
    "children",
    "depends_on",
    "source_file",
    "source_line",
    "is_leaf",
    "test_commands",
    "pipeline",
    "touches",
    "repo",
];
const OF_TEST: &[&str] = &["type", "command", "framework", "timeout"];

impl TaskTree {
    /// The tree as a file that reads back as the same tree. Fields that mean nothing here are kept.
    pub fn write(&self) -> String {
        let nodes = self.nodes.iter().map(|node| (node.id.to_string(), self::node(node)));
        let mut tree = Map::new();
        tree.insert("nodes".into(), Value::Object(nodes.collect()));
        tree.insert("root_ids".into(), ids(&self.roots));
        tree.insert("execution_order".into(), ids(&self.order));
        tree.insert("spec_files".into(), json!(self.spec_files));
        keep(&mut tree, &self.unknown, OF_TREE);
        format!("{:#}\n", Value::Object(tree))
    }
}

/// Adds what means nothing here. What was checked is what is written: no such field takes the place of a known one, not
/// even of one that is left out.
fn keep(fields: &mut Map<String, Value>, unknown: &Map<String, Value>, known: &[&str]) {
    let unknown = unknown.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    fields.extend(unknown.map(|(key, value)| (key.clone(), value.clone())));
}

fn ids(ids: &[TaskId]) -> Value {
    ids.iter().map(TaskId::as_str).collect()
}

fn node(node: &TaskNode) -> Value {
    let mut fields = Map::new();
    fields.insert("id".into(), node.id.as_str().into());
    fields.insert("name".into(), node.name.as_str().into());
    fields.insert("description".into(), node.description.as_str().into());
    fields.insert("parent".into(), node.parent.as_ref().map(TaskId::as_str).into());
    fields.insert("children".into(), ids(&node.children));
    fields.insert("depends_on".into(), ids(&node.depends_on));
    if let Some(file) = &node.source_file {
        fields.insert("source_file".into(), file.as_str().into());
    }
    if let Some(line) = node.source_line {
        fields.insert("source_line".into(), line.into());
    }
    fields.insert("is_leaf".into(), node.is_leaf().into());
    let tests = node.test_commands.iter().zip(&node.unknown.tests);
    fields.insert("test_commands".into(), tests.map(|(test, unknown)| command(test, unknown)).collect());
    if let Some(file) = &node.pipeline {
        fields.insert("pipeline".into(), file.as_str().into());
    }
    if !node.touches.is_empty() {
        fields.insert("touches".into(), node.touches.iter().map(PathPattern::as_str).collect());
    }
    if let Some(repo) = &node.repo {
        fields.insert("repo".into(), repo.as_str().into());
    }
    keep(&mut fields, &node.unknown.fields, OF_NODE);
    Value::Object(fields)
}

fn command(test: &TestCommand, unknown: &Map<String, Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("type".into(), test.kind.as_str().into());
    fields.insert("command".into(), test.command.as_str().into());
    if let Some(framework) = &test.framework {
        fields.insert("framework".into(), framework.as_str().into());
    }
    if let Some(timeout) = test.timeout {
        fields.insert("timeout".into(), seconds(timeout));
    }
    keep(&mut fields, unknown, OF_TEST);
    Value::Object(fields)
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { time.as_secs().into() } else { time.as_secs_f64().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_unknown_field_takes_the_place_of_a_known_one() {
        let text = r#"{"nodes": {"T1": {"id": "T1", "name": "One", "test_commands": [{"command": "true"}]}}}"#;
        let tree = TaskTree::read(text).unwrap();
        let mut forged = tree.clone();
        let strange = |known: &[&str]| -> Map<String, Value> {
            known.iter().chain(&["mine"]).map(|key| ((*key).to_owned(), json!("forged"))).collect()
        };
        forged.unknown = strange(OF_TREE);
        forged.nodes[0].unknown.fields = strange(OF_NODE);
        forged.nodes[0].unknown.tests = vec![strange(OF_TEST)];
        let written: Value = serde_json::from_str(&forged.write()).unwrap();
        let mine = written.to_string().replace(r#","mine":"forged""#, "");
        let plain: Value = serde_json::from_str(&tree.write()).unwrap();
        assert_eq!(mine, plain.to_string());
        assert_eq!(written.to_string().matches("forged").count(), 3, "what means nothing is kept");
    }
}
