//! A turn with its messages, as people and programs read it.

use agents::llm;
use engine::view::{TurnView, View};
use git::Repo;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::lib_errors::of_engine;
use crate::render::session as show;

/// A turn, what was said in it, and what its agent's program wrote to standard error where it is the last of its node.
pub(super) struct TurnText {
    pub turn: TurnView,
    pub messages: Vec<llm::Message>,
    pub stderr: Option<String>,
}

impl TurnText {
    pub fn read(repo: &Repo, view: &View, turn: TurnView) -> Result<Self, Failure> {
        let messages = view.messages(repo, &turn).map_err(|error| of_engine(&error))?;
        let stderr = view.stderr(repo, &turn.turn).map_err(|error| of_engine(&error))?;
        Ok(Self { turn, messages, stderr })
    }

    pub fn json(&self) -> Value {
        let mut document = json!(self.turn);
        document["messages"] = json!(self.messages);
        if let Some(stderr) = &self.stderr {
            document["stderr"] = json!(stderr);
        }
        document
    }

    /// The messages as text.
    pub fn text(&self, whole: bool) -> String {
        let messages = self.messages.iter().map(|message| show::message(message, whole));
        let stderr = self.stderr.iter().map(|stderr| show::stderr(stderr, whole));
        messages.chain(stderr).map(|said| format!("\n{said}\n")).collect()
    }
}
