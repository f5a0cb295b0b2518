//! What tasks cost: read off a run when each has ended.

use std::time::{Duration, Instant};

/// So many tasks at the beginning and at the end are compared.
pub const END: usize = 10;

/// How a run stood when a task had ended.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub at: Instant,
    pub cpu: Duration,
    pub git_calls: usize,
    /// The packs of the repository.
    pub packs: usize,
}

/// What a task costs, on average over some.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
    pub git: f64,
}

impl Cost {
    /// Of the tasks between the marks of each run.
    fn between<'m>(runs: impl Iterator<Item = &'m [Mark]>) -> Self {
        Self::of(runs.flat_map(|marks| marks.windows(2)))
    }

    /// The same without tasks that set off a pack: those pay for dozens of others.
    fn without_packs<'m>(runs: impl Iterator<Item = &'m [Mark]>) -> Self {
        Self::of(runs.flat_map(|marks| marks.windows(2)).filter(|ends| ends[0].packs == ends[1].packs))
    }

    /// The mean of tasks, each from the mark before it to its own.
    fn of<'m>(tasks: impl Iterator<Item = &'m [Mark]>) -> Self {
        let (mut wall, mut cpu, mut git, mut number) = (0.0, 0.0, 0.0, 0.0_f64);
        for ends in tasks {
            wall += (ends[1].at - ends[0].at).as_secs_f64() * 1e3;
            cpu += (ends[1].cpu - ends[0].cpu).as_secs_f64() * 1e3;
            git += (ends[1].git_calls - ends[0].git_calls) as f64;
            number += 1.0;
        }
        let number = number.max(1.0);
        Self { wall: wall / number, cpu: cpu / number, git: git / number }
    }
}

/// The whole of a run, and its ends without packing.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    pub all: Cost,
    /// What packing has added to it, spread over all tasks.
    pub packing: f64,
    pub first: Cost,
    pub last: Cost,
}

impl Costs {
    /// The first mark of each is the start of the run. What comes before the first task is left out of the first ones: it
    /// is there once, however many tasks follow.
    pub fn of(runs: &[Vec<Mark>]) -> Self {
        let whole = || runs.iter().map(Vec::as_slice);
        let end = |marks: &[Mark]| END.min(marks.len() - 2);
        let all = Cost::between(whole());
        Self {
            all,
            packing: all.cpu - Cost::without_packs(whole()).cpu,
            first: Cost::without_packs(whole().map(|marks| &marks[1..=1 + end(marks)])),
            last: Cost::without_packs(whole().map(|marks| &marks[marks.len() - 1 - end(marks)..])),
        }
    }

    /// Without what the tasks' own commands take.
    pub fn without(self, commands: f64) -> Self {
        let less = |cost: Cost| Cost { cpu: cost.cpu - commands, ..cost };
        Self { all: less(self.all), first: less(self.first), last: less(self.last), ..self }
    }

    pub fn print(&self, name: &str) {
        let Self { all, packing, first, last } = self;
        println!(
            "{name:<34} {:>8.1} {packing:>8.1} {:>8.1} {:>8.1} {:>9.1} {:>8.1} {:>8.2}",
            all.cpu, first.cpu, last.cpu, all.wall, last.wall, all.git
        );
    }
}
