//! Reads an answer while it is relayed, for its content and its cost. It holds a bounded part of it: of an answer too
//! long to keep, only the tokens are counted.

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value, json};

use super::decompress::{Compression, Decompressor};
use crate::llm::wire::{Assembler, Format, WireError, sse};
use crate::llm::{Response, words};
use pleach_core::event::Usage;
use pleach_core::text::shorten;

/// How much of an answer is kept to be read.
pub(super) const LONGEST: usize = 16 << 20;

/// How much of a refusal is kept.
const REFUSAL: usize = 64 << 10;

/// How much of a refusal is shown.
const SHOWN: usize = 300;

/// How much of a non-answer is shown.
const SHOWN_UNREAD: usize = 80;

/// The longest event that is searched for token counts once nothing else is kept.
const LONGEST_COUNT: usize = 1 << 20;

/// What was read of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerOutcome {
    /// All of it.
    Whole(Box<Response>),
    /// The answer seems to be whole, but only its tokens are known, for this reason.
    Counted(Usage, String),
    /// It is complete, and no answer of a model, for this reason; these tokens were counted in it.
    Unreadable(Usage, String),
    /// It is not whole; these tokens were counted before it broke off.
    Cut(Usage, String),
    /// A refusal.
    Refused(u16, String),
}

/// Reads one answer while it is relayed.
#[derive(Debug)]
pub(super) struct Watcher {
    format: Format,
    decompressor: Decompressor,
    decoder: BodyDecoder,
    kept: usize,
    /// How many bytes have come, compressed or not.
    came: usize,
    /// Whether it is made of tokens: an embedding is not.
    is_words: bool,
    /// How many bytes are still to come, where announced.
    missing: Option<usize>,
}

#[derive(Debug)]
enum BodyDecoder {
    Events(Box<Events>),
    Body(Vec<u8>),
    Refusal(u16, Vec<u8>),
    /// It cannot be read, for this reason.
    Opaque(String),
}

#[derive(Debug)]
struct Events {
    reader: sse::SseReader,
    /// None once the answer is too long to keep.
    assembler: Option<Assembler>,
    /// What the provider has counted up to now.
    counts: Map<String, Value>,
    /// Whether some of that was not asked for yet.
    has_counts: bool,
    wrong: Option<String>,
}

