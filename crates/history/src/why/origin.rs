//! What a commit is of, by its message and its author alone.

use std::collections::BTreeSet;

use git::Commit;
use pleach_core::ids::{EntryId, NodeId, SESSION_ID_LEN, SessionId, TurnId};
use pleach_core::merge::MergeOrigin;
use pleach_core::trailer::{CommitMessage, TurnFacts};

use super::document::{CommitKind, MergeWords, WhyCommit};

/// A commit, and what it is of.
#[derive(Debug)]
pub struct KnownCommit {
    /// The commit.
    pub commit: Commit,
    /// Its message, taken apart.
    pub message: CommitMessage,
    /// What it is of.
    pub made: Made,
    /// A shallow clone ends here.
    pub is_cut_off: bool,
}

/// What a commit is of: the first that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// A turn.
    Turn(TurnFacts),
    /// An entry of the merge queue.
    Queue(EntryId),
    /// A step, with the session that did it.
    Step(Option<SessionId>),
    /// It takes back an entry.
    Undo(EntryId),
    /// A run went back to a turn.
    Return(Option<SessionId>, TurnId),
    /// A node began once more.
    Restart,
    /// Branches of a run became one.
    FanIn(SessionId, Option<NodeId>),
    /// Anything else: the sessions it names, and the agent.
    Plain(Vec<SessionId>, Option<String>),
}

/// Who signs what agents of runs have done.
const OWN_ADDRESS: &str = "orchestra@local";

impl KnownCommit {
    /// Looks at a commit.
    pub fn read(commit: Commit, is_cut_off: bool) -> Self {
        let text = commit.text();
        let message = CommitMessage::read(&text);
        let made = made(&commit, &message, &text);
        Self { commit, message, made, is_cut_off }
    }

    /// The commit, for the answer.
    pub fn shown(&self) -> WhyCommit {
        let session = match &self.made {
            Made::Turn(facts) => Some(facts.session.clone()),
            Made::Step(session) | Made::Return(session, _) => session.clone(),
            Made::FanIn(session, _) => Some(session.clone()),
            Made::Plain(sessions, _) => sessions.first().cloned(),
            Made::Queue(_) | Made::Undo(_) | Made::Restart => None,
        };
        let kind = match &self.made {
            Made::Turn(_) => CommitKind::Turn,
            Made::Queue(_) => CommitKind::Merge,
            Made::Step(_) => CommitKind::Step,
            Made::Undo(_) | Made::Return(..) | Made::Restart => CommitKind::Restored,
            Made::FanIn(..) => CommitKind::FanIn,
            Made::Plain(sessions, _) if !sessions.is_empty() => CommitKind::Squash,
            Made::Plain(_, Some(_)) => CommitKind::OtherAgent,
            Made::Plain(_, None) => CommitKind::Person,
        };
        let origin = MergeOrigin::read(&self.message);
        let merge = match &self.made {
            Made::Queue(entry) => Some(MergeWords {
                entry: Some(entry.to_string()),
                tier: origin.as_ref().map(|origin| origin.tier.to_string()),
                resolved: origin.iter().flat_map(|origin| &origin.resolved).map(|hunk| hunk.to_value()).collect(),
                ..MergeWords::default()
            }),
            Made::FanIn(_, node) => Some(MergeWords { node: node.clone(), ..MergeWords::default() }),
            _ => None,
        };
        WhyCommit {
            author: self.commit.author.name.clone(),
            email: self.commit.author.email.clone(),
            at: self.commit.at,
            subject: self.message.subject.clone(),
            kind,
            session,
            merge,
        }
    }
}

