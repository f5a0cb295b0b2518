//! What git looks up among the objects of a repository, and believes: where else there are objects, which packs there
//! are, and what it keeps to find objects sooner. Agents can add objects, so they can write there. What they write is
//! taken away again before pleach commits anything, also by one who finds it after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gix::bstr::ByteSlice as _;
use gix::odb::pack::Bundle;

use super::error::{Error, IoContext as _};
use super::repo::Repo;
use super::worktree::Notes;
use crate::beneath::{Beneath, FEW_LINES};

/// The file by which a repository takes objects from elsewhere.
const ALTERNATES: &str = "info/alternates";

/// What git keeps among the objects to find them sooner, and does without. git itself writes it now and then.
const CACHES: [&str; 4] = [
    "info/commit-graph",
    "info/commit-graphs/commit-graph-chain",
    "pack/multi-pack-index",
    "pack/multi-pack-index.d/multi-pack-index-chain",
];

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
pub(super) struct Packs {
    listed: Mutex<Option<(Print, Arc<BTreeSet<String>>)>>,
    /// Those this process has made, which need not be looked into.
    own: Mutex<BTreeSet<String>>,
}

/// The state of what git looks up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookups {
    /// None after a kill: what has become of it since may be the user's doing.
    alternates: Option<Alternates>,
    caches: BTreeMap<&'static str, Print>,
    /// The indices of packs.
    packs: Arc<BTreeSet<String>>,
}

/// Where else there are objects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Alternates {
    /// A line for each place.
    Lines(Vec<Vec<u8>>),
    /// No file pleach reads: a link, or too long.
    Odd(String),
}

