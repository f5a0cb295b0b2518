//! The live lines at the foot of a terminal: what is worked on, since when, and what it has cost. One line, or where
//! several work at once one more for each of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pleach_core::budget::Amount;
use pleach_core::ids::ContextId;

use super::spent;
use crate::say;

/// How often it moves.
const TICK: Duration = Duration::from_millis(120);

/// How many of those at work have a line of their own.
const LINES: usize = 8;

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
    /// What each of those at work does and since when, by the name of the task or the branch.
    doing: BTreeMap<String, (Doing, Option<Instant>)>,
    /// The spending so far.
    pub spent: Amount,
}

impl Now {
    /// Somebody starts something.
    pub fn start(&mut self, who: &str, doing: Doing) {
        self.doing.insert(who.to_owned(), (doing, Some(Instant::now())));
    }

    /// What somebody does changes.
    pub fn update(&mut self, who: &str, change: impl FnOnce(&mut Doing)) {
        if let Some((doing, _)) = self.doing.get_mut(who) {
            change(doing);
        }
    }

    /// Somebody has ended.
    pub fn end(&mut self, who: &str) {
        self.doing.remove(who);
    }

    /// `T003 · test · attempt 2 · 12.3k tokens, $0.12`; of several, how many there are.
    fn words(&self) -> String {
        let doing = match self.at_work()[..] {
            [] => String::new(),
            [(_, (doing, _))] => doing.words(),
            ref several => format!("{} at once", several.len()),
        };
        let spent = (self.spent.turns > 0).then(|| spent(&self.spent));
        [Some(doing), spent].into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    /// What each of several does, and since when; nothing if only one is at work.
    fn lines(&self) -> Vec<(String, Option<Instant>)> {
        let at_work = self.at_work();
        let line = |(who, (doing, since)): &(&String, &(Doing, Option<Instant>))| {
            let words = doing.words();
            (if doing.id == **who { words } else { format!("{who} │ {words}") }, *since)
        };
        if at_work.len() > 1 { at_work.iter().map(line).collect() } else { Vec::new() }
    }

    /// Those at work. Who waits for its branches does nothing itself.
    fn at_work(&self) -> Vec<(&String, &(Doing, Option<Instant>))> {
        let root = |name: &str| name.parse().map(|context: ContextId| context.run_root());
        let is_branch = |name: &str, who: &str| name != who && root(name).is_ok_and(|root| root == *who);
        let waits = |who: &str| self.doing.keys().any(|name| is_branch(name, who));
        self.doing.iter().filter(|(who, _)| !waits(who)).collect()
    }
}

/// The lines below the first, as those who draw them see them.
type Below = Arc<Mutex<Vec<(String, Option<Instant>)>>>;

/// The line, where there is a terminal to draw it on.
#[derive(Debug)]
pub struct Live {
    is_on: bool,
    begun: Instant,
    bar: Option<ProgressBar>,
    /// How many tasks are done, of how many.
    tasks: Option<(usize, usize)>,
    now: Now,
    below: Below,
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
        let mut live = Self { is_on, begun: Instant::now(), bar: None, tasks, now, below: Below::default() };
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
            self.bar = say::live(|target| bar(target, self.tasks, self.begun, &self.below));
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
            *self.below.lock().unwrap_or_else(PoisonError::into_inner) = self.now.lines();
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

/// The lines below the first, each within the width of the terminal.
fn below(lines: &[(String, Option<Instant>)], width: usize) -> String {
    let line = |(words, since): &(String, Option<Instant>)| {
        let clock = since.map(|since| format!(" · {}", clock(since.elapsed()))).unwrap_or_default();
        format!("\n{}", console::truncate_str(&format!("  {words}{clock}"), width, "…"))
    };
    let mut text: String = lines.iter().take(LINES).map(line).collect();
    if let Some(more) = lines.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = write!(text, "\n  … {more} more");
    }
    text
}

fn bar(target: ProgressDrawTarget, tasks: Option<(usize, usize)>, begun: Instant, lines: &Below) -> ProgressBar {
    let template = match tasks {
        Some(_) => "{spinner:.cyan} [{bar:20.green}] {pos}/{len} {clock} {wide_msg}{below}",
        None => "{spinner:.cyan} {clock} {wide_msg}{below}",
    };
    let lines = Arc::clone(lines);
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let style = style.with_key("clock", |state: &ProgressState, text: &mut dyn Write| {
        let _ = text.write_str(&clock(state.elapsed()));
    });
    let style = style.with_key("below", move |_: &ProgressState, text: &mut dyn Write| {
        let _ = text.write_str(&below(&lines.lock().unwrap_or_else(PoisonError::into_inner), say::width()));
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
    use pleach_core::event::Usage;

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
    fn several_at_work_have_a_line_each() {
        let mut now = Now::default();
        for (task, step) in [("T1", "implement"), ("T2", "test")] {
            now.start(task, Doing { id: task.into(), step: step.into(), attempt: 1 });
        }
        let lines: Vec<_> = now.lines().into_iter().map(|(words, _)| (words, None)).collect();
        assert_eq!((now.words().as_str(), below(&lines, 14).as_str()), ("2 at once", "\n  T1 · implem…\n  T2 · test"));
        now.end("T1");
        assert_eq!((now.words().as_str(), now.lines().len()), ("T2 · test", 0));
        let many = vec![("x".to_owned(), None); 10];
        assert!(below(&many, 80).ends_with("\n  x\n  … 2 more"));
    }

    #[test]
    fn branches_have_lines_but_not_who_waits_for_them() {
        let mut now = Now::default();
        now.start("main", Doing { id: "fan".into(), ..Doing::default() });
        now.start("a", Doing { id: "write".into(), step: "claude".into(), attempt: 2 });
        now.start("b", Doing { id: "b".into(), ..Doing::default() });
        let lines: Vec<_> = now.lines().into_iter().map(|(words, _)| words).collect();
        assert_eq!(lines, ["a │ write · claude · attempt 2", "b"]);
    }

    #[test]
    fn runs_have_lines_and_wait_for_their_own_branches() {
        let mut now = Now::default();
        for who in ["main", "r1", "r1-a", "r2"] {
            now.start(who, Doing { id: "write".into(), ..Doing::default() });
        }
        let lines: Vec<_> = now.lines().into_iter().map(|(words, _)| words).collect();
        assert_eq!(lines, ["main │ write", "r1-a │ write", "r2 │ write"]);
    }

    #[test]
    fn the_clock_shows_whole_seconds() {
        let shown = [0, 59, 60, 187, 3_720].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "59s", "1m 00s", "3m 07s", "1h 02m"]);
    }
}
