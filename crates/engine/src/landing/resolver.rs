//! Has agents resolve what cannot be merged: each in a session of its own, on the commit of the conflict, beside the tests
//! of everything else. Their files land like all others: a later batch merges and tests them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answer::{AgentAnswer, judge};
use super::candidate::{MergeBuild, MergeOptions, UnfitMerge, build};
use super::cleanup::remove_session_files;
use super::conflict::{OpenConflict, forget_conflict, keep_conflict, open_conflict, resolution};
use super::error::QueueError;
use super::landing::{tip_of, update, update_if};
use super::resolver_request::{LandedWork, request, resolving_words};
use super::resolvers::ResolverEnd;
use super::run::QueueRun;
use super::settings::ResolverSettings;
use super::store::MergeQueue;
use super::test_slot::TestPlace;
use crate::merging::left_words;
use crate::session::{
    Session, SessionEnded, SessionRepo, StartRequest, cancel, make_first_copy, open_session, run_whole_session,
};
use crate::view::Summary;
use git::record::{StoredEntry, entry_log};
use git::workspace::conflict_path;
use git::{Head, Repo, TreeId};
use pleach_core::event::MergeResolution;
use pleach_core::ids::{CommitId, EntryId, RepoPath, SessionId};
use pleach_core::merge::Tier;
use pleach_core::plan::{self, Inputs, print};
use pleach_core::queue::{EntryState, EntryTest, QueueEntry, ResolutionRequest};
use pleach_core::state::Phase;
use pleach_core::text::named;

/// The built-in pipeline of the agent that resolves conflicts.
const RESOLVE_PIPELINE: &str = include_str!("../../pipelines/resolve.dot");

/// An agent that works on the conflict of an entry.
struct ResolverJob {
    place: TestPlace,
    entry: QueueEntry,
    conflict: OpenConflict,
    tests: Vec<EntryTest>,
    /// What the tests printed when they last failed.
    log: Option<String>,
    options: MergeOptions,
}

/// How it starts.
struct ResolverStart {
    conflict: OpenConflict,
    log: Option<String>,
    landed: LandedWork,
    session: Session,
}

impl QueueRun {
    /// Starts agents on conflicts, up to the limit; conflicts no agent may resolve are handed on. Agents whose entry
    /// was dropped or queued again are stopped.
    pub(super) fn start_resolvers(&mut self, queue: &mut MergeQueue) -> Result<(), QueueError> {
        *queue = tokio::task::block_in_place(|| MergeQueue::read(&self.place.repo, &self.place.target))?;
        let supervisor = Arc::clone(&self.place.engine.supervisor);
        self.resolvers.stop(&supervisor, |entry, session| {
            queue.entry(entry).is_some_and(|stored| is_resolved_by(&stored.entry, session))
        });
        let at_once = self.settings.resolver.as_ref().map_or(1, |resolver| resolver.at_once);
        while self.resolvers.sessions.len() < at_once
            && self.outcome.held.is_none()
            && !self.place.engine.cancel.is_stopped()
            && let Some(id) = self.conflicted(queue, true)
        {
            tokio::task::block_in_place(|| self.start_resolver(queue, &id))?;
        }
        Ok(())
    }

    /// Starts an agent on a conflict that waited for other work in its files. False if there is none.
    pub(super) fn start_waiting(&mut self, queue: &mut MergeQueue) -> Result<bool, QueueError> {
        let waiting = self.conflicted(queue, false);
        let waiting = waiting.filter(|_| self.outcome.held.is_none() && !self.place.engine.cancel.is_stopped());
        let Some(id) = waiting else { return Ok(false) };
        tokio::task::block_in_place(|| self.start_resolver(queue, &id))?;
        Ok(true)
    }

    /// The next entry whose conflict an agent may resolve. With `apart`, none whose files other resolved work is about
    /// to change: it would conflict again.
    fn conflicted(&self, queue: &MergeQueue, apart: bool) -> Option<EntryId> {
        let base = self.place.engine.worktree_base(&self.place.repo, &self.place.repo_name);
        let entries = queue.entries();
        let is_coming = |entry: &&QueueEntry| match entry.state {
            EntryState::Resolving => true,
            state => state.is_workable() && entry.resolution.is_some(),
        };
        let coming: BTreeSet<&RepoPath> = entries
            .iter()
            .filter(is_coming)
            .flat_map(|entry| &entry.conflicts)
            .map(|conflict| &conflict.path)
            .collect();
        let is_apart = |entry: &QueueEntry| entry.conflicts.iter().all(|conflict| !coming.contains(&conflict.path));
        // No agent starts while a person resolves it.
        let is_free = |entry: &QueueEntry| !conflict_path(&base, &entry.target, &entry.id).exists();
        let mut conflicted =
            entries.iter().filter(|entry| entry.state == EntryState::Conflicted && entry.together.is_none());
        conflicted.find(|entry| is_free(entry) && (!apart || is_apart(entry))).map(|entry| entry.id.clone())
    }

