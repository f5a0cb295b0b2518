//! The page about comparing runs is true: its commands are run, and say what is shown.

use super::{SCRIPT, work};
use crate::support::TestEnv;
use crate::tree_commands::page::shows_what_happens;

#[test]
fn the_page_about_comparing_shows_what_happens() {
    let env = TestEnv::with_script(SCRIPT);
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\ntest_command: sh sum.sh\n");
    env.write("repo/work.dot", work());
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A pipeline"]);
    shows_what_happens(&env, "docs/compare.md", 4);
}
