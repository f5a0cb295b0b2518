//! The values of its task that a test is given: a line before its command. What they hold is somebody's text, and entries
//! are kept; so they are kept without secrets.

use std::collections::BTreeMap;

use crate::ids::TaskId;
use crate::plan::OF_TASKS;
use crate::redact::Redactor;
use crate::text::shell_word;

const EXPORT: &str = "export";

/// A command that is given the values of a task as variables.
pub fn with_task_values(task: &TaskId, values: &BTreeMap<String, String>, command: &str) -> String {
    format!("{}\necho 'tests of {task}' >&2\n{command}", line_of(values))
}

/// The same command with values that hold no secret. The command itself is what was approved, and stays.
pub fn without_secret_values(command: &str, redactor: &Redactor) -> String {
    let Some((mut values, rest)) = read(command) else { return command.to_owned() };
    values.values_mut().for_each(|value| *value = redactor.text(value).into_owned());
    format!("{}{rest}", line_of(&values))
}

fn line_of(values: &BTreeMap<String, String>) -> String {
    let values = values.iter().map(|(name, value)| format!(" {name}={}", shell_word(value)));
    format!("{EXPORT}{}", values.collect::<String>())
}

/// The values at the beginning of a command, as [`shell_word`] has written them, and what comes after them.
fn read(command: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let list = command.strip_prefix(EXPORT)?;
    let (mut words, mut is_quoted) = (Vec::<String>::new(), false);
    let mut chars = list.char_indices();
    let end = loop {
        match chars.next()? {
            (at, '\n') if !is_quoted => break at,
            (_, ' ') if !is_quoted => words.push(String::new()),
            (_, '\'') => is_quoted = !is_quoted,
            (_, '\\') if !is_quoted => words.last_mut()?.push(chars.next()?.1),
            (_, c) => words.last_mut()?.push(c),
        }
    };
    let mut values = BTreeMap::new();
    for word in words {
        let (name, value) = word.split_once('=').filter(|(name, _)| OF_TASKS.contains(name))?;
        values.insert(name.to_owned(), value.to_owned());
    }
    Some((values, &list[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_task_lose_their_secrets_and_nothing_else() {
        let redactor = Redactor::new([("D_PASSWORD", "it's hunter42")]);
        let values = |name: &str, description: &str| {
            let values = ["T1", name, description].map(str::to_owned);
            OF_TASKS.map(str::to_owned).into_iter().zip(values).collect::<BTreeMap<_, _>>()
        };
        let task: TaskId = "T1".parse().expect("an id");
        let test = "curl -u \"it's hunter42\" x";
        let with = |name: &str, text: &str| with_task_values(&task, &values(name, text), test);
        let clean = with("Log in", "Two 'quoted'\nlines with [redacted:D_PASSWORD]!");
        assert_eq!(
            without_secret_values(&with("Log in", "Two 'quoted'\nlines with it's hunter42!"), &redactor),
            clean,
            "what it runs stays, for that was approved"
        );
        assert_eq!(without_secret_values(&clean, &redactor), clean);
        for own in ["export A='it'\\''s hunter42'\nmake", "make it's hunter42", "export", "export \nx", "export 'a"] {
            assert_eq!(without_secret_values(own, &redactor), own, "somebody's own command");
        }
    }
}
