//! The caches of package managers, shared by all projects of a user. Only caches: anything that is run from there or
//! changes what is run, such as programs and settings, is excluded. So are caches whose files are hard-linked into
//! installations, because writing to them would write there.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pleach_core::config::Environment;

/// A directory given by a variable or by its location below the home directory, and which parts of it are caches.
struct SharedCache {
    /// The variables that name the directory; the first one that is set wins.
    variables: &'static [&'static str],
    /// Its default location.
    default: CacheLocation,
    /// The writable parts; all if empty.
    parts: &'static [&'static str],
}

enum CacheLocation {
    Home(&'static str),
    Cache(&'static str),
    Data(&'static str),
    State(&'static str),
}

use self::CacheLocation::{Cache, Data, Home, State};

const fn kept(
    variables: &'static [&'static str],
    default: CacheLocation,
    parts: &'static [&'static str],
) -> SharedCache {
    SharedCache { variables, default, parts }
}

/// Caches hard-linked into installations. Commands get their own: the variable, the location of the user's cache, and a
/// name.
const LINKED: [(&str, CacheLocation, &str); 3] = [
    ("BUN_INSTALL_CACHE_DIR", Home(".bun/install/cache"), "bun"),
    ("UV_CACHE_DIR", Cache("uv"), "uv"),
    ("npm_config_store_dir", Data("pnpm/store"), "pnpm"),
];

/// A part that consists of files: a wrapper opens the locks of its downloads whenever it runs.
const LOCKS: &str = "wrapper/dists/*/*/*.lck";

const KEPT: [SharedCache; 21] = [
    kept(
        &["CARGO_HOME"],
        Home(".cargo"),
        &["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache"],
    ),
    kept(&["SCCACHE_DIR"], Cache("sccache"), &[]),
    kept(&["CCACHE_DIR"], Cache("ccache"), &[]),
    kept(&["npm_config_cache", "NPM_CONFIG_CACHE"], Home(".npm"), &["_cacache", "_logs", "_locks", "_prebuilds"]),
    kept(&[], Cache("pnpm"), &["metadata", "metadata-v1.3", "metadata-ff-v1.3", "metadata-full-v1.3"]),
    kept(&[], State("pnpm"), &[]),
    kept(&["YARN_CACHE_FOLDER"], Cache("yarn"), &[]),
    kept(&[], Home(".yarn/berry"), &["cache", "index", "metadata"]),
    kept(&["DENO_DIR"], Cache("deno"), &["deps", "gen", "npm", "registries", "remote"]),
    kept(&["PIP_CACHE_DIR"], Cache("pip"), &[]),
    kept(&["POETRY_CACHE_DIR"], Cache("pypoetry"), &["artifacts", "cache"]),
    kept(&["GOMODCACHE"], Home("go/pkg/mod"), &[]),
    kept(&["GOPATH"], Home("go"), &["pkg/mod", "pkg/sumdb"]),
    kept(&["GOCACHE"], Cache("go-build"), &[]),
    kept(
        &["GRADLE_USER_HOME"],
        Home(".gradle"),
        &[".tmp", "caches", "daemon", "native", "notifications", "workers", LOCKS],
    ),
    kept(&[], Home(".m2"), &["repository", LOCKS]),
    kept(&["NUGET_PACKAGES"], Home(".nuget/packages"), &[]),
    kept(&["COMPOSER_CACHE_DIR"], Cache("composer"), &[]),
    kept(&["BUNDLE_USER_CACHE"], Home(".bundle/cache"), &[]),
    kept(&["ZIG_GLOBAL_CACHE_DIR"], Cache("zig"), &[]),
    kept(&["CABAL_DIR"], Home(".cabal"), &["packages", "logs"]),
];

fn absolute(environment: &Environment, variable: &str) -> Option<PathBuf> {
    environment.get_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

impl CacheLocation {
    fn place(&self, environment: &Environment) -> Option<PathBuf> {
        let home = || absolute(environment, "HOME");
        let base = |variable, below| absolute(environment, variable).or_else(|| Some(home()?.join(below)));
        Some(match self {
            Home(below) => home()?.join(below),
            Cache(below) => base("XDG_CACHE_HOME", ".cache")?.join(below),
            Data(below) => base("XDG_DATA_HOME", ".local/share")?.join(below),
            State(below) => base("XDG_STATE_HOME", ".local/state")?.join(below),
        })
    }
}

/// The existing caches.
pub(super) fn find(environment: &Environment) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for SharedCache { variables, default, parts } in KEPT {
        let set = variables.iter().find_map(|name| absolute(environment, name));
        let Some(dir) = set.or_else(|| default.place(environment)) else { continue };
        if parts.is_empty() {
            found.push(dir.clone());
        }
        for part in parts {
            match *part {
                LOCKS => found.extend(locks(&dir)),
                part => found.push(dir.join(part)),
            }
        }
    }
    found.retain(|path| path.exists());
    found.sort();
    found.dedup();
    found
}

/// The files matching [`LOCKS`], without links and without files that are hard-linked elsewhere.
fn locks(dir: &Path) -> Vec<PathBuf> {
    let names = LOCKS.split('/');
    let mut found = vec![dir.to_owned()];
    for name in names {
        found = match name.strip_prefix('*') {
            None => found.into_iter().map(|dir| dir.join(name)).collect(),
            Some(ending) => found.iter().flat_map(|dir| entries(dir, ending)).collect(),
        };
        found.retain(|path| {
            let is_own = |kind: Metadata| kind.is_dir() || (kind.is_file() && kind.nlink() == 1);
            path.symlink_metadata().is_ok_and(is_own)
        });
    }
    found.retain(|path| path.is_file());
    found
}

fn entries(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.as_os_str().as_bytes().ends_with(ending.as_bytes())).collect()
}

/// The existing caches that are not shared, unless they are in `open`: their variables, and names for the command's
/// own.
pub(super) fn linked(environment: &Environment, open: &[PathBuf]) -> Vec<(&'static str, &'static str)> {
    let is_closed = |(variable, default, _): &(&str, CacheLocation, &str)| {
        let place = absolute(environment, variable).or_else(|| default.place(environment));
        place.is_some_and(|place| place.exists() && !open.iter().any(|open| place.starts_with(open)))
    };
    LINKED.into_iter().filter(is_closed).map(|(variable, _, name)| (variable, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_found_and_what_runs_is_not_among_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in [
            "h/.cargo/bin",
            "h/.cargo/registry",
            "h/.npm/_cacache",
            "h/.npm/_npx/1/node_modules/.bin",
            "h/.m2/repository",
            "h/.m2/wrapper/dists",
            "h/.gradle/jdks/21/bin",
            "h/.gradle/wrapper/dists/gradle-9/1a/gradle-9/bin",
            "h/.cabal/store/bin",
            "c/pip",
            "c/pypoetry/artifacts",
            "c/pypoetry/virtualenvs/x/bin",
            "c/uv/archive-v0",
            "c/deno/dl",
            "c/pnpm/dlx",
            "go/pkg/mod",
            "go/bin",
        ] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for dir in ["c/pip/wrapper/dists/a/b", "h/.m2/wrapper/dists/a/b"] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        for file in [
            "h/.cargo/.package-cache",
            "h/.gradle/wrapper/dists/gradle-9/1a/gradle-9.zip.lck",
            "h/.gradle/wrapper/dists/gradle-9/1a/linked",
            "h/.m2/wrapper/dists/a/b/maven.zip.lck",
            "c/pip/wrapper/dists/a/b/x.lck",
        ] {
            std::fs::write(at(file), "").unwrap();
        }
        let wrapped = at("h/.gradle/wrapper/dists/gradle-9");
        std::fs::hard_link(wrapped.join("1a/linked"), wrapped.join("1a/hard.lck")).unwrap();
        std::os::unix::fs::symlink(at("h"), wrapped.join("1a/link.lck")).unwrap();
        std::os::unix::fs::symlink(at("h/.m2/wrapper/dists/a/b"), wrapped.join("2b")).unwrap();
        let environment = Environment::from_pairs([
            ("HOME", at("h")),
            ("XDG_CACHE_HOME", at("c")),
            ("GOPATH", at("go")),
            ("UV_CACHE_DIR", "relative".into()),
        ]);
        let expected = [
            "c/pip",
            "c/pypoetry/artifacts",
            "go/pkg/mod",
            "h/.cargo/.package-cache",
            "h/.cargo/registry",
            "h/.gradle/wrapper/dists/gradle-9/1a/gradle-9.zip.lck",
            "h/.m2/repository",
            "h/.m2/wrapper/dists/a/b/maven.zip.lck",
            "h/.npm/_cacache",
        ];
        assert_eq!(find(&environment), expected.map(at));
        assert_eq!(linked(&environment, &[]), [("UV_CACHE_DIR", "uv")], "commands get one of their own");
        assert_eq!(linked(&environment, &[at("c")]), [], "the user has opened it");
        assert_eq!(find(&Environment::default()), Vec::<PathBuf>::new());
    }
}
