//! A session's working copy of one repository: where its agents and tools write, and how what they wrote becomes
//! commits of the session branch.
//!
//! While a node runs, HEAD and index stay at the node's base, so an agent sees its work as uncommitted changes; only
//! the session branch moves, turn by turn. At the node's end HEAD and index follow.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::FileType;

use super::guard::{Guard, Watch};
use super::held::Held;
use super::names::branch_ref;
use super::{Error, Lock, WorktreeSettings, keep};
use crate::confined_fs::ConfinedDir;
use crate::event::{Commits, Warning, WarningCode};
use crate::git::{
    Care, CommitSpec, Head, InSubmodules, Limits, Past, Person, Repo, Scan, TreeId, Worktree, Writer, Written,
    are_ignore_rules,
};
use crate::ids::{BranchName, CommitId, NodeId, RepoName, RepoPath, SessionId};
use crate::trailer::{CommitMessage, TurnFacts};

/// A working copy and the branch its commits go to.
#[derive(Debug)]
pub struct WorkingCopy {
    /// The repository, opened before any agent ran.
    pub repo: Repo,
    /// Its name in the workspace.
    pub name: RepoName,
    /// The session branch.
    pub branch: BranchName,
    session: SessionId,
    worktree: Worktree,
    carries: Commits,
    at: Position,
    watch: Watch,
    /// What was seen when the last node ended, which is what the next one begins with.
    seen: Option<Guard>,
    /// A scan has found nothing but what is recorded, and nobody else has run in it since.
    settled: bool,
    /// The files that were left out of the newest commits.
    held: Held,
    /// What of the setup was no more before the running node.
    undone_before: BTreeSet<RepoPath>,
    /// What is too much to commit.
    limits: Limits,
    /// Held as long as anything runs in it.
    lock: Lock,
    /// What refs led to before the running node, where it could move them.
    refs_before: Option<Vec<CommitId>>,
    /// The newest of the agents' own commits that were kept instead of joined.
    kept_head: Option<CommitId>,
}

/// The commits a working copy stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// What HEAD and index are at: where the running node began.
    pub base: CommitId,
    /// The newest recorded commit, whose files it has.
    pub tip: CommitId,
}

impl Position {
    /// Everything at one commit.
    pub fn all(commit: CommitId) -> Self {
        Self { base: commit, tip: commit }
    }
}

/// The session's branch as it was when a change was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenBranch {
    /// Where it stood; none where it was gone.
    pub at: Option<CommitId>,
    /// The agent had it checked out, and what it has committed there is adopted.
    pub checked_out: bool,
}

/// What a turn changed, as objects that are not yet written.
#[derive(Debug)]
pub struct Change {
    /// Holds the objects until they are written with the record that speaks of them.
    pub writer: Writer,
    /// The commit, when there is something to commit.
    pub commit: Option<CommitId>,
    /// The tree of the working copy.
    pub tree: TreeId,
    /// The paths that differ from the turn before.
    pub paths: Vec<RepoPath>,
    /// The agent's own commit that was joined.
    pub agent_head: Option<CommitId>,
    /// The commit's message without trailers.
    pub message: Option<String>,
    /// The session branch, where it was looked at.
    pub branch: Option<SeenBranch>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Of so many paths it is looked up whether they are new: a message speaks of no more.
const LOOKED_UP: usize = 50;

/// The ref something was saved under, and its paths.
type Saved = (String, Vec<RepoPath>);

/// What was saved before it is removed.
#[derive(Debug, Default)]
struct Kept {
    /// If there was anything.
    kept: Option<Saved>,
    /// Submodules whose place is gone, of which there is nothing to save.
    gone: Vec<RepoPath>,
}

/// What became of the changes of a node that must not write.
#[derive(Debug)]
pub struct Undone {
    /// The ref they were saved under, and their paths, if there were any.
    pub kept: Option<(String, Vec<RepoPath>)>,
    /// What it removed or reverted of what the setup has made. There is nothing of that to save.
    pub given_back: Vec<RepoPath>,
    /// Files it changed or removed that were in no commit before: what they were cannot be brought back.
    pub lost: Vec<RepoPath>,
    /// What is said of things that are in no commit and there now, which can be neither saved nor undone.
    pub warnings: Vec<Warning>,
}

/// Who made a turn's changes, and how its commit reads.
pub struct Author<'a> {
    /// The facts that become trailers.
    pub facts: TurnFacts,
    /// Further trailers.
    pub trailers: Vec<(String, String)>,
    /// When the turn ended.
    pub at: Timestamp,
    /// Makes the message from the changed paths, knowing whether they are all new.
    pub message: &'a (dyn Fn(&[RepoPath], bool) -> String + Sync),
}

