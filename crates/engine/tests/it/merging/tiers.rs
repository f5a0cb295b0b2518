//! Conflicts of the git program are resolved without an agent as far as that goes, and what is left is marked.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::merging::{
    DerivedRun, StructuralMerge, TierOptions, TierResult, learn_resolutions, record_resolutions, resolve_conflict,
    resolved_hunks,
};
use git::{Conflict, ConflictSide, ConflictedFile, EntryKind, MergeError, Repo, TreeId};
use pleach_core::config::{DerivedFiles, DerivedRules, Environment, Structural};
use pleach_core::event::ConflictKind;
use pleach_core::merge::{ConflictLabels, ResolutionSource, ResolvedHunk, Tier};

use super::Sandbox;
use crate::made_merges::{Files, files, repository, write};

/// Three trees that conflict, and what git says about it.
pub(super) struct Conflicted<'a> {
    pub repo: &'a Repo,
    pub trees: [TreeId; 3],
    pub conflict: Conflict,
}

impl<'a> Conflicted<'a> {
    pub fn new(repo: &'a Repo, sides: [Files; 3]) -> Self {
        let trees = sides.each_ref().map(|files| write(repo, files));
        let [base, ours, theirs] = trees;
        match git::merge::merge_trees(repo, base, ours, theirs) {
            Err(MergeError::Conflict(conflict)) => Self { repo, trees, conflict },
            other => panic!("{other:?}"),
        }
    }

    /// One file `f.rs` of these texts.
    pub fn of(repo: &'a Repo, texts: [&str; 3]) -> Self {
        Self::new(repo, texts.map(|text| files(&[("f.rs", text)])))
    }

    pub fn resolve(&self, options: &TierOptions) -> TierResult {
        let [base, ours, theirs] = self.trees;
        resolve_conflict(self.repo, base, ours, theirs, &self.conflict, options).unwrap()
    }

    pub fn text(&self, tree: TreeId) -> String {
        String::from_utf8(self.repo.tree_file(tree, &"f.rs".into()).unwrap().unwrap()).unwrap()
    }

    /// Records what a person has made of `f.rs`.
    pub fn record(&self, text: &str) {
        let learned = learn_resolutions(self.repo, &self.conflict, self.tree(text), &person()).unwrap();
        record_resolutions(self.repo, &learned).unwrap();
    }

    fn tree(&self, text: &str) -> TreeId {
        write(self.repo, &files(&[("f.rs", text)]))
    }
}

pub(super) fn person() -> ResolutionSource {
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    ResolutionSource { tier: Tier::Person, by: "me".into(), commit: None, at }
}

/// Hunks as `path#hunk=source`.
pub(super) fn shown(hunks: &[ResolvedHunk]) -> Vec<String> {
    hunks.iter().map(|hunk| format!("{}#{}={}", hunk.path, hunk.hunk, hunk.source)).collect()
}

/// A call that one side renames while the other gives it an argument, and a number both change.
const TEXTS: [&str; 3] = [
    "call(a);\nkeep\nkeep too\nn = 1\nend\n",
    "call(a, b);\nkeep\nkeep too\nn = 2\nend\n",
    "invoke(a);\nkeep\nkeep too\nn = 3\nend\n",
];

