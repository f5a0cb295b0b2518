//! Lands sessions over several repositories, in all of them or in none.

use std::collections::BTreeMap;

use engine::landing::{
    JointLanding, JointOutcome, JointPart, MergeQueue, QueuedLanding, landing_targets, queue_to_trust, queued_landings,
    submit_together, unfinished_landings,
};
use engine::trust::TrustScope;
use engine::view::{RepoWork, SessionStatus, Summary};
use pleach_core::ids::{BranchName, RepoName, SessionId};
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::redact::Redactor;
use pleach_core::text::{listed, shell_word};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::attribution_notes::BranchesBefore;
use crate::code::Code;
use crate::commands::merge::ground::{MergeGround, entry_json, how_landed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_queue};
use crate::next_commands::about;
use crate::place::{Place, Places};
use crate::queue_settings::queue_settings;
use crate::render::Out;
use crate::render::style::head;
use crate::runtime::block_on;
use crate::session::build;
use crate::settings::Settings;
use crate::trust::TerminalTruster;

/// Where a session lands.
pub enum Targets {
    /// In each repository on the branch it was started on.
    Started,
    /// In each on this one.
    One(BranchName),
    /// Where it was said before.
    Named(BTreeMap<RepoName, BranchName>),
}

/// Where a landing goes that is under way.
pub fn recorded_targets(summary: &Summary) -> BTreeMap<RepoName, BranchName> {
    summary.state.landing.iter().map(|landing| (landing.repo.clone(), landing.target.clone())).collect()
}

/// A landing that has begun is finished before another one is.
pub fn refuse_other_target(
    id: &SessionId,
    targets: &BTreeMap<RepoName, BranchName>,
    into: Option<&BranchName>,
) -> Result<(), Failure> {
    let Some((repo, target)) = targets.iter().find(|(_, target)| into.is_some_and(|into| into != *target)) else {
        return Ok(());
    };
    let message = format!("session {id} is about to land on `{target}` in `{repo}`, and was cut off");
    Err(Failure::new(Code::LandingUnfinished, message).hint(format!("`pleach land {id}` finishes that first")))
}

/// What is to land of a session: in each repository where it has changed something.
pub fn parts(places: &Places, summary: &Summary, targets: &Targets) -> Result<Vec<JointPart>, Failure> {
    let id = &summary.session;
    if summary.started.task.is_some() {
        return Err(Failure::new(Code::SessionOfTask, format!("session {id} works on a task, which lands by itself"))
            .hint("`pleach gardener` or `pleach task merge` lands it"));
    }
    if summary.standing() != SessionStatus::Done {
        return Err(not_done(summary));
    }
    let mut parts = Vec::new();
    for place in places.all() {
        let Some(repo_work) = summary.in_repo(&place.name).filter(RepoWork::has_changed) else { continue };
        parts.push(part(id, place, &repo_work, targets)?);
    }
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(parts)
}

/// The failure where a session is not done: it lands when it is.
fn not_done(summary: &Summary) -> Failure {
    let run = &summary.run;
    let (where_it_is, hint) = match summary.standing() {
        SessionStatus::Running => ("still runs", format!("`pleach status {run}` shows where it is")),
        SessionStatus::Dead => ("was cut off before its end", format!("`pleach resume {run}` continues it")),
        SessionStatus::Paused { .. } => ("is paused", format!("`pleach resume {run}` continues it")),
        SessionStatus::Failed { .. } => (
            "failed",
            format!(
                "`pleach status {run}` shows why, `pleach resume {run}` continues it; `pleach diff {run}` shows its work"
            ),
        ),
        SessionStatus::Cancelled | SessionStatus::Done => {
            ("was cancelled", format!("`pleach diff {run}` shows its work, which `git merge` still takes"))
        }
    };
    Failure::new(Code::SessionNotDone, format!("session {run} {where_it_is}; only a session that is done lands"))
        .hint(hint)
}

