//! `pleach run`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agents::agent::Roster;
use clap::Args;
use engine::session::{ReplayOptions, RunPoint, StartRequest, start_session};
use engine::trust::for_inputs;
use git::record::CutTarget;
use pleach_core::config::{AgentChoice, Precedence, Source as Origin};
use pleach_core::plan::pipeline::{HandlerKind, Node, Pipeline};
use pleach_core::text::{first_line, listed};
use serde_json::{Value, json};

use crate::answers::AnswerArgs;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::joint_landing::finish_landings;
use crate::lib_errors::of_engine;
use crate::pipeline_file::PipelineFile;
use crate::place::{Place, Places};
use crate::preflight::{
    Runnable, any_unproxied, check_agents, check_answers, check_pipeline, check_prices, check_repos, choose_agent,
    require_trust, warn_of_dirty_files, warn_of_red_target, warn_of_skipped, warn_simulated,
};
use crate::prompt;
use crate::remotes::{SessionStart, clone_missing, fetched_starts, local_starts, warn_of_unpushed_records};
use crate::render::node::kind;
use crate::render::{Out, show_git_progress};
use crate::runtime::block_on;
use crate::session::{
    EngineHandle, Protection, build, build_beside, print_agents, print_session, run_to_end, warn_unmetered,
};
use crate::sessions::SessionGround;
use crate::settings::{self, Search, Settings};
use crate::several_runs::{PlannedRun, RunVariant, RunsAtOnce, SeveralArgs};
use crate::survey::orphans::repair_worktrees;
use crate::trust::TerminalTruster;

/// Run a prompt or a pipeline on this repository.
///
/// A prompt such as "Fix the failing test" runs the built-in pipeline: an agent does what is asked, `test_command`
/// tests it where it is set, and an agent reviews it. The session gets its own branch and worktree; your checkout is
/// never touched. Every turn of an agent that changes files becomes a commit on the branch. Interrupt it with Ctrl-C at
/// any time: `pleach resume` continues.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt, in quotes; `-` reads it from standard input, `@FILE` from a file. Or a pipeline, a DOT file.
    #[arg(value_name = "PROMPT|FILE")]
    file: PathBuf,
    /// Inputs: values for the variables of the pipeline.
    #[arg(value_name = "KEY=VALUE")]
    inputs: Vec<String>,
    /// Run in the repository at this path.
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    #[command(flatten)]
    several: SeveralArgs,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    answers: AnswerArgs,
}

