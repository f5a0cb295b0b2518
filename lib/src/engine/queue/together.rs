//! Lands a session in all its repositories, or in none: what they come to is merged in each, tested side by side, and
//! then the targets move one after the other, by name.
//!
//! Before the first moves, one record of the session says where all of them go. Should the process die between two
//! repositories, the next one finds that record and moves the rest: to the commits that were tested, or to new ones where
//! a target has moved on.

use std::sync::Arc;

use super::batch::{BatchItem, tests_of};
use super::candidate::{MergeBuild, build};
use super::enqueue::{Submission, enqueue};
use super::error::QueueError;
use super::joint_tests::run_joint_tests;
use super::landing::{self, LandedPrefix, tip_of, update};
use super::run::{queue_lock, tell_landed, verdict_of};
use super::settings::QueueSettings;
use super::store::MergeQueue;
use crate::clock;
use crate::engine::joint_slot::{JointFiles, JointSlot};
use crate::engine::locks::Locks;
use crate::engine::merging::conflicted_paths;
use crate::engine::resume::{self, RecordedSession};
use crate::engine::{Engine, SessionRepos};
use crate::event::{ConflictedPath, Event, Landed, Landing, Recorded};
use crate::git::{self, Repo};
use crate::ids::{BranchName, CommitId, EntryId, RepoName, SessionId};
use crate::merge::Tier;
use crate::queue::{EntryState, QueueEntry, TestVerdict};
use crate::record::{Batch, Recorder};
use crate::state::State;
use crate::workspace::{self, Lock, branch_ref, new_entry_id};

/// How often a landing is built again because a target has moved meanwhile.
const TRIES: usize = 10;

/// What is to land in one repository.
#[derive(Debug, Clone)]
pub struct JointPart {
    /// The repository.
    pub name: RepoName,
    /// The session branch there.
    pub branch: BranchName,
    /// The newest commit of the session.
    pub head: CommitId,
    /// The branch it lands on.
    pub target: BranchName,
}

/// What came of it.
#[derive(Debug)]
pub enum JointOutcome {
    /// All targets have it.
    Landed(Vec<QueueEntry>),
    /// The tests fail on what it would come to.
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
    /// A checkout holds a target up.
    Held {
        /// The repository.
        repo: RepoName,
        /// Why.
        why: String,
        /// How many of the targets have moved already.
        moved: usize,
    },
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
    /// What is to land; none if the target has it.
    item: Option<BatchItem>,
}

