//! What the fuzzers started with and what they found, tried with an ordinary compiler.

use crate::repository::{files, read};

#[path = "../../../../fuzz/checks.rs"]
mod checks;

fn replay(target: &str, check: fn(&str)) {
    let corpus = files(&format!("fuzz/corpus/{target}"));
    assert!(corpus.len() >= 4, "the corpus of {target} is not where it was");
    for path in corpus {
        let text = read(&path);
        // Shown only when the check fails.
        println!("{path}");
        check(&text);
        // Every beginning of it as well: half a file is what an editor saves.
        for (at, _) in text.char_indices() {
            check(&text[..at]);
        }
    }
}

#[test]
fn the_corpus_of_pipelines_is_read_without_panic() {
    replay("dot", checks::dot);
}

#[test]
fn the_corpus_of_commit_messages_is_read_without_panic() {
    replay("trailer", checks::trailer);
}

#[test]
fn the_corpus_of_configurations_is_read_without_panic() {
    replay("config", checks::config);
}
