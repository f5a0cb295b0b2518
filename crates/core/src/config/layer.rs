//! Layers of settings and what they come to together.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dotenv::DotEnvEntry;
use super::error::{ConfigError, Precedence, Source};
use super::model::{Config, keys};
use super::node::{ConfigNode, ConfigNodeKind, MapEntry, ScalarForm, SourceSpan, parse};
use super::read::{ReadContext, Setting, SourceText, normal_path};
use super::{Environment, arborist, check};
use crate::text::closest;

/// Variables of this program that are no settings: what agents and commands are reported the node they work on, for
/// pleach may be run by one of them, and what tests switch on.
const OWN_VARIABLES: [&str; 13] = [
    "PLEACH_SESSION",
    "PLEACH_NODE",
    "PLEACH_VISIT",
    "PLEACH_ATTEMPT",
    "PLEACH_REPOS",
    "PLEACH_STATUS_FILE",
    "PLEACH_GATEWAY_KEY",
    "PLEACH_CODES",
    "PLEACH_SANDBOX_BY",
    "PLEACH_PATIENCE_MS",
    "PLEACH_CRASH",
    "PLEACH_CRASH_TRACE",
    "PLEACH_NOTHING",
];

/// One source of settings.
#[derive(Debug, Clone)]
pub struct Layer {
    level: Precedence,
    base: PathBuf,
    content: LayerContent,
}

#[derive(Debug, Clone)]
enum LayerContent {
    /// A YAML or JSON file.
    File { file: PathBuf, text: String },
    /// Dotted keys and their values, each with where it is.
    Pairs(Vec<(Source, String, String)>),
}

impl Layer {
    /// A configuration file. Its relative paths start from its directory.
    pub fn file(level: Precedence, file: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let file = file.into();
        let base = file.parent().unwrap_or(Path::new("")).to_owned();
        // Paths in `.arborist/config.json` start from the project, not from the hidden directory.
        let base = if level == Precedence::Arborist && base.ends_with(".arborist") {
            base.parent().unwrap_or(Path::new("")).to_owned()
        } else {
            base
        };
        Self { level, base, content: LayerContent::File { file, text: text.into() } }
    }

    /// The `PLEACH_*` variables. Relative paths in them start from `base`, the current directory.
    pub fn environment(environment: &Environment, base: impl Into<PathBuf>) -> Self {
        let real = environment.iter().filter(|(name, _)| !environment.dotenv().any(|(other, _)| other == *name));
        let pairs = named_pairs(real, "PLEACH_", |name| Source::named(Precedence::Env, name));
        Self { level: Precedence::Env, base: base.into(), content: LayerContent::Pairs(pairs) }
    }

    /// The `ARBORIST_*` variables.
    pub fn arborist_environment(environment: &Environment, base: impl Into<PathBuf>) -> Self {
        let pairs = named_pairs(environment.iter(), "ARBORIST_", |name| Source::named(Precedence::Arborist, name));
        Self { level: Precedence::Arborist, base: base.into(), content: LayerContent::Pairs(pairs) }
    }

    /// The `PLEACH_*` variables of a `.env` file.
    pub fn dotenv(file: &Path, entries: &[DotEnvEntry]) -> Self {
        let pairs = entries.iter().filter(|entry| entry.name.starts_with("PLEACH_")).map(|entry| {
            let source = Source {
                level: Precedence::DotEnv,
                file: Some(file.to_owned()),
                name: Some(entry.name.clone()),
                line: Some(entry.line),
            };
            (source, entry.name.clone(), entry.value.clone())
        });
        let base = file.parent().unwrap_or(Path::new("")).to_owned();
        Self { level: Precedence::DotEnv, base, content: LayerContent::Pairs(pairs.collect()) }
    }

    /// Settings of the command line: the flag, the dotted key it sets, and the value.
    pub fn flags(flags: impl IntoIterator<Item = (String, String, String)>, base: impl Into<PathBuf>) -> Self {
        let pairs = flags.into_iter().map(|(flag, key, value)| (Source::named(Precedence::Flag, flag), key, value));
        Self { level: Precedence::Flag, base: base.into(), content: LayerContent::Pairs(pairs.collect()) }
    }

    /// A recorded configuration, as JSON. Its relative paths start from the project's directory.
    pub(super) fn recorded(text: String, root: &Path) -> Self {
        let content = LayerContent::File { file: PathBuf::from("session record"), text };
        Self { level: Precedence::Recorded, base: root.to_owned(), content }
    }

    /// The layer's strength.
    pub fn level(&self) -> Precedence {
        self.level
    }
}

