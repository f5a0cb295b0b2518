//! `pleach worktree`: what there is, what can go, and what every start repairs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::parallel::{fan, linked};
use crate::sessions::{Gate, graph, tool};
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

mod edge_cases;
mod prune;
mod starts;

/// A pipeline of one tool.
pub fn one(command: &str) -> String {
    graph("one", &format!("{} start -> work -> exit", tool("work", command)))
}

impl TestEnv {
    /// What `worktree list --json` shows.
    #[track_caller]
    pub fn listed(&self) -> Vec<Value> {
        self.pleach(&["worktree", "list", "--json"]).expect(0).json()["worktrees"].as_array().expect("a list").clone()
    }

    /// The states of all worktrees, oldest first.
    #[track_caller]
    pub fn states(&self) -> Vec<String> {
        self.listed().iter().map(|found| found["state"].as_str().expect("a word").to_owned()).collect()
    }

    /// Runs `worktree prune --json`, and gives the document.
    #[track_caller]
    pub fn prune(&self, more: &[&str], exit: i32) -> (Ran, Value) {
        let args = [&["worktree", "prune", "--json"], more].concat();
        let ran = self.pleach(&args).expect(exit);
        let document = ran.json();
        (ran, document)
    }

    /// A session that has ended, with the file `made` committed: its id and its worktree.
    #[track_caller]
    pub fn ended(&self) -> (String, PathBuf) {
        let before = self.sessions();
        self.run(&one("echo 1 > made"), &[]).expect(0);
        let session = self.sessions().into_iter().find(|id| !before.contains(id)).expect("another session");
        let worktree = linked(self).into_iter().find(|path| path.contains(&session)).expect("its worktree");
        (session, worktree.into())
    }

    /// Removes the record of a session, as a user can by hand.
    pub fn forget(&self, session: &str) {
        self.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{session}/main")]);
    }

    /// What is kept, by the names of the refs.
    pub fn keeps(&self) -> Vec<String> {
        let all = self.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
        all.lines().map(str::to_owned).collect()
    }
}

/// The paths in a list of worktrees.
pub fn paths(list: &Value) -> Vec<&Path> {
    list.as_array().expect("a list").iter().map(|found| Path::new(found["path"].as_str().expect("a path"))).collect()
}

#[test]
fn worktree_list() {
    let env = TestEnv::with_repo();
    assert_eq!(env.listed(), [Value::Null; 0], "there is none yet");
    let (session, worktree) = env.ended();
    let all = env.listed();
    let mut shown = all[0].clone();
    let created = shown.as_object_mut().expect("an object").remove("created").expect("a time");
    assert!(created.as_str().expect("a time").starts_with("20"), "{created}");
    let expected = json!({
        "owner": format!("{session}/main"), "session": session, "context": "main", "task": null, "repo": "repo",
        "path": worktree, "branch": env.branch(), "state": "idle",
    });
    assert_eq!((all.len(), shown), (1, expected));
    let shown = env.pleach(&["worktree", "list"]).expect(0);
    // Columns are as wide as the age, which differs.
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["owner", "state", "branch", "age", "path"]);
    let (owner, branch) = (format!("{session}/main"), env.branch());
    assert_eq!((rows.len(), &rows[1][..3]), (2, &[&*owner, "idle", &*branch][..]), "{shown}");
    assert_eq!(rows[1].last().copied(), worktree.to_str());
}

#[test]
fn sizes_are_read_only_when_asked_for() {
    let env = TestEnv::with_repo();
    let (_, worktree) = env.ended();
    assert_eq!(env.listed()[0].get("size"), None);
    fs::write(worktree.join("large"), vec![1; 300_000]).unwrap();
    let all = env.pleach(&["worktree", "list", "--json", "--sizes"]).expect(0).json();
    assert!(all["worktrees"][0]["size"].as_u64().expect("a number") >= 300_000, "{all}");
    let shown = env.pleach(&["worktree", "list", "--sizes"]).expect(0);
    assert!(shown.stdout.contains(" KiB  "), "{shown}");
}

