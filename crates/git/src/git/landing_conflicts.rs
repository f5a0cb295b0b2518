//! Files in the way of a landing. Those that already have the content that lands, after a power cut or because the user
//! copied it, are staged so that git accepts them. Also finds obstacles git does not check: submodules that would be
//! replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::diff::{self, ChangeKind, TreeChange};
use super::error::{Error, IoContext as _};
use super::id::{BlobId, TreeId};
use super::object::{EntryKind, TreeEntry};
use super::repo::Repo;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::overlap::Overlap;

/// The mode of what is staged to be removed.
const NO_MODE: &[u8] = b"000000 ";

/// What takes a path out of an index that it is put behind.
const NOTHING: &[u8] = b"0 0000000000000000000000000000000000000000\t";

/// Puts those of `paths` into the checkout's index that hold what `to` has there, if all do, so that nothing is left
/// in the way of `to`. Otherwise names those that do not, and touches nothing. One that is staged with other content
/// than `from` or `to` has is in the way as well: only the index has that content. So is a file where the index
/// has a directory, for git refuses that whatever is staged; a directory in the place of a file counts by what is in it.
pub(super) fn stage_matching_files(
    repo: &Repo,
    checkout: &Path,
    paths: &[RepoPath],
    from: CommitId,
    to: CommitId,
) -> Result<Vec<RepoPath>, Error> {
    let tree = repo.tree_of(to)?;
    let (directories, paths) = expand_directories(repo, checkout, paths, tree)?;
    let (entries, mut others) = split_by_content(repo, checkout, &paths, tree)?;
    if !entries.is_empty() || !directories.is_empty() {
        let staged = staged(repo, checkout, from)?;
        let listed = repo.shared.program.run(checkout, ["ls-files", "-z"])?.success()?;
        let indexed: BTreeSet<&[u8]> = listed.split(|byte| *byte == 0).collect();
        let same = entries.iter().map(|entry| (entry.path.clone(), index_line(entry))).collect();
        others.extend(Overlap { same, directories: &directories, staged: &staged, indexed: &indexed }.lost());
        others.sort();
    }
    if others.is_empty() && (!entries.is_empty() || !directories.is_empty()) {
        let gone = directories.iter().flat_map(|path| [NOTHING, path.as_bytes(), b"\0"].concat());
        let lines: Vec<u8> = gone.chain(entries.iter().flat_map(index_line)).collect();
        let args = ["update-index", "-z", "--index-info"];
        repo.shared.program.run_with_stdin(checkout, args, &lines)?.success()?;
    }
    Ok(others)
}

/// Those of `paths` where both a checkout and a tree have a directory, and the others with all that the first have in
/// them. What the tree has no directory for is not looked into.
fn expand_directories(
    repo: &Repo,
    checkout: &Path,
    paths: &[RepoPath],
    tree: TreeId,
) -> Result<(Vec<RepoPath>, Vec<RepoPath>), Error> {
    let is_directory = |path: &RepoPath| -> Result<bool, Error> {
        let is_there = fs::symlink_metadata(place(checkout, path)).is_ok_and(|found| found.is_dir());
        Ok(is_there && repo.tree_entry(tree, path)?.is_some_and(|entry| entry.kind == EntryKind::Directory))
    };
    let (mut directories, mut others) = (Vec::new(), BTreeSet::new());
    let mut inside = Vec::new();
    for path in paths {
        if is_directory(path)? {
            directories.push(path.clone());
            inside.push(path.clone());
        } else {
            others.insert(path.clone());
        }
    }
    while let Some(directory) = inside.pop() {
        let at = place(checkout, &directory);
        for entry in fs::read_dir(&at).at("list", &at)? {
            let name = entry.at("list", &at)?.file_name();
            let path = RepoPath::new([directory.as_bytes(), b"/", name.as_bytes()].concat());
            if is_directory(&path)? {
                inside.push(path);
            } else {
                others.insert(path);
            }
        }
    }
    Ok((directories, others.into_iter().collect()))
}

/// The paths of `changes`, which are what lands on `from`, where a checkout has something of its own.
pub(super) fn obstructing_paths(
    repo: &Repo,
    checkout: &Path,
    from: CommitId,
    changes: &[TreeChange],
) -> Result<Vec<RepoPath>, Error> {
    // Files that were only touched are not among them.
    let args = ["diff", "--name-only", "--no-ext-diff", "--no-renames", "--ignore-submodules=all", "-z"];
    let written = repo.shared.program.run(checkout, args)?.success()?;
    let written: BTreeSet<&[u8]> = written.split(|byte| *byte == 0).collect();
    let staged = staged(repo, checkout, from)?;
    let is_in_the_way = |change: &&TreeChange| {
        let is_new = matches!(change.kind, ChangeKind::Added(..));
        let is_gone = matches!(change.kind, ChangeKind::Removed(..));
        let is_own = is_new || written.contains(change.path.as_bytes());
        let is_staged = staged.get(&change.path).is_some_and(|line| !is_gone || !line.starts_with(NO_MODE));
        is_staged || is_own && is_taken(&place(checkout, &change.path))
    };
    Ok(changes.iter().filter(is_in_the_way).map(|change| change.path.clone()).collect())
}

