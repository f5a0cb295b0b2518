//! The rules on trees in memory: results that are right, and every way to break one.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'a> {
    mode: FileMode,
    text: &'a str,
}

/// A tree: paths, and what is there.
type Tree<'a> = BTreeMap<&'a str, Entry<'a>>;

/// The plain files of a tree.
type Files<'a> = [(&'a str, &'a str)];

fn tree<'a>(files: &Files<'a>) -> Tree<'a> {
    files.iter().map(|(path, text)| (*path, Entry { mode: FileMode::Plain, text })).collect()
}

fn with_mode<'a>(mut tree: Tree<'a>, path: &str, mode: FileMode) -> Tree<'a> {
    tree.get_mut(path).unwrap().mode = mode;
    tree
}

/// Contents by made-up ids.
#[derive(Default)]
struct Contents(Vec<Vec<u8>>);

impl Contents {
    fn key(&mut self, text: &[u8]) -> BlobKey {
        let known = self.0.iter().position(|known| known == text);
        let at = known.unwrap_or_else(|| {
            self.0.push(text.to_vec());
            self.0.len() - 1
        });
        let mut key = [0; 20];
        key[..8].copy_from_slice(&at.to_le_bytes());
        key
    }

    fn read(&self, key: BlobKey) -> Result<Vec<u8>, Infallible> {
        Ok(self.0[usize::from_le_bytes(key[..8].try_into().unwrap())].clone())
    }

    fn changes(&mut self, base: &Tree<'_>, tree: &Tree<'_>) -> FileChanges {
        let paths = base.keys().chain(tree.keys()).filter(|path| base.get(*path) != tree.get(*path));
        let mut version = |entry: Option<&Entry<'_>>| {
            entry.map(|entry| FileVersion { mode: entry.mode, blob: self.key(entry.text.as_bytes()) })
        };
        paths
            .map(|path| ((*path).into(), FileChange { old: version(base.get(path)), new: version(tree.get(path)) }))
            .collect()
    }
}

/// Names of renamed files, old and new.
type Renames<'a> = &'a [(&'a str, &'a str)];

