//! `pleach land`

use clap::Args;

use engine::landing::{JointPart, Submission, enqueue, find_entry, unfinished_landings};
use engine::view::{RunView, Summary, landed};
use git::Repo;
use git::record::History;
use git::workspace::branch_ref;
use pleach_core::ids::{BranchName, RepoName, RunId};
use pleach_core::queue::EntryState;
use serde_json::{Value, json};

use crate::code::Code;
use crate::commands::merge::ground::MergeGround;
use crate::commands::merge::process_entry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::joint_landing::{
    Targets, finish_landings, land_all, part_json, parts, recorded_targets, refuse_other_target,
};
use crate::lib_errors::{of_engine, of_git, of_queue, of_record};
use crate::next_commands::about;
use crate::place::{Place, Places};
use crate::render::Out;
use crate::sessions::{self, SessionFilter, SessionGround};
use crate::settings::{self, Settings};

/// Land a finished session on the branches it was started on.
///
/// The work is merged, tested and landed as `pleach merge process` does it, with `merge.test_command` or `test_command`. A
/// session over several repositories lands in all of them or in none: their merges are checked out side by side and tested,
/// all at once with `workspace.test_command` or else each as it would be alone, and then the branches move one after the
/// other. Should that be cut off in between, the next command finishes it. Where the branch has the work already, that is
/// said, and nothing is done.
#[derive(Debug, Args)]
pub struct LandArgs {
    /// The session, or the beginning of its id; by default the newest that is done and has not landed.
    session: Option<String>,
    /// The branch to land on, in every repository; by default the one that was checked out when the session started.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
    /// Show what would land, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(globals: &Globals, args: LandArgs) -> Result<Exit, Failure> {
    let settings = settings::load_for(globals, &globals.dir)?.deepening(!args.dry_run);
    let record = Place::find(&globals.dir, None, &settings)?;
    let id = match &args.session {
        Some(given) => sessions::resolve(&record.repo, given)?,
        None => newest_to_land(globals, &record, &settings)?,
    };
    if !args.dry_run {
        finish_landings(globals, &settings, &record, Some(&id.session));
    }
    let summary = Summary::newest(&record.repo, &id).map_err(|error| of_engine(&error))?;
    let under_way = unfinished_landings(&record.repo).contains(&id.session).then(|| recorded_targets(&summary));
    let places = Places::of_session(record, &summary.started, &settings)?;
    if !id.is_first() && !places.others.is_empty() {
        let message = format!("run {id} works in several repositories, and only the first run of such a session lands");
        return Err(Failure::new(Code::LandingRefused, message)
            .hint(format!("merge its branches yourself: `pleach status {id}` names them")));
    }
    let targets = match (under_way, args.into) {
        (Some(targets), into) => {
            refuse_other_target(&id.session, &targets, into.as_ref())?;
            Targets::Named(targets)
        }
        (None, Some(into)) => Targets::One(into),
        (None, None) => Targets::Started,
    };
    let parts = parts(&places, &summary, &targets)?;
    let mut out = Out::new();
    if !matches!(targets, Targets::Named(_)) && has_all(&places, &parts)? {
        refuse_undone(&places, &summary)?;
        return say_there(globals, &id, &parts);
    }
    if parts.is_empty() {
        if globals.json {
            out.json(&json!({"session": id.session, "run": id, "outcome": "landed", "parts": [], "landed": []}))?
        } else {
            out.line("nothing to land: no file was changed")?
        }
        return Ok(Exit::Done);
    }
    if args.dry_run {
        return dry_run(globals, &id, &places, &parts);
    }
    if places.others.is_empty() {
        let (repo, runs) = (places.record.repo.clone(), other_runs(&places.record, &id)?);
        say_landed(globals, &repo, &runs);
        let exit = land_one(globals, settings, places.record, &id, &parts[0])?;
        if exit == Exit::Done && !runs.is_empty() && !globals.json && globals.verbosity >= 0 {
            let named: Vec<String> = runs.iter().map(|run| format!("{}/{}", run.session, run.root)).collect();
            let rm = about(globals, &globals.dir, &format!("rm --force {}", named.join(" ")), None);
            out.line(format!("next:    {rm}\n         removes the other runs of the session; what they have is kept"))?;
        }
        return Ok(exit);
    }
    land_all(globals, &settings, &places, &id.session, parts)
}

/// The newest session that has something to land; without one the newest that is done.
fn newest_to_land(globals: &Globals, record: &Place, settings: &Settings) -> Result<RunId, Failure> {
    let ground = SessionGround { settings: settings.clone(), place: record.clone() };
    let done = sessions::all(&record.repo, SessionFilter::Done)?;
    let find = |name: &RepoName| ground.repo(name);
    let landed = landed(&done, find).map_err(|error| of_engine(&error))?;
    let is_open = |summary: &&Summary| !landed.contains_key(&summary.run);
    match done.iter().find(is_open).or(done.first()) {
        Some(found) => Ok(sessions::using(globals, found)),
        None => sessions::named_or_newest(globals, &record.repo, None, SessionFilter::Done),
    }
}

