//! The branches of a fan-out: they run at once, outlive a kill, and are started again from what their parent records.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use engine::env::{Budget, Copy, Engine, wait_for_orphans};
use engine::session::{ResumeAt, SessionEnded, resume_session, run_session};
use git::Repo;
use git::record::{History, context_ref};
use pleach_core::config::{self, OnExceeded};
use pleach_core::event::{CutPoint, Event, PauseReason, Recorded};
use pleach_core::ids::{ContextId, SessionId};

use crate::engine::{World, only, told};

/// Set for the process that is killed: where its repository is.
const KILLED: &str = "PLEACH_TEST_KILLED";

const DOT: &str = r#"digraph both {
    start [shape=Mdiamond]
    fork [shape=component]
    a [prompt="Do a", timeout=2m]
    b [prompt="Do b", timeout=2m]
    join [shape=tripleoctagon]
    exit [shape=Msquare]
    start -> fork
    fork -> a -> join
    fork -> b -> join
    join -> exit
}"#;

/// Each waits for the other in its first turn, so both are done only when both run at once.
fn script(world: &Path, then: &str) -> String {
    let dir = world.display();
    format!(
        r#"
scripts:
  - name: a
    when: {{node: a}}
    steps:
      - tools: [{{shell: {{command: "echo ping > '{dir}/to-b' && cat '{dir}/to-a' > a.txt"}}}}]
      {then}
      - tools: [{{shell: {{command: "echo more >> a.txt"}}}}]
      - text: a is done
  - name: b
    when: {{node: b}}
    steps:
      - tools: [{{shell: {{command: "cat '{dir}/to-b' > b.txt && echo pong > '{dir}/to-a'"}}}}]
      {then}
      - tools: [{{shell: {{command: "echo more >> b.txt"}}}}]
      - text: b is done
"#
    )
}

