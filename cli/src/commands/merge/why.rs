//! `pleach merge why`

use clap::Args;
use engine::landing::edited_tests;
use pleach_core::clock;
use pleach_core::queue::{QueueEntry, TestVerdict};
use pleach_core::text::listed;
use serde_json::json;

use super::diff::EntryChange;
use super::ground::{MergeGround, entry_json};
use crate::commands::diff::file_json;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::{of_git, of_queue};
use crate::render::Out;
use crate::render::session::{age, fields, plain};
use git::record::{entry_history, entry_log};

/// Show how far an entry is, and why: the files it changes, its conflicts, what resolved them, its tests and what they
/// printed.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

pub fn run(ground: &MergeGround<'_>, args: &WhyArgs) -> Result<Exit, Failure> {
    let (place, stored) = ground.entry(&args.entry)?;
    let history = entry_history(&place.repo, &stored).map_err(|error| of_queue(&error.into()))?;
    let log = entry_log(&place.repo, &stored).map_err(|error| of_queue(&error.into()))?;
    let change = EntryChange::of(&stored.entry);
    let stat = change.as_ref().map(|change| change.stat(&place.repo)).transpose()?.unwrap_or_default();
    let tests = ground.queue_settings().tests_of(&stored.entry);
    let commands = tests.iter().map(|test| test.command.as_str());
    let edited = change.as_ref().map(|change| edited_tests(&place.repo, change.from, change.to, commands));
    let edited = edited.transpose().map_err(|error| of_git(&error))?.unwrap_or_default();
    let mut out = Out::new();
    if ground.globals.json {
        let history = history.iter().map(|(at, entry)| json!({"at": at, "state": entry.state, "why": entry.why}));
        let mut document = entry_json(&stored.entry);
        document["history"] = history.collect();
        document["log"] = json!(log);
        document["files"] = stat.iter().map(file_json).collect();
        document["edited_tests"] = json!(edited);
        if !stored.entry.state.is_closed() {
            document["unverified"] = json!(tests.is_empty() && stored.entry.mark.is_none());
        }
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let mut about = about(&stored.entry);
    if !stored.entry.state.is_closed() && tests.is_empty() && stored.entry.mark.is_none() {
        about.push(("tests", "none: it lands unverified; `test_command` in pleach.yaml says what tests it".to_owned()));
    }
    if !edited.is_empty() {
        about.push(("beware", format!("it changes {}, which its tests are started from", listed(&edited, 10))));
    }
    out.line(fields(&about))?;
    if !stored.entry.conflicts.is_empty() {
        out.line("conflicts:")?;
        for conflict in &stored.entry.conflicts {
            out.line(format!("  {} ({})", conflict.path, conflict.kind))?;
        }
    }
    if !stat.is_empty() {
        out.line("files:")?;
        for file in &stat {
            let lines = file.lines.map_or("binary".to_owned(), |(added, removed)| format!("+{added} -{removed}"));
            out.line(format!("  {} ({lines})", plain(&file.path.to_string())))?;
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
    let verdict =
        entry.verdict.as_ref().filter(|_| entry.state.is_closed() || entry.verdict != Some(TestVerdict::Unverified));
    about.extend(verdict.map(|verdict| ("tests", verdict_words(verdict))));
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
        TestVerdict::TargetFails { exit } => format!("failed on the target without it as well ({exit})"),
        TestVerdict::Unverified => "none: it has landed unverified".to_owned(),
    }
}
