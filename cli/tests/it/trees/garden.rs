//! A repository with a tree in it and an agent that is a shell script, and what git reports a run over it.

use std::cell::RefCell;
use std::fs;

use pleach_core::step::Step;
use pleach_core::trailer::CommitMessage;
use serde_json::{Map, Value, json};

use crate::support::{Ran, TestEnv};

/// A tree that grows task by task.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Map<String, Value>,
    order: Option<Vec<String>>,
}

impl Tree {
    /// A tree of tasks without phases, each named after its id and depending on those after it: `"T002: T001"`.
    pub fn of(tasks: &[&str]) -> Self {
        tasks.iter().fold(Self::default(), |tree, task| tree.leaf(task, None))
    }

    /// A phase with tasks below it, written as in [`Tree::of`].
    pub fn phase(mut self, id: &str, tasks: &[&str]) -> Self {
        let below: Vec<&str> = tasks.iter().map(|task| task.split(':').next().unwrap_or(task)).collect();
        self.nodes.insert(id.to_owned(), json!({"id": id, "name": format!("Phase {id}"), "children": below}));
        tasks.iter().fold(self, |tree, task| tree.leaf(task, Some(id)))
    }

    /// A task written as in [`Tree::of`], below a node or not.
    pub fn leaf(mut self, task: &str, parent: Option<&str>) -> Self {
        let (id, needs) = task.split_once(':').unwrap_or((task, ""));
        let needs: Vec<&str> = needs.split_whitespace().collect();
        let name = format!("Grow {id}");
        let node = json!({"id": id, "name": name, "description": format!("Make {id} grow."), "depends_on": needs});
        self.nodes.insert(id.to_owned(), node);
        match parent {
            Some(parent) => self.with(id, "parent", json!(parent)),
            None => self,
        }
    }

    /// Sets a field of a node.
    pub fn with(mut self, id: &str, key: &str, value: Value) -> Self {
        self.nodes[id][key] = value;
        self
    }

    /// What tests a node: `"unit: make test"`, one after another.
    pub fn tests(self, id: &str, commands: &[&str]) -> Self {
        let command = |text: &&str| {
            let (kind, command) = text.split_once(": ").expect("a kind and a command");
            json!({"type": kind, "command": command})
        };
        let commands = commands.iter().map(command).collect();
        self.with(id, "test_commands", commands)
    }

    /// Gives the order.
    pub fn order(mut self, tasks: &[&str]) -> Self {
        self.order = Some(tasks.iter().map(|&task| task.to_owned()).collect());
        self
    }

    pub fn json(&self) -> String {
        let mut tree = json!({"nodes": self.nodes});
        if let Some(order) = &self.order {
            tree["execution_order"] = json!(order);
        }
        serde_json::to_string_pretty(&tree).expect("a tree of texts") + "\n"
    }
}

/// A step commit as git alone reads it.
#[derive(Debug)]
pub struct StepCommit {
    pub id: String,
    /// `T001 implement-pass`.
    pub status: String,
    pub subject: String,
    pub body: String,
    pub trailers: Vec<(String, String)>,
}

impl StepCommit {
    /// The value of a trailer.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// A world with a repository, a tree and an agent.
#[derive(Debug)]
pub struct Garden {
    pub env: TestEnv,
    target: RefCell<String>,
}

/// What an agent does that writes one file for every task, again in each attempt.
pub const WRITES: &str = "echo \"$task $n\" > \"$task.txt\"; echo \"Wrote $task.txt.\"";

/// What a reviewer says that likes everything.
pub const APPROVES: &str = "echo 'Looks right.'; echo APPROVED";

impl Garden {
    /// A garden whose agent writes a file for every task and approves of everything.
    pub fn new(tree: &Tree) -> Self {
        let garden = Self { env: TestEnv::with_repo(), target: RefCell::new("main".into()) };
        std::fs::create_dir(garden.env.root().join("asked")).expect("a directory of the test's own");
        // What a project says goes before it.
        garden.env.write("config/pleach/config.yaml", "tree: {commit_logs: true}\n");
        garden.env.configure(&garden.config(""));
        garden.agent(WRITES, APPROVES);
        garden.plant(tree);
        garden
    }

