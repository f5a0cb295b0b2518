//! `pleach replay`

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use engine::env::Error as EngineError;
use engine::session::{DoneLater, ReplayOptions, ReplayPreview, RunPoint, Session, start_replay};
use engine::tree::as_prompt;
use git::Repo;
use git::record::{CutTarget, History, NoCut};
use pleach_core::event::{ReplayChanges, ReplayPipeline, RewindVia};
use pleach_core::ids::{InvalidId, NodeId, RunId};
use pleach_core::text::{counted, listed, shell_word};

use crate::answers::{AnswerArgs, Answers};
use crate::code::Code;
use crate::commands::run::read_inputs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_record};
use crate::pipeline_file::PipelineFile;
use crate::place::Place;
use crate::recorded_run::{GoingOn, RecordedRun, changed_file, of_opening};
use crate::render::{Out, tokens};
use crate::runtime::block_on;
use crate::session::{print_agents, run_to_end, warn_unmetered};
use crate::sessions::{self, SessionFilter, SessionGround};
use crate::settings;
use crate::several_runs::{PlannedRun, RunVariant, RunsAtOnce, SeveralArgs};

/// Go on from a point of a session, in a run of its own.
///
/// A replay has its own branch, worktree and records; nothing is written to the run it is forked from, which may go on
/// working. Nodes that had completed at the point are not run again. Files come back with the point; what commands have
/// done elsewhere (databases, services, pushes) is not undone, and commands after the point run again.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The session, the beginning of its id, or one of its replays: `SID/r1`; by default the newest.
    session: Option<String>,
    #[command(flatten)]
    point: PointArgs,
    #[command(flatten)]
    several: SeveralArgs,
    /// Tell its first agent this beside its prompt.
    #[arg(long, value_name = "TEXT")]
    prompt_append: Option<String>,
    /// Another value for an input.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    inputs: Vec<String>,
    /// Another pipeline, which has the node it goes on at.
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,
    /// How an agent continues that was in the middle of its node at that turn.
    #[arg(long, value_name = "HOW")]
    via: Option<ViaArg>,
    /// Show what would run again and what it cost, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    answers: AnswerArgs,
}

/// Where a replay begins.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct PointArgs {
    /// After this turn: its number, `main.17`, or its commit.
    #[arg(long, value_name = "TURN")]
    turn: Option<String>,
    /// After this node has completed, for the last time unless a visit is given; `start` is the beginning.
    #[arg(long, value_name = "NODE[@VISIT]")]
    checkpoint: Option<String>,
    /// At this node, on the code of the end; the run has reached it before.
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
}

/// How an agent continues that was in the middle of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViaArg {
    /// Its program runs again; what its model answered before is taken from the record.
    Redrive,
    /// It is told what was done.
    Summary,
}

impl From<ViaArg> for RewindVia {
    fn from(via: ViaArg) -> Self {
        match via {
            ViaArg::Redrive => Self::Redrive,
            ViaArg::Summary => Self::Summary,
        }
    }
}

pub fn run(globals: &Globals, args: ReplayArgs) -> Result<Exit, Failure> {
    let answers = args.answers.read(globals)?;
    let local = settings::load_for(globals, &globals.dir)?.deepening(!args.dry_run);
    let place = Place::find(&globals.dir, None, &local)?;
    let named = sessions::named_or_newest(globals, &place.repo, args.session.as_deref(), SessionFilter::Any)?;
    let ground = SessionGround { settings: local.clone(), place: place.clone() };
    let point = find_point(&ground, &named, &args.point)?;
    let variants = args.several.variants()?;
    let planned = variants.iter().map(|variant| options(globals, &args, (&place, &point), variant));
    let planned = planned.collect::<Result<Vec<_>, _>>()?;
    planned.iter().try_for_each(|options| options.check(&point)).map_err(|error| of_engine(&error))?;
    let is_recorded = planned.iter().all(|options| options.changes.pipeline.is_none());
    if let Some(file) = changed_file(&place, &point.started).filter(|_| is_recorded) {
        warning!(
            PipelineChanged,
            "`{file}` has changed: a replay of session {} runs the pipeline that it started with; `--pipeline {}` uses \
             the new file",
            point.run,
            shell_word(&file)
        );
    }
    if args.dry_run {
        return dry_run(globals, &point, &variants, &planned);
    }
    if variants.len() > 1 {
        return several(globals, &args, (ground, point), (&variants, planned), answers);
    }
    let (variant, options) = (&variants[0], &planned[0]);
    let begun = Begun { point: &point, options, runs: 1 };
    let started = options.started(&point);
    let work = point.root().map_err(|error| of_engine(&error))?.work.clone();
    let on = GoingOn { run: &point.run, started: &started, work: &work, flags: variant.flags(), answers, beside: None };
    let recorded = RecordedRun::prepare(globals, local, place, on)?;
    let engine = &recorded.built.engine;
    block_on(recorded.built.stopped_by(), async {
        print_agents(globals, engine, recorded.pipeline.agent_nodes()).await;
        warn_unmetered(engine.unmetered([&recorded.pipeline]));
        let opened = &mut |session: &Session| begun.say(globals, Some(session));
        let session = start_replay(Arc::clone(engine), recorded.places.repos(), &point, options, opened).await;
        let session = session.map_err(|error| of_opening(&point.run, &error))?;
        run_to_end(globals, session, recorded.protection()).await
    })
}

