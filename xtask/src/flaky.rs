//! Tests that fail by chance: every test many times, each time in a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::cargo;
use crate::usage::{Done, USAGE};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct FlakyOptions {
    /// What the names of the tests contain; empty for all of them.
    filter: String,
    /// How often each is run.
    times: usize,
    /// How many processes run at once.
    jobs: usize,
}

impl FlakyOptions {
    fn read(args: &[&str]) -> Option<Self> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { filter: String::new(), times: 0, jobs };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || args.next().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
            match *arg {
                "--times" => options.times = number()?,
                "--jobs" => options.jobs = number()?,
                filter if options.filter.is_empty() && !filter.starts_with('-') => options.filter = filter.to_owned(),
                _ => return None,
            }
        }
        (options.times > 0).then_some(options)
    }
}

/// A program of tests, and the directory cargo runs it in.
#[derive(Debug)]
struct TestBinary {
    program: PathBuf,
    package: PathBuf,
}

impl TestBinary {
    /// The program with these arguments, started as cargo does.
    fn command(&self, root: &Path, args: &[&str]) -> Command {
        let mut command = if cfg!(target_os = "linux") {
            cargo::program(&self.package, &root.join(".cargo/runner"))
        } else {
            cargo::program(&self.package, &self.program)
        };
        if cfg!(target_os = "linux") {
            command.arg(&self.program);
        }
        command.args(args).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        command
    }

    /// Its tests whose names contain this.
    fn tests(&self, root: &Path, filter: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let listed = self.command(root, &["--list", "--format", "terse", filter]).output()?;
        let text = String::from_utf8(listed.stdout)?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// What it is called: the crate and, of an integration test, its file.
    fn name(&self) -> String {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        let program = self.program.file_name().unwrap_or_default().to_string_lossy();
        format!("{package}/{}", program.rsplit_once('-').map_or(&*program, |(name, _)| name))
    }
}

/// How often a test failed, and what it printed the first time.
#[derive(Debug, Default)]
struct Failures {
    times: usize,
    output: String,
}

/// Runs the tests and says of each that failed how often it did.
pub fn run(root: &Path, args: &[&str]) -> Done {
    let FlakyOptions { filter, times, jobs } = FlakyOptions::read(args).ok_or(USAGE)?;
    let binaries = built(root)?;
    let mut tests = Vec::new();
    for binary in &binaries {
        tests.extend(binary.tests(root, &filter)?.into_iter().map(|test| (binary, test)));
    }
    if tests.is_empty() {
        return Err(format!("no test is called `{filter}`").into());
    }
    println!("{} tests, {times} times each, {jobs} at once", tests.len());

    let (next, failures) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<usize, Failures>::new()));
    let work = || -> Result<(), String> {
        loop {
            // All tests once, then all of them again: neighbours differ in time, not only in order.
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= tests.len() * times {
                return Ok(());
            }
            let at = turn % tests.len();
            let (binary, test) = &tests[at];
            let mut command = binary.command(root, &["--exact", test]);
            let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
            if output.status.success() {
                continue;
            }
            let mut failures = failures.lock().map_err(|error| error.to_string())?;
            let failed = failures.entry(at).or_default();
            failed.times += 1;
            if failed.times == 1 {
                let (stdout, stderr) =
                    (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                failed.output = format!("{}\n{stdout}{stderr}", output.status);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })?;

    let failures = failures.into_inner()?;
    for (at, failed) in &failures {
        let (binary, test) = &tests[*at];
        println!("\n== {} {test}: the first failure ended with {}", binary.name(), failed.output.trim_end());
    }
    println!();
    for (at, failed) in &failures {
        let (binary, test) = &tests[*at];
        println!("{} of {times} failed: {} {test}", failed.times, binary.name());
    }
    println!("{} of {} tests never failed", tests.len() - failures.len(), tests.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The programs of the workspace's tests. Where they are built already, cargo only says where they are.
fn built(root: &Path) -> Result<Vec<TestBinary>, Box<dyn std::error::Error>> {
    let args = ["test", "--workspace", "--no-run", "--quiet", "--message-format", "json-render-diagnostics"];
    let output = cargo::command(root, &args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let said = String::from_utf8(output.stdout)?;
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| test_binary(&message)).collect())
}

/// The program of tests a message of cargo tells of.
fn test_binary(message: &Value) -> Option<TestBinary> {
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let package = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(TestBinary { program: program.into(), package: package.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_asked_for_and_a_filter_may_be() {
        let read = |args: &str| FlakyOptions::read(&args.split_whitespace().collect::<Vec<_>>());
        let options = |filter: &str, times, jobs| Some(FlakyOptions { filter: filter.to_owned(), times, jobs });
        assert_eq!(read("crash:: --times 20 --jobs 3"), options("crash::", 20, 3));
        assert_eq!(read("--jobs 1 --times 2"), options("", 2, 1));
        for wrong in ["", "crash", "--times", "--times 0", "--times x", "a b --times 1", "--fast --times 1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_programs_of_tests_are_run() {
        let message = |test: bool, executable: &str| -> Value {
            let text = format!(
                r#"{{"manifest_path": "/r/cli/Cargo.toml", "profile": {{"test": {test}}}, "executable": {executable}}}"#
            );
            serde_json::from_str(&text).expect("a message")
        };
        let found = test_binary(&message(true, r#""/t/debug/deps/it-0a1b""#)).expect("a program of tests");
        assert_eq!((found.name().as_str(), found.package.as_path()), ("cli/it", Path::new("/r/cli")));
        assert!(test_binary(&message(false, r#""/t/debug/pleach""#)).is_none());
        assert!(test_binary(&message(true, "null")).is_none());
        assert!(test_binary(&serde_json::json!({"reason": "build-finished"})).is_none());
    }
}
