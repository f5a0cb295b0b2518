//! The step of a task, by its commit.

use engine::env::Error;
use engine::view::View;
use git::{Repo, record};
use pleach_core::event::{Event, TaskOf};
use pleach_core::ids::{CommitId, SessionId, TurnId};
use pleach_core::step::shown_name;
use pleach_core::trailer::CommitMessage;
use serde_json::{Value, json};

use super::turn_text::TurnText;
use crate::failure::Failure;
use crate::lib_errors::{of_engine, of_git};
use crate::render::patch::shown_patch;
use crate::render::session as show;

/// A step with the turns it was made of.
pub struct StepView {
    session: SessionId,
    commit: CommitId,
    message: CommitMessage,
    /// The task and the turns by the session's record, if that is here.
    recorded: Option<(Option<TaskOf>, Vec<TurnText>)>,
    patch: String,
}

impl StepView {
    /// Reads a commit; none when it is no step of a session.
    pub fn read(repo: &Repo, commit: CommitId, patch: &str) -> Result<Option<Self>, Failure> {
        let text = repo.commit(commit).map_err(|error| of_git(&error))?.text();
        let message = CommitMessage::read(&text);
        let session = message.trailer("Arborist-Step").and_then(|_| message.trailer("Pleach-Session")?.parse().ok());
        let Some(session) = session else { return Ok(None) };
        let recorded = match View::load(repo, &session) {
            Ok(view) => Some((view.summary.started.task.clone(), turns(repo, &view, commit, &message.subject)?)),
            // The commit outlives its record: it may have been removed, or never been fetched.
            Err(Error::Record(record::Error::Missing { .. })) => None,
            Err(error) => return Err(of_engine(&error)),
        };
        Ok(Some(Self { session, commit, message, recorded, patch: patch.to_owned() }))
    }

    fn turns(&self) -> &[TurnText] {
        self.recorded.as_ref().map_or(&[], |(_, turns)| turns)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let task = self.recorded.as_ref().and_then(|(task, _)| task.as_ref());
        let turns = self.turns().iter().map(TurnText::json);
        json!({
            "session": self.session,
            "task": task.map(|task| json!({
                "id": task.id, "name": task.name, "tree": task.tree, "target": task.target,
            })),
            "step": self.message.trailer("Arborist-Step"),
            "subject": self.message.subject,
            "body": self.message.body,
            "turns": turns.collect::<Vec<_>>(),
            "shown_commit": self.commit,
            "patch": self.patch,
        })
    }

    /// For people.
    pub fn text(&self, whole: bool) -> String {
        let mut text = show::fields(&self.fields());
        text.push('\n');
        for spoken in self.turns() {
            let heading = show::heading(&format!("{} {}", spoken.turn.turn, spoken.turn.node));
            text.push_str(&format!("\n{heading}\n{}", spoken.text(whole)));
        }
        if !self.patch.is_empty() {
            text.push_str(&format!("\n{}\n", show::heading("diff")));
            text.push_str(&shown_patch(&self.patch));
        }
        text
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("step", self.message.subject.clone())];
        let missing = if self.recorded.is_none() { " (its record is not in this repository)" } else { "" };
        if let Some((Some(task), _)) = &self.recorded {
            let name = shown_name(&task.name);
            fields.push(("task", format!("{} {name} ({} on {})", task.id, task.tree, task.target)));
        }
        fields.push(("session", format!("{}{missing}", self.session)));
        if self.recorded.is_some() {
            fields.push(("look", format!("pleach status {}", self.session)));
        }
        if !self.message.body.trim().is_empty() {
            fields.push(("message", self.message.body.trim().to_owned()));
        }
        fields.push(("commit", self.commit.to_string()));
        fields
    }
}

/// The turns between a step and the one before it, with their messages.
fn turns(repo: &Repo, view: &View, commit: CommitId, subject: &str) -> Result<Vec<TurnText>, Failure> {
    let turns = turn_ids(view, commit, subject).into_iter().filter_map(|id| view.turn(&id));
    turns.map(|turn| TurnText::read(repo, view, turn)).collect()
}

fn turn_ids(view: &View, commit: CommitId, subject: &str) -> Vec<TurnId> {
    let (mut since, mut alike) = (Vec::new(), Vec::new());
    for (_, recorded) in view.events() {
        match &recorded.event {
            Event::AgentTurn(data) => since.push(data.turn.clone()),
            Event::ToolExecution(data) => since.push(data.turn.clone()),
            Event::StepFinished(step) => {
                let of_step = std::mem::take(&mut since);
                if step.git_sha == commit {
                    return of_step;
                }
                // One that was rebuilt to land is another commit, and says the same.
                if step.subject == subject {
                    alike = of_step;
                }
            }
            _ => {}
        }
    }
    alike
}
