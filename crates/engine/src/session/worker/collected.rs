//! Data collected until a node ends.

use std::path::Path;

use super::{Effect, JoinReport};
use crate::session::task::StepReport;
use os::process::sandbox::Refusals;
use os::process::{self, Sandbox};
use pleach_core::event::Warning;

/// Data collected until a node ends.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) effect: Effect,
    /// The branches that were brought together.
    pub(super) joined: Option<Box<JoinReport>>,
    pub(super) warnings: Vec<Warning>,
    pub(super) response: Option<String>,
    /// The standard error of the agent's program.
    pub(super) stderr: String,
    /// The earlier answer and standard error of an agent that was asked again.
    pub(super) asked_again: Option<(String, String)>,
    pub(super) step: Option<StepReport>,
    /// The agent's newest turn was its last, and nothing of it still runs.
    pub(super) is_over: bool,
    /// The agent was told to stop.
    pub(super) is_told: bool,
    /// The agent was told to stop before it had ended.
    pub(super) cut_short: bool,
    /// A model has answered the agent.
    pub(super) is_answered: bool,
    /// The agent could not work, for reasons outside of the job.
    pub(super) is_stuck: bool,
    /// Writes refused by the sandbox.
    pub(super) refused: Refusals,
}

impl Collected {
    /// Collects the sandbox refusals that an agent's programs report.
    pub(super) fn note_refused<'t>(
        &mut self,
        bounds: Option<&Sandbox>,
        cwd: &Path,
        texts: impl IntoIterator<Item = &'t str>,
    ) {
        let Some(bounds) = bounds else { return };
        texts.into_iter().for_each(|text| self.refused.extend(process::sandbox::refusals(bounds, text, cwd)));
    }

    /// The standard error of all calls of an agent's program.
    pub(super) fn all_stderr(&self) -> String {
        let before = self.asked_again.iter().map(|(_, stderr)| stderr);
        let all = before.chain([&self.stderr]).map(|stderr| stderr.trim_end()).filter(|stderr| !stderr.is_empty());
        all.collect::<Vec<_>>().join("\n")
    }
}
