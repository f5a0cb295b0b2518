//! The landing of work on the branches it belongs on, each in its repository, as one thing.
//!
//! ```text
//!  look ─▶ build ─▶ verify ─▶ record ─▶ move, one by one ─▶ close
//!    ▲                │                      │
//!    └────────────────┴── a branch has moved ┘
//! ```
//!
//! Every question is a value that takes its answer and gives the next one. A branch that has moved stays so: whatever
//! happens then, only the others are checked again.

use super::work::{LandingWork, Proof};
use crate::ids::{BranchName, CommitId, RepoName};

/// A branch work lands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingTarget {
    /// The repository.
    pub repo: RepoName,
    /// The branch.
    pub branch: BranchName,
}

/// A branch that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchMove {
    /// Which.
    pub target: LandingTarget,
    /// Where it is.
    pub from: CommitId,
    /// Where it is to be.
    pub to: CommitId,
}

/// A branch that has what was to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandedBranch {
    /// Which.
    pub target: LandingTarget,
    /// Where it was moved from; none where it had it before anybody looked.
    pub from: Option<CommitId>,
    /// What has landed.
    pub commit: CommitId,
}

/// What is to be done next.
#[derive(Debug)]
#[must_use]
pub enum LandingAsk {
    /// Look where the branches are.
    Look(LookAsk),
    /// Make the commit a branch would move to.
    Build(BuildAsk),
    /// Find out whether what was built may land.
    Verify(VerifyAsk),
    /// Have a task tested again where only an attempt can do that.
    Rewind(RewindAsk),
    /// Record what is about to move.
    Record(RecordAsk),
    /// Move a branch.
    Move(MoveAsk),
    /// Record that everything has landed.
    Close(CloseAsk),
    /// Nothing.
    End(LandingEnd),
}

/// What came of a landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingEnd {
    /// Everything is where it belongs.
    Landed,
    /// What was built, and would have moved these, is not fit to land: its tests fail.
    Red(Vec<BranchMove>),
    /// The task continues behind this commit, where it is tested again.
    Rewound(CommitId),
    /// It is about files that are gone.
    Outdated,
    /// The verification was stopped.
    Stopped,
    /// It waits.
    Refused(LandingRefusal),
}

/// A branch that does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingRefusal {
    /// Which.
    pub target: LandingTarget,
    /// Why not.
    pub why: RefusalReason,
}

/// Why a branch does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// It is not there.
    Gone,
    /// What is to land does not fit to what it has become.
    Conflict(String),
    /// What is to land is not what it was when it was made.
    Overwritten(String),
    /// It passed tests that are no longer known.
    NoTests,
    /// It cannot be tested.
    Untestable(String),
    /// Another process works there, or it would overwrite something.
    Held(String),
}

/// Where a branch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetState {
    /// It is not there.
    Gone,
    /// It cannot move, for this reason: known from its checkouts before anything else is done.
    Held(String),
    /// It has what is to land.
    Has(CommitId),
    /// It lacks it.
    At {
        /// Its newest commit.
        tip: CommitId,
        /// What the work is built on.
        base: CommitId,
    },
}

/// What was found out about commits that are to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingVerdict {
    /// They are as good as what was done.
    Green,
    /// Their tests fail.
    Red,
    /// There are no tests.
    NoTests {
        /// There were, and they passed.
        passed_before: bool,
    },
    /// Only an agent can test them, in an attempt.
    ByAgent,
    /// They cannot be tested, for this reason.
    Untestable(String),
    /// They are about other files.
    Outdated,
    /// A branch has moved on meanwhile.
    Again,
    /// The wait was cancelled.
    Stopped,
}

/// Starts a landing.
pub fn land(parts: impl IntoIterator<Item = (LandingTarget, LandingWork)>) -> LandingAsk {
    let part = |(target, work)| LandingPart { target, work, stands: PartState::Unseen };
    LandingAsk::Look(LookAsk(Parts { parts: parts.into_iter().map(part).collect() }))
}

/// Whether everything a record says was about to move has: the process that should confirm it was killed.
pub fn has_landed<M, E>(intent: &[M], has: impl Fn(&M) -> Result<bool, E>) -> Result<bool, E> {
    for moved in intent {
        if !has(moved)? {
            return Ok(false);
        }
    }
    Ok(!intent.is_empty())
}

