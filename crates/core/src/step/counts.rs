//! Results in the output of a test command: how many tests passed, and the names of those that failed.
//!
//! Every reader sees the output once, line by line, while it comes, and believes only the lines a framework writes itself.
//! Where a command runs several test programs, their numbers are added up.

mod failing_tests;
mod test_output;

use std::borrow::Cow;

use super::Counts;

pub use failing_tests::failing;
pub use test_output::TestOutput;

impl Counts {
    /// The sum of two runs.
    pub fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed.saturating_add(other.passed),
            failed: self.failed.saturating_add(other.failed),
            skipped: self.skipped.saturating_add(other.skipped),
        }
    }
}

/// What a line of a framework's summary says.
type SummaryParser = fn(&str) -> Option<Counts>;

/// The readers of single lines, the most unmistakable first; after them come those of several.
const READERS: [(&str, SummaryParser); 4] =
    [("cargo", cargo), ("nextest", nextest), ("pytest", pytest), ("jest", jest)];

/// Counts while lines come, by all readers that are asked for.
#[derive(Debug, Clone)]
struct Counting {
    /// Whose lines count; none named means everybody's.
    names: &'static [&'static str],
    found: [Option<Counts>; READERS.len()],
    unittest: Unittest,
    go: Go,
}

impl Counting {
    /// A framework that is not known, or not named, is looked for.
    fn new(framework: Option<&str>) -> Self {
        let names = framework.map_or(&[][..], readers);
        Self { names, found: [None; READERS.len()], unittest: Unittest::default(), go: Go::default() }
    }

    fn line(&mut self, line: &str) {
        let is_asked = |name: &str| self.names.is_empty() || self.names.contains(&name);
        for ((name, read), found) in READERS.iter().zip(&mut self.found) {
            if is_asked(name) {
                *found = added(*found, read(line));
            }
        }
        if is_asked("unittest") {
            self.unittest.line(line);
        }
        if is_asked("go") {
            self.go.line(line);
        }
    }

    /// The counts of two streams by the first reader that has found something in either.
    fn with(self, other: &Self) -> Option<Counts> {
        let both = self.found.into_iter().zip(other.found).map(|(one, two)| added(one, two));
        let several = [added(self.unittest.found, other.unittest.found), added(self.go.found(), other.go.found())];
        both.chain(several).flatten().next()
    }
}

fn added(one: Option<Counts>, two: Option<Counts>) -> Option<Counts> {
    [one, two].into_iter().flatten().reduce(Counts::plus)
}

/// The readers for a framework as a tree names it; none when it is not known.
fn readers(framework: &str) -> &'static [&'static str] {
    let name = framework.to_ascii_lowercase();
    let first = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    match first {
        _ if name.contains("nextest") => &["nextest"],
        _ if name.contains("pytest") => &["pytest"],
        _ if name.contains("unittest") => &["unittest"],
        _ if name.contains("jest") || name.contains("vitest") => &["jest"],
        "cargo" | "rust" => &["cargo", "nextest"],
        "go" | "gotest" | "golang" => &["go"],
        _ => &[],
    }
}

/// The lines of an output as a terminal would show their text. A carriage return ends a line as well: what progress
/// displays write over must not hide what follows it.
pub(super) fn lines(output: &str) -> impl Iterator<Item = Cow<'_, str>> {
    output.split(['\n', '\r']).filter(|line| !line.is_empty()).map(plain)
}

/// A line without the control sequences that colour it.
fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains(['\u{1b}', '\u{9b}']) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{9b}' => skip_sequence(&mut chars),
            '\u{1b}' => match chars.next() {
                Some('[') => skip_sequence(&mut chars),
                Some(']') => skip_command(&mut chars),
                Some('(' | ')') => drop(chars.next()),
                _ => {}
            },
            _ => text.push(c),
        }
    }
    Cow::Owned(text)
}

/// Goes past the parameters of a control sequence and the letter that ends it.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
}

/// Goes past a command to the terminal, such as the target of a link.
fn skip_command(chars: &mut std::str::Chars<'_>) {
    while let Some(c) = chars.next() {
        let ends = c == '\u{7}' || c == '\u{1b}' && chars.next() == Some('\\');
        if ends {
            return;
        }
    }
}

fn add(count: &mut u64, number: u64) {
    *count = count.saturating_add(number);
}

/// `12` and `passed` of the part `12 passed`; what follows the number may be several words.
fn part(text: &str) -> Option<(u64, &str)> {
    let (number, word) = text.trim().split_once(' ')?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| number.parse().ok())?.map(|number| (number, word.trim()))
}

