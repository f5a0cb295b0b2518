//! Commands below a real supervisor: how they end, what they may see, and that nothing of them stays.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use os::process::{
    Blocking, BlockingOutput, Cancel, Canceller, CommandSpec, Exit, Output, OutputStream, SpawnError, Spawner, Stdin,
    Timeout, run_blocking,
};
use pleach_core::config::Environment;
use tempfile::TempDir;

/// How long a test waits for a fact before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The test program that is supervisor and parent.
pub const TEST_PROGRAM: &str = env!("CARGO_BIN_EXE_exec-shim");

/// A spawner as pleach has it.
pub fn spawner() -> Spawner {
    spawner_with(&Environment::capture())
}

fn spawner_with(environment: &Environment) -> Spawner {
    Spawner::new(vec![TEST_PROGRAM.into(), "__exec".into()], environment)
}

fn dir() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

async fn run(command: CommandSpec) -> Output {
    spawner().run(command, &Cancel::never(), &mut |_, _| {}).await.expect("it runs")
}

async fn run_error(command: CommandSpec) -> SpawnError {
    spawner().run(command, &Cancel::never(), &mut |_, _| {}).await.expect_err("it must not run")
}

async fn shell(script: &str) -> Output {
    let dir = dir();
    let output = run(CommandSpec::shell(script, dir.path())).await;
    assert_eq!(survivors(dir.path()), Vec::<i32>::new(), "nothing stays");
    output
}

/// Runs until the command writes `ready`, then kills it.
async fn kill_when_ready(command: CommandSpec) -> Output {
    let (canceller, cancel) = Cancel::new();
    let output = spawner().run(command, &cancel, &mut on_ready(|| canceller.kill())).await.expect("it runs");
    assert!(output.stdout.to_text().contains("ready"), "output up to the kill is kept");
    output
}

fn on_ready(mut act: impl FnMut() + Send) -> impl FnMut(OutputStream, &[u8]) + Send {
    let mut seen = Vec::new();
    move |_, bytes: &[u8]| {
        seen.extend_from_slice(bytes);
        if seen.windows(5).any(|word| word == b"ready") {
            act();
        }
    }
}

/// The living processes, supervisors aside, whose working directory is (or was) below `dir`.
fn survivors(dir: &Path) -> Vec<i32> {
    let dir = dir.canonicalize().expect("the directory is there");
    let pids = fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        cwd.starts_with(&dir) && name.trim() != "exec-guard" && alive(*pid)
    })
    .collect()
}

fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X'])))
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid_in(file: &Path) -> i32 {
    let mut pid = None;
    until("a pid is written", || {
        let text = fs::read_to_string(file).unwrap_or_default();
        pid = text.ends_with('\n').then(|| text.trim().parse().expect("a pid"));
        pid.is_some()
    });
    pid.expect("it was written")
}

#[tokio::test]
async fn the_exit_code_is_passed_on() {
    for code in [0, 1, 7, 127, 255] {
        assert_eq!(shell(&format!("exit {code}")).await.exit, Exit::Code(code));
    }
}

#[tokio::test]
async fn a_signal_is_passed_on() {
    for signal in [6, 9, 11, 15] {
        assert_eq!(shell(&format!("kill -{signal} $$")).await.exit, Exit::Signal(signal));
    }
}

#[tokio::test]
async fn both_streams_are_captured_and_streamed_in_pieces() {
    let dir = dir();
    let mut seen = Vec::new();
    let command = CommandSpec::shell("echo out; echo err >&2; printf '\\xff\\xfe'", dir.path());
    let output = spawner()
        .run(command, &Cancel::never(), &mut |stream, bytes| seen.push((stream, bytes.to_vec())))
        .await
        .expect("it runs");
    let of = |wanted| -> Vec<u8> { seen.iter().filter(|(s, _)| *s == wanted).flat_map(|(_, b)| b.clone()).collect() };
    assert_eq!(output.stdout.bytes, b"out\n\xff\xfe");
    assert_eq!(output.stdout.to_text(), "out\n\u{fffd}\u{fffd}");
    assert_eq!(output.stderr.to_text(), "err\n");
    assert_eq!((of(OutputStream::Stdout), of(OutputStream::Stderr)), (output.stdout.bytes, output.stderr.bytes));
}

