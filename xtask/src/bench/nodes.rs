//! What a node costs beyond its own work, and whether that grows: `cargo xtask bench nodes`.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use os::process::{Cancel, CommandSpec, Spawner};
use serde_json::Value;

use super::options::Options;
use super::verdict::Verdicts;
use super::world::World;
use super::{cpu, files};

const NODES: usize = 1_000;

/// Files of the repository: a small one.
const FILES: usize = 100;

/// Bare commands run to know what a node's own command costs.
const BARE: u32 = 200;

/// How a run stood when a node had ended.
#[derive(Debug, Clone, Copy)]
struct NodeMark {
    at: Timestamp,
    cpu: Duration,
    git_calls: usize,
}

/// What one node cost, from the end of the one before to its own; or the mean of some.
#[derive(Debug, Clone, Copy, Default)]
struct NodeCost {
    wall: f64,
    cpu: f64,
    git: f64,
}

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let nodes = options.nodes.unwrap_or(NODES);
    let world = World::new()?;
    let repo = files::repository(&world, "repo", FILES)?;
    std::fs::write(world.root().join("chain.dot"), pipeline(nodes))?;
    let marks = watch(&world, pleach, &repo)?;
    if marks.len() != nodes {
        return Err(format!("{} of {nodes} nodes ran", marks.len()).into());
    }
    let bare = bare(&world, pleach, &repo)?;
    let costs = costs(&marks);
    // A node whose record sets off a pack pays for hundreds of others, so packing is shown apart.
    let plain = |costs: &[NodeCost]| mean(costs.iter().filter(|cost| cost.git == 0.0));
    let tenth = (nodes / 10).max(1).min(costs.len());
    let (first, last) = (plain(&costs[..tenth]), plain(&costs[costs.len() - tenth..]));
    let (without, all) = (plain(&costs), mean(costs.iter()));
    let packing = NodeCost { wall: all.wall - without.wall, cpu: all.cpu - without.cpu, git: all.git };
    println!("{nodes} nodes that run `true`, repository of {FILES} files, milliseconds per node");
    println!("{:<34} {:>8} {:>8} {:>8}", "", "wall", "CPU", "git");
    let rows = [
        (format!("first {tenth} nodes, without packing"), &first),
        (format!("last {tenth} nodes, without packing"), &last),
        ("packing, spread over all nodes".into(), &packing),
        ("all, with packing".into(), &all),
    ];
    for (name, part) in rows {
        println!("{name:<34} {:>8.2} {:>8.2} {:>8.3}", part.wall, part.cpu, part.git);
    }
    println!("{:<34} {:>8} {:>8.2}", "the command alone", "", bare);
    println!("{:<34} {:>8} {:>8.2}", "a node without its command", "", all.cpu - bare);
    let mut verdicts = Verdicts::default();
    verdicts.at_most("wall per node, last to first", last.wall / first.wall, 1.2, "×");
    verdicts.at_most("CPU per node, last to first", last.cpu / first.cpu, 1.2, "×");
    verdicts.at_most("CPU per node without its command, with packing", all.cpu - bare, 6.0, " ms");
    verdicts.at_most("git processes per node", all.git, 1.0, "");
    Ok(verdicts)
}

/// Runs the pipeline and looks at the process each time a node has ended.
fn watch(world: &World, pleach: &Path, repo: &Path) -> Result<Vec<NodeMark>, Box<dyn Error>> {
    let mut command = world.program(pleach, repo);
    command.args(["--yes", "--json", "run", "../chain.dot"]);
    command.envs(world.counted().iter()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let id = child.id().to_string();
    let mut marks = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("a piped output")).lines() {
        let line = line?;
        // Most lines are long and of no interest here.
        if !line.contains("dev.orchestra.NodeExecution") {
            continue;
        }
        let event: Value = serde_json::from_str(&line)?;
        if event["data"]["node_id"].as_str().is_some_and(|node| node.starts_with("step_")) {
            let at = event["at"].as_str().unwrap_or_default().parse()?;
            marks.push(NodeMark { at, cpu: cpu::of(&id)?, git_calls: world.git_calls() });
        }
    }
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("pleach run: {status}").into());
    }
    Ok(marks)
}

/// What each node after the first cost.
fn costs(marks: &[NodeMark]) -> Vec<NodeCost> {
    let cost = |before: &NodeMark, after: &NodeMark| NodeCost {
        wall: after.at.duration_since(before.at).as_secs_f64() * 1e3,
        cpu: (after.cpu - before.cpu).as_secs_f64() * 1e3,
        git: (after.git_calls - before.git_calls) as f64,
    };
    marks.iter().zip(marks.iter().skip(1)).map(|(before, after)| cost(before, after)).collect()
}

fn mean<'a>(costs: impl Iterator<Item = &'a NodeCost>) -> NodeCost {
    let (mut sum, mut number) = (NodeCost::default(), 0.0_f64);
    for cost in costs {
        sum = NodeCost { wall: sum.wall + cost.wall, cpu: sum.cpu + cost.cpu, git: sum.git + cost.git };
        number += 1.0;
    }
    let number = number.max(1.0);
    NodeCost { wall: sum.wall / number, cpu: sum.cpu / number, git: sum.git / number }
}

/// CPU milliseconds of the command alone, below its supervisor as in a node.
fn bare(world: &World, pleach: &Path, dir: &Path) -> Result<f64, Box<dyn Error>> {
    let spawner = Spawner::new(vec![pleach.into(), "__exec".into()], &world.counted());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (_canceller, cancel) = Cancel::new();
    let before = cpu::of("self")?;
    runtime.block_on(async {
        for _ in 0..BARE {
            spawner.run(CommandSpec::shell("true", dir), &cancel, &mut |_, _| {}).await?;
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok((cpu::of("self")? - before).as_secs_f64() * 1e3 / f64::from(BARE))
}

/// Tool nodes one after another.
fn pipeline(nodes: usize) -> String {
    let mut dot = String::from("digraph chain {\n    graph [goal=\"count\"]\n    start [shape=Mdiamond]\n");
    dot.push_str("    done [shape=Msquare]\n    node [shape=parallelogram, tool_command=\"true\"]\n");
    let names: Vec<String> = (1..=nodes).map(|number| format!("step_{number:04}")).collect();
    dot.push_str(&format!("    {}\n    start -> {} -> done\n}}\n", names.join("; "), names.join(" -> ")));
    dot
}
