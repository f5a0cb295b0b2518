//! How a repository comes to be where a session starts: "Remote Git Tests" of the source.

use std::fs;

use super::{World, one, told};
use crate::sessions::{graph, tool};
use crate::support::Checkout;

#[test]
fn clone_on_start() {
    let world = World::new();
    world.configure("remote: remote.git", "");
    world.run(&one("ls > found"), &[]).expect(0);
    let story = world.story();
    let tip = world.at_remote("refs/heads/main").expect("a branch");
    let remote = world.bare().display().to_string();
    assert_eq!(story.kinds()[..3], ["PipelineStarted", "RepoCloned", "SessionBranchCreated"]);
    assert_eq!(story.first("RepoCloned"), serde_json::json!({"repo": "repo", "remote": remote, "commit": tip}));
    assert_eq!(story.records[0].1.len(), 2, "it is in the first record");
    assert_eq!(story.first("PipelineStarted")["base"]["repo"], tip.as_str());
    assert_eq!(world.env.committed("found"), "README.md\nfound");
    // An ordinary clone, and nothing beside it.
    assert_eq!(world.env.git(&["rev-parse", "--abbrev-ref", "main@{upstream}"]), "origin/main");
    let left: Vec<_> = fs::read_dir(world.env.root()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("clone-")), "{left:?}");
}

#[test]
fn fetch_on_start() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: never", "");
    let theirs = world.commit_elsewhere("remote", "new");
    let before = Checkout::of(&world.env, &world.env.repo_path());
    let ran = world.run(&one("cat new > seen"), &[]).expect(0);
    assert_eq!(ran.stderr.matches("which is ahead of HEAD").count(), 1, "{ran}");
    let story = world.story();
    let fetched = story.first("RepoFetched");
    assert_eq!((&fetched["start"], &fetched["commit"]), (&"upstream".into(), &theirs.as_str().into()));
    assert_eq!(story.first("PipelineStarted")["base"]["repo"], theirs.as_str());
    assert_eq!(story.first("PipelineStarted")["targets"]["repo"], "main");
    assert_eq!(world.env.committed("seen"), "theirs");
    assert_eq!(world.env.git(&["rev-parse", "refs/pleach/remote/repo/heads/main"]), theirs);
    // Neither config nor branches nor FETCH_HEAD of the user.
    before.assert_unchanged(&world.env, &world.env.repo_path());
    // A branch of another name follows what it is configured to follow.
    world.env.git(&["switch", "--quiet", "-c", "topic", "--track", "origin/main"]);
    let newer = world.commit_elsewhere("remote", "newer");
    let ran = world.run(&one("true"), &["--json"]).expect(0);
    assert_eq!(told(&ran, "RepoFetched")[0]["commit"], newer.as_str());
}

#[test]
fn an_unrelated_repository_is_refused_before_it_is_pushed() {
    let world = World::new();
    world.configure("remote: remote.git, push: on_checkpoint", "");
    world.env.git_in(world.env.root(), &["init", "--quiet", "-b", "main", "repo"]);
    world.env.write("repo/diary", "private\n");
    world.env.git(&["add", "."]);
    world.env.git(&["commit", "--quiet", "-m", "Mine"]);
    let before = world.refs("refs/");
    let ran = world.run(&one("echo 1 > one"), &[]).expect(2);
    ran.fails_with("unrelated-repository").naming("no commit in common").naming("workspace.repos.repo.path");
    assert_eq!((world.refs("refs/"), world.env.sessions().len()), (before, 0));
    // A branch that begins anew is none, beside others.
    let world = World::cloned();
    world.configure("remote: remote.git, push: never", "");
    world.env.git(&["switch", "--quiet", "--orphan", "pages"]);
    world.env.git(&["commit", "--quiet", "--allow-empty", "-m", "Begin anew"]);
    world.run(&one("echo 1 > one"), &[]).expect(0);
}

#[test]
fn a_head_with_commits_of_its_own_is_the_start() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: never", "");
    let head = || world.env.git(&["rev-parse", "HEAD"]);
    let start = |why: &str| {
        let ran = world.run(&one("true"), &["--json"]).expect(0);
        let fetched = told(&ran, "RepoFetched").remove(0);
        assert_eq!((&fetched["start"], &fetched["commit"]), (&why.into(), &head().into()));
    };
    start("same");
    world.env.write("repo/mine", "mine\n");
    world.env.git(&["add", "."]);
    world.env.git(&["commit", "--quiet", "-m", "Mine"]);
    start("ahead");
    world.commit_elsewhere("remote", "theirs");
    start("diverged");
    world.env.git(&["switch", "--quiet", "-c", "alone"]);
    start("no_upstream");
    world.env.git(&["switch", "--quiet", "--detach"]);
    start("no_upstream");
}

