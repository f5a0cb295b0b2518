//! The run over a tree: who may work it, and what is asked first.

use std::borrow::Borrow;
use std::path::PathBuf;
use std::sync::Arc;

use pleach::agent::Roster;
use pleach::config::AgentChoice;
use pleach::engine::tree::progress::ProgressReader;
use pleach::engine::tree::{
    self, OpenSession, PendingTrust, TreeClaim, TreeOutcome, TreePlan, TreeRun, as_merged_now, open_sessions,
    restart_warnings,
};
use pleach::engine::{AgreesToAll, Copy, Engine, Truster, WorktreeOwner, wait_for_orphans};
use pleach::event::Notification;
use pleach::ids::TaskId;
use pleach::plan::pipeline::{Node, Pipeline};
use pleach::process::sandbox::SandboxChoice;
use pleach::progress::{Progress, TaskStatus};
use pleach::step::shown_name;

use super::commands::PlanCommands;
use super::find::find;
use super::outcome;
use super::plan::{Tasks, TreeArgs, check_directories, load_settings, make, target};
use super::progress::TreeProgress;
use crate::answers::Answers;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_lost_repository, of_tree, of_trust};
use crate::preflight::{
    any_unproxied, check_agents, check_answers, check_prices, warn_of_dirty_files, warn_of_skipped,
};
use crate::render::tree::{next, next_words};
use crate::render::{Out, show_git_progress};
use crate::runtime::{block_on, wait_for};
use crate::say;
use crate::session::{Place, Protection, build, print_agents, warn_unmetered};
use crate::settings::Settings;
use crate::survey::orphans::repair_worktrees;
use crate::trust::TerminalTruster;

/// Works a tree, once everything it would run is approved.
pub fn work(globals: &Globals, args: &TreeArgs, tasks: Tasks) -> Result<Exit, Failure> {
    run_tree(globals, args, &tasks, false)
}

/// Works a tree that comes with pleach, which needs no approval.
pub fn work_trusted(globals: &Globals, args: &TreeArgs, tasks: Tasks) -> Result<Exit, Failure> {
    run_tree(globals, args, &tasks, true)
}

fn run_tree(globals: &Globals, args: &TreeArgs, tasks: &Tasks, is_trusted: bool) -> Result<Exit, Failure> {
    let answers = args.answers.read(globals)?;
    let target_repo = args.target_repo.as_ref().map(|path| globals.path(path));
    let dir = target_repo.clone().unwrap_or_else(|| globals.dir.clone());
    let settings = load_settings(globals, &dir, args)?;
    let place = Place::find(&dir, target_repo, &settings)?;
    let file = find(args.tree.as_deref(), &globals.dir, &place.repo)?;
    let plan = make(globals, args, tasks, &settings, &place, file, target(&place)?)?;
    check_directories(&plan, &place)?;
    let site = RunSite::new(globals, (dir, settings, place), answers, is_trusted);
    if args.dry_run {
        // What would be done can be shown without anybody who does it.
        site.check_answers(&plan)?;
        return dry_run(globals, &site.place, &plan);
    }
    site.work(plan, None)
}

/// The setting of a run over a tree: directory, settings, truster.
pub struct RunSite<'a> {
    globals: &'a Globals,
    /// Asks for approval of what is run.
    truster: Box<dyn Truster<Failure>>,
    /// Where it is worked.
    dir: PathBuf,
    pub settings: Settings,
    pub place: Place,
    answers: Answers,
}

impl<'a> RunSite<'a> {
    /// A run in a directory. Nobody is asked about what is trusted.
    pub fn new(
        globals: &'a Globals,
        (dir, settings, place): (PathBuf, Settings, Place),
        answers: Answers,
        is_trusted: bool,
    ) -> Self {
        let truster: Box<dyn Truster<Failure>> = match is_trusted {
            true => Box::new(AgreesToAll),
            false => Box::new(TerminalTruster::of(globals, &settings, place.repo.common_dir())),
        };
        Self { globals, truster, dir, settings, place, answers }
    }

