//! What a task costs beyond the work of its agent and its tests, and whether that grows: `cargo xtask bench tree`.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use os::process::{Cancel, CommandSpec, Spawner, Stdin};
use serde_json::{Map, Value, json};

use super::cost::{Cost, Costs, END, Mark};
use super::options::Options;
use super::porcelain::{self, FILES, Way};
use super::verdict::Verdicts;
use super::world::World;
use super::{cpu, files};

/// Tasks of a phase.
const PHASE: usize = 20;

/// The number of tasks the targets speak of.
const JUDGED: usize = 300;

/// The judged tree is worked so often: ten tasks take little more than a few ticks of the clock they are read off.
const ROUNDS: usize = 3;

/// Bare commands run to know what those of a task cost.
const BARE: u32 = 100;

/// An agent that approves, and otherwise does nothing.
const AGENT: &str = "#!/bin/sh\n[ \"$PLEACH_NODE\" != review ] || echo APPROVED\n";

/// How a tree is worked.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    /// With a test that runs `true`.
    test: bool,
    /// Logs and reports are not committed, so that the repository does not grow.
    unlogged: bool,
    /// The repository has the logs and reports of so many tasks to begin with.
    grown: usize,
    /// git processes are counted.
    counted: bool,
}

impl Kind {
    /// The same in a repository as large as this one is after so many tasks.
    fn grown(self, tasks: usize) -> Self {
        Self { grown: if self.unlogged { 0 } else { tasks }, ..self }
    }

    fn name(self) -> &'static str {
        match self {
            Self { unlogged: true, .. } => "logs in records alone",
            Self { test: true, .. } => "with a test",
            _ => "without tests",
        }
    }
}

/// How the trees that are measured are worked.
const KINDS: [Kind; 3] = [
    Kind { test: false, unlogged: false, grown: 0, counted: false },
    Kind { test: true, unlogged: false, grown: 0, counted: false },
    Kind { test: false, unlogged: true, grown: 0, counted: false },
];

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let world = World::new()?;
    let agent = agent(&world)?;
    let [agent_cost, test_cost] = commands(&world, pleach, &agent)?;
    println!("repository of {FILES} files; milliseconds and git processes per task; loads: {}", load()?);
    println!("an agent's program alone {agent_cost:.1} ms of CPU, a test `true` alone {test_cost:.1} ms");
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}",
        "", "CPU", "packing", "first 10", "last 10", "wall", "last 10", "git"
    );
    let mut verdicts = Verdicts::default();
    for tasks in options.trees.iter().copied() {
        let is_judged = tasks == options.judged(JUDGED);
        let mut by_hand = [const { Vec::new() }; Way::ALL.len()];
        let (mut gardens, mut grown) = ([const { Vec::new() }; KINDS.len()], [const { Vec::new() }; KINDS.len()]);
        for _ in 0..if is_judged { ROUNDS } else { 1 } {
            for (way, runs) in Way::ALL.into_iter().zip(&mut by_hand) {
                runs.push(way.run(&world, tasks)?);
            }
            for (kind, (runs, grown)) in KINDS.into_iter().zip(gardens.iter_mut().zip(&mut grown)) {
                runs.push(garden(&world, pleach, tasks, kind)?);
                if is_judged {
                    grown.push(garden(&world, pleach, END + 1, kind.grown(tasks))?);
                }
            }
        }
        let by_hand = by_hand.map(|runs| Costs::of(&runs));
        for (way, costs) in Way::ALL.into_iter().zip(&by_hand) {
            costs.print(&format!("{tasks} tasks, {} git, {}", porcelain::PROCESSES, way.name()));
        }
        for (kind, (runs, grown)) in KINDS.into_iter().zip(gardens.iter().zip(&grown)) {
            let whole = Costs::of(runs);
            whole.print(&format!("{tasks} tasks, {}", kind.name()));
            let own = 2.0 * agent_cost + if kind.test { test_cost } else { 0.0 };
            let bare = whole.without(own);
            bare.print("  without its commands");
            for (way, costs) in Way::ALL.into_iter().zip(&by_hand) {
                print_ratios(way, costs, &bare);
            }
            if is_judged {
                // What looks at every file takes longer the more there are; this is told apart from what earlier tasks cost.
                let first_cpu = Costs::of(grown).without(own).first.cpu;
                let ratio = bare.last.cpu / first_cpu;
                println!(
                    "  the first ten where as many files are: {first_cpu:.1} ms of CPU; the last ten {ratio:.2} × that"
                );
                judge(&mut verdicts, kind, &bare, first_cpu, &by_hand[0]);
            }
        }
    }
    let tasks = options.trees.iter().copied().min().unwrap_or(END).max(3 * END);
    let counted = [garden(&world, pleach, tasks, Kind { test: true, counted: true, ..Kind::default() })?];
    let counted = Costs::of(&counted);
    println!(
        "git processes per task, counted in a run of {tasks}: {:.2}; the last 10: {:.2}",
        counted.all.git, counted.last.git
    );
    verdicts.at_most("git processes per task", counted.last.git.max(counted.all.git), 2.0, "");
    println!("loads: {}", load()?);
    Ok(verdicts)
}

/// How much more git processes take than a task.
fn print_ratios(way: Way, by_hand: &Costs, bare: &Costs) {
    let ratio = |one: fn(&Costs) -> Cost| one(by_hand).cpu / one(bare).cpu;
    println!(
        "  {} git, {}: {:.1} × its CPU, the first ten {:.1} ×, the last ten {:.1} ×",
        porcelain::PROCESSES,
        way.name(),
        ratio(|costs| costs.all),
        ratio(|costs| costs.first),
        ratio(|costs| costs.last)
    );
}