#[test]
fn no_clone_without_remote() {
    let world = World::cloned();
    world.configure("branch_prefix: pleach/", "");
    world.commit_elsewhere("remote", "new");
    world.run(&one("ls > found"), &[]).expect(0);
    assert_eq!(world.env.committed("found"), "README.md\nfound");
    assert!(!world.story().kinds().iter().any(|kind| kind.starts_with("Repo")));
    assert_eq!(world.env.git(&["for-each-ref", "refs/pleach/remote/"]), "");
    assert_eq!(world.refs("refs/heads/pleach/"), []);
}

#[test]
fn missing_path_no_remote() {
    let world = World::new();
    world.configure("branch_prefix: pleach/", "");
    let ran = world.run(&one("true"), &[]).expect(2);
    ran.fails_with("not-a-directory").naming("`repo` is not there").naming("workspace.repos.repo.remote");
    assert!(!world.env.repo_path().exists());
}

#[test]
fn shallow_clone() {
    let world = World::new();
    for number in 0..5 {
        world.commit_elsewhere("remote", &format!("file{number}"));
    }
    world.configure("remote: remote.git, clone_depth: 2", "");
    let branch = |id: &str| tool(id, &format!("echo {id} > {id}"));
    let fan_out = graph(
        "both",
        &(branch("a")
            + &branch("b")
            + " fork [shape=component]\n join [shape=tripleoctagon]\n start -> fork -> a -> join\n fork -> b -> join -> exit"),
    );
    world.run(&fan_out, &[]).expect(0);
    assert_eq!(world.env.git(&["rev-list", "--count", "main"]), "2");
    assert_eq!(world.story().first("RepoCloned")["depth"], 2);
    // It is worked in, merged in and pushed from like any other, and stays shallow.
    assert_eq!(world.env.git(&["rev-parse", "--is-shallow-repository"]), "true");
    let remote = world.at_remote(&format!("refs/heads/{}", world.env.branch())).expect("it is pushed");
    assert_eq!(remote, world.env.git(&["rev-parse", &world.env.branch()]));
    assert_eq!(world.env.committed("a") + &world.env.committed("b"), "ab");
    // So it is fetched: what is new, and no more.
    world.commit_elsewhere("remote", "newest");
    world.run(&one("cat newest"), &[]).expect(0);
    assert_eq!(world.env.git(&["rev-list", "--count", "refs/pleach/remote/repo/heads/main"]), "3");
}

#[test]
fn shallow_clone_default() {
    let world = World::new();
    world.commit_elsewhere("remote", "new");
    world.configure("remote: remote.git", "");
    world.run(&one("true"), &[]).expect(0);
    assert_eq!(world.env.git(&["rev-list", "--count", "main"]), "2");
    assert_eq!(world.env.git(&["rev-parse", "--is-shallow-repository"]), "false");
    assert_eq!(world.story().first("RepoCloned").get("depth"), None);
}

/// A shallow clone of a remote with this many commits, with a session whose pipeline has run in it.
fn shallow(commits: usize) -> World {
    let world = World::new();
    for number in 1..commits {
        world.commit_elsewhere("remote", &format!("file{number}"));
    }
    world.configure("remote: remote.git, clone_depth: 1, push: never", "");
    world.run(&one("echo 1 > one"), &[]).expect(0);
    world
}

