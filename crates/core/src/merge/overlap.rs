//! What is in a checkout where something lands, with the very content that lands: whether the index can take it over
//! without losing what nobody else has.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::RepoPath;

/// What is to be taken over, and what the index of the checkout has.
#[derive(Debug)]
pub struct Overlap<'a> {
    /// Files with the content that lands, each as the index would have it.
    pub same: Vec<(RepoPath, Vec<u8>)>,
    /// Directories, here and where it lands, in place of a file.
    pub directories: &'a [RepoPath],
    /// What the index has otherwise than the commit that is checked out.
    pub staged: &'a BTreeMap<RepoPath, Vec<u8>>,
    /// All paths the index has.
    pub indexed: &'a BTreeSet<&'a [u8]>,
}

impl Overlap<'_> {
    /// The paths that cannot be taken over. One that is staged with other content than what is checked out or lands: nobody
    /// has that content but the index. A file where the index has a directory: git refuses that whatever is staged.
    pub fn lost(&self) -> Vec<RepoPath> {
        let files = self.same.iter().filter(|(path, line)| self.is_lost(path, line)).map(|(path, _)| path);
        let directories = self.directories.iter().filter(|path| !self.is_kept(path));
        files.chain(directories).cloned().collect()
    }

    fn is_lost(&self, path: &RepoPath, line: &[u8]) -> bool {
        let is_other = self.staged.get(path).is_some_and(|staged| *staged != line);
        let mut above = above(path).filter(|path| self.indexed.contains(path.as_bytes()));
        is_other || self.has_below(path) || above.any(|path| !self.is_kept(&path))
    }

    /// Whether the commit that is checked out has it as the index has, so that it may go from there.
    fn is_kept(&self, path: &RepoPath) -> bool {
        self.indexed.contains(path.as_bytes()) && !self.staged.contains_key(path)
    }

    /// Whether the index has anything below a path.
    fn has_below(&self, path: &RepoPath) -> bool {
        let inside = [path.as_bytes(), b"/"].concat();
        self.indexed.range(&inside[..]..).next().is_some_and(|next| next.starts_with(&inside))
    }
}

/// The directories a path is in.
fn above(path: &RepoPath) -> impl Iterator<Item = RepoPath> {
    let path = path.as_bytes();
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| RepoPath::new(&path[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that are lost of one that has the content that lands.
    fn lost(path: &str, staged: &[(&str, &str)], indexed: &[&str]) -> Vec<RepoPath> {
        let staged = staged.iter().map(|(path, line)| (RepoPath::from(*path), line.as_bytes().to_vec())).collect();
        let indexed = indexed.iter().map(|path| path.as_bytes()).collect();
        let same = vec![(RepoPath::from(path), b"lands".to_vec())];
        Overlap { same, directories: &[], staged: &staged, indexed: &indexed }.lost()
    }

    #[test]
    fn what_only_the_index_has_is_not_taken_over() {
        assert_eq!(lost("f", &[], &[]), []);
        assert_eq!(lost("f", &[("f", "lands")], &["f"]), []);
        assert_eq!(lost("f", &[("f", "mine")], &["f"]), ["f".into()]);
        assert_eq!(lost("d/f", &[], &["d"]), [], "a file that is checked out makes room");
        assert_eq!(lost("d/f", &[("d", "mine")], &["d"]), ["d/f".into()]);
        assert_eq!(lost("d", &[], &["d.x", "d/f"]), ["d".into()]);
        assert_eq!(lost("d", &[], &["d.x", "dd/f"]), []);
    }

    #[test]
    fn a_directory_replaces_a_checked_out_file() {
        let lost = |staged: &BTreeMap<RepoPath, Vec<u8>>, indexed: &[&[u8]]| {
            let indexed = indexed.iter().copied().collect();
            Overlap { same: Vec::new(), directories: &["d".into()], staged, indexed: &indexed }.lost()
        };
        assert_eq!(lost(&BTreeMap::new(), &[b"d"]), []);
        assert_eq!(lost(&BTreeMap::from([("d".into(), b"mine".to_vec())]), &[b"d"]), ["d".into()]);
        assert_eq!(lost(&BTreeMap::new(), &[]), ["d".into()]);
    }
}