impl JointLanding {
    /// Takes the session and the queues of all targets, and puts the parts into these.
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
        let id = submit_together(&repos, &session, &parts)?;
        Ok(Self { engine, repos, session, settings, parts, id, _locks: (locks, queues) })
    }

    /// Merges, tests and lands all parts.
    pub async fn land(self) -> Result<JointOutcome, QueueError> {
        for _ in 0..TRIES {
            if self.engine.cancel.is_stopped() {
                return Ok(JointOutcome::Stopped);
            }
            let mut parts = match tokio::task::block_in_place(|| self.look())? {
                Ok(parts) => parts,
                Err(refused) => return Ok(refused),
            };
            let verdict = match self.is_decided(&parts)? {
                true => TestVerdict::Unverified,
                false => match self.test(&mut parts).await? {
                    Ok(verdict) => verdict,
                    Err(outcome) => return Ok(outcome),
                },
            };
            if self.engine.cancel.is_stopped() {
                self.set_all(&mut parts, |entry| entry.state = EntryState::Submitted)?;
                return Ok(JointOutcome::Stopped);
            }
            if let Some(outcome) = tokio::task::block_in_place(|| self.move_all(&mut parts, &verdict))? {
                return Ok(outcome);
            }
        }
        let target = self.parts[0].target.clone();
        Err(QueueError::Contended(target))
    }

    /// Merges the parts onto their targets.
    fn look(&self) -> Result<Result<Vec<PartNow>, JointOutcome>, QueueError> {
        let options = self.settings.merge_options();
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
                let (why, conflicts) = match build(&now.repo, &entry, tip, &options)? {
                    MergeBuild::Built(built) => {
                        now.item = Some(BatchItem { entry, built });
                        parts.push(now);
                        continue;
                    }
                    MergeBuild::Present => {
                        parts.push(now);
                        continue;
                    }
                    MergeBuild::Conflict(left) => (left.rest().to_string(), conflicted_paths(&left.rest())),
                    MergeBuild::Derive(_) => (
                        "files that commands make are in conflict; make them on the session's branch".to_owned(),
                        Vec::new(),
                    ),
                    MergeBuild::Unfit(unfit) => (unfit.why, Vec::new()),
                };
                self.set(&mut now, &entry.id, |entry| {
                    entry.state = EntryState::Escalated;
                    entry.why = Some(why.clone());
                    entry.conflicts.clone_from(&conflicts);
                })?;
                return Ok(Err(JointOutcome::Refused { repo: part.name.clone(), why, conflicts }));
            }
            parts.push(now);
        }
        Ok(Ok(parts))
    }

    /// Whether what is to land was tested and decided by a process that was killed while it moved the targets.
    fn is_decided(&self, parts: &[PartNow]) -> Result<bool, QueueError> {
        let (state, _) = self.recorded()?;
        let has_moved = parts.iter().any(|part| part.item.is_none());
        // A target that has moved is where it was to go and no further, and the others are where they were.
        let is_recorded = |part: &PartNow| {
            let of_part = |landing: &&Landing| landing.repo == part.part.name && landing.target == part.part.target;
            state.landing.iter().find(of_part).is_some_and(|landing| match &part.item {
                Some(item) => (landing.from, landing.to) == (part.tip, item.built.commit),
                None => landing.to == part.tip,
            })
        };
        Ok(has_moved && parts.iter().all(is_recorded))
    }

    /// Tests what all parts come to, side by side.
    async fn test(&self, parts: &mut [PartNow]) -> Result<Result<TestVerdict, JointOutcome>, QueueError> {
        let entries = parts.iter().filter_map(|part| Some(&part.item.as_ref()?.entry));
        let tests = tests_of(entries, self.settings.test.as_ref());
        if tests.is_empty() {
            let by_rule = |part: &PartNow| part.item.as_ref().is_some_and(|item| item.built.origin.tier > Tier::Clean);
            return Ok(match parts.iter().find(|part| by_rule(part)) {
                // Nobody could tell whether that is right.
                Some(part) => Err(JointOutcome::Refused {
                    repo: part.part.name.clone(),
                    why: "it conflicts with the target, and without `merge.test_command` nothing tells whether what \
                          resolves that is right"
                        .to_owned(),
                    conflicts: Vec::new(),
                }),
                None => Ok(TestVerdict::Unverified),
            });
        }
        self.set_all(parts, |entry| entry.state = EntryState::Testing)?;
        let files = tokio::task::block_in_place(|| self.files(parts))?;
        let mut slot = tokio::task::block_in_place(|| {
            JointSlot::open(Arc::clone(&self.engine), &self.repos, &self.session, files)
        })?;
        let tested = run_joint_tests(&self.engine, &mut slot, &tests).await;
        tokio::task::block_in_place(|| slot.remove());
        match tested? {
            Some(result) if result.passed => Ok(Ok(verdict_of(&result))),
            Some(result) => {
                let verdict = verdict_of(&result);
                self.set_all(parts, |entry| {
                    entry.state = EntryState::Red;
                    entry.verdict = Some(verdict.clone());
                    entry.why = Some(format!("the tests of all repositories fail ({})", result.exit));
                })?;
                Ok(Err(JointOutcome::Red { exit: result.exit, log: result.log }))
            }
            None => {
                self.set_all(parts, |entry| entry.state = EntryState::Submitted)?;
                Ok(Err(JointOutcome::Stopped))
            }
        }
    }

    /// The files of all repositories of the session: what lands, or what it worked with.
    fn files(&self, parts: &[PartNow]) -> Result<Vec<JointFiles>, QueueError> {
        let (state, started) = self.recorded()?;
        let mut files = Vec::new();
        for (name, repo) in self.repos.iter() {
            let of_part = parts.iter().find(|part| part.part.name == *name);
            let (branch, commit) = match of_part {
                Some(part) => (part.part.target.clone(), part.item.as_ref().map_or(part.tip, |item| item.built.commit)),
                None => {
                    let target = started.targets.get(name).or_else(|| started.branches.get(name));
                    let Some(target) = target.cloned() else { continue };
                    let tip = repo.refs().find(&branch_ref(&target))?;
                    let Some(commit) = tip.or_else(|| state.work.get(name).copied()) else { continue };
                    (target, commit)
                }
            };
            files.push(JointFiles { name: name.clone(), repo: repo.clone(), branch, commit });
        }
        Ok(files)
    }

    /// Moves the targets. None if one has moved by itself, and everything has to be looked at again.
    fn move_all(&self, parts: &mut [PartNow], verdict: &TestVerdict) -> Result<Option<JointOutcome>, QueueError> {
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
        let moves = parts.iter().filter_map(|part| {
            let (repo, target) = (part.part.name.clone(), part.part.target.clone());
            let to = part.item.as_ref()?.built.commit;
            Some(Landing { repo, target, from: part.tip, to, extra: Default::default() })
        });
        let moves: Vec<Landing> = moves.collect();
        if !moves.is_empty() {
            mark(self.repos.record(), &self.session)?;
            // From here on all of them move, whatever happens to this process.
            self.record("land", moves.into_iter().map(Event::from).collect())?;
        }
        let (mut landed, mut moved) = (Vec::new(), done);
        for part in parts.iter_mut() {
            let Some(item) = part.item.clone() else { continue };
            let verdict =
                item.entry.verdict.as_ref().filter(|_| *verdict == TestVerdict::Unverified).unwrap_or(verdict);
            match landing::land(&part.repo, &mut part.queue, std::slice::from_ref(&item), part.tip, verdict)? {
                LandedPrefix::Landed(entries) => {
                    entries.iter().for_each(|entry| tell_landed(&self.engine, entry));
                    landed.extend(entries);
                    moved += 1;
                }
                LandedPrefix::Moved => return Ok(None),
                LandedPrefix::Held(why) => {
                    if moved == 0 {
                        unmark(self.repos.record(), &self.session);
                    }
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

    fn recorded(&self) -> Result<(State, crate::event::PipelineStarted), QueueError> {
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
            state.apply(event).map_err(crate::engine::Error::from)?;
        }
        let newest = (history.first, history.tip, state.messages);
        let redactor = self.engine.redactor.clone();
        let mut recorder = Recorder::resume(repo.clone(), self.session.clone(), history.context, redactor, newest);
        let batch = Batch { summary: summary.to_owned(), events, ..Batch::default() };
        recorder.append(repo.writer(), &batch).map_err(crate::engine::Error::from)?;
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

/// Puts the parts of a landing into the queues of their targets. Returns what they have in common.
pub fn submit_together(repos: &SessionRepos, session: &SessionId, parts: &[JointPart]) -> Result<EntryId, QueueError> {
    let mut known = None;
    for part in parts {
        let queue = MergeQueue::read(repo_of(repos, part), &part.target)?;
        let mut own = queue.entries().into_iter().filter(|entry| entry.session.as_ref() == Some(session));
        known = known.or_else(|| own.find_map(|entry| entry.together));
    }
    let id = known.unwrap_or_else(|| new_entry_id(clock::now()));
    // All of them are looked at before the first one is queued.
    let mut new = Vec::new();
    for part in parts {
        let repo = repo_of(repos, part);
        if repo.history().is_ancestor(part.head, tip_of(repo, &part.target)?)? {
            continue;
        }
        let of = Submission::branch(repo, part.name.clone(), part.branch.clone(), part.target.clone())?;
        let (session, together) = (Some(session.clone()), Some(id.clone()));
        new.push((repo, Submission { head: part.head, session, together, ..of }));
    }
    for (repo, submission) in new {
        enqueue(repo, submission)?;
    }
    Ok(id)
}

fn repo_of<'a>(repos: &'a SessionRepos, part: &JointPart) -> &'a Repo {
    repos.get(&part.name).expect("only repositories of the session land")
}

/// The directory of the marks of landings that are under way, in the git directory.
const UNDER_WAY: &str = "pleach/landing";

/// Marks a landing that is under way, so that the next command finds it without reading every session.
fn mark(repo: &Repo, session: &SessionId) -> Result<(), QueueError> {
    let path = repo.common_dir().join(UNDER_WAY).join(session.as_str());
    let io = |source| workspace::Error::Io { doing: "write", path: path.clone(), source };
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io)?;
    std::fs::write(&path, "").map_err(io)?;
    Ok(())
}

fn unmark(repo: &Repo, session: &SessionId) {
    let _ = std::fs::remove_file(repo.common_dir().join(UNDER_WAY).join(session.as_str()));
}

/// The sessions whose landing was cut off after it was decided.
pub fn unfinished_landings(repo: &Repo) -> Vec<SessionId> {
    let Ok(marks) = std::fs::read_dir(repo.common_dir().join(UNDER_WAY)) else { return Vec::new() };
    marks.flatten().filter_map(|mark| mark.file_name().to_str()?.parse().ok()).collect()
}
