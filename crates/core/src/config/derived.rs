//! Files that a command makes: which they are, by the patterns of the settings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::model::DerivedFiles;
use crate::ids::RepoPath;

/// Which files are derived, and by which commands.
#[derive(Debug, Clone, Default)]
pub struct DerivedRules(Vec<DerivedRule>);

#[derive(Debug, Clone)]
struct DerivedRule {
    paths: Gitignore,
    command: String,
}

/// A pattern that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` in `merge.derived` is not a pattern: {detail}")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub detail: String,
}

impl DerivedRules {
    /// Reads the patterns.
    pub fn new(derived: &[DerivedFiles]) -> Result<Self, BadPattern> {
        let rule = |files: &DerivedFiles| {
            let mut builder = GitignoreBuilder::new("");
            for pattern in &files.paths {
                let bad = |error: ignore::Error| BadPattern { pattern: pattern.clone(), detail: error.to_string() };
                builder.add_line(None, pattern).map_err(bad)?;
            }
            let bad = |error: ignore::Error| BadPattern { pattern: files.paths.join(" "), detail: error.to_string() };
            Ok(DerivedRule { paths: builder.build().map_err(bad)?, command: files.command.clone() })
        };
        derived.iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Only the rules with a command that makes one of these files.
    pub fn for_files<'p>(&self, files: impl IntoIterator<Item = &'p RepoPath>) -> Self {
        let commands: BTreeSet<&str> = files.into_iter().filter_map(|path| self.command_of(path)).collect();
        Self(self.0.iter().filter(|rule| commands.contains(rule.command.as_str())).cloned().collect())
    }

    /// The command that makes a file; the first rule that has it counts.
    pub fn command_of(&self, path: &RepoPath) -> Option<&str> {
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        let is_of = |rule: &&DerivedRule| rule.paths.matched_path_or_any_parents(path, false).is_ignore();
        self.0.iter().find(is_of).map(|rule| rule.command.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(given: &[(&[&str], &str)]) -> Result<DerivedRules, BadPattern> {
        let files = |(paths, command): &(&[&str], &str)| DerivedFiles {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            command: (*command).to_owned(),
        };
        DerivedRules::new(&given.iter().map(files).collect::<Vec<_>>())
    }

    #[test]
    fn files_are_derived_as_gitignore_has_patterns() {
        let rules =
            rules(&[(&["Cargo.lock", "/gen/", "!gen/keep.rs"], "make"), (&["*.snap", "*.lock"], "test")]).unwrap();
        let command = |path: &str| rules.command_of(&path.into());
        assert_eq!((command("Cargo.lock"), command("deep/Cargo.lock")), (Some("make"), Some("make")));
        assert_eq!((command("gen/a/b.rs"), command("x/gen/b.rs")), (Some("make"), None));
        assert_eq!((command("a/b.snap"), command("y.lock"), command("src/a.rs")), (Some("test"), Some("test"), None));
        assert_eq!(DerivedRules::default().command_of(&"a".into()), None);
        assert_eq!(rules.command_of(&RepoPath::new(&b"\xff.snap"[..])), Some("test"));
    }

    #[test]
    fn patterns_that_cannot_be_read_are_named() {
        let error = rules(&[(&["a", "[z-a]"], "make")]).unwrap_err();
        assert_eq!(error.pattern, "[z-a]");
    }
}
