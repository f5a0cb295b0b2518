//! What ends a run when nothing can be started.

use super::ended::TreeEnded;
use super::run::TreeRun;
use super::{Error, land, refusal_reasons};
use pleach_core::schedule::NextAction;

/// How a run ends by what is next; none if that is something to do.
pub(super) fn ending(run: &mut TreeRun, next: NextAction) -> Result<Option<TreeEnded>, Error> {
    Ok(Some(match next {
        NextAction::Done => run.state.chosen.take().map_or(TreeEnded::Done, TreeEnded::TaskDone),
        NextAction::Failed(task) => {
            let state = run.progress.task(&task);
            let (attempts, reason) = (state.attempts, state.why_failed());
            TreeEnded::Failed { task, attempts, before: true, reason }
        }
        NextAction::Stalled(blocked) => TreeEnded::Stalled(blocked),
        NextAction::GateRed(gate) => land::gate_red(run, gate),
        NextAction::Stranded(stray) => TreeEnded::Refused(refusal_reasons::unsettled(run, stray)?),
        NextAction::OtherTree(taken) => TreeEnded::Refused(refusal_reasons::taken(run, taken)?),
        NextAction::Unreadable(unread) => TreeEnded::Refused(refusal_reasons::unread(run, unread)),
        NextAction::Land(_)
        | NextAction::Gate(_)
        | NextAction::MergePhase(_)
        | NextAction::Work { .. }
        | NextAction::GiveUp { .. } => return Ok(None),
    }))
}
