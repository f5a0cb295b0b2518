//! Branches of tasks and phases, and the merge queue.

use super::{clean, removed, stays};
use crate::tasks::{start, state, task, world};

#[test]
fn open_tasks_stay_and_landed_ones_go() {
    let garden = world();
    let env = &garden.env;
    let (landed, open, unwanted) = (task(env, "Land", &[]), task(env, "Wait", &[]), task(env, "Drop", &[]));
    start(&garden, &[&landed]).expect(0);
    assert_eq!(state(env, &landed), "landed");
    // Branches as a run leaves them that was stopped: one is open, one was cancelled, two are merged.
    let branch = |id: &str| format!("pleach/tasks/main/{id}");
    for id in [&open, &unwanted] {
        env.git(&["switch", "--quiet", "-c", &branch(id)]);
        env.git(&["commit", "--quiet", "--allow-empty", "-m", &format!("Half of {id}")]);
        env.git(&["switch", "--quiet", "main"]);
    }
    env.pleach(&["task", "cancel", &unwanted]).expect(0);
    env.git(&["branch", "--force", &branch(&landed), "main"]);
    env.git(&["branch", "pleach/phase/main/merged", "main"]);
    env.git(&["branch", "pleach/phase/main/open", &branch(&open)]);
    env.git(&["branch", "pleach/mine", "main"]);
    let told = clean(env, &[]);
    let mut gone = removed(&told, "branch");
    gone.sort_unstable();
    let mut expected = [branch(&landed), branch(&unwanted), "pleach/phase/main/merged".to_owned()];
    expected.sort_unstable();
    assert_eq!(gone, expected, "{told}");
    assert_eq!(removed(&told, "record").len(), 1, "the session of the task that has landed");
    assert_eq!(removed(&told, "worktree").len(), 1, "the worktree the tasks share");
    let why = |name: &str| stays(&told).into_iter().find(|(found, _)| found.ends_with(name)).map(|(_, why)| why);
    assert_eq!(why(&open), Some("its task has not landed"));
    assert_eq!(why("phase/main/open"), Some("its phase is not merged"));
    assert!(env.git(&["branch", "--list", "pleach/mine"]).contains("pleach/mine"), "it is the user's own");
    assert_eq!(env.keeps(), ["refs/pleach/keep/tasks-main-1"], "of the task that was cancelled");
    assert_eq!(state(env, &landed), "landed", "its steps are on the target");
}

#[test]
fn work_in_the_merge_queue_stays() {
    let garden = world();
    let env = &garden.env;
    let (session, _) = env.ended();
    env.pleach(&["merge", "enqueue", &session]).expect(0);
    let told = clean(env, &[]);
    assert_eq!(removed(&told, "branch"), [""; 0], "{told}");
    assert!(stays(&told)[0].1.contains("is in the merge queue"), "{told}");
}
