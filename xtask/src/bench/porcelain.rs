//! The steps of tasks as a tool does them that asks the git program for everything: what a task is measured against.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use super::tree::Mark;
use super::world::World;
use super::{cpu, files};

/// The git processes of a task: two to find out where it stands, and five for each of its steps.
pub const PROCESSES: usize = 2 + 5 * STEPS.len();

/// The steps of a task, with the directory and the ending of the file each leaves behind.
const STEPS: [(&str, Option<(&str, &str)>); 4] = [
    ("implement-pass", Some(("logs", "implement.log"))),
    ("test-pass", None),
    ("review-approved", Some(("logs", "review.log"))),
    ("complete", Some(("reports", "run.json"))),
];

/// Does the steps of so many tasks that change nothing, and looks at the processor time after each task.
pub fn run(world: &World, tasks: usize) -> Result<Vec<Mark>, Box<dyn Error>> {
    let repo = files::repository(world, "by-hand", 100)?;
    for dir in ["logs", "reports"] {
        std::fs::create_dir(repo.join(dir))?;
    }
    let mark = |git_calls| {
        let cpu = cpu::of_children()?;
        Ok::<_, Box<dyn Error>>(Mark { at: Instant::now(), cpu, git_calls, packs: 0 })
    };
    let mut marks = vec![mark(0)?];
    for number in 1..=tasks {
        task(world, &repo, &format!("T{number:04}"))?;
        marks.push(mark(number * PROCESSES)?);
    }
    std::fs::remove_dir_all(&repo)?;
    Ok(marks)
}

fn task(world: &World, repo: &Path, id: &str) -> Result<(), Box<dyn Error>> {
    let git = |args: &[&str]| world.git(repo, args);
    let branch = git(&["rev-parse", "--abbrev-ref", "HEAD"])?;
    let done = git(&["log", "-1", "--fixed-strings", &format!("--grep=task({branch}@{id}@"), "--format=%H%n%B"])?;
    if !done.is_empty() {
        return Err(format!("{id} was worked before").into());
    }
    for (status, file) in STEPS {
        if let Some((dir, ending)) = file {
            std::fs::write(repo.join(dir).join(format!("{id}_{ending}")), format!("{id} {status}\n"))?;
        }
        git(&["status", "--porcelain"])?;
        git(&["add", "--all"])?;
        git(&["diff", "--cached", "--stat"])?;
        let message = format!("task({branch}@{id}@{status}): Part of the importer\n\nArborist-Step: {status}\n");
        git(&["commit", "--quiet", "--allow-empty", "-m", &message])?;
        git(&["rev-parse", "HEAD"])?;
    }
    Ok(())
}
