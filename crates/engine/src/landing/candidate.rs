//! Merges an entry: the commit its target would move to, built on any commit. The same inputs give the same commit, so
//! a run after a crash builds the one that was tested.

use super::commits::{self, RebuildError};
use super::error::QueueError;
use super::markers::introduced_markers;
use super::sides::EntrySides;
use crate::merging::{TierOptions, TierResult, check_merge, resolve_conflict};
use git::merge::MergeError;
use git::record::entries::TESTED_TRAILER;
use git::{CommitSpec, Conflict, LossyMerge, MergeCheckError, Person, Repo, TreeId, Writer};
use pleach_core::config::HistoryShape;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::{ConflictLabels, LossExemptions, MergeOrigin, ResolvedHunk, Tier};
use pleach_core::queue::{Candidate, EntryResolution, MergeQuestion, MergeTests, QueueEntry};
use pleach_core::step::{Step, StepKind};
use pleach_core::text::named;
use pleach_core::trailer::CommitMessage;

/// How entries are merged.
#[derive(Debug, Clone)]
pub(super) struct MergeOptions {
    pub history: HistoryShape,
    /// Automatic resolution of conflicts.
    pub tiers: TierOptions,
    /// The tests to pass.
    pub tests: MergeTests,
}

/// A merge that may be tested.
#[derive(Debug, Clone)]
pub(super) struct BuiltMerge {
    pub commit: CommitId,
    pub tree: TreeId,
    /// What it is built on.
    pub onto: CommitId,
    /// How it was merged.
    pub origin: MergeOrigin,
    /// It has no test of its own, and its commit says so. Tests of entries that land with it do not count.
    pub is_unverified: bool,
}

/// The result of a merge.
#[derive(Debug)]
pub(super) enum MergeBuild {
    /// It may be tested.
    Built(BuiltMerge),
    /// The target has it already.
    Present,
    /// Commands have to run in the merged files first.
    Derive(Box<TierResult>),
    /// The sides conflict.
    Conflict(Box<LeftConflict>),
    /// The result is not fit to be tested.
    Unfit(UnfitMerge),
}

/// Why a merge must not be tested.
#[derive(Debug)]
pub(super) struct UnfitMerge {
    pub why: String,
    /// What a person can accept.
    pub question: Option<MergeQuestion>,
}

impl From<String> for UnfitMerge {
    fn from(why: String) -> Self {
        Self { why, question: None }
    }
}

/// A conflict that only an agent or a person can resolve.
#[derive(Debug)]
pub(super) struct LeftConflict {
    /// Git's result.
    pub conflict: Conflict,
    /// What is resolved of it.
    pub tried: TierResult,
}

impl LeftConflict {
    /// The conflict without its resolved parts.
    pub(super) fn rest(&self) -> Conflict {
        let files = self.tried.remaining.clone();
        Conflict {
            paths: files.iter().map(|file| file.path.clone()).collect(),
            details: self.conflict.details.clone(),
            files,
            marked: self.tried.tree,
        }
    }
}

impl BuiltMerge {
    pub(super) fn candidate(&self) -> Candidate {
        Candidate { commit: self.commit, tree: CommitId::from_bytes(*self.tree.as_bytes()), base: self.onto }
    }

    /// Records in an entry what would land.
    pub(super) fn show_in(&self, entry: &mut QueueEntry) {
        entry.candidate = Some(self.candidate());
        entry.tier = Some(self.origin.tier);
        entry.resolved = self.resolved();
    }

    /// The resolved hunks, as in trailers and entries.
    pub(super) fn resolved(&self) -> Vec<String> {
        self.origin.trailers().into_iter().skip(1).map(|(_, value)| value).collect()
    }
}