fn named_pairs<'e>(
    variables: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    prefix: &str,
    source: impl Fn(&str) -> Source,
) -> Vec<(Source, String, String)> {
    let named = variables.filter_map(|(name, value)| Some((name.to_str()?, value.to_string_lossy())));
    let named = named.filter(|(name, _)| name.starts_with(prefix));
    named.map(|(name, value)| (source(name), name.to_owned(), value.into_owned())).collect()
}

/// The settings one file gives, checked but not yet merged with others.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSettings {
    tree: ConfigNode,
    origins: Vec<SourceText>,
}

impl FileSettings {
    /// The dotted keys that are given.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.tree.leaves("", &mut |path, _| keys.push(path.to_owned()));
        keys
    }
}

/// Reads the text of a project's configuration file. Never panics, whatever the text.
pub fn parse_project(text: &str, file: &Path) -> Result<FileSettings, Vec<ConfigError>> {
    let mut origins = Vec::new();
    let mut found = Findings::default();
    let tree = read_layer(Layer::file(Precedence::Project, file, text), &mut origins, &mut found);
    if found.errors.is_empty() { Ok(FileSettings { tree, origins }) } else { Err(in_order(found.errors)) }
}

/// The configuration all layers come to, and where each setting came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub config: Config,
    /// The source of every setting that is not a default, by its dotted key.
    pub provenance: BTreeMap<String, Source>,
    /// The weaker sources that gave a setting too, weakest first.
    pub overridden: BTreeMap<String, Vec<Source>>,
    /// The settings of the user's own file alone.
    pub users: Option<Box<Users>>,
    /// What was ignored, such as variables that name no setting.
    pub warnings: Vec<ConfigError>,
}

/// What is wrong with the layers.
#[derive(Debug, Default)]
struct Findings {
    /// What keeps them from being used.
    errors: Vec<ConfigError>,
    /// What is left out of them.
    warnings: Vec<ConfigError>,
}

/// What the user's own file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Users {
    /// The settings as they are with it alone.
    pub config: Config,
    /// The dotted keys it gives.
    pub keys: BTreeSet<String>,
}

impl Resolved {
    /// Where a setting came from. For a list's or section's part, where the nearest setting around it came from.
    pub fn source(&self, key: &str) -> &Source {
        let mut key = key;
        loop {
            if let Some(source) = self.provenance.get(key) {
                return source;
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = &key[..end],
                None => return &Source::DEFAULT,
            }
        }
    }

    /// Every setting that has a value, with its source. Lists are one setting.
    pub fn settings(&self) -> Vec<(String, Value, Source)> {
        let mut settings = Vec::new();
        flatten("", &self.config.to_value(), &mut |key, value| {
            settings.push((key.to_owned(), value.clone(), self.source(key).clone()));
        });
        settings
    }
}

fn flatten(prefix: &str, value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&path, value, visit);
            }
        }
        leaf => visit(prefix, leaf),
    }
}

/// Merges the layers, the stronger over the weaker whatever their order here, and reads the result. All errors of all
/// layers come back together.
pub fn resolve(layers: Vec<Layer>) -> Result<Resolved, Vec<ConfigError>> {
    MergedLayers::read(layers)?.check()
}

/// All layers as one, not yet checked for what settings must fulfil together.
#[derive(Debug)]
pub(super) struct MergedLayers {
    pub config: Config,
    pub provenance: BTreeMap<String, Source>,
    overridden: BTreeMap<String, Vec<Source>>,
    pub users: Option<Box<Users>>,
    warnings: Vec<ConfigError>,
    tree: ConfigNode,
    origins: Vec<SourceText>,
}

