//! Encodes a sandbox as words for the supervisor: a letter for the kind, then the value.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::bounds::{Availability, Connect, Sandbox};

const LANDLOCK: u8 = b'l';

const BUBBLEWRAP: u8 = b'b';

/// Without a value: system calls can be filtered.
const FILTERS: u8 = b'f';

const WRITE: u8 = b'w';

const ADD: u8 = b'a';

/// Without a value: reading is restricted.
const READ: u8 = b'r';

const HIDE: u8 = b'h';

const SHOW: u8 = b's';

/// Without a value: connecting is restricted.
const CONNECT: u8 = b'c';

pub(in crate::process) fn to_words(sandbox: &Sandbox) -> Vec<OsString> {
    let word = |tag: u8, value: &OsStr| OsString::from_vec([&[tag], value.as_bytes()].concat());
    let number = |tag: u8, value: u32| word(tag, OsStr::new(&value.to_string()));
    let empty = |tag: u8| word(tag, OsStr::new(""));
    let path = |tag: u8| move |path: &PathBuf| word(tag, path.as_os_str());
    let Sandbox { by, write, add, read, hide, show, connect } = sandbox;
    let mut words: Vec<OsString> = by.landlock_abi.map(|abi| number(LANDLOCK, abi)).into_iter().collect();
    words.extend(by.bubblewrap.iter().map(path(BUBBLEWRAP)));
    words.extend(by.filters.then(|| empty(FILTERS)));
    words.extend(write.iter().map(path(WRITE)));
    words.extend(add.iter().map(path(ADD)));
    if let Some(read) = read {
        words.push(empty(READ));
        words.extend(read.iter().map(path(READ)));
    }
    words.extend(hide.iter().map(path(HIDE)));
    words.extend(show.iter().map(path(SHOW)));
    if let Connect::Ports(ports) = connect {
        words.push(empty(CONNECT));
        words.extend(ports.iter().map(|port| number(CONNECT, u32::from(*port))));
    }
    words
}

pub(in crate::process) fn from_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<Sandbox> {
    let mut sandbox = Sandbox { by: Availability::default(), ..Sandbox::default() };
    for word in words {
        let (tag, value) = word.split_first()?;
        let path = || Path::new(OsStr::from_bytes(value)).to_owned();
        let text = || std::str::from_utf8(value).ok();
        match *tag {
            LANDLOCK => sandbox.by.landlock_abi = Some(text()?.parse().ok()?),
            BUBBLEWRAP => sandbox.by.bubblewrap = Some(path()),
            FILTERS if value.is_empty() => sandbox.by.filters = true,
            WRITE => sandbox.write.push(path()),
            ADD => sandbox.add.push(path()),
            READ if value.is_empty() => sandbox.read = Some(Vec::new()),
            READ => sandbox.read.as_mut()?.push(path()),
            HIDE => sandbox.hide.push(path()),
            SHOW => sandbox.show.push(path()),
            CONNECT if value.is_empty() => sandbox.connect = Connect::Ports(Vec::new()),
            CONNECT => match &mut sandbox.connect {
                Connect::Ports(ports) => ports.push(text()?.parse().ok()?),
                Connect::Anywhere => return None,
            },
            _ => return None,
        }
    }
    Some(sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_arrive_as_they_were_sent() {
        let whole = Sandbox {
            by: Availability { landlock_abi: Some(7), bubblewrap: Some("/usr/bin/bwrap".into()), filters: true },
            write: vec!["/w".into(), PathBuf::from(OsStr::from_bytes(b"/\xff w"))],
            add: vec!["/g/objects".into()],
            read: Some(vec!["/usr".into()]),
            hide: vec!["/h/.ssh".into(), "/h/.aws".into()],
            show: vec!["/s".into()],
            connect: Connect::Ports(vec![80, 65535]),
        };
        let nothing = Sandbox { read: Some(Vec::new()), connect: Connect::Ports(Vec::new()), ..Sandbox::default() };
        for sandbox in [whole, nothing, Sandbox::default()] {
            let words = to_words(&sandbox);
            assert_eq!(from_words(words.iter().map(|word| word.as_bytes())), Some(sandbox));
        }
        for wrong in ["", "x", "c80", "r/usr", "lmany", "c\0", "fx"] {
            assert_eq!(from_words([wrong.as_bytes()].into_iter()), None, "{wrong}");
        }
    }
}