/// Merges an entry onto a commit.
pub(super) fn build(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    options: &MergeOptions,
) -> Result<MergeBuild, QueueError> {
    if repo.history().is_ancestor(entry.head, onto)? {
        return Ok(MergeBuild::Present);
    }
    let Some(sides) = EntrySides::find(repo, entry, onto)? else {
        // A shallow clone is not the entry's fault.
        if repo.history().is_shallow()? {
            return Err(QueueError::Shallow { branch: entry.name(), target: entry.target.clone() });
        }
        return Ok(MergeBuild::Unfit(format!("it has no commit in common with `{}`", entry.target).into()));
    };
    let merging = Merging { repo, entry, sides, options };
    if let Some(resolution) = &entry.resolution
        && let Some(tree) = merging.replayed(resolution)?
    {
        return merging.with_resolution(tree, resolution);
    }
    merging.plain()
}

/// A merge that is being made.
struct Merging<'a> {
    repo: &'a Repo,
    entry: &'a QueueEntry,
    sides: EntrySides,
    options: &'a MergeOptions,
}

impl Merging<'_> {
    /// Without the entry's own resolution.
    fn plain(&self) -> Result<MergeBuild, QueueError> {
        let EntrySides { base, onto, head, .. } = self.sides;
        // A joint landing needs a commit that names it.
        if base == onto && self.is_linear() && self.entry.together.is_none() {
            let tree = self.repo.tree_of(head)?;
            return Ok(match self.marked(tree)? {
                Some(why) => MergeBuild::Unfit(why),
                None => self.built(head, tree, origin(Tier::FastForward)),
            });
        }
        let mut writer = self.repo.writer();
        let merged = if self.rebuilds() {
            self.rebuilt(&mut writer)?
        } else {
            match self.merged_tree()? {
                Ok(tree) => Ok((self.merge_commit(&mut writer, tree, &origin(Tier::Clean))?, tree)),
                Err(conflict) => Err(conflict),
            }
        };
        let (commit, tree) = match merged {
            Ok(merged) => merged,
            Err(conflict) => return self.by_tiers(conflict),
        };
        writer.flush()?;
        self.checked(commit, tree, origin(Tier::Clean), &LossExemptions::default())
    }

    /// Resolves a conflict by the automatic tiers.
    fn by_tiers(&self, conflict: Conflict) -> Result<MergeBuild, QueueError> {
        let [base, ours, theirs] = self.sides.trees(self.repo)?;
        let base = if self.rebuilds() {
            base
        } else {
            git::merge::merge_base_tree(self.repo, self.sides.onto, self.sides.head)?.unwrap_or(base)
        };
        let tiers = TierOptions { labels: self.labels(), ..self.options.tiers.clone() };
        let tried = resolve_conflict(self.repo, base, ours, theirs, &conflict, &tiers)?;
        if !tried.remaining.is_empty() {
            return Ok(MergeBuild::Conflict(Box::new(LeftConflict { conflict, tried })));
        }
        if !tried.derived.is_empty() {
            return Ok(MergeBuild::Derive(Box::new(tried)));
        }
        let exemptions = LossExemptions { resolved: tried.resolved.clone(), ..LossExemptions::default() };
        let origin = MergeOrigin { tier: tried.tier, resolved: tried.resolved };
        let mut writer = self.repo.writer();
        let commit = self.resolved_commit(&mut writer, tried.tree, &origin)?;
        writer.flush()?;
        self.checked(commit, tried.tree, origin, &exemptions)
    }

    /// What both sides are called where they are left in conflict: their branches, where they have such.
    fn labels(&self) -> ConflictLabels {
        let theirs = self.entry.branch.as_ref().map_or_else(|| self.entry.name(), ToString::to_string);
        ConflictLabels { ours: self.entry.target.to_string(), theirs, ..ConflictLabels::default() }
    }

    fn is_linear(&self) -> bool {
        self.options.history == HistoryShape::Linear
    }

    /// A merge would restore commits removed from the target.
    fn rebuilds(&self) -> bool {
        (self.is_linear() && self.entry.base.is_some()) || self.sides.is_taken_back
    }

    fn built(&self, commit: CommitId, tree: TreeId, origin: MergeOrigin) -> MergeBuild {
        let is_unverified = self.is_unverified();
        MergeBuild::Built(BuiltMerge { commit, tree, onto: self.sides.onto, origin, is_unverified })
    }

    fn is_unverified(&self) -> bool {
        self.options.tests.of([self.entry]).is_empty()
    }

    fn merged_tree(&self) -> Result<Result<TreeId, Conflict>, git::Error> {
        or_conflict(git::merge::merge_commits(self.repo, self.sides.onto, self.sides.head))
    }

    /// The entry's own commits, built again one by one.
    fn rebuilt(&self, writer: &mut Writer) -> Result<Result<(CommitId, TreeId), Conflict>, git::Error> {
        let EntrySides { base, onto, head, .. } = self.sides;
        let commits = commits::commits_since(self.repo, head, base)?;
        match commits::rebuild(self.repo, writer, &commits, base, onto) {
            Ok(copies) => {
                writer.flush()?;
                let commit = copies.last().copied().unwrap_or(onto);
                Ok(Ok((commit, self.repo.tree_of(commit)?)))
            }
            // A single commit conflicts; all of them may not.
            Err(RebuildError::Conflict { .. }) => match self.whole_tree()? {
                Ok(tree) => Ok(Ok((self.rebuilt_with(writer, tree, &origin(Tier::Clean))?, tree))),
                Err(conflict) => Ok(Err(conflict)),
            },
            Err(RebuildError::Git(error)) => Err(error),
        }
    }

    /// All of the entry's own commits as one change.
    fn whole_tree(&self) -> Result<Result<TreeId, Conflict>, git::Error> {
        let [base, ours, theirs] = self.sides.trees(self.repo)?;
        or_conflict(git::merge::merge_trees(self.repo, base, ours, theirs))
    }

    /// The commit with resolved files.
    fn resolved_commit(&self, writer: &mut Writer, tree: TreeId, origin: &MergeOrigin) -> Result<CommitId, git::Error> {
        if self.rebuilds() { self.rebuilt_with(writer, tree, origin) } else { self.merge_commit(writer, tree, origin) }
    }

    fn merge_commit(&self, writer: &mut Writer, tree: TreeId, origin: &MergeOrigin) -> Result<CommitId, git::Error> {
        self.commit(writer, tree, vec![self.sides.onto, self.sides.head], "merge", origin)
    }

    fn commit(
        &self,
        writer: &mut Writer,
        tree: TreeId,
        parents: Vec<CommitId>,
        act: &str,
        origin: &MergeOrigin,
    ) -> Result<CommitId, git::Error> {
        let own = ("Pleach-Merge".to_owned(), self.entry.id.to_string());
        let together = self.entry.together.as_ref().map(|id| ("Pleach-Landing".to_owned(), id.to_string()));
        // It cannot hold test results, as it is what is tested.
        let untested = self.is_unverified().then(|| (TESTED_TRAILER.to_owned(), "none".to_owned()));
        let message = CommitMessage {
            subject: format!("{act}: {}", self.entry.name()),
            body: self.entry.title.clone(),
            trailers: [own].into_iter().chain(together).chain(origin.trailers()).chain(untested).collect(),
        };
        self.write(writer, tree, parents, message)
    }

    /// The step that records who resolved a task's conflict. None without a task with steps, or if it was automatic.
    fn merge_step(&self, commits: &[CommitId], origin: &MergeOrigin) -> Result<Option<CommitMessage>, git::Error> {
        let by = match (origin.tier, &self.entry.resolver) {
            (Tier::Agent, Some(session)) => format!("an agent, in session {session}"),
            (Tier::Agent, None) => "an agent".to_owned(),
            (Tier::Person, _) => "a person".to_owned(),
            _ => return Ok(None),
        };
        let Some(task) = self.entry.task.as_ref().filter(|_| self.entry.is_repairable()) else { return Ok(None) };
        let target = self.entry.target.as_str();
        for commit in commits.iter().rev() {
            let text = self.repo.history().message_of(*commit)?.message;
            let step = Step::read(&CommitMessage::read(&String::from_utf8_lossy(&text)), target);
            let Some(last) = step.filter(|step| step.task.as_ref() == Some(task) && step.retry.is_some()) else {
                continue;
            };
            let Step { session, tree, name, retry, .. } = last;
            let step = Step { session, tree, name, retry, ..Step::new(Some(task.clone()), StepKind::merge(), true) };
            let mut paths: Vec<&RepoPath> = origin.resolved.iter().map(|hunk| &hunk.path).collect();
            paths.dedup();
            let body = format!("The conflict in {} was resolved by {by}.", named(&paths));
            let mut message = step.message(target, &self.entry.title, None, &body);
            message.trailers.push(("Pleach-Merge".to_owned(), self.entry.id.to_string()));
            message.trailers.extend(origin.trailers());
            return Ok(Some(message));
        }
        Ok(None)
    }

    fn write(
        &self,
        writer: &mut Writer,
        tree: TreeId,
        parents: Vec<CommitId>,
        message: CommitMessage,
    ) -> Result<CommitId, git::Error> {
        writer.commit(&CommitSpec {
            tree,
            parents,
            author: Person::pleach(),
            committer: Person::pleach(),
            message: message.write().into_bytes(),
            // The entry's date, so that a rebuild gives the same commit.
            at: self.entry.completed_at,
        })
    }

    /// A resolution replayed on the commit it is merged onto. None if it conflicts there.
    fn replayed(&self, resolution: &EntryResolution) -> Result<Option<TreeId>, git::Error> {
        let tree = |commit| self.repo.tree_of(commit);
        let [made_on, now, resolved] = [tree(resolution.onto)?, tree(self.sides.onto)?, tree(resolution.commit)?];
        Ok(or_conflict(git::merge::merge_trees(self.repo, made_on, now, resolved))?.ok())
    }

    /// The merge with a resolution by a command, an agent or a person.
    fn with_resolution(&self, tree: TreeId, resolution: &EntryResolution) -> Result<MergeBuild, QueueError> {
        let mut writer = self.repo.writer();
        let plain = QueueEntry { resolution: None, ..self.entry.clone() };
        let plain = Merging { entry: &plain, ..*self }.plain()?;
        let resolved: Vec<ResolvedHunk> = resolution.resolved();
        let derived = match resolution.tier {
            Tier::Derived => {
                let paths = resolved.iter().filter(|hunk| hunk.source == Tier::Derived).map(|hunk| &hunk.path);
                self.options.tiers.derived.for_files(paths)
            }
            _ => Default::default(),
        };
        if let MergeBuild::Built(built) = plain {
            // Only the tests had failed: the merge is git's, and the repair is a commit on top of it. No hunk is in
            // conflict, so it covers whole files.
            let repaired = resolved.into_iter().map(|hunk| ResolvedHunk { hunk: 0, ..hunk });
            let origin = MergeOrigin {
                tier: resolution.tier.max(built.origin.tier),
                resolved: built.origin.resolved.into_iter().chain(repaired).collect(),
            };
            let commit = self.commit(&mut writer, tree, vec![built.commit], "repair", &origin)?;
            writer.flush()?;
            let exemptions = LossExemptions { resolved: origin.resolved.clone(), derived, ..LossExemptions::default() };
            return self.checked(commit, tree, origin, &exemptions);
        }
        let origin = MergeOrigin { tier: resolution.tier, resolved };
        let commit = self.resolved_commit(&mut writer, tree, &origin)?;
        writer.flush()?;
        // Resolving a hunk may need an import above.
        let extended = origin.resolved.iter().filter(|hunk| hunk.source == Tier::Agent).map(|hunk| hunk.path.clone());
        let exemptions = LossExemptions { extended: extended.collect(), resolved: origin.resolved.clone(), derived };
        self.checked(commit, tree, origin, &exemptions)
    }

    /// The entry's own commits, rebuilt: one that conflicts keeps the files before it. Then a commit with the resolved
    /// files, and the last commit on top.
    fn rebuilt_with(&self, writer: &mut Writer, tree: TreeId, origin: &MergeOrigin) -> Result<CommitId, git::Error> {
        let EntrySides { base, onto, head, .. } = self.sides;
        let commits = commits::commits_since(self.repo, head, base)?;
        let [before @ .., last] = &commits[..] else { return Ok(onto) };
        let (from, tip) = (self.repo.tree_of(base)?, self.repo.tree_of(onto)?);
        let (mut parent, mut files) = (onto, tip);
        for step in before {
            let merged = git::merge::merge_trees(self.repo, from, tip, self.repo.tree_of(*step)?);
            files = or_conflict(merged)?.unwrap_or(files);
            parent = writer.commit_again(*step, files, &[parent])?;
        }
        let resolved = match self.merge_step(&commits, origin)? {
            Some(step) => self.write(writer, tree, vec![parent], step)?,
            None => self.commit(writer, tree, vec![parent], "resolve", origin)?,
        };
        writer.commit_again(*last, tree, &[resolved])
    }

    /// The merge, unless it lost changes of a side or has conflict markers.
    fn checked(
        &self,
        commit: CommitId,
        tree: TreeId,
        origin: MergeOrigin,
        exemptions: &LossExemptions,
    ) -> Result<MergeBuild, QueueError> {
        if let Some(lossy) = self.lossy(tree, exemptions)? {
            return Ok(MergeBuild::Unfit(lossy.to_string().into()));
        }
        Ok(match self.marked(tree)? {
            Some(why) => MergeBuild::Unfit(why),
            None => self.built(commit, tree, origin),
        })
    }

    /// What a result lost of a side.
    fn lossy(&self, tree: TreeId, exemptions: &LossExemptions) -> Result<Option<LossyMerge>, git::Error> {
        let EntrySides { onto, head, .. } = self.sides;
        if !self.rebuilds() {
            return check_merge(self.repo, onto, head, tree, exemptions);
        }
        let [base, ours, theirs] = self.sides.trees(self.repo)?;
        match git::check_merge_result(self.repo, base, ours, theirs, tree, exemptions) {
            Ok(_) => Ok(None),
            Err(MergeCheckError::Loss(lossy)) => Ok(Some(lossy)),
            Err(MergeCheckError::Git(error)) => Err(error),
        }
    }

    /// Why a result must not be tested: new conflict markers.
    fn marked(&self, merged: TreeId) -> Result<Option<UnfitMerge>, git::Error> {
        if self.entry.accepted.contains(&MergeQuestion::Markers) {
            return Ok(None);
        }
        let marked = introduced_markers(self.repo, self.repo.tree_of(self.sides.onto)?, merged)?;
        Ok((!marked.is_empty()).then(|| UnfitMerge {
            why: format!(
                "conflict markers are in {}; if they belong there, agree with `pleach merge approve`",
                named(&marked)
            ),
            question: Some(MergeQuestion::Markers),
        }))
    }
}

fn origin(tier: Tier) -> MergeOrigin {
    MergeOrigin { tier, resolved: Vec::new() }
}

fn or_conflict(merged: Result<TreeId, MergeError>) -> Result<Result<TreeId, Conflict>, git::Error> {
    match merged {
        Ok(tree) => Ok(Ok(tree)),
        Err(MergeError::Conflict(conflict)) => Ok(Err(conflict)),
        Err(MergeError::Git(error)) => Err(error),
    }
}