impl MergedLayers {
    pub fn read(mut layers: Vec<Layer>) -> Result<Self, Vec<ConfigError>> {
        // A variable is nearer than the file it speaks for.
        layers.sort_by_key(|layer| (layer.level, matches!(layer.content, LayerContent::Pairs(_))));
        let root = root_of(&layers);
        let mut origins = Vec::new();
        let mut found = Findings::default();
        let mut tree = ConfigNode::empty_map(SourceSpan { source: 0, line: 0, column: 0, width: 0 });
        let mut provenance = BTreeMap::new();
        let mut overridden = BTreeMap::<String, Vec<Source>>::new();
        let mut users = None;
        let layers = read_layers(layers, &mut origins, &mut found);
        let Findings { mut errors, warnings } = found;
        errors.extend(unknown_agents(&layers, &origins));
        for mut layer in layers {
            for forgotten in agent_of_steps(&mut layer, &mut tree) {
                provenance.remove(&forgotten);
                overridden.remove(&forgotten);
            }
            let mut keys = BTreeSet::new();
            layer.leaves("", &mut |key, at| {
                let source = &origins[at.source].source;
                if source.level == Precedence::User {
                    keys.insert(key.to_owned());
                }
                let line = if at.line > 0 { Some(at.line) } else { source.line };
                let weaker = provenance.insert(key.to_owned(), Source { line, ..source.clone() });
                if let Some(weaker) = weaker {
                    overridden.entry(key.to_owned()).or_default().push(weaker);
                }
            });
            tree.overlay(layer);
            if !keys.is_empty() {
                // Nothing is weaker than the user's own file but the defaults.
                let config = Config::read(&tree, &mut ReadContext::new(&origins));
                users = config.map(|config| Box::new(Users { config, keys }));
            }
        }
        let mut reading = ReadContext::new(&origins);
        let config = Config::read(&tree, &mut reading).unwrap_or_default();
        if errors.is_empty() {
            errors = std::mem::take(&mut reading.errors);
        }
        if !errors.is_empty() {
            let mut reading = ReadContext::new(&origins);
            check::values(&config, &tree, &mut reading);
            errors.append(&mut reading.errors);
            return Err(in_order(errors));
        }
        Ok(Self {
            config: Config { root, ..config },
            provenance,
            overridden,
            users,
            warnings: in_order(warnings),
            tree,
            origins,
        })
    }

    pub fn check(self) -> Result<Resolved, Vec<ConfigError>> {
        let mut reading = ReadContext::new(&self.origins);
        check::check(&self.config, &self.tree, &mut reading);
        if !reading.errors.is_empty() {
            return Err(in_order(reading.errors));
        }
        let Self { config, provenance, overridden, users, warnings, .. } = self;
        Ok(Resolved { config, provenance, overridden, users, warnings })
    }
}

/// An agent that a layer names is that of every step a weaker one names an agent for: the stronger layer counts, also
/// where the weaker one says more. A model that was named for such a step goes with its agent; these keys are answered.
fn agent_of_steps(layer: &mut ConfigNode, weaker: &mut ConfigNode) -> Vec<String> {
    let is_given =
        |entry: Option<&MapEntry>| entry.is_some_and(|entry| !matches!(entry.value.kind, ConfigNodeKind::Null));
    let Some(agent) = layer.at_path(&["agent"]).filter(|agent| is_given(Some(agent))).map(|agent| agent.value.clone())
    else {
        return Vec::new();
    };
    let Some(ConfigNodeKind::Map(steps)) = weaker.at_path(&["tree", "steps"]).map(|steps| &steps.value.kind) else {
        return Vec::new();
    };
    let mut forgotten = Vec::new();
    for step in steps.keys().cloned().collect::<Vec<_>>() {
        let path = ["tree", "steps", &step, "runner"];
        if is_given(weaker.at_path(&path)) && !is_given(layer.at_path(&path)) {
            // What is in the way is no section, and told as a mistake already.
            let _ = layer.put(&path, agent.clone());
            let path = ["tree", "steps", &step, "model"];
            if is_given(weaker.at_path(&path)) {
                let _ = weaker.put(&path, ConfigNode { kind: ConfigNodeKind::Null, ..agent.clone() });
                forgotten.push(path.join("."));
            }
        }
    }
    forgotten
}

/// The errors of layers that name an agent no layer defines.
fn unknown_agents(layers: &[ConfigNode], origins: &[SourceText]) -> Vec<ConfigError> {
    let described = layers.iter().filter_map(|layer| match &layer.at_path(&["agents"])?.value.kind {
        ConfigNodeKind::Map(agents) => Some(agents),
        _ => None,
    });
    let is_given = |entry: &MapEntry| !matches!(entry.value.kind, ConfigNodeKind::Null);
    let named = described.flatten().filter(|(_, entry)| is_given(entry)).map(|(name, _)| name.clone()).collect();
    let mut reading = ReadContext::new(origins);
    layers.iter().for_each(|layer| check::named_agents(layer, &named, &mut reading));
    reading.errors
}

/// Errors in the order of the text they are about.
fn in_order(mut errors: Vec<ConfigError>) -> Vec<ConfigError> {
    errors.sort_by(|a, b| (&a.place, a.column).cmp(&(&b.place, b.column)));
    // One value may count in several places.
    errors.dedup();
    errors
}

