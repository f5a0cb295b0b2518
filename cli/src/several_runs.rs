//! Several runs of a session in one process, each with a loop of its own: they are heard together, share the budget of
//! a run, and are compared at the end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use engine::env::{Engine, Error, RunLedger, SessionRepos};
use engine::session::{
    ReplayOptions, RunPoint, Session, SessionEnded, spawn_beside, start_replay, wait_for_left_pushes,
};
use pleach_core::event::{Notification, ReplayChanges};
use pleach_core::ids::{ContextId, RunId};
use pleach_core::text::counted;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::attribution_notes::note_session;
use crate::code::Code;
use crate::commands::compare::{compare_untested, show};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::recorded_run::of_opening;
use crate::render::progress::{Progress, ShownRun};
use crate::render::{Out, duration, spent, style};
use crate::session::{Protection, SIMULATED_END, exit_of, failure_of, summary};
use crate::sessions::SessionGround;

/// With which agents and models, and how often.
#[derive(Debug, Clone, Args)]
pub struct SeveralArgs {
    /// The agent for nodes that name none, written as `agent` in pleach.yaml. Repeated, there is a run for each.
    #[arg(long = "agent", value_name = "AGENT")]
    agents: Vec<String>,
    /// The model of that agent, for nodes that name none. Repeated, there is a run for each.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Run it so many times side by side, with each agent or model, and compare the runs at the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// How many runs work at once.
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub at_once: u32,
}

/// The agent and the model of one of several runs, where they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunVariant {
    pub agent: Option<String>,
    pub model: Option<String>,
}

impl SeveralArgs {
    /// The runs that are asked for, at least one.
    pub fn variants(&self) -> Result<Vec<RunVariant>, Failure> {
        if self.agents.len() > 1 && self.models.len() > 1 {
            return Err(Failure::new(Code::OptionConflict, "several agents and several models are given")
                .hint("repeat `--agent` or `--model`, and give the other one once"));
        }
        let each = |values: &[String]| match values {
            [] => vec![None],
            values => values.iter().cloned().map(Some).collect(),
        };
        let models = each(&self.models);
        let with = |agent: Option<String>| {
            models.iter().map(move |model| RunVariant { agent: agent.clone(), model: model.clone() })
        };
        let once: Vec<RunVariant> = each(&self.agents).into_iter().flat_map(with).collect();
        let count = self.count.unwrap_or(1) as usize;
        Ok(once.iter().cycle().take(once.len() * count).cloned().collect())
    }
}

impl RunVariant {
    /// As settings of the command line.
    pub fn flags(&self) -> Vec<(String, String, String)> {
        let given = [("--agent", "agent", &self.agent), ("--model", "model", &self.model)];
        given.into_iter().filter_map(|(flag, key, value)| Some((flag.into(), key.into(), value.clone()?))).collect()
    }

    /// As changes of a replay.
    pub fn changes(&self) -> ReplayChanges {
        ReplayChanges { agent: self.agent.clone(), model: self.model.clone(), ..ReplayChanges::default() }
    }

    /// In words: ` with agent codex`.
    pub fn words(&self) -> String {
        let named = [("agent", &self.agent), ("model", &self.model)];
        let named = named.into_iter().filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)));
        let named = named.collect::<Vec<_>>().join(", ");
        if named.is_empty() { named } else { format!(" with {named}") }
    }
}

/// A run that is to be forked from the common point.
pub struct PlannedRun<'a> {
    pub engine: Arc<Engine>,
    pub repos: SessionRepos,
    pub options: ReplayOptions,
    pub protection: Protection<'a>,
}

/// Several runs that go on from one point.
pub struct RunsAtOnce<'a> {
    pub globals: &'a Globals,
    pub ground: &'a SessionGround,
    pub point: Arc<RunPoint>,
    pub at_once: usize,
}

/// One of them, once its loop has ended.
struct EndedRun {
    number: usize,
    took: Duration,
    outcome: Result<(Session, Result<SessionEnded, Error>), Error>,
}

/// What a run says of itself when it is recorded.
struct Opening {
    number: usize,
    shown: ShownRun,
    root: ContextId,
}

