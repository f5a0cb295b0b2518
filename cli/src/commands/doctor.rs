//! `pleach doctor`

use std::path::Path;

use agents::llm::Providers;
use clap::Args;
use git::Repo;
use os::process::sandbox::SandboxChoice;
use pleach_core::config::Environment;
use serde_json::json;

use crate::commands::init::spawner;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_git;
use crate::place::{Place, Places};
use crate::render::{Out, columns, wrapped};
use crate::runtime::single;
use crate::session::{protection, providers, roster};
use crate::settings::{self, Settings};
use crate::survey::health::{self, Finding, Level};
use crate::survey::{self, known_agents, orphans};
use crate::workspace_repos::record_repo;

/// Where the message of a finding begins.
const MESSAGE: usize = 19;

/// Check that everything pleach needs works, and how to fix it.
///
/// Looks at git, settings, agents, keys, sandbox, disk, and what sessions left behind.
/// Every problem comes with its fix. Of keys and logins only their presence is shown. Exits with 7 while something does
/// not work; warnings are no failure.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Remove what sessions that no longer exist left behind. Uncommitted work in it is kept under refs/pleach/keep/
    /// first.
    #[arg(long)]
    fix: bool,
    /// Also check that the providers can be reached. No key is sent.
    #[arg(long)]
    online: bool,
}

pub fn run(globals: &Globals, args: DoctorArgs) -> Result<Exit, Failure> {
    let findings = look(globals, &args)?;
    let failed = findings.iter().any(|finding| finding.level == Level::Error);
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"ok": !failed, "findings": findings}))?;
    } else {
        for finding in findings.iter().filter(|finding| globals.verbosity >= 0 || finding.level > Level::Ok) {
            out.line(shown(finding))?;
        }
    }
    Ok(if failed { Exit::Environment } else { Exit::Done })
}

/// Looks at everything there is to look at.
fn look(globals: &Globals, args: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let environment = &globals.environment;
    let mut findings = vec![health::git(environment)];
    findings.extend(health::open_files());
    let repo = repository(&globals.dir, environment, &mut findings);
    let root = repo.as_ref().and_then(Repo::workdir).unwrap_or(&globals.dir).to_owned();
    let settings = match settings::load_for(globals, &root) {
        Ok(settings) => settings,
        Err(failure) => {
            let fix = failure.hint.clone().unwrap_or_else(|| "fix the settings; `pleach config` shows them".into());
            findings.push(Finding::error("settings", failure.sentence(), fix));
            return Ok(findings);
        }
    };
    let config = &settings.resolved.config;
    findings.push(match settings.files.as_slice() {
        [] => Finding::ok("settings", "the defaults; there is no pleach.yaml"),
        files => {
            let names: Vec<String> =
                files.iter().map(|file| settings::shortened(file, &globals.dir).display().to_string()).collect();
            Finding::ok("settings", names.join(", "))
        }
    });
    let workspace = workspace(&settings, &mut findings);
    // Nothing the repository brings along is trusted here, so its variables steer no program.
    let own = &settings.own_environment;
    let spawner = spawner(own)?;
    let runtime = single()?;
    let installed = runtime.block_on(known_agents::installed(environment, &spawner));
    let providers = providers(&settings, config, &spawner).unwrap_or_else(|failure| {
        findings.push(Finding::error("settings", failure.sentence(), failure.hint.unwrap_or_default()));
        Providers::default()
    });
    let roster = roster(config, providers, spawner.clone(), own);
    if config.agent.is_none() {
        findings.push(health::no_agent(known_agents::default_agent(&settings)));
    }
    match &roster {
        Ok(roster) => findings.extend(runtime.block_on(health::configured(config, roster, own))),
        Err(failure) => {
            findings.push(Finding::error("settings", failure.sentence(), failure.hint.clone().unwrap_or_default()));
        }
    }
    findings.push(health::installed(&installed));
    findings.extend(runtime.block_on(health::tools(config, own, &spawner)));
    findings.push(health::keys(&survey::keys(&settings.environment)));
    if let Some(record) = workspace.as_ref().map(|workspace| &workspace.record.repo).or(repo.as_ref()) {
        findings.extend(runtime.block_on(health::mirror(&settings, record)));
    }
    if args.online {
        findings.extend(runtime.block_on(health::online(config, &settings, &spawner)));
    }
    let agent = roster.ok().and_then(|roster| roster.configured());
    let alone = agent.is_some_and(|agent| agent.is_ok_and(|agent| agent.needs_network()));
    let chosen = protection(&settings, config).map_err(|failure| failure.sentence());
    findings.extend(health::temporary(environment, matches!(chosen, Ok(SandboxChoice::On(_)))));
    findings.push(health::sandbox(chosen, alone));
    let mut disks = vec![("pleach's state", settings.state_dir.as_path())];
    disks.extend(repo.as_ref().map(|_| ("the repository", root.as_path())));
    disks.extend(config.worktrees.base.as_deref().map(|base| ("worktrees", base)));
    findings.extend(health::disk(&disks));
    match (&workspace, &repo) {
        (Some(workspace), _) => {
            findings.extend(health::sessions(&workspace.record.repo));
            for place in workspace.all() {
                findings.extend(health::git_locks(&place.repo));
                let places = orphans::places_of(place, workspace, &settings);
                findings.extend(orphans::findings(&place.repo, &places, args.fix));
            }
        }
        (None, Some(repo)) if config.workspace.repos.is_empty() => {
            findings.extend(health::sessions(repo));
            findings.extend(health::git_locks(repo));
            findings.extend(orphans::findings(repo, &orphans::places(repo, &settings), args.fix));
        }
        // Without the records nobody can tell what belongs to a session.
        (None, _) => {}
    }
    Ok(findings)
}

