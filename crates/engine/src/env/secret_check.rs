//! Checks input that is recorded verbatim, because it must run again unchanged, for secrets.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Error;
use pleach_core::plan::diagnostic::Span;
use pleach_core::plan::dot::{self, AttrEntry, AttrValue, Ident, Statement};
use pleach_core::plan::{GATE_PIPELINE, STEP_ATTRIBUTES, TASK_PIPELINE};
use pleach_core::redact::{Redactor, TOKEN};

/// Refuses a pipeline that holds a secret, in itself or in a file it names. The built-in pipelines hold none, whatever
/// words they contain.
pub(crate) fn pipeline(
    redactor: &Redactor,
    path: &str,
    dot: &str,
    files: &BTreeMap<String, String>,
) -> Result<(), Error> {
    match [TASK_PIPELINE, GATE_PIPELINE].into_iter().find_map(|own| Some((own, added_to(own, dot)?))) {
        Some((own, added)) => {
            let what = format!("what `tree.steps` or --model put into `{path}`");
            refuse(redactor, &what, &without_names(own, dot, added))?;
        }
        None => refuse(redactor, &format!("`{path}`"), dot)?,
    }
    files.iter().try_for_each(|(name, text)| refuse(redactor, &format!("`{name}`"), text))
}

/// Refuses session inputs that hold a secret. Commands get them as variables with these names.
pub(crate) fn inputs(redactor: &Redactor, inputs: &BTreeMap<String, String>) -> Result<(), Error> {
    inputs.iter().try_for_each(|(key, value)| {
        refuse(redactor, "the name of an input", key)?;
        refuse(redactor, &format!("input `{key}`"), value)
    })
}

/// Refuses a text that holds a secret.
pub(crate) fn text(redactor: &Redactor, what: &str, text: &str) -> Result<(), Error> {
    refuse(redactor, what, text)
}

fn refuse(redactor: &Redactor, what: &str, text: &str) -> Result<(), Error> {
    match redactor.name_in(text) {
        None => Ok(()),
        Some(name) if name == TOKEN => Err(Error::Token { what: what.to_owned() }),
        Some(variable) => Err(Error::Secret { what: what.to_owned(), variable }),
    }
}

/// The range that was inserted into `own` to get `text`, if that is the only difference.
fn added_to(own: &str, text: &str) -> Option<Range<usize>> {
    let begin = own.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let end = text.len().checked_sub(own.len() - begin)?;
    (begin <= end && text.as_bytes()[end..] == own.as_bytes()[begin..]).then_some(begin..end)
}

/// The text added to a pipeline, without the names of nodes it already had and of attributes and agents from settings.
fn without_names(own: &str, dot: &str, added: Range<usize>) -> String {
    let nodes = |text: &str| -> Vec<Statement> {
        let all = dot::parse(text).0.statements;
        all.into_iter().filter(|statement| matches!(statement, Statement::Node { .. })).collect()
    };
    let known: Vec<String> = nodes(own).iter().filter_map(id).map(|id| id.text.clone()).collect();
    let all = nodes(dot);
    let nodes = all.iter().filter_map(id).filter(|id| known.contains(&id.text));
    let names = nodes.chain(all.iter().flat_map(keys)).map(|name| name.span).chain(all.iter().flat_map(agents));
    let mut rest = dot.as_bytes()[added.clone()].to_vec();
    for span in names.filter(|span| added.contains(&span.start) && span.end <= added.end) {
        rest[span.start - added.start..span.end - added.start].fill(b' ');
    }
    String::from_utf8_lossy(&rest).into_owned()
}

fn id(statement: &Statement) -> Option<&Ident> {
    match statement {
        Statement::Node { id, .. } => Some(id),
        _ => None,
    }
}

fn attributes(statement: &Statement) -> &[AttrEntry] {
    match statement {
        Statement::Node { attrs, .. } => attrs,
        _ => &[],
    }
}

/// The names of attributes that settings put into a pipeline.
fn keys(statement: &Statement) -> impl Iterator<Item = &Ident> {
    attributes(statement).iter().map(|attr| &attr.key).filter(|key| STEP_ATTRIBUTES.contains(&key.text.as_str()))
}

/// The names of agents. Settings record a name as well; a value with a colon is a command.
fn agents(statement: &Statement) -> impl Iterator<Item = Span> {
    let is_name = |value: &AttrValue| matches!(value, AttrValue::Text(text) if !text.contains(':'));
    let named = move |attr: &&AttrEntry| attr.key.text == "agent" && is_name(&attr.value);
    attributes(statement).iter().filter(named).map(|attr| attr.value_span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(secret: &str, dot: &str) -> Option<String> {
        let redactor = Redactor::new([("D_PASSWORD", secret)]);
        pipeline(&redactor, "task.dot", dot, &BTreeMap::new()).err().map(|error| error.to_string())
    }

    fn with(statement: &str) -> String {
        let end = TASK_PIPELINE.rfind('}').unwrap();
        format!("{}{statement}{}", &TASK_PIPELINE[..end], &TASK_PIPELINE[end..])
    }

    #[test]
    fn no_word_of_what_comes_with_pleach_is_a_secret() {
        let settings = "    implement [agent=\"mine\", llm_model=\"big\", timeout=\"5s\"]\n";
        for dot in [TASK_PIPELINE.to_owned(), GATE_PIPELINE.to_owned(), with(settings)] {
            let words = dot.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words.filter(|word| word.len() >= 6) {
                assert_eq!(refused(word, &dot), None, "{word}");
            }
        }
        // The name of an agent is a key of the settings.
        assert_eq!(refused("reviewer", &with("    review [agent=\"reviewer\"]\n")), None);
        assert!(refused("reviewer", &with("    review [agent=\"command:reviewer\"]\n")).is_some());
    }

    #[test]
    fn what_others_have_written_is_refused() {
        let what = "what `tree.steps` or --model put into `task.dot` contains the value of `D_PASSWORD`";
        for added in [
            "    implement [agent=\"command:x --key orchid\"]\n",
            "    implement [llm_model=\"orchid\"]\n",
            "    orchid [agent=\"x\"]\n",
            "    implement [orchid=\"x\"]\n",
            "    implement [agent=\"x\"] // orchid\n",
            "    start -> review [label=\"orchid\"]\n",
        ] {
            let refused = refused("orchid", &with(added));
            assert!(refused.as_ref().is_some_and(|why| why.starts_with(what)), "{added}: {refused:?}");
        }
        let other = TASK_PIPELINE.replace("Review", "orchid");
        assert!(refused("orchid", &other).is_some_and(|why| why.starts_with("`task.dot` contains the value of")));
        // Any word of another pipeline may be a secret.
        assert!(refused("implement", &other).is_some());
        let redactor = Redactor::new([("D_PASSWORD", "orchid")]);
        for (key, value) in [("a", "an orchid"), ("orchid", "b")] {
            assert!(inputs(&redactor, &[(key.to_owned(), value.to_owned())].into()).is_err(), "{key}");
        }
    }
}
