//! The story of the run so far for an agent's prompt, by the fidelity of its node. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use pleach_core::event::Outcome;
use pleach_core::ids::{NodeId, SessionId};
use pleach_core::plan::pipeline::{Edge, Fidelity, HandlerKind, Node, Pipeline};
use pleach_core::route::text_of;
use pleach_core::state::State;
use pleach_core::text::{excerpt, shorten};

/// Characters per token, as a rule of thumb.
const CHARS_PER_TOKEN: usize = 4;

/// Characters for all answers together with `compact`.
const COMPACT_ANSWERS: usize = 8_000;

/// The minimum for each answer, however many there are.
const SHORTEST_ANSWER: usize = 200;

/// The maximum length of a command line.
const LONGEST_COMMAND: usize = 1_000;

/// Separates the two streams in a command's recorded output.
pub(super) const STDERR_MARK: &str = "\n--- stderr\n";

/// The fidelity of a node entered along `edge`: the edge's own, the node's, the graph's, then `compact`.
pub fn fidelity(pipeline: &Pipeline, edge: Option<&Edge>, node: &Node) -> Fidelity {
    edge.and_then(|edge| edge.fidelity).or(node.fidelity).or(pipeline.default_fidelity).unwrap_or_default()
}

/// The conversation a node with full fidelity resumes: its own, the edge's, the graph's, that of the surrounding
/// subgraph, then the previous node's.
pub fn thread(pipeline: &Pipeline, edge: Option<&Edge>, node: &Node, from: Option<&NodeId>) -> String {
    node.thread_id
        .clone()
        .or_else(|| edge.and_then(|edge| edge.thread_id.clone()))
        .or_else(|| pipeline.default_thread.clone())
        .or_else(|| node.classes.last().cloned())
        .or_else(|| from.map(NodeId::to_string))
        .unwrap_or_else(|| node.id.to_string())
}

/// The newest result of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeResult {
    pub id: NodeId,
    pub label: String,
    pub outcome: Outcome,
    /// The command and how it ended, if the node ran one.
    pub command: Option<(String, String)>,
    /// The answer or the output.
    pub text: String,
    /// The file with the complete text.
    pub file: Option<PathBuf>,
}

impl NodeResult {
    fn is_failed_command(&self) -> bool {
        self.command.is_some() && !self.outcome.status.is_success()
    }
}

/// The newest results of nodes with results, newest first. Results already in the conversation `thread` are left out.
pub fn results(pipeline: &Pipeline, state: &State, thread: Option<&str>) -> Vec<NodeResult> {
    let in_thread = |id: &NodeId| {
        let thread_of = state.nodes.get(id).and_then(|node| node.thread.as_deref());
        thread.is_some_and(|thread| state.threads.contains_key(thread)) && thread_of == thread
    };
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    // On a retry, the outcome of the last attempt comes first, although the node has not ended.
    if let Some((id, outcome)) = retried(state).filter(|(id, _)| seen.insert(*id)) {
        let label = pipeline.node(id).map_or(String::new(), |node| node.label.clone());
        let outcome = outcome.clone();
        results.push(NodeResult { id: id.clone(), label, outcome, command: None, text: String::new(), file: None });
    }
    for id in state.completed.iter().rev() {
        // The agent of that conversation already knows the results before it.
        if in_thread(id) {
            break;
        }
        let Some(node) = pipeline.node(id).filter(|node| does_something(node)) else { continue };
        let Some(outcome) = state.outcome(id).filter(|_| seen.insert(id)) else { continue };
        let ran = state.nodes.get(id).and_then(|node| node.ran.clone());
        let command = (node.handler == HandlerKind::Tool).then(|| match ran {
            Some(ran) => (ran.command, ran.exit),
            None => (node.tool_command.clone().unwrap_or_default(), "did not run".to_owned()),
        });
        let (label, outcome) = (node.label.clone(), outcome.clone());
        results.push(NodeResult { id: id.clone(), label, outcome, command, text: String::new(), file: None });
    }
    results
}

/// The node to retry, and how its last attempt ended.
fn retried(state: &State) -> Option<(&NodeId, &Outcome)> {
    let node = state.next_node()?;
    Some((node, state.nodes.get(node)?.retried.as_ref()?))
}

