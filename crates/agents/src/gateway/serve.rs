//! One request of a client, from its first byte to the beginning of its answer.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Request as HttpRequest, Response as HttpResponse, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::body::ReplyBody;
use super::conversations::{Conversations, MatchedRequest, named};
use super::decompress::{Compression, decompress};
use super::estimate::bound;
use super::exchange::{CallDecision, HeldCall};
use super::intake::{BodyPermit, IntakeError, LONGEST};
use super::path::{AnswerShape, ModelCall, SideRequest, SideRequestKind, Target, target};
use super::refusal;
use super::relay::{BilledCall, Flight, Relay, status_words};
use super::scripted::{self, Scripted};
use super::state::GatewayState;
use super::upstream::Upstream;
use super::watch::{AnswerOutcome, Watcher};
use crate::llm::wire::Format;
use crate::llm::{
    ErrorClass, ForwardError, ForwardedCall, HttpError, LlmError, ModelNames, Remote, Request, Response,
    end_to_end_headers, tokens,
};
use os::deadline::reached;
use os::process::Cancel;
use pleach_core::event::{Usage, WarningCode};

/// Headers by which clients name their conversation.
const SESSIONS: [&str; 6] =
    ["x-claude-code-session-id", "session_id", "session-id", "thread-id", "conversation_id", "x-session-affinity"];

type HttpReply = HttpResponse<ReplyBody>;

/// Answers one request. There is no error: whatever goes wrong is an answer too.
pub(super) async fn serve(shared: Arc<GatewayState>, request: HttpRequest<Incoming>) -> Result<HttpReply, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    // Whoever does not know the secret learns nothing, not even that there is one.
    let known = has_key(&parts.headers, &shared.secret).then_some(path);
    let Some(rest) = below(path, &shared.secret).or(known) else {
        return Ok(refused(None, StatusCode::NOT_FOUND, "not found"));
    };
    let target = target(&parts.method, rest);
    let format = match &target {
        Target::Call(call) => call.format,
        Target::Aside(aside) => aside.format,
        Target::Ping => return Ok(json_reply(StatusCode::OK, &json!({}))),
        Target::Unknown => {
            let text = format!("the gateway forwards model calls, not {} {}", parts.method, without_query(rest));
            shared.refuse_unknown(&text);
            let asked = format!("the agent asked for {} {}, which is not forwarded", parts.method, without_query(rest));
            shared.conversations().spending.warn(WarningCode::CallRefused.with(asked));
            return Ok(refused(None, StatusCode::NOT_FOUND, &text));
        }
    };
    if let Some(reason) = shared.closed() {
        return Ok(refused(Some(format), StatusCode::BAD_REQUEST, &reason));
    }
    let is_compressed = Compression::of(&parts.headers) != Compression::None;
    let (body, permit) = match shared.memory.receive(body, is_compressed).await {
        Ok(taken) => taken,
        Err(refusal) => {
            let is_call = matches!(target, Target::Call(_)) && refusal.is_awaited();
            let shared = is_call.then_some(&*shared);
            return Ok(refuse_request(shared, format, &refusal));
        }
    };
    let length = body.len();
    let asked = ReceivedRequest { shared, parts, body, length, bound: None, permit };
    Ok(match target {
        Target::Aside(aside) => asked.side_request(aside).await,
        Target::Call(call) => asked.call(call).await,
        Target::Ping | Target::Unknown => unreachable!("both are answered above"),
    })
}

/// What comes after the secret in a path.
fn below<'a>(path: &'a str, secret: &str) -> Option<&'a str> {
    let given = path.strip_prefix('/')?;
    let end = given.find(['/', '?']).unwrap_or(given.len());
    let (given, rest) = given.split_at(end);
    is_secret(given, secret).then_some(rest)
}

/// Whether a client has the secret as its key, in any format.
fn has_key(headers: &HeaderMap, secret: &str) -> bool {
    let given = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = given("authorization").and_then(|value| value.strip_prefix("Bearer "));
    [bearer, given("x-api-key"), given("x-goog-api-key")].into_iter().flatten().any(|key| is_secret(key, secret))
}

