//! The queue of a session's pushes, and the task that owns it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::attempt::{PushResult, PushVerdict, RecordsRemote};
use super::backlog::Transition;
use super::remote_queue::{PushSource, RemoteQueue, remotes};
use super::schedule::PushOccasion;
use crate::env::Engine;
use git::workspace::{FailedPush, PushState};
use os::process::{Cancel, Canceller};
use pleach_core::clock;
use pleach_core::event::{BranchPushed, Event, PushFailed, Warning, WarningCode};
use pleach_core::ids::{CommitId, RepoName, RunId};
use pleach_core::text::shell_word;

/// Notes what is to be pushed. Without anything to push it does nothing.
#[derive(Debug, Default)]
pub(crate) struct PushQueue {
    notes: Option<mpsc::UnboundedSender<PushNote>>,
    elsewhere: Arc<OnceLock<String>>,
}

/// A ref of a repository is at a commit now.
#[derive(Debug)]
pub(crate) struct RefNote {
    pub repo: RepoName,
    /// Its full name.
    pub name: String,
    pub commit: CommitId,
}

#[derive(Debug)]
enum PushNote {
    /// Where refs are after a transition: a record, and the branches that move with it. It is one note, so that others
    /// that come at the same time do not get in between.
    Transition(Vec<RefNote>),
    /// The session is run from now on.
    Run,
    /// The records are pushed at once, so that no other machine goes on with the session.
    Claim(oneshot::Sender<()>),
    /// The session ends.
    End { occasion: PushOccasion, done: oneshot::Sender<()> },
}

impl PushQueue {
    /// The queue of a session, with warnings. Its owner works in the background until the queue is dropped.
    pub(crate) fn open(engine: &Arc<Engine>, source: &PushSource<'_>) -> (Self, Vec<Warning>) {
        let queue = Self::default();
        let (remotes, warnings) = remotes(engine, source);
        let (false, Ok(runtime)) = (remotes.is_empty(), Handle::try_current()) else { return (queue, warnings) };
        let (sender, notes) = mpsc::unbounded_channel();
        let (canceller, cancel) = source.cancel.child();
        let owner = PushOwner {
            engine: Arc::clone(engine),
            run: source.run.clone(),
            common_dir: source.repos.record().common_dir().to_owned(),
            record: source.repos.record_name().clone(),
            claims: Vec::new(),
            notes,
            transition: 0,
            others_have_ended: false,
            unheard: Vec::new(),
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

    /// Notes where refs are after a transition. A record comes with all commits it speaks of that were not noted before.
    pub(crate) fn note(&self, refs: impl IntoIterator<Item = RefNote>) {
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Transition(refs.into_iter().collect()));
        }
    }

    /// Begins to push: from now on somebody hears what comes of it.
    pub(crate) fn begin(&self) {
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Run);
        }
    }

    /// Pushes the records at once, where checkpoints are pushed at all, and waits for it: from then on other machines are
    /// refused, unless one of them was first.
    pub(crate) async fn claim(&self) {
        let (done, claimed) = oneshot::channel();
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::Claim(done));
            // An owner that has ended answers nobody.
            let _ = claimed.await;
        }
    }

    /// Whether anything is pushed at all.
    pub(crate) fn is_open(&self) -> bool {
        self.notes.is_some()
    }

    /// Pushes what the policy allows at the end of a session. Once that has come to an end, or was given up, the result
    /// is ready.
    pub(crate) fn end(&self, occasion: PushOccasion) -> oneshot::Receiver<()> {
        let (done, ended) = oneshot::channel();
        if let Some(notes) = &self.notes {
            let _ = notes.send(PushNote::End { occasion, done });
        }
        ended
    }

    /// The remote that has records of another machine, if one has continued the session.
    pub(crate) fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.get().map(String::as_str)
    }
}

