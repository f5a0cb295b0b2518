//! Gates a person decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
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
        let default = wanted.and_then(|wanted| fitting(&choices, wanted).first().copied());
        Self { node: node.id.clone(), visit, text: node.label.clone(), choices, default, timeout: node.timeout }
    }

    /// The choice a text means: its label, its target or its key.
    pub fn choice(&self, text: &str) -> Result<usize, NoChoice> {
        let fitting = fitting(&self.choices, text);
        let Some(&first) = fitting.first() else { return Err(NoChoice::Unknown) };
        let way = |index: usize| (&self.choices[index].label, &self.choices[index].target);
        if fitting.iter().all(|&index| way(index) == way(first)) {
            return Ok(first);
        }
        let labels: BTreeSet<String> = fitting.iter().map(|&index| normalise_label(way(index).0)).collect();
        let targets: BTreeSet<&NodeId> = fitting.iter().map(|&index| way(index).1).collect();
        let tells_apart = match (labels.len() == fitting.len(), targets.len() == fitting.len()) {
            (true, false) => "the whole label",
            (false, true) => "the target",
            _ => "the whole label, or the target,",
        };
        let ways = fitting.into_iter().map(way).map(|(label, target)| format!("{label} → {target}"));
        Err(NoChoice::Ambiguous { fitting: listed(ways, usize::MAX), tells_apart })
    }

    /// What becomes of an answer in words, from wherever it came.
    pub fn answer(&self, text: &str, source: &'static str) -> Answer {
        match self.choice(text) {
            Ok(index) => Answer::Choice { index, source },
            Err(why) => Answer::None { text: text.to_owned(), why },
        }
    }

    /// The choices in one line, for messages.
    pub fn choices_in_words(&self) -> String {
        listed(self.choices.iter().map(|choice| &choice.label), usize::MAX)
    }
}

/// The choices a text fits best: by their label, else by their target, else by their key.
fn fitting(choices: &[Choice], text: &str) -> Vec<usize> {
    let wanted = normalise_label(text);
    let by = |fits: &dyn Fn(&Choice) -> bool| -> Vec<usize> {
        choices.iter().enumerate().filter(|(_, choice)| fits(choice)).map(|(index, _)| index).collect()
    };
    let by_label = by(&|choice| normalise_label(&choice.label) == wanted);
    let by_target = by(&|choice| choice.target == text.trim());
    let by_key = by(&|choice| choice.key.eq_ignore_ascii_case(text.trim()));
    [by_label, by_target, by_key].into_iter().find(|fitting| !fitting.is_empty()).unwrap_or_default()
}

/// Why a text is no choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoChoice {
    /// It fits none.
    Unknown,
    /// It fits several, which lead different ways.
    Ambiguous {
        /// Those, in words.
        fitting: String,
        /// What of a choice says which one is meant.
        tells_apart: &'static str,
    },
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
    /// There was an answer, but it is none of the choices, or not one of them alone.
    None {
        /// The answer as given.
        text: String,
        /// Why.
        why: NoChoice,
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
    /// Which answer of a gate is next, once it was asked.
    next: Mutex<BTreeMap<NodeId, usize>>,
    then: I,
}

/// What was answered to a gate beforehand. No answer is taken twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// For the visits that come next, in order.
    Next(Vec<String>),
    /// For every visit from the first one of the session, in order: what a run before this one has asked is left out.
    Each(Vec<String>),
}

impl<I: Interviewer> Prepared<I> {
    /// These answers, then `then`.
    pub fn new(answers: BTreeMap<String, Given>, then: I) -> Self {
        Self { answers, next: Mutex::default(), then }
    }

    /// Takes the answer to a question, if there is one left.
    fn take(&self, question: &Question) -> Option<&str> {
        let (answers, first) = match self.answers.get(question.node.as_str())? {
            Given::Next(answers) => (answers, 0),
            Given::Each(answers) => (answers, question.visit.saturating_sub(1) as usize),
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry(question.node.clone()).or_insert(first);
        let answer = answers.get(*next)?;
        *next += 1;
        Some(answer)
    }
}

impl<I: Interviewer> Interviewer for Prepared<I> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        match self.take(question) {
            None => self.then.ask(question, cancel),
            Some(text) => Box::pin(async move { question.answer(text, "file") }),
        }
    }
}

impl Interviewer for Box<dyn Interviewer> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        (**self).ask(question, cancel)
    }
}
