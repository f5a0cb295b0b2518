//! What a run of `pleach` says, read back. Tests look at codes and facts; the words of progress and results that tell them
//! are known here alone.

use std::sync::LazyLock;

use regex::Regex;

use crate::support::Ran;

/// A pattern, made once.
macro_rules! regex {
    ($pattern:literal) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a valid pattern"));
        &*PATTERN
    }};
}

/// What an error or a warning says. Tests look at the facts in it, for the words around them may change.
#[derive(Debug)]
pub struct ReportedText<'r> {
    ran: &'r Ran,
    text: String,
}

impl ReportedText<'_> {
    /// Fails the test unless this fact is named: a path, an id, a command, a number.
    #[track_caller]
    pub fn naming(self, fact: impl AsRef<str>) -> Self {
        assert!(self.text.contains(fact.as_ref()), "`{}` is not named: {}", fact.as_ref(), self.ran);
        self
    }

    /// Fails the test if this is named.
    #[track_caller]
    pub fn not_naming(self, fact: impl AsRef<str>) -> Self {
        assert!(!self.text.contains(fact.as_ref()), "`{}` is named: {}", fact.as_ref(), self.ran);
        self
    }
}

impl Ran {
    /// Fails the test unless it ended with an error of this code. What it says, hint included, can be asked for facts.
    #[track_caller]
    pub fn fails_with(&self, code: &str) -> ReportedText<'_> {
        let head = format!("error[{code}]: ");
        let begins = |at: &usize| *at == 0 || self.stderr.as_bytes()[at - 1] == b'\n';
        let Some(at) = self.stderr.find(&head).filter(begins) else { panic!("no error with the code {code}: {self}") };
        ReportedText { ran: self, text: self.stderr[at + head.len()..].to_owned() }
    }

    /// Every warning: its code and its words.
    pub fn warnings(&self) -> Vec<(&str, &str)> {
        let told = self.stderr.lines().filter_map(|line| line.strip_prefix("warning["));
        told.filter_map(|told| told.split_once("]: ")).collect()
    }

    /// Fails the test unless there is a warning of this code. What all that have it say can be asked for facts.
    #[track_caller]
    pub fn warns(&self, code: &str) -> ReportedText<'_> {
        let told: Vec<&str> = self.warnings().into_iter().filter(|(is, _)| *is == code).map(|(_, text)| text).collect();
        assert!(!told.is_empty(), "no warning with the code {code}: {self}");
        ReportedText { ran: self, text: told.join("\n") }
    }

    /// Fails the test unless there is exactly one warning of this code.
    #[track_caller]
    pub fn warns_once(&self, code: &str) -> ReportedText<'_> {
        let told = self.warns(code);
        assert_eq!(told.text.lines().count(), 1, "more than one warning with the code {code}: {self}");
        told
    }

    /// Fails the test if there is a warning of this code.
    #[track_caller]
    pub fn does_not_warn(&self, code: &str) {
        assert!(self.warnings().iter().all(|(is, _)| *is != code), "a warning with the code {code}: {self}");
    }

    /// How many tasks of how many are done, as the first line about it has it.
    #[track_caller]
    pub fn tasks_done(&self) -> (u32, u32) {
        let done = regex!(r"\b(\d+) of (\d+) tasks? done");
        let found = done.captures(&self.stderr).or_else(|| done.captures(&self.stdout));
        let found = found.unwrap_or_else(|| panic!("nothing is said of tasks that are done: {self}"));
        (found[1].parse().expect("a number"), found[2].parse().expect("a number"))
    }

    /// The branch a run over a tree works on.
    #[track_caller]
    pub fn target(&self) -> &str {
        let found = regex!(r"(?:working|would work) `[^`]*` on branch `([^`]+)`");
        let found = found.captures(&self.stderr).or_else(|| found.captures(&self.stdout));
        found.unwrap_or_else(|| panic!("no tree is worked: {self}")).get(1).expect("a branch").as_str()
    }

    /// The tasks a run over a tree has started, in order.
    pub fn begun(&self) -> Vec<&str> {
        self.worked("begins")
    }

    /// The tasks a run over a tree has resumed, in order.
    pub fn resumed(&self) -> Vec<&str> {
        self.worked("resumes")
    }

    fn worked(&self, how: &str) -> Vec<&str> {
        let began = regex!(r"(?m)^▸ (\S+) .* (begins|resumes) \(session ").captures_iter(&self.stderr);
        began.filter(|found| &found[2] == how).map(|found| found.get(1).expect("a task").as_str()).collect()
    }

    /// What has landed, task and branch, in order.
    pub fn landed(&self) -> Vec<(&str, &str)> {
        let found = regex!(r"(?m)^  (\S+) landed on (\S+) \(").captures_iter(&self.stderr);
        found.map(|found| found.extract()).map(|(_, [task, on])| (task, on)).collect()
    }

    /// How a run over a tree ended, in the words of `--json`, and the task or phase it is about.
    #[track_caller]
    pub fn ended(&self) -> (&'static str, &str) {
        let ways = [
            (regex!(r"^done: (\S*)"), "done"),
            (regex!(r"^(\S+) failed (?:in an earlier run, )?after "), "failed"),
            (regex!(r"^cancelled: (\S+): "), "cancelled"),
            (regex!(r"^the tests of (\S+) fail on "), "gate_red"),
            (regex!(r"^stalled: ()"), "stalled"),
            (regex!(r"^stopped: ()"), "out_of_budget"),
            (regex!(r"^paused: (?:(\S+) waits for an answer|)"), "paused"),
            (regex!(r"^waiting\[[a-z-]+\]: (\S+) "), "refused"),
        ];
        let found = ways.iter().find_map(|(way, word)| Some((*word, way.captures(&self.stdout)?)));
        let (word, found) = found.unwrap_or_else(|| panic!("no end of a tree is told: {self}"));
        (word, found.get(1).map_or("", |task| task.as_str()))
    }

    /// Why work waits at the end of a run over a tree, by its code, and the task or phase it is about.
    #[track_caller]
    pub fn refused(&self) -> (&str, &str) {
        let found = regex!(r"\Awaiting\[([a-z-]+)\]: (\S+) ").captures(&self.stdout);
        let (_, [code, task]) = found.unwrap_or_else(|| panic!("no work waits: {self}")).extract();
        (code, task)
    }

    /// The task a run over a tree failed at, after how many attempts, and why.
    #[track_caller]
    pub fn failed(&self) -> (&str, u32, &str) {
        let failed = regex!(r"(?m)\A(\S+) failed (?:in an earlier run, )?after (\d+) attempts?(?:: (.*))?$");
        let found = failed.captures(&self.stdout).unwrap_or_else(|| panic!("no task failed: {self}"));
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        (part(1), part(2).parse().expect("a number"), part(3))
    }

    /// What comes next in a tree, in a word, and the task, phase or branch it is about.
    #[track_caller]
    pub fn next(&self) -> (&'static str, &str) {
        let ways = [
            (regex!(r"(?m)next: .*merge or drop the finished work on `([^`]+)`"), "merge"),
            (regex!(r"(?m)next: work (\S+?),? "), "work"),
            (regex!(r"(?m)next: run the tests of (\S+)$"), "test"),
            (regex!(r"(?m)next: land ([^\s,]+)"), "land"),
            (regex!(r"(?m)next: (\S+) cannot start"), "blocked"),
            (regex!(r"(?m)next: nothing()"), "nothing"),
        ];
        let found = ways.iter().find_map(|(way, word)| Some((*word, way.captures(&self.stdout)?)));
        let (word, found) = found.unwrap_or_else(|| panic!("nothing is told of what comes next: {self}"));
        (word, found.get(1).map_or("", |about| about.as_str()))
    }

    /// What a task waits for that cannot start: the other task, and in a word why that is in the way.
    #[track_caller]
    pub fn waits(&self, task: &str) -> (&str, &'static str) {
        let waits = regex!(r"(\S+) waits for (\S+) \(([^)]*)\)").captures_iter(&self.stdout);
        let found = waits.map(|found| found.extract::<3>()).find(|(_, [is, ..])| *is == task);
        let (_, [_, on, why]) = found.unwrap_or_else(|| panic!("{task} does not wait: {self}"));
        let reasons = [
            ("failed", "failed"),
            ("not in", "left_out"),
            ("not done", "not_done"),
            ("waits to land", "not_landed"),
            ("its phase is not merged", "not_merged"),
            ("done on the branch of", "elsewhere"),
            ("its tests failed", "gate_red"),
        ];
        let reason = reasons.iter().find(|(words, _)| why.contains(words));
        (on, reason.unwrap_or_else(|| panic!("`{why}` is no reason to wait: {self}")).1)
    }
}
