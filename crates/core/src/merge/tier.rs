//! How a merge came about: by which of the ways that are tried one after another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to make one tree of two, the cheap and certain ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Nothing had to be merged.
    FastForward,
    /// git merged it without a conflict.
    Clean,
    /// The same lines were in conflict before.
    Recorded,
    /// Word by word.
    Tokens,
    /// By the structure of the language.
    Structural,
    /// A command made the file again.
    Derived,
    /// An agent resolved it.
    Agent,
    /// The work was done again, on the new base.
    Reimplemented,
    /// A person resolved it.
    Person,
}

/// A word that names no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tier of merging")]
pub struct UnknownTier(String);

impl Tier {
    const ALL: [Self; 9] = [
        Self::FastForward,
        Self::Clean,
        Self::Recorded,
        Self::Tokens,
        Self::Structural,
        Self::Derived,
        Self::Agent,
        Self::Reimplemented,
        Self::Person,
    ];

    /// Its name in trailers and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FastForward => "fast_forward",
            Self::Clean => "clean",
            Self::Recorded => "recorded",
            Self::Tokens => "tokens",
            Self::Structural => "structural",
            Self::Derived => "derived",
            Self::Agent => "agent",
            Self::Reimplemented => "reimplemented",
            Self::Person => "person",
        }
    }

    /// What it did, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::FastForward => "fast-forward",
            Self::Clean => "merged without a conflict",
            Self::Recorded => "conflict resolved as before",
            Self::Tokens => "conflict resolved word by word",
            Self::Structural => "conflict resolved by the structure of the code",
            Self::Derived => "conflict resolved by running a command",
            Self::Agent => "conflict resolved by an agent",
            Self::Reimplemented => "done again after a conflict",
            Self::Person => "conflict resolved by a person",
        }
    }

    /// Its number: how far it is from what needs no look. Those that a program decides by the text alone share one.
    pub fn number(self) -> u8 {
        match self {
            Self::FastForward => 0,
            Self::Clean => 1,
            Self::Recorded => 2,
            Self::Tokens | Self::Structural | Self::Derived => 3,
            Self::Agent => 4,
            Self::Reimplemented => 5,
            Self::Person => 6,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text).ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_and_read_by_name() {
        assert!(Tier::ALL.is_sorted() && Tier::ALL.is_sorted_by_key(|tier| tier.number()));
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
            assert_eq!(serde_json::to_string(&tier).unwrap(), format!("\"{tier}\""));
        }
        assert_eq!("cop".parse::<Tier>().unwrap_err().to_string(), "`cop` is not a tier of merging");
    }
}
