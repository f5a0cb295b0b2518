//! Progress of git between nodes: files that are checked out, scanned or restored.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use git::{FileOperation, FileProgress, Repo};
use pleach_core::config::Environment;
use pleach_core::text::counted;

use super::duration;
use crate::globals::Globals;

/// The delay before the first message.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval of messages.
const AGAIN: Duration = Duration::from_secs(5);

/// Shows progress of git's work over many files, unless output is quiet.
pub fn show_git_progress(globals: &Globals, repo: &Repo) {
    if globals.json || globals.verbosity < 0 {
        return;
    }
    let patience = quiet_time(&globals.environment);
    let said: Mutex<Option<Reported>> = Mutex::new(None);
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
        *said = Some(Reported { doing: progress.doing, begun, at });
    });
}

/// The last message.
#[derive(Debug, Clone, Copy)]
struct Reported {
    doing: FileOperation,
    begun: Instant,
    at: Instant,
}

/// The delay before the first message, shorter in tests. A repository cannot set it.
fn quiet_time(environment: &Environment) -> Duration {
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