    /// The configuration, with more after it.
    fn config(&self, more: &str) -> String {
        let root = self.env.root().display();
        // The places outside where agent and tests leave word of what they saw.
        let places = format!("sandbox: {{rw: ['{root}/asked', '{root}/tmp', '{root}/home']}}\n");
        let sandbox = if more.contains("sandbox:") { "" } else { &places };
        format!("agent: \"command:{root}/agent.sh\"\n{sandbox}{more}")
    }

    /// Sets more than the agent.
    pub fn configure(&self, more: &str) {
        self.env.configure(&self.config(more));
    }

    /// What the agent does when it implements and when it reviews, as shell: `$task` is the task, `$n` counts the runs
    /// of this node for it from 1, `$prompt` is the file with what it was asked, `$W` a directory outside.
    pub fn agent(&self, implement: &str, review: &str) {
        let root = self.env.root().display();
        let script = format!(
            r#"#!/bin/sh
W='{root}'
cat > "$W/tmp/prompt.$$"
task=$(sed -n '/ task [^ ]*:/{{s/^.* task \([^ :]*\):.*/\1/p;q}}' "$W/tmp/prompt.$$")
n=$(ls "$W/asked" | grep -c "^$task\.$PLEACH_NODE\.")
n=$((n + 1))
prompt="$W/asked/$task.$PLEACH_NODE.$n"
mv "$W/tmp/prompt.$$" "$prompt"
case $PLEACH_NODE in
review) {review} ;;
*) {implement} ;;
esac
"#
        );
        self.env.write_program("agent.sh", &script);
    }

    /// Makes a branch and checks it out.
    pub fn switch_to_new(&self, branch: &str) {
        self.env.git(&["switch", "--quiet", "--create", branch]);
        *self.target.borrow_mut() = branch.to_owned();
    }

    /// Commits a tree as `task-tree.json`.
    pub fn plant(&self, tree: &Tree) {
        self.commit("task-tree.json", &tree.json());
    }

    /// Commits a file in the user's checkout.
    pub fn commit(&self, path: &str, content: &str) {
        self.env.write(self.env.repo_path().join(path), content);
        self.env.git(&["add", "--force", path]);
        self.env.git(&["commit", "--quiet", "-m", &format!("Change {path}")]);
    }

    /// Runs `pleach gardener` with the repository's commands approved.
    #[track_caller]
    pub fn gardener(&self, more: &[&str]) -> Ran {
        self.pleach("gardener", more)
    }

    /// Runs `pleach garden` likewise.
    #[track_caller]
    pub fn garden(&self, more: &[&str]) -> Ran {
        self.pleach("garden", more)
    }

    /// Runs a command and looks that it left everything in order: git reads every step as pleach does, nothing runs any
    /// more, and the user's checkout has no change it had not before.
    #[track_caller]
    fn pleach(&self, command: &str, more: &[&str]) -> Ran {
        let status = || self.env.git(&["status", "--porcelain", "--untracked-files=all"]);
        let before = status();
        let ran = self.env.pleach(&[&["-y", command], more].concat());
        assert_eq!(status(), before, "the user's checkout: {ran}");
        self.assert_in_order();
        ran
    }

    /// The subjects of the merges on `main`, oldest first.
    pub fn merges(&self) -> Vec<String> {
        let all = self.env.git(&["log", "--merges", "--first-parent", "--reverse", "--format=%s", "main"]);
        all.lines().map(str::to_owned).collect()
    }

    /// Fails the test if git reads a step commit otherwise than pleach, or a process is left.
    #[track_caller]
    pub fn assert_in_order(&self) {
        let all = self.env.git(&["rev-list", "--branches", "--grep=^Arborist-Step: "]);
        for id in all.lines() {
            self.step(id);
        }
        self.env.assert_no_process_left();
    }

    /// A step commit, read by git and by pleach.
    #[track_caller]
    fn step(&self, id: &str) -> StepCommit {
        let raw = self.env.git(&["log", "-1", "--format=%B", id]);
        let parsed = self.env.git(&["log", "-1", "--format=%(trailers:only=false,unfold=true)", id]);
        let by_program = self.interpret_trailers(&raw);
        let message = CommitMessage::read(&raw);
        let ours: Vec<String> = message.trailers.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        assert_eq!(by_program, ours, "git reads other trailers than pleach: {raw}");
        assert_eq!(parsed.trim_end().lines().collect::<Vec<_>>(), ours, "so does git log: {raw}");
        let branch = self.target.borrow();
        if raw.starts_with(&format!("task({branch}@")) {
            assert!(Step::read(&message, &branch).is_some(), "pleach does not know its own step: {raw}");
        }
        let subject = message.subject.clone();
        let inside = subject.split_once("): ").map(|(prefix, _)| prefix).unwrap_or_default();
        let mut parts = inside.rsplitn(3, '@');
        let (status, task) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        StepCommit {
            id: id.to_owned(),
            status: format!("{task} {status}").trim_start().to_owned(),
            subject,
            body: message.body,
            trailers: message.trailers,
        }
    }

    #[track_caller]
    fn interpret_trailers(&self, message: &str) -> Vec<String> {
        let path = self.env.write("tmp/message", message);
        let path = path.to_str().expect("a UTF-8 path");
        let parsed = self.env.git(&["interpret-trailers", "--parse", path]);
        parsed.lines().map(str::to_owned).collect()
    }

    /// The steps of a branch, oldest first.
    #[track_caller]
    pub fn steps(&self, branch: &str) -> Vec<StepCommit> {
        let all = self.env.git(&["rev-list", "--reverse", "--topo-order", "--grep=^Arborist-Step: ", branch]);
        all.lines().map(|id| self.step(id)).collect()
    }

    /// What the steps of a branch say, oldest first, without the start of the run: `T001 implement-pass`.
    #[track_caller]
    pub fn told(&self, branch: &str) -> Vec<String> {
        let all = self.steps(branch).into_iter().map(|step| step.status);
        all.filter(|status| status != "run-start").collect()
    }

    /// The newest step of a branch with this status.
    #[track_caller]
    pub fn newest(&self, branch: &str, status: &str) -> StepCommit {
        let found = self.steps(branch).into_iter().rfind(|step| step.status == status);
        found.unwrap_or_else(|| panic!("no {status} on {branch}: {:?}", self.told(branch)))
    }

    /// The tasks in the order they were completed.
    #[track_caller]
    pub fn completed(&self) -> Vec<String> {
        let all = self.told("main").into_iter();
        all.filter_map(|status| status.strip_suffix(" complete").map(str::to_owned)).collect()
    }

    /// What the agent was asked in its `n`th run of a node for a task.
    #[track_caller]
    pub fn asked(&self, task: &str, node: &str, n: u32) -> String {
        self.env.read(format!("asked/{task}.{node}.{n}"))
    }

    /// How often an agent was asked for a task at a node.
    pub fn times_asked(&self, task: &str, node: &str) -> usize {
        let asked = fs::read_dir(self.env.root().join("asked")).into_iter().flatten().flatten();
        let begin = format!("{task}.{node}.");
        asked.filter(|file| file.file_name().to_string_lossy().starts_with(&begin)).count()
    }

    /// A file of a commit.
    #[track_caller]
    pub fn file(&self, commit: &str, path: &str) -> String {
        self.env.git(&["show", &format!("{commit}:{path}")])
    }

    /// The files of a commit, without those below some directories.
    #[track_caller]
    pub fn files(&self, commit: &str) -> Vec<String> {
        let all = self.env.git(&["-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", commit]);
        let own = |path: &&str| !path.starts_with("logs/") && !path.starts_with("reports/");
        all.lines().filter(own).map(str::to_owned).collect()
    }

    /// The refs below a prefix.
    #[track_caller]
    pub fn refs(&self, prefix: &str) -> Vec<String> {
        let all = self.env.git(&["for-each-ref", "--format=%(refname)", prefix]);
        all.lines().map(str::to_owned).collect()
    }
}
