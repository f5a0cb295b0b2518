//! `pleach rm`

pub(super) mod keeps;
mod select;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine::keep::{Obstacle, RemoveError, WorktreeStays};
use engine::landing::withdraw_session;
use engine::retention::{Removal, RemovalStep, RepoStep, prepare_removal};
use git::Repo;
use git::record::History;
use pleach_core::ids::{RepoName, RepoPath, RunId, SessionId};
use pleach_core::text::{counted, shell_word};
use serde_json::{Value, json};

use self::select::{Selectors, select};
use crate::code::Code;
use crate::commands::cancel::cancel_and_wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_queue, of_record};
use crate::next_commands::resume_task;
use crate::render::Out;
use crate::sessions::{self, SessionGround};
use crate::settings::state_dir;

/// Remove sessions: their branches, records and worktrees.
///
/// A running session and one whose commits are on no other branch are only removed with --force; a running one is then
/// cancelled first. Uncommitted work and unmerged commits are kept under refs/pleach/keep/ first, and the name is
/// printed. The worktree that the tasks of a branch share stays.
///
/// Instead of ids, options such as `--merged` choose the sessions that match all of them; one that cannot be removed
/// stays, with a warning.
#[derive(Debug, Args)]
pub struct RmArgs {
    /// The sessions, or the beginnings of their ids.
    #[arg(required_unless_present = "selectors", conflicts_with = "selectors", value_name = "SESSION")]
    sessions: Vec<String>,
    #[command(flatten)]
    select: Selectors,
    /// Also remove sessions that are not merged or still running.
    #[arg(long)]
    force: bool,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// How long the turn in flight of a session that is removed may take to finish.
const GRACE: Duration = Duration::from_secs(10);

pub fn run(globals: &Globals, args: RmArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let worktrees = &ground.settings.resolved.config.worktrees;
    let copied_in: Vec<RepoPath> = worktrees.include_ignored.iter().map(|path| path.as_str().into()).collect();
    let (state_dir, repo) = (state_dir(&globals.environment)?, ground.place.repo.clone());
    let remover = Remover { globals, ground, repo, state_dir, copied_in, args: &args };
    let selectors = args.select.given();
    let mut message = RemovalMessage { out: Out::new(), documents: Vec::new() };
    if args.select.keeps {
        return remover.remove_keeps(message.out);
    }
    if selectors.is_empty() {
        remover.remove_named(&mut message)?
    } else {
        remover.remove_chosen(select(&remover.ground, &selectors)?, &mut message)?
    }
    if globals.json {
        message.out.json(&json!({"dry_run": args.dry_run, "sessions": message.documents}))?;
    } else if message.documents.is_empty() {
        message.out.line("nothing to remove")?;
    }
    Ok(Exit::Done)
}

/// Removes sessions of one repository.
struct Remover<'a> {
    globals: &'a Globals,
    ground: SessionGround,
    repo: Repo,
    state_dir: PathBuf,
    copied_in: Vec<RepoPath>,
    args: &'a RmArgs,
}

/// The messages of a removal, done or planned.
struct RemovalMessage {
    out: Out,
    documents: Vec<Value>,
}

