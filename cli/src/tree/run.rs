//! The run over a tree: who may work it, and what is asked first.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agents::agent::Roster;
use engine::env::{AgreesToAll, Copy, Engine, Truster, wait_for_orphans};
use engine::keep::WorktreeOwner;
use engine::tree::progress::ProgressReader;
use engine::tree::{
    self, OpenSession, PendingTrust, TreeClaim, TreePlan, TreeRun, as_merged_now, open_sessions, restart_warnings,
};
use engine::trust::TrustItem;
use git::workspace::branch_ref;
use os::process::sandbox::SandboxChoice;
use pleach_core::config::{AgentChoice, InvalidAgent};
use pleach_core::event::Notification;
use pleach_core::ids::{RepoName, TaskId};
use pleach_core::plan::pipeline::{Node, Pipeline};
use pleach_core::progress::{Progress, TaskStatus};
use pleach_core::step::{TreeName, shown_name};
use pleach_core::text::listed;
use serde_json::json;

use super::commands::PlanCommands;
use super::find::find;
use super::outcome;
use super::plan::{PlannedRepo, Tasks, TreeArgs, load_settings, make};
use super::progress::TreeProgress;
use super::repos::first_next;
use super::several::{SeveralEnded, SeveralRuns};
use crate::answers::Answers;
use crate::attribution_notes::BranchesBefore;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_lost_repository, of_tree, of_trust};
use crate::place::{Place, Places};
use crate::preflight::{
    any_unproxied, check_agents, check_answers, check_prices, warn_of_dirty_files, warn_of_red_target, warn_of_skipped,
};
use crate::remotes::require_related;
use crate::render::tree::{next, next_words};
use crate::render::{Out, show_git_progress};
use crate::runtime::{block_on, wait_for};
use crate::say;
use crate::session::{Protection, build, print_agents, warn_unmetered};
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
    let settings = load_settings(globals, &dir, args)?.deepening(!args.dry_run);
    let place = Place::find(&dir, target_repo, &settings)?;
    let file = find(args.tree.as_deref(), &globals.dir, &place.repo)?;
    let planned = make(globals, args, tasks, &settings, &place, file)?;
    let site = RunSite::new(globals, dir, settings, place, answers, is_trusted);
    if args.dry_run {
        // What would be done can be shown without anybody who does it.
        site.check_answers(&planned)?;
        return dry_run(globals, &planned);
    }
    site.work(&planned, None)
}

