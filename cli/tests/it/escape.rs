//! Ways out of the worktree, tried by an agent and by a tool through the program itself. With the sandbox on nothing of
//! the user's changes; without it, what changed is named, and what git itself obeys fails the node.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sessions::{graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

/// A repository with a hook, a second branch and something outside of it, and how they were.
struct World {
    env: TestEnv,
    before: Checkout,
    outside: Vec<(PathBuf, String)>,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::with_repo();
        let repo = env.repo_path();
        env.write_program("repo/.git/hooks/post-commit", "#!/bin/sh\nexit 0\n");
        env.write("repo/notes", "not committed\n");
        env.git(&["branch", "other"]);
        let outside =
            ["home/.profile", "home/.ssh/config"].map(|path| (env.write(path, "mine\n"), "mine\n".to_owned()));
        let before = Checkout::of(&env, &repo);
        Self { env, before, outside: outside.to_vec() }
    }

    /// Lets a tool run this, and after it one that shows that the run continues.
    fn tool(&self, command: &str) -> Ran {
        self.env.run(&graph("escape", &(tool("work", command) + "start -> work -> exit")), &[])
    }

    /// Lets the built-in agent run this in its shell.
    fn agent(&self, command: &str) -> Ran {
        let call = serde_json::json!([{"shell": {"command": command}}]);
        self.env.script(&format!(
            "model: m\nscripts:\n  - name: code\n    steps:\n      - {{text: Try., tools: {call}}}\n      - text: Done.\n"
        ));
        self.env.run(&graph("escape", "code [prompt=\"Work\"] start -> code -> exit"), &[])
    }

    /// Lets a program that is the agent run this.
    fn program(&self, command: &str) -> Ran {
        let program = self.env.write_program("agent.sh", &format!("#!/bin/bash\ncat > asked\n{command}\n"));
        self.env.configure(&format!("agent: \"command:{}\"\n", program.display()));
        self.env.run(&graph("escape", "code [prompt=\"Work\"] start -> code -> exit"), &[])
    }

    #[track_caller]
    fn assert_untouched(&self, ran: &Ran) {
        self.before.assert_unchanged(&self.env, &self.env.repo_path());
        for (path, text) in &self.outside {
            assert_eq!(&fs::read_to_string(path).unwrap_or_default(), text, "{}: {ran}", path.display());
        }
        assert_eq!(self.env.git(&["fsck", "--connectivity-only"]), "");
        self.env.assert_no_process_left();
    }
}

/// Whether the kernel can hold agents; else it is said that nothing is tested.
pub fn skip(test: &str, least: u32) -> bool {
    let has = os::process::sandbox::available().landlock_abi.unwrap_or_default();
    if has < least {
        let has = if has == 0 { "no Landlock".to_owned() } else { format!("version {has}") };
        // The macros' output is kept back by the test harness, and this must be seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: it needs Landlock version {least}, this kernel has {has}");
    }
    has < least
}

/// The user's checkout, as a shell in the worktree names it.
const REPO: &str = "R=$(dirname \"$(git rev-parse --path-format=absolute --git-common-dir)\")";

/// What an agent could try, one way after another: none of them may end the script.
fn every_way(env: &TestEnv) -> String {
    let up = {
        // From the worktree to the root, and down again.
        let depth = env.root().components().count() + 8;
        "../".repeat(depth)
    };
    let root = env.root().to_str().unwrap().trim_start_matches('/').to_owned();
    [
        REPO.to_owned(),
        // `..` and absolute paths
        format!("echo out > {up}{root}/repo/README.md"),
        format!("echo out > {up}{root}/repo/new"),
        "echo out > \"$R/README.md\"; rm -f \"$R/README.md\" \"$R/notes\"; mv \"$R/notes\" .".into(),
        "echo out >> ~/.profile; echo out > ~/.ssh/config; rm -rf ~/.ssh; echo out > ~/new".into(),
        "truncate -s 0 \"$R/README.md\"; chmod +w \"$R/README.md\"; : > \"$R/README.md\"".into(),
        // symlinks
        "ln -s \"$R\" link; echo out > link/README.md; echo out > link/new; rm -f link/README.md".into(),
        "ln -s \"$R/README.md\" file-link; echo out > file-link; cp README.md file-link".into(),
        // hard links
        "ln \"$R/README.md\" hard && echo out > hard".into(),
        // git of the user's checkout
        "git -C \"$R\" commit --allow-empty -m out; git -C \"$R\" checkout -q other; git -C \"$R\" reset -q --hard HEAD~0".into(),
        "git -C \"$R\" add -A; git -C \"$R\" stash -u; git -C \"$R\" branch -D other; git -C \"$R\" tag out".into(),
        "git --git-dir=\"$R/.git\" --work-tree=\"$R\" checkout -q -- .; GIT_DIR=\"$R/.git\" git gc --prune=now -q".into(),
        // config and hooks
        "git config core.hooksPath /tmp; git config --file \"$R/.git/config\" alias.x '!sh'; echo '[x]' >> \"$R/.git/config\"".into(),
        "git config --global alias.x y; git config --worktree x.y z".into(),
        "echo '#!/bin/sh' > \"$R/.git/hooks/post-checkout\"; echo 'echo out' >> \"$R/.git/hooks/post-commit\"".into(),
        "rm -f \"$R/.git/hooks/post-commit\"; chmod 777 \"$R/.git/hooks\" > /dev/null; mv \"$R/.git/hooks\" \"$R/.git/gone\"; chmod 755 \"$R/.git/hooks\"".into(),
        "echo '* filter=x' > \"$R/.git/info/attributes\"; echo x >> \"$R/.git/info/exclude\"".into(),
        // refs
        "git branch out; git update-ref refs/heads/main HEAD; git update-ref -d refs/heads/other".into(),
        "git update-ref -d \"refs/pleach/sessions/$PLEACH_SESSION/main\"; git branch -D \"pleach/escape/$PLEACH_SESSION\"".into(),
        // everything at once
        "rm -rf \"$R/.git\"".into(),
        "rm -rf \"$R\"".into(),
        // later
        "(setsid sh -c \"trap '' TERM HUP; echo out > '$R/later'; sleep 1; echo out > '$R/README.md'\" > /dev/null 2>&1 < /dev/null &)".into(),
        // the one that watches
        "kill -9 $PPID; kill -9 -1".into(),
    ]
    .map(|line| format!("{{ {line}\n}} 2>&1\n"))
    .concat()
        + "echo survived > survived\n"
}

