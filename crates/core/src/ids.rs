//! Names and ids, validated once where they enter the program. Inner code never checks them again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::quoted_path;

/// A text that is not a valid id of the kind it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {kind}: {rule}")]
pub struct InvalidId {
    kind: &'static str,
    rule: &'static str,
    text: String,
}

// The text is shared: a checkpoint names every node of the run so far.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and takes it as an id.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                let valid: fn(&str) -> bool = $valid;
                if valid(&text) { Ok(Self(text.into())) } else { Err(InvalidId { kind: $kind, rule: $rule, text }) }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }
    };
}

fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The alphabet of session ids: lower-case base32 (RFC 4648).
pub const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Length of a session id.
pub const SESSION_ID_LEN: usize = 8;

/// The alphabet of the ids of queue entries: Crockford's base32.
pub const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Length of the id of a queue entry.
pub const ENTRY_ID_LEN: usize = 26;

text_id!(
    /// A node of a pipeline, as written in the DOT file.
    NodeId, "node id", "letters, digits and `_`, not starting with a digit", is_identifier
);

text_id!(
    /// A session: 8 characters of lower-case base32.
    SessionId, "session id", "8 characters out of a-z and 2-7",
    |text| text.len() == SESSION_ID_LEN && text.bytes().all(|b| BASE32.contains(&b))
);

text_id!(
    /// A chain of records inside a session: `main`, or one per parallel branch or replay.
    ContextId, "context id", "letters, digits, `_` and `-`, starting with a letter",
    |text| text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
);

text_id!(
    /// A pipeline's name as it stands in branches and trailers: the graph identifier in lower case, `_` as `-`.
    PipelineName, "pipeline name", "a-z, 0-9 and `-`",
    |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

text_id!(
    /// A repository of the workspace, by its name in the config or its directory name.
    RepoName, "repository name", "not empty, without `/`, `:` and control characters",
    |text| !text.is_empty() && !text.contains(|c: char| c == '/' || c == ':' || c.is_control())
);

/// The name of a tool as model providers take it, and as a command can have it: letters, digits, `_` and `-` alone.
pub fn wire_name(tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    tool.replace(':', "__").chars().map(plain).collect()
}

text_id!(
    /// A branch without its `refs/heads/` prefix.
    BranchName, "branch name", "a name `git check-ref-format --branch` accepts", is_branch_name
);

text_id!(
    /// A task or a phase of a task tree.
    TaskId, "task id", "at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`, a final dot or a `.lock` end",
    // Branches, logs and reports are named after it, and no file may have a name of more than 255 bytes.
    |text| text.len() <= 128 && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !text.contains("..") && !text.ends_with('.') && !text.ends_with(".lock")
);

text_id!(
    /// A step of a task, as a pipeline's `step=` names it: `implement`, `test`, `review`, or one of its own.
    StepName, "step name", "a-z, 0-9 and `-`, starting with a letter",
    |text| text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

text_id!(
    /// An entry of the merge queue: a ULID, so that ids sort by the time they were made.
    EntryId, "queue entry", "26 characters out of 0-9 and A-Z without I, L, O and U",
    |text| text.len() == ENTRY_ID_LEN && text.bytes().all(|b| CROCKFORD.contains(&b))
);

/// What the id of an ad-hoc task begins with.
pub const AD_HOC: &str = "task-";

/// Length of what follows it.
pub const AD_HOC_LEN: usize = 6;

impl TaskId {
    /// Whether it is the id of an ad-hoc task: `task-` and 6 characters of lower-case base32.
    pub fn is_ad_hoc(&self) -> bool {
        let own = self.as_str().strip_prefix(AD_HOC);
        own.is_some_and(|own| own.len() == AD_HOC_LEN && own.bytes().all(|byte| BASE32.contains(&byte)))
    }
}

impl PipelineName {
    /// The name of a graph: `digraph test_git` is `test-git`.
    pub fn of_graph(identifier: &str) -> Result<Self, InvalidId> {
        Self::new(identifier.to_ascii_lowercase().replace('_', "-"))
    }
}

impl ContextId {
    /// The context every session starts with.
    pub fn main() -> Self {
        Self("main".into())
    }

    /// The root of a replay, by its number.
    pub fn of_replay(number: u32) -> Self {
        Self(format!("r{number}").into())
    }

    /// The number of the replay it is the root of.
    pub fn replay_number(&self) -> Option<u32> {
        let digits =
            self.0.strip_prefix('r').filter(|digits| digits.starts_with(|first: char| ('1'..='9').contains(&first)))?;
        digits.parse().ok()
    }

    /// The root of the run it belongs to: `r2` of `r2` and of `r2-tests`, `main` of all others.
    pub fn run_root(&self) -> Self {
        let first = Self(self.0.split('-').next().unwrap_or_default().into());
        if first.replay_number().is_some() { first } else { Self::main() }
    }

    /// Whether it is the one a run began with.
    pub fn is_root(&self) -> bool {
        *self == self.run_root()
    }

    /// What a context of another run is called in the run with this root: `tests` is `r1-tests` in `r1`, and `r2-tests` in
    /// `r2`.
    pub fn in_run(&self, root: &Self) -> Self {
        Self(format!("{root}-{}", self.within_run()).into())
    }

    /// What it is called within its run: `tests` of `r1-tests`, nothing of a root.
    pub fn within_run(&self) -> &str {
        let root = self.run_root();
        if *self == root {
            return "";
        }
        let of_replay = self.0.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('-'));
        of_replay.filter(|_| root.replay_number().is_some()).unwrap_or(&self.0)
    }

    /// The name of the first context that forks from `main` at a node: the node's, unless that would be the name of
    /// something else.
    pub fn of_node(node: &NodeId) -> Self {
        let node = node.as_str();
        let is_replay = node.strip_prefix('r').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let begins = node.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_free = begins && !is_replay && !matches!(node, "main" | "run");
        Self(if is_free { node.into() } else { format!("n_{node}").into() })
    }
}

/// A run of a session: the first one, whose root is `main`, or one of its replays. Written as the session alone, or as
/// `abcdefgh/r1`. Whoever names a session alone means its first run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId {
    /// The session.
    pub session: SessionId,
    /// The context that decides whether the run continues.
    pub root: ContextId,
}

