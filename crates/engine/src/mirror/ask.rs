//! What commands want of a mirror: to catch up, and to know how far it is behind.

use std::time::Duration;

use super::catch_up::RunMirror;
use super::error::MirrorError;
use super::report::{CaughtUp, MirrorReport, MirrorStanding};
use git::Repo;
use git::record::run_contexts;
use os::deadline::within;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::RunId;

/// How often a connection that was closed, or shared with somebody else, is begun anew.
const TRIES: usize = 3;

/// Brings the contexts of a run that nobody works on up to its records, and tells how far it has come; with it why the server
/// does not take the types of turns, if it does not.
pub async fn mirror_run(
    repo: &Repo,
    run: &RunId,
    address: &MirrorAddress,
    mut copied: impl FnMut(CaughtUp) + Send,
) -> Result<(CaughtUp, Option<MirrorError>), MirrorError> {
    let mut mirror = RunMirror::new(repo.clone(), run.clone(), address.clone()).comparing_all();
    let contexts = run_contexts(repo, run)?.into_iter().collect();
    let mut total = CaughtUp::default();
    let mut count = |batch: CaughtUp| {
        total.records += batch.records;
        total.turns += batch.turns;
        copied(total);
    };
    let mut caught_up = Ok(());
    for _ in 0..TRIES {
        caught_up = mirror.catch_up(&contexts, &mut count).await;
        if !matches!(caught_up, Err(MirrorError::Closed | MirrorError::Disturbed)) {
            break;
        }
    }
    mirror.close().await;
    caught_up?;
    Ok((total, mirror.types_problem(true).await))
}

/// How many records of runs a mirror lacks, all together, as far as it says so within a time.
pub async fn report(repo: &Repo, runs: &[RunId], address: &MirrorAddress, patience: Duration) -> MirrorReport {
    let all = async {
        let (mut behind, mut connection) = (0, None);
        for run in runs {
            let mut mirror = RunMirror::new(repo.clone(), run.clone(), address.clone()).over(connection);
            behind += mirror.behind().await?;
            connection = mirror.take_connection();
        }
        Ok(MirrorStanding { behind })
    };
    let asked: Result<_, MirrorError> = within(patience, all).await.unwrap_or(Err(MirrorError::Slow(patience)));
    let (standing, error) = match asked {
        Ok(standing) => (Some(standing), None),
        Err(error) => (None, Some(error.to_string())),
    };
    MirrorReport { server: address.server(), standing, error }
}
