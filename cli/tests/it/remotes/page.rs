//! The page about remotes is true: its commands are run, and say what is shown.

use super::{World, one};
use crate::tree_commands::page::shows_what_happens;

#[test]
fn the_page_about_remotes_shows_what_happens() {
    let world = World::cloned();
    let repos = "    app: {path: ., remote: ../remote.git, push: on_checkpoint}";
    world.env.write("repo/pleach.yaml", format!("workspace:\n  repos:\n{repos}\n"));
    world.env.write("repo/hello.dot", one("echo hello > hello").replace("digraph one", "digraph hello"));
    world.env.write("repo/late.dot", one("echo late > late").replace("digraph one", "digraph late"));
    world.env.git(&["add", "."]);
    world.env.git(&["commit", "--quiet", "-m", "Settings"]);
    world.env.git(&["push", "--quiet"]);
    shows_what_happens(&world.env, "docs/remotes.md", 5);
}
