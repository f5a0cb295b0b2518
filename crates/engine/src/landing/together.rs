//! Lands a session in all its repositories, or in none: what they come to is merged in each, tested side by side, and
//! then the targets move one after the other, by name.
//!
//! Before the first moves, one record of the session says where all of them go. If the process dies between two
//! repositories, the next one finds that record and moves the rest: to the tested commits, or to new ones where a target
//! has moved on.

use std::sync::Arc;

use super::batch::BatchItem;
use super::candidate::{MergeBuild, UnfitMerge, build};
use super::edited_tests::warn_of_edited_tests;
use super::error::QueueError;
use super::joint_entries::{JointPart, mark, submit_together, unmark};
use super::joint_tests::{JointTest, JointTests, joint_tests};
use super::landing::{self, LandedPrefix, tip_of, update};
use super::results::TestResult;
use super::run::{tell_landed, verdict_of};
use super::settings::QueueSettings;
use super::store::MergeQueue;
use super::vetting::{NO_TEST, emptied, is_doubtful, to_cover, uncovered_words};
use crate::env::{Engine, Locks, SessionRepos};
use crate::merging::conflicted_paths;
use crate::session::JointFiles;
use crate::session::resume::{self, RecordedSession};
use git::Repo;
use git::record::{Batch, Recorder};
use git::workspace::{Lock, branch_ref, queue_lock};
use pleach_core::clock;
use pleach_core::config::UntestedFiles;
use pleach_core::event::{ConflictedPath, Event, Landed, Landing, Recorded};
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoName, SessionId};
use pleach_core::queue::{EntryState, MergeQuestion, QueueEntry, TestVerdict};
use pleach_core::state::State;

/// How often a landing is built again because a target has moved meanwhile.
const TRIES: usize = 10;

/// Its result.
#[derive(Debug)]
pub enum JointOutcome {
    /// All targets have it.
    Landed(Vec<QueueEntry>),
    /// The tests fail on the merged files.
    Red {
        /// How they ended.
        exit: String,
        /// What they printed.
        log: String,
    },
    /// It conflicts with a target, or must not be merged.
    Refused {
        /// The repository.
        repo: RepoName,
        /// Why.
        why: String,
        /// The files in conflict.
        conflicts: Vec<ConflictedPath>,
    },
    /// A checkout blocks a target.
    Held {
        /// The repository.
        repo: RepoName,
        /// Why.
        why: String,
        /// How many of the targets have moved already.
        moved: usize,
    },
    /// It has passed, and waits for a person to approve it.
    Unapproved,
    /// It was stopped.
    Stopped,
}

/// A landing of several repositories.
#[derive(Debug)]
pub struct JointLanding {
    engine: Arc<Engine>,
    repos: SessionRepos,
    session: SessionId,
    settings: QueueSettings,
    parts: Vec<JointPart>,
    id: EntryId,
    _locks: (Locks, Vec<Lock>),
}

/// A part with the state of its queue.
struct PartNow {
    part: JointPart,
    repo: Repo,
    queue: MergeQueue,
    tip: CommitId,
    /// The merge; none if the target has it.
    item: Option<BatchItem>,
}

/// The test results of all parts.
struct JointVerdict {
    verdict: TestVerdict,
    /// The branches of the other repositories as they were tested.
    beside: Vec<(RepoName, BranchName, CommitId)>,
}

/// The files of all repositories: what lands, and what it is tested with.
struct FilesOfAll {
    files: Vec<JointFiles>,
    beside: Vec<(RepoName, BranchName, CommitId)>,
}

impl JointLanding {
    /// Locks the session and the queues of all targets, and queues the parts.
    pub fn open(
        engine: Arc<Engine>,
        repos: SessionRepos,
        session: SessionId,
        parts: Vec<JointPart>,
        settings: QueueSettings,
    ) -> Result<Self, QueueError> {
        let (locks, _) =
            Locks::take(repos.record(), &session)?.with(|| resume::read(repos.record(), &session).map(drop))?;
        let mut queues = Vec::new();
        for part in &parts {
            let what = format!("the merge queue of `{}`", part.target);
            queues.push(Lock::take(repo_of(&repos, part).common_dir(), &queue_lock(&part.target), &what)?);
        }
        let id = submit_together(&repos, &session, &parts, &engine.redactor)?;
        Ok(Self { engine, repos, session, settings, parts, id, _locks: (locks, queues) })
    }

