//! `pleach merge`: branches come into their target through the queue, tested.

use serde_json::{Value, json};

use crate::support::{Ran, TestEnv};

mod agents;
mod archive;
mod breakage;
mod crash;
mod decisions;
mod demo;
mod invariants;
mod landing;
mod many;
mod order;
mod processes;

/// A repository with a file of twenty lines, and a queue with a test.
pub struct Queue {
    pub env: TestEnv,
}

impl Queue {
    /// A queue whose merges are tested by this command.
    pub fn tested(command: &str) -> Self {
        Self::with(&format!("merge: {{test_command: {command:?}, slots: 2}}\n"))
    }

    /// A queue with these settings. Without an agent among them none is looked for on this machine.
    pub fn with(settings: &str) -> Self {
        let env = TestEnv::with_repo();
        let has_agent = settings.lines().any(|line| line.starts_with("agent:"));
        let agent = if has_agent { "" } else { "agent: simulation\n" };
        env.write("repo/pleach.yaml", format!("{agent}{settings}"));
        env.write("repo/lines.txt", (1..=20).map(|line| format!("{line}\n")).collect::<String>());
        env.git(&["add", "-A"]);
        env.git(&["commit", "-qm", "Begin"]);
        Self { env }
    }

    /// A branch from a commit that writes these files.
    pub fn branch_at(&self, name: &str, from: &str, files: &[(&str, &str)]) -> String {
        self.env.git(&["checkout", "-q", "-b", name, from]);
        for (path, content) in files {
            self.env.write(format!("repo/{path}"), content);
        }
        self.env.git(&["add", "-A"]);
        self.env.git(&["commit", "-qm", &format!("Work of {name}")]);
        let head = self.env.git(&["rev-parse", "HEAD"]);
        self.env.git(&["checkout", "-q", "main"]);
        head.trim().to_owned()
    }

    /// A branch from main that writes these files.
    pub fn branch(&self, name: &str, files: &[(&str, &str)]) -> String {
        self.branch_at(name, "main", files)
    }

    /// A branch that changes one of the twenty lines, in the queue.
    pub fn line(&self, name: &str, line: usize, text: &str) {
        let lines: String = self
            .env
            .git(&["show", "main:lines.txt"])
            .lines()
            .enumerate()
            .map(|(nth, old)| if nth + 1 == line { format!("{text}\n") } else { format!("{old}\n") })
            .collect();
        self.branch(name, &[("lines.txt", &lines)]);
        self.enqueue(name);
    }

    /// Puts a branch into the queue.
    #[track_caller]
    pub fn enqueue(&self, branch: &str) -> Value {
        self.env.pleach(&["merge", "enqueue", branch, "--json"]).expect(0).json()
    }

    /// A branch that writes a file of its own, in the queue.
    #[track_caller]
    pub fn queued(&self, name: &str) -> Value {
        self.branch(name, &[(&format!("{name}.txt"), name)]);
        self.enqueue(name)
    }

    /// Works the queue, and gives the last document.
    #[track_caller]
    pub fn process(&self, exit: i32) -> Value {
        self.processed(exit).1
    }

    /// The same, with all that was printed.
    #[track_caller]
    pub fn processed(&self, exit: i32) -> (Ran, Value) {
        let ran = self.env.pleach(&["-y", "merge", "process", "--json"]).expect(exit);
        let last = ran.json_lines().pop().expect("a document");
        (ran, last)
    }

    /// The state of an entry, by its branch.
    #[track_caller]
    pub fn state(&self, branch: &str) -> String {
        self.why(branch)["state"].as_str().expect("a state").to_owned()
    }

    /// What `merge why` tells of an entry.
    #[track_caller]
    pub fn why(&self, branch: &str) -> Value {
        self.env.pleach(&["merge", "why", branch, "--json"]).expect(0).json()
    }

