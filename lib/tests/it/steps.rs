//! Step commits: the messages, and what a history of them adds up to.

mod histories;
mod messages;
mod splits;
mod world;