/// The paths where a checkout has something of its own that moving it from `from` to `to` would overwrite. What has the
/// very content that lands is not among them. Of a directory that becomes a file, only what nobody has committed counts;
/// a file where a directory comes counts unless it is committed.
pub(super) fn own_paths(repo: &Repo, checkout: &Path, from: CommitId, to: CommitId) -> Result<Vec<RepoPath>, Error> {
    let (before, tree) = (repo.tree_of(from)?, repo.tree_of(to)?);
    let changes = diff::changes(repo, before, tree)?;
    let paths = obstructing_paths(repo, checkout, from, &changes)?;
    let mut own = BTreeSet::new();
    for path in split_by_content(repo, checkout, &paths, tree)?.1 {
        match fs::symlink_metadata(place(checkout, &path)) {
            Ok(found) if found.is_dir() => untracked_below(repo, checkout, before, path, &mut own)?,
            _ => drop(own.insert(path)),
        }
    }
    for change in changes.iter().filter(|change| matches!(change.kind, ChangeKind::Added(..))) {
        own.extend(file_above(repo, checkout, before, &change.path)?);
    }
    Ok(own.into_iter().collect())
}

/// The files of a checkout's directory that a tree does not have.
fn untracked_below(
    repo: &Repo,
    checkout: &Path,
    tree: TreeId,
    directory: RepoPath,
    found: &mut BTreeSet<RepoPath>,
) -> Result<(), Error> {
    let mut inside = vec![directory];
    while let Some(directory) = inside.pop() {
        let at = place(checkout, &directory);
        for entry in fs::read_dir(&at).at("list", &at)? {
            let entry = entry.at("list", &at)?;
            let path = RepoPath::new([directory.as_bytes(), b"/", entry.file_name().as_bytes()].concat());
            if entry.file_type().at("look at", &at)?.is_dir() {
                inside.push(path);
            } else if repo.tree_entry(tree, &path)?.is_none() {
                found.insert(path);
            }
        }
    }
    Ok(())
}

/// The file a checkout has where a path needs a directory, unless a tree has that file.
fn file_above(repo: &Repo, checkout: &Path, tree: TreeId, path: &RepoPath) -> Result<Option<RepoPath>, Error> {
    let bytes = path.as_bytes();
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/');
    for above in ends.map(|end| RepoPath::new(&bytes[..end])) {
        let Ok(found) = fs::symlink_metadata(place(checkout, &above)) else { return Ok(None) };
        if !found.is_dir() {
            let is_committed = repo.tree_entry(tree, &above)?.is_some_and(|entry| entry.kind != EntryKind::Directory);
            return Ok((!is_committed).then_some(above));
        }
    }
    Ok(None)
}

/// What the index of a checkout has otherwise than a commit, each as it would be put there.
pub(super) fn staged(repo: &Repo, checkout: &Path, commit: CommitId) -> Result<BTreeMap<RepoPath, Vec<u8>>, Error> {
    let commit = commit.to_string();
    let args = ["diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", &commit, "--"];
    let output = repo.shared.program.run(checkout, args)?.success()?;
    let mut fields = output.split(|byte| *byte == 0);
    let mut staged = BTreeMap::new();
    // `:MODE MODE ID ID STATUS NUL PATH NUL`, the old before the new
    while let (Some(words), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<&[u8]> = words.split(|byte| *byte == b' ').collect();
        let [_, mode, _, id, _] = words[..] else {
            return Err(Error::Library {
                doing: "look at what is staged".into(),
                detail: "unexpected output of git".into(),
            });
        };
        staged.insert(RepoPath::new(path), [mode, b" ", id, b"\t", path, b"\0"].concat());
    }
    Ok(staged)
}

