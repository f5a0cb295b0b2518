//! The environment variables a child inherits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use pleach_core::config::Environment;
use pleach_core::redact::is_secret_value;

/// Variables that locate a repository, its index or its objects, or say how to read it. A git hook or alias that starts
/// pleach sets some of them, and every child git would then work on that repository.
const LOCATES_A_REPOSITORY: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// The socket of the agent that holds the user's keys, and logs in and signs for every process that asks.
const KEY_HOLDER: &str = "SSH_AUTH_SOCK";

/// The variables to remove so that a child's git finds the repository by its directory.
pub(super) fn repository_locators() -> impl Iterator<Item = &'static str> {
    LOCATES_A_REPOSITORY.iter().copied()
}

/// The environment of every command: without secrets, unless they are in `passed`, and without repository locators.
pub(super) fn inherited(environment: &Environment, passed: &[String]) -> BTreeMap<OsString, OsString> {
    let is_passed = |name: &OsStr| passed.iter().any(|passed| name == passed.as_str());
    let locates = |name: &OsStr| LOCATES_A_REPOSITORY.iter().any(|known| name == *known);
    // Secret by name or by value.
    let is_secret = |name: &OsStr, value: &OsStr| {
        name == KEY_HOLDER || environment.is_secret(name) || is_secret_value(&value.to_string_lossy())
    };
    let kept =
        environment.iter().filter(|(name, value)| (is_passed(name) || !is_secret(name, value)) && !locates(name));
    kept.map(|(name, value)| (name.to_os_string(), value.to_os_string())).collect()
}

/// `base` with a command's own additions and removals.
pub(super) fn with_changes(
    base: &BTreeMap<OsString, OsString>,
    changes: &[(OsString, Option<OsString>)],
) -> BTreeMap<OsString, OsString> {
    let mut env = base.clone();
    for (name, value) in changes {
        match value {
            Some(value) => env.insert(name.clone(), value.clone()),
            None => env.remove(name),
        };
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(env: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        env.keys().map(|name| name.to_str().expect("test names are text")).collect()
    }

    #[test]
    fn a_child_inherits_the_rest() {
        let all = [("PATH", "/bin"), ("GIT_DIR", "/x"), ("GIT_SSH_COMMAND", "ssh"), ("HOME", "/h"), ("NPM_TOKEN", "t")];
        assert_eq!(names(&inherited(&Environment::from_pairs(all), &[])), ["GIT_SSH_COMMAND", "HOME", "PATH"]);
    }

    #[test]
    fn a_secret_is_passed_by_its_name_alone() {
        let all = [
            ("DATABASE_URL", "postgres://me:pw@db/x"),
            ("GIT_DIR", "/x"),
            ("NPM_TOKEN", "t"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("URL", "https://db/x"),
        ];
        let environment = Environment::from_pairs(all);
        assert_eq!(names(&inherited(&environment, &[])), ["URL"]);
        for name in ["DATABASE_URL", "NPM_TOKEN", "SSH_AUTH_SOCK"] {
            assert_eq!(names(&inherited(&environment, &[name.to_owned(), "GIT_DIR".to_owned()])), [name, "URL"]);
        }
    }

    #[test]
    fn what_is_said_to_be_a_secret_is_one() {
        let all = [("GARDEN", "k"), ("HEDGE", "h")];
        let environment = Environment::from_pairs(all).with_secrets(["GARDEN"]);
        assert_eq!(names(&inherited(&environment, &[])), ["HEDGE"]);
        assert_eq!(names(&inherited(&environment, &["GARDEN".to_owned()])), ["GARDEN", "HEDGE"]);
    }

    #[test]
    fn a_command_adds_and_removes() {
        let base = inherited(&Environment::from_pairs([("A", "1"), ("B", "2")]), &[]);
        let env = with_changes(&base, &[("B".into(), None), ("C_TOKEN".into(), Some("given".into()))]);
        assert_eq!(names(&env), ["A", "C_TOKEN"]);
    }
}