fn part(id: &SessionId, place: &Place, repo_work: &RepoWork<'_>, targets: &Targets) -> Result<JointPart, Failure> {
    let name = &place.name;
    let target = match targets {
        Targets::Started => repo_work.target,
        Targets::One(target) => Some(target),
        Targets::Named(targets) => targets.get(name),
    };
    let Some(target) = target else {
        if let Targets::Named(_) = targets {
            let message = format!("session {id} was queued without its work in `{name}`");
            let hint = format!("`pleach merge enqueue {id}` queues the rest of it beside what is queued already");
            return Err(Failure::new(Code::LandingUnfinished, message).hint(hint));
        }
        return Err(Failure::new(
            Code::NoTarget,
            format!("no branch was checked out in `{name}` when the session started"),
        )
        .hint("`--into BRANCH` names the branch to land on"));
    };
    // Somebody may have gone on with the branch, for one to resolve a conflict.
    let at = repo_work.branch_at(&place.repo).map_err(|error| of_engine(&error))?;
    let work = repo_work.work.expect("something was changed");
    let goes_on = |at| place.repo.history().is_ancestor(work, at).map_err(|error| of_git(&error));
    let head = match at {
        Some(at) if goes_on(at)? => at,
        _ => work,
    };
    Ok(JointPart { name: name.clone(), branch: repo_work.branch.clone(), head, target: target.clone() })
}

