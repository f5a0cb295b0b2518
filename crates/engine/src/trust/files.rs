//! What a path of a commit says: a file its content, a directory the files in it, a link what it leads to.

use std::collections::BTreeSet;

use super::Error;
use git::{BlobId, EntryKind, Repo, TreeEntry, TreeId};
use pleach_core::ids::RepoPath;
use pleach_core::text::{counted, visible};

/// How much of one file of a directory is shown, in bytes.
const FILE_SHOWN: usize = 16 * 1024;

/// How much of all files of a directory is shown, in bytes.
const DIRECTORY_SHOWN: usize = 128 * 1024;

/// How many files of a directory are named.
const NAMED: usize = 1000;

/// How many links are followed, as on Linux.
const LINKS: usize = 40;

/// The files of a commit.
pub(super) struct Files<'a> {
    pub repo: &'a Repo,
    pub tree: TreeId,
}

/// What a path leads to, links followed.
enum FollowedPath {
    /// There is nothing.
    Nothing,
    File {
        path: Vec<u8>,
        id: BlobId,
        executable: bool,
    },
    Directory {
        path: Vec<u8>,
        id: TreeId,
    },
    /// Another repository, at this commit.
    Submodule {
        path: Vec<u8>,
        id: BlobId,
    },
    /// A link that leads to no file of the commit, and where it points.
    Away {
        link: Vec<u8>,
        to: Vec<u8>,
        why: &'static str,
    },
}

const OUTSIDE: &str = "which leads out of the repository";
const NOWHERE: &str = "which is not in the commit agents start from";

