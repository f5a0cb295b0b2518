//! `pleach compare`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::Args;
use engine::env::Engine;
use engine::landing::{QueueSettings, TestPlace, TreeTest, test_trees, tests_to_trust};
use engine::trust::TrustScope;
use engine::view::{RepoWork, Summary, View};
use git::Repo;
use git::record::History;
use history::compare::{ComparedRun, Comparison, RunTest};
use pleach_core::ids::{BranchName, CommitId, RunId};
use pleach_core::queue::EntryTest;

use crate::answers::Answers;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_queue, of_record};
use crate::next_commands::about;
use crate::place::{self, Place, Places};
use crate::queue_settings::queue_settings;
use crate::render::session::{one_line, plain};
use crate::render::{Out, Pages, comparison};
use crate::runtime::block_on;
use crate::session::build;
use crate::sessions::{self, SessionFilter, SessionGround};
use crate::settings::Settings;
use crate::trust::TerminalTruster;

/// Compare runs by result, changes and cost, the best first.
///
/// With `--test` the code of each run is tested, in a worktree of the merge queue; files that were tested before are not
/// tested again. Runs whose tests pass come first, then those that are done, then those whose review approves, then the
/// cheaper ones. `*` marks the only one that is done and passes. Nothing lands: the last line is the command for that.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A session, for all its runs, by default the newest; or the runs to compare: `SID`, `SID/r1`.
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Test the code of each run with this command, by default with what a landing would run. Exits with 1 if all fail.
    #[arg(long, value_name = "CMD", num_args = 0..=1, default_missing_value = "")]
    test: Option<String>,
}

pub fn run(globals: &Globals, args: CompareArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let runs = named_runs(globals, &ground.place.repo, &args)?;
    let views = views(&ground, &runs)?;
    let summaries: Vec<&Summary> = views.iter().map(|view| &view.summary).collect();
    let tests = match &args.test {
        Some(command) => test(globals, &ground, &summaries, command)?,
        None => Tests::none(&summaries),
    };
    let comparison = compare(&ground, &views, &tests)?;
    show(globals, &comparison, &tests)?;
    if tests.are_stopped {
        say!("stopped before all tests had ended; run it again for the rest");
        return Ok(Exit::Paused);
    }
    if comparison.is_red() {
        return Err(Failure::new(Code::NoneGreen, "the tests fail for every run").hint("`-v` shows what they print"));
    }
    Ok(Exit::Done)
}

/// The runs to compare, each once.
fn named_runs(globals: &Globals, repo: &Repo, args: &CompareArgs) -> Result<Vec<RunId>, Failure> {
    let all = |session| History::runs(repo, session).map_err(|error| of_record(&error));
    match &args.runs[..] {
        [] => {
            let command = args.test.as_deref().filter(|command| command.parse::<RunId>().is_ok());
            if let Some(run) = command {
                return Err(Failure::new(Code::CommandLine, format!("`--test {run}` takes a command, and no run"))
                    .hint(format!("write it before: `compare {run} --test`")));
            }
            all(&sessions::named_or_newest(globals, repo, None, SessionFilter::Any)?.session)
        }
        [one] if !one.contains('/') => all(&sessions::resolve(repo, one)?.session),
        several => {
            let mut runs = several.iter().map(|given| sessions::resolve(repo, given)).collect::<Result<Vec<_>, _>>()?;
            let mut seen = BTreeSet::new();
            runs.retain(|run| seen.insert(run.clone()));
            Ok(runs)
        }
    }
}

/// Runs as they are recorded, side by side, without tests.
pub fn compare_untested(ground: &SessionGround, runs: &[RunId]) -> Result<(Comparison, Tests), Failure> {
    let views = views(ground, runs)?;
    let none = Tests::none(&views.iter().map(|view| &view.summary).collect::<Vec<_>>());
    Ok((compare(ground, &views, &none)?, none))
}

