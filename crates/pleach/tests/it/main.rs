//! The shape of this repository: one binary, a module per topic.

#![forbid(unsafe_code)]

mod circles;
mod coverage;
mod records_page;
mod structure;

#[path = "../../../testing/repository.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod repository;
