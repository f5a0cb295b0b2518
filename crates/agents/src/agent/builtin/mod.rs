//! The built-in agent: a model, six tools and a loop. Its messages are its whole state, so it resumes after any turn as
//! if nothing had happened.

mod ask;
mod context;
mod limits;
mod loops;
mod prompt;
mod tools;
mod truncate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::json;

use self::ask::{AskOutcome, Asker, FailedTries};
use self::loops::Finding;
use self::tools::{Shell, ToolAnswer, Toolbox, Wrote};
use super::cli::Billing;
use super::intent::intent_of;
use super::tool_commands::ConfiguredTools;
use super::{Agent, AgentError, AgentReply, BoxFuture, End, Introduction, Job, Profile, Turn, TurnVerdict, Turns};
use crate::llm::{
    Answered, Message, ModelNames, Part, Pricing, Provider, Request, Role, Stop, Unusable, meta, price_estimated,
    uncounted,
};
use os::confined_fs::Jail;
use os::deadline::Deadline;
use os::process::{Cancel, Spawner};
use pleach_core::event::{ToolCall, Warning, WarningCode};
use pleach_core::text::{counted, shorten};

pub use limits::BuiltinLimits;
pub(super) use truncate::truncate;

/// An agent that is part of pleach.
#[derive(Debug, Clone)]
pub struct Builtin {
    provider: Provider,
    spawner: Spawner,
    limits: BuiltinLimits,
    profile: Profile,
    /// Commands of the configuration that are tools.
    commands: ConfiguredTools,
}

impl Builtin {
    /// An agent that asks `provider` and runs its commands with `spawner`, with the provider's limits.
    pub fn new(provider: Provider, spawner: Spawner) -> Self {
        let limits = BuiltinLimits::of(&provider);
        Self { provider, spawner, limits, profile: Profile::default(), commands: ConfiguredTools::default() }
    }

    /// The same with other limits.
    pub fn with_limits(self, limits: BuiltinLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same as an agent of the configuration.
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// The same with commands as further tools, none of which is called like one of its own.
    pub fn with_commands(self, commands: ConfiguredTools) -> Self {
        Self { commands, ..self }
    }

    /// The names of its own tools.
    pub fn tool_names() -> Vec<String> {
        tools::own(&BuiltinLimits::default()).into_iter().map(|tool| tool.name).collect()
    }

    /// The model it asks when a node names this one; empty for the provider's usual one.
    fn model(&self, asked: Option<&str>) -> String {
        asked.or(self.profile.model.as_deref()).unwrap_or_default().to_owned()
    }

    /// How a run ends whose conversation ends with this message; none when it continues.
    fn end_of(&self, last: &Message) -> Option<Result<AgentReply, AgentError>> {
        if last.role != Role::Assistant || last.tool_calls().next().is_some() {
            return None;
        }
        let reply = |end| Some(Ok(AgentReply::new(last.text(), end)));
        match last.extra.get(CUT).and_then(|why| why.as_str()) {
            Some("length") => {
                let more = match &self.provider {
                    Provider::Remote(remote) => format!("; `providers.{}.settings.max_tokens` sets it", remote.name()),
                    Provider::Script(_) => String::new(),
                };
                reply(End::Limit(format!("the model's answer was cut off at its token limit{more}")))
            }
            Some(_) => {
                let why = "the provider withheld the answer: the model refuses the task, or a filter does";
                Some(Err(AgentError::Terminal(why.into())))
            }
            None => reply(End::Done),
        }
    }

    /// Whether it may use a tool. One of its own that it is given, it is given in every repository.
    fn may_use(&self, tool: &str) -> bool {
        let given = |tool: &str| self.profile.tools.iter().any(|name| name == tool);
        let own =
            tool.split_once(':').map(|(_, own)| own).filter(|own| Self::tool_names().iter().any(|name| name == own));
        self.profile.tools.is_empty() || given(tool) || own.is_some_and(given)
    }
}

impl Agent for Builtin {
    fn kind(&self) -> &'static str {
        "builtin"
    }

