//! Which sessions `pleach rm` removes that nobody named: those that every given option fits.

use clap::Args;
use pleach::engine::{Summary, View};
use pleach::git::Repo;
use pleach::ids::SessionId;

use crate::exit::Failure;
use crate::failure::of_engine;

/// What sessions are chosen by. Several options narrow the choice.
#[derive(Debug, Args)]
#[group(id = "selectors", multiple = true)]
pub struct Selectors {
    /// Remove the sessions of tasks that have landed.
    #[arg(long)]
    landed: bool,
}

/// One thing sessions are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// Its task is complete and the target has it.
    Landed,
}

impl Selectors {
    /// The options that were given; none when sessions are named instead.
    pub fn given(&self) -> Vec<Selector> {
        [(self.landed, Selector::Landed)]
            .into_iter()
            .filter(|(given, _)| *given)
            .map(|(_, selector)| selector)
            .collect()
    }
}

impl Selector {
    /// Whether a session is one of those.
    fn fits(self, repo: &Repo, summary: &Summary) -> Result<bool, Failure> {
        match self {
            Self::Landed => summary.is_on_target(repo).map_err(|error| of_engine(&error)),
        }
    }
}

/// The sessions all of these fit, oldest first. One whose record cannot be read, or that runs, is not among them.
pub fn select(repo: &Repo, selectors: &[Selector]) -> Result<Vec<SessionId>, Failure> {
    let mut chosen = Vec::new();
    for (id, summary) in View::all(repo).map_err(|error| of_engine(&error))? {
        let Ok(summary) = summary else { continue };
        let mut fits = !summary.in_use;
        for selector in selectors {
            fits = fits && selector.fits(repo, &summary)?;
        }
        chosen.extend(fits.then_some(id));
    }
    chosen.reverse();
    Ok(chosen)
}
