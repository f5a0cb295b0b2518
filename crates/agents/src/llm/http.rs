//! HTTP to one server, plain or over TLS. Nothing goes anywhere but to the address it is made for: redirects are not
//! followed, and a proxy is only a way there. Over TLS the server may choose HTTP/2, where calls side by side share one
//! connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Method, Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use os::deadline::{Deadline, within};

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(15);

/// How long an idle connection is kept. Servers close theirs after a minute or more.
const KEPT: Duration = Duration::from_secs(50);

/// How long an idle connection may take to be ready for the next call.
const SETTLED: Duration = Duration::from_millis(100);

/// How many connections are kept at most: agents that work side by side each have one.
const MOST_KEPT: usize = 16;

/// The ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";

/// The interval of HTTP/2 keep-alive pings, and how long their answer may take.
const ALIVE: Duration = Duration::from_secs(20);

/// The longest answer of a server that is no provider.
const MOST_PLAIN: usize = 256 << 20;

/// The longest answer of a proxy to `CONNECT`.
const PROXY_ANSWER: usize = 16 << 10;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// The address is invalid.
    #[error("`{address}` is not the address of a server: {why}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection could be made.
    #[error("cannot connect to {address}: {why}")]
    Connect {
        /// Where, and through which proxy.
        address: String,
        /// What happened.
        why: String,
    },
    /// The proxy refuses the connection or the login; a retry would not help.
    #[error("cannot connect to {address}: {why}")]
    Refused {
        /// Where, and through which proxy.
        address: String,
        /// What the proxy answered.
        why: String,
    },
    /// The server's certificate is not trusted.
    #[error("no safe connection to {address}: {why}")]
    Tls {
        /// Where.
        address: String,
        /// What happened.
        why: String,
    },
    /// The server sent nothing for too long.
    #[error("{address} sent nothing for {} s", waited.as_secs())]
    Silent {
        /// Where.
        address: String,
        /// How long.
        waited: Duration,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {why}")]
    Broken {
        /// Where.
        address: String,
        /// What happened.
        why: String,
    },
}

/// The address of a server: `https://host:port/path`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    tls: bool,
    host: String,
    port: u16,
    login: Option<String>,
    /// Without a slash at its end.
    pub path: String,
    /// What follows the path of every call.
    query: Option<String>,
}

impl std::fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Without the login and the query it may hold.
impl std::fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

