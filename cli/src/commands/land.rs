//! `pleach land`

use clap::Args;
use pleach::engine::queue::{
    JointLanding, JointOutcome, JointPart, MergeQueue, Submission, enqueue, queue_to_trust, submit_together,
    unfinished_landings,
};
use pleach::engine::{RepoWork, SessionStatus, Summary};
use pleach::git::Repo;
use pleach::ids::{BranchName, RepoName, SessionId};
use pleach::queue::QueueEntry;
use pleach::text::{listed, shell_word};
use pleach::trust::TrustScope;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::code::Code;
use crate::commands::merge::{MergeGround, entry_json, process_entry};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_queue};
use crate::place::{Place, Places};
use crate::queue_settings::queue_settings;
use crate::render::Out;
use crate::render::style::head;
use crate::runtime::block_on;
use crate::session::build;
use crate::sessions::{self, SessionFilter};
use crate::settings::{self, Settings};
use crate::trust::TerminalTruster;

/// Land a finished session: bring its work into the branches it was started on.
///
/// The work is merged, tested with `merge.test_command` and landed as `pleach merge process` does it. A session over
/// several repositories lands in all of them or in none: their merges are tested side by side, in a directory that holds
/// all of them, and then the branches move one after the other. Should that be cut off in between, the next command
/// finishes it.
#[derive(Debug, Args)]
pub struct LandArgs {
    /// The session, or the beginning of its id; by default the newest that is done.
    session: Option<String>,
    /// The branch to land on, in every repository; by default the one that was checked out when the session started.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
    /// Show what would land, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(globals: &Globals, args: LandArgs) -> Result<Exit, Failure> {
    let settings = settings::load_for(globals, &globals.dir)?;
    let record = Place::find(&globals.dir, None, &settings)?;
    let id = match &args.session {
        Some(given) => sessions::resolve(&record.repo, given)?,
        None => sessions::named_or_newest(globals, &record.repo, None, SessionFilter::Done)?,
    };
    let summary = Summary::newest(&record.repo, &id).map_err(|error| of_engine(&error))?;
    let places = Places::of_session(record, &summary.started, &settings)?;
    let parts = parts(&places, &summary, args.into.as_ref())?;
    let mut out = Out::new();
    if parts.is_empty() {
        match globals.json {
            true => out.json(&json!({"session": id, "outcome": "landed", "parts": [], "landed": []}))?,
            false => out.line("nothing to land: no file was changed")?,
        }
        return Ok(Exit::Done);
    }
    if args.dry_run {
        return dry_run(globals, &id, &places, &parts);
    }
    if places.others.is_empty() {
        return land_one(globals, settings, places.record, &id, &parts[0]);
    }
    land_all(globals, &settings, &places, &id, parts)
}

/// What is to land of a session: in each repository where it has changed something.
pub fn parts(places: &Places, summary: &Summary, into: Option<&BranchName>) -> Result<Vec<JointPart>, Failure> {
    let id = &summary.session;
    if summary.started.task.is_some() {
        return Err(Failure::new(Code::SessionOfTask, format!("session {id} works on a task, which lands by itself"))
            .hint("`pleach gardener` or `pleach task merge` lands it"));
    }
    if summary.standing() != SessionStatus::Done {
        let message = format!("session {id} is {}: only what is done can land", summary.standing().word());
        return Err(Failure::new(Code::SessionNotDone, message).hint(format!("`pleach status {id}` shows where it is")));
    }
    let mut parts = Vec::new();
    for place in places.all() {
        let Some(of) = summary.in_repo(&place.name).filter(RepoWork::has_changed) else { continue };
        parts.push(part(place, &of, into)?);
    }
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(parts)
}

fn part(place: &Place, of: &RepoWork<'_>, into: Option<&BranchName>) -> Result<JointPart, Failure> {
    let name = &place.name;
    let Some(target) = into.or(of.target) else {
        return Err(Failure::new(
            Code::NoTarget,
            format!("no branch was checked out in `{name}` when the session started"),
        )
        .hint("`--into BRANCH` names the branch to land on"));
    };
    // Somebody may have gone on with the branch, for one to resolve a conflict.
    let at = of.branch_at(&place.repo).map_err(|error| of_engine(&error))?;
    let work = of.work.expect("something was changed");
    let goes_on = |at| place.repo.history().is_ancestor(work, at).map_err(|error| of_git(&error));
    let head = match at {
        Some(at) if goes_on(at)? => at,
        _ => work,
    };
    Ok(JointPart { name: name.clone(), branch: of.branch.clone(), head, target: target.clone() })
}

