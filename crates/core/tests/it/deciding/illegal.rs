//! Events that cannot follow the ones before them are refused, and change nothing.

use pleach_core::event::{
    Checkpoint, ContextForked, Event, ForkKind, NodeStarted, Outcome, PauseReason, PipelineCancelled,
    PipelineCompleted, PipelineFailed, PipelinePaused, Recorded, RepoCloned, Resumed, RetryAt, Route,
    SessionBranchCreated, SnapshotRecorded, TurnCommitted, WorktreeCreated,
};
use pleach_core::ids::{BranchName, CommitId, RepoName};
use pleach_core::state::{State, Visit};

use super::driver::{BEGIN, Play, answer, executed, graph, node, pipeline, snapshot, started};

fn visit(id: &str, visit: u32, attempt: u32) -> Visit {
    Visit { node: node(id), visit, attempt, from: None }
}

fn begin() -> Event {
    started(&pipeline(&graph("start -> a -> exit"))).into()
}

fn start(id: &str, number: u32, attempt: u32) -> Event {
    NodeStarted {
        node_id: node(id),
        visit: number,
        attempt,
        handler: "codergen".into(),
        base: snapshot(0),
        starts_over: false,
        fidelity: None,
        thread: Some("t".into()),
        extra: Default::default(),
    }
    .into()
}

fn end(id: &str, route: Route) -> Event {
    executed(&visit(id, 1, 1), Outcome::success(), route, snapshot(0)).into()
}

fn to(id: &str) -> Route {
    Route::Edge { to: node(id) }
}

fn failed() -> Route {
    Route::Fail { reason: "broken".into() }
}

fn turn(id: &str, number: u64) -> Event {
    let mut play = Play::begin(&graph("start -> a -> exit"));
    let mut turn = play.turn(&visit(id, 1, 1));
    (turn.turn.number, turn.turn_number) = (number, number);
    turn.into()
}

fn turn_misnumbered() -> Event {
    let Event::AgentTurn(turn) = turn("start", 1) else { unreachable!() };
    pleach_core::event::AgentTurn { turn_number: 2, ..turn }.into()
}

fn retry_at(id: &str, attempt: u32) -> Event {
    RetryAt { node_id: node(id), visit: 1, attempt, at: BEGIN.parse().unwrap(), extra: Default::default() }.into()
}

fn checkpoint(current: &str, completed: &[&str], next: Option<&str>, commits: Option<u64>) -> Event {
    Checkpoint {
        current_node: node(current),
        completed_nodes: completed.iter().map(|id| node(id)).collect::<Vec<_>>().into(),
        node_outcomes: Default::default(),
        context: Default::default(),
        node_retries: Default::default(),
        visits: Default::default(),
        next_node: next.map(node),
        workspace_snapshot: commits.map(snapshot),
        extra: Default::default(),
    }
    .into()
}

fn pause() -> Event {
    PipelinePaused { reason: PauseReason::Interrupted, node_id: None, why: None, extra: Default::default() }.into()
}

fn fail() -> Event {
    PipelineFailed { reason: "broken".into(), node_id: None, extra: Default::default() }.into()
}

fn resume() -> Event {
    Resumed::default().into()
}

fn resume_at(id: &str) -> Event {
    Resumed { from: Some(node(id)), ..Resumed::default() }.into()
}

fn complete() -> Event {
    PipelineCompleted::default().into()
}

fn cancel() -> Event {
    PipelineCancelled::default().into()
}

fn human(id: &str) -> Event {
    answer(&visit(id, 1, 1), "console").into()
}

fn fork(id: &str) -> Event {
    ContextForked {
        from: "main".parse().unwrap(),
        context: id.parse().unwrap(),
        kind: ForkKind::Parallel,
        node_id: node("a"),
        base: snapshot(1),
        branches: Default::default(),
        join: None,
        replayed: None,
        extra: Default::default(),
    }
    .into()
}

fn outside() -> Vec<Event> {
    let (repo, branch) = (RepoName::new("repo").unwrap(), BranchName::new("pleach/g/abcdefgh").unwrap());
    let commit = CommitId::from_bytes([7; 20]);
    let turn = "main.1".parse().unwrap();
    vec![
        SessionBranchCreated { repo: repo.clone(), branch: branch.clone(), base: commit, extra: Default::default() }
            .into(),
        RepoCloned { repo: repo.clone(), remote: "/srv/x.git".into(), commit, depth: None, extra: Default::default() }
            .into(),
        WorktreeCreated { repo: repo.clone(), name: "main".into(), extra: Default::default() }.into(),
        TurnCommitted { turn, repo, branch, git_sha: commit, extra: Default::default() }.into(),
        SnapshotRecorded { workspace_snapshot: snapshot(1), extra: Default::default() }.into(),
    ]
}

