//! Answers to gates: given beforehand, or asked for at the terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agents::agent::BoxFuture;
use clap::Args;
use engine::env::{Broadcast, GateAnswer, GateReply, GivenAnswers, Interviewer, NoChoice, Question};
use os::process::Cancel;
use serde_json::Value;

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::question;
use crate::{say, stdin_lines};

/// The flags that answer gates.
#[derive(Debug, Clone, Default, Args)]
pub struct AnswerArgs {
    /// Take the first choice at every gate.
    #[arg(long)]
    auto_approve: bool,
    /// Answer the next visit of a gate: its node and the label, key or target of the choice, or free text where the
    /// gate asks for it. Text after a colon is a comment for the next node: `review=No: too long`. Repeated, the
    /// answers to one gate are used in order.
    #[arg(long = "answer", value_name = "NODE=CHOICE[:COMMENT]")]
    answers: Vec<String>,
    /// Read answers from a JSON file: an object of NODE: "CHOICE" for the next visit, or NODE: ["first visit", "second
    /// visit", …].
    #[arg(long = "answers", id = "answers_file", value_name = "FILE")]
    file: Option<PathBuf>,
}

/// How gates are answered.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// The first choice is taken where nothing is given.
    pub auto_approve: bool,
    /// The given answers, by node.
    pub given: BTreeMap<String, GivenAnswers>,
    /// The nodes that were named on the command line; a file may answer for several pipelines.
    pub named: Vec<String>,
    /// Asks at the terminal for what is left; none before they are read.
    pub console: Option<Console>,
}

impl AnswerArgs {
    /// The answers, read.
    pub fn read(&self, globals: &Globals) -> Result<Answers, Failure> {
        let mut given = BTreeMap::new();
        let mut named = Vec::new();
        if let Some(file) = &self.file {
            let path = globals.path(file);
            let unusable = |why: String| {
                Failure::new(Code::AnswersUnreadable, format!("cannot use the answers in `{}`: {why}", file.display()))
                    .hint(r#"write a JSON object such as {"approve": "Yes", "review": ["Revise", "Accept"]}"#)
            };
            let text = os::plain_file::read_given(&path).map_err(|error| unusable(error.to_string()))?;
            let value: BTreeMap<String, Value> =
                serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
            for (node, answer) in value {
                let wrong = || unusable(format!("the answer to `{node}` is neither a text nor a list of texts"));
                given.insert(node.clone(), read_given(&answer).ok_or_else(wrong)?);
            }
        }
        let mut in_order: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for answer in &self.answers {
            let (node, choice) = answer.split_once('=').ok_or_else(|| {
                Failure::new(Code::AnswerMalformed, format!("`{answer}` is not NODE=CHOICE"))
                    .hint("write it as --answer approve=Yes")
            })?;
            in_order.entry(node.trim()).or_default().push(choice.trim().to_owned());
        }
        for (node, answers) in in_order {
            named.push(node.to_owned());
            given.insert(node.to_owned(), GivenAnswers::Next(answers));
        }
        let console = Some(Console { globals: globals.clone(), events: Broadcast::default() });
        Ok(Answers { auto_approve: self.auto_approve, given, named, console })
    }
}

fn read_given(answer: &Value) -> Option<GivenAnswers> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match answer {
        Value::String(answer) => Some(GivenAnswers::Next(vec![answer.clone()])),
        Value::Array(answers) => answers.iter().map(text).collect::<Option<_>>().map(GivenAnswers::Each),
        _ => None,
    }
}

/// The reader of typed answers.
const CONSOLE: &str = "console";

/// How long a question waits for earlier output.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// Asks at the terminal.
#[derive(Debug, Clone)]
pub struct Console {
    globals: Globals,
    /// The events of the run: a question comes after all of them.
    events: Broadcast,
}

impl Console {
    /// The same, in a run with a stream of events.
    pub fn after(self, events: Broadcast) -> Self {
        Self { events, ..self }
    }
}

impl Interviewer for Console {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, GateAnswer> {
        Box::pin(async move {
            // Who does not read what is told does not keep a person from answering.
            let _ = tokio::time::timeout(HEARD_WITHIN, self.events.is_heard()).await;
            let mut lines = stdin_lines::lines().await;
            let mut asking = say::asking();
            let mut text = format!("\n{}", question::asked(&self.globals, question));
            loop {
                let line = lines.ask(&mut asking, &format!("{text}> ")).await;
                let Some(line) = line.ok().filter(|line| !line.is_empty()) else { return GateAnswer::Nobody };
                match question.answer(&line, CONSOLE) {
                    GateAnswer::None { why: NoChoice::Ambiguous { fitting, .. }, .. } => {
                        text = format!("this could be: {fitting}\n");
                    }
                    GateAnswer::None { .. } => {
                        text = match question.shown().next() {
                            Some(_) => format!("please answer with one of: {}\n", question.choices_in_words()),
                            None => "please type an answer, in your own words\n".to_owned(),
                        }
                    }
                    answer => return answer,
                }
            }
        })
    }

    fn comment<'a>(&'a self, _: &'a Question, reply: &'a GateReply) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            // Whoever has not answered has nothing to add.
            if reply.source != CONSOLE {
                return None;
            }
            let mut lines = stdin_lines::lines().await;
            let mut asking = say::asking();
            let line = lines.ask(&mut asking, "comment for the next node (Enter for none)> ").await.ok()?;
            Some(line.trim().to_owned()).filter(|comment| !comment.is_empty())
        })
    }
}