impl RunsAtOnce<'_> {
    /// Runs them to their ends, at most so many at once, and compares them. `first` is open already.
    pub async fn run(
        self,
        first: Option<(Session, Protection<'_>)>,
        planned: Vec<PlannedRun<'_>>,
    ) -> Result<Exit, Failure> {
        let protections: Vec<Protection<'_>> =
            first.iter().map(|(_, protection)| *protection).chain(planned.iter().map(|run| run.protection)).collect();
        let (offset, planned_count) = (usize::from(first.is_some()), planned.len());
        let engine = planned.first().map(|run| Arc::clone(&run.engine)).expect("several runs are more than the first");
        let mut heard = engine.events.subscribe();
        let mut progress = Progress::of_runs(self.globals);
        let (ledger, mut jobs) = (RunLedger::default(), JoinSet::new());
        let (told, mut openings) = mpsc::unbounded_channel();
        let mut roots = BTreeMap::new();
        if let Some((session, _)) = first {
            let (shown, root) = (ShownRun::of(&session), session.run().root.clone());
            let _ = told.send(Opening { number: 0, shown, root });
            jobs.spawn(work(0, Instant::now(), session, ledger.clone()));
        }
        let mut hear = |progress: &mut Progress, notification: &Notification| {
            while let Ok(opening) = openings.try_recv() {
                progress.add(&opening.shown);
                roots.insert(opening.root, opening.number);
            }
            let root = notification.by.as_ref().map(|(_, context)| context.run_root());
            if let Some(number) = root.and_then(|root| roots.get(&root)) {
                protections[*number].hear(self.globals, &notification.recorded.event);
            }
            progress.event(notification);
        };
        // They are recorded one after the other, so that their names are in the order they were asked for.
        let (_, mut turn) = oneshot::channel();
        let mut waiting = planned.into_iter().enumerate();
        let mut ended: Vec<EndedRun> = Vec::new();
        loop {
            while jobs.len() < self.at_once && !engine.cancel.is_stopped() {
                let Some((number, planned)) = waiting.next() else { break };
                let (next, next_turn) = oneshot::channel();
                let turns = (std::mem::replace(&mut turn, next_turn), next);
                let (point, ledger) = (Arc::clone(&self.point), ledger.clone());
                let is_said = !self.globals.json && self.globals.verbosity >= 0;
                let job = RunJob { number: number + offset, point, ledger, told: told.clone(), is_said };
                jobs.spawn(job.run(planned.engine, planned.repos, planned.options, turns));
            }
            tokio::select! {
                biased;
                Some(notification) = heard.next() => hear(&mut progress, &notification),
                Some(job) = jobs.join_next(), if !jobs.is_empty() => {
                    while let Some(notification) = heard.next_now() {
                        hear(&mut progress, &notification);
                    }
                    let run = job.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()));
                    self.say_ended(&run);
                    ended.push(run);
                }
                else => break,
            }
            if jobs.is_empty() && (waiting.len() == 0 || engine.cancel.is_stopped()) {
                break;
            }
        }
        let mut pushed = pin!(wait_for_left_pushes(&engine));
        loop {
            tokio::select! {
                biased;
                Some(notification) = heard.next() => hear(&mut progress, &notification),
                () = &mut pushed => break,
            }
        }
        while let Some(notification) = heard.next_now() {
            hear(&mut progress, &notification);
        }
        progress.finish();
        ended.sort_by_key(|run| run.number);
        let left = offset + planned_count - ended.len();
        self.conclude(&mut progress, ended, left)
    }

    /// A line for the end of each run: what more there is to it is told when all have ended.
    fn say_ended(&self, ended: &EndedRun) {
        let Ok((session, Ok(how))) = &ended.outcome else { return };
        if self.globals.json || self.globals.verbosity < 0 {
            return;
        }
        let word = match how {
            SessionEnded::Completed => "done:",
            SessionEnded::Failed { .. } => "failed:",
            SessionEnded::Cancelled => "cancelled:",
            SessionEnded::Paused(_) => "paused:",
        };
        let counted = format!("{}, {}", counted(session.turns(), "turn"), spent(&session.spent()));
        say!("{} run {} ({counted}, {})", style::standing(word), session.run(), duration(ended.took));
    }

    /// Tells what needs somebody, and how the runs compare.
    fn conclude(&self, progress: &mut Progress, ended: Vec<EndedRun>, left: usize) -> Result<Exit, Failure> {
        let (mut exits, mut runs, mut is_simulated) = (Vec::new(), Vec::<RunId>::new(), false);
        for EndedRun { took, outcome, .. } in ended {
            if let Ok((session, _)) = &outcome {
                note_session(session);
            }
            let failure = match outcome {
                Ok((session, Ok(how))) => {
                    exits.push(exit_of(&how));
                    runs.push(session.run().clone());
                    is_simulated |= session.started().simulated;
                    if !self.globals.json && how != SessionEnded::Completed {
                        summary(self.globals, &session, &how, took, 0)?;
                    }
                    continue;
                }
                Ok((session, Err(error))) => {
                    runs.push(session.run().clone());
                    failure_of(self.globals, &session, &error)
                }
                Err(error) => of_opening(&self.point.run, &error),
            };
            exits.push(failure.exit());
            failure.report(self.globals.json);
        }
        if left > 0 {
            exits.push(Exit::Paused);
            let were = if left == 1 { "was" } else { "were" };
            say!("{} {were} not begun", counted(left, "run"));
        }
        if !runs.is_empty() {
            let (comparison, tests) = compare_untested(self.ground, &runs)?;
            progress.compared(&comparison);
            if !self.globals.json {
                show(self.globals, &comparison, &tests)?;
            }
        }
        if is_simulated && !self.globals.json {
            Out::new().line(style::paint(style::WAITS, SIMULATED_END))?;
        }
        Ok(worst(&exits))
    }
}