#[test]
fn a_sandboxed_agent_changes_nothing_of_the_users() {
    if skip("a_sandboxed_agent_changes_nothing_of_the_users", 6) {
        return;
    }
    let world = World::new();
    // `kill -1` would hit the test itself if the sandbox failed.
    let ways = every_way(&world.env).replace("kill -9 -1", "true");
    for run in [World::tool, World::agent, World::program] {
        let ran = run(&world, &ways).expect(0);
        world.assert_untouched(&ran);
        assert!(ran.stderr.contains("sandbox: Landlock"), "{ran}");
        // Nothing has to be named.
        ran.does_not_warn("changed-outside");
        let sessions = world.env.sessions();
        let tip = format!("refs/heads/pleach/escape/{}", sessions.last().unwrap());
        assert_eq!(world.env.git(&["show", &format!("{tip}:survived")]), "survived", "it came to its end: {ran}");
    }
}

#[test]
fn a_deleted_git_directory_costs_no_object() {
    if skip("a_deleted_git_directory_costs_no_object", 3) {
        return;
    }
    let world = World::new();
    let objects = world.env.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    let ran = world.tool(&format!("{REPO}; rm -rf \"$R/.git\" .git; echo 1 > one")).expect(0);
    world.assert_untouched(&ran);
    let now = world.env.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    for object in objects.lines() {
        assert!(now.lines().any(|line| line == object), "{object} is lost: {now}");
    }
    assert_eq!(world.env.committed("one"), "1", "what it wrote in its worktree is committed");
}

