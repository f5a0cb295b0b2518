//! What the events of a record tell the log.

use std::sync::LazyLock;

use engine::view::{Deed, NodeFailure, TurnView};
use git::record::ChainTip;
use pleach_core::event::{Event, ForkKind, PauseReason, PipelineStarted, Recorded, Snapshot};
use pleach_core::ids::{CommitId, RunId, TaskId, TurnId};
use pleach_core::step::{StepKind, shown_name};
use pleach_core::text::first_line;
use regex::bytes::Regex;

use super::{LogEntry, LogKind};

/// Whose events they are.
#[derive(Debug)]
pub(crate) struct Teller {
    pub chain: ChainTip,
    pub run: String,
    /// It tells how the run goes; a parallel branch tells only of its turns.
    is_root: bool,
    /// Turns are told, too.
    turns: bool,
}

/// What is in every record that has anything to tell but turns.
static MILESTONES: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = "PipelineStarted|Resumed|ContextForked|PipelinePaused|PipelineCompleted|PipelineFailed|\
                 PipelineCancelled|StepFinished|Landed";
    Regex::new(&format!(r#"dev\.orchestra\.({kinds})""#)).expect("a constant pattern")
});

impl Teller {
    /// A teller of a chain; none where it has nothing to tell.
    pub fn new(chain: ChainTip, turns: bool) -> Option<Self> {
        let (is_root, run) = (chain.context.is_root(), RunId::of_context(&chain.session, &chain.context));
        (is_root || turns).then(|| Self { run: run.to_string(), is_root, turns, chain })
    }

    /// Whether a record could tell something, by its subject: one of a turn alone names it.
    pub fn may_tell(&self, subject: &str) -> bool {
        let turn = subject.strip_prefix("turn ").and_then(|rest| rest.split_once(": ")?.0.parse::<TurnId>().ok());
        self.turns || turn.is_none_or(|turn| turn.context != self.chain.context)
    }

    /// Whether events as they are written could tell something.
    pub fn may_be_told(&self, events: &[u8]) -> bool {
        self.turns || MILESTONES.is_match(events)
    }

    /// What an event tells.
    pub fn told(&self, recorded: &Recorded, task: Option<&TaskId>) -> Option<LogEntry> {
        let told = if self.is_root { self.milestone(recorded) } else { None };
        let told = told.or_else(|| if self.turns { turn(recorded) } else { None })?;
        Some(LogEntry { run: Some(self.run.clone()), task: told.task.clone().or(task.cloned()), ..told })
    }

    /// What an event tells of how the run goes.
    pub fn milestone(&self, recorded: &Recorded) -> Option<LogEntry> {
        let entry = |kind, text: &str| LogEntry::new(recorded.at, kind, text.to_owned());
        let ended = |outcome: &str, text: &str| LogEntry {
            outcome: Some(outcome.to_owned()),
            untitled: text.is_empty().then(|| self.chain.session.clone()),
            ..entry(LogKind::End, text)
        };
        Some(match &recorded.event {
            Event::PipelineStarted(started) => entry(LogKind::Start, &title(started)),
            Event::Resumed(resumed) => match &resumed.back {
                Some(back) => entry(LogKind::Return, &format!("to {}", back.turn)),
                None => {
                    let at = resumed.from.as_ref().map(|node| format!("at {node}")).unwrap_or_default();
                    LogEntry { node: resumed.from.clone(), ..entry(LogKind::Resume, &at) }
                }
            },
            // The context it forks from tells the same once more.
            Event::ContextForked(fork) if fork.kind == ForkKind::Replay && fork.context == self.chain.context => {
                let turn = fork.replayed.as_ref().and_then(|replayed| replayed.turn.as_ref());
                let from =
                    turn.map(ToString::to_string).unwrap_or_else(|| format!("{} at {}", fork.from, fork.node_id));
                LogEntry { node: Some(fork.node_id.clone()), ..entry(LogKind::Fork, &format!("from {from}")) }
            }
            Event::PipelinePaused(paused) => {
                let (outcome, words) = match paused.reason {
                    PauseReason::Interrupted => ("interrupted", "interrupted"),
                    PauseReason::WaitsForPerson => ("waits_for_person", "waits for a person"),
                    PauseReason::OverBudget => ("over_budget", "out of budget"),
                };
                let at = paused.node_id.as_ref().map(|node| format!(" at {node}")).unwrap_or_default();
                let why = paused.why.as_ref().map(|why| format!(": {}", first_line(why))).unwrap_or_default();
                let told = entry(LogKind::Pause, &format!("{words}{at}{why}"));
                LogEntry { node: paused.node_id.clone(), outcome: Some(outcome.to_owned()), ..told }
            }
            Event::PipelineCompleted(done) => LogEntry { commit: first(&done.workspace_snapshot), ..ended("done", "") },
            Event::PipelineFailed(failure) => {
                let told = ended("failed", first_line(&failure.reason));
                LogEntry { node: failure.node_id.clone(), failed: true, ..told }
            }
            Event::PipelineCancelled(_) => ended("cancelled", ""),
            Event::StepFinished(step) => {
                let passed = StepKind::from_status(&step.status).is_none_or(|(_, passed)| passed);
                let told = step_entry(entry(LogKind::Step, &step.subject), passed);
                LogEntry { task: Some(step.task.clone()), commit: Some(step.git_sha), attempt: step.attempt, ..told }
            }
            Event::Landed(landed) => {
                let told = entry(LogKind::Landing, &format!("on {}", landed.target));
                LogEntry { outcome: Some("landed".to_owned()), commit: Some(landed.commit), ..told }
            }
            _ => return None,
        })
    }
}