#[derive(Debug)]
struct Parts {
    parts: Vec<LandingPart>,
}

/// What lands on one branch.
#[derive(Debug)]
struct LandingPart {
    target: LandingTarget,
    work: LandingWork,
    stands: PartState,
}

#[derive(Debug, Clone, Copy)]
enum PartState {
    Unseen,
    Seen { tip: CommitId, base: CommitId },
    Built { from: CommitId, to: CommitId, proof: Option<Proof> },
    Landed { from: Option<CommitId>, commit: CommitId },
}

impl LandingPart {
    fn planned(&self) -> Option<BranchMove> {
        match self.stands {
            PartState::Built { from, to, .. } => Some(BranchMove { target: self.target.clone(), from, to }),
            _ => None,
        }
    }

    fn refused(&self, why: RefusalReason) -> LandingAsk {
        LandingAsk::End(LandingEnd::Refused(LandingRefusal { target: self.target.clone(), why }))
    }
}

impl Parts {
    fn moves(&self) -> Vec<BranchMove> {
        self.parts.iter().filter_map(LandingPart::planned).collect()
    }

    /// The first of the commits that are to be made; once all are there, what has to be known of them.
    fn build(self) -> LandingAsk {
        let seen = |part: &LandingPart| match part.stands {
            PartState::Seen { tip, base } => Some((tip, part.work.may_stay() && tip == base)),
            _ => None,
        };
        if let Some((part, (onto, as_it_is))) =
            self.parts.iter().enumerate().find_map(|(at, part)| Some((at, seen(part)?)))
        {
            return LandingAsk::Build(BuildAsk { landing: self, part, onto, as_it_is });
        }
        let needs = |part: &LandingPart| match part.stands {
            PartState::Built { proof, .. } => proof,
            _ => None,
        };
        match self.parts.iter().find_map(needs) {
            Some(proof) => LandingAsk::Verify(VerifyAsk { landing: self, proof }),
            None => self.record(),
        }
    }

    fn record(self) -> LandingAsk {
        if self.moves().is_empty() { self.advance() } else { LandingAsk::Record(RecordAsk(self)) }
    }

    /// The first of the branches that are to move; once all have, the end.
    fn advance(self) -> LandingAsk {
        match self.parts.iter().enumerate().find_map(|(at, part)| Some((at, part.planned()?))) {
            Some((part, step)) => LandingAsk::Move(MoveAsk { landing: self, part, step }),
            None => LandingAsk::Close(CloseAsk(self)),
        }
    }
}

/// See [`LandingAsk::Look`].
#[derive(Debug)]
pub struct LookAsk(Parts);

impl LookAsk {
    /// Where they are, in their order.
    pub fn saw(self, seen: impl IntoIterator<Item = TargetState>) -> LandingAsk {
        let Self(mut landing) = self;
        for (part, seen) in landing.parts.iter_mut().zip(seen) {
            part.stands = match (seen, part.stands) {
                (TargetState::Gone, _) => return part.refused(RefusalReason::Gone),
                (TargetState::Held(why), _) => return part.refused(RefusalReason::Held(why)),
                // It was moved a moment ago.
                (TargetState::Has(_), landed @ PartState::Landed { .. }) => landed,
                (TargetState::Has(commit), _) => PartState::Landed { from: None, commit },
                (TargetState::At { tip, base }, _) => PartState::Seen { tip, base },
            };
        }
        landing.build()
    }
}

/// See [`LandingAsk::Build`].
#[derive(Debug)]
pub struct BuildAsk {
    landing: Parts,
    part: usize,
    onto: CommitId,
    as_it_is: bool,
}

impl BuildAsk {
    /// The branch.
    pub fn target(&self) -> &LandingTarget {
        &self.landing.parts[self.part].target
    }

    /// Where it is.
    pub fn onto(&self) -> CommitId {
        self.onto
    }

    /// Whether the work lands as it is, and not rebuilt on the branch.
    pub fn is_as_it_is(&self) -> bool {
        self.as_it_is
    }

    /// The commit is there.
    pub fn built(self, to: CommitId) -> LandingAsk {
        let Self { mut landing, part, onto, as_it_is } = self;
        let part = &mut landing.parts[part];
        part.stands = PartState::Built { from: onto, to, proof: part.work.proof(as_it_is) };
        landing.build()
    }

