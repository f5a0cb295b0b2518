//! Packing what was written loose.

use pleach::git::{EntryKind, Repo, TreeEdit};
use pleach::ids::CommitId;

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
fn packing_takes_what_is_new_and_leaves_nothing_of_it_loose() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let first = loose_commit(&repo, &[base], 1);
    let (second, beside) = (loose_commit(&repo, &[first], 2), loose_commit(&repo, &[base], 4));
    let made = repo.pack_loose(&[second, beside], &[base]).unwrap();
    repo.drop_loose(&made).unwrap();
    let (packs, loose) = objects(&sandbox);
    // Nine objects of the three records. A commit, two trees and three files are the user's.
    assert_eq!((packs, loose), (vec![9], 6));

    let third = loose_commit(&repo, &[second], 3);
    let made = repo.pack_loose(&[third], &[second, beside]).unwrap();
    // What other packs say they have stays as it is.
    sandbox.git("repo", &["repack", "-q"]);
    repo.drop_loose(&made).unwrap();
    assert_eq!(objects(&sandbox), (vec![9, 6, 3], 6));

    repo.swap("refs/pleach/sessions/abcdefgh/main", None, third, "test").unwrap();
    assert_eq!(sandbox.git("repo", &["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(sandbox.git("repo", &["show", &format!("{first}:events.json")]), "record 1");
    assert_eq!(repo.commit(third).unwrap().parents, [second]);
}