impl std::fmt::Debug for Author<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Author").field("facts", &self.facts).field("at", &self.at).finish_non_exhaustive()
    }
}

impl WorkingCopy {
    /// A working copy that stands at these commits, and whose branch carries those of turns, or of steps alone.
    pub fn new(
        repo: Repo,
        name: RepoName,
        branch: BranchName,
        session: SessionId,
        worktree: Worktree,
        (carries, at): (Commits, Position),
        (limits, lock): (Limits, Lock),
    ) -> Result<Self, Error> {
        let watch = Watch::new(&repo)?;
        let held = Held::read(worktree.notes(), &session)?;
        let (seen, settled) = (None, false);
        let (undone_before, refs_before, kept_head) = (BTreeSet::new(), None, None);
        Ok(Self {
            repo,
            name,
            branch,
            session,
            worktree,
            carries,
            at,
            watch,
            seen,
            lock,
            settled,
            held,
            undone_before,
            limits,
            refs_before,
            kept_head,
        })
    }

    /// Gives the working copy to another session, whose commits go to another branch. What it holds that no commit
    /// has is saved for the session before. Returns the ref it was saved under.
    pub fn hand_over(&mut self, session: SessionId, branch: BranchName, at: Position) -> Result<Option<String>, Error> {
        let (reason, none) = ("the working copy goes to another session", BTreeSet::new());
        self.refuse_submodules()?;
        let Kept { kept, gone } = match self.settled {
            true => Kept::default(),
            false => self.keep_uncommitted(reason, &none)?,
        };
        self.worktree.make_places(&gone)?;
        // The next task mostly begins where the one before it has ended: nothing has to be written then.
        let head = Some(Head { commit: at.base, branch: None });
        let is_there = kept.is_none() && at.base == at.tip && at.base == self.at.base && at.tip == self.at.tip;
        let is_there = is_there && self.worktree.agent_head()? == head && self.worktree.undone_setup()?.is_empty();
        (self.branch, self.at) = (branch, at);
        // Between two sessions the target may have moved, by us.
        self.forget_look();
        self.watch.renew();
        let kept = if is_there { None } else { self.reset(reason, &none, kept)? };
        self.session = session;
        self.held.retain(&self.session, &none)?;
        Ok(kept.map(|(name, _)| name))
    }

    /// What lies in submodules and nowhere else.
    pub fn in_submodules_alone(&mut self) -> Result<InSubmodules, Error> {
        Ok(self.worktree.in_submodules_alone(Care::Quick)?)
    }

    /// Sees that nothing lies in submodules that another session would find there, and that nobody could keep.
    pub fn refuse_submodules(&mut self) -> Result<(), Error> {
        let work = self.worktree.in_submodules_alone(Care::Thorough)?;
        match work.is_empty() {
            true => Ok(()),
            false => Err(Error::InSubmodules { path: self.path().to_owned(), work }),
        }
    }

    /// Brings files, HEAD and index where the working copy stands, but for some files. Where rules about what git ignores
    /// go or come with that, what the others have hidden comes to light: it is saved with what was saved before, and goes.
    fn reset(
        &mut self,
        reason: &str,
        spared: &BTreeSet<RepoPath>,
        kept: Option<Saved>,
    ) -> Result<Option<Saved>, Error> {
        let (mut kept, mut newest) = (kept, Vec::new());
        loop {
            let done = self.worktree.reset_but(self.at.base, self.tree()?, spared)?;
            let mut touched = done.written.iter().chain(&done.removed);
            if !touched.any(|path| are_ignore_rules(path.as_bytes())) {
                return Ok(kept);
            }
            // What cannot be undone would be found again and again.
            let hidden = self.keep_uncommitted(reason, spared)?.kept.filter(|(_, hidden)| *hidden != newest);
            let Some((name, hidden)) = hidden else { return Ok(kept) };
            newest.clone_from(&hidden);
            kept = Some(match kept {
                Some((names, paths)) => (format!("{names} and {name}"), [paths, hidden].concat()),
                None => (name, hidden),
            });
        }
    }

