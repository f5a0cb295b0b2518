//! Providers behind a server: one call is one request, answered as a stream.

mod adjust;
mod effort;
mod endpoint;
mod forward;
mod key;
mod refusal;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT,
};
use serde_json::{Value, json};

use self::adjust::{remember_prompt, rename_calls, restore, thinks};
use self::endpoint::{FoundKey, Headers, ProviderEndpoint};
use self::forward::headers_of;
use self::key::{ApiKey, KeyCommand};
use self::refusal::RefusedCall;
use super::http::{HttpAnswer, HttpClient, HttpError};
use super::price::{ModelNames, Prices, Pricing, max_output_of, usual_model};
use super::wire::{Assembler, Format, WireError, sse};
use super::{Answered, ErrorClass, LlmError, Message, Request, by_length, meta, words};
use os::process::{Cancel, Spawner};
use pleach_core::clock;
use pleach_core::config::{self, Environment, ProviderName};
use pleach_core::event::Usage;
use pleach_core::ids::wire_name;
use pleach_core::redact::Redactor;

pub use self::endpoint::{Unusable, key_variables};
pub(crate) use self::forward::{ForwardError, ForwardedCall, end_to_end_headers};

/// The longest answer that is read.
const LONGEST: usize = 64 << 20;

/// The token limit of an answer where the model's own is unknown and the format requires one.
const UNKNOWN_LIMIT: u32 = 8192;

/// How much of a refusal is read.
const REFUSAL: usize = 64 << 10;

/// A provider behind a server.
#[derive(Debug, Clone)]
pub struct Remote(Arc<RemoteInner>);

#[derive(Debug)]
struct RemoteInner {
    name: ProviderName,
    format: Format,
    client: HttpClient,
    key: ApiKey,
    key_hint: String,
    headers: Headers,
    models: BTreeMap<String, String>,
    max_tokens: Option<u32>,
    retries: u32,
    max_wait: Duration,
    prices: Prices,
}