/// The setting of a run over a tree: directory, settings, truster.
pub struct RunSite<'a> {
    pub globals: &'a Globals,
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
        dir: PathBuf,
        settings: Settings,
        place: Place,
        answers: Answers,
        is_trusted: bool,
    ) -> Self {
        let truster: Box<dyn Truster<Failure>> = if is_trusted {
            Box::new(AgreesToAll)
        } else {
            Box::new(TerminalTruster::of(globals, &settings, place.repo.common_dir()))
        };
        Self { globals, truster, dir, settings, place, answers }
    }

    /// Works plans of one tree in their repositories, with what was claimed for the only one; by default with their
    /// targets.
    pub fn work(&self, planned: &[PlannedRepo], claim: Option<TreeClaim>) -> Result<Exit, Failure> {
        let globals = self.globals;
        // They differ in where they are worked, and not in what is done.
        let plan = &planned.first().expect("a tree has something to do somewhere").plan;
        require_agent(&self.settings, &plan.name, plan.used_pipelines())?;
        plan.refuse_secrets(&self.settings.redactor()).map_err(|error| of_tree(&error))?;
        self.check_answers(planned)?;
        let built = build(globals, &self.settings, &self.settings.resolved.config, self.answers.clone())?;
        let others = planned[1..].iter().map(|planned_repo| planned_repo.place.clone()).collect();
        let places = Places { others, ..Places::one(planned[0].place.clone()) };
        places.all().for_each(|place| show_git_progress(globals, &place.repo));
        let is_own = |owner: &WorktreeOwner| match owner {
            WorktreeOwner::Tasks { target, .. } => {
                planned.iter().any(|planned_repo| planned_repo.plan.target == *target)
            }
            _ => false,
        };
        repair_worktrees(&places, &self.settings, is_own);
        for PlannedRepo { place, plan } in planned {
            wait_for_orphans(&place.repo, Copy::OfTasks(&plan.target), |text| say!("{text}"));
        }
        // Nothing is run before everything is approved. Only who has the tasks knows what all of it is.
        let (mut runs, mut left) = (Vec::new(), Vec::new());
        let mut claim = claim;
        for planned_repo in planned {
            let repo = &planned_repo.place.repo;
            let claim = claim.take().map_or_else(|| TreeClaim::of_target(repo, &planned_repo.plan.target), Ok);
            let opened = claim.and_then(|claim| {
                tree::open(built.engine.clone(), repo.clone(), Arc::clone(&planned_repo.plan), claim)
            });
            let (run, brought) = opened.map_err(|error| self.failed(planned_repo, &error))?;
            wait_for(self.agree(planned_repo, &run, &brought))?;
            runs.push(run);
            left.extend(brought.left);
        }
        places.all().try_for_each(|place| require_related(&self.settings, place))?;
        warn_of_dirty_files(globals, &places)?;
        for PlannedRepo { place, plan } in planned {
            let tip = place.repo.refs().find(&branch_ref(&plan.target)).map_err(|error| of_git(&error))?;
            if let (Some(tip), Some(test)) = (tip, &plan.test) {
                warn_of_red_target(&self.settings, place, &plan.target, tip, &test.command);
            }
        }
        places.all().try_for_each(|place| warn_of_skipped(globals, &place.repo, &self.settings))?;
        let before = BranchesBefore::look(&self.settings.resolved.config, places.all());
        let mut shown = TreeProgress::new(globals, plan);
        check_agents_of(plan, &built.engine.agents)?;
        let stopped_by = built.stopped_by();
        let run = self.run(planned, runs, left, built.engine, &built.protection, &mut shown);
        let ended = block_on(stopped_by, run)?;
        before.write_notes(&places.record.repo);
        let failures = ended.errors.iter().map(|(index, error)| self.failed(&planned[*index], error)).collect();
        let ends: Vec<_> = ended.ends.iter().map(|(index, ended)| (&planned[*index], ended)).collect();
        outcome::print_outcome(globals, &self.dir, ends, failures)
    }

    /// Refuses answers to gates there are not.
    fn check_answers(&self, planned: &[PlannedRepo]) -> Result<(), Failure> {
        let asking = self.pipelines_with_gates(planned)?;
        check_answers(
            &asking.iter().collect::<Vec<_>>(),
            planned.first().map(|planned_repo| &*planned_repo.plan.tree),
            &self.answers,
        )
    }

    /// The pipelines whose gates may be answered: those of a plan, and those of sessions a run could continue with.
    fn pipelines_with_gates(&self, planned: &[PlannedRepo]) -> Result<Vec<Pipeline>, Failure> {
        let mut asking: Vec<Pipeline> =
            planned.iter().take(1).flat_map(|planned_repo| planned_repo.plan.used_pipelines()).collect();
        for PlannedRepo { place, plan } in planned.iter().filter(|_| !self.answers.named.is_empty()) {
            if plan.fresh {
                continue;
            }
            let left = open_sessions(&place.repo, &plan.target, &plan.name).map_err(|error| of_tree(&error))?;
            let own = left.into_iter().filter(|left| plan.tree.node(&left.task).is_some());
            asking.extend(own.map(|left| left.pipeline));
        }
        Ok(asking)
    }

    /// Asks for approval of everything a run would do, by its plan and by fetched sessions.
    async fn agree(&self, planned_repo: &PlannedRepo, run: &TreeRun, brought: &PendingTrust) -> Result<(), Failure> {
        let PlannedRepo { place, plan } = planned_repo;
        for OpenSession { session, task, pipeline, .. } in &brought.left {
            require_agent(&self.settings, &plan.name, [pipeline]).map_err(|failure| {
                failure.hint(format!("{task} was started with it; `pleach cancel {session}` to restart the task"))
            })?;
        }
        let items = tree::to_trust(run, &self.settings.resolved, &self.settings.environment, brought);
        let items = items.map_err(|error| of_trust(&error))?;
        let is_own = place.repo.common_dir() == self.place.repo.common_dir();
        let items = if is_own { items } else { items.into_iter().map(TrustItem::elsewhere).collect() };
        self.truster.agree(items).await
    }

    /// Works plans to their end.
    async fn run(
        &self,
        planned: &[PlannedRepo],
        runs: Vec<TreeRun>,
        left: Vec<OpenSession>,
        engine: Arc<Engine>,
        protection: &SandboxChoice,
        shown: &mut TreeProgress,
    ) -> Result<SeveralEnded, Failure> {
        let plan = &planned[0].plan;
        let left: Vec<Pipeline> = left.into_iter().map(|left| left.pipeline).collect();
        print_agents(self.globals, &engine, workers(plan).iter().chain(left.iter().flat_map(Pipeline::agent_nodes)))
            .await;
        check_prices(&engine, plan.used_pipelines().chain(left.iter().cloned()))?;
        warn_unmetered(engine.unmetered(plan.used_pipelines().chain(left.iter().cloned())));
        let nothing = Progress::default();
        let progress = if plan.fresh { &nothing } else { runs[0].progress() };
        let mut events = engine.events.subscribe();
        let changes = tree::changes(&runs[0]);
        std::iter::from_fn(|| events.next_now()).for_each(|notification| shown.event(plan, &notification));
        drop(events);
        shown.begin(plan, progress, &changes);
        let alone = plan.used_pipelines().chain(left).any(|pipeline| any_unproxied(&pipeline, &engine.agents));
        let protection = Protection { chosen: protection, alone, simulated: false };
        let mut hear = |notification: &Notification| {
            protection.hear(self.globals, &notification.recorded.event);
            shown.event(plan, notification);
        };
        let several = SeveralRuns::new(plan, runs);
        let ended = several.work(&mut hear, async |index, run| self.ask_again(&planned[index], run).await).await?;
        shown.finish();
        Ok(ended)
    }

    /// Asks for approval of what a run has come upon meanwhile.
    async fn ask_again(&self, planned_repo: &PlannedRepo, run: &mut TreeRun) -> Result<(), Failure> {
        let brought = tree::pending_trust(run).map_err(|error| self.failed(planned_repo, &error))?;
        self.agree(planned_repo, run, &brought).await
    }

    fn failed(&self, PlannedRepo { place, plan }: &PlannedRepo, error: &tree::Error) -> Failure {
        let commands = PlanCommands { globals: self.globals, dir: &self.dir, plan };
        let failure = of_tree(error).reworded(|text| commands.with_location(text));
        if place.repo.is_gone() { of_lost_repository(failure, place.repo.common_dir(), None) } else { failure }
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

/// Tasks are never simulated.
fn require_agent<P: Borrow<Pipeline>>(
    settings: &Settings,
    name: &TreeName,
    pipelines: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    let config = &settings.resolved.config;
    let pretends =
        |name: Option<&str>| matches!(config.agent_of(name), Ok(AgentChoice::Simulation) | Err(InvalidAgent::Unset));
    let (work, how) = match name {
        TreeName::Tasks => ("tasks", "`pleach task new --agent` gives a task its own"),
        _ => ("task trees", "name one with --runner, as in --runner 'command:./my-agent'"),
    };
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
                let message =
                    format!("`{}` would be worked by `{name}`, and {work} cannot use the simulation agent", node.id);
                Failure::new(Code::NoAgent, message).hint(format!("name another agent in {whose}"))
            }
            _ => {
                let message = format!("no agent is configured, and {work} cannot use the simulation agent");
                Failure::new(Code::NoAgent, message).hint(format!("set `agent:` in pleach.yaml; or {how}"))
            }
        });
    }
    Ok(())
}

