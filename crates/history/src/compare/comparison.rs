//! Several runs in an order.

use std::cmp::Ordering;

use pleach_core::ids::RunId;
use serde::Serialize;

use super::row::{ComparedRun, ReviewResult};

/// Several runs, the best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The runs, in their order.
    pub runs: Vec<ComparedRun>,
    /// The only one that is done and whose tests pass.
    pub best: Option<RunId>,
}

impl Comparison {
    /// Puts runs into their order: those whose tests pass, then those that are done, then those whose review approves, and
    /// among equals the cheaper one. Only the first two make one of them the best, for the others are matters of taste.
    pub fn of(mut runs: Vec<ComparedRun>) -> Self {
        runs.sort_by(by_merit);
        for at in 0..runs.len() {
            let before = at.checked_sub(1).map(|before| &runs[before]);
            let ties = before.filter(|before| by_merit(before, &runs[at]).is_eq()).map(|before| before.rank);
            runs[at].rank = ties.unwrap_or(at + 1);
            runs[at].why = why(&runs[at]);
        }
        let good: Vec<&RunId> = runs.iter().filter(|run| is_good(run)).map(|run| &run.run).collect();
        let best = match good[..] {
            [only] => Some(only.clone()),
            _ => None,
        };
        Self { runs, best }
    }

    /// Whether tests ran, and none of the runs passes them.
    pub fn is_red(&self) -> bool {
        self.runs.iter().any(|run| run.test.is_some()) && !self.runs.iter().any(|run| passes(run) == Some(true))
    }

    /// The runs that may be landed: they are done, and no test has failed.
    pub fn good(&self) -> impl Iterator<Item = &ComparedRun> {
        self.runs.iter().filter(|run| is_good(run))
    }
}

fn passes(run: &ComparedRun) -> Option<bool> {
    run.test.as_ref().map(|test| test.passed)
}

fn is_good(run: &ComparedRun) -> bool {
    passes(run) != Some(false) && run.is_done()
}

/// The better run first.
fn by_merit(one: &ComparedRun, two: &ComparedRun) -> Ordering {
    let test = |run: &ComparedRun| match passes(run) {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    };
    let review = |run: &ComparedRun| match run.review {
        Some(ReviewResult::Approved) => 0,
        None => 1,
        Some(ReviewResult::Rejected) => 2,
    };
    // What it cost is unknown: it may be anything.
    let cost = |run: &ComparedRun| run.cost_usd.unwrap_or(f64::INFINITY);
    let taste = || review(one).cmp(&review(two)).then_with(|| cost(one).total_cmp(&cost(two)));
    test(one).cmp(&test(two)).then_with(|| two.is_done().cmp(&one.is_done())).then_with(taste)
}

/// What speaks against a run, the gravest first.
fn why(run: &ComparedRun) -> Option<String> {
    let test = run.test.as_ref().filter(|test| !test.passed);
    test.map(|test| format!("its tests fail ({})", test.exit))
        .or_else(|| run.why.clone())
        .or_else(|| (run.review == Some(ReviewResult::Rejected)).then(|| "its review rejects it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::RunTest;

    fn run(name: &str, passed: Option<bool>, outcome: &'static str, cost_usd: Option<f64>) -> ComparedRun {
        let exit = |passed| if passed { "exit 0" } else { "exit 1" };
        ComparedRun {
            run: name.parse().unwrap(),
            forked: Default::default(),
            agent: None,
            agents: Vec::new(),
            models: Vec::new(),
            outcome,
            turns: 1,
            tokens: Default::default(),
            cost_usd,
            seconds: 1.0,
            files: 1,
            added: 1,
            removed: 0,
            test: passed.map(|passed| RunTest { passed, exit: exit(passed).into(), seconds: 1, cached: false }),
            review: None,
            rank: 1,
            why: None,
        }
    }

    fn order(runs: Vec<ComparedRun>) -> (Vec<(String, usize)>, Option<String>) {
        let compared = Comparison::of(runs);
        let ranks = compared.runs.iter().map(|run| (run.run.root.to_string(), run.rank)).collect();
        (ranks, compared.best.map(|best| best.root.to_string()))
    }

    fn ranks(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
        expected.iter().map(|(name, rank)| ((*name).to_owned(), *rank)).collect()
    }

    #[test]
    fn green_runs_come_before_done_and_cheap_ones() {
        let (all, best) = order(vec![
            run("abcdefgh", Some(false), "done", Some(0.1)),
            run("abcdefgh/r1", Some(true), "failed", Some(0.1)),
            run("abcdefgh/r2", Some(true), "done", Some(2.0)),
            run("abcdefgh/r3", None, "done", Some(0.1)),
        ]);
        assert_eq!(all, ranks(&[("r2", 1), ("r1", 2), ("r3", 3), ("main", 4)]));
        assert_eq!(best, None, "r3 was not tested, and may be as good");
    }

    #[test]
    fn review_and_cost_order_but_make_no_best() {
        let rejected = ComparedRun { review: Some(ReviewResult::Rejected), ..run("abcdefgh/r1", None, "done", None) };
        let (all, best) = order(vec![
            rejected,
            run("abcdefgh", None, "done", Some(2.0)),
            run("abcdefgh/r2", None, "done", Some(1.0)),
            run("abcdefgh/r3", None, "done", Some(1.0)),
        ]);
        assert_eq!((all, best), (ranks(&[("r2", 1), ("r3", 1), ("main", 3), ("r1", 4)]), None));
    }

    #[test]
    fn the_only_green_run_that_is_done_is_best() {
        let runs = vec![
            run("abcdefgh", Some(false), "done", None),
            run("abcdefgh/r1", Some(true), "done", None),
            run("abcdefgh/r2", Some(true), "paused", None),
        ];
        assert_eq!(order(runs.clone()).1.as_deref(), Some("r1"));
        assert!(Comparison::of(runs[..1].to_vec()).is_red() && !Comparison::of(runs).is_red());
    }
}
