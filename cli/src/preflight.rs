//! Checks before a pipeline runs: diagnostics, agents, prices, and approval.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use agents::agent::{CliAgent, Roster};
use engine::env::{Engine, Question};
use engine::landing::known_tip_test;
use engine::trust::{TrustItem, TrustScope};
use git::Repo;
use git::workspace::GuardWatch;
use pleach_core::config::{Config, InvalidAgent};
use pleach_core::ids::{BranchName, CommitId, ContextId, RepoPath};
use pleach_core::plan::diagnostic::Severity;
use pleach_core::plan::pipeline::{HandlerKind, Node, Pipeline};
use pleach_core::plan::tree::TaskTree;
use pleach_core::plan::{self, lint};
use pleach_core::queue::EntryTest;
use pleach_core::text::{counted, listed, shell_word};
use serde_json::Value;

use crate::answers::Answers;
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_trust};
use crate::pipeline_file::{PipelineFile, known};
use crate::place::{Place, Places};
use crate::queue_settings::queue_settings;
use crate::render::Source;
use crate::session::SIMULATED;
use crate::settings::Settings;
use crate::survey::known_agents::default_agent;
use crate::trust::TerminalTruster;

/// Says that a test fails already on the branch that is to be worked on, where that is known: nothing is run for it.
pub fn warn_of_red_target(settings: &Settings, place: &Place, target: &BranchName, commit: CommitId, command: &str) {
    let (config, queue) = (&settings.resolved.config, queue_settings(settings, place));
    let timeouts = BTreeSet::from([config.merge.test_timeout, config.tree.test_timeout]);
    let known = |timeout| {
        let test = EntryTest { command: command.to_owned(), timeout };
        known_tip_test(&place.repo, target, commit, &test, &queue).ok().flatten()
    };
    if let Some(red) = timeouts.into_iter().find_map(known).filter(|known| !known.passed) {
        warning!(TargetRed, "`{command}` already fails on `{target}` ({}), before anything is changed", red.exit);
    }
}

/// A pipeline that can be run.
#[derive(Debug)]
pub struct Runnable {
    pub pipeline: Pipeline,
    /// Its diagnostics, for `--json`.
    pub diagnostics: Vec<Value>,
}

/// The pipeline of a file, unless it has errors. All diagnostics are shown, with `--json` as JSON.
pub fn check_pipeline(
    globals: &Globals,
    file: &PipelineFile,
    values: BTreeMap<String, String>,
    config: &Config,
) -> Result<Runnable, Failure> {
    let (pipeline, mut found) = plan::validate(&file.source, &file.inputs(values), &known(config));
    if let Some(pipeline) = &pipeline {
        found.extend(lint::unsupported(pipeline));
    }
    let errors = found.iter().filter(|found| found.is_error()).count();
    let source = Source::new(&file.name, &file.source);
    let least = if globals.verbosity > 0 { Severity::Note } else { Severity::Warning };
    found.retain(|found| found.is_error() || (globals.verbosity >= 0 && found.severity <= least));
    if !globals.json {
        found.iter().for_each(|found| say!("{}\n", source.show(found)));
    }
    let diagnostics: Vec<Value> = found.iter().map(|found| source.json(found)).collect();
    match pipeline.filter(|_| errors == 0) {
        Some(pipeline) => Ok(Runnable { pipeline, diagnostics }),
        None => {
            let errors = counted(errors, "error");
            let failure = if file.is_built_in {
                Failure::new(Code::PipelineInvalid, format!("the built-in pipeline cannot be run: {errors}"))
                    .hint("its agent and its test come from the settings, which `pleach config` shows")
            } else {
                Failure::new(Code::PipelineInvalid, format!("`{}` cannot be run: {errors}", file.name))
                    .hint(format!("fix the errors above, then run `pleach validate {}`", shell_word(&file.name)))
            };
            Err(failure.diagnosed(diagnostics))
        }
    }
}

