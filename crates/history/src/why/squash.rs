//! Runs somebody has made one commit of: by the sessions the commit names, or by a file that is the run's, byte for byte.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use git::BlobId;
use git::record::work_commits;
use jiff::{Timestamp, ToSpan as _};
use pleach_core::ids::{CommitId, ContextId, RepoPath, SessionId};

use super::document::{Evidence, Via};
use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::KnownCommit;
use super::work_source::{WorkSource, whole};

/// How many runs are compared with a commit that names none, and how many days they are older at most.
const RUNS: usize = 200;
const DAYS: i64 = 30;

/// A run, by its newest commit.
#[derive(Debug)]
struct RunTip {
    session: SessionId,
    context: ContextId,
    work: CommitId,
    at: Timestamp,
}

/// The runs that may have been squashed, read when the first is asked for.
#[derive(Debug, Default)]
pub struct Squashes {
    tips: OnceCell<Vec<RunTip>>,
    blobs: RefCell<HashMap<(CommitId, RepoPath), Option<BlobId>>>,
}

impl Squashes {
    /// The work of a session that a commit names. Of its runs the one that has the file counts, or else the first.
    pub fn named(
        &self,
        ground: &WhyGround,
        session: &SessionId,
        commit: CommitId,
        path: &RepoPath,
    ) -> Result<Option<WorkSource>, WhyError> {
        let blob = self.blob(ground, commit, path)?;
        let mut found = None;
        for context in ground.runs_of(session)? {
            let Some((tip, base)) = ground.context(session, &context).and_then(|run| whole(ground, &run)) else {
                continue;
            };
            let source = WorkSource { tip, base, via: Via::Squash, evidence: Evidence::Message };
            if ground.has(tip) && self.blob(ground, tip, path)? == blob {
                return Ok(Some(source));
            }
            found = found.or(Some(source));
        }
        if found.is_none() {
            // So that what is missing is said.
            ground.session(session);
        }
        Ok(found)
    }

    /// The only run whose newest files have this one as a commit has it, and whose first files had another.
    pub fn alike(
        &self,
        ground: &WhyGround,
        known: &KnownCommit,
        path: &RepoPath,
    ) -> Result<Option<WorkSource>, WhyError> {
        let tips = self.tips(ground)?;
        let at = known.commit.at;
        let Ok(since) = at.checked_sub((DAYS * 24).hours()) else { return Ok(None) };
        let near = tips.iter().skip_while(|tip| tip.at > at).take_while(|tip| tip.at >= since).take(RUNS);
        let near: Vec<&RunTip> = near.collect();
        let Some(blob) = (if near.is_empty() { None } else { self.blob(ground, known.commit.id, path)? }) else {
            return Ok(None);
        };
        let mut found: Option<WorkSource> = None;
        for run in near {
            if self.blob(ground, run.work, path)? != Some(blob) {
                continue;
            }
            let Some((tip, Some(base))) =
                ground.context(&run.session, &run.context).and_then(|history| whole(ground, &history))
            else {
                continue;
            };
            if !ground.has(base) || self.blob(ground, base, path)? == Some(blob) {
                continue;
            }
            // Two runs that came to the same: which of them it was is not known.
            if found.as_ref().is_some_and(|other| other.tip != tip) {
                return Ok(None);
            }
            found = Some(WorkSource { tip, base: Some(base), via: Via::Squash, evidence: Evidence::Blob });
        }
        Ok(found)
    }

    /// The newest commits of all runs, newest first.
    fn tips(&self, ground: &WhyGround) -> Result<&[RunTip], WhyError> {
        if let Some(known) = self.tips.get() {
            return Ok(known);
        }
        let mut tips = Vec::new();
        for (session, context, record) in ground.newest_records()? {
            let work = if ground.holds_records() {
                work_commits(&ground.records, record).next()
            } else {
                ground.context(&session, &context).and_then(|history| ground.newest_work(&history))
            };
            // A run without commits, or one whose commits were not fetched, was not squashed from here.
            let Some(read) = work.and_then(|work| ground.code.commit(work).ok()) else { continue };
            tips.push(RunTip { session, context, work: read.id, at: read.at });
        }
        tips.sort_by_key(|tip| std::cmp::Reverse(tip.at));
        Ok(self.tips.get_or_init(|| tips))
    }

    fn blob(&self, ground: &WhyGround, commit: CommitId, path: &RepoPath) -> Result<Option<BlobId>, WhyError> {
        let key = (commit, path.clone());
        if let Some(known) = self.blobs.borrow().get(&key) {
            return Ok(*known);
        }
        let blob = ground.code.tree_entry(ground.tree(commit)?, path)?.map(|entry| entry.id);
        self.blobs.borrow_mut().insert(key, blob);
        Ok(blob)
    }
}
