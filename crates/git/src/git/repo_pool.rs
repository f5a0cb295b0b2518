//! The library's handles on a repository. A handle serves one thread at a time and is expensive to make, so idle ones
//! are kept; a cache of recent objects is shared by all.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, Once, PoisonError};

use gix::objs::Kind as ObjectKind;
use gix::odb::pack::cache::Object as ObjectCache;
use gix::odb::pack::cache::object::MemoryCappedHashmap;

/// Handles that are kept: as many as threads that work on a repository at once.
const IDLE: usize = 8;

/// Memory for objects, in bytes.
const MEMORY: usize = 8 * 1024 * 1024;

/// A larger object is read again: keeping it would drive out many.
const LARGEST: usize = 256 * 1024;

/// The same for the content of files, which is mostly read once or never.
const LARGEST_FILE: usize = 4 * 1024;

/// Objects that were read or written a moment ago. An object never changes, so what is kept is never out of date.
#[derive(Clone)]
pub(super) struct RecentObjects(Arc<Mutex<MemoryCappedHashmap>>);

impl Default for RecentObjects {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(MemoryCappedHashmap::new(MEMORY))))
    }
}

impl RecentObjects {
    /// Has a handle look here first.
    pub fn serve(&self, handle: &mut gix::Repository) {
        let recent = self.clone();
        handle.objects.set_object_cache(move || Box::new(recent.clone()));
    }

    pub fn keep<'a>(&self, objects: impl Iterator<Item = (&'a gix::ObjectId, ObjectKind, &'a [u8])>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, kind, bytes) in objects {
            let largest = if kind == ObjectKind::Blob { LARGEST_FILE } else { LARGEST };
            if bytes.len() <= largest {
                kept.put(*id, kind, bytes);
            }
        }
    }
}

impl ObjectCache for RecentObjects {
    fn put(&mut self, id: gix::ObjectId, kind: ObjectKind, data: &[u8]) {
        self.keep(std::iter::once((&id, kind, data)));
    }

    fn get(&mut self, id: &gix::ObjectId, out: &mut Vec<u8>) -> Option<ObjectKind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id, out)
    }
}

/// The handles of one repository.
pub(super) struct RepoPool {
    pub handle: gix::ThreadSafeRepository,
    /// Handles that are not in use.
    idle: Mutex<Vec<gix::Repository>>,
    /// Objects that were used a moment ago.
    pub recent: RecentObjects,
    /// Whether the indexes of its packs were opened.
    opened: Once,
}

impl RepoPool {
    pub fn new(handle: gix::ThreadSafeRepository) -> Arc<Self> {
        Arc::new(Self { handle, idle: Mutex::default(), recent: RecentObjects::default(), opened: Once::new() })
    }

    /// A handle for this thread, as long as it is held.
    pub fn take(self: &Arc<Self>) -> PooledRepo {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handle = idle.unwrap_or_else(|| {
            let mut handle = self.handle.to_thread_local();
            self.recent.serve(&mut handle);
            // The library opens indexes when an object is looked for, and says now and then that there is none while another
            // thread has just opened the last of them. Opened by one thread before all others, none is left to be.
            self.opened.call_once(|| drop(handle.objects.packed_object_count()));
            handle
        });
        PooledRepo { handle: Some(handle), pool: Arc::clone(self) }
    }
}

/// A handle for one thread, returned to the pool when dropped.
pub(super) struct PooledRepo {
    /// Present until it is returned.
    handle: Option<gix::Repository>,
    pool: Arc<RepoPool>,
}

impl Deref for PooledRepo {
    type Target = gix::Repository;

    fn deref(&self) -> &gix::Repository {
        self.handle.as_ref().expect("it is given back by the drop alone")
    }
}

impl DerefMut for PooledRepo {
    fn deref_mut(&mut self) -> &mut gix::Repository {
        self.handle.as_mut().expect("it is given back by the drop alone")
    }
}

impl Drop for PooledRepo {
    fn drop(&mut self) {
        let Some(mut handle) = self.handle.take() else { return };
        // The next user must not find objects that were never written.
        handle.objects.take_object_memory();
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(handle);
        }
    }
}
