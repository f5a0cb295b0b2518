//! What has passed after a turn, with what it wrote in it.

use git::record::History;
use git::record::entries::{QUEUES, read_state};
use pleach_core::event::{Event, StepFinished};
use pleach_core::ids::{CommitId, ContextId, SessionId};
use pleach_core::queue::{EntryState, QueueEntry, TestVerdict};
use pleach_core::trailer::TurnFacts;

use super::document::TurnCheck;
use super::error::WhyError;
use super::ground::WhyGround;
use super::sources::entry_of;

/// How many entries of a queue are looked through for that of a session.
const ENTRIES: usize = 200;

/// What has passed since a turn whose lines are in a commit.
pub fn since(
    ground: &WhyGround,
    history: Option<&History>,
    facts: &TurnFacts,
    landed: Option<CommitId>,
) -> Result<Vec<TurnCheck>, WhyError> {
    let mut checks = Vec::new();
    if let Some(history) = history {
        checks.extend(command(ground, facts, history));
        checks.extend(review(history, facts));
    }
    let known = landed.map(|commit| ground.commit(commit)).transpose()?;
    let entry = match known.as_deref().and_then(entry_of) {
        Some(entry) => ground.entry(entry)?.map(|stored| stored.entry),
        None => entry_of_session(ground, &facts.session)?,
    };
    checks.extend(entry.as_ref().and_then(queue));
    Ok(checks)
}

/// The first command that passed after the turn, in its context or in one it was joined to.
fn command(ground: &WhyGround, facts: &TurnFacts, history: &History) -> Option<TurnCheck> {
    let (mut context, mut is_after, mut at) = (facts.turn.context.clone(), false, None);
    loop {
        let of_context = ground.context(&facts.session, &context);
        let of_context = of_context.as_deref().unwrap_or(history);
        let own = of_context.records.iter().filter(|record| record.context == context);
        for recorded in own.flat_map(|record| &record.events) {
            is_after = is_after || at.is_some_and(|at| recorded.at > at);
            match &recorded.event {
                Event::AgentTurn(turn) if turn.turn == facts.turn => (is_after, at) = (true, Some(recorded.at)),
                Event::ToolExecution(tool) if tool.turn == facts.turn => (is_after, at) = (true, Some(recorded.at)),
                Event::ToolExecution(tool) if is_after && tool.exit == PASSED => {
                    let by = Some(format!("{}/{}", facts.session, tool.turn));
                    return Some(TurnCheck { kind: "command", what: tool.command.clone(), by });
                }
                _ => {}
            }
        }
        at?;
        (context, is_after) = (parent(of_context, &context)?, false);
    }
}

/// How a command that passed has ended.
const PASSED: &str = "exit 0";

/// The context another was forked from.
fn parent(history: &History, context: &ContextId) -> Option<ContextId> {
    history.events().find_map(|recorded| match &recorded.event {
        Event::ContextForked(fork) if fork.context == *context => Some(fork.from.clone()),
        _ => None,
    })
}

/// The last verdict of a review in the turn's attempt.
fn review(history: &History, facts: &TurnFacts) -> Option<TurnCheck> {
    let (mut is_after, mut last) = (false, None);
    for recorded in history.events() {
        match &recorded.event {
            Event::AgentTurn(turn) if turn.turn == facts.turn => is_after = true,
            Event::AttemptStarted(_) if is_after => break,
            Event::StepFinished(step) if is_after && step.step == "review" => last = Some(step),
            _ => {}
        }
    }
    let verdict = |step: &StepFinished| step.status.strip_prefix("review-").unwrap_or(&step.status).to_owned();
    last.map(|step| TurnCheck { kind: "review", what: verdict(step), by: Some(step.git_sha.to_string()) })
}

/// What the tests of the merge queue said of what has landed.
fn queue(entry: &QueueEntry) -> Option<TurnCheck> {
    let what = match entry.verdict.as_ref()? {
        TestVerdict::Pass { seconds } => format!("tests passed in {seconds}s"),
        TestVerdict::Flaky { seconds } => format!("tests passed in {seconds}s, on the second try"),
        _ => return None,
    };
    let by = entry.candidate.as_ref().map(|candidate| candidate.commit.to_string());
    (entry.state == EntryState::Landed).then_some(TurnCheck { kind: "queue", what, by })
}

/// The newest landed entry of a session.
fn entry_of_session(ground: &WhyGround, session: &SessionId) -> Result<Option<QueueEntry>, WhyError> {
    let names = ground.code.refs().list_unpeeled(QUEUES)?;
    let of_entry = |(name, at): (String, Option<CommitId>)| {
        let id = name.split_once("/entry/")?.1.to_owned();
        Some((id, name, at?))
    };
    let mut entries: Vec<(String, String, CommitId)> = names.into_iter().filter_map(of_entry).collect();
    entries.sort_by(|one, other| other.cmp(one));
    for (_, name, at) in entries.into_iter().take(ENTRIES) {
        let entry = read_state(&ground.code, &name, at)?.entry;
        if entry.session.as_ref() == Some(session) && entry.state == EntryState::Landed {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}
