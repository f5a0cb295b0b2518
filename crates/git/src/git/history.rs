//! Walking history, each commit read once.
//!
//! Commits come oldest first, and commits brought in by a merge come after everything its first parent had: the history
//! of a first parent is always a prefix of its child's. So a reader that knows the history up to some commit can
//! continue from there and ends with the same result as one that starts over. Dates play no role.

use std::collections::BinaryHeap;
use std::fmt;

use gix::ObjectId;
use gix::hashtable::{HashMap, HashSet};
use gix::objs::Kind;

use super::error::{Error, LibraryContext as _, explain};
use super::id::{from_gix, to_gix};
use super::objects;
use super::remote::deepen;
use super::repo_pool::PooledRepo;
use super::shared::RepoShared;
use pleach_core::ids::CommitId;

/// A commit of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCommit {
    /// The commit.
    pub id: CommitId,
    /// The commits it was made on.
    pub parents: Vec<HistoryParent>,
    /// Its parents are missing because the clone is shallow.
    pub cut_off: bool,
    /// Its message and date, if the caller wanted them.
    pub kept: Option<CommitText>,
}

/// A parent of a commit of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryParent {
    /// It is part of the walk, at this index.
    Passed(usize),
    /// It is outside of the walk.
    Outside(CommitId),
}

/// Message and date of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitText {
    /// The author date in seconds.
    pub seconds: i64,
    /// Its offset from UTC in seconds.
    pub offset: i32,
    /// The whole message, byte for byte.
    pub message: Vec<u8>,
}

/// A predicate on the message of a commit.
pub(crate) type MessagePredicate<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Which commits keep their text, and of which merges only the first parent is walked.
pub(crate) type HistoryFilter<'a> = (MessagePredicate<'a>, MessagePredicate<'a>);

/// How many commits are looked at for their subjects.
const SUBJECTS_LOOKED_AT: usize = 300;

/// The history of commits.
#[derive(Clone, Copy)]
pub struct CommitHistory<'r> {
    pub(super) shared: &'r RepoShared,
}

impl fmt::Debug for CommitHistory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitHistory").field("git_dir", &self.shared.common_dir).finish()
    }
}

impl<'r> CommitHistory<'r> {
    pub(super) fn new(shared: &'r RepoShared) -> Self {
        Self { shared }
    }

    fn local(&self) -> PooledRepo {
        self.shared.pool.take()
    }

    /// All commits `tip` has in its history, itself included, oldest first. What a shallow clone lacks of it is fetched,
    /// if it is known from where; otherwise, and if that fails, the history is cut off.
    pub fn all(&self, tip: CommitId, look: HistoryFilter<'_>) -> Result<Vec<HistoryCommit>, Error> {
        let read = || HistoryReader::new(self.shared)?.pass(to_gix(tip), &|_| true, look);
        let found = read()?;
        let is_cut_off = found.iter().any(|commit| commit.cut_off);
        if is_cut_off && self.deepen().unwrap_or_default() { read() } else { Ok(found) }
    }

    /// Whether the clone is shallow: the parents of some commits are missing.
    pub fn is_shallow(&self) -> Result<bool, Error> {
        self.local().is_shallow().doing("read the ends of a shallow clone")
    }

    /// Fetches the history a shallow clone lacks. False if it lacks nothing, or it is not known from where to fetch it.
    fn deepen(&self) -> Result<bool, Error> {
        let Some(remote) = self.shared.deepening.get() else { return Ok(false) };
        if !self.is_shallow()? {
            return Ok(false);
        }
        let doing = "fetch the history this shallow clone lacks";
        let RepoShared { program, common_dir, .. } = self.shared;
        deepen(program, common_dir, remote)
            .map_err(|error| Error::Library { doing: doing.into(), detail: error.to_string() })?;
        Ok(true)
    }

