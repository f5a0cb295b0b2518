//! Test steps: the commands of a task, one after another, with their output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cancel::NodeCancel;
use super::collected::Collected;
use super::command::{self, CommandRun};
use super::worker::block;
use super::{Stopped, Worker};
use crate::env::{self, git_variables};
use crate::session::joint_slot::{JointCommand, JointFiles, JointSlot};
use crate::session::task::StepReport;
use git::workspace::branch_ref;
use os::deadline::Deadline;
use os::process::{self, Cancel, CommandLimits, CommandSpec, Exit, OutputStream, SpawnError};
use pleach_core::event::{Outcome, PauseReason, WarningCode};
use pleach_core::plan::tree::{TestCommand, TestKind};
use pleach_core::step::counts::TestOutput;
use pleach_core::step::{Counts, RanTest, TestFacts, report, text};

/// The limit on the recorded output of a test, per stream: one half from its beginning, one from its end.
const OUTPUT_KEPT: usize = 4 * 1024 * 1024;

/// How long all teardowns together may take once a run is killed.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// The exit of a command that was not started.
const DID_NOT_RUN: &str = "did not run";

/// Runs the setup, the tests and, whatever happened, the teardown of a task. Tests must see what is committed: if there
/// are uncommitted files, nothing runs.
pub(super) async fn run_tests(
    worker: &mut Worker,
    commands: Vec<TestCommand>,
    cancel: &NodeCancel,
    end: &mut Collected,
) -> Result<Outcome, Stopped> {
    let begun = Instant::now();
    let left_out = block(|| worker.workspace.left_out())?;
    if !left_out.is_empty() {
        return tested(worker, vec![not_run(&commands, &left_out)], begun, end);
    }
    let mut joint = joint_slot(worker, &cancel.cancel).await?;
    let ended = run_commands(worker, commands, cancel, &mut joint, end).await;
    if let Some(slot) = joint {
        tokio::task::block_in_place(|| slot.remove());
    }
    tested(worker, ended?, begun, end)
}

