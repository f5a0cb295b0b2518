//! Writing objects as loose files: whole or not at all, durable if asked, and mending what a crash has left behind.
//! Neither git by default nor its library here makes loose objects durable.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use gix::objs::Kind as ObjectKind;
use gix::odb::pack::{Bundle, cache};
use gix::zlib::stream::deflate::{Compress, FlushCompress};

use super::crash::{self, Kind, When};
use super::error::{Error, IoContext as _};
use super::open::Durability;

/// An object to write.
pub(super) type Object<'a> = (&'a gix::ObjectId, ObjectKind, &'a [u8]);

/// Objects written at once, which bounds the files that are open.
const ROUND: usize = 64;

/// Threads that wait for the disk. It takes files that come together in one go, so waiting side by side is what makes
/// a turn of many objects as durable as one of few in about the same time.
const WAITING: usize = 8;

/// Up to so many files are waited for one after another: waking threads costs more processor time than the wait it saves.
const FEW: usize = 3;

/// A disk that answers within this time is waited for by one thread: waking others takes longer.
const AT_ONCE: Duration = Duration::from_micros(50);

/// Whether the disk took longer when it was last waited for.
static SLOW: AtomicBool = AtomicBool::new(false);

/// Writes objects into the store of `repo` that it does not have whole, and says which.
pub(super) fn write(
    repo: &gix::Repository,
    objects: &[Object<'_>],
    durability: Durability,
) -> Result<BTreeSet<gix::ObjectId>, Error> {
    let root = repo.objects.store_ref().path();
    let mut store =
        Store { repo, root, written: BTreeSet::new(), directories: BTreeSet::new(), deflate: None, packs: None };
    for round in objects.chunks(ROUND) {
        store.write_round(round, durability)?;
    }
    let directories = store.directories;
    let directories = directories.into_iter().map(|path| File::open(&path).at("open", &path).map(|file| (file, path)));
    sync(directories.collect::<Result<_, _>>()?, durability)?;
    Ok(store.written)
}

/// Removes the second names of objects that a git in bounds could give a name and not take its working name from. A file
/// with one name alone may be one that is being written.
pub(super) fn sweep(objects: &Path) {
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
struct Store<'r> {
    repo: &'r gix::Repository,
    root: &'r Path,
    /// What was not there.
    written: BTreeSet<gix::ObjectId>,
    /// Directories that were changed.
    directories: BTreeSet<PathBuf>,
    /// Made for the first object and used for all: its tables are far larger than most objects.
    deflate: Option<Compress>,
    /// Its packs, opened for the first object that may be in one.
    packs: Option<Vec<Bundle>>,
}

impl Store<'_> {
    fn write_round(&mut self, objects: &[Object<'_>], durability: Durability) -> Result<(), Error> {
        let mut new = Vec::new();
        let mut files = Vec::new();
        for (id, kind, bytes) in objects {
            let path = loose_path(self.root, id);
            let file = match self.existing(&path, id, *kind, bytes)? {
                Existing::Packed => continue,
                // It may have come from a git that did not wait for the disk.
                Existing::Loose => File::open(&path).at("open", &path)?,
                Existing::None => {
                    let (temporary, file) = self.write_beside(&path, *kind, bytes)?;
                    new.push((temporary, path.clone()));
                    self.written.insert(**id);
                    file
                }
            };
            self.directories.extend(path.parent().map(Path::to_owned));
            files.push((file, path));
        }
        sync(files, durability)?;
        for (temporary, path) in new {
            crash::point(Kind::ObjectWrite, When::Before);
            temporary.move_to(&path)?;
            crash::point(Kind::ObjectWrite, When::After);
        }
        Ok(())
    }

    /// Whether the repository itself has the object already, whole. A file is looked at: the library takes any of the right
    /// name for the object, and takes objects from other repositories, which may be gone tomorrow.
    fn existing(&mut self, path: &Path, id: &gix::ObjectId, kind: ObjectKind, bytes: &[u8]) -> Result<Existing, Error> {
        match read_short(path, 2 * bytes.len() + 1024) {
            Ok(file) if is_whole(&file, kind, bytes) => Ok(Existing::Loose),
            Ok(_) => Ok(Existing::None),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("read", path),
            Err(_) if self.repo.objects.exists_without_refresh(id) && self.is_packed(id, kind, bytes)? => {
                Ok(Existing::Packed)
            }
            Err(_) => Ok(Existing::None),
        }
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
        let mut file = match options.open(&temporary.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(directory).at("create", directory)?;
                self.directories.insert(self.root.to_owned());
                options.open(&temporary.0)
            }
            file => file,
        }
        .at("create", &temporary.0)?;
        // git's own level for loose objects.
        let deflate = self.deflate.get_or_insert_with(|| Compress::new(gix::zlib::Compression::BEST_SPEED));
        let content = compressed(deflate, kind, bytes).map_err(|error| Error::library("compress an object", error))?;
        file.write_all(&content).at("write", &temporary.0)?;
        Ok((temporary, file))
    }
}

