//! `pleach demo`

mod merging;
mod repository;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::session::{SessionRepo, StartRequest, start_session};
use git::Repo;
use git::record::History;
use pleach_core::config::Config;
use pleach_core::event::{Event, Route};
use pleach_core::ids::{RepoName, RepoPath};
use pleach_core::text::{named, shell_word};

use self::merging::merge_branches;
use self::repository::DemoRepository;
use crate::answers::Answers;
use crate::code::Code;
use crate::commands::why::{self, WhyLineArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::pipeline_file::PipelineFile;
use crate::preflight::check_pipeline;
use crate::render::tree::TreeView;
use crate::render::{Out, tokens};
use crate::runtime::block_on;
use crate::session::{Protection, build, print_session, run_to_end};
use crate::settings::{self, Search};
use crate::tree::overview::TreeContext;
use crate::tree::{Tasks, TreeArgs, work_trusted};

const CONFIG: &str = include_str!("../../demo/pleach.yaml");
const PIPELINE: &str = include_str!("../../demo/pipeline.dot");
const SCRIPT: &str = include_str!("../../demo/script.yaml");
const TEST: &str = include_str!("../../demo/test.sh");
const TREE: &str = include_str!("../../demo/task-tree.json");

/// A line that the tree's second task has come to after its test failed.
const LINE: &str = "hello.sh:1";

/// See it work, in a throw-away repository.
///
/// A small pipeline, a small task tree and a merge queue are worked: an agent plans, implements, fails its test, fixes it
/// and reviews; then three agents work at once, and a conflict
/// between two of them is resolved; then three tasks are worked one after another, each landed when it is done; then three
/// branches go through the merge queue, where an agent resolves a conflict and repairs a merge that breaks the tests; and in
/// the end pleach says why a line of it is there. The model is a script, so no key and no network are needed; everything else
/// is real: the agent's loop and tools, the worktrees, the commits, the record.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Create the repository here instead of in a temporary directory.
    #[arg(value_name = "DIR")]
    at: Option<PathBuf>,
}

pub fn run(globals: &Globals, args: DemoArgs) -> Result<Exit, Failure> {
    let dir = place(globals, args.at)?;
    let demo = DemoRepository { globals, dir: dir.clone() };
    let repo = make_repository(&demo)?;
    let search = Search::from(&dir, Some(&dir.join("pleach.yaml")));
    let settings = settings::load(globals.environment.clone(), &search)?;
    let mut config: Config = settings.resolved.config.clone();
    // What it shows stays on this machine.
    config.record.cxdb = None;
    let config = &config;
    let file = PipelineFile::read(Path::new("pipeline.dot"), &dir.join("pipeline.dot"))?;
    let pipeline = check_pipeline(globals, &file, BTreeMap::new(), config)?.pipeline;
    let built = build(globals, &settings, config, Answers::default())?;
    let request = StartRequest {
        record: SessionRepo {
            repo: repo.clone(),
            name: RepoName::new("demo").map_err(|error| Failure::new(Code::NameInvalid, error.to_string()))?,
            branch_prefix: "pleach/".into(),
            at: None,
            arrival: None,
        },
        others: Vec::new(),
        pipeline,
        dot: file.source,
        dot_path: file.name,
        files: file.files,
        inputs: BTreeMap::new(),
        config: config.recordable(),
        simulated: false,
        resolves: None,
    };
    let (exit, id) = block_on(built.stopped_by(), async {
        let session = start_session(built.engine, request, &mut |session| print_session(globals, session)).await;
        let session = session.map_err(|error| of_engine(&error))?;
        let id = session.id().clone();
        let protection = Protection { chosen: &built.protection, alone: false, simulated: false };
        Ok((run_to_end(globals, session, protection).await?, id))
    })?;
    let history = History::all(&repo, &id).map_err(|error| of_engine(&error.into()))?;
    if !globals.json {
        print_history(&repo, &history)?;
    }
    if exit != Exit::Done {
        return Ok(exit);
    }
    let exit = match work_tree(&demo)? {
        Exit::Done => merge_branches(&demo)?,
        other => other,
    };
    if !globals.json {
        explain_line(&demo)?;
        print_next_commands(&dir, &history)?;
    }
    Ok(exit)
}

