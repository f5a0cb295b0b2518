//! The names of the tests that failed.

use std::collections::BTreeSet;

use super::lines;
use crate::text::shorten;

/// So long a name is shown, in characters: output that only looks like one may have any length.
const NAME: usize = 200;

/// So many names are gathered from output as it comes.
const NAMES: usize = 10_000;

/// The names of failing tests in the output of any known framework, each once, in the order they are told. Nobody but
/// the next attempt and the comparison of two attempts relies on them: a name that was missed does no harm.
pub fn failing(output: &str) -> Vec<String> {
    let mut failing = FailingTests::default();
    lines(output).for_each(|line| failing.line(&line, &str::to_owned));
    failing.names
}

/// Gathers the names while lines come.
#[derive(Debug, Clone, Default)]
pub(super) struct FailingTests {
    pub(super) names: Vec<String>,
    seen: BTreeSet<String>,
    /// The file a suite is told to fail of.
    file: Option<String>,
}

impl FailingTests {
    /// Takes a line. A name goes through `redact` before it is cut: the half of a secret is not known any more.
    pub(super) fn line(&mut self, line: &str, redact: &dyn Fn(&str) -> String) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("FAIL ") {
            self.file = Some(rest.trim().to_owned());
        }
        let name = match line {
            "\u{25cf} Test suite failed to run" => self.file.as_deref(),
            _ => READERS.iter().find_map(|read| read(line)),
        };
        let Some(name) = name.filter(|name| !name.is_empty() && self.names.len() < NAMES) else { return };
        let name = shorten(&redact(name), NAME);
        if self.seen.insert(name.clone()) {
            self.names.push(name);
        }
    }
}

/// What each framework writes for a test that failed.
const READERS: [fn(&str) -> Option<&str>; 8] =
    [pytest, pytest_verbose, unittest, cargo, cargo_output, nextest, jest, go];

/// `FAILED tests/test_a.py::test_sum[1 - 2] - assert 1 == 2`.
fn pytest(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
    let first = rest.split(' ').next()?;
    let reason = rest[first.len()..].starts_with(" - ");
    if !first.contains("::") && !reason || first.starts_with('(') {
        return None;
    }
    // A parameter may hold the very mark that sets the reason apart, but it ends with its bracket.
    let open = first.contains('[') && !first.contains(']');
    let from = if open { rest.find(']').unwrap_or(first.len()) } else { 0 };
    let end = rest[from..].find(" - ").map_or(rest.len(), |at| from + at);
    Some(&rest[..end])
}

/// `tests/test_a.py::test_sum FAILED    [ 50%]`.
fn pytest_verbose(line: &str) -> Option<&str> {
    let (name, _) = line.rsplit_once(" FAILED").or_else(|| line.rsplit_once(" ERROR"))?;
    let progress = line[name.len()..].trim_start().trim_start_matches(char::is_alphabetic).trim();
    let own = name.contains(".py::") && (progress.is_empty() || progress.starts_with('[') && progress.ends_with("%]"));
    own.then_some(name)
}

/// `FAIL: test_sum (tests.test_a.TestSum.test_sum)`, also behind `ERROR: `.
fn unittest(line: &str) -> Option<&str> {
    let name = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "))?;
    let (test, rest) = name.split_once(" (")?;
    let (class, _) = rest.split_once(')')?;
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name(test) && class.contains('.') && class.split('.').all(is_name)).then_some(name)
}

/// `test a::fails ... FAILED`.
fn cargo(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    (result == "FAILED" || result.starts_with("FAILED ")).then_some(name)
}

