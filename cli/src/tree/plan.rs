//! From a tree, settings and flags to a plan.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::landing::{MergeQueue, QueueSettings};
use engine::tree::progress::named_base;
use engine::tree::{self, QueueLanding, TaskPipeline, TreePlan, check_target};
use git::workspace::branch_ref;
use git::{EntryKind, TreeId};
use pleach_core::config::{CommitGranularity, CommitLogs, Config, Isolation};
use pleach_core::event::Commits;
use pleach_core::ids::{BranchName, RepoPath, TaskId};
use pleach_core::plan::pipeline::HandlerKind;
use pleach_core::plan::tree::{TaskTree, TestCommand, TestKind};
use pleach_core::plan::{self, STEP_ATTRIBUTES, TASK_PIPELINE, lint, print};
use pleach_core::queue::QueueEntry;
use pleach_core::schedule::ScheduleOptions;
use pleach_core::text::{listed, shell_word};

use super::find::{TreeFile, name_in_commits};
use super::repos::TreePlaces;
use crate::answers::AnswerArgs;
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_queue, of_tree};
use crate::pipeline_file::{PipelineFile, known};
pub(super) use crate::place::{Place, target};
use crate::queue_settings::queue_settings;
use crate::settings::{self, Search, Settings, shortened};

/// The arguments of `garden` and `gardener`.
#[derive(Debug, Default, Args)]
pub struct TreeArgs {
    /// The tree; by default the task-tree.json of the repository, of openspec/changes/*, specs or specs/*.
    #[arg(long, value_name = "FILE")]
    pub tree: Option<PathBuf>,
    /// The command that tests tasks without a test of their own.
    #[arg(long, value_name = "COMMAND")]
    pub test_command: Option<String>,
    /// How many attempts a task gets.
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// The agent of all steps, written as `agent` in pleach.yaml.
    #[arg(long, value_name = "AGENT")]
    pub runner: Option<String>,
    /// The model of implementing and reviewing.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The branch this one was created from, for reading older histories; `tree.base_branch` sets it for all commands.
    #[arg(long, value_name = "BRANCH")]
    pub base_branch: Option<String>,
    /// The directory of reports.
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// The directory of logs.
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Which part of the tree gets its own branch.
    #[arg(long, value_name = "none|phase|task")]
    pub isolation: Option<String>,
    /// Work so many tasks at once, each in a worktree of its own; more than one implies `--isolation task`.
    #[arg(long, value_name = "N")]
    pub jobs: Option<u32>,
    /// The pipeline for tasks, instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub pipeline: Option<PathBuf>,
    /// Give tasks that failed another budget of attempts.
    #[arg(long)]
    pub retry_failed: bool,
    /// Restart the tree, ignoring what was done before.
    #[arg(long)]
    pub fresh: bool,
    /// Run in the repository at this path.
    #[arg(long, value_name = "PATH")]
    pub target_repo: Option<PathBuf>,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub answers: AnswerArgs,
}

/// The settings with the flags over them.
pub fn load_settings(globals: &Globals, dir: &Path, args: &TreeArgs) -> Result<Settings, Failure> {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    // Settings are text, and as such these would be other directories.
    for (dir, key) in [(&args.report_dir, "report_dir"), (&args.log_dir, "log_dir")] {
        if let Some(dir) = dir.as_ref().filter(|dir| dir.to_str().is_none()) {
            in_commits(dir, key)?;
        }
    }
    let given = [
        ("--test-command", "tree.test_command", args.test_command.clone()),
        ("--max-retries", "tree.max_retries", args.max_retries.map(|number| number.to_string())),
        ("--runner", "agent", args.runner.clone()),
        ("--model", "tree.steps.implement.model", args.model.clone()),
        ("--model", "tree.steps.review.model", args.model.clone()),
        ("--base-branch", "tree.base_branch", args.base_branch.clone()),
        ("--report-dir", "tree.report_dir", text(&args.report_dir)),
        ("--log-dir", "tree.log_dir", text(&args.log_dir)),
        ("--isolation", "tree.isolation", args.isolation.clone()),
        ("--jobs", "tree.jobs", args.jobs.map(|jobs| jobs.to_string())),
        ("--pipeline", "tree.pipeline", text(&args.pipeline)),
    ];
    let flags = given.into_iter().filter_map(|(flag, key, value)| Some((flag.to_owned(), key.to_owned(), value?)));
    settings::load(globals.environment.clone(), &Search::with(globals, dir, flags))
}

