//! What agents cannot see or reach.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::escape::skip;
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

/// Who runs a script in a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The shell of the built-in agent.
    Shell,
    /// A program that is the agent.
    Program,
    /// A tool of the pipeline.
    Tool,
}

use Who::{Program, Shell, Tool};

/// Lets somebody run a script, with these settings of the user's own and these variables. What it leaves in `seen` is
/// what came of it.
#[track_caller]
fn run(env: &TestEnv, who: Who, script: &str, settings: &str, variables: &[(&str, &str)]) -> (Ran, String) {
    env.write("config/pleach/config.yaml", settings);
    match who {
        Shell => {
            let call = json!([{"shell": {"command": script}}]);
            env.script(&format!(
                "model: m\nscripts:\n  - name: code\n    steps:\n      - {{text: Try., tools: {call}}}\n      - text: Done.\n"
            ));
        }
        Program => {
            let program = env.write_program("agent.sh", &format!("#!/bin/bash\ncat > asked\n{script}\n"));
            env.configure(&format!("agent: \"command:{}\"\n", program.display()));
        }
        Tool => env.configure("agent: builtin\n"),
    }
    env.pipeline(&match who {
        Tool => graph("secrets", &(tool("code", script) + "start -> code -> exit")),
        Shell | Program => graph("secrets", "code [prompt=\"Work\"] start -> code -> exit"),
    });
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let ran = env.finish(command.envs(variables.iter().copied()).output().expect("pleach can be started")).expect(0);
    let session = env.sessions().last().expect("a session").clone();
    let seen = env.git(&["show", &format!("refs/heads/pleach/secrets/{session}:seen")]);
    (ran, seen)
}

#[test]
fn n15_a_variables_value_makes_it_secret_and_passable() {
    // Put together here so that no scanner takes this file for a leak.
    let token = format!("{}_{}", "ghp", "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6");
    let variables = [
        ("DATABASE_URL", "postgres://me:hunter2@db.example.org/x"),
        ("CACHE", "redis://:hunter2@localhost:6379/0"),
        ("HTTPS_PROXY", "http://me:hunter2@proxy:3128"),
        ("CLONE_WITH", token.as_str()),
        ("NPM_TOKEN", "t"),
        ("SSH_AUTH_SOCK", "/run/agent.sock"),
        ("PLAIN_URL", "postgres://me@db.example.org/x"),
        ("GREETING", "hello"),
    ];
    let names = "DATABASE_URL CACHE HTTPS_PROXY CLONE_WITH NPM_TOKEN SSH_AUTH_SOCK PLAIN_URL GREETING";
    let script = format!("for name in {names}; do test -z \"${{!name}}\" || echo \"$name\"; done > seen");
    for who in [Shell, Program, Tool] {
        let env = TestEnv::with_repo();
        for mode in ["auto", "off"] {
            let (_, seen) = run(&env, who, &script, &format!("sandbox: {{mode: {mode}}}\n"), &variables);
            assert_eq!(seen, "PLAIN_URL\nGREETING", "{who:?} {mode}");
        }
        let passed = "env: {pass: [DATABASE_URL, SSH_AUTH_SOCK, NPM_TOKEN, GIT_DIR, NONE]}\n";
        let (_, seen) = run(&env, who, &script, passed, &variables);
        assert_eq!(seen, "DATABASE_URL\nNPM_TOKEN\nSSH_AUTH_SOCK\nPLAIN_URL\nGREETING", "{who:?}");
    }
}

const SECRETS: [&str; 26] = [
    "home/.ssh/id",
    "home/.aws/credentials",
    "home/.gnupg/private/key",
    "home/.config/gh/hosts.yml",
    "config/gh/hosts.yml",
    "home/.mozilla/firefox/me/cookies",
    "home/.config/google-chrome/Default/Cookies",
    "state/pleach/agents/other/login",
    "state/pleach/worktrees/other/main/file",
    "home/.git-credentials",
    "home/.netrc",
    "home/.npmrc",
    "home/.pypirc",
    "home/.cargo/credentials",
    "home/.cargo/credentials.toml",
    "home/.docker/config.json",
    "home/.kube/config",
    "config/gcloud/credentials.db",
    "home/.azure/msal_token_cache.json",
    "home/.bash_history",
    "data/fish/fish_history",
    "home/.claude.json",
    "home/.claude/.credentials.json",
    "home/.codex/auth.json",
    "home/.gemini/oauth_creds.json",
    "data/opencode/auth.json",
];