fn views(ground: &SessionGround, runs: &[RunId]) -> Result<Vec<View>, Failure> {
    let views = runs.iter().map(|run| View::load(&ground.place.repo, run)).collect::<Result<_, _>>();
    views.map_err(|error| of_engine(&error))
}

fn compare(ground: &SessionGround, views: &[View], tests: &Tests) -> Result<Comparison, Failure> {
    let row = |(view, tests): (&View, &Vec<TreeTest>)| {
        let row = ComparedRun::read(&ground.repos(&view.summary.started), view)?;
        Ok(ComparedRun { test: RunTest::of(tests), ..row })
    };
    let rows = views.iter().zip(&tests.results).map(row).collect::<Result<Vec<_>, _>>();
    Ok(Comparison::of(rows.map_err(|error: engine::env::Error| of_engine(&error))?))
}

/// Prints a comparison, and the command that lands the first run of it.
pub fn show(globals: &Globals, comparison: &Comparison, tests: &Tests) -> Result<(), Failure> {
    if globals.json {
        return Out::new().json(&serde_json::to_value(comparison).unwrap_or_default());
    }
    let mut lines = vec![comparison::table(comparison)];
    if globals.verbosity >= 0 {
        for run in &comparison.runs {
            lines.extend(run.why.iter().map(|why| format!("{}: {}", run.run, one_line(why))));
            let logs = tests.logs.get(&run.run).filter(|_| globals.verbosity > 0);
            lines.extend(logs.into_iter().flatten().map(|log| plain(log).trim_end().to_owned()));
        }
        lines.extend(next_commands(globals, comparison, tests));
    }
    Pages::new(globals)?.text(&(lines.join("\n") + "\n"))
}

/// The commands that show two good runs, and that land the first.
fn next_commands(globals: &Globals, comparison: &Comparison, tests: &Tests) -> Vec<String> {
    let about = |command: String| about(globals, &globals.dir, &command, None);
    let good: Vec<&ComparedRun> = comparison.good().collect();
    let look = match good[..] {
        [one, other, ..] => Some(format!("look:    {}", about(format!("diff {} {}", one.run, other.run)))),
        _ => None,
    };
    let next = match (good.first().copied(), comparison.runs.first()) {
        (Some(first), _) if !tests.landed_otherwise.contains(&first.run) => Some(format!("land {}", first.run)),
        (Some(first), _) | (None, Some(first)) => Some(format!("status {}", first.run)),
        (None, None) => None,
    };
    look.into_iter().chain(next.map(|command| format!("next:    {}", about(command)))).collect()
}

/// What the tests of runs have said.
#[derive(Debug, Default)]
pub struct Tests {
    /// For each run, the results of its repositories.
    results: Vec<Vec<TreeTest>>,
    /// What failed tests have printed.
    logs: BTreeMap<RunId, Vec<String>>,
    /// The runs that `land` refuses: a task lands by itself, and a replay over several repositories is for people to merge.
    landed_otherwise: Vec<RunId>,
    are_stopped: bool,
}

impl Tests {
    fn none(summaries: &[&Summary]) -> Self {
        let is_refused = |summary: &&&Summary| {
            let started = &summary.started;
            started.task.is_some() || started.has_several_repos() && !summary.run.is_first()
        };
        let landed_otherwise = summaries.iter().filter(is_refused).map(|summary| summary.run.clone()).collect();
        Self { results: vec![Vec::new(); summaries.len()], landed_otherwise, ..Self::default() }
    }
}

/// The commits to test in the queue of a branch, each with the number of its run.
struct TestJob {
    place: Place,
    target: BranchName,
    commits: Vec<(usize, CommitId)>,
}

