//! `pleach build`

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::env::{PlannerBudget, UnmeteredAgent};
use engine::tree::{PlanError, Planner, planner_node};
use engine::trust::for_planner;
use git::Repo;
use git::workspace::Scratch;
use pleach_core::budget::BudgetLimits;
use pleach_core::event::Warning;
use pleach_core::plan::spec::{self, GivenId, SpecError};
use pleach_core::plan::tree::TaskTree;
use pleach_core::text::counted;
use serde_json::json;

use crate::answers::Answers;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{advised, of_engine, of_workspace};
use crate::next_commands::about;
use crate::render::Out;
use crate::runtime::block_on;
use crate::say;
use crate::session::{build, warn_unmetered};
use crate::settings::{self, Search, Settings};
use crate::tree::find::{NAME, shown};
use crate::trust::TerminalTruster;

/// Make a task tree from markdown.
///
/// With an agent configured, it reads the markdown files of the directory and plans the tasks; its answer is checked,
/// and requested once more if it is not valid. With --no-ai the files are read by fixed rules: phases are `## Phase N:
/// Title`, groups are deeper headings, tasks are `- [ ] T001 Title`, and dependencies are listed below `##
/// Dependencies`. Tasks without an id, as in `- [ ] Title`, are given one in order.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The directory with the markdown files.
    #[arg(long, value_name = "DIR")]
    spec_dir: PathBuf,
    /// The file to write, or the directory to write task-tree.json to; by default the directory of the spec. An
    /// existing file is only overwritten with -y.
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Read the files by fixed rules, without an agent.
    #[arg(long)]
    no_ai: bool,
    /// Write the ids of tasks that have none into the files.
    #[arg(long, requires = "no_ai")]
    write_ids: bool,
    /// The agent that plans, written as `agent` in pleach.yaml.
    #[arg(long, value_name = "AGENT", conflicts_with = "no_ai")]
    runner: Option<String>,
    /// The model that plans.
    #[arg(long, value_name = "MODEL", conflicts_with = "no_ai")]
    model: Option<String>,
}

