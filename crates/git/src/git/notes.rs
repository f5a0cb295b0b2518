//! Notes: text beside a commit that does not change it, in a tree on a ref of its own.

use super::error::Error;
use super::id::TreeId;
use super::object::Person;
use super::repo::Repo;
use pleach_core::clock;
use pleach_core::ids::{CommitId, RepoPath};

/// How often notes are written again while others write some.
const TRIES: u32 = 5;

/// The note of a commit, in the tree of a ref of notes. git spreads notes over directories of two letters as they grow more.
pub fn note_of(repo: &Repo, tree: TreeId, commit: CommitId) -> Result<Option<Vec<u8>>, Error> {
    let mut name = commit.to_string();
    for depth in 0..name.len() / 2 {
        if let Some(note) = repo.tree_file(tree, &RepoPath::from(name.as_str()))? {
            return Ok(Some(note));
        }
        name.insert(depth * 3 + 2, '/');
        if repo.tree_entry(tree, &RepoPath::from(&name[..depth * 3 + 2]))?.is_none() {
            break;
        }
    }
    Ok(None)
}

/// Writes notes where commits have none yet, as one commit on the ref of notes, and says how many. git does it, so that the
/// tree is spread as its own notes are.
pub fn add_notes(repo: &Repo, reference: &str, mut notes: Vec<(CommitId, String)>) -> Result<usize, Error> {
    for tries in 1.. {
        let old = repo.refs().find(reference)?;
        if let Some(old) = old {
            let tree = repo.tree_of(old)?;
            let mut missing = Vec::new();
            for note in notes {
                if note_of(repo, tree, note.0)?.is_none() {
                    missing.push(note);
                }
            }
            notes = missing;
        }
        if notes.is_empty() {
            break;
        }
        let stream = stream(reference, old, &notes);
        let written = repo.shared.program.run_with_stdin(repo.git_dir(), ["fast-import", "--quiet"], &stream)?;
        match written.success() {
            // Somebody else has written some meanwhile.
            Err(_) if tries < TRIES && repo.refs().find(reference)? != old => {}
            ended => return ended.map(|_| notes.len()),
        }
    }
    Ok(0)
}

/// What `git fast-import` reads.
fn stream(reference: &str, old: Option<CommitId>, notes: &[(CommitId, String)]) -> Vec<u8> {
    let (Person { name, email }, at) = (Person::pleach(), clock::now().as_second());
    let mut stream = format!("commit {reference}\ncommitter {name} <{email}> {at} +0000\ndata 0\n");
    stream.extend(old.map(|old| format!("from {old}\n")));
    for (commit, note) in notes {
        stream.push_str(&format!("N inline {commit}\ndata {}\n{note}\n", note.len()));
    }
    stream.into_bytes()
}
