//! From files to trees, and a worktree that follows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use git::{CommitLimits, EntryKind, Error, HoldReason, Repo, TreeEdit, Worktree};
use pleach_core::config::Environment;
use pleach_core::ids::RepoPath;

use super::{Sandbox, names, record, spec, told};

#[test]
fn a_turn_becomes_a_commit_and_the_worktree_follows() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());

    fs::write(root.join("a.txt"), "changed\n").unwrap();
    fs::write(root.join("new file.txt"), "new\n").unwrap();
    fs::remove_file(root.join("src/b.txt")).unwrap();
    let expected = sandbox.git_tree(&root);
    let written = record(&repo, &mut worktree);
    assert_eq!(written.tree.to_string(), expected);
    assert_eq!(names(&written.paths), ["a.txt", "new file.txt", "src/b.txt"]);
    assert!(written.held_back.is_empty() && written.warnings.is_empty());
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());

    let mut writer = repo.writer();
    let commit = writer.commit(&spec(written.tree, &[base], "first turn\n\nPleach-Record: 1\n")).unwrap();
    writer.flush().unwrap();
    repo.refs().swap("refs/heads/pleach/x/abcdefgh", None, commit, "turn main.1").unwrap();
    assert_eq!(repo.refs().find("refs/heads/pleach/x/abcdefgh").unwrap(), Some(commit));
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), " M a.txt\n D src/b.txt\n?? \"new file.txt\"");

    git::worktree::follow(&mut worktree, commit).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&root, &["rev-parse", "HEAD"]), commit.to_string());
    assert_eq!(sandbox.git(&root, &["write-tree"]), written.tree.to_string());
    assert_eq!(sandbox.git("repo", &["fsck", "--strict"]), "");
    assert_eq!(
        sandbox.git("repo", &["log", "-1", "--format=%an <%ae> %ad", "--date=raw", "pleach/x/abcdefgh"]),
        "pleach <pleach@local> 1700000000 +0000"
    );
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
}

/// Rules that hide files of the tree are seen by whoever looks at it, though they hide themselves. What tools hide in a
/// directory of their own stays hidden.
#[test]
fn ignore_rules_beside_tracked_files_cannot_hide_themselves() {
    for is_odd in [false, true] {
        let sandbox = Sandbox::new();
        let repo = sandbox.open("repo");
        let mut worktree = sandbox.worktree(&repo);
        let root = worktree.root().to_owned();
        if is_odd {
            sandbox.git(&root, &["init", "--quiet", "nested"]);
        }
        fs::write(root.join(".gitignore"), "*\n").unwrap();
        fs::write(root.join("hidden"), "").unwrap();
        fs::create_dir(root.join("cache")).unwrap();
        fs::write(root.join("cache/.gitignore"), "*\n").unwrap();
        fs::write(root.join("cache/hidden"), "").unwrap();
        assert_eq!(named(&mut worktree), [".gitignore"], "odd: {is_odd}");
        // Somebody else says that it is not to be seen.
        fs::write(sandbox.path("repo/.git/info/exclude"), ".gitignore\n").unwrap();
        fs::write(root.join(".gitignore"), "hidden\n").unwrap();
        assert_eq!(named(&mut worktree), [""; 0], "odd: {is_odd}");
    }
}

fn named(worktree: &mut Worktree) -> Vec<String> {
    git::worktree::scan_all(worktree).unwrap().paths().map(|path| path.to_string()).collect()
}

/// Everything git has an opinion about, in one worktree.
#[test]
fn trees_are_the_ones_git_add_writes() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitignore", "*.log\n/build/\n!keep.log\n");
    sandbox.write("repo/tracked.log", "tracked although ignored\n");
    sandbox.write("repo/dir/x", "x\n");
    sandbox.write("repo/was-file", "file\n");
    sandbox.write("repo/mode", "mode\n");
    sandbox.write("repo/link-me", "content\n");
    symlink("a.txt", sandbox.path("repo/link")).unwrap();
    sandbox.git("repo", &["add", "-f", "tracked.log"]);
    sandbox.commit("repo", "more");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();

    fs::write(root.join("tracked.log"), "changed\n").unwrap();
    fs::write(root.join("ignored.log"), "ignored\n").unwrap();
    fs::write(root.join("keep.log"), "negated\n").unwrap();
    fs::create_dir_all(root.join("build/deep")).unwrap();
    fs::write(root.join("build/deep/o"), "o").unwrap();
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::write(root.join("sub/.gitignore"), "*\n!*/\n!wanted\n!.gitignore\n").unwrap();
    fs::write(root.join("sub/deeper/wanted"), "w").unwrap();
    fs::write(root.join("sub/deeper/unwanted"), "u").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    // A file becomes a directory, a directory a file, a file a link, a link a file.
    fs::remove_file(root.join("was-file")).unwrap();
    fs::create_dir(root.join("was-file")).unwrap();
    fs::write(root.join("was-file/inside"), "inside\n").unwrap();
    fs::remove_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir"), "now a file\n").unwrap();
    fs::remove_file(root.join("link-me")).unwrap();
    symlink("nowhere", root.join("link-me")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    fs::write(root.join("link"), "no link\n").unwrap();
    fs::set_permissions(root.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink("src", root.join("dirlink")).unwrap();
    fs::write(root.join("new\nline"), "n").unwrap();
    fs::write(root.join(" spaces "), "s").unwrap();
    fs::write(root.join("\u{e4}\u{1f332}"), "u").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xff\xfe.bin")), "raw").unwrap();
    fs::create_dir(root.join(OsStr::from_bytes(b"d\xff"))).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"d\xff/f")), "raw").unwrap();
    fs::write(root.join("empty-file"), "").unwrap();
    fifo(&root.join("fifo"));

    let expected = sandbox.git_tree(&root);
    let written = record(&repo, &mut worktree);
    assert_eq!(written.tree.to_string(), expected, "{:?}", written.paths);
    assert!(written.held_back.is_empty());
    assert!(written.paths.contains(&RepoPath::new(&b"\xff\xfe.bin"[..])));
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());

    // The same again from what it learned, with an index of git's making thrown away.
    fs::remove_dir_all(root.join("was-file")).unwrap();
    fs::write(root.join("was-file"), "a file again\n").unwrap();
    fs::remove_file(root.join(OsStr::from_bytes(b"\xff\xfe.bin"))).unwrap();
    fs::remove_file(root.join("dir")).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/y"), "y\n").unwrap();
    let expected = sandbox.git_tree(&root);
    assert_eq!(record(&repo, &mut worktree).tree.to_string(), expected);
    let again = git::worktree::open(&repo, &root).unwrap();
    assert_ne!(again.tree(), worktree.tree());
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o644), 0)
        .unwrap();
}

