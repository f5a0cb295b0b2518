//! `pleach push`

use clap::Args;
use engine::session::spawn_push;
use engine::view::{SessionStatus, Summary, View};
use pleach_core::config::PushPolicy;
use pleach_core::event::Event;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::place::Places;
use crate::remotes::{approved_remote, remote_to_push};
use crate::render::pushes::{self, PushLine};
use crate::render::{Out, show_git_progress};
use crate::runtime::block_on;
use crate::say;
use crate::session::build;
use crate::sessions::{self, SessionGround};

/// Push the branches and records that remotes lack.
///
/// It makes up for pushes that failed or were given up when a run ended. Sessions that are named are pushed whatever `push` of
/// their repositories says: to `workspace.repos.NAME.remote`, else to the remote of the branch that is checked out, else to
/// `origin`; others only as it says. Records stay here with `record.push: never`. Every push is a plain fast-forward. A
/// session that runs pushes by itself.
#[derive(Debug, Args)]
pub struct PushArgs {
    /// The sessions, or the beginnings of their ids; by default all whose remotes are known to lack something.
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
}

pub fn run(globals: &Globals, args: PushArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let repo = &ground.place.repo;
    if !args.sessions.is_empty() {
        let named = args.sessions.iter().map(|given| {
            let id = sessions::resolve(repo, given)?;
            Summary::newest(repo, &id).map_err(|error| of_engine(&error))
        });
        return push(globals, &ground, &named.collect::<Result<Vec<_>, _>>()?, true);
    }
    let (all, _) = View::open(repo).map_err(|error| of_engine(&error))?;
    let readable = all.into_iter().filter_map(|(_, summary)| summary.ok());
    let lacking = readable.filter(|summary| !summary.in_use && !lines(&ground, summary).iter().all(PushLine::is_whole));
    push(globals, &ground, &lacking.collect::<Vec<_>>(), false)
}

/// Makes up for the last pushes of a session that has ended. None if there is nothing to make up for.
pub fn make_up(globals: &Globals, ground: &SessionGround, ended: &Summary) -> Result<Option<Exit>, Failure> {
    let is_left = |line: &PushLine| match ended.standing() {
        SessionStatus::Done => !line.is_whole(),
        SessionStatus::Cancelled => line.has_failed(),
        _ => false,
    };
    if lines(ground, ended).iter().any(is_left) {
        push(globals, ground, std::slice::from_ref(ended), false).map(Some)
    } else {
        Ok(None)
    }
}

fn lines(ground: &SessionGround, summary: &Summary) -> Vec<PushLine> {
    pushes::of(&ground.repos(&summary.started), summary).into_iter().map(|(_, line)| line).collect()
}

/// Pushes sessions one after the other, and tells what their remotes have then.
fn push(globals: &Globals, ground: &SessionGround, sessions: &[Summary], is_asked: bool) -> Result<Exit, Failure> {
    let (mut out, mut documents, mut failures) = (Out::new(), Vec::new(), Vec::new());
    for summary in sessions {
        let id = &summary.run;
        failures.extend(push_one(globals, ground, summary, is_asked).err());
        let remotes = pushes::of(&ground.repos(&summary.started), summary);
        if !globals.json {
            for (name, line) in &remotes {
                let prefix = if summary.started.has_several_repos() { format!("{name}: ") } else { String::new() };
                out.line(format!("{id}: {prefix}{}", line.text()))?;
            }
        }
        let pushes: Vec<Value> = remotes.iter().map(|(name, line)| line.json(name)).collect();
        documents.push(json!({"session": id.session, "run": id, "pushes": pushes}));
    }
    if globals.json {
        out.json(&json!({"sessions": documents}))?;
    } else if sessions.is_empty() {
        out.line("nothing to push")?;
    }
    let last = failures.pop();
    failures.iter().for_each(|failure| say!("{}", failure.sentence()));
    last.map_or(Ok(Exit::Done), Err)
}

fn push_one(globals: &Globals, ground: &SessionGround, summary: &Summary, is_asked: bool) -> Result<(), Failure> {
    let SessionGround { settings, place } = ground;
    let (id, mut config) = (&summary.run, settings.resolved.config.clone());
    let places = Places::of_session(place.clone(), &summary.started, settings)?;
    for place in places.all() {
        if is_asked {
            remote_to_push(globals, settings, place)?;
            config.workspace.repos.entry(place.name.clone()).or_default().push = Some(PushPolicy::OnCheckpoint);
        } else {
            drop(approved_remote(globals, settings, place)?)
        }
        show_git_progress(globals, &place.repo);
    }
    let built = build(globals, settings, &config, Answers::default())?;
    block_on(built.stopped_by(), async {
        let pushed = spawn_push(built.engine.clone(), places.repos(), id.clone());
        let pushed = pushed.follow(|notification| {
            if let Event::Warning(warning) = &notification.recorded.event {
                say::warn(warning);
            }
        });
        pushed.await.map_err(|error| of_engine(&error))
    })?;
    if lines(ground, summary).iter().any(PushLine::has_failed) {
        let message = format!("not everything of session {id} is pushed");
        let hint = format!("fix what the warnings say, then `pleach push {id}` again");
        return Err(Failure::new(Code::BranchNotPushed, message).hint(hint));
    }
    Ok(())
}
