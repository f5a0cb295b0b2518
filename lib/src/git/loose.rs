//! Writing objects as loose files: complete or not at all, durable on request, and repairing what a crash left
//! truncated. Neither git by default nor the library makes loose objects durable.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use gix::objs::Kind as ObjectKind;
use gix::odb::pack::{Bundle, cache};
use gix::zlib::stream::deflate::{Compress, FlushCompress};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

use super::crash::{self, CrashKind, CrashSide};
use super::durability::Durability;
use super::error::{Error, IoContext as _};
use super::pack_index::{Indices, PackIndexes};

/// An object to write.
pub(super) type NewObject<'a> = (&'a gix::ObjectId, ObjectKind, &'a [u8]);

/// Objects written at once, which bounds the files that are open.
const ROUND: usize = 64;

/// Threads that wait for the disk. It takes files that come together in one go, so waiting side by side is what makes
/// a turn of many objects as durable as one of few in about the same time.
const WAITING: usize = 8;

/// Up to so many files are waited for one after another: waking threads costs more processor time than the wait it saves.
const FEW: usize = 3;

/// A disk that answers within this time is waited for by one thread: waking others takes longer.
const AT_ONCE: Duration = Duration::from_micros(50);

/// How often git may remove a directory, as it does with those it has packed the last object or ref of, before that is an
/// error.
pub(super) const TRIES: usize = 100;

/// What a file takes on disk at least, on most file systems.
const BLOCK: usize = 4096;

/// What bytes that are stored as they are have around them.
const STORED: usize = 11;

/// Whether the disk took longer when it was last waited for.
static SLOW: AtomicBool = AtomicBool::new(false);

