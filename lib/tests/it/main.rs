//! The library as a user of it sees it, and the shape of this repository.

#![forbid(unsafe_code)]

mod coverage;
mod examples;
mod records_page;
mod repository;
mod structure;
