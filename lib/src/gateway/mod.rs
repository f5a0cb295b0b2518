//! A proxy on loopback between an agent and its model provider.
//!
//! The request for an agent's next model call comes only after the tools of the call before are done. It is held there
//! until somebody has said what to do with it: that is the moment to commit, to record and to check what was spent. So
//! the turns of any agent that takes a base URL are exact, its messages and tokens are known, and the real key stays
//! here.
//!
//! ```text
//! agent ──request──▶ gateway ──Arrival──▶ whoever records
//!                       ◀──────Gate──────────┘
//!   ◀──stream── gateway ◀──stream── provider, script or record
//! ```
//!
//! `path` reads what a client wants, `talk` which conversation that belongs to, `watch` what is answered, `estimate` what it
//! took where nobody says; they are pure. `intake` takes requests in, `serve` and `relay` move the bytes, without waiting for
//! more of them than they have.

mod body;
mod estimate;
mod intake;
mod path;
mod refusal;
mod relay;
mod scripted;
mod serve;
mod talk;
#[cfg(test)]
mod testing;
mod tools;
mod unpack;
mod watch;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch::{self as told, Sender as Counter};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use self::intake::Room;
use self::talk::Talks;
use crate::event::{SideCall, Usage, Warning};
use crate::llm::wire::Format;
use crate::llm::{ErrorClass, LlmError, Message, Named, Pricing, Remote, Request, Response, Script};

pub use self::scripted::{answers_on_record, is_beside_the_script};

/// Who answers what is let through.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// A provider behind a server.
    Remote(Remote),
    /// A script, in the language of whoever asks.
    Script(Script),
}

impl Upstream {
    /// Its name, as records have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Remote(remote) => remote.name(),
            Self::Script(_) => "script",
        }
    }

    fn cost(&self, model: Named<'_>, usage: &Usage) -> Option<f64> {
        match self {
            Self::Remote(remote) => remote.cost(model, usage),
            Self::Script(script) => script.cost(model, usage),
        }
    }

    /// How well the price of a model is known.
    fn pricing(&self, model: Named<'_>) -> Pricing {
        match self {
            Self::Remote(remote) => remote.pricing(model),
            Self::Script(script) => script.pricing(model),
        }
    }

    /// What it means that it says no.
    fn refusal(&self, model: &str, status: u16, message: &str) -> LlmError {
        match self {
            Self::Remote(remote) => remote.refusal(model, status, message),
            Self::Script(_) => LlmError::from_status(status, message),
        }
    }
}

/// What is known of the agent, for a script that answers it.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Facts about the call, by the names of [`crate::llm::meta`].
    pub metadata: BTreeMap<String, String>,
    /// Where the agent works: some want whole paths from their model.
    pub cwd: PathBuf,
    /// Whether it works with tools: a call without any is then something beside its work.
    pub has_tools: bool,
    /// How it is told that it was interrupted and is to go on.
    pub interruptions: &'static [&'static str],
    /// How many answers to its task are on record, where it goes on after an interruption.
    pub answered: Option<usize>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { metadata: BTreeMap::new(), cwd: PathBuf::new(), has_tools: true, interruptions: &[], answered: None }
    }
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// In tokens.
    pub usage: Usage,
    /// In dollars, where the price is known.
    pub cost_usd: Option<f64>,
    /// Whether some of it is estimated, where the provider did not say.
    pub estimated: bool,
}

/// One model call that is over, with what its tools answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Which of the agent's conversations it belongs to, by the order in which they began.
    pub talk: usize,
    /// What was new in the request: the task in the first of a conversation.
    pub opening: Vec<Message>,
    /// What the model answered; none where that could not be read.
    pub response: Option<Response>,
    /// What the tools answered, and whatever the agent said with it.
    pub results: Vec<Message>,
    /// The model.
    pub model: String,
    /// What it cost in tokens, tries that failed included.
    pub usage: Usage,
    /// What it cost in dollars, where the price is known.
    pub cost_usd: Option<f64>,
    /// Whether some of that is estimated, where the provider did not say.
    pub estimated: bool,
    /// Why the answer is only what arrived of it, where it broke off.
    pub broken_off: Option<String>,
}

