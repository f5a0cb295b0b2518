//! `pleach init`

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use agents::llm::usual_model;
use clap::Args;
use engine::landing::{TipTest, run_tip_test};
use git::Head;
use os::plain_file;
use os::process::Spawner;
use pleach_core::config::{self, Environment, Layer, Precedence, ProviderName};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_queue};
use crate::place::Place;
use crate::queue_settings::queue_settings;
use crate::render::{Out, duration};
use crate::runtime::block_on;
use crate::runtime::single;
use crate::session::{build, shim_program};
use crate::settings::{self, PROJECT_FILES, Search};
use crate::stdin_lines;
use crate::survey;
use crate::survey::known_agents::{self, INSTALL, Installed};
use crate::survey::project::{self, Files, Guess};
use crate::survey::tools::{MissingTool, missing_tool};
use crate::trust::confirm;

/// Write a pleach.yaml that fits this repository and this machine.
///
/// Looks for agents on PATH, for keys by the names of their variables, and for the files that tell how the project is
/// set up and tested. The file is shown, and written once you confirm (or with -y). An existing one is never
/// overwritten. With --json it is written only with -y. Then the test is run once on HEAD, if you confirm that too.
#[derive(Debug, Args)]
pub struct InitArgs {}

/// The findings.
#[derive(Debug)]
struct Survey {
    agents: Vec<Installed>,
    keys: Vec<(ProviderName, &'static str)>,
    guesses: Vec<Guess>,
    /// What guesses need that is not installed, by the command.
    missing: BTreeMap<String, MissingTool>,
}

/// The content of the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Proposal<'a> {
    agent: Option<&'a str>,
    setup: Option<(&'a str, &'a str)>,
    test: Option<(&'a str, &'a str)>,
}

pub fn run(globals: &Globals, _: InitArgs) -> Result<Exit, Failure> {
    let repo = git::discover(&globals.dir, &globals.environment).map_err(|error| of_git(&error))?;
    let root = repo.workdir().ok_or_else(|| {
        Failure::new(Code::BareRepository, "a bare repository has no files, so no pleach.yaml can be in it")
            .hint("put one into the directory you run pleach in, or name it with --config")
    })?;
    let found = look(globals, root)?;
    let proposal = found.proposal();
    let text = proposal.text(&found);
    if let Some(name) = PROJECT_FILES.iter().find(|name| root.join(name).exists()) {
        return Err(exists(globals, root, name, &found, &proposal));
    }
    check(root, &text)?;
    let mut out = Out::new();
    let mut written = false;
    if !globals.json {
        out.text(&text)?;
    }
    if globals.yes || (!globals.json && agreed()?) {
        write(root, &text)?;
        written = true;
    }
    if written && !globals.json && globals.verbosity >= 0 {
        say!("wrote {}", root.join(PROJECT_FILES[0]).display());
    }
    let tip = if written { first_test(globals, root, &proposal)? } else { None };
    if globals.json {
        let mut document = found.json(&proposal, &text, written);
        document["test"] = tip.map_or(Value::Null, |tip| json!({"passed": tip.passed, "exit": tip.exit}));
        out.json(&document)?;
    } else if globals.verbosity >= 0 {
        say!("check:   pleach doctor");
        if proposal.agent.is_none() {
            say!("agent:   {INSTALL}");
        }
        say!("try it:  pleach run \"Fix the failing test\"");
    }
    Ok(Exit::Done)
}