impl Files<'_> {
    /// Where a path is and what it says; none when there is no such path.
    pub fn content_at(&self, path: &str) -> Result<Option<(String, String)>, Error> {
        let target = self.resolve(path.as_bytes())?;
        let (leads_to, text) = match &target {
            FollowedPath::Nothing => return Ok(None),
            FollowedPath::File { path, id, .. } => (path, String::from_utf8_lossy(&self.blob(*id)?).into_owned()),
            FollowedPath::Directory { path: dir, id } => (dir, self.listing(path, dir, *id)?),
            FollowedPath::Submodule { path, .. } | FollowedPath::Away { link: path, .. } => {
                (path, self.described(&target))
            }
        };
        let linked = leads_to != path.as_bytes() && !matches!(target, FollowedPath::Away { .. });
        let through = if linked { format!(", which leads to `{}`", shown(leads_to)) } else { String::new() };
        Ok(Some((format!("`{path}` in the repository{through}"), text)))
    }

    /// Follows a path, and the links on it, as the system does in a checkout.
    fn resolve(&self, path: &[u8]) -> Result<FollowedPath, Error> {
        let mut ahead: Vec<Vec<u8>> = split(path);
        let mut here: Vec<Vec<u8>> = Vec::new();
        // The links whose own paths are not gone to their end yet, with how many names lie behind each.
        let mut open: Vec<(usize, Vec<u8>, Vec<u8>)> = Vec::new();
        let mut links = 0;
        let mut target = FollowedPath::Directory { path: Vec::new(), id: self.tree };
        let away = |mut open: Vec<(usize, Vec<u8>, Vec<u8>)>, why| match open.pop() {
            Some((_, link, to)) => FollowedPath::Away { link, to, why },
            None => FollowedPath::Nothing,
        };
        while let Some(name) = ahead.pop() {
            open.retain(|(behind, ..)| *behind <= ahead.len());
            match (name.as_slice(), &target) {
                (b"." | b"", _) => continue,
                (b"..", FollowedPath::Directory { .. }) => {
                    if here.pop().is_none() {
                        return Ok(away(open, OUTSIDE));
                    }
                }
                (_, FollowedPath::Directory { .. }) => here.push(name),
                // What another repository holds is not in this commit.
                (_, FollowedPath::Submodule { .. }) => return Ok(target),
                _ => return Ok(away(open, NOWHERE)),
            }
            let place = here.join(&b'/');
            if here.is_empty() {
                target = self.directory(&here)?;
                continue;
            }
            let Some(entry) = self.entry(&place)? else { return Ok(away(open, NOWHERE)) };
            target = match entry.kind {
                EntryKind::File => FollowedPath::File { path: place, id: entry.id, executable: false },
                EntryKind::Executable => FollowedPath::File { path: place, id: entry.id, executable: true },
                EntryKind::Directory => FollowedPath::Directory { path: place, id: tree_id(entry.id) },
                EntryKind::Submodule => FollowedPath::Submodule { path: place, id: entry.id },
                EntryKind::Link => {
                    let to = self.blob(entry.id)?;
                    links += 1;
                    let outside = to.starts_with(b"/");
                    if outside || links > LINKS {
                        return Ok(FollowedPath::Away {
                            link: place,
                            to,
                            why: if outside { OUTSIDE } else { NOWHERE },
                        });
                    }
                    let behind = ahead.len();
                    ahead.extend(split(&to));
                    open.push((behind, place, to));
                    here.pop();
                    self.directory(&here)?
                }
            };
        }
        Ok(target)
    }

    /// A directory that was gone into, by the names on the way.
    fn directory(&self, names: &[Vec<u8>]) -> Result<FollowedPath, Error> {
        let path = names.join(&b'/');
        let id = if names.is_empty() { Some(self.tree) } else { self.entry(&path)?.map(|entry| tree_id(entry.id)) };
        Ok(id.map_or(FollowedPath::Nothing, |id| FollowedPath::Directory { path, id }))
    }

    fn entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, Error> {
        Ok(self.repo.tree_entry(self.tree, &RepoPath::new(path))?)
    }

    /// All files of a directory with what they say, cut where it is too much to be read. The hash in the first line is
    /// over all of it, so that nothing changes unseen.
    fn listing(&self, named: &str, dir: &[u8], id: TreeId) -> Result<String, Error> {
        let mut found = Vec::new();
        self.collect(named.as_bytes(), dir, id, &mut BTreeSet::new(), &mut found)?;
        let mut manifest = Vec::new();
        for (path, target) in &found {
            manifest.extend_from_slice(path);
            manifest.push(0);
            manifest.extend_from_slice(self.manifest(target).as_bytes());
            manifest.push(0);
        }
        let mut text = format!("{}, hash {}\n", counted(found.len(), "file"), super::hash(&manifest, named)?);
        let mut room = DIRECTORY_SHOWN;
        for (path, target) in found.iter().take(NAMED) {
            let path = shown(path);
            let FollowedPath::File { id, .. } = target else {
                text.push_str(&format!("{path}: {}\n", self.described(target)));
                continue;
            };
            text.push_str(&format!("{path}:\n"));
            let content = self.blob(*id)?;
            let most = FILE_SHOWN.min(room);
            let Ok(whole) = std::str::from_utf8(&content) else {
                text.push_str(&format!("  ({} that are no text)\n", counted(content.len(), "byte")));
                continue;
            };
            let part = &whole[..whole.floor_char_boundary(most)];
            room -= part.len();
            part.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            if part.len() < whole.len() {
                let rest = whole.len() - part.len();
                text.push_str(&format!("  … {} more, see `git show {id}`\n", counted(rest, "byte")));
            }
        }
        if found.len() > NAMED {
            text.push_str(&format!("… {} more\n", counted(found.len() - NAMED, "file")));
        }
        Ok(text)
    }

    /// Everything below a directory, by the path it is found at: links are followed, each directory is gone into once.
    fn collect(
        &self,
        named: &[u8],
        dir: &[u8],
        id: TreeId,
        seen: &mut BTreeSet<Vec<u8>>,
        found: &mut Vec<(Vec<u8>, FollowedPath)>,
    ) -> Result<(), Error> {
        seen.insert(dir.to_owned());
        for entry in self.repo.tree_entries(id)? {
            let name = entry.path.as_bytes();
            let at = [named, name].join(&b'/');
            let target = self.resolve(&[dir, name].join(&b'/'))?;
            match &target {
                FollowedPath::Directory { path, id } if !seen.contains(path) => {
                    let (path, id) = (path.clone(), *id);
                    self.collect(&at, &path, id, seen, found)?;
                }
                FollowedPath::Nothing => {}
                _ => found.push((at, target)),
            }
        }
        Ok(())
    }

    /// What is found at a path, in a word that changes when it does.
    fn manifest(&self, target: &FollowedPath) -> String {
        match target {
            FollowedPath::File { id, executable, .. } => {
                format!("{} {id}", if *executable { "program" } else { "file" })
            }
            other => self.described(other),
        }
    }

    /// What is found at a path that cannot be shown.
    fn described(&self, target: &FollowedPath) -> String {
        match target {
            FollowedPath::Nothing => String::new(),
            FollowedPath::File { path, .. } | FollowedPath::Directory { path, .. } => {
                format!("`{}`, named here already", shown(path))
            }
            FollowedPath::Submodule { path, id } => {
                format!("`{}` is another repository, at its commit {id}", shown(path))
            }
            FollowedPath::Away { link, to, why } => format!("`{}` is a link to `{}`, {why}", shown(link), shown(to)),
        }
    }

    fn blob(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        Ok(self.repo.blob(id)?)
    }
}

fn tree_id(id: BlobId) -> TreeId {
    TreeId::from_bytes(*id.as_bytes())
}

/// The names of a path, the last one first.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
}

/// A path for reading, in which nothing hides.
fn shown(path: &[u8]) -> String {
    visible(&String::from_utf8_lossy(path))
}
