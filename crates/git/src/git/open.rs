//! Finding a repository and opening it: what git itself says about it, and a snapshot of its configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use gix::bstr::{BString, ByteSlice as _};
use gix::odb::store::init::Slots;

use super::connected_commits::ConnectedCommits;
use super::durability::Durability;
use super::error::{Error, LibraryContext as _, Unsupported};
use super::own_landings::OwnLandings;
use super::pack_index::PackIndexes;
use super::program::Program;
use super::promisor::Promisor;
use super::repo::Repo;
use super::repo_pool::RepoPool;
use super::shared::RepoShared;
use super::unpacked::Unpacked;
use pleach_core::config::Environment;
use pleach_core::text::shell_word;

/// How many packs a handle knows at most: what there is when it is made, and what fetching, packing and other runs add for
/// as long as it is held. The library cannot make room later, and does by itself with a few more than there were.
const PACKS: Slots = Slots::AsNeededByDiskState { multiplier: 2.0, minimum: 512 };

/// Opens the repository `dir` lies in: a checkout, any directory below it, a linked worktree, a bare repository.
pub fn discover(dir: &Path, environment: &Environment) -> Result<Repo, Error> {
    let program = Program::new(environment);
    if !dir.is_dir() {
        return Err(Error::NotARepository { path: dir.to_owned() });
    }
    let version = program.version(dir)?;
    let git_dir = git_dir(&program, dir)?;
    let entries = config_entries(&program, dir, &git_dir)?;
    if let Some(feature) = unsupported(&entries) {
        return Err(Error::Unsupported { path: dir.to_owned(), feature });
    }
    let mut config = snapshot(&entries, environment);
    config.shrink_to_fit();
    let mut handle = open_with(&git_dir, config.clone())?;
    if entries.iter().any(|(key, _)| key == "core.worktree") || is_separate_git_dir(&git_dir) {
        handle = with_files(&program, dir, handle)?;
    }
    let common_dir = handle.to_thread_local().common_dir().to_owned();
    // The library may give it as `…/.git/worktrees/x/../..`.
    let common_dir = common_dir.canonicalize().unwrap_or(common_dir);
    let trusted = [Some(common_dir.clone()), Some(git_dir), handle.work_dir().map(Path::to_owned)];
    let program = program.trusting(trusted.into_iter().flatten());
    let (pool, patience) = (RepoPool::new(handle), program.patience());
    let shared = RepoShared {
        promisor: Promisor::new(&entries, &program, &common_dir, &pool),
        common_dir,
        pool,
        program,
        version,
        config,
        is_bare: Mutex::default(),
        whole: ConnectedCommits::default(),
        unpacked: Unpacked::default(),
        packs: PackIndexes::default(),
        listening: Mutex::default(),
        own_landings: OwnLandings::default(),
        is_trusted: OnceLock::new(),
        patience,
        deepening: OnceLock::new(),
    };
    let local = Repo { shared: Arc::new(shared), durability: Durability::Fsync };
    match unsupported_head(&local)? {
        None => Ok(local),
        Some(feature) => Err(Error::Unsupported { path: dir.to_owned(), feature }),
    }
}

/// What nothing can be built on.
fn unsupported_head(repo: &Repo) -> Result<Option<Unsupported>, Error> {
    let local = repo.local();
    let head = local.head().doing("read HEAD")?;
    if head.id().is_some() {
        return Ok(None);
    }
    let unborn = head.referent_name().map(|branch| branch.shorten().to_string());
    let stands_for = head.try_into_referent().and_then(|branch| {
        let to = branch.target().try_name()?.shorten().to_string();
        Some(Unsupported::SymbolicBranch { branch: branch.name().shorten().to_string(), to })
    });
    if stands_for.is_some() {
        return Ok(stands_for);
    }
    let beside = unborn.zip(suggest_branch(repo)?);
    let beside = beside.map(|(branch, switch)| Unsupported::UnbornBranch { branch, switch });
    Ok(Some(beside.unwrap_or(Unsupported::UnbornHead)))
}

