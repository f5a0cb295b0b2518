//! Output within a size limit: the beginning and the end are kept, the middle is dropped.

use std::collections::VecDeque;

use pleach_core::text::{LONGEST_SECRET, counted};

/// The output of a command on one stream, in bounded memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The kept bytes; if some were dropped, the beginning followed by the end.
    pub bytes: Vec<u8>,
    /// The index in `bytes` at which the end starts, if some were dropped.
    pub cut: usize,
    /// The number of dropped bytes between beginning and end.
    pub dropped: u64,
}

impl Capture {
    /// The output as text. Invalid UTF-8 is replaced, and a line mentions dropped bytes.
    pub fn to_text(&self) -> String {
        if self.dropped == 0 {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        let (head, tail) = self.bytes.split_at(self.cut);
        // Neither part of a word cut in two is shown: a secret would not be recognised by either.
        let head = &head[..head.len() - part_of_word(head.iter().rev())];
        let head = &head[..whole_characters(head)];
        let tail = &tail[part_of_word(tail.iter())..];
        let tail = &tail[tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count()..];
        let left_out = self.dropped + (self.bytes.len() - head.len() - tail.len()) as u64;
        let mut text = String::from_utf8_lossy(head).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[... {} left out ...]\n", counted(left_out, "byte")));
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }
}

/// The number of bytes up to the first whitespace, or the maximum length of a secret.
fn part_of_word<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take(LONGEST_SECRET).take_while(|byte| !byte.is_ascii_whitespace()).count()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The length of `bytes` without a truncated character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => bytes.len(),
        Err(_) => match bytes.iter().rposition(|byte| !is_continuation(*byte)) {
            Some(start) if std::str::from_utf8(&bytes[start..]).is_err_and(|e| e.error_len().is_none()) => start,
            _ => bytes.len(),
        },
    }
}

/// Builds a [`Capture`] from chunks.
#[derive(Debug)]
pub(super) struct Keeper {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    dropped: u64,
}

impl Keeper {
    /// Keeps at most `limit` bytes, one half from the beginning and one from the end.
    pub(super) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit: limit - head_limit, dropped: 0 }
    }

    /// Adds the next bytes of the stream.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        let (head, rest) = chunk.split_at(chunk.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let (skipped, rest) = rest.split_at(rest.len().saturating_sub(self.tail_limit));
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
        self.dropped += (skipped.len() + surplus) as u64;
    }

    /// Returns the kept output.
    pub(super) fn finish(self) -> Capture {
        let mut bytes = self.head;
        let cut = bytes.len();
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        Capture { bytes, cut, dropped: self.dropped }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keep(limit: usize, chunks: &[&[u8]]) -> Capture {
        let mut keeper = Keeper::new(limit);
        chunks.iter().for_each(|chunk| keeper.push(chunk));
        keeper.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let capture = keep(8, &[b"abc", b"", b"defgh"]);
        assert_eq!((capture.bytes.as_slice(), capture.dropped), (b"abcdefgh".as_slice(), 0));
        assert_eq!(capture.to_text(), "abcdefgh");
    }

    #[test]
    fn the_middle_goes_and_is_counted() {
        let capture = keep(8, &[b"abc ", b"0123456789", b" xyz"]);
        assert_eq!((capture.bytes.as_slice(), capture.dropped), (b"abc  xyz".as_slice(), 10));
        assert_eq!(capture.to_text(), "abc \n[... 10 bytes left out ...]\n xyz");
    }

    #[test]
    fn characters_cut_in_two_leave_no_debris() {
        let longest = "a".repeat(LONGEST_SECRET);
        let whole = format!("{longest}bcé{longest}middle{longest}éxyz{longest}");
        let capture = keep(2 * (LONGEST_SECRET + 3 + LONGEST_SECRET), &[whole.as_bytes()]);
        let text = capture.to_text();
        assert!(
            text.starts_with(&format!("{longest}bc\n[... ")) && text.ends_with(&format!(" ...]\nxyz{longest}")),
            "{text}"
        );
        assert_eq!(keep(100, &[b"a\xff\xfeb"]).to_text(), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_word_cut_in_two_is_left_out() {
        let capture = keep(16, &[b"say sk-secret-0123456789 and end"]);
        assert_eq!((capture.bytes.as_slice(), capture.dropped), (b"say sk-s and end".as_slice(), 16));
        assert_eq!(capture.to_text(), "say \n[... 20 bytes left out ...]\n and end");
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let capture = keep(0, &[b"abc"]);
        assert_eq!((capture.bytes.len(), capture.dropped), (0, 3));
    }

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_stream(limit in 0usize..40, chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..8)) {
            let whole = chunks.concat();
            let mut keeper = Keeper::new(limit);
            chunks.iter().for_each(|chunk| keeper.push(chunk));
            let capture = keeper.finish();
            prop_assert!(capture.bytes.len() <= limit);
            prop_assert_eq!(capture.bytes.len() as u64 + capture.dropped, whole.len() as u64);
            prop_assert!(whole.starts_with(&capture.bytes[..capture.cut]));
            prop_assert!(whole.ends_with(&capture.bytes[capture.cut..]));
            capture.to_text();
        }
    }
}
