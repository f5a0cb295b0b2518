//! A proxy on loopback between an agent and its model provider.
//!
//! The request for an agent's next model call comes only after the tools of the call before are done. It is held there
//! until the recorder decides: that is the moment to commit, to record and to check what was spent. So the turns of any
//! agent that takes a base URL are exact, its messages and tokens are known, and the real key stays here.
//!
//! ```text
//! agent ──request──▶ gateway ──HeldCall──▶ recorder
//!                       ◀──CallDecision──────┘
//!   ◀──stream── gateway ◀──stream── provider, script or record
//! ```
//!
//! `path` reads what a client wants, `conversations` which conversation that belongs to, `watch` what is answered,
//! `estimate` what it took where nobody says; they are pure. `intake` takes requests in, `serve` and `relay` move the
//! bytes, without waiting for more of them than they have.

mod body;
mod conversations;
mod decompress;
mod estimate;
mod exchange;
mod failed_calls;
mod intake;
mod path;
mod refusal;
mod relay;
mod scripted;
mod serve;
mod state;
#[cfg(test)]
mod testing;
mod tools;
mod upstream;
mod watch;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch as watched};
use tokio::task::{JoinHandle, JoinSet};

use self::intake::BodyMemory;
use self::state::GatewayState;
use crate::llm::wire::Format;

pub use self::exchange::{CallCost, CallDecision, Exchange, HeldCall, Outstanding, UnreportedCalls};
pub use self::failed_calls::{FEW, FailedCalls};
pub use self::scripted::Facts;
pub(crate) use self::scripted::{answers_on_record, is_beside_the_script};
pub use self::state::{Flights, UsageMeter};
pub use self::upstream::Upstream;

/// A gateway for one agent at work. Dropped, it closes all connections.
#[derive(Debug)]
pub struct Gateway {
    port: u16,
    shared: Arc<GatewayState>,
    accepting: JoinHandle<()>,
    /// Dropped when all connections are to be closed.
    closing: Option<watched::Sender<()>>,
}

impl Gateway {
    /// Opens a gateway on a free port of loopback. Calls arrive at the receiver and wait there.
    pub async fn open(upstream: Upstream, facts: Facts) -> io::Result<(Self, mpsc::UnboundedReceiver<HeldCall>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (arrivals, receiver) = mpsc::unbounded_channel();
        let (closing, closed) = watched::channel(());
        let shared = Arc::new(GatewayState {
            secret: secret()?,
            upstream,
            facts,
            arrivals,
            conversations: Mutex::default(),
            memory: BodyMemory::default(),
            flights: watched::Sender::new(Flights::default()),
            failed_calls: watched::Sender::new(FailedCalls::default()),
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

    /// The base URL for a client of this format. It contains the secret, which opens the gateway.
    pub fn base_url(&self, format: Format) -> String {
        format!("http://127.0.0.1:{}/{}{}", self.port, self.shared.secret, version(format))
    }

    /// The same without the secret, for where everybody can read it, such as a command line. It works only together
    /// with the key.
    pub fn address(&self, format: Format) -> String {
        format!("http://127.0.0.1:{}{}", self.port, version(format))
    }

    /// What a client is given as its key: the secret, which opens nothing but this gateway.
    pub fn key(&self) -> &str {
        &self.shared.secret
    }

    /// The name of the provider that answers.
    pub fn provider(&self) -> &str {
        self.shared.upstream.name()
    }

    /// Whether a script answers.
    pub fn is_scripted(&self) -> bool {
        matches!(self.shared.upstream, Upstream::Script(_))
    }

    /// Refuses all further calls, for this reason. Calls in flight continue.
    pub fn refuse(&self, reason: &str) {
        let mut closed = self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.get_or_insert_with(|| reason.to_owned());
    }

    /// What is not reported yet. Side calls are reported with this.
    pub fn outstanding(&self) -> Outstanding {
        let mut conversations = self.shared.conversations();
        let (side_calls, warnings) = conversations.spending.take_side_calls(self.shared.upstream.name());
        Outstanding {
            pending: conversations.pending(),
            reserved: conversations.reservations.reserved(),
            side_calls,
            warnings,
        }
    }

    /// Counts what goes through.
    pub fn meter(&self) -> UsageMeter {
        UsageMeter(Arc::clone(&self.shared))
    }

    /// Reserves what a call about to be forwarded may take, until its cost is known.
    pub fn reserve(&self, arrival: &HeldCall) {
        self.shared.conversations().reservations.reserve(arrival.number, arrival.at_most);
    }

    /// Whether every forwarded call waits for the agent to read its answer.
    pub fn is_unread(&self) -> bool {
        self.shared.conversations().reservations.is_unread()
    }

    /// Notifies when a call begins or ends.
    pub fn flights(&self) -> watched::Receiver<Flights> {
        self.shared.flights.subscribe()
    }

    /// Notifies when a call ends without a complete answer, or one with it after such.
    pub fn failed_calls(&self) -> watched::Receiver<FailedCalls> {
        self.shared.failed_calls.subscribe()
    }

    /// Resets the count of calls without a complete answer.
    pub fn reset_failed_calls(&self) {
        self.shared.failed_calls.send_modify(|failed_calls| *failed_calls = FailedCalls::default());
    }

    /// What arrived of answers that broke off, reported once. What was spent on calls without an answer becomes side
    /// calls.
    pub fn broken_off(&self) -> Vec<Exchange> {
        self.shared.conversations().broken_off()
    }

    /// Waits until no call is in flight: what each has cost is known then.
    pub async fn idle(&self) {
        // The sender lives as long as the gateway.
        let _ = self.shared.flights.subscribe().wait_for(|flights| flights.all == 0).await;
    }

    /// Waits until no client waits for a call in flight.
    pub async fn unattended(&self) {
        let _ = self.shared.flights.subscribe().wait_for(|flights| flights.awaited() == 0).await;
    }

    /// Closes all connections and gives what is not reported yet, calls that this cuts off included.
    pub async fn close(mut self) -> UnreportedCalls {
        self.refuse("the agent's work is over");
        drop(self.closing.take());
        // It ends when all connections have, and with them every call in flight.
        let _ = (&mut self.accepting).await;
        // Calls whose clients had gone end as well.
        self.idle().await;
        self.take_unreported()
    }

    /// Gives what is not reported yet, though tools of the agent may still run. Calls in flight continue.
    pub fn take_unreported(&self) -> UnreportedCalls {
        let mut conversations = self.shared.conversations();
        let (exchanges, broken) = (conversations.report_all(), conversations.broken_off());
        let (side_calls, warnings) = conversations.spending.take_side_calls(self.shared.upstream.name());
        UnreportedCalls { exchanges, broken, side_calls, warnings, unanswered: conversations.unanswered() }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What a client of this format expects at the end of its base URL.
fn version(format: Format) -> &'static str {
    match format {
        // These add the version themselves.
        Format::Anthropic | Format::Gemini => "",
        Format::Responses | Format::Chat => "/v1",
    }
}

/// Sixteen random bytes, as hexadecimal digits.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Takes in connections until `closed` is dropped, and ends when all of them have ended.
async fn accept(listener: TcpListener, shared: Arc<GatewayState>, mut closed: watched::Receiver<()>) {
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
            // A client that hangs up is not an error.
            let _ =
                http1::Builder::new().header_read_timeout(None).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
    connections.shutdown().await;
}