#[test]
fn list_tells_the_states_apart() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let (gone, _) = env.ended();
    let (_, missing) = env.ended();
    let (_, locked) = env.ended();
    let (_, used) = env.ended();
    env.forget(&gone);
    fs::remove_dir_all(missing).unwrap();
    env.git(&["worktree", "lock", "--reason", "mine", locked.to_str().unwrap()]);
    let gate = Gate::new(&env, "tool");
    let mut run = env.start(&one(&gate.command()), &[]);
    let held = gate.reached(&mut run);
    // The start has repaired what could be.
    let running = env.sessions().pop().expect("it runs");
    let of_running =
        |state: &str| env.listed().iter().any(|found| found["session"] == *running && found["state"] == *state);
    assert!(of_running("used"));
    run.kill(held);
    assert!(of_running("idle"));
    assert!(used.is_dir());
    assert_eq!(env.states(), ["locked", "idle", "idle"]);
}

#[test]
fn list_shows_the_worktrees_of_parallel_branches() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt; false") + &tool("b", "echo b > b.txt; false") + " join -> exit";
    env.run(&fan("both", "", &["a", "b"], &body), &[]).expect(1);
    let all = env.listed();
    let contexts: Vec<&str> = all.iter().map(|found| found["context"].as_str().expect("a context")).collect();
    assert_eq!((contexts.len(), contexts[0]), (3, "main"), "{contexts:?}");
    for found in &all {
        let context = found["context"].as_str().unwrap();
        assert_eq!((found["branch"].as_str(), &found["state"]), (Some(&*env.branch_of(context)), &json!("idle")));
    }
    let (_, pruned) = env.prune(&[], 0);
    assert_eq!(paths(&pruned["removed"]).len(), 3, "{pruned}");
    assert_eq!((linked(&env).len(), env.keeps().len()), (0, 0), "their branches have everything");
    let base = Path::new(all[0]["path"].as_str().unwrap()).parent().unwrap();
    assert!(!base.exists(), "nothing is left of the session there");
}

#[test]
fn list_shows_the_worktree_of_tasks() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    let all = garden.env.listed();
    let shown = (&all[0]["owner"], &all[0]["task"], &all[0]["session"], &all[0]["branch"], &all[0]["state"]);
    assert_eq!(shown, (&json!("tasks on main"), &json!("main"), &Value::Null, &json!("main"), &json!("idle")));
    assert_eq!(all.len(), 1);
}

#[test]
fn worktrees_of_tasks_at_once_are_listed_and_pruned() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let gates = ["T001", "T002"].map(|task| Gate::new(&garden.env, task));
    garden.configure("sandbox: {mode: off}\n");
    let waits = gates.each_ref().map(Gate::command);
    let both = format!("if [ $task = T001 ]; then {}; else {}; fi", waits[0], waits[1]);
    garden.agent(&format!("{both}; {WRITES}"), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--jobs", "2"]);
    let held = gates.each_ref().map(|gate| gate.reached(&mut run));
    assert_eq!(garden.env.states(), ["used", "used"]);
    let (_, used) = garden.env.prune(&["--force"], 0);
    assert_eq!(paths(&used["removed"]).len(), 0, "{used}");
    for (gate, held) in gates.iter().zip(held) {
        gate.open(held);
    }
    run.end().expect(0);
    let all = garden.env.listed();
    let mut owners: Vec<&str> = all.iter().filter_map(|found| found["owner"].as_str()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["tasks on main", "tasks on main (2)"]);
    let (_, pruned) = garden.env.prune(&[], 0);
    assert_eq!((paths(&pruned["removed"]).len(), linked(&garden.env).len()), (2, 0), "{pruned}");
}

#[test]
fn worktrees_of_the_user_are_not_listed_or_touched() {
    let env = TestEnv::with_repo();
    let (session, worktree) = env.ended();
    // As far as their paths tell, they could be pleach's.
    let base = worktree.parent().unwrap().parent().unwrap();
    let own = [env.root().join("abcdefgh/main"), base.join("abcdefgh/main"), env.root().join("mine")];
    env.git(&["worktree", "add", "--quiet", "--detach", own[0].to_str().unwrap()]);
    env.git(&["worktree", "add", "--quiet", "-b", "mine", own[1].to_str().unwrap()]);
    env.git(&["worktree", "add", "--quiet", "-b", "other", own[2].to_str().unwrap()]);
    assert_eq!(env.listed().len(), 1);
    let (_, pruned) = env.prune(&["--force"], 0);
    assert_eq!(paths(&pruned["removed"]), [&worktree]);
    env.forget(&session);
    env.prune(&["--force"], 0);
    assert!(own.iter().all(|path| path.join("README.md").exists()));
    assert_eq!(linked(&env).len(), 3);
}