/// Owns the pushes of a session.
struct PushOwner {
    engine: Arc<Engine>,
    run: RunId,
    /// Where it is kept what the remotes have.
    common_dir: PathBuf,
    /// The repository that holds the records.
    record: RepoName,
    /// Told once the records were pushed, or could not be.
    claims: Vec<oneshot::Sender<()>>,
    notes: mpsc::UnboundedReceiver<PushNote>,
    /// The newest transition.
    transition: Transition,
    /// A push of another repository has ended since records were last looked at.
    others_have_ended: bool,
    /// Warnings from before the session is run, when nobody hears them.
    unheard: Vec<Warning>,
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
                () = self.cancel.killed() => {
                    self.give_up();
                    break;
                }
            }
        }
        // What is still under way is given up, and has ended before anybody goes on.
        self.canceller.kill();
        while self.jobs.join_next().await.is_some() {}
        self.keep();
        if let Some(done) = self.done.take() {
            let _ = done.send(());
        }
    }

    fn take(&mut self, note: PushNote) {
        match note {
            PushNote::Transition(refs) => {
                // What is there before anything is pushed is one transition.
                self.transition += Transition::from(self.runs);
                for RefNote { repo, name, commit } in refs {
                    if let Some(remote) = self.remotes.get_mut(&repo) {
                        remote.note(name, commit, self.transition);
                    }
                }
            }
            PushNote::Run => {
                self.runs = true;
                std::mem::take(&mut self.unheard).into_iter().for_each(|warning| self.tell(warning));
            }
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
                // Their last pushes come before the last one of the records.
                self.others_have_ended = false;
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
        self.hold_back_records();
        let claims = self.claims_now();
        let mut wake = None;
        // One that is about to claim the session pushes nothing else before.
        if !claims {
            let is_held_up = self.hold_up_records(now);
            let others: Vec<RepoName> = self.remotes.keys().filter(|name| **name != self.record).cloned().collect();
            wake = others.iter().filter_map(|name| self.start_if_due(name, now)).min();
            if is_held_up {
                return wake;
            }
        }
        let records = self.record.clone();
        wake = wake.into_iter().chain(self.start_if_due(&records, now)).min();
        if !self.remotes.values().any(|queue| queue.in_flight) {
            // Nothing is under way that would let them be pushed.
            self.answer_claims();
        }
        wake
    }

    /// Starts the push of a repository. Returns when it is due, if that is later.
    fn start_if_due(&mut self, name: &RepoName, now: Instant) -> Option<Instant> {
        let asked = self.asked_before(name);
        let queue = self.remotes.get_mut(name).filter(|queue| !queue.in_flight)?;
        let due = queue.schedule.due(now)?;
        if due > now {
            return Some(due);
        }
        let attempt = queue.attempt(name, &self.run, asked);
        queue.schedule.started(now);
        queue.in_flight = true;
        let cancel = self.cancel.clone();
        self.jobs.spawn_blocking(move || attempt.run(&cancel));
        None
    }

    /// The remote of the records, where something else is pushed and records follow: a machine that was overtaken must not
    /// get in the way of the other one.
    fn asked_before(&self, name: &RepoName) -> Option<RecordsRemote> {
        let records =
            self.remotes.get(&self.record).filter(|records| *name != self.record && records.schedule.has_records())?;
        Some(RecordsRemote { repo: records.repo.clone(), remote: records.remote.clone() })
    }

    /// Whether records are pushed at once to claim the session, and all of them may be.
    fn claims_now(&self) -> bool {
        let records = self.remotes.get(&self.record);
        !self.claims.is_empty() && records.is_some_and(|records| !records.schedule.is_held_back())
    }

    /// Records speak of commits in all repositories, and wait until their remotes have these: another machine goes on from
    /// the newest record it finds.
    fn hold_back_records(&mut self) {
        let others = self.remotes.iter().filter(|(name, _)| **name != self.record);
        let lacking = others.filter_map(|(_, queue)| queue.schedule.lacks_since()).min();
        if let Some(records) = self.remotes.get_mut(&self.record) {
            records.schedule.hold_back(lacking);
        }
    }

    /// The repositories that records wait for.
    fn waits_for(&self) -> Vec<RepoName> {
        if !self.remotes.get(&self.record).is_some_and(|records| records.schedule.is_held_back()) {
            return Vec::new();
        }
        let others = self.remotes.iter().filter(|(name, _)| **name != self.record);
        others.filter(|(_, queue)| queue.schedule.lacks_since().is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Where records are about to be pushed, the other repositories go first, so that more of them may be. Once a push of
    /// these has ended, well or not, it is the turn of the records.
    fn hold_up_records(&mut self, now: Instant) -> bool {
        let is_wanted = |queue: &RemoteQueue| !queue.in_flight && queue.schedule.is_wanted(now);
        if !self.remotes.get(&self.record).is_some_and(is_wanted) {
            return false;
        }
        let is_their_turn = std::mem::take(&mut self.others_have_ended);
        let others = self.remotes.iter_mut().filter(|(name, _)| **name != self.record);
        let is_held_up = others.fold(false, |held_up, (_, queue)| held_up | queue.in_flight | queue.schedule.hurry());
        is_held_up && !is_their_turn
    }

    fn answer_claims(&mut self) {
        for claim in self.claims.drain(..) {
            // Whoever has claimed may have gone.
            let _ = claim.send(());
        }
    }

    fn ended(&mut self, result: PushResult) {
        let is_of_records = result.repo_name == self.record;
        self.others_have_ended |= !is_of_records;
        if let Some(queue) = self.remotes.get_mut(&result.repo_name) {
            queue.in_flight = false;
        }
        match &result.verdict {
            PushVerdict::Done => self.succeeded(result),
            PushVerdict::Elsewhere => self.overtaken(),
            PushVerdict::Failed { .. } => self.failed(result),
        }
        self.hold_back_records();
        self.keep();
        if is_of_records || self.elsewhere.get().is_some() {
            self.answer_claims();
        }
    }

    fn succeeded(&mut self, result: PushResult) {
        let PushResult { repo_name, refs, names, named, .. } = result;
        let Some(queue) = self.remotes.get_mut(&repo_name) else { return };
        queue.schedule.succeeded(refs);
        (queue.failed, queue.warned) = (None, None);
        let remote = queue.remote.to_string();
        let before = std::mem::replace(&mut queue.schedule.names, names.clone());
        if names.as_branches && !before.as_branches {
            let text = format!(
                "{remote} refuses refs below refs/pleach/, so the records of this session are branches there: \
                 pleach/records/{}--CONTEXT",
                self.run
            );
            self.warn(WarningCode::RecordsAsBranches.with(text));
        }
        for (here, there) in names.beside.iter().filter(|(here, there)| before.beside.get(*here) != Some(there)) {
            let (address, name) = (shell_word(&remote), shell_word(here));
            let text = format!(
                "{remote} has other commits on {here} of `{repo_name}`, so those of this session are on {there} there; \
                 `git fetch {address} {name}` gets the others"
            );
            self.warn(WarningCode::PushedBeside.with(text));
        }
        let refs: BTreeMap<String, CommitId> = named.into_iter().map(|pushed| (pushed.name, pushed.commit)).collect();
        if !refs.is_empty() {
            self.tell(BranchPushed { repo: repo_name, remote, refs, extra: Default::default() });
        }
    }

    fn overtaken(&mut self) {
        let Some(records) = self.remotes.get_mut(&self.record) else { return };
        let remote = records.remote.to_string();
        let why = format!(
            "{remote} has records of session {} that are not from here: another machine has continued it",
            self.run
        );
        records.failed = Some(FailedPush { at: clock::now(), why, refs: records.schedule.pending() });
        let _ = self.elsewhere.set(remote);
        self.engine.supervisor.stop(&self.run);
    }

    fn failed(&mut self, result: PushResult) {
        let PushResult { repo_name, refs, named, verdict, tried_branches, .. } = result;
        let PushVerdict::Failed { why, advice, is_silent } = verdict else { return };
        let is_waited_for = self.waits_for().contains(&repo_name);
        let Some(queue) = self.remotes.get_mut(&repo_name) else { return };
        let remote = queue.remote.to_string();
        let retry = queue.schedule.failed(Instant::now());
        queue.tried_branches |= tried_branches;
        if is_silent {
            queue.schedule.give_up();
        }
        queue.failed = Some(FailedPush { at: clock::now(), why: why.clone(), refs });
        let waiting = if is_waited_for {
            format!("; the records of the session that name its commits wait in `{}`", self.record)
        } else {
            String::new()
        };
        let mut text = format!("cannot push `{repo_name}` to {remote}: {why}; the work is safe here{waiting}");
        if !advice.is_empty() {
            text = format!("{text}; {advice}");
        }
        let is_new = queue.warned.as_ref() != Some(&text);
        // Before a session is run nobody hears it.
        queue.warned = Some(text.clone()).filter(|_| self.engine.events.is_followed());
        if retry.is_none() {
            text = format!("{text}; `pleach push {}` makes up for it", self.run);
        }
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

    /// Gives up the last pushes, if it is these that are waited for, and says what of the session stays here alone.
    fn give_up(&mut self) {
        if self.done.is_none() {
            return;
        }
        let failure = |(name, queue): (&RepoName, &RemoteQueue)| {
            let (refs, names) = (queue.schedule.pending(), queue.schedule.names.clone());
            let named = names.named(&self.run, &refs);
            let verdict = PushVerdict::Failed { why: "it was given up".into(), advice: String::new(), is_silent: true };
            PushResult { repo_name: name.clone(), refs, names, named, verdict, tried_branches: false }
        };
        let left: Vec<PushResult> = self.remotes.iter().map(failure).filter(|left| !left.refs.is_empty()).collect();
        left.into_iter().for_each(|left| self.failed(left));
    }

    /// Tells what is said once, as soon as somebody hears it.
    fn warn(&mut self, warning: Warning) {
        if self.engine.events.is_followed() { self.tell(warning) } else { self.unheard.push(warning) }
    }

    fn tell(&self, event: impl Into<Event>) {
        self.engine.tell_under_way(&self.run.session, &self.run.root, event);
    }

    /// Keeps what the remotes have.
    fn keep(&self) {
        let waits_for = |name: &RepoName| if *name == self.record { self.waits_for() } else { Vec::new() };
        let remote_state = |(name, queue): (&RepoName, &RemoteQueue)| (name.clone(), queue.state(waits_for(name)));
        let repos = self.remotes.iter().map(remote_state).collect();
        // It is a help alone: the remote knows what it has.
        let _ = PushState { repos }.write(&self.common_dir, &self.run);
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
