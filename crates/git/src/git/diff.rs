//! The difference between two trees: as values, and as text for people.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use gix::bstr::BStr;
use gix::diff::tree::visit::{self, Action};
use gix::diff::tree::{Recorder, Visit};
use gix::objs::tree::EntryMode;

use super::error::Error;
use super::id::{BlobId, TreeId};
use super::object::EntryKind;
use super::objects::find_tree;
use super::repo::Repo;
use super::verify;
use pleach_core::ids::RepoPath;

/// One file that differs. A file that moved is one removed and one added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChange {
    /// Where.
    pub path: RepoPath,
    /// How.
    pub kind: ChangeKind,
}

/// How a file differs; each side with what it is and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the new tree has it.
    Added(EntryKind, BlobId),
    /// Only the old tree has it.
    Removed(EntryKind, BlobId),
    /// Both have it: old, then new.
    Modified((EntryKind, BlobId), (EntryKind, BlobId)),
}

/// How many lines of a file changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Which file.
    pub path: RepoPath,
    /// Lines added and removed; none for a binary file.
    pub lines: Option<(u64, u64)>,
}

/// The files that differ between two trees, sorted by path, without rename detection.
pub fn changes(repo: &Repo, old: TreeId, new: TreeId) -> Result<Vec<TreeChange>, Error> {
    if old == new {
        return Ok(Vec::new());
    }
    let mut recorder = Recorder::default();
    compare(repo, Some(old), new, &mut recorder)?;
    let mut changes: Vec<TreeChange> = recorder.records.into_iter().flat_map(change).collect();
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// Whether all paths that differ fit into `room` bytes, each counted with a little beside it. Takes no longer than it
/// takes to fill the room: a few trees that name each other often enough have more paths than anybody could list.
pub(super) fn differs_within(repo: &Repo, old: Option<TreeId>, new: TreeId, room: usize) -> Result<bool, Error> {
    let mut measure = Measure { room: Some(room), lengths: Vec::new(), tracked: VecDeque::new() };
    let compared = compare(repo, old, new, &mut measure);
    if measure.room.is_none() { Ok(false) } else { compared.map(|()| true) }
}

fn compare(repo: &Repo, old: Option<TreeId>, new: TreeId, visit: &mut impl Visit) -> Result<(), Error> {
    old.into_iter().chain([new]).try_for_each(|tree| repo.fetch_trees(tree))?;
    let local = repo.local();
    let (old_tree, new_tree) = (old.map(|old| find_tree(&local, old)).transpose()?, find_tree(&local, new)?);
    let (hash, nothing) = (local.object_hash(), Vec::new());
    gix::diff::tree(
        gix::objs::TreeRefIter::from_bytes(old_tree.as_ref().map_or(&nothing, |old| &old.data), hash),
        gix::objs::TreeRefIter::from_bytes(&new_tree.data, hash),
        gix::diff::tree::State::default(),
        &local.objects,
        visit,
    )
    .map_err(|error| {
        let old = old.map_or_else(|| "nothing".to_owned(), |old| old.to_string());
        Error::Library { doing: format!("compare {old} with {new}"), detail: error.to_string() }
    })
}

/// The difference between two trees as a patch for people; `paths` limits it, empty means all.
pub fn patch(repo: &Repo, old: TreeId, new: TreeId, paths: &[RepoPath]) -> Result<String, Error> {
    let bytes = diff_tree(repo, &["-p"], old, new, paths)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The differences between pairs of trees as patches for people, in the order of the pairs. One program makes them all.
pub fn patches(repo: &Repo, pairs: &[(TreeId, TreeId)]) -> Result<Vec<String>, Error> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let args = ["diff-tree", "--stdin", "-p"].iter().chain(&PLAIN);
    let asked: String = pairs.iter().map(|(old, new)| format!("{old} {new}\n")).collect();
    let finished = repo.shared.program.run_with_stdin(repo.git_dir(), args, asked.as_bytes())?;
    if finished.code != Some(0) {
        pairs.iter().try_for_each(|(old, new)| verify::check_difference(repo, *old, *new))?;
    }
    let text = String::from_utf8_lossy(&finished.success()?).into_owned();
    let found = split_patches(&text);
    // Of trees that are equal git may say nothing.
    Ok(pairs.iter().map(|(old, new)| found.get(&format!("{old} {new}")).map_or("", |patch| patch).to_owned()).collect())
}

/// The patches `git diff-tree --stdin` prints, by the line of two ids before each. No line of a patch is two ids: what is
/// of a file has a mark before it.
fn split_patches(text: &str) -> BTreeMap<String, &str> {
    let is_id = |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_head = |line: &str| line.split_once(' ').is_some_and(|(old, new)| is_id(old) && is_id(new));
    let (mut patches, mut head, mut start, mut at) = (BTreeMap::new(), None, 0, 0);
    for line in text.split_inclusive('\n') {
        if is_head(line.trim_end_matches('\n')) {
            if let Some(head) = head.replace(line.trim_end().to_owned()) {
                patches.insert(head, &text[start..at]);
            }
            start = at + line.len();
        }
        at += line.len();
    }
    patches.extend(head.map(|head| (head, &text[start..])));
    patches
}

/// The same with a summary per file before it: the summary, then the patch.
pub fn patch_with_stat(repo: &Repo, old: TreeId, new: TreeId, paths: &[RepoPath]) -> Result<(String, String), Error> {
    let bytes = diff_tree(repo, &["--patch-with-stat"], old, new, paths)?;
    let text = String::from_utf8_lossy(&bytes);
    let at = text.find("\ndiff --git ").map_or(text.len(), |at| at + 1);
    Ok((text[..at].trim_end().to_owned(), text[at..].to_owned()))
}

/// Lines added and removed per file.
pub fn stat(repo: &Repo, old: TreeId, new: TreeId) -> Result<Vec<FileStat>, Error> {
    let bytes = diff_tree(repo, &["--numstat", "--no-renames", "-z"], old, new, &[])?;
    Ok(parse_numstat(&bytes))
}

/// The new names of files by their old ones, as git finds renames when it merges: with as large a number of candidates.
pub(super) fn renames(repo: &Repo, old: TreeId, new: TreeId) -> Result<BTreeMap<RepoPath, RepoPath>, Error> {
    let bytes = diff_tree(repo, &["--name-status", "--diff-filter=R", "-l7000", "-z"], old, new, &[])?;
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    // Each is a score, an old and a new name.
    Ok(fields.chunks_exact(3).map(|field| (RepoPath::new(field[1]), RepoPath::new(field[2]))).collect())
}

/// However the user likes their diffs.
const PLAIN: [&str; 6] = ["--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "-r", "-M"];

fn diff_tree(repo: &Repo, form: &[&str], old: TreeId, new: TreeId, paths: &[RepoPath]) -> Result<Vec<u8>, Error> {
    let trees = (old, new);
    let (old, new) = (old.to_string(), new.to_string());
    let args = ["--literal-pathspecs", "diff-tree"].iter().chain(&PLAIN).chain(form).map(OsStr::new);
    let args = args.chain([OsStr::new(&old), OsStr::new(&new), OsStr::new("--")]);
    let args = args.chain(paths.iter().map(|path| OsStr::from_bytes(path.as_bytes())));
    let finished = repo.shared.program.run(repo.git_dir(), args)?;
    if finished.code != Some(0) {
        // What git says of an object that was overwritten is of no help.
        verify::check_difference(repo, trees.0, trees.1)?;
    }
    finished.success()
}

/// What a path that differs takes beside its own length.
const BESIDE: usize = 128;

/// Adds up the lengths of paths, and gives up once there is no room for them.
struct Measure {
    /// What is left, none when there was not enough.
    room: Option<usize>,
    /// The lengths of the path at hand and of those above it.
    lengths: Vec<usize>,
    /// Those of directories that are looked into later.
    tracked: VecDeque<usize>,
}

impl Measure {
    fn length(&self) -> usize {
        self.lengths.last().copied().unwrap_or_default()
    }
}

impl Visit for Measure {
    fn pop_front_tracked_path_and_set_current(&mut self) {
        self.lengths = self.tracked.pop_front().into_iter().collect();
    }

    fn push_back_tracked_path_component(&mut self, component: &BStr) {
        self.push_path_component(component);
        self.tracked.push_back(self.length());
    }

    fn push_path_component(&mut self, component: &BStr) {
        self.lengths.push(self.length().saturating_add(component.len()).saturating_add(1));
    }

    fn pop_path_component(&mut self) {
        self.lengths.pop();
    }

    fn visit(&mut self, _: visit::Change) -> Action {
        self.room = self.room.and_then(|room| room.checked_sub(self.length().saturating_add(BESIDE)));
        if self.room.is_some() { Action::Continue(()) } else { Action::Break(()) }
    }
}

fn change(record: gix::diff::tree::recorder::Change) -> Vec<TreeChange> {
    use gix::diff::tree::recorder::Change as Record;
    let side = |mode: EntryMode, id: gix::ObjectId| (EntryKind::from_gix(mode), BlobId::from_gix(&id));
    let at = |path: gix::bstr::BString, kind| TreeChange { path: RepoPath::new(Vec::from(path)), kind };
    match record {
        // A directory shows up beside the files in it.
        Record::Addition { entry_mode, .. } | Record::Deletion { entry_mode, .. } if entry_mode.is_tree() => Vec::new(),
        Record::Addition { entry_mode, oid, path, .. } => {
            vec![at(path, ChangeKind::Added(EntryKind::from_gix(entry_mode), BlobId::from_gix(&oid)))]
        }
        Record::Deletion { entry_mode, oid, path, .. } => {
            vec![at(path, ChangeKind::Removed(EntryKind::from_gix(entry_mode), BlobId::from_gix(&oid)))]
        }
        Record::Modification { previous_entry_mode, previous_oid, entry_mode, oid, path } => {
            let (old, new) = (side(previous_entry_mode, previous_oid), side(entry_mode, oid));
            match (previous_entry_mode.is_tree(), entry_mode.is_tree()) {
                (true, true) => Vec::new(),
                (true, false) => vec![at(path, ChangeKind::Added(new.0, new.1))],
                (false, true) => vec![at(path, ChangeKind::Removed(old.0, old.1))],
                (false, false) => vec![at(path, ChangeKind::Modified(old, new))],
            }
        }
    }
}

/// `ADDED TAB REMOVED TAB PATH NUL …`, with `-` for binary files.
fn parse_numstat(bytes: &[u8]) -> Vec<FileStat> {
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b'\t');
            let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().ok();
            let (added, removed) = (number(), number());
            let path = RepoPath::new(fields.next()?);
            Some(FileStat { path, lines: added.zip(removed) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_told_apart_by_the_ids_before_them() {
        let [a, b] = ["a".repeat(40), "b".repeat(40)];
        let text = format!("{a} {b}\ndiff --git x x\n+{b} {a}\n{b} {a}\n{b} {b}\ndiff --git y y\n");
        let found = split_patches(&text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[&format!("{a} {b}")], format!("diff --git x x\n+{b} {a}\n"));
        assert_eq!(found[&format!("{b} {a}")], "");
        assert_eq!(found[&format!("{b} {b}")], "diff --git y y\n");
    }

    #[test]
    fn counted_lines_are_read() {
        let stats = parse_numstat(b"1\t2\ta b.rs\0-\t-\tx\ty.bin\0");
        assert_eq!(stats[0], FileStat { path: "a b.rs".into(), lines: Some((1, 2)) });
        assert_eq!(stats[1], FileStat { path: "x\ty.bin".into(), lines: None });
        assert_eq!(stats.len(), 2);
    }
}
