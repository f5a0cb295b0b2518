//! Conflicts as data: what `git merge-tree -z` says about them, by the stages of files and the names of messages. What it
//! says in words is for people alone.

use std::collections::BTreeMap;

use super::id::{BlobId, TreeId};
use super::object::EntryKind;
use pleach_core::event::ConflictKind;
use pleach_core::ids::RepoPath;
use pleach_core::text::named;

/// A merge conflict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("conflict in {}", if paths.is_empty() { details.join("; ") } else { named(paths) })]
pub struct Conflict {
    /// The files in conflict, sorted.
    pub paths: Vec<RepoPath>,
    /// What the conflicts are, a line each, in git's own words.
    pub details: Vec<String>,
    /// What each file is on the three sides.
    pub files: Vec<ConflictedFile>,
    /// The merged files, with conflict markers where the sides disagree.
    pub marked: TreeId,
}

/// A file in conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictedFile {
    /// Its path, where the merged files have it.
    pub path: RepoPath,
    /// How the sides disagree.
    pub kind: ConflictKind,
    /// What both sides started from; none where it was missing.
    pub base: Option<ConflictSide>,
    /// What the side has that is merged into.
    pub ours: Option<ConflictSide>,
    /// What the side has that is merged.
    pub theirs: Option<ConflictSide>,
}

/// What a side has of a file in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictSide {
    /// A file, a program, a link or a submodule.
    pub mode: EntryKind,
    /// Its content.
    pub id: BlobId,
}

/// The merged tree and the conflicts in it:
/// `TREE NUL (MODE SP ID SP STAGE TAB PATH NUL)* NUL (COUNT NUL (PATH NUL)* KIND NUL TEXT NUL)*`; without conflicts and
/// messages only the tree.
pub(super) fn parse(output: &[u8]) -> Option<(TreeId, Conflict)> {
    let mut fields = output.split(|byte| *byte == 0);
    let marked: TreeId = std::str::from_utf8(fields.next()?).ok()?.trim_end().parse().ok()?;
    let mut found: BTreeMap<RepoPath, Stages> = BTreeMap::new();
    for entry in fields.by_ref().take_while(|field| !field.is_empty()) {
        let (path, side, stage) = staged(entry)?;
        *found.entry(path).or_default().sides.get_mut(stage.checked_sub(1)?)? = Some(side);
    }
    let mut details = Vec::new();
    while let Some(count) = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok()) {
        let about: Vec<RepoPath> = fields.by_ref().take(count).map(RepoPath::new).collect();
        let (Some(kind), Some(text)) = (fields.next(), fields.next()) else { break };
        let Some(kind) = kind.strip_prefix(b"CONFLICT") else { continue };
        details.push(String::from_utf8_lossy(text).trim_end().to_owned());
        let kind = MessageKind::read(kind);
        // A directory that was split has no stage of its own.
        if !about.iter().any(|path| found.contains_key(path)) {
            found.extend(about.first().map(|path| (path.clone(), Stages::default())));
        }
        for path in about {
            if let Some(stages) = found.get_mut(&path) {
                stages.message = stages.message.max(Some(kind));
            }
        }
    }
    let files: Vec<ConflictedFile> = found.into_iter().map(|(path, stages)| stages.conflict(path)).collect();
    let paths = files.iter().map(|file| file.path.clone()).collect();
    Some((marked, Conflict { paths, details, files, marked }))
}

/// The path, what is there and the stage of one side of a file.
fn staged(entry: &[u8]) -> Option<(RepoPath, ConflictSide, usize)> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&entry[..tab]).ok()?.split(' ');
    let mode = match words.next()? {
        "100644" | "100664" => EntryKind::File,
        "100755" => EntryKind::Executable,
        "120000" => EntryKind::Link,
        "160000" => EntryKind::Submodule,
        _ => return None,
    };
    let (id, stage) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((RepoPath::new(&entry[tab + 1..]), ConflictSide { mode, id }, stage))
}

/// The conflicts git names, the more telling ones last: a file may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MessageKind {
    Other,
    Submodule,
    Binary,
    ModifyDelete,
    DirectoryRename,
    RenameDelete,
    RenameRename,
    FileDirectory,
    DistinctModes,
}

