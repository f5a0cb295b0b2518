//! The built-in pipeline that works on a prompt.

use super::dot;
use super::print::quote;

const UNTESTED: &str = include_str!("../../pipelines/prompt.dot");
const TESTED: &str = include_str!("../../pipelines/prompt-tested.dot");

/// How long a pipeline's name may get: it is part of a branch's name, which people type.
const NAME: usize = 40;

/// The command that tests what was done.
#[derive(Debug, Clone, Copy)]
pub struct PromptTest<'a> {
    /// The command.
    pub command: &'a str,
    /// How many seconds it may take.
    pub timeout: u64,
}

/// The text of the pipeline for a prompt: implement, test where there is a test, review. Its inputs are `goal`, the prompt
/// itself, and `base`, the commit the work starts from.
pub fn pipeline_for_prompt(prompt: &str, test: Option<PromptTest<'_>>) -> String {
    let text = if test.is_some() { TESTED } else { UNTESTED };
    let text = text.replacen("digraph prompt ", &format!("digraph {} ", name(prompt)), 1);
    let Some(PromptTest { command, timeout }) = test else { return text };
    let end = dot::parse(&text).0.close.map_or(text.len(), |brace| brace.start);
    let test = format!("    test [tool_command={}, templates=false, timeout={timeout}s]\n", quote(command));
    format!("{}{test}{}", &text[..end], &text[end..])
}

/// The first words of a prompt as the name of a graph, so that lists and branches show what a session is about.
fn name(prompt: &str) -> String {
    let words = prompt.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::new();
    for word in words {
        if name.len() + word.len() >= NAME {
            break;
        }
        let gap = if name.is_empty() { "" } else { "_" };
        name = format!("{name}{gap}{}", word.to_ascii_lowercase());
    }
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_keyword(&name) {
        name
    } else {
        format!("prompt_{name}").trim_end_matches('_').to_owned()
    }
}

/// Whether a word of the language itself cannot be a name.
fn is_keyword(name: &str) -> bool {
    ["strict", "graph", "digraph", "subgraph", "node", "edge"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lint::KnownNames;
    use crate::plan::{Inputs, validate};

    #[test]
    fn the_built_in_pipelines_have_no_diagnostics() {
        let command = r#"sh -c "test \"$HOME\" && make 'a b'" && grep "{{ title }}" {{ goal }}"#;
        for test in [None, Some(PromptTest { command, timeout: 300 })] {
            let prompt = "Fix the \"$goal\" test {{ now }}";
            let values = [("goal", prompt), ("base", "abc")].map(|(key, value)| (key.to_owned(), value.to_owned()));
            let inputs = Inputs { values: values.into(), ..Inputs::default() };
            let (pipeline, found) = validate(&pipeline_for_prompt(prompt, test), &inputs, &KnownNames::default());
            assert_eq!(found, [], "{test:?}");
            let pipeline = pipeline.expect("a graph");
            assert_eq!(pipeline.goal, prompt);
            assert!(pipeline.nodes().iter().any(|node| node.prompt.starts_with(prompt)), "{:?}", pipeline.nodes());
            let commands: Vec<&str> = pipeline.commands().into_iter().map(|command| command.text).collect();
            assert_eq!(commands, test.map(|test| test.command).as_slice());
        }
    }

    #[test]
    fn a_pipeline_is_named_after_the_prompt() {
        for (prompt, expected) in [
            ("Fix the failing test", "fix_the_failing_test"),
            ("  Don't panic!  ", "don_t_panic"),
            ("3 tests fail", "prompt_3_tests_fail"),
            ("Graph", "prompt_graph"),
            ("修复失败的测试", "prompt"),
            (&"word ".repeat(20), "word_word_word_word_word_word_word_word"),
            (&"x".repeat(90), "prompt"),
        ] {
            assert_eq!(name(prompt), expected, "{prompt}");
        }
    }
}