/// What is beside them.
const OPEN: [&str; 8] = [
    "home/.claude/settings.json",
    "home/.cargo/config.toml",
    "data/opencode/log/x",
    "home/.config/git/ignore",
    "home/.sshd/config",
    "home/notes",
    "config/ghost/x",
    "state/other/x",
];

/// A home with keys and logins in it.
fn home() -> TestEnv {
    let env = TestEnv::with_repo();
    SECRETS.iter().chain(&OPEN).for_each(|path| drop(env.write(path, "text\n")));
    // One is the user's link to another disk.
    let home = env.root().join("home");
    fs::create_dir(env.root().join("disk")).unwrap();
    fs::rename(home.join(".gnupg"), env.root().join("disk/gnupg")).unwrap();
    symlink("../disk/gnupg", home.join(".gnupg")).unwrap();
    symlink(".ssh", home.join("keys")).unwrap();
    env
}

/// A script that reads all of it, leaves in `seen` what it could read, and does its work.
fn reading(env: &TestEnv) -> String {
    let paths = SECRETS.iter().chain(&OPEN).map(|path| format!(" '{path}'")).collect::<String>();
    format!(
        "H='{}'; for path in{paths}; do cat \"$H/$path\" > /dev/null && echo \"$path\" >> seen; done\n\
         set -e; ls -A / \"$H\" \"$H/home\" \"$H/config\" > /dev/null; git status --short > /dev/null\n\
         git config --global --list > /dev/null; git log -1 --format=%H > /dev/null; cat README.md > /dev/null\n\
         echo 1 > \"$TMPDIR/x\"; cat \"$TMPDIR/x\" > /dev/null; mkdir new; echo 1 > new/x; cat new/x; rm -r new\n\
         echo worked >> seen\n",
        env.root().display()
    )
}

/// A script that tries other ways to the same files.
fn other_ways(env: &TestEnv) -> String {
    format!(
        "H='{}'; cat \"$H/home/keys/id\" && echo 'by a link of the user' >> seen\n\
         ln -s \"$H/home/.ssh\" link; cat link/id && echo 'by a link of its own' >> seen; rm link\n\
         ln \"$H/home/.ssh/id\" hard && echo 'by a second name' >> seen\n\
         mv \"$H/home/.aws\" moved && echo 'by another name' >> seen\n\
         cat \"$H/disk/gnupg/private/key\" && echo 'where it is' >> seen\n\
         cat \"/proc/self/root$H/home/.ssh/id\" && echo 'by way of a process' >> seen\n",
        env.root().display()
    )
}

/// What is left in `seen` where nothing is read but this.
fn only(paths: &[&str]) -> String {
    paths.iter().map(|path| format!("{path}\n")).collect::<String>() + "worked"
}

#[test]
fn n15_keys_and_logins_cannot_be_read_by_agents() {
    if skip("n15_keys_and_logins_cannot_be_read_by_agents", 4) {
        return;
    }
    for who in [Shell, Program] {
        let env = home();
        for settings in ["{}\n", "sandbox: {mode: required}\n", "sandbox: {network: open}\n"] {
            let (ran, seen) = run(&env, who, &(other_ways(&env) + &reading(&env)), settings, &[]);
            assert_eq!(seen, only(&OPEN), "{who:?} {settings}: {ran}");
        }
        if who == Program {
            let asked = format!("refs/heads/pleach/secrets/{}:asked", env.sessions().last().unwrap());
            assert!(env.git(&["show", &asked]).contains("The user's keys and logins cannot be read."));
        }
    }
}

#[test]
fn n15_keys_and_logins_cannot_be_read_under_bubblewrap() {
    use os::process::sandbox::{available, bubblewrap_works};
    if available().bubblewrap.is_none_or(|program| bubblewrap_works(&program).is_err()) {
        let text = b"SKIPPED n15_keys_and_logins_cannot_be_read_under_bubblewrap: bubblewrap is not installed, or may not be used\n";
        let _ = std::io::stderr().write_all(text);
        return;
    }
    let env = home();
    let variables = [("PLEACH_SANDBOX_BY", "bubblewrap,seccomp")];
    let (ran, seen) = run(&env, Shell, &(other_ways(&env) + &reading(&env)), "{}\n", &variables);
    assert_eq!(seen, only(&OPEN), "{ran}");
}

