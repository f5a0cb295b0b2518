//! A run in a line.

use engine::env::{Error, SessionRepos};
use engine::landing::TreeTest;
use engine::view::{ForkPoint, RunView, SessionStatus, Summary, View};
use pleach_core::event::{Snapshot, Usage};
use pleach_core::ids::RunId;
use pleach_core::step::StepKind;
use serde::Serialize;

/// A run in a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// The run.
    pub run: RunId,
    /// Where it was forked.
    #[serde(flatten)]
    pub forked: ForkPoint,
    /// The agent it was started with for nodes that name none.
    pub agent: Option<String>,
    /// The kinds of agents that took its own turns.
    pub agents: Vec<String>,
    /// Their models.
    pub models: Vec<String>,
    /// Where it stands, in a word.
    pub outcome: &'static str,
    /// Its own turns.
    pub turns: u64,
    /// The tokens of those.
    pub tokens: Usage,
    /// Their cost in dollars, if all of it is known.
    pub cost_usd: Option<f64>,
    /// The seconds between its start and the newest of its events.
    pub seconds: f64,
    /// How many files it has changed since the session's start.
    pub files: usize,
    /// The lines it has added to them.
    pub added: u64,
    /// The lines it has removed.
    pub removed: u64,
    /// How its tests ended, if they ran.
    pub test: Option<RunTest>,
    /// What its reviewers have said last, if there are any.
    pub review: Option<ReviewResult>,
    /// Its place among those it is compared with, from 1. Runs that nothing tells apart share one.
    pub rank: usize,
    /// What speaks against it.
    pub why: Option<String>,
}

/// How the tests of a run ended, in all its repositories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunTest {
    /// All of them passed.
    pub passed: bool,
    /// How the deciding command ended.
    pub exit: String,
    /// The seconds they took.
    pub seconds: u64,
    /// They had all run on the same files before.
    pub cached: bool,
}

/// What reviewers have said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewResult {
    /// All of them approved.
    Approved,
    /// One of them did not.
    Rejected,
}

impl RunTest {
    /// The tests of one run, a result for each of its repositories. None without any.
    pub fn of<'t>(results: impl IntoIterator<Item = &'t TreeTest>) -> Option<Self> {
        let one = |test: &TreeTest| Self {
            passed: test.passed,
            exit: test.exit.clone(),
            seconds: test.seconds,
            cached: test.cached,
        };
        results.into_iter().map(one).reduce(|all, next| Self {
            exit: if all.passed { next.exit } else { all.exit },
            passed: all.passed && next.passed,
            seconds: all.seconds + next.seconds,
            cached: all.cached && next.cached,
        })
    }
}

impl ComparedRun {
    /// A run of which nothing has been tested.
    pub fn read(repos: &SessionRepos, whole: &View) -> Result<Self, Error> {
        let summary = &whole.summary;
        let view = RunView::of(repos.record(), summary)?;
        let last = whole.events().last().map_or(view.started_at, |(_, recorded)| recorded.at);
        let lines = ChangedLines::between(repos, &summary.state.base, &summary.state.work)?;
        Ok(Self {
            run: view.run,
            forked: view.forked,
            agent: summary.started.config.get("agent").and_then(|agent| agent.as_str()).map(str::to_owned),
            agents: view.agents,
            models: view.models,
            outcome: view.standing.word(),
            turns: view.turns,
            tokens: view.tokens,
            cost_usd: view.cost_usd.filter(|_| summary.spent.unpriced == 0),
            seconds: last.duration_since(view.started_at).as_secs_f64(),
            files: lines.files,
            added: lines.added,
            removed: lines.removed,
            test: None,
            review: review(summary),
            rank: 1,
            why: match view.standing {
                SessionStatus::Failed { reason } => Some(reason),
                SessionStatus::Paused { why, .. } => why,
                _ => None,
            },
        })
    }

    /// Whether it has reached its exit.
    pub fn is_done(&self) -> bool {
        self.outcome == SessionStatus::Done.word()
    }
}

/// The newest verdicts of the reviewers of a run.
fn review(summary: &Summary) -> Option<ReviewResult> {
    let is_review = |node: &&pleach_core::plan::pipeline::Node| {
        node.verdict || node.step.as_deref() == Some(StepKind::Review.as_str())
    };
    let reviewers = summary.pipeline.nodes().iter().filter(is_review);
    let outcomes = reviewers.filter_map(|node| summary.state.nodes.get(&node.id)?.outcome.as_ref());
    let verdict = |success| if success { ReviewResult::Approved } else { ReviewResult::Rejected };
    outcomes.map(|outcome| verdict(outcome.status.is_success())).max()
}

/// How much differs between two commits of each repository.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChangedLines {
    pub files: usize,
    pub added: u64,
    pub removed: u64,
}

impl ChangedLines {
    pub fn between(repos: &SessionRepos, from: &Snapshot, to: &Snapshot) -> Result<Self, Error> {
        let mut all = Self::default();
        for (name, repo) in repos.iter() {
            let (Some(from), Some(to)) = (from.get(name), to.get(name)) else { continue };
            for file in git::diff::stat(repo, repo.tree_of(*from)?, repo.tree_of(*to)?)? {
                let (added, removed) = file.lines.unwrap_or_default();
                all.files += 1;
                all.added += added;
                all.removed += removed;
            }
        }
        Ok(all)
    }
}
