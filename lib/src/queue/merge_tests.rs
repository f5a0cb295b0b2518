//! Which tests a merge has to pass.

use super::entry::{EntryTest, QueueEntry};

/// Which tests a merge has to pass: the one that every merge must; else those its work brings; else the usual one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeTests {
    /// The test every merge must pass, whatever its work brings.
    pub always: Option<EntryTest>,
    /// The test of work that brings none.
    pub usual: Option<EntryTest>,
}

impl MergeTests {
    /// The tests that merged entries have to pass, each once. Without any, they land unverified.
    pub fn of<'e>(&'e self, entries: impl IntoIterator<Item = &'e QueueEntry>) -> Vec<EntryTest> {
        let of_entry = |entry: &'e QueueEntry| match (&self.always, entry.tests.as_slice()) {
            (Some(test), _) => std::slice::from_ref(test),
            (None, []) => self.usual.as_slice(),
            (None, own) => own,
        };
        let mut tests: Vec<EntryTest> = Vec::new();
        for test in entries.into_iter().flat_map(of_entry) {
            if !tests.contains(test) {
                tests.push(test.clone());
            }
        }
        tests
    }

    /// Those of them that are the repository's, which its target has to pass as well: what work brings need not be there.
    pub fn of_target(&self, tests: &[EntryTest]) -> Vec<EntryTest> {
        let is_own = |test: &&EntryTest| [&self.always, &self.usual].into_iter().flatten().any(|own| own == *test);
        tests.iter().filter(is_own).cloned().collect()
    }
}

/// Whether a command is started from a file: runs it as a program, gives it to an interpreter, or is a `make`, whose file it
/// is. Files it only reads are not meant.
pub fn starts_from(command: &str, path: &str) -> bool {
    const SHELLS: [&str; 13] =
        ["sh", "bash", "zsh", "dash", "ksh", "python", "python3", "node", "ruby", "perl", "php", "source", "."];
    const MAKEFILES: [&str; 3] = ["Makefile", "makefile", "GNUmakefile"];
    let is_path = |word: &str| word.trim_matches(['"', '\'']).trim_start_matches("./") == path;
    command.split([';', '|', '&', '(', ')', '{', '}', '\n', '`']).any(|part| {
        let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
        let mut words = part.split_whitespace().skip_while(|word| {
            is_assignment(word) || ["exec", "time", "env", "nice", "!", "if", "then", "do", "else"].contains(word)
        });
        let Some(first) = words.next() else { return false };
        let program = first.rsplit('/').next().unwrap_or(first);
        is_path(first)
            || (program == "make" && MAKEFILES.contains(&path))
            || (SHELLS.contains(&program) && words.find(|word| !word.starts_with('-')).is_some_and(is_path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::entry::{EntryState, entry};

    fn test(command: &str) -> EntryTest {
        EntryTest { command: command.to_owned(), timeout: 1 }
    }

    #[test]
    fn a_merge_is_tested_by_what_is_nearest_to_it() {
        let bare = entry(1, EntryState::Submitted);
        let own = QueueEntry { tests: vec![test("own")], ..entry(2, EntryState::Submitted) };
        let other = QueueEntry { tests: vec![test("own"), test("more")], ..entry(3, EntryState::Submitted) };
        let tests = |always: Option<&str>, usual: Option<&str>| {
            let tests = MergeTests { always: always.map(test), usual: usual.map(test) };
            let run = [vec![&bare], vec![&own], vec![&bare, &own, &other]].map(|entries| tests.of(entries));
            run.map(|tests| tests.into_iter().map(|test| test.command).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(tests(None, None), ["", "own", "own more"]);
        assert_eq!(tests(None, Some("usual")), ["usual", "own", "usual own more"]);
        assert_eq!(tests(Some("always"), Some("usual")), ["always"; 3]);
        assert_eq!(tests(Some("always"), None), ["always"; 3]);
        let both = MergeTests { always: None, usual: Some(test("usual")) };
        assert_eq!(both.of_target(&both.of([&bare, &own])), [test("usual")], "what work brings need not be there");
    }

    #[test]
    fn a_command_starts_from_its_scripts_and_reads_other_files() {
        for command in
            ["sh check.sh", "./check.sh -v", "cd x && CI=1 bash -e ./check.sh", "exec 'check.sh'", ". check.sh"]
        {
            assert!(starts_from(command, "check.sh"), "{command}");
        }
        for command in ["grep -q a check.sh", "make check", "sh other.sh check.sh", "test -s check.sh"] {
            assert!(!starts_from(command, "check.sh"), "{command}");
        }
        assert!(starts_from("CI=1 make check", "Makefile") && !starts_from("cargo test", "Makefile"));
    }
}
