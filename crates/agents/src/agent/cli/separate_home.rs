//! A home of the session's own for agents outside the gateway whose own files lie among what they run: what they wrote
//! there could run another time, outside of every sandbox. They find their settings and their login by links.

use std::ffi::OsString;
use std::io::Error;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::gateway_setup::{self, Variables};
use super::preset::{Preset, place, places};
use super::template::Values;
use crate::agent::AgentError;
use os::confined_fs::ConfinedDir;
use pleach_core::config::Environment;

/// Its name in the home the session has for agents, beside what one behind the gateway has there.
const OUTSIDE: &str = "outside";

fn is_separate(preset: &Preset) -> bool {
    !preset.separate_home.env.is_empty()
}

/// Where it keeps what it writes for itself outside the gateway. `home` is what the session has for agents.
pub(in crate::agent) fn kept_paths(preset: &Preset, environment: &Environment, home: &Path) -> Vec<PathBuf> {
    if is_separate(preset) {
        preset.keeps.iter().map(|kept| home.join(OUTSIDE).join(kept)).collect()
    } else {
        preset.kept_in(environment)
    }
}

/// What must be opened to it outside the gateway, beside the home the session has for agents and all in it.
pub(in crate::agent) fn writable_paths(preset: &Preset, environment: &Environment) -> Vec<PathBuf> {
    let kept = if is_separate(preset) { Vec::new() } else { preset.kept_in(environment) };
    // Only what is there can be let through, and the agent could not make it. Without it the agent has no conversation
    // to resume, and works all the same. The files among them it makes beside the directories.
    let missing = kept.iter().filter(|kept| kept.extension().is_none());
    missing.for_each(|kept| drop(std::fs::create_dir_all(kept)));
    // A login that is renewed must be written down, or the old one is all that is left, and is not valid.
    [kept, preset.logins_in(environment), places(&preset.separate_home.written, environment)].concat()
}

/// Makes the home it has outside the gateway, where that is not the user's, and gives the variables that lead there.
pub(in crate::agent) fn set_up(
    preset: &Preset,
    environment: &Environment,
    home: &Path,
) -> Result<Variables, AgentError> {
    if !is_separate(preset) {
        return Ok(Variables::new());
    }
    link(preset, environment, home).map_err(|error| {
        AgentError::Transient(format!("cannot make a home for `{}` in {}: {error}", preset.program, home.display()))
    })?;
    let home = home.join(OUTSIDE);
    let mut values = Values::default();
    values.set("home", Some(home.display().to_string()));
    let own = preset.separate_home.env.iter().filter_map(|(name, value)| Some((name, values.fill(value)?)));
    let own = own.map(|(name, value)| (OsString::from(name), Some(OsString::from(value))));
    Ok(gateway_setup::tools(environment, |below| below.starts_with(".cache")).into_iter().chain(own).collect())
}

/// The agent can write in all of `home`, and may have been here before: what is there is left, what is made stays
/// below.
fn link(preset: &Preset, environment: &Environment, home: &Path) -> Result<(), Error> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let (home, own) = (ConfinedDir::at(home)?, Path::new(OUTSIDE));
    home.make_directory(own)?;
    if preset.logins_in(environment).iter().any(|login| login.exists()) {
        // Two that renew one login at once lose it. Without the lock it works all the same.
        let written = places(&preset.separate_home.written, environment);
        let locks = written.iter().filter(|written| written.extension().is_some_and(|kind| kind == "lock"));
        locks.for_each(|lock| drop(std::fs::OpenOptions::new().append(true).create(true).open(lock)));
    }
    for below in &preset.separate_home.links {
        let Some(target) = place(below, environment).filter(|target| target.exists()) else { continue };
        home.link(own.join(below), &target)?;
    }
    // Without them it works all the same.
    preset.keeps.iter().for_each(|kept| drop(home.make_directory(own.join(kept))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separate_home_links_settings_and_login_only() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("h/.gemini/tmp")).unwrap();
        for file in ["settings.json", "oauth_creds.json", "projects.json"] {
            std::fs::write(at("h/.gemini").join(file), file).unwrap();
        }
        let environment = Environment::from_pairs([("HOME", at("h"))]);
        let gemini = Preset::of("gemini").unwrap();
        for _ in 0..2 {
            let variables = set_up(gemini, &environment, &at("s")).unwrap();
            assert_eq!(variables, [("GEMINI_CLI_HOME".into(), Some(at("s/outside").into()))]);
        }
        for file in ["settings.json", "oauth_creds.json"] {
            assert_eq!(std::fs::read_link(at("s/outside/.gemini").join(file)).unwrap(), at("h/.gemini").join(file));
        }
        assert!(!at("s/outside/.gemini/projects.json").exists());
        assert_eq!(kept_paths(gemini, &environment, &at("s"))[0], at("s/outside/.gemini/tmp"));
        assert!(at("s/outside/.gemini/tmp").is_dir());
        assert_eq!(writable_paths(gemini, &environment), gemini.logins_in(&environment), "the rest lies in its home");
        let claude = Preset::of("claude").unwrap();
        assert_eq!(set_up(claude, &environment, &at("t")).unwrap(), []);
        assert!(!at("t").exists());
    }
}
