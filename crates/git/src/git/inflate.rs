//! Reading a loose object to the last byte and checking it, whatever the file contains.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};

use gix::ObjectId;
use gix::objs::Kind;
use gix::zlib::{Decompress, FlushDecompress, Status};

/// What is inflated at once.
const PIECE: usize = 64 * 1024;

/// Reads loose files, one after the other.
pub(super) struct Inflate {
    state: Decompress,
    piece: Vec<u8>,
}

impl Inflate {
    pub fn new() -> Self {
        Self { state: Decompress::new(), piece: vec![0; PIECE] }
    }

    /// Reads a file to its end, piece by piece. Whether it holds the object of this id and kind, with no more than
    /// `largest` bytes, all of it up to its checksum, and nothing behind it.
    pub fn read(
        &mut self,
        file: File,
        id: ObjectId,
        kind: Kind,
        largest: u64,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        let Self { state, piece } = self;
        state.reset();
        let mut input = BufReader::new(file);
        let mut hasher = gix::hash::hasher(id.kind());
        let mut left: Option<u64> = None;
        loop {
            let (given, out) = (state.total_in(), state.total_out());
            let bytes = input.fill_buf()?;
            let flush = if bytes.is_empty() { FlushDecompress::Finish } else { FlushDecompress::None };
            let Ok(status) = state.decompress(bytes, piece, flush) else { return Ok(false) };
            let taken = length(state.total_in() - given);
            input.consume(taken);
            let written = &piece[..length(state.total_out() - out)];
            if taken == 0 && written.is_empty() && status != Status::StreamEnd {
                return Ok(false);
            }
            hasher.update(written);
            let mut content = written;
            if left.is_none() && !written.is_empty() {
                match gix::objs::decode::loose_header(written) {
                    Ok((found, size, header)) if found == kind && size <= largest => {
                        (left, content) = (Some(size), &written[header..]);
                    }
                    _ => return Ok(false),
                }
            }
            // One that says less than it has would go on for as long as somebody wants.
            match left.map(|left| left.checked_sub(content.len() as u64)) {
                Some(None) => return Ok(false),
                rest => left = rest.flatten(),
            }
            take(content);
            if status == Status::StreamEnd {
                let is_all = left == Some(0) && input.fill_buf()?.is_empty();
                return Ok(is_all && hasher.try_finalize().is_ok_and(|hash| hash == id));
            }
        }
    }
}

/// How far a call came, within what it was given.
fn length(total: u64) -> usize {
    usize::try_from(total).expect("a piece that is in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::loose::compressed;

    const ENOUGH: u64 = 1024 * 1024;

    #[test]
    fn what_is_written_is_read_back_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("object");
        let mut inflate = Inflate::new();
        for length in [0, 1, 100, 4075, 4076, 100_000] {
            let bytes: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0] ^ 0x5a).collect();
            let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Blob, &bytes).unwrap();
            let file = compressed(Kind::Blob, &bytes).unwrap();
            let mut read = |content: &[u8], limit| {
                std::fs::write(&path, content).unwrap();
                let mut found = Vec::new();
                let file = File::open(&path).unwrap();
                let take = |piece: &[u8]| found.extend_from_slice(piece);
                inflate.read(file, id, Kind::Blob, limit, take).unwrap().then_some(found)
            };
            assert_eq!(read(&file, ENOUGH).as_ref(), Some(&bytes), "{length}");
            assert_eq!(read(&file[..file.len() - 1], ENOUGH), None, "{length}, cut off");
            assert_eq!(read(&[&file[..], b"x"].concat(), ENOUGH), None, "{length}, and one more");
            let mut other = file.clone();
            *other.last_mut().unwrap() ^= 1;
            assert_eq!(read(&other, ENOUGH), None, "{length} with another checksum");
            if length > 0 {
                assert_eq!(read(&file, u64::from(length) - 1), None, "{length} is too much");
            }
        }
    }
}
