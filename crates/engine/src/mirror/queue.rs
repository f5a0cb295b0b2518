//! The task of a run that copies its records to a mirror while it goes on. It is told which contexts have new records, and
//! nobody waits for it until the run ends.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::catch_up::RunMirror;
use super::error::MirrorError;
use git::Repo;
use git::record::run_contexts;
use os::process::Cancel;
use pleach_core::config::MirrorAddress;
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::{ContextId, RunId};

/// How long a mirror may take at the end of a run.
const LAST: Duration = Duration::from_secs(5);

/// How often one that closes the connection is tried again then.
const TRIES: u32 = 3;

/// How long a mirror is left alone that could not be reached, at first and at last.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Whom a queue tells.
pub struct MirrorHooks {
    /// Hears what people should know.
    pub warn: Box<dyn Fn(Warning) + Send + Sync>,
    /// Waits, when nothing else is left to do, for what a queue that was dropped copies last.
    pub left: Box<dyn Fn(oneshot::Receiver<()>) + Send + Sync>,
}

impl fmt::Debug for MirrorHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorHooks").finish_non_exhaustive()
    }
}

/// Tells what was recorded. Without a mirror it does nothing. Dropped, it lets what is left be copied.
#[derive(Default)]
pub struct MirrorQueue(Option<OpenQueue>);

struct OpenQueue {
    notes: mpsc::UnboundedSender<MirrorNote>,
    left: Box<dyn Fn(oneshot::Receiver<()>) + Send + Sync>,
}

impl fmt::Debug for MirrorQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MirrorQueue").field(&self.0.is_some()).finish()
    }
}

#[derive(Debug)]
enum MirrorNote {
    /// The run goes on: what an earlier process has left is copied first.
    Begin,
    /// A context has a new record.
    Recorded(ContextId),
    /// The run ends.
    End(oneshot::Sender<()>),
}

impl MirrorQueue {
    /// The queue of a run. Its owner works in the background.
    pub fn open(repo: &Repo, run: &RunId, address: &MirrorAddress, cancel: Cancel, hooks: MirrorHooks) -> Self {
        let Ok(runtime) = Handle::try_current() else { return Self::default() };
        let (sender, notes) = mpsc::unbounded_channel();
        let owner = MirrorOwner {
            mirror: RunMirror::new(repo.clone(), run.clone(), address.clone()),
            repo: repo.clone(),
            run: run.clone(),
            address: address.clone(),
            notes,
            behind: BTreeSet::new(),
            failed: None,
            ends: None,
            waiting: Vec::new(),
            tries: TRIES,
            told: false,
            warn: hooks.warn,
            cancel,
        };
        runtime.spawn(owner.run());
        Self(Some(OpenQueue { notes: sender, left: hooks.left }))
    }

    /// The run goes on.
    pub fn begin(&self) {
        self.note(|| MirrorNote::Begin);
    }

    /// A context has a new record.
    pub fn recorded(&self, context: &ContextId) {
        self.note(|| MirrorNote::Recorded(context.clone()));
    }

    fn note(&self, note: impl FnOnce() -> MirrorNote) {
        if let Some(open) = &self.0 {
            // An owner that was stopped copies nothing any more.
            let _ = open.notes.send(note());
        }
    }

    /// Copies what is left at the end of a run, as far as that does not take long. Then the result is ready.
    pub fn end(&self) -> Option<oneshot::Receiver<()>> {
        let (done, ended) = oneshot::channel();
        self.0.as_ref()?.notes.send(MirrorNote::End(done)).ok()?;
        Some(ended)
    }
}

impl Drop for MirrorQueue {
    fn drop(&mut self) {
        if let (Some(ended), Some(open)) = (self.end(), &self.0) {
            (open.left)(ended);
        }
    }
}

struct MirrorOwner {
    mirror: RunMirror,
    repo: Repo,
    run: RunId,
    address: MirrorAddress,
    notes: mpsc::UnboundedReceiver<MirrorNote>,
    /// The contexts the mirror lacks something of.
    behind: BTreeSet<ContextId>,
    /// Why the last attempt has failed, how long the mirror is left alone for that, and until when.
    failed: Option<(MirrorError, Duration, Instant)>,
    /// The run ends: until when is copied.
    ends: Option<Instant>,
    /// Those who wait for that.
    waiting: Vec<oneshot::Sender<()>>,
    /// How often it is tried at the end of the run.
    tries: u32,
    /// It was said that the mirror does not take the types of turns.
    told: bool,
    warn: Box<dyn Fn(Warning) + Send + Sync>,
    cancel: Cancel,
}

