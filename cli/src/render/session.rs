//! Sessions, turns and messages as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agents::llm::{Message, Part, Role};
use engine::mirror::MirrorReport;
use engine::view::{
    AnswerView, Deed, LandedPart, Milestone, Moment, NodeFailure, RepoWork, SessionStatus, Summary, TurnView, View,
};
use jiff::Timestamp;
use pleach_core::budget::Amount;
use pleach_core::event::{PauseReason, Snapshot};
use pleach_core::ids::{CommitId, NodeId, RepoName, RepoPath, RunId, SessionId};
use pleach_core::progress::TaskStatus;
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::step::name_line;
use pleach_core::text::{counted, first_line, is_steering, listed, shorten};
use serde_json::{Value, json};

use super::{Table, UNKNOWN, columns, duration, spent_tokens, style, tokens, wrapped};
use crate::forecast_marks::{ForecastMarks, marked};
use crate::prompt::BUILT_IN;

/// Texts of a message longer than this are cut, unless all was asked for.
const LINES: usize = 20;
const CHARACTERS: usize = 2_000;

/// How far the reason of a pause may go in a table.
const WHY_PAUSED: usize = 40;

/// `850ms`, `3m 07s`, `5h 02m`, `12d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let length = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match length.as_secs() / 86_400 {
        0 | 1 => duration(length),
        days => format!("{days}d"),
    }
}

/// `paused (waits for a person)`, `failed: …`
pub fn standing(standing: &SessionStatus) -> String {
    let more = match standing {
        SessionStatus::Dead => " (its process is gone)",
        SessionStatus::Paused { why: Some(why), .. } => return format!("paused: {}", plain(why)),
        SessionStatus::Paused { reason: PauseReason::Interrupted, .. } => " (interrupted)",
        SessionStatus::Paused { reason: PauseReason::WaitsForPerson, .. } => " (waits for a person)",
        SessionStatus::Paused { reason: PauseReason::OverBudget, .. } => " (out of budget)",
        SessionStatus::Failed { reason } => return format!("failed: {}", plain(reason)),
        SessionStatus::Running | SessionStatus::Done | SessionStatus::Cancelled => "",
    };
    format!("{}{more}", standing.word())
}

/// `HOST:PORT, mirrored`
pub fn mirrored(report: &MirrorReport) -> String {
    let server = &report.server;
    match (&report.standing, &report.error) {
        (Some(standing), _) if standing.behind == 0 => format!("{server}, mirrored"),
        (Some(standing), _) => format!("{server}, {} behind", counted(standing.behind, "record")),
        (None, error) => format!("{server}, not known: {}", plain(error.as_deref().unwrap_or_default())),
    }
}

/// What a running session does on its task: `reviewing, attempt 1 of 5`
pub fn doing(summary: &Summary) -> String {
    let node = summary.node();
    let at = node.map(|node| format!(" at `{node}`")).unwrap_or_default();
    let task = summary.state.task.as_ref();
    if !summary.questions().is_empty() {
        return format!("waiting for you{at}");
    }
    if task.is_some_and(|task| task.is_decided()) {
        return "landing".to_owned();
    }
    let doing = match node.and_then(|node| summary.pipeline.node(node)?.step.as_deref()) {
        Some("implement") => TaskStatus::Implementing.as_str().to_owned(),
        Some("test") => TaskStatus::Testing.as_str().to_owned(),
        Some("review") => TaskStatus::Reviewing.as_str().to_owned(),
        Some(_) | None => format!("running{at}"),
    };
    let attempt = task.and_then(|task| task.attempt.as_ref());
    let attempt = attempt.map(|attempt| format!(", attempt {} of {}", attempt.number, attempt.of)).unwrap_or_default();
    format!("{doing}{attempt}")
}

/// What became of the work of sessions.
#[derive(Debug, Default)]
pub struct WorkStates {
    /// Sessions of tasks that have landed what is not there any more.
    pub gone: BTreeSet<SessionId>,
    /// Where runs have landed.
    pub landed: BTreeMap<RunId, Vec<LandedPart>>,
    /// The open entries of the merge queue.
    pub queued: BTreeMap<RunId, QueueEntry>,
}