/// Against the git processes of the original, and against a repository that has as many files to begin with: `grown`.
fn judge(verdicts: &mut Verdicts, kind: Kind, bare: &Costs, grown: f64, by_hand: &Costs) {
    let name = kind.name();
    if !kind.unlogged {
        let what = format!("CPU of {} git processes to that of a task, {name}", porcelain::PROCESSES);
        verdicts.at_least(&what, by_hand.all.cpu / bare.all.cpu, 4.0, " ×");
    }
    let what = format!("CPU per task, {name}, last ten to ten in a fresh repository of as many files");
    verdicts.at_most(&what, bare.last.cpu / grown, 1.2, " ×");
}

fn agent(world: &World) -> Result<PathBuf, Box<dyn Error>> {
    let path = world.root().join("agent");
    std::fs::write(&path, AGENT)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The numbers the system gives of how busy it is.
fn load() -> Result<String, Box<dyn Error>> {
    Ok(std::fs::read_to_string("/proc/loadavg")?.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Works a tree of no-op tasks and looks at the process each time one has landed.
fn garden(world: &World, pleach: &Path, tasks: usize, kind: Kind) -> Result<Vec<Mark>, Box<dyn Error>> {
    let repo = files::repository(world, "tree", FILES)?;
    std::fs::write(repo.join("task-tree.json"), tree(tasks).to_string())?;
    porcelain::leave_all(&repo, kind.grown)?;
    world.git(&repo, &["add", "--all"])?;
    world.git(&repo, &["commit", "--quiet", "-m", "Plan"])?;
    let mut command = world.program(pleach, &repo);
    if kind.counted {
        command.envs(world.counted().iter());
    }
    let runner = format!("command:{}", world.root().join("agent").display());
    command.args(["--yes", "gardener", "--runner", &runner]);
    if kind.unlogged {
        command.env("PLEACH_TREE__COMMIT_LOGS", "false");
    }
    command.args(kind.test.then_some(["--test-command", "true"]).into_iter().flatten());
    let calls = world.git_calls();
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let id = child.id().to_string();
    let mut marks = vec![Mark { at: begun, cpu: Duration::ZERO, git_calls: calls, packs: packs(&repo)? }];
    for line in BufReader::new(child.stderr.take().expect("a piped output")).lines() {
        if line?.contains(" landed on ") {
            let cpu = cpu::of(&id)?;
            marks.push(Mark { at: Instant::now(), cpu, git_calls: world.git_calls(), packs: packs(&repo)? });
        }
    }
    let status = child.wait()?;
    if !status.success() || marks.len() != tasks + 1 {
        return Err(format!("{} of {tasks} tasks landed: {status}", marks.len() - 1).into());
    }
    std::fs::remove_dir_all(&repo)?;
    std::fs::remove_dir_all(world.root().join("state"))?;
    std::fs::create_dir(world.root().join("state"))?;
    Ok(marks)
}

/// The packs of a repository.
fn packs(repo: &Path) -> Result<usize, Box<dyn Error>> {
    let entries = std::fs::read_dir(repo.join(".git/objects/pack"))?;
    let names = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    Ok(names.iter().filter(|path| path.extension().is_some_and(|ending| ending == "pack")).count())
}

/// Phases of tasks that do not depend on each other.
fn tree(tasks: usize) -> Value {
    let numbers: Vec<usize> = (1..=tasks).collect();
    let mut nodes = Map::new();
    for (phase, part) in numbers.chunks(PHASE).enumerate() {
        let phase = format!("phase{}", phase + 1);
        let children: Vec<String> = part.iter().map(|number| format!("T{number:04}")).collect();
        for (id, number) in children.iter().zip(part) {
            let description =
                format!("Write part {number} of the importer, and say in its documentation what it reads.");
            let task = json!({"id": id, "name": format!("Part {number}"), "description": description, "parent": phase});
            nodes.insert(id.clone(), task);
        }
        nodes.insert(phase.clone(), json!({"id": phase, "name": "A phase", "children": children}));
    }
    json!({"nodes": nodes})
}

/// CPU milliseconds of an agent's program and of a test alone, below their supervisor as in a task.
fn commands(world: &World, pleach: &Path, agent: &Path) -> Result<[f64; 2], Box<dyn Error>> {
    let spawner = Spawner::new(vec![pleach.into(), "__exec".into()], &world.counted());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (_canceller, cancel) = Cancel::new();
    let prompt = Stdin::Bytes(vec![b'x'; 1_000]);
    let agent =
        || CommandSpec { stdin: prompt.clone(), ..CommandSpec::new([agent.as_os_str().to_owned()], world.root()) };
    let test = || CommandSpec::shell("true", world.root());
    let time = |make: &dyn Fn() -> CommandSpec| -> Result<f64, Box<dyn Error>> {
        let before = cpu::of("self")?;
        runtime.block_on(async {
            for _ in 0..BARE {
                spawner.run(make(), &cancel, &mut |_, _| {}).await?;
            }
            Ok::<_, Box<dyn Error>>(())
        })?;
        Ok((cpu::of("self")? - before).as_secs_f64() * 1e3 / f64::from(BARE))
    };
    Ok([time(&agent)?, time(&test)?])
}
