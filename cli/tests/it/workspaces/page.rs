//! The page about workspaces is true: its commands are run, and say what is shown.

use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

#[test]
fn the_page_about_workspaces_shows_what_happens() {
    let env = TestEnv::with_two_repos();
    for repo in [env.repo_path(), env.web()] {
        std::fs::write(repo.join("version"), "1\n").unwrap();
        env.git_in(&repo, &["add", "."]);
        env.git_in(&repo, &["commit", "--quiet", "-m", "Version 1"]);
    }
    env.configure(
        r#"workspace:
  repos:
    app: {path: repo}
    web: {path: web}
  tools:
    web: {lint: {command: "! grep -rn TODO ."}}
  test_command: test "$(cat app/version)" = "$(cat web/version)"
"#,
    );
    let body = tool("raise", "echo 2 > app/version; echo 2 > web/version") + "start -> raise -> exit";
    env.write("raise.dot", graph("raise", &body));
    shows_what_happens(&env, "docs/workspaces.md", 5);
}
