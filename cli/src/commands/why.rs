//! `pleach why`

mod card;
mod commit_text;
mod table;

use std::path::{Component, Path, PathBuf};

use clap::Args;
use git::Repo;
use history::why::{
    CommitWhy, FileStart, FileWhy, LineRange, StartFailure, WhyGround, WhyOptions, why_commit, why_file,
};
use pleach_core::ids::{CommitId, RepoPath, SessionId};
use pleach_core::text::listed;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_why};
use crate::place::Place;
use crate::render::{Out, Pages};
use crate::sessions::SessionGround;

/// Show the turn that wrote a line, its prompt and its reason.
///
/// git says which commit a line is of; from there it is followed to the turn that wrote it, also where a step, a landing, a
/// squash or an undo has copied it since. A file gives a table, with a line of it everything about that line, a commit what
/// it is and whose work is in it. Nothing is guessed: what leads to no turn is shown with its author, as git has it.
#[derive(Debug, Args)]
pub struct WhyLineArgs {
    /// A file, lines of one, or a commit.
    #[arg(value_name = "FILE[:LINE[-LINE]]|COMMIT")]
    what: String,
    /// The file as it is there, not as it is in the checkout.
    #[arg(long, value_name = "REV")]
    at: Option<String>,
    /// Changes of blanks do not count.
    #[arg(short = 'w', long)]
    ignore_blanks: bool,
    /// What each line was before, too, back to the first.
    #[arg(long)]
    history: bool,
    /// With --json: for a whole file, too, what the turns were asked and what they said.
    #[arg(long)]
    reasons: bool,
}

impl WhyLineArgs {
    /// For a line of a file in the checkout.
    pub fn of_line(what: &str) -> Self {
        Self { what: what.to_owned(), at: None, ignore_blanks: false, history: false, reasons: false }
    }
}

/// What is asked about.
enum Subject {
    File(PathBuf, Option<LineRange>),
    Commit(CommitId),
}

pub fn run(globals: &Globals, args: WhyLineArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let (repo, subject) = subject(globals, &ground, &args)?;
    let place = place_of(&ground, repo);
    let why = WhyGround::new(place.repo.clone(), place.name.clone(), ground.place.repo.clone());
    let (document, text, unread) = match subject {
        Subject::Commit(id) => {
            let found: CommitWhy = why_commit(&why, id, args.ignore_blanks).map_err(of_why)?;
            (json!(found), commit_text::text(&found, globals.verbosity > 0), found.unread)
        }
        Subject::File(file, lines) => {
            let start = start(&why, &args, &file)?;
            if let Some(lines) = lines {
                start.check_lines(lines).map_err(|error| of_start(&error))?;
            }
            let options = WhyOptions {
                lines,
                ignores_blanks: args.ignore_blanks,
                history: args.history,
                reasons: args.reasons || lines.is_some() || globals.verbosity > 0,
            };
            let found: FileWhy = why_file(&why, &start, &options).map_err(of_why)?;
            let text = match lines {
                Some(_) => card::text(&start, &found, globals.verbosity > 0),
                None => table::text(&start, &found),
            };
            (json!(found), text, found.unread)
        }
    };
    if globals.json {
        Out::new().json(&document)?;
    } else {
        Pages::new(globals)?.text(&text)?;
        say_unread(unread.keys(), unread.values().next());
    }
    Ok(Exit::Done)
}

/// What would say more.
fn say_unread<'a>(sessions: impl ExactSizeIterator<Item = &'a SessionId>, why: Option<&String>) {
    if let Some(why) = why {
        let named = if sessions.len() == 1 { "session" } else { "sessions" };
        say!(
            "{named} {}: {why}; `git fetch origin 'refs/pleach/*:refs/pleach/*'` brings what the remote has of it",
            listed(sessions, 3)
        );
    }
}

