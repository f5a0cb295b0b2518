//! A spawner as pleach has it.

use os::process::Spawner;
use pleach_core::config::Environment;

pub fn spawner() -> Spawner {
    Spawner::new(vec![env!("CARGO_BIN_EXE_agents-shim").into(), "__exec".into()], &Environment::capture())
}
