//! Commit messages written by a cheap model, from what changed and what the agent meant to do. What it writes is
//! checked; when it cannot be used, or does not come in time, the agent's own words are used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::commit_message::{are_typed, checked_message};
use crate::llm::{Answered, Message, ModelNames, Pricing, Provider, Request, price_unknown};
use os::deadline::within;
use os::process::Cancel;
use pleach_core::budget::Amount;
use pleach_core::event::{Usage, Warning, WarningCode};
use pleach_core::text::shorten;

/// How long a message may take, both tries together.
const PATIENCE: Duration = Duration::from_secs(10);

/// After how many failures in a row the model is not asked for a while: a provider that is down must not delay every
/// turn.
const FAILURES: u32 = 2;

/// How long that is the first time. It gets longer with every further failure.
const REST: Duration = Duration::from_secs(60);

/// The longest it gets.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// How much of the task is shown.
const TASK: usize = 1_000;

/// How much of a change is shown.
const SHOWN: usize = 8_000;

/// How many tokens a message may have.
const MAX_TOKENS: u32 = 1_000;

const SYSTEM: &str = "You write commit messages. Answer with the message alone: no quotes, no code fence, no remark.
First line: what the commit does, in the imperative mood (\"Add\", not \"Added\" or \"Adds\"), at most 72 characters, no \
full stop; with a type prefix (\"fix: \") only where the project's last commits have one. Then a blank line. Then one to four lines that say what changed and why, as far as the diff \
and the author's words tell. Say nothing that is in neither.";

/// Writes commit messages.
#[derive(Debug, Clone)]
pub struct MessageWriter {
    provider: Provider,
    model: String,
    patience: Duration,
    failing: Arc<Mutex<WriterFailures>>,
}

/// How the provider has failed.
#[derive(Debug, Default)]
struct WriterFailures {
    /// How often in a row.
    times: u32,
    /// Nobody is asked before.
    until: Option<Instant>,
    /// The user was warned that its price is unknown.
    told_unpriced: bool,
}

/// What a message is to be made of.
#[derive(Debug, Clone, Copy)]
pub struct MessageInput<'a> {
    /// What the author was asked to do.
    pub task: &'a str,
    /// What the author said.
    pub intent: &'a str,
    /// The first lines of the project's last commits, newest first.
    pub recent: &'a [String],
    /// The paths that changed.
    pub paths: &'a [String],
    /// How they changed.
    pub diff: &'a str,
}

/// A message and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenMessage {
    /// The message, if one was written.
    pub text: Option<String>,
    /// The tokens of the calls that were answered.
    pub usage: Usage,
    /// Their price, where it is known.
    pub cost_usd: Option<f64>,
    /// Whether some of that is estimated, where the provider did not say.
    pub estimated: bool,
    /// The model that answered, where one did.
    pub model: String,
    /// Why there is none, where the user should know.
    pub fallback: Option<String>,
}

/// Why a message was not written.
enum NotWritten {
    /// Nothing more may be spent, which is not a failure of the provider.
    Unpaid(String),
    Failed(String),
}

