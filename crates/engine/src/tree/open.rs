//! Opens a run: reads the progress so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::TreeClaim;
use super::pending_trust::{Approved, PendingTrust};
use super::plan::TreePlan;
use super::progress::ProgressReader;
use super::queue_work::QueueWork;
use super::run::{TreeRun, target_tip};
use super::run_state::RunState;
use super::task_slots::TaskSlots;
use super::unfinished::bring_branches;
use super::{Error, approvals, earlier_runs};
use crate::env::Engine;
use crate::session::refuse_clash;
use git::Repo;
use git::workspace::{phase_branches, task_branches};

/// Reads the progress so far of what was claimed. Also returns what needs approval besides the plan: records and
/// branches can be fetched, so what they would run has to be approved before the run starts.
pub fn open(
    engine: Arc<Engine>,
    repo: Repo,
    plan: Arc<TreePlan>,
    claim: TreeClaim,
) -> Result<(TreeRun, PendingTrust), Error> {
    for branches in [task_branches, phase_branches] {
        refuse_clash(&repo, &branches(&plan.branch_prefix, &plan.target))?;
    }
    bring_branches(&repo, &plan.target)?;
    let mut reader = ProgressReader::new(&repo, &plan.target, &plan.branch_prefix, plan.base_branch.as_ref());
    let slots = TaskSlots::open(&engine, &repo, &plan).map_err(Error::from)?;
    let seen = target_tip(&repo, &plan.target)?;
    let others = plan.others()?;
    let progress = plan.beside_others(plan.progress(&mut reader)?, &others);
    let state = RunState {
        reader,
        slots,
        gated: BTreeMap::new(),
        chosen: plan.limits.only.clone(),
        done: BTreeMap::new(),
        unfinished: BTreeMap::new(),
        approved: Approved::default(),
        lost: BTreeMap::new(),
        waiting: BTreeSet::new(),
        queue_moves: BTreeSet::new(),
        queue_work: QueueWork::default(),
        queue_news: Arc::default(),
        landing_tests: None,
        opened: false,
        _claim: claim,
    };
    let schedule = state.schedule(&plan, &progress);
    let (done, stamp) = (progress.done(&plan.tree), plan.stamp);
    let mut run = TreeRun {
        engine,
        repo,
        plan,
        state,
        progress,
        others,
        done,
        seen,
        schedule,
        stamp,
        greeted: false,
        document: None,
        spending: None,
    };
    earlier_runs::find_left(&mut run)?;
    let brought = approvals::pending_trust(&mut run)?;
    Ok((run, brought))
}