/// A run on its way.
struct RunJob {
    number: usize,
    point: Arc<RunPoint>,
    ledger: RunLedger,
    told: mpsc::UnboundedSender<Opening>,
    is_said: bool,
}

impl RunJob {
    /// Forks the run when it is its turn, and runs it to its end.
    async fn run(
        self,
        engine: Arc<Engine>,
        repos: SessionRepos,
        options: ReplayOptions,
        (turn, next): (oneshot::Receiver<()>, oneshot::Sender<()>),
    ) -> EndedRun {
        // The one before is recorded, or has failed to be.
        let _ = turn.await;
        let Self { number, point, ledger, told, is_said } = self;
        let (begun, mut next) = (Instant::now(), Some(next));
        let opened = &mut |session: &Session| {
            next.take();
            let variant = RunVariant { agent: options.changes.agent.clone(), model: options.changes.model.clone() };
            if is_said {
                say!("run {} from {}{}", session.run(), point.name(), variant.words());
            }
            let (shown, root) = (ShownRun::of(session), session.run().root.clone());
            let _ = told.send(Opening { number, shown, root });
        };
        match start_replay(engine, repos, &point, &options, opened).await {
            Ok(session) => work(number, begun, session, ledger).await,
            Err(error) => EndedRun { number, took: begun.elapsed(), outcome: Err(error) },
        }
    }
}

async fn work(number: usize, begun: Instant, mut session: Session, ledger: RunLedger) -> EndedRun {
    session.share_budget(&ledger);
    // What happens is heard once for all runs.
    let (session, ended) = spawn_beside(session).follow(|_| {}).await;
    EndedRun { number, took: begun.elapsed(), outcome: Ok((session, ended)) }
}

/// What weighs most: what is broken, then what waits, then what has failed.
fn worst(exits: &[Exit]) -> Exit {
    let order = [
        Exit::Environment,
        Exit::Locked,
        Exit::LandingRefused,
        Exit::WaitsForPerson,
        Exit::Paused,
        Exit::WorkFailed,
        Exit::Usage,
    ];
    order.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn several(agents: &[&str], models: &[&str], count: Option<u32>) -> SeveralArgs {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        SeveralArgs { agents: owned(agents), models: owned(models), count, at_once: 4 }
    }

    #[test]
    fn every_agent_runs_as_often_as_asked() {
        let words = |args: SeveralArgs| args.variants().unwrap().iter().map(RunVariant::words).collect::<Vec<_>>();
        assert_eq!(words(several(&[], &[], None)), [""]);
        assert_eq!(words(several(&[], &[], Some(3))), ["", "", ""]);
        assert_eq!(
            words(several(&["a", "b"], &["m"], Some(2))),
            [" with agent a, model m", " with agent b, model m", " with agent a, model m", " with agent b, model m"]
        );
        assert_eq!(words(several(&["a"], &["m", "n"], None)), [" with agent a, model m", " with agent a, model n"]);
        assert_eq!(several(&["a", "b"], &["m", "n"], None).variants().unwrap_err().code, Code::OptionConflict);
    }

    #[test]
    fn the_gravest_exit_of_several_runs_counts() {
        assert_eq!(worst(&[Exit::Done, Exit::WorkFailed, Exit::Paused]), Exit::Paused);
        assert_eq!(worst(&[Exit::WaitsForPerson, Exit::Environment, Exit::Locked]), Exit::Environment);
        assert_eq!(worst(&[Exit::Done]), Exit::Done);
    }
}
