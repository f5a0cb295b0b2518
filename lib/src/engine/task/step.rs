//! The steps of a task: what a node's end tells of one, and the commit made of it.

use super::TaskJob;
use crate::clock;
use crate::engine::Error;
use crate::engine::context::{Context, MadeStep, PendingRecord, Writers};
use crate::engine::worker::output_message;
use crate::event::{Commits, Snapshot, StepFinished, Warning, WarningCode};
use crate::git::{CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId, Writer};
use crate::ids::{CommitId, RepoName, RepoPath};
use crate::plan::pipeline::Node;
use crate::record::Batch;
use crate::step::prompt;
use crate::step::text::{Body, FEEDBACK};
use crate::step::{AttemptNumber, Feedback, FeedbackKind, Step, StepKind, TestFacts, counts, report, text};
use crate::trailer::{CommitMessage, attribution};
use crate::workspace::{Changes, branch_ref};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many failing tests the record names.
const FAILING: usize = 1_000;

/// What a node's worker found out about the step it stands for.
#[derive(Debug, Default)]
pub struct StepReport {
    /// The text of the commit.
    pub body: Body,
    /// What the next attempt is told, where it failed.
    pub said: String,
    /// Everything that was said, where a log has it.
    pub log: Option<String>,
    /// The facts of a test.
    pub test: Option<TestFacts>,
    /// The tests that failed, where not all that was said is there.
    pub failing: Vec<String>,
    /// Whether it ended before it could say anything about the code.
    pub broke_off: bool,
    /// The kinds and models of the agents it is the work of.
    pub by: Vec<(String, String)>,
}

impl StepReport {
    /// It failed after all, for this reason, whatever was said.
    pub(in crate::engine) fn fail(&mut self, why: &str) {
        self.body = text::runner_error(why);
        let with_why = |text: &str| format!("{}\n{why}\n", text.trim_end());
        self.log = Some(with_why(self.log.as_ref().unwrap_or(&self.said)));
        self.said = with_why(&self.said);
        self.broke_off = true;
    }
}

/// A step that is to be committed.
struct Making {
    facts: Step,
    body: Body,
    attempt: Option<AttemptNumber>,
    /// Files that are committed with it, without secrets.
    files: Vec<(RepoPath, String)>,
    /// What the next attempt is told.
    feedback: Option<Feedback>,
    /// The tests that failed.
    failing: Vec<String>,
    /// The report, where it is not committed.
    report: Option<Value>,
    /// The kinds and models of the agents it is the work of.
    by: Vec<(String, String)>,
}

/// The report of a completed task, without secrets, and where it goes.
#[derive(Debug)]
pub enum TaskReport {
    /// Into a file of its last step.
    Committed(RepoPath, String),
    /// Into the session's record alone.
    Recorded(Value),
}

impl Making {
    /// A step without anything beside it.
    fn of(facts: Step, body: Body) -> Self {
        let (attempt, feedback, report) = (None, None, None);
        Self { facts, body, attempt, files: Vec::new(), feedback, failing: Vec::new(), report, by: Vec::new() }
    }
}

impl Context {
    /// Ends an attempt that failed outside of its steps, so that it counts and the next one is told.
    pub(in crate::engine) fn fail_attempt(&mut self, reason: &str) -> Result<(), Error> {
        let attempt = self.state.task.as_ref().and_then(|task| task.attempt.clone());
        let attempt = attempt.expect("an attempt that failed was begun");
        let facts = Step { retry: Some(attempt.retry), ..self.facts(StepKind::Implement, false) };
        let body = text::outside(reason);
        let told = Some(text::broke_off(reason));
        let making = Making { attempt: self.attempt(), feedback: told, ..Making::of(facts, body) };
        self.commit_step(making)?;
        Ok(())
    }

    /// Ends the task: its last step, with the report where it is complete. It is written when the landing is recorded, or
    /// by [`Context::flush`].
    pub(in crate::engine) fn end_task(
        &mut self,
        facts: Step,
        body: Body,
        attempt: Option<AttemptNumber>,
        report: Option<TaskReport>,
    ) -> Result<(), Error> {
        let (files, report) = match report {
            Some(TaskReport::Committed(path, text)) => (vec![(path, text)], None),
            Some(TaskReport::Recorded(report)) => (Vec::new(), Some(report)),
            None => (Vec::new(), None),
        };
        let making = Making { attempt, files, report, ..Making::of(facts, body) };
        self.defer_step(making)
    }

