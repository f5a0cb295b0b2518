//! A tree as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{TaskNode, TaskTree, TestCommand};
use crate::ids::TaskId;

impl TaskTree {
    /// The tree as a file that reads back as the same tree. Fields that mean nothing here are kept.
    pub fn write(&self) -> String {
        let nodes = self.nodes.iter().map(|node| (node.id.to_string(), self::node(node)));
        let mut tree = Map::new();
        tree.insert("nodes".into(), Value::Object(nodes.collect()));
        tree.insert("root_ids".into(), ids(&self.roots));
        tree.insert("execution_order".into(), ids(&self.order));
        tree.insert("spec_files".into(), json!(self.spec_files));
        tree.extend(self.unknown.clone());
        format!("{:#}\n", Value::Object(tree))
    }
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
    fields.extend(node.unknown.fields.clone());
    Value::Object(fields)
}

fn command(test: &TestCommand, unknown: &Map<String, Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("type".into(), test.kind.as_str().into());
    fields.insert("command".into(), test.command.as_str().into());
    if let Some(framework) = &test.framework {
        fields.insert("framework".into(), framework.as_str().into());
    }
    if test.timeout != TestCommand::TIMEOUT {
        fields.insert("timeout".into(), seconds(test.timeout));
    }
    fields.extend(unknown.clone());
    Value::Object(fields)
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { time.as_secs().into() } else { time.as_secs_f64().into() }
}
