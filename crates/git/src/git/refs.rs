//! Reading refs, and moving them by compare-and-swap only.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice as _};
use gix::prelude::ReferenceExt as _;
use gix::refs::file::Transaction;
use gix::refs::file::find::ReferenceDecode;
use gix::refs::file::transaction::prepare::{MustNotExist, ReferenceOutOfDate};
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{Category, FullName, Target};

use super::crash::{self, CrashKind, CrashSide};
use super::durability::Durability;
use super::error::{Error, IoContext as _, LibraryContext as _, explain, held_lock};
use super::id::{from_gix, to_gix};
use super::loose::TRIES;
use super::ref_update::{EMAIL, NAME, PATIENCE, RefUpdate, SwapError, lock_path};
use super::repo_pool::PooledRepo;
use super::shared::RepoShared;
use super::{loose_ref, stale_lock};
use pleach_core::ids::CommitId;

/// The refs of a repository.
#[derive(Clone, Copy)]
pub struct Refs<'r> {
    shared: &'r RepoShared,
    durability: Durability,
}

impl fmt::Debug for Refs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refs").field("git_dir", &self.shared.common_dir).finish()
    }
}

impl<'r> Refs<'r> {
    pub(super) fn new(shared: &'r RepoShared, durability: Durability) -> Self {
        Self { shared, durability }
    }

    fn local(&self) -> PooledRepo {
        self.shared.pool.take()
    }

    fn common_dir(&self) -> &Path {
        &self.shared.common_dir
    }

    /// The commit a ref points to, none if it does not exist. `name` is the full name.
    pub fn find(&self, name: &str) -> Result<Option<CommitId>, Error> {
        let repo = self.local();
        let Some(found) = find_exact(&repo, full_name(name)?)? else { return Ok(None) };
        let is_symbolic = matches!(found.target, Target::Symbolic(_));
        let mut reference = found.attach(&repo);
        // What names an object needs no other ref to be followed.
        let id = if is_symbolic { reference.peel_to_id() } else { reference.peel_to_id_packed(None) };
        Ok(Some(from_gix(&id.map_err(|error| Error::library(format!("read `{name}`"), error))?)))
    }

    /// The full name of the ref a symbolic ref points to, whether that exists or not. None for all other refs, and for
    /// names that are not UTF-8.
    pub fn symbolic_target(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(match find_exact(&self.local(), full_name(name)?)?.map(|found| found.target) {
            Some(Target::Symbolic(to)) => to.as_bstr().to_str().ok().map(str::to_owned),
            Some(Target::Object(_)) | None => None,
        })
    }

    /// All refs whose full name begins with `prefix`, sorted by name. Names that are not UTF-8 are left out: pleach
    /// makes none.
    pub fn list(&self, prefix: &str) -> Result<Vec<(String, CommitId)>, Error> {
        let repo = self.local();
        let mut found = Vec::new();
        for (name, reference) in list_below(&repo, directory(prefix))? {
            let mut reference = reference.doing("list refs")?.attach(&repo);
            let Ok(name) = name.to_str().map(str::to_owned) else { continue };
            if name.starts_with(prefix) {
                let id = reference.peel_to_id().map_err(|error| Error::library(format!("read `{name}`"), error))?;
                found.push((name, from_gix(&id)));
            }
        }
        Ok(found)
    }

