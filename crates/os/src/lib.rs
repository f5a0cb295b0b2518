//! The doors to the machine: programs, and files where agents can write.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod confined_fs;
pub mod deadline;
pub mod plain_file;
pub mod process;
