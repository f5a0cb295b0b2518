//! Reading a chain of records back.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    CONTEXT_TRAILER, ChainEnd, Error, LANDED_TRAILER, RECORD_TRAILER, RECORD_VERSION, SESSIONS, TASK_TRAILER,
    context_ref, contexts, message, root_ref, unreadable,
};
use crate::git::{Repo, TreeId};
use pleach_core::event::{ContextForked, CutPoint, Event, ForkKind, MessageRange, PipelineStarted, Recorded};
use pleach_core::ids::{BranchName, CommitId, ContextId, RepoPath, RunId, SessionId, TaskId};
use pleach_core::state::State;
use pleach_core::trailer::CommitMessage;

/// One record of a chain.
#[derive(Debug, Clone)]
pub struct Record {
    /// The commit that holds it.
    pub commit: CommitId,
    /// The context that wrote it: that of the chain, or one it was forked from.
    pub context: ContextId,
    /// Its tree, for the messages.
    pub(super) tree: TreeId,
    /// Its events, in order.
    pub events: Vec<Recorded>,
}

/// A chain of records, oldest first, whole or from its newest kept state on.
#[derive(Debug)]
pub struct History {
    /// The session.
    pub session: SessionId,
    /// The context.
    pub context: ContextId,
    /// What the session was started with.
    pub started: PipelineStarted,
    /// When its run was started.
    pub started_at: jiff::Timestamp,
    /// The first record.
    pub first: CommitId,
    /// The first records of the replays it has come through, oldest first.
    pub forks: Vec<CommitId>,
    /// The newest record.
    pub tip: CommitId,
    /// The state before `records`, when only the newest part was read.
    pub kept: Option<State>,
    /// The records read.
    pub records: Vec<Record>,
}

/// What the newest record of a session on a task of a tree tells without being read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSummary {
    /// The task.
    pub task: TaskId,
    /// What the session has landed, if it has.
    pub landed: Option<CommitId>,
}

/// How far back a chain is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To its beginning.
    Whole,
    /// To the newest record that keeps the state.
    KeptState,
    /// To the newest of those before the record with this message.
    Message(u64),
    /// To the newest of those before so many turns, or four times as many checkpoints.
    Turns(usize),
}

#[derive(Deserialize)]
struct StoredState {
    version: u32,
    first: CommitId,
    #[serde(default)]
    forks: Vec<CommitId>,
    state: State,
}

/// The first branch that a record says is the session's own, and whose name tells otherwise. Branches of the session move,
/// are pushed and are removed with it, and a record may come from anywhere.
fn foreign_branch<'r>(
    session: &SessionId,
    started: &'r PipelineStarted,
    kept: Option<&'r State>,
    records: &'r [Record],
) -> Option<&'r BranchName> {
    let of_context = format!("{session}--");
    let is_own = |branch: &BranchName| {
        let last = branch.as_str().rsplit('/').next().unwrap_or_default();
        let is_of_task = started.task.as_ref().is_some_and(|task| last == task.id.as_str());
        branch.as_str().contains('/') && (last == session.as_str() || last.starts_with(&of_context) || is_of_task)
    };
    let forked = records.iter().flat_map(|record| &record.events).filter_map(|recorded| match &recorded.event {
        Event::ContextForked(fork) => Some(&fork.branches),
        _ => None,
    });
    let of_state = kept
        .into_iter()
        .flat_map(|state| std::iter::once(&state.branches).chain(state.forks.values().map(|fork| &fork.branches)));
    let mut all = std::iter::once(&started.branches).chain(forked).chain(of_state).flat_map(|named| named.values());
    all.find(|branch| !is_own(branch))
}

impl History {
    /// The sessions of a repository that have a run, whether it can be read or not.
    pub fn sessions(repo: &Repo) -> Result<Vec<SessionId>, Error> {
        let mut sessions: Vec<SessionId> = Self::all_runs(repo)?.into_iter().map(|run| run.session).collect();
        sessions.dedup();
        Ok(sessions)
    }