#[test]
fn a_change_that_keeps_size_and_time_is_still_seen() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let file = worktree.root().join("a.txt");
    for round in 0..50 {
        fs::write(&file, format!("{round:02}\n")).unwrap();
        let written = record(&repo, &mut worktree);
        assert_eq!(names(&written.paths), ["a.txt"], "round {round}");
        assert_eq!(repo.tree_file(written.tree, &"a.txt".into()).unwrap().unwrap(), format!("{round:02}\n").as_bytes());
    }
}

#[test]
fn a_released_worktree_is_checked_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    let (root, git_dir) = (worktree.root().to_owned(), worktree.git_dir().to_owned());
    let mut own = base;
    for round in 0..6 {
        let is_lent = round % 2 == 1;
        worktree.acquire();
        git::worktree::follow(&mut worktree, base).unwrap();
        git::worktree::restore_link(&mut worktree).unwrap();
        assert_eq!(git::worktree::agent_head(&worktree).unwrap().unwrap().commit, base, "round {round}");
        worktree.release();
        own = {
            let mut writer = repo.writer();
            let commit = writer.commit(&spec(worktree.tree(), &[own], "an agent's own\n")).unwrap();
            writer.flush().unwrap();
            commit
        };
        fs::write(git_dir.join("HEAD"), format!("{own}\n")).unwrap();
        fs::write(git_dir.join("commondir"), "/elsewhere\n").unwrap();
        fs::write(git_dir.join("gitdir"), "/elsewhere/.git\n").unwrap();
        fs::write(git_dir.join("MERGE_HEAD"), format!("{own}\n")).unwrap();
        fs::create_dir_all(git_dir.join("refs/bisect")).unwrap();
        fs::write(root.join(".git"), "gitdir: /elsewhere\n").unwrap();
        if !is_lent {
            worktree.acquire();
        }
        assert_eq!(git::worktree::agent_head(&worktree).unwrap().unwrap().commit, own, "round {round}");
        git::worktree::restore_link(&mut worktree).unwrap();
        assert_eq!(fs::read_to_string(git_dir.join("commondir")).unwrap(), "../..\n", "round {round}");
        assert_eq!(sandbox.git(&root, &["rev-parse", "HEAD"]), own.to_string(), "round {round}");
        git::worktree::follow(&mut worktree, base).unwrap();
        assert_eq!(git::worktree::agent_head(&worktree).unwrap().unwrap().commit, base, "round {round}");
        assert_eq!(sandbox.git(&root, &["rev-parse", "HEAD"]), base.to_string(), "round {round}");
        assert!(!git_dir.join("MERGE_HEAD").exists() && !git_dir.join("refs/bisect").exists(), "round {round}");
        if is_lent {
            fs::write(git_dir.join("HEAD"), format!("{own}\n")).unwrap();
            assert_eq!(git::worktree::agent_head(&worktree).unwrap().unwrap().commit, own, "nobody has taken it back");
        }
    }
}

