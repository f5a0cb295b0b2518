//! What a session may still spend: limits, accounting, and what happens when a limit is reached.

mod budget;
mod ledger;
mod planning;
mod run_ledger;
mod uncounted;
mod unmetered;
mod unpriced;
mod verdict;

pub use budget::Budget;
pub use planning::PlannerBudget;
pub use run_ledger::RunLedger;
pub use uncounted::Uncounted;
pub use unmetered::UnmeteredAgent;
pub use unpriced::Unpriced;
pub use verdict::BudgetVerdict;

pub(crate) use ledger::{Ledgers, spent_in};
pub(crate) use unpriced::{unknown_price, unpriced_in};
