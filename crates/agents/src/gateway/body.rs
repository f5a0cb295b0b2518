//! What goes back to a client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::relay::Relay;
use crate::llm::HttpError;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum ReplyBody {
    /// Pieces that are there already.
    Pieces(VecDeque<Bytes>),
    /// Pieces as they come from the provider.
    Relay(Box<Relay>),
}

impl ReplyBody {
    /// A body in one piece.
    pub(super) fn whole(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self::Pieces(if body.is_empty() { VecDeque::new() } else { VecDeque::from([body]) })
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        match &mut *self {
            Self::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Self::Relay(relay) => relay.poll(context).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Relay(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces(pieces) if pieces.len() <= 1 => {
                SizeHint::with_exact(pieces.front().map_or(0, |piece| piece.len() as u64))
            }
            Self::Pieces(_) | Self::Relay(_) => SizeHint::default(),
        }
    }
}
