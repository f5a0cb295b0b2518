//! Spending of a repository's sessions, read from their records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::env::Error;
use git::Repo;
use git::record::{self, AgentTurns, History, PLANNING, SESSIONS};
use pleach_core::budget::{Amount, Spent, day_of};
use pleach_core::event::Event;
use pleach_core::ids::CommitId;

/// Today's spending in each repository, keyed by its common directory.
pub(crate) type Ledgers = Mutex<BTreeMap<PathBuf, Ledger>>;

/// The spending of each chain of records on a day, and the record up to which it was read. Only new records are read
/// again.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    day: Option<Date>,
    chains: BTreeMap<String, (CommitId, Amount)>,
}

impl Ledger {
    /// Switches to a day and returns the existing chains.
    pub(super) fn turn_to(&mut self, repo: &Repo, day: Date) -> Result<Vec<String>, Error> {
        if self.day.replace(day) != Some(day) {
            self.chains.clear();
        }
        let mut names = repo.refs().names(SESSIONS)?;
        // The single chain of planners; its name sorts before those of sessions.
        names.insert(0, PLANNING.to_owned());
        self.chains.retain(|name, _| names.binary_search(name).is_ok());
        Ok(names)
    }

    pub(super) fn chain(&mut self, repo: &Repo, name: &str, day: Date) -> Result<Amount, record::Error> {
        let Some(tip) = repo.refs().find(name)? else { return Ok(Amount::default()) };
        let known = self.chains.get(name).copied();
        if let Some((_, amount)) = known.filter(|(at, _)| *at == tip) {
            return Ok(amount);
        }
        let begin = day.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp()).ok();
        let read = AgentTurns::read(repo, tip, known.map(|(at, _)| at), begin)?;
        let new = read.turns.iter().filter(|(at, _)| day_of(*at) == day);
        let new = new.fold(Amount::default(), |sum, (_, turn)| sum + Amount::of_turn(turn));
        // A chain that does not continue from the known record was read back to the start of the day.
        let amount = known.filter(|_| read.reached_known).map_or(new, |(_, before)| before + new);
        self.chains.insert(name.to_owned(), (tip, amount));
        Ok(amount)
    }
}

/// The spending of a context, excluding the contexts it was forked from.
pub(crate) fn spent_in(history: &History) -> Spent {
    let kept = history.kept.as_ref().filter(|state| state.id == history.context);
    let mut spent = kept.map(|state| state.spent.clone()).unwrap_or_default();
    let own = history.records.iter().filter(|record| record.context == history.context);
    for recorded in own.flat_map(|record| &record.events) {
        if let Event::AgentTurn(turn) = &recorded.event {
            spent.add(recorded.at, turn);
        }
    }
    spent
}
