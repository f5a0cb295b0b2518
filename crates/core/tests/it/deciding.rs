//! Deciding, played without a repository: events are folded, `route` says what comes next, a script plays the handlers.

mod driver;
mod edges;
mod failures;
mod gates;
mod graphs;
mod illegal;
mod loops;
mod properties;
mod retries;