/// The links to other repositories that a checkout has, that `to` has something else for, and that have something else
/// in their place than what lands there. git does not look into it and replaces it with all that is not committed.
pub(super) fn obstructing_submodules(
    repo: &Repo,
    checkout: &Path,
    from: CommitId,
    to: CommitId,
) -> Result<Vec<RepoPath>, Error> {
    let to = repo.tree_of(to)?;
    let changes = diff::changes(repo, repo.tree_of(from)?, to)?;
    let is_below = |path: &RepoPath, link: &RepoPath| {
        path.as_bytes().strip_prefix(link.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    };
    let is_replaced = |change: &&TreeChange| match change.kind {
        // Where nothing comes in its place, git leaves what is there.
        ChangeKind::Removed(EntryKind::Submodule, _) => {
            changes.iter().any(|other| is_below(&other.path, &change.path) || is_below(&change.path, &other.path))
        }
        ChangeKind::Modified((EntryKind::Submodule, _), (new, _)) => new != EntryKind::Submodule,
        _ => false,
    };
    let replaced = changes.iter().filter(is_replaced).map(|change| change.path.clone());
    let mut taken: Vec<RepoPath> = replaced.filter(|path| is_taken(&place(checkout, path))).collect();
    if !taken.is_empty() {
        // What the index has no link for, git looks at.
        let listed = repo.shared.program.run(checkout, ["ls-files", "--stage", "-z"])?.success()?;
        let links = listed.split(|byte| *byte == 0).filter(|line| line.starts_with(b"160000 "));
        let links: BTreeSet<&[u8]> = links.filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1)).collect();
        taken.retain(|path| links.contains(path.as_bytes()));
    }
    Ok(split_by_content(repo, checkout, &taken, to)?.1)
}

/// Those of `paths` where a checkout holds what `tree` has there, and the others.
fn split_by_content(
    repo: &Repo,
    checkout: &Path,
    paths: &[RepoPath],
    tree: TreeId,
) -> Result<(Vec<TreeEntry>, Vec<RepoPath>), Error> {
    let (mut same, mut files, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        match repo.tree_entry(tree, path)? {
            Some(entry) if has_link(repo, checkout, &entry)? => same.push(entry),
            Some(entry) if has_kind(checkout, &entry) => files.push(entry),
            _ => others.push(path.clone()),
        }
    }
    let found = hash_files(repo, checkout, &files)?;
    for (entry, found) in files.into_iter().zip(found) {
        if entry.id == found { same.push(entry) } else { others.push(entry.path) }
    }
    others.sort();
    Ok((same, others))
}

/// Whether a checkout has a link where a tree has one, to the same place.
fn has_link(repo: &Repo, checkout: &Path, entry: &TreeEntry) -> Result<bool, Error> {
    let Ok(to) = fs::read_link(place(checkout, &entry.path)) else { return Ok(false) };
    Ok(entry.kind == EntryKind::Link && repo.blob(entry.id)? == to.as_os_str().as_bytes())
}

/// The blobs the files of a checkout would become, through git's own filters.
fn hash_files(repo: &Repo, checkout: &Path, entries: &[TreeEntry]) -> Result<Vec<BlobId>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<u8> = entries.iter().flat_map(|entry| quoted(&entry.path)).collect();
    let finished = repo.shared.program.run_with_stdin(checkout, ["hash-object", "--stdin-paths"], &names)?;
    let output = finished.success()?;
    let ids = String::from_utf8_lossy(&output).lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>();
    if ids.len() == entries.len() {
        Ok(ids)
    } else {
        Err(Error::Library { doing: "compare files".into(), detail: "git hashed fewer files than asked".into() })
    }
}

/// A path on a line of its own, as git reads it whatever is in it: a quote at its beginning, line breaks, a `\r` at its end.
fn quoted(path: &RepoPath) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in path.as_bytes() {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            0..0x20 | 0x7f => line.extend(format!("\\{byte:03o}").bytes()),
            _ => line.push(*byte),
        }
    }
    line.extend(b"\"\n");
    line
}

/// Whether a checkout has a plain file where a tree has one, and both can be run or neither.
fn has_kind(checkout: &Path, entry: &TreeEntry) -> bool {
    let Ok(metadata) = fs::symlink_metadata(place(checkout, &entry.path)) else { return false };
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    let kind = if is_executable { EntryKind::Executable } else { EntryKind::File };
    metadata.is_file() && entry.kind == kind
}

/// Whether there is anything but an empty directory.
fn is_taken(place: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(place) else { return false };
    !metadata.is_dir() || fs::read_dir(place).map_or(true, |mut inside| inside.next().is_some())
}

pub(super) fn place(checkout: &Path, path: &RepoPath) -> PathBuf {
    checkout.join(OsStr::from_bytes(path.as_bytes()))
}

/// `MODE SPACE ID TAB PATH NUL`
fn index_line(entry: &TreeEntry) -> Vec<u8> {
    let mode = entry.kind.to_gix() as u16;
    [format!("{mode:o} {}\t", entry.id).as_bytes(), entry.path.as_bytes(), b"\0"].concat()
}