/// Runs the test once on the newest commit, in a worktree of its own and if the user agrees: what fails there would be held
/// against the first work that is tested.
fn first_test(globals: &Globals, root: &Path, proposal: &Proposal<'_>) -> Result<Option<TipTest>, Failure> {
    if proposal.test.is_none() {
        return Ok(None);
    }
    let settings = settings::load_for(globals, root)?;
    let place = Place::find(root, None, &settings)?;
    // What the user has set elsewhere may come before what was found here.
    let queue = queue_settings(&settings, &place);
    let Some(test) = queue.tests.usual.clone() else { return Ok(None) };
    let (command, setup) = (test.command.as_str(), settings.resolved.config.worktrees.setup.as_deref());
    let commands = [setup, Some(command)].into_iter().flatten().map(str::to_owned);
    if !missing_tools(globals, commands)?.is_empty() {
        return Ok(None);
    }
    // Without a commit or a branch there is nothing that could be tested.
    let Ok(Head { commit, branch: Some(target) }) = place.repo.head() else { return Ok(None) };
    if !globals.yes {
        let after = setup.map(|setup| format!(", after `{setup}`")).unwrap_or_default();
        let asked = format!("Run `{command}` once on `{target}`, in a worktree of its own{after}? [y/N] ");
        if !confirm(&asked).unwrap_or(false) {
            return Ok(None);
        }
    }
    let built = build(globals, &settings, &settings.resolved.config, Answers::default())?;
    let ran = block_on(built.stopped_by(), async {
        let (engine, tip) = (built.engine.clone(), target.clone());
        let ran = run_tip_test(engine, place.repo, place.name, tip, commit, &test, &queue).await;
        Ok(ran.map_err(|error| of_queue(&error)))
    })?;
    // The file is written, whatever keeps its test from running.
    let ran = ran.unwrap_or_else(|failure| {
        warning!(TestNotRun, "`{command}` could not be run: {}", failure.sentence());
        None
    });
    if let Some(ran) = ran.as_ref().filter(|_| !globals.json && globals.verbosity >= 0) {
        let seconds = duration(Duration::from_secs(ran.seconds));
        if ran.passed {
            say!("test:    `{command}` passes on `{target}` ({seconds})")
        } else {
            say!("{}", ran.log.trim_end());
            say!("test:    `{command}` fails on `{target}` ({}): repair that first, or name another test", ran.exit);
        }
    }
    Ok(ran)
}

/// Looks around.
fn look(globals: &Globals, root: &Path) -> Result<Survey, Failure> {
    let spawner = spawner(&globals.environment)?;
    let agents = single()?.block_on(known_agents::installed(&globals.environment, &spawner));
    let guesses = project::guesses(&files(root)?);
    let missing =
        missing_tools(globals, guesses.iter().flat_map(|guess| guess.setup.iter().chain(&guess.test)).cloned())?;
    Ok(Survey { agents, keys: survey::keys(&globals.environment), guesses, missing })
}

/// What commands need that is not installed, by the command.
fn missing_tools(
    globals: &Globals,
    commands: impl Iterator<Item = String>,
) -> Result<BTreeMap<String, MissingTool>, Failure> {
    let (spawner, environment) = (spawner(&globals.environment)?, &globals.environment);
    Ok(single()?.block_on(async {
        let mut missing = BTreeMap::new();
        for command in commands {
            if let Some(tool) = missing_tool(&command, environment, &spawner).await {
                missing.insert(command, tool);
            }
        }
        missing
    }))
}

/// The spawner.
pub fn spawner(environment: &Environment) -> Result<Spawner, Failure> {
    let shim = shim_program()
        .map_err(|error| Failure::new(Code::ProgramFailed, "pleach cannot find its own program").because(&error))?;
    Ok(Spawner::new(shim, environment))
}

/// The files at the root of the project.
fn files(root: &Path) -> Result<Files, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(Code::DiskFailed, format!("cannot read {}", root.display())).because(&error)
    };
    let mut files = Files::new();
    for entry in std::fs::read_dir(root).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        let text = if project::READ.contains(&name.as_str()) {
            plain_file::read(&root.join(&name)).unwrap_or_else(|error| {
                warning!(FileNotRead, "`{name}` is ignored: {error}");
                String::new()
            })
        } else {
            String::new()
        };
        files.insert(name, text);
    }
    Ok(files)
}