    fn can_continue(&self) -> bool {
        true
    }

    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        match &self.provider {
            Provider::Remote(remote) => remote.model(&self.model(asked)).map(drop),
            Provider::Script(_) => Ok(()),
        }
    }

    fn pricing(&self, asked: Option<&str>) -> Option<(String, Pricing)> {
        let Provider::Remote(remote) = &self.provider else { return None };
        let model = remote.model(&self.model(asked)).ok()?;
        let pricing = remote.pricing(ModelNames::asked(&model));
        Some((model, pricing))
    }

    fn introduction(&self) -> Option<Introduction> {
        // A script bills no account, and neither does a server without a key.
        let Provider::Remote(remote) = &self.provider else { return None };
        if remote.is_keyless() {
            return None;
        }
        let name = format!("builtin ({})", remote.name());
        Some(Introduction {
            name,
            version: None,
            outdated: None,
            turns: None,
            billed: Billing::Pleach(remote.key_name().to_owned()),
            other: None,
        })
    }

    fn run<'a>(
        &'a self,
        mut job: Job,
        turns: &'a Turns,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<AgentReply, AgentError>> {
        Box::pin(async move {
            // Half an answer is not continued: it was asked for again.
            job.history.retain(|message| message.failure().is_none());
            let last = job.history.last().filter(|_| job.continues);
            if let Some(end) = last.and_then(|last| self.end_of(last)) {
                return end;
            }
            Run::new(self, job)?.run_to_end(turns, cancel).await
        })
    }
}

/// One job being done.
struct Run<'a> {
    agent: &'a Builtin,
    job: Job,
    toolbox: Toolbox,
    request: Request,
    /// Messages of the request that are not reported yet: the task, until the first turn.
    unreported: usize,
    /// Tries without a usable answer that are not reported yet.
    tries_so_far: FailedTries,
    /// The user knows that calls count by their length.
    has_warned: bool,
    /// The newest call was too long, and room was made since.
    was_too_long: bool,
    deadline: Option<Deadline>,
}

/// What comes after a turn.
enum AfterTurn {
    Again,
    End(Result<AgentReply, AgentError>),
}

impl<'a> Run<'a> {
    fn new(agent: &'a Builtin, mut job: Job) -> Result<Self, AgentError> {
        let terminal = |error: std::io::Error| AgentError::Terminal(format!("cannot open the worktree: {error}"));
        let jail = Jail::new(&job.root, &job.cwd, Some(&job.status_file)).map_err(terminal)?;
        let jail = jail.with_reads(job.reads.as_deref());
        let (system, shared) = prompt::system(&job, &jail, &agent.limits, &agent.profile);
        let about = prompt::about(&job);
        let mut messages = std::mem::take(&mut job.history);
        let mut unreported = 0;
        if !job.continues {
            messages.push(Message::user(&job.prompt).about(&about));
            unreported = 1;
        } else if let Some(task) = messages.iter_mut().rfind(|message| message.is_prompt()) {
            // The worktree may be elsewhere now.
            *task = task.clone().about(&about);
        } else {
            return Err(AgentError::Terminal("the conversation to resume holds no task".into()));
        }
        if job.continues && messages.last().is_some_and(|last| last.tool_calls().next().is_some()) {
            return Err(AgentError::Terminal("the conversation to resume lacks the answers of its last tools".into()));
        }
        // What it is told before it goes on.
        let told = if job.continues { job.steering.take() } else { Vec::new() };
        for remark in told {
            messages.push(Message::steering(remark));
            unreported += 1;
        }
        let metadata = BTreeMap::from([
            (meta::NODE.into(), job.node.to_string()),
            (meta::VISIT.into(), job.visit.to_string()),
            (meta::ATTEMPT.into(), job.attempt.to_string()),
            (meta::STATUS_FILE.into(), job.status_file.to_string_lossy().into_owned()),
            (meta::SHARED.into(), shared.to_string()),
        ]);
        let commands = agent.commands.of_job(&job);
        let mut tools = if job.tools { tools::specs(&agent.limits, &job.repos, &commands) } else { Vec::new() };
        tools.retain(|tool| agent.may_use(&tool.name));
        let request = Request {
            model: agent.model(job.model.as_deref()),
            system,
            messages,
            tools,
            max_tokens: agent.limits.max_tokens,
            effort: job.effort.clone(),
            metadata,
            extra: Default::default(),
        };
        let deadline = job.timeout.map(Deadline::after);
        let shell = Shell::new(agent.spawner.clone(), &job, &agent.limits, deadline);
        let toolbox = Toolbox::new(&job, jail, shell, request.tools.clone()).map_err(terminal)?.with_commands(commands);
        Ok(Self {
            agent,
            job,
            toolbox,
            request,
            unreported,
            tries_so_far: FailedTries::default(),
            has_warned: false,
            was_too_long: false,
            deadline,
        })
    }

