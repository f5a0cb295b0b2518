//! Sessions land in all their repositories, or in none.

use serde_json::json;

use super::TWO;
use crate::sessions::{graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

/// Whether `one` and `two` agree, in the directory that holds both repositories.
const AGREE: &str = "test \"$(cat app/version)\" = \"$(cat web/version)\"";

/// A workspace with these settings whose session is done: it has raised the version in both repositories.
pub fn done(settings: &str) -> TestEnv {
    let env = TestEnv::with_two_repos();
    for repo in [env.repo_path(), env.web()] {
        std::fs::write(repo.join("version"), "1\n").unwrap();
        env.git_in(&repo, &["add", "."]);
        env.git_in(&repo, &["commit", "--quiet", "-m", "Version 1"]);
    }
    env.configure(settings);
    let body = tool("raise", "echo 2 > app/version; echo 2 > web/version") + "start -> raise -> exit";
    env.run(&graph("raise", &body), &[]).expect(0);
    env
}

/// The settings of a workspace in which both are tested together.
pub fn tested() -> String {
    TWO.replace("}}}\n", &format!("}}}}, test_command: '{AGREE}'}}\n"))
}

/// The settings of a workspace with others for merges.
fn merging(settings: &str) -> String {
    format!("{TWO}merge: {{{settings}}}\n")
}

impl TestEnv {
    /// The versions on both main branches.
    #[track_caller]
    pub fn versions(&self) -> [String; 2] {
        [self.git(&["show", "main:version"]), self.git_in(&self.web(), &["show", "main:version"])]
    }

    #[track_caller]
    fn land(&self, more: &[&str]) -> Ran {
        let sid = self.session();
        let mut args = vec!["-y", "land", sid.as_str()];
        args.extend(more);
        self.pleach(&args)
    }

    fn landing_of(&self, dir: &std::path::Path) -> String {
        self.git_in(dir, &["show", "--no-patch", "--format=%(trailers:key=Pleach-Landing,valueonly)", "main"])
    }
}

#[test]
fn a_session_lands_in_all_repos() {
    let env = done(&tested());
    let sid = env.session();
    let planned = env.pleach(&["land", "--dry-run", "--json", &sid]).expect(0).json();
    assert_eq!(planned["parts"][1]["repo"], "web");
    assert_eq!(env.versions(), ["1", "1"], "nothing has moved");
    let ran = env.land(&["--json"]).expect(0).json();
    assert_eq!((&ran["outcome"], ran["landed"].as_array().unwrap().len()), (&json!("landed"), 2));
    assert_eq!(env.versions(), ["2", "2"]);
    // One landing, as both commits say; the checkouts have followed.
    let [app, web] = [env.landing_of(&env.repo_path()), env.landing_of(&env.web())];
    assert_eq!(app.trim().len(), 26);
    assert_eq!(app, web);
    assert_eq!([env.read("repo/version"), env.read("web/version")], ["2\n", "2\n"]);
    let story = env.story();
    assert_eq!(story.all("Landing").len(), 2);
    let landed: Vec<_> = story.all("Landed").iter().map(|landed| landed["repo"].clone()).collect();
    assert_eq!(landed, ["app", "web"]);
    // Nothing is left of where it was tested, and to land it again is nothing.
    let listed = env.git_in(&env.web(), &["worktree", "list"]);
    assert!(!listed.contains("/landing/"), "{listed}");
    env.land(&[]).expect(0);
    assert_eq!(env.git(&["rev-list", "--count", "main"]), "4", "one merge");
    env.pleach(&["rm", &sid]).expect(0);
}

#[test]
fn red_together_lands_nowhere() {
    let env = done(&tested());
    // Alone each of them is well; with what `web` has by now they do not agree.
    env.write("web/version", "3\n");
    env.git_in(&env.web(), &["commit", "--quiet", "-am", "Version 3"]);
    env.git_in(&env.web(), &["merge", "--quiet", "-s", "ours", "-m", "Keep it", &env.branch_in("web")]);
    let ran = env.land(&[]).expect(1);
    ran.fails_with("landing-red").naming("tests fail (exit 1)").naming("nothing has moved but web");
    assert_eq!(env.versions(), ["1", "3"]);
}

#[test]
fn a_conflict_in_one_repo_lands_nowhere() {
    let env = done(&tested());
    env.write("web/version", "9\n");
    env.git_in(&env.web(), &["commit", "--quiet", "-am", "Version 9"]);
    let ran = env.land(&[]).expect(5);
    ran.fails_with("landing-conflict").naming("`web`").naming("version").naming("nothing has moved;");
    assert_eq!(env.versions(), ["1", "9"]);
    // Resolved on the session's branch, it lands.
    let branch = env.branch_in("web");
    env.git_in(&env.web(), &["switch", "--quiet", &branch]);
    env.git_in(&env.web(), &["merge", "--quiet", "-X", "ours", "-m", "Resolve", "main"]);
    env.git_in(&env.web(), &["switch", "--quiet", "main"]);
    env.land(&[]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn a_checkout_in_the_way_holds_all_repos_up() {
    let env = done(TWO);
    env.be_impatient();
    // `app` moves first, by its name: it is not moved before `web` was looked at.
    env.write("web/version", "mine\n");
    let before = [Checkout::of(&env, &env.repo_path()), Checkout::of(&env, &env.web())];
    let ran = env.land(&[]).expect(5);
    ran.fails_with("checkout-in-the-way").naming("`web`").naming("version");
    before[0].assert_unchanged(&env, &env.repo_path());
    before[1].assert_unchanged(&env, &env.web());
    env.git_in(&env.web(), &["checkout", "--quiet", "version"]);
    env.land(&[]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn a_session_over_several_repos_lands_through_the_queue() {
    let env = done(&tested());
    let sid = env.session();
    let queued = env.pleach(&["merge", "enqueue", "--json", &sid]).expect(0).json();
    assert_eq!(queued["parts"].as_array().unwrap().len(), 2);
    assert_eq!(env.versions(), ["1", "1"], "it is only queued");
    // Another branch in the same queue lands by itself.
    env.git(&["switch", "--quiet", "-c", "other"]);
    env.write("repo/other", "1\n");
    env.git(&["add", "other"]);
    env.git(&["commit", "--quiet", "-m", "Other"]);
    env.git(&["switch", "--quiet", "main"]);
    env.pleach(&["merge", "enqueue", "other"]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
    assert_eq!(env.git(&["show", "main:other"]), "1");
}

#[test]
fn without_a_common_test_each_repo_is_tested_for_itself() {
    let env = done(&merging("test_command: 'test -e version && test -e ../web && test ! -e broken'"));
    env.write("web/broken", "");
    env.git_in(&env.web(), &["add", "broken"]);
    env.git_in(&env.web(), &["commit", "--quiet", "-m", "Break it"]);
    env.land(&[]).expect(1).fails_with("landing-red").naming("exit 1 in `web`");
    assert_eq!(env.versions(), ["1", "1"]);
    env.git_in(&env.web(), &["rm", "--quiet", "broken"]);
    env.git_in(&env.web(), &["commit", "--quiet", "-m", "Mend it"]);
    env.land(&[]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn approval_counts_for_all_repos() {
    let env = done(&merging("auto_merge_clean: false"));
    let ran = env.land(&["--json"]).expect(4).json();
    assert_eq!(ran["outcome"], "unapproved");
    env.pleach(&["-y", "merge", "process"]).expect(4);
    assert_eq!(env.versions(), ["1", "1"]);
    let approved = env.pleach(&["merge", "approve", "--json", &env.branch_in("web")]).expect(0).json();
    let repos: Vec<_> = approved["entries"].as_array().unwrap().iter().map(|entry| entry["repo"].clone()).collect();
    assert_eq!(repos, ["app", "web"]);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
    // One of them alone cannot be taken back.
    env.pleach(&["merge", "undo", &env.branch_in("web")]).expect(2).fails_with("entry-state");
}

#[test]
fn a_guess_no_test_covers_lands_nowhere() {
    let env = TestEnv::with_two_repos();
    env.configure(&tested().replace(AGREE, "true"));
    env.write("web/words", "alpha beta gamma\n");
    env.git_in(&env.web(), &["add", "words"]);
    env.git_in(&env.web(), &["commit", "--quiet", "-m", "Words"]);
    let body = tool("raise", "echo 2 > app/two; echo ALPHA beta gamma > web/words") + "start -> raise -> exit";
    env.run(&graph("raise", &body), &[]).expect(0);
    env.write("web/words", "alpha beta GAMMA\n");
    env.git_in(&env.web(), &["commit", "--quiet", "-am", "Louder"]);
    env.land(&[]).expect(5).fails_with("landing-conflict").naming("no test covers `words`");
    assert_eq!(env.git(&["ls-tree", "--name-only", "main"]), "README.md", "nowhere is nowhere");
    env.pleach(&["-y", "merge", "process"]).expect(5);
    env.pleach(&["merge", "approve", &env.branch_in("web")]).expect(0);
    env.land(&[]).expect(0);
    assert_eq!(env.git_in(&env.web(), &["show", "main:words"]), "ALPHA beta GAMMA");
    assert_eq!(env.git(&["show", "main:two"]), "2");
}

#[test]
fn the_queue_finds_what_lands_only_in_another_repo() {
    let env = TestEnv::with_two_repos();
    let body = tool("work", "echo 1 > web/one") + "start -> work -> exit";
    env.run(&graph("one", &body), &[]).expect(0);
    let sid = env.session();
    env.pleach(&["merge", "enqueue", &sid]).expect(0);
    let queues = env.pleach(&["merge", "queue", "--json"]).expect(0).json();
    assert_eq!((&queues["queues"][0]["repo"], queues["queues"].as_array().unwrap().len()), (&json!("web"), 1));
    let branch = env.branch_in("web");
    assert_eq!(env.pleach(&["merge", "why", "--json", &branch]).expect(0).json()["repo"], "web");
    env.pleach(&["merge", "drop", &branch]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.git_in(&env.web(), &["ls-tree", "--name-only", "main"]), "README.md", "it was dropped");
    env.pleach(&["merge", "enqueue", &sid]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.git_in(&env.web(), &["show", "main:one"]), "1");
}

#[test]
fn removing_a_session_takes_it_out_of_all_queues() {
    let env = done(TWO);
    let sid = env.session();
    env.pleach(&["merge", "enqueue", &sid]).expect(0);
    env.pleach(&["rm", "--force", &sid]).expect(0);
    let queues = env.pleach(&["merge", "queue", "--json"]).expect(0).json();
    let open: usize =
        queues["queues"].as_array().unwrap().iter().map(|queue| queue["entries"].as_array().unwrap().len()).sum();
    assert_eq!(open, 0, "{queues}");
}

#[test]
fn a_landing_is_finished_where_it_began() {
    let env = done(TWO);
    let sid = env.session();
    for repo in [env.repo_path(), env.web()] {
        env.git_in(&repo, &["switch", "--quiet", "-c", "release"]);
    }
    let died = env.command(&["-y", "land", &sid, "--into", "release"]).env("PLEACH_CRASH", "landing:after:1").output();
    assert!(!died.expect("pleach starts").status.success());
    let on_release = || [env.git(&["show", "release:version"]), env.git_in(&env.web(), &["show", "release:version"])];
    assert_eq!(on_release(), ["2", "1"], "it died between the two");
    let status = env.pleach(&["status", "--json", &sid]).expect(0).json();
    assert_eq!((&status["landing"][0]["target"], status["landing"].as_array().unwrap().len()), (&json!("release"), 2));
    env.land(&["--into", "main"]).expect(5).fails_with("landing-unfinished").naming("release");
    env.land(&[]).expect(0);
    assert_eq!((on_release(), env.versions()), (["2", "2"].map(String::from), ["1", "1"].map(String::from)));
    assert_eq!(env.pleach(&["status", "--json", &sid]).expect(0).json()["landing"], json!([]));
    // From then on it may land elsewhere as well.
    env.land(&["--into", "main"]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn a_queued_landing_may_go_to_another_branch_instead() {
    let env = done(TWO);
    let sid = env.session();
    env.pleach(&["merge", "enqueue", &sid]).expect(0);
    for repo in [env.repo_path(), env.web()] {
        env.git_in(&repo, &["branch", "release"]);
    }
    env.pleach(&["merge", "enqueue", &sid, "--into", "release"]).expect(0);
    env.pleach(&["-y", "merge", "process", "--into", "release"]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.git_in(&env.web(), &["show", "release:version"]), "2");
    assert_eq!(env.versions(), ["1", "1"], "only where it was queued for last");
}

#[test]
fn a_file_where_a_directory_comes_holds_all_repos_up() {
    let env = TestEnv::with_two_repos();
    env.be_impatient();
    std::fs::create_dir(env.web().join("old")).unwrap();
    env.write("web/old/file", "1\n");
    env.git_in(&env.web(), &["add", "old"]);
    env.git_in(&env.web(), &["commit", "--quiet", "-m", "Directory"]);
    let work = "echo 1 > app/one; mkdir web/new; echo 1 > web/new/file; rm -r web/old; echo 1 > web/old";
    env.run(&graph("dirs", &(tool("work", work) + "start -> work -> exit")), &[]).expect(0);
    env.write("web/new", "mine\n");
    env.land(&[]).expect(5).fails_with("checkout-in-the-way").naming("`web`").naming("new");
    assert_eq!(env.git(&["ls-tree", "--name-only", "main"]), "README.md");
    std::fs::remove_file(env.web().join("new")).unwrap();
    // What nobody has committed in a directory that becomes a file.
    env.write("web/old/mine", "mine\n");
    env.land(&[]).expect(5).fails_with("checkout-in-the-way").naming("old/mine");
    std::fs::remove_file(env.web().join("old/mine")).unwrap();
    env.land(&[]).expect(0);
    assert_eq!([env.read("web/new/file"), env.read("web/old")], ["1\n", "1\n"]);
}

#[test]
fn a_failed_setup_leaves_nothing_in_testing() {
    let env = done(&tested());
    env.configure(&format!("{}worktrees: {{setup: 'false'}}\n", tested()));
    env.land(&[]).expect(7);
    let queues = env.pleach(&["merge", "queue", "--json"]).expect(0).json();
    let states: Vec<_> =
        queues["queues"].as_array().unwrap().iter().map(|queue| queue["entries"][0]["state"].clone()).collect();
    assert_eq!(states, ["submitted", "submitted"]);
    env.configure(&tested());
    env.land(&[]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn a_session_in_one_repo_lands_as_an_entry() {
    let env = TestEnv::with_repo();
    let fails = graph("half", &(tool("work", "echo 1 > one; false") + "start -> work -> exit"));
    env.run(&fails, &[]).expect(1);
    env.pleach(&["land", &env.session()]).expect(2).fails_with("session-not-done");
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
    let dot = graph("one", &(tool("work", "echo 1 > one") + "start -> work -> exit"));
    env.run(&dot, &[]).expect(0);
    env.git(&["branch", "release"]);
    env.pleach(&["-y", "land", "--into", "release"]).expect(0);
    assert_eq!(env.git(&["show", "release:one"]), "1");
    assert_eq!(env.git(&["ls-tree", "--name-only", "main"]), "README.md");
}

#[test]
fn a_landing_cut_off_at_its_very_end_is_finished() {
    let env = done(&tested());
    let sid = env.session();
    let died = env.command(&["-y", "land", &sid]).env("PLEACH_CRASH", "landing:after:2").output();
    assert!(!died.expect("pleach starts").status.success());
    assert_eq!(env.versions(), ["2", "2"], "all has landed, and nothing says so");
    // What comes after it is no part of it, even where the tests fail on that.
    env.write("repo/version", "3\n");
    env.git(&["commit", "--quiet", "-am", "Version 3"]);
    let unfinished = || {
        let status = env.pleach(&["status", "--json", &sid]).expect(0).json();
        status["landing"].as_array().expect("a list").len()
    };
    assert_eq!(unfinished(), 2);
    env.land(&[]).expect(0);
    assert_eq!((unfinished(), env.versions()), (0, ["3", "2"].map(String::from)));
    // Cut off once it was recorded: only the mark is left.
    let mark = env.write(format!("repo/.git/pleach/landing/{sid}"), "");
    let body = tool("look", "true") + "start -> look -> exit";
    env.run(&graph("look", &body), &[]).expect(0).does_not_warn("landing-unfinished");
    assert!(!mark.exists());
}

#[test]
fn a_session_queued_by_half_is_queued_as_hinted() {
    let env = done(TWO);
    let sid = env.session();
    let died = env.command(&["merge", "enqueue", &sid]).env("PLEACH_CRASH", "ref-swap:after:1").output();
    assert!(!died.expect("pleach starts").status.success());
    let ran = env.pleach(&["-y", "merge", "process"]).expect(5);
    assert!(format!("{ran}").contains("; `pleach merge enqueue [SID]` queues the rest of it"), "{ran}");
    env.pleach(&["merge", "enqueue", &sid]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
}

#[test]
fn merge_abort_refuses_a_name_of_several_resolutions() {
    let env = TestEnv::with_two_repos();
    // Each of them on its own, before they are a workspace.
    env.configure("");
    let commit = |repo: &std::path::Path, text: &str| {
        std::fs::write(repo.join("version"), text).unwrap();
        env.git_in(repo, &["add", "version"]);
        env.git_in(repo, &["commit", "--quiet", "-m", text]);
    };
    let [app, web] = [env.repo_path(), env.web()].map(|repo| {
        env.git_in(&repo, &["switch", "--quiet", "-c", "topic"]);
        commit(&repo, "1");
        env.git_in(&repo, &["switch", "--quiet", "main"]);
        commit(&repo, "2");
        let there = |args: &[&str]| {
            let output = env.command(args).current_dir(&repo).output().expect("pleach can be started");
            env.finish(output).expect(0).json()
        };
        let id = there(&["merge", "enqueue", "topic", "--json"])["id"].as_str().expect("an id").to_owned();
        let place = there(&["merge", "resolve", "topic", "--json"])["path"].as_str().expect("a path").to_owned();
        (id, std::path::PathBuf::from(place))
    });
    env.configure(TWO);
    let ran = env.pleach(&["merge", "abort", "topic"]).expect(2);
    ran.fails_with("entry-ambiguous").naming(format!("{} in app", app.0)).naming(format!("{} in web", web.0));
    assert!(app.1.exists() && web.1.exists());
    env.pleach(&["merge", "abort", &app.0]).expect(0);
    assert!(!app.1.exists() && web.1.exists());
    // The only one that is left is meant, wherever it is.
    env.pleach(&["merge", "abort", "topic"]).expect(0);
    assert!(!web.1.exists());
}
