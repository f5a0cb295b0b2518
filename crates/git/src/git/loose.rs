//! Writes objects as loose files: atomically, durably on request, and repairing files truncated by a crash. Neither git
//! by default nor the library makes loose objects durable.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write as _};
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
use super::error::{Error, IoContext as _, LibraryContext as _};
use super::pack_index::{Indices, PackIndexes};

pub(super) type NewObject<'a> = (&'a gix::ObjectId, ObjectKind, &'a [u8]);

/// Objects written at once, which limits the number of open files.
const ROUND: usize = 64;

/// Threads that wait for the disk. A disk handles concurrent syncs together, so with parallel waits a turn with many
/// objects becomes durable in about the same time as one with few.
const WAITING: usize = 8;

/// Up to this many files are synced one after another: waking threads costs more processor time than it saves.
const FEW: usize = 3;

/// A disk that answers within this time is waited for by a single thread, because waking others takes longer.
const AT_ONCE: Duration = Duration::from_micros(50);

/// How often git may remove a directory, as it does after packing its last object or ref, before that is an error.
pub(super) const TRIES: usize = 100;

/// The minimum size of a file on disk, on most file systems.
const BLOCK: usize = 4096;

/// The overhead of bytes stored without compression.
const STORED: usize = 11;

/// Whether the last sync took longer.
static SLOW: AtomicBool = AtomicBool::new(false);

/// Writes the objects that a store lacks or has damaged, and returns them.
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

/// Removes extra names of objects that a sandboxed git could link into place but whose temporary name it could not
/// unlink. A file with a single name may still be being written.
pub(super) fn remove_temporary_objects(objects: &Path) {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_fan = |name: &std::ffi::OsStr| name.len() == 2;
    for dir in entries(objects).filter(|entry| is_fan(&entry.file_name())) {
        for file in entries(&dir.path()) {
            let is_temporary = file.file_name().as_encoded_bytes().starts_with(b"tmp_obj_");
            if is_temporary && file.metadata().is_ok_and(|data| data.is_file() && data.nlink() > 1) {
                // The extra name is harmless, and git removes it eventually.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// The loose objects of a repository during a write.
struct LooseStore<'r> {
    store: &'r gix::odb::Store,
    root: &'r Path,
    indices: &'r PackIndexes,
    /// The contents of packs, read for the first object that is not loose.
    known: Option<Arc<Indices>>,
    /// The objects that were missing.
    written: BTreeSet<gix::ObjectId>,
    /// Changed directories.
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

    /// Makes the names of written objects durable. If a directory is gone, its objects were packed meanwhile; objects
    /// that are in no pack either are written again.
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
            // Includes packs created since.
            self.packs = Some(own_packs(self.root, self.store.object_hash())?);
            for (id, ..) in &again {
                self.written.remove(*id);
            }
            self.write_rounds(&again, durability)?;
        }
        Err(std::io::Error::from(ErrorKind::NotFound)).at("write into", self.root)
    }

    /// Writes some objects, and rewrites those whose temporary files a concurrent `git gc` removed as stale.
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

    /// Writes them once. Returns the objects whose files were removed before they got their names.
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
                // It may come from a git that did not sync it.
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

    /// Whether the repository itself already has the object, undamaged. The file is read: the library accepts any file
    /// of the right name as the object, and takes objects from alternates, which may be gone tomorrow.
    fn existing(&mut self, path: &Path, id: &gix::ObjectId, kind: ObjectKind, bytes: &[u8]) -> Result<Existing, Error> {
        match read_short(path, 2 * bytes.len() + 1024) {
            Ok((file, content)) if holds_object(&content, kind, bytes) => Ok(Existing::Loose(file)),
            Ok(_) => Ok(Existing::None),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at("read", path),
            Err(_) if self.may_be_packed(id)? && self.is_packed(id, kind, bytes)? => Ok(Existing::Packed),
            Err(_) => Ok(Existing::None),
        }
    }

    /// Whether to search the packs. The indexes answer without opening all packs, but miss the newest ones: an object
    /// in one of those is written again.
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

    /// Whether one of the repository's own packs has exactly this object.
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

    /// Writes the content of an object to a temporary file beside its path.
    fn write_beside(&mut self, path: &Path, kind: ObjectKind, bytes: &[u8]) -> Result<(Temporary, File), Error> {
        let (temporary, mut file, is_new) = create_beside(path)?;
        if is_new {
            self.directories.insert(self.root.to_owned());
        }
        let content = compressed(kind, bytes).map_err(|error| Error::library("compress an object", error))?;
        file.write_all(&content).at("write", &temporary.0)?;
        Ok((temporary, file))
    }
}

/// A temporary file beside the path of an object, and whether their directory is new.
fn create_beside(path: &Path) -> Result<(Temporary, File, bool), Error> {
    let directory = path.parent().unwrap_or(path);
    let temporary = Temporary(directory.join(format!("tmp_obj_{:016x}", fastrand::u64(..))));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o444);
    let (file, is_new) = open_in(directory, || options.open(&temporary.0)).at("create", &temporary.0)?;
    Ok((temporary, file, is_new))
}