    /// All refs but those whose name begins with one of `without`, which are not even looked at, with the object each
    /// names itself: a tag, not what it is a tag of.
    pub fn list_except(&self, without: &[&str]) -> Result<BTreeMap<String, CommitId>, Error> {
        let repo = self.local();
        let is_left_out = |name: &str| without.iter().any(|prefix| name.starts_with(prefix));
        let mut found = BTreeMap::new();
        let mut directories = vec!["refs".to_owned()];
        while let Some(directory) = directories.pop() {
            let path = repo.common_dir().join(&directory);
            let entries = match std::fs::read_dir(&path) {
                // It may have been removed as the last ref in it was.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries.at("list", &path)?,
            };
            for entry in entries {
                let entry = entry.at("list", &path)?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let name = format!("{directory}/{name}");
                if entry.file_type().at("look at", &entry.path())?.is_dir() {
                    directories.extend(Some(name).filter(|name| !is_left_out(&format!("{name}/"))));
                } else if !is_left_out(&name) && !name.ends_with(".lock") {
                    found.extend(loose(&repo, &entry.path(), &name)?.map(|id| (name, id)));
                }
            }
        }
        // Only now: one that is packed meanwhile is among them.
        if let Some(packed) = repo.refs.cached_packed_buffer().doing("read packed refs")? {
            for reference in packed.iter().doing("read packed refs")? {
                let reference = reference.doing("read packed refs")?;
                if let Some(name) = reference.name.as_bstr().to_str().ok().filter(|name| !is_left_out(name)) {
                    found.entry(name.to_owned()).or_insert_with(|| from_gix(&reference.target()));
                }
            }
        }
        Ok(found)
    }

    /// The names of all refs that begin with `prefix`, sorted; also of those whose file or commit is damaged.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, Error> {
        Ok(self.list_unpeeled(prefix)?.into_iter().map(|(name, _)| name).collect())
    }

    /// All refs that begin with `prefix`, sorted by name, with the object each names itself, which is not read; none where
    /// the ref's file is damaged, or names another ref.
    pub fn list_unpeeled(&self, prefix: &str) -> Result<Vec<(String, Option<CommitId>)>, Error> {
        let repo = self.local();
        let found = list_below(&repo, directory(prefix))?.into_iter().filter_map(|(name, reference)| {
            let name = name.to_str().ok().filter(|name| name.starts_with(prefix))?.to_owned();
            Some((name, reference.ok().and_then(|reference| reference.target.try_id().map(from_gix))))
        });
        Ok(found.collect())
    }

    /// Moves a ref from `old` to `new`, if it is at `old`; with none for `old` it must not exist. Durable once it
    /// returns. `why` goes to the reflog.
    pub fn swap(&self, name: &str, old: Option<CommitId>, new: CommitId, why: &str) -> Result<(), SwapError> {
        self.swap_all(&[RefUpdate { name: name.to_owned(), old, new: Some(new) }], why)
    }

    /// Removes a ref, if it is at `old`.
    pub fn delete(&self, name: &str, old: CommitId, why: &str) -> Result<(), SwapError> {
        self.swap_all(&[RefUpdate { name: name.to_owned(), old: Some(old), new: None }], why)
    }

    /// Moves several refs; if one is not where it must be, none moves. They are pleach's own: the lock a killed process
    /// left on one is removed.
    pub fn swap_all(&self, moves: &[RefUpdate], why: &str) -> Result<(), SwapError> {
        self.swap_freed(moves, moves, why)
    }

    /// As [`Refs::swap_all`], together with a branch that is somebody else's: a lock on that one stays.
    pub(super) fn swap_target(&self, target: RefUpdate, own: &[RefUpdate], why: &str) -> Result<(), SwapError> {
        let moves: Vec<RefUpdate> = own.iter().cloned().chain([target]).collect();
        self.swap_freed(&moves, own, why)
    }

    fn swap_freed(&self, moves: &[RefUpdate], own: &[RefUpdate], why: &str) -> Result<(), SwapError> {
        match self.swap_now(moves, why) {
            // What was too young to tell whose it is has been waited for meanwhile.
            Err(SwapError::Locked { .. }) if self.release_stale_locks(own)? => self.swap_now(moves, why),
            done => done,
        }
    }

    /// Removes the locks that killed processes left on refs; true if there were any.
    fn release_stale_locks(&self, refs: &[RefUpdate]) -> Result<bool, Error> {
        let mut is_freed = false;
        for step in refs {
            is_freed |= stale_lock::release(self.common_dir(), &lock_path(&self.common_dir().join(&step.name)))?;
        }
        Ok(is_freed)
    }

    fn swap_now(&self, moves: &[RefUpdate], why: &str) -> Result<(), SwapError> {
        let repo = self.local();
        if let [step] = moves
            && loose_ref::swap(repo.common_dir(), step, why, self.durability)?
        {
            return self.sync_refs(&[(repo.common_dir().join(&step.name), false)]);
        }
        for step in moves.iter().filter(|step| step.old.is_none()) {
            refuse_clash(&repo, &step.name)?;
        }
        let edits = moves.iter().map(|step| edit(step, why)).collect::<Result<Vec<_>, _>>()?;
        let paths = moves.iter().map(|step| repo.common_dir().join(&step.name));
        let paths: Vec<(PathBuf, bool)> = paths.map(|path| (path.clone(), !path.exists())).collect();
        let transaction = prepare(&repo, &edits).map_err(|error| classify(&error, moves, &repo))?;
        if self.durability == Durability::Fsync {
            for (path, _) in &paths {
                sync_if_there(&lock_path(path)).map_err(SwapError::Other)?;
            }
        }
        crash::point(CrashKind::RefSwap, CrashSide::Before);
        let mut time = gix::date::parse::TimeBuf::default();
        let signature = gix::actor::Signature {
            name: NAME.into(),
            email: EMAIL.into(),
            time: gix::date::Time::new(pleach_core::clock::now().as_second(), 0),
        };
        let done = transaction
            .commit(signature.to_ref(&mut time))
            .map_err(|error| SwapError::Other(Error::library("move a ref", error)))?;
        crash::point(CrashKind::RefSwap, CrashSide::After);
        self.sync_refs(&paths)?;
        refuse_equal(&done, moves)
    }

    /// Makes refs durable where they lie, each with whether it is new.
    fn sync_refs(&self, paths: &[(PathBuf, bool)]) -> Result<(), SwapError> {
        if self.durability == Durability::Fsync {
            for (path, is_new) in paths {
                sync_directories(path, &self.common_dir().join("refs"), *is_new)?;
            }
        }
        Ok(())
    }
}

