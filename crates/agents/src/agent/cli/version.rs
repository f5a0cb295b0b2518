//! Versions of programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::process::{Cancel, CommandLimits, CommandSpec, Spawner};

/// How long a program may take to print its version. Some start slowly.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Versions of programs, each asked for once. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Versions(Arc<Mutex<BTreeMap<PathBuf, Option<String>>>>);

impl Versions {
    /// The version a program gives with `--version`; none when it does not say.
    pub async fn of(&self, program: &Path, spawner: &Spawner, cancel: &Cancel) -> Option<String> {
        if let Some(known) = self.known(program) {
            return known;
        }
        let limits = CommandLimits { wall: Some(VERSION_TIMEOUT), output: 4096, ..CommandLimits::default() };
        let command = CommandSpec { limits, ..CommandSpec::new([program.as_os_str(), "--version".as_ref()], "/") };
        let output = spawner.run(command, cancel, &mut |_, _| {}).await.ok();
        let said = output.filter(|output| output.exit.success()).map(|output| output.stdout.to_text());
        let version = said.as_deref().and_then(version_in).map(str::to_owned);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(program.to_owned(), version.clone());
        version
    }

    /// What is known already.
    pub fn known(&self, program: &Path) -> Option<Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(program).cloned()
    }
}

/// The first word of a text that looks like a version.
fn version_in(text: &str) -> Option<&str> {
    let trim = |c: char| !c.is_ascii_alphanumeric();
    text.split_whitespace().map(|word| word.trim_matches(trim).trim_start_matches('v')).find(|word| {
        let mut parts = word.split('.');
        let number =
            |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        number(parts.next()) && number(parts.next())
    })
}

/// Whether a version comes before another, by their numbers.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let numbers = |version: &str| -> Vec<u64> {
        let number = |part: &str| {
            part.bytes()
                .take_while(u8::is_ascii_digit)
                .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        };
        version.split('.').take(3).map(number).collect()
    };
    numbers(version) < numbers(than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_version_output() {
        let cases = [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("tool (1.2.3-rc.1)", Some("1.2.3-rc.1")),
            ("no number here", None),
            ("", None),
        ];
        for (said, version) in cases {
            assert_eq!(version_in(said), version, "{said}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, than, older) in [
            ("1.0.3", "2.0.0", true),
            ("2.0.0", "2.0.0", false),
            ("2.1.325", "2.1.99", false),
            ("0.99.1-rc.1", "0.100.0", true),
            ("1.18", "1.0.0", false),
        ] {
            assert_eq!(is_older(version, than), older, "{version} {than}");
        }
    }
}
