use super::*;
use crate::git::program::Program;
use pleach_core::config::Environment;

/// An empty repository with the git that looks at it.
fn repository() -> (tempfile::TempDir, gix::odb::Handle, impl Fn(&[&str], &str) -> String) {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Program::new(&Environment::from_pairs([("GIT_CONFIG_NOSYSTEM", "1")]));
    let place = dir.path().to_owned();
    let git = move |args: &[&str], stdin: &str| {
        let done = program.run_with_stdin(&place, args, stdin.as_bytes()).and_then(|ended| ended.success());
        String::from_utf8(done.expect("git succeeds")).expect("plain text").trim().to_owned()
    };
    git(&["init", "-q"], "");
    let repo = gix::open_opts(dir.path(), gix::open::Options::isolated()).expect("the repository opens");
    (dir, repo.objects.into_inner(), git)
}

fn blobs(count: usize) -> Vec<(gix::ObjectId, Vec<u8>)> {
    let blob = |number| {
        let bytes = format!("the content of {number}\n").into_bytes();
        (gix::objs::compute_hash(gix::hash::Kind::Sha1, ObjectKind::Blob, &bytes).expect("no collision"), bytes)
    };
    (0..count).map(blob).collect()
}

fn objects(blobs: &[(gix::ObjectId, Vec<u8>)]) -> Vec<NewObject<'_>> {
    blobs.iter().map(|(id, bytes)| (id, ObjectKind::Blob, bytes.as_slice())).collect()
}

#[test]
fn what_git_packs_before_it_is_durable_is_not_missed() {
    let (_dir, repo, git) = repository();
    let blobs = blobs(ROUND + 1);
    let (objects, packs) = (objects(&blobs), PackIndexes::default());
    let mut store = LooseStore::new(repo.store_ref(), &packs);
    store.write_rounds(&objects, Durability::Fsync).expect("the first are written");
    let ids: String = blobs.iter().map(|(id, _)| format!("{id}\n")).collect();
    git(&["pack-objects", "-q", ".git/objects/pack/pack"], &ids);
    git(&["prune-packed", "-q"], "");
    let one = loose_path(store.root, &blobs[0].0);
    assert!(!one.parent().expect("it lies in a directory").exists());
    store.settle(&objects, Durability::Fsync).expect("all is there");
    assert!(!one.exists(), "nothing is written that is packed");
    assert_eq!(
        git(&["cat-file", "--batch-check=%(objecttype)"], &ids).lines().filter(|l| *l == "blob").count(),
        blobs.len()
    );
}

#[test]
fn what_is_lost_before_it_is_durable_is_written_again() {
    let (_dir, repo, git) = repository();
    let blobs = blobs(3);
    let (objects, packs) = (objects(&blobs), PackIndexes::default());
    let mut store = LooseStore::new(repo.store_ref(), &packs);
    store.write_rounds(&objects, Durability::Fsync).expect("the first are written");
    let one = loose_path(store.root, &blobs[0].0);
    std::fs::remove_dir_all(one.parent().expect("it lies in a directory")).expect("the directory goes");
    store.settle(&objects, Durability::Fsync).expect("it is written again");
    assert_eq!(git(&["cat-file", "blob", &blobs[0].0.to_string()], ""), "the content of 0");
}

#[test]
fn an_object_packed_while_it_is_written_is_no_error() {
    let (_dir, repo, _) = repository();
    let blobs = blobs(1);
    let (objects, packs) = (objects(&blobs), PackIndexes::default());
    write(repo.store_ref(), &packs, &objects, Durability::Fsync).expect("it is written");
    let mut store = LooseStore::new(repo.store_ref(), &packs);
    let (id, kind, bytes) = objects[0];
    let path = loose_path(store.root, id);
    let existing = store.existing(&path, id, kind, bytes).expect("it can be read");
    std::fs::remove_file(&path).expect("it goes");
    assert!(matches!(existing, Existing::Loose(file) if file.sync_all().is_ok()));
}