/// Folds `before`, which must be legal, then `event`, which must not be.
#[track_caller]
fn refused(before: Vec<Event>, event: Event, why: &str) {
    let mut state = State::new(node("start"));
    let at = BEGIN.parse().unwrap();
    for event in before {
        let shown = format!("{event:?}");
        state.apply(&Recorded { at, event }).unwrap_or_else(|error| panic!("{error}: {shown}"));
    }
    let as_it_was = state.clone();
    let error = state.apply(&Recorded { at, event }).expect_err("the event was taken");
    assert!(error.to_string().contains(why), "{error}, not {why}");
    assert_eq!(state, as_it_was, "a refused event leaves no trace");
}

#[test]
fn nothing_comes_before_the_start() {
    let first = [start("start", 1, 1), end("start", to("a")), turn("start", 1), human("start"), pause(), fail()];
    for event in
        first.into_iter().chain([complete(), cancel(), resume(), checkpoint("start", &[], Some("start"), None)])
    {
        refused(vec![], event, "the session is new");
    }
    refused(vec![], retry_at("start", 1), "the session is new");
    for event in outside() {
        refused(vec![], event, "has not been started");
    }
}

#[test]
fn a_session_is_started_once() {
    refused(vec![begin()], begin(), "started already");
}

#[test]
fn nodes_start_when_it_is_their_turn() {
    let running = || vec![begin(), start("start", 1, 1)];
    refused(vec![begin()], start("a", 1, 1), "`start` visit 1 attempt 1 is due");
    refused(vec![begin()], start("start", 2, 1), "is due");
    refused(vec![begin()], start("start", 1, 2), "is due");
    refused(vec![begin()], start("start", 0, 0), "is due");
    refused(running(), start("start", 1, 1), "`start` is running");
    refused(running(), start("a", 1, 1), "`start` is running");
    let resumed = [running(), vec![resume()]].concat();
    refused(resumed.clone(), start("a", 1, 1), "`start` visit 1 attempt 1 is due");
    refused([resumed, vec![start("start", 1, 1)]].concat(), start("start", 1, 1), "`start` is running");
    let retrying = [running(), vec![end("start", Route::Retry)]].concat();
    refused(retrying, start("start", 1, 1), "attempt 2 is due");
    let ended = [running(), vec![end("start", Route::Complete)]].concat();
    refused(ended, start("a", 1, 1), "the run has ended");
    refused(vec![begin(), pause()], start("start", 1, 1), "the session is paused");
}

#[test]
fn only_a_running_node_has_turns_answers_and_an_end() {
    for event in [turn("start", 1), human("start"), end("start", to("a"))] {
        refused(vec![begin()], event.clone(), "`start` is not running");
        // Its process is gone: it must be taken up first.
        refused(vec![begin(), start("start", 1, 1), resume()], event.clone(), "`start` is not running");
        refused(vec![begin(), start("start", 1, 1), pause()], event, "the session is paused");
    }
    let running = || vec![begin(), start("start", 1, 1)];
    refused(running(), turn("a", 1), "`start` visit 1 attempt 1 is due");
    refused(running(), end("a", to("exit")), "`start` visit 1 attempt 1 is due");
    refused(running(), human("a"), "`a` is not running");
    let ended = [running(), vec![end("start", to("a"))]].concat();
    refused(ended.clone(), end("start", to("a")), "`start` is not running");
    refused(ended, turn("start", 1), "`start` is not running");
}

#[test]
fn turns_are_numbered_on() {
    let running = || vec![begin(), start("start", 1, 1)];
    refused(running(), turn("start", 2), "turn 2 comes after turn 0");
    let one = [running(), vec![turn("start", 1)]].concat();
    refused(one.clone(), turn("start", 1), "turn 1 comes after turn 1");
    refused(one, turn("start", 3), "turn 3 comes after turn 1");
    refused(running(), turn_misnumbered(), "turn main.1 has the number 2");
}

#[test]
fn a_context_forks_once_and_its_turns_are_its_own() {
    refused(vec![], fork("a"), "the session is new");
    refused(vec![begin(), pause()], fork("a"), "the session is paused");
    // Told a second time, it is the new context that tells it.
    let forked = || vec![begin(), fork("a"), fork("a")];
    refused(forked(), fork("b"), "this is context `a`");
    refused([forked(), vec![start("a", 1, 1)]].concat(), turn("a", 1), "turn main.1 is not of context `a`");
    for event in [pause(), fail(), complete()] {
        refused(forked(), event, "neither pauses nor ends the session");
    }
    let other = |event| match event {
        Event::ContextForked(data) => ContextForked { node_id: node("exit"), ..data }.into(),
        other => other,
    };
    refused(vec![begin(), fork("a")], other(fork("a")), "was forked otherwise");
}

