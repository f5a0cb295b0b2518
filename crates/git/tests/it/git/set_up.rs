//! What a setup has made of a worktree, and the work that comes after it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use git::CommitLimits;

use super::{Sandbox, record, spec};

/// Paths, and what is there: mode and object.
type Files = BTreeMap<String, String>;

/// Where a setup has put something else: what the tree had, and what it is.
type Begun = BTreeMap<String, (Option<String>, Option<String>)>;

fn files(sandbox: &Sandbox, root: &Path, tree: &str) -> Files {
    let listed = sandbox.git(root, &["ls-tree", "-r", tree]);
    let entry = |line: &str| line.split_once('\t').map(|(entry, path)| (path.to_owned(), entry.to_owned()));
    listed.lines().filter_map(entry).collect()
}

/// Whether two paths cannot be files of one tree.
fn are_in_each_other_s_way(one: &str, two: &str) -> bool {
    let is_below = |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    is_below(one, two) || is_below(two, one)
}

/// Every difference between two states, and what is there in the second.
fn changes(from: &Files, to: &Files) -> Vec<(String, Option<String>)> {
    let paths = from.keys().chain(to.keys()).filter(|path| from.get(*path) != to.get(*path));
    let mut changes: Vec<_> = paths.map(|path| (path.clone(), to.get(path).cloned())).collect();
    changes.sort();
    changes.dedup();
    changes
}

/// A state with changes. What is put somewhere removes what is in its way.
fn with(mut files: Files, changes: &[(String, Option<String>)]) -> Files {
    for (path, entry) in changes {
        files.remove(path);
        if let Some(entry) = entry {
            files.retain(|other, _| !are_in_each_other_s_way(path, other));
            files.insert(path.clone(), entry.clone());
        }
    }
    files
}

/// What a setup makes of a tree: all of what it did where the tree still has what it had then, but nothing in the place of
/// what came later.
fn set_up(tree: &Files, begun: &Begun) -> Files {
    let holds = |path: &String| begun.get(path).filter(|(of, _)| of.as_ref() == tree.get(path));
    let is_free = |path: &String| {
        let mut in_the_way = tree.keys().filter(|other| are_in_each_other_s_way(path, other));
        in_the_way.all(|other| holds(other).is_some_and(|(_, is)| is.is_none()))
    };
    let done =
        begun.keys().filter(|path| is_free(path)).filter_map(|path| Some((path.clone(), holds(path)?.1.clone())));
    with(tree.clone(), &done.collect::<Vec<_>>())
}

/// Puts a file, a link, a directory or nothing in the place of whatever is there, and says what.
fn swap_something(root: &Path, random: &mut fastrand::Rng) -> String {
    let parts = ["a", "b", "c"];
    let path: PathBuf = (0..=random.usize(..3)).map(|_| parts[random.usize(..3)]).collect();
    let (place, what) = (root.join(&path), random.usize(..5));
    for way in path.ancestors().skip(1).map(|way| root.join(way)) {
        if way.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(&way).unwrap();
        }
    }
    let _ = fs::remove_dir_all(&place).or_else(|_| fs::remove_file(&place));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    match what {
        0 => {}
        1 => symlink("elsewhere", &place).unwrap(),
        2 => {
            fs::create_dir(&place).unwrap();
            fs::write(place.join("b"), "in a directory\n").unwrap();
        }
        _ => fs::write(&place, format!("{}\n", random.u8(..3))).unwrap(),
    }
    format!("{what} at {}", path.display())
}

#[test]
fn commits_have_only_work_whatever_the_setup_swaps() {
    let mut random = fastrand::Rng::with_seed(49);
    for world in 0..16 {
        let sandbox = Sandbox::new();
        for path in ["repo/a/a", "repo/a/b/c", "repo/b/a", "repo/c"] {
            sandbox.write(path, "0\n");
        }
        sandbox.commit("repo", "more");
        let repo = sandbox.open("repo");
        let mut worktree = sandbox.worktree(&repo);
        let root = worktree.root().to_owned();
        let mut tree = files(&sandbox, &root, "HEAD");
        let mut done: Vec<String> = (0..random.usize(1..5)).map(|_| swap_something(&root, &mut random)).collect();
        let left = files(&sandbox, &root, &sandbox.git_tree(&root));
        let differs = changes(&tree, &left).into_iter();
        let begun: Begun = differs.map(|(path, is)| (path.clone(), (tree.get(&path).cloned(), is))).collect();
        git::worktree::snapshot_setup(&mut worktree, true).unwrap();
        for turn in 0..5 {
            done.push(format!("turn {turn}"));
            done.extend((0..random.usize(..3)).map(|_| swap_something(&root, &mut random)));
            let story = format!("world {world}: {done:?}");
            let found = files(&sandbox, &root, &sandbox.git_tree(&root));
            let expected = with(tree.clone(), &changes(&set_up(&tree, &begun), &found));
            let written = record(&repo, &mut worktree);
            tree = files(&sandbox, &root, &written.tree.to_string());
            assert_eq!(tree, expected, "{story}");
            let mut writer = repo.writer();
            let commit = writer.commit(&spec(written.tree, &[], "turn")).unwrap();
            writer.flush().unwrap();
            git::worktree::follow(&mut worktree, commit).unwrap();
            assert_eq!(sandbox.git(&root, &["write-tree"]), written.tree.to_string(), "the index: {story}");
            assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "{story}");
            if random.bool() {
                worktree = git::worktree::open(&repo, &root).unwrap();
            }
            if random.bool() {
                done.push("undone".into());
                done.extend((0..random.usize(..3)).map(|_| swap_something(&root, &mut random)));
                git::worktree::reset_to(&mut worktree, commit, written.tree).unwrap();
                let story = format!("world {world}: {done:?}");
                let found = files(&sandbox, &root, &sandbox.git_tree(&root));
                let set_up = set_up(&tree, &begun);
                for path in found.keys().chain(set_up.keys()) {
                    let is = found.get(path);
                    assert!(is == set_up.get(path) || is == tree.get(path), "`{path}` after a reset: {story}");
                }
                assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "after a reset: {story}");
            }
        }
    }
}