/// Several replays of a point at the same time.
fn several(
    globals: &Globals,
    args: &ReplayArgs,
    (ground, point): (SessionGround, RunPoint),
    (variants, options): (&[RunVariant], Vec<ReplayOptions>),
    answers: Answers,
) -> Result<Exit, Failure> {
    let work = point.root().map_err(|error| of_engine(&error))?.work.clone();
    let mut prepared: Vec<(&RunVariant, RecordedRun)> = Vec::new();
    for (variant, options) in variants.iter().zip(&options) {
        if prepared.iter().any(|(known, _)| *known == variant) {
            continue;
        }
        let (started, beside) = (options.started(&point), prepared.first().map(|(_, run)| &run.built));
        let (flags, answers) = (variant.flags(), answers.clone());
        let on = GoingOn { run: &point.run, started: &started, work: &work, flags, answers, beside };
        let run = RecordedRun::prepare(globals, ground.settings.clone(), ground.place.clone(), on)?;
        prepared.push((variant, run));
    }
    Begun { point: &point, options: &options[0], runs: options.len() }.say(globals, None);
    let plan = |(variant, options): (&RunVariant, ReplayOptions)| {
        let (_, run) = prepared.iter().find(|(known, _)| *known == variant).expect("every variant was prepared");
        let (engine, repos, protection) = (Arc::clone(&run.built.engine), run.places.repos(), run.protection());
        PlannedRun { engine, repos, options, protection }
    };
    let planned = variants.iter().zip(options).map(plan).collect();
    block_on(prepared[0].1.built.stopped_by(), async {
        for (_, run) in &prepared {
            print_agents(globals, &run.built.engine, run.pipeline.agent_nodes()).await;
            warn_unmetered(run.built.engine.unmetered([&run.pipeline]));
        }
        let at_once = args.several.at_once as usize;
        RunsAtOnce { globals, ground: &ground, point: Arc::new(point), at_once }.run(None, planned).await
    })
}

/// What a replay is to do.
fn options(
    globals: &Globals,
    args: &ReplayArgs,
    (place, point): (&Place, &RunPoint),
    variant: &RunVariant,
) -> Result<ReplayOptions, Failure> {
    let begins = args.point.from.as_deref().map(node_id).transpose()?;
    let mut changes = changes(globals, args, variant)?;
    if changes.pipeline.is_none()
        && let Some((pipeline, inputs)) = as_prompt(&place.repo, point).map_err(|error| of_engine(&error))?
    {
        changes.pipeline = Some(pipeline);
        changes.inputs = inputs.into_iter().chain(changes.inputs).collect();
    }
    Ok(ReplayOptions { begins, via: args.via.map(RewindVia::from), changes })
}

/// The point a replay begins at. A turn that a replay has inherited belongs to the run it was forked from.
fn find_point(ground: &SessionGround, named: &RunId, args: &PointArgs) -> Result<RunPoint, Failure> {
    let history = History::newest(&ground.place.repo, named).map_err(|error| of_record(&error))?;
    let repos = ground.repos(&history.started);
    let (run, target) = match (&args.turn, &args.checkpoint) {
        (Some(turn), _) => {
            let (run, turn) = sessions::named_turn(&repos, named, turn)?;
            (run, CutTarget::Turn(turn))
        }
        (None, Some(checkpoint)) => (named.clone(), checkpoint_of(checkpoint)?),
        (None, None) => (named.clone(), CutTarget::Newest),
    };
    let begins = args.from.as_deref().map(node_id).transpose()?;
    let found = RunPoint::find(&repos, &run, &target, begins.as_ref());
    let is_beginning = args.checkpoint.as_deref() == Some("start");
    let found = match found {
        Err(error @ EngineError::NoCut(NoCut::NotCompleted { .. })) => match forked_from(&ground.place.repo, &run)? {
            // What a replay has inherited belongs to the run it was forked from, as turns do.
            Some(of) => return find_point(ground, &of, args).map_err(|_| of_engine(&error)),
            // Every run has a beginning, whatever its first node is called.
            None if is_beginning => RunPoint::find(&repos, &run, &CutTarget::Start, None),
            None => Err(error),
        },
        found => found,
    };
    found.map_err(|error| of_engine(&error))
}

