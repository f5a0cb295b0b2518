//! How a conflict was resolved before: the lines of both sides, and what was made of them.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text_merge::ConflictHunk;
use super::tier::Tier;
use crate::ids::{CommitId, RepoPath};

/// The version that is written, and the newest that is read.
const VERSION: u32 = 1;

/// A resolved hunk, as it is recorded. Which side was merged into which plays no role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    version: u32,
    /// The file.
    pub path: RepoPath,
    base: RecordedText,
    sides: [RecordedText; 2],
    resolved: RecordedText,
    /// Where the text is from.
    #[serde(flatten)]
    pub source: ResolutionSource,
    /// How often it was right: as it was recorded, and each time the same was chosen again.
    pub confirmed: u32,
}

/// Where the text of a resolution is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolutionSource {
    /// What resolved it.
    pub tier: Tier,
    /// Whose work it was: an agent, a person, an entry of the queue.
    pub by: String,
    /// The commit that has it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// When.
    pub at: Timestamp,
}

impl Resolution {
    /// A hunk that was resolved for the first time.
    pub fn new(path: RepoPath, hunk: &ConflictHunk, resolved: Vec<u8>, source: ResolutionSource) -> Self {
        let [base, resolved] = [hunk.base.clone(), resolved].map(RecordedText);
        let sides = sorted(hunk).map(|side| RecordedText(side.to_vec()));
        Self { version: VERSION, path, base, sides, resolved, source, confirmed: 1 }
    }

    /// What its id is the hash of.
    pub fn identity(&self) -> Vec<u8> {
        let [one, other] = &self.sides;
        identity(&self.path, [&self.base.0, &one.0, &other.0])
    }

    /// What the id of a hunk's resolution is the hash of.
    pub fn identity_of(path: &RepoPath, hunk: &ConflictHunk) -> Vec<u8> {
        let [one, other] = sorted(hunk);
        identity(path, [&hunk.base, one, other])
    }

    /// The text it makes of a hunk of a file; none if it is of another.
    pub fn text_for(&self, path: &RepoPath, hunk: &ConflictHunk) -> Option<&[u8]> {
        (self.identity() == Self::identity_of(path, hunk)).then_some(&self.resolved.0)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain fields have a JSON form")
    }

    /// From JSON; none for that of a newer version, and for what is none.
    pub fn from_json(text: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(text).ok()?;
        (read.version <= VERSION).then_some(read)
    }

    /// What is known once a hunk was resolved again: the newer text, confirmed if it is the same.
    #[must_use]
    pub fn resolved_again(self, newer: Self) -> Self {
        if self.resolved == newer.resolved {
            return Self { confirmed: self.confirmed.saturating_add(newer.confirmed), ..self };
        }
        newer
    }

    /// The better of two that were recorded apart, the same from both sides: the one that was confirmed more often, then
    /// the newer.
    #[must_use]
    pub fn united(self, other: Self) -> Self {
        let rank = |one: &Self| (one.confirmed, one.source.at, one.to_json());
        if rank(&self) >= rank(&other) { self } else { other }
    }
}

fn sorted(hunk: &ConflictHunk) -> [&[u8]; 2] {
    let mut sides = [&hunk.ours[..], &hunk.theirs];
    sides.sort_unstable();
    sides
}

fn identity(path: &RepoPath, texts: [&[u8]; 3]) -> Vec<u8> {
    let field = |text: &[u8]| [format!("{}:", text.len()).as_bytes(), text].concat();
    [path.as_bytes(), texts[0], texts[1], texts[2]].map(field).concat()
}

/// Lines of a file: a string, or `{"bytes": BASE64}` where they are not UTF-8, as paths are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedText(Vec<u8>);

impl Serialize for RecordedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RepoPath::new(self.0.as_slice()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RecordedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(RepoPath::deserialize(deserializer)?.as_bytes().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hunk(base: &[u8], ours: &[u8], theirs: &[u8]) -> ConflictHunk {
        ConflictHunk { base: base.to_vec(), ours: ours.to_vec(), theirs: theirs.to_vec() }
    }

    fn resolution(text: &str, seconds: i64) -> Resolution {
        let at = Timestamp::from_second(seconds).unwrap();
        let source = ResolutionSource { tier: Tier::Person, by: "me".into(), commit: None, at };
        Resolution::new("a".into(), &hunk(b"b", b"o", b"t"), text.into(), source)
    }

    #[test]
    fn either_order_of_the_sides_is_found() {
        let recorded = resolution("both\n", 1);
        for (ours, theirs) in [(b"o", b"t"), (b"t", b"o")] {
            assert_eq!(recorded.text_for(&"a".into(), &hunk(b"b", ours, theirs)), Some(&b"both\n"[..]));
        }
        assert_eq!(recorded.text_for(&"x".into(), &hunk(b"b", b"o", b"t")), None);
        assert_eq!(recorded.text_for(&"a".into(), &hunk(b"bo", b"", b"t")), None);
    }

    #[test]
    fn the_same_text_is_confirmed_and_another_replaces_it() {
        let again = resolution("x", 1).resolved_again(resolution("x", 2));
        assert_eq!((again.confirmed, again.source.at.as_second()), (2, 1));
        let other = again.clone().resolved_again(resolution("y", 3));
        assert_eq!((other.confirmed, other.source.at.as_second()), (1, 3));
        assert_eq!(again.clone().united(other.clone()), other.united(again.clone()));
        assert_eq!(again.clone().united(resolution("z", 9)), again, "what was confirmed more often stays");
    }

    #[test]
    fn newer_versions_and_damage_are_not_read() {
        let newer = resolution("x", 1).to_json().replace("\"version\": 1", "\"version\": 2");
        assert_eq!(Resolution::from_json(newer.as_bytes()), None);
        assert_eq!(Resolution::from_json(b"{"), None);
    }

    proptest! {
        #[test]
        fn any_text_survives_json(base in any::<Vec<u8>>(), ours in any::<Vec<u8>>(), theirs in any::<Vec<u8>>(), text in any::<Vec<u8>>()) {
            let source = ResolutionSource { tier: Tier::Agent, by: "e 1".into(), commit: Some(CommitId::from_bytes([7; 20])), at: Timestamp::UNIX_EPOCH };
            let hunk = hunk(&base, &ours, &theirs);
            let written = Resolution::new(RepoPath::new(base.clone()), &hunk, text.clone(), source);
            let read = Resolution::from_json(written.to_json().as_bytes()).unwrap();
            prop_assert_eq!(read.text_for(&RepoPath::new(base), &hunk), Some(&text[..]));
            prop_assert_eq!(read, written);
        }
    }
}