/// `test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s`, one line for each
/// test program.
fn cargo(line: &str) -> Option<Counts> {
    let (_, parts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    let mut found = false;
    for (number, word) in parts.split(';').filter_map(part) {
        found |= word == "passed";
        match word {
            "passed" => add(&mut counts.passed, number),
            "failed" => add(&mut counts.failed, number),
            "ignored" => add(&mut counts.skipped, number),
            _ => {}
        }
    }
    found.then_some(counts)
}

/// `Summary [   0.123s] 8/9 tests run: 5 passed (1 slow), 2 failed, 1 timed out, 3 skipped`.
fn nextest(line: &str) -> Option<Counts> {
    let (_, rest) = line.trim_start().strip_prefix("Summary [")?.split_once(']')?;
    let (head, parts) = rest.split_once(" run: ")?;
    if !head.ends_with(" test") && !head.ends_with(" tests") {
        return None;
    }
    let mut counts = Counts::default();
    for (number, word) in without_brackets(parts).split(',').filter_map(part) {
        match word {
            "passed" => add(&mut counts.passed, number),
            "skipped" => add(&mut counts.skipped, number),
            _ => add(&mut counts.failed, number),
        }
    }
    Some(counts)
}

/// Leaves out what is in round brackets, commas included.
fn without_brackets(text: &str) -> String {
    let mut depth = 0_usize;
    let mut outside = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => outside.push(c),
            _ => {}
        }
    }
    outside
}

/// `=== 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 error in 0.12s ===`, without the rule when it is told to be quiet.
/// What was expected to fail and did counts as skipped, as in the reports pytest writes for other programs.
fn pytest(line: &str) -> Option<Counts> {
    let (parts, time) = line.trim_matches(|c: char| c == '=' || c.is_whitespace()).rsplit_once(" in ")?;
    let seconds = time.split_once('s').and_then(|(seconds, _)| seconds.parse::<f64>().ok());
    seconds.filter(|seconds| seconds.is_finite())?;
    if parts == "no tests ran" {
        return Some(Counts::default());
    }
    let mut counts = Counts::default();
    for text in parts.split(',') {
        let (number, word) = part(text)?;
        match word {
            "passed" | "xpassed" => add(&mut counts.passed, number),
            "failed" | "error" | "errors" => add(&mut counts.failed, number),
            "skipped" | "xfailed" => add(&mut counts.skipped, number),
            "deselected" | "warning" | "warnings" | "rerun" | "subtests passed" => {}
            _ => return None,
        }
    }
    Some(counts)
}

/// jest's `Tests:       1 failed, 2 skipped, 3 passed, 6 total` and vitest's ` Tests  1 failed | 3 passed (4)`.
fn jest(line: &str) -> Option<Counts> {
    let at = line.rfind("Tests").filter(|at| line[..*at].chars().next_back().is_none_or(char::is_whitespace))?;
    let rest = &line[at + "Tests".len()..];
    let (separator, parts) = match rest.strip_prefix(':') {
        Some(parts) => (',', parts.trim().strip_suffix(" total")?.rsplit_once([' ', ',']).map_or("", |(head, _)| head)),
        None if rest.starts_with("  ") => ('|', rest.trim().strip_suffix(')')?.rsplit_once(" (")?.0),
        None => return None,
    };
    let mut counts = Counts::default();
    for text in parts.split(separator).filter(|text| !text.trim().is_empty()) {
        let (number, word) = part(text)?;
        match word {
            "passed" | "expected fail" => add(&mut counts.passed, number),
            "failed" => add(&mut counts.failed, number),
            "skipped" | "todo" => add(&mut counts.skipped, number),
            _ => return None,
        }
    }
    Some(counts)
}

/// `Ran 15 tests in 0.003s` of Python's unittest, and what comes of them below: `OK`, `OK (skipped=2)` or
/// `FAILED (failures=1, errors=2, expected failures=1)`. What was expected to fail and did counts as skipped.
#[derive(Debug, Clone, Default)]
struct Unittest {
    /// How many ran, until their results are known.
    ran: Option<u64>,
    found: Option<Counts>,
}

