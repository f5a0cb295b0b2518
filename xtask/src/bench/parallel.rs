//! What agents at once cost against the same agents in a row, and what many of them cost: `cargo xtask bench parallel`.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::options::Options;
use super::samples::median;
use super::verdict::Verdicts;
use super::world::World;
use super::{cpu, files, memory};

/// Agents that run once at the same time and once in a row.
const FEW: usize = 8;

/// Files of the repository, and thus of each worktree.
const FILES: usize = 100;

/// Turns of an agent that write a file. One more ends its work.
const WRITING: usize = 5;

/// How long the model thinks before each answer, so that agents at once have something to gain.
const THINKS: &str = "200ms";

const CPU_MS: f64 = 20.0;
const MEMORY_MB: f64 = 25.0;

/// How the agents of a run stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Row,
    AtOnce,
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
struct AgentsRun {
    turns: usize,
    /// Seconds.
    wall: f64,
    /// Milliseconds, of the program and everything it started.
    cpu: f64,
    /// Megabytes of the program at its largest.
    peak: f64,
}

impl AgentsRun {
    fn cpu_per_turn(&self) -> f64 {
        self.cpu / self.turns as f64
    }
}

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let rounds = if options.quick { 1 } else { 3 };
    let many = options.agents;
    println!(
        "agents of {} turns that write {WRITING} files, each answer after {THINKS}; repository of {FILES} files; median of \
         {rounds}",
        WRITING + 1
    );
    println!("{:<24} {:>10} {:>14} {:>14} {:>12}", "", "wall, s", "wall/turn, ms", "CPU/turn, ms", "peak, MB");
    let contenders = [(Order::Row, FEW), (Order::AtOnce, FEW), (Order::AtOnce, 1), (Order::AtOnce, many)];
    let mut runs = contenders.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((order, agents), runs) in contenders.into_iter().zip(&mut runs) {
            runs.push(work(pleach, order, agents)?);
        }
    }
    for ((order, agents), runs) in contenders.into_iter().zip(&runs) {
        let name = match order {
            Order::Row => format!("{agents} in a row"),
            Order::AtOnce => format!("{agents} at once"),
        };
        let turns = runs[0].turns as f64;
        println!(
            "{name:<24} {:>10.2} {:>14.1} {:>14.2} {:>12.1}",
            of(runs, |run| run.wall),
            of(runs, |run| run.wall * 1e3 / turns),
            of(runs, AgentsRun::cpu_per_turn),
            of(runs, |run| run.peak)
        );
    }
    let [row, few, one, all] = runs;
    let mut verdicts = Verdicts::default();
    let ratio = of(&row, |run| run.wall) / of(&few, |run| run.wall);
    println!("{FEW} at once: {ratio:.1} × faster than in a row, {:.2} × the CPU per turn", {
        of(&few, AgentsRun::cpu_per_turn) / of(&row, AgentsRun::cpu_per_turn)
    });
    println!("{many} at once: {:.2} × the CPU per turn of {FEW}", {
        of(&all, AgentsRun::cpu_per_turn) / of(&few, AgentsRun::cpu_per_turn)
    });
    verdicts.at_most(&format!("CPU per turn, {many} agents at once"), of(&all, AgentsRun::cpu_per_turn), CPU_MS, " ms");
    if many > 1 {
        let each = (of(&all, |run| run.peak) - of(&one, |run| run.peak)) / (many - 1) as f64;
        verdicts.at_most(&format!("memory of each of {many} agents at once"), each, MEMORY_MB, " MB");
    }
    Ok(verdicts)
}

fn of(runs: &[AgentsRun], value: impl Fn(&AgentsRun) -> f64) -> f64 {
    median(runs.iter().map(value).collect())
}

/// Runs a pipeline of so many agents and looks at the process at each of its turns.
fn work(pleach: &Path, order: Order, agents: usize) -> Result<AgentsRun, Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", FILES)?;
    std::fs::write(repo.join("pleach.yaml"), "agent: builtin\nproviders: {script: {file: script.yaml}}\n")?;
    std::fs::write(repo.join("script.yaml"), script())?;
    world.git(&repo, &["add", "--all"])?;
    world.git(&repo, &["commit", "--quiet", "-m", "Configure"])?;
    std::fs::write(world.root().join("agents.dot"), pipeline(order, agents))?;
    let mut command = world.program(pleach, &repo);
    command.args(["--yes", "--json", "run", "../agents.dot"]).stdout(Stdio::piped());
    let (before, begun) = (cpu::of_children()?, Instant::now());
    let mut child = command.spawn()?;
    let id = child.id().to_string();
    let (mut turns, mut peak) = (0, 0.0_f64);
    for line in BufReader::new(child.stdout.take().expect("a piped output")).lines() {
        turns += usize::from(line?.contains("\"dev.orchestra.AgentTurn\""));
        peak = peak.max(memory::peak(&id).unwrap_or_default());
    }
    let status = child.wait()?;
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), (cpu::of_children()? - before).as_secs_f64() * 1e3);
    if !status.success() || turns != agents * (WRITING + 1) {
        return Err(format!("{turns} turns of {agents} agents: {status}").into());
    }
    Ok(AgentsRun { turns, wall, cpu, peak })
}

/// What every agent does: it writes files of its own, one per turn.
fn script() -> String {
    let mut script = String::from("scripts:\n  - name: work\n    steps:\n");
    let content = "A line of the kind that agents write.\\n".repeat(50);
    for number in 1..=WRITING {
        script.push_str(&format!(
            "      - text: I write part {number}.\n        delay: {THINKS}\n        tools:\n          - write_file: \
             {{file_path: \"{{{{node}}}}/part-{number}.txt\", content: \"{content}\"}}\n"
        ));
    }
    script.push_str(&format!("      - text: All parts are written.\n        delay: {THINKS}\n"));
    script
}

fn pipeline(order: Order, agents: usize) -> String {
    let names: Vec<String> = (1..=agents).map(|number| format!("agent_{number:03}")).collect();
    let mut dot = String::from("digraph agents {\n    start [shape=Mdiamond]\n    done [shape=Msquare]\n");
    for name in &names {
        dot.push_str(&format!("    {name} [prompt=\"Write your parts.\"]\n"));
    }
    match order {
        Order::Row => dot.push_str(&format!("    start -> {} -> done\n", names.join(" -> "))),
        Order::AtOnce => {
            dot.push_str(&format!("    fork [shape=component, max_parallel={agents}]\n"));
            dot.push_str("    join [shape=tripleoctagon]\n    start -> fork\n    join -> done\n");
            names.iter().for_each(|name| dot.push_str(&format!("    fork -> {name} -> join\n")));
        }
    }
    dot + "}\n"
}
