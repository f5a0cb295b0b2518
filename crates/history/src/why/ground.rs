//! The repositories of a question, and what of them was read: each commit and each session once.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use git::record::{self, History, Record, SESSIONS, StoredEntry, read_entry};
use git::{Repo, TreeId};
use pleach_core::event::{Event, PipelineStarted, Snapshot};
use pleach_core::ids::{BranchName, CommitId, ContextId, EntryId, RepoName, RepoPath, SessionId, branch_of_key};

use super::at_once::at_once;
use super::error::WhyError;
use super::origin::KnownCommit;

/// A context of a session.
type RunKey = (SessionId, ContextId);

/// Where lines are asked about, and where sessions are recorded.
#[derive(Debug)]
pub struct WhyGround {
    /// The repository of the file.
    pub code: Repo,
    /// What sessions call it.
    pub name: RepoName,
    /// The repository with the records.
    pub records: Repo,
    commits: RefCell<HashMap<CommitId, Rc<KnownCommit>>>,
    runs: RefCell<HashMap<RunKey, Option<Rc<History>>>>,
    unread: RefCell<BTreeMap<SessionId, String>>,
    targets: RefCell<Option<Rc<Vec<BranchName>>>>,
}

impl WhyGround {
    /// Of a file's repository, by the name sessions have for it, and the one with the records.
    pub fn new(code: Repo, name: RepoName, records: Repo) -> Self {
        Self {
            code,
            name,
            records,
            commits: RefCell::default(),
            runs: RefCell::default(),
            unread: RefCell::default(),
            targets: RefCell::default(),
        }
    }

    /// A commit of the file's repository.
    pub(super) fn commit(&self, id: CommitId) -> Result<Rc<KnownCommit>, WhyError> {
        if let Some(known) = self.commits.borrow().get(&id) {
            return Ok(known.clone());
        }
        let read = self.code.commit(id)?;
        let is_cut_off = !read.parents.is_empty() && self.code.history().is_shallow_at(id)?;
        let known = Rc::new(KnownCommit::read(read, is_cut_off));
        self.commits.borrow_mut().insert(id, known.clone());
        Ok(known)
    }

    /// The content of a file at a commit.
    pub(super) fn content(&self, id: CommitId, path: &RepoPath) -> Result<Option<Vec<u8>>, WhyError> {
        Ok(self.code.tree_file(self.tree(id)?, path)?)
    }

    /// The files of a commit.
    pub(super) fn tree(&self, id: CommitId) -> Result<TreeId, WhyError> {
        let known = self.commits.borrow().get(&id).map(|known| known.commit.tree);
        Ok(known.map_or_else(|| self.code.tree_of(id), Ok)?)
    }

    /// Whether a commit is here; records may be all that was fetched.
    pub(super) fn has(&self, id: CommitId) -> bool {
        self.code.tree_of(id).is_ok()
    }

    /// What a session's root has recorded; none where it is not here or cannot be read, which is remembered.
    pub(super) fn session(&self, session: &SessionId) -> Option<Rc<History>> {
        self.context(session, &ContextId::main())
    }

    /// What a context of a session has recorded.
    pub(crate) fn context(&self, session: &SessionId, context: &ContextId) -> Option<Rc<History>> {
        let key = (session.clone(), context.clone());
        if let Some(known) = self.runs.borrow().get(&key) {
            return known.clone();
        }
        self.keep(key, History::all_in(&self.records, session, context))
    }

    fn keep(&self, key: RunKey, read: Result<History, record::Error>) -> Option<Rc<History>> {
        let read = match read {
            Ok(history) => Some(Rc::new(history)),
            Err(error) => {
                let why = match error {
                    record::Error::Missing { .. } => "its record is not in this repository".to_owned(),
                    other => other.to_string(),
                };
                self.unread.borrow_mut().insert(key.0.clone(), why);
                None
            }
        };
        self.runs.borrow_mut().insert(key, read.clone());
        read
    }

