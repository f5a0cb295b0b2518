//! Who does the work: model providers, the gateway between programs and them, and agents of every kind.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod agent;
pub mod gateway;
pub mod llm;