    /// Merges, tests and lands all parts.
    pub async fn land(self) -> Result<JointOutcome, QueueError> {
        let ended = self.work().await;
        if !matches!(ended, Ok(JointOutcome::Landed(_))) {
            let left = tokio::task::block_in_place(|| self.leave());
            return ended.and_then(|outcome| left.map(|()| outcome));
        }
        ended
    }

    async fn work(&self) -> Result<JointOutcome, QueueError> {
        for _ in 0..TRIES {
            if self.engine.cancel.is_stopped() {
                return Ok(JointOutcome::Stopped);
            }
            let mut parts = match tokio::task::block_in_place(|| self.look())? {
                Ok(parts) => parts,
                Err(refused) => return Ok(refused),
            };
            if parts.iter().all(|part| part.item.is_none()) {
                // Wherever the targets are now, nothing is left to test or to move.
                tokio::task::block_in_place(|| self.record_landed())?;
                return Ok(JointOutcome::Landed(Vec::new()));
            }
            let verdict = if self.is_decided(&parts)? {
                JointVerdict { verdict: TestVerdict::Unverified, beside: Vec::new() }
            } else {
                match self.test(&mut parts).await? {
                    Ok(verdict) if self.needs_approval(&parts) => {
                        self.offer(&mut parts, &verdict.verdict)?;
                        return Ok(JointOutcome::Unapproved);
                    }
                    Ok(verdict) => verdict,
                    Err(outcome) => return Ok(outcome),
                }
            };
            if self.engine.cancel.is_stopped() {
                return Ok(JointOutcome::Stopped);
            }
            if let Some(outcome) = tokio::task::block_in_place(|| self.move_all(&mut parts, &verdict))? {
                return Ok(outcome);
            }
        }
        let target = self.parts[0].target.clone();
        Err(QueueError::Contended(target))
    }

    /// Resets the entries for a retry, and drops a landing that has moved nothing.
    fn leave(&self) -> Result<(), QueueError> {
        for part in &self.parts {
            let repo = repo_of(&self.repos, part);
            let mut queue = MergeQueue::read(repo, &part.target)?;
            let is_left =
                |entry: &QueueEntry| entry.together.as_ref() == Some(&self.id) && entry.state == EntryState::Testing;
            let left: Vec<EntryId> = queue.entries().into_iter().filter(is_left).map(|entry| entry.id).collect();
            update(repo, &mut queue, &left, |entry| entry.state = EntryState::Submitted)?;
        }
        let (state, _) = self.recorded()?;
        for landing in state.landing.iter().filter(|landing| landing.from != landing.to) {
            let Some(repo) = self.repos.get(&landing.repo) else { continue };
            let tip = repo.refs().find(&branch_ref(&landing.target))?;
            if tip.map_or(Ok(false), |tip| repo.history().is_ancestor(landing.to, tip))? {
                return Ok(());
            }
        }
        unmark(self.repos.record(), &self.session);
        Ok(())
    }

    /// Whether a person has to agree first.
    fn needs_approval(&self, parts: &[PartNow]) -> bool {
        let mut items = parts.iter().filter_map(|part| part.item.as_ref());
        !self.settings.auto_merge_clean && items.any(|item| !item.entry.approved)
    }

    /// Records in the entries what would land, for approval.
    fn offer(&self, parts: &mut [PartNow], verdict: &TestVerdict) -> Result<(), QueueError> {
        for part in parts {
            let Some(BatchItem { entry, built, .. }) = part.item.clone() else { continue };
            self.set(part, &entry.id, |entry| {
                built.show_in(entry);
                entry.verdict = Some(verdict.clone());
                entry.state = EntryState::Candidate;
                entry.why = Some("it waits for approval".to_owned());
            })?;
        }
        Ok(())
    }

