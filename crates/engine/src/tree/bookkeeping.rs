//! Lands commits that change no code: the start of a run, decisions about tasks, copied steps. They are their own
//! record.

use super::Error;
use super::run::target_tip;
use git::{LandError, Repo};
use pleach_core::ids::CommitId;
use pleach_core::merge::{self, LandedBranch, LandingAsk, LandingEnd, LandingTarget, LandingWork, TargetState};

/// Moves a branch to the commit `make` builds on its tip, and retries if another process moves the branch first. `None`
/// if there is nothing to build. Blocks.
pub(super) fn land(
    repo: &Repo,
    target: LandingTarget,
    mut make: impl FnMut(CommitId) -> Result<Option<CommitId>, Error>,
) -> Result<Option<LandedBranch>, Error> {
    let branch = target.branch.clone();
    let mut landed = None;
    let mut next = merge::land([(target, LandingWork::Bookkeeping)]);
    loop {
        next = match next {
            LandingAsk::Look(look) => {
                let tip = target_tip(repo, &branch)?;
                look.saw([TargetState::At { tip, base: tip }])
            }
            LandingAsk::Build(build) => match make(build.onto())? {
                Some(commit) => build.built(commit),
                None => return Ok(None),
            },
            LandingAsk::Record(record) => record.recorded(),
            LandingAsk::Move(moving) => {
                match git::land::fast_forward(repo, &branch, moving.step().from, moving.step().to) {
                    Ok(()) => moving.moved(),
                    Err(LandError::Moved { .. }) => moving.target_moved(),
                    Err(error) => return Err(error.into()),
                }
            }
            LandingAsk::Close(close) => {
                landed = close.landed().pop();
                close.closed()
            }
            LandingAsk::End(LandingEnd::Landed) => return Ok(landed),
            LandingAsk::Verify(_) | LandingAsk::Rewind(_) | LandingAsk::End(_) => {
                unreachable!("what changes no code is not tested")
            }
        };
    }
}
