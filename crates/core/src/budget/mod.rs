//! What may be spent, and what was: amounts, limits, and whether one has come up to the other.
//!
//! Nothing is counted beside the records: an [`Amount`] is a sum over the turns agents have taken, so that it is the same
//! after a crash. Days are days in UTC.

mod amount;
mod costs;
mod limits;

pub use amount::day_of;
pub use amount::{Amount, Spent, dollars};
pub use costs::{By, Costs};
pub use limits::{Account, Allowance, BudgetLimits, Exceeded, Limit};
