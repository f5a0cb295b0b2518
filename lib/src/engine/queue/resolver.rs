//! Has an agent resolve what cannot be merged: a session of its own, on the commit of the conflict. Its files are only
//! what the next batch tests; they land by the same way as everything else.

use std::collections::BTreeMap;

use super::answer::{AgentAnswer, judge};
use super::candidate::{MergeBuild, MergeOptions, UnfitMerge, build};
use super::cleanup::remove_session_files;
use super::conflict::{OpenConflict, forget_conflict, keep_conflict, open_conflict, resolution};
use super::error::QueueError;
use super::landing::update;
use super::run::QueueRun;
use super::settings::ResolverSettings;
use super::state::entry_log;
use super::store::MergeQueue;
use crate::engine::landing::commits_since;
use crate::engine::merging::left_words;
use crate::engine::{SessionEnded, SessionRepo, StartRequest, Summary, cancel, run_session, start_session};
use crate::git::{self, Head, Repo, TreeId};
use crate::ids::{CommitId, EntryId, RepoPath, SessionId};
use crate::merge::Tier;
use crate::plan::{self, Inputs, print};
use crate::queue::{EntryState, QueueEntry, ResolutionRequest};
use crate::state::Phase;

/// The built-in pipeline of the agent that resolves conflicts.
const RESOLVE_PIPELINE: &str = include_str!("../../../pipelines/resolve.dot");

/// How many commits of the target are told of.
const TOLD: usize = 20;

impl QueueRun {
    /// Has an agent resolve the conflict of an entry, or hands it to a person.
    pub(super) async fn resolve(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        tip: CommitId,
    ) -> Result<(), QueueError> {
        let Some(stored) = queue.entry(id) else { return Ok(()) };
        let (entry, log) = (stored.entry.clone(), entry_log(&self.place.repo, stored)?);
        let Some(settings) = self.settings.resolver.clone().filter(|settings| entry.attempts < settings.attempts)
        else {
            let why = entry.why.clone().unwrap_or_default();
            return self.give_back(queue, id, &why, |_| {});
        };
        let options = self.settings.merge_options();
        let repo = self.place.repo.clone();
        let Some(conflict) = tokio::task::block_in_place(|| open_conflict(&repo, &entry, tip, &options))? else {
            update(&repo, queue, std::slice::from_ref(id), |entry| entry.state = EntryState::Submitted)?;
            return Ok(());
        };
        let request = tokio::task::block_in_place(|| request(&repo, &entry, &conflict, log.clone()))?;
        let answer = match self.ask(queue, &entry, &conflict, &request, &settings).await? {
            AgentAnswer::Resolved(tree) => {
                let tests = self.settings.tests.of([&entry]);
                tokio::task::block_in_place(|| judge(&repo, &entry, &conflict, tree, (&tests, log.as_deref())))?
            }
            other => other,
        };
        let answer = match answer {
            AgentAnswer::Resolved(tree) => {
                tokio::task::block_in_place(|| fit(&repo, &entry, &conflict, tree, &options))?
            }
            other => other,
        };
        self.take_answer(queue, &entry, &conflict, &settings, answer)
    }

    /// Runs the session of the agent, and takes what it leaves.
    async fn ask(
        &mut self,
        queue: &mut MergeQueue,
        entry: &QueueEntry,
        conflict: &OpenConflict,
        request: &ResolutionRequest,
        settings: &ResolverSettings,
    ) -> Result<AgentAnswer, QueueError> {
        let engine = self.place.engine.clone();
        let values = [("entry", entry.name()), ("request", engine.redactor.text(&request.text()).into_owned())];
        let values: BTreeMap<String, String> = values.map(|(key, value)| (key.to_owned(), value)).into();
        let dot = resolve_pipeline(settings);
        let inputs = Inputs { files: BTreeMap::new(), values: values.clone() };
        let pipeline = plan::load(&dot, &inputs, &[]).0.expect("the pipeline of conflicts is sound");
        let start = StartRequest {
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
        };
        let mut session = start_session(engine, start, &mut |_| {}).await?;
        let id = session.id().clone();
        update(&self.place.repo, queue, std::slice::from_ref(&entry.id), |entry| {
            entry.state = EntryState::Resolving;
            entry.attempts += 1;
            entry.resolver = Some(id.clone());
            entry.conflicts.clone_from(&conflict.paths);
        })?;
        let ended = run_session(&mut session).await?;
        let answer = match ended {
            SessionEnded::Completed => {
                let work = session.state().work.get(&self.place.repo_name).copied().unwrap_or(conflict.commit);
                AgentAnswer::Resolved(self.place.repo.tree_of(work)?)
            }
            SessionEnded::Failed { reason } => AgentAnswer::Failed(reason),
            SessionEnded::Cancelled => AgentAnswer::Failed("its session was cancelled".to_owned()),
            SessionEnded::Paused(_) if self.place.engine.cancel.is_stopped() => AgentAnswer::Stopped,
            SessionEnded::Paused(pause) => AgentAnswer::Failed(format!("its session waits: {:?}", pause.reason)),
        };
        let is_open = matches!(session.state().phase, Phase::Running | Phase::Paused { .. });
        let branch = session.state().branches.get(&self.place.repo_name).cloned();
        drop(session);
        tokio::task::block_in_place(|| {
            if is_open {
                abandon(self, &id)?;
            }
            remove_session_files(&self.place, &id, branch.as_ref())
        })?;
        Ok(answer)
    }