/// Whether one task is worked, or all.
#[derive(Debug, Clone)]
pub enum Tasks {
    /// The next one, or this one.
    One(Option<TaskId>),
    /// All of them, also those that do not depend on one that failed, if so asked.
    All { keep_going: bool },
}

/// The plan of a run in one repository.
#[derive(Debug)]
pub struct PlannedRepo {
    pub place: Place,
    pub plan: Arc<TreePlan>,
}

/// The plans that settings, flags and a tree make: one for each repository in which there is something to do, by name.
pub fn make(
    globals: &Globals,
    args: &TreeArgs,
    tasks: &Tasks,
    settings: &Settings,
    place: &Place,
    file: TreeFile,
) -> Result<Vec<PlannedRepo>, Failure> {
    let places = TreePlaces::find(&file.tree, place, settings)?;
    let plan = |place: &Place, file: TreeFile| {
        let plan = make_one(globals, args, tasks, settings, place, places.as_ref(), file)?;
        check_directories(&plan, place)?;
        Ok(PlannedRepo { place: place.clone(), plan: Arc::new(plan) })
    };
    match &places {
        None => Ok(vec![plan(place, file)?]),
        Some(several) => {
            let of_place = |used: &Place| TreeFile { tracked: file.tracked && used.name == place.name, ..file.clone() };
            several.used.iter().map(|used| plan(used, of_place(used))).collect()
        }
    }
}

/// Refuses phases that would get a branch of their own in each of several repositories: nothing merges those together.
fn refuse_joint_phases(tree: &TaskTree, places: Option<&TreePlaces>) -> Result<(), Failure> {
    let joint = tree.roots().iter().find(|phase| places.is_some_and(|places| places.repos.nodes.is_joint(phase)));
    let Some(phase) = joint else { return Ok(()) };
    let message = format!(
        "{phase} has tasks in several repositories, so that it cannot have a branch of its own (`isolation: phase`)"
    );
    Err(Failure::new(Code::PhaseOverRepos, message)
        .hint("use --isolation none or task, or make a phase for each repository"))
}

