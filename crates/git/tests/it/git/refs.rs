//! Refs move by compare-and-swap, and only so.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use git::{Durability, RefUpdate, Repo, SwapError, Writer, stale_ref_locks};
use pleach_core::ids::CommitId;

use super::{Sandbox, spec};

fn make_commit(repo: &Repo, writer: &mut Writer, parents: &[CommitId], message: &str) -> CommitId {
    let tree = repo.tree_of(repo.head().unwrap().commit).unwrap();
    let commit = writer.commit(&spec(tree, parents, message)).unwrap();
    writer.flush().unwrap();
    commit
}

#[test]
fn a_ref_moves_only_from_its_expected_value() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let name = "refs/pleach/sessions/abcdefgh/main";
    let mut writer = repo.writer();
    let one = make_commit(&repo, &mut writer, &[base], "one");
    let two = make_commit(&repo, &mut writer, &[one], "two");
    assert!(matches!(repo.refs().swap(name, Some(base), one, "x"), Err(SwapError::Stale { actual: None, .. })));
    repo.refs().swap(name, None, one, "create").unwrap();
    assert!(
        matches!(repo.refs().swap(name, None, two, "x"), Err(SwapError::Stale { actual: Some(a), .. }) if a == one)
    );
    assert!(
        matches!(repo.refs().swap(name, None, one, "x"), Err(SwapError::Stale { actual: Some(a), .. }) if a == one)
    );
    assert!(
        matches!(repo.refs().swap(name, Some(base), two, "x"), Err(SwapError::Stale { actual: Some(a), .. }) if a == one)
    );
    repo.refs().swap(name, Some(one), two, "move").unwrap();
    assert_eq!(sandbox.git("repo", &["rev-parse", name]), two.to_string());
    // A ref that only the packed file has is known all the same.
    sandbox.git("repo", &["pack-refs", "--all"]);
    assert!(!sandbox.path("repo/.git").join(name).exists());
    assert!(
        matches!(repo.refs().swap(name, Some(one), base, "x"), Err(SwapError::Stale { actual: Some(a), .. }) if a == two)
    );
    repo.refs().swap(name, Some(two), one, "back").unwrap();
    assert_eq!(repo.refs().find(name).unwrap(), Some(one));
    assert!(matches!(repo.refs().delete(name, two, "x"), Err(SwapError::Stale { .. })));
    repo.refs().delete(name, one, "gone").unwrap();
    assert_eq!(repo.refs().find(name).unwrap(), None);
    assert!(sandbox.try_git("repo", &["rev-parse", "--verify", name]).is_err());
}

#[test]
fn branches_get_a_reflog_with_the_reason() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    repo.refs().swap("refs/heads/pleach/t/abcdefgh", None, base, "session abcdefgh: start").unwrap();
    assert_eq!(
        sandbox.git("repo", &["reflog", "show", "--format=%gn %gs", "pleach/t/abcdefgh"]),
        "pleach session abcdefgh: start"
    );
    let next = make_commit(&repo, &mut repo.writer(), &[base], "next");
    repo.refs().swap("refs/heads/pleach/t/abcdefgh", Some(base), next, "session abcdefgh: turn 1\nand more").unwrap();
    let log = std::fs::read_to_string(repo.common_dir().join("logs/refs/heads/pleach/t/abcdefgh")).unwrap();
    let (first, second) = log.trim_end().split_once('\n').unwrap();
    let zero = "0".repeat(40);
    for (line, from, to, why) in [(first, zero, base, "start"), (second, base.to_string(), next, "turn 1")] {
        let (who, said) = line.split_once('\t').unwrap();
        assert!(who.starts_with(&format!("{from} {to} pleach <pleach@local> ")) && who.ends_with(" +0000"), "{line}");
        assert_eq!(said, format!("session abcdefgh: {why}"));
    }
    assert_eq!(
        sandbox.git("repo", &["rev-parse", "pleach/t/abcdefgh@{0}", "pleach/t/abcdefgh@{1}"]),
        format!("{next}\n{base}")
    );
    assert!(matches!(
        repo.refs().swap("refs/heads/pleach/t/abcdefgh", Some(base), next, "late"),
        Err(SwapError::Stale { .. })
    ));
    assert!(!sandbox.git("repo", &["reflog", "show", "pleach/t/abcdefgh"]).contains("late"));
}

#[test]
fn a_broken_reflog_blocks_nothing() {
    let sandbox = Sandbox::new();
    sandbox.git("repo", &["config", "core.logAllRefUpdates", "false"]);
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let next = make_commit(&repo, &mut repo.writer(), &[base], "next");
    let logs = repo.common_dir().join("logs/refs/heads");
    fs::create_dir_all(logs.join("a")).unwrap();
    fs::write(logs.join("b"), "").unwrap();
    for name in ["refs/heads/a", "refs/heads/b/c"] {
        repo.refs().swap(name, None, base, "made").unwrap();
        repo.refs().swap(name, Some(base), next, "moved").unwrap();
        assert_eq!(repo.refs().find(name).unwrap(), Some(next));
    }
}

