//! Caches the steps read from a target's history in a file below the git directory. It may be deleted at any time, and
//! a file that is damaged, of another version or of another branch is ignored: the commits are the truth.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step_scan::{Runs, ScanScope, StepScan};
use pleach_core::ids::{BranchName, CommitId};
use pleach_core::progress::{BranchNaming, CandidateStep, StepCommit, print};

/// Changes with the layout, or with what is read from commits.
const VERSION: &[u8] = b"pleach steps 7\n";

/// The content of the file, between its version and its checksum.
#[derive(Debug, Serialize, Deserialize)]
struct CachedSteps {
    target: BranchName,
    tip: CommitId,
    scope: ScanScope,
    runs: Runs,
    /// The sets of runs that steps belong to, which only differ at run starts and merges.
    sets: Vec<Runs>,
    steps: Vec<KeptStep>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptStep {
    /// The index of its set.
    runs: usize,
    form: BranchNaming,
    in_scope: bool,
    found: Arc<StepCommit>,
}

impl CachedSteps {
    fn of(target: &BranchName, scan: &StepScan) -> Self {
        let mut sets: Vec<Runs> = Vec::new();
        let mut steps = Vec::with_capacity(scan.steps.len());
        for seen in &scan.steps {
            if sets.last() != Some(&seen.runs) {
                sets.push(Arc::clone(&seen.runs));
            }
            let (form, in_scope, found) = (seen.form, seen.in_scope, Arc::clone(&seen.found));
            steps.push(KeptStep { runs: sets.len() - 1, form, in_scope, found });
        }
        Self { target: target.clone(), tip: scan.tip, scope: scan.scope, runs: Arc::clone(&scan.runs), sets, steps }
    }

