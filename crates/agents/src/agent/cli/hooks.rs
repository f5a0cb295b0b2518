//! Hooks of an agent that wait until a turn is committed: the hook is pleach itself, which asks the pleach that runs
//! the agent over a socket and waits for its answer.
//!
//! The socket lies in a directory whose path may be longer than a socket's name can be, so both ends reach it through
//! the directory's descriptor.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use os::deadline::within;

/// What an agent's hook tells at most.
const LONGEST: u64 = 64 << 20;

/// How long a hook may take to send its input: it has that before it connects, or gets it at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where hooks are listened to.
#[derive(Debug)]
pub(crate) struct HookListener {
    waiting: mpsc::UnboundedReceiver<WaitingHook>,
    accepting: AbortHandle,
    path: PathBuf,
}

/// A hook that waits.
#[derive(Debug)]
pub(crate) struct WaitingHook {
    /// What the agent sent it.
    pub event: Value,
    stream: tokio::net::UnixStream,
}

impl HookListener {
    /// Listens in a directory of the session's agents.
    pub fn open(home: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let name = format!("hook-{:08x}", fastrand::u32(..));
        let listener = through(home, &name, |short| UnixListener::bind(short))?;
        let (sender, waiting) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(accept(listener, sender)).abort_handle();
        Ok(Self { waiting, accepting, path: home.join(name) })
    }

    /// The settings by which Claude Code runs `hook` after the tools of every call, and when it wants to end.
    pub fn settings(&self, hook: &[OsString]) -> String {
        let words = hook.iter().map(OsString::as_os_str).chain([self.path.as_os_str()]);
        let command: Vec<String> = words.map(quoted).collect();
        // It waits for a commit, and a repository may be large.
        let hook = json!({"type": "command", "command": command.join(" "), "timeout": 600});
        let hooks = json!([{"hooks": [hook]}]);
        json!({"hooks": {"PostToolBatch": hooks, "Stop": hooks}}).to_string()
    }

    /// The next hook that waits. Waiting for it may be given up at any time.
    pub async fn next(&mut self) -> WaitingHook {
        match self.waiting.recv().await {
            Some(waiting) => waiting,
            // Nobody accepts any more, so no hook comes.
            None => std::future::pending().await,
        }
    }
}

/// Reads the input of each hook by itself: a slow one blocks no other. What cannot be read is let go.
async fn accept(listener: UnixListener, waiting: mpsc::UnboundedSender<WaitingHook>) {
    let mut reading = JoinSet::new();
    loop {
        while reading.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, most likely; others will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if waiting.is_closed() {
            return;
        }
        let waiting = waiting.clone();
        reading.spawn(async move {
            if let Some(Some(said)) = within(PATIENCE, read(stream)).await {
                // The listener is gone, so no answer is awaited.
                let _ = waiting.send(said);
            }
        });
    }
}

async fn read(mut stream: tokio::net::UnixStream) -> Option<WaitingHook> {
    let mut bytes = Vec::new();
    (&mut stream).take(LONGEST).read_to_end(&mut bytes).await.ok()?;
    Some(WaitingHook { event: serde_json::from_slice(&bytes).ok()?, stream })
}

impl Drop for HookListener {
    fn drop(&mut self) {
        self.accepting.abort();
        // The directory goes with the session in any case.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl WaitingHook {
    /// The tools whose end the hook tells of, by the ids of their calls.
    pub fn tools(&self) -> Vec<String> {
        let calls = self.event.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        calls.filter_map(|call| call.get("tool_use_id")?.as_str().map(str::to_owned)).collect()
    }

    /// Whether the agent's own call is over, and not one of its subagents'.
    pub fn is_of_agent(&self) -> bool {
        self.event.get("agent_id").is_none_or(Value::is_null)
    }

    /// Whether the agent wants to end, rather than that tools have ended.
    pub fn is_end(&self) -> bool {
        self.event.get("hook_event_name").and_then(Value::as_str) == Some("Stop")
    }

    /// Lets the agent continue, or not.
    pub async fn answer(mut self, go_on: bool) {
        let answer = if go_on {
            json!({})
        } else {
            json!({"continue": false, "stopReason": "pleach stops the run after this turn"})
        };
        // An agent that was killed does not wait any more.
        let _ = self.stream.write_all(answer.to_string().as_bytes()).await;
        let _ = self.stream.shutdown().await;
    }
}

/// Reaches a file of a directory by a name short enough for a socket.
fn through<T>(dir: &Path, name: &str, reach: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let held = std::fs::File::open(dir)?;
    reach(PathBuf::from(format!("/proc/self/fd/{}/{name}", held.as_raw_fd())))
}

fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

/// `pleach __hook SOCKET`: passes on what the agent says, waits, and gives back what is answered.
pub fn hook_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut passed_on = || -> io::Result<()> {
        let path = args.next().map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput)?;
        let name = path.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut stream = through(dir, name, UnixStream::connect)?;
        let mut bytes = Vec::new();
        io::stdin().lock().take(LONGEST).read_to_end(&mut bytes)?;
        stream.write_all(&bytes)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        io::stdout().lock().write_all(&answer)
    };
    match passed_on() {
        Ok(()) => ExitCode::SUCCESS,
        // The agent continues; the turn is committed with the next one.
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hook_waits_for_its_answer_in_a_deep_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("d".repeat(120)).join("e".repeat(120));
        let mut listener = HookListener::open(&home).unwrap();
        let path = listener.path.clone();
        let settings = listener.settings(&["/opt/a b/pleach".into(), "__hook".into()]);
        let parsed: Value = serde_json::from_str(&settings).unwrap();
        assert_eq!(parsed["hooks"]["Stop"], parsed["hooks"]["PostToolBatch"]);
        assert!(settings.contains(&format!("'/opt/a b/pleach' '__hook' '{}'", path.display())), "{settings}");
        let hook = tokio::task::spawn_blocking(move || {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let mut stream = through(path.parent().unwrap(), &name, UnixStream::connect).unwrap();
            stream.write_all(br#"{"tool_calls":[{"tool_use_id":"a"}]}"#).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let waiting = listener.next().await;
        assert_eq!(waiting.tools(), ["a"]);
        assert!(waiting.is_of_agent());
        waiting.answer(false).await;
        assert!(hook.await.unwrap().contains("\"continue\":false"));
    }

    #[tokio::test]
    async fn a_silent_hook_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut listener = HookListener::open(dir.path()).unwrap();
        let silent = tokio::net::UnixStream::connect(&listener.path).await.unwrap();
        let mut other = tokio::net::UnixStream::connect(&listener.path).await.unwrap();
        other.write_all(br#"{"hook_event_name":"Stop"}"#).await.unwrap();
        other.shutdown().await.unwrap();
        let waiting = listener.next().await;
        assert!(waiting.is_end());
        waiting.answer(true).await;
        let mut answer = String::new();
        other.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "{}");
        drop(silent);
    }
}