    /// Works a plan, with what was claimed for it; by default with its target.
    pub fn work(&self, plan: TreePlan, claim: Option<TreeClaim>) -> Result<Exit, Failure> {
        let (globals, repo, plan) = (self.globals, &self.place.repo, Arc::new(plan));
        require_agent(&self.settings, plan.used_pipelines())?;
        plan.refuse_secrets(&self.settings.redactor()).map_err(|error| of_tree(&error))?;
        self.check_answers(&plan)?;
        let built = build(globals, &self.settings, &self.settings.resolved.config, self.answers.clone())?;
        show_git_progress(globals, repo);
        let is_own =
            |owner: &WorktreeOwner| matches!(owner, WorktreeOwner::Tasks { target, .. } if *target == plan.target);
        repair_worktrees(repo, &self.settings, is_own);
        wait_for_orphans(repo, Copy::OfTasks(&plan.target), |text| say!("{text}"));
        // Nothing is run before everything is approved. Only who has the tasks knows what all of it is.
        let claim = claim.map_or_else(|| TreeClaim::of_target(repo, &plan.target), Ok);
        let opened = claim.and_then(|claim| tree::open(built.engine.clone(), repo.clone(), Arc::clone(&plan), claim));
        let (run, brought) = opened.map_err(|error| self.failed(&plan, &error))?;
        wait_for(self.agree(&run, &brought))?;
        warn_of_dirty_files(globals, &self.place)?;
        warn_of_skipped(globals, repo, &self.settings)?;
        let mut shown = TreeProgress::new(globals, &plan);
        check_agents_of(&plan, &built.engine.agents)?;
        let stopped_by = built.stopped_by();
        let run = self.run((&plan, run, brought.left), built.engine, &built.protection, &mut shown);
        let TreeOutcome { ends, errors } = block_on(stopped_by, run)?;
        let failures = errors.iter().map(|error| self.failed(&plan, error)).collect();
        outcome::print_outcome(globals, (&self.dir, repo), &plan, &ends, failures)
    }

    /// Refuses answers to gates there are not.
    fn check_answers(&self, plan: &TreePlan) -> Result<(), Failure> {
        let asking = self.pipelines_with_gates(plan)?;
        check_answers(&asking.iter().collect::<Vec<_>>(), Some(&plan.tree), &self.answers)
    }

    /// The pipelines whose gates may be answered: those of a plan, and those of sessions a run could continue with.
    fn pipelines_with_gates(&self, plan: &TreePlan) -> Result<Vec<Pipeline>, Failure> {
        let mut asking: Vec<Pipeline> = plan.used_pipelines().collect();
        if !self.answers.named.is_empty() && !plan.fresh {
            let left = open_sessions(&self.place.repo, &plan.target, &plan.name).map_err(|error| of_tree(&error))?;
            let own = left.into_iter().filter(|left| plan.tree.node(&left.task).is_some());
            asking.extend(own.map(|left| left.pipeline));
        }
        Ok(asking)
    }

    /// Asks for approval of everything a run would do, by its plan and by fetched sessions.
    async fn agree(&self, run: &TreeRun, brought: &PendingTrust) -> Result<(), Failure> {
        for OpenSession { session, task, pipeline, .. } in &brought.left {
            require_agent(&self.settings, [pipeline]).map_err(|failure| {
                failure.hint(format!("{task} was started with it; `pleach cancel {session}` to restart the task"))
            })?;
        }
        let items = tree::to_trust(run, &self.settings.resolved, &self.settings.environment, brought);
        self.truster.agree(items.map_err(|error| of_trust(&error))?).await
    }

    /// Works a plan to its end.
    async fn run(
        &self,
        (plan, mut run, left): (&TreePlan, TreeRun, Vec<OpenSession>),
        engine: Arc<Engine>,
        protection: &SandboxChoice,
        shown: &mut TreeProgress,
    ) -> Result<TreeOutcome, Failure> {
        let left: Vec<Pipeline> = left.into_iter().map(|left| left.pipeline).collect();
        print_agents(self.globals, &engine, workers(plan).iter().chain(left.iter().flat_map(Pipeline::agent_nodes)))
            .await;
        check_prices(&engine, plan.used_pipelines().chain(left.iter().cloned()))?;
        warn_unmetered(engine.unmetered(plan.used_pipelines().chain(left.iter().cloned())));
        let nothing = Progress::default();
        let progress = if plan.fresh { &nothing } else { run.progress() };
        let mut told = engine.events.subscribe();
        let changes = tree::changes(&run);
        std::iter::from_fn(|| told.next_now()).for_each(|told| shown.event(plan, &told));
        drop(told);
        shown.begin(plan, progress, &changes);
        let alone = plan.used_pipelines().chain(left).any(|pipeline| any_unproxied(&pipeline, &engine.agents));
        let protection = Protection { chosen: protection, alone, simulated: false };
        let mut hear = |told: &Notification| {
            protection.hear(self.globals, &told.recorded.event);
            shown.event(plan, told);
        };
        let mut outcome = TreeOutcome::default();
        loop {
            let ended;
            (run, ended) = tree::spawn(run).follow(&mut hear).await;
            ended.ends.into_iter().for_each(|ended| outcome.add(ended));
            outcome.errors.extend(ended.errors);
            if !outcome.take_unasked() || !outcome.errors.is_empty() {
                break;
            }
            let brought = tree::pending_trust(&mut run).map_err(|error| self.failed(plan, &error))?;
            self.agree(&run, &brought).await?;
        }
        shown.finish();
        Ok(outcome)
    }

