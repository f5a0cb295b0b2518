//! A task tree from markdown, read by fixed rules: the same text gives the same tree, without a model in between.
//!
//! | line | what it gives |
//! |---|---|
//! | `## Phase 2: Title` | the phase `phase2` |
//! | `### Title` … `###### Title` | a group `group1`, `group2`, … in the phase or group above it |
//! | `- [ ] T001 Title` | a task; a `[P]` after the id means nothing here; what is indented below describes it |
//! | `1. [ ] T001 Title`, `1) [ ] T001 Title` | the same |
//! | `- [ ] Title` | a task as well, with an id that is given: `T001`, `T002`, … in order, but for those that are taken |
//! | `- [ ] T002 Title (depends on T001)` | a task that waits for another |
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
mod title_dependency;

use std::collections::BTreeMap;

use super::tree::{Draft, DraftError, DraftNode, ListItem, ParentField, TaskTree, check};
use dependencies::DependencyMap;
pub(in crate::plan) use lines::fence;
use location::SpecLocation;
use outline::Outline;

use crate::ids::TaskId;

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
    let files = by_name(files);
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

fn by_name(files: &[(String, String)]) -> Vec<&(String, String)> {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

/// What may not be read as it was meant, given as to [`read`]: headings that look like a phase or the dependencies, arrows
/// that may point the other way, boxes that are no tasks, and titles that speak of dependencies.
pub fn warnings(files: &[(String, String)]) -> Vec<SpecError> {
    let files = by_name(files);
    let spec_error = |(place, message): (SpecLocation, String)| SpecError {
        file: files.get(place.file).map_or("spec", |(name, _)| name).to_owned(),
        line: place.line,
        message,
    };
    let mut warnings = Outline::read(&files).warnings;
    warnings.sort_by_key(|(place, _)| *place);
    warnings.into_iter().map(spec_error).collect()
}

/// The id of a task that is written without one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GivenId {
    /// The id.
    pub id: TaskId,
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

/// The ids of tasks that are written without one, given as to [`read`]. Finished tasks have one as well, so that the others
/// keep theirs when one is ticked off.
pub fn given_ids(files: &[(String, String)]) -> Vec<GivenId> {
    let files = by_name(files);
    let given = Outline::read(&files).given.into_iter();
    given.map(|(place, id)| GivenId { id, file: files[place.file].0.clone(), line: place.line }).collect()
}

/// The text of a file with its ids written into it, and nothing else changed.
pub fn with_ids(name: &str, text: &str, given: &[GivenId]) -> String {
    let given: BTreeMap<u64, &TaskId> =
        given.iter().filter(|given| given.file == name).map(|given| (given.line, &given.id)).collect();
    let written = |(number, line): (u64, &str)| {
        let at = given.get(&number).zip(lines::task(line.trim_start_matches('\u{feff}')));
        let Some((id, task)) = at else { return line.to_owned() };
        let (before, title) = line.split_at(task.text_at + line.len() - line.trim_start_matches('\u{feff}').len());
        let blank = if before.ends_with(']') { " " } else { "" };
        format!("{before}{blank}{id} {title}")
    };
    (1..).zip(text.split_inclusive('\n')).map(written).collect()
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
