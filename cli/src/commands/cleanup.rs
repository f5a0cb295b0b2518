//! `pleach cleanup`

mod cleaner;
mod item;
mod remote_refs;
mod report;
mod session;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use pleach_core::clock;
use pleach_core::ids::RepoName;
use pleach_core::plan::dot::read_duration;

use self::cleaner::Cleaner;
use self::remote_refs::RemoteRefs;
use self::report::Report;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::place::Places;
use crate::sessions::SessionGround;

/// Remove what is old and needed no more.
///
/// In every repository of the workspace, sessions that have ended go with their branches, records, worktrees and agents' directories; so do branches of landed and
/// cancelled tasks and of merged phases, idle worktrees, and what killed runs have left. Commits that no other branch has,
/// and uncommitted files, are kept under refs/pleach/keep/ first.
///
/// Sessions that run, are paused or can be resumed after a crash stay at any age; so do tasks that have not landed, open
/// entries of the merge queue, phases that are not merged, and worktrees locked with `git worktree lock`. Everything that is removed is
/// listed, and so are old things that stay.
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// Only things that were not used for this long: a number of days, or 30d, 12h. 0 means everything that has ended.
    #[arg(long, value_name = "AGE", default_value = "7", value_parser = age)]
    older_than: Duration,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also remove the branches and records of removed sessions from the remotes. A failure there is a warning.
    #[arg(long)]
    remote: bool,
    /// Also remove work that was kept under refs/pleach/keep/ that long ago, unless an unfinished session may need it.
    #[arg(long)]
    purge: bool,
}

/// `30` days, `30d`, `12h`.
fn age(text: &str) -> Result<Duration, &'static str> {
    let days = text.parse::<u64>().ok().and_then(|days| days.checked_mul(86_400)).map(Duration::from_secs);
    days.or_else(|| read_duration(text)).ok_or("write a number of days, or a number and d, h, m or s, such as 12h")
}

/// The time before which something was used last that is old.
fn limit(age: Duration) -> Timestamp {
    // A clock that was wrong has left times to come.
    if age.is_zero() { Timestamp::MAX } else { clock::now().checked_sub(age).unwrap_or(Timestamp::MIN) }
}

pub fn run(globals: &Globals, args: CleanupArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let workspace = Places { record: ground.place.clone(), others: ground.others() };
    let known: BTreeSet<&RepoName> = workspace.all().map(|place| &place.name).collect();
    for name in ground.settings.resolved.config.workspace.repos.keys().filter(|name| !known.contains(name)) {
        warning!(RepoUnavailable, "the repository `{name}` is left out: it is not there");
    }
    let report = Report::new(globals.json, args.dry_run, workspace.others.is_empty());
    let before = limit(args.older_than);
    let mut cleaner = Cleaner {
        ground: &ground,
        workspace: &workspace,
        dry_run: args.dry_run,
        with_remotes: args.remote,
        before,
        report,
    };
    let purged = if args.purge { cleaner.old_keeps()? } else { Vec::new() };
    let mut remote = RemoteRefs::new(&ground.settings, &workspace);
    for place in workspace.all() {
        cleaner.orphans(place)?;
        cleaner.worktrees(place)?;
    }
    for place in workspace.all() {
        cleaner.sessions(place, &mut remote)?;
    }
    for place in workspace.all() {
        cleaner.branches(place)?;
    }
    cleaner.purge(purged)?;
    remote.delete(&mut cleaner.report)?;
    cleaner.report.end(args.older_than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_days_unless_it_says_otherwise() {
        assert_eq!(age("7"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(age("0"), Ok(Duration::ZERO));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert_eq!(age("30d"), age("30"));
        assert!(age("soon").is_err() && age("").is_err() && age("-1").is_err());
        assert_eq!(limit(Duration::ZERO), Timestamp::MAX);
        assert!(limit(Duration::from_secs(60)) < clock::now());
        assert_eq!(limit(Duration::MAX), Timestamp::MIN);
    }
}
