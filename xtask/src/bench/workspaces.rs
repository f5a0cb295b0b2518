//! What several repositories cost a turn, against one with as many files: `cargo xtask bench workspaces`.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::files;
use super::options::Options;
use super::samples::median;
use super::verdict::Verdicts;
use super::world::World;

/// Files of all repositories together.
const FILES: usize = 10_000;

const REPOS: usize = 5;

/// Turns of a short and of a long run: what they differ by is what turns cost.
const TURNS: [usize; 2] = [10, 110];

const ROUNDS: usize = 5;

/// How much more a turn may cost.
const DEARER: f64 = 1.2;

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let rounds = if options.quick { 1 } else { ROUNDS };
    println!("a command that writes one file, {FILES} files in all, milliseconds per turn");
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (repos, costs) in [1, REPOS].into_iter().zip(&mut costs) {
            let [short, long] = TURNS.map(|turns| once(pleach, repos, turns));
            let cost = (long? - short?) / (TURNS[1] - TURNS[0]) as f64 * 1e3;
            println!("{repos:>2} repositories {cost:>8.2}");
            costs.push(cost);
        }
    }
    let [one, five] = costs.map(median);
    println!("median: {one:.2} with one, {five:.2} with {REPOS}");
    let mut verdicts = Verdicts::default();
    verdicts.at_most("cost per turn, five repositories to one", five / one, DEARER, "×");
    Ok(verdicts)
}

/// Runs a chain of commands that change one repository: how many seconds it took.
fn once(pleach: &Path, repos: usize, turns: usize) -> Result<f64, Box<dyn Error>> {
    let world = World::new()?;
    let mut settings = String::from("workspace:\n  repos:\n");
    for number in 0..repos {
        let name = format!("repo{number}");
        files::repository(&world, &name, FILES / repos)?;
        settings.push_str(&format!("    {name}: {{path: {name}}}\n"));
    }
    std::fs::write(world.root().join("pleach.yaml"), settings)?;
    let within = if repos > 1 { "repo0/" } else { "" };
    let mut dot = String::from("digraph chain {\n    start [shape=Mdiamond]\n    done [shape=Msquare]\n");
    let names: Vec<String> = (1..=turns).map(|number| format!("step_{number:04}")).collect();
    for name in &names {
        dot.push_str(&format!("    {name} [shape=parallelogram, tool_command=\"echo x > {within}{name}\"]\n"));
    }
    dot.push_str(&format!("    start -> {} -> done\n}}\n", names.join(" -> ")));
    std::fs::write(world.root().join("chain.dot"), dot)?;
    let mut command = world.program(pleach, world.root());
    command.args(["--yes", "--quiet", "run", "chain.dot"]).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    if status.success() { Ok(begun.elapsed().as_secs_f64()) } else { Err(format!("pleach run: {status}").into()) }
}
