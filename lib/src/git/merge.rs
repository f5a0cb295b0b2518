//! Merging without a checkout, by the git program: three trees, or two commits with all their common ancestors.

use std::ffi::OsString;

use super::conflict::{self, Conflict};
use super::durability::Durability;
use super::error::Error;
use super::id::TreeId;
use super::object::Person;
use super::program::GitOutput;
use super::repo::Repo;
use super::verify;
use super::writer::CommitSpec;
use crate::ids::CommitId;

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
    match (finished.code, conflict::parse(&finished.stdout)) {
        (Some(0), Some((tree, _))) => Ok(tree),
        (Some(1), Some((_, conflict))) => Err(conflict.into()),
        _ => Err(finished.failure().into()),
    }
}