    /// It cannot be made.
    pub fn failed(self, why: RefusalReason) -> LandingAsk {
        self.landing.parts[self.part].refused(why)
    }
}

/// See [`LandingAsk::Verify`].
#[derive(Debug)]
pub struct VerifyAsk {
    landing: Parts,
    proof: Proof,
}

impl VerifyAsk {
    /// What is to be known.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// The branches that would move, and what would be there.
    pub fn moves(&self) -> Vec<BranchMove> {
        self.landing.moves()
    }

    /// What came of it.
    pub fn verified(self, verdict: LandingVerdict) -> LandingAsk {
        let refused = |landing: &Parts, why| {
            let needs = |part: &&LandingPart| matches!(part.stands, PartState::Built { proof: Some(_), .. });
            let part = landing.parts.iter().find(needs).expect("only what needs a proof is verified");
            part.refused(why)
        };
        match verdict {
            LandingVerdict::Green | LandingVerdict::NoTests { passed_before: false } => self.landing.record(),
            LandingVerdict::NoTests { passed_before: true } => refused(&self.landing, RefusalReason::NoTests),
            LandingVerdict::Untestable(why) => refused(&self.landing, RefusalReason::Untestable(why)),
            LandingVerdict::Red => LandingAsk::End(LandingEnd::Red(self.landing.moves())),
            LandingVerdict::ByAgent => LandingAsk::Rewind(RewindAsk(self.landing)),
            LandingVerdict::Outdated => LandingAsk::End(LandingEnd::Outdated),
            LandingVerdict::Again => LandingAsk::Look(LookAsk(self.landing)),
            LandingVerdict::Stopped => LandingAsk::End(LandingEnd::Stopped),
        }
    }
}

/// See [`LandingAsk::Rewind`].
#[derive(Debug)]
pub struct RewindAsk(Parts);

impl RewindAsk {
    /// The branches that would have moved.
    pub fn moves(&self) -> Vec<BranchMove> {
        self.0.moves()
    }

    /// The commit the task continues behind; none where only another attempt can do it all again.
    pub fn rewound(self, behind: Option<CommitId>) -> LandingAsk {
        LandingAsk::End(behind.map_or_else(|| LandingEnd::Red(self.0.moves()), LandingEnd::Rewound))
    }
}

/// See [`LandingAsk::Record`].
#[derive(Debug)]
pub struct RecordAsk(Parts);

impl RecordAsk {
    /// What is about to move.
    pub fn moves(&self) -> Vec<BranchMove> {
        self.0.moves()
    }

    /// It is written down.
    pub fn recorded(self) -> LandingAsk {
        self.0.advance()
    }
}

/// See [`LandingAsk::Move`].
#[derive(Debug)]
pub struct MoveAsk {
    landing: Parts,
    part: usize,
    step: BranchMove,
}

impl MoveAsk {
    /// What is to move where.
    pub fn step(&self) -> &BranchMove {
        &self.step
    }

    /// It has.
    pub fn moved(self) -> LandingAsk {
        let Self { mut landing, part, step } = self;
        landing.parts[part].stands = PartState::Landed { from: Some(step.from), commit: step.to };
        landing.advance()
    }

    /// Another process moved it first: the build is discarded.
    pub fn target_moved(self) -> LandingAsk {
        LandingAsk::Look(LookAsk(self.landing))
    }

    /// It cannot.
    pub fn refused(self, why: RefusalReason) -> LandingAsk {
        self.landing.parts[self.part].refused(why)
    }
}

/// See [`LandingAsk::Close`].
#[derive(Debug)]
pub struct CloseAsk(Parts);

impl CloseAsk {
    /// What is where.
    pub fn landed(&self) -> Vec<LandedBranch> {
        let landed = |part: &LandingPart| match part.stands {
            PartState::Landed { from, commit } => Some(LandedBranch { target: part.target.clone(), from, commit }),
            _ => None,
        };
        self.0.parts.iter().filter_map(landed).collect()
    }

    /// It is written down.
    pub fn closed(self) -> LandingAsk {
        LandingAsk::End(LandingEnd::Landed)
    }
}
