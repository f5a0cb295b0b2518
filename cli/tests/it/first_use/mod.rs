//! What a first user relies on, a promise each: tests are named after its number.
//!
//! 1–3 no work is lost · 4–6 what the next node is told · 7–14 what a pipeline promises · 15–19 task trees ·
//! 20–26 the first minutes, messages, the terminal · 27–31 large repositories and long runs.

mod asked;
mod gates;
mod handover;
mod large;
mod lint;
mod lost_work;
mod minutes;
mod promises;
mod terminal;
mod trees;
mod week;
