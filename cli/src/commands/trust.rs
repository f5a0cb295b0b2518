//! `pleach trust`

use clap::Args;
use pleach_core::text::{counted, first_line, visible};
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::{Out, Table};
use crate::settings;
use crate::trust::{Approval, Store, short};

/// List what you have approved of repositories, and revoke it.
///
/// What needs approval are commands that repositories supply, and settings of theirs that touch your keys. `run`, `resume`,
/// `garden`, `gardener`, `task start` and `build` ask before they use any of it for the first time. An approval holds for one
/// repository and one exact text; when the text changes you are asked again. The answer `a` approves every command of a
/// repository from now on, and is listed as `everything`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Revoke these approvals, by the beginning of their key.
    #[arg(long, value_name = "KEY", num_args = 0..)]
    revoke: Option<Vec<String>>,
    /// Revoke all approvals.
    #[arg(long, requires = "revoke")]
    all: bool,
}

pub fn run(globals: &Globals, args: TrustArgs) -> Result<Exit, Failure> {
    let store = Store::new(&settings::state_dir(&globals.environment)?);
    let Some(keys) = args.revoke else {
        return list(globals, &store.list()?).map(|()| Exit::Done);
    };
    if keys.is_empty() != args.all {
        return Err(Failure::new(Code::CommandLine, "name the approvals to revoke")
            .hint("`pleach trust --revoke KEY`, or `pleach trust --revoke --all`"));
    }
    let chosen = keys.iter().map(|key| pick(&store, key)).collect::<Result<Vec<_>, _>>()?;
    let revoked = store.revoke(|agreement| args.all || chosen.contains(agreement))?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"revoked": revoked}))?;
    } else if revoked.is_empty() {
        out.line("Nothing to revoke.")?;
    }
    for agreement in revoked.iter().filter(|_| !globals.json) {
        out.line(format!("Revoked: {} {}", short(&agreement.key), headline(agreement)))?;
    }
    Ok(Exit::Done)
}

fn list(globals: &Globals, agreements: &[Approval]) -> Result<(), Failure> {
    let mut out = Out::new();
    if globals.json {
        return out.json(&json!({"trusted": agreements}));
    }
    if agreements.is_empty() {
        return out.line("You have approved nothing yet.");
    }
    let mut table = Table::new(["key", "repository", "kind", "from", "text"]).path(1).text(3).text(4).less([3]);
    for agreement in agreements {
        table.row([
            short(&agreement.key),
            visible(&agreement.repo),
            agreement.kind.clone(),
            visible(&agreement.where_from),
            headline(agreement),
        ]);
    }
    out.line(table.shown())
}

fn headline(agreement: &Approval) -> String {
    let first = visible(first_line(&agreement.text));
    if agreement.text.trim().lines().nth(1).is_some() { format!("{first} …") } else { first }
}

/// The one approval a key stands for.
fn pick(store: &Store, key: &str) -> Result<Approval, Failure> {
    let mut found: Vec<Approval> =
        store.list()?.into_iter().filter(|agreement| !key.is_empty() && agreement.key.starts_with(key)).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (Some(_), more) => {
            Err(Failure::new(Code::NoSuchAgreement, format!("{} begin with `{key}`", counted(more + 1, "approval")))
                .hint("give more digits; `pleach trust --json` shows whole keys and repositories"))
        }
        (None, _) => Err(Failure::new(Code::NoSuchAgreement, format!("no approval begins with `{key}`"))
            .hint("`pleach trust` lists them")),
    }
}
