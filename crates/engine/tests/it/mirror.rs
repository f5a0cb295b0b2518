//! A mirror of records that fails in every way it can: afterwards it has each record once, and what git has.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agents::llm::call_plain;
use engine::mirror::{MirrorError, MirrorHooks, MirrorQueue, check_http, find_session, mirror_run, report, verify};
use git::Repo;
use git::record::{Batch, Recorder, context_ref};
use os::process::Cancel;
use pleach_core::config::MirrorAddress;
use pleach_core::event::{Recorded, Warning};
use pleach_core::ids::{CommitId, ContextId, RunId, SessionId};
use pleach_core::redact::Redactor;
use serde_json::{Value, json};

use crate::cxdb_server::CxdbServer;
use crate::engine::World;

const AT: &str = "2026-11-15T01:02:03.456Z";

/// A session that grows, and its mirror.
struct Mirrored {
    world: World,
    repo: Repo,
    server: CxdbServer,
    recorder: Recorder,
    turns: u64,
}

impl Mirrored {
    fn new() -> Self {
        Self::with_goal("Make it green\nand keep it so")
    }

    fn with_goal(goal: &str) -> Self {
        let world = World::new();
        let repo = world.repo();
        let redactor = Redactor::new(std::iter::empty::<(String, String)>());
        let recorder = Recorder::create(repo.clone(), session(), ContextId::main(), redactor);
        let mut mirrored = Self { world, repo, server: CxdbServer::start(), recorder, turns: 0 };
        let base = mirrored.head();
        let started = json!({
            "name": "p", "goal": goal, "dot": "digraph p {}", "dot_path": "p.dot", "files": {},
            "inputs": {}, "config": {}, "base": {"repo": base}, "branches": {"repo": "pleach/p/abcdefgh"}, "targets": {},
            "simulated": false
        });
        mirrored.record(&[("PipelineStarted", started), ("NodeStarted", node(base))]);
        mirrored
    }

    fn head(&self) -> CommitId {
        self.repo.head().unwrap().commit
    }

    fn record(&mut self, events: &[(&str, Value)]) {
        let record = batch(self.head(), events);
        self.recorder.append(self.repo.writer(), &record).unwrap();
    }

    /// Records with a turn each, every one with a message, some with a long one.
    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            self.turns += 1;
            let number = self.turns;
            let long = "y".repeat(if number.is_multiple_of(5) { 10_000 } else { 10 });
            let mut record = batch(self.head(), &[("AgentTurn", turn(number)), ("TurnCommitted", committed(number))]);
            record.messages = vec![json!({"role": "assistant", "content": [{"type": "text", "text": long}]})];
            self.recorder.append(self.repo.writer(), &record).unwrap();
        }
    }

    fn address(&self) -> MirrorAddress {
        self.server.address().parse().unwrap()
    }

    async fn copy(&self) -> Result<u64, MirrorError> {
        mirror_run(&self.repo, &run(), &self.address(), |_| {}).await.map(|(copied, _)| copied.records)
    }

    /// What a queue warns of that has copied all there is.
    async fn queued(&self) -> Vec<Warning> {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&warnings);
        let warn = Box::new(move |warning| heard.lock().unwrap().push(warning));
        let hooks = MirrorHooks { warn, left: Box::new(drop) };
        let queue = MirrorQueue::open(&self.repo, &run(), &self.address(), Cancel::never(), hooks);
        queue.begin();
        queue.end().unwrap().await.unwrap();
        let warnings = warnings.lock().unwrap();
        warnings.clone()
    }

    /// Fails unless the mirror has what git has, and each event once.
    async fn assert_equal(&self, when: &str) {
        let verified = verify(&self.repo, &run(), &self.address()).await.unwrap();
        assert!(verified.is_equal(), "{when}: {verified:?}");
        assert_eq!(verified.records, self.turns + 1, "{when}");
        let context = self.context("main");
        let chain = self.server.chain(context);
        let events: BTreeSet<_> = chain.iter().map(|turn| turn.hash).collect();
        assert_eq!(events.len(), chain.len(), "{when}: none is twice in the chain");
        assert_eq!(chain.len() as u64, 2 + 2 * self.turns, "{when}");
    }

    /// What git says a context is called at the mirror.
    fn context(&self, name: &str) -> u64 {
        let told = self
            .world
            .git(&["cat-file", "blob", &format!("refs/pleach/cxdb/abcdefgh/{name}")], &self.world.repo_path());
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["server"], self.server.address().split(',').next().unwrap());
        told["context"].as_u64().unwrap()
    }
}

