//! What the commands of tasks have in common: where they work, and what programs are told of a task.

use std::path::{Path, PathBuf};

use engine::keep::{OwnWorktree, WorktreeOwner, own_worktrees};
use engine::tree::ad_hoc::{AdHocStatus, NoAdHocTask, StoreError, TaskStore, TaskView, view_tasks};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::forecast_marks::ForecastMarks;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_no_task, of_store, of_tree};
use crate::place::Place;
use crate::settings::{self, Settings};
use crate::survey::orphans;

/// A repository with tasks.
#[derive(Debug)]
pub struct TaskGround {
    pub settings: Settings,
    pub place: Place,
    /// The directory whose settings count.
    pub dir: PathBuf,
}

impl TaskGround {
    /// The repository around a directory; by default around the one pleach works in.
    pub fn find(globals: &Globals, asked: Option<&Path>) -> Result<Self, Failure> {
        let asked = asked.map(|path| globals.path(path));
        let dir = asked.clone().unwrap_or_else(|| globals.dir.clone());
        let settings = settings::load_for(globals, &dir)?;
        let place = Place::find(&dir, asked, &settings)?;
        Ok(Self { settings, place, dir })
    }

    pub fn store(&self) -> TaskStore<'_> {
        TaskStore::new(&self.place.repo)
    }

    /// All tasks that can be read.
    pub fn views(&self) -> Result<Vec<TaskView>, Failure> {
        Ok(self.readable_views()?.0)
    }

    /// The same, and what is wrong with the others.
    pub fn readable_views(&self) -> Result<(Vec<TaskView>, Vec<StoreError>), Failure> {
        let (tasks, unreadable) = self.store().all().map_err(|error| of_store(&error))?;
        let base = self.settings.resolved.config.tree.base_branch.as_ref();
        let views = view_tasks(&self.place.repo, tasks, &self.place.branch_prefix, base);
        Ok((views.map_err(|error| of_tree(&error))?, unreadable))
    }

    /// The task an id begins with.
    pub fn view(&self, given: &str) -> Result<TaskView, Failure> {
        let id = self.store().find(given).map_err(of_no_task)?.task.id;
        let view = self.views()?.into_iter().find(|view| view.task.id == id);
        let gone = || of_no_task(NoAdHocTask::Unknown { given: given.to_owned(), known: Vec::new() });
        view.ok_or_else(gone)
    }

    /// The worktree a task is worked in, or was last; none once another task has taken its place.
    pub fn worktree(&self, view: &TaskView) -> Result<Option<OwnWorktree>, Failure> {
        let places = orphans::places(&self.place.repo, &self.settings);
        let all = own_worktrees(&self.place.repo, &places).map_err(|error| of_engine(&error))?;
        let is_its = |found: &OwnWorktree| {
            let is_slot = matches!(&found.owner, WorktreeOwner::Tasks { target, .. } if *target == view.task.target);
            is_slot && found.session.is_some() && found.session == view.session
        };
        // One that has landed has left it to others.
        Ok(all.into_iter().find(is_its).filter(|_| view.status.is_open()))
    }
}

/// A task for programs.
pub fn task_json(view: &TaskView) -> Value {
    let task = &view.task;
    let blockers = view
        .blockers
        .iter()
        .map(|blocker| json!({"id": blocker.task, "state": blocker.status.map(AdHocStatus::as_str)}));
    let branch = view.branch.as_ref().filter(|(_, tip)| tip.is_some());
    json!({
        "id": task.id, "name": task.name, "description": task.description, "repo": task.repo, "target": task.target,
        "priority": task.priority, "depends": task.depends, "touches": task.touches, "agent": task.agent,
        "model": task.model, "pipeline": task.pipeline, "created": task.created, "cancelled": task.cancelled,
        "state": view.status.as_str(), "blocked_by": blockers.collect::<Vec<_>>(), "attempts": view.state.attempts,
        "session": view.session, "branch": branch.map(|(name, _)| name),
        "commit": branch.and_then(|(_, tip)| *tip),
        "process": view.holder.as_ref().and_then(|holder| holder.process),
    })
}

/// The same, with what is to be expected of merging it.
pub fn marked_task_json(view: &TaskView, marks: &ForecastMarks) -> Value {
    let mut document = task_json(view);
    document["forecast"] = json!(marks.task(view));
    document
}
