//! Which paths of a sandbox can be trusted. The supervisor opens them without being restricted itself, so no path may
//! go through a directory where a sandboxed command, of this run or an earlier one, could have planted a link: the
//! sandbox would extend to its target.
//!
//! Links of the user above such directories are followed. Paths inside a writable directory need no rule of their own.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::bounds::Sandbox;

/// The maximum number of links in a path, as on Linux.
const LINKS: usize = 40;

/// How the system resolves a path.
#[derive(Debug)]
struct ResolvedPath {
    /// The directories in which a name is looked up, and whether it was a link.
    looks: Vec<(PathBuf, bool)>,
    /// The resolved path, without links.
    end: PathBuf,
}

impl ResolvedPath {
    /// `None` if the path does not exist.
    fn of(path: &Path) -> Option<Self> {
        let names = |path: &Path| -> Vec<OsString> {
            let kept = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
            kept.map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut way = Self { looks: Vec::new(), end: PathBuf::from("/") };
        let mut ahead: VecDeque<OsString> = names(path).into();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                way.end.pop();
                continue;
            }
            let next = way.end.join(name);
            let is_link = next.symlink_metadata().ok()?.is_symlink();
            way.looks.push((way.end.clone(), is_link));
            if !is_link {
                way.end = next;
                continue;
            }
            links += 1;
            let target = next.read_link().ok().filter(|_| links <= LINKS)?;
            if target.is_absolute() {
                way.end = PathBuf::from("/");
            }
            names(&target).into_iter().rev().for_each(|name| ahead.push_front(name));
        }
        Some(way)
    }

    /// Whether a name is looked up in or below one of these places.
    fn enters<'a>(&self, mut places: impl Iterator<Item = &'a PathBuf>) -> bool {
        places.any(|place| self.looks.iter().any(|(dir, _)| dir.starts_with(place)))
    }

    /// Whether a link was in or below one of these places.
    fn is_led_in<'a>(&self, mut places: impl Iterator<Item = &'a PathBuf>) -> bool {
        places.any(|place| self.looks.iter().any(|(dir, is_link)| *is_link && dir.starts_with(place)))
    }
}

/// The sandbox with only those paths that exist and that no sandboxed command can influence. `open` paths are always
/// writable.
pub(super) fn only(sandbox: &Sandbox, open: &[&str]) -> Sandbox {
    let absolute = |path: &&PathBuf| path.is_absolute();
    let ways: Vec<(PathBuf, ResolvedPath)> = (sandbox.write.iter().filter(absolute))
        .filter_map(|path| Some((path.clone(), ResolvedPath::of(path)?)))
        .collect();
    let open: Vec<PathBuf> = open.iter().filter_map(|path| Some(ResolvedPath::of(Path::new(path))?.end)).collect();
    // A link in a place that another path leads to is not trusted, whatever that path is: whoever can write there could
    // have planted it.
    let others = |at: usize| {
        let others = ways.iter().enumerate().filter(move |(other, _)| *other != at);
        others.map(|(_, (_, way))| &way.end).chain(&open)
    };
    let unled: Vec<&(PathBuf, ResolvedPath)> =
        ways.iter().enumerate().filter(|(at, (_, way))| !way.is_led_in(others(*at))).map(|(_, way)| way).collect();
    let places: Vec<PathBuf> = unled.iter().map(|(_, way)| way.end.clone()).chain(open.clone()).collect();
    let write = unled.iter().filter(|(_, way)| !way.enters(places.iter())).map(|(path, _)| path.clone()).collect();
    let outside = |paths: &[PathBuf]| {
        let is_outside = |path: &&PathBuf| ResolvedPath::of(path).is_some_and(|way| !way.enters(places.iter()));
        paths.iter().filter(absolute).filter(is_outside).cloned().collect()
    };
    let read = sandbox.read.as_deref().map(outside);
    Sandbox { write, add: outside(&sandbox.add), read, show: outside(&sandbox.show), ..sandbox.clone() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_links_nothing_bound_can_have_laid_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        for directory in ["disk/me/pip/below", "mine/objects", "work/sub", "shared"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        symlink("disk/me", at("me")).unwrap();
        symlink(at("shared"), at("linked")).unwrap();
        symlink(at("mine"), at("disk/me/pip/out")).unwrap();
        symlink(at("disk/me/pip/out"), at("through")).unwrap();
        symlink("round", at("round")).unwrap();
        let paths = |paths: &[&str]| paths.iter().map(|path| at(path)).collect::<Vec<_>>();
        let sandbox = Sandbox {
            write: paths(&[
                "work",
                "me/pip",
                "linked",
                "me/pip/out",
                "me/pip/out/objects",
                "disk/me/pip/out",
                "through",
                "work/../me/pip/out",
                "work/sub",
                "me/pip/below",
                "round",
                "none",
            ]),
            add: paths(&["mine/objects", "me/pip/out/objects"]),
            read: Some(paths(&["mine", "me/pip/out", "work"])),
            show: paths(&["mine", "me/pip/out", "none"]),
            ..Sandbox::default()
        };
        let sound = only(&sandbox, &[]);
        assert_eq!(sound.write, paths(&["work", "me/pip", "linked"]));
        assert_eq!(sound.add, paths(&["mine/objects"]));
        assert_eq!(sound.read.unwrap(), paths(&["mine", "work"]));
        assert_eq!(sound.show, paths(&["mine"]));
        let open = at("disk");
        assert_eq!(only(&sandbox, &[open.to_str().unwrap()]).write, paths(&["work", "linked"]));
    }
}
