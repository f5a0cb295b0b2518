//! Worktrees that have only some files of the tree: what is left out, what is made in its place, and what comes back.

use std::fs;
use std::path::Path;

use git::{Repo, Worktree};
use pleach_core::ids::CommitId;

use super::worktree::{change_in_rounds, many_files};
use super::{Sandbox, names, record, spec};

#[test]
fn a_sparse_worktree_does_not_delete_what_it_leaves_out() {
    for sparse_index in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.write("repo/out/one", "1");
        sandbox.write("repo/out/deep/two", "2");
        sandbox.write("repo/zone/z", "z");
        sandbox.commit("repo", "more");
        let repo = sandbox.open("repo");
        let root = sandbox.path("sparse");
        sandbox.git("repo", &["worktree", "add", "-q", "--detach", "--no-checkout", root.to_str().unwrap()]);
        let flag = if sparse_index { "--sparse-index" } else { "--no-sparse-index" };
        sandbox.git(&root, &["sparse-checkout", "set", "--cone", flag, "src"]);
        sandbox.git(&root, &["checkout", "-q"]);
        assert!(!root.join("out").exists());
        let mut worktree = git::worktree::open(&repo, &root).unwrap();
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
        fs::write(root.join("src/b.txt"), "changed").unwrap();
        let written = record(&repo, &mut worktree);
        assert_eq!(names(&written.paths), ["src/b.txt"]);
        assert!(repo.tree_file(written.tree, &"out/deep/two".into()).unwrap().is_some());
        // What an agent writes outside the cone is work all the same.
        fs::create_dir_all(root.join("out/deep")).unwrap();
        fs::write(root.join("out/deep/two"), "changed").unwrap();
        let written = record(&repo, &mut worktree);
        assert_eq!(names(&written.paths), ["out/deep/two"]);
        let mut writer = repo.writer();
        let commit = writer.commit(&spec(written.tree, &[repo.head().unwrap().commit], "turn")).unwrap();
        writer.flush().unwrap();
        git::worktree::follow(&mut worktree, commit).unwrap();
        assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
        assert_eq!(sandbox.git(&root, &["write-tree"]), written.tree.to_string());
        assert!(!root.join("zone").exists());
    }
}

#[test]
fn excluded_files_are_absent_and_stay_unchanged() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.claude/settings.json", "{}");
    sandbox.write("repo/deep/.claude/kept", "k");
    sandbox.write("repo/old.txt", "old");
    sandbox.commit("repo", "more");
    let repo = sandbox.open("repo");
    let config = fs::read(sandbox.path("repo/.git/config")).unwrap();
    let rules = ["!/.claude/", "!/old.txt"].map(str::to_owned);
    let root = sandbox.path("some of it");
    let base = repo.head().unwrap().commit;
    let mut worktree = git::worktree::add_sparse(&repo, &root, base, &rules).unwrap();
    assert!(!root.join(".claude").exists() && !root.join("old.txt").exists());
    assert!(root.join("a.txt").is_file() && root.join("deep/.claude/kept").is_file());
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "", "git in the worktree sees nothing missing");
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    fs::write(root.join("a.txt"), "changed").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["a.txt"]);
    let mut writer = repo.writer();
    let commit = writer.commit(&spec(written.tree, &[base], "turn")).unwrap();
    writer.flush().unwrap();
    git::worktree::follow(&mut worktree, commit).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&root, &["write-tree"]), written.tree.to_string());
    git::worktree::restore(&mut worktree, repo.tree_of(base).unwrap()).unwrap();
    drop(worktree);
    let mut worktree = git::worktree::open(&repo, &root).unwrap();
    worktree.accept(repo.tree_of(base).unwrap()).unwrap();
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "also when it is opened again");
    assert!(!root.join(".claude").exists() && !root.join("old.txt").exists());
    for file in [".claude/settings.json", "old.txt"] {
        assert!(repo.tree_file(written.tree, &file.into()).unwrap().is_some(), "{file}");
    }
    assert_eq!(fs::read(sandbox.path("repo/.git/config")).unwrap(), config, "the user's settings stay");
    // An agent that makes what was left out has made it.
    fs::create_dir(root.join(".claude")).unwrap();
    fs::write(root.join(".claude/settings.json"), "{1}").unwrap();
    assert_eq!(names(&record(&repo, &mut worktree).paths), [".claude/settings.json"]);
}

/// Where most files are left out, what is made in their place is seen as git sees it.
#[test]
fn sparse_worktrees_give_the_trees_of_git_add() {
    for (rules, seed) in [(&["--cone", "d0/e0", "d1"][..], 5), (&["--no-cone", "/*", "!/d1/", "!/d2/e1/", "!f3"], 6)] {
        let sandbox = Sandbox::new();
        many_files(&sandbox);
        let repo = sandbox.open("repo");
        let root = sandbox.path("sparse");
        sandbox.git("repo", &["worktree", "add", "-q", "--detach", "--no-checkout", root.to_str().unwrap()]);
        sandbox.git(&root, &[&["sparse-checkout", "set"], rules].concat());
        sandbox.git(&root, &["checkout", "-q"]);
        change_in_rounds(&sandbox, &repo, git::worktree::open(&repo, &root).unwrap(), seed);
    }
}

/// A worktree without `.claude/` and `old.txt`.
fn some_of_it(sandbox: &Sandbox, repo: &Repo) -> (Worktree, CommitId) {
    sandbox.write("repo/.claude/settings.json", "{}");
    sandbox.write("repo/old.txt", "old");
    sandbox.commit("repo", "more");
    let base = repo.head().unwrap().commit;
    let rules = ["!/.claude/", "!/old.txt"].map(str::to_owned);
    (git::worktree::add_sparse(repo, &sandbox.path("some"), base, &rules).unwrap(), base)
}