fn session() -> SessionId {
    "abcdefgh".parse().unwrap()
}

fn run() -> RunId {
    session().into()
}

fn batch(work: CommitId, events: &[(&str, Value)]) -> Batch {
    let event = |(kind, data): &(&str, Value)| {
        let kind = format!("dev.orchestra.{kind}");
        Recorded::from_json(json!({"type": kind, "version": 1, "at": AT, "data": data})).unwrap()
    };
    Batch {
        summary: "a transition".into(),
        events: events.iter().map(event).collect(),
        work: vec![work],
        ..Batch::default()
    }
}

fn node(base: CommitId) -> Value {
    json!({"node_id": "work", "visit": 1, "attempt": 1, "handler": "codergen", "base": {"repo": base}})
}

fn turn(number: u64) -> Value {
    json!({
        "turn": format!("main.{number}"), "turn_number": number, "node_id": "work", "visit": 1, "attempt": 1, "agent": "a",
        "model": "m", "provider": "p", "messages": {"first": number, "last": number}, "tool_calls": [],
        "files_written": {}, "token_usage": {"input": 1, "cache_read": 0, "cache_write": 0, "output": 2, "reasoning": 0},
        "cost_usd": 0.25, "git_sha": null, "commit_message": null, "boundary": "exact", "agent_state_ref": null
    })
}