    /// The runs of all sessions of a repository, whether they can be read or not, those of a session together.
    pub fn all_runs(repo: &Repo) -> Result<Vec<RunId>, Error> {
        let refs = repo.refs().names(SESSIONS)?;
        let roots = refs.iter().filter_map(|name| name.strip_prefix(SESSIONS));
        let mut runs: Vec<RunId> =
            roots.filter(|name| name.contains('/')).filter_map(|root| root.parse().ok()).collect();
        let number = |run: &RunId| run.root.replay_number().unwrap_or_default();
        runs.sort_by(|one, other| (&one.session, number(one)).cmp(&(&other.session, number(other))));
        Ok(runs)
    }

    /// The runs of a session, in the order in which they were started.
    pub fn runs(repo: &Repo, session: &SessionId) -> Result<Vec<RunId>, Error> {
        let mut roots: Vec<ContextId> =
            contexts(repo, session)?.into_iter().filter(|context| context.run_root() == *context).collect();
        roots.sort_by_key(ContextId::replay_number);
        let is_root = |root: &ContextId| *root == ContextId::main() || root.replay_number().is_some();
        Ok(roots.into_iter().filter(is_root).map(|root| RunId { session: session.clone(), root }).collect())
    }

    /// The fork that a replay begins with, by its first record.
    pub fn fork_of(repo: &Repo, session: &SessionId, record: CommitId) -> Result<ContextForked, Error> {
        let read = || read_record(repo, session, record, repo.commit(record)?.tree);
        let found = read().map_err(|error| error.of(session))?;
        match found.events.into_iter().next().map(|recorded| recorded.event) {
            Some(Event::ContextForked(fork)) => Ok(fork),
            _ => Err(unreadable(session, record, "it is no replay".into())),
        }
    }

    /// Where a replay goes on, by the first record of one of its contexts; none for other contexts.
    pub(super) fn cut_before(repo: &Repo, session: &SessionId, first: CommitId) -> Result<Option<CutPoint>, Error> {
        let found = read_record(repo, session, first, repo.commit(first)?.tree)?;
        Ok(match found.events.into_iter().next().map(|recorded| recorded.event) {
            Some(Event::ContextForked(fork)) => fork.replayed.map(|replayed| replayed.to),
            _ => None,
        })
    }

    /// The newest event that counts at a point.
    pub fn event_at(repo: &Repo, session: &SessionId, point: CutPoint) -> Result<Option<Recorded>, Error> {
        let read = || read_record(repo, session, point.record, repo.commit(point.record)?.tree);
        let mut found = read().map_err(|error| error.of(session))?;
        found.events.truncate(point.events);
        Ok(found.events.pop())
    }

    /// A chain of values, for tests.
    #[cfg(test)]
    pub(super) fn of_values(context: ContextId, records: Vec<Record>) -> Self {
        let tip = records.last().map_or(CommitId::from_bytes([0; 20]), |record| record.commit);
        let data = serde_json::json!({
            "name": "p", "goal": "", "dot": "", "dot_path": "", "files": {}, "inputs": {}, "config": {}, "base": {},
            "branches": {},
        });
        Self {
            session: "abcdefgh".parse().expect("an id"),
            context,
            started: serde_json::from_value(data).expect("a start"),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            first: tip,
            forks: Vec::new(),
            tip,
            kept: None,
            records,
        }
    }

    /// Where it ends, for whoever goes on from there; with its state.
    pub fn end(&self, state: &State) -> ChainEnd {
        ChainEnd { first: self.first, forks: self.forks.clone(), tip: self.tip, messages: state.messages }
    }

    /// The run whose record it is, or a branch of that.
    pub fn run(&self) -> RunId {
        RunId::of_context(&self.session, &self.context)
    }

