//! A branch people work on moves forward with their files, or not at all.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use git::{EntryKind, LandError, Repo, TreeEdit, crash};
use pleach_core::config::Environment;
use pleach_core::ids::{BranchName, CommitId};

use super::{Sandbox, names, spec};
use crate::git_sandbox::advance;

/// Long enough that only what never ends runs into it.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

fn main() -> BranchName {
    BranchName::new("main").unwrap()
}

/// A repository with `main` checked out, and work of two commits to land on it: `a.txt` changed, `new/file` added,
/// `run.sh` removed.
struct World {
    sandbox: Sandbox,
    repo: Repo,
    from: CommitId,
    to: CommitId,
}

impl World {
    fn new() -> Self {
        Self::of(Sandbox::new())
    }

    fn of(sandbox: Sandbox) -> Self {
        let repo = sandbox.open("repo");
        let from = repo.resolve("main").unwrap();
        let step = advance(&repo, from, &[("a.txt", Some("landed\n")), ("run.sh", None)], "one");
        let to = advance(&repo, step, &[("new/file", Some("new\n"))], "two");
        Self { sandbox, repo, from, to }
    }

    fn land(&self) -> Result<(), LandError> {
        git::land::fast_forward_within(&self.repo, &main(), self.from, self.to, LONG)
    }

    fn land_at_once(&self) -> Result<(), LandError> {
        git::land::fast_forward_within(&self.repo, &main(), self.from, self.to, SHORT)
    }

    fn tip(&self) -> CommitId {
        self.repo.refs().find("refs/heads/main").unwrap().unwrap()
    }

    fn status(&self) -> String {
        self.sandbox.git("repo", &["status", "--porcelain", "-uall"])
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.sandbox.path(path)).unwrap()
    }

    /// What nothing may have changed: the ref, the index, the files.
    fn everything(&self) -> (CommitId, String, String, String) {
        let index = self.sandbox.git("repo", &["ls-files", "-s"]);
        let diff = self.sandbox.git("repo", &["diff", "HEAD"]);
        (self.tip(), index, diff, self.status())
    }

    fn assert_landed_in(&self, checkout: &str) {
        assert_eq!(self.tip(), self.to);
        assert_eq!(self.sandbox.git(checkout, &["symbolic-ref", "HEAD"]), "refs/heads/main");
        assert_eq!(self.sandbox.git(checkout, &["write-tree"]), self.repo.tree_of(self.to).unwrap().to_string());
        assert_eq!(self.read(&format!("{checkout}/a.txt")), "landed\n");
        assert_eq!(self.read(&format!("{checkout}/new/file")), "new\n");
        assert!(!self.sandbox.path(checkout).join("run.sh").exists());
    }

    /// Opens the repository again with a git that runs `script` before it does what it is called for. The script knows
    /// `$command`, its number `$n` among those of the command, `$repo`, and the real `$git`.
    fn with_git_that(mut self, script: &str) -> Self {
        let variables = self.sandbox.variables();
        let path = variables.iter().find(|(name, _)| *name == "PATH").unwrap().1.clone();
        let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).unwrap();
        let wrapper = format!(
            "#!/bin/sh\ngit='{}' repo='{}' counts='{}' command=none\n\
             for word in \"$@\"; do case $word in merge|worktree) command=$word; break;; esac; done\n\
             echo >>\"$counts-$command\"; n=$(wc -l <\"$counts-$command\" | tr -d ' ')\n\
             case $command:$n in\n{script}\nesac\nexec \"$git\" \"$@\"\n",
            git.display(),
            self.sandbox.path("repo").display(),
            self.sandbox.path("count").display(),
        );
        self.sandbox.write_program("bin/git", wrapper);
        let path = format!("{}:{path}", self.sandbox.path("bin").display());
        let variables = variables.into_iter().filter(|(name, _)| *name != "PATH").chain([("PATH", path)]);
        let environment = Environment::from_pairs(variables);
        self.repo = git::discover(&self.sandbox.path("repo"), &environment).unwrap();
        self
    }

    fn calls(&self, command: &str) -> usize {
        fs::read_to_string(self.sandbox.path(&format!("count-{command}"))).map_or(0, |text| text.lines().count())
    }
}

fn refused(landed: Result<(), LandError>) -> Vec<String> {
    let error = landed.unwrap_err();
    let LandError::LocalChanges { paths, .. } = &error else { panic!("{error:?}") };
    for path in names(paths) {
        assert!(error.to_string().contains(&path), "{error}");
    }
    names(paths)
}

