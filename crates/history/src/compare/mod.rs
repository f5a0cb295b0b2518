//! Runs side by side: what each has done and cost, which one is best, and how their code differs.
//!
//! `row` is a run in a line, `comparison` puts several into an order, `difference` is the code between two points.

mod comparison;
mod difference;
mod row;

pub use comparison::Comparison;
pub use difference::{ComparedPoint, Difference, FileDifference, Operand, RepoDifference, is_below};
pub use row::{ComparedRun, ReviewResult, RunTest};