/// The command by which HEAD comes to name a branch that is there. None where nothing is.
fn suggest_branch(repo: &Repo) -> Result<Option<String>, Error> {
    let name_of = |full: &str| full.strip_prefix("refs/heads/").map(str::to_owned);
    let mut names: Vec<String> =
        repo.refs().list("refs/heads/")?.iter().filter_map(|(name, _)| name_of(name)).collect();
    if names.is_empty() && !repo.is_bare() {
        // git makes a branch of one that was fetched. What else is fetched may lead nowhere, and is no way out then.
        let fetched = repo.refs().list("refs/remotes/").unwrap_or_default();
        let name_of = |full: &str| full.strip_prefix("refs/remotes/")?.split_once('/').map(|(_, name)| name.to_owned());
        names = fetched.iter().filter_map(|(name, _)| name_of(name)).filter(|name| name != "HEAD").collect();
    }
    // Most likely it is one of these; the branches of tasks have longer names.
    let unlikely = |name: &String| (name != "main", name != "master", name.contains('/'));
    Ok(names.into_iter().min_by_key(unlikely).map(|name| {
        if repo.is_bare() {
            format!("git symbolic-ref HEAD {}", shell_word(format_args!("refs/heads/{name}")))
        } else {
            format!("git switch {}", shell_word(name))
        }
    }))
}

/// Opens a handle on a git directory with the given configuration instead of the one on disk.
pub(super) fn open_with(git_dir: &Path, config: Vec<BString>) -> Result<gix::ThreadSafeRepository, Error> {
    gix::open::Options::isolated()
        // git has looked at the owner already, with the user's `safe.directory`.
        .with(gix::sec::Trust::Full)
        .filter_config_section(is_snapshot)
        .config_overrides(config)
        .open_path_as_is(true)
        .object_store_slots(PACKS)
        .open(git_dir)
        .doing("open the repository")
}

/// Only the snapshot may name programs to run (filters) and files to read (excludes).
fn is_snapshot(section: &gix::config::file::Metadata) -> bool {
    matches!(section.source, gix::config::Source::Api)
}

fn git_dir(program: &Program, dir: &Path) -> Result<PathBuf, Error> {
    let found = program.run(dir, ["rev-parse", "--path-format=absolute", "--git-dir"])?;
    match found.code {
        Some(0) => {
            let mut path = found.stdout;
            path.pop();
            Ok(PathBuf::from(std::ffi::OsString::from_vec(path)))
        }
        _ if found.stderr.contains("not a git repository") => Err(Error::NotARepository { path: dir.to_owned() }),
        _ => Err(Error::Refused { path: dir.to_owned(), detail: found.stderr }),
    }
}

/// Whether the place of a git directory does not tell where the files are: in a submodule, or made that way.
fn is_separate_git_dir(git_dir: &Path) -> bool {
    git_dir.file_name() != Some(OsStr::new(".git")) && !git_dir.join("commondir").exists()
}

/// The handle with the directory git finds its files in; a bare repository has none, and git says so by failing.
fn with_files(
    program: &Program,
    dir: &Path,
    handle: gix::ThreadSafeRepository,
) -> Result<gix::ThreadSafeRepository, Error> {
    let top = program.run(dir, ["rev-parse", "--show-toplevel"])?;
    let (Some(0), Some(path)) = (top.code, top.stdout.strip_suffix(b"\n")) else { return Ok(handle) };
    let mut repo = handle.to_thread_local();
    repo.set_workdir(Path::new(OsStr::from_bytes(path)).to_owned()).doing("open the checkout")?;
    Ok(repo.into_sync())
}

pub(super) type ConfigEntry = (String, BString);

/// All settings that hold in the repository, in order, as git reads them: includes and conditions resolved.
pub(super) fn config_entries(program: &Program, dir: &Path, git_dir: &Path) -> Result<Vec<ConfigEntry>, Error> {
    let git_dir = [OsStr::new("--git-dir="), git_dir.as_os_str()].map(|part| part.as_bytes()).concat();
    let list = program
        .run(dir, [OsStr::from_bytes(&git_dir), "config".as_ref(), "--list".as_ref(), "-z".as_ref()])?
        .success()?;
    Ok(parse_config(&list))
}

/// `key NEWLINE value NUL …`; a key without a value is a switch that is on.
fn parse_config(list: &[u8]) -> Vec<ConfigEntry> {
    list.split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .filter_map(|entry| {
            let (key, value) = entry.split_once_str(b"\n").unwrap_or((entry, b"true"));
            // The first and last part of a key are lower case already; a section's own name may hold anything.
            Some((String::from_utf8(key.to_vec()).ok()?, BString::from(value)))
        })
        .collect()
}

