//! The work of a node, by kind. Workers scan and write objects; refs, records and the folded state belong to the loop.

pub(super) mod agent;
mod cancel;
mod collected;
pub(super) mod command;
mod derived;
pub(super) mod dispatch;
mod human;
mod join;
mod report;
mod run_tests;
mod simulation;
mod step;
mod worker;

pub(super) use report::{
    Effect, HumanEffect, JoinReport, NodeFinished, Stopped, ToolEffect, TurnAnswer, TurnReport, WorkerReport,
    output_message,
};
pub(super) use worker::{Worker, undo_writes};
