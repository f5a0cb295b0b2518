//! The engine as an embedding program uses it: real git, real processes, a scripted provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agents::agent::{BoxFuture, Roster};
use agents::llm::{Provider, Script};
use engine::env::{AutoApprove, Broadcast, Engine, Handler, HandlerContext, SessionRepos, Subscription, Supervisor};
use engine::session::{Session, SessionEnded, SessionRepo, StartRequest, run_session, spawn_session, start_session};
use git::Repo;
use git::record::History;
use os::process::{Cancel, SpawnError, Spawner};
use pleach_core::config::{AgentChoice, Config, Environment};
use pleach_core::event::{Event, Outcome, Recorded};
use pleach_core::ids::RepoName;
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::{self, Inputs};
use pleach_core::redact::Redactor;
use serde_json::Value;
use tempfile::TempDir;

pub struct World {
    root: PathBuf,
    /// Removes it; none for a world of another process.
    _dir: Option<TempDir>,
}

impl World {
    pub fn new() -> Self {
        let dir = TempDir::with_prefix("pleach engine ").unwrap();
        let world = Self { root: dir.path().to_owned(), _dir: Some(dir) };
        std::fs::create_dir(world.root.join("home")).unwrap();
        world.git(&["init", "-q", "-b", "main", "repo"], &world.root);
        std::fs::write(world.repo_path().join("README.md"), "hello\n").unwrap();
        world.git(&["add", "."], &world.repo_path());
        world.git(&["commit", "-q", "-m", "start"], &world.repo_path());
        world
    }