/// Writes objects into a store that does not have them whole, and says which.
pub(super) fn write(
    store: &gix::odb::Store,
    packs: &PackIndexes,
    objects: &[NewObject<'_>],
    durability: Durability,
) -> Result<BTreeSet<gix::ObjectId>, Error> {
    let mut store = LooseStore::new(store, packs);
    store.write_rounds(objects, durability)?;
    store.settle(objects, durability)?;
    Ok(store.written)
}

/// Removes the second names of objects that a git in bounds could give a name and not take its working name from. A file
/// with one name alone may be one that is being written.
pub(super) fn remove_temporary_objects(objects: &Path) {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_fan = |name: &std::ffi::OsStr| name.len() == 2;
    for dir in entries(objects).filter(|entry| is_fan(&entry.file_name())) {
        for file in entries(&dir.path()) {
            let is_temporary = file.file_name().as_encoded_bytes().starts_with(b"tmp_obj_");
            if is_temporary && file.metadata().is_ok_and(|data| data.is_file() && data.nlink() > 1) {
                // Another name is as harmless as it was, and git itself removes it some day.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// The loose objects of a repository, while some are written.
struct LooseStore<'r> {
    store: &'r gix::odb::Store,
    root: &'r Path,
    indices: &'r PackIndexes,
    /// What is in packs, looked at for the first object that is not loose.
    known: Option<Arc<Indices>>,
    /// What was not there.
    written: BTreeSet<gix::ObjectId>,
    /// Directories that were changed.
    directories: BTreeSet<PathBuf>,
    /// Its packs, opened for the first object that may be in one.
    packs: Option<Vec<Bundle>>,
}

impl<'r> LooseStore<'r> {
    fn new(store: &'r gix::odb::Store, indices: &'r PackIndexes) -> Self {
        let (written, directories) = (BTreeSet::new(), BTreeSet::new());
        Self { store, root: store.path(), indices, known: None, written, directories, packs: None }
    }

    fn write_rounds(&mut self, objects: &[NewObject<'_>], durability: Durability) -> Result<(), Error> {
        objects.chunks(ROUND).try_for_each(|round| self.write_round(round, durability))
    }

    /// Makes the names of what was written durable. Where a directory is gone, somebody has packed what was in it, and what
    /// is not in a pack either is written again.
    fn settle(&mut self, objects: &[NewObject<'_>], durability: Durability) -> Result<(), Error> {
        for _ in 0..TRIES {
            let mut gone = BTreeSet::new();
            let mut there = Vec::new();
            for path in std::mem::take(&mut self.directories) {
                match File::open(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => drop(gone.insert(path)),
                    file => there.push((file.at("open", &path)?, path)),
                }
            }
            sync(there, durability)?;
            let is_lost = |id: &gix::ObjectId| {
                let path = loose_path(self.root, id);
                path.parent().is_some_and(|dir| gone.contains(dir)) || self.written.contains(id) && !path.exists()
            };
            let again: Vec<NewObject<'_>> = objects.iter().filter(|(id, ..)| is_lost(id)).copied().collect();
            if again.is_empty() {
                return Ok(());
            }
            // Those that were made since.
            self.packs = Some(own_packs(self.root, self.store.object_hash())?);
            for (id, ..) in &again {
                self.written.remove(*id);
            }
            self.write_rounds(&again, durability)?;
        }
        Err(std::io::Error::from(ErrorKind::NotFound)).at("write into", self.root)
    }

    /// Writes some objects; those again that a `git gc` beside it has taken for what somebody else left unfinished.
    fn write_round(&mut self, objects: &[NewObject<'_>], durability: Durability) -> Result<(), Error> {
        let mut left = objects.to_vec();
        for _ in 0..TRIES {
            left = self.write_once(&left, durability)?;
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(std::io::Error::from(ErrorKind::NotFound)).at("write into", self.root)
    }

    /// The same once. Returns those that were removed before they had their names.
    fn write_once<'o>(
        &mut self,
        objects: &[NewObject<'o>],
        durability: Durability,
    ) -> Result<Vec<NewObject<'o>>, Error> {
        let mut new = Vec::new();
        let mut files = Vec::new();
        for (id, kind, bytes) in objects {
            let path = loose_path(self.root, id);
            let file = match self.existing(&path, id, *kind, bytes)? {
                Existing::Packed => continue,
                // It may have come from a git that did not wait for the disk.
                Existing::Loose(file) => {
                    freshen(&file);
                    file
                }
                Existing::None => {
                    let (temporary, file) = self.write_beside(&path, *kind, bytes)?;
                    new.push((temporary, path.clone(), (*id, *kind, *bytes)));
                    self.written.insert(**id);
                    file
                }
            };
            self.directories.extend(path.parent().map(Path::to_owned));
            files.push((file, path));
        }
        sync(files, durability)?;
        let mut gone = Vec::new();
        for (temporary, path, object) in new {
            crash::point(CrashKind::ObjectWrite, CrashSide::Before);
            match temporary.move_to(&path) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => gone.push(object),
                moved => moved?,
            }
            crash::point(CrashKind::ObjectWrite, CrashSide::After);
        }
        Ok(gone)
    }

    /// Whether the repository itself has the object already, whole. A file is looked at: the library takes any of the right
    /// name for the object, and takes objects from other repositories, which may be gone tomorrow.
    fn existing(&mut self, path: &Path, id: &gix::ObjectId, kind: ObjectKind, bytes: &[u8]) -> Result<Existing, Error> {
        match read_short(path, 2 * bytes.len() + 1024) {
            Ok((file, content)) if holds_object(&content, kind, bytes) => Ok(Existing::Loose(file)),
            Ok(_) => Ok(Existing::None),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at("read", path),
            Err(_) if self.may_be_packed(id)? && self.is_packed(id, kind, bytes)? => Ok(Existing::Packed),
            Err(_) => Ok(Existing::None),
        }
    }

    /// Whether the packs are to be asked. Their indices tell without opening them all, but not of those that came a moment
    /// ago: what is in one is written once more.
    fn may_be_packed(&mut self, id: &gix::oid) -> Result<bool, Error> {
        if self.packs.is_some() {
            return Ok(true);
        }
        let known = match &self.known {
            Some(known) => known,
            None => self.known.insert(self.indices.cached(self.store)?),
        };
        Ok(known.have(id))
    }

    /// Whether a pack of the repository's own has exactly this object.
    fn is_packed(&mut self, id: &gix::ObjectId, kind: ObjectKind, bytes: &[u8]) -> Result<bool, Error> {
        let packs = match &mut self.packs {
            Some(packs) => packs,
            None => self.packs.insert(own_packs(self.root, id.kind())?),
        };
        let (mut found, mut inflate) = (Vec::new(), gix::zlib::Inflate::default());
        Ok(packs.iter().any(|pack| {
            let object = pack.find(id, &mut found, &mut inflate, &mut cache::Never);
            object.is_ok_and(|object| object.is_some_and(|(object, _)| object.kind == kind && object.data == bytes))
        }))
    }

    /// Writes the content of an object beside its place.
    fn write_beside(&mut self, path: &Path, kind: ObjectKind, bytes: &[u8]) -> Result<(Temporary, File), Error> {
        let directory = path.parent().unwrap_or(self.root);
        let temporary = Temporary(directory.join(format!("tmp_obj_{:016x}", fastrand::u64(..))));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o444);
        let (mut file, is_new) = open_in(directory, || options.open(&temporary.0)).at("create", &temporary.0)?;
        if is_new {
            self.directories.insert(self.root.to_owned());
        }
        let content = compressed(kind, bytes).map_err(|error| Error::library("compress an object", error))?;
        file.write_all(&content).at("write", &temporary.0)?;
        Ok((temporary, file))
    }
}

/// Makes an object as young as one that was just written: git removes old ones that nothing leads to, and nothing leads to
/// this one before a ref is moved.
fn freshen(file: &File) {
    let now = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: now(UTIME_OMIT), last_modification: now(UTIME_NOW) };
    // Only its owner may, and what others have written git will not find older for it.
    let _ = futimens(file, &times);
}

enum Existing {
    None,
    Loose(File),
    Packed,
}

/// Opens a file in a directory that is made where it is missing, and tells whether it was. git may remove one that is empty
/// at any moment.
fn open_in(directory: &Path, mut open: impl FnMut() -> std::io::Result<File>) -> std::io::Result<(File, bool)> {
    for tries in 0..TRIES {
        match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => return file.map(|file| (file, tries > 0)),
        }
        match std::fs::create_dir_all(directory) {
            // Somebody made it and somebody has removed it, before it could be seen that it is one.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// A file and its content, of at most `limit` bytes; of any other nothing, which is no object. What does not compress grows
/// by little, but an agent can have made a file of any size.
fn read_short(path: &Path, limit: usize) -> std::io::Result<(File, Vec<u8>)> {
    let wait_for_nobody = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(wait_for_nobody).open(path)?;
    let metadata = file.metadata()?;
    let mut content = Vec::new();
    if metadata.is_file() && metadata.len() <= limit as u64 {
        file.read_to_end(&mut content)?;
    }
    Ok((file, content))
}

/// Whether a loose file holds exactly this object, to the last byte of its checksum, and nothing behind it.
fn holds_object(file: &[u8], kind: ObjectKind, bytes: &[u8]) -> bool {
    let expected = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    let mut found = vec![0; expected.len() + 1];
    match gix::zlib::Inflate::default().once(file, &mut found) {
        Ok((gix::zlib::Status::StreamEnd, read, length)) => read == file.len() && found[..length] == expected,
        _ => false,
    }
}

/// The packs in an object directory that can be read.
fn own_packs(root: &Path, hash: gix::hash::Kind) -> Result<Vec<Bundle>, Error> {
    let dir = root.join("pack");
    let entries = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at("list", &dir)?,
    };
    let mut packs = Vec::new();
    for entry in entries {
        let path = entry.at("list", &dir)?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            packs.extend(Bundle::at(path, hash).ok());
        }
    }
    Ok(packs)
}

pub(super) fn loose_path(root: &Path, id: &gix::oid) -> PathBuf {
    let hex = id.to_hex().to_string();
    root.join(&hex[..2]).join(&hex[2..])
}

/// A file that becomes an object once it is whole on disk; git sweeps up those of this name that a crash leaves.
pub(super) struct Temporary(pub PathBuf);

impl Temporary {
    pub fn move_to(mut self, path: &Path) -> Result<(), Error> {
        std::fs::rename(&self.0, path).at("write", path)?;
        // It is the object now, and not to be removed.
        self.0.clear();
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // An unfinished file is useless.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// An object as its loose file holds it. A file takes a block on disk however little is in it, so one that fits into a block
/// is not made smaller: clearing the compressor's tables takes longer than all else that is done with it.
pub(super) fn compressed(kind: ObjectKind, bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
    let content = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    match u16::try_from(content.len()) {
        Ok(length) if content.len() + STORED <= BLOCK => Ok(stored(&content, length)),
        _ => deflated(&content),
    }
}

/// Bytes as a stream of the format git compresses in, with one block that is stored as it is.
fn stored(content: &[u8], length: u16) -> Vec<u8> {
    let mut stream = Vec::with_capacity(content.len() + STORED);
    // The header of the format, and the mark of the last block.
    stream.extend([0x78, 0x01, 0x01]);
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(content);
    stream.extend(zlib_rs::adler32::adler32(1, content).to_be_bytes());
    stream
}

/// Bytes as git keeps them on disk.
pub(super) fn deflated(bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
    thread_local! {
        // git's own level for loose objects. It is kept: its tables are far larger than most objects.
        static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(gix::zlib::Compression::BEST_SPEED));
    }
    DEFLATE.with_borrow_mut(|deflate| {
        deflate.reset();
        let mut content = vec![0; bytes.len() / 2 + 64];
        loop {
            let (read, written) = (position(deflate.total_in()), position(deflate.total_out()));
            let status = deflate.compress(&bytes[read..], &mut content[written..], FlushCompress::Finish)?;
            if status == gix::zlib::Status::StreamEnd {
                content.truncate(position(deflate.total_out()));
                return Ok(content);
            }
            content.resize(content.len() * 2, 0);
        }
    })
}

fn position(total: u64) -> usize {
    usize::try_from(total).expect("a place in a buffer that is in memory")
}

/// Waits until all files are on disk.
pub(super) fn sync(mut files: Vec<(File, PathBuf)>, durability: Durability) -> Result<(), Error> {
    if durability == Durability::None || files.is_empty() {
        return Ok(());
    }
    if !SLOW.load(Ordering::Relaxed) {
        while let Some(file) = files.pop() {
            let begun = Instant::now();
            sync_each(std::slice::from_ref(&file))?;
            if begun.elapsed() > AT_ONCE && files.len() > FEW {
                SLOW.store(true, Ordering::Relaxed);
                break;
            }
        }
    }
    if files.len() <= FEW {
        return sync_each(&files);
    }
    let size = files.len().div_ceil(WAITING);
    let (done, waited) = mpsc::channel();
    let mut others = 0;
    let mut mine = Ok(());
    while files.len() > size {
        let waiting = SyncJob { files: files.split_off(files.len() - size), done: done.clone() };
        match helpers().send(waiting) {
            Ok(()) => others += 1,
            // There are no threads to be had.
            Err(mpsc::SendError(waiting)) => mine = mine.and(sync_each(&waiting.files)),
        }
    }
    let begun = Instant::now();
    mine = mine.and(sync_each(&files));
    SLOW.store(begun.elapsed() > AT_ONCE, Ordering::Relaxed);
    drop(done);
    let wait = |_| waited.recv().expect("waiting for the disk does not panic");
    (0..others).map(wait).fold(mine, Result::and)
}

fn sync_each(files: &[(File, PathBuf)]) -> Result<(), Error> {
    files.iter().try_for_each(|(file, path)| file.sync_all().at("sync", path))
}

/// Files another thread waits for.
struct SyncJob {
    files: Vec<(File, PathBuf)>,
    done: mpsc::Sender<Result<(), Error>>,
}

/// The threads that wait for the disk. They stay, because making one costs more processor time than it saves.
fn helpers() -> &'static mpsc::Sender<SyncJob> {
    static HELPERS: OnceLock<mpsc::Sender<SyncJob>> = OnceLock::new();
    HELPERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<SyncJob>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 1..WAITING {
            let receiver = Arc::clone(&receiver);
            let next = move || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let help = move || {
                while let Ok(SyncJob { files, done }) = next() {
                    // Whoever asked is gone only when its process ends.
                    let _ = done.send(sync_each(&files));
                }
            };
            // With fewer threads the wait is longer, and without any there is no one to send to.
            let _ = std::thread::Builder::new().name("pleach-sync".into()).spawn(help);
        }
        sender
    })
}

#[cfg(test)]
mod tests;
