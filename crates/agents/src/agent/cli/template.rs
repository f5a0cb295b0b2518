//! Arguments and variables with placeholders.

use std::collections::BTreeMap;

/// The most of a task that goes into one argument: Linux takes 128 KiB, and other arguments want room too.
const LONGEST_ARGUMENT: usize = 96 << 10;

/// What placeholders stand for. One that is not here stays as it is written; one without a value makes its word go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(BTreeMap<&'static str, Option<String>>);

/// Why arguments cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    /// The task does not fit into an argument.
    #[error("the task has {0} bytes, too many for an argument; use {{prompt_file}}, or `stdin: prompt`")]
    TooLong(usize),
}

impl Values {
    /// Sets what a placeholder stands for.
    pub fn set(&mut self, name: &'static str, value: Option<impl Into<String>>) {
        self.0.insert(name, value.map(Into::into));
    }

    /// A text with its placeholders filled in; none when one has no value.
    pub fn fill(&self, text: &str) -> Option<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let known = after.find('}').and_then(|end| Some((end, self.0.get(&after[..end])?)));
            match known {
                Some((end, value)) => {
                    filled.push_str(value.as_deref()?);
                    rest = &after[end + 1..];
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        Some(filled)
    }

    /// Arguments with their placeholders filled in. A word whose placeholder has no value is left out, and so is an
    /// option right before it.
    pub fn words(&self, template: &[String]) -> Result<Vec<String>, TemplateError> {
        if let Some(Some(prompt)) = self.0.get("prompt")
            && prompt.len() > LONGEST_ARGUMENT
            && template.iter().any(|word| word.contains("{prompt}"))
        {
            return Err(TemplateError::TooLong(prompt.len()));
        }
        let mut words: Vec<String> = Vec::new();
        let mut after_option = false;
        for word in template {
            match self.fill(word) {
                Some(word_filled) => {
                    after_option = is_bare_option(word);
                    words.push(word_filled);
                }
                None if after_option => {
                    words.pop();
                    after_option = false;
                }
                None => after_option = false,
            }
        }
        Ok(words)
    }
}

/// Whether a word is an option whose value is the next word.
fn is_bare_option(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1 && !word.contains(['=', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let mut values = Values::default();
        values.set("prompt", Some("do {model} it"));
        values.set("model", None::<String>);
        values.set("cwd", Some("/x"));
        values
    }

    fn words(template: &[&str]) -> String {
        let template: Vec<String> = template.iter().map(|word| (*word).to_owned()).collect();
        values().words(&template).unwrap().join("|")
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(
            words(&["-p", "{prompt}", "--dir={cwd}", "{other}", "{\"a\":1}", "{"]),
            "-p|do {model} it|--dir=/x|{other}|{\"a\":1}|{"
        );
    }

    #[test]
    fn a_placeholder_without_value_drops_its_option() {
        assert_eq!(words(&["run", "-m", "{model}", "--verbose"]), "run|--verbose");
        assert_eq!(words(&["run", "--model={model}", "x"]), "run|x");
        assert_eq!(words(&["exec", "{model}", "-"]), "exec|-");
        assert_eq!(words(&["-", "{model}"]), "-");
        assert_eq!(words(&["--dir={cwd}", "{model}"]), "--dir=/x");
        assert_eq!(words(&["--verbose", "-m", "{model}", "{model}"]), "--verbose");
    }

    #[test]
    fn a_long_task_is_no_argument() {
        let mut values = values();
        values.set("prompt", Some("x".repeat(LONGEST_ARGUMENT + 1)));
        let error = values.words(&["{prompt}".into()]).unwrap_err().to_string();
        assert!(error.contains("{prompt_file}"), "{error}");
        assert_eq!(values.words(&["{cwd}".into()]).unwrap(), ["/x"]);
    }
}