#[test]
fn what_only_shows_fetches_no_history() {
    let world = shallow(4);
    let sid = world.env.session();
    world.env.write("repo/task-tree.json", r#"{"nodes": {"T001": {"id": "T001", "name": "One"}}}"#);
    let is_shallow = || world.env.git(&["rev-parse", "--is-shallow-repository"]) == "true";
    for shows in [
        &["status"][..],
        &["status", &sid],
        &["inspect", "T001"],
        &["logs"],
        &["forecast"],
        &["merge", "queue"],
        &["land", &sid, "--dry-run"],
        &["skip", "T001", "--dry-run"],
        &["gardener", "--dry-run"],
        &["__complete", "--", "inspect"],
    ] {
        let ran = world.env.pleach(shows);
        assert!(is_shallow(), "{shows:?}: {ran}");
    }
    // Older steps may be there: what decides about tasks fetches the rest first.
    world.env.pleach(&["skip", "T001"]).expect(0);
    assert!(!is_shallow());
    assert_eq!(world.env.git(&["rev-list", "--count", "origin/main"]), "4");
}

#[test]
fn a_landing_deepens_first_or_says_what_lacks() {
    let world = shallow(3);
    let (env, source) = (&world.env, world.env.root().join("remote-source"));
    env.git_in(&source, &["switch", "--quiet", "-c", "topic", "main~2"]);
    env.git_in(&source, &["commit", "--quiet", "--allow-empty", "-m", "On topic"]);
    env.git_in(&source, &["push", "--quiet", "origin", "topic"]);
    env.git(&["fetch", "--quiet", "--depth=1", "origin", "topic:topic"]);
    let land = ["-y", "land", &env.session(), "--into", "topic"];
    world.configure("branch_prefix: pleach/", "");
    for command in [&land[..], &["-y", "merge", "process", "--into", "topic"]] {
        env.pleach(command).expect(2).fails_with("shallow-clone").naming("git fetch --unshallow");
    }
    world.configure("remote: remote.git, clone_depth: 1, push: never", "");
    env.pleach(&land).expect(0);
    assert_eq!(env.git(&["rev-parse", "--is-shallow-repository"]), "false");
    assert_eq!(env.git(&["show", "topic:one"]), "1");
}

#[test]
fn a_failed_clone_ends_with_7_and_leaves_nothing() {
    let world = World::new();
    for remote in ["nowhere.git", "'--upload-pack=touch x'", "'ext::sh -c touch% x'"] {
        world.configure(&format!("remote: {remote}"), "");
        let ran = world.run(&one("true"), &[]);
        assert_eq!(ran.code, if remote == "nowhere.git" { 7 } else { 2 }, "{ran}");
        assert!(!world.env.repo_path().exists() && !world.env.root().join("x").exists());
    }
    world.configure("remote: nowhere.git", "");
    let ran = world.run(&one("true"), &[]);
    ran.fails_with("clone-failed").naming("does not exist").naming("workspace.repos.repo.remote");
}

#[test]
fn a_failed_fetch_is_a_warning() {
    let world = World::cloned();
    world.configure("remote: 'https://me:pa55word@localhost:1/x.git', push: never", "");
    let ran = world.run(&one("ls > found"), &[]).expect(0);
    ran.warns_once("fetch-failed").naming("cannot fetch `repo` from https://me:…@localhost:1/x.git");
    assert!(!(ran.stderr + &world.story().whole_text(&world.env)).contains("pa55word"));
    assert_eq!(world.env.committed("found"), "README.md\nfound");
}

#[test]
fn remotes_and_outside_paths_are_asked_about_once() {
    let world = World::new();
    world.env.write("project/pipeline.dot", one("true"));
    world.env.write("project/pleach.yaml", "workspace: {repos: {repo: {path: ../repo, remote: ../remote.git}}}\n");
    let project = world.env.root().join("project");
    let run = |more: &[&str]| {
        let args = [more, &["run", "pipeline.dot"]].concat();
        world.env.finish(world.env.command(&args).current_dir(&project).output().expect("pleach can be started"))
    };
    let ran = run(&[]).expect(4);
    ran.fails_with("trust-missing").naming("2 items");
    for key in ["workspace.repos.repo.remote", "workspace.repos.repo.path"] {
        assert_eq!(ran.stderr.matches(key).count(), 2, "where it is, and what it says: {ran}");
    }
    assert!(!world.env.repo_path().exists(), "nothing is cloned before");
    run(&["-y"]).expect(0);
    run(&[]).expect(0);
    // Another remote is another question.
    world.env.write("project/pleach.yaml", "workspace: {repos: {repo: {path: ../repo, remote: ../other.git}}}\n");
    run(&[]).expect(4).fails_with("trust-missing").naming("1 item");
}

#[test]
fn a_link_out_of_the_project_is_asked_about() {
    let world = World::cloned();
    world.env.write("project/pipeline.dot", one("true"));
    world.env.write("project/pleach.yaml", "workspace: {repos: {repo: {path: there/repo}}}\n");
    let project = world.env.root().join("project");
    std::os::unix::fs::symlink("..", project.join("there")).unwrap();
    let run = |more: &[&str]| {
        let args = [more, &["run", "pipeline.dot"]].concat();
        world.env.finish(world.env.command(&args).current_dir(&project).output().expect("pleach can be started"))
    };
    let ran = run(&[]).expect(4);
    ran.fails_with("trust-missing").naming("2 items");
    assert_eq!(ran.stderr.matches("workspace.repos.repo.path").count(), 2, "{ran}");
    run(&["-y"]).expect(0);
}
