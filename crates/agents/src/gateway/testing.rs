//! What the tests of several parts need.

use zlib_rs::{Deflate, DeflateFlush};

/// Text as gzip.
pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    // 16: with the header of gzip.
    let mut deflate = Deflate::new(6, true, 16 + 15);
    let mut out = vec![0; text.len() + 1024];
    deflate.compress(text, &mut out, DeflateFlush::Finish).expect("there is room for it");
    out.truncate(deflate.total_out() as usize);
    out
}