#[test]
fn a_worktree_repointed_elsewhere_fails_its_node() {
    let world = World::new();
    world.env.git(&["init", "--quiet", "../evil"]);
    let evil = world.env.root().join("evil/.git");
    let command = format!("echo {} > \"$(git rev-parse --git-dir)/commondir\"; echo 1 > one", evil.display());
    let ran = world.tool(&command).expect(1);
    assert!(ran.stdout.contains("commondir"), "{ran}");
    assert_eq!(world.env.committed("one"), "1");
    let common = world.env.git_in(&world.env.worktree(), &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    assert_eq!(common, world.env.repo_path().join(".git").to_str().unwrap(), "it is put back");
}

#[test]
fn a_worktree_repointed_to_the_checkout_fails_its_node() {
    let links = [
        "rm .git; echo \"gitdir: $R/.git\" > .git",
        "ln -sfT \"$R/.git\" .git",
        "rm .git; echo \"gitdir: $R/.git/worktrees/second\" > .git",
        "echo nonsense > .git",
    ];
    for link in links {
        let world = World::new();
        world.env.git(&["worktree", "add", "--quiet", "--detach", "../second"]);
        let second = world.env.repo_path().join(".git/worktrees/second");
        let stands = || ["HEAD", "gitdir"].map(|name| fs::read_to_string(second.join(name)).unwrap());
        let before = stands();
        let ran = world.tool(&format!("{REPO}; {link}; echo 1 > one")).expect(1);
        assert!(ran.stdout.contains("/.git"), "{link}: {ran}");
        world.assert_untouched(&ran);
        assert_eq!(stands(), before, "{link}: {ran}");
        assert_eq!(world.env.committed("one"), "1");
        let own = world.env.git_in(&world.env.worktree(), &["rev-parse", "--absolute-git-dir"]);
        let name = format!("/.git/worktrees/{}-main", world.env.session());
        assert!(own.ends_with(&name), "it is put back after {link}: {own}");
    }
}

/// What is among the objects of a repository beside the directories of single objects.
fn beside_objects(repo: &Path) -> BTreeSet<PathBuf> {
    let objects = repo.join(".git/objects");
    let entries = |dir: &str| fs::read_dir(objects.join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let all = ["", "info", "pack"].into_iter().flat_map(entries);
    all.filter(|path| path.file_name().is_some_and(|name| name.len() != 2)).collect()
}

#[test]
fn only_single_objects_can_be_added_to_the_repository() {
    if skip("only_single_objects_can_be_added_to_the_repository", 3) {
        return;
    }
    let world = World::new();
    let before = beside_objects(&world.env.repo_path());
    let plant = "O=$R/.git/objects; git pack-objects -q --all --stdout < /dev/null > p.pack; git index-pack p.pack; \
        for place in alternates commit-graph commit-graph.lock; do echo \"$PWD\" > \"$O/info/$place\" && echo $place >> in; done; \
        for place in multi-pack-index x.idx; do echo x > \"$O/pack/$place\" && echo $place >> in; done; \
        for end in pack idx; do cp p.$end \"$O/pack/pack-1.$end\" && echo $end >> in; done; rm -f p.*; \
        mkdir \"$O/12/34\" && echo directory >> in; mkdir \"$O/new\" && echo new >> in; \
        git repack -a -d -q && echo repack >> in; git commit-graph write --reachable; \
        echo own > own; git add own; git commit --quiet -m Own";
    let ran = world.tool(&format!("{REPO}; {plant} 2> /dev/null; echo 1 > one")).expect(0);
    world.assert_untouched(&ran);
    assert_eq!(world.env.git(&["ls-tree", "--name-only", &world.env.branch(), "in"]), "", "{ran}");
    assert_eq!(beside_objects(&world.env.repo_path()), before, "{ran}");
    assert_eq!(world.env.git(&["log", "-1", "--format=%s", &format!("{}^2", world.env.branch())]), "Own", "{ran}");
    world.env.git(&["gc", "--quiet"]);
    world.env.git(&["fsck", "--no-dangling"]);
}

#[test]
fn background_processes_are_bound_too_and_ended() {
    if skip("background_processes_are_bound_too_and_ended", 3) {
        return;
    }
    let world = World::new();
    let later = "(setsid sh -c \"trap '' TERM HUP; while :; do echo out > '$R/later'; echo in >> inside; sleep 0.01; done\" \
                 > /dev/null 2>&1 < /dev/null &); while ! test -s inside; do sleep 0.01; done";
    let ran = world.agent(&format!("{REPO}; {later}")).expect(0);
    world.assert_untouched(&ran);
    assert!(!world.env.repo_path().join("later").exists());
}

// ---- within bounds, work goes on as usual

#[test]
fn everyday_work_needs_no_more() {
    if skip("everyday_work_needs_no_more", 3) {
        return;
    }
    let world = World::new();
    let work = [
        "set -e",
        "test -d \"$TMPDIR\" && echo 1 > \"$TMPDIR/x\" && f=$(mktemp) && mv \"$f\" made",
        "mkdir -p a/b && echo 1 > a/b/c && mv a/b/c a/c && rm -r a/b && ln a/c a/d && ln -s c a/e",
        "git status > /dev/null && git add -A && git commit -q -m 'Of my own' && git mv made made-2",
        "git commit -q -am 'And moved' && git log --oneline | head -1 && git diff HEAD~1 --stat && git reset -q --hard HEAD~1",
        "git init -q \"$TMPDIR/r\" && cd \"$TMPDIR/r\" && echo 1 > f && git add f && git commit -q -m x && git branch y",
        "git stash list && git clone -q . ../clone && cd - > /dev/null",
        "cat <<< here > /dev/null; diff <(echo 1) <(echo 1); echo fine > fine",
    ]
    .join("\n");
    let ran = world.program(&work).expect(0);
    world.assert_untouched(&ran);
    assert_eq!(world.env.committed("fine"), "fine");
    let own = world.env.git(&["log", "--format=%s", &world.env.branch()]);
    assert!(own.contains("Of my own"), "{own}");
    let objects = world.env.repo_path().join(".git/objects");
    let files = fs::read_dir(objects).unwrap().flat_map(|dir| fs::read_dir(dir.unwrap().path()).into_iter().flatten());
    let left =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).filter(|name| name.starts_with("tmp_"));
    assert_eq!(left.collect::<Vec<_>>(), [] as [String; 0], "nothing lies about among the objects");
    assert_eq!(fs::read_dir(world.env.root().join("tmp")).unwrap().count(), 0, "temporary files are gone");
}

#[test]
fn agents_are_told_their_sandbox() {
    if skip("agents_are_told_their_sandbox", 4) {
        return;
    }
    let world = World::new();
    world.program("true").expect(0);
    let asked = world.env.committed("asked");
    assert!(asked.contains("You run in a sandbox: ") && asked.contains("$TMPDIR"), "{asked}");
    assert!(!asked.contains("network"), "whom it speaks to is its own affair: {asked}");
    let recorded = world.env.git(&["show", &format!("refs/pleach/sessions/{}/main^{{tree}}", world.env.session())]);
    assert!(!recorded.is_empty());
    let off = World::new();
    off.env.unbound();
    off.program("true").expect(0);
    assert!(!off.env.committed("asked").contains("sandbox"));
}

#[test]
fn an_agent_outside_the_gateway_keeps_network_and_settings() {
    if skip("an_agent_outside_the_gateway_keeps_network_and_settings", 4) {
        return;
    }
    for turns in ["stream", "node"] {
        let world = World::new();
        world.env.write("home/.claude/settings.json", "{}");
        world.env.write("home/.claude/shell-snapshots/mine.sh", "");
        world.env.write("home/.claude/session-env/mine.sh", "");
        world.env.write_program(
            "bin/claude",
            "#!/bin/sh\ncase \"$1\" in --version) echo 1.0; exit;; esac\ncat > asked\n\
         echo hook > \"$HOME/.claude/settings.json\"; echo x > \"$HOME/.claude.json\"\n\
         echo x > \"$HOME/.claude/shell-snapshots/mine.sh\"; echo x > \"$HOME/.claude/session-env/new.sh\"\n\
         echo kept > \"$HOME/.claude/projects/talk\" && echo yes > kept\n\
         echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"usage\":{}}'\n",
        );
        world.env.configure(&format!("agent: claude\nagents: {{claude: {{turns: {turns}}}}}\n"));
        world.env.run(&graph("escape", "code [prompt=\"Work\"] start -> code -> exit"), &[]).expect(0);
        let asked = world.env.committed("asked");
        assert!(asked.contains("You run in a sandbox: ") && !asked.contains("There is no network."), "{asked}");
        assert_eq!(world.env.read("home/.claude/settings.json"), "{}");
        assert!(!world.env.root().join("home/.claude.json").exists());
        assert_eq!(world.env.read("home/.claude/shell-snapshots/mine.sh"), "", "it would run this without asking");
        assert!(!world.env.root().join("home/.claude/session-env/new.sh").exists());
        assert_eq!(world.env.read("home/.claude/projects/talk"), "kept\n");
    }
}

#[test]
fn an_agents_files_among_its_programs_are_kept_apart() {
    if skip("an_agents_files_among_its_programs_are_kept_apart", 3) {
        return;
    }
    for turns in ["stream", "node"] {
        let world = World::new();
        world.env.write("home/.gemini/settings.json", "mine");
        world.env.write("home/.gemini/oauth_creds.json", "old");
        // As the real one it does nothing without its list of projects, which it writes beside and moves into place.
        world.env.write_program(
            "bin/gemini",
            "#!/bin/sh\ncase \"$1\" in --version) echo 1.0; exit;; esac\ncat > asked\n\
             D=\"${GEMINI_CLI_HOME:-$HOME}/.gemini\"; mkdir -p \"$D/tmp\"\n\
             echo {} > \"$D/projects.json.1.tmp\" && mv \"$D/projects.json.1.tmp\" \"$D/projects.json\" || exit 1\n\
             cat \"$D/settings.json\" > settings; echo hook > \"$D/settings.json\"; echo renewed > \"$D/oauth_creds.json\"\n\
             echo hook > \"$HOME/.gemini/settings.json\"; echo x > \"$HOME/.gemini/projects.json\"\n\
             echo '{\"type\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}'\n\
             echo '{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"Done.\"}'\n\
             echo '{\"type\":\"result\",\"status\":\"success\",\"stats\":{}}'\n",
        );
        world.env.configure(&format!("agent: gemini\nagents: {{gemini: {{turns: {turns}}}}}\n"));
        let ran = world.env.run(&graph("escape", "code [prompt=\"Work\"] start -> code -> exit"), &[]).expect(0);
        assert_eq!(world.env.committed("settings"), "mine", "{ran}");
        assert_eq!(world.env.read("home/.gemini/settings.json"), "mine", "{ran}");
        assert_eq!(world.env.read("home/.gemini/oauth_creds.json"), "renewed\n", "a login that is renewed is kept");
        assert!(!world.env.root().join("home/.gemini/projects.json").exists(), "{ran}");
    }
}

/// As the real one it does nothing where it cannot write beside its settings, and renews its login in place.
const CODEX: &str = r#"#!/bin/sh
case "$1" in --version) echo 1.0; exit;; esac
cat > asked
D="${CODEX_HOME:-$HOME/.codex}"
echo {} > "$D/state_5.sqlite" && mkdir -p "$D/.tmp" || { echo "failed to initialize: Permission denied" >&2; exit 1; }
echo {} > "${CODEX_SQLITE_HOME:-$D}/logs_2.sqlite" || exit 1
cat "$D/config.toml" > settings; cat "$D/AGENTS.md" > told
echo held > "$D/auth.lock"; test -f "$D/auth.json" && echo renewed > "$D/auth.json"
echo hook > "$D/config.toml"; echo hook > "$HOME/.codex/config.toml"; echo x > "$HOME/.codex/hooks.json"
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
"#;

