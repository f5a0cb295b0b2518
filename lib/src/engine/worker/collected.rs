//! What is collected on the way to a node's end.

use std::path::Path;

use super::Effect;
use crate::engine::task::StepReport;
use crate::event::Warning;
use crate::process::sandbox::Refusals;
use crate::process::{self, Sandbox};

/// What is collected on the way to a node's end.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) effect: Effect,
    pub(super) warnings: Vec<Warning>,
    pub(super) response: Option<String>,
    /// What the agent's program said beside its response.
    pub(super) stderr: String,
    /// What an agent that was asked once more had said before: its answer, and what its program said beside it.
    pub(super) asked_again: Option<(String, String)>,
    pub(super) step: Option<StepReport>,
    /// The agent's newest turn was its last, and nothing of it runs any more.
    pub(super) is_over: bool,
    /// The agent was told to stop.
    pub(super) is_told: bool,
    /// The agent was told to stop and had not come to its end.
    pub(super) cut_short: bool,
    /// A model has answered the agent.
    pub(super) is_answered: bool,
    /// The agent could not work, for reasons outside of the job.
    pub(super) is_stuck: bool,
    /// What the sandbox kept the work from writing.
    pub(super) refused: Refusals,
}

impl Collected {
    /// Notes what the bounds of an agent refused, as its programs tell it.
    pub(super) fn note_refused<'t>(
        &mut self,
        bounds: Option<&Sandbox>,
        cwd: &Path,
        told: impl IntoIterator<Item = &'t str>,
    ) {
        let Some(bounds) = bounds else { return };
        told.into_iter().for_each(|text| self.refused.extend(process::sandbox::refusals(bounds, text, cwd)));
    }

    /// All an agent's program said beside its answers.
    pub(super) fn all_stderr(&self) -> String {
        let before = self.asked_again.iter().map(|(_, stderr)| stderr);
        let all = before.chain([&self.stderr]).map(|stderr| stderr.trim_end()).filter(|stderr| !stderr.is_empty());
        all.collect::<Vec<_>>().join("\n")
    }
}
