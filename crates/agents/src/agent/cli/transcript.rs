//! From the events of a stream to turns. Nothing here touches the world.

use super::parser::{Claim, StreamEvent, StreamedCall, Total};
use crate::agent::Turn;
use crate::agent::intent::intent_of;
use crate::llm::{Message, Role};
use pleach_core::event::Usage;

/// What a run's stream has said so far, and how much of it was reported.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// The task, until it was part of a turn.
    prompt: Option<Message>,
    /// Calls that are part of no turn yet.
    calls: Vec<StreamedCall>,
    /// The conversation's id.
    pub session: Option<String>,
    total: Option<Total>,
    reported: Usage,
    reported_usd: f64,
    /// The tools it was not allowed to use.
    pub denied: Vec<String>,
    /// The last thing it complained about.
    pub complaint: Option<String>,
    /// How it says it went.
    pub claim: Option<Claim>,
    /// The newest words of the model.
    said: String,
    model: Option<String>,
    /// Whether the model has answered at all.
    pub spoke: bool,
    /// Whether the stream has said that a turn is over.
    over: bool,
}

impl Transcript {
    /// Nothing yet, for this task.
    pub fn new(prompt: &str) -> Self {
        Self { prompt: Some(Message::user(prompt)), ..Self::default() }
    }

