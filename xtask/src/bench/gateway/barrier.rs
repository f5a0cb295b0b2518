//! What pleach itself adds at its barrier: an agent that measures its own calls works in a real session.
//!
//! The agent is this program again. It asks the server directly, through a gateway that lets everything through, and
//! through the gateway of its session, by turns: once where nothing has changed since its last call, once after it has
//! written a file. Each call of the last two ends a turn, which is recorded and checked against a budget before it goes on,
//! and the second is committed as well.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use pleach_core::config::Environment;
use serde_json::{Value, json};

use super::client::Client;
use crate::bench::files;
use crate::bench::samples::Samples;
use crate::bench::world::World;

/// Calls before anything is measured.
pub const WARM_UP: usize = 20;

/// The word that makes this program the agent.
pub const AGENT: &str = "gateway-agent";

/// Files of the repository.
const FILES: usize = 1_000;

const PIPELINE: &str = "digraph calls {
    start [shape=Mdiamond]
    exit [shape=Msquare]
    work [prompt=\"Ask\", agent=asker]
    start -> work -> exit
}
";

/// How long calls took, by the way they went.
#[derive(Debug, Default)]
pub struct Times {
    /// To the server itself.
    pub direct: Samples,
    /// Through a gateway that lets everything through.
    pub open: Samples,
    /// Through the gateway of a session, with nothing changed.
    pub unchanged: Samples,
    /// The same with one file changed.
    pub changed: Samples,
}

impl Times {
    fn write(&self) -> Value {
        let Self { direct, open, unchanged, changed } = self;
        json!([direct, open, unchanged, changed].map(Samples::nanoseconds))
    }

    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        let [direct, open, unchanged, changed]: [Vec<u64>; 4] = serde_json::from_str(text)?;
        let [direct, open, unchanged, changed] =
            [direct, open, unchanged, changed].map(|times| Samples::of_nanoseconds(&times));
        Ok(Self { direct, open, unchanged, changed })
    }
}

/// Runs a session of pleach whose agent is `agent`, this program, and gives what that has measured.
pub fn run(pleach: &Path, agent: &Path, [server, open]: [&str; 2], calls: usize) -> Result<Times, Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", FILES)?;
    let (found, dot) = (world.root().join("times.json"), world.root().join("calls.dot"));
    std::fs::write(&dot, PIPELINE)?;
    let agent = json!([agent, "bench", AGENT, calls.to_string(), found, server, open]);
    std::fs::write(
        world.root().join("pleach.yaml"),
        format!(
            "agents: {{asker: {{command: {agent}, turns: gateway, provider: anthropic}}}}\nsandbox: {{mode: off}}\n\
             budget: {{tokens: 1000000000000, per_day_tokens: 1000000000000}}\n\
             providers: {{anthropic: {{settings: {{api_base: '{server}', api_key_command: echo sk-bench-0123456789}}}}}}\n"
        ),
    )?;
    let ran = world.program(pleach, &repo).args(["--yes", "run"]).arg(&dot).output()?;
    if !ran.status.success() {
        let said = [ran.stdout, ran.stderr].concat();
        return Err(format!("pleach run: {}\n{}", ran.status, String::from_utf8_lossy(&said)).into());
    }
    Times::read(&std::fs::read_to_string(found)?)
}

/// What the agent does: it asks, and writes down how long that took.
pub fn agent(args: &[&str]) -> Result<(), Box<dyn Error>> {
    let [calls, found, server, open] = args else { return Err("CALLS FILE SERVER GATEWAY".into()) };
    let environment = Environment::capture();
    let own = environment.get("ANTHROPIC_BASE_URL").ok_or("there is no gateway to ask through")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let times = runtime.block_on(ask(calls.parse()?, [server, open, own], Path::new("changed.txt")))?;
    std::fs::write(found, times.write().to_string())?;
    println!("Asked.");
    Ok(())
}

/// Asks the server, the open gateway and the own one by turns, and the last once more after a file was changed.
pub async fn ask(calls: usize, bases: [&str; 3], file: &Path) -> Result<Times, Box<dyn Error>> {
    let mut clients = Vec::new();
    for base in bases {
        clients.push(Client::connect(&format!("{base}/v1/messages"), 0).await?);
    }
    let [direct, open, own] = &mut clients[..] else { return Err("three ways".into()) };
    let mut times = Times::default();
    for round in 0..WARM_UP + calls {
        let Times { direct: plain, open: through, unchanged, changed } = &mut times;
        let ways = [(&mut *direct, plain), (&mut *open, through), (&mut *own, unchanged)];
        for (client, samples) in ways {
            timed(client, samples, round >= WARM_UP).await?;
        }
        std::fs::write(file, format!("{round}\n"))?;
        timed(own, changed, round >= WARM_UP).await?;
    }
    Ok(times)
}

async fn timed(client: &mut Client, samples: &mut Samples, counts: bool) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    client.call().await?;
    if counts {
        samples.push(begun.elapsed());
    }
    Ok(())
}
