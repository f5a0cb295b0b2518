//! A branch at the remote of its repository, for a pull request.

use std::path::Path;

use engine::view::{RepoWork, Summary};
use git::remote::{self, PushRef, RefPush, RemoteError, RemoteUrl, upstream_of};
use git::workspace::{PushState, branch_ref};
use os::process::Cancel;
use pleach_core::ids::{BranchName, CommitId, RepoName};

use crate::code::Code;
use crate::failure::Failure;
use crate::forge::link_of_push;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::place::Place;
use crate::remotes::remote_to_push;
use crate::sessions::SessionGround;

/// A branch at the remote of its repository.
#[derive(Debug)]
pub struct PushedBranch {
    /// The repository.
    pub repo: RepoName,
    /// The branch, by its name there.
    pub branch: BranchName,
    pub(super) place: Place,
    pub(super) commit: CommitId,
    pub(super) base: Option<BranchName>,
    pub(super) remote: RemoteUrl,
    /// Where the remote says a request can be opened.
    pub(super) link: Option<String>,
}

impl PushedBranch {
    pub(super) fn find(
        globals: &Globals,
        ground: &SessionGround,
        repo_work: &RepoWork<'_>,
        base: Option<&BranchName>,
        summary: &Summary,
    ) -> Result<Self, Failure> {
        let is_record = repo_work.repo == summary.started.record_repo();
        let place = if is_record { ground.place.clone() } else { Place::named(repo_work.repo, &ground.settings)? };
        let work = repo_work.work.expect("a repository that has changed has a commit");
        // A person may have committed to the branch since.
        let at = repo_work.branch_at(&place.repo).map_err(|error| of_engine(&error))?;
        let is_on_it = |at: &CommitId| place.repo.history().is_ancestor(work, *at).unwrap_or(false);
        let commit = at.filter(is_on_it).unwrap_or(work);
        let base = match (base, repo_work.target) {
            (Some(base), _) => Some(base.clone()),
            (None, Some(target)) => Some(upstream_of(&place.repo, target).map_err(|error| of_git(&error))?),
            (None, None) => None,
        };
        let remote = remote_to_push(globals, &ground.settings, &place)?;
        let known = PushState::read(ground.place.repo.common_dir(), &summary.run);
        let beside = known.repos.get(repo_work.repo).filter(|known| known.remote == remote.to_string());
        let beside = beside.and_then(|known| known.beside.get(&branch_ref(repo_work.branch)));
        let branch = beside.and_then(|name| name.strip_prefix("refs/heads/")?.parse().ok());
        let branch = branch.unwrap_or_else(|| repo_work.branch.clone());
        let found = Self { repo: repo_work.repo.clone(), branch, place, commit, base, remote, link: None };
        found.refuse_taken()?;
        Ok(found)
    }

    /// Refuses it before anything is pushed where the remote has other commits under its name.
    fn refuse_taken(&self) -> Result<(), Failure> {
        let (name, history) = (branch_ref(&self.branch), self.place.repo.history());
        let listed = remote::list_refs_from(&self.place.repo, &self.remote, &[&name], &Cancel::never());
        let at = listed.map_err(|error| self.unreachable(&error))?.remove(&name);
        // A commit that is not here leads to none that is.
        if at.is_none_or(|at| history.is_ancestor(at, self.commit).unwrap_or(false)) {
            Ok(())
        } else {
            Err(self.refused("it has other commits there", true))
        }
    }

    fn unreachable(&self, error: &RemoteError) -> Failure {
        let Self { branch, remote, .. } = self;
        let why = error.to_string().replace('\n', "; ");
        Failure::new(Code::BranchNotPushed, format!("`{branch}` cannot be pushed to {remote}: {why}"))
            .hint("check the network and your credentials, then try again")
    }

    fn refused(&self, why: &str, is_behind: bool) -> Failure {
        let Self { branch, remote, .. } = self;
        let hint = if is_behind {
            format!("somebody has pushed to it: fetch it and merge it into `{branch}`, then try again")
        } else {
            "the remote says why; it may protect branches of this name".to_owned()
        };
        Failure::new(Code::PushRefused, format!("{remote} refuses `{branch}`: {why}")).hint(hint)
    }

    pub(super) fn push(&mut self, globals: &Globals, records: &Path, summary: &Summary) -> Result<(), Failure> {
        let Self { remote, place, .. } = &*self;
        let pushed = [PushRef { name: branch_ref(&self.branch), commit: self.commit }];
        let report = remote::push(&place.repo, remote, &pushed, &Cancel::never());
        let report = report.map_err(|error| self.unreachable(&error))?;
        if !report.is_done() {
            let is_behind = report.refs.iter().any(|pushed| pushed.result == RefPush::NonFastForward);
            return Err(self.refused(&report.why(), is_behind));
        }
        // It is a help alone, for `status`.
        let own = summary.started.branches.get(&self.repo).map(|own| (branch_ref(own), self.commit));
        let (to, own) = (remote.to_string(), own.into_iter().collect());
        let _ = PushState::note_pushed(records, &summary.run, &self.repo, &to, own);
        self.link = link_of_push(&report.words).map(str::to_owned);
        if globals.verbosity >= 0 && !globals.json {
            say!("pushed {} to {}", self.branch, self.remote);
        }
        Ok(())
    }
}