fn is_secret(given: &str, secret: &str) -> bool {
    // Every byte is compared, so that the time reveals nothing.
    let differing = given.bytes().zip(secret.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    differing == 0 && given.len() == secret.len()
}

/// A path without its query, which may hold anything.
fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

/// A request that was read whole.
struct ReceivedRequest {
    shared: Arc<GatewayState>,
    parts: Parts,
    body: Bytes,
    /// How long the body is, unpacked where it could be.
    length: usize,
    /// How many tokens its answer may have, if it says so.
    bound: Option<u64>,
    /// Where it is held meanwhile.
    permit: BodyPermit,
}

/// A request that makes no turn.
enum Rejected {
    /// Nobody can read it, for this reason. The provider may.
    Unread(String),
    /// It is not passed on, for this reason.
    Refused(IntakeError),
}

impl Rejected {
    /// A request of this kind is not forwarded.
    fn bad(why: String) -> Self {
        Self::Refused(IntakeError { status: StatusCode::BAD_REQUEST, why })
    }
}

impl ReceivedRequest {
    /// Something around model calls: it is forwarded outside of conversations, and held if it costs something.
    async fn side_request(mut self, aside: SideRequest) -> HttpReply {
        let SideRequest { mut format, path, kind } = aside;
        // Its answer is no words, or a few.
        self.bound = Some(0);
        let mut flight = match kind {
            SideRequestKind::Count | SideRequestKind::Models => {
                Flight::new(Arc::clone(&self.shared), None, None, String::new())
            }
            SideRequestKind::Other => match self.arrive_beside(self.model()).opened(format, AnswerShape::Whole).await {
                ControlFlow::Continue(flight) => flight,
                ControlFlow::Break(answered) => return answered,
            },
        };
        let Self { shared, parts, body, length, permit, .. } = self;
        let remote = match &shared.upstream {
            Upstream::Script(_) => return json_reply(StatusCode::OK, &scripted::aside(format, kind, body.len())),
            Upstream::Remote(remote) => remote.clone(),
        };
        // Two formats list models by the same path.
        if kind == SideRequestKind::Models && !remote.supports(format) && remote.supports(Format::Anthropic) {
            format = Format::Anthropic;
        }
        if kind == SideRequestKind::Other {
            flight.sends(length, true);
        }
        let call = ForwardedCall { method: parts.method, path, headers: parts.headers, body, format };
        pass(remote, call, permit, flight, false).await
    }

    /// The model the body names, if it can be read.
    fn model(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A call of a model.
    async fn call(mut self, call: ModelCall) -> HttpReply {
        let read = self.read(&call).await;
        let (request, shape) = match read {
            Ok(read) => read,
            Err(Rejected::Refused(refusal)) => return refuse_request(Some(&self.shared), call.format, &refusal),
            Err(Rejected::Unread(why)) => {
                // pleach cannot read it; the provider can.
                let text = format!("a request of the agent could not be read and made no turn: {why}");
                self.shared.conversations().spending.warn(WarningCode::CallUnread.with(text));
                let held = self.arrive_beside(call.model.clone().unwrap_or_default());
                let shape = call.shape.unwrap_or(AnswerShape::Whole);
                return match held.opened(call.format, shape).await {
                    ControlFlow::Continue(flight) => self.forward(call, shape, flight).await,
                    ControlFlow::Break(answered) => answered,
                };
            }
        };
        let request = Arc::new(request);
        let held = self.arrive(&request);
        let tries = held.tries;
        let flight = match held.opened(call.format, shape).await {
            ControlFlow::Continue(flight) => flight,
            ControlFlow::Break(answered) => return answered,
        };
        match &self.shared.upstream {
            Upstream::Remote(_) => self.forward(call, shape, flight).await,
            Upstream::Script(script) => {
                let said = scripted::call(script, &self.shared.facts, &request, call.format, tries).await;
                scripted_reply(call.format, shape, said, flight)
            }
        }
    }

    /// Reads the request, and how its answer is to come.
    async fn read(&mut self, call: &ModelCall) -> Result<(Request, AnswerShape), Rejected> {
        let unread = |error: serde_json::Error| Rejected::Unread(error.to_string());
        // It may ask for an answer whose cost pleach would not see.
        let opaque = |unfit: Rejected| match unfit {
            Rejected::Unread(why) if call.format == Format::Responses => {
                Rejected::bad(format!("pleach does not forward a request for a response that it cannot read: {why}"))
            }
            unfit => unfit,
        };
        let text = self.decompressed().await.map_err(opaque)?;
        self.length = text.len();
        let mut json: Value = serde_json::from_slice(&text).map_err(unread).map_err(opaque)?;
        let shape = match call.shape {
            Some(shape) => shape,
            None if flag(&json, "stream")? => AnswerShape::Events,
            None => AnswerShape::Whole,
        };
        if call.format == Format::Responses && flag(&json, "background")? {
            let why = "pleach does not forward `background` requests, whose cost it cannot see; ask without";
            return Err(Rejected::bad(why.to_owned()));
        }
        // Without this a streamed answer of this format has no cost.
        let asks = |json: &Value| json.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        if call.format == Format::Chat && shape == AnswerShape::Events && !asks(&json) {
            if let Some(body) = json.as_object_mut() {
                let options = body.entry("stream_options").or_insert_with(|| json!({}));
                if !options.is_object() {
                    *options = json!({});
                }
                options["include_usage"] = true.into();
            }
            self.body = json.to_string().into();
            self.parts.headers.remove(CONTENT_ENCODING);
        }
        // Some are asked for several answers at once.
        let count = [json.get("n"), json.pointer("/generationConfig/candidateCount")].into_iter().flatten();
        let count = count.filter_map(Value::as_u64).max().unwrap_or(1).max(1);
        let decoded = call.format.decode_request(json);
        let mut request = decoded.map_err(|error| Rejected::Unread(error.to_string()))?;
        if let Some(model) = &call.model {
            request.model.clone_from(model);
        }
        let each = bound(request.max_tokens, self.shared.conversations().reservations.most().output);
        self.bound = Some(each.saturating_mul(count));
        Ok((request, shape))
    }

    /// The body as it can be read.
    async fn decompressed(&mut self) -> Result<Bytes, Rejected> {
        let compression = Compression::of(&self.parts.headers);
        if compression == Compression::None {
            return Ok(self.body.clone());
        }
        let available = |permit: &BodyPermit| permit.size().saturating_sub(self.body.len());
        let mut text = decompress(&compression, &self.body, available(&self.permit));
        if text.is_err() && self.permit.size() < LONGEST {
            self.shared.memory.grow(&mut self.permit).await.map_err(Rejected::Refused)?;
            text = decompress(&compression, &self.body, available(&self.permit));
        }
        let text = text.map_err(Rejected::Unread)?;
        self.permit.shrink(self.body.len() + text.len());
        Ok(text.into())
    }

    /// Hands the request to the recorder.
    fn arrive(&self, request: &Arc<Request>) -> PendingDecision {
        let session = session(&self.parts.headers);
        let mut conversations = self.shared.conversations();
        let arrived = conversations.arrive(request, session.as_deref());
        self.hold(conversations, request, arrived)
    }

    /// Hands a request that cannot be read to the recorder.
    fn arrive_beside(&self, model: String) -> PendingDecision {
        let request = Arc::new(Request { model, ..Request::default() });
        self.hold(self.shared.conversations(), &request, None)
    }

    /// Holds a request, in a conversation or as a side call.
    fn hold(
        &self,
        mut conversations: MutexGuard<'_, Conversations>,
        request: &Arc<Request>,
        arrived: Option<MatchedRequest>,
    ) -> PendingDecision {
        let (side_calls, warnings) = conversations.spending.take_side_calls(self.shared.upstream.name());
        let (answer, gate) = oneshot::channel();
        let (conversation, flight, before, tries) = match arrived {
            Some(MatchedRequest { conversation, flight, ended, tries }) => {
                (Some(conversation), Some(flight), ended, tries)
            }
            None => (None, None, Vec::new(), 1),
        };
        let request = Arc::clone(request);
        let number = flight.unwrap_or_else(|| conversations.reservations.number());
        let most = conversations.reservations.most();
        // What a provider has kept counts again without being sent again.
        let kept = named(&request).map_or(0, |_| most.input);
        let output = self.bound.unwrap_or_else(|| bound(None, most.output));
        let usage = Usage { input: tokens(self.length as u64).max(kept), output, ..Usage::default() };
        let call = BilledCall { number, bound: usage.output, is_unread: conversations.reservations.hold(number) };
        let flight = Flight::new(Arc::clone(&self.shared), flight, Some(call), request.model.clone());
        let at_most = self.shared.spent(ModelNames::asked(&request.model), usage);
        // The lock is held, so that calls arrive in the order in which conversations took them.
        let arrival = HeldCall { conversation, request, before, tries, number, at_most, side_calls, warnings, answer };
        let _ = self.shared.arrivals.send(arrival);
        drop(conversations);
        PendingDecision { flight, gate, tries }
    }

    async fn forward(self, call: ModelCall, shape: AnswerShape, mut flight: Flight) -> HttpReply {
        let format = call.format;
        let remote = match &self.shared.upstream {
            Upstream::Remote(remote) => remote.clone(),
            Upstream::Script(_) => {
                let text = "the script cannot answer a request it cannot read";
                return not_forwarded(format, text, flight);
            }
        };
        if !remote.supports(format) {
            let text = format!(
                "the agent uses the {} API; provider `{}` does not offer it; set `provider` of the agent to one that \
                 does",
                format.api(),
                remote.name()
            );
            return not_forwarded(format, &text, flight);
        }
        flight.sends(self.length, shape != AnswerShape::Events);
        let Self { parts, body, permit, .. } = self;
        let call = ForwardedCall { method: parts.method, path: call.path, headers: parts.headers, body, format };
        pass(remote, call, permit, flight, true).await
    }
}

/// Whether a switch of a request is on. What servers might take for on or off is not guessed at.
fn flag(body: &Value, name: &str) -> Result<bool, Rejected> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(is_on)) => Ok(*is_on),
        Some(_) => Err(Rejected::bad(format!("`{name}` must be true or false"))),
    }
}

