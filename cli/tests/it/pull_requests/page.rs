//! The page about pull requests is true: its commands are run, and say what is shown.

use super::{GH, goal};
use crate::remotes::World;
use crate::tree_commands::page::shows_what_happens;

#[test]
fn the_page_about_pull_requests_shows_what_happens() {
    let world = World::cloned();
    world.play("gh", GH);
    world.env.write(
        "issue.json",
        r#"{"title": "Grow faster", "body": "It is slow.", "url": "https://github.example/o/r/issues/12"}"#,
    );
    world.env.write("repo/grow.dot", goal("echo 1 > one"));
    world.env.git(&["add", "."]);
    world.env.git(&["commit", "--quiet", "-m", "A pipeline"]);
    shows_what_happens(&world.env, "docs/pull-requests.md", 3);
}
