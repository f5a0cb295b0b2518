//! What a benchmark is asked to do.

use std::error::Error;

/// The options of all benchmarks; each reads those that concern it.
#[derive(Debug)]
pub struct Options {
    /// Files in the generated repositories.
    pub sizes: Vec<usize>,
    /// Earlier turns of the long session.
    pub turns: usize,
    /// How often each contender is measured.
    pub rounds: usize,
    /// Nodes of the generated pipeline, where it is not the usual number.
    pub nodes: Option<usize>,
    /// Commits of the generated history.
    pub commits: usize,
    /// Tasks of the generated history or tree, where it is not the usual number.
    pub tasks: Option<usize>,
    /// Tasks of the generated trees.
    pub trees: Vec<usize>,
    /// Files in the repositories worktrees are made of: a small, a middle and a large one.
    pub worktree_sizes: Vec<usize>,
    /// Model calls one after the other.
    pub calls: usize,
    /// Model calls at once.
    pub streams: usize,
    /// Agents at once.
    pub agents: usize,
    /// Turns whose records are copied to a CXDB server.
    pub cxdb: bool,
    /// Less is asked for where nothing else says how much.
    pub quick: bool,
}

impl Options {
    /// Reads the arguments after the benchmark's name.
    pub fn read(args: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            sizes: vec![1_000, 20_000, 100_000],
            turns: 10_000,
            rounds: 15,
            nodes: None,
            commits: 100_000,
            tasks: None,
            trees: vec![10, 100, 300, 1_000],
            worktree_sizes: vec![1_500, 20_000, 100_000],
            calls: 2_000,
            streams: 100,
            agents: 50,
            cxdb: false,
            quick: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().copied().ok_or_else(|| format!("{arg} needs a value"));
            match *arg {
                "--cxdb" => options.cxdb = true,
                "--quick" => options = options.quick(),
                "--sizes" => options.sizes = numbers(value()?)?,
                "--turns" => options.turns = number(value()?)?,
                "--rounds" => options.rounds = number(value()?)?,
                "--commits" => options.commits = number(value()?)?,
                "--tasks" => options.tasks = Some(number(value()?)?),
                "--tree-sizes" => options.trees = numbers(value()?)?,
                "--worktree-sizes" => options.worktree_sizes = numbers(value()?)?,
                "--calls" => options.calls = number(value()?)?,
                "--streams" => options.streams = number(value()?)?,
                "--agents" => options.agents = number(value()?)?,
                "--nodes" => options.nodes = Some(number(value()?)?),
                _ => return Err(crate::usage::USAGE.into()),
            }
        }
        Ok(options)
    }

    fn quick(self) -> Self {
        Self {
            sizes: vec![1_000, 5_000],
            worktree_sizes: vec![300, 2_000, 5_000],
            turns: 600,
            rounds: 5,
            agents: 20,
            quick: true,
            ..self
        }
    }

    /// The tree that is judged: that of so many tasks, or the largest when there is none.
    pub fn judged(&self, tasks: usize) -> usize {
        let asked = self.trees.iter().copied();
        asked.clone().find(|asked| *asked == tasks).or(asked.max()).unwrap_or(tasks)
    }
}

fn numbers(text: &str) -> Result<Vec<usize>, String> {
    text.split(',').map(number).collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("`{text}` is not a number above 0"))
}