pub(super) fn full_name(name: &str) -> Result<FullName, Error> {
    FullName::try_from(name).map_err(|error| Error::RefName { name: name.to_owned(), detail: error.to_string() })
}

/// The lock of the file that has the packed refs. The library takes it for almost every ref.
pub(super) fn packed_lock(repo: &gix::Repository) -> PathBuf {
    lock_path(&repo.common_dir().join("packed-refs"))
}

/// The ref of this very name. The library takes any name for the end of another, and looks in five places before it knows
/// that there is none; and it looks at the packed refs first, which are of no use where a file of the ref is there.
fn find_exact(repo: &gix::Repository, name: FullName) -> Result<Option<gix::refs::Reference>, Error> {
    let in_library = |name: &FullName| repo.refs.try_find(name.as_ref()).doing("read a ref");
    // Others have places of their own, or more than one spelling.
    let is_plain = name.as_bstr().starts_with(b"refs/")
        && name.as_bstr().is_ascii()
        && matches!(name.category(), None | Some(Category::LocalBranch | Category::RemoteBranch | Category::Tag));
    if !is_plain {
        return in_library(&name);
    }
    match std::fs::read(repo.common_dir().join(name.as_bstr().to_string())) {
        Ok(content) => match gix::ObjectId::from_hex(content.trim_ascii_end()) {
            Ok(id) => Ok(Some(gix::refs::Reference { name, target: Target::Object(id), peeled: None })),
            // It names another ref, or is damaged.
            Err(_) => in_library(&name),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
            let packed = repo.refs.cached_packed_buffer().doing("read a ref")?;
            let found = packed.as_ref().map(|packed| packed.try_find(name.as_ref())).transpose().doing("read a ref")?;
            Ok(found.flatten().map(Into::into))
        }
        Err(_) => in_library(&name),
    }
}

/// The directory a beginning of names is listed from: one that ends within a name is cut back.
fn directory(prefix: &str) -> &str {
    prefix.rfind('/').map_or("refs/", |end| &prefix[..=end])
}