impl MessageWriter {
    /// One that asks a model of `provider`.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into(), patience: PATIENCE, failing: Arc::default() }
    }

    /// The same with another bound on how long a message may take.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The provider it asks.
    pub fn provider(&self) -> &str {
        self.provider.name()
    }

    /// Whether the price of its model is unknown.
    pub fn is_unpriced(&self) -> bool {
        let is_script = matches!(self.provider, Provider::Script(_));
        !is_script && self.provider.pricing(ModelNames::asked(&self.model)) == Pricing::Unknown
    }

    /// The warning, given once, that it is not used because its price is unknown.
    pub fn unpriced_warning(&self) -> Option<Warning> {
        let was_given = std::mem::replace(&mut self.failing().told_unpriced, true);
        let text = || format!("commit messages are in the agent's own words: {}", price_unknown(&self.model));
        (!was_given).then(|| WarningCode::MessageUnpriced.with(text()))
    }

    /// Writes the message of a commit. Before every call, `may` is asked whether it can be paid for after this much was
    /// spent on the message.
    pub async fn write(
        &self,
        subject: MessageInput<'_>,
        may: &(dyn Fn(Amount) -> bool + Sync),
        cancel: &Cancel,
    ) -> WrittenMessage {
        let mut written = WrittenMessage::default();
        if self.failing().until.is_some_and(|until| Instant::now() < until) {
            return written;
        }
        let asked = within(self.patience, self.ask(subject, may, cancel, &mut written)).await;
        let why = match asked {
            Some(Ok(text)) => {
                written.text = Some(text);
                *self.failing() = WriterFailures::default();
                return written;
            }
            Some(Err(NotWritten::Unpaid(why))) => {
                written.fallback = Some(why);
                return written;
            }
            Some(Err(NotWritten::Failed(why))) => why,
            None => format!("no answer in {:?}", self.patience),
        };
        written.fallback = Some(match self.failed() {
            Some(rest) => format!("{why}; not asked again for {} s", rest.as_secs()),
            None => why,
        });
        written
    }

    fn failing(&self) -> MutexGuard<'_, WriterFailures> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure. Gives how long the provider is not asked.
    fn failed(&self) -> Option<Duration> {
        let mut failing = self.failing();
        failing.times += 1;
        let more = failing.times.checked_sub(FAILURES)?;
        let rest = REST.saturating_mul(2_u32.saturating_pow(more)).min(LONGEST_REST);
        failing.until = Some(Instant::now() + rest);
        Some(rest)
    }

    async fn ask(
        &self,
        subject: MessageInput<'_>,
        may: &(dyn Fn(Amount) -> bool + Sync),
        cancel: &Cancel,
        written: &mut WrittenMessage,
    ) -> Result<String, NotWritten> {
        let mut request = Request {
            model: self.model.clone(),
            system: SYSTEM.into(),
            messages: vec![Message::user(question(subject))],
            max_tokens: Some(MAX_TOKENS),
            effort: self.provider.takes_effort(&self.model).then(|| "low".to_owned()),
            ..Request::default()
        };
        let mut wrong: Option<String> = None;
        for _ in 0..2 {
            if !may(Amount::of_call(written.usage, written.cost_usd)) {
                return Err(NotWritten::Unpaid(match wrong {
                    None => "the budget is used up".to_owned(),
                    Some(why) => format!("the model's message could not be used ({why}), and the budget is used up"),
                }));
            }
            let answered = self.provider.complete(&request, cancel).await;
            let paid = match &answered {
                Ok(Answered { response, estimated }) => Some((&response.model, response.usage, *estimated)),
                Err(error) => error.charge.as_ref().map(|charge| (&charge.model, charge.usage, charge.estimated)),
            };
            if let Some((model, usage, estimated)) = paid {
                written.usage += usage;
                let named = ModelNames { asked: &self.model, answered: model };
                written.estimated |= estimated || self.provider.pricing(named) == Pricing::Estimated;
                written.model.clone_from(model);
                if let Some(cost) = self.provider.cost(named, &usage) {
                    *written.cost_usd.get_or_insert_default() += cost;
                }
            }
            let Answered { response, .. } = answered.map_err(|error| NotWritten::Failed(error.message))?;
            let said = response.message.text();
            let why = match checked_message(&said, are_typed(subject.recent)) {
                Ok(text) => return Ok(text),
                Err(why) => why,
            };
            request.messages.push(Message::assistant(if said.trim().is_empty() { "(nothing)" } else { &said }));
            request.messages.push(Message::steering(format!("That cannot be used: {why}. Write the message again.")));
            wrong = Some(why);
        }
        let wrong = wrong.unwrap_or_default();
        Err(NotWritten::Failed(format!("the model's message could not be used, twice: {wrong}")))
    }
}

