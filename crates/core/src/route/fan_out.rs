//! What becomes of a fan-out: whether its branches go on, how it ends, and which branch is best.

use serde_json::{Value, json};

use crate::event::{Outcome, Status};
use crate::plan::parallel::{ErrorPolicy, FanOutRules};
use crate::state::{Branch, FanOut};
use crate::text::counted;

/// The context value with what came of each branch.
pub(crate) const RESULTS: &str = "parallel.results";
/// The context value with the branch a fan-in has chosen or ranks first.
pub const BEST_ID: &str = "parallel.fan_in.best_id";
/// The context value with how that branch ended.
pub const BEST_OUTCOME: &str = "parallel.fan_in.best_outcome";
/// The context value with the conflicts that are not resolved.
pub const MERGE_CONFLICTS: &str = "parallel.merge_conflicts";

/// What a fan-out does next.
#[derive(Debug, Clone, PartialEq)]
pub enum FanOutVerdict {
    /// Its branches go on.
    Open,
    /// It is decided: branches that still run are stopped.
    StopOthers,
    /// It is over.
    Over(Outcome),
}

/// What a fan-out does next, given how its branches have ended so far.
pub fn verdict(rules: &FanOutRules, fan_out: &FanOut) -> FanOutVerdict {
    let count = |is: fn(&Branch) -> bool| fan_out.branches.iter().filter(|branch| is(branch)).count();
    let (succeeded, failed, open) = (count(Branch::has_succeeded), count(Branch::has_failed), fan_out.open().count());
    let needed = rules.join.needed(fan_out.branches.len());
    let is_lost = rules.errors == ErrorPolicy::FailFast && failed > 0;
    let is_decided = is_lost || needed.is_some_and(|needed| succeeded >= needed || succeeded + open < needed);
    if open > 0 {
        return if is_decided { FanOutVerdict::StopOthers } else { FanOutVerdict::Open };
    }
    let failures = || {
        let failed = fan_out.branches.iter().filter(|branch| branch.has_failed());
        failed.map(failure).collect::<Vec<_>>().join("; ")
    };
    let outcome = match needed {
        _ if is_lost => Outcome::fail(failures()),
        Some(needed) if succeeded < needed => {
            let why = if failed > 0 { format!(": {}", failures()) } else { String::new() };
            let all = counted(fan_out.branches.len(), "branch");
            Outcome::fail(format!("{succeeded} of {all} succeeded, {needed} needed{why}"))
        }
        None if failed > 0 && !(rules.errors == ErrorPolicy::Ignore && succeeded > 0) => {
            Outcome { notes: Some(failures()), ..Outcome::of(Status::PartialSuccess) }
        }
        _ => Outcome { notes: notes(fan_out), ..Outcome::success() },
    };
    let context_updates = [(RESULTS.to_owned(), results(fan_out))].into();
    FanOutVerdict::Over(Outcome { context_updates, ..outcome })
}

