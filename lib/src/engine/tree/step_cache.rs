//! What was read of a target's history, kept in a file below the git directory. It may be deleted at any time, and one
//! that is damaged, of another version or of another branch is as good as none: the commits are the truth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::step_scan::{Runs, Scan, Scope};
use crate::ids::{BranchName, CommitId};
use crate::progress::{Form, Found, Place, Seen, print};
use crate::step::{Counts, Step, StepKind, TestFacts};

/// Changes whenever the layout does, or what is taken from commits.
const VERSION: &[u8] = b"pleach steps 6\n";

/// What is known of a target from before; none if there is no use in it.
pub fn load(common_dir: &Path, target: &BranchName) -> Option<Scan> {
    let bytes = std::fs::read(path(common_dir, target)).ok()?;
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    if checksum(content).to_le_bytes() != sum {
        return None;
    }
    let mut source = Source(content.strip_prefix(VERSION)?);
    let scan = (source.text()? == target.as_str()).then(|| source.scan())??;
    source.0.is_empty().then_some(scan)
}

/// Keeps what is known of a target. A disk that is full or may not be written costs time, never a result.
pub fn save(common_dir: &Path, target: &BranchName, scan: &Scan) {
    let mut sink = Sink(VERSION.to_vec());
    sink.text(target.as_str());
    sink.scan(scan);
    sink.0.extend(checksum(&sink.0).to_le_bytes());
    let path = path(common_dir, target);
    let beside = path.with_extension(format!("{}", std::process::id()));
    let written = std::fs::create_dir_all(path.with_file_name("")).and_then(|()| std::fs::write(&beside, &sink.0));
    if written.and_then(|()| std::fs::rename(&beside, &path)).is_err() {
        // Nothing depends on it.
        let _ = std::fs::remove_file(&beside);
    }
}

/// By a hash of the branch's name, which may be longer than a file's.
fn path(common_dir: &Path, target: &BranchName) -> PathBuf {
    common_dir.join("pleach/cache").join(format!("steps-{:016x}", print(target.as_str().as_bytes(), 0, 0)))
}

/// Finds files that were cut off or never reached the disk.
fn checksum(bytes: &[u8]) -> u64 {
    print(bytes, 0, 0)
}

struct Sink(Vec<u8>);

impl Sink {
    fn number(&mut self, number: u64) {
        // Seven bits a byte: nearly all numbers are small.
        let mut rest = number;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    fn maybe<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }

    fn commit(&mut self, commit: CommitId) {
        self.0.extend(commit.as_bytes());
    }

    fn runs(&mut self, runs: &Runs) {
        self.number(runs.len() as u64);
        runs.iter().for_each(|run| self.commit(*run));
    }

    fn scan(&mut self, scan: &Scan) {
        self.commit(scan.tip);
        match scan.scope {
            Scope::Unneeded => self.0.push(0),
            Scope::All => self.0.push(1),
            Scope::After(base) => {
                self.0.push(2);
                self.commit(base);
            }
        }
        self.runs(&scan.runs);
        self.number(scan.steps.len() as u64);
        let mut last: Option<&Runs> = None;
        for seen in &scan.steps {
            // The same from step to step, but for starts of runs and merges.
            let changed = Some(&seen.runs).filter(|runs| last != Some(*runs));
            self.maybe(changed, Self::runs);
            last = Some(&seen.runs);
            let form = match seen.form {
                Form::Branch => 0,
                Form::ShortId => 1,
                Form::Nothing => 2,
            };
            self.0.push(form | u8::from(seen.in_scope) << 2);
            self.found(&seen.found);
        }
    }

    fn found(&mut self, found: &Found) {
        self.commit(found.commit);
        self.0.extend(found.print.to_le_bytes());
        self.0.extend(found.at.as_second().to_le_bytes());
        self.text(&found.body);
        let step = &found.step;
        self.text(step.kind.as_str());
        self.0.push(u8::from(step.passed) | u8::from(step.skipped) << 1 | u8::from(step.untested) << 2);
        self.maybe(step.task.as_ref(), |sink, task| sink.text(task.as_str()));
        self.maybe(step.retry, |sink, retry| sink.number(retry.into()));
        self.maybe(step.session.as_ref(), |sink, session| sink.text(session.as_str()));
        for text in [&step.review_log, &step.report, &step.tree, &step.name] {
            self.maybe(text.as_deref(), Self::text);
        }
        self.maybe(step.test.as_ref(), |sink, test| {
            sink.text(test.kind.as_str());
            sink.maybe(test.runtime, |sink, runtime| {
                sink.number(runtime.as_secs());
                sink.number(runtime.subsec_nanos().into());
            });
            sink.maybe(test.log.as_deref(), Self::text);
            sink.maybe(test.counts, |sink, counts| {
                [counts.passed, counts.failed, counts.skipped].into_iter().for_each(|count| sink.number(count));
            });
        });
        self.number(step.extra.len() as u64);
        for (key, value) in &step.extra {
            self.text(key);
            self.text(value);
        }
        self.number(found.beside.len() as u64);
        found.beside.iter().for_each(|task| self.text(task.as_str()));
    }
}

struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?.try_into().ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn maybe<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.byte()? == 0 { Some(None) } else { take(self).map(Some) }
    }

    fn owned(&mut self) -> Option<String> {
        self.text().map(str::to_owned)
    }

    fn commit(&mut self) -> Option<CommitId> {
        self.bytes().map(CommitId::from_bytes)
    }

    fn runs(&mut self) -> Option<Runs> {
        let count = self.number()?;
        (0..count).map(|_| self.commit()).collect::<Option<BTreeSet<_>>>().map(Arc::new)
    }

    fn scan(&mut self) -> Option<Scan> {
        let tip = self.commit()?;
        let scope = match self.byte()? {
            0 => Scope::Unneeded,
            1 => Scope::All,
            2 => Scope::After(self.commit()?),
            _ => return None,
        };
        let runs = self.runs()?;
        let count = self.number()?;
        let mut steps = Vec::with_capacity(self.0.len() / 200);
        let mut last = Runs::default();
        for _ in 0..count {
            if let Some(changed) = self.maybe(Self::runs)? {
                last = changed;
            }
            let flags = self.byte()?;
            steps.push(Seen {
                runs: Arc::clone(&last),
                form: match flags & 3 {
                    0 => Form::Branch,
                    1 => Form::ShortId,
                    2 => Form::Nothing,
                    _ => return None,
                },
                in_scope: flags & 4 != 0,
                found: Arc::new(self.found()?),
            });
        }
        Some(Scan { tip, steps, runs, scope, cut: None })
    }

    fn found(&mut self) -> Option<Found> {
        let commit = self.commit()?;
        let print = u64::from_le_bytes(self.bytes()?);
        let at = Timestamp::from_second(i64::from_le_bytes(self.bytes()?)).ok()?;
        let body = self.owned()?;
        let kind = StepKind::from_word(self.text()?)?;
        let flags = self.byte()?;
        let step = Step {
            task: self.maybe(|source| source.text()?.parse().ok())?,
            kind,
            passed: flags & 1 != 0,
            skipped: flags & 2 != 0,
            untested: flags & 4 != 0,
            retry: self.maybe(|source| source.number()?.try_into().ok())?,
            session: self.maybe(|source| source.text()?.parse().ok())?,
            review_log: self.maybe(Self::owned)?,
            report: self.maybe(Self::owned)?,
            tree: self.maybe(Self::owned)?,
            name: self.maybe(Self::owned)?,
            test: self.maybe(Self::test)?,
            extra: (0..self.number()?)
                .map(|_| Some((self.owned()?, self.owned()?)))
                .collect::<Option<Vec<(String, String)>>>()?,
        };
        let beside = (0..self.number()?).map(|_| self.text()?.parse().ok()).collect::<Option<_>>()?;
        Some(Found { commit, at, step, body, on: Place::Target, print, beside })
    }

    fn test(&mut self) -> Option<TestFacts> {
        Some(TestFacts {
            kind: self.text()?.parse().ok()?,
            runtime: self.maybe(|source| {
                Duration::from_secs(source.number()?).checked_add(Duration::from_nanos(source.number()?))
            })?,
            log: self.maybe(Self::owned)?,
            counts: self.maybe(|source| {
                Some(Counts { passed: source.number()?, failed: source.number()?, skipped: source.number()? })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::TestKind;

    fn commit(byte: u8) -> CommitId {
        CommitId::from_bytes([byte; 20])
    }

    fn seen(byte: u8, step: Step, runs: &[u8]) -> Seen {
        let at = Timestamp::from_second(-1 + i64::from(byte)).unwrap();
        let body = "\u{e4}\n".repeat(byte.into());
        let beside = (byte == 3).then(|| "T1".parse().unwrap()).into_iter().collect();
        let print = u64::MAX - u64::from(byte);
        let found = Found { commit: commit(byte), at, step, body, on: Place::Target, print, beside };
        let runs = Arc::new(runs.iter().map(|byte| commit(*byte)).collect());
        let form = [Form::Branch, Form::ShortId, Form::Nothing][usize::from(byte % 3)];
        Seen { found: Arc::new(found), runs, form, in_scope: byte.is_multiple_of(2) }
    }

    fn scan() -> Scan {
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
        Scan { tip: commit(9), steps, runs: Arc::new([commit(1)].into()), scope: Scope::After(commit(5)), cut: None }
    }

    #[test]
    fn what_is_kept_is_what_was_known() {
        let dir = tempfile::tempdir().unwrap();
        let main = BranchName::new("main").unwrap();
        assert_eq!(load(dir.path(), &main), None);
        for scope in [Scope::After(commit(5)), Scope::All, Scope::Unneeded] {
            let scan = Scan { scope, ..scan() };
            save(dir.path(), &main, &scan);
            assert_eq!(load(dir.path(), &main), Some(scan));
        }
        assert_eq!(std::fs::read_dir(dir.path().join("pleach/cache")).unwrap().count(), 1);
        // Another branch's file under this one's name is of no use.
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
        let mut sink = Sink(Vec::new());
        sink.scan(&scan());
        for length in 0..sink.0.len() {
            // Without its checksum, so that the reader itself has to notice.
            assert_eq!(Source(&sink.0[..length]).scan(), None, "{length}");
        }
        assert_eq!(Source(&sink.0).scan(), Some(scan()));
    }
}
