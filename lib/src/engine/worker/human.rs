//! Nodes a person decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Effect, Gathered, Stopped, Worker};
use crate::engine::human::{Answer, Question};
use crate::event::{HumanInteraction, Outcome, PauseReason};

impl Worker {
    pub(super) async fn ask(&mut self, question: &Question, end: &mut Gathered) -> Result<Outcome, Stopped> {
        if question.choices.is_empty() {
            return Ok(Outcome::final_failure("the gate has no edge to choose"));
        }
        let engine = Arc::clone(&self.engine);
        let asked = async {
            let answer = engine.interviewer.ask(question, &engine.cancel);
            match question.timeout {
                Some(timeout) => tokio::time::timeout(timeout, answer).await.unwrap_or(Answer::TimedOut),
                None => answer.await,
            }
        };
        let answer = tokio::select! {
            answer = asked => answer,
            () = engine.cancel.stopped() => return Err(Stopped::Paused(PauseReason::Interrupted)),
        };
        let (index, source) = match (answer, question.default) {
            (Answer::Choice { index, source }, _) => (index, source),
            (Answer::TimedOut | Answer::Nobody, Some(index)) => (index, "default"),
            (Answer::TimedOut, None) => return Ok(Outcome::retry("human gate timeout, no default")),
            (Answer::Nobody, None) => return Err(Stopped::Paused(PauseReason::WaitsForPerson)),
            (Answer::Skipped, _) => return Ok(Outcome::final_failure("the gate was skipped")),
            (Answer::None { text, why }, _) => return Err(Stopped::NoAnswer(text, why)),
        };
        let choice = &question.choices[index.min(question.choices.len() - 1)];
        end.effect = Effect::Human(HumanInteraction {
            node_id: question.node.clone(),
            visit: question.visit,
            question: question.text.clone(),
            options: question.choices.iter().map(|choice| choice.label.clone()).collect(),
            answer: choice.label.clone(),
            source: source.to_owned(),
            extra: Default::default(),
        });
        let context_updates = BTreeMap::from([
            ("human.gate.selected".to_owned(), Value::from(choice.target.as_str())),
            ("human.gate.label".to_owned(), Value::from(choice.label.as_str())),
        ]);
        Ok(Outcome {
            preferred_label: Some(choice.label.clone()),
            suggested_next_ids: vec![choice.target.to_string()],
            context_updates,
            ..Outcome::success()
        })
    }
}
