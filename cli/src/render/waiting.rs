//! What is waited for before and between the nodes: files that are checked out, looked at or brought back.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pleach::config::Environment;
use pleach::git::{FileOperation, FileProgress, Repo};
use pleach::text::counted;

use super::duration;
use crate::globals::Globals;

/// How long nothing is said.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is said again.
const AGAIN: Duration = Duration::from_secs(5);

/// Lets work over many files in a repository be told of, unless nobody is to be told of anything.
pub fn show_waiting(globals: &Globals, repo: &Repo) {
    if globals.json || globals.verbosity < 0 {
        return;
    }
    let patience = patience(&globals.environment);
    let said: Mutex<Option<Said>> = Mutex::new(None);
    repo.on_progress(patience, move |progress| {
        let now = Instant::now();
        let mut said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = said.take_if(|said| said.doing == progress.doing);
        let begun = before.map_or(now - patience, |said| said.begun);
        if progress.is_over {
            say!("{}", over(progress, now - begun));
            return;
        }
        let is_due = before.is_none_or(|said| now - said.at >= AGAIN);
        if is_due {
            say!("{}", so_far(progress));
        }
        let at = before.filter(|_| !is_due).map_or(now, |said| said.at);
        *said = Some(Said { doing: progress.doing, begun, at });
    });
}

/// What was said last.
#[derive(Debug, Clone, Copy)]
struct Said {
    doing: FileOperation,
    begun: Instant,
    at: Instant,
}

/// How long nothing is said, or less for tests. A repository has no say in it.
fn patience(environment: &Environment) -> Duration {
    let given = environment.get("PLEACH_PATIENCE_MS").and_then(|text| text.parse().ok());
    given.map_or(PATIENCE, Duration::from_millis)
}

fn so_far(progress: FileProgress) -> String {
    let doing = match progress.doing {
        FileOperation::CheckOut => "checking out files",
        FileOperation::Scan => "looking for changed files",
        FileOperation::Restore => "restoring files",
    };
    match progress.of {
        0 => format!("{doing} …"),
        of => format!("{doing}: {} of {of}", progress.files),
    }
}

fn over(progress: FileProgress, took: Duration) -> String {
    let done = match progress.doing {
        FileOperation::CheckOut => "checked out",
        FileOperation::Scan => "looked at",
        FileOperation::Restore => "restored",
    };
    format!("{done} {} in {}", counted(progress.files, "file"), duration(took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted() {
        let progress = FileProgress { doing: FileOperation::CheckOut, files: 12, of: 3_400, is_over: false };
        assert_eq!(so_far(progress), "checking out files: 12 of 3400");
        assert_eq!(so_far(FileProgress { of: 0, ..progress }), "checking out files …");
        assert_eq!(over(progress, Duration::from_secs(3)), "checked out 12 files in 3.0s");
    }
}