#[tokio::test]
async fn arguments_and_a_directory_of_any_bytes_arrive() {
    use std::os::unix::ffi::OsStrExt;
    let dir = dir();
    let odd = std::ffi::OsStr::from_bytes(b"a dir \xe9\xff ");
    let cwd = dir.path().join(odd);
    fs::create_dir(&cwd).expect("the directory");
    let argv: Vec<OsString> = vec!["printf".into(), "%s|".into(), "".into(), "a b".into(), odd.into(), "$HOME".into()];
    assert_eq!(run(CommandSpec::new(argv, &cwd)).await.stdout.bytes, b"|a b|a dir \xe9\xff |$HOME|");
    assert_eq!(run(CommandSpec::new(["touch", "here"], &cwd)).await.exit, Exit::Code(0));
    assert!(cwd.join("here").exists());
}

#[tokio::test]
async fn long_command_lines_pass_and_too_long_ones_are_refused() {
    let dir = dir();
    let words: Vec<String> = (0..15).map(|_| "x".repeat(100_000)).collect();
    let argv = ["sh", "-c", r#"echo $# ${#15}"#, "sh"].into_iter().chain(words.iter().map(String::as_str));
    assert_eq!(run(CommandSpec::new(argv, dir.path())).await.stdout.to_text(), "15 100000\n");
    let error = run_error(CommandSpec::new(["echo", &"x".repeat(200_000)], dir.path())).await;
    assert!(error.to_string().contains("`echo`") && error.to_string().contains("stdin"), "{error}");
}

#[tokio::test]
async fn a_broken_pipe_ends_a_writer_as_usual() {
    assert_eq!(shell("(yes; echo $? >&2) | head -n1").await.stderr.to_text(), "141\n");
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let dir = dir();
    let mut missing = CommandSpec::new(["no-such-program-here", "x"], dir.path());
    // A directory on PATH that may not be looked into would be another error.
    missing.env = vec![("PATH".into(), Some(dir.path().into()))];
    let error = run_error(missing).await;
    assert!(matches!(&error, SpawnError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    assert!(error.to_string().contains("`no-such-program-here`") && error.to_string().contains("PATH"), "{error}");

    fs::write(dir.path().join("plain"), "text").expect("a file");
    let error = run_error(CommandSpec::new(["./plain"], dir.path())).await;
    assert!(error.to_string().contains("`./plain`") && error.to_string().contains("executable"), "{error}");

    let error = run_error(CommandSpec::new(["true"], dir.path().join("nowhere"))).await;
    assert!(matches!(error, SpawnError::Directory { .. }) && error.to_string().contains("nowhere"));
    assert!(matches!(
        run_error(CommandSpec::new(["true"], dir.path().join("plain"))).await,
        SpawnError::Directory { .. }
    ));
    assert!(matches!(run_error(CommandSpec::new(["a\0b"], dir.path())).await, SpawnError::Program { .. }));
    assert!(matches!(run_error(CommandSpec::new(Vec::<OsString>::new(), dir.path())).await, SpawnError::Empty));
}

#[tokio::test]
async fn a_supervisor_that_is_none_is_named() {
    let dir = dir();
    for (shim, told) in [(vec!["/no/such/shim"], "/no/such/shim"), (vec!["sh", "-c", "echo oops >&2; exit 3"], "oops")]
    {
        let spawner = Spawner::new(shim.into_iter().map(Into::into).collect(), &Environment::capture());
        let error = spawner.run(CommandSpec::new(["true"], dir.path()), &Cancel::never(), &mut |_, _| {}).await;
        let error = error.expect_err("it must not run");
        assert!(matches!(error, SpawnError::Supervisor { .. }) && error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn the_wall_limit_ends_a_busy_command() {
    let dir = dir();
    let mut command = CommandSpec::shell("while :; do echo tick; sleep 0.02; done", dir.path());
    let wall = Duration::from_millis(1500);
    command.limits.wall = Some(wall);
    command.limits.idle = Some(PATIENCE);
    let output = run(command).await;
    assert_eq!(output.exit, Exit::TimedOut(Timeout::Wall(wall)));
    assert!(output.duration >= wall);
    assert!(output.stdout.to_text().starts_with("tick\n"), "what it wrote before is kept");
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn the_idle_limit_counts_from_the_last_output() {
    let dir = dir();
    let mut command =
        CommandSpec::shell("for i in 1 2 3 4 5; do echo $i >&2; sleep 0.3; done; exec sleep 1000", dir.path());
    let idle = Duration::from_millis(1000);
    command.limits.idle = Some(idle);
    let output = run(command).await;
    assert_eq!(output.exit, Exit::TimedOut(Timeout::Idle(idle)));
    assert_eq!(output.stderr.to_text(), "1\n2\n3\n4\n5\n");
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_command_may_clean_up_on_term() {
    let dir = dir();
    let script = "trap 'echo bye; touch cleaned; exit 0' TERM; echo ready; while :; do :; done";
    let mut command = CommandSpec::shell(script, dir.path());
    command.limits.grace = PATIENCE;
    let output = kill_when_ready(command).await;
    assert_eq!(output.exit, Exit::Cancelled);
    assert!(output.stdout.to_text().ends_with("bye\n") && dir.path().join("cleaned").exists());
    assert!(output.duration < PATIENCE, "it did not need a KILL");
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_command_ignoring_term_is_killed_after_grace() {
    let dir = dir();
    let mut command = CommandSpec::shell("trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done", dir.path());
    command.limits.grace = Duration::from_millis(200);
    let output = kill_when_ready(command).await;
    assert_eq!(output.exit, Exit::Cancelled);
    assert!(output.duration >= Duration::from_millis(200));
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_stopped_command_still_hears_term() {
    let dir = dir();
    let script = r#"trap 'exit 0' TERM
        (until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done; echo ready; exec sleep 1000) & kill -STOP $$; wait"#;
    let mut command = CommandSpec::shell(script, dir.path());
    command.limits.grace = PATIENCE;
    let output = kill_when_ready(command).await;
    assert_eq!(output.exit, Exit::Cancelled);
    assert!(output.duration < PATIENCE, "it did not need a KILL");
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_stop_lets_a_command_finish_a_kill_prevents_start() {
    let dir = dir();
    let (canceller, cancel) = Cancel::new();
    let command = CommandSpec::shell("echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 4", dir.path());
    let mut stop = on_ready(|| {
        canceller.stop();
        fs::write(dir.path().join("go"), "").expect("written");
    });
    assert_eq!(spawner().run(command, &cancel, &mut stop).await.expect("it runs").exit, Exit::Code(4));

    canceller.kill();
    let output = spawner().run(CommandSpec::shell("touch started", dir.path()), &cancel, &mut |_, _| {}).await;
    assert_eq!(output.expect("no error").exit, Exit::Cancelled);
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn dropping_the_future_ends_the_command() {
    let dir = dir();
    let command = CommandSpec::shell("trap '' HUP; setsid sleep 1000 & touch ready; sleep 1000", dir.path());
    let task = tokio::spawn(async move { spawner().run(command, &Cancel::never(), &mut |_, _| {}).await });
    while !dir.path().join("ready").exists() {
        assert!(!task.is_finished(), "it runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task.abort();
    assert!(task.await.expect_err("aborted").is_cancelled());
    until("nothing is left", || survivors(dir.path()).is_empty());
}

/// A daemon by the book: two forks, a session of its own, no descriptors, no environment, deaf to TERM and HUP.
const DAEMON: &str = r#"(env -i PATH="$PATH" setsid sh -c 'trap "" TERM HUP; exec <&- >&- 2>&-; sleep 1000 & echo $$ > pid.tmp; mv pid.tmp pid; wait' &)
while [ ! -e pid ]; do sleep 0.01; done"#;

#[tokio::test]
async fn a_daemon_ends_with_the_command_that_started_it() {
    let dir = dir();
    let mut command = CommandSpec::shell(&format!("{DAEMON}; exit 9"), dir.path());
    command.limits.grace = Duration::from_millis(100);
    assert_eq!(run(command).await.exit, Exit::Code(9), "the exit code is the command's own");
    assert!(!alive(pid_in(&dir.path().join("pid"))));
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_daemon_ends_with_the_command_that_is_killed() {
    let dir = dir();
    let mut command = CommandSpec::shell(&format!("{DAEMON}; echo ready; sleep 1000"), dir.path());
    command.limits.grace = Duration::from_millis(100);
    assert_eq!(kill_when_ready(command).await.exit, Exit::Cancelled);
    assert!(!alive(pid_in(&dir.path().join("pid"))));
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_background_process_holding_pipes_does_not_delay_the_end() {
    let begun = Instant::now();
    let output = shell("sleep 1000 & setsid sleep 1000 & echo done").await;
    assert_eq!((output.exit, output.stdout.to_text().as_str()), (Exit::Code(0), "done\n"));
    assert!(begun.elapsed() < PATIENCE);
}

#[tokio::test]
async fn children_may_finish_right_after_the_command() {
    if !Path::new("/bin/bash").exists() {
        return; // process substitution is bash's
    }
    for _ in 0..20 {
        assert_eq!(
            shell("for i in 1 2 3; do echo $i; done > >(cat; echo end)").await.stdout.to_text(),
            "1\n2\n3\nend\n"
        );
    }
}

#[tokio::test]
async fn a_natural_end_wins_over_a_limit_during_cleanup() {
    let dir = dir();
    let mut command = CommandSpec::shell("(trap '' TERM; sleep 1000) & exit 3", dir.path());
    command.limits.wall = Some(Duration::from_millis(1200));
    command.limits.grace = Duration::from_millis(1500);
    let output = run(command).await;
    assert!(output.duration > Duration::from_millis(1500));
    assert_eq!(output.exit, Exit::Code(3));
}

#[tokio::test]
async fn a_command_that_ended_well_has_not_timed_out() {
    // The supervisor, stopped until the limit has passed, learns of both at once. Of several one is told of the limit first.
    let runs: Vec<_> = (0..6)
        .map(|_| {
            tokio::spawn(async {
                let dir = dir();
                let mut command =
                    CommandSpec::shell("(sleep 1; kill -CONT $PPID) & kill -STOP $PPID; exit 0", dir.path());
                command.limits.wall = Some(Duration::from_millis(300));
                run(command).await.exit
            })
        })
        .collect();
    for run in runs {
        assert_eq!(run.await.expect("it ran"), Exit::Code(0));
    }
}

#[tokio::test]
async fn a_chain_of_forks_is_caught() {
    let dir = dir();
    let chain = "trap '' TERM HUP\n[ -e go ] || { touch go; echo ready; }\nsh ./chain &\nexit 0\n";
    fs::write(dir.path().join("chain"), chain).expect("a script");
    let mut command = CommandSpec::shell("sh ./chain; setsid sh ./chain; sleep 1000", dir.path());
    command.limits.grace = Duration::from_millis(50);
    assert_eq!(kill_when_ready(command).await.exit, Exit::Cancelled);
    assert_eq!(survivors(dir.path()), Vec::<i32>::new());
}

#[tokio::test]
async fn a_script_signalling_its_group_is_still_cleaned_up() {
    assert_eq!(shell("setsid sleep 1000 & kill -TERM 0; sleep 1000").await.exit, Exit::Signal(15));
    assert_eq!(shell("setsid sleep 1000 & kill -TERM $PPID; sleep 1000").await.exit, Exit::Signal(15));
    assert_eq!(shell("setsid sleep 1000 & kill -KILL $PPID; sleep 1000").await.exit, Exit::Signal(9));
}

#[tokio::test]
async fn a_command_has_its_own_session_and_group() {
    let output = shell("echo $$; cut -d' ' -f5,6 /proc/$$/stat").await.stdout.to_text();
    let numbers: Vec<i32> = output.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    let [pid, group, session] = numbers[..] else { panic!("{output}") };
    assert_eq!(pid, group);
    // Read as a number: in a container of its own the session of the tests may be 0, led from outside.
    let own = fs::read_to_string("/proc/self/stat").expect("a stat line");
    let after_name = own.rsplit_once(") ").expect("a name in brackets").1;
    let own: i32 = after_name.split(' ').nth(3).and_then(|n| n.parse().ok()).expect("a session");
    assert_ne!(session, own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_side_by_side_share_no_descriptors() {
    let dir = dir();
    let tasks: Vec<_> = (0..24)
        .map(|i| {
            let cwd = dir.path().join(i.to_string());
            fs::create_dir(&cwd).expect("a directory");
            let lock = File::create(cwd.join("lock")).expect("a lock file");
            let mut command = CommandSpec::shell("cat; readlink /proc/$$/fd/*", &cwd);
            command.stdin = Stdin::Bytes(format!("{i}\n").into());
            command.locks = vec![Arc::new(lock)];
            tokio::spawn(async move { run(command).await })
        })
        .collect();
    let mut open: Vec<BTreeSet<String>> = Vec::new();
    for (i, task) in tasks.into_iter().enumerate() {
        let text = task.await.expect("it ran").stdout.to_text();
        let (first, rest) = text.split_once('\n').expect("lines");
        assert_eq!(first, i.to_string());
        open.push(rest.lines().map(str::to_owned).collect());
    }
    // What every one of them has came from whoever started the tests.
    let inherited = open.iter().cloned().reduce(|a, b| &a & &b).expect("some");
    for own in open.iter().map(|open| open - &inherited) {
        assert!(own.len() == 3 && own.iter().all(|target| target.starts_with("pipe:")), "{own:?}");
    }
}

#[tokio::test]
async fn input_of_any_size_is_fed_while_output_is_read() {
    let dir = dir();
    let input: Vec<u8> = (0..20_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut command = CommandSpec::new(["cat"], dir.path());
    command.limits.output = input.len();
    command.stdin = Stdin::Bytes(input.clone());
    let output = run(command).await;
    assert_eq!(output.exit, Exit::Code(0));
    assert!(output.stdout.bytes == input && output.stdout.dropped == 0);
}

#[tokio::test]
async fn unread_input_is_no_error_and_none_is_eof() {
    let dir = dir();
    for script in ["exit 0", "head -c 5 >/dev/null", "exec <&-; sleep 0.1; exit 0"] {
        let mut command = CommandSpec::shell(script, dir.path());
        command.stdin = Stdin::Bytes(vec![b'x'; 5_000_000]);
        assert_eq!(run(command).await.exit, Exit::Code(0), "{script}");
    }
    assert_eq!(shell("cat; echo end").await.stdout.to_text(), "end\n");
}

#[tokio::test]
async fn a_command_is_talked_to_while_it_runs() {
    let dir = dir();
    let command = CommandSpec::shell("while read -r word; do echo \"heard $word\"; done; echo bye", dir.path());
    let (say, input) = tokio::sync::mpsc::unbounded_channel();
    let mut say = Some(say);
    let mut words = ["one", "two"].into_iter();
    let first = say.as_ref().map(|say| say.send(b"hello\n".to_vec()));
    first.expect("a sender").expect("somebody listens");
    // Each answer brings the next word, and the last one the end.
    let mut answer = |_: OutputStream, _: &[u8]| match words.next() {
        Some(word) => say.as_ref().expect("not over").send(format!("{word}\n").into_bytes()).expect("somebody listens"),
        None => drop(say.take()),
    };
    let output = spawner().talk(command, input, &Cancel::never(), &mut answer).await.expect("it runs");
    assert_eq!(
        (output.exit, output.stdout.to_text()),
        (Exit::Code(0), "heard hello\nheard one\nheard two\nbye\n".into())
    );
    assert_eq!(survivors(dir.path()), Vec::<i32>::new(), "nothing stays");
}

#[tokio::test]
async fn a_command_not_reading_in_time_is_killed() {
    let dir = dir();
    let (canceller, cancel) = Cancel::new();
    let (say, input) = tokio::sync::mpsc::unbounded_channel();
    let listening = CommandSpec::shell("echo ready; cat", dir.path());
    let output = spawner().talk(listening, input, &cancel, &mut on_ready(|| canceller.kill())).await.expect("it runs");
    assert_eq!(output.exit, Exit::Cancelled);
    assert!(say.is_closed(), "nobody reads any more");

    let (say, input) = tokio::sync::mpsc::unbounded_channel();
    say.send(vec![b'x'; 1_000_000]).expect("somebody listens");
    let deaf = CommandSpec::shell("exec <&-; exit 3", dir.path());
    let output = spawner().talk(deaf, input, &Cancel::never(), &mut |_, _| {}).await.expect("it runs");
    assert_eq!(output.exit, Exit::Code(3));
    assert_eq!(survivors(dir.path()), Vec::<i32>::new(), "nothing stays");
}

#[tokio::test]
async fn output_of_any_size_is_kept_within_its_bound() {
    let dir = dir();
    // Blanks, because of a word that is cut in two neither part is shown.
    let mut command =
        CommandSpec::shell("echo first; head -c 100000000 /dev/zero | tr '\\0' ' '; echo last", dir.path());
    command.limits.output = 1000;
    let mut seen = 0;
    let output = spawner().run(command, &Cancel::never(), &mut |_, bytes| seen += bytes.len()).await.expect("it runs");
    assert_eq!((output.exit, seen), (Exit::Code(0), 100_000_011));
    assert_eq!((output.stdout.bytes.len(), output.stdout.dropped), (1000, 99_999_011));
    let text = output.stdout.to_text();
    assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.contains("99999011 bytes left out"));
}

#[tokio::test]
async fn the_environment_is_given_without_secrets_and_repository() {
    let dir = dir();
    let path = Environment::capture().get("PATH").expect("a PATH").to_owned();
    let given = [
        ("PATH", path.as_str()),
        ("HOME", "/home/me"),
        ("GIT_DIR", "/elsewhere/.git"),
        ("GIT_INDEX_FILE", "/elsewhere/index"),
        ("GIT_SSH_COMMAND", "ssh -v"),
        ("OPENAI_API_KEY", "s3cret"),
        ("DB_PASSWORD", "s3cret"),
        ("AWAY", "x"),
    ];
    let mut command = CommandSpec::new(["env"], dir.path());
    command.env = vec![("AWAY".into(), None), ("MY_TOKEN".into(), Some("given".into()))];
    let output = spawner_with(&Environment::from_pairs(given)).run(command, &Cancel::never(), &mut |_, _| {}).await;
    let text = output.expect("it runs").stdout.to_text();
    let mut names: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["GIT_SSH_COMMAND", "HOME", "MY_TOKEN", "PATH", "_PLEACH_EXEC"]);
    assert!(!text.contains("s3cret"));
}

/// A parent that can be killed as pleach might be.
#[expect(clippy::disallowed_methods, reason = "the test must kill a parent of its own")]
fn parent(script: &str, cwd: &Path, lock: Option<&Path>) -> std::process::Child {
    let mut command = std::process::Command::new(TEST_PROGRAM);
    command.arg("parent").arg(script).args(lock).current_dir(cwd).spawn().expect("the parent starts")
}

#[test]
fn nothing_outlives_a_killed_parent() {
    let dir = dir();
    let script = format!("{DAEMON}; trap '' TERM; touch ready; while :; do sleep 1000; done");
    let mut parent = parent(&script, dir.path(), None);
    until("it runs", || dir.path().join("ready").exists());
    let daemon = pid_in(&dir.path().join("pid"));
    assert!(alive(daemon));
    parent.kill().expect("killed");
    assert_eq!(parent.wait().expect("reaped").signal(), Some(9));
    until("nothing is left", || survivors(dir.path()).is_empty() && !alive(daemon));
}

#[test]
fn the_lock_is_held_until_everything_is_gone() {
    let dir = dir();
    let path = dir.path().join("lock");
    let mut parent = parent(&format!("{DAEMON}; touch ready; sleep 1000"), dir.path(), Some(&path));
    until("it runs", || dir.path().join("ready").exists());
    parent.kill().expect("killed");
    parent.wait().expect("reaped");

    let lock = File::open(&path).expect("the lock file");
    assert!(!survivors(dir.path()).is_empty(), "the daemon has a grace period");
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)), "the lock outlives the parent");
    lock.lock().expect("the lock comes free");
    assert_eq!(survivors(dir.path()), Vec::<i32>::new(), "and not before everything is gone");
}

#[tokio::test]
async fn the_lock_comes_back_when_it_is_dropped() {
    let dir = dir();
    let path = dir.path().join("lock");
    let file = File::create(&path).expect("a lock file");
    file.lock().expect("locked");
    let mut command = CommandSpec::shell("sleep 1000 & exit 0", dir.path());
    command.locks = vec![Arc::new(file)];
    assert_eq!(run(command).await.exit, Exit::Code(0));
    let lock = File::open(&path).expect("the lock file");
    // What another test is just starting has the file as well, until it is another program.
    let deadline = Instant::now() + Duration::from_secs(10);
    while lock.try_lock().is_err() {
        assert!(Instant::now() < deadline, "free again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn helper(program: &str, args: &[&str]) -> Blocking {
    let cwd = std::env::temp_dir();
    Blocking { program: program.into(), args: args.iter().map(Into::into).collect(), cwd, ..Blocking::default() }
}

#[test]
fn a_helper_program_gives_code_and_output() {
    let output = run_blocking(&helper("sh", &["-c", "echo out; echo err >&2; cat; exit 3"])).expect("it runs");
    assert_eq!((output.code(), output.stdout, output.stderr), (Some(3), b"out\n".to_vec(), b"err\n".to_vec()));
    let output = run_blocking(&helper("sh", &["-c", "kill -9 $$"])).expect("it runs");
    assert_eq!((output.exit, output.code(), output.success()), (Exit::Signal(9), None, false));

    let mut large = helper("cat", &[]);
    large.stdin = Stdin::Bytes(vec![b'x'; 3_000_000]);
    assert_eq!(run_blocking(&large).expect("it runs").stdout.len(), 3_000_000);
    large.program = "true".into();
    assert!(run_blocking(&large).expect("input may stay unread").success());
}

/// Fails the test unless the process whose number was printed ends.
#[track_caller]
fn assert_ended(output: &BlockingOutput) {
    let stat = format!("/proc/{}/stat", String::from_utf8_lossy(&output.stdout).trim());
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_helper_over_its_limit_is_killed_with_children() {
    let mut slow = helper("sh", &["-c", "sleep 1000 & echo $!; sleep 1000"]);
    slow.limit = Some(Duration::from_millis(200));
    let output = run_blocking(&slow).expect("it runs");
    assert_eq!(output.exit, Exit::Signal(9));
    assert_ended(&output);
    // Also where it ends long before.
    let mut short = helper("sh", &["-c", "sleep 1000 & echo $!"]);
    short.limit = Some(Duration::from_secs(1000));
    let output = run_blocking(&short).expect("it runs");
    assert!(output.success());
    assert_ended(&output);
    let mut quick = helper("echo", &["done"]);
    quick.limit = Some(Duration::from_secs(1000));
    assert!(run_blocking(&quick).expect("it runs").success());
}

#[test]
fn a_helper_program_has_its_own_group_and_locale() {
    let output =
        run_blocking(&helper("sh", &["-c", "echo $$; cut -d' ' -f5 /proc/$$/stat; echo $LC_ALL"])).expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let [pid, group, locale] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!((pid, locale), (group, "C"));
}

#[test]
fn a_helper_program_that_is_missing_is_named() {
    let error = run_blocking(&helper("no-such-program-here", &[])).expect_err("it must not run");
    assert!(error.to_string().contains("`no-such-program-here`"), "{error}");
    let mut nowhere = helper("true", &[]);
    nowhere.cwd = "/no/such/directory".into();
    assert!(matches!(run_blocking(&nowhere).expect_err("it must not run"), SpawnError::Directory { .. }));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test must give a process variables of its own")]
fn a_helper_program_keeps_credentials_but_no_repository() {
    let mut command = std::process::Command::new(TEST_PROGRAM);
    command.args(["blocking", "env"]).env("GIT_DIR", "/elsewhere").env("GIT_INDEX_FILE", "/x").env("GH_TOKEN", "t");
    let text = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
    let has = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("GH_TOKEN") && has("PATH") && !has("GIT_DIR") && !has("GIT_INDEX_FILE"), "{text}");
}

/// The two ends are used from different threads.
#[test]
fn spawner_and_cancel_can_be_shared() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Spawner>();
    shared::<Cancel>();
    shared::<Canceller>();
}
