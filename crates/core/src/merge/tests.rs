//! A landing against every world: branches that move, checkouts that refuse, tests that fail, and a kill at any point.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::ids::CommitId;

/// What is to land on a branch, and what it was built on.
#[derive(Debug, Clone, Copy)]
struct Done {
    work: LandingWork,
    base: CommitId,
    tip: CommitId,
}

/// Repositories with a branch each. What it does that nobody asked for is in its script; behind the end of that it does
/// what it is asked and nothing else.
struct World {
    script: std::vec::IntoIter<u8>,
    branches: Vec<Vec<CommitId>>,
    done: Vec<Done>,
    /// What each commit that was rebuilt is built on.
    built_on: BTreeMap<CommitId, CommitId>,
    verified: BTreeSet<CommitId>,
    /// What was recorded last for each branch, and whether all of it was recorded to have landed.
    intent: BTreeMap<usize, CommitId>,
    closed: bool,
    made: u32,
}

/// The process is gone, or has ended with this.
enum Ran {
    Killed,
    Ended(LandingEnd),
}

impl World {
    fn new(works: &[LandingWork], script: Vec<u8>) -> Self {
        let mut world = Self {
            script: script.into_iter(),
            branches: Vec::new(),
            done: Vec::new(),
            built_on: BTreeMap::new(),
            verified: BTreeSet::new(),
            intent: BTreeMap::new(),
            closed: false,
            made: 0,
        };
        for work in works {
            let (base, tip) = (world.commit(), world.commit());
            world.branches.push(vec![base]);
            world.done.push(Done { work: *work, base, tip });
        }
        world
    }

    fn commit(&mut self) -> CommitId {
        self.made += 1;
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.made.to_be_bytes());
        CommitId::from_bytes(bytes)
    }

    fn chance(&mut self) -> u8 {
        self.script.next().unwrap_or(0)
    }

    /// Somebody else commits, now and then.
    fn goes_on(&mut self) {
        let chance = usize::from(self.chance());
        if chance > 192 {
            let (at, commit) = (chance % self.branches.len(), self.commit());
            self.branches[at].push(commit);
        }
    }

    fn tip(&self, at: usize) -> CommitId {
        *self.branches[at].last().expect("a branch has a commit")
    }

    fn seen(&self, at: usize) -> TargetState {
        let done = &self.done[at];
        let known = [Some(done.tip), self.intent.get(&at).copied()];
        match known.into_iter().flatten().find(|commit| self.branches[at].contains(commit)) {
            Some(commit) => TargetState::Has(commit),
            None => TargetState::At { tip: self.tip(at), base: done.base },
        }
    }

    fn land(&self) -> LandingAsk {
        land(self.done.iter().enumerate().map(|(at, done)| (target(at), done.work)))
    }

    /// Does what is asked for, until the end or a kill.
    fn run(&mut self) -> Ran {
        let mut next = self.land();
        loop {
            self.goes_on();
            if self.chance() == 1 {
                return Ran::Killed;
            }
            next = match next {
                LandingAsk::Look(look) => match self.chance() {
                    2 => look.saw([TargetState::Gone]),
                    15 => look.saw([TargetState::Held("two checkouts have it".into())]),
                    _ => look.saw((0..self.branches.len()).map(|at| self.seen(at)).collect::<Vec<_>>()),
                },
                LandingAsk::Build(build) => self.build(build),
                LandingAsk::Verify(verify) => self.verify(verify),
                LandingAsk::Rewind(rewind) => match self.chance() {
                    3 => rewind.rewound(None),
                    _ => rewind.rewound(Some(self.commit())),
                },
                LandingAsk::Record(record) => {
                    let moves = record.moves();
                    assert!(!moves.is_empty(), "nothing is recorded of nothing");
                    self.intent.extend(moves.into_iter().map(|step| (index(&step.target), step.to)));
                    record.recorded()
                }
                LandingAsk::Move(moving) => self.advance(moving),
                LandingAsk::Close(close) => {
                    let landed = close.landed();
                    assert_eq!(landed.len(), self.branches.len());
                    assert!(landed.iter().all(|one| self.branches[index(&one.target)].contains(&one.commit)));
                    self.closed = true;
                    close.closed()
                }
                LandingAsk::End(end) => return Ran::Ended(end),
            };
        }
    }

    fn build(&mut self, build: BuildAsk) -> LandingAsk {
        let at = index(build.target());
        if self.chance() == 4 {
            return build.failed(RefusalReason::Conflict("it does not fit".into()));
        }
        if build.is_as_it_is() {
            assert_eq!(build.onto(), self.done[at].base);
            let tip = self.done[at].tip;
            return build.built(tip);
        }
        let commit = self.commit();
        self.built_on.insert(commit, build.onto());
        build.built(commit)
    }

    fn verify(&mut self, verify: VerifyAsk) -> LandingAsk {
        let verdict = match self.chance() {
            5 => LandingVerdict::Red,
            6 => LandingVerdict::ByAgent,
            7 => LandingVerdict::Outdated,
            8 | 9 => LandingVerdict::Again,
            10 => LandingVerdict::Stopped,
            11 => LandingVerdict::NoTests { passed_before: true },
            12 => LandingVerdict::Untestable("nobody can".into()),
            13 => LandingVerdict::NoTests { passed_before: false },
            _ => LandingVerdict::Green,
        };
        if matches!(verdict, LandingVerdict::Green | LandingVerdict::NoTests { passed_before: false }) {
            self.verified.extend(verify.moves().into_iter().map(|step| step.to));
        }
        verify.verified(verdict)
    }

    /// The branch moves if nobody was faster; whoever is killed after that does not know.
    fn advance(&mut self, moving: MoveAsk) -> LandingAsk {
        let step = moving.step().clone();
        let at = index(&step.target);
        let done = self.done[at];
        if self.chance() == 14 {
            return moving.refused(RefusalReason::Held("files are in the way".into()));
        }
        if self.tip(at) != step.from {
            return moving.target_moved();
        }
        assert_eq!(self.intent.get(&at), Some(&step.to), "what moves was recorded before");
        assert!(!self.branches[at].contains(&done.tip), "nothing lands twice");
        assert!(self.branches[at].iter().all(|commit| !self.built_on.contains_key(commit)), "nor as a copy");
        let is_as_it_was = step.to == done.tip;
        let on = if is_as_it_was { done.base } else { self.built_on[&step.to] };
        assert_eq!(on, step.from, "nothing that is there is taken away");
        if done.work.proof(is_as_it_was).is_some() {
            assert!(self.verified.contains(&step.to), "what lands was looked at as it lands");
        }
        self.branches[at].push(step.to);
        moving.moved()
    }
}