impl RunId {
    /// The run a context of a session belongs to.
    pub fn of_context(session: &SessionId, context: &ContextId) -> Self {
        Self { session: session.clone(), root: context.run_root() }
    }

    /// Whether it is the session's first.
    pub fn is_first(&self) -> bool {
        self.root == ContextId::main()
    }

    /// Whether a context of the session is one of its own.
    pub fn has(&self, context: &ContextId) -> bool {
        context.run_root() == self.root
    }

    /// One of its contexts as people name it: the root by the run.
    pub fn with_context(&self, context: &ContextId) -> String {
        if *context == self.root { self.to_string() } else { format!("{}/{context}", self.session) }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_first() { f.pad(self.session.as_str()) } else { f.pad(&format!("{}/{}", self.session, self.root)) }
    }
}

impl FromStr for RunId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let Some((session, root)) = text.split_once('/') else { return Ok(text.parse::<SessionId>()?.into()) };
        let (session, root) = (session.parse()?, ContextId::new(root)?);
        let is_root = root == ContextId::main() || root.replay_number().is_some();
        let rule = "a session, or a session and a replay, as in `abcdefgh/r1`";
        if is_root { Ok(Self { session, root }) } else { Err(InvalidId { kind: "run", rule, text: text.into() }) }
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> String {
        run.to_string()
    }
}

impl From<SessionId> for RunId {
    fn from(session: SessionId) -> Self {
        Self { session, root: ContextId::main() }
    }
}

impl From<&SessionId> for RunId {
    fn from(session: &SessionId) -> Self {
        session.clone().into()
    }
}

impl From<&RunId> for RunId {
    fn from(run: &RunId) -> Self {
        run.clone()
    }
}

/// git's own rules for a branch name, as far as they concern one name.
fn is_branch_name(text: &str) -> bool {
    let part_ok = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !text.is_empty()
        && text != "@"
        && text != "HEAD"
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c))
        && text.split('/').all(part_ok)
}

/// One turn of a session: the context it happened in and its number there, written `main.17`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TurnId {
    /// The chain of records the turn belongs to.
    pub context: ContextId,
    /// Counted from 1 per context.
    pub number: u64,
}

impl TurnId {
    /// A turn of the context every session starts with.
    pub fn of_main(number: u64) -> Self {
        Self { context: ContextId::main(), number }
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.context, self.number)
    }
}

impl FromStr for TurnId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId {
            kind: "turn id",
            rule: "a context, a dot and a number from 1, as in `main.17`",
            text: text.into(),
        };
        let (context, number) = text.rsplit_once('.').ok_or_else(invalid)?;
        let plain = !number.starts_with('0') && number.bytes().all(|b| b.is_ascii_digit());
        let number = number.parse().ok().filter(|_| plain).ok_or_else(invalid)?;
        Ok(Self { context: ContextId::new(context).map_err(|_| invalid())?, number })
    }
}

impl TryFrom<String> for TurnId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<TurnId> for String {
    fn from(id: TurnId) -> String {
        id.to_string()
    }
}

/// A git object id (SHA-1), shown as 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId([u8; 20]);

impl CommitId {
    /// The id with these bytes.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(10);
        text
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitId({self})")
    }
}

