//! What `.gitattributes` files say of paths.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::error::Error;
use super::id::TreeId;
use super::repo::Repo;
use pleach_core::ids::RepoPath;

/// The value of an attribute of paths, as a tree has them: `unspecified`, `set`, `unset` or what it was set to.
pub fn attribute(
    repo: &Repo,
    tree: TreeId,
    name: &str,
    paths: &BTreeSet<&RepoPath>,
) -> Result<Vec<(RepoPath, Vec<u8>)>, Error> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    // Attributes are only told where there are files, and the tree has them all.
    let setting = format!("attr.tree={tree}");
    let args = ["--git-dir=.", "--work-tree=.", "-c", &setting, "check-attr", "-z", "--stdin", name];
    let stdin: Vec<u8> = paths.iter().flat_map(|path| path.as_bytes().iter().copied().chain([0])).collect();
    let output = repo.shared.program.run_with_stdin(repo.git_dir(), args.map(OsString::from), &stdin)?.success()?;
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
    Ok(fields.chunks_exact(3).map(|field| (RepoPath::new(field[0]), field[2].to_vec())).collect())
}
