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
use super::writer::{CommitSpec, Writer};
use pleach_core::ids::CommitId;

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
    let root = side_commit(&mut writer, base, &[])?;
    let sides = [side_commit(&mut writer, ours, &[root])?, side_commit(&mut writer, theirs, &[root])?];
    writer.flush()?;
    merge_tree(repo, ours, sides)
}

fn side_commit(writer: &mut Writer, tree: TreeId, parents: &[CommitId]) -> Result<CommitId, Error> {
    writer.commit(&CommitSpec {
        tree,
        parents: parents.to_vec(),
        author: Person::pleach(),
        committer: Person::pleach(),
        message: b"side of a merge\n".to_vec(),
        at: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// Merges two commits as `git merge` would, without a commit. Histories without a common ancestor are an error.
pub fn merge_commits(repo: &Repo, ours: CommitId, theirs: CommitId) -> Result<TreeId, MergeError> {
    if let Some(base) = repo.history().merge_base(ours, theirs)? {
        verify::check_merge(repo, repo.tree_of(base)?, [repo.tree_of(ours)?, repo.tree_of(theirs)?])?;
    }
    merge_tree(repo, repo.tree_of(ours)?, [ours, theirs])
}

/// The files that both sides of a merge started from, none where they have nothing in common. Several best common ancestors
/// are merged first, as git does it; what is in conflict among them has markers.
pub fn merge_base_tree(repo: &Repo, ours: CommitId, theirs: CommitId) -> Result<Option<TreeId>, Error> {
    let mut bases = repo.history().merge_bases(ours, theirs)?.into_iter();
    let Some(mut base) = bases.next() else { return Ok(None) };
    let mut writer = repo.clone().with_durability(Durability::None).writer();
    let mut tree = repo.tree_of(base)?;
    for other in bases {
        let merged = match repo.history().merge_base(base, other)? {
            Some(_) => merge_commits(repo, base, other),
            None => {
                let nothing = writer.tree(None, &[])?;
                writer.flush()?;
                merge_trees(repo, nothing, tree, repo.tree_of(other)?)
            }
        };
        tree = match merged {
            Ok(tree) => tree,
            Err(MergeError::Conflict(conflict)) => conflict.marked,
            Err(MergeError::Git(error)) => return Err(error),
        };
        base = side_commit(&mut writer, tree, &[base, other])?;
        writer.flush()?;
    }
    Ok(Some(tree))
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