/// Asks about a line that the agents have made: it was written, tested, landed and merged since.
fn explain_line(demo: &DemoRepository<'_>) -> Result<(), Failure> {
    Out::new().line(format!("\nAnd why is a line there? `pleach why {LINE}`\n"))?;
    why::run(&demo.commands("why"), WhyLineArgs::of_line(LINE))?;
    Ok(())
}

/// Works the tree, and shows what happened to it.
fn work_tree(demo: &DemoRepository<'_>) -> Result<Exit, Failure> {
    let globals = demo.commands("gardener");
    let mut out = Out::new();
    if !globals.json {
        out.line("\nAnd now a tree of tasks:\n")?;
    }
    let exit = work_trusted(&globals, &TreeArgs::default(), Tasks::All { keep_going: false })?;
    if !globals.json {
        let context = TreeContext::find(&globals)?;
        let (trees, _) = context.trees(None, &mut context.reader())?;
        for tree in &trees {
            let (target, running) = (context.target.as_str(), Default::default());
            let shown = TreeView { tree, target, limits: &context.limits, whole: true, running };
            out.line(format!("\n{}", shown.text().trim_end()))?;
        }
    }
    Ok(exit)
}

fn place(globals: &Globals, asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let (dir, fixed) = match asked {
        Some(dir) => (globals.path(&dir), true),
        None => (std::env::temp_dir().join(format!("pleach-demo-{}", git::workspace::new_session_id())), false),
    };
    let taken = fixed && std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some());
    if taken {
        return Err(Failure::new(Code::OutputExists, format!("`{}` is not empty", dir.display()))
            .hint("name a directory that does not exist yet"));
    }
    std::fs::create_dir_all(&dir).map_err(|error| {
        Failure::new(Code::OutputUnwritable, format!("cannot create `{}`", dir.display())).because(&error)
    })?;
    dir.canonicalize().map_err(|error| Failure::new(Code::OutputUnwritable, "cannot use the directory").because(&error))
}

/// A repository with one commit: the tests, the pipeline, the tree, the script, the pages and the configuration.
fn make_repository(demo: &DemoRepository<'_>) -> Result<Repo, Failure> {
    let files = [
        ("pipeline.dot", PIPELINE),
        ("script.yaml", SCRIPT),
        ("test.sh", TEST),
        ("pleach.yaml", CONFIG),
        ("task-tree.json", TREE),
    ];
    demo.git(&["init", "--quiet", "--initial-branch=main"])?;
    demo.commit("A repository for the demo", &[&files[..], &merging::FILES[..]].concat())?;
    git::discover(&demo.dir, &demo.globals.environment).map_err(|error| of_engine(&error.into()))
}

/// The run as a tree of nodes, turns and commits.
fn print_history(repo: &Repo, history: &History) -> Result<(), Failure> {
    let mut out = Out::new();
    out.line("")?;
    print_context(&mut out, repo, history, "")
}

