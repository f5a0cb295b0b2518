//! The steps of a task: derived from a node's end, and committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::{StepReport, TaskJob, TaskReport};
use crate::env::Error;
use crate::session::context::{Context, MadeStep, PendingRecord, Writers, recording, turn};
use crate::session::worker::output_message;
use git::record::Batch;
use git::workspace::{self, Changes, branch_ref};
use git::{CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId, Writer};
use pleach_core::clock;
use pleach_core::event::{Commits, Snapshot, StepFinished, Warning, WarningCode};
use pleach_core::ids::{CommitId, RepoName, RepoPath};
use pleach_core::plan::pipeline::Node;
use pleach_core::step::text::{self, Body, FEEDBACK};
use pleach_core::step::{AttemptNumber, Feedback, FeedbackKind, Step, StepKind, counts, prompt, report};
use pleach_core::trailer::{CommitMessage, attribution};

/// How many failing tests the record names.
const FAILING: usize = 1_000;

/// A step to commit.
struct StepDraft {
    facts: Step,
    body: Body,
    attempt: Option<AttemptNumber>,
    /// Files committed with it, without secrets.
    files: Vec<(RepoPath, String)>,
    /// The feedback for the next attempt.
    feedback: Option<Feedback>,
    failing: Vec<String>,
    /// The report, if it is not committed.
    report: Option<Value>,
    /// The kinds and models of the agents that did the work.
    by: Vec<(String, String)>,
}

impl StepDraft {
    /// A step with nothing else.
    fn of(facts: Step, body: Body) -> Self {
        let (attempt, feedback, report) = (None, None, None);
        Self { facts, body, attempt, files: Vec::new(), feedback, failing: Vec::new(), report, by: Vec::new() }
    }
}

/// Fails an attempt outside of its steps, so that it counts and the next one gets feedback.
pub(crate) fn fail_attempt(context: &mut Context, reason: &str) -> Result<(), Error> {
    let attempt = context.state.task.as_ref().and_then(|task| task.attempt.clone());
    let attempt = attempt.expect("an attempt that failed was begun");
    let facts = Step { retry: Some(attempt.retry), ..facts(context, StepKind::Implement, false) };
    let body = text::outside(reason);
    let feedback = Some(text::broke_off(reason));
    let making = StepDraft { attempt: context.attempt(), feedback, ..StepDraft::of(facts, body) };
    commit_step(context, making)?;
    Ok(())
}

/// Ends the task with its last step, and with the report if it is complete. The end is written when the landing is
/// recorded, or by [`recording::flush`].
pub(crate) fn end_task(
    context: &mut Context,
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
    let making = StepDraft { attempt, files, report, ..StepDraft::of(facts, body) };
    defer_step(context, making)
}

/// The commit of the task's last step and its parent, while it is not written.
pub(crate) fn unwritten_step(context: &Context) -> Option<(CommitId, CommitId)> {
    let pending = context.pending.as_ref()?;
    let step = pending.step.as_ref()?;
    Some((step.commit, *pending.branches.get(&step.repo)?))
}

/// Commits a step that belongs to no node.
fn commit_step(context: &mut Context, making: StepDraft) -> Result<(), Error> {
    defer_step(context, making)?;
    recording::flush(context)
}

/// Folds a step that belongs to no node. Its commit is written with the next record.
fn defer_step(context: &mut Context, making: StepDraft) -> Result<(), Error> {
    // A step after another step can be built before that one is written.
    if context.pending.is_some() && unwritten_step(context).is_none() {
        recording::flush(context)?;
    }
    let repo = context.task_of().repo.clone();
    let branch = context.task_branch_tip();
    let (mut writer, tree, parent) = match &mut context.pending {
        Some(PendingRecord { writers, step: Some(step), .. }) => {
            // Its objects are read below.
            let mut writer = writers.remove(&repo).unwrap_or_else(|| context.repo.writer());
            writer.flush()?;
            (writer, step.tree, step.commit)
        }
        _ => {
            let copy = context.task_copy();
            (copy.repo.writer(), copy.tree()?, if recording::carries_turns(context) { copy.at().tip } else { branch })
        }
    };
    let now = clock::now();
    let (step, tree) = make_step(context, &mut writer, making, tree, parent, now)?;
    let (summary, commit) = (step.subject.clone(), step.git_sha);
    let events = recording::fold(context, vec![step.into()], now)?;
    let work = turn::recorded_work(context, &Snapshot::from([(repo.clone(), commit)]));
    let batch = Batch { summary, work, events, ..Batch::default() };
    let (writers, branches) = (Writers::from([(repo.clone(), writer)]), Snapshot::from([(repo.clone(), branch)]));
    let step = Some(MadeStep { repo, commit, tree });
    recording::defer_end(context, PendingRecord { writers, batch, branches, commits: BTreeMap::new(), step });
    Ok(())
}