impl WorkStates {
    /// Where a session is, in a few words. Of one of a task that has ended, what became of the task's steps.
    pub fn word(&self, summary: &Summary) -> String {
        if self.gone.contains(&summary.session) {
            return "landed, not here".to_owned();
        }
        let standing = summary.standing();
        match &summary.state.task {
            Some(task) if task.landed.is_some() => return "landed".to_owned(),
            Some(task) if task.is_decided() && standing != SessionStatus::Cancelled => {
                return "waits to land".to_owned();
            }
            _ => {}
        }
        if !summary.questions().is_empty() {
            return "waiting for you".to_owned();
        }
        if standing == SessionStatus::Running && summary.state.task.is_some() {
            return doing(summary);
        }
        match (&standing, self.landed.get(&summary.run), self.queued.get(&summary.run)) {
            (SessionStatus::Done, _, Some(entry)) => match entry.state {
                EntryState::Submitted => "queued".to_owned(),
                state => format!("queued: {state}"),
            },
            (SessionStatus::Done, Some(landed), None) if landed.iter().any(|part| part.undone.is_some()) => {
                "landed, undone".to_owned()
            }
            (SessionStatus::Done, Some(_), None) => "landed".to_owned(),
            (SessionStatus::Done, None, None) if is_to_land(summary) => "ready to land".to_owned(),
            (SessionStatus::Paused { reason, why }, ..) => format!("paused: {}", why_paused(*reason, why.as_deref())),
            _ => standing.word().to_owned(),
        }
    }

    /// Whether a session waits for somebody to land it.
    pub fn waits_to_land(&self, summary: &Summary) -> bool {
        is_to_land(summary) && !self.landed.contains_key(&summary.run) && !self.queued.contains_key(&summary.run)
    }
}

/// Whether it is at no node any more.
fn is_over(summary: &Summary) -> bool {
    matches!(summary.standing(), SessionStatus::Done | SessionStatus::Cancelled)
}

/// The node it is at, where its state does not say what is done there.
fn node_of(summary: &Summary) -> String {
    let is_said = is_over(summary) || summary.standing() == SessionStatus::Running && summary.state.task.is_some();
    summary.node().filter(|_| !is_said).map(ToString::to_string).unwrap_or_default()
}

/// Whether there is finished work to land.
fn is_to_land(summary: &Summary) -> bool {
    let is_own = summary.started.resolves.is_some();
    !is_own && summary.can_land() && summary.repos().any(|repo_work| RepoWork::has_changed(&repo_work))
}

/// Why a session is paused, in a few words.
pub fn why_paused(reason: PauseReason, why: Option<&str>) -> String {
    match (why, reason) {
        (Some(why), _) => headline(why, WHY_PAUSED),
        (None, PauseReason::Interrupted) => "interrupted".to_owned(),
        (None, PauseReason::WaitsForPerson) => "waits for a person".to_owned(),
        (None, PauseReason::OverBudget) => "out of budget".to_owned(),
    }
}

/// `on `main` as abc1234567, 3m 07s ago`
pub fn landed_words(landed: &[LandedPart], now: Timestamp) -> String {
    let several = landed.iter().any(|part| part.repo != landed[0].repo);
    let part = |part: &LandedPart| {
        let at = if several { format!("{}: ", part.repo) } else { String::new() };
        let undone = part.undone.map(|commit| format!("; undone by {}", commit.short())).unwrap_or_default();
        format!("{at}on `{}` as {}, {} ago{undone}", part.target, part.commit.short(), age(part.at, now))
    };
    landed.iter().map(part).collect::<Vec<_>>().join("\n")
}

/// The sessions of a repository.
pub fn sessions(
    all: &[(RunId, Result<Summary, String>)],
    states: &WorkStates,
    marks: &ForecastMarks,
    now: Timestamp,
) -> String {
    let headings = ["session", "goal", "standing", "node", "turns", "tokens", "branch", "age"];
    let mut table = Table::new(headings).right(4).right(5).text(1).less([5, 4, 3, 7]).only_whole(6);
    for (id, summary) in all {
        match summary {
            Ok(summary) => table.row([
                id.to_string(),
                goal(summary),
                marked(style::standing(&states.word(summary)), marks.session(summary)),
                node_of(summary),
                summary.turns.to_string(),
                tokens_of(&summary.spent),
                branches(summary),
                age(summary.started_at, now),
            ]),
            Err(why) => table.row([id.to_string(), one_line(why), style::standing("unreadable")]),
        }
    }
    table.shown()
}

/// What a session is for: its goal, or the task it works on. One of a file is known by the name of that, too.
fn goal(summary: &Summary) -> String {
    let started = &summary.started;
    let simulated = if started.simulated { " (simulated)" } else { "" };
    let goal = one_line(&started.goal);
    match &started.task {
        Some(task) => format!("{} {}", task.id, name_line(&task.name)),
        None if goal.is_empty() => format!("{}{simulated}", started.name),
        None if started.dot_path == BUILT_IN => format!("{goal}{simulated}"),
        None => format!("{}{simulated}: {goal}", started.name),
    }
}