impl Survey {
    fn proposal(&self) -> Proposal<'_> {
        let first = |pick: fn(&Guess) -> &Option<String>| {
            self.guesses.iter().find_map(|guess| Some((guess.from, pick(guess).as_deref()?)))
        };
        Proposal { agent: self.agent(), setup: first(|guess| &guess.setup), test: first(|guess| &guess.test) }
    }

    /// The agent to use: one that can work at once, else the built-in one if it could, else one that is there.
    fn agent(&self) -> Option<&str> {
        let ready = self.agents.iter().find(|agent| agent.has_login || agent.has_key);
        // Without a usual model the built-in agent needs one to be named first.
        let has_model = |name: &ProviderName| usual_model(name.as_str(), "worker").is_some();
        let builtin = || Some("builtin").filter(|_| self.keys.iter().any(|(name, _)| has_model(name)));
        ready.map(|agent| agent.name).or_else(builtin).or(self.agents.first().map(|agent| agent.name))
    }

    /// How far a guess can be relied on.
    fn guessed(&self, from: &str, command: &str) -> String {
        format!(
            "Guessed from {from}, not tried{}.",
            self.lack(command).map(|lack| format!("; {lack}")).unwrap_or_default()
        )
    }

    /// What a command lacks, in words.
    fn lack(&self, command: &str) -> Option<String> {
        self.missing.get(command).map(|MissingTool { name, how }| format!("`{name}` {how}"))
    }

    fn json(&self, proposal: &Proposal<'_>, text: &str, written: bool) -> Value {
        let agents: Vec<Value> = self
            .agents
            .iter()
            .map(|agent| {
                json!({
                    "name": agent.name, "path": agent.path.to_string_lossy(), "version": agent.version,
                    "login": agent.has_login, "key": agent.has_key,
                })
            })
            .collect();
        let keys: Vec<Value> =
            self.keys.iter().map(|(provider, name)| json!({"provider": provider.as_str(), "variable": name})).collect();
        let guesses: Vec<Value> = self
            .guesses
            .iter()
            .map(|guess| json!({"from": guess.from, "setup": guess.setup, "test": guess.test}))
            .collect();
        let missing: BTreeSet<&str> = self.missing.values().map(|tool| tool.name.as_str()).collect();
        json!({
            "agents": agents, "keys": keys, "project": guesses, "missing": missing, "agent": proposal.agent,
            "file": PROJECT_FILES[0], "text": text, "written": written,
        })
    }
}

/// A bill should not be the first sign of a looping agent.
const BUDGET: &str =
    "\n# What a run may cost, in US dollars; it stops there. `per_day_usd` limits a day.\nbudget:\n  usd: 10\n";

impl Proposal<'_> {
    /// The file.
    fn text(&self, found: &Survey) -> String {
        let mut text = "# Settings of pleach for this repository; `pleach config` shows all there are.\n".to_owned();
        let names: Vec<&str> = found.agents.iter().map(|agent| agent.name).collect();
        let keys: Vec<&str> = found.keys.iter().map(|(_, name)| *name).collect();
        let here: Vec<&str> = names.into_iter().chain(keys).collect();
        match self.agent {
            Some(agent) => {
                text.push_str(&format!("\n# Who works. Found here: {}.\nagent: {agent}\n", here.join(", ")));
                text.push_str(BUDGET);
            }
            None => text.push_str(
                "\n# Who works. Neither an agent nor a key was found here, so nothing that needs one can run until one is\n\
                 # named: claude, codex, gemini, opencode, builtin, acp:COMMAND or command:COMMAND.\n# agent: claude\n",
            ),
        }
        if let Some((from, command)) = self.setup {
            text.push_str(&format!(
                "\nworktrees:\n  # Run once in each new worktree. {}\n  setup: {}\n",
                found.guessed(from, command),
                scalar(command)
            ));
        }
        if let Some((from, command)) = self.test {
            text.push_str(&format!(
                "\n# Tests prompts, tasks and merges that have no test of their own. {}\ntest_command: {}\n",
                found.guessed(from, command),
                scalar(command)
            ));
        }
        text
    }
}

/// A text as YAML: plain where that is safe, else quoted as JSON has it, which YAML reads too.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=&".contains(c);
    let is_plain =
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain) && !text.ends_with(' ');
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// Makes sure that pleach can read what it is about to write.
fn check(root: &Path, text: &str) -> Result<(), Failure> {
    let layer = Layer::file(Precedence::Project, root.join(PROJECT_FILES[0]), text.to_owned());
    config::resolve(vec![layer]).map(drop).map_err(|errors| settings::failure(&errors, root))
}

