//! Merging without a checkout, by the git program: three trees, or two commits with all their common ancestors.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::durability::Durability;
use super::error::Error;
use super::id::TreeId;
use super::object::Person;
use super::program::GitOutput;
use super::repo::Repo;
use super::verify;
use super::writer::CommitSpec;
use crate::ids::{CommitId, RepoPath};
use crate::text::named;

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
    /// Its path.
    pub path: RepoPath,
    /// git's word for the conflict: `contents`, `modify/delete`, …
    pub kind: String,
    /// What both sides started from, ours and theirs; none where it is missing.
    pub sides: [Option<CommitId>; 3],
}

/// Why there is no merged tree.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The sides conflict.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// git could not merge at all.
    #[error(transparent)]
    Git(#[from] Error),
}

/// Merges the changes from `base` to `theirs` into `ours`. All three must be in the repository, not only in a
/// writer. Attributes, as `merge=union`, are those of `ours`.
pub fn merge_trees(repo: &Repo, base: TreeId, ours: TreeId, theirs: TreeId) -> Result<TreeId, MergeError> {
    if base == theirs || ours == theirs {
        return Ok(ours);
    }
    if base == ours {
        return Ok(theirs);
    }
    verify::check_merge(repo, base, [ours, theirs])?;
    // Naming the base came later than the oldest git that is supported, so it is given as history. Nothing will
    // point at these commits, and after a power cut they are not needed.
    let mut writer = repo.clone().with_durability(Durability::None).writer();
    let mut commit = |tree, parents: &[CommitId]| {
        writer.commit(&CommitSpec {
            tree,
            parents: parents.to_vec(),
            author: Person::pleach(),
            committer: Person::pleach(),
            message: b"side of a merge\n".to_vec(),
            at: jiff::Timestamp::UNIX_EPOCH,
        })
    };
    let root = commit(base, &[])?;
    let sides = [commit(ours, &[root])?, commit(theirs, &[root])?];
    writer.flush()?;
    merge_tree(repo, ours, sides)
}

/// Merges two commits as `git merge` would, without a commit. Histories without a common ancestor are an error.
pub fn merge_commits(repo: &Repo, ours: CommitId, theirs: CommitId) -> Result<TreeId, MergeError> {
    if let Some(base) = repo.history().merge_base(ours, theirs)? {
        verify::check_merge(repo, repo.tree_of(base)?, [repo.tree_of(ours)?, repo.tree_of(theirs)?])?;
    }
    merge_tree(repo, repo.tree_of(ours)?, [ours, theirs])
}

fn merge_tree(repo: &Repo, attributes: TreeId, sides: [CommitId; 2]) -> Result<TreeId, MergeError> {
    // The git directory has no files to take attributes from.
    let mut args: Vec<OsString> = vec!["-c".into(), format!("attr.tree={attributes}").into()];
    if repo.durability == Durability::Fsync {
        args.extend(["-c", "core.fsync=loose-object"].map(OsString::from));
    }
    args.extend(["merge-tree", "--write-tree", "-z"].map(OsString::from));
    args.extend(sides.map(|side| side.to_string().into()));
    let finished = repo.shared.program.run(repo.git_dir(), args)?;
    read_result(finished)
}

/// Exit 0 is a clean merge and 1 a conflict; anything else means that git did not get to merge.
fn read_result(finished: GitOutput) -> Result<TreeId, MergeError> {
    match (finished.code, parse(&finished.stdout)) {
        (Some(0), Some((tree, _))) => Ok(tree),
        (Some(1), Some((_, conflict))) => Err(conflict.into()),
        _ => Err(finished.failure().into()),
    }
}

/// `TREE NUL (MODE SP ID SP STAGE TAB PATH NUL)* NUL (COUNT NUL (PATH NUL)* KIND NUL TEXT NUL)*`; without conflicts and
/// messages only the tree.
fn parse(output: &[u8]) -> Option<(TreeId, Conflict)> {
    let mut fields = output.split(|byte| *byte == 0);
    let marked: TreeId = std::str::from_utf8(fields.next()?).ok()?.trim_end().parse().ok()?;
    let mut files: BTreeMap<RepoPath, ConflictedFile> = BTreeMap::new();
    for entry in fields.by_ref().take_while(|field| !field.is_empty()) {
        let (path, id, stage) = staged(entry)?;
        let kind = "conflict".to_owned();
        let file = files.entry(path.clone()).or_insert(ConflictedFile { path, kind, sides: [None; 3] });
        *file.sides.get_mut(stage.checked_sub(1)?)? = Some(id);
    }
    let mut details = Vec::new();
    while let Some(count) = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok()) {
        let about: Vec<RepoPath> = fields.by_ref().take(count).map(RepoPath::new).collect();
        let (Some(kind), Some(text)) = (fields.next(), fields.next()) else { break };
        let Some(kind) = kind.strip_prefix(b"CONFLICT") else { continue };
        details.push(String::from_utf8_lossy(text).trim_end().to_owned());
        let kind = String::from_utf8_lossy(kind);
        for path in about {
            if let Some(file) = files.get_mut(&path) {
                kind.trim_matches([' ', '(', ')']).clone_into(&mut file.kind);
            }
        }
    }
    let paths = files.keys().cloned().collect();
    Some((marked, Conflict { paths, details, files: files.into_values().collect(), marked }))
}

/// The path, the object and the stage of one side of a file.
fn staged(entry: &[u8]) -> Option<(RepoPath, CommitId, usize)> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&entry[..tab]).ok()?.split(' ').skip(1);
    let (id, stage) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((RepoPath::new(&entry[tab + 1..]), id, stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_merge_tree_prints_is_read() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let (tree, conflict) = parse(format!("{id}\0").as_bytes()).unwrap();
        assert_eq!(tree.to_string(), id);
        assert_eq!((conflict.paths, conflict.details, conflict.files), (vec![], vec![], vec![]));
        let output = format!(
            "{id}\x00100644 {id} 1\tb\nb\x00100644 {id} 1\ta\x00100644 {id} 3\ta\0\x001\0a\0Auto-merging\0Auto-merging a\n\x001\0a\0CONFLICT (contents)\0CONFLICT (content): in a\n\x002\0b\0c\0CONFLICT (rename/rename)\0CONFLICT: b\n\0"
        );
        let (_, conflict) = parse(output.as_bytes()).unwrap();
        assert_eq!(conflict.paths, ["a".into(), "b\nb".into()]);
        assert_eq!(conflict.details, ["CONFLICT (content): in a", "CONFLICT: b"]);
        assert_eq!(conflict.files[0].kind, "contents");
        assert_eq!(conflict.files[0].sides.map(|side| side.is_some()), [true, false, true]);
        assert!(parse(b"").is_none());
        assert!(parse(b"fatal").is_none());
    }

    #[test]
    fn long_lists_are_cut() {
        let paths: Vec<RepoPath> = (0..12).map(|n| RepoPath::new(format!("f{n}"))).collect();
        assert_eq!(named(&paths[..2]), "`f0`, `f1`");
        assert!(named(&paths).ends_with("`f9` and 2 more"));
    }
}