    /// The task of a tree a session works on, and whether it has landed; none of other sessions. Nothing but the commit of
    /// the newest record of its main context is read.
    pub fn task_summary(repo: &Repo, session: &SessionId) -> Result<Option<TaskSummary>, Error> {
        let newest = || match repo.refs().find(&root_ref(session))? {
            Some(tip) => repo.commit(tip).map(Some),
            None => Ok(None),
        };
        let Some(newest) = newest().map_err(|error| Error::from(error).of(session))? else { return Ok(None) };
        let message = CommitMessage::read(&newest.text());
        let task = message.trailer(TASK_TRAILER).and_then(|task| task.parse().ok());
        let landed = message.trailer(LANDED_TRAILER).and_then(|commit| commit.parse().ok());
        Ok(task.map(|task| TaskSummary { task, landed }))
    }

    /// Reads the whole chain of a run's root.
    pub fn all(repo: &Repo, run: impl Into<RunId>) -> Result<Self, Error> {
        let RunId { session, root } = run.into();
        Self::all_in(repo, &session, &root)
    }

    /// Reads the chain of a run's root from its newest kept state on. The state is a cache: one of another version is
    /// passed over.
    pub fn newest(repo: &Repo, run: impl Into<RunId>) -> Result<Self, Error> {
        let RunId { session, root } = run.into();
        Self::newest_in(repo, &session, &root)
    }

    /// Reads a whole chain, with what lies before it in those it was forked from.
    pub fn all_in(repo: &Repo, session: &SessionId, context: &ContextId) -> Result<Self, Error> {
        Self::read(repo, session, context, Reach::Whole)
    }

    /// Reads a whole chain up to one of its records.
    pub fn all_at(repo: &Repo, session: &SessionId, context: &ContextId, record: CommitId) -> Result<Self, Error> {
        Self::read_from(repo, session, context, (record, None), Reach::Whole).map_err(|error| error.of(session))
    }

    /// Reads a whole chain up to a point of it.
    pub fn up_to(repo: &Repo, session: &SessionId, context: &ContextId, point: CutPoint) -> Result<Self, Error> {
        let tip = (point.record, Some(point.events));
        Self::read_from(repo, session, context, tip, Reach::Whole).map_err(|error| error.of(session))
    }

    /// As [`History::all_in`], from its newest kept state on.
    pub fn newest_in(repo: &Repo, session: &SessionId, context: &ContextId) -> Result<Self, Error> {
        Self::read(repo, session, context, Reach::KeptState)
    }

    /// As [`History::newest_in`], and as far back as this message and all after it.
    pub fn newest_with(repo: &Repo, session: &SessionId, context: &ContextId, message: u64) -> Result<Self, Error> {
        Self::read(repo, session, context, Reach::Message(message))
    }

    /// As [`History::newest`], and as far back as so many turns, or four times as many checkpoints.
    pub fn newest_turns(repo: &Repo, run: &RunId, turns: usize) -> Result<Self, Error> {
        Self::read(repo, &run.session, &run.root, Reach::Turns(turns))
    }

    fn read(repo: &Repo, session: &SessionId, context: &ContextId, reach: Reach) -> Result<Self, Error> {
        Self::read_back(repo, session, context, reach).map_err(|error| error.of(session))
    }

    fn read_back(repo: &Repo, session: &SessionId, context: &ContextId, reach: Reach) -> Result<Self, Error> {
        let tip = repo
            .refs()
            .find(&context_ref(session, context))?
            .ok_or_else(|| Error::Missing { session: session.clone() })?;
        Self::read_from(repo, session, context, (tip, None), reach)
    }