fn make_one(
    globals: &Globals,
    args: &TreeArgs,
    tasks: &Tasks,
    settings: &Settings,
    place: &Place,
    places: Option<&TreePlaces>,
    file: TreeFile,
) -> Result<TreePlan, Failure> {
    let target = target(place)?;
    let config = &settings.resolved.config;
    check_target(&target).map_err(|error| of_tree(&error))?;
    let tree = &config.tree;
    let (isolation, jobs) = jobs(args, settings)?;
    if tree.isolation == Isolation::Phase
        && let Some(cycle) = file.tree.phase_cycle()
    {
        let names: Vec<&str> = cycle.iter().map(TaskId::as_str).collect();
        let message = format!("the phases depend on each other: {} → {}", names.join(" → "), names[0]);
        return Err(Failure::new(Code::PhaseCycle, message).hint("remove a dependency, or use --isolation none"));
    }
    if isolation == Isolation::Phase {
        refuse_joint_phases(&file.tree, places)?;
    }
    let only = match tasks {
        Tasks::One(Some(task)) => Some(task.clone()),
        _ => None,
    };
    if let Some(task) = &only
        && !file.tree.is_leaf(task)
    {
        let below = file.tree.leaves_below(task);
        return Err(if below.is_empty() {
            Failure::new(Code::NoSuchTask, format!("there is no task `{task}` in {}", file.name))
                .hint("`pleach status -v` lists the tasks")
        } else {
            Failure::new(Code::TaskIsGroup, format!("`{task}` is a group of tasks, which are worked one by one"))
                .hint(format!("name one of {}", listed(below, 10)))
        });
    }
    let base_branch =
        match places.and_then(|places| places.repos.all.iter().find(|tree_repo| tree_repo.name == place.name)) {
            Some(tree_repo) => tree_repo.base_branch.clone(),
            None => tree.base_branch.clone(),
        };
    if let Some(base) = base_branch.as_ref().filter(|_| places.is_none()) {
        named_base(&place.repo, base).map_err(|error| of_tree(&error.into()))?;
    }
    let own = own_directory(&file);
    let root = place.repo.workdir();
    let pipeline = default_pipeline(globals, args.pipeline.is_some(), config, &OwnWorker::default())?;
    let pipelines = named_pipelines(&file.tree, |name| {
        let dir = file.place.as_deref().and_then(Path::parent);
        let path = dir.unwrap_or(Path::new(".")).join(name);
        for_tasks(PipelineFile::read(&shortened(&path, &globals.here), &path)?, config, &OwnWorker::default())
    })?;
    let logs = in_repo(tree.log_dir.as_deref(), root, "log_dir")?.unwrap_or_else(|| format!("{own}logs"));
    let reports = in_repo(tree.report_dir.as_deref(), root, "report_dir")?.unwrap_or_else(|| format!("{own}reports"));
    let only_queued = isolation != Isolation::Task;
    let is_used = !only_queued || has_queued(place, &file.tree, &target)?;
    let queue = is_used.then(|| landing(settings, place, &logs, &reports, only_queued));
    Ok(TreePlan {
        limits: ScheduleOptions {
            retry_failed: args.retry_failed,
            only,
            isolation,
            keep_going: matches!(tasks, Tasks::All { keep_going: true }),
            ..limits(config)
        },
        commits: commits(config),
        test: test_command(config),
        test_timeout: Duration::from_secs(tree.test_timeout),
        commit_logs: is_committed(tree.commit_logs, place, &target, &logs)?,
        commit_reports: is_committed(tree.commit_logs, place, &target, &reports)?,
        logs,
        reports,
        delete_branches: tree.delete_branches,
        config: config.recordable(),
        fresh: args.fresh,
        one: matches!(tasks, Tasks::One(_)),
        jobs,
        queue,
        branch_prefix: place.branch_prefix.clone(),
        repo_name: place.name.clone(),
        repos: places.map(|places| Arc::clone(&places.repos)),
        base_branch,
        target,
        pipeline,
        pipelines,
        name: file.name,
        document: file.text,
        file: file.place,
        stamp: file.stamp,
        tree: file.tree,
    })
}

/// How tasks with branches of their own land: through the queue, also where others wait for a person to put them into
/// it.
fn landing(settings: &Settings, place: &Place, logs: &str, reports: &str, only_queued: bool) -> QueueLanding {
    let own = QueueSettings { logs: logs.to_owned(), reports: reports.to_owned(), ..queue_settings(settings, place) };
    QueueLanding { settings: own, is_enabled: true, only_queued, approves: false, priorities: BTreeMap::new() }
}

/// Whether tasks of a tree wait in the merge queue: another run has put them there, and they land only once.
fn has_queued(place: &Place, tree: &TaskTree, target: &BranchName) -> Result<bool, Failure> {
    let queue = MergeQueue::read(&place.repo, target).map_err(|error| of_queue(&error))?;
    let is_own = |entry: &QueueEntry| entry.task.as_ref().is_some_and(|task| tree.is_leaf(task));
    Ok(queue.entries().iter().any(is_own))
}

/// What the branches of tasks carry.
pub(super) fn commits(config: &Config) -> Commits {
    match config.commits {
        CommitGranularity::Steps => Commits::Steps,
        CommitGranularity::Turns => Commits::Turns,
    }
}

/// The test of tasks without one of their own.
pub(super) fn test_command(config: &Config) -> Option<TestCommand> {
    let command = config.test_of_work()?.to_owned();
    Some(TestCommand { kind: TestKind::Unit, command, framework: None, timeout: None })
}