pub fn run(globals: &Globals, args: RunArgs) -> Result<Exit, Failure> {
    let path = globals.path(&args.file);
    let inputs = read_inputs(&args.inputs)?;
    let answers = args.answers.read(globals)?;
    let prompt = prompt::read(globals, &args.file)?;
    let prompt = prompt.as_deref();
    let below = path.parent().filter(|_| prompt.is_none()).unwrap_or(&globals.dir);
    let variants = args.several.variants()?;
    let load = |variant: &RunVariant| {
        let search = Search::with(globals, below, variant.flags().into_iter());
        Ok::<_, Failure>(settings::load(globals.environment.clone(), &search)?.deepening(!args.dry_run))
    };
    let mut settings = load(&variants[0])?;
    let file = match prompt {
        None => PipelineFile::read_given(&args.file, &path)
            .map_err(|failure| prompt::with_prompt_hint(&args.file, &path, failure))?,
        Some(prompt) => prompt::pipeline(prompt, &settings.resolved.config),
    };
    // A repository that is given by its path is taken as it is.
    let is_as_it_is = args.dry_run || args.repo.is_some();
    let cloned = if is_as_it_is { BTreeSet::new() } else { clone_missing(globals, &settings)? };
    let places = Places::find(&globals.dir, args.repo.map(|repo| globals.path(&repo)), &settings)?;
    let place = &places.record;
    if !args.dry_run {
        finish_landings(globals, &settings, place, None);
    }
    let starts =
        if is_as_it_is { local_starts(&places)? } else { fetched_starts(globals, &settings, &places, &cloned)? };
    let inputs = match prompt {
        None => inputs,
        Some(prompt) => prompt::inputs(prompt, starts[0].at.commit, inputs),
    };
    let Runnable { pipeline, diagnostics } = check_pipeline(globals, &file, inputs.clone(), &settings.resolved.config)?;
    choose_agent(&mut settings, &pipeline)?;
    let config = &settings.resolved.config;
    check_answers(&[&pipeline], None, &answers)?;
    check_repos(&pipeline, &places)?;
    if !args.dry_run {
        let starts: Vec<_> = starts.iter().map(|start| (start.place, start.at.commit)).collect();
        require_trust(globals, &settings, &starts, &pipeline, &file.name, Vec::new())?;
        agree_to_inputs(globals, &settings, place, &inputs)?;
    }
    let built = build(globals, &settings, config, answers.clone())?;
    let agents = &built.engine.agents;
    let simulated = pipeline.agent_nodes().any(|node| agents.simulates(node));
    check_agents(&pipeline, agents)?;
    check_prices(&built.engine, [&pipeline])?;
    // Before anything is written it is known that all runs can begin.
    let mut others: Vec<(&RunVariant, EngineHandle)> = Vec::new();
    for variant in &variants[1..] {
        if *variant == variants[0] || others.iter().any(|(known, _)| *known == variant) {
            continue;
        }
        let mut settings = load(variant)?;
        choose_agent(&mut settings, &pipeline)?;
        if !args.dry_run {
            let starts: Vec<_> = starts.iter().map(|start| (start.place, start.at.commit)).collect();
            require_trust(globals, &settings, &starts, &pipeline, &file.name, Vec::new())?;
        }
        let other = build_beside(globals, &settings, &settings.resolved.config, answers.clone(), Some(&built))?;
        check_agents(&pipeline, &other.engine.agents)?;
        check_prices(&other.engine, [&pipeline])?;
        if pipeline.agent_nodes().any(|node| other.engine.agents.simulates(node)) != simulated {
            return Err(Failure::new(Code::OptionConflict, "simulated agents do not run beside real ones")
                .hint("leave `--agent simulation` out, or the other agents"));
        }
        others.push((variant, other));
    }
    if simulated {
        warn_simulated();
    }
    if args.dry_run {
        return dry_run(globals, &pipeline, &places, agents, &diagnostics);
    }
    if globals.json {
        let mut out = Out::new();
        diagnostics.iter().try_for_each(|found| out.json(&json!({"v": 1, "type": "Diagnostic", "data": found})))?;
    }
    let alone = any_unproxied(&pipeline, agents);
    warn_of_unused_inputs(&file.source, &inputs);
    for place in places.all() {
        show_git_progress(globals, &place.repo);
        warn_of_skipped(globals, &place.repo, &settings)?;
    }
    warn_of_unpushed_records(globals, config);
    warn_of_dirty_files(globals, &places)?;
    let target = starts[0].at.branch.as_ref().filter(|_| prompt.is_some());
    if let (Some(target), Some(command)) = (target, config.test_of_work()) {
        warn_of_red_target(&settings, place, target, starts[0].at.commit, command);
    }
    repair_worktrees(&places, &settings, |_| false);
    let place_root = place.repo.workdir().map(Path::to_owned);
    let workers: Vec<Node> = pipeline.agent_nodes().cloned().collect();
    let unheld = built.engine.unmetered([&pipeline]);
    let request = StartRequest {
        record: starts[0].to_repo(),
        others: starts[1..].iter().map(SessionStart::to_repo).collect(),
        simulated,
        resolves: None,
        pipeline,
        dot: file.source,
        dot_path: match prompt {
            None => shown_path(&path, place_root.as_deref()),
            Some(_) => file.name,
        },
        files: file.files,
        inputs,
        config: config.recordable(),
    };
    let protection = Protection { chosen: &built.protection, alone, simulated };
    block_on(built.stopped_by(), async {
        print_agents(globals, &built.engine, &workers).await;
        warn_unmetered(unheld);
        for (_, other) in &others {
            print_agents(globals, &other.engine, &workers).await;
            warn_unmetered(other.engine.unmetered([&request.pipeline]));
        }
        let pipeline = request.pipeline.clone();
        let session =
            start_session(Arc::clone(&built.engine), request, &mut |session| print_session(globals, session)).await;
        let session = session.map_err(|error| of_engine(&error))?;
        if variants.len() == 1 {
            return run_to_end(globals, session, protection).await;
        }
        let point = RunPoint::find(&places.repos(), session.run(), &CutTarget::Start, None);
        let point = Arc::new(point.map_err(|error| of_engine(&error))?);
        let plan = |variant: &RunVariant| {
            let other = others.iter().find(|(known, _)| *known == variant).map(|(_, other)| other);
            let (of, changes) = other.map_or((&built, Default::default()), |other| (other, variant.changes()));
            let alone = any_unproxied(&pipeline, &of.engine.agents);
            PlannedRun {
                engine: Arc::clone(&of.engine),
                repos: places.repos(),
                options: ReplayOptions { changes, ..ReplayOptions::default() },
                protection: Protection { chosen: &of.protection, alone, simulated },
            }
        };
        let planned = variants[1..].iter().map(plan).collect();
        let ground = SessionGround { settings: settings.clone(), place: places.record.clone() };
        let at_once = args.several.at_once as usize;
        let runs = RunsAtOnce { globals, ground: &ground, point, at_once };
        runs.run(Some((session, protection)), planned).await
    })
}

