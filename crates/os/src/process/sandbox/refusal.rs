//! Finds in a command's output what its sandbox refused: the system itself only says "Permission denied".

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};

use super::bounds::{DEVICES, Sandbox};
use super::hide::{self, HiddenRelation};
use pleach_core::text::listed;

/// How a system or a runtime reports that a path is not writable.
const DENIALS: [&str; 4] = ["permission denied", "read-only file system", "eacces", "erofs"];

/// How many lines before a denial may hold its path.
const LINES_BEFORE: usize = 3;

/// Number of denials examined.
const MOST_DENIALS: usize = 100;

/// Number of paths a message names.
const NAMED: usize = 3;

/// Paths refused to a command although its user can write them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The path, and the directory that would have to be writable.
    paths: BTreeSet<(PathBuf, PathBuf)>,
    /// Paths in the git directory of the repository, with its hooks and settings, which nobody should make writable.
    of_git: BTreeSet<PathBuf>,
    /// Hidden paths.
    hidden: BTreeSet<PathBuf>,
}

/// What this sandbox refused to a command that ran in `cwd` and printed `text`.
pub fn refusals(sandbox: &Sandbox, text: &str, cwd: &Path) -> Refusals {
    let mut refused = Refusals::default();
    let hidden = hide::real(&sandbox.hide);
    for path in denied(text).into_iter().map(|path| plain(&cwd.join(path))) {
        let Some(there) = path.ancestors().find(|path| path.exists()) else { continue };
        let real = there.canonicalize().unwrap_or_else(|_| there.to_owned());
        let is_in =
            |open: &Path| real.starts_with(open.canonicalize().as_deref().unwrap_or(open)) || path.starts_with(open);
        let opens = sandbox.write.iter().map(PathBuf::as_path).chain(DEVICES.iter().map(Path::new));
        let is_open = opens.chain(sandbox.add.iter().map(PathBuf::as_path)).any(is_in);
        if !is_open
            && !sandbox.show.iter().any(|shown| is_in(shown))
            && HiddenRelation::of(&real, &hidden) == HiddenRelation::In
        {
            refused.hidden.insert(path);
            continue;
        }
        // If the user cannot write it either, it was not the sandbox that refused.
        if !is_open && access(&real, Access::WRITE_OK).is_ok() {
            if is_of_git(sandbox, &real) || is_of_git(sandbox, &path) {
                refused.of_git.insert(path);
            } else {
                refused.paths.insert((path.clone(), there.to_owned()));
            }
        }
    }
    refused
}

/// Whether a path is, or is in, a git directory to which objects may be added.
fn is_of_git(sandbox: &Sandbox, path: &Path) -> bool {
    let repositories = sandbox.add.iter().filter_map(|objects| objects.parent());
    repositories
        .into_iter()
        .any(|git| path.starts_with(git) || path.starts_with(git.canonicalize().as_deref().unwrap_or(git)))
}

impl Refusals {
    /// Adds further refusals.
    pub fn extend(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.of_git.extend(other.of_git);
        self.hidden.extend(other.hidden);
    }

    /// The refusals of a successful command: git worked despite those in its directory.
    pub fn of_success(self) -> Self {
        Self { of_git: BTreeSet::new(), ..self }
    }

    /// What was refused and how to fix it; `None` if nothing was.
    pub fn in_words(&self) -> Option<String> {
        let quoted = |path: &PathBuf| format!("`{}`", path.display());
        let hidden = (!self.hidden.is_empty()).then(|| {
            let paths = listed(self.hidden.iter().map(quoted), NAMED);
            format!(
                "the sandbox refused {paths}, which `sandbox.hide` hides: if the work needs it, add it to `sandbox.show`"
            )
        });
        if self.paths.is_empty() {
            let of_git = (!self.of_git.is_empty()).then(|| {
                let paths = listed(self.of_git.iter().map(quoted), NAMED);
                format!("the sandbox refused writing {paths}: commands of agents cannot write to the repository's git directory")
            });
            return hidden.or(of_git);
        }
        let paths = listed(self.paths.iter().map(|(path, _)| quoted(path)), NAMED);
        let opens: BTreeSet<&PathBuf> = self.paths.iter().map(|(_, opens)| opens).collect();
        let opens = listed(opens.into_iter().map(quoted), NAMED);
        let written = format!(
            "the sandbox refused writing {paths}: use the worktree or `$TMPDIR`, or add {opens} to `sandbox.rw`"
        );
        Some(written).into_iter().chain(hidden).reduce(|one, other| format!("{one}; {other}"))
    }
}

/// The paths that a text reports as denied, verbatim.
fn denied(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_denial = |line: &str| {
        let line = line.to_lowercase();
        DENIALS.iter().any(|denial| line.contains(denial))
    };
    let denials = lines.iter().enumerate().rev().filter(|(_, line)| is_denial(line)).take(MOST_DENIALS);
    let paths = denials.flat_map(|(index, line)| {
        let own = paths_in(line);
        let before = lines[index.saturating_sub(LINES_BEFORE)..index].iter().rev();
        let mut near = before.map(|line| paths_in(line)).filter(|paths| !paths.is_empty());
        // A line that names a path is about that path, even one inside the directory.
        if own.is_empty() && !line.contains('/') { near.next().unwrap_or_default() } else { own }
    });
    paths.collect()
}

