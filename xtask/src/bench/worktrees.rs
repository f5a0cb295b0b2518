//! What worktrees cost next to `git worktree add`: `cargo xtask bench worktrees`.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use git::workspace::{default_worktree_base, disk_usage, repo_name};
use pleach_core::ids::CommitId;
use serde_json::Value;

use super::files;
use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;
use super::world::World;

/// Files that differ between one task's commit and the next.
const CHANGED: usize = 20;

/// So many slots are made for their space on the disk.
const SLOTS: [usize; 3] = [5, 20, 50];

/// So many slots are there when worktrees are listed.
const LISTED: usize = 10;

/// How often a contender is measured at most in the middle and in the largest repository, where each takes seconds.
const MIDDLE_ROUNDS: usize = 7;
const LARGE_ROUNDS: usize = 5;

/// The pipeline whose first node is waited for.
const PIPELINE: &str = "digraph one {\n    graph [goal=\"begin\"]\n    start [shape=Mdiamond]\n    done [shape=Msquare]\n    \
                        step [shape=parallelogram, tool_command=\"true\"]\n    start -> step -> done\n}\n";

/// Runs the benchmark and prints its tables.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let [small, middle, large] = options.worktree_sizes[..] else {
        return Err("--worktree-sizes needs three sizes: small, middle, large".into());
    };
    let mut verdicts = Verdicts::default();
    println!("wall milliseconds, median; contenders take turns");
    // Removed files make new ones slower on some file systems for minutes, so what removes comes last.
    first_node(pleach, large, options.rounds.min(LARGE_ROUNDS), &mut verdicts)?;
    re_used_slot(middle, options.rounds.min(MIDDLE_ROUNDS), &mut verdicts)?;
    disk_used(small)?;
    listed(pleach, small, options.rounds, &mut verdicts)?;
    made_and_removed(small, options.rounds, &mut verdicts)?;
    Ok(verdicts)
}

/// A place on a disk: what lies in memory says little of what files cost.
fn world_on_disk() -> Result<World, Box<dyn Error>> {
    let world = World::new()?;
    let output = world.program("stat", world.root()).args(["-f", "-c", "%T", "."]).output()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        kind @ ("tmpfs" | "ramfs") => {
            Err(format!("`{}` is a {kind}; set TMPDIR to a disk", world.root().display()).into())
        }
        _ => Ok(world),
    }
}

/// From the start of the program to the end of the first node, in a session that has no worktree yet.
fn first_node(pleach: &Path, size: usize, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = world_on_disk()?;
    let repo = files::repository(&world, "repo", size)?;
    std::fs::write(world.root().join("one.dot"), PIPELINE)?;
    let (mut git, mut node, mut whole) = (Samples::default(), Samples::default(), Samples::default());
    for round in 0..rounds {
        add_by_git(&world, &repo, round, &mut git)?;
        until_first_node(&world, pleach, &repo, &mut node, &mut whole)?;
    }
    println!("\n== {size} files: the first node of a new session");
    let rows = [("git worktree add", &git), ("pleach run, first node ended", &node), ("pleach run, whole", &whole)];
    print_rows(&rows, git.median());
    let what = format!("{size} files, first node of a new session to `git worktree add`");
    verdicts.at_most(&what, node.median() / git.median(), 1.5, "×");
    Ok(())
}

fn until_first_node(
    world: &World,
    pleach: &Path,
    repo: &Path,
    node: &mut Samples,
    whole: &mut Samples,
) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let mut command = world.program(pleach, repo);
    let mut child = command.args(["--yes", "--json", "run", "../one.dot"]).stdout(Stdio::piped()).spawn()?;
    let mut ended = None;
    for line in BufReader::new(child.stdout.take().expect("a piped output")).lines() {
        let line = line?;
        if ended.is_none() && line.contains("dev.orchestra.NodeExecution") {
            let event: Value = serde_json::from_str(&line)?;
            ended = (event["data"]["node_id"] == "step").then(|| begun.elapsed());
        }
    }
    let status = child.wait()?;
    whole.push(begun.elapsed());
    node.push(ended.filter(|_| status.success()).ok_or_else(|| format!("pleach run: {status}, no node ended"))?);
    Ok(())
}

