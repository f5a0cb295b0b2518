//! Notes for other tools: which lines of a commit an agent wrote, as git-ai writes and reads them (`attribution_notes`).
//!
//! - [`log`]: what a note says, and its text.

mod log;

use std::collections::{BTreeMap, HashSet};

use pleach_core::event::Event;
use pleach_core::ids::{CommitId, ContextId, SessionId, TurnId};
use pleach_core::trailer::TurnFacts;

use crate::why::{AI_NOTES, Trace, WhyError, WhyGround, lines_of_its_own};
use log::{AiSession, AuthorshipLog};

/// Commits that a branch has come to have.
#[derive(Debug, Clone)]
pub struct NewCommits {
    /// The newest of them.
    pub tip: CommitId,
    /// What these have is not new.
    pub below: Vec<CommitId>,
}

/// Writes notes on new commits that have lines of agents and no note yet, and says how many.
pub fn write_notes(ground: &WhyGround, new: &[NewCommits]) -> Result<usize, WhyError> {
    let (mut seen, mut agents, mut notes) = (HashSet::new(), Agents { ground, known: BTreeMap::new() }, Vec::new());
    let refs = ground.code.refs();
    let noted = refs.find(AI_NOTES)?.map(|at| ground.code.tree_of(at)).transpose()?;
    for NewCommits { tip, below } in new {
        let trace = Trace::new(ground, Some(*tip), false)?;
        for commit in git::commits_above(&ground.code, below, &[*tip])? {
            let has_note = |tree| Ok::<_, git::Error>(git::note_of(&ground.code, tree, commit)?.is_some());
            if !seen.insert(commit) || noted.map_or(Ok(false), has_note)? {
                continue;
            }
            let mut log = AuthorshipLog::default();
            for (path, facts, lines) in lines_of_its_own(ground, &trace, commit)? {
                if let Some(session) = agents.session(&facts) {
                    log.add(path, session, &format!("{}/{}", facts.session, facts.turn), lines);
                }
            }
            notes.extend(log.to_text(commit).map(|text| (commit, text)));
        }
    }
    Ok(git::add_notes(&ground.code, AI_NOTES, notes)?)
}

/// Who took turns.
struct Agents<'g> {
    ground: &'g WhyGround,
    /// The kind of agent, by context and turn.
    known: BTreeMap<(SessionId, ContextId), BTreeMap<TurnId, String>>,
}

impl Agents<'_> {
    /// The conversation a turn belongs to; none where a command did it, which is no agent.
    fn session(&mut self, facts: &TurnFacts) -> Option<AiSession> {
        if facts.is_of_command() {
            return None;
        }
        let (session, context) = (&facts.session, &facts.turn.context);
        let turns = self.known.entry((session.clone(), context.clone())).or_insert_with(|| {
            let history = self.ground.context(session, context);
            let turn = |event: &Event| match event {
                Event::AgentTurn(turn) => Some((turn.turn.clone(), turn.agent.clone())),
                _ => None,
            };
            history.iter().flat_map(|history| history.events()).filter_map(|recorded| turn(&recorded.event)).collect()
        });
        // Agents of its own have no other name than that of the program; of what is not recorded here only that is known.
        let kind = turns.get(&facts.turn).map(String::as_str).filter(|kind| *kind != "builtin").unwrap_or("pleach");
        Some(AiSession::new(kind, &format!("{session}/{context}"), &facts.model))
    }
}
