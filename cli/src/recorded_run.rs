//! What `resume` and `replay` share: a recorded run with the settings, the repositories and the approvals it needs to go on.

use std::path::Path;

use engine::keep::WorktreeOwner;
use engine::trust::for_inputs;
use engine::view::recorded_pipeline;
use pleach_core::config::{AgentChoice, Config, Precedence, Resolved, Source};
use pleach_core::event::{PipelineStarted, Snapshot};
use pleach_core::ids::RunId;
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::redact::is_marked;
use pleach_core::text::listed;

use crate::answers::Answers;
use crate::arrival::refuse_continued;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::pipeline_file::PipelineFile;
use crate::place::{Place, Places};
use crate::preflight::{
    any_unproxied, check_agents, check_answers, check_prices, check_repos, require_trust, warn_simulated,
};
use crate::prompt::BUILT_IN;
use crate::render::show_git_progress;
use crate::session::{EngineHandle, Protection, build_beside};
use crate::settings::{self, Search, Settings};
use crate::survey::orphans::repair_worktrees;

/// The file of a recorded pipeline, where it says something else now.
pub fn changed_file(place: &Place, started: &PipelineStarted) -> Option<String> {
    let root = place.repo.workdir().filter(|_| started.dot_path != BUILT_IN)?;
    let name = Path::new(&started.dot_path);
    // Without the file there is nothing that could be meant instead.
    let now = PipelineFile::read(name, &root.join(name)).ok()?;
    (now.source != started.dot || now.files != started.files).then(|| started.dot_path.clone())
}

/// A recorded run that may go on.
#[derive(Debug)]
pub struct RecordedRun {
    pub places: Places,
    pub pipeline: Pipeline,
    pub built: EngineHandle,
    /// Some agent reaches its model by itself.
    alone: bool,
    simulated: bool,
}

/// What a recorded run is to go on with.
#[derive(Debug)]
pub struct GoingOn<'a> {
    pub run: &'a RunId,
    /// What it was started with.
    pub started: &'a PipelineStarted,
    /// The commits it goes on from.
    pub work: &'a Snapshot,
    /// Settings of the command line.
    pub flags: Vec<(String, String, String)>,
    pub answers: Answers,
    /// The engine of another run that goes on at the same time.
    pub beside: Option<&'a EngineHandle>,
}

impl RecordedRun {
    /// Checks and approves what the run needs, and builds its engine. Nothing is written for it.
    pub fn prepare(globals: &Globals, local: Settings, place: Place, on: GoingOn<'_>) -> Result<Self, Failure> {
        let GoingOn { run, started, work, flags, answers, beside } = on;
        let pipeline = recorded_pipeline(started).map_err(|error| of_engine(&error))?;
        check_answers(&[&pipeline], None, &answers)?;
        let search = Search::with(globals, &globals.dir, flags.into_iter());
        let mut resolved = Resolved::resume(&started.config, &local.resolved, search.flag_layer())
            .map_err(|errors| settings::failure(&errors, &globals.dir))?;
        warn_of_kept(run, &resolved, &local.resolved);
        if started.simulated {
            // Older records have no agent then.
            resolved.config.agent.get_or_insert(AgentChoice::Simulation.into());
        }
        refuse_unknown_agent(run, &resolved.config)?;
        let settings = Settings { resolved, ..local };
        let places = Places::of_session(place, started, &settings)?;
        check_repos(&pipeline, &places)?;
        let stand = |(place, head): (_, _)| {
            let place: &Place = place;
            (place, work.get(&place.name).copied().unwrap_or(head))
        };
        let from: Vec<_> = places.heads()?.into_iter().map(stand).collect();
        let record = Source::named(Precedence::Recorded, format!("as session {run} recorded it"));
        let inputs = for_inputs(&started.inputs, &record);
        require_trust(globals, &settings, &from, &pipeline, &started.dot_path, inputs)?;
        refuse_continued(&settings, &places.record, run)?;
        let built = build_beside(globals, &settings, &settings.resolved.config, answers, beside)?;
        let alone = any_unproxied(&pipeline, &built.engine.agents);
        if started.simulated {
            warn_simulated();
        }
        check_agents(&pipeline, &built.engine.agents)?;
        check_prices(&built.engine, [&pipeline])?;
        places.all().for_each(|place| show_git_progress(globals, &place.repo));
        let is_own = |owner: &WorktreeOwner| matches!(owner, WorktreeOwner::Session { session, context, .. } if *session == run.session && run.has(context));
        repair_worktrees(&places, &settings, is_own);
        Ok(Self { places, pipeline, built, alone, simulated: started.simulated })
    }

    /// The sandbox of its agents.
    pub fn protection(&self) -> Protection<'_> {
        Protection { chosen: &self.built.protection, alone: self.alone, simulated: self.simulated }
    }
}

/// The most settings that are named in a warning.
const NAMED: usize = 5;

/// Says which settings of pleach.yaml the run does without.
fn warn_of_kept(run: &RunId, resumed: &Resolved, local: &Resolved) {
    let kept = resumed.kept_from_start(local);
    if !kept.is_empty() {
        let keys = listed(kept.iter().map(|key| format!("`{key}`")), NAMED);
        warning!(
            SettingsChanged,
            "pleach.yaml has another {keys} now: session {run} keeps the settings it started with; a new `pleach run` uses today's"
        );
    }
}

/// A record has no secrets, so an agent whose command had one cannot be started from it.
fn refuse_unknown_agent(run: &RunId, config: &Config) -> Result<(), Failure> {
    let agent = config.agent.as_ref().map(ToString::to_string).filter(|agent| is_marked(agent));
    match agent {
        None => Ok(()),
        Some(agent) => {
            let message = format!("the record of session {run} leaves a secret out of its agent: `{agent}`");
            let hint = "start a new run with an agent whose command holds no secret";
            Err(Failure::new(Code::SecretFound, message).hint(hint))
        }
    }
}

/// Why a run was not opened. One that is running can be paused first.
pub fn of_opening(run: &RunId, error: &engine::env::Error) -> Failure {
    match of_engine(error) {
        held if held.exit() == Exit::Locked => {
            held.hint(format!("wait until it ends, or pause it first with `pleach pause {run}`"))
        }
        failure => failure,
    }
}
