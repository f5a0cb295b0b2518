//! What a turn costs next to doing the same with git: `cargo xtask bench turn-commit`.

use std::error::Error;
use std::path::Path;

use git::Durability;

use super::files::{self, Changes};
use super::options::Options;
use super::samples::Samples;
use super::scan::{self, Scans};
use super::session::{Parts, Session};
use super::verdict::Verdicts;
use super::world::World;

/// The numbers of files a turn changes.
const CHANGED: [usize; 2] = [1, 5];

/// Earlier turns of the short session.
const FEW_TURNS: usize = 10;

/// The size the targets speak of.
const TARGET_SIZE: usize = 20_000;

/// Runs the benchmark and prints its tables.
pub fn run(options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    println!(
        "wall milliseconds, median of {}; × is how many times faster than `git add && git commit`",
        options.rounds
    );
    let mut all = Vec::new();
    for size in &options.sizes {
        all.push(measure(*size, options)?);
    }
    Ok(judge(&all))
}

/// All contenders at one number of changed files and of earlier turns.
#[derive(Debug, Default)]
struct Turns {
    changed: usize,
    earlier: u64,
    porcelain: Samples,
    plumbing: Samples,
    parts: Parts,
    durable_parts: Parts,
    whole: Samples,
    durable_whole: Samples,
    git_calls: usize,
}

/// One repository.
#[derive(Debug)]
struct Measured {
    size: usize,
    scans: Scans,
    turns: Vec<Turns>,
    fill: Samples,
    fill_git_calls: usize,
}

fn measure(size: usize, options: &Options) -> Result<Measured, Box<dyn Error>> {
    let world = World::new()?;
    let checkout = files::repository(&world, "repo", size)?;
    println!("\n== {size} files");
    let scans = scan::run(&world, &checkout, size, options.rounds)?;
    show_scans(&scans);
    let mut session = Session::start(&world, &checkout)?;
    let mut changes = Changes::new(size);
    let mut turns = Vec::new();
    fill(&mut session, &mut changes, FEW_TURNS)?;
    for changed in CHANGED {
        turns.push(compare(&world, &checkout, &mut session, &mut changes, changed, options.rounds)?);
    }
    let before = world.git_calls();
    let filled = fill(&mut session, &mut changes, options.turns)?;
    let fill_git_calls = world.git_calls() - before;
    show_fill(&filled, fill_git_calls);
    for changed in CHANGED {
        turns.push(compare(&world, &checkout, &mut session, &mut changes, changed, options.rounds)?);
    }
    Ok(Measured { size, scans, turns, fill: filled, fill_git_calls })
}

/// Makes earlier turns, one file each.
fn fill(session: &mut Session, changes: &mut Changes, turns: usize) -> Result<Samples, Box<dyn Error>> {
    let mut samples = Samples::default();
    let mut recorder = session.recorder(Durability::None);
    for _ in 0..turns {
        let paths = changes.make(session.path(), 1)?;
        session.turn(&mut recorder, Durability::None, &paths, &mut samples)?;
    }
    Ok(samples)
}

fn compare(
    world: &World,
    checkout: &Path,
    session: &mut Session,
    changes: &mut Changes,
    changed: usize,
    rounds: usize,
) -> Result<Turns, Box<dyn Error>> {
    let mut turns = Turns { changed, earlier: session.turns(), ..Turns::default() };
    let copy = session.path().to_owned();
    let calls = world.git_calls();
    for _ in 0..rounds {
        let paths = changes.make(checkout, changed)?;
        turns.porcelain.time(|| porcelain(world, checkout, &paths))?;
        let paths = changes.make(checkout, changed)?;
        turns.plumbing.time(|| plumbing(world, checkout, &paths))?;
        for durability in [Durability::None, Durability::Fsync] {
            let (parts, whole) = match durability {
                Durability::None => (&mut turns.parts, &mut turns.whole),
                Durability::Fsync => (&mut turns.durable_parts, &mut turns.durable_whole),
            };
            let paths = changes.make(&copy, changed)?;
            session.turn_in_parts(durability, &paths, parts)?;
            let paths = changes.make(&copy, changed)?;
            let mut recorder = session.recorder(durability);
            session.turn(&mut recorder, durability, &paths, whole)?;
        }
    }
    turns.git_calls = world.git_calls() - calls;
    show_turns(&turns);
    Ok(turns)
}

/// Two processes, as people and most tools do it.
fn porcelain(world: &World, checkout: &Path, paths: &[String]) -> Result<(), Box<dyn Error>> {
    let mut add = vec!["add", "--"];
    add.extend(paths.iter().map(String::as_str));
    world.git(checkout, &add)?;
    world.git(checkout, &["commit", "--quiet", "-m", "x"])?;
    Ok(())
}

