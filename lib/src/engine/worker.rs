//! Carries out one node and reports to the loop. A worker scans and builds objects; it never moves a ref.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::assignment::{AgentWork, Work};
use super::human::{Answer, Question};
use super::preamble::shorten;
use super::{Engine, status_file};
use crate::agent::{AgentError, End, Job, Reply, Turn, Turns, Verdict, commit_message};
use crate::clock;
use crate::event::{AgentTurn, FailureClass, HumanInteraction, Outcome, PauseReason, Snapshot, Status, ToolExecution};
use crate::ids::{ContextId, PipelineName, RepoPath, SessionId, TurnId};
use crate::plan::pipeline::{Node, WritePolicy};
use crate::process::{Cancel, Canceller, Command, Exit, Limits};
use crate::state::Visit;
use crate::trailer::TurnFacts;
use crate::workspace::{Author, Change, Error, Guard, Lock, WorkingCopy, branch_ref};

/// How much of a tool's output the rest of the run can see; the record has all that was kept.
const TOOL_OUTPUT_IN_CONTEXT: usize = 8_000;

/// How much of an agent's answer the rest of the run can see.
const RESPONSE_IN_CONTEXT: usize = 200;

/// The limit on what is kept of a command's output, per stream.
const TOOL_OUTPUT_KEPT: usize = 1024 * 1024;

/// A turn to be recorded.
#[derive(Debug)]
pub struct TurnReport {
    /// The turn; its message numbers are filled in when it is recorded.
    pub turn: AgentTurn,
    /// When it ended.
    pub at: jiff::Timestamp,
    /// Its new messages.
    pub messages: Vec<Value>,
    /// What it changed.
    pub change: Change,
}

/// What the loop answers once a turn is on disk.
#[derive(Debug)]
pub struct Recorded {
    /// The change, to be taken as the new state of the working copy.
    pub change: Change,
    /// Whether to go on.
    pub verdict: Verdict,
}

/// What a worker tells the loop.
#[derive(Debug)]
pub enum Report {
    /// A turn ended.
    Turn(Box<TurnReport>, oneshot::Sender<Recorded>),
    /// The node ended.
    Done(Box<Finished>),
}

/// How a node ended.
#[derive(Debug)]
pub struct Finished {
    /// The working copy, given back.
    pub copy: WorkingCopy,
    /// The outcome, or why there is none.
    pub result: Result<Outcome, Stopped>,
    /// What goes into the record with it.
    pub effect: Effect,
    /// How long it took.
    pub duration: Duration,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// The answer of an agent.
    pub response: Option<String>,
}

/// Why a node has no outcome.
#[derive(Debug)]
pub enum Stopped {
    /// The run is to pause here.
    Paused(PauseReason),
    /// The gate's answer is none of its choices.
    UnknownAnswer(String),
    /// The working copy cannot be used.
    Broken(Error),
}

/// What goes into the record of a node's end.
#[derive(Debug)]
pub enum Effect {
    /// Nothing further.
    None,
    /// A command ran.
    Tool(Box<ToolEffect>),
    /// A gate was answered.
    Human(HumanInteraction),
    /// An agent left changes behind after its last turn.
    Leftover(Box<TurnReport>),
}

/// A command that ran, and what it changed.
#[derive(Debug)]
pub struct ToolEffect {
    /// The run; its message number is filled in when it is recorded.
    pub tool: ToolExecution,
    /// Its output, as a message.
    pub output: Value,
    /// What it changed.
    pub change: Change,
}

/// One node's worker.
pub struct Worker {
    pub engine: Arc<Engine>,
    pub session: SessionId,
    pub pipeline: PipelineName,
    pub node: Node,
    pub visit: Visit,
    pub copy: WorkingCopy,
    pub lock: Lock,
    pub next_turn: u64,
    pub run_dir: PathBuf,
    pub reports: mpsc::Sender<Report>,
}

/// Stops one node for its timeout, or with the whole run.
struct NodeCancel {
    cancel: Cancel,
    watch: tokio::task::JoinHandle<()>,
    timed_out: Arc<std::sync::atomic::AtomicBool>,
}