/// Bytes of a large object that are in memory at once.
const PIECE: usize = 1 << 20;

/// A blob too large for memory, written to a temporary file beside its path.
pub(super) struct LargeBlob {
    temporary: Temporary,
    file: File,
    path: PathBuf,
}

impl LargeBlob {
    /// Compresses what is read, piece by piece; none if that is not the content of this id and size.
    pub fn write(root: &Path, id: &gix::oid, size: u64, from: &mut dyn Read) -> Result<Option<Self>, Error> {
        let path = loose_path(root, id);
        let (temporary, mut file, _) = create_beside(&path)?;
        let mut deflate = Compress::new(gix::zlib::Compression::BEST_SPEED);
        let mut packed = vec![0; PIECE];
        let mut add = |mut bytes: &[u8], flush: FlushCompress| loop {
            let (read, written) = (deflate.total_in(), deflate.total_out());
            let status = deflate.compress(bytes, &mut packed, flush);
            let status = status.map_err(|error| Error::library("compress an object", error))?;
            bytes = &bytes[position(deflate.total_in() - read)..];
            file.write_all(&packed[..position(deflate.total_out() - written)]).at("write", &temporary.0)?;
            let is_last = matches!(flush, FlushCompress::Finish);
            if if is_last { status == gix::zlib::Status::StreamEnd } else { bytes.is_empty() } {
                return Ok::<(), Error>(());
            }
        };
        let header = gix::objs::encode::loose_header(ObjectKind::Blob, size);
        let mut hasher = gix::hash::hasher(id.kind());
        hasher.update(&header);
        add(&header, FlushCompress::None)?;
        let (mut piece, mut length) = (vec![0; PIECE], 0);
        loop {
            let read = from.read(&mut piece).at("write", &path)?;
            if read == 0 {
                break;
            }
            length += read as u64;
            hasher.update(&piece[..read]);
            add(&piece[..read], FlushCompress::None)?;
        }
        add(&[], FlushCompress::Finish)?;
        let found = hasher.try_finalize().doing("hash a file")?;
        Ok((length == size && found == id).then_some(Self { temporary, file, path }))
    }

    /// Gives it its name, durable once this returns. After a failure it may be tried again.
    pub fn name(&mut self, root: &Path, durability: Durability) -> Result<(), Error> {
        let is_durable = durability != Durability::None;
        if !self.temporary.0.as_os_str().is_empty() {
            if is_durable {
                self.file.sync_all().at("sync", &self.path)?;
            }
            crash::point(CrashKind::ObjectWrite, CrashSide::Before);
            std::fs::rename(&self.temporary.0, &self.path).at("write", &self.path)?;
            self.temporary.0.clear();
            crash::point(CrashKind::ObjectWrite, CrashSide::After);
        }
        for directory in [root, self.path.parent().unwrap_or(root)].into_iter().filter(|_| is_durable) {
            File::open(directory).and_then(|directory| directory.sync_all()).at("sync", directory)?;
        }
        Ok(())
    }
}