impl MessageKind {
    fn read(kind: &[u8]) -> Self {
        match String::from_utf8_lossy(kind).trim_matches([' ', '(', ')']) {
            "distinct modes" => Self::DistinctModes,
            "file/directory" => Self::FileDirectory,
            "rename/rename" => Self::RenameRename,
            "rename/delete" => Self::RenameDelete,
            "modify/delete" => Self::ModifyDelete,
            "binary" => Self::Binary,
            kind if kind.contains("directory rename") => Self::DirectoryRename,
            kind if kind.starts_with("submodule") => Self::Submodule,
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
struct Stages {
    sides: [Option<ConflictSide>; 3],
    message: Option<MessageKind>,
}

impl Stages {
    fn conflict(self, path: RepoPath) -> ConflictedFile {
        let kind = self.kind();
        let [base, ours, theirs] = self.sides;
        ConflictedFile { path, kind, base, ours, theirs }
    }

    fn kind(&self) -> ConflictKind {
        match self.message {
            Some(MessageKind::DistinctModes) => ConflictKind::Mode,
            Some(MessageKind::FileDirectory) => ConflictKind::FileDirectory,
            Some(MessageKind::RenameRename) => ConflictKind::RenameRename,
            Some(MessageKind::RenameDelete) => ConflictKind::RenameDelete,
            Some(MessageKind::DirectoryRename) => ConflictKind::DirectoryRename,
            Some(MessageKind::ModifyDelete) => ConflictKind::ModifyDelete,
            Some(MessageKind::Binary) => ConflictKind::Binary,
            Some(MessageKind::Submodule) => ConflictKind::Submodule,
            Some(MessageKind::Other) | None => self.kind_by_sides(),
        }
    }

    /// What the stages alone say.
    fn kind_by_sides(&self) -> ConflictKind {
        let [base, ours, theirs] = self.sides;
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return ConflictKind::ModifyDelete };
        match (ours.mode, theirs.mode) {
            (EntryKind::Submodule, EntryKind::Submodule) => ConflictKind::Submodule,
            _ if ours.id == theirs.id => ConflictKind::Mode,
            _ if base.is_none() => ConflictKind::AddAdd,
            _ => ConflictKind::Content,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn what_merge_tree_prints_is_read() {
        let (tree, conflict) = parse(format!("{ID}\0").as_bytes()).unwrap();
        assert_eq!(tree.to_string(), ID);
        assert_eq!((conflict.paths, conflict.details, conflict.files), (vec![], vec![], vec![]));
        let output = format!(
            "{ID}\x00100644 {ID} 1\tb\nb\x00100644 {ID} 1\ta\x00100755 {ID} 3\ta\0\x001\0a\0Auto-merging\0Auto-merging a\n\x001\0a\0CONFLICT (contents)\0CONFLICT (content): in a\n\x002\0b\nb\0c\0CONFLICT (rename/rename)\0CONFLICT: b\n\0"
        );
        let (_, conflict) = parse(output.as_bytes()).unwrap();
        assert_eq!(conflict.paths, ["a".into(), "b\nb".into()]);
        assert_eq!(conflict.details, ["CONFLICT (content): in a", "CONFLICT: b"]);
        let [a, b] = &conflict.files[..] else { panic!("{conflict:?}") };
        assert_eq!((a.kind, b.kind), (ConflictKind::ModifyDelete, ConflictKind::RenameRename));
        assert_eq!(a.theirs, Some(ConflictSide { mode: EntryKind::Executable, id: ID.parse().unwrap() }));
        assert_eq!((a.base.is_some(), a.ours), (true, None));
        for damaged in [&b""[..], b"fatal", format!("{ID}\x00100644 {ID} 4\ta\0\0").as_bytes()] {
            assert!(parse(damaged).is_none());
        }
    }

    #[test]
    fn the_most_telling_message_of_a_file_counts() {
        let kinds = ["binary", "contents", "modify/delete", "rename/delete"];
        let messages: String = kinds.map(|kind| format!("1\0a\0CONFLICT ({kind})\0words\0")).concat();
        let output = format!("{ID}\x00100644 {ID} 1\ta\0\0{messages}");
        assert_eq!(parse(output.as_bytes()).unwrap().1.files[0].kind, ConflictKind::RenameDelete);
    }

    #[test]
    fn long_lists_are_cut() {
        let paths: Vec<RepoPath> = (0..12).map(|n| RepoPath::new(format!("f{n}"))).collect();
        assert_eq!(named(&paths[..2]), "`f0`, `f1`");
        assert!(named(&paths).ends_with("`f9` and 2 more"));
    }
}