/// A few files are read at once, more are left to the library.
#[test]
fn a_few_files_are_judged_as_many_are() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitattributes", "*.dos text eol=crlf\n*.asks filter=none-such\n");
    for number in 0..30 {
        sandbox.write(&format!("repo/many/{number}"), "many\n");
    }
    for name in ["same", "size", "bits", "link", "gone", "dir/gone", "as.dos", "no.dos", "raw.asks", "empty", "shut"] {
        sandbox.write(&format!("repo/few/{name}"), "few\n");
    }
    sandbox.write("repo/few/large", vec![b'x'; 400 * 1024]);
    sandbox.commit("repo", "more");
    let repo = sandbox.open("repo");
    let changed = |many: usize, rules: bool| {
        let place = format!("judged-{many}-{rules}");
        let mut worktree = git::worktree::add(&repo, &sandbox.path(&place), repo.head().unwrap().commit).unwrap();
        let root = worktree.root().to_owned();
        let few = |name: &str| root.join("few").join(name);
        for number in 0..many {
            fs::write(root.join(format!("many/{number}")), "many\n").unwrap();
        }
        for (name, content) in [("same", "few\n"), ("size", "fwe\n"), ("as.dos", "few\r\n"), ("no.dos", "FEW\r\n")] {
            fs::write(few(name), content).unwrap();
        }
        fs::write(few("raw.asks"), "few\n").unwrap();
        fs::write(few("empty"), "").unwrap();
        if many > 0 {
            fs::write(few("large"), vec![b'x'; 400 * 1024]).unwrap();
        }
        fs::set_permissions(few("bits"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(few("shut"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::remove_file(few("link")).unwrap();
        symlink("few\n", few("link")).unwrap();
        fs::remove_file(few("gone")).unwrap();
        fs::remove_file(few("dir/gone")).unwrap();
        if !rules {
            fs::remove_file(root.join(".gitattributes")).unwrap();
        }
        let scan = git::worktree::scan_all(&mut worktree).unwrap();
        let found = names(&scan.paths().collect::<Vec<_>>());
        fs::set_permissions(few("shut"), fs::Permissions::from_mode(0o644)).unwrap();
        found
    };
    let few = changed(0, true);
    assert_eq!(few[..6], ["bits", "dir/gone", "empty", "gone", "link", "no.dos"].map(|name| format!("few/{name}")));
    assert_eq!(few.last().unwrap(), "few/size");
    assert_eq!(few, changed(30, true));
    let without_rules = changed(0, false);
    assert_eq!(without_rules.first().unwrap(), ".gitattributes");
    assert_eq!(without_rules, changed(30, false));
}

/// What pleach puts there itself is in the tree before anybody has looked at it on disk.
#[test]
fn a_copied_file_is_known_until_it_is_rewritten() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let file = worktree.root().join("logs/one.log");
    fs::create_dir(worktree.root().join("logs")).unwrap();
    for round in 0..20 {
        let text = format!("{round:02}\n");
        fs::write(&file, &text).unwrap();
        let mut writer = repo.writer();
        let blob = writer.blob(text.as_bytes()).unwrap();
        let put = [TreeEdit::Put("logs/one.log".into(), EntryKind::File, blob)];
        let tree = writer.tree(Some(worktree.tree()), &put).unwrap();
        let commit = writer.commit(&spec(tree, &[repo.head().unwrap().commit], "a step\n")).unwrap();
        writer.flush().unwrap();
        worktree.accept(tree).unwrap();
        git::worktree::follow(&mut worktree, commit).unwrap();
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "round {round}");
        fs::write(&file, "xx\n").unwrap();
        assert_eq!(
            names(&git::worktree::scan_all(&mut worktree).unwrap().paths().collect::<Vec<_>>()),
            ["logs/one.log"],
            "round {round}"
        );
    }
}

#[test]
fn named_paths_give_what_a_full_scan_gives() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitignore", "*.o\n");
    sandbox.write("repo/d/one", "1");
    sandbox.write("repo/d/two", "2");
    sandbox.write("repo/f", "f");
    sandbox.commit("repo", "more");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let change = |worktree: &mut Worktree, paths: &[&str]| {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let mut writer = repo.writer();
        let scan = git::worktree::scan_paths(worktree, &paths).unwrap();
        let written = git::worktree::commit_tree(worktree, &scan, &mut writer, &CommitLimits::default()).unwrap();
        writer.flush().unwrap();
        assert_eq!(written.tree.to_string(), sandbox.git_tree(&root), "{paths:?}");
        worktree.accept(written.tree).unwrap();
        names(&written.paths)
    };
    fs::write(root.join("a.txt"), "changed").unwrap();
    fs::write(root.join("new"), "new").unwrap();
    fs::write(root.join("x.o"), "ignored").unwrap();
    let absolute = root.join("a.txt");
    assert_eq!(change(&mut worktree, &[absolute.to_str().unwrap(), "./new", "x.o", "never"]), ["a.txt", "new"]);
    // A directory becomes a file, a file a directory.
    fs::remove_dir_all(root.join("d")).unwrap();
    fs::write(root.join("d"), "file").unwrap();
    assert_eq!(change(&mut worktree, &["d"]), ["d", "d/one", "d/two"]);
    fs::remove_file(root.join("f")).unwrap();
    fs::create_dir(root.join("f")).unwrap();
    fs::write(root.join("f/in"), "in").unwrap();
    assert_eq!(change(&mut worktree, &["f/in"]), ["f", "f/in"]);
    // What was only learned in an earlier turn is known.
    fs::remove_file(root.join("new")).unwrap();
    assert_eq!(change(&mut worktree, &["new"]), ["new"]);
    fs::remove_file(root.join("f/in")).unwrap();
    assert_eq!(change(&mut worktree, &["f/in"]), ["f/in"]);
    // Other ignore rules let files appear; a directory may hold anything.
    fs::write(root.join(".gitignore"), "").unwrap();
    assert_eq!(change(&mut worktree, &[".gitignore"]), [".gitignore", "x.o"]);
    fs::write(root.join("src/c"), "c").unwrap();
    assert_eq!(change(&mut worktree, &["src"]), ["src/c"]);
    // A link leads out of the tree; git's own files are no candidates; paths outside make it look everywhere.
    symlink("src", root.join("s")).unwrap();
    assert_eq!(change(&mut worktree, &["s", "s/b.txt", ".git"]), ["s"]);
    fs::write(root.join("z"), "z").unwrap();
    assert_eq!(change(&mut worktree, &["../elsewhere"]), ["z"]);
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
}

#[test]
fn changes_not_accepted_are_found_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    fs::write(worktree.root().join("a.txt"), "one\n").unwrap();
    let mut writer = repo.writer();
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let first = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::default()).unwrap();
    drop(writer);
    assert!(repo.tree_entries(first.tree).is_err(), "nothing is written before the flush");
    let written = record(&repo, &mut worktree);
    assert_eq!((written.tree, names(&written.paths)), (first.tree, vec!["a.txt".to_owned()]));
}

#[test]
fn files_over_a_limit_are_held_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let limits = CommitLimits { max_file: 100, max_new_paths: 2, ..CommitLimits::default() };
    fs::write(root.join("a.txt"), [b'x'; 101]).unwrap();
    fs::write(root.join("run.sh"), [b'x'; 100]).unwrap();
    for name in ["1", "2"] {
        fs::write(root.join(name), "new").unwrap();
    }
    let mut writer = repo.writer();
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &limits).unwrap();
    assert_eq!(names(&written.paths), ["1", "2", "run.sh"]);
    assert_eq!(written.held_back.len(), 1);
    assert_eq!(
        (written.held_back[0].path.to_string(), &written.held_back[0].reason),
        ("a.txt".into(), &HoldReason::TooLarge(101))
    );
    assert_eq!(
        told(&written.warnings),
        ["file-held-back: `a.txt` is not committed: 1 MiB is over the size limit (`commit.max_file_mb`)"]
    );

    fs::write(root.join("3"), "new").unwrap();
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &limits).unwrap();
    assert_eq!(names(&written.paths), ["run.sh"]);
    assert_eq!(written.held_back.iter().filter(|held| held.reason == HoldReason::TooMany(3)).count(), 3);
    let all = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE).unwrap();
    assert_eq!(names(&all.paths), ["1", "2", "3", "a.txt", "run.sh"]);
}

#[test]
fn names_git_refuses_are_held_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    fs::create_dir(root.join("GIT~1")).unwrap();
    for name in ["GIT~1/config", "aux.c", "a\\b", "trailing ", "c:d"] {
        fs::write(root.join(name), "x").unwrap();
    }
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["\"a\\\\b\"", "aux.c", "c:d", "trailing "]);
    assert_eq!(
        told(&written.warnings),
        ["file-held-back: `GIT~1/config` is not committed: git does not allow this name"]
    );
    assert!(sandbox.try_git(&root, &["add", "-A"]).unwrap_err().contains("invalid path 'GIT~1/config'"));
}