#[test]
fn codex_works_with_the_users_login_in_a_sandbox() {
    if skip("codex_works_with_the_users_login_in_a_sandbox", 3) {
        return;
    }
    for key in [None, Some("CODEX_API_KEY")] {
        let world = World::new();
        world.env.write("home/.codex/config.toml", "mine");
        world.env.write("home/.codex/AGENTS.md", "be kind");
        if key.is_none() {
            world.env.write("home/.codex/auth.json", "old");
        }
        world.env.write_program("bin/codex", CODEX);
        world.env.configure("agent: codex\nagents: {codex: {turns: node}}\n");
        world.env.pipeline(&graph("escape", "code [prompt=\"Work\"] start -> code -> exit"));
        let mut command = world.env.command(&["-y", "run", "../pipeline.dot"]);
        command.env("CODEX_SQLITE_HOME", world.env.root().join("home/.codex"));
        command.envs(key.map(|key| (key, "sk-0123456789")));
        let ran = world.env.finish(command.output().unwrap()).expect(0);
        assert_eq!((world.env.committed("settings"), world.env.committed("told")), ("mine".into(), "be kind".into()));
        let codex = world.env.root().join("home/.codex");
        assert_eq!(world.env.read("home/.codex/config.toml"), "mine", "{ran}");
        assert!(!codex.join("hooks.json").exists() && !codex.join("state_5.sqlite").exists(), "{ran}");
        if key.is_none() {
            assert_eq!(world.env.read("home/.codex/auth.json"), "renewed\n", "a login that is renewed is kept");
            assert_eq!(world.env.read("home/.codex/auth.lock"), "held\n", "two never renew it at once");
        } else {
            assert!(!codex.join("auth.lock").exists(), "there is no login to renew");
        }
    }
}

