//! Coding agents that are programs: Claude Code, Codex, Gemini CLI, OpenCode, or any other by a template.
//!
//! `preset` is what is known of them, `parser` what they say while they work, `gather` makes turns of it, `outcome`
//! judges how it went. `launch` starts them, `follow` and `gateway` see them through, `route` is their way to the gateway.

mod apart;
mod follow;
mod gateway;
mod gather;
mod hooks;
mod launch;
mod outcome;
pub mod parser;
mod preset;
mod probe;
mod route;
mod template;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::follow::Following;
use self::gather::Gathered;
use self::hooks::Listener;
use self::launch::Start;
use self::outcome::Ended;
use self::parser::Reader;
use super::commit_message::says_what_was_done;
use super::driven::why_failed;
use super::intent::{LONGEST, intent_of};
use super::{Agent, AgentError, BoxFuture, End, Job, Profile, Reply, Turn, Turns, Verdict};
use crate::config::{Environment, ParserName, TurnMode};
use crate::event::{Usage, Warning, WarningCode};
use crate::gateway::Upstream;
use crate::llm::{LlmError, Message, Named, Prices, Pricing, Role, Unusable};
use crate::process::{Cancel, Output, Spawner};
use crate::text::shorten;

pub use hooks::hook_main;
pub(super) use launch::{epilogue, is_no_tier};
pub use preset::Preset;
pub use probe::{Billed, Introduction, Versions, find_program};
pub(super) use route::{Endpoint, Variables, Way, tools};

/// What the configuration says about an agent beyond its preset.
#[derive(Debug, Clone, Default)]
pub struct CliSettings {
    /// Arguments after the usual ones.
    pub args: Vec<String>,
    /// What it may do without asking, in its own words.
    pub permission_mode: Option<String>,
    /// The tools it is kept to; all when the list is empty.
    pub tools: Vec<String>,
    /// Seconds one run may take.
    pub timeout: Option<u64>,
    /// Seconds it may go without a sign of life.
    pub idle_timeout: Option<u64>,
    /// How many calls of its model in a row may end without a whole answer.
    pub max_failed_calls: Option<u32>,
    /// The models behind short names.
    pub models: BTreeMap<String, String>,
    /// Prices of models, over those pleach knows.
    pub prices: Prices,
    /// It is a program of the user's own, which is told its task and nothing else.
    pub is_command: bool,
    /// It gets no network where it does not go through the gateway.
    pub is_closed: bool,
}

/// A coding agent that is a program.
#[derive(Debug, Clone)]
pub struct CliAgent {
    /// The kind, as records have it.
    pub kind: &'static str,
    /// What people know it by.
    pub name: String,
    /// How the program is driven.
    pub preset: Preset,
    /// What the configuration says.
    pub settings: CliSettings,
    /// Where the program is.
    pub program: PathBuf,
    /// How its turns are told apart.
    pub turns: TurnMode,
    /// Who it is told to be.
    pub profile: Profile,
    /// Where its keys are.
    pub environment: Environment,
    /// Starts it.
    pub spawner: Spawner,
    /// Versions that are known.
    pub versions: Versions,
    /// The program, with arguments, that is its hook.
    pub hook: Vec<OsString>,
    /// Who answers its model's calls, with `turns: gateway`.
    pub upstream: Option<Upstream>,
}

/// How one run of the program went.
struct Ran {
    output: Output,
    gathered: Gathered,
    stopped: bool,
    /// Why it has not done its work, whatever it says.
    undone: Option<AgentError>,
    /// Why it was ended before it was done, where its calls could not go on.
    given_up: Option<AgentError>,
    /// Why its model's newest call has no answer, where that is known.
    unanswered: Option<LlmError>,
}

impl CliAgent {
    async fn work(&self, job: Job, turns: &Turns, cancel: &Cancel) -> Result<Reply, AgentError> {
        if let Some(settled) = job.settled(cancel) {
            return settled;
        }
        let session = job.resume.as_ref().filter(|state| self.can_resume(Some(state), &job.home)).and_then(session_of);
        if let Some(session) = session.as_deref() {
            let (ran, last) = self.run_once(&job, Some(session), turns, cancel).await?;
            let lost = !ran.gathered.spoke && ran.output.exit.code().is_some_and(|code| code != 0);
            if !lost || ran.unanswered.is_some() {
                return self.finish(&job, ran, last, Vec::new(), turns).await;
            }
        }
        let (ran, last) = self.run_once(&job, None, turns, cancel).await?;
        let warning = session.map(|session| {
            WarningCode::AgentCannotResume.with(format!(
                "`{}` could not resume its conversation {session} and started a new one",
                self.preset.program
            ))
        });
        self.finish(&job, ran, last, warning.into_iter().collect(), turns).await
    }