#[test]
fn excluded_files_are_committed_only_where_they_are_tracked() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    worktree.exclude(&[".env".into(), "vendor".into(), "a.txt".into()]);
    fs::create_dir(root.join("vendor")).unwrap();
    for name in [".env", "vendor/x", ".envrc", "a.txt"] {
        fs::write(root.join(name), "x").unwrap();
    }
    assert_eq!(names(&record(&repo, &mut worktree).paths), [".envrc", "a.txt"]);
}

#[test]
fn an_unreadable_file_is_held_back_and_the_rest_committed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    fs::write(root.join("secret"), "s").unwrap();
    fs::write(root.join("a.txt"), "changed").unwrap();
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let written = record(&repo, &mut worktree);
    if fs::read(root.join("secret")).is_ok() {
        // Root reads everything.
        assert_eq!(names(&written.paths), ["a.txt", "secret"]);
    } else {
        assert_eq!(names(&written.paths), ["a.txt"]);
        assert!(matches!(written.held_back[0].reason, HoldReason::Unreadable(_)));
    }
}

#[test]
fn nested_repositories_are_named_and_not_committed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    sandbox.git(&root, &["init", "-q", "inner"]);
    fs::write(root.join("inner/file"), "x").unwrap();
    // A repository made where files are tracked does not hide them.
    sandbox.git(&root, &["init", "-q", "src"]);
    fs::write(root.join("src/b.txt"), "changed").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["src/b.txt"]);
    assert_eq!(told(&written.warnings), ["nested-repository: `inner` is a nested repository; it is not committed"]);
    let named = git::worktree::scan_paths(&mut worktree, &["inner/file".into()]).unwrap();
    assert_eq!((named.is_empty(), names(&named.nested)), (true, vec!["inner".to_owned()]));
}

#[test]
fn a_large_file_is_written_in_pieces() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let place = worktree.root().join("large");
    let mut file = fs::File::create(&place).unwrap();
    file.set_len(40 << 20).unwrap();
    file.write_all(b"begin").unwrap();
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"end").unwrap();
    let temporary = || {
        let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
        let files = below(repo.common_dir().join("objects")).flat_map(|entry| below(entry.path()));
        files.filter(|file| file.file_name().to_string_lossy().starts_with("tmp_obj_")).count()
    };
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let mut writer = repo.writer();
    let built = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE).unwrap();
    assert_eq!((names(&built.paths), temporary()), (vec!["large".to_owned()], 1));
    drop(writer);
    assert_eq!(temporary(), 0, "a transition that fails leaves nothing behind");
    let mut writer = repo.writer();
    let built = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE).unwrap();
    writer.flush().unwrap();
    assert_eq!(temporary(), 0);
    let theirs = sandbox.git(worktree.root(), &["hash-object", "large"]);
    let ours = sandbox.git("repo", &["rev-parse", &format!("{}:large", built.tree)]);
    assert_eq!(ours, theirs);
    sandbox.git("repo", &["fsck", "--full", "--no-dangling"]);
}

#[test]
fn submodule_links_are_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.git(".", &["init", "-q", "-b", "main", "library"]);
    sandbox.write("library/l", "1");
    sandbox.commit("library", "one");
    let library = sandbox.path("library");
    sandbox.git(
        "repo",
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.to_str().unwrap(), "lib"],
    );
    sandbox.commit("repo", "submodule");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    assert!(
        git::worktree::scan_all(&mut worktree).unwrap().is_empty(),
        "a submodule that is not checked out is no change"
    );
    sandbox.git(&root, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]);
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    fs::write(root.join("lib/l"), "2").unwrap();
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
    sandbox.git(root.join("lib"), &["commit", "-qam", "two"]);
    fs::write(root.join("a.txt"), "changed").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["a.txt"]);
    assert_eq!(
        told(&written.warnings),
        ["submodule-changed: submodule `lib` moved; its recorded commit does not change"]
    );
    assert_eq!(
        sandbox.git(&root, &["ls-tree", &written.tree.to_string(), "lib"]),
        sandbox.git("repo", &["ls-tree", "HEAD", "lib"])
    );
    // The place of one that is removed can be restored; its files are git's to fetch.
    fs::remove_dir_all(root.join("lib")).unwrap();
    let gone = record(&repo, &mut worktree);
    assert_eq!(
        (gone.tree, told(&gone.warnings)),
        (written.tree, vec!["submodule-changed: submodule `lib` is gone; its recorded commit does not change".into()])
    );
    git::worktree::restore(&mut worktree, written.tree).unwrap();
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty() && root.join("lib").is_dir());
}

/// What is reported held back files that lie where submodules belong.
fn in_the_place(files: &[&str]) -> Vec<String> {
    let why = "it is in the directory of a submodule, whose recorded commit does not change";
    files.iter().map(|file| format!("file-held-back: `{file}` is not committed: {why}")).collect()
}

