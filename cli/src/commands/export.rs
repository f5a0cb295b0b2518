//! `pleach export`

use std::path::PathBuf;

use clap::Args;
use engine::view::ExportError;
use pleach_core::text::counted;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::render::Out;
use crate::sessions;

/// Write a session as plain files: manifest, checkpoint, and prompt, response and status of every node.
///
/// The directory must be empty, or hold an earlier export of the same session, which is updated.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct ExportArgs {
    /// The session, or the beginning of its id; by default the newest.
    session: Option<String>,
    /// The directory to write to.
    #[arg(value_name = "DIR")]
    target: PathBuf,
}

pub fn run(globals: &Globals, args: ExportArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let view = sessions::load(globals, &repo, args.session.as_deref())?;
    let written = view.export(&repo, &globals.path(&args.target)).map_err(|error| failure(&error))?;
    let mut out = Out::new();
    if globals.json {
        let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let dir = globals.path(&args.target).display().to_string();
        out.json(&json!({"session": view.summary.session, "dir": dir, "files": files}))?;
    } else {
        out.line(format!(
            "exported {} of session {} to {}",
            counted(written.len(), "file"),
            view.summary.session,
            args.target.display()
        ))?;
    }
    Ok(Exit::Done)
}

fn failure(error: &ExportError) -> Failure {
    match error {
        ExportError::Session(error) => of_engine(error),
        ExportError::NotEmpty { .. } => {
            Failure::new(Code::ExportTaken, error.to_string()).hint("name a directory that does not exist yet")
        }
        ExportError::NotADirectory { .. } => {
            Failure::new(Code::ExportTaken, error.to_string()).hint("move it away, or name another directory")
        }
        ExportError::Io { source, .. } => Failure::new(Code::ExportFailed, error.to_string()).because(source),
    }
}
