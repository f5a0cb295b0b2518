//! The runs of a session, drawn as a tree.

use engine::view::RunView;
use jiff::Timestamp;
use pleach_core::text::listed;

use super::session::{age, count, one_line};
use super::{Table, style};

/// A line per run, below the one it was forked from.
pub fn text(runs: &[RunView], now: Timestamp) -> String {
    let headings = ["run", "from", "standing", "by", "turns", "tokens", "cost", "age", ""];
    let table = [4, 5, 6].into_iter().fold(Table::new(headings), Table::right);
    let mut table = table.text(3).text(8).less([5, 4, 7, 6, 3, 1]);
    let mut rows: Vec<(usize, &RunView)> = Vec::new();
    let roots =
        runs.iter().filter(|run| run.forked.from.as_ref().is_none_or(|from| runs.iter().all(|run| run.run != *from)));
    roots.for_each(|root| below(runs, root, 0, &mut rows));
    for (depth, run) in rows {
        let branch = if depth > 0 { format!("{}└ ", "  ".repeat(depth - 1)) } else { String::new() };
        table.row([
            format!("{branch}{}", run.run),
            run.forked.to_string(),
            style::standing(run.standing.word()),
            listed(if run.models.is_empty() { &run.agents } else { &run.models }, 2),
            run.turns.to_string(),
            count(run.tokens.total()),
            run.cost_usd.map(|cost| format!("${cost:.2}")).unwrap_or_default(),
            age(run.started_at, now),
            changes(run),
        ]);
    }
    table.shown()
}

fn below<'r>(runs: &'r [RunView], run: &'r RunView, depth: usize, rows: &mut Vec<(usize, &'r RunView)>) {
    rows.push((depth, run));
    let own = runs.iter().filter(|other| other.forked.from.as_ref() == Some(&run.run) && other.run != run.run);
    own.for_each(|other| below(runs, other, depth + 1, rows));
}

/// What a run does otherwise, in words.
pub fn changes(run: &RunView) -> String {
    let changes = &run.changes;
    let named = [("agent", &changes.agent), ("model", &changes.model)];
    let named = named.into_iter().filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)));
    let told = changes.prompt_append.as_ref().map(|text| format!("told \"{}\"", one_line(text)));
    let inputs = changes.inputs.iter().map(|(key, value)| format!("{key}={}", one_line(value)));
    let pipeline = changes.pipeline.as_ref().map(|pipeline| pipeline.dot_path.clone());
    let all: Vec<String> = named.chain(told).chain(pipeline).chain(inputs).collect();
    all.join(", ")
}
