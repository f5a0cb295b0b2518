//! A line below `## Dependencies`, read on its own.

use super::lines;
use super::location::SpecLocation;
use crate::ids::TaskId;

/// That one thing is to be done before another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    pub place: SpecLocation,
    pub before: String,
    pub after: String,
}

/// Reads one line. `A → B` puts A before B, `A -> B` lets A depend on B; both may have lists on either side and
/// continue.
pub(super) fn read(place: SpecLocation, line: &str) -> Result<Vec<Dependency>, String> {
    let text = content(line);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let arrow = match (text.contains('→'), text.contains("->")) {
        (true, false) => "→",
        (false, true) => "->",
        (true, true) => {
            return Err("`→` and `->` in one line: `A → B` puts A before B, `A -> B` lets A depend on B".to_owned());
        }
        (false, false) => {
            return Err(format!("`{text}` is not a dependency; write `A → B, C` to put A before B and C"));
        }
    };
    let sides: Vec<Vec<String>> = text.split(arrow).map(side).collect::<Result<_, _>>()?;
    let mut links = Vec::new();
    for pair in sides.windows(2) {
        let (before, after) = if arrow == "→" { (&pair[0], &pair[1]) } else { (&pair[1], &pair[0]) };
        let each = after.iter().flat_map(|after| before.iter().map(move |before| (before.clone(), after.clone())));
        links.extend(each.map(|(before, after)| Dependency { place, before, after }));
    }
    Ok(links)
}

/// A line that has `->`, and what says the same with `→`; none for any other line.
pub(super) fn ascii_arrow(line: &str) -> Option<(String, String)> {
    let text = content(line);
    let mut sides: Vec<&str> = text.split("->").map(str::trim).collect();
    sides.reverse();
    (sides.len() > 1).then(|| (text.to_owned(), sides.join(" → ")))
}

/// A line without its bullet, marks and comment; nothing of it when it only orders the others for the eye.
fn content(line: &str) -> &str {
    let line = line.trim();
    let mut marks = line.chars().filter(|c| *c != ' ').peekable();
    let mark = marks.peek().copied().filter(|mark| "-*_".contains(*mark));
    let is_rule = line.len() >= 3 && mark.is_some_and(|mark| marks.all(|c| c == mark));
    if is_rule {
        return "";
    }
    let line = ["- ", "* ", "+ "].into_iter().find_map(|bullet| line.strip_prefix(bullet)).unwrap_or(line);
    let comment = line.match_indices('#').find(|(at, _)| line[..*at].ends_with(char::is_whitespace) || *at == 0);
    let line = comment.map_or(line, |(at, _)| &line[..at]).trim();
    let caption = line.ends_with(':') && line.starts_with("Within ");
    if caption { "" } else { line }
}

/// The ids on one side of an arrow, or in a title.
pub(super) fn side(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(|name| name.trim().trim_matches(['*', '`']).trim());
    let ids = names.map(|name| match lines::phase(name) {
        Some((number, "")) => Ok(format!("phase{number}")),
        _ if name.is_empty() => Err("missing name next to an arrow or a comma".to_owned()),
        _ => TaskId::new(name).map(String::from).map_err(|_| {
            format!("`{name}` is neither a task nor a phase: write `T001`, `Phase 1` or the like, with commas between")
        }),
    });
    ids.collect()
}
