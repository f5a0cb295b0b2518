//! How a merge came about, in the trailers of its commit: the tier it took, and for each resolved hunk where its text is
//! from.

use super::tier::Tier;
use crate::ids::RepoPath;
use crate::text::{quoted_path, unquoted_path};
use crate::trailer::{self, CommitMessage};

const TIER: &str = "Pleach-Tier";

const RESOLVED: &str = "Pleach-Resolved";

/// A conflict of a file that was resolved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedHunk {
    /// The file.
    pub path: RepoPath,
    /// Which of its hunks, counted from 1 as [`TextMerge::lines`](super::TextMerge::lines) finds them; 0 is the whole file.
    pub hunk: usize,
    /// What resolved it.
    pub source: Tier,
}

/// How a merge came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOrigin {
    /// The highest tier that was needed.
    pub tier: Tier,
    /// What was resolved.
    pub resolved: Vec<ResolvedHunk>,
}

impl MergeOrigin {
    /// The trailers, in the order they are written.
    pub fn trailers(&self) -> Vec<(String, String)> {
        let tier = (TIER.to_owned(), self.tier.to_string());
        let resolved = self.resolved.iter().map(|hunk| (RESOLVED.to_owned(), hunk.to_value()));
        [tier].into_iter().chain(resolved).collect()
    }

    /// What the trailers of a message say; none where they name no tier. A hunk that cannot be read is left out: what is
    /// not named is checked all the more.
    pub fn read(message: &CommitMessage) -> Option<Self> {
        let tier = message.trailer(TIER)?.parse().ok()?;
        let values = message.trailers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(RESOLVED));
        Some(Self { tier, resolved: values.filter_map(|(_, value)| ResolvedHunk::from_value(value)).collect() })
    }
}

impl ResolvedHunk {
    /// `PATH#HUNK=SOURCE`.
    pub fn to_value(&self) -> String {
        format!("{}#{}={}", trailer_path(&self.path), self.hunk, self.source)
    }

    /// Reads [`Self::to_value`].
    pub fn from_value(value: &str) -> Option<Self> {
        let (path, hunk) = value.rsplit_once('#')?;
        let (hunk, source) = hunk.split_once('=')?;
        Some(Self {
            path: RepoPath::new(unquoted_path(path.as_bytes())?),
            hunk: hunk.parse().ok()?,
            source: source.parse().ok()?,
        })
    }
}

/// A path as git quotes it, and also where blanks would not survive in a trailer.
fn trailer_path(path: &RepoPath) -> String {
    let shown = quoted_path(path.as_bytes());
    if trailer::fits(&shown) && !shown.is_empty() {
        return shown;
    }
    let inner = shown.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|_| shown.len() > 1);
    let mut quoted = String::from('"');
    for c in inner.unwrap_or(&shown).chars() {
        let is_lost = matches!(c, ' ' | '\u{2028}' | '\u{2029}');
        match c.encode_utf8(&mut [0; 4]) {
            bytes if is_lost => quoted.extend(bytes.bytes().map(|byte| format!("\\{byte:03o}"))),
            c => quoted.push_str(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin(paths: &[&[u8]]) -> MergeOrigin {
        let hunk = |(at, path): (usize, &&[u8])| ResolvedHunk {
            path: RepoPath::new(*path),
            hunk: at,
            source: if at == 0 { Tier::Derived } else { Tier::Tokens },
        };
        MergeOrigin { tier: Tier::Derived, resolved: paths.iter().enumerate().map(hunk).collect() }
    }

    #[test]
    fn trailers_name_tier_and_hunks() {
        let origin = origin(&[b"Cargo.lock", b"src/a b.rs", b"odd #1=x", b" two  blanks", b"\xff\t"]);
        let values: Vec<String> = origin.trailers().into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let expected = [
            "Pleach-Tier: derived",
            "Pleach-Resolved: Cargo.lock#0=derived",
            "Pleach-Resolved: src/a b.rs#1=tokens",
            "Pleach-Resolved: odd #1=x#2=tokens",
            "Pleach-Resolved: \"\\040two\\040\\040blanks\"#3=tokens",
            "Pleach-Resolved: \"\\377\\t\"#4=tokens",
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn hunks_that_cannot_be_read_are_left_out() {
        let message = |values: &[&str]| CommitMessage {
            subject: "merge".into(),
            body: String::new(),
            trailers: values.iter().map(|value| (RESOLVED.to_owned(), (*value).to_owned())).collect(),
        };
        assert_eq!(MergeOrigin::read(&message(&["a#1=tokens"])), None, "no tier");
        let mut message = message(&["a#1=tokens", "a", "a#x=tokens", "a#1=cop", "\"a#1=agent", "\"\\9\"#1=agent"]);
        message.trailers.push((TIER.to_lowercase(), "agent".into()));
        let read = MergeOrigin::read(&message).unwrap();
        assert_eq!((read.tier, read.resolved.len()), (Tier::Agent, 1));
    }

    proptest! {
        #[test]
        fn any_path_survives_a_message(paths in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..12), 0..4)) {
            let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
            let origin = origin(&paths);
            let message = CommitMessage { subject: "merge".into(), body: "a\n\nKey: value".into(), trailers: origin.trailers() };
            prop_assert_eq!(MergeOrigin::read(&CommitMessage::read(&message.write())), Some(origin));
        }

        #[test]
        fn paths_of_blanks_survive(path in "[ \"\\\\#=a\u{2028}\n]{1,8}") {
            let path = RepoPath::new(path.into_bytes());
            let hunk = ResolvedHunk { path, hunk: 1, source: Tier::Person };
            prop_assert!(trailer::fits(&hunk.to_value()), "{:?}", hunk.to_value());
            prop_assert_eq!(ResolvedHunk::from_value(&hunk.to_value()), Some(hunk));
        }
    }
}