fn does_something(node: &Node) -> bool {
    !matches!(node.handler, HandlerKind::Start | HandlerKind::Exit | HandlerKind::Conditional | HandlerKind::Wait)
}

/// A prompt with the story before it.
pub fn told_before(story: &str, asked: String) -> String {
    if story.is_empty() { asked } else { format!("{story}\n{asked}") }
}

/// What the agent of a node was asked, without the story before it.
pub fn asked_of<'t>(node: &Node, prompt: &'t str) -> &'t str {
    let own = node.prompt.trim();
    let has_own_lines = |at: &usize| {
        let (before, after) = (prompt[..*at].trim_end_matches([' ', '\t']), &prompt[at + own.len()..]);
        let is_blank = after.lines().next().is_none_or(|rest| rest.trim().is_empty());
        (before.is_empty() || before.ends_with('\n')) && is_blank
    };
    // The story may have the same words.
    let found = prompt.rmatch_indices(own).map(|(at, _)| at).find(has_own_lines);
    found.filter(|_| !own.is_empty()).map_or(prompt, |at| &prompt[at..])
}

/// How much of the run the text covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling<'a> {
    pub session: &'a SessionId,
    pub fidelity: Fidelity,
    /// How many characters of a failed command's output are included.
    pub output_chars: usize,
    /// What the node is asked below it, which may say the goal itself.
    pub asked: &'a str,
}

/// The text before a node's prompt, and the nodes whose files it names.
pub fn text(pipeline: &Pipeline, state: &State, results: &[NodeResult], how: Telling<'_>) -> (String, Vec<NodeId>) {
    let mut preamble = PreambleText::default();
    let says_goal = pipeline.goal.contains(char::is_whitespace) && how.asked.contains(&pipeline.goal);
    if !pipeline.goal.is_empty() && !says_goal && (how.fidelity != Fidelity::Full || !results.is_empty()) {
        let _ = writeln!(preamble.text, "Goal: {}", pipeline.goal);
    }
    let answers = |tokens: usize, text: &str| (tokens * CHARS_PER_TOKEN).saturating_sub(text.chars().count());
    match how.fidelity {
        Fidelity::Truncate => {
            let _ = writeln!(preamble.text, "Run: {}", how.session);
        }
        // The conversation itself covers everything that is not among the results.
        Fidelity::Full if results.is_empty() => {}
        Fidelity::Full | Fidelity::Compact => preamble.so_far(pipeline, state, results, |_| COMPACT_ANSWERS),
        Fidelity::SummaryLow => preamble.so_far(pipeline, state, results, |text| answers(600, text)),
        Fidelity::SummaryMedium => preamble.so_far(pipeline, state, results, |text| answers(1_500, text)),
        Fidelity::SummaryHigh => preamble.so_far(pipeline, state, results, |text| answers(3_000, text)),
    }
    preamble.text.extend(person(state));
    for result in results.iter().filter(|result| result.is_failed_command()) {
        preamble.failed_command(result, how.output_chars);
    }
    (preamble.text, preamble.files)
}

/// A person's text or comment at the newest gate. It is included in full at every fidelity: it is short, and meant for
/// the next node.
fn person(state: &State) -> Option<String> {
    let said = |key: &str| state.context.get(&format!("human.gate.{key}")).map(text_of).filter(|text| !text.is_empty());
    match (said("text"), said("comment")) {
        (Some(text), _) => Some(format!("A person answered: {text}\n")),
        (None, Some(comment)) => {
            Some(format!("A person chose `{}` and says: {comment}\n", said("label").unwrap_or_default()))
        }
        (None, None) => None,
    }
}

#[derive(Default)]
struct PreambleText {
    text: String,
    files: Vec<NodeId>,
}

impl PreambleText {
    /// The outcomes, answers and context values of the nodes.
    fn so_far(
        &mut self,
        pipeline: &Pipeline,
        state: &State,
        results: &[NodeResult],
        answers: impl FnOnce(&str) -> usize,
    ) {
        let known = known(state, &pipeline.goal);
        let heads: Vec<String> = results.iter().map(head).collect();
        let mut left = answers(&format!("{}{}{known}", self.text, heads.concat()));
        if !results.is_empty() {
            self.text.push_str("So far, newest first:\n");
        }
        for (index, (result, head)) in results.iter().zip(&heads).enumerate() {
            self.text.push_str(head);
            // Its output follows below in full length.
            if result.is_failed_command() {
                continue;
            }
            let share = if index + 1 == results.len() { left } else { left / 2 }.max(SHORTEST_ANSWER);
            left = left.saturating_sub(self.answer(result, share));
        }
        self.text.push_str(&known);
    }

