//! What a task leaves behind in files: its report and the logs of its steps.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use super::{Counts, RanTest};
use crate::ids::{RepoPath, SessionId, TaskId};

/// How times are written in the names of files.
const STAMP: &str = "%Y%m%dT%H%M%S";

/// What became of a task, for programs that read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportJson {
    /// The task.
    pub task_id: TaskId,
    /// Whether it was completed.
    pub result: TaskResult,
    /// Attempts before the one that decided, within the budget.
    pub retries: u32,
    /// The task's name.
    pub name: String,
    /// All attempts of the budget.
    pub attempts: u32,
    /// Whether a test is behind the result.
    pub tested: bool,
    /// What the last test step counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Counts>,
    /// The session that did the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// When it ended.
    pub finished: Timestamp,
}

/// How a task ended. One that was given up leaves no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskResult {
    /// Complete.
    Pass,
}

impl ReportJson {
    /// The text of the report's file.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a report holds nothing JSON cannot");
        text + "\n"
    }

    /// The report as a record has it.
    pub fn value(&self) -> Value {
        serde_json::to_value(self).expect("a report holds nothing JSON cannot")
    }

    /// The name of the report's file.
    pub fn file(&self) -> String {
        format!("{}_run_{}.json", self.task_id, stamp(self.finished))
    }
}

/// The name of a step's log.
pub fn log_file(task: &TaskId, step: &str, at: Timestamp) -> String {
    format!("{task}_{step}_{}.log", stamp(at))
}

/// Whether a file is a log or a report of pleach's own. Others may be in the same directories.
pub fn is_own(path: &RepoPath, logs: &str, reports: &str) -> bool {
    let Ok(path) = std::str::from_utf8(path.as_bytes()) else { return false };
    let Some((dir, name)) = path.rsplit_once('/') else { return false };
    let stem = match name.rsplit_once('.') {
        Some((stem, "log")) if dir == logs => stem,
        Some((stem, "json")) if dir == reports => stem,
        _ => return false,
    };
    // Two that end in the same second are distinguished by a number.
    let numbered = stem.rsplit_once('-').filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()));
    let stem = numbered.map_or(stem, |(stem, _)| stem);
    stem.rsplit_once('_').is_some_and(|(_, stamp)| strtime::parse(STAMP, stamp).is_ok())
}

/// A log: each stream whole, below a line that names it.
pub fn log<'a>(sections: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut log = String::new();
    for (title, text) in sections {
        log.push_str(&format!("=== {title} ===\n{text}"));
        if !text.is_empty() && !text.ends_with('\n') {
            log.push('\n');
        }
    }
    log
}

/// The streams of a log, each with the line that names it. Text that is no log is one without.
pub fn streams(log: &str) -> Vec<(&str, &str)> {
    let is_heading = |line: &str| {
        let title = line.trim_end().strip_prefix("=== ").and_then(|line| line.strip_suffix(" ==="));
        let words: Vec<&str> = title.map(|title| title.split(' ').collect()).unwrap_or_default();
        matches!(words[..], ["stdout" | "stderr"] | [_, "stdout" | "stderr"])
    };
    let mut streams = Vec::new();
    let (mut heading, mut from, mut at) = (0..0, 0, 0);
    for line in log.split_inclusive('\n') {
        if is_heading(line) {
            streams.push((&log[heading], &log[from..at]));
            (heading, from) = (at..at + line.len(), at + line.len());
        }
        at += line.len();
    }
    streams.push((&log[heading], &log[from..]));
    streams.retain(|(heading, text)| !heading.is_empty() || !text.is_empty());
    streams
}

/// The log of a test step: what every command said, in order.
pub fn test_log(ran: &[RanTest]) -> String {
    let titled = |test: &RanTest| ["stdout", "stderr"].map(|stream| format!("{} {stream}", test.kind));
    let titles: Vec<[String; 2]> = ran.iter().map(titled).collect();
    log(ran
        .iter()
        .zip(&titles)
        .flat_map(|(test, [out, err])| [(out.as_str(), test.stdout.as_str()), (err.as_str(), test.stderr.as_str())]))
}

/// A time in a file's name: UTC, to the second.
fn stamp(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime(STAMP).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskId {
        TaskId::new("T001").unwrap()
    }

    #[test]
    fn a_report_begins_as_the_original_wrote_it() {
        let report = ReportJson {
            task_id: task(),
            result: TaskResult::Pass,
            retries: 2,
            name: "Create \"schema\"".to_owned(),
            attempts: 3,
            tested: true,
            tests: Some(Counts { passed: 15, failed: 0, skipped: 1 }),
            session: None,
            finished: "2025-02-16T14:31:30.5Z".parse().unwrap(),
        };
        assert_eq!(report.file(), "T001_run_20250216T143130.json");
        let expected = r#"{
  "task_id": "T001",
  "result": "pass",
  "retries": 2,
  "name": "Create \"schema\"",
  "attempts": 3,
  "tested": true,
  "tests": {
    "passed": 15,
    "failed": 0,
    "skipped": 1
  },
  "finished": "2025-02-16T14:31:30.5Z"
}
"#;
        assert_eq!(report.json(), expected);
    }

    #[test]
    fn a_log_holds_every_stream_whole() {
        let log =
            log([("unit stdout", "1 passed\n"), ("unit stderr", ""), ("e2e stdout", "no end"), ("e2e stderr", "x\n")]);
        let expected =
            "=== unit stdout ===\n1 passed\n=== unit stderr ===\n=== e2e stdout ===\nno end\n=== e2e stderr ===\nx\n";
        assert_eq!(log, expected);
        let streams = streams(&log);
        assert_eq!(streams[2], ("=== e2e stdout ===\n", "no end\n"));
        assert_eq!(streams.iter().map(|(heading, text)| format!("{heading}{text}")).collect::<String>(), log);
        assert_eq!(super::streams("=== 2 failed ===\n"), [("", "=== 2 failed ===\n")]);
        let at = "2025-02-16T14:30:22Z".parse().unwrap();
        assert_eq!(log_file(&task(), "test", at), "T001_test_20250216T143022.log");
    }

    #[test]
    fn own_files_are_distinguished_from_others() {
        let own = |path: &str| is_own(&RepoPath::from(path), "spec/logs", "reports");
        let at = "2025-02-16T14:30:22Z".parse().unwrap();
        assert!(own(&format!("spec/logs/{}", log_file(&task(), "test", at))));
        assert!(own("spec/logs/T_1.a_lint-more_20250216T143022-2.log"));
        assert!(own("reports/T001_run_20250216T143130.json"));
        for other in ["spec/logs/server.log", "reports/weekly.py", "reports/a_20250216.json", "reports/x.json", "a"] {
            assert!(!own(other), "{other}");
        }
        assert!(!own("logs/T001_test_20250216T143022.log"), "elsewhere");
    }
}
