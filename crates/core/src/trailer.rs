//! Commit messages and the facts in their trailers.
//!
//! A message is a subject, a body and a last paragraph of `Key: value` lines. What is written here reads the same
//! through `git interpret-trailers --parse`, whatever text the body holds.

use crate::config::Attribution;
use crate::ids::{NodeId, PipelineName, SessionId, TurnId};

/// A commit message taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitMessage {
    /// The first paragraph, on one line.
    pub subject: String,
    /// What is between subject and trailers.
    pub body: String,
    /// The trailers in order.
    pub trailers: Vec<(String, String)>,
}

/// What git's trailer parser takes for the end of a message when a line starts with it.
const DIVIDER: &str = "---";

/// What git takes for the end of a message when a comment line holds nothing else.
const SCISSORS: &str = "------------------------ >8 ------------------------";

/// How the line starts that `git cherry-pick -x` puts among the trailers.
const COPIED: &str = "(cherry picked from commit ";

/// A message without what `git cherry-pick -x` has added to it.
pub(crate) fn before_copied(message: &[u8]) -> &[u8] {
    let mut before = message;
    loop {
        let text = before.trim_ascii_end();
        let last = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if !text[last..].starts_with(COPIED.as_bytes()) {
            return before;
        }
        before = &before[..last];
    }
}

impl CommitMessage {
    /// The message git is given. Subject and trailers are put on one line each; in the body, line ends become `\n`
    /// and NUL, which no commit can hold, becomes U+FFFD. A message without trailers whose body ends in what looks like
    /// some reads as if they were: give it at least one.
    pub fn write(&self) -> String {
        let mut text = String::new();
        let subject = one_line(&self.subject);
        text.push_str(if ends_message(&subject) { " " } else { "" });
        text.push_str(&subject);
        let lines = lines(&self.body).map(|line| line.replace('\0', "\u{fffd}"));
        let body = lines.collect::<Vec<_>>().join("\n");
        let body = body.trim_matches('\n').trim_end();
        for (index, line) in body.lines().enumerate() {
            text.push_str(if index == 0 { "\n\n" } else { "\n" });
            text.push_str(if ends_message(line) { " " } else { "" });
            text.push_str(line);
        }
        text.push('\n');
        for (index, (key, value)) in self.trailers.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { "" });
            text.push_str(&format!("{key}: {}\n", one_line(value)));
        }
        text
    }

    /// Takes a message apart. Any text is a message; one without trailers has none.
    ///
    /// Messages are read as commits hold them, where no patch follows: a `---` line in the body (test output is full of
    /// them) belongs to the body and does not hide the trailers below it.
    pub fn read(text: &str) -> Self {
        let lines: Vec<&str> = lines(text).collect();
        let first = lines.iter().position(|line| !is_blank(line)).unwrap_or(lines.len());
        let end = lines.iter().rposition(|line| !is_blank(line)).map_or(first, |last| last + 1);
        let subject_end = lines[first..end].iter().position(|line| is_blank(line)).map_or(end, |at| first + at);
        let subject = one_line(&lines[first..subject_end].join(" "));
        let last = lines[subject_end..end].iter().rposition(|line| is_blank(line));
        let start = last.map_or(end, |at| subject_end + at + 1);
        let trailers = read_block(&lines[start..end]);
        let body_end = if trailers.is_some() { start } else { end };
        let body = lines[subject_end..body_end].iter().map(|line| undecorated(line));
        let body = body.collect::<Vec<_>>().join("\n").trim_matches('\n').trim_end().to_owned();
        Self { subject, body, trailers: trailers.unwrap_or_default() }
    }

    /// The newest value of a trailer; names are compared without case, as git does.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case(key);
        self.trailers.iter().rev().find(named).map(|(_, value)| value.as_str())
    }
}

/// Whether a text is in a trailer as it is, so that it is read back the same.
pub fn fits(text: &str) -> bool {
    one_line(text) == text
}

