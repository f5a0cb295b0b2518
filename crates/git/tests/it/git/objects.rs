//! Writing objects.

use std::fs;
use std::path::PathBuf;

use git::{Durability, EntryKind, Error, Person, TreeEdit};
use pleach_core::ids::RepoPath;

use super::{Sandbox, spec};

fn loose(sandbox: &Sandbox, id: &str) -> PathBuf {
    sandbox.path("repo/.git/objects").join(&id[..2]).join(&id[2..])
}

#[test]
fn trees_are_edited_along_the_changed_paths() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.tree_of(repo.head().unwrap().commit).unwrap();
    let mut writer = repo.writer();
    let blob = writer.blob(b"content\n").unwrap();
    assert_eq!(blob.to_string(), "d95f3ad14dee633a758d2e331151e950dd13e4ed");
    let put = |path: &str, kind| TreeEdit::Put(path.into(), kind, blob);
    let edits = [
        put("a.txt/now/a/directory", EntryKind::File),
        put("src", EntryKind::Link),
        put("bin/x", EntryKind::Executable),
        TreeEdit::Remove("run.sh".into()),
        TreeEdit::Remove("not/there".into()),
        TreeEdit::Remove("a.txt".into()),
        TreeEdit::Put(RepoPath::new(&b"\xff"[..]), EntryKind::File, blob),
    ];
    let tree = writer.tree(Some(base), &edits).unwrap();
    writer.flush().unwrap();
    let list = sandbox.git("repo", &["ls-tree", "-r", &tree.to_string()]);
    let expected = format!(
        "100644 blob {blob}\ta.txt/now/a/directory\n100755 blob {blob}\tbin/x\n120000 blob {blob}\tsrc\n100644 blob {blob}\t\"\\377\""
    );
    assert_eq!(list, expected);
    let all_gone: Vec<_> = ["a.txt", "bin/x", "src"].iter().map(|path| TreeEdit::Remove((*path).into())).collect();
    let rest = writer.tree(Some(tree), &all_gone).unwrap();
    let only = writer.tree(None, &[TreeEdit::Put(RepoPath::new(&b"\xff"[..]), EntryKind::File, blob)]).unwrap();
    assert_eq!(rest, only, "directories that became empty are gone");
    assert!(writer.tree(None, &[put("x/.git/config", EntryKind::File)]).is_err());
}