/// What is done first, and the order of the rest.
fn dry_run(globals: &Globals, planned: &[PlannedRepo]) -> Result<Exit, Failure> {
    let plan = &planned[0].plan;
    let mut read = Vec::new();
    for PlannedRepo { place, plan } in planned {
        let mut reader = ProgressReader::new(&place.repo, &plan.target, &plan.branch_prefix, plan.base_branch.as_ref());
        let mut progress = plan.progress(&mut reader).map_err(|error| of_tree(&error.into()))?;
        if plan.fresh {
            restart_warnings(&progress).iter().for_each(say::warn);
            // A tree that is started again has nothing after it.
            progress = progress.anew();
        }
        let (repo, prefix) = (&place.repo, &plan.branch_prefix);
        let merged = as_merged_now(repo, &plan.tree, &plan.limits, &plan.target, prefix, progress);
        read.push((plan, merged.map_err(|error| of_tree(&error))?));
    }
    let others: BTreeMap<RepoName, Progress> =
        read.iter().map(|(plan, progress)| (plan.repo_name.clone(), progress.clone())).collect();
    let seen: Vec<_> = read.into_iter().map(|(plan, own)| (plan, plan.beside_others(own, &others))).collect();
    let nexts = seen.iter().map(|(plan, own)| next(&plan.tree, own, &plan.limits));
    let next = next_words(&first_next(&plan.tree, nexts), plan.limits.only.as_ref());
    let mut out = Out::new();
    let progress = &seen[0].1;
    // Another budget is for the task that was asked for, or for all.
    let retried = |task: &TaskId| plan.limits.retry_failed && plan.limits.only.as_ref().is_none_or(|only| only == task);
    let is_left = |task: &&TaskId| match progress.task(task).status {
        TaskStatus::Failed => retried(task),
        status => !status.is_over(),
    };
    let left: Vec<&TaskId> = plan.tree.order().iter().filter(is_left).collect();
    let repo_of = |task: &TaskId| plan.repos.as_ref().map(|repos| repos.nodes.of(task).clone());
    if globals.json {
        let mut document = json!({"tree": plan.name.file(), "target": plan.target, "next": next, "left": left});
        if plan.repos.is_some() {
            document["targets"] = planned
                .iter()
                .map(|planned_repo| (planned_repo.place.name.to_string(), json!(planned_repo.plan.target)))
                .collect();
            document["repos"] = left.iter().map(|task| (task.to_string(), json!(repo_of(task)))).collect();
        }
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    match plan.repos {
        None => out.line(format!("would work {} on branch `{}`", plan.name, plan.target))?,
        Some(_) => {
            let on = planned
                .iter()
                .map(|planned_repo| format!("`{}` of {}", planned_repo.plan.target, planned_repo.place.name));
            out.line(format!("would work {} on branches {}", plan.name, listed(on, 10)))?;
        }
    }
    out.line(format!("next: {next}"))?;
    for task in left {
        let name = plan.tree.node(task).map(|node| shown_name(&node.name)).unwrap_or_default();
        let repo = repo_of(task).map(|repo| format!(" ({repo})")).unwrap_or_default();
        out.line(format!("  {task} {name}{repo}"))?;
    }
    Ok(Exit::Done)
}
