//! The refs of ad-hoc tasks, with several writers.

use std::collections::BTreeSet;

use engine::tree::ad_hoc::{NoAdHocTask, StoredTask, TaskStore};
use git::Repo;
use pleach_core::ids::{BranchName, RepoName};
use pleach_core::redact::Redactor;

use super::world::World;

fn create(repo: &Repo, text: &str) -> StoredTask {
    let (name, target) = (RepoName::new("repo").unwrap(), BranchName::new("main").unwrap());
    let redactor = Redactor::new(std::iter::empty::<(&str, &str)>());
    TaskStore::new(repo).create(&redactor, text, &name, &target, "pleach/", |_| {}).unwrap()
}

#[test]
fn tasks_created_at_once_have_ids_of_their_own() {
    let world = World::new();
    let repo = world.repo.clone();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let repo = repo.clone();
            scope.spawn(move || (0..5).for_each(|turn| drop(create(&repo, &format!("{thread} {turn}")))));
        }
    });
    let (tasks, unreadable) = TaskStore::new(&repo).all().unwrap();
    assert!(unreadable.is_empty());
    let texts: BTreeSet<String> = tasks.iter().map(|stored| stored.task.description.clone()).collect();
    let ids: BTreeSet<String> = tasks.iter().map(|stored| stored.task.id.to_string()).collect();
    assert_eq!((texts.len(), ids.len()), (20, 20));
    assert!(tasks.is_sorted_by_key(|stored| stored.task.created));
}

#[test]
fn of_many_who_cancel_one_is_first() {
    let world = World::new();
    let repo = world.repo.clone();
    let StoredTask { task, tip } = create(&repo, "first");
    let first = std::thread::scope(|scope| {
        let cancel = || TaskStore::new(&repo).cancel(&task.id).unwrap().expect("the task").1;
        let all: Vec<_> = (0..8).map(|_| scope.spawn(cancel)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|is_first| *is_first).count()
    });
    assert_eq!(first, 1);
    let found = TaskStore::new(&repo).get(&task.id).unwrap().expect("the task");
    assert!(found.task.cancelled.is_some());
    assert_eq!(repo.commit(found.tip).unwrap().parents, [tip], "its history has both");
    assert!(matches!(TaskStore::new(&repo).find("zzzz"), Err(NoAdHocTask::Unknown { .. })));
}