pub fn run(globals: &Globals, args: BuildArgs) -> Result<Exit, Failure> {
    let dir = globals.path(&args.spec_dir);
    let output = args.output.as_ref().map_or_else(|| dir.join(NAME), |given| output(globals, given));
    if output.exists() && !globals.yes {
        return Err(already_exists(&output));
    }
    let settings = load_settings(globals, &dir, &args)?;
    let repo = git::discover(&dir, &settings.own_environment).ok();
    let paths = markdown_files(&args.spec_dir, &dir)?;
    let files = paths.iter().map(|path| read(&args.spec_dir, path, repo.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let (warnings, given) =
        if args.no_ai { (spec::warnings(&files), spec::given_ids(&files)) } else { (Vec::new(), Vec::new()) };
    warnings.iter().for_each(|warning| warning!(SpecUnclear, "{warning}"));
    let tree = if args.no_ai { by_rules(&files)? } else { by_agent(globals, &args, &settings, repo.as_ref(), &files)? };
    write(globals, &output, &tree)?;
    if args.write_ids {
        write_ids(&paths, &files, &given)?;
    }
    print_result(globals, &args, &output, &tree, (&warnings, &given))
}

/// The file to write: in a directory that is named instead, the usual one.
fn output(globals: &Globals, given: &Path) -> PathBuf {
    let path = globals.path(given);
    let is_directory = path.is_dir() || given.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_directory { path.join(NAME) } else { path }
}

fn load_settings(globals: &Globals, dir: &Path, args: &BuildArgs) -> Result<Settings, Failure> {
    let flags = args.runner.iter().map(|runner| ("--runner".to_owned(), "agent".to_owned(), runner.clone()));
    settings::load(globals.environment.clone(), &Search::with(globals, dir, flags))
}

/// The markdown files of a directory.
fn markdown_files(given: &Path, dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(dir)
        .map_err(|error| unreadable(given, &error).hint("--spec-dir takes a directory with markdown files"))?;
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md"));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_markdown).collect();
    // A link that leads nowhere is what an editor leaves; what is there and cannot be read would be missed.
    paths.retain(|path| path.metadata().is_ok_and(|found| !found.is_dir()));
    paths.sort();
    if paths.is_empty() {
        let message = format!("there is no markdown file in `{}`", given.display());
        return Err(
            Failure::new(Code::SpecInvalid, message).hint("`pleach help task-trees` shows how a spec is written")
        );
    }
    Ok(paths)
}

/// A markdown file: the name the tree will know it by, and its text.
fn read(given: &Path, path: &Path, repo: Option<&Repo>) -> Result<(String, String), Failure> {
    let text = os::plain_file::read(path).map_err(|error| {
        unreadable(path, &error).hint(match error.kind() {
            ErrorKind::InvalidData => "save the file as UTF-8",
            _ => "make the file readable, or take it out of the directory",
        })
    })?;
    let name = match repo.and_then(Repo::workdir) {
        Some(root) => shown(path, Some(root)),
        None => given.join(path.file_name().unwrap_or_default()).display().to_string(),
    };
    Ok((name, text))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::SpecUnreadable, format!("cannot read `{}`", path.display())).because(error)
}

/// Writes given ids into the files they are of. A reader sees the old file or the new one.
fn write_ids(paths: &[PathBuf], files: &[(String, String)], given: &[GivenId]) -> Result<(), Failure> {
    for (path, (name, text)) in paths.iter().zip(files) {
        let written = spec::with_ids(name, text, given);
        if written == *text {
            continue;
        }
        let replace = || -> std::io::Result<()> {
            // What a link leads to is written, and the link stays.
            let file = path.canonicalize()?;
            let beside = file.with_added_extension(format!("{}.new", std::process::id()));
            OpenOptions::new().write(true).create_new(true).open(&beside)?.write_all(written.as_bytes())?;
            fs::set_permissions(&beside, fs::metadata(&file)?.permissions())?;
            fs::rename(&beside, &file)
        };
        replace().map_err(|error| {
            Failure::new(Code::OutputUnwritable, format!("cannot write the ids into `{name}`"))
                .because(&error)
                .hint("the tree is written; make the file writable, or write the ids by hand")
        })?;
    }
    Ok(())
}

fn by_rules(files: &[(String, String)]) -> Result<TaskTree, Failure> {
    spec::read(files).map_err(|errors| {
        let listed: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
        let message = format!("cannot make a tree from this spec:\n{}", listed.join("\n"));
        Failure::new(Code::SpecInvalid, message).hint("`pleach help task-trees` shows how a spec is written")
    })
}

/// Has the configured agent plan the tree.
fn by_agent(
    globals: &Globals,
    args: &BuildArgs,
    settings: &Settings,
    repo: Option<&Repo>,
    files: &[(String, String)],
) -> Result<TaskTree, Failure> {
    let config = &settings.resolved.config;
    let built = build(globals, settings, config, Answers::default())?;
    let model = args.model.as_deref().or_else(|| config.tree.steps.get("implement")?.model.as_deref());
    // The planner works in a directory of its own, where nothing is that the user could have named.
    let root = repo.and_then(Repo::workdir).unwrap_or(&globals.dir);
    let agents = built.engine.agents.clone().with_programs_below(root);
    let agent = agents.configured_with(model).ok_or_else(|| {
        Failure::new(Code::NoAgent, "no agent is configured that could plan the tasks")
            .hint("set `agent:` in pleach.yaml or give --runner; --no-ai reads the files by fixed rules")
    })?;
    let agent = agent.map_err(|error| {
        Failure::new(Code::AgentMissing, error.to_string()).hint("`pleach config` shows which agents are configured")
    })?;
    let place = repo.map_or(globals.dir.as_path(), Repo::common_dir);
    TerminalTruster::of(globals, settings, place).require(for_planner(&settings.resolved, &settings.environment))?;
    // What the planner leaves there is of no use to anybody, and goes with it.
    let scratch = Scratch::make(&settings.state_dir).map_err(|error| of_workspace(&error))?;
    if globals.verbosity >= 0 {
        say!("{} plans from {}", agent.kind(), counted(files.len(), "file"));
    }
    let limits = BudgetLimits { budget: config.budget.clone(), ..BudgetLimits::default() };
    if limits.is_set() && !agent.tells_spending() {
        let name = config.agent.as_ref().map_or_else(|| agent.kind().to_owned(), ToString::to_string);
        warn_unmetered([UnmeteredAgent { agent: name, nodes: [planner_node()].into() }]);
    }
    let engine = Arc::clone(&built.engine);
    let cancel = engine.cancel.clone();
    block_on(built.stopped_by(), async {
        let timeout = config.tree.runner_timeout.map(Duration::from_secs);
        let sandbox = engine.sandbox.as_ref();
        let mut purse = PlannerBudget::new(&engine.budget, repo, &engine.redactor);
        let mut warn = |warning: Warning| say::warn(&warning);
        let planner = Planner { agent: &*agent, dir: scratch.path(), model, timeout, sandbox, cancel: &cancel };
        planner.plan(files, &mut purse, &mut warn).await.map_err(|error| failure(&error))
    })
}

fn failure(error: &PlanError) -> Failure {
    match error {
        PlanError::Refused(errors) => {
            let listed: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
            Failure::new(Code::PlanRefused, format!("{error}:\n{}", listed.join("\n")))
                .hint("nothing was written; make the spec clearer, or read it by fixed rules with --no-ai")
        }
        PlanError::Stopped => {
            Failure::new(Code::PlanInterrupted, error.to_string()).hint("nothing was written; run it again")
        }
        PlanError::OverBudget { over, pauses } => {
            let code = if *pauses { Code::BudgetPaused } else { Code::BudgetReached };
            let day = if over.limit.scope() == "day" { ", or wait until tomorrow" } else { "" };
            Failure::new(code, error.to_string())
                .hint(format!("nothing was written; raise it and run again{day}; --no-ai needs no agent"))
        }
        PlanError::Engine(error) => of_engine(error),
        // It is no attempt that counts, so it may be asked again whatever was answered before.
        PlanError::Agent(stuck) if stuck.is_stuck(false) => {
            let failure = advised(Code::PlannerUnusable, error);
            let how = failure.hint.clone().unwrap_or_else(|| "fix it".to_owned());
            failure.hint(format!("{how}; then run it again: nothing was written; --no-ai needs no agent"))
        }
        PlanError::Agent(_) | PlanError::Limit(_) => {
            Failure::new(Code::PlannerFailed, error.to_string()).hint("nothing was written; --no-ai needs no agent")
        }
    }
}

fn already_exists(output: &Path) -> Failure {
    Failure::new(Code::OutputExists, format!("`{}` already exists", output.display()))
        .hint("pass -y to overwrite it, or another file with -o")
}

fn write(globals: &Globals, output: &Path, tree: &TaskTree) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    // Somebody may have made the file meanwhile.
    if globals.yes {
        options.write(true).create(true).truncate(true)
    } else {
        options.write(true).create_new(true)
    };
    let written = options.open(output).and_then(|mut file| file.write_all(tree.write().as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => already_exists(output),
        _ => Failure::new(Code::OutputUnwritable, format!("cannot write `{}`", output.display()))
            .because(&error)
            .hint("pass -o with a file in a directory that exists and can be written to"),
    })
}

