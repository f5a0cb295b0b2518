//! `pleach turns`

use clap::Args;
use engine::view::Moment;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::{Out, Pages, session as show};
use crate::sessions;

/// List the turns of a session.
///
/// A turn is one model call of an agent and the tools it asked for, or one run of a tool node. A turn that changed
/// files has a commit; `pleach show` shows all of it. A failed attempt is followed by the reason. Answers to gates are
/// listed with who gave them, how, and their comments.
#[derive(Debug, Args)]
pub struct TurnsArgs {
    /// The session, or the beginning of its id; by default the newest.
    session: Option<String>,
}

pub fn run(globals: &Globals, args: TurnsArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let view = sessions::load(globals, &repo, args.session.as_deref())?;
    if globals.json {
        let (turns, failures, answers) = (view.turns(), view.failures(), view.all_answers());
        let (session, run) = (&view.summary.session, &view.summary.run);
        Out::new()
            .json(&json!({"session": session, "run": run, "turns": turns, "failures": failures, "answers": answers}))?;
        return Ok(Exit::Done);
    }
    let moments: Vec<Moment> =
        view.timeline().into_iter().filter(|moment| !matches!(moment, Moment::Checkpoint(_))).collect();
    if moments.is_empty() {
        Out::new().line("No turns yet.")?;
    } else {
        let turns = show::turns(&moments, view.summary.started.has_several_repos());
        Pages::new(globals)?.text(&format!("{turns}\n"))?;
    }
    Ok(Exit::Done)
}