impl Watcher {
    /// For an answer that begins like this. `is_words` says that it is made of tokens: a vector is not.
    pub(super) fn new(format: Format, status: u16, headers: &HeaderMap, is_words: bool) -> Self {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let decoder = match status {
            200..=299 if kind.starts_with("text/event-stream") => BodyDecoder::Events(Box::new(Events {
                reader: sse::SseReader::default(),
                assembler: Some(Assembler::new(format)),
                counts: Map::new(),
                has_counts: false,
                wrong: None,
            })),
            200..=299 => BodyDecoder::Body(Vec::new()),
            status => BodyDecoder::Refusal(status, Vec::new()),
        };
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            format,
            decompressor: Decompressor::new(&Compression::of(headers)),
            decoder,
            kept: 0,
            came: 0,
            is_words,
            missing: length,
        }
    }

    /// Reads the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { format, decompressor, decoder, kept, missing, came, .. } = self;
        *came += bytes.len();
        decompressor.push(bytes, LONGEST, &mut |piece| decoder.push(*format, piece, kept));
        *missing = missing.map(|missing| missing.saturating_sub(bytes.len()));
    }

    /// What the provider has counted up to now, where that has changed.
    pub(super) fn newly_counted(&mut self) -> Option<Usage> {
        let BodyDecoder::Events(events) = &mut self.decoder else { return None };
        let is_new = std::mem::take(&mut events.has_counts);
        is_new.then(|| self.format.usage_of(&json!({"usage": events.counts}))).filter(|usage| usage.total() > 0)
    }

    /// Whether every byte is there. The client knows that as well, and waits for nothing more.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == Some(0)
    }

    /// Whether everything is said, whatever may still come.
    pub(super) fn is_done(&self) -> bool {
        match &self.decoder {
            BodyDecoder::Events(events) => events.assembler.as_ref().is_some_and(Assembler::is_done),
            BodyDecoder::Body(_) | BodyDecoder::Refusal(..) | BodyDecoder::Opaque(_) => false,
        }
    }

    /// Whether it is a refusal, which costs nothing.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.decoder, BodyDecoder::Refusal(..))
    }

    /// The answer so far, if it is complete.
    pub(super) fn answer(&self) -> Option<Response> {
        match &self.decoder {
            BodyDecoder::Events(events) => {
                let body = events.assembler.clone()?.finish().ok()?;
                self.format.decode_reply(body).ok()
            }
            _ => None,
        }
    }

    /// What has arrived of an answer that is not whole, if there is any of it.
    pub(super) fn arrived(&self) -> Option<Response> {
        let BodyDecoder::Events(events) = &self.decoder else { return None };
        let body = events.assembler.clone().filter(|assembler| !assembler.is_done())?.so_far();
        self.format.decode_reply(body).ok().filter(|response| !response.message.content.is_empty())
    }

    /// How many bytes of words have come; all bytes where they cannot be read.
    pub(super) fn received(&self) -> u64 {
        let assembler = match &self.decoder {
            BodyDecoder::Events(events) => events.assembler.clone(),
            BodyDecoder::Body(_) | BodyDecoder::Refusal(..) | BodyDecoder::Opaque(_) => None,
        };
        match assembler {
            _ if !self.is_words => 0,
            Some(assembler) => words(&assembler.so_far()),
            None => self.kept.max(self.came) as u64,
        }
    }

    /// How much is held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        match &self.decoder {
            BodyDecoder::Events(events) => {
                events.reader.held() + if events.assembler.is_some() { self.kept } else { 0 }
            }
            BodyDecoder::Body(body) | BodyDecoder::Refusal(_, body) => body.len(),
            BodyDecoder::Opaque(_) => 0,
        }
    }

    /// The outcome, when nothing more comes. `ended` says that the answer came to its proper end.
    pub(super) fn finish(mut self, ended: bool) -> AnswerOutcome {
        let ended = ended || self.is_complete();
        let Self { format, decompressor, decoder, kept, .. } = &mut self;
        decompressor.finish(LONGEST, &mut |piece| decoder.push(*format, piece, kept));
        if let Some(why) = decompressor.opaque() {
            self.decoder = BodyDecoder::Opaque(why.to_owned());
        }
        match self.decoder {
            BodyDecoder::Events(events) => events.finish(self.format, ended),
            BodyDecoder::Body(body) if ended => whole(self.format, &body, self.is_words),
            BodyDecoder::Body(_) => AnswerOutcome::Cut(Usage::default(), BROKE_OFF.into()),
            BodyDecoder::Refusal(status, body) => AnswerOutcome::Refused(status, error_text(self.format, &body)),
            BodyDecoder::Opaque(why) if ended => AnswerOutcome::Counted(Usage::default(), why),
            BodyDecoder::Opaque(why) => AnswerOutcome::Cut(Usage::default(), why),
        }
    }
}

/// Why an answer is not complete, where no other reason is known.
pub(super) const BROKE_OFF: &str = "the answer broke off";

impl BodyDecoder {
    fn push(&mut self, format: Format, bytes: &[u8], kept: &mut usize) {
        *kept += bytes.len();
        match self {
            Self::Events(events) => {
                events.push(format, bytes, *kept);
                if events.reader.held() > LONGEST {
                    *self = Self::Opaque("a single event of it is too long to be kept".into());
                }
            }
            Self::Body(body) if body.len() + bytes.len() > LONGEST => {
                *self = Self::Opaque("it is too long to be kept".into());
            }
            Self::Body(body) => body.extend_from_slice(bytes),
            Self::Refusal(_, body) => {
                let room = REFUSAL.saturating_sub(body.len()).min(bytes.len());
                body.extend_from_slice(&bytes[..room]);
            }
            Self::Opaque(_) => {}
        }
    }
}

impl Events {
    fn push(&mut self, format: Format, bytes: &[u8], kept: usize) {
        for event in self.reader.push(bytes) {
            self.take(format, &event);
        }
        if kept > LONGEST
            && let Some(assembler) = self.assembler.take()
        {
            let known = assembler.so_far();
            ["usage", "usageMetadata"].iter().for_each(|key| add_counts(&mut self.counts, known.get(*key)));
        }
    }

    fn take(&mut self, format: Format, event: &sse::SseEvent) {
        if event.data.len() <= LONGEST_COUNT && has_usage(&event.data) {
            let event: Value = serde_json::from_str(&event.data).unwrap_or_default();
            for path in ["/usage", "/message/usage", "/response/usage", "/usageMetadata"] {
                add_counts(&mut self.counts, event.pointer(path));
            }
            self.has_counts = true;
            if let (None, Some((_, message))) = (&self.assembler, format.reported_error(&event)) {
                self.wrong = Some(message);
            }
        }
        match self.assembler.as_mut().map_or(Ok(()), |assembler| assembler.push(event)) {
            Ok(()) => {}
            Err(WireError::Reported { message, .. }) => self.wrong = Some(message),
            Err(error) => self.wrong = Some(error.to_string()),
        }
    }