    /// The entries of the queue in order, by name.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let queues = self.env.pleach(&["merge", "queue", "--json"]).expect(0).json();
        let entries = queues["queues"][0]["entries"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// A file of the target.
    pub fn landed(&self, path: &str) -> Option<String> {
        let listed = self.env.git(&["ls-tree", "--name-only", "main", path]);
        (!listed.is_empty()).then(|| self.env.git(&["show", &format!("main:{path}")]))
    }

    /// The tip of the target.
    pub fn tip(&self) -> String {
        self.env.git(&["rev-parse", "main"]).trim().to_owned()
    }
}

/// The names of entries in a document.
pub fn names(entries: &Value) -> Vec<&str> {
    entries.as_array().expect("a list").iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

#[test]
fn the_page_about_the_queue_shows_what_happens() {
    let queue = Queue::tested("true");
    queue.branch("topic", &[("topic.txt", "1")]);
    queue.branch("other", &[("other.txt", "2")]);
    crate::tree_commands::page::shows_what_happens(&queue.env, "docs/merge-queue.md", 7);
}

#[test]
fn merge_queue() {
    let queue = Queue::tested("true");
    assert!(queue.env.pleach(&["merge"]).expect(0).stdout.contains("empty"));
    queue.queued("one");
    queue.queued("two");
    let shown = queue.env.pleach(&["merge", "--json"]).expect(0).json();
    let entries = &shown["queues"][0]["entries"];
    assert_eq!(shown["queues"][0]["target"], "main");
    assert_eq!((names(entries), &entries[1]["position"]), (vec!["one", "two"], &json!(2)));
    assert_eq!(
        (&entries[0]["state"], &entries[0]["attempts"], &entries[0]["tier"]),
        (&json!("submitted"), &json!(0), &Value::Null)
    );
    assert_eq!(queue.env.pleach(&["merge", "queue", "--json"]).expect(0).json(), shown, "`merge` is `merge queue`");
}

#[test]
fn merge_status() {
    let queue = Queue::tested("true");
    queue.queued("one");
    queue.process(0);
    queue.queued("two");
    let status = queue.env.pleach(&["merge", "status", "--json"]).expect(0).json();
    let expected = json!({
        "target": "main", "repo": "repo", "states": {"landed": 1, "waiting": 1}, "tiers": {"fast_forward": 1},
        "worked_by": null,
    });
    assert_eq!(status["queues"], json!([expected]));
}

#[test]
fn merge_enqueue() {
    let queue = Queue::tested("true");
    let head = queue.branch("one", &[("one.txt", "1")]);
    let entry = queue.enqueue("one");
    assert_eq!((&entry["head"], &entry["branch"], &entry["target"]), (&json!(head), &json!("one"), &json!("main")));
    assert_eq!(queue.enqueue("one")["id"], entry["id"], "it is there already");
    queue.env.git(&["checkout", "-q", "one"]);
    queue.env.git(&["commit", "-q", "--allow-empty", "-m", "More"]);
    queue.env.git(&["checkout", "-q", "main"]);
    let again = queue.enqueue("one");
    assert_eq!((&again["id"], again["head"] == entry["head"]), (&entry["id"], false), "the branch has moved on");
    for (args, code) in [
        (&["merge", "enqueue", "none"][..], "no-such-branch"),
        (&["merge", "enqueue", "main"], "merge-itself"),
        (&["merge", "why", "none"], "no-such-entry"),
    ] {
        let ran = queue.env.pleach(&[args, &["--json"]].concat()).expect(2);
        assert_eq!(ran.json()["error"]["code"], code, "{ran}");
    }
    queue.env.git(&["branch", "release", "main"]);
    let released = queue.env.pleach(&["merge", "enqueue", "one", "--into", "release", "--json"]).expect(0).json();
    assert_ne!(released["id"], entry["id"], "each target has its own queue");
}

#[test]
fn a_session_can_be_queued() {
    let queue = Queue::tested("true");
    queue.env.run(&crate::worktree_commands::one("echo 1 > made"), &[]).expect(0);
    let session = queue.env.session();
    let entry = queue.enqueue(&session);
    assert_eq!((&entry["session"], &entry["branch"]), (&json!(session), &json!(queue.env.branch())));
    queue.process(0);
    assert_eq!(queue.landed("made").as_deref(), Some("1"));
}