fn pipes(world: &Path) {
    for name in ["to-a", "to-b"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, world.join(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
}

fn b() -> ContextId {
    "b".parse().unwrap()
}

/// The turns of agents among events.
fn turns(events: &[Recorded]) -> Vec<String> {
    let turn = |recorded: &Recorded| match &recorded.event {
        Event::AgentTurn(turn) => Some(turn.turn.to_string()),
        _ => None,
    };
    events.iter().filter_map(turn).collect()
}

fn own_events(repo: &Repo, id: &SessionId, context: &ContextId) -> Vec<Recorded> {
    let history = History::all_in(repo, id, context).unwrap();
    let own = history.records.iter().filter(|record| record.context == *context);
    own.flat_map(|record| record.events.clone()).collect()
}

fn resumed(events: &[Recorded]) -> usize {
    events.iter().filter(|recorded| matches!(recorded.event, Event::Resumed(_))).count()
}

/// What the branches of a session's contexts have.
fn assert_done(world: &World, id: &SessionId) {
    let branch = format!("pleach/both/{id}");
    let show = |what: String| world.git(&["show", &what], &world.repo_path());
    assert_eq!(show(format!("{branch}--a:a.txt")), "pong\nmore");
    assert_eq!(show(format!("{branch}--b:b.txt")), "ping\nmore");
    let files = |branch: &str| world.git(&["ls-tree", "--name-only", branch], &world.repo_path());
    assert_eq!(files(&branch), "README.md\na.txt\nb.txt", "joined");
    assert_eq!(files(&format!("{branch}--a")), "README.md\na.txt", "what the other writes is not seen");
    assert_eq!(files(&format!("{branch}--b")), "README.md\nb.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_contexts_of_a_session_run_at_once() {
    let world = World::new();
    pipes(world.root());
    let mut session = world.start(DOT, world.scripted(&script(world.root(), ""))).await;
    let (id, main): (_, ContextId) = (session.id().clone(), "main".parse().unwrap());
    let mut events = session.events();
    let ended = run_session(&mut session).await.unwrap();
    let events = told(&mut events);
    assert_eq!(ended, SessionEnded::Completed);
    assert_done(&world, &id);
    let repo = world.repo();
    let [of_main, of_a, of_b] = ["main", "a", "b"].map(|id_of| own_events(&repo, &id, &id_of.parse().unwrap()));
    assert_eq!(turns(&of_main), Vec::<String>::new());
    assert_eq!(turns(&of_a), ["a.1", "a.2", "a.3"]);
    assert_eq!(turns(&of_b), ["b.1", "b.2", "b.3"]);
    assert!(matches!(events.last().unwrap().event, Event::PipelineCompleted(_)), "the root ends last, and alone");
    assert!(!of_b.iter().any(|recorded| matches!(recorded.event, Event::PipelineCompleted(_))));
    assert_eq!(events.len(), of_main.len() + of_a.len() + of_b.len(), "every event is told once");

    // The first record of a fork goes on from the one that tells of it, and readers follow it.
    let whole = History::all_in(&repo, &id, &b()).unwrap();
    let before = whole.records.iter().take_while(|record| record.context == main).count();
    let is_fork = |recorded: &Recorded| matches!(recorded.event, Event::ContextForked(_));
    assert_eq!(
        whole.records[before - 1].events.iter().filter(|event| is_fork(event)).count(),
        2,
        "one record forks all"
    );
    assert!(is_fork(&whole.records[before].events[0]));
    let is_second = |recorded: &Recorded| matches!(&recorded.event, Event::AgentTurn(turn) if turn.turn.number == 2);
    let held = whole.records.iter().rfind(|record| record.events.iter().any(is_second)).expect("its record");
    let until = CutPoint { record: held.commit, events: held.events.len() };
    let until = History::up_to(&repo, &id, &b(), until).unwrap();
    assert_eq!(turns(&until.events().cloned().collect::<Vec<_>>()), ["b.1", "b.2"]);
}

/// Nothing is left for `b2` while `a` still works: the session pauses when that has reached a stop, and not under it.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_reached_in_one_context_waits_for_others() {
    let world = World::new();
    let dot = r#"digraph spends {
        start [shape=Mdiamond]
        fork [shape=component]
        a [prompt="Do a"]
        b [prompt="Do b"]
        b2 [prompt="Do more"]
        join [shape=tripleoctagon]
        exit [shape=Msquare]
        start -> fork
        fork -> a -> join
        fork -> b -> b2 -> join
        join -> exit
    }"#;
    let script = r#"
scripts:
  - name: a
    when: {node: a}
    steps:
      - tools: [{shell: {command: "echo begun > 'DIR/to-b'; sleep 2; echo a > a.txt"}}]
      - text: a is done
  - name: b
    when: {node: b}
    steps:
      - tools: [{shell: {command: "cat 'DIR/to-b'"}}]
      - {text: b is done, usage: {input: 10, output: 5}}
"#;
    // One is at work when the other reaches the limit.
    pipes(world.root());
    let script = script.replace("DIR", &world.root().display().to_string());
    let mut engine = Arc::into_inner(world.scripted(&script)).expect("nobody else has it yet");
    let limits = config::BudgetSettings { tokens: 15, on_exceeded: OnExceeded::Pause, ..Default::default() };
    engine.budget = Budget::new(limits, &engine.supervisor);
    let mut session = world.start(dot, Arc::new(engine)).await;
    let id = session.id().clone();
    let ended = run_session(&mut session).await.unwrap();
    let SessionEnded::Paused(pause) = ended else { panic!("{ended:?}") };
    assert_eq!(pause.reason, PauseReason::OverBudget);
    let (of_main, of_a) = (
        own_events(&world.repo(), &id, &"main".parse().unwrap()),
        own_events(&world.repo(), &id, &"a".parse().unwrap()),
    );
    assert_eq!(turns(&of_a), ["a.1"], "what it had begun is on record");
    assert!(matches!(of_main.last().unwrap().event, Event::PipelinePaused(_)), "{of_main:#?}");
    assert_eq!(turns(&own_events(&world.repo(), &id, &b())), ["b.1", "b.2"], "the next node has not begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_contexts_resume_after_a_kill() {
    let world = World::new();
    pipes(world.root());
    let id = killed_after(&world, &["a.1", "b.1"]);
    let repo = world.repo();
    wait_for_orphans(&repo, Copy::OfRun(&id.clone().into()), |_| {});
    let seen = repo.refs().find(&context_ref(&id, &"main".parse().unwrap())).unwrap().unwrap();
    let engine: Arc<Engine> = world.scripted(&script(world.root(), ""));
    let (mut session, _) =
        resume_session(engine, only(&repo), &id.clone().into(), seen, &ResumeAt::Newest, &mut |_| {}).await.unwrap();
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    assert_done(&world, &id);
    for (context, expected) in [("a", ["a.1", "a.2", "a.3"]), ("b", ["b.1", "b.2", "b.3"])] {
        let events = own_events(&repo, &id, &context.parse().unwrap());
        assert_eq!(turns(&events), expected, "no turn is lost and none is taken twice");
        assert_eq!(resumed(&events), 1, "{context}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_without_its_first_record_restarts() {
    let world = World::new();
    pipes(world.root());
    let id = killed_after(&world, &["a.1"]);
    let repo = world.repo();
    wait_for_orphans(&repo, Copy::OfRun(&id.clone().into()), |_| {});
    let first = History::all_in(&repo, &id, &b()).unwrap();
    let first = first.records.iter().find(|record| record.context == b()).unwrap().commit;
    // As if the process had been killed before it wrote anything of this branch.
    for name in [context_ref(&id, &b()), format!("refs/heads/pleach/both/{id}--b")] {
        let at = repo.refs().find(&name).unwrap().unwrap();
        repo.refs().delete(&name, at, "never made").unwrap();
    }
    let seen = repo.refs().find(&context_ref(&id, &"main".parse().unwrap())).unwrap().unwrap();
    let alone = script(world.root(), "").replace("cat '", "true '").replace("echo pong > '", "true '");
    let engine: Arc<Engine> = world.scripted(&alone);
    let (mut session, _) =
        resume_session(engine, only(&repo), &id.clone().into(), seen, &ResumeAt::Newest, &mut |_| {}).await.unwrap();
    let again = History::all_in(&repo, &id, &b()).unwrap();
    assert!(again.records.iter().any(|record| record.commit == first), "it is the same record");
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    assert_eq!(turns(&own_events(&repo, &id, &b())), ["b.1", "b.2", "b.3"]);
}

/// Runs both contexts in another process and kills it when these turns are on record.
#[expect(clippy::disallowed_methods, reason = "the process is this test program, which is killed")]
fn killed_after(world: &World, turns: &[&str]) -> SessionId {
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["contexts::the_process_that_is_killed", "--exact", "--ignored", "--nocapture"])
        .env(KILLED, world.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let id = lines.find_map(|line| line.split_once("session ").and_then(|(_, id)| id.parse().ok()));
    let mut left: Vec<&str> = turns.to_vec();
    while !left.is_empty() {
        let line = lines.next().expect("it ended before it was killed");
        left.retain(|turn| line != format!("turn {turn}"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    id.expect("it names its session")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is run by the test that kills it"]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "another process reads what it says")]
async fn the_process_that_is_killed() {
    let world = World::at(PathBuf::from(std::env::var(KILLED).expect("it is run by a test")));
    let engine = world.scripted(&script(world.root(), "- hang: true"));
    let mut session = world.start(DOT, engine).await;
    println!("\nsession {}", session.id());
    let mut events = session.events();
    tokio::spawn(async move { run_session(&mut session).await });
    while let Some(told) = events.next().await {
        if let Event::AgentTurn(turn) = &told.recorded.event {
            println!("turn {}", turn.turn);
        }
    }
}
