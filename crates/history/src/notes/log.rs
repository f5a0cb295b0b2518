//! What a note says: the lines of each file by session and turn, and which agents these were. The format is version 3 of the
//! standard of git-ai, with a key for each session and each turn.

use std::collections::BTreeMap;

use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::text::quoted_path;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use crate::why::joined;

/// How many digits of a hash stand for what was hashed.
const DIGITS: usize = 14;

/// The note of a commit.
#[derive(Debug, Default)]
pub(super) struct AuthorshipLog {
    files: BTreeMap<RepoPath, BTreeMap<String, Vec<(u32, u32)>>>,
    sessions: BTreeMap<String, AiSession>,
}

/// A conversation with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AiSession {
    agent_id: AgentId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct AgentId {
    tool: String,
    id: String,
    model: String,
}

/// What is below the lines.
#[derive(Serialize)]
struct Metadata<'a> {
    schema_version: &'static str,
    base_commit_sha: CommitId,
    prompts: BTreeMap<&'a str, ()>,
    humans: BTreeMap<&'a str, ()>,
    sessions: &'a BTreeMap<String, AiSession>,
}

impl AiSession {
    /// Of a tool, by the id it has there.
    pub fn new(tool: &str, id: &str, model: &str) -> Self {
        Self { agent_id: AgentId { tool: tool.to_owned(), id: id.to_owned(), model: model.to_owned() } }
    }
}

impl AuthorshipLog {
    /// Adds lines of a file that a turn of a session wrote.
    pub fn add(&mut self, path: RepoPath, session: AiSession, turn: &str, lines: (u32, u32)) {
        let key = format!("s_{}", hash(&format!("{}:{}", session.agent_id.tool, session.agent_id.id)));
        let of_turn = format!("{key}::t_{}", hash(turn));
        self.sessions.insert(key, session);
        self.files.entry(path).or_default().entry(of_turn).or_default().push(lines);
    }

    /// The text of the note; none without lines.
    pub fn to_text(&self, commit: CommitId) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let mut text = String::new();
        for (path, turns) in &self.files {
            text.push_str(&format!("{}\n", shown(path)));
            for (key, ranges) in turns {
                let mut ranges = ranges.clone();
                ranges.sort_unstable();
                let range = |(first, last): &(u32, u32)| {
                    if first == last { first.to_string() } else { format!("{first}-{last}") }
                };
                let ranges: Vec<String> = joined(&ranges).iter().map(range).collect();
                text.push_str(&format!("  {key} {}\n", ranges.join(",")));
            }
        }
        let metadata = Metadata {
            schema_version: "authorship/3.0.0",
            base_commit_sha: commit,
            prompts: BTreeMap::new(),
            humans: BTreeMap::new(),
            sessions: &self.sessions,
        };
        let metadata = serde_json::to_string_pretty(&metadata).expect("texts are JSON");
        Some(format!("{text}---\n{metadata}\n"))
    }
}

/// A path in a line of its own: between quotation marks with blanks in it, or where it would be taken for something else.
fn shown(path: &RepoPath) -> String {
    let quoted = quoted_path(path.as_bytes());
    let is_plain = !quoted.starts_with('"');
    if is_plain && (quoted.contains(' ') || quoted == "---") { format!("\"{quoted}\"") } else { quoted }
}

/// The first digits of the SHA-256 of a text.
fn hash(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let mut hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(DIGITS);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::read_ai_note;

    #[test]
    fn a_note_is_read_back_as_it_was_written() {
        let mut log = AuthorshipLog::default();
        let paths = ["a b.txt", "---", "\"q\"", "l\nf\t", "src/é.rs"];
        for (number, path) in (1..).zip(paths) {
            let session = AiSession::new("claude", "abcdefgh/main", "m");
            log.add(path.into(), session.clone(), "abcdefgh/main.1", (number, number));
            log.add(path.into(), session.clone(), "abcdefgh/main.1", (number + 1, number + 1));
            log.add(path.into(), session, "abcdefgh/main.2", (40, 42));
        }
        let commit = CommitId::from_bytes([1; 20]);
        let text = log.to_text(commit).expect("it has lines");
        let mut read: Vec<String> = read_ai_note(text.as_bytes())
            .into_iter()
            .map(|lines| format!("{:?} {:?} {}", lines.path.to_string(), lines.lines, lines.agent))
            .collect();
        let mut expected: Vec<String> = (1..)
            .zip(paths)
            .flat_map(|(number, path)| {
                let path = RepoPath::from(path).to_string();
                [number..=number + 1, 40..=42].map(|lines| format!("{path:?} {lines:?} claude (m)"))
            })
            .collect();
        read.sort();
        expected.sort();
        assert_eq!(read, expected, "{text}");
        assert_eq!(AuthorshipLog::default().to_text(commit), None);
    }

    #[test]
    fn the_text_of_a_note() {
        let mut log = AuthorshipLog::default();
        for lines in [(9, 9), (1, 2), (3, 4)] {
            log.add("hello.sh".into(), AiSession::new("pleach", "abcdefgh/main", "scripted"), "abcdefgh/main.4", lines);
        }
        // The digits are those of `printf %s pleach:abcdefgh/main | sha256sum` and of the turn.
        insta::assert_snapshot!(log.to_text(CommitId::from_bytes([1; 20])).unwrap(), @r#"
        hello.sh
          s_f205ecad279ceb::t_fe60a4f9faa7f1 1-4,9
        ---
        {
          "schema_version": "authorship/3.0.0",
          "base_commit_sha": "0101010101010101010101010101010101010101",
          "prompts": {},
          "humans": {},
          "sessions": {
            "s_f205ecad279ceb": {
              "agent_id": {
                "tool": "pleach",
                "id": "abcdefgh/main",
                "model": "scripted"
              }
            }
          }
        }
        "#);
    }
}