impl Unittest {
    fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some((ran, time)) = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" in ")) {
            let ran = part(ran).filter(|(_, word)| matches!(*word, "test" | "tests"));
            let seconds = time.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok());
            self.ran = ran.zip(seconds).map(|((number, _), _)| number);
            return;
        }
        let (word, parts) = line.split_once(" (").unwrap_or((line, ""));
        if !matches!(word, "OK" | "FAILED" | "NO TESTS RAN") {
            return;
        }
        let Some(ran) = self.ran.take() else { return };
        let mut counts = Counts::default();
        for text in parts.trim_end_matches(')').split(", ") {
            let Some((what, number)) =
                text.split_once('=').and_then(|(what, number)| Some((what, number.parse().ok()?)))
            else {
                continue;
            };
            match what {
                "failures" | "errors" | "unexpected successes" => add(&mut counts.failed, number),
                "skipped" | "expected failures" => add(&mut counts.skipped, number),
                _ => {}
            }
        }
        counts.passed = ran.saturating_sub(counts.failed).saturating_sub(counts.skipped);
        self.found = added(self.found, Some(counts));
    }
}

/// `--- PASS: TestA (0.00s)` for each test and subtest go reports; a package of which it tells nothing more than `ok`
/// or `FAIL` counts as one.
#[derive(Debug, Clone, Default)]
struct Go {
    counts: Counts,
    has_found: bool,
    /// Whether tests of the package were reported, and failures among them.
    reported: bool,
    failures: bool,
}

impl Go {
    fn line(&mut self, line: &str) {
        let counts = &mut self.counts;
        if let Some(result) = line.trim_start().strip_prefix("--- ") {
            let field = match result.split(' ').next() {
                Some("PASS:") => &mut counts.passed,
                Some("FAIL:") => &mut counts.failed,
                Some("SKIP:") => &mut counts.skipped,
                _ => return,
            };
            add(field, 1);
            self.reported = true;
            self.failures |= result.starts_with("FAIL:");
            self.has_found = true;
            return;
        }
        if let Some(rest) = package(line, "ok") {
            add(&mut counts.passed, u64::from(!self.reported && !rest.contains("[no tests to run]")));
        } else if package(line, "FAIL").is_some() {
            add(&mut counts.failed, u64::from(!self.failures));
        } else {
            return;
        }
        self.has_found = true;
        (self.reported, self.failures) = (false, false);
    }

    fn found(&self) -> Option<Counts> {
        self.has_found.then_some(self.counts)
    }
}