    /// Merges the parts onto their targets.
    fn look(&self) -> Result<Result<Vec<PartNow>, JointOutcome>, QueueError> {
        let mut options = self.settings.merge_options();
        options.tests = self.settings.joint_tests();
        let mut parts = Vec::new();
        for part in &self.parts {
            let repo = repo_of(&self.repos, part).clone();
            let tip = tip_of(&repo, &part.target)?;
            let mut queue = MergeQueue::read(&repo, &part.target)?;
            for entry in landing::settle(&repo, &mut queue, tip)? {
                tell_landed(&self.engine, &entry);
            }
            let entry = queue.entries().into_iter().find(|entry| entry.together.as_ref() == Some(&self.id));
            let mut now = PartNow { part: part.clone(), repo, queue, tip, item: None };
            if let Some(entry) = entry {
                let (UnfitMerge { why, question }, conflicts) = match build(&now.repo, &entry, tip, &options)? {
                    MergeBuild::Built(built) => {
                        now.item = Some(BatchItem { entry, built, why: None });
                        parts.push(now);
                        continue;
                    }
                    MergeBuild::Present => {
                        parts.push(now);
                        continue;
                    }
                    MergeBuild::Conflict(left) => (left.rest().to_string().into(), conflicted_paths(&left.rest())),
                    MergeBuild::Derive(_) => {
                        let why = "files that commands make are in conflict; make them on the session's branch";
                        (why.to_owned().into(), Vec::new())
                    }
                    MergeBuild::Unfit(unfit) => (unfit, Vec::new()),
                };
                return self.refuse(&mut now, &entry.id, why, question, conflicts).map(Err);
            }
            parts.push(now);
        }
        Ok(Ok(parts))
    }

    /// Hands a part to a person.
    fn refuse(
        &self,
        part: &mut PartNow,
        id: &EntryId,
        why: String,
        question: Option<MergeQuestion>,
        conflicts: Vec<ConflictedPath>,
    ) -> Result<JointOutcome, QueueError> {
        let item = part.item.clone();
        self.set(part, id, |entry| {
            item.iter().for_each(|item| item.built.show_in(entry));
            entry.state = EntryState::Escalated;
            entry.why = Some(why.clone());
            entry.question = question;
            entry.conflicts.clone_from(&conflicts);
        })?;
        Ok(JointOutcome::Refused { repo: part.part.name.clone(), why, conflicts })
    }

    /// Whether this landing was tested and decided by a process killed while it moved the targets.
    fn is_decided(&self, parts: &[PartNow]) -> Result<bool, QueueError> {
        let (state, _) = self.recorded()?;
        let has_moved = parts.iter().any(|part| part.item.is_none());
        // Moved targets are exactly where they were to go, and the others have not moved.
        let is_recorded = |part: &PartNow| {
            let of_part = |landing: &&Landing| landing.repo == part.part.name && landing.target == part.part.target;
            state.landing.iter().find(of_part).is_some_and(|landing| match &part.item {
                Some(item) => (landing.from, landing.to) == (part.tip, item.built.commit),
                None => landing.to == part.tip,
            })
        };
        Ok(has_moved && parts.iter().all(is_recorded))
    }

    /// Tests the merges of all parts, side by side.
    async fn test(&self, parts: &mut [PartNow]) -> Result<Result<JointVerdict, JointOutcome>, QueueError> {
        let tests = joint_tests(&self.settings, parts.iter().filter_map(|part| part.item.as_ref()));
        if let Some(refused) = self.vet(parts, &tests).await? {
            return Ok(Err(refused));
        }
        if tests.is_empty() {
            return Ok(Ok(JointVerdict { verdict: TestVerdict::Unverified, beside: Vec::new() }));
        }
        self.set_all(parts, |entry| entry.state = EntryState::Testing)?;
        let FilesOfAll { files, beside } = tokio::task::block_in_place(|| self.files(parts, None))?;
        match self.run(files, &tests).await? {
            Some(result) if result.passed => Ok(Ok(JointVerdict { verdict: verdict_of(&result), beside })),
            Some(result) => {
                let verdict = verdict_of(&result);
                self.set_all(parts, |entry| {
                    entry.state = EntryState::Red;
                    entry.verdict = Some(verdict.clone());
                    entry.why = Some(format!("the tests of all repositories fail ({})", result.exit));
                })?;
                Ok(Err(JointOutcome::Red { exit: result.exit, log: result.log }))
            }
            None => Ok(Err(JointOutcome::Stopped)),
        }
    }

