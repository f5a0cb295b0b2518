//! A tree as written, before it is checked.

use serde_json::{Map, Value};

use super::json::{ListItem, member};
use super::{PathPattern, TestCommand, UnknownFields};
use crate::ids::RepoName;

/// A tree that is still to be checked.
#[derive(Debug, Clone, Default)]
pub(in crate::plan) struct Draft {
    pub nodes: Vec<DraftNode>,
    /// The roots as written.
    pub roots: Vec<String>,
    /// The order as written; none when it is empty.
    pub order: Vec<ListItem>,
    pub spec_files: Vec<String>,
    pub unknown: Map<String, Value>,
}

/// A node that is still to be checked.
#[derive(Debug, Clone, Default)]
pub(in crate::plan) struct DraftNode {
    /// The name it goes by in the text, valid or not.
    pub id: String,
    /// None when it was already reported as wrong.
    pub name: Option<String>,
    pub description: String,
    pub parent: ParentField,
    /// None when not given: then the nodes count that name this one as their parent.
    pub children: Option<Vec<ListItem>>,
    pub depends_on: Vec<ListItem>,
    pub source_file: Option<String>,
    pub source_line: Option<u64>,
    pub test_commands: Vec<TestCommand>,
    pub pipeline: Option<String>,
    pub touches: Vec<PathPattern>,
    pub repo: Option<RepoName>,
    pub unknown: UnknownFields,
}

/// The `parent` field of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::plan) enum ParentField {
    /// Not given: the node that lists it as a child is its parent.
    #[default]
    Unsaid,
    /// Explicitly none.
    None,
    /// Its name.
    Named(String),
}

/// An error, before it is known what its place is called in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct DraftError {
    /// The index of the node it is in; none for the tree itself.
    pub node: Option<usize>,
    pub field: &'static str,
    pub item: Option<usize>,
    pub message: String,
}

impl DraftError {
    /// Its JSON path, when the nodes are at `places`.
    pub fn path(&self, places: &[String]) -> String {
        let path = member(self.node.map_or("", |node| &places[node]), self.field);
        self.item.map_or(path.clone(), |item| format!("{path}[{item}]"))
    }
}
