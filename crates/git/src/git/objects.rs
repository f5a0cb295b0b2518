//! Reading objects through the library, and checking that their content is what their ids say: whoever may write objects
//! may overwrite those that are there, and neither git nor its library notices when it reads one.

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::Kind;

use super::error::{Error, explain};
use super::id::{TreeId, from_gix};
use pleach_core::ids::RepoPath;

pub(super) fn find_tree(repo: &gix::Repository, tree: TreeId) -> Result<gix::Tree<'_>, Error> {
    let id = tree.to_gix();
    let tree = repo.find_tree(id).map_err(|error| Error::object("tree", &id, explain(&error)))?;
    check(id, Kind::Tree, &tree.data)?;
    Ok(tree)
}

/// Refuses content that does not match the object's id: pleach trusts its records, so they must not be forged.
pub(super) fn check(id: ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
    if is_sound(id, kind, content) { Ok(()) } else { Err(overwritten(id, kind, None)) }
}

pub(super) fn is_sound(id: ObjectId, kind: Kind, content: &[u8]) -> bool {
    gix::objs::compute_hash(id.kind(), kind, content).is_ok_and(|hash| hash == id)
}

pub(super) fn overwritten(id: ObjectId, kind: Kind, path: Option<&BString>) -> Error {
    let place = match (kind, path) {
        (Kind::Blob, Some(path)) => format!("the file `{}`", RepoPath::new(path.to_vec())),
        (Kind::Tree, Some(path)) if !path.is_empty() => format!("the directory `{}`", RepoPath::new(path.to_vec())),
        (Kind::Tree, _) => "the list of files".to_owned(),
        (Kind::Blob, None) => "a file".to_owned(),
        _ => "a commit".to_owned(),
    };
    Error::Overwritten { id: from_gix(&id), place }
}
