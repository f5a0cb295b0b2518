//! Reads the repository's own files, for the tests that check its shape.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates lie in the repository").to_owned()
}

/// A file of the repository.
#[track_caller]
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a directory that are not made by builds, by their path from the root.
pub fn files(below: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root().join(below), &mut found);
    let root = root();
    let mut names: Vec<String> = found
        .iter()
        .map(|path| path.strip_prefix(&root).expect("a path below the root").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The Rust files below a directory.
pub fn sources(below: &str) -> Vec<String> {
    files(below).into_iter().filter(|path| path.ends_with(".rs")).collect()
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    let made = [".git", "target", "artifacts", "coverage"];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !made.iter().any(|name| path.file_name().is_some_and(|own| own == *name)) {
                collect(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// A line without its comment. Good enough for code that rustfmt has seen: no string of ours holds ` // `.
pub fn code(line: &str) -> &str {
    if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or_default() }
}

/// The names of all tests in the workspace: functions below `#[test]` or `#[tokio::test]`, property tests included.
pub fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in ["crates", "cli", "xtask"].into_iter().flat_map(sources) {
        let mut below_attribute = false;
        for line in read(&path).lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                below_attribute = true;
            } else if let Some(name) = function_name(line) {
                if below_attribute {
                    names.insert(name.to_owned());
                }
                below_attribute = false;
            }
        }
    }
    names
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// The words between backticks.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