#[test]
fn a_directory_removed_by_git_is_created_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (fan, mut removed) = (dir.path().join("objects/98"), 0);
    let open = |times: usize, removed: &mut usize| {
        if *removed < times {
            *removed += 1;
            let _ = std::fs::remove_dir(&fan);
        }
        File::create(fan.join("file"))
    };
    let (_, is_new) = open_in(&fan, || open(TRIES - 1, &mut removed)).expect("the last time it stays");
    assert!(is_new && removed == TRIES - 1 && fan.join("file").exists());
    assert!(!open_in(&fan, || File::create(fan.join("other"))).expect("it is there").1);
    std::fs::remove_dir_all(&fan).expect("it goes");
    removed = 0;
    let given_up = open_in(&fan, || open(usize::MAX, &mut removed)).expect_err("it never stays");
    assert_eq!((given_up.kind(), removed), (ErrorKind::NotFound, TRIES));
}

#[test]
fn any_bytes_survive_compression() {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = (0..100_000).map(|_| random.u8(..)).collect();
    for bytes in [&b""[..], b"one", &[b'a'; 100_000], &noise] {
        let file = compressed(ObjectKind::Blob, bytes).expect("compresses");
        assert!(holds_object(&file, ObjectKind::Blob, bytes), "{} bytes", bytes.len());
        assert!(!holds_object(&file[..file.len() - 1], ObjectKind::Blob, bytes), "{} bytes, cut off", bytes.len());
        let more = [&file[..], b"x"].concat();
        assert!(!holds_object(&more, ObjectKind::Blob, bytes), "{} bytes, and one more", bytes.len());
    }
}

#[test]
fn small_objects_are_stored_uncompressed_and_git_reads_them() {
    let (_dir, repo, git) = repository();
    let mut random = fastrand::Rng::with_seed(7);
    // Up to 4085 bytes with a header of 10, which is one of 4 digits.
    for length in [0, 1, 100, 4074, 4075, 4076, 4096, 70_000] {
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(b'a'..=b'z')).collect();
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, ObjectKind::Blob, &bytes).expect("no collision");
        let object = [(&id, ObjectKind::Blob, bytes.as_slice())];
        let new = write(repo.store_ref(), &PackIndexes::default(), &object, Durability::None).expect("it is written");
        assert_eq!(new.len(), 1);
        let file = std::fs::read(loose_path(repo.store_ref().path(), &id)).expect("it is there");
        let is_stored = file.windows(bytes.len().max(1)).any(|part| part == bytes);
        assert_eq!(is_stored || length == 0, length <= 4075, "{length}");
        assert!(length > 4075 || file.len() <= BLOCK, "{length}");
        assert!(holds_object(&file, ObjectKind::Blob, &bytes), "{length}");
        for cut in [1, 4, 5] {
            assert!(!holds_object(&file[..file.len() - cut], ObjectKind::Blob, &bytes), "{length}, cut off by {cut}");
        }
        let mut wrong = file.clone();
        *wrong.last_mut().expect("a checksum") ^= 1;
        assert!(!holds_object(&wrong, ObjectKind::Blob, &bytes), "{length} with another checksum");
        assert_eq!(git(&["cat-file", "blob", &id.to_string()], "").as_bytes(), bytes, "{length}");
        let mut found = Vec::new();
        let read = gix::objs::Find::try_find(&repo, &id, &mut found).expect("it can be read").expect("it is found");
        assert_eq!((read.kind, read.data), (ObjectKind::Blob, bytes.as_slice()), "{length}");
        // What is there whole is not written again.
        let again = write(repo.store_ref(), &PackIndexes::default(), &object, Durability::None).expect("it is there");
        assert_eq!(again.len(), 0, "{length}");
    }
    assert_eq!(git(&["fsck", "--strict", "--no-dangling", "--full"], ""), "");
}
