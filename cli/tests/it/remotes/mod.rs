//! Remotes: cloned and fetched before a session starts, pushed to while it runs. The remotes are bare repositories beside
//! the clones.

mod end_to_end;
mod faults;
mod made_up;
mod page;
mod push;
mod start;
mod trees;
mod two_machines;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sessions::{Running, Story, graph, tool};
use crate::support::{Ran, TestEnv};

/// How long something may take that must come true at a remote.
const PATIENCE: Duration = Duration::from_secs(30);

/// A world with bare repositories as remotes.
pub struct World {
    pub env: TestEnv,
}

impl World {
    /// With a remote `remote.git` that has one commit; nothing is cloned yet.
    pub fn new() -> Self {
        let world = Self { env: TestEnv::new() };
        world.add_remote("remote");
        world
    }

    /// The same with a clone at `repo`, made by hand.
    pub fn cloned() -> Self {
        let world = Self::new();
        world.env.git_in(world.env.root(), &["clone", "--quiet", "remote.git", "repo"]);
        world
    }

    /// Makes a bare repository from one with a commit, which stays beside it to push from.
    fn add_remote(&self, name: &str) {
        let source = self.env.repo_at(&format!("{name}-source"));
        let bare = format!("{name}.git");
        self.env.git_in(self.env.root(), &["clone", "--quiet", "--bare", &format!("{name}-source"), &bare]);
        self.env.git_in(&source, &["remote", "add", "origin", &format!("../{bare}")]);
    }

    /// Lets the workspace have the repository `repo` with these settings, and more settings beside it.
    pub fn configure(&self, repo: &str, more: &str) {
        self.env.configure(&format!("workspace: {{repos: {{repo: {{path: repo, {repo}}}}}}}\n{more}\n"));
    }

    /// Commits a file to a branch of the remote, as somebody else would.
    pub fn commit_elsewhere(&self, name: &str, file: &str) -> String {
        let source = self.env.root().join(format!("{name}-source"));
        self.env.write(format!("{name}-source/{file}"), "theirs\n");
        self.env.git_in(&source, &["add", "."]);
        self.env.git_in(&source, &["commit", "--quiet", "-m", "Theirs"]);
        self.env.git_in(&source, &["push", "--quiet", "origin", "main"]);
        self.env.git_in(&source, &["rev-parse", "HEAD"])
    }

    pub fn bare(&self) -> PathBuf {
        self.env.root().join("remote.git")
    }

    /// The refs of the remote below a prefix, with their commits.
    #[track_caller]
    pub fn refs(&self, prefix: &str) -> Vec<(String, String)> {
        refs_in(&self.env, &self.bare(), prefix)
    }

    /// The commit a branch or ref of the remote is at; none if it does not have it.
    pub fn at_remote(&self, name: &str) -> Option<String> {
        self.refs(name).into_iter().find(|(found, _)| found == name).map(|(_, commit)| commit)
    }

    /// Installs a hook in the remote.
    pub fn hook(&self, name: &str, script: &str) {
        self.env.write_program(format!("remote.git/hooks/{name}"), &format!("#!/bin/sh\n{script}\n"));
    }

    /// Runs a pipeline from where the project is, everything approved.
    #[track_caller]
    pub fn run(&self, dot: &str, more: &[&str]) -> Ran {
        self.env.finish(self.command(dot, more).output().expect("pleach can be started"))
    }

    fn command(&self, dot: &str, more: &[&str]) -> std::process::Command {
        let file = self.env.write("pipeline.dot", dot);
        let mut command = self.env.command(&["-y", "run", file.to_str().expect("a path of the test's own")]);
        command.args(more).current_dir(self.env.root());
        command
    }

    /// The same without waiting for its end.
    pub fn start(&self, dot: &str) -> Running<'_> {
        let file = self.env.write("pipeline.dot", dot);
        self.env.spawn(&["-y", "run", file.to_str().expect("a path of the test's own")])
    }

    fn story(&self) -> Story {
        self.env.story()
    }

    /// Whether the remote has the branch and the record of the only session as they are here.
    #[track_caller]
    pub fn assert_all_pushed(&self) {
        let (branch, record) = (format!("refs/heads/{}", self.env.branch()), self.record());
        for name in [branch, record] {
            let here = self.env.git(&["rev-parse", &name]);
            assert_eq!(self.at_remote(&name), Some(here), "{name}");
        }
    }

    /// The record ref of the only session.
    #[track_caller]
    pub fn record(&self) -> String {
        format!("refs/pleach/sessions/{}/main", self.env.session())
    }

    /// What `status` says of the only session.
    #[track_caller]
    fn status(&self) -> Value {
        self.env.pleach(&["--json", "status", &self.env.session()]).expect(0).json()
    }
}

#[track_caller]
pub fn refs_in(env: &TestEnv, repo: &Path, prefix: &str) -> Vec<(String, String)> {
    let all = env.git_in(repo, &["for-each-ref", "--format=%(refname) %(objectname)", prefix]);
    let pair = |line: &str| line.split_once(' ').map(|(name, commit)| (name.to_owned(), commit.to_owned()));
    all.lines().filter_map(pair).collect()
}

/// Waits until something is true; one that never is fails the test.
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A pipeline of one command.
pub fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

/// A pipeline of two commands.
pub fn two(first: &str, second: &str) -> String {
    graph("two", &(tool("first", first) + &tool("second", second) + "start -> first -> second -> exit"))
}

/// The events of a kind that a run with `--json` told.
fn told(ran: &Ran, kind: &str) -> Vec<Value> {
    let name = format!("dev.orchestra.{kind}");
    ran.json_lines()
        .into_iter()
        .filter(|event| event["type"] == name.as_str())
        .map(|event| event["data"].clone())
        .collect()
}
