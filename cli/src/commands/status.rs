//! `pleach status`

use clap::Args;
use pleach::clock;
use pleach::engine::{Standing, Summary, View, session_worktrees};
use pleach::event::PauseReason;
use pleach::git::Repo;
use pleach::ids::SessionId;
use serde_json::{Value, json};

use crate::commands::Globals;
use crate::exit::{Exit, Failure};
use crate::failure::{of_engine, of_git};
use crate::render::{Out, session as show, tokens};
use crate::sessions;

/// Show the sessions of this repository, or one of them.
///
/// A session is running, dead (its process was killed), paused, done, failed or cancelled; `pleach resume` goes on
/// with one that is dead or paused. With a session, its turns and checkpoints are listed with their commits.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The session, or the beginning of its id.
    session: Option<String>,
}

pub fn run(globals: &Globals, args: StatusArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    match args.session {
        Some(given) => one(globals, &repo, &sessions::load(&repo, &given)?)?,
        None => all(globals, &repo)?,
    }
    Ok(Exit::Done)
}

fn all(globals: &Globals, repo: &Repo) -> Result<(), Failure> {
    let all = View::all(repo).map_err(|error| of_engine(&error))?;
    let all: Vec<(SessionId, Result<Summary, String>)> =
        all.into_iter().map(|(id, summary)| (id, summary.map_err(|error| of_engine(&error).sentence()))).collect();
    let mut out = Out::new();
    if globals.json {
        let listed = all.iter().map(|(id, summary)| match summary {
            Ok(summary) => show::summary_json(summary),
            Err(why) => json!({"session": id, "standing": {"is": "unreadable", "reason": why}}),
        });
        return out.json(&json!({"sessions": listed.collect::<Vec<_>>()}));
    }
    if all.is_empty() {
        return out.line("There is no session in this repository yet; `pleach run FILE.dot` starts one.");
    }
    out.line(show::sessions(&all, clock::now()))
}

fn one(globals: &Globals, repo: &Repo, view: &View) -> Result<(), Failure> {
    let summary = &view.summary;
    let copies = session_worktrees(repo, &summary.session).map_err(|error| of_git(&error))?;
    let copies: Vec<String> =
        copies.iter().filter(|copy| copy.path.is_dir()).map(|copy| copy.path.display().to_string()).collect();
    let mut out = Out::new();
    if globals.json {
        let mut document = show::summary_json(summary);
        document["worktrees"] = json!(copies);
        document["go_on"] = go_on(summary).map_or(Value::Null, Value::String);
        document["turns"] = json!(view.turns());
        document["checkpoints"] = json!(view.checkpoints());
        return out.json(&document);
    }
    out.line(show::fields(&details(summary, copies)))?;
    if view.timeline().is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.line(show::timeline(view))
}

fn details(summary: &Summary, copies: Vec<String>) -> Vec<(&'static str, String)> {
    let mut fields = vec![("session", summary.session.to_string())];
    let simulated = if summary.started.simulated { ", simulated" } else { "" };
    fields.push(("pipeline", format!("{} ({}{simulated})", summary.started.name, summary.started.dot_path)));
    if !summary.started.goal.is_empty() {
        fields.push(("goal", summary.started.goal.clone()));
    }
    let at = match (summary.standing(), summary.node()) {
        (Standing::Done | Standing::Cancelled, _) | (_, None) => String::new(),
        (Standing::Failed { .. }, Some(node)) => format!(" (after `{node}`)"),
        (_, Some(node)) => format!(" at `{node}`"),
    };
    fields.push(("standing", format!("{}{at}", show::standing(&summary.standing()))));
    fields.extend(go_on(summary).map(|command| ("go on", command)));
    fields.extend(merge(summary).map(|command| ("merge", command)));
    if let Some((_, branch)) = summary.branch() {
        let tip = summary.work().map(|commit| format!(" at {}", commit.short())).unwrap_or_default();
        fields.push(("branch", format!("{branch}{tip}")));
    }
    if let Some(base) = summary.base() {
        let target = summary.started.target.as_ref().map(|target| format!(" ({target})")).unwrap_or_default();
        fields.push(("base", format!("{}{target}", base.short())));
    }
    fields.extend(copies.into_iter().map(|path| ("worktree", path)));
    let cost = if summary.state.cost_usd > 0.0 { format!(", ${:.2}", summary.state.cost_usd) } else { String::new() };
    let spent = format!("{} turns, {} tokens{cost}", summary.state.turns, tokens(summary.state.usage.total()));
    fields.push(("spent", spent));
    fields.push(("started", format!("{} ({} ago)", summary.started_at, show::age(summary.started_at, clock::now()))));
    fields
}

/// The command that brings finished work home.
fn merge(summary: &Summary) -> Option<String> {
    let changed = summary.standing() == Standing::Done && summary.work() != summary.base();
    let (_, branch) = summary.branch().filter(|_| changed)?;
    let switch = summary.started.target.as_ref().map(|target| format!("git switch {target} && ")).unwrap_or_default();
    Some(format!("{switch}git merge {branch}"))
}

/// The command that goes on with a session that can go on.
fn go_on(summary: &Summary) -> Option<String> {
    let id = &summary.session;
    match (summary.standing(), summary.node()) {
        (Standing::Paused { reason: PauseReason::WaitsForPerson }, Some(node)) => {
            Some(format!("pleach resume {id} --answer {node}=CHOICE"))
        }
        (standing, _) => standing.can_resume().then(|| format!("pleach resume {id}")),
    }
}