/// Text on one line, without control characters. A no-break space stays: names of branches may hold one.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c == ' ' || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let words = text.split(breaks).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The lines of a text, whichever system ended them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').map(|line| line.trim_end_matches('\r'))
}

/// What git takes for an empty line.
fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| b" \t\r".contains(&byte))
}

/// Whether git could take the line for the end of the message, once the spaces in front of it are gone.
fn ends_message(line: &str) -> bool {
    let bare = line.trim_start_matches(' ');
    bare.starts_with(DIVIDER) || bare.ends_with(SCISSORS)
}

/// Takes off the one space [`CommitMessage::write`] put in front of such a line.
fn undecorated(line: &str) -> &str {
    if ends_message(line) { line.strip_prefix(' ').unwrap_or(line) } else { line }
}

/// The trailers of a paragraph in which every line is one, goes on with one, or says where git copied the commit from.
fn read_block(lines: &[&str]) -> Option<Vec<(String, String)>> {
    let mut trailers: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            let (_, value) = trailers.last_mut()?;
            value.push(' ');
            value.push_str(line.trim_ascii());
            continue;
        }
        if line.starts_with(COPIED) {
            continue;
        }
        let (key, value) = line.split_once(':')?;
        let key = key.trim_ascii_end();
        let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plain {
            return None;
        }
        trailers.push((key.to_owned(), value.trim_ascii().to_owned()));
    }
    (!trailers.is_empty()).then_some(trailers)
}

/// The trailer that says which agent and model a commit is the work of, where the settings ask for one.
pub fn attribution(policy: Attribution, agent: &str, model: &str) -> Option<(String, String)> {
    // A program that names no model is its own.
    let model = Some(model).filter(|model| !model.is_empty() && *model != agent);
    let plain = |text: &str| text.replace(['<', '>'], "");
    match policy {
        Attribution::None => None,
        Attribution::AssistedBy => {
            let model = model.map(|model| format!(":{}", plain(model))).unwrap_or_default();
            Some(("Assisted-by".to_owned(), format!("{}{model}", plain(agent))))
        }
        Attribution::CoAuthoredBy => {
            let model = model.map(|model| format!(" ({})", plain(model))).unwrap_or_default();
            Some(("Co-authored-by".to_owned(), format!("{}{model} <orchestra@local>", plain(agent))))
        }
    }
}

/// What the trailers of a turn commit say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFacts {
    /// The model that did the turn.
    pub model: String,
    /// The model's provider.
    pub provider: String,
    /// The node.
    pub node: NodeId,
    /// The pipeline.
    pub pipeline: PipelineName,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
}

/// The trailer of a commit that brings back the code of a turn.
pub const RETURNS_TRAILER: &str = "Pleach-Returns";

impl TurnFacts {
    /// The trailers, in the order they are written.
    pub fn trailers(&self) -> Vec<(String, String)> {
        [
            ("Orchestra-Model", self.model.clone()),
            ("Orchestra-Provider", self.provider.clone()),
            ("Orchestra-Node", self.node.to_string()),
            ("Orchestra-Pipeline", self.pipeline.to_string()),
            ("Orchestra-Session", self.session.to_string()),
            ("Orchestra-Turn", self.turn.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// The model and the provider of turns that commands have taken.
    pub const COMMAND: (&str, &str) = ("tool", "local");

    /// Whether a command took the turn, and no agent.
    pub fn is_of_command(&self) -> bool {
        (self.model.as_str(), self.provider.as_str()) == Self::COMMAND
    }

    /// The facts of a turn commit; none when the message is not one of a turn.
    pub fn read(message: &CommitMessage) -> Option<Self> {
        let parsed = |key| message.trailer(key);
        Some(Self {
            model: parsed("Orchestra-Model")?.to_owned(),
            provider: parsed("Orchestra-Provider")?.to_owned(),
            node: parsed("Orchestra-Node")?.parse().ok()?,
            pipeline: parsed("Orchestra-Pipeline")?.parse().ok()?,
            session: parsed("Orchestra-Session")?.parse().ok()?,
            turn: parsed("Orchestra-Turn")?.parse().ok()?,
        })
    }
}