    /// Has an agent resolve the conflict of an entry, or hands it on.
    fn start_resolver(&mut self, queue: &mut MergeQueue, id: &EntryId) -> Result<(), QueueError> {
        let Some(stored) = queue.entry(id).cloned() else { return Ok(()) };
        let entry = stored.entry.clone();
        let Some(settings) = self.settings.resolver.clone().filter(|settings| entry.attempts < settings.attempts)
        else {
            let paths: Vec<&RepoPath> = entry.conflicts.iter().map(|conflict| &conflict.path).collect();
            let why = entry.why.clone().unwrap_or_else(|| format!("it conflicts in {}", named(&paths)));
            return self.give_back(queue, id, &why, |_| {});
        };
        let (options, repo) = (self.settings.merge_options(), self.place.repo.clone());
        let tip = tip_of(&repo, &self.place.target)?;
        let ResolverStart { conflict, log, landed, session } = match self.open_resolver(&stored, tip, &settings) {
            Ok(Some(start)) => start,
            Ok(None) => {
                update(&repo, queue, std::slice::from_ref(id), |entry| entry.state = EntryState::Submitted)?;
                return Ok(());
            }
            // One entry's error must not block others.
            Err(error) => {
                return self.escalate(queue, id, &format!("no agent could be asked to resolve it: {error}"), |_| {});
            }
        };
        let paths: Vec<RepoPath> = conflict.paths.iter().map(|conflict| conflict.path.clone()).collect();
        let doing = resolving_words(&landed.names, &paths);
        let is_same = |now: &QueueEntry| now.state == EntryState::Conflicted && now.head == entry.head;
        let is_open = update_if(&repo, queue, id, is_same, |entry| {
            entry.state = EntryState::Resolving;
            entry.attempts += 1;
            entry.resolver = Some(session.id().clone());
            entry.conflicts.clone_from(&conflict.paths);
            entry.why = Some(doing.clone());
        })?;
        if !is_open {
            let id = session.id().clone();
            drop(session);
            return clear_up(&self.place, &id);
        }
        self.tell_resolution(&entry, session.id(), doing, paths, landed.names, None);
        self.resolvers.sessions.insert(id.clone(), session.id().clone());
        let tests = self.settings.tests.of([&entry]);
        let job = ResolverJob { place: self.place.clone(), entry, conflict, tests, log, options };
        self.resolvers.jobs.spawn(job.run(session));
        Ok(())
    }

    /// Opens the session of the agent that is to resolve the conflict of an entry. None if there is no conflict.
    fn open_resolver(
        &self,
        stored: &StoredEntry,
        tip: CommitId,
        settings: &ResolverSettings,
    ) -> Result<Option<ResolverStart>, QueueError> {
        let (repo, entry) = (&self.place.repo, &stored.entry);
        let log = entry_log(repo, stored)?;
        let Some(conflict) = open_conflict(repo, entry, tip, &self.settings.merge_options())? else { return Ok(None) };
        let landed = LandedWork::of(repo, entry, &conflict)?;
        let request = request(repo, entry, &conflict, &landed, log.clone())?;
        let session = open_session(Arc::clone(&self.place.engine), self.session(entry, &conflict, &request, settings))?;
        Ok(Some(ResolverStart { conflict, log, landed, session }))
    }

    /// The session of an agent that resolves a conflict.
    fn session(
        &self,
        entry: &QueueEntry,
        conflict: &OpenConflict,
        request: &ResolutionRequest,
        settings: &ResolverSettings,
    ) -> StartRequest {
        let redactor = &self.place.engine.redactor;
        let values = [("entry", entry.name()), ("request", redactor.text(&request.text()).into_owned())];
        let values: BTreeMap<String, String> = values.map(|(key, value)| (key.to_owned(), value)).into();
        let dot = resolve_pipeline(settings);
        let inputs = Inputs { files: BTreeMap::new(), values: values.clone() };
        let pipeline = plan::load(&dot, &inputs, &[]).0.expect("the pipeline of conflicts is sound");
        StartRequest {
            record: SessionRepo {
                repo: self.place.repo.clone(),
                name: self.place.repo_name.clone(),
                branch_prefix: settings.branch_prefix.clone(),
                at: Some(Head { commit: conflict.commit, branch: None }),
                arrival: None,
            },
            others: Vec::new(),
            pipeline,
            dot,
            dot_path: "resolve.dot".to_owned(),
            files: BTreeMap::new(),
            inputs: values,
            config: settings.config.clone(),
            simulated: false,
            resolves: Some(entry.id.clone()),
        }
    }

