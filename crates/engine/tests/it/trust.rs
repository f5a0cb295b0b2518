//! What a program that embeds the library is given to approve before anything of a repository runs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use engine::env::{AgreesToAll, Truster};
use engine::tree::{self, TaskPipeline, TreeClaim, TreeEnded, TreePlan};
use engine::trust::{TrustItem, TrustScope};
use pleach_core::config::{Environment, Layer, Precedence, Resolved, resolve};
use pleach_core::event::Commits;
use pleach_core::ids::RepoName;
use pleach_core::plan::tree::TaskTree;
use pleach_core::plan::{Inputs, load};
use pleach_core::schedule::ScheduleOptions;
use pleach_core::step::TreeName;
use serde_json::Value;

use crate::engine::World;

const PIPELINE: &str = r#"digraph g {
    start [shape=Mdiamond] exit [shape=Msquare]
    implement [step=implement]
    test [shape=parallelogram, step=test]
    lint [shape=parallelogram, tool_command="touch linted"]
    start -> implement -> test -> lint -> exit
}"#;

const TREE: &str = r#"{"version": 1, "nodes": {
    "T001": {"id": "T001", "name": "Do it", "test_commands": [{"type": "unit", "command": "test -f made"}]}
}}"#;

const SCRIPT: &str = r#"
scripts:
  - name: all
    steps:
      - tools: [{shell: {command: "touch made"}}]
      - text: done
"#;

/// A repository that names its agent, has a hook for it, and wants its worktrees elsewhere.
fn world() -> World {
    let world = World::new();
    let repo = world.repo_path();
    std::fs::create_dir(repo.join(".claude")).unwrap();
    std::fs::write(repo.join(".claude/settings.json"), r#"{"hooks": "./evil"}"#).unwrap();
    world.git(&["add", "."], &repo);
    world.git(&["commit", "-q", "-m", "hook"], &repo);
    world
}

fn settings() -> (Resolved, Environment) {
    let text = "agent: claude\nworktrees:\n  base: /nowhere/copies\n  setup: make deps\n";
    let resolved = resolve(vec![Layer::file(Precedence::Project, "/p/pleach.yaml", text)]).unwrap();
    (resolved, Environment::from_pairs([("A", "b")]).with_dotenv([("LD_PRELOAD", "./x.so")]))
}

fn shown(items: &[TrustItem]) -> String {
    items.iter().map(|item| format!("{} ({}): {}\n", item.kind, item.where_from, item.seen())).collect()
}

#[test]
fn a_pipeline_is_approved_with_settings_and_agent_files() {
    let world = world();
    let (resolved, environment) = settings();
    let repo = world.repo();
    let state_dir = world.root().join("state");
    let workplace = TrustScope { repo: &repo, resolved: &resolved, environment: &environment, state_dir: &state_dir };
    let pipeline = load(PIPELINE, &Inputs::default(), &[]).0.unwrap();
    let given = TrustItem::command("somebody".into(), "said".into());
    let items = workplace.for_pipeline(repo.head().unwrap().commit, &pipeline, "g.dot", vec![given]).unwrap();
    insta::assert_snapshot!(shown(&items), @r#"
    command (worktrees.setup, /p/pleach.yaml:4): make deps
    variable (LD_PRELOAD, LD_PRELOAD in .env): LD_PRELOAD: ./x.so
    command (somebody): said
    command (tool_command of `lint`, g.dot): touch linted
    directory (worktrees.base, /p/pleach.yaml:3): worktrees.base: /nowhere/copies
    command (`.claude/settings.json` in the repository): {"hooks": "./evil"}
    "#);
}

fn plan(world: &World) -> TreePlan {
    TreePlan {
        tree: Arc::new(TaskTree::read(TREE).unwrap()),
        name: TreeName::File("task-tree.json".into()),
        document: TREE.into(),
        file: Some(world.repo_path().join("task-tree.json")),
        stamp: None,
        target: "main".parse().unwrap(),
        base_branch: None,
        branch_prefix: "pleach/".into(),
        repo_name: RepoName::new("repo").unwrap(),
        repos: None,
        limits: ScheduleOptions::default(),
        commits: Commits::Steps,
        test: None,
        test_timeout: Duration::from_secs(60),
        logs: "logs".into(),
        reports: "reports".into(),
        commit_logs: false,
        commit_reports: false,
        pipeline: TaskPipeline { dot: PIPELINE.into(), path: "g.dot".into(), files: BTreeMap::new() },
        pipelines: BTreeMap::new(),
        config: Value::Null,
        fresh: false,
        delete_branches: false,
        one: false,
        jobs: 1,
        queue: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_approved_with_tests_and_pipelines() {
    let world = world();
    let (resolved, environment) = settings();
    let (repo, plan) = (world.repo(), Arc::new(plan(&world)));
    let claim = TreeClaim::of_target(&repo, &plan.target).unwrap();
    let (mut run, brought) = tree::open(world.scripted(SCRIPT), repo, plan, claim).unwrap();
    let items = tree::to_trust(&run, &resolved, &environment, &brought).unwrap();
    insta::assert_snapshot!(shown(&items), @r#"
    command (worktrees.setup, /p/pleach.yaml:4): make deps
    variable (LD_PRELOAD, LD_PRELOAD in .env): LD_PRELOAD: ./x.so
    command (unit test of T001, task-tree.json): test -f made
    command (tool_command, g.dot): touch linted
    directory (worktrees.base, /p/pleach.yaml:3): worktrees.base: /nowhere/copies
    command (`.claude/settings.json` in the repository): {"hooks": "./evil"}
    "#);
    let agreed: Result<(), Infallible> = AgreesToAll.agree(items).await;
    assert!(agreed.is_ok());
    let outcome = tree::run_tree(&mut run).await;
    assert!(matches!(outcome.ends[..], [TreeEnded::Done]) && outcome.errors.is_empty(), "{outcome:?}");
}
