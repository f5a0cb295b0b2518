//! Server-sent events, as streamed answers come in: bytes in any pieces, events out.

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its kind; empty when the stream does not say.
    pub event: String,
    /// What it carries; several `data` lines are joined by newlines.
    pub data: String,
}

impl SseEvent {
    /// An event of a kind.
    pub fn new(event: impl Into<String>, data: impl Into<String>) -> Self {
        Self { event: event.into(), data: data.into() }
    }

    /// The event as it goes over the wire.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.event.is_empty() {
            text.push_str(&format!("event: {}\n", self.event));
        }
        for line in self.data.split('\n') {
            text.push_str(&format!("data: {line}\n"));
        }
        text.push('\n');
        text
    }
}

/// Reads a stream piece by piece. How the pieces are cut makes no difference.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The line being read, without its end.
    line: Vec<u8>,
    /// The last byte was a carriage return: a newline after it belongs to it.
    after_return: bool,
    /// Anything at all was read: a byte order mark may stand before it only.
    begun: bool,
    event: String,
    data: Option<String>,
}

impl SseReader {
    /// Takes the next bytes and gives the events that end in them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.line.extend_from_slice(&rest[..end]);
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line());
        }
        events
    }

    /// The stream is over: gives what was begun and not ended, which may be cut anywhere.
    pub fn finish(mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    /// How much is held of what is not an event yet.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line).into_owned();
        if !std::mem::replace(&mut self.begun, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned();
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.event = value.to_owned(),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments have no name; ids and pauses are for readers that connect again.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        self.data.take().map(|data| SseEvent { event, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut reader = SseReader::default();
        let mut events: Vec<SseEvent> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
        events.extend(reader.finish());
        events
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "\u{feff}: hello\r\nevent: a\r\ndata: one\r\ndata:two\r\ndata\r\n\r\nid: 7\rretry: 5\rdata:  x\r\r\
                    event: no data\n\n: ping\n\ndata: {\"a\":\ndata: 1}\n\nodd: field\ndata: z\n\n";
        let expected = [
            SseEvent::new("a", "one\ntwo\n"),
            SseEvent::new("", " x"),
            SseEvent::new("", "{\"a\":\n1}"),
            SseEvent::new("", "z"),
        ];
        assert_eq!(read(&[text.as_bytes()]), expected);
    }

    #[test]
    fn the_end_of_a_stream_may_come_anywhere() {
        assert_eq!(read(&[b"data: a\n\ndata: b\n"]), [SseEvent::new("", "a"), SseEvent::new("", "b")]);
        assert_eq!(read(&[b"event: x\ndata: {\"ha"]), [SseEvent::new("x", "{\"ha")]);
        assert_eq!(read(&[b"event: x\n"]), []);
        assert_eq!(read(&[]), []);
        let mut reader = SseReader::default();
        reader.push(b"data: abc\nda");
        assert_eq!(reader.held(), 5);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(text in "[a:d\\n\\r é\u{feff}]{0,60}", cuts in proptest::collection::vec(0usize..70, 0..6)) {
            let text = text.replace('a', "data:");
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }

        #[test]
        fn what_is_written_reads_back(event in "[a-z.]{0,8}", data in "[ -~é\\n]{0,40}") {
            let event = SseEvent::new(event, data);
            prop_assert_eq!(read(&[event.to_text().as_bytes()]), [event]);
        }
    }
}