/// Moves the task's branch to its rebuilt steps, with the step that failed there: its tests, or its merge.
pub(crate) fn turn_red(
    context: &mut Context,
    built: CommitId,
    step: &StepKind,
    report: StepReport,
) -> Result<(), Error> {
    recording::flush(context)?;
    let (repo, old) = (context.task_of().repo.clone(), context.task_branch_tip());
    context.task_copy_mut().place(built);
    let name = step.as_str().to_owned();
    let node =
        Node { step: Some(name), ..context.plan.pipeline.start().expect("a pipeline that ran has a start").clone() };
    let mut writer = context.task_copy().repo.writer();
    let tree = context.task_copy().repo.tree_of(built)?;
    // No node reported the log, and the commit may not have it either.
    let messages: Vec<Value> = report.log.iter().map(|log| output_message(log)).collect();
    let finished = node_step(context, &node, false, Some(report), &mut writer, tree, built)?;
    let (mut step, tree) = finished.expect("what a landing finds out about a task is a step of it");
    step.log = messages.first().map(|_| context.recorder.next_message());
    let commit = step.git_sha;
    let to = Snapshot::from([(repo.clone(), commit)]);
    let batch =
        Batch { summary: step.subject.clone(), messages, work: turn::recorded_work(context, &to), ..Batch::default() };
    let writers = Writers::from([(repo.clone(), writer)]);
    recording::record_with(context, writers, batch, vec![step.into()], clock::now(), &to)?;
    recording::move_branches(context, &Snapshot::from([(repo, old)]), &to)?;
    let copy = context.task_copy_mut();
    copy.take(commit, tree)?;
    Ok(copy.follow()?)
}

/// The step of a node's end. Its commit is in `writers`, on top of the node's own `commits`.
pub(crate) fn step_of_node(
    context: &mut Context,
    node: &Node,
    passed: bool,
    report: Option<StepReport>,
    writers: &mut Writers,
    commits: &BTreeMap<RepoName, (CommitId, TreeId)>,
) -> Result<Option<(StepFinished, TreeId)>, Error> {
    if context.state.task.is_none() {
        return Ok(None);
    }
    let (repo, copy) = (context.task_of().repo.clone(), context.task_copy());
    let (tip, tree) = match commits.get(&repo) {
        Some(newest) => *newest,
        None => (copy.at().tip, copy.tree()?),
    };
    let mut writer = writers.remove(&repo).unwrap_or_else(|| copy.repo.writer());
    let parent = match context.task_of().commits {
        Commits::Steps => context.task_branch_tip(),
        Commits::Turns => tip,
    };
    let step = node_step(context, node, passed, report, &mut writer, tree, parent);
    writers.insert(repo, writer);
    step
}

/// Like [`step_of_node`], with its tree and parent given.
fn node_step(
    context: &mut Context,
    node: &Node,
    passed: bool,
    report: Option<StepReport>,
    writer: &mut Writer,
    tree: TreeId,
    parent: CommitId,
) -> Result<Option<(StepFinished, TreeId)>, Error> {
    let (Some(job), Some(name), Some(report)) = (context.plan.job.clone(), &node.step, report) else {
        return Ok(None);
    };
    let Some(attempt) = context.state.task.as_ref().and_then(|task| task.attempt.clone()) else { return Ok(None) };
    // The changes of a command, or of an agent that broke off, are not written yet; they are read below.
    writer.flush()?;
    let Some(kind) = StepKind::from_word(name) else { return Ok(None) };
    let tree = give_back_logs(context, writer, tree)?;
    let at = clock::now();
    let mut facts = Step { retry: Some(attempt.retry), ..facts(context, kind.clone(), passed) };
    let mut files = Vec::new();
    facts.test = report.test;
    let feedback_kind = if report.broke_off { &StepKind::Implement } else { &kind };
    // Test names may appear anywhere in the text, even in parts that the feedback omits.
    let failing = if passed { Vec::new() } else { all_failing(report.failing, &report.said) };
    let mut committed = None;
    if let Some(log) = report.log {
        let named = if job.commit_logs && no_directory(context, tree, &job.logs)?.is_none() {
            let path = format!("{}/{}", job.logs, report::log_file(&job.task.id, name, at));
            let path = free_path(context, &path, tree)?;
            files.push((RepoPath::from(path.as_str()), context.engine.redactor.text(&log).into_owned()));
            committed = Some(path.clone());
            path
        } else {
            context.recorder.reference()
        };
        match (&mut facts.test, &kind) {
            (Some(test), StepKind::Test) => test.log = Some(named),
            (_, StepKind::Review) => facts.review_log = Some(named),
            _ => {}
        }
    }
    let feedback = (!passed).then(|| feedback(feedback_kind, &report.said, &failing, committed.as_deref()));
    // A gate is not an attempt.
    let attempt = context.attempt().filter(|_| is_leaf_task(context));
    let making = StepDraft { attempt, files, feedback, failing, by: report.by, ..StepDraft::of(facts, report.body) };
    make_step(context, writer, making, tree, parent, at).map(Some)
}