/// The repositories of the workspace that are there, if that with the records is. They are what commands work in, whatever
/// repository this is.
fn workspace(settings: &Settings, findings: &mut Vec<Finding>) -> Option<Places> {
    let (record, _) = record_repo(settings)?;
    findings.retain(|finding| finding.what != "repository");
    let mut found = Vec::new();
    for name in settings.resolved.config.workspace.repos.keys() {
        match Place::named(name, settings) {
            Ok(place) => {
                let at = place.repo.workdir().unwrap_or(place.repo.git_dir()).display();
                findings.push(Finding::ok("repository", format!("`{name}` at {at}")));
                found.push(place);
            }
            Err(failure) => {
                let fix = failure.hint.clone().unwrap_or_else(|| "fix `workspace.repos` in pleach.yaml".into());
                findings.push(Finding::warn("repository", failure.sentence(), fix));
            }
        }
    }
    let at = found.iter().position(|place| place.name == *record)?;
    let record = found.remove(at);
    Some(Places { record, others: found })
}

fn repository(dir: &Path, environment: &Environment, findings: &mut Vec<Finding>) -> Option<Repo> {
    match git::discover(dir, environment) {
        Ok(repo) => {
            let place = repo.workdir().unwrap_or(repo.git_dir()).display().to_string();
            findings.push(Finding::ok("repository", place));
            Some(repo)
        }
        // Without git there is nothing to say about a repository.
        Err(_) if findings.iter().any(|finding| finding.level == Level::Error) => None,
        Err(error) => {
            let failure = of_git(&error);
            let fix = failure.hint.clone().unwrap_or_else(|| "run pleach in a repository".into());
            let finding = match &error {
                git::Error::NotARepository { .. } => Finding::warn("repository", failure.sentence(), fix),
                _ => Finding::error("repository", failure.sentence(), fix),
            };
            findings.push(finding);
            None
        }
    }
}

fn shown(finding: &Finding) -> String {
    let (word, style) = match finding.level {
        Level::Ok if finding.fixed => ("fixed", anstyle::AnsiColor::Green),
        Level::Ok => ("ok", anstyle::AnsiColor::Green),
        Level::Warn => ("warn", anstyle::AnsiColor::Yellow),
        Level::Error => ("error", anstyle::AnsiColor::Red),
    };
    let style = style.on_default().bold();
    let behind = format!("\n{}", " ".repeat(MESSAGE));
    let room = columns().map_or(usize::MAX, |columns| columns.saturating_sub(MESSAGE).max(MESSAGE));
    let message = finding.message.lines().flat_map(|line| wrapped(line, room)).collect::<Vec<_>>().join(&behind);
    let mut text = format!("{style}{word:<5}{style:#}  {:<10}  {message}", finding.what);
    if let Some(fix) = &finding.fix {
        text.push_str(&format!("{behind}fix: {fix}"));
    }
    text
}