#[test]
fn programs_in_caches_cannot_be_written() {
    if skip("programs_in_caches_cannot_be_written", 3) {
        return;
    }
    let programs = [
        "home/.npm/_npx/1/node_modules/.bin/tool",
        "home/.gradle/jdks/21/bin/java",
        "home/.gradle/wrapper/dists/gradle-9/1a/gradle-9/bin/gradle",
        "home/.m2/wrapper/dists/maven/bin/mvn",
        "cache/pypoetry/virtualenvs/x/bin/python",
        "cache/uv/archive-v0/1/tool.py",
        "cache/pnpm/dlx/1/node_modules/.bin/tool",
    ];
    for run in [World::tool, World::agent] {
        let world = World::new();
        for program in programs {
            world.env.write(program, "mine");
        }
        world.env.write("home/.npm/_cacache/index", "");
        let all = programs.map(|program| format!("echo out > {}", world.env.root().join(program).display())).join("; ");
        let more = "echo 1 > ~/.npm/_cacache/new; mkdir -p \"$UV_CACHE_DIR\" && echo \"$UV_CACHE_DIR\" > uv";
        let ran = run(&world, &format!("{{ {all}; }} 2> /dev/null; {more}")).expect(0);
        for program in programs {
            assert_eq!(world.env.read(program), "mine", "{program}: {ran}");
        }
        assert_eq!(world.env.read("home/.npm/_cacache/new"), "1\n", "what is downloaded is shared");
        let uv = world.env.committed("uv");
        assert!(uv.ends_with("/uv") && !uv.ends_with("/cache/uv"), "a cache of its own: {uv}");
    }
}

/// A port on which everybody who comes is told hello.
fn greets() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| std::io::Write::write_all(&mut stream, b"hello"));
        }
    });
    port
}

#[test]
fn the_network_is_closed_to_agents_and_open_to_tools() {
    if skip("the_network_is_closed_to_agents_and_open_to_tools", 4) {
        return;
    }
    let port = greets();
    let connect =
        format!("bash -c 'exec 3<> /dev/tcp/127.0.0.1/{port} && cat <&3 > said'; test -s said || echo closed > said");
    let said = |ran: Ran, world: &World| {
        ran.expect(0);
        world.env.committed("said")
    };
    let world = World::new();
    assert_eq!(said(world.tool(&connect), &world), "hello", "a tool was agreed to");
    let world = World::new();
    assert_eq!(said(world.agent(&connect), &world), "closed", "the built-in agent asks its model itself");
    let world = World::new();
    let ran = world.program(&connect);
    assert!(ran.stderr.contains("network open to agents outside the gateway"), "{ran}");
    assert_eq!(said(ran, &world), "hello", "a program could not reach its model otherwise");
    let world = World::new();
    world.env.write("config/pleach/config.yaml", "sandbox: {network: open}\n");
    let ran = world.agent(&connect);
    assert!(ran.stderr.contains("network open"), "{ran}");
    assert_eq!(said(ran, &world), "hello");
}