    /// Reads what the roots of several sessions have recorded, a few at once.
    pub(super) fn read_ahead(&self, sessions: Vec<SessionId>) {
        let mut keys: Vec<RunKey> = sessions.into_iter().map(|session| (session, ContextId::main())).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| !self.runs.borrow().contains_key(key));
        let records = &self.records;
        let read = at_once(&keys, |(session, context)| History::all_in(records, session, context));
        for (key, read) in keys.into_iter().zip(read) {
            self.keep(key, read);
        }
    }

    /// The runs of a session: its root, and the roots of its replays.
    pub(super) fn runs_of(&self, session: &SessionId) -> Result<Vec<ContextId>, WhyError> {
        let mut roots = record::contexts(&self.records, session)?;
        roots.retain(ContextId::is_root);
        roots.sort_by_key(|context| *context != ContextId::main());
        Ok(roots)
    }

    /// Whether any session is recorded.
    pub(super) fn has_sessions(&self) -> Result<bool, WhyError> {
        Ok(!self.records.refs().names(SESSIONS)?.is_empty())
    }

    /// The newest record of every run.
    pub(super) fn newest_records(&self) -> Result<Vec<(SessionId, ContextId, CommitId)>, WhyError> {
        let run = |(name, at): (String, CommitId)| {
            let (session, context) = name.strip_prefix(SESSIONS)?.split_once('/')?;
            Some((session.parse().ok()?, context.parse().ok().filter(ContextId::is_root)?, at))
        };
        Ok(self.records.refs().list(SESSIONS)?.into_iter().filter_map(run).collect())
    }

    /// An entry of the merge queue, open or closed.
    pub(super) fn entry(&self, id: &EntryId) -> Result<Option<StoredEntry>, WhyError> {
        for target in self.queues()?.iter() {
            if let Some(stored) = read_entry(&self.code, target, id)? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    fn queues(&self) -> Result<Rc<Vec<BranchName>>, WhyError> {
        if let Some(known) = &*self.targets.borrow() {
            return Ok(known.clone());
        }
        let names = self.code.refs().names(record::entries::QUEUES)?;
        let key = |name: &String| Some(name.strip_prefix(record::entries::QUEUES)?.split('/').next()?.to_owned());
        let mut targets: Vec<BranchName> = names.iter().filter_map(|name| branch_of_key(&key(name)?)).collect();
        targets.dedup();
        let targets = Rc::new(targets);
        *self.targets.borrow_mut() = Some(targets.clone());
        Ok(targets)
    }

    /// The sessions whose records cannot be read, each with why.
    pub(super) fn unread(&self) -> BTreeMap<SessionId, String> {
        self.unread.borrow().clone()
    }

    /// The commit of this repository in one for each.
    pub(super) fn own(&self, started: &PipelineStarted, commits: &Snapshot) -> Option<CommitId> {
        commits.get(self.name_in(started)).copied()
    }

    /// What a session calls this repository: the one with its record is that whatever this clone is called.
    fn name_in<'a>(&'a self, started: &'a PipelineStarted) -> &'a RepoName {
        if self.holds_records() { started.record_repo() } else { &self.name }
    }

    /// Whether the sessions are recorded in the repository of the file.
    pub(super) fn holds_records(&self) -> bool {
        self.code.common_dir() == self.records.common_dir()
    }

    /// The commit that an event says the work is at.
    pub(super) fn work_of(&self, started: &PipelineStarted, event: &Event) -> Option<CommitId> {
        let own = |commits| self.own(started, commits);
        let of = |repo: &RepoName, commit| (repo == self.name_in(started)).then_some(commit);
        match event {
            Event::AgentTurn(turn) => own(turn.git_sha.as_ref()?),
            Event::ToolExecution(tool) => own(tool.git_sha.as_ref()?),
            Event::WorktreeMerged(merged) => of(&merged.repo, merged.git_sha),
            Event::ContextJoined(joined) => own(&joined.result),
            Event::StepFinished(step) => of(&step.repo, step.git_sha),
            // Where it went back to a turn, the commit that did so.
            Event::Resumed(resumed) => own(&resumed.back.as_ref()?.work),
            _ => None,
        }
    }

    /// The newest commit of a run.
    pub(super) fn newest_work(&self, history: &History) -> Option<CommitId> {
        let started = &history.started;
        let of = |record: &Record| record.events.iter().rev().find_map(|all| self.work_of(started, &all.event));
        history.records.iter().rev().find_map(of)
    }
}
