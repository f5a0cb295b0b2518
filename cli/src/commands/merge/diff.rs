//! `pleach merge diff`

use clap::Args;
use git::{FileStat, Repo};
use pleach_core::ids::CommitId;
use pleach_core::queue::QueueEntry;
use serde_json::{Value, json};

use super::ground::MergeGround;
use crate::code::Code;
use crate::commands::diff::{file_json, table};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_git;
use crate::render::patch::shown_patch;
use crate::render::session::heading;
use crate::render::{Out, Pages};

/// Show what an entry changes on its target: what would land, or has landed.
#[derive(Debug, Args)]
pub struct MergeDiffArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
    /// Count the lines of each file instead of showing them.
    #[arg(long)]
    stat: bool,
}

/// What an entry changes on its target.
pub(super) struct EntryChange {
    pub from: CommitId,
    pub to: CommitId,
}

impl EntryChange {
    /// What has landed of an entry, or would; none before it was merged.
    pub(super) fn of(entry: &QueueEntry) -> Option<Self> {
        let landed = entry.landing.map(|landing| Self { from: landing.from, to: landing.to });
        landed.or_else(|| entry.candidate.as_ref().map(|candidate| Self { from: candidate.base, to: candidate.commit }))
    }

    pub(super) fn stat(&self, repo: &Repo) -> Result<Vec<FileStat>, Failure> {
        let read = || git::diff::stat(repo, repo.tree_of(self.from)?, repo.tree_of(self.to)?);
        read().map_err(|error| of_git(&error))
    }

    fn patch(&self, repo: &Repo) -> Result<String, Failure> {
        let read = || git::diff::patch(repo, repo.tree_of(self.from)?, repo.tree_of(self.to)?, &[]);
        read().map_err(|error| of_git(&error))
    }
}

pub fn run(ground: &MergeGround<'_>, args: &MergeDiffArgs) -> Result<Exit, Failure> {
    let entries = ground.entries(&args.entry)?;
    let mut text = String::new();
    let mut documents: Vec<Value> = Vec::new();
    for (place, stored) in &entries {
        let (repo, entry) = (&place.repo, &stored.entry);
        let change = EntryChange::of(entry).ok_or_else(|| {
            Failure::new(Code::EntryState, format!("{} is {}: nothing is merged of it yet", entry.name(), entry.state))
                .hint("`pleach merge process` merges it; `pleach merge why` shows its conflicts")
        })?;
        if ground.globals.json {
            let files: Vec<Value> = change.stat(repo)?.iter().map(file_json).collect();
            documents.push(json!({
                "entry": entry.id, "repo": place.name, "base": change.from, "commit": change.to, "files": files,
                "patch": change.patch(repo)?,
            }));
            continue;
        }
        if entries.len() > 1 {
            text.push_str(&format!("{}\n", heading(place.name.as_str())));
        }
        let shown = if args.stat { table(&change.stat(repo)?) + "\n" } else { shown_patch(&change.patch(repo)?) };
        text.push_str(&shown);
    }
    if ground.globals.json {
        Out::new().json(&match documents.len() {
            1 => documents.remove(0),
            _ => json!({"entries": documents}),
        })?;
    } else {
        Pages::new(ground.globals)?.text(&text)?;
    }
    Ok(Exit::Done)
}