    /// The commit of the task's last step and what it is built on, as long as it is not written.
    pub(in crate::engine) fn unwritten_step(&self) -> Option<(CommitId, CommitId)> {
        let pending = self.pending.as_ref()?;
        let step = pending.step.as_ref()?;
        Some((step.commit, *pending.branches.get(&step.repo)?))
    }

    /// Commits a step that is no node's.
    fn commit_step(&mut self, making: Making) -> Result<(), Error> {
        self.defer_step(making)?;
        self.flush()
    }

    /// Folds a step that is no node's. Its commit is written with whatever is recorded next.
    fn defer_step(&mut self, making: Making) -> Result<(), Error> {
        // A step that follows another can be built before that one is written.
        if self.pending.is_some() && self.unwritten_step().is_none() {
            self.flush()?;
        }
        let repo = self.task_of().repo.clone();
        let branch = self.task_branch_tip();
        let (mut writer, tree, parent) = match &mut self.pending {
            Some(PendingRecord { writers, step: Some(step), .. }) => {
                // What is in it is looked into below.
                let mut writer = writers.remove(&repo).unwrap_or_else(|| self.repo.writer());
                writer.flush()?;
                (writer, step.tree, step.commit)
            }
            _ => {
                let copy = self.task_copy();
                (copy.repo.writer(), copy.tree()?, if self.carries_turns() { copy.at().tip } else { branch })
            }
        };
        let now = clock::now();
        let (step, tree) = self.make_step(&mut writer, making, (tree, parent), now)?;
        let (summary, commit) = (step.subject.clone(), step.git_sha);
        let events = self.fold(vec![step.into()], now)?;
        let work = self.recorded_work(&Snapshot::from([(repo.clone(), commit)]));
        let batch = Batch { summary, work, events, ..Batch::default() };
        let (writers, branches) = (Writers::from([(repo.clone(), writer)]), Snapshot::from([(repo.clone(), branch)]));
        let step = Some(MadeStep { repo, commit, tree });
        self.defer_end(PendingRecord { writers, batch, branches, made: BTreeMap::new(), step });
        Ok(())
    }

    /// Makes the task's branch go on from steps that were built anew, with a test that failed there.
    pub(in crate::engine) fn turn_red(&mut self, built: CommitId, report: StepReport) -> Result<(), Error> {
        self.flush()?;
        let (repo, old) = (self.task_of().repo.clone(), self.task_branch_tip());
        self.task_copy_mut().place(built);
        let name = "test".to_owned();
        let node =
            Node { step: Some(name), ..self.plan.pipeline.start().expect("a pipeline that ran has a start").clone() };
        let mut writer = self.task_copy().repo.writer();
        let tree = self.task_copy().repo.tree_of(built)?;
        // No node has said it, and the commit may not have it either.
        let messages: Vec<Value> = report.log.iter().map(|log| output_message(log)).collect();
        let made = self.node_step(&node, false, Some(report), &mut writer, (tree, built))?;
        let (mut step, tree) = made.expect("a test of a task is a step of it");
        step.log = messages.first().map(|_| self.recorder.next_message());
        let commit = step.git_sha;
        let to = Snapshot::from([(repo.clone(), commit)]);
        let batch =
            Batch { summary: step.subject.clone(), messages, work: self.recorded_work(&to), ..Batch::default() };
        self.record_with(Writers::from([(repo.clone(), writer)]), batch, vec![step.into()], clock::now())?;
        self.move_branches(&Snapshot::from([(repo, old)]), &to)?;
        let copy = self.task_copy_mut();
        copy.take(commit, tree)?;
        Ok(copy.follow()?)
    }

