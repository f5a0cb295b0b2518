//! `pleach resume`

use std::sync::Arc;

use clap::Args;
use engine::env::{Copy, wait_for_orphans};
use engine::session::{ResumeAt, RunPoint, Session, resume_session};
use engine::view::{Moment, SessionStatus, Summary, View, recorded_pipeline};
use git::record::{CutTarget, History};
use pleach_core::event::RewindVia;
use pleach_core::ids::{NodeId, RunId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::text::{listed, shell_word};

use crate::answers::AnswerArgs;
use crate::arrival::arrive;
use crate::code::Code;
use crate::commands::push::make_up;
use crate::commands::replay::ViaArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::joint_landing::finish_landings;
use crate::lib_errors::of_engine;
use crate::mirror::bring_from_mirror;
use crate::next_commands::resume_task;
use crate::place::Place;
use crate::recorded_run::{GoingOn, RecordedRun, changed_file, of_opening};
use crate::render::session as show;
use crate::runtime::block_on;
use crate::say;
use crate::session::{print_agents, run_to_end, warn_unmetered};
use crate::sessions::{self, SessionFilter, SessionGround};
use crate::settings;
use crate::stdin_lines;

/// Resume a paused, interrupted or failed session.
///
/// The session continues after its last recorded turn, a failed one at the node it failed at, with the pipeline and the
/// settings it was started with; only keys and addresses, the budget and the names of models (`providers.NAME.models`)
/// are today's. Uncommitted work of a killed run is kept first.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session, or the beginning of its id; by default the newest that can be resumed.
    session: Option<String>,
    /// Restart at this node, which the session has reached before.
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Go back to this turn and continue after it: its number, `main.17`, or its commit; at a terminal without one, the
    /// turns are listed to choose from. Everything later is left, and stays recorded.
    #[arg(long, value_name = "TURN", conflicts_with = "from", num_args = 0..=1, default_missing_value = "")]
    turn: Option<String>,
    /// How an agent continues that was in the middle of its node at that turn.
    #[arg(long, value_name = "HOW", requires = "turn")]
    via: Option<ViaArg>,
    /// Bring the session from this remote first: into its workspace, or into this directory if that is empty.
    #[arg(long, value_name = "URL", requires = "session")]
    remote: Option<String>,
    #[command(flatten)]
    answers: AnswerArgs,
}

pub fn run(globals: &Globals, args: ResumeArgs) -> Result<Exit, Failure> {
    let answers = args.answers.read(globals)?;
    if let (Some(address), Some(given)) = (&args.remote, &args.session) {
        arrive(globals, address, given)?;
    }
    let local = settings::load_for(globals, &globals.dir)?.deepening(true);
    let place = Place::find(&globals.dir, None, &local)?;
    finish_landings(globals, &local, &place, None);
    if let Some(given) = &args.session {
        bring_from_mirror(globals, &local, &place, given)?;
    }
    let id = sessions::named_or_newest(globals, &place.repo, args.session.as_deref(), SessionFilter::Resumable)?;
    let replay =
        args.turn.as_ref().map(|turn| format!("`pleach replay {id} --turn {turn}` goes on there in a run of its own"));
    let history = History::newest(&place.repo, &id).map_err(|error| of_engine(&error.into()))?;
    if let Some(task) = &history.started.task {
        let (command, tree) = resume_task(task);
        let (in_tree, hint) = match &tree {
            Some(_) => {
                let tree = shell_word(&task.tree);
                (
                    format!(" of `{}`", task.tree),
                    format!("`pleach {command} --tree {tree}` on branch `{}` resumes it", task.target),
                )
            }
            None => (String::new(), format!("`pleach {command}` resumes it")),
        };
        let message = format!("session {id} works on task {}{in_tree}", task.id);
        return Err(Failure::new(Code::SessionOfTask, message).hint(replay.unwrap_or(hint)));
    }
    let stands = Summary::newest(&place.repo, &id).map_err(|error| of_engine(&error))?;
    if let (Some(replay), SessionStatus::Done | SessionStatus::Cancelled) = (replay, stands.standing()) {
        let message = format!("session {id} has ended: {}", stands.standing().word());
        return Err(Failure::new(Code::SessionOver, message).hint(replay));
    }
    let ground = SessionGround { settings: local.clone(), place: place.clone() };
    if let Some(exit) = make_up(globals, &ground, &stands)? {
        return Ok(exit);
    }
    let at = resume_at(&args, &ground, &id, &history)?;
    if let Some(file) = changed_file(&place, &history.started) {
        let run = shell_word(&file);
        warning!(
            PipelineChanged,
            "`{file}` has changed: session {id} continues with the pipeline it started with; `pleach run {run}` uses the \
             new file"
        );
    }
    let work = match &at {
        ResumeAt::Turn { point, .. } => point.root().map_err(|error| of_engine(&error))?.work.clone(),
        ResumeAt::Newest | ResumeAt::Node(_) => stands.state.work.clone(),
    };
    let on = GoingOn { run: &id, started: &history.started, work: &work, flags: Vec::new(), answers, beside: None };
    let recorded = RecordedRun::prepare(globals, local, place, on)?;
    let (place, engine) = (&recorded.places.record, &recorded.built.engine);
    wait_for_orphans(&place.repo, Copy::OfRun(&id), |text| say!("{text}"));
    block_on(recorded.built.stopped_by(), async {
        print_agents(globals, engine, recorded.pipeline.agent_nodes()).await;
        warn_unmetered(engine.unmetered([&recorded.pipeline]));
        let is_back = !matches!(at, ResumeAt::Newest) || matches!(stands.standing(), SessionStatus::Failed { .. });
        let opened = &mut |session: &Session| say_resumed(globals, session, is_back);
        let (engine, repos) = (Arc::clone(engine), recorded.places.repos());
        let resumed = resume_session(engine, repos, &id, history.tip, &at, opened).await;
        let (session, kept) = resumed.map_err(|error| of_opening(&id, &error))?;
        if let Some(kept) = kept {
            warning!(WorkKept, "uncommitted work of the last run is kept at {kept}");
        }
        run_to_end(globals, session, recorded.protection()).await
    })
}

