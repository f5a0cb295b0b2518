//! Creates the missing branches and worktrees of a context. Both follow from the record, so this also restores a
//! session on another machine.

use std::path::PathBuf;

use super::{Context, history, recording};
use crate::env::Error;
use crate::push::RefNote;
use crate::session::executor::{Setup, moved_aside_warning};
use git::record::Batch;
use git::workspace::{
    self, BranchFollower, CopyOwner, CopyPosition, KEEP, Scratch, WorkingCopy, Workspace, branch_ref,
};
use pleach_core::event::{
    Commits, Event, ParallelBranchStarted, SessionBranchCreated, Snapshot, WarningCode, WorktreeCreated,
};
use pleach_core::ids::{BranchName, CommitId, ContextId, NodeId, RepoName};
use pleach_core::plan::pipeline::HandlerKind;
use pleach_core::text::listed;
use pleach_core::{clock, state};

/// Number of paths a message names.
const NAMED: usize = 10;

/// The worktrees of a context during their creation.
#[derive(Default)]
struct WorktreeSetup {
    /// Worktrees released by another session of this process.
    left: Option<Workspace>,
    copies: Vec<WorkingCopy>,
    /// Those that need setup.
    new: Vec<RepoName>,
    events: Vec<Event>,
    /// Where uncommitted work was saved.
    kept: Vec<String>,
}

impl WorktreeSetup {
    fn take_left(&mut self, repo: &RepoName) -> Option<WorkingCopy> {
        self.left.as_mut()?.take_copy(repo)
    }

    /// Notes where uncommitted work of a repository was saved.
    fn keep(&mut self, context: &Context, repo: &RepoName, kept: Option<String>) {
        let several = context.plan.started.has_several_repos();
        self.kept.extend(kept.map(|name| if several { format!("{name} of `{repo}`") } else { name }));
    }
}

/// Creates missing branches and worktrees. Returns where uncommitted work was saved.
pub(crate) async fn make_copy(context: &mut Context) -> Result<Option<String>, Error> {
    make_followers(context);
    let mut setup = WorktreeSetup { left: context.workspace.take(), ..WorktreeSetup::default() };
    if setup.left.is_none() {
        // A killed run could not remove its temporary files.
        tokio::task::block_in_place(|| Scratch::clear_up(&context.engine.supervisor.state_dir));
        context.plan.repos.iter().try_for_each(|(_, repo)| context.engine.worktrees.hide_base(repo))?;
    }
    for repo in context.state.branches.keys().cloned().collect::<Vec<_>>() {
        tokio::task::block_in_place(|| make_copy_of(context, &repo, &mut setup))?;
    }
    let WorktreeSetup { copies, new, mut events, kept, .. } = setup;
    context.workspace = Some(Workspace::new(copies));
    // A worktree whose setup failed or was cut short exists, but is not ready.
    for repo in new {
        let copy = copy_of(context, &repo);
        context.engine.worktrees.copy_ignored(copy.repo.workdir(), copy.path())?;
        set_up(context, &repo).await?;
        events.push(WorktreeCreated { repo, name: context.id.to_string(), extra: Default::default() }.into());
    }
    record_making(context, events)?;
    Ok((!kept.is_empty()).then(|| kept.join(" and ")))
}

/// Makes the worktrees of a branch that begins to work. One that must not write shares those of the context it forks
/// from.
pub(crate) async fn begin_branch(
    context: &mut Context,
    fan_out: NodeId,
    shared: Option<Workspace>,
) -> Result<(), Error> {
    if !context.state.has_started {
        let (id, node_id) = (context.id.clone(), context.here());
        let started = ParallelBranchStarted { fan_out, context: id, node_id, extra: Default::default() };
        recording::defer(context, &format!("start branch {}", context.id), vec![started.into()])?;
    }
    match shared {
        Some(shared) => context.workspace = Some(shared),
        None => drop(make_copy(context).await?),
    }
    Ok(())
}

async fn set_up(context: &mut Context, repo: &RepoName) -> Result<(), Error> {
    let workspace = context.workspace.as_mut().expect("the worktrees are back when no node runs");
    let mut setup = Setup { engine: &context.engine, plan: &context.plan, workspace, warnings: Vec::new() };
    let done = setup.first(repo).await;
    context.warnings.extend(setup.warnings);
    done
}

