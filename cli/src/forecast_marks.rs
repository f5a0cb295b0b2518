//! Marks on tasks and sessions whose branches will conflict when they are merged.

use std::collections::{BTreeMap, BTreeSet};

use engine::landing::{ForecastMark, quick_forecast};
use engine::tree::ad_hoc::TaskView;
use engine::view::{SessionStatus, Summary};
use git::Repo;
use pleach_core::ids::BranchName;

use crate::render::style::{BAD, paint};

/// What to do about marks.
pub const FORECAST_HINT: &str = "`pleach forecast` shows which branches and files will conflict";

/// What is to be expected of merging branches, as far as that can be told without a wait.
#[derive(Debug, Default)]
pub struct ForecastMarks(BTreeMap<BranchName, ForecastMark>);

impl ForecastMarks {
    /// The marks of open tasks and sessions, each compared with those that go to the same target.
    pub fn find<'a>(repo: &Repo, tasks: &'a [TaskView], sessions: impl Iterator<Item = &'a Summary>) -> Self {
        let mut branches: BTreeMap<&BranchName, BTreeSet<BranchName>> = BTreeMap::new();
        let tasks = tasks.iter().filter(|view| view.status.is_open());
        let of_tasks = tasks.filter_map(|view| Some((&view.task.target, task_branch(view)?)));
        for (target, branch) in of_tasks.chain(sessions.filter_map(session_branch)) {
            branches.entry(target).or_default().insert(branch.clone());
        }
        let mut marks = BTreeMap::new();
        for (target, branches) in branches {
            // Nobody has asked for marks: what keeps them from being made, `pleach forecast` reports.
            let Ok(forecast) = quick_forecast(repo, &branches, target) else { continue };
            marks.extend(branches.into_iter().filter_map(|branch| {
                let mark = forecast.mark(&branch)?;
                Some((branch, mark))
            }));
        }
        Self(marks)
    }

    /// The mark of a task.
    pub fn task(&self, view: &TaskView) -> Option<ForecastMark> {
        self.0.get(task_branch(view)?).copied()
    }

    /// The mark of a session.
    pub fn session(&self, summary: &Summary) -> Option<ForecastMark> {
        self.0.get(session_branch(summary)?.1).copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A mark behind the state it is about.
pub fn marked(state: String, mark: Option<ForecastMark>) -> String {
    match mark {
        Some(ForecastMark::Conflict) => format!("{state}, {}", paint(BAD, "conflict expected")),
        Some(ForecastMark::Overlap) => format!("{state}, overlap"),
        None => state,
    }
}

fn task_branch(view: &TaskView) -> Option<&BranchName> {
    let (branch, tip) = view.branch.as_ref()?;
    tip.is_some().then_some(branch)
}

/// The branch of a session that is still to be merged, behind its target.
fn session_branch(summary: &Summary) -> Option<(&BranchName, &BranchName)> {
    let target = match &summary.started.task {
        Some(task) => &task.target,
        None => summary.started.target()?,
    };
    let is_landed = summary.state.task.as_ref().is_some_and(|task| task.landed.is_some());
    let is_over = is_landed || summary.standing() == SessionStatus::Cancelled;
    let (_, branch) = summary.branch().filter(|_| !is_over)?;
    Some((target, branch))
}
