//! What the sessions of a repository have spent, read from their records.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::budget::{Amount, Spent, day_of};
use crate::engine::Error;
use crate::event::Event;
use crate::git::Repo;
use crate::ids::{CommitId, ContextId, SessionId};
use crate::record::{AgentTurns, History, PLANNING, SESSIONS, context_ref};

/// What each chain of records has spent on a day, up to the record it was read to. Only what is new is read again.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    day: Option<Date>,
    chains: BTreeMap<String, (CommitId, Amount)>,
}

impl Ledger {
    /// What all planners, and all sessions but one, have spent on a day.
    pub(super) fn others(&mut self, repo: &Repo, own: &SessionId, day: Date) -> Result<Amount, Error> {
        self.but(repo, Some(context_ref(own, &ContextId::main())), day)
    }

    /// What all planners and all sessions have spent on a day.
    pub(super) fn all(&mut self, repo: &Repo, day: Date) -> Result<Amount, Error> {
        self.but(repo, None, day)
    }

    fn but(&mut self, repo: &Repo, own: Option<String>, day: Date) -> Result<Amount, Error> {
        if self.day.replace(day) != Some(day) {
            self.chains.clear();
        }
        let mut names = repo.reference_names(SESSIONS)?;
        // The one chain of planners; its name comes before those of sessions.
        names.insert(0, PLANNING.to_owned());
        self.chains.retain(|name, _| names.binary_search(name).is_ok());
        let mut sum = Amount::default();
        for name in names.into_iter().filter(|name| Some(name) != own.as_ref()) {
            // A chain nobody can read is none of this session's business; its own commands say what is wrong with it.
            if let Ok(Some(tip)) = repo.reference(&name) {
                sum += self.chain(repo, name, tip, day);
            }
        }
        Ok(sum)
    }

    fn chain(&mut self, repo: &Repo, name: String, tip: CommitId, day: Date) -> Amount {
        let known = self.chains.get(&name).copied();
        if let Some((_, amount)) = known.filter(|(at, _)| *at == tip) {
            return amount;
        }
        let begin = day.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp()).ok();
        let Ok(read) = AgentTurns::read(repo, tip, known.map(|(at, _)| at), begin) else { return Amount::default() };
        let new = read.turns.iter().filter(|(at, _)| day_of(*at) == day);
        let new = new.fold(Amount::default(), |sum, (_, turn)| sum + Amount::of_turn(turn));
        // A chain that does not go on from what was known was read as far as the day goes.
        let amount = known.filter(|_| read.reached_known).map_or(new, |(_, before)| before + new);
        self.chains.insert(name, (tip, amount));
        amount
    }
}

/// What a session has spent.
pub(in crate::engine) fn spent_in(history: &History) -> Spent {
    let mut spent = history.kept.as_ref().map(|state| state.spent.clone()).unwrap_or_default();
    for recorded in history.events() {
        if let Event::AgentTurn(turn) = &recorded.event {
            spent.add(recorded.at, turn);
        }
    }
    spent
}
