//! What was removed, for the report.

use std::path::Path;

use pleach_core::event::{CleanedItem, CleanedKind};

use crate::place::Place;

pub(super) fn item(kind: CleanedKind, name: String, place: &Place) -> CleanedItem {
    CleanedItem { kind, name, repo: place.name.clone(), session: None, commit: None, bytes: None, remote: None }
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}
