//! Runs side by side, as tables.

use std::time::Duration;

use history::compare::{ComparedRun, Comparison, ReviewResult};
use pleach_core::budget::dollars;
use pleach_core::text::{listed, shorten};

use super::session::{count, plain};
use super::{Table, duration, style};

/// How wide a table may be.
const WIDTH: usize = 100;

/// What is left of the names of models and agents at least.
const LEAST: usize = 6;

/// A line per run, the best first.
pub fn table(comparison: &Comparison) -> String {
    fitted(|by_width| {
        let headings =
            ["run", "from", "by", "outcome", "test", "review", "turns", "tokens", "cost", "time", "+/-", "#"];
        let mut table = [6, 7, 8, 9, 10].into_iter().fold(Table::new(headings), Table::right);
        for run in &comparison.runs {
            let best = if comparison.best.as_ref() == Some(&run.run) { "*" } else { "" };
            table.row([
                run.run.to_string(),
                run.forked.to_string(),
                shorten(&by(run, &comparison.runs), by_width),
                style::standing(run.outcome),
                run.test
                    .as_ref()
                    .map(|test| style::standing(if test.passed { "pass" } else { "fail" }))
                    .unwrap_or_default(),
                review(run).to_owned(),
                count(run.turns),
                count(run.tokens.total()),
                run.cost_usd.map(dollars).unwrap_or_default(),
                time(run),
                lines(run),
                format!("{}{best}", run.rank),
            ]);
        }
        table
    })
}

/// A line per point, in the order given.
pub fn points(points: &[(&str, &ComparedRun)]) -> String {
    fitted(|by_width| {
        let headings = ["", "from", "by", "outcome", "turns", "tokens", "cost", "time", "files", "+/-"];
        let mut table = [4, 5, 6, 7, 8, 9].into_iter().fold(Table::new(headings), Table::right);
        for (name, run) in points {
            // An agent whose model is called like it is named once.
            let mut names: Vec<&String> = run.agents.iter().chain(&run.models).collect();
            names.dedup();
            table.row([
                (*name).to_owned(),
                run.forked.to_string(),
                shorten(&plain(&listed(names, 3)), by_width),
                style::standing(run.outcome),
                count(run.turns),
                count(run.tokens.total()),
                run.cost_usd.map(dollars).unwrap_or_default(),
                time(run),
                run.files.to_string(),
                lines(run),
            ]);
        }
        table
    })
}

/// A table with as much of the names in it as there is room for.
fn fitted(table: impl Fn(usize) -> Table) -> String {
    let mut by_width = WIDTH / 2;
    loop {
        let text = table(by_width).without_empty().to_string();
        let width = text.lines().map(console::measure_text_width).max().unwrap_or_default();
        if width <= WIDTH || by_width <= LEAST {
            return text;
        }
        by_width -= 1;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use engine::view::ForkPoint;
    use history::compare::RunTest;
    use pleach_core::event::Usage;

    #[test]
    fn the_widest_rows_fit_the_table() {
        let run = |name: &str, model: &str| ComparedRun {
            run: name.parse().unwrap(),
            forked: ForkPoint { from_turn: Some("main.17".parse().unwrap()), ..ForkPoint::default() },
            agent: Some("claude".into()),
            agents: vec!["claude".into()],
            models: vec![model.to_owned()],
            outcome: "running",
            turns: 170,
            tokens: Usage { input: 12_345_678, ..Usage::default() },
            cost_usd: Some(12.34),
            seconds: 12_000.0,
            files: 100,
            added: 1_234,
            removed: 567,
            test: Some(RunTest { passed: false, exit: "exit 101".into(), seconds: 1, cached: false }),
            review: Some(ReviewResult::Approved),
            rank: 1,
            why: None,
        };
        let runs = vec![run("abcdefgh/r10", "claude-opus-4-1-20250805"), run("abcdefgh/r11", "gpt-5")];
        let both: Vec<(&str, &ComparedRun)> = runs.iter().map(|run| ("abcdefgh/main.17", run)).collect();
        for text in [points(&both), table(&Comparison::of(runs.clone()))] {
            let width = text.lines().map(console::measure_text_width).max().unwrap();
            assert!(width <= WIDTH, "{width}:\n{text}");
        }
    }
}
