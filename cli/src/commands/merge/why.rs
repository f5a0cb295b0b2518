//! `pleach merge why`

use clap::Args;
use pleach::clock;
use pleach::engine::queue::{entry_history, entry_log};
use pleach::queue::{QueueEntry, TestVerdict};
use serde_json::json;

use super::{MergeGround, entry_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::Out;
use crate::render::session::{age, fields, plain};

/// Show how far an entry is, and why: its conflicts, what resolved them, its tests and what they printed.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

pub fn run(ground: &MergeGround<'_>, args: &WhyArgs) -> Result<Exit, Failure> {
    let (place, stored) = ground.entry(&args.entry)?;
    let history = entry_history(&place.repo, &stored).map_err(|error| of_queue(&error))?;
    let log = entry_log(&place.repo, &stored).map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    if ground.globals.json {
        let history = history.iter().map(|(at, entry)| json!({"at": at, "state": entry.state, "why": entry.why}));
        let mut document = entry_json(&stored.entry);
        document["history"] = history.collect();
        document["log"] = json!(log);
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    out.line(fields(&about(&stored.entry)))?;
    if !stored.entry.conflicts.is_empty() {
        out.line("conflicts:")?;
        for conflict in &stored.entry.conflicts {
            out.line(format!("  {} ({})", conflict.path, conflict.kind))?;
        }
    }
    if !stored.entry.resolved.is_empty() {
        out.line("resolved:")?;
        stored.entry.resolved.iter().try_for_each(|hunk| out.line(format!("  {hunk}")))?;
    }
    out.line("history:")?;
    let now = clock::now();
    for (at, entry) in history.iter().rev() {
        let why = entry.why.as_ref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
        out.line(format!("  {:>8}  {}{why}", age(*at, now), entry.state))?;
    }
    if let Some(log) = log {
        out.line("tests:")?;
        log.lines().try_for_each(|line| out.line(format!("  {}", plain(line))))?;
    }
    Ok(Exit::Done)
}

fn about(entry: &QueueEntry) -> Vec<(&'static str, String)> {
    let mut about = vec![
        ("entry", entry.id.to_string()),
        ("what", entry.name()),
        ("about", plain(&entry.title)),
        ("into", entry.target.to_string()),
        ("commit", entry.head.short()),
        ("state", entry.state.to_string()),
    ];
    about.extend(entry.together.as_ref().map(|_| ("in", format!("{}, with other repositories", entry.repo))));
    about.extend(entry.why.as_ref().map(|why| ("why", plain(why))));
    about.extend(entry.tier.map(|tier| ("tier", tier.to_string())));
    about.extend(
        entry
            .candidate
            .as_ref()
            .map(|candidate| ("merge", format!("{} on {}", candidate.commit.short(), candidate.base.short()))),
    );
    about.extend(entry.verdict.as_ref().map(|verdict| ("tests", verdict_words(verdict))));
    about.extend(entry.landing.as_ref().map(|landing| ("landed", landing.to.short())));
    about
}

fn verdict_words(verdict: &TestVerdict) -> String {
    match verdict {
        TestVerdict::Pass { seconds } => format!("passed in {seconds}s"),
        TestVerdict::Flaky { seconds } => format!("failed once, then passed in {seconds}s (flaky)"),
        TestVerdict::Fail { exit, semantic: true } => {
            format!("failed on the merge ({exit}); the branch passes without the target")
        }
        TestVerdict::Fail { exit, semantic: false } => format!("failed ({exit})"),
        TestVerdict::Unverified => "none: it lands unverified".to_owned(),
    }
}