#[test]
fn no_other_protocol_leads_past_the_closed_network() {
    if skip("no_other_protocol_leads_past_the_closed_network", 4) {
        return;
    }
    let port = greets();
    let ways = [
        format!("s = socket.socket(2, 1, 262); s.connect((\"127.0.0.1\", {port}))"),
        format!("s = socket.socket(); s.sendto(b\"x\", 0x20000000, (\"127.0.0.1\", {port}))"),
        format!("s = socket.socket(2, 2); s.sendto(b\"x\", (\"127.0.0.1\", {port})); print(\"sent\")"),
    ];
    let ways = ways.map(|way| {
        format!("python3 -c 'import socket; {way}; print(s.recv(9) if s.type == 1 else 0)' >> said 2>> why || echo refused >> said\n")
    });
    let world = World::new();
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: required}\n");
    let ran = world.agent(&ways.concat()).expect(0);
    assert!(ran.stderr.contains("agents reach only their model"), "{ran}");
    let why = world.env.committed("why");
    if why.contains("python3: ") {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED no_other_protocol_leads_past_the_closed_network: there is no python3 to try the ways with"
        );
        return;
    }
    assert_eq!(world.env.committed("said"), "refused\nrefused\nrefused", "{why}");
    assert_eq!(why.matches("PermissionError").count(), 3, "{why}");
}

/// Tries to change how the processes around it run, and itself: each line says what came of one way. `$1` is the
/// supervisor.
const OTHERS: &str = r#"
import os, resource, sys
guard = int(sys.argv[1])
pleach = int(open(f"/proc/{guard}/stat").read().rsplit(")", 1)[1].split()[1])
idle, least = os.sched_param(0), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
def way(name, tried):
    try: tried(); print(name, "done")
    except PermissionError as error: print(name, "refused", error.errno)
    except Exception as error: print(name, error)
way("read", lambda: resource.prlimit(guard, resource.RLIMIT_NOFILE))
way("nice", lambda: os.nice(1))
way("own priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)))
way("own scheduler", lambda: os.sched_setscheduler(0, os.SCHED_BATCH, idle))
way("own processors", lambda: os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)))
way("own limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
for name, pid in ("guard", guard), ("pleach", pleach):
    way(name + " files", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0) if name == "guard" else least))
    way(name + " core", lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)))
    way(name + " priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 1))
    way(name + " scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, idle))
way("group", lambda: os.setpriority(os.PRIO_PGRP, guard, 1))
way("user", lambda: os.setpriority(os.PRIO_USER, 54321, 1))
"#;

#[test]
fn nothing_bound_changes_how_the_processes_around_it_run() {
    let others: String = ["guard", "pleach"]
        .map(|name| {
            ["files", "core", "priority", "scheduler"].map(|what| format!("{name} {what} refused 1\n")).concat()
        })
        .concat();
    let own = ["read", "nice", "own priority", "own scheduler", "own processors", "own limit"];
    let expected = own.map(|own| format!("{own} done\n")).concat() + &others + "group refused 1\nuser refused 1";
    if skip("nothing_bound_changes_how_the_processes_around_it_run", 4) {
        return;
    }
    for run in [World::tool, World::agent, World::program] {
        let world = World::new();
        let script = world.env.write("others.py", OTHERS);
        // A daemon that lives on if its guard can find nothing any more.
        let command = format!(
            "(setsid sh -c \"trap '' TERM HUP; echo > '$PWD/stays'; sleep 60\" > /dev/null 2>&1 < /dev/null &)\n\
             for i in $(seq 1000); do test -e stays && break; sleep 0.01; done\n\
             ulimit -n 100 && nice true && python3 {} $PPID > said 2> why; true",
            script.display()
        );
        let ran = run(&world, &command).expect(0);
        world.assert_untouched(&ran);
        if world.env.committed("why").contains("python3: ") {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED nothing_bound_changes_how_the_processes_around_it_run: there is no python3 to try the ways with"
            );
            return;
        }
        assert_eq!(world.env.committed("said"), expected, "{}", world.env.committed("why"));
    }
}

#[test]
fn listed_paths_are_writable_and_unlisted_ones_unreadable() {
    if skip("listed_paths_are_writable_and_unlisted_ones_unreadable", 3) {
        return;
    }
    let world = World::new();
    let shared = world.env.root().join("shared");
    fs::create_dir(&shared).unwrap();
    let secret = world.env.write("secret", "word\n");
    let allowed = world.env.write("allowed/file", "word\n");
    let (shown, allowed, shared) = (secret.display(), allowed.display(), shared.display());
    let command = format!(
        "cat {shown} > read; cat {allowed} > read-too; echo 1 > {shared}/made; git status > /dev/null && echo fine > git"
    );
    world.env.write(
        "config/pleach/config.yaml",
        format!("sandbox: {{rw: [{shared}], ro: [{}/allowed]}}\n", world.env.root().display()),
    );
    world.tool(&command).expect(0);
    assert_eq!(world.env.committed("read"), "");
    assert_eq!(world.env.committed("read-too"), "word");
    assert_eq!(world.env.committed("git"), "fine");
    assert_eq!(world.env.read("shared/made"), "1\n");
}

// ---- how it is asked for

/// Runs as on a machine that has no more than this to bind commands with.
fn bound_by(world: &World, by: &str, args: &[&str]) -> Ran {
    world.env.pipeline(&graph("escape", &(tool("work", "echo 1 > one") + "start -> work -> exit")));
    let mut all = vec!["-y", "run", "../pipeline.dot"];
    all.extend(args);
    world.env.finish(world.env.command(&all).env("PLEACH_SANDBOX_BY", by).output().unwrap())
}

#[test]
fn a_required_sandbox_that_cannot_be_had_refuses_to_run() {
    let world = World::new();
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: required}\n");
    let ran = bound_by(&world, "none", &[]).expect(7);
    assert!(ran.stderr.contains("this kernel has no Landlock") && ran.stderr.contains("bubblewrap"), "{ran}");
    assert!(world.env.sessions().is_empty(), "nothing was begun");
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: auto}\n");
    let ran = bound_by(&world, "none", &[]).expect(0);
    ran.warns("no-sandbox");
}

