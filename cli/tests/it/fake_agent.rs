//! The scripted agent: where to find it, and that it does what its script says.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The path of the fake agent.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("fake-agent"))
}

/// The path of a program of `testing/`. Cargo builds examples only when no test is picked by name, so this builds it
/// where it is missing or older than one of their sources.
#[expect(clippy::disallowed_methods, reason = "the test builds a program")]
pub fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("the test's own path");
    let profile = tests.ancestors().nth(2).expect("the directory of the profile");
    let path = profile.join("examples").join(name);
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let sources = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("testing")).expect("their sources");
    let newest = sources.filter_map(|source| changed(&source.ok()?.path())).max();
    if changed(&path).is_none_or(|built| Some(built) < newest) {
        let mut build = Command::new(env!("CARGO"));
        // Of the whole workspace: for one package alone, half of what it is built on would be built once more.
        build.args(["build", "--quiet", "--workspace", "--example", name]);
        build.args(profile.ends_with("release").then_some("--release"));
        let done = build.arg("--target-dir").arg(profile.parent().expect("the target directory")).status();
        assert!(done.expect("cargo runs").success() && path.exists(), "build it: {build:?}");
    }
    path
}

/// An agent with a script in a directory of its own.
struct Play {
    dir: TempDir,
}

impl Play {
    fn new(script: &str) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        fs::write(dir.path().join("script"), script).expect("the script is written");
        Self { dir }
    }

    #[expect(clippy::disallowed_methods, reason = "the test runs the agent by itself")]
    fn start(&self, prompt: &str) -> Child {
        let mut agent = Command::new(path());
        agent.args(["script", "first"]).current_dir(self.dir.path());
        let path = std::env::var_os("PATH").unwrap_or_default();
        agent.env_clear().env("PATH", path).env("HOME", self.dir.path()).env("COLOUR", "green");
        agent.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut agent = agent.spawn().expect("the agent starts");
        // An agent with a broken script does not read its prompt.
        let _ = agent.stdin.take().expect("a pipe").write_all(prompt.as_bytes());
        agent
    }

    fn run(&self, prompt: &str) -> Output {
        self.start(prompt).wait_with_output().expect("the agent ends")
    }

    fn read(&self, path: impl AsRef<OsStr>) -> String {
        fs::read_to_string(self.dir.path().join(path.as_ref())).unwrap_or_default()
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.dir.path().join(path)).is_ok()
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_are_written_changed_and_deleted() {
    let play = Play::new(
        "# what an agent does\nwrite src/a.txt \"two words\\nand $ \\\"more\\\"\"\nraw b one\nappend b two\nmkdir d/e\n\
         link b l\nwrite gone x\ndelete gone\nwrite d2/x y\ndelete d2\nmode b 755\nprint a\\b\n",
    );
    let output = play.run("");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(play.read("src/a.txt"), "two words\nand $ \"more\"\n");
    assert_eq!(play.read("l"), "onetwo\n");
    assert!(play.has("d/e") && !play.has("gone") && !play.has("d2"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\\b\n");
}

#[test]
fn words_know_prompt_arguments_and_environment() {
    let play = Play::new("print \"${PROMPT}|${1}|${2}|${COLOUR}|${NOTHING}|\\${COLOUR}\"\ncomplain oops\nflood 300");
    let output = play.run("do it");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let (line, flood) = stdout.split_once('\n').expect("lines");
    assert_eq!((line, flood.len()), ("do it|first||green||${COLOUR}", 300));
    assert_eq!(output.stderr, b"oops\n");
}

#[test]
fn what_is_done_depends_on_files_and_prompt() {
    let script = "if missing done\n  write done 1\n  if prompt fix\n    print fixing\n  else\n    print starting\n  end\n\
                  else\n  if contains done 1\n    print again\n  end\nend\nif set COLOUR\nprint coloured\nend\nexit 3";
    let play = Play::new(script);
    let first = play.run("please begin");
    assert_eq!((first.status.code(), first.stdout.as_slice()), (Some(3), b"starting\ncoloured\n".as_slice()));
    assert_eq!(play.run("please fix").stdout, b"again\ncoloured\n");
    assert_eq!(Play::new(script).run("please fix").stdout, b"fixing\ncoloured\n");
}

#[test]
fn it_runs_git_and_shell_and_fails_with_them() {
    let play = Play::new("git init -q .\nwrite a b\ngit add a\nshell \"git status --short > out\"");
    assert!(play.run("").status.success());
    assert_eq!(play.read("out").lines().next(), Some("A  a"));
    let output = Play::new("print before\nshell \"exit 5\"\nprint after").run("");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(70), b"before\n".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("script:2:"), "{output:?}");
}

#[test]
fn it_crashes_and_it_waits_deaf_to_term() {
    assert_eq!(Play::new("crash").run("").status.signal(), Some(6));
    let play = Play::new("ignore-term\nwrite ready x\nwait go\nexit 4");
    let mut agent = play.start("");
    until("it is ready", || play.has("ready"));
    send(agent.id(), "TERM");
    fs::write(play.dir.path().join("go"), "").expect("written");
    assert_eq!(agent.wait().expect("it ends").code(), Some(4));

    let play = Play::new("write ready x\nhang");
    let mut agent = play.start("");
    until("it is ready", || play.has("ready"));
    send(agent.id(), "TERM");
    assert_eq!(agent.wait().expect("it ends").signal(), Some(15));
}

#[test]
fn background_processes_of_a_fake_agent_continue() {
    let play = Play::new("background log");
    assert!(play.run("").status.success());
    let lines = || play.read("log").lines().count();
    let before = lines();
    until("it writes on", || lines() > before);
    let pid: u32 = play.read("log").lines().next().and_then(|line| line.parse().ok()).expect("its pid");
    send(pid, "TERM");
    let before = lines();
    until("it writes on after TERM", || lines() > before + 2);
    send(pid, "KILL");
}

#[test]
fn a_script_error_is_named_before_anything_runs() {
    for (script, told) in [
        ("write a b\nfly", "script:2: there is no step `fly`"),
        ("write a", "script:1: `write` takes"),
        ("write a b\nif exists a", "script:2: `if` without `end`"),
        ("end", "script:1: `end` without `if`"),
        ("print \"a", "script:1: a quote is not closed"),
        ("print \"\\q\"", "script:1: `\\q` means nothing"),
    ] {
        let play = Play::new(script);
        let output = play.run("");
        assert_eq!(output.status.code(), Some(64), "{script}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(told), "{output:?}");
        assert!(!play.has("a"));
    }
}

#[expect(clippy::disallowed_methods, reason = "the test sends a signal")]
fn send(pid: u32, signal: &str) {
    let status = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}