impl Remote {
    /// The provider of this name. `root` is where a command that prints the key is run.
    pub fn new(
        name: &ProviderName,
        given: &config::ServerSettings,
        environment: &Environment,
        spawner: &Spawner,
        root: &Path,
    ) -> Result<Self, Unusable> {
        let endpoint = ProviderEndpoint::new(name, given, environment)?;
        let (key, key_hint) = match &given.settings.api_key_command {
            Some(script) => {
                let env = environment.iter().map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).collect();
                let (script, cwd, spawner) = (script.clone(), root.to_owned(), spawner.clone());
                let (said, redactor, variable) = (Mutex::default(), OnceLock::new(), endpoint.key_name());
                let command = KeyCommand { script, cwd, env, spawner, said, variable, redactor };
                (ApiKey::Command(Box::new(command)), format!("`providers.{name}.settings.api_key_command`"))
            }
            None => match endpoint.key()? {
                FoundKey::Key(variable, key) => (ApiKey::Given(key), variable),
                FoundKey::NotNeeded(variable) => (ApiKey::None, variable),
            },
        };
        let client = endpoint.client()?;
        let headers = endpoint.headers()?;
        Ok(Self(Arc::new(RemoteInner {
            name: name.clone(),
            format: endpoint.format,
            client,
            key,
            key_hint,
            headers,
            models: given.models.clone(),
            max_tokens: given.settings.max_tokens,
            retries: given.settings.retries,
            max_wait: Duration::from_secs(given.settings.max_wait),
            prices: Prices::new(&given.prices),
        })))
    }

    /// Sends a request without a key and gives the status of the answer: any answer shows that the server can be
    /// reached.
    pub async fn reach(&self) -> Result<u16, String> {
        let answer = self.0.client.call(Method::GET, "/", &[], Bytes::new()).await;
        answer.map(|answer| answer.status).map_err(|error| error.to_string())
    }

    /// The address of its server.
    pub fn address(&self) -> String {
        self.0.client.base().to_string()
    }

    /// Has the key a command prints taken out of records.
    pub fn redact_with(&self, redactor: &Redactor) {
        if let ApiKey::Command(command) = &self.0.key {
            // The first one stays; a run has only one.
            let _ = command.redactor.set(redactor.clone());
        }
    }

    /// Where its key comes from: a variable, or a setting.
    pub fn key_name(&self) -> &str {
        &self.0.key_hint
    }

    /// Whether it is asked without any key, as servers of one's own are.
    pub fn is_keyless(&self) -> bool {
        matches!(self.0.key, ApiKey::None)
    }

    /// The format of its API.
    pub fn format(&self) -> Format {
        self.0.format
    }

    /// Which one it is.
    pub fn provider(&self) -> &ProviderName {
        &self.0.name
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// The most tokens an answer of a model may have: as many as are asked for, as the configuration says, or the
    /// model's own limit. Where that is unknown, the server decides.
    pub fn output_limit(&self, model: &str, asked: Option<u32>) -> Option<u32> {
        // This format wants a number.
        let least = (self.0.format == Format::Anthropic).then_some(UNKNOWN_LIMIT);
        asked.or(self.0.max_tokens).or_else(|| max_output_of(model)).or(least)
    }

    /// How often a call that failed for the moment is worth another try.
    pub fn retries(&self) -> u32 {
        self.0.retries
    }

    /// The longest wait its server may ask for.
    pub fn max_wait(&self) -> Duration {
        self.0.max_wait
    }

    /// What a call cost, if the model's price is known.
    pub fn cost(&self, model: ModelNames<'_>, usage: &Usage) -> Option<f64> {
        self.0.prices.cost(ModelNames { asked: &self.resolved(model), ..model }, usage)
    }

    /// How well the price of a model is known.
    pub fn pricing(&self, model: ModelNames<'_>) -> Pricing {
        self.0.prices.pricing(ModelNames { asked: &self.resolved(model), ..model })
    }

    /// The model that was asked for, where a short name or a tier was.
    fn resolved(&self, model: ModelNames<'_>) -> String {
        self.model(model.asked).unwrap_or_else(|_| model.asked.to_owned())
    }

    /// The model behind a name: a short one of the configuration, a tier, or the model itself. No name is `worker`.
    pub fn model(&self, asked: &str) -> Result<String, Unusable> {
        let asked = if asked.is_empty() { "worker" } else { asked };
        if let Some(model) = self.0.models.get(asked) {
            return Ok(model.clone());
        }
        if !["smart", "worker", "cheap"].contains(&asked) {
            return Ok(asked.to_owned());
        }
        let unknown = || Unusable::NoModel { provider: self.0.name.clone(), tier: asked.to_owned() };
        usual_model(self.name(), asked).map(str::to_owned).ok_or_else(unknown)
    }

    /// Makes one call; a kill drops it.
    pub async fn complete(&self, request: &Request, cancel: &Cancel) -> Result<Answered, LlmError> {
        let answered = tokio::select! {
            biased;
            () = cancel.killed() => Err(LlmError::cancelled()),
            answered = self.0.call(self, request, cancel) => answered,
        };
        answered.map_err(|mut error| {
            error.message = self.without_key(error.message);
            error
        })
    }

    /// Whether a model takes an effort, as far as its name says.
    pub fn takes_effort(&self, model: &str) -> bool {
        effort::is_supported(self.0.format, &self.model(model).unwrap_or_else(|_| model.to_owned()))
    }

    /// Whether calls in this format can be forwarded to it.
    pub(crate) fn supports(&self, format: Format) -> bool {
        use Format::{Anthropic, Chat, Responses};
        match (self.0.format, format) {
            (Responses | Chat, Responses | Chat) => true,
            // Such servers often support several formats; those that do not will say so.
            (Chat, Anthropic) => self.0.name == ProviderName::COMPATIBLE,
            (own, format) => own == format,
        }
    }

    /// Forwards a call and waits for the answer to begin. A key that is refused is asked for once more where it comes
    /// from a command.
    pub(crate) async fn forward(&self, call: &ForwardedCall, cancel: &Cancel) -> Result<HttpAnswer, ForwardError> {
        let inner = &self.0;
        let (key, known) = inner.key.get(cancel).await.map_err(ForwardError::Key)?;
        let mut answer = self.forward_with(call, key.as_deref()).await?;
        if answer.status == 401 && known && inner.key.forget() {
            let (key, _) = inner.key.get(cancel).await.map_err(ForwardError::Key)?;
            answer = self.forward_with(call, key.as_deref()).await?;
        }
        Ok(answer)
    }

    async fn forward_with(&self, call: &ForwardedCall, key: Option<&str>) -> Result<HttpAnswer, ForwardError> {
        let inner = &self.0;
        let mut headers = headers_of(call, &inner.headers);
        if let Some(key) = key {
            let (name, value) = inner.key_header(call.format, key).map_err(ForwardError::Key)?;
            if !inner.headers.gives(&name) {
                headers.push((name, value));
            }
        }
        let sent = inner.client.call(call.method.clone(), &call.path, &headers, call.body.clone()).await;
        sent.map_err(ForwardError::Http)
    }

    /// What it means that the server says no to a call of a model, in words without the key.
    pub(crate) fn refusal(&self, model: &str, status: u16, message: &str) -> LlmError {
        let error = self.0.refused(model).by_words(status, message);
        LlmError { message: self.without_key(error.message), ..error }
    }

    /// What it means that a call was not passed on, in words without the key.
    pub(crate) fn forward_error(&self, error: &ForwardError) -> LlmError {
        let error = match error {
            ForwardError::Key(error) => error.clone(),
            ForwardError::Http(error) => failed(error),
        };
        LlmError { message: self.without_key(error.message), ..error }
    }

    /// What went wrong, in words without the key.
    pub(crate) fn describe(&self, error: &dyn std::error::Error) -> String {
        self.without_key(error.to_string())
    }

    /// The text without the key and without headers out of variables. No server should repeat them; if one does, they
    /// go no further.
    fn without_key(&self, mut text: String) -> String {
        let secret = self.0.headers.given.iter().filter(|(_, value)| value.is_sensitive());
        let headers = secret.filter_map(|(_, value)| value.to_str().ok().map(str::to_owned));
        for secret in self.0.key_at_hand().into_iter().chain(headers).filter(|secret| secret.len() >= 6) {
            text = text.replace(&secret, "[redacted:key]");
        }
        text
    }
}

