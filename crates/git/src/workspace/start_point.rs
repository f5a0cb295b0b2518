//! Where a session starts in a repository that was fetched.

use std::collections::BTreeSet;

use crate::git::remote::{RemoteUrl, fetched_branches, fetched_ref, upstream_of};
use crate::git::{self, Head, Repo};
use pleach_core::event::FetchedStart;
use pleach_core::ids::{BranchName, CommitId, RepoName};

/// Where a session starts, and why there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPoint {
    /// The commit.
    pub commit: CommitId,
    /// Why.
    pub why: FetchedStart,
    /// The branch of the remote that HEAD follows, if it has one.
    pub upstream: Option<BranchName>,
}

/// The branch of the remote that HEAD follows, whether the remote has it or not.
pub fn upstream(repo: &Repo, head: &Head) -> Result<Option<BranchName>, git::Error> {
    head.branch.as_ref().map(|branch| upstream_of(repo, branch)).transpose()
}

/// Where a session starts once the remote of its repository was fetched: at the upstream of HEAD, or at HEAD if that has
/// commits of its own.
pub fn start_point(repo: &Repo, name: &RepoName, head: &Head) -> Result<StartPoint, git::Error> {
    let at_head = |why, upstream| StartPoint { commit: head.commit, why, upstream };
    let Some(upstream) = upstream(repo, head)? else { return Ok(at_head(FetchedStart::NoUpstream, None)) };
    let Some(theirs) = repo.refs().find(&fetched_ref(name, &upstream))? else {
        return Ok(at_head(FetchedStart::NoUpstream, None));
    };
    let history = repo.history();
    let has = |ancestor, descendant| history.is_ancestor(ancestor, descendant);
    let upstream = Some(upstream);
    Ok(match (has(theirs, head.commit)?, has(head.commit, theirs)?) {
        (true, true) => at_head(FetchedStart::Same, upstream),
        (true, false) => at_head(FetchedStart::Ahead, upstream),
        (false, true) => StartPoint { commit: theirs, why: FetchedStart::Upstream, upstream },
        (false, false) => at_head(FetchedStart::Diverged, upstream),
    })
}

/// Whether a repository shares no commit with its remote, as far as that was cloned or fetched: neither where HEAD is nor on
/// another branch. A shallow clone cannot tell.
pub fn is_unrelated(repo: &Repo, name: &RepoName, remote: &RemoteUrl, head: &Head) -> Result<bool, git::Error> {
    let theirs = fetched_branches(repo, name, &remote.to_string())?.into_iter().map(|(_, at)| at);
    let theirs: BTreeSet<CommitId> = theirs.collect();
    if theirs.is_empty() || repo.history().is_shallow()? {
        return Ok(false);
    }
    let branches = repo.refs().list("refs/heads/")?.into_iter().map(|(_, at)| at);
    let mut seen = BTreeSet::new();
    for ours in std::iter::once(head.commit).chain(branches).filter(|at| seen.insert(*at)) {
        for at in &theirs {
            if repo.history().merge_base(ours, *at)?.is_some() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