    /// A node's answer in at most `share` characters. Returns the number used.
    fn answer(&mut self, result: &NodeResult, share: usize) -> usize {
        let text = result.text.trim();
        if text.is_empty() {
            return 0;
        }
        let indented = text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
        let (shown, is_cut) = excerpt::cut(&indented, share / 4 * 3, share / 4);
        let _ = writeln!(self.text, "{shown}");
        if let Some(file) = result.file.as_ref().filter(|_| is_cut) {
            let _ = writeln!(self.text, "  All of it is in {}", file.display());
            self.files.push(result.id.clone());
        }
        shown.chars().count()
    }

    fn failed_command(&mut self, result: &NodeResult, chars: usize) {
        let Some((command, exit)) = &result.command else { return };
        let id = &result.id;
        let _ =
            writeln!(self.text, "\nThe command of `{id}` failed ({exit}):\n$ {}", shorten(command, LONGEST_COMMAND));
        let output = result.text.trim_end();
        if output.is_empty() {
            self.text.push_str("It printed nothing.\n");
            return;
        }
        let _ = writeln!(self.text, "{}", output_excerpt(output, chars));
        if let Some(file) = &result.file {
            let _ = writeln!(self.text, "The whole output is in {}", file.display());
            self.files.push(id.clone());
        }
    }
}

/// A node and its outcome in one line.
fn head(result: &NodeResult) -> String {
    let NodeResult { id, label, outcome, .. } = result;
    let note = outcome.failure_reason.as_ref().or(outcome.notes.as_ref());
    let note = note.map(|note| format!(": {}", shorten(note.trim(), 300))).unwrap_or_default();
    format!("- {label} ({id}): {}{note}\n", outcome.status)
}

/// The context values set by nodes, except those shown elsewhere, as the goal is.
fn known(state: &State, goal: &str) -> String {
    const HIDDEN: [&str; 10] = [
        "human.gate.text",
        "human.gate.comment",
        "graph.",
        "internal.",
        "outcome",
        "preferred_label",
        "current_node",
        "last_stage",
        "last_response",
        "tool.output",
    ];
    let shown = state.context.iter().filter(|(key, _)| !HIDDEN.iter().any(|prefix| key.starts_with(prefix)));
    let shown = shown.map(|(key, value)| (key, text_of(value))).filter(|(_, text)| text != goal);
    let lines: String = shown.map(|(key, text)| format!("- {key}: {}\n", shorten(&text, 400))).collect();
    if lines.is_empty() { lines } else { format!("Known:\n{lines}") }
}