#[test]
fn a_submodule_link_stays_whatever_becomes_of_its_place() {
    let sandbox = Sandbox::new();
    sandbox.submodule("repo", "sm");
    sandbox.submodule("repo", "dir/sm");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let (root, tree) = (worktree.root().to_owned(), worktree.tree());
    let remove = |path: &str| fs::remove_dir_all(root.join(path)).unwrap();
    let index = |args: &[&str]| drop(sandbox.git(&root, args));
    type Case<'a> = (&'a dyn Fn(), &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        (&|| remove("sm"), &["sm", "is gone"], &[]),
        (
            &|| {
                remove("sm");
                fs::write(root.join("sm"), "x").unwrap();
            },
            &["sm", "is replaced"],
            &["sm"],
        ),
        (
            &|| {
                remove("sm");
                symlink("src", root.join("sm")).unwrap();
            },
            &["sm", "is replaced"],
            &["sm"],
        ),
        (
            &|| {
                remove("sm");
                fifo(&root.join("sm"));
            },
            &["sm", "is gone"],
            &[],
        ),
        (
            &|| {
                remove("dir");
                symlink("src", root.join("dir")).unwrap();
            },
            &["dir/sm", "is gone"],
            &["dir"],
        ),
        (
            &|| {
                index(&["rm", "-q", "--cached", "sm"]);
                fs::write(root.join("sm/f"), "code").unwrap();
            },
            &[],
            &["sm/f"],
        ),
        (
            &|| {
                index(&["rm", "-q", "--cached", "sm"]);
                fs::create_dir_all(root.join("sm")).unwrap();
                fs::write(root.join("sm/f"), "code").unwrap();
                index(&["add", "sm/f"]);
                index(&["commit", "-qm", "files in its place"]);
                fs::write(root.join("sm/gone"), "").unwrap();
                index(&["add", "sm/gone"]);
                index(&["commit", "-qm", "and one that goes again"]);
                fs::remove_file(root.join("sm/gone")).unwrap();
            },
            &[],
            &["sm/f"],
        ),
    ];
    for (at, (change, said, held)) in cases.into_iter().enumerate() {
        change();
        fs::write(root.join("a.txt"), format!("{at}")).unwrap();
        let mut expected: Vec<String> = Vec::new();
        if let [path, what] = said {
            expected.push(format!("submodule-changed: submodule `{path}` {what}; its recorded commit does not change"));
        }
        expected.extend(in_the_place(held));
        let own = git::worktree::agent_head(&worktree)
            .unwrap()
            .map(|head| head.commit)
            .filter(|own| *own != repo.head().unwrap().commit);
        let scan = match own {
            Some(own) => git::worktree::scan_after(&mut worktree, own).unwrap(),
            None => git::worktree::scan_all(&mut worktree).unwrap(),
        };
        let written =
            git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &CommitLimits::default()).unwrap();
        assert_eq!((names(&written.paths), told(&written.warnings)), (vec!["a.txt".to_owned()], expected), "case {at}");
        // A look at what is named sees the same.
        let paths = ["a.txt", "dir", "sm", "sm/f"].map(PathBuf::from);
        let scan = git::worktree::scan_paths(&mut worktree, &paths).unwrap();
        let again =
            git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &CommitLimits::default()).unwrap();
        assert_eq!((again.tree, &again.held_back), (written.tree, &written.held_back), "case {at}");
        // It can be saved, and undone.
        let mut writer = repo.writer();
        let scan = git::worktree::scan_all(&mut worktree).unwrap();
        let saved = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE).unwrap();
        writer.flush().unwrap();
        for path in held {
            let saved = sandbox.git(&root, &["ls-tree", &saved.tree.to_string(), path]);
            assert!(saved.contains(" blob "), "case {at}: {path}");
        }
        git::worktree::reset_to(&mut worktree, repo.head().unwrap().commit, tree).unwrap();
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "case {at}");
        assert!(
            ["sm", "dir/sm"].iter().all(|path| fs::read_dir(root.join(path)).unwrap().next().is_none()),
            "case {at}"
        );
        assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "", "case {at}");
    }
}

#[test]
fn files_in_a_submodule_directory_are_held_back() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitignore", "*.o\n");
    sandbox.commit("repo", "ignore rules");
    sandbox.submodule("repo", "dir/sm");
    sandbox.submodule("repo", "other");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    for path in ["dir/sm/f", "dir/sm/deep/g", "dir/sm/.GIT/x", "dir/sm/h.o"] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), "x").unwrap();
    }
    sandbox.git(&root, &["init", "-q", "dir/sm/inner"]);
    let nested = "nested-repository: `dir/sm/inner` is a nested repository; it is not committed".to_owned();
    let mut expected = vec![nested];
    expected.extend(in_the_place(&["dir/sm/.GIT/x", "dir/sm/deep/g", "dir/sm/f"]));
    let look = |worktree: &mut Worktree| {
        let all = git::worktree::scan_all(worktree).unwrap();
        let named = git::worktree::scan_paths(worktree, &["dir/sm/f".into()]).unwrap();
        [all, named].map(|scan| {
            git::worktree::commit_tree(worktree, &scan, &mut repo.writer(), &CommitLimits::default()).unwrap()
        })
    };
    for written in look(&mut worktree) {
        assert_eq!((written.paths.len(), told(&written.warnings)), (0, expected.clone()));
    }
    // The library looks where there is another repository, and nobody before it where nobody may.
    sandbox.git(&root, &["init", "-q", "another"]);
    fs::set_permissions(root.join("dir"), fs::Permissions::from_mode(0o000)).unwrap();
    for written in look(&mut worktree) {
        let of_those = told(&written.warnings).into_iter().filter(|warning| warning.contains("dir/sm"));
        assert_eq!(of_those.collect::<Vec<_>>(), expected);
    }
    // They count as all new files do.
    fs::write(root.join("new"), "").unwrap();
    let limits = CommitLimits { max_new_paths: 3, ..CommitLimits::default() };
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &limits).unwrap();
    let held: Vec<_> = written.held_back.iter().map(|held| (held.path.to_string(), &held.reason)).collect();
    assert_eq!(
        held[2..],
        [("dir/sm/f".to_owned(), &HoldReason::Submodule), ("new".to_owned(), &HoldReason::TooMany(4))]
    );
    // A submodule that is checked out is a repository of its own.
    fs::remove_dir_all(root.join("dir/sm/.GIT")).unwrap();
    sandbox.git(&root, &["init", "-q", "dir/sm"]);
    let scan = git::worktree::scan_all(&mut worktree).unwrap();
    assert_eq!(names(&scan.paths().collect::<Vec<_>>()), ["new"]);
}

#[test]
fn the_users_checkout_and_index_are_not_touched() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/a.txt", "the user's own change\n");
    sandbox.git("repo", &["add", "a.txt"]);
    sandbox.write("repo/untracked", "u");
    let index = fs::read(sandbox.path("repo/.git/index")).unwrap();
    let head = fs::read(sandbox.path("repo/.git/HEAD")).unwrap();
    let status = sandbox.git("repo", &["-c", "core.checkStat=minimal", "--no-optional-locks", "status", "--porcelain"]);
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    fs::write(worktree.root().join("a.txt"), "agent\n").unwrap();
    let written = record(&repo, &mut worktree);
    let mut writer = repo.writer();
    let commit = writer.commit(&spec(written.tree, &[repo.head().unwrap().commit], "turn")).unwrap();
    writer.flush().unwrap();
    repo.refs().swap("refs/heads/pleach/s", None, commit, "turn").unwrap();
    git::worktree::follow(&mut worktree, commit).unwrap();
    git::worktree::remove(&repo, &sandbox.path("work trees/one")).unwrap();
    assert_eq!(fs::read(sandbox.path("repo/.git/index")).unwrap(), index);
    assert_eq!(fs::read(sandbox.path("repo/.git/HEAD")).unwrap(), head);
    assert_eq!(sandbox.git("repo", &["--no-optional-locks", "status", "--porcelain"]), status);
}