    /// Runs the program to its end, and reports the turns that can be told apart while it runs. The last one is given
    /// back where it is known already.
    async fn run_once(
        &self,
        job: &Job,
        session: Option<&str>,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<(Ran, Option<Turn>), AgentError> {
        let (ran, last) = match (self.turns, &self.upstream) {
            (TurnMode::Gateway, Some(upstream)) => {
                let drove = self.drive(job, session, upstream, turns, cancel).await?;
                (drove.ran, drove.last)
            }
            _ => (self.follow(job, session, turns, cancel).await?, None),
        };
        turns.said_beside(&ran.output.stderr.to_text());
        Ok((ran, last))
    }

    /// Runs the program outside of the gateway, and reports the turns it tells of.
    async fn follow(
        &self,
        job: &Job,
        session: Option<&str>,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<Ran, AgentError> {
        let listener = match self.turns {
            TurnMode::Hooks => Some(Listener::open(&job.home).map_err(|error| {
                AgentError::Transient(format!("cannot listen to the hooks of `{}`: {error}", self.preset.program))
            })?),
            _ => None,
        };
        let settings = listener.as_ref().map(|listener| listener.settings(&self.hook));
        let bounds = self.bounds(job, None);
        let prompt = self.prompt(job, session.is_some(), bounds.as_ref());
        let start = Start { session, hooks: settings.as_deref(), endpoint: None, bounds: bounds.as_ref() };
        let command = self.command(job, &prompt, start)?;
        let earlier = job.resume.as_ref().filter(|_| session.is_some()).and_then(|state| state.get("used"));
        let earlier = earlier.and_then(|used| serde_json::from_value(used.clone()).ok()).unwrap_or_default();
        let asked = if job.continues { prompt } else { job.prompt.clone() };
        let run = Following { agent: self, job, listener, gathered: Gathered::new(&asked), turns, stopped: false };
        run.follow(command, Reader::new(self.preset.parser, earlier), cancel).await
    }

    /// Reports what is left after the program's end, and judges how it went.
    async fn finish(
        &self,
        job: &Job,
        ran: Ran,
        last: Option<Turn>,
        warnings: Vec<Warning>,
        turns: &Turns,
    ) -> Result<Reply, AgentError> {
        let Ran { output, mut gathered, stopped, undone, given_up, unanswered } = ran;
        if self.turns == TurnMode::Gateway && stopped && last.is_none() {
            // Its turns are all reported: the last of them is what it was stopped after.
            return Ok(Reply::new(gathered.words(), End::Stopped));
        }
        let stderr = output.stderr.to_text();
        let judged = Ended {
            program: &self.preset.program,
            exit: output.exit,
            claim: gathered.claim.as_ref(),
            speaks: self.preset.parser != ParserName::None,
            denied: &gathered.denied,
            complaint: gathered.complaint.as_deref(),
            stderr: &stderr,
            exits: &self.preset.exits,
            stopped,
        }
        .judge();
        let judged = match (judged, undone) {
            (Ok(End::Done | End::Doubtful(_)), Some(undone)) => Err(undone),
            (judged, _) => judged,
        };
        let judged = judged.map_err(|error| self.of_whom(error));
        let judged = judged.map_err(|error| why_failed(&self.preset.program, error, unanswered.as_ref()));
        // Whatever it made of that.
        let judged = given_up.map_or(judged, Err);
        let failed = match &judged {
            Ok(End::Done | End::Doubtful(_)) => None,
            Ok(End::Limit(why)) => Some(why.clone()),
            Ok(End::Stopped) => Some("it was stopped".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let mut text = gathered.words();
        let heard = gathered.last_turn(failed.as_deref(), |model, usage| self.price(job, model, usage));
        let behind_gateway = self.turns == TurnMode::Gateway;
        let mut turn = match last {
            // What went through the gateway is the whole truth.
            Some(mut last) => {
                if let (Some(why), Some(words)) = (&failed, last.messages.last_mut().filter(|last| last.is_answer())) {
                    words.mark_failed(why);
                }
                last
            }
            None if behind_gateway => Turn::default(),
            None => heard,
        };
        if self.preset.parser == ParserName::None && !behind_gateway {
            text = output.stdout.to_text().trim().to_owned();
            let mut answer = Message::assistant(&text);
            if let Some(why) = &failed {
                answer.mark_failed(why);
            }
            turn.messages.truncate(1);
            turn.messages.push(answer);
            turn.intent = intent_of(&text, &[]);
        } else if self.turns == TurnMode::Node && !text.is_empty() {
            turn.intent = told_at_once(&text, &turn);
        }
        turn.warnings.extend(warnings);
        if !gathered.denied.is_empty() {
            turn.warnings.extend(match &judged {
                Ok(End::Doubtful(why)) => Some(WarningCode::AgentDenied.with(why.clone())),
                _ => None,
            });
        }
        turn.is_last = true;
        let turn = self.told(job, turn, &gathered);
        let verdict = turns.report(turn).await;
        match (judged?, verdict) {
            (End::Done | End::Doubtful(_), Verdict::Stop) => Ok(Reply::new(text, End::Stopped)),
            (end, _) => Ok(Reply::new(text, end)),
        }
    }

    /// The turn with everything that is the same for all turns of a run.
    fn told(&self, job: &Job, mut turn: Turn, gathered: &Gathered) -> Turn {
        if turn.model.is_empty() {
            let model = gathered.model().map(str::to_owned).or_else(|| self.model(job));
            turn.model = model.unwrap_or_else(|| match self.settings.is_command {
                true => file_name(&self.program),
                false => self.kind.to_owned(),
            });
        }
        if turn.provider.is_empty() {
            let provider = if self.settings.is_command { "local" } else { self.preset.provider.as_str() };
            turn.provider = provider.to_owned();
        }
        turn.exact = self.turns != TurnMode::Stream;
        turn.unbilled = self.billed().is_subscription();
        turn.state_ref = self.state(gathered);
        turn
    }

    /// What tokens cost, where there is a price. A stream that names no model speaks of the one that was asked for.
    fn price(&self, job: &Job, model: &str, usage: &Usage) -> Option<f64> {
        let asked = self.model(job).unwrap_or_default();
        self.settings.prices.cost(Named { asked: &asked, answered: model }, usage)
    }

    /// What the agent needs to go on with its conversation, if that is known.
    fn state(&self, gathered: &Gathered) -> Option<Value> {
        gathered.session.as_ref().filter(|_| self.preset.resumes()).map(|session| {
            let mut state = json!({"agent": self.kind, "session": session, "home": self.home_word()});
            if let Some(version) = self.versions.known(&self.program).flatten() {
                state["version"] = version.into();
            }
            if let Some(used) = gathered.used() {
                state["used"] = json!(used);
            }
            state
        })
    }

    /// Whose home it keeps its conversations in.
    fn home_word(&self) -> &'static str {
        if self.turns == TurnMode::Gateway { "own" } else { "user" }
    }

    /// Who is billed for its work.
    fn billed(&self) -> Billed {
        match (self.turns, &self.upstream) {
            (TurnMode::Gateway, Some(upstream)) => Billed::through_gateway(upstream),
            _ => Billed::without_gateway(&self.preset, &self.environment),
        }
    }

    /// Why it cannot work, and what helps, where it has neither key nor login and was given no other way to a model.
    pub fn unpaid(&self) -> Option<(String, String)> {
        let Billed::Unknown(how) = self.billed() else { return None };
        let is_usual = Preset::of(self.kind)
            .is_some_and(|usual| usual.argv == self.preset.argv && usual.env == self.preset.env)
            && self.settings.args.is_empty();
        let is_sure = is_usual && self.preset.needs_login(&self.environment);
        is_sure.then(|| (format!("{} has no key and no login", self.preset.title), how))
    }

    /// A refusal with the key or the login that was refused.
    fn of_whom(&self, error: AgentError) -> AgentError {
        let AgentError::Environment(why) = error else { return error };
        let log_in = &self.preset.log_in;
        AgentError::Environment(match self.billed() {
            Billed::Key(key) => format!("{why}; check {key} of your environment, or unset it and {log_in}"),
            Billed::Login | Billed::LeftKey => format!("{why}; check the login in your home: {log_in}"),
            Billed::Unknown(how) => format!("{why}; no login or key was found: {how}"),
            _ => why,
        })
    }

    /// How the agent is introduced without asking it for its version.
    pub fn at_a_glance(&self) -> Introduction {
        let billed = self.billed();
        let other = billed.other_way(&self.preset, &self.environment);
        let (name, turns) = (self.name.clone(), Some(self.turns));
        Introduction { name, version: None, outdated: None, turns, billed, other }
    }

    /// How the agent is introduced before it works.
    pub async fn introduce(&self, cancel: &Cancel) -> Introduction {
        let (mut version, mut outdated) = (None, None);
        // What a program of the user's own makes of such a question is not known.
        if !self.settings.is_command {
            let said = self.versions.of(&self.program, &self.spawner, cancel).await;
            outdated = said.as_deref().and_then(|version| self.preset.outdated(version));
            version = Some(said.unwrap_or_else(|| "of unknown version".to_owned()));
        }
        Introduction { version, outdated, ..self.at_a_glance() }
    }
}

/// What all of an agent's work in one turn was for: what it says came of it, or where that says nothing, what it said on
/// the way.
fn told_at_once(last: &str, turn: &Turn) -> String {
    let at_last = intent_of(last, &turn.tool_calls);
    if says_what_was_done(&intent_of(last, &[])) {
        return at_last;
    }
    let words = turn.messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text);
    let steps = words.map(|said| intent_of(&said, &[])).filter(|step| says_what_was_done(step));
    let closed = |step: String| if step.ends_with(['.', '!', '?']) { step } else { format!("{step}.") };
    match steps.map(closed).collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => at_last,
        steps => shorten(&steps, LONGEST),
    }
}

fn session_of(state: &Value) -> Option<String> {
    state.get("session")?.as_str().filter(|session| !session.is_empty()).map(str::to_owned)
}

fn file_name(program: &Path) -> String {
    program.file_name().map_or_else(|| "command".to_owned(), |name| name.to_string_lossy().into_owned())
}

impl Agent for CliAgent {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn can_continue(&self) -> bool {
        false
    }

    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        self.knows_model(asked)
    }

