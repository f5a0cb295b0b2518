//! What an agent or a person has made of a conflict: which hunks that resolves, and what is to be recorded of it.

use std::collections::BTreeMap;

use super::tiers::TierResult;
use git::{Conflict, ConflictSide, ConflictedFile, EntryKind, Repo, TreeId};
use pleach_core::ids::RepoPath;
use pleach_core::merge::{Resolution, ResolutionSource, ResolvedHunk, TextMerge, Tier, learn};

/// The resolutions that resolved files show, for [`record_resolutions`](super::record_resolutions).
pub fn learn_resolutions(
    repo: &Repo,
    conflict: &Conflict,
    resolved: TreeId,
    source: &ResolutionSource,
) -> Result<Vec<Resolution>, git::Error> {
    let mut learned = Vec::new();
    for file in &conflict.files {
        let Some((merge, text)) = texts(repo, file, resolved)? else { continue };
        let hunks: Vec<_> = merge.conflicts().collect();
        let chosen = learn(&merge, &text);
        for (at, text) in &chosen {
            let hunk = hunks[at - 1];
            // The same lines resolved in two ways say nothing about a third time.
            if !chosen.iter().any(|(other, differs)| hunks[other - 1] == hunk && differs != text) {
                learned.push(Resolution::new(file.path.clone(), hunk, text.clone(), source.clone()));
            }
        }
    }
    Ok(learned)
}

/// What was resolved, for the trailers of the merge commit: each hunk of the files in conflict by itself, the whole file
/// where it has no hunks, or a person changed other lines as well. Hunks that are as the tiers before have left them
/// keep their source. Files that were in no conflict are not among them.
pub fn resolved_hunks(
    repo: &Repo,
    conflict: &Conflict,
    before: &TierResult,
    resolved: TreeId,
    source: Tier,
) -> Result<Vec<ResolvedHunk>, git::Error> {
    let mut named = Vec::new();
    for file in &conflict.files {
        let mut add = |hunk, source| named.push(ResolvedHunk { path: file.path.clone(), hunk, source });
        let earlier = source_of(before, &file.path);
        let entry = |tree| Ok::<_, git::Error>(repo.tree_entry(tree, &file.path)?.map(|entry| (entry.kind, entry.id)));
        if !before.remaining.contains(file) && entry(resolved)? == entry(before.tree)? {
            earlier.into_iter().for_each(|(hunk, source)| add(hunk, source));
            continue;
        }
        let Some((merge, text)) = texts(repo, file, resolved)? else {
            add(0, source);
            continue;
        };
        let chosen = learn(&merge, &text);
        if !merge.is_made_of(&chosen, &text) {
            match source {
                // A person may change the whole file.
                Tier::Person => add(0, source),
                _ => (1..=merge.conflicts().count()).for_each(|hunk| add(hunk, source)),
            }
            continue;
        }
        let was: BTreeMap<usize, Vec<u8>> = match texts(repo, file, before.tree)? {
            Some((merge, text)) => learn(&merge, &text).into_iter().collect(),
            None => BTreeMap::new(),
        };
        for (hunk, text) in chosen {
            let kept = earlier.get(&hunk).filter(|_| was.get(&hunk) == Some(&text));
            add(hunk, kept.copied().unwrap_or(source));
        }
    }
    Ok(named)
}

fn source_of(before: &TierResult, path: &RepoPath) -> BTreeMap<usize, Tier> {
    before.resolved.iter().filter(|hunk| hunk.path == *path).map(|hunk| (hunk.hunk, hunk.source)).collect()
}

/// The merge of a file that has lines on both sides, and what a tree has of it.
fn texts(repo: &Repo, file: &ConflictedFile, tree: TreeId) -> Result<Option<(TextMerge, Vec<u8>)>, git::Error> {
    let is_text = |side: &ConflictSide| matches!(side.mode, EntryKind::File | EntryKind::Executable);
    let (Some(ours), Some(theirs)) = (file.ours.filter(is_text), file.theirs.filter(is_text)) else { return Ok(None) };
    let Some(text) = repo.tree_file(tree, &file.path)?.filter(|_| file.kind.is_of_lines()) else { return Ok(None) };
    let base = file.base.filter(is_text).map(|base| repo.blob(base.id)).transpose()?.unwrap_or_default();
    Ok(Some((TextMerge::lines(&base, &repo.blob(ours.id)?, &repo.blob(theirs.id)?), text)))
}
