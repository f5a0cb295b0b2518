//! Limits of time, also over a stop, and limits of the system: open files, processes and threads.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::parallel::fan;
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

#[test]
fn stopped_time_counts_against_no_time_limit() {
    let env = TestEnv::with_repo();
    env.unbound();
    let root = env.root().display();
    let work = |who| {
        format!("touch {root}/{who}.begun; until test -e {root}/go; do sleep 0.02; done; sleep 0.3; echo done > {who}")
    };
    let agent = env.write_program("agent.sh", &format!("#!/bin/sh\ncat > /dev/null\n{}\necho Done.\n", work("agent")));
    env.configure(&format!("agent: \"command:{}\"\n", agent.display()));
    let body = tool("tool", &work("tool")) + " agent [prompt=Work] join -> exit";
    let body = body.replace("tool [", "tool [timeout=\"4s\", ").replace("agent [", "agent [timeout=\"4s\", ");
    let running = env.start(&fan("stopped", "", &["tool", "agent"], &body), &[]);
    env.wait_for_file("tool.begun");
    env.wait_for_file("agent.begun");
    running.signal("STOP");
    // This is what is tested: longer than the limits.
    std::thread::sleep(Duration::from_secs(5));
    running.signal("CONT");
    env.write("go", "");
    running.end().expect(0);
    assert_eq!(env.files(), ["README.md", "agent", "tool"]);
}

#[test]
fn a_command_that_ends_well_is_not_recorded_late() {
    let env = TestEnv::with_repo();
    env.unbound();
    // Its supervisor learns of its end and of the limit at once.
    let work = tool("work", "echo done > work; (sleep 2; kill -CONT $PPID) & kill -STOP $PPID; exit 0");
    let dot = graph("late", &(work.replace("work [", "work [timeout=\"1s\", ") + "start -> work -> exit"));
    let ran = env.run(&dot, &[]).expect(0);
    assert_eq!(env.story().node("work")["outcome"]["status"], "success", "{ran}");
    assert_eq!(env.story().last("ToolExecution")["exit"], "exit 0");
    assert_eq!(env.committed("work"), "done");
}

/// A call of pleach from a shell that has set a limit.
fn limited(env: &TestEnv, limit: &str, args: &[&str]) -> Ran {
    let mut command: Command = env.program("sh", &env.repo_path());
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_pleach")]).args(args);
    env.finish(command.output().expect("sh can be started"))
}

#[test]
fn open_files_are_raised_but_not_for_commands() {
    let env = TestEnv::with_repo();
    env.unbound();
    let own =
        "grep 'Max open files' /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/limits | tr -s ' ' > pleach; ulimit -Sn > own";
    env.pipeline(&graph("files", &(tool("work", own) + "start -> work -> exit")));
    limited(&env, "-Sn 100 && ulimit -Hn 1000", &["-y", "run", "../pipeline.dot"]).expect(0);
    assert_eq!(env.committed("pleach").trim_end(), "Max open files 1000 1000 files");
    assert_eq!(env.committed("own"), "100", "commands have what was given");
}

#[test]
fn a_low_limit_of_open_files_is_named() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("files", &(tool("work", "true") + "start -> work -> exit")));
    let ran = limited(&env, "-n 12", &["-y", "run", "../pipeline.dot"]).expect(7);
    ran.fails_with("limit-reached").naming("`ulimit -Hn`");
    let told = limited(&env, "-n 100", &["--json", "doctor"]).expect(7).json();
    let finding =
        told["findings"].as_array().unwrap().iter().find(|found| found["what"] == "limits").expect("it is said");
    assert_eq!(finding["level"], "error");
    assert!(finding["fix"].as_str().unwrap().contains("`ulimit -Hn`"), "{finding}");
}

#[test]
fn without_threads_nothing_is_begun() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("threads", &(tool("work", "true") + "start -> work -> exit")));
    // A stack no thread can have, which the system refuses as it does one process too many.
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let ran = env.finish(command.env("RUST_MIN_STACK", (1_u64 << 50).to_string()).output().unwrap()).expect(7);
    ran.fails_with("limit-reached").naming("`ulimit -u`");
    assert_eq!(env.sessions(), Vec::<String>::new());
}

#[test]
fn a_limit_of_processes_ends_with_its_name() {
    let env = TestEnv::new();
    let pleach = env!("CARGO_BIN_EXE_pleach");
    // Nothing limits root.
    let is_root = env.root().metadata().expect("a directory of the test's own").uid() == 0;
    let humble = ["setpriv", "--reuid=64321", "--regid=64321", "--clear-groups"];
    let run = |limit: &str, args: &[&str]| {
        let words = [if is_root { humble.as_slice() } else { &[] }, &["prlimit", limit], args].concat();
        env.program(words[0], Path::new("/")).args(&words[1..]).output()
    };
    if !run("--nproc=50:50", &["test", "-x", pleach]).is_ok_and(|tried| tried.status.success()) {
        let text = b"SKIPPED a_limit_of_processes_ends_with_its_name: no prlimit, or a program nobody else can run\n";
        let _ = std::io::stderr().write_all(text);
        return;
    }
    let ran = env.finish(run("--nproc=2:2", &[pleach, "doctor"]).unwrap()).expect(7);
    ran.fails_with("limit-reached").naming("`ulimit -u`").not_naming("install git");
}