    /// The first lines of the newest `most` commits that are wanted, down the first parents. No more than a few hundred
    /// commits are looked at.
    pub fn subjects(&self, tip: CommitId, most: usize, is_wanted: MessagePredicate<'_>) -> Result<Vec<String>, Error> {
        let reader = HistoryReader::new(self.shared)?;
        let mut subjects = Vec::new();
        let mut next = Some(to_gix(tip));
        for _ in 0..SUBJECTS_LOOKED_AT {
            let Some(id) = next.take().filter(|_| subjects.len() < most) else { break };
            let take = |commit: &gix::objs::CommitRef<'_>, parents: Vec<ObjectId>| {
                let first = commit.message.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let subject = is_wanted(commit.message).then(|| String::from_utf8_lossy(first).trim().to_owned());
                (subject, parents.first().copied())
            };
            let (subject, parent) = reader.read(id, take)?;
            subjects.extend(subject);
            next = parent;
        }
        Ok(subjects)
    }

    /// Message and date of one commit.
    pub fn message_of(&self, id: CommitId) -> Result<CommitText, Error> {
        read(&self.local(), to_gix(id), kept)
    }

    /// Whether the parents of a commit are missing because the clone is shallow.
    pub fn is_shallow_at(&self, id: CommitId) -> Result<bool, Error> {
        Ok(shallow(&self.local())?.contains(&to_gix(id)))
    }

    /// The commits only one of two has in its history, each oldest first. Takes time proportional to the difference.
    pub fn symmetric_difference(
        &self,
        one: CommitId,
        two: CommitId,
        look: HistoryFilter<'_>,
    ) -> Result<[Vec<HistoryCommit>; 2], Error> {
        let reader = HistoryReader::new(self.shared)?;
        let tips = [to_gix(one), to_gix(two)];
        let read = |id| reader.read(id, |commit, parents| (time(commit), parents));
        let sides = paint([(tips[0], ONE), (tips[1], TWO)], read)?;
        let only = |tip: ObjectId, side: u8| reader.pass(tip, &|id| sides.get(id) == Some(&side), look);
        Ok([only(tips[0], ONE)?, only(tips[1], TWO)?])
    }

    /// The best common ancestor of two commits, none if their histories are unrelated.
    pub fn merge_base(&self, one: CommitId, two: CommitId) -> Result<Option<CommitId>, Error> {
        Ok(self.merge_bases(one, two)?.into_iter().next())
    }

    /// All common ancestors of two commits of which none is an ancestor of another. Mostly there is one. A shallow clone
    /// that knows of none fetches its history first.
    pub(super) fn merge_bases(&self, one: CommitId, two: CommitId) -> Result<Vec<CommitId>, Error> {
        let bases = self.known_merge_bases(one, two)?;
        if bases.is_empty() && self.deepen()? { self.known_merge_bases(one, two) } else { Ok(bases) }
    }

    fn known_merge_bases(&self, one: CommitId, two: CommitId) -> Result<Vec<CommitId>, Error> {
        let repo = self.local();
        let (one, two) = (to_gix(one), to_gix(two));
        // The commit-graph only saves time: one that is broken is done without, as git does.
        let graph = repo.commit_graph_if_enabled().unwrap_or_default();
        let with = |graph: Option<&_>| repo.merge_bases_many_with_graph(one, &[two], &mut repo.revision_graph(graph));
        let bases = match with(graph.as_ref()) {
            Err(_) if graph.is_some() => with(None),
            bases => bases,
        };
        Ok(bases.doing("find the common ancestor")?.into_iter().map(|base| from_gix(&base)).collect())
    }

    /// Whether `descendant` is `ancestor` or has it in its history.
    pub fn is_ancestor(&self, ancestor: CommitId, descendant: CommitId) -> Result<bool, Error> {
        // Mostly one of them lies a few commits behind the other.
        if self.is_recent_ancestor(ancestor, descendant)? {
            return Ok(true);
        }
        let is_behind = match self.is_recent_ancestor(descendant, ancestor) {
            Ok(false) => self.merge_base(ancestor, descendant).map(|base| base == Some(ancestor)),
            other => other.map(|_| false),
        };
        match is_behind {
            Err(error) if error.is_damage() => {
                // What cannot be read is in no history that can be read whole.
                self.all(descendant, (&|_| false, &|_| false))?;
                Ok(false)
            }
            other => other,
        }
    }

    /// Whether the first few steps back from `from` lead to a commit.
    fn is_recent_ancestor(&self, commit: CommitId, from: CommitId) -> Result<bool, Error> {
        let (repo, wanted) = (self.local(), to_gix(commit));
        let mut at = Some(to_gix(from));
        for _ in 0..SHORTLY {
            match at {
                Some(id) if id == wanted => return Ok(true),
                Some(id) => {
                    let commit = match repo.find_commit(id) {
                        // The clone is shallow, and this is where it ends.
                        Err(error) if error.is_not_found() && repo.is_shallow().unwrap_or_default() => {
                            return Ok(false);
                        }
                        found => found.map_err(|error| Error::object("commit", &id, explain(&error)))?,
                    };
                    at = commit.parent_ids().next().map(gix::Id::detach);
                }
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// What the first alone has.
pub(super) const ONE: u8 = 1;

/// What the second alone has.
pub(super) const TWO: u8 = 2;

const BOTH: u8 = ONE | TWO;

pub(super) struct HistoryReader {
    repo: gix::Repository,
    /// The commits whose parents a shallow clone left behind.
    shallow: HashSet<ObjectId>,
}

impl HistoryReader {
    pub fn new(shared: &RepoShared) -> Result<Self, Error> {
        // A whole history would drive everything else out of memory.
        let repo = shared.pool.handle.to_thread_local();
        Ok(Self { shallow: shallow(&repo)?, repo })
    }

    pub fn read<T>(
        &self,
        id: ObjectId,
        take: impl FnOnce(&gix::objs::CommitRef<'_>, Vec<ObjectId>) -> T,
    ) -> Result<T, Error> {
        let is_cut_off = self.shallow.contains(&id);
        read(&self.repo, id, |commit| {
            let parents = if is_cut_off { Vec::new() } else { commit.parents().collect() };
            take(commit, parents)
        })
    }

    /// The commits below `tip` that are `inside`, down the first parent first; each comes when all its parents have.
    fn pass(
        &self,
        tip: ObjectId,
        inside: &dyn Fn(&ObjectId) -> bool,
        (keep, first_alone): HistoryFilter<'_>,
    ) -> Result<Vec<HistoryCommit>, Error> {
        let mut passed: Vec<HistoryCommit> = Vec::new();
        // Where a commit was passed; none while its parents are still being looked at.
        let mut places: HashMap<ObjectId, Option<usize>> = HashMap::default();
        let mut descent: Vec<Descent> = Vec::new();
        let mut next = inside(&tip).then_some(tip);
        loop {
            if let Some(id) = next.take() {
                places.insert(id, None);
                let take = |commit: &gix::objs::CommitRef<'_>, mut parents: Vec<ObjectId>| {
                    let cut_off = parents.is_empty() && commit.parents().next().is_some();
                    if parents.len() > 1 && first_alone(commit.message) {
                        parents.truncate(1);
                    }
                    (keep(commit.message).then(|| kept(commit)), parents, cut_off)
                };
                let (kept, parents, cut_off) = self.read(id, take)?;
                descent.push(Descent { id, parents, at: 0, kept, cut_off });
            }
            let Some(last) = descent.last_mut() else { return Ok(passed) };
            while let Some(parent) = last.parents.get(last.at) {
                last.at += 1;
                if inside(parent) && !places.contains_key(parent) {
                    next = Some(*parent);
                    break;
                }
            }
            if next.is_none()
                && let Some(done) = descent.pop()
            {
                let parent = |id: &ObjectId| match places.get(id).copied().flatten() {
                    Some(place) => HistoryParent::Passed(place),
                    None => HistoryParent::Outside(from_gix(id)),
                };
                let parents = done.parents.iter().map(parent).collect();
                places.insert(done.id, Some(passed.len()));
                let Descent { id, kept, cut_off, .. } = done;
                passed.push(HistoryCommit { id: from_gix(&id), parents, kept, cut_off });
            }
        }
    }
}

/// Which commits of two sides have which others in their histories, as far down as it takes to know what they share. Each
/// is read once: when it was made, and its parents.
pub(super) fn paint(
    tips: impl IntoIterator<Item = (ObjectId, u8)>,
    mut read: impl FnMut(ObjectId) -> Result<(i64, Vec<ObjectId>), Error>,
) -> Result<HashMap<ObjectId, u8>, Error> {
    let mut sides: HashMap<ObjectId, u8> = HashMap::default();
    let mut known: HashMap<ObjectId, (i64, Vec<ObjectId>)> = HashMap::default();
    let mut queue: BinaryHeap<(i64, ObjectId)> = BinaryHeap::new();
    let mut next: Vec<(ObjectId, u8)> = tips.into_iter().collect();
    loop {
        for (id, side) in next.drain(..) {
            let painted = sides.entry(id).or_default();
            if *painted & side == side {
                continue;
            }
            *painted |= side;
            if !known.contains_key(&id) {
                known.insert(id, read(id)?);
            }
            queue.push((known[&id].0, id));
        }
        if queue.iter().all(|(_, id)| sides[id] == BOTH) {
            // One that was passed before a younger one led to it may be shared all the same, and what is below it.
            let apart = sides.iter().filter(|(_, side)| **side != BOTH).map(|(id, _)| known[id].0);
            let oldest = apart.min();
            if queue.peek().is_none_or(|(newest, _)| oldest.is_none_or(|oldest| *newest < oldest)) {
                return Ok(sides);
            }
        }
        let Some((_, id)) = queue.pop() else { return Ok(sides) };
        let side = sides[&id];
        next.extend(known[&id].1.iter().map(|parent| (*parent, side)));
    }
}

/// A commit whose parents are being looked at.
struct Descent {
    id: ObjectId,
    parents: Vec<ObjectId>,
    at: usize,
    kept: Option<CommitText>,
    cut_off: bool,
}

fn read<T>(
    repo: &gix::Repository,
    id: ObjectId,
    take: impl FnOnce(&gix::objs::CommitRef<'_>) -> T,
) -> Result<T, Error> {
    let damaged = |error: &gix::Error| Error::object("commit", &id, explain(error));
    let commit = repo.find_commit(id).map_err(|error| damaged(&error))?;
    // The state of tasks is read from here: forged messages must not count.
    objects::check(id, Kind::Commit, &commit.data)?;
    Ok(take(&commit.decode().map_err(|error| damaged(&error))?))
}

pub(super) fn kept(commit: &gix::objs::CommitRef<'_>) -> CommitText {
    // An unreadable date is no reason to lose a commit.
    let date = commit.author().ok().and_then(|author| author.time().ok()).unwrap_or_default();
    CommitText { seconds: date.seconds, offset: date.offset, message: commit.message.to_vec() }
}

/// The commits whose parents a shallow clone left behind.
pub(super) fn shallow(repo: &gix::Repository) -> Result<HashSet<ObjectId>, Error> {
    let shallow = repo.shallow_commits().doing("read where the history was cut off")?;
    Ok(shallow.map(|commits| commits.iter().copied().collect()).unwrap_or_default())
}

pub(super) fn time(commit: &gix::objs::CommitRef<'_>) -> i64 {
    commit.time().map_or(0, |time| time.seconds)
}

/// How many commits back a look for an ancestor goes before all of both histories are compared.
const SHORTLY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits by number, each with its date and its parents.
    fn painted(commits: &[(u8, i64, &[u8])], tips: [u8; 2]) -> Vec<(u8, u8)> {
        let id = |number: u8| ObjectId::from_bytes_or_panic(&[number; 20]);
        let read = |wanted: ObjectId| {
            let found = commits.iter().find(|(number, ..)| id(*number) == wanted);
            let (_, at, parents) = found.expect("a commit of the history");
            Ok((*at, parents.iter().map(|parent| id(*parent)).collect()))
        };
        let sides = paint([(id(tips[0]), ONE), (id(tips[1]), TWO)], read).expect("a history that can be read");
        let mut sides: Vec<_> = sides.into_iter().map(|(id, side)| (id.as_slice()[0], side)).collect();
        sides.sort_unstable();
        sides
    }

    #[test]
    fn shared_commits_are_found_when_all_dates_are_equal() {
        // 9 and 1 below 8 on one side, 2 on the other; both have 3, and what is below it.
        let commits: &[(u8, i64, &[u8])] =
            &[(1, 5, &[9]), (9, 5, &[8]), (8, 5, &[3]), (2, 5, &[3]), (3, 5, &[7]), (7, 5, &[6]), (6, 5, &[])];
        for tips in [[1, 2], [2, 1]] {
            let shared: Vec<u8> = painted(commits, tips)
                .into_iter()
                .filter(|(_, side)| *side == BOTH)
                .map(|(commit, _)| commit)
                .collect();
            assert_eq!(shared, [3, 6, 7]);
        }
    }

    #[test]
    fn what_is_older_than_both_is_not_read() {
        let commits: &[(u8, i64, &[u8])] = &[(1, 9, &[3]), (2, 8, &[3]), (3, 7, &[4])];
        assert_eq!(painted(commits, [1, 2]), [(1, ONE), (2, TWO), (3, BOTH)]);
    }
}