impl Default for Alternates {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

/// What becomes of it where somebody has changed it.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It says this again.
    PutBack(Vec<u8>),
    /// The user decides: pleach cannot read it, or what is new there is no agent's.
    Left,
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
    /// What leads to objects that may be gone tomorrow.
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
        let alternates = Some(Alternates::read(&objects));
        let print = |name: &'static str| (name, Print::of(objects.join(name).symlink_metadata().ok().as_ref()));
        let packs = self.shared.packs.list(&objects.join(PACKS))?;
        Ok(Lookups { alternates, caches: CACHES.into_iter().map(print).collect(), packs })
    }

    /// Puts back what was changed since. What git keeps to find objects sooner goes where an agent may have written it,
    /// and so does what came as an index of a pack and is none. Objects from elsewhere are left alone but where they
    /// would come from `agents`, directories agents can write: the user's history may need any other.
    pub fn put_back(&self, before: &mut Lookups, agents: &[&Path]) -> Result<Planted, Error> {
        let (now, mut planted) = (self.lookups()?, Planted::default());
        let objects = self.common_dir().join("objects");
        if now == *before || !objects.exists() {
            return Ok(planted);
        }
        let beneath = Beneath::at(&objects).at("open", &objects)?;
        let found = now.alternates.unwrap_or_default();
        if let Some(fate) = found.fate(before.alternates.as_ref(), &objects, agents) {
            let place = objects.join(ALTERNATES);
            let done = match fate {
                Fate::Left => "was changed",
                Fate::PutBack(content) => {
                    match content.is_empty() {
                        true => beneath.remove(ALTERNATES),
                        false => beneath.write(ALTERNATES, &content),
                    }
                    .at("write", &place)?;
                    "was put back"
                }
            };
            planted.control.push(format!("{} ({done}{})", place.display(), found.said()));
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
            if !self.shared.packs.is_own(name) && (!is_whole(&place) || !self.is_verified(&place)?) {
                beneath.remove(&inside).at("remove", &place)?;
                let named = format!("`objects/{}` of the repository (no sound pack; it was removed)", inside.display());
                planted.foreign.push(named);
            }
        }
        before.packs = self.shared.packs.list(&objects.join(PACKS))?;
        Ok(planted)
    }

    /// Whether the index of a pack says where its objects are. git believes it, and would give the user one file for another.
    fn is_verified(&self, index: &Path) -> Result<bool, Error> {
        let args = [OsStr::new("verify-pack"), OsStr::new("--"), index.as_os_str()];
        Ok(self.shared.program.run(self.common_dir(), args)?.code == Some(0))
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
    /// Takes the checksums git has told of packs that were just made, a line each.
    pub fn made(&self, told: &[u8]) {
        let names = String::from_utf8_lossy(told).lines().map(|sum| format!("pack-{sum}.idx")).collect::<Vec<_>>();
        self.own.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn list(&self, dir: &Path) -> Result<Arc<BTreeSet<String>>, Error> {
        let print = Print::of(dir.symlink_metadata().ok().as_ref());
        let mut last = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn read(objects: &Path) -> Self {
        match Beneath::at(objects).and_then(|objects| objects.read(ALTERNATES, FEW_LINES)) {
            Ok(None) => Self::default(),
            // A repository that is gone is for others to notice.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Ok(Some(bytes)) => {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                Self::Lines(lines.map(<[u8]>::to_vec).collect())
            }
            Err(error) => Self::Odd(error.to_string()),
        }
    }

    /// What becomes of it; none where nothing has changed, as far as it is known what it was. What leads to a place of agents goes and is not missed; what else
    /// was there while nobody but agents worked comes back; what else is new is told.
    fn fate(&self, before: Option<&Self>, objects: &Path, agents: &[&Path]) -> Option<Fate> {
        let is_agents = |line: &&Vec<u8>| leads_into(line, objects, agents);
        let (now, before) = match (self, before) {
            (now, Some(before)) if now == before => return None,
            (Self::Lines(now), Some(Self::Lines(before))) => (now, Some(before)),
            (Self::Lines(now), None) => (now, None),
            (_, None) => return None,
            _ => return Some(Fate::Left),
        };
        let planted = now.iter().any(|line| is_agents(&line));
        let missing: Vec<&Vec<u8>> =
            before.into_iter().flatten().filter(|line| !now.contains(line) && !is_agents(line)).collect();
        let is_new = |line: &Vec<u8>| before.is_some_and(|before| !before.contains(line)) && !is_agents(&line);
        if !planted && missing.is_empty() {
            return now.iter().any(is_new).then_some(Fate::Left);
        }
        let lines = now.iter().filter(|line| !is_agents(line)).chain(missing);
        Some(Fate::PutBack(lines.flat_map(|line| [line, &b"\n"[..]].concat()).collect()))
    }

    fn said(&self) -> String {
        match self {
            Self::Lines(lines) if lines.is_empty() => String::new(),
            Self::Lines(lines) => {
                format!("; it said `{}`", String::from_utf8_lossy(&lines.join(&b'\n')).escape_debug())
            }
            Self::Odd(what) => format!("; {what}"),
        }
    }
}

/// Whether a line names a place in one of some directories, or among the objects themselves.
fn leads_into(line: &[u8], objects: &Path, agents: &[&Path]) -> bool {
    let line = line.as_bstr();
    let named = match line.first() {
        Some(b'#') => return false,
        Some(b'"') => gix::quote::ansi_c::undo(line).map_or(line.into(), |(named, _)| named),
        _ => line.into(),
    };
    let named = objects.join(gix::path::from_bstr(named).unwrap_or_default());
    let plain = |path: &Path| gix::path::normalize(path.into(), objects).map(|path| path.into_owned());
    // What is not there is told by its words alone.
    let real = |path: &Path| path.canonicalize().ok().or_else(|| plain(path)).unwrap_or_else(|| path.to_owned());
    let inside = |place: &Path| agents.iter().chain([&objects]).any(|dir| place.starts_with(real(dir)));
    inside(&real(&named))
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
        text.into_bytes()
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
        Some(Self { alternates: None, caches, packs: packs.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let print = Print { file: Some((1, 2)), content: (3, -4, 5) };
        let caches = [print].into_iter().chain(std::iter::repeat_with(Print::default));
        let caches: BTreeMap<_, _> = CACHES.into_iter().zip(caches).collect();
        let packs = Arc::new(BTreeSet::from(["pack-1.idx".to_owned(), "pack-2.idx".to_owned()]));
        let lookups = Lookups { alternates: None, caches, packs };
        assert_eq!(Lookups::read(&lookups.write()), Some(lookups));
        assert_eq!(Lookups::read(b""), None);
        assert_eq!(Lookups::read(b"1 2 3\n"), None);
    }

    #[test]
    fn of_objects_elsewhere_only_an_agent_s_are_taken_away() {
        let lines = |text: &str| Alternates::Lines(text.lines().map(|line| line.as_bytes().to_vec()).collect());
        let (objects, agents) = (Path::new("/repo/objects"), [Path::new("/copy")]);
        let fate = |before: Option<&str>, now: &str| lines(now).fate(before.map(lines).as_ref(), objects, &agents);
        let put_back = |text: &str| Some(Fate::PutBack(text.as_bytes().to_vec()));
        assert_eq!(fate(Some("/pool\n"), "/pool\n"), None);
        assert_eq!(fate(Some(""), "/copy/o\n"), put_back(""));
        assert_eq!(fate(Some("/pool"), "/pool\n../../copy/o\nsub"), put_back("/pool\n"));
        assert_eq!(fate(Some("/pool"), ""), put_back("/pool\n"), "an agent has taken it away");
        assert_eq!(fate(Some("/copy/o\n"), ""), None, "another one's, which is put back already");
        assert_eq!(fate(Some(""), "/pool\n"), Some(Fate::Left), "the user may need it by now");
        assert_eq!(fate(None, "/pool\n"), None, "after a kill");
        assert_eq!(fate(None, "/pool\n/copy/o\n"), put_back("/pool\n"));
    }
}
