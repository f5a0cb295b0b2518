//! Merge results of the git program pass the check of losses, and what is taken out of them or put into them is found.

use std::fs;

use git::{Durability, EntryKind, check_merge_result};
use pleach_core::merge::LossExemptions;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::Sandbox;
use crate::made_merges::{Files, Merge, config, fates, files, repository, sides, write};

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.map(|number| format!("line {number}\n")).collect()
}

#[test]
fn changes_of_every_kind_pass_and_their_mutants_do_not() {
    let (_sandbox, repo) = repository(&[]);
    let text = numbered(0..20);
    let mut base =
        files(&[("both", &text), ("old/name", &text), ("kept", "kept\n"), ("gone", "gone\n"), ("run", &text)]);
    base.insert("picture".into(), (EntryKind::File, b"\0\x01".to_vec()));
    base.insert("link".into(), (EntryKind::Link, b"kept".to_vec()));
    base.insert("module".into(), (EntryKind::Submodule, vec![1; 20]));
    let mut ours = base.clone();
    ours.insert("both".into(), (EntryKind::File, text.replace("line 3\n", "ours\n").into_bytes()));
    ours.remove("old/name");
    ours.insert("new/name".into(), (EntryKind::File, text.replace("line 5\n", "").into_bytes()));
    ours.insert("run".into(), (EntryKind::Executable, text.clone().into_bytes()));
    ours.insert("link".into(), (EntryKind::Link, b"both".to_vec()));
    let mut theirs = base.clone();
    theirs.insert("both".into(), (EntryKind::File, text.replace("line 15\n", "theirs\nmore\n").into_bytes()));
    theirs.insert("old/name".into(), (EntryKind::File, text.replace("line 15\n", "").into_bytes()));
    theirs.insert("run".into(), (EntryKind::File, text.replace("line 9\n", "theirs\n").into_bytes()));
    theirs.insert("picture".into(), (EntryKind::File, b"\0\x02".to_vec()));
    theirs.insert("module".into(), (EntryKind::Submodule, vec![2; 20]));
    theirs.insert("added".into(), (EntryKind::File, b"added\n".to_vec()));
    theirs.remove("gone");
    let merge = Merge::new(&repo, [base, ours, theirs]);
    assert!(merge.merged().contains_key("new/name"));
    assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
    for (path, files) in merge.mutants() {
        assert!(!merge.findings(write(&repo, &files)).is_empty(), "{path}: {files:?}");
    }

    let edited = |path: &str, edit: &dyn Fn(&str) -> String| {
        merge.findings_of(|files| {
            let content = &mut files.get_mut(path).unwrap().1;
            *content = edit(std::str::from_utf8(content).unwrap()).into_bytes();
        })
    };
    assert_eq!(edited("both", &|text| text.replace("more\n", "")), ["`both`: 1 line of the branch is missing"]);
    assert_eq!(edited("both", &|text| text.replace("ours\n", "ours\nours\n")), ["`both`: 1 line is repeated"]);
    assert_eq!(edited("both", &|text| format!(">>>>>>> x\n{text}")), ["`both`: 1 conflict marker is left"]);
    // Found by the rename alone: who removes a file has removed that line as well.
    let back = ["`new/name`: 1 line removed by the branch is back"];
    assert_eq!(edited("new/name", &|text| format!("{text}line 15\n")), back);
    let lost = merge.findings_of(|files| files.get_mut("run").unwrap().0 = EntryKind::File);
    assert_eq!(lost, ["`run`: the mode is not that of the target"]);
    let [base, ours, theirs] = merge.trees;
    let words = check_merge_result(&repo, base, ours, theirs, ours, &LossExemptions::default()).unwrap_err();
    assert!(words.to_string().starts_with("the merge result is wrong: `added`: the file of the branch"), "{words}");
}

#[test]
fn a_merge_where_one_side_changed_nothing_is_the_other() {
    let (_sandbox, repo) = repository(&[]);
    let [one, two] = [&[("a", "1\n")], &[("a", "2\n")]].map(|texts| files(texts));
    for sides in [[&one, &two, &one], [&one, &one, &two], [&one, &two, &two]] {
        let merge = Merge::new(&repo, sides.map(Clone::clone));
        assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
        assert_eq!(merge.findings(merge.trees[0]).len(), 1);
    }
}

#[test]
fn merge_drivers_excuse_what_they_do() {
    let (sandbox, repo) = repository(&[("merge.take.driver", "cp %B %A")]);
    let attributes = "*.log merge=union\n*.take merge=take\n*.none merge=none\n";
    let all = |text: &str| files(&[(".gitattributes", attributes), ("d/a.log", text), ("b.take", text)]);
    let [base, ours, theirs] = ["1\n2\n", "1\nours\n", "1\n2\ntheirs\n"].map(all);
    let merge = Merge::new(&repo, [base, ours, theirs]);
    let merged = merge.merged();
    assert_eq!(merged["d/a.log"].1, b"1\nours\n2\ntheirs\n", "what the target removed is back");
    assert_eq!(merged["b.take"].1, b"1\n2\ntheirs\n");
    assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
    // A union loses nothing, and no driver leaves markers.
    let set = |path: &str, text: &str| {
        merge.findings_of(|files| drop(files.insert(path.to_owned(), (EntryKind::File, text.into()))))
    };
    assert_eq!(set("d/a.log", "1\nours\n2\n"), ["`d/a.log`: 1 line of the branch is missing"]);
    assert_eq!(set("b.take", "1\n=======\n"), ["`b.take`: 1 conflict marker is left"]);
    // The checkout has no say.
    fs::write(sandbox.path("repo/.gitattributes"), "* -merge\n").unwrap();
    assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
    // A driver without a program is none.
    let with = |text: &str| files(&[(".gitattributes", attributes), ("x.none", text)]);
    let merge = Merge::new(&repo, ["1\n2\n3\n4\n5\n", "ours\n2\n3\n4\n5\n", "1\n2\n3\n4\ntheirs\n"].map(with));
    assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
    assert_eq!(merge.findings(merge.trees[1]).len(), 2);
}

