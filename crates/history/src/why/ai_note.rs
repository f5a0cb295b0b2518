//! Notes of git-ai (`refs/notes/ai`): which lines of a commit an agent wrote that pleach did not run.
//!
//! A note names files, below each the lines of a key, and after `---` what the keys stand for. Keys of sessions begin with
//! `s_`, those of people with `h_`; older ones are hexadecimal.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use git::{Repo, TreeId};
use serde_json::Value;

use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::text::unquoted_path;

/// Where they are.
pub const AI_NOTES: &str = "refs/notes/ai";

/// The notes of a repository, each read once.
#[derive(Debug, Default)]
pub struct AiNotes {
    tree: Option<TreeId>,
    read: RefCell<HashMap<CommitId, Rc<Vec<AiLines>>>>,
}

/// Lines that an agent wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AiLines {
    /// The file in the commit.
    pub path: RepoPath,
    /// The lines there, counted from 1.
    pub lines: RangeInclusive<u32>,
    /// The tool, and the model where it is known.
    pub agent: String,
}

impl AiNotes {
    /// Finds them.
    pub fn find(repo: &Repo) -> Result<Self, git::Error> {
        let tree = repo.refs().find(AI_NOTES)?.map(|at| repo.tree_of(at)).transpose()?;
        Ok(Self { tree, ..Self::default() })
    }

    /// The lines of agents in a commit.
    pub fn of(&self, repo: &Repo, commit: CommitId) -> Result<Rc<Vec<AiLines>>, git::Error> {
        if let Some(known) = self.read.borrow().get(&commit) {
            return Ok(known.clone());
        }
        let note = self.tree.map_or(Ok(None), |tree| git::note_of(repo, tree, commit))?;
        let found = Rc::new(note.map(|note| read(&note)).unwrap_or_default());
        self.read.borrow_mut().insert(commit, found.clone());
        Ok(found)
    }
}

/// What a note says; what cannot be read of it says nothing.
pub fn read(note: &[u8]) -> Vec<AiLines> {
    let text = String::from_utf8_lossy(note);
    let (lines, keys) = text.split_once("\n---").unwrap_or((&text, ""));
    let keys: Value = serde_json::from_str(keys).unwrap_or_default();
    let (mut found, mut path) = (Vec::new(), None);
    for line in lines.lines() {
        let Some(of_file) = line.strip_prefix("  ") else {
            path = unquoted_path(line.trim_end().as_bytes()).map(RepoPath::new);
            continue;
        };
        let Some((path, (key, ranges))) = path.as_ref().zip(of_file.trim().split_once(' ')) else { continue };
        if key.starts_with("h_") {
            continue;
        }
        let agent = agent(&keys, key);
        for range in ranges.split(',') {
            let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
                found.push(AiLines { path: path.clone(), lines: first..=last, agent: agent.clone() });
            }
        }
    }
    found
}

/// The tool and the model a key stands for.
fn agent(keys: &Value, key: &str) -> String {
    let session = key.split("::").next().unwrap_or(key);
    let of = ["sessions", "prompts"].iter().find_map(|part| keys[*part].get(session).or_else(|| keys[*part].get(key)));
    let id = of.map(|of| &of["agent_id"]);
    let word = |name: &str| id.and_then(|id| id[name].as_str()).filter(|word| !word.is_empty());
    match (word("tool"), word("model")) {
        (Some(tool), Some(model)) => format!("{tool} ({model})"),
        (Some(tool), None) => tool.to_owned(),
        (None, _) => "an agent (git-ai)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_key_is_read() {
        let note = "src/a.rs\n  s_0123456789abcd::t_0123456789abcd 1-2,9\n  h_0123456789abcd 3-4\n\"a\\tb\"\n  \
                    d4a7828bfdafe456 5-6\n  abc1234 7\nbroken\n  x\n  y 1-z\n---\n{\"schema_version\":\"authorship/3.0.0\",\
                    \"sessions\":{\"s_0123456789abcd\":{\"agent_id\":{\"tool\":\"claude\",\"id\":\"1\",\"model\":\"opus\"}}},\
                    \"prompts\":{\"d4a7828bfdafe456\":{\"agent_id\":{\"tool\":\"cursor\"}}}}";
        let found: Vec<_> = read(note.as_bytes())
            .into_iter()
            .map(|lines| format!("{} {:?} {}", lines.path, lines.lines, lines.agent))
            .collect();
        let expected = [
            "src/a.rs 1..=2 claude (opus)",
            "src/a.rs 9..=9 claude (opus)",
            "\"a\\tb\" 5..=6 cursor",
            "\"a\\tb\" 7..=7 an agent (git-ai)",
        ];
        assert_eq!(found, expected);
        assert_eq!(read(b"\xff\n  no ranges"), []);
    }

    /// The lines and agents of the examples in version 3.0.0 of git-ai's standard.
    #[test]
    fn the_examples_of_the_standard_are_read() {
        let complete = "src/main.rs\n  abcd1234abcd1234 1-10,15-20\n  efgh5678efgh5678 25,30-35\nsrc/lib.rs\n  \
                        abcd1234abcd1234 1-50\n---\n{\"schema_version\":\"authorship/3.0.0\",\"git_ai_version\":\"1.0.23\",\
                        \"base_commit_sha\":\"7734793b756b3921c88db5375a8c156e9532447b\",\"prompts\":{\"abcd1234abcd1234\":\
                        {\"agent_id\":{\"tool\":\"cursor\",\"id\":\"6ef2299e\",\"model\":\"claude-4.5-opus\"},\"messages\":[]},\
                        \"efgh5678efgh5678\":{\"agent_id\":{\"tool\":\"cursor\",\"id\":\"a1b2c3d4\",\"model\":\
                        \"claude-3-sonnet\"},\"messages\":[]}}}";
        let shown = |note: &str| -> Vec<String> {
            let lines = read(note.as_bytes()).into_iter();
            lines.map(|lines| format!("{} {:?} {}", lines.path, lines.lines, lines.agent)).collect()
        };
        let expected = [
            "src/main.rs 1..=10 cursor (claude-4.5-opus)",
            "src/main.rs 15..=20 cursor (claude-4.5-opus)",
            "src/main.rs 25..=25 cursor (claude-3-sonnet)",
            "src/main.rs 30..=35 cursor (claude-3-sonnet)",
            "src/lib.rs 1..=50 cursor (claude-4.5-opus)",
        ];
        assert_eq!(shown(complete), expected);
        let lines = "tests/simple_additions.rs\n  d9978a8723e02b52 1-4,9-10,12,14,16,21-22,24,26\n  967bda75801c3ee8 \
                     728-735,737-888,890,892-1010\n\"src/my file.rs\"\n  866dabf162e96bcb 6,257,358,376-377,521\n---\n{}";
        let found = read(lines.as_bytes());
        let of = |path: &str| found.iter().filter(|lines| lines.path == RepoPath::from(path)).count();
        let counts = ["tests/simple_additions.rs", "src/my file.rs"].map(of);
        assert_eq!(counts, [12, 5]);
    }
}
