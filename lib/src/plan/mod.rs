//! From text to a pipeline that may be run. Everything here is pure: no file is read and nothing is spawned.
//!
//! `dot::parse` gives a document with spans, [`pipeline`] the typed graph, [`lint`] what is wrong with it.

pub mod diagnostic;