#[test]
fn n15_the_user_decides_what_is_hidden_from_whom() {
    if skip("n15_the_user_decides_what_is_hidden_from_whom", 4) {
        return;
    }
    let env = home();
    let all: Vec<&str> = SECRETS.iter().chain(&OPEN).copied().collect();
    let read = |who: Who, settings: &str| {
        let (_, seen) = run(&env, who, &reading(&env), settings, &[]);
        seen.strip_suffix("\nworked")
            .map(|seen| seen.lines().map(str::to_owned).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    assert_eq!(read(Tool, "{}\n"), all, "commands were agreed to");
    assert_eq!(read(Tool, "sandbox: {hide_from: all}\n"), OPEN);
    assert_eq!(read(Program, "sandbox: {mode: off}\n"), all);
    assert_eq!(read(Program, "sandbox: {hide: []}\n"), all);
    let some = read(Program, "sandbox: {hide: [~/.aws, ~/notes, ../../state/other]}\n");
    let expected: Vec<&str> = all
        .iter()
        .copied()
        .filter(|path| !path.contains("aws") && !["home/notes", "state/other/x"].contains(path))
        .collect();
    assert_eq!(some, expected);
    let opened = format!("sandbox: {{rw: [{}]}}\n", env.root().join("home/.ssh").display());
    let opened = read(Program, &opened);
    assert_eq!(opened, [&["home/.ssh/id"], OPEN.as_slice()].concat(), "what may be written may be read");
    // Whoever writes to all of a home reads in it what is not hidden.
    let opened = format!("sandbox: {{rw: [{}]}}\n", env.root().join("home").display());
    assert_eq!(read(Program, &opened), OPEN);
}

#[test]
fn n15_a_denied_hidden_file_is_explained() {
    if skip("n15_a_denied_hidden_file_is_explained", 4) {
        return;
    }
    let env = home();
    let script = format!("cat '{}'; echo done > seen", env.root().join("home/.ssh/id").display());
    let (ran, _) = run(&env, Program, &script, "{}\n", &[]);
    let text = ran.to_string();
    let expected = "the sandbox refused `[TEMP]/home/.ssh/id`, which `sandbox.hide` hides";
    assert!(text.contains(expected) && text.contains("`sandbox.show`") && !text.contains("sandbox.rw"), "{text}");
}

#[test]
fn a_hidden_file_is_one_setting_away() {
    if skip("a_hidden_file_is_one_setting_away", 4) {
        return;
    }
    let env = home();
    let settings = "sandbox: {show: [~/.npmrc, ~/.cargo/credentials.toml]}\n";
    let (ran, seen) = run(&env, Program, &reading(&env), settings, &[]);
    let shown = ["home/.npmrc", "home/.cargo/credentials.toml"];
    assert_eq!(seen, only(&[shown.as_slice(), &OPEN].concat()), "{ran}");
}

#[test]
fn each_agent_reads_its_own_login_alone() {
    if skip("each_agent_reads_its_own_login_alone", 4) {
        return;
    }
    let env = home();
    let own = |path: &&str| [".claude", ".codex", ".gemini", "opencode"].iter().any(|agent| path.contains(agent));
    let logins: Vec<&str> = SECRETS.into_iter().filter(own).collect();
    let script = logins.iter().map(|path| format!("cat '{}/{path}' && echo {path} >> seen; ", env.root().display()));
    let script = script.collect::<String>() + "true";
    // The program of that name, driven as the real one, and by a template.
    for (agent, reads) in [
        ("claude", vec!["home/.claude.json", "home/.claude/.credentials.json"]),
        ("codex", vec!["home/.codex/auth.json"]),
        ("gemini", vec!["home/.gemini/oauth_creds.json"]),
        ("opencode", vec!["data/opencode/auth.json"]),
    ] {
        env.write_program(
            format!("bin/{agent}"),
            &format!("#!/bin/sh\ntest \"$1\" = --version && exit\ncat > asked\n{script}\n"),
        );
        for settings in [
            format!("agent: {agent}\nagents: {{{agent}: {{turns: node}}}}\n"),
            format!("agent: mine\nagents: {{mine: {{command: [{agent}]}}}}\n"),
        ] {
            env.configure(&settings);
            let ran = env.run(&graph("secrets", "code [prompt=\"Work\"] start -> code -> exit"), &[]);
            let seen = format!("refs/heads/pleach/secrets/{}:seen", env.sessions().last().unwrap());
            assert_eq!(env.git(&["show", &seen]).lines().collect::<Vec<_>>(), reads, "{settings}: {ran}");
        }
    }
}

#[test]
fn n15_required_closes_the_network_of_command_agents_too() {
    if skip("n15_required_closes_the_network_of_command_agents_too", 4) || !Path::new("/bin/bash").exists() {
        return;
    }
    let env = TestEnv::with_repo();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello"));
        }
    });
    let script = format!("(exec 3<> /dev/tcp/127.0.0.1/{port} && cat <&3) > seen; echo . >> seen");
    let asked = || env.git(&["show", &format!("refs/heads/pleach/secrets/{}:asked", env.sessions().last().unwrap())]);
    for (settings, reached, line) in [
        ("sandbox: {mode: required}\n", false, "agents reach only their model"),
        ("sandbox: {mode: required, network: open}\n", true, "network open"),
        ("sandbox: {mode: auto}\n", true, "network open to agents outside the gateway"),
    ] {
        let (ran, seen) = run(&env, Program, &script, settings, &[]);
        assert_eq!(seen, if reached { "hello." } else { "." }, "{settings}: {ran}");
        assert!(ran.stderr.contains(&format!("sandbox: Landlock; {line}\n")), "{ran}");
        assert_eq!(asked().contains("There is no network."), !reached, "{settings}");
    }
    // So is that of one by a template.
    let program = env.root().join("agent.sh");
    for (mode, reached) in [("required", false), ("auto", true)] {
        env.write("config/pleach/config.yaml", format!("sandbox: {{mode: {mode}}}\n"));
        env.configure(&format!("agent: mine\nagents: {{mine: {{command: [{}]}}}}\n", program.display()));
        let ran = env.pleach(&["-y", "run", "../pipeline.dot"]).expect(0);
        let seen = format!("refs/heads/pleach/secrets/{}:seen", env.sessions().last().unwrap());
        assert_eq!(env.git(&["show", &seen]), if reached { "hello." } else { "." }, "{mode}: {ran}");
    }
}