    fn finish(mut self, format: Format, ended: bool) -> AnswerOutcome {
        if let Some(event) = std::mem::take(&mut self.reader).finish() {
            // The last event may be cut off; then it does not count.
            let wrong = self.wrong.take();
            self.take(format, &event);
            self.wrong = wrong;
        }
        let Some(assembler) = self.assembler else {
            let usage = format.usage_of(&json!({"usage": self.counts}));
            return match self.wrong {
                Some(why) => AnswerOutcome::Cut(usage, why),
                None if ended => AnswerOutcome::Counted(usage, "it is too long to be kept".into()),
                None => AnswerOutcome::Cut(usage, BROKE_OFF.into()),
            };
        };
        let done = assembler.is_done();
        let body = assembler.so_far();
        let usage = format.usage_of(&body);
        match (self.wrong, format.decode_reply(body)) {
            (None, Ok(response)) if done => AnswerOutcome::Whole(Box::new(response)),
            (None, Err(error)) if done => AnswerOutcome::Unreadable(usage, error.to_string()),
            (wrong, _) => AnswerOutcome::Cut(usage, wrong.unwrap_or_else(|| BROKE_OFF.into())),
        }
    }
}

/// Reads a body in one piece. Google sends a list of pieces without `alt=sse`. What is not made of words only has to be
/// JSON: it is not meant to be a model's answer.
fn whole(format: Format, body: &[u8], is_words: bool) -> AnswerOutcome {
    let body: Value = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => {
            let begins = shorten(String::from_utf8_lossy(body).trim(), SHOWN_UNREAD);
            let why = if begins.is_empty() { "it is empty".to_owned() } else { format!("{error}: {begins}") };
            return AnswerOutcome::Unreadable(Usage::default(), why);
        }
    };
    let body = match body {
        Value::Array(pieces) => {
            let mut assembler = Assembler::new(format);
            for piece in pieces {
                if let Err(error) = assembler.push(&sse::SseEvent::new("", piece.to_string())) {
                    return AnswerOutcome::Cut(Usage::default(), error.to_string());
                }
            }
            match assembler.finish() {
                Ok(body) => body,
                Err(error) => return AnswerOutcome::Cut(Usage::default(), error.to_string()),
            }
        }
        body => body,
    };
    let usage = format.usage_of(&body);
    match format.decode_reply(body) {
        Ok(response) => AnswerOutcome::Whole(Box::new(response)),
        Err(_) if !is_words => AnswerOutcome::Counted(usage, "it is made of no words".into()),
        Err(error) => AnswerOutcome::Unreadable(usage, error.to_string()),
    }
}

fn error_text(format: Format, body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let json = json.get(0).cloned().unwrap_or(json);
    match format.reported_error(&json) {
        Some((_, message)) => message,
        None => shorten(String::from_utf8_lossy(body).trim(), SHOWN),
    }
}

/// Whether an event has token counts. Some servers name them in every event and have them in the last.
fn has_usage(data: &str) -> bool {
    let value = |(at, _): (usize, &str)| data[at..].split_once(':').map_or("", |(_, value)| value.trim_start());
    data.match_indices("\"usage").map(value).any(|value| value.starts_with('{'))
}

/// Later counts win; what is not counted again stays.
fn add_counts(counts: &mut Map<String, Value>, more: Option<&Value>) {
    let more = more.and_then(Value::as_object).into_iter().flatten();
    counts.extend(more.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())));
}

#[cfg(test)]
mod tests {
    use hyper::header::{CONTENT_ENCODING, HeaderValue};

    use super::*;
    use crate::gateway::testing::gzip;
    use crate::llm::{Message, Part, Role, Stop};

    const ALL: [Format; 4] = [Format::Anthropic, Format::Responses, Format::Chat, Format::Gemini];

    const USAGE: Usage = Usage {
        input: 100,
        cache_read: 50,
        cache_write: 0,
        output: 20,
        reasoning: 5,
        cache_write_1h: 0,
        web_searches: 0,
    };

    fn headers(kind: &'static str, packed: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        packed.map(|packed| headers.insert(CONTENT_ENCODING, HeaderValue::from_static(packed)));
        headers
    }

    fn response(text: &str) -> Response {
        let content = vec![Part::text(text), Part::tool_call("c-1", "write", json!({"path": "a"}))];
        let message = Message::new(Role::Assistant, content);
        Response { message, usage: USAGE, model: "m".into(), stop: Stop::ToolCalls, extra: Default::default() }
    }

    fn streamed(format: Format, text: &str) -> String {
        let events = format.stream_reply(&format.encode_reply(&response(text)));
        events.iter().map(sse::SseEvent::to_text).collect()
    }

