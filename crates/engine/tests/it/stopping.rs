//! Branches nobody needs any more, stopped at the moments at which they are between two nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agents::agent::BoxFuture;
use engine::env::{Engine, GateAnswer, GateReply, Handler, HandlerContext, Interviewer, Question};
use engine::session::{Session, SessionEnded, run_session};
use git::record::{History, context_ref};
use os::process::Cancel;
use pleach_core::event::{Event, Outcome};
use pleach_core::ids::ContextId;
use tokio::sync::{Notify, OnceCell};

use crate::engine::World;

/// The winner `a` beside the chain that `other` describes.
fn first_success(other: &str) -> String {
    format!(
        r#"digraph first {{
        start [shape=Mdiamond]
        fork [shape=component, join_policy=first_success]
        a [type="my.winner"]
        join [shape=tripleoctagon]
        exit [shape=Msquare]
        start -> fork
        fork -> a -> join
        {other}
        join -> exit
    }}"#
    )
}

/// Acts in its worktree and succeeds.
struct Acts<F>(F);

impl<F> Handler for Acts<F>
where
    F: Fn(PathBuf) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome> {
        let done = (self.0)(context.cwd);
        Box::pin(async {
            done.await;
            Outcome::success()
        })
    }
}

fn acts(act: impl Fn(PathBuf) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Arc<dyn Handler> {
    Arc::new(Acts(act))
}

/// How the branches ended, by what the root records.
fn ends(world: &World, session: &Session) -> BTreeMap<String, bool> {
    let history = History::all(&world.repo(), session.id()).unwrap();
    let end = |event: &Event| match event {
        Event::ParallelBranchCompleted(end) => Some((end.context.to_string(), end.stopped)),
        _ => None,
    };
    history.events().filter_map(|recorded| end(&recorded.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_its_comment_is_stopped_with_its_branch() {
    /// Answers at once, and is asked for a comment until the branch is stopped.
    struct Hesitates(Arc<Notify>);
    impl Interviewer for Hesitates {
        fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
            let reply = GateReply { index: 0, text: None, comment: None, source: "terminal" };
            Box::pin(async { GateAnswer::Choice(reply) })
        }

        fn comment<'a>(&'a self, _: &'a Question, _: &'a GateReply) -> BoxFuture<'a, Option<String>> {
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
    }
    let (world, asked) = (World::new(), Arc::new(Notify::new()));
    let wait = Arc::clone(&asked);
    let winner = acts(move |_| {
        let wait = Arc::clone(&wait);
        Box::pin(async move { wait.notified().await })
    });
    let engine = world.engine(None, [("my.winner".to_owned(), winner)].into());
    let engine = Engine { interviewer: Box::new(Hesitates(asked)), ..Arc::into_inner(engine).unwrap() };
    let dot = first_success("b [shape=hexagon]\nfork -> b\nb -> join [label=Yes]");
    let mut session = world.start(&dot, Arc::new(engine)).await;
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    let expected = [("a".to_owned(), false), ("b".to_owned(), true)];
    assert_eq!(ends(&world, &session), expected.into(), "the winner has succeeded, the other was stopped");
}

/// Runs a branch whose second node is being started when the branch is stopped. The end of the first node is written
/// with that start; its objects come first and let the winner go on, its ref is locked until the branch is stopped. Returns how the branches ended and whether `my.loser` has run.
async fn stopped_between_nodes(world: &World, second: &str) -> (BTreeMap<String, bool>, bool) {
    let (lock, ran) = (Arc::new(OnceCell::<PathBuf>::new()), Arc::new(AtomicBool::new(false)));
    let (locks, runs) = (Arc::clone(&lock), Arc::clone(&ran));
    let first = acts(move |cwd| {
        let lock = Arc::clone(&locks);
        Box::pin(async move {
            std::fs::write(cwd.join("made"), "by the first node\n").unwrap();
            std::fs::write(lock.get().unwrap(), "").unwrap();
        })
    });
    std::fs::write(world.root().join("made"), "by the first node\n").unwrap();
    let blob = world.git(&["hash-object", "../made"], &world.repo_path());
    let blob = world.repo_path().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let winner = acts(move |_| {
        let blob = blob.clone();
        Box::pin(async move {
            while !blob.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    });
    let loser = acts(move |_| {
        runs.store(true, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    });
    let handlers = [("my.first", first), ("my.winner", winner), ("my.loser", loser)];
    let engine = world.engine(None, handlers.map(|(kind, handler)| (kind.to_owned(), handler)).into());
    let dot = first_success(&format!("b [type=\"my.first\"]\nfork -> b -> next\n{second}"));
    let mut session = world.start(&dot, engine).await;
    let b: ContextId = "b".parse().unwrap();
    let path = world.repo_path().join(".git").join(format!("{}.lock", context_ref(session.id(), &b)));
    lock.set(path.clone()).unwrap();
    let mut events = session.events();
    // The loop stops the others before it looks at anything that comes back after this event.
    let unlock = tokio::spawn(async move {
        while let Some(told) = events.next().await {
            if matches!(told.recorded.event, Event::ParallelBranchCompleted(_)) {
                std::fs::remove_file(&path).unwrap();
                return;
            }
        }
    });
    assert_eq!(run_session(&mut session).await.unwrap(), SessionEnded::Completed);
    unlock.await.unwrap();
    (ends(world, &session), ran.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_being_started_in_a_stopped_branch_never_runs() {
    let world = World::new();
    let ended = stopped_between_nodes(&world, "next [type=\"my.loser\"]\nnext -> join").await;
    assert_eq!(ended, ([("a".to_owned(), false), ("b".to_owned(), true)].into(), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_forked_in_a_stopped_branch_never_runs() {
    let world = World::new();
    let inner = "next [shape=component]
        x [type=\"my.loser\"]
        y [type=\"my.loser\"]
        meet [shape=tripleoctagon]
        next -> x -> meet
        next -> y -> meet
        meet -> join";
    let ended = stopped_between_nodes(&world, inner).await;
    assert_eq!(ended, ([("a".to_owned(), false), ("b".to_owned(), true)].into(), false));
    let cancelled = |context: &str| {
        let session = world.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/sessions/"], &world.repo_path());
        let session = session.lines().next().unwrap().split('/').nth(3).unwrap().parse().unwrap();
        let history = History::all_in(&world.repo(), &session, &context.parse().unwrap()).unwrap();
        history.events().any(|recorded| matches!(recorded.event, Event::PipelineCancelled(_)))
    };
    assert!(cancelled("b") && cancelled("b-x") && cancelled("b-y"));
    let branches = world.git(&["branch", "--list", "--format=%(refname:short)", "*--b*"], &world.repo_path());
    assert!(branches.lines().count() == 1 && branches.ends_with("--b"), "no worktrees were made for them: {branches}");
}