#[test]
fn words_are_merged_and_the_rest_is_marked() {
    let (_sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    let labels = ConflictLabels { ours: "main".into(), base: "before".into(), theirs: "task".into() };
    let result = merge.resolve(&TierOptions { labels, ..TierOptions::default() });
    let expected = "invoke(a, b);\nkeep\nkeep too\n\
        <<<<<<< main\nn = 2\n||||||| before\nn = 1\n=======\nn = 3\n>>>>>>> task\nend\n";
    assert_eq!(merge.text(result.tree), expected);
    assert_eq!((result.tier, shown(&result.resolved)), (Tier::Tokens, vec!["f.rs#1=tokens".to_owned()]));
    assert_eq!((result.remaining, result.derived), (merge.conflict.files.clone(), vec![]));
}

#[test]
fn a_limit_leaves_higher_tiers_out() {
    let (_sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    merge.record("invoke(a, b);\nkeep\nkeep too\nn = 5\nend\n");
    let with = |limit| merge.resolve(&TierOptions { limit, ..TierOptions::default() });
    let marked = with(Tier::Clean);
    assert_eq!((marked.tier, marked.resolved.len(), marked.remaining.len()), (Tier::Clean, 0, 1));
    assert_eq!(merge.text(marked.tree).matches("\n||||||| base\n").count(), 2);
    let recorded = with(Tier::Recorded);
    assert_eq!(shown(&recorded.resolved), ["f.rs#1=recorded", "f.rs#2=recorded"]);
    assert_eq!((recorded.tier, recorded.remaining.len()), (Tier::Recorded, 0));
}

#[test]
fn modes_of_merged_files_are_kept() {
    let (_sandbox, repo) = repository(&[]);
    let sides = ["call(a);\n", "call(a, b);\n", "invoke(a);\n"].map(|text| files(&[("f.rs", text)]));
    let [base, mut ours, theirs] = sides;
    ours.get_mut("f.rs").unwrap().0 = EntryKind::Executable;
    let merge = Conflicted::new(&repo, [base, ours, theirs]);
    let result = merge.resolve(&TierOptions::default());
    let entry = repo.tree_entry(result.tree, &"f.rs".into()).unwrap().unwrap();
    assert_eq!((entry.kind, merge.text(result.tree)), (EntryKind::Executable, "invoke(a, b);\n".to_owned()));
    assert_eq!(result.remaining, []);
}

#[test]
fn other_kinds_of_conflicts_are_left_as_git_has_them() {
    let (_sandbox, repo) = repository(&[]);
    let text = (0..20).map(|line| format!("line {line}\n")).collect::<String>();
    let [ours_text, theirs_text] = ["ours", "theirs"].map(|side| text.replace("line 5\n", side));
    let mut base = files(&[("deleted", &text), ("renamed", &text.replace("line", "word")), ("type", &text)]);
    base.insert("picture".into(), (EntryKind::File, b"\0base".to_vec()));
    base.insert("module".into(), (EntryKind::Submodule, vec![1; 20]));
    let mut ours = base.clone();
    let mut theirs = base.clone();
    ours.insert("deleted".into(), (EntryKind::File, ours_text.clone().into_bytes()));
    theirs.remove("deleted");
    for (side, name) in [(&mut ours, "one"), (&mut theirs, "other")] {
        let entry = side.remove("renamed").unwrap();
        side.insert(name.into(), entry);
        side.insert("picture".into(), (EntryKind::File, [b"\0", name.as_bytes()].concat()));
        side.insert("module".into(), (EntryKind::Submodule, vec![name.as_bytes()[2]; 20]));
    }
    ours.insert("type".into(), (EntryKind::Link, b"one".to_vec()));
    theirs.insert("type".into(), (EntryKind::File, theirs_text.into_bytes()));
    let merge = Conflicted::new(&repo, [base, ours, theirs]);
    let result = merge.resolve(&TierOptions::default());
    assert_eq!(result.remaining, merge.conflict.files);
    assert_eq!((result.tree, result.tier), (merge.conflict.marked, Tier::Clean));
    let kinds: std::collections::BTreeSet<_> = result.remaining.iter().map(|file| file.kind).collect();
    use ConflictKind::{Binary, Mode, ModifyDelete, RenameRename, Submodule};
    assert_eq!(kinds, [ModifyDelete, RenameRename, Binary, Submodule, Mode].into());
}

#[test]
fn what_both_sides_made_the_same_is_taken() {
    let (_sandbox, repo) = repository(&[]);
    let [base, both] = ["1\n", "2\n"].map(|text| write(&repo, &files(&[("f.rs", text)])));
    let entry = repo.tree_entry(both, &"f.rs".into()).unwrap().unwrap();
    let side = Some(ConflictSide { mode: entry.kind, id: entry.id });
    let file = ConflictedFile {
        path: "f.rs".into(),
        kind: ConflictKind::DirectoryRename,
        base: None,
        ours: side,
        theirs: side,
    };
    let conflict = Conflict { paths: vec!["f.rs".into()], details: vec![], files: vec![file], marked: base };
    let result = resolve_conflict(&repo, base, both, both, &conflict, &TierOptions::default()).unwrap();
    assert_eq!((result.tree, result.tier, result.remaining), (both, Tier::Clean, vec![]));
}

#[test]
fn derived_files_are_the_targets_until_their_command_runs() {
    let (_sandbox, repo) = repository(&[]);
    let side = |text: &str| files(&[("Cargo.lock", text), ("a.snap", text), ("b.snap", text), ("other", text)]);
    let [base, ours, mut theirs] = ["1\n", "ours\n", "theirs\n"].map(side);
    theirs.remove("a.snap");
    let mut ours = ours;
    ours.remove("b.snap");
    let merge = Conflicted::new(&repo, [base, ours, theirs]);
    let rule = |paths: &[&str], command: &str| DerivedFiles {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        command: command.into(),
    };
    let derived = DerivedRules::new(&[rule(&["*.lock"], "cargo update"), rule(&["*.snap"], "accept")]).unwrap();
    let options = TierOptions { derived, ..TierOptions::default() };
    let result = merge.resolve(&options);
    let file = |path: &str| repo.tree_file(result.tree, &path.into()).unwrap();
    assert_eq!((file("Cargo.lock"), file("a.snap")), (Some(b"ours\n".to_vec()), Some(b"ours\n".to_vec())));
    assert_eq!(file("b.snap"), None, "the target has none");
    let run = |command: &str, paths: &[&str]| DerivedRun {
        paths: paths.iter().map(|path| (*path).into()).collect(),
        command: command.into(),
    };
    assert_eq!(result.derived, [run("cargo update", &["Cargo.lock"]), run("accept", &["a.snap", "b.snap"])]);
    assert_eq!(shown(&result.resolved), ["Cargo.lock#0=derived", "a.snap#0=derived", "b.snap#0=derived"]);
    assert_eq!((result.tier, result.remaining.len()), (Tier::Derived, 1));
    let without = merge.resolve(&TierOptions { limit: Tier::Structural, ..options });
    assert_eq!((without.derived, without.remaining.len()), (vec![], 4));
}

/// The options with a program `mergiraf` that is this script.
fn with_program(sandbox: &Sandbox, script: &str) -> TierOptions {
    std::fs::create_dir_all(sandbox.path("bin")).unwrap();
    sandbox.write_program("bin/mergiraf", format!("#!/bin/sh\n{script}\n"));
    with_path(sandbox, &sandbox.path("bin"))
}

fn with_path(sandbox: &Sandbox, bin: &Path) -> TierOptions {
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let environment = Environment::from_pairs([("PATH", path)]);
    let structural = StructuralMerge::find(Structural::Auto, &environment, &sandbox.path("state"));
    TierOptions { structural, ..TierOptions::default() }
}

/// What is left of these by words can be merged by structure.
const CALLS: [&str; 3] = [
    "call(a);\nkeep\nkeep too\nf(n)\nend\n",
    "call(a, b);\nkeep\nkeep too\nf(n, o)\nend\n",
    "invoke(a);\nkeep\nkeep too\nf(n, t)\nend\n",
];

#[test]
fn the_rest_is_merged_by_structure() {
    let (sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, CALLS);
    let script = "test \"$1 $2 $6 $7\" = 'merge --git -p f.rs' && grep -q 'f(n)' \"$3\" && grep -q 'f(n, t)' \"$5\" || exit 9\n\
        grep -l 'invoke(a, b)' \"$3\" \"$4\" \"$5\" | grep -c . | grep -qx 3 || exit 9\n\
        case \"$4\" in *.rs) sed -i 's/f(n, o)/f(n, o, t)/' \"$4\";; esac";
    let result = merge.resolve(&with_program(&sandbox, script));
    assert_eq!(merge.text(result.tree), "invoke(a, b);\nkeep\nkeep too\nf(n, o, t)\nend\n", "words are merged before");
    assert_eq!(shown(&result.resolved), ["f.rs#1=tokens", "f.rs#2=structural"]);
    assert_eq!((result.tier, result.remaining.len()), (Tier::Structural, 0));
    assert!(result.spent.contains_key(&Tier::Structural));
    assert_eq!(std::fs::read_dir(sandbox.path("state/scratch")).unwrap().count(), 0, "temporary files are gone");
}

/// Ours adds lines to a function that theirs moves to the end.
const MOVED: [&str; 3] = [
    "fn a {\none\n}\n\nfn b {\ntwo\n}\n\nfn c {\nthree\n}\n",
    "fn a {\none\nnew\nnewer\n}\n\nfn b {\ntwo\n}\n\nfn c {\nthree\n}\n",
    "fn b {\ntwo\n}\n\nfn c {\nthree\n}\n\nfn a {\none\n}\n",
];

#[test]
fn a_structural_result_is_the_whole_file_or_nothing() {
    let (sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, MOVED);
    let with = |text: &str| {
        sandbox.write("merged", text);
        merge.resolve(&with_program(&sandbox, &format!("cp '{}' \"$4\"", sandbox.path("merged").display())))
    };
    let whole = "fn b {\ntwo\n}\n\nfn c {\nthree\n}\n\nfn a {\none\nnew\nnewer\n}\n";
    let result = with(whole);
    assert_eq!((merge.text(result.tree).as_str(), result.remaining.len()), (whole, 0), "with what it has moved");
    assert_eq!(shown(&result.resolved), ["f.rs#0=structural"]);
    let less = whole.replace("newer\n", "");
    for lossy in [&less, MOVED[2], &whole.replace("two\n", "")] {
        let result = with(lossy);
        assert_eq!((shown(&result.resolved), result.remaining.len()), (vec![], 1), "{lossy}");
    }
    // One that changes nothing but the hunks is no better if a word of a side is gone.
    let merge = Conflicted::of(&repo, CALLS);
    let result = merge.resolve(&with_program(&sandbox, "sed -i 's/f(n, o)/f(n, t)/' \"$4\""));
    assert_eq!((shown(&result.resolved), result.remaining.len()), (vec!["f.rs#1=tokens".to_owned()], 1));
}

#[test]
fn files_that_programs_write_are_not_merged_by_text() {
    let (sandbox, repo) = repository(&[]);
    let program = "case \"$7\" in words.txt) exit 1;; esac; printf merged > \"$4\"";
    let options = with_program(&sandbox, program);
    let head = "// Code generated. DO NOT EDIT.\n\n\n";
    let side = |line: &str| {
        let marked = format!("{head}{line}");
        let paths = ["a.lock", "a.jsonl", "made/a.txt", "words.txt"].map(|path| (path, line));
        let attributes = [(".gitattributes", "made/* linguist-generated\n"), ("a.go", &*marked)];
        files(&paths.into_iter().chain(attributes).collect::<Vec<_>>())
    };
    let merge = Conflicted::new(&repo, ["call(a)\n", "call(a, b)\n", "invoke(a)\n"].map(side));
    let result = merge.resolve(&options);
    assert_eq!(shown(&result.resolved), ["words.txt#1=tokens"]);
    let left: Vec<String> = result.remaining.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(left, ["a.go", "a.jsonl", "a.lock", "made/a.txt"]);
}

#[test]
fn a_program_that_does_not_merge_is_passed_over() {
    let (sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    let expected = merge.resolve(&TierOptions::default());
    let marked = "printf '<<<<<<< a\\n=======\\n>>>>>>> b\\n' > \"$4\"";
    for script in ["exit 1", "kill -9 $$", "exit 0", marked, "printf x > \"$4\"; exit 3", "rm \"$4\""] {
        let result = merge.resolve(&with_program(&sandbox, script));
        assert_eq!((result.tree, result.resolved), (expected.tree, expected.resolved.clone()), "{script}");
    }
    let nowhere = with_path(&sandbox, &sandbox.path("nowhere"));
    assert!(nowhere.structural.is_none());
    let off = StructuralMerge::find(Structural::Off, &sandbox.environment(), &sandbox.path("state"));
    assert!(off.is_none());
    // It is there when it is looked for, and not when it is started.
    let gone = with_program(&sandbox, "exit 0");
    std::fs::remove_file(sandbox.path("bin/mergiraf")).unwrap();
    assert_eq!(merge.resolve(&gone).tree, expected.tree);
}

#[test]
fn a_program_that_hangs_is_stopped() {
    let (sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    let begun = Instant::now();
    let result = merge.resolve(&with_program(&sandbox, "sleep 600 & wait"));
    assert_eq!(result.remaining.len(), 1);
    let took = begun.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(60)).contains(&took), "{took:?}");
}

#[test]
fn what_others_resolved_is_named_by_hunk() {
    let (_sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    let before = merge.resolve(&TierOptions::default());
    let named = |text: &str| {
        let tree = merge.tree(text);
        shown(&resolved_hunks(&repo, &merge.conflict, &before, tree, Tier::Agent).unwrap())
    };
    assert_eq!(named("invoke(a, b);\nkeep\nkeep too\nn = 5\nend\n"), ["f.rs#1=tokens", "f.rs#2=agent"]);
    assert_eq!(named("call(a);\nkeep\nkeep too\nn = 5\nend\n"), ["f.rs#1=agent", "f.rs#2=agent"]);
    let beside = "invoke(a, b);\nkeep it\nkeep too\nn = 5\nend\n";
    assert_eq!(named(beside), ["f.rs#1=agent", "f.rs#2=agent"], "a line beside the hunks is not exempt");
    let removed = write(&repo, &files(&[("x", "x")]));
    assert_eq!(
        shown(&resolved_hunks(&repo, &merge.conflict, &before, removed, Tier::Person).unwrap()),
        ["f.rs#0=person"]
    );
    // What the tiers have resolved and nobody touched since is theirs.
    let all = Conflicted::of(&repo, ["f(a)\n", "f(a, b)\n", "g(a)\n"]);
    let before = all.resolve(&TierOptions::default());
    let named = resolved_hunks(&repo, &all.conflict, &before, before.tree, Tier::Agent).unwrap();
    assert_eq!(shown(&named), ["f.rs#1=tokens"]);
}
