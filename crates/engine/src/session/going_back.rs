//! Takes a run back to a point of its history. Nothing is deleted and no ref goes back: each context records where it goes
//! on, and a commit brings back the code.

use crate::env::{Engine, Error, SessionRepos};
use crate::session::point::RunPoint;
use git::record::{Batch, History, Recorder};
use git::{CommitSpec, Person};
use pleach_core::clock;
use pleach_core::event::{Recorded, Resumed, Return, RewindVia, Snapshot};
use pleach_core::state::State;
use pleach_core::trailer::{CommitMessage, RETURNS_TRAILER};

/// Records that a run goes back to the turn of a point. From here on it has happened; its other contexts follow when they
/// are opened. `now` is the newest state of its root, whose history this is.
pub(super) fn record_return(
    engine: &Engine,
    repos: &SessionRepos,
    point: &RunPoint,
    via: Option<RewindVia>,
    history: &History,
    now: &State,
) -> Result<(), Error> {
    let missing = || git::record::Error::Missing { session: point.run.session.clone() };
    let to = *point.cut.get(&point.run.root).ok_or_else(missing)?;
    let turn = point.turn.clone().ok_or_else(missing)?;
    let then = point.root()?.clone();
    let (cut, number) = (point.cut.clone(), now.returns + 1);
    let back = Return { number, turn, to, cut, via, work: Snapshot::new() };
    let mut recorder = Recorder::resume(
        repos.record().clone(),
        history.session.clone(),
        history.context.clone(),
        engine.redactor.clone(),
        history.end(now),
    );
    append(repos, &mut recorder, back, now, then).map(drop)
}

/// What a context is told that has to follow the one it is forked from, unless it has.
pub(super) fn following(parent: &State, branch: &State) -> Option<Return> {
    let returned = parent.returned.as_deref().filter(|_| branch.returns < parent.returns)?;
    let to = *returned.cut.get(&branch.id)?;
    Some(Return { to, work: Snapshot::new(), ..Return::clone(returned) })
}

/// Writes the return of a context, with the commits that bring its code back. Returns its state then, and the event.
pub(super) fn append(
    repos: &SessionRepos,
    recorder: &mut Recorder,
    back: Return,
    now: &State,
    then: State,
) -> Result<(State, Recorded), Error> {
    let at = clock::now();
    let (mut work, mut writer) = (then.work.clone(), repos.record().writer());
    for (name, newest) in now.branches.keys().filter_map(|name| now.work.get_key_value(name)) {
        let (Some(repo), Some(wanted)) = (repos.get(name), then.work.get(name)) else { continue };
        let tree = repo.tree_of(*wanted)?;
        work.insert(name.clone(), *newest);
        if repo.tree_of(*newest)? == tree {
            continue;
        }
        let message = CommitMessage {
            subject: format!("Return to {}", back.turn),
            body: "What came after it stays in the history.".into(),
            trailers: vec![
                ("Orchestra-Session".into(), recorder.session().to_string()),
                (RETURNS_TRAILER.into(), back.turn.to_string()),
            ],
        };
        let spec = CommitSpec {
            tree,
            // With the turn as a parent, blame finds who wrote what comes back.
            parents: vec![*newest, *wanted],
            author: Person::pleach(),
            committer: Person::pleach(),
            at,
            message: message.write().into_bytes(),
        };
        let commit = if name == repos.record_name() {
            writer.commit(&spec)?
        } else {
            let mut other = repo.writer();
            let commit = other.commit(&spec)?;
            other.flush()?;
            commit
        };
        work.insert(name.clone(), commit);
    }
    let back = Return { work, ..back };
    let mut state = now.clone();
    state.return_to(&back, then);
    let summary = format!("return to {}", back.turn);
    let event = Recorded { at, event: Resumed { back: Some(back), ..Resumed::default() }.into() };
    let kept = serde_json::to_value(&state).expect("the state is made of structs with text keys, which serialise");
    let batch = Batch {
        summary,
        work: state.work.get(repos.record_name()).copied().into_iter().collect(),
        events: vec![event.clone()],
        // Whoever reads from the newest record on never needs what was before it.
        state: Some(kept),
        ..Batch::default()
    };
    recorder.append(writer, &batch)?;
    Ok((state, event))
}
