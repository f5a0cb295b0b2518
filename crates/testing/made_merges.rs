//! Merges that tests make, and every wrong result of one.

use std::collections::BTreeMap;

use git::{
    BlobId, Durability, EntryKind, LossyMerge, MergeCheckError, MergeError, Repo, TreeEdit, TreeId, check_merge_result,
};
use pleach_core::merge::LossExemptions;
use proptest::prelude::*;

use crate::git_sandbox::Sandbox;

/// Paths, and what is there.
pub type Files = BTreeMap<String, (EntryKind, Vec<u8>)>;

pub fn files(texts: &[(&str, &str)]) -> Files {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (EntryKind::File, text.as_bytes().to_vec()))).collect()
}

/// An empty repository with settings.
pub fn repository(settings: &[(&str, &str)]) -> (Sandbox, Repo) {
    let sandbox = Sandbox::empty();
    sandbox.git(".", &["init", "-q", "-b", "main", "repo"]);
    sandbox.commit("repo", "start");
    for (key, value) in settings {
        sandbox.git("repo", &["config", key, value]);
    }
    let repo = sandbox.open("repo").with_durability(Durability::None);
    (sandbox, repo)
}

pub fn write(repo: &Repo, files: &Files) -> TreeId {
    let mut writer = repo.writer();
    let edits: Vec<TreeEdit> = files
        .iter()
        .map(|(path, (kind, content))| {
            let id = match kind {
                EntryKind::Submodule => BlobId::from_bytes(content.as_slice().try_into().unwrap()),
                _ => writer.blob(content).unwrap(),
            };
            TreeEdit::Put(path.as_str().into(), *kind, id)
        })
        .collect();
    let tree = writer.tree(None, &edits).unwrap();
    writer.flush().unwrap();
    tree
}

/// Three trees, and what git makes of them.
pub struct Merge<'a> {
    repo: &'a Repo,
    sides: [Files; 3],
    pub trees: [TreeId; 3],
    pub merged: TreeId,
}

impl<'a> Merge<'a> {
    /// None where they conflict.
    pub fn try_new(repo: &'a Repo, sides: [Files; 3]) -> Option<Self> {
        let trees = sides.each_ref().map(|files| write(repo, files));
        let [base, ours, theirs] = trees;
        match git::merge::merge_trees(repo, base, ours, theirs) {
            Ok(merged) => Some(Self { repo, sides, trees, merged }),
            Err(MergeError::Conflict(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn new(repo: &'a Repo, sides: [Files; 3]) -> Self {
        Self::try_new(repo, sides).expect("a merge without conflicts")
    }

    /// What is wrong with a result, a line each.
    pub fn findings(&self, merged: TreeId) -> Vec<String> {
        let [base, ours, theirs] = self.trees;
        match check_merge_result(self.repo, base, ours, theirs, merged, &LossExemptions::default()) {
            Ok(_) => Vec::new(),
            Err(MergeCheckError::Loss(LossyMerge { findings })) => findings.iter().map(ToString::to_string).collect(),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn findings_of(&self, edit: impl FnOnce(&mut Files)) -> Vec<String> {
        let mut files = self.merged();
        edit(&mut files);
        self.findings(write(self.repo, &files))
    }

    /// The files of the result.
    pub fn merged(&self) -> Files {
        let mut files = Files::new();
        let mut open = vec![(String::new(), self.merged)];
        while let Some((prefix, tree)) = open.pop() {
            for entry in self.repo.tree_entries(tree).unwrap() {
                let path = format!("{prefix}{}", entry.path);
                let content = match entry.kind {
                    EntryKind::Directory => {
                        open.push((format!("{path}/"), TreeId::from_bytes(*entry.id.as_bytes())));
                        continue;
                    }
                    EntryKind::Submodule => entry.id.as_bytes().to_vec(),
                    _ => self.repo.blob(entry.id).unwrap(),
                };
                files.insert(path, (entry.kind, content));
            }
        }
        files
    }

    /// Every wrong result: each of the trees instead of it, each file of it as another tree has it, or not at all.
    pub fn mutants(&self) -> Vec<(String, Files)> {
        let merged = self.merged();
        let mut mutants: Vec<(String, Files)> = self.sides.iter().map(|side| ("a tree".into(), side.clone())).collect();
        for path in self.sides.iter().flat_map(BTreeMap::keys).chain(merged.keys()) {
            let others = self.sides.iter().map(|side| side.get(path)).chain([None]);
            mutants.extend(others.map(|entry| {
                let mut files = merged.clone();
                match entry {
                    Some(entry) => drop(files.insert(path.clone(), entry.clone())),
                    None => drop(files.remove(path)),
                }
                (path.clone(), files)
            }));
        }
        mutants.retain(|(_, files)| *files != merged);
        mutants.sort();
        mutants.dedup();
        mutants
    }
}

/// What happens to one file: to which of its lines on which side, and whether a side renames or removes it.
#[derive(Debug, Clone)]
pub struct FileFate {
    /// A place, whether theirs is the side, and what it does there: 0 replaces, 1 adds, 2 removes.
    pub edits: Vec<(usize, bool, u8)>,
    /// 0 and 1: ours or theirs renames it; 2 and 3: ours or theirs removes it.
    pub whole: Option<u8>,
}

const LINES: usize = 30;

pub fn fates() -> impl Strategy<Value = Vec<FileFate>> {
    let edit = (0..LINES / 3, any::<bool>(), 0..3u8);
    let fate = (proptest::collection::vec(edit, 0..5), proptest::option::weighted(0.5, 0..4u8));
    proptest::collection::vec(fate.prop_map(|(edits, whole)| FileFate { edits, whole }), 1..4)
}

pub fn sides(fates: &[FileFate]) -> [Files; 3] {
    let mut sides = [const { Files::new() }; 3];
    for (number, fate) in fates.iter().enumerate() {
        let base: Vec<String> = (0..LINES).map(|line| format!("{number}: {line}\n")).collect();
        let mut texts = [base.clone(), base.clone(), base];
        for (place, is_theirs, what) in &fate.edits {
            // No two places touch each other, so only what both sides did to one is a conflict.
            let (line, side) = (place * 3, 1 + usize::from(*is_theirs));
            texts[side][line] = match what {
                0 => format!("{number}: {side} instead of {line}\n"),
                1 => format!("{number}: {line}\n{number}: {side} behind {line}\n"),
                _ => String::new(),
            };
        }
        for (side, text) in texts.iter().enumerate() {
            let name = match fate.whole {
                Some(renamed) if usize::from(renamed) + 1 == side => format!("moved/{number}"),
                Some(removed) if usize::from(removed) == side + 1 => continue,
                _ => format!("f{number}"),
            };
            sides[side].insert(name, (EntryKind::File, text.concat().into_bytes()));
        }
    }
    sides
}

pub fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 4, failure_persistence: None, ..usual }
}
