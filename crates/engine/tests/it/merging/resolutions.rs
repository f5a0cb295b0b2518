//! Resolutions are recorded in a ref, found again in either order of the sides, and shared between clones.

use engine::merging::{
    RESOLUTIONS, RecordedResolutions, TierOptions, learn_resolutions, merge_resolutions, record_resolutions,
};
use git::{Durability, Repo};
use pleach_core::merge::{ConflictHunk, Resolution, Tier};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::tiers::{Conflicted, person, shown};
use crate::made_merges::{files, repository, write};

const TEXTS: [&str; 3] = ["a\nn = 1\nb\n", "a\nn = 2\nb\n", "a\nn = 3\nb\n"];

fn hunk(number: usize) -> ConflictHunk {
    let side = |name: &str| format!("{name} {number}\n").into_bytes();
    ConflictHunk { base: side("base"), ours: side("ours"), theirs: side("theirs") }
}

fn resolution(number: usize, text: &str) -> Resolution {
    Resolution::new("f.rs".into(), &hunk(number), text.into(), person())
}

fn found(repo: &Repo, number: usize) -> Option<String> {
    let recorded = RecordedResolutions::load(repo).unwrap();
    recorded.find(repo, &"f.rs".into(), &hunk(number)).unwrap().map(|text| String::from_utf8(text).unwrap())
}

/// How often a resolution was confirmed, by its text in the ref.
fn confirmed(sandbox: &super::Sandbox, dir: &str, text: &str) -> Vec<u64> {
    let listed = sandbox.git(dir, &["ls-tree", "-r", "--name-only", RESOLUTIONS]);
    let read = |path: &str| {
        let json = sandbox.git(dir, &["show", &format!("{RESOLUTIONS}:{path}")]);
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    listed
        .lines()
        .map(read)
        .filter(|json| json["resolved"] == text)
        .map(|json| json["confirmed"].as_u64().unwrap())
        .collect()
}

#[test]
fn what_was_resolved_once_is_resolved_again() {
    let (sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    assert_eq!(merge.resolve(&TierOptions::default()).remaining.len(), 1);
    merge.record("a\nn = 2 + 3\nb\n");
    let result = merge.resolve(&TierOptions::default());
    assert_eq!(merge.text(result.tree), "a\nn = 2 + 3\nb\n");
    assert_eq!((result.tier, shown(&result.resolved)), (Tier::Recorded, vec!["f.rs#1=recorded".to_owned()]));
    // The other way round, and with other lines around it.
    let swapped = Conflicted::of(&repo, ["x\na\nn = 1\nb\n", "x\na\nn = 3\nb\n", "x\na\nn = 2\nb\n"]);
    let result = swapped.resolve(&TierOptions::default());
    assert_eq!(swapped.text(result.tree), "x\na\nn = 2 + 3\nb\n");
    // Not in another file, and not from another base.
    let elsewhere = Conflicted::new(&repo, TEXTS.map(|text| files(&[("g.rs", text)])));
    assert_eq!(elsewhere.resolve(&TierOptions::default()).remaining.len(), 1);
    let other = Conflicted::of(&repo, ["a\nn = 0\nb\n", TEXTS[1], TEXTS[2]]);
    assert_eq!(other.resolve(&TierOptions::default()).remaining.len(), 1);
    assert_eq!(confirmed(&sandbox, "repo", "n = 2 + 3\n"), [1]);
    merge.record("a\nn = 2 + 3\nb\n");
    assert_eq!(confirmed(&sandbox, "repo", "n = 2 + 3\n"), [2]);
}

#[test]
fn resolutions_kept_in_memory_are_not_recorded() {
    let (_sandbox, repo) = repository(&[]);
    let merge = Conflicted::of(&repo, TEXTS);
    let chosen = write(&repo, &files(&[("f.rs", "a\nn = 4\nb\n")]));
    let mut known = RecordedResolutions::default();
    for resolution in learn_resolutions(&repo, &merge.conflict, chosen, &person()).unwrap() {
        known.remember(resolution);
    }
    let result = merge.resolve(&TierOptions { resolutions: Some(known), ..TierOptions::default() });
    assert_eq!((result.tree, repo.refs().find(RESOLUTIONS).unwrap()), (chosen, None));
}

#[test]
fn writers_at_once_lose_no_resolution() {
    let (sandbox, repo) = repository(&[]);
    const WRITERS: usize = 6;
    const EACH: usize = 8;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let repo = sandbox.open("repo").with_durability(Durability::None);
            scope.spawn(move || {
                for number in 0..EACH {
                    let own = resolution(writer * EACH + number, "own\n");
                    record_resolutions(&repo, &[own, resolution(1000, "shared\n")]).unwrap();
                }
            });
        }
    });
    for number in 0..WRITERS * EACH {
        assert_eq!(found(&repo, number), Some("own\n".to_owned()), "{number}");
    }
    assert_eq!(confirmed(&sandbox, "repo", "shared\n"), [(WRITERS * EACH) as u64]);
}