    /// Reads back from a record, of which only so many events may count.
    fn read_from(
        repo: &Repo,
        session: &SessionId,
        context: &ContextId,
        (tip, counting): (CommitId, Option<usize>),
        reach: Reach,
    ) -> Result<Self, Error> {
        let (mut records, mut forks) = (Vec::new(), Vec::new());
        let mut kept = None;
        // What a return goes back to may be older than any state.
        let mut goes_back = false;
        let mut is_far_enough = reach == Reach::KeptState;
        let (mut turns, mut checkpoints) = (0, 0);
        let mut next = Some((tip, counting));
        while let Some((id, counting)) = next {
            let commit = repo.commit(id)?;
            let message = CommitMessage::read(&commit.text());
            let Some(version) = message.trailer(RECORD_TRAILER).map(str::to_owned) else { break };
            if version.parse::<u32>().map_or(true, |version| version > RECORD_VERSION) {
                let why = format!("its layout has version {version}, this pleach reads up to {RECORD_VERSION}");
                return Err(unreadable(session, id, why));
            }
            let may_stop = is_far_enough && !goes_back && counting.is_none();
            if may_stop && let Some(cache) = read_stored_state(repo, commit.tree)? {
                // The state after this record: its events are in it already.
                kept = Some(cache);
                break;
            }
            let context = message.trailer(CONTEXT_TRAILER).and_then(|name| name.parse().ok());
            let context = context.ok_or_else(|| unreadable(session, id, "it names no context".into()))?;
            let mut record = Record { context, ..read_record(repo, session, id, commit.tree)? };
            record.events.truncate(counting.unwrap_or(usize::MAX));
            goes_back |= record.goes_back();
            for event in &record.events {
                turns += usize::from(matches!(event.event, Event::AgentTurn(_) | Event::ToolExecution(_)));
                checkpoints += usize::from(matches!(event.event, Event::Checkpoint(_)));
            }
            is_far_enough |= match reach {
                Reach::Message(message) => record.holds(message),
                Reach::Turns(most) => turns >= most || checkpoints >= 4 * most,
                Reach::Whole | Reach::KeptState => false,
            };
            let before = commit.parents.first().copied();
            next = before.map(|before| (before, None));
            if let Some(fork) = record.replay() {
                let Some(to) =
                    fork.replayed.as_ref().map(|replayed| replayed.to).filter(|to| Some(to.record) == before)
                else {
                    return Err(unreadable(session, id, "it does not go on from the record it names".into()));
                };
                next = Some((to.record, Some(to.events)));
                forks.extend(fork.is_run().then_some(id));
            }
            records.push(record);
        }
        records.reverse();
        let first = match (&kept, records.first()) {
            (Some(kept), _) => kept.first,
            (None, Some(record)) => record.commit,
            (None, None) => return Err(unreadable(session, tip, "it is not a record".into())),
        };
        let opening = read_record(repo, session, first, repo.commit(first)?.tree)?;
        let Some(Recorded { at, event: Event::PipelineStarted(started) }) = opening.events.first() else {
            return Err(unreadable(session, first, "the first event is not the session's start".into()));
        };
        let (mut at, mut started) = (*at, started.clone());
        forks.extend(kept.iter().flat_map(|kept| kept.forks.iter().rev()));
        forks.reverse();
        for fork in &forks {
            let record = read_record(repo, session, *fork, repo.commit(*fork)?.tree)?;
            match record.events.first() {
                Some(Recorded { at: forked, event: Event::ContextForked(data) }) => {
                    at = *forked;
                    started.replayed_as(data);
                }
                _ => return Err(unreadable(session, *fork, "it is no replay".into())),
            }
        }
        if started.branches.is_empty() || started.branches.keys().any(|repo| !started.base.contains_key(repo)) {
            return Err(unreadable(
                session,
                first,
                "the session's start names no branch, or one without its base".into(),
            ));
        }
        if let Some(foreign) = foreign_branch(session, &started, kept.as_ref().map(|kept| &kept.state), &records) {
            let why = format!("it names `{foreign}` as a branch of the session, which is none of its own");
            return Err(unreadable(session, first, why));
        }
        Ok(Self {
            session: session.clone(),
            context: context.clone(),
            started,
            started_at: at,
            first,
            forks,
            tip,
            kept: kept.map(|kept| kept.state),
            records,
        })
    }

