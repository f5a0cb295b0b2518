//! The run over ad-hoc tasks: a tree whose leaves they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::tree::ad_hoc::{AdHocStatus, TaskStore, TaskView, note_repository, view_tasks};
use engine::tree::{QueueLanding, TaskPipeline, TreeClaim, TreePlan};
use pleach_core::config::Isolation;
use pleach_core::ids::{BranchName, TaskId};
use pleach_core::plan::ad_hoc::{AdHocTask, tree_of};
use pleach_core::schedule::ScheduleOptions;
use pleach_core::step::TreeName;
use pleach_core::text::listed;
use serde_json::json;

use super::plan::{OwnWorker, PlannedRepo, commits, default_pipeline, for_tasks, limits, test_command};
use super::run::RunSite;
use crate::answers::AnswerArgs;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_no_task, of_store, of_tree};
use crate::pipeline_file::PipelineFile;
use crate::place::Place;
use crate::queue_settings::queue_settings;
use crate::render::Out;
use crate::settings::Settings;
use crate::workspace_repos::deepen_on_demand;

/// How tasks are started.
#[derive(Debug, Default)]
pub struct StartOptions {
    /// The tasks; without any, all that are ready.
    pub tasks: Vec<String>,
    /// How many are worked at once; by default as many as `tree.jobs` says.
    pub jobs: Option<u32>,
    /// Tasks that failed get another budget of attempts.
    pub retry_failed: bool,
    /// What does not depend on a task that failed is still worked.
    pub keep_going: bool,
    /// They are finished, and a person lets them land.
    pub merges: bool,
    pub answers: AnswerArgs,
}

/// Works tasks of a repository until they have landed or cannot. Tasks of different targets are worked one target after
/// another.
pub fn start_tasks(
    globals: &Globals,
    dir: PathBuf,
    settings: Settings,
    place: Place,
    options: &StartOptions,
) -> Result<Exit, Failure> {
    let answers = options.answers.read(globals)?;
    let settings = settings.deepening(true);
    deepen_on_demand(&settings, &place.name, &place.repo)?;
    note_repository(&settings.state_dir, place.repo.workdir().unwrap_or(place.repo.git_dir()));
    let site = RunSite::new(globals, dir, settings, place, answers, false);
    let store = TaskStore::new(&site.place.repo);
    let find = |given: &String| store.find(given).map(|found| found.task.id).map_err(of_no_task);
    // Each once, however often it is named.
    let asked: BTreeSet<TaskId> = options.tasks.iter().map(find).collect::<Result<_, _>>()?;
    let mut chosen =
        if asked.is_empty() { ready(&views(&site)?, options.retry_failed) } else { asked.iter().cloned().collect() };
    if chosen.is_empty() {
        return nothing_to_do(globals, "no task is ready to start; `pleach task list` shows what there is");
    }
    let mut begun = BTreeSet::new();
    let mut worst = None;
    while !chosen.is_empty() {
        let ended = start_chosen(&site, options, &chosen, &asked, !begun.is_empty())?;
        worst = worst.max(ended);
        begun.extend(chosen);
        let goes_on = matches!(ended, Some(Exit::Done)) || options.keep_going && ended == Some(Exit::WorkFailed);
        if !asked.is_empty() || !goes_on {
            break;
        }
        // Those that were created meanwhile.
        chosen = ready(&views(&site)?, false);
        chosen.retain(|task| !begun.contains(task));
    }
    worst.map_or_else(|| nothing_to_do(globals, "nothing is left to do"), Ok)
}

/// Works tasks, one target after another; none if nothing was left to do. Tasks that others have are left to them, unless
/// they were asked for or are all there are.
fn start_chosen(
    site: &RunSite<'_>,
    options: &StartOptions,
    chosen: &[TaskId],
    asked: &BTreeSet<TaskId>,
    is_more: bool,
) -> Result<Option<Exit>, Failure> {
    // What others do until here counts, and nothing they do afterwards.
    let (claims, held) = claim(site, chosen)?;
    let is_refused = |task: &TaskId| asked.contains(task) || claims.is_empty() && !is_more;
    if let Some((_, held)) = held.into_iter().find(|(task, _)| is_refused(task)) {
        return Err(of_tree(&held));
    }
    let views = views(site)?;
    let mut worst = None;
    for (target, (claim, tasks)) in claims {
        let (tasks, over) = startable(&views, &tasks, asked)?;
        over.iter().for_each(|done| say!("{done}"));
        if !tasks.is_empty() {
            let plan = Arc::new(plan(site.globals, site, options, &target, &tasks, &views)?);
            let planned = PlannedRepo { place: site.place.clone(), plan };
            worst = worst.max(Some(site.work(&[planned], Some(claim))?));
        }
    }
    Ok(worst)
}