    /// Checks that tests would notice a wrong resolution. Returns an outcome if none would, or if it was stopped.
    async fn vet(&self, parts: &mut [PartNow], tests: &[JointTest]) -> Result<Option<JointOutcome>, QueueError> {
        for index in 0..parts.len() {
            let Some(item) = parts[index].item.clone().filter(is_doubtful) else { continue };
            let mut uncovered = Vec::new();
            let to_cover = match self.settings.untested_files {
                _ if tests.is_empty() => Vec::new(),
                UntestedFiles::Allow => Vec::new(),
                UntestedFiles::Escalate => to_cover(&item),
            };
            for path in to_cover {
                let Some(commit) = emptied(&parts[index].repo, &item, &path)? else { continue };
                let instead = Some((&parts[index].part.name, commit));
                let FilesOfAll { files, .. } = tokio::task::block_in_place(|| self.files(parts, instead))?;
                match self.run(files, tests).await? {
                    Some(result) if result.passed => uncovered.push(path),
                    Some(_) => {}
                    None => return Ok(Some(JointOutcome::Stopped)),
                }
            }
            let why = match (tests.is_empty(), uncovered.is_empty()) {
                (true, _) => format!(
                    "{NO_TEST}: set `workspace.test_command` or `test_command`, or agree with `pleach merge approve`"
                ),
                (false, false) => uncovered_words(&uncovered),
                (false, true) => continue,
            };
            let question = Some(MergeQuestion::Uncovered);
            return self.refuse(&mut parts[index], &item.entry.id, why, question, Vec::new()).map(Some);
        }
        Ok(None)
    }

    async fn run(&self, files: Vec<JointFiles>, tests: &[JointTest]) -> Result<Option<TestResult>, QueueError> {
        let place = JointTests { engine: &self.engine, repos: &self.repos, session: &self.session };
        place.run(files, tests).await
    }

    /// The files of all repositories of the session: what lands, and the targets of those where nothing does. One part
    /// may be tested with another commit.
    fn files(&self, parts: &[PartNow], instead: Option<(&RepoName, CommitId)>) -> Result<FilesOfAll, QueueError> {
        let (state, started) = self.recorded()?;
        let (mut files, mut beside) = (Vec::new(), Vec::new());
        for (name, repo) in self.repos.iter() {
            let of_part = parts.iter().find(|part| part.part.name == *name);
            let (branch, commit) = match of_part {
                Some(part) => (part.part.target.clone(), part.item.as_ref().map_or(part.tip, |item| item.built.commit)),
                None => {
                    let target = started.targets.get(name).or_else(|| started.branches.get(name));
                    let Some(target) = target.cloned() else { continue };
                    let tip = repo.refs().find(&branch_ref(&target))?;
                    beside.extend(tip.map(|tip| (name.clone(), target.clone(), tip)));
                    let Some(commit) = tip.or_else(|| state.work.get(name).copied()) else { continue };
                    (target, commit)
                }
            };
            let commit = instead.filter(|(other, _)| *other == name).map_or(commit, |(_, commit)| commit);
            files.push(JointFiles { name: name.clone(), repo: repo.clone(), branch, commit });
        }
        Ok(FilesOfAll { files, beside })
    }

