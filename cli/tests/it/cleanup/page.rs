//! The page about cleaning up is true: its commands are run, and say what is shown.

use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;
use crate::worktree_commands::one;

#[test]
fn the_page_about_cleanup_shows_what_happens() {
    let env = TestEnv::with_repo();
    env.write("repo/hello.dot", one("echo hello > hello").replace("digraph one", "digraph hello"));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A pipeline"]);
    shows_what_happens(&env, "docs/cleanup.md", 4);
}
