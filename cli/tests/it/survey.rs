//! `pleach init` and `pleach doctor`: what they find in a world of which all is known.

use std::path::PathBuf;
use std::process::Command;

use regex::Regex;

use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

/// A world in which nothing is installed but git.
pub struct Bare(pub TestEnv);

impl Bare {
    pub fn new() -> Self {
        let env = TestEnv::with_repo();
        let git = which("git");
        std::fs::create_dir(env.root().join("bin")).expect("a directory of the test's own");
        std::os::unix::fs::symlink(git, env.root().join("bin/git")).expect("a link of the test's own");
        Self(env)
    }

    /// Installs an agent that says this version.
    pub fn install(&self, name: &str, version: &str) {
        self.0.write_program(format!("bin/{name}"), &format!("#!/bin/sh\necho '{version}'\n"));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("PATH", self.0.root().join("bin"));
        command
    }

    pub fn pleach(&self, args: &[&str]) -> Ran {
        self.0.finish(self.command(args).output().expect("pleach can be started"))
    }

    pub fn with_key(&self, variable: &str, args: &[&str]) -> Ran {
        let key = ["sk", "never", "shown"].join("-");
        let ran = self.0.finish(self.command(args).env(variable, &key).output().expect("pleach can be started"));
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(&key), "a key is shown: {ran}");
        ran
    }

    /// What doctor says, without what differs from machine to machine.
    fn doctor(&self, args: &[&str]) -> String {
        let args = [&["doctor"], args].concat();
        normalised(&self.pleach(&args))
    }
}

#[expect(clippy::disallowed_methods, reason = "the test stands outside of pleach and looks where a user would")]
fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{program} is not on PATH"))
}