    /// Adds an event.
    pub fn push(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Session(id) if !id.is_empty() => self.session = Some(id),
            StreamEvent::Session(_) => {}
            StreamEvent::Call(call) => {
                self.spoke = true;
                let said = call.text();
                if !said.trim().is_empty() {
                    said.trim().clone_into(&mut self.said);
                }
                self.model = call.model.clone().or(self.model.take());
                self.calls.push(*call);
            }
            StreamEvent::TurnOver => self.over = true,
            StreamEvent::Total(total) => self.total = Some(total),
            StreamEvent::Denied(tool) => self.denied.push(tool),
            StreamEvent::Complaint(said) => self.complaint = Some(said),
            StreamEvent::Result(claim) => self.claim = Some(claim),
        }
    }

    /// Adds the model's last words as the gateway saw them, where the stream has none.
    pub fn add_last_words(&mut self, said: &str) {
        self.spoke |= !said.is_empty();
        if self.said.is_empty() {
            said.clone_into(&mut self.said);
        }
    }

    /// Whether a call that used tools waits to be reported, or one of which the stream says so: a turn has ended. The
    /// last words of an agent wait for its end.
    pub fn has_turn(&self) -> bool {
        self.calls.iter().any(|call| self.over || !call.tools.is_empty())
    }

    /// Whether these tool calls are in the stream and over.
    pub fn knows(&self, ids: &[String]) -> bool {
        ids.iter().all(|id| self.calls.iter().flat_map(|call| &call.tools).any(|tool| &tool.id == id))
    }

    /// The agent's last words.
    pub fn words(&self) -> String {
        match &self.claim {
            Some(Claim { text, .. }) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => self.said.clone(),
        }
    }

    /// The model as the stream names it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Everything the conversation has used, with its earlier runs, for agents that count so.
    pub fn used(&self) -> Option<Usage> {
        self.total.and_then(|total| total.with_earlier)
    }

    /// A turn of everything that was not reported yet. `price` says what tokens cost where the stream does not.
    pub fn turn(&mut self, price: impl Fn(&str, &Usage) -> Option<f64>) -> Turn {
        let calls = std::mem::take(&mut self.calls);
        self.over = false;
        let mut turn = Turn { messages: self.prompt.take().into_iter().collect(), ..Turn::default() };
        let mut said = String::new();
        for call in calls {
            said = if said.is_empty() { call.text() } else { said };
            turn.usage += call.usage;
            let model = call.model.as_deref().or(self.model.as_deref()).unwrap_or_default();
            let cost = call.cost_usd.or_else(|| price(model, &call.usage).filter(|_| call.usage.total() > 0));
            if let Some(cost) = cost {
                *turn.cost_usd.get_or_insert_default() += cost;
            }
            turn.messages.extend(call.messages);
            turn.tool_calls.extend(call.tools);
        }
        turn.intent = intent_of(&said, &turn.tool_calls);
        self.reported += turn.usage;
        self.reported_usd += turn.cost_usd.unwrap_or(0.0);
        turn
    }

    /// The last turn: what is left, and what the sum says beyond what was reported. `failed` says why nothing can go on
    /// from its words.
    pub fn last_turn(&mut self, failed: Option<&str>, price: impl Fn(&str, &Usage) -> Option<f64>) -> Turn {
        let begun = (self.reported, self.reported_usd);
        let mut turn = self.turn(&price);
        if let Some(total) = self.total {
            let rest = total.usage - begun.0;
            // Calls that are counted one by one are never more than all of them.
            turn.usage = if rest.total() > 0 { rest } else { turn.usage };
            let model = self.model.clone().unwrap_or_default();
            turn.cost_usd = match total.cost_usd {
                Some(all) => Some((all - begun.1).max(0.0)),
                None => price(&model, &turn.usage).filter(|_| turn.usage.total() > 0).or(turn.cost_usd),
            };
        }
        let words = self.words();
        let claimed = self.claim.as_ref().map(|claim| claim.text.trim()).filter(|text| !text.is_empty());
        let is_words = |message: &Message| message.role == Role::Assistant;
        // Its last words are its answer, and words are what a failure can be marked on. Where nothing was said since
        // the last turn, there is nothing to mark.
        let marks = failed.is_some() && !turn.messages.is_empty();
        if !turn.messages.last().is_some_and(is_words) && (claimed.is_some() || marks) {
            turn.messages.push(Message::assistant(claimed.unwrap_or_default()));
        }
        if turn.intent.is_empty() {
            turn.intent = intent_of(&words, &[]);
        }
        if let (Some(why), Some(last)) = (failed, turn.messages.last_mut().filter(|last| last.role == Role::Assistant))
        {
            last.mark_failed(why);
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::cli::parser::StreamReader;
    use pleach_core::config::ParserName;

    fn events(parser: ParserName, file: &str) -> Vec<StreamEvent> {
        let text = std::fs::read(format!("tests/data/agents/{file}.jsonl")).unwrap();
        let mut reader = StreamReader::new(parser, Usage::default());
        let mut events = reader.feed(&text);
        events.extend(reader.finish());
        events
    }

    fn free(_: &str, _: &Usage) -> Option<f64> {
        None
    }

    /// The turns a stream is reported as, as they come.
    fn turns(parser: ParserName, file: &str) -> Vec<Turn> {
        let mut transcript = Transcript::new("task");
        let mut turns = Vec::new();
        for event in events(parser, file) {
            transcript.push(event);
            if transcript.has_turn() {
                turns.push(transcript.turn(free));
            }
        }
        turns.push(transcript.last_turn(None, free));
        turns
    }

    #[test]
    fn a_stream_becomes_turns_as_it_comes() {
        for (parser, file) in [
            (ParserName::Claude, "claude_partial"),
            (ParserName::Gemini, "gemini_default"),
            (ParserName::Opencode, "opencode_default"),
        ] {
            let turns = turns(parser, file);
            assert_eq!(turns.len(), 3, "{file}");
            assert_eq!(turns[0].messages[0], Message::user("task"), "{file}");
            let tools: Vec<usize> = turns.iter().map(|turn| turn.tool_calls.len()).collect();
            assert_eq!(tools, [1, 2, 0], "{file}");
            assert_eq!(turns[0].intent, "Turn 1: I will write hello.txt.", "{file}");
            assert!(turns[2].messages.last().unwrap().is_answer(), "{file}");
            assert_eq!(turns[2].messages.last().unwrap().text(), "Done: two turns wrote files.", "{file}");
            // Whether usage comes call by call or only at the end: the sum is right.
            let mut all = Usage::default();
            turns.iter().for_each(|turn| all += turn.usage);
            assert_eq!((all.input, all.cache_read, all.output), (6000, 600, 66), "{file}");
        }
        let costs: Vec<_> = turns(ParserName::Opencode, "opencode_default").iter().map(|turn| turn.cost_usd).collect();
        assert_eq!(costs, [Some(0.003195), Some(0.00639), Some(0.009585)]);
        let cost = turns(ParserName::Claude, "claude_partial").last().unwrap().cost_usd;
        assert!(cost.is_some_and(|cost| (cost - 0.01917).abs() < 1e-9), "{cost:?}");
    }

    #[test]
    fn one_run_is_one_turn_where_calls_are_not_marked() {
        let turns = turns(ParserName::Codex, "codex_fail2");
        assert_eq!(turns.len(), 2, "what was heard, and how it ended");
        let mut transcript = Transcript::new("task");
        events(ParserName::Codex, "codex_default").into_iter().for_each(|event| transcript.push(event));
        let turn = transcript.last_turn(None, |model, usage| (model.is_empty() && usage.input == 6000).then_some(1.5));
        assert_eq!((turn.messages.len(), turn.tool_calls.len()), (6, 3));
        assert!(turn.messages.last().unwrap().is_answer());
        assert_eq!((turn.usage.input, turn.usage.cache_read, turn.cost_usd), (6000, 600, Some(1.5)));
        assert_eq!(transcript.words(), "Done: two turns wrote files.");
    }

    #[test]
    fn an_interrupted_run_leaves_no_answer_to_continue_from() {
        let mut transcript = Transcript::new("task");
        let turn = transcript.last_turn(Some("killed"), free);
        assert_eq!(turn.messages.len(), 2);
        assert!(!turn.messages[1].is_answer());
        let mut transcript = Transcript::new("task");
        let cut: Vec<StreamEvent> = events(ParserName::Claude, "claude_maxturns");
        cut.into_iter().take(3).for_each(|event| transcript.push(event));
        let turn = transcript.last_turn(Some("killed"), free);
        assert_eq!(turn.tool_calls.len(), 1);
        assert!(!turn.messages.last().unwrap().is_answer(), "{turn:?}");
    }
}
