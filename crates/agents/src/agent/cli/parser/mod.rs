//! Parsers for the streams of agents: lines in, events out. Nothing here touches the world.
//!
//! Every program has its own format, none of them versioned. So lines that are not JSON and unknown kinds are ignored,
//! and what a stream leaves out is left out here.

mod claude;
mod codex;
mod event;
mod gemini;
mod jsonl;
mod open_call;
mod opencode;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::open_call::StreamParser;
use pleach_core::config::ParserName;
use pleach_core::event::Usage;

pub(crate) use self::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent, StreamedCall, Total};

/// A line longer than this is not kept.
const LONGEST_LINE: usize = 64 << 20;

/// Reads a stream, chunk by chunk.
pub(crate) struct StreamReader {
    parse: Option<Box<dyn StreamParser>>,
    line: Vec<u8>,
    too_long: bool,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("line", &self.line.len()).finish_non_exhaustive()
    }
}

impl StreamReader {
    /// A reader of this kind of stream. `earlier` is what earlier runs of the conversation used, for agents that count
    /// it in.
    pub fn new(parser: ParserName, earlier: Usage) -> Self {
        let parse: Option<Box<dyn StreamParser>> = match parser {
            ParserName::None => None,
            ParserName::Claude => Some(Box::<claude::Claude>::default()),
            ParserName::Codex => Some(Box::new(codex::Codex::new(earlier))),
            ParserName::Gemini => Some(Box::<gemini::Gemini>::default()),
            ParserName::Opencode => Some(Box::<opencode::Opencode>::default()),
            ParserName::Jsonl => Some(Box::<jsonl::Jsonl>::default()),
        };
        Self { parse, line: Vec::new(), too_long: false }
    }

    /// Takes in the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        if self.parse.is_none() {
            return events;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LONGEST_LINE {
                self.too_long = true;
                self.line.clear();
            }
            if !self.too_long {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.take_line(&mut events);
            }
        }
        events
    }

    /// The stream is over.
    pub fn finish(&mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        self.take_line(&mut events);
        if let Some(parse) = &mut self.parse {
            parse.end(&mut events);
        }
        events
    }

    fn take_line(&mut self, events: &mut Vec<StreamEvent>) {
        let line = std::mem::take(&mut self.line);
        let too_long = std::mem::take(&mut self.too_long);
        if let (Some(parse), Ok(event @ Value::Object(_)), false) =
            (&mut self.parse, serde_json::from_slice(&line), too_long)
        {
            parse.event(&event, events);
        }
    }
}
