//! The state of all tasks, read from a long history: `cargo xtask bench status`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

use engine::tree::progress;
use git::Repo;
use pleach_core::ids::{BranchName, TaskId};
use pleach_core::progress::{Progress, TaskStatus};
use pleach_core::redact::Redactor;
use pleach_core::step::{AttemptNumber, Counts, RanTest, Step, StepKind, TestFacts, TestKind, TreeName, text};

use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;
use super::world::World;

const TREE: &str = "task-tree.json";

/// Tasks whose steps are among the commits.
const TASKS: usize = 1_000;

/// Commits that came since the cache was written.
const NEW: usize = 10;

/// Against reading every commit in process and doing nothing with it.
const COLD: f64 = 1.5;
const WARM_MS: f64 = 5.0;

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let world = World::new()?;
    let dir = world.root().join("repo");
    world.git(world.root(), &["init", "--quiet", "repo"])?;
    let tasks = options.tasks.unwrap_or(TASKS);
    let messages = messages(options.commits, tasks);
    let (old, new) = messages.split_at(messages.len() - NEW);
    world.git_reading(&dir, &["fast-import", "--quiet"], stream(old, 0).as_bytes())?;
    let repo = git::discover(&dir, &world.counted())?;
    let target = BranchName::new("main")?;
    let read = || progress::read(&repo, &target, &TreeName::File(TREE.into()), "pleach/", None);
    read()?;
    let cache = Cache::find(&repo)?;
    world.git_reading(&dir, &["fast-import", "--quiet"], stream(new, old.len()).as_bytes())?;
    let bare = gix::open(&dir)?;

    let [mut walk, mut rev_walk, mut cold, mut warm] = [(); 4].map(|()| Samples::default());
    for _ in 0..options.rounds {
        let passed = [walk.time(|| descend(&bare))?, rev_walk.time(|| library_walk(&bare))?];
        if passed != [messages.len(); 2] {
            return Err(format!("the walks passed {passed:?} commits").into());
        }
        std::fs::remove_file(&cache.path)?;
        let first = cold.time(read)?;
        cache.restore()?;
        let again = warm.time(read)?;
        check(&first, tasks)?;
        if first != again {
            return Err("the cache changed what was read".into());
        }
    }
    let ratio = cold.median() / walk.median().min(rev_walk.median());
    println!(
        "{} commits, {tasks} tasks, a cache of {} KB; median and best of {} rounds",
        messages.len(),
        cache.content.len() / 1024,
        walk.len()
    );
    let since = format!("state, {NEW} commits after the cache");
    for (what, samples) in [
        ("every commit read in a loop", &walk),
        ("every commit read by rev_walk", &rev_walk),
        ("state, cold", &cold),
        (&since, &warm),
    ] {
        println!("{what:<36} {:9.2} ms {:9.2} ms", samples.median(), samples.best());
    }
    let mut verdicts = Verdicts::default();
    verdicts.at_most("state of all tasks, cold, against the faster bare walk", ratio, COLD, " ×");
    verdicts.at_most(&format!("state of all tasks, {NEW} new commits"), warm.median(), WARM_MS, " ms");
    Ok(verdicts)
}

/// The cache as it was before the newest commits.
struct Cache {
    path: PathBuf,
    content: Vec<u8>,
}

impl Cache {
    fn find(repo: &Repo) -> Result<Self, Box<dyn Error>> {
        let entry = std::fs::read_dir(repo.common_dir().join("pleach/cache"))?.next().ok_or("no cache was written")?;
        let path = entry?.path();
        Ok(Self { content: std::fs::read(&path)?, path })
    }

    fn restore(&self) -> Result<(), Box<dyn Error>> {
        Ok(std::fs::write(&self.path, &self.content)?)
    }
}

/// Reads every commit once and follows its parents, which is the least a reader can do.
fn descend(repo: &gix::Repository) -> Result<usize, Box<dyn Error>> {
    let mut seen = gix::hashtable::HashSet::default();
    let mut next = vec![repo.head_id()?.detach()];
    let mut bytes = 0;
    while let Some(id) = next.pop() {
        if seen.insert(id) {
            let commit = repo.find_commit(id)?;
            let commit = commit.decode()?;
            bytes += commit.message.len();
            next.extend(commit.parents());
        }
    }
    if bytes == 0 {
        return Err("no commit has a message".into());
    }
    Ok(seen.len())
}