impl RemoteInner {
    async fn call(&self, remote: &Remote, request: &Request, cancel: &Cancel) -> Result<Answered, LlmError> {
        let mut asked = request.clone();
        let unknown = |why: Unusable| LlmError::new(ErrorClass::Unavailable, why.to_string());
        asked.model = remote.model(&request.model).map_err(unknown)?;
        asked.max_tokens = remote.output_limit(&asked.model, asked.max_tokens);
        for tool in &mut asked.tools {
            tool.name = wire_name(&tool.name);
        }
        rename_calls(&mut asked, wire_name);
        asked.messages.iter_mut().for_each(Message::include_about);
        effort::translate(self.format, &mut asked);
        let body = Bytes::from(self.body(&asked).to_string());
        let sent = body.len() as u64;
        let (key, known) = self.key.get(cancel).await?;
        let mut answer = self.send(&asked.model, key.as_deref(), body.clone()).await?;
        // A key that worked before may have expired.
        if answer.status == 401 && known && self.key.forget() {
            let (key, _) = self.key.get(cancel).await?;
            answer = self.send(&asked.model, key.as_deref(), body).await?;
        }
        let body = self.read(&asked.model, sent, answer).await?;
        let taken = by_length(self.format.usage_of(&body), false, sent, words(&body));
        let mut response = self
            .format
            .decode_reply(body)
            .map_err(|error| self.unreadable(&error, &asked.model).charged(&asked.model, taken))?;
        if taken.1 {
            response.usage = taken.0;
        }
        if response.model.is_empty() {
            response.model.clone_from(&asked.model);
        }
        restore(&mut response, request);
        Ok(Answered { response, estimated: taken.1 })
    }