fn dry_run(globals: &Globals, id: &SessionId, places: &Places, parts: &[JointPart]) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        let parts: Vec<Value> = parts.iter().map(part_json).collect();
        out.json(&json!({"session": id, "dry_run": true, "parts": parts}))?;
        return Ok(Exit::Done);
    }
    for part in parts {
        let at = if places.others.is_empty() { String::new() } else { format!(" in {}", part.name) };
        out.line(format!("would land {} ({}) on `{}`{at}", part.branch, part.head.short(), part.target))?;
    }
    Ok(Exit::Done)
}

fn part_json(part: &JointPart) -> Value {
    json!({"repo": part.name, "branch": part.branch, "commit": part.head, "target": part.target})
}

/// With one repository it is an entry of the merge queue like any other.
fn land_one(
    globals: &Globals,
    settings: Settings,
    place: Place,
    id: &SessionId,
    part: &JointPart,
) -> Result<Exit, Failure> {
    let (name, branch, target) = (part.name.clone(), part.branch.clone(), part.target.clone());
    let submission = Submission::branch(&place.repo, name, branch, target).map_err(|error| of_queue(&error))?;
    let submission = Submission { head: part.head, session: Some(id.clone()), ..submission };
    let entry = enqueue(&place.repo, submission).map_err(|error| of_queue(&error))?;
    process_entry(&MergeGround { globals, settings, place }, &entry)
}

/// Lands a session in all its repositories.
pub fn land_all(
    globals: &Globals,
    settings: &Settings,
    places: &Places,
    id: &SessionId,
    parts: Vec<JointPart>,
) -> Result<Exit, Failure> {
    let repo = &places.record.repo;
    let Settings { resolved, environment, state_dir, .. } = settings;
    let scope = TrustScope { repo, resolved, environment, state_dir };
    let truster = TerminalTruster::of(globals, settings, repo.common_dir());
    for part in &parts {
        let of = places.all().find(|place| place.name == part.name).map_or(repo, |place| &place.repo);
        let queue = MergeQueue::read(of, &part.target).map_err(|error| of_queue(&error))?;
        truster.require(queue_to_trust(&scope, &queue))?;
    }
    let built = build(globals, settings, &resolved.config, Answers::default())?;
    let queue = queue_settings(settings, &places.record);
    let told = LandMessage { globals, id, parts: parts.clone(), places };
    let outcome = block_on(built.stopped_by(), async {
        let opened = tokio::task::block_in_place(|| {
            JointLanding::open(built.engine.clone(), places.repos(), id.clone(), parts, queue)
        });
        opened.map_err(|error| of_queue(&error))?.land().await.map_err(|error| of_queue(&error))
    })?;
    told.end(outcome)
}

/// What is said of a landing of several repositories.
struct LandMessage<'a> {
    globals: &'a Globals,
    id: &'a SessionId,
    parts: Vec<JointPart>,
    places: &'a Places,
}

impl LandMessage<'_> {
    fn end(&self, outcome: JointOutcome) -> Result<Exit, Failure> {
        let mut out = Out::new();
        if self.globals.json {
            out.json(&self.json(&outcome))?;
        }
        let id = self.id;
        match outcome {
            JointOutcome::Landed(entries) => {
                if !self.globals.json {
                    out.line(head(&format!("landed session {id} in {}", listed(names(&self.parts), usize::MAX))))?;
                    for entry in &entries {
                        let tier = entry.tier.map(|tier| format!(" ({tier})")).unwrap_or_default();
                        let to = entry.landing.map(|landing| landing.to.short()).unwrap_or_default();
                        out.line(format!("  {}: `{}` at {to}{tier}", entry.repo, entry.target))?;
                    }
                }
                Ok(Exit::Done)
            }
            JointOutcome::Red { exit, log } => {
                say!("{}", log.trim_end());
                Err(Failure::new(Code::LandingRed, format!("session {id} does not land: its tests fail ({exit})"))
                    .hint(format!("nothing has moved{}; `pleach run` mends it, or land it again", self.so_far()?)))
            }
            JointOutcome::Refused { repo, why, .. } => {
                let place = self.places.all().find(|place| place.name == repo);
                let dir = place.and_then(|place| place.repo.workdir()).map(|dir| shell_word(dir.display()));
                let part = self.parts.iter().find(|part| part.name == repo);
                let how = match (dir, part) {
                    (Some(dir), Some(part)) => format!(
                        "`git -C {dir} switch {} && git -C {dir} merge {}`, resolve it, commit, and land it again",
                        shell_word(&part.branch),
                        shell_word(&part.target)
                    ),
                    _ => "resolve it on the session's branch, and land it again".to_owned(),
                };
                Err(Failure::new(Code::LandingConflict, format!("session {id} does not land in `{repo}`: {why}"))
                    .hint(format!("nothing has moved{}; {how}", self.so_far()?)))
            }
            JointOutcome::Held { repo, why, .. } => {
                Err(Failure::new(Code::CheckoutInTheWay, format!("session {id} does not land in `{repo}`: {why}"))
                    .hint(format!("nothing has moved{}; then `pleach land {id}` again", self.so_far()?)))
            }
            JointOutcome::Stopped => {
                say!("stopped; `pleach land {id}` continues");
                Ok(Exit::Paused)
            }
        }
    }

    /// The repositories that have it, where some do and others do not.
    fn so_far(&self) -> Result<String, Failure> {
        let mut there: Vec<&RepoName> = Vec::new();
        for part in &self.parts {
            let place = self.places.all().find(|place| place.name == part.name);
            let Some(place) = place else { continue };
            let read = || {
                let tip = place.repo.refs().find(&format!("refs/heads/{}", part.target))?;
                tip.map_or(Ok(false), |tip| place.repo.history().is_ancestor(part.head, tip))
            };
            if read().map_err(|error| of_git(&error))? {
                there.push(&part.name);
            }
        }
        Ok(match there.is_empty() {
            true => String::new(),
            false => format!(
                " but {}, which {} it already",
                listed(&there, usize::MAX),
                if there.len() == 1 { "has" } else { "have" }
            ),
        })
    }

    fn json(&self, outcome: &JointOutcome) -> Value {
        let parts: Vec<Value> = self.parts.iter().map(part_json).collect();
        let (word, landed, why): (_, &[QueueEntry], _) = match outcome {
            JointOutcome::Landed(entries) => ("landed", entries, Value::Null),
            JointOutcome::Red { exit, log } => ("red", &[], json!({"exit": exit, "log": log})),
            JointOutcome::Refused { repo, why, conflicts } => {
                ("refused", &[], json!({"repo": repo, "why": why, "conflicts": conflicts}))
            }
            JointOutcome::Held { repo, why, moved } => ("held", &[], json!({"repo": repo, "why": why, "moved": moved})),
            JointOutcome::Stopped => ("stopped", &[], Value::Null),
        };
        let landed: Vec<Value> = landed.iter().map(entry_json).collect();
        json!({"session": self.id, "outcome": word, "parts": parts, "landed": landed, "why": why})
    }
}

