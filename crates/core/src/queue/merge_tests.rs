//! Which tests a merge has to pass.

use std::path::{Path, PathBuf};

use super::entry::{EntryTest, QueueEntry};
use crate::config::normal_path;

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

    /// Those of the repository itself, which its target has to pass as well: it need not have the tests of the work.
    pub fn of_target(&self, tests: &[EntryTest]) -> Vec<EntryTest> {
        let is_own = |test: &&EntryTest| [&self.always, &self.usual].into_iter().flatten().any(|own| own == *test);
        tests.iter().filter(is_own).cloned().collect()
    }
}

/// Interpreters, which start from the file they are given.
const INTERPRETERS: [&str; 13] =
    ["sh", "bash", "zsh", "dash", "ksh", "python", "python3", "node", "ruby", "perl", "php", "source", "."];

/// Programs that start from a file of their directory, the names of that file, and what they do without their user's commands.
const PROJECT_FILES: [(&[&str], &[&str], &[&str]); 4] = [
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"], &[]),
    (&["just"], &["justfile", "Justfile", ".justfile"], &[]),
    (&["tox"], &["tox.ini", "pyproject.toml", "setup.cfg"], &[]),
    (&["npm", "pnpm", "yarn"], &["package.json"], &["add", "ci", "i", "install"]),
];

/// What may stand before a program, and those of its options whose value is the next word.
const WRAPPERS: [&str; 14] =
    ["exec", "command", "time", "env", "nice", "nohup", "timeout", "!", "if", "elif", "while", "then", "do", "else"];
const VALUED_OPTIONS: [&str; 4] = ["-k", "-n", "-s", "-u"];

/// Whether a command starts from a file: runs it as a program, gives it to an interpreter, or is a program such as
/// `make`, whose file it is. Files it only reads do not count.
pub fn starts_from(command: &str, path: &str) -> bool {
    const ENDS: [char; 9] = [';', '|', '&', '(', ')', '{', '}', '\n', '`'];
    // The directory now, and before each open `(`.
    let mut dirs = vec![PathBuf::new()];
    command.split_inclusive(ENDS).any(|part| {
        let dir = dirs.last_mut().expect("the first one stays");
        let words = part.strip_suffix(ENDS).unwrap_or(part).split_whitespace();
        let is_started = is_started(words.map(|word| word.trim_matches(['"', '\''])), dir, Path::new(path));
        match part.chars().next_back() {
            Some('(') => dirs.extend(dirs.last().cloned()),
            Some(')') if dirs.len() > 1 => drop(dirs.pop()),
            _ => {}
        }
        is_started
    })
}

/// The same for the words of one command, which may change the directory.
fn is_started<'w>(words: impl Iterator<Item = &'w str>, dir: &mut PathBuf, path: &Path) -> bool {
    let is_at = |word: &str| normal_path(&dir.join(word)) == path;
    let is_assignment = |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let mut is_value = false;
    let mut words = words.skip_while(|word| {
        let is_before = is_value || WRAPPERS.contains(&name(word)) || is_assignment(word) || is_option_or_number(word);
        is_value = VALUED_OPTIONS.contains(word);
        is_before
    });
    let Some(program) = words.next() else { return false };
    let first = words.find(|word| !word.starts_with('-'));
    if program == "cd" {
        // An absolute or expanded path is not followed.
        if let Some(to) = first.filter(|to| !to.is_empty() && !to.starts_with(['$', '~', '/'])) {
            *dir = normal_path(&dir.join(to));
        }
        return false;
    }
    is_at(program)
        || (INTERPRETERS.contains(&name(program)) && first.is_some_and(is_at))
        || PROJECT_FILES.iter().any(|(programs, files, own)| {
            programs.contains(&name(program))
                && first.is_none_or(|first| !own.contains(&first))
                && files.iter().any(|file| is_at(file))
        })
}

/// The name of a program that may be given by its path.
fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_option_or_number(word: &str) -> bool {
    word.starts_with(|first: char| first == '-' || first.is_ascii_digit())
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
        for command in ["sh check.sh", "./check.sh -v", "CI=1 bash -e ./check.sh", "exec 'check.sh'", ". check.sh"] {
            assert!(starts_from(command, "check.sh"), "{command}");
        }
        for command in ["grep -q a check.sh", "make check", "sh other.sh check.sh", "test -s check.sh"] {
            assert!(!starts_from(command, "check.sh"), "{command}");
        }
    }

    #[test]
    fn programs_start_from_the_file_of_their_project() {
        for (command, path, is_started) in [
            ("CI=1 make check", "Makefile", true),
            ("make", "GNUmakefile", true),
            ("cargo test", "Makefile", false),
            ("npm test", "package.json", true),
            ("npm ci && npm run --silent lint", "package.json", true),
            ("npm ci && sh check.sh", "package.json", false),
            ("pnpm -r test", "package.json", true),
            ("yarn check", "package.json", true),
            ("npx jest", "package.json", false),
            ("just check", "justfile", true),
            ("just check", ".justfile", true),
            ("tox -e py3", "tox.ini", true),
            ("tox", "pyproject.toml", true),
            ("timeout 60 make check", "Makefile", true),
            ("/usr/bin/timeout -s KILL -k 5s 1.5m ./check.sh", "check.sh", true),
            ("env A=b -u C npm test", "package.json", true),
            ("nice -n 10 sh check.sh", "check.sh", true),
            ("time -p ./check.sh", "check.sh", true),
            ("if ! time make check; then exit 1; fi", "Makefile", true),
            ("cd web && npm test", "web/package.json", true),
            ("cd web && npm test", "package.json", false),
            ("cd web && cd .. && ./check.sh", "check.sh", true),
            ("cd ./web/ && sh ../check.sh", "check.sh", true),
            ("(cd web && make) && make check", "web/Makefile", true),
            ("(cd web && ./test.sh) && ./check.sh", "check.sh", true),
            ("(cd web && ./test.sh) && ./check.sh", "web/check.sh", false),
            ("cd \"$(git rev-parse --show-toplevel)\" && make check", "Makefile", true),
        ] {
            assert_eq!(starts_from(command, path), is_started, "{command} {path}");
        }
    }
}