/// Reverts changes that an agent or a command made to logs and reports: these are not reviewed, and they land even if a
/// task is given up. The records of its turns still have the changes.
fn give_back_logs(context: &mut Context, writer: &mut Writer, tree: TreeId) -> Result<TreeId, Error> {
    let before = context.repo.tree_of(context.task_tip())?;
    let mut edits = Vec::new();
    let touched = if before == tree { Vec::new() } else { touched_logs(context, before, tree)? };
    for path in &touched {
        edits.push(match context.repo.tree_entry(before, path)? {
            Some(entry) => {
                let blob = context.repo.blob(entry.id)?;
                workspace::write_file(context.task_copy_mut(), path, &blob)?;
                TreeEdit::Put(path.clone(), entry.kind, entry.id)
            }
            None => {
                workspace::remove_file(context.task_copy_mut(), path)?;
                TreeEdit::Remove(path.clone())
            }
        });
    }
    let Some(first) = touched.first() else { return Ok(tree) };
    let more = if touched.len() > 1 { format!(" and {} more", touched.len() - 1) } else { String::new() };
    context
        .warnings
        .push(WarningCode::OwnLogsRestored.with(format!(
            "`{first}`{more} was undone: by its name it is a log or a report, which only pleach writes"
        )));
    let tree = writer.tree(Some(tree), &edits)?;
    writer.flush()?;
    Ok(tree)
}

/// The logs and reports that an agent or a command changed, except for those merged from the target, which others
/// landed.
fn touched_logs(context: &Context, before: TreeId, tree: TreeId) -> Result<Vec<RepoPath>, Error> {
    let job = context.plan.job.as_ref().expect("only sessions on tasks make steps");
    let changes = git::diff::changes(&context.repo, before, tree)?;
    let mut touched: Vec<RepoPath> =
        changes.into_iter().map(|change| change.path).filter(|path| job.is_own(path)).collect();
    if touched.is_empty() {
        return Ok(touched);
    }
    for dir in [&job.logs, &job.reports] {
        // A path that is no longer a directory holds nothing to restore.
        if no_directory(context, tree, dir)?.is_some() {
            touched.retain(|path| !path.as_bytes().starts_with(format!("{dir}/").as_bytes()));
        }
    }
    let target = context.repo.refs().find(&branch_ref(&context.task_of().target))?;
    let Some(landed) = target.map(|tip| context.repo.tree_of(tip)).transpose()? else { return Ok(touched) };
    let mut own = Vec::new();
    for path in touched {
        let now = context.repo.tree_entry(tree, &path)?;
        let is_landed = now.is_some() && now == context.repo.tree_entry(landed, &path)?;
        own.extend(Some(path).filter(|_| !is_landed));
    }
    Ok(own)
}

fn is_leaf_task(context: &Context) -> bool {
    context.plan.job.as_ref().is_some_and(|job| job.task.is_leaf())
}

/// The facts shared by all steps of the session.
pub(crate) fn facts(context: &Context, kind: StepKind, passed: bool) -> Step {
    let task = context.task_of();
    Step {
        session: Some(context.plan.run.session.clone()),
        tree: Some(task.tree.clone()),
        name: Some(task.name.clone()),
        ..Step::new(Some(task.id.clone()), kind, passed)
    }
}

/// A tree without pleach's own files, by which attempts are compared.
fn code_at(context: &Context, tree: TreeId) -> Result<CommitId, Error> {
    let job = context.plan.job.as_ref().expect("only sessions on tasks make steps");
    code_of(&context.repo, context.repo.tree_of(context.task_of().base)?, tree, job)
}

/// The id of the current code.
pub(crate) fn code(context: &mut Context) -> Result<CommitId, Error> {
    let step = context.pending.as_ref().and_then(|pending| pending.step.as_ref());
    match (context.code, step) {
        (Some((newest, code)), Some(step)) if newest == step.tree => Ok(code),
        _ => {
            recording::flush(context)?;
            code_at(context, context.task_copy().tree()?)
        }
    }
}