impl ServerUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, HttpError> {
        let wrong = |why| HttpError::Address { address: without_login(text), why };
        let uri: Uri = text.trim().parse().map_err(|_| wrong("write it as https://host/path"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it begins with neither https:// nor http://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?.to_owned();
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let login = authority.rsplit_once('@').map(|(login, _)| login.to_owned());
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let query = uri.query().filter(|query| !query.is_empty()).map(str::to_owned);
        Ok(Self { tls, host, port, login, path: uri.path().trim_end_matches('/').to_owned(), query })
    }

    /// Whether it uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Its port, by default that of its scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The target of a request: `path` below this address, which may have a query itself.
    fn target(&self, path: &str) -> String {
        match &self.query {
            None => format!("{}{path}", self.path),
            Some(query) => format!("{}{path}{}{query}", self.path, if path.contains('?') { '&' } else { '?' }),
        }
    }

    fn authority(&self) -> String {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    /// The host as the resolver wants it: in a URL, IPv6 addresses have brackets.
    pub fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    fn basic(&self) -> Option<HeaderValue> {
        let login = base64::engine::general_purpose::STANDARD.encode(decoded(self.login.as_ref()?));
        let mut value = HeaderValue::from_str(&format!("Basic {login}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// A login with its percent-encoding decoded.
fn decoded(login: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(login.len());
    let mut rest = login.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// A proxy on the way to a server.
#[derive(Debug, Clone)]
pub struct Proxy {
    at: ServerUrl,
    /// The setting or variable that names it.
    named_by: String,
}

impl Proxy {
    /// Reads the address of a proxy that a setting or variable names.
    pub fn parse(text: &str, named_by: &str) -> Result<Self, HttpError> {
        let at = ServerUrl::parse(text)?;
        if at.tls {
            let why = "a proxy is reached over http://; requests to https:// addresses stay encrypted";
            return Err(HttpError::Address { address: at.to_string(), why });
        }
        Ok(Self { at, named_by: named_by.to_owned() })
    }
}

impl std::fmt::Display for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the proxy {} ({})", self.at, self.named_by)
    }
}

/// An address without its login and its query, even where it is malformed.
pub(super) fn without_login(text: &str) -> String {
    let text = text.split_once('?').map_or(text, |(text, _)| text);
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

/// The sending half of a connection.
#[derive(Debug)]
enum Sender {
    /// One call after another.
    One(http1::SendRequest<Full<Bytes>>),
    /// Calls side by side.
    Many(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Many(sender) => sender.is_closed(),
        }
    }

    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::One(sender) => sender.ready().await,
            Self::Many(sender) => sender.ready().await,
        }
    }

    async fn send(&mut self, mut request: Request<Full<Bytes>>) -> hyper::Result<hyper::Response<Incoming>> {
        match self {
            Self::One(sender) => sender.send_request(request).await,
            Self::Many(sender) => {
                // The host is a part of the address there.
                if let Some(host) = request.headers_mut().remove(HOST)
                    && let Ok(authority) = Authority::try_from(host.as_bytes())
                {
                    let mut parts = request.uri().clone().into_parts();
                    (parts.scheme, parts.authority) = (Some(Scheme::HTTPS), Some(authority));
                    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
                }
                sender.send_request(request).await
            }
        }
    }
}

/// Calls one server; clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(Arc<ClientInner>);

#[derive(Debug)]
struct ClientInner {
    base: ServerUrl,
    proxy: Option<Proxy>,
    /// How long the server may be silent, before its answer and in it.
    patience: Duration,
    tls: OnceLock<Result<TlsStore, String>>,
    idle: Mutex<Vec<(Sender, Instant)>>,
    /// The connection that concurrent calls share, where the server allows it.
    shared: Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
}

struct TlsStore(TlsConnector);

impl std::fmt::Debug for TlsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsStore")
    }
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    client: HttpClient,
    sender: Option<Sender>,
    /// When the server has been silent for too long.
    /// When the server has been silent for too long.
    deadline: Deadline,
    patience: Pin<Box<Sleep>>,
}

impl HttpClient {
    /// A client for one server. A login in its address is refused: keys have their own place.
    pub fn new(base: ServerUrl, proxy: Option<Proxy>, patience: Duration) -> Result<Self, HttpError> {
        if base.login.is_some() {
            let why = "it holds a login, which belongs to the key";
            return Err(HttpError::Address { address: base.to_string(), why });
        }
        let (idle, shared) = (Mutex::default(), Mutex::default());
        let inner = ClientInner { base, proxy, patience, tls: OnceLock::new(), idle, shared };
        Ok(Self(Arc::new(inner)))
    }

    /// The server's address.
    pub fn base(&self) -> &ServerUrl {
        &self.0.base
    }

    /// Posts a body and waits for the answer to begin. Dropping the call, or the answer, drops the connection.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpAnswer, HttpError> {
        self.call(Method::POST, path, headers, body).await
    }

