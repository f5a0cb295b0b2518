//! Task trees through the built program: steps, attempts, landing, phases, gates.

mod garden;

mod attempts;
mod landing;
mod output;
mod phases;
mod read_only;
mod steps;
mod tests;