/// The branch, and the repositories where there are several.
fn branches(summary: &Summary) -> String {
    let Some((_, branch)) = summary.branch() else { return String::new() };
    if summary.started.has_several_repos() {
        format!("{branch} ({})", listed(summary.started.branches.keys(), usize::MAX))
    } else {
        branch.to_string()
    }
}

/// The pipeline, or the task it works on.
pub fn title(summary: &Summary) -> String {
    let simulated = if summary.started.simulated { " (simulated)" } else { "" };
    match &summary.started.task {
        Some(task) => format!("task {}", task.id),
        None => format!("{}{simulated}", summary.started.name),
    }
}

/// Tokens, with a note where they are not billed.
fn tokens_of(amount: &Amount) -> String {
    let count = spent_tokens(amount);
    if amount.unbilled > 0 && amount.unbilled == amount.turns { format!("{count} not billed") } else { count }
}

/// A session as JSON.
pub fn summary_json(summary: &Summary) -> Value {
    json!({
        "session": summary.session,
        "run": summary.run,
        "pipeline": summary.started.name,
        "file": summary.started.dot_path,
        "goal": summary.started.goal,
        "standing": summary.standing(),
        "node": summary.node(),
        "turns": summary.turns,
        "tokens": summary.spent.tokens,
        "cost_usd": summary.spent.known_usd(),
        "unbilled_turns": summary.spent.unbilled,
        "simulated": summary.started.simulated,
        "started_at": summary.started_at,
        "updated_at": summary.updated_at,
        "branch": summary.branch().map(|(_, branch)| branch),
        "target": summary.started.target(),
        "base": summary.base(),
        "commit": summary.work(),
        "repos": summary.repos().map(|repo_work| json!({
            "repo": repo_work.repo, "branch": repo_work.branch, "target": repo_work.target, "base": repo_work.base,
            "commit": repo_work.work,
        })).collect::<Vec<_>>(),
        "task": summary.state.task.as_ref().map(|task| json!({
            "id": task.of.id, "name": task.of.name, "tree": task.of.tree, "target": task.of.target,
            "status": task.status, "landed": task.landed,
        })),
    })
}

/// How many turns of a session are listed, unless all were asked for, and how many lines they take at most.
pub const TURNS: usize = 20;
const MOMENTS: usize = 4 * TURNS;

/// Turns, failures and checkpoints in order, if there are any; the newest of them unless `whole`.
pub fn timeline(view: &View, whole: bool) -> Option<String> {
    let mut table = turn_table("what");
    let (moments, several) = (view.timeline(), view.summary.started.has_several_repos());
    if moments.is_empty() {
        return None;
    }
    let left_out = if whole { 0 } else { earlier(&moments) };
    for moment in moments.into_iter().skip(left_out) {
        match moment {
            Moment::Turn(turn) => table.row(turn_row(&turn, several)),
            Moment::Failure(failure) => table.row(failed(&failure)),
            Moment::Answer(answer) => table.row(answered(&answer)),
            Moment::Checkpoint(checkpoint) => table.row([
                "checkpoint".to_owned(),
                checkpoint.node.to_string(),
                String::new(),
                String::new(),
                String::new(),
                short(&checkpoint.commit, several),
                marked_left(checkpoint.left, next_words(&checkpoint)),
            ]),
        }
    }
    let left_out = match left_out {
        // Nobody has counted what was not read.
        _ if !view.is_whole() => "… earlier lines; -v shows all\n".to_owned(),
        0 => String::new(),
        _ => format!("… {}; -v shows all\n", counted(left_out, "earlier line")),
    };
    Some(left_out + &table.shown())
}

/// How many of these are older than the newest turns.
fn earlier(moments: &[Moment]) -> usize {
    let turns = moments.iter().enumerate().rev().filter(|(_, moment)| matches!(moment, Moment::Turn(_)));
    let first = turns.map(|(at, _)| at).nth(TURNS - 1).unwrap_or_default();
    first.max(moments.len().saturating_sub(MOMENTS))
}

/// The turns, and the attempts that failed; of a session in `several` repositories with the names of these.
pub fn turns(moments: &[Moment], several: bool) -> String {
    let mut table = turn_table("turn");
    for moment in moments {
        match moment {
            Moment::Turn(turn) => table.row(turn_row(turn, several)),
            Moment::Failure(failure) => table.row(failed(failure)),
            Moment::Answer(answer) => table.row(answered(answer)),
            Moment::Checkpoint(_) => {}
        }
    }
    table.shown()
}