    /// The step a node's end stands for, with its commit among what `writers` hold, behind what the node has `made`.
    pub(in crate::engine) fn step_of_node(
        &mut self,
        node: &Node,
        passed: bool,
        report: Option<StepReport>,
        writers: &mut Writers,
        made: &BTreeMap<RepoName, (CommitId, TreeId)>,
    ) -> Result<Option<(StepFinished, TreeId)>, Error> {
        if self.state.task.is_none() {
            return Ok(None);
        }
        let (repo, copy) = (self.task_of().repo.clone(), self.task_copy());
        let (tip, tree) = match made.get(&repo) {
            Some(made) => *made,
            None => (copy.at().tip, copy.tree()?),
        };
        let mut writer = writers.remove(&repo).unwrap_or_else(|| copy.repo.writer());
        let parent = match self.task_of().commits {
            Commits::Steps => self.task_branch_tip(),
            Commits::Turns => tip,
        };
        let step = self.node_step(node, passed, report, &mut writer, (tree, parent));
        writers.insert(repo, writer);
        step
    }

    /// The same where its tree and the commit before it are given.
    fn node_step(
        &mut self,
        node: &Node,
        passed: bool,
        report: Option<StepReport>,
        writer: &mut Writer,
        (tree, parent): (TreeId, CommitId),
    ) -> Result<Option<(StepFinished, TreeId)>, Error> {
        let (Some(job), Some(name), Some(report)) = (self.plan.job.clone(), &node.step, report) else {
            return Ok(None);
        };
        let Some(attempt) = self.state.task.as_ref().and_then(|task| task.attempt.clone()) else { return Ok(None) };
        // What a command changed, or an agent that broke off, is not written yet; it is looked into below.
        writer.flush()?;
        let Some(kind) = StepKind::from_word(name) else { return Ok(None) };
        let tree = self.give_back_logs(writer, tree)?;
        let at = clock::now();
        let mut facts = Step { retry: Some(attempt.retry), ..self.facts(kind.clone(), passed) };
        let mut files = Vec::new();
        facts.test = report.test;
        let told = if report.broke_off { &StepKind::Implement } else { &kind };
        // Their names may stand anywhere in it, also where the next attempt is not told of.
        let failing = if passed { Vec::new() } else { all_failing(report.failing, &report.said) };
        let mut committed = None;
        if let Some(log) = report.log {
            let named = if job.commit_logs && self.no_directory(tree, &job.logs)?.is_none() {
                let path = format!("{}/{}", job.logs, report::log_file(&job.task.id, name, at));
                let path = self.free_path(&path, tree)?;
                files.push((RepoPath::from(path.as_str()), self.engine.redactor.text(&log).into_owned()));
                committed = Some(path.clone());
                path
            } else {
                self.recorder.reference()
            };
            match (&mut facts.test, &kind) {
                (Some(test), StepKind::Test) => test.log = Some(named),
                (_, StepKind::Review) => facts.review_log = Some(named),
                _ => {}
            }
        }
        let feedback = (!passed).then(|| feedback(told, &report.said, &failing, committed.as_deref()));
        // A gate is no attempt at anything.
        let attempt = self.attempt().filter(|_| self.is_leaf_task());
        let making = Making { attempt, files, feedback, failing, by: report.by, ..Making::of(facts, report.body) };
        self.make_step(writer, making, (tree, parent), at).map(Some)
    }

    /// Takes out of a tree what an agent or a command did to files that are logs and reports by their names: nobody reviews
    /// those, and they land also where a task is given up. The records of its turns have what it did.
    fn give_back_logs(&mut self, writer: &mut Writer, tree: TreeId) -> Result<TreeId, Error> {
        let before = self.repo.tree_of(self.task_tip())?;
        let mut edits = Vec::new();
        let touched = if before == tree { Vec::new() } else { self.touched_logs(before, tree)? };
        for path in &touched {
            edits.push(match self.repo.tree_entry(before, path)? {
                Some(entry) => {
                    let blob = self.repo.blob(entry.id)?;
                    self.task_copy_mut().put(path, &blob)?;
                    TreeEdit::Put(path.clone(), entry.kind, entry.id)
                }
                None => {
                    self.task_copy_mut().take_away(path)?;
                    TreeEdit::Remove(path.clone())
                }
            });
        }
        let Some(first) = touched.first() else { return Ok(tree) };
        let more = if touched.len() > 1 { format!(" and {} more", touched.len() - 1) } else { String::new() };
        self.warnings.push(WarningCode::OwnLogsRestored.with(format!(
            "`{first}`{more} was undone: by its name it is a log or a report, which only pleach writes"
        )));
        let tree = writer.tree(Some(tree), &edits)?;
        writer.flush()?;
        Ok(tree)
    }

