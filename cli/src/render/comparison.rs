//! Runs side by side, as tables.

use std::time::Duration;

use history::compare::{ComparedRun, Comparison, ReviewResult};
use pleach_core::budget::dollars;
use pleach_core::text::listed;

use super::session::{count, plain};
use super::{Table, duration, style};

/// A line per run, the best first.
pub fn table(comparison: &Comparison) -> String {
    let headings = ["run", "from", "by", "outcome", "test", "review", "turns", "tokens", "cost", "time", "+/-", "#"];
    let table = [6, 7, 8, 9, 10].into_iter().fold(Table::new(headings), Table::right);
    let mut table = table.text(2).less([1, 6, 7, 9]).without_empty();
    for run in &comparison.runs {
        let best = if comparison.best.as_ref() == Some(&run.run) { "*" } else { "" };
        let test = run.test.as_ref().map(|test| style::standing(if test.passed { "pass" } else { "fail" }));
        table.row([
            run.run.to_string(),
            run.forked.to_string(),
            by(run, &comparison.runs),
            style::standing(run.outcome),
            test.unwrap_or_default(),
            review(run).to_owned(),
            count(run.turns),
            count(run.tokens.total()),
            run.cost_usd.map(dollars).unwrap_or_default(),
            time(run),
            lines(run),
            format!("{}{best}", run.rank),
        ]);
    }
    table.shown()
}

/// A line per point, in the order given.
pub fn points(points: &[(&str, &ComparedRun)]) -> String {
    let headings = ["", "from", "by", "outcome", "turns", "tokens", "cost", "time", "files", "+/-"];
    let table = [4, 5, 6, 7, 8, 9].into_iter().fold(Table::new(headings), Table::right);
    let mut table = table.text(2).less([1, 4, 5, 7]).without_empty();
    for (name, run) in points {
        // An agent whose model is called like it is named once.
        let mut names: Vec<&String> = run.agents.iter().chain(&run.models).collect();
        names.dedup();
        table.row([
            (*name).to_owned(),
            run.forked.to_string(),
            plain(&listed(names, 3)),
            style::standing(run.outcome),
            count(run.turns),
            count(run.tokens.total()),
            run.cost_usd.map(dollars).unwrap_or_default(),
            time(run),
            run.files.to_string(),
            lines(run),
        ]);
    }
    table.shown()
}

/// Who worked: the models, or where all runs have the same the agents.
fn by(run: &ComparedRun, all: &[ComparedRun]) -> String {
    let same_model = all.iter().all(|other| other.models == run.models);
    let same_agent = all.iter().all(|other| other.agent == run.agent);
    let agent = run.agent.iter().filter(|_| same_model && !same_agent).cloned().collect::<Vec<_>>();
    let names = [agent, run.models.clone(), run.agents.clone()].into_iter().find(|names| !names.is_empty());
    plain(&listed(names.unwrap_or_default(), 2))
}

fn review(run: &ComparedRun) -> &'static str {
    match run.review {
        Some(ReviewResult::Approved) => "yes",
        Some(ReviewResult::Rejected) => "no",
        None => "",
    }
}

fn time(run: &ComparedRun) -> String {
    duration(Duration::try_from_secs_f64(run.seconds).unwrap_or_default())
}

fn lines(run: &ComparedRun) -> String {
    format!("+{} -{}", run.added, run.removed)
}
