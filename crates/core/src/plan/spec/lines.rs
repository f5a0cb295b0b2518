//! What a single line of a spec is.

use std::sync::LazyLock;

use regex::Regex;

use crate::ids::TaskId;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant that the tests use")
}

/// How a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Text,
    /// The mark that opens a code fence.
    Opens,
    /// The mark that closes it.
    Closes,
    /// Inside of a code fence.
    Code,
    Comment,
}

pub(super) struct SpecLine<'t> {
    /// From 1.
    pub number: u64,
    pub kind: LineKind,
    pub text: &'t str,
}

/// The lines of a text, with fences and comments distinguished from the rest.
pub(super) struct SpecLines<'t> {
    lines: std::iter::Zip<std::ops::RangeFrom<u64>, std::str::Lines<'t>>,
    open: Option<OpenBlock<'t>>,
}

/// What was opened and is not closed yet, and in which line.
enum OpenBlock<'t> {
    Fence(&'t str, u64),
    Comment(u64),
}

impl<'t> SpecLines<'t> {
    pub fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { lines: (1..).zip(text.lines()), open: None }
    }

    /// What is wrong at the end of the text: a fence or a comment that hides all the rest of it.
    pub fn never_closed(&self) -> Option<(u64, String)> {
        let (line, what) = match self.open.as_ref()? {
            OpenBlock::Fence(_, line) => (line, "code fence"),
            OpenBlock::Comment(line) => (line, "comment"),
        };
        Some((*line, format!("unclosed {what}; everything below it is ignored")))
    }

    fn kind(&mut self, number: u64, text: &'t str) -> LineKind {
        let trimmed = text.trim();
        match self.open {
            Some(OpenBlock::Fence(mark, _)) => {
                let closes = trimmed.starts_with(mark) && trimmed.trim_start_matches(&mark[..1]).is_empty();
                if closes {
                    self.open = None;
                }
                if closes { LineKind::Closes } else { LineKind::Code }
            }
            Some(OpenBlock::Comment(_)) => {
                if trimmed.contains("-->") {
                    self.open = None;
                }
                LineKind::Comment
            }
            None => {
                if let Some(mark) = fence(trimmed) {
                    self.open = Some(OpenBlock::Fence(mark, number));
                    return LineKind::Opens;
                }
                let Some(comment) = trimmed.strip_prefix("<!--") else { return LineKind::Text };
                if !comment.contains("-->") {
                    self.open = Some(OpenBlock::Comment(number));
                }
                LineKind::Comment
            }
        }
    }
}

impl<'t> Iterator for SpecLines<'t> {
    type Item = SpecLine<'t>;

    fn next(&mut self) -> Option<SpecLine<'t>> {
        let (number, text) = self.lines.next()?;
        Some(SpecLine { number, kind: self.kind(number, text), text })
    }
}

/// The mark of a fence this line opens.
pub(in crate::plan) fn fence(line: &str) -> Option<&str> {
    let mark = ["`", "~"].into_iter().find(|mark| line.starts_with(mark))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    // Three backticks on both sides are a word in the line, not a block.
    (length >= 3 && !(mark == "`" && info.contains('`'))).then(|| &line[..length])
}

/// The level and the title of a heading.
pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
    static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^ {0,3}(#{1,6})(?:\s+(.*?))??(?:\s+#+)?\s*$"));
    let found = HEADING.captures(line)?;
    Some((found[1].len(), found.get(2).map_or("", |title| title.as_str())))
}

/// The number and the name of a phase, from its heading.
pub(super) fn phase(title: &str) -> Option<(&str, &str)> {
    static PHASE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?i:phase)\s+(\d+(?:\.\d+)*[A-Za-z]?)(?:\s*[:.–—-]\s*|\s+|$)(.*)$"));
    let (_, [number, name]) = PHASE.captures(title)?.extract();
    Some((number, name))
}

/// Whether a heading of the second level starts the dependencies.
pub(super) fn is_dependencies(title: &str) -> bool {
    let first = title.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    first.eq_ignore_ascii_case("dependencies")
}

/// Whether a heading looks like that of a phase.
pub(super) fn is_like_phase(title: &str) -> bool {
    static LIKE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)\bphase\b|^(?:\d+[.)]\s*)?(?:stage|milestone|sprint|iteration|part)\s+(?:\d|[ivx]+\b|one\b|two\b|three\b)",
        )
    });
    LIKE.is_match(title)
}

/// Whether a heading looks like that of the dependencies.
pub(super) fn is_like_dependencies(title: &str) -> bool {
    static LIKE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\b(?:dependency|dependencies|depends\s+on)\b"));
    LIKE.is_match(title)
}

/// A line with a box.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskLine<'t> {
    pub done: bool,
    pub id: Option<TaskId>,
    pub title: &'t str,
    /// Where its text begins in the line, id and mark included.
    pub text_at: usize,
}

/// The task a line is: an item of a list, with numbers or without, that starts with a box. An id has a digit in it, so
/// that the first word of a title is not taken for one. No box is what a link starts with, or a type (`[]byte`).
pub(super) fn task(line: &str) -> Option<TaskLine<'_>> {
    static TASK: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^\s*(?:[-*+]|[0-9]{1,9}[.)])\s*\[(\s*|[xX])\](?:\s+(.*?)|([\p{Alphabetic}\p{Nd}*`_].*?))?\s*$")
    });
    let found = TASK.captures(line)?;
    let at_once = found.get(3);
    if at_once.is_some() && found[1].is_empty() {
        return None;
    }
    let text = found.get(2).or(at_once).map_or("", |text| text.as_str());
    let (word, title) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.trim_matches(['*', '`']).trim_end_matches(':').trim_matches(['*', '`']);
    let id = TaskId::new(word).ok().filter(|_| word.contains(|c: char| c.is_ascii_digit()));
    let title = if id.is_some() { title.trim_start() } else { text };
    let title = title.strip_prefix("[P]").unwrap_or(title).trim_start();
    // The text is what the line ends with, but for blanks.
    let text_at = line.trim_end().len() - text.len();
    Some(TaskLine { done: !found[1].trim().is_empty(), id, title, text_at })
}

/// How far a line is indented; a tab goes to the next multiple of four.
pub(super) fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| c.is_whitespace());
    blanks.fold(0, |width, c| if c == '\t' { width + 4 - width % 4 } else { width + 1 })
}

/// A text without the indentation all of its lines share, and without blank lines around it.
pub(super) fn unindented(text: &str) -> String {
    let full = || text.lines().filter(|line| !line.trim().is_empty());
    let blanks = |line: &str| line.len() - line.trim_start().len();
    let shared = full().map(blanks).min().unwrap_or(0);
    // Lines that mix tabs and blanks may be cut in the middle of a wider character.
    let cut = |line: &str| line.get(shared..).unwrap_or_else(|| line.trim_start()).trim_end().to_owned();
    let lines: Vec<String> = text.lines().map(cut).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}
