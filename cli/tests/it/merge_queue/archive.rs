//! Entries that were closed long ago.

use super::{Queue, names};

/// Has an entry made, and closed, some years ago.
fn age(queue: &Queue, branch: &str) -> String {
    let id = queue.why(branch)["id"].as_str().expect("an id").to_owned();
    let old = format!("01G0{}", &id[4..]);
    let name = |id: &str| format!("refs/pleach/queue/main/entry/{id}");
    let text = queue.env.git(&["show", &format!("{}:entry.json", name(&id))]).replace(&id, &old);
    queue.env.write("repo/.git/old.json", &text);
    let blob = queue.env.git(&["hash-object", "-w", ".git/old.json"]);
    let person =
        ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"].map(|key| (key, "old"));
    let date = "1600000000 +0000";
    let index = [("GIT_INDEX_FILE", ".git/old-index"), ("GIT_COMMITTER_DATE", date), ("GIT_AUTHOR_DATE", date)];
    let git = |args: &[&str]| {
        let ran =
            queue.env.program("git", &queue.env.repo_path()).args(args).envs(index).envs(person).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    git(&["update-index", "--add", "--cacheinfo", &format!("100644,{},entry.json", blob.trim())]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", &tree, "-p", &name(&id), "-m", &format!("Old\n\nPleach-Entry: {old}")]);
    queue.env.git(&["update-ref", &name(&old), &commit]);
    queue.env.git(&["update-ref", "-d", &name(&id)]);
    old
}

#[test]
fn entries_closed_long_ago_are_kept_in_one_ref() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.queued("two");
    queue.process(0);
    queue.queued("three");
    queue.env.pleach(&["merge", "drop", "three"]).expect(0);
    let (one, three) = (age(&queue, "one"), age(&queue, "three"));
    let head = queue.env.git(&["rev-parse", "one"]);
    queue.queued("four");
    assert_eq!(names(&queue.process(0)["landed"]), ["four"]);
    let refs = queue.env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/queue/main"]);
    assert!(!refs.contains(&one) && !refs.contains(&three) && refs.contains("main/done"), "{refs}");
    let why = queue.why("one");
    assert_eq!((why["id"].as_str(), why["state"].as_str()), (Some(one.as_str()), Some("landed")));
    let listed = queue.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
    assert_eq!(names(&listed["queues"][0]["entries"]), ["one", "three", "two", "four"]);
    queue.env.git(&["branch", "-D", "one"]);
    queue.env.git(&["merge-base", "--is-ancestor", head.trim(), "refs/pleach/queue/main/done"]);
    // It can still be decided about.
    queue.env.pleach(&["merge", "retry", "three"]).expect(0);
    queue.env.pleach(&["merge", "undo", "one"]).expect(0);
    assert_eq!(queue.process(0)["landed"].as_array().unwrap().len(), 2);
    assert_eq!((queue.landed("one.txt"), queue.landed("three.txt").is_some()), (None, true));
}
