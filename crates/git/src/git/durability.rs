//! Whether writes are forced to disk.

/// Whether writes are forced to disk before they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Objects, refs and their directories survive a power cut.
    Fsync,
    /// What git itself does: they survive a killed process.
    None,
}
