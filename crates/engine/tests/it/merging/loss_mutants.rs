//! Merges with resolved conflicts pass the check of losses, and whatever else is changed in them is found.

use std::collections::BTreeMap;

use engine::merging::TierOptions;
use git::{EntryKind, LossyMerge, MergeCheckError, MergeError, TreeId, check_merge_result};
use pleach_core::config::{DerivedFiles, DerivedRules};
use pleach_core::merge::{LossExemptions, ResolvedHunk, TextMerge, Tier};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::tiers::Conflicted;
use crate::made_merges::{FileFate, Files, Merge, config, fates, files, repository, sides, write};

/// What is wrong with a result, a line each.
fn findings(merge: &Conflicted<'_>, merged: TreeId, exemptions: &LossExemptions) -> Vec<String> {
    let [base, ours, theirs] = merge.trees;
    match check_merge_result(merge.repo, base, ours, theirs, merged, exemptions) {
        Ok(_) => Vec::new(),
        Err(MergeCheckError::Loss(LossyMerge { findings })) => findings.iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

fn named(resolved: Vec<ResolvedHunk>) -> LossExemptions {
    LossExemptions { resolved, ..LossExemptions::default() }
}

const LINES: usize = 30;

/// A text in which some lines are others.
fn text(changed: &[(usize, &str)]) -> String {
    let changed: BTreeMap<usize, &str> = changed.iter().copied().collect();
    (0..LINES)
        .map(|line| changed.get(&line).map_or_else(|| format!("line {line}\n"), |text| format!("{text}\n")))
        .collect()
}

/// Both sides change line 3 of a file, and each something else of it; each changes and adds files of its own.
fn trees() -> [Files; 3] {
    let base =
        [("f.rs", text(&[(3, "call(a);")])), ("of ours", text(&[])), ("of theirs", text(&[])), ("kept", text(&[]))];
    let ours = [
        ("f.rs", text(&[(3, "call(a, b);"), (10, "landed"), (24, "")])),
        ("of ours", text(&[(1, "landed too")])),
        ("of theirs", text(&[])),
        ("kept", text(&[])),
        ("new of ours", "new\n".to_owned()),
    ];
    let theirs = [
        ("f.rs", text(&[(3, "invoke(a);"), (20, "the branch")])),
        ("of ours", text(&[])),
        ("of theirs", text(&[(7, "the branch too")])),
        ("kept", text(&[])),
        ("new of theirs", "new\n".to_owned()),
    ];
    let all =
        |texts: &[(&str, String)]| files(&texts.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>());
    [all(&base), all(&ours), all(&theirs)]
}

fn all_of(merge: &Conflicted<'_>, tree: TreeId) -> Files {
    let entries = merge.repo.tree_entries(tree).unwrap();
    entries
        .into_iter()
        .map(|entry| (entry.path.to_string(), (entry.kind, merge.repo.blob(entry.id).unwrap())))
        .collect()
}

#[test]
fn i4_every_loss_beside_a_resolved_hunk_is_found() {
    let (_sandbox, repo) = repository(&[]);
    let [base, ours, theirs] = trees();
    let merge = Conflicted::new(&repo, [base.clone(), ours.clone(), theirs.clone()]);
    let result = merge.resolve(&TierOptions::default());
    assert_eq!(result.remaining, []);
    let exemptions = named(result.resolved.clone());
    assert_eq!(findings(&merge, result.tree, &exemptions), Vec::<String>::new());
    let right = all_of(&merge, result.tree);
    assert_eq!(
        right["f.rs"].1,
        text(&[(3, "invoke(a, b);"), (10, "landed"), (20, "the branch"), (24, "")]).into_bytes()
    );
    let found = |files: &Files| findings(&merge, write(&repo, files), &exemptions);
    let with = |path: &str, entry: Option<&(EntryKind, Vec<u8>)>| {
        let mut files = right.clone();
        match entry {
            Some(entry) => drop(files.insert(path.to_owned(), entry.clone())),
            None => drop(files.remove(path)),
        }
        files
    };
    // A hunk is dropped: the target's, the branch's, lines that a side removed.
    let edited = |from: &str, to: &str| {
        let text = String::from_utf8(right["f.rs"].1.clone()).unwrap();
        assert!(text.contains(from));
        found(&with("f.rs", Some(&(EntryKind::File, text.replace(from, to).into_bytes()))))
    };
    assert_eq!(edited("landed\n", "line 10\n").len(), 2);
    assert_eq!(edited("the branch\n", "line 20\n").len(), 2);
    assert!(!edited("line 23\n\n", "line 23\nline 24\n").is_empty());
    assert_eq!(edited("line 28\n", ""), ["`f.rs`: 1 line is missing, though neither side removed as many"]);
    // One side is taken, of a file or of everything.
    for (path, side) in
        [("f.rs", &ours), ("f.rs", &theirs), ("f.rs", &base), ("of ours", &theirs), ("of theirs", &ours)]
    {
        assert!(!found(&with(path, side.get(path))).is_empty(), "{path}");
    }
    for side in [&base, &ours, &theirs] {
        assert!(!found(side).is_empty());
    }
    // A file is dropped.
    for path in right.keys() {
        assert_eq!(found(&with(path, None)).len(), 1, "{path}");
    }
    // Work that has landed is reverted.
    assert_eq!(found(&with("of ours", base.get("of ours"))), ["`of ours`: the content is not that of the target"]);
    assert_eq!(found(&with("new of ours", None)), ["`new of ours`: the file of the target is missing"]);
}

#[test]
fn a_merge_from_a_wrong_base_is_found() {
    let (_sandbox, repo) = repository(&[]);
    let [base, ours, theirs] = trees();
    let merge = Conflicted::new(&repo, [base.clone(), ours.clone(), theirs]);
    // As if what landed meanwhile had been there from the beginning: the branch lacks it, so it goes.
    for paths in [&["of ours"][..], &["new of ours"], &["of ours", "new of ours"]] {
        let mut wrong = base.clone();
        wrong.extend(paths.iter().map(|path| ((*path).to_owned(), ours[*path].clone())));
        let result = conflicted(&repo, wrong, &merge).resolve(&TierOptions::default());
        assert_eq!(result.remaining, []);
        assert_eq!(findings(&merge, result.tree, &named(result.resolved)).len(), paths.len());
    }
}

/// The same sides from another base.
fn conflicted<'a>(repo: &'a git::Repo, base: Files, merge: &Conflicted<'_>) -> Conflicted<'a> {
    let base = write(repo, &base);
    match git::merge::merge_trees(repo, base, merge.trees[1], merge.trees[2]) {
        Err(MergeError::Conflict(conflict)) => {
            Conflicted { repo, trees: [base, merge.trees[1], merge.trees[2]], conflict }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_named_hunks_are_exempt() {
    let (_sandbox, repo) = repository(&[]);
    let side = |one: &str, two: &str| files(&[("f.rs", &text(&[(3, one), (20, two)]))]);
    let merge = Conflicted::new(&repo, [side("1", "2"), side("o1", "o2"), side("t1", "t2")]);
    let chosen = write(&repo, &side("new", "o2"));
    let hunk = |path: &str, hunk| ResolvedHunk { path: path.into(), hunk, source: Tier::Agent };
    assert_eq!(findings(&merge, chosen, &named(vec![hunk("f.rs", 1), hunk("f.rs", 2)])), Vec::<String>::new());
    assert_eq!(findings(&merge, chosen, &named(vec![hunk("f.rs", 1)])), ["`f.rs`: 1 line of the branch is missing"]);
    assert!(!findings(&merge, chosen, &named(vec![hunk("other", 1), hunk("f.rs", 2)])).is_empty());
    let beside = write(&repo, &files(&[("f.rs", &text(&[(3, "new"), (4, "beside"), (20, "o2")]))]));
    assert!(!findings(&merge, beside, &named(vec![hunk("f.rs", 1), hunk("f.rs", 2)])).is_empty());
    assert_eq!(
        findings(&merge, beside, &named(vec![hunk("f.rs", 0)])),
        Vec::<String>::new(),
        "the whole file is named"
    );
    let marked =
        findings(&merge, merge.conflict.marked, &named(vec![hunk("f.rs", 0), hunk("f.rs", 1), hunk("f.rs", 2)]));
    assert_eq!(marked, ["`f.rs`: 6 conflict markers are left"]);
}

#[test]
fn derived_files_are_exempt_once_their_command_ran() {
    let (_sandbox, repo) = repository(&[]);
    let sides = ["1\n", "ours\n", "theirs\n"].map(|text| files(&[("a.lock", text)]));
    let merge = Conflicted::new(&repo, sides);
    let rule = DerivedFiles { paths: vec!["*.lock".into()], command: "make".into() };
    let derived = DerivedRules::new(&[rule]).unwrap();
    let result = merge.resolve(&TierOptions { derived: derived.clone(), ..TierOptions::default() });
    let not_run = named(result.resolved.clone());
    assert_eq!(findings(&merge, result.tree, &not_run), ["`a.lock`: 1 line of the branch is missing"]);
    let made = write(&repo, &files(&[("a.lock", "made\n"), ("b.lock", "made\n")]));
    assert_eq!(findings(&merge, made, &not_run).len(), 4);
    let [base, ours, theirs] = merge.trees;
    let ran = LossExemptions { resolved: result.resolved, derived, ..LossExemptions::default() };
    let exempt = check_merge_result(&repo, base, ours, theirs, made, &ran).unwrap();
    let exempt: Vec<String> = exempt.iter().map(|finding| finding.path.to_string()).collect();
    assert_eq!(
        (exempt.first(), exempt.last()),
        (Some(&"a.lock".to_owned()), Some(&"b.lock".to_owned())),
        "they are named"
    );
}

/// The files of a conflict, resolved hunk by hunk with a text of its own.
fn resolved(merge: &Conflicted<'_>) -> Option<(Files, Vec<ResolvedHunk>)> {
    let (mut edited, mut hunks) = (all_of(merge, merge.conflict.marked), Vec::new());
    for file in &merge.conflict.files {
        let (true, Some(ours), Some(theirs)) = (file.kind.is_of_lines(), file.ours, file.theirs) else { return None };
        let [ours, theirs] = [ours, theirs].map(|side| merge.repo.blob(side.id).unwrap());
        let base = file.base.map(|base| merge.repo.blob(base.id).unwrap()).unwrap_or_default();
        let lines = TextMerge::lines(&base, &ours, &theirs);
        let mut number = 0;
        let text = lines.resolved(|_| {
            number += 1;
            hunks.push(ResolvedHunk { path: file.path.clone(), hunk: number, source: Tier::Agent });
            Some(format!("resolved {number}\n").into_bytes())
        });
        edited.insert(file.path.to_string(), (EntryKind::File, text.clean()?));
    }
    Some((edited, hunks))
}

#[test]
fn resolved_conflicts_raise_no_alarm() {
    let (_sandbox, repo) = repository(&[]);
    let tried = std::cell::Cell::new(0);
    let ran = TestRunner::new(config()).run(&fates(), |fates| {
        let fates: Vec<FileFate> = fates.into_iter().map(|fate| FileFate { whole: None, ..fate }).collect();
        let sides = sides(&fates);
        if Merge::try_new(&repo, sides.clone()).is_some() {
            return Ok(());
        }
        let merge = Conflicted::new(&repo, sides);
        let Some((files, hunks)) = resolved(&merge) else { return Ok(()) };
        let tree = write(&repo, &files);
        prop_assert_eq!(findings(&merge, tree, &named(hunks)), Vec::<String>::new());
        prop_assert!(!findings(&merge, tree, &LossExemptions::default()).is_empty());
        tried.set(tried.get() + 1);
        Ok(())
    });
    ran.unwrap();
    assert!(tried.get() > 0);
}

#[test]
fn clean_merges_from_any_wrong_base_are_found() {
    let (_sandbox, repo) = repository(&[]);
    let ran = TestRunner::new(config()).run(&(fates(), any::<u8>()), |(fates, picked)| {
        let sides = sides(&fates);
        let Some(merge) = Merge::try_new(&repo, sides.clone()) else { return Ok(()) };
        // Of some files the base is what the target has by now.
        let mut wrong = sides[0].clone();
        let landed = sides[1].iter().enumerate().filter(|(at, _)| picked >> (at % 8) & 1 == 1);
        wrong.extend(landed.map(|(_, (path, entry))| (path.clone(), entry.clone())));
        let Ok(tree) = git::merge::merge_trees(&repo, write(&repo, &wrong), merge.trees[1], merge.trees[2]) else {
            return Ok(());
        };
        prop_assert_eq!(merge.findings(tree).is_empty(), tree == merge.merged);
        Ok(())
    });
    ran.unwrap();
}
