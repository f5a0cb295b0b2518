//! Repositories of all shapes, and branches with names nobody expects.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::garden::{APPROVES, Garden, Tree, WRITES};

#[test]
fn a_master_branch_is_as_good_as_a_main_one() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["branch", "--move", "main", "master"]);
    garden.gardener(&[]).expect(0);
    let told = garden.told("master");
    assert_eq!(told.last().unwrap(), "T001 complete");
    assert!(garden.newest("master", "T001 complete").subject.starts_with("task(master@T001@complete): "));
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.target() == "master" && ran.tasks_done() == (1, 1), "{ran}");
}

#[test]
fn a_branch_may_have_any_name_git_allows() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let branch = "feature/a@b)x%2F";
    garden.configure("tree: {delete_branches: false}\n");
    garden.switch_to_new(branch);
    garden.gardener(&[]).expect(0);
    let told = garden.told(branch);
    assert_eq!(told.iter().filter(|status| status.ends_with(" complete")).count(), 2);
    let done = garden.newest(branch, "T002 complete");
    assert_eq!(done.subject, "task(feature/a@b)x%2F@T002@complete): complete \"Grow T002\"");
    assert_eq!(
        garden.refs("refs/heads/pleach/"),
        ["refs/heads/pleach/tasks/feature%2Fa@b)x%252F/T001", "refs/heads/pleach/tasks/feature%2Fa@b)x%252F/T002"]
    );
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (2, 2), "{ran}");
}

#[test]
fn work_done_on_another_branch_does_not_count() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    garden.switch_to_new("feature");
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.target() == "feature" && ran.tasks_done() == (0, 1), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.env.git(&["merge", "--quiet", "--ff-only", "feature"]);
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.target() == "main" && ran.tasks_done() == (1, 1), "merged steps of another branch: {ran}");
}

#[test]
fn two_trees_can_be_worked_one_after_the_other() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("specs/b/task-tree.json", &Tree::of(&["T001", "T002"]).json());
    garden.gardener(&[]).expect(0);
    let second = ["--tree", "specs/b/task-tree.json"];
    let ran = garden.gardener(&second).expect(0);
    assert_eq!(ran.tasks_done(), (0, 2), "the same id in another tree is another task: {ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    let starts = garden.steps("main").into_iter().filter(|step| step.status == "run-start");
    let trees: Vec<String> = starts.map(|step| step.trailer("Pleach-Tree").unwrap_or_default().to_owned()).collect();
    assert_eq!(trees, ["task-tree.json", "specs/b/task-tree.json"]);
    for (args, done) in [(&[][..], "1 of 1 task done"), (&second[..], "2 of 2 tasks done")] {
        let ran = garden.gardener(args).expect(0);
        assert!(ran.stderr.contains(done), "{ran}");
    }
}

#[test]
fn a_fresh_run_restarts() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    garden.gardener(&[]).expect(0);
    garden.agent("echo again > T001.txt", APPROVES);
    let ran = garden.gardener(&["--fresh"]).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "again", "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert_eq!(garden.newest("main", "T001 implement-pass").trailer("Arborist-Retry"), Some("0"));
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
}

#[test]
fn a_fresh_run_does_not_resume_interrupted_work() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = crate::sessions::Gate::new(&garden.env, "review");
    garden.agent("echo old > old", &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
    garden.gardener(&["--fresh"]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert_eq!(garden.file("refs/pleach/keep/T001-1", "old"), "old");
}

#[test]
fn a_linked_worktree_is_a_checkout_like_any_other() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let side = garden.env.root().join("side");
    let place = side.to_str().unwrap();
    garden.env.git(&["worktree", "add", "--quiet", "-b", "beside", place]);
    let ran = garden.env.pleach(&["-y", "-C", place, "gardener"]).expect(0);
    garden.assert_in_order();
    assert_eq!(ran.target(), "beside", "{ran}");
    assert_eq!(garden.told("beside").last().unwrap(), "T001 complete");
    assert_eq!(garden.told("main"), [""; 0]);
    assert_eq!(garden.env.read("side/T001.txt"), "T001 1\n", "its files follow");
    assert!(!garden.env.repo_path().join("T001.txt").exists());
    assert_eq!(garden.env.git_in(&side, &["status", "--porcelain"]), "");
}

