//! What the sessions of a repository have spent, read from their records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::budget::{Amount, Spent, day_of};
use crate::engine::Error;
use crate::event::Event;
use crate::git::Repo;
use crate::ids::CommitId;
use crate::record::{self, AgentTurns, History, PLANNING, SESSIONS};

/// What was spent today in each repository, by its common directory.
pub(in crate::engine) type Ledgers = Mutex<BTreeMap<PathBuf, Ledger>>;

/// What each chain of records has spent on a day, up to the record it was read to. Only what is new is read again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Ledger {
    day: Option<Date>,
    chains: BTreeMap<String, (CommitId, Amount)>,
}

impl Ledger {
    /// Begins with a day, and gives the chains there are.
    pub(super) fn turn_to(&mut self, repo: &Repo, day: Date) -> Result<Vec<String>, Error> {
        if self.day.replace(day) != Some(day) {
            self.chains.clear();
        }
        let mut names = repo.refs().names(SESSIONS)?;
        // The one chain of planners; its name comes before those of sessions.
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
        // A chain that does not go on from what was known was read as far as the day goes.
        let amount = known.filter(|_| read.reached_known).map_or(new, |(_, before)| before + new);
        self.chains.insert(name.to_owned(), (tip, amount));
        Ok(amount)
    }
}

/// What a context has spent, without those it was forked from.
pub(in crate::engine) fn spent_in(history: &History) -> Spent {
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
