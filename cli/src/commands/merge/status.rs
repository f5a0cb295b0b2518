//! `pleach merge status`

use std::collections::BTreeMap;

use clap::Args;
use engine::landing::MergeQueue;
use git::workspace::{Lock, queue_lock};
use pleach_core::ids::BranchName;
use serde_json::json;

use super::ground::{MergeGround, RepoQueue};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::Out;

/// Show how many branches are in which state, and who works the queue.
#[derive(Debug, Args)]
pub struct MergeStatusArgs {
    /// Only the queue of this target.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
}

pub fn run(ground: &MergeGround<'_>, args: &MergeStatusArgs) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let mut documents = Vec::new();
    for RepoQueue { repo, name, at, queue } in ground.queues(args.into.as_ref())? {
        let all = MergeQueue::read_all(&repo, &queue.target).map_err(|error| of_queue(&error))?;
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        let mut tiers: BTreeMap<String, usize> = BTreeMap::new();
        for entry in all.iter().map(|stored| &stored.entry) {
            *states.entry(entry.state.as_str()).or_default() += 1;
            if let Some(tier) = entry.tier.filter(|_| entry.state.is_closed()) {
                *tiers.entry(tier.to_string()).or_default() += 1;
            }
        }
        let holder = Lock::holder(repo.common_dir(), &queue_lock(&queue.target));
        if ground.globals.json {
            documents.push(json!({
                "target": queue.target, "repo": name, "states": states, "tiers": tiers,
                "worked_by": holder.map(|holder| holder.text),
            }));
            continue;
        }
        let counts = |by_word: Vec<(String, usize)>| {
            by_word.into_iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
        };
        out.line(format!("into `{}`{at}", queue.target))?;
        out.line(format!(
            "  entries: {}",
            counts(states.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect())
        ))?;
        if !tiers.is_empty() {
            out.line(format!("  landed by: {}", counts(tiers.into_iter().collect())))?;
        }
        match holder {
            Some(holder) => out.line(format!("  worked by {}", holder.text))?,
            None => out.line("  nobody works it; `pleach merge process` does")?,
        }
    }
    if ground.globals.json {
        out.json(&json!({"queues": documents}))?;
    }
    Ok(Exit::Done)
}
