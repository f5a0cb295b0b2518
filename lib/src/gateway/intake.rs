//! Taking requests in: all that an agent has on their way are held in a bounded part of memory, and one that does not come
//! is not waited for for ever.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The longest request that is taken in, packed or not; a packed one together with what it holds.
pub(super) const LONGEST: usize = 128 << 20;

/// Requests up to here have a room of their own, so that a few huge ones hold nobody up.
pub(super) const ORDINARY: usize = 16 << 20;

/// How much there is in each of the two rooms.
const ROOM: usize = LONGEST;

/// How long a request may take to come whole, waiting for room included. It comes from this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a request is not taken in.
#[derive(Debug)]
pub(super) struct IntakeError {
    /// What that is in the protocol.
    pub status: StatusCode,
    /// In words.
    pub why: String,
}

impl IntakeError {
    /// Whether somebody waits for an answer. A request that does not come to its end has asked nothing.
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

/// Where requests are held.
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

/// The place of a request. Dropped, it is free for others.
#[derive(Debug)]
pub(super) struct BodyPermit {
    held: OwnedSemaphorePermit,
    until: Instant,
}

impl BodyMemory {
    /// A place for so many bytes, when it is this one's turn.
    async fn permit(&self, size: usize) -> Result<BodyPermit, IntakeError> {
        let until = Instant::now() + PATIENCE;
        Ok(BodyPermit { held: self.take(size, until).await?, until })
    }

    async fn take(&self, size: usize, until: Instant) -> Result<OwnedSemaphorePermit, IntakeError> {
        let memory = if size <= ORDINARY { &self.ordinary } else { &self.large };
        let bytes = u32::try_from(size).map_err(|_| IntakeError::too_long())?;
        match timeout_at(until, Arc::clone(memory).acquire_many_owned(bytes)).await {
            Ok(Ok(held)) => Ok(held),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(IntakeError::no_room()),
        }
    }

    /// Moves a request that turns out to be no ordinary one. What it held is free when it has its new place, which is of
    /// the greatest size: nobody in there waits for more.
    pub(super) async fn move_on(&self, permit: &mut BodyPermit) -> Result<(), IntakeError> {
        permit.held = self.take(LONGEST, permit.until).await?;
        Ok(())
    }

    /// Takes a body in, with its place.
    pub(super) async fn take_in(
        &self,
        mut body: Incoming,
        is_compressed: bool,
    ) -> Result<(Bytes, BodyPermit), IntakeError> {
        // Whoever does not say how long a body is, or what comes out of it, gets what ordinary ones take at most.
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
            let frame = match timeout_at(permit.until, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(IntakeError { status: StatusCode::BAD_REQUEST, why: error.to_string() });
                }
                Ok(None) => break,
                Err(_) => return Err(IntakeError::late()),
            };
            let Some(piece) = frame.data_ref() else { continue };
            let length = bytes.len() + piece.len();
            if length > LONGEST {
                return Err(IntakeError::too_long());
            }
            if length > permit.size() {
                self.move_on(&mut permit).await?;
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
    async fn huge_requests_wait_for_each_other_and_hold_up_no_others() {
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
        assert!(waits(memory.move_on(&mut small)).await);
        assert_eq!(small.size(), 15 << 20, "it keeps its place meanwhile");
        huge.shrink(0);
        memory.move_on(&mut small).await.unwrap();
        assert_eq!(small.size(), LONGEST);
        drop(small);
        memory.permit(15 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let memory = BodyMemory::default();
        let _all = memory.permit(LONGEST).await.unwrap();
        let refused = memory.take(LONGEST, Instant::now()).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
