//! Taking a session up again: load, fold, bring branch and working copy to the newest record, go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::start::{start_node, take_lock, take_worktree_lock};
use super::{Engine, Error, Session};
use crate::clock;
use crate::event::{MessageRange, PipelineStarted, Resumed};
use crate::git::Repo;
use crate::ids::{ContextId, NodeId, SessionId};
use crate::llm::Message;
use crate::plan::diagnostic::Severity;
use crate::plan::pipeline::Pipeline;
use crate::plan::{self, Inputs};
use crate::record::{Batch, History, Recorder, context_ref};
use crate::state::{Phase, Position, State};
use crate::workspace::branch_ref;

/// The pipeline of a session, read again from its record.
pub fn recorded_pipeline(started: &PipelineStarted) -> Result<Pipeline, Error> {
    let inputs = Inputs { files: started.files.clone(), values: started.inputs.clone() };
    let (pipeline, diagnostics) = plan::load(&started.dot, &inputs, &[]);
    match pipeline {
        Some(pipeline) if diagnostics.iter().all(|found| found.severity != Severity::Error) => Ok(pipeline),
        _ => Err(Error::Invalid { diagnostics }),
    }
}

/// The state of a session, folded from its record.
pub fn recorded_state(history: &History, pipeline: &Pipeline) -> Result<State, Error> {
    let mut state = match &history.kept {
        Some(kept) => kept.clone(),
        None => State::new(start_node(pipeline)?),
    };
    for event in history.events() {
        state.apply(event)?;
    }
    Ok(state)
}

/// A session that has not ended, as its record has it.
pub(super) struct Found {
    pub history: History,
    pub pipeline: Pipeline,
    pub state: State,
}

/// Reads a session that is to be written to. The caller holds its locks.
pub(super) fn find(repo: &Repo, id: &SessionId) -> Result<Found, Error> {
    let history = History::newest(repo, id, &ContextId::main())?;
    // These refs are this session's alone, so a lock on one of them was left by a killed run.
    repo.release_stale_lock(&context_ref(id, &ContextId::main()))?;
    for branch in history.started.branches.values() {
        repo.release_stale_lock(&branch_ref(branch))?;
    }
    let pipeline = recorded_pipeline(&history.started)?;
    let state = recorded_state(&history, &pipeline)?;
    if !matches!(state.phase, Phase::Running | Phase::Paused { .. }) {
        return Err(Error::Over { session: id.clone(), phase: state.phase.word() });
    }
    Ok(Found { history, pipeline, state })
}

impl Session {
    /// Takes a session up again. Returns it, and where uncommitted work of the killed process was saved.
    pub async fn resume(engine: Arc<Engine>, repo: Repo, id: &SessionId) -> Result<(Self, Option<String>), Error> {
        let mut session = tokio::task::block_in_place(|| Self::open(engine, repo, id))?;
        session.record_resumed()?;
        let kept = session.make_copy().await?;
        session.load_interrupted()?;
        session.degrade = true;
        Ok((session, kept))
    }

    fn open(engine: Arc<Engine>, repo: Repo, id: &SessionId) -> Result<Self, Error> {
        let lock = take_lock(&repo, id)?;
        // Whatever a killed run started dies by itself; its supervisor holds this lock until then.
        let worktree_lock = take_worktree_lock(&repo, id)?;
        let Found { history, pipeline, state } = find(&repo, id)?;
        let start_node = start_node(&pipeline)?;
        let messages = (history.first, history.tip, state.messages);
        let recorder = Recorder::resume(repo.clone(), id.clone(), ContextId::main(), engine.redactor.clone(), messages);
        Ok(Self {
            id: id.clone(),
            started: history.started.clone(),
            pipeline: Arc::new(pipeline),
            events_since_state: history.events().count(),
            state,
            engine,
            repo,
            recorder,
            copy: None,
            worktree_lock,
            unwritten: None,
            unseen: Vec::new(),
            responses: BTreeMap::new(),
            threads: BTreeMap::new(),
            interrupted: Vec::new(),
            degrade: false,
            start_node,
            _lock: lock,
        })
    }

    fn record_resumed(&mut self) -> Result<(), Error> {
        let mut seen = Vec::new();
        let batch = Batch { summary: "resume".into(), ..Batch::default() };
        let event = Resumed::default();
        let writer = self.repo.writer();
        self.record(writer, batch, vec![event.into()], clock::now(), &mut |event| seen.push(event.clone()))?;
        self.unseen.extend(seen);
        Ok(())
    }

    fn load_interrupted(&mut self) -> Result<(), Error> {
        let Position::Running { turns, .. } = &self.state.position else { return Ok(()) };
        let ranges: Vec<MessageRange> = turns.iter().filter_map(|turn| turn.messages).collect();
        if !ranges.is_empty() {
            self.interrupted = self.read_messages(&ranges)?;
        }
        Ok(())
    }

    /// The messages of a conversation, read from the record the first time.
    pub(super) fn thread_messages(&mut self, thread: &str) -> Result<Vec<Message>, Error> {
        if let Some(messages) = self.threads.get(thread) {
            return Ok(messages.clone());
        }
        let ranges = self.state.threads.get(thread).cloned().unwrap_or_default();
        let messages = if ranges.is_empty() { Vec::new() } else { self.read_messages(&ranges)? };
        self.threads.insert(thread.to_owned(), messages.clone());
        Ok(messages)
    }

    /// The newest answer of each node, read from the record the first time.
    pub(super) fn responses(&mut self) -> Result<&BTreeMap<NodeId, String>, Error> {
        let missing: Vec<(NodeId, u64)> = self
            .state
            .nodes
            .iter()
            .filter(|(id, _)| !self.responses.contains_key(*id))
            .filter_map(|(id, node)| Some((id.clone(), node.response?)))
            .collect();
        if !missing.is_empty() {
            let history = History::whole(&self.repo, &self.id, &ContextId::main())?;
            for (id, number) in missing {
                let message = history.message(&self.repo, number)?;
                let text = serde_json::from_value::<Message>(message).map(|message| message.text());
                self.responses.insert(id, text.unwrap_or_default());
            }
        }
        Ok(&self.responses)
    }

    fn read_messages(&self, ranges: &[MessageRange]) -> Result<Vec<Message>, Error> {
        let history = History::whole(&self.repo, &self.id, &ContextId::main())?;
        let mut messages = Vec::new();
        for number in ranges.iter().flat_map(|range| range.first..=range.last) {
            let value = history.message(&self.repo, number)?;
            let message = serde_json::from_value(value).map_err(|error| Error::Message { number, source: error })?;
            messages.push(message);
        }
        Ok(messages)
    }
}
