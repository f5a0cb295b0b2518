//! Calls in a row that ended without a complete answer.

use crate::llm::LlmError;

/// So many calls in a row may fail in the ordinary course of things: what they cost goes with the turn they end in.
/// Each one more is accounted for at once.
pub const FEW: u32 = 3;

/// What becomes of a call that the gateway itself refuses, in a few words.
pub(super) const NOT_FORWARDED: &str = "the call is not forwarded";

/// Calls that ended without a complete answer, since one in a conversation had it.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls {
    /// How many.
    pub calls: u32,
    /// How many of them were side calls. A complete answer there says nothing of those in them: a program whose titles
    /// come has not got on with its work.
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
