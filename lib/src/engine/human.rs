//! Gates a person decides.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::agent::BoxFuture;
use crate::ids::NodeId;
use crate::plan::pipeline::{Node, Pipeline};
use crate::process::Cancel;
use crate::route::{accelerator, normalise_label};
use crate::text::listed;

/// One way on from a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What people type: the label's accelerator, or its first character.
    pub key: String,
    /// What people see.
    pub label: String,
    /// Where it leads.
    pub target: NodeId,
}

/// What a gate asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The gate.
    pub node: NodeId,
    /// How often the run has come to it.
    pub visit: u32,
    /// The question.
    pub text: String,
    /// The answers there are, in the order of the edges.
    pub choices: Vec<Choice>,
    /// The choice taken when nobody answers.
    pub default: Option<usize>,
    /// How long to wait for an answer.
    pub timeout: Option<Duration>,
}

impl Question {
    /// The question a gate asks: one choice per edge that leaves it.
    pub fn of(pipeline: &Pipeline, node: &Node, visit: u32) -> Self {
        let choices: Vec<Choice> = pipeline
            .outgoing(&node.id)
            .map(|edge| {
                let label = if edge.label.is_empty() { edge.to.as_str() } else { &edge.label };
                let (key, label) = match accelerator(label) {
                    Some((key, label)) => (key.to_uppercase(), label.to_owned()),
                    None => (label.chars().take(1).flat_map(char::to_uppercase).collect(), label.to_owned()),
                };
                Choice { key, label, target: edge.to.clone() }
            })
            .collect();
        let wanted = node.human_default_choice.as_deref();
        let default = wanted.and_then(|wanted| find(&choices, wanted));
        Self { node: node.id.clone(), visit, text: node.label.clone(), choices, default, timeout: node.timeout }
    }

    /// The choice a text means: its key, its label or its target.
    pub fn choice(&self, text: &str) -> Option<usize> {
        find(&self.choices, text)
    }

    /// The choices in one line, for messages.
    pub fn choices_in_words(&self) -> String {
        listed(self.choices.iter().map(|choice| &choice.label), usize::MAX)
    }
}

fn find(choices: &[Choice], text: &str) -> Option<usize> {
    let wanted = normalise_label(text);
    let by = |matches: &dyn Fn(&Choice) -> bool| choices.iter().position(matches);
    by(&|choice| normalise_label(&choice.label) == wanted)
        .or_else(|| by(&|choice| choice.target == text.trim()))
        .or_else(|| by(&|choice| choice.key.eq_ignore_ascii_case(text.trim())))
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This choice.
    Choice {
        /// Its place among the question's choices.
        index: usize,
        /// Where the answer came from: `console`, `file`, `auto-approve`, …
        source: &'static str,
    },
    /// The person would not say.
    Skipped,
    /// Nobody answered in time.
    TimedOut,
    /// There is nobody to ask.
    Nobody,
    /// There was an answer, but it is none of the choices.
    Unknown {
        /// The answer as given.
        text: String,
    },
}

/// Whoever answers the gates of a run.
pub trait Interviewer: Send + Sync {
    /// Asks, and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer>;
}

impl fmt::Debug for dyn Interviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interviewer")
    }
}

/// Takes the first choice of every gate.
#[derive(Debug, Clone, Copy)]
pub struct AutoApprove;

impl Interviewer for AutoApprove {
    fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Choice { index: 0, source: "auto-approve" } })
    }
}

/// Nobody is there.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Interviewer for Nobody {
    fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody })
    }
}

/// Answers given beforehand, by gate. A gate without an answer left is put to the next one.
#[derive(Debug)]
pub struct Prepared<I> {
    answers: BTreeMap<String, Given>,
    then: I,
}

/// What was answered to a gate beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// The same at every visit.
    Always(String),
    /// One answer for each visit.
    Each(Vec<String>),
}

impl<I: Interviewer> Prepared<I> {
    /// These answers, then `then`.
    pub fn new(answers: BTreeMap<String, Given>, then: I) -> Self {
        Self { answers, then }
    }
}

impl<I: Interviewer> Interviewer for Prepared<I> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        let visit = question.visit.saturating_sub(1) as usize;
        let given = self.answers.get(question.node.as_str()).and_then(|given| match given {
            Given::Always(answer) => Some(answer),
            Given::Each(answers) => answers.get(visit),
        });
        match given {
            None => self.then.ask(question, cancel),
            Some(text) => Box::pin(async move {
                match question.choice(text) {
                    Some(index) => Answer::Choice { index, source: "file" },
                    None => Answer::Unknown { text: text.clone() },
                }
            }),
        }
    }
}

impl Interviewer for Box<dyn Interviewer> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        (**self).ask(question, cancel)
    }
}