impl MirrorOwner {
    async fn run(mut self) {
        let cancel = self.cancel.clone();
        tokio::select! {
            () = self.copy() => {}
            () = cancel.killed() => return,
        }
        self.mirror.close().await;
        self.say_types(self.behind.is_empty()).await;
        self.say_behind();
        for done in self.waiting {
            // Whoever waits may have gone.
            let _ = done.send(());
        }
    }

    /// Copies until the run has ended and nothing is left, or nothing can be done about it.
    async fn copy(&mut self) {
        loop {
            while let Ok(note) = self.notes.try_recv() {
                self.take(note);
            }
            if !self.behind.is_empty() && self.may_try() {
                if self.attempt().await {
                    self.say_types(false).await;
                    continue;
                }
                return;
            }
            if self.ends.is_some() {
                return;
            }
            let retry = self.failed.as_ref().map(|(_, _, until)| *until).filter(|_| !self.behind.is_empty());
            tokio::select! {
                note = self.notes.recv() => match note {
                    Some(note) => self.take(note),
                    None => return,
                },
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
            }
        }
    }

    fn take(&mut self, note: MirrorNote) {
        match note {
            // What cannot be read now is told when it is recorded.
            MirrorNote::Begin => self.behind.extend(run_contexts(&self.repo, &self.run).unwrap_or_default()),
            MirrorNote::Recorded(context) => drop(self.behind.insert(context)),
            MirrorNote::End(done) => {
                self.ends.get_or_insert_with(|| Instant::now() + LAST);
                self.waiting.push(done);
            }
        }
    }

    /// Whether it is time to copy. At the end of the run it is once more, and again where the server has closed the connection.
    fn may_try(&mut self) -> bool {
        let Some((error, _, until)) = &self.failed else { return true };
        if self.ends.is_none() || self.tries == 0 {
            return *until <= Instant::now();
        }
        self.tries = if matches!(error, MirrorError::Closed) { self.tries - 1 } else { 0 };
        true
    }

    /// Copies what is behind, and hears meanwhile what else is. False once the run has ended and this took too long.
    async fn attempt(&mut self) -> bool {
        let contexts = std::mem::take(&mut self.behind);
        let mut heard = Vec::new();
        let mut last = self.ends;
        let copied = {
            let mut unsaid = |_| {};
            let mut copying = pin!(self.mirror.catch_up(&contexts, &mut unsaid));
            loop {
                tokio::select! {
                    copied = copying.as_mut() => break Some(copied),
                    Some(note) = self.notes.recv() => {
                        if matches!(note, MirrorNote::End(_)) {
                            last.get_or_insert_with(|| Instant::now() + LAST);
                        }
                        heard.push(note);
                    }
                    () = sleep_until(last.unwrap_or_else(Instant::now)), if last.is_some() => break None,
                }
            }
        };
        self.ends = last;
        heard.into_iter().for_each(|note| self.take(note));
        let is_over = copied.is_none();
        let Err(error) = copied.unwrap_or(Err(MirrorError::Slow(LAST))) else {
            self.failed = None;
            return true;
        };
        self.behind.extend(contexts);
        let waited = self.failed.as_ref().map_or(RETRY[0], |(_, waited, _)| (*waited * 2).min(RETRY[1]));
        self.failed = Some((error, waited, Instant::now() + waited));
        !is_over
    }

    async fn say_types(&mut self, is_all_done: bool) {
        if let Some(problem) = self.mirror.types_problem(is_all_done).await
            && !std::mem::replace(&mut self.told, true)
        {
            (self.warn)(problem.of_types());
        }
    }

    /// Warns that the mirror lacks something: in the same words for all tasks of a tree.
    fn say_behind(&self) {
        let Some((error, ..)) = self.failed.as_ref().filter(|_| !self.behind.is_empty()) else { return };
        let why = match error {
            MirrorError::Unreachable { why, .. } => format!("it cannot be reached: {why}"),
            other => other.to_string(),
        };
        let server = self.address.server();
        let text = format!("CXDB at {server} lacks records: {why}; `pleach record mirror --all` copies them");
        (self.warn)(WarningCode::MirrorBehind.with(text));
    }
}
