//! Bounds a real supervisor sets: what a command can still touch, and that it can work within them.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use os::process::sandbox::{Availability, Sandbox, available, bubblewrap_works};
use os::process::{Cancel, CommandSpec, Connect, Exit, Output, SpawnError};
use tempfile::TempDir;

use crate::process::spawner;

/// Two directories: one a command may write, and one it may not.
struct Ground {
    dir: TempDir,
    by: Availability,
}

impl Ground {
    fn new(by: Availability) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["in", "out", "store"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("out/file"), "mine\n").unwrap();
        fs::create_dir(dir.path().join("store/aa")).unwrap();
        fs::write(dir.path().join("store/aa/old"), "old\n").unwrap();
        Self { dir, by }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox {
            by: self.by.clone(),
            write: vec![self.path("in"), self.path("none")],
            add: vec![self.path("store")],
            ..Sandbox::default()
        }
    }

    async fn run(&self, script: &str, sandbox: Sandbox) -> Output {
        self.try_run(script, sandbox).await.expect("it runs")
    }

    async fn try_run(&self, script: &str, sandbox: Sandbox) -> Result<Output, SpawnError> {
        let command = CommandSpec { sandbox: Some(Arc::new(sandbox)), ..CommandSpec::shell(script, &self.path("in")) };
        spawner().run(command, &Cancel::never(), &mut |_, _| {}).await
    }

    fn outside(&self) -> String {
        let mut names: Vec<String> = fs::read_dir(self.path("out"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        format!("{}: {}", names.join(" "), fs::read_to_string(self.path("out/file")).unwrap().trim())
    }
}

/// The kernel's Landlock, if it has one of at least this version; else it is said that nothing is tested.
pub fn landlock(least: u32, test: &str) -> Option<Availability> {
    let found = available();
    let has = found.landlock_abi.unwrap_or_default();
    if has < least {
        let has = if has == 0 { "no Landlock".to_owned() } else { format!("version {has}") };
        // The macros' output is kept back by the test harness, and this must be seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: it needs Landlock version {least}, this kernel has {has}");
        return None;
    }
    Some(Availability { bubblewrap: None, ..found })
}

fn bubblewrap(test: &str) -> Option<Availability> {
    let works = available().bubblewrap.filter(|program| bubblewrap_works(program).is_ok());
    if works.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: bubblewrap is not installed, or may not be used");
    }
    works.map(|program| Availability { landlock_abi: None, bubblewrap: Some(program), ..available() })
}

/// Every way to change something outside that needs no more than a shell.
const TRESPASSES: [&str; 14] = [
    "echo x > ../out/new",
    "echo x >> ../out/file",
    "echo x > \"$PWD/../out/file\"",
    "rm ../out/file",
    "mv ../out/file .",
    "ln -s ../out link && echo x > link/new",
    "ln -s ../out/file link-to-file && echo x > link-to-file",
    "ln ../out/file hard && echo x > hard",
    "mkdir ../out/dir",
    "mkfifo ../out/pipe",
    "truncate -s 0 ../out/file",
    "rmdir ../out; rm -rf ../out",
    "(setsid sh -c 'echo x > ../out/later; echo x > ../out/file') < /dev/null; false",
    "echo x > \"/proc/$PPID/root$(cd ..; pwd)/out/new\"",
];

async fn nothing_gets_out(by: Availability) {
    let ground = Ground::new(by);
    for trespass in TRESPASSES {
        let output = ground.run(trespass, ground.sandbox()).await;
        assert_ne!(output.exit, Exit::Code(0), "`{trespass}` is refused");
        assert_eq!(ground.outside(), "file: mine", "{trespass}");
    }
    let output =
        ground.run("echo 1 > file; mkdir sub; mv file sub/; ln sub/file hard; rm sub/file", ground.sandbox()).await;
    assert_eq!(output.exit, Exit::Code(0), "{}", output.stderr.to_text());
    assert_eq!(fs::read_to_string(ground.path("in/hard")).unwrap(), "1\n");
    assert_eq!(ground.run("cat ../out/file", ground.sandbox()).await.stdout.to_text(), "mine\n", "it can be read");
}

