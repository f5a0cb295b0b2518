//! Task trees through the built program: steps, attempts, landing, phases, gates.

pub mod garden;

mod attempts;
mod built_in;
mod by_hand;
mod clones;
mod commands;
mod damaged;
mod environment;
mod gathered;
mod going_on;
mod landing;
mod order;
mod output;
mod phases;
mod pipelines;
mod places;
mod questions;
mod read_only;
mod replanned;
mod repositories;
mod said;
mod secrets;
mod steps;
mod tests;
mod two_trees;