fn busy(landed: Result<(), LandError>) -> String {
    match landed.unwrap_err() {
        error @ LandError::Busy { .. } => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_checkout_that_has_the_branch_moves_with_it() {
    let world = World::new();
    assert_eq!(git::checkouts_of(&world.repo, &main()).unwrap(), [world.sandbox.path("repo").canonicalize().unwrap()]);
    git::land::fast_forward(&world.repo, &main(), world.from, world.to).unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.status(), "");
    // A second time there is nothing to do, and neither is there when the user has gone on.
    world.land().unwrap();
    world.sandbox.write("repo/mine", "x");
    world.sandbox.commit("repo", "mine");
    let mine = world.tip();
    world.land().unwrap();
    assert_eq!(world.tip(), mine);
}

#[test]
fn what_the_user_has_not_committed_stays() {
    let world = World::new();
    world.sandbox.write("repo/src/b.txt", "dirty\n");
    world.sandbox.write("repo/staged", "staged\n");
    world.sandbox.git("repo", &["add", "staged"]);
    world.sandbox.write("repo/untracked", "untracked\n");
    world.land().unwrap();
    assert_eq!(world.tip(), world.to);
    assert_eq!(world.status(), " M src/b.txt\nA  staged\n?? untracked");
    assert_eq!(world.read("repo/a.txt"), "landed\n");
    assert_eq!(world.read("repo/src/b.txt"), "dirty\n");
}

#[test]
fn files_in_the_way_are_named_and_nothing_moves() {
    type Arrange = fn(&World);
    let cases: [(&str, Arrange, &[&str]); 7] = [
        ("changed", |w| w.sandbox.write("repo/a.txt", "mine\n"), &["a.txt"]),
        (
            "staged",
            |w| {
                w.sandbox.write("repo/a.txt", "mine\n");
                w.sandbox.git("repo", &["add", "-A"]);
            },
            &["a.txt"],
        ),
        ("changed where it is removed", |w| w.sandbox.write("repo/run.sh", "mine\n"), &["run.sh"]),
        ("untracked", |w| w.sandbox.write("repo/new/file", "mine\n"), &["new/file"]),
        (
            "ignored",
            |w| {
                w.sandbox.write("repo/.git/info/exclude", "new/\n");
                w.sandbox.write("repo/new/file", "mine\n");
            },
            &["new/file"],
        ),
        ("a file for a directory", |w| w.sandbox.write("repo/new", "mine\n"), &["new"]),
        (
            "several",
            |w| {
                w.sandbox.write("repo/a.txt", "mine\n");
                w.sandbox.write("repo/new/file", "mine\n");
            },
            &["a.txt", "new/file"],
        ),
    ];
    for (name, arrange, expected) in cases {
        let world = World::new();
        arrange(&world);
        let before = world.everything();
        assert_eq!(refused(world.land()), expected, "{name}");
        assert_eq!(world.everything(), before, "{name}");
        assert_eq!(world.tip(), world.from, "{name}");
    }
}

#[test]
fn files_that_hold_what_lands_are_not_in_the_way() {
    // A power cut in the middle: files written, the old index, its lock left behind.
    let script =
        "merge:1) cd \"$repo\"; echo landed >a.txt; mkdir new; echo new >new/file; : >.git/index.lock; kill -9 $$;;";
    let world = World::new().with_git_that(script);
    world.sandbox.write("repo/src/b.txt", "dirty\n");
    let killed = world.land_at_once().unwrap_err();
    assert!(killed.to_string().contains("killed"), "{killed}");
    world.land().unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.status(), " M src/b.txt");
    // One that differs is named alone, in whatever way it does, and the others are not staged.
    type Arrange = fn(&Path);
    let differences: [Arrange; 4] = [
        |file| fs::write(file, "mine\n").unwrap(),
        |file| fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap(),
        |file| {
            fs::rename(file, file.with_file_name("aside")).unwrap();
            std::os::unix::fs::symlink("aside", file).unwrap();
        },
        |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
            fs::write(file.join("x"), "x").unwrap();
        },
    ];
    for arrange in differences {
        let world = World::new();
        world.sandbox.write("repo/a.txt", "landed\n");
        world.sandbox.write("repo/new/file", "new\n");
        arrange(&world.sandbox.path("repo/new/file"));
        let before = world.everything();
        assert_eq!(refused(world.land()), ["new/file"]);
        assert_eq!(world.everything(), before);
    }
}

#[test]
fn equal_links_do_not_block_a_landing() {
    let mut world = World::new();
    let link = world.sandbox.path("repo/link");
    std::os::unix::fs::symlink("a.txt", &link).unwrap();
    world.sandbox.commit("repo", "a link");
    world.to = world.tip();
    world.sandbox.git("repo", &["reset", "-q", "--hard", &world.from.to_string()]);
    std::os::unix::fs::symlink("elsewhere", &link).unwrap();
    assert_eq!(refused(world.land()), ["link"]);
    fs::remove_file(&link).unwrap();
    fs::write(&link, "a.txt").unwrap();
    assert_eq!(refused(world.land()), ["link"], "a file is no link");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("a.txt", &link).unwrap();
    world.land().unwrap();
    assert_eq!((world.tip(), world.status()), (world.to, String::new()));
}

#[test]
fn a_file_in_place_of_a_directory_blocks_a_landing() {
    let mut world = World::new();
    for step in [("src/b.txt", None), ("src", Some("landed\n"))] {
        world.to = advance(&world.repo, world.to, &[step], "a file for a directory");
    }
    fs::remove_dir_all(world.sandbox.path("repo/src")).unwrap();
    world.sandbox.write("repo/src", "landed\n");
    let before = world.everything();
    assert_eq!(refused(world.land()), ["src"]);
    assert_eq!(world.everything(), before);
}

#[test]
fn a_directory_in_place_of_a_file_counts_by_content() {
    let begun = || {
        let mut world = World::new();
        for step in [("src/b.txt", None), ("a.txt", None), ("a.txt/one", Some("1\n")), ("a.txt/in/two", Some("2\n"))] {
            world.to = advance(&world.repo, world.to, &[step], "a directory for a file");
        }
        fs::remove_file(world.sandbox.path("repo/a.txt")).unwrap();
        world
    };
    // What git has written of it so far, and what it was about to.
    for written in [&[][..], &["one"], &["in/two"], &["one", "in/two"]] {
        let world = begun();
        fs::create_dir_all(world.sandbox.path("repo/a.txt/in")).unwrap();
        for name in written {
            world.sandbox.write(&format!("repo/a.txt/{name}"), if *name == "one" { "1\n" } else { "2\n" });
        }
        world.land().unwrap();
        assert_eq!((world.tip(), world.status()), (world.to, String::new()), "{written:?}");
    }
    // Whatever else is in it is somebody's, and so is what is staged.
    for (mine, named) in [
        ("a.txt/one", "a.txt/one"),
        ("a.txt/mine", "a.txt/mine"),
        ("a.txt/deep/mine", "a.txt/deep"),
        ("a.txt", "a.txt"),
    ] {
        let world = begun();
        if mine == "a.txt" {
            world.sandbox.write("repo/a.txt", "mine\n");
            world.sandbox.git("repo", &["add", "a.txt"]);
            fs::remove_file(world.sandbox.path("repo/a.txt")).unwrap();
            world.sandbox.write("repo/a.txt/one", "1\n");
        } else {
            world.sandbox.write("repo/a.txt/in/two", "2\n");
            world.sandbox.write(&format!("repo/{mine}"), "mine\n");
        }
        let before = world.everything();
        assert!(refused(world.land()).contains(&named.to_owned()), "{mine}");
        assert_eq!(world.everything(), before, "{mine}");
    }
}

#[test]
fn all_blocking_files_are_found_beyond_those_git_names() {
    let many: Vec<String> = (0..300).map(|n| format!("a-directory/a-file-with-a-name-{n}")).collect();
    let half_landed = || {
        let mut world = World::new();
        let files: Vec<_> = many.iter().map(|name| (name.as_str(), Some("landed\n"))).collect();
        world.to = advance(&world.repo, world.to, &files, "many files");
        for name in &many {
            world.sandbox.write(&format!("repo/{name}"), "landed\n");
        }
        world.sandbox.write("repo/a.txt", "landed\n");
        world.sandbox.write("repo/src/b.txt", "mine\n");
        fs::remove_file(world.sandbox.path("repo/run.sh")).unwrap();
        world
    };
    let world = half_landed();
    world.land().unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.status(), " M src/b.txt");
    // Those that differ are named alone, wherever git's own list ends, and nothing is staged.
    let world = half_landed();
    for name in [&many[0], &many[299]] {
        world.sandbox.write(&format!("repo/{name}"), "mine\n");
    }
    let before = world.everything();
    assert_eq!(refused(world.land()), [many[0].clone(), many[299].clone()]);
    assert_eq!(world.everything(), before);
    // What is staged alone is not lost either.
    let world = half_landed();
    let last = format!("repo/{}", many[299]);
    world.sandbox.write(&last, "staged\n");
    world.sandbox.git("repo", &["add", &many[299]]);
    world.sandbox.write(&last, "landed\n");
    assert_eq!(refused(world.land()), [many[299].clone()]);
}

