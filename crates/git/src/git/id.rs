//! Ids of the objects beside commits. All are 20 bytes; the types keep a tree from being used as a commit.

use std::fmt;
use std::str::FromStr;

use pleach_core::ids::{CommitId, InvalidId};

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 20]);

        impl $name {
            /// The id with these bytes.
            pub fn from_bytes(bytes: [u8; 20]) -> Self {
                Self(bytes)
            }

            /// The id's bytes.
            pub fn as_bytes(&self) -> &[u8; 20] {
                &self.0
            }

            pub(super) fn to_gix(self) -> gix::ObjectId {
                gix::ObjectId::Sha1(self.0)
            }

            pub(super) fn from_gix(id: &gix::oid) -> Self {
                Self(sha1(id))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&CommitId::from_bytes(self.0), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.parse::<CommitId>().map(|id| Self(*id.as_bytes()))
            }
        }
    };
}

object_id!(
    /// A tree: the state of all files.
    TreeId
);

object_id!(
    /// A blob: the content of one file.
    BlobId
);

/// The bytes of an id. Repositories with longer ids are refused when they are opened.
fn sha1(id: &gix::oid) -> [u8; 20] {
    id.as_bytes().try_into().expect("only repositories with SHA-1 ids are opened")
}

pub(super) fn to_gix(id: CommitId) -> gix::ObjectId {
    gix::ObjectId::Sha1(*id.as_bytes())
}

pub(super) fn from_gix(id: &gix::oid) -> CommitId {
    CommitId::from_bytes(sha1(id))
}