/// What a context did itself, and what its branches did.
fn print_context(out: &mut Out, repo: &Repo, history: &History, indent: &str) -> Result<(), Failure> {
    let own = history.records.iter().filter(|record| record.context == history.context);
    for event in own.flat_map(|record| &record.events).map(|recorded| &recorded.event) {
        match event {
            Event::ParallelStarted(parallel) => {
                for branch in &parallel.branches {
                    let branch = History::all_in(repo, &history.session, &branch.context);
                    let branch = branch.map_err(|error| of_engine(&error.into()))?;
                    print_context(out, repo, &branch, &format!("{indent}│  "))?;
                }
            }
            Event::WorktreeMergeConflict(conflict) => {
                let paths: Vec<&RepoPath> = conflict.paths.iter().map(|path| &path.path).collect();
                out.line(format!("{indent}├─ conflict with {} in {}", conflict.context, named(&paths)))?;
            }
            Event::NodeStarted(node) if !matches!(node.handler.as_str(), "start" | "exit") => {
                let visit = if node.visit > 1 { format!(" (visit {})", node.visit) } else { String::new() };
                out.line(format!("{indent}{}{visit}", node.node_id))?;
            }
            Event::AgentTurn(turn) => {
                let commit = turn.git_sha.as_ref().and_then(|shas| shas.get(history.started.record_repo()));
                let what = turn.commit_message.as_deref().and_then(|text| text.lines().next());
                let tools: Vec<&str> = turn.tool_calls.iter().map(|call| call.name.as_str()).collect();
                let what = what.map(str::to_owned).unwrap_or_else(|| match tools.as_slice() {
                    [] => "answer".to_owned(),
                    tools => tools.join(", "),
                });
                let commit = commit.map_or("          ".to_owned(), |id| id.short());
                out.line(format!(
                    "{indent}├─ {:<8} {commit}  {what} ({} tokens)",
                    turn.turn,
                    tokens(turn.token_usage.total())
                ))?;
            }
            Event::ToolExecution(tool) => {
                out.line(format!("{indent}├─ {:<8} {:10}  {} ({})", tool.turn, "", tool.command, tool.exit))?;
            }
            Event::NodeExecution(node) if !matches!(node.route, Route::Complete) && node.node_id != "start" => {
                let to = match &node.route {
                    Route::Edge { to } => format!(" → {to}"),
                    Route::Join { to } => format!(" ⇥ {to}"),
                    _ => String::new(),
                };
                out.line(format!("{indent}└─ {}{to}", node.outcome.status))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What to look at next.
fn print_next_commands(dir: &Path, history: &History) -> Result<(), Failure> {
    let mut out = Out::new();
    let id = &history.session;
    let branch = history.started.branches[history.started.record_repo()].as_str();
    out.line(format!("\nLook further:\n  cd {}", shell_word(dir.display())))?;
    if let Some(program) = program_elsewhere() {
        out.line(format!("  alias pleach='{}'", program.display()))?;
    }
    // The first turn that wrote something has a diff to show.
    let wrote = history.events().find_map(|recorded| match &recorded.event {
        Event::AgentTurn(turn) => turn.git_sha.as_ref().map(|_| turn.turn.to_string()),
        _ => None,
    });
    let show = wrote.map(|turn| (format!("pleach show {id}/{turn}"), "one turn: messages, tools, diff"));
    let commands = [(format!("pleach status {id}"), "the session, its turns and checkpoints")].into_iter().chain(show);
    let commands = commands.chain([
        (format!("pleach diff {id}"), "all it changed"),
        (format!("git log --stat {branch}"), "the same as git sees it"),
        ("pleach status".to_owned(), "the tree and the sessions"),
        ("pleach inspect T002".to_owned(), "a task: its steps, its failed attempt"),
        ("pleach why lib.sh".to_owned(), "each line of a file, and whose it is"),
        ("pleach merge why page".to_owned(), "a merge: its tests, and who repaired it"),
        ("git log --graph --stat".to_owned(), "the tasks and branches, which have landed here"),
    ]);
    let commands: Vec<_> = commands.collect();
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    commands.iter().try_for_each(|(command, what)| out.line(format!("  {command:width$}  # {what}")))
}

/// This program, when it was started by a path as `cargo run` does: then a shell may not find `pleach`.
fn program_elsewhere() -> Option<PathBuf> {
    let called = std::env::args_os().next().map(PathBuf::from)?;
    let by_path = called.components().count() > 1;
    by_path.then(std::env::current_exe)?.ok()
}