impl Remover<'_> {
    /// Removes the sessions the user names, or none where one of them must not go.
    fn remove_named(&self, message: &mut RemovalMessage) -> Result<(), Failure> {
        let mut named = BTreeSet::new();
        for given in &self.args.sessions {
            let run = sessions::resolve(&self.repo, given)?;
            let runs = if given.contains('/') { vec![run] } else { self.runs(&run.session)? };
            named.extend(runs);
        }
        // All are looked into before the first one goes; what replays began with goes last.
        let (mut removals, mut refused) = (Vec::new(), Vec::new());
        for run in named.iter().rev() {
            match self.prepare(run) {
                Ok(removal) if !self.args.force => {
                    refused.extend(refuse(&removal).err());
                    removals.push(removal);
                }
                Ok(removal) => removals.push(removal),
                Err(held) if held.exit() == Exit::Locked && !self.args.force => refused.push(held),
                Err(failure) => return Err(failure),
            }
        }
        if refused.len() > 1 {
            return Err(self.refused_together(&removals, &refused));
        }
        if let Some(refused) = refused.pop() {
            return Err(refused);
        }
        removals.into_iter().try_for_each(|removal| self.remove(removal, message))
    }

    /// What refuses to be removed, with the one command that removes it all the same.
    fn refused_together(&self, removals: &[Removal], refused: &[Failure]) -> Failure {
        let first = refused.iter().find(|failure| failure.exit() == Exit::Locked).unwrap_or(&refused[0]);
        let all: Vec<String> = refused.iter().map(Failure::sentence).collect();
        let mut obstacles = removals.iter().flat_map(|removal| &removal.obstacles);
        let is_lost = obstacles.any(|found| matches!(found, Obstacle::Unsaved { .. }));
        let copy = if is_lost { "copy what you need, then " } else { "" };
        let named: Vec<String> = self.args.sessions.iter().map(shell_word).collect();
        let force = format!("{copy}`pleach rm --force {}` removes all of them", named.join(" "));
        Failure::new(first.code, all.join("\n"))
            .hint(format!("{force}, and keeps unmerged commits under refs/pleach/keep/"))
    }

    /// Removes the sessions that were chosen, one after another: there may be more than a process can lock. What must not
    /// go is left.
    fn remove_chosen(&self, ids: Vec<SessionId>, message: &mut RemovalMessage) -> Result<(), Failure> {
        let runs = ids.iter().map(|id| self.runs(id)).collect::<Result<Vec<_>, _>>()?;
        for run in runs.into_iter().flat_map(|runs| runs.into_iter().rev()) {
            let removal = self
                .prepare(&run)
                .and_then(|removal| if self.args.force { Ok(removal) } else { refuse(&removal).map(|()| removal) });
            match removal {
                Ok(removal) => self.remove(removal, message)?,
                Err(left) => warning!(NotRemoved, "{}", left.sentence()),
            }
        }
        Ok(())
    }

    /// The runs of a session. One whose records are gone has its first, which may have left something.
    fn runs(&self, id: &SessionId) -> Result<Vec<RunId>, Failure> {
        let runs = History::runs(&self.repo, id).map_err(|error| of_record(&error))?;
        Ok(if runs.is_empty() { vec![id.into()] } else { runs })
    }

    /// Removes what was kept, and names every commit: until git collects its garbage, that is how to get it back.
    fn remove_keeps(&self, mut out: Out) -> Result<Exit, Failure> {
        let (globals, dry_run) = (self.globals, self.args.dry_run);
        let all = keeps::find(&self.repo, &[&self.repo], self.args.select.before())?;
        for kept in &all {
            if !dry_run {
                keeps::remove(&self.repo, kept)?;
            }
            let (done, was) = if dry_run { ("would remove", "is") } else { ("removed", "was") };
            let line = format!("{done} {} ({was} {})", kept.reference, kept.commit.short());
            if globals.json { say!("{line}") } else { out.line(line)? }
        }
        if globals.json {
            let all: Vec<_> = all.iter().map(|kept| json!({"ref": kept.reference, "commit": kept.commit})).collect();
            out.json(&json!({"dry_run": dry_run, "sessions": [], "keeps": all}))?;
        } else if all.is_empty() {
            out.line("nothing to remove")?;
        }
        Ok(Exit::Done)
    }

    fn look(&self, id: &RunId) -> Result<Removal, Failure> {
        let removal = prepare_removal(&self.ground.repos_of(id), id, &self.state_dir, &self.copied_in);
        removal.map_err(|error| failure(&error))
    }

    /// Looks into the removal of a session.
    fn prepare(&self, id: &RunId) -> Result<Removal, Failure> {
        match self.look(id) {
            // What runs is cancelled first, when the user insists.
            Err(held) if held.exit() == Exit::Locked && self.args.force && !self.args.dry_run => {
                match cancel_and_wait(self.globals, &self.repo, id, GRACE) {
                    Err(held) if held.exit() == Exit::Locked => Err(held),
                    // One whose record cannot be read has ended all the same.
                    Ok(_) | Err(_) => self.look(id),
                }
            }
            other => other,
        }
    }

    fn remove(&self, removal: Removal, message: &mut RemovalMessage) -> Result<(), Failure> {
        let (globals, dry_run) = (self.globals, self.args.dry_run);
        let session = removal.run.clone();
        let is_lost = |found: &&Obstacle| {
            matches!(found, Obstacle::Unsaved { .. } | Obstacle::Unreadable { .. } | Obstacle::Lost { .. })
        };
        for lost in removal.obstacles.iter().filter(is_lost) {
            warning!(WorkLost, "{session}: {lost}");
        }
        let mut steps = Vec::new();
        let out = &mut message.out;
        let mut tell = |(repo, step): &RepoStep| {
            let at = repo.as_ref().map(|repo| format!(" in {repo}")).unwrap_or_default();
            let line = format!("{session}{at}: {}", text(step, dry_run));
            steps.push(value(repo.as_ref(), step));
            if globals.json {
                say!("{line}");
                return Ok(());
            }
            out.line(line)
        };
        // A reader that stops reading must not stop a removal in its middle.
        let printed = if dry_run {
            removal.steps().iter().try_for_each(&mut tell)
        } else {
            for (_, repo) in self.ground.repos_of(&session).iter() {
                let withdrawn = withdraw_session(repo, &session, &self.ground.settings.redactor())
                    .map_err(|error| of_queue(&error))?;
                for entry in withdrawn {
                    say!("{session}: took {} out of the merge queue", entry.name());
                }
            }
            let mut printed = Ok(());
            let removed =
                removal.execute(&mut |step| printed = std::mem::replace(&mut printed, Ok(())).and(tell(step)));
            removed.map_err(|error| failure(&error))?;
            printed
        };
        message.documents.push(json!({"session": session.session, "run": session, "steps": steps}));
        printed
    }
}

