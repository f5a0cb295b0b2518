//! `pleach forecast`

use clap::Args;
use engine::landing::{ForecastPair, forecast};
use pleach_core::ids::{BranchName, RepoPath};
use pleach_core::text::listed;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_queue;
use crate::place::Place;
use crate::render::style::{BAD, paint};
use crate::render::{Out, Table};
use crate::settings;

/// Number of files a line names.
const NAMED: usize = 5;

/// Show which open branches will conflict when they are merged.
///
/// All branches of pleach's, and all in the merge queue, are compared with each other and with the branch they go to, while
/// agents still work on them.
#[derive(Debug, Args)]
pub struct ForecastArgs {
    /// The branch they go to; by default `merge.target`, or the one that is checked out.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
}

pub fn run(globals: &Globals, args: ForecastArgs) -> Result<Exit, Failure> {
    let settings = settings::load_for(globals, &globals.dir)?;
    let place = Place::find(&globals.dir, None, &settings)?;
    let target = match args.into.or_else(|| settings.resolved.config.merge.target.clone()) {
        Some(target) => target,
        None => crate::place::target(&place)?,
    };
    let forecast = forecast(&place.repo, &place.branch_prefix, &target).map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"target": target, "branches": forecast.branches, "pairs": forecast.pairs}))?;
        return Ok(Exit::Done);
    }
    if forecast.pairs.is_empty() {
        let open = pleach_core::text::counted(forecast.branches.len() as u64, "open branch");
        out.line(format!("{open}; none changes what another or `{target}` has changed"))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["branch", "with", "expected", "files"]).text(0).text(1).text(3);
    for ForecastPair { one, other, overlap, conflicts } in &forecast.pairs {
        let files = |paths: &[RepoPath]| listed(paths, NAMED);
        let (word, files) = if conflicts.is_empty() {
            ("clean".to_owned(), files(overlap))
        } else {
            (paint(BAD, "conflict"), files(conflicts))
        };
        table.row([one.to_string(), other.to_string(), word, files]);
    }
    out.line(table.shown())?;
    Ok(Exit::Done)
}
