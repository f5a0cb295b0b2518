//! `pleach task branches`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::tree::ad_hoc::{AdHocStatus, known_repositories, note_repository};
use git::workspace::target_of;
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, TaskId};
use serde_json::json;

use super::ground::TaskGround;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_git;
use crate::render::session::age;
use crate::render::{Out, Table};
use crate::settings;

/// List the branches of tasks in all repositories that have had tasks.
///
/// The repositories are remembered when a task is created or started there, in a list that may be deleted; the one
/// around the current directory is always looked at. Tasks of trees are listed too.
#[derive(Debug, Args)]
pub struct BranchesArgs {}

/// A branch of a task.
struct TaskBranch {
    repo: PathBuf,
    name: BranchName,
    task: TaskId,
    target: BranchName,
    tip: CommitId,
    /// Where an ad-hoc task is.
    status: Option<AdHocStatus>,
    /// When its newest commit was made.
    at: Option<jiff::Timestamp>,
}

pub fn run(globals: &Globals, _: &BranchesArgs) -> Result<Exit, Failure> {
    let state_dir = settings::state_dir(&globals.environment)?;
    // Elsewhere than in a repository those that are remembered are all there are.
    if let Ok(here) = TaskGround::find(globals, None) {
        note_repository(&state_dir, here.place.repo.workdir().unwrap_or(here.place.repo.git_dir()));
    }
    let (mut branches, mut unusable) = (Vec::new(), Vec::new());
    for repo in known_repositories(&state_dir) {
        match branches_of(globals, &repo) {
            Ok(found) => branches.extend(found),
            Err(failure) => unusable.push((repo, failure.sentence())),
        }
    }
    for (repo, why) in &unusable {
        warning!(RepositoryUnusable, "{} is left out: {why}", repo.display());
    }
    let mut out = Out::new();
    if globals.json {
        let documents = branches.iter().map(|branch| {
            json!({
                "repo": branch.repo, "branch": branch.name, "task": branch.task, "target": branch.target,
                "commit": branch.tip, "state": branch.status.map(AdHocStatus::as_str), "at": branch.at,
            })
        });
        out.json(&json!({"branches": documents.collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    if branches.is_empty() {
        out.line("There is no branch of a task.")?;
        return Ok(Exit::Done);
    }
    let now = clock::now();
    let mut table = Table::new(["repo", "branch", "task", "state", "commit", "age"]).path(0).path(1).less([4, 5]);
    for branch in &branches {
        table.row([
            branch.repo.display().to_string(),
            branch.name.to_string(),
            branch.task.to_string(),
            branch.status.map(|status| status.to_string()).unwrap_or_default(),
            branch.tip.short(),
            branch.at.map(|at| age(at, now)).unwrap_or_default(),
        ]);
    }
    out.line(table.shown())?;
    Ok(Exit::Done)
}

fn branches_of(globals: &Globals, repo: &Path) -> Result<Vec<TaskBranch>, Failure> {
    let ground = TaskGround::find(globals, Some(repo))?;
    let views: BTreeMap<TaskId, AdHocStatus> =
        ground.views()?.into_iter().map(|view| (view.task.id, view.status)).collect();
    let (repository, prefix) = (&ground.place.repo, &ground.place.branch_prefix);
    let all = repository.refs().list_unpeeled(&format!("refs/heads/{prefix}tasks/")).map_err(|error| of_git(&error))?;
    let branch = |(reference, tip): (String, Option<CommitId>)| {
        let name = BranchName::new(reference.strip_prefix("refs/heads/")?).ok()?;
        let task: TaskId = name.as_str().rsplit('/').next()?.parse().ok()?;
        let (target, tip) = (target_of(prefix, &name)?, tip?);
        let at = repository.commit(tip).ok().map(|commit| commit.at);
        let status = views.get(&task).copied();
        Some(TaskBranch { repo: repo.to_owned(), name, task, target, tip, status, at })
    };
    Ok(all.into_iter().filter_map(branch).collect())
}
