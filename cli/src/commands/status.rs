//! `pleach status`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use engine::env::lock_name;
use engine::landing::{MergeQueue, queue_targets, unfinished_landings};
use engine::mirror::{MirrorReport, report};
use engine::tree::TreeRepo;
use engine::tree::ad_hoc::{NoAdHocTask, TaskStore, TaskView};
use engine::tree::progress::ProgressReader;
use engine::view::{
    RepoWork, RunView, SessionStatus, Sessions, Summary, View, landed, resolve_run, run_worktrees, runs,
};
use git::Repo;
use git::record::History;
use git::workspace::{Lock, LockHolder, target_of, task_lock};
use pleach_core::clock;
use pleach_core::event::Landing;
use pleach_core::ids::{BranchName, CommitId, RepoName, RunId, SessionId, TaskId};
use pleach_core::step::{TreeName, shown_name};
use pleach_core::text::{counted, shell_word};
use serde_json::{Value, json};

use crate::commands::inspect;
use crate::commands::task::{self, TaskGround};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::forecast_marks::{FORECAST_HINT, ForecastMarks};
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_no_task, of_record, of_tree};
use crate::mirror::known_mirror;
use crate::next_commands::{FIRST_RUN, about, git_in_repo, resume_task};
use crate::place::Place;
use crate::place::target;
use crate::prompt::BUILT_IN;
use crate::render::session::WorkStates;
use crate::render::tree::{RunningTask, TreeView, broken_tree_json, running};
use crate::render::{Out, Pages, pushes, question, run_tree, session as show, spent};
use crate::runtime::single;
use crate::sessions::{self, SessionGround};
use crate::settings;
use crate::tree::overview::{BrokenTree, TreeContext, TreeWithProgress};
use crate::tree::watch::{StatusPage, watch};

/// How long a mirror may take to say how far behind it is.
const MIRROR_PATIENCE: Duration = Duration::from_secs(1);

/// Show trees, open tasks and sessions, or one task or session.
///
/// A tree has a bar for each phase, its tasks that are not simply done or pending (all with -v), and what comes next or
/// blocks it. A session is running, waiting for you (a gate asks), dead (its process was killed), paused, ready to land,
/// queued (in the merge queue), landed, done (nothing to land), failed or cancelled; what is asked of you comes last,
/// with the command. `pleach resume` continues a session that is dead, paused or failed, `pleach gardener` or `pleach
/// task start` one of a task. Sessions of tasks that have ended, and those pleach started itself to resolve conflicts,
/// are only counted (listed with -v). With a session, its last 20 turns (all with -v) and their
/// checkpoints are listed with their commits; with a task, its steps. What is expected to conflict when it is merged is
/// marked; `pleach forecast` has more. A tree that is not valid is reported, and makes the exit code 2.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// A task, or a session or the beginning of its id.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// The tree; by default all of this branch.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
    /// Refresh whenever something changes. Ends when nothing runs any more, or with Ctrl-C; both are exit 0.
    #[arg(long, conflicts_with = "id")]
    watch: bool,
}

pub fn run(globals: &Globals, args: StatusArgs) -> Result<Exit, Failure> {
    let settings = settings::load_for(globals, &globals.dir)?;
    let place = Place::find(&globals.dir, None, &settings)?;
    let repo = place.repo.clone();
    let tasks = TaskGround { settings: settings.clone(), place: place.clone(), dir: globals.dir.clone() };
    let sessions = SessionGround { settings: settings.clone(), place: place.clone() };
    let context = match target(&place) {
        Ok(target) => Some(TreeContext::on(globals, settings, place, target)),
        Err(none) if args.tree.is_some() => return Err(none),
        Err(_) => None,
    };
    match &args.id {
        Some(given) if given.starts_with("task-") && args.tree.is_none() && is_ad_hoc(&repo, given)? => {
            task::show(globals, &tasks, &tasks.view(given)?)?;
        }
        Some(given) => picked(globals, &args, &repo, &sessions, context.as_ref(), given)?,
        None if args.watch => watch(globals, &repo, &mut || all(globals, &args, &sessions, context.as_ref(), &tasks))?,
        None => {
            let page = all(globals, &args, &sessions, context.as_ref(), &tasks)?;
            page.print(globals)?;
            if page.invalid {
                return Ok(Exit::Usage);
            }
        }
    }
    Ok(Exit::Done)
}