/// The prompt: the task, the author's words, the project's last subjects, the paths, the change as far as it fits.
fn question(MessageInput { task, intent, recent, paths, diff }: MessageInput<'_>) -> String {
    let mut text = String::new();
    if !task.trim().is_empty() {
        text.push_str(&format!("The author's task:\n{}\n\n", shorten(task.trim(), TASK)));
    }
    if !intent.trim().is_empty() {
        text.push_str(&format!("What the author said:\n{}\n\n", intent.trim()));
    }
    if !recent.is_empty() {
        text.push_str(&format!("The project's last commits:\n{}\n\n", recent.join("\n")));
    }
    text.push_str("Changed files:\n");
    paths.iter().take(50).for_each(|path| text.push_str(&format!("{path}\n")));
    if paths.len() > 50 {
        text.push_str(&format!("and {} more\n", paths.len() - 50));
    }
    text.push_str("\nDiff:\n");
    match diff.char_indices().nth(SHOWN) {
        None => text.push_str(diff),
        Some((end, _)) => {
            // Whole lines only.
            let end = diff[..end].rfind('\n').map_or(end, |line| line + 1);
            text.push_str(&diff[..end]);
            text.push_str(&format!("[cut: {} more characters]\n", diff[end..].chars().count()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Script;

    fn free(_: Amount) -> bool {
        true
    }

    async fn written(steps: &str, patience: Duration) -> WrittenMessage {
        let script = Script::parse(&format!(
            "scripts: [{{name: a, when: {{contains: ['+let x', 'I will add']}}, steps: {steps}}}]"
        ));
        let message_writer = MessageWriter::new(Provider::Script(script.unwrap()), "cheap").with_patience(patience);
        let paths = ["src/parser.rs".to_owned()];
        let subject = MessageInput {
            task: "",
            recent: &[],
            intent: "I will add the parser.",
            paths: &paths,
            diff: "diff --git\n+let x\n",
        };
        message_writer.write(subject, &free, &Cancel::never()).await
    }

    const LONG: Duration = Duration::from_secs(60);

    /// Source row "Commit message via LLM": from the diff and the agent's intent. Both are in the script's condition.
    #[tokio::test]
    async fn the_model_writes_messages_from_diff_and_intent() {
        let written =
            written(r#"[{text: "Add a parser for x\n\nIt reads x.", usage: {input: 9, output: 4}}]"#, LONG).await;
        assert_eq!((written.text.as_deref(), written.fallback), (Some("Add a parser for x\n\nIt reads x."), None));
        assert_eq!((written.usage.input, written.usage.output), (9, 4));
    }

    /// Source row "Commit message format": what does not hold it is asked for again, once.
    #[tokio::test]
    async fn a_malformed_message_is_requested_once_more() {
        let again = r#"[{text: "Added a parser\n\nIt reads x.", usage: {output: 4}}, {text: "Add a parser\n\nIt reads x.", usage: {output: 5}}]"#;
        let second = written(again, LONG).await;
        assert_eq!((second.text.as_deref(), second.fallback), (Some("Add a parser\n\nIt reads x."), None));
        assert_eq!(second.usage.output, 9);
        let never =
            written(r#"[{text: "auto-commit"}, {text: "Update files\n\nx"}, {text: "Add a\n\nb"}]"#, LONG).await;
        assert!(never.text.is_none() && never.fallback.unwrap().contains("twice"));
    }

    #[tokio::test]
    async fn without_an_answer_there_is_no_message() {
        for steps in ["[{error: {status: 500}}]", "[{error: {status: 401}}]", "[{text: ''}, {error: {status: 529}}]"] {
            let written = written(steps, LONG).await;
            assert!(written.text.is_none() && written.fallback.is_some(), "{written:?}");
        }
        assert_eq!(PATIENCE, Duration::from_secs(10));
        let slow = written("[{text: \"Add x\\n\\ny\", delay: 10m}]", Duration::from_millis(20)).await;
        assert_eq!((slow.text, slow.fallback.as_deref()), (None, Some("no answer in 20ms")));
    }

    #[tokio::test]
    async fn a_failing_provider_is_not_asked_for_a_while() {
        let script =
            Script::parse("scripts: [{name: a, steps: [{error: {status: 500, message: down}, tries: 9}]}]").unwrap();
        let message_writer = MessageWriter::new(Provider::Script(script), "cheap");
        let mut said = Vec::new();
        for _ in 0..3 {
            let subject = MessageInput { task: "", recent: &[], intent: "Add x to y", paths: &[], diff: "" };
            said.push(message_writer.write(subject, &free, &Cancel::never()).await.fallback);
        }
        assert!(!said[0].as_ref().unwrap().contains("again"), "{said:?}");
        assert!(said[1].as_ref().unwrap().ends_with("down; not asked again for 60 s"), "{said:?}");
        assert_eq!(said[2], None);
    }

    #[tokio::test]
    async fn no_call_is_made_that_cannot_be_paid_for() {
        let steps = "[{text: auto-commit, usage: {input: 9}}, {text: auto-commit, usage: {input: 9}}]";
        let script = Script::parse(&format!("scripts: [{{name: a, steps: {steps}}}]")).unwrap();
        let message_writer = MessageWriter::new(Provider::Script(script), "cheap");
        let subject = MessageInput { task: "", recent: &[], intent: "Add x to y", paths: &[], diff: "" };
        for (limit, spent, says) in [(0, 0, "the budget is used up"), (9, 9, "and the budget is used up")] {
            // However often: that there is no money is no failure of the provider's.
            for _ in 0..=FAILURES {
                let may = |spent: Amount| spent.tokens.total() < limit;
                let written = message_writer.write(subject, &may, &Cancel::never()).await;
                assert_eq!((written.text, written.usage.input), (None, spent));
                assert!(written.fallback.is_some_and(|why| why.ends_with(says)), "{limit}");
            }
        }
    }

    #[test]
    fn a_long_change_is_cut_at_a_line() {
        let diff = "+0123456789\n".repeat(1000);
        let text = question(MessageInput { task: "", recent: &[], intent: "", paths: &[], diff: &diff });
        assert!(text.ends_with("+0123456789\n[cut: 4008 more characters]\n"), "{}", &text[text.len() - 100..]);
        assert!(!text.contains("author said"));
    }
}
