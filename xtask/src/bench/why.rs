//! How long it takes to say why lines are there: `cargo xtask bench why`.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::memory;
use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;
use super::world::World;

#[path = "../../../crates/testing/authored_history.rs"]
#[allow(dead_code, reason = "the tests make more of it")]
mod authored_history;

use authored_history::{Author, AuthoredHistory, WAYS, Way};

/// Turns of the long history, and of one run in it.
const TURNS: usize = 2_000;
const OF_RUN: usize = 20;

/// Tasks of the tree, turns of each, and what people had done to the file before.
const TASKS: usize = 100;
const OF_TASK: usize = 10;
const BEFORE: usize = 1_000;

/// Runs of the history whose every line is known.
const SESSIONS: usize = 100;

const ROUNDS: usize = 5;

/// Against `git blame`, the whole file; megabytes; seconds more than `git blame -L`.
const TABLE: f64 = 1.3;
const MEMORY: f64 = 200.0;
const CARD: f64 = 0.3;

/// Against `git blame`, where each step leads to a session.
const COLD: f64 = 3.0;
const WARM: f64 = 1.3;

const FILE: &str = "made.rs";

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let mut verdicts = Verdicts::default();
    let rounds = options.rounds.min(ROUNDS);
    let (turns, tasks) = if options.quick { (200, 10) } else { (TURNS, TASKS) };
    of_turns(pleach, rounds, turns, &mut verdicts)?;
    of_steps(pleach, rounds, tasks, &mut verdicts)?;
    of_lines(pleach, if options.quick { WAYS.len() } else { SESSIONS }, &mut verdicts)?;
    Ok(verdicts)
}

/// A repository with an empty commit.
fn begin(world: &World, seed: u64, files: &[(&str, usize)]) -> Result<AuthoredHistory, Box<dyn Error>> {
    let dir = world.root().join("repo");
    world.git(world.root(), &["init", "--quiet", "repo"])?;
    world.git(&dir, &["commit", "--quiet", "--allow-empty", "--message=Begin"])?;
    let repo = git::discover(&dir, &world.counted())?;
    Ok(AuthoredHistory::begin(repo, "repo", seed, files))
}

/// Puts the newest files into the checkout, and everything into a pack.
fn settle(world: &World) -> Result<(), Box<dyn Error>> {
    let dir = world.root().join("repo");
    world.git(&dir, &["reset", "--quiet", "--hard"])?;
    world.git(&dir, &["repack", "-q", "-a", "-d"])?;
    Ok(())
}

/// Turns on the branch itself.
fn of_turns(pleach: &Path, rounds: usize, turns: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = World::new()?;
    let mut made = begin(&world, 3, &[(FILE, 600)])?;
    for _ in 0..turns / OF_RUN {
        made.run(Way::Forward, OF_RUN, 1);
    }
    settle(&world)?;
    let lines = made.files[FILE].len();
    let line =
        made.files[FILE].iter().rposition(|line| matches!(made.lines[*line].1, Author::Turn(_))).unwrap_or(0) + 1;
    let (range, at) = (format!("-L{line},{line}"), format!("{FILE}:{line}"));
    let [mut blame, mut why, mut one, mut card] = [(); 4].map(|()| Samples::default());
    let mut most: f64 = 0.0;
    for _ in 0..rounds {
        blame.push(git(&world, &["blame", "--", FILE])?.0);
        let (time, peak) = program(&world, pleach, &["why", FILE])?;
        why.push(time);
        most = most.max(peak);
        one.push(git(&world, &["blame", &range, "--", FILE])?.0);
        card.push(program(&world, pleach, &["why", &at])?.0);
    }
    println!("{lines} lines, {turns} turns; median and best of {rounds} rounds");
    for (what, samples) in
        [("git blame", &blame), ("why, the whole file", &why), ("git blame -L", &one), ("why, one line", &card)]
    {
        println!("{what:<36} {:9.1} ms {:9.1} ms", samples.median(), samples.best());
    }
    verdicts.at_most("why of a file, against `git blame`", why.median() / blame.median(), TABLE, " ×");
    verdicts.at_most("its memory", most, MEMORY, " MB");
    verdicts.at_most("why of a line, more than `git blame -L`", (card.median() - one.median()) / 1e3, CARD, " s");
    Ok(())
}