/// Whether an id is that of an ad-hoc task, or the beginning of one.
fn is_ad_hoc(repo: &Repo, given: &str) -> Result<bool, Failure> {
    match TaskStore::new(repo).find(given) {
        Err(NoAdHocTask::Unknown { .. }) => Ok(false),
        found => found.map(|_| true).map_err(of_no_task),
    }
}

/// Whether trees cannot be shown because no branch is checked out.
fn is_detached(repo: &Repo) -> bool {
    repo.head().is_ok_and(|head| head.branch.is_none())
}

/// The task or the session an id names.
fn picked(
    globals: &Globals,
    args: &StatusArgs,
    repo: &Repo,
    of_sessions: &SessionGround,
    context: Option<&TreeContext>,
    given: &str,
) -> Result<(), Failure> {
    let (trees, broken) = match context {
        Some(context) => context.trees(args.tree.as_deref(), &mut context.reader())?,
        None => Default::default(),
    };
    let with_task = |tree: &TreeWithProgress, task: &TaskId| tree.file.tree.node(task).is_some();
    if let (Some(context), Ok(task)) = (context, given.parse::<TaskId>())
        && trees.iter().any(|tree| with_task(tree, &task))
    {
        let tree = context.tree_of(args.tree.as_deref(), &task)?;
        return inspect::show(globals, context, &tree, &task);
    }
    let found = resolve_run(repo, given).map_err(|error| match (trees.is_empty(), broken.first()) {
        (true, _) if is_detached(repo) => sessions::no_session(&error).hint(
            "HEAD is detached, so no task is known; `git switch BRANCH` first; `pleach status` lists the sessions",
        ),
        (true, Some(tree)) => sessions::no_task_or_session(&error).hint(tree.cannot_be_used()),
        (true, None) => sessions::no_session(&error),
        (false, _) => sessions::no_task_or_session(&error),
    })?;
    let is_whole = globals.json || globals.verbosity > 0;
    let view = if is_whole { View::load(repo, &found) } else { View::newest(repo, &found, show::TURNS) };
    one(globals, of_sessions, &view.map_err(|error| of_engine(&error))?)
}

/// Why no tree is shown, where what is checked out has none.
fn no_trees(repo: &Repo, prefix: &str) -> Option<String> {
    let Some(branch) = repo.head().ok()?.branch else {
        return Some(
            "HEAD is detached, so no tree is shown; `git switch BRANCH` first to see those of a branch.".into(),
        );
    };
    let target = target_of(prefix, &branch)?;
    Some(format!(
        "`{branch}` gathers work for `{target}`, so no tree is shown; `git switch {}` first to see its trees.",
        shell_word(&target)
    ))
}

