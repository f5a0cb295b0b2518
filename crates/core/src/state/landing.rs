//! How a finished session lands: in several repositories at once, or not at all.

use super::{Phase, State};
use crate::event::{Landed, Landing};

impl State {
    /// A branch is about to move. What was about to move before and has not is given up.
    pub(super) fn landing(&mut self, data: &Landing) -> Result<(), String> {
        self.must_be_done()?;
        self.landing.retain(|before| before.repo != data.repo);
        self.landing.push(data.clone());
        Ok(())
    }

    pub(super) fn landed(&mut self, data: &Landed) -> Result<(), String> {
        self.must_be_done()?;
        self.landing.retain(|before| before.repo != data.repo);
        self.landed.insert(data.repo.clone(), data.commit);
        Ok(())
    }

    fn must_be_done(&self) -> Result<(), String> {
        match self.phase {
            Phase::Completed => Ok(()),
            _ => Err(format!("the session is {}", self.phase.word())),
        }
    }
}