#[test]
fn n15_a_repository_opens_none_of_it_unasked() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("secrets", "start -> exit"));
    for (settings, asked) in [
        ("sandbox: {hide: []}\n", "sandbox (sandbox.hide, "),
        ("sandbox: {hide: [~/.ssh]}\n", "~/.aws can be read"),
        ("sandbox: {network: open}\n", "sandbox (sandbox.network, "),
        ("sandbox: {mode: auto}\n", "sandbox (sandbox.mode, "),
        ("sandbox: {show: [~/.npmrc]}\n", "~/.npmrc can be read"),
        ("sandbox: {hide_from: agents}\n", "sandbox (sandbox.hide_from, "),
        ("env: {pass: [NPM_TOKEN]}\n", "NPM_TOKEN"),
    ] {
        env.write("config/pleach/config.yaml", "sandbox: {mode: required, hide_from: all}\n");
        env.configure(settings);
        let ran = env.pleach(&["run", "../pipeline.dot"]).expect(4);
        assert!(ran.stderr.contains(asked), "{settings}: {ran}");
    }
    env.configure("sandbox: {hide_from: all}\n");
    env.pleach(&["run", "../pipeline.dot"]).expect(0);
}

#[test]
fn n15_provider_secrets_stay_private_whatever_their_variable() {
    let provider =
        "providers: {far: {kind: chat, base_url: 'http://localhost:1', api_key: $GARDEN, headers: {X-Auth: $HEDGE}}}\n";
    let variables = [
        ("GARDEN", "tulip-93-keeper"),
        ("HEDGE", "beech-41-warden"),
        ("PLEACH_PROVIDERS__FAR__HEADERS__X_MORE", "maple-27-guard"),
        ("HTTP_PROXY", "me:pw-of-mine@proxy:3128"),
        ("DB", "jdbc:postgresql://db/x?user=me&password=pw-of-db"),
    ];
    for who in [Shell, Program] {
        let env = TestEnv::with_repo();
        let (ran, seen) = run(&env, who, "env > seen; echo $GARDEN", provider, &variables);
        for (name, value) in variables {
            assert!(!seen.contains(value) && !seen.contains(&format!("{name}=")), "{name} for {who:?}: {ran}");
        }
    }
    let env = TestEnv::with_repo();
    let (_, seen) = run(&env, Program, "env > seen", &format!("{provider}env: {{pass: [GARDEN]}}\n"), &variables);
    assert!(seen.contains("GARDEN="), "{seen}");
}
