//! A place of its own for each test: temporary directories, a cleared environment, real git, the built `pleach`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::Regex;
use tempfile::TempDir;

/// How long an assertion about processes waits for what must come true.
const PATIENCE: Duration = Duration::from_secs(10);

/// What differs from run to run, and what is in its place.
static CHANCE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\b[0-9a-f]{40}\b|\b[0-9a-f]{10}\b", "[SHA]"),
        (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?", "[AT]"),
        (r"\b\d+h \d+m\b|\b\d+m \d+s\b|\b\d+(\.\d+)?(ms|s)\b", "[TIME]"),
        (r"(/worktrees/[^/\s]+)-[0-9a-f]{6,40}\b", "$1-[HASH]"),
    ];
    patterns.into_iter().map(|(pattern, with)| (Regex::new(pattern).expect("a valid pattern"), with)).collect()
});

/// The variables git finds repositories and people by, fixed for every `git` call of a test.
const GIT_ENV: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Ada Tester"),
    ("GIT_AUTHOR_EMAIL", "ada@example.org"),
    ("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z"),
    ("GIT_COMMITTER_NAME", "Ada Tester"),
    ("GIT_COMMITTER_EMAIL", "ada@example.org"),
    ("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z"),
];

/// One test's world. pleach runs in it without any git identity, because it must need none.
#[derive(Debug)]
pub struct TestEnv {
    root: PathBuf,
    sessions: RefCell<Vec<String>>,
    is_impatient: Cell<bool>,
    _dir: TempDir,
}

/// What a run of `pleach` gave. Shown as text it is normalised, so that it can be a snapshot.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; 128 + n for signal n.
    pub code: i32,
    /// Standard output as it was.
    pub stdout: String,
    /// Standard error as it was.
    pub stderr: String,
    shown: String,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Ran {
    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self}"))
    }

    /// Standard output as one JSON document per line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}

impl TestEnv {
    pub fn new() -> Self {
        Self::of(TempDir::with_prefix("pleach-test-").expect("a temporary directory"))
    }

    /// A world on the disk the tests are built on. Others may be in memory, where nothing has to be flushed.
    pub fn on_disk() -> Self {
        Self::of(TempDir::with_prefix_in("pleach-test-", env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory"))
    }

    fn of(dir: TempDir) -> Self {
        let root = dir.path().canonicalize().expect("the directory just made");
        let env = Self { root, sessions: RefCell::default(), is_impatient: Cell::new(false), _dir: dir };
        for name in ["home", "config", "state", "cache", "data", "tmp"] {
            fs::create_dir(env.root.join(name)).expect("a directory of the test's own");
        }
        env.write("home/.gitconfig", "[init]\n\tdefaultBranch = main\n");
        env
    }

    /// Another world with the same files, for what begins many times at the same point.
    #[expect(clippy::disallowed_methods, reason = "one program copies links, modes and times as they are")]
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        let done = Command::new("cp").arg("-a").args([&self.root.join("."), &copy.root]).status();
        assert!(done.expect("cp is there").success());
        copy
    }

    /// Has pleach wait but a moment for what is in its way, in a test where that stays there.
    pub fn be_impatient(&self) {
        self.is_impatient.set(true);
    }

    /// The temporary directory everything lives in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of [`TestEnv::repo`].
    pub fn repo_path(&self) -> PathBuf {
        self.root.join("repo")
    }

    /// Makes the repository `repo`: branch `main` with one commit.
    pub fn repo(&self) -> PathBuf {
        self.repo_at("repo")
    }

    /// Makes a repository under another name.
    pub fn repo_at(&self, name: &str) -> PathBuf {
        let repo = self.root.join(name);
        for (file, content) in &*TEMPLATE {
            let place = repo.join(file);
            fs::create_dir_all(place.parent().expect("a file below the root")).expect("the directories of a file");
            fs::write(place, content).expect("a file of the test's own");
        }
        for empty in ["hooks", "info", "objects/info", "objects/pack", "refs/tags"] {
            fs::create_dir_all(repo.join(".git").join(empty)).expect("a directory of git's");
        }
        // The index knows files by when and where they were written.
        self.git_in(&repo, &["add", "README.md"]);
        repo
    }

    /// Writes a file, and the directories above it, below the temporary directory.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file below the root")).expect("the directories of a file");
        fs::write(&path, content).expect("a file of the test's own");
        path
    }

    /// Writes an executable file. Another process does: one that was written by this one is busy as long as a child
    /// that another test has just started to start still has it open.
    #[expect(clippy::disallowed_methods, reason = "a program nobody in this process has had open")]
    pub fn write_program(&self, path: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.root.join(path);
        let text = self.write(path.with_extension("text"), content);
        let made = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(made.expect("install is there").success());
        fs::remove_file(text).expect("a file of the test's own");
        path
    }

