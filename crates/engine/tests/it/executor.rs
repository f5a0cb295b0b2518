//! What is assigned to an executor: that the record it names is enough to carry it out.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use agents::agent::BoxFuture;
use engine::env::{Engine, Handler, HandlerContext};
use engine::session::{
    AgentWork, Assignment, Executor, ResumeAt, SessionEnded, Work, WorkWatch, resume_session, run_session,
};
use git::record::root_ref;
use os::process::Cancel;
use pleach_core::event::{Event, Outcome};
use pleach_core::ids::SessionId;

use crate::engine::{World, only};

const DOT: &str = r#"digraph assigned {
    goal = "two lines"
    start [shape=Mdiamond]
    plan [prompt="Plan it", fidelity=full, thread_id=work]
    check [shape=parallelogram, tool_command="cat lines; test $(wc -l < lines) -ge 2"]
    build [prompt="Build it", fidelity=full, thread_id=work]
    review [prompt="Review it"]
    count [type="my.counter"]
    agree [shape=hexagon, label="Good enough?"]
    exit [shape=Msquare]
    start -> plan -> check
    check -> agree [condition="outcome=success"]
    check -> build [condition="outcome=fail"]
    build -> review -> count -> check
    agree -> exit [label="Yes"]
    agree -> plan [label="No"]
}"#;

/// What an agent says at length has to be read in a file by the next one. The second time it is built, no answer comes
/// where it `hangs`.
fn script(hangs: bool) -> String {
    let long = "a thought ".repeat(2_000);
    let then = if hangs { "- hang: true" } else { "" };
    format!(
        r#"
scripts:
  - name: plan
    when: {{node: plan}}
    steps: [{{text: "{long}"}}]
  - name: build
    when: {{node: build, visit: 1}}
    steps: [{{tools: [{{shell: {{command: "echo line >> lines"}}}}]}}, {{text: one line}}]
  - name: build again
    when: {{node: build, visit: 2}}
    steps:
      - tools: [{{shell: {{command: "echo line >> lines"}}}}]
      {then}
      - text: one more line
  - name: review
    when: {{node: review}}
    steps: [{{text: "I have {long}"}}]
"#
    )
}

struct Counts;

impl Handler for Counts {
    fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome> {
        let mut outcome = Outcome::success();
        outcome.context_updates.insert("counted".into(), context.visit.into());
        Box::pin(async { outcome })
    }
}

fn engine(world: &World, cancel: Option<Cancel>) -> Arc<Engine> {
    let mut engine = Arc::into_inner(world.scripted(&script(cancel.is_some()))).expect("nobody else has it yet");
    engine.cancel = cancel.unwrap_or_else(Cancel::never);
    engine.handlers.insert("my.counter".into(), Arc::new(Counts));
    Arc::new(engine)
}

/// All that a worker is given to do.
fn in_words(work: &Work) -> String {
    let mut words = String::new();
    match work {
        Work::Agent(work) => {
            let AgentWork { agent, prompt, offered, history, continues, answered, resume, past, retold, append } = work;
            let _ = write!(words, "{} {prompt:?} {offered:?} {history:?}", agent.kind());
            let _ = write!(words, "{continues} {answered} {resume:?} {past:?} {retold:?} {append:?}");
        }
        Work::Custom(_, context) => {
            let HandlerContext { node, visit, attempt, context, cwd, .. } = &**context;
            let _ = write!(words, "{node:?} {visit} {attempt} {context:?} {cwd:?}");
        }
        Work::Wait(_) | Work::Tool(_) | Work::Tests(_) | Work::Human(_) | Work::Join(_) => {
            let _ = write!(words, "{work:?}");
        }
    }
    words
}

/// What was started: assignments as they would be sent elsewhere, and what they were made into.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

fn watch(seen: &Seen) -> WorkWatch {
    let seen = Arc::clone(seen);
    Arc::new(move |assignment: &Assignment, work: &Work| {
        let sent = serde_json::to_string(assignment).unwrap();
        seen.lock().unwrap().push((sent, in_words(work)));
    })
}

/// Makes out of every assignment what its worker did, by the record alone, and says what was started and how.
fn made_again(world: &World, id: &SessionId, seen: &Seen) -> Vec<String> {
    let fresh = Executor::of_record(engine(world, None), only(&world.repo()), &id.into()).unwrap();
    let again = |(sent, used): &(String, String)| {
        let assignment: Assignment = serde_json::from_str(sent).unwrap();
        assert_eq!(serde_json::to_string(&assignment).unwrap(), *sent);
        assert_eq!(in_words(&fresh.work(&assignment).unwrap()), *used, "{sent}");
        let Assignment { visit, start, .. } = &assignment;
        format!("{} {} {start:?}", visit.node, visit.visit)
    };
    seen.lock().unwrap().iter().map(again).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn assignments_follow_from_the_record_alone() {
    let world = World::new();
    let seen = Seen::default();
    let (canceller, cancel) = Cancel::new();
    let mut session = world.start(DOT, engine(&world, Some(cancel))).await;
    session.watch(watch(&seen));
    let id = session.id().clone();
    let mut events = session.events();
    let kill = tokio::spawn(async move {
        while let Some(told) = events.next().await {
            if matches!(&told.recorded.event, Event::AgentTurn(turn) if turn.node_id == "build" && turn.visit == 2) {
                return canceller.kill();
            }
        }
    });
    let ended = run_session(&mut session).await.unwrap();
    kill.await.unwrap();
    assert!(matches!(ended, SessionEnded::Paused(_)), "{ended:?}");
    drop(session);

    let repo = world.repo();
    let tip = repo.refs().find(&root_ref(&id)).unwrap().unwrap();
    let engine_again = engine(&world, None);
    let (mut session, _) =
        resume_session(engine_again, only(&repo), &id.clone().into(), tip, &ResumeAt::Newest, &mut |_| {})
            .await
            .unwrap();
    session.watch(watch(&seen));
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    drop(session);

    let begun = made_again(&world, &id, &seen);
    let expected = [
        "plan 1 First",
        "check 1 First",
        "build 1 First",
        "review 1 First",
        "count 1 First",
        "check 2 First",
        "build 2 First",
        "build 2 Continued",
        "review 2 First",
        "count 2 First",
        "check 3 First",
        "agree 1 First",
    ];
    assert_eq!(begun, expected);
    let offered = seen.lock().unwrap().iter().any(|(_, used)| used.contains("All of it is in"));
    assert!(offered, "somebody is told less than all there is");
}

#[tokio::test(flavor = "multi_thread")]
async fn assignments_in_a_fork_follow_from_its_record() {
    let world = World::new();
    let dot = r#"digraph forks {
        start [shape=Mdiamond]
        fork [shape=component]
        plan [prompt="Plan it"]
        build [prompt="Build it"]
        review [prompt="Review it"]
        join [shape=tripleoctagon]
        exit [shape=Msquare]
        start -> fork
        fork -> plan -> join
        fork -> build -> review -> join
        join -> exit
    }"#;
    let seen = Seen::default();
    let mut session = world.start(dot, engine(&world, None)).await;
    session.watch(watch(&seen));
    let id = session.id().clone();
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    drop(session);
    let mut begun = made_again(&world, &id, &seen);
    begun.sort();
    assert_eq!(begun, ["build 1 First", "join 1 First", "plan 1 First", "review 1 First"]);
}
