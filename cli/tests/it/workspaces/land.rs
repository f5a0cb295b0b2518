//! Sessions land in all their repositories, or in none.

use serde_json::json;

use super::TWO;
use crate::sessions::{graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

/// Whether `one` and `two` agree, in the directory that holds both repositories.
const AGREE: &str = "test \"$(cat app/version)\" = \"$(cat web/version)\"";

/// A workspace whose session is done: it has raised the version in both repositories.
pub fn done(settings: &str) -> TestEnv {
    let env = TestEnv::with_two_repos();
    for repo in [env.repo_path(), env.web()] {
        std::fs::write(repo.join("version"), "1\n").unwrap();
        env.git_in(&repo, &["add", "."]);
        env.git_in(&repo, &["commit", "--quiet", "-m", "Version 1"]);
    }
    env.configure(&format!("{TWO}{settings}"));
    let body = tool("raise", "echo 2 > app/version; echo 2 > web/version") + "start -> raise -> exit";
    env.run(&graph("raise", &body), &[]).expect(0);
    env
}

pub fn tested() -> String {
    format!("merge: {{test_command: '{}'}}\n", AGREE.replace('\'', "''"))
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
    let env = done("");
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
    env.configure(&format!("{TWO}merge: {{test_command: 'test -e app || test -e README.md'}}\n"));
    env.pleach(&["merge", "enqueue", "other"]).expect(0);
    env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(env.versions(), ["2", "2"]);
    assert_eq!(env.git(&["show", "main:other"]), "1");
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