    async fn run_to_end(mut self, turns: &Turns, cancel: &Cancel) -> Result<AgentReply, AgentError> {
        loop {
            if let Finding::Stuck(what) = self.find_loop() {
                return Err(AgentError::Terminal(format!("the agent is looping: {what}")));
            }
            if let Some(reply) = self.limit_reached() {
                return Ok(reply);
            }
            if self.context_share() >= context::FULL
                && let Some(room) = context::make_room(&self.request.messages, self.context() as f64)
                && self.make_room(room, turns).await == TurnVerdict::Stop
            {
                return Ok(self.reply(End::Stopped));
            }
            let Builtin { provider, limits, .. } = self.agent;
            let asker = Asker { provider, limits, deadline: self.deadline, turns };
            let mut request =
                Request { messages: context::sent(&self.request.messages), ..self.request.without_messages() };
            let answered = match asker.ask(&mut request, &mut self.tries_so_far, cancel).await {
                Ok(AskOutcome::Answer(answered)) => *answered,
                Ok(AskOutcome::Unpaid) if self.report_tries(turns).await == TurnVerdict::Go => continue,
                Ok(AskOutcome::Unpaid) => return Ok(self.reply(End::Stopped)),
                Ok(AskOutcome::TooLong(why)) => {
                    // Nobody knows by how much: a half is worth a try, once.
                    let half = context::tokens(&self.request.messages) / 2.0;
                    let room = context::make_room(&self.request.messages, half).filter(|_| !self.was_too_long);
                    let Some(room) = room else {
                        self.report_tries(turns).await;
                        return Err(AgentError::Terminal(why));
                    };
                    self.was_too_long = true;
                    match self.make_room(room, turns).await {
                        TurnVerdict::Go => continue,
                        TurnVerdict::Stop => return Ok(self.reply(End::Stopped)),
                    }
                }
                Ok(AskOutcome::Stopped) => {
                    self.report_tries(turns).await;
                    return Ok(self.reply(End::Stopped));
                }
                Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
                Err(error) => {
                    self.report_tries(turns).await;
                    return Err(error);
                }
            };
            let (turn, next) = self.take_turn(answered, cancel).await?;
            let verdict = turns.report(turn).await;
            match next {
                AfterTurn::End(end) => return end,
                AfterTurn::Again if verdict == TurnVerdict::Stop => return Ok(self.reply(End::Stopped)),
                AfterTurn::Again if self.timed_out() => {
                    let limit = self.job.timeout.unwrap_or_default();
                    return Err(AgentError::TimedOut(format!("the agent was not done after {limit:?}")));
                }
                AfterTurn::Again => {}
            }
        }
    }

    /// Reports what was spent without an answer, if anything was, as a turn without one.
    async fn report_tries(&mut self, turns: &Turns) -> TurnVerdict {
        let FailedTries { calls, messages } = std::mem::take(&mut self.tries_so_far);
        if calls.is_empty() && messages.is_empty() {
            return TurnVerdict::Go;
        }
        let turn = Turn {
            messages: self.new_messages(messages),
            warnings: self.uncounted(calls.iter().find(|call| call.estimated).map(|call| call.model.clone())),
            side_calls: calls,
            provider: self.agent.provider.name().into(),
            writes: Some(Vec::new()),
            exact: true,
            ..Turn::default()
        };
        turns.report(turn).await
    }

    /// Makes room in the conversation, as a turn of its own.
    async fn make_room(&mut self, (mark, count): (Message, usize), turns: &Turns) -> TurnVerdict {
        let outputs = counted(count as u64, "old tool output");
        let warning = WarningCode::OutputsElided.with(format!(
            "the conversation filled about {:.0} % of the {} tokens of context in use; {outputs} elided",
            self.context_share() * 100.0,
            self.context()
        ));
        self.request.messages.push(mark);
        self.unreported += 1;
        let FailedTries { calls, messages } = std::mem::take(&mut self.tries_so_far);
        let turn = Turn {
            messages: self.new_messages(messages),
            side_calls: calls,
            provider: self.agent.provider.name().into(),
            intent: format!("Leave {outputs} out of the conversation"),
            writes: Some(Vec::new()),
            exact: true,
            warnings: vec![warning],
            ..Turn::default()
        };
        turns.report(turn).await
    }