/// The directory of the project's configuration; without one, the current directory.
fn root_of(layers: &[Layer]) -> PathBuf {
    let file = |layer: &&Layer| matches!(layer.content, LayerContent::File { .. }) && layer.level != Precedence::User;
    let pairs = |layer: &&Layer| matches!(layer.level, Precedence::Env | Precedence::Flag);
    let found = layers.iter().rev().find(file).or_else(|| layers.iter().find(pairs));
    // As the paths that start from it.
    found.map(|layer| normal_path(&layer.base)).unwrap_or_default()
}

/// The trees of all layers, weakest first. The layers of Arborist are merged in its own terms before they are
/// translated, so that a step's setting in the file wins over a general one in a variable.
fn read_layers(layers: Vec<Layer>, origins: &mut Vec<SourceText>, found: &mut Findings) -> Vec<ConfigNode> {
    let mut trees = Vec::new();
    let mut foreign: Option<ConfigNode> = None;
    let mut place = 0;
    for layer in layers {
        if layer.level != Precedence::Arborist {
            let tree = read_layer(layer, origins, found);
            trees.push(tree);
            continue;
        }
        place = if foreign.is_none() { trees.len() } else { place };
        let tree = parse_layer(layer, origins, found);
        let mut reading = ReadContext::new(origins);
        arborist::check(&tree, &mut reading);
        found.errors.append(&mut reading.errors);
        arborist::warn(&tree, &mut reading);
        found.warnings.append(&mut reading.errors);
        match &mut foreign {
            Some(below) => below.overlay(tree),
            None => foreign = Some(tree),
        }
    }
    if let Some(foreign) = foreign {
        let tree = arborist::translate(&foreign);
        check_tree(&tree, origins, found);
        trees.insert(place, tree);
    }
    trees
}

/// The tree of one layer, its errors noted.
fn read_layer(layer: Layer, origins: &mut Vec<SourceText>, found: &mut Findings) -> ConfigNode {
    let tree = parse_layer(layer, origins, found);
    check_tree(&tree, origins, found);
    tree
}

fn check_tree(tree: &ConfigNode, origins: &[SourceText], found: &mut Findings) {
    let mut reading = ReadContext::new(origins);
    let _ = Config::read(tree, &mut reading);
    found.errors.append(&mut reading.errors);
}

/// The tree of one layer in the layer's own terms.
fn parse_layer(layer: Layer, origins: &mut Vec<SourceText>, found: &mut Findings) -> ConfigNode {
    let index = origins.len();
    let start = SourceSpan { source: index, line: 0, column: 0, width: 0 };
    match layer.content {
        LayerContent::File { file, text } => {
            let source = Source::file(layer.level, file);
            origins.push(SourceText { source: source.clone(), text: text.clone(), base: layer.base });
            let parsed = parse(&text, index, &source).and_then(|node| match node.kind {
                ConfigNodeKind::Null => Ok(ConfigNode::empty_map(start)),
                ConfigNodeKind::Map(_) => Ok(node),
                _ => {
                    let form = match layer.level {
                        Precedence::Arborist => "settings of Arborist are a JSON object, such as {\"defaults\": {…}}",
                        _ => "a configuration file is a list of `key: value` lines",
                    };
                    let error = ConfigError::new(source, form);
                    Err(Box::new(error.located(&text, node.at.line, node.at.column, node.at.width)))
                }
            });
            match parsed {
                Ok(mut node) => {
                    map_backend(&mut node, origins, &mut found.errors);
                    node
                }
                Err(error) => {
                    found.errors.push(*error);
                    ConfigNode::empty_map(start)
                }
            }
        }
        LayerContent::Pairs(pairs) => {
            let mut tree = ConfigNode::empty_map(start);
            for (source, name, value) in pairs {
                let path = match path_of(&name, layer.level, &source) {
                    Ok(Some(path)) => path,
                    Ok(None) => continue,
                    Err(unknown) => {
                        found.warnings.push(*unknown);
                        continue;
                    }
                };
                let node = ConfigNode::loose(value, origins.len());
                origins.push(SourceText { source: source.clone(), text: String::new(), base: layer.base.clone() });
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                if let Err(in_the_way) = tree.put(&path, node) {
                    let other = &origins[in_the_way.source].source;
                    found.errors.push(ConfigError::new(source, format!("{other} gives a part of this key a value")));
                }
            }
            if origins.len() == index {
                // A layer without settings still has its place, which its empty tree points to.
                let source = Source { level: layer.level, file: None, name: None, line: None };
                origins.push(SourceText { source, text: String::new(), base: layer.base });
            }
            tree
        }
    }
}