/// The slot of a task given to the next one, whose commit differs in a few files. A run knows of its slot that a review, which
/// must not write, left nothing uncommitted; another one looks for that first.
fn re_used_slot(size: usize, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = world_on_disk()?;
    let checkout = files::repository(&world, "repo", size)?;
    let repo = git::discover(&checkout, &world.counted())?;
    let commits = commits(&world, &checkout, size, 2 * rounds)?;
    let slot = world.root().join("slots/main");
    let mut held = git::worktree::add(&repo, &slot, repo.head()?.commit)?;
    let (mut git, mut by_held, mut by_opened) = (Samples::default(), Samples::default(), Samples::default());
    let calls = world.git_calls();
    for (round, pair) in commits.chunks(2).enumerate() {
        add_by_git(&world, &checkout, round, &mut git)?;
        by_held.time(|| git::worktree::reset_to(&mut held, pair[0], repo.tree_of(pair[0])?))?;
        check(&world, &slot, pair[0])?;
        by_opened.time(|| -> Result<(), Box<dyn Error>> {
            let mut opened = git::worktree::open(&repo, &slot)?;
            if git::worktree::scan_all(&mut opened)?.paths().next().is_some() {
                return Err("a slot has uncommitted files".into());
            }
            git::worktree::reset_to(&mut opened, pair[1], repo.tree_of(pair[1])?)?;
            Ok(())
        })?;
        check(&world, &slot, pair[1])?;
        held = git::worktree::open(&repo, &slot)?;
    }
    let calls = world.git_calls() - calls;
    println!("\n== {size} files: a task slot for the next task, {CHANGED} files differ; {calls} git processes");
    let rows = [
        ("git worktree add", &git),
        ("slot re-used, by the same run", &by_held),
        ("slot re-used, by another run", &by_opened),
    ];
    print_rows(&rows, git.median());
    let name = |who: &str| format!("{size} files, task slot re-used by {who}, times faster than `git worktree add`");
    verdicts.at_least(&name("the same run"), git.median() / by_held.median(), 20.0, "×");
    verdicts.at_least(&name("another run"), git.median() / by_opened.median(), 20.0, "×");
    verdicts.at_most("git processes of re-used slots", calls as f64, 0.0, "");
    Ok(())
}

/// That the slot is at the commit, with nothing changed.
fn check(world: &World, slot: &Path, commit: CommitId) -> Result<(), Box<dyn Error>> {
    let head = world.git(slot, &["rev-parse", "HEAD"])?;
    let status = world.git(slot, &["--no-optional-locks", "status", "--porcelain"])?;
    if head == commit.to_string() && status.is_empty() {
        Ok(())
    } else {
        Err(format!("the slot is at {head}, not clean at {commit}: {status}").into())
    }
}

/// Commits one after the other, each with a few files changed.
fn commits(world: &World, checkout: &Path, size: usize, count: usize) -> Result<Vec<CommitId>, Box<dyn Error>> {
    let mut stream = String::new();
    for commit in 1..=count {
        stream
            .push_str("commit refs/heads/tasks\ncommitter Bench <bench@example.org> 1700000000 +0000\ndata 4\nNext\n");
        if commit == 1 {
            stream.push_str("from refs/heads/main^0\n");
        }
        for file in 0..CHANGED {
            // A prime far from the sizes of directories and repositories.
            let (path, text) = (files::path((commit * CHANGED + file) * 7_919 % size), format!("{commit} {file}\n"));
            stream.push_str(&format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len()));
        }
    }
    world.git_reading(checkout, &["fast-import", "--quiet"], stream.as_bytes())?;
    let ids = world.git(checkout, &["rev-list", "--reverse", "main..tasks"])?;
    Ok(ids.lines().map(str::parse).collect::<Result<_, _>>()?)
}