impl FromStr for CommitId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId { kind: "commit id", rule: "40 hexadecimal digits", text: text.into() };
        if text.len() != 40 || !text.is_ascii() {
            return Err(invalid());
        }
        let mut bytes = [0; 20];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[index * 2..index * 2 + 2];
            *byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).ok_or_else(invalid)?;
        }
        Ok(Self(bytes))
    }
}

/// As digits where people read it, as bytes elsewhere.
impl Serialize for CommitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for CommitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Deserialize::deserialize(deserializer).map(Self);
        }
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A path inside a repository, byte for byte as git has it. In JSON it is a string, or `{"bytes": BASE64}` when it
/// is not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// The path with these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// For people; [`RepoPath::as_bytes`] is what it is.
impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&quoted_path(&self.0))
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepoPath({:?})", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for RepoPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for RepoPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("bytes", &BASE64_STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum PathRepr {
            Text(String),
            Bytes { bytes: String },
        }
        match PathRepr::deserialize(deserializer)? {
            PathRepr::Text(text) => Ok(Self(text.into_bytes())),
            PathRepr::Bytes { bytes } => BASE64_STANDARD.decode(bytes).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// A branch as one component of a path or ref: `/` is `%2F`, `%` is `%25`.
pub fn branch_key(branch: &BranchName) -> String {
    branch.as_str().replace('%', "%25").replace('/', "%2F")
}

/// The branch of a key, if it is one.
pub fn branch_of_key(key: &str) -> Option<BranchName> {
    let branch = BranchName::new(key.replace("%2F", "/").replace("%25", "%")).ok()?;
    (branch_key(&branch) == key).then_some(branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_every_provider_takes() {
        assert_eq!(wire_name("run-tests"), "run-tests");
        assert_eq!(wire_name("my.app:read_file"), "my_app__read_file");
    }

    #[test]
    fn a_context_tells_its_run() {
        let context = |name: &str| ContextId::new(name).unwrap();
        for (name, root) in
            [("main", "main"), ("r1", "r1"), ("r12-api", "r12"), ("n_r1", "main"), ("rest-2", "main"), ("r01", "main")]
        {
            assert_eq!(context(name).run_root(), context(root), "{name}");
        }
        assert_eq!(context("tests").in_run(&context("r1")), context("r1-tests"));
        assert_eq!(context("r1-tests-2").in_run(&context("r2")), context("r2-tests-2"));
        let run: RunId = "abcdefgh/r2".parse().unwrap();
        assert_eq!((run.to_string().as_str(), run.is_first()), ("abcdefgh/r2", false));
        assert_eq!(run.with_context(&context("r2-api")), "abcdefgh/r2-api");
        assert_eq!(RunId::from_str("abcdefgh/main").unwrap().to_string(), "abcdefgh");
        assert!(RunId::from_str("abcdefgh/api").is_err());
    }

    #[test]
    fn paths_that_are_not_utf8_survive_json() {
        for bytes in [&b"src/a b.rs"[..], b"\xff\xfe/x", "\u{e4}.txt".as_bytes()] {
            let path = RepoPath::new(bytes);
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RepoPath>(&json).unwrap(), path, "{json}");
        }
        assert_eq!(serde_json::to_string(&RepoPath::new(&b"\xff"[..])).unwrap(), r#"{"bytes":"/w=="}"#);
    }

    #[test]
    fn graph_identifiers_become_branch_components() {
        assert_eq!(PipelineName::of_graph("test_git").unwrap(), "test-git");
        assert_eq!(PipelineName::of_graph("_A9").unwrap(), "-a9");
        assert!(PipelineName::of_graph("").is_err());
    }

    #[test]
    fn turn_ids_read_back_what_they_show() {
        let turn: TurnId = "main.17".parse().unwrap();
        assert_eq!((turn.context.as_str(), turn.number), ("main", 17));
        assert_eq!(turn.to_string(), "main.17");
        for bad in ["main", "main.", "main.0", "main.07", ".1", "main.x", "main.-1", "main.+1"] {
            assert!(bad.parse::<TurnId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn files_can_be_named_after_tasks() {
        assert!(TaskId::new("a".repeat(128)).is_ok());
        assert!(TaskId::new("a".repeat(129)).is_err());
    }

    #[test]
    fn branch_names_follow_git() {
        for good in ["main", "feature/a@b", "a)b", "pleach/x/abcdefgh"] {
            assert!(BranchName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a..b", "a/", "/a", "a b", "a.lock", "x/.y", "@", "a@{1}", "-a", "a."] {
            assert!(BranchName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commit_ids_are_forty_digits() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(text.parse::<CommitId>().unwrap().to_string(), text);
        assert!("0123".parse::<CommitId>().is_err());
        assert!("+123456789abcdef0123456789abcdef01234567".parse::<CommitId>().is_err());
    }
}
