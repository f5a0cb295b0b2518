//! The throw-away repository of the demo.

use std::path::{Path, PathBuf};

use os::process::{Blocking, run_blocking};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;

/// The repository, before and beside what pleach does in it.
#[derive(Debug)]
pub struct DemoRepository<'a> {
    pub globals: &'a Globals,
    pub dir: PathBuf,
}

impl DemoRepository<'_> {
    /// Runs git in it, without hooks and as somebody who is certain to have a name.
    pub fn git(&self, args: &[&str]) -> Result<(), Failure> {
        let own = ["user.name=pleach", "user.email=pleach@local", "commit.gpgsign=false", "core.hooksPath=/dev/null"];
        let own = own.iter().flat_map(|setting| ["-c", setting]);
        let command = Blocking {
            program: "git".into(),
            args: own.chain(args.iter().copied()).map(Into::into).collect(),
            cwd: self.dir.clone(),
            environment: Some(self.globals.environment.clone()),
            ..Blocking::default()
        };
        let failed = |why: String| {
            Failure::new(Code::GitFailed, format!("git {} failed: {why}", args.join(" "))).hint("is git installed?")
        };
        let output = run_blocking(&command).map_err(|error| failed(error.to_string()))?;
        if output.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())) }
    }

    /// Commits these files on what is checked out.
    pub fn commit(&self, subject: &str, files: &[(&str, &str)]) -> Result<(), Failure> {
        for (name, text) in files {
            let path = self.dir.join(name);
            std::fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
        }
        self.git(&["add", "."])?;
        self.git(&["commit", "--quiet", "--message", subject])
    }

    /// How commands of pleach see the world that are given here.
    pub fn commands(&self, command: &str) -> Globals {
        let dir = self.dir.clone();
        // As if it had been typed.
        let line = ["-C", &dir.display().to_string(), command].map(str::to_owned).into();
        Globals { config: Some(dir.join("pleach.yaml")), dir, line, ..self.globals.clone() }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::OutputUnwritable, format!("cannot write `{}`", path.display())).because(error)
}