/// Everything there is: trees, and sessions below them.
fn all(
    globals: &Globals,
    args: &StatusArgs,
    sessions: &SessionGround,
    context: Option<&TreeContext>,
    tasks: &TaskGround,
) -> Result<StatusPage, Failure> {
    let (repo, prefix) = (&sessions.place.repo, &sessions.place.branch_prefix);
    let whole = globals.verbosity > 0;
    let mut reader = context.map(TreeContext::reader);
    let (found, broken) = match context.zip(reader.as_mut()) {
        Some((context, reader)) => context.trees(args.tree.as_deref(), reader)?,
        None => Default::default(),
    };
    let (open, landed) = if whole {
        (View::all(repo).map_err(|error| of_engine(&error))?, 0)
    } else {
        View::open(repo).map_err(|error| of_engine(&error))?
    };
    let gone = match context.zip(reader.as_mut()).filter(|_| whole) {
        Some((context, reader)) => gone(repo, &context.target, &open, reader)?,
        None => BTreeSet::new(),
    };
    let open: Vec<Listed> = open
        .into_iter()
        .map(|(id, summary)| (id.into(), summary.map_err(|error| of_engine(&error).sentence())))
        .collect();
    let mut open = with_replays(repo, open)?;
    let all_open = open.len();
    open.retain(|(_, summary)| whole || summary.as_ref().map_or(true, |summary| !summary.is_own()));
    let own = all_open - open.len();
    let worked = context.and_then(TreeContext::holder);
    let (mut tasks, unreadable) = match &args.tree {
        Some(_) => Default::default(),
        None => tasks.readable_views()?,
    };
    tasks.retain(|view| view.status.is_open());
    let unreadable: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
    let summaries = open.iter().filter_map(|(_, summary)| summary.as_ref().ok());
    let marks = ForecastMarks::find(repo, &tasks, summaries);
    let mut page = StatusPage::default();
    for (id, summary) in &open {
        if summary.as_ref().is_ok_and(|summary| summary.in_use) {
            page.locks.push(lock_name(id));
        }
    }
    if let (Some(context), Some(_)) = (context, &worked) {
        page.locks.push(git::workspace::target_lock(&context.target));
    }
    let held = tasks.iter().filter(|view| view.holder.is_some());
    page.locks.extend(held.map(|view| task_lock(&view.task.target, &view.task.id)));
    page.invalid = broken.iter().any(|tree| tree.invalid);
    page.files = found.iter().filter_map(|tree| tree.file.place.clone()).collect();
    let mut trees = Vec::new();
    for (context, tree) in context.into_iter().flat_map(|context| found.iter().map(move |tree| (context, tree))) {
        let sessions = open.iter().filter_map(|(_, summary)| summary.as_ref().ok());
        let mut running = running(sessions, &context.target, &tree.file.name);
        for tree_repo in tree.targets().into_iter().filter(|tree_repo| tree_repo.name != context.place.name) {
            running.extend(running_in(tree_repo, &tree.file.name)?);
        }
        trees.push(TreeView { tree, target: context.target.as_str(), limits: &context.limits, whole, running });
    }
    let find = |name: &RepoName| sessions.repo(name);
    let states =
        WorkStates { gone, ..work_states(repo, open.iter().filter_map(|(_, summary)| summary.as_ref().ok()), find)? };
    let failed_pushes: Vec<String> = open.iter().flat_map(|(id, _)| pushes::failures(repo, id, find)).collect();
    let target = context.map(|context| &context.target);
    let overview = Overview {
        globals,
        repo,
        target,
        worked,
        trees,
        broken,
        tasks,
        unreadable,
        marks,
        open,
        states,
        landed,
        own,
        failed_pushes,
    };
    page.document = overview.document();
    page.text = overview.text();
    if let Some(why) = no_trees(repo, prefix) {
        page.text.insert_str(0, &format!("{why}\n\n"));
    }
    Ok(page)
}

/// What became of the work of sessions. A merge queue that cannot be read says nothing: its own commands tell what is wrong.
fn work_states<'s>(
    repo: &Repo,
    summaries: impl Iterator<Item = &'s Summary>,
    find: impl Fn(&RepoName) -> Option<Repo>,
) -> Result<WorkStates, Failure> {
    let landed = landed(summaries, find).map_err(|error| of_engine(&error))?;
    let targets = queue_targets(repo).unwrap_or_default();
    let entries = targets.iter().filter_map(|target| Some(MergeQueue::read(repo, target).ok()?.entries())).flatten();
    let queued = entries.filter_map(|entry| Some((entry.run_of_session()?, entry))).collect();
    Ok(WorkStates { gone: BTreeSet::new(), landed, queued })
}

/// The tasks of a tree that are being worked in another of its repositories.
fn running_in(tree_repo: &TreeRepo, tree: &TreeName) -> Result<BTreeMap<TaskId, RunningTask>, Failure> {
    let (open, _) = View::open(&tree_repo.repo).map_err(|error| of_engine(&error))?;
    Ok(running(open.iter().filter_map(|(_, summary)| summary.as_ref().ok()), &tree_repo.target, tree))
}

/// The sessions that have landed what is not there any more.
fn gone(
    repo: &Repo,
    target: &BranchName,
    all: &Sessions,
    reader: &mut ProgressReader,
) -> Result<BTreeSet<SessionId>, Failure> {
    let mut gone = BTreeSet::new();
    let Some(there) = reader.sessions().map_err(|error| of_tree(&error.into()))? else { return Ok(gone) };
    for (id, summary) in all {
        if let Ok(summary) = summary
            && summary.is_gone(repo, target, &there).map_err(|error| of_engine(&error))?
        {
            gone.insert(id.clone());
        }
    }
    Ok(gone)
}

/// A session and where it is, or why that cannot be read.
type Listed = (RunId, Result<Summary, String>);

