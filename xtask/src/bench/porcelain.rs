//! The steps of tasks as tools do them that ask the git program for everything: what a task is measured against.

use std::cell::Cell;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::cost::Mark;
use super::world::World;
use super::{cpu, files};

/// Files of the repository: a small one.
pub const FILES: usize = 100;

/// The git processes of a task, either way.
pub const PROCESSES: usize = 22;

/// The tasks of a tree that is worked by [`Way::Searching`], and how often each is looked for before one is begun.
const SEARCHED: (usize, usize) = (3, 3);

/// The steps of a task, each with what it leaves behind.
const STEPS: [(&str, Option<Left>); 4] = [
    ("implement-pass", Some(Left { dir: "logs", what: "implement", ending: "log" })),
    ("test-pass", None),
    ("review-approved", Some(Left { dir: "logs", what: "review", ending: "log" })),
    ("complete", Some(Left { dir: "reports", what: "run", ending: "json" })),
];

/// A file a step leaves behind, named as pleach names it.
#[derive(Debug, Clone, Copy)]
struct Left {
    dir: &'static str,
    what: &'static str,
    ending: &'static str,
}

impl Left {
    fn write(self, repo: &Path, number: usize) -> Result<(), Box<dyn Error>> {
        let Self { dir, what, ending } = self;
        let (dir, id) = (repo.join(dir), id(number));
        std::fs::create_dir_all(&dir)?;
        Ok(std::fs::write(dir.join(format!("{id}_{what}_20261101T120000.{ending}")), format!("{id} {what}\n"))?)
    }
}

/// Writes the logs and reports of so many tasks.
pub fn leave_all(repo: &Path, tasks: usize) -> Result<(), Box<dyn Error>> {
    for left in STEPS.into_iter().filter_map(|(_, left)| left) {
        (0..tasks).try_for_each(|number| left.write(repo, number))?;
    }
    Ok(())
}

/// Where its processes go.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Nine search the history for what is done, as Arborist does in a tree of three tasks: each is looked for by the
    /// loop, by the choice of the next and once more by its work. Three make a step, and one shows a review what changed.
    Searching,
    /// Two find out where the task stands, and five look at each step before they commit it.
    Looking,
}

impl Way {
    /// The one that is judged comes first.
    pub const ALL: [Self; 2] = [Self::Searching, Self::Looking];

    pub fn name(self) -> &'static str {
        match self {
            Self::Searching => "searching",
            Self::Looking => "looking",
        }
    }

    /// Does the steps of so many tasks that change nothing, and looks at the processor time after each task.
    pub fn run(self, world: &World, tasks: usize) -> Result<Vec<Mark>, Box<dyn Error>> {
        let by_hand = ByHand::begin(world)?;
        let mark = || {
            let cpu = cpu::of_children()?;
            Ok::<_, Box<dyn Error>>(Mark { at: Instant::now(), cpu, git_calls: by_hand.calls.get(), packs: 0 })
        };
        let mut marks = vec![mark()?];
        for number in 0..tasks {
            match self {
                Self::Searching => by_hand.search(number)?,
                Self::Looking => by_hand.look(number)?,
            }
            marks.push(mark()?);
        }
        if by_hand.calls.get() != tasks * PROCESSES {
            return Err(format!("{} git processes for {tasks} tasks", by_hand.calls.get()).into());
        }
        std::fs::remove_dir_all(&by_hand.repo)?;
        Ok(marks)
    }
}

/// A repository whose tasks are done with the git program.
struct ByHand<'w> {
    world: &'w World,
    repo: PathBuf,
    /// The commit the run began with.
    start: String,
    calls: Cell<usize>,
}

impl<'w> ByHand<'w> {
    fn begin(world: &'w World) -> Result<Self, Box<dyn Error>> {
        let repo = files::repository(world, "by-hand", FILES)?;
        let message = "task(main@@run-start): run started\n\nArborist-Step: run-start\n";
        world.git(&repo, &["commit", "--quiet", "--allow-empty", "-m", message])?;
        let start = world.git(&repo, &["rev-parse", "HEAD"])?;
        Ok(Self { world, repo, start, calls: Cell::new(0) })
    }

    fn git(&self, args: &[&str]) -> Result<String, Box<dyn Error>> {
        self.calls.set(self.calls.get() + 1);
        self.world.git(&self.repo, args)
    }

    fn search(&self, number: usize) -> Result<(), Box<dyn Error>> {
        let (tree, times) = SEARCHED;
        let first = number - number % tree;
        for _ in 0..times {
            for other in first..first + tree {
                let is_done = !self.newest_step(other)?.is_empty();
                if is_done != (other < number) {
                    return Err(format!("the history is wrong about task {other}").into());
                }
            }
        }
        for (status, left) in STEPS {
            if status.starts_with("review") {
                self.git(&["diff", "--stat", &format!("{}..HEAD", self.start)])?;
            }
            left.map_or(Ok(()), |left| left.write(&self.repo, number))?;
            self.git(&["add", "-A"])?;
            self.commit(number, status)?;
            self.git(&["rev-parse", "HEAD"])?;
        }
        Ok(())
    }

    fn look(&self, number: usize) -> Result<(), Box<dyn Error>> {
        self.git(&["rev-parse", "--abbrev-ref", "HEAD"])?;
        if !self.newest_step(number)?.is_empty() {
            return Err(format!("task {number} was worked before").into());
        }
        for (status, left) in STEPS {
            left.map_or(Ok(()), |left| left.write(&self.repo, number))?;
            self.git(&["status", "--porcelain"])?;
            self.git(&["add", "-A"])?;
            self.git(&["diff", "--cached", "--stat"])?;
            self.commit(number, status)?;
            self.git(&["rev-parse", "HEAD"])?;
        }
        Ok(())
    }

    /// The trailers of the newest commit of a task.
    fn newest_step(&self, number: usize) -> Result<String, Box<dyn Error>> {
        let grep = format!("--grep=task(main@{}@", id(number));
        self.git(&["log", "-n1", "--fixed-strings", &grep, "--format=%(trailers)", "HEAD"])
    }

    fn commit(&self, number: usize, status: &str) -> Result<(), Box<dyn Error>> {
        let id = id(number);
        let message = format!("task(main@{id}@{status}): Part of the importer\n\nArborist-Step: {status}\n");
        self.git(&["commit", "--quiet", "--allow-empty", "-m", &message])?;
        Ok(())
    }
}

fn id(number: usize) -> String {
    format!("P{number:04}")
}