/// Refuses what needs `--force`.
fn refuse(removal: &Removal) -> Result<(), Failure> {
    if removal.obstacles.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = removal.obstacles.iter().map(ToString::to_string).collect();
    let message = format!("session {} was not removed: {}", removal.run, all.join("; "));
    Err(Failure::new(Code::RemovalRefused, message).hint(removal_hint(removal)))
}

/// The hint for a refused removal: it promises nothing that `--force` would not keep.
fn removal_hint(removal: &Removal) -> String {
    let id = &removal.run;
    let any = |is: fn(&Obstacle) -> bool| removal.obstacles.iter().any(is);
    let unmerged = removal.obstacles.iter().find_map(|obstacle| match obstacle {
        Obstacle::Unmerged { branch, .. } => Some(shell_word(branch)),
        Obstacle::OnNoBranch { tip, .. } => Some(tip.short()),
        Obstacle::BranchMoved { .. }
        | Obstacle::RepoMissing { .. }
        | Obstacle::Unsaved { .. }
        | Obstacle::Unreadable { .. }
        | Obstacle::Lost { .. } => None,
    });
    let keeps = unmerged.as_ref().map(|_| "keeps the commits under refs/pleach/keep/");
    let leaves = any(|obstacle| matches!(obstacle, Obstacle::BranchMoved { .. })).then_some("leaves the branch");
    let does: Vec<&str> = keeps.into_iter().chain(leaves).collect();
    let which = if does.is_empty() { String::new() } else { format!(", which {}", does.join(" and ")) };
    let force = format!("`pleach rm --force {id}`{which}");
    match unmerged {
        _ if any(|obstacle| matches!(obstacle, Obstacle::Unsaved { .. })) => {
            format!("copy what you need, then {force}")
        }
        // Nothing lands or merges what cannot be read.
        Some(_) if any(|obstacle| matches!(obstacle, Obstacle::Lost { .. })) => force,
        Some(_) if removal.goes_on.is_some() => {
            let resumes = removal.goes_on.as_ref().map(|task| resume_task(task).0).unwrap_or_default();
            format!("`pleach {resumes}` resumes the task and lands it; or {force}")
        }
        Some(what) => format!("merge it with `git merge {what}`, or {force}"),
        None if any(|obstacle| matches!(obstacle, Obstacle::RepoMissing { .. })) => {
            format!("add it there with the path of its clone, or `pleach rm --force {id}` removes the rest")
        }
        None => {
            let branch = leaves.map(|leaves| format!(" and {leaves}")).unwrap_or_default();
            format!("`pleach rm --force {id}` removes the session{branch}")
        }
    }
}