enum Existing {
    None,
    Loose,
    Packed,
}

/// The content of a file of at most `limit` bytes; of any other nothing, which is no object. What does not compress grows
/// by little, but an agent can have made a file of any size.
fn read_short(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let wait_for_nobody = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(wait_for_nobody).open(path)?;
    let metadata = file.metadata()?;
    let mut content = Vec::new();
    if metadata.is_file() && metadata.len() <= limit as u64 {
        file.read_to_end(&mut content)?;
    }
    Ok(content)
}

/// Whether a loose file holds exactly this object, to the last byte of its checksum.
fn is_whole(file: &[u8], kind: ObjectKind, bytes: &[u8]) -> bool {
    let expected = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    let mut found = vec![0; expected.len() + 1];
    match gix::zlib::Inflate::default().once(file, &mut found) {
        Ok((gix::zlib::Status::StreamEnd, _, length)) => found[..length] == expected,
        _ => false,
    }
}

/// The packs in an object directory that can be read.
fn own_packs(root: &Path, hash: gix::hash::Kind) -> Result<Vec<Bundle>, Error> {
    let dir = root.join("pack");
    let entries = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
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

pub(super) fn loose_path(root: &Path, id: &gix::ObjectId) -> PathBuf {
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
            // What is left of it is of no use to anyone.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// An object as its loose file holds it.
fn compressed(deflate: &mut Compress, kind: ObjectKind, bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
    deflated(deflate, &[&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat())
}

/// Bytes as git keeps them on disk.
pub(super) fn deflated(deflate: &mut Compress, bytes: &[u8]) -> Result<Vec<u8>, gix::Error> {
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
        let waiting = Waiting { files: files.split_off(files.len() - size), done: done.clone() };
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
struct Waiting {
    files: Vec<(File, PathBuf)>,
    done: mpsc::Sender<Result<(), Error>>,
}

/// The threads that wait for the disk. They stay, because making one costs more processor time than it saves.
fn helpers() -> &'static mpsc::Sender<Waiting> {
    static HELPERS: OnceLock<mpsc::Sender<Waiting>> = OnceLock::new();
    HELPERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Waiting>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 1..WAITING {
            let receiver = Arc::clone(&receiver);
            let next = move || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let help = move || {
                while let Ok(Waiting { files, done }) = next() {
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
mod tests {
    use super::*;

    #[test]
    fn an_object_of_any_kind_of_bytes_is_whole_when_it_is_compressed() {
        let mut deflate = Compress::new(gix::zlib::Compression::BEST_SPEED);
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u8> = (0..100_000).map(|_| random.u8(..)).collect();
        for bytes in [&b""[..], b"one", &[b'a'; 100_000], &noise] {
            let file = compressed(&mut deflate, ObjectKind::Blob, bytes).expect("compresses");
            assert!(is_whole(&file, ObjectKind::Blob, bytes), "{} bytes", bytes.len());
            assert!(!is_whole(&file[..file.len() - 1], ObjectKind::Blob, bytes), "{} bytes, cut off", bytes.len());
        }
    }
}
