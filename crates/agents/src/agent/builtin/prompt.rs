//! The system prompt of the built-in agent. What is the same for every agent of a run comes first, so that servers
//! which remember prompts know it again; what is about one step goes with its task.

use std::path::{Path, PathBuf};

use super::BuiltinLimits;
use crate::agent::repo_context::describe_repos;
use crate::agent::{Job, Profile, RepoContext, bounds};
use os::confined_fs::Jail;

/// Files with a project's own rules, in the order they are read in each directory.
const RULES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// How many bytes of them are included.
const BUDGET: usize = 32 << 10;

/// The system prompt of a job, and how much of it is the same for every agent of the run, in bytes.
pub(super) fn system(job: &Job, jail: &Jail, limits: &BuiltinLimits, profile: &Profile) -> (String, usize) {
    let mut text =
        "You are a software engineer working on one step of a pipeline. Nobody watches and nobody can answer a \
         question: decide yourself, do the task as far as it goes, and end with a short account of what you did and \
         what is left.\n"
            .to_owned();
    if job.tools {
        text.push_str(&rules(limits));
    }
    if let Some(sandbox) = job.sandbox.as_ref().filter(|_| job.tools) {
        text.push_str(&format!("\n# Sandbox\n{}\n", bounds::describe(sandbox)));
    }
    let project = project_rules(jail, &job.repos);
    if !project.is_empty() {
        text.push_str("\n# Rules of this project\n");
        text.push_str(&project);
    }
    let shared = text.len();
    text.push_str(&profile.text());
    (text, shared)
}

/// The description of the step a task belongs to.
pub(super) fn about(job: &Job) -> String {
    let node = format!("This is step `{}` of the pipeline.", job.node);
    if !job.tools {
        return format!("{node} You have no tools in this step. Answer in words.");
    }
    let (cwd, status) = (job.cwd.display(), job.status_file.display());
    let about = format!("{node} You work in `{cwd}`. An outcome other than success goes to `{status}`.");
    match describe_repos(&job.repos) {
        Some(repos) => format!(
            "{about}\n\n{repos}\nTools with the name of a repository before a colon work in that one, the others where \
             you work."
        ),
        None => about,
    }
}

fn rules(limits: &BuiltinLimits) -> String {
    format!(
        "
# Working directory
You work in a copy of the repository made for this run. Paths are relative to it. The file tools reach nothing outside it
and do not write to `.git`; keep shell commands inside it too. {commits}

# Bounds
You have at most {turns} answers for this task. A shell command has {default} s unless you ask for more, up to {most} s;
it has no terminal and no input, and what it leaves running is ended with it. Long output is cut in the middle. Several
tools in one answer are run one after the other, in your order.

# Outcome
If the step did not simply succeed, write its outcome as JSON to the file that is named with the task:
{{\"outcome\": \"success|retry|fail|partial_success\", \"preferred_label\": \"\", \"suggested_next_ids\": [], \
         \"context_updates\": {{}}, \"notes\": \"\"}}
Only `outcome` is needed. Without the file, ending normally counts as success.
",
        commits = bounds::COMMITS,
        turns = limits.turns(),
        default = limits.command_timeout.as_secs(),
        most = limits.max_command_timeout.as_secs(),
    )
}

/// AGENTS.md and CLAUDE.md of every directory from the root to where the agent works, nearest last, and of several
/// repositories those of each.
fn project_rules(jail: &Jail, repos: &[RepoContext]) -> String {
    let own = jail.directories_to_start().into_iter().map(|dir| (jail, dir.clone(), dir));
    let several = repos.iter().filter(|_| repos.len() > 1);
    let several: Vec<(Jail, PathBuf)> = several
        .filter_map(|repo| Some((Jail::new(&repo.path, &repo.path, None).ok()?, PathBuf::from(repo.name.as_str()))))
        .collect();
    let of_repos = several.iter().map(|(jail, shown)| (jail, PathBuf::new(), shown.clone()));
    let mut text = String::new();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (jail, directory, shown) in own.chain(of_repos) {
        for name in RULES {
            let content = read(jail, &directory.join(name)).filter(|content| !content.trim_ascii().is_empty());
            let (Some(content), path) = (content, shown.join(name)) else { continue };
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use pleach_core::ids::NodeId;

    fn prompt_of(dir: &TempDir, start: &str, change: impl FnOnce(&mut Job)) -> String {
        let mut job = Job::new(NodeId::new("implement").unwrap(), "task", dir.path(), "/state/status.json");
        job.cwd = dir.path().join(start);
        change(&mut job);
        let jail = Jail::new(&job.root, &job.cwd, None).unwrap();
        let (system, shared) = system(&job, &jail, &BuiltinLimits::default(), &Profile::default());
        assert_eq!(shared, system.len());
        assert!(!system.contains(dir.path().to_str().unwrap()) && !system.contains("implement"), "{system}");
        format!("{}\n{system}", about(&job))
    }

    #[test]
    fn the_prompt_names_directory_sandbox_and_status_file() {
        let dir = TempDir::new().unwrap();
        let text = prompt_of(&dir, ".", |_| {});
        for fact in [
            "step `implement`",
            "at most 200 answers",
            "has 10 s",
            "up to 600 s",
            "`/state/status.json`",
            "\"outcome\"",
        ] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        assert!(text.contains(&format!("You work in `{}", dir.path().display())), "{text}");
        assert!(!text.contains("Rules of this project"));
        let text = prompt_of(&dir, ".", |job| job.tools = false);
        assert!(text.contains("no tools") && !text.contains("status.json"), "{text}");
    }

    #[test]
    fn rules_are_read_from_root_to_working_directory() {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
        fs::write(dir.path().join("AGENTS.md"), "root rules").unwrap();
        symlink("AGENTS.md", dir.path().join("CLAUDE.md")).unwrap();
        fs::write(dir.path().join("sub/CLAUDE.md"), "sub rules").unwrap();
        fs::write(dir.path().join("sub/deep/AGENTS.md"), "too deep").unwrap();
        symlink("/etc/passwd", dir.path().join("sub/AGENTS.md")).unwrap();
        let text = prompt_of(&dir, "sub", |_| {});
        let rules = text.split("# Rules of this project\n").nth(1).unwrap();
        assert_eq!(rules, "\n## AGENTS.md\nroot rules\n\n## sub/CLAUDE.md\nsub rules\n");
    }

    #[test]
    fn rules_have_a_budget() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("AGENTS.md"), "a".repeat(BUDGET - 5)).unwrap();
        fs::write(dir.path().join("CLAUDE.md"), "\u{e4}".repeat(100)).unwrap();
        let text = prompt_of(&dir, ".", |_| {});
        assert_eq!(text.matches('\u{e4}').count(), 2, "five bytes hold two of them");
        assert!(text.ends_with("[cut: project rules are read up to 32 KB]\n") && !text.contains('\u{fffd}'));
    }
}
