//! Loose objects that wait to be packed together.

use super::Error;
use crate::git::{Pack, Repo};
use crate::ids::CommitId;

/// So many are packed while the run goes on.
const MANY: usize = 2_000;

/// Fewer are not worth a pack of their own when a run pauses or ends.
const FEW: usize = 100;

/// What one chain of records has written, or several one after another.
#[derive(Debug, Default)]
pub struct Unpacked {
    objects: usize,
    /// The newest records, which lead to all of it.
    tips: Vec<CommitId>,
    /// What leads to everything that was there before, or is packed.
    before: Vec<CommitId>,
    /// The packs that were made, as long as the loose copies of what they hold are still there.
    packs: Vec<Pack>,
}

impl Unpacked {
    /// What is written from here on. What `before` leads to is the user's, or was written by others.
    pub fn after(before: Vec<CommitId>) -> Self {
        Self { before, ..Self::default() }
    }

    /// A chain has grown by so many objects, from one record to the next.
    pub fn grow(&mut self, objects: usize, from: Option<CommitId>, to: CommitId) {
        self.objects += objects;
        self.tips.retain(|tip| Some(*tip) != from);
        self.tips.push(to);
    }

    /// Takes over what a chain has left that was begun after the others here.
    pub fn take(&mut self, chain: Self) {
        if self.tips.is_empty() && self.before.is_empty() {
            self.before = chain.before;
        }
        self.objects += chain.objects;
        self.tips.extend(chain.tips);
        self.packs.extend(chain.packs);
    }

    /// Packs it if there is much of it. The loose copies stay: a file system that has just lost thousands of files is
    /// slow to make new ones.
    pub fn pack_many(&mut self, repo: &Repo) -> Result<(), Error> {
        if self.objects > MANY { self.pack(repo) } else { Ok(()) }
    }

    /// Packs it if it is worth it, and leaves nothing of it loose. For the moments a run pauses or ends.
    pub fn finish(&mut self, repo: &Repo) -> Result<(), Error> {
        if self.objects >= FEW {
            self.pack(repo)?;
        }
        // Whatever comes of it, it is not tried again.
        Ok(repo.drop_loose(&std::mem::take(&mut self.packs))?)
    }

    fn pack(&mut self, repo: &Repo) -> Result<(), Error> {
        // Whatever comes of it, it is not tried again with the next object.
        self.objects = 0;
        self.packs.extend(repo.pack_loose(&self.tips, &self.before)?);
        self.before = std::mem::take(&mut self.tips);
        Ok(())
    }
}
