//! What the title of a task says it depends on.

use std::sync::LazyLock;

use regex::Regex;

use super::dependency_line::{self, Dependency};
use super::location::SpecLocation;
use crate::ids::TaskId;

/// A title that speaks of what its task depends on.
pub(super) struct TitleDependency {
    pub place: SpecLocation,
    task: TaskId,
    /// The words, as they are written.
    words: String,
    /// What follows `depends on`, or means the same.
    on: String,
    /// It is written as `(depends on …)`, which is read.
    is_read: bool,
}

impl TitleDependency {
    /// What a title says; none if it does not speak of that.
    pub fn find(place: SpecLocation, task: &TaskId, title: &str) -> Option<Self> {
        static READ: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)[(\[]depends on:?\s+([^)\]]+)[)\]]"));
        static LIKE: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r"(?i)\b(?:depends on|after|needs|requires|blocked by|waits for):?\s+([^\s,;)\]]+)")
        });
        let (found, is_read) = match READ.captures(title) {
            Some(found) => (found, true),
            None => (LIKE.captures(title)?, false),
        };
        Some(Self { place, task: task.clone(), words: found[0].to_owned(), on: found[1].trim().to_owned(), is_read })
    }

    /// The dependencies, or a warning about words that may have been meant as some. Prose names no task.
    pub fn read(
        &self,
        is_known: impl Fn(&str) -> bool,
        links: &[Dependency],
    ) -> Result<Vec<Dependency>, Option<String>> {
        let named = dependency_line::side(&self.on.replace(" and ", ",").replace('&', ",")).unwrap_or_default();
        let (ids, unknown): (Vec<_>, Vec<_>) = named.iter().partition(|id| is_known(id));
        let (words, task) = (&self.words, &self.task);
        if self.is_read && !ids.is_empty() && unknown.is_empty() {
            let link =
                |before: &String| Dependency { place: self.place, before: before.clone(), after: task.to_string() };
            return Ok(ids.into_iter().map(link).collect());
        }
        if self.is_read {
            let what = unknown.first().map_or_else(|| self.on.clone(), |id| (*id).clone());
            return Err(Some(format!(
                "`{words}` is not read as a dependency: the spec has no task, phase or group `{what}`; write ids, as in \
                 `(depends on T001)`"
            )));
        }
        let is_linked = |id: &&&String| links.iter().any(|link| link.before == ***id && link.after == task.as_str());
        Err(ids.iter().find(|id| !is_linked(id)).map(|before| {
            format!("`{words}` is not read as a dependency; write `{before} → {task}` below `## Dependencies` to make it one")
        }))
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant that the tests use")
}
