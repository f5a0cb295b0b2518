//! Packing the objects this process has written, so that pushing and collecting them later stays cheap. Packs are made
//! from memory: others may have overwritten the loose files since, and git would trust a pack of them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::objs::Kind as ObjectKind;
use gix::odb::pack::data;

use super::crash::{self, CrashKind, CrashSide};
use super::durability::Durability;
use super::error::{Error, IoContext as _, LibraryContext as _};
use super::loose::{Temporary, deflated, loose_path, sync};
use super::repo::Repo;
use super::unpacked::WrittenPack;

/// So many objects are packed while the run goes on.
const MANY: usize = 2_000;

/// Fewer are not worth a pack of their own when a run pauses or ends.
const FEW: usize = 100;

/// As much is packed while the run goes on however few objects it is, in bytes.
const MUCH: usize = 16 * 1024 * 1024;

/// Packs what was written if it is much. The loose copies stay: a file system that has just lost thousands of files
/// is slow to make new ones. Only housekeeping: when it fails, they are all there is, and nothing is lost.
pub fn pack_if_large(repo: &Repo) {
    let objects = repo.shared.unpacked.take_if(|state| state.objects.len() > MANY || state.bytes > MUCH);
    let _ = pack(repo, objects);
}

/// Packs what was written if it is worth it, and leaves nothing loose of what is packed. For the moments a run
/// pauses or ends, and only housekeeping too.
pub fn pack_remaining(repo: &Repo) {
    let objects = repo.shared.unpacked.take_if(|state| state.objects.len() >= FEW);
    let _ = pack(repo, objects);
    let packs = repo.shared.unpacked.take_packs();
    packs.iter().for_each(|pack| drop(drop_loose(pack, &repo.common_dir().join("objects"))));
}

/// Removes what a git that ran in bounds could not remove itself: working names of objects that have their own.
pub(crate) fn remove_temporary_objects(repo: &Repo) {
    super::loose::remove_temporary_objects(&repo.common_dir().join("objects"));
}

fn pack(repo: &Repo, mut objects: Vec<(ObjectId, ObjectKind, Vec<u8>)>) -> Result<(), Error> {
    if objects.is_empty() {
        return Ok(());
    }
    objects.sort_by_key(|(id, ..)| *id);
    objects.dedup_by_key(|(id, ..)| *id);
    let dir = repo.common_dir().join("objects/pack");
    let packed = Packed::new(&objects).doing("pack objects")?;
    let path = packed.write(&dir, repo.durability)?;
    let ids = objects.into_iter().map(|(id, ..)| id).collect();
    repo.shared.unpacked.add_pack(WrittenPack { path, ids });
    Ok(())
}

fn drop_loose(pack: &WrittenPack, objects: &Path) -> Result<(), Error> {
    // Somebody has put all packs together since, and has seen to the loose objects.
    if !pack.path.exists() || !pack.path.with_extension("idx").exists() {
        return Ok(());
    }
    for id in &pack.ids {
        let path = loose_path(objects, id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.at("remove", &path)?,
        }
    }
    Ok(())
}

/// The two files of a pack.
struct Packed {
    sum: ObjectId,
    pack: Vec<u8>,
    index: Vec<u8>,
}

impl Packed {
    /// Of objects in the order of their ids. Deltas are not searched for: records differ too much for that to pay.
    fn new(objects: &[(ObjectId, ObjectKind, Vec<u8>)]) -> Result<Self, gix::Error> {
        let mut pack = data::header::encode(data::Version::V2, number(objects.len())).to_vec();
        let mut places = Vec::with_capacity(objects.len());
        for (id, kind, bytes) in objects {
            let begin = pack.len();
            header(*kind).write_to(bytes.len() as u64, &mut pack).map_err(gix::Error::from_error)?;
            pack.extend(deflated(bytes)?);
            places.push((id, crc32fast::hash(&pack[begin..]), number(begin)));
        }
        let sum = finish(&mut pack)?;
        // Version 2 of the index.
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for byte in 0..=u8::MAX {
            let up_to = places.partition_point(|(id, ..)| id.as_bytes()[0] <= byte);
            index.extend(number(up_to).to_be_bytes());
        }
        places.iter().for_each(|(id, ..)| index.extend(id.as_bytes()));
        places.iter().for_each(|(_, crc, _)| index.extend(crc.to_be_bytes()));
        places.iter().for_each(|(.., begin)| index.extend(begin.to_be_bytes()));
        index.extend(sum.as_bytes());
        finish(&mut index)?;
        Ok(Self { sum, pack, index })
    }

    /// Puts them into a directory, the index last: without one a pack is nothing to git.
    fn write(&self, dir: &Path, durability: Durability) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(dir).at("create", dir)?;
        let path = dir.join(format!("pack-{}.pack", self.sum));
        // git sweeps up files of these names that a crash leaves.
        for (kind, bytes, place) in
            [("pack", &self.pack, path.clone()), ("idx", &self.index, path.with_extension("idx"))]
        {
            let temporary = Temporary(dir.join(format!("tmp_{kind}_{:016x}", fastrand::u64(..))));
            let created = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&temporary.0);
            let mut file = created.at("create", &temporary.0)?;
            file.write_all(bytes).at("write", &temporary.0)?;
            sync(vec![(file, temporary.0.clone())], durability)?;
            crash::point(CrashKind::ObjectWrite, CrashSide::Before);
            temporary.move_to(&place)?;
            crash::point(CrashKind::ObjectWrite, CrashSide::After);
        }
        sync(vec![(std::fs::File::open(dir).at("open", dir)?, dir.to_owned())], durability)?;
        Ok(path)
    }
}

fn header(kind: ObjectKind) -> data::entry::Header {
    match kind {
        ObjectKind::Blob => data::entry::Header::Blob,
        ObjectKind::Tree => data::entry::Header::Tree,
        ObjectKind::Commit => data::entry::Header::Commit,
        ObjectKind::Tag => data::entry::Header::Tag,
    }
}

/// Ends a file with its checksum.
fn finish(file: &mut Vec<u8>) -> Result<ObjectId, gix::Error> {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(file);
    let sum = hasher.try_finalize()?;
    file.extend(sum.as_bytes());
    Ok(sum)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("what is packed fits into memory many times")
}

#[cfg(test)]
mod tests {
    use gix::odb::pack::{Bundle, cache};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_is_packed_is_found_again(contents in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..600), 1..60)) {
            let id = |bytes: &Vec<u8>| gix::objs::compute_hash(gix::hash::Kind::Sha1, ObjectKind::Blob, bytes).unwrap();
            let mut objects: Vec<_> = contents.into_iter().map(|bytes| (id(&bytes), ObjectKind::Blob, bytes)).collect();
            objects.sort_by_key(|(id, ..)| *id);
            let dir = tempfile::tempdir().unwrap();
            let path = Packed::new(&objects).unwrap().write(dir.path(), Durability::None).unwrap();
            let bundle = Bundle::at(path, gix::hash::Kind::Sha1).unwrap();
            prop_assert_eq!(bundle.index.num_objects() as usize, objects.len());
            for (id, kind, bytes) in &objects {
                let (mut found, mut inflate) = (Vec::new(), gix::zlib::Inflate::default());
                let (object, _) = bundle.find(id, &mut found, &mut inflate, &mut cache::Never).unwrap().unwrap();
                prop_assert_eq!((object.kind, object.data), (*kind, &bytes[..]));
            }
        }
    }
}