#[test]
fn new_files_follow_a_renamed_directory() {
    let (_sandbox, repo) = repository(&[("merge.directoryRenames", "true")]);
    let texts = [numbered(0..9), numbered(20..29)];
    let base = files(&[("old/a", &texts[0]), ("old/b", &texts[1])]);
    let ours = files(&[("new/a", &texts[0]), ("new/b", &texts[1])]);
    let mut theirs = base.clone();
    theirs.insert("old/c".into(), (EntryKind::File, b"c\n".to_vec()));
    let merge = Merge::new(&repo, [base, ours, theirs]);
    assert!(merge.merged().contains_key("new/c"));
    assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
    let lost = merge.findings_of(|files| drop(files.remove("new/c")));
    assert_eq!(lost, ["`old/c`: the file of the branch is missing"]);
}

#[test]
fn branches_that_merged_each_other_raise_no_alarm() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo").with_durability(Durability::None);
    let commit = |branch: &str, path: &str, text: &str| {
        sandbox.git("repo", &["switch", "-q", branch]);
        sandbox.write(&format!("repo/{path}"), text);
        sandbox.commit("repo", branch);
    };
    let [head, tail] = [numbered(0..9), numbered(9..20)];
    sandbox.git("repo", &["branch", "other"]);
    commit("main", "one", &format!("{head}{tail}"));
    commit("other", "two", &format!("{head}{tail}"));
    // Each takes what the other has by now, and there are two best common ancestors.
    let [main, other] = ["main", "other"].map(|branch| sandbox.git("repo", &["rev-parse", branch]));
    for (branch, merged) in [("main", &other), ("other", &main)] {
        sandbox.git("repo", &["switch", "-q", branch]);
        sandbox.git("repo", &["merge", "-q", "--no-ff", "-m", "both", merged]);
    }
    commit("main", "two", &format!("{head}ours\n{tail}"));
    commit("other", "one", &format!("{head}theirs\n{tail}"));
    commit("other", "two", &format!("{head}{tail}theirs\n"));
    let [ours, theirs] = ["main", "other"].map(|branch| repo.resolve(branch).unwrap());
    let merged = git::merge::merge_commits(&repo, ours, theirs).unwrap();
    let base = git::merge::merge_base_tree(&repo, ours, theirs).unwrap().unwrap();
    let [our_tree, their_tree] = [ours, theirs].map(|side| repo.tree_of(side).unwrap());
    let found = |merged| check_merge_result(&repo, base, our_tree, their_tree, merged, &LossExemptions::default());
    assert_eq!(found(merged).unwrap(), []);
    assert!(found(our_tree).is_err());
    assert_eq!(git::merge::merge_base_tree(&repo, ours, ours).unwrap(), Some(our_tree));
}

#[test]
fn clean_merges_pass_and_no_mutant_does() {
    let (_sandbox, repo) = repository(&[]);
    let ran = TestRunner::new(config()).run(&(fates(), any::<[proptest::sample::Index; 4]>()), |(fates, picked)| {
        let Some(merge) = Merge::try_new(&repo, sides(&fates)) else { return Ok(()) };
        prop_assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
        let mutants = merge.mutants();
        for at in picked.iter().filter(|_| !mutants.is_empty()) {
            let (path, files) = at.get(&mutants);
            prop_assert!(!merge.findings(write(&repo, files)).is_empty(), "{}: {:?}", path, files);
        }
        Ok(())
    });
    ran.unwrap();
}

/// A text of few distinct lines, and texts that were made of it by cutting and pasting.
fn repetitive() -> impl Strategy<Value = [Files; 3]> {
    let line = || proptest::sample::select(vec!["}\n", "\n", "a\n", "b\n", "c\n", "d\n"]);
    let cut = || (0..40usize, 0..3usize, proptest::collection::vec(line(), 0..3));
    let cuts = || proptest::collection::vec(cut(), 0..4);
    (proptest::collection::vec(line(), 20..40), cuts(), cuts(), cuts()).prop_map(|(base, ours, theirs, both)| {
        let edited = |cuts: &[(usize, usize, Vec<&'static str>)]| {
            let mut lines = base.clone();
            for (at, length, instead) in cuts {
                let at = (*at).min(lines.len());
                lines.splice(at..(at + length).min(lines.len()), instead.iter().copied());
            }
            files(&[("f", &lines.concat())])
        };
        // What both do comes first, so that it is done to the same lines.
        let [ours, theirs] = [ours, theirs].map(|own| edited(&[both.clone(), own].concat()));
        [edited(&[]), ours, theirs]
    })
}

#[test]
fn lines_that_repeat_raise_no_alarm() {
    let (_sandbox, repo) = repository(&[]);
    // The same texts each time: once in thousands git itself puts lines of such texts twice, and that is found.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let ran = TestRunner::new_with_rng(config(), random).run(&repetitive(), |sides| {
        let Some(merge) = Merge::try_new(&repo, sides) else { return Ok(()) };
        prop_assert_eq!(merge.findings(merge.merged), Vec::<String>::new());
        Ok(())
    });
    ran.unwrap();
}
