//! Turns as the engine makes them, through the library: what an agent wrote becomes a commit and a record.

use std::error::Error;
use std::path::{Path, PathBuf};

use git::record::{Batch, ChainEnd, Recorder};
use git::workspace::{self, Author, CopyOwner, CopyPosition, Lock, WorkingCopy, branch_ref};
use git::{CommitLimits, CommitSpec, Durability, Person, Repo, Worktree};
use jiff::Timestamp;
use pleach_core::event::{AgentTurn, Commits, Event, MessageRange, Recorded, Snapshot, ToolCall, TurnCommitted};
use pleach_core::ids::{BranchName, CommitId, ContextId, NodeId, PipelineName, RepoName, RepoPath, SessionId, TurnId};
use pleach_core::redact::Redactor;
use pleach_core::trailer::TurnFacts;
use serde_json::{Value, json};

use super::samples::Samples;
use super::world::World;

/// The times of a turn's parts.
#[derive(Debug, Default)]
pub struct Parts {
    /// Looking at the paths the agent's tools wrote.
    pub scan: Samples,
    /// Blobs, trees and commit, on disk, and the branch moved.
    pub commit: Samples,
    /// Events and messages on disk, and the session's ref moved.
    pub record: Samples,
}

/// A session with one working copy.
#[derive(Debug)]
pub struct Session {
    repo: Repo,
    id: SessionId,
    redactor: Redactor,
    chain: Option<ChainEnd>,
    turns: u64,
    /// The working copy as the engine holds it.
    copy: WorkingCopy,
    /// A second look at the same directory, for turns that are measured part by part. They go to their own branch.
    worktree: Worktree,
    parts_tip: CommitId,
}

const BRANCH: &str = "pleach/bench/whole";
const PARTS_BRANCH: &str = "refs/heads/pleach/bench/parts";

impl Session {
    /// A session in the repository, with a working copy of its own.
    pub fn start(world: &World, checkout: &Path) -> Result<Self, Box<dyn Error>> {
        let repo = git::discover(checkout, &world.counted())?;
        let head = repo.head()?.commit;
        let path = world.root().join("copy");
        let worktree = git::worktree::add(&repo, &path, head)?;
        let (branch, name) = (BranchName::new(BRANCH)?, RepoName::new("bench")?);
        for reference in [branch_ref(&branch).as_str(), PARTS_BRANCH] {
            repo.refs().swap(reference, None, head, "bench")?;
        }
        let id = SessionId::new("benchaaa")?;
        let owner = CopyOwner {
            session: id.clone(),
            branch,
            carries: Commits::Turns,
            limits: CommitLimits::default(),
            lock: Lock::take(repo.common_dir(), "worktree-bench", "the benchmark")?,
        };
        let copy = WorkingCopy::new(repo.clone(), name, worktree, CopyPosition::all(head), owner)?;
        let worktree = git::worktree::open(&repo, &path)?;
        let redactor = Redactor::new(Vec::<(String, String)>::new());
        Ok(Self { repo, id, redactor, chain: None, turns: 0, copy, worktree, parts_tip: head })
    }

    /// Where the agent works.
    pub fn path(&self) -> &Path {
        self.copy.path()
    }

    /// How many turns the session has.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// A recorder that goes on with the session's record.
    pub fn recorder(&self, durability: Durability) -> Recorder {
        let repo = self.repo.clone().with_durability(durability);
        let (id, context, redactor) = (self.id.clone(), ContextId::main(), self.redactor.clone());
        match self.chain.clone() {
            Some(chain) => Recorder::resume(repo, id, context, redactor, chain),
            None => Recorder::create(repo, id, context, redactor),
        }
    }

    /// A turn in the engine's order: prepare the commit, write record and commit together, move the branch, accept.
    pub fn turn(
        &mut self,
        recorder: &mut Recorder,
        durability: Durability,
        paths: &[String],
        samples: &mut Samples,
    ) -> Result<(), Box<dyn Error>> {
        let candidates: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let repo = self.repo.clone().with_durability(durability);
        self.copy.repo = repo.clone();
        let (facts, at, messages) = (self.facts()?, pleach_core::clock::now(), messages(paths));
        let record = samples.time(|| -> Result<_, Box<dyn Error>> {
            let message = |paths: &[RepoPath], _: bool| subject(paths.len());
            let author = Author { facts, trailers: Vec::new(), at, message: &message };
            let mut change = workspace::prepare_commit(&mut self.copy, &author, Some(&candidates))?;
            let commit = change.commit.ok_or("a turn of a benchmark changes files")?;
            let writer = std::mem::replace(&mut change.writer, repo.writer());
            let batch = self.batch(commit, &change.paths, messages, at)?;
            let record = recorder.append(writer, &batch)?;
            repo.refs().swap(
                &branch_ref(&self.copy.branch),
                change.branch.and_then(|seen| seen.at),
                commit,
                "pleach: turn",
            )?;
            self.copy.accept(&change)?;
            Ok(record)
        })?;
        self.count(record);
        Ok(())
    }