#[test]
fn fetched_resolutions_are_merged_with_ours() {
    let (sandbox, repo) = repository(&[]);
    sandbox.git(".", &["clone", "-q", "repo", "clone"]);
    let clone = sandbox.open("clone").with_durability(Durability::None);
    let fetch = |dir: &str, from: &str| {
        sandbox.git(dir, &["fetch", "-q", from, &format!("+{RESOLUTIONS}:refs/pleach/remote/resolutions")]);
    };
    let fetched = |repo: &Repo| repo.refs().find("refs/pleach/remote/resolutions").unwrap().unwrap();
    record_resolutions(&repo, &[resolution(1, "one\n"), resolution(3, "ours\n")]).unwrap();
    record_resolutions(&clone, &[resolution(2, "two\n"), resolution(3, "theirs\n")]).unwrap();
    record_resolutions(&clone, &[resolution(3, "theirs\n")]).unwrap();
    fetch("repo", "../clone");
    merge_resolutions(&repo, fetched(&repo)).unwrap();
    fetch("clone", "../repo");
    merge_resolutions(&clone, fetched(&clone)).unwrap();
    for repo in [&repo, &clone] {
        let texts: Vec<_> = (1..=3).map(|number| found(repo, number).unwrap()).collect();
        assert_eq!(texts, ["one\n", "two\n", "theirs\n"], "what was confirmed more often counts");
    }
    let tip = repo.refs().find(RESOLUTIONS).unwrap().unwrap();
    assert_eq!(clone.refs().find(RESOLUTIONS).unwrap(), Some(tip), "nothing new, nothing made");
    merge_resolutions(&repo, tip).unwrap();
    assert_eq!(repo.refs().find(RESOLUTIONS).unwrap(), Some(tip));
    // Where none are, they are taken as they are.
    sandbox.git(".", &["clone", "-q", "repo", "third"]);
    fetch("third", "../repo");
    let third = sandbox.open("third");
    merge_resolutions(&third, fetched(&third)).unwrap();
    assert_eq!(found(&third, 2), Some("two\n".to_owned()));
}

#[test]
fn lines_resolved_in_two_ways_are_not_recorded() {
    let (_sandbox, repo) = repository(&[]);
    let twice = |text: &str| format!("{text}\na\nb\nc\nd\n{text}\n");
    let [base, ours, theirs] = ["n = 1", "n = 2", "n = 3"].map(twice);
    let merge = Conflicted::of(&repo, [&base, &ours, &theirs]);
    merge.record("n = 2\na\nb\nc\nd\nn = 3\n");
    assert_eq!(merge.resolve(&TierOptions::default()).resolved, []);
    merge.record(&twice("n = 4"));
    let result = merge.resolve(&TierOptions::default());
    assert_eq!((result.remaining.len(), merge.text(result.tree)), (0, twice("n = 4")));
}

#[test]
fn a_damaged_resolution_is_none() {
    let (sandbox, repo) = repository(&[]);
    record_resolutions(&repo, &[resolution(1, "one\n")]).unwrap();
    let path = sandbox.git("repo", &["ls-tree", "-r", "--name-only", RESOLUTIONS]);
    sandbox.write("repo/damaged", "{");
    let blob = sandbox.git("repo", &["hash-object", "-w", "damaged"]);
    sandbox.git("repo", &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
    sandbox.git("repo", &["commit", "-q", "-m", "damaged"]);
    sandbox.git("repo", &["update-ref", RESOLUTIONS, "HEAD"]);
    assert_eq!(found(&repo, 1), None);
    record_resolutions(&repo, &[resolution(1, "two\n")]).unwrap();
    assert_eq!(found(&repo, 1), Some("two\n".to_owned()));
}

#[test]
fn recording_and_resolving_again_gives_the_same_file() {
    let (_sandbox, repo) = repository(&[]);
    let line = || proptest::sample::select(vec!["a\n", "b\n", "c = 1\n", "}\n", "\n"]);
    let text = move || proptest::collection::vec(line(), 0..4).prop_map(|lines| lines.concat());
    let places = proptest::collection::vec((text(), text(), text(), text()), 1..5);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let ran = TestRunner::new_with_rng(config, random).run(&places, |places| {
        let of = |side: fn(&(String, String, String, String)) -> &String| {
            let part = |(at, place): (usize, &_)| format!("{}keep {at}\n", side(place));
            places.iter().enumerate().map(part).collect::<String>()
        };
        let sides = [of(|place| &place.0), of(|place| &place.1), of(|place| &place.2)];
        let trees = sides.each_ref().map(|text| write(&repo, &files(&[("f.rs", text)])));
        if git::merge::merge_trees(&repo, trees[0], trees[1], trees[2]).is_ok() {
            return Ok(());
        }
        // What another case has recorded may contradict this one.
        if let Some(known) = repo.refs().find(RESOLUTIONS).unwrap() {
            repo.refs().delete(RESOLUTIONS, known, "another case").unwrap();
        }
        let merge = Conflicted::of(&repo, sides.each_ref().map(String::as_str));
        // The same lines of one file resolved in two ways: the newer way counts, and is right for one of them only.
        let lines = pleach_core::merge::TextMerge::lines(sides[0].as_bytes(), sides[1].as_bytes(), sides[2].as_bytes());
        let hunks: Vec<_> = lines.conflicts().collect();
        prop_assume!(!hunks.iter().enumerate().any(|(at, hunk)| hunks[..at].contains(hunk)));
        // A place can have several conflicts.
        let mut chosen = places.iter().cycle().map(|place| place.3.clone().into_bytes());
        let resolved = lines.clone().resolved(|_| chosen.next()).clean().unwrap();
        let resolved = String::from_utf8(resolved).unwrap();
        merge.record(&resolved);
        let result = merge.resolve(&TierOptions { limit: Tier::Recorded, ..TierOptions::default() });
        prop_assert_eq!(result.remaining.len(), 0);
        prop_assert_eq!(merge.text(result.tree), resolved);
        Ok(())
    });
    ran.unwrap();
}
