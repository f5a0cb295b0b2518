//! `pleach cost`

use clap::{Args, ValueEnum};
use engine::view::costs;
use pleach_core::budget::{Amount, By, Costs};
use pleach_core::text::listed;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_record};
use crate::render::{Out, Table, UNKNOWN, cost, tokens};
use crate::sessions;

/// Show what sessions have cost in tokens and dollars.
///
/// Read from the records; the same figures count against the budget. Without a session, a row for each of this
/// repository, and `(planner)` for the planners of `pleach build`; with one, a row for each of its nodes. Days are days
/// in UTC. `?` marks tokens whose price is unknown; `providers.NAME.prices` sets it.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// The session, or the beginning of its id.
    session: Option<String>,
    /// What each row stands for.
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<Rows>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rows {
    /// One row for each session.
    Session,
    /// One for each task of a task tree.
    Task,
    /// One for each model.
    Model,
    /// One for each node.
    Node,
    /// One for each day.
    Day,
}

impl From<Rows> for By {
    fn from(rows: Rows) -> Self {
        match rows {
            Rows::Session => Self::Session,
            Rows::Task => Self::Task,
            Rows::Model => Self::Model,
            Rows::Node => Self::Node,
            Rows::Day => Self::Day,
        }
    }
}

pub fn run(globals: &Globals, args: CostArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let named = args.session.as_deref().map(|given| sessions::resolve(&repo, given)).transpose()?;
    // A session alone is all of its runs.
    let run = named.as_ref().filter(|_| args.session.as_ref().is_some_and(|given| given.contains('/')));
    let session = named.as_ref().map(|run| run.session.clone());
    let usual = if session.is_some() { By::Node } else { By::Session };
    let by = args.by.map_or(usual, By::from);
    let read = costs(&repo, session.as_ref(), run, by).map_err(|error| of_record(&error))?;
    let is_all = read.unreadable.is_empty();
    for (id, error) in read.unreadable {
        let whose = id.map_or_else(|| "the record of planners".to_owned(), |id| format!("session {id}"));
        warning!(SessionUnreadable, "{whose} is left out: {}", of_engine(&error.into()).sentence());
    }
    let mut out = Out::new();
    if globals.json {
        let rows: Vec<Value> = read.costs.rows.iter().map(|(key, amount)| row_json(by, key, amount)).collect();
        let total = amount_json(&read.costs.total);
        out.json(&json!({"by": by.word(), "rows": rows, "total": total, "unpriced_models": read.unpriced}))?;
        return Ok(Exit::Done);
    }
    if read.costs.rows.is_empty() {
        out.line(if is_all { "No agent has taken a turn yet." } else { "No turn of an agent can be read." })?;
        return Ok(Exit::Done);
    }
    out.line(table(&read.costs))?;
    if !read.unpriced.is_empty() {
        let models = listed(read.unpriced.iter().map(|model| format!("`{model}`")), 10);
        out.line(format!("\n?  no price is known for {models}; `providers.NAME.prices` sets one"))?;
    }
    Ok(Exit::Done)
}

fn table(costs: &Costs) -> String {
    let headings = [costs.by.word(), "turns", "input", "cached", "output", "cost"];
    let mut table = (1..=5).fold(Table::new(headings), Table::right).text(0).less([3]);
    let other = if costs.by == By::Session { "(planner)" } else { "(none)" };
    for (key, amount) in &costs.rows {
        table.row(cells(key.as_deref().unwrap_or(other), amount));
    }
    table.row(cells("total", &costs.total));
    table.shown()
}

fn cells(name: &str, amount: &Amount) -> [String; 6] {
    let Amount { turns, tokens: used, .. } = amount;
    let cost = cost(amount);
    let is_known = *turns == 0 || used.total() > 0;
    let tokens = |count| if is_known { tokens(count) } else { UNKNOWN.to_owned() };
    [
        name.to_owned(),
        turns.to_string(),
        tokens(used.input.saturating_add(used.cache_write)),
        tokens(used.cache_read),
        tokens(used.output),
        if cost.is_empty() { UNKNOWN.to_owned() } else { cost },
    ]
}

fn row_json(by: By, key: &Option<String>, amount: &Amount) -> Value {
    let mut row = amount_json(amount);
    row[by.word()] = json!(key);
    row
}

/// Dollars are null where no price is known; with `unpriced_calls` above 0 they are not all of it.
fn amount_json(amount: &Amount) -> Value {
    json!({
        "turns": amount.turns,
        "tokens": amount.tokens,
        "cost_usd": amount.known_usd(),
        "unpriced_calls": amount.unpriced,
        "estimated_calls": amount.estimated,
        "unbilled_turns": amount.unbilled,
    })
}
