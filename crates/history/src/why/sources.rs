//! Where the work in a commit was done, as far as its message and the records say.

use git::record::History;
use pleach_core::event::Event;
use pleach_core::ids::{CommitId, EntryId, RepoPath, SessionId};
use pleach_core::trailer::CommitMessage;

use super::document::{Evidence, Via};
use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::{KnownCommit, Made};
use super::squash::Squashes;
use super::work_source::{WorkSource, whole};

/// What the work in a commit is found by.
#[derive(Debug, Default)]
pub struct Sources {
    /// In the order in which lines are looked for.
    pub all: Vec<WorkSource>,
    /// The sessions it hangs on: an answer that was kept holds as long as these are recorded.
    pub sessions: Vec<SessionId>,
    /// Whether they will always be the same.
    pub is_final: bool,
}

/// How many commits back files that were put back are looked for.
const BACK: usize = 10_000;

impl Sources {
    /// The work in a file of a commit.
    pub fn find(
        ground: &WhyGround,
        squashes: &Squashes,
        known: &KnownCommit,
        path: &RepoPath,
    ) -> Result<Self, WhyError> {
        let id = known.commit.id;
        let message = |tip, base, via| WorkSource { tip, base, via, evidence: Evidence::Message };
        let (mut all, mut sessions, mut is_final) = (Vec::new(), Vec::new(), false);
        match &known.made {
            Made::Step(Some(session)) => {
                if let Some((tip, base)) = ground.session(session).and_then(|history| step(ground, &history, known)) {
                    all.push(message(tip, base, Via::Copy));
                    (sessions, is_final) = (vec![session.clone()], true);
                }
            }
            Made::Queue(entry) => {
                if let Some(stored) = ground.entry(entry)? {
                    let entry = stored.entry;
                    let base = match entry.base {
                        Some(base) => Some(base),
                        None => known.commit.parents.first().copied(),
                    };
                    all.push(message(entry.head, base, Via::Copy));
                    if let Some(session) = entry.resolver {
                        let resolver = ground.session(&session).and_then(|history| whole(ground, &history));
                        all.extend(resolver.map(|(tip, base)| message(tip, base, Via::Resolved)));
                        sessions.push(session);
                    }
                    is_final = entry.state.is_closed();
                }
            }
            Made::Undo(entry) => {
                let landing = ground.entry(entry)?.and_then(|stored| stored.entry.landing);
                all.extend(landing.map(|landing| message(landing.from, None, Via::Restored)));
                is_final = true;
            }
            Made::Return(..) | Made::Restart => {
                all.extend(restored(ground, known)?.map(|tip| message(tip, None, Via::Restored)));
                is_final = true;
            }
            Made::Plain(named, _) if !named.is_empty() => {
                for session in named {
                    all.extend(squashes.named(ground, session, id, path)?);
                }
            }
            Made::Plain(..) if known.commit.parents.len() == 1 => {
                all.extend(squashes.alike(ground, known, path)?);
            }
            Made::Plain(..) | Made::Turn(_) | Made::Step(None) | Made::FanIn(..) => {}
        }
        // What was not fetched cannot be looked into, and does not begin anywhere either.
        all.retain(|source| source.tip != id && ground.has(source.tip));
        for source in &mut all {
            source.base = source.base.filter(|base| ground.has(*base));
        }
        is_final &= !all.is_empty();
        Ok(Self { all, sessions, is_final })
    }

    /// The two sides that became one in a commit.
    pub fn sides(ground: &WhyGround, known: &KnownCommit) -> Result<Vec<CommitId>, WhyError> {
        let mut sides = known.commit.parents.clone();
        if let (1, Made::Queue(entry)) = (sides.len(), &known.made) {
            sides.extend(ground.entry(entry)?.map(|stored| stored.entry.head).filter(|head| ground.has(*head)));
        }
        Ok(if sides.len() > 1 { sides } else { Vec::new() })
    }
}

/// The work of a step: the newest commit before it, and where what led to it began. A copy has the same message and date.
fn step(ground: &WhyGround, history: &History, known: &KnownCommit) -> Option<(CommitId, Option<CommitId>)> {
    let (mut base, mut tip) = (None, None);
    for recorded in history.events() {
        match &recorded.event {
            Event::AttemptStarted(_) => (base, tip) = (None, None),
            Event::NodeStarted(node) => base = base.or_else(|| ground.own(&history.started, &node.base)),
            Event::StepFinished(step) => {
                let written = CommitMessage {
                    subject: step.subject.clone(),
                    body: step.body.clone(),
                    trailers: step.trailers.clone(),
                };
                let is_same = step.git_sha == known.commit.id
                    || step.date.as_second() == known.commit.at.as_second()
                        && CommitMessage::read(&written.write()) == known.message;
                if is_same {
                    return Some((tip?, base));
                }
                (base, tip) = (None, None);
            }
            event => tip = ground.work_of(&history.started, event).or(tip),
        }
    }
    None
}

/// The commit whose files a commit has put back.
fn restored(ground: &WhyGround, known: &KnownCommit) -> Result<Option<CommitId>, WhyError> {
    let tree = known.commit.tree;
    if let Some(second) = known.commit.parents.get(1)
        && ground.tree(*second)? == tree
    {
        return Ok(Some(*second));
    }
    let mut next = known.commit.parents.first().copied();
    for _ in 0..BACK {
        let Some(id) = next else { break };
        let commit = ground.code.commit(id)?;
        if commit.tree == tree {
            return Ok(Some(id));
        }
        next = commit.parents.first().copied().filter(|parent| ground.has(*parent));
    }
    Ok(None)
}

/// The entry a commit of the merge queue is of.
pub fn entry_of(known: &KnownCommit) -> Option<&EntryId> {
    match &known.made {
        Made::Queue(entry) => Some(entry),
        _ => None,
    }
}