/// A session, with those of its runs that are listed.
fn session_json(overview: &Overview<'_>, (id, summary): &Listed) -> Value {
    let Overview { globals, repo, marks, open: all, states, .. } = overview;
    match summary {
        Ok(summary) => {
            let mut document = show::summary_json(summary);
            add_state(&mut document, globals, repo, summary, states);
            document["forecast"] = json!(marks.session(summary));
            let own = all.iter().filter(|(run, _)| run.session == id.session);
            let own = own.filter_map(|(_, summary)| RunView::of(repo, summary.as_ref().ok()?).ok());
            document["runs"] = json!(own.collect::<Vec<_>>());
            document
        }
        Err(why) => json!({"session": id.session, "standing": {"is": "unreadable", "reason": why}}),
    }
}

/// The replays of sessions, each after its session.
fn with_replays(repo: &Repo, open: Vec<Listed>) -> Result<Vec<Listed>, Failure> {
    let all = History::all_runs(repo).map_err(|error| of_record(&error))?;
    let mut replays: BTreeMap<SessionId, Vec<Listed>> = BTreeMap::new();
    for run in all.into_iter().filter(|run| !run.is_first()) {
        let summary = Summary::newest(repo, &run).map_err(|error| of_engine(&error).sentence());
        replays.entry(run.session.clone()).or_default().push((run, summary));
    }
    let with = |listed: Listed| {
        let own = replays.remove(&listed.0.session).unwrap_or_default();
        std::iter::once(listed).chain(own).collect::<Vec<_>>()
    };
    Ok(open.into_iter().flat_map(with).collect())
}

/// What `status` shows without an id.
struct Overview<'a> {
    globals: &'a Globals,
    repo: &'a Repo,
    target: Option<&'a BranchName>,
    /// Who works the trees of the target.
    worked: Option<LockHolder>,
    trees: Vec<TreeView<'a>>,
    broken: Vec<BrokenTree>,
    tasks: Vec<TaskView>,
    /// Why tasks cannot be read.
    unreadable: Vec<String>,
    marks: ForecastMarks,
    open: Vec<Listed>,
    /// What became of their work.
    states: WorkStates,
    /// So many sessions of tasks that have ended are left out.
    landed: usize,
    /// So many sessions that pleach started itself are left out.
    own: usize,
    failed_pushes: Vec<String>,
}

impl Overview<'_> {
    fn document(&self) -> Value {
        let Self { marks, trees, broken, .. } = self;
        let first = self.open.iter().filter(|(run, _)| run.is_first());
        let sessions = first.map(|listed| session_json(self, listed));
        json!({
            "target": self.target,
            "worked_by": self.worked.as_ref().map(|holder| json!({"process": holder.process, "host": holder.host})),
            "trees": trees.iter().map(TreeView::json).chain(broken.iter().map(broken_tree_json)).collect::<Vec<_>>(),
            "tasks": self.tasks.iter().map(|view| task::marked_task_json(view, marks)).collect::<Vec<_>>(),
            "unreadable_tasks": self.unreadable,
            "sessions": sessions.collect::<Vec<_>>(),
            "landed_sessions": self.landed,
            "own_sessions": self.own,
            "failed_pushes": self.failed_pushes,
        })
    }

    fn text(&self) -> String {
        let mut parts: Vec<String> = self.trees.iter().map(|tree| tree.text().trim_end().to_owned()).collect();
        parts.extend(self.broken.iter().map(|tree| format!("{}: {}", tree.path, tree.why)));
        parts.extend(self.worked.as_ref().map(|holder| format!("worked by {}", holder.text)));
        if !self.tasks.is_empty() {
            parts.push(task::table(self.repo, &self.tasks, &self.marks).shown());
        }
        parts.extend(self.unreadable.iter().cloned());
        if !self.open.is_empty() {
            parts.push(show::sessions(&self.open, &self.states, &self.marks, clock::now()));
        }
        parts.extend((!self.failed_pushes.is_empty()).then(|| self.failed_pushes.join("\n")));
        if self.landed > 0 {
            parts.push(format!("{} of tasks that have ended; -v lists them", counted(self.landed, "session")));
        }
        if self.own > 0 {
            let own = counted(self.own, "session");
            parts.push(format!("{own} that pleach started to resolve conflicts; -v lists them"));
        }
        if !self.marks.is_empty() {
            parts.push(FORECAST_HINT.to_owned());
        }
        let asked = self.asked();
        parts.extend((!asked.is_empty()).then(|| asked.join("\n")));
        if parts.is_empty() {
            parts.push(format!("There is no session in this repository yet; {FIRST_RUN} starts one."));
        }
        format!("{}\n", parts.join("\n\n"))
    }

    /// What is asked of the reader, newest first, each with the command that does it.
    fn asked(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for summary in self.open.iter().filter_map(|(_, summary)| summary.as_ref().ok()) {
            let next = next_command(self.globals, self.repo, summary, &self.states);
            let holder = || Lock::holder(self.repo.common_dir(), &lock_name(&summary.run));
            let how = match next {
                Some(command) => format!("\n  next:    {command}"),
                None => holder().map(|holder| format!("\n  answer where it runs: {}", holder.text)).unwrap_or_default(),
            };
            for question in summary.questions() {
                let text = show::plain(&question.text);
                let choices = show::plain(&question.choices_in_words());
                let gate = question.address();
                lines.push(format!("{} waits for you at `{gate}`: {text} ({choices}){how}", summary.run));
            }
            if self.states.waits_to_land(summary) {
                lines.push(format!("{} is ready to land{how}", summary.run));
            }
        }
        let left_out = lines.len().saturating_sub(ASKED);
        lines.truncate(ASKED);
        lines.extend((left_out > 0).then(|| format!("… {} in the list above", counted(left_out, "more session"))));
        lines
    }
}