    fn failed(&self, plan: &TreePlan, error: &tree::Error) -> Failure {
        let repo = &self.place.repo;
        let commands = PlanCommands { globals: self.globals, dir: &self.dir, plan };
        let failure = of_tree(error).reworded(|text| commands.with_location(text));
        match repo.is_gone() {
            true => of_lost_repository(failure, repo.common_dir(), None),
            false => failure,
        }
    }
}

/// Looks for the agents of all nodes of a plan.
fn check_agents_of(plan: &TreePlan, agents: &Roster) -> Result<(), Failure> {
    plan.used_pipelines().try_for_each(|pipeline| check_agents(&pipeline, agents))
}

/// The nodes agents work on, in all pipelines of a plan.
fn workers(plan: &TreePlan) -> Vec<Node> {
    plan.used_pipelines().flat_map(|pipeline| pipeline.agent_nodes().cloned().collect::<Vec<_>>()).collect()
}

/// A tree never uses the simulation agent.
fn require_agent<P: Borrow<Pipeline>>(
    settings: &Settings,
    pipelines: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    let config = &settings.resolved.config;
    let pretends = |name: Option<&str>| config.agent_of(name).is_ok_and(|choice| choice == AgentChoice::Simulation);
    for pipeline in pipelines {
        let Some(node) = pipeline.borrow().agent_nodes().find(|node| pretends(node.agent.as_deref())) else { continue };
        // Whoever works the run would work the node as well, were it not for the name.
        return Err(match &node.agent {
            Some(name) if !pretends(None) => {
                let step = node.step.as_ref().filter(|step| config.tree.steps.contains_key(*step));
                let whose = match step {
                    Some(step) => format!("`tree.steps.{step}.runner`, or `agent` of the node `{}`", node.id),
                    None => format!("`agent` of the node `{}`", node.id),
                };
                let message = format!(
                    "`{}` would be worked by `{name}`, and task trees cannot use the simulation agent",
                    node.id
                );
                Failure::new(Code::NoAgent, message).hint(format!("name another agent in {whose}"))
            }
            _ => Failure::new(Code::NoAgent, "no agent is configured, and task trees cannot use the simulation agent")
                .hint("set `agent:` in pleach.yaml, or name one with --runner, as in --runner 'command:./my-agent'"),
        });
    }
    Ok(())
}

/// The first action, and the order of the rest.
fn dry_run(globals: &Globals, place: &Place, plan: &TreePlan) -> Result<Exit, Failure> {
    let mut reader = ProgressReader::new(&place.repo, &plan.target, &plan.branch_prefix, plan.base_branch.as_ref());
    let mut progress = plan.progress(&mut reader).map_err(|error| of_tree(&error.into()))?;
    if plan.fresh {
        restart_warnings(&progress).iter().for_each(say::warn);
        // A tree that is started again has nothing after it.
        progress = progress.anew();
    }
    let (repo, tree) = (&place.repo, (&plan.tree, &plan.limits));
    let progress = as_merged_now(repo, tree, &plan.target, &plan.branch_prefix, progress).map_err(|e| of_tree(&e))?;
    let next = next(&plan.tree, &progress, &plan.limits);
    let next = next_words(&next, plan.limits.only.as_ref());
    let mut out = Out::new();
    // Another budget is for the task that was asked for, or for all.
    let retried = |task: &TaskId| plan.limits.retry_failed && plan.limits.only.as_ref().is_none_or(|only| only == task);
    let is_left = |task: &&TaskId| match progress.task(task).status {
        TaskStatus::Failed => retried(task),
        status => !status.is_over(),
    };
    let left: Vec<&TaskId> = plan.tree.order().iter().filter(is_left).collect();
    if globals.json {
        out.json(&serde_json::json!({
            "tree": plan.name.file(), "target": plan.target, "next": next, "left": left,
        }))?;
        return Ok(Exit::Done);
    }
    out.line(format!("would work {} on branch `{}`", plan.name, plan.target))?;
    out.line(format!("next: {next}"))?;
    for task in left {
        let name = plan.tree.node(task).map(|node| shown_name(&node.name)).unwrap_or_default();
        out.line(format!("  {task} {name}"))?;
    }
    Ok(Exit::Done)
}
