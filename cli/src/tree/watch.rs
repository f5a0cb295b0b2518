//! Showing a status again whenever something changes.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use engine::tree::Stamp;
use engine::tree::ad_hoc::TASKS;
use git::Repo;
use git::record::SESSIONS;
use git::workspace::Lock;
use pleach_core::ids::{BranchName, CommitId};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_git;
use crate::render::{Out, Pages};

/// How often the refs are checked.
const POLL: Duration = Duration::from_millis(500);

/// Takes the screen and starts at its top.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// The page to show, and what it depends on besides the refs.
#[derive(Debug, Default)]
pub struct StatusPage {
    /// For people.
    pub text: String,
    /// For programs.
    pub document: Value,
    /// The locks of what runs.
    pub locks: Vec<String>,
    /// The files it was made of.
    pub files: Vec<PathBuf>,
    /// Some tree could not be shown, for it is not valid.
    pub invalid: bool,
}

impl StatusPage {
    /// Shows it once.
    pub fn print(&self, globals: &Globals) -> Result<(), Failure> {
        let mut out = Out::new();
        if globals.json { out.json(&self.document) } else { out.text(&self.text) }
    }

    /// Its other dependencies: running processes and files.
    fn beside(&self, repo: &Repo) -> (Vec<bool>, Vec<Option<Stamp>>) {
        let common = repo.common_dir();
        let held = self.locks.iter().map(|lock| Lock::is_held(common, lock)).collect();
        (held, self.files.iter().map(|file| Stamp::of(file)).collect())
    }
}

/// All branches and records, and which branch is checked out.
type Refs = (Vec<(String, CommitId)>, Option<BranchName>);

fn refs(repo: &Repo) -> Result<Refs, Failure> {
    let failed = |error: git::Error| of_git(&error);
    let mut refs = repo.refs().list("refs/heads/").map_err(failed)?;
    refs.extend(repo.refs().list(SESSIONS).map_err(failed)?);
    refs.extend(repo.refs().list(TASKS).map_err(failed)?);
    Ok((refs, repo.head().ok().and_then(|head| head.branch)))
}

/// Shows what `look` sees, and again whenever it may have changed, until what was running has ended or Ctrl-C comes. When
/// nothing runs at first, something is waited for.
pub fn watch(
    globals: &Globals,
    repo: &Repo,
    look: &mut dyn FnMut() -> Result<StatusPage, Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Code::RuntimeUnavailable, "cannot start the runtime").because(&error))?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())
            .map_err(|error| Failure::new(Code::RuntimeUnavailable, "cannot listen for signals").because(&error))?;
        let is_dumb = globals.environment.get("TERM") == Some("dumb");
        let live = !globals.json && std::io::stdout().is_terminal() && !is_dumb;
        let mut ran = false;
        let (mut shown, mut lines) = (String::new(), Pages::without_pager());
        loop {
            let before = refs(repo)?;
            let page = look()?;
            // What changed may not be anything that is shown.
            let now = if globals.json { page.document.to_string() } else { page.text.clone() };
            if now != shown {
                if live {
                    Out::new().bytes(CLEAR)?;
                } else if !shown.is_empty() && !globals.json {
                    Out::new().text("\n")?;
                }
                lines.line(now.trim_end())?;
                shown = now;
            }
            if ran && page.locks.is_empty() {
                return Ok(());
            }
            ran |= !page.locks.is_empty();
            let beside = page.beside(repo);
            loop {
                tokio::select! {
                    _ = interrupt.recv() => return Ok(()),
                    () = tokio::time::sleep(POLL) => {}
                }
                if page.beside(repo) != beside || refs(repo)? != before {
                    break;
                }
            }
        }
    })
}
