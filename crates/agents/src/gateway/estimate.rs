//! The tokens a call may take, and those it took where the provider does not count: a limit covers calls in flight, and
//! what a provider leaves uncounted.

use super::watch::AnswerOutcome;
use crate::llm::by_length;
use pleach_core::event::Usage;

/// How many tokens an answer may have if its request sets no limit: about the most models produce.
const UNBOUNDED: u64 = 32_000;

/// How many tokens an answer may have. Without a limit in the request, as many as models usually can, and no fewer than
/// an earlier answer had.
pub(super) fn bound(said: Option<u32>, longest: u64) -> u64 {
    said.map_or_else(|| UNBOUNDED.max(longest), u64::from)
}

/// The length of a call that went to a provider.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Length {
    /// What was sent, in bytes.
    pub sent: u64,
    /// What was received, in bytes, where that is made of tokens.
    pub received: u64,
    /// How many tokens an answer in one piece may have: its progress is unknown until it arrives, and a provider does
    /// not stop when a client leaves.
    pub unseen: u64,
}

/// What a call took, and whether that had to be estimated. What the provider counted stands; an answer that broke off
/// was counted at its beginning at most.
pub(super) fn taken(outcome: &AnswerOutcome, length: Option<Length>) -> (Usage, bool) {
    let (counted, is_cut) = match outcome {
        AnswerOutcome::Whole(response) => (response.usage, false),
        AnswerOutcome::Counted(usage, _) | AnswerOutcome::Unreadable(usage, _) => (*usage, false),
        AnswerOutcome::Cut(usage, _) => (*usage, true),
        AnswerOutcome::Refused(..) => return (Usage::default(), false),
    };
    let Some(Length { sent, received, unseen }) = length else { return (counted, false) };
    let (mut usage, _) = by_length(counted, is_cut, sent, received);
    if is_cut {
        usage.output = usage.output.max(unseen);
    }
    (usage, usage != counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Message, Response, Stop};

    const LENGTH: Option<Length> = Some(Length { sent: 4000, received: 41, unseen: 0 });

    fn whole(usage: Usage) -> AnswerOutcome {
        let message = Message::assistant("Hello.");
        let response = Response { message, usage, model: "m".into(), stop: Stop::End, extra: Default::default() };
        AnswerOutcome::Whole(Box::new(response))
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn missing_token_counts_are_estimated() {
        assert_eq!(taken(&whole(usage(7, 1)), LENGTH), (usage(7, 1), false));
        assert_eq!(taken(&whole(usage(0, 0)), LENGTH), (usage(1000, 11), true));
        assert_eq!(taken(&whole(usage(0, 0)), None), (usage(0, 0), false), "it went to nobody");
        let cut = |counted| AnswerOutcome::Cut(counted, "the client hung up".into());
        assert_eq!(taken(&cut(usage(7, 1)), LENGTH), (usage(7, 11), true), "the beginning was counted");
        assert_eq!(taken(&cut(usage(7, 20)), LENGTH), (usage(7, 20), false));
        assert_eq!(taken(&cut(usage(0, 0)), LENGTH), (usage(1000, 11), true));
        let whole_or_nothing = Some(Length { unseen: 500, ..LENGTH.unwrap() });
        assert_eq!(taken(&cut(usage(0, 0)), whole_or_nothing), (usage(1000, 500), true), "it may have said all that");
        assert_eq!(taken(&whole(usage(0, 0)), whole_or_nothing), (usage(1000, 11), true), "all that came is all");
        assert_eq!(taken(&AnswerOutcome::Refused(429, "no".into()), LENGTH), (usage(0, 0), false));
    }

    #[test]
    fn an_unlimited_answer_may_have_the_usual_maximum() {
        assert_eq!((bound(Some(99), 500), bound(None, 500)), (99, UNBOUNDED));
        assert_eq!(bound(None, 50_000), 50_000, "a model that says more than others");
    }
}
