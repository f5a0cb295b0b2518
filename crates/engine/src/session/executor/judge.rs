//! A fan-in whose agent chooses one of the branches: what it is told, and how its answer is read.

use crate::env::{Error, SessionRepos};
use pleach_core::ids::ContextId;
use pleach_core::state::{Branch, FanOut, State};
use pleach_core::text::listed;

/// What the last line of the answer begins with.
const BEST: &str = "BEST:";

/// How many changed files of a branch are named.
const NAMED: usize = 20;

/// The branches that can be chosen.
pub(crate) fn candidates(fan_out: &FanOut) -> Vec<&Branch> {
    fan_out.branches.iter().filter(|branch| branch.has_succeeded()).collect()
}

/// What the agent is told about the branches it has to choose from.
pub(super) fn prompt(repos: &SessionRepos, state: &State, candidates: &[&Branch]) -> Result<String, Error> {
    let mut text = String::from("These branches are to be compared:\n");
    for branch in candidates {
        let Some(ended) = &branch.ended else { continue };
        text.push_str(&format!("\n- {} ({})", branch.of.context, ended.outcome.status));
        if let Some(notes) = &ended.outcome.notes {
            text.push_str(&format!(": {notes}"));
        }
        for (name, commit) in &ended.work {
            let (Some(repo), Some(base)) = (repos.get(name), state.work.get(name)) else { continue };
            let changes = git::diff::changes(repo, repo.tree_of(*base)?, repo.tree_of(*commit)?)?;
            let paths = changes.iter().map(|change| format!("`{}`", change.path));
            let paths = if changes.is_empty() { "nothing".to_owned() } else { listed(paths, NAMED) };
            let at = if ended.work.len() > 1 { format!(" in {name}") } else { String::new() };
            text.push_str(&format!("\n  changes {paths}{at}; see them with `git diff {base} {commit}`"));
        }
    }
    let names = candidates.iter().map(|branch| branch.of.context.as_str()).collect::<Vec<_>>().join(", ");
    text.push_str(&format!(
        "\n\nChoose the best one. End your answer with a line of its own that names it, one of {names}:\n{BEST} NAME"
    ));
    Ok(text)
}

/// The branch an answer chooses: the one its last `BEST:` line names, or the only one its last line names.
pub(crate) fn choice<'b>(answer: &str, candidates: &[&'b Branch]) -> Option<&'b Branch> {
    let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let marked = lines.iter().rev().find_map(|line| {
        let at = line.to_ascii_uppercase().find(BEST)?;
        line.get(at + BEST.len()..)
    });
    let named = marked.or(lines.last().copied())?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words: Vec<&str> = named.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let mut chosen = candidates.iter().filter(|branch| words.contains(&branch.of.context.as_str()));
    match (chosen.next(), chosen.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// The names of branches, for a message.
pub(crate) fn names(candidates: &[&Branch]) -> String {
    let names: Vec<&ContextId> = candidates.iter().map(|branch| &branch.of.context).collect();
    listed(names.iter().map(|name| format!("`{name}`")), NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::event::ParallelBranch;

    #[test]
    fn the_choice_is_read_from_the_end_of_the_answer() {
        let branch = |name: &str| Branch {
            of: ParallelBranch { context: name.parse().unwrap(), node_id: "n".parse().unwrap(), read_only: false },
            ended: None,
        };
        let branches = [branch("a"), branch("b"), branch("a-2")];
        let candidates: Vec<&Branch> = branches.iter().collect();
        let chosen = |answer: &str| choice(answer, &candidates).map(|branch| branch.of.context.to_string());
        assert_eq!(chosen("a is short, b is right.\n\nBEST: b").as_deref(), Some("b"));
        assert_eq!(chosen("**Best: `a-2`**\n").as_deref(), Some("a-2"));
        assert_eq!(chosen("BEST: a\nno, wait\nBEST: b\nThanks!").as_deref(), Some("b"));
        assert_eq!(chosen("I take b.").as_deref(), Some("b"));
        assert_eq!(chosen("a or b"), None);
        assert_eq!(chosen("BEST: c"), None);
        assert_eq!(chosen(""), None);
    }
}