#[tokio::test]
async fn landlock_lets_nothing_out() {
    let Some(by) = landlock(3, "landlock_lets_nothing_out") else { return };
    nothing_gets_out(by).await;
}

#[tokio::test]
async fn bubblewrap_lets_nothing_out() {
    let Some(by) = bubblewrap("bubblewrap_lets_nothing_out") else { return };
    nothing_gets_out(by).await;
}

#[tokio::test]
async fn objects_added_to_a_store_cannot_be_removed() {
    let Some(by) = landlock(3, "objects_added_to_a_store_cannot_be_removed") else { return };
    let ground = Ground::new(by);
    let shared = fs::Permissions::from_mode(0o2775);
    fs::set_permissions(ground.path("store"), shared).unwrap();
    for fan in ["aa", "00", "ff"] {
        let script = format!("cd ../store/{fan} && echo new > tmp && ln tmp new");
        assert_eq!(ground.run(&script, ground.sandbox()).await.exit, Exit::Code(0), "{fan}");
        assert_eq!(fs::read_to_string(ground.path("store").join(fan).join("new")).unwrap(), "new\n");
    }
    for refused in [
        "rm aa/old",
        "rm -rf .",
        "mv aa/old aa/older",
        "mv aa/old ff/old",
        "truncate -s 0 aa/old",
        "mkdir aa/new",
        "ln -s old aa/link",
        "mkfifo aa/pipe",
        "mkdir new",
        "echo > new",
        "mv aa ab",
        "rmdir 00",
    ] {
        let script = format!("cd ../store && {refused}");
        assert_ne!(ground.run(&script, ground.sandbox()).await.exit, Exit::Code(0), "{refused}");
    }
    assert_eq!(fs::read_to_string(ground.path("store/aa/old")).unwrap(), "old\n");
    assert_eq!(fs::read_dir(ground.path("store")).unwrap().count(), 256);
    let mode = ground.path("store/00").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2775, "those who share the store share what is made in it");
}

#[tokio::test]
async fn forbidden_paths_cannot_be_read() {
    let Some(by) = landlock(3, "forbidden_paths_cannot_be_read") else { return };
    let ground = Ground::new(by);
    let system = ["/bin", "/lib", "/lib64", "/usr", "/etc", "/dev", "/proc"].map(PathBuf::from);
    let sandbox = Sandbox { read: Some(system.to_vec()), ..ground.sandbox() };
    assert_ne!(ground.run("cat ../out/file", sandbox.clone()).await.exit, Exit::Code(0));
    let output = ground.run("echo 1 > file && cat file && ls ../store/aa && cat ../store/aa/old", sandbox).await;
    assert_eq!(output.stdout.to_text(), "1\nold\nold\n", "{}", output.stderr.to_text());
}

