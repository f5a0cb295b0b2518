//! Runs over task trees: the branches and records of their tasks are pushed at checkpoints, the target never.

use super::refs_in;
use crate::trees::garden::{Garden, Tree};

#[test]
fn tasks_are_pushed_at_checkpoints_and_the_target_never() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let (env, bare) = (&garden.env, garden.env.root().join("remote.git"));
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"]);
    let before = env.git_in(&bare, &["rev-parse", "main"]);
    garden.configure(
        "workspace: {repos: {repo: {path: repo, remote: remote.git, push: on_checkpoint}}}\nrecord: {push_interval: 0}\n",
    );
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    let here = refs_in(env, &garden.env.repo_path(), "refs/pleach/sessions/");
    assert_eq!(here.len(), 2);
    assert_eq!(refs_in(env, &bare, "refs/pleach/sessions/"), here, "every record as it is here");
    let branches: Vec<String> = refs_in(env, &bare, "refs/heads/").into_iter().map(|(name, _)| name).collect();
    let tasks = ["T001", "T002"].map(|task| format!("refs/heads/pleach/tasks/main/{task}"));
    assert_eq!(branches, [&["refs/heads/main".to_owned()], &tasks[..]].concat());
    assert_eq!(env.git_in(&bare, &["rev-parse", "main"]), before);
    env.git_in(&bare, &["fsck", "--no-dangling"]);
}

#[test]
fn a_tree_is_not_pushed_to_an_unrelated_remote() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let env = &garden.env;
    env.git_in(env.root(), &["init", "--quiet", "-b", "main", "other"]);
    env.git_in(&env.root().join("other"), &["commit", "--quiet", "--allow-empty", "-m", "Theirs"]);
    let remote = "workspace: {repos: {repo: {path: repo, remote: other, push: on_checkpoint}}}\n";
    garden.configure(remote);
    garden.gardener(&[]).expect(2).fails_with("unrelated-repository");
    assert_eq!(refs_in(env, &env.root().join("other"), "refs/").len(), 1);
    garden.configure(&remote.replace("on_checkpoint", "never"));
    garden.gardener(&[]).expect(0);
}