    /// The logs and reports that somebody else has changed, but for what was merged from the target: others landed that.
    fn touched_logs(&self, before: TreeId, tree: TreeId) -> Result<Vec<RepoPath>, Error> {
        let job = self.plan.job.as_ref().expect("only sessions on tasks make steps");
        let changes = self.repo.changes(before, tree)?;
        let mut touched: Vec<RepoPath> =
            changes.into_iter().map(|change| change.path).filter(|path| job.is_own(path)).collect();
        if touched.is_empty() {
            return Ok(touched);
        }
        for dir in [&job.logs, &job.reports] {
            // What is no directory any more has nothing that could be given back.
            if self.no_directory(tree, dir)?.is_some() {
                touched.retain(|path| !path.as_bytes().starts_with(format!("{dir}/").as_bytes()));
            }
        }
        let target = self.repo.reference(&branch_ref(&self.task_of().target))?;
        let Some(landed) = target.map(|tip| self.repo.tree_of(tip)).transpose()? else { return Ok(touched) };
        let mut own = Vec::new();
        for path in touched {
            let now = self.repo.tree_entry(tree, &path)?;
            let is_landed = now.is_some() && now == self.repo.tree_entry(landed, &path)?;
            own.extend(Some(path).filter(|_| !is_landed));
        }
        Ok(own)
    }

    fn is_leaf_task(&self) -> bool {
        self.plan.job.as_ref().is_some_and(|job| job.task.is_leaf())
    }

    /// The facts every step of the session shares.
    pub(in crate::engine) fn facts(&self, kind: StepKind, passed: bool) -> Step {
        let of = self.task_of();
        Step {
            session: Some(self.plan.id.clone()),
            tree: Some(of.tree.clone()),
            name: Some(of.name.clone()),
            ..Step::new(Some(of.id.clone()), kind, passed)
        }
    }

    /// A tree without what pleach wrote into it, by which attempts are compared.
    fn code_of(&self, tree: TreeId) -> Result<CommitId, Error> {
        let job = self.plan.job.as_ref().expect("only sessions on tasks make steps");
        code_of(&self.repo, (self.repo.tree_of(self.task_of().base)?, tree), job)
    }

    /// The code there is now.
    pub(in crate::engine) fn code(&mut self) -> Result<CommitId, Error> {
        let step = self.pending.as_ref().and_then(|pending| pending.step.as_ref());
        match (self.code, step) {
            (Some((newest, code)), Some(step)) if newest == step.tree => Ok(code),
            _ => {
                self.flush()?;
                self.code_of(self.task_copy().tree()?)
            }
        }
    }

    fn make_step(
        &mut self,
        writer: &mut Writer,
        making: Making,
        (tree, parent): (TreeId, CommitId),
        now: Timestamp,
    ) -> Result<(StepFinished, TreeId), Error> {
        let Making { facts, body, attempt, files, feedback, mut failing, report, by } = making;
        failing.truncate(FAILING);
        let code = match self.code {
            Some((newest, code)) if newest == tree => code,
            _ => self.code_of(tree)?,
        };
        let job = self.plan.job.as_ref().expect("only sessions on tasks make steps");
        let is_own = files.iter().all(|(path, _)| job.is_own(path));
        let mut edits = Vec::new();
        for (path, text) in files {
            self.task_copy_mut().put(&path, text.as_bytes())?;
            edits.push(TreeEdit::Put(path, EntryKind::File, writer.blob(text.as_bytes())?));
        }
        let tree = if edits.is_empty() { tree } else { writer.tree(Some(tree), &edits)? };
        // What the step adds is left out again, so that the next one need not take all logs apart.
        self.code = is_own.then_some((tree, code));
        let of = self.task_of();
        let redactor = &self.engine.redactor;
        let by =
            by.iter().filter_map(|(agent, model)| attribution(self.engine.attribution, agent, &redactor.text(model)));
        // Of the rest of it every word is one that runs after this one read.
        let subject = facts.subject(of.target.as_str(), &redactor.text(&of.name), attempt);
        let message = CommitMessage {
            subject,
            body: body.write(redactor),
            trailers: facts.trailers().into_iter().chain(by).collect(),
        };
        let not_before = self.plan.job.as_ref().map(|job| job.not_before).unwrap_or_default();
        let date = to_the_second(now).max(not_before);
        let commit = writer.commit(&CommitSpec {
            tree,
            parents: vec![parent],
            author: Person::pleach(),
            committer: Person::pleach(),
            at: date,
            message: message.write().into_bytes(),
        })?;
        let finished = StepFinished {
            repo: of.repo.clone(),
            task: of.id.clone(),
            step: facts.kind.as_str().to_owned(),
            status: facts.status(),
            attempt: facts.retry,
            parent,
            tree: CommitId::from_bytes(*tree.as_bytes()),
            subject: message.subject,
            body: message.body,
            trailers: message.trailers,
            date,
            git_sha: commit,
            code,
            failing,
            feedback,
            log: None,
            report,
            extra: Default::default(),
        };
        Ok((finished, tree))
    }

