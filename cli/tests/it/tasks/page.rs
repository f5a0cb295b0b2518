//! The page about tasks is true: its commands are run, and say what is shown.

use super::world;
use crate::tree_commands::page::shows_what_happens;
use crate::trees::garden::APPROVES;

#[test]
fn the_page_about_tasks_shows_what_happens() {
    let garden = world();
    garden.configure("tree: {test_command: 'test -e hello.txt'}\n");
    let work = "case $(cat $prompt) in *greeting*) echo Hello > hello.txt ;; *) echo Bye > bye.txt ;; esac; echo Done.";
    garden.agent(work, APPROVES);
    shows_what_happens(&garden.env, "docs/tasks.md", 10);
}
