//! Command lines to continue with. Each works as it is printed, from where pleach was started.

use std::path::{Path, PathBuf};

use pleach_core::event::TaskOf;
use pleach_core::ids::TaskId;
use pleach_core::step::TreeName;
use pleach_core::text::shell_word;

use crate::globals::Globals;
use crate::settings::shortened;

/// The first command in a repository, as hints name it.
pub const FIRST_RUN: &str = "`pleach run \"Fix the failing test\"`";

/// The command line that was given, to be run again, without options that would restart the work.
pub fn rerun(globals: &Globals) -> String {
    with(globals.line.iter().map(String::as_str), None)
}

/// As [`again`], for tasks that failed.
pub fn retry_failed(globals: &Globals) -> String {
    const RETRY: &str = "--retry-failed";
    with(globals.line.iter().map(String::as_str).filter(|word| *word != RETRY), Some(RETRY))
}

/// As [`retrying`], for one task in place of that it had.
pub fn retry_task(globals: &Globals, task: &TaskId) -> String {
    let words = without_option(&globals.line, "--task").filter(|word| *word != "--retry-failed");
    with(words, Some(&format!("--task {task} --retry-failed")))
}

/// As [`again`], for the whole tree of which it was to work one task.
pub fn whole_tree(globals: &Globals) -> String {
    let mut words: Vec<&str> = without_option(&globals.line, "--task").collect();
    if let Some(command) = command_of(&words) {
        words[command] = "gardener";
    }
    with(words.into_iter(), None)
}

/// The index of the command in a command line: after the global options, three of which take a value.
fn command_of(words: &[&str]) -> Option<usize> {
    // Single letters may stand together, and a value right behind its own.
    let ends_with_letter =
        |word: &str| !word.starts_with("--") && word.split_once('C').is_some_and(|(_, value)| value.is_empty());
    let mut is_value = false;
    words.iter().position(|word| {
        let is_option = word.starts_with('-') && !is_value;
        let is_command = !is_option && !is_value;
        is_value = is_option && (["--config", "--color"].contains(word) || ends_with_letter(word));
        is_command
    })
}

/// As [`again`], with an answer to a gate in the place of those it had.
pub fn answering(globals: &Globals, gate: &str) -> String {
    with(without_option(&globals.line, "--answer"), Some(&format!("--answer {gate}=CHOICE")))
}

/// The words of a command line without an option and its values.
fn without_option<'a>(line: &'a [String], option: &str) -> impl Iterator<Item = &'a str> {
    let mut words = Vec::new();
    let mut given = line.iter().map(String::as_str);
    while let Some(word) = given.next() {
        match word.strip_prefix(option) {
            Some("") => drop(given.next()),
            Some(value) if value.starts_with('=') => {}
            _ => words.push(word),
        }
    }
    words.into_iter()
}

fn with<'a>(line: impl Iterator<Item = &'a str>, more: Option<&str>) -> String {
    let given = line.filter(|word| *word != "--fresh").map(shell_word);
    let words = std::iter::once("pleach".to_owned()).chain(given).chain(more.map(str::to_owned));
    words.collect::<Vec<_>>().join(" ")
}

/// Another command about what was worked in a directory, and about this tree there.
pub fn about(globals: &Globals, dir: &Path, command: &str, tree: Option<&Path>) -> String {
    let mut line = "pleach".to_owned();
    if let Some(dir) = elsewhere(globals, dir) {
        line.push_str(&format!(" -C {dir}"));
    }
    let dir = real(dir);
    if let Some(config) = &globals.config {
        line.push_str(&format!(" --config {}", path_word(&shortened(config, &dir))));
    }
    line.push_str(&format!(" {command}"));
    if let Some(tree) = tree {
        line.push_str(&format!(" --tree {}", path_word(&shortened(&real(tree), &dir))));
    }
    line
}

/// The command that resumes a task, and the tree it is about.
pub fn resume_task(task: &TaskOf) -> (String, Option<PathBuf>) {
    match TreeName::of(&task.tree) {
        TreeName::File(path) => ("gardener".to_owned(), Some(path.into())),
        TreeName::Tasks => (format!("task start {}", task.id), None),
    }
}

