//! The live line at the foot of a terminal: what is worked on, since when, and what it has cost.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pleach::budget::Amount;

use super::spent;
use crate::say;

/// How often it moves.
const TICK: Duration = Duration::from_millis(120);

/// What somebody works on.
#[derive(Debug, Default, Clone)]
pub struct Doing {
    /// The task or the node.
    pub id: String,
    /// The step of the task, or who works on the node.
    pub step: String,
    /// Which attempt, from 1.
    pub attempt: u32,
}

impl Doing {
    fn words(&self) -> String {
        let attempt = (self.attempt > 1).then(|| format!("attempt {}", self.attempt));
        let parts = [Some(self.id.clone()), Some(self.step.clone()), attempt];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// The current activity.
#[derive(Debug, Default, Clone)]
pub struct Now {
    /// What each of those at work does, by the name of the task or the branch.
    doing: BTreeMap<String, Doing>,
    /// The spending so far.
    pub spent: Amount,
}

impl Now {
    /// Somebody starts something.
    pub fn start(&mut self, who: &str, doing: Doing) {
        self.doing.insert(who.to_owned(), doing);
    }

    /// What somebody does changes.
    pub fn update(&mut self, who: &str, change: impl FnOnce(&mut Doing)) {
        if let Some(doing) = self.doing.get_mut(who) {
            change(doing);
        }
    }

    /// Somebody has ended.
    pub fn end(&mut self, who: &str) {
        self.doing.remove(who);
    }

    /// `T003 · test · attempt 2 · 12.3k tokens, $0.12`; of several, what each is at.
    fn words(&self) -> String {
        let doing = match self.doing.len() {
            0 | 1 => self.doing.values().map(Doing::words).collect(),
            // Who waits for its branches does nothing itself.
            _ => {
                let others = self.doing.iter().filter(|(who, _)| *who != "main");
                others.map(|(who, doing)| format!("{who}: {}", doing.id)).collect::<Vec<_>>().join(", ")
            }
        };
        let spent = (self.spent.turns > 0).then(|| spent(&self.spent));
        [Some(doing), spent].into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// The line, where there is a terminal to draw it on.
#[derive(Debug)]
pub struct Live {
    is_on: bool,
    begun: Instant,
    bar: Option<ProgressBar>,
    /// How many tasks are done, of how many.
    tasks: Option<(usize, usize)>,
    now: Now,
}

impl Live {
    /// A line that is drawn if it is wanted.
    pub fn new(is_on: bool, spent: Amount) -> Self {
        Self::with(is_on, None, Now { spent, ..Now::default() })
    }

    /// The same for a run over so many tasks.
    pub fn of_tasks(is_on: bool, all: usize) -> Self {
        Self::with(is_on, Some((0, all)), Now::default())
    }

    fn with(is_on: bool, tasks: Option<(usize, usize)>, now: Now) -> Self {
        let mut live = Self { is_on, begun: Instant::now(), bar: None, tasks, now };
        live.draw();
        live
    }

    /// Whether it is drawn.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Draws it, unless it is there already: a question puts it away.
    pub fn draw(&mut self) {
        if self.is_on && self.bar.as_ref().is_none_or(ProgressBar::is_finished) {
            self.bar = say::live(|target| bar(target, self.tasks, self.begun));
            self.show();
        }
    }

    /// Changes what continues.
    pub fn set(&mut self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now);
        self.show();
    }

    /// Changes how many tasks are done, of how many.
    pub fn count(&mut self, done: usize, all: usize) {
        self.tasks = Some((done, all));
        if let Some(bar) = &self.bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    }

    fn show(&self) {
        if self.bar.is_some() {
            say::show(self.now.words());
        }
    }

    /// Takes it away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// `42s`, `3m 07s`, `1h 02m`: nothing that changes more often than a clock does.
fn clock(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn bar(target: ProgressDrawTarget, tasks: Option<(usize, usize)>, begun: Instant) -> ProgressBar {
    let template = match tasks {
        Some(_) => "{spinner:.cyan} [{bar:20.green}] {pos}/{len} {clock} {wide_msg}",
        None => "{spinner:.cyan} {clock} {wide_msg}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let style = style.with_key("clock", |state: &ProgressState, text: &mut dyn Write| {
        let _ = text.write_str(&clock(state.elapsed()));
    });
    let bar = ProgressBar::with_draw_target(tasks.map(|(_, all)| all as u64), target).with_elapsed(begun.elapsed());
    if let Some((done, _)) = tasks {
        bar.set_position(done as u64);
    }
    bar.set_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use pleach::event::Usage;

    use super::*;

    #[test]
    fn empty_parts_are_left_out() {
        let mut now = Now::default();
        now.start("T003", Doing { id: "T003".into(), step: "test".into(), attempt: 1 });
        assert_eq!(now.words(), "T003 · test");
        now.update("T003", |doing| doing.attempt = 2);
        now.spent = Amount { turns: 1, ..Amount::of_call(Usage { input: 12_345, ..Usage::default() }, Some(0.12)) };
        assert_eq!(now.words(), "T003 · test · attempt 2 · 12.3k tokens, $0.12");
    }

    #[test]
    fn the_clock_shows_whole_seconds() {
        let shown = [0, 59, 60, 187, 3_720].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "59s", "1m 00s", "3m 07s", "1h 02m"]);
    }
}