    /// Takes an agent's answer, unless the entry has changed. If the target has moved meanwhile, the next batch merges
    /// and tests it there.
    pub(super) fn take_answer(&mut self, queue: &mut MergeQueue, ended: ResolverEnd) -> Result<(), QueueError> {
        let ResolverEnd { entry, session, conflict, answer } = ended;
        let (repo, id) = (self.place.repo.clone(), &entry.id);
        let Some(settings) = self.settings.resolver.clone() else { return Ok(()) };
        *queue = MergeQueue::read(&repo, &self.place.target)?;
        let is_own = |now: &QueueEntry| is_resolved_by(now, &session);
        let Some(now) = queue.entry(id).map(|stored| stored.entry.clone()).filter(is_own) else { return Ok(()) };
        let (why, left) = match answer {
            AgentAnswer::Resolved(tree) => {
                let resolution = resolution(&repo, &entry, &conflict, tree, Tier::Agent)?;
                let done = if resolution.repairs {
                    "an agent has repaired its merge"
                } else {
                    "an agent has resolved its conflict"
                };
                let is_taken = update_if(&repo, queue, id, is_own, |entry| {
                    entry.state = EntryState::Submitted;
                    entry.resolution = Some(resolution.clone());
                    entry.accepted.clear();
                    // A person approved another merge.
                    entry.approved = false;
                    entry.why = Some(done.to_owned());
                })?;
                if is_taken {
                    forget_conflict(&repo, &entry.target, id)?;
                    self.tell_resolution(&entry, &session, done.to_owned(), Vec::new(), Vec::new(), Some(true));
                }
                return Ok(());
            }
            // The next run resolves it again.
            AgentAnswer::Stopped => return Ok(()),
            AgentAnswer::Partial(tree, left) => {
                keep_conflict(&repo, &entry, conflict.onto, tree)?;
                (left_words(&left), Some(left))
            }
            AgentAnswer::Failed(why) => (why, None),
        };
        self.tell_resolution(&entry, &session, why.clone(), Vec::new(), Vec::new(), Some(false));
        let edit = |entry: &mut QueueEntry| {
            if let Some(left) = &left {
                entry.conflicts.retain(|conflict| left.contains(&conflict.path));
            }
        };
        if now.attempts < settings.attempts {
            update_if(&repo, queue, id, is_own, |entry| {
                entry.state = EntryState::Conflicted;
                entry.why = Some(why.clone());
                edit(entry);
            })?;
            return Ok(());
        }
        self.give_back(queue, id, &format!("no agent could resolve it: {why}"), edit)
    }

    /// Reports what an agent does about an entry's conflict, or the result.
    fn tell_resolution(
        &self,
        entry: &QueueEntry,
        session: &SessionId,
        text: String,
        paths: Vec<RepoPath>,
        with: Vec<String>,
        resolved: Option<bool>,
    ) {
        self.place.engine.tell(MergeResolution {
            entry: entry.id.clone(),
            task: entry.task.clone().filter(|_| entry.is_repairable()),
            branch: entry.branch.clone(),
            target: entry.target.clone(),
            session: session.clone(),
            text,
            paths,
            with,
            resolved,
            extra: Default::default(),
        });
    }
}

impl ResolverJob {
    /// Runs the session of the agent, and checks its answer.
    async fn run(self, session: Session) -> ResolverEnd {
        let id = session.id().clone();
        let asked = self.ask(session).await;
        let answer = tokio::task::block_in_place(|| {
            clear_up(&self.place, &id)?;
            match asked? {
                AgentAnswer::Resolved(tree) => self.judged(tree),
                other => Ok(other),
            }
        });
        let answer = answer.unwrap_or_else(|error| {
            if self.place.engine.cancel.is_stopped() {
                // A stopped setup is an error of the session.
                AgentAnswer::Stopped
            } else {
                // Only this entry fails: the queue continues with others.
                AgentAnswer::Failed(self.place.engine.redactor.text(&error.to_string()).into_owned())
            }
        });
        ResolverEnd { entry: self.entry, session: id, conflict: self.conflict, answer }
    }

