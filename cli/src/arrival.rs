//! A session that arrives from a remote: its records and repositories are brought here, so that it can continue.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use engine::view::Summary;
use git::Repo;
use git::record::History;
use git::remote::{self, BroughtRecords, CloneRequest, RemoteRecords, RemoteUrl};
use os::process::Cancel;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{CommitId, RepoName, RunId, SessionId};
use serde_json::{Value, json};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::place::{Place, Places};
use crate::remotes::{clone_missing, not_cloned};
use crate::runtime::until_signal;
use crate::settings::{self, PROJECT_FILES, Settings};
use crate::workspace_repos::remote_of;

/// Brings a session from the remote of its records: into the workspace that is here, or into a new one in this directory.
pub fn arrive(globals: &Globals, address: &str, given: &str) -> Result<SessionId, Failure> {
    let local = settings::load_for(globals, &globals.dir)?;
    let remote = RemoteUrl::new(address, &globals.dir).map_err(|why| {
        Failure::new(Code::RemoteInvalid, format!("`--remote` is not an address: {why}"))
            .hint("write it as `git clone` takes it: https://HOST/PATH, git@HOST:PATH, or a path")
    })?;
    let unreachable = |error: remote::RemoteError| {
        Failure::new(Code::CloneFailed, format!("cannot ask {remote} for sessions: {error}"))
            .hint("check the address, the network and your credentials")
    };
    let sessions = remote::remote_sessions(&remote, &local.own_environment, &Cancel::never()).map_err(unreachable)?;
    let id = named(&remote, &sessions, given)?;
    let records = &sessions[&id];
    let place = if is_empty(&globals.dir) {
        // Whatever lies around it is none of the session's.
        let clone = |cancel: &Cancel| clone_here(globals, &local, &remote, &id, records, cancel);
        let repo = until_signal(clone)?.inspect_err(|_| {
            // The next one removes it, too.
            let _ = std::fs::remove_dir_all(unnamed(globals, &id));
        })?;
        Place::find(&repo, None, &settings::load_for(globals, &globals.dir)?)?
    } else {
        let place = Place::find(&globals.dir, None, &local)
            .map_err(|failure| failure.hint("a session is brought into its workspace, or into an empty directory"))?;
        bring(&place.repo, &remote, &id, records, None, &Cancel::never())?;
        place
    };
    bring_others(globals, &place, &id)?;
    Ok(id)
}

/// The session an id, or the beginning of one, names.
fn named(remote: &RemoteUrl, known: &BTreeMap<SessionId, RemoteRecords>, given: &str) -> Result<SessionId, Failure> {
    let fitting: Vec<&SessionId> =
        known.keys().filter(|id| !given.is_empty() && id.as_str().starts_with(given)).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::new(Code::NoSuchSession, format!("{remote} has no records of a session `{given}`"))
            .hint("records are pushed with `push: on_checkpoint`, or when a session is done")),
        _ => Err(Failure::new(Code::SessionAmbiguous, format!("`{given}` is the beginning of several sessions"))
            .hint("give more of its id")),
    }
}

/// Whether a directory has nothing in it.
fn is_empty(dir: &Path) -> bool {
    dir.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}

/// How deep a session was cloned, as its record says.
struct RecordedDepth {
    /// So many commits of the repository of its records.
    clone: u32,
    /// So many commits have all its records.
    records: u32,
    /// The commit it was started from.
    base: Option<CommitId>,
}

/// How many records are looked at for that, at first and at last.
const RECORDS_LOOKED_AT: [u32; 2] = [64, 4096];

/// How deep a session was cloned: its records are looked at alone, before anything is cloned. None if it was cloned whole,
/// or nobody can tell.
fn recorded_depth(
    local: &Settings,
    remote: &RemoteUrl,
    id: &SessionId,
    records: &RemoteRecords,
    path: &Path,
    cancel: &Cancel,
) -> Option<RecordedDepth> {
    RECORDS_LOOKED_AT.into_iter().find_map(|depth| {
        let repo =
            remote::bring_records_apart(path, remote, id, records, depth, &local.own_environment, cancel).ok()?;
        let started = History::newest(&repo, id).ok()?.started;
        let name = started.record_repo();
        let clone = started.config.pointer(&format!("/workspace/repos/{name}/clone_depth")).and_then(Value::as_u64);
        Some(clone.map(|clone| RecordedDepth {
            clone: u32::try_from(clone).unwrap_or(u32::MAX),
            records: depth,
            base: started.base.get(name).copied(),
        }))
    })?
}

