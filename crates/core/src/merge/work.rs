//! What can land, and what it takes: whether it may land as it is, and what has to be known of it before.

/// Work that lands on one branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandingWork {
    /// A task that is complete: its steps, with their code.
    Task,
    /// A task that was given up: its steps, without their code.
    FailedTask,
    /// What the tests of a phase have said.
    Gate {
        /// They ran on what the merge of the phase would be, and not on what is landed.
        on_merge: bool,
    },
    /// A phase whose tasks are done: the merge of its branch.
    Phase,
    /// Commits that change no code: the start of a run, a decision about a task, steps that are copied.
    Bookkeeping,
}

/// What has to be known of a commit before a branch moves to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// That the tests pass on its files.
    Tests,
    /// That it is about the files it lands on.
    SameFiles,
}

impl LandingWork {
    /// Whether it lands as it is where nothing has reached the branch since it was started.
    pub(super) fn may_stay(self) -> bool {
        match self {
            Self::Task | Self::Gate { on_merge: false } => true,
            Self::FailedTask | Self::Gate { on_merge: true } | Self::Phase | Self::Bookkeeping => false,
        }
    }

    /// What has to be known of it, as it was or rebuilt on the branch.
    pub(super) fn proof(self, as_it_was: bool) -> Option<Proof> {
        match self {
            Self::Task => (!as_it_was).then_some(Proof::Tests),
            Self::Gate { on_merge: false } => (!as_it_was).then_some(Proof::SameFiles),
            // Two that are tested each may not be together.
            Self::Phase => Some(Proof::Tests),
            // What they ran on is not on the branch yet, and is compared when it is merged.
            Self::Gate { on_merge: true } => None,
            Self::FailedTask | Self::Bookkeeping => None,
        }
    }
}