/// A line about a step, whose text is the subject of its commit so far.
pub(super) fn step_entry(entry: LogEntry, passed: bool) -> LogEntry {
    let text = entry.text.split_once("): ").map_or(entry.text.as_str(), |(_, rest)| rest).to_owned();
    LogEntry { outcome: Some(if passed { "pass" } else { "fail" }.to_owned()), failed: !passed, text, ..entry }
}

fn turn(recorded: &Recorded) -> Option<LogEntry> {
    if let Some(failure) = NodeFailure::read(recorded) {
        let told = LogEntry::new(recorded.at, LogKind::Attempt, first_line(&failure.in_words()).to_owned());
        let outcome = Some(failure.outcome.to_string());
        return Some(LogEntry { node: Some(failure.node), outcome, failed: true, ..told });
    }
    let turn = TurnView::read(recorded)?;
    let (model, outcome, text) = match &turn.deed {
        Deed::Agent { model, tool_calls, .. } => {
            let names: Vec<&str> = tool_calls.iter().map(|call| call.name.as_str()).collect();
            let did = if names.is_empty() { "answer".to_owned() } else { names.join(", ") };
            (Some(model.clone()), None, turn.message.as_deref().map_or(did, |message| first_line(message).to_owned()))
        }
        Deed::Tool { command, exit, .. } => (None, Some(exit.clone()), first_line(command).to_owned()),
    };
    let failed = outcome.as_ref().is_some_and(|exit| exit != "exit 0");
    let told = LogEntry::new(recorded.at, LogKind::Turn, text);
    let commit = turn.commit.as_ref().and_then(first);
    Some(LogEntry { turn: Some(turn.turn), node: Some(turn.node), model, outcome, failed, commit, ..told })
}

/// What a run is about: its pipeline and goal, or its task.
pub(crate) fn title(started: &PipelineStarted) -> String {
    match (&started.task, first_line(started.goal.trim())) {
        (Some(task), _) => format!("{} {}", task.id, shown_name(&task.name)),
        (None, "") => started.name.to_string(),
        (None, goal) => format!("{}: {goal}", started.name),
    }
}

fn first(commits: &Snapshot) -> Option<CommitId> {
    commits.values().next().copied()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(context: &str, turns: bool, kind: &str, data: Value) -> Option<(LogKind, Option<String>, String)> {
        let tip = CommitId::from_bytes([7; 20]);
        let chain = ChainTip { session: "abcdefgh".parse().unwrap(), context: context.parse().unwrap(), tip };
        let event =
            json!({"type": format!("dev.orchestra.{kind}"), "version": 1, "at": "2026-11-15T01:02:03Z", "data": data});
        let text = event.to_string();
        let teller = Teller::new(chain, turns)?;
        let entry = teller.told(&Recorded::from_json(event).unwrap(), None);
        assert!(entry.is_none() || teller.may_be_told(text.as_bytes()), "{text}");
        entry.map(|entry| (entry.kind, entry.run, entry.text))
    }

    #[test]
    fn returns_and_replays_are_told() {
        let run = |name: &str| Some(name.to_owned());
        let to = json!({"record": "7".repeat(40), "events": 1});
        let back = json!({"number": 1, "turn": "main.17", "to": to, "cut": {"main": to}, "work": {}});
        let returned = told("main", false, "Resumed", back);
        assert_eq!(returned, Some((LogKind::Return, run("abcdefgh"), "to main.17".into())));
        let resumed = told("main", false, "Resumed", json!({"from": "review"}));
        assert_eq!(resumed, Some((LogKind::Resume, run("abcdefgh"), "at review".into())));
        let fork = |kind: &str| json!({"from": "main", "context": "r1", "kind": kind, "node_id": "code", "base": {}, "branches": {}, "turn": "main.17", "to": to, "cut": {"main": to}});
        let forked = told("r1", false, "ContextForked", fork("replay"));
        assert_eq!(forked, Some((LogKind::Fork, run("abcdefgh/r1"), "from main.17".into())));
        // It is told once, and a parallel branch is none.
        assert_eq!(told("main", false, "ContextForked", fork("replay")), None);
        assert_eq!(told("r1", false, "ContextForked", fork("parallel")), None);
        assert_eq!(told("tests", true, "Resumed", json!({})), None, "each context records it");
        assert_eq!(told("tests", false, "Resumed", json!({})), None);
    }

    #[test]
    fn only_a_record_of_a_turn_alone_is_passed_over() {
        let chain = |context: &str| ChainTip {
            session: "abcdefgh".parse().unwrap(),
            context: context.parse().unwrap(),
            tip: CommitId::from_bytes([7; 20]),
        };
        let teller = Teller::new(chain("main"), false).unwrap();
        assert!(!teller.may_tell("turn main.3: code — a.rs") && !teller.may_tell("turn main.3: code"));
        for subject in
            ["turn success: the end", "start turn main.3: code", "turn other.3: code", "turn main.0: x", "pause"]
        {
            assert!(teller.may_tell(subject), "{subject}");
        }
        assert!(Teller::new(chain("main"), true).unwrap().may_tell("turn main.3: code"));
    }
}