    /// The same with any method.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpAnswer, HttpError> {
        let waited = self.0.patience;
        let sent = within(waited, self.send(self.request(method, path, headers, body)?)).await;
        sent.ok_or_else(|| {
            // A silent connection would not answer the next call either.
            self.0.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.silent()
        })?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let ClientInner { base, proxy, .. } = &*self.0;
        let target = base.target(path);
        // A proxy for plain HTTP gets the whole URL; every other server gets the path.
        let through = proxy.as_ref().filter(|_| !base.tls);
        let target = if through.is_some() { format!("http://{}{target}", base.authority()) } else { target };
        let wrong = || HttpError::Address { address: base.to_string(), why: "it has characters no address has" };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| wrong())?;
        let host = HeaderValue::from_str(&base.authority()).map_err(|_| wrong())?;
        request.headers_mut().insert(HOST, host);
        for (name, value) in headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        if let Some(login) = through.and_then(|proxy| proxy.at.basic()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, login);
        }
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<HttpAnswer, HttpError> {
        // A server may close a kept connection in the moment it is used again. No answer has begun then, so the request
        // is repeated on a new one, once.
        if let Some(mut sender) = self.take_idle()
            && matches!(within(SETTLED, sender.ready()).await, Some(Ok(())))
            && let Ok(response) = sender.send(request.clone()).await
        {
            return Ok(self.answer(response, sender));
        }
        let mut sender = self.connect().await?;
        let response = sender.send(request).await.map_err(|error| self.broken(&error))?;
        Ok(self.answer(response, sender))
    }

    fn answer(&self, response: hyper::Response<Incoming>, sender: Sender) -> HttpAnswer {
        let (parts, body) = response.into_parts();
        let (deadline, patience) = (Deadline::after(self.0.patience), Box::pin(tokio::time::sleep(self.0.patience)));
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        HttpAnswer { status, headers, body, client: self.clone(), sender: Some(sender), deadline, patience }
    }

    /// The newest connection that is still good; stale ones are dropped.
    fn take_idle(&self) -> Option<Sender> {
        let mut shared = self.0.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.take_if(|sender| sender.is_closed());
        if let Some(sender) = &*shared {
            return Some(Sender::Many(sender.clone()));
        }
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < KEPT);
        idle.pop().map(|(sender, _)| sender)
    }

    fn keep(&self, sender: Sender) {
        if matches!(sender, Sender::Many(_)) {
            return;
        }
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == MOST_KEPT {
            idle.remove(0);
        }
        idle.push((sender, Instant::now()));
    }

    fn broken(&self, error: &dyn std::error::Error) -> HttpError {
        HttpError::Broken { address: self.destination(), why: with_cause(error) }
    }

    fn silent(&self) -> HttpError {
        HttpError::Silent { address: self.destination(), waited: self.0.patience }
    }

    /// Where calls go, and through which proxy.
    fn destination(&self) -> String {
        match &self.0.proxy {
            Some(proxy) => format!("{} through {proxy}", self.0.base),
            None => self.0.base.to_string(),
        }
    }

    async fn connect(&self) -> Result<Sender, HttpError> {
        let through = self.0.proxy.as_ref().map_or(&self.0.base, |proxy| &proxy.at);
        let failed = |why: String| HttpError::Connect { address: self.destination(), why };
        let connecting = async {
            let stream = TcpStream::connect((through.bare_host(), through.port)).await;
            let mut stream = stream.map_err(|error| failed(error.to_string()))?;
            stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
            if !self.0.base.tls {
                return self.handshake_http1(stream).await;
            }
            if let Some(proxy) = &self.0.proxy {
                let answered = self.send_connect(&mut stream, &proxy.at).await.map_err(failed)?;
                let why = format!("the proxy answered `{answered}`");
                match answered.split_whitespace().nth(1) {
                    Some("200") => {}
                    Some(status) if status.starts_with('4') => {
                        return Err(HttpError::Refused { address: self.destination(), why });
                    }
                    _ => return Err(failed(why)),
                }
            }
            let refused = |why: String| HttpError::Tls { address: self.destination(), why };
            let name =
                ServerName::try_from(self.0.base.bare_host().to_owned()).map_err(|error| refused(error.to_string()))?;
            let connector = self.connector().map_err(&refused)?;
            let stream = connector.connect(name, stream).await.map_err(|error| refused(error.to_string()))?;
            match stream.get_ref().1.alpn_protocol() {
                Some(HTTP2) => self.handshake_http2(stream).await,
                _ => self.handshake_http1(stream).await,
            }
        };
        within(CONNECT, connecting).await.ok_or_else(|| failed(format!("no answer in {} s", CONNECT.as_secs())))?
    }

    async fn handshake_http1<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
    ) -> Result<Sender, HttpError> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        // It ends when the sender and the answer are dropped; they report its errors.
        tokio::spawn(connection);
        Ok(Sender::One(sender))
    }

    /// Speaks HTTP/2, and shares the connection with later calls.
    async fn handshake_http2<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
    ) -> Result<Sender, HttpError> {
        let mut calls = http2::Builder::new(TokioExecutor::new());
        // A connection that died unnoticed, say while the machine slept, would fail every later call.
        calls.timer(TokioTimer::new()).keep_alive_interval(ALIVE).keep_alive_timeout(ALIVE);
        let connected = calls.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connected.map_err(|error| self.broken(&error))?;
        tokio::spawn(connection);
        let mut shared = self.0.shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = Some(sender.clone());
        Ok(Sender::Many(sender))
    }

    /// Sends `CONNECT` to a proxy and gives the first line of its answer.
    async fn send_connect(&self, stream: &mut TcpStream, proxy: &ServerUrl) -> Result<String, String> {
        let target = format!("{}:{}", self.0.base.host, self.0.base.port);
        let mut ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(login) = proxy.basic() {
            ask.extend_from_slice(b"Proxy-Authorization: ");
            ask.extend_from_slice(login.as_bytes());
            ask.extend_from_slice(b"\r\n");
        }
        ask.extend_from_slice(b"\r\n");
        stream.write_all(&ask).await.map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            // Byte by byte: what follows belongs to the server.
            let byte = stream.read_u8().await.map_err(|error| format!("the proxy closed the connection: {error}"))?;
            answer.push(byte);
            if answer.len() > PROXY_ANSWER {
                return Err("the proxy's answer is too long".into());
            }
        }
        Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
    }

    fn connector(&self) -> Result<&TlsConnector, String> {
        let tls = self.0.tls.get_or_init(|| tls_of_this_machine().map(TlsStore));
        tls.as_ref().map(|store| &store.0).map_err(Clone::clone)
    }
}