/// What follows the result of a package, which go sets apart by a tab.
fn package<'l>(line: &'l str, result: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(result)?.trim_start_matches(' ');
    rest.strip_prefix('\t').filter(|rest| !rest.trim().is_empty())
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn parse(framework: Option<&str>, output: &str) -> Option<Counts> {
        let mut counting = Counting::new(framework);
        lines(output).for_each(|line| counting.line(&line));
        counting.with(&Counting::new(framework))
    }

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    /// Reads an output as its framework's and as that of an unknown one.
    fn check(framework: &str, output: &str, expected: Option<Counts>) {
        assert_eq!(parse(Some(framework), output), expected, "{framework}: {output}");
        assert_eq!(parse(None, output), expected, "no framework named: {output}");
        assert_eq!(parse(Some("make"), output), expected, "unknown framework: {output}");
        let crlf = output.replace('\n', "\r\n");
        assert_eq!(parse(Some(framework), &crlf), expected, "CRLF: {output}");
    }

    #[test]
    fn pytest_sums_up_in_its_last_line() {
        let output = "\
============================= test session starts ==============================
platform linux -- Python 3.12.3, pytest-8.2.0, pluggy-1.5.0
rootdir: /src
collected 7 items

tests/test_a.py ..Fsx                                                    [ 71%]
tests/test_b.py EX                                                       [100%]

=================================== FAILURES ===================================
___________________________________ test_sum ___________________________________
>       assert 1 + 1 == 3
E       assert (1 + 1) == 3
tests/test_a.py:9: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_sum - assert (1 + 1) == 3
ERROR tests/test_b.py::test_db - RuntimeError: no database
==== 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed, 3 warnings, 1 error in 0.12s ====
";
        check("pytest", output, counts(3, 2, 2));
    }

    #[test]
    fn pytest_is_read_when_quiet_coloured_or_slow() {
        check("pytest", "....                                [100%]\n4 passed in 0.01s\n", counts(4, 0, 0));
        check("pytest", "===== 5 passed, 2 deselected in 75.31s (0:01:15) =====\n", counts(5, 0, 0));
        check("pytest", "===== no tests ran in 0.00s =====\n", counts(0, 0, 0));
        check("pytest", "=== 2 errors in 0.20s ===", counts(0, 2, 0));
        let coloured = "\u{1b}[31m===== \u{1b}[31m\u{1b}[1m1 failed\u{1b}[0m, \u{1b}[32m3 passed\u{1b}[0m\
                        \u{1b}[31m in 0.05s\u{1b}[0m\u{1b}[31m =====\u{1b}[0m\n";
        check("pytest", coloured, counts(3, 1, 0));
        check("pytest", "== 1 passed in 0.1s ==\n== 2 passed, 1 failed in 0.2s ==\n", counts(3, 1, 0));
    }

    #[test]
    fn unittest_reports_how_many_ran_and_their_results() {
        let rule = "-".repeat(70);
        let output = |ran: &str, end: &str| format!("...F\n{rule}\nRan {ran} in 0.003s\n\n{end}\n");
        check("unittest", &output("15 tests", "OK"), counts(15, 0, 0));
        check("unittest", &output("1 test", "OK"), counts(1, 0, 0));
        check("unittest", &output("15 tests", "OK (skipped=2, expected failures=1)"), counts(12, 0, 3));
        let failed = "FAILED (failures=1, errors=2, skipped=1, unexpected successes=1)";
        check("unittest", &output("15 tests", failed), counts(10, 4, 1));
        check("unittest", &output("0 tests", "NO TESTS RAN"), counts(0, 0, 0));
        check("unittest", &(output("3 tests", "OK") + &output("2 tests", "FAILED (failures=2)")), counts(3, 2, 0));
        check("unittest", "Ran 3 tests in 0.1s\n", None);
        check("unittest", "OK\n", None);
    }

    #[test]
    fn jest_is_read_in_any_order_of_its_parts() {
        let output = "\
FAIL src/sum.test.js
  \u{25cf} sums \u{203a} adds

    expect(received).toBe(expected)

Test Suites: 1 failed, 2 passed, 3 total
Tests:       1 failed, 2 skipped, 1 todo, 9 passed, 13 total
Snapshots:   1 passed, 1 total
Time:        1.234 s
Ran all test suites.
";
        check("jest", output, counts(9, 1, 3));
        check("jest", "Tests:       9 passed, 1 failed, 10 total\n", counts(9, 1, 0));
        check("jest", "Tests:       0 total\n", counts(0, 0, 0));
        check("jest", "web:test: Tests:       2 passed, 2 total\n", counts(2, 0, 0));
        let bold = "\u{1b}[1mTests:       \u{1b}[22m\u{1b}[1m\u{1b}[31m1 failed\u{1b}[39m\u{1b}[22m, \
                    \u{1b}[1m\u{1b}[32m4 passed\u{1b}[39m\u{1b}[22m, 5 total\n";
        check("jest", bold, counts(4, 1, 0));
    }

    #[test]
    fn vitest_separates_its_parts_by_bars() {
        let output = "
 \u{276f} src/sum.test.ts (3 tests | 1 failed) 8ms
   \u{d7} sums > adds 5ms

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 4 passed | 2 skipped | 1 todo (8)
   Start at  10:20:30
   Duration  321ms (transform 40ms, setup 0ms, collect 30ms, tests 8ms)
";
        check("vitest", output, counts(4, 1, 3));
        check("vitest", "      Tests  4 passed (4)\n", counts(4, 0, 0));
        let coloured = "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[31m2 failed\u{1b}[39m\u{1b}[22m\u{1b}[2m | \
                        \u{1b}[22m\u{1b}[1m\u{1b}[32m3 passed\u{1b}[39m\u{1b}[22m\u{1b}[90m (5)\u{1b}[39m\n";
        check("vitest", coloured, counts(3, 2, 0));
    }

    #[test]
    fn go_counts_tests_and_silent_packages() {
        let verbose = "\
=== RUN   TestAdd
--- PASS: TestAdd (0.00s)
=== RUN   TestTable
=== RUN   TestTable/empty
    --- PASS: TestTable/empty (0.00s)
    --- FAIL: TestTable/full (0.00s)
--- FAIL: TestTable (0.00s)
    --- SKIP: TestSlow (0.00s)
FAIL
FAIL\texample.com/a\t0.003s
ok  \texample.com/b\t0.002s
?   \texample.com/c\t[no test files]
ok  \texample.com/d\t0.001s [no tests to run]
FAIL\texample.com/e [build failed]
FAIL
";
        check("go", verbose, counts(3, 3, 1));
        let plain = "ok  \texample.com/a\t(cached)\nok  \texample.com/b\t0.1s\tcoverage: 80.0% of statements\n";
        check("go test", plain, counts(2, 0, 0));
        let failed = "--- FAIL: TestA (0.00s)\n    a_test.go:5: no\nFAIL\nFAIL\texample.com/a\t0.1s\nFAIL\n";
        check("go", failed, counts(0, 1, 0));
        let panicked = "--- PASS: TestA (0.00s)\npanic: boom\n\ngoroutine 1 [running]:\nFAIL\texample.com/a\t0.1s\n";
        check("go", panicked, counts(1, 1, 0));
    }

    #[test]
    fn cargo_is_summed_over_its_programs() {
        let output = "
running 3 tests
test a::works ... ok
test a::fails ... FAILED
test a::later ... ignored

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-0123456789abcdef)

