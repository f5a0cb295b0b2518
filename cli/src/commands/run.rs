//! `pleach run`

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pleach::agent::Roster;
use pleach::config::{AgentChoice, Config, Level, Source as Origin, Supplied, supplied, supplied_inputs};
use pleach::engine::{Session, StartRequest};
use pleach::ids::CommitId;
use pleach::plan::diagnostic::Severity;
use pleach::plan::pipeline::{HandlerKind, Node, Pipeline};
use pleach::plan::{self, lint};
use pleach::process::Canceller;
use pleach::text::{counted, first_line, listed};
use pleach::workspace::Watch;
use serde_json::{Value, json};

use crate::answers::{AnswerArgs, Answers};
use crate::commands::Globals;
use crate::exit::{Exit, Failure};
use crate::failure::of_engine;
use crate::pipeline_file::{PipelineFile, known};
use crate::render::{Out, Source};
use crate::session::{Place, SIMULATED, build, introduce, say_protection, say_unheld, see_through, stop_on_signals};
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
    check_answers([&pipeline], &answers)?;
    if !args.dry_run {
        let head = place.repo.head().map_err(|error| of_engine(&error.into()))?;
        require_trust(globals, &settings, &place, head.commit, &pipeline, &args.file, Vec::new())?;
        agree_to_inputs(&settings, &place, &inputs)?;
    }
    let built = build(&settings, config, answers)?;
    let agents = &built.engine.agents;
    let simulated = agent_nodes(&pipeline).any(|node| agents.simulates(node));
    check_agents(&pipeline, agents)?;
    if simulated {
        say_simulated();
    }
    if args.dry_run {
        return dry_run(globals, &pipeline, &place, agents);
    }
    let alone = any_alone(&pipeline, agents);
    warn_of_unused_inputs(&file.source, &inputs);
    warn_of_dirty_files(globals, &place)?;
    let place_root = place.repo.workdir().map(Path::to_owned);
    let workers: Vec<Node> = agent_nodes(&pipeline).cloned().collect();
    let unheld = built.engine.unheld([&pipeline]);
    let request = StartRequest {
        repo: place.repo,
        repo_name: place.name,
        branch_prefix: place.branch_prefix,
        simulated,
        pipeline,
        dot: file.source,
        dot_path: shown_path(&path, place_root.as_deref()),
        files: file.files,
        inputs,
        config: config.recordable(),
    };
    block_on(built.canceller, async {
        introduce(globals, &built.engine, &workers).await;
        say_unheld(unheld);
        let session = Session::start(built.engine, request).await.map_err(|error| of_engine(&error))?;
        say_protection(globals, &built.protection, alone);
        see_through(globals, session).await
    })
}

/// The pipeline's path as records have it: from the root of the repository, or its name alone when it lies elsewhere.
fn shown_path(path: &Path, root: Option<&Path>) -> String {
    let (path, root) = (path.canonicalize().ok(), root.and_then(|root| root.canonicalize().ok()));
    let below = path.as_deref().zip(root.as_deref()).and_then(|(path, root)| path.strip_prefix(root).ok());
    let shown = below.or_else(|| path.as_deref()?.file_name().map(Path::new));
    shown.unwrap_or(Path::new("pipeline.dot")).display().to_string()
}

/// An answer to a gate the pipeline does not have would be waited for in vain.
pub fn check_answers<'a>(
    pipelines: impl IntoIterator<Item = &'a Pipeline> + Clone,
    answers: &Answers,
) -> Result<(), Failure> {
    let nodes = || pipelines.clone().into_iter().flat_map(Pipeline::nodes);
    let gates = || nodes().filter(|node| node.handler == HandlerKind::WaitHuman);
    let Some(unknown) = answers.named.iter().find(|name| !gates().any(|gate| gate.id == name.as_str())) else {
        return Ok(());
    };
    let names: Vec<&str> = gates().map(|gate| gate.id.as_str()).collect();
    let hint = if names.is_empty() { "it asks nothing".to_owned() } else { format!("its gates: {}", names.join(", ")) };
    Err(Failure::new(Exit::Usage, format!("the pipeline has no gate `{unknown}`")).hint(hint))
}

/// A node nobody can work on would end the run when it comes there, with everything before it done in vain.
pub fn check_agents(pipeline: &Pipeline, agents: &Roster) -> Result<(), Failure> {
    for node in agent_nodes(pipeline) {
        let cannot = |source| of_engine(&pleach::engine::Error::Agent { node: node.id.clone(), source });
        agents.of(node).map_err(cannot)?;
    }
    Ok(())
}

/// Whether some agent of a pipeline reaches its model by itself.
pub fn any_alone(pipeline: &Pipeline, agents: &Roster) -> bool {
    agent_nodes(pipeline).any(|node| agents.of(node).is_ok_and(|agent| agent.needs_network()))
}

/// Said before everything else and again at the end.
pub fn say_simulated() {
    say!("warning: {SIMULATED}");
}

fn warn_of_unused_inputs(source: &str, inputs: &BTreeMap<String, String>) {
    for key in inputs.keys().filter(|key| !source.contains(key.as_str())) {
        say!("warning: the pipeline does not use the input `{key}`");
    }
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
        say!("{}\n", source.show(found));
    }
    pipeline.filter(|_| errors == 0).ok_or_else(|| {
        let message = format!("`{}` cannot be run: {}", file.name, counted(errors, "error"));
        Failure::new(Exit::Usage, message)
            .hint(format!("mend what is shown above; `pleach validate {}` checks again", file.name))
    })
}

