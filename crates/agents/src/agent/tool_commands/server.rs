//! The server of an agent's tools: pleach itself, started by the agent and so within its sandbox, which runs the
//! commands of a file and ends with its input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::mcp::{self, ServerAction};
use super::tool_command::{ToolCommand, describe_output};
use crate::agent::builtin::{BuiltinLimits, truncate};
use os::process::{Cancel, Canceller, CommandLimits, CommandSpec, Spawner};
use pleach_core::config::Environment;

/// How much of each output stream is kept, well above what is left after truncation.
const OUTPUT: usize = 256 << 10;

/// What the server of a job offers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServedTools {
    tools: Vec<ToolCommand>,
    /// The variables of the job: some agents keep their own from the servers they start.
    env: BTreeMap<String, Option<String>>,
}

impl ServedTools {
    pub(super) fn new(tools: &[ToolCommand], env: &[(OsString, Option<OsString>)]) -> Self {
        let text = |value: &OsString| value.to_str().map(str::to_owned);
        let pair = |(name, value): &(OsString, Option<OsString>)| match value {
            Some(value) => Some((text(name)?, Some(text(value)?))),
            None => Some((text(name)?, None)),
        };
        Self { tools: tools.to_vec(), env: env.iter().filter_map(pair).collect() }
    }

    fn read(file: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }

    /// Runs a tool to its end, and says what it said.
    async fn run(
        tool: ToolCommand,
        env: BTreeMap<String, Option<String>>,
        by: Spawner,
        cancel: Cancel,
    ) -> (String, bool) {
        let wall = Some(BuiltinLimits::default().max_command_timeout);
        let command = CommandSpec {
            env: env.into_iter().map(|(name, value)| (name.into(), value.map(OsString::from))).collect(),
            limits: CommandLimits { wall, output: OUTPUT, ..CommandLimits::default() },
            ..CommandSpec::shell(&tool.command, &tool.dir)
        };
        match by.run(command, &cancel, &mut |_, _| {}).await {
            Ok(output) => (truncate("shell", describe_output(&output)), !output.exit.success()),
            Err(error) => (error.to_string(), true),
        }
    }
}

/// `pleach __tools FILE`: offers the tools of a file over standard input and output. `shim` is the program, with
/// arguments, that calls [`exec_main`](os::process::exec_main).
pub fn tools_main(mut args: impl Iterator<Item = OsString>, shim: Vec<OsString>) -> ExitCode {
    let served = args.next().map(PathBuf::from).ok_or_else(|| io::ErrorKind::InvalidInput.into()).and_then(|file| {
        let tools = ServedTools::read(&file)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve(tools, Spawner::new(shim, &Environment::capture())))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        // The agent says which of its servers does not work.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Serves until the input ends or nobody reads the answers, and ends what is still running then.
async fn serve(tools: ServedTools, spawner: Spawner) -> io::Result<()> {
    let (line, mut lines) = mpsc::unbounded_channel();
    // Its end is the end of the input, or of this process.
    let read = move || io::stdin().lines().map_while(Result::ok).try_for_each(|text| line.send(text));
    std::thread::Builder::new().name("stdin".into()).spawn(read)?;
    let mut calls: JoinSet<(Value, (String, bool))> = JoinSet::new();
    let mut running: Vec<(Value, Canceller)> = Vec::new();
    loop {
        let answer = tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                match mcp::receive(&tools.tools, &line) {
                    ServerAction::Ignore => continue,
                    ServerAction::Answer(answer) => answer,
                    ServerAction::Call { id, tool } => {
                        let (canceller, cancel) = Cancel::new();
                        let run = ServedTools::run(tool, tools.env.clone(), spawner.clone(), cancel);
                        running.push((id.clone(), canceller));
                        calls.spawn(async move { (id, run.await) });
                        continue;
                    }
                    ServerAction::Cancel(id) => {
                        running.iter().filter(|(call, _)| *call == id).for_each(|(_, canceller)| canceller.kill());
                        // Who has given up reads no answer either.
                        running.retain(|(call, _)| *call != id);
                        continue;
                    }
                }
            }
            Some(Ok((id, (text, is_error)))) = calls.join_next(), if !calls.is_empty() => {
                let count = running.len();
                running.retain(|(call, _)| *call != id);
                if running.len() == count {
                    continue;
                }
                mcp::called(&id, &text, is_error)
            }
        };
        let mut output = io::stdout().lock();
        output.write_all(&answer)?;
        output.flush()?;
    }
    running.iter().for_each(|(_, canceller)| canceller.kill());
    while calls.join_next().await.is_some() {}
    Ok(())
}