/// Where the session is to continue.
fn resume_at(args: &ResumeArgs, ground: &SessionGround, id: &RunId, history: &History) -> Result<ResumeAt, Failure> {
    let pipeline = recorded_pipeline(&history.started).map_err(|error| of_engine(&error))?;
    if let Some(node) = &args.from {
        return Ok(ResumeAt::Node(named_node(&pipeline, node)?));
    }
    let Some(given) = &args.turn else { return Ok(ResumeAt::Newest) };
    let given = &if given.is_empty() { chosen_turn(ground, id)? } else { given.clone() };
    let repos = ground.repos(&history.started);
    let (of, turn) = sessions::named_turn(&repos, id, given)?;
    if of != *id {
        let message = format!("turn {turn} belongs to run {of}, which {id} was forked from");
        return Err(Failure::new(Code::TurnOfOtherRun, message)
            .hint(format!("`pleach replay {of} --turn {turn}` goes on from there")));
    }
    let point = RunPoint::find(&repos, id, &CutTarget::Turn(turn), None).map_err(|error| of_engine(&error))?;
    Ok(ResumeAt::Turn { point: Box::new(point), via: args.via.map(RewindVia::from) })
}

/// Lists the turns at a terminal, and asks for one.
fn chosen_turn(ground: &SessionGround, id: &RunId) -> Result<String, Failure> {
    let none = |message: &str| {
        Failure::new(Code::NoSuchTurn, message.to_owned())
            .hint(format!("`pleach turns {id}` lists them; `pleach resume {id} --turn N` goes back to one"))
    };
    if !stdin_lines::is_possible() {
        return Err(none("`--turn` without a turn asks for one, and there is no terminal to ask at"));
    }
    let view = View::load(&ground.place.repo, id).map_err(|error| of_engine(&error))?;
    let moments: Vec<Moment> =
        view.timeline().into_iter().filter(|one| !matches!(one, Moment::Checkpoint(_))).collect();
    say!("{}", show::turns(&moments, view.summary.started.has_several_repos()));
    let line = stdin_lines::ask(&mut say::asking(), "go back to turn: ");
    let line = line.map_err(|error| none("no turn was chosen").because(&error))?;
    Some(line.trim().to_owned()).filter(|turn| !turn.is_empty()).ok_or_else(|| none("no turn was chosen"))
}

/// The node of the pipeline with this name.
fn named_node(pipeline: &Pipeline, name: &str) -> Result<NodeId, Failure> {
    let found = pipeline.nodes().iter().find(|node| node.id == name).map(|node| node.id.clone());
    found.ok_or_else(|| {
        let all = listed(pipeline.nodes().iter().map(|node| format!("`{}`", node.id)), usize::MAX);
        Failure::new(Code::NoSuchNode, format!("the pipeline has no node `{name}`"))
            .hint(format!("its nodes are {all}"))
    })
}

/// Says which session continues, before its files are restored, and where if that is not where it stopped.
fn say_resumed(globals: &Globals, session: &Session, is_back: bool) {
    if !globals.json && globals.verbosity >= 0 {
        let at =
            session.state().next_node().filter(|_| is_back).map(|node| format!(" at `{node}`")).unwrap_or_default();
        say!("session {} resumed{at}", session.run());
    }
}