#[test]
fn a_bare_repository_is_worked_without_a_checkout() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let bare = garden.env.root().join("bare.git");
    let place = bare.to_str().unwrap();
    garden.env.git(&["clone", "--quiet", "--bare", ".", place]);
    // Not even where a tree is in the directory pleach was started in.
    for at in [&["gardener", "--target-repo", place][..], &["-C", place, "gardener"]] {
        let ran = garden.env.pleach(at).expect(2);
        ran.fails_with("no-tree").naming("bare.git`").naming("--tree");
    }
    let tree = garden.env.root().join("repo/task-tree.json");
    let ran = garden.env.pleach(&["-y", "-C", place, "gardener", "--tree", tree.to_str().unwrap()]).expect(0);
    assert_eq!(ran.target(), "main", "{ran}");
    assert_eq!(garden.env.git_in(&bare, &["show", "main:T001.txt"]), "T001 1");
}

#[test]
fn another_repository_can_be_named() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let ran = garden.env.pleach(&["gardener", "--target-repo", "nowhere"]).expect(2);
    ran.fails_with("not-a-directory").naming("nowhere`");
    let other = garden.env.repo_at("other");
    garden.gardener(&["--target-repo", other.to_str().unwrap(), "--tree", "task-tree.json"]).expect(0);
    assert_eq!(garden.env.git_in(&other, &["show", "main:T001.txt"]), "T001 1");
    assert_eq!(garden.told("main"), [""; 0]);
    let log = garden.env.git_in(&other, &["log", "-1", "--format=%B"]);
    assert!(log.contains("Report: spec/reports/T001_run_"), "an untracked tree has no place of its own: {log}");
    assert!(log.contains("Pleach-Tree: task-tree.json"), "{log}");
}

#[test]
fn a_subdirectory_finds_the_repository_and_the_tree() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("deep/down/file", "x\n");
    let place = garden.env.repo_path().join("deep/down");
    garden.env.pleach(&["-y", "-C", place.to_str().unwrap(), "gardener"]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
}

#[test]
fn a_user_without_a_name_needs_none() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["config", "commit.gpgsign", "true"]);
    garden.env.git(&["config", "gpg.program", "/bin/false"]);
    garden.env.git(&["config", "merge.ff", "false"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_branch_blocking_all_others_is_named() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["branch", "pleach"]);
    let ran = garden.gardener(&[]);
    ran.fails_with("name-invalid").naming("`pleach`");
    assert!(ran.code != 0, "{ran}");
    assert_eq!(garden.env.git(&["log", "--format=%s", "--grep=run-start"]), "", "nothing is begun that cannot go on");
    garden.env.git(&["branch", "--move", "pleach", "mine"]);
    garden.gardener(&[]).expect(0);
}

#[test]
fn commits_an_agent_makes_itself_are_part_of_its_step() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent("echo $task > $task; git add $task; git commit -qm 'My own commit'; echo more > $task.more", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "T001", "T001.more", "T002", "T002.more", "task-tree.json"]);
    assert_eq!(garden.told("main").len(), 6);
    let own = garden.env.git(&["log", "--all", "--format=%H", "--grep=My own commit"]);
    assert_eq!(own.lines().count(), 2, "its commits are kept");
    assert_eq!(garden.env.git(&["log", "main", "--format=%H", "--grep=My own commit"]), "");
}

#[test]
fn an_agent_in_the_user_s_checkout_is_noticed() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("sandbox: {mode: off}\n");
    let there = garden.env.repo_path().join("README.md");
    garden.agent(&format!("{WRITES}; echo meddled > '{}'", there.display()), APPROVES);
    let ran = garden.env.pleach(&["-y", "gardener"]);
    ran.warns("changed-outside").naming("README.md");
    garden.assert_in_order();
}

#[test]
fn what_a_run_has_written_is_packed_when_it_ends() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003", "T004"]));
    let counts = || {
        let counts = garden.env.git(&["count-objects", "-v"]);
        let count = |key: &str| counts.lines().find_map(|line| line.strip_prefix(key)?.parse::<usize>().ok());
        (count("count: ").unwrap(), count("in-pack: ").unwrap())
    };
    let (before, packed) = counts();
    assert_eq!(packed, 0);
    garden.gardener(&[]).expect(0);
    let (after, packed) = counts();
    assert!(packed >= 100, "{packed} objects of four tasks are packed");
    // The user's own stay as they were.
    assert!((before..before + 10).contains(&after), "{before} loose objects before, {after} now");
    garden.env.git(&["fsck", "--strict", "--no-dangling"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (4, 4), "{ran}");
}

