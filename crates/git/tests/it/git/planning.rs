//! What planners have spent is one chain that several of them may write to at once.

use std::collections::BTreeSet;
use std::sync::Barrier;

use git::Durability;
use git::record::{AgentTurns, PLANNING, record_planning};
use pleach_core::event::{AgentTurn, Usage};
use pleach_core::ids::{NodeId, TurnId};
use pleach_core::redact::Redactor;

use super::Sandbox;

fn turn(planner: u64, number: u64) -> AgentTurn {
    AgentTurn {
        turn: TurnId::of_main(number),
        turn_number: number,
        node_id: NodeId::new("plan").unwrap(),
        visit: 1,
        attempt: 1,
        agent: "builtin".into(),
        model: "m".into(),
        provider: "script".into(),
        messages: None,
        tool_calls: Vec::new(),
        files_written: Default::default(),
        token_usage: Usage { input: planner, output: number, ..Usage::default() },
        cost_usd: None,
        estimated: false,
        unbilled: false,
        side_calls: Vec::new(),
        git_sha: None,
        agent_head: None,
        commit_message: None,
        boundary: "exact".into(),
        agent_state_ref: None,
        is_last: false,
        extra: Default::default(),
    }
}

#[test]
fn planners_at_once_lose_no_call() {
    const PLANNERS: u64 = 4;
    const CALLS: u64 = 10;
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo").with_durability(Durability::None);
    let barrier = Barrier::new(PLANNERS as usize);
    std::thread::scope(|scope| {
        for planner in 1..=PLANNERS {
            let (repo, barrier) = (repo.clone(), &barrier);
            scope.spawn(move || {
                let redactor = Redactor::new([("", ""); 0]);
                barrier.wait();
                for call in 1..=CALLS {
                    record_planning(&repo, &redactor, pleach_core::clock::now(), turn(planner, call)).unwrap();
                }
            });
        }
    });
    let tip = repo.refs().find(PLANNING).unwrap().expect("a chain");
    let read = AgentTurns::read(&repo, tip, None, None).unwrap();
    let calls = read.turns.iter().map(|(_, turn)| (turn.token_usage.input, turn.token_usage.output));
    let all: BTreeSet<(u64, u64)> = calls.clone().collect();
    assert_eq!((calls.count(), all.len()), (40, 40), "each once");
}
