//! What the gateway adds to a model call: `cargo xtask bench gateway`.
//!
//! A server on loopback streams the same answer to everybody, as a thread of its own. Calls go to it directly, through a
//! gateway that lets everything through, and through that of a real session, by turns; then many streams at once, directly
//! and through the open gateway.

mod barrier;
mod client;
mod server;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use agents::gateway::{CallDecision, Facts, Gateway, Upstream};
use agents::llm::Remote;
use agents::llm::wire::Format;
use os::process::Spawner;
use pleach_core::config::{self, Environment, ProviderName};

use self::barrier::{Times, WARM_UP};
use self::client::{Client, RULES};
use self::server::{PIECES, Server};
use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;

pub use self::barrier::{AGENT, agent};

/// What a call may take longer through the gateway, at the median. How long it is held at the barrier, where the turn
/// before is committed and recorded, follows the repository and is shown apart.
const ADDED_MS: f64 = 1.0;

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let server = Server::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let open = Open::start(&server.url()).await?;
        let (pleach, url, base, calls) = (pleach.to_owned(), server.url(), open.base(), options.calls);
        let agent = std::env::current_exe()?;
        // The open gateway goes on meanwhile.
        let session = move || barrier::run(&pleach, &agent, [&url, &base], calls).map_err(|error| error.to_string());
        let times = tokio::task::spawn_blocking(session).await??;
        open.finish(&server, times, options.calls, options.streams).await
    })?;
    show(&found, options);
    let mut verdicts = Verdicts::default();
    let Times { direct, open, .. } = &found.times;
    verdicts.at_most("added to a call at p50 by the gateway", open.median() - direct.median(), ADDED_MS, " ms");
    Ok(verdicts)
}

fn show(found: &Found, options: &Options) {
    let Found { times: Times { direct, open, unchanged, changed }, direct_rate, through_rate } = found;
    println!(
        "{} calls one after the other, {} pieces each, {} KB sent; milliseconds",
        options.calls,
        PIECES,
        RULES >> 10
    );
    println!("{:<44} {:>9} {:>9} {:>9}", "", "p50", "p99", "best");
    let marks = |samples: &Samples| [samples.median(), samples.percentile(0.99), samples.best()];
    let more = |than: &Samples, samples: &Samples| {
        let (base, marks) = (marks(than), marks(samples));
        [0, 1, 2].map(|mark| marks[mark] - base[mark])
    };
    let rows = [
        ("direct", marks(direct)),
        ("through a gateway that holds nothing", marks(open)),
        ("through that of a session, nothing changed", marks(unchanged)),
        ("through that of a session, 1 file changed", marks(changed)),
        ("added by the gateway", more(direct, open)),
        ("held at the barrier, nothing changed", more(open, unchanged)),
        ("held at the barrier, 1 file committed", more(open, changed)),
    ];
    for (what, [median, slow, best]) in rows {
        println!("{what:<44} {median:>9.3} {slow:>9.3} {best:>9.3}");
    }
    println!("{} streams at once", options.streams);
    for (what, rate) in [("direct", direct_rate), ("through a gateway that holds nothing", through_rate)] {
        println!("{what:<44} {:8.0} calls/s {:8.1} MB/s", rate.calls, rate.megabytes);
    }
    println!("throughput against a direct connection: {:.2} ×", through_rate.calls / direct_rate.calls);
}

struct Found {
    times: Times,
    direct_rate: Rate,
    through_rate: Rate,
}

struct Rate {
    calls: f64,
    megabytes: f64,
}

/// A gateway that lets everything through at once.
struct Open {
    gateway: Gateway,
    /// How many calls came to it.
    came: tokio::task::JoinHandle<usize>,
}

impl Open {
    async fn start(server: &str) -> Result<Self, Box<dyn Error>> {
        let (gateway, mut arrivals) = Gateway::open(upstream(server)?, Facts::default()).await?;
        let came = tokio::spawn(async move {
            let mut came = 0;
            while let Some(arrival) = arrivals.recv().await {
                // A request that is taken for another try of the one before is none that is meant here.
                came += usize::from(arrival.tries == 1 && arrival.answer.send(CallDecision::Forward).is_ok());
            }
            came
        });
        Ok(Self { gateway, came })
    }

    fn base(&self) -> String {
        self.gateway.base_url(Format::Anthropic)
    }

    /// Measures many streams at once, after `calls` that were measured one after the other.
    async fn finish(
        self,
        server: &Server,
        times: Times,
        calls: usize,
        streams: usize,
    ) -> Result<Found, Box<dyn Error>> {
        let each = (calls / streams).max(3);
        let direct_rate = rate(&server.url(), streams, each).await?;
        let through_rate = rate(&self.base(), streams, each).await?;
        let rest = self.gateway.close().await;
        if !rest.warnings.is_empty() {
            return Err(rest.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").into());
        }
        let (came, asked) = (self.came.await?, WARM_UP + calls + streams * (each + 1));
        if came != asked {
            return Err(format!("{came} of {asked} calls came to the gate").into());
        }
        Ok(Found { times, direct_rate, through_rate })
    }
}

/// How much goes one way when many ask at once.
async fn rate(base: &str, streams: usize, each: usize) -> Result<Rate, Box<dyn Error>> {
    let mut clients = Vec::new();
    for number in 0..streams {
        let mut client = Client::connect(&format!("{base}/v1/messages"), number + 1).await?;
        client.call().await?;
        clients.push(client);
    }
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move {
            let mut bytes = 0;
            for _ in 0..each {
                bytes += client.call().await.map_err(|error| error.to_string())?;
            }
            Ok::<usize, String>(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(done) = tasks.join_next().await {
        bytes += done??;
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(Rate { calls: (streams * each) as f64 / took, megabytes: bytes as f64 / took / 1e6 })
}

fn upstream(url: &str) -> Result<Upstream, Box<dyn Error>> {
    let mut given = config::ServerSettings::default();
    given.settings.api_base = Some(url.to_owned());
    let env = Environment::from_pairs([("ANTHROPIC_API_KEY", "sk-bench-0123456789")]);
    let spawner = Spawner::new(Vec::new(), &env);
    Ok(Upstream::Remote(Remote::new(&ProviderName::ANTHROPIC, &given, &env, &spawner, Path::new("/"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_are_measured() {
        let server = Server::start().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("changed.txt");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (found, own) = runtime.block_on(async {
            let [open, own] = [Open::start(&server.url()).await.unwrap(), Open::start(&server.url()).await.unwrap()];
            let times = barrier::ask(10, [&server.url(), &open.base(), &own.base()], &file).await.unwrap();
            own.gateway.close().await;
            (open.finish(&server, times, 10, 4).await.unwrap(), own.came.await.unwrap())
        });
        let Times { direct, open, unchanged, changed } = &found.times;
        assert_eq!([direct, open, unchanged, changed].map(Samples::len), [10; 4]);
        assert!(found.direct_rate.calls > 0.0 && found.through_rate.megabytes > 0.0);
        assert!(open.median() > 0.0);
        assert_eq!(own, 2 * (10 + WARM_UP), "two of each round");
        assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{}\n", 10 + WARM_UP - 1));
    }
}