/// Clones the repository, no deeper than this.
fn clone(garden: &Garden, depth: &str) -> String {
    let url = format!("file://{}", garden.env.repo_path().display());
    let clone = garden.env.root().join(format!("clone-{depth}")).display().to_string();
    garden.env.git(&["clone", "--quiet", "--depth", depth, &url, &clone]);
    clone
}

#[test]
fn a_shallow_clone_redoes_nothing_unseen() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.garden(&[]).expect(0);
    garden.garden(&[]).expect(0);
    let at = clone(&garden, "1");
    let decided = [&["skip", "T003"], &["reset", "T002"]];
    for args in [&["garden"][..], &["gardener"], &["gardener", "--dry-run"]].into_iter().chain(decided.map(|d| &d[..]))
    {
        let ran = garden.env.pleach(&[&["-y", "-C", &at], args].concat()).expect(2);
        ran.fails_with("shallow-clone").naming("--unshallow`");
    }
    let ran = garden.env.pleach(&["-C", &at, "status"]).expect(0);
    assert!(ran.stdout.contains("fetch --unshallow`"), "{ran}");
    assert_eq!(garden.env.pleach(&["-C", &at, "status", "--json"]).json()["trees"][0]["cut_off"], true);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    garden.env.git(&["-C", &at, "fetch", "--quiet", "--unshallow"]);
    let ran = garden.env.pleach(&["-C", &at, "status"]).expect(0);
    assert!(ran.tasks_done() == (2, 3) && !ran.stdout.contains("unshallow"), "{ran}");
}

#[test]
fn a_shallow_clone_shows_what_it_has_and_lacks() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.gardener(&[]).expect(0);
    // The step it is cut off at, an implement step, is there without what it was made on.
    let at = clone(&garden, "3");
    let rest = "shallow clone: completed steps may be missing; `git fetch --unshallow` fetches the rest";
    let ran = garden.env.pleach(&["-C", &at, "logs"]).expect(0);
    assert!(ran.stderr.contains(rest), "{ran}");
    assert_eq!(garden.env.pleach(&["-C", &at, "logs", "--json"]).expect(0).json()["cut_off"], true);
    let ran = garden.env.pleach(&["-C", &at, "reports"]).expect(0);
    assert!(ran.stdout.contains("T002  pass") && ran.stderr.contains(rest), "{ran}");
    assert_eq!(garden.env.pleach(&["-C", &at, "reports", "--json"]).expect(0).json()["cut_off"], true);
    let ran = garden.env.pleach(&["-C", &at, "inspect", "T002"]).expect(0);
    assert!(ran.stdout.contains(rest) && ran.stdout.contains("implement-pass"), "{ran}");
    let ran = garden.env.pleach(&["-C", &at, "inspect", "T001"]).expect(0);
    assert!(ran.stdout.contains(rest) && !ran.stdout.contains("implement-pass"), "{ran}");
    assert_eq!(garden.env.pleach(&["-C", &at, "inspect", "T001", "--json"]).expect(0).json()["cut_off"], true);
    let ran = garden.env.pleach(&["-C", &at, "show", "HEAD~2"]).expect(0);
    ran.warns("shallow-clone").naming("`git fetch --unshallow`");
    garden.env.git(&["-C", &at, "fetch", "--quiet", "--unshallow"]);
    for command in [&["logs"][..], &["reports"], &["inspect", "T001"], &["show", "HEAD~2"]] {
        let ran = garden.env.pleach(&[&["-C", &at], command].concat()).expect(0);
        assert!(!format!("{ran}").contains("shallow"), "{ran}");
    }
}

