//! Marks on tasks and sessions whose branches will conflict.

use serde_json::{Value, json};

use super::{start, task, world};
use crate::merge_queue::Queue;
use crate::support::TestEnv;
use crate::worktree_commands::one;

const HINT: &str = "`pleach forecast` shows which branches and files will conflict";

/// The marks of what a command lists, and whether its text has the hint.
#[track_caller]
fn marks(env: &TestEnv, command: &[&str], of: &str) -> (Vec<Value>, bool) {
    let document = env.pleach(&[&["--json"], command].concat()).expect(0).json();
    let marks = document[of].as_array().expect("a list").iter().map(|listed| listed["forecast"].clone()).collect();
    (marks, env.pleach(command).expect(0).stdout.contains(HINT))
}

#[test]
fn a_task_that_will_conflict_is_marked() {
    let garden = world();
    garden.configure("tree: {max_retries: 2}\nmerge: {enabled: false, slots: 1}\n");
    let env = &garden.env;
    let id = task(env, "Fix it", &[]);
    let list = ["task", "list"];
    assert_eq!(marks(env, &list, "tasks"), (vec![Value::Null], false), "it has no branch yet");
    start(&garden, &[&id]).expect(4);
    assert_eq!(marks(env, &list, "tasks"), (vec![Value::Null], false));
    env.write(format!("repo/{id}.txt"), "other");
    env.git(&["add", "-A"]);
    env.git(&["commit", "-qm", "Meanwhile"]);
    for _ in 0..2 {
        assert_eq!(marks(env, &list, "tasks"), (vec![json!("conflict")], true));
        assert_eq!(marks(env, &["status"], "tasks"), (vec![json!("conflict")], true));
        let text = env.pleach(&["task", "list"]).expect(0).stdout;
        assert!(text.contains("finished, conflict expected"), "{text}");
        // What was found out before may be lost.
        std::fs::remove_dir_all(env.repo_path().join(".git/pleach/cache")).unwrap();
    }
    assert_eq!(marks(env, &["task", "list", "--blocked"], "tasks"), (vec![], false), "nothing that is listed");
}

#[test]
fn sessions_that_overlap_are_marked_until_merged() {
    let queue = Queue::with("merge: {slots: 1}\n");
    let env = &queue.env;
    // What there was no time for is known once everything was compared.
    let compared = || {
        env.pleach(&["forecast"]).expect(0);
        marks(env, &["status"], "sessions")
    };
    env.run(&one("sed -i s/^5$/five/ lines.txt"), &[]).expect(0);
    let first = env.branch();
    assert_eq!(compared(), (vec![Value::Null], false));
    env.run(&one("sed -i s/^15$/fifteen/ lines.txt"), &[]).expect(0);
    assert_eq!(compared(), (vec![json!("overlap"), json!("overlap")], true));
    env.run(&one("sed -i s/^15$/XV/ lines.txt"), &[]).expect(0);
    let (found, _) = compared();
    assert_eq!(found.iter().filter(|mark| **mark == json!("conflict")).count(), 2, "{found:?}");
    assert!(env.pleach(&["status"]).expect(0).stdout.contains("ready to land, conflict expected"));
    env.git(&["merge", "-q", &first]);
    let (found, _) = compared();
    assert_eq!(found.iter().filter(|mark| mark.is_null()).count(), 1, "what is merged has no mark: {found:?}");
}
