//! Finding out what changed: pleach's scans next to `git status`.

use std::error::Error;
use std::path::{Path, PathBuf};

use super::files::Changes;
use super::samples::Samples;
use super::world::World;

/// The times of one repository.
#[derive(Debug, Default)]
pub struct Scans {
    /// `git status --porcelain`.
    pub git: Samples,
    /// Opening a working copy and looking at all its files.
    pub cold: Samples,
    /// The opening alone.
    pub open: Samples,
    /// Looking at all files of a working copy that is held.
    pub held: Samples,
    /// Looking at the file an agent's tool wrote.
    pub candidates: Samples,
}

/// Measures in a checkout in which one file is changed.
pub fn run(world: &World, checkout: &Path, size: usize, rounds: usize) -> Result<Scans, Box<dyn Error>> {
    let repo = git::discover(checkout, &world.counted())?;
    let mut held = git::worktree::open(&repo, checkout)?;
    git::worktree::scan_all(&mut held)?;
    let mut scans = Scans::default();
    for _ in 0..rounds {
        // The same file each time, so that there is one change whatever the round.
        Changes::new(size).make(checkout, 1)?;
        let status = scans.git.time(|| world.git(checkout, &["status", "--porcelain"]))?;
        let cold = scans.cold.time(|| {
            let mut opened = scans.open.time(|| git::worktree::open(&repo, checkout))?;
            git::worktree::scan_all(&mut opened)
        })?;
        let warm = scans.held.time(|| git::worktree::scan_all(&mut held))?;
        let found = [cold.paths().count(), warm.paths().count()];
        if status.lines().count() != 1 || found != [1, 1] {
            return Err(format!("one file is changed; git found {status:?}, pleach {found:?}").into());
        }
    }
    // By themselves, as between the turns of an agent: right behind a look at all files the processor has the memory of
    // those at hand, and the more of them there are, the less of what is looked for here.
    for _ in 0..rounds {
        let candidates: Vec<PathBuf> = Changes::new(size).make(checkout, 1)?.iter().map(PathBuf::from).collect();
        let looked = scans.candidates.time(|| git::worktree::scan_paths(&mut held, &candidates))?.paths().count();
        if looked != 1 {
            return Err(format!("one file is changed; pleach found {looked} where its tool wrote").into());
        }
    }
    world.git(checkout, &["checkout", "--quiet", "--", "."])?;
    Ok(scans)
}