/// All refs below a directory, of one whose file is damaged what is wrong with it. Files are looked at first: a ref whose
/// file git removes meanwhile is among the packed ones by then. The library has it the other way round.
fn list_below(repo: &gix::Repository, directory: &str) -> Result<BTreeMap<BString, FoundRef>, Error> {
    let mut found = BTreeMap::new();
    let below: &gix::path::RelativePath = directory.try_into().doing("list refs")?;
    let files = repo.refs.loose_iter_prefixed(below).at("list", &repo.common_dir().join(directory))?;
    for reference in files {
        match reference {
            Ok(reference) => drop(found.insert(reference.name.as_bstr().to_owned(), Ok(reference))),
            Err(error) if is_gone(&error) => {}
            Err(error) => match error.downcast_any_ref::<ReferenceDecode>() {
                Some(damaged) => {
                    let name = damaged.relative_path.as_os_str().as_encoded_bytes().into();
                    found.insert(name, Err(error));
                }
                None => return Err(Error::library("list refs", error)),
            },
        }
    }
    if let Some(packed) = repo.refs.cached_packed_buffer().doing("list refs")? {
        for reference in packed.iter_prefixed(directory.into()).doing("list refs")? {
            let reference = reference.doing("list refs")?;
            found.entry(reference.name.as_bstr().to_owned()).or_insert_with(|| Ok(reference.into()));
        }
    }
    Ok(found)
}

type FoundRef = Result<gix::refs::Reference, gix::Error>;

/// What the file of a ref says; none when it is gone by now, or is damaged.
fn loose(repo: &gix::Repository, path: &Path, name: &str) -> Result<Option<CommitId>, Error> {
    let content = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        content => content.at("read", path)?,
    };
    if let Ok(id) = gix::ObjectId::from_hex(content.trim_ascii_end()) {
        return Ok(Some(from_gix(&id)));
    }
    // It names another ref, such as the head of a remote.
    let other = repo.try_find_reference(name).ok().flatten().and_then(|mut reference| reference.peel_to_id().ok());
    Ok(other.map(|id| from_gix(&id)))
}

/// Locks the refs that are to move. Where a directory for a lock is gone before the lock is in it, it is made again.
fn prepare<'r>(repo: &'r gix::Repository, edits: &[RefEdit]) -> Result<Transaction<'r, 'r>, gix::Error> {
    let fail = gix::lock::acquire::Fail::AfterDurationWithBackoff(PATIENCE);
    let mut tries = 1;
    loop {
        match repo.refs.transaction().prepare(edits.iter().cloned(), fail, fail) {
            Err(error) if tries < TRIES && is_gone(&error) => tries += 1,
            prepared => return prepared,
        }
    }
}