#[test]
fn staged_changes_are_not_overwritten() {
    type Arrange = fn(&World);
    let cases: [(&str, Arrange, &[&str]); 4] = [
        (
            "another content",
            |w| {
                w.sandbox.write("repo/a.txt", "staged\n");
                w.sandbox.git("repo", &["add", "a.txt"]);
            },
            &["a.txt"],
        ),
        (
            "a new file",
            |w| {
                w.sandbox.write("repo/new/file", "staged\n");
                w.sandbox.git("repo", &["add", "new/file"]);
            },
            &["new/file"],
        ),
        ("a removal", |w| drop(w.sandbox.git("repo", &["rm", "-q", "--cached", "a.txt"])), &["a.txt"]),
        ("a mode", |w| drop(w.sandbox.git("repo", &["update-index", "--chmod=+x", "a.txt"])), &["a.txt"]),
    ];
    for (name, arrange, expected) in cases {
        let world = World::new();
        arrange(&world);
        world.sandbox.write("repo/a.txt", "landed\n");
        world.sandbox.write("repo/new/file", "new\n");
        let before = world.everything();
        assert_eq!(refused(world.land()), expected, "{name}");
        assert_eq!(world.everything(), before, "{name}");
    }
    // What lands may be staged, and anything that is not in the way.
    let world = World::new();
    world.sandbox.write("repo/src/b.txt", "mine\n");
    world.sandbox.write("repo/a.txt", "landed\n");
    world.sandbox.git("repo", &["add", "-A"]);
    world.sandbox.write("repo/new/file", "new\n");
    world.land().unwrap();
    world.sandbox.git("repo", &["reset", "-q", "src/b.txt"]);
    world.assert_landed_in("repo");
}

#[test]
fn files_in_the_way_may_have_any_name() {
    let odd = ["\"quoted\" \\ name", "two\nlines", "tab\tand\rreturn\r", "dir\n\tx/file", "plain"];
    for held in ["landed\n", "mine\n"] {
        let mut world = World::new();
        let files: Vec<(&str, Option<&str>)> = odd.iter().map(|name| (*name, Some("landed\n"))).collect();
        world.to = advance(&world.repo, world.to, &files, "odd names");
        for name in odd {
            world.sandbox.write(&format!("repo/{name}"), held);
        }
        if held == "landed\n" {
            world.land().unwrap();
            world.assert_landed_in("repo");
            assert_eq!(world.status(), "");
            continue;
        }
        let error = world.land().unwrap_err();
        let LandError::LocalChanges { paths, .. } = &error else { panic!("{error:?}") };
        let mut expected = odd.map(pleach_core::ids::RepoPath::from).to_vec();
        expected.sort();
        assert_eq!(*paths, expected);
        assert_eq!(world.tip(), world.from);
    }
}

#[test]
fn a_half_written_checkout_is_named_and_written_anew() {
    let script = "merge:1) cd \"$repo\"; rm run.sh; printf lan >a.txt; mkdir new; : >new/file; \
        echo 'fatal: No space left on device' >&2; exit 128;;";
    let world = World::new().with_git_that(script);
    world.sandbox.git("repo", &["branch", "the/work", &world.to.to_string()]);
    world.sandbox.write("repo/src/b.txt", "dirty\n");
    let error = world.land_at_once().unwrap_err();
    assert!(matches!(error, LandError::Git(git::Error::BrokenOff(_))), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains("may be incomplete") && words.contains("No space left") && words.contains("`the/work`"),
        "{words}"
    );
    assert!(
        words.contains("may be incomplete: `a.txt`, `new/file`, `run.sh` (") && !words.contains("b.txt"),
        "{words}"
    );
    assert_eq!(world.read("repo/a.txt"), "lan");
    // A lock of the user's, who works there since.
    let lock = world.sandbox.path("repo/.git/index.lock");
    fs::write(&lock, "mine").unwrap();
    assert!(busy(world.land_at_once()).contains("index.lock"));
    fs::remove_file(&lock).unwrap();
    world.land_at_once().unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.status(), " M src/b.txt");

    // What somebody has written there since is theirs, and other work may land as well.
    let mut world = World::new().with_git_that(script);
    assert!(world.land_at_once().is_err());
    world.sandbox.write("repo/a.txt", "mine\n");
    assert_eq!(refused(world.land_at_once()), ["a.txt"]);
    world.sandbox.git("repo", &["restore", "--", "a.txt"]);
    world.to = advance(&world.repo, world.from, &[("new", Some("another\n"))], "another");
    world.land_at_once().unwrap();
    assert_eq!((world.tip(), world.read("repo/new")), (world.to, "another\n".to_owned()));
    assert_eq!(world.status(), " D run.sh", "nobody knows who has removed it");

    // A filter that fails.
    let world = World::new();
    world.sandbox.write("repo/.git/info/attributes", "new/file filter=broken\n");
    world.sandbox.git("repo", &["config", "filter.broken.smudge", "false"]);
    world.sandbox.git("repo", &["config", "filter.broken.required", "true"]);
    let words = world.land_at_once().unwrap_err().to_string();
    assert!(words.contains("may be incomplete") && words.contains(&world.to.to_string()), "{words}");
    assert!(words.contains("`a.txt`") && words.contains("`run.sh`"), "{words}");

    // What the user has changed before is no trace of git.
    let world = World::new().with_git_that("merge:1) echo 'fatal: out of memory' >&2; exit 128;;");
    world.sandbox.write("repo/a.txt", "mine\n");
    world.sandbox.write("repo/new/file", "mine\n");
    fs::remove_file(world.sandbox.path("repo/run.sh")).unwrap();
    std::thread::sleep(SHORT);
    world.sandbox.git("repo", &["branch", "the/work", &world.to.to_string()]);
    let words = world.land_at_once().unwrap_err().to_string();
    assert!(words.contains("out of memory") && !words.contains("may be incomplete"), "{words}");
    // Where the work is, is told all the same.
    assert!(words.starts_with("git could not move `main`, which is checked out in `"), "{words}");
    assert!(words.ends_with("; no work is lost, it is at `the/work`; fix what git reports, then run again"), "{words}");
}