    /// The same work, with the commit and the record written one after the other so that each can be timed.
    pub fn turn_in_parts(
        &mut self,
        durability: Durability,
        paths: &[String],
        parts: &mut Parts,
    ) -> Result<(), Box<dyn Error>> {
        let candidates: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let repo = self.repo.clone().with_durability(durability);
        let mut recorder = self.recorder(durability);
        let (at, messages) = (pleach_core::clock::now(), messages(paths));
        let scan = parts.scan.time(|| git::worktree::scan_paths(&mut self.worktree, &candidates))?;
        let (commit, changed) = parts.commit.time(|| -> Result<_, Box<dyn Error>> {
            let mut writer = repo.writer();
            let written = git::worktree::commit_tree(&mut self.worktree, &scan, &mut writer, &CommitLimits::default())?;
            let commit = writer.commit(&CommitSpec {
                tree: written.tree,
                parents: vec![self.parts_tip],
                author: Person::new("work (scripted)", "orchestra@local"),
                committer: Person::pleach(),
                message: subject(written.paths.len()).into_bytes(),
                at,
            })?;
            writer.flush()?;
            repo.refs().swap(PARTS_BRANCH, Some(self.parts_tip), commit, "pleach: turn")?;
            self.worktree.accept(written.tree)?;
            Ok((commit, written.paths))
        })?;
        self.parts_tip = commit;
        let batch = self.batch(commit, &changed, messages, at)?;
        let record = parts.record.time(|| recorder.append(repo.writer(), &batch))?;
        self.count(record);
        Ok(())
    }

    fn count(&mut self, record: CommitId) {
        let first = ChainEnd { first: record, forks: Vec::new(), tip: record, messages: 0 };
        let end = self.chain.take().unwrap_or(first);
        self.chain = Some(ChainEnd { tip: record, messages: end.messages + 2, ..end });
        self.turns += 1;
    }

    fn turn_id(&self) -> TurnId {
        TurnId::of_main(self.turns + 1)
    }

    fn facts(&self) -> Result<TurnFacts, Box<dyn Error>> {
        Ok(TurnFacts {
            model: "scripted".into(),
            provider: "script".into(),
            node: NodeId::new("work")?,
            pipeline: PipelineName::of_graph("bench")?,
            session: self.id.clone(),
            turn: self.turn_id(),
        })
    }

    fn batch(
        &self,
        commit: CommitId,
        paths: &[RepoPath],
        messages: Vec<Value>,
        at: Timestamp,
    ) -> Result<Batch, Box<dyn Error>> {
        let (turn, repo) = (self.turn_id(), self.copy.name.clone());
        let first = self.chain.as_ref().map_or(0, |end| end.messages) + 1;
        let call = ToolCall {
            id: "call-1".into(),
            name: "write_file".into(),
            arguments: json!({"file_path": paths.first()}),
            is_error: false,
        };
        let agent_turn = AgentTurn {
            turn: turn.clone(),
            turn_number: turn.number,
            node_id: NodeId::new("work")?,
            visit: 1,
            attempt: 1,
            agent: "builtin".into(),
            model: "scripted".into(),
            provider: "script".into(),
            messages: Some(MessageRange { first, last: first + messages.len() as u64 - 1 }),
            tool_calls: vec![call],
            files_written: [(repo.clone(), paths.to_vec())].into(),
            token_usage: Default::default(),
            cost_usd: None,
            estimated: false,
            unbilled: false,
            side_calls: Vec::new(),
            git_sha: Some(Snapshot::from([(repo.clone(), commit)])),
            agent_head: None,
            commit_message: Some(subject(paths.len())),
            boundary: "exact".into(),
            agent_state_ref: None,
            is_last: false,
            extra: Default::default(),
        };
        let branch = self.copy.branch.clone();
        let committed = TurnCommitted { turn, repo, branch, git_sha: commit, extra: Default::default() };
        let events: [Event; 2] = [agent_turn.into(), committed.into()];
        Ok(Batch {
            summary: format!("turn main.{}: work", self.turns + 1),
            events: events.into_iter().map(|event| Recorded { at, event }).collect(),
            messages,
            work: vec![commit],
            ..Batch::default()
        })
    }
}

fn subject(files: usize) -> String {
    format!("Change {files} files as the plan says")
}

/// What an agent says and is told in a turn: some words, the content of each file it writes, and an answer.
fn messages(paths: &[String]) -> Vec<Value> {
    let words = "The next step of the plan is to change these files; the tests come after that. ".repeat(4);
    let calls = paths.iter().map(|path| {
        let arguments = json!({"file_path": path, "content": words});
        json!({"type": "tool_call", "id": "call-1", "name": "write_file", "arguments": arguments})
    });
    let said = std::iter::once(json!({"type": "text", "text": words})).chain(calls);
    let results =
        paths.iter().map(|path| json!({"type": "tool_result", "id": "call-1", "content": format!("wrote {path}")}));
    vec![
        json!({"role": "assistant", "content": said.collect::<Vec<_>>()}),
        json!({"role": "tool", "content": results.collect::<Vec<_>>()}),
    ]
}