/// Why a worktree, or something else that was left, is still there.
pub(super) fn stays_failure(why: &WorktreeStays) -> Failure {
    match why {
        WorktreeStays::Refused(error) => failure(error),
        why => Failure::new(Code::RemovalRefused, why.to_string()),
    }
}

pub(super) fn failure(error: &RemoveError) -> Failure {
    match error {
        RemoveError::Session(error) => of_engine(error),
        RemoveError::CheckedOut { .. } => {
            Failure::new(Code::BranchCheckedOut, error.to_string()).hint("switch to another branch there first")
        }
        RemoveError::Obstacle(obstacle) => Failure::new(Code::RemovalRefused, obstacle.to_string()),
        RemoveError::WorktreeLocked { path, .. } => Failure::new(Code::WorktreeLocked, error.to_string())
            .hint(format!("`git worktree unlock {}` allows it", shell_word(path.display()))),
    }
}

fn text(step: &RemovalStep, dry_run: bool) -> String {
    let done = |done: &'static str, planned: &'static str| if dry_run { planned } else { done };
    match step {
        RemovalStep::Keep { reference, unmerged, uncommitted } => {
            let mut what = Vec::new();
            if *unmerged {
                what.push("the unmerged commits".to_owned());
            }
            match uncommitted.as_slice() {
                [] => {}
                [path] => what.push(format!("uncommitted work in {path}")),
                paths => what.push(format!("uncommitted work in {}", counted(paths.len(), "file"))),
            }
            let number = if dry_run { "N" } else { "" };
            format!("{} {} at {reference}{number}", done("kept", "would keep"), what.join(" and "))
        }
        RemovalStep::RemoveWorktree { path } => {
            format!("{} the worktree {}", done("removed", "would remove"), path.display())
        }
        RemovalStep::RemoveBranch { branch, at } => {
            format!("{} branch {branch} ({} {})", done("removed", "would remove"), done("was", "is"), at.short())
        }
        RemovalStep::LeaveBranch { branch, at } => {
            format!("{} branch {branch} at {}: no turn recorded it", done("left", "would leave"), at.short())
        }
        RemovalStep::RemoveHome { path } => {
            format!("{} what its agents kept in {}", done("removed", "would remove"), path.display())
        }
        RemovalStep::RemoveRecord { at } => {
            let at = at.map(|at| format!(" ({} {})", done("was", "is"), at.short())).unwrap_or_default();
            format!("{} the record{at}", done("removed", "would remove"))
        }
    }
}

fn value(repo: Option<&RepoName>, step: &RemovalStep) -> Value {
    let mut value = step_value(step);
    if let Some(repo) = repo {
        value["repo"] = json!(repo);
    }
    value
}

fn step_value(step: &RemovalStep) -> Value {
    match step {
        RemovalStep::Keep { reference, unmerged, uncommitted } => {
            json!({"step": "keep", "ref": reference, "unmerged": unmerged, "uncommitted": uncommitted})
        }
        RemovalStep::RemoveWorktree { path } => json!({"step": "remove_worktree", "path": path.display().to_string()}),
        RemovalStep::RemoveBranch { branch, at } => json!({"step": "remove_branch", "branch": branch, "commit": at}),
        RemovalStep::LeaveBranch { branch, at } => json!({"step": "leave_branch", "branch": branch, "commit": at}),
        RemovalStep::RemoveHome { path } => json!({"step": "remove_home", "path": path.display().to_string()}),
        RemovalStep::RemoveRecord { at } => json!({"step": "remove_record", "commit": at}),
    }
}