#[test]
fn a_shallow_clone_with_the_run_start_suffices() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.garden(&[]).expect(0);
    garden.garden(&[]).expect(0);
    let depth = garden.env.git(&["rev-list", "--count", "main", "--grep=^Arborist-Step: "]);
    let at = clone(&garden, &depth);
    let ran = garden.env.pleach(&["-y", "-C", &at, "gardener"]).expect(0);
    assert_eq!(ran.tasks_done(), (2, 3), "{ran}");
    assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T003", "implement")), (1, 1));
    // One that starts again needs nothing of what was before.
    let at = clone(&garden, "1");
    garden.env.pleach(&["-y", "-C", &at, "gardener", "--fresh", "--dry-run"]).expect(0);
    garden.env.pleach(&["-y", "-C", &at, "garden", "--fresh"]).expect(0);
    garden.env.pleach(&["-y", "-C", &at, "gardener"]).expect(0);
    garden.env.pleach(&["-y", "-C", &at, "gardener"]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn a_run_start_beside_a_cut_proves_nothing() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002", "T003"]).phase("phase2", &["T004"]));
    garden.garden(&["--isolation", "phase"]).expect(0);
    garden.garden(&["--isolation", "phase"]).expect(0);
    garden.garden(&["--isolation", "phase"]).expect(0);
    // The first parent of the merge is the start of the run, and the steps of the phase are cut off beside it.
    let at = clone(&garden, "3");
    let ran = garden.env.pleach(&["-y", "-C", &at, "gardener", "--isolation", "phase"]).expect(2);
    ran.fails_with("shallow-clone").naming("--unshallow`");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn unseen_steps_count_once_fetched() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.pleach(&["skip", "T001"]).expect(0);
    // More than it takes to have what was read kept.
    for _ in 0..110 {
        garden.env.git(&["commit", "--quiet", "--allow-empty", "-m", "Go on"]);
    }
    let at = clone(&garden, "105");
    let ran = garden.env.pleach(&["-C", &at, "status"]).expect(0);
    assert_eq!(ran.tasks_done(), (0, 2), "{ran}");
    garden.env.git(&["-C", &at, "fetch", "--quiet", "--unshallow"]);
    let ran = garden.env.pleach(&["-C", &at, "status"]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 2), "{ran}");
}

#[test]
fn a_tree_whose_name_no_commit_can_hold_is_refused() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for path in ["two  spaces/task-tree.json", " before.json", "behind.json ", "a\ttab.json", "a\nline.json"] {
        garden.commit(path, &Tree::of(&["T001"]).json());
        let ran = garden.gardener(&["--tree", path]).expect(2);
        ran.fails_with("name-invalid")
            .naming("a commit message cannot hold the path of the tree")
            .naming("rename the file or its directory");
    }
    for name in [&b"a\xff"[..], b"a\xfe"] {
        let path = Path::new(OsStr::from_bytes(name)).join("task-tree.json");
        garden.env.write(garden.env.repo_path().join(&path), Tree::of(&["T001"]).json());
        let asked = |command: &str| {
            let mut command = garden.env.command(&["-y", command, "--tree"]);
            garden.env.finish(command.arg(&path).output().unwrap()).expect(2)
        };
        for ran in [asked("gardener"), asked("status")] {
            ran.fails_with("name-invalid")
                .naming("a\\xF")
                .naming("it is not UTF-8")
                .naming("rename the file or its directory");
        }
    }
    assert_eq!(garden.times_asked("T001", "implement"), 0);
    let odd = "one space/\u{a0}\u{e4}#x: y.json";
    garden.commit(odd, &Tree::of(&["T001"]).json());
    garden.gardener(&["--tree", odd]).expect(0);
    let ran = garden.gardener(&["--tree", odd]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
}

#[test]
fn a_tree_in_a_submodule_is_not_committed_here() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["init", "--quiet", "sub"]);
    let sub = garden.env.repo_path().join("sub");
    garden.env.write(sub.join("task-tree.json"), Tree::of(&["S001"]).json());
    garden.env.git_in(&sub, &["add", "."]);
    garden.env.git_in(&sub, &["commit", "--quiet", "-m", "Plan"]);
    garden.env.git(&["-c", "advice.addEmbeddedRepo=false", "add", "sub"]);
    garden.env.git(&["commit", "--quiet", "-m", "Take it in"]);
    garden.gardener(&["--tree", "sub/task-tree.json"]).expect(0);
    let done = garden.newest("main", "S001 complete");
    assert!(done.trailer("Arborist-Report").is_some_and(|path| path.starts_with("spec/reports/")), "{done:?}");
    assert_eq!(done.trailer("Pleach-Tree"), Some("sub/task-tree.json"));
}

