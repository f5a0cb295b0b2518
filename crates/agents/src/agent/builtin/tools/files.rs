//! Reading and writing single files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use serde::Deserialize;

use super::answer::ToolAnswer;
use os::confined_fs::Jail;
use pleach_core::text::counted;

/// Lines read when the model does not say.
const LINES: usize = 2_000;

/// The most bytes shown of one file; far above what is left after truncation, far below what hurts.
const SHOWN: u64 = 1 << 20;

/// The largest file that is edited.
const EDITABLE: u64 = 20 << 20;

/// How far a file is searched for the zero byte that makes it binary.
const PEEK: usize = 8_192;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArgs {
    file_path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArgs {
    file_path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArgs {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn read(jail: &Jail, args: ReadArgs) -> ToolAnswer {
    let path = &args.file_path;
    if args.offset == Some(0) || args.limit == Some(0) {
        return ToolAnswer::error("`offset` and `limit` count from 1");
    }
    let file = match jail.open(path) {
        Ok(file) => file,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    match numbered(file, args.offset.unwrap_or(1), args.limit.unwrap_or(LINES)) {
        Ok(Window::Lines(text)) => ToolAnswer::ok(text),
        Ok(Window::Empty) => ToolAnswer::ok("(the file is empty)"),
        Ok(Window::JobPast(lines)) => {
            let lines = counted(lines, "line");
            ToolAnswer::error(format!("`{path}` has {lines}, so there is nothing at that offset"))
        }
        Ok(Window::Binary) => ToolAnswer::error(format!("`{path}` is a binary file")),
        Err(error) => ToolAnswer::error(format!("cannot read `{path}`: {error}")),
    }
}

enum Window {
    Lines(String),
    Empty,
    /// The offset lies behind the last line; how many there are.
    JobPast(usize),
    Binary,
}

/// Lines `offset` and following, read without holding more of the file than is shown.
fn numbered(file: File, offset: usize, limit: usize) -> io::Result<Window> {
    let mut reader = BufReader::with_capacity(PEEK, file);
    if is_binary(reader.fill_buf()?) {
        return Ok(Window::Binary);
    }
    let mut before = 0;
    while before + 1 < offset && reader.skip_until(b'\n')? > 0 {
        before += 1;
    }
    let mut reader = reader.take(SHOWN);
    let mut text = String::new();
    let mut line = Vec::new();
    let mut number = before;
    while number < before + limit {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        text.push_str(&format!("{number:>3} | {}\n", String::from_utf8_lossy(line)));
    }
    let cut = reader.limit() == 0;
    let mut rest = reader.into_inner();
    let more = !rest.fill_buf()?.is_empty();
    if cut && more {
        text.push_str(&format!(
            "(line {number} is cut off here: the part asked for is too large; ask for fewer lines)\n"
        ));
    } else if more {
        text.push_str(&format!("(the file goes on; continue with offset {})\n", number + 1));
    }
    Ok(match number {
        0 => Window::Empty,
        _ if text.is_empty() => Window::JobPast(before),
        _ => Window::Lines(text),
    })
}

/// Whether these first bytes are those of a binary file.
pub(super) fn is_binary(start: &[u8]) -> bool {
    start[..start.len().min(PEEK)].contains(&0)
}

pub(super) fn write(jail: &Jail, args: WriteArgs) -> ToolAnswer {
    match jail.write(&args.file_path, args.content.as_bytes()) {
        Ok(path) => {
            ToolAnswer::ok(format!("Wrote {} to {}", counted(args.content.len(), "byte"), args.file_path)).wrote(path)
        }
        Err(error) => ToolAnswer::error(error.to_string()),
    }
}

pub(super) fn edit(jail: &Jail, args: EditArgs) -> ToolAnswer {
    let path = &args.file_path;
    let bytes = match jail.read(path, EDITABLE) {
        Ok(bytes) => bytes,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    let (bytes, count) = match replaced(&bytes, &args) {
        Ok(done) => done,
        Err(why) => return ToolAnswer::error(why),
    };
    let places = counted(count, "place");
    match jail.write(path, &bytes) {
        Ok(written) => ToolAnswer::ok(format!("Edited {path} in {places}")).wrote(written),
        Err(error) => ToolAnswer::error(error.to_string()),
    }
}

/// The new content and how often something was replaced. Works on bytes, so that what is not UTF-8 stays as it is.
fn replaced(bytes: &[u8], args: &EditArgs) -> Result<(Vec<u8>, usize), String> {
    let EditArgs { file_path: path, old_string, new_string, replace_all } = args;
    if old_string.is_empty() {
        return Err("`old_string` is empty; use write_file to write a whole file".into());
    }
    if old_string == new_string {
        return Err("`old_string` and `new_string` are the same".into());
    }
    let (mut old, mut new) = (old_string.clone(), new_string.clone());
    let mut places = find_all(bytes, old.as_bytes());
    if places.is_empty() && old.contains('\n') && !old.contains('\r') {
        // The model sees lines without their ends: in a file with CRLF it means those.
        (old, new) = (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n"));
        places = find_all(bytes, old.as_bytes());
    } else if !places.is_empty() && new.contains('\n') && !new.contains('\r') && all_crlf(bytes) {
        new = new.replace('\n', "\r\n");
    }
    match places.len() {
        0 => return Err(format!("`old_string` does not occur in `{path}`; read the file and copy the piece exactly")),
        1 => {}
        _ if *replace_all => {}
        count => {
            return Err(format!(
                "`old_string` occurs {} in `{path}`; give more of the text around it, or set `replace_all`",
                counted(count, "time")
            ));
        }
    }
    let mut result = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for place in &places {
        result.extend_from_slice(&bytes[from..*place]);
        result.extend_from_slice(new.as_bytes());
        from = place + old.len();
    }
    result.extend_from_slice(&bytes[from..]);
    Ok((result, places.len()))
}

fn all_crlf(bytes: &[u8]) -> bool {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
    ends.peek().is_some() && ends.all(|(at, _)| at > 0 && bytes[at - 1] == b'\r')
}

/// Where `needle` begins, without overlaps.
fn find_all(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(needle.len()).position(|part| part == needle) {
        places.push(from + at);
        from += at + needle.len();
    }
    places
}