/// Tasks of which the branch has the steps alone.
fn of_steps(pleach: &Path, rounds: usize, tasks: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = World::new()?;
    let mut made = begin(&world, 5, &[(FILE, 1_500)])?;
    for _ in 0..BEFORE {
        made.person();
    }
    for number in 0..tasks {
        let mut task = made.task();
        made.step(&mut task, OF_TASK, 1);
        if number % 2 == 0 {
            made.person();
        }
        made.land_steps(task);
    }
    settle(&world)?;
    let memo = made.repo.common_dir().join("pleach/cache/why");
    let [mut blame, mut cold, mut warm] = [(); 3].map(|()| Samples::default());
    for _ in 0..rounds {
        blame.push(git(&world, &["blame", "--", FILE])?.0);
        let _ = std::fs::remove_dir_all(&memo);
        cold.push(program(&world, pleach, &["why", FILE])?.0);
        warm.push(program(&world, pleach, &["why", FILE])?.0);
    }
    println!("{} lines, {tasks} tasks of {OF_TASK} turns, their steps alone", made.files[FILE].len());
    for (what, samples) in [("git blame", &blame), ("why, the first time", &cold), ("why, from then on", &warm)] {
        println!("{what:<36} {:9.1} ms {:9.1} ms", samples.median(), samples.best());
    }
    verdicts.at_most("why over steps, the first time", cold.median() / blame.median(), COLD, " ×");
    verdicts.at_most("why over steps, from then on", warm.median() / blame.median(), WARM, " ×");
    Ok(())
}

/// How many lines of agents are said to be of their turn.
fn of_lines(pleach: &Path, sessions: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = World::new()?;
    let mut made = begin(&world, 7, &[("a.rs", 100), ("src/b.rs", 100), ("src/c.rs", 100)])?;
    for number in 0..sessions {
        made.run(WAYS[number % WAYS.len()], 4, 2);
        if number % 3 == 0 {
            made.person();
        }
    }
    settle(&world)?;
    let [mut all, mut right, mut squashed, mut squashed_right, mut wrong] = [0_usize; 5];
    for (file, lines) in &made.files {
        let output = world.program(pleach, &world.root().join("repo")).args(["why", "--json", file]).output()?;
        let why: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let mut told = Vec::new();
        for of in why["lines"].as_array().ok_or("no lines")? {
            let count = of["last"].as_u64().unwrap_or_default() + 1 - of["first"].as_u64().unwrap_or_default();
            told.extend((0..count).map(|_| of["turn"].as_str()));
        }
        for (line, told) in lines.iter().zip(told) {
            let is_squashed = made.squashed.contains(line);
            match &made.lines[*line].1 {
                Author::Anybody => {}
                Author::Person => wrong += usize::from(told.is_some()),
                Author::Turn(turn) => {
                    let is_right = told == Some(turn);
                    wrong += usize::from(told.is_some() && !is_right);
                    let (all, right) =
                        if is_squashed { (&mut squashed, &mut squashed_right) } else { (&mut all, &mut right) };
                    (*all, *right) = (*all + 1, *right + usize::from(is_right));
                }
            }
        }
    }
    println!(
        "{sessions} runs: {right} of {all} lines on their turn, {squashed_right} of {squashed} in squashes without a hint"
    );
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    verdicts.at_least("lines of agents on their turn", percent(right, all), 99.5, " %");
    verdicts.at_least("lines of squashes without a hint", percent(squashed_right, squashed), 90.0, " %");
    verdicts.at_most("lines on a wrong turn", wrong as f64, 0.0, "");
    Ok(())
}

fn git(world: &World, args: &[&str]) -> Result<(Duration, f64), Box<dyn Error>> {
    timed(world.program(world.real_git(), &world.root().join("repo")).args(args))
}

fn program(world: &World, pleach: &Path, args: &[&str]) -> Result<(Duration, f64), Box<dyn Error>> {
    timed(world.program(pleach, &world.root().join("repo")).args(args))
}

/// How long a program takes, and how many megabytes.
fn timed(command: &mut Command) -> Result<(Duration, f64), Box<dyn Error>> {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let (id, mut most) = (child.id().to_string(), 0.0_f64);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        most = most.max(memory::peak(&id).unwrap_or_default());
        std::thread::sleep(Duration::from_micros(500));
    };
    let took = begun.elapsed();
    if status.success() { Ok((took, most)) } else { Err(format!("{command:?} failed").into()) }
}