    /// What keeps a directory of logs or reports from being one. What is somebody else's there stays, and the session's
    /// record alone has what would be in it.
    pub(in crate::engine) fn no_directory(&self, tree: TreeId, dir: &str) -> Result<Option<PathBuf>, Error> {
        Ok(self.task_copy().no_directory(tree, dir)?)
    }

    /// What a person should know of the log a node's end is about to leave.
    pub(in crate::engine) fn warn_of_log(
        &self,
        node: &Node,
        report: Option<&StepReport>,
        changes: Option<&mut Changes>,
    ) -> Result<Option<Warning>, Error> {
        let Some(job) = self.plan.job.as_ref().filter(|job| job.commit_logs) else { return Ok(None) };
        if node.step.is_none() || report.is_none_or(|report| report.log.is_none()) {
            return Ok(None);
        }
        let changed = match changes {
            Some(changes) => {
                // It is looked into below.
                changes.flush()?;
                changes.of(&self.task_of().repo).map(|change| change.tree)
            }
            None => None,
        };
        let tree = match changed {
            Some(tree) => tree,
            None => self.task_copy().tree()?,
        };
        let found = self.no_directory(tree, &job.logs)?;
        Ok(found.map(|found| in_the_record(&format!("the log of `{}`", node.id), &found)))
    }

    /// A path nothing in the tree has: two steps can end in the same second.
    pub(in crate::engine) fn free_path(&self, path: &str, tree: TreeId) -> Result<String, Error> {
        let (stem, extension) = path.rsplit_once('.').unwrap_or((path, "log"));
        let mut free = path.to_owned();
        let mut number = 2;
        while self.repo.tree_entry(tree, &RepoPath::from(free.as_str()))?.is_some() {
            free = format!("{stem}-{number}.{extension}");
            number += 1;
        }
        Ok(free)
    }
}

/// Says that something is in the session's record alone.
pub(in crate::engine) fn in_the_record(what: &str, found: &Path) -> Warning {
    WarningCode::LogNotCommitted
        .with(format!("{what} is only in the session's record: `{}` is not a directory", found.display()))
}

/// A tree without the logs and reports that came since `base`, by which attempts are compared.
pub(in crate::engine) fn code_of(
    repo: &Repo,
    (base, tree): (TreeId, TreeId),
    job: &TaskJob,
) -> Result<CommitId, Error> {
    let own = repo.changes(base, tree)?.into_iter().map(|change| change.path).filter(|path| job.is_own(path));
    let own: Vec<TreeEdit> = own.map(TreeEdit::Remove).collect();
    // The objects are of no use to anybody and never written.
    let code = if own.is_empty() { tree } else { repo.writer().tree(Some(tree), &own)? };
    Ok(CommitId::from_bytes(*code.as_bytes()))
}

/// What a failed step tells the next attempt.
fn feedback(kind: &StepKind, said: &str, failing: &[String], log: Option<&str>) -> Feedback {
    match kind {
        StepKind::Review => Feedback::new(FeedbackKind::Rejected, text::cut(said, FEEDBACK)),
        StepKind::Test => prompt::test_failure(said, failing, log),
        StepKind::Custom(name) => Feedback { step: Some(name.clone()), ..prompt::test_failure(said, &[], log) },
        _ => text::broke_off(said),
    }
}

/// The tests that failed: those that were heard of, and those that what was said tells of.
fn all_failing(heard: Vec<String>, said: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = heard.into_iter().chain(counts::failing(said));
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// Commits know no smaller unit, and the step is found again by its date.
fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
