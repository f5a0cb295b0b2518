//! What a bound agent plants where pleach itself writes, reads and removes: links that lead to the user's files, pipes
//! nobody writes to, trees no path reaches to the end of. pleach is not bound, so it must not be led.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::escape::skip;
use crate::sessions::{graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

/// The worktree's git directory, as a shell in the worktree names it, and the user's checkout.
const G: &str = "G=$(cut -d' ' -f2 .git); R=$(dirname \"$(git rev-parse --path-format=absolute --git-common-dir)\")";

/// How long nothing takes that does not wait forever.
const PATIENCE: Duration = Duration::from_secs(90);

struct World {
    env: TestEnv,
    before: Checkout,
    mine: PathBuf,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::with_repo();
        let mine = env.write("home/mine", "mine\n");
        env.write("home/proj/bisect/notes", "mine\n");
        env.write("home/proj/rewritten/notes", "mine\n");
        let before = Checkout::of(&env, &env.repo_path());
        Self { env, before, mine }
    }

    /// A run of one tool.
    #[track_caller]
    fn tool(&self, command: &str) -> Ran {
        self.tools(&[&format!("{command}; echo 1 > one")])
    }

    /// A run of one tool after another in the same worktree, however each ends. Each also writes a file of its number.
    #[track_caller]
    fn tools(&self, commands: &[&str]) -> Ran {
        let mut body = String::from("start -> work0\n");
        for (number, command) in commands.iter().enumerate() {
            let node = tool(&format!("work{number}"), &format!("{G}; {command}; echo {number} > done{number}"));
            body.push_str(&node.replace("[shape", "[timeout=\"20s\", shape"));
            if number + 1 < commands.len() {
                let next = number + 1;
                body.push_str(&format!(
                    "work{number} -> work{next} work{number} -> work{next} [condition=\"outcome=fail\"]\n"
                ));
            }
        }
        body.push_str(&format!("work{} -> exit", commands.len() - 1));
        self.env.write("planted.dot", graph("planted", &body));
        self.pleach(&["run", "../planted.dot", "-y"])
    }

    /// What the files of the tools have, in their order.
    #[track_caller]
    fn assert_all_done(&self, commands: &[&str], ran: &Ran) {
        for (number, command) in commands.iter().enumerate() {
            assert_eq!(self.env.committed(&format!("done{number}")), number.to_string(), "{command}: {ran}");
        }
    }

    /// A run that one tool kills, resumed. The tool is not bound, or it could not.
    #[track_caller]
    fn killed(&self, command: &str) -> Ran {
        self.env.unbound();
        let then = "kill -9 $(cat ~/pid); exec sleep 60";
        let command = format!("{G}; test -e ~/again && exit 0; touch ~/again; {command}; {then}");
        self.env.write("planted.dot", graph("planted", &(tool("work", &command) + "start -> work -> exit")));
        let line = format!("echo $$ > ~/pid; exec '{}' run ../planted.dot -y", env!("CARGO_BIN_EXE_pleach"));
        self.env.program("bash", &self.env.repo_path()).args(["-c", &line]).output().unwrap();
        self.pleach(&["resume", &self.env.session(), "-y"])
    }

    /// Runs pleach, which must come to an end.
    #[track_caller]
    fn pleach(&self, args: &[&str]) -> Ran {
        let mut command = self.env.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().expect("a child").is_none() {
            if Instant::now() > deadline {
                child.kill().expect("a child");
                child.wait().expect("a child");
                panic!("{args:?} does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.env.finish(child.wait_with_output().expect("a child"))
    }

    #[track_caller]
    fn assert_untouched(&self, ran: &Ran) {
        self.before.assert_unchanged(&self.env, &self.env.repo_path());
        let home = self.env.root().join("home");
        for file in [&self.mine, &home.join("proj/bisect/notes"), &home.join("proj/rewritten/notes")] {
            assert_eq!(fs::read_to_string(file).unwrap_or_default(), "mine\n", "{}: {ran}", file.display());
        }
        let mut names: Vec<_> =
            fs::read_dir(home.join("proj")).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["bisect", "rewritten"], "{ran}");
        self.env.assert_no_process_left();
    }
}

/// What a run said: of its last node at the end, of those before it as they ended.
fn said(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

/// Where git keeps what it knows of the session's worktree.
fn admin_dir(env: &TestEnv) -> PathBuf {
    env.repo_path().join(format!(".git/worktrees/{}-main", env.session()))
}

#[test]
fn a_link_in_the_worktree_s_git_directory_leads_nowhere() {
    let plants = [
        "ln -sf ~/mine $G/gitdir",
        "rm $G/commondir; ln -s $R/.git/config $G/commondir",
        "rm $G/HEAD; ln -s ~/mine $G/HEAD",
        "ln -sf ~/mine $G/logs/HEAD",
        "rm -rf $G/logs; ln -s ~/proj $G/logs",
        "rm -rf $G/refs; ln -s ~/proj $G/refs",
        "ln -s ~/mine $G/index.lock; ln -s ~/mine $G/HEAD.lock; ln -s ~/mine $G/ORIG_HEAD.lock",
        "mkdir $G/index.lock $G/HEAD.lock",
        "ln -sf ~/mine $G/index",
        "ln -sf ~/mine $G/MERGE_HEAD; ln -s ~/proj $G/rebase-merge",
        "ln -s ~/mine $G/config.worktree; ln -s ~/mine $G/pleach-set-up.new",
        "rm $G/HEAD; mkdir -p $G/refs/worktree; ln -s ~/mine $G/refs/worktree/x; echo 'ref: refs/worktree/x' > $G/HEAD",
    ];
    let world = World::new();
    let ran = world.tools(&plants).expect(1);
    world.assert_untouched(&ran);
    world.assert_all_done(&plants, &ran);
    let named = "the repository's own settings were changed: ";
    assert_eq!(said(&ran).matches(named).count(), plants.len(), "what was planted is named: {ran}");
    let sid = world.env.session();
    let ran = world.pleach(&["resume", &sid, "-y"]);
    world.assert_untouched(&ran);
    let ran = world.pleach(&["rm", "--force", &sid]).expect(0);
    world.assert_untouched(&ran);
}

#[test]
fn an_invalid_head_is_restored() {
    let plants = [
        ": > $G/HEAD",
        "echo 'ref: refs/heads/../../x' > $G/HEAD",
        "echo 'ref: x y' > $G/HEAD",
        "echo 1111111111111111111111111111111111111111 > $G/HEAD",
        "git rev-parse HEAD^{tree} > $G/HEAD",
        "head -c 300 /dev/urandom > $G/HEAD",
        "mkdir -p $G/refs/worktree; echo x > $G/refs/worktree/x; echo 'ref: refs/worktree/x' > $G/HEAD",
        // Commits there are, on parents, directories or files there are not.
        "C=$(git cat-file commit HEAD | sed 's/^author/parent 1111111111111111111111111111111111111111\\n&/' \
            | git hash-object -t commit -w --stdin --literally); echo $C > $G/HEAD",
        "C=$(git cat-file commit HEAD | sed 's/^tree .*/tree 1111111111111111111111111111111111111111/' \
            | git hash-object -t commit -w --stdin --literally); echo $C > $G/HEAD",
        "T=$(printf '100644 blob 1111111111111111111111111111111111111111\\tx\\n' | git mktree --missing); \
            C=$(git commit-tree $T -p HEAD -m Broken); echo $C > $G/HEAD",
        // Ten directories, each with the next in it ten times.
        "T=$(printf '100644 blob %s\\tx\\n' $(git hash-object -w .git) | git mktree); for i in 1 2 3 4 5 6 7 8 9 10; \
            do T=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\t%s\\n' $T $n; done | git mktree); done; \
            C=$(git commit-tree $T -p HEAD -m Bomb); echo $C > $G/HEAD",
        // A commit that is far larger in memory than on disk, and one upon such a one.
        "C=$({ git cat-file commit HEAD; head -c 20000000 /dev/zero | tr '\\0' a; } \
            | git hash-object -t commit -w --stdin --literally); echo $C > $G/HEAD",
        "C=$({ git cat-file commit HEAD; head -c 150000000 /dev/zero | tr '\\0' a; } \
            | git hash-object -t commit -w --stdin --literally); \
            C=$(git cat-file commit HEAD | sed \"s/^author/parent $C\\n&/\" | git hash-object -t commit -w --stdin); \
            echo $C > $G/HEAD",
    ];
    let world = World::new();
    let ran = world.tools(&plants).expect(1);
    world.assert_untouched(&ran);
    world.assert_all_done(&plants, &ran);
    let named = "/HEAD (it named no complete commit, or one that is too large)";
    assert_eq!(said(&ran).matches(named).count(), plants.len(), "what was planted is named: {ran}");
    assert!(!said(&ran).contains("settings were changed"), "{ran}");
    let (worktree, branch) = (world.env.worktree(), world.env.branch());
    assert_eq!(world.env.git_in(&worktree, &["rev-parse", "HEAD"]), world.env.git(&["rev-parse", &branch]));
    assert_eq!(world.env.git_in(&worktree, &["status", "--porcelain"]), "");
    world.env.git(&["fsck", "--connectivity-only", "--no-dangling"]);
    world.pleach(&["rm", "--force", &world.env.session()]).expect(0);
}

#[test]
fn an_incomplete_head_is_restored_after_a_kill() {
    let world = World::new();
    let plant = "C=$(git cat-file commit HEAD | sed 's/^author/parent 1111111111111111111111111111111111111111\\n&/' \
        | git hash-object -t commit -w --stdin --literally); echo $C > $G/HEAD; echo 1 > one";
    let ran = world.killed(plant).expect(0);
    ran.warns("worktree-repaired").naming("/HEAD");
    assert_eq!(world.env.git_in(&world.env.worktree(), &["status", "--porcelain"]), "", "{ran}");
    world.env.git(&["fsck", "--connectivity-only", "--no-dangling"]);
    world.pleach(&["rm", "--force", &world.env.session()]).expect(0);
}

#[test]
fn a_head_that_is_whole_fails_nothing_during_gc() {
    let world = World::new();
    let env = &world.env;
    let real = env.program("sh", env.root()).args(["-c", "command -v git"]).output().expect("sh can be started");
    let (real, root) = (String::from_utf8(real.stdout).expect("a path"), env.root().display().to_string());
    // While git collects garbage, the tree of the agent's own commit cannot be read.
    let script = format!(
        "#!/bin/sh\nreal={}; root={root}; O=$root/repo/.git\n\
         case \"$*\" in *' --objects --ignore-missing '*)\n\
         echo >> $root/looks; n=$(wc -l < $root/looks)\n\
         if [ $n -eq 1 ]; then for id in \"$@\"; do [ ${{#id}} -ne 40 ] || break; done\n\
         tree=$($real -C $root/repo rev-parse $id^{{tree}}); echo $O/objects/$(echo $tree | sed 's,..,&/,') > $root/tree\n\
         mv $(cat $root/tree) $root/away; touch $O/gc.pid; fi\n\
         if [ $n -eq 6 ]; then mv $root/away $(cat $root/tree); rm $O/gc.pid; fi;; esac\n\
         exec $real \"$@\"\n",
        real.trim()
    );
    env.write_program("bin/git", &script);
    world.tool(&format!("echo 1 > one; {0} add one; {0} commit -qm own", real.trim())).expect(0);
    assert_eq!((env.read("looks").lines().count() >= 6, env.committed("one").as_str()), (true, "1"));
}

#[test]
fn settings_of_the_worktree_are_restored() {
    for (own, plant) in [
        (false, "printf '[core]\\n fsmonitor = touch ran; false\\n' > $G/config.worktree"),
        (true, "printf '[core]\\n fsmonitor = touch ran; false\\n' > $G/config.worktree"),
        (true, "rm $G/config.worktree"),
        (true, "ln -sf ~/mine $G/config.worktree"),
    ] {
        for is_killed in [false, true] {
            let world = World::new();
            world.env.git(&["config", "extensions.worktreeConfig", "true"]);
            if own {
                world.env.git(&["config", "--worktree", "x.y", "mine"]);
            }
            let before = Checkout::of(&world.env, &world.env.repo_path());
            let ran = if is_killed { world.killed(plant).expect(0) } else { world.tool(plant).expect(1) };
            before.assert_unchanged(&world.env, &world.env.repo_path());
            let said = if is_killed { &ran.stderr } else { &ran.stdout };
            assert!(said.contains("-main/config.worktree"), "{plant}: it is named: {ran}");
            let worktree = world.env.worktree();
            assert_eq!(world.env.git_in(&worktree, &["status", "--porcelain"]), "", "{plant}: {ran}");
            let settings = admin_dir(&world.env).join("config.worktree");
            assert_eq!(settings.exists(), own, "{plant}: {ran}");
            if own {
                assert_eq!(world.env.git_in(&worktree, &["config", "x.y"]), "mine");
            }
        }
    }
}

#[test]
fn a_per_process_repository_path_is_repaired() {
    // The first leads to the user's repository from where pleach runs, and from the worktree to another one. The second
    // does the same for whoever runs in the worktree's git directory, and has settings nobody comes to the end of.
    let elsewhere = "git init --quiet evil; mkdir evil/sub; rm -rf src; ln -s evil/sub src; \
        git -C evil config core.fsmonitor 'touch ran; false'; printf '/proc/self/cwd/src/../.git\\n' > $G/commondir";
    let endless = "mkdir $G/src; git init --quiet --bare $G/.git; mkfifo pipe; \
        git config -f $G/.git/config include.path $PWD/pipe; printf '/proc/self/cwd/src/../.git\\n' > $G/commondir";
    let gitdir = "printf '/proc/self/cwd/.git\\n' > $G/gitdir";
    for (plant, is_killed) in [(elsewhere, false), (elsewhere, true), (endless, true), (gitdir, true)] {
        let world = World::new();
        world.env.write("repo/src/f", "1\n");
        world.env.git(&["add", "src"]);
        world.env.git(&["commit", "--quiet", "-m", "A directory"]);
        if is_killed {
            world.env.configure("worktrees: {exclude: [old/]}\n");
            world.killed(plant).expect(0);
        } else {
            let ran = world.tool(plant).expect(1);
            assert!(ran.stdout.contains("-main/commondir"), "it is named: {ran}");
        }
        let (admin, worktree) = (admin_dir(&world.env), world.env.worktree());
        assert_eq!(fs::read_to_string(admin.join("commondir")).unwrap(), "../..\n", "{plant}");
        let link = worktree.canonicalize().unwrap().join(".git");
        assert_eq!(fs::read_to_string(admin.join("gitdir")).unwrap().trim_end(), link.to_str().unwrap(), "{plant}");
        world.env.git_in(&worktree, &["status", "--porcelain"]);
        assert!(!worktree.join("ran").exists(), "{plant}");
        world.pleach(&["rm", "--force", &world.env.session()]).expect(0);
    }
}

#[test]
fn a_link_in_the_worktree_is_not_written_through() {
    let world = World::new();
    world.env.write("repo/proj/bisect/notes", "theirs\n");
    world.env.write("repo/sub/file", "theirs\n");
    world.env.git(&["add", "."]);
    world.env.git(&["commit", "--quiet", "-m", "More"]);
    let before = Checkout::of(&world.env, &world.env.repo_path());
    // A node that must not write is undone.
    let command = format!("{G}; rm -rf proj sub .git; ln -s ~/proj proj; ln -s ~/proj/bisect sub; ln -s ~/mine .git");
    let node = tool("work", &command).replace("[shape", "[write=false, shape");
    world.env.write("planted.dot", graph("planted", &(node + "start -> work -> exit")));
    let ran = world.pleach(&["run", "../planted.dot", "-y"]);
    before.assert_unchanged(&world.env, &world.env.repo_path());
    assert_eq!(world.env.read("home/proj/bisect/notes"), "mine\n", "{ran}");
    assert_eq!(world.env.read("home/mine"), "mine\n", "{ran}");
    assert_eq!(fs::read_dir(world.env.root().join("home/proj/bisect")).unwrap().count(), 1, "{ran}");
    let worktree = world.env.worktree();
    assert!(!worktree.join("proj").is_symlink() && !worktree.join("sub").is_symlink(), "{ran}");
    assert_eq!(fs::read_to_string(worktree.join("proj/bisect/notes")).unwrap(), "theirs\n", "{ran}");
}

#[test]
fn the_task_and_outcome_files_do_not_follow_links() {
    let world = World::new();
    let agent = world.env.write_program(
        "agent.sh",
        "#!/bin/bash\nd=$(dirname \"$1\")\ncat \"$1\" >> asked; echo >> visits\nln -sf ~/mine \"$1\"\n\
         [ $(wc -l < visits) -lt 2 ] && echo '{\"outcome\":\"retry\"}' > \"$PLEACH_STATUS_FILE\"\n\
         [ $(wc -l < visits) -eq 2 ] && ln -sf ~/secret \"$PLEACH_STATUS_FILE\"\nexit 0\n",
    );
    world.env.write("home/secret", r#"{"outcome": "fail", "notes": "hush"}"#);
    let settings = format!("agents: {{mine: {{command: [{}, '{{prompt_file}}'], turns: node}}}}\n", agent.display());
    world.env.write("config/pleach/config.yaml", settings);
    let body = "code [prompt=\"Work on it\", agent=mine, max_retries=1] start -> code -> exit";
    world.env.write("planted.dot", graph("planted", body));
    let ran = world.pleach(&["run", "../planted.dot", "-y"]);
    world.assert_untouched(&ran);
    assert_eq!(world.env.committed("asked").matches("Work on it").count(), 2, "{ran}");
    assert!(!ran.stdout.contains("hush") && !ran.stderr.contains("hush"), "{ran}");
    assert!(ran.stdout.contains("the status file cannot be read: it is a link"), "{ran}");
}

#[test]
fn open_files_of_the_parent_are_not_inherited() {
    let world = World::new();
    let node = tool("work", "echo evil >&9; ls -l /proc/self/fd > fds; echo 1 > one");
    world.env.write("planted.dot", graph("planted", &(node + "start -> work -> exit")));
    let pleach = env!("CARGO_BIN_EXE_pleach");
    let line = format!("exec '{pleach}' run ../planted.dot -y 9>> ~/mine 8< ~/proj");
    let output = world.env.program("bash", &world.env.repo_path()).args(["-c", &line]).output().unwrap();
    let ran = world.env.finish(output).expect(0);
    world.assert_untouched(&ran);
    let fds = world.env.committed("fds");
    assert!(!fds.contains("proj") && !fds.contains("mine"), "{fds}");
}

#[test]
fn a_pipe_without_writer_is_not_waited_for() {
    let plants = [
        "mkfifo .gitignore",
        "mkfifo .gitattributes",
        "mkdir -p new/deep; mkfifo new/deep/.gitignore new/.gitattributes; echo x > new/deep/x; echo x > new/x",
        "mkfifo .gitignore sub.pipe; git init -q nested; mkdir other; mkfifo other/.gitignore; echo x > other/x",
        "git init -q nested; rm nested/.git/HEAD; mkfifo nested/.git/HEAD; mkfifo .gitignore",
        "mkfifo .gitmodules README.pipe; rm README.md; mkfifo README.md",
        "rm .git; mkfifo .git",
        "rm -f \"$PLEACH_STATUS_FILE\"; mkfifo \"$PLEACH_STATUS_FILE\"",
        "rm $G/gitdir; mkfifo $G/gitdir",
        "rm $G/commondir; mkfifo $G/commondir",
        "rm $G/HEAD; mkfifo $G/HEAD",
        "rm $G/index; mkfifo $G/index",
        "mkfifo $G/config.worktree $G/locked",
        "mkfifo ~/pipe $TMPDIR/pipe; ln -sf $TMPDIR/pipe $G/gitdir",
        "mkdir -p $G/refs/worktree; mkfifo $G/refs/worktree/x; echo 'ref: refs/worktree/x' > $G/HEAD",
    ];
    let world = World::new();
    let ran = world.tools(&plants);
    assert!(ran.code <= 1, "{ran}");
    world.assert_untouched(&ran);
    world.assert_all_done(&plants, &ran);
    let said = said(&ran);
    for name in ["gitignore", "gitattributes", "gitmodules", "status", "/.git", "-main/"] {
        assert!(said.contains(name), "{name}: {ran}");
    }
    let sid = world.env.session();
    world.pleach(&["resume", &sid, "-y"]);
    world.pleach(&["status"]).expect(0);
    world.pleach(&["rm", "--force", &sid]).expect(0);
}

#[test]
fn an_oversized_file_git_reads_is_not_read() {
    for plant in [
        "truncate -s 1G .gitignore",
        "mkdir -p new; truncate -s 1G new/.gitignore .gitattributes; echo x > new/x",
        "echo x > .gitignore; git init -q nested; truncate -s 1G nested/.git/HEAD; mkdir new; truncate -s 1G new/.gitmodules",
    ] {
        let world = World::new();
        let ran = world.tool(&format!("ulimit -f unlimited; {plant}; echo 1 > one")).expect(0);
        ran.warns("file-unreadable");
        assert_eq!(world.env.committed("one"), "1", "{plant}: {ran}");
    }
}

/// A directory below 300 others.
const DEEP: &str = "mkdir -p deep; (cd deep; for i in $(seq 300); do mkdir dddddddddddddddddddd; cd dddddddddddddddddddd; done; \
                    echo hi > f)";

#[test]
fn a_too_deep_tree_is_held_back_and_removable() {
    for more in ["", "; git init -q nested"] {
        let world = World::new();
        let ran = world.tool(&format!("{DEEP}; echo 1 > one; echo 2 > deep/two{more}")).expect(0);
        ran.warns("file-held-back").naming("`deep/");
        assert!(ran.stderr.lines().all(|line| line.len() < 400), "{ran}");
        assert_eq!(world.env.committed("one"), "1");
        assert_eq!(world.env.committed("deep/two"), "2");
        let sid = world.env.session();
        let worktree = world.env.worktree();
        let ran = world.pleach(&["rm", &sid]).expect(1);
        assert!(ran.stderr.contains("deep/") && ran.stderr.contains("would be lost"), "{ran}");
        let ran = world.pleach(&["rm", "--force", &sid]).expect(0);
        assert!(ran.stderr.contains("deep/"), "what could not be kept is named: {ran}");
        assert!(!worktree.exists() && !worktree.parent().unwrap().exists(), "{ran}");
    }
}

#[test]
fn leftovers_planted_in_a_killed_run_do_not_block() {
    for plant in [
        "rm $G/gitdir; mkfifo $G/gitdir",
        "rm $G/HEAD; mkfifo $G/HEAD",
        "mkdir $G/index.lock $G/HEAD.lock",
        ": > $G/HEAD",
        "echo 'ref: refs/heads/../../x' > $G/HEAD",
        "echo 1111111111111111111111111111111111111111 > $G/HEAD",
        "mkfifo .gitignore; rm .git; mkfifo .git",
        DEEP,
    ] {
        let world = World::new();
        world.env.unbound();
        let command =
            format!("{G}; test -e ~/again && exit 0; touch ~/again; {plant}; kill -9 $(cat ~/pid); exec sleep 60");
        world.env.write("planted.dot", graph("planted", &(tool("work", &command) + "start -> work -> exit")));
        let line = format!("echo $$ > ~/pid; exec '{}' run ../planted.dot -y", env!("CARGO_BIN_EXE_pleach"));
        world.env.program("bash", &world.env.repo_path()).args(["-c", &line]).output().unwrap();
        let sid = world.env.session();
        world.pleach(&["status"]).expect(0);
        world.pleach(&["resume", &sid, "-y"]).expect(0);
        world.pleach(&["rm", "--force", &sid]).expect(0);
    }
}

/// What sets the bounds, one after the other, as far as the machine has it.
fn walls() -> Vec<&'static str> {
    let has = os::process::sandbox::available();
    let bubblewrap = has.bubblewrap.is_some_and(|program| os::process::sandbox::bubblewrap_works(&program).is_ok());
    ["landlock:9,seccomp"].into_iter().chain(bubblewrap.then_some("bubblewrap,seccomp")).collect()
}

#[test]
fn a_link_in_a_cache_opens_nothing_next_run() {
    if skip("a_link_in_a_cache_opens_nothing_next_run", 3) {
        return;
    }
    for wall in walls() {
        let world = World::new();
        let root = world.env.root();
        // The user's own links lead on.
        fs::remove_dir(root.join("cache")).unwrap();
        fs::create_dir(root.join("disk")).unwrap();
        std::os::unix::fs::symlink("disk", root.join("cache")).unwrap();
        world.env.write("cache/pip/index", "");
        let lock = world.env.write("home/.gradle/wrapper/dists/gradle-9/1a/gradle-9.zip.lck", "");
        let (pip, real) = (root.join("cache/pip"), root.join("disk/pip"));
        let settings =
            format!("sandbox: {{network: open, rw: [{0}/mine, {1}/way/proj]}}\n", pip.display(), real.display());
        world.env.write("config/pleach/config.yaml", settings);
        let run = |command: &str| {
            let node = tool("work", command);
            world.env.write("planted.dot", graph("planted", &(node + "start -> work -> exit")));
            let mut run = world.env.command(&["-y", "run", "../planted.dot"]);
            world.env.finish(run.env("PLEACH_SANDBOX_BY", wall).output().unwrap()).expect(0)
        };
        let plant = "D=wrapper/dists/a/b; mkdir -p $D && ln -s ~ $D/x.lck && ln -s ~ mine && ln -s ~ way";
        run(&format!("(cd {} && {plant}) && echo lock > {}", pip.display(), lock.display()));
        assert!(fs::symlink_metadata(real.join("mine")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&lock).unwrap(), "lock\n", "a lock of what is downloaded is taken");
        let ran = run(&format!(
            "echo evil > ~/mine; echo evil > ~/new; rm ~/proj/*/notes; echo 1 > ~/proj/new; echo kept > {}/kept",
            pip.display()
        ));
        world.assert_untouched(&ran);
        assert!(!root.join("home/new").exists(), "{wall}: {ran}");
        assert_eq!(world.env.read("disk/pip/kept"), "kept\n", "{wall}: {ran}");
    }
}

#[test]
fn a_link_in_an_agents_home_opens_nothing() {
    if skip("a_link_in_an_agents_home_opens_nothing", 3) {
        return;
    }
    for (plant, works_on) in [
        ("rm -rf tmp history; ln -s ~ tmp; ln -s ~/proj history", true),
        ("rm -rf ../.gemini; ln -s ~/proj ../.gemini", false),
        ("rm -rf ../../outside; ln -s ~/proj ../../outside", false),
    ] {
        let world = World::new();
        world.env.write("home/.gemini/settings.json", "mine");
        world.env.write("home/.agents/notes", "mine");
        world.env.write_program(
            "bin/gemini",
            &format!(
                "#!/bin/sh\ncase \"$1\" in --version) echo 1.0; exit;; esac\ncat > asked\n\
                 if grep -q First asked; then (cd \"$GEMINI_CLI_HOME/.gemini\" && {plant}; ls -l . .. > planted)\n\
                 else echo evil > ~/mine; echo evil > ~/new; rm ~/proj/*/notes; echo 1 > two; fi\n\
                 echo '{{\"type\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}}'\n\
                 echo '{{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"Done.\"}}'\n\
                 echo '{{\"type\":\"result\",\"status\":\"success\",\"stats\":{{}}}}'\n"
            ),
        );
        world.env.configure("agent: gemini\nagents: {gemini: {turns: node}}\n");
        let body = "one [prompt=\"First\"] two [prompt=\"Second\"] start -> one -> two -> exit";
        world.env.write("planted.dot", graph("planted", body));
        let ran = world.pleach(&["run", "../planted.dot", "-y"]);
        world.assert_untouched(&ran);
        assert!(!world.env.root().join("home/new").exists(), "{plant}: {ran}");
        assert_eq!(ran.code == 0, works_on, "{plant}: {ran}");
        if works_on {
            assert_eq!(world.env.committed("two"), "1", "{plant}: {ran}");
        } else {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("in the path is a link"), "{plant}: {ran}");
        }
    }
}

#[test]
fn a_pipe_among_project_files_is_not_waited_for() {
    let files = [
        ("Makefile", 0),
        ("package.json", 0),
        ("Cargo.toml", 0),
        ("pyproject.toml", 0),
        ("requirements.txt", 0),
        ("go.mod", 0),
        (".gitignore", 0),
        ("pleach.yaml", 7),
        ("orchestra.yaml", 7),
        (".arborist/config.json", 7),
        (".env", 7),
    ];
    for (file, code) in files {
        let world = World::new();
        if file == ".env" {
            world.env.write("repo/pleach.yaml", "agent: simulation\n");
        }
        let pipe = world.env.repo_path().join(file);
        fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        world.env.program("mkfifo", &world.env.repo_path()).arg(&pipe).output().unwrap();
        let commands: &[&[&str]] = if code == 0 { &[&["init", "-y"]] } else { &[&["config"], &["status"]] };
        for command in commands {
            let ran = world.pleach(command).expect(code);
            let named = ran.stderr.contains(file) && ran.stderr.contains("a named pipe, not a file");
            assert!(named, "{file}: {ran}");
        }
        world.pleach(&["doctor"]);
    }
}

#[test]
fn a_named_pipe_argument_is_read_only_where_open() {
    let world = World::new();
    let env = &world.env;
    let dot = graph("one", &(tool("work", "echo 1 > one") + "start -> work -> exit"));
    env.write("one.dot", &dot);
    assert!(env.program("mkfifo", &env.repo_path()).arg("pipe").status().unwrap().success());
    for (command, code) in [
        (&["run", "pipe"][..], 2),
        (&["run", "/dev/zero"], 2),
        (&["validate", "pipe", "/dev/zero"], 2),
        (&["graph", "pipe"], 2),
        (&["run", "../one.dot", "--answers", "pipe"], 2),
        (&["--config", "pipe", "config"], 7),
        (&["--config", "/dev/zero", "config"], 7),
    ] {
        let ran = env.spawn(command).end_soon().expect(code);
        let named = ["it is a named pipe, not a file", "it is a device, not a file"];
        assert!(named.iter().any(|named| ran.stderr.contains(named)), "{command:?}: {ran}");
    }
    // A shell hands a pipe over that it has opened itself.
    env.pleach_with_stdin(&["validate", "/dev/stdin"], &dot).expect(0);
    env.pleach_with_stdin(&["-y", "run", "/dev/stdin"], &dot).expect(0);
    assert_eq!(env.committed("one"), "1");
    let json = env.pleach_with_stdin(&["--config", "/dev/fd/0", "--json", "config"], "agent: codex\n").expect(0).json();
    assert!(json.to_string().contains("codex"), "{json}");
}

/// A call of pleach that may do no more than its user may, also where that is root.
fn humbly(env: &TestEnv, args: &[&str]) -> Ran {
    let pleach = env!("CARGO_BIN_EXE_pleach");
    let output = if env.root().metadata().expect("a directory of the test's own").uid() == 0 {
        let without = ["--bounding-set=-all", "--inh-caps=-all", "--", pleach];
        env.program("setpriv", &env.repo_path()).args(without).args(args).output()
    } else {
        env.command(args).output()
    };
    env.finish(output.expect("it can be started"))
}

#[test]
fn unreadable_directories_do_not_block_the_next_run() {
    let test = "unreadable_directories_do_not_block_the_next_run";
    for (plant, named) in [
        ("mkdir -p d/e; echo 2 > d/e/two; chmod 000 d/e d", "`d/e`"),
        ("echo 2 > src/two; chmod 000 src", "`src`"),
        ("chmod 000 .", "/main (it was unreadable"),
        ("chmod 000 $G/index $G/HEAD; mkdir $G/zz; chmod 000 $G/zz; chmod 500 $G", "-main (it was unreadable"),
        ("chmod 000 $G", "-main (it was unreadable"),
    ] {
        let world = World::new();
        if world.env.program("setpriv", &world.env.repo_path()).arg("--version").output().is_err() {
            // The macros' output is kept back by the test harness, and this must be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: it needs setpriv");
            return;
        }
        world.env.write("repo/src/f", "1\n");
        world.env.git(&["add", "src"]);
        world.env.git(&["commit", "--quiet", "-m", "A directory"]);
        let node = tool("work", &format!("{G}; echo 1 > one; {plant}"));
        world.env.write("planted.dot", graph("planted", &(node + "start -> work -> exit")));
        let ran = humbly(&world.env, &["run", "../planted.dot", "-y"]);
        assert!(ran.stdout.contains(named) || ran.stderr.contains(named), "{plant}: it is named: {ran}");
        assert_eq!(world.env.committed("one"), "1", "{plant}: {ran}");
        if plant.contains("two") {
            assert!(world.env.files().iter().any(|file| file.ends_with("two")), "{plant}: {ran}");
        }
        humbly(&world.env, &["rm", "--force", &world.env.session()]).expect(0);
        assert!(!admin_dir(&world.env).exists(), "{plant}");
    }
}