#[test]
fn marks_in_the_agents_index_hide_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    sandbox.git(&root, &["update-index", "--assume-unchanged", "a.txt"]);
    sandbox.git(&root, &["update-index", "--skip-worktree", "src/b.txt"]);
    fs::write(root.join("a.txt"), "one").unwrap();
    fs::write(root.join("src/b.txt"), "two").unwrap();
    fs::write(root.join("new"), "three").unwrap();
    sandbox.git(&root, &["add", "new"]);
    let mut opened = git::worktree::open(&repo, &root).unwrap();
    assert_eq!(names(&record(&repo, &mut opened).paths), ["a.txt", "new", "src/b.txt"]);
    assert_eq!(names(&record(&repo, &mut worktree).paths), ["a.txt", "new", "src/b.txt"]);
    fs::write(sandbox.git(&root, &["rev-parse", "--git-path", "index"]), "garbage").unwrap();
    let mut opened = git::worktree::open(&repo, &root).unwrap();
    assert_eq!(names(&record(&repo, &mut opened).paths), ["a.txt", "new", "src/b.txt"]);
}

#[test]
fn an_agent_that_deletes_its_git_link_loses_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    fs::remove_file(root.join(".git")).unwrap();
    fs::write(root.join("a.txt"), "changed").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["a.txt"]);
    let mut opened = git::worktree::open(&repo, &root).unwrap();
    assert_eq!(names(&record(&repo, &mut opened).paths), ["a.txt"]);
    let mut writer = repo.writer();
    let commit = writer.commit(&spec(written.tree, &[base], "turn")).unwrap();
    writer.flush().unwrap();
    git::worktree::follow(&mut worktree, commit).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
    // Something else in its place is not ours to remove.
    fs::remove_file(root.join(".git")).unwrap();
    sandbox.git(&root, &["init", "-q"]);
    git::worktree::follow(&mut worktree, commit).unwrap();
    let put_aside = worktree.take_moved_aside();
    assert_eq!(put_aside, [root.with_file_name(format!("{}.git-1", root.file_name().unwrap().display()))]);
    assert!(put_aside[0].join("HEAD").exists());
    assert_eq!(sandbox.git(&root, &["status", "--porcelain"]), "");
    fs::write(root.join("a.txt"), "still seen").unwrap();
    assert_eq!(names(&record(&repo, &mut worktree).paths), ["a.txt"]);
}

#[test]
fn commits_and_branches_of_an_agent_are_noticed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    repo.refs().swap("refs/heads/session", None, base, "start").unwrap();
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let head = git::worktree::agent_head(&worktree).unwrap().unwrap();
    assert_eq!((head.commit, head.branch), (base, None));
    sandbox.git(&root, &["checkout", "-q", "session"]);
    sandbox.git(&root, &["commit", "-q", "--allow-empty", "-m", "by the agent"]);
    let head = git::worktree::agent_head(&worktree).unwrap().unwrap();
    assert_eq!(head.branch.unwrap(), "session");
    assert_eq!(repo.refs().find("refs/heads/session").unwrap(), Some(head.commit));
    git::worktree::detach(&mut worktree).unwrap();
    let head = git::worktree::agent_head(&worktree).unwrap().unwrap();
    assert_eq!(head.branch, None);
    assert_ne!(head.commit, base);
    sandbox.git(&root, &["checkout", "-q", "--orphan", "nothing"]);
    assert_eq!(git::worktree::agent_head(&worktree).unwrap(), None);
    git::worktree::follow(&mut worktree, base).unwrap();
    assert_eq!(sandbox.git(&root, &["status", "--porcelain", "-b"]), "## HEAD (no branch)");
}

#[test]
fn merges_and_rebases_left_half_done_are_cleared() {
    for operation in ["merge", "rebase", "cherry-pick", "revert"] {
        let sandbox = Sandbox::new();
        sandbox.git("repo", &["checkout", "-q", "-b", "other"]);
        sandbox.write("repo/a.txt", "theirs\n");
        sandbox.commit("repo", "theirs");
        sandbox.git("repo", &["checkout", "-q", "main"]);
        sandbox.write("repo/a.txt", "ours\n");
        sandbox.commit("repo", "ours");
        sandbox.write("repo/a.txt", "later\n");
        sandbox.commit("repo", "later");
        let repo = sandbox.open("repo");
        let base = repo.head().unwrap().commit;
        let mut worktree = sandbox.worktree(&repo);
        let root = worktree.root().to_owned();
        let target = if operation == "revert" { "HEAD~1" } else { "other" };
        sandbox.try_git(&root, &[operation, target]).expect_err("it stops at a conflict");
        let written = record(&repo, &mut worktree);
        assert_eq!(names(&written.paths), ["a.txt"], "{operation}");
        let mut writer = repo.writer();
        let commit = writer.commit(&spec(written.tree, &[base], "turn")).unwrap();
        writer.flush().unwrap();
        git::worktree::follow(&mut worktree, commit).unwrap();
        let status = sandbox.git(&root, &["status"]);
        assert!(status.contains("nothing to commit, working tree clean"), "{operation}: {status}");
        for word in ["rebas", "merg", "pick", "revert"] {
            assert!(!status.to_lowercase().contains(word), "{operation}: {status}");
        }
    }
}

#[test]
fn stale_lock_files_of_a_killed_git_are_removed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut worktree = sandbox.worktree(&repo);
    for name in ["index.lock", "HEAD.lock"] {
        fs::write(worktree.git_dir().join(name), "").unwrap();
    }
    git::worktree::follow(&mut worktree, base).unwrap();
    assert!(!worktree.git_dir().join("index.lock").exists());
    assert_eq!(sandbox.git(worktree.root(), &["status", "--porcelain"]), "");
}