fn print_result(
    globals: &Globals,
    args: &BuildArgs,
    output: &Path,
    tree: &TaskTree,
    (warnings, given): (&[SpecError], &[GivenId]),
) -> Result<Exit, Failure> {
    let shown = settings::shortened(output, &globals.dir).display().to_string();
    let tasks = tree.order().len();
    let phases = tree.roots().iter().filter(|root| !tree.is_leaf(root)).count();
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({
            "tree": shown, "tasks": tasks, "phases": phases, "planned": !args.no_ai, "order": tree.order(),
            "spec_files": tree.spec_files(), "given_ids": given, "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let within = if phases == 0 { String::new() } else { format!(" in {}", counted(phases, "phase")) };
    out.line(format!("wrote {shown}: {}{within}", counted(tasks, "task")))?;
    if let [first, .., last] | [first @ last] = given {
        let ids = if first == last { first.id.to_string() } else { format!("{} to {}", first.id, last.id) };
        let of = counted(given.len(), "task");
        out.line(if args.write_ids {
            format!("ids:     {of} had none; {ids} written into the markdown")
        } else {
            format!("ids:     {of} had none and got {ids}; a new line may change them, --write-ids keeps them")
        })?;
    }
    if globals.verbosity >= 0 {
        for (what, command) in [("look", "status"), ("work", "gardener")] {
            out.line(format!("{what}:    {}", about(globals, &globals.dir, command, Some(output))))?;
        }
    }
    Ok(Exit::Done)
}