    fn take_answer(
        &mut self,
        queue: &mut MergeQueue,
        entry: &QueueEntry,
        conflict: &OpenConflict,
        settings: &ResolverSettings,
        answer: AgentAnswer,
    ) -> Result<(), QueueError> {
        let (repo, id) = (self.place.repo.clone(), std::slice::from_ref(&entry.id));
        let (why, left) = match answer {
            AgentAnswer::Resolved(tree) => {
                let resolution = resolution(&repo, entry, conflict, tree, Tier::Agent)?;
                let done = match resolution.repairs {
                    true => "an agent has repaired its merge",
                    false => "an agent has resolved its conflict",
                };
                update(&repo, queue, id, |entry| {
                    entry.state = EntryState::Submitted;
                    entry.resolution = Some(resolution.clone());
                    entry.accepted.clear();
                    // What a person has agreed to was another merge.
                    entry.approved = false;
                    entry.why = Some(done.to_owned());
                })?;
                return forget_conflict(&repo, &entry.target, &entry.id);
            }
            AgentAnswer::Stopped => {
                update(&repo, queue, id, |entry| {
                    entry.state = EntryState::Conflicted;
                    entry.attempts = entry.attempts.saturating_sub(1);
                })?;
                return Ok(());
            }
            AgentAnswer::Partial(tree, left) => {
                keep_conflict(&repo, entry, conflict.onto, tree)?;
                (left_words(&left), Some(left))
            }
            AgentAnswer::Failed(why) => (why, None),
        };
        let edit = |entry: &mut QueueEntry| {
            if let Some(left) = &left {
                entry.conflicts.retain(|conflict| left.contains(&conflict.path));
            }
        };
        // The attempt that has just been made is counted in the entry.
        if entry.attempts + 1 < settings.attempts {
            update(&repo, queue, id, |entry| {
                entry.state = EntryState::Conflicted;
                entry.why = Some(why.clone());
                edit(entry);
            })?;
            return Ok(());
        }
        self.give_back(queue, &entry.id, &format!("no agent could resolve it: {why}"), edit)
    }
}

/// The answer, unless its merge would be refused: then that is what the next try is told.
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

/// Ends the sessions of agents that a killed process has left, so that their entries are resolved anew.
pub(super) fn abandon_resolvers(run: &QueueRun) -> Result<(), QueueError> {
    let (repo, target) = (&run.place.repo, &run.place.target);
    let mut queue = MergeQueue::read(repo, target)?;
    let is_left = |entry: &QueueEntry| entry.state == EntryState::Resolving;
    for entry in queue.entries().into_iter().filter(is_left) {
        if let Some(session) = &entry.resolver {
            abandon(run, session)?;
            let branch = Summary::newest(repo, session).ok().and_then(|session| Some(session.branch()?.1.clone()));
            remove_session_files(&run.place, session, branch.as_ref())?;
        }
        update(repo, &mut queue, &[entry.id], |entry| {
            entry.state = EntryState::Conflicted;
            entry.attempts = entry.attempts.saturating_sub(1);
        })?;
    }
    Ok(())
}

/// Ends a session that is not to be resumed. One that has ended, or that nobody recorded, needs nothing.
fn abandon(run: &QueueRun, session: &SessionId) -> Result<(), QueueError> {
    use crate::engine::Error;
    match cancel::abandon_session(&run.place.repo, &run.place.engine.redactor, session, None) {
        Ok(()) | Err(Error::Over { .. } | Error::State(_)) => Ok(()),
        Err(Error::Record(crate::record::Error::Missing { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The pipeline with the agent of the settings.
fn resolve_pipeline(settings: &ResolverSettings) -> String {
    let Some(agent) = &settings.agent else { return RESOLVE_PIPELINE.to_owned() };
    let end = RESOLVE_PIPELINE.rfind('}').unwrap_or(RESOLVE_PIPELINE.len());
    let agent = format!("    resolve [agent={}]\n", print::quote(agent));
    format!("{}{agent}{}", &RESOLVE_PIPELINE[..end], &RESOLVE_PIPELINE[end..])
}

fn request(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    log: Option<String>,
) -> Result<ResolutionRequest, QueueError> {
    let mut request = ResolutionRequest {
        name: entry.name(),
        target: entry.target.to_string(),
        goal: entry.title.clone(),
        conflicts: conflict.paths.clone(),
        log,
        objection: entry.why.clone().filter(|_| entry.attempts > 0),
        ..ResolutionRequest::default()
    };
    let Some(base) = repo.history().merge_base(conflict.onto, entry.head)? else { return Ok(request) };
    let paths: Vec<RepoPath> = conflict.paths.iter().map(|conflict| conflict.path.clone()).collect();
    let [from, ours, theirs] = [repo.tree_of(base)?, repo.tree_of(conflict.onto)?, repo.tree_of(entry.head)?];
    request.diff = git::diff::patch(repo, from, theirs, &[])?;
    request.target_diff = git::diff::patch(repo, from, ours, &paths)?;
    for commit in commits_since(repo, conflict.onto, base)?.into_iter().rev().take(TOLD) {
        let message = repo.history().message_of(commit)?;
        request.meanwhile.extend(String::from_utf8_lossy(&message.message).lines().next().map(str::to_owned));
    }
    Ok(request)
}
