//! How long a large pipeline takes to check: `cargo xtask bench validate`.

use std::error::Error;
use std::path::Path;

use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;
use super::world::World;

const NODES: usize = 2_000;
const RUNS: usize = 10;
const TARGET_MS: f64 = 200.0;

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let world = World::new()?;
    let nodes = options.nodes.unwrap_or(NODES);
    let dot = pipeline(nodes);
    std::fs::write(world.root().join("large.dot"), &dot)?;
    let mut samples = Samples::default();
    for _ in 0..RUNS {
        let mut command = world.program(pleach, world.root());
        command.args(["validate", "large.dot"]);
        let output = samples.time(|| command.output())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stdout).into());
        }
    }
    println!("{nodes} nodes, {} KB of DOT: median of {RUNS} {:.1} ms", dot.len() / 1024, samples.median());
    let mut verdicts = Verdicts::default();
    verdicts.at_most(&format!("validate {nodes} nodes"), samples.median(), TARGET_MS, " ms");
    Ok(verdicts)
}

/// Rounds of work, test and a branch that leads back when the test failed.
fn pipeline(nodes: usize) -> String {
    let mut dot = String::from("digraph large {\n    graph [goal=\"check a large pipeline\"]\n");
    dot.push_str("    start [shape=Mdiamond]\n    done [shape=Msquare]\n");
    let mut on = "    start -> ".to_owned();
    let mut how = "";
    for round in 0..nodes.saturating_sub(2) / 3 {
        dot.push_str(&format!(
            "    work_{round} [prompt=\"Do step {round} of $goal\", max_visits=3, timeout=\"15m\"]\n\
             \x20   test_{round} [shape=parallelogram, tool_command=\"make test-{round}\"]\n\
             \x20   check_{round} [shape=diamond]\n\
             {on}work_{round}{how}\n    work_{round} -> test_{round} -> check_{round}\n\
             \x20   check_{round} -> work_{round} [condition=\"outcome=fail\", label=\"again\"]\n",
        ));
        on = format!("    check_{round} -> ");
        how = " [condition=\"outcome=success\"]";
    }
    dot.push_str(&format!("{on}done{how}\n}}\n"));
    dot
}