/// Of what is hidden nothing is read, of what is beside it everything is, and where something of its own is there it
/// works as usual.
async fn what_is_hidden_is_not_read(by: Availability) {
    let ground = Ground::new(by);
    for (path, text) in [("out/deep/key", "key\n"), ("out/deep/beside", "beside\n"), ("hidden/run/told", "told\n")] {
        fs::create_dir_all(ground.path(path).parent().unwrap()).unwrap();
        fs::write(ground.path(path), text).unwrap();
    }
    for path in ["hidden/own", "in/closed", "in/open"] {
        fs::create_dir(ground.path(path)).unwrap();
        fs::write(ground.path(path).join("x"), "x\n").unwrap();
    }
    let sandbox = Sandbox {
        write: vec![ground.path("in"), ground.path("hidden/own")],
        hide: ["out/deep/key", "hidden", "in/closed", "none/at/all"].map(|path| ground.path(path)).to_vec(),
        show: vec![ground.path("hidden/run")],
        ..ground.sandbox()
    };
    let limited = Sandbox {
        read: Some(
            ["/bin", "/lib", "/lib64", "/usr", "/etc"]
                .map(PathBuf::from)
                .into_iter()
                .chain([ground.path("out")])
                .collect(),
        ),
        ..sandbox.clone()
    };
    fs::write(ground.path("hidden/other"), "other\n").unwrap();
    for sandbox in [sandbox, limited] {
        for refused in ["../out/deep/key", "../hidden/other", "closed/x"] {
            let output = ground.run(&format!("cat {refused} && test -s {refused}"), sandbox.clone()).await;
            assert_ne!(output.exit, Exit::Code(0), "{refused}: {}", output.stdout.to_text());
            assert_eq!(output.stdout.to_text(), "", "{refused}");
        }
        let work = "cat ../out/file ../out/deep/beside ../hidden/run/told open/x ../store/aa/old && ls .. ../out > /dev/null && \
                    echo new > ../hidden/own/y && cat ../hidden/own/y && mkdir -p open/made && echo 1 > open/made/z && cat open/made/z";
        let limits_all = sandbox.read.is_some();
        let work = if limits_all { work.replace("ls .. ../out", "ls ../out") } else { work.to_owned() };
        let output = ground.run(&work, sandbox).await;
        assert_eq!(output.stdout.to_text(), "mine\nbeside\ntold\nx\nold\nnew\n1\n", "{}", output.stderr.to_text());
        assert!(ground.run("echo x > ../hidden/new", ground.sandbox()).await.exit != Exit::Code(0));
    }
}

#[tokio::test]
async fn landlock_hides_the_configured_paths() {
    let Some(by) = landlock(3, "landlock_hides_the_configured_paths") else { return };
    what_is_hidden_is_not_read(by).await;
}

#[tokio::test]
async fn bubblewrap_hides_the_configured_paths() {
    let Some(by) = bubblewrap("bubblewrap_hides_the_configured_paths") else { return };
    what_is_hidden_is_not_read(by).await;
}

#[tokio::test]
async fn the_supervisor_cannot_be_killed_from_within() {
    let Some(by) = landlock(6, "the_supervisor_cannot_be_killed_from_within") else { return };
    let ground = Ground::new(by);
    // Its own processes it can kill as it likes.
    let script = "kill -9 $PPID; echo $?; sleep 60 & kill -9 $! && wait $!; echo $?";
    let output = ground.run(script, ground.sandbox()).await;
    assert_eq!((output.exit, output.stdout.to_text().as_str()), (Exit::Code(0), "1\n137\n"));
    // And it is still killed itself.
    let command = CommandSpec {
        sandbox: Some(Arc::new(ground.sandbox())),
        limits: os::process::CommandLimits {
            wall: Some(std::time::Duration::from_millis(200)),
            grace: std::time::Duration::from_millis(10),
            ..Default::default()
        },
        ..CommandSpec::shell("trap '' TERM; setsid sleep 60 & sleep 60", &ground.path("in"))
    };
    let output = spawner().run(command, &Cancel::never(), &mut |_, _| {}).await.unwrap();
    assert!(matches!(output.exit, Exit::TimedOut(_)), "{:?}", output.exit);
}

/// Connects with bash, whose name for a connection is a path; prints what the server says.
fn connect(port: u16) -> String {
    format!("exec 3<> /dev/tcp/127.0.0.1/{port} && cat <&3")
}

#[tokio::test]
async fn only_the_ports_that_are_named_can_be_reached() {
    let Some(by) = landlock(4, "only_the_ports_that_are_named_can_be_reached") else { return };
    if !Path::new("/bin/bash").exists() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED only_the_ports_that_are_named_can_be_reached: there is no bash to connect with"
        );
        return;
    }
    let ground = Ground::new(by);
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [gateway, other] = [0, 1].map(|at| listeners[at].local_addr().unwrap().port());
    for listener in listeners {
        // Ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.and_then(|mut stream| std::io::Write::write_all(&mut stream, b"hello"));
            }
        });
    }
    let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..ground.sandbox() };
    let through = closed.through(gateway);
    for (port, sandbox, reached) in [
        (gateway, ground.sandbox(), true),
        (gateway, closed.clone(), false),
        (gateway, through.clone(), true),
        (other, through, false),
    ] {
        let output = ground.run(&connect(port), sandbox.clone()).await;
        assert_eq!(output.stdout.to_text() == "hello", reached, "{sandbox:?}: {}", output.stderr.to_text());
    }
}