/// An excerpt of a command's output, with room for both streams.
fn output_excerpt(output: &str, chars: usize) -> String {
    let parts = output.rsplit_once(STDERR_MARK).filter(|(stdout, _)| !stdout.trim().is_empty());
    let Some((stdout, stderr)) = parts else { return excerpt::of(output, chars) };
    excerpt::of_each(&[stdout, stderr], chars).join(STDERR_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::event::Status;

    fn result(id: &str, text: &str) -> NodeResult {
        NodeResult {
            id: NodeId::new(id).unwrap(),
            label: id.to_uppercase(),
            outcome: Outcome::success(),
            command: None,
            text: text.to_owned(),
            file: Some(PathBuf::from(format!("/run/{id}"))),
        }
    }

    fn failed(id: &str, output: &str) -> NodeResult {
        let command = Some(("make test".to_owned(), "exit 2".to_owned()));
        NodeResult { outcome: Outcome::fail("exit 2"), command, ..result(id, output) }
    }

    fn preamble(fidelity: Fidelity, results: &[NodeResult]) -> (String, Vec<String>) {
        let (pipeline, _) = pleach_core::plan::load("digraph g { goal=\"win\" }", &Default::default(), &[]);
        let state = State::new(NodeId::new("start").unwrap());
        let session = SessionId::new("abcdefgh").unwrap();
        let how = Telling { session: &session, fidelity, output_chars: 4_000, asked: "" };
        let (text, files) = text(&pipeline.unwrap(), &state, results, how);
        (text, files.into_iter().map(|id| id.to_string()).collect())
    }

    const ALL: [Fidelity; 6] = [
        Fidelity::Full,
        Fidelity::Truncate,
        Fidelity::Compact,
        Fidelity::SummaryLow,
        Fidelity::SummaryMedium,
        Fidelity::SummaryHigh,
    ];

    #[test]
    fn every_mode_shows_head_and_tail_of_a_failed_command() {
        let output: String = (1..=2_000).map(|line| format!("line {line}\n")).collect();
        for fidelity in ALL {
            let (text, files) = preamble(fidelity, &[failed("test", &output)]);
            assert!(text.contains("The command of `test` failed (exit 2):\n$ make test\nline 1\n"), "{text}");
            assert!(text.contains("\nline 10\n[… ") && !text.contains("\nline 11\n"), "{text}");
            assert!(text.ends_with("\nline 2000\nThe whole output is in /run/test\n"), "{text}");
            assert!(text.chars().count() > 4_000 && text.chars().count() < 4_500, "{}", text.chars().count());
            assert_eq!(files, ["test"]);
        }
    }

    #[test]
    fn what_was_asked_follows_the_story() {
        let dot = "digraph g { start [shape=Mdiamond] a [prompt=\"Do it\"] exit [shape=Msquare] start -> a -> exit }";
        let (pipeline, _) = pleach_core::plan::load(dot, &Default::default(), &[]);
        let pipeline = pipeline.unwrap();
        let node = pipeline.node(&NodeId::new("a").unwrap()).unwrap();
        let told = told_before("Goal: Do it\nDo it\nDo it again", "Do it".to_owned());
        for (prompt, asked) in [
            ("Do it", "Do it"),
            (told.as_str(), "Do it"),
            ("So far:\n\nDo it\n\nDo it well", "Do it\n\nDo it well"),
            ("Something else\nDo it now", "Something else\nDo it now"),
        ] {
            assert_eq!(asked_of(node, prompt), asked);
        }
    }

    #[test]
    fn neither_stream_of_a_command_crowds_out_the_other() {
        let (out, err) = ("o\n".repeat(9_000), "e\n".repeat(9_000));
        let text = output_excerpt(&format!("{out}the test that failed{STDERR_MARK}{err}the last word"), 4_000);
        assert!(text.contains("the test that failed\n--- stderr\n") && text.ends_with("the last word"), "{text}");
        let short = output_excerpt(&format!("{out}end{STDERR_MARK}oops"), 4_000);
        assert!(short.ends_with("end\n--- stderr\noops") && short.chars().count() > 3_900, "{short}");
        assert_eq!(output_excerpt("one line", 4_000), "one line");
    }

    #[test]
    fn answers_come_newest_first_and_share_what_there_is() {
        let long = "word ".repeat(5_000);
        let results = [result("review", "Too long."), result("build", &long), result("plan", &long)];
        for (fidelity, most) in [
            (Fidelity::Compact, 9_000),
            (Fidelity::Full, 9_000),
            (Fidelity::SummaryLow, 3_000),
            (Fidelity::SummaryHigh, 13_000),
        ] {
            let (text, files) = preamble(fidelity, &results);
            let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
            assert!(at("- REVIEW (review): success\n  Too long.\n") < at("- BUILD (build): success\n  word"));
            assert!(at("- BUILD") < at("- PLAN (plan): success\n  word") && text.starts_with("Goal: win\nSo far"));
            assert_eq!(files, ["build", "plan"], "what is cut can be read");
            assert!(text.chars().count() < most, "{}", text.chars().count());
        }
        assert_eq!(preamble(Fidelity::Truncate, &results).0, "Goal: win\nRun: abcdefgh\n");
        assert_eq!(preamble(Fidelity::Full, &[]).0, "", "the conversation has it");
    }

    #[test]
    fn a_reason_stands_beside_the_outcome() {
        let rejected = Outcome { notes: Some("no test".into()), ..Outcome::of(Status::PartialSuccess) };
        let (text, _) = preamble(Fidelity::Compact, &[NodeResult { outcome: rejected, ..result("review", "") }]);
        assert!(text.contains("- REVIEW (review): partial_success: no test\n"), "{text}");
    }
}