fn bring(
    repo: &Repo,
    remote: &RemoteUrl,
    id: &SessionId,
    records: &RemoteRecords,
    depth: Option<u32>,
    cancel: &Cancel,
) -> Result<(), Failure> {
    match remote::bring_records(repo, remote, id, records, depth, cancel) {
        Ok(BroughtRecords::Diverged) => Err(Failure::new(
            Code::ContinuedElsewhere,
            format!("session {id} was continued here and elsewhere: {remote} has records that are not from here"),
        )
        .hint("go on where it runs now, or start a new session from this one's branch")),
        Ok(BroughtRecords::Known | BroughtRecords::Brought) => Ok(()),
        Err(error) => {
            let failed = format!("cannot fetch session {id} from {remote}: {error}");
            Err(not_cloned(&error, failed, "check the network and your credentials"))
        }
    }
}

/// Where a repository is until its name is known, which is in its record.
fn unnamed(globals: &Globals, id: &SessionId) -> PathBuf {
    globals.dir.join(format!(".pleach-{id}"))
}

/// Clones the repository of the records to where it was in its workspace, and writes the settings of that where there are
/// none. Returns its path.
fn clone_here(
    globals: &Globals,
    local: &Settings,
    remote: &RemoteUrl,
    id: &SessionId,
    records: &RemoteRecords,
    cancel: &Cancel,
) -> Result<PathBuf, Failure> {
    let dir = &globals.dir;
    let io = |doing: &str, path: &Path, error: &std::io::Error| {
        Failure::new(Code::CloneFailed, format!("cannot {doing} `{}`", path.display())).because(error)
    };
    let unnamed = unnamed(globals, id);
    let remove = |path: &Path| {
        if path.exists() { std::fs::remove_dir_all(path).map_err(|error| io("remove", path, &error)) } else { Ok(()) }
    };
    remove(&unnamed)?;
    if globals.verbosity >= 0 && !globals.json {
        say!("cloning {remote}");
    }
    let depth = recorded_depth(local, remote, id, records, &unnamed, cancel);
    remove(&unnamed)?;
    let request = CloneRequest { remote, path: &unnamed, depth: depth.as_ref().map(|depth| depth.clone) };
    remote::clone(&request, &local.own_environment, cancel).map_err(|error| {
        not_cloned(
            &error,
            format!("cannot clone {remote}: {error}"),
            "check the address, the network and your credentials",
        )
    })?;
    let started = {
        let repo = git::discover(&unnamed, &local.own_environment).map_err(|error| of_git(&error))?;
        // Without the commit it was started from, all of its history would come with the records.
        let lacks_base = |depth: &RecordedDepth| depth.base.is_some_and(|base| repo.commit(base).is_err());
        let reach = depth.filter(lacks_base).map(|depth| depth.records.saturating_add(depth.clone));
        bring(&repo, remote, id, records, reach, cancel)?;
        History::newest(&repo, id).map_err(|error| of_engine(&error.into()))?.started
    };
    let name = started.record_repo();
    let place = dir.join(relative(&started, name));
    if place == *dir {
        for entry in unnamed.read_dir().map_err(|error| io("list", &unnamed, &error))?.flatten() {
            let to = dir.join(entry.file_name());
            std::fs::rename(entry.path(), &to).map_err(|error| io("move to", &to, &error))?;
        }
        std::fs::remove_dir(&unnamed).map_err(|error| io("remove", &unnamed, &error))?;
    } else {
        place.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| io("create", &place, &error))?;
        std::fs::rename(&unnamed, &place).map_err(|error| io("move to", &place, &error))?;
    }
    let has_settings = PROJECT_FILES.iter().any(|file| dir.join(file).exists());
    if !has_settings && let Some(text) = recorded_workspace(&started, remote) {
        let file = dir.join(PROJECT_FILES[0]);
        std::fs::write(&file, text).map_err(|error| io("write", &file, &error))?;
        if globals.verbosity >= 0 && !globals.json {
            say!("wrote {} with the workspace of session {}", PROJECT_FILES[0], id);
        }
    }
    Ok(place)
}