/// The most sessions that ask something of the reader and are told with their commands.
const ASKED: usize = 5;

/// What is asked of the reader about a session, for programs.
fn add_state(document: &mut Value, globals: &Globals, repo: &Repo, summary: &Summary, states: &WorkStates) {
    document["state"] = json!(states.word(summary));
    document["landed"] = json!(states.landed.get(&summary.run).map_or(&[][..], Vec::as_slice));
    document["queued"] =
        json!(states.queued.get(&summary.run).map(|entry| json!({"state": entry.state, "why": entry.why})));
    document["questions"] = summary.questions().iter().map(question::json).collect();
    document["next"] = json!(next_command(globals, repo, summary, states));
}

/// The command that does what is asked of the reader: an answer, or a landing. What a running session asks has none: it is
/// answered where that runs.
fn next_command(globals: &Globals, repo: &Repo, summary: &Summary, states: &WorkStates) -> Option<String> {
    if !summary.questions().is_empty() {
        let is_paused = summary.standing() != SessionStatus::Running;
        return is_paused.then(|| resume_hint(globals, repo, summary)).flatten();
    }
    if let Some(entry) = states.queued.get(&summary.run).filter(|_| summary.can_land()) {
        return Some(about(globals, &globals.dir, &format!("merge why {}", entry.reference()), None));
    }
    // Without a branch to land on, somebody has to name one.
    let into = if summary.started.target().is_none() { " --into BRANCH" } else { "" };
    let land = || about(globals, &globals.dir, &format!("land {}{into}", summary.run), None);
    states.waits_to_land(summary).then(land)
}