#[test]
fn names_that_git_forbids_side_by_side_clash() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    repo.refs().swap("refs/heads/a/b", None, base, "x").unwrap();
    for packed in [false, true] {
        if packed {
            sandbox.git("repo", &["pack-refs", "--all"]);
        }
        let above = repo.refs().swap("refs/heads/a", None, base, "x");
        assert!(matches!(above, Err(SwapError::Clash { ref with, .. }) if with == "refs/heads/a/b"), "{above:?}");
        let below = repo.refs().swap("refs/heads/a/b/c", None, base, "x");
        assert!(matches!(below, Err(SwapError::Clash { ref with, .. }) if with == "refs/heads/a/b"), "{below:?}");
    }
    assert!(matches!(repo.refs().swap("refs/heads/a..b", None, base, "x"), Err(SwapError::Other(_))));
}

#[test]
fn names_are_exact_and_tags_are_peeled() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let git = |args: &[&str]| sandbox.git("repo", args);
    git(&["tag", "-a", "-m", "x", "marked"]);
    git(&["symbolic-ref", "refs/heads/other", "refs/heads/main"]);
    // Where git looks for the end of a name there is something, but it has another.
    git(&["update-ref", "refs/tags/refs/heads/gone", "HEAD"]);
    git(&["update-ref", "refs/remotes/refs/heads/gone/HEAD", "HEAD"]);
    git(&["update-ref", "refs/heads/dir/one", "HEAD"]);
    for packed in [false, true] {
        if packed {
            git(&["pack-refs", "--all"]);
            assert!(!sandbox.path("repo/.git/refs/tags/marked").exists());
        }
        for name in ["refs/tags/marked", "refs/heads/other", "refs/heads/main", "refs/heads/dir/one"] {
            assert_eq!(repo.refs().find(name).unwrap(), Some(base), "{name}");
        }
        for name in ["refs/heads/gone", "refs/heads/dir", "refs/heads/main/below", "refs/heads/dir/one/below"] {
            assert_eq!(repo.refs().find(name).unwrap(), None, "{name}");
        }
    }
    // The file goes before what is packed.
    let next = make_commit(&repo, &mut repo.writer(), &[base], "next");
    git(&["update-ref", "refs/heads/dir/one", &next.to_string()]);
    assert_eq!(repo.refs().find("refs/heads/dir/one").unwrap(), Some(next));
    for (content, said) in [("", "read a ref"), ("1234", "read a ref"), (&"12".repeat(20), "read `refs/heads/bad`")] {
        sandbox.write("repo/.git/refs/heads/bad", content);
        let error = repo.refs().find("refs/heads/bad").unwrap_err().to_string();
        assert!(error.contains(said), "{content}: {error}");
    }
}

#[test]
fn several_refs_move_together_or_not_at_all() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let one = make_commit(&repo, &mut repo.writer(), &[base], "one");
    let go = |name: &str, old, new| RefUpdate { name: format!("refs/heads/{name}"), old, new };
    repo.refs().swap_all(&[go("x", None, Some(base)), go("y", None, Some(base))], "create").unwrap();
    let stale = repo.refs().swap_all(&[go("x", Some(base), Some(one)), go("y", Some(one), Some(base))], "move");
    assert!(matches!(stale, Err(SwapError::Stale { ref name, .. }) if name == "refs/heads/y"), "{stale:?}");
    assert_eq!(repo.refs().find("refs/heads/x").unwrap(), Some(base));
    repo.refs().swap_all(&[go("x", Some(base), Some(one)), go("y", Some(base), None)], "move").unwrap();
    let refs = repo.refs().list("refs/heads/").unwrap();
    assert_eq!(refs, [("refs/heads/main".to_owned(), base), ("refs/heads/x".to_owned(), one)]);
}

#[test]
fn refs_are_listed_by_any_beginning_of_their_name() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    for name in ["refs/pleach/keep/s-1", "refs/pleach/keep/s-2", "refs/pleach/keep/t-1", "refs/heads/s"] {
        repo.refs().swap(name, None, base, "x").unwrap();
    }
    sandbox.git("repo", &["pack-refs", "--all"]);
    let names = |prefix| repo.refs().list(prefix).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("refs/pleach/keep/s-"), ["refs/pleach/keep/s-1", "refs/pleach/keep/s-2"]);
    assert_eq!(names("refs/pleach/").len(), 3);
    assert!(names("refs/nothing/").is_empty());
}

