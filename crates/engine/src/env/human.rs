//! Human gates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Error;
use agents::agent::BoxFuture;
use git::FileStat;
use os::process::Cancel;
use pleach_core::event::PauseReason;
use pleach_core::ids::{ContextId, NodeId, RepoPath, RunId, SessionId, TaskId};
use pleach_core::plan::label::choice;
use pleach_core::plan::pipeline::{HandlerKind, Node, Pipeline, QuestionKind};
use pleach_core::route::normalise_label;
use pleach_core::state::{Phase, State};
use pleach_core::text::listed;

/// One choice at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What people type: the label's accelerator, or its first character.
    pub key: String,
    /// What people see.
    pub label: String,
    /// The node it leads to.
    pub target: NodeId,
}

/// The question of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The task whose session asks, if it is one of a tree.
    pub task: Option<TaskId>,
    /// The context that asks.
    pub context: ContextId,
    /// The gate.
    pub node: NodeId,
    /// The number of the visit to the gate.
    pub visit: u32,
    /// How it is answered.
    pub kind: QuestionKind,
    /// The question.
    pub text: String,
    /// The choices, in the order of the edges.
    pub choices: Vec<Choice>,
    /// The choice taken with a free-text answer, if the gate asks for one.
    pub free: Option<usize>,
    /// The choice taken on a timeout.
    pub default: Option<usize>,
    /// How long to wait for an answer.
    pub timeout: Option<Duration>,
    /// The work to review, if the gate allows looking at it.
    pub work: Option<ReviewedWork>,
}

/// The work to review at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedWork {
    /// The session.
    pub session: SessionId,
    /// The newest answer of an agent, with its node.
    pub answer: Option<(NodeId, String)>,
    /// The session's changes so far.
    pub changes: Vec<FileStat>,
    /// The files with merge conflicts a person is to resolve before answering.
    pub conflicts: Vec<RepoPath>,
    /// Where these files are.
    pub worktree: PathBuf,
}

impl Question {
    /// The question of a gate: one choice per outgoing edge.
    pub fn of(pipeline: &Pipeline, node: &Node, visit: u32) -> Self {
        let choices: Vec<Choice> = pipeline
            .outgoing(&node.id)
            .map(|edge| {
                let (key, label) = choice(edge);
                Choice { key, label, target: edge.to.clone() }
            })
            .collect();
        let wanted = node.human_default_choice.as_deref();
        let default = wanted.and_then(|wanted| fitting(&choices, wanted).first().copied());
        let marked = pipeline.outgoing(&node.id).position(|edge| edge.freeform);
        let kind = node.question.unwrap_or_else(|| match marked {
            Some(_) => QuestionKind::Freeform,
            None => suggested(&choices),
        });
        let unlabelled = || pipeline.outgoing(&node.id).position(|edge| edge.label.is_empty());
        let free = marked.or_else(unlabelled).or(Some(0)).filter(|_| kind == QuestionKind::Freeform);
        let (text, timeout) = (node.label.clone(), node.timeout);
        let (context, node) = (ContextId::main(), node.id.clone());
        Self { task: None, context, node, visit, kind, text, choices, free, default, timeout, work: None }
    }

