//! `pleach export`

use std::fs;
use std::io;
use std::path::Path;

use clap::{Args, ValueEnum};
use engine::view::{ExportError, View};
use history::export::{Diffs, RunStory, html, lines, markdown};
use pleach_core::text::counted;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::render::Out;
use crate::sessions::{self, SessionGround};

/// Write a session as a directory of plain files, or as one file.
///
/// The directory has the manifest, the checkpoint, and prompt, response and status of every node; with --format one file has
/// all that was said, called and changed. The directory must be empty, or hold an earlier export of the same session, which is
/// updated. A file is replaced. Secrets are taken out of what the commits hold, as they were of what was recorded.
#[derive(Debug, Args)]
#[command(override_usage = "pleach export [OPTIONS] [SESSION] <DIR|FILE>")]
pub struct ExportArgs {
    /// The session, or the beginning of its id; by default the newest.
    #[arg(id = "session", value_name = "SESSION")]
    first: Option<String>,
    /// The directory to write to; with --format the file, or - for standard output.
    #[arg(value_name = "DIR|FILE")]
    second: Option<String>,
    /// Write one file of this kind.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Leave out what the turns have changed.
    #[arg(long, requires = "format")]
    no_diffs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    /// Markdown, for people.
    Md,
    /// Its events, a JSON document on each line, with messages and patches.
    Jsonl,
    /// A page for browsers, without scripts and without anything they would load.
    Html,
}

pub fn run(globals: &Globals, args: ExportArgs) -> Result<Exit, Failure> {
    // A target alone comes first.
    let (session, target) = match (&args.first, &args.second) {
        (Some(session), Some(target)) => (Some(session.as_str()), Path::new(target)),
        (Some(target), None) | (None, Some(target)) => (None, Path::new(target)),
        (None, None) => {
            return Err(Failure::new(Code::CommandLine, "it is not said where to export to")
                .hint("name a directory, or with `--format` a file or - for standard output"));
        }
    };
    let is_stdout = args.format.is_some() && target.as_os_str() == "-";
    if globals.json && is_stdout {
        let message = "--json and an export to standard output cannot be used together";
        return Err(Failure::new(Code::OptionConflict, message).hint("leave --json out, or name a file"));
    }
    let ground = SessionGround::find(globals)?;
    let view = sessions::load(globals, &ground.place.repo, session)?;
    let Some(format) = args.format else { return to_directory(globals, &ground, &view, target) };
    let text = written(&ground, &view, format, !args.no_diffs)?;
    if is_stdout {
        Out::new().bytes(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    fs::write(globals.path(target), &text).map_err(|error| not_written(target, &error))?;
    let (mut out, run, file) = (Out::new(), &view.summary.run, target.display());
    if globals.json {
        let file = globals.path(target).display().to_string();
        out.json(&json!({"session": run.session, "run": run, "file": file, "bytes": text.len()}))?;
    } else {
        out.line(format!("exported session {run} to {file}"))?;
    }
    Ok(Exit::Done)
}

/// A session as the text of one file.
fn written(ground: &SessionGround, view: &View, format: FileFormat, has_diffs: bool) -> Result<String, Failure> {
    let repo = &ground.place.repo;
    let diffs = if has_diffs {
        let repos = ground.repos(&view.summary.started);
        Diffs::read(view, &repos, &ground.settings.redactor()).map_err(|error| of_git(&error))?
    } else {
        Diffs::default()
    };
    let story = || RunStory::read(view, repo, &diffs).map_err(|error| of_engine(&error));
    Ok(match format {
        FileFormat::Md => markdown(&story()?),
        FileFormat::Html => html(&story()?),
        FileFormat::Jsonl => {
            let line =
                |line| serde_json::to_string(&line).expect("events are structs with text keys, which always serialise");
            let lines = lines(view, repo, &diffs).map(|found| found.map(|found| line(found) + "\n"));
            lines.collect::<Result<String, _>>().map_err(|error| of_engine(&error))?
        }
    })
}

fn not_written(target: &Path, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Code::OutputMisplaced,
        _ => Code::OutputUnwritable,
    };
    Failure::new(code, format!("cannot write `{}`", target.display()))
        .because(error)
        .hint("give a file in a directory that exists and may be written to, or - for standard output")
}

fn to_directory(globals: &Globals, ground: &SessionGround, view: &View, target: &Path) -> Result<Exit, Failure> {
    let dir = globals.path(target);
    let written = view.export(&ground.place.repo, &dir).map_err(|error| failure(&error))?;
    let mut out = Out::new();
    if globals.json {
        let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        out.json(&json!({"session": view.summary.session, "run": view.summary.run, "dir": dir.display().to_string(), "files": files}))?;
    } else {
        out.line(format!(
            "exported {} of session {} to {}",
            counted(written.len(), "file"),
            view.summary.run,
            target.display()
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
