//! Paths within a tree.

use gix::bstr::{BStr, ByteSlice as _};

/// The directories above a path, from the outermost.
pub(super) fn parents(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.find_iter(b"/").map(|end| path[..end].as_bstr())
}
