//! How an agent ends.

use os::process::SpawnError;

/// What an agent answers to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReply {
    /// Its last words.
    pub text: String,
    /// Why it ended.
    pub end: End,
}

impl AgentReply {
    /// The last words of an agent, and why they were the last.
    pub fn new(text: String, end: End) -> Self {
        Self { text, end }
    }
}

/// Why an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It says that it is done.
    Done,
    /// It was asked to stop; the job can be resumed.
    Stopped,
    /// It came to a limit, said in words.
    Limit(String),
    /// It says that it is done, but was kept from something it wanted to do, said in words: that is only believed if
    /// files changed.
    Doubtful(String),
}

/// A job without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Worth a retry.
    #[error("{0}")]
    Transient(String),
    /// Not worth a retry.
    #[error("{0}")]
    Terminal(String),
    /// Nothing is wrong with the job: the program cannot be started, the key is refused. It will work once somebody has
    /// seen to that.
    #[error("{0}")]
    Environment(String),
    /// Nobody answered, however often the model was asked. It may work in a while.
    #[error("{0}")]
    Unanswered(String),
    /// Its work was to be repeated from the record, and takes another course.
    #[error("the repeated work takes another course than on record: {0}")]
    Diverged(String),
    /// It took too long.
    #[error("{0}")]
    TimedOut(String),
    /// It was cancelled.
    #[error("the agent was cancelled")]
    Cancelled,
}

impl AgentError {
    /// Whether the agent could not work at all, rather than that the work failed: then it waits for the user.
    /// `attempted`: a model has answered before in an attempt that counts, and its next request may be what no model
    /// can answer.
    pub fn is_stuck(&self, attempted: bool) -> bool {
        match self {
            Self::Environment(_) => true,
            Self::Unanswered(_) => !attempted,
            Self::Transient(_) | Self::Terminal(_) | Self::Diverged(_) | Self::TimedOut(_) | Self::Cancelled => false,
        }
    }

    /// A program that did not run to its end.
    pub(crate) fn of_spawn(error: &SpawnError) -> Self {
        let why = format!("the agent did not run: {error}");
        match error {
            SpawnError::Empty
            | SpawnError::Directory { .. }
            | SpawnError::Program { .. }
            | SpawnError::Supervisor { .. } => Self::Environment(why),
            _ => Self::Terminal(why),
        }
    }
}
