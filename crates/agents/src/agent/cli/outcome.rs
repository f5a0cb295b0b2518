//! How a run of an agent went: what it says itself, then how it ended. Whether files changed is known elsewhere.

use std::collections::BTreeMap;

use super::parser::{AgentFailure, AgentFailureKind, Claim};
use super::transcript::Transcript;
use crate::agent::{AgentError, End};
use crate::llm::LlmError;
use os::process::{Exit, Output};
use pleach_core::text::last_words;

/// How much of a program's complaint goes into the message.
const COMPLAINT: usize = 2_000;

/// The exit code by which a program says that it may work another time (`EX_TEMPFAIL`).
const TRY_AGAIN: i32 = 75;

/// How one run of the program went.
pub(super) struct ProgramRun {
    pub output: Output,
    pub transcript: Transcript,
    pub stopped: bool,
    /// Why it has not done its work, whatever it says.
    pub undone: Option<AgentError>,
    /// Why it was ended before it was done, where its calls could not continue.
    pub given_up: Option<AgentError>,
    /// Why its model's newest call has no answer, where that is known.
    pub unanswered: Option<LlmError>,
}

/// What is known of a run that ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedRun<'a> {
    /// The program.
    pub program: &'a str,
    /// How it ended.
    pub exit: Exit,
    /// What it claims.
    pub claim: Option<&'a Claim>,
    /// Whether its output could have held a claim.
    pub speaks: bool,
    /// The tools it was not allowed to use.
    pub denied: &'a [String],
    /// The last thing it complained about.
    pub complaint: Option<&'a str>,
    /// What it wrote to standard error.
    pub stderr: &'a str,
    /// What some exit codes mean.
    pub exits: &'a BTreeMap<i32, String>,
    /// It was ended because the run stops here.
    pub stopped: bool,
}

