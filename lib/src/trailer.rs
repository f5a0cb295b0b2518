//! Commit messages and the facts in their trailers.
//!
//! A message is a subject, a body and a last paragraph of `Key: value` lines. What is written here reads the same
//! through `git interpret-trailers --parse`, whatever text the body holds.

use crate::ids::{NodeId, PipelineName, SessionId, TurnId};

/// A commit message taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The first paragraph, on one line.
    pub subject: String,
    /// What stands between subject and trailers.
    pub body: String,
    /// The trailers in order.
    pub trailers: Vec<(String, String)>,
}

/// A line git takes for the end of a message, and the space that keeps it from doing so.
const DIVIDER: &str = "---";

impl Message {
    /// The message git is given.
    pub fn write(&self) -> String {
        let mut text = one_line(&self.subject);
        let body = self.body.replace("\r\n", "\n");
        let body = body.trim_matches('\n').trim_end();
        if !body.is_empty() {
            text.push_str("\n\n");
            let lines = body.lines().map(|line| match undecorated(line) {
                Some(_) => format!(" {line}"),
                None => line.to_owned(),
            });
            text.push_str(&lines.collect::<Vec<_>>().join("\n"));
        }
        text.push('\n');
        for (index, (key, value)) in self.trailers.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { "" });
            text.push_str(&format!("{key}: {}\n", one_line(value)));
        }
        text
    }

    /// Takes a message apart. Any text is a message; one without trailers has none.
    pub fn read(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        let lines: Vec<&str> = text.lines().take_while(|line| !is_divider(line)).collect();
        let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(lines.len());
        let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(first, |last| last + 1);
        let subject_end = lines[first..end].iter().position(|line| line.trim().is_empty()).map_or(end, |at| first + at);
        let subject = lines[first..subject_end].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let last = lines[subject_end..end].iter().rposition(|line| line.trim().is_empty());
        let start = last.map_or(end, |at| subject_end + at + 1);
        let trailers = read_block(&lines[start..end]);
        let body_end = if trailers.is_some() { start } else { end };
        let body = lines[subject_end..body_end].iter().map(|line| undecorated_body(line));
        let body = body.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned();
        Self { subject, body, trailers: trailers.unwrap_or_default() }
    }

    /// The newest value of a trailer; names are compared without case, as git does.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case(key);
        self.trailers.iter().rev().find(named).map(|(_, value)| value.as_str())
    }
}

/// Text on one line, without control characters.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn is_divider(line: &str) -> bool {
    line.strip_prefix(DIVIDER).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// The line without the spaces in front of what would be a divider.
fn undecorated(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches(' ');
    bare.starts_with(DIVIDER).then_some(bare)
}

/// Takes off the one space [`Message::write`] put in front of such a line.
fn undecorated_body(line: &str) -> &str {
    match undecorated(line) {
        Some(_) => line.strip_prefix(' ').unwrap_or(line),
        None => line,
    }
}

/// The trailers of a paragraph in which every line is one, or goes on with one.
fn read_block(lines: &[&str]) -> Option<Vec<(String, String)>> {
    let mut trailers: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            let (_, value) = trailers.last_mut()?;
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (key, value) = line.split_once(':')?;
        let key = key.trim_end();
        let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plain {
            return None;
        }
        trailers.push((key.to_owned(), value.trim().to_owned()));
    }
    (!trailers.is_empty()).then_some(trailers)
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

    /// The facts of a turn commit; none when the message is not one of a turn.
    pub fn read(message: &Message) -> Option<Self> {
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