/// The run a replay was forked from.
fn forked_from(repo: &Repo, run: &RunId) -> Result<Option<RunId>, Failure> {
    let read = || {
        let fork = History::newest(repo, run)?.forks.last().map(|fork| History::fork_of(repo, &run.session, *fork));
        Ok(fork.transpose()?.map(|fork| RunId::of_context(&run.session, &fork.from)))
    };
    read().map_err(|error| of_record(&error))
}

fn checkpoint_of(given: &str) -> Result<CutTarget, Failure> {
    let (node, visit) = match given.split_once('@') {
        Some((node, visit)) => (node, Some(visit)),
        None => (given, None),
    };
    let malformed = || {
        Failure::new(Code::InputMalformed, format!("`{given}` is not NODE or NODE@VISIT"))
            .hint("visits are counted from 1, as in `--checkpoint test@2`")
    };
    let visit = visit.map(|visit| visit.parse().map_err(|_| malformed())).transpose()?;
    Ok(CutTarget::Checkpoint { node: node_id(node)?, visit })
}

fn node_id(given: &str) -> Result<NodeId, Failure> {
    given.parse().map_err(|error: InvalidId| Failure::new(Code::NoSuchNode, error.to_string()))
}

/// What the replay does otherwise.
fn changes(globals: &Globals, args: &ReplayArgs, variant: &RunVariant) -> Result<ReplayChanges, Failure> {
    let pipeline =
        args.pipeline.as_ref().map(|file| PipelineFile::read_given(file, &globals.path(file))).transpose()?;
    let pipeline = pipeline.map(|file| ReplayPipeline { dot: file.source, dot_path: file.name, files: file.files });
    Ok(ReplayChanges {
        prompt_append: args.prompt_append.clone(),
        inputs: read_inputs(&args.inputs)?,
        pipeline,
        ..variant.changes()
    })
}

/// Shows what a replay would do.
fn dry_run(
    globals: &Globals,
    point: &RunPoint,
    variants: &[RunVariant],
    planned: &[ReplayOptions],
) -> Result<Exit, Failure> {
    let begun = Begun { point, options: &planned[0], runs: planned.len() };
    let mut out = Out::new();
    if globals.json {
        let preview = ReplayPreview::of(point, planned);
        out.json(&serde_json::json!(preview))?;
        return Ok(Exit::Done);
    }
    let times = if planned.len() > 1 { format!(" {}", counted(planned.len(), "time")) } else { String::new() };
    out.line(format!("would replay session {}{times} from {}", point.run, begun.place()))?;
    for (number, variant) in variants.iter().enumerate().filter(|_| variants.len() > 1) {
        out.line(format!("run {}{}", number + 1, variant.words()))?;
    }
    begun.again().iter().try_for_each(|line| out.line(line))?;
    Ok(Exit::Done)
}

/// What begins: so many replays from a point.
struct Begun<'a> {
    point: &'a RunPoint,
    options: &'a ReplayOptions,
    runs: usize,
}

impl Begun<'_> {
    /// The node it goes on at.
    fn node(&self) -> Option<&NodeId> {
        self.options.begins.as_ref().or_else(|| self.point.next_node())
    }

    /// The point, and where it goes on: "main.17, at `code`".
    fn place(&self) -> String {
        let at = self.node().map(|node| format!(", at `{node}`")).unwrap_or_default();
        format!("{}{at}", self.point.name())
    }

    /// The commands that run again, `test (3 times before)`, and what the agents there have cost.
    fn again(&self) -> Vec<String> {
        let later = &self.point.later;
        let commands = later.iter().filter(|node| node.is_command);
        let before = |node: &DoneLater| format!("{} ({} before)", node.node, counted(u64::from(node.times), "time"));
        let commands = listed(commands.map(before), usize::MAX);
        let each = if self.runs > 1 { " in each of them" } else { "" };
        let mut lines = vec![match commands.as_str() {
            "" => "no command will run again".to_owned(),
            commands => format!("will run again{each}: {commands}"),
        }];
        let turns: u64 = later.iter().map(|node| node.turns).sum();
        let used: u64 = later.iter().map(|node| node.tokens).sum();
        if turns > 0 {
            let agents = later.iter().filter(|node| node.turns > 0).map(|node| format!("`{}`", node.node));
            let cost: f64 = later.iter().map(|node| node.cost_usd).sum();
            let cost = if cost > 0.0 { format!(", ${cost:.2}") } else { String::new() };
            let (agents, turns) = (listed(agents, usize::MAX), counted(turns, "turn"));
            lines.push(format!("in the original {agents} took {turns}, {} tokens{cost} from there on", tokens(used)));
        }
        lines
    }

    /// Says which run begins, before its files are laid out; of several before any of them does.
    fn say(&self, globals: &Globals, session: Option<&Session>) {
        if globals.json || globals.verbosity < 0 {
            return;
        }
        let what = session
            .map_or_else(|| format!("{} replays", self.runs), |session| format!("replay {}", session.run().root));
        say!("{what} of session {} from {}", self.point.run, self.place());
        self.again().iter().for_each(|line| say!("{line}"));
    }
}
