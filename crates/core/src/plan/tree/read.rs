//! A tree from JSON.

use std::time::Duration;

use serde_json::{Map, Value};

use super::json::member;
use super::{
    Draft, DraftError, DraftNode, Json, ObjectFields, ParentField, PathPattern, TaskTree, TestCommand, TestKind,
    TreeError, check,
};
use crate::ids::RepoName;

/// The longest a test command may be given: past a year a number is a slip.
const LONGEST: Duration = Duration::from_secs(31_536_000);

impl TaskTree {
    /// Reads a tree, or returns all its errors.
    pub fn read(json: &str) -> Result<Self, Vec<TreeError>> {
        let whole = |message: String| vec![TreeError { path: String::new(), message }];
        let json = json.strip_prefix('\u{feff}').unwrap_or(json);
        let text = serde_json::from_str(json).map_err(|error| whole(format!("this is not JSON: {error}")))?;
        let Json::Object(entries) = text else {
            return Err(whole(format!("a task tree must be an object with `nodes`, not {}", text.kind())));
        };
        let mut errors = Vec::new();
        let (draft, places) = draft(entries, &mut errors);
        let tree = check(draft).map_err(|faults| tree_errors(faults, &places));
        match tree {
            Ok(tree) if errors.is_empty() => Ok(tree),
            Ok(_) => Err(errors),
            Err(found) => {
                let is_known =
                    |error: &TreeError| error.path == "nodes" && errors.iter().any(|known| known.path == "nodes");
                let found: Vec<_> = found.into_iter().filter(|error| !is_known(error)).collect();
                errors.extend(found);
                Err(errors)
            }
        }
    }
}

/// The errors with the names of their places.
pub(in crate::plan) fn tree_errors(faults: Vec<DraftError>, places: &[String]) -> Vec<TreeError> {
    faults.into_iter().map(|fault| TreeError { path: fault.path(places), message: fault.message }).collect()
}

/// The draft and where its nodes are.
fn draft(entries: Vec<(String, Json)>, errors: &mut Vec<TreeError>) -> (Draft, Vec<String>) {
    let mut fields = ObjectFields::new(String::new(), entries, errors);
    let given = fields.object("nodes").unwrap_or_default();
    let roots = fields.texts("root_ids").unwrap_or_default();
    let order = fields.texts("execution_order").unwrap_or_default();
    let spec_files = fields.texts("spec_files").unwrap_or_default();
    let unknown = fields.rest();
    let mut draft = Draft {
        nodes: Vec::with_capacity(given.len()),
        roots: roots.into_iter().map(|item| item.id).collect(),
        order,
        spec_files: spec_files.into_iter().map(|item| item.id).collect(),
        unknown,
    };
    let mut places = Vec::with_capacity(given.len());
    for (key, value) in ObjectFields::new("nodes".to_owned(), given, errors).into_entries() {
        let place = member("nodes", &key);
        match value {
            Json::Object(entries) => {
                let mut fields = ObjectFields::new(place.clone(), entries, errors);
                if let Some(id) = fields.needed_text("id").filter(|id| *id != key) {
                    fields.error("id", format!("is `{id}`, but the key is `{key}`; make them the same"));
                }
                let name = fields.needed_text("name");
                draft.nodes.push(DraftNode { id: key, name, ..node_fields(fields) });
            }
            other => {
                errors.push(TreeError {
                    path: place.clone(),
                    message: format!("must be an object, not {}", other.kind()),
                });
                draft.nodes.push(DraftNode { id: key, ..DraftNode::default() });
            }
        }
        places.push(place);
    }
    (draft, places)
}

/// The fields of a node besides its id and name.
pub(in crate::plan) fn node_fields(mut fields: ObjectFields<'_>) -> DraftNode {
    let parent = match fields.take("parent") {
        None => ParentField::Unsaid,
        Some(Json::Scalar(Value::Null)) => ParentField::None,
        Some(Json::Scalar(Value::String(id))) => ParentField::Named(id),
        Some(other) => {
            fields.error("parent", format!("must be a string or null, not {}", other.kind()));
            ParentField::Unsaid
        }
    };
    let mut node = DraftNode {
        parent,
        description: fields.text("description").unwrap_or_default(),
        children: fields.texts("children"),
        depends_on: fields.texts("depends_on").unwrap_or_default(),
        source_file: fields.text("source_file"),
        source_line: fields.whole_number("source_line"),
        pipeline: fields.text("pipeline"),
        ..DraftNode::default()
    };
    fields.take("is_leaf");
    if node.pipeline.as_ref().is_some_and(|file| file.trim().is_empty()) {
        fields.error("pipeline", "is empty: name a file, or leave it out");
    }
    match fields.text("repo").map(RepoName::new).transpose() {
        Ok(repo) => node.repo = repo,
        Err(invalid) => fields.error("repo", invalid.to_string()),
    }
    for item in fields.texts("touches").unwrap_or_default() {
        match PathPattern::read(&item.id) {
            Ok(pattern) => node.touches.push(pattern),
            Err(wrong) => fields.error_at("touches", item.at, wrong),
        }
    }
    for (at, test) in fields.list("test_commands").unwrap_or_default().into_iter().enumerate() {
        if let Some((test, unknown)) = test_command(&mut fields, at, test) {
            node.test_commands.push(test);
            node.unknown.tests.push(unknown);
        }
    }
    node.unknown.fields = fields.rest();
    node
}

fn test_command(node: &mut ObjectFields<'_>, at: usize, test: Json) -> Option<(TestCommand, Map<String, Value>)> {
    let mut fields = node.inner(&format!("test_commands[{at}]"), test)?;
    let kind = fields.text("type").map_or(Some(TestKind::Unit), |word| match word.parse() {
        Ok(kind) => Some(kind),
        Err(unknown) => {
            fields.error("type", format!("{unknown}"));
            None
        }
    });
    let command = fields.needed_text("command");
    if command.as_ref().is_some_and(|command| command.trim().is_empty()) {
        fields.error("command", "is empty: give a line for the shell");
    }
    let framework = fields.text("framework");
    let timeout = fields.number("timeout").and_then(|seconds| {
        // What is too little to be counted is nothing.
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero() && *time <= LONGEST);
        if time.is_none() {
            fields.error("timeout", "must be more than 0 and at most a year, in seconds");
        }
        time
    });
    let unknown = fields.rest();
    Some((TestCommand { kind: kind?, command: command?, framework, timeout }, unknown))
}