/// What gets its own branch, and how many tasks are worked at once. Several at once need branches of their own.
fn jobs(args: &TreeArgs, settings: &Settings) -> Result<(Isolation, usize), Failure> {
    let tree = &settings.resolved.config.tree;
    let is_chosen = settings.resolved.provenance.contains_key("tree.isolation");
    let several = args.jobs.is_some_and(|jobs| jobs > 1);
    match tree.isolation {
        Isolation::Task => Ok((Isolation::Task, tree.jobs as usize)),
        Isolation::None if several && !is_chosen => Ok((Isolation::Task, tree.jobs as usize)),
        other if several => {
            let message = format!(
                "--jobs {} works several tasks at once, which `isolation: {}` does not",
                tree.jobs,
                other.as_str()
            );
            Err(Failure::new(Code::CommandLine, message).hint("use --isolation task, or leave --jobs out"))
        }
        other => Ok((other, 1)),
    }
}

/// The options for attempts, gates and branches.
pub fn limits(config: &Config) -> ScheduleOptions {
    let tree = &config.tree;
    ScheduleOptions {
        max_retries: tree.max_retries,
        isolation: tree.isolation,
        early_stop: tree.early_stop,
        ..ScheduleOptions::default()
    }
}

/// The directory beside the tree, or the usual one when the tree is not committed.
fn own_directory(file: &TreeFile) -> String {
    match (file.tracked, file.name.file().and_then(|path| path.rsplit_once('/'))) {
        (true, Some((dir, _))) => format!("{dir}/"),
        (true, None) => String::new(),
        (false, _) => "spec/".to_owned(),
    }
}

/// A configured directory, from the root of the repository.
fn in_repo(dir: Option<&Path>, root: Option<&Path>, key: &str) -> Result<Option<String>, Failure> {
    let Some(dir) = dir else { return Ok(None) };
    let root = root.and_then(|root| root.canonicalize().ok());
    let absolute = |dir: &Path| {
        // What does not exist yet is where its nearest parent that does is.
        let there = dir.ancestors().find(|above| above.exists())?;
        Some(there.canonicalize().ok()?.join(dir.strip_prefix(there).ok()?))
    };
    let below = if dir.is_absolute() {
        absolute(dir).zip(root).and_then(|(dir, root)| dir.strip_prefix(root).map(Path::to_owned).ok())
    } else {
        Some(dir.to_owned())
    };
    let plain = |dir: PathBuf| -> Option<PathBuf> {
        let parts = dir.components().filter(|part| *part != Component::CurDir).map(|part| match part {
            Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => Some(name),
            _ => None,
        });
        parts.collect()
    };
    let flag = key.replace('_', "-");
    let below = below.and_then(plain).ok_or_else(|| {
        Failure::new(Code::LogDirectory, format!("`tree.{key}` must be a directory inside the repository"))
            .hint(format!("`{}` is not; name another with `--{flag} DIR`", dir.display()))
    })?;
    if below.as_os_str().is_empty() {
        return Err(Failure::new(
            Code::LogDirectory,
            format!("`tree.{key}` cannot be the root of the repository itself"),
        )
        .hint(format!("name a directory below it with `--{flag} DIR`")));
    }
    in_commits(&below, key).map(Some)
}

/// A configured directory as steps name the files that lie there.
fn in_commits(dir: &Path, key: &str) -> Result<String, Failure> {
    name_in_commits(dir).map_err(|why| {
        Failure::new(Code::LogDirectory, format!("a commit message cannot hold paths in {dir:?} (`tree.{key}`): {why}"))
            .hint(format!("name another with `--{} DIR`", key.replace('_', "-")))
    })
}

/// The files of the branch everything lands on.
fn target_tree(place: &Place, target: &BranchName) -> Result<TreeId, Failure> {
    let tip = place.repo.refs().find(&branch_ref(target)).map_err(|error| of_git(&error))?;
    let tip = tip.ok_or_else(|| of_tree(&tree::Error::NoTarget(target.clone())))?;
    place.repo.tree_of(tip).map_err(|error| of_git(&error))
}