    /// The questions a session waits with, by the states of its root and of its open branches: those it is paused at, or
    /// asks now.
    pub fn waiting<'s>(pipeline: &Pipeline, root: &State, branches: impl IntoIterator<Item = &'s State>) -> Vec<Self> {
        let at: fn(&State) -> Option<&NodeId> = match root.phase {
            Phase::Paused { reason: PauseReason::WaitsForPerson, .. } => State::next_node,
            Phase::Running => |state| state.running().map(|visit| &visit.node),
            _ => return Vec::new(),
        };
        let asks = |state: &State| {
            let gate = pipeline.node(at(state)?).filter(|node| node.handler == HandlerKind::WaitHuman)?;
            Some(Self { context: state.id.clone(), ..Self::of(pipeline, gate, state.visits(&gate.id)) })
        };
        asks(root).into_iter().chain(branches.into_iter().filter_map(asks)).collect()
    }

    /// The gate as `--answer` names it: with its context, if it is in a branch.
    pub fn address(&self) -> String {
        if self.context == self.context.run_root() {
            self.node.to_string()
        } else {
            format!("{}/{}", self.context, self.node)
        }
    }

    /// What is to be judged as `pleach diff` names it: the session, with the context if it is in a branch.
    pub fn place(&self, session: &SessionId) -> String {
        RunId::of_context(session, &self.context).with_context(&self.context)
    }

    /// The same with its task in front, which tells the tasks apart that are worked at once.
    pub fn address_with_task(&self) -> String {
        let address = self.address();
        self.task.as_ref().map_or(address.clone(), |task| format!("{task}/{address}"))
    }

    /// Parses an answer: a choice, a choice with a comment (`choice: comment`), or free text if the gate asks for it.
    pub fn read(&self, text: &str) -> Result<GateReply, NoChoice> {
        let text = text.trim();
        match self.choice(text) {
            Ok(index) => Ok(GateReply { index, ..GateReply::default() }),
            Err(why @ NoChoice::Ambiguous { .. }) => Err(why),
            Err(why) => {
                if let Some((index, comment)) = self.commented(text) {
                    return Ok(GateReply { index, comment: Some(comment), ..GateReply::default() });
                }
                let index = self.free.filter(|_| !text.is_empty()).ok_or(why)?;
                Ok(GateReply { index, text: Some(text.to_owned()), ..GateReply::default() })
            }
        }
    }

    /// The choice before a comment. If two match, the longer one wins, because labels may contain colons.
    fn commented(&self, text: &str) -> Option<(usize, String)> {
        text.rmatch_indices(':').find_map(|(at, _)| {
            let comment = text[at + 1..].trim();
            let index = self.choice(&text[..at]).ok().filter(|_| !comment.is_empty())?;
            Some((index, comment.to_owned()))
        })
    }

    /// The choice matching a text by label, target or key, or by yes and no if that is the question.
    pub fn choice(&self, text: &str) -> Result<usize, NoChoice> {
        let mut fitting = fitting(&self.choices, text);
        fitting.retain(|index| self.free != Some(*index));
        let Some(&first) = fitting.first() else { return self.yes_or_no(text) };
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

    fn yes_or_no(&self, text: &str) -> Result<usize, NoChoice> {
        let index = match text.trim().to_lowercase().as_str() {
            "y" | "yes" => 0,
            "n" | "no" => 1,
            _ => return Err(NoChoice::Unknown),
        };
        match self.kind {
            QuestionKind::Confirmation if index == 1 => Err(NoChoice::Declined),
            QuestionKind::YesNo | QuestionKind::Confirmation if index < self.choices.len() => Ok(index),
            _ => Err(NoChoice::Unknown),
        }
    }

    /// The answer a text gives, whatever its source.
    pub fn answer(&self, text: &str, source: &'static str) -> GateAnswer {
        match self.read(text) {
            Ok(reply) => GateAnswer::Choice(GateReply { source, ..reply }),
            Err(NoChoice::Declined) => GateAnswer::Skipped,
            Err(why) => GateAnswer::None { text: text.to_owned(), why },
        }
    }

    /// Why a text is not an answer; `None` if it is one.
    pub fn refused(&self, text: &str) -> Option<Error> {
        match self.answer(text, "") {
            GateAnswer::None { text, why } => Some(self.error(text, why)),
            _ => None,
        }
    }

    /// The error for an answer that is not a choice.
    pub(crate) fn error(&self, answer: String, why: NoChoice) -> Error {
        let node = self.node.clone();
        match why {
            NoChoice::Ambiguous { fitting, tells_apart } => {
                Error::AmbiguousAnswer { node, answer, fitting, tells_apart }
            }
            NoChoice::Unknown | NoChoice::Declined => {
                Error::UnknownAnswer { node, answer, choices: self.choices_in_words() }
            }
        }
    }

    /// The choices to show. A choice that only carries free text is hidden.
    pub fn shown(&self) -> impl Iterator<Item = &Choice> {
        let choices = self.choices.iter().enumerate();
        choices.filter(|(index, _)| self.free != Some(*index)).map(|(_, choice)| choice)
    }

    /// The choices in one line, for messages.
    pub fn choices_in_words(&self) -> String {
        let labels: Vec<&str> = self.shown().map(|choice| choice.label.as_str()).collect();
        let own = self.free.map(|_| if labels.is_empty() { "your own words" } else { "or your own words" });
        listed(labels.into_iter().chain(own), usize::MAX)
    }
}