/// An answer to a gate the pipeline does not have, or that is not one of its choices, would stop the run halfway. In a run
/// over a tree a gate may be named with one of its `tasks`.
pub fn check_answers(pipelines: &[&Pipeline], tasks: Option<&TaskTree>, answers: &Answers) -> Result<(), Failure> {
    let questions: Vec<Question> = pipelines.iter().flat_map(|pipeline| questions(pipeline)).collect();
    // The gate of a branch may be named with its context.
    let asked = |name: &str| {
        let node = name.rsplit_once('/').map_or(name, |(_, node)| node);
        questions.iter().filter(|question| question.node == node).collect::<Vec<_>>()
    };
    if let Some(unknown) = answers.named.iter().find(|name| asked(name).is_empty()) {
        let names: Vec<&str> = questions.iter().map(|question| question.node.as_str()).collect();
        let hint =
            if names.is_empty() { "it has no gates".to_owned() } else { format!("its gates: {}", names.join(", ")) };
        return Err(Failure::new(Code::NoSuchGate, format!("the pipeline has no gate `{unknown}`")).hint(hint));
    }
    let is_task = |name: &str| tasks.is_some_and(|tree| name.parse().is_ok_and(|id| tree.is_leaf(&id)));
    let is_context = |name: &str| pipelines.iter().any(|pipeline| may_be_context(pipeline, name));
    let is_place = |place: &str| match place.split_once('/') {
        Some((task, context)) => is_task(task) && is_context(context),
        None => is_task(place) || is_context(place),
    };
    let places = answers.named.iter().filter_map(|name| name.rsplit_once('/').map(|(place, _)| (name, place)));
    if let Some((name, place)) = places.into_iter().find(|(_, place)| !is_place(place)) {
        let (what, hint) = match tasks {
            Some(_) => ("task or branch", "write it as TASK/NODE, TASK/CONTEXT/NODE or NODE"),
            None => ("branch", "a branch is named after its first node: CONTEXT/NODE"),
        };
        let message = format!("`{name}` is no gate: there is no {what} `{place}`");
        return Err(Failure::new(Code::NoSuchGate, message).hint(hint));
    }
    // A file may answer for several pipelines, and one gate may be in several: then one of them has to have the choice.
    for (name, given) in &answers.given {
        for text in given.texts() {
            let mut refused = asked(name).into_iter().map(|question| question.refused(text));
            if let Some(Some(error)) = refused.next()
                && refused.all(|error| error.is_some())
            {
                return Err(of_engine(&error));
            }
        }
    }
    Ok(())
}

/// Whether a context of a pipeline's run may have this name: that of the first node of a branch, with a number from its
/// second visit on, behind those of the branches it is in.
fn may_be_context(pipeline: &Pipeline, name: &str) -> bool {
    let fan_outs = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Parallel);
    let first =
        fan_outs.flat_map(|node| pipeline.outgoing(&node.id)).map(|edge| ContextId::of_node(&edge.to).to_string());
    is_made_of(&first.collect(), name)
}

fn is_made_of(names: &BTreeSet<String>, text: &str) -> bool {
    names.iter().filter_map(|name| text.strip_prefix(name.as_str())).any(|rest| {
        let Some(inner) = rest.strip_prefix('-') else { return rest.is_empty() };
        let after_number = inner.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let is_numbered = after_number.len() < inner.len();
        let is_last = is_numbered && after_number.is_empty();
        let is_outer = || is_numbered && after_number.strip_prefix('-').is_some_and(|inner| is_made_of(names, inner));
        is_last || is_outer() || is_made_of(names, inner)
    })
}

/// The questions of a pipeline's gates.
fn questions(pipeline: &Pipeline) -> impl Iterator<Item = Question> {
    let gates = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::WaitHuman);
    gates.map(|gate| Question::of(pipeline, gate, 1))
}

/// Gives a run its agent where some of its nodes have none.
pub fn choose_agent(settings: &mut Settings, pipeline: &Pipeline) -> Result<(), Failure> {
    let config = &settings.resolved.config;
    let lacks_agent = |node: &Node| config.agent_of(node.agent.as_deref()) == Err(InvalidAgent::Unset);
    if pipeline.agent_nodes().any(lacks_agent) {
        settings.resolved.config.agent = default_agent(settings)?.parse().ok();
    }
    Ok(())
}

/// A node without a usable agent would end the run there and waste everything before it.
pub fn check_agents(pipeline: &Pipeline, agents: &Roster) -> Result<(), Failure> {
    for node in pipeline.agent_nodes() {
        let cannot = |source| of_engine(&engine::env::Error::Agent { node: node.id.clone(), source });
        let agent = agents.of(node).map_err(cannot)?;
        if let Some((why, how)) = agent.as_program().and_then(CliAgent::unpaid) {
            let failure = Failure::new(Code::AgentUnpaid, format!("`{}` cannot be worked on: {why}", node.id));
            return Err(failure.hint(format!("{how}; `pleach help agents` says how to choose between them")));
        }
    }
    Ok(())
}

/// A limit in dollars could not hold where the price of a model is not known.
pub fn check_prices<P: Borrow<Pipeline>>(
    engine: &Engine,
    pipelines: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    match engine.unpriced(pipelines) {
        Some(unpriced) => Err(Failure::new(Code::PriceUnknown, unpriced.to_string())),
        None => Ok(()),
    }
}

/// Whether some agent of a pipeline reaches its model by itself.
pub fn any_unproxied(pipeline: &Pipeline, agents: &Roster) -> bool {
    pipeline.agent_nodes().any(|node| agents.of(node).is_ok_and(|agent| agent.needs_network()))
}