#[test]
fn worktrees_are_listed_and_removed_in_any_state() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let paths: Vec<PathBuf> = ["one", "tw\no", "three"].iter().map(|name| sandbox.path(name)).collect();
    for path in &paths {
        git::worktree::add(&repo, path, base).unwrap();
    }
    let listed = git::worktree::list(&repo).unwrap();
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[0].branch.as_deref(), Some("refs/heads/main"));
    assert!(listed.iter().any(|entry| entry.path.ends_with("tw\no") && entry.head == Some(base)));
    assert!(matches!(git::worktree::add(&repo, &paths[0], base), Err(Error::PlaceTaken { .. })));
    fs::remove_file(paths[0].join(".git")).unwrap();
    fs::create_dir(paths[1].join("locked")).unwrap();
    fs::write(paths[1].join("locked/file"), "x").unwrap();
    fs::set_permissions(paths[1].join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::remove_dir_all(&paths[2]).unwrap();
    for path in &paths {
        git::worktree::remove(&repo, path).unwrap();
        assert!(!path.exists());
    }
    assert_eq!(git::worktree::list(&repo).unwrap().len(), 1);
    for _ in 0..2 {
        git::worktree::add(&repo, &paths[2], base).unwrap();
        fs::remove_dir_all(&paths[2]).unwrap();
    }
    git::worktree::prune(&repo).unwrap();
    assert_eq!(git::worktree::list(&repo).unwrap().len(), 1);
}

#[test]
fn eight_worktrees_made_at_once_do_not_disturb_each_other() {
    let sandbox = Sandbox::new();
    // Enough that git checks them out by several processes.
    for number in 0..150 {
        sandbox.write(&format!("repo/many/{number}.txt"), format!("{number}\n"));
    }
    sandbox.commit("repo", "many");
    let base = sandbox.open("repo").head().unwrap().commit;
    let paths: Vec<PathBuf> = (0..8).map(|number| sandbox.path(&format!("slots/{number}/main"))).collect();
    std::thread::scope(|scope| {
        let (sandbox, paths) = (&sandbox, &paths);
        for path in paths {
            scope.spawn(move || {
                let repo = sandbox.open("repo");
                let other = path.with_file_name("other");
                // Another one comes and goes meanwhile, and its name is free again.
                git::worktree::add(&repo, &other, base).unwrap();
                git::worktree::remove(&repo, &other).unwrap();
                let mut made = git::worktree::add(&repo, path, base).unwrap();
                git::worktree::prune(&repo).unwrap();
                assert!(git::worktree::scan_all(&mut made).unwrap().is_empty());
            });
        }
    });
    let repo = sandbox.open("repo");
    assert_eq!(git::worktree::list(&repo).unwrap().len(), 9);
    let git_dirs: BTreeSet<PathBuf> =
        paths.iter().map(|path| git::worktree::open(&repo, path).unwrap().git_dir().to_owned()).collect();
    assert_eq!(git_dirs.len(), 8, "each has a git directory of its own");
    for path in &paths {
        assert_eq!(sandbox.git(path, &["status", "--porcelain"]), "");
        assert_eq!(sandbox.git(path, &["rev-parse", "HEAD"]), base.to_string());
        assert_eq!(sandbox.git(path, &["ls-files", "many"]).lines().count(), 150);
    }
    assert_eq!(sandbox.git("repo", &["worktree", "prune", "--verbose", "--dry-run"]), "", "none is half made");
}

#[test]
fn errors_of_worktrees_are_told_apart() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    sandbox.write("taken/file", "x\n");
    let taken = sandbox.path("taken");
    let outside = git::discover(&sandbox.path("home"), &Environment::from_pairs(sandbox.variables()));
    assert!(matches!(outside, Err(Error::NotARepository { .. })), "{outside:?}");
    let exists = git::worktree::add(&repo, &taken, base);
    assert!(matches!(&exists, Err(Error::PlaceTaken { path }) if *path == taken), "{exists:?}");
    for path in [sandbox.path("nowhere"), taken] {
        let missing = git::worktree::open(&repo, &path);
        assert!(matches!(&missing, Err(Error::NoSuchWorktree { .. })), "{missing:?}");
    }
    let unknown = "1234567812345678123456781234567812345678".parse().unwrap();
    let failed = git::worktree::add(&repo, &sandbox.path("other"), unknown);
    let Err(Error::NoWorktree(failure)) = failed else { panic!("{failed:?}") };
    assert!(failure.to_string().contains("invalid reference"), "git's own words: {failure}");
    assert!(!sandbox.path("other").exists());
}

#[test]
fn a_worktree_can_be_handed_to_another_thread() {
    fn sendable<T: Send>() {}
    fn shareable<T: Send + Sync + Clone>() {}
    sendable::<Worktree>();
    shareable::<Repo>();
}

/// Changes at random, of every kind that makes a scan take another way: what a directory, a file, a link and an ignore rule
/// can become.
#[test]
fn random_changes_give_the_trees_of_git_add() {
    let sandbox = Sandbox::new();
    many_files(&sandbox);
    let repo = sandbox.open("repo");
    let worktree = sandbox.worktree(&repo);
    change_in_rounds(&sandbox, &repo, worktree, 15);
}

/// Commits files in directories below each other.
pub(super) fn many_files(sandbox: &Sandbox) {
    for at in 0..30 {
        sandbox.write(&format!("repo/d{}/e{}/f{at}", at % 3, at % 2), format!("{at}\n"));
        sandbox.write(&format!("repo/d{}/g{at}.o", at % 3), "");
    }
    sandbox.commit("repo", "more");
}

/// Changes files at random and compares each time.
pub(super) fn change_in_rounds(sandbox: &Sandbox, repo: &Repo, mut worktree: Worktree, seed: u64) {
    let root = worktree.root().to_owned();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..120 {
        let changes: Vec<String> = (0..random.usize(..4)).map(|_| change_something(&root, &mut random)).collect();
        let expected = sandbox.git_tree(&root);
        let written = record(repo, &mut worktree);
        assert_eq!(written.tree.to_string(), expected, "round {round}: {changes:?}");
        assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty(), "round {round}: {changes:?}");
        // What is in the index stays in the tree when it is ignored later: git has to know the same files.
        let mut writer = repo.writer();
        let commit = writer.commit(&spec(written.tree, &[], "round")).unwrap();
        writer.flush().unwrap();
        git::worktree::follow(&mut worktree, commit).unwrap();
        if random.u8(..4) == 0 {
            worktree = git::worktree::open(repo, &root).unwrap();
        }
    }
}

