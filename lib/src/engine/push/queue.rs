//! The queue of a session's pushes, and the task that owns it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::attempt::{PushAttempt, PushResult, PushVerdict};
use super::schedule::{PushOccasion, PushSchedule};
use crate::clock;
use crate::engine::{Engine, SessionRepos};
use crate::event::{BranchPushed, Event, PushFailed, Warning, WarningCode};
use crate::git::Repo;
use crate::git::remote::{RemoteUrl, default_push_url};
use crate::ids::{CommitId, RepoName, SessionId};
use crate::process::{Cancel, Canceller};
use crate::record;
use crate::workspace::{FailedPush, PushState, RemoteState};

/// Notes what is to be pushed. Without anything to push it does nothing.
#[derive(Debug, Default)]
pub(crate) struct PushQueue {
    notes: Option<mpsc::UnboundedSender<PushNote>>,
    elsewhere: Arc<OnceLock<String>>,
}

/// What is pushed.
#[derive(Debug)]
pub(in crate::engine) struct PushSource<'a> {
    pub session: &'a SessionId,
    /// The repositories of the session.
    pub repos: &'a SessionRepos,
    /// Stops the session.
    pub cancel: &'a Cancel,
}

#[derive(Debug)]
enum PushNote {
    /// A ref is at a commit now.
    Ref { repo: RepoName, name: String, commit: CommitId },
    /// The session is run from now on.
    Run,
    /// The records are pushed at once, so that no other machine goes on with the session.
    Claim(oneshot::Sender<()>),
    /// The session ends.
    End { occasion: PushOccasion, done: oneshot::Sender<()> },
}

impl PushQueue {
    /// The queue of a session, with warnings. Its owner works in the background until the queue is dropped.
    pub(in crate::engine) fn open(engine: &Arc<Engine>, source: &PushSource<'_>) -> (Self, Vec<Warning>) {
        let queue = Self::default();
        let (remotes, warnings) = remotes(engine, source);
        let (false, Ok(runtime)) = (remotes.is_empty(), Handle::try_current()) else { return (queue, warnings) };
        let (sender, notes) = mpsc::unbounded_channel();
        let (canceller, cancel) = source.cancel.child();
        let owner = PushOwner {
            engine: Arc::clone(engine),
            session: source.session.clone(),
            common_dir: source.repos.record().common_dir().to_owned(),
            record: source.repos.record_name().clone(),
            claims: Vec::new(),
            notes,
            remotes,
            jobs: JoinSet::new(),
            elsewhere: Arc::clone(&queue.elsewhere),
            canceller,
            cancel,
            runs: false,
            done: None,
        };
        runtime.spawn(owner.run());
        (Self { notes: Some(sender), ..queue }, warnings)
    }

    /// Notes that a ref of a repository is at a commit now.
    pub(in crate::engine) fn note(&self, repo: &RepoName, name: impl Into<String>, commit: CommitId) {
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Ref { repo: repo.clone(), name: name.into(), commit });
        }
    }

    /// Begins to push: from now on somebody hears what comes of it.
    pub(in crate::engine) fn begin(&self) {
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Run);
        }
    }

    /// Pushes the records at once, where checkpoints are pushed at all, and waits for it: from then on other machines are
    /// refused, unless one of them was first.
    pub(in crate::engine) async fn claim(&self) {
        let (done, claimed) = oneshot::channel();
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Claim(done));
            // An owner that has ended answers nobody.
            let _ = claimed.await;
        }
    }

    /// Whether anything is pushed at all.
    pub(in crate::engine) fn is_open(&self) -> bool {
        self.notes.is_some()
    }

    /// Pushes what the policy allows at the end of a session. Once that has come to an end, or was given up, the result
    /// is ready.
    pub(in crate::engine) fn end(&self, occasion: PushOccasion) -> oneshot::Receiver<()> {
        let (done, ended) = oneshot::channel();
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::End { occasion, done });
        }
        ended
    }

    /// The remote that has records of another machine, if one has continued the session.
    pub(in crate::engine) fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.get().map(String::as_str)
    }
}