    #[test]
    fn answers_are_read_in_every_format_and_compression() {
        for format in ALL {
            let stream = streamed(format, "Hello.");
            let body = format.encode_reply(&response("Hello.")).to_string();
            for (kind, packed, bytes) in [
                ("text/event-stream", None, stream.clone().into_bytes()),
                ("text/event-stream; charset=utf-8", Some("gzip"), gzip(stream.as_bytes())),
                ("application/json", None, body.clone().into_bytes()),
                ("application/json", Some("gzip"), gzip(body.as_bytes())),
            ] {
                let mut watcher = Watcher::new(format, 200, &headers(kind, packed), true);
                bytes.chunks(13).for_each(|piece| watcher.push(piece));
                let AnswerOutcome::Whole(outcome) = watcher.finish(true) else {
                    panic!("{format:?} {kind} {packed:?}")
                };
                assert_eq!((outcome.message.text().as_str(), outcome.usage), ("Hello.", USAGE), "{format:?} {kind}");
                assert_eq!(outcome.message.tool_calls().count(), 1);
            }
        }
        let list = format!("[{}]", Format::Gemini.encode_reply(&response("Hello.")));
        let mut watcher = Watcher::new(Format::Gemini, 200, &headers("application/json", None), true);
        watcher.push(list.as_bytes());
        assert!(matches!(watcher.finish(true), AnswerOutcome::Whole(_)));
    }

    #[test]
    fn an_answer_is_done_with_its_last_words() {
        for format in ALL {
            let stream = streamed(format, "Hello.");
            let mut watcher = Watcher::new(format, 200, &headers("text/event-stream", None), true);
            let half = stream.len() / 2;
            watcher.push(&stream.as_bytes()[..half]);
            assert!(!watcher.is_done(), "{format:?}");
            watcher.push(&stream.as_bytes()[half..]);
            assert!(watcher.is_done(), "{format:?}");
            assert_eq!(watcher.answer().unwrap().message.text(), "Hello.");
        }
    }

    #[test]
    fn an_interrupted_answer_keeps_its_counted_tokens() {
        let stream = streamed(Format::Anthropic, "Hello.");
        let mut watcher = Watcher::new(Format::Anthropic, 200, &headers("text/event-stream", None), true);
        watcher.push(&stream.as_bytes()[..stream.len() / 2]);
        let AnswerOutcome::Cut(usage, _) = watcher.finish(false) else { panic!("it is not whole") };
        assert_eq!((usage.input, usage.cache_read, usage.output), (100, 50, 1));
        let mut watcher = Watcher::new(Format::Chat, 429, &headers("application/json", None), true);
        watcher.push(br#"{"error":{"message":"slow down"}}"#);
        assert_eq!(watcher.finish(true), AnswerOutcome::Refused(429, "slow down".into()));
        for (is_words, body) in [(true, "<html>"), (true, "{}"), (true, ""), (false, "<html>")] {
            let mut watcher = Watcher::new(Format::Chat, 200, &headers("text/html", None), is_words);
            watcher.push(body.as_bytes());
            assert!(matches!(watcher.finish(true), AnswerOutcome::Unreadable(..)), "{body}");
        }
        let mut watcher = Watcher::new(Format::Chat, 200, &headers("application/json", None), false);
        watcher.push(b"{}");
        assert!(matches!(watcher.finish(true), AnswerOutcome::Counted(..)), "a vector is no answer of a model");
        let mut watcher = Watcher::new(Format::Chat, 200, &headers("application/json", Some("br")), true);
        watcher.push(b"????");
        assert!(matches!(watcher.finish(true), AnswerOutcome::Counted(_, why) if why.contains("`br`")));
    }

    #[test]
    fn only_tokens_are_kept_of_very_long_answers() {
        let word = "x".repeat(100_000);
        for format in ALL {
            let mut watcher = Watcher::new(format, 200, &headers("text/event-stream", None), true);
            let stream = streamed(format, &word);
            // The words come again and again.
            let at = stream.find("xxx").unwrap();
            let (begin, end) =
                (stream[..at].rfind("\n\n").map_or(0, |at| at + 2), at + stream[at..].find("\n\n").unwrap() + 2);
            watcher.push(&stream.as_bytes()[..begin]);
            let mut most = 0;
            for _ in 0..190 {
                watcher.push(&stream.as_bytes()[begin..end]);
                most = most.max(watcher.held());
            }
            watcher.push(&stream.as_bytes()[end..]);
            assert!(most <= LONGEST + 2 * stream.len(), "{format:?} held {most}");
            let AnswerOutcome::Counted(usage, _) = watcher.finish(true) else { panic!("{format:?}") };
            assert_eq!(usage, USAGE, "{format:?}");
        }
    }
}