    /// The tokens of context that are made use of.
    fn context(&self) -> u64 {
        let limit = self.agent.limits.context_tokens;
        limit.unwrap_or_else(|| context::usable(self.agent.provider.context(&self.request.model)))
    }

    /// Which share of them the conversation fills, about.
    fn context_share(&self) -> f64 {
        let system = self.request.system.chars().count() as f64 / 4.0;
        (system + context::tokens(&self.request.messages)) / self.context() as f64
    }

    /// The messages that are not reported yet: the task, partial answers of failed tries, and what came after.
    fn new_messages(&mut self, tried: Vec<Message>) -> Vec<Message> {
        let first = self.request.messages.len() - std::mem::take(&mut self.unreported);
        let mut messages = self.request.messages[first..].to_vec();
        let task = usize::from(messages.first().is_some_and(Message::is_prompt));
        messages.splice(task..task, tried);
        messages
    }

    /// A word to the user, once, when the provider does not say what a call of this model took.
    fn uncounted(&mut self, model: Option<String>) -> Vec<Warning> {
        let Some(model) = model.filter(|_| !self.has_warned) else { return Vec::new() };
        self.has_warned = true;
        vec![uncounted(&model)]
    }

    /// Does what the model asked for and says what comes next.
    async fn take_turn(
        &mut self,
        Answered { response, estimated }: Answered,
        cancel: &Cancel,
    ) -> Result<(Turn, AfterTurn), AgentError> {
        let before = self.request.messages.len();
        self.was_too_long = false;
        let mut warnings = self.context_warning();
        warnings.extend(self.uncounted(estimated.then(|| response.model.clone())));
        let named = ModelNames { asked: &self.request.model, answered: &response.model };
        let cost_usd = self.agent.provider.cost(named, &response.usage);
        let price_is_estimated = self.agent.provider.pricing(named) == Pricing::Estimated;
        if price_is_estimated && self.after_task().next().is_none() {
            warnings.push(price_estimated(&response.model));
        }
        let mut message = response.message;
        mark_cut(&mut message, &response.stop);
        let cut = (response.stop == Stop::Length).then(|| cut_call(&mut message)).flatten();
        let cut = cut.map(|id| {
            let limit = self.agent.provider.output_limit(&self.request).map_or(response.usage.output, u64::from);
            (id, format!("not run: the call was cut at {limit} tokens; write in pieces, with several smaller calls"))
        });
        let (tool_calls, results, writes) = self.run_tools(&message, cut, cancel).await?;
        let intent = intent_of(&message.text(), &tool_calls);
        let mut next = self.agent.end_of(&message).map_or(AfterTurn::Again, AfterTurn::End);
        self.request.messages.push(message);
        if !results.is_empty() {
            self.request.messages.push(Message::new(Role::Tool, results));
        }
        if let Finding::Steer(remark) = self.find_loop() {
            self.request.messages.push(Message::steering(remark));
        }
        for remark in self.job.steering.take() {
            self.request.messages.push(Message::steering(remark));
            if matches!(next, AfterTurn::End(Ok(AgentReply { end: End::Done, .. }))) {
                next = AfterTurn::Again;
            }
        }
        self.unreported += self.request.messages.len() - before;
        let FailedTries { calls, messages } = std::mem::take(&mut self.tries_so_far);
        let turn = Turn {
            messages: self.new_messages(messages),
            tool_calls,
            usage: response.usage,
            side_calls: calls,
            cost_usd,
            estimated: estimated || price_is_estimated,
            model: response.model,
            provider: self.agent.provider.name().into(),
            intent,
            writes,
            exact: true,
            warnings,
            ..Turn::default()
        };
        Ok((turn, next))
    }