#[test]
fn marks_the_agent_takes_off_remove_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let (mut worktree, _) = some_of_it(&sandbox, &repo);
    let root = worktree.root().to_owned();
    sandbox.git(&root, &["update-index", "--no-skip-worktree", "old.txt", ".claude/settings.json"]);
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    assert!(git::worktree::scan_all(&mut git::worktree::open(&repo, &root).unwrap()).unwrap().is_empty());
    fs::remove_file(worktree.git_dir().join("index")).unwrap();
    assert!(git::worktree::scan_all(&mut git::worktree::open(&repo, &root).unwrap()).unwrap().is_empty());
    sandbox.git(&root, &["reset", "-q"]);
    assert!(git::worktree::scan_all(&mut git::worktree::open(&repo, &root).unwrap()).unwrap().is_empty());
}

#[test]
fn work_of_an_interrupted_node_is_restored() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let (mut worktree, base) = some_of_it(&sandbox, &repo);
    let root = worktree.root().to_owned();
    fs::create_dir(root.join(".claude")).unwrap();
    fs::write(root.join(".claude/notes"), "n").unwrap();
    fs::write(root.join("old.txt"), "new").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), [".claude/notes", "old.txt"]);
    fs::remove_dir_all(root.join(".claude")).unwrap();
    fs::write(root.join("old.txt"), "spoilt").unwrap();
    drop(worktree);
    let mut worktree = git::worktree::open(&repo, &root).unwrap();
    git::worktree::reset_to(&mut worktree, base, written.tree).unwrap();
    assert_eq!(fs::read_to_string(root.join(".claude/notes")).unwrap(), "n");
    assert_eq!(fs::read_to_string(root.join("old.txt")).unwrap(), "new");
    assert!(!root.join(".claude/settings.json").exists());
    // It can be removed like any other file, and another start leaves out again what was there before.
    fs::remove_file(root.join("old.txt")).unwrap();
    assert_eq!(names(&record(&repo, &mut worktree).paths), ["old.txt"]);
    git::worktree::reset_to(&mut worktree, base, repo.tree_of(base).unwrap()).unwrap();
    assert!(!root.join(".claude").exists() && !root.join("old.txt").exists());
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
}

#[test]
fn setup_changes_to_excluded_files_are_restored() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let (mut worktree, base) = some_of_it(&sandbox, &repo);
    let (root, tree) = (worktree.root().to_owned(), repo.tree_of(base).unwrap());
    fs::write(root.join("old.txt"), "set up").unwrap();
    git::worktree::snapshot_setup(&mut worktree, true).unwrap();
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    for spoil in [|path: &Path| fs::write(path, "x"), |path: &Path| fs::remove_file(path)] {
        spoil(&root.join("old.txt")).unwrap();
        git::worktree::restore(&mut worktree, tree).unwrap();
        assert_eq!(fs::read_to_string(root.join("old.txt")).unwrap(), "set up");
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    }
}

#[test]
fn files_newly_matched_by_a_rule_are_absent() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let (mut worktree, base) = some_of_it(&sandbox, &repo);
    let root = worktree.root().to_owned();
    sandbox.write("repo/.claude/new", "n");
    sandbox.write("repo/.claude/settings.json", "{1}");
    sandbox.write("repo/new", "n");
    sandbox.commit("repo", "later");
    let later = repo.head().unwrap().commit;
    for commit in [later, base, later] {
        let tree = repo.tree_of(commit).unwrap();
        git::worktree::reset_to(&mut worktree, commit, tree).unwrap();
        assert!(!root.join(".claude").exists());
        assert_eq!(root.join("new").exists(), commit == later);
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
        assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
        assert_eq!(sandbox.git(&root, &["write-tree"]), tree.to_string());
    }
}

#[test]
fn other_rules_come_beside_the_repositorys_own() {
    for own in [None, Some("--cone"), Some("--no-cone")] {
        let sandbox = Sandbox::new();
        sandbox.write("repo/out/o", "o");
        sandbox.write("repo/src/deep/d", "d");
        sandbox.commit("repo", "more");
        if let Some(kind) = own {
            let rules: &[&str] = if kind == "--cone" { &["src"] } else { &["/*", "!/out/"] };
            sandbox.git("repo", &[&["sparse-checkout", "set", kind], rules].concat());
        }
        let repo = sandbox.open("repo");
        let base = repo.head().unwrap().commit;
        let root = sandbox.path("some");
        let mut worktree = git::worktree::add(&repo, &root, base).unwrap();
        let there = || -> Vec<&str> {
            let all = ["a.txt", "out/o", "run.sh", "src/b.txt", "src/deep/d"];
            all.into_iter().filter(|path| root.join(path).exists()).collect()
        };
        let all = there();
        assert_eq!(all.contains(&"out/o"), own.is_none());
        for (rules, left_out) in [
            (&["!/src/deep/", "!/a.txt"][..], &["a.txt", "src/deep/d"][..]),
            (&["!/src/"], &["src/b.txt", "src/deep/d"]),
            (&[], &[]),
            (&["!/run.sh"], &["run.sh"]),
        ] {
            let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
            git::worktree::apply_sparse_rules(&mut worktree, &rules, base).unwrap();
            let expected: Vec<&str> = all.iter().copied().filter(|path| !left_out.contains(path)).collect();
            assert_eq!(there(), expected, "{own:?} {rules:?}");
            assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
            assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
            // Also for whoever opens it next, and for git where it keeps to rules by itself.
            worktree = git::worktree::open(&repo, &root).unwrap();
            sandbox.git(&root, &["reset", "-q", "--hard"]);
            assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
            assert_eq!(there(), expected, "{own:?} {rules:?}");
        }
    }
}