/// Where a repository was, from the directory of the project: as recorded, or its name.
fn relative(started: &PipelineStarted, name: &RepoName) -> PathBuf {
    let path = started.config.pointer(&format!("/workspace/repos/{name}/path")).and_then(Value::as_str);
    let is_inside = |path: &&Path| {
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) && !path.is_absolute()
    };
    let path = path.map(Path::new).filter(is_inside);
    let path = path.map_or_else(|| PathBuf::from(name.as_str()), Path::to_owned);
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// The recorded workspace as settings, with the remote the session came from; none if it had none.
fn recorded_workspace(started: &PipelineStarted, remote: &RemoteUrl) -> Option<String> {
    let mut workspace = started.config.get("workspace")?.clone();
    let repos = workspace.get_mut("repos")?.as_object_mut().filter(|repos| !repos.is_empty())?;
    for (name, repo) in repos.iter_mut() {
        let Ok(name) = name.parse::<RepoName>() else { continue };
        let path = relative(started, &name);
        let path = if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() };
        repo["path"] = json!(path);
        // A password stays out of files; git has it in the clone, which is pushed to then.
        if name == *started.record_repo() && remote.to_string() == remote.as_git() {
            repo["remote"] = json!(remote.as_git());
        }
    }
    let mut text = "# The workspace of a session that was resumed here.\n".to_owned();
    let mut sections = vec![("workspace", workspace)];
    sections.extend(started.config.get("record").map(|record| ("record", record.clone())));
    for (key, value) in sections {
        write_yaml(&mut text, key, &value, 0);
    }
    Some(text)
}

/// A setting as YAML. Whatever holds no other settings is written as JSON, which is YAML.
fn write_yaml(text: &mut String, key: &str, value: &Value, depth: usize) {
    let (indent, key) = ("  ".repeat(depth), json!(key));
    match value {
        Value::Null => {}
        Value::Object(map) if map.values().all(Value::is_null) => {}
        Value::Object(map) => {
            let _ = writeln!(text, "{indent}{key}:");
            map.iter().for_each(|(key, value)| write_yaml(text, key, value, depth + 1));
        }
        value => {
            let _ = writeln!(text, "{indent}{key}: {value}");
        }
    }
}

/// Brings the other repositories of a session, with the commits its records speak of.
fn bring_others(globals: &Globals, place: &Place, id: &SessionId) -> Result<(), Failure> {
    let started = History::newest(&place.repo, id).map_err(|error| of_engine(&error.into()))?.started;
    if !started.has_several_repos() {
        return Ok(());
    }
    let settings = settings::load_for(globals, &globals.dir)?;
    clone_missing(globals, &settings)?;
    let places = Places::of_session(place.clone(), &started, &settings)?;
    for other in &places.others {
        let Some(remote) = remote_of(&settings.resolved.config, &other.name)? else { continue };
        // Also those of its parallel branches, and those that were pushed beside.
        let own = started.branches.get(&other.name).map(|branch| format!("{branch}*"));
        remote::fetch(&other.repo, &other.name, &remote, own.as_deref(), &Cancel::never()).map_err(|error| {
            Failure::new(Code::CloneFailed, format!("cannot fetch `{}` from {remote}: {error}", other.name))
                .hint("check the network and your credentials")
        })?;
    }
    require_commits(&places, id)
}

/// Its newest record speaks of commits in all repositories; one may not have been pushed in time.
fn require_commits(places: &Places, id: &SessionId) -> Result<(), Failure> {
    let summary = Summary::newest(&places.record.repo, id).map_err(|error| of_engine(&error))?;
    for place in places.all() {
        let states = std::iter::once(&summary.state).chain(&summary.branches);
        for commit in states.filter_map(|state| state.work.get(&place.name)) {
            if place.repo.commit(*commit).is_err() {
                let message = format!("session {id} stands at {commit} in `{}`, which its remote lacks", place.name);
                return Err(Failure::new(Code::CommitMissing, message)
                    .hint("push the session's branch from the machine that has it, and resume again"));
            }
        }
    }
    Ok(())
}

/// Refuses to go on with a session that another machine has continued. A remote that cannot be asked refuses nothing.
pub fn refuse_continued(settings: &Settings, place: &Place, id: &RunId) -> Result<(), Failure> {
    let config = &settings.resolved.config;
    let pushes = config
        .workspace
        .repos
        .get(&place.name)
        .is_some_and(|repo| repo.push_policy() == pleach_core::config::PushPolicy::OnCheckpoint);
    let Some(remote) = remote_of(config, &place.name)?.filter(|_| pushes) else { return Ok(()) };
    let Ok(sessions) = remote::remote_sessions(&remote, &settings.own_environment, &Cancel::never()) else {
        return Ok(());
    };
    let Some(mut records) = sessions.get(&id.session).cloned() else { return Ok(()) };
    records.retain(|context, _| id.has(context));
    if remote::is_known(&place.repo, &id.session, &records).map_err(|error| of_git(&error))? {
        return Ok(());
    }
    let message = format!("another machine has continued session {id}: {remote} has records that are not from here");
    let address = pleach_core::text::shell_word(remote.to_string());
    Err(Failure::new(Code::ContinuedElsewhere, message).hint(format!(
        "go on there; once it has stopped, `pleach resume {id} --remote {address}` brings what it did and continues here"
    )))
}
