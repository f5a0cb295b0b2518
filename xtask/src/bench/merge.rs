//! What landing through the merge queue costs, and what testing prefixes of a batch at once gains: `cargo xtask bench merge`.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::files;
use super::options::Options;
use super::verdict::Verdicts;
use super::world::World;

/// Files of the repositories.
const SIZES: [usize; 2] = [1_500, 20_000];

/// Branches that are merged without tests.
const MERGES: usize = 40;

/// Branches of the queue with tests, and those that fail them.
const CHANGES: usize = 64;
const BAD: usize = 3;

/// How long a test takes.
const TEST: Duration = Duration::from_secs(3);

/// Tests at once.
const SLOTS: usize = 4;

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let mut verdicts = Verdicts::default();
    let merges = if options.quick { MERGES / 4 } else { MERGES };
    println!("{:<14} {:>16} {:>18} {:>14}", "files", "git merge, ms", "queue landing, ms", "landings/min");
    for size in SIZES {
        let git = plain(size, merges)?;
        let queue = landings(pleach, size, merges)?;
        println!("{size:<14} {:>16.1} {:>18.1} {:>14.0}", git * 1e3, queue * 1e3, 60.0 / queue);
        let what = format!("landing through the queue against `git merge`, {size} files");
        verdicts.at_most(&what, queue / git, 1.0, " ×");
    }
    let (wall, runs) = with_tests(pleach, options.quick)?;
    let each = CHANGES as f64;
    let per_test = each / (wall / TEST.as_secs_f64());
    println!("{CHANGES} changes, {BAD} bad, tests of {TEST:?}, {SLOTS} slots: {wall:.1} s, {runs} test runs");
    verdicts.at_least("changes per test duration", per_test, 6.0, "");
    verdicts.at_most("test runs per change", runs / each, 0.75, "");
    Ok(verdicts)
}

/// Branches that each change a file of their own; `bad` of them, spread by a fixed seed, write a file that fails tests.
fn branches(world: &World, repo: &Path, count: usize, bad: &[usize]) -> Result<(), Box<dyn Error>> {
    let mut stream = String::new();
    for number in 0..count {
        let path = files::path(number * 31 % 1_000);
        let content = format!("changed by branch {number}\n");
        stream.push_str(&format!(
            "commit refs/heads/b{number:02}\ncommitter Bench <bench@example.org> 1700000001 +0000\ndata 6\nChange\n\
             from refs/heads/main^0\nM 100644 inline {path}\ndata {}\n{content}\n",
            content.len()
        ));
        if bad.contains(&number) {
            stream.push_str(&format!("M 100644 inline bad-{number}\ndata 2\n1\n\n"));
        }
    }
    world.git_reading(repo, &["fast-import", "--quiet"], stream.as_bytes())?;
    Ok(())
}

/// Seconds that git takes for a merge in a checkout.
fn plain(size: usize, merges: usize) -> Result<f64, Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", size)?;
    branches(&world, &repo, merges, &[])?;
    let begun = Instant::now();
    for number in 0..merges {
        world.git(&repo, &["merge", "--quiet", "--no-ff", "--no-edit", &format!("b{number:02}")])?;
    }
    Ok(begun.elapsed().as_secs_f64() / merges as f64)
}

/// Seconds that the queue takes for a landing without tests, its target checked out.
fn landings(pleach: &Path, size: usize, merges: usize) -> Result<f64, Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", size)?;
    branches(&world, &repo, merges, &[])?;
    enqueue(&world, pleach, &repo, merges)?;
    let begun = Instant::now();
    let done = process(&world, pleach, &repo)?;
    let wall = begun.elapsed().as_secs_f64();
    let landed = done["landed"].as_array().map_or(0, Vec::len);
    if landed != merges {
        return Err(format!("{landed} of {merges} branches landed").into());
    }
    Ok(wall / merges as f64)
}

/// Seconds and test runs for a queue in which some branches fail.
fn with_tests(pleach: &Path, quick: bool) -> Result<(f64, f64), Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", 200)?;
    let bad = [11, 29, 50];
    let seconds = TEST.as_secs();
    let settings =
        format!("merge: {{test_command: 'sleep {seconds}; ! ls bad-* 2> /dev/null', slots: {SLOTS}, batch: 16}}\n");
    std::fs::write(repo.join("pleach.yaml"), settings)?;
    world.git(&repo, &["add", "--all"])?;
    world.git(&repo, &["commit", "--quiet", "-m", "Settings"])?;
    let count = if quick { CHANGES / 2 } else { CHANGES };
    branches(&world, &repo, count, &bad)?;
    enqueue(&world, pleach, &repo, count)?;
    let begun = Instant::now();
    let done = process(&world, pleach, &repo)?;
    let wall = begun.elapsed().as_secs_f64() * (CHANGES / count) as f64;
    let runs = done["tests"].as_f64().unwrap_or_default() * (CHANGES / count) as f64;
    Ok((wall, runs))
}

fn enqueue(world: &World, pleach: &Path, repo: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    for number in 0..count {
        let mut command = world.program(pleach, repo);
        let output = command.args(["merge", "enqueue", &format!("b{number:02}")]).stdout(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
    }
    Ok(())
}

/// Works the queue, and gives what it says in the end.
fn process(world: &World, pleach: &Path, repo: &Path) -> Result<Value, Box<dyn Error>> {
    let output = world.program(pleach, repo).args(["--yes", "--json", "merge", "process"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(serde_json::from_str(last)?)
}
