//! What pushing every checkpoint costs a run: `cargo xtask bench push`.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::files;
use super::options::Options;
use super::samples::median;
use super::verdict::Verdicts;
use super::world::World;

const NODES: usize = 100;

/// Runs of each policy, which take turns.
const ROUNDS: usize = 3;

/// Files of the repository: a small one.
const FILES: usize = 100;

/// How much longer a run may take that pushes.
const SLOWER: f64 = 1.3;

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let nodes = options.nodes.unwrap_or(if options.quick { NODES / 5 } else { NODES });
    println!("{nodes} nodes that take 0.1 s and write a file, a bare repository as remote, `push_interval: 1`");
    println!("{:<16} {:>10} {:>8}", "push", "wall, s", "pushes");
    let policies = ["never", "on_checkpoint"];
    let mut walls = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (policy, walls) in policies.iter().zip(&mut walls) {
            let (wall, pushes) = once(pleach, nodes, policy)?;
            println!("{policy:<16} {wall:>10.2} {pushes:>8}");
            walls.push(wall);
        }
    }
    let [never, on_checkpoint] = walls.map(median);
    let mut verdicts = Verdicts::default();
    verdicts.at_most("wall time, pushed at checkpoints to never", on_checkpoint / never, SLOWER, "×");
    Ok(verdicts)
}

/// Runs a chain of nodes: how many seconds it took, and how often it pushed.
fn once(pleach: &Path, nodes: usize, policy: &str) -> Result<(f64, usize), Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", FILES)?;
    world.git(world.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"])?;
    std::fs::write(world.root().join("chain.dot"), pipeline(nodes))?;
    let repos = format!("workspace: {{repos: {{repo: {{path: repo, remote: remote.git, push: {policy}}}}}}}\n");
    std::fs::write(world.root().join("pleach.yaml"), repos + "record: {push_interval: 1}\n")?;
    let mut command = world.program(pleach, &repo);
    command.args(["--yes", "--json", "run", "../chain.dot"]).stderr(Stdio::null());
    let begun = Instant::now();
    let output = command.output()?;
    let wall = begun.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(format!("pleach run: {}", output.status).into());
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ok((wall, stdout.matches("dev.orchestra.BranchPushed").count()))
}

/// Commands one after another, each of which writes a file.
fn pipeline(nodes: usize) -> String {
    let mut dot = String::from("digraph chain {\n    start [shape=Mdiamond]\n    done [shape=Msquare]\n");
    let names: Vec<String> = (1..=nodes).map(|number| format!("step_{number:04}")).collect();
    for name in &names {
        dot.push_str(&format!("    {name} [shape=parallelogram, tool_command=\"sleep 0.1; echo x > {name}\"]\n"));
    }
    dot.push_str(&format!("    start -> {} -> done\n}}\n", names.join(" -> ")));
    dot
}