running 2 tests
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s

   Doc-tests x

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        check("cargo", output, counts(3, 1, 1));
        let coloured = "test result: \u{1b}[32mok\u{1b}[m. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        check("cargo test", coloured, counts(4, 0, 0));
    }

    #[test]
    fn nextest_sums_up_in_one_line() {
        let output = "
        PASS [   0.004s] x::it works
     TIMEOUT [  10.010s] x::it hangs
        FAIL [   0.005s] x::it fails
------------
     Summary [  10.015s] 8 tests run: 4 passed (1 slow, 2 leaky), 2 failed, 1 exec failed, 1 timed out, 3 skipped
        FAIL [   0.005s] x::it fails
error: test run failed
";
        check("nextest", output, counts(4, 4, 3));
        check("cargo nextest", "     Summary [   0.1s] 1 test run: 1 passed, 0 skipped\n", counts(1, 0, 0));
        check("cargo", "     Summary [   0.1s] 3/9 tests run: 2 passed, 1 failed, 0 skipped\n", counts(2, 1, 0));
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.1s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \
                        \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m5\u{1b}[0m \u{1b}[33;1mskipped\u{1b}[0m\n";
        check("cargo-nextest", coloured, counts(2, 0, 5));
    }

    #[test]
    fn what_no_framework_wrote_gives_no_counts() {
        let none = [
            "",
            "all 5 tests passed",
            "Tests passed: 3",
            "Tests 3 failed badly",
            "Build finished in 3s",
            "12 files changed in 2s",
            "ok 1 - adds",
            "not ok 2 - subtracts",
            "ok",
            "FAIL",
            "FAIL src/sum.test.js",
            "--- a/src/lib.rs",
            "--- FAILURE ---",
            "test result: unknown",
            "Summary [1] nothing run: x",
            "99999999999999999999999 passed in 0.1s",
        ];
        for output in none {
            assert_eq!(parse(None, output), None, "{output}");
        }
        assert_eq!(parse(Some("pytest"), "ok  \texample.com/a\t0.1s\n"), None, "another framework's lines");
        assert_eq!(parse(Some("go"), "4 passed in 0.1s\n"), None, "another framework's lines");
    }

    #[test]
    fn progress_written_over_and_links_do_not_hide_the_summary() {
        let output = "running 1/2\rrunning 2/2\r\u{1b}[2K\u{1b}]8;;http://localhost\u{7}===\u{1b}]8;;\u{1b}\\ 2 passed in 0.1s ===";
        assert_eq!(parse(None, output), counts(2, 0, 0));
    }

    #[test]
    fn a_megabyte_of_anything_is_read() {
        // A reader that looked at every line for every other would not come to an end here.
        let outputs = [
            "Tests  1 failed | ".repeat(60_000),
            "1 passed, ".repeat(100_000) + "in 0.1s",
            "\u{1b}[31m".repeat(200_000),
            "\u{1b}]".repeat(500_000),
            "ok  \tx\n".repeat(150_000),
            "Summary [".repeat(110_000),
            " in ".repeat(250_000),
            "\r\n".repeat(500_000),
        ];
        for output in &outputs {
            parse(None, output);
            failing(output);
        }
    }

    proptest! {
        #[test]
        fn any_output_can_be_read(output in "(\\PC|[\u{1b}\n\r\t=\\[0-9]|passed|failed| in |Tests|ok|FAIL|--- ){0,60}") {
            for framework in [None, Some("go"), Some("jest")] {
                parse(framework, &output);
            }
            failing(&output);
        }

        #[test]
        fn any_numbers_are_read_back(passed in 0..1_000_000_u64, failed in 0..1000_u64, skipped in 0..1000_u64) {
            let expected = counts(passed, failed, skipped);
            let jest = format!("Tests: {skipped} skipped, {passed} passed, {failed} failed, 9 total");
            prop_assert_eq!(parse(None, &jest), expected);
            let pytest = format!("{failed} failed, {passed} passed, {skipped} skipped in 1.0s");
            prop_assert_eq!(parse(None, &pytest), expected);
            let cargo = format!("test result: ok. {passed} passed; {failed} failed; {skipped} ignored; 0 measured");
            prop_assert_eq!(parse(None, &cargo), expected);
        }
    }
}
