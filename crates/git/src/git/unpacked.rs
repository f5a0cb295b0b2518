//! Objects this process has written and not packed yet.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use gix::ObjectId;
use gix::objs::Kind as ObjectKind;

use super::loose::NewObject;

/// What is kept in memory at most, in bytes. What a single turn writes beyond that stays loose.
const MEMORY: usize = 64 * 1024 * 1024;

/// A larger object stays loose: there are only few of those.
const LARGEST: usize = 1024 * 1024;

/// What was written loose and waits to be packed together.
#[derive(Default)]
pub(super) struct Unpacked(Mutex<UnpackedObjects>);

#[derive(Default)]
pub(super) struct UnpackedObjects {
    pub objects: Vec<(ObjectId, ObjectKind, Vec<u8>)>,
    pub bytes: usize,
    /// The packs that were made, as long as the loose copies of what they hold are still there.
    packs: Vec<WrittenPack>,
}

/// A pack, and what is in it.
pub(super) struct WrittenPack {
    pub path: PathBuf,
    pub ids: Vec<ObjectId>,
}

impl Unpacked {
    /// Adds objects that were written loose.
    pub fn add<'a>(&self, objects: impl Iterator<Item = NewObject<'a>>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, kind, bytes) in objects.filter(|(.., bytes)| bytes.len() <= LARGEST) {
            if state.bytes + bytes.len() <= MEMORY {
                state.bytes += bytes.len();
                state.objects.push((*id, kind, bytes.to_vec()));
            }
        }
    }

    /// Takes the waiting objects, if they are worth a pack. What cannot be packed now stays loose.
    pub fn take_if(&self, is_worth_it: impl FnOnce(&UnpackedObjects) -> bool) -> Vec<(ObjectId, ObjectKind, Vec<u8>)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_worth_it(&state) {
            return Vec::new();
        }
        state.bytes = 0;
        std::mem::take(&mut state.objects)
    }

    pub fn add_pack(&self, pack: WrittenPack) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).packs.push(pack);
    }

    pub fn take_packs(&self) -> Vec<WrittenPack> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).packs)
    }
}
