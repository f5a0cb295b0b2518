//! Packing what a session wrote, so that pushing and collecting it later stays cheap.

use super::error::Error;
use super::repo::Repo;
use crate::ids::CommitId;

impl Repo {
    /// Packs the loose objects that are reachable from `tips` and not from `before`; their loose copies stay. What
    /// `before` reaches is not walked, so that the cost follows what is new. Deltas are not searched for: records
    /// differ too much for that to pay.
    pub fn pack_loose(&self, tips: &[CommitId], before: &[CommitId]) -> Result<(), Error> {
        let common = self.common_dir();
        let program = &self.shared.program;
        let prefix = common.join("objects/pack/pack");
        let mut args: Vec<&std::ffi::OsStr> =
            ["-c", "pack.window=0", "-c", "pack.compression=1", "pack-objects", "--revs", "--unpacked", "--quiet"]
                .map(std::ffi::OsStr::new)
                .into();
        args.push(prefix.as_os_str());
        let with = tips.iter().map(|tip| format!("{tip}\n"));
        let without = before.iter().map(|before| format!("^{before}\n"));
        let list: String = with.chain(without).collect();
        let made = program.run_with_stdin(common, args, list.as_bytes())?.success()?;
        self.shared.packs.made(&made);
        Ok(())
    }

    /// Removes what a git that ran in bounds could not remove itself: working names of objects that have their own.
    pub fn sweep(&self) {
        super::loose::sweep(&self.common_dir().join("objects"));
    }

    /// Removes loose objects that are in a pack. For the end of a run: a file system that has just lost thousands of
    /// files is slow to make new ones.
    pub fn prune_packed(&self) -> Result<(), Error> {
        self.shared.program.run(self.common_dir(), ["prune-packed", "--quiet"])?.success().map(drop)
    }
}
