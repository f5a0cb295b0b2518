//! A home of the session's own for agents outside the gateway whose own files lie among what they run: what they wrote
//! there could run another time, outside of every sandbox. They find their settings and their login by links.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use super::preset::{Preset, place};
use super::route::{self, Variables};
use super::template::Values;
use crate::agent::AgentError;
use crate::config::Environment;

/// It lies in the home the session has for agents, beside what one behind the gateway has there.
fn apart(home: &Path) -> PathBuf {
    home.join("outside")
}

impl Preset {
    fn is_apart(&self) -> bool {
        !self.apart.env.is_empty()
    }

    /// Where it keeps what it writes for itself outside the gateway. `home` is what the session has for agents.
    pub(in crate::agent) fn kept_outside(&self, environment: &Environment, home: &Path) -> Vec<PathBuf> {
        match self.is_apart() {
            true => self.keeps.iter().map(|kept| apart(home).join(kept)).collect(),
            false => self.kept_in(environment),
        }
    }

    /// Makes the home it has outside the gateway, where that is not the user's, and gives the variables that lead there.
    pub(in crate::agent) fn move_apart(&self, environment: &Environment, home: &Path) -> Result<Variables, AgentError> {
        if !self.is_apart() {
            return Ok(Variables::new());
        }
        let home = apart(home);
        self.link(environment, &home).map_err(|error| {
            AgentError::Transient(format!("cannot make a home for `{}` in {}: {error}", self.program, home.display()))
        })?;
        let mut values = Values::default();
        values.set("home", Some(home.display().to_string()));
        let own = self.apart.env.iter().filter_map(|(name, value)| Some((name, values.fill(value)?)));
        let own = own.map(|(name, value)| (OsString::from(name), Some(OsString::from(value))));
        Ok(route::tools(environment, |below| below.starts_with(".cache")).into_iter().chain(own).collect())
    }

    fn link(&self, environment: &Environment, home: &Path) -> Result<(), Error> {
        let make = |dir: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        make(home)?;
        for below in &self.apart.links {
            let link = home.join(below);
            let Some(target) = place(below, environment).filter(|target| target.exists()) else { continue };
            link.parent().map_or(Ok(()), make)?;
            match symlink(target, &link) {
                // From before, or of the agent's own by now.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_login_are_found_where_nothing_else_is_shared() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("h/.gemini/tmp")).unwrap();
        for file in ["settings.json", "oauth_creds.json", "projects.json"] {
            std::fs::write(at("h/.gemini").join(file), file).unwrap();
        }
        let environment = Environment::from_pairs([("HOME", at("h"))]);
        let gemini = Preset::of("gemini").unwrap();
        for _ in 0..2 {
            let variables = gemini.move_apart(&environment, &at("s")).unwrap();
            assert_eq!(variables, [("GEMINI_CLI_HOME".into(), Some(at("s/outside").into()))]);
        }
        for file in ["settings.json", "oauth_creds.json"] {
            assert_eq!(std::fs::read_link(at("s/outside/.gemini").join(file)).unwrap(), at("h/.gemini").join(file));
        }
        assert!(!at("s/outside/.gemini/projects.json").exists());
        assert_eq!(gemini.kept_outside(&environment, &at("s"))[0], at("s/outside/.gemini/tmp"));
        let claude = Preset::of("claude").unwrap();
        assert_eq!(claude.move_apart(&environment, &at("t")).unwrap(), []);
        assert!(!at("t").exists());
    }
}
