//! An answer on its way from the provider to the client: each piece goes on as it comes, and is listened to in passing.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::estimate::{Length, taken};
use super::talk::ASIDE;
use super::watch::{Heard, Watcher};
use super::{Shared, Spent};
use crate::event::Usage;
use crate::llm::{Answer, HttpError, Response};

/// A call on its way. Whatever becomes of it, its conversation hears of it: at the latest when this is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    shared: Arc<Shared>,
    /// What its conversation knows it by; none for calls beside the conversations.
    number: Option<u64>,
    /// The model that was asked.
    model: String,
    /// What was counted when the answer was whole.
    told: Option<Spent>,
    /// How long it is; none as long as it has gone to no provider, or where it costs nothing.
    length: Option<Length>,
    over: bool,
}

impl Flight {
    pub(super) fn new(shared: Arc<Shared>, number: Option<u64>, model: String) -> Self {
        shared.flights.send_modify(|flights| *flights += 1);
        Self { shared, number, model, told: None, length: None, over: false }
    }

    /// The call goes to a provider, with a request of so many bytes.
    pub(super) fn sends(&mut self, bytes: usize) {
        self.length = Some(Length { sent: bytes as u64, received: 0 });
    }

    /// So many bytes of words have come back.
    fn received(&mut self, bytes: u64) {
        if let Some(length) = &mut self.length {
            length.received = bytes;
        }
    }

    /// The answer is whole. The client may ask its next question from now on, or leave, so this is told at once; and
    /// again when what comes after it says more about its cost.
    fn answered(&mut self, response: Response) {
        let Some(number) = self.number else { return };
        let spent = self.spent(&response);
        match self.told.replace(spent) {
            None => self.shared.talks().answered(number, response, spent),
            Some(before) if before == spent => {}
            Some(before) => {
                let heard = Heard::Whole(Box::new(response));
                self.shared.talks().landed(number, heard, spent, Some(before));
            }
        }
    }

    /// Nothing more comes.
    pub(super) fn land(&mut self, heard: Heard) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let model = match &heard {
            Heard::Whole(response) if !response.model.is_empty() => response.model.clone(),
            _ => self.model.clone(),
        };
        let (usage, estimated) = taken(&heard, self.length);
        let spent = match heard {
            Heard::Refused(..) => Spent::default(),
            _ => Spent { estimated, ..self.shared.spent(&model, usage) },
        };
        let mut talks = self.shared.talks();
        if estimated {
            talks.estimated(&model);
        }
        match self.number {
            Some(number) => talks.landed(number, heard, spent, self.told),
            None => talks.spend(ASIDE, &model, spent),
        }
        drop(talks);
        self.shared.flights.send_modify(|flights| *flights -= 1);
    }

    fn spent(&self, response: &Response) -> Spent {
        let model = if response.model.is_empty() { &self.model } else { &response.model };
        self.shared.spent(model, response.usage)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.land(Heard::Cut(Usage::default(), "the client hung up".into()));
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Relay {
    answer: Answer,
    watcher: Option<Watcher>,
    flight: Flight,
}

impl Relay {
    pub(super) fn new(answer: Answer, watcher: Watcher, flight: Flight) -> Self {
        Self { answer, watcher: Some(watcher), flight }
    }

    /// The next piece; none at the end.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        Poll::Ready(match ready!(self.answer.poll_chunk(context)) {
            Ok(Some(piece)) => {
                self.listen(&piece);
                Some(Ok(piece))
            }
            Ok(None) => {
                self.finish(true);
                None
            }
            Err(error) => {
                self.finish(false);
                Some(Err(error))
            }
        })
    }

    fn listen(&mut self, piece: &[u8]) {
        let Some(watcher) = &mut self.watcher else { return };
        watcher.push(piece);
        if watcher.is_complete() {
            self.finish(true);
        } else if watcher.is_done() {
            watcher.answer().into_iter().for_each(|response| self.flight.answered(response));
        }
    }

    fn finish(&mut self, ended: bool) {
        if let Some(watcher) = self.watcher.take() {
            self.flight.received(watcher.received());
            self.flight.land(watcher.finish(ended));
        }
    }
}

impl Drop for Relay {
    /// The client went before the end; what it has cost by then counts.
    fn drop(&mut self) {
        self.finish(false);
    }
}