fn made(commit: &Commit, message: &CommitMessage, text: &str) -> Made {
    let session = |key| message.trailer(key).and_then(|session| session.parse::<SessionId>().ok());
    let entry = |key| message.trailer(key).and_then(|entry| EntryId::new(entry).ok());
    let is_of_pleach = commit.author.email == git::Person::pleach().email;
    if let Some(facts) = TurnFacts::read(message)
        && (commit.author.email == OWN_ADDRESS || is_one_turn(text))
    {
        return Made::Turn(facts);
    }
    if let Some(entry) = entry("Pleach-Merge") {
        return Made::Queue(entry);
    }
    if message.trailer("Arborist-Step").is_some() && message.subject.starts_with("task(") {
        return Made::Step(session("Pleach-Session"));
    }
    if let Some(entry) = entry("Pleach-Undoes") {
        return Made::Undo(entry);
    }
    if let Some(turn) = message.trailer("Pleach-Returns").and_then(|turn| turn.parse().ok()) {
        return Made::Return(session("Orchestra-Session"), turn);
    }
    if let Some(session) = session("Orchestra-Session").filter(|_| is_of_pleach) {
        if message.subject.starts_with("Restore the files `") {
            return Made::Restart;
        }
        if commit.parents.len() > 1 {
            return Made::FanIn(session, message.trailer("Orchestra-Node").and_then(|node| node.parse().ok()));
        }
    }
    Made::Plain(named_sessions(text), other_agent(message))
}

/// A message that was put together of several keeps the trailers of the last where those of one commit are.
fn is_one_turn(text: &str) -> bool {
    let turns = text.lines().filter_map(|line| line.trim_start().strip_prefix("Orchestra-Turn:")).map(str::trim);
    turns.collect::<BTreeSet<_>>().len() == 1
}

/// The sessions a message names: by their trailers, wherever these stand, or as pull requests of pleach end.
fn named_sessions(text: &str) -> Vec<SessionId> {
    let mut named: Vec<SessionId> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let trailer = ["Orchestra-Session:", "Pleach-Session:"].iter().find_map(|key| line.strip_prefix(key));
        let found = match trailer {
            Some(value) => value.trim().parse().ok(),
            None => line.strip_prefix("Session ").and_then(|rest| {
                let rest = rest.trim_start_matches('`');
                let (session, after) = rest.split_at_checked(SESSION_ID_LEN)?;
                after.starts_with(['`', ':', '/']).then(|| session.parse().ok()).flatten()
            }),
        };
        named.extend(found.filter(|session| !named.contains(session)));
    }
    named
}

/// The agent of another program that a message names.
fn other_agent(message: &CommitMessage) -> Option<String> {
    if let Some(agent) = message.trailer("Assisted-by").filter(|agent| !agent.is_empty()) {
        return Some(agent.to_owned());
    }
    let by = message.trailers.iter().filter(|(key, _)| key.eq_ignore_ascii_case("Co-authored-by"));
    let mut by = by.filter_map(|(_, value)| {
        let (name, address) = value.split_once('<')?;
        is_agents_address(address.trim_end_matches(['>', ' '])).then(|| name.trim().to_owned())
    });
    by.next_back().or_else(|| message.trailer("Entire-Checkpoint").map(|_| "an agent (Entire)".to_owned()))
}

/// The ends of addresses that agents sign with.
const AGENTS: [&str; 10] = [
    "@anthropic.com",
    "@openai.com",
    "@cursor.com",
    "@ampcode.com",
    "@aider.chat",
    "@opencode.ai",
    "@windsurf.com",
    "@codeium.com",
    "@cognition.ai",
    "@factory.ai",
];

/// Agents that sign as applications of a forge do.
const APPLICATIONS: [&str; 5] = ["copilot", "devin-ai", "gemini-code-assist", "google-labs-jules", "cursoragent"];

fn is_agents_address(address: &str) -> bool {
    let address = address.to_lowercase();
    let is_application = address.ends_with("@users.noreply.github.com")
        && APPLICATIONS.iter().any(|name| address.rsplit('+').next().is_some_and(|own| own.starts_with(name)));
    is_application || AGENTS.iter().any(|end| address.ends_with(end))
}

#[cfg(test)]
mod tests {
    use pleach_core::ids::CommitId;

    use super::*;

    fn of(author: &str, parents: usize, text: &str) -> Made {
        let id = CommitId::from_bytes([1; 20]);
        let commit = Commit {
            id,
            tree: git::TreeId::from_bytes([2; 20]),
            parents: vec![id; parents],
            author: git::Person::new("A", author),
            committer: git::Person::pleach(),
            at: jiff::Timestamp::UNIX_EPOCH,
            message: text.as_bytes().to_vec(),
        };
        KnownCommit::read(commit, false).made
    }

