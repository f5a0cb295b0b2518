//! The pipelines this repository shows to its readers are without fault.

use pleach_core::plan::lint::KnownNames;
use pleach_core::plan::{Inputs, validate};

use crate::repository::{files, read};

/// Every example and every DOT block of a page, with its place.
fn shown() -> Vec<(String, String)> {
    let examples = files("examples").into_iter().filter(|path| path.ends_with(".dot"));
    let mut shown: Vec<(String, String)> = examples.map(|path| (path.clone(), read(&path))).collect();
    let pages = files("docs").into_iter().chain(["README.md".to_owned()]).filter(|path| path.ends_with(".md"));
    for page in pages {
        let text = read(&page);
        let blocks = text.split("```dot\n").skip(1).filter_map(|rest| rest.split("```").next());
        shown.extend(blocks.map(|block| (page.clone(), block.to_owned())));
    }
    shown
}

#[test]
fn pipelines_shown_to_readers_have_no_diagnostics() {
    let shown = shown();
    assert!(shown.len() >= 5, "four examples and the one of the README");
    for (place, source) in shown {
        let (pipeline, diagnostics) = validate(&source, &Inputs::default(), &KnownNames::default());
        assert_eq!(diagnostics, [], "{place}");
        let pipeline = pipeline.expect("a graph without diagnostics");
        assert!(pipeline.start().is_some() && pipeline.exit().is_some(), "{place} has a start and an exit");
    }
}

#[test]
fn every_example_is_explained() {
    let page = read("examples/README.md");
    for path in files("examples").iter().filter(|path| path.ends_with(".dot")) {
        let name = path.trim_start_matches("examples/");
        assert!(page.contains(&format!("`{name}`")), "examples/README.md does not speak of {name}");
    }
}