/// Changes something below a directory, and says what.
fn change_something(root: &Path, random: &mut fastrand::Rng) -> String {
    let parts = ["d0", "d1", "d2", "e0", "e1", "f3", "f4", "g6.o", "a.txt", "build", "n.o", "é x"];
    let path: PathBuf = (0..=random.usize(..3)).map(|_| parts[random.usize(..parts.len())]).collect();
    let (place, what) = (root.join(&path), random.usize(..9));
    if place.symlink_metadata().is_ok_and(|there| !there.is_dir()) && what != 8 {
        fs::remove_file(&place).unwrap();
    }
    // A file or link on the way is in the way: then nothing happens.
    let _ = fs::create_dir_all(place.parent().unwrap());
    let _ = match what {
        0 => fs::remove_dir_all(&place),
        1 => fs::remove_dir_all(&place).or(Ok(())).and_then(|()| fs::write(&place, "in place of a directory\n")),
        2 => fs::remove_dir_all(&place).or(Ok(())).and_then(|()| symlink("../d0", &place)),
        3 => fs::create_dir_all(place.join("empty")),
        4 => fs::create_dir_all(place.join("x")).and_then(|()| fs::write(place.join("x/y.o"), "y\n")),
        5 => fs::write(
            place.parent().unwrap().join(".gitignore"),
            ["*.o\n", "build/\n!n.o\n", "/e0\n", ""][random.usize(..4)],
        ),
        6 | 7 => fs::write(&place, format!("{}\n", random.u8(..))),
        _ => fs::set_permissions(&place, fs::Permissions::from_mode(if random.bool() { 0o755 } else { 0o644 })),
    };
    format!("{what} at {}", path.display())
}

/// What a killed run leaves when its agent has made the worktree belong to the user's checkout.
#[test]
fn a_link_to_another_git_directory_is_not_followed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let root = sandbox.worktree(&repo).root().to_owned();
    let own = sandbox.git(&root, &["rev-parse", "--absolute-git-dir"]);
    sandbox.git("repo", &["worktree", "add", "-q", "--detach", "../second"]);
    let git = sandbox.path("repo/.git").canonicalize().unwrap();
    for (link, is_known) in [("", true), ("/worktrees/second", true), ("", false), ("/worktrees/second", false)] {
        fs::write(root.join(".git"), format!("gitdir: {}{link}\n", git.display())).unwrap();
        if !is_known {
            // Its own git directory says nothing of it either.
            fs::write(Path::new(&own).join("gitdir"), "/nowhere/.git\n").unwrap();
        }
        let worktree = git::worktree::open(&repo, &root).unwrap();
        assert_eq!(worktree.git_dir(), Path::new(&own), "by what pleach knows");
        assert_eq!(sandbox.git("repo", &["symbolic-ref", "HEAD"]), "refs/heads/main");
        let second = fs::read_to_string(git.join("worktrees/second/gitdir")).unwrap();
        assert_eq!(second.trim_end(), sandbox.path("second/.git").canonicalize().unwrap().to_str().unwrap());
    }
}

#[test]
fn a_forged_git_directory_is_not_a_user_checkout() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let worktree = sandbox.worktree(&repo);
    let (root, own) = (worktree.root().to_owned(), worktree.git_dir().to_owned());
    for name in ["second", "one"] {
        sandbox.git("repo", &["branch", name]);
    }
    sandbox.git("repo", &["worktree", "add", "-q", "../second", "second"]);
    sandbox.git("repo", &["worktree", "add", "-q", "../one", "one"]);
    let place = |name: &str| sandbox.path(name).canonicalize().unwrap();
    let on = |name: &str| git::checkouts_of(&repo, &pleach_core::ids::BranchName::new(name).unwrap()).unwrap();
    let fake = root.join("fake");
    fs::create_dir(&fake).unwrap();
    fs::write(fake.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    for claims in [root.join(".git"), fake.join(".git"), place("repo").join(".git"), place("second").join(".git")] {
        fs::write(own.join("gitdir"), format!("{}\n", claims.display())).unwrap();
        for branch in ["main", "second", "one"] {
            fs::write(own.join("HEAD"), format!("ref: refs/heads/{branch}\n")).unwrap();
            let checkout = if branch == "main" { "repo" } else { branch };
            assert_eq!(on(branch), [place(checkout)], "{branch}, {}", claims.display());
        }
        let listed = git::worktree::list_linked(&repo).unwrap().into_iter().filter(|listed| listed.is_own);
        assert_eq!(listed.map(|listed| listed.path).collect::<Vec<_>>(), std::slice::from_ref(&root));
    }
    // A worktree whose files belong elsewhere is none.
    fs::write(place("second").join(".git"), format!("gitdir: {}\n", place("repo/.git").display())).unwrap();
    assert_eq!(on("second"), [] as [PathBuf; 0]);
    // The user's own may have the name of one of pleach's that is gone.
    sandbox.git("repo", &["worktree", "remove", "--force", place("one").to_str().unwrap()]);
    let name = own.file_name().unwrap().to_str().unwrap();
    fs::remove_dir_all(&own).unwrap();
    sandbox.git("repo", &["worktree", "add", "-q", &format!("../{name}"), "one"]);
    assert!(own.exists(), "it has its name");
    assert_eq!(on("one"), [place(name)]);
}

#[test]
fn pipes_are_removed_in_worktrees_and_named_in_checkouts() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let pipe = |at: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, at, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    };
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/new"), "new").unwrap();
    pipe(&root.join("d/.gitignore"));
    pipe(&root.join(".gitattributes"));
    let scan = git::worktree::scan_paths(&mut worktree, &["d/new".into()]).unwrap();
    let written =
        git::worktree::commit_tree(&mut worktree, &scan, &mut repo.writer(), &CommitLimits::default()).unwrap();
    assert_eq!(names(&written.paths), ["d/new"]);
    assert_eq!(written.warnings.len(), 2, "{:?}", written.warnings);
    assert!(!root.join("d/.gitignore").exists() && !root.join(".gitattributes").exists());
    let mut own = git::worktree::open(&repo, &sandbox.path("repo")).unwrap();
    pipe(&sandbox.path("repo/.gitignore"));
    let error = git::worktree::scan_all(&mut own).unwrap_err().to_string();
    assert!(error.contains("`.gitignore`") && error.contains("move it away"), "{error}");
    assert!(sandbox.path("repo/.gitignore").exists(), "it is the user's");
}
