//! The limits of runs, and the ledger of spending.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::Date;

use super::{Ledgers, Uncounted};
use crate::env::{Error, Supervisor};
use git::Repo;
use git::record::{self, SESSIONS};
use pleach_core::budget::Amount;
use pleach_core::config::{self, OnExceeded};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::RunId;

/// The configured budget, and the spending of other sessions.
#[derive(Debug, Default)]
pub struct Budget {
    pub(crate) limits: config::BudgetSettings,
    /// Today's spending by repository.
    ledgers: Arc<Ledgers>,
    /// Unreadable chains of records, each with its pending warning.
    passed_over: Mutex<BTreeMap<String, Option<Warning>>>,
}

impl Budget {
    /// The budget of a configuration, for a run under this supervisor.
    pub fn new(limits: config::BudgetSettings, supervisor: &Supervisor) -> Self {
        Self { limits, ledgers: Arc::clone(&supervisor.ledgers), ..Self::default() }
    }

    /// Whether a limit counts the spending of earlier sessions in the same tree run.
    pub(crate) fn counts_runs(&self) -> bool {
        let config::BudgetSettings { tokens, usd, per_task_tokens, per_task_usd, .. } = self.limits;
        tokens > 0 || usd > 0.0 || per_task_tokens > 0 || per_task_usd > 0.0
    }

    /// What to do when a limit is reached.
    pub(crate) fn action(&self) -> OnExceeded {
        self.limits.on_exceeded
    }

    /// The spending of all planners and all sessions on a day, except one run of a session.
    pub(crate) fn spent_on(&self, repo: &Repo, day: Date, but: Option<&RunId>) -> Result<Amount, Error> {
        let is_own = |name: &str| {
            let own = but.and_then(|run| Some((run, name.strip_prefix(&format!("{SESSIONS}{}/", run.session))?)));
            own.is_some_and(|(run, context)| context.parse().is_ok_and(|context| run.has(&context)))
        };
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = ledgers.entry(repo.common_dir().to_owned()).or_default();
        let mut sum = Amount::default();
        for name in ledger.turn_to(repo, day)?.into_iter().filter(|name| !is_own(name)) {
            let spent = ledger.chain(repo, &name, day);
            sum += self.counted(&name, Uncounted::DAY, spent)?.unwrap_or_default();
        }
        Ok(sum)
    }

    /// Unwraps the spending read from a chain of records. An unreadable chain counts as zero only if limits merely
    /// warn; a warning is then issued.
    pub(crate) fn counted<T>(
        &self,
        chain: &str,
        limits: &'static str,
        read: Result<T, record::Error>,
    ) -> Result<Option<T>, Error> {
        let source = match read {
            Ok(read) => return Ok(Some(read)),
            // The chain was removed while we read: it counts as never having existed.
            Err(record::Error::Missing { .. }) => return Ok(None),
            Err(source) => source,
        };
        let lost = Uncounted { chain: chain.to_owned(), limits, source };
        if self.action() != OnExceeded::Warn {
            return Err(lost.into());
        }
        let mut passed_over = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        passed_over.entry(chain.to_owned()).or_insert_with(|| {
            let (spender, source) = (lost.spender(), &lost.source);
            let remedy = lost.remedy();
            let text = format!("what {spender} cannot be read and is not counted: {source}; {remedy}");
            Some(WarningCode::SpendingUnreadable.with(text))
        });
        Ok(None)
    }

    /// Warnings about skipped chains that have not been reported yet.
    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        let mut passed_over = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        passed_over.values_mut().filter_map(Option::take).collect()
    }
}