/// Tries all that is no TCP connection. The way to a server that is there is open at first, and then none.
async fn nothing_else_leads_to_the_network(by: Availability, test: &str) {
    let ground = Ground::new(by);
    fs::write(ground.path("in/ways_out.py"), include_str!("ways_out.py")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("python3 ways_out.py {}", listener.local_addr().unwrap().port());
    let open = ground.run(&script, ground.sandbox()).await;
    if open.exit == Exit::Code(127) {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no python3 to try the ways with");
        return;
    }
    let said = open.stdout.to_text();
    assert!(said.contains("open: kind 2 2\n") && said.contains("open: plain\n"), "{said}{}", open.stderr.to_text());
    let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..ground.sandbox() };
    let output = ground.run(&script, closed).await;
    // Where there is no network but an own one, it is the connection that fails.
    let said = output.stdout.to_text().replace("open: plain [Errno 111] Connection refused\n", "");
    assert_eq!(said, "done\n", "{}", output.stderr.to_text());
}

#[tokio::test]
async fn under_landlock_nothing_else_leads_to_the_network() {
    let test = "under_landlock_nothing_else_leads_to_the_network";
    let Some(by) = landlock(4, test) else { return };
    nothing_else_leads_to_the_network(by, test).await;
}

#[tokio::test]
async fn under_bubblewrap_nothing_else_leads_to_the_network() {
    let test = "under_bubblewrap_nothing_else_leads_to_the_network";
    let Some(by) = bubblewrap(test) else { return };
    nothing_else_leads_to_the_network(by, test).await;
}

#[tokio::test]
async fn a_command_whose_bounds_cannot_be_set_is_not_run() {
    let ground = Ground::new(Availability::default());
    let error = ground.try_run("echo 1 > ran", ground.sandbox()).await.unwrap_err().to_string();
    assert!(error.contains("the sandbox cannot be set up: the system has neither Landlock nor bubblewrap"), "{error}");
    assert!(!ground.path("in/ran").exists());
    let Some(by) = landlock(3, "a_command_whose_bounds_cannot_be_set_is_not_run") else { return };
    let ground = Ground::new(by);
    let command = CommandSpec {
        sandbox: Some(Arc::new(ground.sandbox())),
        ..CommandSpec::new(["there-is-no-such-program"], ground.path("in"))
    };
    let error = spawner().run(command, &Cancel::never(), &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(error, SpawnError::Program { .. }), "{error}");
}

#[tokio::test]
async fn devices_and_shared_memory_can_be_used() {
    let Some(by) = landlock(3, "devices_and_shared_memory_can_be_used") else { return };
    let ground = Ground::new(by);
    let script = "echo x > /dev/null && echo err > /dev/stderr && head -c 3 /dev/urandom > /dev/full; \
                  f=$(mktemp /dev/shm/pleach-test-XXXXXX) && echo 1 > \"$f\" && rm \"$f\" && echo fine";
    let output = ground.run(script, ground.sandbox()).await;
    assert_eq!(output.stdout.to_text(), "fine\n", "{}", output.stderr.to_text());
    let python = "import multiprocessing as m, sys\nif __name__ == '__main__':\n    with m.Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n    q = m.Queue(); q.put(3); print(q.get())\n";
    fs::write(ground.path("in/work.py"), python).unwrap();
    let output = ground.run("command -v python3 > /dev/null || exit 42; python3 work.py", ground.sandbox()).await;
    if output.exit == Exit::Code(42) {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED a part of devices_and_shared_memory_can_be_used: there is no python3");
        return;
    }
    assert_eq!(output.stdout.to_text(), "[1, 2]\n3\n", "{}", output.stderr.to_text());
}

