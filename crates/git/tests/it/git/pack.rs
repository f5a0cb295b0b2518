//! Packing what was written.

use git::{Durability, EntryKind, Repo, TreeEdit};
use pleach_core::ids::CommitId;

use super::{Sandbox, spec};

/// A commit of its own with one file, written loose.
fn loose_commit(repo: &Repo, parents: &[CommitId], number: usize) -> CommitId {
    let mut writer = repo.writer();
    let blob = writer.blob(format!("record {number}\n").as_bytes()).unwrap();
    let tree = writer.tree(None, &[TreeEdit::Put("events.json".into(), EntryKind::File, blob)]).unwrap();
    let commit = writer.commit(&spec(tree, parents, "record")).unwrap();
    writer.flush().unwrap();
    commit
}

/// The number of objects in each pack, largest first, and of loose ones.
fn objects(sandbox: &Sandbox) -> (Vec<usize>, usize) {
    let counts = sandbox.git("repo", &["count-objects", "-v"]);
    let loose = counts.lines().find_map(|line| line.strip_prefix("count: ")).unwrap().parse().unwrap();
    let packs = std::fs::read_dir(sandbox.path("repo/.git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let indices = packs.filter(|path| path.extension().is_some_and(|ending| ending == "idx"));
    let is_object = |line: &&str| line.split(' ').next().is_some_and(|id| id.len() == 40);
    let mut sizes: Vec<usize> = indices
        .map(|index| sandbox.git("repo", &["verify-pack", "-v", index.to_str().unwrap()]))
        .map(|list| list.lines().filter(is_object).count())
        .collect();
    sizes.sort_by(|a, b| b.cmp(a));
    (sizes, loose)
}

#[test]
fn packing_removes_the_loose_copies() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let mut tip = base;
    for number in 0..33 {
        tip = loose_commit(&repo, &[tip], number);
    }
    git::pack::pack_remaining(&repo);
    assert_eq!(objects(&sandbox), (vec![], 105), "99 objects are too few, and six are the user's");
    let first = loose_commit(&repo, &[tip], 33);
    git::pack::pack_remaining(&repo);
    assert_eq!(objects(&sandbox), (vec![102], 6));

    tip = first;
    for number in 40..80 {
        tip = loose_commit(&repo, &[tip], number);
    }
    // What other packs have stays as it is.
    sandbox.git("repo", &["repack", "-q"]);
    git::pack::pack_remaining(&repo);
    repo.refs().swap("refs/pleach/sessions/abcdefgh/main", None, tip, "test").unwrap();
    assert_eq!(objects(&sandbox), (vec![120, 102, 6], 6));
    assert_eq!(sandbox.git("repo", &["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(sandbox.git("repo", &["show", &format!("{first}:events.json")]), "record 33");
    assert_eq!(sandbox.open("repo").commit(first).unwrap().parents.len(), 1);
}

#[test]
fn many_objects_are_packed_early_and_large_ones_stay_loose() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo").with_durability(Durability::None);
    let mut writer = repo.writer();
    let mut edits: Vec<TreeEdit> = Vec::new();
    for number in 0..2_000 {
        let blob = writer.blob("line\n".repeat(number).as_bytes()).unwrap();
        edits.push(TreeEdit::Put(format!("{}/{number}", number % 7).as_str().into(), EntryKind::File, blob));
    }
    let large = writer.blob(&[b'x'; 1024 * 1024 + 1]).unwrap();
    edits.push(TreeEdit::Put("large".into(), EntryKind::Executable, large));
    let tree = writer.tree(None, &edits).unwrap();
    let commit = writer.commit(&spec(tree, &[repo.head().unwrap().commit], "many")).unwrap();
    writer.flush().unwrap();
    git::pack::pack_if_large(&repo);
    // 2,000 files, seven directories, their list and the commit.
    assert_eq!(objects(&sandbox), (vec![2_009], 2_016), "the loose copies stay for now");
    git::pack::pack_remaining(&repo);
    assert_eq!(objects(&sandbox), (vec![2_009], 7));
    repo.refs().swap("refs/heads/many", None, commit, "test").unwrap();
    assert_eq!(sandbox.git("repo", &["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn an_object_overwritten_on_disk_is_not_packed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut tip = repo.head().unwrap().commit;
    for number in 0..40 {
        tip = loose_commit(&repo, &[tip], number);
    }
    let other = sandbox.git("repo", &["rev-parse", &format!("{tip}~1:events.json")]);
    let changed = sandbox.git("repo", &["rev-parse", &format!("{tip}:events.json")]);
    let path = |id: &str| sandbox.path(&format!("repo/.git/objects/{}/{}", &id[..2], &id[2..]));
    std::fs::remove_file(path(&changed)).unwrap();
    std::fs::copy(path(&other), path(&changed)).unwrap();
    assert_eq!(sandbox.git("repo", &["show", &format!("{tip}:events.json")]), "record 38");
    git::pack::pack_remaining(&repo);
    assert_eq!(sandbox.git("repo", &["show", &format!("{tip}:events.json")]), "record 39");
}