#[test]
fn conflicts_the_user_has_not_resolved_are_named() {
    let world = World::new();
    world.sandbox.write("repo/src/b.txt", "stashed\n");
    world.sandbox.git("repo", &["stash"]);
    world.sandbox.write("repo/src/b.txt", "other\n");
    world.sandbox.commit("repo", "other");
    assert!(world.sandbox.try_git("repo", &["stash", "pop"]).is_err());
    let world = World { from: world.tip(), to: advance(&world.repo, world.tip(), &[("x", Some("x"))], "x"), ..world };
    assert_eq!(refused(world.land()), ["src/b.txt"]);
    assert_eq!(world.tip(), world.from);
}

#[test]
fn a_lock_on_the_index_is_waited_for() {
    // Whenever it goes away within the limit, the landing gets through.
    let world = World::new();
    world.sandbox.write("repo/.git/index.lock", "");
    let lock = world.sandbox.path("repo/.git/index.lock");
    let holder = std::thread::spawn(move || {
        std::thread::sleep(SHORT);
        fs::remove_file(lock).unwrap();
    });
    world.land().unwrap();
    holder.join().unwrap();
    world.assert_landed_in("repo");

    // It comes just before git wants it.
    let script = "merge:1) : >\"$repo/.git/index.lock\"; (sleep 0.2; rm \"$repo/.git/index.lock\") &;;";
    let world = World::new().with_git_that(script);
    world.land().unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.calls("merge"), 2);
}

#[test]
fn a_lock_that_stays_ends_the_waiting() {
    let world = World::new();
    let before = world.everything();
    for lock in ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "refs/heads/main.lock"] {
        world.sandbox.write(&format!("repo/.git/{lock}"), "");
        let begun = Instant::now();
        let words = busy(world.land_at_once());
        assert!(begun.elapsed() >= SHORT);
        assert!(words.contains(lock), "{words}");
        fs::remove_file(world.sandbox.path(&format!("repo/.git/{lock}"))).unwrap();
        assert_eq!(world.everything(), before, "{lock}");
    }
    world.land_at_once().unwrap();
}

#[test]
fn operations_of_the_user_are_waited_for() {
    let begin = |world: &World, command: &[&str]| {
        let sandbox = &world.sandbox;
        sandbox.git("repo", &["switch", "-q", "-c", "side"]);
        sandbox.write("repo/src/b.txt", "side\n");
        sandbox.commit("repo", "side");
        sandbox.git("repo", &["switch", "-q", "main"]);
        sandbox.write("repo/src/b.txt", "main\n");
        sandbox.commit("repo", "main");
        assert!(sandbox.try_git("repo", command).is_err(), "{command:?} should stop at a conflict");
    };
    let cases: [(&[&str], &str); 4] = [
        (&["merge", "side"], "merge"),
        (&["cherry-pick", "side"], "cherry-pick"),
        (&["revert", "--no-edit", "HEAD~0", "HEAD~1"], "revert"),
        (&["rebase", "side"], "rebase"),
    ];
    for (command, what) in cases {
        let mut world = World::new();
        if what == "revert" {
            // Reverting the first commit conflicts with the second.
            world.sandbox.write("repo/src/b.txt", "second\n");
            world.sandbox.commit("repo", "second");
            world.sandbox.write("repo/src/b.txt", "third\n");
            world.sandbox.commit("repo", "third");
            assert!(world.sandbox.try_git("repo", &["revert", "--no-edit", "HEAD~1"]).is_err());
        } else {
            begin(&world, command);
        }
        world.from = world.tip();
        world.to = advance(&world.repo, world.from, &[("x", Some("x"))], "x");
        let before = world.everything();
        let words = busy(world.land_at_once());
        assert!(words.contains(&format!("a {what} ")) && words.contains("--abort"), "{words}");
        assert_eq!(world.everything(), before, "{what}");
        world.sandbox.git("repo", &[what, "--abort"]);
        world.land_at_once().unwrap();
        assert_eq!((world.tip(), world.status()), (world.to, String::new()), "{what}");
    }
}

