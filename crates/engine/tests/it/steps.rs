//! Step commits: the messages, and what a history of them adds up to.

mod ad_hoc;
mod histories;
mod messages;
mod splits;
mod world;