#[test]
fn bubblewrap_is_the_second_choice() {
    let program = os::process::sandbox::available().bubblewrap;
    if program.is_none_or(|program| os::process::sandbox::bubblewrap_works(&program).is_err()) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED bubblewrap_is_the_second_choice: bubblewrap is not installed, or may not be used"
        );
        return;
    }
    let world = World::new();
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: required, network: open}\n");
    let ways = every_way(&world.env).replace("kill -9 -1", "true");
    world.env.pipeline(&graph("escape", &(tool("work", &ways) + "start -> work -> exit")));
    let mut run = world.env.command(&["-y", "run", "../pipeline.dot"]);
    let ran = world.env.finish(run.env("PLEACH_SANDBOX_BY", "bubblewrap").output().unwrap()).expect(0);
    assert!(ran.stderr.contains("sandbox: bubblewrap"), "{ran}");
    world.assert_untouched(&ran);
    assert_eq!(world.env.committed("survived"), "survived");
}

#[test]
fn an_unclosable_network_is_reported_or_refused() {
    if skip("an_unclosable_network_is_reported_or_refused", 3) {
        return;
    }
    let world = World::new();
    let ran = bound_by(&world, "landlock:3", &[]).expect(0);
    assert!(ran.stderr.contains("network open (this kernel cannot close it)"), "{ran}");
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: required}\n");
    let ran = bound_by(&world, "landlock:3,seccomp", &[]).expect(7);
    ran.fails_with("sandbox-missing").naming("6.7");
    let ran = bound_by(&world, "landlock:9", &[]).expect(7);
    ran.fails_with("sandbox-missing").naming("seccomp is not available");
    world.env.write("config/pleach/config.yaml", "sandbox: {mode: required, network: open}\n");
    bound_by(&world, "landlock:3", &[]).expect(0);
}

#[test]
fn protection_is_reported_once_and_never_in_json() {
    if skip("protection_is_reported_once_and_never_in_json", 4) {
        return;
    }
    let world = World::new();
    let said = |ran: &Ran| ran.stderr.lines().filter(|line| line.starts_with("sandbox: ")).count();
    assert_eq!(said(&bound_by(&world, "landlock:9", &[]).expect(0)), 1);
    let ran = bound_by(&world, "landlock:9", &["--json"]).expect(0);
    assert_eq!(said(&ran), 0);
    ran.json_lines();
    assert_eq!(said(&bound_by(&world, "landlock:9", &["-q"]).expect(0)), 0);
    world.env.unbound();
    assert_eq!(said(&bound_by(&world, "landlock:9", &[]).expect(0)), 0);
}

#[test]
fn a_repository_cannot_switch_its_sandbox_off_by_itself() {
    let world = World::new();
    world.env.write("repo/g.dot", graph("escape", "start -> exit"));
    for (settings, shown) in
        [("mode: off", "sandbox.mode: off"), ("network: open", "sandbox.network: open"), ("rw: [/]", "sandbox.rw: /")]
    {
        world.env.write("repo/pleach.yaml", format!("sandbox: {{{settings}}}\n"));
        let ran = world.env.pleach(&["run", "g.dot"]).expect(4);
        assert!(ran.stderr.contains("sandbox (sandbox.") && ran.stderr.contains(shown), "{settings}: {ran}");
    }
}

// ---- without a sandbox