/// A request that waits for its decision.
struct PendingDecision {
    flight: Flight,
    gate: oneshot::Receiver<CallDecision>,
    tries: u32,
}

impl PendingDecision {
    /// Waits for the decision. Then the call is forwarded, or answered here.
    async fn opened(self, format: Format, shape: AnswerShape) -> ControlFlow<HttpReply, Flight> {
        let Self { flight, gate, .. } = self;
        ControlFlow::Break(match gate.await {
            Ok(CallDecision::Forward) => return ControlFlow::Continue(flight),
            Ok(CallDecision::Answer(response)) => answer(format, shape, *response, flight),
            Ok(CallDecision::Refuse(reason)) => refuse(format, &reason, flight),
            Err(_) => refuse(format, "the agent's turns are no longer recorded", flight),
        })
    }
}

/// The conversation a client names.
pub(crate) fn session(headers: &HeaderMap) -> Option<String> {
    SESSIONS.iter().find_map(|name| Some(headers.get(*name)?.to_str().ok()?.to_owned()))
}

/// Forwards a call; its answer goes back as it comes. `is_words` says that the answer is made of tokens.
async fn pass(remote: Remote, call: ForwardedCall, permit: BodyPermit, flight: Flight, is_words: bool) -> HttpReply {
    let format = call.format;
    // A provider does not stop when the client hangs up, and is paid all the same: the call continues without it.
    let (client, gone) = oneshot::channel();
    let passing = tokio::spawn(async move {
        let answer = begin_answer(&remote, &call, flight, is_words, gone).await;
        // It is held until the provider has answered.
        drop((call, permit));
        answer
    });
    let answered = passing.await;
    // Dropped early, it says that the client has gone.
    drop(client);
    answered.unwrap_or_else(|_| abandoned(format))
}