    /// Moves the targets. None if one moved meanwhile, and everything has to be read again.
    fn move_all(&self, parts: &mut [PartNow], tested: &JointVerdict) -> Result<Option<JointOutcome>, QueueError> {
        let JointVerdict { verdict, beside } = tested;
        for (name, branch, commit) in beside {
            let repo = self.repos.get(name).expect("only repositories of the session are tested");
            if repo.refs().find(&branch_ref(branch))? != Some(*commit) {
                return Ok(None);
            }
        }
        let done = parts.iter().filter(|part| part.item.is_none()).count();
        for part in parts.iter() {
            let Some(item) = &part.item else { continue };
            let target = &part.part.target;
            match git::land::in_the_way(&part.repo, target, part.tip, item.built.commit)? {
                None => {}
                Some(git::LandError::Moved { .. }) => return Ok(None),
                Some(held) => {
                    let (repo, why) = (part.part.name.clone(), held.to_string());
                    self.set_all(parts, |entry| entry.state = EntryState::Submitted)?;
                    return Ok(Some(JointOutcome::Held { repo, why, moved: done }));
                }
            }
        }
        // The record names all targets, also those that need not move.
        let moves = parts.iter().map(|part| {
            let (repo, target) = (part.part.name.clone(), part.part.target.clone());
            let to = part.item.as_ref().map_or(part.tip, |item| item.built.commit);
            Landing { repo, target, from: part.tip, to, extra: Default::default() }.into()
        });
        mark(self.repos.record(), &self.session)?;
        // From here on all targets move, even if this process dies.
        self.record("land", moves.collect())?;
        let (mut landed, mut moved) = (Vec::new(), done);
        for part in parts.iter_mut() {
            let Some(item) = part.item.clone() else { continue };
            let verdict =
                item.entry.verdict.as_ref().filter(|_| *verdict == TestVerdict::Unverified).unwrap_or(verdict);
            match landing::land(&part.repo, &mut part.queue, std::slice::from_ref(&item), part.tip, verdict)? {
                LandedPrefix::Landed(entries) => {
                    for entry in &entries {
                        warn_of_edited_tests(&self.engine, &part.repo, entry, &self.settings.joint_tests());
                        tell_landed(&self.engine, entry);
                    }
                    landed.extend(entries);
                    moved += 1;
                }
                LandedPrefix::Moved => return Ok(None),
                LandedPrefix::Held(why) => {
                    return Ok(Some(JointOutcome::Held { repo: part.part.name.clone(), why, moved }));
                }
            }
        }
        self.record_landed()?;
        Ok(Some(JointOutcome::Landed(landed)))
    }

    /// Records that all targets have it.
    fn record_landed(&self) -> Result<(), QueueError> {
        let mut events = Vec::new();
        for part in &self.parts {
            let commit = tip_of(repo_of(&self.repos, part), &part.target)?;
            let (repo, target) = (part.name.clone(), part.target.clone());
            events.push(Landed { repo, target, commit, extra: Default::default() }.into());
        }
        self.record("landed", events)?;
        unmark(self.repos.record(), &self.session);
        Ok(())
    }

    fn recorded(&self) -> Result<(State, pleach_core::event::PipelineStarted), QueueError> {
        let RecordedSession { history, state, .. } = resume::read(self.repos.record(), &self.session)?;
        Ok((state, history.started))
    }

    /// Appends to the record of the session, which this process holds.
    fn record(&self, summary: &str, events: Vec<Event>) -> Result<(), QueueError> {
        let repo = self.repos.record();
        let RecordedSession { history, mut state, .. } = resume::read(repo, &self.session)?;
        let at = clock::now();
        let recorded = |event| self.engine.without_secrets(Recorded { at, event });
        let events: Vec<Recorded> = events.into_iter().map(recorded).collect();
        for event in &events {
            state.apply(event).map_err(crate::env::Error::from)?;
        }
        let end = history.end(&state);
        let redactor = self.engine.redactor.clone();
        let mut recorder = Recorder::resume(repo.clone(), self.session.clone(), history.context, redactor, end);
        let batch = Batch { summary: summary.to_owned(), events, ..Batch::default() };
        recorder.append(repo.writer(), &batch).map_err(crate::env::Error::from)?;
        Ok(())
    }

    fn set_all(&self, parts: &mut [PartNow], edit: impl Fn(&mut QueueEntry)) -> Result<(), QueueError> {
        for part in parts {
            if let Some(id) = part.item.as_ref().map(|item| item.entry.id.clone()) {
                self.set(part, &id, &edit)?;
            }
        }
        Ok(())
    }

    fn set(&self, part: &mut PartNow, id: &EntryId, edit: impl Fn(&mut QueueEntry)) -> Result<(), QueueError> {
        update(&part.repo, &mut part.queue, std::slice::from_ref(id), edit).map(drop)
    }
}

fn repo_of<'a>(repos: &'a SessionRepos, part: &JointPart) -> &'a Repo {
    repos.get(&part.name).expect("only repositories of the session land")
}