    const TURN: &str = "Orchestra-Model: m\nOrchestra-Provider: p\nOrchestra-Node: n\nOrchestra-Pipeline: x\n\
                        Orchestra-Session: abcdefgh\nOrchestra-Turn: main.3\n";

    #[test]
    fn messages_put_together_are_no_turn() {
        let of_turn = |made| matches!(made, Made::Turn(facts) if facts.turn.to_string() == "main.3");
        assert!(of_turn(of("orchestra@local", 1, &format!("Do\n\n{TURN}"))));
        assert!(of_turn(of("ada@x.org", 1, &format!("Do\n\n{TURN}"))), "somebody has amended it");
        let two = format!("Both (#3)\n\n* One\n\n{}\n\n* Two\n\n{TURN}", TURN.replace("main.3", "main.1"));
        let squash = Made::Plain(vec!["abcdefgh".parse().unwrap()], None);
        assert_eq!(of("ada@x.org", 1, &two), squash);
        let indented: String = TURN.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(of("ada@x.org", 1, &format!("Squashed commit of the following:\n\n{indented}")), squash);
    }

    #[test]
    fn each_kind_of_commit_is_known_by_its_message() {
        let plain = |sessions: &[&str], agent: Option<&str>| {
            Made::Plain(sessions.iter().map(|id| id.parse().unwrap()).collect(), agent.map(str::to_owned))
        };
        let entry = "01J00000000000000000000001";
        let id = || EntryId::new(entry).unwrap();
        let session = || "abcdefgh".parse::<SessionId>().unwrap();
        let step = "task(main@T1@implement-pass): implement \"x\"\n\nArborist-Step: implement\n";
        let cases = [
            (1, format!("resolve: T1\n\nPleach-Merge: {entry}\n"), Made::Queue(id())),
            (1, step.to_owned(), Made::Step(None)),
            (1, format!("{step}Pleach-Session: abcdefgh\n"), Made::Step(Some(session()))),
            (1, format!("{step}Pleach-Merge: {entry}\n"), Made::Queue(id())),
            (1, format!("Revert \"x\"\n\nPleach-Undoes: {entry}\n"), Made::Undo(id())),
            (
                2,
                "Return to main.2\n\nOrchestra-Session: abcdefgh\nPleach-Returns: main.2\n".to_owned(),
                Made::Return(Some(session()), TurnId::of_main(2)),
            ),
            (1, "Restore the files `a` began with\n\nOrchestra-Session: abcdefgh\n".to_owned(), Made::Restart),
            (
                2,
                "Merge branch b\n\nOrchestra-Node: n\nOrchestra-Session: abcdefgh\n".to_owned(),
                Made::FanIn(session(), Some("n".parse().unwrap())),
            ),
            (1, "Fix\n\nSession `abcdefgh`: 3 turns.\n".to_owned(), plain(&["abcdefgh"], None)),
            (1, "Fix\n\nSession followed by more\n".to_owned(), plain(&[], None)),
            (1, "Fix\n\nAssisted-by: claude:sonnet\n".to_owned(), plain(&[], Some("claude:sonnet"))),
            (
                1,
                "Fix\n\nCo-authored-by: Claude Monet <claude@art.fr>\nCo-Authored-By: Claude <noreply@anthropic.com>\n"
                    .to_owned(),
                plain(&[], Some("Claude")),
            ),
            (1, "Fix\n\nCo-authored-by: implement (m) <orchestra@local>\n".to_owned(), plain(&[], None)),
            (1, "Fix\n\nEntire-Checkpoint: abc\n".to_owned(), plain(&[], Some("an agent (Entire)"))),
            (1, "Fix\n".to_owned(), plain(&[], None)),
        ];
        for (parents, text, made) in cases {
            assert_eq!(of("pleach@local", parents, &text), made, "{text}");
        }
    }
}
