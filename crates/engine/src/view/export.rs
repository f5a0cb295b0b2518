//! The run directory: a session exported as plain files, for programs that expect them.
//!
//! ```text
//! manifest.json          what was run
//! checkpoint.json        where the run stands, as of its newest checkpoint
//! {node}/prompt.md       what the node was asked
//! {node}/response.md     what it answered
//! {node}/status.json     how it ended
//! ```
//!
//! If a node was visited more than once, its newest finished visit counts.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::View;
use crate::env::Error;
use git::Repo;
use pleach_core::event::{Event, NodeExecution, status_file};
use pleach_core::ids::{NodeId, SessionId};

const MANIFEST: &str = "manifest.json";

/// Why a session was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The record could not be read.
    #[error(transparent)]
    Session(#[from] Error),
    /// The directory holds something else.
    #[error("`{}` is not empty and holds no export of session {session}", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// The session to export.
        session: SessionId,
    },
    /// A file or link is in place of a directory. The export never writes through links.
    #[error("`{}` is not a directory", path.display())]
    NotADirectory {
        /// Its path.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl View {
    /// Writes the run directory. Returns the files written, relative to it. A directory that is not empty is used only
    /// if it holds an earlier export of this session.
    pub fn export(&self, repo: &Repo, dir: &Path) -> Result<Vec<PathBuf>, ExportError> {
        self.claim(dir)?;
        let mut target = ExportTarget { dir, written: Vec::new() };
        // Written first, so that an interrupted export is recognised as one.
        target.json(MANIFEST, &self.manifest())?;
        for (node, (_, execution)) in self.executions() {
            self.export_node(repo, &mut target, node, execution)?;
        }
        if let Some(checkpoint) = self.checkpoint_file() {
            target.json("checkpoint.json", &checkpoint)?;
        }
        Ok(target.written)
    }

    fn claim(&self, dir: &Path) -> Result<(), ExportError> {
        let failed = |doing| move |source| ExportError::Io { doing, path: dir.to_owned(), source };
        match fs::metadata(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return fs::create_dir_all(dir).map_err(failed("create"));
            }
            Ok(metadata) if !metadata.is_dir() => return Err(ExportError::NotADirectory { path: dir.to_owned() }),
            other => other.map_err(failed("look at"))?,
        };
        if fs::read_dir(dir).map_err(failed("list"))?.next().is_none() {
            return Ok(());
        }
        let manifest = fs::read(dir.join(MANIFEST)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let exported = manifest.and_then(|manifest: Value| Some(manifest.get("session")?.as_str()?.to_owned()));
        let session = &self.summary.session;
        match exported {
            Some(exported) if exported == session.as_str() => Ok(()),
            _ => Err(ExportError::NotEmpty { dir: dir.to_owned(), session: session.clone() }),
        }
    }

    fn manifest(&self) -> Value {
        let summary = &self.summary;
        json!({
            "name": summary.started.name,
            "goal": summary.started.goal,
            "start_time": summary.started_at,
            "session": summary.session,
            "standing": summary.standing(),
            "base": summary.base(),
            "branch": summary.branch().map(|(_, branch)| branch),
            "commit": summary.work(),
            "repos": summary.repos().map(|repo_work| json!({
                "repo": repo_work.repo, "branch": repo_work.branch, "base": repo_work.base, "commit": repo_work.work,
            })).collect::<Vec<_>>(),
        })
    }

    /// The newest checkpoint; `None` before the first node has ended.
    fn checkpoint_file(&self) -> Option<Value> {
        let newest = self.events().filter_map(|(_, recorded)| match &recorded.event {
            Event::Checkpoint(data) => Some((recorded.at, data)),
            _ => None,
        });
        let (at, checkpoint) = newest.last()?;
        Some(json!({
            "timestamp": at,
            "current_node": checkpoint.current_node,
            "completed_nodes": checkpoint.completed_nodes,
            "node_retries": checkpoint.node_retries,
            "node_outcomes": checkpoint.node_outcomes,
            "context": checkpoint.context,
            "logs": self.logs(),
        }))
    }

    /// A log with one line for each attempt at a node and for each warning.
    fn logs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (_, recorded) in self.events() {
            let Event::NodeExecution(data) = &recorded.event else { continue };
            let why = data.outcome.failure_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let pass = format!("visit {} attempt {}", data.visit, data.attempt);
            lines.push(format!("{} {} {pass}: {}{why}", recorded.at, data.node_id, data.outcome.status));
            lines.extend(
                data.warnings.iter().map(|warning| format!("{} {} warning: {warning}", recorded.at, data.node_id)),
            );
        }
        lines
    }

    fn export_node(
        &self,
        repo: &Repo,
        target: &mut ExportTarget<'_>,
        node: &NodeId,
        execution: &NodeExecution,
    ) -> Result<(), ExportError> {
        let text = |number: Option<u64>| match number {
            Some(number) => self.message(repo, number).map(|message| Some(message.text())),
            None => Ok(None),
        };
        let (mut prompt, mut response) = (text(execution.prompt)?, text(execution.response)?);
        if let Some(answer) = self.answers().get(node).filter(|answer| answer.visit == execution.visit) {
            prompt = prompt.or_else(|| Some(answer.question.clone()));
            response = response.or_else(|| Some(answer.answer.clone()));
        }
        target.directory(node.as_str())?;
        for (name, text) in [("prompt.md", prompt), ("response.md", response)] {
            if let Some(text) = text {
                target.file(&format!("{node}/{name}"), text.as_bytes())?;
            }
        }
        target.json(&format!("{node}/status.json"), &status_file::write(&execution.outcome))
    }
}

/// The target directory. Node ids are plain words, so no path leads out of it; links in it are not followed.
struct ExportTarget<'a> {
    dir: &'a Path,
    written: Vec<PathBuf>,
}

impl ExportTarget<'_> {
    fn directory(&self, name: &str) -> Result<(), ExportError> {
        let path = self.dir.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(ExportError::NotADirectory { path }),
            Err(_) => fs::create_dir(&path).map_err(|source| ExportError::Io { doing: "create", path, source }),
        }
    }

    fn json(&mut self, name: &str, value: &Value) -> Result<(), ExportError> {
        self.file(name, format!("{value:#}\n").as_bytes())
    }

    /// Writes to a temporary file and renames it: a reader sees the old file or the new one, and a link is replaced,
    /// not followed.
    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.dir.join(name);
        let beside = path.with_extension("new");
        let write = || -> io::Result<()> {
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = fs::File::create_new(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        };
        write().map_err(|source| ExportError::Io { doing: "write", path: path.clone(), source })?;
        self.written.push(PathBuf::from(name));
        Ok(())
    }
}