fn committed(number: u64) -> Value {
    let commit = CommitId::from_bytes([number as u8; 20]);
    json!({"turn": format!("main.{number}"), "repo": "repo", "branch": "pleach/p/abcdefgh", "git_sha": commit})
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_without_data() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(20);
    assert_eq!(mirrored.copy().await.unwrap(), 21);
    mirrored.assert_equal("the first time").await;
    assert_eq!(mirrored.copy().await.unwrap(), 0, "nothing is copied twice");
    mirrored.turns(3);
    let told = report(&mirrored.repo, &[run()], &mirrored.address(), Duration::from_secs(60)).await;
    assert_eq!(told.standing.unwrap().behind, 3);
    mirrored.server.restart_without_data();
    // Somebody else was first, with a context of the same number.
    let other = Mirrored::with_goal("another");
    mirror_run(&other.repo, &run(), &mirrored.address(), |_| {}).await.unwrap();
    assert_eq!(mirrored.copy().await.unwrap(), 24, "everything again");
    mirrored.assert_equal("after a restart").await;
    mirrored.server.restart_without_data();
    assert_eq!(mirrored.queued().await, []);
    mirrored.assert_equal("after another one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_acknowledgements() {
    type Fault = fn(&CxdbServer);
    let faults: [(&str, Fault); 4] = [
        ("the connection is closed", |server| server.close_after(7)),
        ("half a frame comes", |server| server.half_a_frame_after(7)),
        ("the first answer is lost", |server| server.close_after(1)),
        ("an error is answered", |server| server.error_after(7)),
    ];
    for (name, fault) in faults {
        for by_a_run in [true, false] {
            let mut mirrored = Mirrored::new();
            mirrored.turns(12);
            mirrored.copy().await.unwrap();
            mirrored.turns(30);
            let before = mirrored.context("main");
            fault(&mirrored.server);
            if by_a_run {
                assert_eq!(mirrored.queued().await, [], "{name}");
            } else if let Err(error) = mirrored.copy().await {
                assert!(matches!(error, MirrorError::Refused { code: 500, .. }), "{name}: {error}");
                mirrored.copy().await.unwrap();
            }
            mirrored.assert_equal(name).await;
            assert_ne!(mirrored.context("main"), before, "{name}: it goes on under another name");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_sent_comes_into_no_chain_twice() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(12);
    mirrored.copy().await.unwrap();
    mirrored.turns(30);
    let before = mirrored.context("main");
    mirrored.server.silent_after(7);
    let cut_off = tokio::time::timeout(Duration::from_millis(500), mirrored.copy()).await;
    assert!(cut_off.is_err(), "{cut_off:?}");
    mirrored.server.speak();
    mirrored.copy().await.unwrap();
    mirrored.assert_equal("another process").await;
    assert_ne!(mirrored.context("main"), before, "what is still on its way comes to the other one");
    let now = mirrored.context("main");
    mirrored.turns(1);
    mirrored.copy().await.unwrap();
    assert_eq!(mirrored.context("main"), now, "one that has ended well goes on there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_gone_leaves_no_doubt() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(3);
    let hooks = MirrorHooks {
        warn: Box::new(|warning| assert_eq!(warning.code.as_str(), "mirror-types")),
        left: Box::new(drop),
    };
    let queue = MirrorQueue::open(&mirrored.repo, &run(), &mirrored.address(), Cancel::never(), hooks);
    queue.begin();
    // Who speaks, a context, eight turns, and whether they are on each other.
    assert!(mirrored.server.worked(11, Duration::from_secs(60)));
    mirrored.server.hang_up();
    mirrored.turns(1);
    queue.recorded(&ContextId::main());
    queue.end().unwrap().await.unwrap();
    mirrored.assert_equal("the same context").await;
    assert_eq!(mirrored.server.contexts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_comes_ends_with_the_run() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(5);
    mirrored.server.silent_after(3);
    let warnings = mirrored.queued().await;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.code.as_str(), "mirror-behind");
    assert!(
        warning.text.ends_with("lacks records: 5 s were not enough for CXDB; `pleach record mirror --all` copies them"),
        "{warning}"
    );
    mirrored.server.speak();
    mirrored.copy().await.unwrap();
    mirrored.assert_equal("afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_others_are_gone_round() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(4);
    mirrored.copy().await.unwrap();
    let theirs = mirrored.context("main");
    mirrored.server.append_foreign(theirs);
    mirrored.turns(4);
    mirrored.copy().await.unwrap();
    mirrored.assert_equal("a turn of somebody else").await;
    assert_eq!(mirrored.server.chain(theirs).last().unwrap().type_id, "com.example.Note", "it stays where it was");
    assert_eq!(mirrored.server.turns(), 2 + 8 * 2 + 1, "nothing is copied twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_between_those_sent_together_is_noticed() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(4);
    mirrored.copy().await.unwrap();
    mirrored.turns(20);
    mirrored.server.sibling_after(7);
    mirrored.copy().await.unwrap();
    mirrored.assert_equal("a turn of another client").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_is_filled_however_old_it_is() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(200);
    mirrored.copy().await.unwrap();
    mirrored.server.lose(mirrored.context("main"), 9);
    let found = verify(&mirrored.repo, &run(), &mirrored.address()).await.unwrap();
    assert_eq!((found.different.len(), found.missing.len()), (1, 0), "{found:?}");
    assert_eq!(mirrored.copy().await.unwrap(), 201, "everything again");
    mirrored.assert_equal("afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_is_gone_is_said_once() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(4);
    mirrored.server.refuse(true);
    let warnings = mirrored.queued().await;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].text.contains("lacks records: it cannot be reached: "), "{}", warnings[0]);
    let told = report(&mirrored.repo, &[run()], &mirrored.address(), Duration::from_secs(5)).await;
    assert!(told.standing.is_none() && told.error.unwrap().starts_with("cannot reach CXDB"));
    assert!(check_http(&mirrored.address()).await.is_err());
    mirrored.server.refuse(false);
    assert_eq!(mirrored.queued().await, []);
    mirrored.assert_equal("afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_rebuilt_have_their_ids() {
    let mut mirrored = Mirrored::new();
    mirrored.turns(7);
    // A branch that was forked from the third turn's record, and one that goes on in the middle of the last one.
    let tip = mirrored.recorder.tip().unwrap();
    let third: CommitId =
        mirrored.world.git(&["rev-parse", &format!("{tip}~4")], &mirrored.world.repo_path()).parse().unwrap();
    let base = mirrored.head();
    let fork = |from: &str, to: &str, kind: &str| json!({"from": from, "context": to, "kind": kind, "node_id": "work", "base": {"repo": base}, "branches": {}});
    let mut branch = mirrored.recorder.fork("tests".parse().unwrap(), third, 3);
    branch
        .append(mirrored.repo.writer(), &batch(base, &[("ContextForked", fork("main", "tests", "parallel"))]))
        .unwrap();
    let mut replay = mirrored.recorder.fork("r1".parse().unwrap(), tip, 7);
    let mut replayed = fork("main", "r1", "replay");
    replayed["turn"] = json!("main.7");
    replayed["to"] = json!({"record": tip, "events": 1});
    replayed["cut"] = json!({"main": {"record": tip, "events": 1}});
    replay.append(mirrored.repo.writer(), &batch(base, &[("ContextForked", replayed)])).unwrap();
    let replay_run: RunId = "abcdefgh/r1".parse().unwrap();
    mirrored.copy().await.unwrap();
    mirror_run(&mirrored.repo, &replay_run, &mirrored.address(), |_| {}).await.unwrap();
    for run in [run(), replay_run] {
        assert!(verify(&mirrored.repo, &run, &mirrored.address()).await.unwrap().is_equal());
    }
    let parents =
        |name: &str| mirrored.server.chain(mirrored.context(name)).iter().map(|turn| turn.turn).collect::<Vec<_>>();
    let (main, tests, r1) = (parents("main"), parents("tests"), parents("r1"));
    assert_eq!((&tests[..8], tests.len()), (&main[..8], 9), "a fork shares the turns before it");
    assert_eq!((&r1[..15], r1.len()), (&main[..15], 16), "also in the middle of a record");

    let clone = mirrored.world.root().join("clone");
    mirrored.world.git(&["clone", "-q", "repo", "clone"], mirrored.world.root());
    let repo = git::discover(&clone, &mirrored.world.environment()).unwrap();
    let found = find_session(&repo, &mirrored.address(), &session()).await.unwrap().unwrap();
    let tips = found.tips(&repo);
    assert_eq!((tips.records, tips.left, tips.lacks), (10, 0, None));
    found.write(&repo, &tips).unwrap();
    for context in ["main", "tests", "r1"] {
        let name = context_ref(&session(), &context.parse().unwrap());
        assert_eq!(repo.refs().find(&name).unwrap(), mirrored.repo.refs().find(&name).unwrap(), "{context}");
    }
    let fsck = mirrored.world.git(&["fsck", "--strict", "--connectivity-only"], &clone);
    assert!(!fsck.contains("missing"), "{fsck}");
    assert_eq!(mirror_run(&repo, &run(), &mirrored.address(), |_| {}).await.unwrap().0.records, 0, "it goes on there");
    assert!(find_session(&repo, &mirrored.address(), &"zzzzzzzz".parse().unwrap()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_view_shows_what_the_page_of_records_shows() {
    let page = include_str!("../../../../docs/records.md");
    let examples = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = examples.filter_map(|text| Recorded::from_json(serde_json::from_str(text).ok()?).ok());
    let examples: Vec<Recorded> = examples.filter(|recorded| recorded.event.is_recorded()).collect();
    assert!(examples.len() > 30, "{}", examples.len());
    let mut mirrored = Mirrored::new();
    let record = Batch { events: examples.clone(), ..batch(mirrored.head(), &[]) };
    mirrored.recorder.append(mirrored.repo.writer(), &record).unwrap();
    mirrored.server.strict_types(true);
    mirrored.copy().await.unwrap();
    assert_eq!(mirrored.server.bundles(), ["dev.orchestra.pleach.1"]);
    let path = format!("/v1/contexts/{}/turns?view=typed&limit=1000&u64_format=number", mirrored.context("main"));
    let (status, told) = call_plain(&mirrored.address().http(), &path, None, Duration::from_secs(5)).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&told));
    let told: Value = serde_json::from_slice(&told).unwrap();
    // The session's first record is before them.
    for (shown, example) in told["turns"].as_array().unwrap().iter().skip(2).zip(&examples) {
        assert_eq!(shown["declared_type"], json!({"type_id": example.event.kind(), "type_version": 10}));
        let Value::Object(mut data) = shown["data"].clone() else { panic!("{shown}") };
        assert_eq!(data.shift_remove("recorded_at"), example.to_json().get("at").cloned());
        data.retain(|field, _| !field.starts_with("record_") && field != "record" || field == "record_repo");
        assert_eq!(sorted(Value::Object(data)), sorted(example.event.data()), "{}", example.event.kind());
    }
}

/// Objects are equal whatever the order of their fields; this only makes what differs readable.
fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}
