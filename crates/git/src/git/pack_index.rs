//! Which objects are in packs, by the pack indexes alone. The library only tells by reading the object, and falls back
//! to the loose file.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use gix::odb::pack::{index, multi_index};

use super::error::{Error, IoContext as _};

/// The indices that were there when somebody last looked.
#[derive(Default)]
pub(super) struct PackIndexes(Mutex<PackIndexState>);

#[derive(Clone, Default)]
struct PackIndexState {
    /// The last change of the repository's own directory of packs, before it was listed; none if it was never.
    changed: Option<Option<SystemTime>>,
    indices: Arc<Indices>,
}

/// The indices of all packs at one moment, those of other repositories that objects are taken from included.
#[derive(Default)]
pub(super) struct Indices {
    /// One per pack. An index never changes, so each is opened once.
    single: BTreeMap<PathBuf, Arc<index::File>>,
    /// Those of several packs, which git rewrites.
    multi: Vec<multi_index::File>,
}

impl Indices {
    pub fn have(&self, id: &gix::oid) -> bool {
        self.single.values().any(|index| index.lookup(id).is_some())
            || self.multi.iter().any(|index| index.lookup(id).is_some())
    }
}

impl PackIndexes {
    /// What is there now.
    pub fn refresh(&self, store: &gix::odb::Store) -> Result<Arc<Indices>, Error> {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).indices.clone();
        let changed = Some(last_change(store.path()));
        let indices = Arc::new(list(store, &before)?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            PackIndexState { changed, indices: Arc::clone(&indices) };
        Ok(indices)
    }

    /// The same for those to whom a pack that came a moment ago does not matter, as the time of a change tells no more.
    pub fn cached(&self, store: &gix::odb::Store) -> Result<Arc<Indices>, Error> {
        let PackIndexState { changed, indices } = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if changed == Some(last_change(store.path())) { Ok(indices) } else { self.refresh(store) }
    }
}

fn last_change(root: &Path) -> Option<SystemTime> {
    root.join("pack").metadata().and_then(|data| data.modified()).ok()
}

fn list(store: &gix::odb::Store, before: &Indices) -> Result<Indices, Error> {
    let mut indices = Indices::default();
    let others = others(store);
    for root in std::iter::once(store.path()).chain(others.iter().map(PathBuf::as_path)) {
        let dir = root.join("pack");
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.at("list", &dir)?,
        };
        for entry in entries {
            let path = entry.at("list", &dir)?.path();
            // One that cannot be read leads to no object, for git as for its library.
            if path.extension().is_some_and(|extension| extension == "idx") {
                let known = before.single.get(&path).cloned();
                let index = known.or_else(|| index::File::at(&path, store.object_hash()).ok().map(Arc::new));
                indices.single.extend(index.map(|index| (path, index)));
            } else if path.file_name().is_some_and(|name| name == "multi-pack-index") {
                let index = multi_index::File::at(&path, None).ok();
                indices.multi.extend(index.filter(|index| index.object_hash() == store.object_hash()));
            }
        }
    }
    Ok(indices)
}

/// The object directories of other repositories this one takes objects from; mostly there are none.
fn others(store: &gix::odb::Store) -> Vec<PathBuf> {
    let root = store.path();
    if matches!(root.join("info/alternates").symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Vec::new();
    }
    // Where that cannot be read the library goes on with those it knows. The root is absolute, so it is all the same from
    // where others are looked for.
    gix::odb::alternate::resolve(root.to_owned(), root).or_else(|_| store.alternate_db_paths()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::program::Program;
    use pleach_core::config::Environment;

    #[test]
    fn an_object_is_packed_while_its_pack_exists() {
        let dir = tempfile::tempdir().unwrap();
        let program = Program::new(&Environment::from_pairs([("GIT_CONFIG_NOSYSTEM", "1")]));
        let git = |args: &[&str], stdin: &str| {
            let done = program.run_with_stdin(dir.path(), args, stdin.as_bytes()).and_then(|ended| ended.success());
            String::from_utf8(done.unwrap()).unwrap().trim().to_owned()
        };
        git(&["init", "-q"], "");
        let repo = gix::open_opts(dir.path(), gix::open::Options::isolated()).unwrap();
        let (store, packs) = (repo.objects.store_ref(), PackIndexes::default());
        let hex = git(&["hash-object", "-w", "--stdin"], "content\n");
        let id = gix::ObjectId::from_hex(hex.as_bytes()).unwrap();
        assert!(!packs.cached(store).unwrap().have(&id), "it is loose");
        let name = git(&["pack-objects", "-q", ".git/objects/pack/pack"], &hex);
        let before = packs.refresh(store).unwrap();
        assert!(before.have(&id) && packs.cached(store).unwrap().have(&id), "there are two of it");
        assert!(!before.have(&gix::ObjectId::null(id.kind())));
        let path = dir.path().join(format!(".git/objects/pack/pack-{name}.idx"));
        let again = packs.refresh(store).unwrap();
        assert!(Arc::ptr_eq(&before.single[&path], &again.single[&path]), "it is opened once");
        // One that cannot be read is none.
        std::fs::write(path.with_file_name("pack-other.idx"), "no index").unwrap();
        assert_eq!(packs.refresh(store).unwrap().single.len(), 1);
        std::fs::remove_file(path).unwrap();
        assert!(!packs.refresh(store).unwrap().have(&id) && !packs.cached(store).unwrap().have(&id));
    }
}