fn abandoned(format: Format) -> HttpReply {
    refused(Some(format), StatusCode::BAD_GATEWAY, "the call was abandoned")
}

/// The beginning of a provider's answer. `gone` ends when the client has gone.
async fn begin_answer(
    remote: &Remote,
    call: &ForwardedCall,
    mut flight: Flight,
    is_words: bool,
    mut gone: oneshot::Receiver<Infallible>,
) -> HttpReply {
    let format = call.format;
    let never = Cancel::never();
    let closing = flight.closing();
    let passing = remote.forward(call, &never);
    tokio::pin!(closing, passing);
    let mut until = None;
    let passed = loop {
        tokio::select! {
            biased;
            () = &mut closing => return abandoned(format),
            _ = &mut gone, if until.is_none() => until = Some(flight.hang_up(false)),
            passed = &mut passing => break passed,
            () = reached(until) => return abandoned(format),
        }
    };
    match passed {
        Ok(answer) => {
            let watcher = Watcher::new(format, answer.status, &answer.headers, is_words);
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let headers = end_to_end_headers(&answer.headers);
            let mut reply = HttpResponse::new(ReplyBody::Relay(Box::new(Relay::new(answer, watcher, flight))));
            *reply.status_mut() = status;
            // A redirect is not for the agent, and may repeat the query of the configured address.
            for (name, value) in headers.into_iter().filter(|(name, _)| name != LOCATION) {
                reply.headers_mut().append(name, value);
            }
            reply
        }
        Err(error) => {
            let status = match &error {
                ForwardError::Key(_) => StatusCode::BAD_REQUEST,
                ForwardError::Http(HttpError::Silent { .. }) => StatusCode::GATEWAY_TIMEOUT,
                ForwardError::Http(_) => StatusCode::BAD_GATEWAY,
            };
            let text = remote.describe(&error);
            let words = match &error {
                ForwardError::Key(_) => "there is no key for the provider",
                ForwardError::Http(HttpError::Silent { .. }) => "provider does not answer",
                ForwardError::Http(_) => "provider cannot be reached",
            };
            flight.unanswered(words.to_owned(), remote.forward_error(&error));
            flight.finish(AnswerOutcome::Refused(status.as_u16(), text.clone()));
            refused(Some(format), status, &text)
        }
    }
}

