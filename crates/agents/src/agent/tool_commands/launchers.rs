//! The tools of a job as programs find them: a command on PATH for each, and a server that offers them.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::server::ServedTools;
use super::tool_command::{ConfiguredTools, ToolCommand};
use crate::agent::{AgentError, Job};
use os::confined_fs::remove_all;
use os::process::CommandSpec;

/// The directory of the commands.
const COMMANDS: &str = "bin";

/// What the server reads.
const SERVED: &str = "tools.json";

/// The commands of a job on the PATH of its agent. They are its children, so its sandbox holds them.
#[derive(Debug, Clone)]
pub(in crate::agent) struct Launchers {
    dir: PathBuf,
    commands: Vec<ToolCommand>,
    /// The server that offers the same commands, where there is a program for it.
    server: Option<ToolServer>,
}

/// How an agent starts the server of its tools: the program and its arguments.
#[derive(Debug, Clone)]
pub(in crate::agent) struct ToolServer {
    /// The name agents know it by.
    pub name: &'static str,
    argv: Vec<String>,
}

impl Launchers {
    /// Makes the commands of a job, in a directory no agent can write to; none where the job has none. `server` is the
    /// program, with arguments, that calls [`tools_main`](super::tools_main).
    pub fn install(tools: &ConfiguredTools, job: &Job, server: &[OsString]) -> Result<Option<Self>, AgentError> {
        let commands = tools.of_job(job);
        let Some(dir) = job.launchers.as_ref().filter(|_| !commands.is_empty()) else { return Ok(None) };
        make(dir, &commands, job).map_err(|error| {
            AgentError::Transient(format!("cannot make the commands of the agent in {}: {error}", dir.display()))
        })?;
        let served = dir.join(SERVED);
        let words = server.iter().map(OsString::as_os_str).chain([served.as_os_str()]);
        let argv: Option<Vec<String>> = words.map(|word| word.to_str().map(str::to_owned)).collect();
        let server = argv.filter(|_| !server.is_empty()).map(|argv| ToolServer { name: "pleach", argv });
        Ok(Some(Self { dir: dir.join(COMMANDS), commands, server }))
    }

    /// The server that offers them as well.
    pub fn server(&self) -> Option<&ToolServer> {
        self.server.as_ref()
    }

    /// Puts the commands first on the PATH of an agent, which inherits this one where its variables do not say more.
    pub fn add_to_path(&self, env: &mut Vec<(OsString, Option<OsString>)>, inherited: Option<&OsStr>) {
        let set = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_deref());
        let mut path = self.dir.clone().into_os_string();
        if let Some(rest) = set.unwrap_or(inherited).filter(|rest| !rest.is_empty()) {
            path.push(":");
            path.push(rest);
        }
        env.push(("PATH".into(), Some(path)));
    }

    /// The commands in words, for a prompt.
    pub fn describe(&self) -> String {
        let line = |tool: &ToolCommand| format!("\n- `{}`: {}", tool.wire_name(), tool.description());
        let lines: String = self.commands.iter().map(line).collect();
        format!("Commands of this project for you, on PATH and in `{}`:{lines}", self.dir.display())
    }
}

impl ToolServer {
    /// The program, as JSON.
    pub fn command(&self) -> String {
        Value::from(self.argv.first().map(String::as_str).unwrap_or_default()).to_string()
    }

    /// Its arguments, as JSON.
    pub fn args(&self) -> String {
        Value::from(self.argv.get(1..).unwrap_or_default()).to_string()
    }

    /// The program and its arguments, as JSON.
    pub fn argv(&self) -> String {
        Value::from(self.argv.as_slice()).to_string()
    }

    /// The server, as the Agent Client Protocol has it.
    pub fn over_acp(&self) -> Value {
        json!({"name": self.name, "command": self.argv.first(), "args": self.argv.get(1..), "env": []})
    }

    /// The program's file.
    pub fn program(&self) -> PathBuf {
        self.argv.first().map(PathBuf::from).unwrap_or_default()
    }
}