/// A model call that is held until its gate is opened.
#[derive(Debug)]
pub struct Arrival {
    /// Which of the agent's conversations it belongs to, by the order in which they began. None beside them: titles, and
    /// what cannot be read.
    pub talk: Option<usize>,
    /// What is asked; where that cannot be read, only the model, if the path names it.
    pub request: Arc<Request>,
    /// The exchanges that have ended before it, oldest first.
    pub before: Vec<Exchange>,
    /// How often this very request came, from 1.
    pub tries: u32,
    /// The number of the call.
    pub number: u64,
    /// What the call may take.
    pub at_most: Spent,
    /// What was spent beside the conversations since the last arrival: titles, calls that broke off.
    pub aside: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// What is to be done with it. Dropped, the call is refused.
    pub answer: oneshot::Sender<Gate>,
}

/// What is done with a call that is held.
#[derive(Debug)]
pub enum Gate {
    /// It goes to the provider.
    Forward,
    /// It is answered with this, and nobody is asked.
    Answer(Box<Response>),
    /// It is refused, in these words.
    Refuse(String),
}

/// What was spent that nobody was told of yet, and what may still be.
#[derive(Debug)]
pub struct Owed {
    /// What was spent in the conversations and is in no exchange told up to now: tools may still run, or the agent may
    /// have gone on without a word about the answer.
    pub pending: Spent,
    /// What the calls that were let through may still take; none when there are no such calls.
    pub reserved: Option<Spent>,
    /// What was spent beside the conversations.
    pub aside: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// So many calls in a row may fail in the ordinary course of things: what they cost goes with the turn they end in. Each one
/// more is accounted for at once.
pub const FEW: u32 = 3;

/// The calls that are on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flights {
    /// All of them.
    all: usize,
    /// Those whose client has gone: they are only listened to for what they cost.
    unheard: usize,
}

impl Flights {
    /// How many somebody waits for.
    pub fn awaited(self) -> usize {
        self.all.saturating_sub(self.unheard)
    }
}

/// What becomes of a call that the gateway itself refuses, in a few words.
const NOT_PASSED_ON: &str = "the call is not forwarded";

/// Calls that ended without a whole answer, since one in a conversation had it.
#[derive(Debug, Clone, Default)]
pub struct Failing {
    /// How many.
    pub calls: u32,
    /// How many of them were beside the conversations. A whole answer there says nothing of those in them: a program whose
    /// titles come has not got on with its work.
    beside: u32,
    /// What the provider does, in two or three words.
    pub words: String,
    /// Why the newest of them has no answer.
    pub why: Option<LlmError>,
}

impl Failing {
    /// One more.
    fn fail(&mut self, in_talk: bool, words: String, why: LlmError) {
        let (calls, beside) = (self.calls + 1, self.beside + u32::from(!in_talk));
        *self = Self { calls, beside, words, why: Some(why) };
    }

    /// A call had a whole answer. Says whether that changes anything.
    fn succeed(&mut self, in_talk: bool) -> bool {
        let before = self.calls;
        match in_talk {
            true => *self = Self::default(),
            false => self.calls -= std::mem::take(&mut self.beside),
        }
        self.calls != before
    }
}

/// What was not told when the gateway was closed.
#[derive(Debug, Default)]
pub struct Rest {
    /// Exchanges that are over, oldest first.
    pub exchanges: Vec<Exchange>,
    /// What arrived of answers that broke off.
    pub broken: Vec<Exchange>,
    /// What was spent besides.
    pub aside: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Why the newest call in a conversation has no whole answer, where that is so.
    pub unanswered: Option<LlmError>,
}