    /// The request's body, with what this provider wants beyond its format.
    fn body(&self, request: &Request) -> Value {
        let mut body = self.format.encode_request(request, true);
        match self.format {
            Format::Anthropic => {
                let shared = request.metadata.get(meta::SHARED).and_then(|length| length.parse().ok());
                remember_prompt(&mut body, shared);
            }
            Format::Responses => {
                body["store"] = false.into();
                if thinks(&request.model) {
                    body["include"] = json!(["reasoning.encrypted_content"]);
                }
            }
            Format::Chat => body["stream_options"] = json!({"include_usage": true}),
            Format::Gemini => {}
        }
        effort::complete(self.format, request, &mut body);
        body
    }

    async fn send(&self, model: &str, key: Option<&str>, body: Bytes) -> Result<HttpAnswer, LlmError> {
        let path = match self.format {
            Format::Anthropic => "/messages".to_owned(),
            Format::Responses => "/responses".to_owned(),
            Format::Chat => "/chat/completions".to_owned(),
            Format::Gemini => {
                let model = model.strip_prefix("models/").unwrap_or(model);
                format!("/models/{model}:streamGenerateContent?alt=sse")
            }
        };
        let fixed = HeaderValue::from_static;
        let mut headers = vec![
            (CONTENT_TYPE, fixed("application/json")),
            (ACCEPT, fixed("text/event-stream, application/json")),
            (ACCEPT_ENCODING, fixed("identity")),
            (USER_AGENT, fixed(concat!("pleach/", env!("CARGO_PKG_VERSION")))),
        ];
        headers.extend(self.headers.given.iter().chain(&self.headers.usual).cloned());
        if let Some(key) = key {
            headers.push(self.key_header(self.format, key)?);
        }
        self.client.post(&path, &headers, body).await.map_err(|error| failed(&error))
    }