/// The kind of a question that does not declare one.
fn suggested(choices: &[Choice]) -> QuestionKind {
    let labels: Vec<String> = choices.iter().map(|choice| normalise_label(&choice.label)).collect();
    match labels.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_] => QuestionKind::Confirmation,
        ["yes", "no"] => QuestionKind::YesNo,
        _ => QuestionKind::MultipleChoice,
    }
}

/// The choices that match a text: by label, otherwise by target, otherwise by key.
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

/// Why a text is not a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoChoice {
    /// It matches none.
    Unknown,
    /// The person declines to answer.
    Declined,
    /// It matches several choices with different targets.
    Ambiguous {
        /// The matching choices, for messages.
        fitting: String,
        /// What distinguishes them.
        tells_apart: &'static str,
    },
}

/// A choice, with its comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateReply {
    /// Its index among the question's choices.
    pub index: usize,
    /// The free-text answer, if the gate asks for one.
    pub text: Option<String>,
    /// The comment for the next node.
    pub comment: Option<String>,
    /// Where the answer came from: `console`, `file`, `auto-approve`, …
    pub source: &'static str,
}

/// The result of asking a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateAnswer {
    /// A choice.
    Choice(GateReply),
    /// The person declined to answer.
    Skipped,
    /// No answer in time.
    TimedOut,
    /// There is nobody to ask.
    Nobody,
    /// The answer matches none of the choices, or more than one.
    None {
        /// The answer as given.
        text: String,
        /// Why it was not accepted.
        why: NoChoice,
    },
}

/// Answers the gates of a run.
pub trait Interviewer: Send + Sync {
    /// Asks and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, GateAnswer>;

    /// Asks for a comment on the answer just given. Only interactive interviewers return one.
    fn comment<'a>(&'a self, _: &'a Question, _: &'a GateReply) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}

impl fmt::Debug for dyn Interviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interviewer")
    }
}

/// Takes the first choice at every gate.
#[derive(Debug, Clone, Copy)]
pub struct AutoApprove;

impl Interviewer for AutoApprove {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
        let text = question.free.map(|_| "auto-approved".to_owned());
        let reply = GateReply { index: question.free.unwrap_or(0), text, comment: None, source: "auto-approve" };
        Box::pin(async { GateAnswer::Choice(reply) })
    }
}

/// Answers no gate.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Interviewer for Nobody {
    fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
        Box::pin(async { GateAnswer::Nobody })
    }
}

/// Prepared answers by gate. A gate whose answers are used up is passed to the next interviewer.
#[derive(Debug)]
pub struct PreparedAnswers<I> {
    answers: BTreeMap<String, GivenAnswers>,
    /// The index of the next answer, by gate and by the root of the run: runs of a session are answered each.
    next: Mutex<BTreeMap<(String, ContextId), usize>>,
    then: I,
}

/// The source of prepared answers.
const PREPARED: &str = "file";

/// The prepared answers of a gate. Each is used once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenAnswers {
    /// For the next visits, in order.
    Next(Vec<String>),
    /// For all visits of the session from the first one, in order. Visits of earlier runs are skipped.
    Each(Vec<String>),
}

impl GivenAnswers {
    /// All answers.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::Next(texts) | Self::Each(texts) => texts,
        }
    }
}

impl<I: Interviewer> PreparedAnswers<I> {
    /// Answers from `answers`, then asks `then`.
    pub fn new(answers: BTreeMap<String, GivenAnswers>, then: I) -> Self {
        Self { answers, next: Mutex::default(), then }
    }

    /// Takes the next answer to a question, if one is left.
    fn take(&self, question: &Question) -> Option<&str> {
        let names = [question.address_with_task(), question.address(), question.node.to_string()];
        let (address, given) = names.iter().find_map(|name| self.answers.get_key_value(name))?;
        let (answers, first) = match given {
            GivenAnswers::Next(answers) => (answers, 0),
            GivenAnswers::Each(answers) => (answers, question.visit.saturating_sub(1) as usize),
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry((address.clone(), question.context.run_root())).or_insert(first);
        let answer = answers.get(*next)?;
        *next += 1;
        Some(answer)
    }
}

impl<I: Interviewer> Interviewer for PreparedAnswers<I> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
        match self.take(question) {
            None => self.then.ask(question, cancel),
            Some(text) => Box::pin(async move { question.answer(text, PREPARED) }),
        }
    }

    fn comment<'a>(&'a self, question: &'a Question, reply: &'a GateReply) -> BoxFuture<'a, Option<String>> {
        match reply.source {
            PREPARED => Box::pin(async { None }),
            _ => self.then.comment(question, reply),
        }
    }
}

