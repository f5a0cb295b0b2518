//! Bringing files back to a tree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use git::CommitLimits;
use pleach_core::ids::RepoPath;

use super::{Sandbox, names, record, spec};

#[test]
fn files_become_what_the_tree_has() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitignore", "*.o\n");
    sandbox.write("repo/dir/one", "1\n");
    sandbox.write("repo/dir/two", "2\n");
    sandbox.write("repo/file", "file\n");
    symlink("a.txt", sandbox.path("repo/link")).unwrap();
    fs::write(sandbox.path("repo").join(OsStr::from_bytes(b"n\xff")), "raw\n").unwrap();
    sandbox.commit("repo", "more");
    let repo = sandbox.open("repo");
    let base = repo.tree_of(repo.head().unwrap().commit).unwrap();
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();

    fs::write(root.join("a.txt"), "changed").unwrap();
    fs::set_permissions(root.join("a.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(root.join("dir")).unwrap();
    symlink("src", root.join("dir")).unwrap();
    fs::remove_file(root.join("file")).unwrap();
    fs::create_dir_all(root.join("file/deep")).unwrap();
    fs::write(root.join("file/deep/x"), "x").unwrap();
    fs::write(root.join("file/ignored.o"), "o").unwrap();
    fs::remove_file(root.join("link")).unwrap();
    fs::write(root.join("link"), "a.txt").unwrap();
    fs::remove_file(root.join(OsStr::from_bytes(b"n\xff"))).unwrap();
    fs::create_dir_all(root.join("new/empty")).unwrap();
    fs::write(root.join("new/file\n"), "n").unwrap();
    fs::write(root.join("kept.o"), "build output").unwrap();
    fs::set_permissions(root.join("new"), fs::Permissions::from_mode(0o500)).unwrap();
    sandbox.git(&root, &["init", "-q", "inner"]);

    let changed = record(&repo, &mut worktree);
    let done = git::worktree::restore(&mut worktree, base).unwrap();
    assert_eq!(names(&done.nested), ["inner"]);
    assert_eq!(names(&done.removed), ["dir", "file/deep/x", "\"new/file\\n\""]);
    assert_eq!(fs::read_to_string(root.join("dir/two")).unwrap(), "2\n");
    assert_eq!(fs::read_link(root.join("link")).unwrap().to_str(), Some("a.txt"));
    assert_eq!(fs::read_to_string(root.join("kept.o")).unwrap(), "build output");
    assert!(root.join("inner/.git").exists());
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "?? inner/");
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    assert_eq!(fs::metadata(root.join("run.sh")).unwrap().permissions().mode() & 0o100, 0o100);

    // And forth again, which needs every kind of change the other way round.
    fs::remove_dir_all(root.join("inner")).unwrap();
    git::worktree::restore(&mut worktree, changed.tree).unwrap();
    assert_eq!(sandbox.git_tree(&root), changed.tree.to_string());
    assert_eq!(worktree.tree(), changed.tree);
}

#[test]
fn a_reset_restores_turn_files_and_node_head() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    fs::write(root.join("a.txt"), "turn one\n").unwrap();
    fs::write(root.join("new"), "new\n").unwrap();
    let turn = record(&repo, &mut worktree).tree;
    // The crash: more work, a commit of the agent's own, a merge half done, locks, the link gone.
    fs::write(root.join("a.txt"), "lost\n").unwrap();
    sandbox.git(&root, &["commit", "-qam", "agent"]);
    fs::write(root.join("other"), "lost\n").unwrap();
    fs::write(worktree.git_dir().join("MERGE_HEAD"), format!("{base}\n")).unwrap();
    fs::write(worktree.git_dir().join("index.lock"), "").unwrap();
    fs::remove_file(root.join(".git")).unwrap();
    drop(worktree);

    let mut worktree = git::worktree::open(&repo, &root).unwrap();
    let done = git::worktree::reset_to(&mut worktree, base, turn).unwrap();
    assert_eq!(names(&done.removed), ["other"]);
    assert_eq!(sandbox.git(&root, &["rev-parse", "HEAD"]), base.to_string());
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), " M a.txt\n?? new");
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "turn one\n");
    assert_eq!(worktree.tree(), turn);
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());

    let mut writer = repo.writer();
    let commit = writer.commit(&spec(turn, &[base], "turn")).unwrap();
    writer.flush().unwrap();
    git::worktree::reset_to(&mut worktree, commit, turn).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&root, &["rev-parse", "HEAD"]), commit.to_string());
    // Another worktree at another commit is brought over as well.
    let mut other = git::worktree::add(&repo, &sandbox.path("other"), base).unwrap();
    let done = git::worktree::reset_to(&mut other, commit, turn).unwrap();
    assert_eq!(names(&done.written), ["a.txt", "new"]);
    assert_eq!(sandbox.git("other", &["status", "--porcelain"]), "");
}