/// Whether the logs, or the reports, of this directory are committed.
fn is_committed(setting: CommitLogs, place: &Place, target: &BranchName, dir: &str) -> Result<bool, Failure> {
    match setting {
        CommitLogs::Always => Ok(true),
        CommitLogs::Never => Ok(false),
        CommitLogs::Auto => {
            let tree = target_tree(place, target)?;
            let found = place.repo.tree_entry(tree, &RepoPath::from(dir)).map_err(|error| of_git(&error))?;
            Ok(found.is_some_and(|found| found.kind == EntryKind::Directory))
        }
    }
}

/// Refuses a plan whose logs or reports would be committed where the target has something else.
fn check_directories(plan: &TreePlan, place: &Place) -> Result<(), Failure> {
    let tree = target_tree(place, &plan.target)?;
    let directories = [
        ("logs", &plan.logs, "log_dir", plan.commit_logs),
        ("reports", &plan.reports, "report_dir", plan.commit_reports),
    ];
    for (what, dir, key, is_committed) in directories {
        let found = place.repo.no_directory(tree, &RepoPath::from(dir.as_str())).map_err(|error| of_git(&error))?;
        let Some(found) = found.filter(|_| is_committed) else { continue };
        let kind = match found.kind {
            EntryKind::Link => "a link",
            EntryKind::Submodule => "a submodule",
            _ => "a file",
        };
        let message = format!("{what} cannot go to `{dir}`: `{}` is {kind} on `{}`", found.path, plan.target);
        return Err(Failure::new(Code::LogDirectory, message).hint(format!(
            "name another directory with `--{} DIR` or `tree.{key}` in pleach.yaml, or set `tree.commit_logs: false` \
             there",
            key.replace('_', "-")
        )));
    }
    Ok(())
}

/// The agent and the model a task itself names, which go before those of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnWorker {
    pub agent: Option<String>,
    pub model: Option<String>,
}

/// The pipeline of tasks that name none. One that was named on the command line may be any file.
pub(super) fn default_pipeline(
    globals: &Globals,
    is_given: bool,
    config: &Config,
    own: &OwnWorker,
) -> Result<TaskPipeline, Failure> {
    let read = if is_given { PipelineFile::read_given } else { PipelineFile::read };
    match &config.tree.pipeline {
        Some(path) => for_tasks(read(path, &globals.path(path))?, config, own),
        None => with_steps(config, own, TASK_PIPELINE.to_owned(), "task.dot".into(), BTreeMap::new()),
    }
}

/// The pipelines the tasks of a tree name, each read once: two tasks that name the same are worked by the same.
fn named_pipelines(
    tree: &TaskTree,
    mut read: impl FnMut(&str) -> Result<TaskPipeline, Failure>,
) -> Result<BTreeMap<String, TaskPipeline>, Failure> {
    let mut pipelines = BTreeMap::new();
    for node in tree.nodes().filter(|node| node.is_leaf()) {
        let Some(name) = node.pipeline.as_ref().filter(|name| !pipelines.contains_key(*name)) else { continue };
        let read = read(name).map_err(|failure| {
            let message = format!("the pipeline of {}: {}", node.id, failure.message);
            Failure { message, ..failure }
        })?;
        pipelines.insert(name.clone(), TaskPipeline { path: name.clone(), ..read });
    }
    Ok(pipelines)
}

/// A task pipeline of the user's own. It must be fit for one pass: without circles, and with a step.
pub(super) fn for_tasks(file: PipelineFile, config: &Config, own: &OwnWorker) -> Result<TaskPipeline, Failure> {
    let (pipeline, mut found) = plan::validate(&file.source, &file.inputs(placeholder_values()), &known(config));
    found.extend(pipeline.iter().flat_map(lint::unsupported));
    // For anything but tasks it may be a good one.
    let as_such = pipeline.iter().flat_map(lint::task_pipeline).map(|found| (found, false));
    let error = found.into_iter().map(|found| (found, true)).chain(as_such).find(|(found, _)| found.is_error());
    if let Some((error, is_validated)) = error {
        return Err(unusable(&file.name, &error.message).hint(if is_validated {
            format!("`pleach validate {}` shows more", shell_word(&file.name))
        } else {
            "the pipeline of a task has no cycle, at least one node with `step=`, and each step \
         once"
                .to_owned()
        }));
    }
    with_steps(config, own, file.source, file.name, file.files)
}