/// `---- a::fails stdout ----`, where the line with the result was torn by output.
fn cargo_output(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// `FAIL [   0.005s] ( 3/10) x::it a::fails`, and the same for what hung or was killed.
fn nextest(line: &str) -> Option<&str> {
    let (result, rest) = line.split_once(" [")?;
    let result = result.rsplit(' ').next()?;
    let signal = result.strip_prefix("SIG").is_some_and(|name| name.bytes().all(|b| b.is_ascii_uppercase()));
    if !signal && !matches!(result, "FAIL" | "TIMEOUT" | "ABORT" | "XFAIL") {
        return None;
    }
    let (time, name) = rest.split_once("s]")?;
    time.trim().trim_start_matches('>').parse::<f64>().ok()?;
    let name = name.trim_start();
    let counted = name.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(name, |(_, name)| name);
    Some(counted.trim())
}

/// jest's `● sums › adds` and vitest's `FAIL  src/sum.test.ts > sums > adds`.
fn jest(line: &str) -> Option<&str> {
    if let Some(name) = line.strip_prefix("\u{25cf} ") {
        return (name != "Console" && !name.ends_with(':')).then_some(name.trim());
    }
    let name = line.strip_prefix("FAIL  ")?.trim();
    name.contains(" > ").then_some(name)
}

/// `--- FAIL: TestTable/full (0.00s)`, and packages that were not even built.
fn go(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("--- FAIL: ") {
        return rest.split(' ').next();
    }
    let package = line.strip_prefix("FAIL\t")?;
    package.strip_suffix(" [build failed]").or_else(|| package.strip_suffix(" [setup failed]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: &[&str]) {
        assert_eq!(failing(output), expected, "{output}");
    }

    #[test]
    fn pytest_names_them_in_its_summary_and_when_verbose() {
        let output = "tests/test_a.py::test_one PASSED   [ 25%]\n\
                      tests/test_a.py::test_sum FAILED   [ 50%]\n\
                      tests/test_a.py::test_db ERROR     [ 75%]\n\
                      E   AssertionError: tests FAILED somehow\n\
                      ===== short test summary info =====\n\
                      FAILED tests/test_a.py::test_sum - assert (1 + 1) == 3\n\
                      FAILED tests/test_a.py::test_pair[a - b] - assert 1 == 2\n\
                      FAILED tests/test_a.py::test_bare\n\
                      ERROR tests/test_a.py::test_db - RuntimeError: no database\n\
                      ERROR tests/test_c.py - SyntaxError: bad\n";
        let expected = [
            "tests/test_a.py::test_sum",
            "tests/test_a.py::test_db",
            "tests/test_a.py::test_pair[a - b]",
            "tests/test_a.py::test_bare",
            "tests/test_c.py",
        ];
        check(output, &expected);
        check("FAILED test_create_user - AssertionError: no column\nFAILED (failures=1)\n", &["test_create_user"]);
        let long = "x".repeat(300);
        check(&format!("FAILED t.py::{long} - no\n"), &[&format!("t.py::{}\u{2026}", &long[..194])]);
        check("\u{1b}[31mFAILED\u{1b}[0m t.py::\u{1b}[1mtest_x\u{1b}[0m - no\r\n", &["t.py::test_x"]);
    }

    #[test]
    fn jest_and_vitest_name_suite_and_test() {
        let jest = "FAIL src/sum.test.js\n  \u{25cf} sums \u{203a} adds\n\n  \u{25cf} Console\n\n    console.log\n\
                    FAIL src/broken.test.js\n  \u{25cf} Test suite failed to run\n\
                    Summary of all failing tests\nFAIL src/sum.test.js\n  \u{25cf} sums \u{203a} adds\n";
        check(jest, &["sums \u{203a} adds", "src/broken.test.js"]);
        let vitest = " FAIL  src/sum.test.ts > sums > adds\nAssertionError: expected 2 to be 3\n";
        check(vitest, &["src/sum.test.ts > sums > adds"]);
    }

    #[test]
    fn go_names_tests_subtests_and_packages_not_built() {
        let output = "--- FAIL: TestTable (0.00s)\n    --- FAIL: TestTable/full (0.00s)\n--- PASS: TestB (0.00s)\n\
                      FAIL\nFAIL\texample.com/a\t0.003s\nFAIL\texample.com/e [build failed]\n";
        check(output, &["TestTable", "TestTable/full", "example.com/e"]);
    }

    #[test]
    fn cargo_and_nextest_name_the_path() {
        let cargo = "test a::works ... ok\ntest a::fails ... FAILED\ntest a::panics - should panic ... FAILED\n\
                     test src/lib.rs - f (line 3) ... FAILED\n\nfailures:\n\n---- a::fails stdout ----\nboom\n\
                     ---- a::torn stdout ----\n\nfailures:\n    a::fails\n\n\
                     test result: FAILED. 1 passed; 3 failed; 0 ignored\n";
        check(cargo, &["a::fails", "a::panics", "src/lib.rs - f (line 3)", "a::torn"]);
        let nextest = "        FAIL [   0.005s] x::it a::fails\n  TRY 2 FAIL [   0.005s] x::it a::fails\n\
                       \x20    TIMEOUT [  10.000s] ( 3/10) x::it hangs\n     SIGABRT [   0.1s] x::it dies\n\
                       \x20       PASS [   0.1s] x::it works\n        SLOW [> 60.000s] x::it slow\n";
        check(nextest, &["x::it a::fails", "x::it hangs", "x::it dies"]);
    }

    #[test]
    fn other_text_names_nothing() {
        check("error: 3 tests FAILED\nFAILED to connect\nERROR could not open\nFAIL\nTests: 1 failed, 1 total\n", &[]);
    }
}
