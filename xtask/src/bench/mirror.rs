//! What copying records to a CXDB server costs a turn, and how fast one catches up: `cargo xtask bench turn-commit --cxdb`.

use std::error::Error;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use engine::mirror::{MirrorHooks, MirrorQueue, mirror_run, verify};
use git::{Durability, Repo};
use os::process::Cancel;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{ContextId, RunId};
use tokio::runtime::Runtime;

use super::files::{self, Changes};
use super::options::Options;
use super::samples::Samples;
use super::session::Session;
use super::verdict::Verdicts;
use super::world::World;
use cxdb_server::CxdbServer;

#[path = "../../../crates/testing/cxdb_server.rs"]
mod cxdb_server;

/// Files of the repositories.
const FILES: usize = 1_000;

/// Turns of a contender before the next one's.
const BLOCK: usize = 20;

/// The time between two turns: no model is faster.
const THINKING: Duration = Duration::from_millis(5);

/// How much longer a turn may take with a mirror.
const SLOWER: f64 = 1.05;

/// How many turns a second are caught up at least.
const CAUGHT_UP: f64 = 1_500.0;

/// A session, and where its records are copied to.
struct Contender {
    name: &'static str,
    /// Where it works, as long as it does.
    _world: World,
    session: Session,
    changes: Changes,
    queue: MirrorQueue,
    paced: Samples,
    in_a_row: Samples,
}

impl Contender {
    fn start(name: &'static str, address: Option<&MirrorAddress>) -> Result<Self, Box<dyn Error>> {
        let world = World::new()?;
        let checkout = files::repository(&world, "repo", FILES)?;
        let session = Session::start(&world, &checkout)?;
        let repo = git::discover(&checkout, &world.counted())?;
        let open = |address| MirrorQueue::open(&repo, &run(), address, Cancel::never(), unheard());
        let queue = address.map(open).unwrap_or_default();
        queue.begin();
        let (changes, paced, in_a_row) = (Changes::new(FILES), Samples::default(), Samples::default());
        Ok(Self { name, _world: world, session, changes, queue, paced, in_a_row })
    }

    fn turns(&mut self, count: usize, thinking: Duration) -> Result<(), Box<dyn Error>> {
        let (durability, context) = (Durability::Fsync, ContextId::main());
        let mut recorder = self.session.recorder(durability);
        for _ in 0..count {
            let paths = self.changes.make(self.session.path(), 1)?;
            let samples = if thinking.is_zero() { &mut self.in_a_row } else { &mut self.paced };
            self.session.turn(&mut recorder, durability, &paths, samples)?;
            self.queue.recorded(&context);
            std::thread::sleep(thinking);
        }
        Ok(())
    }
}

fn unheard() -> MirrorHooks {
    MirrorHooks { warn: Box::new(drop), left: Box::new(drop) }
}

fn run() -> RunId {
    "benchaaa".parse().expect("an id")
}

/// Runs the benchmark.
pub fn run_bench(options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let _inside = runtime.enter();
    let (server, dead) = (CxdbServer::start(), CxdbServer::start());
    dead.refuse(true);
    let [alive, refused] = [server.address().parse()?, dead.address().parse()?];
    let mut contenders = [
        Contender::start("no mirror", None)?,
        Contender::start("a mirror", Some(&alive))?,
        Contender::start("a dead mirror", Some(&refused))?,
    ];
    for _ in 0..options.rounds {
        for contender in &mut contenders {
            contender.turns(BLOCK, THINKING)?;
        }
    }
    for _ in 0..options.rounds {
        for contender in &mut contenders {
            contender.turns(BLOCK, Duration::ZERO)?;
            // What is left would be copied beside the next one's turns.
            if contender.name == "a mirror" {
                let all = contender.session.turns() as usize * 2;
                server.appended(all, Duration::from_secs(60));
            }
        }
    }
    let [alone, mirrored, dead] = &contenders;
    println!("whole turn with fsync, median ms   {THINKING:?} apart   in a row");
    for contender in &contenders {
        println!("{:<34} {:>9.3} {:>10.3}", contender.name, contender.paced.median(), contender.in_a_row.median());
    }
    let mut verdicts = Verdicts::default();
    let ratio = |one: &Contender| one.paced.median() / alone.paced.median();
    verdicts.at_most("a turn with a mirror, to one without", ratio(mirrored), SLOWER, "×");
    verdicts.at_most("a turn with a dead mirror, to one without", ratio(dead), SLOWER, "×");
    catch_up(options, &runtime, &mut verdicts)?;
    Ok(verdicts)
}

/// A server that was never told anything.
fn catch_up(options: &Options, runtime: &Runtime, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let world = World::new()?;
    let checkout = files::repository(&world, "repo", FILES)?;
    let (mut session, mut changes) = (Session::start(&world, &checkout)?, Changes::new(FILES));
    let mut recorder = session.recorder(Durability::None);
    let mut samples = Samples::default();
    for _ in 0..options.turns {
        let paths = changes.make(session.path(), 1)?;
        session.turn(&mut recorder, Durability::None, &paths, &mut samples)?;
    }
    let repo: Repo = git::discover(&checkout, &world.counted())?;
    let server = CxdbServer::start();
    let address: MirrorAddress = server.address().parse()?;
    let begun = Instant::now();
    let first = Mutex::new(None);
    let (copied, _) = runtime.block_on(mirror_run(&repo, &run(), &address, |_| {
        first.lock().expect("nobody panics").get_or_insert_with(|| begun.elapsed());
    }))?;
    let took = begun.elapsed();
    let begun = Instant::now();
    let verified = runtime.block_on(verify(&repo, &run(), &address))?;
    println!(
        "\n{} turns, {} at the server: {:.2} s, the first after {:.3} s; compared in {:.2} s",
        copied.records,
        copied.turns,
        took.as_secs_f64(),
        first.into_inner()?.unwrap_or_default().as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    if !verified.is_equal() {
        return Err("the mirror is not equal".into());
    }
    verdicts.at_least("turns a second, caught up", copied.records as f64 / took.as_secs_f64(), CAUGHT_UP, "");
    Ok(())
}