#[test]
fn without_a_sandbox_what_changed_is_named() {
    let ways = [
        ("echo out > \"$R/README.md\"", "`README.md` in your checkout", 0),
        ("D=$(realpath --relative-to=. \"$R\"); echo out > \"$D/new\"", "`new` in your checkout", 0),
        ("ln -s \"$R\" link; echo out > link/README.md; rm link", "`README.md` in your checkout", 0),
        ("ln \"$R/README.md\" hard; echo out > hard; rm hard", "`README.md` in your checkout", 0),
        ("git -C \"$R\" commit -q --allow-empty -m out", "ref `refs/heads/main`", 0),
        ("git branch -q out; git tag out", "ref `refs/heads/out`, ref `refs/tags/out`", 0),
        ("git config core.editor vim", ".git/config", 1),
        ("echo x >> \"$R/.git/config\"", ".git/config", 1),
        ("rm \"$R/.git/hooks/post-commit\"", "hooks/post-commit", 1),
        ("echo x > \"$R/.git/hooks/post-checkout\"", "hooks/post-checkout", 1),
        ("git update-ref -d \"refs/heads/pleach/escape/$PLEACH_SESSION\"", "pleach/escape/", 1),
    ];
    for (way, named, code) in ways {
        let world = World::new();
        world.env.unbound();
        let ran = world.tool(&format!("{REPO}; {way}")).expect(code);
        let told = if code == 0 { &ran.stderr } else { &ran.stdout };
        assert!(told.contains(named), "{way}: {named}: {ran}");
        world.env.assert_no_process_left();
    }
}

#[test]
fn without_a_sandbox_background_processes_end_and_writes_are_named() {
    let world = World::new();
    world.env.unbound();
    let later = "(setsid sh -c \"trap '' TERM HUP; while :; do echo out >> '$R/later'; sleep 0.01; done\" \
                 > /dev/null 2>&1 < /dev/null &); while ! test -s \"$R/later\"; do sleep 0.01; done";
    let ran = world.tool(&format!("{REPO}; {later}")).expect(0);
    ran.warns("changed-outside").naming("`later`");
    world.env.assert_no_process_left();
    let length = || fs::metadata(world.env.repo_path().join("later")).unwrap().len();
    let (was, begun) = (length(), Instant::now());
    while begun.elapsed() < Duration::from_millis(100) {
        assert_eq!(length(), was, "nothing writes any more");
    }
}

/// What is in the user's checkout beside its git directory.
fn files(world: &World) -> Vec<(String, String)> {
    let entries = fs::read_dir(world.env.repo_path()).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .filter(|entry| entry.file_name() != ".git")
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn without_a_sandbox_a_deleted_git_directory_costs_no_file() {
    for run in [World::tool, World::agent, World::program] {
        let world = World::new();
        world.env.unbound();
        let before = files(&world);
        let copy = world.env.root().join("copy");
        let ran = run(&world, &format!("{REPO}; echo 1 > one; pwd > {}; rm -rf \"$R/.git\"", copy.display())).expect(7);
        let gone = format!("{}/repo/.git, was deleted while the run worked", world.env.root().display());
        assert!(ran.stderr.contains(&gone), "{ran}");
        ran.fails_with("repository-deleted");
        assert!(!ran.stderr.contains("pleach resume") && !ran.stderr.contains("nothing recorded is lost"), "{ran}");
        assert_eq!(files(&world), before, "{ran}");
        let one = PathBuf::from(world.env.read(copy).trim()).join("one");
        assert_eq!(fs::read_to_string(one).unwrap(), "1\n", "what was written in the worktree is still there: {ran}");
        for (path, text) in &world.outside {
            assert_eq!(&fs::read_to_string(path).unwrap(), text, "{ran}");
        }
        world.env.assert_no_process_left();
    }
}

#[test]
fn without_a_sandbox_a_lost_git_file_is_survived() {
    for run in [World::tool, World::agent, World::program] {
        let world = World::new();
        world.env.unbound();
        let ran = run(&world, "echo 1 > one; rm -rf .git").expect(0);
        world.assert_untouched(&ran);
        assert_eq!(world.env.committed("one"), "1");
        assert_eq!(world.env.git_in(&world.env.worktree(), &["status", "--porcelain"]), "", "it is put back");
    }
}

#[test]
fn without_a_sandbox_a_killed_supervisor_leaves_no_process() {
    let stay =
        "(setsid sh -c \"trap '' TERM HUP; echo > \\\"$PWD/stays\\\"; sleep 60\" > /dev/null 2>&1 < /dev/null &)";
    let command =
        format!("{stay}; for i in $(seq 1000); do test -e stays && break; sleep 0.01; done; kill -9 $PPID; sleep 60");
    // The built-in agent learns how its tool ended and continues; a tool or an agent that ends so has failed.
    for (run, code) in [World::tool, World::agent, World::program].into_iter().zip([1, 0, 1]) {
        let world = World::new();
        world.env.unbound();
        let begun = Instant::now();
        let ran = run(&world, &command).expect(code);
        assert!(begun.elapsed() < Duration::from_secs(50), "nobody waits for what was killed: {ran}");
        world.assert_untouched(&ran);
        let told = if code == 0 { world.env.story().whole_text(&world.env) } else { ran.stdout.clone() };
        assert!(told.contains("signal 9"), "{told}");
        assert!(world.env.files().contains(&"stays".to_owned()), "what was done is kept: {ran}");
    }
}
