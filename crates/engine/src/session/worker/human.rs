//! Nodes decided by a person.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::collected::Collected;
use super::worker::{block, work_message};
use super::{Effect, HumanEffect, Stopped, Worker};
use crate::env::{Engine, GateAnswer, GateReply, Question};
use crate::merging;
use crate::session::executor::ConflictWork;
use git::workspace::{Author, Changes};
use os::deadline;
use pleach_core::clock;
use pleach_core::event::{HumanInteraction, Outcome, PauseReason};
use pleach_core::ids::RepoPath;

/// The source of an answer nobody has given.
const DEFAULT: &str = "default";

pub(super) async fn ask(worker: &mut Worker, question: &Question, end: &mut Collected) -> Result<Outcome, Stopped> {
    if question.choices.is_empty() {
        return Ok(Outcome::final_failure("the gate has no edge to choose"));
    }
    let engine = Arc::clone(&worker.engine);
    let asked = async {
        let answer = engine.interviewer.ask(question, &worker.cancel);
        match question.timeout {
            Some(timeout) => deadline::within(timeout, answer).await.unwrap_or(GateAnswer::TimedOut),
            None => answer.await,
        }
    };
    let answer = tokio::select! {
        answer = asked => answer,
        () = worker.cancel.stopped() => return Err(Stopped::Paused(PauseReason::Interrupted)),
    };
    let mut reply = match (answer, question.default) {
        (GateAnswer::Choice(reply), _) => reply,
        (GateAnswer::TimedOut | GateAnswer::Nobody, Some(index)) => {
            GateReply { index, source: DEFAULT, ..GateReply::default() }
        }
        (GateAnswer::TimedOut | GateAnswer::Nobody, None) => return Err(Stopped::Paused(PauseReason::WaitsForPerson)),
        (GateAnswer::Skipped, _) => {
            return Ok(Outcome::final_failure(format!("gate `{}` was declined", question.node)));
        }
        (GateAnswer::None { text, why }, _) => return Err(Stopped::NoAnswer(text, why)),
    };
    if reply.comment.is_none() && reply.text.is_none() {
        reply.comment = tokio::select! {
            comment = comment(&engine, question, &reply) => comment,
            // Whoever stops the run here has not given the answer yet.
            () = worker.cancel.stopped() => return Err(Stopped::Paused(PauseReason::Interrupted)),
        };
    }
    let by = worker.workspace.copies().find_map(|copy| copy.repo.user_name());
    let choice = &question.choices[reply.index.min(question.choices.len() - 1)];
    let answer = HumanInteraction {
        node_id: question.node.clone(),
        visit: question.visit,
        question: question.text.clone(),
        options: question.choices.iter().map(|choice| choice.label.clone()).collect(),
        answer: reply.text.clone().unwrap_or_else(|| choice.label.clone()),
        comment: reply.comment.clone(),
        source: reply.source.to_owned(),
        by: by.filter(|_| reply.source != DEFAULT),
        extra: Default::default(),
    };
    // A gate that was given conflicts to resolve: the person has edited the files.
    let changes = match worker.resolves.clone() {
        Some(conflicts) if conflicts.fan_out.as_ref() != Some(&choice.target) => Some(edits(worker, &conflicts)?),
        _ => None,
    };
    end.effect = Effect::Human(Box::new(HumanEffect { answer, changes }));
    // Values of an earlier gate must not be mistaken for those of this one.
    let context_updates = [
        ("selected", choice.target.as_str()),
        ("label", choice.label.as_str()),
        ("text", reply.text.as_deref().unwrap_or_default()),
        ("comment", reply.comment.as_deref().unwrap_or_default()),
    ];
    let context_updates: BTreeMap<String, Value> =
        context_updates.into_iter().map(|(key, value)| (format!("human.gate.{key}"), Value::from(value))).collect();
    Ok(Outcome {
        preferred_label: Some(choice.label.clone()),
        suggested_next_ids: vec![choice.target.to_string()],
        context_updates,
        ..Outcome::success()
    })
}

/// Commits what a person has changed in the worktrees to resolve conflicts.
fn edits(worker: &mut Worker, conflicts: &ConflictWork) -> Result<Changes, Stopped> {
    let (facts, trailers, at) = (worker.facts("human", "local"), Vec::new(), clock::now());
    let mut changes = block(|| worker.workspace.scan(None))?;
    block(|| changes.flush())?;
    // Nothing is committed before all is resolved: the answer came too early, and is asked for again.
    let mut left = Vec::new();
    for (repo, sides) in &conflicts.sides {
        if let (Some(copy), Some(change)) = (worker.workspace.copy(repo), changes.of(repo)) {
            left.extend(block(|| Ok(merging::unresolved(&copy.repo, sides, change.tree)?))?);
        }
    }
    if !left.is_empty() {
        return Err(Stopped::Unresolved(left));
    }
    let message = |paths: &[RepoPath], are_new: bool| work_message(worker.resolves.as_ref(), "", false, paths, are_new);
    let author = Author { facts, trailers, at, message: &message };
    block(|| worker.workspace.commit(&author, &mut changes))?;
    Ok(changes)
}

/// The comment on an answer. The choice counts even without one.
async fn comment(engine: &Engine, question: &Question, reply: &GateReply) -> Option<String> {
    let comment = engine.interviewer.comment(question, reply);
    match question.timeout {
        Some(timeout) => deadline::within(timeout, comment).await.flatten(),
        None => comment.await,
    }
}
