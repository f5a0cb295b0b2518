//! Files that are known to have new content.

use std::collections::BTreeMap;
use std::path::Path;

use gix::bstr::{BStr, BString};

use super::FileStamp;

/// Files that were looked at and have new content. Those that are as they were then are not read again: they may be many,
/// and stay from turn to turn.
#[derive(Debug, Default)]
pub(super) struct NewContent(BTreeMap<BString, FileStamp>);

impl NewContent {
    pub fn has(&self, path: &BStr, place: &Path) -> bool {
        self.0.get(path).is_some_and(|seen| FileStamp::at(place) == Some(*seen))
    }

    pub fn take(&mut self, path: &BStr, place: &Path) {
        self.0.extend(FileStamp::at(place).map(|seen| (path.to_owned(), seen)));
    }
}