impl EndedRun<'_> {
    /// How it went.
    pub fn judge(&self) -> Result<End, AgentError> {
        match self.exit {
            // Some end by themselves, and complain, before they are ended.
            _ if self.stopped => return Ok(End::Stopped),
            Exit::Cancelled => return Err(AgentError::Cancelled),
            Exit::TimedOut(_) => return Err(AgentError::TimedOut(self.describe(None))),
            Exit::Code(_) | Exit::Signal(_) => {}
        }
        match self.claim {
            Some(Claim { failure: Some(failing), .. }) => self.failed(failing),
            Some(Claim { failure: None, .. }) if self.denied.is_empty() => Ok(End::Done),
            Some(Claim { failure: None, .. }) => Ok(End::Doubtful(self.was_denied())),
            None => self.without_claim(),
        }
    }

    fn failed(&self, failing: &AgentFailure) -> Result<End, AgentError> {
        let why = format!("agent `{}` failed: {}", self.program, last_words(failing.why.trim(), COMPLAINT));
        match failing.kind {
            AgentFailureKind::Transient => Err(AgentError::Transient(why)),
            AgentFailureKind::Terminal => Err(AgentError::Terminal(why)),
            AgentFailureKind::Refused => Err(AgentError::Environment(why)),
            AgentFailureKind::Limit => {
                Ok(End::Limit(format!("agent `{}` stopped: {}", self.program, failing.why.trim())))
            }
        }
    }

    fn without_claim(&self) -> Result<End, AgentError> {
        if let Some(meaning) = self.exit.code().and_then(|code| self.exits.get(&code)) {
            return Err(AgentError::Terminal(self.describe(Some(meaning))));
        }
        let by_complaint = || match self.complaint.map(|said| AgentFailure::of(said, None).kind) {
            Some(AgentFailureKind::Terminal) | None => AgentError::Terminal(self.describe(None)),
            Some(AgentFailureKind::Refused) => AgentError::Environment(self.describe(None)),
            Some(_) => AgentError::Transient(self.describe(None)),
        };
        match self.exit {
            Exit::Code(0) if !self.speaks => Ok(End::Done),
            // All of them can exit with 0 having done nothing, so the word alone is not enough.
            Exit::Code(0) => Err(AgentError::Transient(format!(
                "agent `{}` ended without reporting a result{}",
                self.program,
                self.colon(None)
            ))),
            // Whoever is killed has not given up.
            Exit::Code(TRY_AGAIN) | Exit::Signal(_) => Err(AgentError::Transient(self.describe(None))),
            _ => Err(by_complaint()),
        }
    }

    fn was_denied(&self) -> String {
        let mut tools: Vec<&str> = self.denied.iter().map(String::as_str).collect();
        tools.sort_unstable();
        tools.dedup();
        let tools: Vec<String> = tools.into_iter().map(|tool| format!("`{tool}`")).collect();
        format!("agent `{}` was not allowed to use {}", self.program, tools.join(", "))
    }

    fn describe(&self, meaning: Option<&str>) -> String {
        format!("agent `{}` {}{}", self.program, self.exit.sentence(), self.colon(meaning))
    }

    /// What it said about it, behind a colon.
    fn colon(&self, meaning: Option<&str>) -> String {
        let said = meaning.or(self.complaint).filter(|said| !said.trim().is_empty()).unwrap_or(self.stderr);
        let said = last_words(said.trim(), COMPLAINT);
        if said.is_empty() { String::new() } else { format!(": {said}") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use os::process::Timeout;

    fn judge(exit: Exit, claim: Option<Claim>, denied: &[&str], complaint: Option<&str>) -> Result<End, AgentError> {
        let denied: Vec<String> = denied.iter().map(|tool| (*tool).to_owned()).collect();
        let exits = BTreeMap::from([(41, "it has no key".to_owned())]);
        let stderr = "on stderr";
        EndedRun {
            program: "x",
            exit,
            claim: claim.as_ref(),
            speaks: true,
            denied: &denied,
            complaint,
            stderr,
            exits: &exits,
            stopped: false,
        }
        .judge()
    }

    fn claim(failure: Option<(&str, AgentFailureKind)>) -> Option<Claim> {
        let failure = failure.map(|(why, kind)| AgentFailure { why: why.into(), kind });
        Some(Claim { text: "said".into(), failure })
    }

    #[test]
    fn the_agents_own_result_counts_first() {
        assert_eq!(judge(Exit::Code(0), claim(None), &[], None), Ok(End::Done));
        assert_eq!(judge(Exit::Code(1), claim(None), &[], None), Ok(End::Done));
        let cut = claim(Some(("cut off", AgentFailureKind::Transient)));
        assert_eq!(
            judge(Exit::Code(0), cut, &[], None),
            Err(AgentError::Transient("agent `x` failed: cut off".into()))
        );
        let limit = claim(Some(("too many turns", AgentFailureKind::Limit)));
        assert_eq!(judge(Exit::Code(1), limit, &[], None), Ok(End::Limit("agent `x` stopped: too many turns".into())));
    }

    #[test]
    fn a_success_with_denied_tools_is_doubted() {
        assert_eq!(
            judge(Exit::Code(0), claim(None), &["Write", "Bash", "Write"], None),
            Ok(End::Doubtful("agent `x` was not allowed to use `Bash`, `Write`".into()))
        );
    }

    #[test]
    fn without_a_result_the_exit_code_counts() {
        let terminal = |why: &str| Err(AgentError::Terminal(why.into()));
        let transient = |why: &str| Err(AgentError::Transient(why.into()));
        assert_eq!(
            judge(Exit::Code(0), None, &[], None),
            transient("agent `x` ended without reporting a result: on stderr")
        );
        assert_eq!(judge(Exit::Code(41), None, &[], None), terminal("agent `x` ended with exit 41: it has no key"));
        assert_eq!(judge(Exit::Code(2), None, &[], None), terminal("agent `x` ended with exit 2: on stderr"));
        assert_eq!(
            judge(Exit::Code(1), None, &[], Some("status 503")),
            transient("agent `x` ended with exit 1: status 503")
        );
        assert_eq!(
            judge(Exit::Code(1), None, &[], Some("status 401")),
            Err(AgentError::Environment("agent `x` ended with exit 1: status 401".into()))
        );
        assert_eq!(judge(Exit::Signal(9), None, &[], None), transient("agent `x` ended with signal 9: on stderr"));
        assert_eq!(judge(Exit::Cancelled, claim(None), &[], None), Err(AgentError::Cancelled));
        let late = Exit::TimedOut(Timeout::Wall(Duration::from_secs(5)));
        assert!(matches!(judge(late, None, &[], None), Err(AgentError::TimedOut(_))));
    }
}
