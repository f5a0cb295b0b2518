//! What is done to a graph between reading and understanding it, in this order: prompts from files, variables, the
//! model stylesheet, then the transforms of the embedding program.

use std::collections::BTreeMap;

use super::build::classes;
use super::diagnostic::{Diagnostic, Span};
use super::dot::{AttrValue, is_identifier};
use super::graph::{Attr, Attrs, Graph, RawNode};
use super::shell::{self, ShellContext, Template};
use super::stylesheet::Stylesheet;

/// A change of the embedding program's own.
pub trait Transform {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Changes the graph; what it reports is shown with everything else.
    fn apply(&self, graph: &mut Graph) -> Vec<Diagnostic>;
}

/// What a pipeline is read with beside its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The files it names ([`crate::plan::files_named`]), by the name it uses.
    pub files: BTreeMap<String, String>,
    /// The `k=v` inputs. One called `goal` takes the place of the graph's own goal.
    pub values: BTreeMap<String, String>,
}

/// What runs over a tree of tasks give the pipelines of its tasks.
pub const OF_TASKS: [&str; 3] = ["task_id", "task_name", "task_description"];

/// Runs all transforms.
pub fn apply(graph: &mut Graph, inputs: &Inputs, own: &[&dyn Transform]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    prompts_from_files(graph, &inputs.files, &mut diagnostics);
    expand_variables(graph, &inputs.values, &mut diagnostics);
    apply_stylesheet(graph, &mut diagnostics);
    for transform in own {
        diagnostics.extend(transform.apply(graph));
    }
    diagnostics
}

/// The file a node takes its prompt from, and the attribute that says so.
pub(super) fn prompt_file(attrs: &Attrs) -> Option<(&'static str, &Attr, String)> {
    let text = |key: &str| match attrs.get(key) {
        Some(attr @ Attr { value: AttrValue::Text(text), .. }) if !text.is_empty() => Some((attr, text)),
        _ => None,
    };
    if let Some((attr, file)) = text("prompt_file") {
        return Some(("prompt_file", attr, file.strip_prefix('@').unwrap_or(file).to_owned()));
    }
    let (attr, prompt) = text("prompt")?;
    let file = prompt.trim().strip_prefix('@')?;
    // `@alice, please look` is a sentence, not a file.
    let is_path = !file.is_empty() && !file.contains(char::is_whitespace);
    is_path.then(|| ("prompt", attr, file.to_owned()))
}

fn prompts_from_files(graph: &mut Graph, files: &BTreeMap<String, String>, diagnostics: &mut Vec<Diagnostic>) {
    for node in &mut graph.nodes {
        let Some((key, attr, name)) = prompt_file(&node.attrs) else { continue };
        let (span, value_span) = (attr.span, attr.value_span);
        let Some(text) = files.get(&name) else {
            let message = format!("cannot read the prompt file `{name}`");
            let fix = format!("create it, or correct `{key}`; the path is relative to the pipeline");
            diagnostics.push(Diagnostic::error("prompt_file", message, span).at_node(&node.id).with_fix(fix));
            continue;
        };
        let prompt = Attr { value: AttrValue::Text(text.clone()), span, value_span };
        node.attrs.remove("prompt_file");
        node.attrs.insert("prompt".into(), prompt);
    }
}

/// Expands variables in goal, labels and prompts. Commands get them by their environment: text pasted into a shell line
/// would be run as one.
fn expand_variables(graph: &mut Graph, values: &BTreeMap<String, String>, diagnostics: &mut Vec<Diagnostic>) {
    let mut variables = values.clone();
    if let Some(goal) = values.get("goal") {
        graph.attrs.entry("goal".into()).or_insert_with(|| Attr::text("")).value = AttrValue::Text(goal.clone());
    } else {
        let mut expander = Expander { variables: &variables, unknown: Vec::new() };
        expander.attr(&mut graph.attrs, "goal", None, diagnostics);
        let goal = graph.attrs.get("goal").map(|attr| attr.value.to_string());
        variables.extend(goal.map(|goal| ("goal".to_owned(), goal)));
    }
    let mut expander = Expander { variables: &variables, unknown: Vec::new() };
    expander.attr(&mut graph.attrs, "label", None, diagnostics);
    for node in &mut graph.nodes {
        for key in ["label", "prompt"] {
            expander.attr(&mut node.attrs, key, Some(&node.id), diagnostics);
        }
        hand_to_command(node, &variables, diagnostics);
    }
}