/// Creates a follower for each branch, starting where the record has it.
pub(crate) fn make_followers(context: &mut Context) {
    let on_branches = context.state.on_branches();
    let follower = |(repo, branch): (&RepoName, &BranchName)| {
        let (handle, tip) = (context.plan.repos.get(repo)?.clone(), *on_branches.get(repo)?);
        Some((repo.clone(), BranchFollower::new(handle, branch.clone(), tip)))
    };
    context.followers = context.state.branches.iter().filter_map(follower).collect();
}

fn copy_of<'c>(context: &'c Context, repo: &RepoName) -> &'c WorkingCopy {
    context.working().copy(repo).expect("every repository of a context has its worktree")
}

/// The branch and worktree of one repository.
fn make_copy_of(context: &mut Context, name: &RepoName, setup: &mut WorktreeSetup) -> Result<(), Error> {
    let branch = context.state.branches.get(name).expect("its branch is why it is made").clone();
    let base_of = |snapshot: &Snapshot| *snapshot.get(name).expect("every snapshot names the repository");
    let at = CopyPosition { base: base_of(&node_base(context)), tip: base_of(&context.state.work) };
    let base = base_of(&context.state.base);
    if bring_branch(context, name)? {
        let (repo, branch) = (name.clone(), branch.clone());
        setup.events.push(SessionBranchCreated { repo, branch, base, extra: Default::default() }.into());
    }
    if let Some(mut copy) = setup.take_left(name) {
        // An earlier session of this process worked here.
        let kept = workspace::hand_over(&mut copy, context.plan.run.session.clone(), branch, at)?;
        setup.keep(context, name, kept);
        let rules = context.engine.worktrees.left_out(&copy.repo, base)?;
        workspace::apply_exclusions(&mut copy, &rules)?;
        context.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
        copy.note_session()?;
        setup.copies.push(copy);
        return Ok(());
    }
    let repo = context.plan.repo_of(name).clone();
    let path = copy_path(context, name);
    let stays = git::worktree::relocate(&repo, &path, &copy_name(context, name))?;
    // A new session does not own the files in the old place.
    if let Some((place, why)) = stays.filter(|_| has_begun(context)) {
        let place = place.display();
        context.warnings.push(
            WarningCode::WorktreeAbandoned
                .with(format!("not reusing worktree `{place}`: {why}; its uncommitted files are left in place")),
        );
    }
    // The worktree of a target's tasks outlives its sessions: a new session does not know whose files are in it.
    let belongs = context.state.task.is_none() || has_begun(context);
    let rules = context.engine.worktrees.left_out(&repo, base)?;
    let mut worktree = git::worktree::open_or_repair(&repo, &path, at.base, &rules, belongs)?;
    // One that was just created has nothing to keep.
    let is_pristine = worktree.take_pristine();
    let mut odd = worktree.take_cleared();
    odd.extend(worktree.take_replaced_heads());
    if !odd.is_empty() {
        let odd = listed(odd, NAMED);
        context.warnings.push(
            WarningCode::WorktreeRepaired
                .with(format!("changed before this run where no agent may write, now restored or removed: {odd}")),
        );
    }
    worktree.exclude(&context.engine.worktrees.never_commit());
    let is_set_up = git::worktree::is_set_up(&worktree);
    let carries = context.state.task.as_ref().map_or(Commits::Turns, |task| task.of.commits);
    let owner = CopyOwner {
        session: context.plan.run.session.clone(),
        branch,
        carries,
        limits: context.engine.worktrees.limits.clone(),
        lock: context.lock.clone(),
    };
    let mut copy = WorkingCopy::new(repo, name.clone(), worktree, at, owner)?;
    if context.followers.get_mut(name).is_some_and(BranchFollower::take_followed) {
        copy.checkout_followed();
    }
    if context.state.task.is_some() && !has_begun(context) {
        workspace::refuse_submodule_work(&mut copy)?;
    }
    // A person may have resolved a conflict there since the session paused.
    match laid_for_person(context, name) {
        Some(theirs) if copy.has_laid(theirs)? => copy.note_laid(theirs)?,
        _ if is_pristine && at.base == at.tip => {}
        _ => setup.keep(context, name, workspace::recover(&mut copy, is_pristine)?),
    }
    let is_other = workspace::apply_exclusions(&mut copy, &rules)?;
    if is_other || !is_set_up {
        context.warnings.extend(workspace::absent_file_warnings(&mut copy, &context.engine.worktrees)?);
    }
    context.warnings.extend(copy.tie()?.iter().map(|place| moved_aside_warning(place)));
    copy.note_session()?;
    setup.copies.push(copy);
    setup.new.extend((!is_set_up).then(|| name.clone()));
    Ok(())
}

