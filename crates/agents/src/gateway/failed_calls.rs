//! Calls in a row that ended without a complete answer.

use crate::llm::LlmError;

/// How many calls in a row may fail as a matter of course: their cost is reported with the turn they end in. That of
/// each one more is reported at once.
pub const FEW: u32 = 3;

/// What becomes of a call that the gateway itself refuses, in a few words.
pub(super) const NOT_FORWARDED: &str = "the call is not forwarded";

/// Calls without a complete answer since the last one with it in a conversation.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls {
    /// How many.
    pub calls: u32,
    /// How many of them were side calls. A complete answer to one of them leaves the others counted: a program that
    /// gets its titles has not made progress.
    beside: u32,
    /// What the provider does, in two or three words.
    pub words: String,
    /// Why the newest of them has no answer.
    pub why: Option<LlmError>,
}

impl FailedCalls {
    /// One more.
    pub(super) fn fail(&mut self, in_conversation: bool, words: String, why: LlmError) {
        let (calls, beside) = (self.calls + 1, self.beside + u32::from(!in_conversation));
        *self = Self { calls, beside, words, why: Some(why) };
    }

    /// A call had a complete answer. True if that changes the count.
    pub(super) fn succeed(&mut self, in_conversation: bool) -> bool {
        let before = self.calls;
        if in_conversation {
            *self = Self::default()
        } else {
            self.calls -= std::mem::take(&mut self.beside)
        }
        self.calls != before
    }
}