/// The worktrees of all repositories, if the tests are about several.
async fn joint_slot(worker: &mut Worker, cancel: &Cancel) -> Result<Option<JointSlot>, Stopped> {
    let Some(job) = worker.job.clone().filter(|job| !job.beside.is_empty()) else { return Ok(None) };
    let broken = |why: String| Stopped::Environment(Box::new(Outcome::fail(why)));
    let open = || {
        let own = worker.workspace.copies().next().expect("a task is worked in a worktree");
        let (name, repo) = (own.name.clone(), own.repo.clone());
        let (branch, commit) = (own.branch.clone(), own.at().tip);
        let mut files = vec![JointFiles { name: name.clone(), repo: repo.clone(), branch, commit }];
        for joint in &job.beside {
            let tip = joint.repo.refs().find(&branch_ref(&joint.branch)).map_err(|error| error.to_string())?;
            let commit = tip.ok_or_else(|| format!("there is no branch `{}` in `{}`", joint.branch, joint.name))?;
            let (name, repo, branch) = (joint.name.clone(), joint.repo.clone(), joint.branch.clone());
            files.push(JointFiles { name, repo, branch, commit });
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let repos = job.repos(name, repo);
        JointSlot::open(Arc::clone(&worker.engine), &repos, &worker.session, files).map_err(|error| error.to_string())
    };
    let mut slot = tokio::task::block_in_place(open).map_err(broken)?;
    match slot.set_up(cancel).await {
        Ok(true) => Ok(Some(slot)),
        stopped => {
            tokio::task::block_in_place(|| slot.remove());
            Err(stopped.map_or_else(|error| broken(error.to_string()), |_| Stopped::Paused(PauseReason::Interrupted)))
        }
    }
}

async fn run_commands(
    worker: &mut Worker,
    commands: Vec<TestCommand>,
    cancel: &NodeCancel,
    joint: &mut Option<JointSlot>,
    end: &mut Collected,
) -> Result<Vec<RanTest>, Stopped> {
    let mut ran: Vec<RanTest> = Vec::new();
    let mut stopped = None;
    let (teardown, tests): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(|command| command.kind == TestKind::Teardown);
    let (setup, tests): (Vec<_>, Vec<_>) = tests.into_iter().partition(|command| command.kind == TestKind::Setup);
    for command in setup.iter().chain(&tests) {
        if command.kind != TestKind::Setup && ran.iter().any(is_failed_setup) {
            break;
        }
        // A test that did not get its turn has not passed.
        if cancel.timed_out() {
            let exit = worker.out_of_time();
            let unrun = without_run(command.kind, &command.command, exit.clone());
            ran.push(RanTest { exit, ..unrun });
            break;
        }
        match run_test(worker, command, joint, &cancel.cancel, &|| cancel.timed_out()).await {
            Ok(test) => ran.push(test),
            Err(why) => {
                stopped = Some(why);
                break;
            }
        }
    }
    if let Some(setup) = ran.iter_mut().find(|ran| is_failed_setup(ran)) {
        let command = worker.engine.redactor.text(&setup.command);
        let why = text::add_failed_setup(&mut setup.stderr, &command, &setup.exit);
        end.warnings.push(WarningCode::TestSetupFailed.with(why));
    }
    // The teardown runs even after a test that was interrupted or killed.
    let (canceller, late) = Cancel::new();
    let run = worker.cancel.clone();
    let cut_off = async {
        run.killed().await;
        Deadline::after(LAST_GRACE).reached().await;
        canceller.kill();
        std::future::pending::<()>().await;
    };
    let clean_up = async {
        for command in &teardown {
            if let Ok(test) = run_test(worker, command, joint, &late, &|| false).await {
                if !test.passed {
                    let text = format!("the teardown `{}` failed ({})", command.command, test.exit);
                    end.warnings.push(WarningCode::TeardownFailed.with(text));
                }
                ran.push(test);
            }
        }
    };
    tokio::select! {
        () = clean_up => {}
        () = cut_off => {}
    }
    stopped.map_or(Ok(ran), Err)
}

/// The outcome and report of a test step.
fn tested(worker: &mut Worker, ran: Vec<RanTest>, begun: Instant, end: &mut Collected) -> Result<Outcome, Stopped> {
    let failed: Vec<&RanTest> = ran.iter().filter(|ran| !ran.passed && ran.kind != TestKind::Teardown).collect();
    let outcome = match failed.first() {
        None => Outcome::success(),
        Some(test) => Outcome::fail(format!("`{}` failed ({})", test.command, test.exit)),
    };
    let said = report::test_log(&ran);
    end.step = Some(StepReport {
        body: text::tests(&ran),
        said: said.clone(),
        log: (!failed.is_empty()).then(|| said.clone()),
        test: Some(facts(&ran)),
        failing: ran.iter().flat_map(|ran| &ran.failing).cloned().collect(),
        ..StepReport::default()
    });
    let run = CommandRun {
        command: ran.iter().map(|ran| ran.command.as_str()).collect::<Vec<_>>().join("\n"),
        exit: failed.first().map_or_else(|| "exit 0".to_owned(), |test| test.exit.clone()),
        output: said,
        begun,
    };
    command::finish_command(worker, run, outcome, end)
}

/// Runs one command. If it is cancelled because the node's time `is_up`, it has failed.
async fn run_test(
    worker: &mut Worker,
    test: &TestCommand,
    joint: &mut Option<JointSlot>,
    cancel: &Cancel,
    is_up: &(dyn Fn() -> bool + Sync),
) -> Result<RanTest, Stopped> {
    let status_file = worker.status_file()?;
    let (env, wall) = (worker.environment("test", &status_file), Some(test.timeout.unwrap_or(TestCommand::TIMEOUT)));
    let bounds = worker.bounds(&status_file).map(|bounds| Arc::new(bounds.of_command()));
    let mut heard = [0; 2].map(|_| TestOutput::new(test.framework.as_deref(), &worker.engine.redactor));
    let mut hear = |stream: OutputStream, bytes: &[u8]| heard[stream as usize].push(bytes);
    let ran = match joint {
        Some(slot) => {
            let dir = slot.root().to_owned();
            let env = env.into_iter().chain(git_variables(&format!("{} (test)", worker.node.id), &dir)).collect();
            let spec = JointCommand { dir, env, wall, output: OUTPUT_KEPT };
            slot.run(&test.command, spec, cancel, &mut hear).await
        }
        None => {
            let mut command = CommandSpec::shell(&test.command, worker.workspace.directory());
            command.env = env;
            command.limits = CommandLimits { output: OUTPUT_KEPT, wall, ..CommandLimits::default() };
            command.locks = worker.workspace.locks();
            command.sandbox = bounds.clone();
            worker.engine.supervisor.spawner.run(command, cancel, &mut hear).await.map_err(env::Error::from)
        }
    };
    let output = match ran {
        Ok(output) => output,
        // A command that leaves processes running has failed itself; any other error is the machine's and says nothing
        // about the code.
        Err(env::Error::Spawn(error @ SpawnError::Unkillable { .. })) => {
            return Ok(without_run(test.kind, &test.command, error.to_string()));
        }
        Err(error) => return Err(Stopped::Environment(Box::new(Outcome::fail(error.to_string())))),
    };
    let (counts, mut failing) = TestOutput::summarize(heard);
    if output.stdout.dropped == 0 && output.stderr.dropped == 0 {
        // The output is complete, so the failing tests are found in it.
        failing.clear();
    }
    let passed = output.exit == Exit::Code(0);
    let exit = match output.exit {
        Exit::Cancelled if is_up() => worker.out_of_time(),
        Exit::Cancelled => return Err(Stopped::Paused(PauseReason::Interrupted)),
        other => other.to_string(),
    };
    let redact = |text: String| worker.engine.redactor.text(&text).into_owned();
    let (stdout, mut stderr) = (redact(output.stdout.to_text()), redact(output.stderr.to_text()));
    if !passed {
        let refused = bounds.map(|bounds| {
            process::sandbox::refusals(&bounds, &format!("{stdout}\n{stderr}"), worker.workspace.directory())
        });
        if let Some(refused) = refused.and_then(|refused| refused.in_words()) {
            text::add_end(&mut stderr, &refused);
        }
        text::add_end(&mut stderr, &exit);
    }
    let (kind, command, runtime) = (test.kind, test.command.clone(), output.duration);
    Ok(RanTest { kind, command, exit, passed, stdout, stderr, counts, failing, runtime })
}

/// Marks the first test as not run, because the files it would see are not those that land.
fn not_run(commands: &[TestCommand], left_out: &[String]) -> RanTest {
    let test = commands.iter().find(|test| test.kind.is_test());
    let (kind, command) = test.map_or((TestKind::Unit, ""), |test| (test.kind, test.command.as_str()));
    without_run(kind, command, text::left_out("the tests were not run", left_out))
}

/// A test that did not run, with the reason.
fn without_run(kind: TestKind, command: &str, why: String) -> RanTest {
    RanTest {
        kind,
        command: command.to_owned(),
        exit: DID_NOT_RUN.to_owned(),
        passed: false,
        stdout: String::new(),
        stderr: why,
        counts: None,
        failing: Vec::new(),
        runtime: Duration::ZERO,
    }
}

fn is_failed_setup(ran: &RanTest) -> bool {
    ran.kind == TestKind::Setup && !ran.passed
}

/// The kind of the first test, the counts of all tests of that kind, the total time.
fn facts(ran: &[RanTest]) -> TestFacts {
    let kind = ran.iter().find(|ran| ran.kind.is_test()).map_or(TestKind::Unit, |ran| ran.kind);
    let counted = ran.iter().filter(|ran| ran.kind == kind).filter_map(|ran| ran.counts);
    TestFacts {
        kind,
        counts: counted.reduce(Counts::plus),
        runtime: Some(ran.iter().map(|ran| ran.runtime).sum()),
        log: None,
    }
}