/// Runs the engine's futures, and listens for Ctrl-C while they run.
pub fn block_on<T>(canceller: Canceller, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Environment, "cannot start the runtime").because(&error))?;
    let result = runtime.block_on(async {
        stop_on_signals(canceller)
            .map_err(|error| Failure::new(Exit::Environment, "cannot listen for signals").because(&error))?;
        future.await
    });
    // A thread may still wait for an answer at the terminal that is not needed any more.
    runtime.shutdown_background();
    result
}

/// The settings of a command that works below `dir`.
pub fn load_settings(globals: &Globals, dir: &Path) -> Result<Settings, Failure> {
    settings::load(globals.environment.clone(), &Search::with(globals, dir, std::iter::empty()))
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

pub fn agent_nodes(pipeline: &Pipeline) -> impl Iterator<Item = &Node> {
    pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Codergen)
}

/// What the user gives here they are not asked about when the session goes on, which only has them from its record.
fn agree_to_inputs(settings: &Settings, place: &Place, inputs: &BTreeMap<String, String>) -> Result<(), Failure> {
    let here = Origin::named(Level::Flag, "given to `pleach run`");
    let items = supplied_inputs(inputs, &here).map(TrustItem::from).collect();
    trust::agree(&trust::Store::new(&settings.state_dir), place.repo.common_dir(), items, &settings.redactor())
}

/// Asks for trust in every command that would be run and came with the repository. `from` is where agents start, `inputs`
/// what a record brings along.
pub fn require_trust(
    globals: &Globals,
    settings: &Settings,
    place: &Place,
    from: CommitId,
    pipeline: &Pipeline,
    file: &Path,
    inputs: Vec<Supplied>,
) -> Result<(), Failure> {
    let settled = supplied(&settings.resolved, &settings.environment);
    let mut items: Vec<TrustItem> = settled.into_iter().chain(inputs).map(TrustItem::from).collect();
    items.extend(pipeline.commands().into_iter().map(|command| {
        let where_from = match command.node {
            Some(node) => format!("{} of `{node}`, {}", command.attribute, file.display()),
            None => format!("{}, {}", command.attribute, file.display()),
        };
        TrustItem::command(where_from, command.text.to_owned())
    }));
    items.extend(trust::place_of_worktrees(settings, &place.repo));
    let files = place.repo.tree_of(from).map_err(|error| of_engine(&error.into()))?;
    items.extend(trust::obeyed(&place.repo, files, &settings.resolved.config, agent_nodes(pipeline))?);
    let ask = Ask { yes: globals.yes, terminal: std::io::stdin().is_terminal() && std::io::stderr().is_terminal() };
    trust::require(&trust::Store::new(&settings.state_dir), place.repo.common_dir(), items, ask)
}

/// Agents start from the last commit: what is not committed they do not see.
pub fn warn_of_dirty_files(globals: &Globals, place: &Place) -> Result<(), Failure> {
    let failed = |error: pleach::workspace::Error| of_engine(&error.into());
    let paths = Watch::new(&place.repo).and_then(|mut watch| watch.uncommitted()).map_err(failed)?;
    if paths.is_empty() || globals.verbosity < 0 {
        return Ok(());
    }
    let names = listed(paths.iter().map(|path| format!("`{path}`")), 5);
    say!("warning: not committed, so agents do not see it: {names}");
    Ok(())
}

/// What would be run, and by whom, without running it.
fn dry_run(globals: &Globals, pipeline: &Pipeline, place: &Place, agents: &Roster) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let head = place.repo.head().map_err(|error| of_engine(&error.into()))?;
    let name = pipeline.name().map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if globals.json {
        let nodes: Vec<Value> = pipeline.nodes().iter().map(|node| planned(pipeline, node, agents)).collect();
        out.json(&json!({
            "pipeline": name, "repo": place.name, "base": head.commit, "branch_prefix": place.branch_prefix,
            "nodes": nodes,
        }))?;
        return Ok(Exit::Done);
    }
    out.line(format!("would run `{name}` on `{}` at {}", place.name, head.commit.short()))?;
    out.line(format!("branch {}{name}/SESSION", place.branch_prefix))?;
    for node in pipeline.nodes() {
        let by = agent_of(node, agents).map(|agent| format!(" by {agent}")).unwrap_or_default();
        out.line(format!("{} ({}{by}) {}", node.id, node.handler.as_str(), work_of(node)).trim_end())?;
        for edge in pipeline.outgoing(&node.id) {
            let when = edge.condition.as_ref().map(|condition| format!(" when {condition}")).unwrap_or_default();
            out.line(format!("  → {}{when}", edge.to))?;
        }
    }
    Ok(Exit::Done)
}

/// The agent that would work on a node, in words; none for nodes that need none.
fn agent_of(node: &Node, agents: &Roster) -> Option<String> {
    let choice = agents.choice(node).ok().filter(|_| node.handler == HandlerKind::Codergen)?;
    Some(match choice {
        AgentChoice::Simulation => "SIMULATION".to_owned(),
        choice => choice.to_string(),
    })
}

/// What a node would do, in one line.
fn work_of(node: &Node) -> String {
    match &node.handler {
        HandlerKind::Tool => node.tool_command.clone().unwrap_or_default(),
        HandlerKind::Codergen => first_line(&node.prompt).to_owned(),
        _ => String::new(),
    }
}

fn planned(pipeline: &Pipeline, node: &Node, agents: &Roster) -> Value {
    let edges = pipeline.outgoing(&node.id).map(|edge| {
        json!({"to": edge.to, "condition": edge.condition.as_ref().map(ToString::to_string), "label": edge.label})
    });
    let agent = agents.choice(node).ok().filter(|_| node.handler == HandlerKind::Codergen);
    json!({
        "id": node.id, "type": node.handler.as_str(), "agent": agent, "work": work_of(node),
        "edges": edges.collect::<Vec<_>>(),
    })
}