#[test]
fn cherry_picked_steps_are_read_and_count_once() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let before = garden.env.git(&["rev-parse", "main"]);
    garden.garden(&[]).expect(0);
    let worked = garden.env.git(&["rev-parse", "main"]);
    garden.env.git(&["reset", "--quiet", "--hard", &before]);
    garden.commit("mine", "by the user\n");
    garden.env.git(&["cherry-pick", "-x", "--allow-empty", &format!("{before}..{worked}")]);
    let seen = |env: &crate::support::TestEnv| env.pleach(&["inspect", "T001"]).expect(0).stdout;
    let once = seen(&garden.env);
    assert!(once.contains("complete") && once.contains("attempts     1, 1 of this budget"), "{once}");
    garden.env.git(&["merge", "--quiet", "-s", "ours", "-m", "Both", &worked]);
    let both = seen(&garden.env);
    assert!(both.contains("attempts     1, 1 of this budget"), "{both}");
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T002", "implement")), (1, 1));
}

#[test]
fn commits_that_git_replaces_are_built_on_as_they_are() {
    for is_graft in [true, false] {
        let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
        let git = |args: &[&str]| garden.env.git(args);
        let root = git(&["rev-list", "--max-parents=0", "HEAD"]);
        let older = git(&["commit-tree", "-m", "An older history", "HEAD^{tree}"]);
        if is_graft {
            git(&["replace", "--graft", &root, &older]);
        } else {
            git(&["replace", "HEAD", &older]);
        }
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002"], "{ran}");
        assert_eq!(garden.env.read("repo/T002.txt"), "T002 1\n", "{ran}");
        assert_eq!(git(&["status", "--porcelain"]), "", "{ran}");
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(ran.tasks_done(), (2, 2), "{ran}");
    }
}

#[test]
fn a_symbolic_branch_is_named_with_its_target() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    garden.env.git(&["symbolic-ref", "HEAD", "refs/heads/alias"]);
    let ran = garden.gardener(&[]).expect(2);
    ran.fails_with("repository-unsupported").naming("`alias`").naming("`main`").naming("`git switch main`");
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_branch_name_too_long_for_files_is_refused() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    // `/` takes three bytes.
    for long in ["b".repeat(237), format!("{}/b", "b".repeat(233))] {
        garden.switch_to_new(&long);
        let asks = [&["gardener"][..], &["gardener", "--dry-run"], &["skip", "T001"]];
        for ask in asks {
            let ran = garden.env.pleach(&[&["-y"], ask].concat()).expect(2);
            ran.fails_with("branch-name-too-long").naming(format!("`{long}`")).naming("`git switch -c NAME`");
        }
        garden.env.pleach(&["status"]).expect(0);
        assert!(garden.steps(&long).is_empty());
    }
    let longest = format!("{}/b", "b".repeat(232));
    garden.switch_to_new(&longest);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told(&longest).last().unwrap(), "T001 complete");
}

#[test]
fn broken_worktree_links_are_reported_with_a_fix() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let files = garden.env.root().join("files");
    garden.env.git(&["worktree", "add", "--quiet", "--detach", &files.display().to_string()]);
    std::fs::remove_file(files.join(".git")).unwrap();
    garden.env.git(&["worktree", "prune"]);
    garden.env.git(&["config", "core.worktree", &files.display().to_string()]);
    garden.env.pleach(&["status"]).expect(0);
    let link = format!("gitdir: {}", garden.env.repo_path().join(".git").display());
    for command in [&["-y", "gardener"][..], &["skip", "T001"]] {
        let ran = garden.env.pleach(command).expect(2);
        ran.fails_with("repository-unsupported").naming("`core.worktree`");
        assert!(ran.stderr.contains(&format!("`{link}`")), "{ran}");
        assert!(!ran.stderr.contains("git init"), "{ran}");
    }
    assert_eq!(garden.times_asked("T001", "implement"), 0);
    garden.env.write("files/.git", format!("{link}\n"));
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    assert_eq!(garden.env.read("files/T001.txt"), "T001 1\n");
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
}