/// A gateway for one agent at work. Dropped, it hangs up on everybody.
#[derive(Debug)]
pub struct Gateway {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    /// Said when everybody is to be hung up on.
    closing: Option<told::Sender<()>>,
}

/// What all connections share.
/// What all calls through a gateway have cost, also when it is closed.
#[derive(Debug, Clone)]
pub struct Meter(Arc<Shared>);

impl Meter {
    /// What was spent up to now.
    pub fn total(&self) -> Spent {
        self.0.talks().total()
    }

    /// How long no call has come or gone; no time at all while somebody waits for one.
    pub fn silence(&self) -> Duration {
        match self.0.flights.borrow().awaited() {
            0 => self.0.touched().elapsed(),
            _ => Duration::ZERO,
        }
    }
}

#[derive(Debug)]
struct Shared {
    secret: String,
    upstream: Upstream,
    facts: Facts,
    arrivals: mpsc::UnboundedSender<Arrival>,
    talks: Mutex<Talks>,
    /// Where requests are held.
    room: Room,
    /// The calls that are on their way.
    flights: Counter<Flights>,
    /// The calls that ended without a whole answer.
    failing: Counter<Failing>,
    /// When a call last came or went, or when it all began.
    touched: Mutex<Instant>,
    /// Closed when everybody is to be hung up on.
    closing: told::Receiver<()>,
    /// Why nothing is let through any more.
    closed: Mutex<Option<String>>,
}

impl Shared {
    fn talks(&self) -> MutexGuard<'_, Talks> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touched(&self) -> MutexGuard<'_, Instant> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Option<String> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A model call goes no further than here, for this reason.
    fn not_taken(&self, why: LlmError) {
        self.talks().not_taken(why.clone());
        self.failing.send_modify(|failing| failing.fail(true, NOT_PASSED_ON.to_owned(), why));
    }

    /// Something is asked for that is not passed on. Programs do that beside their work, which goes on all the same; one
    /// that has nothing else to do gets nowhere.
    fn asked_in_vain(&self, why: &str) {
        if self.talks().is_at_work() || self.flights.borrow().awaited() > 0 {
            return;
        }
        let why = LlmError::new(ErrorClass::Terminal, why);
        self.failing.send_modify(|failing| failing.fail(false, NOT_PASSED_ON.to_owned(), why));
    }

    fn spent(&self, model: Named<'_>, usage: Usage) -> Spent {
        let estimated = self.upstream.pricing(model) == Pricing::Estimated;
        Spent { usage, cost_usd: self.upstream.cost(model, &usage), estimated }
    }
}

impl Gateway {
    /// Opens a gateway on a free port of loopback. Calls arrive at the receiver and wait there.
    pub async fn open(upstream: Upstream, facts: Facts) -> io::Result<(Self, mpsc::UnboundedReceiver<Arrival>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (arrivals, receiver) = mpsc::unbounded_channel();
        let (closing, closed) = told::channel(());
        let shared = Arc::new(Shared {
            secret: secret()?,
            upstream,
            facts,
            arrivals,
            talks: Mutex::default(),
            room: Room::default(),
            flights: Counter::new(Flights::default()),
            failing: Counter::new(Failing::default()),
            touched: Mutex::new(Instant::now()),
            closing: closed.clone(),
            closed: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), closed));
        Ok((Self { port, shared, accepting, closing: Some(closing) }, receiver))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a client of this language is given as its base URL. The secret is in it: whoever has it gets through.
    pub fn base_url(&self, format: Format) -> String {
        format!("http://127.0.0.1:{}/{}{}", self.port, self.shared.secret, version(format))
    }

    /// The same without the secret, for where everybody can read it, such as a command line. It leads on only together
    /// with the key.
    pub fn address(&self, format: Format) -> String {
        format!("http://127.0.0.1:{}{}", self.port, version(format))
    }

    /// What a client is given as its key: the secret, which opens nothing but this gateway.
    pub fn key(&self) -> &str {
        &self.shared.secret
    }

