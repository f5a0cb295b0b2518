//! `pleach resume`

use std::path::Path;

use clap::Args;
use engine::env::{Copy, wait_for_orphans};
use engine::keep::WorktreeOwner;
use engine::session::{Session, resume_session};
use engine::trust::for_inputs;
use engine::view::{SessionStatus, Summary, recorded_pipeline};
use git::record::History;
use pleach_core::config::{AgentChoice, Config, Precedence, Resolved, Source};
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{NodeId, SessionId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::redact::is_marked;
use pleach_core::text::{listed, shell_word};

use crate::answers::AnswerArgs;
use crate::arrival::{arrive, refuse_continued};
use crate::code::Code;
use crate::commands::push::make_up;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::joint_landing::finish_landings;
use crate::lib_errors::of_engine;
use crate::next_commands::resume_task;
use crate::pipeline_file::PipelineFile;
use crate::place::{Place, Places};
use crate::preflight::{
    any_unproxied, check_agents, check_answers, check_prices, check_repos, require_trust, warn_simulated,
};
use crate::prompt::BUILT_IN;
use crate::render::show_git_progress;
use crate::runtime::block_on;
use crate::session::{Protection, build, print_agents, run_to_end, warn_unmetered};
use crate::sessions::{self, SessionFilter, SessionGround};
use crate::settings::{self, Search};
use crate::survey::orphans::repair_worktrees;

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
    let id = sessions::named_or_newest(globals, &place.repo, args.session.as_deref(), SessionFilter::Resumable)?;
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
        return Err(
            Failure::new(Code::SessionOfTask, format!("session {id} works on task {}{in_tree}", task.id)).hint(hint)
        );
    }
    let stands = Summary::newest(&place.repo, &id).map_err(|error| of_engine(&error))?;
    let ground = SessionGround { settings: local.clone(), place: place.clone() };
    if let Some(exit) = make_up(globals, &ground, &stands)? {
        return Ok(exit);
    }
    let pipeline = recorded_pipeline(&history.started).map_err(|error| of_engine(&error))?;
    warn_of_changed_file(&place, &id, &history.started);
    let node = args.from.as_deref().map(|node| named_node(&pipeline, node)).transpose()?;
    check_answers(&[&pipeline], None, &answers)?;
    let search = Search::from(&globals.dir, globals.config.as_deref());
    let mut resolved = Resolved::resume(&history.started.config, &local.resolved, search.flag_layer())
        .map_err(|errors| settings::failure(&errors, &globals.dir))?;
    if history.started.simulated {
        // Older records have no agent then.
        resolved.config.agent.get_or_insert(AgentChoice::Simulation.into());
    }
    refuse_unknown_agent(&id, &resolved.config)?;
    let settings = settings::Settings { resolved, ..local };
    let places = Places::of_session(place, &history.started, &settings)?;
    let place = &places.record;
    check_repos(&pipeline, &places)?;
    let stand = |(place, head): (_, _)| {
        let place: &Place = place;
        (place, stands.state.work.get(&place.name).copied().unwrap_or(head))
    };
    let from: Vec<_> = places.heads()?.into_iter().map(stand).collect();
    let record = Source::named(Precedence::Recorded, format!("as session {id} recorded it"));
    let inputs = for_inputs(&history.started.inputs, &record);
    require_trust(globals, &settings, &from, &pipeline, &history.started.dot_path, inputs)?;
    refuse_continued(&settings, place, &id)?;
    let built = build(globals, &settings, &settings.resolved.config, answers)?;
    let alone = any_unproxied(&pipeline, &built.engine.agents);
    if history.started.simulated {
        warn_simulated();
    }
    check_agents(&pipeline, &built.engine.agents)?;
    check_prices(&built.engine, [&pipeline])?;
    places.all().for_each(|place| show_git_progress(globals, &place.repo));
    let is_own = |owner: &WorktreeOwner| matches!(owner, WorktreeOwner::Session { session, .. } if *session == id);
    repair_worktrees(&places, &settings, is_own);
    wait_for_orphans(&place.repo, Copy::OfSession(&id), |text| say!("{text}"));
    block_on(built.stopped_by(), async {
        print_agents(globals, &built.engine, pipeline.agent_nodes()).await;
        warn_unmetered(built.engine.unmetered([&pipeline]));
        let is_back = node.is_some() || matches!(stands.standing(), SessionStatus::Failed { .. });
        let opened = &mut |session: &Session| say_resumed(globals, session, is_back);
        let resumed = resume_session(built.engine, places.repos(), &id, history.tip, node.as_ref(), opened).await;
        let (session, kept) = resumed.map_err(|error| of_resume(&id, &error))?;
        if let Some(kept) = kept {
            warning!(WorkKept, "uncommitted work of the last run is kept at {kept}");
        }
        let simulated = history.started.simulated;
        run_to_end(globals, session, Protection { chosen: &built.protection, alone, simulated }).await
    })
}

/// Warns that the session runs its recorded pipeline, not the changed file.
fn warn_of_changed_file(place: &Place, id: &SessionId, started: &PipelineStarted) {
    let Some(root) = place.repo.workdir().filter(|_| started.dot_path != BUILT_IN) else { return };
    let name = Path::new(&started.dot_path);
    // Without the file there is nothing that could be meant instead.
    let Ok(now) = PipelineFile::read(name, &root.join(name)) else { return };
    if now.source != started.dot || now.files != started.files {
        let run = shell_word(&started.dot_path);
        warning!(
            PipelineChanged,
            "`{}` has changed: session {id} continues with the pipeline it started with; `pleach run {run}` uses the \
             new file",
            name.display()
        );
    }
}

/// Why a session was not resumed. One that is running can be paused first.
fn of_resume(id: &SessionId, error: &engine::env::Error) -> Failure {
    match of_engine(error) {
        held if held.exit() == Exit::Locked => {
            held.hint(format!("wait until it ends, or pause it first with `pleach pause {id}`"))
        }
        failure => failure,
    }
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
        say!("session {} resumed{at}", session.id());
    }
}

/// A record has no secrets, so an agent whose command had one cannot be started from it.
fn refuse_unknown_agent(id: &SessionId, config: &Config) -> Result<(), Failure> {
    let agent = config.agent.as_ref().map(ToString::to_string).filter(|agent| is_marked(agent));
    match agent {
        None => Ok(()),
        Some(agent) => {
            let message = format!("the record of session {id} leaves a secret out of its agent: `{agent}`");
            let hint = "start a new run with an agent whose command holds no secret";
            Err(Failure::new(Code::SecretFound, message).hint(hint))
        }
    }
}
