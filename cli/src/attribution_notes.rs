//! Notes on what a command has brought onto branches, where the settings ask for them (`attribution_notes`). A run or a landing is
//! over by then: that a note cannot be written is a warning.

use std::collections::BTreeMap;

use engine::session::Session;
use git::Repo;
use history::notes::{NewCommits, write_notes};
use history::why::{WhyError, WhyGround};
use pleach_core::config::{AttributionNotes, Config};
use pleach_core::ids::{CommitId, RepoName};

use crate::lib_errors::of_why;
use crate::place::Place;

/// The commits of branches.
type Heads = BTreeMap<String, CommitId>;

/// The branches of repositories, and where they stood before a command moved them.
#[derive(Debug, Default)]
pub struct BranchesBefore {
    repos: Vec<(Place, Heads)>,
}

impl BranchesBefore {
    /// Looks at them; at none where no notes are asked for.
    pub fn look<'a>(config: &Config, places: impl IntoIterator<Item = &'a Place>) -> Self {
        if config.attribution_notes == AttributionNotes::None {
            return Self::default();
        }
        let heads = |place: &Place| heads(&place.repo).map_err(WhyError::from);
        let look = |place: &'a Place| Some((place.clone(), or_warn(&place.name, heads(place))?));
        Self { repos: places.into_iter().filter_map(look).collect() }
    }

    /// Writes notes on what they have come to have since; the runs are recorded in `records`.
    pub fn write_notes(self, records: &Repo) {
        for (place, before) in self.repos {
            let write = || {
                let new = |(name, tip): (String, CommitId)| {
                    let below = match before.get(&name) {
                        Some(old) => vec![*old],
                        None => before.values().copied().collect(),
                    };
                    NewCommits { tip, below }
                };
                let moved = heads(&place.repo)?.into_iter().filter(|(name, tip)| before.get(name) != Some(tip));
                let new: Vec<NewCommits> = moved.map(new).collect();
                let ground = WhyGround::new(place.repo.clone(), place.name.clone(), records.clone());
                write_notes(&ground, &new)
            };
            or_warn(&place.name, write());
        }
    }
}

/// Writes notes on what a run has committed, in earlier processes as well.
pub fn note_session(session: &Session) {
    let wanted = session.started().config.get("attribution_notes").and_then(|value| value.as_str());
    if wanted != Some(AttributionNotes::GitAi.as_str()) {
        return;
    }
    let repos = session.repos();
    for (name, repo) in repos.iter() {
        let (base, work) = (session.started().base.get(name), session.state().work.get(name));
        if let (Some(base), Some(tip)) = (base, work) {
            let ground = WhyGround::new(repo.clone(), name.clone(), repos.record().clone());
            or_warn(name, write_notes(&ground, &[NewCommits { tip: *tip, below: vec![*base] }]));
        }
    }
}

fn heads(repo: &Repo) -> Result<Heads, git::Error> {
    Ok(repo.refs().list("refs/heads/")?.into_iter().collect())
}

fn or_warn<T>(name: &RepoName, written: Result<T, WhyError>) -> Option<T> {
    written
        .map_err(|error| {
            let why = of_why(error).sentence();
            warning!(NotesNotWritten, "no notes were written on the new commits of {name}: {why}");
        })
        .ok()
}
