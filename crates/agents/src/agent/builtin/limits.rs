//! How much the built-in agent may do.

use std::time::Duration;

use crate::llm::Provider;

/// The bounds of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltinLimits {
    /// The most model calls for one task; 0 for the default of [`BuiltinLimits::DEFAULT_TURNS`].
    pub max_turns: u32,
    /// The most model calls that ask for tools, for one task; 0 for no limit of its own.
    pub max_tool_rounds: u32,
    /// The most tools one model call may ask for; the others get an error as their answer.
    pub max_calls_per_turn: usize,
    /// How long a shell command may take when the model does not say.
    pub command_timeout: Duration,
    /// How long a shell command may take at most.
    pub max_command_timeout: Duration,
    /// How many tool calls are looked at to find an agent going in circles; 0 to not look.
    pub loop_window: usize,
    /// The model's context in tokens, where it is known.
    pub context_tokens: Option<u64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// How often a call that failed for the moment is tried again.
    pub retries: u32,
    /// The pause before the first of these; it doubles from one to the next.
    pub retry_pause: Duration,
    /// The longest pause a provider may ask for.
    pub max_wait: Duration,
}

impl BuiltinLimits {
    /// Model calls for one task when nothing else is said.
    pub const DEFAULT_TURNS: u32 = 200;

    /// The longest pause the provider has not asked for.
    pub const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

    /// How often half an answer is asked for again: every half is paid for.
    pub const MAX_CUT_RETRIES: u32 = 2;

    /// The defaults for an agent that asks this provider.
    pub fn of(provider: &Provider) -> Self {
        match provider {
            Provider::Remote(remote) => {
                Self { retries: remote.retries(), max_wait: remote.max_wait(), ..Self::default() }
            }
            Provider::Script(_) => Self::default(),
        }
    }

    pub(super) fn turns(&self) -> usize {
        (if self.max_turns == 0 { Self::DEFAULT_TURNS } else { self.max_turns }) as usize
    }

    /// The pause before retry number `nth` (from 1); `jitter` is between 0.5 and 1.5.
    pub(super) fn pause(&self, nth: u32, jitter: f64) -> Duration {
        let doubled = self.retry_pause.saturating_mul(2u32.saturating_pow(nth.saturating_sub(1)));
        doubled.min(Self::MAX_RETRY_PAUSE).mul_f64(jitter)
    }
}

impl Default for BuiltinLimits {
    fn default() -> Self {
        Self {
            max_turns: 0,
            max_tool_rounds: 0,
            max_calls_per_turn: 64,
            command_timeout: Duration::from_secs(10),
            max_command_timeout: Duration::from_secs(600),
            loop_window: 10,
            context_tokens: None,
            max_tokens: None,
            retries: 2,
            retry_pause: Duration::from_secs(1),
            max_wait: Self::MAX_RETRY_PAUSE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let limits = BuiltinLimits::default();
        let pauses: Vec<u64> = (1..=8).map(|nth| limits.pause(nth, 1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(limits.pause(u32::MAX, 1.5).as_secs(), 90);
        assert_eq!(limits.pause(1, 0.5).as_millis(), 500);
    }
}