fn target(at: usize) -> LandingTarget {
    let repo = format!("r{at}").parse().expect("a name");
    LandingTarget { repo, branch: "main".parse().expect("a name") }
}

fn index(target: &LandingTarget) -> usize {
    target.repo.as_str()[1..].parse().expect("a number")
}

fn works() -> impl Strategy<Value = Vec<LandingWork>> {
    let one = prop_oneof![
        Just(LandingWork::Task),
        Just(LandingWork::FailedTask),
        Just(LandingWork::Gate { on_merge: false }),
        Just(LandingWork::Gate { on_merge: true }),
        Just(LandingWork::Phase),
        Just(LandingWork::Bookkeeping),
    ];
    prop_oneof![3 => prop::collection::vec(one, 1..2), 1 => Just(vec![LandingWork::Task; 2]), 1 => Just(vec![LandingWork::Task; 3])]
}

/// Mostly small numbers, which mean something at one question or another.
fn script() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => Just(0u8), 3 => 0..16u8, 1 => any::<u8>()], 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// What the branches are asked to do is checked where they do it. Here: it comes to an end, kills or not, and one that
    /// says that it has landed has.
    #[test]
    fn landing_never_moves_untested_work_or_moves_back(works in works(), script in script()) {
        let kills = script.iter().filter(|chance| **chance == 1).count();
        let mut world = World::new(&works, script);
        for _ in 0..=kills {
            let before = world.branches.clone();
            let ran = world.run();
            for (before, now) in before.iter().zip(&world.branches) {
                prop_assert!(now.starts_with(before));
            }
            if let Ran::Ended(end) = ran {
                prop_assert_eq!(end == LandingEnd::Landed, world.closed);
                return Ok(());
            }
            if world.closed {
                return Ok(());
            }
        }
        prop_assert!(false, "it was killed more often than it was killed");
    }

    /// However often it is refused or killed, the next run brings it to its end, and what has landed stays.
    #[test]
    fn a_started_landing_finishes_once_unblocked(works in works(), script in script()) {
        let mut world = World::new(&works, script);
        while !world.closed {
            let before = world.branches.clone();
            let is_quiet = world.script.len() == 0;
            let ran = world.run();
            prop_assert!(before.iter().zip(&world.branches).all(|(before, now)| now.starts_with(before)));
            prop_assert!(!is_quiet || matches!(ran, Ran::Ended(LandingEnd::Landed)));
        }
        for (at, done) in world.done.iter().enumerate() {
            let there = world.branches[at].iter().filter(|commit| **commit == done.tip || world.built_on.contains_key(commit));
            prop_assert_eq!(there.count(), 1);
        }
    }
}

#[test]
fn a_task_on_an_unmoved_branch_lands_as_tested() {
    let mut world = World::new(&[LandingWork::Task], Vec::new());
    assert!(matches!(world.run(), Ran::Ended(LandingEnd::Landed)));
    assert_eq!(world.branches[0], [world.done[0].base, world.done[0].tip]);
    assert!(world.verified.is_empty(), "it is not tested again");
}

#[test]
fn a_recorded_move_has_landed_once_complete() {
    let has = |commits: &'static [u8]| move |commit: &u8| Ok::<_, ()>(commits.contains(commit));
    assert_eq!(has_landed(&[1, 2], has(&[1, 2, 3])), Ok(true));
    assert_eq!(has_landed(&[1, 2], has(&[1])), Ok(false), "it goes on with the rest");
    assert_eq!(has_landed(&[], has(&[1])), Ok(false));
}
