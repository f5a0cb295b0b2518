//! `docs/coverage.md` stays true: every row names a test or benchmark that exists, or the work that will bring one.

use crate::repository::{quoted, read, test_names};

/// The works to come, as the head of the page describes them.
const WORKS: [&str; 1] = ["window"];

/// The last cell of every row of every table, with the row itself.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = page.lines().collect();
    let mut rows = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let heads = lines.get(index + 1).is_some_and(|next| next.starts_with("|--") || next.starts_with("| --"));
        if line.starts_with('|') && !line.starts_with("|--") && !line.starts_with("| --") && !heads {
            let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
            rows.push((*line, cell));
        }
    }
    rows
}

#[test]
fn every_coverage_row_names_an_existing_test() {
    let page = read("docs/coverage.md");
    let tests = test_names();
    let benchmarks = read("xtask/src/bench/mod.rs");
    let mut wrong = Vec::new();
    for (row, cell) in rows(&page) {
        if WORKS.contains(&cell) {
            continue;
        }
        let named = quoted(cell);
        if named.is_empty() {
            wrong.push(format!("neither a test nor one of {WORKS:?}: {row}"));
        }
        for name in named {
            let is_there = match name.strip_prefix("bench ") {
                Some(benchmark) => benchmarks.contains(&format!("\"{benchmark}\" => ")),
                None => tests.contains(name.rsplit("::").next().unwrap_or(name)),
            };
            if !is_there {
                wrong.push(format!("there is no test `{name}`: {row}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/coverage.md:\n{}", wrong.join("\n"));
}

#[test]
fn every_work_to_come_is_described() {
    let page = read("docs/coverage.md");
    let described: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("- *")?.split("*: ").next()).collect();
    let missing: Vec<&str> = WORKS.into_iter().filter(|work| !described.contains(work)).collect();
    assert!(missing.is_empty(), "docs/coverage.md does not describe {missing:?}");
}

#[test]
fn no_row_is_written_twice() {
    let page = read("docs/coverage.md");
    let mut section = "";
    let mut seen = std::collections::BTreeSet::new();
    for line in page.lines() {
        if line.starts_with('#') {
            section = line;
        } else if line.starts_with('|') && !line.starts_with("|--") && !line.starts_with("| row") {
            let row = line.split('|').nth(1).unwrap_or_default().trim();
            assert!(seen.insert((section, row)), "docs/coverage.md: `{row}` stands twice under {section}");
        }
    }
    assert!(seen.len() > 200, "only {} rows: were tables lost?", seen.len());
}

#[test]
fn rows_are_distinguished_from_headings() {
    let page = "| row | covered by |\n|---|---|\n| Branch creation | `a::b` |\n| Worktree path | queue |\n";
    let cells: Vec<&str> = rows(page).into_iter().map(|(_, cell)| cell).collect();
    assert_eq!(cells, ["`a::b`", "queue"]);
}