/// A merge: base, ours, theirs.
struct Merge<'a> {
    trees: [Tree<'a>; 3],
    renames: [Renames<'a>; 2],
}

impl<'a> Merge<'a> {
    fn of(base: &Files<'a>, ours: &Files<'a>, theirs: &Files<'a>) -> Self {
        Self { trees: [tree(base), tree(ours), tree(theirs)], renames: [&[], &[]] }
    }

    /// What is wrong with a result, a line each.
    fn findings(&self, merged: &Tree<'_>) -> Vec<String> {
        let mut contents = Contents::default();
        let [base, ours, theirs] = &self.trees;
        let names = |renames: Renames<'_>| renames.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect();
        let changes = MergeChanges {
            ours: SideChanges { files: contents.changes(base, ours), renames: names(self.renames[0]) },
            theirs: SideChanges { files: contents.changes(base, theirs), renames: names(self.renames[1]) },
            merged: contents.changes(base, merged),
        };
        let Ok(LossFindings { wrong: findings, .. }) =
            find_losses(&changes, &LossExemptions::default(), |key| contents.read(key));
        findings.iter().map(ToString::to_string).collect()
    }

    fn of_result(&self, merged: &Files<'_>) -> Vec<String> {
        self.findings(&tree(merged))
    }
}

const NONE: [&str; 0] = [];

#[test]
fn files_of_one_side_are_taken_as_they_are() {
    let base = [("a", "a"), ("b", "b"), ("c", "c"), ("d", "d")];
    let ours = [("a", "A"), ("b", "b"), ("c", "c"), ("d", "d"), ("new", "ours")];
    let theirs = [("a", "a"), ("b", "B"), ("d", "d"), ("other", "theirs")];
    let merge = Merge::of(&base, &ours, &theirs);
    let right = [("a", "A"), ("b", "B"), ("d", "d"), ("new", "ours"), ("other", "theirs")];
    assert_eq!(merge.of_result(&right), NONE);
    assert_eq!(
        merge.of_result(&ours),
        [
            "`b`: the content is not that of the branch",
            "`c`: the file is back, though the branch removed or renamed it",
            "`other`: the file of the branch is missing"
        ]
    );
    assert_eq!(
        merge.of_result(&theirs),
        ["`a`: the content is not that of the target", "`new`: the file of the target is missing"]
    );
    let made_up = [("a", "A"), ("b", "B"), ("d", "D"), ("new", "ours"), ("other", "theirs"), ("x", "x")];
    assert_eq!(
        merge.of_result(&made_up),
        ["`d`: the content changed, though neither side changed it", "`x`: the file is in neither side"]
    );
    assert_eq!(merge.of_result(&right[..2]).len(), 3, "files that are dropped");
    let dropped = ["`d`: the file is missing, though neither side removed it"];
    assert_eq!(merge.of_result(&[right[0], right[1], right[3], right[4]]), dropped);
}

#[test]
fn what_both_sides_made_the_same_way_is_that() {
    let merge = Merge::of(&[("a", "a\n"), ("gone", "")], &[("a", "A\n")], &[("a", "A\n")]);
    assert_eq!(merge.of_result(&[("a", "A\n")]), NONE);
    assert_eq!(merge.of_result(&[("a", "A\nA\n")]), ["`a`: the content is not that of both sides"]);
    let back = ["`gone`: the file is back, though both sides removed or renamed it"];
    assert_eq!(merge.of_result(&[("a", "A\n"), ("gone", "")]), back);
}

/// A result of one file that both sides changed.
fn lines(merged: &str) -> Vec<String> {
    let base = "1\n2\n3\n4\n5\n6\n7\n";
    let merge = Merge::of(&[("f", base)], &[("f", "1\nours\n3\n4\n5\n6\n7\n")], &[("f", "1\n2\n3\n4\n5\n7\ntheirs\n")]);
    merge.of_result(&[("f", merged)])
}

#[test]
fn every_line_of_both_sides_is_there_once() {
    assert_eq!(lines("1\nours\n3\n4\n5\n7\ntheirs\n"), NONE);
    assert_eq!(lines("1\nours\n3\n4\n5\n7\ntheirs"), NONE, "the end of the last line does not count");
    let of_branch = ["`f`: 1 line of the branch is missing", "`f`: 1 line removed by the branch is back"];
    assert_eq!(lines("1\nours\n3\n4\n5\n6\n7\n"), of_branch);
    let of_target = ["`f`: 1 line of the target is missing", "`f`: 1 line removed by the target is back"];
    assert_eq!(lines("1\n2\n3\n4\n5\n7\ntheirs\n"), of_target);
    assert_eq!(lines("1\nours\n3\n4\n4\n5\n7\ntheirs\n"), ["`f`: 1 line is repeated"]);
    assert_eq!(lines("1\nours\n3\n5\n7\ntheirs\n"), ["`f`: 1 line is missing, though neither side removed as many"]);
    assert_eq!(lines("1\nours\n3\n4\n5\n7\ntheirs\nx\ny\n"), ["`f`: 2 lines are in neither side"]);
    assert_eq!(lines("").len(), 3);
    assert_eq!(
        lines("1\n<<<<<<< ours\nours\n||||||| base\n=======\r\n>>>>>>> theirs\n3\n4\n5\n7\ntheirs\n"),
        ["`f`: 4 conflict markers are left"]
    );
}

#[test]
fn lines_that_look_like_markers_may_be_from_a_side() {
    let merge = Merge::of(
        &[("f", "Title\n=======\n")],
        &[("f", "Title\n=======\nours\n=======\n")],
        &[("f", "theirs\n=======\nTitle\n=======\n")],
    );
    assert_eq!(merge.of_result(&[("f", "theirs\n=======\nTitle\n=======\nours\n=======\n")]), NONE);
    let left = ["`f`: 1 conflict marker is left"];
    assert_eq!(merge.of_result(&[("f", "theirs\n=======\nTitle\n=======\nours\n=======\n=======\n")]), left);
}

#[test]
fn what_one_side_adds_and_the_other_removes_evens_out() {
    let merge =
        Merge::of(&[("f", "a {\n}\nb\nc {\n}\n")], &[("f", "a {\n}\nb\nb {\n}\nc {\n}\n")], &[("f", "b\nc {\n}\n")]);
    assert_eq!(merge.of_result(&[("f", "b\nb {\n}\nc {\n}\n")]), NONE);
    assert_eq!(merge.of_result(&[("f", "b\nb {\nc {\n}\n")]), ["`f`: 1 line of the target is missing"]);
}

#[test]
fn a_line_moved_here_and_removed_there_may_stay() {
    let base = "moved\n1\n2\n3\n4\n5\n6\n7\n8\n";
    let merge =
        Merge::of(&[("f", base)], &[("f", "1\n2\n3\n4\n5\n6\n7\n8\nmoved\n")], &[("f", "1\n2\n3\n4\nX\n6\n7\n8\n")]);
    assert_eq!(merge.of_result(&[("f", "1\n2\n3\n4\nX\n6\n7\n8\nmoved\n")]), NONE);
    let removed = ["`f`: only the changes of the branch are there"];
    assert_eq!(merge.of_result(&[("f", "1\n2\n3\n4\nX\n6\n7\n8\n")]), removed, "git keeps it");
    let twice = ["`f`: 1 line removed by the branch is back", "`f`: 1 line is repeated"];
    assert_eq!(merge.of_result(&[("f", "moved\n1\n2\n3\n4\nX\n6\n7\n8\nmoved\n")]), twice);
}

#[test]
fn a_side_that_only_moves_lines_is_missed() {
    let merge =
        Merge::of(&[("f", "1\n2\n3\n4\n5\n6\n")], &[("f", "1\n2\n3\n4\n5\n6\n7\n")], &[("f", "2\n3\n1\n4\n5\n6\n")]);
    assert_eq!(merge.of_result(&[("f", "2\n3\n1\n4\n5\n6\n7\n")]), NONE);
    assert_eq!(merge.of_result(&[("f", "1\n2\n3\n4\n5\n6\n7\n")]), ["`f`: only the changes of the target are there"]);
}

#[test]
fn an_edit_follows_a_renamed_file() {
    let (base, ours, theirs) = ([("old", "1\n2\n3\n")], [("new", "1\n2\n3\nours\n")], [("old", "theirs\n2\n3\n")]);
    let mut merge = Merge::of(&base, &ours, &theirs);
    merge.renames[0] = &[("old", "new")];
    assert_eq!(merge.of_result(&[("new", "theirs\n2\n3\nours\n")]), NONE);
    let lost = ["`new`: 1 line of the branch is missing", "`new`: 1 line removed by the branch is back"];
    assert_eq!(merge.of_result(&ours), lost);
    assert_eq!(
        merge.of_result(&theirs),
        [
            "`new`: the file of both sides is missing",
            "`old`: the file is back, though the target removed or renamed it"
        ]
    );
    assert_eq!(
        merge.of_result(&[("new", "theirs\n2\n3\nours\n"), theirs[0]]),
        ["`old`: the file is back, though the target removed or renamed it"]
    );
    // The same from the other side, and without a word about the rename: the result tells where the edit went.
    let mut merge = Merge::of(&base, &theirs, &ours);
    assert_eq!(merge.of_result(&[("new", "theirs\n2\n3\nours\n")]), NONE);
    assert!(!merge.of_result(&ours).is_empty());
    merge.renames[1] = &[("old", "new")];
    assert_eq!(merge.of_result(&[("new", "theirs\n2\n3\nours\n")]), NONE);
    assert!(!merge.of_result(&ours).is_empty());
}

#[test]
fn both_sides_may_rename_a_file() {
    let mut merge = Merge::of(&[("old", "1\n2\n3\n")], &[("new", "1\n2\n3\nours\n")], &[("new", "theirs\n2\n3\n")]);
    merge.renames = [&[("old", "new")], &[("old", "new")]];
    assert_eq!(merge.of_result(&[("new", "theirs\n2\n3\nours\n")]), NONE);
    assert_eq!(merge.of_result(&[("new", "theirs\n2\n3\nours\n"), ("old", "1\n2\n3\n")]).len(), 1);
    // To two names, both are there.
    let mut merge = Merge::of(&[("old", "1\n2\n3\n")], &[("one", "1\n2\n3\n")], &[("two", "1\n2\n3\n")]);
    merge.renames = [&[("old", "one")], &[("old", "two")]];
    assert_eq!(merge.of_result(&[("one", "1\n2\n3\n"), ("two", "1\n2\n3\n")]), NONE);
    assert_eq!(merge.of_result(&[("one", "1\n2\n3\n")]), ["`two`: the file of the branch is missing"]);
}

#[test]
fn a_new_file_may_follow_a_renamed_directory() {
    let base = [("old/in/a", "a"), ("top", "t")];
    let mut merge =
        Merge::of(&base, &[("new/in/a", "a"), ("top", "t")], &[base[0], base[1], ("old/x", "x"), ("old/in/y", "y")]);
    merge.renames[0] = &[("old/in/a", "new/in/a")];
    let moved = [("new/in/a", "a"), ("top", "t"), ("new/x", "x"), ("new/in/y", "y")];
    assert_eq!(merge.of_result(&moved), NONE);
    assert_eq!(merge.of_result(&[moved[0], moved[1], ("old/x", "x"), ("old/in/y", "y")]), NONE);
    let lost = ["`old/x`: the file of the branch is missing"];
    assert_eq!(merge.of_result(&[moved[0], moved[1], moved[3]]), lost);
    let elsewhere = ["`old/x`: the file of the branch is missing", "`x`: the file is in neither side"];
    assert_eq!(merge.of_result(&[moved[0], moved[1], moved[3], ("x", "x")]), elsewhere);
}

#[test]
fn a_changed_mode_is_kept_beside_changed_content() {
    let with_modes = |ours, theirs| {
        let mut merge = Merge::of(&[("f", "1\n2\n3\n")], &[("f", "1\n2\n3\nours\n")], &[("f", "theirs\n2\n3\n")]);
        merge.trees[1] = with_mode(merge.trees[1].clone(), "f", ours);
        merge.trees[2] = with_mode(merge.trees[2].clone(), "f", theirs);
        merge
    };
    let merged = |mode| with_mode(tree(&[("f", "theirs\n2\n3\nours\n")]), "f", mode);
    let (plain, executable) = (FileMode::Plain, FileMode::Executable);
    assert_eq!(with_modes(executable, plain).findings(&merged(executable)), NONE);
    assert_eq!(with_modes(executable, plain).findings(&merged(plain)), ["`f`: the mode is not that of the target"]);
    assert_eq!(with_modes(plain, executable).findings(&merged(plain)), ["`f`: the mode is not that of the branch"]);
    assert_eq!(
        with_modes(executable, executable).findings(&merged(plain)),
        ["`f`: the mode is not that of both sides"]
    );
    let neither = ["`f`: the mode changed, though neither side changed it"];
    assert_eq!(with_modes(plain, plain).findings(&merged(executable)), neither);
    // Where one side changed the mode alone, the content is that of the other.
    let mut merge = Merge::of(&[("f", "1\n")], &[("f", "1\n")], &[("f", "2\n")]);
    merge.trees[1] = with_mode(merge.trees[1].clone(), "f", executable);
    let merged = with_mode(merge.trees[2].clone(), "f", executable);
    assert_eq!(merge.findings(&merged), NONE);
    assert_eq!(merge.findings(&merge.trees[1]), ["`f`: the content is not that of the branch"]);
    assert_eq!(merge.findings(&merge.trees[2]), ["`f`: the mode is not that of the target"]);
}

#[test]
fn what_has_no_lines_is_that_of_one_side() {
    let merge = Merge::of(&[("f", "\0base")], &[("f", "\0ours")], &[("f", "\0theirs")]);
    assert_eq!(merge.of_result(&[("f", "\0ours")]), NONE);
    assert_eq!(merge.of_result(&[("f", "\0theirs")]), NONE);
    let neither = "the content is neither that of the target nor that of the branch, and it cannot be merged by lines";
    assert_eq!(merge.of_result(&[("f", "\0ours\0theirs")]), [format!("`f`: {neither}")]);
    assert_eq!(merge.of_result(&[("f", "\0base")]), [format!("`f`: {neither}")]);
    assert_eq!(merge.of_result(&[]), ["`f`: the file of both sides is missing"]);
    for mode in [FileMode::Link, FileMode::Submodule] {
        let set = |text| with_mode(tree(&[("f", text)]), "f", mode);
        let merge = Merge { trees: ["1", "2", "3"].map(set), renames: [&[], &[]] };
        assert_eq!(merge.findings(&set("2")), NONE);
        assert_eq!(merge.findings(&set("4")), [format!("`f`: {neither}")]);
        assert_eq!(merge.findings(&tree(&[("f", "2")])), [format!("`f`: {neither}")], "a plain file instead");
    }
}

#[test]
fn a_removed_file_that_was_edited_is_found_either_way() {
    let merge = Merge::of(&[("f", "1\n2\n")], &[], &[("f", "1\n2\n3\n")]);
    assert_eq!(merge.of_result(&[]), ["`f`: 1 line of the branch is missing"]);
    assert_eq!(merge.of_result(&[("f", "1\n2\n3\n")]), ["`f`: 2 lines removed by the target are back"]);
}

#[test]
fn blank_lines_and_empty_files_are_told_apart() {
    let merge = Merge::of(&[("f", "")], &[("f", "\n")], &[("f", "x\n")]);
    assert_eq!(merge.of_result(&[("f", "\nx\n")]), NONE);
    assert_eq!(merge.of_result(&[("f", "x\n")]), ["`f`: 1 line of the target is missing"]);
}

/// A line of the base, and what one of the sides does with it.
#[derive(Debug, Clone, Copy)]
struct LineEdit {
    /// Its text, which several may have; by its place where it is one of a kind.
    text: Option<u8>,
    is_ours: bool,
    what: LineFate,
}

#[derive(Debug, Clone, Copy)]
enum LineFate {
    Kept,
    Replaced,
    Followed,
    Removed,
}

fn line_edits() -> impl Strategy<Value = Vec<LineEdit>> {
    let fates = [LineFate::Kept, LineFate::Kept, LineFate::Replaced, LineFate::Followed, LineFate::Removed];
    let edit = (proptest::option::of(0..4u8), any::<bool>(), proptest::sample::select(fates.to_vec()));
    proptest::collection::vec(edit.prop_map(|(text, is_ours, what)| LineEdit { text, is_ours, what }), 1..24)
}

/// The base and both sides, and what a merge makes of them.
fn texts(edits: &[LineEdit]) -> [String; 4] {
    let mut texts = [const { String::new() }; 4];
    for (place, LineEdit { text, is_ours, what }) in edits.iter().enumerate() {
        // Lines with a text of their own keep the others apart, so that it is clear which was removed.
        let line =
            format!("{}\nline {place}\n", text.map_or_else(|| format!("only {place}"), |text| format!("{text}")));
        let own = if *is_ours { "ours" } else { "theirs" };
        let edited = match what {
            LineFate::Kept => line.clone(),
            LineFate::Replaced => format!("{own}\nline {place}\n"),
            LineFate::Followed => format!("{line}{own}\n"),
            LineFate::Removed => format!("line {place}\n"),
        };
        let [base, ours, theirs, merged] = &mut texts;
        base.push_str(&line);
        ours.push_str(if *is_ours { &edited } else { &line });
        theirs.push_str(if *is_ours { &line } else { &edited });
        merged.push_str(&edited);
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn merged_lines_pass_and_changed_ones_do_not(edits in line_edits(), at in any::<prop::sample::Index>()) {
        let [base, ours, theirs, merged] = &texts(&edits);
        let merge = Merge::of(&[("f", base)], &[("f", ours)], &[("f", theirs)]);
        let is_found = |text: &str| !merge.of_result(&[("f", text)]).is_empty();
        prop_assert!(!is_found(merged));

        let mut lines: Vec<&str> = merged.lines().collect();
        let line = lines.remove(at.index(lines.len()));
        prop_assert!(is_found(&lines.join("\n")), "without {}", line);
        // Where both sides removed a line of many, one of them may be back without being missed.
        if line.parse::<u8>().is_err() {
            lines.extend([line, line]);
            prop_assert!(is_found(&lines.join("\n")), "twice {}", line);
        }
        let has = |text: &str, own: &str| text.lines().any(|line| line == own);
        prop_assert!(is_found(ours) || !has(theirs, "theirs"), "the target alone");
        prop_assert!(is_found(theirs) || !has(ours, "ours"), "the branch alone");
    }
}