    /// A file of the first record, as the tree a task's session was started with.
    pub fn opening_file(&self, repo: &Repo, name: &str) -> Result<Option<String>, Error> {
        let read = || repo.tree_file(repo.commit(self.first)?.tree, &RepoPath::from(name));
        let bytes = read().map_err(|error| Error::from(error).of(&self.session))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// All events that were read, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Recorded> {
        self.records.iter().flat_map(|record| &record.events)
    }

    /// The messages of a range.
    pub fn messages(&self, repo: &Repo, range: MessageRange) -> Result<Vec<Value>, Error> {
        (range.first..=range.last).map(|number| self.message(repo, number)).collect()
    }

    /// A message by its number. It is in the record of the turn whose range holds the number, or of what names it.
    pub fn message(&self, repo: &Repo, number: u64) -> Result<Value, Error> {
        let record = self.records.iter().find(|record| record.holds(number));
        let missing = || unreadable(&self.session, self.tip, format!("message {number} is in no record"));
        let record = record.ok_or_else(missing)?;
        let file = |path: &str| -> Result<Option<Vec<u8>>, Error> {
            repo.tree_file(record.tree, &RepoPath::from(path)).map_err(|error| Error::from(error).of(&self.session))
        };
        let why = |why: String| unreadable(&self.session, record.commit, why);
        let bytes = file(&message::path(number))?.ok_or_else(|| why(format!("message {number} is missing")))?;
        let mut value = serde_json::from_slice(&bytes).map_err(|error| why(format!("message {number}: {error}")))?;
        message::join(&mut value, &mut |path| {
            Ok::<_, Error>(file(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        })?;
        Ok(value)
    }
}

impl Record {
    /// The fork it begins, if a replay begins with it.
    fn replay(&self) -> Option<&ContextForked> {
        match &self.events.first()?.event {
            Event::ContextForked(fork) if fork.context == self.context && fork.kind == ForkKind::Replay => Some(fork),
            _ => None,
        }
    }

    fn goes_back(&self) -> bool {
        self.events.iter().any(|recorded| matches!(&recorded.event, Event::Resumed(resumed) if resumed.back.is_some()))
    }

    fn holds(&self, number: u64) -> bool {
        self.events.iter().any(|recorded| match &recorded.event {
            Event::AgentTurn(turn) => turn.messages.is_some_and(|range| (range.first..=range.last).contains(&number)),
            Event::ToolExecution(tool) => tool.output == Some(number),
            Event::NodeExecution(node) => node.stderr == Some(number),
            Event::StepFinished(step) => step.log == Some(number),
            _ => false,
        })
    }
}

fn read_record(repo: &Repo, session: &SessionId, commit: CommitId, tree: TreeId) -> Result<Record, Error> {
    let bytes = repo
        .tree_file(tree, &RepoPath::from("events.json"))?
        .ok_or_else(|| unreadable(session, commit, "events.json is missing".into()))?;
    let texts: Vec<&RawValue> =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(session, commit, error.to_string()))?;
    let events = texts.into_iter().map(|text| Recorded::from_text(text.get())).collect::<Result<_, _>>();
    Ok(Record {
        commit,
        context: ContextId::main(),
        tree,
        events: events.map_err(|source| Error::Event { commit, source })?,
    })
}

/// The state kept in a record, unless there is none or it is not of this version.
fn read_stored_state(repo: &Repo, tree: TreeId) -> Result<Option<StoredState>, Error> {
    let bytes = repo.tree_file(tree, &RepoPath::from("state.json"))?;
    let kept = bytes.and_then(|bytes| serde_json::from_slice::<StoredState>(&bytes).ok());
    Ok(kept.filter(|kept| kept.version == RECORD_VERSION))
}