/// Six processes, as scripts do it that care.
fn plumbing(world: &World, checkout: &Path, paths: &[String]) -> Result<(), Box<dyn Error>> {
    let mut hash = vec!["hash-object", "-w", "--"];
    hash.extend(paths.iter().map(String::as_str));
    let blobs = world.git(checkout, &hash)?;
    let entries = blobs.lines().zip(paths).map(|(blob, path)| format!("100644 {blob}\t{path}\n"));
    world.git_reading(checkout, &["update-index", "--index-info"], entries.collect::<String>().as_bytes())?;
    let tree = world.git(checkout, &["write-tree"])?;
    let head = world.git(checkout, &["rev-parse", "HEAD"])?;
    let commit = world.git(checkout, &["commit-tree", "-p", &head, "-m", "x", &tree])?;
    world.git(checkout, &["update-ref", "refs/heads/main", &commit, &head])?;
    Ok(())
}

fn show_scans(scans: &Scans) {
    let git = scans.git.median();
    println!("\nwhat changed (1 file)                        ms   of git status");
    let rows = [
        ("git status --porcelain", &scans.git),
        ("cold: open the working copy, look at all", &scans.cold),
        ("  of which opening", &scans.open),
        ("held: look at all files", &scans.held),
        ("warm: look at the paths tools wrote", &scans.candidates),
    ];
    for (name, samples) in rows {
        println!("{name:<40} {:>8.3}   {:>7.3}", samples.median(), samples.median() / git);
    }
}

fn show_turns(turns: &Turns) {
    let git = turns.porcelain.median();
    println!("\nturn with {} changed, after {} turns         ms        ×", turns.changed, turns.earlier);
    let rows = [
        ("git add -- f && git commit", &turns.porcelain),
        ("git plumbing, 6 processes", &turns.plumbing),
        ("pleach commit", &turns.parts.commit),
        ("pleach commit, fsync", &turns.durable_parts.commit),
        ("pleach record", &turns.parts.record),
        ("pleach record, fsync", &turns.durable_parts.record),
        ("pleach scan of the written paths", &turns.parts.scan),
        ("pleach whole turn", &turns.whole),
        ("pleach whole turn, fsync", &turns.durable_whole),
    ];
    for (name, samples) in rows {
        println!("{name:<36} {:>8.3} {:>8.1}", samples.median(), git / samples.median());
    }
    let count = turns.whole.len() + turns.durable_whole.len() + 2 * turns.whole.len();
    println!("git processes in {count} turns of pleach: {}", turns.git_calls);
}

fn show_fill(fill: &Samples, git_calls: usize) {
    let (first, last) = ends(fill);
    println!(
        "\n{} turns in a row, no fsync, packing included: mean of the first tenth {first:.3} ms, of the last \
              {last:.3} ms; git processes {git_calls}",
        fill.len()
    );
}

/// The means of the first and the last tenth.
fn ends(fill: &Samples) -> (f64, f64) {
    let tenth = (fill.len() / 10).max(1);
    (fill.mean(0..tenth), fill.mean(fill.len() - tenth..fill.len()))
}

fn judge(all: &[Measured]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    // The targets speak of one size; a run without it is judged by its largest.
    let Some(target) = all.iter().find(|one| one.size == TARGET_SIZE).or(all.last()) else { return verdicts };
    let files = format!("{} files", target.size);
    let [few, _, many, _] = &target.turns[..] else { return verdicts };
    for (when, turns) in [(few.earlier, few), (many.earlier, many)] {
        let git = turns.porcelain.median();
        let name = |what: &str| format!("{files}, 1 changed, after {when} turns: {what}");
        verdicts.at_least(&name("commit"), git / turns.parts.commit.median(), 40.0, "×");
        verdicts.at_least(&name("commit with fsync"), git / turns.durable_parts.commit.median(), 20.0, "×");
    }
    let growth = |samples: fn(&Turns) -> &Samples| samples(many).median() / samples(few).median();
    let long = format!("{} to {} turns", few.earlier, many.earlier);
    verdicts.at_most(&format!("{files}, commit, from {long}"), growth(|turns| &turns.parts.commit), 1.2, "×");
    verdicts.at_most(&format!("{files}, record, from {long}"), growth(|turns| &turns.parts.record), 1.2, "×");
    let (first, last) = ends(&target.fill);
    verdicts.at_most(&format!("{files}, turn with packing, last tenth to first"), last / first, 1.2, "×");
    let calls: usize = all.iter().flat_map(|one| &one.turns).map(|turns| turns.git_calls).sum();
    verdicts.at_most("git processes in measured turns", calls as f64, 0.0, "");
    let packing = target.fill_git_calls as f64 / target.fill.len() as f64;
    verdicts.at_most("git processes per turn, packing included", packing, 0.01, "");
    let status = target.scans.git.median();
    verdicts.at_most(&format!("{files}, cold scan to git status"), target.scans.cold.median() / status, 1.2, "×");
    if let (Some(small), Some(large)) = (all.first(), all.last()) {
        let what = format!("warm scan, {} to {} files", small.size, large.size);
        verdicts.at_most(&what, large.scans.candidates.median() / small.scans.candidates.median(), 1.5, "×");
    }
    verdicts
}