    /// `None` if a step belongs to a missing set.
    fn scan(self) -> Option<StepScan> {
        let Self { tip, scope, runs, sets, steps, .. } = self;
        let seen = |KeptStep { runs, form, in_scope, found }| {
            Some(CandidateStep { runs: Arc::clone(sets.get(runs)?), form, in_scope, found })
        };
        Some(StepScan { tip, steps: steps.into_iter().map(seen).collect::<Option<_>>()?, runs, scope, cut: None })
    }
}

/// The cached scan of a target; `None` if it is unusable.
pub fn load(common_dir: &Path, target: &BranchName) -> Option<StepScan> {
    let bytes = std::fs::read(path(common_dir, target)).ok()?;
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    if checksum(content).to_le_bytes() != sum {
        return None;
    }
    read(content.strip_prefix(VERSION)?).filter(|kept| kept.target == *target)?.scan()
}

fn read(bytes: &[u8]) -> Option<CachedSteps> {
    let (kept, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(kept)
}

/// Caches the scan of a target. A full or read-only disk costs time, never a result.
pub fn save(common_dir: &Path, target: &BranchName, scan: &StepScan) {
    let Ok(mut bytes) = postcard::to_extend(&CachedSteps::of(target, scan), VERSION.to_vec()) else { return };
    bytes.extend(checksum(&bytes).to_le_bytes());
    let path = path(common_dir, target);
    let beside = path.with_extension(format!("{}", std::process::id()));
    let written = std::fs::create_dir_all(path.with_file_name("")).and_then(|()| std::fs::write(&beside, &bytes));
    if written.and_then(|()| std::fs::rename(&beside, &path)).is_err() {
        // The cache is optional.
        let _ = std::fs::remove_file(&beside);
    }
}

/// Named by a hash of the branch, whose name may be too long for a file.
fn path(common_dir: &Path, target: &BranchName) -> PathBuf {
    common_dir.join("pleach/cache").join(format!("steps-{:016x}", print(target.as_str().as_bytes(), 0, 0)))
}

/// Detects files that were truncated or never reached the disk.
fn checksum(bytes: &[u8]) -> u64 {
    print(bytes, 0, 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use pleach_core::progress::StepPlace;
    use pleach_core::step::{Counts, Step, StepKind, TestFacts, TestKind};

    fn commit(byte: u8) -> CommitId {
        CommitId::from_bytes([byte; 20])
    }

    fn seen(byte: u8, step: Step, runs: &[u8]) -> CandidateStep {
        let at = Timestamp::from_second(-1 + i64::from(byte)).unwrap();
        let body = "\u{e4}\n".repeat(byte.into());
        let beside = (byte == 3).then(|| "T1".parse().unwrap()).into_iter().collect();
        let print = u64::MAX - u64::from(byte);
        let found = StepCommit { commit: commit(byte), at, step, body, on: StepPlace::Target, print, beside };
        let runs = Arc::new(runs.iter().map(|byte| commit(*byte)).collect());
        let form = [BranchNaming::Branch, BranchNaming::ShortId, BranchNaming::Nothing][usize::from(byte % 3)];
        CandidateStep { found: Arc::new(found), runs, form, in_scope: byte.is_multiple_of(2) }
    }

    fn scan() -> StepScan {
        let counts = Some(Counts { passed: u64::MAX, failed: 0, skipped: 128 });
        let facts = TestFacts { kind: TestKind::E2e, counts, runtime: Some(Duration::new(7, 999_999_999)), log: None };
        let untold = TestFacts { runtime: None, counts: None, ..facts.clone() };
        let task = || "T1".parse().ok();
        let full = Step {
            retry: Some(u32::MAX),
            test: Some(TestFacts { log: Some("l".into()), ..facts.clone() }),
            review_log: Some("r".into()),
            report: Some(String::new()),
            skipped: true,
            untested: true,
            session: "abcdefgh".parse().ok(),
            tree: Some("t.json".into()),
            name: Some("N \"q\"".into()),
            extra: vec![("Arborist-X".into(), "y".into()), (String::new(), String::new())],
            ..Step::new(task(), StepKind::Complete, true)
        };
        let steps = vec![
            seen(1, Step::run_start("t.json"), &[]),
            seen(2, full, &[1]),
            seen(3, Step { test: Some(facts.clone()), ..Step::new(task(), StepKind::Test, false) }, &[1]),
            seen(5, Step { test: Some(untold), ..Step::new(task(), StepKind::Test, false) }, &[1]),
            seen(4, Step::new(task(), StepKind::Custom("lint".parse().unwrap()), false), &[]),
            seen(200, Step::new(task(), StepKind::Reset, true), &[1, 9]),
        ];
        StepScan {
            tip: commit(9),
            steps,
            runs: Arc::new([commit(1)].into()),
            scope: ScanScope::After(commit(5)),
            cut: None,
        }
    }

    #[test]
    fn what_is_kept_is_what_was_known() {
        let dir = tempfile::tempdir().unwrap();
        let main = BranchName::new("main").unwrap();
        assert_eq!(load(dir.path(), &main), None);
        for scope in [ScanScope::After(commit(5)), ScanScope::All, ScanScope::Unneeded] {
            let scan = StepScan { scope, ..scan() };
            save(dir.path(), &main, &scan);
            assert_eq!(load(dir.path(), &main), Some(scan));
        }
        assert_eq!(std::fs::read_dir(dir.path().join("pleach/cache")).unwrap().count(), 1);
        // Another branch's file under this one's name is not used.
        let other = BranchName::new("other").unwrap();
        std::fs::copy(path(dir.path(), &main), path(dir.path(), &other)).unwrap();
        assert_eq!(load(dir.path(), &other), None);
    }

    #[test]
    fn what_cannot_be_kept_is_not_missed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pleach"), "in the way").unwrap();
        let main = BranchName::new("main").unwrap();
        save(dir.path(), &main, &scan());
        assert_eq!(load(dir.path(), &main), None);
    }

    #[test]
    fn half_a_file_is_none() {
        let main = BranchName::new("main").unwrap();
        let bytes = postcard::to_extend(&CachedSteps::of(&main, &scan()), Vec::new()).unwrap();
        for length in 0..bytes.len() {
            // Without its checksum, so that the parser itself has to notice.
            assert!(read(&bytes[..length]).is_none(), "{length}");
        }
        assert_eq!(read(&bytes).and_then(CachedSteps::scan), Some(scan()));
        let strays = CachedSteps { sets: Vec::new(), ..CachedSteps::of(&main, &scan()) };
        assert_eq!(strays.scan(), None, "steps of runs that are not there");
    }
}