/// What is left to root: the owners and modes of files, being another user, low ports.
const KEPT: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10;

async fn nothing_of_others_can_be_read(by: Availability) {
    let ground = Ground::new(by);
    let me = std::process::id();
    let script = format!(
        "cat /proc/{me}/environ; head -c 1 /proc/{me}/mem; readlink /proc/{me}/fd/1 /proc/{me}/cwd; \
         grep -E '^Cap(Prm|Eff|Inh|Amb)' /proc/self/status | cut -f 2 > caps"
    );
    let output = ground.run(&script, ground.sandbox()).await;
    assert_eq!((output.exit, output.stdout.to_text().as_str()), (Exit::Code(0), ""), "{}", output.stderr.to_text());
    if !rustix::process::getuid().is_root() {
        return;
    }
    let caps = fs::read_to_string(ground.path("in/caps")).unwrap();
    let caps: Vec<u64> = caps.lines().map(|line| u64::from_str_radix(line, 16).unwrap()).collect();
    assert!(caps.len() == 4 && caps.iter().all(|caps| caps & !KEPT == 0), "{caps:x?}");
    let output = ground.run("touch mine && chown 1:1 mine && chmod 0 mine && cat mine", ground.sandbox()).await;
    assert_eq!(output.exit, Exit::Code(0), "root still works on files: {}", output.stderr.to_text());
}

#[tokio::test]
async fn under_landlock_nothing_of_others_can_be_read() {
    let Some(by) = landlock(3, "under_landlock_nothing_of_others_can_be_read") else { return };
    nothing_of_others_can_be_read(by).await;
}

#[tokio::test]
async fn under_bubblewrap_nothing_of_others_can_be_read() {
    let Some(by) = bubblewrap("under_bubblewrap_nothing_of_others_can_be_read") else { return };
    nothing_of_others_can_be_read(by).await;
}

#[tokio::test]
async fn terminals_are_private_and_available_to_all() {
    let test = "terminals_are_private_and_available_to_all";
    let Some(by) = landlock(3, test) else { return };
    let ground = Ground::new(by);
    let outside = "import os, sys\nmine, theirs = os.openpty()\nopen('name', 'w').write(os.ttyname(theirs))\n\
                   os.rename('name', 'tty')\nwhile not os.path.exists('typed'): pass\n";
    fs::write(ground.path("out/outside.py"), outside).unwrap();
    let inside = "import fcntl, os, pty, termios, time\nwhile not os.path.exists('../out/tty'): time.sleep(0.01)\n\
                  try: fcntl.ioctl(os.open(open('../out/tty').read(), os.O_RDONLY), termios.TIOCSTI, b'x'); print('typed')\n\
                  except OSError as error: print('refused')\n\
                  pid, own = pty.fork()\nif pid == 0: print(os.isatty(1), flush=True); os._exit(0)\n\
                  print(os.read(own, 100).decode().strip())\n";
    fs::write(ground.path("in/inside.py"), inside).unwrap();
    let there =
        CommandSpec::shell("command -v python3 > /dev/null || exit 42; exec python3 outside.py", &ground.path("out"));
    let (spawner, done) = (spawner(), Cancel::never());
    let mut ignore = |_: os::process::OutputStream, _: &[u8]| {};
    let outside = spawner.run(there, &done, &mut ignore);
    let inside = async {
        let output = ground.run("command -v python3 > /dev/null || exit 42; python3 inside.py", ground.sandbox()).await;
        fs::write(ground.path("out/typed"), "").unwrap();
        output
    };
    let (outside, inside) = tokio::join!(outside, inside);
    if inside.exit == Exit::Code(42) {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no python3");
        return;
    }
    assert_eq!(outside.unwrap().exit, Exit::Code(0));
    assert_eq!(inside.stdout.to_text(), "refused\nTrue\n", "{}", inside.stderr.to_text());
}
