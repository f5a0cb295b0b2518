//! One thing that needs approval.

use std::collections::BTreeMap;

use super::linked_repos::linked_repos;
use super::{Error, hash};
use pleach_core::config::{Environment, Resolved, Source, Supplied, SuppliedKind, supplied, supplied_inputs};
use pleach_core::redact::is_secret_name;
use pleach_core::text::counted;

/// One thing that needs the user's approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustItem {
    /// Why it needs it.
    pub kind: SuppliedKind,
    /// Where it is, for the question.
    pub where_from: String,
    /// What it says, whole: the approval is to exactly this.
    pub text: String,
    /// What people see of it, where a part is secret.
    pub seen: Option<String>,
    /// Whether an approval of every command of the repository covers it.
    pub is_covered: bool,
}

impl TrustItem {
    /// A command.
    pub fn command(where_from: String, text: String) -> Self {
        Self { kind: SuppliedKind::Command, where_from, text, seen: None, is_covered: true }
    }

    /// A file that agents obey. It can name commands, and where an agent's key goes as well: it is approved by itself.
    pub(super) fn obeyed(where_from: String, text: String) -> Self {
        Self::command(where_from, text).elsewhere()
    }

    /// The same of another repository than the one whose approvals count.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { is_covered: false, ..self }
    }

    /// The text as people see it.
    pub fn seen(&self) -> &str {
        self.seen.as_deref().unwrap_or(&self.text)
    }

    /// What an approval to it is known by: the hash of the repository, why it is asked, and the exact text.
    pub fn key(&self, repo: &str) -> Result<String, Error> {
        hash(format!("{repo}\0{}\0{}", self.kind, self.text).as_bytes(), &self.where_from)
    }
}

impl From<Supplied> for TrustItem {
    fn from(supplied: Supplied) -> Self {
        let Supplied { kind, key, source, text } = supplied;
        let where_from = format!("{key}, {source}");
        // A command does the same wherever it is. What any other value does depends on the setting it is for.
        if kind == SuppliedKind::Command {
            return Self::command(where_from, text);
        }
        let is_variable = matches!(
            kind,
            SuppliedKind::Variable | SuppliedKind::KeyAddress | SuppliedKind::Input | SuppliedKind::Remote
        );
        let seen = if is_variable && is_secret_name(&key) {
            Some(format!("{key}: ({} that look secret)", counted(text.chars().count(), "character")))
        } else if is_variable {
            without_password(&text).map(|text| format!("{key}: {text}"))
        } else {
            None
        };
        Self { kind, where_from, text: format!("{key}: {text}"), seen, is_covered: false }
    }
}

/// What an approval of every command of a repository is known by, as long as that holds this token.
pub fn key_of_all_commands(repo: &str, token: &str) -> Result<String, Error> {
    hash(format!("{repo}\0every command\0{token}").as_bytes(), repo)
}

/// The inputs of a session, which came from `source`.
pub fn for_inputs(inputs: &BTreeMap<String, String>, source: &Source) -> Vec<TrustItem> {
    supplied_inputs(inputs, source).map(TrustItem::from).collect()
}

/// What needs approval before an agent plans tasks, which works in a directory of its own.
pub fn for_planner(resolved: &Resolved, environment: &Environment) -> Vec<TrustItem> {
    supplied(resolved, environment).into_iter().filter(concerns_planner).map(TrustItem::from).collect()
}

/// What needs approval before the repositories of a workspace are cloned or fetched: where they come from and go to.
pub fn for_workspace(resolved: &Resolved, environment: &Environment) -> Vec<TrustItem> {
    let is_of_workspace = |item: &Supplied| matches!(item.kind, SuppliedKind::Directory | SuppliedKind::Remote);
    let settings = supplied(resolved, environment).into_iter().filter(is_of_workspace);
    settings.chain(linked_repos(resolved)).map(TrustItem::from).collect()
}

/// What needs approval before records are copied to a mirror, or read from there.
pub fn for_mirror(resolved: &Resolved, environment: &Environment) -> Vec<TrustItem> {
    let all = supplied(resolved, environment).into_iter();
    all.filter(|item| item.kind == SuppliedKind::RecordAddress).map(TrustItem::from).collect()
}

/// Whether a planner could have anything to do with it: no task is worked, tested or merged, and no worktree set up.
fn concerns_planner(item: &Supplied) -> bool {
    !item.key.starts_with("tree.")
        && !matches!(item.kind, SuppliedKind::Directory | SuppliedKind::Remote)
        && !["test_command", "merge.test_command", "workspace.test_command", "worktrees.setup"]
            .contains(&item.key.as_str())
}

/// An address without the password in it; none when it has none. A password with anything in it but letters, digits and
/// a few marks is no plain one, and what could do something is never hidden.
fn without_password(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (user, host) = rest.split_once('@')?;
    let (name, password) = user.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~%+=!".contains(c);
    let is_plain = scheme.chars().chain(name.chars()).chain(password.chars()).all(plain);
    (is_plain && !password.is_empty()).then(|| format!("{scheme}://{name}:…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_are_recognized_by_repository_kind_and_text() {
        let key = |repo: &str, place: &str, text: &str| {
            TrustItem::command(place.to_owned(), text.to_owned()).key(repo).expect("it deceives nobody")
        };
        // Written out: approvals that are kept somewhere must continue to count.
        assert_eq!(key("/a/.git", "pleach.yaml:1", "make"), "c2d7d493fbd6980c825b7691409baeed64c0e854");
        assert_eq!(key("/a/.git", "pleach.yaml:2", "make"), key("/a/.git", "pleach.yaml:1", "make"));
        assert_ne!(key("/b/.git", "pleach.yaml:1", "make"), key("/a/.git", "pleach.yaml:1", "make"));
        assert_ne!(key("/a/.git", "pleach.yaml:1", "make "), key("/a/.git", "pleach.yaml:1", "make"));
    }

    #[test]
    fn of_an_address_the_password_alone_is_hidden() {
        assert_eq!(without_password("postgres://me:pw@h:1/db").as_deref(), Some("postgres://me:…@h:1/db"));
        for open in
            ["https://h/x", "https://me@h", "https://me:@h", "|a://b:$(x)@c", "a://b:c/d@e", "a://b:`x`@c", "a b"]
        {
            assert_eq!(without_password(open), None, "{open}");
        }
    }
}