/// The same with the library's own walk.
fn library_walk(repo: &gix::Repository) -> Result<usize, Box<dyn Error>> {
    let mut passed = 0;
    for info in repo.rev_walk([repo.head_id()?.detach()]).all()? {
        let commit = info?.object()?;
        passed += usize::from(!commit.message_raw()?.is_empty());
    }
    Ok(passed)
}

fn check(progress: &Progress, tasks: usize) -> Result<(), Box<dyn Error>> {
    let complete = progress.tasks().filter(|(_, state)| state.status == TaskStatus::Complete).count();
    let attempts: u32 = progress.tasks().map(|(_, state)| state.attempts).sum();
    let expected = tasks + (0..tasks).filter(|task| fails_first(*task)).count();
    if (complete, attempts as usize) != (tasks, expected) {
        return Err(format!("{complete} of {tasks} tasks are complete after {attempts} attempts").into());
    }
    Ok(())
}

fn fails_first(task: usize) -> bool {
    task.is_multiple_of(4)
}

/// The steps of all tasks, spread evenly over other people's commits. The last of them is the last commit.
fn messages(commits: usize, tasks: usize) -> Vec<String> {
    let mut steps = vec![Step::run_start(TREE).message("main", "", None, "").write()];
    let redactor = Redactor::new([("", ""); 0]);
    (0..tasks).for_each(|task| steps.extend(of_task(task, &redactor)));
    let commits = commits.max(steps.len() + NEW);
    let count = steps.len();
    let mut steps = steps.into_iter();
    let mut messages = Vec::with_capacity(commits);
    for number in 0..commits {
        let due = (number + 1) * count / commits > number * count / commits;
        messages.push(if due { steps.next().unwrap_or_default() } else { ordinary(number) });
    }
    messages
}

fn ordinary(number: usize) -> String {
    format!(
        "Handle case {number} of the import\n\nThe reader took the last line of a file for its first when the file had \
         only one. It\nlooks at the line's number now, and the test that was switched off in change {} runs again.\n",
        number / 2
    )
}

/// A task that is complete after one attempt or two.
fn of_task(number: usize, redactor: &Redactor) -> Vec<String> {
    let id = TaskId::new(format!("T{number:04}")).expect("a letter and digits are an id");
    let name = format!("Write part {number} of the importer and its tests");
    let step = |kind: StepKind, passed: bool, retry: u32, body: &text::Body| {
        let session = "abcdefgh".parse().ok();
        let facts = |kind| TestFacts {
            kind,
            counts: Some(Counts { passed: 14, failed: u64::from(!passed), skipped: 0 }),
            runtime: Some(std::time::Duration::from_millis(3_210)),
            log: (!passed).then(|| format!("spec/logs/{id}_test_20260301T101112.log")),
        };
        let step = Step {
            retry: Some(retry),
            test: (kind == StepKind::Test).then(|| facts(TestKind::Unit)),
            session,
            tree: Some(TREE.into()),
            ..Step::new(Some(id.clone()), kind, passed)
        };
        step.message("main", &name, Some(AttemptNumber { number: retry + 1, of: 5 }), &body.write(redactor)).write()
    };
    let lines = "A line of what a program says when it does its work as it should.\n".repeat(20);
    let tests = |passed| {
        text::tests(&[RanTest {
            kind: TestKind::Unit,
            command: "make test".into(),
            counts: None,
            failing: Vec::new(),
            exit: "exit 0".into(),
            passed,
            stdout: lines.clone(),
            stderr: lines.clone(),
            runtime: std::time::Duration::ZERO,
        }])
    };
    let mut all = Vec::new();
    let last = u32::from(fails_first(number));
    for retry in 0..=last {
        all.push(step(StepKind::Implement, true, retry, &text::implement(&lines)));
        all.push(step(StepKind::Test, retry == last, retry, &tests(retry == last)));
    }
    all.push(step(StepKind::Review, true, last, &text::review("All is well.\n\nAPPROVED")));
    all.push(step(StepKind::Complete, true, last, &text::complete(last + 1, None)));
    all
}

/// What `git fast-import` reads.
fn stream(messages: &[String], before: usize) -> String {
    let mut stream = String::new();
    for (number, message) in messages.iter().enumerate() {
        let at = 1_600_000_000 + (before + number) * 60;
        let from = if before > 0 && number == 0 { "from refs/heads/main^0\n" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(
            stream,
            "commit refs/heads/main\nauthor A U Thor <author@example.org> {at} +0000\n\
             committer A U Thor <author@example.org> {at} +0000\ndata {}\n{message}\n{from}",
            message.len()
        );
    }
    stream
}
