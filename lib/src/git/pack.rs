//! Packing what a session wrote, so that pushing and collecting it later stays cheap.

use std::path::PathBuf;

use gix::odb::pack::index::File;
use gix::odb::pack::{Bundle, cache};

use super::error::{Error, IoContext as _, LibraryContext as _};
use super::intact;
use super::loose::loose_path;
use super::repo::Repo;
use crate::ids::CommitId;

/// A pack that pleach has made.
#[derive(Debug)]
pub struct Pack(PathBuf);

impl Pack {
    /// Looks whether all that was packed is what its id says: git packs an object as it finds it, and somebody may have
    /// overwritten one. A pack that is not sound goes again, as git would take it for the truth.
    fn check(&self) -> Result<(), Error> {
        let index = self.0.with_extension("idx");
        let bundle = Bundle::at(&index, gix::hash::Kind::Sha1).doing("read a pack")?;
        let (mut found, mut inflate) = (Vec::new(), gix::zlib::Inflate::default());
        for entry in bundle.index.iter() {
            let object = bundle.find(&entry.oid, &mut found, &mut inflate, &mut cache::Never).doing("read a pack")?;
            let checked = object.map(|(object, _)| intact::check(entry.oid, object.kind, object.data)).transpose();
            if let Err(wrong) = checked {
                for ending in ["idx", "rev", "pack"] {
                    let path = self.0.with_extension(ending);
                    match std::fs::remove_file(&path) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        removed => removed.at("remove", &path)?,
                    }
                }
                return Err(wrong);
            }
        }
        Ok(())
    }
}

impl Repo {
    /// Packs the loose objects that are reachable from `tips` and not from `before`; their loose copies stay. What
    /// `before` reaches is not walked, so that the cost follows what is new. Deltas are not searched for: records
    /// differ too much for that to pay. Returns the packs.
    pub fn pack_loose(&self, tips: &[CommitId], before: &[CommitId]) -> Result<Vec<Pack>, Error> {
        let common = self.common_dir();
        let program = &self.shared.program;
        let dir = common.join("objects/pack");
        let prefix = dir.join("pack");
        let mut args: Vec<&std::ffi::OsStr> =
            ["-c", "pack.window=0", "-c", "pack.compression=1", "pack-objects", "--revs", "--unpacked", "--quiet"]
                .map(std::ffi::OsStr::new)
                .into();
        args.push(prefix.as_os_str());
        let with = tips.iter().map(|tip| format!("{tip}\n"));
        let without = before.iter().map(|before| format!("^{before}\n"));
        let list: String = with.chain(without).collect();
        let made = program.run_with_stdin(common, args, list.as_bytes())?.success()?;
        let made = String::from_utf8_lossy(&made);
        let packs: Vec<Pack> = made.lines().map(|sum| Pack(dir.join(format!("pack-{sum}.pack")))).collect();
        packs.iter().try_for_each(Pack::check)?;
        Ok(packs)
    }

    /// Removes what a git that ran in bounds could not remove itself: working names of objects that have their own.
    pub fn sweep(&self) {
        super::loose::sweep(&self.common_dir().join("objects"));
    }

    /// Removes the loose copies of what lies in packs pleach has made. For the end of a run: a file system that has just
    /// lost thousands of files is slow to make new ones. Whatever other packs say they have is not for pleach to remove.
    pub fn drop_loose(&self, packs: &[Pack]) -> Result<(), Error> {
        let objects = self.common_dir().join("objects");
        for Pack(pack) in packs {
            let index = pack.with_extension("idx");
            // Somebody has put all packs together since, and has seen to the loose objects.
            if !pack.exists() || !index.exists() {
                continue;
            }
            let index = File::at(&index, gix::hash::Kind::Sha1).doing("read the index of a pack")?;
            for entry in index.iter() {
                let path = loose_path(&objects, &entry.oid);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    removed => removed.at("remove", &path)?,
                }
            }
        }
        Ok(())
    }
}
