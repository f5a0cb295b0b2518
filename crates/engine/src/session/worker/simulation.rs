//! Outcomes a pipeline prescribes for simulated agents, to try its routes without a real one.

use super::Worker;
use pleach_core::event::{Outcome, Status};

/// The outcome of a simulated agent: the entry of the node's `sim_outcomes` for this run of it.
pub(super) fn simulated(worker: &Worker, kind: &str, outcome: Outcome) -> Outcome {
    let written = worker.node.attrs.get("sim_outcomes").filter(|_| is_simulated(kind));
    let run = worker.visit.visit + worker.visit.attempt - 1;
    let status = written.and_then(|attr| nth(&attr.value.to_string(), run));
    match status.filter(|_| outcome.status.is_success()) {
        None | Some(Status::Success) => outcome,
        Some(status) => {
            let fails = matches!(status, Status::Fail | Status::Retry);
            let failure_reason = fails.then(|| format!("simulated outcome `{status}`"));
            Outcome { status, failure_reason, ..outcome }
        }
    }
}

/// Whether the agent is simulated, in which case its text is not an answer either.
pub(super) fn is_simulated(kind: &str) -> bool {
    kind == "simulated"
}

/// The `n`th outcome of a list, from 1; the last one for every later run.
fn nth(list: &str, n: u32) -> Option<Status> {
    let words: Vec<&str> = list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let at = usize::try_from(n).unwrap_or(usize::MAX).clamp(1, words.len().max(1));
    words.get(at - 1).and_then(|word| Status::try_from((*word).to_owned()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_outcome_stays() {
        let listed = |n| nth("fail, retry,needs_work", n).map(|status| status.to_string());
        assert_eq!([1, 2, 3, 9].map(|n| listed(n).unwrap_or_default()), ["fail", "retry", "needs_work", "needs_work"]);
        assert_eq!(nth(" ,", 1), None);
    }
}