fn one(globals: &Globals, sessions: &SessionGround, view: &View) -> Result<(), Failure> {
    let (summary, repo) = (&view.summary, &sessions.place.repo);
    let repos = sessions.repos(&summary.started);
    let states = work_states(repo, std::iter::once(summary), |name| repos.get(name).cloned())?;
    let mut branches = Vec::new();
    let mut copies: Vec<String> = Vec::new();
    for repo_work in summary.repos() {
        let Some(repo) = repos.get(repo_work.repo) else { continue };
        let found = run_worktrees(repo, &summary.run).map_err(|error| of_git(&error))?;
        copies.extend(found.iter().filter(|copy| copy.path.is_dir()).map(|copy| copy.path.display().to_string()));
        let read = || Ok((repo_work.branch_at(repo)?, repo_work.missing_on_branch(repo)?));
        let (at, missing) = read().map_err(|error| of_engine(&error))?;
        branches.push(BranchNow { repo_work, at, missing });
    }
    let has_replays = History::runs(repo, &summary.session).map_err(|error| of_record(&error))?.len() > 1;
    let is_shown = globals.json || has_replays;
    let all_runs = if is_shown { runs(repo, &summary.session).map_err(|error| of_engine(&error))? } else { Vec::new() };
    let is_landing = unfinished_landings(repo).contains(&summary.session);
    let landing: &[Landing] = if is_landing { &summary.state.landing } else { &[] };
    let mirrored = mirrored(sessions, summary)?;
    if globals.json {
        let mut document = show::summary_json(summary);
        let of_record = branches.iter().find(|branch| branch.repo_work.repo == summary.started.record_repo());
        document["branch_at"] = json!(of_record.and_then(|branch| branch.at));
        for (described, now) in document["repos"].as_array_mut().into_iter().flatten().zip(&branches) {
            described["branch_at"] = json!(now.at);
        }
        document["worktrees"] = json!(copies);
        document["landing"] = json!(landing);
        document["pushes"] = pushes::of(&repos, summary).iter().map(|(name, pushed)| pushed.json(name)).collect();
        add_state(&mut document, globals, repo, summary, &states);
        document["question"] = document["questions"].get(0).cloned().unwrap_or_default();
        document["answers"] = json!(view.all_answers());
        document["go_on"] = resume_hint(globals, repo, summary).map_or(Value::Null, Value::String);
        document["turns"] = json!(view.turns());
        document["mirror"] = json!(mirrored);
        document["runs"] = json!(all_runs);
        document["failures"] = json!(view.failures());
        document["checkpoints"] = json!(view.checkpoints());
        return Out::new().json(&document);
    }
    let merge = merge(globals, &sessions.place, summary, &states, &branches);
    let mut fields = details(summary, &states, resume_hint(globals, repo, summary), merge, &branches, copies);
    let remotes = pushes::of(&repos, summary);
    let named = |name: &RepoName| if remotes.len() > 1 { format!("{name}: ") } else { String::new() };
    fields.extend(remotes.iter().map(|(name, pushed)| ("remote", format!("{}{}", named(name), pushed.text()))));
    fields.extend(mirrored.map(|report| ("mirror", show::mirrored(&report))));
    let to_finish = format!("cut off; `pleach land {}` finishes it", summary.run);
    fields.extend(is_landing.then_some(("landing", to_finish)));
    let mut text = format!("{}\n", show::fields(&fields));
    if all_runs.len() > 1 {
        text.push_str(&format!("\n{}\n", run_tree::text(&all_runs, clock::now())));
    }
    text.extend(show::timeline(view, globals.verbosity > 0).map(|timeline| format!("\n{timeline}\n")));
    Pages::new(globals)?.text(&text)
}

/// What the mirror says of a run, if one may be asked.
fn mirrored(sessions: &SessionGround, summary: &Summary) -> Result<Option<MirrorReport>, Failure> {
    let repo = &sessions.place.repo;
    let Some(address) = known_mirror(&sessions.settings, repo)? else { return Ok(None) };
    let runs = std::slice::from_ref(&summary.run);
    Ok(Some(single()?.block_on(report(repo, runs, &address, MIRROR_PATIENCE))))
}

/// A session's branch in a repository, as it is now.
struct BranchNow<'a> {
    repo_work: RepoWork<'a>,
    at: Option<CommitId>,
    /// The newest commit it should have and lacks.
    missing: Option<CommitId>,
}

impl BranchNow<'_> {
    /// Where it is, and the commits it lacks.
    fn in_words(&self) -> String {
        let Some(at) = self.at else { return " (removed)".to_owned() };
        let lacks = self.missing.map(|tip| format!(", without the session's newest commit: git merge {}", tip.short()));
        format!(" at {}{}", at.short(), lacks.unwrap_or_default())
    }
}