/// The path of keys a variable or flag names; none when it is no setting and not meant to be one. A variable that means
/// nothing here may be meant for another version: it is left out.
fn path_of(name: &str, level: Precedence, source: &Source) -> Result<Option<Vec<String>>, Box<ConfigError>> {
    if let Some(path) = arborist::variable(name) {
        return Ok(Some(path.iter().map(|&key| key.to_owned()).collect()));
    }
    if level == Precedence::Flag {
        return Ok(Some(name.split('.').map(str::to_owned).collect()));
    }
    let Some(key) = name.strip_prefix("PLEACH_").map(str::to_ascii_lowercase) else { return Ok(None) };
    let path: Vec<String> = key.split("__").map(str::to_owned).collect();
    let known = known(&path);
    if known == PathKind::Setting {
        return Ok(Some(path));
    }
    if OWN_VARIABLES.contains(&name) {
        return Ok(None);
    }
    if known == PathKind::Section {
        let warning = ConfigError::new(source.clone(), format!("`{}` is a section, ignored", path.join(".")));
        let hint = "Add `__` and a key to the variable's name, as in PLEACH_TREE__MAX_RETRIES.";
        return Err(Box::new(warning.with_hint(hint.to_owned())));
    }
    // A variable of the environment is its own place.
    let message = match source.file {
        Some(_) => format!("unknown variable `{name}`, ignored"),
        None => "unknown variable, ignored".to_owned(),
    };
    let warning = ConfigError::new(source.clone(), message);
    let hint = match closest_variable(&key, &path[0]) {
        Some(meant) => format!("Did you mean PLEACH_{}?", meant.to_ascii_uppercase()),
        None => "Settings are named as in PLEACH_TREE__MAX_RETRIES; `pleach config` lists them.".to_owned(),
    };
    Err(Box::new(warning.with_hint(hint)))
}

/// What a path of keys stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Nothing,
    /// It has settings below it.
    Section,
    Setting,
}

fn known(path: &[String]) -> PathKind {
    let stands_for = |known: &str| {
        let mut known = known.split('.');
        if !path.iter().all(|key| known.next().is_some_and(|known| known == "*" || known == key)) {
            return PathKind::Nothing;
        }
        if known.next().is_none() { PathKind::Setting } else { PathKind::Section }
    };
    keys().iter().map(|known| stands_for(&known.path)).max().unwrap_or(PathKind::Nothing)
}

/// The variable that was likely meant by one that is not one, without `PLEACH_`: one `_` where two belong, or a slip.
fn closest_variable(key: &str, first: &str) -> Option<String> {
    let named = keys().into_iter().filter(|known| !known.path.contains('*'));
    let all: Vec<String> = named.map(|known| known.path.replace('.', "__")).collect();
    let flat = |key: &str| key.replace("__", "_");
    if let Some(same) = all.iter().find(|known| flat(known) == flat(key)) {
        return Some(same.clone());
    }
    let sections = Config::FIELDS.iter().copied();
    if let Some(near) = closest(first, sections).filter(|near| *near != first) {
        return Some(format!("{near}{}", key.strip_prefix(first).unwrap_or("")));
    }
    let flattened: Vec<String> = all.iter().map(|known| flat(known)).collect();
    let near = closest(&flat(key), flattened.iter().map(String::as_str))?;
    all.into_iter().find(|known| flat(known) == near)
}

/// `backend:` of orchestra.yaml says what `agent:` says, in other words. An `agent:` beside it wins.
fn map_backend(tree: &mut ConfigNode, origins: &[SourceText], errors: &mut Vec<ConfigError>) {
    let ConfigNodeKind::Map(map) = &mut tree.kind else { return };
    let Some(MapEntry { key_at, value }) = map.remove("backend") else { return };
    let text = match &value.kind {
        ConfigNodeKind::Scalar { text, .. } => text.as_str(),
        ConfigNodeKind::Null => return,
        ConfigNodeKind::List(_) | ConfigNodeKind::Map(_) => "",
    };
    let agent = match text {
        "simulation" => "simulation",
        "direct" | "langgraph" => "builtin",
        "cli" => "command:",
        other => {
            let mut reading = ReadContext::new(origins);
            let hint = "It is one of: simulation, direct, langgraph, cli. pleach's own key is `agent`.".to_owned();
            reading.report(value.at, format!("`backend` cannot be `{other}`"), Some(hint));
            errors.append(&mut reading.errors);
            return;
        }
    };
    let kind = ConfigNodeKind::Scalar { text: agent.to_owned(), form: ScalarForm::Text };
    map.entry("agent".to_owned()).or_insert(MapEntry { key_at, value: ConfigNode { kind, at: value.at } });
}