    /// The world another process has made.
    pub fn at(root: PathBuf) -> Self {
        Self { root, _dir: None }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn repo_path(&self) -> PathBuf {
        self.root.join("repo")
    }

    pub fn repo(&self) -> Repo {
        git::discover(&self.repo_path(), &self.environment()).unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "the one variable the tests take over: where git is")]
    pub fn environment(&self) -> Environment {
        Environment::from_pairs([
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", self.root.join("home").to_str().unwrap().to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ])
    }

    pub fn git(&self, args: &[&str], dir: &Path) -> String {
        let output = crate::real_git::command()
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(dir)
            .envs(self.environment().iter())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub fn engine(&self, script: Option<&str>, handlers: BTreeMap<String, Arc<dyn Handler>>) -> Arc<Engine> {
        let shim = env!("CARGO_BIN_EXE_engine-shim");
        let spawner = Spawner::new(vec![shim.into(), "__exec".into()], &self.environment());
        let provider = script.map(|text| Provider::Script(Script::parse(text).unwrap()));
        let agent = script.map_or(AgentChoice::Simulation, |_| AgentChoice::Builtin);
        let config = Config { agent: Some(agent.into()), ..Config::default() };
        Arc::new(Engine {
            sandbox: None,
            output_chars: 4_000,
            tiers: Default::default(),
            agents: Roster::new(&config, provider, spawner.clone()),
            supervisor: Supervisor::new(spawner, self.root.join("state")),
            worktrees: Default::default(),
            interviewer: Box::new(AutoApprove),
            handlers,
            scribe: None,
            budget: Default::default(),
            push: Default::default(),
            attribution: Default::default(),
            mirror: None,
            events: Broadcast::default(),
            redactor: Redactor::new(std::iter::empty::<(String, String)>()),
            cancel: Cancel::never(),
        })
    }

    pub fn scripted(&self, script: &str) -> Arc<Engine> {
        self.engine(Some(script), BTreeMap::new())
    }

    pub async fn start(&self, dot: &str, engine: Arc<Engine>) -> Session {
        let (pipeline, diagnostics) = plan::load(dot, &Inputs::default(), &[]);
        let pipeline = pipeline.unwrap_or_else(|| panic!("{diagnostics:?}"));
        start_session(engine, self.request(dot, pipeline), &mut |_| {}).await.unwrap()
    }

    /// What a session in the repository is started with.
    pub fn request(&self, dot: &str, pipeline: Pipeline) -> StartRequest {
        StartRequest {
            record: SessionRepo {
                repo: self.repo(),
                name: RepoName::new("repo").unwrap(),
                branch_prefix: "pleach/".into(),
                at: None,
                arrival: None,
            },
            others: Vec::new(),
            pipeline,
            dot: dot.into(),
            dot_path: "test.dot".into(),
            files: BTreeMap::new(),
            inputs: BTreeMap::new(),
            config: Value::Null,
            simulated: false,
            resolves: None,
        }
    }

    async fn run(&self, dot: &str, engine: Arc<Engine>) -> (Session, SessionEnded, Vec<Recorded>) {
        let mut session = self.start(dot, engine).await;
        let mut events = session.events();
        let ended = run_session(&mut session).await.unwrap();
        (session, ended, told(&mut events))
    }
}

/// The repository of a session that has one.
pub fn only(repo: &Repo) -> SessionRepos {
    SessionRepos::one(RepoName::new("repo").unwrap(), repo.clone())
}

/// What was told and is on record.
pub fn told(events: &mut Subscription) -> Vec<Recorded> {
    let told = std::iter::from_fn(|| events.next_now()).map(|told| Recorded::clone(&told.recorded));
    told.filter(|recorded| recorded.event.is_recorded()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_nodes_commit_what_they_change() {
    let world = World::new();
    let dot = r#"digraph tools {
        start [shape=Mdiamond]
        make [shape=parallelogram, tool_command="echo one > a.txt"]
        look [shape=parallelogram, tool_command="cat a.txt"]
        exit [shape=Msquare]
        start -> make -> look -> exit
    }"#;
    let (session, ended, events) = world.run(dot, world.engine(None, BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    let branch = format!("pleach/tools/{}", session.id());
    assert_eq!(world.git(&["show", &format!("{branch}:a.txt")], &world.repo_path()), "one");
    assert_eq!(world.git(&["rev-list", "--count", &format!("main..{branch}")], &world.repo_path()), "1");
    assert_eq!(world.git(&["status", "--porcelain"], &world.repo_path()), "");
    assert_eq!(session.state().context["tool.output"], "one");
    let repo = git::discover(&world.repo_path(), &world.environment()).unwrap();
    let history = History::all(&repo, session.id()).unwrap();
    assert_eq!(history.events().cloned().collect::<Vec<_>>(), events, "what was shown is what was recorded");
    assert_eq!(world.git(&["fsck", "--strict"], &world.repo_path()), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn matrix_custom_handler() {
    struct Greets;
    impl Handler for Greets {
        fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome> {
            Box::pin(async move {
                std::fs::write(context.cwd.join("greeting"), context.node.label.as_bytes()).unwrap();
                let mut outcome = Outcome::success();
                outcome.context_updates.insert("greeted".into(), context.visit.into());
                outcome
            })
        }
    }
    struct Panics;
    impl Handler for Panics {
        fn run(&self, _: HandlerContext) -> BoxFuture<'_, Outcome> {
            Box::pin(async { panic!("out of order") })
        }
    }
    let world = World::new();
    let dot = r#"digraph custom {
        start [shape=Mdiamond]
        hello [type="my.greeter", label="hello there"]
        bad [type="my.broken"]
        exit [shape=Msquare]
        start -> hello -> bad
        bad -> exit [condition="outcome=fail"]
    }"#;
    let handlers: BTreeMap<String, Arc<dyn Handler>> = BTreeMap::from([
        ("my.greeter".to_owned(), Arc::new(Greets) as _),
        ("my.broken".to_owned(), Arc::new(Panics) as _),
    ]);
    let (session, ended, events) = world.run(dot, world.engine(None, handlers)).await;
    assert_eq!(ended, SessionEnded::Completed);
    assert_eq!(session.state().context["greeted"], 1);
    let branch = format!("pleach/custom/{}", session.id());
    assert_eq!(world.git(&["show", &format!("{branch}:greeting")], &world.repo_path()), "hello there");
    let failed = events.iter().any(|recorded| match &recorded.event {
        Event::NodeExecution(node) => {
            node.node_id == "bad" && node.outcome.failure_reason.as_deref().is_some_and(|why| why.contains("panic"))
        }
        _ => false,
    });
    assert!(failed, "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_agent_commits_each_turn_that_wrote() {
    let world = World::new();
    let script = r#"
scripts:
  - name: write
    when: {node: code}
    steps:
      - text: I will add a greeting.
        tools: [{write_file: {file_path: hello.txt, content: "hello\n"}}]
        usage: {input: 10, output: 5}
      - text: Now look at it.
        tools: [{read_file: {file_path: hello.txt}}]
      - tools: [{shell: {command: "echo more >> hello.txt"}}]
      - text: All done.
"#;
    let dot = r#"digraph agent {
        start [shape=Mdiamond]
        code [prompt="write a greeting"]
        exit [shape=Msquare]
        start -> code -> exit
    }"#;
    let (session, ended, events) = world.run(dot, world.engine(Some(script), BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    let branch = format!("pleach/agent/{}", session.id());
    assert_eq!(world.git(&["show", &format!("{branch}:hello.txt")], &world.repo_path()), "hello\nmore");
    assert_eq!(world.git(&["rev-list", "--count", &format!("main..{branch}")], &world.repo_path()), "2");
    let turns: Vec<_> = events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::AgentTurn(turn) => Some((turn.turn.to_string(), turn.git_sha.is_some())),
            _ => None,
        })
        .collect();
    let expected = [("main.1", true), ("main.2", false), ("main.3", true), ("main.4", false)];
    assert_eq!(turns, expected.map(|(turn, wrote)| (turn.to_owned(), wrote)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_takes_too_long_fails() {
    let world = World::new();
    let dot = r#"digraph waits {
        start [shape=Mdiamond]
        short [type=wait, duration=1ms]
        long [type=wait, duration=1h, timeout=10ms]
        exit [shape=Msquare]
        start -> short -> long
        long -> exit [condition="outcome=fail"]
    }"#;
    let (session, ended, _) = world.run(dot, world.engine(None, BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    let long = session.state().outcome(&"long".parse().unwrap()).unwrap();
    assert_eq!(long.failure_reason.as_deref(), Some("timed out after 10ms"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_cannot_start_fails_no_node() {
    let world = World::new();
    let dot = r#"digraph machine {
        start [shape=Mdiamond]
        work [shape=parallelogram, tool_command="true"]
        mend [shape=parallelogram, tool_command="true"]
        exit [shape=Msquare]
        start -> work -> exit
        work -> mend [condition="outcome=fail"]
        mend -> exit
    }"#;
    let mut engine = world.engine(None, BTreeMap::new());
    let broken = Spawner::new(["sh", "-c", "exit 3"].map(Into::into).to_vec(), &world.environment());
    Arc::get_mut(&mut engine).unwrap().supervisor = Supervisor::new(broken, world.root().join("state"));
    let mut session = world.start(dot, engine).await;
    let mut events = session.events();
    let error = run_session(&mut session).await.unwrap_err();
    assert!(matches!(error, engine::env::Error::Spawn(SpawnError::Supervisor { .. })), "{error}");
    let told = told(&mut events);
    assert!(
        !told.iter().any(|told| matches!(&told.event, Event::NodeExecution(node) if node.node_id.as_str() == "work"))
    );
    assert!(told.iter().any(|told| matches!(told.event, Event::PipelinePaused(_))), "it can be resumed: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_taken_edge_of_two_parallel_ones_counts() {
    let world = World::new();
    let dot = r#"digraph edges {
        start [shape=Mdiamond]
        a [prompt="a"]
        b [prompt="b"]
        exit [shape=Msquare]
        start -> a
        a -> b [condition="outcome=fail", fidelity=truncate]
        a -> b [condition="outcome=success", fidelity="summary:low"]
        b -> exit
    }"#;
    let (_, ended, events) = world.run(dot, world.engine(None, BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    let told = events.iter().find_map(|recorded| match &recorded.event {
        Event::NodeStarted(node) if node.node_id == "b" => node.fidelity.clone(),
        _ => None,
    });
    assert_eq!(told.as_deref(), Some("summary:low"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_full_fidelity_resumes_its_conversation() {
    let world = World::new();
    let script = r#"
scripts:
  - name: both
    steps: [{text: first answer}]
"#;
    let dot = r#"digraph threads {
        default_fidelity = full
        start [shape=Mdiamond]
        a [prompt="one", thread_id=t]
        b [prompt="two", thread_id=t]
        exit [shape=Msquare]
        start -> a -> b -> exit
    }"#;
    let (session, ended, _) = world.run(dot, world.engine(Some(script), BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    assert_eq!(session.state().threads["t"].len(), 2, "both nodes are turns of one conversation");
}

/// A session's name is drawn, and here the same is drawn twice: the branch of the first is there, its record is not, as
/// in a clone that has branches alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_branch_name_is_left_and_another_drawn() {
    let world = World::new();
    let dot = r#"digraph tools {
        start [shape=Mdiamond]
        make [shape=parallelogram, tool_command="date +%N > a.txt"]
        exit [shape=Msquare]
        start -> make -> exit
    }"#;
    fastrand::seed(7);
    let (first, ..) = world.run(dot, world.engine(None, BTreeMap::new())).await;
    fastrand::seed(7);
    assert_eq!(git::workspace::new_session_id(), *first.id(), "the same is drawn again");
    let branch = format!("pleach/tools/{}", first.id());
    let tip = world.git(&["rev-parse", &branch], &world.repo_path());
    let record = format!("refs/pleach/sessions/{}/main", first.id());
    world.git(&["update-ref", "-d", &record], &world.repo_path());
    fastrand::seed(7);
    let (second, ended, _) = world.run(dot, world.engine(None, BTreeMap::new())).await;
    assert_eq!(ended, SessionEnded::Completed);
    assert_ne!(second.id(), first.id());
    assert_eq!(world.git(&["rev-parse", &branch], &world.repo_path()), tip);
    assert_ne!(world.git(&["rev-parse", &format!("pleach/tools/{}", second.id())], &world.repo_path()), tip);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_branch_exists_when_reported() {
    let world = World::new();
    let dot = r#"digraph tools {
        start [shape=Mdiamond]
        make [shape=parallelogram, tool_command="echo one >> a.txt", max_visits=8]
        exit [shape=Msquare]
        start -> make
        make -> make [condition="internal.node_visit_count < 8"]
        make -> exit
    }"#;
    let session = world.start(dot, world.engine(None, BTreeMap::new())).await;
    let repo = world.repo();
    let mut told = 0;
    let (_, ended) = spawn_session(session)
        .follow(|event| {
            if let Event::TurnCommitted(turn) = &event.recorded.event {
                let at =
                    repo.refs().find(&format!("refs/heads/{}", turn.branch)).unwrap().expect("the branch is there");
                assert!(repo.history().is_ancestor(turn.git_sha, at).unwrap(), "the branch has {}", turn.turn);
                told += 1;
            }
        })
        .await;
    assert_eq!((ended.unwrap(), told), (SessionEnded::Completed, 8));
}