/// The space slots take, worktrees and what the repository keeps of them.
fn disk_used(size: usize) -> Result<(), Box<dyn Error>> {
    let world = world_on_disk()?;
    let checkout = files::repository(&world, "repo", size)?;
    let repo = git::discover(&checkout, &world.counted())?;
    let (head, slots) = (repo.head()?.commit, world.root().join("slots"));
    let megabytes = |path: &Path| disk_usage(path) as f64 / 1e6;
    let (whole, objects) = (megabytes(&checkout), megabytes(repo.common_dir()));
    println!("\n== {size} files: disk used, MB");
    println!("{:<34} {:>10.1}   of it .git {objects:.1}", "the repository with its checkout", whole);
    let mut added = 0;
    for count in SLOTS {
        while added < count {
            added += 1;
            git::worktree::add(&repo, &slots.join(added.to_string()), head)?;
        }
        let (used, kept) = (megabytes(&slots), megabytes(repo.common_dir()) - objects);
        let each = (used + kept) / count as f64;
        println!("{:<34} {used:>10.1}   in .git {kept:.1}; each {each:.2}", format!("{count} slots"));
    }
    Ok(())
}

/// The worktrees of a repository listed, those of tasks, by the program.
fn listed(pleach: &Path, size: usize, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = world_on_disk()?;
    let checkout = files::repository(&world, "repo", size)?;
    let repo = git::discover(&checkout, &world.counted())?;
    let name = repo_name(repo.git_dir(), repo.workdir());
    let base = default_worktree_base(&world.root().join("state/pleach"), repo.common_dir(), &name);
    let slots = std::iter::once("main".to_owned()).chain((2..=LISTED).map(|slot| slot.to_string()));
    for slot in slots {
        git::worktree::add(&repo, &base.join("tasks/main").join(slot), repo.head()?.commit)?;
    }
    let (mut by_git, mut by_pleach) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        by_git.time(|| world.git(&checkout, &["worktree", "list", "--porcelain"]))?;
        let output = by_pleach.time(|| world.program(pleach, &checkout).args(["worktree", "list"]).output())?;
        let found = String::from_utf8_lossy(&output.stdout).matches("tasks on main").count();
        if found != LISTED {
            return Err(format!("pleach lists {found} of {LISTED} worktrees").into());
        }
    }
    println!("\n== {size} files, {LISTED} slots: worktrees listed");
    print_rows(&[("git worktree list", &by_git), ("pleach worktree list", &by_pleach)], by_git.median());
    let what = format!("{size} files, {LISTED} slots, worktrees listed");
    verdicts.at_most(&what, by_pleach.median() / 1e3, 0.05, " s");
    Ok(())
}

/// A worktree from nothing to nothing.
fn made_and_removed(size: usize, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = world_on_disk()?;
    let checkout = files::repository(&world, "repo", size)?;
    let repo = git::discover(&checkout, &world.counted())?;
    let head = repo.head()?.commit;
    let (mut git_add, mut git_remove) = (Samples::default(), Samples::default());
    let (mut add, mut remove) = (Samples::default(), Samples::default());
    for round in 0..rounds {
        let by_git = add_by_git(&world, &checkout, round, &mut git_add)?;
        git_remove.time(|| world.git(&checkout, &["worktree", "remove", &by_git.to_string_lossy()]))?;
        let path = world.root().join("slots").join(round.to_string());
        add.time(|| git::worktree::add(&repo, &path, head))?;
        remove.time(|| git::worktree::remove(&repo, &path))?;
    }
    println!("\n== {size} files: a worktree made and removed");
    print_rows(&[("git worktree add", &git_add), ("pleach makes one", &add)], git_add.median());
    print_rows(&[("git worktree remove", &git_remove), ("pleach removes it", &remove)], git_remove.median());
    verdicts.at_most(&format!("{size} files, worktree made"), add.median() / 1e3, 0.5, " s");
    verdicts.at_most(&format!("{size} files, worktree removed"), remove.median() / 1e3, 0.1, " s");
    Ok(())
}

/// A worktree by git alone.
fn add_by_git(world: &World, checkout: &Path, round: usize, samples: &mut Samples) -> Result<PathBuf, Box<dyn Error>> {
    let path = world.root().join(format!("by-git-{round}"));
    samples.time(|| world.git(checkout, &["worktree", "add", "--quiet", "--detach", &path.to_string_lossy()]))?;
    Ok(path)
}

fn print_rows(rows: &[(&str, &Samples)], git: f64) {
    println!("{:<34} {:>10} {:>10} {:>8}", "", "median", "best", "of git");
    for (name, samples) in rows {
        let (median, best) = (samples.median(), samples.best());
        println!("{name:<34} {median:>10.1} {best:>10.1} {:>8.3}", median / git);
    }
}