/// Tests what runs have changed, one repository after the other.
fn test(globals: &Globals, ground: &SessionGround, summaries: &[&Summary], command: &str) -> Result<Tests, Failure> {
    let settings = ground.settings.clone().deepening(true);
    let tests = tests_of(&settings, &ground.place, summaries, command)?;
    let mut jobs: Vec<TestJob> = Vec::new();
    for (number, summary) in summaries.iter().enumerate() {
        let places = Places::of_session(ground.place.clone(), &summary.started, &settings)?;
        for place in places.all() {
            let Some(work) = summary.in_repo(&place.name) else { continue };
            let Some(commit) = work.work.filter(|_| places.others.is_empty() || has_changed(summaries, place)) else {
                continue;
            };
            let configured = || settings.resolved.config.merge.target.clone();
            let target = match work.target.cloned().or_else(configured) {
                Some(target) => target,
                None => place::target(place)?,
            };
            let is_same =
                |job: &&mut TestJob| job.place.repo.common_dir() == place.repo.common_dir() && job.target == target;
            match jobs.iter_mut().find(is_same) {
                Some(job) => job.commits.push((number, commit)),
                None => jobs.push(TestJob { place: place.clone(), target, commits: vec![(number, commit)] }),
            }
        }
    }
    for job in &jobs {
        let scope = TrustScope {
            repo: &job.place.repo,
            resolved: &settings.resolved,
            environment: &settings.environment,
            state_dir: &settings.state_dir,
        };
        TerminalTruster::of(globals, &settings, job.place.repo.common_dir()).require(tests_to_trust(&scope))?;
    }
    let built = build(globals, &settings, &settings.resolved.config, Answers::default())?;
    let engine = &built.engine;
    block_on(built.stopped_by(), async {
        let mut all = Tests::none(summaries);
        for job in jobs {
            let queue = queue_settings(&settings, &job.place);
            let tested = test_job(engine, &job, &tests, &queue).await?;
            for ((number, _), result) in job.commits.iter().zip(tested) {
                let Some(result) = result else {
                    all.are_stopped = true;
                    continue;
                };
                if !result.passed {
                    all.logs.entry(summaries[*number].run.clone()).or_default().push(result.log.clone());
                }
                all.results[*number].push(result);
            }
        }
        Ok(all)
    })
}

async fn test_job(
    engine: &Arc<Engine>,
    job: &TestJob,
    tests: &[EntryTest],
    queue: &QueueSettings,
) -> Result<Vec<Option<TreeTest>>, Failure> {
    let commits: Vec<CommitId> = job.commits.iter().map(|(_, commit)| *commit).collect();
    let Place { repo, name, .. } = job.place.clone();
    let place = TestPlace { engine: Arc::clone(engine), repo, repo_name: name, target: job.target.clone() };
    test_trees(place, &commits, tests, queue).await.map_err(|error| of_queue(&error))
}

/// Whether one of the runs has changed something in a repository.
fn has_changed(summaries: &[&Summary], place: &Place) -> bool {
    summaries.iter().filter_map(|summary| summary.in_repo(&place.name)).any(|work: RepoWork<'_>| work.has_changed())
}

/// The tests of a run: the command that was given, or what a landing would run.
fn tests_of(
    settings: &Settings,
    place: &Place,
    summaries: &[&Summary],
    command: &str,
) -> Result<Vec<EntryTest>, Failure> {
    if !command.is_empty() {
        let timeout = settings.resolved.config.merge.test_timeout;
        return Ok(vec![EntryTest { command: command.to_owned(), timeout }]);
    }
    let queue = queue_settings(settings, place);
    let is_joint = queue.joint_test.is_some() && summaries.iter().any(|summary| summary.started.has_several_repos());
    let usual: Vec<EntryTest> = queue.tests.always.or(queue.tests.usual).into_iter().collect();
    if is_joint {
        return Err(Failure::new(
            Code::CommandLine,
            "`workspace.test_command` tests all repositories side by side, and runs are tested in one after the other",
        )
        .hint("give the test of each repository: `--test CMD`"));
    }
    if usual.is_empty() {
        return Err(Failure::new(Code::CommandLine, "there is no test: no `test_command` is set")
            .hint("give one: `--test CMD`"));
    }
    Ok(usual)
}