/// The remotes of a session's repositories that something is pushed to.
fn remotes(engine: &Engine, source: &PushSource<'_>) -> (BTreeMap<RepoName, RemoteQueue>, Vec<Warning>) {
    let settings = &engine.push;
    let mut known = PushState::read(source.repos.record().common_dir(), source.session);
    let (mut found, mut warnings) = (BTreeMap::new(), Vec::new());
    for (name, repo) in source.repos.iter() {
        let policies = settings.policies(name, name == source.repos.record_name());
        if policies.is_never() {
            continue;
        }
        let configured = settings.repos.get(name).and_then(|repo| repo.remote.clone());
        let Some(remote) = configured.or_else(|| default_push_url(repo).ok().flatten()) else {
            let text = format!(
                "`{name}` is not pushed: it has no remote; set `workspace.repos.{name}.remote`, or its `push` to `never`"
            );
            warnings.push(WarningCode::PushFailed.with(text));
            continue;
        };
        let mut schedule = PushSchedule::new(policies, settings.interval);
        let known = known.repos.remove(name).filter(|known| known.remote == remote.to_string()).unwrap_or_default();
        (schedule.there, schedule.as_branches) = (known.refs, known.as_branches);
        let queue = RemoteQueue {
            repo: repo.clone(),
            remote,
            schedule,
            in_flight: false,
            tried_branches: false,
            failed: known.failed,
            warned: None,
        };
        found.insert(name.clone(), queue);
    }
    (found, warnings)
}

/// The remote of one repository.
struct RemoteQueue {
    repo: Repo,
    remote: RemoteUrl,
    schedule: PushSchedule,
    in_flight: bool,
    /// The remote does not take records as branches either.
    tried_branches: bool,
    failed: Option<FailedPush>,
    /// The last warning: the same is not repeated.
    warned: Option<String>,
}

/// Owns the pushes of a session.
struct PushOwner {
    engine: Arc<Engine>,
    session: SessionId,
    /// Where it is kept what the remotes have.
    common_dir: PathBuf,
    /// The repository that holds the records.
    record: RepoName,
    /// Told once the records were pushed, or could not be.
    claims: Vec<oneshot::Sender<()>>,
    notes: mpsc::UnboundedReceiver<PushNote>,
    remotes: BTreeMap<RepoName, RemoteQueue>,
    jobs: JoinSet<PushResult>,
    elsewhere: Arc<OnceLock<String>>,
    canceller: Canceller,
    cancel: Cancel,
    /// The session is run, so that its pushes may start.
    runs: bool,
    /// Told once everything has ended.
    done: Option<oneshot::Sender<()>>,
}

impl PushOwner {
    async fn run(mut self) {
        loop {
            // What was noted together is pushed together.
            while let Ok(note) = self.notes.try_recv() {
                self.take(note);
            }
            let wake = self.start_due();
            if self.done.is_some() && self.jobs.is_empty() {
                break;
            }
            tokio::select! {
                note = self.notes.recv(), if self.done.is_none() => match note {
                    Some(note) => self.take(note),
                    None => break,
                },
                Some(result) = self.jobs.join_next() => {
                    // One that panicked is lost with its repository; the others are pushed.
                    if let Ok(result) = result {
                        self.ended(result);
                    }
                }
                () = sleep_until(wake) => {}
                () = self.cancel.killed() => break,
            }
        }
        // What is still under way is given up.
        self.canceller.kill();
        self.keep();
        if let Some(done) = self.done.take() {
            let _ = done.send(());
        }
    }

    fn take(&mut self, note: PushNote) {
        match note {
            PushNote::Ref { repo, name, commit } => {
                if let Some(remote) = self.remotes.get_mut(&repo) {
                    remote.schedule.note(name, commit);
                }
            }
            PushNote::Run => self.runs = true,
            PushNote::Claim(done) => {
                let has_records = self.remotes.get_mut(&self.record).is_some_and(|queue| queue.schedule.hurry());
                if has_records {
                    self.runs = true;
                    self.claims.push(done);
                } else {
                    let _ = done.send(());
                }
            }
            PushNote::End { occasion, done } => {
                self.runs = true;
                self.remotes.values_mut().for_each(|remote| remote.schedule.end(occasion));
                self.done = Some(done);
            }
        }
    }