/// The paths in a line that lead out of the working directory: in quotation marks, otherwise up to a colon, otherwise
/// single words.
fn paths_in(line: &str) -> Vec<String> {
    let leads_out = |text: &str| (text.starts_with('/') && text.len() > 1) || text.starts_with("../");
    let quotes = [('\'', '\''), ('"', '"'), ('`', '`'), ('\u{2018}', '\u{2019}')];
    let quoted: Vec<String> = quotes
        .into_iter()
        .flat_map(|(open, close)| {
            line.match_indices(open).filter_map(move |(at, _)| {
                let inside = &line[at + open.len_utf8()..];
                Some(inside[..inside.find(close)?].to_owned())
            })
        })
        .filter(|text| leads_out(text))
        .collect();
    if !quoted.is_empty() {
        return quoted;
    }
    // The first part names the program, unless it is right before the denial.
    let says_who = usize::from(line.matches(": ").count() > 1);
    let parts = line.split(": ").skip(says_who).filter_map(|part| {
        let at = part.match_indices(['/', '.']).map(|(at, _)| at);
        let begins = |at: &usize| part[..*at].chars().next_back().is_none_or(char::is_whitespace);
        let at = at.filter(begins).find(|at| leads_out(&part[*at..]))?;
        Some(part[at..].trim_end_matches([',', ';', ':', '.', ')']).trim_end().to_owned())
    });
    let parts: Vec<String> = parts.collect();
    // A sentence may continue after its path; a name may contain spaces.
    let first = |part: &String| part.split_whitespace().next().map(str::to_owned).filter(|first| first != part);
    parts.iter().cloned().chain(parts.iter().filter_map(first)).collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_paths_are_found_in_what_programs_print() {
        for (said, path) in [
            ("bash: line 1: /home/me/x: Permission denied", "/home/me/x"),
            ("sh: 1: cannot create /home/me/a b: Permission denied", "/home/me/a b"),
            ("touch: cannot touch '/home/me/x': Permission denied", "/home/me/x"),
            ("mkdir: cannot create directory \u{2018}../x\u{2019}: Permission denied", "../x"),
            ("PermissionError: [Errno 13] Permission denied: '/home/me/x'", "/home/me/x"),
            ("Error: EACCES: permission denied, open '/home/me/x'", "/home/me/x"),
            ("open /home/me/x: permission denied", "/home/me/x"),
            ("/home/me/x: Permission denied", "/home/me/x"),
            ("/bin/bash: line 1: /home/me/x: Permission denied", "/home/me/x"),
            ("cp: cannot create regular file '/home/me/x': Read-only file system", "/home/me/x"),
            ("error: failed to write `/home/me/x`\n\nCaused by:\n  Permission denied (os error 13)", "/home/me/x"),
        ] {
            assert!(denied(said).iter().any(|found| found == path), "{said}: {:?}", denied(said));
        }
        for said in [
            "./run.sh: Permission denied",
            "/bin/bash: line 1: ./run.sh: Permission denied",
            "/bin/bash: line 1: out: Permission denied",
            "/usr/bin/tar: ./out: Cannot open: Permission denied",
            "read /etc/hosts\n./run.sh: Permission denied",
            "/home/me/x: No such file or directory",
            "permission denied",
        ] {
            assert_eq!(denied(said), [""; 0], "{said}");
        }
    }

    #[test]
    fn only_what_the_bounds_keep_closed_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["worktree", "open", "home"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let sandbox = Sandbox { write: vec![root.join("worktree"), root.join("open")], ..Sandbox::default() };
        let said = |path: &str| format!("touch: cannot touch '{path}': Permission denied\n");
        let refused = |path: &str| refusals(&sandbox, &said(path), &root.join("worktree")).in_words();
        let home = root.join("home");
        let expected = format!(
            "the sandbox refused writing `{0}/new/x`: use the worktree or `$TMPDIR`, or add `{0}` to `sandbox.rw`",
            home.display()
        );
        assert_eq!(refused(&format!("{}/new/x", home.display())), Some(expected.clone()));
        assert_eq!(refused("../home/new/x"), Some(expected));
        let git = Sandbox { add: vec![root.join("home/.git/objects")], ..sandbox.clone() };
        std::fs::create_dir_all(root.join("home/.git/objects")).unwrap();
        let refused_by_git = refusals(&git, &said("../home/.git/packed-refs.lock"), &root.join("worktree"));
        let words = refused_by_git.in_words().unwrap();
        assert!(words.contains("/home/.git/packed-refs.lock`") && !words.contains("sandbox.rw"), "{words}");
        assert_eq!(refused_by_git.of_success().in_words(), None);
        for open in ["../open/x", "../worktree/x", "/dev/null"] {
            assert_eq!(refused(open), None, "{open}");
        }
        let sandbox = Sandbox { hide: vec![home.clone(), root.join("open")], show: vec![home.join("mine")], ..sandbox };
        let refused = |path: &str| refusals(&sandbox, &said(path), &root.join("worktree")).in_words();
        std::fs::create_dir(home.join("mine")).unwrap();
        assert_eq!(
            refused("../home/key"),
            Some(format!(
                "the sandbox refused `{}/key`, which `sandbox.hide` hides: if the work needs it, add it to `sandbox.show`",
                home.display()
            ))
        );
        assert_eq!(refused("../open/x"), None, "what may be written may be read");
        let written = refused("../home/mine/x").expect("it cannot be written");
        assert!(written.starts_with("the sandbox refused writing"), "{written}");
        assert_eq!(Refusals::default().in_words(), None);
    }
}