#[test]
fn files_come_back_through_the_filters_they_went_in_by() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitattributes", "*.crlf text eol=crlf\n");
    sandbox.write("repo/x.crlf", "a\r\nb\r\n");
    sandbox.commit("repo", "crlf");
    let repo = sandbox.open("repo");
    let base = repo.tree_of(repo.head().unwrap().commit).unwrap();
    assert_eq!(repo.tree_file(base, &"x.crlf".into()).unwrap().unwrap(), b"a\nb\n");
    let mut worktree = sandbox.worktree(&repo);
    let file = worktree.root().join("x.crlf");
    fs::write(&file, "other").unwrap();
    fs::write(worktree.root().join(".gitattributes"), "*.crlf text eol=lf\n").unwrap();
    git::worktree::restore(&mut worktree, base).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"a\r\nb\r\n");
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
}

#[test]
fn spared_files_stay_uncommitted() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    for path in ["a.txt", "new", "run.sh", "deep"] {
        fs::write(root.join(path), "held back").unwrap();
    }
    let limits = CommitLimits { max_file: 1, ..CommitLimits::default() };
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &limits).unwrap();
    let held = written.held_back.into_iter().map(|held| (held.path, held.seen)).collect();
    fs::write(root.join("run.sh"), "written").unwrap();
    fs::remove_file(root.join("deep")).unwrap();
    fs::create_dir(root.join("deep")).unwrap();
    fs::write(root.join("deep/er"), "other").unwrap();
    let spared = git::worktree::untouched_files(&worktree, &held);
    assert_eq!(names(&spared.iter().cloned().collect::<Vec<_>>()), ["a.txt", "new"]);
    let tree = repo.tree_of(base).unwrap();
    let done = git::worktree::reset_sparing(&mut worktree, base, tree, &spared).unwrap();
    assert_eq!((names(&done.written), names(&done.removed)), (vec!["run.sh".into()], vec!["deep/er".into()]));
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "held back");
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), " M a.txt\n?? new");
    // What is where the tree has a directory has to go.
    fs::remove_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src"), "held back").unwrap();
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &limits).unwrap();
    let mut held = written.held_back.into_iter().map(|held| (held.path, held.seen)).collect::<BTreeMap<_, _>>();
    assert_eq!(
        names(&git::worktree::untouched_files(&worktree, &held).into_iter().collect::<Vec<_>>()),
        ["a.txt", "new"]
    );
    // Unless that is to stay gone as well.
    held.extend(written.withheld.into_iter().map(|path| (path, None)));
    let spared = git::worktree::untouched_files(&worktree, &held);
    assert_eq!(spared.len(), held.len());
    git::worktree::reset_sparing(&mut worktree, base, tree, &spared).unwrap();
    assert_eq!(fs::read_to_string(root.join("src")).unwrap(), "held back");
    fs::remove_file(root.join("src")).unwrap();
    assert!(!git::worktree::untouched_files(&worktree, &held).contains(&RepoPath::from("src")));
    git::worktree::reset_to(&mut worktree, base, tree).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
}

#[test]
fn files_in_a_submodule_directory_are_spared_or_removed() {
    let sandbox = Sandbox::new();
    sandbox.submodule("repo", "sm");
    sandbox.submodule("repo", "dir/sm");
    let repo = sandbox.open("repo");
    let (base, mut worktree) = (repo.head().unwrap().commit, sandbox.worktree(&repo));
    let (root, tree) = (worktree.root().to_owned(), worktree.tree());
    fs::remove_dir_all(root.join("dir")).unwrap();
    for path in ["sm/f", "sm/g", "dir"] {
        fs::write(root.join(path), "held back").unwrap();
    }
    let written = record(&repo, &mut worktree);
    let held = written.held_back.into_iter().map(|held| (held.path, held.seen)).collect();
    fs::write(root.join("sm/g"), "written").unwrap();
    fs::write(root.join("sm/new"), "new").unwrap();
    let spared = git::worktree::untouched_files(&worktree, &held);
    assert_eq!(names(&spared.iter().cloned().collect::<Vec<_>>()), ["dir", "sm/f"]);
    let done = git::worktree::reset_sparing(&mut worktree, base, tree, &spared).unwrap();
    assert_eq!((names(&done.written), names(&done.removed)), (vec![], vec!["sm/g".into(), "sm/new".into()]));
    assert_eq!(fs::read_to_string(root.join("dir")).unwrap(), "held back");
    let done = git::worktree::reset_to(&mut worktree, base, tree).unwrap();
    assert_eq!(
        (names(&done.written), names(&done.removed)),
        (vec!["dir/sm".into()], vec!["dir".into(), "sm/f".into()])
    );
    assert!(root.join("sm").is_dir() && root.join("dir/sm").is_dir());
    // Where nothing else is to be restored, the places alone are.
    fs::remove_dir_all(root.join("sm")).unwrap();
    fs::remove_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir"), "in the way").unwrap();
    let gone = record(&repo, &mut worktree).gone;
    assert_eq!(names(&gone), ["dir/sm", "sm"]);
    git::worktree::restore_submodule_dirs(&worktree, &gone).unwrap();
    assert!(root.join("sm").is_dir() && root.join("dir").is_file());
}