/// The end of a start that has nothing to work on.
fn nothing_to_do(globals: &Globals, words: &str) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"ended": "done"}))?
    } else {
        out.line(words)?
    }
    Ok(Exit::Done)
}

/// Where all tasks of a repository are.
fn views(site: &RunSite<'_>) -> Result<Vec<TaskView>, Failure> {
    let (tasks, _) = TaskStore::new(&site.place.repo).all().map_err(|error| of_store(&error))?;
    let base = site.settings.resolved.config.tree.base_branch.as_ref();
    view_tasks(&site.place.repo, tasks, &site.place.branch_prefix, base).map_err(|error| of_tree(&error))
}

/// The tasks a start without ids means: those that can be worked, and what waits for nothing but them.
fn ready(views: &[TaskView], retry_failed: bool) -> Vec<TaskId> {
    let can = |status: AdHocStatus| status.can_start() || (retry_failed && status == AdHocStatus::Failed);
    let mut chosen: BTreeSet<&TaskId> = BTreeSet::new();
    loop {
        let before = chosen.len();
        for view in views.iter().filter(|view| !view.is_astray) {
            let is_met = view.blockers.iter().all(|blocker| chosen.contains(&blocker.task));
            if is_met && (can(view.status) || view.status == AdHocStatus::Blocked) {
                chosen.insert(&view.task.id);
            }
        }
        if chosen.len() == before {
            return chosen.into_iter().cloned().collect();
        }
    }
}

/// What was claimed, by target.
type Claims = BTreeMap<BranchName, (TreeClaim, Vec<TaskId>)>;

/// Claims tasks, and says which of them somebody else has.
fn claim(site: &RunSite<'_>, chosen: &[TaskId]) -> Result<(Claims, Vec<(TaskId, engine::tree::Error)>), Failure> {
    let (mut claims, mut held) = (Claims::new(), Vec::new());
    for id in chosen {
        let found = TaskStore::new(&site.place.repo).get(id).map_err(|error| of_store(&error))?;
        let Some(target) = found.map(|found| found.task.target) else { continue };
        let (claim, tasks) = claims.entry(target.clone()).or_default();
        match claim.add_task(&site.place.repo, &target, id) {
            Ok(()) => tasks.push(id.clone()),
            Err(error) => held.push((id.clone(), error)),
        }
    }
    claims.retain(|_, (_, tasks)| !tasks.is_empty());
    Ok((claims, held))
}

/// The claimed tasks that can be worked now, and a line about each that need not. One that was asked for and cannot be
/// worked is a failure.
fn startable<'v>(
    views: &'v [TaskView],
    claimed: &[TaskId],
    asked: &BTreeSet<TaskId>,
) -> Result<(Vec<&'v AdHocTask>, Vec<String>), Failure> {
    let (mut tasks, mut over) = (Vec::new(), Vec::new());
    for view in views.iter().filter(|view| claimed.contains(&view.task.id)) {
        let (task, id) = (&view.task, &view.task.id);
        let open: Vec<String> =
            view.blockers.iter().filter(|blocker| !claimed.contains(&blocker.task)).map(ToString::to_string).collect();
        if view.is_astray {
            let message = format!("{id} cannot start: there is no branch `{}` it could land on", task.target);
            return Err(Failure::new(Code::NoSuchBranch, message).hint("`git branch` shows what there is"));
        }
        match view.status {
            AdHocStatus::Landed => over.push(format!("{id} has landed on `{}` already", task.target)),
            // Ours, and noted as cancelled by somebody.
            _ if task.cancelled.is_some() && !asked.contains(id) => {}
            _ if task.cancelled.is_some() => {
                let message = format!("{id} was cancelled");
                return Err(Failure::new(Code::TaskCancelled, message)
                    .hint("`pleach task new` makes another one; its branch and its sessions are kept"));
            }
            _ if !open.is_empty() && asked.contains(id) => {
                let message = format!("{id} waits for {}", listed(open, 10));
                let first = view.blockers.iter().map(|blocker| format!(" {}", blocker.task)).collect::<String>();
                return Err(Failure::new(Code::TaskBlocked, message)
                    .hint(format!("start them together: `pleach task start{first} {id}`")));
            }
            _ if !open.is_empty() => {}
            _ => tasks.push(task),
        }
    }
    Ok((tasks, over))
}

