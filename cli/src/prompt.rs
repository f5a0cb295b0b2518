//! A prompt in place of a pipeline's file: `pleach run "Fix the failing test"`.

use std::collections::BTreeMap;
use std::path::Path;

use pleach_core::config::Config;
use pleach_core::ids::CommitId;
use pleach_core::plan::{PromptTest, pipeline_for_prompt};

use crate::failure::Failure;
use crate::pipeline_file::{PipelineFile, is_pipeline_name};

/// The file name of the built-in pipeline.
pub const BUILT_IN: &str = "prompt.dot";

/// The prompt an argument is, unless it names a file, or was meant to: a mistyped name must not start an agent.
pub fn of<'a>(given: &'a Path, path: &Path) -> Option<&'a str> {
    let text = given.to_str()?.trim();
    let is_sentence =
        text.contains(char::is_whitespace) || (!text.is_empty() && !text.contains(|c: char| c.is_ascii()));
    // A name in a directory that is there; `src/main.rs has a bug` starts with one, and is more.
    let is_name = |text: &str| !text.contains(char::is_whitespace);
    let names_a_place =
        || text.rsplit_once('/').is_some_and(|(_, name)| is_name(name)) && path.parent().is_some_and(Path::is_dir);
    let is_path = || path.exists() || is_pipeline_name(text) || names_a_place();
    (is_sentence && !is_path()).then_some(text)
}

/// A failure to read a file, with how to give a prompt where a single word may have been one.
pub fn with_prompt_hint(given: &Path, path: &Path, failure: Failure) -> Failure {
    let is_word = given.to_str().is_some_and(|text| !text.contains('/') && !is_pipeline_name(text)) && !path.exists();
    match failure.hint.as_deref().filter(|_| is_word) {
        Some(hint) => {
            let hint = format!("{hint}; a prompt has several words: `pleach run \"Fix the failing test\"`");
            failure.hint(hint)
        }
        None => failure,
    }
}

/// The built-in pipeline for a prompt.
pub fn pipeline(prompt: &str, config: &Config) -> PipelineFile {
    let test = config.test_of_work().map(|command| PromptTest { command, timeout: config.tree.test_timeout });
    let source = pipeline_for_prompt(prompt, test);
    PipelineFile { name: BUILT_IN.into(), source, files: BTreeMap::new(), is_built_in: true }
}

/// The inputs of the built-in pipeline, with those of the user.
pub fn inputs(prompt: &str, base: CommitId, given: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = [("goal", prompt.to_owned()), ("base", base.to_string())];
    own.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_a_prompt_and_a_path_a_path() {
        let dir = tempfile::TempDir::new().expect("a directory of the test's own");
        std::fs::create_dir(dir.path().join("my pipes")).expect("a directory of the test's own");
        std::fs::write(dir.path().join("my pipes/old"), "digraph {}").expect("a file of the test's own");
        for (given, is_prompt) in [
            ("Fix the failing test", true),
            ("Fix the bug in src/main.rs", true),
            ("修复失败的测试", true),
            ("feature", false),
            ("feature.dot", false),
            ("pipelines/feature", false),
            ("my feature.dot", false),
            ("my pipes/old", false),
            ("my pipes/new", false),
            ("my pipes/new is broken", true),
            ("my pipes/ is out of date", true),
            ("", false),
            ("  ", false),
        ] {
            assert_eq!(of(Path::new(given), &dir.path().join(given)).is_some(), is_prompt, "{given}");
        }
    }
}