fn names(parts: &[JointPart]) -> impl Iterator<Item = &RepoName> {
    parts.iter().map(|part| &part.name)
}

/// Finishes landings that were cut off between two repositories, before anything else is done. One that cannot be
/// finished is told, and nothing else waits for it.
pub fn finish_landings(globals: &Globals, settings: &Settings, record: &Place) {
    for id in unfinished_landings(&record.repo) {
        let finish = || {
            let summary = Summary::newest(&record.repo, &id).map_err(|error| of_engine(&error))?;
            let places = Places::of_session(record.clone(), &summary.started, settings)?;
            land_session(globals, settings, &places, &summary)
        };
        match finish() {
            Ok(Exit::Done) => {}
            Ok(_) => warning!(LandingUnfinished, "the landing of session {id} is not finished"),
            Err(failure) => warning!(LandingUnfinished, "{}", failure.sentence()),
        }
    }
}

/// Lands a session where the queue has it as one of several repositories.
pub fn land_session(
    globals: &Globals,
    settings: &Settings,
    places: &Places,
    summary: &Summary,
) -> Result<Exit, Failure> {
    // Where it goes was said when it was queued.
    let mut all = parts(places, summary, None)?;
    for part in &mut all {
        let repo = places.all().find(|place| place.name == part.name).map_or(&places.record.repo, |place| &place.repo);
        if let Some(queued) = queued_for(repo, &summary.session)? {
            part.target = queued;
        }
    }
    land_all(globals, settings, places, &summary.session, all)
}

fn queued_for(repo: &Repo, session: &SessionId) -> Result<Option<BranchName>, Failure> {
    let read = || {
        for target in pleach::engine::queue::queue_targets(repo)? {
            let queue = MergeQueue::read(repo, &target)?;
            let is_its = |entry: &QueueEntry| entry.session.as_ref() == Some(session) && entry.together.is_some();
            if queue.entries().iter().any(is_its) {
                return Ok(Some(target));
            }
        }
        Ok(None)
    };
    read().map_err(|error| of_queue(&error))
}

/// Puts a session over several repositories into the queues of its targets.
pub fn enqueue_all(
    globals: &Globals,
    places: &Places,
    summary: &Summary,
    into: Option<&BranchName>,
) -> Result<Exit, Failure> {
    let parts = parts(places, summary, into)?;
    let together = submit_together(&places.repos(), &summary.session, &parts).map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    match globals.json {
        true => {
            let parts: Vec<Value> = parts.iter().map(part_json).collect();
            out.json(&json!({"session": summary.session, "together": together, "parts": parts}))?;
        }
        false => {
            let (repos, session) = (listed(names(&parts), usize::MAX), &summary.session);
            out.line(format!("queued: session {session}, which lands in {repos} together"))?;
        }
    }
    Ok(Exit::Done)
}
