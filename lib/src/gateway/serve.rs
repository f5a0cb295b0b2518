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
use tokio::time::{Instant, sleep_until};

use super::body::Reply;
use super::estimate::bound;
use super::intake::{LONGEST, Place, Refusal};
use super::path::{Aside, AsideKind, Call, Shape, Target, target};
use super::relay::{Flight, Relay, Underway, answers};
use super::scripted::{self, Scripted};
use super::talk::{Arrived, Talks, named};
use super::unpack::{Packing, unpack};
use super::watch::{Heard, Watcher};
use super::{Arrival, Gate, Shared, Upstream, refusal};
use crate::event::{Usage, WarningCode};
use crate::llm::wire::Format;
use crate::llm::{
    ErrorClass, HttpError, LlmError, Named, PassError, Passed, Remote, Request, Response, passed_on, tokens,
};
use crate::process::Cancel;

/// Headers by which clients name their conversation.
const SESSIONS: [&str; 6] =
    ["x-claude-code-session-id", "session_id", "session-id", "thread-id", "conversation_id", "x-session-affinity"];

type Answered = HttpResponse<Reply>;

/// Answers one request. There is no error: whatever goes wrong is an answer too.
pub(super) async fn serve(shared: Arc<Shared>, request: HttpRequest<Incoming>) -> Result<Answered, Infallible> {
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
            let text = format!("the gateway forwards model calls, not {} {}", parts.method, rest_of(rest));
            shared.asked_in_vain(&text);
            let asked = format!(
                "the agent asked for {} {}, which the gateway does not \
                 forward",
                parts.method,
                rest_of(rest)
            );
            shared.talks().warn(WarningCode::CallRefused.with(asked));
            return Ok(refused(None, StatusCode::NOT_FOUND, &text));
        }
    };
    if let Some(reason) = shared.closed() {
        return Ok(refused(Some(format), StatusCode::BAD_REQUEST, &reason));
    }
    let is_packed = Packing::of(&parts.headers) != Packing::None;
    let (body, place) = match shared.room.take_in(body, is_packed).await {
        Ok(taken) => taken,
        Err(refusal) => {
            let is_call = matches!(target, Target::Call(_)) && refusal.is_awaited();
            let shared = is_call.then_some(&*shared);
            return Ok(not_taken(shared, format, &refusal));
        }
    };
    let length = body.len();
    let asked = Asked { shared, parts, body, length, bound: None, place };
    Ok(match target {
        Target::Aside(aside) => asked.aside(aside).await,
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

/// Whether a client has the secret as its key, in whichever language.
fn has_key(headers: &HeaderMap, secret: &str) -> bool {
    let given = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = given("authorization").and_then(|value| value.strip_prefix("Bearer "));
    [bearer, given("x-api-key"), given("x-goog-api-key")].into_iter().flatten().any(|key| is_secret(key, secret))
}

fn is_secret(given: &str, secret: &str) -> bool {
    // Every byte is looked at, so that the time it takes tells nothing.
    let differing = given.bytes().zip(secret.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    differing == 0 && given.len() == secret.len()
}

/// A path without its query, which may hold anything.
fn rest_of(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

/// A request that was read whole.
struct Asked {
    shared: Arc<Shared>,
    parts: Parts,
    body: Bytes,
    /// How long the body is, unpacked where it could be.
    length: usize,
    /// How many tokens its answer may have, if it says so.
    bound: Option<u64>,
    /// Where it is held meanwhile.
    place: Place,
}

/// A request that makes no turn.
enum Unfit {
    /// Nobody can read it, for this reason. The provider may.
    Unread(String),
    /// It is not passed on, for this reason.
    Refused(Refusal),
}

impl Unfit {
    /// It is asked for in a way that is not passed on.
    fn bad(why: String) -> Self {
        Self::Refused(Refusal { status: StatusCode::BAD_REQUEST, why })
    }
}

impl Asked {
    /// Something around model calls: it is passed on and takes part in nothing. What costs something is held as well.
    async fn aside(mut self, aside: Aside) -> Answered {
        let Aside { mut format, path, kind } = aside;
        // Its answer is no words, or a few.
        self.bound = Some(0);
        let mut flight = match kind {
            AsideKind::Count | AsideKind::Models => Flight::new(Arc::clone(&self.shared), None, None, String::new()),
            AsideKind::Other => match self.arrive_beside(self.model()).opened(format, Shape::Whole).await {
                ControlFlow::Continue(flight) => flight,
                ControlFlow::Break(answered) => return answered,
            },
        };
        let Self { shared, parts, body, length, place, .. } = self;
        let remote = match &shared.upstream {
            Upstream::Script(_) => return json_reply(StatusCode::OK, &scripted::aside(format, kind, body.len())),
            Upstream::Remote(remote) => remote.clone(),
        };
        // A list of models is asked for alike in two languages.
        if kind == AsideKind::Models && !remote.speaks(format) && remote.speaks(Format::Anthropic) {
            format = Format::Anthropic;
        }
        if kind == AsideKind::Other {
            flight.sends(length, true);
        }
        let call = Passed { method: parts.method, path, headers: parts.headers, body, format };
        pass(remote, call, place, flight, false).await
    }

    /// The model the body names, if it can be read.
    fn model(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A call of a model.
    async fn call(mut self, call: Call) -> Answered {
        let read = self.read(&call).await;
        let (request, shape) = match read {
            Ok(read) => read,
            Err(Unfit::Refused(refusal)) => return not_taken(Some(&self.shared), call.format, &refusal),
            Err(Unfit::Unread(why)) => {
                // Nobody knows what it says; the provider will.
                let text = format!("a request of the agent could not be read and made no turn: {why}");
                self.shared.talks().warn(WarningCode::CallUnread.with(text));
                let held = self.arrive_beside(call.model.clone().unwrap_or_default());
                let shape = call.shape.unwrap_or(Shape::Whole);
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
    async fn read(&mut self, call: &Call) -> Result<(Request, Shape), Unfit> {
        let unread = |error: serde_json::Error| Unfit::Unread(error.to_string());
        // It may ask for an answer nobody would be told the cost of.
        let blind = |unfit: Unfit| match unfit {
            Unfit::Unread(why) if call.format == Format::Responses => {
                Unfit::bad(format!("pleach does not forward a request for a response that it cannot read: {why}"))
            }
            unfit => unfit,
        };
        let text = self.unpacked().await.map_err(blind)?;
        self.length = text.len();
        let mut json: Value = serde_json::from_slice(&text).map_err(unread).map_err(blind)?;
        let shape = match call.shape {
            Some(shape) => shape,
            None if flag(&json, "stream")? => Shape::Events,
            None => Shape::Whole,
        };
        if call.format == Format::Responses && flag(&json, "background")? {
            let why = "pleach does not forward `background` requests, whose cost it cannot see; ask without";
            return Err(Unfit::bad(why.to_owned()));
        }
        // Without this nobody would know what a streamed answer of this language cost.
        let asks = |json: &Value| json.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        if call.format == Format::Chat && shape == Shape::Events && !asks(&json) {
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
        let mut request = decoded.map_err(|error| Unfit::Unread(error.to_string()))?;
        if let Some(model) = &call.model {
            request.model.clone_from(model);
        }
        let each = bound(request.max_tokens, self.shared.talks().most().output);
        self.bound = Some(each.saturating_mul(count));
        Ok((request, shape))
    }

    /// The body as it can be read.
    async fn unpacked(&mut self) -> Result<Bytes, Unfit> {
        let packing = Packing::of(&self.parts.headers);
        if packing == Packing::None {
            return Ok(self.body.clone());
        }
        let room = |place: &Place| place.size().saturating_sub(self.body.len());
        let mut text = unpack(&packing, &self.body, room(&self.place));
        if text.is_err() && self.place.size() < LONGEST {
            self.shared.room.move_on(&mut self.place).await.map_err(Unfit::Refused)?;
            text = unpack(&packing, &self.body, room(&self.place));
        }
        let text = text.map_err(Unfit::Unread)?;
        self.place.shrink(self.body.len() + text.len());
        Ok(text.into())
    }

    /// Lets the request arrive at whoever records.
    fn arrive(&self, request: &Arc<Request>) -> Held {
        let session = session(&self.parts.headers);
        let mut talks = self.shared.talks();
        let arrived = talks.arrive(request, session.as_deref());
        self.hold(talks, request, arrived)
    }

    /// Lets a request that nobody reads arrive at whoever records.
    fn arrive_beside(&self, model: String) -> Held {
        let request = Arc::new(Request { model, ..Request::default() });
        self.hold(self.shared.talks(), &request, None)
    }

    /// Holds a request that has arrived, in a conversation or beside them.
    fn hold(&self, mut talks: MutexGuard<'_, Talks>, request: &Arc<Request>, arrived: Option<Arrived>) -> Held {
        let (aside, warnings) = talks.take_aside(self.shared.upstream.name());
        let (answer, gate) = oneshot::channel();
        let (talk, flight, before, tries) = match arrived {
            Some(Arrived { talk, flight, ended, tries }) => (Some(talk), Some(flight), ended, tries),
            None => (None, None, Vec::new(), 1),
        };
        let request = Arc::clone(request);
        let number = flight.unwrap_or_else(|| talks.number());
        let most = talks.most();
        // What a provider keeps from before counts again, and is not sent again.
        let kept = named(&request).map_or(0, |_| most.input);
        let output = self.bound.unwrap_or_else(|| bound(None, most.output));
        let usage = Usage { input: tokens(self.length as u64).max(kept), output, ..Usage::default() };
        let call = Underway { number, bound: usage.output, is_unread: talks.hold(number) };
        let flight = Flight::new(Arc::clone(&self.shared), flight, Some(call), request.model.clone());
        let at_most = self.shared.spent(Named::asked(&request.model), usage);
        // The lock is held, so that they come in the order in which the conversations took them in.
        let arrival = Arrival { talk, request, before, tries, number, at_most, aside, warnings, answer };
        let _ = self.shared.arrivals.send(arrival);
        drop(talks);
        Held { flight, gate, tries }
    }

    async fn forward(self, call: Call, shape: Shape, mut flight: Flight) -> Answered {
        let format = call.format;
        let remote = match &self.shared.upstream {
            Upstream::Remote(remote) => remote.clone(),
            Upstream::Script(_) => {
                let text = "the script cannot answer a request it cannot read";
                return not_passed_on(format, text, flight);
            }
        };
        if !remote.speaks(format) {
            let text = format!(
                "the agent uses the {} API; provider `{}` does not offer it; set `provider` of the agent to one that \
                 does",
                format.api(),
                remote.name()
            );
            return not_passed_on(format, &text, flight);
        }
        flight.sends(self.length, shape != Shape::Events);
        let Self { parts, body, place, .. } = self;
        let call = Passed { method: parts.method, path: call.path, headers: parts.headers, body, format };
        pass(remote, call, place, flight, true).await
    }
}

/// Whether a switch of a request is on. What servers might take for on or off is not guessed at.
fn flag(body: &Value, name: &str) -> Result<bool, Unfit> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(is_on)) => Ok(*is_on),
        Some(_) => Err(Unfit::bad(format!("`{name}` must be true or false"))),
    }
}

/// A request that waits for its gate.
struct Held {
    flight: Flight,
    gate: oneshot::Receiver<Gate>,
    tries: u32,
}

impl Held {
    /// Waits for the gate. Then the call goes on, or is answered here.
    async fn opened(self, format: Format, shape: Shape) -> ControlFlow<Answered, Flight> {
        let Self { flight, gate, .. } = self;
        ControlFlow::Break(match gate.await {
            Ok(Gate::Forward) => return ControlFlow::Continue(flight),
            Ok(Gate::Answer(response)) => answer(format, shape, *response, flight),
            Ok(Gate::Refuse(reason)) => refuse(format, &reason, flight),
            Err(_) => refuse(format, "nobody records the agent's turns any more", flight),
        })
    }
}

/// The conversation a client names.
pub(crate) fn session(headers: &HeaderMap) -> Option<String> {
    SESSIONS.iter().find_map(|name| Some(headers.get(*name)?.to_str().ok()?.to_owned()))
}

/// Passes a call on; its answer goes back as it comes. `is_words` says that the answer is made of tokens.
async fn pass(remote: Remote, call: Passed, place: Place, flight: Flight, is_words: bool) -> Answered {
    let format = call.format;
    // A client that hangs up is not waited for by its provider, and what it has ordered is paid for: it goes on without it.
    let (client, gone) = oneshot::channel();
    let passing = tokio::spawn(async move {
        let begun = begun(&remote, &call, flight, is_words, gone).await;
        // It is held until the provider has answered.
        drop((call, place));
        begun
    });
    let answered = passing.await;
    // Dropped before, it says that nobody waits for this any more.
    drop(client);
    answered.unwrap_or_else(|_| given_up(format))
}

fn given_up(format: Format) -> Answered {
    refused(Some(format), StatusCode::BAD_GATEWAY, "the call was abandoned")
}

/// The beginning of a provider's answer. `gone` ends when the client has gone.
async fn begun(
    remote: &Remote,
    call: &Passed,
    mut flight: Flight,
    is_words: bool,
    mut gone: oneshot::Receiver<Infallible>,
) -> Answered {
    let format = call.format;
    let never = Cancel::never();
    let closing = flight.closing();
    let passing = remote.pass(call, &never);
    tokio::pin!(closing, passing);
    let mut until = None;
    let passed = loop {
        tokio::select! {
            biased;
            () = &mut closing => return given_up(format),
            _ = &mut gone, if until.is_none() => until = Some(flight.hang_up(false)),
            passed = &mut passing => break passed,
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => return given_up(format),
        }
    };
    match passed {
        Ok(answer) => {
            let watcher = Watcher::new(format, answer.status, &answer.headers, is_words);
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let headers = passed_on(&answer.headers);
            let mut reply = HttpResponse::new(Reply::Relay(Box::new(Relay::new(answer, watcher, flight))));
            *reply.status_mut() = status;
            // Where to go instead is nothing for the agent, and may repeat the query of the configured address.
            for (name, value) in headers.into_iter().filter(|(name, _)| name != LOCATION) {
                reply.headers_mut().append(name, value);
            }
            reply
        }
        Err(error) => {
            let status = match &error {
                PassError::Key(_) => StatusCode::BAD_REQUEST,
                PassError::Http(HttpError::Silent { .. }) => StatusCode::GATEWAY_TIMEOUT,
                PassError::Http(_) => StatusCode::BAD_GATEWAY,
            };
            let text = remote.told(&error);
            let words = match &error {
                PassError::Key(_) => "there is no key for the provider",
                PassError::Http(HttpError::Silent { .. }) => "provider does not answer",
                PassError::Http(_) => "provider cannot be reached",
            };
            flight.unanswered(words.to_owned(), remote.not_passed(&error));
            flight.land(Heard::Refused(status.as_u16(), text.clone()));
            refused(Some(format), status, &text)
        }
    }
}

/// Answers a call from the record.
fn answer(format: Format, shape: Shape, response: Response, mut flight: Flight) -> Answered {
    let response = scripted::dressed(format, response);
    let reply = encoded(format, shape, &response);
    flight.land(Heard::Whole(Box::new(response)));
    reply
}

fn scripted_reply(format: Format, shape: Shape, said: Scripted, mut flight: Flight) -> Answered {
    match said {
        Scripted::Answer(response) => answer(format, shape, *response, flight),
        Scripted::Fail { status, message, retry_after } => {
            flight.unanswered(answers(status), LlmError::from_status(status, &message));
            flight.land(Heard::Refused(status, message.clone()));
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
            flight.land(Heard::Unreadable(Usage::default(), why));
            let mut reply = HttpResponse::new(Reply::whole(text));
            reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            reply
        }
    }
}

/// A request that is not taken in. A model call counts as one without an answer, with those who share the gateway.
fn not_taken(shared: Option<&Shared>, format: Format, refusal: &Refusal) -> Answered {
    let class = if refusal.status.is_server_error() { ErrorClass::Transient } else { ErrorClass::Terminal };
    shared.into_iter().for_each(|shared| shared.not_taken(LlmError::new(class, &refusal.why)));
    let mut reply = refused(Some(format), refusal.status, &refusal.why);
    if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Refuses a call that cannot be passed on.
fn not_passed_on(format: Format, reason: &str, mut flight: Flight) -> Answered {
    flight.not_passed_on(reason);
    refuse(format, reason, flight)
}

fn refuse(format: Format, reason: &str, mut flight: Flight) -> Answered {
    flight.refused(reason);
    flight.land(Heard::Refused(400, reason.to_owned()));
    refused(Some(format), StatusCode::BAD_REQUEST, reason)
}

/// A response in a client's language, in the shape it asked for.
fn encoded(format: Format, shape: Shape, response: &Response) -> Answered {
    let body = format.encode_reply(response);
    if shape == Shape::Events {
        let pieces = format.stream_reply(&body).iter().map(|event| Bytes::from(event.to_text())).collect();
        let mut reply = HttpResponse::new(Reply::Pieces(pieces));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return reply;
    }
    let body = if shape == Shape::List { json!([body]) } else { body };
    json_reply(StatusCode::OK, &body)
}

fn refused(format: Option<Format>, status: StatusCode, message: &str) -> Answered {
    json_reply(status, &refusal::body(format, status, message))
}

fn json_reply(status: StatusCode, body: &Value) -> Answered {
    let mut reply = HttpResponse::new(Reply::whole(body.to_string()));
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
