//! Task trees through the built program: steps, attempts, landing, phases, gates.

pub mod garden;

mod attempts;
mod built_in;
mod clones;
mod commands;
mod damaged;
mod environment;
mod failure_output;
mod foreign_commits;
mod jobs;
mod jobs_crash;
mod jobs_ends;
mod jobs_queue;
mod jobs_requeued;
mod landing;
mod order;
mod output;
mod phase_branches;
mod phases;
mod pipelines;
mod places;
mod printed_commands;
mod questions;
mod read_only;
mod replanned;
mod repositories;
mod secrets;
mod several_repos;
mod steps;
mod tests;
mod two_trees;
