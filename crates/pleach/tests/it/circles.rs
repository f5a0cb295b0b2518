//! No file of a crate imports one that imports it, directly or through others. An import counts where an item is
//! taken from a file: naming a module alone, or re-exporting what a child has, is no import.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::repository::{code, read, sources};

type Path = Vec<String>;

/// A file of a crate: what it names of others, and what others find in it that is defined elsewhere.
#[derive(Default)]
struct File {
    names: BTreeSet<Path>,
    exports: BTreeMap<String, Path>,
}

/// Where each crate has its files.
const CRATES: [&str; 8] = [
    "crates/core/src",
    "crates/os/src",
    "crates/git/src",
    "crates/agents/src",
    "crates/engine/src",
    "crates/history/src",
    "cli/src",
    "xtask/src",
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles: Vec<String> = CRATES.into_iter().flat_map(circles_of).collect();
    assert!(circles.is_empty(), "files that import each other:\n{}", circles.join("\n"));
}

fn circles_of(dir: &str) -> BTreeSet<String> {
    let texts = sources(dir).into_iter().map(|file| (module(dir, &file), product(&file)));
    let texts: BTreeMap<Path, String> = texts.filter(|(at, _)| !is_test(at)).collect();
    let known: BTreeSet<Path> = texts.keys().cloned().collect();
    let files: BTreeMap<Path, File> =
        texts.iter().map(|(at, text)| (at.clone(), File::read(at, text, &known))).collect();
    let imports: BTreeMap<&Path, BTreeSet<Path>> = files
        .iter()
        .map(|(at, file)| {
            let found = file.names.iter().filter_map(|name| defined_in(&files, name, 0));
            (at, found.filter(|other| other != at).collect())
        })
        .collect();
    imports.keys().filter_map(|at| circle(&imports, at)).map(|circle| format!("{dir}: {circle}")).collect()
}

/// `crates/engine/src/tree/mod.rs` is `tree` of `crates/engine/src`.
fn module(dir: &str, file: &str) -> Path {
    let below = file.trim_start_matches(dir).trim_start_matches('/').trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(below, "lib" | "main") { Vec::new() } else { below.split('/').map(str::to_owned).collect() }
}

fn is_test(module: &[String]) -> bool {
    module.iter().any(|name| name == "tests")
}

/// A file without comments and without its tests.
fn product(file: &str) -> String {
    let text = read(file);
    let inline = |(at, _): &(usize, &str)| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let end = text.match_indices("#[cfg(test)]\nmod ").find(inline).map_or(text.len(), |(at, _)| at);
    text[..end].lines().map(|line| format!("{}\n", code(line))).collect()
}

impl File {
    fn read(at: &[String], text: &str, known: &BTreeSet<Path>) -> Self {
        let mut file = Self::default();
        let mut body = String::new();
        let mut rest = text;
        while let Some((start, statement, end)) = next_use(rest) {
            body.push_str(&rest[..start]);
            let is_export = rest[start..].starts_with("pub");
            for tree in leaves(statement) {
                let Some(mut path) = absolute(at, &tree, known) else { continue };
                if path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                match (is_export, path.last().cloned()) {
                    (true, Some(last)) => {
                        file.exports.insert(last, path);
                    }
                    _ => {
                        file.names.insert(path);
                    }
                }
            }
            rest = &rest[end..];
        }
        body.push_str(rest);
        let modules: BTreeMap<String, Path> = file
            .names
            .iter()
            .filter(|path| known.contains(*path))
            .filter_map(|path| Some((path.last()?.clone(), path.clone())))
            .collect();
        for path in paths(&body) {
            let named = match modules.get(&path[0]) {
                Some(module) => Some(module.iter().chain(&path[1..]).cloned().collect()),
                None => absolute(at, &path, known),
            };
            file.names.extend(named);
        }
        file
    }
}

/// The next `use` of a text: where it begins, what it names, and where it ends.
fn next_use(text: &str) -> Option<(usize, &str, usize)> {
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        let shown = if let Some(rest) = word.strip_prefix("pub(") {
            rest.split_once(") ").map_or("", |(_, rest)| rest)
        } else {
            word.strip_prefix("pub ").unwrap_or(word)
        };
        if let Some(named) = shown.strip_prefix("use ") {
            let begin = from + line.len() - named.len();
            let end = begin + text[begin..].find(';')?;
            return Some((from + line.len() - word.len(), &text[begin..end], end + 1));
        }
        from += line.len();
    }
    None
}

/// The paths of a `use`, also of `a::{b, c::{d, e as f}}`.
fn leaves(tree: &str) -> Vec<Path> {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        return vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()];
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("it begins with one").push(c);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{before}{}", part.trim()))).collect()
}

/// A path from the root of the crate; none where it leads elsewhere.
fn absolute(at: &[String], path: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([at, &path[1..]].concat()),
        "super" => Some([&at[..at.len().checked_sub(ups)?], &path[ups..]].concat()),
        first => {
            let child = [at, &[first.to_owned()]].concat();
            known.contains(&child).then(|| [at, path].concat())
        }
    }
}

/// All paths of more than one part in code.
fn paths(body: &str) -> Vec<Path> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = body.split(|c: char| !is_part(c)).filter(|word| word.contains("::") && !word.starts_with("::"));
    words.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

/// The file that defines what a path names; none for a module, and for what is not the crate's.
fn defined_in(files: &BTreeMap<Path, File>, path: &[String], depth: usize) -> Option<Path> {
    let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let (module, item) = (&path[..length], path.get(length)?);
    match files[module].exports.get(item) {
        Some(exported) if depth < 8 => {
            defined_in(files, &[exported.as_slice(), &path[length + 1..]].concat(), depth + 1)
        }
        _ => Some(module.to_vec()),
    }
}

/// The shortest way from a file back to it, written from its first file on.
fn circle(imports: &BTreeMap<&Path, BTreeSet<Path>>, at: &Path) -> Option<String> {
    let mut ways = VecDeque::from([vec![at]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in imports.get(way[way.len() - 1]).into_iter().flatten() {
            if next == at {
                let first = way.iter().enumerate().min_by_key(|(_, file)| **file).map_or(0, |(first, _)| first);
                let names = way.iter().cycle().skip(first).take(way.len() + 1).map(|file| file.join("::"));
                return Some(names.collect::<Vec<_>>().join(" -> "));
            }
            if seen.insert(next) {
                ways.push_back(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

#[test]
fn imports_of_every_form_are_seen() {
    let known: BTreeSet<Path> = ["a", "a::b", "c"].map(|path| path.split("::").map(str::to_owned).collect()).into();
    let names = |text: &str| {
        let file = File::read(&["a".to_owned()], text, &known);
        let written = |path: &Path| path.join("::");
        (file.names.iter().map(written).collect::<Vec<_>>().join(" "), file.exports.values().map(written).collect())
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(names("use crate::c::{self, D, e::{F, G as H}};\n"), ("c c::D c::e::F c::e::G".into(), none.clone()));
    assert_eq!(names("use crate::c;\nfn f() { c::d(); }\n"), ("c c::d".into(), none.clone()));
    assert_eq!(names("fn f() { b::d(); std::mem::take(x) }\n"), ("a::b::d".into(), none.clone()));
    assert_eq!(names("use super::c::D;\n"), ("c::D".into(), none));
    assert_eq!(names("pub(super) use b::D;\n"), (String::new(), vec!["a::b::D".to_owned()]));
}