/// Answers a call from the record.
fn answer(format: Format, shape: AnswerShape, response: Response, mut flight: Flight) -> HttpReply {
    let response = scripted::with_server_fields(format, response);
    let reply = encoded(format, shape, &response);
    flight.finish(AnswerOutcome::Whole(Box::new(response)));
    reply
}

fn scripted_reply(format: Format, shape: AnswerShape, said: Scripted, mut flight: Flight) -> HttpReply {
    match said {
        Scripted::Answer(response) => answer(format, shape, *response, flight),
        Scripted::Fail { status, message, retry_after } => {
            flight.unanswered(status_words(status), LlmError::from_status(status, &message));
            flight.finish(AnswerOutcome::Refused(status, message.clone()));
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut reply = refused(Some(format), status, &message);
            if let Some(wait) = retry_after {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
            }
            reply
        }
        Scripted::Malformed(text) => {
            let why = "the script answers what cannot be read".to_owned();
            flight.unreadable(&why);
            flight.finish(AnswerOutcome::Unreadable(Usage::default(), why));
            let mut reply = HttpResponse::new(ReplyBody::whole(text));
            reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            reply
        }
    }
}

/// A request that is not accepted. A model call counts as one without an answer for all who share the gateway.
fn refuse_request(shared: Option<&GatewayState>, format: Format, refusal: &IntakeError) -> HttpReply {
    let class = if refusal.status.is_server_error() { ErrorClass::Transient } else { ErrorClass::Terminal };
    shared.into_iter().for_each(|shared| shared.refuse_request(LlmError::new(class, &refusal.why)));
    let mut reply = refused(Some(format), refusal.status, &refusal.why);
    if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Refuses a call that cannot be forwarded.
fn not_forwarded(format: Format, reason: &str, mut flight: Flight) -> HttpReply {
    flight.not_forwarded(reason);
    refuse(format, reason, flight)
}

fn refuse(format: Format, reason: &str, mut flight: Flight) -> HttpReply {
    flight.refused(reason);
    flight.finish(AnswerOutcome::Refused(400, reason.to_owned()));
    refused(Some(format), StatusCode::BAD_REQUEST, reason)
}

/// A response in a client's format, in the shape it asked for.
fn encoded(format: Format, shape: AnswerShape, response: &Response) -> HttpReply {
    let body = format.encode_reply(response);
    if shape == AnswerShape::Events {
        let pieces = format.stream_reply(&body).iter().map(|event| Bytes::from(event.to_text())).collect();
        let mut reply = HttpResponse::new(ReplyBody::Pieces(pieces));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return reply;
    }
    let body = if shape == AnswerShape::List { json!([body]) } else { body };
    json_reply(StatusCode::OK, &body)
}

fn refused(format: Option<Format>, status: StatusCode, message: &str) -> HttpReply {
    json_reply(status, &refusal::body(format, status, message))
}

fn json_reply(status: StatusCode, body: &Value) -> HttpReply {
    let mut reply = HttpResponse::new(ReplyBody::whole(body.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens() {
        assert_eq!(below("/s3cret/v1/messages?x=1", "s3cret"), Some("/v1/messages?x=1"));
        assert_eq!(below("/s3cret", "s3cret"), Some(""));
        assert_eq!(below("/s3cret?x", "s3cret"), Some("?x"));
        for path in ["/", "/v1/messages", "/s3cre/v1", "/s3crets/v1", "/s3cret2", "//s3cret/v1", "s3cret/v1"] {
            assert_eq!(below(path, "s3cret"), None, "{path}");
        }
    }
}