/// Asks for trust in every command that would be run and came with the repository. `from` is where agents start, `inputs`
/// what a record brings along.
pub fn require_trust(
    globals: &Globals,
    settings: &Settings,
    from: &[(&Place, CommitId)],
    pipeline: &Pipeline,
    file: &str,
    inputs: Vec<TrustItem>,
) -> Result<(), Failure> {
    let Settings { resolved, environment, state_dir, .. } = settings;
    let ((place, first), others) = from.split_first().expect("a session has a repository");
    let scope = TrustScope { repo: &place.repo, resolved, environment, state_dir };
    let mut items = scope.for_pipeline(*first, pipeline, file, inputs).map_err(|error| of_trust(&error))?;
    for (other, commit) in others {
        let scope = TrustScope { repo: &other.repo, ..scope };
        items.extend(scope.for_further_repo(*commit, pipeline).map_err(|error| of_trust(&error))?);
    }
    TerminalTruster::of(globals, settings, place.repo.common_dir()).require(items)
}

/// A node that names a repository works there, so it has to be one of the session.
pub fn check_repos(pipeline: &Pipeline, places: &Places) -> Result<(), Failure> {
    let is_known = |repo: &&str| places.all().any(|place| place.name.as_str() == *repo);
    let unknown =
        |node: &Node| Some((node.id.clone(), node.repo.as_deref().filter(|repo| !is_known(repo))?.to_owned()));
    let Some((node, repo)) = pipeline.nodes().iter().find_map(unknown) else { return Ok(()) };
    let known = listed(places.all().map(|place| format!("`{}`", place.name)), usize::MAX);
    let message = format!("`{node}` works in the repository `{repo}`, which the session does not have");
    Err(Failure::new(Code::NoSuchRepo, message).hint(format!("it has {known}; `workspace.repos` names them")))
}

/// Agents start from the last commit: what is not committed they do not see.
pub fn warn_of_dirty_files(globals: &Globals, places: &Places) -> Result<(), Failure> {
    places.all().try_for_each(|place| warn_of_dirty_files_in(globals, place, places))
}

fn warn_of_dirty_files_in(globals: &Globals, place: &Place, places: &Places) -> Result<(), Failure> {
    let failed = |error: git::workspace::Error| of_engine(&error.into());
    let found = GuardWatch::new(&place.repo).and_then(|mut watch| watch.uncommitted()).map_err(failed)?;
    if globals.verbosity < 0 {
        return Ok(());
    }
    let at = if places.others.is_empty() { String::new() } else { format!(" in `{}`", place.name) };
    if !found.paths.is_empty() {
        let names = listed(found.paths.iter().map(|path| format!("`{path}`")), 5);
        warning!(DirtyFiles, "agents will not see these uncommitted files{at}: {names}");
    }
    // The repositories of a workspace may lie inside one another.
    let is_worked = |path: &RepoPath| {
        let nested = place.repo.workdir().map(|dir| dir.join(OsStr::from_bytes(path.as_bytes())));
        nested.is_some() && places.all().any(|other| other.repo.workdir() == nested.as_deref())
    };
    let nested: Vec<_> = found.nested.iter().filter(|path| !is_worked(path)).map(|path| format!("`{path}`")).collect();
    if !nested.is_empty() {
        let names = listed(nested, 5);
        warning!(
            NestedRepository,
            "agents will not see these repositories inside the repository{at}: {names}; list them in \
             `workspace.repos` to work in them too"
        );
    }
    Ok(())
}

/// Bookkeeping commits need nothing from the user, which is worth a line where the user's own commits do more.
pub fn warn_of_skipped(globals: &Globals, repo: &Repo, settings: &Settings) -> Result<(), Failure> {
    let skipped = git::skipped(repo, &settings.own_environment).map_err(|error| of_engine(&error.into()))?;
    if let Some(words) = skipped.in_words().filter(|_| globals.verbosity >= 0) {
        warning!(HooksSkipped, "{words}; check what you merge before you push it");
    }
    Ok(())
}

/// Said before everything else and again at the end.
pub fn warn_simulated() {
    warning!(Simulation, "{SIMULATED}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_known_by_the_nodes_they_start_at() {
        let names = BTreeSet::from(["api", "x", "a-b"].map(str::to_owned));
        for name in ["api", "x", "api-2", "api-x", "api-2-x-3", "a-b", "a-b-12-api"] {
            assert!(is_made_of(&names, name), "{name}");
        }
        for name in ["", "ap", "apix", "api-", "api-2x", "api-y", "2", "a", "x-2-"] {
            assert!(!is_made_of(&names, name), "{name}");
        }
    }
}