/// A file if there is one of that name, with or without lines; else a commit.
fn subject(globals: &Globals, ground: &SessionGround, args: &WhyLineArgs) -> Result<(Repo, Subject), Failure> {
    let whole = globals.path(Path::new(&args.what));
    let parts =
        args.what.rsplit_once(':').and_then(|(file, lines)| Some((globals.path(Path::new(file)), range(lines)?)));
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let file = match parts {
        _ if exists(&whole) => Some((whole.clone(), None)),
        Some((file, lines)) if exists(&file) || args.at.is_some() => Some((file, Some(lines))),
        _ => None,
    };
    if let Some((file, lines)) = file {
        return Ok((repo_around(globals, ground, &file)?, Subject::File(file, lines)));
    }
    if args.at.is_none() {
        let places = std::iter::once(ground.place.clone()).chain(ground.others());
        for Place { repo, .. } in places {
            if let Ok(id) = repo.resolve(&args.what) {
                return Ok((repo, Subject::Commit(id)));
            }
        }
    }
    let repo = repo_around(globals, ground, &whole)?;
    if args.at.is_some() || repo.is_bare() {
        let (file, lines) = match args.what.rsplit_once(':') {
            Some((file, lines)) if range(lines).is_some() => (globals.path(Path::new(file)), range(lines)),
            _ => (whole, None),
        };
        return Ok((repo, Subject::File(file, lines)));
    }
    Err(Failure::new(Code::NoSuchFile, format!("`{}` is neither a file nor a commit", args.what))
        .hint("name a file, FILE:LINE, or a commit; `--at REV` finds a file that the checkout does not have"))
}

/// `12`, `12-14`.
fn range(text: &str) -> Option<LineRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    Some(LineRange { first: number(first)?, last: number(last)? })
}

/// The repository a file lies in: its directory may be another than that pleach was started in.
fn repo_around(globals: &Globals, ground: &SessionGround, file: &Path) -> Result<Repo, Failure> {
    let dir = file.ancestors().find(|dir| dir.is_dir()).unwrap_or(&globals.dir);
    let found = git::discover(dir, &ground.settings.own_environment);
    found.map_err(|error| of_engine(&error.into()))
}

/// The repository with the name it has in the workspace.
fn place_of(ground: &SessionGround, repo: Repo) -> Place {
    let is_same = |place: &Place| place.repo.common_dir() == repo.common_dir();
    let known = std::iter::once(ground.place.clone()).chain(ground.others()).find(is_same);
    Place { repo, ..known.unwrap_or_else(|| ground.place.clone()) }
}

fn start(ground: &WhyGround, args: &WhyLineArgs, file: &Path) -> Result<FileStart, Failure> {
    let path = in_repo(&ground.code, file).ok_or_else(|| {
        Failure::new(Code::NoSuchFile, format!("`{}` is in no repository of the workspace", file.display()))
            .hint("name a file below the directory of a repository")
    })?;
    let rev = match &args.at {
        Some(rev) => Some(ground.code.resolve(rev).map_err(|error| of_git(&error))?),
        None if ground.code.is_bare() => Some(ground.code.resolve("HEAD").map_err(|error| of_git(&error))?),
        None => None,
    };
    let found = match rev {
        Some(rev) => FileStart::at(&ground.code, rev, path),
        None => FileStart::in_checkout(ground, file, path),
    };
    found.map_err(|error| of_start(&error))
}

/// The path of a file from the root of its repository. What of it exists is looked at without links.
fn in_repo(repo: &Repo, file: &Path) -> Option<RepoPath> {
    let root = match repo.workdir() {
        Some(dir) => dir.canonicalize().ok()?,
        None => repo.common_dir().canonicalize().ok()?,
    };
    let mut plain = PathBuf::new();
    for part in file.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    let (dir, rest) =
        plain.ancestors().skip(1).find_map(|dir| Some((dir.canonicalize().ok()?, plain.strip_prefix(dir).ok()?)))?;
    let place = dir.join(rest);
    let below = place.strip_prefix(root).ok()?.as_os_str().as_encoded_bytes();
    Some(RepoPath::new(below))
}

fn of_start(error: &StartFailure) -> Failure {
    let failure = |code, hint: &str| Failure::new(code, error.to_string()).hint(hint);
    match error {
        StartFailure::Git(error) => of_git(error),
        StartFailure::NotAFile { .. } | StartFailure::NoText { .. } => {
            failure(Code::FileUnfit, "name a text file; `git log -- PATH` lists the commits of anything else")
        }
        StartFailure::NotInCommit { .. } => {
            failure(Code::NoSuchFile, "`git log --all -- PATH` says where it is; `--at REV` looks there")
        }
        StartFailure::NoSuchLine { .. } => failure(Code::NoSuchLine, "lines are counted from 1, the first named first"),
        StartFailure::Unreadable { source, .. } => Failure::new(Code::DiskFailed, error.to_string()).because(source),
    }
}