#[test]
fn a_locked_ref_is_named_and_stale_locks_are_removed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let name = "refs/pleach/sessions/abcdefgh/main";
    let lock = sandbox.path("repo/.git/refs/pleach/sessions/abcdefgh/main.lock");
    repo.refs().swap(name, None, base, "x").unwrap();
    let next = make_commit(&repo, &mut repo.writer(), &[base], "next");
    // A young lock may be someone's.
    fs::write(&lock, "").unwrap();
    let is_done = AtomicBool::new(false);
    let locked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                fs::File::options()
                    .write(true)
                    .open(&lock)
                    .unwrap()
                    .set_modified(pleach_core::clock::now().into())
                    .unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let locked = repo.refs().swap(name, Some(base), next, "x");
        is_done.store(true, Ordering::Relaxed);
        locked
    });
    assert!(
        matches!(locked, Err(SwapError::Locked { lock: ref found, .. }) if found.ends_with("main.lock")),
        "{locked:?}"
    );
    let leave = |lock: &Path| {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::File::create(lock).unwrap().set_modified(old).unwrap();
    };
    leave(&lock);
    repo.refs().swap(name, Some(base), next, "x").unwrap();
    let beside = sandbox.path("repo/.git/refs/pleach/sessions/abcdefgh/beside.lock");
    leave(&lock);
    leave(&beside);
    assert_eq!(stale_ref_locks(&repo).unwrap(), [beside.clone(), lock.clone()]);
    let moves = [(name, Some(next), Some(base)), ("refs/pleach/sessions/abcdefgh/beside", None, Some(base))];
    let moves = moves.map(|(name, old, new)| RefUpdate { name: name.into(), old, new });
    repo.refs().swap_all(&moves, "x").unwrap();
    leave(&lock);
    repo.refs().delete(name, base, "x").unwrap();
    assert_eq!((stale_ref_locks(&repo).unwrap(), repo.refs().find(name).unwrap()), (Vec::new(), None));
}

#[test]
fn eight_writers_never_lose_a_commit() {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo").with_durability(Durability::None);
    let base = repo.head().unwrap().commit;
    let name = "refs/pleach/race";
    repo.refs().swap(name, None, base, "start").unwrap();
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (repo, barrier) = (repo.clone(), &barrier);
            scope.spawn(move || {
                let mut writer = repo.writer();
                barrier.wait();
                for turn in 0..EACH {
                    loop {
                        let tip = repo.refs().find(name).unwrap().unwrap();
                        let next = make_commit(&repo, &mut writer, &[tip], &format!("{thread} {turn}"));
                        match repo.refs().swap(name, Some(tip), next, "race") {
                            Ok(()) => break,
                            Err(SwapError::Stale { actual, .. }) => assert_ne!(actual, Some(tip)),
                            Err(SwapError::Locked { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let subjects = sandbox.git("repo", &["log", "--format=%s", &format!("{base}..{name}")]);
    let mut subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects.len(), THREADS * EACH);
    subjects.sort_unstable();
    subjects.dedup();
    assert_eq!(subjects.len(), THREADS * EACH, "each turn is in the chain exactly once");
    // Of several that create the same ref with the same commit, one has made it.
    let made = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..THREADS)
            .map(|_| {
                let (repo, barrier) = (repo.clone(), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    repo.refs().swap("refs/pleach/lease", None, base, "lease").is_ok()
                })
            })
            .collect();
        creators.into_iter().map(|creator| creator.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!(made, 1);
}

/// Ends what another thread does, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_ref_directory_removed_by_git_is_created_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let directory = repo.common_dir().join("refs/pleach/keep/deep");
    // Fewer times for each ref than a lock is tried, however slow the disk is: without an end nobody else would ever come to
    // pass.
    const REMOVALS: usize = 50;
    let removals_left = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As `git pack-refs` does with what it has emptied.
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                if removals_left.load(Ordering::SeqCst) > 0 && fs::remove_dir(&directory).is_ok() {
                    removals_left.fetch_sub(1, Ordering::SeqCst);
                }
                std::thread::yield_now();
            }
        });
        let over = Over(&is_over);
        for number in 0..100 {
            let name = format!("refs/pleach/keep/deep/{number}");
            removals_left.store(REMOVALS, Ordering::SeqCst);
            repo.refs().swap(&name, None, base, "made").unwrap();
            repo.refs().delete(&name, base, "removed").unwrap();
        }
        drop(over);
    });
}

#[test]
fn a_ref_packed_during_listing_is_listed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                sandbox.try_git("repo", &["pack-refs", "--all"]).unwrap();
            }
        });
        let over = Over(&is_over);
        for number in 1..=60 {
            repo.refs().swap(&format!("refs/pleach/keep/{number}/ref"), None, base, "made").unwrap();
            for _ in 0..10 {
                assert_eq!(repo.refs().list("refs/pleach/").unwrap().len(), number);
                assert_eq!(repo.refs().list_unpeeled("refs/pleach/").unwrap().len(), number);
                assert_eq!(repo.refs().list_except(&["refs/heads/"]).unwrap().len(), number);
            }
        }
        drop(over);
    });
}