/// Whether something of a path was not there, or not any more when it was looked at.
fn is_gone(error: &gix::Error) -> bool {
    let system = error.downcast_any_ref::<std::io::Error>();
    system.is_some_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn edit(step: &RefUpdate, why: &str) -> Result<RefEdit, SwapError> {
    let expected = match (step.old, step.new) {
        (Some(old), _) => PreviousValue::MustExistAndMatch(Target::Object(to_gix(old))),
        (None, Some(_)) => PreviousValue::MustNotExist,
        // A file that names nothing may go, and no ref that does.
        (None, None) => PreviousValue::ExistingMustMatch(Target::Object(gix::ObjectId::null(gix::hash::Kind::Sha1))),
    };
    let change = match step.new {
        Some(new) => Change::Update {
            log: LogChange {
                mode: RefLog::AndReference,
                force_create_reflog: false,
                message: why.lines().next().unwrap_or_default().into(),
            },
            expected,
            new: Target::Object(to_gix(new)),
        },
        None => Change::Delete { expected, log: RefLog::AndReference },
    };
    Ok(RefEdit { change, name: full_name(&step.name)?, deref: false })
}

/// git forbids `a` beside `a/b`. The library notices only some of these.
fn refuse_clash(repo: &gix::Repository, name: &str) -> Result<(), SwapError> {
    let clash = |with: String| SwapError::Clash { name: name.to_owned(), with };
    let path = |name: &str| repo.common_dir().join(name);
    let parents = name.match_indices('/').map(|(end, _)| &name[..end]).filter(|parent| parent.matches('/').count() > 1);
    let parents: Vec<(&str, FullName)> = parents.filter_map(|parent| Some((parent, full_name(parent).ok()?))).collect();
    for (parent, full) in parents.iter().rev() {
        match path(parent).metadata() {
            // So are all above it.
            Ok(found) if found.is_dir() => break,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            _ => {
                if repo.try_find_reference(full.as_ref()).doing("read a ref")?.is_some() {
                    return Err(clash((*parent).to_owned()));
                }
            }
        }
    }
    let packed = repo.refs.cached_packed_buffer().doing("read a ref")?;
    for (parent, full) in &parents {
        if let Some(packed) = &packed
            && packed.try_find(full.as_ref()).doing("read a ref")?.is_some()
        {
            return Err(clash((*parent).to_owned()));
        }
    }
    let below = format!("{name}/");
    let first = match packed {
        _ if path(name).is_dir() => {
            let first = list_below(repo, &below)?.pop_first();
            first.and_then(|(name, other)| other.is_ok().then(|| name.to_string()))
        }
        Some(packed) => {
            let first = packed.iter_prefixed(below.into()).doing("list refs")?.next();
            first.and_then(Result::ok).map(|other| other.name.as_bstr().to_string())
        }
        None => None,
    };
    first.map_or(Ok(()), |other| Err(clash(other)))
}

fn classify(error: &gix::Error, moves: &[RefUpdate], repo: &gix::Repository) -> SwapError {
    let target = |target: &Target| target.try_id().map(from_gix);
    if let Some(stale) = error.downcast_any_ref::<ReferenceOutOfDate>() {
        return SwapError::Stale { name: stale.full_name.to_string(), actual: target(&stale.actual) };
    }
    if let Some(stale) = error.downcast_any_ref::<MustNotExist>() {
        return SwapError::Stale { name: stale.full_name.to_string(), actual: target(&stale.actual) };
    }
    for step in moves {
        if let Some(lock) = held_lock(error, [lock_path(&repo.common_dir().join(&step.name))]) {
            return SwapError::Locked { name: step.name.clone(), lock };
        }
    }
    // That of all refs is in the way of every name.
    if let Some(lock) = held_lock(error, [packed_lock(repo)]) {
        return SwapError::Other(Error::Locked { lock });
    }
    let missing =
        |step: &&RefUpdate| step.old.is_some() && !repo.try_find_reference(&step.name).is_ok_and(|r| r.is_some());
    match moves.iter().find(missing) {
        Some(step) if error.is_not_found() => SwapError::Stale { name: step.name.clone(), actual: None },
        _ => SwapError::Other(Error::Library { doing: "move a ref".into(), detail: explain(error) }),
    }
}

/// The library lets "must not exist" pass when the ref exists with the very value that was to be written: two
/// creators would both believe they made it. Nothing was changed then, so it is not too late to say so.
fn refuse_equal(done: &[RefEdit], moves: &[RefUpdate]) -> Result<(), SwapError> {
    for step in moves.iter().filter(|step| step.old.is_none()) {
        let existed =
            done.iter().filter(|edit| edit.name.as_bstr() == step.name.as_str()).find_map(|edit| match &edit.change {
                Change::Update { expected: PreviousValue::MustExistAndMatch(target), .. } => target.try_id(),
                _ => None,
            });
        if let Some(actual) = existed {
            return Err(SwapError::Stale { name: step.name.clone(), actual: Some(from_gix(actual)) });
        }
    }
    Ok(())
}

fn sync_if_there(path: &Path) -> Result<(), Error> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        file => file.and_then(|file| file.sync_all()).at("sync", path),
    }
}

/// Makes the entry of a ref durable in its directory; of a new one also in all directories up to `refs`.
fn sync_directories(path: &Path, top: &Path, is_new: bool) -> Result<(), Error> {
    for (depth, directory) in path.ancestors().skip(1).enumerate() {
        if (depth > 0 && !is_new) || !directory.starts_with(top) {
            break;
        }
        sync_if_there(directory)?;
    }
    Ok(())
}