impl NodeCancel {
    fn new(run: &Cancel, timeout: Option<Duration>) -> Self {
        let (canceller, cancel) = Cancel::new();
        let timed_out = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let watch = tokio::spawn(forward(run.clone(), canceller, timeout, Arc::clone(&timed_out)));
        Self { cancel, watch, timed_out }
    }

    fn timed_out(&self) -> bool {
        self.timed_out.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for NodeCancel {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn forward(
    run: Cancel,
    canceller: Canceller,
    timeout: Option<Duration>,
    timed_out: Arc<std::sync::atomic::AtomicBool>,
) {
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let stop_then_kill = async {
        run.stopped().await;
        canceller.stop();
        run.killed().await;
    };
    tokio::select! {
        () = deadline => timed_out.store(true, std::sync::atomic::Ordering::Relaxed),
        () = stop_then_kill => {}
    }
    canceller.kill();
}

impl Worker {
    /// Carries the work out. Everything is reported; nothing is returned.
    pub async fn run(mut self, work: Work) {
        let begun = Instant::now();
        let mut node = Ending { effect: Effect::None, warnings: Vec::new(), response: None };
        let result = match work {
            Work::Tool(_) | Work::Agent(_) | Work::Custom(..) => self.watched(work, &mut node).await,
            harmless => self.carry_out(harmless, &mut node).await,
        };
        let finished = Finished {
            copy: self.copy,
            result,
            effect: node.effect,
            duration: begun.elapsed(),
            warnings: node.warnings,
            response: node.response,
        };
        // The loop is gone only when the run has failed with an error of its own.
        let _ = self.reports.send(Report::Done(Box::new(finished))).await;
    }

    /// Carries out work that can reach beyond the working copy.
    async fn watched(&mut self, work: Work, end: &mut Ending) -> Result<Outcome, Stopped> {
        let before = block(|| self.copy.look())?;
        let result = self.carry_out(work, end).await;
        self.check_bounds(&before, result, &mut end.warnings)
    }

    async fn carry_out(&mut self, work: Work, end: &mut Ending) -> Result<Outcome, Stopped> {
        let engine = Arc::clone(&self.engine);
        let cancel = NodeCancel::new(&engine.cancel, self.node.timeout.filter(|_| !matches!(work, Work::Human(_))));
        match work {
            Work::Pass(outcome) => Ok(outcome),
            Work::Wait(duration) => tokio::select! {
                () = tokio::time::sleep(duration) => Ok(Outcome::success()),
                () = cancel.cancel.stopped() => Err(Stopped::Paused(PauseReason::Interrupted)),
            },
            Work::Human(question) => self.ask(&question, end).await,
            Work::Tool(command) => self.tool(command, &cancel, end).await,
            Work::Agent(work) => self.agent(work, &cancel, end).await,
            Work::Custom(handler, mut context) => {
                context.cancel = cancel.cancel.clone();
                let begun = (clock::now(), Instant::now());
                let kind = context.node.handler.as_str().to_owned();
                let task = tokio::spawn(async move { handler.run(*context).await });
                let outcome = match task.await {
                    Ok(outcome) => outcome,
                    Err(error) => Outcome::fail(format!("the handler of type `{kind}` broke: {error}")),
                };
                let outcome = self.within_time(outcome, &cancel);
                if engine.cancel.is_killed() {
                    return Err(Stopped::Paused(PauseReason::Interrupted));
                }
                let run = CommandRun { command: kind, exit: outcome.status.to_string(), output: String::new(), begun };
                self.finish_command(run, outcome, end)
            }
        }
    }

    fn within_time(&self, outcome: Outcome, cancel: &NodeCancel) -> Outcome {
        match self.node.timeout {
            Some(timeout) if cancel.timed_out() => Outcome::fail(format!("timed out after {timeout:?}")),
            _ => outcome,
        }
    }

    // ---- people

    async fn ask(&mut self, question: &Question, end: &mut Ending) -> Result<Outcome, Stopped> {
        if question.choices.is_empty() {
            return Ok(Outcome::fail("the gate has no edge to choose"));
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
            (Answer::Skipped, _) => return Ok(Outcome::fail("the gate was skipped")),
            (Answer::Unknown { text }, _) => return Err(Stopped::UnknownAnswer(text)),
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

    // ---- commands

    async fn tool(&mut self, script: String, cancel: &NodeCancel, end: &mut Ending) -> Result<Outcome, Stopped> {
        if script.trim().is_empty() {
            return Ok(Outcome::fail("the tool node has no command"));
        }
        let begun = (clock::now(), Instant::now());
        let status_file = self.status_file()?;
        let mut command = Command::shell(&script, self.copy.path());
        command.env = self.environment("tool", &status_file);
        command.limits = Limits { output: TOOL_OUTPUT_KEPT, ..Limits::default() };
        command.lock = Some(self.lock.file());
        let ran = self.engine.spawner.run(command, &cancel.cancel, &mut |_, _| {}).await;
        let output = match ran {
            Ok(output) => output,
            Err(error) => return Ok(Outcome::fail(error.to_string())),
        };
        if output.exit == Exit::Cancelled && !cancel.timed_out() {
            return Err(Stopped::Paused(PauseReason::Interrupted));
        }
        let (stdout, stderr) = (output.stdout.to_text(), output.stderr.to_text());
        let mut outcome = match output.exit {
            Exit::Code(0) => self.read_status(&status_file).unwrap_or_else(Outcome::success),
            exit => {
                let last = stderr.lines().chain(stdout.lines()).rfind(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {}", shorten(line.trim(), 200))).unwrap_or_default();
                self.within_time(Outcome::fail(format!("{exit}{last}")), cancel)
            }
        };
        let seen = tail(stdout.trim_end(), TOOL_OUTPUT_IN_CONTEXT);
        outcome.context_updates.entry("tool.output".into()).or_insert(seen.into());
        outcome.context_updates.insert("last_stage".into(), self.node.id.as_str().into());
        let exit = if cancel.timed_out() { "timed out".to_owned() } else { output.exit.to_string() };
        let output = format!("{stdout}{}{stderr}", if stderr.is_empty() { "" } else { "\n--- stderr\n" });
        self.finish_command(CommandRun { command: script, exit, output, begun }, outcome, end)
    }

    fn finish_command(&mut self, run: CommandRun, outcome: Outcome, end: &mut Ending) -> Result<Outcome, Stopped> {
        let turn = self.turn_id();
        let at = clock::now();
        let command = run.command.clone();
        let outcome = self.may_not_write(outcome, &mut end.warnings)?;
        let message = |paths: &[RepoPath]| commit_message(&format!("Run `{}`", first_line(&command)), paths);
        let author = Author { facts: self.facts("tool", "local"), trailers: Vec::new(), at, message: &message };
        let change = block(|| self.copy.prepare(&author, None))?;
        end.warnings.extend(change.warnings.iter().cloned());
        let outcome = self.must_write(outcome, change.commit.is_some());
        let tool = ToolExecution {
            turn_number: turn.number,
            turn,
            node_id: self.node.id.clone(),
            visit: self.visit.visit,
            attempt: self.visit.attempt,
            command: run.command,
            exit: run.exit,
            duration_ms: millis(run.begun.1.elapsed()),
            output: None,
            files_written: self.files(&change),
            git_sha: self.snapshot(change.commit),
            commit_message: change.message.clone(),
            extra: Default::default(),
        };
        let output = serde_json::json!({"role": "tool", "content": [{"type": "text", "text": run.output}]});
        end.effect = Effect::Tool(Box::new(ToolEffect { tool, output, change }));
        Ok(outcome)
    }

    // ---- agents

    async fn agent(&mut self, work: AgentWork, cancel: &NodeCancel, end: &mut Ending) -> Result<Outcome, Stopped> {
        let status_file = self.status_file()?;
        let model = self.node.llm_model.clone().unwrap_or_else(|| work.agent.kind().to_owned());
        let job = Job {
            node: self.node.id.clone(),
            visit: self.visit.visit,
            attempt: self.visit.attempt,
            prompt: work.prompt,
            root: self.copy.path().to_owned(),
            cwd: self.copy.path().to_owned(),
            model: self.node.llm_model.clone(),
            provider: self.node.llm_provider.clone(),
            effort: self.node.reasoning_effort.clone(),
            tools: self.node.tools,
            history: work.history,
            continues: work.continues,
            env: self.environment(&model, &status_file),
            timeout: self.node.timeout,
            status_file: status_file.clone(),
            lock: Some(self.lock.file()),
            steering: Default::default(),
        };
        let (turns, mut incoming) = Turns::channel();
        let agent = Arc::clone(&work.agent);
        let kind = agent.kind();
        let running = agent.run(job, &turns, &cancel.cancel);
        tokio::pin!(running);
        let reply = loop {
            tokio::select! {
                // A turn that was reported is recorded before the agent's end is looked at.
                biased;
                Some((turn, answer)) = incoming.recv() => {
                    let verdict = self.turn(kind, turn, &mut end.warnings).await?;
                    // An agent that is gone already does not wait for the answer.
                    let _ = answer.send(verdict);
                }
                reply = &mut running => break reply,
            }
        };
        let outcome = self.agent_outcome(reply, &status_file, cancel, end)?;
        let outcome = self.may_not_write(outcome, &mut end.warnings)?;
        if let Some(leftover) = self.leftover(kind, &model)? {
            end.warnings.extend(leftover.change.warnings.iter().cloned());
            end.effect = Effect::Leftover(Box::new(leftover));
        }
        let wrote = matches!(end.effect, Effect::Leftover(_)) || block(|| self.copy.has_changed())?;
        Ok(self.must_write(outcome, wrote))
    }

    fn agent_outcome(
        &self,
        reply: Result<Reply, AgentError>,
        status_file: &std::path::Path,
        cancel: &NodeCancel,
        end: &mut Ending,
    ) -> Result<Outcome, Stopped> {
        let failed = |reason: String, class| Outcome { failure_class: class, ..Outcome::fail(reason) };
        let outcome = match reply {
            Ok(Reply { text, end: how }) => {
                let outcome = match how {
                    End::Done => {
                        let auto = || Outcome {
                            notes: self
                                .node
                                .auto_status
                                .then(|| "auto-status: handler completed without writing status".to_owned()),
                            ..Outcome::success()
                        };
                        self.read_status(status_file).unwrap_or_else(auto)
                    }
                    End::Stopped => return Err(Stopped::Paused(PauseReason::Interrupted)),
                    End::Limit(reason) => Outcome::fail(reason),
                };
                end.response = Some(text);
                outcome
            }
            Err(AgentError::Cancelled) if cancel.timed_out() => self.within_time(Outcome::success(), cancel),
            Err(AgentError::Cancelled) => return Err(Stopped::Paused(PauseReason::Interrupted)),
            Err(AgentError::TimedOut(reason)) => Outcome::fail(reason),
            Err(AgentError::Transient(reason)) => failed(reason, FailureClass::Transient),
            Err(AgentError::Terminal(reason)) => failed(reason, FailureClass::Terminal),
        };
        Ok(self.told_on(outcome, end.response.as_deref()))
    }

    /// What every agent's node tells the rest of the run.
    fn told_on(&self, mut outcome: Outcome, response: Option<&str>) -> Outcome {
        let updates = &mut outcome.context_updates;
        updates.insert("last_stage".into(), self.node.id.as_str().into());
        if let Some(response) = response {
            let response: String = response.chars().take(RESPONSE_IN_CONTEXT).collect();
            updates.insert("last_response".into(), response.into());
        }
        outcome
    }

    async fn turn(&mut self, kind: &str, turn: Turn, warnings: &mut Vec<String>) -> Result<Verdict, Stopped> {
        warnings.extend(turn.warnings.iter().cloned());
        let report = self.report(kind, turn)?;
        warnings.extend(report.change.warnings.iter().cloned());
        let (answer, recorded) = oneshot::channel();
        let gone = |_| Stopped::Paused(PauseReason::Interrupted);
        self.reports.send(Report::Turn(Box::new(report), answer)).await.map_err(|_| gone(()))?;
        let recorded = recorded.await.map_err(|_| gone(()))?;
        block(|| self.copy.accept(&recorded.change))?;
        self.next_turn += 1;
        Ok(recorded.verdict)
    }

    fn report(&mut self, kind: &str, turn: Turn) -> Result<TurnReport, Stopped> {
        let at = clock::now();
        let boundary = if turn.exact { "exact" } else { "inferred" };
        let trailers =
            if turn.exact { Vec::new() } else { vec![("Orchestra-Boundary".to_owned(), boundary.to_owned())] };
        let message = |paths: &[RepoPath]| commit_message(&turn.intent, paths);
        let author = Author { facts: self.facts(&turn.model, &turn.provider), trailers, at, message: &message };
        let change = block(|| {
            if self.node.write == WritePolicy::Never {
                self.copy.unchanged()
            } else {
                self.copy.prepare(&author, turn.writes.as_deref())
            }
        })?;
        let id = self.turn_id();
        let event = AgentTurn {
            turn_number: id.number,
            turn: id,
            node_id: self.node.id.clone(),
            visit: self.visit.visit,
            attempt: self.visit.attempt,
            agent: kind.to_owned(),
            model: turn.model,
            provider: turn.provider,
            messages: None,
            tool_calls: turn.tool_calls,
            files_written: self.files(&change),
            token_usage: turn.usage,
            cost_usd: turn.cost_usd,
            git_sha: self.snapshot(change.commit),
            agent_head: self.snapshot(change.agent_head),
            commit_message: change.message.clone(),
            boundary: boundary.to_owned(),
            agent_state_ref: None,
            extra: Default::default(),
        };
        let messages = turn.messages.iter().map(|message| {
            serde_json::to_value(message).expect("messages are structs with text keys, which always serialise")
        });
        Ok(TurnReport { turn: event, at, messages: messages.collect(), change })
    }

    /// What changed after the agent's last turn, as a turn of its own.
    fn leftover(&mut self, kind: &str, model: &str) -> Result<Option<TurnReport>, Stopped> {
        let turn = Turn { model: model.to_owned(), provider: "local".to_owned(), ..Turn::default() };
        Ok(Some(self.report(kind, turn)?).filter(|report| report.change.commit.is_some()))
    }

    // ---- what all of them need

    fn may_not_write(&mut self, outcome: Outcome, warnings: &mut Vec<String>) -> Result<Outcome, Stopped> {
        if self.node.write != WritePolicy::Never {
            return Ok(outcome);
        }
        let node = self.node.id.clone();
        if let Some((kept, paths)) = block(|| self.copy.undo(&node))? {
            let listed = paths.iter().take(5).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
            warnings.push(format!("`{node}` must not write; its changes ({listed}) were undone and kept at {kept}"));
        }
        Ok(outcome)
    }

    fn must_write(&self, outcome: Outcome, wrote: bool) -> Outcome {
        let expected = self.node.write == WritePolicy::Must && outcome.status != Status::Fail;
        if expected && !wrote { Outcome::fail("the node must change files and changed none") } else { outcome }
    }

    /// Names what was changed outside the working copy; a change of configuration or hooks fails the node.
    fn check_bounds(
        &mut self,
        before: &Guard,
        result: Result<Outcome, Stopped>,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, Stopped> {
        let after = block(|| self.copy.look())?;
        let own_branch = branch_ref(&self.copy.branch);
        let own_records = format!("{}{}/", crate::record::SESSIONS, self.session);
        let kept = format!("{}{}-", crate::workspace::KEEP, self.session);
        let ours = |name: &str| name == own_branch || name.starts_with(&own_records) || name.starts_with(&kept);
        let trespass = before.compare(&after, ours);
        if !trespass.foreign.is_empty() {
            warnings.push(format!(
                "changed while `{}` ran, by it or by somebody else: {}",
                self.node.id,
                listed(&trespass.foreign)
            ));
        }
        match result {
            Ok(_) if !trespass.control.is_empty() => {
                let reason = format!("the repository's own settings were changed: {}", listed(&trespass.control));
                Ok(Outcome::fail(reason))
            }
            other => other,
        }
    }

    fn turn_id(&self) -> TurnId {
        TurnId { context: ContextId::main(), number: self.next_turn }
    }

    fn facts(&self, model: &str, provider: &str) -> TurnFacts {
        TurnFacts {
            model: model.to_owned(),
            provider: provider.to_owned(),
            node: self.node.id.clone(),
            pipeline: self.pipeline.clone(),
            session: self.session.clone(),
            turn: self.turn_id(),
        }
    }

    fn files(&self, change: &Change) -> BTreeMap<crate::ids::RepoName, Vec<RepoPath>> {
        let paths = if change.commit.is_some() { change.paths.clone() } else { Vec::new() };
        BTreeMap::from([(self.copy.name.clone(), paths)]).into_iter().filter(|(_, paths)| !paths.is_empty()).collect()
    }

    fn snapshot(&self, commit: Option<crate::ids::CommitId>) -> Option<Snapshot> {
        commit.map(|id| Snapshot::from([(self.copy.name.clone(), id)]))
    }

    /// The variables agents and tools get: who they are to git, and where their status file is.
    fn environment(&self, model: &str, status_file: &std::path::Path) -> Vec<(OsString, Option<OsString>)> {
        let who = format!("{} ({model})", self.node.id);
        let above = self.copy.path().parent().unwrap_or(self.copy.path());
        let set = |key: &str, value: &str| (OsString::from(key), Some(OsString::from(value)));
        vec![
            set("GIT_AUTHOR_NAME", &who),
            set("GIT_AUTHOR_EMAIL", "orchestra@local"),
            set("GIT_COMMITTER_NAME", &who),
            set("GIT_COMMITTER_EMAIL", "orchestra@local"),
            set("GIT_CONFIG_COUNT", "1"),
            set("GIT_CONFIG_KEY_0", "commit.gpgsign"),
            set("GIT_CONFIG_VALUE_0", "false"),
            // git must not walk up into another repository when an agent removes its `.git`.
            (OsString::from("GIT_CEILING_DIRECTORIES"), Some(above.as_os_str().to_owned())),
            (OsString::from("PLEACH_STATUS_FILE"), Some(status_file.as_os_str().to_owned())),
            set("PLEACH_SESSION", self.session.as_str()),
            set("PLEACH_NODE", self.node.id.as_str()),
            set("PLEACH_VISIT", &self.visit.visit.to_string()),
            set("PLEACH_ATTEMPT", &self.visit.attempt.to_string()),
        ]
    }

    /// An empty place for the node's status file, outside the working copy.
    fn status_file(&self) -> Result<PathBuf, Stopped> {
        let dir = self.run_dir.join(self.node.id.as_str());
        let file = dir.join("status.json");
        let io = |source| Stopped::Broken(Error::Io { doing: "prepare", path: file.clone(), source });
        std::fs::create_dir_all(&dir).map_err(io)?;
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(error)),
            _ => Ok(file),
        }
    }

    fn read_status(&self, file: &std::path::Path) -> Option<Outcome> {
        let text = std::fs::read_to_string(file).ok()?;
        Some(status_file::read(&text).unwrap_or_else(Outcome::fail))
    }
}

/// What is collected on the way to a node's end.
struct Ending {
    effect: Effect,
    warnings: Vec<String>,
    response: Option<String>,
}

struct CommandRun {
    command: String,
    exit: String,
    output: String,
    begun: (jiff::Timestamp, Instant),
}

/// Work on the repository, which blocks.
fn block<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Stopped> {
    tokio::task::block_in_place(work).map_err(Stopped::Broken)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// The last `max` characters, with a mark where something is left out.
fn tail(text: &str, max: usize) -> String {
    match text.char_indices().rev().nth(max.saturating_sub(1)) {
        Some((start, _)) if start > 0 => format!("[...truncated]\n{}", &text[start..]),
        _ => text.to_owned(),
    }
}

/// Up to ten things in one line.
fn listed(things: &[String]) -> String {
    let mut text = things.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    if things.len() > 10 {
        text.push_str(&format!(" and {} more", things.len() - 10));
    }
    text
}
