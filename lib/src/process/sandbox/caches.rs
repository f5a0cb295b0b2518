//! Where package managers keep what they have downloaded and built, to be shared by everything a user works on. Only
//! caches: what is run from them or changes what is run, like programs and settings, stays out.

use std::path::PathBuf;

use crate::config::Environment;

/// A directory by its variable, or by its place below the home directory, and what of it is cache.
struct Kept {
    /// The variables that name the directory, the first one that is set.
    variables: &'static [&'static str],
    /// Where it is otherwise.
    default: Default,
    /// What in it may be written; all when empty.
    parts: &'static [&'static str],
}

enum Default {
    Home(&'static str),
    Cache(&'static str),
    Data(&'static str),
    State(&'static str),
}

use self::Default::{Cache, Data, Home, State};

const fn kept(variables: &'static [&'static str], default: Default, parts: &'static [&'static str]) -> Kept {
    Kept { variables, default, parts }
}

const KEPT: [Kept; 24] = [
    kept(
        &["CARGO_HOME"],
        Home(".cargo"),
        &["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache"],
    ),
    kept(&["SCCACHE_DIR"], Cache("sccache"), &[]),
    kept(&["CCACHE_DIR"], Cache("ccache"), &[]),
    kept(&["npm_config_cache", "NPM_CONFIG_CACHE"], Home(".npm"), &[]),
    kept(&["npm_config_store_dir"], Data("pnpm/store"), &[]),
    kept(&[], Cache("pnpm"), &[]),
    kept(&[], State("pnpm"), &[]),
    kept(&["YARN_CACHE_FOLDER"], Cache("yarn"), &[]),
    kept(&[], Home(".yarn/berry"), &[]),
    kept(&["BUN_INSTALL_CACHE_DIR"], Home(".bun/install/cache"), &[]),
    kept(&["DENO_DIR"], Cache("deno"), &[]),
    kept(&["PIP_CACHE_DIR"], Cache("pip"), &[]),
    kept(&["UV_CACHE_DIR"], Cache("uv"), &[]),
    kept(&["POETRY_CACHE_DIR"], Cache("pypoetry"), &[]),
    kept(&["GOMODCACHE"], Home("go/pkg/mod"), &[]),
    kept(&["GOPATH"], Home("go"), &["pkg/mod", "pkg/sumdb"]),
    kept(&["GOCACHE"], Cache("go-build"), &[]),
    kept(
        &["GRADLE_USER_HOME"],
        Home(".gradle"),
        &[".tmp", "caches", "daemon", "jdks", "native", "notifications", "workers", "wrapper"],
    ),
    kept(&[], Home(".m2"), &["repository", "wrapper"]),
    kept(&["NUGET_PACKAGES"], Home(".nuget/packages"), &[]),
    kept(&["COMPOSER_CACHE_DIR"], Cache("composer"), &[]),
    kept(&["BUNDLE_USER_CACHE"], Home(".bundle/cache"), &[]),
    kept(&["ZIG_GLOBAL_CACHE_DIR"], Cache("zig"), &[]),
    kept(&["CABAL_DIR"], Home(".cabal"), &["packages", "store", "logs"]),
];

/// The caches that are there.
pub(super) fn find(environment: &Environment) -> Vec<PathBuf> {
    let absolute = |name: &str| environment.get_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME");
    let base = |variable: &str, below: &str| absolute(variable).or_else(|| Some(home.clone()?.join(below)));
    let mut found = Vec::new();
    for Kept { variables, default, parts } in KEPT {
        let usual = || match default {
            Home(below) => Some(home.clone()?.join(below)),
            Cache(below) => Some(base("XDG_CACHE_HOME", ".cache")?.join(below)),
            Data(below) => Some(base("XDG_DATA_HOME", ".local/share")?.join(below)),
            State(below) => Some(base("XDG_STATE_HOME", ".local/state")?.join(below)),
        };
        let Some(dir) = variables.iter().find_map(|name| absolute(name)).or_else(usual) else { continue };
        match parts {
            [] => found.push(dir),
            parts => found.extend(parts.iter().map(|part| dir.join(part))),
        }
    }
    found.retain(|path| path.exists());
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_found_and_what_runs_is_not_among_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["h/.cargo/bin", "h/.cargo/registry", "h/.npm", "h/.m2/repository", "c/pip", "go/pkg/mod", "go/bin"]
        {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::write(at("h/.cargo/.package-cache"), "").unwrap();
        let environment = Environment::from_pairs([
            ("HOME", at("h")),
            ("XDG_CACHE_HOME", at("c")),
            ("GOPATH", at("go")),
            ("UV_CACHE_DIR", "relative".into()),
        ]);
        let expected =
            ["c/pip", "go/pkg/mod", "h/.cargo/.package-cache", "h/.cargo/registry", "h/.m2/repository", "h/.npm"];
        assert_eq!(find(&environment), expected.map(at));
        assert_eq!(find(&Environment::default()), Vec::<PathBuf>::new());
    }
}
