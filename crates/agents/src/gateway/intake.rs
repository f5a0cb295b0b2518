//! Receiving requests: all those in flight are held in bounded memory, and one that does not arrive times out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use os::deadline::Deadline;

/// The longest request that is accepted; a compressed one counts together with its content.
pub(super) const LONGEST: usize = 128 << 20;

/// Requests up to this size have memory of their own, so that a few huge ones do not block them.
pub(super) const ORDINARY: usize = 16 << 20;

/// How many bytes each of the two kinds of requests may hold.
const ROOM: usize = LONGEST;

/// How long a request may take to arrive, waiting for memory included. It comes from this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a request is not accepted.
#[derive(Debug)]
pub(super) struct IntakeError {
    /// The HTTP status.
    pub status: StatusCode,
    /// In words.
    pub why: String,
}

impl IntakeError {
    /// Whether the client waits for an answer. An incomplete request has asked nothing.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE)
    }

    fn too_long() -> Self {
        let why = format!("the request is longer than {} MB", LONGEST >> 20);
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, why }
    }

    fn no_room() -> Self {
        let why = "too many large requests are on their way; try again".to_owned();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, why }
    }

    fn late() -> Self {
        let why = format!("the request did not come within {} s", PATIENCE.as_secs());
        Self { status: StatusCode::REQUEST_TIMEOUT, why }
    }
}

/// Bounded memory for the bodies of requests.
#[derive(Debug)]
pub(super) struct BodyMemory {
    ordinary: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self { ordinary: Arc::new(Semaphore::new(ROOM)), large: Arc::new(Semaphore::new(ROOM)) }
    }
}

/// Memory reserved for one body. Dropped, it is free for others.
#[derive(Debug)]
pub(super) struct BodyPermit {
    held: OwnedSemaphorePermit,
    until: Deadline,
}

impl BodyMemory {
    /// Memory for so many bytes, in the order of asking.
    async fn permit(&self, size: usize) -> Result<BodyPermit, IntakeError> {
        let until = Deadline::after(PATIENCE);
        Ok(BodyPermit { held: self.take(size, until).await?, until })
    }

    async fn take(&self, size: usize, until: Deadline) -> Result<OwnedSemaphorePermit, IntakeError> {
        let memory = if size <= ORDINARY { &self.ordinary } else { &self.large };
        let bytes = u32::try_from(size).map_err(|_| IntakeError::too_long())?;
        match until.ready(Arc::clone(memory).acquire_many_owned(bytes)).await {
            Some(Ok(held)) => Ok(held),
            // It is never closed.
            Some(Err(_)) | None => Err(IntakeError::no_room()),
        }
    }

    /// Moves a request that turns out to be large. It keeps its memory until it has the new one, which is of the
    /// greatest size, so that no large request ever waits for more.
    pub(super) async fn grow(&self, permit: &mut BodyPermit) -> Result<(), IntakeError> {
        permit.held = self.take(LONGEST, permit.until).await?;
        Ok(())
    }

    /// Receives a body, with its memory.
    pub(super) async fn receive(
        &self,
        mut body: Incoming,
        is_compressed: bool,
    ) -> Result<(Bytes, BodyPermit), IntakeError> {
        // A body of unknown length, or a compressed one, gets what ordinary ones take at most.
        let announced = usize::try_from(body.size_hint().upper().unwrap_or(ORDINARY as u64));
        let announced = announced.ok().filter(|size| *size <= LONGEST).ok_or_else(IntakeError::too_long)?;
        let size = match announced {
            ..=ORDINARY if is_compressed => ORDINARY,
            _ if is_compressed => LONGEST,
            size => size,
        };
        let mut permit = self.permit(size).await?;
        let mut bytes = Vec::new();
        loop {
            let frame = match permit.until.ready(body.frame()).await {
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(error))) => {
                    return Err(IntakeError { status: StatusCode::BAD_REQUEST, why: error.to_string() });
                }
                Some(None) => break,
                None => return Err(IntakeError::late()),
            };
            let Some(piece) = frame.data_ref() else { continue };
            let length = bytes.len() + piece.len();
            if length > LONGEST {
                return Err(IntakeError::too_long());
            }
            if length > permit.size() {
                self.grow(&mut permit).await?;
            }
            if bytes.capacity() < length {
                bytes.reserve_exact(permit.size().min(2 * length) - bytes.len());
            }
            bytes.extend_from_slice(piece);
        }
        if !is_compressed {
            permit.shrink(bytes.len());
        }
        Ok((bytes.into(), permit))
    }
}

impl BodyPermit {
    /// How much fits in.
    pub(super) fn size(&self) -> usize {
        self.held.num_permits()
    }

    /// Gives back what is not needed.
    pub(super) fn shrink(&mut self, size: usize) {
        drop(self.held.split(self.size().saturating_sub(size)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waits<T>(what: impl Future<Output = T>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), what).await.is_err()
    }

    #[tokio::test]
    async fn huge_requests_wait_for_each_other_only() {
        let memory = BodyMemory::default();
        let mut huge = memory.permit(100 << 20).await.unwrap();
        assert!(waits(memory.permit(100 << 20)).await);
        let mut ordinary = Vec::new();
        for _ in 0..8 {
            ordinary.push(memory.permit(ORDINARY).await.unwrap());
        }
        assert!(waits(memory.permit(1)).await, "they are bounded too");
        ordinary[0].shrink(1 << 20);
        let mut small = memory.permit(15 << 20).await.unwrap();
        assert!(waits(memory.grow(&mut small)).await);
        assert_eq!(small.size(), 15 << 20, "it keeps its place meanwhile");
        huge.shrink(0);
        memory.grow(&mut small).await.unwrap();
        assert_eq!(small.size(), LONGEST);
        drop(small);
        memory.permit(15 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_without_memory_is_refused_in_time() {
        let memory = BodyMemory::default();
        let _all = memory.permit(LONGEST).await.unwrap();
        let refused = memory.take(LONGEST, Deadline::after(Duration::ZERO)).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
