//! The CXDB server records are copied to: only one that may be spoken to, and what it could not do in words.

use engine::mirror::{MirrorError, find_session};
use engine::trust::for_mirror;
use git::Repo;
use git::record::History;
use git::remote;
use os::process::Cancel;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{RunId, SessionId};
use pleach_core::text::counted;

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_lock, of_record};
use crate::place::Place;
use crate::remotes::approved_remote;
use crate::runtime::single;
use crate::settings::Settings;
use crate::trust::{TerminalTruster, is_approved};

/// The mirror of the settings, once the user has approved it; a failure where there is none.
pub fn approved_mirror(globals: &Globals, settings: &Settings, place: &Place) -> Result<MirrorAddress, Failure> {
    let address = settings.resolved.config.record.cxdb.clone().ok_or_else(|| {
        Failure::new(Code::NoMirror, "no CXDB server is set").hint("set `record.cxdb: HOST:PORT` in pleach.yaml")
    })?;
    let items = for_mirror(&settings.resolved, &settings.environment);
    TerminalTruster::of(globals, settings, place.repo.common_dir()).require(items)?;
    Ok(address)
}

/// The mirror that needs no approval any more.
pub fn known_mirror(settings: &Settings, record: &Repo) -> Result<Option<MirrorAddress>, Failure> {
    let Some(address) = settings.resolved.config.record.cxdb.clone() else { return Ok(None) };
    let items = for_mirror(&settings.resolved, &settings.environment);
    Ok(is_approved(settings, record.common_dir(), items)?.then_some(address))
}

/// A failure of a mirror, or of what was to be copied.
pub fn of_mirror(error: &MirrorError) -> Failure {
    match error {
        MirrorError::Records(error) => of_record(error),
        MirrorError::Git(error) => of_git(error),
        MirrorError::Locked(error) => of_lock(error).hint("the run copies its records itself; wait until it ends"),
        MirrorError::Record { .. } => Failure::new(Code::RecordDamaged, error.to_string()),
        MirrorError::Http { .. } => Failure::new(Code::MirrorUnreachable, error.to_string())
            .hint("where its HTTP port is not the next one, write `record.cxdb: HOST:PORT,http=PORT`"),
        _ => Failure::new(Code::MirrorUnreachable, error.to_string())
            .hint("check that CXDB runs there, and `record.cxdb`; nothing is lost: the records are in git"),
    }
}

/// Brings a session that is not here from the mirror, if there is one that has it.
pub fn bring_from_mirror(globals: &Globals, settings: &Settings, place: &Place, given: &str) -> Result<(), Failure> {
    let Ok(RunId { session, .. }) = given.parse::<RunId>() else { return Ok(()) };
    let is_here = !History::runs(&place.repo, &session).map_err(|error| of_record(&error))?.is_empty();
    if is_here || settings.resolved.config.record.cxdb.is_none() {
        return Ok(());
    }
    let address = approved_mirror(globals, settings, place)?;
    let found = single()?.block_on(find_session(&place.repo, &address, &session)).map_err(|error| {
        let failure = of_mirror(&error);
        let message = format!("there is no session `{session}` in this repository: {}", failure.message);
        Failure { message, ..failure }
            .hint("check its id, and that CXDB runs there; `pleach status` lists the sessions that are here")
    })?;
    let Some(found) = found else {
        return Err(missing(&session, &address));
    };
    let mut tips = found.tips(&place.repo);
    if tips.lacks.is_some()
        && let Some(remote) = approved_remote(globals, settings, place)?
    {
        // What they speak of is on the session's branch.
        let fetched = remote::fetch(&place.repo, &place.name, &remote, None, &Cancel::never());
        fetched.map_err(|error| {
            Failure::new(Code::CloneFailed, format!("cannot fetch `{}` from {remote}: {error}", place.name))
                .hint("check the network and your credentials")
        })?;
        tips = found.tips(&place.repo);
    }
    if let Some(lacks) = tips.lacks.filter(|_| tips.is_empty()) {
        let message = format!("session {session} is at CXDB, but commit {lacks} that it speaks of is not here");
        return Err(Failure::new(Code::CommitMissing, message)
            .hint("push the session's branch from the machine that has it, and resume again"));
    }
    found.write(&place.repo, &tips).map_err(|error| of_mirror(&error))?;
    if globals.verbosity >= 0 && !globals.json {
        say!("session {session} was brought from CXDB at {}: {}", address.server(), counted(tips.records, "record"));
    }
    if let Some(lacks) = tips.lacks {
        warning!(
            CommitsLost,
            "{} of session {session} at CXDB speak of commits that are not here, such as {}; it goes on before them",
            counted(tips.left, "record"),
            lacks.short()
        );
    }
    Ok(())
}

fn missing(session: &SessionId, address: &MirrorAddress) -> Failure {
    let message =
        format!("there is no session `{session}` in this repository, and none at CXDB at {}", address.server());
    Failure::new(Code::NoSuchSession, message).hint(
        "`pleach status` lists those that are here; `git fetch origin 'refs/pleach/*:refs/pleach/*'` brings the records of \
         others",
    )
}