/// The pipeline's path as records have it: from the root of the repository, or its name alone when it is elsewhere.
fn shown_path(path: &Path, root: Option<&Path>) -> String {
    let (path, root) = (path.canonicalize().ok(), root.and_then(|root| root.canonicalize().ok()));
    let below = path.as_deref().zip(root.as_deref()).and_then(|(path, root)| path.strip_prefix(root).ok());
    let shown = below.or_else(|| path.as_deref()?.file_name().map(Path::new));
    shown.unwrap_or(Path::new("pipeline.dot")).display().to_string()
}

fn warn_of_unused_inputs(source: &str, inputs: &BTreeMap<String, String>) {
    let unused: Vec<&str> = inputs.keys().map(String::as_str).filter(|key| !source.contains(key)).collect();
    match unused.as_slice() {
        [] => {}
        [one] => warning!(UnusedInput, "the pipeline does not use the input `{one}`"),
        several => warning!(
            UnusedInput,
            "the pipeline does not use the inputs {}",
            listed(several.iter().map(|key| format!("`{key}`")), 10)
        ),
    }
}

pub fn read_inputs(inputs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let read = |input: &String| {
        let (key, value) = input.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            Failure::new(Code::InputMalformed, format!("`{input}` is not KEY=VALUE"))
                .hint("quote a prompt: `pleach run \"Fix the failing test\"`; values are given as `pleach run FILE.dot name=value`")
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    inputs.iter().map(read).collect()
}

/// What the user gives here they are not asked about when the session continues, which only has them from its record.
fn agree_to_inputs(
    globals: &Globals,
    settings: &Settings,
    place: &Place,
    inputs: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let here = Origin::named(Precedence::Flag, "given to `pleach run`");
    let user = TerminalTruster::of(globals, settings, place.repo.common_dir());
    user.keep_given(for_inputs(inputs, &here), &settings.redactor())
}

/// The pipeline and its agents, without running it.
fn dry_run(
    globals: &Globals,
    pipeline: &Pipeline,
    places: &Places,
    agents: &Roster,
    diagnostics: &[Value],
) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let starts = places.heads()?;
    let name = pipeline.name().map_err(|error| Failure::new(Code::NameInvalid, error.to_string()))?;
    if globals.json {
        let nodes: Vec<Value> = pipeline.nodes().iter().map(|node| planned(pipeline, node, agents)).collect();
        let (place, base) = &starts[0];
        let repos: Vec<Value> = starts
            .iter()
            .map(|(place, base)| json!({"repo": place.name, "base": base, "branch_prefix": place.branch_prefix}))
            .collect();
        out.json(&json!({
            "pipeline": name, "repo": place.name, "base": base, "branch_prefix": place.branch_prefix,
            "repos": repos, "nodes": nodes, "diagnostics": diagnostics,
        }))?;
        return Ok(Exit::Done);
    }
    let on: Vec<String> = starts.iter().map(|(place, base)| format!("`{}` at {}", place.name, base.short())).collect();
    out.line(format!("would run `{name}` on {}", listed(on, usize::MAX)))?;
    for (place, _) in &starts {
        let at = if starts.len() > 1 { format!(" in {}", place.name) } else { String::new() };
        out.line(format!("branch {}{name}/SESSION{at}", place.branch_prefix))?;
    }
    let mut printed = Vec::new();
    for agent in pipeline.agent_nodes().filter_map(|node| agents.at_a_glance(node)) {
        if !printed.contains(&agent) {
            out.line(&agent)?;
            printed.push(agent);
        }
    }
    for node in pipeline.nodes() {
        let by = agent_of(node, agents).map(|agent| format!(" {agent}")).unwrap_or_default();
        out.line(format!("{} ({}{by}) {}", node.id, kind(&node.handler), work_of(node)).trim_end())?;
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

/// The work of a node, in one line.
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
    let billed = agent.as_ref().and_then(|_| agents.at_a_glance(node)).map(|agent| agent.billed.to_string());
    json!({
        "id": node.id, "type": node.handler.as_str(), "agent": agent, "billed": billed, "work": work_of(node),
        "edges": edges.collect::<Vec<_>>(),
    })
}
