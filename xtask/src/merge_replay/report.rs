//! What came of a replay, as tables.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pleach_core::event::ConflictKind;
use pleach_core::merge::Tier;

use super::compare::Likeness;

/// What came of all merges.
#[derive(Debug, Default)]
pub struct Report {
    pub is_shallow: bool,
    pub is_partial: bool,
    pub has_structural: bool,
    pub merges: usize,
    /// Clean, and the result is what was committed.
    pub clean_as_committed: usize,
    /// Clean, and whoever committed it has changed more.
    pub clean_changed: usize,
    /// Without a common ancestor.
    pub refused: usize,
    /// Objects are missing.
    pub incomplete: usize,
    pub conflicting: usize,
    /// Hunks whose resolution was learned.
    pub learned: usize,
    pub tiers: BTreeMap<Tier, TierTally>,
    pub kinds: BTreeMap<ConflictKind, KindTally>,
    /// Clean merges as they were committed that the loss check refuses: false alarms.
    pub alarms_on_clean: usize,
    /// Candidates the loss check refuses, and those of them that are what was committed.
    pub alarms_on_candidates: usize,
    pub alarms_on_matches: usize,
    pub checking: Duration,
}

/// What a tier has done.
#[derive(Debug, Default)]
pub struct TierTally {
    pub spent: Duration,
    pub hunks: usize,
    /// Candidates for which it was the highest that was needed, by their likeness to what was committed.
    pub candidates: [usize; 4],
}

impl TierTally {
    pub fn count(&mut self, likeness: Likeness) {
        self.candidates[likeness as usize] += 1;
    }
}

#[derive(Debug, Default)]
pub struct KindTally {
    pub files: usize,
    pub resolved: usize,
}

impl Report {
    fn by_likeness(&self) -> [usize; 4] {
        let mut sums = [0; 4];
        for tally in self.tiers.values() {
            sums.iter_mut().zip(tally.candidates).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    /// How many conflicting merges reached a candidate.
    pub fn candidates(&self) -> usize {
        self.by_likeness().iter().sum()
    }
}

fn percent(part: usize, whole: usize) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{part} ({share:.1}%)")
}

fn millis(spent: Duration) -> String {
    format!("{:.1}", spent.as_secs_f64() * 1000.0)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_shallow {
            writeln!(f, "The clone is shallow: merges whose common ancestor was cut off cannot be replayed.")?;
        }
        if self.is_partial {
            writeln!(f, "The clone is partial: merges of files that were not fetched cannot be replayed.")?;
        }
        if !self.has_structural {
            writeln!(f, "mergiraf is not installed: nothing is merged by structure.")?;
        }
        writeln!(f, "\n| merges | |\n|---|---|")?;
        writeln!(f, "| of two commits | {} |", self.merges)?;
        writeln!(f, "| clean, as committed | {} |", percent(self.clean_as_committed, self.merges))?;
        writeln!(f, "| clean, changed in the commit | {} |", percent(self.clean_changed, self.merges))?;
        writeln!(f, "| without a common ancestor | {} |", percent(self.refused, self.merges))?;
        writeln!(f, "| objects missing | {} |", percent(self.incomplete, self.merges))?;
        writeln!(f, "| conflicting | {} |", percent(self.conflicting, self.merges))?;
        let candidates = self.candidates();
        let [exact, spaces, lines, differs] = self.by_likeness();
        writeln!(f, "\n| conflicting merges | |\n|---|---|")?;
        writeln!(f, "| reached a candidate | {} |", percent(candidates, self.conflicting))?;
        writeln!(f, "| equal to the commit | {} |", percent(exact, candidates))?;
        writeln!(f, "| equal without white space | {} |", percent(exact + spaces, candidates))?;
        writeln!(f, "| equal as a set of lines | {} |", percent(exact + spaces + lines, candidates))?;
        writeln!(f, "| different | {} |", percent(differs, candidates))?;
        writeln!(f, "\n| tier | hunks | candidates | exact | spaces | lines | different | ms | ms per merge |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for (tier, tally) in &self.tiers {
            let [exact, spaces, lines, differs] = tally.candidates;
            let sum = exact + spaces + lines + differs;
            let tried = if *tier == Tier::Clean { self.merges } else { self.conflicting };
            let each = tally.spent / u32::try_from(tried).unwrap_or(u32::MAX).max(1);
            let (all, each) = (millis(tally.spent), format!("{:.3}", each.as_secs_f64() * 1000.0));
            writeln!(
                f,
                "| {tier} | {} | {sum} | {exact} | {spaces} | {lines} | {differs} | {all} | {each} |",
                tally.hunks
            )?;
        }
        writeln!(f, "\n| kind | files | resolved |\n|---|---|---|")?;
        for (kind, tally) in &self.kinds {
            writeln!(f, "| {kind} | {} | {} |", tally.files, percent(tally.resolved, tally.files))?;
        }
        writeln!(
            f,
            "\nHunks learned: {}. Loss check ({} ms): {} clean merges as committed refused, {} candidates, {} of them as committed.",
            self.learned,
            millis(self.checking),
            self.alarms_on_clean,
            self.alarms_on_candidates,
            self.alarms_on_matches
        )
    }
}