/// The last value of a key, which is the one that holds.
fn last<'a>(entries: &'a [ConfigEntry], key: &str) -> Option<&'a BString> {
    entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn unsupported(entries: &[ConfigEntry]) -> Option<Unsupported> {
    let is = |key: &str, value: &str| last(entries, key).is_some_and(|v| v.eq_ignore_ascii_case(value.as_bytes()));
    if is("extensions.refstorage", "reftable") {
        Some(Unsupported::Reftable)
    } else if is("extensions.objectformat", "sha256") {
        Some(Unsupported::Sha256)
    } else {
        None
    }
}

/// The settings that decide how files become objects and which are ignored.
fn snapshot(entries: &[ConfigEntry], environment: &Environment) -> Vec<BString> {
    // Where the repository is and what kind of repository it is comes from its own files.
    const NOT_TAKEN: [&str; 3] = ["core.worktree", "core.bare", "core.repositoryformatversion"];
    let taken = |key: &str| {
        (key.starts_with("core.") && !NOT_TAKEN.contains(&key)) || key.starts_with("filter.") && !key.contains('=')
    };
    let pair = |key: &str, value: &[u8]| BString::from([key.as_bytes(), b"=", value].concat());
    let home = environment.get("HOME").filter(|home| !home.is_empty());
    let mut config: Vec<BString> = entries
        .iter()
        .filter(|(key, _)| taken(key))
        .map(|(key, value)| match (value.strip_prefix(b"~/"), home) {
            (Some(rest), Some(home)) if key.ends_with("file") => pair(key, &[home.as_bytes(), b"/", rest].concat()),
            _ => pair(key, value),
        })
        .collect();
    let user = match environment.get("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => Some(format!("{dir}/git")),
        None => home.map(|home| format!("{home}/.config/git")),
    };
    for (key, file) in [("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")] {
        if let (None, Some(user)) = (last(entries, key), &user) {
            config.push(pair(key, format!("{user}/{file}").as_bytes()));
        }
    }
    // A file whose line ends do not survive a round trip must still be committed, and stats are compared whole.
    config.push("core.safecrlf=false".into());
    config.push("gitoxide.core.useNsec=true".into());
    // What an id says is what counts, not what the user has git show in its place.
    config.push("core.useReplaceRefs=false".into());
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<ConfigEntry> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), BString::from(*value))).collect()
    }

    #[test]
    fn lists_of_settings_are_read() {
        let list = b"core.bare\nfalse\0filter.a b.clean\nx = 'y'\nz\0core.flag\0";
        let expected = entries(&[("core.bare", "false"), ("filter.a b.clean", "x = 'y'\nz"), ("core.flag", "true")]);
        assert_eq!(parse_config(list), expected);
    }

    #[test]
    fn formats_that_are_not_supported_are_told_apart() {
        let with_setting = |key: &str, value: &str| unsupported(&entries(&[("core.bare", "false"), (key, value)]));
        assert_eq!(with_setting("extensions.refstorage", "reftable"), Some(Unsupported::Reftable));
        assert_eq!(with_setting("extensions.objectformat", "sha256"), Some(Unsupported::Sha256));
        assert_eq!(with_setting("extensions.objectformat", "sha1"), None);
        assert_eq!(with_setting("remote.origin.promisor", "true"), None);
    }

    #[test]
    fn the_snapshot_takes_what_decides_about_files() {
        let environment = Environment::from_pairs([("HOME", "/home/me")]);
        let config = snapshot(
            &entries(&[
                ("core.bare", "true"),
                ("core.autocrlf", "input"),
                ("user.name", "Me"),
                ("filter.lfs.clean", "git-lfs clean -- %f"),
                ("core.excludesfile", "~/.ignored"),
            ]),
            &environment,
        );
        let text: Vec<_> = config.iter().map(|entry| entry.to_string()).collect();
        assert_eq!(
            text,
            [
                "core.autocrlf=input",
                "filter.lfs.clean=git-lfs clean -- %f",
                "core.excludesfile=/home/me/.ignored",
                "core.attributesfile=/home/me/.config/git/attributes",
                "core.safecrlf=false",
                "gitoxide.core.useNsec=true",
                "core.useReplaceRefs=false",
            ]
        );
    }
}
