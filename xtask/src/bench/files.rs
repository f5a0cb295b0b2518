//! Repositories of a given size, and changes in their files.

use std::error::Error;
use std::path::{Path, PathBuf};

use super::world::World;

/// Files in a directory, and directories in a directory above it.
const PER_DIRECTORY: usize = 50;

/// The path of a generated file.
pub fn path(number: usize) -> String {
    let (directory, file) = (number / PER_DIRECTORY, number % PER_DIRECTORY);
    format!("d{:03}/m{:02}/f{file:02}.txt", directory / PER_DIRECTORY, directory % PER_DIRECTORY)
}

/// Makes a repository with so many files of a few hundred bytes, checked out and clean.
pub fn repository(world: &World, name: &str, size: usize) -> Result<PathBuf, Box<dyn Error>> {
    let repo = world.root().join(name);
    std::fs::create_dir(&repo)?;
    world.git(&repo, &["init", "--quiet"])?;
    let mut stream = String::from("commit refs/heads/main\ncommitter Bench <bench@example.org> 1700000000 +0000\n");
    stream.push_str("data 5\nBegin\n");
    for number in 0..size {
        let content = content(number, 0);
        stream.push_str(&format!("M 100644 inline {}\ndata {}\n{content}\n", path(number), content.len()));
    }
    world.git_reading(&repo, &["fast-import", "--quiet"], stream.as_bytes())?;
    world.git(&repo, &["reset", "--quiet", "--hard"])?;
    // Files and index are equally new, which makes git read them all at each status until it has looked once.
    world.git(&repo, &["update-index", "-q", "--refresh"])?;
    Ok(repo)
}

fn content(number: usize, version: usize) -> String {
    let lines = (0..8).map(|line| format!("line {line} of file {number} in version {version}\n"));
    lines.collect()
}

/// Changes files so that no two changes are alike, and no two in a row hit the same directory.
#[derive(Debug)]
pub struct Changes {
    size: usize,
    made: usize,
}

impl Changes {
    /// For a repository of so many files.
    pub fn new(size: usize) -> Self {
        Self { size, made: 0 }
    }

    /// Writes so many files of a checkout anew and gives their paths.
    pub fn make(&mut self, checkout: &Path, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
        let mut paths = Vec::new();
        for _ in 0..count {
            self.made += 1;
            // A prime far from the sizes of directories and repositories.
            let number = self.made * 7_919 % self.size;
            std::fs::write(checkout.join(path(number)), content(number, self.made))?;
            paths.push(path(number));
        }
        Ok(paths)
    }
}
