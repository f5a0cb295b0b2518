//! Removing directories, also those made read-only.

use std::path::Path;

use super::error::{Error, IoContext as _};
use os::confined_fs;

/// Removes a directory with everything in it, also where it was made read-only.
pub(crate) fn remove_directory(place: &Path) -> Result<(), Error> {
    confined_fs::remove_all(place).at("remove", place)
}
