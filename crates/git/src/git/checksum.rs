//! SHA-1 of arbitrary bytes, with git's detection of collisions.

/// Bytes somebody has made to have the hash of others.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HashCollision(gix::Error);

/// The SHA-1 of some bytes, in hexadecimal. As in git itself, what is made to collide has none.
pub fn checksum(bytes: &[u8]) -> Result<String, HashCollision> {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(bytes);
    Ok(hasher.try_finalize().map_err(HashCollision)?.to_hex().to_string())
}
