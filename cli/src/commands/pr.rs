//! `pleach pr`

mod pushed_branch;
mod text;

use clap::Args;
use engine::tree::ad_hoc::AdHocStatus;
use engine::view::{RepoWork, SessionStatus, Summary, View};
use pleach_core::ids::{BranchName, RunId};
use serde_json::{Value, json};

use self::pushed_branch::PushedBranch;
use self::text::RequestText;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::forge::{Forge, NewRequest};
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::render::Out;
use crate::sessions::{self, SessionGround};
use crate::task_submission::named_task;

/// Push a session or a task, and open a pull request for it.
///
/// `gh` or `glab` opens it where one is installed; else the link the remote gives is printed. Title and text come from the
/// task or the pipeline's goal, and say what was done turn by turn, what was tested and reviewed, and what it has cost. Over
/// several repositories there is a request for each that was changed. Where a request for the branch is open, the push
/// updates it, and its address is printed.
///
/// Work that is not finished is opened as a draft, with a warning.
#[derive(Debug, Args)]
pub struct PrArgs {
    /// The session or the beginning of its id, or a task.
    #[arg(value_name = "SESSION|TASK")]
    id: String,
    /// Open it as a draft.
    #[arg(long)]
    draft: bool,
    /// The branch it is to be merged into; by default the one the work was started on.
    #[arg(long, value_name = "BRANCH")]
    base: Option<BranchName>,
}

pub fn run(globals: &Globals, args: PrArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let named = find(&ground, &args.id)?;
    let view = View::load(&ground.place.repo, &named.run).map_err(|error| of_engine(&error))?;
    let is_finished = check(&view.summary)?;
    if !is_finished && !args.draft {
        let id = &named.run;
        warning!(DraftOnly, "{id} is {}, so its pull request is a draft", view.summary.standing().word());
    }
    let draft = args.draft || !is_finished;
    let mut branches = Vec::new();
    for repo_work in view.summary.repos().filter(RepoWork::has_changed) {
        branches.push(PushedBranch::find(globals, &ground, &repo_work, args.base.as_ref(), &view.summary)?);
    }
    if branches.is_empty() {
        let message = format!("session {} has made no commit", named.run);
        return Err(Failure::new(Code::NothingToRequest, message).hint("`pleach turns` shows what it did"));
    }
    for branch in &mut branches {
        branch.push(globals, ground.place.repo.common_dir(), &view.summary)?;
    }
    let mut results = Vec::new();
    for index in 0..branches.len() {
        let (branch, others) = (&branches[index], branches.iter().enumerate().filter(|(at, _)| *at != index));
        let others: Vec<&PushedBranch> = others.map(|(_, other)| other).collect();
        let text = RequestText::of(&ground.settings.redactor(), &view, named.description.as_deref(), branch, &others);
        results.push(request(&ground, branch, &text, draft)?);
    }
    tell(globals, &branches, &results)
}

/// The session that is meant, and what its task says.
struct NamedWork {
    run: RunId,
    description: Option<String>,
}

/// Finds an ad-hoc task, a session, or the newest session on a task of a tree.
fn find(ground: &SessionGround, given: &str) -> Result<NamedWork, Failure> {
    let SessionGround { settings, place } = ground;
    if let Some(view) = named_task(settings, place, given)? {
        let task = &view.task;
        if view.status == AdHocStatus::Landed {
            return Err(landed(task.id.as_str(), &task.target));
        }
        let none = || {
            let message = format!("nobody has worked on {} yet", task.id);
            Failure::new(Code::NothingToRequest, message).hint(format!("`pleach task start {}` does", task.id))
        };
        let session = view.session.clone().ok_or_else(none)?;
        return Ok(NamedWork { run: session.into(), description: Some(task.description.clone()) });
    }
    let unknown = match sessions::resolve(&place.repo, given) {
        Ok(run) => return Ok(NamedWork { description: description_of(ground, &run)?, run }),
        Err(failure) => failure,
    };
    let all = View::all(&place.repo).map_err(|error| of_engine(&error))?;
    let is_on_it = |summary: &Summary| summary.started.task.as_ref().is_some_and(|task| task.id.as_str() == given);
    let newest = all.into_iter().filter_map(|(id, summary)| Some((id, summary.ok()?))).find(|(_, on)| is_on_it(on));
    newest.map(|(session, _)| NamedWork { run: session.into(), description: None }).ok_or(unknown)
}

