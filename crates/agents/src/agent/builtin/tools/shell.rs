//! Running commands for the model.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::answer::{ToolAnswer, Wrote};
use crate::agent::Job;
use crate::agent::builtin::BuiltinLimits;
use crate::agent::tool_commands::{ToolCommand, describe_output};
use os::deadline::Deadline;
use os::process::sandbox::Refusals;
use os::process::{self, Cancel, CommandSpec, Spawner};

/// How much of each output stream is kept, well above what is left after truncation.
const OUTPUT: usize = 256 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShellArgs {
    command: String,
    timeout_ms: Option<u64>,
    #[serde(rename = "description")]
    _description: Option<String>,
}

/// What commands need to run.
#[derive(Debug)]
pub(in crate::agent::builtin) struct Shell {
    spawner: Spawner,
    /// A command without words, with everything else set.
    template: CommandSpec,
    default: Duration,
    most: Duration,
    deadline: Option<Deadline>,
}

impl Shell {
    pub(in crate::agent::builtin) fn new(
        spawner: Spawner,
        job: &Job,
        limits: &BuiltinLimits,
        deadline: Option<Deadline>,
    ) -> Self {
        let template = CommandSpec {
            env: job.env.clone(),
            locks: job.locks.clone(),
            sandbox: job.sandbox.clone(),
            ..CommandSpec::shell("", &job.cwd)
        };
        Self { spawner, template, default: limits.command_timeout, most: limits.max_command_timeout, deadline }
    }

    /// Runs a command of the configuration, for which the model cannot say how long it may take.
    pub(super) async fn run_configured(&self, tool: &ToolCommand, cancel: &Cancel) -> ToolAnswer {
        let most = u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX);
        let args = ShellArgs { command: tool.command.clone(), timeout_ms: Some(most), _description: None };
        self.run(args, &tool.dir, cancel).await
    }

    pub(super) async fn run(&self, args: ShellArgs, dir: &Path, cancel: &Cancel) -> ToolAnswer {
        if args.timeout_ms == Some(0) {
            return ToolAnswer::error("`timeout_ms` counts from 1");
        }
        let asked = args.timeout_ms.map_or(self.default, Duration::from_millis);
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.left());
        let wall = asked.min(self.most).min(left);
        let limits = process::CommandLimits { wall: Some(wall), output: OUTPUT, ..process::CommandLimits::default() };
        let CommandSpec { argv, cwd, .. } = CommandSpec::shell(&args.command, dir);
        let command = CommandSpec { argv, cwd, limits, ..self.template.clone() };
        let output = match self.spawner.run(command, cancel, &mut |_, _| {}).await {
            Ok(output) => output,
            Err(error) => {
                let mut answer = ToolAnswer::error(error.to_string());
                answer.wrote = Wrote::Anything;
                return answer;
            }
        };
        let mut text = describe_output(&output);
        if matches!(output.exit, process::Exit::TimedOut(_)) && args.timeout_ms.is_none() {
            text.push_str(" (give timeout_ms for a command that needs longer)");
        }
        // Whoever meets the bounds should know them when it does, not only from its task.
        let sandbox = self.template.sandbox.as_ref();
        let refused = sandbox.map(|sandbox| process::sandbox::refusals(sandbox, &text, dir));
        let refused = if output.exit.success() { refused.map(Refusals::of_success) } else { refused };
        if let Some(refused) = refused.and_then(|refused| refused.in_words()) {
            text.push_str(&format!("\n[{refused}]"));
        }
        ToolAnswer { text, is_error: !output.exit.success(), wrote: Wrote::Anything }
    }
}