#[test]
fn a_retry_is_set_once_where_due() {
    let retrying = || vec![begin(), start("start", 1, 1), end("start", Route::Retry)];
    refused(vec![begin()], retry_at("start", 1), "no retry is due");
    refused(vec![begin(), start("start", 1, 1)], retry_at("start", 2), "no retry is due");
    refused(retrying(), retry_at("start", 1), "attempt 2 is due");
    refused(retrying(), retry_at("a", 2), "`start` visit 1 attempt 2 is due");
    refused([retrying(), vec![retry_at("start", 2)]].concat(), retry_at("start", 2), "no retry is due");
    let ended = vec![begin(), start("start", 1, 1), end("start", Route::Complete)];
    refused(ended, retry_at("start", 2), "no retry is due");
}

#[test]
fn a_checkpoint_matches_the_events() {
    let between = || vec![begin(), start("start", 1, 1), end("start", to("a"))];
    let wrong = [
        (checkpoint("start", &["start"], Some("exit"), None), "next node"),
        (checkpoint("start", &["start"], None, None), "next node"),
        (checkpoint("start", &[], Some("a"), None), "completed nodes"),
        (checkpoint("start", &["a"], Some("a"), None), "completed nodes"),
        (checkpoint("a", &["start"], Some("a"), None), "completed nodes"),
        (checkpoint("start", &["start"], Some("a"), Some(9)), "commits"),
    ];
    for (event, why) in wrong {
        refused(between(), event, why);
    }
    let right = checkpoint("start", &["start"], Some("a"), None);
    refused([between(), vec![right.clone(), pause()]].concat(), right, "the session is paused");
}

#[test]
fn a_run_completes_only_at_its_exit() {
    let running = || vec![begin(), start("start", 1, 1)];
    refused(vec![begin()], complete(), "has not reached its exit");
    refused(running(), complete(), "has not reached its exit");
    refused([running(), vec![end("start", to("a"))]].concat(), complete(), "has not reached its exit");
    refused([running(), vec![end("start", failed())]].concat(), complete(), "has not reached its exit");
    refused([running(), vec![end("start", Route::Complete)]].concat(), pause(), "the run has ended");
}

#[test]
fn nothing_comes_after_the_end() {
    let ended = |route, last| vec![begin(), start("start", 1, 1), end("start", route), last];
    let endings = [
        (ended(Route::Complete, complete()), "the session is done"),
        (ended(failed(), fail()), "the session is failed"),
        (vec![begin(), start("start", 1, 1), fail()], "the session is failed"),
        (vec![begin(), start("start", 1, 1), cancel()], "the session is cancelled"),
        (vec![begin(), pause(), cancel()], "the session is cancelled"),
    ];
    for (events, why) in endings {
        let after = [resume(), pause(), complete(), fail(), cancel(), start("a", 1, 1), turn("start", 1)];
        for event in after.into_iter().chain([human("start"), end("start", to("a")), retry_at("start", 2)]) {
            refused(events.clone(), event, why);
        }
        refused(events.clone(), checkpoint("start", &["start"], None, None), why);
        refused(events, begin(), "started already");
    }
}

#[test]
fn a_pause_is_followed_by_a_resume() {
    refused(vec![begin(), pause()], pause(), "the session is paused");
    let events =
        [begin(), start("start", 1, 1), pause(), resume(), start("start", 1, 1), end("start", Route::Complete)];
    let at = BEGIN.parse().unwrap();
    let events: Vec<Recorded> = events.into_iter().chain([complete()]).map(|event| Recorded { at, event }).collect();
    assert_eq!(State::fold(node("start"), &events).unwrap().phase, pleach_core::state::Phase::Completed);
}

#[test]
fn a_run_goes_back_only_to_where_it_has_been() {
    let failed = || vec![begin(), start("start", 1, 1), end("start", to("a")), start("a", 1, 1), fail()];
    refused(failed(), resume(), "the session is failed");
    refused(failed(), resume_at("b"), "the run has not reached `b`");
    refused(vec![begin(), start("start", 1, 1)], resume_at("a"), "the run has not reached `a`");
    let done = [vec![begin(), start("start", 1, 1), end("start", Route::Complete)], vec![complete()]].concat();
    refused(done, resume_at("start"), "the session is done");
    let again = [failed(), vec![resume_at("a")]].concat();
    refused(again.clone(), start("a", 1, 1), "`a` visit 2 attempt 1 is due");
    refused([again, vec![start("a", 2, 1)]].concat(), start("a", 2, 1), "`a` is running");
}