/// Columns for turns: what each did matters most, what it took least.
fn turn_table(first: &str) -> Table {
    Table::new([first, "node", "by", "tokens", "files", "commit", ""]).right(3).right(4).text(2).text(6).less([3, 2, 4])
}

fn turn_row(turn: &TurnView, several: bool) -> [String; 7] {
    [
        turn.turn.to_string(),
        node(turn),
        turn.model().to_owned(),
        match (&turn.deed, turn.tokens().total()) {
            (Deed::Agent { .. }, 0) => UNKNOWN.to_owned(),
            (_, tokens) => count(tokens),
        },
        count(turn.changed() as u64),
        turn.commit.as_ref().map(|commits| short(commits, several)).unwrap_or_default(),
        marked_what(turn),
    ]
}

/// What a turn did; with a word where it is not, or no longer, of the run.
fn marked_what(turn: &TurnView) -> String {
    if turn.inherited {
        return style::paint(style::FAINT, &format!("inherited: {}", what(turn)));
    }
    marked_left(turn.left, what(turn))
}

/// What was done, with a word where the run has gone back behind it.
fn marked_left(left: bool, what: String) -> String {
    if left { style::paint(style::FAINT, &format!("left: {what}")) } else { what }
}

/// The row of an attempt that failed.
fn failed(failure: &NodeFailure) -> [String; 7] {
    let empty = String::new;
    let node = visited(&failure.node, failure.visit, failure.attempt);
    let why = one_line(&failure.reason) + if failure.retried { "; retried" } else { "" };
    ["failed".to_owned(), node, empty(), empty(), empty(), empty(), marked_left(failure.left, why)]
}

/// The row of an answer to a gate.
fn answered(answer: &AnswerView) -> [String; 7] {
    let empty = String::new;
    let (node, by) = (visited(&answer.node, answer.visit, 1), answer.by.clone().unwrap_or_default());
    let what = if answer.inherited { format!("inherited: {}", answer_words(answer)) } else { answer_words(answer) };
    ["answer".to_owned(), node, plain(&by), empty(), empty(), empty(), marked_left(answer.left, what)]
}

/// `Yes: not today (at the terminal)`
fn answer_words(answer: &AnswerView) -> String {
    let comment = answer.comment.as_ref().map(|comment| format!(": {comment}")).unwrap_or_default();
    format!("{} ({})", one_line(&format!("{}{comment}", answer.answer)), answer.how())
}

/// An answer with its question and who gave it, in a line.
pub fn answer_line(answer: &AnswerView) -> String {
    let by = answer.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    plain(&format!("`{}` was answered{by}: {} {}", answer.node, answer.question, answer_words(answer)))
}

/// `code`, `code (visit 2)`, `code (visit 1, attempt 3)`
pub fn node(turn: &TurnView) -> String {
    visited(&turn.node, turn.visit, turn.attempt)
}

fn visited(node: &NodeId, visit: u32, attempt: u32) -> String {
    match (visit, attempt) {
        (1, 1) => node.to_string(),
        (visit, 1) => format!("{node} (visit {visit})"),
        (visit, attempt) => format!("{node} (visit {visit}, attempt {attempt})"),
    }
}

fn next_words(checkpoint: &Milestone) -> String {
    let outcome = checkpoint.outcome.as_ref().map(ToString::to_string).unwrap_or_default();
    match &checkpoint.next_node {
        Some(next) => format!("{outcome}, next {next}"),
        None => format!("{outcome}, the end"),
    }
}

/// What a turn did, on one line: its commit's subject, its tools, or its command.
fn what(turn: &TurnView) -> String {
    let text = match (&turn.deed, &turn.message) {
        (Deed::Tool { command, exit, .. }, _) => return format!("{} ({exit})", one_line(command)),
        (_, Some(message)) => first_line(message).to_owned(),
        (Deed::Agent { tool_calls, .. }, None) if tool_calls.is_empty() => "answer".to_owned(),
        (Deed::Agent { tool_calls, .. }, None) => {
            tool_calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ")
        }
    };
    one_line(&text)
}

pub fn count(number: u64) -> String {
    if number == 0 { String::new() } else { tokens(number) }
}

