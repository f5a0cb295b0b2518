//! What git looks up among the objects of a repository, and believes: where else there are objects, which packs there
//! are, and what it keeps to find objects sooner. Agents can add objects, so they can write there. What they write is
//! taken away again before pleach commits anything, also by one who finds it after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gix::odb::pack::Bundle;

use super::error::{Error, IoContext as _};
use super::repo::Repo;
use super::worktree::Notes;
use crate::beneath::{Beneath, FEW_LINES};

/// The file by which a repository takes objects from elsewhere.
const ALTERNATES: &str = "info/alternates";

/// What git keeps among the objects to find them sooner, and does without. git itself writes it now and then.
const CACHES: [&str; 3] = ["info/commit-graph", "info/commit-graphs/commit-graph-chain", "pack/multi-pack-index"];

/// The note of what git looks up.
const NOTE: &str = "lookups";

/// What it has at most: names of packs are the most of it.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Where packs lie.
const PACKS: &str = "pack";

/// What an index of a pack has at least: its head, how many objects there are by their first byte, two checksums.
const SHORTEST: u64 = 8 + 256 * 4 + 2 * 20;

/// The indices of packs there are, and what their directory was when they were listed: it is not listed again before it
/// has changed.
#[derive(Debug, Default)]
pub(super) struct Packs(Mutex<Option<(Print, Arc<BTreeSet<String>>)>>);

/// The state of what git looks up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookups {
    alternates: Alternates,
    caches: BTreeMap<&'static str, Print>,
    /// The indices of packs.
    packs: Arc<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Alternates {
    None,
    Some(Vec<u8>),
    /// No file pleach reads: a link, or too long.
    Odd(String),
}

/// What tells a file from what somebody makes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Print {
    /// Which file it is; none if there is none.
    file: Option<(u64, u64)>,
    /// Its size, and when it was last changed, which nobody can set.
    content: (u64, i64, i64),
}

/// What was changed of it, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planted {
    /// What leads to objects that may be gone tomorrow. It was put back.
    pub control: Vec<String>,
    /// What may have come from the user's own git.
    pub foreign: Vec<String>,
}

impl Planted {
    /// Takes what was found later.
    pub fn extend(&mut self, later: Self) {
        for (all, more) in [(&mut self.control, later.control), (&mut self.foreign, later.foreign)] {
            for what in more {
                if !all.contains(&what) {
                    all.push(what);
                }
            }
        }
    }
}

impl Repo {
    /// What git looks up among the objects, as it is now.
    pub fn lookups(&self) -> Result<Lookups, Error> {
        let objects = self.common_dir().join("objects");
        let alternates = match Beneath::at(&objects).and_then(|objects| objects.read(ALTERNATES, FEW_LINES)) {
            Ok(None) => Alternates::None,
            // A repository that is gone is for others to notice.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Alternates::None,
            Ok(Some(bytes)) => Alternates::Some(bytes),
            Err(error) => Alternates::Odd(error.to_string()),
        };
        let print = |name: &'static str| (name, Print::of(objects.join(name).symlink_metadata().ok().as_ref()));
        let packs = self.shared.packs.list(&objects.join(PACKS))?;
        Ok(Lookups { alternates, caches: CACHES.into_iter().map(print).collect(), packs })
    }

    /// Puts back what was changed since. What git keeps to find objects sooner goes where an agent may have written it,
    /// and so does what came as an index of a pack and is none.
    pub fn put_back(&self, before: &mut Lookups) -> Result<Planted, Error> {
        let (now, mut planted) = (self.lookups()?, Planted::default());
        let objects = self.common_dir().join("objects");
        if now == *before || !objects.exists() {
            return Ok(planted);
        }
        let beneath = Beneath::at(&objects).at("open", &objects)?;
        if now.alternates != before.alternates {
            let place = objects.join(ALTERNATES);
            let done = match &before.alternates {
                Alternates::None => beneath.remove(ALTERNATES).map(|()| "was put back"),
                Alternates::Some(bytes) => beneath.write(ALTERNATES, bytes).map(|()| "was put back"),
                Alternates::Odd(_) => Ok("was changed"),
            };
            let done = done.at("write", &place)?;
            planted.control.push(format!("{} ({done}{})", place.display(), now.alternates.said()));
            self.look_again();
        }
        for name in CACHES {
            if now.caches[name] == before.caches[name] {
                continue;
            }
            let place = objects.join(name);
            let fate = match now.caches[name].is_git_s(&before.caches[name]) {
                true => "git does without it if you delete it",
                false => {
                    beneath.remove(name).at("remove", &place)?;
                    "it was removed, and git does without it"
                }
            };
            planted.foreign.push(format!("`objects/{name}` of the repository ({fate})"));
            // Named once.
            before.caches.insert(name, Print::of(place.symlink_metadata().ok().as_ref()));
        }
        for name in now.packs.difference(&before.packs) {
            let inside = Path::new(PACKS).join(name);
            let place = objects.join(&inside);
            if !is_whole(&place) {
                beneath.remove(&inside).at("remove", &place)?;
                let named = format!("`objects/{}` of the repository (no whole pack; it was removed)", inside.display());
                planted.foreign.push(named);
            }
        }
        before.packs = self.shared.packs.list(&objects.join(PACKS))?;
        Ok(planted)
    }

    /// Forgets which objects there are elsewhere: what is held open was opened when there were more.
    fn look_again(&self) {
        self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.recent.forget();
        miss(&self.local());
    }
}

/// Has the library look at the disk for where objects are, which it does when it does not find one.
pub(super) fn miss(handle: &gix::Repository) {
    handle.has_object(gix::ObjectId::null(handle.object_hash()));
}