    /// What agents must leave alone, as it is now.
    pub fn look(&mut self, own: &str, kept: &str) -> Result<Guard, Error> {
        self.worktree.tie_again()?;
        self.watch.look(&self.worktree, own, kept)
    }

    /// The part of it that also a bound agent can change.
    pub fn look_near(&self) -> Result<Guard, Error> {
        self.worktree.tie_again()?;
        self.watch.look_near(&self.worktree)
    }

    /// The same before a node that may write: what was seen at the end of the one right before it, or a new look.
    pub fn look_before(&mut self, own: &str, kept: &str) -> Result<Guard, Error> {
        self.settled = false;
        self.worktree.lend();
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => self.look(own, kept)?,
        };
        self.refs_before = Some(seen.led_to());
        Ok(seen)
    }

    /// Keeps a look for the node that comes next. A pause in between makes it worthless: [`WorkingCopy::lend`].
    pub fn keep_look(&mut self, look: Guard) {
        self.seen = Some(look);
    }

    /// Others may work in it from now on: a node's programs, or the user while time passes.
    pub fn lend(&mut self) {
        self.forget_look();
        self.refs_before = None;
        self.worktree.lend();
    }

    /// A node's programs have ended, and nobody else can write there.
    pub fn take_back(&mut self) {
        self.worktree.take_back();
    }

    /// What was seen last is no longer so.
    pub fn forget_look(&mut self) {
        self.seen = None;
        self.settled = false;
    }

    /// The directory agents work in.
    pub fn path(&self) -> &Path {
        self.worktree.root()
    }

    /// What the repository keeps of this working copy alone: HEAD, index, what is under way.
    pub fn git_dir(&self) -> &Path {
        self.worktree.git_dir()
    }

    /// How many files of it are not committed, though they are new or changed: too large, or no files git can hold.
    pub fn held_back(&self) -> usize {
        self.held.files().count()
    }

    /// What of it is not committed and not ignored either as it is now, in words.
    pub fn left_out(&mut self) -> Result<Vec<String>, Error> {
        if self.held.is_empty() {
            return Ok(Vec::new());
        }
        // A turn that is known to have written little does not look whether something is still there.
        Ok(self.hold_back()?.held_in_words())
    }

    /// Looks at everything once more, and keeps in mind what of it no commit can have.
    fn hold_back(&mut self) -> Result<Written, Error> {
        let scan = self.worktree.scan()?;
        let limits = self.limits();
        let written = self.worktree.commit_tree(&scan, &mut self.repo.writer(), &limits)?;
        self.held.extend(&self.session, (written.held_back.clone(), written.withheld.clone()), true)?;
        Ok(written)
    }

    /// What is too much to commit. What the repository had before the running node is not new, whatever that did in
    /// between.
    fn limits(&self) -> Limits {
        let past = Past { own: vec![self.at.tip, self.at.base], refs: self.refs_before.clone() };
        Limits { past: Some(past), ..self.limits.clone() }
    }

    /// The commits it stands at.
    pub fn at(&self) -> Position {
        self.at
    }

    /// The tree of the newest recorded commit.
    pub fn tree(&self) -> Result<TreeId, Error> {
        Ok(self.repo.tree_of(self.at.tip)?)
    }

    /// Whether the running node has changed anything that is recorded.
    pub fn has_changed(&self) -> Result<bool, Error> {
        Ok(self.at.tip != self.at.base && self.repo.tree_of(self.at.base)? != self.repo.tree_of(self.at.tip)?)
    }

    /// Finds out what changed since the newest recorded commit and prepares a commit of it. `candidates` are the only
    /// paths that can have changed, where that is known; none means a scan of everything.
    pub fn prepare(&mut self, author: &Author<'_>, candidates: Option<&[PathBuf]>) -> Result<Change, Error> {
        let mut change = self.changed(candidates)?;
        self.finish(author, &mut change)?;
        Ok(change)
    }

    /// What changed, without a commit of it yet.
    pub fn changed(&mut self, candidates: Option<&[PathBuf]>) -> Result<Change, Error> {
        let (agent_head, branch) = self.agent_commits()?;
        if agent_head.is_some() {
            self.repo.sweep();
        }
        let mut writer = self.repo.writer();
        // Nothing is deleted while something is held back, and that may be gone by now.
        let candidates = candidates.filter(|_| self.held.is_empty());
        let is_whole = candidates.is_none() || agent_head.is_some();
        let scan = match (agent_head, candidates) {
            (Some(own), _) => self.worktree.scan_after(own)?,
            (None, Some(paths)) => self.worktree.scan_paths(paths)?,
            (None, None) => self.worktree.scan()?,
        };
        let mut written = self.worktree.commit_tree(&scan, &mut writer, &self.limits())?;
        // A history whose files are not all here would never come again.
        let left_out = agent_head.filter(|_| !written.held_back.is_empty());
        let agent_head = agent_head.filter(|_| left_out.is_none());
        if let Some(own) = left_out {
            written.warnings.extend(self.keep_head(own)?);
        }
        self.held.extend(&self.session, (written.held_back, written.withheld), is_whole)?;
        Ok(Change {
            writer,
            commit: None,
            tree: written.tree,
            paths: written.paths,
            agent_head,
            message: None,
            branch: Some(branch),
            warnings: written.warnings,
        })
    }

    /// Saves an agent's own commit that the session does not join. Returns what is said of it, once.
    fn keep_head(&mut self, own: CommitId) -> Result<Option<Warning>, Error> {
        if self.kept_head == Some(own) {
            return Ok(None);
        }
        let (tree, reason) = (self.repo.tree_of(own)?, "files of the agent's own commit are held back");
        let name = keep::save(&self.repo, self.repo.writer(), &self.session, tree, &[self.at.tip, own], reason)?;
        self.kept_head = Some(own);
        let own = own.short();
        let text =
            format!("the agent's own commit {own} is not joined while files are held back; it is kept at {name}");
        Ok(Some(WarningCode::AgentCommitKept.with(text)))
    }

    /// Makes the commit of a change, if there is anything in it.
    pub fn finish(&self, author: &Author<'_>, change: &mut Change) -> Result<(), Error> {
        if self.is_change(change)? { self.commit(author, change) } else { Ok(()) }
    }

    /// Whether the commits of turns are on the session's branch, where people see them.
    pub fn carries_turns(&self) -> bool {
        self.carries == Commits::Turns
    }

    fn is_change(&self, change: &Change) -> Result<bool, Error> {
        Ok(change.tree != self.tree()? || change.agent_head.is_some())
    }

    /// The change as a patch, if there is anything in it. Its objects are on disk then.
    pub fn patch(&self, change: &mut Change) -> Result<Option<String>, Error> {
        if !self.is_change(change)? {
            return Ok(None);
        }
        change.writer.flush()?;
        Ok(Some(self.repo.patch(self.tree()?, change.tree, &[])?))
    }

    fn commit(&self, author: &Author<'_>, change: &mut Change) -> Result<(), Error> {
        let before = self.tree()?;
        let mut are_new = !change.paths.is_empty();
        for path in change.paths.iter().take(LOOKED_UP) {
            are_new = are_new && self.repo.tree_entry(before, path)?.is_none();
        }
        let text = (author.message)(&change.paths, are_new);
        let mut trailers = author.facts.trailers();
        trailers.extend(author.trailers.iter().cloned());
        // Only our own trailers are trailers: what an agent's words look like stays text.
        let (subject, body) = text.split_once('\n').unwrap_or((&text, ""));
        let message = CommitMessage { subject: subject.to_owned(), body: body.trim_matches('\n').to_owned(), trailers };
        let who = format!("{} ({})", author.facts.node, author.facts.model);
        let commit = change.writer.commit(&CommitSpec {
            tree: change.tree,
            parents: std::iter::once(self.at.tip).chain(change.agent_head).collect(),
            author: Person::new(who, "orchestra@local"),
            committer: Person::pleach(),
            at: author.at,
            message: message.write().into_bytes(),
        })?;
        change.commit = Some(commit);
        change.message = Some(text);
        Ok(())
    }

    /// The agent's own commit that is not part of the session yet, and the session branch as it stands. An agent that
    /// checked the session branch out has its HEAD detached again.
    fn agent_commits(&mut self) -> Result<(Option<CommitId>, SeenBranch), Error> {
        let head = self.worktree.agent_head()?.unwrap_or(Head { commit: self.at.base, branch: None });
        let at = self.repo.reference(&branch_ref(&self.branch))?;
        let checked_out = head.branch.as_ref() == Some(&self.branch);
        if checked_out {
            self.worktree.detach()?;
        }
        let branch = SeenBranch { at, checked_out };
        let foreign = head.commit != self.at.base && !self.repo.is_ancestor(head.commit, self.at.tip)?;
        Ok((foreign.then_some(head.commit), branch))
    }

    /// A change of nothing, for a turn of a node that must not write.
    pub fn unchanged(&self) -> Result<Change, Error> {
        Ok(Change {
            writer: self.repo.writer(),
            commit: None,
            tree: self.tree()?,
            paths: Vec::new(),
            agent_head: None,
            message: None,
            branch: None,
            warnings: Vec::new(),
        })
    }

    /// Takes a change as recorded: what comes next is compared with it.
    pub fn accept(&mut self, change: &Change) -> Result<(), Error> {
        match change.commit {
            Some(commit) => self.take(commit, change.tree),
            None => Ok(()),
        }
    }

    /// Ends a node: HEAD and index follow to the newest recorded commit.
    pub fn follow(&mut self) -> Result<(), Error> {
        let at_base = Some(Head { commit: self.at.base, branch: None });
        if self.at.base != self.at.tip || self.worktree.agent_head()? != at_base {
            self.worktree.follow(self.at.tip)?;
            self.at.base = self.at.tip;
        }
        Ok(())
    }

    /// Ties the working copy to its repository again, whatever an agent has made of that. Returns where things are that
    /// had to make way, now or since this was last asked.
    pub fn tie(&mut self) -> Result<Vec<PathBuf>, Error> {
        self.worktree.restore_link()?;
        Ok(self.worktree.take_put_aside())
    }

    /// Takes a commit that was prepared here and is recorded by now.
    pub fn take(&mut self, commit: CommitId, tree: TreeId) -> Result<(), Error> {
        self.at.tip = commit;
        self.worktree.accept(tree)?;
        Ok(())
    }

    /// Notes what is no more of the setup before a node that must not write, so that it is not taken for that node's doing.
    pub fn note_setup(&mut self) -> Result<(), Error> {
        self.undone_before = self.worktree.undone_setup()?;
        Ok(())
    }

    /// Undoes what a node that must not write has written, after saving it. What was held back before it stays.
    pub fn undo(&mut self, node: &NodeId) -> Result<Undone, Error> {
        let (reason, spared) = (format!("`{node}` must not write"), self.spared()?);
        let Kept { mut kept, .. } = self.keep_uncommitted(&reason, &spared)?;
        let undone = self.worktree.undone_setup()?;
        let mut given_back: Vec<RepoPath> = undone.difference(&self.undone_before).cloned().collect();
        let mut lost: Vec<RepoPath> = self.held.files().filter(|path| !spared.contains(*path)).cloned().collect();
        let is_untouched = self.settled && self.held.is_empty() && given_back.is_empty();
        if kept.is_some() || !given_back.is_empty() {
            kept = self.reset(&reason, &spared, kept)?;
            let still_undone = self.worktree.undone_setup()?;
            lost.extend(given_back.extract_if(.., |path| still_undone.contains(path)));
        }
        // What git cannot hold stays where it is, and is not forgotten.
        if is_untouched {
            return Ok(Undone { kept, given_back, lost, warnings: Vec::new() });
        }
        let written = self.hold_back()?;
        self.worktree.make_places(&written.gone)?;
        Ok(Undone { kept, given_back, lost, warnings: written.warnings })
    }

    /// What was held back and is as it was then, with what is gone as long as there is any of it.
    fn spared(&mut self) -> Result<BTreeSet<RepoPath>, Error> {
        let mut spared: BTreeSet<RepoPath> = self.held.all().keys().cloned().collect();
        // A node that starts over goes back to its base, where something else may have been in the same place.
        for commit in [self.at.base, self.at.tip] {
            if !spared.is_empty() {
                self.worktree.accept(self.repo.tree_of(commit)?)?;
                let untouched = self.worktree.untouched(self.held.all());
                spared.retain(|path| untouched.contains(path));
            }
        }
        if !self.held.files().any(|path| spared.contains(path)) {
            spared.clear();
        }
        Ok(spared)
    }

    /// The commit HEAD stands at, when only HEAD leads to it: an agent's own, which a reset would lose.
    fn lost_head(&self) -> Result<Option<CommitId>, Error> {
        let head = self.worktree.agent_head()?.map_or(self.at.base, |head| head.commit);
        let known = head == self.at.base || head == self.at.tip || self.repo.is_ancestor(head, self.at.tip)?;
        Ok((!known).then_some(head))
    }

    /// The user's checkout has followed the branch. What that brought there is nobody's change of it.
    pub fn checkout_followed(&mut self) {
        self.forget_look();
        self.watch.renew();
    }

    /// The lock that is held as long as anything runs in it.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Brings files, HEAD and index to the newest recorded commit after a crash, or after work for another task,
    /// saving first what is not committed. Returns the ref it was saved under.
    pub fn recover(&mut self) -> Result<Option<String>, Error> {
        let is_recorded = self.stands_at_a_step()?;
        let (reason, spared) = ("resume after a crash", self.spared()?);
        let kept = match is_recorded {
            true => None,
            false => self.keep_uncommitted(reason, &spared)?.kept,
        };
        let kept = self.reset(reason, &spared, kept)?;
        self.held.retain(&self.session, &spared)?;
        Ok(kept.map(|(name, _)| name))
    }

    /// Leaves out what these rules say, where the working copy was made with others. Only after [`WorkingCopy::recover`]:
    /// nothing in it must be uncommitted. Returns whether it was.
    pub fn leave_out(&mut self, rules: &[String]) -> Result<bool, Error> {
        Ok(self.worktree.leave_out(rules, self.at.base)?)
    }

    /// What a person should know of files that are not in it: those of their own sparse checkout, and entries of
    /// `worktrees.exclude` that leave nothing out.
    pub fn absent(&mut self, settings: &WorktreeSettings) -> Result<Vec<Warning>, Error> {
        let sparse = self.worktree.inherited_sparse()?.filter(|(absent, _)| *absent > 0).map(|(absent, of)| {
            WarningCode::SparseCheckout.with(format!(
                "agents work in your sparse checkout: {absent} of {of} files are not in their worktree; `git sparse-checkout list` shows its rules"
            ))
        });
        let idle = settings.without_effect(&mut self.worktree)?.into_iter().map(|entry| {
            let text = format!("`worktrees.exclude`: `{entry}` matches no tracked file; correct it or remove it");
            WarningCode::ExcludeIdle.with(text)
        });
        Ok(sparse.into_iter().chain(idle).collect())
    }

    /// Whether HEAD is a step of some task and the files are those of that step: the record of its session has them.
    fn stands_at_a_step(&mut self) -> Result<bool, Error> {
        let Some(Head { commit, branch: None }) = self.worktree.agent_head()? else { return Ok(false) };
        let commit = self.repo.commit(commit)?;
        if CommitMessage::read(&commit.text()).trailer("Arborist-Step").is_none() {
            return Ok(false);
        }
        let mut writer = self.repo.writer();
        let scan = self.worktree.scan()?;
        Ok(self.worktree.commit_tree(&scan, &mut writer, &Limits::NONE)?.tree == commit.tree)
    }

    /// Saves what no recorded commit has, but for some files.
    fn keep_uncommitted(&mut self, reason: &str, spared: &BTreeSet<RepoPath>) -> Result<Kept, Error> {
        let mut writer = self.repo.writer();
        let mut scan = self.worktree.scan()?;
        self.worktree.spare(&mut scan, spared);
        let written = self.worktree.commit_tree(&scan, &mut writer, &Limits::NONE)?;
        let own = self.lost_head()?;
        let is_recorded = written.tree == self.tree()? && own.is_none();
        self.settled = is_recorded && spared.is_empty() && written.held_back.is_empty() && written.warnings.is_empty();
        let gone = written.gone;
        if is_recorded {
            return Ok(Kept { kept: None, gone });
        }
        let parents: Vec<CommitId> = std::iter::once(self.at.tip).chain(own).collect();
        let name = keep::save(&self.repo, writer, &self.session, written.tree, &parents, reason)?;
        Ok(Kept { kept: Some((name, written.paths)), gone })
    }

    /// A commit on top of the newest one whose files are those of the running node's base, for an agent that has to
    /// start over. None when nothing was committed since the base.
    pub fn restoring_commit(&self, node: &NodeId, at: Timestamp) -> Result<Option<(Writer, CommitId)>, Error> {
        if self.at.tip == self.at.base {
            return Ok(None);
        }
        let mut writer = self.repo.writer();
        let message = CommitMessage {
            subject: format!("Restore the files `{node}` began with"),
            body: "Its agent was interrupted and cannot continue; it starts over. Its turns stay in the history."
                .into(),
            trailers: vec![("Orchestra-Session".into(), self.session.to_string())],
        };
        let commit = writer.commit(&CommitSpec {
            tree: self.repo.tree_of(self.at.base)?,
            parents: vec![self.at.tip],
            author: Person::pleach(),
            committer: Person::pleach(),
            at,
            message: message.write().into_bytes(),
        })?;
        Ok(Some((writer, commit)))
    }

    /// Takes what the setup has made of the files for what the working copy begins with: no commit has it, and no reset
    /// removes it, until somebody changes it further. Returns the paths, and whether each is a file of the tree.
    pub fn begin_here(&mut self, is_changed: bool) -> Result<Vec<(RepoPath, bool)>, Error> {
        Ok(self.worktree.set_up(is_changed)?)
    }

    /// Whether something the setup had made had to go since, so that it has to run again before anybody works here.
    pub fn has_lost_setup(&self) -> bool {
        self.worktree.has_lost_setup()
    }

    /// What is changed already where the setup is about to run once more, for [`WorkingCopy::begin_again`].
    pub fn before_setup(&mut self) -> Result<Scan, Error> {
        Ok(self.worktree.scan()?)
    }

    /// As [`WorkingCopy::begin_here`] where the setup has run once more.
    pub fn begin_again(&mut self, before: &Scan) -> Result<Vec<(RepoPath, bool)>, Error> {
        Ok(self.worktree.set_up_again(before)?)
    }

    /// Lays the files of a tree over the working copy. They are what the next turn finds changed.
    pub fn lay(&mut self, tree: TreeId) -> Result<(), Error> {
        self.settled = false;
        let spared = self.spared()?;
        self.worktree.restore_but(tree, &spared)?;
        Ok(())
    }

    /// Takes a commit whose files it has as where it stands, while its branch stands elsewhere.
    pub fn place(&mut self, commit: CommitId) {
        self.at = Position::all(commit);
    }

    /// What is in the place of a directory of pleach's own, or of one on the way to it, and is none itself: in `tree`, or
    /// only on disk, where git may ignore it or be unable to hold it.
    pub fn no_directory(&self, tree: TreeId, dir: &str) -> Result<Option<PathBuf>, Error> {
        if let Some(entry) = self.repo.no_directory(tree, &RepoPath::from(dir))? {
            return Ok(Some(PathBuf::from(OsStr::from_bytes(entry.path.as_bytes()))));
        }
        let (root, mut above) = (self.worktree.root(), Path::new(dir).ancestors().collect::<Vec<_>>());
        above.retain(|dir| !dir.as_os_str().is_empty());
        let found = ConfinedDir::at(root).and_then(|beneath| {
            for dir in above.iter().rev() {
                match beneath.kind(dir)? {
                    Some(FileType::Directory) => {}
                    other => return Ok(other.map(|_| root.join(dir))),
                }
            }
            Ok(None)
        });
        found.map_err(|source| Error::Io { doing: "look at", path: root.join(dir), source })
    }

    /// Writes a file of pleach's own, which is about to be committed.
    pub fn put(&mut self, path: &RepoPath, bytes: &[u8]) -> Result<(), Error> {
        let (root, inside) = (self.worktree.root(), Path::new(OsStr::from_bytes(path.as_bytes())));
        let written = ConfinedDir::at(root).and_then(|root| root.put(inside, bytes));
        written.map_err(|source| Error::Io { doing: "write", path: root.join(inside), source })
    }

    /// Removes a file by the name of one of pleach's own, which is about to be left out of a commit.
    pub fn take_away(&mut self, path: &RepoPath) -> Result<(), Error> {
        let (root, inside) = (self.worktree.root(), Path::new(OsStr::from_bytes(path.as_bytes())));
        let removed = ConfinedDir::at(root).and_then(|root| root.remove(inside));
        removed.map_err(|source| Error::Io { doing: "remove", path: root.join(inside), source })
    }

    /// Makes `commit`, which is recorded, the base and the files of the working copy.
    pub fn rebase_to(&mut self, commit: CommitId) -> Result<(), Error> {
        self.at = Position::all(commit);
        let spared = self.spared()?;
        self.worktree.reset_but(commit, self.repo.tree_of(commit)?, &spared)?;
        Ok(())
    }
}
