//! `pleach config`

use clap::Args;
use pleach_core::config::{self, SettingKey, Source};
use pleach_core::text::{listed, visible};
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::{Out, Table};
use crate::settings::{self, Search, Settings};

/// So many items of a list are in a row.
const LISTED: usize = 3;

/// Show every setting with its value and source.
///
/// Flags win over PLEACH_* variables, these over pleach.yaml (or orchestra.yaml), .arborist/config.json, your own
/// config.yaml and the defaults. Secrets are never shown.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Explain one setting, or all settings of a section: its meaning, its values, its source.
    #[arg(long, value_name = "KEY")]
    explain: Option<String>,
}

/// A setting and all there is to know about it.
struct Row {
    path: String,
    key: Option<SettingKey>,
    value: Option<Value>,
    source: Source,
    overridden: Vec<Source>,
}

pub fn run(globals: &Globals, args: ConfigArgs) -> Result<Exit, Failure> {
    let search = Search::from(&globals.dir, globals.config.as_deref());
    let settings = settings::load(globals.environment.clone(), &search)?;
    let rows = rows(&settings, globals);
    let mut out = Out::new();
    match args.explain {
        None if globals.json => out.json(&all_as_json(&settings, &rows))?,
        None => {
            let mut table = Table::new(["setting", "value", "from"]).text(1).text(2);
            for row in &rows {
                table.row([row.path.clone(), brief(row.value.as_ref()), row.source.to_string()]);
            }
            out.line(table.shown())?;
        }
        Some(key) => {
            let found = explain(&key, rows)?;
            if globals.json {
                out.json(&found.iter().map(|row| (row.path.clone(), row_as_json(row))).collect())?;
            } else {
                let texts: Vec<String> = found.iter().map(explained).collect();
                out.line(texts.join("\n\n"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Every setting, in the order the documentation has; the ones without a value too.
fn rows(settings: &Settings, globals: &Globals) -> Vec<Row> {
    let redactor = settings.redactor();
    let short = |source: &Source| {
        let file = source.file.as_deref().map(|file| settings::shortened(file, &globals.dir));
        Source { file, ..source.clone() }
    };
    let mut given = settings.resolved.settings();
    let row = |path: String, key: Option<SettingKey>, value: Option<Value>, source: &Source| {
        let mut value = value;
        value.iter_mut().for_each(|value| redactor.json(value));
        let weaker = settings.resolved.overridden.get(&path).into_iter().flatten();
        let overridden = weaker.map(short).collect();
        Row { path, key, value, source: short(source), overridden }
    };
    let mut rows = Vec::new();
    for key in config::keys() {
        // A list of sections is one setting.
        let list = key.path.split("[]").next().unwrap_or(&key.path).to_owned();
        let (found, rest): (Vec<_>, Vec<_>) = given.into_iter().partition(|(path, ..)| matches(path, &list));
        given = rest;
        let fixed = !list.contains('*') && list == key.path;
        if found.is_empty() && fixed {
            rows.push(row(list, Some(key.clone()), None, &Source::DEFAULT));
        }
        rows.extend(found.into_iter().map(|(path, value, source)| row(path, Some(key.clone()), Some(value), &source)));
    }
    // Names with dots in them fit no pattern, and are settings all the same.
    rows.extend(given.into_iter().map(|(path, value, source)| row(path, None, Some(value), &source)));
    rows
}

/// Whether a dotted key is one the pattern stands for.
fn matches(path: &str, pattern: &str) -> bool {
    let (path, pattern): (Vec<&str>, Vec<&str>) = (path.split('.').collect(), pattern.split('.').collect());
    path.len() == pattern.len() && path.iter().zip(&pattern).all(|(part, want)| *want == "*" || part == want)
}

/// Whether a setting is the one asked for, or belongs to the section asked for.
fn is_below(path: &str, asked: &str) -> bool {
    path.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The settings a key asks about: itself, the ones of its section, or, when none is set, the ones that could be.
fn explain(asked: &str, rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
    let known: Vec<String> = rows.iter().map(|row| row.path.clone()).collect();
    let mut found: Vec<Row> = rows.into_iter().filter(|row| is_below(&row.path, asked)).collect();
    if found.is_empty() {
        let keys = config::keys().into_iter().filter(|key| matches(asked, &key.path) || is_below(&key.path, asked));
        found = keys.map(|key| unset(asked, key)).collect();
    }
    if found.is_empty() {
        let failure = Failure::new(Code::NoSuchSetting, format!("there is no setting `{asked}`"));
        return Err(match pleach_core::text::closest(asked, known.iter().map(String::as_str)) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`pleach config` lists all settings"),
        });
    }
    Ok(found)
}

/// A setting without a value: the one asked for, or its pattern.
fn unset(asked: &str, key: SettingKey) -> Row {
    let path = if matches(asked, &key.path) { asked.to_owned() } else { key.path.clone() };
    let value = Some(key.default.clone()).filter(|value| !value.is_null());
    Row { path, value, key: Some(key), source: Source::DEFAULT, overridden: Vec::new() }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "(not set)".to_owned(),
        Some(Value::String(text)) if !text.is_empty() => visible(text),
        Some(other) => other.to_string(),
    }
}

/// The same as it fits between others: of a long list its beginning. Explained, it is shown whole.
fn brief(value: Option<&Value>) -> String {
    match value {
        Some(Value::Array(items)) if items.len() > LISTED => {
            format!("[{}]", listed(items.iter().map(Value::to_string), LISTED))
        }
        other => shown(other),
    }
}

fn explained(row: &Row) -> String {
    let mut text = format!("{} = {}\n  from: {}", row.path, shown(row.value.as_ref()), row.source);
    for weaker in &row.overridden {
        text.push_str(&format!("\n  wins over: {weaker}"));
    }
    if let Some(key) = &row.key {
        text.push_str(&format!("\n  {}\n  takes: {}", key.about, key.takes));
    }
    text
}

fn row_as_json(row: &Row) -> Value {
    let source = |source: &Source| json!({"level": source.level.as_str(), "place": source.to_string()});
    let mut object = Map::new();
    object.insert("value".into(), row.value.clone().unwrap_or_default());
    object.insert("from".into(), source(&row.source));
    object.insert("wins_over".into(), row.overridden.iter().map(source).collect());
    if let Some(key) = &row.key {
        object.insert("about".into(), key.about.clone().into());
        object.insert("takes".into(), key.takes.clone().into());
    }
    Value::Object(object)
}

fn all_as_json(settings: &Settings, rows: &[Row]) -> Value {
    let rows: Map<String, Value> = rows.iter().map(|row| (row.path.clone(), row_as_json(row))).collect();
    let files: Vec<_> = settings.files.iter().map(|file| file.to_string_lossy()).collect();
    json!({"settings": rows, "files": files, "state_dir": settings.state_dir.to_string_lossy()})
}
