//! The status file: how an agent or a tool reports the outcome of its node in detail.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Status};

/// The content of the file. `outcome` and `status` are synonyms; extra fields are for people.
#[derive(Deserialize)]
struct StatusFile {
    outcome: Option<Status>,
    status: Option<Status>,
    preferred_label: Option<String>,
    /// Some agents write a single label.
    preferred_next_label: Option<String>,
    #[serde(default)]
    suggested_next_ids: Vec<String>,
    #[serde(default)]
    context_updates: BTreeMap<String, Value>,
    notes: Option<String>,
    failure_reason: Option<String>,
}

/// Parses a status file. The error describes the problem.
pub fn read(text: &str) -> Result<Outcome, String> {
    let file: StatusFile =
        serde_json::from_str(text).map_err(|error| format!("the status file is not valid: {error}"))?;
    let status = file.outcome.or(file.status).ok_or("the status file has no `outcome`")?;
    let is_failure = matches!(status, Status::Fail | Status::Retry);
    let failure_reason = file.failure_reason.or_else(|| file.notes.clone().filter(|_| is_failure));
    Ok(Outcome {
        preferred_label: file.preferred_label.or(file.preferred_next_label).filter(|label| !label.is_empty()),
        suggested_next_ids: file.suggested_next_ids,
        context_updates: file.context_updates,
        notes: file.notes,
        failure_reason,
        ..Outcome::of(status)
    })
}

/// The status file for an outcome, in an exported run directory.
pub fn write(outcome: &Outcome) -> Value {
    json!({
        "outcome": outcome.status,
        "status": outcome.status,
        "preferred_label": outcome.preferred_label.clone().unwrap_or_default(),
        "suggested_next_ids": outcome.suggested_next_ids,
        "context_updates": outcome.context_updates,
        "notes": outcome.notes.clone().or_else(|| outcome.failure_reason.clone()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_the_outcome_are_read() {
        for key in ["outcome", "status"] {
            let outcome = read(&format!(r#"{{"{key}": "fail", "notes": "no luck"}}"#)).unwrap();
            assert_eq!(outcome.status, Status::Fail);
            assert_eq!(outcome.failure_reason.as_deref(), Some("no luck"));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut outcome = Outcome::of(Status::PartialSuccess);
        outcome.preferred_label = Some("again".into());
        outcome.suggested_next_ids = vec!["b".into()];
        outcome.context_updates.insert("x".into(), json!(1));
        outcome.notes = Some("half".into());
        assert_eq!(read(&write(&outcome).to_string()).unwrap(), outcome);
    }

    #[test]
    fn a_broken_file_says_why() {
        assert!(read("{").unwrap_err().starts_with("the status file is not valid: "));
        assert_eq!(read("{}").unwrap_err(), "the status file has no `outcome`");
    }
}
