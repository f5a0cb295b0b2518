//! Output that is read as it comes, because the middle of a long one is not kept.

use super::failing_tests::FailingTests;
use super::{Counting, plain};
use crate::redact::Redactor;
use crate::step::Counts;

/// A longer line is none that a framework writes.
const LONGEST: usize = 64 * 1024;

/// The test results in one stream of a test command.
#[derive(Debug, Clone)]
pub struct TestOutput {
    /// The line that has not ended yet.
    line: Vec<u8>,
    counting: Counting,
    failing: FailingTests,
    redactor: Redactor,
}

impl TestOutput {
    /// Nothing yet, of a command that prints what this framework does.
    pub fn new(framework: Option<&str>, redactor: &Redactor) -> Self {
        Self {
            line: Vec::new(),
            counting: Counting::new(framework),
            failing: FailingTests::default(),
            redactor: redactor.clone(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).peekable();
        while let Some(part) = parts.next() {
            // One byte more than is read tells that it is too long.
            let room = (LONGEST + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if parts.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if (1..=LONGEST).contains(&self.line.len()) {
            let line = String::from_utf8_lossy(&self.line);
            let line = plain(&line);
            self.counting.line(&line);
            self.failing.line(&line, &|name| self.redactor.text(name).into_owned());
        }
        self.line.clear();
    }

    /// How many tests two streams of a command report, and the names of those that failed, without secrets.
    pub fn summarize([mut stdout, mut stderr]: [Self; 2]) -> (Option<Counts>, Vec<String>) {
        stdout.end_line();
        stderr.end_line();
        let mut names = stdout.failing.names;
        names.extend(stderr.failing.names);
        (stdout.counting.with(&stderr.counting), names)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::step::counts::failing_tests::failing;

    fn heard(framework: Option<&str>, chunks: &[&[u8]]) -> (Option<Counts>, Vec<String>) {
        let redactor = Redactor::new([("API_TOKEN", "hunter2-hunter2")]);
        let [mut stdout, stderr] = [0; 2].map(|_| TestOutput::new(framework, &redactor));
        chunks.iter().for_each(|chunk| stdout.push(chunk));
        TestOutput::summarize([stdout, stderr])
    }

    #[test]
    fn lines_are_read_wherever_they_are_cut() {
        let output = b"noise\r\n--- FAIL: TestA (0.00s)\n\x1b[31m--- FAIL: T\xc3\xa4 (0.1s)\x1b[0m\rok  \tx\t0.1s\nFAIL\tb [build failed]";
        let counts = Some(Counts { passed: 0, failed: 3, skipped: 0 });
        for size in 1..output.len() {
            let chunks: Vec<&[u8]> = output.chunks(size).collect();
            let names = ["TestA", "T\u{e4}", "b"].map(str::to_owned).to_vec();
            assert_eq!(heard(Some("go"), &chunks), (counts, names), "{size}");
        }
    }

    #[test]
    fn an_endless_line_is_skipped_and_reading_continues() {
        let long = [b"--- FAIL: ".as_slice(), &[b'x'; 2 * LONGEST], b"\n--- FAIL: TestB (0s)\n"];
        let (counts, names) = heard(None, &long);
        assert_eq!((counts.map(|counts| counts.failed), names), (Some(1), vec!["TestB".to_owned()]));
    }

    #[test]
    fn both_streams_count_and_names_hold_no_secret() {
        let redactor = Redactor::new([("API_TOKEN", "hunter2-hunter2")]);
        let [mut stdout, mut stderr] = [0; 2].map(|_| TestOutput::new(None, &redactor));
        stdout.push(b"test result: FAILED. 1 passed; 1 failed; 0 ignored\n");
        stderr.push(format!("test {}hunter2-hunter2 ... FAILED\n", "a".repeat(190)).as_bytes());
        stderr.push(b"test result: ok. 2 passed; 0 failed; 0 ignored");
        let (counts, names) = TestOutput::summarize([stdout, stderr]);
        assert_eq!(counts, Some(Counts { passed: 3, failed: 1, skipped: 0 }));
        assert!(names.len() == 1 && !names[0].contains("hunter2"), "{names:?}");
    }

    proptest! {
        #[test]
        fn streamed_counts_match_counts_of_the_whole(lines in prop::collection::vec(prop_oneof![
            Just("--- FAIL: TestA (0.0s)".to_owned()),
            Just("FAILED t.py::test_x - no".to_owned()),
            Just("== 1 failed, 2 passed in 0.1s ==".to_owned()),
            "[ -~]{0,20}",
        ], 0..12), size in 1_usize..40) {
            let text = lines.join("\n");
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(heard(None, &chunks).1, failing(&text));
        }
    }
}