    /// Reads a file below the temporary directory.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.root.join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Runs git in [`TestEnv::repo`] and gives its stdout without the last newline.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.repo_path(), args)
    }

    /// Runs git in a directory and gives its stdout without the last newline.
    #[track_caller]
    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let mut git = self.program("git", dir);
        let output = git.envs(GIT_ENV).args(args).output().expect("git can be started");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text from git").trim_end_matches('\n').to_owned()
    }

    /// A command line of `pleach`, ready to be run in [`TestEnv::repo`] (or the root, when there is none).
    pub fn command(&self, args: &[&str]) -> Command {
        let repo = self.repo_path();
        let mut command = self.program(env!("CARGO_BIN_EXE_pleach"), if repo.is_dir() { &repo } else { &self.root });
        command.args(args);
        command
    }

    /// Runs `pleach` in [`TestEnv::repo`] and waits for it.
    #[track_caller]
    pub fn pleach(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args).output().expect("pleach can be started"))
    }

    /// Runs `pleach` with text on its standard input.
    #[track_caller]
    pub fn pleach_with_stdin(&self, args: &[&str], stdin: &str) -> Ran {
        let mut command = self.command(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pleach can be started");
        // A program that does not read its input is not the test's concern here.
        let _ = child.stdin.take().expect("a piped stdin").write_all(stdin.as_bytes());
        self.finish(child.wait_with_output().expect("a child to wait for"))
    }

    /// Takes the output of a `pleach` started from [`TestEnv::command`].
    pub fn finish(&self, output: Output) -> Ran {
        use std::os::unix::process::ExitStatusExt as _;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default());
        let stdout = String::from_utf8(output.stdout).expect("text from pleach");
        let stderr = String::from_utf8(output.stderr).expect("text from pleach");
        let mut shown = format!("exit: {code}\n");
        self.learn_sessions();
        for (name, text) in [("stdout", &stdout), ("stderr", &stderr)] {
            if !text.is_empty() {
                shown.push_str(&format!("--- {name}\n{}", self.without_chance(text)));
            }
        }
        Ran { code, stdout, stderr, shown }
    }

    /// A program in a directory with nothing in its environment but what this world gives.
    #[expect(clippy::disallowed_methods, reason = "the test stands outside of pleach and starts it as a user does")]
    pub fn program(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        // Programs of the test's own come first.
        let mut path = self.root.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        // By its place, for a name with another `PATH` is looked up in a fork of this large process, which takes longer
        // than a short program does.
        let place = std::env::split_paths(&path).map(|dir| dir.join(program.as_ref())).find(|place| place.is_file());
        let mut command = Command::new(place.unwrap_or_else(|| program.as_ref().into()));
        command.current_dir(dir).stdin(Stdio::null()).env_clear().envs(self.environment()).env("PATH", path);
        command
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let below = |name: &str| self.root.join(name).into_os_string();
        let impatient = self.is_impatient.get().then(|| ("PLEACH_PATIENCE_MS", "100".into()));
        let usual = vec![
            ("HOME", below("home")),
            ("XDG_CONFIG_HOME", below("config")),
            ("XDG_STATE_HOME", below("state")),
            ("XDG_CACHE_HOME", below("cache")),
            ("XDG_DATA_HOME", below("data")),
            ("TMPDIR", below("tmp")),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("LC_ALL", "C".into()),
            ("NO_COLOR", "1".into()),
            ("PLEACH_CODES", "1".into()),
        ];
        usual.into_iter().chain(impatient).collect()
    }

    /// The sessions seen so far, oldest first as far as the test looked.
    pub fn sessions(&self) -> Vec<String> {
        self.learn_sessions();
        self.sessions.borrow().clone()
    }

    /// The only session of this world.
    #[track_caller]
    pub fn session(&self) -> String {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions.into_iter().next().expect("one session")
    }

    /// Session ids look like words, so they are taken from the refs rather than guessed from the text.
    fn learn_sessions(&self) {
        let dir = self.repo_path().join(".git");
        let git = if dir.is_file() {
            PathBuf::from(self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]))
        } else {
            [dir, self.repo_path()].into_iter().find(|dir| dir.join("HEAD").exists()).unwrap_or_default()
        };
        // Read here, for a thousand tests would start git after each of their commands.
        let loose = fs::read_dir(git.join("refs/pleach/sessions")).into_iter().flatten().flatten();
        let has_refs = |dir: &fs::DirEntry| {
            let names = fs::read_dir(dir.path()).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.into_iter().any(|name| Path::new(&name).extension().is_none_or(|end| end != "lock"))
        };
        let mut refs: Vec<String> =
            loose.filter(has_refs).filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let packed = fs::read_to_string(git.join("packed-refs")).unwrap_or_default();
        let names = packed.lines().filter_map(|line| line.split_once(" refs/pleach/sessions/"));
        refs.extend(names.filter_map(|(_, name)| name.split('/').next().map(str::to_owned)));
        refs.sort();
        let mut known = self.sessions.borrow_mut();
        for sid in refs {
            if !known.contains(&sid) {
                known.push(sid);
            }
        }
    }

    /// Replaces what differs from run to run: `[TEMP]`, `[SID]` (a second one `[SID2]`), `[SHA]`, `[AT]`, `[TIME]`.
    pub fn normalise(&self, text: &str) -> String {
        self.learn_sessions();
        self.without_chance(text)
    }

    fn without_chance(&self, text: &str) -> String {
        let mut text = text.replace(self.root.to_str().expect("a UTF-8 temporary directory"), "[TEMP]");
        for (index, sid) in self.sessions.borrow().iter().enumerate() {
            let name = if index == 0 { "[SID]".to_owned() } else { format!("[SID{}]", index + 1) };
            text = text.replace(sid.as_str(), &name);
        }
        for (pattern, with) in &*CHANCE {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        text
    }

    /// Fails the test if a process of this world still runs. Processes are known by the temporary directory in their
    /// environment or as the place they are in.
    #[track_caller]
    pub fn assert_no_process_left(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still running: {left:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a file an agent or a command leaves as its word; one that never comes fails the test.
    pub fn wait_for_file(&self, path: impl AsRef<Path>) {
        let (path, deadline) = (self.root.join(path), Instant::now() + PATIENCE);
        while !path.exists() {
            assert!(Instant::now() < deadline, "`{}` did not come", path.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The processes of this world: id and command line.
    pub fn processes(&self) -> BTreeMap<u32, String> {
        let token = self.root.to_str().expect("a UTF-8 temporary directory");
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc").expect("/proc, for these tests run on Linux").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            if cwd.starts_with(&self.root) || String::from_utf8_lossy(&environment).contains(token) {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.insert(pid, String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        found
    }
}

/// All of a checkout that belongs to its user: files, index, HEAD, config, hooks, foreign refs.
#[derive(Debug, PartialEq)]
pub struct Checkout {
    parts: BTreeMap<String, Vec<u8>>,
}

impl Checkout {
    /// Looks at the checkout of a repository. Its own refs and branches are pleach's; everything else counts.
    pub fn of(env: &TestEnv, repo: &Path) -> Self {
        let mut parts = BTreeMap::new();
        collect(repo, repo, &mut parts, &|path| path == repo.join(".git"));
        let git = repo.join(".git");
        let ours = ["objects", "refs", "logs", "packed-refs", "pleach", "worktrees"].map(|name| git.join(name));
        collect(repo, &git, &mut parts, &|path| ours.iter().any(|own| own == path));
        let refs = env.git_in(repo, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let own = ["refs/pleach/", "refs/heads/pleach/", "refs/heads/orchestra/"];
        let foreign = refs.lines().filter(|line| !own.iter().any(|prefix| line.starts_with(prefix)));
        parts.insert("(refs)".into(), foreign.collect::<Vec<_>>().join("\n").into_bytes());
        Self { parts }
    }

    /// Fails the test, naming what differs, unless the checkout is byte for byte the same now.
    #[track_caller]
    pub fn assert_unchanged(&self, env: &TestEnv, repo: &Path) {
        let now = Self::of(env, repo);
        let names: std::collections::BTreeSet<&String> = self.parts.keys().chain(now.parts.keys()).collect();
        let changed: Vec<&String> =
            names.into_iter().filter(|name| self.parts.get(*name) != now.parts.get(*name)).collect();
        assert!(changed.is_empty(), "the user's checkout has changed: {changed:?}");
    }
}

/// Files below `dir` by their path from `repo`, with what they hold: mode and content, or a link's target.
fn collect(repo: &Path, dir: &Path, parts: &mut BTreeMap<String, Vec<u8>>, skip: &dyn Fn(&Path) -> bool) {
    for entry in fs::read_dir(dir).expect("a directory of the checkout").flatten() {
        let path = entry.path();
        if skip(&path) {
            continue;
        }
        let name = path.strip_prefix(repo).expect("a path below the repository").to_string_lossy().into_owned();
        let kind = entry.metadata().expect("a file of the checkout");
        if kind.is_dir() {
            parts.insert(format!("{name}/"), Vec::new());
            collect(repo, &path, parts, skip);
        } else if kind.is_symlink() {
            parts.insert(name, fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes());
        } else {
            let mut held = kind.permissions().mode().to_be_bytes().to_vec();
            held.extend(fs::read(&path).expect("a file of the checkout"));
            parts.insert(name, held);
        }
    }
}

/// The files of a repository with one commit, without its index. It is made once: a thousand tests start with one.
static TEMPLATE: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let env = TestEnv::new();
    let repo = env.repo_path();
    fs::create_dir(&repo).expect("a directory of the test's own");
    env.git(&["init", "--quiet", "--initial-branch=main", "--template="]);
    env.write("repo/README.md", "# A repository\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Begin"]);
    fs::remove_file(repo.join(".git/index")).expect("an index");
    let (mut files, mut directories) = (Vec::new(), vec![repo.clone()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory that can be read") {
            let path = entry.expect("an entry that can be read").path();
            if path.is_dir() {
                directories.push(path)
            } else {
                let content = fs::read(&path).expect("a file that can be read");
                files.push((path.strip_prefix(&repo).expect("a file of the repository").to_owned(), content));
            }
        }
    }
    files
});

/// A fixed sequence of numbers, so that a failure can be repeated.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