pub fn part_json(part: &JointPart) -> Value {
    json!({"repo": part.name, "branch": part.branch, "commit": part.head, "target": part.target})
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
        let part_repo = places.all().find(|place| place.name == part.name).map_or(repo, |place| &place.repo);
        let queue = MergeQueue::read(part_repo, &part.target).map_err(|error| of_queue(&error))?;
        let items = queue_to_trust(&scope, &queue).into_iter();
        let is_own = part_repo.common_dir() == repo.common_dir();
        truster.require(items.map(|item| if is_own { item } else { item.elsewhere() }).collect())?;
    }
    let built = build(globals, settings, &resolved.config, Answers::default())?;
    let queue = queue_settings(settings, &places.record);
    let message = LandMessage { globals, id, parts: parts.clone(), places };
    let before = BranchesBefore::look(&resolved.config, places.all());
    let outcome = block_on(built.stopped_by(), async {
        let opened = tokio::task::block_in_place(|| {
            JointLanding::open(built.engine.clone(), places.repos(), id.clone(), parts, queue)
        });
        opened.map_err(|error| of_queue(&error))?.land().await.map_err(|error| of_queue(&error))
    })?;
    before.write_notes(repo);
    message.end(outcome)
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
                        let how = how_landed(entry.tier, entry.is_unverified());
                        let to = entry.landing.map(|landing| landing.to.short()).unwrap_or_default();
                        out.line(format!("  {}: `{}` at {to}{how}", entry.repo, entry.target))?;
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
            JointOutcome::Unapproved => {
                if !self.globals.json {
                    out.line(format!("session {id} has passed, and waits for approval"))?;
                    let any = self.parts.first().map(|part| shell_word(&part.branch)).unwrap_or_default();
                    let command = |text: String| about(self.globals, &self.globals.dir, &text, None);
                    let (approve, land) = (command(format!("merge approve {any}")), command(format!("land {id}")));
                    out.line(format!("next:    {approve}, then {land}"))?;
                }
                Ok(Exit::WaitsForPerson)
            }
            JointOutcome::Stopped => {
                say!("stopped; `{}` continues", about(self.globals, &self.globals.dir, &format!("land {id}"), None));
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
        Ok(if there.is_empty() {
            String::new()
        } else {
            format!(
                " but {}, which {} it already",
                listed(&there, usize::MAX),
                if there.len() == 1 { "has" } else { "have" }
            )
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
            JointOutcome::Unapproved => ("unapproved", &[], Value::Null),
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
pub fn finish_landings(globals: &Globals, settings: &Settings, record: &Place, but: Option<&SessionId>) {
    for id in unfinished_landings(&record.repo).into_iter().filter(|id| Some(id) != but) {
        let finish = || {
            let summary = Summary::newest(&record.repo, &id).map_err(|error| of_engine(&error))?;
            let places = Places::of_session(record.clone(), &summary.started, settings)?;
            let parts = parts(&places, &summary, &Targets::Named(recorded_targets(&summary)))?;
            land_all(globals, settings, &places, &id, parts)
        };
        match finish() {
            Ok(Exit::Done) => {}
            Ok(_) => warning!(LandingUnfinished, "the landing of session {id} is not finished"),
            Err(failure) => warning!(LandingUnfinished, "{}", failure.sentence()),
        }
    }
}

/// Lands the sessions that wait in the queues to land in several repositories, in the order they were queued; with a
/// target, those that go there in one of them. Nothing else waits for one that cannot land.
pub fn land_queued(ground: &MergeGround<'_>, target: &BranchName) -> Exit {
    let MergeGround { globals, settings, place } = ground;
    finish_landings(globals, settings, place, None);
    let places = ground.places();
    let queued = match queued_landings(places.iter().map(|place| &place.repo)) {
        Ok(queued) => queued,
        Err(error) => {
            let failure = of_queue(&error);
            say!("{}", failure.sentence());
            return failure.exit();
        }
    };
    let auto = settings.resolved.config.merge.auto_merge_clean;
    let is_meant = |landing: &QueuedLanding| landing.entries.iter().any(|entry| entry.target == *target);
    let mut exit = Exit::Done;
    for landing in queued.into_iter().filter(is_meant) {
        let ended = if landing.is_workable(auto) {
            land_one_queued(ground, &landing).unwrap_or_else(|failure| {
                let hint = failure.hint.iter().map(|hint| format!("; {hint}"));
                say!("{}{}", failure.sentence(), hint.collect::<String>());
                failure.exit()
            })
        } else {
            exit_of_waiting(&landing)
        };
        exit = if ended == Exit::Done { exit } else { ended };
    }
    exit
}

/// What a landing comes to that nobody can do anything about but a person.
fn exit_of_waiting(landing: &QueuedLanding) -> Exit {
    let has = |state: EntryState| landing.entries.iter().any(|entry| entry.state == state);
    match () {
        () if has(EntryState::Escalated) => Exit::LandingRefused,
        () if has(EntryState::Red) => Exit::WorkFailed,
        () => Exit::WaitsForPerson,
    }
}

fn land_one_queued(ground: &MergeGround<'_>, landing: &QueuedLanding) -> Result<Exit, Failure> {
    let MergeGround { globals, settings, place } = ground;
    let summary = Summary::newest(&place.repo, &landing.session).map_err(|error| of_engine(&error))?;
    let places = Places::of_session(place.clone(), &summary.started, settings)?;
    // Where it goes was said when it was queued.
    let targets = landing_targets(&places.repos(), &landing.id).map_err(|error| of_queue(&error))?;
    let parts = parts(&places, &summary, &Targets::Named(targets))?;
    land_all(globals, settings, &places, &landing.session, parts)
}

/// Puts a session over several repositories into the queues of its targets.
pub fn enqueue_all(
    globals: &Globals,
    redactor: &Redactor,
    places: &Places,
    summary: &Summary,
    into: Option<&BranchName>,
) -> Result<Exit, Failure> {
    let targets = into.map_or(Targets::Started, |into| Targets::One(into.clone()));
    let parts = parts(places, summary, &targets)?;
    if unfinished_landings(&places.record.repo).contains(&summary.session) {
        refuse_other_target(&summary.session, &recorded_targets(summary), into)?;
    }
    let together = submit_together(&places.repos(), &summary.session, &parts, redactor);
    let together = together.map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    if globals.json {
        let parts: Vec<Value> = parts.iter().map(part_json).collect();
        out.json(&json!({"session": summary.session, "together": together, "parts": parts}))?;
    } else if globals.verbosity >= 0 {
        let (repos, session) = (listed(names(&parts), usize::MAX), &summary.session);
        out.line(format!("queued: session {session}, which lands in {repos} together"))?;
    }
    Ok(Exit::Done)
}
