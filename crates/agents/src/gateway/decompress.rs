//! Decompresses bodies to read them. What is forwarded stays as it came.

use std::io::Read as _;

use hyper::header::{CONTENT_ENCODING, HeaderMap};
use zlib_rs::{Inflate, InflateFlush, Status};

/// How much is decompressed in one go.
const STEP: usize = 32 << 10;

/// The compression of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// gzip or zlib, recognized when it is read.
    Zlib,
    /// With zstd.
    Zstd,
    /// One that cannot be read here.
    Other(String),
}

impl Compression {
    /// What the headers of a message say.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let said: Vec<String> = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
            .filter(|name| !name.is_empty() && name != "identity")
            .collect();
        match &said[..] {
            [] => Self::None,
            [name] if matches!(name.as_str(), "gzip" | "x-gzip" | "deflate") => Self::Zlib,
            [name] if name == "zstd" => Self::Zstd,
            _ => Self::Other(said.join(", ")),
        }
    }
}

/// Decompresses a body chunk by chunk.
pub(super) enum Decompressor {
    /// Passed through.
    Plain,
    /// Decompressed as it comes.
    Zlib(Box<Inflate>),
    /// Kept until it is complete: its reader returns nothing before.
    Zstd(Vec<u8>),
    /// Not read any more, for this reason.
    Opaque(String),
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Zlib(_) => "Zlib",
            Self::Zstd(_) => "Zstd",
            Self::Opaque(_) => "Blind",
        })
    }
}

impl Decompressor {
    pub(super) fn new(compression: &Compression) -> Self {
        match compression {
            Compression::None => Self::Plain,
            // 32: either header will do; 15: the largest window.
            Compression::Zlib => Self::Zlib(Box::new(Inflate::new(true, 32 + 15))),
            Compression::Zstd => Self::Zstd(Vec::new()),
            Compression::Other(name) => Self::Opaque(format!("it is packed as `{name}`")),
        }
    }

    /// Takes the next bytes and hands on what they hold, piece by piece. `most` is how much may be kept.
    pub(super) fn push(&mut self, bytes: &[u8], most: usize, take: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Plain => take(bytes),
            Self::Zlib(inflate) => {
                if let Err(why) = inflate_all(inflate, bytes, take) {
                    *self = Self::Opaque(why);
                }
            }
            Self::Zstd(kept) if kept.len() + bytes.len() > most => {
                *self = Self::Opaque("it is packed, and too long to be kept".into());
            }
            Self::Zstd(kept) => kept.extend_from_slice(bytes),
            Self::Opaque(_) => {}
        }
    }

    /// Everything is there: hands on what was kept back.
    pub(super) fn finish(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) {
        if let Self::Zstd(kept) = self {
            let kept = std::mem::take(kept);
            if let Err(why) = unzstd(&kept, most, take) {
                *self = Self::Opaque(why);
            }
        }
    }

    /// Why it cannot be read, if it cannot.
    pub(super) fn opaque(&self) -> Option<&str> {
        match self {
            Self::Opaque(why) => Some(why),
            _ => None,
        }
    }
}

/// A whole body, decompressed; not more than `most` bytes.
pub(super) fn decompress(compression: &Compression, bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let mut over = false;
    let mut decompressor = Decompressor::new(compression);
    let mut take = |piece: &[u8]| {
        over |= all.len() + piece.len() > most;
        if !over {
            all.extend_from_slice(piece);
        }
    };
    decompressor.push(bytes, most, &mut take);
    decompressor.finish(most, &mut take);
    match decompressor.opaque() {
        Some(why) => Err(why.to_owned()),
        None if over => Err(format!("it is longer than {} MB", most >> 20)),
        None => Ok(all),
    }
}

fn inflate_all(inflate: &mut Inflate, mut bytes: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let mut out = [0; STEP];
    loop {
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(bytes, &mut out, InflateFlush::NoFlush);
        let status = status.map_err(|error| format!("it cannot be unpacked: {}", error.as_str()))?;
        let read = (inflate.total_in() - read) as usize;
        let written = (inflate.total_out() - written) as usize;
        take(&out[..written]);
        bytes = &bytes[read..];
        match status {
            Status::StreamEnd => return Ok(()),
            // A full buffer may hide more behind it.
            Status::Ok | Status::BufError if written == STEP || (read > 0 && !bytes.is_empty()) => {}
            Status::Ok | Status::BufError => return Ok(()),
        }
    }
}

fn unzstd(bytes: &[u8], most: usize, take: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| format!("it cannot be unpacked: {why}");
    let mut reader = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|error| failed(&error))?;
    let mut out = vec![0; STEP];
    let mut all = 0;
    loop {
        let read = reader.read(&mut out).map_err(|error| failed(&error))?;
        if read == 0 {
            return Ok(());
        }
        all += read;
        if all > most {
            return Err(format!("it is longer than {} MB", most >> 20));
        }
        take(&out[..read]);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::gateway::testing::gzip;

    #[test]
    fn bodies_are_decompressed_in_any_chunks() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        for (compression, packed) in [
            (Compression::None, text.clone()),
            (Compression::Zlib, gzip(&text)),
            (Compression::Zstd, compress_to_vec(&text[..], CompressionLevel::Fastest)),
        ] {
            assert!(decompress(&compression, &packed, 1 << 20).unwrap() == text, "{compression:?}");
            let mut out = Vec::new();
            let mut decompressor = Decompressor::new(&compression);
            for piece in packed.chunks(977) {
                decompressor.push(piece, 1 << 20, &mut |piece| out.extend_from_slice(piece));
            }
            decompressor.finish(1 << 20, &mut |piece| out.extend_from_slice(piece));
            assert!(out == text, "{compression:?} in pieces");
            assert_eq!(
                decompress(&compression, &packed, 1000).unwrap_err().contains("longer than"),
                compression != Compression::Zstd
            );
        }
    }

    #[test]
    fn broken_or_unknown_compression_is_not_read() {
        assert!(decompress(&Compression::Zlib, b"no gzip at all", 1 << 20).is_err());
        assert!(decompress(&Compression::Zstd, b"no zstd at all", 1 << 20).is_err());
        assert!(decompress(&Compression::Other("br".into()), b"x", 1 << 20).unwrap_err().contains("`br`"));
        // A bomb: a thousand times as long as it looks.
        let bomb = gzip(&vec![0; 8 << 20]);
        assert!(decompress(&Compression::Zlib, &bomb, 1 << 20).unwrap_err().contains("longer than 1 MB"));
    }

    #[test]
    fn headers_name_the_compression() {
        let compression_of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(value));
            Compression::of(&headers)
        };
        assert_eq!(compression_of("gzip"), Compression::Zlib);
        assert_eq!(compression_of("Zstd"), Compression::Zstd);
        assert_eq!(compression_of("identity"), Compression::None);
        assert_eq!(compression_of("gzip, br"), Compression::Other("gzip, br".into()));
        assert_eq!(Compression::of(&HeaderMap::new()), Compression::None);
    }
}