/// Placeholders for the values of a task, where there is no task yet.
fn placeholder_values() -> BTreeMap<String, String> {
    plan::OF_TASKS.map(|key| (key.to_owned(), String::new())).into()
}

fn unusable(pipeline: &str, why: &str) -> Failure {
    Failure::new(Code::TaskPipelineInvalid, format!("the pipeline `{pipeline}` cannot be used for tasks: {why}"))
}

/// Gives the nodes of agents what the task names, and the steps among them the agents, models and limits the
/// configuration names, where the pipeline does not.
fn with_steps(
    config: &Config,
    own: &OwnWorker,
    dot: String,
    path: String,
    files: BTreeMap<String, String>,
) -> Result<TaskPipeline, Failure> {
    let inputs = plan::Inputs { files, values: placeholder_values() };
    let (pipeline, _) = plan::load(&dot, &inputs, &[]);
    let mut statements = String::new();
    let [agent, llm_model, timeout] = STEP_ATTRIBUTES;
    for node in pipeline.iter().flat_map(|pipeline| pipeline.nodes()) {
        if node.handler != HandlerKind::Codergen {
            continue;
        }
        let settings = node.step.as_ref().and_then(|step| config.tree.steps.get(step));
        let runner = settings.and_then(|step| step.runner.as_ref()).map(ToString::to_string);
        let named = settings.and_then(|step| step.model.clone());
        let mut attrs = Vec::new();
        let mut put = |key: &str, value: String| attrs.push(format!("{key}={}", print::quote(&value)));
        if let (None, Some(runner)) = (&node.agent, own.agent.clone().or(runner)) {
            put(agent, runner);
        }
        if let (None, Some(model)) = (&node.llm_model, own.model.clone().or(named)) {
            put(llm_model, model);
        }
        if let (None, Some(seconds), true) = (node.timeout, config.tree.runner_timeout, node.step.is_some()) {
            put(timeout, format!("{seconds}s"));
        }
        if !attrs.is_empty() {
            statements.push_str(&format!("    {} [{}]\n", node.id, attrs.join(", ")));
        }
    }
    if statements.is_empty() {
        return Ok(TaskPipeline { dot, path, files: inputs.files });
    }
    let end = plan::dot::parse(&dot).0.close.map_or(dot.len(), |brace| brace.start);
    let dot = format!("{}{statements}{}", &dot[..end], &dot[end..]);
    // What is wrong with them is told now, before the run has written anything.
    let (_, found) = plan::load_for_tasks(&dot, &inputs);
    match found.iter().find(|found| found.is_error()) {
        None => Ok(TaskPipeline { dot, path, files: inputs.files }),
        Some(error) => Err(unusable(&path, &error.message)
            .hint("look at `tree.steps` and `tree.runner_timeout` in pleach.yaml, and at --model")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_several_tasks_name_is_read_once() {
        let tree = r#"{"nodes": {"A": {"id": "A", "name": "a", "pipeline": "x.dot"}, "B": {"id": "B", "name": "b"},
            "C": {"id": "C", "name": "c", "pipeline": "x.dot"}, "D": {"id": "D", "name": "d", "pipeline": "y.dot"}}}"#;
        let mut read = Vec::new();
        let pipelines = named_pipelines(&TaskTree::read(tree).expect("a tree"), |name| {
            read.push(name.to_owned());
            Ok(TaskPipeline { dot: String::new(), path: String::new(), files: BTreeMap::new() })
        });
        assert_eq!(read, ["x.dot", "y.dot"]);
        assert_eq!(pipelines.expect("both can be read").into_keys().collect::<Vec<_>>(), read);
    }
}
