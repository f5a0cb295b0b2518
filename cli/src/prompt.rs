//! A prompt in place of a pipeline's file: `pleach run "Fix the failing test"`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use os::plain_file;
use pleach_core::config::Config;
use pleach_core::ids::CommitId;
use pleach_core::plan::{PromptTest, pipeline_for_prompt};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::pipeline_file::{PipelineFile, is_pipeline_name};

/// The file name of the built-in pipeline.
pub const BUILT_IN: &str = "prompt.dot";

/// The prompt an argument gives: `-` that of standard input, `@FILE` that of a file, and any other text itself where it is
/// one.
pub fn read<'a>(globals: &Globals, given: &'a Path) -> Result<Option<Cow<'a, str>>, Failure> {
    let Some(text) = given.to_str().map(str::trim) else { return Ok(None) };
    let (from, read) = match text.strip_prefix('@') {
        Some(file) => (format!("`{file}`"), plain_file::read_given(&globals.path(Path::new(file)))),
        None if text == "-" => ("standard input".to_owned(), read_stdin(globals)),
        None => return Ok(of(given, &globals.path(given)).map(Cow::Borrowed)),
    };
    let failed = |message: String| Failure::new(Code::PromptUnreadable, message);
    let hint = "`pleach run -` takes a prompt from standard input, `pleach run @FILE` one from a text file";
    let read = read.map_err(|error| failed(format!("cannot read a prompt from {from}")).because(&error).hint(hint))?;
    match read.trim() {
        "" => Err(failed(format!("{from} has no prompt in it")).hint(hint)),
        prompt => Ok(Some(Cow::Owned(prompt.to_owned()))),
    }
}

/// What standard input has, to its end.
fn read_stdin(globals: &Globals) -> io::Result<String> {
    if io::stdin().is_terminal() && globals.verbosity >= 0 {
        say!("type the prompt, and end it with Ctrl-D on a line of its own");
    }
    io::read_to_string(io::stdin())
}

/// The prompt an argument is, unless it names a file, or was meant to: a mistyped name must not start an agent.
fn of<'a>(given: &'a Path, path: &Path) -> Option<&'a str> {
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