/// Commits in a word; where there may be several, each with its repository.
pub fn short(commits: &Snapshot, several: bool) -> String {
    let word = |(repo, commit): (&RepoName, &CommitId)| {
        if several { format!("{repo}@{}", commit.short()) } else { commit.short() }
    };
    commits.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The files a turn wrote; those of several repositories with their names.
pub fn files(written: &BTreeMap<RepoName, Vec<RepoPath>>) -> Vec<String> {
    let several = written.values().filter(|paths| !paths.is_empty()).count() > 1;
    let file = |repo: &RepoName, path: &RepoPath| if several { format!("{repo}/{path}") } else { path.to_string() };
    written.iter().flat_map(|(repo, paths)| paths.iter().map(move |path| file(repo, path))).collect()
}

/// The first line of a text, and a mark when there is more of it.
pub fn headline(text: &str, width: usize) -> String {
    let text = plain(text.trim());
    let line = shorten(first_line(&text), width);
    if line.ends_with('…') || text.lines().nth(1).is_none() { line } else { format!("{line} …") }
}

/// The first line of a text for a table, which knows how much there is room for.
pub fn one_line(text: &str) -> String {
    headline(text, usize::MAX).replace('\t', " ")
}

/// What agents and tools say goes to a terminal without what would steer it.
pub fn plain(text: &str) -> String {
    let harmless = |c: char| if is_steering(c) && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.replace("\r\n", "\n").chars().map(harmless).collect()
}

/// The fields that are wrapped between words. Others hold what is copied, which a line break would spoil.
const PROSE: [&str; 6] = ["goal", "standing", "question", "choices", "message", "failed"];

/// Lines of names and values.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room = columns().map_or(usize::MAX, |columns| columns.saturating_sub(width + 2));
    let field = |(name, value): &(&str, String)| {
        let value = plain(value);
        let room = if PROSE.contains(name) { room } else { usize::MAX };
        let names = std::iter::once(*name).chain(std::iter::repeat(""));
        let lines = value.trim_end().lines().flat_map(|line| wrapped(line, room));
        let lines = names.zip(lines).map(|(name, line)| format!("{name:width$}  {line}"));
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    };
    fields.iter().map(field).collect::<Vec<_>>().join("\n")
}

/// A message with its words, tool calls and results; long ones cut unless `whole`.
pub fn message(message: &Message, whole: bool) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let failure = message.failure().map(|why| format!(", not used: {}", plain(why))).unwrap_or_default();
    let mut text = heading(&format!("{role}{failure}"));
    for part in &message.content {
        text.push('\n');
        text.push_str(&self::part(part, whole));
    }
    text
}

/// What comes next, in a longer text.
pub fn heading(words: &str) -> String {
    style::paint(style::HEADING, &format!("── {words}"))
}

/// What a program wrote to standard error; cut likewise.
pub fn stderr(text: &str, whole: bool) -> String {
    format!("{}\n{}", heading("stderr"), cut(text, whole))
}

pub fn part(part: &Part, whole: bool) -> String {
    match part {
        Part::Text { text, .. } => cut(text, whole),
        Part::Thinking { text, .. } => format!("(thinks) {}", cut(text, whole)),
        Part::ToolCall { name, arguments, .. } => format!("→ {name} {}", cut(&arguments.to_string(), whole)),
        Part::ToolResult { content, is_error: false, .. } => format!("← {}", cut(content, whole)),
        Part::ToolResult { content, is_error: true, .. } => format!("← error: {}", cut(content, whole)),
        Part::Unknown(value) => cut(&value.to_string(), whole),
    }
}

fn cut(text: &str, whole: bool) -> String {
    let text = plain(text.trim_end());
    let all = text.chars().count();
    if whole || (text.lines().count() <= LINES && all <= CHARACTERS) {
        return text;
    }
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    let kept: String = lines.join("\n").chars().take(CHARACTERS).collect();
    format!("{kept}\n… {} more characters; -v shows all", all - kept.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let text = (1..=30).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let shown = cut(&text, false);
        assert!(shown.ends_with("\n20\n… 30 more characters; -v shows all"), "{shown}");
        assert_eq!(cut(&text, true), text);
        assert!(cut(&"x".repeat(3_000), false).contains("… 1000 more characters"));
    }

    #[test]
    fn agent_output_cannot_control_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\r\nc\td\u{7}"), "a\u{fffd}[31mb\nc\td\u{fffd}");
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{200f}"), "a\u{fffd}b\u{fffd}c\u{fffd}", "nor turn its text");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(headline("make\ntest", 10), "make …");
        assert_eq!(headline("make all the tests", 8), "make all…");
        assert_eq!(headline(" make ", 8), "make");
    }

    #[test]
    fn old_sessions_are_counted_in_days() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let ago = |seconds: i64| age(Timestamp::from_second(1_000_000 - seconds).unwrap(), now);
        assert_eq!([ago(5), ago(90_000), ago(200_000), ago(-3)], ["5.0s", "25h 00m", "2d", "0ms"]);
    }
}