/// What the branches that succeeded have to say.
fn notes(fan_out: &FanOut) -> Option<String> {
    let said = fan_out.branches.iter().filter(|branch| branch.has_succeeded()).filter_map(|branch| {
        let notes = branch.ended.as_ref()?.outcome.notes.as_deref()?;
        Some(format!("{}: {notes}", branch.of.context))
    });
    Some(said.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

fn failure(branch: &Branch) -> String {
    let why = branch.ended.as_ref().and_then(|ended| ended.outcome.failure_reason.as_deref());
    format!("branch `{}` failed{}", branch.of.context, why.map(|why| format!(": {why}")).unwrap_or_default())
}

/// What came of each branch, as nodes after the fan-out see it.
fn results(fan_out: &FanOut) -> Value {
    let result = |branch: &Branch| {
        let ended = branch.ended.as_ref()?;
        let mut result = json!({
            "id": branch.of.context,
            "node": branch.of.node_id,
            "outcome": if ended.stopped { "stopped" } else { ended.outcome.status.as_str() },
            "commits": ended.work,
        });
        let texts = [("notes", &ended.outcome.notes), ("failure_reason", &ended.outcome.failure_reason)];
        for (key, text) in texts {
            if let Some(text) = text {
                result[key] = text.as_str().into();
            }
        }
        if let Some(score) = ended.score {
            result["score"] = score.into();
        }
        Some(result)
    };
    fan_out.branches.iter().filter_map(result).collect()
}

/// The branches that have ended by themselves, the best first: by outcome, then by score, then by name.
pub fn ranked(fan_out: &FanOut) -> Vec<&Branch> {
    let mut ranked: Vec<&Branch> =
        fan_out.branches.iter().filter(|branch| branch.has_succeeded() || branch.has_failed()).collect();
    let rank = |branch: &Branch| match branch.ended.as_ref().map(|ended| &ended.outcome.status) {
        Some(Status::Success) => 0,
        Some(Status::PartialSuccess) => 1,
        Some(Status::Retry) => 2,
        _ => 3,
    };
    // As a record holds it, where a number that is not finite is none.
    let score = |branch: &Branch| {
        let score = branch.ended.as_ref().and_then(|ended| ended.score);
        score.filter(|score| score.is_finite()).unwrap_or(0.0)
    };
    ranked.sort_by(|a, b| {
        let by_score = score(b).total_cmp(&score(a));
        rank(a).cmp(&rank(b)).then(by_score).then_with(|| a.of.context.cmp(&b.of.context))
    });
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ParallelBranch, ParallelBranchCompleted};
    use crate::plan::parallel::JoinPolicy;

    /// A branch per letter: `s`uccess, `p`artial, `f`ail, `x` stopped, `-` open.
    fn fan_out(branches: &str) -> FanOut {
        let branch = |(at, letter): (usize, char)| {
            let context: crate::ids::ContextId = format!("b{at}").parse().unwrap();
            let status = match letter {
                's' => Status::Success,
                'p' => Status::PartialSuccess,
                _ => Status::Fail,
            };
            let ended = ParallelBranchCompleted {
                node_id: "fork".parse().unwrap(),
                context: context.clone(),
                outcome: Outcome::of(status),
                stopped: letter == 'x',
                score: None,
                work: Default::default(),
                goal_gates: Default::default(),
                extra: Default::default(),
            };
            let of = ParallelBranch { context, node_id: "a".parse().unwrap(), read_only: false };
            Branch { of, ended: (letter != '-').then_some(ended) }
        };
        let branches = branches.chars().enumerate().map(branch).collect();
        let (node, join) = ("fork".parse().unwrap(), "join".parse().unwrap());
        FanOut { node, visit: 1, attempt: 1, join, branches, is_over: false, is_joined: false, joined_by: None }
    }

    fn says(join: JoinPolicy, errors: ErrorPolicy, branches: &str) -> String {
        match verdict(&FanOutRules { join, errors, max_parallel: 4 }, &fan_out(branches)) {
            FanOutVerdict::Open => "open".to_owned(),
            FanOutVerdict::StopOthers => "stop".to_owned(),
            FanOutVerdict::Over(outcome) => outcome.status.to_string(),
        }
    }

    #[test]
    fn wait_all_waits_for_all() {
        use ErrorPolicy::{Continue, FailFast, Ignore};
        let all = |errors, branches| says(JoinPolicy::WaitAll, errors, branches);
        assert_eq!(all(Continue, "ss-"), "open");
        assert_eq!(all(Continue, "sf-"), "open");
        assert_eq!(all(Continue, "sps"), "success");
        assert_eq!(all(Continue, "sfs"), "partial_success");
        assert_eq!(all(Continue, "fff"), "partial_success");
        assert_eq!(all(Ignore, "sfs"), "success");
        assert_eq!(all(Ignore, "fff"), "partial_success");
        assert_eq!(all(FailFast, "s-f"), "stop");
        assert_eq!(all(FailFast, "sxf"), "fail");
        assert_eq!(all(FailFast, "sss"), "success");
    }

    #[test]
    fn first_success_does_not_wait_for_all() {
        let first = |branches| says(JoinPolicy::FirstSuccess, ErrorPolicy::Continue, branches);
        assert_eq!([first("f--"), first("f-s"), first("fxs"), first("fff")], ["open", "stop", "success", "fail"]);
        assert_eq!(first("f-p"), "stop");
    }

    #[test]
    fn counts_end_when_they_are_met_or_out_of_reach() {
        let two = |branches| says(JoinPolicy::KOfN(2), ErrorPolicy::Continue, branches);
        assert_eq!(
            [two("s--"), two("s-s"), two("sxs"), two("ff-"), two("ffx")],
            ["open", "stop", "success", "stop", "fail"]
        );
        let most = |branches| says(JoinPolicy::Quorum(51), ErrorPolicy::Ignore, branches);
        assert_eq!(
            [most("sf--"), most("sss-"), most("sssx"), most("ff--"), most("ffxx")],
            ["open", "stop", "success", "stop", "fail"]
        );
    }

    #[test]
    fn the_best_branch_is_ranked_by_outcome_score_and_name() {
        let mut fan_out = fan_out("fpssx");
        let names = |fan_out: &FanOut| {
            ranked(fan_out).iter().map(|branch| branch.of.context.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&fan_out), "b2 b3 b1 b0");
        fan_out.branches[3].ended.as_mut().unwrap().score = Some(0.5);
        assert_eq!(names(&fan_out), "b3 b2 b1 b0");
        for none in [f64::NAN, f64::INFINITY] {
            fan_out.branches[2].ended.as_mut().unwrap().score = Some(none);
            assert_eq!(names(&fan_out), "b3 b2 b1 b0", "{none}");
        }
    }
}