/// The plan that settings and options make of tasks that land on the same target.
fn plan(
    globals: &Globals,
    site: &RunSite<'_>,
    options: &StartOptions,
    target: &BranchName,
    tasks: &[&AdHocTask],
    views: &[TaskView],
) -> Result<TreePlan, Failure> {
    let config = &site.settings.resolved.config;
    let root = site.place.repo.workdir().unwrap_or(site.place.repo.git_dir());
    let (mut pipelines, mut names) = (BTreeMap::new(), BTreeMap::new());
    for task in tasks {
        let own = OwnWorker { agent: task.agent.clone(), model: task.model.clone() };
        if own == OwnWorker::default() && task.pipeline.is_none() {
            continue;
        }
        let name = format!("{:?} {:?} {:?}", task.pipeline, own.agent, own.model);
        if !pipelines.contains_key(&name) {
            pipelines.insert(name.clone(), pipeline_of(globals, site, root, task, &own)?);
        }
        names.insert(task.id.clone(), name);
    }
    let others: Vec<&AdHocTask> = views.iter().map(|view| &view.task).collect();
    let (tree, document) = tree_of(tasks, &others, &names).map_err(|errors| {
        let listed: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
        Failure::new(Code::TreeInvalid, format!("the tasks cannot be worked together:\n{}", listed.join("\n")))
            .hint("`pleach task show ID` shows what a task depends on")
    })?;
    let jobs = options.jobs.unwrap_or(config.tree.jobs) as usize;
    Ok(TreePlan {
        tree: Arc::new(tree),
        name: TreeName::Tasks,
        document,
        file: None,
        stamp: None,
        target: target.clone(),
        base_branch: config.tree.base_branch.clone(),
        branch_prefix: site.place.branch_prefix.clone(),
        repo_name: site.place.name.clone(),
        repos: None,
        limits: ScheduleOptions {
            isolation: Isolation::Task,
            retry_failed: options.retry_failed,
            keep_going: options.keep_going,
            ..limits(config)
        },
        commits: commits(config),
        test: test_command(config),
        test_timeout: Duration::from_secs(config.tree.test_timeout),
        // Nothing is committed there: logs and reports are in the record.
        logs: "spec/logs".to_owned(),
        reports: "spec/reports".to_owned(),
        commit_logs: false,
        commit_reports: false,
        pipeline: default_pipeline(globals, false, config, &OwnWorker::default())?,
        pipelines,
        config: config.recordable(),
        fresh: false,
        delete_branches: config.worktrees.delete_branches,
        one: false,
        jobs,
        queue: Some(QueueLanding {
            settings: queue_settings(&site.settings, &site.place),
            is_enabled: config.merge.enabled || options.merges,
            only_queued: false,
            approves: options.merges,
            priorities: tasks.iter().map(|task| (task.id.clone(), task.priority)).collect(),
        }),
    })
}

/// The pipeline of a task that names one, or whom works it.
fn pipeline_of(
    globals: &Globals,
    site: &RunSite<'_>,
    root: &Path,
    task: &AdHocTask,
    own: &OwnWorker,
) -> Result<TaskPipeline, Failure> {
    let config = &site.settings.resolved.config;
    let read = match &task.pipeline {
        None => default_pipeline(globals, false, config, own),
        Some(path) => {
            let path = Path::new(path);
            PipelineFile::read(path, &root.join(path)).and_then(|file| for_tasks(file, config, own))
        }
    };
    read.map_err(|failure| Failure { message: format!("the pipeline of {}: {}", task.id, failure.message), ..failure })
}