fn details(
    summary: &Summary,
    states: &WorkStates,
    resume_hint: Option<String>,
    merge: Option<String>,
    branches: &[BranchNow<'_>],
    copies: Vec<String>,
) -> Vec<(&'static str, String)> {
    let mut fields = vec![("session", summary.run.to_string())];
    let simulated = if summary.started.simulated { ", simulated" } else { "" };
    fields.push((
        "pipeline",
        match &summary.started {
            // Its name is its goal, cut.
            started if started.dot_path == BUILT_IN => format!("{BUILT_IN} (built in{simulated})"),
            started => format!("{} ({}{simulated})", started.name, started.dot_path),
        },
    ));
    if let Some(task) = &summary.started.task {
        fields.push(("task", format!("{} {} ({} on {})", task.id, shown_name(&task.name), task.tree, task.target)));
    } else if !summary.started.goal.is_empty() {
        fields.push(("goal", summary.started.goal.clone()));
    }
    let at = match (summary.standing(), summary.node()) {
        (SessionStatus::Done | SessionStatus::Cancelled, _) | (_, None) => String::new(),
        (SessionStatus::Failed { .. }, Some(node)) => format!(" (at `{node}`)"),
        (_, Some(node)) => format!(" at `{node}`"),
    };
    let standing = match summary.standing() {
        SessionStatus::Done => states.word(summary),
        SessionStatus::Running if !summary.questions().is_empty() => states.word(summary),
        standing => show::standing(&standing),
    };
    fields.push(("standing", format!("{standing}{at}")));
    let landed = states.landed.get(&summary.run);
    fields.extend(landed.map(|landed| ("landed", show::landed_words(landed, clock::now()))));
    let queued = states.queued.get(&summary.run).and_then(|entry| entry.why.as_ref());
    fields.extend(queued.map(|why| ("queue", why.clone())));
    for asked in summary.questions() {
        let branch =
            if asked.context == asked.context.run_root() { String::new() } else { format!(" ({})", asked.address()) };
        fields.push(("question", format!("{}{branch}", show::plain(&asked.text))));
        fields.push(("choices", show::plain(&asked.choices_in_words())));
        fields.extend(question::unanswered(&asked).map(|text| ("default", text)));
    }
    fields.extend(resume_hint.map(|command| ("resume", command)));
    fields.extend(merge.map(|command| ("merge", command)));
    for now in branches {
        let at = if summary.started.has_several_repos() { format!("{}: ", now.repo_work.repo) } else { String::new() };
        fields.push(("branch", format!("{at}{}{}", now.repo_work.branch, now.in_words())));
        if let Some(base) = now.repo_work.base {
            let target = now.repo_work.target.map(|target| format!(" ({target})")).unwrap_or_default();
            fields.push(("base", format!("{at}{}{target}", base.short())));
        }
    }
    fields.extend(copies.into_iter().map(|path| ("worktree", path)));
    let spent = spent(&summary.spent);
    fields.push(("spent", format!("{}, {spent}", counted(summary.turns, "turn"))));
    fields.push(("started", format!("{} ({} ago)", summary.started_at, show::age(summary.started_at, clock::now()))));
    fields
}

/// The command that brings finished work home, unless it is there. What the branch lacks is named by its commit.
fn merge(
    globals: &Globals,
    place: &Place,
    summary: &Summary,
    states: &WorkStates,
    branches: &[BranchNow<'_>],
) -> Option<String> {
    let is_meant = summary.can_land() && !states.landed.contains_key(&summary.run);
    let changed: Vec<&BranchNow<'_>> = branches.iter().filter(|now| is_meant && now.repo_work.has_changed()).collect();
    let first = changed.first()?;
    if summary.started.has_several_repos() || states.queued.contains_key(&summary.run) {
        let command = match states.queued.get(&summary.run) {
            Some(entry) => format!("merge why {}", entry.reference()),
            None => format!("land {}", summary.run),
        };
        return Some(about(globals, &globals.dir, &command, None));
    }
    let dir = place.repo.workdir().unwrap_or(place.repo.git_dir());
    let git = |command: String| git_in_repo(globals, dir, &command);
    let switch = first.repo_work.target.map(|target| format!("{} && ", git(format!("switch {}", shell_word(target)))));
    let what = first.missing.map_or_else(|| shell_word(first.repo_work.branch), |tip| tip.short());
    Some(format!("{}{}", switch.unwrap_or_default(), git(format!("merge {what}"))))
}

/// The command that continues with a session that can continue.
fn resume_hint(globals: &Globals, repo: &Repo, summary: &Summary) -> Option<String> {
    let id = &summary.run;
    let questions = summary.questions();
    let answer: String =
        questions.iter().map(|asked| format!(" --answer {}=CHOICE", asked.address_with_task())).collect();
    let (command, tree) = match (&summary.state.task, &summary.started.task) {
        (Some(task), Some(task_of)) => {
            let over = task.landed.is_some() || summary.standing() == SessionStatus::Cancelled || summary.in_use;
            let (command, tree) = resume_task(task_of);
            let tree = tree.map(|tree| repo.workdir().unwrap_or(Path::new("")).join(tree));
            ((!over).then_some(command)?, tree)
        }
        _ => (summary.standing().can_resume().then(|| format!("resume {id}"))?, None),
    };
    Some(about(globals, &globals.dir, &command, tree.as_deref()) + &answer)
}