    /// Who answers what is let through.
    pub fn provider(&self) -> &str {
        self.shared.upstream.name()
    }

    /// Whether a script answers what is let through.
    pub fn is_scripted(&self) -> bool {
        matches!(self.shared.upstream, Upstream::Script(_))
    }

    /// Lets nothing through any more, for this reason. What is under way goes on.
    pub fn refuse(&self, reason: &str) {
        let mut closed = self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.get_or_insert_with(|| reason.to_owned());
    }

    /// What nobody was told of up to now. What is aside is told with this.
    pub fn owed(&self) -> Owed {
        let mut talks = self.shared.talks();
        let (aside, warnings) = talks.take_aside(self.shared.upstream.name());
        Owed { pending: talks.pending(), reserved: talks.reserved(), aside, warnings }
    }

    /// Counts what goes through.
    pub fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.shared))
    }

    /// Sets aside what a call may take that is about to be let through, until it is known what it took.
    pub fn reserve(&self, arrival: &Arrival) {
        self.shared.talks().reserve(arrival.number, arrival.at_most);
    }

    /// Whether every call that was let through waits for the agent to read its answer.
    pub fn is_unread(&self) -> bool {
        self.shared.talks().is_unread()
    }

    /// Tells whenever a call has come or gone.
    pub fn flights(&self) -> told::Receiver<Flights> {
        self.shared.flights.subscribe()
    }

    /// Tells whenever a call has ended without a whole answer, or one with it after such.
    pub fn failing(&self) -> told::Receiver<Failing> {
        self.shared.failing.subscribe()
    }

    /// Counts calls without a whole answer from nothing again.
    pub fn forgive(&self) {
        self.shared.failing.send_modify(|failing| *failing = Failing::default());
    }

    /// What arrived of answers that broke off and nobody was told of, and what was spent on calls without an answer, which
    /// is then aside.
    pub fn broken_off(&self) -> Vec<Exchange> {
        self.shared.talks().broken_off()
    }

    /// Waits until no call is on its way: what each has cost is known then.
    pub async fn quiet(&self) {
        // The sender lives as long as the gateway.
        let _ = self.shared.flights.subscribe().wait_for(|flights| flights.all == 0).await;
    }

    /// Waits until nobody waits for a call that is on its way.
    pub async fn unattended(&self) {
        let _ = self.shared.flights.subscribe().wait_for(|flights| flights.awaited() == 0).await;
    }

    /// Hangs up on everybody and gives what nobody was told of, calls that this cuts off included.
    pub async fn close(mut self) -> Rest {
        self.refuse("the agent's work is over");
        drop(self.closing.take());
        // It ends when all connections have, and with them every call on its way.
        let _ = (&mut self.accepting).await;
        // Calls whose clients had gone end as well.
        self.quiet().await;
        self.settle()
    }

    /// Gives what nobody was told of up to now, though tools of the agent may still run. What is under way goes on.
    pub fn settle(&self) -> Rest {
        let mut talks = self.shared.talks();
        let (exchanges, broken) = (talks.settle(), talks.broken_off());
        let (aside, warnings) = talks.take_aside(self.shared.upstream.name());
        Rest { exchanges, broken, aside, warnings, unanswered: talks.unanswered() }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What a client of this language expects at the end of its base URL.
fn version(format: Format) -> &'static str {
    match format {
        // These add the version themselves.
        Format::Anthropic | Format::Gemini => "",
        Format::Responses | Format::Chat => "/v1",
    }
}

/// Sixteen bytes nobody can guess, as hexadecimal digits.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Takes in connections until `closed` is dropped, and ends when all of them have ended.
async fn accept(listener: TcpListener, shared: Arc<Shared>, mut closed: told::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = closed.changed() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Too many open files, most likely; others will be closed.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        // It only costs time if this fails.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| serve::serve(Arc::clone(&shared), request));
            // A client that hangs up is no error of anybody's.
            let _ =
                http1::Builder::new().header_read_timeout(None).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
    connections.shutdown().await;
}