/// Whether anything of the session has run.
fn has_begun(context: &Context) -> bool {
    !context.state.nodes.is_empty() || !matches!(context.state.position, state::Position::Ready { .. })
}

/// The commit whose conflicts a person has to resolve in a worktree, where a gate waits for that.
fn laid_for_person(context: &Context, name: &RepoName) -> Option<CommitId> {
    let state = &context.state;
    let gate = context.plan.pipeline.node(&state.running()?.node)?;
    let is_untouched = state.work.get(name) == state.merged_work.get(name);
    let is_theirs = gate.handler == HandlerKind::WaitHuman && is_untouched;
    state.next_conflict().iter().find(|conflict| is_theirs && conflict.repo == *name).map(|conflict| conflict.theirs)
}

fn record_making(context: &mut Context, events: Vec<Event>) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let summary = "make the session's branch and working copy";
    if context.state.task.is_some() {
        // The worktree outlives the task, so nothing has to find it through this record.
        return recording::defer(context, summary, events);
    }
    let batch = Batch { summary: summary.into(), ..Batch::default() };
    recording::record(context, batch, events, clock::now())
}

/// The path of a worktree: all of them are below the base of the repository that holds the record.
pub(crate) fn copy_path(context: &Context, name: &RepoName) -> PathBuf {
    copy_path_of(context, &context.id, name)
}

/// The same for another context of the session.
pub(crate) fn copy_path_of(context: &Context, id: &ContextId, name: &RepoName) -> PathBuf {
    context.engine.worktree_base(&context.repo, context.plan.repos.record_name()).join(copy_name_of(context, id, name))
}

/// Its path below the base.
fn copy_name(context: &Context, name: &RepoName) -> PathBuf {
    copy_name_of(context, &context.id, name)
}

fn copy_name_of(context: &Context, id: &ContextId, name: &RepoName) -> PathBuf {
    let place = context.plan.place(id);
    if context.plan.started.branches.len() > 1 { place.join(name.as_str()) } else { place }
}

/// Creates a branch, or moves it forward to the newest record. Returns whether it was created.
fn bring_branch(context: &mut Context, name: &RepoName) -> Result<bool, Error> {
    let (repo, task) = (context.plan.repo_of(name), context.state.task.as_ref());
    let kept = |commit: CommitId| {
        let Some(task) = task else { return Ok(false) };
        let kept = repo.refs().list(&format!("{KEEP}{}-", task.of.id))?;
        Ok(kept.iter().any(|(_, kept)| *kept == commit))
    };
    let follower = context.followers.get_mut(name).expect("every branch has its follower");
    let is_new = follower.create_or_advance(kept)?;
    let (repo, name) = (name.clone(), branch_ref(follower.branch()));
    context.plan.push.note([RefNote { repo, name, commit: follower.tip() }]);
    Ok(is_new)
}

/// Moves branch and worktree to the newest record.
pub(crate) async fn go_on(context: &mut Context) -> Result<Option<String>, Error> {
    // A branch that must not write shares the worktrees of another context.
    let kept = if context.state.branches.is_empty() { None } else { make_copy(context).await? };
    history::load_interrupted(context)?;
    context.degrade = true;
    Ok(kept)
}

pub(super) fn node_base(context: &Context) -> Snapshot {
    match &context.state.position {
        state::Position::Running { base, .. } => base.clone(),
        _ => context.state.work.clone(),
    }
}