    /// Starts the pushes that are due, and returns when the next one is.
    fn start_due(&mut self) -> Option<Instant> {
        if !self.runs || self.elsewhere.get().is_some() {
            return None;
        }
        let now = Instant::now();
        let mut wake: Option<Instant> = None;
        let is_held_up = self.hold_up_records(now);
        for (name, queue) in &mut self.remotes {
            if is_held_up && *name == self.record {
                continue;
            }
            let Some(due) = queue.schedule.due(now).filter(|_| !queue.in_flight) else { continue };
            if due > now {
                wake = Some(wake.map_or(due, |wake| wake.min(due)));
                continue;
            }
            let may_try_branches = !queue.tried_branches;
            let attempt = PushAttempt::new(
                (name, &queue.repo),
                &queue.remote,
                &self.session,
                &mut queue.schedule,
                may_try_branches,
            );
            queue.schedule.started(now);
            queue.in_flight = true;
            let cancel = self.cancel.clone();
            self.jobs.spawn_blocking(move || attempt.run(&cancel));
        }
        wake
    }

    /// Records speak of commits in all repositories: where they are about to be pushed, these go first, so that another
    /// machine finds them. A remote that fails holds nothing up.
    fn hold_up_records(&mut self, now: Instant) -> bool {
        let is_due = |queue: &RemoteQueue| queue.schedule.due(now).is_some_and(|due| due <= now);
        if !self.remotes.get(&self.record).is_some_and(is_due) {
            return false;
        }
        let others = self.remotes.iter_mut().filter(|(name, _)| **name != self.record);
        others.fold(false, |held_up, (_, queue)| held_up | queue.in_flight | queue.schedule.hurry())
    }

    fn ended(&mut self, result: PushResult) {
        let PushResult { repo_name, refs, named, verdict, tried_branches } = result;
        let is_of_records = repo_name == self.record;
        let Some(queue) = self.remotes.get_mut(&repo_name) else { return };
        queue.in_flight = false;
        let remote = queue.remote.to_string();
        match verdict {
            PushVerdict::Done { as_branches } => {
                queue.schedule.succeeded(refs);
                (queue.failed, queue.warned) = (None, None);
                let is_new = as_branches && !queue.schedule.as_branches;
                queue.schedule.as_branches |= as_branches;
                let pushed = named.into_iter().map(|pushed| (pushed.name, pushed.commit)).collect();
                if is_new {
                    let text = format!(
                        "{remote} refuses refs below refs/pleach/, so the records of this session are branches there: \
                         pleach/records/{}--CONTEXT",
                        self.session
                    );
                    self.tell(WarningCode::RecordsAsBranches.with(text));
                }
                self.tell(BranchPushed { repo: repo_name, remote, refs: pushed, extra: Default::default() });
            }
            PushVerdict::Elsewhere => {
                let why = format!(
                    "{remote} has records of session {} that are not from here: another machine has continued it",
                    self.session
                );
                queue.failed = Some(FailedPush { at: clock::now(), why });
                let _ = self.elsewhere.set(remote);
                self.engine.supervisor.stop(&self.session);
            }
            PushVerdict::Failed { why, advice, is_silent } => {
                let retry = queue.schedule.failed(Instant::now());
                queue.tried_branches |= tried_branches;
                if is_silent {
                    queue.schedule.give_up();
                }
                queue.failed = Some(FailedPush { at: clock::now(), why: why.clone() });
                let text = format!("cannot push `{repo_name}` to {remote}: {why}; the work is safe here; {advice}");
                let is_new = queue.warned.as_ref() != Some(&text);
                // Before a session is run nobody hears it.
                queue.warned = Some(text.clone()).filter(|_| self.engine.events.is_followed());
                if is_new {
                    self.tell(WarningCode::PushFailed.with(text));
                }
                self.tell(PushFailed {
                    repo: repo_name,
                    remote,
                    refs: named.into_iter().map(|pushed| pushed.name).collect(),
                    why,
                    retry_in: retry.map(|wait| wait.as_secs()),
                    extra: Default::default(),
                });
            }
        }
        self.keep();
        if is_of_records {
            for claim in self.claims.drain(..) {
                let _ = claim.send(());
            }
        }
    }

    fn tell(&self, event: impl Into<Event>) {
        self.engine.tell_under_way((&self.session, &record::root()), event);
    }

    /// Keeps what the remotes have.
    fn keep(&self) {
        let of = |queue: &RemoteQueue| RemoteState {
            remote: queue.remote.to_string(),
            refs: queue.schedule.there.clone(),
            as_branches: queue.schedule.as_branches,
            failed: queue.failed.clone(),
        };
        let repos = self.remotes.iter().map(|(name, queue)| (name.clone(), of(queue))).collect();
        // It is a help alone: the remote knows what it has.
        let _ = PushState { repos }.write(&self.common_dir, &self.session);
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