    /// Where its conversations are kept, it goes on with them by itself.
    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let Some(state) = state else { return self.preset.resumes() };
        let is = |key: &str, value: &str| state.get(key).and_then(Value::as_str) == Some(value);
        let own = is("agent", self.kind) && is("home", self.home_word()) && session_of(state).is_some();
        let places = match self.turns {
            TurnMode::Gateway => self.preset.keeps.iter().map(|kept| home.join(kept)).collect(),
            _ => self.preset.kept_outside(&self.environment, home),
        };
        let kept = self.preset.keeps.is_empty() || places.iter().any(|place| place.exists());
        self.preset.resumes() && own && kept
    }

    fn pricing(&self, asked: Option<&str>) -> Option<(String, Pricing)> {
        let is_priced = match self.turns {
            TurnMode::Gateway => !matches!(self.upstream, Some(Upstream::Script(_))),
            // These tell their tokens and not what they cost. Others may say that themselves.
            _ => {
                let tells_tokens_alone = matches!(self.preset.parser, ParserName::Codex | ParserName::Gemini);
                tells_tokens_alone && !self.billed().is_subscription()
            }
        };
        let model = self.named_model(asked).filter(|_| is_priced)?;
        let pricing = self.settings.prices.pricing(Named::asked(&model));
        Some((model, pricing))
    }

    fn needs_network(&self) -> bool {
        self.turns != TurnMode::Gateway && !self.settings.is_closed
    }

    /// Through the gateway every call is seen, whatever the program says.
    fn tells_spending(&self) -> bool {
        self.turns == TurnMode::Gateway || self.preset.parser != ParserName::None
    }

    fn repeats_calls(&self) -> bool {
        self.turns == TurnMode::Gateway
    }

    fn as_program(&self) -> Option<&CliAgent> {
        Some(self)
    }

    fn run<'a>(&'a self, job: Job, turns: &'a Turns, cancel: &'a Cancel) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(self.work(job, turns, cancel))
    }
}
