//! A task tree from markdown, read by fixed rules: the same text gives the same tree, without a model in between.
//!
//! | line | what it gives |
//! |---|---|
//! | `## Phase 2: Title` | the phase `phase2` |
//! | `### Title` … `###### Title` | a group `group1`, `group2`, … in the phase or group above it |
//! | `- [ ] T001 Title` | a task; a `[P]` after the id means nothing here; what is indented below describes it |
//! | `1. [ ] T001 Title`, `1) [ ] T001 Title` | the same |
//! | `- [x] T001 Title` | nothing: it is finished |
//! | below `## Dependencies`: `A → B, C` | B and C wait for A |
//! | below `## Dependencies`: `A -> B, C` | A waits for B and C |
//!
//! Code fences and comments are skipped, except that dependencies may be in a fence.

mod dependencies;
mod dependency_line;
mod lines;
mod location;
mod outline;
#[cfg(test)]
mod tests;

use super::tree::{Draft, DraftError, DraftNode, ListItem, ParentField, TaskTree, check};
use dependencies::DependencyMap;
pub(in crate::plan) use lines::fence;
use location::SpecLocation;
use outline::Outline;

/// An error in a spec and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct SpecError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong and how to fix it.
    pub message: String,
}

/// Reads a tree from files, given by name and text. They are read in the order of their names, as one.
pub fn read(files: &[(String, String)]) -> Result<TaskTree, Vec<SpecError>> {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let outline = Outline::read(&files);
    let (waits, unresolved) = dependencies::resolve(&outline);
    let mut errors: Vec<(SpecLocation, String)> = outline.errors.iter().cloned().chain(unresolved).collect();
    if errors.is_empty() && !outline.nodes.iter().any(|node| node.is_task) {
        errors.push((SpecLocation { file: 0, line: 1 }, NO_TASK.to_owned()));
    }
    let (draft, places) = draft(&outline, &waits, &names);
    let checked = check(draft);
    if let Err(faults) = &checked {
        errors.extend(faults.iter().filter_map(|fault| placed(fault, &places)));
    }
    match checked {
        Ok(tree) if errors.is_empty() => Ok(tree),
        _ => {
            errors.sort_by_key(|(place, _)| *place);
            let file = |at: usize| names.get(at).copied().unwrap_or("spec").to_owned();
            let spec_error = |(place, message): (SpecLocation, String)| SpecError {
                file: file(place.file),
                line: place.line,
                message,
            };
            Err(errors.into_iter().map(spec_error).collect())
        }
    }
}

/// What may not be read as it was meant, given as to [`read`]: headings that look like a phase or the dependencies.
pub fn warnings(files: &[(String, String)]) -> Vec<SpecError> {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let spec_error = |(place, message): (SpecLocation, String)| SpecError {
        file: files.get(place.file).map_or("spec", |(name, _)| name).to_owned(),
        line: place.line,
        message,
    };
    Outline::read(&files).warnings.into_iter().map(spec_error).collect()
}

const NO_TASK: &str = "the spec has no open tasks; write them as `- [ ] T001 Title`";

/// Where a node is, its own line and the line each of its dependencies is from.
struct NodePlaces<'o> {
    id: &'o str,
    own: SpecLocation,
    depends_on: Vec<SpecLocation>,
}

/// Phases and groups without an open task are left out: taken for leaves, they would be worked as tasks.
fn draft<'o>(outline: &'o Outline, waits: &DependencyMap, names: &[&str]) -> (Draft, Vec<NodePlaces<'o>>) {
    let kept = outline.with_open_tasks();
    let mut draft = Draft { spec_files: names.iter().map(|name| (*name).to_owned()).collect(), ..Draft::default() };
    let mut places = Vec::new();
    for (at, node) in outline.nodes.iter().enumerate().filter(|(at, _)| kept[*at]) {
        let on: Vec<_> = waits.get(&at).into_iter().flatten().filter(|(other, _)| kept[*other]).collect();
        let items = on.iter().enumerate().map(|(at, (other, _))| ListItem { at, id: outline.nodes[*other].id.clone() });
        draft.nodes.push(DraftNode {
            id: node.id.clone(),
            name: Some(node.name.clone()),
            description: lines::unindented(&node.description),
            parent: node
                .parent
                .map_or(ParentField::None, |parent| ParentField::Named(outline.nodes[parent].id.clone())),
            depends_on: items.collect(),
            source_file: Some(names[node.place.file].to_owned()),
            source_line: Some(node.place.line),
            ..DraftNode::default()
        });
        let depends_on = on.into_iter().map(|(_, place)| *place).collect();
        places.push(NodePlaces { id: &node.id, own: node.place, depends_on });
    }
    (draft, places)
}

/// What the check of the whole found, at its line. That there is no task is distinguished, in the words of a spec.
fn placed(fault: &DraftError, places: &[NodePlaces]) -> Option<(SpecLocation, String)> {
    let node = &places[fault.node?];
    let message = match fault.field {
        "name" => format!("`{}` has no title; describe it in a few words", node.id),
        "depends_on" => format!("`{}`: {}", node.id, fault.message),
        _ => fault.message.clone(),
    };
    let line = fault.item.filter(|_| fault.field == "depends_on").and_then(|item| node.depends_on.get(item));
    Some((line.copied().unwrap_or(node.own), message))
}
