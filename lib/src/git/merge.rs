//! Merging without a checkout, by the git program: three trees, or two commits with all their common ancestors.

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
    args.extend(["merge-tree", "--write-tree", "-z", "--name-only"].map(OsString::from));
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

/// `TREE NUL (PATH NUL)* NUL (COUNT NUL (PATH NUL)* KIND NUL TEXT NUL)*`; without conflicts and messages only the tree.
fn parse(output: &[u8]) -> Option<(TreeId, Conflict)> {
    let mut fields = output.split(|byte| *byte == 0);
    let tree = std::str::from_utf8(fields.next()?).ok()?.trim_end().parse().ok()?;
    let mut paths: Vec<RepoPath> = fields.by_ref().take_while(|field| !field.is_empty()).map(RepoPath::new).collect();
    paths.sort();
    paths.dedup();
    let mut details = Vec::new();
    while let Some(count) = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok()) {
        let mut fields = fields.by_ref().skip(count);
        let (Some(kind), Some(text)) = (fields.next(), fields.next()) else { break };
        if kind.starts_with(b"CONFLICT") {
            details.push(String::from_utf8_lossy(text).trim_end().to_owned());
        }
    }
    Some((tree, Conflict { paths, details }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_merge_tree_prints_is_read() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let (tree, conflict) = parse(format!("{id}\0").as_bytes()).unwrap();
        assert_eq!(tree.to_string(), id);
        assert_eq!(conflict, Conflict { paths: vec![], details: vec![] });
        let output = format!(
            "{id}\0b\nb\0a\0\x001\0a\0Auto-merging\0Auto-merging a\n\x001\0a\0CONFLICT (contents)\0CONFLICT (content): in a\n\x002\0b\0c\0CONFLICT (rename/rename)\0CONFLICT: b\n\0"
        );
        let (_, conflict) = parse(output.as_bytes()).unwrap();
        assert_eq!(conflict.paths, ["a".into(), "b\nb".into()]);
        assert_eq!(conflict.details, ["CONFLICT (content): in a", "CONFLICT: b"]);
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