fn make_step(
    context: &mut Context,
    writer: &mut Writer,
    making: StepDraft,
    tree: TreeId,
    parent: CommitId,
    now: Timestamp,
) -> Result<(StepFinished, TreeId), Error> {
    let StepDraft { facts, body, attempt, files, feedback, mut failing, report, by } = making;
    failing.truncate(FAILING);
    let code = match context.code {
        Some((newest, code)) if newest == tree => code,
        _ => code_at(context, tree)?,
    };
    let job = context.plan.job.as_ref().expect("only sessions on tasks make steps");
    let is_own = files.iter().all(|(path, _)| job.is_own(path));
    let mut edits = Vec::new();
    for (path, text) in files {
        workspace::write_file(context.task_copy_mut(), &path, text.as_bytes())?;
        edits.push(TreeEdit::Put(path, EntryKind::File, writer.blob(text.as_bytes())?));
    }
    let tree = if edits.is_empty() { tree } else { writer.tree(Some(tree), &edits)? };
    // The step's additions are excluded again, so that the next step need not filter all logs.
    context.code = is_own.then_some((tree, code));
    let task = context.task_of();
    let redactor = &context.engine.redactor;
    let by =
        by.iter().filter_map(|(agent, model)| attribution(context.engine.attribution, agent, &redactor.text(model)));
    // Later runs parse every other word of the subject, so only the name is redacted.
    let subject = facts.subject(task.target.as_str(), &redactor.text(&task.name), attempt);
    let message = CommitMessage {
        subject,
        body: body.write(redactor),
        trailers: facts.trailers().into_iter().chain(by).collect(),
    };
    let not_before = context.plan.job.as_ref().map(|job| job.not_before).unwrap_or_default();
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
        repo: task.repo.clone(),
        task: task.id.clone(),
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

/// The file in place of a directory of logs or reports, if there is one. It stays, and the logs or reports are only in
/// the session's record.
pub(crate) fn no_directory(context: &Context, tree: TreeId, dir: &str) -> Result<Option<PathBuf>, Error> {
    Ok(workspace::non_directory_at(context.task_copy(), tree, dir)?)
}

/// Warns about the log of a node that is about to end.
pub(crate) fn warn_of_log(
    context: &Context,
    node: &Node,
    report: Option<&StepReport>,
    changes: Option<&mut Changes>,
) -> Result<Option<Warning>, Error> {
    let Some(job) = context.plan.job.as_ref().filter(|job| job.commit_logs) else { return Ok(None) };
    if node.step.is_none() || report.is_none_or(|report| report.log.is_none()) {
        return Ok(None);
    }
    let changed = match changes {
        Some(changes) => {
            // It is read below.
            changes.flush()?;
            changes.of(&context.task_of().repo).map(|change| change.tree)
        }
        None => None,
    };
    let tree = match changed {
        Some(tree) => tree,
        None => context.task_copy().tree()?,
    };
    let found = no_directory(context, tree, &job.logs)?;
    Ok(found.map(|found| in_the_record(&format!("the log of `{}`", node.id), &found)))
}

/// A path that is free in the tree: two steps can end in the same second.
pub(crate) fn free_path(context: &Context, path: &str, tree: TreeId) -> Result<String, Error> {
    let (stem, extension) = path.rsplit_once('.').unwrap_or((path, "log"));
    let mut free = path.to_owned();
    let mut number = 2;
    while context.repo.tree_entry(tree, &RepoPath::from(free.as_str()))?.is_some() {
        free = format!("{stem}-{number}.{extension}");
        number += 1;
    }
    Ok(free)
}

/// Warns that something is only in the session's record.
pub(crate) fn in_the_record(what: &str, found: &Path) -> Warning {
    WarningCode::LogNotCommitted
        .with(format!("{what} is only in the session's record: `{}` is not a directory", found.display()))
}

/// A tree without the logs and reports added since `base`, by which attempts are compared.
pub(crate) fn code_of(repo: &Repo, base: TreeId, tree: TreeId, job: &TaskJob) -> Result<CommitId, Error> {
    let own =
        git::diff::changes(repo, base, tree)?.into_iter().map(|change| change.path).filter(|path| job.is_own(path));
    let own: Vec<TreeEdit> = own.map(TreeEdit::Remove).collect();
    // The objects are never used, and never written.
    let code = if own.is_empty() { tree } else { repo.writer().tree(Some(tree), &own)? };
    Ok(CommitId::from_bytes(*code.as_bytes()))
}

/// The feedback of a failed step.
fn feedback(kind: &StepKind, said: &str, failing: &[String], log: Option<&str>) -> Feedback {
    match kind {
        StepKind::Review => Feedback::new(FeedbackKind::Rejected, text::cut(said, FEEDBACK)),
        StepKind::Test => prompt::test_failure(said, failing, log),
        StepKind::Custom(name) => Feedback { step: Some(name.clone()), ..prompt::test_failure(said, &[], log) },
        _ => text::broke_off(said),
    }
}

/// The failing tests: those reported, and those named in the text.
fn all_failing(heard: Vec<String>, said: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = heard.into_iter().chain(counts::failing(said));
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// Commit dates have no smaller unit, and the step is looked up by its date.
fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
