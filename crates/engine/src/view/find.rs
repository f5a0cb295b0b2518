//! Finds sessions and their worktrees.

use crate::env::SessionRepos;
use git::record::{self, History};
use git::{Commit, ListedWorktree, Repo};
use pleach_core::event::Event;
use pleach_core::ids::{CommitId, RunId, SessionId, TurnId};
use pleach_core::text::listed;
use pleach_core::trailer::{CommitMessage, TurnFacts};

/// The worktrees of a run: `{base}/{session}/{context}`, with several repositories one level below.
pub fn run_worktrees(repo: &Repo, run: &RunId) -> Result<Vec<ListedWorktree>, git::Error> {
    let of_run = |listed: &ListedWorktree| {
        let mut below = listed.path.ancestors().take(3).filter_map(|path| path.file_name()?.to_str());
        let mut context = below.next();
        let is_own = below.any(|name| {
            name == run.session.as_str() || {
                context = Some(name);
                false
            }
        });
        let context = context.and_then(|context| context.parse().ok());
        is_own && context.is_some_and(|context| run.has(&context)) && (listed.is_own || listed.is_tied())
    };
    Ok(git::worktree::list_linked(repo)?.into_iter().filter(of_run).collect())
}

/// The turn a text names: its number in a run, `main.17`, or a commit that was made in it. With the run it belongs to, which
/// is the original where a replay has only inherited it; whether it is there is not looked at otherwise.
pub fn find_turn(repos: &SessionRepos, run: &RunId, text: &str) -> Result<Option<(RunId, TurnId)>, record::Error> {
    let number = text.parse().ok().filter(|number| *number > 0);
    let plain = number.map(|number| TurnId { context: run.root.clone(), number });
    let of_commit = || {
        let facts = |repo: &Repo| {
            let commit = repo.commit(repo.resolve(text).ok()?).ok()?;
            let facts = TurnFacts::read(&CommitMessage::read(&commit.text()))?;
            let chain = History::all_in(repos.record(), &run.session, &facts.turn.context).ok();
            let is_its = chain.is_none_or(|chain| can_be_of_turn(repo, &chain, &facts.turn, &commit));
            (facts.session == run.session && is_its).then_some(facts)
        };
        repos.iter().find_map(|(_, repo)| facts(repo)).map(|facts| facts.turn)
    };
    let is_short = text.len() < 7;
    let Some(turn) = text.parse().ok().or(plain.filter(|_| is_short)).or_else(of_commit) else { return Ok(None) };
    let of = RunId::of_context(&run.session, &turn.context);
    if of.is_first() {
        return Ok(Some((of, turn)));
    }
    let chain = match History::all_in(repos.record(), &run.session, &turn.context) {
        Ok(chain) => chain,
        Err(record::Error::Missing { .. }) => return Ok(Some((of, turn))),
        Err(error) => return Err(error),
    };
    let turns = chain.events().filter_map(|recorded| match &recorded.event {
        Event::AgentTurn(data) => Some(&data.turn),
        Event::ToolExecution(data) => Some(&data.turn),
        _ => None,
    });
    // A replay numbers on, so that a number is there once.
    let is_it =
        |found: &&TurnId| found.number == turn.number && found.context.within_run() == turn.context.within_run();
    let found = turns.into_iter().find(is_it).cloned().unwrap_or(turn);
    Ok(Some((RunId::of_context(&run.session, &found.context), found)))
}

/// Whether a commit that names a turn can be of the one that a record has. The number of a run that was removed may have been
/// given to another; copies of a commit have its author's date and its subject.
pub fn can_be_of_turn(repo: &Repo, history: &History, turn: &TurnId, commit: &Commit) -> bool {
    let recorded = history.events().filter_map(|recorded| match &recorded.event {
        Event::TurnCommitted(committed) if committed.turn == *turn => Some(committed.git_sha),
        _ => None,
    });
    let subject = |commit: &Commit| CommitMessage::read(&commit.text()).subject;
    let is_same = |id: CommitId| {
        if id == commit.id {
            return Some(true);
        }
        let own = repo.commit(id).ok()?;
        Some(own.at == commit.at && subject(&own) == subject(commit))
    };
    let mut known = recorded.filter_map(is_same).peekable();
    known.peek().is_none() || known.any(|is_same| is_same)
}

/// A text that matches no session, or more than one.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    /// No session matches.
    #[error("there is no session `{given}` in this repository")]
    Unknown {
        /// The text.
        given: String,
        /// The existing sessions.
        known: Vec<SessionId>,
    },
    /// More than one session matches.
    #[error("`{given}` is the beginning of several sessions: {}", listed(candidates, usize::MAX))]
    Ambiguous {
        /// The text.
        given: String,
        /// The matching sessions.
        candidates: Vec<SessionId>,
    },
    /// The session has no such run.
    #[error("session {session} has no run `{root}`")]
    NoRun {
        /// The session.
        session: SessionId,
        /// What was given for the run.
        root: String,
        /// The runs it has.
        runs: Vec<RunId>,
    },
    /// The sessions could not be listed.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The run that `given` names: a session whose id starts so, alone or with one of its runs.
pub fn resolve_run(repo: &Repo, given: &str) -> Result<RunId, NoSession> {
    let Some((session, root)) = given.split_once('/') else {
        return Ok(first_run(repo, &resolve_session(repo, given)?)?);
    };
    let session = resolve_session(repo, session)?;
    let runs = History::runs(repo, &session)?;
    let unknown = || NoSession::NoRun { session: session.clone(), root: root.to_owned(), runs: runs.clone() };
    runs.iter().find(|run| run.root == root).cloned().ok_or_else(unknown)
}

/// The run that a session's id alone means: the first of those that were not removed.
pub fn first_run(repo: &Repo, session: &SessionId) -> Result<RunId, record::Error> {
    Ok(History::runs(repo, session)?.into_iter().next().unwrap_or_else(|| session.into()))
}

/// The session whose id starts with `given`.
pub fn resolve_session(repo: &Repo, given: &str) -> Result<SessionId, NoSession> {
    let known = History::sessions(repo)?;
    let mut candidates: Vec<SessionId> =
        known.iter().filter(|id| !given.is_empty() && id.as_str().starts_with(given)).cloned().collect();
    match candidates.len() {
        0 => Err(NoSession::Unknown { given: given.to_owned(), known }),
        1 => Ok(candidates.remove(0)),
        _ => Err(NoSession::Ambiguous { given: given.to_owned(), candidates }),
    }
}
