//! The page about the mirror is true: its commands are run, and say what is shown.

use super::MirroredEnv;
use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

const BODY: &str =
    "ok [shape=hexagon, label=\"Is it good?\"] start -> greet -> ok; ok -> exit [label=Yes]; ok -> greet [label=No]";

#[test]
fn the_page_about_the_mirror_shows_what_happens() {
    let env = MirroredEnv::of(TestEnv::with_repo());
    env.write("repo/hello.dot", graph("hello", &(tool("greet", "echo hello > hello") + BODY)));
    shows_what_happens(&env, "docs/cxdb.md", 6);
}