    async fn ask(&self, session: Session) -> Result<AgentAnswer, QueueError> {
        let TestPlace { engine, repo, repo_name, .. } = &self.place;
        let (mut session, _) = make_first_copy(session).await?;
        Ok(match run_whole_session(&mut session).await? {
            SessionEnded::Completed => {
                let work = session.state().work.get(repo_name).copied().unwrap_or(self.conflict.commit);
                AgentAnswer::Resolved(repo.tree_of(work)?)
            }
            SessionEnded::Failed { reason } => AgentAnswer::Failed(reason),
            SessionEnded::Cancelled => AgentAnswer::Failed("its session was cancelled".to_owned()),
            SessionEnded::Paused(_) if engine.cancel.is_stopped() => AgentAnswer::Stopped,
            SessionEnded::Paused(pause) => AgentAnswer::Failed(format!("its session waits: {:?}", pause.reason)),
        })
    }

    fn judged(&self, tree: TreeId) -> Result<AgentAnswer, QueueError> {
        let Self { place, entry, conflict, tests, log, options } = self;
        match judge(&place.repo, entry, conflict, tree, tests, log.as_deref())? {
            AgentAnswer::Resolved(tree) => fit(&place.repo, entry, conflict, tree, options),
            other => Ok(other),
        }
    }
}

/// Whether the agent of a session resolves the conflict of an entry.
fn is_resolved_by(entry: &QueueEntry, session: &SessionId) -> bool {
    entry.state == EntryState::Resolving && entry.resolver.as_ref() == Some(session)
}

/// The answer; if its merge would be refused, the reason, for the next attempt.
fn fit(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    tree: TreeId,
    options: &MergeOptions,
) -> Result<AgentAnswer, QueueError> {
    let resolution = resolution(repo, entry, conflict, tree, Tier::Agent)?;
    let resolved = QueueEntry { resolution: Some(resolution), accepted: Vec::new(), ..entry.clone() };
    Ok(match build(repo, &resolved, conflict.onto, options)? {
        MergeBuild::Unfit(UnfitMerge { why, .. }) => AgentAnswer::Failed(why),
        _ => AgentAnswer::Resolved(tree),
    })
}

/// Cancels unfinished sessions of agents, so that their entries are resolved again.
pub(super) fn abandon_resolvers(run: &QueueRun) -> Result<(), QueueError> {
    let (repo, target) = (&run.place.repo, &run.place.target);
    let mut queue = MergeQueue::read(repo, target)?;
    let is_left = |entry: &QueueEntry| entry.state == EntryState::Resolving;
    for entry in queue.entries().into_iter().filter(is_left) {
        // Leftovers must not block an entry.
        let cleared = entry.resolver.as_ref().map_or(Ok(()), |session| clear_up(&run.place, session));
        let why = cleared.err().map(|error| error.to_string());
        update(repo, &mut queue, &[entry.id], |entry| {
            entry.state = EntryState::Conflicted;
            entry.attempts = entry.attempts.saturating_sub(1);
            entry.why.clone_from(&why);
        })?;
    }
    Ok(())
}

/// Cancels a session that is not to be resumed, and removes its worktree and branch. An unrecorded one needs nothing.
fn clear_up(place: &TestPlace, session: &SessionId) -> Result<(), QueueError> {
    use crate::env::Error;
    let known = Summary::newest(&place.repo, session).ok();
    let is_over = |known: &Summary| matches!(known.state.phase, Phase::Completed | Phase::Failed { .. });
    if !known.as_ref().is_some_and(is_over) {
        match cancel::abandon_session(&place.repo, &place.engine.redactor, session, None) {
            Ok(()) | Err(Error::Over { .. } | Error::State(_)) => {}
            Err(Error::Record(git::record::Error::Missing { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let branch = known.as_ref().and_then(Summary::branch).map(|(_, branch)| branch.clone());
    remove_session_files(place, session, branch.as_ref())
}

/// The pipeline with the agent of the settings.
fn resolve_pipeline(settings: &ResolverSettings) -> String {
    let Some(agent) = &settings.agent else { return RESOLVE_PIPELINE.to_owned() };
    let end = RESOLVE_PIPELINE.rfind('}').unwrap_or(RESOLVE_PIPELINE.len());
    let agent = format!("    resolve [agent={}]\n", print::quote(agent));
    format!("{}{agent}{}", &RESOLVE_PIPELINE[..end], &RESOLVE_PIPELINE[end..])
}