/// Asks whether to write the file.
fn agreed() -> Result<bool, Failure> {
    let refused = |message: &str| Failure::new(Code::NotConfirmed, message.to_owned());
    if !stdin_lines::is_possible() {
        return Err(refused("nothing was written: there is no terminal to confirm on")
            .hint("run `pleach init -y` to write what is shown above"));
    }
    match confirm("Write this to pleach.yaml? [y/N] ") {
        Ok(true) => Ok(true),
        Ok(false) => Err(refused("nothing was written").hint("run `pleach init` again, or write the file by hand")),
        Err(error) => Err(refused("the answer cannot be read").because(&error).hint("pass -y to approve")),
    }
}

fn write(root: &Path, text: &str) -> Result<(), Failure> {
    let path = root.join(PROJECT_FILES[0]);
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let code = if exists { Code::SettingsExist } else { Code::OutputUnwritable };
        Failure::new(code, format!("cannot write {}", path.display())).because(&error)
    })
}

/// A file is there: what would be different in it.
fn exists(globals: &Globals, root: &Path, name: &str, found: &Survey, proposal: &Proposal<'_>) -> Failure {
    let failure = |message: String| Failure::new(Code::SettingsExist, message);
    let kept = format!("`{name}` already exists and was not changed");
    let config = match settings::load(globals.environment.clone(), &Search::from(root, None)) {
        Ok(settings) => settings.resolved.config,
        Err(mistakes) => {
            return failure(format!("{kept}; it has errors: {}", mistakes.message)).hint("fix them first");
        }
    };
    let agent = config.agent.as_ref().map(ToString::to_string);
    let guess = |guessed: Option<(&str, &str)>| {
        let (from, command) = guessed?;
        let lack = found.lack(command).map(|lack| format!(" ({lack})")).unwrap_or_default();
        Some((command.to_owned(), format!("the guess from {from} is `{command}`{lack}")))
    };
    let there = proposal.agent.map(|agent| (agent.to_owned(), format!("`{agent}` was found")));
    let different: Vec<String> = [
        ("agent", agent, there),
        ("worktrees.setup", config.worktrees.setup.clone(), guess(proposal.setup)),
        ("test_command", config.test_of_work().map(str::to_owned), guess(proposal.test)),
    ]
    .into_iter()
    .filter_map(|(key, is, found)| {
        let (_, words) = found.filter(|(value, _)| is.as_ref() != Some(value))?;
        let is = is.map_or_else(|| "is not set".to_owned(), |is| format!("is `{is}`"));
        Some(format!("`{key}` {is}, but {words}"))
    })
    .collect();
    if different.is_empty() {
        failure(kept).hint("it says what was found here; `pleach config` shows every setting")
    } else {
        failure(format!("{kept}: {}", different.join("; "))).hint("change the file by hand where you agree")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(agents: &[(&'static str, bool)], keys: &[(ProviderName, &'static str)]) -> Survey {
        let agents = agents.iter().map(|(name, is_ready)| Installed {
            name,
            path: "/bin/x".into(),
            version: None,
            has_login: *is_ready,
            has_key: false,
        });
        Survey { agents: agents.collect(), keys: keys.to_vec(), guesses: Vec::new(), missing: BTreeMap::new() }
    }

    #[test]
    fn who_can_work_at_once_is_chosen() {
        let anthropic = [(ProviderName::ANTHROPIC, "ANTHROPIC_API_KEY")];
        for (agents, keys, expected) in [
            (&[("claude", false), ("gemini", true)][..], &[][..], Some("gemini")),
            (&[("gemini", false)], &anthropic[..], Some("builtin")),
            (&[("opencode", false)], &[], Some("opencode")),
            (&[], &anthropic[..], Some("builtin")),
            (&[], &[], None),
        ] {
            assert_eq!(found(agents, keys).agent(), expected, "{agents:?} {keys:?}");
        }
    }

    #[test]
    fn commands_read_back_from_the_file() {
        for command in ["npm ci", "make: it", "a # b", "go test ./...", "x 'y' \"z\"", "true", "- a", "p && q"] {
            let found = found(&[], &[]);
            let proposal = Proposal { test: Some(("Makefile", command)), ..Proposal::default() };
            let layer = Layer::file(Precedence::Project, "pleach.yaml", proposal.text(&found));
            let resolved = config::resolve(vec![layer]).unwrap_or_else(|errors| panic!("{command}: {errors:?}"));
            assert_eq!(resolved.config.test_command.as_deref(), Some(command));
        }
    }
}