/// Whether the targets have all of it already.
fn has_all(places: &Places, parts: &[JointPart]) -> Result<bool, Failure> {
    for part in parts {
        let Some(place) = places.all().find(|place| place.name == part.name) else { return Ok(false) };
        let tip = place.repo.refs().find(&branch_ref(&part.target)).map_err(|error| of_git(&error))?;
        let is_there = tip.map(|tip| place.repo.history().is_ancestor(part.head, tip)).transpose();
        if !is_there.map_err(|error| of_git(&error))?.unwrap_or_default() {
            return Ok(false);
        }
    }
    Ok(!parts.is_empty())
}

/// Work that was undone is on its targets for git, which would not merge it again.
fn refuse_undone(places: &Places, summary: &Summary) -> Result<(), Failure> {
    let find = |name: &RepoName| places.all().find(|place| place.name == *name).map(|place| place.repo.clone());
    let landed = landed(std::slice::from_ref(summary), find).map_err(|error| of_engine(&error))?;
    let undone = landed.into_values().flatten().find_map(|part| Some((part.undone?, part)));
    let Some((commit, part)) = undone else { return Ok(()) };
    let message =
        format!("session {} has landed on `{}`, and was undone by {}", summary.run, part.target, commit.short());
    Err(Failure::new(Code::LandingRefused, message).hint(format!(
        "`git revert {}` on `{}` brings it back",
        commit.short(),
        part.target
    )))
}

/// Says that nothing is left to land, and stores nothing.
fn say_there(globals: &Globals, id: &RunId, parts: &[JointPart]) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        let parts: Vec<Value> = parts.iter().map(part_json).collect();
        out.json(&json!({
            "session": id.session, "run": id, "outcome": "landed", "already": true, "parts": parts, "landed": [],
        }))?;
        return Ok(Exit::Done);
    }
    let several = parts.len() > 1;
    parts.iter().try_for_each(|part| {
        let at = if several { format!(" in {}", part.name) } else { String::new() };
        out.line(format!("`{}`{at} has it already", part.target))
    })?;
    Ok(Exit::Done)
}

/// The other runs of the session.
fn other_runs(place: &Place, id: &RunId) -> Result<Vec<RunId>, Failure> {
    let runs = History::runs(&place.repo, &id.session).map_err(|error| of_record(&error))?;
    Ok(runs.into_iter().filter(|run| run != id).collect())
}

/// Says which of the other runs have landed already: two runs do the same work twice, and conflict where they differ.
fn say_landed(globals: &Globals, repo: &Repo, runs: &[RunId]) {
    let entry = |run: &RunId| find_entry(repo, RunView::read(repo, run).ok()?.branch?.as_str()).ok();
    let landed = runs.iter().filter_map(|run| Some((run, entry(run)?.entry)));
    for (run, entry) in landed.filter(|(_, entry)| entry.state == EntryState::Landed && globals.verbosity >= 0) {
        say!(
            "run {run} of the same session has landed on `{}` already; this one conflicts where they differ",
            entry.target
        );
    }
}

fn dry_run(globals: &Globals, id: &RunId, places: &Places, parts: &[JointPart]) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        let parts: Vec<Value> = parts.iter().map(part_json).collect();
        out.json(&json!({"session": id.session, "run": id, "dry_run": true, "parts": parts}))?;
        return Ok(Exit::Done);
    }
    for part in parts {
        let at = if places.others.is_empty() { String::new() } else { format!(" in {}", part.name) };
        out.line(format!("would land {} ({}) on `{}`{at}", part.branch, part.head.short(), part.target))?;
    }
    Ok(Exit::Done)
}

/// With one repository it is an entry of the merge queue like any other.
fn land_one(
    globals: &Globals,
    settings: Settings,
    place: Place,
    id: &RunId,
    part: &JointPart,
) -> Result<Exit, Failure> {
    let (name, branch, target) = (part.name.clone(), part.branch.clone(), part.target.clone());
    let submission = Submission::branch(&place.repo, name, branch, target).map_err(|error| of_queue(&error))?;
    let submission = Submission {
        head: part.head,
        session: Some(id.session.clone()),
        run: Some(id.root.clone()).filter(|_| !id.is_first()),
        ..submission
    };
    let entry = enqueue(&place.repo, submission, &settings.redactor()).map_err(|error| of_queue(&error))?;
    process_entry(&MergeGround { globals, settings, place }, &entry)
}