/// TLS with the authorities this machine trusts.
fn tls_of_this_machine() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(
            "this machine trusts no certificate authority; install `ca-certificates`, or set SSL_CERT_FILE".into()
        );
    }
    let mut config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(std::sync::Arc::new(config)))
}

impl HttpAnswer {
    /// The next bytes of the body; none at its end, after which the connection serves the next call.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// The same as a poll function.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, HttpError>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                while !self.deadline.is_over() {
                    ready!(self.patience.as_mut().poll(context));
                    let left = self.deadline.left();
                    self.patience.as_mut().reset(Instant::now() + left);
                }
                return Poll::Ready(Err(self.client.silent()));
            };
            match frame {
                Some(Ok(frame)) => {
                    let waited = self.client.0.patience;
                    self.deadline = Deadline::after(waited);
                    self.patience.as_mut().reset(Instant::now() + waited);
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Ok(Some(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(self.client.broken(&error))),
                None => {
                    self.sender.take().into_iter().for_each(|sender| self.client.keep(sender));
                    return Poll::Ready(Ok(None));
                }
            }
        }
    }

    /// The whole body, or its beginning when it is longer than `most` bytes.
    pub async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            all.extend_from_slice(&chunk);
            if all.len() > most {
                all.truncate(most);
                break;
            }
        }
        Ok(all)
    }
}

impl Drop for HttpAnswer {
    /// A body that was fully read frees its connection for the next call, even if its end was never polled.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.sender.take().into_iter().for_each(|sender| self.client.keep(sender));
        }
    }
}

/// Asks a server that is no provider, without key and proxy, or with a body puts that there. Returns the status of the answer
/// and what it says.
pub async fn call_plain(
    base: &str,
    path: &str,
    body: Option<Vec<u8>>,
    patience: Duration,
) -> Result<(u16, Vec<u8>), String> {
    let call = async {
        let client = HttpClient::new(ServerUrl::parse(base)?, None, patience)?;
        let method = if body.is_some() { Method::PUT } else { Method::GET };
        let mut answer = client.call(method, path, &[], body.unwrap_or_default().into()).await?;
        Ok((answer.status, answer.bytes(MOST_PLAIN).await?))
    };
    // Connecting has a patience of its own.
    let called: Option<Result<_, HttpError>> = within(patience, call).await;
    called
        .unwrap_or_else(|| Err(HttpError::Silent { address: base.to_owned(), waited: patience }))
        .map_err(|error| error.to_string())
}

/// An error with its causes.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_logins() {
        for (text, shown) in [
            ("https://api.example.org", "https://api.example.org"),
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("https://me:secret@proxy.example.org:443/x", "https://proxy.example.org/x"),
        ] {
            let base = ServerUrl::parse(text).unwrap();
            assert_eq!(base.to_string(), shown);
            assert_eq!(format!("{base:?}"), shown);
        }
        assert_eq!(ServerUrl::parse("http://[::1]:8080").unwrap().bare_host(), "::1");
        for bad in ["api.example.org", "ftp://x", "https://", "http://a b"] {
            assert!(matches!(ServerUrl::parse(bad), Err(HttpError::Address { .. })), "{bad}");
        }
        let queried = ServerUrl::parse("https://h/x/?version=1").unwrap();
        assert_eq!(queried.to_string(), "https://h/x");
        assert_eq!(queried.target("/messages"), "/x/messages?version=1");
        assert_eq!(queried.target("/m:stream?alt=sse"), "/x/m:stream?alt=sse&version=1");
        assert_eq!(decoded("me:a%40b%zz%"), b"me:a@b%zz%");
        let error = ServerUrl::parse("ftp://me:secret@host/x?k=secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        let login = HttpClient::new(ServerUrl::parse("https://me:secret@host").unwrap(), None, CONNECT).unwrap_err();
        assert!(!login.to_string().contains("secret"), "{login}");
    }
}