#[test]
fn a_rebase_of_the_branch_is_waited_for() {
    for on_top in [false, true] {
        let mut world = World::new();
        world.sandbox.write("repo/main", "main\n");
        world.sandbox.commit("repo", "main");
        (world.from, world.to) = (world.tip(), advance(&world.repo, world.tip(), &[], "work"));
        world.sandbox.git("repo", &["switch", "-q", "--detach"]);
        let branch: &[&str] = if on_top { &["-b", "top", "../linked", "main"] } else { &["../linked", "main"] };
        world.sandbox.git("repo", &[&["worktree", "add", "-q"], branch].concat());
        world.sandbox.write("linked/more", "more\n");
        if on_top {
            world.sandbox.commit("linked", "more");
        }
        // It stops at once, with HEAD detached, and would move `main` at its end.
        let onto = if on_top { "HEAD~2" } else { "HEAD~1" };
        let rebase = ["-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "--update-refs", onto];
        world.sandbox.git("linked", &rebase);
        assert!(git::checkouts_of(&world.repo, &main()).unwrap().is_empty());
        assert!(busy(world.land_at_once()).contains("rebase"), "{on_top}");
        assert_eq!(world.tip(), world.from);
        world.sandbox.git("linked", &["rebase", "--abort"]);
        world.land_at_once().unwrap();
        assert_eq!(world.tip(), world.to);
    }
}

#[test]
fn a_linked_worktree_that_has_the_branch_moves_with_it() {
    let world = World::new();
    world.sandbox.git("repo", &["switch", "-q", "-c", "elsewhere"]);
    world.sandbox.git("repo", &["worktree", "add", "-q", "../linked here", "main"]);
    let before = world.sandbox.git("repo", &["ls-files", "-s"]);
    let linked = world.sandbox.path("linked here").canonicalize().unwrap();
    assert_eq!(git::checkouts_of(&world.repo, &main()).unwrap(), [linked]);
    // A lock of the checkout that does not have it is in nobody's way, but one of its own is.
    world.sandbox.write("repo/.git/index.lock", "");
    world.sandbox.write("repo/.git/worktrees/linked-here/index.lock", "");
    assert!(busy(world.land_at_once()).contains("worktrees/linked-here/index.lock"));
    fs::remove_file(world.sandbox.path("repo/.git/worktrees/linked-here/index.lock")).unwrap();
    world.land_at_once().unwrap();
    world.assert_landed_in("linked here");
    assert_eq!(world.sandbox.git("linked here", &["status", "--porcelain"]), "");
    assert_eq!(world.sandbox.git("repo", &["ls-files", "-s"]), before);
    assert_eq!(world.read("repo/a.txt"), "a\n");
}

#[test]
fn a_branch_without_checkout_is_swapped() {
    let detach: &[&str] = &["switch", "-q", "--detach"];
    let switch: &[&str] = &["switch", "-q", "-c", "other"];
    for leave in [detach, switch] {
        let world = World::new();
        world.sandbox.git("repo", leave);
        world.sandbox.write("repo/a.txt", "mine\n");
        let before = world.status();
        assert!(git::checkouts_of(&world.repo, &main()).unwrap().is_empty());
        world.land().unwrap();
        assert_eq!((world.tip(), world.status()), (world.to, before));
        assert_eq!(world.read("repo/a.txt"), "mine\n");
        assert_eq!(world.sandbox.git("repo", &["reflog", "-1", "--format=%gs", "main"]), "pleach: land");
        // With a lock that stays.
        let next = advance(&world.repo, world.to, &[], "next");
        world.sandbox.write("repo/.git/refs/heads/main.lock", "");
        let landed = git::land::fast_forward_within(&world.repo, &main(), world.to, next, SHORT);
        assert!(busy(landed).contains("main.lock"));
        assert_eq!(world.tip(), world.to);
    }
}

/// Makes a file look as if it had been there for long.
fn age(path: &Path) {
    let file = fs::File::options().append(true).open(path).unwrap();
    let then = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(6);
    file.set_modified(then).unwrap();
}

#[test]
fn the_lock_of_a_killed_pleach_is_removed() {
    let world = World::new();
    world.sandbox.git("repo", &["switch", "-q", "--detach"]);
    assert!(!run_child(&world, "ref-swap:before:1").success());
    let lock = world.sandbox.path("repo/.git/refs/heads/main.lock");
    assert_eq!(world.tip(), world.from);
    // One that was just made may still be somebody's.
    assert!(busy(world.land_at_once()).contains("main.lock"));
    age(&lock);
    world.land().unwrap();
    assert_eq!(world.tip(), world.to);
    // Others' stay, however old they are.
    let next = advance(&world.repo, world.to, &[], "next");
    world.sandbox.git("repo", &["commit", "-q", "--allow-empty", "-m", "the user's own"]);
    for held in [String::new(), world.sandbox.git("repo", &["rev-parse", "HEAD"])] {
        fs::write(&lock, held).unwrap();
        age(&lock);
        let landed = git::land::fast_forward_within(&world.repo, &main(), world.to, next, SHORT);
        assert!(busy(landed).contains("main.lock"));
    }
}

#[test]
fn a_bare_repository_has_only_refs() {
    let sandbox = Sandbox::new();
    sandbox.git(".", &["clone", "-q", "--bare", "repo", "bare.git"]);
    let repo = sandbox.open("bare.git");
    let from = repo.head().unwrap().commit;
    let to = advance(&repo, from, &[("x", Some("x"))], "x");
    git::land::fast_forward(&repo, &main(), from, to).unwrap();
    assert_eq!(repo.refs().find("refs/heads/main").unwrap(), Some(to));
}

#[test]
fn a_branch_that_moved_is_left_where_it_is() {
    // Before, and just before git gets to it.
    for script in ["none:0) ;;", "merge:1) echo x >\"$repo/x\"; \"$git\" add x; \"$git\" commit -qm mine;;"] {
        let world = World::new().with_git_that(script);
        if script.starts_with("none") {
            world.sandbox.write("repo/x", "x\n");
            world.sandbox.commit("repo", "mine");
        }
        let moved = world.land();
        let mine = world.tip();
        assert_ne!(mine, world.from);
        assert!(matches!(&moved, Err(LandError::Moved { now, .. }) if *now == mine), "{moved:?}");
        assert_eq!((world.status(), world.read("repo/a.txt")), (String::new(), "a\n".to_owned()));
        // Whoever has it checked out.
        world.sandbox.git("repo", &["switch", "-q", "--detach"]);
        assert!(matches!(world.land(), Err(LandError::Moved { now, .. }) if now == mine));
    }
}

#[test]
fn switching_branches_at_the_last_moment_is_handled() {
    for how in ["--detach HEAD", "--orphan empty", "--create release"] {
        let world = World::new().with_git_that(&format!("merge:1) \"$git\" -C \"$repo\" switch -q {how};;"));
        world.land().unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(world.tip(), world.to, "{how}");
        assert_eq!(world.status(), "", "{how}");
        // What the user has gone to stays where it is, also where it could move forward.
        match how {
            "--orphan empty" => assert_eq!(world.repo.refs().find("refs/heads/empty").unwrap(), None),
            _ => assert_eq!(world.repo.resolve("HEAD").unwrap(), world.from, "{how}"),
        }
    }
}

#[test]
fn a_branch_that_is_gone_stays_so() {
    let world = World::new();
    world.sandbox.git("repo", &["switch", "-q", "--detach"]);
    world.sandbox.git("repo", &["branch", "-q", "-D", "main"]);
    let gone = world.land().unwrap_err();
    assert!(matches!(gone, LandError::Gone { .. }), "{gone:?}");
    assert!(gone.to_string().contains(&format!("git branch main {}", world.from)), "{gone}");
    assert_eq!(world.repo.refs().find("refs/heads/main").unwrap(), None);
}

#[test]
fn a_branch_never_moves_back_or_aside() {
    let world = World::new();
    let aside = advance(&world.repo, world.from, &[("x", Some("x"))], "aside");
    for detached in [false, true] {
        if detached {
            world.sandbox.git("repo", &["switch", "-q", "--detach"]);
        }
        let sideways = git::land::fast_forward(&world.repo, &main(), world.to, aside);
        assert!(matches!(sideways, Err(LandError::NotForward { .. })), "{sideways:?}");
        assert_eq!(world.tip(), world.from);
    }
}

/// Where a repository has an object by itself.
fn loose(world: &World, revision: &str) -> PathBuf {
    let id = world.sandbox.git("repo", &["rev-parse", revision]);
    world.sandbox.path(&format!("repo/.git/objects/{}/{}", &id[..2], &id[2..]))
}

/// Puts another blob in place of an object.
fn overwrite(world: &World, place: &Path) {
    world.sandbox.write("evil", "evil\n");
    let evil = world.sandbox.path("evil");
    let evil = world.sandbox.git("repo", &["hash-object", "-w", evil.to_str().unwrap()]);
    fs::remove_file(place).unwrap();
    fs::copy(loose(world, &evil), place).unwrap();
}

/// Packs one object into a directory of packs.
fn pack(world: &World, revision: &str, packs: &str) {
    world.sandbox.write("id", world.sandbox.git("repo", &["rev-parse", revision]));
    let (id, packs) = (world.sandbox.path("id"), world.sandbox.path(packs));
    fs::create_dir_all(&packs).unwrap();
    world.sandbox.write_program("pack", "#!/bin/sh\nexec git pack-objects -q \"$2/pack\" < \"$1\"\n");
    let alias =
        format!("alias.pack=!'{}' '{}' '{}'", world.sandbox.path("pack").display(), id.display(), packs.display());
    world.sandbox.git("repo", &["-c", &alias, "pack"]);
}

#[test]
fn the_packed_one_of_two_copies_is_verified() {
    let overwritten = |world: &World| match world.land_at_once() {
        Err(LandError::Overwritten { what, .. }) => assert!(what.contains("the file `new/file`"), "{what}"),
        other => panic!("{other:?}"),
    };
    for packs in ["repo/.git/objects/pack", "other/objects/pack"] {
        let world = World::new();
        let revision = format!("{}:new/file", world.to);
        let place = loose(&world, &revision);
        let good = fs::read(&place).unwrap();
        overwrite(&world, &place);
        overwritten(&world);
        // One that came since the repository was opened, and in another repository.
        pack(&world, &revision, packs);
        if packs.starts_with("other") {
            world.sandbox.write("repo/.git/objects/info/alternates", "../../../other/objects\n");
        }
        fs::remove_file(&place).unwrap();
        fs::write(&place, &good).unwrap();
        overwritten(&world);
        let indices: Vec<_> =
            fs::read_dir(world.sandbox.path(packs)).unwrap().map(|entry| entry.unwrap().path()).collect();
        if packs.starts_with("repo") {
            // An index of all packs is enough to find it there.
            world.sandbox.git("repo", &["multi-pack-index", "write"]);
            let index = indices.iter().find(|path| path.extension() == Some(OsStr::new("idx"))).unwrap();
            fs::remove_file(index).unwrap();
            overwritten(&world);
            fs::remove_file(world.sandbox.path(packs).join("multi-pack-index")).unwrap();
        }
        indices.iter().for_each(|path| drop(fs::remove_file(path)));
        world.land().unwrap();
        world.assert_landed_in("repo");
    }
    // And a good one is what counts where the loose one is not.
    let world = World::new();
    let revision = format!("{}:new/file", world.to);
    pack(&world, &revision, "repo/.git/objects/pack");
    overwrite(&world, &loose(&world, &revision));
    world.land().unwrap();
    world.assert_landed_in("repo");
}

#[test]
fn all_that_a_merge_brings_is_looked_at() {
    let mut world = World::new();
    let side = advance(&world.repo, world.from, &[("side", Some("side\n"))], "side");
    let mut writer = world.repo.writer();
    let tree = world.repo.tree_of(world.to).unwrap();
    world.to = writer.commit(&spec(tree, &[world.to, side], "merge")).unwrap();
    writer.flush().unwrap();
    let place = loose(&world, &format!("{side}:side"));
    let good = fs::read(&place).unwrap();
    overwrite(&world, &place);
    let refused = world.land_at_once();
    assert!(matches!(&refused, Err(LandError::Overwritten { what, .. }) if what.contains("`side`")), "{refused:?}");
    fs::remove_file(&place).unwrap();
    fs::write(&place, good).unwrap();
    world.land().unwrap();
    world.assert_landed_in("repo");
}

#[test]
fn a_shallow_clone_lands_without_what_it_has_not() {
    let sandbox = Sandbox::new();
    sandbox.commit("repo", "second");
    let url = format!("file://{}", sandbox.path("repo").display());
    sandbox.git(".", &["clone", "-q", "--depth", "1", &url, "shallow"]);
    let repo = sandbox.open("shallow");
    let from = repo.resolve("main").unwrap();
    let to = advance(&repo, from, &[("x", Some("x"))], "x");
    git::land::fast_forward(&repo, &main(), from, to).unwrap();
    assert_eq!(repo.refs().find("refs/heads/main").unwrap(), Some(to));
    // What a merge brings may be cut off as well.
    let lost = advance(&repo, to, &[("lost", Some("lost"))], "lost");
    let cut = advance(&repo, lost, &[("cut", Some("cut"))], "cut");
    let mut writer = repo.writer();
    let merge = writer.commit(&spec(repo.tree_of(cut).unwrap(), &[to, cut], "merge")).unwrap();
    writer.flush().unwrap();
    let (lost, shallow) = (lost.to_string(), sandbox.path("shallow/.git/shallow"));
    fs::remove_file(sandbox.path(&format!("shallow/.git/objects/{}/{}", &lost[..2], &lost[2..]))).unwrap();
    fs::write(&shallow, format!("{}{cut}\n", fs::read_to_string(&shallow).unwrap())).unwrap();
    git::land::fast_forward(&sandbox.open("shallow"), &main(), to, merge).unwrap();
    assert_eq!(repo.refs().find("refs/heads/main").unwrap(), Some(merge));
}

#[test]
fn a_branch_in_two_checkouts_is_not_moved() {
    let world = World::new();
    world.sandbox.git("repo", &["worktree", "add", "-q", "--force", "../second", "main"]);
    let before = world.everything();
    let several = world.land().unwrap_err();
    assert!(matches!(&several, LandError::SeveralCheckouts { checkouts, .. } if checkouts.len() == 2), "{several:?}");
    assert!(several.to_string().contains("second"), "{several}");
    assert_eq!(world.everything(), before);
}

#[test]
fn a_missing_worktree_counts_only_while_locked() {
    let world = World::new();
    world.sandbox.git("repo", &["switch", "-q", "--detach"]);
    world.sandbox.git("repo", &["worktree", "add", "-q", "../stick", "main"]);
    world.sandbox.git("repo", &["worktree", "lock", "../stick"]);
    fs::rename(world.sandbox.path("stick"), world.sandbox.path("unplugged")).unwrap();
    assert!(busy(world.land_at_once()).contains("stick"));
    assert_eq!(world.tip(), world.from);
    world.sandbox.git("repo", &["worktree", "unlock", "../stick"]);
    world.land_at_once().unwrap();
    assert_eq!(world.tip(), world.to);
}

#[test]
fn submodules_are_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.git(".", &["clone", "-q", "repo", "library"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../library", "sub"];
    sandbox.git("repo", &add);
    sandbox.commit("repo", "add a submodule");
    sandbox.git("repo", &["config", "submodule.recurse", "true"]);
    sandbox.write("repo/sub/a.txt", "dirty in the submodule\n");
    let mut world = World::of(sandbox);
    // The work moves the link as well, to a commit the submodule does not have.
    let mut writer = world.repo.writer();
    let link = git::BlobId::from_bytes([7; 20]);
    let edit = TreeEdit::Put("sub".into(), EntryKind::Submodule, link);
    let tree = writer.tree(Some(world.repo.tree_of(world.to).unwrap()), &[edit]).unwrap();
    world.to = writer.commit(&spec(tree, &[world.to], "link")).unwrap();
    writer.flush().unwrap();
    world.land().unwrap();
    world.assert_landed_in("repo");
    assert_eq!(world.read("repo/sub/a.txt"), "dirty in the submodule\n");
    assert_eq!(world.status(), " M sub");

    land_a_file(&world.sandbox, "repo/sub");
}

#[test]
fn uncommitted_submodule_files_stay_when_the_link_goes() {
    let new = |edits: fn(&mut git::Writer) -> Vec<TreeEdit>| {
        let sandbox = Sandbox::new();
        sandbox.git(".", &["clone", "-q", "repo", "library"]);
        let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../library", "deep/sub"];
        sandbox.git("repo", &add);
        sandbox.commit("repo", "add a submodule");
        let mut world = World::of(sandbox);
        let mut writer = world.repo.writer();
        let edits = edits(&mut writer);
        let tree = writer.tree(Some(world.repo.tree_of(world.to).unwrap()), &edits).unwrap();
        world.to = writer.commit(&spec(tree, &[world.to], "no link")).unwrap();
        writer.flush().unwrap();
        world
    };
    type Edits = fn(&mut git::Writer) -> Vec<TreeEdit>;
    let cases: [Edits; 4] = [
        |writer| vec![TreeEdit::Put("deep/sub".into(), EntryKind::File, writer.blob(b"a file\n").unwrap())],
        |writer| vec![TreeEdit::Put("deep/sub".into(), EntryKind::Link, writer.blob(b"a.txt").unwrap())],
        |writer| {
            let file = writer.blob(b"new\n").unwrap();
            vec![TreeEdit::Remove("deep/sub".into()), TreeEdit::Put("deep/sub/x".into(), EntryKind::File, file)]
        },
        |writer| {
            let file = writer.blob(b"no directory\n").unwrap();
            vec![TreeEdit::Remove("deep/sub".into()), TreeEdit::Put("deep".into(), EntryKind::File, file)]
        },
    ];
    for (at, case) in cases.into_iter().enumerate() {
        let world = new(case);
        world.sandbox.write("repo/deep/sub/a.txt", "mine\n");
        world.sandbox.write("repo/deep/sub/mine", "mine\n");
        let before = world.everything();
        assert_eq!(refused(world.land()), ["deep/sub"], "{at}");
        assert_eq!(world.everything(), before, "{at}");
        assert_eq!(world.read("repo/deep/sub/a.txt"), "mine\n");
        assert_eq!(world.read("repo/deep/sub/mine"), "mine\n");
        // Where it was never fetched, or is moved away, nothing is in the way.
        fs::rename(world.sandbox.path("repo/deep/sub"), world.sandbox.path("aside")).unwrap();
        fs::create_dir(world.sandbox.path("repo/deep/sub")).unwrap();
        world.land().unwrap();
        world.assert_landed_in("repo");
        assert_eq!(world.status(), "", "{at}");
    }
    // Where nothing comes in its place, all of it is left.
    let world = new(|_| vec![TreeEdit::Remove("deep/sub".into())]);
    world.sandbox.write("repo/deep/sub/a.txt", "mine\n");
    world.land().unwrap();
    assert_eq!(world.read("repo/deep/sub/a.txt"), "mine\n");
    // What a file is to replace may be a file of the user's by now, also the one that lands.
    for (content, lands) in [("mine\n", false), ("a file\n", true)] {
        let world = new(cases[0]);
        fs::rename(world.sandbox.path("repo/deep/sub"), world.sandbox.path("aside")).unwrap();
        world.sandbox.write("repo/deep/sub", content);
        if lands {
            world.land().unwrap()
        } else {
            assert_eq!(refused(world.land()), ["deep/sub"])
        }
        assert_eq!(world.read("repo/deep/sub"), content);
    }
}

#[test]
fn a_separate_git_directory_does_not_hide_the_checkout() {
    let sandbox = Sandbox::new();
    sandbox.git(".", &["clone", "-q", "--separate-git-dir=apart.git", "repo", "files"]);
    land_a_file(&sandbox, "files");
}

fn land_a_file(sandbox: &Sandbox, checkout: &str) {
    let repo = sandbox.open(checkout);
    let path = sandbox.path(checkout).canonicalize().unwrap();
    assert_eq!(
        (git::checkouts_of(&repo, &main()).unwrap(), repo.workdir()),
        (vec![path.clone()], Some(path.as_path()))
    );
    let from = repo.head().unwrap().commit;
    let to = advance(&repo, from, &[("x", Some("x\n"))], "x");
    git::land::fast_forward(&repo, &main(), from, to).unwrap();
    assert_eq!(fs::read(path.join("x")).unwrap(), b"x\n");
    // And the files are seen there.
    fs::write(path.join("x"), "changed\n").unwrap();
    let scan = git::worktree::scan_all(&mut git::worktree::open(&repo, &path).unwrap()).unwrap();
    assert!(scan.paths().any(|path| path == "x".into()), "{scan:?}");
}

#[test]
fn hooks_of_the_user_never_run() {
    let world = World::new();
    let hooks = [
        "post-merge",
        "reference-transaction",
        "pre-commit",
        "pre-merge-commit",
        "post-checkout",
        "post-index-change",
        "post-rewrite",
        "update",
    ];
    for hook in hooks {
        let ran = world.sandbox.path("ran");
        let script = format!("#!/bin/sh\necho {hook} >>'{}'\nexit 1\n", ran.display());
        world.sandbox.write_program(&format!("repo/.git/hooks/{hook}"), script);
    }
    world.land().unwrap();
    world.assert_landed_in("repo");
    let next = advance(&world.repo, world.to, &[("a.txt", Some("next\n"))], "next");
    git::merge::merge_commits(&world.repo, next, world.to).unwrap();
    assert!(!world.sandbox.path("ran").exists(), "{}", world.read("ran"));
    // They would have.
    let _ = world.sandbox.try_git("repo", &["merge", "-q", "--ff-only", &next.to_string()]);
    assert!(world.sandbox.path("ran").exists());
}

#[test]
fn settings_of_the_user_make_no_difference() {
    let settings = [
        ("merge.verifySignatures", "true"),
        ("merge.ff", "false"),
        ("merge.autostash", "true"),
        ("merge.stat", "true"),
        ("commit.gpgSign", "true"),
        ("branch.main.mergeOptions", "--no-ff --squash"),
        ("branch.main.mergeOptions", "-s ours --no-commit"),
        ("user.useConfigOnly", "true"),
        ("core.logAllRefUpdates", "false"),
        ("advice.resolveConflict", "false"),
    ];
    for (key, value) in settings {
        let world = World::new();
        world.sandbox.git("repo", &["config", key, value]);
        world.sandbox.write("repo/src/b.txt", "dirty\n");
        world.land().unwrap_or_else(|error| panic!("{key}: {error}"));
        world.assert_landed_in("repo");
        assert_eq!(world.status(), " M src/b.txt", "{key}");
        assert_eq!(world.sandbox.git("repo", &["stash", "list"]), "", "{key}");
    }
    let world = World::new();
    world.sandbox.git("repo", &["config", "merge.autostash", "true"]);
    world.sandbox.write("repo/a.txt", "mine\n");
    assert_eq!(refused(world.land()), ["a.txt"]);
    assert_eq!(world.read("repo/a.txt"), "mine\n");
}

#[test]
fn landing_needs_no_user_name() {
    let world = World::new();
    world.sandbox.git("repo", &["config", "user.useConfigOnly", "true"]);
    let variables =
        world.sandbox.variables().into_iter().filter(|(name, _)| !name.contains("_NAME") && !name.contains("_EMAIL"));
    let environment = Environment::from_pairs(variables);
    let world = World { repo: git::discover(&world.sandbox.path("repo"), &environment).unwrap(), ..world };
    world.land().unwrap();
    world.assert_landed_in("repo");
}

#[test]
fn a_ref_locked_during_checkout_is_moved_by_retry() {
    for lock in ["HEAD.lock", "refs/heads/main.lock"] {
        // Held when git comes to the ref, gone when pleach looks again.
        let script = format!("merge:1) : >\"$repo/.git/{lock}\"; (sleep 0.5; rm \"$repo/.git/{lock}\") &;;");
        let world = World::new().with_git_that(&script);
        world.sandbox.write("repo/src/b.txt", "dirty\n");
        world.land().unwrap();
        assert_eq!(world.calls("merge"), 2, "{lock}");
        world.assert_landed_in("repo");
        assert_eq!(world.status(), " M src/b.txt", "{lock}");

        // Held until the waiting ends; the next run completes it.
        let world = World::new().with_git_that(&format!("merge:1) : >\"$repo/.git/{lock}\";;"));
        let words = busy(world.land_at_once());
        assert!(words.contains(lock), "{words}");
        assert_eq!((world.tip(), world.read("repo/a.txt")), (world.from, "landed\n".to_owned()), "{lock}");
        fs::remove_file(world.sandbox.path(&format!("repo/.git/{lock}"))).unwrap();
        world.land_at_once().unwrap();
        world.assert_landed_in("repo");
        assert_eq!(world.status(), "", "{lock}");
    }
}

#[test]
fn a_lock_that_git_may_not_make_is_no_lock() {
    let dies = |words: &str, lock: &str| {
        format!("echo \"fatal: {words}Unable to create '/r/.git/{lock}.lock': Permission denied\" >&2; exit 128;;")
    };
    // Before anything is written: nobody is waited for, and no lock is to be deleted.
    for (words, lock) in [("cannot lock ref 'ORIG_HEAD': ", "ORIG_HEAD"), ("", "index")] {
        let world = World::new().with_git_that(&format!("merge:1) {}", dies(words, lock)));
        let words = world.land().unwrap_err().to_string();
        assert!(words.starts_with("git could not move `main`") && words.contains("changed no file there"), "{words}");
        assert!(words.contains("Permission denied") && !words.contains("delete"), "{words}");
    }
    // Behind the files, so that the same call again moves the branch.
    let world = World::new();
    let (to, died) = (world.to, dies("cannot lock ref 'HEAD': ", "refs/heads/main"));
    let script = format!("merge:1) cd \"$repo\"; \"$git\" read-tree -m -u HEAD {to}; {died}");
    let world = world.with_git_that(&script);
    let words = world.land().unwrap_err().to_string();
    assert!(words.contains("has all files there up to date already (exit 128: fatal: cannot lock ref"), "{words}");
    assert!(words.ends_with("; fix what git reports, then run again") && !words.contains("restore"), "{words}");
    world.land().unwrap();
    world.assert_landed_in("repo");
}

#[test]
fn branches_with_odd_names_land() {
    for name in ["feature/a=b", "a@b", "umlaut-ä", "it's"] {
        let world = World::new();
        world.sandbox.git("repo", &["switch", "-q", "-c", name]);
        let branch = BranchName::new(name).unwrap();
        git::land::fast_forward(&world.repo, &branch, world.from, world.to).unwrap();
        assert_eq!(world.repo.refs().find(&format!("refs/heads/{name}")).unwrap(), Some(world.to));
        assert_eq!((world.tip(), world.status()), (world.from, String::new()));
    }
}

/// One landing. Runs in the process that is to die.
#[test]
#[ignore = "is started by the test beside it"]
fn child() {
    let environment = Environment::capture();
    let Some(dir) = environment.get("PLEACH_TEST_REPO") else { return };
    crash::install(&environment).unwrap();
    let repo = git::discover(Path::new(dir), &environment).unwrap();
    let commit = |name: &str| environment.get(name).unwrap().parse().unwrap();
    git::land::fast_forward(&repo, &main(), commit("PLEACH_TEST_FROM"), commit("PLEACH_TEST_TO")).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a process that dies cannot be this one")]
fn run_child(world: &World, crash: &str) -> ExitStatus {
    let ids = [("PLEACH_TEST_FROM", world.from.to_string()), ("PLEACH_TEST_TO", world.to.to_string())];
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "git::land::child", "--ignored", "--quiet"])
        .env_clear()
        .envs(world.sandbox.variables())
        .envs(ids)
        .env("PLEACH_TEST_REPO", world.sandbox.path("repo"))
        .env(OsStr::new("PLEACH_CRASH"), crash)
        .output()
        .unwrap()
        .status
}

#[test]
fn a_landing_cut_short_is_done_again() {
    for (point, has_landed) in [("landing:before:1", false), ("landing:after:1", true)] {
        let world = World::new();
        assert!(!run_child(&world, point).success());
        assert_eq!(world.tip() == world.to, has_landed, "{point}");
        assert!(run_child(&world, "").success());
        world.assert_landed_in("repo");
        assert_eq!(world.status(), "", "{point}");
    }
}
