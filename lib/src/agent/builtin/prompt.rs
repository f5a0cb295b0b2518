//! What the built-in agent is told before its task.

use std::path::Path;

use super::Limits;
use super::jail::Jail;
use crate::agent::Job;

/// Files with a project's own rules, in the order they are read in each directory.
const RULES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// How many bytes of them are told.
const BUDGET: usize = 32 << 10;

/// The system prompt of a job.
pub(super) fn system(job: &Job, jail: &Jail, limits: &Limits) -> String {
    let mut text = format!(
        "You are a software engineer working on step `{}` of a pipeline. Nobody watches and nobody can answer a \
         question: decide yourself, do the task as far as it goes, and end with a short account of what you did and \
         what is left.\n",
        job.node
    );
    if job.tools {
        text.push_str(&rules(job, limits));
    } else {
        text.push_str("\nYou have no tools in this step. Answer in words.\n");
    }
    let project = project_rules(jail);
    if !project.is_empty() {
        text.push_str("\n# Rules of this project\n");
        text.push_str(&project);
    }
    text
}

fn rules(job: &Job, limits: &Limits) -> String {
    format!(
        "
# Working directory
You work in `{cwd}`, a copy of the repository made for this run. Paths are relative to it. The file tools reach
nothing outside it and do not write to `.git`; keep shell commands inside it too. What you change is committed for
you after every answer, so do not commit, and do not switch branches.

# Bounds
You have at most {turns} answers for this task. A shell command has {default} s unless you ask for more, up to {most} s;
it has no terminal and no input, and what it leaves running is ended with it. Long output is cut in the middle. Several
tools in one answer are run one after the other, in your order.

# Outcome
If the step did not simply succeed, write its outcome to `{status}` as JSON:
{{\"outcome\": \"success|retry|fail|partial_success\", \"preferred_label\": \"\", \"suggested_next_ids\": [], \
         \"context_updates\": {{}}, \"notes\": \"\"}}
Only `outcome` is needed. Without the file, ending normally counts as success.
",
        cwd = job.cwd.display(),
        turns = limits.turns(),
        default = limits.command_timeout.as_secs(),
        most = limits.max_command_timeout.as_secs(),
        status = job.status_file.display(),
    )
}

/// AGENTS.md and CLAUDE.md of every directory from the root to where the agent works, nearest last.
fn project_rules(jail: &Jail) -> String {
    let mut text = String::new();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for directory in jail.directories_to_start() {
        for name in RULES {
            let path = directory.join(name);
            let Some(content) = read(jail, &path).filter(|content| !content.trim_ascii().is_empty()) else { continue };
            // The one is often a link to the other.
            if seen.contains(&content) {
                continue;
            }
            let left = BUDGET.saturating_sub(seen.iter().map(Vec::len).sum());
            let cut = content.len() > left;
            let shown = String::from_utf8_lossy(&content[..content.len().min(left)]).into_owned();
            text.push_str(&format!("\n## {}\n{}\n", path.display(), shown.trim_end_matches('\u{fffd}').trim_end()));
            if cut {
                text.push_str(&format!("[cut: project rules are read up to {} KB]\n", BUDGET >> 10));
                return text;
            }
            seen.push(content);
        }
    }
    text
}

fn read(jail: &Jail, path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut content = Vec::new();
    let file = jail.open_inside(path).ok()?;
    // One byte more than the budget shows that there is more.
    file.take(BUDGET as u64 + 1).read_to_end(&mut content).ok()?;
    Some(content)
}