/// Makes a shell variable, quoted as one word, of every template in a node's command.
fn hand_to_command(node: &mut RawNode, variables: &BTreeMap<String, String>, diagnostics: &mut Vec<Diagnostic>) {
    const KEY: &str = "tool_command";
    // A command from elsewhere, such as the settings, is no template.
    let is_literal = node.attrs.get("templates").is_some_and(|attr| attr.value.to_string() == "false");
    let Some(attr) = node.attrs.get_mut(KEY).filter(|_| !is_literal) else { return };
    let AttrValue::Text(command) = &attr.value else { return };
    let mut handed = command.clone();
    let mut found = Vec::new();
    for template in shell::templates(command).into_iter().rev() {
        let Template { range, name, place } = template;
        let refuse = |why: String, fix: String| {
            Diagnostic::error("command_template", why, attr.span_at(range.start)).with_fix(fix)
        };
        if place == ShellContext::Comment {
            continue;
        } else if let Some((whereabouts, fix)) = place.refusal(&name) {
            let why =
                format!("`{{{{ {name} }}}}` in `{KEY}` is {whereabouts}; a value can only be a word of a command");
            found.push(refuse(why, fix));
        } else if shell::is_reserved(&name) {
            let why = format!("`{{{{ {name} }}}}` cannot be passed to a command: `{name}` is a shell variable");
            found.push(refuse(why, "give the input another name".to_owned()));
        } else if variables.contains_key(&name) {
            handed.replace_range(range, &format!("\"${name}\""));
        } else {
            found.push(undefined(&name, attr.span));
        }
    }
    diagnostics.extend(found.into_iter().rev().map(|found| found.at_node(&node.id)));
    attr.value = AttrValue::Text(handed);
}

/// A template nothing fills in.
fn undefined(name: &str, span: Span) -> Diagnostic {
    let fix = match name {
        "goal" => "give the graph a `goal`".to_owned(),
        name if OF_TASKS.contains(&name) => {
            format!("runs over a tree of tasks define it; elsewhere give it as an input: `{name}=…`")
        }
        name if name.contains('.') => "agents see what earlier nodes answered; give the rest as inputs".to_owned(),
        _ => format!("give it as an input: `{name}=…`"),
    };
    let message = format!("`{{{{ {name} }}}}` is undefined");
    Diagnostic::warning("undefined_variable", message, span).with_fix(fix)
}

struct Expander<'v> {
    variables: &'v BTreeMap<String, String>,
    unknown: Vec<String>,
}

impl Expander<'_> {
    fn attr(
        &mut self,
        attrs: &mut Attrs,
        key: &str,
        node: Option<&crate::ids::NodeId>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(attr) = attrs.get_mut(key) else { return };
        let AttrValue::Text(text) = &mut attr.value else { return };
        *text = self.text(text);
        for name in self.unknown.drain(..) {
            let warning = undefined(&name, attr.span);
            diagnostics.push(match node {
                Some(id) => warning.at_node(id),
                None => warning,
            });
        }
    }

    /// One pass, so that what a value holds is never expanded again.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (replaced, length) = self.variable(rest);
            match replaced {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        out.push_str(rest);
        out
    }

    /// The value of the variable `rest` starts with, and how many bytes it takes there.
    fn variable(&mut self, rest: &str) -> (Option<String>, usize) {
        if let Some(inside) = rest.strip_prefix("{{") {
            let Some(length) = inside.find("}}") else { return (None, 2) };
            let name = inside[..length].trim();
            let name = name.strip_prefix("inputs.").unwrap_or(name);
            if !is_identifier(name) {
                // Values of nodes, as other engines have them.
                if name.split('.').all(is_identifier) {
                    self.unknown.push(name.to_owned());
                }
                return (None, 2);
            }
            let value = self.variables.get(name).cloned();
            if value.is_none() {
                self.unknown.push(name.to_owned());
            }
            return (value, length + 4);
        }
        let Some(after) = rest.strip_prefix('$') else { return (None, 1) };
        let length = after.find(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).unwrap_or(after.len());
        (self.variables.get(&after[..length]).cloned(), length + 1)
    }
}

fn apply_stylesheet(graph: &mut Graph, diagnostics: &mut Vec<Diagnostic>) {
    let Some(attr) = graph.attrs.get("model_stylesheet").cloned() else { return };
    let text = attr.value.to_string();
    let (sheet, errors) = Stylesheet::parse(&text);
    for error in errors {
        diagnostics.push(Diagnostic::error("stylesheet_syntax", error.message, attr.span_at(error.offset)));
    }
    for node in &mut graph.nodes {
        let written =
            |key: &str| node.attrs.get(key).map(|attr| attr.value.to_string()).filter(|text| !text.is_empty());
        let shape = written("shape").unwrap_or_else(|| "box".into());
        let classes = classes(written("class").as_deref(), &node.subgraphs);
        for property in Stylesheet::properties().filter(|property| written(property).is_none()).collect::<Vec<_>>() {
            if let Some(value) = sheet.property(property, node.id.as_str(), &shape, &classes) {
                let attr = Attr { value: AttrValue::Text(value.to_owned()), ..attr };
                node.attrs.insert(property.to_owned(), attr);
            }
        }
    }
}