fn normalised(ran: &Ran) -> String {
    let mut text = ran.to_string();
    for (pattern, with) in [
        (r"(ok +git +)\S+( \(.*\))?", "${1}[GIT]"),
        (r"\d+\.\d [GM]iB", "[FREE]"),
        // What a machine has to keep agents in bounds is its own affair.
        (r"(ok|warn) +sandbox +.*(\n +fix: .*)?", "ok     sandbox     [SANDBOX]"),
    ] {
        text = Regex::new(pattern).expect("a valid pattern").replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn init_writes_what_it_found() {
    let bare = Bare::new();
    bare.install("claude", "2.1.325 (Claude Code)");
    bare.install("codex", "codex-cli 0.166.0");
    bare.0.write("repo/package.json", r#"{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "3"}}"#);
    bare.0.write("repo/pnpm-lock.yaml", "");
    insta::assert_snapshot!(bare.with_key("OPENAI_API_KEY", &["init", "-y"]), @r#"
    exit: 0
    --- stdout
    # Settings of pleach for this repository; `pleach config` shows all there are.

    # Who works. Found here: claude, codex, OPENAI_API_KEY.
    agent: codex

    # What a run may cost, in US dollars; it stops there. `per_day_usd` limits a day.
    budget:
      usd: 10

    worktrees:
      # Run once in each new worktree. Guessed from package.json, not tried; `pnpm` is not on PATH.
      setup: pnpm install --frozen-lockfile

    # Tests prompts, tasks and merges that have no test of their own. Guessed from package.json, not tried; `pnpm` is not on PATH.
    test_command: pnpm test
    --- stderr
    wrote [TEMP]/repo/pleach.yaml
    check:   pleach doctor
    try it:  pleach run "Fix the failing test"
    "#);
    assert_eq!(bare.0.read("repo/pleach.yaml").lines().filter(|line| line.starts_with("agent:")).count(), 1);
    let config = bare.pleach(&["config", "--json"]).expect(0).json();
    let value = |key: &str| config["settings"][key]["value"].clone();
    assert_eq!(value("agent"), "codex");
    assert_eq!(value("worktrees.setup"), "pnpm install --frozen-lockfile");
    assert_eq!(value("test_command"), "pnpm test");
    insta::assert_snapshot!(bare.with_key("OPENAI_API_KEY", &["init", "-y"]), @"
    exit: 2
    --- stderr
    error[settings-exist]: `pleach.yaml` already exists and was not changed
    hint: it says what was found here; `pleach config` shows every setting
    ");
}

#[test]
fn init_asks_before_it_writes() {
    let bare = Bare::new();
    bare.0.write("repo/Cargo.toml", "[package]\n");
    insta::assert_snapshot!(bare.pleach(&["init"]), @"
    exit: 4
    --- stdout
    # Settings of pleach for this repository; `pleach config` shows all there are.

    # Who works. Neither an agent nor a key was found here, so nothing that needs one can run until one is
    # named: claude, codex, gemini, opencode, builtin, acp:COMMAND or command:COMMAND.
    # agent: claude

    # Tests prompts, tasks and merges that have no test of their own. Guessed from Cargo.toml, not tried; `cargo` is not on PATH.
    test_command: cargo test
    --- stderr
    error[not-confirmed]: nothing was written: there is no terminal to confirm on
    hint: run `pleach init -y` to write what is shown above
    ");
    assert!(!bare.0.root().join("repo/pleach.yaml").exists());
}

#[test]
fn init_reports_differences_to_an_existing_file() {
    let bare = Bare::new();
    bare.0.write("repo/go.mod", "module x\n");
    bare.0.write("repo/orchestra.yaml", "agent: simulation\ntree: {test_command: make test}\n");
    insta::assert_snapshot!(bare.with_key("ANTHROPIC_API_KEY", &["init", "-y"]), @"
    exit: 2
    --- stderr
    error[settings-exist]: `orchestra.yaml` already exists and was not changed: `agent` is `simulation`, but `builtin` was found; `worktrees.setup` is not set, but the guess from go.mod is `go mod download` (`go` is not on PATH); `test_command` is `make test`, but the guess from go.mod is `go test ./...` (`go` is not on PATH)
    hint: change the file by hand where you agree
    ");
    bare.0.write("repo/orchestra.yaml", "agnet: simulation\n");
    let ran = bare.pleach(&["init", "-y"]).expect(2);
    ran.fails_with("settings-exist").naming("orchestra.yaml:1:1").naming("`agnet`");
    assert_eq!(bare.0.read("repo/orchestra.yaml"), "agnet: simulation\n");
}

#[test]
fn a_missing_module_of_python_is_named() {
    let bare = Bare::new();
    bare.0.write("repo/requirements.txt", "pytest\n");
    bare.0.write_program("bin/python3", "#!/bin/sh\ncase $3 in pytest) echo missing ;; esac\n");
    let shown = bare.pleach(&["init", "-y"]).expect(0);
    assert!(shown.stdout.contains("not tried; `pytest` is not installed for `python3`."), "{shown}");
    assert!(!shown.stderr.contains("test:  "), "what cannot work is not run: {shown}");
    let doctor = bare.pleach(&["doctor"]).expect(7).stdout;
    assert!(doctor.contains("`test_command` needs `pytest`, which is not installed for `python3`"), "{doctor}");
    bare.0.write("repo/pleach.yaml", "test_command: make\n");
    bare.pleach(&["init"])
        .expect(2)
        .fails_with("settings-exist")
        .naming("the guess from requirements.txt is `python3 -m pytest` (`pytest` is not installed for `python3`)");
}

#[test]
fn init_as_json_writes_only_when_asked() {
    let bare = Bare::new();
    bare.install("gemini", "0.61.0");
    bare.install("opencode", "");
    bare.0.write("home/.gemini/oauth_creds.json", "{}");
    bare.0.write("repo/Makefile", "test:\n\ttrue\n");
    bare.0.write("repo/pyproject.toml", "[tool.poetry]\n");
    let told = bare.pleach(&["init", "--json"]).expect(0).json();
    assert_eq!(told["written"], false);
    let agents: Vec<_> =
        told["agents"].as_array().unwrap().iter().map(|agent| (&agent["name"], &agent["version"])).collect();
    assert_eq!(serde_json::json!(agents), serde_json::json!([["gemini", "0.61.0"], ["opencode", null]]));
    assert_eq!(told["agents"][0]["login"], true);
    assert_eq!(told["agent"], "gemini");
    assert_eq!(
        told["project"],
        serde_json::json!([
            {"from": "pyproject.toml", "setup": "poetry install", "test": null},
            {"from": "Makefile", "setup": null, "test": "make test"},
        ])
    );
    assert!(!bare.0.root().join("repo/pleach.yaml").exists());
    let told = bare.pleach(&["init", "--json", "-y"]).expect(0).json();
    assert_eq!((&told["written"], &told["test"]), (&true.into(), &serde_json::Value::Null), "make is not there");
    assert_eq!(bare.0.read("repo/pleach.yaml"), told["text"].as_str().unwrap());
    bare.pleach(&["config"]).expect(0);
}

#[test]
fn init_runs_the_test_once_on_head() {
    let bare = Bare::new();
    bare.0.write("repo/Makefile", "test:\n\ttest ! -e broken.txt\n");
    bare.0.write_program("bin/make", "#!/bin/sh\n[ ! -e broken.txt ] || { echo broken; exit 1; }\n");
    let green = bare.pleach(&["init", "-y"]).expect(0).to_string();
    assert!(green.contains("test:    `make test` passes on `main`"), "{green}");
    std::fs::remove_file(bare.0.root().join("repo/pleach.yaml")).unwrap();
    // What merges are tested with by the user's own settings is what is run, and named.
    let user = bare.0.write("config/pleach/config.yaml", "merge: {test_command: 'make all'}\n");
    let other = bare.pleach(&["init", "-y"]).expect(0).to_string();
    assert!(other.contains("test:    `make all` passes on `main`"), "{other}");
    std::fs::remove_file(user).unwrap();
    std::fs::remove_file(bare.0.root().join("repo/pleach.yaml")).unwrap();
    bare.0.write("repo/broken.txt", "");
    bare.0.git(&["add", "broken.txt"]);
    bare.0.git(&["commit", "-qm", "Break"]);
    let told = bare.pleach(&["init", "-y", "--json"]).expect(0).json();
    assert_eq!(told["test"], serde_json::json!({"passed": false, "exit": "exit 1"}));
    // What was found out is said before work starts on it.
    bare.0.git(&["switch", "-qc", "topic"]);
    bare.0.git(&["commit", "-q", "--allow-empty", "-m", "Look"]);
    bare.0.git(&["switch", "-q", "main"]);
    bare.pleach(&["merge", "enqueue", "topic"]).expect(0);
    let ran = bare.pleach(&["-y", "merge", "process"]).expect(1);
    ran.warns_once("target-red").naming("`make test` already fails on `main` (exit 1)");
}

#[test]
fn every_kind_of_project_gets_a_readable_file() {
    let bare = Bare::new();
    let projects: [&[(&str, &str)]; 5] = [
        &[("Cargo.toml", "[workspace]\n"), ("Cargo.lock", "")],
        &[("package.json", r#"{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}"#), ("bun.lockb", "")],
        &[("requirements.txt", "pytest\n"), (".gitignore", ".venv\n")],
        &[("go.mod", "module x\n")],
        &[("README.md", "nothing\n")],
    ];
    for (number, files) in projects.into_iter().enumerate() {
        let name = format!("project-{number}");
        let repo = bare.0.repo_at(&name);
        for (file, text) in files {
            bare.0.write(format!("{name}/{file}"), text);
        }
        let run = |args: &[&str]| bare.0.finish(bare.command(args).current_dir(&repo).output().expect("pleach"));
        run(&["init", "-y"]).expect(0);
        run(&["config"]).expect(0);
        // Nothing of what they need is installed here.
        let needs_a_tool = bare.0.read(format!("{name}/pleach.yaml")).contains("not tried");
        run(&["doctor"]).expect(if needs_a_tool { 7 } else { 0 });
    }
}

#[test]
fn doctor_finds_nothing_wrong_with_a_good_world() {
    let bare = Bare::new();
    bare.install("claude", "2.1.325 (Claude Code)");
    bare.0.configure("agent: claude\nagents: {helper: {runner: builtin}}\n");
    let ran = bare.with_key("ANTHROPIC_API_KEY", &["doctor"]);
    insta::assert_snapshot!(normalised(&ran), @"
    exit: 0
    --- stdout
    ok     git         [GIT]
    ok     repository  [TEMP]/repo
    ok     settings    [TEMP]/pleach.yaml
    ok     agent       `agent` is claude 2.1.325 (turns: gateway), billed to ANTHROPIC_API_KEY through the gateway
    ok     agent       `agents.helper.runner` is builtin
    ok     installed   claude 2.1.325
    ok     keys        anthropic (ANTHROPIC_API_KEY)
    ok     sandbox     [SANDBOX]
    ok     disk        [FREE] free for pleach's state, [TEMP]/state/pleach
    ok     disk        [FREE] free for the repository, [TEMP]/repo
    ok     sessions    0 sessions
    ok     leftovers   none
    ");
    let quiet = bare.with_key("ANTHROPIC_API_KEY", &["doctor", "-q"]).expect(0);
    assert!(!quiet.stdout.contains("ok "), "{quiet}");
}

#[test]
fn doctor_looks_at_agents_by_a_template_too() {
    let bare = Bare::new();
    bare.install("aider", "aider 0.86.1");
    bare.0.configure(
        "agents:\n  aider: {command: [aider, --message-file, '{prompt_file}']}\n  \
         gone: {command: [nowhere, '{prompt}']}\n  kept: {command: [aider], tools: [read_file]}\n  \
         claude: {idle_timeout: 60}\n  plain: {model: smart}\n",
    );
    let ran = bare.pleach(&["doctor"]).expect(7);
    let agents: Vec<&str> =
        ran.stdout.lines().skip_while(|line| !line.contains("no agent is configured")).skip(2).take(5).collect();
    insta::assert_snapshot!(agents.join("\n"), @r"
    ok     agent       `agents.aider` is command:aider --message-file '{prompt_file}'
    error  agent       `agents.gone` (command:nowhere '{prompt}'): nowhere is not installed: there is no program `nowhere` on PATH
                       fix: install it, or correct the command
    error  agent       `agents.kept` (command:aider): `agents.kept.tools` is set, but `aider` cannot be limited to some of its tools
                       fix: remove it, or put `{tools}` into its command
    ");
    assert!(!ran.stdout.contains("agents.claude") && !ran.stdout.contains("agents.plain"), "{ran}");
}

#[test]
fn doctor_and_runs_agree_on_turns_and_hooks() {
    let bare = Bare::new();
    let known = ["claude", "codex", "gemini", "opencode"];
    known.iter().for_each(|name| bare.install(name, "9.8.7"));
    bare.0.log_in();
    let nodes: String = known.iter().map(|name| format!("{name} [prompt=Work, agent=my-{name}] ")).collect();
    bare.0.write("all.dot", graph("all", &format!("{nodes} start -> {} -> exit", known.join(" -> "))));
    // How its turns are told apart, and who pays.
    let facts = |line: &str| line.split_once(" (turns: ")?.1.split(':').next().map(str::to_owned);
    for more in ["", ", turns: hooks", ", turns: stream"] {
        let mut agents = vec![format!("  my-claude: {{runner: claude{more}}}\n")];
        agents.extend(known[1..].iter().map(|name| format!("  my-{name}: {{runner: {name}}}\n")));
        bare.0.configure(&format!("agents:\n{}", agents.concat()));
        let checked = bare.pleach(&["doctor"]).expect(0).stdout;
        let checked: Vec<String> = checked.lines().filter_map(facts).collect();
        let planned = bare.pleach(&["run", "../all.dot", "--dry-run"]).expect(0).stdout;
        let planned: Vec<String> = planned.lines().filter_map(facts).collect();
        assert_eq!(checked, planned, "{more}");
        let of_claude = if more.ends_with("stream") { "stream)" } else { "hooks)" };
        assert!(checked.len() == known.len() && checked[0].starts_with(of_claude), "{checked:?}");
    }
}

#[test]
fn doctor_names_problems_and_their_fixes() {
    let bare = Bare::new();
    bare.0.configure(
        "agent: codex\nagents: {a: {runner: builtin}, b: {runner: 'acp:nowhere --acp'}, c: {runner: simulation}}\n",
    );
    insta::assert_snapshot!(bare.doctor(&[]), @"
    exit: 7
    --- stdout
    ok     git         [GIT]
    ok     repository  [TEMP]/repo
    ok     settings    [TEMP]/pleach.yaml
    error  agent       `agent` (codex): Codex is not installed: there is no program `codex` on PATH
                       fix: install it with `npm install -g @openai/codex`
    error  agent       `agents.a.runner` (builtin): no model is configured
                       fix: set a key such as ANTHROPIC_API_KEY, or `providers.default` and its settings in pleach.yaml
    error  agent       `agents.b.runner` (acp:nowhere --acp): The agent is not installed: there is no program `nowhere` on PATH
                       fix: install it, or correct the command
    ok     agent       `agents.c.runner` is simulation
    ok     installed   none of claude, codex, gemini and opencode is on PATH
    ok     keys        none is set
    ok     sandbox     [SANDBOX]
    ok     disk        [FREE] free for pleach's state, [TEMP]/state/pleach
    ok     disk        [FREE] free for the repository, [TEMP]/repo
    ok     sessions    0 sessions
    ok     leftovers   none
    ");
    let told = bare.pleach(&["doctor", "--json"]).expect(7).json();
    assert_eq!(told["ok"], false);
    let levels: Vec<&str> =
        told["findings"].as_array().unwrap().iter().filter_map(|found| found["level"].as_str()).collect();
    assert_eq!(levels.iter().filter(|level| **level == "error").count(), 3, "{told}");
}

#[test]
fn doctor_starts_no_program_the_repository_brings_along() {
    let bare = Bare::new();
    let trap = bare.0.write_program("repo/trap", "#!/bin/sh\n: > \"$0.sprung\"\necho 1.0\n");
    let trap = trap.display();
    bare.0.configure(&format!(
        "agent: claude\nagents: {{claude: {{command: ['{trap}']}}, a: {{runner: 'acp:{trap}'}}, \
         b: {{runner: 'command:{trap}', turns: node}}, c: {{runner: codex, command: ['{trap}']}}}}\n"
    ));
    bare.pleach(&["doctor"]).expect(0);
    bare.pleach(&["init"]).expect(4);
    assert!(!bare.0.root().join("repo/trap.sprung").exists());
}

#[test]
fn doctor_starts_programs_without_the_variables_of_the_repository() {
    let bare = Bare::new();
    bare.0.write_program("bin/claude", "#!/bin/sh\n[ -z \"$TRAP\" ] || : > \"$TRAP\"\necho 1.0\n");
    bare.0.configure("agent: claude\n");
    let sprung = bare.0.root().join("sprung");
    bare.0.write(".env", format!("TRAP={}\n", sprung.display()));
    let ran = bare.pleach(&["doctor"]).expect(0);
    assert!(ran.stdout.contains("claude 1.0"), "it was asked for its version: {ran}");
    assert!(!sprung.exists());
    let own = bare.0.finish(bare.command(&["doctor"]).env("TRAP", &sprung).output().unwrap());
    assert!(sprung.exists(), "the user's own variables count: {own}");
}

#[test]
fn doctor_looks_also_where_settings_or_repository_are_broken() {
    let bare = Bare::new();
    bare.0.configure("agnet: codex\n");
    let ran = bare.pleach(&["doctor"]).expect(7);
    assert!(ran.stdout.contains("agnet"), "{ran}");
    let outside = bare.0.finish(bare.command(&["doctor"]).current_dir(bare.0.root().join("tmp")).output().unwrap());
    assert!(outside.stdout.contains("agnet"), "the file above counts there too: {outside}");
    bare.0.configure("");
    let outside = bare.0.finish(bare.command(&["doctor"]).current_dir(bare.0.root().join("tmp")).output().unwrap());
    assert!(outside.stdout.contains("warn   repository"), "{outside}");
    std::fs::remove_file(bare.0.root().join("bin/git")).unwrap();
    let ran = bare.pleach(&["doctor"]).expect(7);
    assert!(ran.stdout.contains("error  git") && ran.stdout.contains("fix: install git 2.38 or newer"), "{ran}");
}

#[test]
fn doctor_removes_what_sessions_have_left_and_keeps_their_work() {
    let bare = Bare::new();
    let env = &bare.0;
    env.configure("agent: simulation\n");
    let dot = graph("one", &format!("{} start -> work -> exit", tool("work", "echo 1 > made")));
    env.run(&dot, &[]).expect(0);
    env.run(&dot, &[]).expect(0);
    let [gone, stays] = <[String; 2]>::try_from(env.sessions()).expect("two sessions");
    let worktrees = |sid: &str| {
        let all = env.git(&["worktree", "list", "--porcelain"]);
        all.lines().filter(|line| line.ends_with(&format!("/{sid}/main"))).count()
    };
    let copy = env.git(&["worktree", "list", "--porcelain"]);
    let copy =
        copy.lines().filter_map(|line| line.strip_prefix("worktree ")).find(|path| path.contains(&gone)).unwrap();
    std::fs::write(format!("{copy}/precious"), "uncommitted\n").unwrap();
    env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{gone}/main")]);
    // A worktree of the user's own that looks like one of a session is none.
    let own = env.root().join("abcdefgh/main");
    env.git(&["worktree", "add", "--quiet", "--detach", own.to_str().unwrap()]);

    let looked = bare.pleach(&["doctor", "--json"]).expect(0).json();
    let left = |told: &serde_json::Value, fixed: bool| {
        let all = told["findings"].as_array().unwrap().iter();
        all.filter(|found| found["what"] == "leftovers" && found["fixed"] == fixed).count()
    };
    assert_eq!(left(&looked, false), 3, "a working copy and two locks: {looked}");
    assert_eq!((worktrees(&gone), worktrees(&stays)), (1, 1), "looking changes nothing");

    let mended = bare.pleach(&["doctor", "--fix", "--json"]).expect(0).json();
    assert_eq!(left(&mended, true), 3, "{mended}");
    assert_eq!((worktrees(&gone), worktrees(&stays)), (0, 1));
    assert!(own.is_dir());
    let kept = env.git(&["for-each-ref", "--format=%(refname)", &format!("refs/pleach/keep/{gone}-1")]);
    assert_eq!(env.git(&["show", &format!("{kept}:precious")]), "uncommitted");
    assert_eq!(env.git(&["show", &format!("{kept}:made")]), "1");
    let again = bare.doctor(&["--fix"]);
    assert!(again.contains("ok     leftovers   none"), "{again}");
    env.pleach(&["status", &stays]).expect(0);
}

#[test]
fn doctor_names_sessions_that_were_killed() {
    let bare = Bare::new();
    let env = &bare.0;
    let gate = crate::sessions::Gate::new(env, "tool");
    let dot = graph("one", &format!("{} start -> work -> exit", tool("work", &gate.command())));
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    let told = bare.doctor(&[]);
    assert!(told.contains("1 session, 1 of them running now"), "{told}");
    run.kill(held);
    let told = bare.doctor(&[]);
    assert!(told.contains("warn   sessions    [SID] was killed while it ran"), "{told}");
    assert!(told.contains("fix: `pleach resume [SID]` continues it, `pleach rm [SID]` removes it"), "{told}");
}

#[test]
fn temporary_files_of_killed_runs_are_removed() {
    let available = os::process::sandbox::available();
    if available.landlock_abi.is_none() && available.bubblewrap.is_none() {
        // The macros' output is kept back by the test harness, and this must be seen.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED temporary_files_of_killed_runs_are_removed: there is no sandbox on this machine\n",
        );
        return;
    }
    let bare = Bare::new();
    let env = &bare.0;
    let scratch = || {
        let all = std::fs::read_dir(env.root().join("tmp")).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.join("left").exists()).collect::<Vec<_>>()
    };
    let gate = crate::sessions::Gate::new(env, "tool");
    let command = format!("echo 1 > $TMPDIR/left; {}", gate.command());
    let dot = graph("one", &format!("{} start -> work -> exit", tool("work", &command)));
    let kill = || {
        let mut run = env.start(&dot, &[]);
        let held = gate.reached(&mut run);
        let told = bare.doctor(&[]);
        assert!(!told.contains("temporary files"), "those of a run that lives are its own: {told}");
        run.kill(held);
        scratch()
    };
    let left = kill();
    assert_eq!(left.len(), 1);
    let told = bare.pleach(&["doctor"]).expect(0);
    let message = format!("warn   leftovers   the temporary files {} of a run that was killed", left[0].display());
    assert!(told.stdout.contains(&message), "{told}");
    assert!(left[0].is_dir(), "looking changes nothing");
    let mended = bare.pleach(&["doctor", "--fix"]).expect(0);
    assert!(mended.stdout.contains(&format!("removed the temporary files {}", left[0].display())), "{mended}");
    assert_eq!(scratch(), Vec::<std::path::PathBuf>::new());

    assert_eq!(kill().len(), 1);
    let killed = env.sessions().pop().expect("two sessions");
    env.pleach(&["rm", "--force", &killed]).expect(0);
    assert_eq!(scratch(), Vec::<std::path::PathBuf>::new(), "they go with the session");

    assert_eq!(kill().len(), 1);
    gate.stay_open();
    let third = env.sessions().pop().expect("three sessions");
    env.pleach(&["-y", "resume", &third]).expect(0);
    assert_eq!(scratch(), Vec::<std::path::PathBuf>::new(), "the next run has removed them, and its own");
    let clean = bare.doctor(&[]);
    assert!(clean.contains("ok     leftovers   none"), "{clean}");
}

#[test]
fn doctor_checks_providers_only_when_asked_without_a_key() {
    let bare = Bare::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    bare.0.configure(&format!(
        "agent: simulation\nproviders: {{openai: {{settings: {{api_base: 'http://{address}/v1'}}}}}}\n"
    ));
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut asked = Vec::new();
        let mut chunk = [0; 1024];
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut chunk).expect("a request");
            asked.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").expect("an answer");
        String::from_utf8(asked).expect("text")
    });
    let silent = bare.with_key("OPENAI_API_KEY", &["doctor"]).expect(0);
    assert!(!silent.stdout.contains("online"), "{silent}");
    let online = bare.with_key("OPENAI_API_KEY", &["doctor", "--online"]).expect(0);
    assert!(online.stdout.contains(&format!("openai answers at http://{address}/v1 (status 404)")), "{online}");
    let asked = server.join().expect("the server ends");
    assert!(asked.starts_with("GET /v1/ HTTP/1.1\r\n") && !asked.contains("sk-"), "{asked}");
    let unreachable = bare.with_key("OPENAI_API_KEY", &["doctor", "--online"]).expect(7);
    assert!(unreachable.stdout.contains("error  online      openai cannot be reached"), "{unreachable}");
}
