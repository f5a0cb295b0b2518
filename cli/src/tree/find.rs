//! Which file holds the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::tree::Stamp;
use git::Repo;
use pleach_core::ids::RepoPath;
use pleach_core::plan::ad_hoc::{AdHocTask, tree_of};
use pleach_core::plan::tree::TaskTree;
use pleach_core::step::TreeName;

use crate::code::Code;
use crate::failure::Failure;
use crate::lib_errors::of_git;

/// The usual name of a tree's file.
pub const NAME: &str = "task-tree.json";

/// What to do where there is none. A tree is not looked for beside any markdown it may be made of.
pub const HOW_TO_HAVE_ONE: &str =
    "name one with --tree, or make one from markdown with `pleach build --spec-dir DIR -o task-tree.json`";

/// A tree and the file it was read from, or the ad-hoc tasks it was made of.
#[derive(Debug, Clone)]
pub struct TreeFile {
    pub tree: Arc<TaskTree>,
    /// What the file holds.
    pub text: String,
    /// What its steps name: its path from the root of the repository, or its name alone when it is outside.
    pub name: TreeName,
    /// Where it is; nowhere for ad-hoc tasks.
    pub place: Option<PathBuf>,
    /// What it looked like from outside when it was read.
    pub stamp: Option<Stamp>,
    /// Whether the commit at HEAD has it.
    pub tracked: bool,
}

impl TreeFile {
    /// The tree of an ad-hoc task, which has no file.
    pub fn of_task(task: &AdHocTask) -> Result<Self, Failure> {
        let (tree, text) = tree_of(&[task], &[], &BTreeMap::new()).map_err(|errors| {
            let why = errors.first().map(ToString::to_string).unwrap_or_default();
            Failure::new(Code::TreeInvalid, format!("{} cannot be used: {why}", task.id))
        })?;
        Ok(Self { tree: Arc::new(tree), text, name: TreeName::Tasks, place: None, stamp: None, tracked: false })
    }
}

/// Finds and reads the tree: the one asked for, or the one that is where trees usually are.
pub fn find(asked: Option<&Path>, dir: &Path, repo: &Repo) -> Result<TreeFile, Failure> {
    let place = match asked {
        Some(path) => dir.join(path),
        None => search(repo.workdir().ok_or_else(|| {
            let message = format!("`{}` is a bare repository and has no files", repo.git_dir().display());
            Failure::new(Code::NoTree, message).hint("name the file of the tree with --tree")
        })?)?,
    };
    read(&place, repo)
}

/// Reads the tree of a file.
pub fn read(place: &Path, repo: &Repo) -> Result<TreeFile, Failure> {
    let stamp = Stamp::of(place);
    let text = os::plain_file::read(place).map_err(|error| {
        Failure::new(Code::TreeUnreadable, format!("cannot read the tree `{}`", place.display()))
            .because(&error)
            .hint("give the path of a task-tree.json with --tree; `pleach build` makes one from markdown")
    })?;
    let tree = TaskTree::read(&text).map_err(|errors| {
        let listed: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
        let message = format!("`{}` is not a valid task tree:\n{}", place.display(), listed.join("\n"));
        Failure::new(Code::TreeInvalid, message).hint("`pleach help task-trees` shows how a tree is written")
    })?;
    let path = below(place, repo.workdir());
    let path = name_in_commits(&path).map_err(|why| {
        Failure::new(Code::NameInvalid, format!("a commit message cannot hold the path of the tree {path:?}: {why}"))
            .hint("rename the file or its directory")
    })?;
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let head = repo.head().and_then(|head| repo.tree_of(head.commit)).map_err(|error| of_git(&error))?;
    let entry = repo.tree_entry(head, &RepoPath::from(path.as_str())).map_err(|error| of_git(&error))?;
    let (name, tracked) = (TreeName::File(path), entry.is_some());
    Ok(TreeFile { tree: Arc::new(tree), text, name, place: Some(place), stamp, tracked })
}

/// A path as commits name it, or why none can. Every step names its tree, and where what it has done is: under another
/// name it would not be found.
pub fn name_in_commits(path: &Path) -> Result<String, &'static str> {
    let text = path.to_str().ok_or("it is not UTF-8")?;
    if pleach_core::trailer::fits(text) {
        Ok(text.to_owned())
    } else {
        Err("spaces at its ends or in a row, tabs and line breaks get lost")
    }
}

/// The path from the root of the repository, for people; the name alone when the file is elsewhere.
pub fn shown(place: &Path, root: Option<&Path>) -> String {
    below(place, root).display().to_string()
}

fn below(place: &Path, root: Option<&Path>) -> PathBuf {
    let (place, root) = (place.canonicalize().ok(), root.and_then(|root| root.canonicalize().ok()));
    let below = place.as_deref().zip(root.as_deref()).and_then(|(place, root)| place.strip_prefix(root).ok());
    let path = below.or_else(|| place.as_deref()?.file_name().map(Path::new));
    path.unwrap_or(Path::new(NAME)).to_owned()
}

/// The files that lie where trees usually are: the one at the root alone, or all of the others.
pub fn usual(root: &Path) -> Vec<PathBuf> {
    let usual = root.join(NAME);
    if usual.is_file() {
        return vec![usual];
    }
    let below = ["openspec/changes", "specs"].iter().filter_map(|dir| fs::read_dir(root.join(dir)).ok()).flatten();
    // A tree that is built from all specs is beside them.
    let places = below.filter_map(|entry| Some(entry.ok()?.path())).chain([root.join("specs")]);
    let mut found: Vec<PathBuf> = places.map(|dir| dir.join(NAME)).filter(|path| path.is_file()).collect();
    found.sort();
    found
}

fn search(root: &Path) -> Result<PathBuf, Failure> {
    let mut found = usual(root);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let failure = Failure::new(Code::NoTree, format!("there is no {NAME} in `{}`", root.display()));
            Err(match beside(root) {
                Some(tree) => failure.hint(format!("there is `{}`: name it with --tree", tree.display())),
                None => failure.hint(HOW_TO_HAVE_ONE),
            })
        }
        _ => {
            let listed: Vec<String> =
                found.iter().map(|path| format!("  {}", path.strip_prefix(root).unwrap_or(path).display())).collect();
            let message = format!("there are several trees; which one?\n{}", listed.join("\n"));
            Err(Failure::new(Code::TreeAmbiguous, message).hint("name one with --tree"))
        }
    }
}

/// A tree beside the markdown it was made of, which may be in any directory: it need not be meant to be worked.
fn beside(root: &Path) -> Option<PathBuf> {
    let mut directories: Vec<PathBuf> = fs::read_dir(root).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    directories.sort();
    directories.into_iter().map(|directory| directory.join(NAME)).find(|tree| tree.is_file())
}