#[test]
fn equal_values_give_equal_commits_that_git_accepts() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    let tree = repo.tree_of(base).unwrap();
    let mut spec = spec(tree, &[base], "subject\n\nbody\n\nPleach-Record: 1\n");
    spec.author = Person::new("implement (claude <x>)\n", "orchestra@local");
    let mut writer = repo.writer();
    let commit = writer.commit(&spec).unwrap();
    assert!(matches!(repo.commit(commit), Err(Error::Object { .. })), "nothing is written before the flush");
    writer.flush().unwrap();
    assert_eq!(repo.writer().commit(&spec).unwrap(), commit);
    let read = repo.commit(commit).unwrap();
    assert_eq!((read.message, read.parents, read.at), (spec.message, vec![base], spec.at));
    assert_eq!(read.author.name, "implement (claude  x )");
    let id = commit.to_string();
    assert_eq!(
        sandbox.git("repo", &["log", "-1", "--format=%(trailers:only)%cd", "--date=raw", &id]),
        "Pleach-Record: 1\n1700000000 +0000"
    );
    sandbox.git("repo", &["update-ref", "refs/heads/x", &id]);
    assert_eq!(sandbox.git("repo", &["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn objects_a_crash_cut_off_are_written_again() {
    for durability in [Durability::Fsync, Durability::None] {
        let sandbox = Sandbox::new();
        let repo = sandbox.open("repo").with_durability(durability);
        let mut writer = repo.writer();
        let content = b"some content that is long enough to be cut in the middle of it\n".repeat(4);
        let blob = writer.blob(&content).unwrap();
        let tree = writer.tree(None, &[TreeEdit::Put("f".into(), EntryKind::File, blob)]).unwrap();
        writer.flush().unwrap();
        let file = loose(&sandbox, &blob.to_string());
        let whole = fs::read(&file).unwrap();
        for cut in [0, 1, 10, whole.len() - 1] {
            fs::remove_file(&file).unwrap();
            fs::write(&file, &whole[..cut]).unwrap();
            fs::remove_file(loose(&sandbox, &tree.to_string())).unwrap();
            fs::write(loose(&sandbox, &tree.to_string()), "").unwrap();
            let mut writer = repo.writer();
            let again = writer.blob(&content).unwrap();
            writer.tree(None, &[TreeEdit::Put("f".into(), EntryKind::File, again)]).unwrap();
            writer.flush().unwrap();
            assert_eq!(repo.blob(blob).unwrap(), content, "cut to {cut}");
            assert_eq!(repo.tree_file(tree, &"f".into()).unwrap().unwrap(), content);
        }
        assert_eq!(sandbox.git("repo", &["fsck", "--no-dangling"]), "");
    }
}

#[test]
fn objects_that_are_packed_are_not_written_again() {
    let sandbox = Sandbox::new();
    sandbox.git("repo", &["gc", "-q"]);
    let repo = sandbox.open("repo");
    let mut writer = repo.writer();
    let blob = writer.blob(b"a\n").unwrap();
    let new = writer.blob(b"new\n").unwrap();
    writer.flush().unwrap();
    assert!(!loose(&sandbox, &blob.to_string()).exists());
    assert!(loose(&sandbox, &new.to_string()).exists());
    let left: Vec<_> =
        walk(sandbox.path("repo/.git/objects")).into_iter().filter(|name| name.starts_with("tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_old_object_is_refreshed_before_gc() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let write = || {
        let mut writer = repo.writer();
        let blob = writer.blob(b"nothing leads to this\n").unwrap();
        writer.flush().unwrap();
        loose(&sandbox, &blob.to_string())
    };
    let age = |path: &PathBuf| fs::File::open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let path = write();
    age(&path);
    write();
    sandbox.git("repo", &["prune", "--expire=2.weeks.ago"]);
    assert!(path.exists(), "it is as young as if it was written now");
    age(&path);
    sandbox.git("repo", &["prune", "--expire=2.weeks.ago"]);
    assert!(!path.exists(), "git collects it as long as nobody asks for it");
}

#[test]
fn objects_that_are_elsewhere_are_written() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.path("repo/elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(sandbox.path("repo/.git/objects"), elsewhere.join("objects")).unwrap();
    fs::create_dir_all(sandbox.path("repo/.git/objects/info")).unwrap();
    let line = format!("{}\n", elsewhere.join("objects").display());
    fs::write(sandbox.path("repo/.git/objects/info/alternates"), line).unwrap();
    for packed in [false, true] {
        if packed {
            sandbox.git("repo", &["repack", "-adq"]);
        }
        let repo = sandbox.open("repo");
        let mut writer = repo.writer();
        let blob = writer.blob(b"a\n").unwrap();
        assert_eq!(repo.blob(blob).unwrap(), b"a\n", "it is found");
        writer.flush().unwrap();
        assert_eq!(loose(&sandbox, &blob.to_string()).exists(), !packed, "its own pack is its own");
        let _ = fs::remove_file(loose(&sandbox, &blob.to_string()));
    }
}

fn walk(dir: PathBuf) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(walk(entry.path()));
        } else {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names
}

#[test]
fn a_flush_that_fails_can_be_repeated() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut writer = repo.writer();
    let blob = writer.blob(b"once more\n").unwrap();
    let directory = loose(&sandbox, &blob.to_string()).parent().unwrap().to_owned();
    fs::write(&directory, "in the way").unwrap();
    assert!(matches!(writer.flush(), Err(Error::Io { .. })));
    fs::remove_file(&directory).unwrap();
    writer.flush().unwrap();
    assert_eq!(repo.blob(blob).unwrap(), b"once more\n");
}

#[test]
fn an_object_not_matching_its_id_is_not_read() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut writer = repo.writer();
    let [mine, forged] = [&b"rejected\n"[..], b"approved\n"].map(|text| writer.blob(text).unwrap());
    writer.flush().unwrap();
    let [at, from] = [mine, forged].map(|id| loose(&sandbox, &id.to_string()));
    fs::remove_file(&at).unwrap();
    fs::copy(from, at).unwrap();
    // One that remembers nothing.
    let repo = sandbox.open("repo");
    assert_eq!(repo.blob(forged).unwrap(), b"approved\n");
    let error = repo.blob(mine).unwrap_err().to_string();
    assert!(error.contains(&mine.to_string()) && error.contains("does not match its id"), "{error}");
}
