//! The merge queue, decided: what is in it, in which order it is merged, what is tested together and what lands. Values
//! come in, the next thing to do goes out; nothing here reads, writes or waits.

mod order;
mod prefix;

pub use order::{QueueItem, ordered};
pub use prefix::{PrefixSearch, PrefixStep, batch_size};
