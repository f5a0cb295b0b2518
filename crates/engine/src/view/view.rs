//! A session as it was recorded, and what may be said of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::recorded::{recorded_pipeline, recorded_state};
use super::{AnswerView, Milestone, Moment, NodeFailure, TurnView, branches, first_run};
use crate::env::{Error, Question, lock_name};
use agents::llm::Message;
use git::Repo;
use git::record::entries::last_of_task;
use git::record::{self, History, Record, check_chain, left_events};
use git::workspace::{Lock, branch_ref};
use pleach_core::budget::Amount;
use pleach_core::event::{
    Event, HumanInteraction, NodeExecution, PauseReason, PipelineStarted, Recorded, Snapshot, TaskOf,
};
use pleach_core::ids::{BranchName, CommitId, ContextId, NodeId, RepoName, RunId, SessionId, TurnId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::queue::EntryState;
use pleach_core::state::{Phase, State};
use pleach_core::step::StepKind;

/// The status of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SessionStatus {
    /// A process runs it.
    Running,
    /// Started and not ended, but the process running it was killed. It can be resumed.
    Dead,
    /// Stopped on purpose. It can be resumed.
    Paused {
        /// Why.
        reason: PauseReason,
        /// Details of the reason, if there are any.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Reached its exit.
    Done,
    /// Ended without reaching its goal.
    Failed {
        /// Why.
        reason: String,
    },
    /// Cancelled by the user.
    Cancelled,
}

impl SessionStatus {
    /// The status in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Paused { .. } => "paused",
            Self::Done => "done",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether `pleach resume` can resume it.
    pub fn can_resume(&self) -> bool {
        matches!(self, Self::Dead | Self::Paused { .. } | Self::Failed { .. })
    }
}

/// The newest state of a run of a session.
#[derive(Debug)]
pub struct Summary {
    /// The session.
    pub session: SessionId,
    /// The run of it.
    pub run: RunId,
    /// The start event, with its pipeline and inputs.
    pub started: PipelineStarted,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
    /// The pipeline it runs.
    pub pipeline: Pipeline,
    /// Its folded state.
    pub state: State,
    /// The folded states of its branches that have not ended.
    pub branches: Vec<State>,
    /// What all its contexts have spent.
    pub spent: Amount,
    /// The turns of all its contexts.
    pub turns: u64,
    /// A process holds its lock.
    pub in_use: bool,
    /// Its newest record.
    pub tip: CommitId,
    /// The first records of the replays it has come through, its own last.
    pub forks: Vec<CommitId>,
    /// The kinds of agents that took its turns.
    pub agents: Vec<String>,
    /// Their models.
    pub models: Vec<String>,
}

impl Summary {
    /// The status of the session.
    pub fn standing(&self) -> SessionStatus {
        match &self.state.phase {
            Phase::New | Phase::Running if self.in_use => SessionStatus::Running,
            Phase::New | Phase::Running => SessionStatus::Dead,
            Phase::Paused { reason, why } => SessionStatus::Paused { reason: *reason, why: why.clone() },
            Phase::Completed => SessionStatus::Done,
            Phase::Failed { reason } => SessionStatus::Failed { reason: reason.clone() },
            Phase::Cancelled => SessionStatus::Cancelled,
        }
    }

    /// The node it runs or will run next; for an ended session, the one it failed at or completed last.
    pub fn node(&self) -> Option<&NodeId> {
        self.state.next_node().or(self.state.failed_node()).or(self.state.completed.last())
    }

    /// Whether pleach has started it by itself, to resolve a conflict of the merge queue.
    pub fn is_own(&self) -> bool {
        self.started.resolves.is_some()
    }

    /// Whether it is done, and its work lands when somebody says so: work on a task lands by itself.
    pub fn can_land(&self) -> bool {
        self.started.task.is_none() && self.standing() == SessionStatus::Done
    }

    /// The questions it waits with: those it is paused at, or asks now at the terminal it was started at.
    pub fn questions(&self) -> Vec<Question> {
        if self.standing() == SessionStatus::Dead {
            return Vec::new();
        }
        let task = self.started.task.as_ref().map(|task| task.id.clone());
        let mut questions = Question::waiting(&self.pipeline, &self.state, &self.branches);
        questions.iter_mut().for_each(|question| question.task.clone_from(&task));
        questions
    }

    /// The repository it works in, and the session branch there.
    pub fn branch(&self) -> Option<(&RepoName, &BranchName)> {
        self.started.branches.get_key_value(self.started.record_repo())
    }

    /// The commit it was started from.
    pub fn base(&self) -> Option<CommitId> {
        self.state.base.get(self.started.record_repo()).copied()
    }

    /// Its newest recorded commit.
    pub fn work(&self) -> Option<CommitId> {
        self.state.work.get(self.started.record_repo()).copied()
    }

    /// The commits one of its contexts was forked at and its newest ones; `None` if it has no such context.
    pub fn work_in(&self, repo: &Repo, context: &ContextId) -> Result<Option<(Snapshot, Snapshot)>, Error> {
        let history = match History::newest_in(repo, &self.session, context) {
            Ok(history) => history,
            Err(record::Error::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state = recorded_state(&history, &self.pipeline)?;
        Ok(Some((state.base, state.work)))
    }

    /// Whether its task landed, but neither the target nor a branch on the way there has it any more: the commits were
    /// removed or reset, or are not in this clone. `there` are the sessions with steps there, including copied ones.
    pub fn is_gone(&self, repo: &Repo, target: &BranchName, there: &BTreeSet<SessionId>) -> Result<bool, Error> {
        let task = self.state.task.as_ref().filter(|task| task.of.target == *target);
        let landed = task.and_then(|task| task.landed).filter(|_| !there.contains(&self.session));
        Ok(match landed.zip(repo.refs().find(&branch_ref(target))?) {
            Some((landed, tip)) => !repo.history().is_ancestor(landed, tip)?,
            None => false,
        })
    }

    /// Whether its task is complete, or reported the result of a phase's tests, and the target has that now. The code
    /// of a task that was given up is not on the target.
    pub fn is_on_target(&self, repo: &Repo) -> Result<bool, Error> {
        let Some(task) = &self.state.task else { return Ok(false) };
        let landed = task.landed.filter(|_| task.newest() != Some((StepKind::Complete, false)));
        Ok(match landed.zip(repo.refs().find(&branch_ref(&task.of.target))?) {
            Some((landed, tip)) => repo.history().is_ancestor(landed, tip)?,
            None => false,
        })
    }

    /// Reads the newest state of a session, without its whole history.
    pub fn newest(repo: &Repo, run: impl Into<RunId>) -> Result<Self, Error> {
        Ok(Self::read(repo, &run.into(), |repo, run| History::newest(repo, run))?.0)
    }

    fn read(
        repo: &Repo,
        run: &RunId,
        read: impl Fn(&Repo, &RunId) -> Result<History, record::Error>,
    ) -> Result<(Self, History), Error> {
        let (id, lock) = (&run.session, lock_name(run));
        let common = repo.common_dir();
        // A process may end after its last record, or start before its first one, so the lock is checked before and
        // after.
        let used_before = Lock::is_held(common, &lock);
        let history = read(repo, run)?;
        let in_use = used_before || Lock::is_held(common, &lock);
        let pipeline = recorded_pipeline(&history.started)?;
        let mut state = recorded_state(&history, &pipeline)?;
        // The user may have merged work that waits to land; the next tree run records that.
        let work = state.work.get(history.started.record_repo()).copied();
        let is_open = state.phase != Phase::Cancelled;
        if let (Some(task), Some(work)) = (&mut state.task, work)
            && is_open
            && task.is_decided()
            && task.landed.is_none()
            && let Some(target) = repo.refs().find(&branch_ref(&task.of.target))?
        {
            task.landed = if repo.history().is_ancestor(work, target)? {
                Some(work)
            } else {
                landed_by_queue(repo, &task.of, id)
            };
        }
        let contexts = branches::read(repo, id, &pipeline, &state)?;
        let spent = contexts.iter().fold(state.spent.total, |sum, branch| sum + branch.state.spent.total);
        let turns = contexts.iter().fold(state.own_turns(), |sum, branch| sum + branch.state.own_turns());
        let by: BTreeSet<String> = contexts.iter().flat_map(|branch| branch.state.spent.agents.clone()).collect();
        let models: BTreeSet<String> = contexts.iter().flat_map(|branch| branch.state.spent.models.clone()).collect();
        let branches = contexts.into_iter().filter(|branch| branch.is_open).map(|branch| branch.state).collect();
        let agents = state.spent.agents.union(&by).cloned().collect();
        let models = state.spent.models.union(&models).cloned().collect();
        let summary = Self {
            agents,
            models,
            session: id.clone(),
            run: run.clone(),
            started: history.started.clone(),
            started_at: history.started_at,
            updated_at: repo.commit(history.tip)?.at,
            pipeline,
            state,
            branches,
            spent,
            turns,
            in_use,
            tip: history.tip,
            forks: history.forks.clone(),
        };
        Ok((summary, history))
    }
}

/// Sessions with their summaries, or the cause if one is unreadable.
pub type Sessions = Vec<(SessionId, Result<Summary, Error>)>;

/// The commit a session's work has landed as, where the merge queue has rebuilt it and no run has recorded that. A queue
/// that cannot be read says nothing here: its own commands tell what is wrong.
fn landed_by_queue(repo: &Repo, task: &TaskOf, id: &SessionId) -> Option<CommitId> {
    let last = last_of_task(repo, &task.target, &task.id).ok()??;
    let is_landed = last.session.as_ref() == Some(id) && last.state == EntryState::Landed;
    last.landing.filter(|_| is_landed).map(|landing| landing.to)
}

/// Whether a session belongs to a landed task. Most do, and a trailer of their last record says so.
pub fn has_landed(repo: &Repo, id: &SessionId) -> Result<bool, record::Error> {
    Ok(History::task_summary(repo, id)?.is_some_and(|summary| summary.landed.is_some()))
}

/// A session with its record, complete or from some of its newest turns on.
#[derive(Debug)]
pub struct View {
    /// Its newest state.
    pub summary: Summary,
    /// The record of its root.
    pub history: History,
    /// The records of its branches, each with what lies before it.
    branches: Vec<History>,
    /// The events it has gone back behind, by their record and their place in it.
    left: BTreeSet<(CommitId, usize)>,
}

impl View {
    /// Reads a session.
    pub fn load(repo: &Repo, run: impl Into<RunId>) -> Result<Self, Error> {
        let run = run.into();
        let (summary, history) = Summary::read(repo, &run, |repo, run| History::all(repo, run))?;
        let contexts = record::run_contexts(repo, &run)?.into_iter().filter(|context| *context != history.context);
        let branches = contexts.map(|context| History::all_in(repo, &run.session, &context));
        let mut chains = branches.collect::<Result<Vec<_>, _>>()?;
        chains.push(history);
        let left = left_events(&chains, &run.root);
        let history = chains.pop().expect("the root was put there");
        Ok(Self { summary, history, branches: chains, left })
    }

    /// Reads a session as far back as its newest turns; further where a state before them is not kept, and whole where it
    /// has several contexts or goes on from another run.
    pub fn newest(repo: &Repo, run: &RunId, turns: usize) -> Result<Self, Error> {
        if !run.is_first() || record::run_contexts(repo, run)?.len() > 1 {
            return Self::load(repo, run.clone());
        }
        let (summary, history) = Summary::read(repo, run, |repo, run| History::newest_turns(repo, run, turns))?;
        let chains = [history];
        let left = left_events(&chains, &run.root);
        let [history] = chains;
        Ok(Self { summary, history, branches: Vec::new(), left })
    }

    /// Whether all of it was read.
    pub fn is_whole(&self) -> bool {
        self.history.kept.is_none()
    }

    /// All sessions of a repository, newest first. Unreadable ones come last, with the cause.
    pub fn all(repo: &Repo) -> Result<Sessions, Error> {
        Ok(Self::read_all(repo, History::sessions(repo)?))
    }

    /// All sessions except those of landed tasks, since a tree has many, and the number of those left out.
    pub fn open(repo: &Repo) -> Result<(Sessions, usize), Error> {
        let (mut open, mut landed) = (Vec::new(), 0);
        for id in History::sessions(repo)? {
            match has_landed(repo, &id) {
                Ok(true) => landed += 1,
                // The cause is reported with the other sessions.
                Ok(false) | Err(_) => open.push(id),
            }
        }
        Ok((Self::read_all(repo, open), landed))
    }

    /// The sessions with an unreadable record, each with the cause. Reads every session completely.
    pub fn unreadable(repo: &Repo) -> Result<Vec<(RunId, Error)>, Error> {
        let read = |run: &RunId| -> Result<(), Error> {
            let (summary, _) = Summary::read(repo, run, |repo, run| History::all(repo, run))?;
            Ok(check_chain(repo, summary.tip)?)
        };
        let all = History::all_runs(repo)?.into_iter().filter_map(|run| Some((read(&run).err()?, run)));
        let is_there = |error: &Error| !matches!(error, Error::Record(record::Error::Missing { .. }));
        Ok(all.filter(|(error, _)| is_there(error)).map(|(error, id)| (id, error)).collect())
    }

    fn read_all(repo: &Repo, ids: Vec<SessionId>) -> Sessions {
        let read = |id: SessionId| {
            let first = || Summary::newest(repo, first_run(repo, &id)?);
            let summary = match Summary::newest(repo, &id) {
                Err(Error::Record(record::Error::Missing { .. })) => first(),
                read => read,
            };
            // A session removed while we read counts as never having existed.
            let removed = matches!(&summary, Err(Error::Record(record::Error::Missing { .. })));
            (!removed).then_some((id, summary))
        };
        let mut all: Vec<_> = ids.into_iter().filter_map(read).collect();
        let age = |summary: &Result<Summary, Error>| summary.as_ref().ok().map(|summary| summary.started_at);
        all.sort_by(|(id, one), (other, two)| age(two).cmp(&age(one)).then_with(|| id.cmp(other)));
        all
    }

    /// Turns, failed attempts, answers and checkpoints of all contexts in order of time.
    pub fn timeline(&self) -> Vec<Moment> {
        let mut commits: BTreeMap<&ContextId, Snapshot> = BTreeMap::new();
        let mut moments = Vec::new();
        for (record, at, recorded) in self.placed_events() {
            let left = self.left.contains(&(record.commit, at));
            let commit = commits.entry(&record.context).or_insert_with(|| self.summary.state.base.clone());
            if let Some(turn) = self.turn_of(record, at, recorded) {
                commit.extend(turn.commit.iter().flatten().map(|(repo, id)| (repo.clone(), *id)));
                moments.push(Moment::Turn(Box::new(turn)));
            }
            moments.extend(self.failure_of(record, at, recorded).map(Moment::Failure));
            moments.extend(self.answer_of(record, at, recorded).map(Moment::Answer));
            match &recorded.event {
                Event::NodeStarted(data) => commit.clone_from(&data.base),
                Event::WorktreeMerged(data) => drop(commit.insert(data.repo.clone(), data.git_sha)),
                Event::Checkpoint(data) => moments.push(Moment::Checkpoint(Milestone {
                    at: recorded.at,
                    context: record.context.clone(),
                    node: data.current_node.clone(),
                    outcome: data.node_outcomes.get(&data.current_node),
                    next_node: data.next_node.clone(),
                    commit: commit.clone(),
                    record: record.commit,
                    left,
                })),
                _ => {}
            }
        }
        moments
    }

    /// The turns of agents and tools in all contexts, in order. The last turn of a failed attempt carries the reason.
    pub fn turns(&self) -> Vec<TurnView> {
        let mut turns: Vec<TurnView> = Vec::new();
        for (record, at, recorded) in self.placed_events() {
            turns.extend(self.turn_of(record, at, recorded));
            let last = turns.iter_mut().rfind(|turn| turn.turn.context == record.context);
            if let (Some(failure), Some(last)) = (self.failure_of(record, at, recorded), last)
                && (&last.node, last.visit, last.attempt) == (&failure.node, failure.visit, failure.attempt)
            {
                last.failure = Some(failure);
            }
        }
        turns
    }

    /// The failed attempts in all contexts, in order, including those without turns.
    pub fn failures(&self) -> Vec<NodeFailure> {
        let placed = self.placed_events().into_iter();
        placed.filter_map(|(record, at, recorded)| self.failure_of(record, at, recorded)).collect()
    }

    /// The answers to gates in all contexts, in order.
    pub fn all_answers(&self) -> Vec<AnswerView> {
        let placed = self.placed_events().into_iter();
        placed.filter_map(|(record, at, recorded)| self.answer_of(record, at, recorded)).collect()
    }

    /// The checkpoints, in order.
    pub fn checkpoints(&self) -> Vec<Milestone> {
        let checkpoint = |moment| match moment {
            Moment::Checkpoint(checkpoint) => Some(checkpoint),
            Moment::Turn(_) | Moment::Failure(_) | Moment::Answer(_) => None,
        };
        self.timeline().into_iter().filter_map(checkpoint).collect()
    }

    /// A turn by its id.
    pub fn turn(&self, id: &TurnId) -> Option<TurnView> {
        self.turns().into_iter().find(|turn| turn.turn == *id)
    }

    /// A message of a context by its number.
    pub fn message_in(&self, repo: &Repo, context: &ContextId, number: u64) -> Result<Message, Error> {
        message(repo, self.history_of(context), number)
    }

    /// The messages of a turn.
    pub fn messages(&self, repo: &Repo, turn: &TurnView) -> Result<Vec<Message>, Error> {
        let Some(range) = turn.messages else { return Ok(Vec::new()) };
        let history = self.history_of(&turn.turn.context);
        (range.first..=range.last).map(|number| message(repo, history, number)).collect()
    }

    /// The standard error of the agent's program for a node; `None` if the turn is not the node's last, or nothing was
    /// written.
    pub fn stderr(&self, repo: &Repo, id: &TurnId) -> Result<Option<String>, Error> {
        let mut last = None;
        let history = self.history_of(&id.context);
        let own = history.records.iter().filter(|record| record.context == id.context);
        for recorded in own.flat_map(|record| &record.events) {
            match &recorded.event {
                Event::AgentTurn(turn) => last = Some(&turn.turn),
                Event::ToolExecution(tool) => last = Some(&tool.turn),
                Event::NodeStarted(_) => last = None,
                Event::NodeExecution(NodeExecution { stderr: Some(number), .. }) if last == Some(id) => {
                    return Ok(Some(message(repo, history, *number)?.text()));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// A message of the root by its number.
    pub fn message(&self, repo: &Repo, number: u64) -> Result<Message, Error> {
        message(repo, &self.history, number)
    }

    fn history_of(&self, context: &ContextId) -> &History {
        self.branches.iter().find(|history| history.context == *context).unwrap_or(&self.history)
    }

    /// The newest execution of each node, and when it ended.
    pub fn executions(&self) -> BTreeMap<&NodeId, (Timestamp, &NodeExecution)> {
        let executed = self.events().filter_map(|(_, recorded)| match &recorded.event {
            Event::NodeExecution(data) => Some((&data.node_id, (recorded.at, data))),
            _ => None,
        });
        executed.collect()
    }

    /// The newest answer to each gate.
    pub fn answers(&self) -> BTreeMap<&NodeId, &HumanInteraction> {
        let answered = self.events().filter_map(|(_, recorded)| match &recorded.event {
            Event::HumanInteraction(data) => Some((&data.node_id, data)),
            _ => None,
        });
        answered.collect()
    }

    fn turn_of(&self, record: &Record, at: usize, recorded: &Recorded) -> Option<TurnView> {
        let inherited = !self.summary.run.has(&record.context);
        let left = self.left.contains(&(record.commit, at));
        TurnView::read(recorded).map(|turn| TurnView { inherited, left, ..turn })
    }

    fn failure_of(&self, record: &Record, at: usize, recorded: &Recorded) -> Option<NodeFailure> {
        let left = self.left.contains(&(record.commit, at));
        NodeFailure::read(recorded).map(|failure| NodeFailure { left, ..failure })
    }

    fn answer_of(&self, record: &Record, at: usize, recorded: &Recorded) -> Option<AnswerView> {
        let inherited = !self.summary.run.has(&record.context);
        let left = self.left.contains(&(record.commit, at));
        AnswerView::read(recorded, &record.context).map(|answer| AnswerView { inherited, left, ..answer })
    }

    /// The events of all contexts with the records that hold them, in order of time, those a replay has inherited first.
    pub fn all_events(&self) -> Vec<(&Record, &Recorded)> {
        self.placed_events().into_iter().map(|(record, _, recorded)| (record, recorded)).collect()
    }

    /// The same with the place of each event in its record.
    fn placed_events(&self) -> Vec<(&Record, usize, &Recorded)> {
        let histories = std::iter::once(&self.history).chain(&self.branches);
        let own = histories.flat_map(|history| {
            let is_own = |record: &&Record| record.context.within_run() == history.context.within_run();
            history.records.iter().filter(is_own)
        });
        let placed =
            own.flat_map(|record| record.events.iter().enumerate().map(move |(at, event)| (record, at, event)));
        let mut all: Vec<(&Record, usize, &Recorded)> = placed.collect();
        all.sort_by_key(|(_, _, recorded)| recorded.at);
        all
    }

    /// All events of the root with the records that hold them.
    pub fn events(&self) -> impl Iterator<Item = (CommitId, &Recorded)> {
        self.history.records.iter().flat_map(|record| record.events.iter().map(|event| (record.commit, event)))
    }
}

fn message(repo: &Repo, history: &History, number: u64) -> Result<Message, Error> {
    let value = history.message(repo, number)?;
    serde_json::from_value(value).map_err(|source| Error::Message { number, source })
}