/// The text of the ad-hoc task a session works on.
fn description_of(ground: &SessionGround, run: &RunId) -> Result<Option<String>, Failure> {
    let summary = Summary::newest(&ground.place.repo, run).map_err(|error| of_engine(&error))?;
    let Some(task) = &summary.started.task else { return Ok(None) };
    let view = named_task(&ground.settings, &ground.place, task.id.as_str())?;
    Ok(view.map(|view| view.task.description))
}

fn landed(what: &str, target: &BranchName) -> Failure {
    Failure::new(Code::NothingToRequest, format!("{what} has landed on `{target}` already"))
        .hint(format!("push it with `git push`: `{target}` has the work"))
}

/// Whether the work of a session is finished. What runs, and what has landed, is refused.
fn check(summary: &Summary) -> Result<bool, Failure> {
    let id = &summary.run;
    if summary.in_use {
        return Err(Failure::new(Code::SessionLocked, format!("session {id} is running"))
            .hint(format!("wait until it ends, or stop it with `pleach pause {id}`")));
    }
    match &summary.state.task {
        Some(task) if task.landed.is_some() && task.is_complete() => Err(landed(task.of.id.as_str(), &task.of.target)),
        Some(task) => Ok(task.is_complete()),
        None => Ok(summary.standing() == SessionStatus::Done),
    }
}

/// What became of a request.
struct RequestResult {
    url: Option<String>,
    state: &'static str,
    draft: bool,
}

fn request(
    ground: &SessionGround,
    branch: &PushedBranch,
    text: &RequestText,
    draft: bool,
) -> Result<RequestResult, Failure> {
    let Some(forge) = Forge::find(&ground.settings, &branch.place, Some(&branch.remote)) else {
        return Ok(RequestResult { url: branch.link.clone(), state: "pushed", draft: false });
    };
    let by_hand = |failure: Failure| {
        let link = branch.link.as_ref().map(|link| format!("; open it at {link}")).unwrap_or_default();
        let hint = failure.hint.clone().unwrap_or_default();
        failure.hint(format!("`{}` is pushed{link}; {hint}", branch.branch))
    };
    let open = forge.open_request(branch.branch.as_str()).map_err(by_hand)?;
    if let Some(url) = open {
        return Ok(RequestResult { url: Some(url), state: "updated", draft: false });
    }
    let new = NewRequest {
        branch: branch.branch.as_str(),
        base: branch.base.as_ref().map(BranchName::as_str),
        title: &text.title,
        body: &text.body,
        draft,
    };
    let url = forge.create(&new).map_err(by_hand)?;
    Ok(RequestResult { url: Some(url), state: "opened", draft })
}

fn tell(globals: &Globals, branches: &[PushedBranch], results: &[RequestResult]) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        let document = |(branch, result): (&PushedBranch, &RequestResult)| -> Value {
            json!({
                "repo": branch.repo, "remote": branch.remote.to_string(), "branch": branch.branch,
                "commit": branch.commit, "base": branch.base, "url": result.url, "state": result.state,
                "draft": result.draft,
            })
        };
        out.json(&json!({"requests": branches.iter().zip(results).map(document).collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    for (branch, result) in branches.iter().zip(results) {
        let prefix = if branches.len() > 1 { format!("{}: ", branch.repo) } else { String::new() };
        match (&result.url, result.state) {
            (Some(url), "pushed") => out.line(format!("{prefix}open the pull request at {url}"))?,
            (Some(url), state) => out.line(format!("{prefix}{state} {url}"))?,
            (None, _) => {
                let into = branch.base.as_ref().map(|base| format!(" into {base}")).unwrap_or_default();
                let line = format!(
                    "{prefix}open a pull request of {}{into} at {}; with `gh` or `glab` installed, pleach does",
                    branch.branch, branch.remote
                );
                out.line(line)?;
            }
        }
    }
    Ok(Exit::Done)
}
