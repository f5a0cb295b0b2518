//! Where a provider's key comes from.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::llm::{ErrorClass, LlmError};
use os::process::{Cancel, CommandLimits, CommandSpec, Spawner};
use pleach_core::redact::Redactor;
use pleach_core::text::last_words;

/// How long the command that prints a key may take: the user may have to type a password.
const WALL: Duration = Duration::from_secs(120);

/// Where a key comes from.
pub(super) enum ApiKey {
    /// The server wants none.
    None,
    /// A variable.
    Given(String),
    /// A command that prints it, run once, and again when the server refuses the key.
    Command(Box<KeyCommand>),
}

/// A command that prints a key.
pub(super) struct KeyCommand {
    pub script: String,
    pub cwd: PathBuf,
    /// All variables, secret ones included: the command may need another key to get at this one.
    pub env: Vec<(OsString, Option<OsString>)>,
    pub spawner: Spawner,
    pub said: Mutex<Option<String>>,
    /// The name its key has where it is taken out of text.
    pub variable: String,
    /// Who takes it out of what is recorded.
    pub redactor: OnceLock<Redactor>,
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Given(_) => "Given",
            Self::Command(_) => "Command",
        })
    }
}

impl ApiKey {
    /// The key, and whether it was known already.
    pub(super) async fn get(&self, cancel: &Cancel) -> Result<(Option<String>, bool), LlmError> {
        match self {
            Self::None => Ok((None, true)),
            Self::Given(key) => Ok((Some(key.clone()), true)),
            Self::Command(command) => {
                let known = command.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if known.is_some() {
                    return Ok((known, true));
                }
                let key = command.ask(cancel).await?;
                if let Some(redactor) = command.redactor.get() {
                    redactor.learn(&command.variable, &key);
                }
                *command.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
                Ok((Some(key), false))
            }
        }
    }

    /// Forgets a key the server refused, if a newer one can be had.
    pub(super) fn forget(&self) -> bool {
        match self {
            Self::Command(command) => command.said.lock().unwrap_or_else(PoisonError::into_inner).take().is_some(),
            Self::None | Self::Given(_) => false,
        }
    }
}

impl KeyCommand {
    async fn ask(&self, cancel: &Cancel) -> Result<String, LlmError> {
        let failed = |why: String| {
            let message = format!("`api_key_command` gave no key: {why}");
            LlmError::new(ErrorClass::Auth, message)
        };
        let mut command = CommandSpec::shell(&self.script, &self.cwd);
        command.env.clone_from(&self.env);
        command.limits = CommandLimits { wall: Some(WALL), output: 64 << 10, ..CommandLimits::default() };
        let output =
            self.spawner.run(command, cancel, &mut |_, _| {}).await.map_err(|error| failed(error.to_string()))?;
        if cancel.is_killed() {
            return Err(LlmError::cancelled());
        }
        if !output.exit.success() {
            let said = output.stderr.to_text();
            return Err(failed(format!("{} {}", output.exit, last_words(said.trim(), 500))));
        }
        let said = output.stdout.to_text();
        let key = said.lines().map(str::trim).find(|line| !line.is_empty());
        key.map(str::to_owned).ok_or_else(|| failed("it printed nothing".into()))
    }
}
