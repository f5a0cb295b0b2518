//! What working several tasks of a tree at once gains: `cargo xtask bench jobs`.

use std::error::Error;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::options::Options;
use super::verdict::Verdicts;
use super::world::World;
use super::{cpu, files};

const TASKS: usize = 40;
const JOBS: usize = 4;

/// Files of the repository: a small one.
const FILES: usize = 100;

/// How long a test takes.
const TEST: &str = "sleep 0.05";

const FASTER: f64 = 3.0;

/// An agent that approves at once, and otherwise works for a second on the file its task names.
const AGENT: &str = "\
#!/bin/sh
if [ \"$PLEACH_NODE\" = review ]; then echo APPROVED; exit; fi
file=$(sed -n 's/.*Write the file \\([^ ]*\\) .*/\\1/p' | head -n 1)
sleep 1
echo done > \"$file\"
";

/// What a run took.
#[derive(Debug, Clone, Copy)]
struct JobsRun {
    /// Seconds.
    wall: f64,
    /// Milliseconds, of the program and everything it started.
    cpu: f64,
}

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let tasks = options.tasks.unwrap_or(if options.quick { 3 * JOBS } else { TASKS });
    println!("{tasks} tasks whose agent takes 1 s and whose test is `{TEST}`; repository of {FILES} files");
    println!("{:<12} {:>10} {:>14} {:>14}", "", "wall, s", "wall/task, ms", "CPU/task, ms");
    let [one, several] = [1, JOBS].map(|jobs| -> Result<JobsRun, Box<dyn Error>> {
        let run = garden(pleach, tasks, jobs)?;
        let each = tasks as f64;
        let name = format!("--jobs {jobs}");
        println!("{name:<12} {:>10.2} {:>14.0} {:>14.1}", run.wall, run.wall * 1e3 / each, run.cpu / each);
        Ok(run)
    });
    let (one, several) = (one?, several?);
    println!("--jobs {JOBS}: {:.2} × the CPU of --jobs 1", several.cpu / one.cpu);
    let mut verdicts = Verdicts::default();
    verdicts.at_least(&format!("{tasks} tasks, --jobs {JOBS} against --jobs 1"), one.wall / several.wall, FASTER, " ×");
    Ok(verdicts)
}

/// Works a tree of tasks that do not depend on each other.
fn garden(pleach: &Path, tasks: usize, jobs: usize) -> Result<JobsRun, Box<dyn Error>> {
    let world = World::new()?;
    let repo = files::repository(&world, "repo", FILES)?;
    std::fs::write(repo.join("task-tree.json"), tree(tasks).to_string())?;
    world.git(&repo, &["add", "--all"])?;
    world.git(&repo, &["commit", "--quiet", "-m", "Plan"])?;
    let agent = world.root().join("agent");
    std::fs::write(&agent, AGENT)?;
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755))?;
    let (runner, jobs) = (format!("command:{}", agent.display()), jobs.to_string());
    let mut command = world.program(pleach, &repo);
    command.args(["--yes", "gardener", "--runner", &runner, "--test-command", TEST, "--jobs", &jobs]);
    let (before, begun) = (cpu::of_children()?, Instant::now());
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), (cpu::of_children()? - before).as_secs_f64() * 1e3);
    let landed = world.git(&repo, &["ls-files", "part-*.txt"])?.lines().count();
    if !output.status.success() || landed != tasks {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{landed} of {tasks} tasks landed: {}\n{said}", output.status).into());
    }
    Ok(JobsRun { wall, cpu })
}

/// Tasks that each write a file of their own.
fn tree(tasks: usize) -> Value {
    let task = |number: usize| {
        let id = format!("T{number:03}");
        let description = format!("Write the file part-{number:03}.txt with part {number} of the importer.");
        (id.clone(), json!({"id": id, "name": format!("Part {number}"), "description": description}))
    };
    json!({"nodes": (1..=tasks).map(task).collect::<Map<_, _>>()})
}