impl Packs {
    fn list(&self, dir: &Path) -> Result<Arc<BTreeSet<String>>, Error> {
        let print = Print::of(dir.symlink_metadata().ok().as_ref());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, names)) = &*last
            && *before == print
        {
            return Ok(Arc::clone(names));
        }
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Arc::default()),
            entries => entries.at("list", dir)?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string()));
        // git names them by their checksum; one nobody can write down was there before, or is of no use to anybody.
        let names = names.filter_map(|name| name.map(Result::ok).transpose());
        let names =
            names.filter(|name| name.as_ref().map_or(true, |name| name.ends_with(".idx") && !name.contains('\n')));
        let names = Arc::new(names.collect::<std::io::Result<BTreeSet<String>>>().at("list", dir)?);
        *last = Some((print, Arc::clone(&names)));
        Ok(names)
    }
}

/// Whether a file is the index of a pack that is there, by what can be seen without reading all of either.
fn is_whole(index: &Path) -> bool {
    let is_long = index.symlink_metadata().is_ok_and(|file| file.is_file() && file.size() >= SHORTEST);
    let pack = is_long.then(|| Bundle::at(index, gix::hash::Kind::Sha1).ok()).flatten();
    pack.is_some_and(|pack| pack.index.num_objects() == pack.pack.num_objects())
}

impl Alternates {
    fn said(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Some(bytes) => format!("; it said `{}`", String::from_utf8_lossy(bytes).trim_end().escape_debug()),
            Self::Odd(what) => format!("; {what}"),
        }
    }
}

impl Print {
    fn of(file: Option<&Metadata>) -> Self {
        file.map_or_else(Self::default, |file| Self {
            file: Some((file.dev(), file.ino())),
            content: (file.size(), file.ctime(), file.ctime_nsec()),
        })
    }

    /// Whether git itself has changed it: it puts another file in the place of one, which no bound agent can.
    fn is_git_s(&self, before: &Self) -> bool {
        before.file.is_some() && self.file != before.file
    }
}

impl Lookups {
    /// Notes it for one who comes after a kill.
    pub fn note(&self, notes: &Notes) -> Result<(), Error> {
        notes.write(NOTE, &self.write())
    }

    /// What was noted and not forgotten: whoever worked there was killed.
    pub fn noted(notes: &Notes) -> Result<Option<Self>, Error> {
        Ok(notes.read(NOTE, LONGEST)?.and_then(|note| Self::read(&note)))
    }

    /// Forgets what was noted.
    pub fn forget(notes: &Notes) -> Result<(), Error> {
        notes.remove(NOTE)
    }

    fn write(&self) -> Vec<u8> {
        let mut text = String::new();
        for print in CACHES.map(|name| &self.caches[name]) {
            let ((dev, ino), (size, at, nanos)) = (print.file.unwrap_or_default(), print.content);
            text.push_str(&format!("{dev} {ino} {size} {at} {nanos}\n"));
        }
        text.push_str(&format!("{}\n", self.packs.len()));
        self.packs.iter().for_each(|name| text.push_str(&format!("{name}\n")));
        let (kind, rest) = match &self.alternates {
            Alternates::None => ("-\n", &b""[..]),
            Alternates::Some(bytes) => ("+\n", &bytes[..]),
            Alternates::Odd(what) => ("?\n", what.as_bytes()),
        };
        [text.as_bytes(), kind.as_bytes(), rest].concat()
    }

    /// Reads a note; none if it is none.
    fn read(note: &[u8]) -> Option<Self> {
        let mut rest = note;
        let mut line = || {
            let (line, behind) = rest.split_at(rest.iter().position(|byte| *byte == b'\n')? + 1);
            rest = behind;
            std::str::from_utf8(line).ok()?.strip_suffix('\n')
        };
        let mut caches = BTreeMap::new();
        for name in CACHES {
            let numbers: Vec<i128> = line()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let [dev, ino, size, at, nanos] = numbers[..] else { return None };
            let file = (u64::try_from(dev).ok()?, u64::try_from(ino).ok()?);
            let content = (u64::try_from(size).ok()?, i64::try_from(at).ok()?, i64::try_from(nanos).ok()?);
            caches.insert(name, Print { file: (file != (0, 0)).then_some(file), content });
        }
        let count: usize = line()?.parse().ok()?;
        let packs = (0..count).map(|_| line().map(str::to_owned)).collect::<Option<BTreeSet<String>>>()?;
        let alternates = match line()? {
            "-" => Alternates::None,
            "+" => Alternates::Some(rest.to_owned()),
            "?" => Alternates::Odd(String::from_utf8_lossy(rest).into_owned()),
            _ => return None,
        };
        Some(Self { alternates, caches, packs: packs.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let print = Print { file: Some((1, 2)), content: (3, -4, 5) };
        let caches: BTreeMap<_, _> = CACHES.into_iter().zip([print, Print::default(), Print::default()]).collect();
        let all = [Alternates::None, Alternates::Some(b"/a\n\xff\n".to_vec()), Alternates::Odd("it is a link".into())];
        for alternates in all {
            let packs = Arc::new(BTreeSet::from(["pack-1.idx".to_owned(), "pack-2.idx".to_owned()]));
            let lookups = Lookups { alternates, caches: caches.clone(), packs };
            assert_eq!(Lookups::read(&lookups.write()), Some(lookups));
        }
        assert_eq!(Lookups::read(b""), None);
        assert_eq!(Lookups::read(b"1 2 3\n"), None);
    }
}
