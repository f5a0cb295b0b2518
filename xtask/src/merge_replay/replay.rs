//! Every merge once more: by git, then tier by tier, each compared with what was committed.

use std::error::Error;
use std::time::Instant;

use engine::merging::{TierOptions, learn_resolutions, resolve_conflict};
use git::{Conflict, MergeCheckError, MergeError, Repo, TreeId, check_merge_result};
use pleach_core::merge::{LossExemptions, ResolutionSource, Tier};

use super::borrowed::{BorrowedRepo, MergeCommit};
use super::compare::{Likeness, compare};
use super::report::Report;

/// Replays the merges. What people have chosen in one is known in the next.
pub fn replay(borrowed: &BorrowedRepo, limit: Option<usize>, options: TierOptions) -> Result<Report, Box<dyn Error>> {
    let mut replay = Replay {
        repo: &borrowed.repo,
        report: Report {
            is_shallow: borrowed.is_shallow,
            is_partial: borrowed.is_partial,
            has_structural: options.structural.is_some(),
            ..Report::default()
        },
        options,
    };
    for merge in borrowed.merges(limit)? {
        replay.report.merges += 1;
        match replay.one(&merge) {
            Ok(()) => {}
            // What a shallow or partial clone lacks.
            Err(error) if error.is_damage() => replay.report.incomplete += 1,
            Err(git::Error::Program { stderr, .. }) if stderr.contains("unrelated histories") => {
                replay.report.refused += 1
            }
            Err(git::Error::Program { .. }) if borrowed.is_partial || borrowed.is_shallow => {
                replay.report.incomplete += 1
            }
            Err(error) => return Err(format!("{}: {error}", merge.id).into()),
        }
    }
    Ok(replay.report)
}

struct Replay<'a> {
    repo: &'a Repo,
    options: TierOptions,
    report: Report,
}

/// The trees of a merge.
struct MergeTrees {
    base: Option<TreeId>,
    ours: TreeId,
    theirs: TreeId,
    committed: TreeId,
}

impl Replay<'_> {
    fn one(&mut self, merge: &MergeCommit) -> Result<(), git::Error> {
        let trees = MergeTrees {
            base: git::merge::merge_base_tree(self.repo, merge.ours, merge.theirs)?,
            ours: self.repo.tree_of(merge.ours)?,
            theirs: self.repo.tree_of(merge.theirs)?,
            committed: self.repo.tree_of(merge.id)?,
        };
        let begun = Instant::now();
        let merged = git::merge::merge_commits(self.repo, merge.ours, merge.theirs);
        let spent = begun.elapsed();
        match merged {
            Ok(tree) => self.clean(&trees, tree)?,
            Err(MergeError::Conflict(conflict)) => self.conflicting(merge, &trees, &conflict)?,
            Err(MergeError::Git(error)) => return Err(error),
        }
        self.report.tiers.entry(Tier::Clean).or_default().spent += spent;
        Ok(())
    }

    fn clean(&mut self, trees: &MergeTrees, tree: TreeId) -> Result<(), git::Error> {
        let alarms = self.alarms(trees, tree, &LossExemptions::default())?;
        if tree == trees.committed {
            self.report.clean_as_committed += 1;
            self.report.alarms_on_clean += alarms;
        } else {
            self.report.clean_changed += 1;
        }
        Ok(())
    }

    fn conflicting(&mut self, merge: &MergeCommit, trees: &MergeTrees, conflict: &Conflict) -> Result<(), git::Error> {
        let base = trees.base.unwrap_or(trees.ours);
        let result = resolve_conflict(self.repo, base, trees.ours, trees.theirs, conflict, &self.options);
        let result = result.map_err(|error| match error {
            git::workspace::Error::Git(error) => error,
            other => git::Error::Library { doing: "merge by structure".into(), detail: other.to_string() },
        })?;
        self.report.conflicting += 1;
        for (tier, spent) in &result.spent {
            self.report.tiers.entry(*tier).or_default().spent += *spent;
        }
        for hunk in &result.resolved {
            self.report.tiers.entry(hunk.source).or_default().hunks += 1;
        }
        for file in &conflict.files {
            let kind = self.report.kinds.entry(file.kind).or_default();
            kind.files += 1;
            kind.resolved += usize::from(!result.remaining.contains(file));
        }
        if result.remaining.is_empty() {
            let likeness = compare(self.repo, result.tree, trees.committed, &self.options.derived)?;
            self.report.tiers.entry(result.tier).or_default().count(likeness);
            let derived = self.options.derived.clone();
            let exemptions = LossExemptions { resolved: result.resolved, derived, ..LossExemptions::default() };
            let alarms = self.alarms(trees, result.tree, &exemptions)?;
            self.report.alarms_on_candidates += alarms;
            self.report.alarms_on_matches += if likeness == Likeness::Exact { alarms } else { 0 };
        }
        let at = self.repo.commit(merge.id)?.at;
        let source = ResolutionSource { tier: Tier::Person, by: "the merge commit".into(), commit: Some(merge.id), at };
        for learned in learn_resolutions(self.repo, conflict, trees.committed, &source)? {
            self.report.learned += 1;
            if let Some(known) = &mut self.options.resolutions {
                known.remember(learned);
            }
        }
        Ok(())
    }

    /// 1 if the loss check finds something.
    fn alarms(&mut self, trees: &MergeTrees, merged: TreeId, exemptions: &LossExemptions) -> Result<usize, git::Error> {
        let Some(base) = trees.base else { return Ok(0) };
        let begun = Instant::now();
        let checked = check_merge_result(self.repo, base, trees.ours, trees.theirs, merged, exemptions);
        self.report.checking += begun.elapsed();
        match checked {
            Ok(_) => Ok(0),
            Err(MergeCheckError::Loss(_)) => Ok(1),
            Err(MergeCheckError::Git(error)) => Err(error),
        }
    }
}
