//! The engine, in nine rooms. A room sees only those before it, in the order of `ORDER` in
//! `crates/pleach/tests/it/structure.rs`.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod env;
pub mod keep;
pub mod landing;
pub mod merging;
pub mod push;
pub mod retention;
pub mod session;
pub mod tree;
pub mod trust;
pub mod view;
