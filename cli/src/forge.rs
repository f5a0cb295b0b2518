//! The programs that know a hosting service: `gh` for GitHub, `glab` for GitLab. They run as the user has set them up, with
//! the user's own environment and logins, and never ask.

use std::path::PathBuf;
use std::time::Duration;

use agents::agent::find_program;
use git::remote::RemoteUrl;
use os::process::{Blocking, Cancel, Exit as ProgramExit, StallGuard, Stdin, run_blocking};
use pleach_core::config::Environment;
use pleach_core::text::shorten;
use serde_json::Value;

use crate::code::Code;
use crate::failure::Failure;
use crate::place::Place;
use crate::settings::Settings;

/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The most characters of a program's complaint that are shown.
const COMPLAINT: usize = 600;

/// Keeps both programs from asking, from painting and from looking for updates.
const QUIET: [(&str, &str); 6] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("NO_PROMPT", "1"),
    ("GLAB_NO_PROMPT", "1"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("NO_COLOR", "1"),
];

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeKind {
    /// GitHub's.
    Gh,
    /// GitLab's.
    Glab,
}

impl ForgeKind {
    const ALL: [Self; 2] = [Self::Gh, Self::Glab];

    /// Its name on PATH.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gh => "gh",
            Self::Glab => "glab",
        }
    }

    /// The one for a host, if its name tells.
    fn of_host(host: &str) -> Option<Self> {
        let host = host.to_ascii_lowercase();
        let is = |name: &str| host.split('.').any(|part| part == name);
        if is("github") {
            return Some(Self::Gh);
        }
        is("gitlab").then_some(Self::Glab)
    }
}

/// A program that opens requests and reads issues of one repository.
#[derive(Debug)]
pub struct Forge {
    /// Which program.
    pub kind: ForgeKind,
    program: PathBuf,
    cwd: PathBuf,
    /// The repository as the program takes it; none where it finds out itself.
    repo: Option<String>,
    environment: Environment,
}

/// A pull or merge request to open.
#[derive(Debug)]
pub struct NewRequest<'a> {
    /// The branch, which is pushed.
    pub branch: &'a str,
    /// The branch it is to be merged into; the service's default if none is given.
    pub base: Option<&'a str>,
    /// Its title.
    pub title: &'a str,
    /// Its text.
    pub body: &'a str,
    /// It is not to be merged yet.
    pub draft: bool,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Where it is.
    pub url: String,
}

impl Forge {
    /// The program for a repository: that of the host's own kind, else whichever is installed; `gh` before `glab`.
    pub fn find(settings: &Settings, place: &Place, remote: Option<&RemoteUrl>) -> Option<Self> {
        let at = remote.and_then(RemoteUrl::host_and_path);
        let first = at.as_ref().and_then(|(host, _)| ForgeKind::of_host(host));
        let environment = settings.own_environment.clone();
        let kinds = first.into_iter().chain(ForgeKind::ALL);
        let found = kinds.filter_map(|kind| Some((kind, find_program(kind.name(), &environment)?))).next();
        let (kind, program) = found?;
        let cwd = place.repo.workdir().unwrap_or(place.repo.git_dir()).to_owned();
        let repo = at.map(|(host, path)| match kind {
            ForgeKind::Gh => format!("{host}/{path}"),
            ForgeKind::Glab => format!("https://{host}/{path}"),
        });
        Some(Self { kind, program, cwd, repo, environment })
    }

    /// The program for something whose whole address is given.
    pub fn at(settings: &Settings, place: &Place, address: &RemoteUrl) -> Option<Self> {
        Some(Self { repo: None, ..Self::find(settings, place, Some(address))? })
    }

    /// The address of the open request for a branch.
    pub fn open_request(&self, branch: &str) -> Result<Option<String>, Failure> {
        let (args, field) = match self.kind {
            ForgeKind::Gh => {
                let head = format!("--head={branch}");
                (vec!["pr".into(), "list".into(), head, "--state=open".into(), "--json=url".into()], "url")
            }
            ForgeKind::Glab => {
                let source = format!("--source-branch={branch}");
                (vec!["mr".into(), "list".into(), source, "--output=json".into()], "web_url")
            }
        };
        let listed = self.json(args)?;
        Ok(listed.as_array().and_then(|all| all.first()?[field].as_str().map(str::to_owned)))
    }

    /// Opens a request, and gives its address.
    pub fn create(&self, request: &NewRequest<'_>) -> Result<String, Failure> {
        let NewRequest { branch, base, title, body, draft } = request;
        let draft = draft.then(|| "--draft".to_owned());
        let (mut args, stdin) = match self.kind {
            ForgeKind::Gh => {
                let mut args = vec!["pr".into(), "create".into(), format!("--head={branch}")];
                args.extend(base.map(|base| format!("--base={base}")));
                args.extend([format!("--title={title}"), "--body-file=-".into()]);
                (args, Stdin::Bytes(body.as_bytes().to_vec()))
            }
            // It reads no text from a file.
            ForgeKind::Glab => {
                let mut args = vec!["mr".into(), "create".into(), format!("--source-branch={branch}")];
                args.extend(base.map(|base| format!("--target-branch={base}")));
                args.extend([format!("--title={title}"), format!("--description={body}"), "--yes".into()]);
                (args, Stdin::Null)
            }
        };
        args.extend(draft);
        let said = self.call(args, stdin)?;
        link_in(&said).map(str::to_owned).ok_or_else(|| self.failed("it printed no address"))
    }