    /// Runs the tools a message asks for, one after the other, in its order; but for a call that is `cut`, which is
    /// answered as it says.
    async fn run_tools(
        &self,
        message: &Message,
        cut: Option<(String, String)>,
        cancel: &Cancel,
    ) -> Result<ToolsRun, AgentError> {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        let mut written = BTreeSet::new();
        let mut anything = false;
        let most = self.agent.limits.max_calls_per_turn;
        for (index, (id, name, arguments)) in message.tool_calls().enumerate() {
            if cancel.is_killed() {
                return Err(AgentError::Cancelled);
            }
            let answer = if !self.job.tools {
                ToolAnswer::error("there are no tools in this step")
            } else if !self.agent.may_use(name) {
                ToolAnswer::error(format!("the tool `{name}` is not for you; use those you were given"))
            } else if let Some((_, why)) = cut.as_ref().filter(|(cut, _)| cut == id) {
                ToolAnswer::error(why)
            } else if index >= most {
                ToolAnswer::error(format!(
                    "not run: one answer may ask for {most} tools at most; ask for the rest again"
                ))
            } else if self.timed_out() {
                ToolAnswer::error("not run: the time for this task is up")
            } else {
                self.toolbox.run(name, arguments, cancel).await
            };
            match answer.wrote {
                Wrote::Nothing => {}
                Wrote::Path(path) => drop(written.insert(path)),
                Wrote::Anything => anything = true,
            }
            let call =
                ToolCall { id: id.into(), name: name.into(), arguments: arguments.clone(), is_error: answer.is_error };
            calls.push(call);
            results.push(Part::tool_result(id, answer.text, answer.is_error));
        }
        if cancel.is_killed() && !calls.is_empty() {
            return Err(AgentError::Cancelled);
        }
        let writes = (!anything).then(|| written.into_iter().collect());
        Ok((calls, results, writes))
    }

    fn find_loop(&self) -> Finding {
        let messages = &self.request.messages;
        let task = messages.iter().rposition(Message::is_prompt).unwrap_or_default();
        loops::look(&messages[task..], self.agent.limits.loop_window)
    }

    /// The model's answers to this task so far.
    fn after_task(&self) -> impl Iterator<Item = &Message> {
        let answers = self.request.messages.iter().rev().take_while(|message| !message.is_prompt());
        answers.filter(|message| message.role == Role::Assistant)
    }

    fn limit_reached(&self) -> Option<AgentReply> {
        let limits = &self.agent.limits;
        let turns = self.after_task().count();
        let rounds = self.after_task().filter(|message| message.tool_calls().next().is_some()).count();
        let why = if turns >= limits.turns() {
            format!("the agent was not done after {}", counted(turns, "turn"))
        } else if limits.max_tool_rounds > 0 && rounds >= limits.max_tool_rounds as usize {
            format!("the agent was not done after {} of tools", counted(rounds, "round"))
        } else {
            return None;
        };
        Some(self.reply(End::Limit(why)))
    }

    fn reply(&self, end: End) -> AgentReply {
        AgentReply::new(self.after_task().next().map(Message::text).unwrap_or_default(), end)
    }

    fn timed_out(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline.is_over())
    }

    /// A word to the user when the conversation comes near to what the model can take and no room can be made.
    fn context_warning(&self) -> Vec<Warning> {
        let (context_share, most) = (self.context_share(), self.context());
        if context_share < context::FULL {
            return Vec::new();
        }
        let text = format!(
            "the conversation fills about {:.0} % of the model's context of {most} tokens",
            context_share * 100.0
        );
        vec![WarningCode::ContextFull.with(text)]
    }
}

/// The mark of an answer that is not whole.
const CUT: &str = "cut";

/// Keeps in the message why an answer is not whole, so that a resumed run ends as the interrupted one would have.
fn mark_cut(message: &mut Message, stop: &Stop) {
    let why = match stop {
        Stop::Length => "length",
        Stop::ContentFilter => "content_filter",
        Stop::End | Stop::ToolCalls | Stop::Other(_) => return,
    };
    message.extra.insert(CUT.into(), why.into());
}

/// How much is kept of a call that was cut off: enough to know it again.
const CUT_ARGUMENTS: usize = 500;

/// The last call of an answer that was cut off in the middle of it. What is kept of its arguments is an object, as
/// servers want it.
fn cut_call(message: &mut Message) -> Option<String> {
    let Some(Part::ToolCall { id, arguments, .. }) = message.content.last_mut() else { return None };
    if !arguments.is_object() {
        let begun = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        *arguments = json!({"cut": shorten(&begun, CUT_ARGUMENTS)});
    }
    Some(id.clone())
}

/// What became of a message's tools: the calls, the parts that answer them, and the paths written, if they are known.
type ToolsRun = (Vec<ToolCall>, Vec<Part>, Option<Vec<PathBuf>>);