/// Rewrites the commands in a text so that they work where pleach was started.
pub fn with_location(globals: &Globals, dir: &Path, tree: Option<&Path>, text: &str) -> String {
    let command = |quoted: &str| match quoted.split_once(' ')? {
        ("pleach", command) if ["reset", "skip", "inspect"].contains(&command.split(' ').next()?) => {
            Some(about(globals, dir, command, tree))
        }
        ("pleach", command) => Some(about(globals, dir, command, None)),
        // What is to be done in several checkouts is done in each.
        ("git", command) if !command.starts_with("-C ") && command != "switch --detach" => {
            Some(git_in(globals, dir, command))
        }
        _ => None,
    };
    let quoted = |(at, part): (usize, &str)| match at % 2 {
        0 => part.to_owned(),
        _ => command(part).unwrap_or_else(|| part.to_owned()),
    };
    text.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

/// Rewrites the commands of pleach in a text so that they work where it was started, unless they say where already.
pub fn located(globals: &Globals, text: &str) -> String {
    let quoted = |(at, part): (usize, &str)| match part.split_once(' ') {
        Some(("pleach", command))
            if at % 2 == 1 && !command.starts_with("-C ") && !command.starts_with("--config ") =>
        {
            about(globals, &globals.dir, command, None)
        }
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

/// A command of git in a directory.
pub fn git_in(globals: &Globals, dir: &Path, command: &str) -> String {
    match elsewhere(globals, dir) {
        Some(dir) => format!("git -C {dir} {command}"),
        None => format!("git {command}"),
    }
}

/// The same where any directory of the repository does.
pub fn git_in_repo(globals: &Globals, root: &Path, command: &str) -> String {
    if real(&globals.here).starts_with(real(root)) { format!("git {command}") } else { git_in(globals, root, command) }
}

/// A directory as a word, unless pleach was started there.
fn elsewhere(globals: &Globals, dir: &Path) -> Option<String> {
    let (dir, here) = (real(dir), real(&globals.here));
    (dir != here).then(|| path_word(&shortened(&dir, &here)))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn path_word(path: &Path) -> String {
    shell_word(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::config::Environment;

    fn given(line: &[&str]) -> Globals {
        Globals {
            dir: "/nowhere/it's".into(),
            here: "/nowhere".into(),
            json: false,
            yes: false,
            verbosity: 0,
            config: Some("/nowhere/own.yaml".into()),
            environment: Environment::from_pairs(std::iter::empty::<(&str, &str)>()),
            line: line.iter().map(|&word| word.to_owned()).collect(),
        }
    }

    #[test]
    fn a_command_line_is_given_again_with_one_answer() {
        let line = ["-y", "gardener", "--fresh", "--answer", "a=b", "--answer=c=d", "--test-command", "it's = all"];
        let (globals, gate) = (given(&line), "gate");
        let expected = r"pleach -y gardener --test-command 'it'\''s = all' --answer gate=CHOICE";
        assert_eq!(answering(&globals, gate), expected);
    }

    #[test]
    fn a_suggested_command_does_not_restart_the_work() {
        let globals = given(&["gardener", "--retry-failed", "--fresh", "--answer", "a=b"]);
        assert_eq!(rerun(&globals), "pleach gardener --retry-failed --answer a=b");
        assert_eq!(retry_failed(&globals), "pleach gardener --answer a=b --retry-failed");
    }

    #[test]
    fn a_command_for_one_task_is_generalized() {
        let line =
            ["-yC", "garden", "--config", "garden", "garden", "--task", "T2", "--fresh", "--runner=a b", "--json"];
        let expected = "pleach -yC garden --config garden gardener '--runner=a b' --json";
        assert_eq!(whole_tree(&given(&line)), expected);
        let line = ["-Cgarden/C", "--config=x", "garden", "--tree", "garden", "--task=T2"];
        assert_eq!(whole_tree(&given(&line)), "pleach -Cgarden/C --config=x gardener --tree garden");
        assert_eq!(whole_tree(&given(&["-C", "", "-y", "garden"])), "pleach -C '' -y gardener");
    }

    #[test]
    fn another_command_finds_the_same_place() {
        let globals = given(&[]);
        let tree = Path::new("/nowhere/it's/specs/tree.json");
        let look = about(&globals, &globals.dir, "inspect T001", Some(tree));
        let expected = r"pleach -C 'it'\''s' --config /nowhere/own.yaml inspect T001 --tree specs/tree.json";
        assert_eq!(look, expected);
        assert_eq!(about(&globals, &globals.here, "status", None), "pleach --config own.yaml status");
    }

    #[test]
    fn hints_name_where_they_work_once() {
        let globals = Globals { config: None, ..given(&[]) };
        let text = "`pleach status` lists them; `pleach -C x land s`, `git log`, `pleach/fix/s`, not pleach run";
        let expected =
            r"`pleach -C 'it'\''s' status` lists them; `pleach -C x land s`, `git log`, `pleach/fix/s`, not pleach run";
        assert_eq!(located(&globals, text), expected);
    }

    #[test]
    fn commands_within_a_text_find_the_same_place() {
        let globals = Globals { config: None, ..given(&[]) };
        let tree = Path::new("/nowhere/it's/tree.json");
        let text = "merge `main` (`git switch b`, `git merge main`), or `pleach reset T1`; `pleach rm --force x`, or \
                    take it with `git -C /there merge abc`, `git switch --detach`";
        let expected = r"merge `main` (`git -C 'it'\''s' switch b`, `git -C 'it'\''s' merge main`), or `pleach -C 'it'\''s' reset T1 --tree tree.json`; `pleach -C 'it'\''s' rm --force x`, or take it with `git -C /there merge abc`, `git switch --detach`";
        assert_eq!(with_location(&globals, &globals.dir, Some(tree), text), expected);
        let there = Globals { here: globals.dir.clone(), ..globals };
        assert_eq!(
            with_location(&there, &there.dir, Some(tree), "`git switch b` or `main`"),
            "`git switch b` or `main`"
        );
    }
}