    /// An issue by its number, `#NUMBER` or address.
    pub fn issue(&self, given: &str) -> Result<Issue, Failure> {
        let number = given.strip_prefix('#').unwrap_or(given).to_owned();
        let (format, [body, url]) = match self.kind {
            ForgeKind::Gh => ("--json=title,body,url", ["body", "url"]),
            ForgeKind::Glab => ("--output=json", ["description", "web_url"]),
        };
        let found = self.json(vec!["issue".into(), "view".into(), number, format.into()])?;
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        let title = text("title").filter(|title| !title.trim().is_empty());
        let title = title.ok_or_else(|| self.failed("the issue has no title"))?;
        Ok(Issue { title, body: text(body).unwrap_or_default(), url: text(url).unwrap_or_default() })
    }

    fn json(&self, args: Vec<String>) -> Result<Value, Failure> {
        let said = self.call(args, Stdin::Null)?;
        serde_json::from_str(&said).map_err(|error| self.failed("its answer is not JSON").because(&error))
    }

    fn call(&self, mut args: Vec<String>, stdin: Stdin) -> Result<String, Failure> {
        args.extend(self.repo.as_ref().map(|repo| format!("--repo={repo}")));
        let command = Blocking {
            program: self.program.clone().into(),
            args: args.into_iter().map(Into::into).collect(),
            cwd: self.cwd.clone(),
            environment: Some(self.environment.clone()),
            env: QUIET.map(|(name, value)| (name.into(), Some(value.into()))).to_vec(),
            stdin,
            guard: Some(StallGuard { silence: LIMIT, total: LIMIT, cancel: Cancel::never() }),
            ..Blocking::default()
        };
        let output = run_blocking(&command).map_err(|error| self.failed("it cannot be started").because(&error))?;
        if output.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().replace('\n', "; ");
        Err(match (output.exit, said.is_empty()) {
            (exit @ ProgramExit::TimedOut(_), _) | (exit, true) => self.failed(&exit.to_string()),
            (_, false) => self.failed(&shorten(&said, COMPLAINT)),
        })
    }

    fn failed(&self, why: &str) -> Failure {
        let name = self.kind.name();
        Failure::new(Code::ForgeFailed, format!("`{name}` failed: {why}"))
            .hint(format!("`{name} auth status` shows whether you are logged in"))
    }
}

/// No program of this kind is installed.
pub fn none_installed(what: &str) -> Failure {
    Failure::new(Code::NoForge, format!("neither `gh` nor `glab` is installed, and {what} needs one of them"))
        .hint("install GitHub's `gh` or GitLab's `glab` and log in with `gh auth login` or `glab auth login`")
}

/// The last address in a text, where programs print their result.
fn link_in(text: &str) -> Option<&str> {
    text.split_whitespace().rfind(|word| is_link(word))
}

/// Where a remote says a request can be opened, in what it said at a push.
pub fn link_of_push(words: &str) -> Option<&str> {
    let links = || words.lines().filter(|line| line.starts_with("remote:")).flat_map(str::split_whitespace);
    let is_request =
        |link: &&str| ["/pull/new", "/merge_requests/new", "/compare/"].iter().any(|part| link.contains(part));
    let all = || links().filter(|word| is_link(word));
    all().find(is_request).or_else(|| all().next())
}

fn is_link(word: &str) -> bool {
    word.starts_with("https://") || word.starts_with("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_tell_their_program() {
        for (host, kind) in [
            ("github.com", Some(ForgeKind::Gh)),
            ("GitHub.example.org", Some(ForgeKind::Gh)),
            ("gitlab.com", Some(ForgeKind::Glab)),
            ("gitlab.example.org", Some(ForgeKind::Glab)),
            ("git.example.org", None),
            ("notgithub.example.org", None),
        ] {
            assert_eq!(ForgeKind::of_host(host), kind, "{host}");
        }
    }

    #[test]
    fn remotes_say_where_a_request_can_be_opened() {
        let words = "remote: See https://example.org/help\nremote: Create a pull request for 'x' by visiting:\n\
                     remote:      https://example.org/o/r/pull/new/x\nwarning: https://example.org/no";
        assert_eq!(link_of_push(words), Some("https://example.org/o/r/pull/new/x"));
        assert_eq!(link_of_push("remote: go to http://h/mine"), Some("http://h/mine"));
        assert_eq!(link_of_push("To https://example.org/x"), None);
        assert_eq!(link_in("Creating…\n\nhttps://example.org/pull/7\n"), Some("https://example.org/pull/7"));
    }
}
