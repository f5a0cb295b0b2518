//! `pleach run`

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pleach::config::{Config, SuppliedKind, supplied};
use pleach::engine::{Session, StartRequest};
use pleach::plan::diagnostic::Severity;
use pleach::plan::pipeline::{HandlerKind, Pipeline};
use pleach::plan::{self, lint};
use pleach::workspace::Watch;

use crate::answers::AnswerArgs;
use crate::commands::Globals;
use crate::exit::{Exit, Failure};
use crate::failure::of_engine;
use crate::pipeline_file::{PipelineFile, known};
use crate::render::{Out, Source};
use crate::session::{Place, build, see_through};
use crate::settings::{self, Search, Settings};
use crate::trust::{self, Ask, TrustItem};

/// Run a pipeline on this repository.
///
/// A session branch and a working copy of its own are made; your checkout is never touched. Every turn of an agent
/// that changes files becomes a commit on the branch. Interrupt it with Ctrl-C whenever you like: `pleach resume`
/// goes on.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The pipeline, a DOT file.
    file: PathBuf,
    /// Values for the variables of the pipeline.
    #[arg(value_name = "KEY=VALUE")]
    inputs: Vec<String>,
    /// Work in the repository at this path.
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    answers: AnswerArgs,
}

pub fn run(globals: &Globals, args: RunArgs) -> Result<Exit, Failure> {
    let path = globals.path(&args.file);
    let inputs = read_inputs(&args.inputs)?;
    let answers = args.answers.read(globals)?;
    let settings = load_settings(globals, path.parent().unwrap_or(&globals.dir))?;
    let config = &settings.resolved.config;
    let file = PipelineFile::read(&args.file, &path)?;
    let pipeline = runnable(globals, &file, inputs.clone(), config)?;
    let place = Place::find(&globals.dir, args.repo.map(|repo| globals.path(&repo)), &settings)?;
    if args.dry_run {
        return dry_run(&pipeline, &place);
    }
    require_trust(globals, &settings, &place, &pipeline, &args.file)?;
    warn_of_dirty_files(globals, &place)?;
    let built = build(&settings, config, answers)?;
    let request = StartRequest {
        repo: place.repo,
        repo_name: place.name,
        branch_prefix: place.branch_prefix,
        simulated: built.engine.agents.simulates() && has_agent_nodes(&pipeline),
        pipeline,
        dot: file.source,
        dot_path: args.file.display().to_string(),
        files: file.files,
        inputs,
        config: config.recordable(),
    };
    block_on(async {
        let session = Session::start(built.engine, request).await.map_err(|error| of_engine(&error))?;
        see_through(globals, session, built.canceller).await
    })
}

/// The pipeline of a file, unless something speaks against running it. Everything found is shown.
pub fn runnable(
    globals: &Globals,
    file: &PipelineFile,
    values: BTreeMap<String, String>,
    config: &Config,
) -> Result<Pipeline, Failure> {
    let (pipeline, mut found) = plan::validate(&file.source, &file.inputs(values), &known(config));
    if let Some(pipeline) = &pipeline {
        found.extend(lint::unsupported(pipeline));
    }
    let errors = found.iter().filter(|found| found.is_error()).count();
    let source = Source::new(&file.name, &file.source);
    let least = if globals.verbosity > 0 { Severity::Note } else { Severity::Warning };
    for found in found.iter().filter(|found| found.is_error() || (globals.verbosity >= 0 && found.severity <= least)) {
        anstream::eprintln!("{}\n", source.show(found));
    }
    pipeline.filter(|_| errors == 0).ok_or_else(|| {
        let message = format!("`{}` cannot be run: {errors} errors", file.name);
        Failure::new(Exit::Usage, message).hint(format!("mend them; `pleach validate {}` checks again", file.name))
    })
}

/// Runs the engine's futures.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Environment, "cannot start the runtime").because(&error))?;
    let result = runtime.block_on(future);
    // A thread may still wait for an answer at the terminal that is not needed any more.
    runtime.shutdown_background();
    result
}

/// The settings of a command that works below `dir`.
pub fn load_settings(globals: &Globals, dir: &Path) -> Result<Settings, Failure> {
    let search =
        Search { from: dir.to_owned(), dir: globals.dir.clone(), config: globals.config.clone(), flags: Vec::new() };
    settings::load(globals.environment.clone(), &search)
}

fn read_inputs(inputs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let read = |input: &String| {
        let (key, value) = input.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`{input}` is not KEY=VALUE"))
                .hint("values for a pipeline are given as `pleach run FILE.dot name=value`")
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    inputs.iter().map(read).collect()
}

fn has_agent_nodes(pipeline: &Pipeline) -> bool {
    pipeline.nodes().iter().any(|node| node.handler == HandlerKind::Codergen && node.agent.is_none())
}

/// Asks for trust in every command that would be run and came with the repository.
pub fn require_trust(
    globals: &Globals,
    settings: &Settings,
    place: &Place,
    pipeline: &Pipeline,
    file: &Path,
) -> Result<(), Failure> {
    let mut items: Vec<TrustItem> =
        supplied(&settings.resolved, &settings.environment).into_iter().map(TrustItem::from).collect();
    items.extend(pipeline.commands().into_iter().map(|command| TrustItem {
        kind: SuppliedKind::Command,
        where_from: match command.node {
            Some(node) => format!("{} of `{node}`, {}", command.attribute, file.display()),
            None => format!("{}, {}", command.attribute, file.display()),
        },
        text: command.text.to_owned(),
    }));
    let ask = Ask { yes: globals.yes, terminal: std::io::stdin().is_terminal() && std::io::stderr().is_terminal() };
    trust::require(&trust::Store::new(&settings.state_dir), &place.repo.common_dir(), items, ask)
}

/// Agents start from the last commit: what is not committed they do not see.
fn warn_of_dirty_files(globals: &Globals, place: &Place) -> Result<(), Failure> {
    let failed = |error: pleach::workspace::Error| of_engine(&error.into());
    let changes = Watch::new(&place.repo).and_then(|mut watch| watch.changes()).map_err(failed)?;
    if changes.is_empty() || globals.verbosity < 0 {
        return Ok(());
    }
    let mut names: Vec<String> = changes.keys().take(5).map(|path| format!("`{path}`")).collect();
    if changes.len() > names.len() {
        names.push(format!("{} more", changes.len() - names.len()));
    }
    anstream::eprintln!("warning: not committed, so agents do not see it: {}", names.join(", "));
    Ok(())
}

fn dry_run(pipeline: &Pipeline, place: &Place) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let head = place.repo.head().map_err(|error| of_engine(&error.into()))?;
    let name = pipeline.name().map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    out.line(format!("would run `{name}` on `{}` at {}", place.name, head.commit.short()))?;
    out.line(format!("branch {}{name}/SESSION", place.branch_prefix))?;
    for node in pipeline.nodes() {
        let what = match &node.handler {
            HandlerKind::Tool => node.tool_command.clone().unwrap_or_default(),
            HandlerKind::Codergen => node.prompt.lines().next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        out.line(format!("{} ({}) {what}", node.id, node.handler.as_str()).trim_end())?;
        for edge in pipeline.outgoing(&node.id) {
            let when = edge.condition.as_ref().map(|condition| format!(" when {condition}")).unwrap_or_default();
            out.line(format!("  → {}{when}", edge.to))?;
        }
    }
    Ok(Exit::Done)
}
