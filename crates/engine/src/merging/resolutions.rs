//! Recorded resolutions: one ref for the repository, whose tree has a file per resolved hunk. Whoever fetches it has them.

use std::collections::BTreeMap;

use git::diff::ChangeKind;
use git::{CommitSpec, EntryKind, Person, Repo, SwapError, TreeEdit, TreeId, Writer, checksum};
use pleach_core::clock;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::{ConflictHunk, Resolution};

/// The ref.
pub const RESOLUTIONS: &str = "refs/pleach/resolutions";

/// How often other processes may be first.
const TRIES: u32 = 100;

/// The resolutions a repository has. They are read one by one, as they are asked for.
#[derive(Debug, Clone, Default)]
pub struct RecordedResolutions {
    tree: Option<TreeId>,
    remembered: BTreeMap<RepoPath, Resolution>,
}

impl RecordedResolutions {
    /// Those that are recorded now.
    pub fn load(repo: &Repo) -> Result<Self, git::Error> {
        let tip = repo.refs().find(RESOLUTIONS)?;
        Ok(Self { tree: tip.map(|tip| repo.tree_of(tip)).transpose()?, remembered: BTreeMap::new() })
    }

    /// Adds one without recording it.
    pub fn remember(&mut self, resolution: Resolution) {
        let Some(place) = place(&resolution.identity()) else { return };
        let known = match self.remembered.remove(&place) {
            Some(known) => known.resolved_again(resolution),
            None => resolution,
        };
        self.remembered.insert(place, known);
    }

    /// The text that was chosen for a hunk of a file.
    pub fn find(&self, repo: &Repo, path: &RepoPath, hunk: &ConflictHunk) -> Result<Option<Vec<u8>>, git::Error> {
        let Some(place) = place(&Resolution::identity_of(path, hunk)) else { return Ok(None) };
        let text = |found: &Resolution| found.text_for(path, hunk).map(<[u8]>::to_vec);
        match (self.remembered.get(&place), self.tree) {
            (Some(found), _) => Ok(text(found)),
            (None, Some(tree)) => Ok(read(repo, tree, &place)?.as_ref().and_then(text)),
            (None, None) => Ok(None),
        }
    }
}

/// Records resolutions beside those that are there. Several processes may do so at the same time.
pub fn record_resolutions(repo: &Repo, resolutions: &[Resolution]) -> Result<(), git::Error> {
    if resolutions.is_empty() {
        return Ok(());
    }
    update(repo, "pleach: record resolutions", |tip, writer| {
        let tree = tip.map(|tip| repo.tree_of(tip)).transpose()?;
        let mut known = BTreeMap::new();
        for resolution in resolutions {
            let Some(place) = place(&resolution.identity()) else { continue };
            let earlier = match known.remove(&place) {
                Some(earlier) => Some(earlier),
                None => tree.map(|tree| read(repo, tree, &place)).transpose()?.flatten(),
            };
            let newer = match earlier {
                Some(earlier) => earlier.resolved_again(resolution.clone()),
                None => resolution.clone(),
            };
            known.insert(place, newer);
        }
        let merged = put(writer, tree, known)?;
        commit(writer, merged, tip.into_iter().collect()).map(Some)
    })
}

/// Adds those that somebody else has recorded, by the commit their ref was fetched at.
pub fn merge_resolutions(repo: &Repo, theirs: CommitId) -> Result<(), git::Error> {
    update(repo, "pleach: merge resolutions", |tip, writer| {
        let Some(tip) = tip else { return Ok(Some(theirs)) };
        if repo.history().is_ancestor(theirs, tip)? {
            return Ok(None);
        }
        if repo.history().is_ancestor(tip, theirs)? {
            return Ok(Some(theirs));
        }
        let (our_tree, their_tree) = (repo.tree_of(tip)?, repo.tree_of(theirs)?);
        let mut taken = BTreeMap::new();
        let mut edits = Vec::new();
        for change in git::diff::changes(repo, our_tree, their_tree)? {
            match change.kind {
                ChangeKind::Added(kind, blob) => edits.push(TreeEdit::Put(change.path, kind, blob)),
                ChangeKind::Removed(..) => {}
                ChangeKind::Modified(..) => {
                    let both = (read(repo, our_tree, &change.path)?, read(repo, their_tree, &change.path)?);
                    // One that cannot be read is of a newer pleach, or damaged: ours stays.
                    if let (Some(ours), Some(theirs)) = both {
                        taken.insert(change.path, ours.united(theirs));
                    }
                }
            }
        }
        let tree = writer.tree(Some(our_tree), &edits)?;
        let tree = put(writer, Some(tree), taken)?;
        commit(writer, tree, vec![tip, theirs]).map(Some)
    })
}

/// Moves the ref to what `build` makes of where it is; again if somebody else was first. None: it stays.
fn update(
    repo: &Repo,
    why: &str,
    build: impl Fn(Option<CommitId>, &mut Writer) -> Result<Option<CommitId>, git::Error>,
) -> Result<(), git::Error> {
    let mut tries = TRIES;
    loop {
        let tip = repo.refs().find(RESOLUTIONS)?;
        let mut writer = repo.writer();
        let Some(commit) = build(tip, &mut writer)? else { return Ok(()) };
        writer.flush()?;
        tries -= 1;
        match repo.refs().swap(RESOLUTIONS, tip, commit, why) {
            Ok(()) => return Ok(()),
            Err(SwapError::Stale { .. }) if tries > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn put(
    writer: &mut Writer,
    tree: Option<TreeId>,
    resolutions: BTreeMap<RepoPath, Resolution>,
) -> Result<TreeId, git::Error> {
    let mut edits = Vec::new();
    for (place, resolution) in resolutions {
        edits.push(TreeEdit::Put(place, EntryKind::File, writer.blob(resolution.to_json().as_bytes())?));
    }
    writer.tree(tree, &edits)
}

fn commit(writer: &mut Writer, tree: TreeId, parents: Vec<CommitId>) -> Result<CommitId, git::Error> {
    let (author, committer) = (Person::pleach(), Person::pleach());
    let message = b"recorded resolutions\n".to_vec();
    writer.commit(&CommitSpec { tree, parents, author, committer, message, at: clock::now() })
}

fn read(repo: &Repo, tree: TreeId, place: &RepoPath) -> Result<Option<Resolution>, git::Error> {
    Ok(repo.tree_file(tree, place)?.and_then(|text| Resolution::from_json(&text)))
}

/// The file of a resolution. None for what is made to have the hash of another.
fn place(identity: &[u8]) -> Option<RepoPath> {
    let id = checksum(identity).ok()?;
    Some(format!("{}/{}.json", &id[..2], &id[2..]).as_str().into())
}