/// Writes the directory anew: earlier jobs may have had other tools.
fn make(dir: &Path, commands: &[ToolCommand], job: &Job) -> io::Result<()> {
    match remove_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let bin = dir.join(COMMANDS);
    std::fs::create_dir_all(&bin)?;
    for tool in commands {
        let file = bin.join(tool.wire_name());
        std::fs::write(&file, script(tool, &bin))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    }
    let served = serde_json::to_vec(&ServedTools::new(commands, &job.env))?;
    // The variables are nobody else's business.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(SERVED))?;
    file.write_all(&served)
}

/// The script that runs a tool. What it runs finds no launchers on PATH: a tool may have the name of a program it uses.
fn script(tool: &ToolCommand, bin: &Path) -> Vec<u8> {
    let CommandSpec { argv, cwd, .. } = CommandSpec::shell(&tool.command, &tool.dir);
    let words: Vec<Vec<u8>> = argv.iter().map(|word| quoted(word)).collect();
    let own = quoted(bin.as_os_str());
    let name = tool.wire_name();
    [
        b"#!/bin/sh\nown=",
        own.as_slice(),
        b"\nPATH=${PATH#\"$own\":}\ncd ",
        &quoted(cwd.as_os_str()),
        b" || exit 126\nexec ",
        &words.join(&b' '),
        b" ",
        &quoted(OsStr::new(&name)),
        b" \"$@\"\n",
    ]
    .concat()
}

fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(br"'\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::config::{Layer, Precedence, resolve};
    use pleach_core::ids::NodeId;

    #[test]
    fn commands_are_made_anew_and_first_on_path() {
        let dir = tempfile::tempdir().unwrap();
        let yaml =
            "tools: [{name: say, command: x}]\nworkspace: {repos: {a: {path: a}}, tools: {a: {t: {command: y}}}}";
        let config = resolve(vec![Layer::file(Precedence::Project, Path::new("/p/pleach.yaml"), yaml)]).unwrap().config;
        let tools = ConfiguredTools::of(&config);
        assert_eq!(tools.names().collect::<Vec<_>>(), ["say", "a:t"]);
        let mut job = Job::new(NodeId::new("n").unwrap(), "task", dir.path(), dir.path().join("status.json"));
        assert!(Launchers::install(&tools, &job, &[]).unwrap().is_none(), "there is no place for them");
        let place = dir.path().join("it's/tools");
        job.launchers = Some(place.clone());
        std::fs::create_dir_all(place.join("bin")).unwrap();
        std::fs::write(place.join("bin/old"), "").unwrap();
        let launchers = Launchers::install(&tools, &job, &["/bin/pleach".into()]).unwrap().unwrap();
        let names: Vec<_> =
            std::fs::read_dir(place.join("bin")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["say"], "the job does not work in the repository `a`");
        let bin = place.join("bin").into_os_string().into_string().unwrap();
        let path = |mut env: Vec<(OsString, Option<OsString>)>, inherited: Option<&str>| {
            launchers.add_to_path(&mut env, inherited.map(OsStr::new));
            env.pop().unwrap().1.unwrap().into_string().unwrap()
        };
        assert_eq!(path(Vec::new(), Some("/bin")), format!("{bin}:/bin"));
        assert_eq!(path(vec![("PATH".into(), Some("/own".into()))], Some("/bin")), format!("{bin}:/own"));
        assert_eq!(path(vec![("PATH".into(), None)], Some("/bin")), bin);
        assert_eq!(
            launchers.describe(),
            format!("Commands of this project for you, on PATH and in `{bin}`:\n- `say`: Runs `x`.")
        );
        let server = launchers.server().unwrap();
        assert_eq!(server.argv(), format!("[\"/bin/pleach\",\"{}\"]", place.join("tools.json").display()));
        let script = std::fs::read_to_string(place.join("bin/say")).unwrap();
        assert!(script.contains(r"it'\''s/tools/bin'") && script.ends_with(" '-c' 'x' 'say' \"$@\"\n"), "{script}");
        job.tools = false;
        assert!(Launchers::install(&tools, &job, &[]).unwrap().is_none(), "the node has no tools");
    }
}