/// Updates the timestamp of an object: git prunes old unreachable ones, and this one is unreachable until a ref moves.
fn freshen(file: &File) {
    let now = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: now(UTIME_OMIT), last_modification: now(UTIME_NOW) };
    // Only the owner may do this, and for git the object is no older than before if it fails.
    let _ = futimens(file, &times);
}

enum Existing {
    None,
    Loose(File),
    Packed,
}

/// Opens a file in a directory, creating the directory if it is missing, and returns whether it was created. git may
/// remove an empty one at any time.
fn open_in(directory: &Path, mut open: impl FnMut() -> std::io::Result<File>) -> std::io::Result<(File, bool)> {
    for tries in 0..TRIES {
        match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => return file.map(|file| (file, tries > 0)),
        }
        match std::fs::create_dir_all(directory) {
            // Another process created and removed it before we could see that it is a directory.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// A file and its content if it has at most `limit` bytes, and otherwise no content, which is not an object.
/// Incompressible data grows only slightly, but an agent can create a file of any size.
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

/// Whether a loose file holds exactly this object, up to the last byte of its checksum, and nothing after it.
fn holds_object(file: &[u8], kind: ObjectKind, bytes: &[u8]) -> bool {
    let expected = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    let mut found = vec![0; expected.len() + 1];
    match gix::zlib::Inflate::default().once(file, &mut found) {
        Ok((gix::zlib::Status::StreamEnd, read, length)) => read == file.len() && found[..length] == expected,
        _ => false,
    }
}

/// The readable packs in an object directory.
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

/// A file that becomes an object once it is complete on disk; git cleans up files of this name after a crash.
pub(super) struct Temporary(pub PathBuf);

impl Temporary {
    pub fn move_to(mut self, path: &Path) -> Result<(), Error> {
        std::fs::rename(&self.0, path).at("write", path)?;
        // It is the object now and must not be removed.
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

/// The content of an object's loose file. A file takes at least one block on disk, so one that fits into a block is not
/// compressed: clearing the compressor's tables takes longer than everything else.
pub(super) fn compressed(kind: ObjectKind, bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
    let content = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    match u16::try_from(content.len()) {
        Ok(length) if content.len() + STORED <= BLOCK => Ok(stored(&content, length)),
        _ => deflated(&content),
    }
}

/// Bytes as a zlib stream with a single stored block.
fn stored(content: &[u8], length: u16) -> Vec<u8> {
    let mut stream = Vec::with_capacity(content.len() + STORED);
    // The zlib header, and the mark of the last block.
    stream.extend([0x78, 0x01, 0x01]);
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(content);
    stream.extend(zlib_rs::adler32::adler32(1, content).to_be_bytes());
    stream
}

/// Bytes compressed as git does.
pub(super) fn deflated(bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
    thread_local! {
        // git's own level for loose objects. The compressor is reused: its tables are far larger than most objects.
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
            // No threads could be started.
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

/// Files for another thread to sync.
struct SyncJob {
    files: Vec<(File, PathBuf)>,
    done: mpsc::Sender<Result<(), Error>>,
}

/// The threads that wait for the disk. They are kept, because starting one costs more processor time than it saves.
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
                    // The receiver is gone only when its process ends.
                    let _ = done.send(sync_each(&files));
                }
            };
            // With fewer threads the wait is longer; without any, sending fails.
            let _ = std::thread::Builder::new().name("pleach-sync".into()).spawn(help);
        }
        sender
    })
}

#[cfg(test)]
mod tests;