impl Interviewer for Box<dyn Interviewer> {
    fn ask<'a>(&'a self, question: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
        (**self).ask(question, cancel)
    }

    fn comment<'a>(&'a self, question: &'a Question, reply: &'a GateReply) -> BoxFuture<'a, Option<String>> {
        (**self).comment(question, reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::plan::{Inputs, load};

    fn question(body: &str) -> Question {
        let source = format!("digraph g {{ a b c gate [shape=hexagon, label=\"Well?\"] {body} }}");
        let pipeline = load(&source, &Inputs::default(), &[]).0.expect("a graph");
        let gate = pipeline.nodes().iter().find(|node| node.id == "gate").expect("a gate");
        Question::of(&pipeline, gate, 1)
    }

    fn read(question: &Question, text: &str) -> Option<(usize, Option<String>, Option<String>)> {
        question.read(text).ok().map(|reply| (reply.index, reply.text, reply.comment))
    }

    #[test]
    fn the_edges_suggest_how_a_question_is_answered() {
        for (body, kind) in [
            ("gate -> a [label=\"[Y] Yes\"] gate -> b [label=No]", QuestionKind::YesNo),
            ("gate -> a [label=Ship] gate -> b [label=No]", QuestionKind::MultipleChoice),
            ("gate -> a", QuestionKind::Confirmation),
            ("gate -> a [freeform=true] gate -> b [label=Stop]", QuestionKind::Freeform),
            ("gate [question_type=freeform] gate -> a", QuestionKind::Freeform),
            ("gate [question_type=yes_no] gate -> a [label=Ship] gate -> b [label=Back]", QuestionKind::YesNo),
        ] {
            assert_eq!(question(body).kind, kind, "{body}");
        }
    }

    #[test]
    fn a_comment_stands_behind_the_choice() {
        let question = question("gate -> a [label=\"[S] Ship\"] gate -> b [label=\"Fix: now\"] gate -> c [label=Fix]");
        let comment = |text: &str| Some(text.to_owned());
        assert_eq!(read(&question, "ship"), Some((0, None, None)));
        assert_eq!(read(&question, "S: at 10:30 "), Some((0, None, comment("at 10:30"))));
        assert_eq!(read(&question, "Fix: now"), Some((1, None, None)));
        assert_eq!(read(&question, "Fix: now: it burns"), Some((1, None, comment("it burns"))));
        assert_eq!(read(&question, "Fix: later"), Some((2, None, comment("later"))));
        assert_eq!(read(&question, "Perhaps: why not"), None);
        assert_eq!(question.read("Perhaps"), Err(NoChoice::Unknown));
    }

    #[test]
    fn own_words_are_taken_where_they_are_asked_for() {
        let question = question("gate -> a [label=Stop] gate -> b [freeform=true]");
        assert_eq!(read(&question, "stop"), Some((0, None, None)));
        assert_eq!(read(&question, "stop: enough"), Some((0, None, Some("enough".into()))));
        assert_eq!(read(&question, "make it blue"), Some((1, Some("make it blue".into()), None)));
        assert_eq!(read(&question, " "), None);
        assert_eq!(question.choices_in_words(), "Stop, or your own words");
    }

    #[test]
    fn yes_and_no_answer_what_asks_for_them() {
        let both = question("gate [question_type=yes_no] gate -> a [label=Ship] gate -> b [label=Back]");
        assert_eq!((read(&both, "yes").map(|read| read.0), read(&both, "N").map(|read| read.0)), (Some(0), Some(1)));
        let one = question("gate -> a [label=Continue]");
        assert_eq!(read(&one, "y: fine"), Some((0, None, Some("fine".into()))));
        assert_eq!(one.answer("no", "console"), GateAnswer::Skipped);
        let choices = question("gate -> a [label=Ship] gate -> b [label=Back]");
        assert_eq!(choices.read("yes"), Err(NoChoice::Unknown));
    }
}
