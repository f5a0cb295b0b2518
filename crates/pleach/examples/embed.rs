//! A program that embeds pleach: it runs a pipeline of two commands on the repository it is started in.
//!
//! `cargo run -p pleach --example embed`, in a repository: the branch it names has what the commands made.

#![expect(clippy::disallowed_macros, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use pleach::{
    AutoApprove, Broadcast, Cancel, Config, Engine, Environment, Inputs, Providers, Redactor, RepoName, Roster,
    SessionRepo, Spawner, StartRequest, Supervisor, discover, exec_main, load, run_session, start_session,
};

const PIPELINE: &str = r#"digraph embedded {
    start [shape=Mdiamond]
    greet [shape=parallelogram, tool_command="echo hello > greeting.txt"]
    look [shape=parallelogram, tool_command="cat greeting.txt"]
    exit [shape=Msquare]
    start -> greet -> look -> exit
}"#;

fn main() -> ExitCode {
    // Every command runs below this program once more, so that none outlives it.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|mode| mode == "__exec") {
        return exec_main(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let environment = Environment::capture();
    let spawner = Spawner::new(vec![std::env::current_exe()?.into(), "__exec".into()], &environment);
    let providers = Providers::new(&Config::default(), &environment, &spawner, None);
    let engine = Engine {
        supervisor: Supervisor::new(spawner.clone(), std::env::temp_dir().join("pleach-embed")),
        worktrees: Default::default(),
        agents: Roster::new(&Config::default(), providers, spawner),
        interviewer: Box::new(AutoApprove),
        handlers: BTreeMap::new(),
        scribe: None,
        sandbox: None,
        output_chars: 4_000,
        tiers: Default::default(),
        push: Default::default(),
        budget: Default::default(),
        attribution: Default::default(),
        mirror: None,
        redactor: Redactor::new(std::iter::empty::<(String, String)>()),
        events: Broadcast::default(),
        cancel: Cancel::never(),
    };
    let (pipeline, diagnostics) = load(PIPELINE, &Inputs::default(), &[]);
    let pipeline = pipeline.ok_or_else(|| format!("{diagnostics:?}"))?;
    let repo = discover(&std::env::current_dir()?, &environment)?;
    let record =
        SessionRepo { repo, name: RepoName::new("repo")?, branch_prefix: "pleach/".into(), at: None, arrival: None };
    let request = StartRequest {
        record,
        others: Vec::new(),
        pipeline,
        dot: PIPELINE.into(),
        dot_path: "embedded.dot".into(),
        files: BTreeMap::new(),
        inputs: BTreeMap::new(),
        config: Default::default(),
        simulated: false,
        resolves: None,
    };
    let mut session = start_session(Arc::new(engine), request, &mut |_| {}).await?;
    let ended = run_session(&mut session).await?;
    println!("session {} has ended: {ended:?}", session.id());
    Ok(())
}