#[test]
fn setup_changes_to_a_submodule_count_as_no_change() {
    let sandbox = Sandbox::new();
    ["copied", "linked", "removed"].iter().for_each(|path| sandbox.submodule("repo", path));
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let (root, tree) = (worktree.root().to_owned(), worktree.tree());
    fs::write(root.join("copied/f"), "x").unwrap();
    fs::remove_dir(root.join("linked")).unwrap();
    symlink("src", root.join("linked")).unwrap();
    fs::remove_dir(root.join("removed")).unwrap();
    git::worktree::snapshot_setup(&mut worktree, true).unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!((written.tree, written.warnings), (tree, Vec::new()));
    fs::write(root.join("copied/g"), "x").unwrap();
    fs::write(root.join("copied/f"), "y").unwrap();
    assert_eq!(record(&repo, &mut worktree).held_back.len(), 2);
    git::worktree::restore(&mut worktree, tree).unwrap();
    assert_eq!(fs::read_to_string(root.join("copied/f")).unwrap(), "x");
    assert!(!root.join("copied/g").exists() && root.join("linked").is_symlink() && !root.join("removed").exists());
}

#[test]
fn git_sees_an_uncommitted_change_with_an_equal_stat() {
    let second = |place: &Path| fs::symlink_metadata(place).unwrap().ctime();
    // Git may know the seconds alone, so both are written within the one they were made in.
    let (sandbox, repo, mut worktree) = loop {
        let sandbox = Sandbox::new();
        let repo = sandbox.open("repo");
        let mut worktree = sandbox.worktree(&repo);
        let places = ["a.txt", "run.sh"].map(|name| worktree.root().join(name));
        let before = places.each_ref().map(|place| second(place));
        fs::write(&places[0], "A\n").unwrap();
        git::worktree::snapshot_setup(&mut worktree, true).unwrap();
        fs::write(&places[1], "#!/bin/SH\n").unwrap();
        if places.each_ref().map(|place| second(place)) == before {
            break (sandbox, repo, worktree);
        }
    };
    let root = worktree.root().to_owned();
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let limits = CommitLimits { max_file: 1, ..CommitLimits::default() };
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &limits).unwrap();
    sandbox.write("now", "");
    assert_eq!(written.held_back.len(), 1);
    // The clock of the file system tells when the second is over.
    while second(&sandbox.path("now")) <= second(&root.join("run.sh")) {
        sandbox.write("now", "");
    }
    git::worktree::follow(&mut worktree, repo.head().unwrap().commit).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), " M a.txt\n M run.sh");
    sandbox.git(&root, &["checkout", "."]);
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "a\n");
}

#[test]
fn removed_ignored_files_of_a_setup_are_reported_lost() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitignore", "deps/\n*.o\n");
    sandbox.commit("repo", "rules");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let (root, tree) = (worktree.root().to_owned(), worktree.tree());
    let write = |path: &str, text: &str| {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    };
    write("deps/a/lib", "s");
    write("one.o", "s");
    write("seen", "s");
    assert_eq!(git::worktree::snapshot_setup(&mut worktree, true).unwrap(), [("seen".into(), false)]);
    // What git ignores stays, and what others have it ignore is nothing of the setup's.
    write(".gitignore", "deps/\n*.o\nbuild\n");
    write("build", "theirs");
    write("new", "theirs");
    git::worktree::restore(&mut worktree, tree).unwrap();
    git::worktree::restore(&mut worktree, tree).unwrap();
    assert!(
        !root.join("build").exists() && root.join("deps/a/lib").exists() && !git::worktree::has_lost_setup(&worktree)
    );
    write(".gitignore", "*.o\n");
    let done = git::worktree::restore(&mut worktree, tree).unwrap();
    assert_eq!(done.removed, ["deps/a/lib".into()]);
    let mut worktree = git::worktree::open(&repo, &root).unwrap();
    assert!(git::worktree::has_lost_setup(&worktree), "that is noted");
    write("mine", "work");
    let before = git::worktree::scan_all(&mut worktree).unwrap();
    write("deps/a/lib", "s");
    write("mine", "work the setup has added to");
    write("more", "s");
    assert_eq!(git::worktree::snapshot_setup_again(&mut worktree, &before).unwrap(), [("more".into(), false)]);
    assert!(!git::worktree::has_lost_setup(&worktree));
    assert_eq!(git::worktree::scan_all(&mut worktree).unwrap().paths().collect::<Vec<_>>(), ["mine".into()]);
    let mut worktree = git::worktree::open(&repo, &root).unwrap();
    assert!(!git::worktree::has_lost_setup(&worktree));
    write(".gitignore", "");
    git::worktree::restore(&mut worktree, tree).unwrap();
    assert!(git::worktree::has_lost_setup(&worktree) && root.join("seen").exists() && root.join("more").exists());
}