    fn key_header(&self, format: Format, key: &str) -> Result<(HeaderName, HeaderValue), LlmError> {
        let (name, text) = match format {
            Format::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Format::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Format::Responses | Format::Chat => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let wrong = |_| LlmError::new(ErrorClass::Auth, format!("the key of {} has invalid characters", self.name));
        let mut value = HeaderValue::from_str(&text).map_err(wrong)?;
        value.set_sensitive(true);
        Ok((name, value))
    }

    /// The answer's body, as if it had not been streamed.
    async fn read(&self, model: &str, sent: u64, mut answer: HttpAnswer) -> Result<Value, LlmError> {
        if answer.status != 200 {
            let body = answer.bytes(REFUSAL).await.unwrap_or_default();
            return Err(self.refused(model).by_status(answer.status, &answer.headers, &body, clock::now()));
        }
        let malformed = |text: String| LlmError::new(ErrorClass::Malformed, text);
        let header =
            |name: HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let encoding = header(CONTENT_ENCODING);
        if !matches!(encoding, "" | "identity") {
            let text = format!("{} answered with encoding `{encoding}`, which was not requested", self.name);
            return Err(LlmError::new(ErrorClass::Terminal, text));
        }
        if header(CONTENT_TYPE).starts_with("text/event-stream") {
            return self.read_stream(model, sent, &mut answer).await;
        }
        let body = answer.bytes(LONGEST).await.map_err(|error| failed(&error))?;
        let body: Value = serde_json::from_slice(&body)
            .map_err(|error| malformed(format!("the answer of {} is not JSON: {error}", self.name)))?;
        match self.format.reported_error(&body) {
            Some((kind, message)) => Err(self.refused(model).by_kind(&kind, &message)),
            None => Ok(body),
        }
    }

    async fn read_stream(&self, model: &str, sent: u64, answer: &mut HttpAnswer) -> Result<Value, LlmError> {
        let mut assembler = Assembler::new(self.format);
        let mut read = self.assemble(model, answer, &mut assembler).await;
        if read.is_ok() && !assembler.is_done() {
            read = Err(self.unreadable(&WireError::Cut, model));
        }
        // A call without any part of its answer can be repeated without loss.
        let begun = assembler.has_begun();
        let body = assembler.so_far();
        read.map_err(|error| {
            let class = if begun && error.class == ErrorClass::Transient { ErrorClass::Cut } else { error.class };
            let usage = self.format.usage_of(&body);
            // What broke off is paid for as far as it came.
            let taken = if begun { by_length(usage, true, sent, words(&body)) } else { (usage, false) };
            let arrived = self.format.decode_reply(body.clone()).ok().map(|response| response.message);
            LlmError { class, ..error }.charged(model, taken).with(arrived.filter(|_| begun))
        })?;
        Ok(body)
    }

    /// Reads a stream to its end.
    async fn assemble(&self, model: &str, answer: &mut HttpAnswer, assembler: &mut Assembler) -> Result<(), LlmError> {
        let mut reader = sse::SseReader::default();
        let mut size = 0;
        loop {
            let chunk = match answer.chunk().await {
                Ok(chunk) => chunk,
                // Everything was said before the connection broke.
                Err(_) if assembler.is_done() => None,
                Err(error) => return Err(failed(&error)),
            };
            let Some(chunk) = chunk else { break };
            size += chunk.len();
            if size > LONGEST {
                let text = format!(
                    "the answer of {} is too long; reading stopped after {} \
                     MB",
                    self.name,
                    LONGEST >> 20
                );
                return Err(LlmError::new(ErrorClass::Terminal, text));
            }
            for event in reader.push(&chunk) {
                assembler.push(&event).map_err(|error| self.unreadable(&error, model))?;
            }
        }
        // What came last may be cut: then it counts as little as what never came.
        if let Some(event) = reader.finish()
            && let Err(error @ WireError::Reported { .. }) = assembler.push(&event)
        {
            return Err(self.unreadable(&error, model));
        }
        Ok(())
    }

    fn unreadable(&self, error: &WireError, model: &str) -> LlmError {
        match error {
            WireError::Reported { kind, message } => self.refused(model).by_kind(kind, message),
            WireError::Cut => {
                LlmError::new(ErrorClass::Transient, format!("{} broke off in the middle of its answer", self.name))
            }
            WireError::Shape(why) => {
                let text = format!("the answer of {} cannot be read: {why}", self.name);
                LlmError::new(ErrorClass::Malformed, text)
            }
        }
    }

    fn refused<'a>(&'a self, model: &'a str) -> RefusedCall<'a> {
        let (provider, address) = (self.name.as_str(), self.client.base().to_string());
        RefusedCall { provider, format: self.format, model, address, key_hint: &self.key_hint }
    }

    fn key_at_hand(&self) -> Option<String> {
        match &self.key {
            ApiKey::None => None,
            ApiKey::Given(key) => Some(key.clone()),
            ApiKey::Command(command) => command.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
        }
    }
}

fn failed(error: &HttpError) -> LlmError {
    let class = match error {
        HttpError::Address { .. } | HttpError::Refused { .. } | HttpError::Tls { .. } => ErrorClass::Unavailable,
        HttpError::Connect { .. } | HttpError::Silent { .. } | HttpError::Broken { .. } => ErrorClass::Transient,
    };
    LlmError::new(class, error.to_string())
}
