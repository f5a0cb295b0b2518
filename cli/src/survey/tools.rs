//! Whether what a command starts is installed.

use std::path::Path;
use std::time::Duration;

use agents::agent::find_program;
use os::process::{Cancel, CommandLimits, CommandSpec, Spawner};
use pleach_core::config::Environment;

use super::project;

/// How long Python may take to look for a module.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says `missing` where there is no such module. It only looks, and imports nothing.
const LOOK: &str = "import importlib.util, sys; print('' if importlib.util.find_spec(sys.argv[1]) else 'missing')";

/// What a command needs and does not find.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingTool {
    /// The program, or the module of Python.
    pub name: String,
    /// Where it is missing, after its name.
    pub how: String,
}

/// What is missing for a shell command, as far as that is plain to see.
pub async fn missing_tool(command: &str, environment: &Environment, spawner: &Spawner) -> Option<MissingTool> {
    let program = project::program(command)?;
    let Some(path) = find_program(program, environment) else {
        return Some(MissingTool { name: program.to_owned(), how: "is not on PATH".to_owned() });
    };
    let module = project::python_module(command)?;
    let how = format!("is not installed for `{program}`");
    lacks_module(&path, module, spawner).await.then(|| MissingTool { name: module.to_owned(), how })
}

async fn lacks_module(python: &Path, module: &str, spawner: &Spawner) -> bool {
    let limits = CommandLimits { wall: Some(PATIENCE), output: 64, ..CommandLimits::default() };
    let words = [python.as_os_str(), "-c".as_ref(), LOOK.as_ref(), module.as_ref()];
    // Away from the repository, whose own files are modules too.
    let command = CommandSpec { limits, ..CommandSpec::new(words, "/") };
    let output = spawner.run(command, &Cancel::never(), &mut |_, _| {}).await;
    output.is_ok_and(|output| output.exit.success() && output.stdout.to_text().trim() == "missing")
}
